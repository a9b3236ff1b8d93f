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
