//! A host: a network namespace of its own with one TUN device, whose other end the emulator holds.
//!
//! The namespace has no name. Only our descriptor and the sockets in it keep it alive, so the kernel removes it
//! with this process, however that ends. The device's name carries the run's mark all the same.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netlink_packet_route::route::RouteMetric;

use crate::error::{Doing, LiveError};
use crate::netlink::Netlink;
use crate::sys::{self, Tun};

/// Packets a device may hold for the emulator to fetch: more than any window in use, so that none is lost here.
const DEVICE_QUEUE: u32 = 100_000;

/// A way to one peer that differs from the way to everybody: programs' connections take their settings from it.
#[derive(Clone, Debug)]
pub struct PeerRoute {
    /// The peer.
    pub destination: Ipv4Addr,
    /// The address a program has that asked for none.
    pub source: Ipv4Addr,
    /// Largest IP packet.
    pub mtu: u32,
    /// Congestion control of connections, either way begun, by the kernel's name.
    pub congestion: String,
}

/// What a host is told before its device comes up.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `net.*` settings by path below /proc/sys, written in this namespace only.
    pub sysctls: BTreeMap<String, String>,
    /// Largest IP packet.
    pub mtu: u32,
    /// Segments in a burst that leaves as one and is cut on the way out; `None`: as many as the kernel likes.
    pub bursts: Option<u32>,
    /// Initial window in segments.
    pub initial_window: Option<u32>,
    /// Addresses.
    pub addresses: Vec<Ipv4Addr>,
    /// Ways to single peers.
    pub routes: Vec<PeerRoute>,
}

/// A host.
#[derive(Debug)]
pub struct Host {
    /// The scenario's name for it.
    pub name: String,
    namespace: OwnedFd,
    tun: Tun,
    device: String,
}

impl Host {
    /// Make a host; `mark` is the run's.
    pub fn make(name: &str, mark: &str, settings: &Settings) -> Result<Self, LiveError> {
        let device = format!("{mark}-tun");
        // A thread of its own: whoever enters a namespace stays there.
        let made = std::thread::scope(|scope| {
            scope.spawn(|| make(&device, settings)).join().expect("making a host does not panic")
        });
        let (namespace, tun) = made.doing(&format!("making host {name}"))?;
        Ok(Host { name: name.into(), namespace, tun, device })
    }

    /// The emulator's end of the device.
    pub fn tun(&self) -> &Tun {
        &self.tun
    }

    /// The namespace.
    pub fn namespace(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }

    /// Do `work` inside the host, in a thread of its own.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                sys::enter_network(self.namespace())?;
                work()
            });
            inside.join().expect("work inside a host does not panic")
        })
    }

    /// Packets the device threw away because the emulator did not fetch them.
    pub fn device_drops(&self) -> io::Result<u64> {
        self.inside(|| Netlink::open()?.dropped_by(&self.device))
    }
}

fn make(device: &str, settings: &Settings) -> io::Result<(OwnedFd, Tun)> {
    sys::unshare_network()?;
    let namespace = OwnedFd::from(fs::File::open("/proc/thread-self/ns/net")?);
    for (path, value) in &settings.sysctls {
        fs::write(format!("/proc/sys/{path}"), value)
            .map_err(|error| io::Error::other(format!("setting {path} to {value}: {error}")))?;
    }
    let tun = Tun::open(device, settings.bursts.is_none_or(|segments| segments > 1))?;
    // Neighbour discovery and the like would only be noise on the path.
    let quiet = format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6");
    if fs::exists(&quiet)? {
        fs::write(quiet, "1")?;
    }
    let mut netlink = Netlink::open()?;
    // The loopback device is always the first.
    netlink.set_up(1, None, None)?;
    let index = netlink.index_of(device)?;
    netlink.set_up(index, Some(settings.mtu), Some(DEVICE_QUEUE))?;
    if let Some(segments) = settings.bursts {
        netlink.set_bursts(index, segments)?;
    }
    for address in &settings.addresses {
        netlink.add_address(index, *address)?;
    }
    let metrics: Vec<RouteMetric> = settings.initial_window.map(RouteMetric::InitCwnd).into_iter().collect();
    netlink.add_default_route(index, metrics.clone())?;
    for route in &settings.routes {
        let mut metrics = metrics.clone();
        metrics.push(RouteMetric::Mtu(route.mtu));
        metrics.push(RouteMetric::CcAlgo(route.congestion.clone()));
        let added = netlink.add_route_to(index, route.destination, route.source, metrics);
        added.map_err(|error| {
            io::Error::new(error.kind(), format!("choosing congestion control {}: {error}", route.congestion))
        })?;
    }
    Ok((namespace, tun))
}
