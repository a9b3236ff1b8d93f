//! Westwood+: after a loss the window becomes what the path delivered, times its empty RTT.

use super::parts::clock::Ticks;
use super::parts::decrease::{half, landing};
use super::parts::growth::Growth;
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, PhaseChange};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Time};

const CARD: Card = Card {
    name: "westwood",
    title: "TCP Westwood+",
    law: "Reno's increase; after congestion w = s = BWE·RTTmin, at least 2; BWE is the rate of acknowledged \
          bytes once a round trip, filtered twice by 7/8",
    source: "Mascolo, Casetti, Gerla, Sanadidi and Wang, MobiCom 2001; Grieco and Mascolo, CCR 34(2), 2004 \
          (Westwood+); Linux `tcp_westwood` (6.1)",
    differs: &[
        "As in Linux, bytes per jiffy in whole numbers, at most one sample every max(RTT, 50 ms); recovery \
              begins with ssthresh = w/2 and ends with the estimate",
        "Every ACK is counted as on Linux's slow path. Its fast path takes nothing off for duplicates that were \
              counted before, so that the kernel counts what ends a recovery twice: its BWE is up to 5 % higher for \
              some round trips",
    ],
    live_twin: Some("linux:westwood"),
    params: &[ParamSpec::whole("hz", "Hz", 250, (100, 10_000), "Timer ticks a second.")],
};

/// The RTT before the first sample, in seconds.
const INITIAL_RTT_S: u32 = 20;
/// Samples are at least 1/20 s apart.
const SAMPLES_A_SECOND: u32 = 20;

/// Westwood+'s state.
#[derive(Clone, Debug)]
pub struct Westwood {
    ticks: Ticks,
    /// Once and twice filtered rate, in bytes a tick.
    once: u32,
    twice: u32,
    window_start: u32,
    /// Bytes acknowledged since then.
    acked: Bytes,
    /// Bytes counted by duplicate ACKs that a cumulative ACK will cover.
    accounted: Bytes,
    /// No ACK has been counted.
    is_first: bool,
    /// Last RTT and the smallest one, in ticks.
    rtt: u32,
    rtt_min: u32,
    /// Measure the smallest RTT again (after a timeout).
    remeasure: bool,
    growth: Growth,
}

impl Registered for Westwood {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        let hz = given.whole("hz") as u32;
        Ok(Westwood {
            ticks: Ticks { hz },
            once: 0,
            twice: 0,
            window_start: 0,
            acked: 0,
            accounted: 0,
            is_first: true,
            rtt: INITIAL_RTT_S * hz,
            rtt_min: INITIAL_RTT_S * hz,
            remeasure: false,
            growth: Growth::default(),
        })
    }
}

impl CongestionControl for Westwood {
    fn on_established(&mut self, now: Time, _srtt: Option<Duration>, _control: &mut Control) {
        self.window_start = self.ticks.at(now);
    }

    fn on_sample(&mut self, ack: &Ack, _control: &mut Control) {
        if let Some(rtt) = ack.rtt {
            self.rtt = self.ticks.span(rtt).max(1);
        }
        self.close_window(ack.now);
        self.acked += self.count(ack);
        if self.remeasure {
            self.rtt_min = self.rtt;
            self.remeasure = false;
        }
        self.rtt_min = self.rtt_min.min(self.rtt);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if ack.may_grow {
            self.growth.reno(ack, control);
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.growth.clear();
        if congestion.is_repeated_timeout() {
            return;
        }
        if congestion.is_timeout() {
            control.ssthresh = self.estimate(control);
            self.remeasure = true;
        } else {
            control.ssthresh = half(control);
        }
    }

    fn on_phase(&mut self, change: &PhaseChange, control: &mut Control) {
        if change.completes {
            control.ssthresh = self.estimate(control);
            control.cwnd = control.ssthresh;
        }
    }

    fn recovery_floor(&self, control: &Control) -> Option<Bytes> {
        Some(self.estimate(control))
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        let hz = f64::from(self.ticks.hz);
        out.push(("bwe_bps", f64::from(self.twice) * 8.0 * hz));
        out.push(("rtt_min_s", f64::from(self.rtt_min) / hz));
    }
}

impl Westwood {
    fn estimate(&self, control: &Control) -> Bytes {
        let bytes = u64::from(self.twice) * u64::from(self.rtt_min);
        landing(bytes / u64::from(control.mss), control.mss)
    }

    fn close_window(&mut self, now: Time) {
        let now = self.ticks.at(now);
        let elapsed = now.wrapping_sub(self.window_start);
        if elapsed <= self.rtt.max(self.ticks.hz / SAMPLES_A_SECOND) {
            return;
        }
        self.filter((self.acked / u64::from(elapsed)) as u32);
        self.acked = 0;
        self.window_start = now;
    }

    fn filter(&mut self, sample: u32) {
        if self.once == 0 && self.twice == 0 {
            self.once = sample;
            self.twice = sample;
            return;
        }
        let smooth = |old: u32, new: u32| ((7 * u64::from(old) + u64::from(new)) / 8) as u32;
        self.once = smooth(self.once, sample);
        self.twice = smooth(self.twice, self.once);
    }

    /// Bytes this ACK says were delivered: a duplicate is worth a segment, which is taken off the cumulative
    /// ACK that covers it.
    fn count(&mut self, ack: &Ack) -> Bytes {
        let mss = u64::from(ack.mss);
        // Linux begins to count behind the first ACK, which so covers nothing (`first_ack`).
        let covered = if std::mem::take(&mut self.is_first) { 0 } else { ack.newly_acked };
        match covered {
            0 => {
                self.accounted += mss;
                mss
            }
            covered if covered <= mss => covered,
            covered if self.accounted >= covered => {
                self.accounted -= covered;
                mss
            }
            covered => covered - std::mem::take(&mut self.accounted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Phase;
    use crate::cc::fixture::{Lab, build};
    use crate::cc::{Counting, Signal};
    use crate::scenario::Value;

    #[test]
    fn the_filter_is_two_sevenths_in_a_row() {
        let mut westwood = build::<Westwood>(&[]);
        let steps: Vec<(u32, u32)> = [1000, 2000, 2000, 2000]
            .map(|sample| {
                westwood.filter(sample);
                (westwood.once, westwood.twice)
            })
            .into();
        assert_eq!(steps, [(1000, 1000), (1125, 1015), (1234, 1042), (1329, 1077)]);
    }

    #[test]
    fn after_loss_the_window_is_rate_times_empty_rtt() {
        // 10 Mbit/s is 1250 bytes a ms; 54 ms; mss 1448: 46.6.
        let mut westwood = build::<Westwood>(&[("hz", Value::Number(1000.0))]);
        let mut lab = Lab::avoiding(100, Counting::PerSegment);
        lab.control.mss = 1448;
        westwood.twice = 1250;
        westwood.rtt_min = 54;
        westwood.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
        lab.change(Phase::Recovery, &mut westwood);
        lab.change(Phase::Open, &mut westwood);
        assert_eq!((lab.control.ssthresh_segments(), lab.control.cwnd_segments()), (46, 46));
    }

    #[test]
    fn duplicates_are_not_counted_twice() {
        let mut westwood = build::<Westwood>(&[]);
        let mut lab = Lab::avoiding(10, Counting::PerSegment);
        let dups: u64 = (0..3).map(|_| westwood.count(&lab.ack(0))).sum();
        assert_eq!((dups, westwood.count(&lab.ack(5))), (3_000, 2_000));
    }

    #[test]
    fn a_steady_flow_is_estimated_right() {
        let mut westwood = build::<Westwood>(&[]);
        let mut lab = Lab::avoiding(50, Counting::PerSegment);
        westwood.window_start = westwood.ticks.at(lab.now);
        for _ in 0..60 {
            lab.round(&mut westwood);
            lab.control.cwnd = 50_000;
        }
        // 50 segments of 1000 bytes in 100 ms: 2000 bytes a jiffy of 4 ms.
        assert!((1900..=2050).contains(&westwood.twice), "{}", westwood.twice);
    }
}
