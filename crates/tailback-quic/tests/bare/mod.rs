//! The simulation's cost compared with a minimal harness: two ends of a connection, a rate, a delay, a queue, and no
//! more.
//!
//! `cargo test --release -p tailback-quic --test flows bare -- --ignored --nocapture`. On a busy machine count
//! instructions: run the same program with `ROUNDS=2` under `valgrind --tool=callgrind`, then `callgrind_annotate
//! --inclusive=yes`.

use std::collections::VecDeque;
use std::fs;

use tailback_core::foreign::{Endpoint, Setup, UDP_HEADERS};
use tailback_core::packet::Ecn;
use tailback_core::time::Time;
use tailback_quic::stacks;

use crate::common::{MS, SECOND, column, dumbbell};
use crate::{over, run};

const RATE: u64 = 100_000_000;
const RTT_PS: u64 = 40 * MS;
const QUEUE: u64 = 500_000;
const SECONDS: u64 = 5;
const BUFFER: Option<u64> = Some(64 << 20);
/// The largest factor by which the harness may be faster than the simulation.
const AHEAD: f64 = 1.1;

/// One direction: a delay, and optionally a rate with a queue.
#[derive(Default)]
struct Way {
    has_queue: bool,
    free_ps: u64,
    flying: VecDeque<(u64, Vec<u8>, Ecn)>,
}

impl Way {
    fn send(&mut self, now: u64, datagram: Vec<u8>, ecn: Ecn) {
        if self.has_queue {
            let ps_a_byte = 8 * SECOND / RATE;
            let bytes = datagram.len() as u64 + u64::from(UDP_HEADERS);
            self.free_ps = self.free_ps.max(now);
            if (self.free_ps - now) / ps_a_byte + bytes > QUEUE {
                return;
            }
            self.free_ps += bytes * ps_a_byte;
        }
        self.flying.push_back((self.free_ps.max(now) + RTT_PS / 2, datagram, ecn));
    }
}

/// Datagrams sent and bytes received in the minimal harness.
#[inline(never)]
fn bare(cc: &str) -> (u64, u64) {
    let (stacks, params) = (stacks(), Default::default());
    let (cc_params, now, mtu, seed) = (&params, Time::ZERO, 1_500, 1);
    let setup = Setup { now, cc, cc_params, mtu, send_buffer: BUFFER, receive_buffer: BUFFER, seed };
    let mut ends = stacks["quinn"].connect(&setup);
    let mut ways = [Way { has_queue: true, ..Way::default() }, Way::default()];
    let (mut sent, mut received, mut now, mut touched) = (0, 0, 0, [true, true]);
    while now < SECONDS * SECOND {
        for side in [0, 1] {
            if std::mem::take(&mut touched[side]) {
                received += serve(&mut ends[side], side, now, &mut ways[side], &mut sent);
            }
        }
        let arrives = [0, 1].map(|side| ways[1 - side].flying.front().map_or(u64::MAX, |it| it.0));
        let wakes = [0, 1].map(|side| ends[side].next_timeout().as_ps());
        now = now.max(arrives.into_iter().chain(wakes).min().expect("four"));
        for side in [0, 1] {
            if wakes[side] <= now {
                ends[side].on_timeout(Time::from_ps(now));
                touched[side] = true;
            }
            if arrives[side] <= now {
                let (_, datagram, ecn) = ways[1 - side].flying.pop_front().expect("one");
                ends[side].on_datagram(Time::from_ps(now), &datagram, ecn);
                touched[side] = true;
            }
        }
    }
    (sent, received)
}

fn serve(end: &mut Box<dyn Endpoint>, side: usize, now: u64, way: &mut Way, sent: &mut u64) -> u64 {
    let at = Time::from_ps(now);
    let read = end.read(at);
    if side == 0 && end.progress().is_established {
        while end.write(u64::MAX) > 0 {}
    }
    let mut datagram = Vec::new();
    while let Some(ecn) = end.poll_transmit(at, &mut datagram) {
        *sent += u64::from(side == 0);
        way.send(now, std::mem::take(&mut datagram), ecn);
    }
    read
}

/// The same in the engine.
#[inline(never)]
fn simulated(cc: &str) -> (u64, u64) {
    let mut theirs = over("quinn", cc, "bulk");
    let tcp = theirs.tcp.as_mut().expect("tcp");
    (tcp.send_buffer, tcp.receive_buffer) = (BUFFER, BUFFER);
    let tables = run(&dumbbell(RATE, RTT_PS, Some(QUEUE), SECONDS, vec![theirs]));
    let of = |name: &str| column(&tables, "flows", name)[0] as u64;
    (of("packets_sent"), of("bytes_received"))
}

/// Processor time of this thread in seconds, on which other work of the machine has little influence.
fn processor() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("a Linux kernel");
    text.split(' ').next().and_then(|it| it.parse::<f64>().ok()).expect("a number") / 1e9
}

#[test]
#[ignore = "measures"]
fn a_simulation_of_quinn_is_as_fast_as_a_bare_harness_within_a_tenth() {
    let rounds = std::env::var("ROUNDS").map_or(20, |it| it.parse().expect("a number"));
    for cc in ["cubic", "new_reno", "bbr"] {
        // Keep the best of alternate rounds: the others contain the machine's noise.
        let mut best = [f64::INFINITY; 2];
        let mut did = [(0, 0); 2];
        for round in 0..rounds {
            let which = round % 2;
            let began = processor();
            did[which] = if which == 0 { bare(cc) } else { simulated(cc) };
            best[which] = best[which].min(processor() - began);
        }
        let each = [0, 1].map(|which| did[which].0 as f64 / best[which]);
        println!("{cc}: bare {:?}, {:.0} packets/s; simulated {:?}, {:.0}", did[0], each[0], did[1], each[1]);
        let bytes = did.map(|it| it.1 as f64);
        assert!((bytes[0] / bytes[1] - 1.0).abs() < 0.02, "{cc}: they do not do the same: {did:?}");
        assert!(each[0] <= AHEAD * each[1], "{cc}: {each:?} packets/s");
    }
}
