//! The outputs: minimum RTT and its probe, the pacing rate, and the window within its bounds.
//!
//! Source: draft-ietf-ccwg-bbr-06 sections 5.3.4 and 5.6.

use super::{Acks, MIN_PIPE, Mode, PROBE_RTT, STARTUP, State, UNBOUNDED};
use crate::cc::parts::clock::span_us;
use crate::cc::{Ack, Control, Phase};
use crate::time::{Bytes, Duration, Rate, Time};

impl State {
    pub(super) fn measure_rtt(&mut self, ack: &Ack, control: &mut Control) {
        let probe_expired = ack.now.since(self.probe_rtt_at) > self.probe_rtt_interval;
        if let Some(rtt) = ack.rtt {
            let rtt_us = span_us(rtt);
            if rtt_us < self.probe_rtt_us || probe_expired {
                self.probe_rtt_us = rtt_us;
                self.probe_rtt_at = ack.now;
            }
        }
        if self.probe_rtt_us < self.rtt_us || ack.now.since(self.rtt_at) > self.rtt_window {
            self.rtt_us = self.probe_rtt_us;
            self.rtt_at = self.probe_rtt_at;
        }
        if self.mode != Mode::ProbeRtt && probe_expired && !self.idle_restart {
            self.mode = Mode::ProbeRtt;
            self.save_window(control);
            self.probe_rtt_until = None;
            self.acks = Acks::ProbeStopping;
            self.begin_round();
        }
        if self.mode == Mode::ProbeRtt {
            self.handle_probe_rtt(ack, control);
        }
        if ack.delivered_segments > 0 {
            self.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, ack: &Ack, control: &mut Control) {
        // The delivery rate of half a window per round trip does not measure the path.
        control.self_limited = true;
        match self.probe_rtt_until {
            None if ack.in_flight <= self.probe_rtt_window(control) => {
                self.probe_rtt_until = Some(ack.now + Duration::from_ms(200));
                self.probe_rtt_round_done = false;
                self.begin_round();
            }
            None => {}
            Some(_) => {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.end_probe_rtt(ack.now, control);
                }
            }
        }
    }

    /// Ends ProbeRTT if its time is over.
    pub(super) fn end_probe_rtt(&mut self, now: Time, control: &mut Control) {
        if self.probe_rtt_until.is_none_or(|until| now <= until) {
            return;
        }
        self.probe_rtt_at = now;
        self.restore_window(control);
        self.reset_lower_bounds();
        if self.full {
            self.begin_down(now);
            self.mode = Mode::Cruise;
        } else {
            self.mode = Mode::Startup;
        }
    }

    pub(super) fn probe_rtt_window(&self, control: &Control) -> Bytes {
        self.bdp(PROBE_RTT.1, control).max(MIN_PIPE * u64::from(control.mss))
    }

    /// inflight_hi less the headroom for other flows.
    pub(super) fn with_headroom(&self, mss: u32) -> Bytes {
        if self.inflight_hi == UNBOUNDED {
            return UNBOUNDED;
        }
        let headroom = (self.inflight_hi * self.headroom_percent / 100).max(u64::from(mss));
        self.inflight_hi.saturating_sub(headroom).max(MIN_PIPE * u64::from(mss))
    }

    /// BDP times gain, from the bandwidth estimate and the minimum RTT.
    pub(super) fn bdp(&self, gain_percent: u64, control: &Control) -> Bytes {
        self.bdp_at(self.estimate(), gain_percent, control)
    }

    pub(super) fn bdp_at(&self, bps: u64, gain_percent: u64, control: &Control) -> Bytes {
        if self.rtt_us == u32::MAX {
            // No RTT yet.
            return self.initial_window.max(MIN_PIPE * u64::from(control.mss));
        }
        let bits = u128::from(bps) * u128::from(self.rtt_us) * u128::from(gain_percent);
        (bits / 800_000_000) as u64
    }

    /// Adds room for at least three bursts at the pacing rate, and two segments more while probing.
    pub(super) fn quantised(&self, inflight: Bytes, control: &Control) -> Bytes {
        let mss = u64::from(control.mss);
        // Two segments, even if a single one exceeds the host's limit on a burst (64 KiB).
        let pacing_bps = control.pacing.map_or(0, Rate::as_bps);
        let burst = (pacing_bps / 8 / 1_000).min(65_536).max(2 * mss);
        let inflight = inflight.max(3 * burst).max(MIN_PIPE * mss);
        if self.mode == Mode::Up { inflight + 2 * mss } else { inflight }
    }

    /// Inflight limit at this gain.
    pub(super) fn inflight(&self, gain_percent: u64, control: &Control) -> Bytes {
        self.quantised(self.bdp(gain_percent, control), control)
    }

    pub(super) fn set_pacing(&mut self, ack: &Ack, control: &mut Control) {
        if !self.has_seen_rtt && !ack.srtt.is_zero() {
            // The handshake gave no sample.
            self.has_seen_rtt = true;
            let first = Rate::from_bytes_over(self.initial_window, ack.srtt).as_bps();
            control.pacing = Some(pacing(first, STARTUP.0));
        }
        self.pace(self.gains().0, control);
    }

    pub(super) fn pace(&self, gain_percent: u64, control: &mut Control) {
        let rate = pacing(self.estimate(), gain_percent);
        if self.full || control.pacing.is_none_or(|current| rate > current) {
            control.pacing = Some(rate);
        }
    }

    pub(super) fn set_window(&mut self, ack: &Ack, control: &mut Control) {
        let mss = u64::from(control.mss);
        if self.previous >= Phase::Recovery && ack.phase < Phase::Recovery {
            self.restore_window(control);
        }
        self.previous = ack.phase;
        let acked = u64::from(ack.delivered_segments) * mss;
        let mut window = control.cwnd;
        if acked > 0 {
            let most = self.quantised(self.bdp(self.gains().1, control) + self.extra.get(), control);
            if self.full {
                window = (window + acked).min(most);
            } else if window < most || ack.delivered < self.initial_window {
                window += acked;
            }
            window = window.max(MIN_PIPE * mss);
        }
        if self.mode == Mode::ProbeRtt {
            window = window.min(self.probe_rtt_window(control));
        }
        let bound = match self.mode {
            Mode::Down | Mode::Refill | Mode::Up => self.inflight_hi,
            Mode::Cruise | Mode::ProbeRtt => self.with_headroom(control.mss),
            Mode::Startup | Mode::Drain => UNBOUNDED,
        };
        let bound = bound.min(self.inflight_lo).max(MIN_PIPE * mss);
        // Whole segments, at least one.
        control.cwnd = (window.min(bound) / mss).max(1) * mss;
    }
}

/// Pacing rate: gain·estimate less 1 %; never zero.
pub(super) fn pacing(estimate_bps: u64, gain_percent: u64) -> Rate {
    let bps = u128::from(estimate_bps) * u128::from(gain_percent) * 99 / 10_000;
    Rate::from_bps((bps as u64).max(1_000))
}
