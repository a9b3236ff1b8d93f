//! What all that comes to: the least RTT and its probe, pacing, and the window within its bounds.
//!
//! Source: draft-ietf-ccwg-bbr, ProbeRTT and the control parameters.

use super::{Acks, MIN_PIPE, Mode, PROBE_RTT, State, UNBOUNDED};
use crate::cc::parts::clock::span_us;
use crate::cc::{Ack, Control, Phase};
use crate::time::{Bytes, Duration, Rate};

impl State {
    pub(super) fn measure_rtt(&mut self, ack: &Ack, control: &mut Control) {
        let probe_expired = ack.now.since(self.probe_rtt_at) > self.probe_rtt_interval;
        if let Some(rtt) = ack.rtt {
            let rtt_us = span_us(rtt);
            if rtt_us < self.probe_rtt_us || probe_expired {
                self.probe_rtt_us = rtt_us;
                self.probe_rtt_at = ack.now;
            }
            if self.probe_rtt_us < self.rtt_us || ack.now.since(self.rtt_at) > self.rtt_window {
                self.rtt_us = self.probe_rtt_us;
                self.rtt_at = self.probe_rtt_at;
            }
        }
        if self.mode != Mode::ProbeRtt && probe_expired && !self.idle_restart {
            self.save_window(control);
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_until = None;
            self.acks = Acks::ProbeStopping;
            self.begin_round(ack);
        }
        if self.mode == Mode::ProbeRtt {
            self.handle_probe_rtt(ack, control);
        }
        if ack.delivered_segments > 0 {
            self.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, ack: &Ack, control: &mut Control) {
        match self.probe_rtt_until {
            None if ack.in_flight <= self.probe_rtt_window(control.mss) => {
                self.probe_rtt_until = Some(ack.now + Duration::from_ms(200));
                self.probe_rtt_round_done = false;
                self.begin_round(ack);
            }
            None => {}
            Some(until) => {
                self.probe_rtt_round_done |= self.round_start;
                if !self.probe_rtt_round_done || ack.now <= until {
                    return;
                }
                self.probe_rtt_at = ack.now;
                control.cwnd = control.cwnd.max(self.prior_window);
                self.reset_lower_bounds();
                if self.full {
                    self.begin_down(ack);
                    self.mode = Mode::Cruise;
                } else {
                    self.mode = Mode::Startup;
                }
            }
        }
    }

    pub(super) fn probe_rtt_window(&self, mss: u32) -> Bytes {
        self.bdp(PROBE_RTT.1, mss).max(MIN_PIPE * u64::from(mss))
    }

    /// inflight_hi less the headroom left to others.
    pub(super) fn with_headroom(&self, mss: u32) -> Bytes {
        if self.inflight_hi == UNBOUNDED {
            return UNBOUNDED;
        }
        let headroom = (self.inflight_hi * self.headroom_percent / 100).max(u64::from(mss));
        self.inflight_hi.saturating_sub(headroom).max(MIN_PIPE * u64::from(mss))
    }

    /// bw·min_rtt times gain.
    pub(super) fn bdp(&self, gain_percent: u64, mss: u32) -> Bytes {
        if self.rtt_us == u32::MAX {
            return 10 * u64::from(mss);
        }
        let bits = u128::from(self.estimate()) * u128::from(self.rtt_us) * u128::from(gain_percent);
        (bits / 800_000_000) as u64
    }

    /// What may be in flight at this gain: room for three bursts, and two segments more while probing.
    pub(super) fn inflight(&self, gain_percent: u64, mss: u32) -> Bytes {
        // Two segments even where one fills the most that a host sends at once (64 KiB).
        let burst = (self.estimate() / 8 / 1_000).min(65_536).max(2 * u64::from(mss));
        let least = (3 * burst).max(MIN_PIPE * u64::from(mss));
        let inflight = self.bdp(gain_percent, mss).max(least);
        if self.mode == Mode::Up { inflight + 2 * u64::from(mss) } else { inflight }
    }

    pub(super) fn set_pacing(&self, control: &mut Control) {
        let rate = pacing(self.estimate(), self.gains().0);
        if self.full || control.pacing.is_none_or(|current| rate > current) {
            control.pacing = Some(rate);
        }
    }

    pub(super) fn set_window(&mut self, ack: &Ack, control: &mut Control, mss: u64) {
        let acked = u64::from(ack.delivered_segments) * mss;
        let mut window = control.cwnd;
        if acked > 0 && !self.recovers(ack, acked, &mut window, mss) {
            let most = self.inflight(self.gains().1, control.mss) + self.extra[0].max(self.extra[1]);
            if self.full {
                window = (window + acked).min(most);
            } else if window < most || ack.delivered < 10 * mss {
                window += acked;
            }
            window = window.max(MIN_PIPE * mss);
        }
        if self.mode == Mode::ProbeRtt {
            window = window.min(self.probe_rtt_window(control.mss));
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

    /// The first round of recovery conserves packets; afterwards the old window returns.
    fn recovers(&mut self, ack: &Ack, acked: Bytes, window: &mut Bytes, mss: u64) -> bool {
        *window = window.saturating_sub(u64::from(ack.lost_segments) * mss).max(mss);
        if ack.phase == Phase::Recovery && self.previous != Phase::Recovery {
            self.packet_conservation = true;
            self.begin_round(ack);
            *window = ack.in_flight + acked;
        } else if self.previous >= Phase::Recovery && ack.phase < Phase::Recovery {
            self.packet_conservation = false;
            *window = (*window).max(self.prior_window);
        }
        self.previous = ack.phase;
        if self.packet_conservation {
            *window = (*window).max(ack.in_flight + acked);
        }
        self.packet_conservation
    }

    pub(super) fn save_window(&mut self, control: &Control) {
        let is_clean = self.previous < Phase::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_window = if is_clean { control.cwnd } else { self.prior_window.max(control.cwnd) };
    }
}

/// gain·estimate less 1 %; never nothing.
pub(super) fn pacing(estimate_bps: u64, gain_percent: u64) -> Rate {
    let bps = u128::from(estimate_bps) * u128::from(gain_percent) * 99 / 10_000;
    Rate::from_bps((bps as u64).max(1_000))
}
