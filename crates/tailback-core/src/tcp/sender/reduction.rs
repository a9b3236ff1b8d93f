//! Reductions: how the window falls to the algorithm's target, one step per ACK.
//!
//! Sources: RFC 6675 section 5, RFC 6937 (PRR); Linux 2.6.25 (rate halving), FreeBSD 7.3 (the one-segment ramp).

use super::Sender;
use crate::cc::{CongestionControl, Phase};
use crate::tcp::scoreboard::Delivery;
use crate::tcp::stack::{PrrBound, Reduction};
use crate::time::Bytes;

/// State of a reduction: the counts of PRR, and the parity of ACKs for rate halving.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Descent {
    /// cwnd when the reduction began.
    prior_cwnd: Bytes,
    /// Bytes delivered since.
    delivered: Bytes,
    /// Bytes sent since.
    pub out: Bytes,
    /// Whether the next ACK reduces the window by a segment.
    is_odd: bool,
}

impl Descent {
    pub const fn from_window(cwnd: Bytes) -> Self {
        Descent { prior_cwnd: cwnd, delivered: 0, out: 0, is_odd: false }
    }
}

impl Sender {
    /// Linux 2.6 limits the burst after a disturbance: cwnd is at most in flight + `max_burst`.
    pub(super) fn moderate(&mut self) {
        if let Some(burst) = self.stack.max_burst {
            let most = self.in_flight() + u64::from(burst) * u64::from(self.control.mss);
            self.control.cwnd = self.control.cwnd.min(most);
        }
    }

    /// The stack's kind of reduction. FreeBSD uses its ramp only with SACK; without, it follows RFC 6582.
    pub(super) fn reduction(&self) -> Reduction {
        match self.stack.reduction {
            Reduction::FreeBsd if !self.stack.sack => Reduction::Immediate,
            reduction => reduction,
        }
    }

    /// The reduction step of one ACK during Recovery and CWR; `is_first`: this ACK began the reduction.
    pub(super) fn reduce(
        &mut self,
        delivery: &Delivery,
        newly_acked: Bytes,
        lost: u32,
        is_duplicate: bool,
        is_first: bool,
    ) {
        match self.reduction() {
            Reduction::Immediate => {}
            // The ACK that begins FreeBSD's ramp leaves the window at one segment.
            Reduction::FreeBsd if self.phase == Phase::Cwr || is_first => {}
            Reduction::FreeBsd => self.reduce_freebsd(newly_acked, is_duplicate),
            Reduction::RateHalving => {
                if newly_acked > 0 || delivery.sacked_segments > 0 || is_duplicate {
                    self.halve_rate();
                }
            }
            Reduction::AtEnd => {
                self.control.cwnd = self.control.cwnd.min(self.in_flight() + u64::from(self.control.mss));
            }
            Reduction::Prr => {
                // Without SACK a duplicate ACK counts as one delivered segment.
                let guessed = if is_duplicate && !self.stack.sack { u64::from(self.control.mss) } else { 0 };
                self.reduce_proportionally(delivery.delivered_bytes.max(guessed), newly_acked, lost);
            }
        }
    }

    /// FreeBSD 7.3: the window grows by one segment per duplicate ACK, from one segment up to ssthresh.
    fn reduce_freebsd(&mut self, newly_acked: Bytes, is_duplicate: bool) {
        let mss = u64::from(self.control.mss);
        if newly_acked > 0 {
            // Partial ACK: the data that this recovery has sent, plus one or two segments.
            let allowance = if newly_acked >= 3 * mss { 2 } else { 1 };
            let sent = self.board.retransmitted() + (self.snd_nxt - self.recover);
            self.control.cwnd = (sent + allowance * mss).min(self.control.ssthresh);
        } else if is_duplicate && self.in_flight() < self.control.ssthresh {
            self.control.cwnd = (self.control.cwnd + mss).min(self.control.ssthresh);
        }
    }

    /// Linux 2.6.25: one segment less for every second ACK, and at most one segment more than in flight.
    fn halve_rate(&mut self) {
        let mss = u64::from(self.control.mss);
        let floor = self.algorithm.recovery_floor(&self.control).unwrap_or(self.control.ssthresh);
        if self.trouble.descent.is_odd && self.control.cwnd > floor {
            self.control.cwnd -= mss;
        }
        self.trouble.descent.is_odd = !self.trouble.descent.is_odd;
        self.control.cwnd = self.control.cwnd.min(self.in_flight() + mss);
    }

    /// PRR (RFC 6937 section 3).
    pub(super) fn reduce_proportionally(&mut self, delivered: Bytes, newly_acked: Bytes, lost: u32) {
        let mss = u64::from(self.control.mss);
        let in_flight = self.in_flight();
        if delivered == 0 || self.trouble.descent.prior_cwnd == 0 {
            return;
        }
        self.trouble.descent.delivered += delivered;
        let ssthresh = self.control.ssthresh;
        let mut allowed = if in_flight > ssthresh {
            // RFC 6937: the delivered fraction of the initial window times ssthresh, rounded up to whole segments as
            // Linux counts them.
            let target = (self.trouble.descent.delivered as u128 * ssthresh as u128)
                .div_ceil(self.trouble.descent.prior_cwnd as u128);
            (target as u64).div_ceil(mss).saturating_mul(mss).saturating_sub(self.trouble.descent.out)
        } else {
            let owed = self.trouble.descent.delivered.saturating_sub(self.trouble.descent.out);
            let limit = match self.stack.prr_bound {
                PrrBound::Conservative => owed,
                PrrBound::SlowStart => owed.max(delivered) + mss,
                PrrBound::SafeAck if newly_acked > 0 && lost == 0 => owed.max(delivered) + mss,
                PrrBound::SafeAck => owed.max(delivered),
            };
            limit.min(ssthresh - in_flight)
        };
        if self.trouble.descent.out == 0 {
            allowed = allowed.max(mss);
        }
        self.control.cwnd = in_flight + allowed;
    }

    pub(super) fn keep_floor(&mut self) {
        self.control.cwnd = self.control.cwnd.max(u64::from(self.control.mss));
    }
}
