//! Web background on a 1 Gbit/s link of 100 ms round-trip time: how fast, and in how much memory.
//!
//! `cargo run --release --example web -- [sessions/s forward] [sessions/s back] [seconds] [hosts]`

use tailback_core::engine::Simulation;
use tailback_core::probe::{Column, Tables};
use tailback_core::scenario::{
    AppSpec, FlowSpec, Instruments, IpVersion, LinkSpec, Params, QueueSpec, Randomness, Scenario, TcpSpec,
    Value,
};

fn link(name: &str, from: &str, to: &str) -> LinkSpec {
    let params = Params::from([("limit_bytes".to_string(), Value::Number(12_500_000.0))]);
    LinkSpec {
        name: name.into(),
        from: from.into(),
        to: to.into(),
        rate_bps: Some(1_000_000_000),
        delay_ps: 50_000_000_000,
        queue: QueueSpec { discipline: "fifo".into(), params, ..Default::default() },
        ..LinkSpec::default()
    }
}

fn web(name: &str, from: &str, to: &str, rate: f64, hosts: f64) -> FlowSpec {
    let (ocean, back) = (vec!["ocean".to_string()], vec!["ocean back".to_string()]);
    let (route, back_route) = if from == "left" { (ocean, back) } else { (back, ocean) };
    FlowSpec {
        name: name.into(),
        from: from.into(),
        to: to.into(),
        route,
        back_route,
        start_ps: 0,
        stop_ps: None,
        again: Vec::new(),
        app: AppSpec {
            kind: "web".into(),
            params: Params::from([
                ("rate".to_string(), Value::Number(rate)),
                ("hosts".to_string(), Value::Number(hosts)),
            ]),
        },
        tcp: Some(TcpSpec {
            transport: None,
            stack: "linux".into(),
            receiver_stack: None,
            cc: "reno".into(),
            cc_params: Params::new(),
            cc_turns: Vec::new(),
            stack_params: Params::new(),
            send_buffer: None,
            receive_buffer: None,
            mtu: 1500,
        }),
        ip: IpVersion::V4,
    }
}

fn column(tables: &Tables, table: &str, column: &str) -> Vec<f64> {
    let table = tables.tables.iter().find(|it| it.name == table).expect("table");
    match &table.columns.iter().find(|(name, _)| *name == column).expect("column").1 {
        Column::F64(values) => values.clone(),
        Column::U64(values) => values.iter().map(|value| *value as f64).collect(),
        other => panic!("{other:?}"),
    }
}

/// Resident memory in MB, now and at its highest, where the system reports it.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |key: &str| {
        let line = status.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split_whitespace().nth(1))
            .and_then(|kb| kb.parse::<f64>().ok())
            .unwrap_or(f64::NAN)
    };
    format!("{:.1} MB now, {:.1} MB at most", of("VmRSS:") / 1e3, of("VmHWM:") / 1e3)
}

fn main() {
    let arguments: Vec<f64> = std::env::args().skip(1).map(|text| text.parse().expect("a number")).collect();
    let number = |at: usize, default: f64| arguments.get(at).copied().unwrap_or(default);
    let (forward, back, seconds, hosts) =
        (number(0, 4000.0), number(1, 1000.0), number(2, 30.0), number(3, 0.0));
    let mut flows = vec![web("forward", "right", "left", forward, hosts)];
    if back > 0.0 {
        flows.push(web("back", "left", "right", back, hosts));
    }
    let scenario = Scenario {
        format: 1,
        name: "web".into(),
        seed: 1,
        duration_ps: (seconds * 1e12) as u64,
        nodes: vec!["left".into(), "right".into()],
        links: vec![link("ocean", "left", "right"), link("ocean back", "right", "left")],
        flows,
        randomness: Randomness::default(),
        instruments: Instruments::default(),
    };
    let started = std::time::Instant::now();
    let mut simulation = Simulation::build(&scenario).expect("a valid scenario");
    let mut next = 0.1;
    while !simulation.run_events(100_000).expect("a sound engine") {
        if simulation.now().as_secs_f64() > next * seconds {
            let wall = started.elapsed().as_secs_f64();
            println!("{:8.1} s simulated in {wall:7.2} s, {}", simulation.now().as_secs_f64(), memory());
            next += 0.1;
        }
    }
    let wall = started.elapsed().as_secs_f64();
    let events = simulation.events();
    let tables = simulation.finish();
    for warning in &tables.warnings {
        println!("warning: {warning}");
    }
    println!(
        "{:.2} times real time; {events} events, {:.2} M/s; {}",
        seconds / wall,
        events as f64 / wall / 1e6,
        memory()
    );
    for flow in 0..scenario.flows.len() {
        let of = |name: &str| column(&tables, "flows", name)[flow];
        println!(
            "{}: {} connections, {} failed, responses {:.1} Mbit/s, {} segments again, {} timeouts",
            scenario.flows[flow].name,
            of("connections"),
            of("connections_failed"),
            of("bytes_returned") * 8.0 / seconds / 1e6,
            of("back_segments_retransmitted"),
            of("timeouts"),
        );
    }
    let links = |name: &str| column(&tables, "links", name);
    println!(
        "links: {:.1} and {:.1} Mbit/s, dropped {} and {}",
        links("delivered_bytes")[0] * 8.0 / seconds / 1e6,
        links("delivered_bytes")[1] * 8.0 / seconds / 1e6,
        links("dropped")[0],
        links("dropped")[1]
    );
}
