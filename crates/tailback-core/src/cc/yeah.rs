//! YeAH: Scalable TCP while the queue is short, Reno (and draining) while it is not.

use super::parts::decrease::landing;
use super::parts::growth::{Growth, credit};
use super::parts::round::RoundRtt;
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, Phase, PhaseChange, Resume};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Time};

const CARD: Card = Card {
    name: "yeah",
    title: "YeAH-TCP",
    law: "fast mode w ← w + 0.01 an ACK; when Q = w·(rtt − base)/rtt exceeds 80 or rtt − base exceeds \
          base/8, slow mode: Reno, and above Q = 80 the window gives up min(Q, w/2). Loss cuts by Q within \
          [w/8, w/2], by w/2 after 16 slow round trips",
    source: "Baiocchi, Castellani and Vacirca, PFLDnet 2007; Linux `tcp_yeah`",
    differs: &[
        "As in Linux, RTTs are the round trip's smallest, and rounds of two samples or fewer are not judged",
    ],
    live_twin: Some("linux:yeah"),
    params: &[
        ParamSpec::whole("alpha", "segments", 80, (1, 100_000), "Queue that makes the window give way."),
        ParamSpec::whole("gamma", "", 1, (1, 100), "Share of the queue given up, as a divisor."),
        ParamSpec::whole("delta", "", 3, (0, 10), "A loss cuts by at least w/2^delta."),
        ParamSpec::whole("epsilon", "", 1, (1, 10), "Giving way costs at most w/2^epsilon."),
        ParamSpec::whole("phi", "", 8, (1, 100), "Slow mode above base/phi of queueing delay."),
        ParamSpec::whole("rho", "round trips", 16, (1, 1_000), "Slow rounds that indicate Reno rivals."),
    ],
};

/// Fast mode: one step per this many segments, as Scalable TCP.
const FAST_INTERVAL: u64 = 100;
/// Fast rounds after which the Reno count starts over.
const ZETA: u32 = 50;

/// YeAH's state.
#[derive(Clone, Debug)]
pub struct Yeah {
    alpha: u32,
    gamma: u32,
    delta: u32,
    epsilon: u32,
    phi: u32,
    rho: u32,
    /// Queue at the last look, in segments.
    queue: u32,
    /// Consecutive slow round trips.
    slow_rounds: u32,
    fast_rounds: u32,
    /// What a Reno flow competing with us would have.
    reno_count: u32,
    round: RoundRtt,
    growth: Growth,
}

impl Registered for Yeah {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(Yeah {
            alpha: given.whole("alpha") as u32,
            gamma: given.whole("gamma") as u32,
            delta: given.whole("delta") as u32,
            epsilon: given.whole("epsilon") as u32,
            phi: given.whole("phi") as u32,
            rho: given.whole("rho") as u32,
            queue: 0,
            slow_rounds: 0,
            fast_rounds: 0,
            reno_count: 2,
            round: RoundRtt::default(),
            growth: Growth::default(),
        })
    }
}

impl CongestionControl for Yeah {
    fn on_sample(&mut self, ack: &Ack, _control: &mut Control) {
        self.round.sample(ack);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if !ack.may_grow {
            return;
        }
        let mut segments = credit(ack);
        if ack.in_slow_start {
            segments = self.growth.slow_start(ack, control);
        }
        if segments > 0 && !(ack.in_slow_start && control.cwnd < control.ssthresh) {
            let window = control.cwnd_segments();
            let needed = if self.slow_rounds == 0 { window.min(FAST_INTERVAL) } else { window };
            self.growth.additive(ack, control, needed, segments);
        }
        if self.round.is_over(ack) {
            if self.round.samples > 2 {
                self.judge(control);
            }
            self.round.begin(ack.snd_nxt);
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.growth.clear();
        if congestion.is_repeated_timeout() {
            return;
        }
        let window = control.cwnd_segments();
        let half = (window / 2).max(2);
        let cut = if self.slow_rounds < self.rho {
            u64::from(self.queue).min(half).max(window >> self.delta)
        } else {
            half
        };
        self.fast_rounds = 0;
        self.reno_count = (self.reno_count / 2).max(2);
        control.ssthresh = landing(window.saturating_sub(cut), control.mss);
    }

    fn on_phase(&mut self, change: &PhaseChange, _control: &mut Control) {
        if change.to == Phase::Open {
            self.round.begin(change.snd_nxt);
        }
    }

    fn on_resume(&mut self, resume: &Resume, _control: &mut Control) {
        // Linux has `tcp_vegas_cwnd_event` here too.
        self.round.forget();
        self.round.begin(resume.snd_nxt);
    }

    fn on_idle_restart(&mut self, _now: Time, _idle: Duration, _control: &mut Control) {
        self.round.forget();
    }

    fn recovery_floor(&self, control: &Control) -> Option<Bytes> {
        Some(control.ssthresh / 2)
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        out.push(("queue", f64::from(self.queue)));
        out.push(("reno_count", f64::from(self.reno_count)));
        out.push(("slow_rounds", f64::from(self.slow_rounds)));
    }
}

impl Yeah {
    /// Once a round trip: fast or slow?
    fn judge(&mut self, control: &mut Control) {
        let mss = u64::from(control.mss);
        let RoundRtt { base_us: base, min_us: rtt, .. } = self.round;
        self.queue = self.round.excess(control.cwnd_segments(), rtt) as u32;
        if self.queue <= self.alpha && rtt - base <= base / self.phi {
            self.fast_rounds += 1;
            if self.fast_rounds > ZETA {
                self.reno_count = 2;
                self.fast_rounds = 0;
            }
            self.slow_rounds = 0;
            return;
        }
        let window = control.cwnd_segments();
        if self.queue > self.alpha && window > u64::from(self.reno_count) {
            let given_up = u64::from(self.queue / self.gamma).min(window >> self.epsilon);
            control.cwnd = (window - given_up).max(u64::from(self.reno_count)) * mss;
            control.ssthresh = control.cwnd;
        }
        if self.reno_count <= 2 {
            self.reno_count = (control.cwnd_segments() / 2).max(2) as u32;
        } else {
            self.reno_count += 1;
        }
        self.slow_rounds += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::fixture::{Lab, build};
    use crate::cc::{Counting, Signal};

    fn judged(window: u64, base_ms: u32, rtt_ms: u32) -> (Yeah, Lab) {
        let mut yeah = build::<Yeah>(&[]);
        let mut lab = Lab::avoiding(window, Counting::PerSegment);
        yeah.round = RoundRtt { end: 0, base_us: base_ms * 1000, min_us: rtt_ms * 1000, samples: 9 };
        yeah.judge(&mut lab.control);
        (yeah, lab)
    }

    #[test]
    fn a_short_queue_is_fast_mode() {
        let (yeah, lab) = judged(400, 100, 112);
        assert_eq!((yeah.queue, yeah.slow_rounds, lab.window()), (42, 0, 400));
    }

    #[test]
    fn an_eighth_of_the_base_is_slow_mode_without_giving_way() {
        let (yeah, lab) = judged(400, 100, 113);
        assert_eq!((yeah.queue, yeah.slow_rounds, lab.window(), yeah.reno_count), (46, 1, 400, 200));
    }

    #[test]
    fn a_queue_above_alpha_is_given_up() {
        // Q = 400·100/200 = 200 = w/2.
        let (yeah, lab) = judged(400, 100, 200);
        assert_eq!((yeah.queue, lab.window(), lab.control.ssthresh_segments()), (200, 200, 200));
        // Q = 600·25/125 = 120.
        let (_, lab) = judged(600, 100, 125);
        assert_eq!(lab.window(), 480);
    }

    #[test]
    fn a_loss_cuts_by_the_queue_within_an_eighth_and_a_half() {
        for (queue, slow_rounds, kept) in [(5, 0, 140), (40, 0, 120), (200, 0, 80), (5, 16, 80)] {
            let mut yeah = build::<Yeah>(&[]);
            yeah.queue = queue;
            yeah.slow_rounds = slow_rounds;
            let mut lab = Lab::avoiding(160, Counting::PerSegment);
            yeah.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
            assert_eq!(lab.control.ssthresh_segments(), kept);
        }
    }
}
