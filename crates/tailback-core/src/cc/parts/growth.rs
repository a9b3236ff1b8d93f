//! Slow start and additive increase, as each kind of stack counts ACKs.
//!
//! Sources: Linux 2.6.25 `tcp_reno_cong_avoid` ([`Counting::PerAck`]), Linux since 3.18
//! ([`Counting::PerSegment`]), FreeBSD 7 ([`Counting::PerAckBytes`]), RFC 3465 as in FreeBSD 8 and 9
//! ([`Counting::Bytes`]); limited slow start from RFC 3742.

use crate::cc::{Ack, Control, Counting};

/// The credit an algorithm collects towards its next window step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Growth {
    /// ACKs, segments or bytes, whatever the stack counts.
    credit: u32,
}

impl Growth {
    /// Reno's whole rule: slow start, and what it leaves goes into congestion avoidance.
    pub fn reno(&mut self, ack: &Ack, control: &mut Control) {
        let mut segments = credit(ack);
        if ack.in_slow_start {
            segments = self.slow_start(ack, control);
            if segments == 0 {
                return;
            }
        }
        self.avoid(ack, control, segments);
    }

    /// One ACK's worth of slow start. Returns the segments it did not use because ssthresh was reached; only
    /// [`Counting::PerSegment`] hands any on.
    pub fn slow_start(&mut self, ack: &Ack, control: &mut Control) -> u64 {
        let mss = u64::from(control.mss);
        match ack.counting {
            Counting::PerAck | Counting::PerAckBytes => {
                control.cwnd += mss;
                0
            }
            Counting::PerSegment => {
                let acked = credit(ack);
                let room = control.ssthresh.saturating_sub(control.cwnd).div_ceil(mss);
                let used = acked.min(room);
                control.cwnd += used * mss;
                acked - used
            }
            Counting::Bytes { limit } => {
                control.cwnd += ack.newly_acked.min(u64::from(limit) * mss);
                0
            }
        }
    }

    /// RFC 3742: above `max_ssthresh` segments, at most max_ssthresh/2 segments a round trip. Below it, and
    /// with `max_ssthresh` zero, ordinary slow start.
    pub fn limited_slow_start(&mut self, ack: &Ack, control: &mut Control, max_ssthresh: u64) -> u64 {
        let window = control.cwnd_segments();
        if max_ssthresh == 0 || window <= max_ssthresh {
            return self.slow_start(ack, control);
        }
        // K = ⌊cwnd/(max_ssthresh/2)⌋, and mss/K a segment: one step every K segments.
        let needed = (window / (max_ssthresh / 2).max(1)).max(1);
        self.credit += credit(ack) as u32;
        let steps = u64::from(self.credit) / needed;
        self.credit -= (steps * needed) as u32;
        control.cwnd += steps * u64::from(control.mss);
        0
    }

    /// Reno's congestion avoidance: one segment a window.
    pub fn avoid(&mut self, ack: &Ack, control: &mut Control, segments: u64) {
        let mss = u64::from(control.mss);
        match ack.counting {
            Counting::PerAckBytes => control.cwnd += (mss * mss / control.cwnd).max(1),
            Counting::Bytes { .. } => {
                self.credit += ack.newly_acked as u32;
                if u64::from(self.credit) >= control.cwnd {
                    self.credit -= control.cwnd as u32;
                    control.cwnd += mss;
                }
            }
            _ => self.additive(ack, control, control.cwnd_segments(), segments),
        }
    }

    /// One segment of window for every `needed` segments of credit (at least one). Byte-counting stacks count
    /// `needed` full segments.
    pub fn additive(&mut self, ack: &Ack, control: &mut Control, needed: u64, segments: u64) {
        let mss = u64::from(control.mss);
        let needed = needed.max(1);
        match ack.counting {
            // The ACK that raises the window is not itself counted: needed + 1 ACKs a step.
            Counting::PerAck => {
                if u64::from(self.credit) >= needed {
                    self.credit = 0;
                    control.cwnd += mss;
                } else {
                    self.credit += 1;
                }
            }
            Counting::PerSegment => {
                // Credit from a time when more was needed is worth one step, not several.
                if u64::from(self.credit) >= needed {
                    self.credit = 0;
                    control.cwnd += mss;
                }
                self.credit += segments as u32;
                let steps = u64::from(self.credit) / needed;
                self.credit -= (steps * needed) as u32;
                control.cwnd += steps * mss;
            }
            Counting::PerAckBytes => control.cwnd += (mss / needed).max(1),
            Counting::Bytes { .. } => {
                self.credit += ack.newly_acked as u32;
                let price = needed * mss;
                let steps = u64::from(self.credit) / price;
                self.credit -= (steps * price) as u32;
                control.cwnd += steps * mss;
            }
        }
    }

    /// Was the credit for `needed` segments complete before this ACK's `segments`? Then it is spent, and these are not
    /// counted (Linux `tcp_veno`).
    pub fn is_due(&mut self, needed: u64, segments: u64) -> bool {
        let is_due = u64::from(self.credit) >= needed;
        self.credit = if is_due { 0 } else { self.credit + segments as u32 };
        is_due
    }

    /// Forget the credit (a timeout).
    pub fn clear(&mut self) {
        self.credit = 0;
    }
}

/// Segments this ACK is worth: what it newly delivered, so that an ACK ending recovery, which covers a whole
/// window already counted by SACK, does not raise the window by all of it.
pub fn credit(ack: &Ack) -> u64 {
    match ack.counting {
        Counting::PerAck | Counting::PerAckBytes => 1,
        Counting::PerSegment => u64::from(ack.delivered_segments),
        Counting::Bytes { .. } => ack.newly_acked.div_ceil(u64::from(ack.mss)),
    }
}

/// Fractions of a segment, kept back until they make a whole one: the window moves in whole segments.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Fraction {
    segments: f64,
}

impl Fraction {
    /// Move cwnd by `segments` (up or down), whole segments now, the rest later; never below `floor` segments.
    pub fn add(&mut self, control: &mut Control, segments: f64, floor: u64) {
        let mss = u64::from(control.mss);
        self.segments += segments;
        if self.segments >= 1.0 {
            let steps = self.segments as u64;
            self.segments -= steps as f64;
            control.cwnd += steps * mss;
        } else if self.segments <= -1.0 {
            let steps = -self.segments as u64;
            self.segments += steps as f64;
            control.cwnd = control.cwnd.saturating_sub(steps * mss).max(floor * mss);
        }
    }
    /// What is kept back, in segments.
    pub fn held(&self) -> f64 {
        self.segments
    }
    /// Forget the fraction (the window was set by someone else).
    pub fn clear(&mut self) {
        self.segments = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::fixture::{Lab, MSS, build};
    use crate::cc::reno::Reno;
    use crate::cc::{CongestionControl, Counting, Signal};

    fn reno() -> Reno {
        build(&[])
    }

    #[test]
    fn per_ack_counting_slow_starts_through_equality() {
        let mut lab = Lab::new(2, Counting::PerAck);
        lab.control.ssthresh = 16 * u64::from(MSS);
        assert_eq!(lab.windows(&mut reno(), 11), [2, 4, 8, 16, 17, 18, 19, 20, 21, 22, 23]);
    }

    #[test]
    fn per_ack_counting_halves_the_slope_under_delayed_acks() {
        let mut lab = Lab::new(2, Counting::PerAck);
        lab.control.ssthresh = 16 * u64::from(MSS);
        lab.per_ack = 2;
        let expected = [2, 3, 4, 6, 9, 13, 17, 17, 18, 18, 18, 19, 19, 20, 20];
        assert_eq!(lab.windows(&mut reno(), 15), expected);
    }

    #[test]
    fn per_ack_counting_does_not_count_the_ack_that_raises() {
        let mut lab = Lab::avoiding(20, Counting::PerAck);
        assert_eq!(lab.windows(&mut reno(), 11), [20, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29]);
        let mut lab = Lab::avoiding(20, Counting::PerAck);
        lab.per_ack = 2;
        let expected = [20, 20, 20, 21, 21, 22, 22, 23, 23, 24, 24, 25];
        assert_eq!(lab.windows(&mut reno(), 12), expected);
    }

    #[test]
    fn per_segment_counting_passes_the_rest_on() {
        let mut lab = Lab::new(10, Counting::PerSegment);
        lab.control.ssthresh = 64 * u64::from(MSS);
        assert_eq!(lab.windows(&mut reno(), 9), [10, 20, 40, 64, 65, 66, 67, 68, 69]);
        // One ACK for 8 segments with room for 3: five go into avoidance's credit.
        let mut lab = Lab::new(61, Counting::PerSegment);
        lab.control.ssthresh = 64 * u64::from(MSS);
        let mut growth = Growth::default();
        let ack = lab.ack(8);
        growth.reno(&ack, &mut lab.control);
        assert_eq!((lab.window(), growth.credit), (64, 5));
    }

    #[test]
    fn per_segment_counting_ignores_delayed_acks() {
        let mut lab = Lab::avoiding(20, Counting::PerSegment);
        lab.per_ack = 2;
        // ⌊w/2⌋ ACKs leave an odd window's last segment for the next round: just under one a round trip.
        assert_eq!(lab.windows(&mut reno(), 41)[40], 59);
    }

    #[test]
    fn freebsd_7_grows_in_bytes_per_ack() {
        let mss = 1448_u64;
        let mut lab = Lab::new(10, Counting::PerAckBytes);
        lab.control.mss = 1448;
        lab.control.cwnd = 10 * mss;
        lab.control.ssthresh = 2 * mss;
        let mut reno = reno();
        // In thousandths of a segment, from the reference's sequence.
        for expected in [10_000, 10_955, 11_834, 12_729, 13_637, 14_557, 15_486, 16_423, 17_365] {
            assert_eq!((lab.control.cwnd * 1000 + mss / 2) / mss, expected);
            lab.round(&mut reno);
        }
    }

    #[test]
    fn byte_counting_takes_at_most_the_limit_per_ack_in_slow_start() {
        let mut lab = Lab::new(8, Counting::Bytes { limit: 2 });
        let ack = lab.ack(5);
        Growth::default().slow_start(&ack, &mut lab.control);
        assert_eq!(lab.window(), 10);
        // And one segment a window in avoidance, however the ACKs come.
        let mut lab = Lab::avoiding(20, Counting::Bytes { limit: 2 });
        assert_eq!(lab.windows(&mut reno(), 4), [20, 21, 22, 23]);
    }

    #[test]
    fn congestion_forgets_the_credit() {
        let mut lab = Lab::avoiding(20, Counting::PerSegment);
        let mut reno = reno();
        let ack = lab.ack(15);
        reno.on_ack(&ack, &mut lab.control);
        reno.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
        lab.control.cwnd = lab.control.ssthresh;
        let ack = lab.ack(9);
        reno.on_ack(&ack, &mut lab.control);
        assert_eq!(lab.window(), 10, "24 credits would have raised it");
    }

    #[test]
    fn limited_slow_start_follows_its_formula_to_83000() {
        // RFC 3742 prints 836 round trips; its own formula gives 6.6 + 1658, iteration 1663.
        let mut window = 1_u64;
        let mut lab = Lab::new(1, Counting::PerSegment);
        let mut growth = Growth::default();
        let mut rounds = 0;
        while window < 83_000 {
            for _ in 0..window.div_ceil(16) {
                let ack = lab.ack(window.min(16) as u32);
                growth.limited_slow_start(&ack, &mut lab.control, 100);
            }
            window = lab.window();
            rounds += 1;
        }
        assert!((1640..1690).contains(&rounds), "{rounds}");
    }

    #[test]
    fn fractions_add_up_in_both_directions() {
        let mut lab = Lab::avoiding(10, Counting::PerSegment);
        let mut fraction = Fraction::default();
        (0..4).for_each(|_| fraction.add(&mut lab.control, 0.75, 2));
        assert_eq!(lab.window(), 13);
        (0..8).for_each(|_| fraction.add(&mut lab.control, -2.5, 2));
        assert_eq!(lab.window(), 2);
    }
}
