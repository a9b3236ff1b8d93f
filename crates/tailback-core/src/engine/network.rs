//! The network as arrays, and the run loop.
//!
//! Elements: links, applications, the poll, flows of foreign stacks, and the ends of connections, which come and go and
//! therefore have the highest numbers. Each element has at most one armed wake. A link wakes when a packet arrives at
//! its far end. An end wakes when a timer is due (possibly early, never late) or at the time that its application
//! requested. An application wakes at its starts, its stops and the times that it requested.
//!
//! This file keeps the state and runs the loop; each kind of element has its module: `links`, `ends`, `applications`
//! and `polls`. `shared` and `tunnelled` are for links that another element serves, `link_host` has what a link borrows
//! while it works, `small_queue` is TCP small queues.

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

/// Polling of windows and queues.
#[derive(Debug, Default)]
pub struct Polling {
    pub interval: Duration,
    pub next: Time,
    pub flows: Vec<u32>,
    pub links: Vec<u32>,
}

/// Limit on the work per span of simulated time. A path without rate and with almost no delay lets senders do so much
/// work at one instant that the run would never end; the budget refuses such a run after about a second.
struct Budget {
    /// When the span ends.
    until: Time,
    /// The work count at which the budget is used up.
    stop: u64,
    /// Limit on the budget saved from earlier spans.
    most: u64,
}

impl Budget {
    const SPAN: Duration = Duration::from_ps(100_000_000);
    /// 2·10⁹ per simulated second: three times what 1 Tbit/s of full packets takes.
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

/// Peak use of memory by a run, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// Packets in queues and on links.
    pub packets: u64,
    /// Connections of tailback's TCP.
    pub connections: u64,
    /// Connections of foreign stacks.
    pub foreign: u64,
    /// Bytes of foreign stacks' datagrams.
    pub payloads: u64,
}

impl Held {
    /// A slot of the arena and an entry in a queue.
    const PACKET: u64 = (size_of::<Segment>() + size_of::<Packet>()) as u64;
    /// Both ends with their buffers; `tests/memory.rs` checks it.
    const CONNECTION: u64 = 6_400;
    /// Measured with a thousand at once that carried 20 kB each: quinn 13 kB, s2n-quic 51 kB.
    const FOREIGN: u64 = 64_000;

    /// Approximate bytes of memory.
    pub fn bytes(self) -> u64 {
        self.packets * Held::PACKET
            + self.connections * Held::CONNECTION
            + self.foreign * Held::FOREIGN
            + self.payloads
    }
}

/// A running network.
pub struct Network<P> {
    pub now: Time,
    pub end: Time,
    schedule: Schedule,
    pub links: Vec<Link>,
    channels: Vec<Channel>,
    /// How the arrivals of each link may be batched.
    ways: Vec<ahead::Way>,
    pub named_links: usize,
    pub flows: Vec<Flow>,
    /// One entry for each of `flows`.
    pub per_packet: Vec<PerPacket>,
    pub connections: Connections,
    /// Flows of foreign stacks.
    pub foreign: Vec<Foreign>,
    /// Faults of foreign stacks: the flow, the number of connections that the fault ended, and the fault.
    pub faults: Vec<(u32, u64, StackFault)>,
    /// Packets that ends dropped on arrival.
    pub receiver_drops: ReceiverDropCounts,
    /// The flow that exceeded the limit on foreign connections open at once.
    pub crowded: Option<u32>,
    /// Number of open foreign connections.
    foreign_open: usize,
    /// Peak of `foreign_open`.
    foreign_peak: usize,
    /// Work that may still be done before simulated time must advance.
    budget: Budget,
    /// Metrics that closed connections have left for later ones between the same hosts.
    host_metrics: BTreeMap<host_metrics::Pair, Metrics>,
    /// Addresses of ends that are done and are closed after the event.
    leaving: Vec<u32>,
    /// Work deferred to the end of the event.
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
        // Rows of drops show packet numbers, which follow the order of departure.
        let shows_numbers =
            P::WANTS && (0..links as u32).any(|link| probe.wants_event(link, QueueEvent::Drop));
        let schedule = Schedule::new(links, elements);
        // With links among the timers, `next_timer` is always due first, so batching would gain nothing. Batching does
        // not check for packets that a wire has damaged.
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

    /// Work done by the run: events, packets and rows. One event may send a window of packets, or poll many flows.
    #[inline]
    pub fn work(&self) -> u64 {
        self.events + self.arena.ever() + self.probe.rows()
    }

    /// Peak use of memory so far. Freed memory is kept for reuse, so these numbers never fall.
    pub fn held(&self) -> Held {
        let (packets, payloads) = self.arena.held();
        let (connections, foreign) = (self.connections.places() as u64, self.foreign_peak as u64);
        Held { packets, connections, foreign, payloads }
    }

    /// The foreign stack of a flow that has one.
    pub fn foreign_of(&self, flow: usize) -> &Foreign {
        &self.foreign[self.flows[flow].foreign as usize]
    }

    /// Whether the run does so much work in so little simulated time that it would never end.
    pub fn is_endless(&self) -> bool {
        self.work() >= self.budget.stop
    }

    /// Runs for about `most` more units of work. True when the run is over, or [`Network::is_endless`].
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
