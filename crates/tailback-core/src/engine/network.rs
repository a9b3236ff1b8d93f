//! The network as arrays, and the run loop.
//!
//! Elements: links, endpoints, applications, the poll. Each has one armed wake. A link wakes when a packet
//! arrives at its far end; an endpoint when a timer is due (its wake may be early, never late); an application
//! at its start, its stop or when it asked to.

use super::arena::Arena;
use super::build::Parts;
use super::schedule::Schedule;
use crate::link::{Host, Link, Watch};
use crate::packet::{Ecn, FlowId, Packet};
use crate::probe::{Probe, QueueEvent, QueueRow};
use crate::queue::{Backlog, DropReason, Fate};
use crate::tcp::endpoint::{Endpoint, State};
use crate::tcp::segment::{Segment, ip_bytes};
use crate::tcp::sender::Note;
use crate::time::{Bytes, Duration, Time};
use crate::traffic::registry::App;
use crate::traffic::{Application, Cue, Say, Side, Wish};

/// How the two ends of a flow are joined.
#[derive(Clone, Copy, Debug)]
pub enum Ends {
    /// A TCP connection between these endpoints.
    Tcp {
        /// Endpoint at the flow's `from`.
        client: u32,
        /// Endpoint at the flow's `to`.
        server: u32,
    },
    /// Datagrams.
    Udp,
}

/// What a flow counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowCount {
    pub packets_sent: u64,
    pub packets_received: u64,
    pub packets_dropped: u64,
    pub bytes_sent: Bytes,
    pub datagram_bytes_received: Bytes,
}

/// A flow.
#[derive(Debug)]
pub struct Flow {
    route: Vec<u32>,
    back: Vec<u32>,
    app: App,
    pub ends: Ends,
    pub start: Time,
    stop: Time,
    wake: Time,
    has_started: bool,
    pub count: FlowCount,
    datagrams: u64,
    pub finished: Time,
}

impl Flow {
    pub fn new(route: Vec<u32>, back: Vec<u32>, app: App, ends: Ends, start: Time, stop: Time) -> Self {
        Flow {
            route,
            back,
            app,
            ends,
            start,
            stop,
            wake: Time::NEVER,
            has_started: false,
            count: FlowCount::default(),
            datagrams: 0,
            finished: Time::NEVER,
        }
    }

    fn next_wake(&self) -> Time {
        if self.has_started { self.wake.min(self.stop) } else { self.start }
    }
}

/// What an endpoint's application has been told.
#[derive(Clone, Copy, Debug)]
struct Told {
    flow: u32,
    is_server: bool,
    state: State,
}

/// Polling, if any.
#[derive(Debug, Default)]
pub struct Polling {
    pub interval: Duration,
    pub next: Time,
    pub flows: Vec<u32>,
    pub links: Vec<u32>,
}

/// A network under way.
pub struct Network<P> {
    pub now: Time,
    pub end: Time,
    schedule: Schedule,
    pub links: Vec<Link>,
    pub named_links: usize,
    pub flows: Vec<Flow>,
    pub endpoints: Vec<Endpoint>,
    told: Vec<Told>,
    pub arena: Arena,
    fate: Fate,
    inbox: Vec<Packet>,
    notes: Vec<Note>,
    say: Say,
    /// Congestion events by flow, in order.
    pub congestion: Vec<(u32, Note)>,
    pub probe: P,
    polling: Polling,
    pub events: u64,
}

/// Lends the arena and the probe to a link while it works.
struct Lent<'a, P> {
    link: u32,
    watches: bool,
    arena: &'a mut Arena,
    probe: &'a mut P,
    inbox: &'a mut Vec<Packet>,
}

impl<P: Probe> Lent<'_, P> {
    #[inline]
    fn row(
        &mut self,
        at: Time,
        event: QueueEvent,
        packet: &Packet,
        backlog: Backlog,
        reason: Option<DropReason>,
    ) {
        if P::WANTS && self.watches {
            let number = self.arena.number(packet.slot);
            self.probe.queue(self.link, &QueueRow { now: at, event, packet, number, backlog, reason });
        }
    }
}

impl<P: Probe> Watch for Lent<'_, P> {
    #[inline]
    fn on_enqueue(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        self.row(at, QueueEvent::Enqueue, packet, backlog, None);
    }
    #[inline]
    fn on_dequeue(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        self.row(at, QueueEvent::Dequeue, packet, backlog, None);
    }
    #[inline]
    fn on_drop(&mut self, at: Time, packet: &Packet, backlog: Backlog, reason: DropReason) {
        self.row(at, QueueEvent::Drop, packet, backlog, Some(reason));
    }
    #[inline]
    fn on_mark(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        self.row(at, QueueEvent::Mark, packet, backlog, None);
    }
}

impl<P: Probe> Host for Lent<'_, P> {
    #[inline]
    fn deliver(&mut self, _due: Time, packet: Packet) {
        // Links wake at every arrival, so due is now.
        self.inbox.push(packet);
    }
    fn duplicate(&mut self, packet: &Packet) -> Packet {
        let mut copy = *self.arena.at(packet.slot);
        copy.row = crate::tcp::segment::NO_ROW;
        Packet { slot: self.arena.keep(copy), ..*packet }
    }
}

impl<P: Probe> Network<P> {
    pub fn new(parts: Parts, probe: P, polling: Polling) -> Self {
        let (links, flows) = (parts.links.len(), parts.flows.len());
        let mut told = vec![Told { flow: 0, is_server: false, state: State::Closed }; parts.endpoints.len()];
        for (number, flow) in parts.flows.iter().enumerate() {
            if let Ends::Tcp { client, server } = flow.ends {
                let flow = number as u32;
                told[client as usize] = Told { flow, is_server: false, state: State::Closed };
                told[server as usize] = Told { flow, is_server: true, state: State::Listen };
            }
        }
        let mut network = Network {
            now: Time::ZERO,
            end: parts.end,
            schedule: Schedule::new(links + parts.endpoints.len() + flows + 1),
            links: parts.links,
            named_links: parts.named_links,
            flows: parts.flows,
            endpoints: parts.endpoints,
            told,
            arena: Arena::default(),
            fate: Fate::default(),
            inbox: Vec::new(),
            notes: Vec::new(),
            say: Say::default(),
            congestion: Vec::new(),
            probe,
            polling,
            events: 0,
        };
        for flow in 0..flows {
            network.arm_flow(flow);
        }
        if !network.polling.interval.is_zero() {
            let poll = network.poll_element();
            network.schedule.arm(poll, network.polling.next);
        }
        network
    }

    fn endpoint_element(&self, endpoint: u32) -> u32 {
        self.links.len() as u32 + endpoint
    }
    fn flow_element(&self, flow: usize) -> u32 {
        (self.links.len() + self.endpoints.len() + flow) as u32
    }
    fn poll_element(&self) -> u32 {
        (self.links.len() + self.endpoints.len() + self.flows.len()) as u32
    }

    /// Run at most `most` events. True when the run is over.
    pub fn run(&mut self, most: u64) -> bool {
        let links = self.links.len() as u32;
        let endpoints = links + self.endpoints.len() as u32;
        let flows = endpoints + self.flows.len() as u32;
        for _ in 0..most {
            let Some((time, element)) = self.schedule.peek().filter(|(time, _)| *time < self.end) else {
                self.now = self.end;
                return true;
            };
            assert!(time >= self.now, "time ran back from {:?} to {time:?}", self.now);
            self.now = time;
            self.events += 1;
            if element < links {
                self.wake_link(element);
            } else if element < endpoints {
                self.wake_endpoint(element - links);
            } else if element < flows {
                self.wake_flow((element - endpoints) as usize);
            } else {
                self.poll();
            }
        }
        false
    }

    // ---------------------------------------------------------------- links

    fn wake_link(&mut self, link: u32) {
        let mut host = Lent {
            link,
            watches: P::WANTS && (link as usize) < self.named_links && self.probe.watches(link),
            arena: &mut self.arena,
            probe: &mut self.probe,
            inbox: &mut self.inbox,
        };
        let it = &mut self.links[link as usize];
        it.advance(self.now, &mut self.fate, &mut host);
        let next = it.next_wake();
        // Armed before anything is delivered: a delivery may push into this very link.
        self.schedule.arm(link, next);
        self.settle_fate();
        let mut inbox = std::mem::take(&mut self.inbox);
        for packet in inbox.drain(..) {
            self.deliver(packet);
        }
        self.inbox = inbox;
    }

    fn push(&mut self, link: u32, packet: Packet) {
        let mut host = Lent {
            link,
            watches: P::WANTS && (link as usize) < self.named_links && self.probe.watches(link),
            arena: &mut self.arena,
            probe: &mut self.probe,
            inbox: &mut self.inbox,
        };
        let it = &mut self.links[link as usize];
        it.push(packet, self.now, &mut self.fate, &mut host);
        let next = it.next_wake();
        self.schedule.arm(link, next);
        self.settle_fate();
    }

    #[inline]
    fn settle_fate(&mut self) {
        if !self.fate.is_empty() {
            self.bury();
        }
    }

    #[cold]
    fn bury(&mut self) {
        for index in 0..self.fate.drops.len() {
            let (packet, _) = self.fate.drops[index];
            self.flows[packet.flow.0 as usize].count.packets_dropped += u64::from(!packet.is_reverse);
            if P::WANTS {
                self.probe.lost(self.arena.at(packet.slot).row);
            }
            self.arena.release(packet.slot);
        }
        self.fate.clear();
    }

    fn deliver(&mut self, mut packet: Packet) {
        let flow = &mut self.flows[packet.flow.0 as usize];
        let route = if packet.is_reverse { &flow.back } else { &flow.route };
        packet.hop += 1;
        if let Some(&link) = route.get(usize::from(packet.hop)) {
            self.push(link, packet);
            return;
        }
        // Sent, received and dropped all count the flow's own direction; what comes back is its acknowledgements.
        flow.count.packets_received += u64::from(!packet.is_reverse);
        let segment = self.arena.at_mut(packet.slot);
        segment.ce = packet.ecn == Ecn::Ce;
        if P::WANTS {
            self.probe.received(self.now, segment.row);
        }
        match flow.ends {
            Ends::Udp => flow.count.datagram_bytes_received += u64::from(packet.bytes),
            Ends::Tcp { .. } => {
                let to = segment.to;
                let end = &mut self.endpoints[to as usize];
                if P::WANTS {
                    self.probe.segment(self.now, packet.flow, !packet.is_reverse, false, end, segment);
                }
                end.on_segment(segment, self.now, &mut self.notes);
                self.arena.release(packet.slot);
                self.after(to);
                return;
            }
        }
        self.arena.release(packet.slot);
    }

    // ---------------------------------------------------------------- endpoints

    fn wake_endpoint(&mut self, endpoint: u32) {
        let end = &mut self.endpoints[endpoint as usize];
        end.on_timer(self.now, &mut self.notes);
        self.after(endpoint);
        let element = self.endpoint_element(endpoint);
        let next = self.endpoints[endpoint as usize].next_wake();
        assert!(next > self.now, "endpoint {endpoint} wants to wake at {next:?}, which is not after now");
        self.schedule.arm(element, next);
    }

    /// Something happened at an endpoint: tell the application, send what may be sent, see to the timers.
    #[inline]
    fn after(&mut self, endpoint: u32) {
        let told = self.told[endpoint as usize];
        if !self.notes.is_empty() {
            self.congestion.extend(self.notes.drain(..).map(|note| (told.flow, note)));
        }
        if self.endpoints[endpoint as usize].state() != told.state {
            self.tell_state(endpoint);
        }
        self.flush(endpoint);
        let element = self.endpoint_element(endpoint);
        let next = self.endpoints[endpoint as usize].next_wake();
        if self.schedule.armed_at(element).is_none_or(|armed| next < armed) {
            self.schedule.arm(element, next);
        }
    }

    #[cold]
    fn tell_state(&mut self, endpoint: u32) {
        let Told { flow, is_server, state: before } = self.told[endpoint as usize];
        let end = &self.endpoints[endpoint as usize];
        let state = end.state();
        self.told[endpoint as usize].state = state;
        let side = if is_server { Side::Server } else { Side::Client };
        let is_done = end.is_done();
        let peer_finished = end.receiver.is_finished();
        let peer_had_finished = matches!(before, State::CloseWait | State::LastAck | State::TimeWait);
        if before < State::Established && state >= State::Established {
            self.cue(flow as usize, side, Cue::Established);
        }
        if peer_finished && !peer_had_finished {
            self.cue(flow as usize, side, Cue::PeerFinished);
        }
        if is_done {
            if side == Side::Client {
                self.flows[flow as usize].finished = self.now;
            }
            self.cue(flow as usize, side, Cue::Closed);
        }
    }

    fn flush(&mut self, endpoint: u32) {
        let Told { flow, is_server, .. } = self.told[endpoint as usize];
        while let Some(segment) = self.endpoints[endpoint as usize].next_segment(self.now) {
            let end = &self.endpoints[endpoint as usize];
            if P::WANTS {
                self.probe.segment(self.now, FlowId(flow), is_server, true, end, &segment);
            }
            let bytes = ip_bytes(&segment, end.stack().timestamps);
            let ecn = if end.stack().ecn && segment.len > 0 { Ecn::Ect0 } else { Ecn::NotEct };
            self.transmit(flow, is_server, segment, bytes, ecn);
        }
        let state = self.endpoints[endpoint as usize].state();
        if state != self.told[endpoint as usize].state {
            self.tell_state(endpoint);
        }
    }

    fn transmit(&mut self, number: u32, is_reverse: bool, mut segment: Segment, bytes: u32, ecn: Ecn) {
        let flow = &mut self.flows[number as usize];
        if P::WANTS && !is_reverse {
            let index = flow.count.packets_sent;
            segment.row = self.probe.sent(self.now, FlowId(number), index, bytes);
        }
        if !is_reverse {
            flow.count.packets_sent += 1;
            flow.count.bytes_sent += u64::from(bytes);
        }
        let first = if is_reverse { flow.back[0] } else { flow.route[0] };
        let packet = Packet {
            slot: self.arena.keep(segment),
            flow: FlowId(number),
            bytes,
            ecn,
            hop: 0,
            is_reverse,
            enqueued: self.now,
        };
        self.push(first, packet);
    }

    // ---------------------------------------------------------------- applications

    fn arm_flow(&mut self, flow: usize) {
        let element = self.flow_element(flow);
        let next = self.flows[flow].next_wake();
        self.schedule.arm(element, next);
    }

    fn wake_flow(&mut self, number: usize) {
        let flow = &mut self.flows[number];
        let cue = if !flow.has_started {
            flow.has_started = true;
            Cue::Start
        } else if self.now >= flow.stop {
            flow.stop = Time::NEVER;
            flow.wake = Time::NEVER;
            Cue::Stop
        } else {
            flow.wake = Time::NEVER;
            Cue::Wake
        };
        self.cue(number, Side::Client, cue);
        self.arm_flow(number);
    }

    fn cue(&mut self, number: usize, side: Side, cue: Cue) {
        let mut say = std::mem::take(&mut self.say);
        self.flows[number].app.step(side, cue, self.now, &mut say);
        let mut wants_flush = false;
        for wish in say.wishes.drain(..) {
            wants_flush |= self.grant(number, side, wish);
        }
        self.say = say;
        if wants_flush {
            if let Ends::Tcp { client, server } = self.flows[number].ends {
                let endpoint = if side == Side::Client { client } else { server };
                self.after(endpoint);
            }
        }
    }

    /// Do what the application wants; true if the endpoint may now have something to send.
    fn grant(&mut self, number: usize, side: Side, wish: Wish) -> bool {
        let flow = &mut self.flows[number];
        let end = match (flow.ends, side) {
            (Ends::Tcp { client, .. }, Side::Client) => Some(&mut self.endpoints[client as usize]),
            (Ends::Tcp { server, .. }, Side::Server) => Some(&mut self.endpoints[server as usize]),
            (Ends::Udp, _) => None,
        };
        match (wish, end) {
            (Wish::WakeAt(time), _) => {
                flow.wake = time;
                self.arm_flow(number);
                false
            }
            (Wish::Datagram(bytes), _) => {
                let segment = Segment { seq: flow.datagrams, ts_val: self.now, ..Segment::blank() };
                flow.datagrams += 1;
                self.transmit(number as u32, side == Side::Server, segment, bytes, Ecn::NotEct);
                false
            }
            (Wish::Connect, Some(end)) => {
                end.connect();
                true
            }
            (Wish::Write(bytes), Some(end)) => {
                end.sender.write(bytes);
                true
            }
            (Wish::WriteForever, Some(end)) => {
                end.sender.write_forever();
                true
            }
            (Wish::Close { discard }, Some(end)) => {
                end.sender.close(discard);
                true
            }
            (wish, None) => panic!("an application over datagrams asked for {wish:?}"),
        }
    }

    // ---------------------------------------------------------------- polls

    fn poll(&mut self) {
        for index in 0..self.polling.flows.len() {
            let number = self.polling.flows[index];
            if let Ends::Tcp { client, server } = self.flows[number as usize].ends {
                let received = self.endpoints[server as usize].receiver.delivered();
                self.probe.poll_flow(self.now, FlowId(number), &self.endpoints[client as usize], received);
            }
        }
        for index in 0..self.polling.links.len() {
            let link = self.polling.links[index];
            self.settle_link(link);
            let it = &self.links[link as usize];
            let mut backlog = it.backlog();
            // What waits or is being sent: what a newcomer of the same instant has before it.
            backlog.packets += u32::from(it.in_service() > 0);
            backlog.bytes += u64::from(it.in_service());
            self.probe.poll_link(self.now, link, backlog);
        }
        self.polling.next += self.polling.interval;
        let poll = self.poll_element();
        self.schedule.arm(poll, self.polling.next);
    }

    /// Bring a link's queue to `now`.
    pub fn settle_link(&mut self, link: u32) {
        let mut host = Lent {
            link,
            watches: P::WANTS && (link as usize) < self.named_links && self.probe.watches(link),
            arena: &mut self.arena,
            probe: &mut self.probe,
            inbox: &mut self.inbox,
        };
        self.links[link as usize].settle(self.now, &mut self.fate, &mut host);
        let next = self.links[link as usize].next_wake();
        self.schedule.arm(link, next);
        self.settle_fate();
    }
}
