//! What is in a kernel's queue, as far as those know who put it in and see what comes out; and the rules that a queue of
//! the user's own keeps.

use std::collections::{BTreeMap, VecDeque};

use tailback_core::time::{Duration, Time};

/// Flow, direction and connection; of some disciplines also whether the packet is of L4S (ECT(1) or CE).
pub(super) type Line = (u32, bool, u16, bool);

/// A packet that the kernel took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) number: u16,
    pub(super) slot: u32,
    /// What keeps its order in any discipline.
    pub(super) line: Line,
    /// Marked before.
    pub(super) is_marked: bool,
    /// When it went in.
    pub(super) since: Time,
}

/// Which packets leave in the order they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// The packets of one line do.
    #[default]
    Line,
    /// The packets of all lines do.
    All,
    /// None do: what a later one of its line has overtaken may still come.
    Free,
}

#[derive(Debug, Default)]
pub(super) struct Inside {
    order: Order,
    waiting: VecDeque<Waiting>,
    /// Numbers of those that are treated as dropped, because a later one of their line came out.
    given_up: BTreeMap<u16, Line>,
    /// When the first packet went in since the last one came out.
    asked: Option<Time>,
    /// The first that came out of its turn, and when.
    overtaken: Option<(u16, Line, Time)>,
}

impl Inside {
    /// With packets in it and a free wire, a queue gives one within this. One that reorders gives a packet at most so much
    /// later than those of its line that came after it.
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

    /// The packet of this number, which came out at `at`, and the slots of those that should have come out before it;
    /// `None` if it never went in, or was given up.
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
        // Those before it have no other way to come out, or had time enough.
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

    /// The rule of order, if it was broken.
    pub(super) fn out_of_order(&self) -> Option<String> {
        let (number, line, at) = self.overtaken?;
        Some(sentence(number, line, at, "it came out after a later packet of its connection"))
    }

    /// The rule that a queue gives what it holds, if `held` packets are in it at `end`, the wire is free since `free`, and
    /// none came out for too long.
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

    /// Packets 0 to 3, of two lines in turn, in slots of ten times the number.
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
        // Another line's packet may overtake.
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
        // Two seconds are not too long.
        assert_eq!(inside.came_out(4, seconds(4)).map(|(_, lost)| lost), Some(vec![]));
        assert_eq!(inside.came_out(5, seconds(4)).map(|(_, lost)| lost), Some(vec![10, 30]));
    }

    #[test]
    fn a_queue_that_holds_packets_beside_a_free_wire_is_stuck() {
        let mut inside = filled();
        let said = inside.stuck(seconds(2), seconds(5), 4).unwrap();
        assert!(said.starts_with("at 2.000000 s, packet 0 (flow 0): dequeue returned nothing"), "{said}");
        // It holds none: the drops at its end have no sign yet.
        assert_eq!(inside.stuck(seconds(2), seconds(5), 0), None);
        // The wire became free just now.
        assert_eq!(inside.stuck(seconds(4), seconds(5), 4), None);
        // What it holds may have come in just now.
        inside.came_out(1, seconds(2));
        let line = (0, false, 0, false);
        inside.went_in(Waiting { number: 4, slot: 40, line, is_marked: false, since: seconds(4) });
        assert_eq!(inside.stuck(seconds(2), seconds(5), 1), None);
    }
}
