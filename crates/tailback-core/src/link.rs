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

use std::collections::VecDeque;

use crate::capacity::{Crossing, Pacer};
use crate::medium::channel::Outlet;
use crate::medium::tunnel::Tunnel;
use crate::packet::Packet;
use crate::queue::registry::{self, Place, Queue};
use crate::queue::{Backlog, DropReason, Fate, QueueDiscipline, refuse_too_small};
use crate::rng::Stream;
use crate::scenario::{LinkSpec, QueueSpec, ScenarioError};
use crate::time::{Bytes, Duration, Rate, Time};
use crate::wire::{Passage, Wire};

/// The longest delay a link may have; more is a mistake of units.
pub const LONGEST_DELAY: Duration = Duration::from_secs(86_400);
/// The fastest rate a link may have: a thousand times today's fastest port.
pub(crate) const FASTEST: u64 = 1_000_000_000_000_000;
/// The fastest timer.
const FASTEST_TICK: u32 = 1_000_000;

const PS_PER_SECOND: u64 = 1_000_000_000_000;

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
    /// What the queue said it holds when it was last touched.
    queued: Backlog,
    /// The packet being transmitted.
    pub(crate) serving: Option<Packet>,
    /// When the serialiser next does something: finishes, or may find a shaping queue ready.
    step: Time,
    delay: Duration,
    /// Packets under way by due time.
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
    /// The link that `spec`, number `index` of the scenario, describes.
    pub fn build(spec: &LinkSpec, index: usize, seed: u64) -> Result<Self, ScenarioError> {
        let refuse = |what: &str, value: u64, problem: &str, fix: &str| {
            let field = format!("links[{index}].{what}");
            Err(ScenarioError { field, value: value.to_string(), problem: problem.into(), fix: fix.into() })
        };
        if let Some(bps) = spec.rate_bps {
            if bps == 0 {
                return refuse(
                    "rate_bps",
                    0,
                    "a link of rate zero delivers nothing",
                    "Give a rate above zero",
                );
            }
            if bps > FASTEST {
                return refuse(
                    "rate_bps",
                    bps,
                    "above 1 Pbit/s",
                    "Give at most 10^15, or leave the rate out",
                );
            }
        }
        if spec.delay_ps > LONGEST_DELAY.as_ps() {
            return refuse("delay_ps", spec.delay_ps, "longer than a day", "Give at most one day");
        }
        if let Some(hz) = spec.tick_hz {
            if hz == 0 || hz > FASTEST_TICK {
                return refuse("tick_hz", hz.into(), "not a timer", "Give 1 to 1000000 Hz, or leave it out");
            }
        }
        let pacer = Pacer::build(spec, index, seed)?;
        let outlet = Outlet::build(spec, index, seed)?;
        let tunnel = Tunnel::build(spec, index)?;
        let is_plain = outlet.is_none() && tunnel.is_none();
        let is_fast = spec.rate_bps.is_none() && pacer.is_none() && is_plain;
        if is_fast && spec.queue.discipline != QueueSpec::unlimited().discipline {
            return Err(ScenarioError {
                field: format!("links[{index}].queue.discipline"),
                value: format!("\"{}\"", spec.queue.discipline),
                problem: "an infinitely fast link never has a queue to manage".into(),
                fix: "Give the link a rate, or leave its queue out".into(),
            });
        }
        let nominal = pacer.as_ref().map(Pacer::nominal).or(outlet.as_ref().map(|outlet| outlet.nominal()));
        let rate = spec.rate_bps.map(Rate::from_bps).or(nominal);
        let place = Place { rate, seed: Stream::named(seed, &format!("link/{}/queue", spec.name)).bits() };
        let queue_path = format!("links[{index}].queue");
        let clock = match (pacer, spec.tick_hz) {
            (Some(pacer), _) => Clock::Paced(Box::new(pacer)),
            (None, Some(hz)) => Clock::Ticks(Ticks::new(hz, Duration::from_ps(spec.delay_ps))),
            (None, None) => Clock::Exact,
        };
        Ok(Link {
            name: spec.name.clone(),
            serialiser: rate.map(Serialiser::new),
            clock,
            queue: registry::build(&spec.queue.discipline, &spec.queue.params, &queue_path, &place)?,
            queued: Backlog::default(),
            serving: None,
            step: Time::NEVER,
            delay: Duration::from_ps(spec.delay_ps),
            pipe: VecDeque::new(),
            pipe_bytes: 0,
            wire: Wire::build(&spec.wire, &format!("links[{index}].wire"), &spec.name, seed)?.map(Box::new),
            reports: false,
            outlet: outlet.map(Box::new),
            tunnel: tunnel.map(Box::new),
            is_plain,
            count: LinkCount::default(),
            now: Time::ZERO,
            busy: Duration::ZERO,
            held: 0,
            held_since: Time::ZERO,
            held_integral: 0,
            held_max: 0,
        })
    }

    /// An error if a packet of `bytes` could never cross the link, number `index`, built from `spec`.
    pub fn must_take(&self, spec: &LinkSpec, index: usize, bytes: u32) -> Result<(), ScenarioError> {
        refuse_too_small(&self.queue, &spec.queue, &format!("links[{index}].queue"), bytes)
    }

    /// Offer `packet` at `now`. What is due until then happens first, departures at `now` included.
    #[inline]
    pub fn push(&mut self, mut packet: Packet, now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        self.catch_up(now, fate, watch);
        self.count.arrived += 1;
        self.count.arrived_bytes += Bytes::from(packet.bytes);
        packet.enqueued = now;
        if self.serialiser.is_none() {
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

    /// The rate it has alone, on average; `None`: it has no rate of its own.
    pub fn nominal(&self) -> Option<Rate> {
        self.serialiser.as_ref().map(|serialiser| serialiser.rate)
    }

    /// From now on wake for every departure, and report it. Not a tunnel: its device lets go of a packet at once
    /// (Linux `tun_net_xmit` orphans it), so no sender can see what waits there.
    pub(crate) fn report_departures(&mut self) {
        self.reports = self.tunnel.is_none();
    }
    /// Does it report departures?
    pub(crate) fn reports_departures(&self) -> bool {
        self.reports
    }

    /// The name its scenario gives it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it has done so far.
    pub fn count(&self) -> &LinkCount {
        &self.count
    }

    /// What the queue holds; the packet being transmitted is not in it.
    #[inline]
    pub fn backlog(&self) -> Backlog {
        self.queued
    }

    /// Bytes of the packet being transmitted, all of it until its last bit has left; 0 if idle.
    pub fn in_service(&self) -> u32 {
        match &self.outlet {
            None => self.serving.map_or(0, |packet| packet.bytes),
            Some(outlet) => outlet.in_air().bytes as u32,
        }
    }

    /// What is in the queue, being transmitted, or under way.
    pub fn resident(&self) -> Backlog {
        let queued = self.queued;
        let mut sent = Backlog {
            packets: u32::from(self.serving.is_some()),
            bytes: self.serving.map_or(0, |packet| Bytes::from(packet.bytes)),
        };
        if !self.is_plain {
            sent = self.elsewhere(sent);
        }
        Backlog {
            packets: queued.packets + sent.packets + self.pipe.len() as u32,
            bytes: queued.bytes + sent.bytes + self.pipe_bytes,
        }
    }

    /// What is in the air, or in a tunnel and in the hands of its process.
    #[cold]
    fn elsewhere(&self, held: Backlog) -> Backlog {
        match (&self.outlet, &self.tunnel) {
            (Some(outlet), _) => outlet.in_air(),
            (None, Some(tunnel)) => {
                let inside = tunnel.inside();
                Backlog { packets: held.packets + inside.packets, bytes: held.bytes + inside.bytes }
            }
            (None, None) => held,
        }
    }

    /// How long it has transmitted until the last call.
    pub fn busy(&self) -> Duration {
        if let Some(tunnel) = &self.tunnel {
            return self.blocked(tunnel);
        }
        match (self.serving, &self.serialiser) {
            (Some(_), _) if self.is_paced() => self.busy + self.now.since(self.began()),
            (Some(packet), Some(serialiser)) => {
                let left = self.step.since(self.now).min(serialiser.time_for(packet.bytes));
                self.busy.saturating_sub(left)
            }
            _ => self.busy,
        }
    }

    /// The queue's bytes averaged over the time until the last call; 0 before any time has passed.
    pub fn backlog_mean(&self) -> f64 {
        let integral =
            self.held_integral + self.held as u128 * self.now.since(self.held_since).as_ps() as u128;
        let span = self.now.as_ps();
        if span == 0 { 0.0 } else { integral as f64 / span as f64 }
    }

    /// The most bytes the queue has held.
    pub fn backlog_max(&self) -> Bytes {
        self.held_max
    }

    #[inline(always)]
    fn catch_up(&mut self, now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        assert!(
            self.now <= now && now < Time::NEVER,
            "link {}: time ran back from {:?} to {now:?}",
            self.name,
            self.now
        );
        while self.step <= now {
            let at = self.step;
            if let Some(packet) = self.serving.take() {
                self.depart(packet, at, fate, watch);
            }
            self.serve(at, fate, watch);
            self.note_backlog(at);
        }
        self.now = now;
    }

    /// The last bit of `packet` left at `at`: onto the wire.
    #[inline]
    pub(crate) fn depart(&mut self, packet: Packet, at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        if self.reports {
            watch.on_departure(&packet);
        }
        let due = match &mut self.clock {
            Clock::Exact => at + self.delay,
            Clock::Ticks(ticks) => ticks.due(at),
            Clock::Paced(pacer) => {
                self.busy += at.since(pacer.began());
                match pacer.cross(at, self.delay) {
                    Crossing::Arrives(due) => due,
                    Crossing::Lost => return self.lose(packet, at, fate, watch),
                }
            }
        };
        match &mut self.wire {
            None => self.pipe.push_back((due, packet)),
            Some(wire) => match wire.pass(due, packet.bytes) {
                Passage::Lost => return self.lose(packet, at, fate, watch),
                Passage::InOrder(due) | Passage::HeldBack(due) => {
                    let mut place = self.pipe.len();
                    while place > 0 && self.pipe[place - 1].0 > due {
                        place -= 1;
                    }
                    self.pipe.insert(place, (due, packet));
                }
            },
        }
        self.pipe_bytes += Bytes::from(packet.bytes);
    }

    /// The serialiser is free at `at`: take the next packet, if the queue gives one.
    #[inline]
    fn serve(&mut self, at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        let Some(packet) = self.take(at, fate, watch) else {
            self.queue.on_service(0);
            self.step = if self.queued.packets == 0 { Time::NEVER } else { self.retry_at(at) };
            return;
        };
        self.queue.on_service(packet.bytes);
        let serialiser = self.serialiser.as_ref().expect("only a link with a rate queues");
        let transmission = serialiser.time_for(packet.bytes);
        self.step = match &mut self.clock {
            Clock::Exact => {
                self.busy += transmission;
                at + transmission
            }
            Clock::Ticks(ticks) => {
                self.busy += transmission;
                ticks.depart_at(at, packet.bytes, serialiser.rate)
            }
            Clock::Paced(pacer) => pacer.serve(at, &packet, self.step == Time::NEVER),
        };
        self.serving = Some(packet);
    }

    /// The next packet to send, if the queue gives one.
    #[inline]
    pub(crate) fn take(&mut self, at: Time, fate: &mut Fate, watch: &mut impl Watch) -> Option<Packet> {
        let before = self.queued;
        let (drops, marks) = (fate.drops.len(), fate.marks.len());
        let next = self.queue.dequeue(at, fate);
        self.queued = self.queue.backlog();
        if fate.drops.len() != drops || fate.marks.len() != marks {
            self.report(at, before, &fate.drops[drops..], &fate.marks[marks..], watch);
        }
        if let Some(packet) = &next {
            watch.on_dequeue(at, packet, self.queued);
        }
        next
    }

    /// `packet` will never arrive.
    #[cold]
    pub(crate) fn lose(&mut self, packet: Packet, at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        self.count.dropped += 1;
        self.count.dropped_bytes += Bytes::from(packet.bytes);
        fate.drop(packet, DropReason::Wire);
        watch.on_drop(at, &packet, self.queued, DropReason::Wire);
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

    fn is_paced(&self) -> bool {
        matches!(self.clock, Clock::Paced(_))
    }

    /// When the transmission under way began, at a varying pace.
    fn began(&self) -> Time {
        match &self.clock {
            Clock::Paced(pacer) => pacer.began(),
            _ => self.now,
        }
    }

    #[cold]
    fn retry_at(&self, at: Time) -> Time {
        let ready = self.queue.ready_at(at).unwrap_or(at);
        assert!(
            ready > at,
            "link {}: its queue holds packets, gives none and names no later time",
            self.name
        );
        ready
    }

    #[inline(always)]
    pub(crate) fn enqueue(&mut self, packet: Packet, now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        let before = self.queued;
        let (drops, marks) = (fate.drops.len(), fate.marks.len());
        self.queue.enqueue(packet, now, fate);
        self.queued = self.queue.backlog();
        if fate.drops.len() == drops && fate.marks.len() == marks {
            watch.on_enqueue(now, &packet, self.queued);
            return;
        }
        self.report_enqueue(packet, now, before, &fate.drops[drops..], &fate.marks[marks..], watch);
    }

    /// An arrival with consequences: first others go to make room, then it joins, then it is marked.
    #[cold]
    fn report_enqueue(
        &mut self,
        packet: Packet,
        now: Time,
        before: Backlog,
        drops: &[(Packet, DropReason)],
        marks: &[Packet],
        watch: &mut impl Watch,
    ) {
        let is_refused = drops.iter().any(|(dropped, _)| dropped.slot == packet.slot);
        if is_refused {
            // It never joined: its own drop must not be taken from what the queue held.
            let with_it = plus(before, &packet);
            self.report(now, with_it, drops, marks, watch);
        } else {
            self.report(now, before, drops, &[], watch);
            watch.on_enqueue(now, &packet, self.queued);
            self.report(now, self.queued, &[], marks, watch);
        }
    }

    /// Count drops and marks and show them to the watcher, each with the backlog it left behind.
    #[cold]
    pub(crate) fn report(
        &mut self,
        at: Time,
        mut held: Backlog,
        drops: &[(Packet, DropReason)],
        marks: &[Packet],
        watch: &mut impl Watch,
    ) {
        for (packet, reason) in drops {
            held.packets -= 1;
            held.bytes -= Bytes::from(packet.bytes);
            self.count.dropped += 1;
            self.count.dropped_bytes += Bytes::from(packet.bytes);
            watch.on_drop(at, packet, held, *reason);
        }
        for packet in marks {
            self.count.marked += 1;
            self.count.marked_bytes += Bytes::from(packet.bytes);
            watch.on_mark(at, packet, held);
        }
    }

    #[cold]
    fn deliver_twice(&mut self, due: Time, packet: Packet, host: &mut impl Host) {
        let copy = host.duplicate(&packet);
        self.count.duplicated += 1;
        self.count.duplicated_bytes += Bytes::from(packet.bytes);
        self.count.delivered += 1;
        self.count.delivered_bytes += Bytes::from(packet.bytes);
        host.deliver(due, packet);
        host.deliver(due, copy);
    }

    #[inline]
    pub(crate) fn note_backlog(&mut self, at: Time) {
        let held = self.queued.bytes;
        if held != self.held {
            self.held_integral += self.held as u128 * at.since(self.held_since).as_ps() as u128;
            self.held_since = at;
            self.held = held;
            self.held_max = self.held_max.max(held);
        }
    }

    #[inline]
    fn is_reordering(&self) -> bool {
        self.wire.as_ref().is_some_and(|wire| wire.is_reordering())
    }

    /// Conservation: what came in went out, was dropped, or is here.
    #[inline(always)]
    pub(crate) fn check(&self) {
        let resident = self.resident();
        let count = &self.count;
        let (came, went) = (count.arrived + count.duplicated, count.delivered + count.dropped);
        let came_bytes = count.arrived_bytes + count.duplicated_bytes;
        let went_bytes = count.delivered_bytes + count.dropped_bytes;
        if came != went + u64::from(resident.packets) || came_bytes != went_bytes + resident.bytes {
            self.not_conserved();
        }
    }

    #[cold]
    fn not_conserved(&self) -> ! {
        panic!("link {}: packets not conserved: {:?}, resident {:?}", self.name, self.count, self.resident());
    }
}

fn plus(backlog: Backlog, packet: &Packet) -> Backlog {
    Backlog { packets: backlog.packets + 1, bytes: backlog.bytes + Bytes::from(packet.bytes) }
}

/// How long bytes take at a rate.
#[derive(Clone, Debug)]
struct Serialiser {
    rate: Rate,
    /// Picoseconds a byte where that is a whole number, as at all common rates; else 0.
    per_byte: u64,
}

impl Serialiser {
    fn new(rate: Rate) -> Self {
        let byte = 8 * PS_PER_SECOND;
        let per_byte = if byte % rate.as_bps() == 0 { byte / rate.as_bps() } else { 0 };
        Serialiser { rate, per_byte }
    }

    #[inline]
    fn time_for(&self, bytes: u32) -> Duration {
        if self.per_byte > 0 {
            Duration::from_ps(u64::from(bytes) * self.per_byte)
        } else {
            self.rate.time_for(Bytes::from(bytes))
        }
    }
}

/// dummynet's clock and credit.
#[derive(Clone, Debug)]
struct Ticks {
    hz: u64,
    delay: u64,
    /// Unspent credit in bits·hz, as dummynet counts it so that nothing is rounded.
    credit: u64,
    /// The tick of the last departure or arrival, and when it was.
    tick: u64,
    at: Time,
}

impl Ticks {
    fn new(hz: u32, delay: Duration) -> Self {
        let hz = u64::from(hz);
        Ticks { hz, delay: tick_of(delay.as_ps(), hz), credit: 0, tick: 0, at: Time::ZERO }
    }

    /// An infinitely fast pipe takes a packet at `now`.
    fn arrive(&mut self, now: Time) {
        self.tick = tick_of(now.as_ps(), self.hz);
    }

    /// When a packet of `bytes` leaves whose turn comes at `start`.
    fn depart_at(&mut self, start: Time, bytes: u32, bandwidth: Rate) -> Time {
        if start != self.at {
            let tick = tick_of(start.as_ps(), self.hz);
            if tick > self.tick {
                // Idle since an earlier tick: no credit accumulates.
                (self.tick, self.credit) = (tick, 0);
            }
        }
        let bandwidth = bandwidth.as_bps();
        let need = 8 * u64::from(bytes) * self.hz;
        let wait = need.saturating_sub(self.credit).div_ceil(bandwidth);
        self.credit = self.credit + wait * bandwidth - need;
        self.tick += wait;
        // Leftover credit may cover it at once, in the middle of a tick.
        self.at = start.max(self.time_of(self.tick));
        self.at
    }

    /// When a packet that left at `at`, in the current tick, arrives.
    fn due(&self, at: Time) -> Time {
        at.max(self.time_of(self.tick + self.delay))
    }

    /// The first picosecond of a tick.
    fn time_of(&self, tick: u64) -> Time {
        Time::from_ps((u128::from(tick) * u128::from(PS_PER_SECOND)).div_ceil(u128::from(self.hz)) as u64)
    }
}

/// The tick in which an instant lies.
fn tick_of(ps: u64, hz: u64) -> u64 {
    (u128::from(ps) * u128::from(hz) / u128::from(PS_PER_SECOND)) as u64
}
