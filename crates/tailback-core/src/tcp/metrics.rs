//! The TCP metrics that a connection leaves for the next one between the same hosts.
//!
//! Sources: Linux `tcp_update_metrics` and `tcp_init_metrics` (2.6.25, 3.2; 6.x with tcp_no_ssthresh_metrics_save);
//! FreeBSD 7.3 and 9.3 `tcp_discardcb`, `tcp_hc_update`, `tcp_mss` and `cc_conn_init`.
//!
//! Differs from the sources: an entry never expires (FreeBSD keeps it for an hour) and none is evicted. Linux's saved
//! cwnd is left out: it acts only as a bound that an administrator locks. FreeBSD's cached ssthresh counts 40 bytes of
//! header per segment and never subtracts them; so does this cache.

use crate::params::words;
use crate::time::{Bytes, Duration};

words! {
    /// Which system's cache.
    pub enum MetricsCache {
        /// None: every connection is the first.
        Off = "off",
        /// Linux 2.6 and 3.x: ssthresh, RTT and deviation, degree of reordering.
        Linux2 = "linux-2.6",
        /// Linux since 5.6: the RTT, for the first timeout only, and the degree of reordering.
        Linux = "linux",
        /// FreeBSD 7: ssthresh, RTT and deviation, half of the window.
        FreeBsd7 = "freebsd-7",
        /// FreeBSD 9: ssthresh, RTT and deviation.
        FreeBsd = "freebsd",
    }
}

/// An entry of the cache; zero: nothing known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Metrics {
    /// Slow-start threshold.
    pub ssthresh: Bytes,
    /// Congestion window.
    pub cwnd: Bytes,
    /// Smoothed RTT.
    pub srtt: Duration,
    /// Its mean deviation.
    pub deviation: Duration,
    /// Degree of reordering in segments.
    pub reordering: u32,
}

impl Metrics {
    /// Linux: a larger RTT is taken at once, a smaller one moves the average by an eighth; likewise the deviation, by a
    /// quarter.
    pub(super) fn blend_rtt(&mut self, srtt: Duration, deviation: Duration) {
        let change = self.srtt.abs_diff(srtt);
        self.srtt = if srtt >= self.srtt { srtt } else { self.srtt - change / 8 };
        let deviation = change.max(deviation);
        self.deviation = match deviation >= self.deviation {
            true => deviation,
            false => self.deviation - (self.deviation - deviation) / 4,
        };
    }

    /// FreeBSD `tcp_hc_update`: the mean of the cached and the new value.
    pub(super) fn average(&mut self, new: &Metrics) {
        fn mean(known: u64, new: u64) -> u64 {
            match (known, new) {
                (0, new) => new,
                (known, 0) => known,
                (known, new) => (known + new) / 2,
            }
        }
        self.ssthresh = mean(self.ssthresh, new.ssthresh);
        self.cwnd = mean(self.cwnd, new.cwnd);
        self.srtt = Duration::from_ps(mean(self.srtt.as_ps(), new.srtt.as_ps()));
        self.deviation = Duration::from_ps(mean(self.deviation.as_ps(), new.deviation.as_ps()));
    }
}
