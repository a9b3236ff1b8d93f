use super::linux::*;
use super::*;
use crate::cc::fixture::{Lab, MSS, build, named};
use crate::cc::{Counting, Signal};
use crate::math;
use crate::scenario::Value;
use crate::time::Duration;

/// W(t) at 0, 0.5, 1, 2, 3, 4, 5, 6, 8, 10 s after a loss at W_max, C = 0.4 (ideal arithmetic).
const TABLE: [(f64, f64, f64, [f64; 10]); 4] = [
    (0.8, 100.0, 3.6840, [80.00, 87.09, 92.27, 98.09, 99.87, 100.01, 100.91, 104.97, 132.16, 200.78]),
    (0.7, 100.0, 4.2172, [70.00, 79.46, 86.68, 95.64, 99.28, 100.00, 100.19, 102.27, 121.65, 177.35]),
    (0.8, 133.33, 4.0548, [106.66, 115.36, 121.93, 129.86, 132.86, 133.33, 133.67, 136.27, 157.89, 217.39]),
    (0.7, 133.33, 4.6416, [93.33, 104.91, 114.01, 125.96, 131.56, 133.22, 133.35, 134.33, 148.48, 194.87]),
];
const TIMES: [f64; 10] = [0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];

#[test]
fn the_curve_has_the_tabulated_values() {
    for (beta, w_max, k, row) in TABLE {
        let pairs = [("variant", named("rfc9438")), ("beta", Value::Number(beta))];
        let Law::Rfc9438(mut law) = build::<Cubic>(&pairs).law else { unreachable!() };
        law.w_max = w_max;
        law.begin_epoch(Time::ZERO, beta * w_max);
        assert!((law.k - k).abs() < 6e-5, "{} for {k}", law.k);
        for (t, expected) in TIMES.into_iter().zip(row) {
            assert!((law.window_at(t) - expected).abs() < 0.011, "{t}: {}", law.window_at(t));
        }
    }
}

#[test]
fn the_kernel_curve_is_the_curve_within_a_segment() {
    for (beta, w_max, k, row) in TABLE {
        let origin = w_max as u64;
        let climb = origin - (beta * w_max) as u64;
        let kernel_k = k_1024(climb, 41);
        assert!((f64::from(kernel_k) / 1024.0 - k).abs() < 0.04, "{kernel_k}");
        for (t, expected) in TIMES.into_iter().zip(row) {
            let target = curve((t * 1024.0) as u64, u64::from(kernel_k), origin, 41);
            assert!((target as f64 - expected).abs() < 1.7, "{t}: {target} for {expected}");
        }
    }
}

#[test]
fn cube_roots_are_exact() {
    for x in [0, 1, 7, 8, 26, 27, 999_999, 1_000_000, u64::MAX] {
        let root = u128::from(cube_root(x));
        assert!(root * root * root <= u128::from(x) && u128::from(x) < (root + 1).pow(3), "{x}");
    }
}

fn linux(variant: &str) -> Cubic {
    build(&[("variant", named(variant)), ("hystart", named("off"))])
}

fn kernel(cubic: &Cubic) -> &Linux {
    let Law::Linux(law) = &cubic.law else { unreachable!() };
    law
}

#[test]
fn each_era_keeps_its_share() {
    for (variant, kept) in [("linux", 93), ("linux-2.6.25", 106), ("rfc9438", 93)] {
        let mut lab = Lab::avoiding(133, Counting::PerSegment);
        linux(variant).on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
        assert_eq!(lab.control.ssthresh_segments(), kept, "{variant}");
    }
}

#[test]
fn one_segment_short_of_w_max_is_enough_for_fast_convergence() {
    // 2.6.25: ⌊132·1843/2048⌋ = 118; 6.x: ⌊132·1741/2048⌋ = 112.
    for (variant, yielded) in [("linux-2.6.25", 118), ("linux", 112)] {
        for (window, expected) in [(133, 133), (132, yielded)] {
            let mut cubic = linux(variant);
            let mut lab = Lab::avoiding(133, Counting::PerSegment);
            cubic.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
            lab.control.cwnd = window * u64::from(MSS);
            cubic.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
            assert_eq!(kernel(&cubic).last_max, expected, "{variant}");
        }
    }
}

#[test]
fn growth_before_the_first_loss_is_five_percent_in_6_x_and_two_in_2_6_25() {
    // At an RTT so short that the curve does not move, and Reno does not either.
    for (variant, counting, low, high) in [
        ("linux", Counting::PerSegment, 104, 106),
        // 50·16/32 = 25 ACKs at first, towards 50 as the ACK ratio goes from 2 to 1.
        ("linux-2.6.25", Counting::PerAck, 101, 104),
    ] {
        let mut cubic = linux(variant);
        let mut lab = Lab::avoiding(100, counting);
        lab.rtt = Duration::from_ms(10);
        lab.round(&mut cubic);
        assert!((low..=high).contains(&lab.window()), "{variant}: {}", lab.window());
    }
}

#[test]
fn the_epoch_starts_with_the_first_ack_after_recovery() {
    let mut cubic = linux("linux");
    let mut lab = Lab::avoiding(133, Counting::PerSegment);
    lab.lose(&mut cubic);
    assert_eq!(kernel(&cubic).epoch_start, None);
    lab.now += Duration::from_ms(500);
    let ack = lab.ack(1);
    cubic.on_plain_ack(&mut ack.clone(), lab.inclusive, &mut lab.control);
    let law = kernel(&cubic);
    assert_eq!(law.epoch_start, Some(law.ticks.at(lab.now)));
    // ∛(40·2⁴⁰/410) = 4752/1024 = 4.64 s.
    assert_eq!((law.origin, law.k), (133, 4751));
}

#[test]
fn the_window_follows_the_curve_to_the_plateau_and_beyond() {
    for (variant, counting) in [
        ("linux", Counting::PerSegment),
        ("linux-2.6.25", Counting::PerAck),
        ("rfc9438", Counting::PerSegment),
    ] {
        let mut cubic = linux(variant);
        let mut lab = Lab::avoiding(400, counting);
        lab.lose(&mut cubic);
        let start = lab.now;
        let low = lab.window() as f64;
        let k = math::cbrt((400.0 - low) / 0.4004);
        while lab.now.since(start).as_secs_f64() < k + 2.0 {
            lab.round(&mut cubic);
            let t = lab.now.since(start).as_secs_f64();
            let ideal = 400.0 + 0.4 * (t - k) * (t - k) * (t - k);
            // Reno at this RTT adds at most 0.53 segments a round trip.
            let reno = low + 5.3 * t;
            let window = lab.window() as f64;
            assert!(window <= ideal.max(reno) + 12.0, "{variant} at {t}: {window} over {ideal}");
            assert!(window >= ideal - 12.0, "{variant} at {t}: {window} under {ideal}");
        }
    }
}

#[test]
fn increments_above_the_origin_are_clamped_in_2_6_25() {
    let mut cubic = linux("linux-2.6.25");
    let Law::Linux(law) = &mut cubic.law else { unreachable!() };
    law.has_lost = true;
    law.origin = 100;
    law.delay_min = 80_000;
    // 10 s past K the curve wants hundreds: ⌊w·250/(160·20)⌋ = 7 segments a step, 12.8 steps a window.
    assert_eq!(law.follow_curve(2_500, 100), 7);
}

#[test]
fn a_timeout_clears_everything() {
    let mut cubic = linux("linux");
    let mut lab = Lab::avoiding(133, Counting::PerSegment);
    lab.round(&mut cubic);
    cubic.on_congestion(&lab.congestion(Signal::Timeout { first: true }), &mut lab.control);
    lab.change(Phase::Loss, &mut cubic);
    assert_eq!((kernel(&cubic).last_max, kernel(&cubic).delay_min), (0, 0));
    assert_eq!(lab.control.ssthresh_segments(), 97);
}

#[test]
fn hystart_ends_slow_start_halfway_through_the_third_round_as_in_6_1() {
    // 10 Mbit/s, 80 ms, an ACK every 1.2 ms: round trips of 10, 20, 40. Each ACK sends two segments, so the
    // k-th of a round waits k·0.6 ms. HyStart's rounds begin in the middle of ours, where the wait is
    // already 15 ms, and nine samples later it is judged too long.
    let mut cubic = build::<Cubic>(&[]);
    let mut lab = Lab::new(10, Counting::PerSegment);
    let mut start = Time::from_ms(500);
    while lab.control.ssthresh == Control::UNLIMITED {
        start += Duration::from_ms(80);
        lab.now = start;
        for k in 0..lab.window() {
            lab.rtt = Duration::from_ms(80) + Duration::from_us(600) * k;
            let ack = lab.ack(1);
            cubic.on_plain_ack(&mut ack.clone(), lab.inclusive, &mut lab.control);
            lab.now += Duration::from_us(1_200);
        }
    }
    assert!((71..=76).contains(&lab.control.ssthresh_segments()), "{}", lab.control.ssthresh_segments());
    // And then 5 % a round trip.
    let before = lab.window();
    lab.round(&mut cubic);
    assert!((3..=5).contains(&(lab.window() - before)), "{before} to {}", lab.window());
}

#[test]
fn idle_time_does_not_count_in_6_x_and_rfc_9438() {
    for variant in ["linux", "linux-2.6.25"] {
        let mut cubic = linux(variant);
        let mut lab = Lab::avoiding(133, Counting::PerSegment);
        lab.lose(&mut cubic);
        lab.round(&mut cubic);
        let start = kernel(&cubic).epoch_start.unwrap();
        lab.now += Duration::from_secs(8);
        let resume = Resume { now: lab.now, idle: Duration::from_secs(8), app_limited: true, snd_nxt: 0 };
        cubic.on_resume(&resume, &mut lab.control);
        let moved = kernel(&cubic).epoch_start.unwrap() - start;
        assert_eq!(moved, if variant == "linux" { 2000 } else { 0 });
    }
}

#[test]
fn rfc_9438_grows_like_reno_where_the_curve_is_flatter() {
    // Short RTT: α = 0.5294 until the old window is reached, 1 from there.
    let mut cubic = linux("rfc9438");
    let mut lab = Lab::avoiding(20, Counting::PerSegment);
    lab.rtt = Duration::from_ms(4);
    lab.lose(&mut cubic);
    let windows = lab.windows(&mut cubic, 30);
    assert_eq!(windows[0], 14);
    let to_prior = windows.iter().position(|window| *window >= 20).unwrap();
    // (20 − 14)/0.5294 = 11.3 round trips.
    assert!((11..=13).contains(&to_prior), "{to_prior}");
    assert!((8..=11).contains(&(windows[to_prior + 10] - 20)));
}
