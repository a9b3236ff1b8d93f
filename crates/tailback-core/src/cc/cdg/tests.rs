use super::*;
use crate::cc::fixture::{Lab, build, named};
use crate::cc::{Counting, Signal};

#[test]
fn the_backoff_probability_has_the_papers_values() {
    let rows = [
        (0.1, 0.0328),
        (0.5, 0.1535),
        (1.0, 0.2835),
        (2.0, 0.4866),
        (3.0, 0.6321),
        (5.0, 0.8111),
        (10.0, 0.9643),
    ];
    for (gradient, probability) in rows {
        assert!((backoff_probability(gradient, 3.0) - probability).abs() < 5e-5);
    }
    assert_eq!(backoff_probability(15.1, 3.0), 1.0);
    assert!((backoff_probability(1.0, 2.0) - 0.3935).abs() < 5e-5);
    // Linux: the sum over eight round trips, 42 per million and microsecond.
    for (sum_us, probability) in [(1_000.0, 0.0411), (3_000.0, 0.1184), (8_000.0, 0.2854), (24_000.0, 0.6351)]
    {
        let found = backoff_probability(sum_us / 8_000.0, 1_000.0 / 336.0);
        assert!((found - probability).abs() < 6e-5, "{sum_us}: {found}");
    }
}

#[test]
fn a_delay_backoff_keeps_seven_tenths() {
    let mut cdg = build::<Cdg>(&[("variant", named("freebsd"))]);
    let mut lab = Lab::avoiding(100, Counting::PerSegment);
    cdg.state.freebsd_back_off(&mut lab.control);
    assert_eq!((lab.window(), cdg.state.shadow), (70, 100));
    let mut cdg = build::<Cdg>(&[]);
    let mut lab = Lab::avoiding(100, Counting::PerSegment);
    cdg.state.queue = Queue::Backoff;
    cdg.on_congestion(&lab.congestion(Signal::Ecn), &mut lab.control);
    assert_eq!(lab.control.ssthresh_segments(), 70);
}

#[test]
fn a_rising_rtt_asks_for_a_reduction_and_a_steady_one_does_not() {
    for (rise_ms, asks) in [(0, false), (20, true)] {
        let mut cdg = build::<Cdg>(&[]);
        let mut lab = Lab::avoiding(50, Counting::PerSegment);
        let asked = (0..6).any(|_| {
            lab.rtt += Duration::from_ms(rise_ms);
            lab.round(&mut cdg);
            cdg.wants_reduction()
        });
        assert_eq!(asked, asks);
    }
}

#[test]
fn without_a_gradient_freebsd_adds_a_segment_a_round_trip() {
    let mut cdg = build::<Cdg>(&[("variant", named("freebsd"))]);
    let mut lab = Lab::avoiding(70, Counting::Bytes { limit: 2 });
    for _ in 0..31 {
        lab.round(&mut cdg);
    }
    assert!((99..=101).contains(&lab.window()), "{}", lab.window());
}

#[test]
fn loss_is_tolerated_unless_the_queue_is_full() {
    for (queue, kept) in [(Queue::NotFull, 100), (Queue::Full, 60), (Queue::Unknown, 60)] {
        let mut cdg = build::<Cdg>(&[("variant", named("freebsd"))]);
        cdg.state.queue = queue;
        cdg.state.shadow = 120;
        let mut lab = Lab::avoiding(100, Counting::PerSegment);
        cdg.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
        assert_eq!(lab.control.ssthresh_segments(), kept, "{queue:?}");
    }
}

#[test]
fn five_backoffs_without_effect_make_it_pause_for_five() {
    let mut cdg = build::<Cdg>(&[("variant", named("freebsd"))]);
    // Gradients far above 5·G: every decision is positive.
    let answers: Vec<bool> = (0..12)
        .map(|_| {
            cdg.state.skip = false;
            cdg.state.before = MinMax { min: 1, max: 1 };
            cdg.state.round = MinMax { min: 1_000_000, max: 1_000_000 };
            cdg.state.freebsd_round(false)
        })
        .collect();
    let expected = [true, true, true, true, true, false, false, false, false, false, true, true];
    assert_eq!(answers, expected);
}

#[test]
fn the_same_seed_backs_off_at_the_same_time() {
    let run = || {
        let mut cdg = build::<Cdg>(&[]);
        (0..200).map(|_| cdg.state.backs_off(500.0)).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
