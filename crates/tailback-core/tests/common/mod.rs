//! Small scenarios for the tests, and access to their tables.

#![allow(dead_code, reason = "the test of memory uses little of it")]

pub mod links;
pub mod media;

use tailback_core::engine::Simulation;
use tailback_core::probe::{Column, Tables};
use tailback_core::scenario::{
    AppSpec, FlowSpec, Instruments, IpVersion, LinkSpec, Params, QueueSpec, Randomness, Scenario, TcpSpec,
    Value, WireSpec,
};

pub const SECOND: u64 = 1_000_000_000_000;
pub const MS: u64 = 1_000_000_000;

pub fn tcp(cc: &str, stack: &str) -> TcpSpec {
    TcpSpec {
        transport: None,
        stack: stack.into(),
        receiver_stack: None,
        cc: cc.into(),
        cc_params: Params::new(),
        cc_turns: Vec::new(),
        stack_params: Params::new(),
        send_buffer: Some(64 << 20),
        receive_buffer: Some(64 << 20),
        mtu: 1500,
    }
}

pub fn flow(name: &str, kind: &str, tcp: Option<TcpSpec>) -> FlowSpec {
    FlowSpec {
        name: name.into(),
        from: "left".into(),
        to: "right".into(),
        route: vec!["bottleneck".into()],
        back_route: vec!["return".into()],
        start_ps: 0,
        stop_ps: None,
        again: Vec::new(),
        app: AppSpec { kind: kind.into(), params: Params::new() },
        tcp,
        ip: IpVersion::V4,
    }
}

/// The same flow over these links.
pub fn by(flow: FlowSpec, there: &[&str], back: &[&str]) -> FlowSpec {
    let names = |links: &[&str]| links.iter().map(|name| (*name).into()).collect();
    FlowSpec { route: names(there), back_route: names(back), ..flow }
}

pub fn bulk(cc: &str, stack: &str) -> FlowSpec {
    flow("bulk", "bulk", Some(tcp(cc, stack)))
}

pub fn link(name: &str, from: &str, to: &str, bps: u64, delay_ps: u64, limit_bytes: Option<u64>) -> LinkSpec {
    let mut params = Params::new();
    if let Some(limit) = limit_bytes {
        params.insert("limit_bytes".into(), Value::Number(limit as f64));
        params.insert("in_service".into(), Value::Name("counted".into()));
    }
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

/// One bottleneck in each direction; each has half of the RTT.
pub fn dumbbell(
    bps: u64,
    rtt_ps: u64,
    limit_bytes: Option<u64>,
    seconds: u64,
    flows: Vec<FlowSpec>,
) -> Scenario {
    Scenario {
        format: 1,
        name: "test".into(),
        seed: 1,
        duration_ps: seconds * SECOND,
        nodes: vec!["left".into(), "right".into()],
        links: vec![
            link("bottleneck", "left", "right", bps, rtt_ps / 2, limit_bytes),
            link("return", "right", "left", bps, rtt_ps / 2, limit_bytes),
        ],
        flows,
        randomness: Randomness::default(),
        instruments: Instruments::default(),
    }
}

pub fn run(scenario: &Scenario) -> Tables {
    let mut simulation = Simulation::build(scenario).expect("a valid scenario");
    while !simulation.run_events(1_000_000).expect("a sound engine") {}
    simulation.finish()
}

pub fn column(tables: &Tables, table: &str, column: &str) -> Vec<f64> {
    let table = tables.tables.iter().find(|it| it.name == table).unwrap_or_else(|| panic!("table {table}"));
    let found = table.columns.iter().find(|(name, _)| *name == column);
    match &found.unwrap_or_else(|| panic!("column {column}")).1 {
        Column::F64(values) => values.clone(),
        Column::U64(values) => values.iter().map(|value| *value as f64).collect(),
        Column::U32(values) => values.iter().map(|value| f64::from(*value)).collect(),
        Column::U16(values) => values.iter().map(|value| f64::from(*value)).collect(),
        Column::U8(values) => values.iter().map(|value| f64::from(*value)).collect(),
        Column::Bool(values) => values.iter().map(|value| f64::from(u8::from(*value))).collect(),
    }
}

/// Times at which a flow entered fast recovery after `from` seconds.
pub fn entries(tables: &Tables, flow: f64, from: f64) -> Vec<f64> {
    let (t, kind) = (column(tables, "congestion", "t_s"), column(tables, "congestion", "kind"));
    let of = column(tables, "congestion", "flow");
    (0..t.len())
        .filter(|row| kind[*row] == 0.0 && of[*row] == flow && t[*row] >= from)
        .map(|row| t[row])
        .collect()
}

/// Every bit of every table, to compare runs.
pub fn bits(tables: &Tables) -> Vec<u64> {
    let mut bits = Vec::new();
    for table in &tables.tables {
        for (_, column) in &table.columns {
            match column {
                Column::F64(values) => bits.extend(values.iter().map(|value| value.to_bits())),
                Column::U64(values) => bits.extend(values),
                Column::U32(values) => bits.extend(values.iter().map(|value| u64::from(*value))),
                Column::U16(values) => bits.extend(values.iter().map(|value| u64::from(*value))),
                Column::U8(values) => bits.extend(values.iter().map(|value| u64::from(*value))),
                Column::Bool(values) => bits.extend(values.iter().map(|value| u64::from(*value))),
            }
        }
    }
    bits
}

/// Records every flow's segments and packets.
pub fn watch_all(scenario: &mut Scenario) {
    let names: Vec<String> = scenario.flows.iter().map(|flow| flow.name.clone()).collect();
    (scenario.instruments.segments, scenario.instruments.packets) = (names.clone(), names);
}

/// Asserts that the same scenario and seed give the same bytes in any thread, and that another seed gives others.
pub fn assert_alike_in_any_thread(make: fn(u64) -> Scenario, run: fn(&Scenario) -> Tables) {
    let first = bits(&run(&make(1)));
    assert!(first == bits(&run(&make(1))), "the same run, another result");
    assert!(first != bits(&run(&make(2))), "another seed, the same result");
    let others: Vec<_> = (0..3).map(|_| std::thread::spawn(move || bits(&run(&make(1))))).collect();
    for other in others {
        assert!(first == other.join().expect("a run"), "another thread, another result");
    }
}
