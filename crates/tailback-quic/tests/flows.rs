//! Flows of the published stacks over the core's links.

#[path = "../../tailback-core/tests/common/mod.rs"]
mod common;

mod bare;

use common::{MS, assert_alike_in_any_thread, bits, bulk, column, dumbbell, flow, tcp, watch_all};
use tailback_core::engine::Simulation;
use tailback_core::probe::Tables;
use tailback_core::scenario::{FlowSpec, Scenario, Value};
use tailback_quic::stacks;

fn over(transport: &str, cc: &str, app: &str) -> FlowSpec {
    let mut it = flow("theirs", app, Some(tcp(cc, transport)));
    let tcp = it.tcp.as_mut().expect("tcp");
    tcp.transport = Some(transport.into());
    (tcp.send_buffer, tcp.receive_buffer) = (None, None);
    it
}

fn run(scenario: &Scenario) -> Tables {
    let mut simulation = Simulation::build_hosting(scenario, &Default::default(), &stacks()).expect("valid");
    while !simulation.run_events(100_000).unwrap_or_else(|fault| panic!("{fault}")) {}
    simulation.finish()
}

/// Every stack with each of its congestion controls.
fn all() -> Vec<(String, &'static str)> {
    let known = stacks();
    let each = known.iter().flat_map(|(name, stack)| {
        let names: Vec<&'static str> = stack.algorithms().to_vec();
        names.into_iter().map(|cc| (name.clone(), cc))
    });
    each.collect()
}

/// 20 Mbit/s, 40 ms, a queue of one BDP.
fn path(seconds: u64, flows: Vec<FlowSpec>) -> Scenario {
    dumbbell(20_000_000, 40 * MS, Some(100_000), seconds, flows)
}

#[test]
fn each_alone_fills_most_of_the_link() {
    for (stack, cc) in all() {
        let tables = run(&path(10, vec![over(&stack, cc, "bulk")]));
        let received = column(&tables, "flows", "bytes_received")[0];
        assert!(received > 0.6 * 25e6 && received < 25e6, "{stack} {cc}: {received}");
        let counted = column(&tables, "flows", "segments_sent")[0];
        let sent = column(&tables, "flows", "packets_sent")[0];
        assert!((sent - counted).abs() <= 0.01 * sent + 5.0, "{stack} {cc}: {counted} of {sent}");
        assert!(column(&tables, "flows", "rtt_min_s")[0] >= 0.04, "{stack} {cc}");
    }
}

#[test]
fn a_transfer_ends_when_its_last_byte_is_there() {
    for (stack, cc) in all() {
        let mut transfers = over(&stack, cc, "transfers");
        for (key, value) in [("bytes", 100_000.0), ("idle_low", 0.1), ("idle_high", 0.2), ("count", 5.0)] {
            transfers.app.params.insert(key.into(), Value::Number(value));
        }
        let mut scenario = path(10, vec![transfers]);
        scenario.instruments.requests = vec!["theirs".into()];
        let tables = run(&scenario);
        let times = column(&tables, "requests", "response_time_s");
        // One round trip for the handshake, then slow start from about ten packets.
        assert!(times.len() == 5 && times.iter().all(|t| (0.1..0.6).contains(t)), "{stack} {cc}: {times:?}");
        assert_eq!(column(&tables, "flows", "bytes_received")[0], 500_000.0, "{stack} {cc}");
        assert_eq!(column(&tables, "flows", "connections_failed")[0], 0.0);
        assert_eq!(column(&tables, "flows", "connections_open")[0], 0.0, "{stack} {cc}");
    }
}

#[test]
fn a_connection_that_fails_says_why() {
    for (stack, cc) in all() {
        let mut scenario = path(60, vec![over(&stack, cc, "bulk")]);
        scenario.links[0].wire.loss = 1.0;
        let tables = run(&scenario);
        assert_eq!(column(&tables, "flows", "connections_failed")[0], 1.0, "{stack} {cc}");
        let [warning] = &tables.warnings[..] else { panic!("{stack} {cc}: {:?}", tables.warnings) };
        assert!(warning.contains("flow theirs: its connection failed at "), "{warning}");
        assert!(!warning.contains("gives no reason"), "{warning}");
    }
}

#[test]
fn requests_are_answered_on_an_open_connection() {
    for (stack, cc) in all() {
        let mut asking = over(&stack, cc, "request-response");
        for (key, value) in [("think", 20.0), ("response_bytes", 10_000.0), ("count", 4.0)] {
            asking.app.params.insert(key.into(), Value::Number(value));
        }
        let mut scenario = path(5, vec![asking]);
        scenario.instruments.requests = vec!["theirs".into()];
        let tables = run(&scenario);
        assert_eq!(column(&tables, "requests", "response_time_s").len(), 4, "{stack} {cc}");
        assert_eq!(column(&tables, "flows", "bytes_returned")[0], 40_000.0, "{stack} {cc}");
    }
}

/// Two flows over foreign stacks and two over TCP, with losses, duplicates and reordering on the link.
fn mixed(seed: u64) -> Scenario {
    let named = |mut flow: FlowSpec, name: &str| {
        flow.name = name.into();
        flow
    };
    let all = all();
    let mut flows = vec![named(bulk("cubic", "linux"), "t1"), named(bulk("reno", "freebsd-9"), "t2")];
    for (number, (stack, cc)) in all.iter().enumerate() {
        flows.push(named(over(stack, cc, "bulk"), &format!("q{number}")));
    }
    let mut scenario = path(4, flows);
    let wire = &mut scenario.links[0].wire;
    (wire.loss, wire.duplicate, wire.reorder, wire.reorder_delay_ps) = (0.001, 0.001, 0.001, MS);
    scenario.seed = seed;
    watch_all(&mut scenario);
    scenario
}

#[test]
fn the_same_scenario_and_seed_give_the_same_bytes_in_any_thread() {
    assert_alike_in_any_thread(mixed, run);
}

#[test]
#[ignore = "a hundred runs"]
fn two_flows_over_quic_and_two_over_tcp_come_out_alike_a_hundred_times() {
    let mut scenario = mixed(7);
    let kept = ["t1", "t2", "q4", "q7"];
    scenario.flows.retain(|flow| kept.contains(&flow.name.as_str()));
    watch_all(&mut scenario);
    let first = bits(&run(&scenario));
    let all: Vec<_> = (0..4)
        .map(|_| {
            let scenario = scenario.clone();
            std::thread::spawn(move || (0..25).map(|_| bits(&run(&scenario))).collect::<Vec<_>>())
        })
        .collect();
    for thread in all {
        assert!(thread.join().expect("runs").iter().all(|other| *other == first));
    }
}

/// `cargo test --release -p tailback-quic --test flows speed -- --ignored --nocapture`.
#[test]
#[ignore = "measures"]
fn speed() {
    for ((stack, cc), buffer) in all().into_iter().flat_map(|it| [(it.clone(), None), (it, Some(64 << 20))]) {
        let mut theirs = over(&stack, cc, "bulk");
        let tcp = theirs.tcp.as_mut().expect("tcp");
        (tcp.send_buffer, tcp.receive_buffer) = (buffer, buffer);
        let scenario = dumbbell(100_000_000, 40 * MS, Some(500_000), 20, vec![theirs]);
        let began = std::time::Instant::now();
        let tables = run(&scenario);
        let wall = began.elapsed().as_secs_f64();
        let of = |name: &str| column(&tables, "flows", name)[0];
        println!(
            "{stack} {cc}, buffers {buffer:?}: {:.1} Mbit/s, {} dropped, {:.0} packets/s of wall time",
            of("bytes_received") * 8.0 / 20e6,
            of("packets_dropped"),
            of("packets_sent") / wall
        );
    }
}
