//! SEARCH: slow start ends when what is delivered falls behind what was sent a round trip before.
//!
//! Source: draft-chung-ccwg-search-09, in the formulas of its implementation in neqo (`search.rs`) and, for the reasons,
//! the draft's text of version 3.0. In slow start the bytes delivered in a window of 3.5 initial RTTs are those sent in
//! the same window one RTT earlier; once the link is full they are fewer.
//! Differs from the source: cwnd is left where it is at the exit, as in version 09; 3.0 takes back two RTTs of growth.

use crate::cc::{Ack, Control};
use crate::time::{Bytes, Duration, Time};

/// Bins of a window.
const BINS: usize = 10;
/// The window is 3.5 initial RTTs, so a bin is 35 hundredths of one.
const BIN_PERCENT: u64 = 35;
/// Bins kept beside, so that one may look back by an RTT that has grown.
const EXTRA: usize = 15;
/// All of them, and the one that begins the oldest window.
const KEPT: usize = BINS + 1 + EXTRA;
/// By more than 26 of 100 the delivered bytes fall short.
const SHORT_PERCENT: u64 = 26;

/// One connection's bins: bytes delivered and sent until the end of each, counted from the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    delivered: [Bytes; KEPT],
    sent: [Bytes; KEPT],
    /// Number of the latest bin.
    latest: usize,
    /// Zero before the first RTT.
    span: Duration,
    ends: Time,
    is_over: bool,
}

impl Search {
    /// Judge this ACK. Returns true if slow start ended now; ssthresh is then cwnd.
    pub fn ends_slow_start(&mut self, ack: &Ack, control: &mut Control) -> bool {
        if self.is_over || !ack.in_slow_start {
            return false;
        }
        self.is_over = self.has_found(ack);
        if self.is_over {
            control.ssthresh = control.cwnd;
        }
        self.is_over
    }

    fn has_found(&mut self, ack: &Ack) -> bool {
        let Some(rtt) = ack.rtt else { return false };
        if self.span.is_zero() {
            self.begin(rtt, ack);
        }
        if ack.now <= self.ends || !self.advance(ack) {
            return false;
        }
        let back = (rtt.as_ps() / self.span.as_ps()) as usize;
        // A whole window, one bin before it for the part of a bin, and all of it still kept.
        if self.latest <= BINS + back || back >= EXTRA {
            return false;
        }
        let before = self.latest - back;
        let now = self.delivered[self.latest % KEPT] - self.delivered[(self.latest - BINS) % KEPT];
        let sent = |end: usize| self.sent[end % KEPT] - self.sent[(end - BINS) % KEPT];
        // An RTT is no whole number of bins: in between by parts.
        let part = rtt.as_ps() % self.span.as_ps();
        let rest = self.span.as_ps() - part;
        let weigh = |bytes: Bytes, weight: u64| u128::from(bytes) * u128::from(weight);
        let expected =
            (weigh(sent(before), rest) + weigh(sent(before - 1), part)) / u128::from(self.span.as_ps());
        let short = expected.saturating_sub(u128::from(now));
        expected > 0 && short * 100 >= expected * u128::from(SHORT_PERCENT)
    }

    fn begin(&mut self, rtt: Duration, ack: &Ack) {
        *self = Search { span: rtt * BIN_PERCENT / 100, ..Search::default() };
        self.ends = ack.now + self.span;
        self.keep(ack);
    }

    fn keep(&mut self, ack: &Ack) {
        self.delivered[self.latest % KEPT] = ack.delivered;
        self.sent[self.latest % KEPT] = ack.snd_nxt;
    }

    /// Moves on by the bins that have passed. False if more than `BINS` have: begin again with the next ACK.
    fn advance(&mut self, ack: &Ack) -> bool {
        let passed = (ack.now.since(self.ends).as_ps() / self.span.as_ps()) as usize + 1;
        if passed > BINS {
            self.span = Duration::ZERO;
            return false;
        }
        let known = self.latest;
        for bin in known + 1..known + passed {
            self.delivered[bin % KEPT] = self.delivered[known % KEPT];
            self.sent[bin % KEPT] = self.sent[known % KEPT];
        }
        self.latest += passed;
        self.ends += self.span * passed as u64;
        self.keep(ack);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Counting;
    use crate::cc::fixture::Lab;

    /// Slow start over a link of `rate` segments a millisecond with an RTT of 100 ms and a queue without end. Returns the
    /// window at the exit, in segments, and the time since the start in ms; none within `most` ms.
    fn exit(rate: u64, most: u64) -> Option<(u64, u64)> {
        let mut lab = Lab::new(10, Counting::PerSegment);
        let mut search = Search::default();
        // When the ACK of each segment that is out arrives: sent in order, served one after the other.
        let mut due = std::collections::VecDeque::new();
        let start = lab.now;
        let mut free = lab.now;
        let base = Duration::from_ms(100);
        let service = Duration::from_us(1000 / rate);
        let send = |free: &mut Time, now: Time| {
            *free = (*free).max(now) + service;
            (*free + base, now)
        };
        for _ in 0..10 {
            due.push_back(send(&mut free, start));
        }
        lab.snd_nxt = 10_000;
        while let Some((at, sent)) = due.pop_front() {
            (lab.now, lab.rtt) = (at, at.since(sent));
            if at.since(start) > Duration::from_ms(most) {
                return None;
            }
            let nxt = lab.snd_nxt;
            let ack = lab.ack(1);
            // What the ACK lets leave is not out yet.
            if search.has_found(&Ack { snd_nxt: nxt, ..ack }) {
                return Some((lab.window(), at.since(start).as_us() / 1000));
            }
            lab.control.cwnd += 1000;
            for _ in 0..2 {
                due.push_back(send(&mut free, at));
            }
            lab.snd_nxt = nxt + 2000;
        }
        None
    }

    #[test]
    fn it_ends_when_a_quarter_of_what_was_sent_is_still_queued() {
        // 8 segments a ms times 100 ms: the link is full at 800 segments, 10·2^k with k = 6.3, 730 ms after the start. From
        // then on, u ms later, what is acknowledged was sent s = (u − 100)/2 after that instant, at twice the link's rate C,
        // and before it at twice C·2^(s/100). At u = 350 the window of 350 ms holds 350·C delivered and 477·C sent: 0.27
        // too little. Bins of 35 ms and bursts of a round trip blur that, by 135 ms at most.
        let (window, ms) = exit(8, 5_000).expect("it ends");
        assert!(window > 800, "not before the link is full: {window}");
        assert!((1_080..1_215).contains(&ms), "{ms} ms");
    }

    #[test]
    fn a_link_that_is_never_full_never_ends_it() {
        assert_eq!(exit(1000, 1_100), None);
    }

    #[test]
    fn a_pause_of_a_window_begins_again() {
        let mut lab = Lab::new(10, Counting::PerSegment);
        let mut search = Search::default();
        for _ in 0..100 {
            lab.now += Duration::from_ms(40);
            let ack = lab.ack(1);
            search.has_found(&ack);
        }
        assert!(search.latest > BINS);
        lab.now += Duration::from_ms(40 * 20);
        let ack = lab.ack(1);
        assert!(!search.has_found(&ack));
        assert!(search.span.is_zero());
    }
}
