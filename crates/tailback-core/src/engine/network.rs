//! The network as arrays, and the run loop.
//!
//! Elements: links, applications, the poll, flows of foreign stacks, and the ends of connections, which come and go and so
//! stand last. Each
//! has one armed wake. A link wakes when a packet arrives at its far end; an end when a timer is due (its wake may
//! be early, never late) or its application asked to; an application at its starts, its stops or when it asked to.
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
use crate::foreign::StackFault;
use crate::link::Link;
use crate::link::channel::Channel;
use crate::probe::{Probe, QueueEvent};
use crate::queue::Fate;
use crate::tcp::metrics::Metrics;
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
    /// One each of `flows`.
    pub per_packet: Vec<PerPacket>,
    pub connections: Connections,
    /// Flows of foreign stacks.
    pub foreign: Vec<Foreign>,
    /// What one of their stacks did wrong; the run has ended then.
    pub fault: Option<Box<StackFault>>,
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
        let ways = match P::EACH || !schedule.has_row() {
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
            fault: None,
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

    /// Run for about so much more work. True when the run is over.
    pub fn run(&mut self, most: u64) -> bool {
        let stop = self.work().saturating_add(most);
        let links = self.links.len() as u32;
        let (first_end, poll) = (self.end_element(0), self.poll_element());
        while self.work() < stop {
            let Some((time, element)) = self.schedule.peek().filter(|(time, _)| *time < self.end) else {
                self.now = self.end;
                return true;
            };
            assert!(time >= self.now, "time ran back from {:?} to {time:?}", self.now);
            self.now = time;
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
        false
    }
}
