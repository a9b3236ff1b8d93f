//! The ACK filter: drops an acknowledgement from the queue when a later one behind it carries all its information.
//!
//! Let T be the segment that has just joined, and C an earlier segment of the same connection and direction in the same
//! queue. C is redundant if it is a pure ACK with ack(C) ≤ ack(T) and SACK(C) ⊆ SACK(T). No SACK block of C may report
//! a duplicate, below ack(C). If ack(C) = ack(T), T must SACK more bytes. Of two redundant ACKs the one nearer the head
//! is dropped, so the queue keeps one beside T. The aggressive filter also drops a single one directly before T whose
//! ECE and CWR equal those of T.
//!
//! If ECE or CWR differ between C and the next segment of the connection, C stays: it ends a run of marks.
//!
//! Source: T. Høiland-Jørgensen et al., "Piece of CAKE", section III.D; the rules are those of Linux sch_cake.c,
//! cake_ack_filter.

use std::collections::BTreeMap;

use crate::packet::{Acknowledgement, Packet};
use crate::queue::parts::Line;

/// The acknowledgements of the packets in the queues.
#[derive(Clone, Debug)]
pub(super) struct AckFilter {
    is_aggressive: bool,
    /// Slot and acknowledgement of the packet that will be enqueued next.
    shown: Option<(u32, Acknowledgement)>,
    /// Acknowledgements by the packet's slot.
    known: BTreeMap<u32, Acknowledgement>,
}

impl AckFilter {
    pub fn new(is_aggressive: bool) -> Self {
        AckFilter { is_aggressive, shown: None, known: BTreeMap::new() }
    }

    /// Announces the acknowledgement of `packet`, which will be enqueued next.
    pub fn show(&mut self, packet: &Packet, ack: Acknowledgement) {
        self.shown = Some((packet.slot, ack));
    }

    /// Removes `packet`, which has left its queue.
    pub fn forget(&mut self, packet: &Packet) {
        self.known.remove(&packet.slot);
    }

    /// Removes and returns the packet, if any, that the newest packet at the tail of `line` makes redundant.
    pub fn replaced(&mut self, line: &mut Line) -> Option<Packet> {
        let last = line.len().checked_sub(1)? as usize;
        let (slot, newest) = self.shown.take()?;
        let tail = *line.get(last)?;
        if tail.slot != slot {
            return None;
        }
        self.known.insert(slot, newest);
        // Position of the redundant packet, with its ECE and CWR bits.
        let mut candidate: Option<(usize, u16)> = None;
        for place in 0..last {
            let Some(packet) = line.get(place).filter(|packet| is_of_one_connection(packet, &tail)) else {
                continue;
            };
            let Some(older) = self.known.get(&packet.slot) else { continue };
            if candidate.is_some_and(|(_, echoes)| older.echoes() != echoes) {
                candidate = None;
            }
            if !is_replaced(older, &newest) {
                continue;
            }
            match candidate {
                Some((first, _)) => return line.remove(first),
                None => candidate = Some((place, older.echoes())),
            }
        }
        let alone = candidate
            .filter(|&(place, echoes)| self.is_aggressive && place + 1 == last && echoes == newest.echoes());
        alone.and_then(|(place, _)| line.remove(place))
    }
}

fn is_of_one_connection(one: &Packet, other: &Packet) -> bool {
    (one.flow, one.conversation, one.is_reverse) == (other.flow, other.conversation, other.is_reverse)
}

/// Whether `newer` carries all the information of `older`.
fn is_replaced(older: &Acknowledgement, newer: &Acknowledgement) -> bool {
    let bytes = |ack: &Acknowledgement| {
        ack.sack_blocks().iter().map(|[start, end]| end.wrapping_sub(*start)).sum::<u32>()
    };
    let is_covered = |[start, end]: &[u32; 2]| {
        let covers = |[from, to]: &[u32; 2]| !is_after(*from, *start) && !is_after(*end, *to);
        !is_after(older.number, *start) && newer.sack_blocks().iter().any(covers)
    };
    older.is_nothing_else()
        && !is_after(older.number, newer.number)
        && older.sack_blocks().iter().all(is_covered)
        && (older.number != newer.number || bytes(newer) > bytes(older))
}

/// Whether sequence number `one` is after `other`, modulo 2³².
fn is_after(one: u32, other: u32) -> bool {
    one.wrapping_sub(other) as i32 > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Ecn, FlowId};
    use crate::time::Time;

    const ACK: u16 = 0x10;
    const ECE: u16 = 0x40;

    fn ack(number: u32) -> Acknowledgement {
        Acknowledgement { number, flags: ACK, ..Acknowledgement::default() }
    }

    fn sacked(number: u32, blocks: &[[u32; 2]]) -> Acknowledgement {
        let mut sack = [[0; 2]; 4];
        sack[..blocks.len()].copy_from_slice(blocks);
        Acknowledgement { sack, sack_count: blocks.len() as u8, ..ack(number) }
    }

    /// What is left in a queue, by place of arrival, of segments of one connection. `None`: a datagram.
    fn left(is_aggressive: bool, segments: &[Option<Acknowledgement>]) -> Vec<u32> {
        let (mut filter, mut line) = (AckFilter::new(is_aggressive), Line::default());
        for (slot, segment) in (0..).zip(segments) {
            let packet = Packet {
                slot,
                flow: FlowId(0),
                bytes: 52,
                ecn: Ecn::NotEct,
                hop: 0,
                is_reverse: true,
                conversation: 0,
                enqueued: Time::ZERO,
            };
            if let Some(ack) = segment {
                filter.show(&packet, *ack);
            }
            line.push(packet);
            if let Some(replaced) = filter.replaced(&mut line) {
                filter.forget(&replaced);
            }
        }
        std::iter::from_fn(|| line.pop()).map(|packet| packet.slot).collect()
    }

    fn both(segments: &[Acknowledgement]) -> [Vec<u32>; 2] {
        let segments: Vec<_> = segments.iter().copied().map(Some).collect();
        [left(false, &segments), left(true, &segments)]
    }

    #[test]
    fn of_plain_acknowledgements_two_stay_and_one_if_aggressive() {
        let run: Vec<_> = (1..=20).map(|step| ack(1000 * step)).collect();
        assert_eq!(both(&run), [vec![18, 19], vec![19]]);
        // Numbers go on past 2³².
        let run: Vec<_> = (0..4u32).map(|step| ack((u32::MAX - 1500).wrapping_add(1000 * step))).collect();
        assert_eq!(both(&run), [vec![2, 3], vec![3]]);
    }

    #[test]
    fn duplicate_acknowledgements_stay_unless_they_sack_more() {
        let same = [ack(1000), ack(1000), ack(1000)];
        assert_eq!(both(&same), [vec![0, 1, 2], vec![0, 1, 2]]);
        let more =
            [sacked(1000, &[[3000, 4000]]), sacked(1000, &[[3000, 5000]]), sacked(1000, &[[3000, 6000]])];
        assert_eq!(both(&more), [vec![1, 2], vec![2]]);
    }

    #[test]
    fn what_only_the_older_one_sacks_is_kept() {
        let moved =
            [sacked(1000, &[[3000, 4000]]), sacked(1000, &[[5000, 7000]]), sacked(2000, &[[5000, 8000]])];
        // The third covers the second alone.
        assert_eq!(both(&moved), [vec![0, 1, 2], vec![0, 2]]);
        // A block below the number reports a duplicate.
        let duplicate = [sacked(1000, &[[500, 900]]), ack(2000), ack(3000), sacked(4000, &[[500, 900]])];
        assert_eq!(both(&duplicate)[1], [0, 3]);
    }

    #[test]
    fn the_end_of_a_run_of_marks_is_kept() {
        let marked = |number| Acknowledgement { flags: ACK | ECE, ..ack(number) };
        let run = [marked(1000), marked(2000), ack(3000), ack(4000), ack(5000)];
        // Of the marked ones the last, of the others as always.
        assert_eq!(both(&run), [vec![1, 3, 4], vec![1, 4]]);
    }

    #[test]
    fn data_and_what_opens_or_closes_is_not_dropped_and_replaces_what_is_before_it() {
        const FIN: u16 = 0x01;
        let data = |number| Acknowledgement { has_payload: true, ..ack(number) };
        let end = |number| Acknowledgement { flags: ACK | FIN, ..ack(number) };
        assert_eq!(
            both(&[data(1000), data(2000), end(3000), end(4000)]),
            [vec![0, 1, 2, 3], vec![0, 1, 2, 3]]
        );
        assert_eq!(both(&[ack(1000), ack(2000), data(3000)]), [vec![1, 2], vec![2]]);
        // A datagram in the same queue is neither dropped nor replaces anything.
        let mixed = [Some(ack(1000)), None, Some(ack(2000)), None, Some(ack(3000))];
        assert_eq!(left(false, &mixed), [1, 2, 3, 4]);
        assert_eq!(left(true, &mixed), [1, 2, 3, 4]);
    }
}
