//! A minimal path for the algorithms' tests: rounds of ACKs at a given RTT, and losses on demand.

use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, Counting, Phase, PhaseChange, Signal};
use crate::params::{Card, Checked};
use crate::scenario::{Params, Value};
use crate::time::{Duration, Time};

/// Payload of a segment in these tests.
pub const MSS: u32 = 1000;

/// A sender without a network: the test determines what was acknowledged.
pub struct Lab {
    pub control: Control,
    pub now: Time,
    pub rtt: Duration,
    pub rtt_min: Duration,
    pub counting: Counting,
    /// Slow start includes cwnd = ssthresh.
    pub inclusive: bool,
    pub stack_paces: bool,
    /// Number of segments per ACK.
    pub per_ack: u32,
    pub snd_una: u64,
    pub snd_nxt: u64,
    pub phase: Phase,
    pub delivered: u64,
}

impl Lab {
    pub fn new(window: u64, counting: Counting) -> Self {
        let mss = u64::from(MSS);
        Lab {
            control: Control {
                cwnd: window * mss,
                ssthresh: Control::UNLIMITED,
                pacing: None,
                mss: MSS,
                self_limited: false,
            },
            now: Time::from_ms(10_000),
            rtt: Duration::from_ms(100),
            rtt_min: Duration::MAX,
            counting,
            inclusive: !matches!(counting, Counting::PerSegment),
            stack_paces: false,
            per_ack: 1,
            snd_una: 0,
            snd_nxt: window * mss,
            phase: Phase::Open,
            delivered: 0,
        }
    }

    /// A lab in congestion avoidance.
    pub fn avoiding(window: u64, counting: Counting) -> Self {
        let mut lab = Lab::new(window, counting);
        lab.control.ssthresh = 2 * u64::from(MSS);
        lab
    }

    pub fn window(&self) -> u64 {
        self.control.cwnd_segments()
    }

    /// The ACK of the next `segments`, without advancing the clock.
    pub fn ack(&mut self, segments: u32) -> Ack {
        let bytes = u64::from(segments) * u64::from(MSS);
        let prior_delivered = self.delivered;
        // Everything that the window allowed before this ACK has been sent; what this ACK allows has not.
        self.snd_nxt = self.snd_nxt.max(self.snd_una + self.control.cwnd).max(self.snd_una + bytes);
        self.snd_una += bytes;
        self.delivered += bytes;
        self.rtt_min = self.rtt_min.min(self.rtt);
        Ack {
            now: self.now,
            mss: MSS,
            newly_acked: bytes,
            newly_acked_segments: segments,
            delivered_segments: segments,
            lost_segments: 0,
            marked: 0,
            rtt: Some(self.rtt),
            rtt_read: Some(self.rtt),
            rtt_min: self.rtt_min,
            srtt: self.rtt,
            in_flight: self.control.cwnd.saturating_sub(bytes),
            prior_in_flight: self.control.cwnd,
            departs: Time::ZERO,
            delivery: None,
            delivered: self.delivered,
            prior_delivered,
            app_limited: false,
            lost: 0,
            is_delayed: false,
            round_start: false,
            cwnd_limited: true,
            window_full: true,
            may_grow: !matches!(self.phase, Phase::Recovery | Phase::Cwr),
            phase: self.phase,
            counting: self.counting,
            in_slow_start: if self.inclusive {
                self.control.cwnd <= self.control.ssthresh
            } else {
                self.control.cwnd < self.control.ssthresh
            },
            stack_paces: self.stack_paces,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        }
    }

    /// One round trip: ACKs for the whole window, evenly spread over the RTT.
    pub fn round(&mut self, algorithm: &mut impl CongestionControl) {
        let acks = self.window() / u64::from(self.per_ack);
        let gap = self.rtt / acks.max(1);
        for _ in 0..acks {
            self.now += gap;
            let mut ack = self.ack(self.per_ack);
            algorithm.on_plain_ack(&mut ack, self.inclusive, &mut self.control);
        }
    }

    /// The windows at the start of each of `rounds` round trips.
    pub fn windows(&mut self, algorithm: &mut impl CongestionControl, rounds: usize) -> Vec<u64> {
        (0..rounds)
            .map(|_| {
                let window = self.window();
                self.round(algorithm);
                window
            })
            .collect()
    }

    pub fn congestion(&self, signal: Signal) -> Congestion {
        Congestion {
            now: self.now,
            signal,
            mss: MSS,
            in_flight: self.control.cwnd,
            send_window: u64::MAX / 8,
            srtt: self.rtt,
            rtt_min: self.rtt_min,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        }
    }

    pub fn change(&mut self, to: Phase, algorithm: &mut impl CongestionControl) {
        let change = PhaseChange {
            now: self.now,
            from: self.phase,
            to,
            completes: self.phase >= Phase::Cwr && self.phase != Phase::Loss && to < Phase::Cwr,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            srtt: self.rtt,
            delivered: self.delivered,
            delivered_at: self.now,
            lost: 0,
        };
        self.phase = to;
        algorithm.on_phase(&change, &mut self.control);
    }

    /// A loss and its whole recovery, one RTT long; the window ends at ssthresh.
    pub fn lose(&mut self, algorithm: &mut impl CongestionControl) {
        algorithm.on_congestion(&self.congestion(Signal::Loss), &mut self.control);
        self.change(Phase::Recovery, algorithm);
        self.now += self.rtt;
        self.control.cwnd = self.control.ssthresh;
        self.change(Phase::Open, algorithm);
    }
}

/// Builds an `A` with these parameters.
pub fn build<A: Registered + 'static>(pairs: &[(&str, Value)]) -> A {
    let card: &'static Card = Box::leak(Box::new(A::CARD));
    let params: Params = pairs.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
    A::new(&Checked::new(card, &params, "test").expect("test parameters are valid"), 1).expect("builds")
}

/// A name as a parameter.
pub fn named(name: &str) -> Value {
    Value::Name(name.into())
}
