//! How the sender uses and updates the cache of TCP metrics; rules and sources are in `tcp/metrics.rs`.

use super::Sender;
use crate::cc::{Control, Phase};
use crate::tcp::metrics::{Metrics, MetricsCache};
use crate::tcp::segment::TCP_HEADER;
use crate::time::Duration;

/// FreeBSD `tcp_discardcb` does not store metrics with fewer RTT samples.
const ENOUGH_SAMPLES: u32 = 4;

impl Sender {
    /// Provides the metrics of an earlier connection to the same host; applied when the handshake is over.
    pub fn recall(&mut self, metrics: Metrics) {
        if self.stack.metrics_cache != MetricsCache::Off {
            self.trouble.recalled = Some(metrics);
        }
    }

    /// FreeBSD `tcp_mss`: starts from the cached RTT and averages the handshake's sample into it.
    pub(super) fn recall_before_sample(&mut self, metrics: &Metrics) {
        let is_freebsd = matches!(self.stack.metrics_cache, MetricsCache::FreeBsd7 | MetricsCache::FreeBsd);
        if is_freebsd && !metrics.srtt.is_zero() {
            self.rtt.recall(&self.stack, metrics.srtt, metrics.deviation, self.snd_nxt);
        }
    }

    /// Applies the other metrics, after the handshake's RTT sample.
    pub(super) fn recall_after_sample(&mut self, metrics: &Metrics) {
        let mss = u64::from(self.control.mss);
        match self.stack.metrics_cache {
            MetricsCache::Off => {}
            MetricsCache::Linux2 => {
                self.recall_ssthresh(metrics, 0);
                self.recall_reordering(metrics);
                let (srtt, deviation) = (self.rtt.srtt(), self.rtt.deviation(&self.stack));
                // Takes the larger of both RTTs: an overestimate does less harm.
                if !srtt.is_zero() && metrics.srtt > srtt {
                    let deviation = metrics.deviation.max(deviation);
                    self.rtt.recall(&self.stack, metrics.srtt, deviation, self.snd_nxt);
                }
            }
            MetricsCache::Linux => {
                self.recall_reordering(metrics);
                if metrics.srtt > self.rtt.srtt() {
                    self.rtt.recall_timeout(&self.stack, metrics.srtt);
                }
            }
            MetricsCache::FreeBsd7 => {
                self.recall_ssthresh(metrics, 2 * mss);
                if metrics.cwnd > 0 {
                    let most = self.send_window().min(self.send_buffer);
                    self.control.cwnd = (metrics.cwnd / 2).min(most).max(mss);
                }
            }
            MetricsCache::FreeBsd => self.recall_ssthresh(metrics, 2 * mss),
        }
    }

    fn recall_ssthresh(&mut self, metrics: &Metrics, least: u64) {
        if metrics.ssthresh > 0 {
            self.control.ssthresh = metrics.ssthresh.max(least);
        }
    }

    fn recall_reordering(&mut self, metrics: &Metrics) {
        if metrics.reordering > 0 && metrics.reordering != self.reordering.degree {
            // Linux `tcp_init_metrics` then disables FACK from the start.
            self.reordering.degree = metrics.reordering;
            self.reordering.has_grown = true;
        }
    }

    /// Updates the cached metrics when the connection closes.
    pub fn leave_metrics(&self, known: &mut Metrics) {
        match self.stack.metrics_cache {
            MetricsCache::Off => {}
            MetricsCache::Linux2 => self.leave_linux(known, true),
            MetricsCache::Linux => self.leave_linux(known, false),
            MetricsCache::FreeBsd7 | MetricsCache::FreeBsd => self.leave_freebsd(known),
        }
    }

    fn leave_linux(&self, known: &mut Metrics, with_ssthresh: bool) {
        if self.rtt.backoffs() > 0 || self.rtt.srtt().is_zero() {
            // No ACK came in time, so the cached RTT is wrong.
            known.srtt = Duration::ZERO;
            return;
        }
        known.blend_rtt(self.rtt.srtt(), self.rtt.deviation(&self.stack));
        let (cwnd, ssthresh) = (self.control.cwnd, self.control.ssthresh);
        let half = self.whole_segments(cwnd / 2);
        if ssthresh == Control::UNLIMITED {
            // Still in the first slow start: only a larger window is new information.
            if with_ssthresh && known.ssthresh > 0 && half > known.ssthresh {
                known.ssthresh = half;
            }
        } else if cwnd > ssthresh && self.phase == Phase::Open {
            if with_ssthresh {
                known.ssthresh = half.max(ssthresh);
            }
        } else {
            if with_ssthresh && known.ssthresh > 0 && ssthresh > known.ssthresh {
                known.ssthresh = ssthresh;
            }
            let degree = self.reordering.degree;
            if degree > known.reordering && degree != self.stack.duplicate_threshold {
                known.reordering = degree;
            }
        }
    }

    fn leave_freebsd(&self, known: &mut Metrics) {
        if self.rtt.samples() < ENOUGH_SAMPLES {
            return;
        }
        let mss = u64::from(self.control.mss);
        // An ssthresh above half of the buffer says nothing about the path.
        let ssthresh = match self.control.ssthresh < self.send_buffer / 2 {
            true => {
                ((self.control.ssthresh + mss / 2) / mss).max(2)
                    * (mss + u64::from(self.stack.ip_header + TCP_HEADER))
            }
            false => 0,
        };
        known.average(&Metrics {
            ssthresh,
            cwnd: self.control.cwnd,
            srtt: self.rtt.srtt(),
            deviation: self.rtt.deviation(&self.stack),
            reordering: 0,
        });
    }
}
