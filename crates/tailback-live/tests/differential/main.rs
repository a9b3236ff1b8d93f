//! Feeds the same acknowledgements to the Rust twin and the BPF twin, and compares their windows after each.
//!
//! The kernel cannot run a congestion control on invented acknowledgements, so the BPF source is compiled natively
//! behind a test socket (`harness.c`). Another test covers loading and running it in the kernel.
#![allow(
    unsafe_code,
    reason = "the twin is a library opened by name; its functions have the harness's types"
)]

mod native;
mod pair;

use native::Native;
use pair::{PIPE, Pair, ROOM, Round};
use tailback_core::rng::Stream;
use tailback_core::time::Duration;
use tailback_live::twins;

/// Twins whose windows may differ by a segment, because Rust uses real numbers and the kernel fixed-point ones.
const FRACTIONAL: [&str; 2] = ["compound", "ledbat"];

fn tolerance(cc: &str) -> u64 {
    u64::from(FRACTIONAL.contains(&cc))
}

/// Runs `check` for every twin, in parallel.
fn for_every_twin(check: impl Fn(&'static str) + Sync) {
    std::thread::scope(|scope| {
        let running: Vec<_> = twins::names()
            .map(|cc| {
                (
                    cc,
                    scope.spawn({
                        let check = &check;
                        move || check(cc)
                    }),
                )
            })
            .collect();
        let failed: Vec<&str> =
            running.into_iter().filter_map(|(cc, thread)| thread.join().is_err().then_some(cc)).collect();
        assert!(failed.is_empty(), "these differ from their Rust twins, see above: {failed:?}");
    });
}

/// Asserts that windows, thresholds and internal quantities agree.
fn compare(cc: &str, pair: &Pair, when: impl Fn() -> String) {
    let tolerance = tolerance(cc);
    let ((rust, native), (one, other)) = (pair.windows(), pair.ssthreshes());
    assert!(rust.abs_diff(native) <= tolerance, "{cc}: windows {rust} and {native} {}", when());
    // Before the first loss both thresholds are unlimited, by different values.
    let are_unlimited = one > 1 << 30 && other > 1 << 30;
    assert!(one.abs_diff(other) <= tolerance || are_unlimited, "{cc}: ssthresh {one} and {other} {}", when());
    for (name, ours, theirs) in pair.internals() {
        // 1 % where windows may differ too; otherwise the rounding of a fixed-point quotient.
        let near = if tolerance > 0 { 0.01 * ours.abs().max(100.0) } else { 1e-6 * ours.abs().max(1.0) };
        let is_same = (ours - theirs).abs() <= near || ours.is_nan() && theirs.is_nan();
        assert!(is_same, "{cc}: {name} {ours} and {theirs} {}", when());
    }
}

/// Slow start, a loss whenever the queue is full, and growth in between.
#[test]
fn windows_agree_from_loss_to_loss() {
    for_every_twin(|cc| {
        let Some(mut pair) = Pair::new(cc) else { return };
        let (mut losses, mut acks) = (0, 0);
        for _ in 0..1500 {
            pair.round(Round::default(), |pair| {
                acks += 1;
                compare(cc, pair, || format!("after {acks} ACKs and {losses} losses"));
            });
            if pair.control.cwnd_segments() > PIPE + ROOM && pair.reduces_until.is_none() {
                pair.lose();
                losses += 1;
            }
            if losses == 4 {
                break;
            }
        }
        // The fastest algorithm reaches its fourth loss after some three thousand ACKs.
        assert!(acks > 2_000, "{cc}: {acks} ACKs are no test");
    });
}

/// Events in random order: losses, timeouts, marks, pauses, changed RTTs, and an application-limited sender.
#[test]
fn windows_agree_whatever_happens() {
    for_every_twin(|cc| {
        let Some(mut native) = Native::build(cc) else { return };
        for seed in 0..4 {
            let mut pair = Pair::of(cc, native);
            let mut fate = Stream::named(seed, "course");
            let mut course = Vec::new();
            for number in 0..600 {
                let mut round = Round::default();
                let event = if pair.reduces_until.is_some() { 100 } else { fate.below(60) };
                match event {
                    0 => pair.lose(),
                    1 => pair.time_out(),
                    2 => pair.hear_of_mark(),
                    // Whole ticks of any kernel, so that both clocks measure the pause alike.
                    3 => pair.rest(Duration::from_ms(20 * (1 + fate.below(100)))),
                    4 => pair.extra = Duration::from_us(fate.below(60_000)),
                    5 | 6 => round.is_starved = true,
                    7..12 => round.marked_percent = fate.below(101),
                    _ if pair.control.cwnd_segments() > PIPE + ROOM && event < 60 => pair.lose(),
                    _ => {}
                }
                if event < 12 {
                    course.push((number, event));
                }
                let tail = course.iter().rev().take(6).collect::<Vec<_>>();
                pair.round(round, |pair| {
                    compare(cc, pair, || format!("in round {number}, seed {seed}, {tail:?}"))
                });
            }
            native = pair.native;
        }
    });
}

/// CDG rarely meets a loss, so compare the windows after a hundred delay-based backoffs.
#[test]
fn cdg_backs_off_by_the_same_random_numbers() {
    let Some(mut pair) = Pair::new("cdg") else { return };
    for round in 0..3_000 {
        pair.round(Round::default(), |pair| {
            compare("cdg", pair, || format!("after {round} round trips and {} backoffs", pair.reductions));
        });
        if round % 700 == 699 && pair.reduces_until.is_none() {
            pair.lose();
        }
    }
    assert!(pair.reductions > 100, "{} backoffs are no test", pair.reductions);
}

/// DCTCP's alpha follows the marked share, up and down.
#[test]
fn dctcp_follows_the_share_of_marks() {
    let Some(mut pair) = Pair::new("dctcp") else { return };
    let mut alphas = Vec::new();
    for percent in [0, 100, 40, 0] {
        for _ in 0..30 {
            pair.round(Round { marked_percent: percent, ..Round::default() }, |pair| {
                compare("dctcp", pair, || format!("at {percent} % marks"));
            });
            if percent > 0 {
                pair.hear_of_mark();
            } else if pair.control.cwnd_segments() > PIPE + ROOM {
                pair.lose();
            }
        }
        alphas.push(pair.internals()[0].2);
    }
    assert!(alphas[0] < 0.2 && alphas[3] < 0.2, "{alphas:?}");
    assert!(alphas[1] > 0.4 && alphas[1] > alphas[2] && alphas[2] > 0.1, "{alphas:?}");
}
