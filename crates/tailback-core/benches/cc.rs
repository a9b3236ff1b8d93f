//! The cost of an ACK in each congestion control, absolute and relative to NewReno.
//!
//! `cargo bench -p tailback-core --bench cc`. Every algorithm gets the same recorded round trips: the RTT rises with
//! the queue, a loss occurs at the end, and the stack reduces the window. The result is the best of several rounds
//! minus the empty loop. `-- NAME -1` runs one algorithm once ("nothing" for the empty loop), for callgrind.

#![allow(clippy::disallowed_types, reason = "a benchmark times")]

use std::hint::black_box;
use std::time::Instant;

use tailback_core::cc::registry::{Algorithm, build, cards};
use tailback_core::cc::{
    Ack, Congestion, CongestionControl, Control, Counting, DeliverySample, Phase, PhaseChange, Signal,
};
use tailback_core::scenario::Params;
use tailback_core::time::{Duration, Time};

const MSS: u32 = 1448;
/// Window in segments at the start of an epoch, and round trips per epoch.
const WINDOW: u64 = 60;
const ROUNDS: u64 = 40;
const BASE_RTT_US: u64 = 40_000;
const EPOCHS: u64 = 50;
/// Time from the start of one epoch to the start of the next.
const AN_EPOCH: Duration = Duration::from_ms(4_000);

/// An epoch of a flow that is alone on its path: window and queue grow by one segment per round trip.
fn epoch() -> Vec<Ack> {
    let mss = u64::from(MSS);
    let mut acks: Vec<Ack> = Vec::new();
    let (mut now, mut delivered) = (Time::from_ms(1_000), 0);
    for round in 0..ROUNDS {
        let window = WINDOW + round;
        let rtt = Duration::from_us(BASE_RTT_US + BASE_RTT_US * round / ROUNDS);
        for number in 0..window {
            now += rtt / window;
            let prior_delivered = delivered;
            delivered += mss;
            acks.push(Ack {
                now,
                mss: MSS,
                newly_acked: mss,
                newly_acked_segments: 1,
                delivered_segments: 1,
                lost_segments: 0,
                marked: 0,
                rtt: Some(rtt),
                rtt_read: Some(rtt),
                rtt_min: Duration::from_us(BASE_RTT_US),
                srtt: rtt,
                in_flight: (window - 1) * mss,
                prior_in_flight: window * mss,
                departs: now,
                delivery: Some(DeliverySample { bytes: window * mss, interval: rtt }),
                delivered,
                prior_delivered: prior_delivered.saturating_sub(window * mss),
                app_limited: false,
                lost: 0,
                is_delayed: false,
                round_start: number == 0,
                cwnd_limited: true,
                window_full: true,
                may_grow: true,
                phase: Phase::Open,
                counting: Counting::PerSegment,
                in_slow_start: false,
                stack_paces: false,
                snd_una: delivered,
                snd_nxt: delivered + window * mss,
            });
        }
    }
    acks
}

/// Runs the epoch again, at a later time.
fn play(algorithm: Option<&mut Algorithm>, acks: &mut [Ack], control: &mut Control) {
    let Some(algorithm) = algorithm else {
        for ack in acks {
            ack.now += AN_EPOCH;
            black_box((&*ack, &mut *control));
        }
        return;
    };
    for ack in &mut *acks {
        ack.now += AN_EPOCH;
        algorithm.on_ack(black_box(ack), black_box(control));
        if algorithm.wants_reduction() {
            lose(algorithm, ack, Signal::Ecn, control);
        }
    }
    lose(algorithm, &acks[acks.len() - 1], Signal::Loss, control);
    // Every epoch starts with the same window, so that the algorithms do the same work.
    control.cwnd = WINDOW * u64::from(MSS);
}

fn lose(algorithm: &mut Algorithm, ack: &Ack, signal: Signal, control: &mut Control) {
    let (now, snd_una, snd_nxt, srtt) = (ack.now, ack.snd_una, ack.snd_nxt, ack.srtt);
    let congestion = Congestion {
        now,
        signal,
        mss: MSS,
        in_flight: ack.in_flight,
        send_window: 1 << 30,
        srtt,
        rtt_min: ack.rtt_min,
        snd_una,
        snd_nxt,
    };
    algorithm.on_congestion(&congestion, control);
    for (from, to) in [(Phase::Open, Phase::Recovery), (Phase::Recovery, Phase::Open)] {
        algorithm.on_phase(
            &PhaseChange {
                now,
                from,
                to,
                completes: to == Phase::Open,
                snd_una,
                snd_nxt,
                srtt,
                delivered: ack.delivered,
                delivered_at: now,
                lost: 0,
            },
            control,
        );
    }
}

fn epochs(mut algorithm: Option<Algorithm>, acks: &mut [Ack]) {
    let mss = u64::from(MSS);
    let mut control =
        Control { cwnd: WINDOW * mss, ssthresh: 2 * mss, pacing: None, mss: MSS, self_limited: false };
    for _ in 0..EPOCHS {
        play(algorithm.as_mut(), acks, &mut control);
    }
    black_box(control);
}

/// Nanoseconds per ACK, the best of `rounds`.
fn best(make: impl Fn() -> Option<Algorithm>, acks: &[Ack], rounds: usize) -> f64 {
    let times = (0..rounds).map(|_| {
        let (algorithm, mut acks) = (make(), acks.to_vec());
        let started = Instant::now();
        epochs(algorithm, &mut acks);
        started.elapsed().as_secs_f64() * 1e9 / (acks.len() as f64 * EPOCHS as f64)
    });
    times.fold(f64::INFINITY, f64::min)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let rounds = if words.iter().any(|word| word == "-1") { 1 } else { 25 };
    let chosen: Vec<&String> = words.iter().filter(|word| *word != "-1").collect();
    let mut acks = epoch();
    let make = |name: &str| build(name, &Params::new(), "bench", 1).expect("defaults are valid");
    if rounds == 1 {
        let name = chosen.first().map_or("reno", |name| name.as_str());
        epochs((name != "nothing").then(|| make(name)), &mut acks);
        println!("{name}: {} ACKs", acks.len() as u64 * EPOCHS);
        return;
    }
    let nothing = best(|| None, &acks, rounds);
    let reno = best(|| Some(make("reno")), &acks, rounds) - nothing;
    for card in
        cards().iter().filter(|card| chosen.is_empty() || chosen.iter().any(|name| *name == card.name))
    {
        let cost = best(|| Some(make(card.name)), &acks, rounds) - nothing;
        println!("{:<10} {cost:6.2} ns/ACK  {:5.1} x reno", card.name, cost / reno);
    }
}
