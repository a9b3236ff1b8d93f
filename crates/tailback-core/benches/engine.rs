//! How fast the engine is: events and bottleneck data packets a core-second on fixed scenarios.
//!
//! `cargo bench -p tailback-core`. Each scenario runs three times; the best time counts, as the others hold the
//! machine's noise. `cargo bench -p tailback-core -- NAME` runs one scenario once (for callgrind, with `-- -1`).

#![allow(clippy::disallowed_types, reason = "a benchmark times")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use common::{MS, SECOND, bulk, column, dumbbell};
use tailback_core::engine::Simulation;
use tailback_core::scenario::{FlowSpec, Instruments, QueueSpec, Scenario};

fn flows(count: usize, cc: &str) -> Vec<FlowSpec> {
    (0..count)
        .map(|number| {
            let mut flow = bulk(cc, "linux");
            flow.name = format!("bulk {number}");
            flow.start_ps = number as u64 * SECOND / count as u64;
            flow
        })
        .collect()
}

/// 4 flows, 1 Gbit/s, 100 ms, one BDP: the scenario every simulator is compared on.
fn gigabit() -> Scenario {
    dumbbell(1_000_000_000, 100 * MS, Some(12_500_000), 60, flows(4, "reno"))
}

fn gigabit_probed() -> Scenario {
    let mut scenario = gigabit();
    scenario.instruments = Instruments {
        polls: scenario.flows.iter().map(|flow| flow.name.clone()).collect(),
        queue_polls: vec!["bottleneck".into()],
        poll_interval_ps: MS,
        drops: vec!["bottleneck".into()],
        ..Instruments::default()
    };
    scenario
}

fn crowd(count: usize) -> Scenario {
    let mut scenario = dumbbell(1_000_000_000, 100 * MS, Some(12_500_000), 30, flows(count, "reno"));
    for flow in &mut scenario.flows {
        let tcp = flow.tcp.as_mut().expect("tcp");
        tcp.send_buffer = Some(4 << 20);
        tcp.receive_buffer = Some(4 << 20);
    }
    scenario
}

/// Ten flows through CoDel at 20 Mbit/s and 30 ms.
fn codel() -> Scenario {
    let mut scenario = dumbbell(20_000_000, 30 * MS, None, 600, flows(10, "reno"));
    for link in &mut scenario.links {
        link.queue = QueueSpec { discipline: "codel".into(), params: Default::default() };
    }
    scenario
}

fn measure(name: &str, scenario: &Scenario, rounds: usize) {
    let mut best = f64::INFINITY;
    let (mut events, mut packets, mut delivered) = (0.0, 0.0, 0.0);
    for _ in 0..rounds {
        let started = Instant::now();
        let mut simulation = Simulation::build(scenario).expect("a valid scenario");
        while !simulation.run_events(1 << 24).expect("a sound engine") {}
        best = best.min(started.elapsed().as_secs_f64());
        let tables = simulation.finish();
        events = column(&tables, "engine", "events")[0];
        packets = column(&tables, "links", "delivered")[0];
        delivered = column(&tables, "links", "delivered_bytes")[0];
    }
    let seconds = scenario.duration_ps as f64 / SECOND as f64;
    println!(
        "{name:<24} {best:7.3} s  {:6.2} M packets/s  {:6.2} M events/s  {:5.1} x real time  {:7.1} Mbit/s delivered",
        packets / best / 1e6,
        events / best / 1e6,
        seconds / best,
        delivered * 8.0 / seconds / 1e6,
    );
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let rounds = if words.iter().any(|word| word == "-1") { 1 } else { 3 };
    let chosen: Vec<&String> = words.iter().filter(|word| *word != "-1").collect();
    type Case = (&'static str, fn() -> Scenario);
    let all: [Case; 5] = [
        ("gigabit", gigabit),
        ("gigabit-probed", gigabit_probed),
        ("crowd-1000", || crowd(1_000)),
        ("crowd-10000", || crowd(10_000)),
        ("codel", codel),
    ];
    for (name, scenario) in all {
        if chosen.is_empty() || chosen.iter().any(|word| *word == name) {
            measure(name, &scenario(), rounds);
        }
    }
}
