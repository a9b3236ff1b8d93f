//! Speed of the engine: events and bottleneck data packets per core-second on fixed scenarios.
//!
//! `cargo bench -p tailback-core`. Each scenario runs three times and the best time counts, because the others contain
//! the machine's noise. `cargo bench -p tailback-core --bench engine -- NAME...` runs some scenarios; `-1` runs each
//! once and `5s` runs five simulated seconds (both for callgrind). The checksum covers every table: it must not change
//! with an optimisation.

#![allow(clippy::disallowed_types, reason = "a benchmark times")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use common::{MS, SECOND, bits, bulk, column, dumbbell, flow, tcp};
use tailback_core::engine::Simulation;
use tailback_core::scenario::{FlowSpec, Instruments, QueueSpec, Scenario, Value};

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

/// 4 flows, 1 Gbit/s, 100 ms, a queue of one BDP: a common scenario for comparing simulators.
fn gigabit() -> Scenario {
    dumbbell(1_000_000_000, 100 * MS, Some(12_500_000), 60, flows(4, "reno"))
}

/// A longer variant: CUBIC with a shallow buffer, and a link that loses one packet in a million.
fn gigabit_cubic() -> Scenario {
    let mut scenario = dumbbell(1_000_000_000, 100 * MS, Some(2_500_000), 60, flows(4, "cubic"));
    scenario.links[0].wire.loss = 1e-6;
    scenario
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

/// A few flows with the per-flow rate of ten thousand flows on 1 Gbit/s: the same work per packet, without the memory.
fn thin(count: usize) -> Scenario {
    let rate = 100_000 * count as u64;
    let mut scenario = dumbbell(rate, 100 * MS, Some(rate / 80), 30, crowd(count).flows);
    scenario.duration_ps = 30 * SECOND * (10_000 / count as u64);
    scenario
}

/// Ten flows through CoDel at 20 Mbit/s and 30 ms.
fn codel() -> Scenario {
    let mut scenario = dumbbell(20_000_000, 30 * MS, None, 600, flows(10, "reno"));
    for link in &mut scenario.links {
        link.queue =
            QueueSpec { discipline: "codel".into(), params: Default::default(), ..Default::default() };
    }
    scenario
}

/// 5,000 web sessions per second in addition to the four flows.
fn web() -> Scenario {
    let mut scenario = gigabit();
    let mut web = flow("web", "web", Some(tcp("reno", "linux")));
    web.app.params.insert("rate".into(), Value::Number(5_000.0));
    scenario.flows.push(web);
    scenario.duration_ps = 30 * SECOND;
    scenario
}

/// Web sessions alone, 4,000 per second in one direction and 1,000 in the other: the cost of short connections.
fn sessions() -> Scenario {
    let flows = [("there", 4_000.0), ("back", 1_000.0)].map(|(name, rate)| {
        let mut web = flow(name, "web", Some(tcp("reno", "linux")));
        web.app.params.insert("rate".into(), Value::Number(rate));
        if name == "back" {
            (web.from, web.to) = (web.to, web.from);
            (web.route, web.back_route) = (web.back_route, web.route);
        }
        web
    });
    dumbbell(1_000_000_000, 100 * MS, Some(12_500_000), 30, flows.into())
}

/// Many features on a path that loses, reorders and duplicates: slow, but its checksum covers much code.
fn zoo() -> Scenario {
    let mut flows = Vec::new();
    for stack in ["linux", "linux-2.6.25", "freebsd-7", "ns3"] {
        for cc in ["reno", "cubic", "htcp", "bbr", "cdg"] {
            for sack in [true, false] {
                let mut flow = bulk(cc, stack);
                flow.name = format!("{stack} {cc} {sack}");
                flow.tcp.as_mut().expect("tcp").stack_params.insert("sack".into(), Value::Flag(sack));
                flows.push(flow);
            }
        }
    }
    let mut scenario = dumbbell(50_000_000, 60 * MS, Some(150_000), 60, flows);
    let wire = &mut scenario.links[0].wire;
    (wire.loss, wire.duplicate, wire.reorder, wire.reorder_delay_ps) = (0.001, 0.001, 0.001, 5 * MS);
    scenario
}

/// Processor time of this process in seconds (on Linux), because other work on the machine affects it least; elsewhere
/// the time since `begun`.
fn spent(begun: Instant) -> f64 {
    let on_cpu = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanoseconds = on_cpu.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| begun.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}

/// FNV-1a over every bit of every table.
fn checksum(bits: &[u64]) -> u64 {
    bits.iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x100_0000_01b3))
}

fn measure(name: &str, scenario: &Scenario, rounds: usize) {
    let mut best = f64::INFINITY;
    let (mut events, mut packets, mut delivered, mut sum) = (0.0, 0.0, 0.0, 0);
    for _ in 0..rounds {
        let begun = Instant::now();
        let before = spent(begun);
        let mut simulation = Simulation::build(scenario).expect("a valid scenario");
        while !simulation.run_events(1 << 24).expect("a sound engine") {}
        best = best.min(spent(begun) - before);
        let tables = simulation.finish();
        events = column(&tables, "engine", "events")[0];
        packets = column(&tables, "links", "delivered")[0];
        delivered = column(&tables, "links", "delivered_bytes")[0];
        sum = checksum(&bits(&tables));
    }
    let seconds = scenario.duration_ps as f64 / SECOND as f64;
    println!(
        "{name:<24} {best:7.3} s  {:6.2} M packets/s  {:6.2} M events/s  {:5.1} x real time  {:7.1} Mbit/s delivered  {packets} packets  {sum:016x}",
        packets / best / 1e6,
        events / best / 1e6,
        seconds / best,
        delivered * 8.0 / seconds / 1e6,
    );
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let rounds = if words.iter().any(|word| word == "-1") { 1 } else { 3 };
    let span = words.iter().find_map(|word| word.strip_suffix('s')?.parse::<u64>().ok());
    let is_option =
        |word: &&String| *word == "-1" || word.strip_suffix('s').is_some_and(|n| n.parse::<u64>().is_ok());
    let chosen: Vec<&String> = words.iter().filter(|word| !is_option(word)).collect();
    type Case = (&'static str, fn() -> Scenario);
    let all: [Case; 12] = [
        ("gigabit", gigabit),
        ("gigabit-cubic", gigabit_cubic),
        ("gigabit-probed", gigabit_probed),
        ("crowd-1000", || crowd(1_000)),
        ("crowd-10000", || crowd(10_000)),
        ("crowd-100000", || Scenario { duration_ps: 3 * SECOND, ..crowd(100_000) }),
        ("thin-1000", || thin(1_000)),
        ("thin-4", || thin(4)),
        ("codel", codel),
        ("web", web),
        ("sessions", sessions),
        ("zoo", zoo),
    ];
    for (name, scenario) in all {
        if chosen.is_empty() || chosen.iter().any(|word| *word == name) {
            let mut scenario = scenario();
            scenario.duration_ps = span.map_or(scenario.duration_ps, |seconds| seconds * SECOND);
            measure(name, &scenario, rounds);
        }
    }
}
