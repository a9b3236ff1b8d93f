//! State that the network keeps for each flow.

use std::collections::VecDeque;

use super::foreign::NOT_FOREIGN;
use crate::engine::connections::{Blueprint, Tally};
use crate::packet::Ecn;
use crate::time::{Bytes, Time};
use crate::traffic::registry::App;

/// Not an end's address: the highest generation of the last index.
pub(super) const NO_CONNECTION: u32 = u32::MAX;

/// Packet counters of a flow.
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

/// Fields of a flow that every packet touches, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct PerPacket {
    pub count: FlowCount,
    /// Number of links in the forward and in the reverse route.
    pub(super) hops: [u8; 2],
    pub(super) is_datagrams: bool,
}

/// A flow.
#[derive(Debug)]
pub struct Flow {
    pub route: Vec<u32>,
    pub back: Vec<u32>,
    /// Links that replace the first link of the forward and of the reverse route, by the connection's path.
    pub paths: Vec<[u32; 2]>,
    pub app: App,
    /// Nodes of its client and its server.
    pub hosts: [u32; 2],
    /// Blueprints of its connections' client and server ends; `None`: the flow sends datagrams.
    pub plan: Option<Box<[Blueprint; 2]>>,
    /// Its number among the flows of foreign stacks, or [`NOT_FOREIGN`].
    pub foreign: u32,
    pub start: Time,
    /// Coming starts and stops, alternating.
    pub switches: VecDeque<Time>,
    pub wants_datagrams: bool,
    /// ECN field of its client's datagrams.
    pub ecn: Ecn,
    /// Bytes by which its datagrams are longer than the sender states: senders count an IPv4 header.
    pub beyond_v4: u32,
    /// Congestion events of this flow are not listed.
    pub is_crowd: bool,
    /// For a tunnel's flow: the links whose packets its client's and its server's stream carry.
    pub carried: [Option<u32>; 2],
    pub(super) is_on: bool,
    pub(super) wake: Time,
    pub(super) datagrams: u64,
    /// The client's address of each connection, by the number the application gave it.
    pub(super) connections: Vec<u32>,
    pub alive: u32,
    /// The most recently opened connection.
    pub(super) latest: u32,
    /// Totals over the closed connections.
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
            foreign: NOT_FOREIGN,
            start: switches[0],
            switches,
            wants_datagrams: false,
            ecn: Ecn::NotEct,
            beyond_v4: 0,
            is_crowd: false,
            carried: [None; 2],
            is_on: false,
            wake: Time::NEVER,
            datagrams: 0,
            connections: Vec::new(),
            alive: 0,
            latest: NO_CONNECTION,
            past: Tally::default(),
            finished: Time::NEVER,
        }
    }

    pub(super) fn next_wake(&self) -> Time {
        self.switches.front().map_or(self.wake, |switch| self.wake.min(*switch))
    }
}

impl PerPacket {
    pub(super) fn of(flow: &Flow) -> Self {
        // A route has at most 250 links, and hidden ones at its beginning.
        let hops = [&flow.route, &flow.back].map(|route| route.len() as u8);
        PerPacket { count: FlowCount::default(), hops, is_datagrams: flow.plan.is_none() }
    }
}
