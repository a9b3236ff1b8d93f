use super::*;
use crate::cc::Signal;
use crate::cc::fixture::{Lab, MSS, build, named};
use crate::scenario::Value;
use crate::time::Duration;

#[test]
fn the_smallest_rtt_of_2_6_22_is_one_of_congestion_avoidance() {
    for (variant, counting) in [("linux-2.6.25", Counting::PerAck), ("linux-2.6.22", Counting::PerAck)] {
        let mut htcp = build::<Htcp>(&[("variant", named(variant)), ("hz", Value::Number(1000.0))]);
        let mut lab = Lab::new(20, counting);
        lab.rtt = Duration::from_ms(80);
        lab.round(&mut htcp);
        lab.control.ssthresh = 2 * u64::from(MSS);
        lab.rtt = Duration::from_ms(95);
        lab.round(&mut htcp);
        assert_eq!(htcp.rtt_min, if variant == "linux-2.6.22" { 95 } else { 80 }, "{variant}");
    }
}

#[test]
fn alpha_of_delta_matches_the_reference_table() {
    // Δ in s; exact, FreeBSD whole, exact at β 0.8, FreeBSD at β 204/256, Linux at β 102/128.
    let rows = [
        (1.0, 1.0, 1, 0.4, 1, 0.40625),
        (1.5, 6.0625, 6, 2.425, 2, 2.4375),
        (2.0, 11.25, 11, 4.5, 4, 4.46875),
        (3.0, 22.0, 22, 8.8, 8, 8.9375),
        (4.0, 33.25, 33, 13.3, 13, 13.40625),
        (5.0, 45.0, 45, 18.0, 18, 18.28125),
        (8.0, 83.25, 83, 33.3, 33, 33.71875),
        (10.0, 111.25, 111, 44.5, 45, 45.09375),
        (20.0, 281.25, 281, 112.5, 114, 114.15625),
    ];
    for (delta, exact, whole, scaled, whole_scaled, linux) in rows {
        assert!((draft_alpha(delta) - exact).abs() < 1e-12);
        assert!((draft_alpha(delta) * 0.4 - scaled).abs() < 1e-9);
        let freebsd = freebsd_alpha((delta * 1000.0) as u32, 1000);
        assert_eq!(freebsd, whole, "{delta}");
        assert_eq!((2 * (256 - 204) * freebsd / 256).max(1), whole_scaled, "{delta}");
        let alpha = linux_alpha((delta * 250.0) as u32, 250, 0, BETA_MAX);
        assert_eq!(f64::from(alpha) / 128.0, linux, "{delta}");
    }
}

#[test]
fn rtt_scaling_runs_from_a_tenth_to_two() {
    let factor = |rtt_ms: u32| f64::from(linux_alpha(11_000, 1000, rtt_ms, BETA_MIN)) / 128.0;
    // α(11) = 126; scale ⌊8·100/16⌋ = 50 ⇒ ⌊8·126/50⌋ = 20; 160 ms: scale 5; 300 ms: clamped to 4.
    assert_eq!((factor(16), factor(160), factor(300)), (20.0, 201.0, 252.0));
    assert_eq!(factor(1), 12.0);
}

#[test]
fn linux_spends_one_ack_a_step_uncounted() {
    // w 100, α 10: one increment per 11 ACKs of one segment, per 6 ACKs of two.
    for (per_ack, acks) in [(1, 11), (2, 6)] {
        let mut htcp = build::<Htcp>(&[]);
        htcp.alpha = 10 * ONE;
        let mut lab = Lab::avoiding(100, Counting::PerSegment);
        for n in 1..=acks {
            assert_eq!(lab.window(), 100, "ACK {n}");
            let ack = lab.ack(per_ack);
            htcp.on_plain_ack(&mut ack.clone(), lab.inclusive, &mut lab.control);
        }
        assert_eq!(lab.window(), 101);
    }
}

fn settled(variant: &str, low_ms: u64, high_ms: u64) -> (Htcp, Lab) {
    let pairs =
        [("variant", named(variant)), ("adaptive_backoff", Value::Flag(true)), ("hz", Value::Number(1000.0))];
    let mut htcp = build::<Htcp>(&pairs);
    let mut lab = Lab::avoiding(100, Counting::PerSegment);
    for ms in low_ms..=high_ms {
        lab.rtt = Duration::from_ms(ms);
        for _ in 0..10 {
            lab.now += Duration::from_ms(ms);
            let ack = lab.ack(1);
            htcp.on_plain_ack(&mut ack.clone(), lab.inclusive, &mut lab.control);
        }
    }
    htcp.ratio_mode = true;
    htcp.old_rate_max = htcp.rate_max;
    (htcp, lab)
}

#[test]
fn the_cut_is_the_ratio_of_the_rtts() {
    // (min, max) in ms ⇒ β in 1/128 and 1/256.
    for (low, high, linux, freebsd) in [(80, 160, 64, 128), (80, 100, 102, 204), (80, 120, 85, 170)] {
        let (mut htcp, mut lab) = settled("linux", low, high);
        htcp.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
        assert_eq!(htcp.beta, linux);
        let (mut htcp, mut lab) = settled("freebsd", low, high);
        htcp.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
        assert_eq!(htcp.beta, freebsd);
    }
}

#[test]
fn the_freebsd_9_slip_keeps_four_fifths_where_half_was_meant() {
    let (mut htcp, mut lab) = settled("freebsd-9", 80, 160);
    htcp.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
    assert_eq!((htcp.rtt_max, htcp.beta), (76_800, 204));
}

#[test]
fn the_first_two_congestions_cut_by_half_and_the_ratio_fades_by_a_twentieth() {
    let (mut htcp, mut lab) = settled("linux", 80, 100);
    htcp.ratio_mode = false;
    htcp.old_rate_max = 1_000_000;
    for expected in [BETA_MIN, BETA_MIN, 103.min(BETA_MAX)] {
        htcp.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
        assert_eq!(htcp.beta, expected);
    }
    // 80 + ⌊⌊⌊20·.95⌋·.95⌋·.95⌋.
    assert_eq!(htcp.rtt_max, 97);
}

#[test]
fn throughput_that_changed_by_more_than_a_fifth_cuts_by_half() {
    for (old, expected) in [(100, BETA_MAX), (125, BETA_MAX), (126, BETA_MIN), (83, BETA_MIN)] {
        let (mut htcp, mut lab) = settled("linux", 80, 100);
        htcp.rate_max = 100;
        htcp.old_rate_max = old;
        htcp.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
        assert_eq!(htcp.beta, expected, "{old}");
    }
}

#[test]
fn reordering_restarts_the_clock_in_2_6_25_only() {
    for (variant, restarted) in [("linux-2.6.25", true), ("linux", false)] {
        let mut htcp = build::<Htcp>(&[("variant", named(variant))]);
        let mut lab = Lab::avoiding(100, Counting::PerSegment);
        lab.now = Time::from_ms(4000);
        lab.change(Phase::Disorder, &mut htcp);
        lab.change(Phase::Open, &mut htcp);
        assert_eq!(htcp.last_congestion, if restarted { 1000 } else { 0 });
    }
}

#[test]
fn the_clock_starts_at_the_end_of_recovery_in_linux_and_at_its_start_in_freebsd() {
    for (variant, start) in [("linux", 2525), ("freebsd", 10_000)] {
        let mut htcp = build::<Htcp>(&[("variant", named(variant))]);
        let mut lab = Lab::avoiding(100, Counting::PerSegment);
        lab.lose(&mut htcp);
        assert_eq!(htcp.last_congestion, start);
    }
}

#[test]
fn undo_restores_the_clock_and_on_linux_not_the_fading() {
    // Linux `htcp_reset` keeps what the reduction before it has left: 80 + 0.95·80.
    for (variant, rtt_max) in [("linux", 156), ("draft", 160_000)] {
        let (mut htcp, mut lab) = settled(variant, 80, 160);
        let before = htcp.last_congestion;
        htcp.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
        lab.change(Phase::Recovery, &mut htcp);
        htcp.on_undo(lab.now, &mut lab.control);
        lab.change(Phase::Open, &mut htcp);
        assert_eq!((htcp.last_congestion, htcp.rtt_max), (before, rtt_max), "{variant}");
    }
}

#[test]
fn linux_restarts_the_clock_at_every_change_for_the_worse() {
    let (mut htcp, mut lab) = settled("linux", 80, 160);
    for (to, signal) in [
        (Phase::Cwr, Some(Signal::Ecn)),
        (Phase::Recovery, None),
        (Phase::Loss, Some(Signal::Timeout { first: true })),
        (Phase::Loss, Some(Signal::Timeout { first: false })),
    ] {
        lab.now += Duration::from_ms(400);
        if let Some(signal) = signal {
            htcp.on_congestion(&lab.congestion(signal), &mut lab.control);
        }
        lab.change(to, &mut htcp);
        assert_eq!(htcp.last_congestion, htcp.ticks.at(lab.now), "{to:?}");
    }
}

#[test]
fn beta_stays_a_half_up_to_ten_milliseconds_rounded_up_to_ticks() {
    // Linux: minRTT > msecs_to_jiffies(10), 3 at 250 Hz and 10 at 1000.
    for (hz, ms, beta) in [(250, 9, BETA_MIN), (250, 12, BETA_MIN), (250, 13, BETA_MAX), (1000, 11, BETA_MAX)]
    {
        let mut htcp = build::<Htcp>(&[("hz", Value::Number(f64::from(hz)))]);
        htcp.rtt_min = htcp.ticks.span(Duration::from_ms(ms));
        htcp.rtt_max = htcp.rtt_min;
        htcp.ratio_mode = true;
        htcp.update_beta(&Lab::avoiding(100, Counting::PerSegment).control);
        assert_eq!(htcp.beta, beta, "{ms} ms at {hz} Hz");
    }
}

#[test]
fn a_window_smaller_than_alpha_measures_no_rate_on_linux() {
    let (mut htcp, mut lab) = settled("linux", 80, 160);
    htcp.alpha = 101 * ONE;
    htcp.rate = 0;
    for (window, is_measured) in [(100, false), (101, true)] {
        lab.control.cwnd = window * u64::from(MSS);
        htcp.counted_since = htcp.ticks.at(lab.now);
        lab.now += Duration::from_ms(400);
        htcp.counted = 200;
        let ack = lab.ack(1);
        htcp.measure_rate(&ack, ack.newly_acked_segments, &lab.control);
        assert_eq!(htcp.rate > 0, is_measured, "{window}");
    }
}

#[test]
fn freebsd_is_newreno_while_alpha_is_one() {
    let mut htcp = build::<Htcp>(&[("variant", named("freebsd"))]);
    let mut lab = Lab::avoiding(20, Counting::Bytes { limit: 2 });
    lab.now = Time::from_ms(0);
    assert_eq!(lab.windows(&mut htcp, 5), [20, 21, 22, 23, 24]);
    // 2 s after the start α is 11, so the next round trips add 11 and more.
    lab.now = Time::from_ms(2000);
    let before = lab.window();
    lab.round(&mut htcp);
    assert!((before + 10..before + 14).contains(&lab.window()), "{}", lab.window());
}

#[test]
fn the_draft_follows_the_exact_curve() {
    let mut htcp = build::<Htcp>(&[("variant", named("draft"))]);
    let mut lab = Lab::avoiding(1000, Counting::PerSegment);
    lab.now = Time::from_ms(0);
    lab.control.ssthresh = 2 * u64::from(MSS);
    lab.rtt = Duration::from_ms(100);
    for _ in 0..50 {
        lab.round(&mut htcp);
    }
    // β is 0.5, so the whole α acts: (1 s + ∫₁⁵ α dΔ)/0.1 s = (1 + 4 + 80 + 64/12)/0.1 = 903.
    let grown = lab.window() - 1000;
    assert!((870..930).contains(&grown), "{grown}");
}
