//! A host: a network namespace with one TUN device, whose other end the emulator holds.
//!
//! The namespace has no name. Only our descriptor and the sockets in it keep it alive, so the kernel removes it with
//! this process, however that ends. The device's name still carries the run's mark.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netlink_packet_route::route::RouteMetric;

use crate::error::{Doing, LiveError};
use crate::netlink::Netlink;
use crate::sys::{self, Tun};

/// Packets that a device can hold for the emulator: more than any window in use, so that none is lost here.
const DEVICE_QUEUE: u32 = 100_000;
/// The smallest queue to ask for where a kernel refuses more.
const LEAST_QUEUE: u32 = 1_000;

/// A flow's route to its peer, which carries the settings that the kernel keeps by route instead of by host.
#[derive(Clone, Debug)]
pub struct PeerRoute {
    /// The flow it belongs to.
    pub flow: u32,
    /// The peer.
    pub destination: IpAddr,
    /// Source address for a program that chose none.
    pub source: IpAddr,
    /// Largest IP packet, if it differs from the device's.
    pub mtu: Option<u32>,
    /// Kernel name of the congestion control for connections, opened or accepted, that choose none.
    pub congestion: Option<String>,
    /// Initial window in segments.
    pub initial_window: u32,
    /// Connections use ECN.
    pub ecn: bool,
    /// Minimum RTO in milliseconds.
    pub rto_min_ms: u32,
    /// Every segment is acknowledged at once (quickack).
    pub acknowledges_at_once: bool,
}

impl PeerRoute {
    fn metrics(&self) -> Vec<RouteMetric> {
        /// RTAX_FEATURE_ECN.
        const ECN: u32 = 1;
        /// The bit of RTAX_RTO_MIN: the kernel respects the value only if it is locked.
        const LOCKED_RTO_MIN: u32 = 1 << 13;
        let mut metrics = vec![
            RouteMetric::InitCwnd(self.initial_window),
            RouteMetric::Lock(LOCKED_RTO_MIN),
            RouteMetric::RtoMin(self.rto_min_ms),
        ];
        metrics.extend(self.ecn.then_some(RouteMetric::Features(ECN)));
        metrics.extend(self.acknowledges_at_once.then_some(RouteMetric::QuickAck(1)));
        metrics.extend(self.mtu.map(RouteMetric::Mtu));
        metrics.extend(self.congestion.clone().map(RouteMetric::CcAlgo));
        metrics
    }
}

/// Settings of a host before its device comes up.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `net.*` settings by path below /proc/sys, written only in this namespace.
    pub sysctls: BTreeMap<String, String>,
    /// Largest IP packet.
    pub mtu: u32,
    /// Most segments in a burst that is cut by the device (GSO); `None` for the kernel's choice.
    pub bursts: Option<u32>,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
    /// Routes to single peers.
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
    /// Creates a host; `mark` is the run's.
    pub fn make(name: &str, mark: &str, settings: &Settings) -> Result<Self, LiveError> {
        let device = format!("{mark}-tun");
        // In a thread of its own, because a thread that enters a namespace stays there.
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

    /// Runs `work` inside the host, in a thread of its own.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                sys::enter_network(self.namespace())?;
                work()
            });
            inside.join().expect("work inside a host does not panic")
        })
    }

    /// Packets that the device dropped because the emulator did not read them in time.
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
    let speaks_v6 = settings.addresses.iter().any(IpAddr::is_ipv6);
    if speaks_v6 || fs::exists(IPV6)? {
        set_v6(device, speaks_v6)?;
    }
    let mut netlink = Netlink::open()?;
    // The loopback device always has index 1.
    netlink.set_up(1, None, None).map_err(while_doing("bringing loopback up"))?;
    let index = netlink.index_of(device).map_err(while_doing("asking for the device"))?;
    bring_up(&mut netlink, index, settings.mtu).map_err(while_doing("bringing the device up"))?;
    if let Some(segments) = settings.bursts {
        netlink.set_bursts(index, segments).map_err(while_doing("setting the size of bursts"))?;
    }
    for address in &settings.addresses {
        netlink.add_address(index, *address).map_err(while_doing("adding an address"))?;
    }
    for like in [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()] {
        let is_spoken = |address: &IpAddr| address.is_ipv6() == IpAddr::is_ipv6(&like);
        if settings.addresses.iter().any(is_spoken) {
            netlink.add_default_route(index, like).map_err(while_doing("adding a route"))?;
        }
    }
    for route in &settings.routes {
        let added = netlink.add_route_to(index, route.destination, route.source, route.metrics());
        added.map_err(|error| {
            let control = route.congestion.as_deref().unwrap_or("none");
            io::Error::new(
                error.kind(),
                format!("a way to {} (congestion control {control}): {error}", route.destination),
            )
        })?;
    }
    Ok((namespace, tun))
}

/// Directory of the kernel's IPv6 settings, if it supports IPv6.
pub const IPV6: &str = "/proc/sys/net/ipv6";

/// Enables IPv6 on a device with only the given addresses, or disables it. Router and neighbour discovery would be
/// noise on the path.
fn set_v6(device: &str, speaks: bool) -> io::Result<()> {
    let mut all = vec![(format!("conf/{device}/disable_ipv6"), if speaks { "0" } else { "1" })];
    if speaks {
        // Mode 1: the kernel adds no link-local address, so it reports no multicast groups.
        let quiet = [("accept_ra", "0"), ("router_solicitations", "0"), ("addr_gen_mode", "1")];
        all.extend(quiet.map(|(name, value)| (format!("conf/{device}/{name}"), value)));
        all.push(("conf/lo/disable_ipv6".into(), "0"));
        // As for IPv4: replies to our own dropped packets would come at unpredictable times.
        all.push(("icmp/ratelimit".into(), "0"));
    }
    for (name, value) in all {
        fs::write(format!("{IPV6}/{name}"), value)
            .map_err(|error| io::Error::new(error.kind(), format!("setting net/ipv6/{name}: {error}")))?;
    }
    Ok(())
}

/// Brings the device up with the longest queue that this kernel allows; some limit it to less than we ask (6.1.192).
pub fn bring_up(netlink: &mut Netlink, index: u32, mtu: u32) -> io::Result<()> {
    let mut queue = DEVICE_QUEUE;
    loop {
        match netlink.set_up(index, Some(mtu), Some(queue)) {
            Err(error) if error.raw_os_error() == Some(libc::ERANGE) && queue > LEAST_QUEUE => queue /= 2,
            done => return done,
        }
    }
}

fn while_doing(what: &str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}
