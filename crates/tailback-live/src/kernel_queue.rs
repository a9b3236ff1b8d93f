//! A link's queue by a discipline of the kernel, on a device in a namespace of its own.
//!
//! The emulator puts each packet into the device's queue and takes it out where transmission would begin. The
//! discipline stands in an HTB class at the link's rate. HTB dequeues a packet when the previous one's transmission
//! time is over, as a device does; the qdisc tbf would dequeue one packet early, out of the discipline's control. The
//! packet then crosses the emulator's link, which adds its own transmission time and the rest of the path.
//!
//! The kernel does not allow a BPF queue inside a class. It stands directly at the device, which has room for one
//! packet and is read when the link is free. That packet is out of the discipline's control, like a packet in a network
//! card.

mod inside;
pub mod options;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netlink_packet_route::tc::TcHandle;
use tailback_core::packet::{Ecn, Packet};
use tailback_core::params::Checked;
use tailback_core::queue::{dscp, outside};
use tailback_core::scenario::Scenario;
use tailback_core::time::{Duration, Time};

use self::inside::{Inside, Order, Waiting};
use self::options::Discipline;
use crate::error::{Doing, LiveError};
use crate::headers::{client_port, codepoint, place_of_number, set_codepoint, set_dscp, set_hosts};
use crate::host::bring_up;
use crate::netlink::{Netlink, QueueCount, attribute};
use crate::sys::{self, Tun};

const HTB: TcHandle = TcHandle { major: 1, minor: 0 };
const CLASS: TcHandle = TcHandle { major: 1, minor: 1 };
const INNER: TcHandle = TcHandle { major: 2, minor: 0 };
/// Name prefix, in a guest, of a BPF queue that declares that it reorders.
const REORDERS: &str = "tailback_qr";
/// Number of different packet numbers.
const NUMBERS: usize = 1 << 16;

/// A planned queue that does not exist yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The link's number.
    pub link: u32,
    /// The link's name.
    pub name: String,
    /// The link's rate.
    pub rate_bps: u64,
    /// The discipline.
    pub discipline: Discipline,
    /// The DSCP of each flow's packets; empty if all are best effort.
    pub dscp: Vec<u8>,
    /// Numbers of each flow's two hosts for a discipline that distinguishes hosts; empty for others.
    pub hosts: Vec<[u16; 2]>,
}

/// The kernel queues that the scenario asks for, or why they are impossible.
pub fn wanted(scenario: &Scenario) -> Result<Vec<Wanted>, LiveError> {
    let mut out = Vec::new();
    for (number, link) in scenario.links.iter().enumerate() {
        let Some(name) = outside::of_kernel(&link.queue.discipline) else { continue };
        let at = format!("links[{number}]");
        let field = format!("{at}.queue");
        let card = outside::card(&link.queue.discipline, &format!("{field}.discipline"))?;
        let refuse = |part: &str, problem: &str| {
            let fix =
                "Take a queue of tailback's at this link, or give the link a fixed rate and nothing else";
            Err(LiveError::refuse(
                format!("{at}{part}"),
                format!("{:?}", link.queue.discipline),
                problem,
                fix,
            ))
        };
        let is_plain = link.medium.is_none() && link.trace.is_none() && link.schedule.is_empty();
        let Some(rate_bps) = link.rate_bps.filter(|_| is_plain) else {
            return refuse("", "a kernel's queue stands at a fixed rate, without medium, trace or schedule");
        };
        if link.tick_hz.is_some() {
            return refuse(".tick_hz", "a kernel's queue is served at once, not on a timer");
        }
        if let Some((field, _)) = link.framing.given() {
            return refuse(&format!(".framing.{field}"), "a kernel's queue is served at a rate of IP bytes");
        }
        let mut discipline = options::discipline(name, &link.queue, card, &field, rate_bps)?;
        discipline.is_own = outside::is_module(&link.queue.discipline);
        discipline.is_program = outside::is_program(&link.queue.discipline);
        let params_path = format!("{field}.params");
        let marks = match card.param("dscp") {
            None => vec![],
            Some(_) => {
                dscp::of_flows(&Checked::new(card, &link.queue.params, &params_path)?, &scenario.flows)?
            }
        };
        let dscp = if marks.iter().all(|mark| *mark == 0) { vec![] } else { marks };
        let hosts = if card.param("isolation").is_some() { hosts_of(scenario) } else { vec![] };
        out.push(Wanted { link: number as u32, name: link.name.clone(), rate_bps, discipline, dscp, hosts });
    }
    Ok(out)
}

/// The two hosts of each flow, numbered in the order in which the flows name them.
fn hosts_of(scenario: &Scenario) -> Vec<[u16; 2]> {
    let mut numbers = BTreeMap::new();
    let mut number = |host| {
        let next = numbers.len() as u16;
        *numbers.entry(host).or_insert(next)
    };
    scenario.flows.iter().map(|flow| [number(flow.from.as_str()), number(flow.to.as_str())]).collect()
}

/// A packet that left a kernel queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Out {
    /// The packet's slot.
    pub slot: u32,
    /// Whether the queue marked it.
    pub is_marked: bool,
    /// Slots of packets that should have left before it: they were dropped.
    pub lost: Vec<u32>,
}

/// A kernel queue. It is removed when this is dropped.
#[derive(Debug)]
pub struct KernelQueue {
    /// The plan it was made from.
    pub wanted: Wanted,
    namespace: OwnedFd,
    tun: Tun,
    socket: OwnedFd,
    index: u32,
    inside: Inside,
    next: u16,
    /// The packet as passed to the kernel.
    packet: Vec<u8>,
    /// Drops noticed so far.
    seen: u64,
    /// The priority that the socket currently sets.
    priority: u8,
    /// For a BPF queue: when the link becomes free.
    free_at: Time,
}

impl KernelQueue {
    /// Creates the queue for packets of at most `mtu` bytes. It returns when the discipline's control law is active, as
    /// in a router that has been running for a while.
    pub fn make(wanted: &Wanted, mark: &str, mtu: u32) -> Result<Self, LiveError> {
        let device = format!("{mark}-queue");
        // In a thread of its own, because a thread that enters a namespace stays there.
        let made = std::thread::scope(|scope| {
            scope.spawn(|| make(&device, wanted, mtu)).join().expect("making a queue does not panic")
        });
        let what = format!("putting the kernel's {} at link {}", wanted.discipline.name, wanted.name);
        let (namespace, tun, socket, index) = made.doing(&what)?;
        std::thread::sleep(wanted.discipline.rests);
        Ok(KernelQueue {
            wanted: wanted.clone(),
            namespace,
            tun,
            socket,
            index,
            inside: Inside::new(order(&wanted.discipline)),
            next: 0,
            packet: Vec::new(),
            seen: 0,
            priority: 0,
            free_at: Time::ZERO,
        })
    }

    /// The device's far end, where packets leave.
    pub fn tun(&self) -> &Tun {
        &self.tun
    }

    /// When the device may be read next; `None` if the kernel itself enforces the link's rate.
    pub fn read_from(&self) -> Option<Time> {
        self.wanted.discipline.is_program.then_some(self.free_at)
    }

    /// Marks the link as busy with a packet of `bytes` bytes from `start` on.
    pub fn occupy(&mut self, start: Time, bytes: usize) {
        const BITS_PS: u128 = 8_000_000_000_000;
        let takes = bytes as u128 * BITS_PS / u128::from(self.wanted.rate_bps);
        self.free_at = start + Duration::from_ps(takes as u64);
    }

    /// The namespace.
    pub fn namespace(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }

    /// Puts a packet with the bytes `frame` into the queue; returns false if the queue dropped it at once.
    pub fn offer(&mut self, packet: &Packet, frame: &[u8]) -> io::Result<bool> {
        let number = self.next;
        self.packet.clear();
        self.packet.extend_from_slice(frame);
        // The number identifies the packet when it leaves. Nothing on its way verifies a checksum.
        let place = place_of_number(frame);
        self.packet[place..place + 2].copy_from_slice(&number.to_be_bytes());
        set_codepoint(&mut self.packet, packet.ecn);
        if let Some(&mark) = self.wanted.dscp.get(packet.flow.0 as usize) {
            set_dscp(&mut self.packet, mark);
            let priority = dscp::priority(mark);
            if priority != self.priority {
                sys::set_priority(self.socket.as_fd(), priority)?;
                self.priority = priority;
            }
        }
        if let Some(&[from, to]) = self.wanted.hosts.get(packet.flow.0 as usize) {
            let hosts = if packet.is_reverse { [to, from] } else { [from, to] };
            set_hosts(&mut self.packet, hosts, packet.flow.0 as u16, packet.is_reverse);
        }
        if self.inside.len() + 1 >= NUMBERS || !sys::enqueue(self.socket.as_fd(), self.index, &self.packet)? {
            self.seen += 1;
            return Ok(false);
        }
        self.next = number.wrapping_add(1);
        let is_l4s = self.wanted.discipline.splits_by_codepoint && matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce);
        let line = (packet.flow.0, packet.is_reverse, client_port(frame, packet.is_reverse), is_l4s);
        let is_marked = packet.ecn == Ecn::Ce;
        let since = packet.enqueued;
        self.inside.went_in(Waiting { number, slot: packet.slot, line, is_marked, since });
        Ok(true)
    }

    /// Handles `packet`, which left the queue at `at`; `None` if it never entered or was already counted as dropped.
    pub fn came_out(&mut self, packet: &[u8], at: Time) -> Option<Out> {
        // Other packets that leave, such as the host's own messages, may be shorter than any header.
        let place = (packet.len() >= 20).then(|| place_of_number(packet))?;
        let number = u16::from_be_bytes([*packet.get(place)?, *packet.get(place + 1)?]);
        let (out, lost) = self.inside.came_out(number, at)?;
        self.seen += lost.len() as u64;
        let is_marked = codepoint(packet) == Ecn::Ce && !out.is_marked;
        Some(Out { slot: out.slot, is_marked, lost })
    }

    /// After a run until `end`: the rule that a user's queue broke, with packet and time.
    pub fn broken_rule(&self, end: Time) -> io::Result<Option<String>> {
        let discipline = &self.wanted.discipline;
        let keeps_order = discipline.is_own && order(discipline) != Order::Free;
        match self.inside.out_of_order().filter(|_| keeps_order) {
            None if discipline.is_program => Ok(self.inside.stuck(self.free_at, end, self.count()?.waiting)),
            rule => Ok(rule),
        }
    }

    /// After the run: the kernel's drop count minus the drops noticed. Zero, unless one packet was mistaken for
    /// another.
    pub fn unseen(&mut self) -> io::Result<i64> {
        const TRIES: usize = 100;
        // A user's program may count as it likes.
        if self.wanted.discipline.is_program {
            return Ok(0);
        }
        for _ in 0..TRIES {
            self.drain()?;
            let QueueCount { waiting, dropped } = self.count()?;
            if self.drain()? == 0 {
                // The latest drops have not been noticed: no later packet has left.
                let unsigned = self.inside.len() as i64 - i64::from(waiting);
                return Ok(i64::from(dropped) - self.seen as i64 - unsigned);
            }
        }
        Err(io::Error::other("packets leave it faster than they can be counted"))
    }

    /// Handles the packets that left after the run ended; returns their number.
    fn drain(&mut self) -> io::Result<usize> {
        let mut packet = vec![0; 1 << 16];
        let mut count = 0;
        while let Some((length, _)) = self.tun.read(&mut packet)? {
            self.came_out(&packet[..length], self.free_at);
            count += 1;
        }
        Ok(count)
    }

    fn count(&self) -> io::Result<QueueCount> {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                sys::enter_network(self.namespace())?;
                Netlink::open()?.queue_count(self.index, INNER)
            });
            inside.join().expect("asking a queue does not panic")
        })
    }
}

fn order(discipline: &Discipline) -> Order {
    match discipline.is_one_line {
        true => Order::All,
        false if discipline.is_program && discipline.name.starts_with(REORDERS) => Order::Free,
        false => Order::Line,
    }
}

fn make(device: &str, wanted: &Wanted, mtu: u32) -> io::Result<(OwnedFd, Tun, OwnedFd, u32)> {
    sys::unshare_network()?;
    let namespace = OwnedFd::from(fs::File::open("/proc/thread-self/ns/net")?);
    let is_program = wanted.discipline.is_program;
    let tun = match is_program {
        true => Tun::open_waiting(device).map_err(no_room)?,
        false => Tun::open(device, false)?,
    };
    let quiet = format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6");
    if fs::exists(&quiet)? {
        fs::write(quiet, "1")?;
    }
    let mut netlink = Netlink::open()?;
    let index = netlink.index_of(device)?;
    if is_program {
        netlink.set_up(index, Some(mtu), Some(1))?;
        netlink
            .add_queue(index, [TcHandle::ROOT, INNER], &wanted.discipline.name, vec![])
            .map_err(|error| absent(error, &wanted.discipline))?;
        return Ok((namespace, tun, sys::packet_socket()?, index));
    }
    bring_up(&mut netlink, index, mtu)?;
    netlink.add_queue(index, [TcHandle::ROOT, HTB], "htb", htb()).map_err(|error| lacks(error, "htb"))?;
    netlink.add_class(index, [HTB, CLASS], "htb", class(wanted.rate_bps, mtu))?;
    let discipline = &wanted.discipline;
    // A discipline without its own limit reads the device's when it is created.
    if let Some(limit) = discipline.device_queue {
        netlink.set_up(index, None, Some(limit))?;
    }
    netlink
        .add_queue(index, [CLASS, INNER], &discipline.name, discipline.options.clone())
        .map_err(|error| absent(error, &wanted.discipline))?;
    if discipline.device_queue.is_some() {
        bring_up(&mut netlink, index, mtu)?;
    }
    Ok((namespace, tun, sys::packet_socket()?, index))
}

/// Remedy if this kernel's devices bypass their queue discipline.
fn no_room(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::InvalidInput {
        return error;
    }
    let message =
        "this kernel's TUN devices do not wait to be read, which queues in BPF need here. Take debian-7.3";
    io::Error::new(error.kind(), message)
}

/// Remedy if this kernel cannot create the discipline.
fn absent(error: io::Error, discipline: &Discipline) -> io::Error {
    let name = &discipline.name;
    if !discipline.is_own {
        return lacks(error, name);
    }
    let message = match error.kind() {
        _ if discipline.is_program => {
            format!("the init function of your BPF queue returned this error: {error}")
        }
        io::ErrorKind::NotFound => format!(
            "your module was loaded and registered no queue discipline {name}. Call register_qdisc in its init function"
        ),
        _ => format!("the .init function of your {name} returned this error: {error}"),
    };
    io::Error::new(error.kind(), message)
}

/// Remedy if this kernel has no discipline of this name; its own error says no more than "no such thing".
fn lacks(error: io::Error, name: &str) -> io::Error {
    if error.kind() != io::ErrorKind::NotFound {
        return error;
    }
    let message = format!(
        "this kernel has no {name}. Load its module (modprobe sch_{name}), take a kernel that has it (--engine vm), or \
         tailback's own queue (without kernel:)"
    );
    io::Error::new(error.kind(), message)
}

/// HTB with everything in its first class (TCA_HTB_INIT, struct tc_htb_glob).
fn htb() -> Vec<u8> {
    const INIT: u16 = 2;
    const VERSION: u32 = 3;
    const RATE_TO_QUANTUM: u32 = 10;
    let words = [VERSION, RATE_TO_QUANTUM, u32::from(CLASS.minor), 0, 0];
    attribute(INIT, &words.map(u32::to_ne_bytes).concat())
}

/// An HTB class at the link's rate (TCA_HTB_PARMS, struct tc_htb_opt).
fn class(rate_bps: u64, mtu: u32) -> Vec<u8> {
    const PARAMETERS: u16 = 1;
    const RATE_64: u16 = 6;
    const CEILING_64: u16 = 7;
    /// The kernel computes a packet's transmission time from its bytes alone (TC_LINKLAYER_ETHERNET, no overhead).
    const LINK_LAYER: u8 = 1;
    /// Burst that compensates for a late timer, in ticks of 64 ns: 50 µs. A packet released early waits for the link.
    const BURST: u32 = 50_000 / 64;
    let bytes = (rate_bps / 8).max(1);
    let rate =
        [&[0, LINK_LAYER, 0, 0, 0, 0, 0, 0][..], &(bytes.min(u32::MAX.into()) as u32).to_ne_bytes()].concat();
    let tail = [BURST, BURST, mtu, 0, 0].map(u32::to_ne_bytes).concat();
    let exact = bytes.to_ne_bytes();
    [
        attribute(PARAMETERS, &[rate.clone(), rate, tail].concat()),
        attribute(RATE_64, &exact),
        attribute(CEILING_64, &exact),
    ]
    .concat()
}
