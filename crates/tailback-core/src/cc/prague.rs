//! TCP Prague: cut in proportion to the share of marked packets, at the pace of an RTT that short paths share.
//!
//! It counts its window in parts of a segment and brings cwnd there a segment an ACK, in every phase, so the stack does
//! not reduce it. A window of a few segments is too coarse for that: then it counts a rate, and the window follows.

use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, Phase, PhaseChange, Signal};
use crate::params::{Card, Checked, ParamSpec, ms, s};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Rate, Time};

const CARD: Card = Card {
    name: "prague",
    title: "TCP Prague",
    law: "α ← (1 − g)·α + g·F once in R = max(RTT, 25 ms), F the marked share; w ← w·(1 − α/2) at most once in R; \
          w ← w + (RTT/R)²/w for each packet without mark; the first mark halves, loss too; paced at w/RTT; up to four \
          packets w/R is counted in place of w",
    source: "draft-briscoe-iccrg-prague-congestion-control-04; where it leaves open, the reference for Linux: \
             L4STeam's `tcp_prague.c` 0.7",
    differs: &[
        "Its packets stay as large as the path's MTU allows: the reference makes them smaller where less than two leave \
         in R, which is below some 1 Mbit/s",
        "The segments of a burst are the stack's (`burst_segments`); the reference bounds one to 250 µs",
        "It stays Prague where the connection has no accurate ECN (`accecn`); the reference turns to Reno then",
        "No search for a classic queue that marks (RFC 9331 section 4.3); it is off in the reference",
    ],
    live_twin: None,
    params: &[
        ParamSpec::whole("shift_g", "", 4, (1, 10), "g = 2^-shift_g."),
        ParamSpec::share(
            "initial_alpha",
            0.0,
            (0.0, 1.0),
            "Alpha at the first mark; 0: that mark halves the window.",
        ),
        ParamSpec::time(
            "reference_rtt",
            ms(25),
            (ms(0), s(1)),
            "Flows of a shorter RTT share as if it were this; 0: each by its own.",
        ),
        ParamSpec::whole(
            "transition_rounds",
            "",
            4,
            (0, 1_000_000),
            "Round trips after slow start until the reference RTT is in force.",
        ),
        ParamSpec::whole(
            "rate_window",
            "",
            4,
            (0, 1_000),
            "The largest window, in packets of 1500 bytes, that is counted as a rate; 0: none.",
        ),
    ],
};

/// One segment of window has twenty binary places, α = 1 four more.
const ONE: u64 = 1 << 20;
const ALPHA_PLACES: u32 = 24;
const CERTAIN: u64 = 1 << ALPHA_PLACES;
/// The reference never takes cwnd below two segments, so that a delayed ACK cannot stall it.
const LEAST_WINDOW: u64 = 2;
/// The least rate, in bytes a second: 100 kbit/s.
const LEAST_RATE: u64 = 12_500;
/// Linux paces payload at a rate worked out from whole packets: IPv4, TCP and timestamps make the difference.
const HEADERS: u64 = 52;
/// The packet that growth is counted in, whatever the path's.
const PACKET: u64 = 1_500;
/// Of a longer RTT the reference does not scale the growth, lest it overflow.
const LONGEST_SCALED: Duration = Duration::from_ms(100);
/// Linux keeps the smoothed RTT in eighths of a microsecond; a second has about 2^23 of them, by which a rate becomes a
/// window, and exactly this many, by which a window becomes a rate.
const EIGHTHS: u64 = 8_000_000;
const EIGHTHS_SHIFT: u32 = 23;
/// The weight of a round trip in the mean RTT by which a rate becomes a window: 2^-7.
const MEAN_SHIFT: u32 = 7;

/// Prague's state.
#[derive(Clone, Debug)]
pub struct Prague {
    shift: u8,
    /// In [`eighths`].
    reference: u32,
    /// Round trips to come until the reference RTT is in force.
    transition: u32,
    /// Bytes of the largest window that is counted as a rate.
    by_rate_up_to: u32,
    /// The first mark halves the window, as alpha is not known.
    first_mark_halves: bool,
    /// α/g, whose last places [`CERTAIN`] does not show.
    scaled_alpha: u64,
    /// The window in 1/[`ONE`] segments.
    window: u64,
    /// Bytes a second.
    rate: u64,
    /// The rate before the last reduction for a loss.
    rate_before_loss: u64,
    /// The rate leads and the window follows.
    is_by_rate: bool,
    /// The share of a segment a round trip that is added, by [`Prague::increase`] when the window last changed.
    increase: u32,
    /// The mean of the smoothed RTT over some hundred round trips, in [`eighths`] times 2^[`MEAN_SHIFT`].
    mean_rtt: u64,
    has_seen_mark: bool,
    /// Losses are being repaired: no growth.
    in_loss: bool,
    /// The round trip ends when this byte is acknowledged.
    end: u64,
    /// Packets of this round trip.
    delivered: u32,
    marked: u32,
    updated_at: Time,
    reduced_at: Time,
}

impl Registered for Prague {
    const CARD: Card = CARD;

    const SCALABLE_RESPONSE: bool = true;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        let shift = given.whole("shift_g") as u8;
        let initial_alpha = given.number("initial_alpha");
        Ok(Prague {
            shift,
            reference: eighths(given.time("reference_rtt")) as u32,
            transition: given.whole("transition_rounds") as u32,
            by_rate_up_to: given.whole("rate_window") as u32 * PACKET as u32,
            first_mark_halves: initial_alpha == 0.0,
            scaled_alpha: ((initial_alpha * CERTAIN as f64) as u64) << shift,
            window: 0,
            rate: 0,
            rate_before_loss: 0,
            is_by_rate: false,
            increase: ONE as u32,
            mean_rtt: 0,
            has_seen_mark: false,
            in_loss: false,
            end: 0,
            delivered: 0,
            marked: 0,
            updated_at: Time::ZERO,
            reduced_at: Time::ZERO,
        })
    }
}

impl CongestionControl for Prague {
    fn on_established(&mut self, now: Time, srtt: Option<Duration>, control: &mut Control) {
        let srtt = srtt.unwrap_or(Duration::ZERO);
        self.window = parts(control.cwnd, control.mss);
        self.updated_at = now;
        self.mean_rtt = eighths(srtt).max(8) << MEAN_SHIFT;
        self.rate = self.rate_of_window(srtt, control);
        self.pace(now, srtt, 0, control);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let marked = ack.marked.div_ceil(u64::from(ack.mss)) as u32;
        self.delivered += ack.delivered_segments;
        self.marked += marked;
        self.grow(ack, marked, control);
        let has_passed = ack.snd_una >= self.end;
        if has_passed
            && (!self.is_independent(control) || self.has_reference_passed(self.updated_at, ack.now))
        {
            self.close_round(ack, control);
        }
        self.pace(ack.now, ack.srtt, ack.in_flight, control);
        self.choose(ack.srtt, control);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        if congestion.is_repeated_timeout() {
            return;
        }
        match congestion.signal {
            Signal::Ecn => self.answer_marks(congestion.now, congestion.srtt, control),
            Signal::Loss | Signal::Timeout { .. } => self.answer_loss(congestion.srtt, control),
        }
    }

    fn on_phase(&mut self, change: &PhaseChange, control: &mut Control) {
        self.in_loss &= change.to != Phase::Open;
        // A loss is answered in a window that marks have cut already, too.
        if (change.from, change.to) == (Phase::Cwr, Phase::Recovery) {
            self.answer_loss(change.srtt, control);
        }
    }

    fn on_undo(&mut self, _now: Time, control: &mut Control) {
        self.in_loss = false;
        self.rate = self.rate.max(self.rate_before_loss);
        self.window = self.window_of_rate(control);
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        out.push(("alpha", self.alpha() as f64 / CERTAIN as f64));
        out.push(("window", self.window as f64 / ONE as f64));
    }
}

impl Prague {
    fn alpha(&self) -> u64 {
        self.scaled_alpha >> self.shift
    }

    /// Does the reference RTT bound the pace? Only one that is longer than the path's changes anything.
    fn is_independent(&self, control: &Control) -> bool {
        self.transition == 0 && !control.is_in_slow_start(false)
    }

    fn has_reference_passed(&self, since: Time, now: Time) -> bool {
        eighths(now.since(since)) >= u64::from(self.reference)
    }

    /// Does the rate lead now?
    fn leads_by_rate(&self, control: &Control) -> bool {
        self.is_by_rate && self.is_independent(control)
    }

    /// The longer of RTT and reference, in [`eighths`].
    fn virtual_rtt(&self, srtt: Duration) -> u64 {
        eighths(srtt).max(u64::from(self.reference))
    }

    /// (RTT/R)², the share of a segment a round trip that is added: [`ONE`] on paths as long as the reference.
    fn increase(&self, srtt: Duration) -> u32 {
        let (rtt, reference) = (eighths(srtt), u64::from(self.reference));
        match self.transition == 0 && rtt > 0 && srtt <= LONGEST_SCALED && rtt < reference {
            true => {
                rounded(u128::from(ONE * rtt) * u128::from(rtt), u128::from(reference * reference)) as u32
            }
            false => ONE as u32,
        }
    }

    /// Bytes a second that a window makes.
    fn rate_of_window(&self, srtt: Duration, control: &Control) -> u64 {
        let a_segment = EIGHTHS * packet(control) / eighths(srtt).max(1);
        (((u128::from(a_segment) * u128::from(self.window)) >> 20) as u64).max(LEAST_RATE)
    }

    /// The window that a rate fills in the mean RTT.
    fn window_of_rate(&self, control: &Control) -> u64 {
        let parts = (u128::from(self.rate) * u128::from(self.mean_rtt >> MEAN_SHIFT)) >> (EIGHTHS_SHIFT - 20);
        (parts as u64).div_ceil(packet(control))
    }

    fn answer_loss(&mut self, srtt: Duration, control: &Control) {
        self.rate_before_loss = self.rate;
        self.in_loss = true;
        if self.leads_by_rate(control) {
            self.rate -= self.rate / 2;
            self.window = self.window_of_rate(control);
        } else {
            self.window -= self.window / 2;
            self.rate = self.rate_of_window(srtt, control);
        }
    }

    /// The stack asks once a round trip; it is answered once in the reference RTT where that is in force.
    fn answer_marks(&mut self, now: Time, srtt: Duration, control: &Control) {
        if self.is_independent(control) && !self.has_reference_passed(self.reduced_at, now) {
            return;
        }
        self.reduced_at = now;
        let alpha = self.alpha();
        if self.leads_by_rate(control) {
            let reduction = (u128::from(self.rate) * u128::from(alpha)) >> (ALPHA_PLACES + 1);
            self.rate = (self.rate - reduction as u64).max(LEAST_RATE);
            self.window = self.window_of_rate(control);
        } else {
            // Half a unit more, so that the rounding has no bias.
            self.window -= (alpha * self.window + CERTAIN) >> (ALPHA_PLACES + 1);
            self.rate = self.rate_of_window(srtt, control);
        }
    }

    /// Marks do not stop the growth: it is by those packets that have none, also while the window comes down.
    fn grow(&mut self, ack: &Ack, marked: u32, control: &mut Control) {
        if marked > 0 {
            if !self.has_seen_mark && self.first_mark_halves {
                self.window = self.window.div_ceil(2);
            }
            self.has_seen_mark = true;
        }
        let mut unmarked = u64::from(ack.delivered_segments.saturating_sub(marked));
        if unmarked == 0 || self.in_loss || !ack.cwnd_limited {
            return self.approach(ack.srtt, control);
        }
        if control.is_in_slow_start(false) {
            let mss = u64::from(control.mss);
            let before = control.cwnd;
            control.cwnd = (before + unmarked * mss).min(control.ssthresh);
            unmarked -= ((control.cwnd - before) / mss).min(unmarked);
            // What the first mark took is given back where the same ACK has a packet without mark.
            self.window = parts(control.cwnd, control.mss);
            if unmarked == 0 {
                self.increase = self.increase(ack.srtt);
                return;
            }
        }
        if self.leads_by_rate(control) {
            let rtt = self.virtual_rtt(ack.srtt);
            let gain = ((unmarked * PACKET) << EIGHTHS_SHIFT) / rtt;
            let span = u128::from(packet(control)) << EIGHTHS_SHIFT;
            let window = (u128::from(self.rate) * u128::from(rtt)).div_ceil(span);
            if window > 0 {
                self.rate += rounded(u128::from(gain), window);
            }
            self.window = (self.window + unmarked).max(self.window_of_rate(control));
        } else {
            let gain = rounded(
                u128::from(unmarked * u64::from(self.increase)) << 20,
                u128::from(self.window.max(1)),
            );
            self.window += (gain * PACKET / packet(control)).max(unmarked);
            self.rate = (self.rate + unmarked).max(self.rate_of_window(ack.srtt, control));
        }
        self.approach(ack.srtt, control);
    }

    /// One segment an ACK, up or down.
    fn approach(&mut self, srtt: Duration, control: &mut Control) {
        let mss = u64::from(control.mss);
        let target = self.window.div_ceil(ONE).max(LEAST_WINDOW) * mss;
        if control.cwnd > target {
            control.cwnd = control.cwnd.saturating_sub(mss).max(target);
            control.ssthresh = control.cwnd;
        } else if control.cwnd < target {
            control.cwnd = (control.cwnd + mss).min(target);
        } else {
            return;
        }
        self.increase = self.increase(srtt);
    }

    fn close_round(&mut self, ack: &Ack, control: &Control) {
        if self.has_seen_mark {
            let share = (u64::from(self.marked) << ALPHA_PLACES) / u64::from(self.delivered.max(1));
            let decayed = self.scaled_alpha - (self.scaled_alpha >> self.shift);
            self.scaled_alpha = (decayed + share).min(CERTAIN << self.shift);
            self.updated_at = ack.now;
        }
        self.mean_rtt = self.mean_rtt + eighths(ack.srtt) - (self.mean_rtt >> MEAN_SHIFT);
        self.transition -= u32::from(!control.is_in_slow_start(false)).min(self.transition);
        self.delivered = 0;
        self.marked = 0;
        self.end = ack.snd_nxt;
        self.increase = self.increase(ack.srtt);
    }

    /// The window a round trip, or the rate, which goes 3 % up and down so that a marking step sees both; twice that in
    /// slow start, where each ACK lets two leave.
    fn pace(&mut self, now: Time, srtt: Duration, in_flight: Bytes, control: &mut Control) {
        let rate = if self.leads_by_rate(control) {
            let offset = (4 * self.rate) >> 7;
            let half = Duration::from_us(self.virtual_rtt(srtt) >> 4);
            match now.since(self.updated_at) >= half {
                true => self.rate - offset,
                false => self.rate + offset,
            }
        } else {
            let segments = (self.window / ONE).max(in_flight / u64::from(control.mss));
            self.rate = (EIGHTHS * packet(control) / eighths(srtt).max(1) * segments).max(LEAST_RATE);
            self.rate
        };
        if srtt.is_zero() {
            return;
        }
        let gain = if control.cwnd < control.ssthresh / 2 { 2 } else { 1 };
        control.pacing = Some(Rate::from_bps(rate.saturating_mul(8 * gain)));
    }

    /// Rate or window: by the window's size, once a mark was heard.
    fn choose(&mut self, srtt: Duration, control: &Control) {
        self.is_by_rate =
            self.has_seen_mark && control.cwnd_segments() * packet(control) <= u64::from(self.by_rate_up_to);
        if self.is_by_rate {
            self.window = self.window_of_rate(control);
        } else {
            self.rate = self.rate_of_window(srtt, control);
        }
    }
}

/// The bytes of a full packet.
fn packet(control: &Control) -> u64 {
    u64::from(control.mss) + HEADERS
}

/// A time in eighths of a microsecond.
fn eighths(span: Duration) -> u64 {
    span.as_ps() / 125_000
}

/// Bytes in parts of a segment.
fn parts(bytes: Bytes, mss: u32) -> u64 {
    bytes * ONE / u64::from(mss)
}

fn rounded(dividend: u128, divisor: u128) -> u64 {
    ((dividend + divisor / 2) / divisor) as u64
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
        // Per round trip (1 − p) packets of 1500 bytes more and p/2 of the window less: w = 2·(1 − p)/p. A reduction
        // waits for the first mark after a round trip, and so up to the space between two marks.
        for every in [5, 10, 20, 50] {
            let mut path = Path::new(Duration::from_ms(50), every, &[]);
            path.rounds(1_000);
            let share = 1.0 / every as f64;
            let law = 2.0 * (1.0 - share) / share * PACKET as f64 / packet(&path.lab.control) as f64;
            let ratio = path.rounds(1_000) / law;
            assert!(
                (0.95..1.05 + every as f64 / law).contains(&ratio),
                "one in {every}: {ratio:.3} of the law"
            );
            let alpha = path.prague.alpha() as f64 / CERTAIN as f64;
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
            // It reduces at the first mark after a round trip, if the reference RTT has passed then: up to a round trip
            // and the space between two marks later than that.
            let segments_a_ms = rate(rtt_ms, 0.0);
            let wait = (rtt_ms as f64 + 50.0 / segments_a_ms) / 25.0;
            assert!((0.85..1.0 + wait).contains(&(segments_a_ms / reference)), "{rtt_ms} ms");
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
        prague.on_established(lab.now, Some(lab.rtt), &mut lab.control);
        lab.round(&mut prague);
        assert_eq!(lab.window(), 80, "a segment for each one delivered");
        // An ACK of a marked packet and another gives back what the mark took: slow start sets the window by cwnd.
        let mut both = prague.clone();
        let (mut control, mut ack) = (lab.control, lab.ack(2));
        ack.marked = u64::from(ack.mss);
        both.on_ack(&ack, &mut control);
        assert_eq!((both.window, control.cwnd_segments()), (81 * ONE, 81));
        prague.on_congestion(&lab.congestion(Signal::Ecn), &mut lab.control);
        assert_eq!(prague.window, 80 * ONE, "alpha is not known yet");
        let mut ack = lab.ack(1);
        ack.marked = u64::from(ack.mss);
        prague.on_ack(&ack, &mut lab.control);
        assert_eq!((prague.window, lab.window(), lab.control.ssthresh_segments()), (40 * ONE, 79, 79));
        // cwnd comes down by one segment an ACK; meanwhile unmarked packets add their part of one.
        lab.change(Phase::Cwr, &mut prague);
        lab.round(&mut prague);
        assert!((40..=43).contains(&lab.window()), "{}", lab.window());
    }

    #[test]
    fn loss_halves_and_nothing_grows_until_it_is_repaired() {
        let mut lab = Lab::avoiding(100, Counting::PerSegment);
        let mut prague = build::<Prague>(&[]);
        prague.on_established(lab.now, Some(lab.rtt), &mut lab.control);
        prague.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
        lab.change(Phase::Recovery, &mut prague);
        assert_eq!(prague.window, 50 * ONE);
        lab.round(&mut prague);
        assert_eq!(prague.window, 50 * ONE);
        lab.change(Phase::Open, &mut prague);
        lab.round(&mut prague);
        assert!(prague.window > 50 * ONE);
        prague.on_undo(lab.now, &mut lab.control);
        // The rate comes back exactly, and a window of it is short by eight million in 2^23.
        assert!((93 * ONE..97 * ONE).contains(&prague.window), "{}", prague.window);
    }

    #[test]
    fn alpha_keeps_what_its_last_places_cannot_show() {
        // One mark in ten thousand: DCTCP's 1/1024 would take it for none.
        let mut prague = build::<Prague>(&[]);
        prague.has_seen_mark = true;
        let mut lab = Lab::avoiding(4, Counting::PerSegment);
        let ack = lab.ack(1);
        for _ in 0..200 {
            (prague.delivered, prague.marked) = (10_000, 1);
            prague.close_round(&ack, &lab.control);
        }
        let alpha = prague.alpha() as f64 / CERTAIN as f64;
        assert!((alpha / 1e-4 - 1.0).abs() < 0.05, "{alpha}");
    }

    #[test]
    fn a_window_of_a_few_segments_is_a_rate_with_a_floor() {
        let mut lab = Lab::avoiding(4, Counting::PerSegment);
        let pairs = [("initial_alpha", Value::Number(1.0)), ("transition_rounds", Value::Number(0.0))];
        let mut prague = build::<Prague>(&pairs);
        prague.on_established(lab.now, Some(lab.rtt), &mut lab.control);
        let mut rates = Vec::new();
        for _ in 0..12 {
            lab.now += Duration::from_ms(30);
            prague.on_congestion(&lab.congestion(Signal::Ecn), &mut lab.control);
            let mut ack = lab.ack(1);
            ack.marked = ack.newly_acked;
            prague.on_ack(&ack, &mut lab.control);
            rates.push(prague.rate);
        }
        assert!(prague.is_by_rate);
        assert_eq!(lab.window(), 2, "cwnd itself stays at two segments");
        assert_eq!(rates.last(), Some(&LEAST_RATE));
        assert!(rates[1] * 2 <= rates[0] + 1, "{rates:?}");
        // It leaves 3 % above and below that in turns.
        let paced = |at_ms: u64| {
            let (mut prague, mut control) = (prague.clone(), lab.control);
            prague.pace(prague.updated_at + Duration::from_ms(at_ms), lab.rtt, 0, &mut control);
            control.pacing.expect("it paces").as_bps() / 8
        };
        let half = prague.virtual_rtt(lab.rtt) / 8 / 1_000 / 2;
        assert_eq!((paced(0), paced(half + 1)), (LEAST_RATE + LEAST_RATE / 32, LEAST_RATE - LEAST_RATE / 32));
    }
}
