//! Runs that would never end or exhaust memory are refused by name; accepted runs can be stopped, and read in parts.

use crate::common::{self, MS, bits, bulk, dumbbell, flow, run, tcp};
use tailback_core::engine::{ROWS_A_GROUP, Simulation};
use tailback_core::probe::{Column, Table};
use tailback_core::scenario::{LinkSpec, Scenario, ScenarioError, Value};

fn refused(scenario: &Scenario) -> ScenarioError {
    Simulation::build(scenario).err().expect("a scenario to refuse")
}

/// Two infinitely fast links without delay.
fn timeless() -> Scenario {
    let mut scenario = dumbbell(1_000_000, 0, None, 1, vec![bulk("reno", "linux")]);
    for link in &mut scenario.links {
        link.rate_bps = None;
    }
    scenario
}

#[test]
fn a_connection_over_links_that_take_no_time_is_refused() {
    let error = refused(&timeless());
    assert_eq!(error.field, "links[0].rate_bps");
    assert!(error.problem.contains("flow bulk"), "{error}");
    // A delay below the timer's tick counts as none.
    let mut ticking = timeless();
    (ticking.links[0].delay_ps, ticking.links[0].tick_hz) = (MS / 2, Some(1000));
    assert_eq!(refused(&ticking).field, "links[0].rate_bps");
}

#[test]
fn one_link_that_takes_time_is_enough_and_datagrams_need_none() {
    let changes: [fn(&mut LinkSpec); 3] = [
        |link| link.rate_bps = Some(1_000_000_000),
        |link| link.delay_ps = MS,
        |link| link.wire.jitter_ps = MS,
    ];
    for change in changes {
        let mut scenario = timeless();
        change(&mut scenario.links[1]);
        Simulation::build(&scenario).expect("time passes on the way back");
    }
    let mut calls = timeless();
    calls.flows = vec![flow("call", "voip", None)];
    run(&calls);
}

#[test]
fn a_look_comes_after_so_many_packets_however_few_the_events() {
    // An entire window arrives in one event, because the link is infinitely fast.
    let mut scenario = timeless();
    scenario.links[0].delay_ps = 100 * MS;
    scenario.duration_ps *= 5;
    let mut simulation = Simulation::build(&scenario).unwrap();
    let mut looks = 0;
    let mut events = 0;
    while !simulation.run_events(100_000).unwrap() {
        looks += 1;
        events = simulation.events();
    }
    assert!(looks > 5 && events < looks * 50_000, "{looks} looks at {events} events");
}

#[test]
fn more_rows_than_allowed_are_refused_before_time_zero() {
    let mut scenario = dumbbell(2_000_000, 40 * MS, None, 2, vec![bulk("reno", "linux")]);
    scenario.instruments.polls = vec!["bulk".into()];
    scenario.instruments.poll_interval_ps = 1;
    let error = refused(&scenario);
    assert_eq!((error.field.as_str(), error.value.as_str()), ("instruments.poll_interval_ps", "\"1 ps\""));
    assert!(error.problem.contains("2.00e12 rows") && error.fix.contains("most_rows"), "{error}");
    scenario.instruments.poll_interval_ps = MS;
    Simulation::build(&scenario).expect("2,000 rows");
    scenario.instruments.most_rows = Some(1_000);
    assert_eq!(refused(&scenario).field, "instruments.poll_interval_ps");
    scenario.instruments.most_rows = Some(0);
    assert_eq!(refused(&scenario).field, "instruments.most_rows");
    scenario.instruments = Default::default();
    scenario.instruments.segments = vec!["bulk".into()];
    scenario.instruments.most_rows = Some(900);
    let error = refused(&scenario);
    // 2 Mbit/s is 167 packets per second, with three rows each.
    assert_eq!((error.field.as_str(), error.value.as_str()), ("instruments.segments", "[\"bulk\"]"));
    assert!(error.problem.contains("about 1000 rows, 1000 of them by this"), "{error}");
}

#[test]
fn rows_beyond_the_limit_stop_a_run_that_was_estimated_too_low() {
    // Small packets: 38 times as many as estimated.
    let mut scenario = dumbbell(2_000_000, 40 * MS, None, 2, vec![bulk("reno", "linux")]);
    scenario.flows[0].tcp.as_mut().unwrap().mtu = 100;
    scenario.instruments.segments = vec!["bulk".into()];
    scenario.instruments.most_rows = Some(1_500);
    let mut simulation = Simulation::build(&scenario).unwrap();
    while !simulation.run_events(1_000).unwrap() && simulation.check_rows().is_ok() {}
    let error = simulation.check_rows().unwrap_err();
    assert_eq!((error.field.as_str(), error.value.as_str()), ("instruments.most_rows", "1500"));
}

#[test]
fn a_queue_that_grows_beyond_the_memory_of_a_run_ends_it() {
    // 12,500 packets per second into an unlimited queue that sends 83 per second.
    let mut flood = flow("flood", "udp-cbr", None);
    flood.app.params.insert("rate".into(), Value::Number(150e6));
    let mut scenario = dumbbell(1_000_000, MS, None, 20, vec![flood]);
    let ends = |scenario: &Scenario| {
        let mut simulation = Simulation::build(scenario).unwrap();
        loop {
            match simulation.run_events(5_000) {
                Ok(false) => {}
                other => return other.map_err(|error| *error),
            }
        }
    };
    scenario.instruments.most_memory = Some(4_000_000);
    let error = ends(&scenario).unwrap_err();
    assert_eq!((error.field.as_str(), error.value.as_str()), ("instruments.most_memory", "\"4000000 B\""));
    assert!(error.problem.contains("connections at once, about 4"), "{error}");
    assert!(error.fix.contains("raise instruments.most_memory"), "{error}");
    scenario.instruments.most_memory = Some(100_000_000);
    assert_eq!(ends(&scenario), Ok(true));
}

/// Losses, duplicates, reordering, two flows, every table.
fn recorded() -> Scenario {
    let mut flows = vec![bulk("reno", "linux"), flow("other", "bulk", Some(tcp("cubic", "linux")))];
    flows.iter_mut().for_each(|flow| flow.tcp.as_mut().unwrap().mtu = 100);
    let mut scenario = dumbbell(20_000_000, 2 * MS, Some(20_000), 12, flows);
    let wire = &mut scenario.links[0].wire;
    (wire.loss, wire.duplicate, wire.reorder, wire.reorder_delay_ps) = (1e-5, 1e-4, 1e-4, MS);
    let wanted = &mut scenario.instruments;
    let flows = vec!["bulk".to_string(), "other".to_string()];
    (wanted.segments, wanted.packets, wanted.polls) = (flows.clone(), flows.clone(), flows);
    (wanted.queues, wanted.internals, wanted.poll_interval_ps) = (vec!["bottleneck".into()], true, MS);
    scenario
}

fn append(to: &mut Table, from: Table) {
    for ((_, column), (_, more)) in to.columns.iter_mut().zip(from.columns) {
        match (column, more) {
            (Column::F64(to), Column::F64(more)) => to.extend(more),
            (Column::U64(to), Column::U64(more)) => to.extend(more),
            (Column::U32(to), Column::U32(more)) => to.extend(more),
            (Column::U16(to), Column::U16(more)) => to.extend(more),
            (Column::U8(to), Column::U8(more)) => to.extend(more),
            (Column::Bool(to), Column::Bool(more)) => to.extend(more),
            _ => panic!("columns of two types"),
        }
    }
}

#[test]
fn rows_handed_over_in_groups_are_the_rows_of_the_whole() {
    let scenario = recorded();
    let whole = run(&scenario);
    let mut simulation = Simulation::build(&scenario).unwrap();
    let mut groups: Vec<Table> = Vec::new();
    while !simulation.run_events(50_000).unwrap() {
        groups.extend(simulation.take_groups());
    }
    let names: Vec<&str> = groups.iter().map(|group| group.name).collect();
    assert!(["segments", "queue", "packets"].iter().all(|name| names.contains(name)), "{names:?}");
    let mut rest = simulation.finish();
    for table in &mut rest.tables {
        let (mine, others) = groups.into_iter().partition(|group| group.name == table.name);
        groups = others;
        let mut all: Vec<Table> = mine;
        assert!(all.iter().all(|group| length(group) == ROWS_A_GROUP));
        all.push(table.clone());
        let mut parts = all.into_iter();
        *table = parts.next().unwrap();
        parts.for_each(|part| append(table, part));
    }
    assert!(bits(&rest) == bits(&whole));
}

fn length(table: &Table) -> usize {
    match &table.columns[0].1 {
        Column::F64(values) => values.len(),
        Column::U32(values) => values.len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn bbr3_runs_with_segments_larger_than_its_largest_burst() {
    // The 64 KiB of a host's largest burst hold less than two segments if the MTU exceeds 32,820.
    let mut scenario = dumbbell(10_000_000, 40 * MS, Some(1 << 20), 5, vec![bulk("bbr3", "linux")]);
    scenario.flows[0].tcp.as_mut().unwrap().mtu = 65_535;
    let tables = run(&scenario);
    assert!(common::column(&tables, "flows", "bytes_acked")[0] > 4e6, "it uses the link");
}

#[test]
fn the_shortest_timeouts_allowed_end() {
    let shortest = |fields: &[&str]| {
        let mut scenario = dumbbell(10_000_000, 40 * MS, None, 2, vec![bulk("cubic", "linux")]);
        let tcp = scenario.flows[0].tcp.as_mut().unwrap();
        tcp.receive_buffer = Some(16_000);
        // Without jiffies, which would round one millisecond up to eight.
        tcp.stack_params.insert("timer_tick".into(), Value::Number(0.0));
        for field in fields {
            let least = if field.ends_with("minimum") { 0.0 } else { 1.0 };
            tcp.stack_params.insert(field.to_string(), Value::Number(least));
        }
        scenario.flows[0].app.params.insert("read_rate".into(), Value::Number(1_000.0));
        run(&scenario)
    };
    let tables = shortest(&["rto_initial", "rto_minimum", "rto_maximum"]);
    assert_eq!(
        common::column(&tables, "flows", "connections_failed"),
        [1.0],
        "no answer within a millisecond"
    );
    // The window is closed most of the time and probed every millisecond; the receiver answers twice per second.
    let tables = shortest(&["persist_minimum", "persist_maximum"]);
    let events = common::column(&tables, "engine", "events")[0];
    assert!((3_000.0..40_000.0).contains(&events), "1,500 probes at least, and their timers: {events}");
}

#[test]
fn a_flow_that_sends_at_its_own_rate_is_expected_to_record_no_more_than_that() {
    // A call of 80 kbit/s: in an hour it is far from 20 million packets, even on a link of 100 Gbit/s.
    let mut scenario = dumbbell(100_000_000_000, 40 * MS, None, 3600, vec![flow("call", "voip", None)]);
    scenario.instruments.packets = vec!["call".into()];
    assert!(Simulation::build(&scenario).is_ok());
}

#[test]
fn a_run_that_would_never_end_is_refused_after_a_moment() {
    let mut scenario = timeless();
    scenario.links[0].delay_ps = 1_000;
    let mut simulation = Simulation::build(&scenario).unwrap();
    let error = loop {
        match simulation.run_events(100_000) {
            Ok(is_over) => assert!(!is_over),
            Err(error) => break error,
        }
    };
    assert_eq!(error.field, "links[0].rate_bps");
    assert!(error.problem.contains("would never end"), "{error}");
}

#[test]
fn a_fast_link_and_a_burst_of_many_flows_are_within_the_budget() {
    // 1 Tbit/s of full packets for 5 ms, and hundreds of windows at the same time.
    let mut flows: Vec<_> =
        (0..300).map(|number| flow(&format!("f{number}"), "bulk", Some(tcp("reno", "linux")))).collect();
    for flow in &mut flows {
        flow.start_ps = 0;
    }
    let mut scenario = dumbbell(1_000_000_000_000, MS, None, 1, flows);
    scenario.duration_ps = 5 * MS;
    run(&scenario);
}
