//! Bytes that reached a receiver, in order or not, each counted once. They come from the log of segments, because the
//! kernel's own counters cover only data in order.

use std::collections::BTreeMap;

use tailback_core::probe::rows::Polls;

use crate::clock::Clock;
use crate::tcp_log::{Kind, Row};

/// One connection's payload at its receiver, by offset from the first expected byte.
#[derive(Clone, Debug)]
struct Arrived {
    first: u32,
    /// All bytes before this offset have arrived.
    in_order: u64,
    /// Out-of-order pieces beyond it, start to end; pieces neither touch nor overlap.
    pieces: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Arrived {
    fn from(first: u32) -> Self {
        Arrived { first, in_order: 0, pieces: BTreeMap::new(), bytes: 0 }
    }

    /// Adds a segment; returns how many of its bytes are new.
    fn add(&mut self, seq: u32, length: u32) -> u64 {
        // Sequence numbers wrap at 2³²: take the one nearest to the next expected.
        let awaited = self.first.wrapping_add(self.in_order as u32);
        let offset = self.in_order as i64 + i64::from(seq.wrapping_sub(awaited) as i32);
        let begin = offset.max(self.in_order as i64) as u64;
        let end = (offset + i64::from(length)).max(0) as u64;
        if end <= begin {
            return 0;
        }
        let (mut from, mut until, mut known) = (begin, end, 0);
        let touching = self.pieces.range(..=end).rev().take_while(|(_, ends)| **ends >= begin);
        let touching: Vec<(u64, u64)> = touching.map(|(begins, ends)| (*begins, *ends)).collect();
        for (begins, ends) in touching {
            known += ends.min(end).saturating_sub(begins.max(begin));
            (from, until) = (from.min(begins), until.max(ends));
            self.pieces.remove(&begins);
        }
        if from == self.in_order {
            self.in_order = until;
        } else {
            self.pieces.insert(from, until);
        }
        let new = end - begin - known;
        self.bytes += new;
        new
    }
}

/// Fills in how much had arrived at each poll, from the log. Where rows of the log were lost, the value is at least
/// what the application received.
pub fn add_arrivals(polls: &mut Polls, rows: &[(u32, bool, Row)], clock: Clock) {
    let mut connections: BTreeMap<(u32, u16), Arrived> = BTreeMap::new();
    let mut totals: BTreeMap<u32, u64> = BTreeMap::new();
    let mut next =
        rows.iter().filter(|(_, at_receiver, row)| *at_receiver && row.kind == Kind::Received).peekable();
    for index in 0..polls.t_s.len() {
        while let Some((flow, _, row)) =
            next.next_if(|(.., row)| clock.at(row.ns).as_secs_f64() <= polls.t_s[index])
        {
            let key = (*flow, row.port);
            let arrived = connections.entry(key).or_insert_with(|| Arrived::from(row.rcv_nxt));
            *totals.entry(*flow).or_default() += arrived.add(row.seq, row.length);
        }
        let total = totals.get(&polls.flow[index]).copied().unwrap_or(0);
        polls.bytes_arrived[index] = total.max(polls.bytes_received[index]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_counts_once_when_it_arrives_first() {
        let mut arrived = Arrived::from(u32::MAX - 999);
        let mut add = |offset: u32, length| arrived.add((u32::MAX - 999).wrapping_add(offset), length);
        assert_eq!(add(0, 1000), 1000, "the last before the numbers begin again");
        assert_eq!(add(2000, 1000), 1000, "behind a gap");
        assert_eq!(add(2000, 1000), 0, "twice");
        assert_eq!(add(4000, 500), 500);
        assert_eq!(add(2500, 2000), 1000, "from within one piece to the end of another");
        assert_eq!(add(1000, 1000), 1000, "the gap: itself, not what waited behind it");
        assert_eq!(add(500, 100), 0, "long known");
        assert_eq!(add(4400, 200), 100);
        assert_eq!((arrived.in_order, arrived.bytes, arrived.pieces.len()), (4600, 4600, 0));
    }
}
