//! Access delays of the host pairs of an application (`hosts` of `web`), spent before the first link.
//!
//! A flow has one namespace at each end, however many pairs of hosts it has. The client's port says which pair a
//! connection belongs to, so that the path can hold its packets for as long as the simulator would.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tailback_core::packet::Packet;
use tailback_core::rng::Stream;
use tailback_core::scenario::{FlowSpec, Scenario, ScenarioError};
use tailback_core::time::{Duration, Time};
use tailback_core::traffic::{Application, registry as apps};

/// The first unprivileged port.
const FIRST: u16 = 1024;

/// The client ports that identify connections of host pair `pair` out of `pairs`, beginning with number `turn`.
pub fn ports(pair: u32, pairs: u32, turn: u64) -> impl Iterator<Item = u16> {
    let each = (u32::from(u16::MAX - FIRST) + 1) / pairs;
    (0..each).map(move |step| {
        let place = (turn as u32).wrapping_add(step) % each;
        FIRST + (place * pairs + pair) as u16
    })
}

/// The host pair, out of `pairs`, that a client's port identifies.
pub fn pair_of(port: u16, pairs: u32) -> u32 {
    u32::from(port.saturating_sub(FIRST)) % pairs
}

/// The seed of a flow's application, the same as in the simulator.
pub fn seed(scenario: &Scenario, flow: &FlowSpec) -> u64 {
    Stream::named(scenario.seed, &format!("flow/{}/app", flow.name)).bits()
}

/// One-way access delays of a flow's host pairs; empty if its application has no host pairs.
pub fn delays(scenario: &Scenario, number: usize) -> Result<Vec<Duration>, ScenarioError> {
    let flow = &scenario.flows[number];
    if apps::traits(&flow.app.kind).runs_programs {
        return Ok(Vec::new());
    }
    let path = format!("flows[{number}].app");
    let app = apps::build(&flow.app.kind, &flow.app.params, &path, seed(scenario, flow))?;
    Ok(app.needs().paths)
}

/// Packets on their way from a host to the first link.
#[derive(Debug, Default)]
pub struct Accesses {
    /// Access delay by flow and pair.
    delays: Vec<Vec<Duration>>,
    /// Held packets, ordered by due time and then by arrival.
    waiting: BinaryHeap<Reverse<(Time, u64, u32)>>,
    packets: Vec<Option<Packet>>,
    count: u64,
}

impl Accesses {
    /// With these delays, by flow and host pair.
    pub fn new(delays: Vec<Vec<Duration>>) -> Self {
        Accesses { delays, ..Accesses::default() }
    }

    /// Number of a flow's host pairs; zero if it has none.
    pub fn pairs(&self, flow: u32) -> u32 {
        self.delays[flow as usize].len() as u32
    }

    /// Holds a packet of a flow that has host pairs.
    pub fn push(&mut self, now: Time, packet: Packet, pair: u32) {
        let due = now + self.delays[packet.flow.0 as usize][pair as usize];
        let slot = packet.slot as usize;
        if slot >= self.packets.len() {
            self.packets.resize(slot + 1, None);
        }
        self.packets[slot] = Some(packet);
        self.waiting.push(Reverse((due, self.count, packet.slot)));
        self.count += 1;
    }

    /// When the next packet reaches its first link; [`Time::NEVER`] if none is held.
    pub fn next_due(&self) -> Time {
        self.waiting.peek().map_or(Time::NEVER, |Reverse((due, ..))| *due)
    }

    /// Removes and returns the next packet.
    pub fn pop(&mut self) -> Option<Packet> {
        let Reverse((.., slot)) = self.waiting.pop()?;
        self.packets[slot as usize].take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tailback_core::packet::{Ecn, FlowId};

    #[test]
    fn a_port_identifies_the_pair_it_was_given_for() {
        for pairs in [1, 7, 1000] {
            for pair in [0, pairs / 2, pairs - 1] {
                let all: Vec<u16> = ports(pair, pairs, 12_345).collect();
                assert!(all.len() >= 64 && all.iter().all(|port| pair_of(*port, pairs) == pair));
                let mut once = all.clone();
                once.sort_unstable();
                once.dedup();
                assert_eq!(once.len(), all.len());
            }
        }
    }

    #[test]
    fn packets_come_out_when_due_and_in_order() {
        let ms = Duration::from_ms;
        let mut accesses = Accesses::new(vec![vec![ms(5), ms(1)]]);
        assert_eq!(accesses.pairs(0), 2);
        let packet = |slot| Packet {
            slot,
            flow: FlowId(0),
            bytes: 100,
            ecn: Ecn::NotEct,
            hop: 0,
            is_reverse: false,
            conversation: 0,
            enqueued: Time::ZERO,
        };
        for (slot, pair) in [(0, 0), (1, 1), (2, 0)] {
            accesses.push(Time::ZERO, packet(slot), pair);
        }
        let mut out = Vec::new();
        while accesses.next_due() < Time::NEVER {
            let due = accesses.next_due();
            out.push((due, accesses.pop().expect("it is due").slot));
        }
        assert_eq!(out, [(Time::from_ms(1), 1), (Time::from_ms(5), 0), (Time::from_ms(5), 2)]);
    }
}
