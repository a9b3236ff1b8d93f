//! Properties of every congestion control in the registry, under any sequence of events.

use proptest::prelude::*;
use tailback_core::cc::registry::{Algorithm, build, cards};
use tailback_core::cc::{
    Ack, Congestion, CongestionControl, Control, Counting, DeliverySample, Phase, PhaseChange, Resume, Signal,
};
use tailback_core::params::{Card, Kind, ParamSpec};
use tailback_core::scenario::{Params, Value};
use tailback_core::time::{Duration, Time};

const MSS: u32 = 1448;

/// A minimal stack: it reduces to ssthresh at once and keeps the counters that algorithms read.
struct Model {
    algorithm: Algorithm,
    control: Control,
    now: Time,
    phase: Phase,
    rtt: Duration,
    rtt_min: Duration,
    snd_una: u64,
    snd_nxt: u64,
    delivered: u64,
    lost: u64,
    round_end: u64,
    recover: u64,
    before_reduction: (u64, u64),
    counting: Counting,
    inclusive: bool,
}

impl Model {
    fn new(algorithm: Algorithm, counting: Counting) -> Self {
        let mss = u64::from(MSS);
        let control = Control {
            cwnd: 10 * mss,
            ssthresh: Control::UNLIMITED,
            pacing: None,
            mss: MSS,
            self_limited: false,
        };
        let mut model = Model {
            algorithm,
            control,
            now: Time::from_ms(500),
            phase: Phase::Open,
            rtt: Duration::from_ms(80),
            rtt_min: Duration::MAX,
            snd_una: 0,
            snd_nxt: 10 * mss,
            delivered: 0,
            lost: 0,
            round_end: 0,
            recover: 0,
            before_reduction: (control.cwnd, control.ssthresh),
            counting,
            inclusive: !matches!(counting, Counting::PerSegment),
        };
        model.algorithm.on_established(model.now, Some(model.rtt), &mut model.control);
        model
    }

    fn acked(&mut self, segments: u32, duplicate: bool, limited: bool, gap: Duration, lost: u32) {
        let mss = u64::from(MSS);
        self.now += gap;
        let prior_in_flight = self.snd_nxt - self.snd_una;
        let bytes = if duplicate { 0 } else { (u64::from(segments) * mss).min(prior_in_flight) };
        self.snd_una += bytes;
        let delivered_segments = if duplicate { 1 } else { bytes.div_ceil(mss) as u32 };
        let prior_delivered = self.delivered;
        self.lost += u64::from(lost) * mss;
        self.delivered += u64::from(delivered_segments) * mss;
        if !duplicate {
            self.rtt_min = self.rtt_min.min(self.rtt);
        }
        let round_start = self.snd_una > self.round_end;
        if round_start {
            self.round_end = self.snd_nxt;
        }
        if !matches!(self.phase, Phase::Open | Phase::Disorder) && self.snd_una >= self.recover && bytes > 0 {
            if matches!(self.phase, Phase::Recovery | Phase::Cwr) && !self.algorithm.owns_window() {
                self.control.cwnd = self.control.ssthresh;
            }
            self.enter(Phase::Open);
        }
        let is_reducing = matches!(self.phase, Phase::Recovery | Phase::Cwr);
        let mut ack = Ack {
            now: self.now,
            mss: MSS,
            newly_acked: bytes,
            newly_acked_segments: bytes.div_ceil(mss) as u32,
            delivered_segments,
            lost_segments: lost,
            marked: 0,
            rtt: (!duplicate).then_some(self.rtt),
            rtt_read: (!duplicate).then_some(self.rtt),
            rtt_min: self.rtt_min,
            srtt: self.rtt,
            in_flight: self.snd_nxt - self.snd_una,
            prior_in_flight,
            departs: Time::ZERO,
            delivery: Some(DeliverySample { bytes: bytes + mss, interval: self.rtt }),
            delivered: self.delivered,
            prior_delivered,
            app_limited: !limited,
            lost: self.lost,
            is_delayed: false,
            round_start,
            cwnd_limited: limited,
            window_full: limited,
            may_grow: bytes > 0 && limited && !is_reducing,
            phase: self.phase,
            counting: self.counting,
            in_slow_start: self.control.cwnd < self.control.ssthresh
                || (self.inclusive && self.control.cwnd == self.control.ssthresh),
            stack_paces: false,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        };
        self.algorithm.on_plain_ack(&mut ack, self.inclusive, &mut self.control);
        if self.algorithm.wants_reduction() {
            let is_granted = matches!(self.phase, Phase::Open | Phase::Disorder);
            self.congestion(Signal::Ecn);
            assert!(!is_granted || !self.algorithm.wants_reduction(), "the request is not withdrawn");
        }
        self.snd_nxt = self.snd_nxt.max(self.snd_una + self.control.cwnd.min(1 << 30));
    }

    fn congestion(&mut self, signal: Signal) {
        let is_timeout = matches!(signal, Signal::Timeout { .. });
        if !is_timeout && !matches!(self.phase, Phase::Open | Phase::Disorder) {
            return;
        }
        self.before_reduction = (self.control.cwnd, self.control.ssthresh);
        self.recover = self.snd_nxt;
        let congestion = Congestion {
            now: self.now,
            signal,
            mss: MSS,
            in_flight: self.snd_nxt - self.snd_una,
            send_window: 1 << 30,
            srtt: self.rtt,
            rtt_min: self.rtt_min,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        };
        self.algorithm.on_congestion(&congestion, &mut self.control);
        if is_timeout {
            self.control.cwnd = u64::from(MSS);
        }
        self.enter(match signal {
            Signal::Loss => Phase::Recovery,
            Signal::Ecn => Phase::Cwr,
            Signal::Timeout { .. } => Phase::Loss,
        });
    }

    fn enter(&mut self, to: Phase) {
        let change = PhaseChange {
            now: self.now,
            from: self.phase,
            to,
            completes: matches!(self.phase, Phase::Cwr | Phase::Recovery) && to < Phase::Cwr,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            srtt: self.rtt,
            delivered: self.delivered,
            delivered_at: self.now,
            lost: self.lost,
        };
        self.phase = to;
        self.algorithm.on_phase(&change, &mut self.control);
    }

    fn undo(&mut self) {
        if !matches!(self.phase, Phase::Open | Phase::Disorder) {
            self.control.cwnd = self.control.cwnd.max(self.before_reduction.0);
            self.control.ssthresh = self.control.ssthresh.max(self.before_reduction.1);
            self.algorithm.on_undo(self.now, &mut self.control);
            self.enter(Phase::Open);
        }
    }

    fn idle(&mut self, idle: Duration) {
        self.now += idle;
        self.snd_una = self.snd_nxt;
        let resume = Resume { now: self.now, idle, app_limited: idle.as_ms() % 2 == 0, snd_nxt: 0 };
        self.algorithm.on_resume(&resume, &mut self.control);
        if idle > Duration::from_secs(1) && !self.algorithm.owns_window() {
            self.algorithm.on_idle_restart(self.now, idle, &mut self.control);
        }
        self.snd_nxt = self.snd_una + self.control.cwnd.min(1 << 30);
    }

    fn check(&self, name: &str) {
        let mss = u64::from(MSS);
        let Control { cwnd, ssthresh, pacing, .. } = self.control;
        assert!(cwnd >= mss, "{name}: cwnd {cwnd} is below a segment");
        assert!(cwnd < 1 << 40, "{name}: cwnd {cwnd} is absurd");
        assert!(ssthresh >= 2 * mss, "{name}: ssthresh {ssthresh} is below two segments");
        assert!(pacing.is_none_or(|rate| rate.as_bps() > 0), "{name}: pacing at zero never sends");
        let mut internals = Vec::new();
        self.algorithm.internals(&mut internals);
        for (quantity, value) in internals {
            assert!(!value.is_infinite(), "{name}: {quantity} is infinite");
        }
    }
}

/// Every algorithm in every variant.
fn everyone() -> Vec<(String, Algorithm)> {
    let mut all = Vec::new();
    for card in cards() {
        let variants: &[&str] = card.param("variant").map_or(&[], |spec| spec.choices);
        if variants.is_empty() {
            all.push((card.name.to_string(), make(card.name, &[])));
        }
        for variant in variants {
            let params = [("variant", Value::Name(variant.to_string()))];
            all.push((format!("{} {variant}", card.name), make(card.name, &params)));
        }
    }
    all
}

fn make(name: &str, params: &[(&str, Value)]) -> Algorithm {
    let params = params.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
    build(name, &params, "flows[0].tcp", 7).unwrap_or_else(|error| panic!("{error}"))
}

#[derive(Clone, Debug)]
enum Step {
    Acked { segments: u32, duplicate: bool, limited: bool, gap_us: u64, lost: u32 },
    Rtt { us: u64 },
    Loss,
    Ecn,
    Timeout { first: bool },
    Disorder,
    Undo,
    Idle { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let acked = (1..40_u32, any::<bool>(), prop::bool::weighted(0.8), 1..50_000_u64, 0..3_u32).prop_map(
        |(segments, duplicate, limited, gap_us, lost)| Step::Acked {
            segments,
            duplicate,
            limited,
            gap_us,
            lost,
        },
    );
    prop_oneof![
        30 => acked,
        3 => (1..3_000_000_u64).prop_map(|us| Step::Rtt { us }),
        1 => Just(Step::Loss),
        1 => Just(Step::Ecn),
        1 => any::<bool>().prop_map(|first| Step::Timeout { first }),
        1 => Just(Step::Disorder),
        1 => Just(Step::Undo),
        1 => (1..100_000_u64).prop_map(|ms| Step::Idle { ms }),
    ]
}

fn counting() -> impl Strategy<Value = Counting> {
    prop_oneof![
        Just(Counting::PerAck),
        Just(Counting::PerSegment),
        Just(Counting::PerAckBytes),
        Just(Counting::Bytes { limit: 2 }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_can_happen_breaks_an_algorithm(
        steps in prop::collection::vec(step(), 1..400),
        counting in counting(),
    ) {
        for (name, algorithm) in everyone() {
            let mut model = Model::new(algorithm, counting);
            model.check(&name);
            for step in &steps {
                match *step {
                    Step::Acked { segments, duplicate, limited, gap_us, lost } => {
                        model.acked(segments, duplicate, limited, Duration::from_us(gap_us), lost);
                    }
                    Step::Rtt { us } => model.rtt = Duration::from_us(us),
                    Step::Loss => model.congestion(Signal::Loss),
                    Step::Ecn => model.congestion(Signal::Ecn),
                    Step::Timeout { first } => model.congestion(Signal::Timeout { first }),
                    Step::Disorder if model.phase == Phase::Open => model.enter(Phase::Disorder),
                    Step::Disorder if model.phase == Phase::Disorder => model.enter(Phase::Open),
                    Step::Disorder => {}
                    Step::Undo => model.undo(),
                    Step::Idle { ms } => model.idle(Duration::from_ms(ms)),
                }
                model.check(&name);
            }
        }
    }
}

/// A window of `segments` in congestion avoidance, after steady round trips so that all estimates have converged.
fn settled(algorithm: Algorithm, segments: u64) -> Model {
    let mut model = Model::new(algorithm, Counting::PerSegment);
    model.control.ssthresh = 2 * u64::from(MSS);
    let gap = model.rtt / segments;
    for _ in 0..10 * segments {
        if !model.algorithm.owns_window() {
            model.control.cwnd = segments * u64::from(MSS);
        }
        model.acked(1, false, true, gap, 0);
    }
    model
}

#[test]
fn one_loss_lowers_the_window_and_leaves_two_segments_at_least() {
    for (name, algorithm) in everyone() {
        let mut model = settled(algorithm, 100);
        let before = model.control.cwnd;
        model.congestion(Signal::Loss);
        if model.algorithm.owns_window() {
            assert!(model.control.cwnd <= before, "{name}");
            continue;
        }
        let kept = model.control.ssthresh as f64 / before as f64;
        // CDG tolerates loss while the queue is not full; before any gradient it halves.
        assert!((0.11..0.96).contains(&kept), "{name} keeps {kept}");
        assert!(model.control.cwnd <= before, "{name} grew at a loss");
    }
}

#[test]
fn a_timeout_is_survived_and_the_window_grows_again() {
    for (name, algorithm) in everyone() {
        let mut model = settled(algorithm, 100);
        let before = model.control.cwnd;
        model.congestion(Signal::Timeout { first: true });
        assert!(model.control.cwnd < before, "{name}");
        assert!(model.control.ssthresh < Control::UNLIMITED || model.algorithm.owns_window(), "{name}");
        let low = model.control.cwnd;
        for _ in 0..200 {
            model.acked(1, false, true, Duration::from_us(800), 0);
        }
        assert!(model.control.cwnd > low, "{name} stays at {low}");
    }
}

#[test]
fn a_repeated_timeout_never_raises_ssthresh() {
    for (name, algorithm) in everyone() {
        let mut model = settled(algorithm, 100);
        model.congestion(Signal::Timeout { first: true });
        let after_first = model.control.ssthresh;
        model.congestion(Signal::Timeout { first: false });
        assert!(model.control.ssthresh <= after_first, "{name}");
    }
}

#[test]
fn no_algorithm_grows_without_being_limited_by_the_window() {
    for (name, algorithm) in everyone() {
        let mut model = settled(algorithm, 50);
        // Linux's Vegas does grow so (`tcp_vegas_cong_avoid` asks only where it falls back to Reno).
        if model.algorithm.owns_window() || name.starts_with("vegas linux") {
            continue;
        }
        model.control.cwnd = 50 * u64::from(MSS);
        for _ in 0..500 {
            model.acked(1, false, false, Duration::from_ms(1), 0);
        }
        assert!(model.control.cwnd <= 50 * u64::from(MSS), "{name}: {}", model.control.cwnd_segments());
    }
}

#[test]
fn the_same_seed_gives_the_same_windows() {
    let run = || -> Vec<Control> {
        everyone()
            .into_iter()
            .map(|(_, algorithm)| {
                let mut model = settled(algorithm, 60);
                for round in 0..40 {
                    model.rtt = Duration::from_ms(80 + round % 7);
                    model.acked(20, false, true, Duration::from_ms(30), 0);
                }
                model.control
            })
            .collect()
    };
    assert_eq!(run(), run());
}

#[test]
fn state_fits_into_104_bytes() {
    assert!(size_of::<Algorithm>() <= 104, "{} bytes", size_of::<Algorithm>());
}

#[test]
fn names_are_unique_and_cards_are_complete() {
    for (row, card) in cards().iter().enumerate() {
        assert!(cards()[..row].iter().all(|other| other.name != card.name), "{} twice", card.name);
        for text in [card.name, card.title, card.law, card.source] {
            assert!(!text.is_empty(), "{} has an empty field", card.name);
        }
        for (index, spec) in card.params.iter().enumerate() {
            assert!(card.params[..index].iter().all(|other| other.name != spec.name), "{} twice", spec.name);
            assert!(spec.doc.ends_with('.'), "{}.{}: {}", card.name, spec.name, spec.doc);
        }
    }
}

#[test]
fn a_key_names_one_row_of_a_card() {
    for card in cards().iter().chain(tailback_core::queue::registry::cards()) {
        for (row, spec) in card.params.iter().enumerate() {
            for key in [spec.name, &spec.key()] {
                let named: Vec<usize> = (0..card.params.len())
                    .filter(|other| card.params[*other].spelling(key).is_some())
                    .collect();
                assert_eq!(named, [row], "{}.{key}", card.name);
            }
        }
    }
}

fn with(
    card: &Card,
    spec: &ParamSpec,
    value: Value,
) -> Result<Algorithm, tailback_core::scenario::ScenarioError> {
    let params: Params = [(spec.key(), value)].into();
    build(card.name, &params, "flows[3].tcp", 1)
}

#[test]
fn every_default_may_be_given() {
    for card in cards() {
        for spec in card.params {
            if let Some(value) = spec.default_value() {
                assert!(with(card, spec, value).is_ok(), "{}.{}", card.name, spec.name);
            }
            for choice in spec.choices {
                assert!(with(card, spec, Value::Name(choice.to_string())).is_ok(), "{choice}");
            }
        }
    }
}

#[test]
fn whatever_is_outside_the_range_is_refused_by_name() {
    for card in cards() {
        for spec in card.params {
            let wrong = match spec.kind {
                Kind::Flag => vec![Value::Number(1.0), Value::Name("on".into())],
                Kind::Choice => vec![Value::Name("nonesuch".into()), Value::Flag(true)],
                Kind::Text => vec![Value::Flag(true)],
                _ => vec![
                    Value::Number(spec.min - 1.0),
                    Value::Number(spec.max * 2.0 + 1.0),
                    Value::Number(f64::NAN),
                    Value::Number(f64::INFINITY),
                    Value::Flag(true),
                ],
            };
            for value in wrong {
                let error = with(card, spec, value.clone()).map(|_| ()).expect_err("must be refused");
                let text = error.to_string();
                for part in [card.name, spec.name, card.main_source(), "flows[3].tcp.cc_params"] {
                    assert!(text.contains(part), "{value:?}: no {part} in {text}");
                }
            }
        }
    }
}

#[test]
fn unknown_names_are_refused_with_the_nearest_one() {
    let error = build("cubik", &Params::new(), "flows[0].tcp", 1).map(|_| ()).unwrap_err();
    assert_eq!(error.field, "flows[0].tcp.cc");
    assert!(error.fix.contains("did you mean \"cubic\""), "{}", error.fix);
    for card in cards() {
        let params: Params = [("no_such_thing".to_string(), Value::Number(1.0))].into();
        let error = build(card.name, &params, "flows[0].tcp", 1).map(|_| ()).unwrap_err();
        assert!(error.problem.contains(card.name) && error.problem.contains("no_such_thing"));
    }
}
