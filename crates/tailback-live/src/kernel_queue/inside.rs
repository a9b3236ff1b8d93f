//! Contents of a kernel queue, inferred from what entered and what left; and the rules that a user's queue must keep.

use std::collections::{BTreeMap, VecDeque};

use tailback_core::time::{Duration, Time};

/// Flow, direction and connection; for some disciplines also whether the packet is L4S (ECT(1) or CE).
pub(super) type Line = (u32, bool, u16, bool);

/// A packet that the kernel accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) number: u16,
    pub(super) slot: u32,
    /// Packets of the same line leave in order in any discipline.
    pub(super) line: Line,
    /// Whether it entered marked.
    pub(super) is_marked: bool,
    /// When it entered.
    pub(super) since: Time,
}

/// Which packets leave in their order of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// Packets of the same line.
    #[default]
    Line,
    /// All packets of the queue.
    All,
    /// None: a packet may still leave after a later packet of its line.
    Free,
}

#[derive(Debug, Default)]
pub(super) struct Inside {
    order: Order,
    waiting: VecDeque<Waiting>,
    /// Numbers of packets counted as dropped because a later packet of their line left.
    given_up: BTreeMap<u16, Line>,
    /// When the first packet entered since the last one left.
    asked: Option<Time>,
    /// The first packet that left out of order, and when.
    overtaken: Option<(u16, Line, Time)>,
}

impl Inside {
    /// A queue with packets and a free link must release one within this time. A queue that reorders may release a
    /// packet at most this much later than packets of its line that arrived after it.
    const PATIENCE: Duration = Duration::from_ps(2_000_000_000_000);

    pub(super) fn new(order: Order) -> Self {
        Inside { order, ..Inside::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn went_in(&mut self, packet: Waiting) {
        self.given_up.remove(&packet.number);
        self.asked.get_or_insert(packet.since);
        self.waiting.push_back(packet);
    }

    /// Removes packet `number`, which left at `at`; returns it with the slots of packets that should have left before
    /// it. `None` if it never entered or was already counted as dropped.
    pub(super) fn came_out(&mut self, number: u16, at: Time) -> Option<(Waiting, Vec<u32>)> {
        self.asked = None;
        let Some(place) = self.waiting.iter().position(|it| it.number == number) else {
            if let Some(line) = self.given_up.remove(&number) {
                self.overtaken.get_or_insert((number, line, at));
            }
            return None;
        };
        let out = self.waiting.remove(place)?;
        let mut lost = Vec::new();
        let mut next = 0;
        // Earlier packets that can no longer leave, or have had enough time to.
        let mut before = place;
        while next < before {
            let it = self.waiting[next];
            let is_lost = match self.order {
                Order::All => true,
                Order::Line => it.line == out.line,
                Order::Free => it.line == out.line && it.since + Self::PATIENCE < out.since,
            };
            if is_lost {
                if let Some(it) = self.waiting.remove(next) {
                    lost.push(it.slot);
                    self.given_up.insert(it.number, it.line);
                }
                before -= 1;
            } else {
                next += 1;
            }
        }
        Some((out, lost))
    }

    /// The violation of the order rule, if any.
    pub(super) fn out_of_order(&self) -> Option<String> {
        let (number, line, at) = self.overtaken?;
        Some(sentence(number, line, at, "it came out after a later packet of its connection"))
    }

    /// The violation of the rule that a queue releases what it holds: `held` packets are in it at `end`, the link has
    /// been free since `free`, and none left for too long.
    pub(super) fn stuck(&self, free: Time, end: Time, held: u32) -> Option<String> {
        let oldest = self.waiting.front().filter(|_| held > 0)?;
        let since = self.asked.map_or(free, |asked| asked.max(free));
        let rule = format!(
            "dequeue returned nothing from then to the end, with sch->q.qlen = {held} and a free wire"
        );
        (since + Self::PATIENCE < end).then(|| sentence(oldest.number, oldest.line, since, &rule))
    }
}

fn sentence(number: u16, (flow, is_reverse, ..): Line, at: Time, rule: &str) -> String {
    let way = if is_reverse { ", on the way back" } else { "" };
    format!("at {:.6} s, packet {number} (flow {flow}{way}): {rule}", at.as_ps() as f64 / 1e12)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Time {
        Time::from_ps(count * 1_000_000_000_000)
    }

    /// Packets 0 to 3, alternately of two lines; a packet's slot is ten times its number.
    fn filled() -> Inside {
        let mut inside = Inside::default();
        for number in 0..4 {
            let line = (u32::from(number % 2), false, 0, false);
            let slot = u32::from(number) * 10;
            inside.went_in(Waiting { number, slot, line, is_marked: false, since: seconds(1) });
        }
        inside
    }

    #[test]
    fn what_comes_after_a_later_packet_of_its_line_breaks_the_rule_of_order() {
        let mut inside = filled();
        // A packet of another line may overtake.
        assert_eq!(inside.came_out(1, seconds(2)).map(|(_, lost)| lost), Some(vec![]));
        assert_eq!(inside.came_out(2, seconds(3)).map(|(_, lost)| lost), Some(vec![0]));
        assert_eq!(inside.out_of_order(), None);
        assert!(inside.came_out(9, seconds(4)).is_none());
        assert_eq!(inside.out_of_order(), None);
        assert!(inside.came_out(0, seconds(5)).is_none());
        let said = inside.out_of_order().unwrap();
        assert!(said.starts_with("at 5.000000 s, packet 0 (flow 0): it came out after"), "{said}");
    }

    #[test]
    fn of_a_queue_that_reorders_a_packet_is_lost_once_much_later_ones_came_out() {
        let mut inside = Inside { order: Order::Free, ..filled() };
        assert_eq!(inside.came_out(2, seconds(2)).map(|(_, lost)| lost), Some(vec![]));
        assert_eq!(inside.came_out(0, seconds(2)).map(|(_, lost)| lost), Some(vec![]));
        let line = (1, false, 0, false);
        for (number, since) in [(4, seconds(3)), (5, seconds(3) + Duration::from_ps(1))] {
            inside.went_in(Waiting { number, slot: 0, line, is_marked: false, since });
        }
        // Two seconds are still allowed.
        assert_eq!(inside.came_out(4, seconds(4)).map(|(_, lost)| lost), Some(vec![]));
        assert_eq!(inside.came_out(5, seconds(4)).map(|(_, lost)| lost), Some(vec![10, 30]));
    }

    #[test]
    fn a_queue_that_holds_packets_beside_a_free_wire_is_stuck() {
        let mut inside = filled();
        let said = inside.stuck(seconds(2), seconds(5), 4).unwrap();
        assert!(said.starts_with("at 2.000000 s, packet 0 (flow 0): dequeue returned nothing"), "{said}");
        // The kernel holds none: the drops at the end have not been noticed.
        assert_eq!(inside.stuck(seconds(2), seconds(5), 0), None);
        // The link has only just become free.
        assert_eq!(inside.stuck(seconds(4), seconds(5), 4), None);
        // The packets may have only just arrived.
        inside.came_out(1, seconds(2));
        let line = (0, false, 0, false);
        inside.went_in(Waiting { number: 4, slot: 40, line, is_marked: false, since: seconds(4) });
        assert_eq!(inside.stuck(seconds(2), seconds(5), 1), None);
    }
}
