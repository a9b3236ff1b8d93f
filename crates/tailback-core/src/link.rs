//! A link in one direction: queue, serialiser, then a pipe of propagation delay (dummynet's two pipes).
//!
//! Law: an arrival of L bytes that finds b bytes queued and r bytes of another packet still to be sent arrives
//! 8(b + r + L)/C + D later.
//!
//! Due time, not wake time: every step happens at its own due instant however late the host calls, so a
//! sleeping real-time loop and the simulator give identical fates to identical arrivals. A link therefore need
//! not wake for its own departures, only for arrivals at the far end: those that happened meanwhile are caught up
//! with at the next call, at their own times. One wake a packet instead of two.
//!
//! Quantised departures follow FreeBSD 7's dummynet: time is counted in ticks of `tick_hz`; each tick earns
//! C/hz bits of credit while packets wait, a packet leaves at the tick at which its bits are covered, and several
//! may leave at one tick, back to back. A pipe idle since an earlier tick starts without credit. The delay is
//! rounded down to ticks. Source: FreeBSD 7.3 sys/netinet/ip_dummynet.c, with `io_fast` off.
//!
//! A rate that changes, a recorded trace or a medium puts a [`Pacer`] in the serialiser's place. A medium that
//! stations contend for gives the link a [`Outlet`] at a channel: then the channel, not the link, decides when its
//! packets leave (`medium/channel.rs`). The packets of a [`Tunnel`] go into another flow's connection instead
//! (`medium/tunnel.rs`).
//!
//! This file keeps the state and is called by the host; its rooms are `build`, `serve` (what happens at a due time),
//! `foreseen` (the same where it can be told beforehand), `pace` (how long bytes take) and `ledger` (counts, and conservation).

mod build;
mod foreseen;
mod ledger;
mod pace;
mod serve;

use std::collections::VecDeque;

use crate::capacity::Pacer;
use crate::medium::channel::Outlet;
use crate::medium::tunnel::Tunnel;
use crate::packet::Packet;
use crate::queue::fifo::TailDrop;
use crate::queue::registry::Queue;
use crate::queue::{Backlog, DropReason, Fate};
use crate::time::{Bytes, Duration, Time};
use crate::wire::Wire;

pub(crate) use build::FASTEST;
pub use build::LONGEST_DELAY;
use pace::{Serialiser, Ticks};

/// Sees what happens in a link's queue, at the time it happens; every method defaults to nothing and then costs
/// nothing. `backlog` is what the queue holds after the event.
pub trait Watch {
    /// What follows happens at link number `link`: said by a channel, which works for several.
    #[inline]
    fn turn_to(&mut self, _link: u32) {}
    /// `packet` joined the queue.
    #[inline]
    fn on_enqueue(&mut self, _at: Time, _packet: &Packet, _backlog: Backlog) {}
    /// `packet` left the queue and its transmission began.
    #[inline]
    fn on_dequeue(&mut self, _at: Time, _packet: &Packet, _backlog: Backlog) {}
    /// The last bit of `packet` left the serialiser, at a link that reports departures.
    #[inline]
    fn on_departure(&mut self, _packet: &Packet) {}
    /// `packet` was dropped, from the queue, on arrival at it, or on the wire.
    #[inline]
    fn on_drop(&mut self, _at: Time, _packet: &Packet, _backlog: Backlog, _reason: DropReason) {}
    /// `packet` was marked CE.
    #[inline]
    fn on_mark(&mut self, _at: Time, _packet: &Packet, _backlog: Backlog) {}
}

/// Nobody watches.
impl Watch for () {}

/// Owns what packets carry, and takes those that arrive.
pub trait Host: Watch {
    /// `packet` arrived at the far end at `due`.
    fn deliver(&mut self, due: Time, packet: Packet);
    /// The wire doubled `packet`: give its copy a slot of its own.
    fn duplicate(&mut self, packet: &Packet) -> Packet;
}

/// What a link has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkCount {
    /// Packets pushed.
    pub arrived: u64,
    /// Their bytes.
    pub arrived_bytes: Bytes,
    /// Packets that came out at the far end.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: Bytes,
    /// Packets dropped by the queue or lost on the wire.
    pub dropped: u64,
    /// Their bytes.
    pub dropped_bytes: Bytes,
    /// Packets marked CE.
    pub marked: u64,
    /// Their bytes.
    pub marked_bytes: Bytes,
    /// Copies the wire made.
    pub duplicated: u64,
    /// Their bytes.
    pub duplicated_bytes: Bytes,
}

/// What sets the pace of departures.
#[derive(Clone, Debug)]
enum Clock {
    /// The rate alone.
    Exact,
    /// The rate, on a timer.
    Ticks(Ticks),
    /// Something that varies.
    Paced(Box<Pacer>),
}

/// A link in one direction.
#[derive(Clone, Debug)]
pub struct Link {
    name: String,
    serialiser: Option<Serialiser>,
    clock: Clock,
    pub(crate) queue: Queue,
    /// What it takes, if the time of each departure is known on arrival; `queue` then stays empty.
    foreseen: Option<TailDrop>,
    /// What the queue said it holds when it was last touched.
    queued: Backlog,
    /// The packet being transmitted.
    pub(crate) serving: Option<Packet>,
    /// When the serialiser next does something: finishes, or may find a shaping queue ready.
    step: Time,
    /// Foreseen: when all that is held now has been sent.
    free_at: Time,
    delay: Duration,
    /// Packets under way by due time; foreseen, those that wait and the one being sent stand behind them.
    pipe: VecDeque<(Time, Packet)>,
    pipe_bytes: Bytes,
    wire: Option<Box<Wire>>,
    /// A sender's host looks at its queue: it wakes for every departure and tells of it.
    reports: bool,
    /// Its place at a channel it shares.
    pub(crate) outlet: Option<Box<Outlet>>,
    /// The stream that carries its packets.
    pub(crate) tunnel: Option<Box<Tunnel>>,
    /// Neither of the two.
    is_plain: bool,
    pub(crate) count: LinkCount,
    /// The time of the last call.
    pub(crate) now: Time,
    pub(crate) busy: Duration,
    /// Bytes held since `held_since`, and the sum of bytes × picoseconds before that.
    held: Bytes,
    held_since: Time,
    held_integral: u128,
    held_max: Bytes,
}

impl Link {
    /// Offer `packet` at `now`. What is due until then happens first, departures at `now` included.
    #[inline]
    pub fn push(&mut self, mut packet: Packet, now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        self.catch_up(now, fate, watch);
        self.count.arrived += 1;
        self.count.arrived_bytes += Bytes::from(packet.bytes);
        packet.enqueued = now;
        if self.foreseen.is_some() {
            self.join(packet, now, fate, watch);
        } else if self.serialiser.is_none() {
            // Infinitely fast: no queue can form.
            if let Clock::Ticks(ticks) = &mut self.clock {
                ticks.arrive(now);
            }
            self.depart(packet, now, fate, watch);
        } else {
            self.enqueue(packet, now, fate, watch);
            if self.serving.is_none() {
                self.serve(now, fate, watch);
            }
            self.note_backlog(now);
        }
        self.check();
    }

    /// Do everything due until `now`, and hand over what has arrived by then, in order of arrival.
    #[inline]
    pub fn advance(&mut self, now: Time, fate: &mut Fate, host: &mut impl Host) {
        self.catch_up(now, fate, host);
        self.hand_over(now, host);
        self.check();
    }

    /// Deliver what has arrived at the far end by `now`.
    #[inline(always)]
    pub(crate) fn hand_over(&mut self, now: Time, host: &mut impl Host) {
        while let Some(&(due, packet)) = self.pipe.front() {
            if due > now {
                break;
            }
            self.pipe.pop_front();
            self.pipe_bytes -= Bytes::from(packet.bytes);
            self.count.delivered += 1;
            self.count.delivered_bytes += Bytes::from(packet.bytes);
            if self.wire.as_mut().is_some_and(|wire| wire.is_duplicated()) {
                self.deliver_twice(due, packet, host);
            } else {
                host.deliver(due, packet);
            }
        }
    }

    /// Do what the queue and serialiser have due until `now`, so that backlog and counts are those of `now`;
    /// deliver nothing. Only an observer between wakes needs this.
    pub fn settle(&mut self, now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        self.catch_up(now, fate, watch);
        self.check();
    }

    /// When the link must be advanced next: the next arrival at the far end, or the earliest instant at which one
    /// may be. [`Time::NEVER`] if nothing is under way.
    #[inline]
    pub fn next_wake(&self) -> Time {
        match self.pipe.front() {
            // What departs later arrives later, unless some are held back.
            Some(&(due, _)) if !self.is_reordering() && !self.reports => due,
            Some(&(due, _)) => due.min(self.step),
            // A shaping queue or a lossy wire may yet postpone this; then it is asked again.
            None if self.step == Time::NEVER => Time::NEVER,
            None => match self.clock {
                Clock::Exact if !self.reports => self.step + self.delay,
                Clock::Exact | Clock::Ticks(_) | Clock::Paced(_) => self.step,
            },
        }
    }

    /// From now on wake for every departure, and report it. Not a tunnel: its device lets go of a packet at once
    /// (Linux `tun_net_xmit` orphans it), so no sender can see what waits there.
    pub(crate) fn report_departures(&mut self) {
        self.reports = self.tunnel.is_none();
        self.foresee();
    }
    /// Does it report departures?
    pub(crate) fn reports_departures(&self) -> bool {
        self.reports
    }

    /// The packet that will arrive after `number` others, as far as they are under way.
    #[inline]
    pub fn arriving(&self, number: usize) -> Option<&Packet> {
        self.pipe.get(number).map(|(_, packet)| packet)
    }

    /// The first arrival at the far end to come; [`Time::NEVER`] if nothing is under way.
    pub(crate) fn next_arrival(&self) -> Time {
        self.pipe.front().map_or(Time::NEVER, |&(due, _)| due)
    }

    /// Number of the channel it shares; only of one that does.
    pub fn channel(&self) -> u32 {
        self.outlet.as_ref().expect("the link shares a channel").channel
    }

    /// Do others decide when its packets leave: stations of a channel it shares, or the connection of a tunnel?
    #[inline]
    pub fn is_shared(&self) -> bool {
        !self.is_plain
    }
}
