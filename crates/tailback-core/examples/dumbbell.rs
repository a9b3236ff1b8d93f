//! A bulk transfer and a phone call over one bottleneck, without Python:
//! `cargo run --release --example dumbbell -- cubic linux 10 80 1.0 120`
//! (congestion control, stack, Mbit/s, RTT in ms, queue in BDP, seconds; `-v` for a trace, `-q` for no instruments).

#![allow(clippy::disallowed_types, reason = "the example times itself; the engine does not")]

use tailback_core::engine::Simulation;
use tailback_core::probe::{Column, Tables};
use tailback_core::scenario::{
    AppSpec, FlowSpec, Instruments, IpVersion, LinkSpec, Params, QueueSpec, Randomness, Scenario, TcpSpec,
    Value, WireSpec,
};

fn link(name: &str, from: &str, to: &str, bps: u64, delay_ps: u64, limit: f64) -> LinkSpec {
    let params = Params::from([
        ("limit_bytes".into(), Value::Number(limit)),
        ("in_service".into(), Value::Name("counted".into())),
    ]);
    LinkSpec {
        name: name.into(),
        from: from.into(),
        to: to.into(),
        rate_bps: Some(bps),
        delay_ps,
        tick_hz: None,
        queue: QueueSpec { discipline: "fifo".into(), params, ..Default::default() },
        wire: WireSpec::default(),
        ..LinkSpec::default()
    }
}

fn flow(name: &str, kind: &str, tcp: Option<TcpSpec>, start_ps: u64) -> FlowSpec {
    FlowSpec {
        name: name.into(),
        from: "left".into(),
        to: "right".into(),
        route: vec!["bottleneck".into()],
        back_route: vec!["return".into()],
        start_ps,
        stop_ps: None,
        again: Vec::new(),
        app: AppSpec { kind: kind.into(), params: Params::new() },
        tcp,
        ip: IpVersion::V4,
    }
}

fn numbers(tables: &Tables, table: &str, column: &str) -> Vec<f64> {
    let table = tables.tables.iter().find(|it| it.name == table).expect("table");
    match &table.columns.iter().find(|(name, _)| *name == column).expect("column").1 {
        Column::F64(values) => values.clone(),
        Column::U64(values) => values.iter().map(|value| *value as f64).collect(),
        Column::U32(values) => values.iter().map(|value| f64::from(*value)).collect(),
        Column::U16(values) => values.iter().map(|value| f64::from(*value)).collect(),
        Column::U8(values) => values.iter().map(|value| f64::from(*value)).collect(),
        Column::Bool(values) => values.iter().map(|value| f64::from(u8::from(*value))).collect(),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize, default: &str| arguments.get(at).cloned().unwrap_or_else(|| default.into());
    let number =
        |at: usize, default: f64| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    let (cc, stack) = (word(0, "cubic"), word(1, "linux"));
    let (mbps, rtt_ms, bdp, seconds) = (number(2, 10.0), number(3, 80.0), number(4, 1.0), number(5, 120.0));
    let is_verbose = arguments.iter().any(|word| word == "-v");
    let bps = (mbps * 1e6) as u64;
    let half_ps = (rtt_ms * 0.5e9) as u64;
    let limit = mbps * rtt_ms * 1e3 / 8.0 * bdp;
    let tcp = TcpSpec {
        transport: None,
        stack,
        receiver_stack: None,
        cc,
        cc_params: Params::new(),
        cc_turns: Vec::new(),
        stack_params: Params::new(),
        send_buffer: Some(64 << 20),
        receive_buffer: Some(64 << 20),
        mtu: 1500,
    };
    let scenario = Scenario {
        format: 1,
        name: "dumbbell".into(),
        seed: 1,
        duration_ps: ((seconds + 0.5) * 1e12) as u64,
        nodes: vec!["left".into(), "right".into()],
        links: vec![
            link("bottleneck", "left", "right", bps, half_ps, limit),
            link("return", "right", "left", bps, half_ps, limit),
        ],
        flows: vec![flow("bulk", "bulk", Some(tcp), 500_000_000_000), flow("call", "voip", None, 0)],
        randomness: Randomness::default(),
        instruments: match is_verbose || !arguments.iter().any(|word| word == "-q") {
            true => Instruments {
                packets: vec!["call".into()],
                polls: vec!["bulk".into()],
                queue_polls: vec!["bottleneck".into()],
                poll_interval_ps: 100_000_000_000,
                ..Instruments::default()
            },
            false => Instruments::default(),
        },
    };
    let started = std::time::Instant::now();
    let mut simulation = Simulation::build(&scenario).expect("a valid scenario");
    while !simulation.run_events(1_000_000).expect("a sound engine") {}
    let wall = started.elapsed().as_secs_f64();
    let tables = simulation.finish();

    let packets = numbers(&tables, "links", "delivered")[0];
    println!("{packets} bottleneck packets, {:.3} s, {:.2} M packets/s", wall, packets / wall / 1e6);
    let flows = |column: &str| numbers(&tables, "flows", column)[0];
    println!(
        "retransmitted {} recoveries {} timeouts {} undos {} dropped {} goodput {:.3} Mbit/s",
        flows("segments_retransmitted"),
        flows("recoveries"),
        flows("timeouts"),
        flows("undos"),
        flows("packets_dropped"),
        flows("bytes_received") * 8.0 / seconds / 1e6,
    );
    if !arguments.iter().any(|word| word == "-q") {
        let (sent, received) =
            (numbers(&tables, "packets", "sent_s"), numbers(&tables, "packets", "received_s"));
        let mut delays: Vec<f64> = sent
            .iter()
            .zip(&received)
            .filter(|(sent, got)| **sent > 20.0 && !got.is_nan())
            .map(|(s, r)| (r - s) * 1e3)
            .collect();
        delays.sort_by(f64::total_cmp);
        let base = sent.iter().zip(&received).map(|(s, r)| (r - s) * 1e3).fold(f64::INFINITY, f64::min);
        let at = |q: f64| delays[(q * (delays.len() - 1) as f64) as usize] - base;
        println!("call: induced median {:.1} ms p90 {:.1} ms", at(0.5), at(0.9));
    }
    let (t, kind) = (numbers(&tables, "congestion", "t_s"), numbers(&tables, "congestion", "kind"));
    let (before, ssthresh) =
        (numbers(&tables, "congestion", "cwnd_before"), numbers(&tables, "congestion", "ssthresh"));
    let entries: Vec<usize> = (0..t.len()).filter(|row| kind[*row] == 0.0).collect();
    let late: Vec<f64> = entries.iter().map(|row| t[*row]).filter(|t| *t > 20.0).collect();
    if late.len() > 1 {
        println!(
            "epoch {:.2} s over {}",
            (late[late.len() - 1] - late[0]) / (late.len() - 1) as f64,
            late.len()
        );
    }
    for row in entries.iter().take(if is_verbose { 40 } else { 6 }) {
        println!("  {:8.2} s  {:6.1} -> {:6.1}", t[*row], before[*row] / 1448.0, ssthresh[*row] / 1448.0);
    }
    if is_verbose {
        let (t, cwnd) = (numbers(&tables, "polls", "t_s"), numbers(&tables, "polls", "cwnd"));
        let (rtt, backlog) =
            (numbers(&tables, "polls", "srtt_s"), numbers(&tables, "queue_polls", "backlog_bytes"));
        for row in 0..60.min(t.len()) {
            println!("{:.1} {:6.1} {:6.1} {:8}", t[row], cwnd[row] / 1448.0, rtt[row] * 1e3, backlog[row]);
        }
    }
}
