//! The same scenario and seed give the same bytes: in repeated runs, on any number of threads, and beside other runs.

use crate::common::{self, MS, SECOND, bits, bulk, by, column, dumbbell, flow, link, run, tcp};
use tailback_core::engine::Simulation;
use tailback_core::framing::{Framing, LinkLayer};
use tailback_core::scenario::{FlowSpec, Instruments, Scenario, Value, WireSpec};

fn busy() -> Scenario {
    let mut other = bulk("cubic", "linux");
    other.name = "other".into();
    let flows = vec![bulk("reno", "freebsd-7"), other, flow("call", "voip", None)];
    let mut scenario = dumbbell(10_000_000, 40 * MS, Some(50_000), 10, flows);
    scenario.randomness.start_spread_ps = 100 * MS;
    scenario.randomness.processing_jitter_ps = MS / 2;
    scenario.links[0].wire.loss = 0.001;
    scenario.instruments = Instruments {
        segments: vec!["bulk".into()],
        polls: vec!["bulk".into(), "other".into()],
        internals: true,
        queue_polls: vec!["bottleneck".into()],
        poll_interval_ps: MS,
        queues: vec!["bottleneck".into()],
        packets: vec!["call".into()],
        ..Instruments::default()
    };
    scenario
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let scenario = busy();
    let once = bits(&run(&scenario));
    assert!(once.len() > 100_000, "the test looks at something");
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let scenario = scenario.clone();
            std::thread::spawn(move || bits(&run(&scenario)))
        })
        .collect();
    for thread in threads {
        assert!(thread.join().unwrap() == once);
    }
}

#[test]
fn another_seed_gives_another_run() {
    let mut scenario = busy();
    let once = bits(&run(&scenario));
    scenario.seed = 2;
    assert!(bits(&run(&scenario)) != once);
}

#[test]
fn instruments_change_nothing() {
    let mut scenario = busy();
    let with = run(&scenario);
    scenario.instruments = Instruments::default();
    let without = run(&scenario);
    for table in ["flows", "links", "congestion"] {
        let of = |tables: &tailback_core::probe::Tables| {
            tables.tables.iter().find(|it| it.name == table).cloned().map(|it| format!("{it:?}"))
        };
        assert_eq!(of(&with), of(&without), "{table}");
    }
}

#[test]
fn polls_and_rare_events_are_the_same_where_each_packet_is_recorded() {
    let mut scenario = busy();
    scenario.flows.extend([flow("web", "web", Some(tcp("reno", "linux"))), flow("ping", "ping", None)]);
    scenario.instruments = Instruments {
        segments: Vec::new(),
        queues: Vec::new(),
        packets: Vec::new(),
        drops: vec!["bottleneck".into()],
        requests: vec!["web".into()],
        echoes: vec!["ping".into()],
        ..scenario.instruments
    };
    let sparse = run(&scenario);
    scenario.instruments.segments = vec!["bulk".into()];
    scenario.instruments.packets = vec!["call".into()];
    let full = run(&scenario);
    let tables =
        ["flows", "links", "congestion", "polls", "internals", "queue", "queue_polls", "requests", "echoes"];
    for name in tables {
        let of = |tables: &tailback_core::probe::Tables| {
            format!("{:?}", tables.tables.iter().find(|it| it.name == name).expect("a table"))
        };
        assert_eq!(of(&sparse), of(&full), "{name}");
        let column = &sparse.tables.iter().find(|it| it.name == name).expect("a table").columns[0].0;
        assert!(!common::column(&sparse, name, column).is_empty(), "{name} says nothing");
    }
}

#[test]
fn segments_that_leave_together_are_those_that_leave_one_by_one() {
    for cc in ["reno", "cubic", "bbr"] {
        let (mut one, mut other) = (bulk(cc, "linux"), bulk(cc, "linux"));
        (one.name, other.name) = ("one".into(), "other".into());
        let mut scenario = dumbbell(200_000_000, 20 * MS, Some(200_000), 5, vec![one, other]);
        scenario.links[0].wire.loss = if cc == "cubic" { 1e-4 } else { 0.0 };
        let together = run(&scenario);
        // A run that records segments processes each of them separately, also at the sender.
        scenario.instruments.segments = vec!["one".into(), "other".into()];
        let singly = run(&scenario);
        for table in ["flows", "links", "congestion", "engine"] {
            let of = |tables: &tailback_core::probe::Tables| {
                let found = tables.tables.iter().find(|it| it.name == table).expect("a table of every run");
                format!("{found:?}")
            };
            assert_eq!(of(&together), of(&singly), "{cc}: {table}");
        }
        assert!(
            column(&together, "flows", "packets_dropped").iter().sum::<f64>() > 0.0,
            "{cc}: nothing was lost"
        );
    }
}

/// A run's standard tables and polls, and the number of calls that processed a single event.
fn singly(scenario: &Scenario) -> (Vec<String>, u64) {
    let mut simulation = Simulation::build(scenario).expect("a valid scenario");
    let mut calls = 0;
    while !simulation.run_events(1).expect("a sound engine") {
        calls += 1;
    }
    let tables = simulation.finish();
    let of = |name: &str| {
        let found = tables.tables.iter().find(|it| it.name == name).expect("a table of the run");
        format!("{found:?}")
    };
    (["flows", "links", "congestion", "engine", "polls", "queue_polls"].map(of).into(), calls)
}

#[test]
fn arrivals_taken_ahead_are_those_taken_one_by_one() {
    let named = |name: &str, flow: FlowSpec| FlowSpec { name: name.into(), ..flow };
    let home = |name: &str, flow: FlowSpec| FlowSpec {
        from: "right".into(),
        to: "left".into(),
        ..by(named(name, flow), &["return"], &["bottleneck"])
    };
    let one_way = vec![named("one", bulk("reno", "linux")), named("other", bulk("bbr", "freebsd-7"))];
    let both_ways = vec![named("there", bulk("cubic", "linux")), home("home", bulk("htcp", "linux-2.6.25"))];
    let mut slow = bulk("reno", "linux");
    slow.app.params.insert("read_rate".into(), Value::Number(5e6));
    let talking = vec![
        named("bulk", bulk("cubic", "linux")),
        flow("web", "web", Some(tcp("reno", "linux"))),
        flow("asks", "request-response", Some(tcp("reno", "linux"))),
        home("slow", slow),
    ];
    let stopped = {
        let mut flows = one_way.clone();
        (flows[0].stop_ps, flows[1].stop_ps) = (Some(SECOND), Some(SECOND + 7 * MS));
        flows
    };
    let mut saved = Vec::new();
    for (what, flows) in
        [("one way", one_way), ("both ways", both_ways), ("talking", talking), ("stopped", stopped)]
    {
        let damaging = |share: f64| WireSpec { corrupt: share, ..WireSpec::default() };
        let cells = Framing { overhead: 10, mpu: 64, linklayer: LinkLayer::Atm };
        let lossy = |share: f64| WireSpec { loss: share, ..WireSpec::default() };
        for (queue, wire, framing) in [
            ("fifo", lossy(0.0), Framing::default()),
            ("fifo", lossy(1e-4), Framing::default()),
            ("codel", lossy(0.0), Framing::default()),
            ("fifo", lossy(0.0), cells),
            ("codel", lossy(0.0), cells),
            ("fifo", damaging(1e-3), Framing::default()),
        ] {
            let mut scenario = dumbbell(100_000_000, 20 * MS, None, 3, flows.clone());
            scenario.links.iter_mut().for_each(|link| link.framing = framing);
            scenario.links[0].queue.discipline = queue.into();
            let may_damage = wire.corrupt > 0.0;
            scenario.links[0].wire = wire;
            let names = |links: &[&str]| links.iter().map(|name| (*name).to_string()).collect();
            scenario.instruments = Instruments {
                polls: scenario.flows.iter().map(|flow| flow.name.clone()).collect(),
                queue_polls: names(&["bottleneck", "return"]),
                poll_interval_ps: 7 * MS,
                ..Instruments::default()
            };
            let (ahead, calls) = singly(&scenario);
            scenario.instruments.segments = scenario.flows.iter().map(|flow| flow.name.clone()).collect();
            let (plain, plain_calls) = singly(&scenario);
            assert_eq!(ahead, plain, "{what}, {queue}, {:?}, {framing:?}", scenario.links[0].wire);
            if !may_damage {
                saved.push(calls as f64 / plain_calls as f64);
            }
        }
    }
    // A call processes one event, unless others are combined with it.
    assert!(saved[0] < 0.5 && saved.iter().all(|share| *share < 0.99), "not taken ahead: {saved:?}");
}

#[test]
fn a_run_may_be_left_at_any_time() {
    let mut flows = vec![bulk("cubic", "linux"), bulk("reno", "linux")];
    flows[1].name = "other".into();
    for loss in [0.0, 1e-4] {
        let mut scenario = dumbbell(100_000_000, 20 * MS, Some(100_000), 3, flows.clone());
        scenario.links[0].wire.loss = loss;
        let mut last = 0.0;
        for events in 1..40 {
            let mut simulation = Simulation::build(&scenario).expect("a valid scenario");
            let is_over = simulation.run_events(events * 1_000).expect("a sound engine");
            assert!(!is_over);
            let delivered = column(&simulation.finish(), "links", "delivered")[0];
            assert!(delivered >= last);
            last = delivered;
        }
        assert!(last > 1_000.0, "{last}");
    }
}

#[test]
fn a_stranger_elsewhere_disturbs_no_random_stream() {
    let mut scenario = busy();
    for name in ["up", "down"] {
        scenario.nodes.push(name.into());
    }
    scenario.links.push(link("elsewhere", "up", "down", 1_000_000, 10 * MS, Some(10_000)));
    scenario.links.push(link("elsewhere back", "down", "up", 1_000_000, 10 * MS, Some(10_000)));
    scenario.links[2].wire.loss = 0.01;
    let alone = run(&scenario);
    let mut stranger = by(bulk("reno", "linux"), &["elsewhere"], &["elsewhere back"]);
    (stranger.name, stranger.from, stranger.to) = ("stranger".into(), "up".into(), "down".into());
    scenario.flows.push(stranger);
    let together = run(&scenario);
    for table in ["polls", "packets", "segments"] {
        for name in ["t_s", "sent_s", "received_s", "cwnd"] {
            let has = |tables: &tailback_core::probe::Tables| {
                tables
                    .tables
                    .iter()
                    .any(|it| it.name == table && it.columns.iter().any(|(column, _)| *column == name))
            };
            if has(&alone) {
                let (one, two) = (column(&alone, table, name), column(&together, table, name));
                let same =
                    one.len() == two.len() && one.iter().zip(&two).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{table}.{name}");
            }
        }
    }
    assert!(column(&together, "flows", "bytes_acked")[3] > 0.0);
}

#[test]
fn packets_and_bytes_are_conserved_end_to_end() {
    let tables = run(&busy());
    let links = |name: &str| column(&tables, "links", name);
    for link in 0..2 {
        let sum = links("delivered")[link] + links("dropped")[link] + links("resident")[link];
        assert_eq!(links("arrived")[link], sum);
    }
    let flows = |name: &str| column(&tables, "flows", name);
    for flow in 0..3 {
        // Packets neither received nor dropped are in flight: at most one bandwidth-delay product plus the queue.
        let on_the_way =
            flows("packets_sent")[flow] - flows("packets_received")[flow] - flows("packets_dropped")[flow];
        assert!((0.0..120.0).contains(&on_the_way), "{on_the_way}");
        assert!(flows("bytes_received")[flow] <= flows("bytes_sent")[flow]);
        assert!(flows("bytes_acked")[flow] <= flows("bytes_received")[flow]);
    }
}
