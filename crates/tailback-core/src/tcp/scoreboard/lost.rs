//! Marks segments as lost, by the rule of the stack.

use super::{LOST, RETRANSMITTED, SACKED, Scoreboard, Sent};
use crate::cc::Loss;
use crate::time::{Duration, Time};

/// Binary search for the first number from `low` to `high` for which `is_after` holds. `is_after` may be false where
/// the answer is unknown; the result is then too high, never too low.
fn lowest_sure(mut low: usize, mut high: usize, is_after: impl Fn(usize) -> bool) -> usize {
    while low < high {
        let middle = low.midpoint(high);
        match is_after(middle) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    high
}

impl Scoreboard {
    pub(super) fn mark_lost(&mut self, number: u64) -> bool {
        let segment = &mut self.segments[(number - self.base) as usize];
        if segment.flags & SACKED != 0 {
            return false;
        }
        let len = u64::from(segment.len);
        let it = &mut *self.disturbed;
        let was_lost = segment.flags & LOST != 0;
        let was_retransmitted = segment.flags & RETRANSMITTED != 0;
        if was_lost && !was_retransmitted {
            return false;
        }
        segment.flags = (segment.flags | LOST) & !RETRANSMITTED;
        self.lost += len;
        if was_retransmitted {
            it.retransmitted -= len;
            it.retransmitted_segments -= 1;
        }
        if !was_lost {
            it.lost += len;
            it.lost_segments += 1;
        }
        match it.to_repair.back().is_none_or(|last| *last < number) {
            true => it.to_repair.push_back(number),
            false => {
                let place = it.to_repair.partition_point(|other| *other < number);
                it.to_repair.insert(place, number);
            }
        }
        if let Some(losses) = &mut self.losses {
            losses.push(Loss { sent: segment.sent, end: segment.end, bytes: len });
        }
        true
    }

    /// Marks the head as lost (NewReno: at entry, and at each partial ACK). Returns the number of segments newly lost.
    pub fn mark_head(&mut self) -> u32 {
        if self.segments.is_empty() {
            return 0;
        }
        u32::from(self.mark_lost(self.base))
    }

    /// Marks every hole below the highest SACKed segment as lost, unless it was retransmitted already (FreeBSD).
    pub fn mark_holes(&mut self) -> u32 {
        self.disturbed.highest_sacked.map_or(0, |highest| self.mark_fresh_below(highest))
    }

    /// As [`Self::mark_holes`], including holes that were retransmitted.
    #[cold]
    pub fn mark_holes_again(&mut self) -> u32 {
        let until = self.disturbed.highest_sacked.unwrap_or(self.base);
        (self.base..until).map(|number| u32::from(self.mark_lost(number))).sum()
    }

    fn mark_fresh_below(&mut self, until: u64) -> u32 {
        let mut marked = 0;
        self.begin_judging();
        while self.disturbed.frontier < until {
            let number = self.disturbed.frontier;
            let flags = self.segments[(number - self.base) as usize].flags;
            if flags & SACKED != 0 {
                self.disturbed.sacked_above_frontier -= 1;
            } else if flags & (LOST | RETRANSMITTED) == 0 {
                marked += u32::from(self.mark_lost(number));
            }
            self.disturbed.frontier += 1;
        }
        marked
    }

    /// Raises the frontier to the head, unless the flight is at rest and has no frontier.
    fn begin_judging(&mut self) {
        if self.disturbed.frontier < self.base && !self.disturbed.is_at_rest() {
            self.disturbed.frontier = self.base;
        }
    }

    /// FACK: segments more than `threshold` segments below the highest SACKed one are lost. A retransmission is lost
    /// once a segment `threshold` segments above the highest offset at its transmission is SACKed.
    pub fn mark_by_fack(&mut self, threshold: u32, mss: u32) -> u32 {
        let Some(highest) = self.disturbed.highest_sacked else { return 0 };
        let until = (highest + 1).saturating_sub(u64::from(threshold)).max(self.base);
        let mut marked = self.mark_fresh_below(until);
        if self.disturbed.retransmitted > 0 {
            let reach = self.segments[(highest - self.base) as usize].end;
            let slack = u64::from(threshold) * u64::from(mss);
            for number in self.base..highest {
                let segment = &self.segments[(number - self.base) as usize];
                if segment.flags & RETRANSMITTED != 0 && segment.high + slack <= reach {
                    marked += u32::from(self.mark_lost(number));
                }
                if self.disturbed.retransmitted == 0 {
                    break;
                }
            }
        }
        marked
    }

    /// RFC 6675 `IsLost`: at least `threshold` SACKed segments are above.
    pub fn mark_by_sacked_above(&mut self, threshold: u32) -> u32 {
        let mut marked = 0;
        self.begin_judging();
        while self.disturbed.sacked_above_frontier >= threshold {
            let number = self.disturbed.frontier;
            let flags = self.segments[(number - self.base) as usize].flags;
            if flags & SACKED != 0 {
                if self.disturbed.sacked_above_frontier == threshold {
                    break;
                }
                self.disturbed.sacked_above_frontier -= 1;
            } else if flags & (LOST | RETRANSMITTED) == 0 {
                marked += u32::from(self.mark_lost(number));
            }
            self.disturbed.frontier += 1;
        }
        marked
    }

    /// RACK: a segment sent before the most recently sent delivered segment, and longer ago than the latest RTT plus
    /// `window`, is lost. Returns the number of segments newly lost, and when the last one that may still be merely
    /// late will be lost (RFC 8985 section 6.2; Linux waits for the last).
    pub fn mark_by_rack(&mut self, now: Time, window: Duration) -> (u32, Option<Time>) {
        let mut marked = 0;
        if self.rack.sent == Time::ZERO && self.rack.end == 0 {
            return (0, None);
        }
        while let Some((number, is_again)) = self.next_unjudged() {
            let segment = &self.segments[(number - self.base) as usize];
            let is_waiting = segment.flags & LOST != 0 && segment.flags & RETRANSMITTED == 0;
            if segment.flags & SACKED != 0 || is_waiting {
                self.judge(is_again);
                if !is_again {
                    self.judge_sacked();
                }
                continue;
            }
            if (segment.sent, segment.end) >= (self.rack.sent, self.rack.end) {
                return (marked, None);
            }
            let due = segment.sent + self.rack.rtt + window;
            if due > now {
                let last = self.last_waiting().unwrap_or(segment.sent);
                return (marked, Some(last + self.rack.rtt + window));
            }
            self.judge(is_again);
            marked += u32::from(self.mark_lost(number));
        }
        (marked, None)
    }

    /// Send time of the latest transmission in flight that precedes the most recently sent delivered one, if there is
    /// one that RACK has not checked. Searches first transmissions backwards, skipping whole SACKed ranges, and
    /// retransmissions in their own log.
    #[cold]
    pub(super) fn last_waiting(&self) -> Option<Time> {
        let limit = (self.rack.sent, self.rack.end);
        let is_waiting = |segment: &Sent| {
            let is_held = segment.flags & (SACKED | LOST) == 0 || segment.flags & RETRANSMITTED != 0;
            is_held && (segment.sent, segment.end) < limit
        };
        let lowest = self.unjudged.saturating_sub(self.base) as usize;
        let mut index = match self.rack.is_again {
            // The time of a retransmission does not show when the segment was first sent.
            true => lowest_sure(lowest, self.segments.len(), |index| {
                let segment = &self.segments[index];
                segment.transmissions == 1 && segment.sent > limit.0
            }),
            false => self.segments.partition_point(|segment| segment.end < self.rack.end),
        };
        let mut ranges = self.disturbed.known.iter().rev().peekable();
        let mut first = None;
        while index > lowest {
            let segment = &self.segments[index - 1];
            if segment.transmissions == 1 && is_waiting(segment) {
                first = Some(segment.sent);
                break;
            }
            while ranges.next_if(|range| range.start >= segment.end).is_some() {}
            index = match ranges.peek().filter(|range| range.end >= segment.end) {
                Some(range) => self.segments.partition_point(|segment| segment.end <= range.start),
                None => index - 1,
            };
        }
        let again = &self.disturbed.again;
        // A log entry is obsolete if its segment was retransmitted again or is acknowledged; only later entries show
        // that.
        let held = |&(number, order): &(u64, u64)| {
            let segment = self.segments.get(number.checked_sub(self.base)? as usize)?;
            (segment.order == order).then_some(segment)
        };
        let until = lowest_sure(0, again.len(), |index| {
            held(&again[index]).is_some_and(|segment| segment.sent > limit.0)
        });
        let repeated = again.range(..until).rev().filter_map(held).find(|segment| is_waiting(segment));
        first.max(repeated.map(|segment| segment.sent))
    }

    /// The earliest transmission in flight that RACK has not checked: its segment, and whether it is a retransmission.
    /// First transmissions are in order of segment number, retransmissions in order of `again`; the earlier of the two
    /// heads is next.
    #[inline]
    pub(super) fn next_unjudged(&mut self) -> Option<(u64, bool)> {
        self.unjudged = self.unjudged.max(self.base);
        let mut first = None;
        while let Some(segment) = self.segments.get((self.unjudged - self.base) as usize) {
            if segment.transmissions == 1 {
                first = Some(segment.order);
                break;
            }
            // A later transmission has superseded the first one.
            self.unjudged += 1;
        }
        if self.disturbed.is_at_rest() {
            return first.map(|_| (self.unjudged, false));
        }
        let again = &mut self.disturbed.again;
        while let Some(&(number, order)) = again.front() {
            if first.is_some_and(|first| first < order) {
                break;
            }
            if number >= self.base && self.segments[(number - self.base) as usize].order == order {
                return Some((number, true));
            }
            again.pop_front();
        }
        first.map(|_| (self.unjudged, false))
    }

    /// Skips the SACKed segment and all SACKed segments that directly follow it.
    #[inline(always)]
    fn judge_sacked(&mut self) {
        let until = self.disturbed.again.front().map_or(u64::MAX, |&(_, order)| order);
        let from = (self.unjudged - self.base) as usize;
        let is_judged = |s: &&Sent| s.transmissions > 1 || s.flags & SACKED != 0 && s.order < until;
        self.unjudged += self.segments.range(from..).take_while(is_judged).count() as u64;
    }

    #[inline]
    fn judge(&mut self, is_again: bool) {
        if is_again {
            self.disturbed.again.pop_front();
        } else {
            self.unjudged += 1;
        }
    }

    /// Retransmission timeout: everything not SACKed is lost. `forget_sacks`: also discards SACKs, because the receiver
    /// may have reneged.
    pub fn mark_all(&mut self, forget_sacks: bool) -> u32 {
        if forget_sacks {
            for segment in &mut self.segments {
                segment.flags &= !SACKED;
            }
            self.disturbed.sacked = 0;
            self.disturbed.sacked_segments = 0;
            self.disturbed.known.clear();
            self.disturbed.heard = Default::default();
            self.disturbed.highest_sacked = None;
            // Later SACKs judge the holes from the beginning.
            self.disturbed.frontier = self.base;
            self.disturbed.sacked_above_frontier = 0;
        }
        let mut marked = 0;
        for number in self.base..self.base + self.segments.len() as u64 {
            marked += u32::from(self.mark_lost(number));
        }
        marked
    }

    /// Retransmission timeout with RACK: the head is lost, as is every segment without SACK that was sent longer ago
    /// than the RTT of the latest delivery (Linux `tcp_timeout_mark_lost`).
    pub fn mark_stale(&mut self, now: Time) -> u32 {
        let mut marked = 0;
        for number in self.base..self.base + self.segments.len() as u64 {
            let sent = self.segments[(number - self.base) as usize].sent;
            if number == self.base || sent + self.rack.rtt <= now {
                marked += u32::from(self.mark_lost(number));
            }
        }
        marked
    }

    /// RFC 6675 NextSeg rule 3: the lowest segment below the highest SACKed one that is neither SACKed, nor
    /// lost, nor retransmitted.
    pub fn first_unrepaired_hole(&self) -> Option<u64> {
        let highest = self.disturbed.highest_sacked?;
        (self.base..highest).find(|number| {
            let segment = &self.segments[(number - self.base) as usize];
            segment.flags & (SACKED | LOST | RETRANSMITTED) == 0 && segment.transmissions == 1
        })
    }

    /// RFC 6675 NextSeg rule 4: the highest segment that is not SACKed.
    pub fn highest_unsacked(&self) -> Option<u64> {
        let unsacked = |segment: &Sent| segment.flags & (SACKED | LOST | RETRANSMITTED) == 0;
        self.segments.iter().rposition(unsacked).map(|index| self.base + index as u64)
    }

    /// A reduction was undone: segments marked lost and not retransmitted are in flight after all. Holes are checked
    /// again (Linux `tcp_clear_all_retrans_hints`); otherwise real losses would wait for a timeout. RACK's log
    /// continues, because Linux returns a marked segment to its list only when it is sent again.
    pub fn unmark(&mut self) {
        self.disturbed.frontier = self.base;
        self.disturbed.sacked_above_frontier = self.disturbed.sacked_segments;
        for segment in &mut self.segments {
            if segment.flags & LOST != 0 {
                segment.flags &= !LOST;
                self.disturbed.lost -= u64::from(segment.len);
                self.disturbed.lost_segments -= 1;
            }
        }
        self.disturbed.to_repair.clear();
    }
}
