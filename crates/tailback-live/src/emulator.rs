//! The emulator: IP packets from TUN devices, through the path, to TUN devices, each step at its due time.
//!
//! It sleeps until shortly before something is due and spins from there, because a timer of this kind of machine
//! is late by tens of microseconds. What it cannot help it reports: how late each packet was handed over.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tailback_core::packet::Ecn;
use tailback_core::time::{Duration, Time};

use crate::clock::{self, Clock};
use crate::error::{Doing, LiveError};
use crate::path::{Frames, Path};
use crate::punctuality::Punctuality;
use crate::stamps::Stamps;
use crate::sys;
use crate::tables::Record;
use crate::urgency::Urgency;

/// Awake this long before something is due: longer than an idle core's wake-up takes here.
const SPIN: std::time::Duration = std::time::Duration::from_micros(60);
/// Never asleep for longer, so that a stop is heard.
const NAP: std::time::Duration = std::time::Duration::from_millis(20);
/// Packets taken from one device before the others and the due ones get their turn.
const BURST: usize = 16;
/// A packet that was sent so long ago and cannot be read was lost in its device.
const LOST_NS: u64 = 10_000_000;
/// The largest IP packet there is.
const LARGEST: usize = 65_535;

/// Where packets are kept while they are under way.
#[derive(Debug, Default)]
struct Buffers {
    frames: Vec<Vec<u8>>,
}

impl Buffers {
    fn put(&mut self, slot: u32, bytes: &[u8]) {
        let slot = slot as usize;
        if slot >= self.frames.len() {
            self.frames.resize_with(slot + 1, Vec::new);
        }
        self.frames[slot].clear();
        self.frames[slot].extend_from_slice(bytes);
    }
}

impl Frames for Buffers {
    fn copy(&mut self, from: u32, to: u32) {
        let bytes = self.frames[from as usize].clone();
        self.put(to, &bytes);
    }
}

/// A port: the emulator's end of a host's device.
#[derive(Debug)]
pub struct Port {
    /// The device.
    pub tun: OwnedFd,
    /// The flows that begin here, and those that end here.
    pub from: Vec<u32>,
    /// The flows that end here.
    pub to: Vec<u32>,
}

/// What the emulator tells others while it runs.
#[derive(Debug, Default)]
pub struct Shared {
    /// Set to end the run early.
    pub stop: AtomicBool,
    /// Duplicate ACKs handed to each flow's sender.
    pub duplicate_acks: Vec<AtomicU64>,
}

/// An emulator about to run.
#[derive(Debug)]
pub struct Emulator {
    path: Path<Record>,
    ports: Vec<Port>,
    /// Port of each flow's sender and receiver.
    ends: Vec<[usize; 2]>,
    buffers: Buffers,
    clock: Clock,
    end: Time,
    /// The processor it has for itself, if any.
    place: Option<usize>,
    stamps: Option<Stamps>,
    handed: Handed,
    punctuality: Punctuality,
    /// The last acknowledgement number handed to each flow's sender.
    last_ack: Vec<u32>,
}

/// What is noted of each packet, by its number.
#[derive(Debug, Default)]
struct Handed {
    /// From being sent to entering the path.
    late_in: Vec<Duration>,
    /// When it was handed over; [`Time::NEVER`] if it was not.
    at: Vec<Time>,
}

impl Handed {
    fn take(&mut self, number: u64, late: Duration) {
        self.late_in.resize(number as usize, Duration::ZERO);
        self.late_in.push(late);
    }

    /// Returns by how much it had entered late. What a wire made is never late.
    fn hand_over(&mut self, number: u64, at: Time) -> Duration {
        let number = number as usize;
        if number >= self.at.len() {
            self.at.resize((number + 1).next_power_of_two(), Time::NEVER);
        }
        self.at[number] = at;
        self.late_in.get(number).copied().unwrap_or(Duration::ZERO)
    }
}

/// What is left of an emulator after a run.
#[derive(Debug)]
pub struct Emulated {
    /// The path with its counts, captures and probe.
    pub path: Path<Record>,
    /// When each packet was handed over, by number; [`Time::NEVER`] if it was not.
    pub written: Vec<Time>,
    /// How punctual it was.
    pub punctuality: Punctuality,
}

impl Emulator {
    /// An emulator for this path between these ports.
    pub fn new(path: Path<Record>, ports: Vec<Port>, clock: Clock, end: Time) -> Self {
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
            stamps: None,
            handed: Handed::default(),
            punctuality: Punctuality::default(),
            last_ack: vec![0; flows],
        }
    }

    /// On this processor, if one is given.
    #[must_use]
    pub fn at(self, place: Option<usize>) -> Self {
        Emulator { place, ..self }
    }

    /// Knowing when packets were sent, if it can be had.
    #[must_use]
    pub fn with(self, stamps: Option<Stamps>) -> Self {
        Emulator { stamps, ..self }
    }

    /// Run to the end, or until told to stop.
    pub fn run(mut self, shared: &Shared) -> Result<Emulated, LiveError> {
        if let Some(place) = self.place {
            sys::stay_on(&[place]).doing("moving the emulator to its processor")?;
        }
        let mut urgency = Urgency::begin();
        self.punctuality.is_realtime = urgency.is_realtime();
        let mut polls: Vec<libc::pollfd> =
            self.ports.iter().map(|port| sys::readable(port.tun.as_raw_fd())).collect();
        let mut packet = vec![0; LARGEST];
        loop {
            let now_ns = clock::monotonic_ns();
            if self.clock.at(now_ns) >= self.end || shared.stop.load(Ordering::Relaxed) {
                break;
            }
            urgency.keep(now_ns);
            let has_read = if self.stamps.is_some() {
                self.read_the_first(&mut packet, shared)?
            } else {
                self.read_all(&mut packet, shared)?
            };
            if !has_read {
                self.step(self.now(), shared);
                self.rest(&mut polls)?;
            }
        }
        let now = self.now();
        self.step(now, shared);
        self.path.settle(now, &mut self.buffers);
        self.punctuality.asleep_ns = urgency.asleep_ns();
        let mut written = self.handed.at;
        written.resize(self.path.captured.len(), Time::NEVER);
        Ok(Emulated { path: self.path, written, punctuality: self.punctuality })
    }

    /// What is due exactly at the end belongs to no run.
    fn before_the_end(&self, time: Time) -> Time {
        time.min(Time::from_ps(self.end.as_ps() - 1))
    }

    fn now(&self) -> Time {
        self.before_the_end(self.clock.now())
    }

    /// Take the packet that was sent first of those that wait, at the instant it was sent or, if something later has
    /// happened on the path, as soon after as can be. False if none waits.
    fn read_the_first(&mut self, packet: &mut [u8], shared: &Shared) -> Result<bool, LiveError> {
        let Some(stamps) = &mut self.stamps else { return Ok(false) };
        let Some((port, stamped_ns)) = stamps.waiting() else { return Ok(false) };
        let got = sys::read_packet(self.ports[port].tun.as_fd(), packet).doing("reading from a host")?;
        let Some(length) = got else {
            // It is stamped just before it can be read. What never can was dropped by its device.
            if clock::monotonic_ns().saturating_sub(stamped_ns) > LOST_NS {
                stamps.give_up(port);
            }
            return Ok(false);
        };
        let stamp = stamps.sent(port, &packet[..length]).map(|ns| self.clock.at(ns));
        self.punctuality.unstamped += u64::from(stamp.is_none());
        let sent = self.before_the_end(stamp.unwrap_or_else(|| self.clock.now()));
        // In whole nanoseconds, as stamps are: the log of arrivals can then be replayed exactly.
        let at = self.before_the_end(sent.max(self.path.reached().ceil_to(Duration::from_ns(1))));
        self.step(at, shared);
        if let Some(number) = self.take(port, &packet[..length], at) {
            self.handed.take(number, at.since(sent));
            if stamp.is_some() {
                self.punctuality.late_in.push(at.since(sent));
            }
        }
        Ok(true)
    }

    /// Take what waits at each port, at the instant it is read. False if nothing waited.
    fn read_all(&mut self, packet: &mut [u8], shared: &Shared) -> Result<bool, LiveError> {
        let mut has_read = false;
        for port in 0..self.ports.len() {
            for _ in 0..BURST {
                let got = sys::read_packet(self.ports[port].tun.as_fd(), packet);
                let Some(length) = got.doing("reading from a host")? else { break };
                has_read = true;
                let now = self.now();
                self.step(now, shared);
                self.take(port, &packet[..length], now);
                self.punctuality.unstamped += 1;
            }
        }
        Ok(has_read)
    }

    /// Sleep until a packet comes or something is nearly due. Nearer than that: spin, by returning at once.
    fn rest(&mut self, polls: &mut [libc::pollfd]) -> Result<(), LiveError> {
        let due = self.clock.until(self.path.next_due().min(self.end));
        let Some(nap) = due.checked_sub(SPIN).filter(|nap| !nap.is_zero()) else { return Ok(()) };
        sys::wait_prepared(polls, Some(nap.min(NAP))).doing("waiting for packets").map(drop)
    }

    /// Do what is due and hand over what has arrived.
    fn step(&mut self, now: Time, shared: &Shared) {
        let Self { path, ports, ends, buffers, clock, stamps, handed, punctuality, last_ack, .. } = self;
        path.run_until(now, buffers, |path, buffers, due, packet| {
            let flow = packet.flow.0 as usize;
            let frame = &mut buffers.frames[packet.slot as usize];
            if packet.ecn == Ecn::Ce {
                mark(frame);
            }
            if packet.is_reverse && is_duplicate_ack(frame, &mut last_ack[flow]) {
                shared.duplicate_acks[flow].fetch_add(1, Ordering::Relaxed);
            }
            let port = ends[flow][usize::from(!packet.is_reverse)];
            let mut at = clock.now();
            if sys::write_packet(ports[port].tun.as_fd(), frame).is_err() {
                punctuality.refused += 1;
            } else if let Some(stamps) = stamps {
                at = at.max(clock.at(stamps.received(port)));
            } else {
                at = clock.now();
            }
            let late_in = handed.hand_over(path.number(packet.slot), at);
            punctuality.late.push(late_in + at.since(due));
            path.release(packet.slot, at);
        });
    }

    /// A host sent a packet; returns its number if it is one of a flow.
    fn take(&mut self, port: usize, frame: &[u8], now: Time) -> Option<u64> {
        let is_known = |&(flow, is_reverse): &(u32, bool)| {
            self.ends.get(flow as usize).is_some_and(|ends| ends[usize::from(is_reverse)] == port)
        };
        let Some((flow, is_reverse)) = owner(frame).filter(is_known) else {
            self.punctuality.foreign += 1;
            return None;
        };
        let number = self.path.captured.len() as u64;
        self.buffers.put(self.path.next_slot(), frame);
        let ecn = match frame[1] & 3 {
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            0b11 => Ecn::Ce,
            _ => Ecn::NotEct,
        };
        self.path.arrive(now, flow, is_reverse, frame.len() as u32, ecn, &mut self.buffers);
        Some(number)
    }
}

/// The addresses of a flow: 10.x.y.1 at its sender, 10.x.y.2 at its receiver, x·256 + y its number.
pub fn addresses(flow: u32) -> [std::net::Ipv4Addr; 2] {
    let [_, _, x, y] = flow.to_be_bytes();
    [std::net::Ipv4Addr::new(10, x, y, 1), std::net::Ipv4Addr::new(10, x, y, 2)]
}

/// The most flows the addresses have room for.
pub const MOST_FLOWS: usize = 1 << 16;

/// Flow and direction of an IP packet, by its destination.
fn owner(frame: &[u8]) -> Option<(u32, bool)> {
    if frame.len() < 20 || frame[0] >> 4 != 4 || frame[16] != 10 {
        return None;
    }
    let flow = u32::from(frame[17]) << 8 | u32::from(frame[18]);
    match frame[19] {
        2 => Some((flow, false)),
        1 => Some((flow, true)),
        _ => None,
    }
}

/// Set CE in an IPv4 header and mend its checksum (RFC 1624).
fn mark(frame: &mut [u8]) {
    if frame[1] & 3 == 3 {
        return;
    }
    let old = u16::from_be_bytes([frame[0], frame[1]]);
    frame[1] |= 3;
    let new = u16::from_be_bytes([frame[0], frame[1]]);
    let sum = u16::from_be_bytes([frame[10], frame[11]]);
    let mut folded = u32::from(!sum) + u32::from(!old) + u32::from(new);
    folded = (folded & 0xffff) + (folded >> 16);
    folded = (folded & 0xffff) + (folded >> 16);
    frame[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

/// An acknowledgement without payload that repeats the last one's number.
fn is_duplicate_ack(frame: &[u8], last: &mut u32) -> bool {
    const TCP: u8 = 6;
    const ACK_ONLY: u8 = 0x10;
    let header = usize::from(frame[0] & 15) * 4;
    if frame[9] != TCP || frame.len() < header + 20 {
        return false;
    }
    let tcp = &frame[header..];
    let number = u32::from_be_bytes([tcp[8], tcp[9], tcp[10], tcp[11]]);
    let is_repeated = number == *last;
    *last = number;
    // Synchronise, finish and reset are no duplicates; the ECN bits do not matter.
    is_repeated && tcp.len() == usize::from(tcp[12] >> 4) * 4 && tcp[13] & 0x17 == ACK_ONLY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum(header: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in header.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], pair[1]]));
        }
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        !(sum as u16)
    }

    fn header() -> Vec<u8> {
        let mut frame = vec![0u8; 20];
        frame[0] = 0x45;
        frame[1] = 0b10;
        frame[8] = 64;
        frame[9] = 17;
        frame[12..16].copy_from_slice(&[10, 0, 3, 1]);
        frame[16..20].copy_from_slice(&[10, 0, 3, 2]);
        let sum = checksum(&frame);
        frame[10..12].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    #[test]
    fn a_mark_keeps_the_checksum_true() {
        let mut frame = header();
        mark(&mut frame);
        assert_eq!(frame[1] & 3, 3);
        assert_eq!(checksum(&frame), 0);
    }

    #[test]
    fn a_packet_belongs_to_the_flow_of_its_destination() {
        let mut frame = header();
        assert_eq!(owner(&frame), Some((3, false)));
        frame[19] = 1;
        assert_eq!(owner(&frame), Some((3, true)));
        frame[16] = 224;
        assert_eq!(owner(&frame), None);
        let [from, to] = addresses(0x1234);
        assert_eq!((from.octets(), to.octets()), ([10, 0x12, 0x34, 1], [10, 0x12, 0x34, 2]));
    }
}
