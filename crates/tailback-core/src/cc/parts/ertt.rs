//! RTTs as FreeBSD's helper `h_ertt` takes them for `cc_vegas` and `cc_cdg`: whole units of the host's clock.
//!
//! A segment carries the reading of its sending, and its ACK finds another one; the helper adds one to their difference.
//! One segment a round trip is marked: the first sent after the ACK of the last one marked, or the last one that
//! its ACK covers.
//! Source: h_ertt.c of early 2012 and of 9.3. The unit: TCP's timestamps counted ticks of kern.hz until February 2012
//! and count milliseconds since (`tcp_ts_getticks`), in both cases read off a clock that moves once a tick.
//!
//! Differs from the source: segments sent more than once are not timed.

use crate::cc::Ack;
use crate::params::{ParamSpec, ms, us};
use crate::time::Duration;

/// ACKs of several segments that make it sure of delayed ACKs (DLYACK_SMOOTH).
const DELACKS: u8 = 5;

/// The parameter that algorithms with this helper share.
pub const UNIT: ParamSpec = ParamSpec::time(
    "tick",
    ms(1),
    (us(10), ms(100)),
    "Unit of RTTs (freebsd): 1 ms since 2012; before, a tick of kern.hz.",
);

/// The helper's state of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ertt {
    unit: Duration,
    /// The latest sample in units; zero before the first.
    pub latest: u32,
    /// The smallest sample in units; zero before the first.
    pub least: u32,
    /// How sure it is that the receiver delays ACKs, 0 to [`DELACKS`].
    delayed: u8,
    /// The marked segment begins here.
    end: u64,
}

impl Ertt {
    /// `unit`: see [`UNIT`].
    pub fn new(unit: Duration) -> Self {
        Ertt { unit, latest: 0, least: 0, delayed: 0, end: 0 }
    }

    /// Milliseconds of a unit.
    pub fn unit_ms(&self) -> f64 {
        self.unit.as_ps() as f64 / 1e9
    }

    /// Take an ACK, before anything else is asked about it. An ACK of one segment may have been delayed, if ACKs
    /// of several were seen lately: it gives no sample.
    pub fn sample(&mut self, ack: &Ack) {
        let mss = u64::from(ack.mss);
        let is_sack = ack.delivered_segments > ack.newly_acked_segments;
        let is_several = ack.newly_acked > mss;
        if is_several && !is_sack {
            self.delayed = (self.delayed + 1).min(DELACKS);
        } else if ack.newly_acked == mss && !is_sack {
            self.delayed = self.delayed.saturating_sub(1);
        }
        if self.delayed > 0 && !is_several && !is_sack {
            return;
        }
        if let Some(rtt) = ack.rtt_read {
            self.latest = self.in_units(rtt);
            self.least = if self.least == 0 { self.latest } else { self.least.min(self.latest) };
        }
    }

    /// The marked segment is acknowledged: its RTT in units, delayed ACK or not. The next one sent is marked.
    pub fn marked(&mut self, ack: &Ack) -> Option<u32> {
        if ack.snd_una <= self.end {
            return None;
        }
        self.end = ack.snd_nxt;
        ack.rtt_read.map(|rtt| self.in_units(rtt))
    }

    fn in_units(&self, rtt: Duration) -> u32 {
        (rtt.as_ps() / self.unit.as_ps()) as u32 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Counting;
    use crate::cc::fixture::Lab;

    #[test]
    fn no_rtt_is_learnt_from_acks_that_may_be_delayed() {
        let mut ertt = Ertt::new(ms(1));
        let mut lab = Lab::avoiding(20, Counting::Bytes { limit: 2 });
        // Two pairs at 100 ms; then two single ACKs, of which the second is trusted again.
        for (segments, rtt_ms, least) in [(2, 100, 101), (2, 100, 101), (1, 60, 101), (1, 60, 61)] {
            lab.rtt = Duration::from_ms(rtt_ms);
            let ack = lab.ack(segments);
            ertt.sample(&ack);
            assert_eq!(ertt.least, least);
        }
    }

    #[test]
    fn a_short_rtt_reads_one_or_two_ticks_or_else_one_or_eleven_milliseconds() {
        // A tick of 10 ms began in between, or none did, whatever the span.
        for (read_ms, unit_ms, reads) in [(0, 10, 1), (10, 10, 2), (0, 1, 1), (10, 1, 11)] {
            let mut ertt = Ertt::new(ms(unit_ms));
            let mut lab = Lab::avoiding(20, Counting::Bytes { limit: 2 });
            let ack = Ack { rtt_read: Some(Duration::from_ms(read_ms)), ..lab.ack(2) };
            ertt.sample(&ack);
            assert_eq!((ertt.latest, ertt.marked(&ack)), (reads, Some(reads)));
            // Nothing sent since is acknowledged yet.
            let ack = lab.ack(1);
            assert_eq!(ertt.marked(&ack), None);
        }
    }
}
