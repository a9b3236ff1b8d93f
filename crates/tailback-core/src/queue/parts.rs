//! Building blocks shared by several disciplines.

use std::collections::VecDeque;

use super::Backlog;
use crate::packet::Packet;
use crate::time::{Bytes, Duration, Time};

/// A FIFO line of packets that tracks its bytes.
#[derive(Clone, Debug, Default)]
pub struct Line {
    packets: VecDeque<Packet>,
    bytes: Bytes,
}

impl Line {
    /// Appends a packet at the tail.
    #[inline]
    pub fn push(&mut self, packet: Packet) {
        self.bytes += Bytes::from(packet.bytes);
        self.packets.push_back(packet);
    }
    /// Removes the packet at the head.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= Bytes::from(packet.bytes);
        Some(packet)
    }
    /// Removes the packet at the tail.
    pub fn pop_tail(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_back()?;
        self.bytes -= Bytes::from(packet.bytes);
        Some(packet)
    }
    /// The packet at position `place` from the head.
    pub fn get(&self, place: usize) -> Option<&Packet> {
        self.packets.get(place)
    }
    /// Removes the packet at position `place` from the head.
    pub fn remove(&mut self, place: usize) -> Option<Packet> {
        let packet = self.packets.remove(place)?;
        self.bytes -= Bytes::from(packet.bytes);
        Some(packet)
    }
    /// The packet at the head.
    #[inline]
    pub fn head(&self) -> Option<&Packet> {
        self.packets.front()
    }
    /// Number of packets and bytes in the FIFO.
    #[inline]
    pub fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u32, bytes: self.bytes }
    }
    /// Bytes held.
    #[inline]
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }
    /// Packets held.
    #[inline]
    pub fn len(&self) -> u32 {
        self.packets.len() as u32
    }
    /// Whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
    /// Sojourn time of the packet at the head; zero if there is none.
    #[inline]
    pub fn head_sojourn(&self, now: Time) -> Duration {
        self.head().map_or(Duration::ZERO, |packet| now.since(packet.enqueued))
    }
}

/// Hash bucket of a packet's conversation, 0..buckets. Each connection or stream of a flow, and each of its directions,
/// is one conversation, as for a hash of addresses and ports. Equal perturbations give equal buckets.
#[inline]
pub fn bucket_of(packet: &Packet, perturbation: u64, buckets: u32) -> u32 {
    // SplitMix64's finaliser (Steele, Lea and Flood 2014) spreads neighbouring flow numbers evenly.
    let conversation = u64::from(packet.conversation) << 33;
    let mut z = perturbation ^ (conversation | u64::from(packet.flow.0) << 1 | u64::from(packet.is_reverse));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    ((u128::from(z) * u128::from(buckets)) >> 64) as u32
}

/// A periodic update inside a queue, run at its due times however rarely the queue is called.
#[derive(Clone, Debug)]
pub struct Period {
    next: Time,
    every: Duration,
}

impl Period {
    /// The first update is due one period after the start of the run.
    pub fn new(every: Duration) -> Self {
        Period { next: Time::ZERO + every, every }
    }
    /// The next due time up to `now`, if any; it is consumed.
    #[inline]
    pub fn due(&mut self, now: Time) -> Option<Time> {
        if self.next > now {
            return None;
        }
        let at = self.next;
        self.next += self.every;
        Some(at)
    }
    /// Consumes all due times up to `now`, for an update that would change nothing.
    pub fn skip(&mut self, now: Time) {
        if self.next <= now {
            let missed = now.since(self.next).as_ps() / self.every.as_ps() + 1;
            self.next += self.every * missed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_keep_their_phase_whether_taken_or_skipped() {
        let mut taken = Period::new(Duration::from_ms(15));
        let mut skipped = taken.clone();
        let mut last = Time::ZERO;
        while let Some(at) = taken.due(Time::from_ms(100)) {
            last = at;
        }
        skipped.skip(Time::from_ms(100));
        assert_eq!(last, Time::from_ms(90));
        assert_eq!(taken.due(Time::from_ms(105)), skipped.due(Time::from_ms(105)));
        skipped.skip(Time::from_ms(107));
        assert_eq!(skipped.due(Time::from_ms(120)), Some(Time::from_ms(120)));
    }

    #[test]
    fn buckets_spread_neighbouring_flows() {
        let packet = |flow, is_reverse| Packet {
            slot: 0,
            flow: crate::packet::FlowId(flow),
            bytes: 1500,
            ecn: crate::packet::Ecn::NotEct,
            hop: 0,
            is_reverse,
            conversation: 0,
            enqueued: Time::ZERO,
        };
        let mut hits = [0u32; 64];
        for flow in 0..6400 {
            hits[bucket_of(&packet(flow, false), 7, 64) as usize] += 1;
        }
        // Mean 100, standard deviation 10; five of them.
        assert!(hits.iter().all(|&n| (50..150).contains(&n)), "{hits:?}");
        let same = packet(1, false);
        let other = Packet { conversation: 1, ..same };
        for unlike in [packet(1, true), other] {
            assert_ne!(bucket_of(&same, 7, 1 << 20), bucket_of(&unlike, 7, 1 << 20));
        }
    }
}
