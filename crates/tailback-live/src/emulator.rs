//! The emulator: carries IP packets from TUN devices through the path to TUN devices, each step at its due time.
//!
//! It sleeps until shortly before the next due time and spins from there, because timers on such machines are late by
//! tens of microseconds. It reports the lateness that remains: how late each packet was handed over.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tailback_core::packet::{Acknowledgement, Packet};
use tailback_core::queue::DropReason;
use tailback_core::time::{Duration, Time};

use crate::access;
use crate::clock::{self, Clock};
use crate::error::{Doing, LiveError};
use crate::headers::{acknowledgement, client_port, codepoint, is_duplicate_ack, owner, set_codepoint};
use crate::journal::Journal;
use crate::kernel_queue::KernelQueue;
use crate::path::{Captured, Frames, Path};
use crate::punctuality::Punctuality;
use crate::segments::Segments;
use crate::stamps::Stamps;
use crate::sys::{self, Framed, Offload, Tun};
use crate::tables::Watcher;
use crate::urgency::Urgency;

/// How long before a due time to wake and spin: longer than it takes here to wake an idle core.
const SPIN: std::time::Duration = std::time::Duration::from_micros(60);
/// Longest sleep, so that a request to stop is noticed.
const NAP: std::time::Duration = std::time::Duration::from_millis(20);
/// Packets read from one device before the other devices and due events get their turn.
const BURST: usize = 16;
/// A packet that was sent longer ago than this and still cannot be read was dropped by its device.
const LOST_NS: u64 = 10_000_000;
/// A packet that was sent more recently than this and cannot be read yet is still entering its device.
const SOON_NS: u64 = 20_000;
/// The largest possible IP packet.
const LARGEST: usize = 65_535;

/// The packets in flight.
#[derive(Debug, Default)]
struct Buffers {
    frames: Vec<Framed>,
    /// Queues on the path that use the kernel's disciplines.
    queues: Vec<KernelQueue>,
    /// Error from passing a packet to a kernel queue.
    failed: Option<io::Error>,
}

impl Buffers {
    fn at(&mut self, slot: u32) -> &mut Framed {
        let slot = slot as usize;
        if slot >= self.frames.len() {
            self.frames.resize_with(slot + 1, Framed::default);
        }
        &mut self.frames[slot]
    }
}

impl Frames for Buffers {
    fn copy(&mut self, from: u32, to: u32) {
        let frame = self.frames[from as usize].clone();
        *self.at(to) = frame;
    }

    fn acknowledgement(&self, slot: u32) -> Option<Acknowledgement> {
        acknowledgement(&self.frames[slot as usize].packet)
    }

    fn offer(&mut self, link: u32, packet: &Packet) -> Option<DropReason> {
        let queue =
            self.queues.iter_mut().find(|queue| queue.wanted.link == link).expect("the path asks for it");
        let is_in = queue.offer(packet, &self.frames[packet.slot as usize].packet).unwrap_or_else(|error| {
            self.failed = Some(error);
            false
        });
        (!is_in).then_some(queue.wanted.discipline.reason)
    }
}

/// Result of trying to read from the hosts' devices.
enum Read {
    /// A packet was read.
    Packet,
    /// No packet waits.
    Nothing,
    /// A packet was sent at this time and will be readable in a moment.
    NotYet(Time),
}

/// A port: the emulator's end of a host's device.
#[derive(Debug)]
pub struct Port {
    /// The device.
    pub tun: Tun,
    /// Flows that begin at this host.
    pub from: Vec<u32>,
    /// Flows that end at this host.
    pub to: Vec<u32>,
}

/// State that the emulator shares while it runs.
#[derive(Debug, Default)]
pub struct Shared {
    /// Set to end the run early.
    pub stop: AtomicBool,
    /// Duplicate ACKs handed to each flow's sender.
    pub duplicate_acks: Vec<AtomicU64>,
}

/// An emulator, ready to run.
#[derive(Debug)]
pub struct Emulator {
    path: Path<Watcher>,
    ports: Vec<Port>,
    /// Ports of each flow's sender and receiver.
    ends: Vec<[usize; 2]>,
    buffers: Buffers,
    clock: Clock,
    end: Time,
    /// The processor reserved for the emulator, if any.
    place: Option<usize>,
    /// How long before a due time to wake and spin.
    spin: std::time::Duration,
    stamps: Option<Stamps>,
    handed: Handed,
    punctuality: Punctuality,
    /// The last acknowledgement number handed to each flow's sender.
    last_ack: Vec<u32>,
}

/// Timing of each packet, by its number.
#[derive(Debug, Default)]
struct Handed {
    /// Time from sending to entering the path.
    late_in: Journal<Duration>,
    /// When the packet was handed over; [`Time::NEVER`] if it was not.
    at: Journal<Time>,
}

impl Handed {
    fn take(&mut self, number: u64, late: Duration) {
        self.late_in.fill(number as usize, Duration::ZERO);
        self.late_in.push(late);
    }

    /// Records a handover; returns how late the packet had entered. Copies made by a link never enter late.
    fn hand_over(&mut self, number: u64, at: Time) -> Duration {
        let number = number as usize;
        self.at.fill(number + 1, Time::NEVER);
        self.at[number] = at;
        self.late_in.get(number).copied().unwrap_or(Duration::ZERO)
    }
}

/// What remains of an emulator after a run.
#[derive(Debug)]
pub struct Emulated {
    /// The path with its counts, captures and probe.
    pub path: Path<Watcher>,
    /// Handover time of each packet, by number; [`Time::NEVER`] if it was not handed over.
    pub written: Journal<Time>,
    /// How punctual the emulator was.
    pub punctuality: Punctuality,
    /// The kernel queues.
    pub queues: Vec<KernelQueue>,
}

impl Emulator {
    /// An emulator for this path between these ports.
    pub fn new(path: Path<Watcher>, ports: Vec<Port>, clock: Clock, end: Time) -> Self {
        let flows = path.counts.len();
        let mut ends = vec![[0; 2]; flows];
        for (number, port) in ports.iter().enumerate() {
            for &flow in &port.from {
                ends[flow as usize][0] = number;
            }
            for &flow in &port.to {
                ends[flow as usize][1] = number;
            }
        }
        Emulator {
            path,
            ports,
            ends,
            buffers: Buffers::default(),
            clock,
            end,
            place: None,
            spin: SPIN,
            stamps: None,
            handed: Handed::default(),
            punctuality: Punctuality::default(),
            last_ack: vec![0; flows],
        }
    }

    /// Runs on this processor, if one is given.
    #[must_use]
    pub fn at(self, place: Option<usize>) -> Self {
        Emulator { place, ..self }
    }

    /// For a machine with exact timers: sleeps until the due time without spinning, because the hosts may have only one
    /// processor.
    #[must_use]
    pub fn trusting_timers(self, are_exact: bool) -> Self {
        Emulator { spin: if are_exact { std::time::Duration::ZERO } else { SPIN }, ..self }
    }

    /// Uses the kernel's send stamps, if available.
    #[must_use]
    pub fn with(self, stamps: Option<Stamps>) -> Self {
        Emulator { stamps, ..self }
    }

    /// Uses these kernel queues on the path; their devices are the last ports.
    #[must_use]
    pub fn through(mut self, queues: Vec<KernelQueue>) -> Self {
        self.buffers.queues = queues;
        self
    }

    /// Runs to the end of the run or until `stop`.
    pub fn run(mut self, shared: &Shared) -> Result<Emulated, LiveError> {
        if let Some(place) = self.place {
            sys::stay_on(&[place]).doing("moving the emulator to its processor")?;
        }
        let mut urgency = Urgency::begin();
        self.punctuality.is_realtime = urgency.is_realtime();
        let mut polls: Vec<libc::pollfd> =
            self.ports.iter().map(|port| sys::readable(port.tun.as_fd().as_raw_fd())).collect();
        let mut packet = vec![0; LARGEST];
        loop {
            let now_ns = clock::monotonic_ns();
            if self.clock.at(now_ns) >= self.end || shared.stop.load(Ordering::Relaxed) {
                break;
            }
            urgency.keep(now_ns);
            // Read the clock before looking for packets. Packets sent later have later stamps, so nothing processed up
            // to this instant precedes them, however long this thread is delayed in between.
            let now = self.now();
            let read = if self.stamps.is_some() {
                self.read_the_first(&mut packet, now, shared)?
            } else {
                self.read_all(&mut packet, shared)?
            };
            match read {
                Read::Packet => {}
                Read::Nothing if self.read_wires(&mut packet, now, shared)? => {}
                Read::Nothing => {
                    self.step(now, shared);
                    self.rest(&mut polls)?;
                }
                Read::NotYet(sent) => self.step(sent.min(now), shared),
            }
        }
        if let Some(error) = self.buffers.failed {
            return Err(error).doing("putting a packet into the kernel's queue");
        }
        let now = self.now();
        self.step(now, shared);
        self.path.settle(now, &mut self.buffers);
        self.punctuality.asleep_ns = urgency.asleep_ns();
        let mut written = self.handed.at;
        written.fill(self.path.captured.len(), Time::NEVER);
        Ok(Emulated { path: self.path, written, punctuality: self.punctuality, queues: self.buffers.queues })
    }

    /// Clamps a time to just before the end: an event exactly at the end is not part of the run.
    fn before_the_end(&self, time: Time) -> Time {
        time.min(Time::from_ps(self.end.as_ps() - 1))
    }

    fn now(&self) -> Time {
        self.before_the_end(self.clock.now())
    }

    /// Takes the waiting packet that was sent first. It enters the path at its send time or, if the path has already
    /// passed that time, as soon after as possible.
    fn read_the_first(&mut self, packet: &mut [u8], now: Time, shared: &Shared) -> Result<Read, LiveError> {
        let Some(stamps) = &mut self.stamps else { return Ok(Read::Nothing) };
        let hosts = self.ports.len() - self.buffers.queues.len();
        let queues = &self.buffers.queues;
        let is_read_at_once = |port: usize| port < hosts || queues[port - hosts].read_from().is_none();
        let Some((port, stamped_ns)) = stamps.waiting(is_read_at_once) else { return Ok(Read::Nothing) };
        let got = self.ports[port].tun.read(packet).doing("reading from a host")?;
        let Some((length, offload)) = got else {
            // A packet is stamped just before it becomes readable. A packet that never becomes readable was dropped by
            // its device.
            let age = clock::monotonic_ns().saturating_sub(stamped_ns);
            if age > LOST_NS {
                stamps.give_up(port);
            }
            let is_soon = age < SOON_NS;
            return Ok(if is_soon { Read::NotYet(self.clock.at(stamped_ns)) } else { Read::Nothing });
        };
        let stamp = stamps.sent(port, &packet[..length]).map(|ns| self.clock.at(ns));
        self.punctuality.unstamped += u64::from(stamp.is_none());
        let sent = self.before_the_end(stamp.unwrap_or(now));
        // Use whole nanoseconds, like the stamps, so that the log of arrivals can be replayed exactly.
        let at = self.before_the_end(sent.max(self.path.reached().ceil_to(Duration::from_ns(1))));
        self.step(at, shared);
        self.take(port, &packet[..length], offload, at, stamp.map(|_| at.since(sent)));
        Ok(Read::Packet)
    }

    /// Takes the packets that wait at each port, at the time they are read.
    fn read_all(&mut self, packet: &mut [u8], shared: &Shared) -> Result<Read, LiveError> {
        let mut read = Read::Nothing;
        let hosts = self.ports.len() - self.buffers.queues.len();
        for port in 0..self.ports.len() {
            if port >= hosts && self.buffers.queues[port - hosts].read_from().is_some() {
                continue;
            }
            for _ in 0..BURST {
                let got = self.ports[port].tun.read(packet);
                let Some((length, offload)) = got.doing("reading from a host")? else { break };
                read = Read::Packet;
                let now = self.now();
                self.step(now, shared);
                self.take(port, &packet[..length], offload, now, None);
                self.punctuality.unstamped += 1;
            }
        }
        Ok(read)
    }

    /// Takes a packet from a BPF queue whose link is free, at the later of the packet's arrival and the link's becoming
    /// free; returns whether there was one.
    fn read_wires(&mut self, packet: &mut [u8], now: Time, shared: &Shared) -> Result<bool, LiveError> {
        let hosts = self.ports.len() - self.buffers.queues.len();
        for number in 0..self.buffers.queues.len() {
            let port = hosts + number;
            let Some(free) = self.buffers.queues[number].read_from().filter(|free| *free <= now) else {
                continue;
            };
            let got = self.ports[port].tun.read(packet).doing("reading from a queue")?;
            let Some((length, offload)) = got else { continue };
            let stamp = self.stamps.as_mut().and_then(|stamps| stamps.sent(port, &packet[..length]));
            let came = stamp.map_or(now, |ns| self.clock.at(ns));
            let start = free.max(came.min(now));
            self.buffers.queues[number].occupy(start, length);
            let at = self.before_the_end(start.max(self.path.reached().ceil_to(Duration::from_ns(1))));
            self.step(at, shared);
            self.take(port, &packet[..length], offload, at, None);
            return Ok(true);
        }
        Ok(false)
    }

    /// Sleeps until a packet arrives or the next due time is near; if it is already near, returns at once to spin.
    fn rest(&mut self, polls: &mut [libc::pollfd]) -> Result<(), LiveError> {
        let mut next = self.path.next_due().min(self.end);
        let (hosts, now) = (self.ports.len() - self.buffers.queues.len(), self.now());
        for (port, queue) in self.buffers.queues.iter().enumerate().map(|(at, queue)| (hosts + at, queue)) {
            let Some(free) = queue.read_from() else { continue };
            // While the link is busy, a packet that waits there must not wake this thread.
            let fd = self.ports[port].tun.as_fd().as_raw_fd();
            polls[port].fd = if free > now { -1 } else { fd };
            next = if free > now { next.min(free) } else { next };
        }
        let due = self.clock.until(next);
        let Some(nap) = due.checked_sub(self.spin).filter(|nap| !nap.is_zero()) else { return Ok(()) };
        sys::wait_prepared(polls, Some(nap.min(NAP))).doing("waiting for packets").map(drop)
    }

    /// Handles all due events and hands over the packets that have arrived.
    fn step(&mut self, now: Time, shared: &Shared) {
        let Self { path, ports, ends, buffers, clock, stamps, handed, punctuality, last_ack, .. } = self;
        path.run_until(now, buffers, |path, buffers, due, packet| {
            let flow = packet.flow.0 as usize;
            let frame = &mut buffers.frames[packet.slot as usize];
            set_codepoint(&mut frame.packet, packet.ecn);
            if packet.is_reverse && is_duplicate_ack(&frame.packet, &mut last_ack[flow]) {
                shared.duplicate_acks[flow].fetch_add(1, Ordering::Relaxed);
            }
            let port = ends[flow][usize::from(!packet.is_reverse)];
            let mut at = clock.now();
            if ports[port].tun.write(frame).is_err() {
                punctuality.refused += 1;
            } else if let Some(stamps) = stamps {
                at = at.max(clock.at(stamps.received(port)));
            } else {
                at = clock.now();
            }
            let late_in = handed.hand_over(path.number(packet.slot), at);
            punctuality.late.push(late_in + at.since(due));
            if let Some(sightings) = &mut path.observer.sightings {
                sightings.arrived(at, &packet);
            }
            path.release(packet.slot, at);
        });
    }

    /// Takes a packet sent by a host. If it belongs to a flow, it is segmented as a network card would and enters the
    /// path at once.
    fn take(&mut self, port: usize, packet: &[u8], offload: Offload, at: Time, late: Option<Duration>) {
        let is_known = |&(flow, is_reverse): &(u32, bool)| {
            self.ends.get(flow as usize).is_some_and(|ends| ends[usize::from(is_reverse)] == port)
        };
        let hosts = self.ports.len() - self.buffers.queues.len();
        if port >= hosts {
            return self.let_out(port - hosts, packet, at);
        }
        let Some(owner) = owner(packet).filter(is_known) else {
            self.punctuality.foreign += 1;
            return;
        };
        self.punctuality.frames += 1;
        self.punctuality.largest_frame = self.punctuality.largest_frame.max(packet.len() as u64);
        let Some(segments) = offload.segment_bytes().and_then(|payload| Segments::of(packet, payload)) else {
            let frame = self.buffers.at(self.path.next_slot());
            frame.offload = offload;
            frame.packet.clear();
            frame.packet.extend_from_slice(packet);
            return self.enter(owner, at, late);
        };
        for number in 0..segments.count() {
            let frame = self.buffers.at(self.path.next_slot());
            frame.offload = segments.write(number, &mut frame.packet);
            self.enter(owner, at, late);
        }
    }

    /// Takes a packet that a kernel queue released.
    fn let_out(&mut self, queue: usize, packet: &[u8], at: Time) {
        let queue = &mut self.buffers.queues[queue];
        let Some(out) = queue.came_out(packet, at) else {
            self.punctuality.foreign += 1;
            return;
        };
        let (link, reason) = (queue.wanted.link, queue.wanted.discipline.reason);
        self.path.decided(at, link, (&out.lost, reason), Some((out.slot, out.is_marked)), &mut self.buffers);
    }

    /// Lets the packet in the next slot enter the path.
    fn enter(&mut self, (flow, is_reverse): (u32, bool), at: Time, late: Option<Duration>) {
        let number = self.path.captured.len() as u64;
        let slot = self.path.next_slot();
        let packet = &self.buffers.at(slot).packet;
        let client = client_port(packet, is_reverse);
        let pair = match self.path.pairs(flow) {
            0 => 0,
            pairs => access::pair_of(client, pairs),
        };
        let conversation = (client ^ client >> 8) as u8;
        let (bytes, ecn) = (packet.len() as u32, codepoint(packet));
        if let Some(sightings) = &mut self.path.observer.sightings {
            sightings.departed(at, slot, (flow, is_reverse), number, ecn, packet);
        }
        let arrival = Captured { at, flow, is_reverse, is_copy: false, bytes, ecn, pair, conversation };
        self.path.arrive(arrival, &mut self.buffers);
        if let Some(late) = late {
            self.handed.take(number, late);
            self.punctuality.late_in.push(late);
        }
    }
}
