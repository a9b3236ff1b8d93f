//! Assigns packets to queues of their tin: an 8-way set-associative hash by flow or by host, with fair shares per host.

use std::collections::BTreeMap;

use super::tins::{Layout, Set, Tin};
use crate::packet::Packet;
use crate::params::Checked;
use crate::queue::dscp;
use crate::queue::parts::bucket_of;
use crate::scenario::{FlowSpec, ScenarioError};

/// Queues of a tin.
pub(super) const QUEUES: usize = 1024;
/// Associativity: number of queues in which a flow may be placed.
const WAYS: usize = 8;

/// What the queues isolate from each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Isolation {
    /// Key of the hash: the flow, or its source and destination hosts.
    by_flow: bool,
    by_host: [bool; 2],
    /// Whether a host's share is divided among its flows, as source and as destination.
    pub shares: [bool; 2],
}

impl Isolation {
    pub fn named(name: &str) -> Self {
        let of = |by_flow, by_host, shares| Isolation { by_flow, by_host, shares };
        match name {
            "flowblind" => of(false, [false; 2], [false; 2]),
            "srchost" => of(false, [true, false], [false; 2]),
            "dsthost" => of(false, [false, true], [false; 2]),
            "hosts" => of(false, [true; 2], [false; 2]),
            "flows" => of(true, [false; 2], [false; 2]),
            "dual-srchost" => of(true, [false; 2], [true, false]),
            "dual-dsthost" => of(true, [false; 2], [false, true]),
            _ => of(true, [false; 2], [true; 2]),
        }
    }

    /// The tag that identifies a packet's queue, and the bucket of its hash.
    pub fn hash(&self, packet: &Packet, known: &Known, perturbation: u64) -> (u64, u32) {
        let stand_in = if self.by_flow {
            *packet
        } else {
            // Hosts replace the flow number; a host that does not count is always zero.
            let host = |side: usize| if self.by_host[side] { known.hosts[side] + 1 } else { 0 };
            let mut other = *packet;
            other.flow.0 = host(0) << 16 | host(1);
            (other.is_reverse, other.conversation) = (false, 0);
            other
        };
        let tag = u64::from(stand_in.conversation) << 40
            | u64::from(stand_in.flow.0) << 1
            | u64::from(stand_in.is_reverse);
        // Tag 0 marks a queue that was never used.
        (tag + 1, bucket_of(&stand_in, perturbation, QUEUES as u32))
    }
}

/// Properties of a packet's flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub hosts: [u32; 2],
    pub tin: u8,
}

/// Hosts and tin of each flow, and the number of hosts.
pub(super) fn flows_known(
    given: &Checked<'_>,
    flows: &[FlowSpec],
    layout: &Layout,
) -> Result<(Vec<Known>, usize), ScenarioError> {
    let marked = dscp::of_flows(given, flows)?;
    let mut hosts = BTreeMap::new();
    let mut number = |host| {
        let next = hosts.len() as u32;
        *hosts.entry(host).or_insert(next)
    };
    let known = flows
        .iter()
        .zip(marked)
        .map(|(flow, dscp)| Known {
            hosts: [number(flow.from.as_str()), number(flow.to.as_str())],
            tin: (layout.class)(dscp),
        })
        .collect();
    let count = hosts.len().max(1);
    Ok((known, count))
}

impl Tin {
    /// The queue for packets of `tag` between `hosts`: the one they had, else the first unused one of the set of eight
    /// that contains `bucket`. If all are in use it is `bucket` itself, which flows then share.
    pub fn place(&mut self, tag: u64, bucket: u32, hosts: [u32; 2]) -> u32 {
        let bucket = bucket as usize;
        let is_theirs = |place: &usize| self.flows[*place].tag == tag;
        let is_free = |place: &usize| self.flows[*place].set == Set::None;
        if is_theirs(&bucket) && !is_free(&bucket) {
            return bucket as u32;
        }
        let first = bucket - bucket % WAYS;
        let ways = || (0..WAYS).map(|way| first + (bucket + way) % WAYS);
        let found = ways().find(is_theirs).or_else(|| ways().find(is_free));
        let place = found.unwrap_or(bucket) as u32;
        let flow = &mut self.flows[place as usize];
        // A shared queue takes the newcomer's tag, and counts for the newcomer's hosts from now on.
        let moves = flow.set == Set::Bulk && found.is_none();
        let is_new = flow.set == Set::None || found.is_none();
        flow.tag = tag;
        if moves {
            self.count_bulk(place, false);
        }
        if is_new {
            self.flows[place as usize].hosts = hosts;
        }
        if moves {
            self.count_bulk(place, true);
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::cake::tins::layout;
    use crate::time::Duration;

    fn tin() -> Tin {
        let (_, quantum) = layout("besteffort").shares[0];
        Tin::new(None, quantum, Duration::from_ms(100), 1)
    }

    /// Packets of `tag` join the queue at `bucket` or beside it.
    fn join(tin: &mut Tin, tag: u64, bucket: u32) -> u32 {
        let place = tin.place(tag, bucket, [0, 0]);
        tin.flows[place as usize].set = Set::Sparse;
        place
    }

    #[test]
    fn eight_flows_of_one_place_have_queues_of_their_own_and_the_ninth_shares() {
        let mut tin = tin();
        let places: Vec<u32> = (1..=9).map(|tag| join(&mut tin, tag, 21)).collect();
        assert_eq!(places, [21, 22, 23, 16, 17, 18, 19, 20, 21]);
        // A flow that has a queue finds it again.
        assert_eq!(tin.place(5, 21, [0, 0]), 17);
    }

    #[test]
    fn a_flow_keeps_its_queue_when_the_place_it_hashes_to_is_free_again() {
        let mut tin = tin();
        assert_eq!((join(&mut tin, 1, 21), join(&mut tin, 2, 21)), (21, 22));
        tin.flows[21].set = Set::None;
        // Its packets would overtake each other in two queues.
        assert_eq!(tin.place(2, 21, [0, 0]), 22);
        // It also comes back to the queue that it had last, and with it to its COBALT.
        tin.flows[22].set = Set::None;
        assert_eq!(tin.place(2, 21, [0, 0]), 22);
    }

    #[test]
    fn a_shared_queue_counts_for_the_host_of_its_latest_flow() {
        let mut tin = Tin::new(None, 1, Duration::from_ms(100), 3);
        for tag in 1..=8 {
            let place = tin.place(tag, 8, [0, 1]);
            tin.flows[place as usize].set = Set::Bulk;
            tin.count_bulk(place, true);
        }
        assert_eq!(tin.place(9, 8, [2, 1]), 8);
        assert_eq!((&tin.bulk_of[0][..], tin.bulk_flows), (&[7, 0, 1][..], 8));
    }
}
