//! The link: an interface, and what serves its queue.

use super::api::{Host, LinkCount, Watch};
use super::foreseen::Foreseen;
use super::gate::Gate;
use super::instant::Instant;
use super::interface::Interface;
use super::outlet::Outlet;
use super::radio::Radio;
use super::serial::{Clock, Serial};
use super::serve::Serve;
use super::steady::Steady;
use super::tunnel::Tunnel;
use crate::packet::Packet;
use crate::queue::outside::Outside;
use crate::queue::registry::Queue;
use crate::queue::{Backlog, DropReason, Fate};
use crate::time::{Bytes, Duration, Rate, Time};

/// What serves a link's queue.
#[allow(clippy::large_enum_variant, reason = "the serial link is as common as the foreseen one")]
#[derive(Clone, Debug)]
pub enum Service {
    Foreseen(Foreseen),
    Steady(Steady),
    Serial(Serial),
    Instant(Instant),
    Outlet(Box<Outlet>),
    Radio(Box<Radio>),
    Tunnel(Box<Tunnel>),
    Gated(Box<Gated>),
}

/// A service behind a gate.
#[derive(Clone, Debug)]
pub struct Gated {
    pub gate: Gate,
    pub service: Service,
}

impl Service {
    /// Itself, or what serves the queue behind its gate.
    fn behind_gate(&self) -> &Service {
        match self {
            Service::Gated(gated) => &gated.service,
            service => service,
        }
    }

    /// As [`Self::behind_gate`], to change.
    fn behind_gate_mut(&mut self) -> &mut Service {
        match self {
            Service::Gated(gated) => &mut gated.service,
            service => service,
        }
    }
}

macro_rules! each {
    ($service:expr, $state:ident => $call:expr) => {
        match $service {
            Service::Foreseen($state) => $call,
            Service::Steady($state) => $call,
            Service::Serial($state) => $call,
            Service::Instant($state) => $call,
            Service::Outlet($state) => $call,
            Service::Radio($state) => $call,
            Service::Tunnel($state) => $call,
            Service::Gated($state) => $call,
        }
    };
}

impl Serve for Gated {
    fn catch_up(&mut self, of: &mut Interface, now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        each!(&mut self.service, service => service.catch_up(of, now, fate, watch));
    }
    fn push(&mut self, of: &mut Interface, mut packet: Packet, fate: &mut Fate, watch: &mut impl Watch) {
        if !self.gate.admits(&mut packet, of.now) {
            return of.drop(packet, DropReason::Policer, of.now, fate, watch);
        }
        each!(&mut self.service, service => service.push(of, packet, fate, watch));
    }
    fn keeps_wake(&self, of: &Interface) -> bool {
        each!(&self.service, service => service.keeps_wake(of))
    }
    fn next_wake(&self, of: &Interface, arrival: Time) -> Time {
        each!(&self.service, service => service.next_wake(of, arrival))
    }
    fn between(&self) -> Backlog {
        each!(&self.service, service => service.between())
    }
    fn in_service(&self, of: &Interface) -> u32 {
        each!(&self.service, service => service.in_service(of))
    }
    fn resident(&self, of: &Interface) -> Backlog {
        each!(&self.service, service => service.resident(of))
    }
    fn held_integral(&self, of: &Interface) -> u128 {
        each!(&self.service, service => service.held_integral(of))
    }
    fn busy(&self, of: &Interface) -> Duration {
        each!(&self.service, service => service.busy(of))
    }
}

/// Who decides when a link's packets leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Server {
    /// The link itself.
    Link,
    /// The channel of this number, which it shares.
    Channel(u32),
    /// The connection of a tunnel.
    Connection,
}

/// A link in one direction.
#[derive(Clone, Debug)]
pub struct Link {
    pub(super) interface: Interface,
    service: Service,
    nominal: Option<Rate>,
}

impl Link {
    pub(super) fn new(interface: Interface, service: Service, nominal: Option<Rate>) -> Self {
        Link { interface, service, nominal }
    }

    /// Offer `packet` at `now`. What is due until then happens first, departures at `now` included. At a channel or a
    /// tunnel it waits until that takes it. Returns when the link must be advanced next, if that may have changed.
    #[inline(always)]
    pub fn push(
        &mut self,
        mut packet: Packet,
        now: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) -> Option<Time> {
        let of = &mut self.interface;
        of.turn_to(now);
        each!(&mut self.service, service => {
            let keeps_wake = service.keeps_wake(of);
            service.catch_up(of, now, fate, watch);
            of.arrive(&mut packet, now);
            service.push(of, packet, fate, watch);
            of.check(service.resident(of));
            (!keeps_wake).then(|| service.next_wake(of, of.next_arrival()))
        })
    }

    /// As [`Self::push`], at the same instant as the last one: of a link that has nothing to do meanwhile, and whose wake stays
    /// as it is. False: it is none, and nothing was done.
    #[inline(always)]
    pub fn push_again(&mut self, mut packet: Packet, fate: &mut Fate, watch: &mut impl Watch) -> bool {
        let of = &mut self.interface;
        let Service::Foreseen(service) = &mut self.service else { return false };
        if of.pipe.is_empty() || service.is_due(of.now) || packet.enqueued != of.now {
            return false;
        }
        let now = of.now;
        of.arrive(&mut packet, now);
        service.push(of, packet, fate, watch);
        of.check(service.resident(of));
        true
    }

    /// Do everything due until `now`, and hand over what has arrived by then, in order of arrival. Returns when the
    /// link must be advanced next.
    #[inline(always)]
    pub fn advance(&mut self, now: Time, fate: &mut Fate, host: &mut impl Host) -> Time {
        let of = &mut self.interface;
        of.look_at(now);
        each!(&mut self.service, service => {
            service.catch_up(of, now, fate, host);
            let next = of.hand_over(now, host);
            of.check(service.resident(of));
            service.next_wake(of, next)
        })
    }

    /// Does everything that has left its queue arrive, once and in order, at a time that is known?
    pub(crate) fn delivers_in_order(&self) -> bool {
        let of = &self.interface;
        matches!(self.service, Service::Foreseen(_) | Service::Steady(_))
            && !of.reports
            && of.wire.as_ref().is_none_or(|wire| !wire.is_reordering() && !wire.may_duplicate())
    }

    /// Does that hold, and does its wire do nothing?
    pub(crate) fn only_delays(&self) -> bool {
        self.delivers_in_order() && self.interface.wire.is_none()
    }

    /// From now on packets may come in ahead of what the host asks for.
    pub(crate) fn let_ahead(&mut self) {
        self.interface.runs_ahead = true;
    }

    /// Of such a link, which has been advanced to `now`: all that arrives until then has left its queue.
    #[inline]
    pub(crate) fn departed_until(&self, now: Time) -> Time {
        now + self.interface.delay
    }

    /// Of such a link, the one that arrives after this many others, if that is before `until`, and alone: with others behind it,
    /// so that the link never looks empty to those who come meanwhile.
    #[inline(always)]
    pub(crate) fn next_ahead(&self, after: usize, until: Time) -> Option<(Time, Packet)> {
        let pipe = &self.interface.pipe;
        let (next, behind) = (pipe.get(after)?, pipe.get(after + 1)?);
        (next.0 < until && next.0 < behind.0).then_some(*next)
    }

    /// This many are delivered, of this many bytes together.
    #[inline(always)]
    pub(crate) fn deliver_ahead(&mut self, packets: usize, bytes: Bytes) {
        self.interface.deliver_ahead(packets, bytes);
    }

    /// Of such a link: does something that is under way arrive later than that?
    #[inline(always)]
    pub(crate) fn is_busy_after(&self, time: Time) -> bool {
        self.interface.pipe.back().is_some_and(|(due, _)| *due > time)
    }

    /// Do what the queue and serialiser have due until `now`, so that backlog and counts are those of `now`;
    /// deliver nothing. Only an observer between wakes needs this.
    pub fn settle(&mut self, now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        let of = &mut self.interface;
        of.look_at(now);
        each!(&mut self.service, service => {
            service.catch_up(of, now, fate, watch);
            of.check(service.resident(of));
        });
        of.check_counts();
    }

    /// When the link must be advanced next: the next arrival at the far end, or the earliest instant at which one
    /// may be. [`Time::NEVER`] if nothing is under way.
    #[inline(always)]
    pub fn next_wake(&self) -> Time {
        each!(&self.service, service => service.next_wake(&self.interface, self.interface.next_arrival()))
    }

    /// Who decides when its packets leave.
    #[inline]
    pub fn server(&self) -> Server {
        match &self.service {
            Service::Foreseen(_) | Service::Steady(_) | Service::Serial(_) | Service::Instant(_) => {
                Server::Link
            }
            Service::Outlet(outlet) => Server::Channel(outlet.channel),
            Service::Radio(radio) => Server::Channel(radio.channel),
            Service::Tunnel(_) => Server::Connection,
            // No gate stands before what others serve.
            Service::Gated(_) => Server::Link,
        }
    }

    /// From now on wake for every departure, and report it. Not a tunnel: its device lets go of a packet at once
    /// (Linux `tun_net_xmit` orphans it), so no sender can see what waits there.
    pub(crate) fn report_departures(&mut self) {
        if !matches!(self.service, Service::Tunnel(_)) {
            self.interface.reports = true;
            self.ask_at_each_departure();
        }
    }

    /// Does it report departures?
    pub(crate) fn reports_departures(&self) -> bool {
        self.interface.reports
    }

    /// Foresee nothing, and keep what is being sent; of a link that holds nothing yet.
    pub(super) fn ask_at_each_departure(&mut self) {
        let service = self.service.behind_gate_mut();
        let serialiser = match service {
            Service::Foreseen(service) => &service.serialiser,
            Service::Steady(service) => &service.serialiser,
            Service::Serial(_)
            | Service::Instant(_)
            | Service::Outlet(_)
            | Service::Radio(_)
            | Service::Tunnel(_)
            | Service::Gated(_) => return,
        };
        *service = Service::Serial(Serial::new(serialiser.clone(), Clock::Exact));
    }

    /// From now on its queue is decided outside; of a link at a fixed rate that holds nothing yet.
    pub fn decide_outside(&mut self) {
        self.ask_at_each_departure();
        assert!(matches!(self.service, Service::Serial(_)), "link {}: it has a rate", self.interface.name);
        self.interface.queue = Queue::Outside(Outside::default());
    }

    /// Takes what came out of a queue that runs outside the engine; `decide` gives the fates of its packets.
    pub fn decided(
        &mut self,
        decide: impl FnOnce(&mut Outside),
        now: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) {
        let (of, Service::Serial(service)) = (&mut self.interface, &mut self.service) else {
            panic!("link {}: its queue is decided here", self.interface.name);
        };
        of.turn_to(now);
        service.catch_up(of, now, fate, watch);
        of.decide(decide, fate, watch);
        service.look_again(of, fate, watch);
        of.check(service.resident(of));
    }

    #[cfg(test)]
    pub(super) fn is_foreseen(&self) -> bool {
        matches!(self.service, Service::Foreseen(_))
    }

    #[cfg(test)]
    pub(super) fn is_steady(&self) -> bool {
        matches!(self.service, Service::Steady(_))
    }

    /// The link, if it has a place at a channel.
    pub(super) fn at_channel(&mut self) -> Option<(&mut Interface, &mut Outlet)> {
        match &mut self.service {
            Service::Outlet(outlet) => Some((&mut self.interface, outlet)),
            _ => None,
        }
    }

    /// Packets, at a channel, that have not left it yet.
    pub(super) fn waiting(&self) -> u32 {
        self.interface.queued.packets + each!(&self.service, service => service.between()).packets
    }

    /// `packet` comes in at a channel at `now`, and finds no room.
    pub(super) fn refuse(
        &mut self,
        mut packet: Packet,
        reason: DropReason,
        now: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) {
        let of = &mut self.interface;
        of.turn_to(now);
        of.arrive(&mut packet, now);
        of.drop(packet, reason, now, fate, watch);
        self.check();
    }

    /// The link, if it has a place in a cell.
    pub(super) fn at_cell(&mut self) -> Option<(&mut Interface, &mut Radio)> {
        match &mut self.service {
            Service::Radio(radio) => Some((&mut self.interface, radio)),
            _ => None,
        }
    }

    /// Has it, at a channel, anything in its queue or in the air?
    pub(super) fn has_something(&self) -> bool {
        match &self.service {
            Service::Outlet(outlet) => outlet.has_something(&self.interface),
            Service::Radio(radio) => radio.has_something(&self.interface),
            _ => false,
        }
    }

    /// The packet that will arrive after `number` others, as far as they are under way.
    #[inline]
    pub fn arriving(&self, number: usize) -> Option<&Packet> {
        self.interface.pipe.get(number).map(|(_, packet)| packet)
    }

    /// May packets leave it damaged?
    pub(crate) fn may_damage(&self) -> bool {
        self.interface.wire.as_ref().is_some_and(|wire| wire.may_damage())
    }

    /// What stands before its queue.
    pub(super) fn gate(&self) -> Option<&Gate> {
        match &self.service {
            Service::Gated(gated) => Some(&gated.gate),
            _ => None,
        }
    }

    /// The name its scenario gives it.
    pub fn name(&self) -> &str {
        &self.interface.name
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.interface.queue
    }

    /// Whether it sends at any rate.
    pub(crate) fn has_no_rate(&self) -> bool {
        matches!(self.service.behind_gate(), Service::Instant(_))
    }

    /// Does a packet take time to cross it? Else it is infinitely fast, and of no length.
    pub(crate) fn takes_time(&self) -> bool {
        let Service::Instant(service) = self.service.behind_gate() else { return true };
        let has_delay = match &service.ticks {
            Some(ticks) => ticks.has_delay(),
            None => !self.interface.delay.is_zero(),
        };
        has_delay || self.interface.wire.as_ref().is_some_and(|wire| wire.has_jitter())
    }

    /// What it has done so far.
    pub fn count(&self) -> &LinkCount {
        self.interface.count()
    }

    /// What the queue holds; the packet being transmitted is not in it.
    #[inline]
    pub fn backlog(&self) -> Backlog {
        self.interface.queued
    }

    /// Bytes of the packet being transmitted, all of it until its last bit has left; 0 if idle.
    pub fn in_service(&self) -> u32 {
        each!(&self.service, service => service.in_service(&self.interface))
    }

    /// What is in the queue, being transmitted, or under way.
    pub fn resident(&self) -> Backlog {
        each!(&self.service, service => service.resident(&self.interface))
    }

    /// How long it has transmitted until the last call.
    pub fn busy(&self) -> Duration {
        each!(&self.service, service => service.busy(&self.interface))
    }

    /// The queue's bytes averaged over the time until the last call; 0 before any time has passed.
    pub fn backlog_mean(&self) -> f64 {
        let integral = each!(&self.service, service => service.held_integral(&self.interface));
        self.interface.backlog_mean(integral)
    }

    /// The most bytes the queue has held.
    pub fn backlog_max(&self) -> Bytes {
        self.interface.backlog_max()
    }

    /// The rate it has alone, on average; `None`: it has no rate of its own.
    pub fn nominal(&self) -> Option<Rate> {
        self.nominal
    }

    /// Conservation: what came in went out, was dropped, or is here.
    pub(super) fn check(&self) {
        self.interface.check(self.resident());
    }
}

/// A link that is a direction of a tunnel.
impl Link {
    fn tunnel(&mut self) -> (&mut Interface, &mut Tunnel) {
        match &mut self.service {
            Service::Tunnel(tunnel) => (&mut self.interface, tunnel),
            _ => panic!("link {} is no direction of a tunnel", self.interface.name),
        }
    }

    /// A new connection, whose sending end has this address, carries the stream from here.
    pub(crate) fn open_tunnel(&mut self, end: u32) {
        self.tunnel().1.stream.open(end);
    }

    /// The stream takes no more packets.
    pub(crate) fn shut_tunnel(&mut self) {
        self.tunnel().1.stream.end = None;
    }

    /// The end that sends the stream, by its address; `None` while there is no connection.
    pub(crate) fn tunnel_end(&mut self) -> Option<u32> {
        self.tunnel().1.stream.end
    }

    /// Move packets to the stream, whose socket has `room` bytes left, or that `is_drained`: then it takes one however
    /// large. Returns the bytes to write.
    pub(crate) fn write_tunnel(
        &mut self,
        room: Bytes,
        is_drained: bool,
        now: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) -> Bytes {
        let (it, tunnel) = self.tunnel();
        it.turn_to(now);
        let written = tunnel.write(it, room, is_drained, fate, watch);
        self.check();
        written
    }

    /// This many bytes of the stream have arrived in order: let out the packets that are complete.
    pub(crate) fn read_tunnel(
        &mut self,
        delivered: Bytes,
        now: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) {
        let (it, tunnel) = self.tunnel();
        it.turn_to(now);
        tunnel.read(it, delivered, fate, watch);
        self.check();
    }
}
