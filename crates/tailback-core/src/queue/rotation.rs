//! Deficit round robin over hashed flows with two lists, new flows first (RFC 8290 section 4).
//!
//! Shared by fq_codel, fq_pie and fq. Each bucket has a queue, a credit in bytes, and while it is active a position in
//! one of two lists. A queue with credit sends; one without gets a quantum and moves to the end of the old list. A
//! queue that was empty joins the new list, which is served first.

use std::collections::VecDeque;

use super::parts::bucket_of;
use crate::packet::Packet;

/// Queue and credit of a bucket.
#[derive(Clone, Debug)]
struct Flow<Q> {
    queue: Q,
    credit: i64,
    /// Whether it is in one of the lists, or put aside.
    is_listed: bool,
}

/// The queues by bucket, with the two lists.
#[derive(Clone, Debug)]
pub(super) struct Rotation<Q> {
    flows: Vec<Flow<Q>>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    perturbation: u64,
    quantum: i64,
    /// Link-layer header counted per packet, in addition to IP bytes.
    header: i64,
}

impl<Q> Rotation<Q> {
    /// Builds one empty queue per bucket.
    pub fn new(queues: impl Iterator<Item = Q>, perturbation: u64, quantum: i64, header: i64) -> Self {
        Rotation {
            flows: queues.map(|queue| Flow { queue, credit: 0, is_listed: false }).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            perturbation,
            quantum,
            header,
        }
    }

    /// Bytes that a queue may send per round.
    pub fn quantum(&self) -> i64 {
        self.quantum
    }

    /// The bucket that `packet` belongs to.
    #[inline]
    pub fn bucket_of(&self, packet: &Packet) -> u32 {
        bucket_of(packet, self.perturbation, self.flows.len() as u32)
    }

    /// The queue of a bucket.
    #[inline]
    pub fn queue(&self, bucket: u32) -> &Q {
        &self.flows[bucket as usize].queue
    }

    /// The queue of a bucket.
    #[inline]
    pub fn queue_mut(&mut self, bucket: u32) -> &mut Q {
        &mut self.flows[bucket as usize].queue
    }

    /// A packet arrived at `bucket`: adds an inactive bucket to the new list. `credit` computes its credit from the old
    /// one.
    #[inline]
    pub fn join(&mut self, bucket: u32, credit: impl FnOnce(&Q, i64) -> i64) {
        let flow = &mut self.flows[bucket as usize];
        if !flow.is_listed {
            flow.is_listed = true;
            flow.credit = credit(&flow.queue, flow.credit);
            self.new.push_back(bucket);
        }
    }

    /// The bucket to serve next.
    #[inline]
    pub fn turn(&mut self) -> Option<u32> {
        loop {
            let list = if self.new.is_empty() { &mut self.old } else { &mut self.new };
            let bucket = *list.front()?;
            let flow = &mut self.flows[bucket as usize];
            if flow.credit > 0 {
                return Some(bucket);
            }
            flow.credit += self.quantum;
            list.pop_front();
            self.old.push_back(bucket);
        }
    }

    /// Charges `bucket` for a packet of `bytes` IP bytes. Returns its remaining credit.
    #[inline]
    pub fn charge(&mut self, bucket: u32, bytes: u32) -> i64 {
        let flow = &mut self.flows[bucket as usize];
        flow.credit -= i64::from(bytes) + self.header;
        flow.credit
    }

    /// The bucket in turn is empty. Returns true if it left the lists. A new one first moves once to the end of the old
    /// list, because otherwise it could starve the old ones.
    #[inline]
    pub fn leave(&mut self) -> bool {
        let is_new = !self.new.is_empty();
        let bucket = self.put_aside();
        if is_new && !self.old.is_empty() {
            self.old.push_back(bucket);
            return false;
        }
        self.flows[bucket as usize].is_listed = false;
        true
    }

    /// Removes the bucket in turn from its list until [`Self::bring_back`].
    pub fn put_aside(&mut self) -> u32 {
        let list = if self.new.is_empty() { &mut self.old } else { &mut self.new };
        list.pop_front().expect("a bucket has its turn")
    }

    /// Adds a bucket that was put aside to the end of the old list.
    pub fn bring_back(&mut self, bucket: u32) {
        self.old.push_back(bucket);
    }

    /// The buckets in the lists.
    pub fn listed(&self) -> impl Iterator<Item = u32> {
        self.new.iter().chain(&self.old).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Buckets in the order in which they send packets of `bytes[bucket]` bytes; each always has one, until it has sent
    /// `count[bucket]`.
    fn order(quantum: i64, bytes: &[u32], count: &[u32]) -> Vec<u32> {
        let mut rotation = Rotation::new(count.iter().copied(), 0, quantum, 0);
        (0..bytes.len() as u32).for_each(|bucket| rotation.join(bucket, |_, _| quantum));
        let mut out = Vec::new();
        while let Some(bucket) = rotation.turn() {
            if *rotation.queue(bucket) == 0 {
                rotation.leave();
                continue;
            }
            *rotation.queue_mut(bucket) -= 1;
            rotation.charge(bucket, bytes[bucket as usize]);
            out.push(bucket);
        }
        out
    }

    #[test]
    fn each_gets_a_quantum_of_bytes_a_round() {
        assert_eq!(
            order(1000, &[1000, 500, 250], &[3, 6, 12])[..14],
            [0, 1, 1, 2, 2, 2, 2, 0, 1, 1, 2, 2, 2, 2]
        );
        // In the long run bytes are alike to within a quantum and a packet, whatever the packets' sizes.
        let bytes = [1400, 90, 700];
        let sent = order(1500, &bytes, &[1000, 1000, 1000]);
        let of = |bucket: u32| sent[..700].iter().filter(|other| **other == bucket).count() as i64;
        let shares: Vec<i64> = (0..3).map(|bucket| of(bucket) * i64::from(bytes[bucket as usize])).collect();
        assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1500 + 1400, "{shares:?}");
    }

    #[test]
    fn a_new_queue_goes_first_once_and_passes_through_the_old_ones() {
        let mut rotation = Rotation::new([(), (), ()].into_iter(), 0, 1000, 0);
        let quantum = rotation.quantum();
        rotation.join(0, |(), _| quantum);
        rotation.charge(0, 1000);
        assert_eq!((rotation.turn(), rotation.new.len(), rotation.old.len()), (Some(0), 0, 1));
        rotation.join(1, |(), _| quantum);
        assert_eq!(rotation.turn(), Some(1));
        // Empty: it stays listed, behind the old one, and a packet that comes now does not go first again.
        assert!(!rotation.leave());
        rotation.join(1, |(), _| unreachable!("it is listed"));
        assert_eq!(rotation.listed().collect::<Vec<_>>(), [0, 1]);
        // With nothing but old ones an empty queue leaves.
        assert!(rotation.leave() && rotation.leave());
        assert_eq!(rotation.turn(), None);
    }
}
