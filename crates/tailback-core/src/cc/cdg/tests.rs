use super::*;
use crate::cc::fixture::{Lab, build, named};
use crate::cc::{Counting, Signal};
use crate::scenario::Value;

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
    cdg.state.shadow = 80;
    let ack = lab.ack(1);
    cdg.state.freebsd_answer(&ack, &mut lab.control);
    assert_eq!((lab.window(), cdg.state.shadow), (70, 80));
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
            cdg.state.queue == Queue::Backoff
        });
        assert_eq!(asked, asks);
    }
}

#[test]
fn a_backoff_while_a_timeout_is_repaired_changes_what_the_next_loss_costs() {
    let mut cdg = build::<Cdg>(&[]);
    let mut lab = Lab::avoiding(50, Counting::PerSegment);
    let backs_off = (0..20).any(|_| {
        cdg.state.before = MinMax { min: 50_000, max: 50_000 };
        cdg.state.round = MinMax { min: 150_000, max: 150_000 };
        cdg.state.end = 0;
        let ack = Ack { phase: Phase::Loss, may_grow: false, ..lab.ack(1) };
        cdg.on_ack(&ack, &mut lab.control);
        cdg.wants_reduction()
    });
    assert!(backs_off);
    cdg.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
    // 0.707 of 50, not the half that a loss takes.
    assert_eq!(lab.control.ssthresh_segments(), 35);
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
    let answers: Vec<bool> = (0..12)
        .map(|_| {
            let mut lab = Lab::avoiding(100, Counting::PerSegment);
            cdg.state.backoff_end = 0;
            let ack = lab.ack(1);
            cdg.state.freebsd_answer(&ack, &mut lab.control);
            lab.window() == 70
        })
        .collect();
    let expected = [true, true, true, true, true, false, false, false, false, false, true, true];
    assert_eq!(answers, expected);
}

#[test]
fn freebsds_gradients_count_ticks() {
    // From one to two ticks in a round trip of slow start; G is three of them, 1 - exp(-1/3) = 0.2835.
    for tick in [1.0, 10.0] {
        let mut cdg = build::<Cdg>(&[("variant", named("freebsd")), ("tick", Value::Number(tick))]);
        let backoffs = (0..4_000)
            .filter(|_| {
                cdg.state.before = MinMax { min: 1, max: 1 };
                cdg.state.round = MinMax { min: 2, max: 2 };
                cdg.state.freebsd_round(true)
            })
            .count();
        assert!((1_070..1_200).contains(&backoffs), "{backoffs} of 4000 at {tick} ms");
    }
}

#[test]
fn a_round_trip_after_a_backoff_has_no_gradient() {
    let mut cdg = build::<Cdg>(&[("variant", named("freebsd"))]);
    let mut lab = Lab::avoiding(50, Counting::Bytes { limit: 2 });
    lab.round(&mut cdg);
    let ack = lab.ack(1);
    cdg.state.freebsd_answer(&ack, &mut lab.control);
    let sum = cdg.state.sum;
    lab.rtt = Duration::from_ms(300);
    lab.round(&mut cdg);
    assert_eq!(cdg.state.sum, sum, "a rise of 200 ms was not looked at");
}

#[test]
fn the_same_seed_backs_off_at_the_same_time() {
    let run = || {
        let mut cdg = build::<Cdg>(&[]);
        (0..200).map(|_| cdg.state.backs_off(500.0)).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
