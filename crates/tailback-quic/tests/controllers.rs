//! Congestion controllers of other stacks on the core's sender.

#[path = "../../tailback-core/tests/common/mod.rs"]
mod common;

use common::{MS, assert_alike_in_any_thread, column, dumbbell, flow, tcp, watch_all};
use tailback_core::engine::Simulation;
use tailback_core::probe::Tables;
use tailback_core::scenario::{FlowSpec, Scenario};
use tailback_quic::controllers;

fn run(scenario: &Scenario) -> Tables {
    let mut simulation = Simulation::build_with(scenario, &controllers()).expect("valid");
    while !simulation.run_events(100_000).expect("a sound engine") {}
    simulation.finish()
}

fn bulk(cc: &str, stack: &str, name: &str) -> FlowSpec {
    let mut it = flow(name, "bulk", Some(tcp(cc, stack)));
    it.name = name.into();
    it
}

/// 20 Mbit/s, 40 ms, a queue of one BDP.
fn path(seconds: u64, flows: Vec<FlowSpec>) -> Scenario {
    dumbbell(20_000_000, 40 * MS, Some(100_000), seconds, flows)
}

#[test]
fn each_alone_fills_most_of_the_link_over_every_stack() {
    for name in controllers().keys() {
        for stack in ["linux", "linux-2.6.25", "freebsd-9", "ns2-sack"] {
            let tables = run(&path(10, vec![bulk(name, stack, "alone")]));
            let received = column(&tables, "flows", "bytes_received")[0];
            assert!(received > 0.6 * 25e6 && received < 25e6, "{name} over {stack}: {received}");
        }
    }
}

#[test]
fn losses_bring_the_window_down() {
    for name in controllers().keys() {
        let mut scenario = path(10, vec![bulk(name, "linux", "alone")]);
        scenario.links[0].wire.loss = 0.05;
        let received = column(&run(&scenario), "flows", "bytes_received")[0];
        assert!(received > 0.01 * 25e6, "{name}: {received}");
        if name == "s2n-cubic" {
            assert!(received < 0.3 * 25e6, "{name}: {received}");
        }
    }
}

/// All of them competing with CUBIC, with losses, duplicates and reordering on the link, and an outage.
fn mixed(seed: u64) -> Scenario {
    let mut flows = vec![bulk("cubic", "linux", "ours")];
    flows.extend(controllers().keys().map(|name| bulk(name, "linux", name)));
    let mut scenario = path(6, flows);
    let wire = &mut scenario.links[0].wire;
    (wire.loss, wire.duplicate, wire.reorder, wire.reorder_delay_ps) = (0.002, 0.001, 0.002, 5 * MS);
    scenario.seed = seed;
    watch_all(&mut scenario);
    scenario
}

#[test]
fn the_same_scenario_and_seed_give_the_same_bytes_in_any_thread() {
    assert_alike_in_any_thread(mixed, run);
}

#[test]
fn they_take_no_parameters() {
    let mut scenario = path(1, vec![bulk("s2n-cubic", "linux", "alone")]);
    let tcp = scenario.flows[0].tcp.as_mut().expect("tcp");
    tcp.cc_params.insert("beta".into(), tailback_core::scenario::Value::Number(0.5));
    let error = Simulation::build_with(&scenario, &controllers()).err().expect("refused");
    assert!(error.to_string().contains("beta is not a parameter of it"), "{error}");
}
