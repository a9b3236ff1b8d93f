//! TCP Prague: cut in proportion to the share of marked packets, at the pace of an RTT that short paths share.
//!
//! It counts its window in parts of a segment and brings cwnd there a segment an ACK, in every phase, so the stack does
//! not reduce it.

use super::parts::decrease::landing;
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, Phase, PhaseChange, Signal};
use crate::params::{Card, Checked, ParamSpec, ms, s};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Rate, Time};

const CARD: Card = Card {
    name: "prague",
    title: "TCP Prague",
    law: "α ← (1 − g)·α + g·F once in R = max(RTT, 25 ms), F the marked share; w ← w·(1 − α/2) at most once in R; \
          w ← w + (RTT/R)²/w for each packet without mark; loss halves; paced at w/RTT",
    source: "draft-briscoe-iccrg-prague-congestion-control-04; where it leaves open, the reference for Linux: \
             L4STeam/linux `tcp_prague.c` 0.6",
    differs: &[
        "Without a mark so far the RTT is the path's own: a path that marks nothing meets NewReno's law, paced",
        "A timeout takes cwnd to one segment, and it climbs to half of the window by one an ACK",
        "At least an eighth of a segment a round trip is sent, however much is marked; cwnd itself stays at two \
         segments, and below that only the pacing slows down",
        "A window counts as used when seven eighths of it are out and more waits, since its own pacing holds it back",
        "The segments of a burst are the stack's (`burst_segments`); the reference bounds one to 250 µs",
        "No search for a classic queue that marks (RFC 9331 section 4.3); it is off in the reference",
    ],
    live_twin: None,
    params: &[
        ParamSpec::whole("shift_g", "", 4, (1, 10), "g = 2^-shift_g."),
        ParamSpec::share("initial_alpha", 1.0, (0.0, 1.0), "Alpha at the first mark."),
        ParamSpec::time(
            "reference_rtt",
            ms(25),
            (ms(0), s(1)),
            "Flows of a shorter RTT share as if it were this; 0: each by its own.",
        ),
        ParamSpec::whole(
            "transition_rounds",
            "",
            500,
            (0, 1_000_000),
            "Round trips after slow start until the reference RTT is in force.",
        ),
    ],
};

/// α = 1, and one segment of window: both have twenty binary places.
const ONE: u64 = 1 << PLACES;
const PLACES: u32 = 20;
/// The reference never takes cwnd below two segments, so that a delayed ACK cannot stall it.
const LEAST_WINDOW: u64 = 2;
/// The least of the window in parts: an eighth of a segment.
const LEAST: u64 = ONE / 8;
/// Linux paces payload at a rate worked out from whole packets: IPv4, TCP and timestamps make the difference.
const HEADERS: u64 = 52;

/// Prague's state.
#[derive(Clone, Debug)]
pub struct Prague {
    shift: u32,
    reference: Duration,
    transition: u32,
    /// α/g, whose last places [`ONE`] does not show.
    scaled_alpha: u64,
    /// The window in 1/[`ONE`] segments.
    window: u64,
    /// The window before the last reduction for a loss.
    window_before_loss: u64,
    /// No congestion yet.
    is_starting: bool,
    has_seen_mark: bool,
    /// Losses are being repaired: no growth.
    in_loss: bool,
    /// Round trips since slow start ended.
    rounds: u32,
    /// The round trip ends when this byte is acknowledged.
    end: u64,
    delivered: Bytes,
    marked: Bytes,
    updated_at: Time,
    /// What had been sent at the last reduction, which is not answered before that is acknowledged,
    recover: u64,
    /// nor before the reference RTT has passed since.
    reduced_at: Time,
}

impl Registered for Prague {
    const CARD: Card = CARD;

    const SCALABLE_RESPONSE: bool = true;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        let shift = given.whole("shift_g") as u32;
        Ok(Prague {
            shift,
            reference: given.time("reference_rtt"),
            transition: given.whole("transition_rounds") as u32,
            scaled_alpha: ((given.number("initial_alpha") * ONE as f64) as u64) << shift,
            window: 0,
            window_before_loss: 0,
            is_starting: true,
            has_seen_mark: false,
            in_loss: false,
            rounds: 0,
            end: 0,
            delivered: 0,
            marked: 0,
            updated_at: Time::ZERO,
            recover: 0,
            reduced_at: Time::ZERO,
        })
    }
}

impl CongestionControl for Prague {
    fn on_established(&mut self, now: Time, srtt: Option<Duration>, control: &mut Control) {
        self.window = parts(control.cwnd, control.mss);
        self.updated_at = now;
        self.pace(srtt.unwrap_or(Duration::ZERO), control);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let delivered = u64::from(ack.delivered_segments) * u64::from(ack.mss);
        self.delivered += delivered;
        self.marked += ack.marked;
        if ack.marked > 0 {
            // The stack asks once in each of its episodes, which last a round trip; two of them may be too long.
            self.answer_mark(ack.now, ack.snd_una, ack.snd_nxt, control);
        }
        self.grow(ack, delivered.saturating_sub(ack.marked), control);
        self.approach(control);
        let has_passed = ack.snd_una >= self.end;
        if has_passed && (!self.is_independent() || ack.now.since(self.updated_at) >= self.reference) {
            self.close_round(ack);
        }
        self.pace(ack.srtt, control);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        if congestion.is_repeated_timeout() {
            return;
        }
        match congestion.signal {
            Signal::Ecn => {
                self.answer_mark(congestion.now, congestion.snd_una, congestion.snd_nxt, control);
            }
            Signal::Loss | Signal::Timeout { .. } => self.answer_loss(control),
        }
    }

    fn on_phase(&mut self, change: &PhaseChange, control: &mut Control) {
        self.in_loss &= change.to != Phase::Open;
        // A loss is answered in a window that marks have cut already, too.
        if (change.from, change.to) == (Phase::Cwr, Phase::Recovery) {
            self.answer_loss(control);
        }
    }

    fn on_undo(&mut self, _now: Time, _control: &mut Control) {
        self.window = self.window.max(self.window_before_loss);
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        out.push(("alpha", self.alpha() as f64 / ONE as f64));
        out.push(("window", self.window as f64 / ONE as f64));
    }
}

impl Prague {
    fn alpha(&self) -> u64 {
        self.scaled_alpha >> self.shift
    }

    /// Does the reference RTT bound the pace? Only one that is longer than the path's changes anything.
    fn is_independent(&self) -> bool {
        self.has_seen_mark && !self.is_starting && self.rounds >= self.transition
    }

    /// (RTT/R)², the share of a segment a round trip that is added: [`ONE`] on paths as long as the reference.
    fn increase(&self, srtt: Duration) -> u64 {
        let (rtt, reference) = (srtt.as_us(), self.reference.as_us());
        match self.is_independent() && rtt > 0 && rtt < reference {
            true => (ONE * rtt * rtt + reference * reference / 2) / (reference * reference),
            false => ONE,
        }
    }

    fn answer_loss(&mut self, control: &mut Control) {
        self.window_before_loss = self.window;
        self.in_loss = true;
        self.reduce(self.window / 2, control);
    }

    /// Once in a round trip, and once in the reference RTT where that is in force.
    fn answer_mark(&mut self, now: Time, snd_una: u64, snd_nxt: u64, control: &mut Control) {
        let is_first = !std::mem::replace(&mut self.has_seen_mark, true);
        let is_too_soon = self.is_independent() && now.since(self.reduced_at) < self.reference;
        if self.in_loss || !is_first && (snd_una <= self.recover || is_too_soon) {
            return;
        }
        (self.recover, self.reduced_at) = (snd_nxt, now);
        // Half a unit more, so that the rounding has no bias.
        self.reduce((self.alpha() * self.window + ONE) >> (PLACES + 1), control);
    }

    fn reduce(&mut self, by: u64, control: &mut Control) {
        self.window = (self.window - by).max(LEAST);
        self.is_starting = false;
        control.ssthresh = landing(self.window >> PLACES, control.mss);
    }

    /// Marks do not stop the growth: it is by those packets that have none, also while the window comes down.
    fn grow(&mut self, ack: &Ack, unmarked: Bytes, control: &Control) {
        // Paced at its own rate a window need not be full, and one below two segments never is: then it is enough that the
        // application has more to send, and that seven eighths were out.
        let is_used = self.window < LEAST_WINDOW * ONE || 8 * ack.prior_in_flight >= 7 * control.cwnd;
        let is_limited = ack.cwnd_limited || is_used && !ack.app_limited;
        if unmarked == 0 || self.in_loss || !is_limited {
            return;
        }
        let unmarked = parts(unmarked, control.mss);
        let room = parts(control.ssthresh.min(1 << 42), control.mss).saturating_sub(self.window);
        let slow = if self.is_starting { unmarked.min(room) } else { 0 };
        self.window += slow;
        // As if at least one segment were out: an ACK adds no more than the one it is of.
        let window = self.window.max(ONE);
        self.window += (unmarked - slow) * self.increase(ack.srtt) / window;
    }

    /// One segment an ACK, up or down; in slow start all that was gained.
    fn approach(&mut self, control: &mut Control) {
        let mss = u64::from(control.mss);
        let target = self.window.div_ceil(ONE).max(LEAST_WINDOW) * mss;
        let step = if self.is_starting { u64::MAX } else { mss };
        control.cwnd = match control.cwnd > target {
            true => control.cwnd.saturating_sub(step).max(target),
            false => control.cwnd.saturating_add(step).min(target),
        };
    }

    fn close_round(&mut self, ack: &Ack) {
        if self.has_seen_mark {
            let share = (self.marked << PLACES) / self.delivered.max(1);
            let decayed = self.scaled_alpha - (self.scaled_alpha >> self.shift);
            self.scaled_alpha = (decayed + share).min(ONE << self.shift);
            self.updated_at = ack.now;
        }
        self.rounds += u32::from(!self.is_starting);
        self.delivered = 0;
        self.marked = 0;
        self.end = ack.snd_nxt;
    }

    /// The window a round trip; twice that in slow start, where each ACK lets two leave.
    fn pace(&self, srtt: Duration, control: &mut Control) {
        if srtt.is_zero() {
            return;
        }
        let gain = if control.cwnd < control.ssthresh / 2 { 2 } else { 1 };
        let packet = u64::from(control.mss) + HEADERS;
        let bytes = (u128::from(self.window * gain) * u128::from(packet)) >> PLACES;
        control.pacing = Some(Rate::from_bytes_over((bytes as u64).max(1), srtt));
    }
}

/// Bytes in parts of a segment.
fn parts(bytes: Bytes, mss: u32) -> u64 {
    (bytes << PLACES) / u64::from(mss)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Counting;
    use crate::cc::fixture::{Lab, build};
    use crate::scenario::Value;

    /// A path of this RTT on which every packet whose number `every` divides is marked; slow start is over.
    struct Path {
        lab: Lab,
        prague: Prague,
        every: u64,
        sent: u64,
        recover: u64,
    }

    impl Path {
        fn new(rtt: Duration, every: u64, pairs: &[(&str, Value)]) -> Self {
            let mut lab = Lab::avoiding(4, Counting::PerSegment);
            lab.rtt = rtt;
            let mut prague = build::<Prague>(pairs);
            prague.on_established(lab.now, Some(rtt), &mut lab.control);
            prague.is_starting = false;
            Path { lab, prague, every, sent: 0, recover: 0 }
        }

        /// The mean window over this many round trips, in segments.
        fn rounds(&mut self, count: u64) -> f64 {
            let mut windows = 0.0;
            for _ in 0..count {
                let acks = self.lab.window();
                let gap = self.lab.rtt / acks;
                for _ in 0..acks {
                    self.lab.now += gap;
                    self.acked();
                }
                windows += self.prague.window as f64 / ONE as f64;
            }
            windows / count as f64
        }

        fn acked(&mut self) {
            self.sent += 1;
            let is_marked = self.sent % self.every == 0;
            let mut ack = self.lab.ack(1);
            if self.lab.phase == Phase::Cwr && ack.snd_una > self.recover {
                self.lab.change(Phase::Open, &mut self.prague);
            }
            if is_marked {
                ack.marked = u64::from(ack.mss);
                if self.lab.phase == Phase::Open {
                    let congestion = self.lab.congestion(Signal::Ecn);
                    self.recover = self.lab.snd_nxt;
                    self.prague.on_congestion(&congestion, &mut self.lab.control);
                    self.lab.change(Phase::Cwr, &mut self.prague);
                }
            }
            self.prague.on_ack(&ack, &mut self.lab.control);
        }
    }

    #[test]
    fn the_window_is_twice_the_odds_against_a_mark() {
        // Per round trip (1 − p) segments more and p/2 of the window less: w = 2·(1 − p)/p. A reduction waits for the first
        // mark after a round trip, which here, with two marks a round trip, takes up to a fifth longer than one.
        for every in [5, 10, 20, 50] {
            let mut path = Path::new(Duration::from_ms(50), every, &[]);
            path.rounds(1_000);
            let share = 1.0 / every as f64;
            let ratio = path.rounds(1_000) / (2.0 * (1.0 - share) / share);
            assert!((0.95..1.2).contains(&ratio), "one in {every}: {ratio:.3} of the law");
            let alpha = path.prague.alpha() as f64 / ONE as f64;
            assert!((alpha / share - 1.0).abs() < 0.2, "alpha {alpha} for a share of {share}");
        }
    }

    #[test]
    fn below_the_reference_the_rate_is_that_of_the_reference() {
        let rate = |rtt_ms: u64, transition: f64| {
            let pairs = [("transition_rounds", Value::Number(transition))];
            let mut path = Path::new(Duration::from_ms(rtt_ms), 50, &pairs);
            path.rounds(4_000);
            path.rounds(2_000) / rtt_ms as f64
        };
        let reference = rate(25, 0.0);
        for rtt_ms in [5, 10] {
            assert!((rate(rtt_ms, 0.0) / reference - 1.0).abs() < 0.15, "{rtt_ms} ms");
        }
        // Before the transition windows are alike, so that five times shorter is five times faster.
        assert!((rate(5, 1e6) / reference - 5.0).abs() < 0.5);
        // A longer RTT is its own: the same window.
        assert!((rate(50, 0.0) * 50.0 / (reference * 25.0) - 1.0).abs() < 0.1);
    }

    #[test]
    fn the_first_mark_ends_slow_start_and_halves() {
        let mut lab = Lab::new(40, Counting::PerSegment);
        let mut prague = build::<Prague>(&[]);
        prague.on_established(lab.now, None, &mut lab.control);
        lab.round(&mut prague);
        assert_eq!(lab.window(), 80, "a segment for each one delivered");
        prague.on_congestion(&lab.congestion(Signal::Ecn), &mut lab.control);
        assert_eq!(lab.control.ssthresh_segments(), 40);
        // cwnd comes down by one segment an ACK; meanwhile unmarked packets add their part of one.
        lab.change(Phase::Cwr, &mut prague);
        lab.round(&mut prague);
        assert!((40..=42).contains(&lab.window()), "{}", lab.window());
    }

    #[test]
    fn loss_halves_and_nothing_grows_until_it_is_repaired() {
        let mut lab = Lab::avoiding(100, Counting::PerSegment);
        let mut prague = build::<Prague>(&[]);
        prague.on_established(lab.now, None, &mut lab.control);
        prague.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
        lab.change(Phase::Recovery, &mut prague);
        assert_eq!((prague.window, lab.control.ssthresh_segments()), (50 * ONE, 50));
        lab.round(&mut prague);
        assert_eq!(prague.window, 50 * ONE);
        lab.change(Phase::Open, &mut prague);
        lab.round(&mut prague);
        assert!(prague.window > 50 * ONE);
        prague.on_undo(lab.now, &mut lab.control);
        assert_eq!(prague.window, 100 * ONE);
    }

    #[test]
    fn alpha_keeps_what_its_last_places_cannot_show() {
        // One mark in ten thousand: DCTCP's 1/1024 would take it for none.
        let mut prague = build::<Prague>(&[("initial_alpha", Value::Number(0.0))]);
        prague.has_seen_mark = true;
        let lab_ack = Lab::avoiding(4, Counting::PerSegment).ack(1);
        for _ in 0..200 {
            (prague.delivered, prague.marked) = (10_000_000, 1_000);
            prague.close_round(&lab_ack);
        }
        let alpha = prague.alpha() as f64 / ONE as f64;
        assert!((alpha / 1e-4 - 1.0).abs() < 0.05, "{alpha}");
    }

    #[test]
    fn below_two_segments_only_the_pacing_slows_down() {
        let mut lab = Lab::avoiding(2, Counting::PerSegment);
        let mut prague = build::<Prague>(&[]);
        prague.on_established(lab.now, Some(lab.rtt), &mut lab.control);
        let paced = |lab: &Lab| lab.control.pacing.expect("it paces").as_bps();
        let before = paced(&lab);
        for _ in 0..6 {
            (prague.recover, lab.snd_una) = (0, 1);
            prague.on_congestion(&lab.congestion(Signal::Ecn), &mut lab.control);
        }
        let mut ack = lab.ack(1);
        ack.marked = ack.newly_acked;
        prague.on_ack(&ack, &mut lab.control);
        assert_eq!((lab.window(), prague.window), (2, LEAST));
        assert_eq!(before / paced(&lab), 16);
    }
}
