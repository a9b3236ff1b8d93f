//! The network as arrays, and the run loop.
//!
//! Elements: links, applications, the poll, and the ends of connections, which come and go and so stand last. Each
//! has one armed wake. A link wakes when a packet arrives at its far end; an end when a timer is due (its wake may
//! be early, never late) or its application asked to; an application at its starts, its stops or when it asked to.

use std::collections::{BTreeMap, VecDeque};

mod memory;
mod shared;
mod small_queue;
mod tunnelled;

use small_queue::Chores;

use super::arena::Arena;
use super::build::Parts;
use super::schedule::Schedule;
use super::seats::{Blueprint, MOST_PAIRS, Seat, Seats, Tally, seat_of};
use crate::link::{Host, Link, Watch};
use crate::medium::channel::Channel;
use crate::packet::{Ecn, FlowId, Packet};
use crate::probe::{Probe, QueueEvent, QueueRow};
use crate::queue::{Backlog, DropReason, Fate};
use crate::tcp::endpoint::State;
use crate::tcp::metrics::Metrics;
use crate::tcp::segment::{NO_ROW, Segment, ip_bytes};
use crate::tcp::sender::Note;
use crate::time::{Bytes, Duration, Time};
use crate::traffic::registry::App;
use crate::traffic::{Application, Connection, Cue, Opening, Report, Say, Side, Wish};

/// What a flow counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowCount {
    pub packets_sent: u64,
    pub packets_received: u64,
    pub packets_dropped: u64,
    pub bytes_sent: Bytes,
    pub datagram_bytes_received: Bytes,
    pub connections: u64,
    pub connections_failed: u64,
}

/// What every packet of a flow touches, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Lane {
    pub count: FlowCount,
    /// Links of the route there and of the route back.
    hops: [u8; 2],
    is_datagrams: bool,
}

/// How many arrivals ahead a segment is asked for, and the end it is for.
const FAR: usize = 5;
const NEAR: usize = 2;

/// Not a seat's address: the highest generation of the last seat.
const NOBODY: u32 = u32::MAX;

/// A flow.
#[derive(Debug)]
pub struct Flow {
    pub route: Vec<u32>,
    pub back: Vec<u32>,
    /// Links that take the place of the first on the route there and back, by the connection's path.
    pub paths: Vec<[u32; 2]>,
    pub app: App,
    /// The nodes of its client and its server.
    pub hosts: [u32; 2],
    /// How its connections are made, client's end and server's; `None`: datagrams.
    pub plan: Option<Box<[Blueprint; 2]>>,
    pub start: Time,
    /// Starts and stops to come, in turn.
    pub switches: VecDeque<Time>,
    pub wants_datagrams: bool,
    /// Its congestion events are not listed.
    pub is_crowd: bool,
    /// Of a tunnel's connection: the links whose packets its client's and its server's stream carry.
    pub carried: [Option<u32>; 2],
    is_on: bool,
    wake: Time,
    datagrams: u64,
    /// The client's address of each connection, by the number the application gave it.
    connections: Vec<u32>,
    pub alive: u32,
    /// The connection opened last.
    latest: u32,
    /// What the connections that are over have done.
    pub past: Tally,
    pub finished: Time,
}

impl Flow {
    pub fn new(app: App, route: Vec<u32>, back: Vec<u32>, switches: VecDeque<Time>) -> Self {
        Flow {
            route,
            back,
            paths: Vec::new(),
            app,
            hosts: [0; 2],
            plan: None,
            start: switches[0],
            switches,
            wants_datagrams: false,
            is_crowd: false,
            carried: [None; 2],
            is_on: false,
            wake: Time::NEVER,
            datagrams: 0,
            connections: Vec::new(),
            alive: 0,
            latest: NOBODY,
            past: Tally::default(),
            finished: Time::NEVER,
        }
    }

    fn next_wake(&self) -> Time {
        self.switches.front().map_or(self.wake, |switch| self.wake.min(*switch))
    }
}

impl Lane {
    fn of(flow: &Flow) -> Self {
        // A route has at most 250 links, and hidden ones at its beginning.
        let hops = [&flow.route, &flow.back].map(|route| route.len() as u8);
        Lane { count: FlowCount::default(), hops, is_datagrams: flow.plan.is_none() }
    }
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
    channels: Vec<Channel>,
    pub named_links: usize,
    pub flows: Vec<Flow>,
    /// One each of `flows`.
    pub lanes: Vec<Lane>,
    pub seats: Seats,
    /// What finished connections have left for the next between the same hosts.
    memory: BTreeMap<memory::Pair, Metrics>,
    /// Addresses of ends that are done, to see off after the event.
    leaving: Vec<u32>,
    /// What waits for the end of the event.
    chores: Chores,
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
    pub warnings: Vec<String>,
}

/// Lends the arena and the probe to a link while it works.
struct Lent<'a, P> {
    link: u32,
    watches: bool,
    arena: &'a mut Arena,
    probe: &'a mut P,
    inbox: &'a mut Vec<Packet>,
    chores: &'a mut Chores,
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
    fn turn_to(&mut self, link: u32) {
        self.link = link;
        self.watches = P::WANTS && self.probe.watches(link);
    }
    #[inline]
    fn on_enqueue(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        self.row(at, QueueEvent::Enqueue, packet, backlog, None);
    }
    #[inline]
    fn on_dequeue(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        self.row(at, QueueEvent::Dequeue, packet, backlog, None);
    }
    #[inline]
    fn on_departure(&mut self, packet: &Packet) {
        self.note_departure(packet);
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
        let copy = Segment { row: NO_ROW, ..*self.arena.at(packet.slot) };
        Packet { slot: self.arena.keep(&copy), ..*packet }
    }
}

impl<P: Probe> Network<P> {
    pub fn new(parts: Parts, probe: P, polling: Polling) -> Self {
        let (links, flows) = (parts.links.len(), parts.flows.len());
        let mut network = Network {
            now: Time::ZERO,
            end: parts.end,
            schedule: Schedule::new(links, links + flows + 1),
            links: parts.links,
            channels: parts.channels,
            named_links: parts.named_links,
            lanes: parts.flows.iter().map(Lane::of).collect(),
            flows: parts.flows,
            seats: Seats::default(),
            memory: BTreeMap::new(),
            leaving: Vec::new(),
            chores: Chores::default(),
            arena: Arena::new(P::WANTS),
            fate: Fate::default(),
            inbox: Vec::new(),
            notes: Vec::new(),
            say: Say::default(),
            congestion: Vec::new(),
            probe,
            polling,
            events: 0,
            warnings: parts.warnings,
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

    fn flow_element(&self, flow: usize) -> u32 {
        (self.links.len() + flow) as u32
    }
    fn poll_element(&self) -> u32 {
        (self.links.len() + self.flows.len()) as u32
    }
    #[inline]
    fn seat_element(&self, seat: usize) -> u32 {
        (self.links.len() + self.flows.len() + 1 + seat) as u32
    }

    /// Run at most `most` events. True when the run is over.
    pub fn run(&mut self, most: u64) -> bool {
        let links = self.links.len() as u32;
        let seats = self.seat_element(0);
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
            } else if element >= seats {
                self.wake_seat((element - seats) as usize);
            } else if element < seats - 1 {
                self.wake_flow((element - links) as usize);
            } else {
                self.poll();
            }
            if self.chores.are_due {
                self.do_chores();
            }
        }
        false
    }

    // ---------------------------------------------------------------- links

    fn wake_link(&mut self, link: u32) {
        if self.links[link as usize].is_shared() {
            self.wake_shared(link);
        } else {
            let mut host = Lent {
                link,
                watches: P::WANTS && (link as usize) < self.named_links && self.probe.watches(link),
                arena: &mut self.arena,
                probe: &mut self.probe,
                inbox: &mut self.inbox,
                chores: &mut self.chores,
            };
            let it = &mut self.links[link as usize];
            it.advance(self.now, &mut self.fate, &mut host);
            // What the next arrivals need comes from memory while this one is worked on, in the order in which one
            // leads to the other.
            if let Some(next) = it.arriving(FAR) {
                self.arena.fetch(next.slot);
            }
            if self.seats.are_many() {
                if let Some(next) = it.arriving(NEAR) {
                    self.seats.fetch(self.arena.at(next.slot).to);
                }
                if let Some(next) = it.arriving(0) {
                    self.seats.fetch_flight(self.arena.at(next.slot).to);
                }
            }
            let next = it.next_wake();
            // Armed before anything is delivered: a delivery may push into this very link.
            self.schedule.arm(link, next);
            self.settle_fate();
        }
        // Nothing delivered here comes back into the inbox within the event.
        for index in 0..self.inbox.len() {
            let packet = self.inbox[index];
            self.deliver(packet);
        }
        self.inbox.clear();
    }

    fn push(&mut self, link: u32, packet: Packet) {
        if self.links[link as usize].is_shared() {
            return self.push_shared(link, packet);
        }
        let mut host = Lent {
            link,
            watches: P::WANTS && (link as usize) < self.named_links && self.probe.watches(link),
            arena: &mut self.arena,
            probe: &mut self.probe,
            inbox: &mut self.inbox,
            chores: &mut self.chores,
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
            let (packet, reason) = self.fate.drops[index];
            self.lanes[packet.flow.0 as usize].count.packets_dropped += u64::from(!packet.is_reverse);
            if P::WANTS {
                self.probe.lost(self.arena.at(packet.slot).row);
            }
            self.note_drop(&packet, reason);
            self.arena.release(packet.slot);
        }
        self.fate.clear();
    }

    fn deliver(&mut self, mut packet: Packet) {
        let number = packet.flow.0 as usize;
        let lane = &mut self.lanes[number];
        packet.hop += 1;
        if packet.hop < lane.hops[usize::from(packet.is_reverse)] {
            let flow = &self.flows[number];
            let route = if packet.is_reverse { &flow.back } else { &flow.route };
            self.push(route[usize::from(packet.hop)], packet);
            return;
        }
        // Sent, received and dropped all count the flow's own direction; what comes back is its acknowledgements.
        lane.count.packets_received += u64::from(!packet.is_reverse);
        let segment = self.arena.at_mut(packet.slot);
        segment.ce = packet.ecn == Ecn::Ce;
        if P::WANTS {
            self.probe.received(self.now, segment.row);
        }
        if lane.is_datagrams {
            lane.count.datagram_bytes_received += u64::from(packet.bytes);
            let cue = Cue::Datagram { number: segment.seq, bytes: packet.bytes };
            self.arena.release(packet.slot);
            if self.flows[number].wants_datagrams {
                let side = if packet.is_reverse { Side::Client } else { Side::Server };
                self.cue(number, side, cue);
            }
            return;
        }
        let address = segment.to;
        // If nobody is there, its connection is over: TIME-WAIT holds no state.
        let to = self.seats.find(address);
        let is_heard = to.is_some();
        if let Some(to) = to {
            if P::WANTS {
                self.probe.segment(self.now, packet.flow, !packet.is_reverse, false, &to.end, segment);
            }
            to.end.on_segment(segment, self.now, &mut self.notes);
        }
        self.arena.release(packet.slot);
        if is_heard {
            self.after(seat_of(address));
        }
    }

    // ---------------------------------------------------------------- ends of connections

    fn wake_seat(&mut self, seat: usize) {
        let it = self.seats.at(seat);
        if it.call_at <= self.now {
            it.call_at = Time::NEVER;
            let (flow, side, connection) = (it.flow as usize, it.side, it.connection);
            self.cue(flow, side, Cue::Due(connection));
        }
        self.seats.at(seat).end.on_timer(self.now, &mut self.notes);
        self.after(seat);
        let element = self.seat_element(seat);
        let next = self.seats.at(seat).next_wake();
        assert!(next > self.now, "seat {seat} wants to wake at {next:?}, which is not after now");
        self.schedule.arm(element, next);
    }

    /// Something happened at an end: tell the application, send what may be sent, see to the timers.
    #[inline]
    fn after(&mut self, seat: usize) {
        let it = self.seats.at(seat);
        let has_news = it.listens || it.end.state() != it.state;
        if !self.notes.is_empty() {
            self.list_notes(seat);
        }
        if has_news {
            self.tell_progress(seat);
            self.tell_state(seat);
        }
        self.flush(seat);
        let element = self.seat_element(seat);
        let next = self.seats.at(seat).next_wake();
        if self.schedule.armed_at(element).is_none_or(|armed| next < armed) {
            self.schedule.arm(element, next);
        }
    }

    #[cold]
    fn list_notes(&mut self, seat: usize) {
        let flow = self.seats.at(seat).flow;
        match self.flows[flow as usize].is_crowd {
            true => self.notes.clear(),
            false => self.congestion.extend(self.notes.drain(..).map(|note| (flow, note))),
        }
    }

    fn tell_progress(&mut self, seat: usize) {
        let it = self.seats.at(seat);
        if !it.listens {
            return;
        }
        if it.carries {
            return self.serve_tunnel(seat);
        }
        let (flow, side, connection) = (it.flow as usize, it.side, it.connection);
        let received = it.end.receiver.delivered();
        let has_received = received >= it.receive_mark;
        let has_drained = it.wants_drained && it.end.sender.is_drained();
        if has_received {
            it.receive_mark = Bytes::MAX;
        }
        it.wants_drained &= !has_drained;
        it.listens = it.receive_mark != Bytes::MAX || it.wants_drained;
        if has_received {
            self.cue(flow, side, Cue::Received(connection, received));
        }
        if has_drained {
            self.cue(flow, side, Cue::Drained(connection));
        }
    }

    fn tell_state(&mut self, seat: usize) {
        let it = self.seats.at(seat);
        let (flow, side, connection, before) = (it.flow as usize, it.side, it.connection, it.state);
        let state = it.end.state();
        if state == before {
            return;
        }
        it.state = state;
        let address = it.address;
        let (is_done, has_failed) = (it.end.is_done(), it.end.has_failed());
        let peer_finished = it.end.receiver.is_finished();
        let peer_had_finished = matches!(before, State::CloseWait | State::LastAck | State::TimeWait);
        if before < State::Established && state >= State::Established {
            self.cue(flow, side, Cue::Established(connection));
        }
        if peer_finished && !peer_had_finished {
            self.cue(flow, side, Cue::PeerFinished(connection));
        }
        if is_done {
            self.leaving.push(address);
            self.chores.are_due = true;
            if !has_failed {
                self.remember(seat);
                if side == Side::Client {
                    self.flows[flow].finished = self.now;
                }
                self.cue(flow, side, Cue::Closed(connection));
            }
        }
    }

    #[inline]
    fn flush(&mut self, seat: usize) {
        let mut it = self.seats.at(seat);
        // Written where it will lie; the slot is taken once there is a segment.
        while it.end.compose_next(self.now, self.arena.next_mut()) {
            let segment = self.arena.next_mut();
            let (flow, is_server, first) = (it.flow, it.is_server(), it.first);
            if P::WANTS {
                self.probe.segment(self.now, FlowId(flow), is_server, true, &it.end, segment);
            }
            let stack = it.end.stack();
            let bytes = ip_bytes(segment, stack.timestamps);
            let ecn = stack.codepoint(segment);
            if stack.small_queue.is_some() {
                let payload = segment.len;
                self.note_queued(seat, first, payload, bytes);
            }
            let slot = self.arena.take();
            self.transmit(flow, is_server, first, 0, slot, bytes, ecn);
            it = self.seats.at(seat);
        }
        if it.end.state() != it.state {
            self.tell_state(seat);
        }
    }

    #[inline]
    #[allow(clippy::too_many_arguments, reason = "a packet's particulars, each from another owner")]
    fn transmit(
        &mut self,
        number: u32,
        is_reverse: bool,
        first: u32,
        stream: u16,
        slot: u32,
        bytes: u32,
        ecn: Ecn,
    ) {
        let count = &mut self.lanes[number as usize].count;
        if !is_reverse {
            if P::WANTS {
                let index = count.packets_sent;
                let row = self.probe.sent(self.now, FlowId(number), index, bytes, stream);
                self.arena.at_mut(slot).row = row;
            }
            count.packets_sent += 1;
            count.bytes_sent += u64::from(bytes);
        }
        let packet =
            Packet { slot, flow: FlowId(number), bytes, ecn, hop: 0, is_reverse, enqueued: self.now };
        self.push(first, packet);
    }

    /// Take a pair of seats for a new connection; false if there is none.
    fn open(&mut self, number: usize, opening: Opening) -> bool {
        let flow = &mut self.flows[number];
        let count = &mut self.lanes[number].count;
        count.connections += 1;
        if self.seats.pairs() >= MOST_PAIRS {
            count.connections_failed += 1;
            return false;
        }
        let address = self.seats.reserve();
        let peer = address + 1;
        let plan =
            flow.plan.as_mut().unwrap_or_else(|| panic!("flow {number} over datagrams opens a connection"));
        let [mut client, mut server] =
            [(0, peer), (1, address)].map(|(end, peer)| plan[end].endpoint(opening.turn, peer));
        client.connect();
        server.listen();
        let place = opening.connection as usize;
        if flow.connections.len() <= place {
            flow.connections.resize(place + 1, NOBODY);
        }
        assert_eq!(flow.connections[place], NOBODY, "flow {number}: connection {place} is in use");
        flow.connections[place] = address;
        flow.alive += 1;
        flow.latest = address;
        flow.finished = Time::NEVER;
        let firsts = match flow.paths.get(opening.path as usize) {
            Some(links) => *links,
            None => [flow.route[0], flow.back[0]],
        };
        let sit = |end, address, side, state, first| {
            Box::new(Seat {
                end,
                address,
                flow: number as u32,
                connection: opening.connection,
                side,
                first,
                state,
                listens: false,
                carries: false,
                wants_drained: false,
                receive_mark: Bytes::MAX,
                call_at: Time::NEVER,
                row: NO_ROW,
            })
        };
        self.seats.sit(
            sit(client, address, Side::Client, State::Closed, firsts[0]),
            sit(server, peer, Side::Server, State::Listen, firsts[1]),
        );
        self.remind(seat_of(address));
        true
    }

    #[cold]
    fn do_chores(&mut self) {
        self.chores.are_due = false;
        self.tell_departures();
        self.see_off();
    }

    /// Free the pairs whose two ends are done, or one of whose ends gave up; no reset travels then.
    fn see_off(&mut self) {
        let mut next = 0;
        while let Some(&address) = self.leaving.get(next) {
            next += 1;
            // The client's seat is the even one of the two.
            let client = address & !1;
            let Some(one) = self.seats.find(client) else { continue };
            let (number, connection, row) = (one.flow as usize, one.connection, one.row);
            let (is_done, has_failed) = (one.end.is_done(), one.end.has_failed());
            let other = &self.seats.at(seat_of(client) + 1).end;
            let has_failed = has_failed || other.has_failed();
            if !(has_failed || is_done && other.is_done()) {
                continue;
            }
            for seat in [seat_of(client), seat_of(client) + 1] {
                let element = self.seat_element(seat);
                self.schedule.disarm(element);
            }
            let [one, other] = self.seats.leave(client);
            let flow = &mut self.flows[number];
            flow.past.add(&one.end, &other.end);
            flow.connections[connection as usize] = NOBODY;
            flow.alive -= 1;
            self.lanes[number].count.connections_failed += u64::from(has_failed);
            if P::WANTS {
                self.probe.abandoned(row);
            }
            if has_failed {
                self.cue(number, Side::Client, Cue::Failed(connection));
            }
            self.cue(number, Side::Client, Cue::Released(connection));
        }
        self.leaving.clear();
    }

    /// What a flow's connections have done until now.
    pub fn tally(&self, number: usize) -> Tally {
        let flow = &self.flows[number];
        let mut tally = flow.past;
        for &address in flow.connections.iter().filter(|address| **address != NOBODY) {
            let seat = seat_of(address);
            if let (Some(client), Some(server)) = (self.seats.get(seat), self.seats.get(seat + 1)) {
                tally.add(&client.end, &server.end);
            }
        }
        tally
    }

    // ---------------------------------------------------------------- applications

    fn arm_flow(&mut self, flow: usize) {
        let element = self.flow_element(flow);
        let next = self.flows[flow].next_wake();
        self.schedule.arm(element, next);
    }

    fn wake_flow(&mut self, number: usize) {
        let flow = &mut self.flows[number];
        let cue = if flow.switches.front().is_some_and(|switch| *switch <= self.now) {
            flow.switches.pop_front();
            flow.is_on = !flow.is_on;
            if flow.is_on {
                Cue::Start
            } else {
                flow.wake = Time::NEVER;
                Cue::Stop
            }
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
        // What was asked of one connection takes effect together, before the next one is looked at.
        let mut touched = None;
        for wish in say.wishes.drain(..) {
            if let Some(seat) = self.grant(number, side, wish) {
                if let Some(before) = touched.replace(seat).filter(|before| *before != seat) {
                    self.after(before);
                }
            }
        }
        self.say = say;
        if let Some(seat) = touched {
            self.after(seat);
        }
    }

    /// The seat at this side of a connection, if it is alive.
    fn seat(&self, number: usize, side: Side, connection: Connection) -> Option<usize> {
        let address = self.flows[number].connections.get(connection as usize).copied()?;
        (address != NOBODY).then(|| seat_of(address) + usize::from(side == Side::Server))
    }

    /// Do what the application wants; the seat, if its end may now have something to send or to tell. Wishes for a
    /// connection that is over come to nothing.
    fn grant(&mut self, number: usize, side: Side, wish: Wish) -> Option<usize> {
        match wish {
            Wish::WakeAt(time) => {
                self.flows[number].wake = time;
                self.arm_flow(number);
                None
            }
            Wish::Datagram { bytes, stream } => {
                let flow = &mut self.flows[number];
                let segment = Segment { seq: flow.datagrams, ts_val: self.now, ..Segment::blank() };
                flow.datagrams += 1;
                self.send_datagram(number, side, &segment, bytes, stream);
                None
            }
            Wish::Reply { number: datagram, bytes } => {
                let segment = Segment { seq: datagram, ts_val: self.now, ..Segment::blank() };
                self.send_datagram(number, side, &segment, bytes, 0);
                None
            }
            Wish::Report(report) => {
                if P::WANTS {
                    self.report(number, report);
                }
                None
            }
            Wish::TurnAway => {
                let count = &mut self.lanes[number].count;
                count.connections += 1;
                count.connections_failed += 1;
                None
            }
            Wish::Connect(opening) => {
                if self.open(number, opening) {
                    return self.seat(number, side, opening.connection);
                }
                self.cue(number, Side::Client, Cue::Failed(opening.connection));
                self.cue(number, Side::Client, Cue::Released(opening.connection));
                None
            }
            Wish::Write(connection, bytes) => {
                let seat = self.seat(number, side, connection)?;
                self.seats.at(seat).end.sender.write(bytes);
                Some(seat)
            }
            Wish::WriteForever(connection) => {
                let seat = self.seat(number, side, connection)?;
                self.seats.at(seat).end.sender.write_forever();
                Some(seat)
            }
            Wish::Close { connection, discard } => {
                let seat = self.seat(number, side, connection)?;
                self.shut_tunnel(number, side);
                self.seats.at(seat).end.sender.close(discard);
                Some(seat)
            }
            Wish::TellReceived(connection, bytes) => {
                let seat = self.seat(number, side, connection)?;
                let it = self.seats.at(seat);
                (it.receive_mark, it.listens) = (bytes, true);
                Some(seat)
            }
            Wish::TellDrained(connection) => {
                let seat = self.seat(number, side, connection)?;
                let it = self.seats.at(seat);
                (it.wants_drained, it.listens) = (true, true);
                Some(seat)
            }
            Wish::Carry(connection) => {
                let seat = self.seat(number, side, connection)?;
                self.open_tunnel(number, side, seat);
                Some(seat)
            }
            Wish::CallAt(connection, time) => {
                let seat = self.seat(number, side, connection)?;
                self.seats.at(seat).call_at = time;
                Some(seat)
            }
        }
    }

    fn send_datagram(&mut self, number: usize, side: Side, segment: &Segment, bytes: u32, stream: u16) {
        let flow = &self.flows[number];
        let is_reverse = side == Side::Server;
        let first = if is_reverse { flow.back[0] } else { flow.route[0] };
        let slot = self.arena.keep(segment);
        self.transmit(number as u32, is_reverse, first, stream, slot, bytes, Ecn::NotEct);
    }

    fn report(&mut self, number: usize, report: Report) {
        let flow = FlowId(number as u32);
        match report {
            Report::Asked { connection, kind, bytes, turn } => {
                let Some(seat) = self.seat(number, Side::Client, connection) else { return };
                let flow_count = self.lanes[number].count.connections;
                let turn =
                    turn % self.flows[number].plan.as_ref().map_or(1, |plan| plan[0].algorithms.len() as u32);
                let row = self.probe.asked(self.now, flow, flow_count - 1, kind, bytes, turn as u16);
                self.seats.at(seat).row = row;
            }
            Report::Answered(connection) => {
                let Some(seat) = self.seat(number, Side::Client, connection) else { return };
                let row = std::mem::replace(&mut self.seats.at(seat).row, NO_ROW);
                self.probe.answered(self.now, row);
            }
            Report::Pinged(datagram) => self.probe.pinged(self.now, flow, datagram),
            Report::Ponged(datagram) => self.probe.ponged(self.now, flow, datagram),
        }
    }

    // ---------------------------------------------------------------- polls

    fn poll(&mut self) {
        for index in 0..self.polling.flows.len() {
            let number = self.polling.flows[index];
            let flow = &self.flows[number as usize];
            // The connection opened last, while it lasts.
            let seat = seat_of(flow.latest);
            let (Some(client), Some(server)) = (self.seats.get(seat), self.seats.get(seat + 1)) else {
                continue;
            };
            if client.address == flow.latest {
                let received = flow.past.bytes_received + server.end.receiver.delivered();
                self.probe.poll_flow(self.now, FlowId(number), &client.end, flow.past.bytes_acked, received);
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
        if self.links[link as usize].is_shared() {
            return self.settle_shared(link);
        }
        let mut host = Lent {
            link,
            watches: P::WANTS && (link as usize) < self.named_links && self.probe.watches(link),
            arena: &mut self.arena,
            probe: &mut self.probe,
            inbox: &mut self.inbox,
            chores: &mut self.chores,
        };
        self.links[link as usize].settle(self.now, &mut self.fate, &mut host);
        let next = self.links[link as usize].next_wake();
        self.schedule.arm(link, next);
        self.settle_fate();
    }
}
