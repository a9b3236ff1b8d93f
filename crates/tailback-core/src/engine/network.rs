//! The network as arrays, and the run loop.
//!
//! Elements: links, applications, the poll, flows of foreign stacks, and the ends of connections, which come and go and
//! so stand last. Each has one armed wake. A link wakes when a packet arrives at its far end. An end wakes when a timer
//! is due (its wake may be early, never late) or its application asked to. An application wakes at its starts, its
//! stops or when it asked to.
//!
//! This file keeps the state and runs the loop; each kind of element has its module: `links`, `ends`, `applications` and
//! `polls`. Links that others serve are in `shared` and `tunnelled`, what links borrow while they work in `link_host`,
//! what is done once an event is over in `small_queue`.

use std::collections::BTreeMap;

mod ahead;
mod applications;
mod ends;
pub mod flow;
pub mod foreign;
mod host_metrics;
mod link_host;
mod links;
mod polls;
mod shared;
mod small_queue;
mod tunnelled;

use flow::{Flow, PerPacket};
use link_host::{AfterEvent, Inbox};

use super::arena::Arena;
use super::connections::Connections;
use super::foreign::Foreign;
use super::parts::Parts;
use super::schedule::Schedule;
use super::tables::ReceiverDropCounts;
use crate::foreign::StackFault;
use crate::link::Link;
use crate::link::channel::Channel;
use crate::packet::Packet;
use crate::probe::{Probe, QueueEvent};
use crate::queue::Fate;
use crate::tcp::metrics::Metrics;
use crate::tcp::segment::Segment;
use crate::tcp::sender::CongestionEvent;
use crate::time::{Duration, Time};
use crate::traffic::Actions;

/// Polling, if any.
#[derive(Debug, Default)]
pub struct Polling {
    pub interval: Duration,
    pub next: Time,
    pub flows: Vec<u32>,
    pub links: Vec<u32>,
}

/// What may be done in a span of simulated time. A path without rate and with next to no delay lets senders do so much
/// at once that the run would never end: it is refused then, after a second or so.
struct Budget {
    /// When the span ends.
    until: Time,
    /// The work at which the budget is used up.
    stop: u64,
    /// The most that may be saved up.
    most: u64,
}

impl Budget {
    const SPAN: Duration = Duration::from_ps(100_000_000);
    /// Two thousand million a simulated second: thrice what 1 Tbit/s of full packets takes.
    const A_SPAN: u64 = 200_000;
    /// For bursts: a flow may send a window of thousands of packets at once.
    const AT_ONCE: u64 = 2_000_000;
    const AT_ONCE_A_FLOW: u64 = 50_000;

    fn new(flows: usize) -> Self {
        let most = Budget::AT_ONCE + flows as u64 * Budget::AT_ONCE_A_FLOW;
        Budget { until: Time::ZERO + Budget::SPAN, stop: most, most }
    }

    #[cold]
    fn renew(&mut self, now: Time, work: u64) {
        let spans = now.since(self.until).as_ps() / Budget::SPAN.as_ps() + 1;
        let left = self.stop.saturating_sub(work).saturating_add(Budget::A_SPAN.saturating_mul(spans));
        self.stop = work.saturating_add(left.min(self.most));
        self.until += Duration::from_ps(Budget::SPAN.as_ps() * spans);
    }
}

/// The most that a run has held at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// In queues and on links.
    pub packets: u64,
    /// Connections of tailback's TCP.
    pub connections: u64,
    /// Connections of foreign stacks.
    pub foreign: u64,
    /// Bytes of foreign stacks' datagrams.
    pub payloads: u64,
}

impl Held {
    /// A slot of the arena, and a place in a queue.
    const PACKET: u64 = (size_of::<Segment>() + size_of::<Packet>()) as u64;
    /// Both ends with their buffers: `tests/memory.rs` holds the engine to it.
    const CONNECTION: u64 = 6_400;
    /// Measured of a thousand at once that carried 20 kB each: quinn 13 kB, s2n-quic 51 kB.
    const FOREIGN: u64 = 64_000;

    /// Memory taken, about.
    pub fn bytes(self) -> u64 {
        self.packets * Held::PACKET
            + self.connections * Held::CONNECTION
            + self.foreign * Held::FOREIGN
            + self.payloads
    }
}

/// A network under way.
pub struct Network<P> {
    pub now: Time,
    pub end: Time,
    schedule: Schedule,
    pub links: Vec<Link>,
    channels: Vec<Channel>,
    /// How arrivals of each link may be taken.
    ways: Vec<ahead::Way>,
    pub named_links: usize,
    pub flows: Vec<Flow>,
    /// One entry for each of `flows`.
    pub per_packet: Vec<PerPacket>,
    pub connections: Connections,
    /// Flows of foreign stacks.
    pub foreign: Vec<Foreign>,
    /// What their stacks did wrong: the flow, how many connections ended by it, and the fault.
    pub faults: Vec<(u32, u64, StackFault)>,
    /// What ends dropped on arrival.
    pub receiver_drops: ReceiverDropCounts,
    /// The flow that wanted more foreign connections at once than a run has.
    pub crowded: Option<u32>,
    /// Foreign connections that are open.
    foreign_open: usize,
    /// The most there were at once.
    foreign_peak: usize,
    /// How much more may be done before time passes.
    budget: Budget,
    /// What finished connections have left for the next between the same hosts.
    host_metrics: BTreeMap<host_metrics::Pair, Metrics>,
    /// Addresses of ends that are done, to close after the event.
    leaving: Vec<u32>,
    /// What waits for the end of the event.
    after_event: AfterEvent,
    pub arena: Arena,
    fate: Fate,
    inbox: Inbox,
    happened: Vec<CongestionEvent>,
    actions: Actions,
    /// Congestion events by flow, in order.
    pub congestion: Vec<(u32, CongestionEvent)>,
    pub probe: P,
    polling: Polling,
    pub events: u64,
    pub warnings: Vec<String>,
}

impl<P: Probe> Network<P> {
    pub fn new(parts: Parts, probe: P, polling: Polling) -> Self {
        let (links, flows) = (parts.links.len(), parts.flows.len());
        let elements = links + flows + 1 + parts.foreign.len();
        // Rows of losses show the numbers of packets, which are in the order in which they leave.
        let shows_numbers =
            P::WANTS && (0..links as u32).any(|link| probe.wants_event(link, QueueEvent::Drop));
        let schedule = Schedule::new(links, elements);
        // Where links wake among the timers, nothing is ever before the next of those.
        // What is taken together is not asked whether a wire has damaged it.
        let may_damage = parts.links.iter().any(Link::may_damage);
        let ways = match P::EACH || !schedule.has_row() || may_damage {
            true => vec![ahead::Way::SINGLY; links],
            false => ahead::ways(&parts.links, &parts.flows, shows_numbers),
        };
        let mut network = Network {
            now: Time::ZERO,
            end: parts.end,
            schedule,
            ways,
            links: parts.links,
            channels: parts.channels,
            named_links: parts.named_links,
            per_packet: parts.flows.iter().map(PerPacket::of).collect(),
            flows: parts.flows,
            connections: Connections::default(),
            foreign: parts.foreign,
            faults: Vec::new(),
            receiver_drops: ReceiverDropCounts::default(),
            crowded: None,
            foreign_open: 0,
            foreign_peak: 0,
            budget: Budget::new(flows),
            host_metrics: BTreeMap::new(),
            leaving: Vec::new(),
            after_event: AfterEvent::default(),
            arena: Arena::new(P::WANTS),
            fate: Fate::default(),
            inbox: Inbox::default(),
            happened: Vec::new(),
            actions: Actions::default(),
            congestion: Vec::new(),
            probe,
            polling,
            events: 0,
            warnings: parts.warnings,
        };
        for back in network.ways.iter().filter_map(|way| way.back()) {
            network.links[back as usize].let_ahead();
        }
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
    fn end_element(&self, index: usize) -> u32 {
        (self.links.len() + self.flows.len() + 1 + self.foreign.len() + index) as u32
    }

    /// What the run has done: events, packets and rows. One event may send a window of packets, or poll many flows.
    #[inline]
    pub fn work(&self) -> u64 {
        self.events + self.arena.ever() + self.probe.rows()
    }

    /// The most held at once until now. What was given back stays for the next, so none of these numbers falls.
    pub fn held(&self) -> Held {
        let (packets, payloads) = self.arena.held();
        let (connections, foreign) = (self.connections.places() as u64, self.foreign_peak as u64);
        Held { packets, connections, foreign, payloads }
    }

    /// The foreign stack's side of a flow that has one.
    pub fn foreign_of(&self, flow: usize) -> &Foreign {
        &self.foreign[self.flows[flow].foreign as usize]
    }

    /// Whether so much was done in so little simulated time that the run would never end.
    pub fn is_endless(&self) -> bool {
        self.work() >= self.budget.stop
    }

    /// Run for about so much more work. True when the run is over, or [`Network::is_endless`].
    pub fn run(&mut self, most: u64) -> bool {
        let stop = self.work().saturating_add(most);
        let mut pause = stop.min(self.budget.stop);
        let links = self.links.len() as u32;
        let (first_end, poll) = (self.end_element(0), self.poll_element());
        while self.work() < pause {
            let Some((time, element)) = self.schedule.peek().filter(|(time, _)| *time < self.end) else {
                self.now = self.end;
                return true;
            };
            assert!(time >= self.now, "time ran back from {:?} to {time:?}", self.now);
            self.now = time;
            if time >= self.budget.until {
                self.budget.renew(time, self.work());
                pause = stop.min(self.budget.stop);
            }
            self.events += 1;
            if element < links {
                self.wake_link(element);
            } else if element >= first_end {
                self.wake_end((element - first_end) as usize);
            } else if element < poll {
                self.wake_flow((element - links) as usize);
            } else if element == poll {
                self.poll();
            } else {
                self.wake_foreign((element - poll - 1) as usize);
            }
            if self.after_event.are_due {
                self.finish_event();
            }
        }
        self.is_endless()
    }
}
