//! The link: an interface and the service that empties its queue.

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

/// The services that can empty a link's queue.
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
    /// The service itself, or the one behind its gate.
    fn behind_gate(&self) -> &Service {
        match self {
            Service::Gated(gated) => &gated.service,
            service => service,
        }
    }

    /// As [`Self::behind_gate`], mutable.
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

/// What decides when a link's packets leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Server {
    /// The link itself.
    Link,
    /// The channel of this number, which the link shares.
    Channel(u32),
    /// A tunnel's connection.
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

    /// Offers `packet` at `now`, after everything due until then, departures at `now` included. At a channel or a
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

    /// As [`Self::push`], for a further packet at the same instant: only if the link has nothing else to do and its
    /// wake stays. Returns false, having done nothing, if the link is of another kind.
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

    /// Performs everything due up to `now`, and delivers the packets that have arrived, in order. Returns when the link
    /// must be advanced next.
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

    /// Whether every packet that has left the queue arrives once, in order, and at a known time.
    pub(crate) fn delivers_in_order(&self) -> bool {
        let of = &self.interface;
        matches!(self.service, Service::Foreseen(_) | Service::Steady(_))
            && !of.reports
            && of.wire.as_ref().is_none_or(|wire| !wire.is_reordering() && !wire.may_duplicate())
    }

    /// Whether it also has a wire that does nothing.
    pub(crate) fn only_delays(&self) -> bool {
        self.delivers_in_order() && self.interface.wire.is_none()
    }

    /// From now on packets may enter at times later than the host's clock.
    pub(crate) fn let_ahead(&mut self) {
        self.interface.runs_ahead = true;
    }

    /// For such a link, advanced to `now`: the time up to which all arrivals have left its queue.
    #[inline]
    pub(crate) fn departed_until(&self, now: Time) -> Time {
        now + self.interface.delay
    }

    /// For such a link, the packet that arrives after `after` others, if it arrives before `until` and others follow
    /// it. So the link never looks empty to packets that enter meanwhile.
    #[inline(always)]
    pub(crate) fn next_ahead(&self, after: usize, until: Time) -> Option<(Time, Packet)> {
        let pipe = &self.interface.pipe;
        let (next, behind) = (pipe.get(after)?, pipe.get(after + 1)?);
        (next.0 < until && next.0 < behind.0).then_some(*next)
    }

    /// Delivers the first `packets` packets, of `bytes` in all.
    #[inline(always)]
    pub(crate) fn deliver_ahead(&mut self, packets: usize, bytes: Bytes) {
        self.interface.deliver_ahead(packets, bytes);
    }

    /// For such a link: whether a packet in the pipe arrives later than `time`.
    #[inline(always)]
    pub(crate) fn is_busy_after(&self, time: Time) -> bool {
        self.interface.pipe.back().is_some_and(|(due, _)| *due > time)
    }

    /// Performs what queue and serialiser have due up to `now`, so that backlog and counts are those of `now`, and
    /// delivers nothing. Only observers between wakes need this.
    pub fn settle(&mut self, now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        let of = &mut self.interface;
        of.look_at(now);
        each!(&mut self.service, service => {
            service.catch_up(of, now, fate, watch);
            of.check(service.resident(of));
        });
        of.check_counts();
    }

    /// When the link must be advanced next: at the next arrival at the far end, or at the earliest time when there may
    /// be one. [`Time::NEVER`] if the link is empty.
    #[inline(always)]
    pub fn next_wake(&self) -> Time {
        each!(&self.service, service => service.next_wake(&self.interface, self.interface.next_arrival()))
    }

    /// What decides when its packets leave.
    #[inline]
    pub fn server(&self) -> Server {
        match &self.service {
            Service::Foreseen(_) | Service::Steady(_) | Service::Serial(_) | Service::Instant(_) => {
                Server::Link
            }
            Service::Outlet(outlet) => Server::Channel(outlet.channel),
            Service::Radio(radio) => Server::Channel(radio.channel),
            Service::Tunnel(_) => Server::Connection,
            // Links served by a channel or a connection have no gate.
            Service::Gated(_) => Server::Link,
        }
    }

    /// From now on the link wakes for every departure and reports it. Does nothing for a tunnel: its device releases a
    /// packet at once (Linux `tun_net_xmit` orphans it), so no sender can track what waits there.
    pub(crate) fn report_departures(&mut self) {
        if !matches!(self.service, Service::Tunnel(_)) {
            self.interface.reports = true;
            self.ask_at_each_departure();
        }
    }

    /// Whether it reports departures.
    pub(crate) fn reports_departures(&self) -> bool {
        self.interface.reports
    }

    /// Switches to asking the queue at each departure and keeping the packet being sent. Only for an empty link.
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

    /// Lets something outside the engine decide about the queue. Only for an empty link at a fixed rate.
    pub fn decide_outside(&mut self) {
        self.ask_at_each_departure();
        assert!(matches!(self.service, Service::Serial(_)), "link {}: it has a rate", self.interface.name);
        self.interface.queue = Queue::Outside(Outside::default());
    }

    /// Takes packets released from a queue outside the engine; `decide` sets the fates of its packets.
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

    /// Interface and outlet, if the link is at a channel.
    pub(super) fn at_channel(&mut self) -> Option<(&mut Interface, &mut Outlet)> {
        match &mut self.service {
            Service::Outlet(outlet) => Some((&mut self.interface, outlet)),
            _ => None,
        }
    }

    /// Packets, at a channel, that have not left the link yet.
    pub(super) fn waiting(&self) -> u32 {
        self.interface.queued.packets + each!(&self.service, service => service.between()).packets
    }

    /// Drops `packet`, which finds no room at a channel at `now`.
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

    /// Interface and radio, if the link is in a cell.
    pub(super) fn at_cell(&mut self) -> Option<(&mut Interface, &mut Radio)> {
        match &mut self.service {
            Service::Radio(radio) => Some((&mut self.interface, radio)),
            _ => None,
        }
    }

    /// Whether a link at a channel or in a cell has packets queued or in the air.
    pub(super) fn has_something(&self) -> bool {
        match &self.service {
            Service::Outlet(outlet) => outlet.has_something(&self.interface),
            Service::Radio(radio) => radio.has_something(&self.interface),
            _ => false,
        }
    }

    /// The packet in the pipe that will arrive after `number` others.
    #[inline]
    pub fn arriving(&self, number: usize) -> Option<&Packet> {
        self.interface.pipe.get(number).map(|(_, packet)| packet)
    }

    /// Whether packets may leave it damaged.
    pub(crate) fn may_damage(&self) -> bool {
        self.interface.wire.as_ref().is_some_and(|wire| wire.may_damage())
    }

    /// The gate before its queue.
    pub(super) fn gate(&self) -> Option<&Gate> {
        match &self.service {
            Service::Gated(gated) => Some(&gated.gate),
            _ => None,
        }
    }

    /// Its name in the scenario.
    pub fn name(&self) -> &str {
        &self.interface.name
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.interface.queue
    }

    /// Whether it has no rate.
    pub(crate) fn has_no_rate(&self) -> bool {
        matches!(self.service.behind_gate(), Service::Instant(_))
    }

    /// Whether a packet takes time to cross it: false for a link without rate and delay.
    pub(crate) fn takes_time(&self) -> bool {
        let Service::Instant(service) = self.service.behind_gate() else { return true };
        let has_delay = match &service.ticks {
            Some(ticks) => ticks.has_delay(),
            None => !self.interface.delay.is_zero(),
        };
        has_delay || self.interface.wire.as_ref().is_some_and(|wire| wire.has_jitter())
    }

    /// Counters of the link.
    pub fn count(&self) -> &LinkCount {
        self.interface.count()
    }

    /// The queue's backlog, without the packet being transmitted.
    #[inline]
    pub fn backlog(&self) -> Backlog {
        self.interface.queued
    }

    /// Bytes of the packet being transmitted, all of it until its last bit has left; 0 if idle.
    pub fn in_service(&self) -> u32 {
        each!(&self.service, service => service.in_service(&self.interface))
    }

    /// Packets in the queue, being transmitted, or in the pipe.
    pub fn resident(&self) -> Backlog {
        each!(&self.service, service => service.resident(&self.interface))
    }

    /// Total transmission time up to the last call.
    pub fn busy(&self) -> Duration {
        each!(&self.service, service => service.busy(&self.interface))
    }

    /// Mean backlog of the queue in bytes up to the last call; 0 before any time has passed.
    pub fn backlog_mean(&self) -> f64 {
        let integral = each!(&self.service, service => service.held_integral(&self.interface));
        self.interface.backlog_mean(integral)
    }

    /// Peak backlog of the queue in bytes.
    pub fn backlog_max(&self) -> Bytes {
        self.interface.backlog_max()
    }

    /// Average rate without competition; `None`: it has no rate of its own.
    pub fn nominal(&self) -> Option<Rate> {
        self.nominal
    }

    /// Checks conservation: packets that entered have arrived, were dropped, or are in the link.
    pub(super) fn check(&self) {
        self.interface.check(self.resident());
    }
}

/// Operations on a link that is one direction of a tunnel.
impl Link {
    fn tunnel(&mut self) -> (&mut Interface, &mut Tunnel) {
        match &mut self.service {
            Service::Tunnel(tunnel) => (&mut self.interface, tunnel),
            _ => panic!("link {} is no direction of a tunnel", self.interface.name),
        }
    }

    /// A new connection, whose sending end has this address, carries the stream from now on.
    pub(crate) fn open_tunnel(&mut self, end: u32) {
        self.tunnel().1.stream.open(end);
    }

    /// The stream accepts no more packets.
    pub(crate) fn shut_tunnel(&mut self) {
        self.tunnel().1.stream.end = None;
    }

    /// Address of the end that sends the stream; `None` without a connection.
    pub(crate) fn tunnel_end(&mut self) -> Option<u32> {
        self.tunnel().1.stream.end
    }

    /// Moves packets to the stream, whose socket has `room` bytes left. If `is_drained`, it accepts one packet of any
    /// size. Returns the bytes to write.
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

    /// `delivered` bytes of the stream have arrived in order: releases the packets that are complete.
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
