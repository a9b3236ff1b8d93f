//! Veno: Reno that distinguishes random loss from congestion by its own backlog in the queue.

use super::parts::decrease::landing;
use super::parts::growth::{Growth, credit};
use super::parts::round::RoundRtt;
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, Phase, PhaseChange, Resume};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Duration, Time};

const CARD: Card = Card {
    name: "veno",
    title: "TCP Veno",
    law: "N = w·(rtt − base)/rtt; w ← w + 1 a round trip while N < 3, else every second one; loss keeps 4/5 \
          of w if N < 3, else half",
    source: "Fu and Liew, IEEE JSAC 21(2), 2003; Linux `tcp_veno` (6.1)",
    differs: &[
        "As in Linux, N is computed at every ACK from the smallest RTT since the last one that grew the \
              window. The rule \"two samples or fewer: Reno\" acts only at the start, because the count is \
              never reset. Outside Open it is Reno",
        "As in Linux, an ACK without a sample counts as an endless RTT, N = w: congestion, until the next one",
    ],
    live_twin: Some("linux:veno"),
    params: &[ParamSpec::number("beta", "segments", 3.0, (0.5, 1_000.0), "Backlog that means congestion.")],
};

/// Veno's state.
#[derive(Clone, Debug)]
pub struct Veno {
    active: bool,
    /// The next full window of ACKs raises the window (congestive state).
    raises: bool,
    /// β in half segments.
    beta: u32,
    /// N in half segments.
    diff: u32,
    round: RoundRtt,
    growth: Growth,
}

impl Registered for Veno {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(Veno {
            active: true,
            raises: true,
            beta: (given.number("beta") * 2.0) as u32,
            diff: 0,
            round: RoundRtt::default(),
            growth: Growth::default(),
        })
    }
}

impl CongestionControl for Veno {
    fn on_sample(&mut self, ack: &Ack, _control: &mut Control) {
        self.round.sample(ack);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if !ack.may_grow {
            return;
        }
        if !self.active || self.round.samples <= 2 {
            self.growth.reno(ack, control);
        } else {
            self.judge(ack, control);
        }
        if self.active {
            self.forget_rtt();
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.growth.clear();
        if congestion.is_repeated_timeout() {
            return;
        }
        let window = control.cwnd_segments();
        let kept = if self.diff < self.beta { window * 4 / 5 } else { window / 2 };
        control.ssthresh = landing(kept, control.mss);
    }

    fn on_phase(&mut self, change: &PhaseChange, _control: &mut Control) {
        self.active = change.to == Phase::Open;
        if self.active {
            self.forget_rtt();
        }
    }

    fn on_resume(&mut self, _resume: &Resume, _control: &mut Control) {
        self.forget_path();
    }

    fn on_idle_restart(&mut self, _now: Time, _idle: Duration, _control: &mut Control) {
        self.forget_path();
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        out.push(("n", f64::from(self.diff) / 2.0));
        out.push(("base_rtt_s", f64::from(self.round.base_us) / 1e6));
    }
}

impl Veno {
    /// Only the RTT is forgotten, never the count of samples.
    fn forget_rtt(&mut self) {
        let RoundRtt { base_us, samples, .. } = self.round;
        self.round = RoundRtt { base_us, samples, ..RoundRtt::default() };
    }

    /// Linux `tcp_veno_cwnd_event`, after idleness and with nothing in flight: the base as well.
    fn forget_path(&mut self) {
        self.round = RoundRtt { samples: self.round.samples, ..RoundRtt::default() };
        self.raises = true;
        self.active = true;
    }

    fn judge(&mut self, ack: &Ack, control: &mut Control) {
        self.diff = backlog_halves(control.cwnd_segments(), self.round.base_us, self.round.min_us);
        let mut segments = credit(ack);
        if ack.in_slow_start {
            segments = self.growth.slow_start(ack, control);
            if segments == 0 {
                return;
            }
        }
        if self.diff < self.beta {
            self.growth.additive(ack, control, control.cwnd_segments(), segments);
            return;
        }
        // Congestive: every second window of ACKs raises it. The credit is the same as in the other state.
        if self.growth.is_due(control.cwnd_segments(), segments) {
            if self.raises {
                control.cwnd += u64::from(control.mss);
            }
            self.raises = !self.raises;
        }
    }
}

/// N in half segments: 2w − ⌊2w·base/rtt⌋.
fn backlog_halves(window: u64, base_us: u32, rtt_us: u32) -> u32 {
    (2 * window - 2 * window * u64::from(base_us) / u64::from(rtt_us.max(1))) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Counting;
    use crate::cc::fixture::{Lab, build};

    fn after(window: u64, rtt_ms: u64) -> (Veno, Lab) {
        let mut veno = build::<Veno>(&[]);
        let mut lab = Lab::avoiding(window, Counting::PerSegment);
        lab.rtt = Duration::from_ms(54);
        for _ in 0..4 {
            let ack = lab.ack(1);
            veno.on_plain_ack(&mut ack.clone(), lab.inclusive, &mut lab.control);
        }
        lab.control.cwnd = window * 1000;
        lab.rtt = Duration::from_ms(rtt_ms);
        let ack = lab.ack(0);
        let ack = Ack { may_grow: true, ..ack };
        veno.on_plain_ack(&mut ack.clone(), lab.inclusive, &mut lab.control);
        (veno, lab)
    }

    #[test]
    fn three_segments_in_the_queue_separate_random_loss_from_congestion() {
        // w 30, base 54: rtt 57 ⇒ N 1.58 ⇒ 24; rtt 66 ⇒ N 5.45 ⇒ 15.
        for (rtt_ms, n, kept) in [(57, 1.58, 24), (66, 5.45, 15)] {
            let (mut veno, mut lab) = after(30, rtt_ms);
            assert!((f64::from(veno.diff) / 2.0 - n).abs() < 0.5, "{}", veno.diff);
            lab.lose(&mut veno);
            assert_eq!(lab.window(), kept);
        }
    }

    #[test]
    fn both_states_count_the_same_credit() {
        // Linux has one `snd_cwnd_cnt`. N hovers about β here: each second ACK finds the queue too long.
        let mut veno = build::<Veno>(&[]);
        let mut lab = Lab::avoiding(30, Counting::PerSegment);
        lab.rtt = Duration::from_ms(54);
        for _ in 0..4 {
            let mut ack = lab.ack(1);
            veno.on_plain_ack(&mut ack, lab.inclusive, &mut lab.control);
        }
        lab.control.cwnd = 30_000;
        veno.growth.clear();
        for n in 0..31 {
            lab.rtt = Duration::from_ms(if n % 2 == 0 { 90 } else { 54 });
            let mut ack = lab.ack(1);
            veno.on_plain_ack(&mut ack, lab.inclusive, &mut lab.control);
        }
        assert_eq!(lab.window(), 31, "thirty segments of credit in all");
    }

    #[test]
    fn a_loss_right_behind_a_recovery_halves() {
        let (mut veno, mut lab) = after(30, 54);
        lab.change(Phase::Recovery, &mut veno);
        let mut last = lab.ack(30);
        veno.on_sample(&last, &mut lab.control);
        // The sample of the ACK that ends the recovery is forgotten with the rest.
        lab.change(Phase::Open, &mut veno);
        last.phase = Phase::Open;
        last.may_grow = true;
        veno.on_ack(&last, &mut lab.control);
        lab.control.cwnd = 30_000;
        lab.lose(&mut veno);
        assert_eq!(lab.window(), 15);
    }

    #[test]
    fn idleness_does_not_reset_the_count_of_samples() {
        let (mut veno, mut lab) = after(30, 54);
        let samples = veno.round.samples;
        veno.on_idle_restart(lab.now, Duration::from_ms(900), &mut lab.control);
        assert!(samples > 2 && veno.round.samples == samples);
    }

    #[test]
    fn congestive_growth_is_half() {
        for (rtt_ms, low, high) in [(54, 18, 20), (90, 8, 10)] {
            let (mut veno, mut lab) = after(30, rtt_ms);
            for _ in 0..20 {
                lab.round(&mut veno);
            }
            let grown = lab.window() - 30;
            assert!((low..=high).contains(&grown), "{rtt_ms} ms: {grown}");
        }
    }
}
