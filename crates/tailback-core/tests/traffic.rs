//! Applications behave as their models define, and their users wait as long as theory predicts.

use crate::common::{MS, SECOND, bits, bulk, by, column, dumbbell, flow, link, run, tcp};
use tailback_core::engine::Simulation;
use tailback_core::probe::Tables;
use tailback_core::scenario::{
    CcSpec, FlowSpec, LinkSpec, MediumSpec, Params, Period, Scenario, StepSpec, TraceSpec, Value,
};

use tailback_core::traffic::connection_vectors::Source;
use tailback_core::traffic::packmime::PackMime;

const GBIT: u64 = 1_000_000_000;

fn app(kind: &str, params: &[(&str, f64)]) -> FlowSpec {
    let is_udp = ["voip", "voip-onoff", "udp-cbr", "ping"].contains(&kind);
    let mut flow = flow(kind, kind, (!is_udp).then(|| tcp("reno", "linux")));
    flow.app.params = params.iter().map(|(name, value)| (name.to_string(), Value::Number(*value))).collect();
    flow
}

/// A single flow with all its rows recorded.
fn alone(bps: u64, rtt_ps: u64, seconds: u64, flow: FlowSpec) -> Scenario {
    let mut scenario = dumbbell(bps, rtt_ps, None, seconds, vec![flow]);
    let name = vec![scenario.flows[0].name.clone()];
    scenario.instruments.requests = name.clone();
    scenario.instruments.echoes = name.clone();
    scenario.instruments.packets = name;
    scenario
}

fn total(tables: &Tables, name: &str) -> f64 {
    column(tables, "flows", name)[0]
}

#[track_caller]
fn assert_near(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{found}, expected {expected} ± {tolerance}");
}

// -------------------------------------------------------------------- connection vectors

/// On the nine paths of the Common TCP Evaluation Suite.
fn vectors(params: &[(&str, f64)]) -> FlowSpec {
    let mut flow = app("connection-vectors", params);
    for (name, delays) in [("client_delays", "0, 12, 25"), ("server_delays", "2, 37, 75")] {
        flow.app.params.insert(name.into(), Value::Name(delays.into()));
    }
    flow
}

#[test]
fn connection_vectors_offer_what_their_law_promises() {
    let (rate, persistent) = (1000.0, 0.09);
    let params = [("rate", rate), ("largest", 100_000.0)];
    let mut scenario = alone(GBIT, 4 * MS, 200, vectors(&params));
    scenario.flows[0].stop_ps = Some(20 * SECOND);
    scenario.instruments.packets.clear();
    let tables = run(&scenario);
    let begun = total(&tables, "connections");
    // Poisson: four standard deviations are 2.8 %.
    assert_near(begun / (rate * 20.0), 1.0, 0.028);
    assert_eq!(total(&tables, "connections_failed"), 0.0);
    // Log-normal pauses between pages: now and then one of minutes.
    assert!(total(&tables, "connections_open") < 10.0);
    let (_, response) = Source::means(rate, persistent, Some(100_000));
    assert_near(total(&tables, "bytes_returned") / begun / response, 1.0, 0.04);
    assert!(column(&tables, "requests", "response_time_s").iter().all(|time| time.is_finite()));
    let more = column(&tables, "requests", "t_s").len() as f64 - begun;
    // 9 % of the vectors have 1.235 epochs more.
    assert_near(more / (begun * persistent), 1.235, 0.15);
}

#[test]
fn each_connection_takes_one_of_the_nine_paths() {
    let params = [("rate", 500.0), ("largest", 1000.0), ("persistent", 0.0)];
    let scenario = alone(GBIT, 4 * MS, 10, vectors(&params));
    let tables = run(&scenario);
    let mut times = column(&tables, "requests", "response_time_s");
    times.retain(|time| time.is_finite());
    // Handshake and request: two round trips at least, and what the server thinks; 6 ms in the median.
    assert!(times.iter().all(|time| *time > 0.016));
    let near: Vec<f64> = [4, 28, 54, 74, 98, 124, 150, 174, 200].map(|ms| 0.002 * f64::from(ms + 4)).to_vec();
    for path in near {
        let share = times.iter().filter(|time| (path..path + 0.012).contains(*time)).count() as f64;
        assert!(share / times.len() as f64 > 0.05, "{path}: {share} of {}", times.len());
    }
}

#[test]
fn prefill_brings_the_mean_load_from_the_first_seconds_on() {
    // Mean load of the first two seconds, after the handshakes, beside that of ten seconds later.
    let load = |prefill: f64| {
        let until = |seconds: u64| {
            let params = [("rate", 800.0), ("largest", 100_000.0), ("prefill", prefill)];
            let scenario = alone(GBIT, 4 * MS, seconds, vectors(&params));
            total(&run(&scenario), "bytes_returned")
        };
        (until(4) - until(2)) / ((until(24) - until(12)) / 6.0)
    };
    let with = load(8.0);
    assert!((0.85..1.25).contains(&with), "{with}");
}

#[test]
fn prefill_that_would_look_at_vectors_for_minutes_is_refused() {
    let built = |prefill: f64| {
        let params = [("rate", 102_104.0), ("prefill", prefill)];
        Simulation::build(&alone(GBIT, 4 * MS, 1, vectors(&params))).map(drop)
    };
    let error = built(3_600.0).unwrap_err();
    assert_eq!((error.field.as_str(), error.value.as_str()), ("flows[0].app.params.prefill", "3600"));
    assert!(error.problem.contains("it looks at 3.676e8 vectors, and may at 1e7"), "{error}");
    assert!(built(90.0).is_ok());
}

#[test]
fn copies_are_the_same_vectors_under_the_flows_algorithms_in_turn() {
    let mut flow = vectors(&[("rate", 50.0), ("copies", 2.0), ("persistent", 0.3)]);
    flow.tcp.as_mut().unwrap().cc_turns = vec![CcSpec { cc: "cubic".into(), cc_params: Params::new() }];
    let scenario = alone(GBIT, 4 * MS, 60, flow);
    let tables = run(&scenario);
    let [turn, bytes, connection] =
        ["turn", "bytes", "connection"].map(|name| column(&tables, "requests", name));
    let of = |wanted: f64| {
        let mut rows: Vec<(u64, usize, u64)> = (0..turn.len())
            .filter(|row| turn[*row] == wanted)
            .map(|row| (connection[row] as u64 / 2, row, bytes[row] as u64))
            .collect();
        rows.sort_unstable();
        rows.into_iter().map(|(vector, _, bytes)| (vector, bytes)).collect::<Vec<_>>()
    };
    let [one, two] = [of(0.0), of(1.0)];
    let both = one.len().min(two.len()) - 20;
    assert!(one.len() > 3000 && one[..both] == two[..both]);
}

// -------------------------------------------------------------------- web background

#[test]
fn the_web_offers_what_its_model_promises() {
    // Responses cut at 100 kB, so that the mean converges: standard deviation 1.9 means.
    let (rate, seconds) = (2000.0, 20.0);
    let mut scenario = alone(GBIT, 20 * MS, 22, app("web", &[("rate", rate), ("largest", 100_000.0)]));
    scenario.flows[0].stop_ps = Some(20 * SECOND);
    let tables = run(&scenario);
    let sessions = total(&tables, "connections");
    // Nearly Poisson: one standard deviation is 0.5 %, and memory adds its part.
    assert_near(sessions / (rate * seconds), 1.0, 0.03);
    assert_eq!(total(&tables, "connections_failed"), 0.0);
    assert_eq!(total(&tables, "connections_open"), 0.0, "all are over after two seconds' silence");
    let (request, response) = PackMime::means(rate, Some(100_000));
    assert_near(total(&tables, "bytes_returned") / sessions / response, 1.0, 0.04);
    assert_near(total(&tables, "bytes_received") / sessions / request, 1.0, 0.04);
    // On the wire: the payload, 52 B of header a segment, and a SYN-ACK of 60.
    let segments = total(&tables, "back_segments_sent");
    let wire = column(&tables, "links", "delivered_bytes")[1];
    let least = total(&tables, "bytes_returned") + segments * 52.0 + sessions * 60.0;
    assert!(least <= wire && wire < 1.05 * least, "{wire} {least}");
}

#[test]
fn a_session_takes_two_round_trips_and_what_the_server_thinks() {
    let mut web = app("web", &[("rate", 200.0), ("largest", 1000.0)]);
    web.app.params.insert("server_delay".into(), Value::Flag(false));
    let mut scenario = alone(GBIT, 100 * MS, 20, web);
    let times = |scenario: &Scenario| {
        let mut times = column(&run(scenario), "requests", "response_time_s");
        times.retain(|time| !time.is_nan());
        times
    };
    let at_once = times(&scenario);
    assert!(at_once.len() > 3000);
    for time in &at_once {
        // Two bytes-thin packets each way add at most 40 µs; requests beyond one window's worth add round trips.
        let round_trips = (time / 0.1).floor();
        assert!(round_trips >= 2.0 && time - 0.1 * round_trips < 0.0008, "{time}");
    }
    let quick = at_once.iter().filter(|time| (**time - 0.2).abs() < 0.001).count();
    assert!(quick as f64 > 0.99 * at_once.len() as f64, "{quick}");
    scenario.flows[0].app.params.insert("server_delay".into(), Value::Flag(true));
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    // E[1/max(10, W)] for W Weibull(0.63, 305): 21.95 ms by numerical integration; standard deviation 34 ms.
    assert_near(mean(&times(&scenario)) - mean(&at_once), 0.021_95, 0.002_2);
}

#[test]
fn hosts_spread_round_trips_over_their_range() {
    let web = app("web", &[("rate", 200.0), ("largest", 1000.0), ("hosts", 200.0)]);
    let mut scenario = alone(GBIT, 100 * MS, 10, web);
    scenario.flows[0].app.params.insert("server_delay".into(), Value::Flag(false));
    let mut times = column(&run(&scenario), "requests", "response_time_s");
    times.retain(|time| !time.is_nan());
    times.sort_by(f64::total_cmp);
    // Two round trips of 100 ms + 2·(U₁ + U₂), each U between 5 and 15 ms.
    let at = |q: f64| times[(q * (times.len() - 1) as f64) as usize];
    assert!(at(0.0) >= 0.240 && at(0.98) <= 0.321, "{} {}", at(0.0), at(0.98));
    assert_near(at(0.5), 0.280, 0.005);
}

#[test]
fn what_arrives_is_what_was_answered_whatever_the_wire_does() {
    let mut scenario =
        alone(100_000_000, 40 * MS, 400, app("web", &[("rate", 150.0), ("largest", 50_000.0)]));
    for at in 0..2 {
        let wire = &mut scenario.links[at].wire;
        (wire.loss, wire.duplicate, wire.reorder, wire.reorder_delay_ps) = (0.02, 0.02, 0.02, 30 * MS);
    }
    // Enough time for a connection with losses to go through every backoff.
    scenario.flows[0].stop_ps = Some(20 * SECOND);
    let tables = run(&scenario);
    assert_eq!(total(&tables, "connections_open"), 0.0);
    let (sizes, fates) = (column(&tables, "requests", "bytes"), column(&tables, "requests", "fate"));
    assert_eq!(sizes.len() as f64, total(&tables, "connections"));
    let answered: f64 =
        sizes.iter().zip(&fates).filter(|(_, fate)| **fate == 0.0).map(|(size, _)| size).sum();
    let failed = fates.iter().filter(|fate| **fate == 1.0).count() as f64;
    assert_eq!(failed, total(&tables, "connections_failed"));
    assert!(failed < 0.01 * sizes.len() as f64);
    assert!(answered <= total(&tables, "bytes_returned") && answered > 0.99 * sizes.iter().sum::<f64>());
    if failed == 0.0 {
        assert_eq!(answered, total(&tables, "bytes_returned"));
    }
}

#[test]
fn more_load_than_capacity_is_allowed_and_said() {
    let mut scenario = alone(10_000_000, 40 * MS, 5, app("web", &[("rate", 1000.0), ("most", 300.0)]));
    scenario.links[1].queue.params.insert("limit_packets".into(), Value::Number(50.0));
    let tables = run(&scenario);
    assert_eq!(tables.warnings.len(), 1);
    assert!(
        tables.warnings[0].contains("link return") && tables.warnings[0].contains("10.000"),
        "{:?}",
        tables.warnings
    );
    // All places are taken, but that one that has just become free waits a millisecond for the next.
    assert!((299.0..=300.0).contains(&total(&tables, "connections_open")));
    assert!(total(&tables, "connections_failed") > 1000.0);
    let links = |name: &str| column(&tables, "links", name)[1];
    assert_eq!(links("arrived"), links("delivered") + links("dropped") + links("resident"));
    assert!(links("busy_s") > 4.5);
    scenario.flows[0].app.params.insert("rate".into(), Value::Number(10.0));
    assert!(run(&scenario).warnings.is_empty());
}

/// Warnings for a constant load of this many Mbit/s from left to right, over a modified path.
fn said_of(mbps: f64, change: impl Fn(&mut Scenario)) -> Vec<String> {
    let mut scenario = alone(10_000_000, 40 * MS, 2, app("udp-cbr", &[("rate", mbps * 1e6)]));
    change(&mut scenario);
    run(&scenario).warnings
}

#[test]
fn media_traces_schedules_and_tunnels_say_when_they_are_overloaded() {
    let medium = |name: &str, channel: Option<&str>, flow: Option<&str>| MediumSpec {
        name: name.into(),
        params: Params::new(),
        channel: channel.map(Into::into),
        flow: flow.map(Into::into),
    };
    // 1536 kbit/s of cells carry 1.35 Mbit/s of full packets.
    let adsl = |scenario: &mut Scenario| {
        (scenario.links[0].rate_bps, scenario.links[0].medium) = (None, Some(medium("adsl", None, None)));
    };
    assert!(said_of(1.3, adsl).is_empty());
    assert!(said_of(1.4, adsl)[0].starts_with("link bottleneck"), "{:?}", said_of(1.4, adsl));
    // One 1500-byte packet every 2 ms is 6 Mbit/s.
    let trace = |scenario: &mut Scenario| {
        let trace = TraceSpec { deliveries_ms: (1..=50).map(|ms| 2 * ms).collect() };
        (scenario.links[0].rate_bps, scenario.links[0].trace) = (None, Some(trace));
    };
    assert!(said_of(5.9, trace).is_empty());
    assert_eq!(said_of(6.3, trace).len(), 1);
    // 10 Mbit/s for half of the time and 2 for the other: 6 on average.
    let schedule = |scenario: &mut Scenario| {
        let step = StepSpec { at_ps: SECOND, rate_bps: Some(2_000_000), delay_ps: None, loss: None };
        scenario.links[0].schedule = vec![step];
    };
    assert!(said_of(5.9, schedule).is_empty());
    assert!(said_of(6.1, schedule)[0].contains("6.000"));
    // Two stations on one channel, each with 20 Mbit/s of its 30.
    let air = |scenario: &mut Scenario| {
        for link in &mut scenario.links {
            (link.rate_bps, link.medium) = (None, Some(medium("wifi", Some("air"), None)));
        }
        let mut back = scenario.flows[0].clone();
        (back.name, back.from, back.to) = ("back".into(), "right".into(), "left".into());
        let back = by(back, &["return"], &["bottleneck"]);
        scenario.flows.push(back);
    };
    assert!(said_of(12.0, air).is_empty());
    assert!(said_of(20.0, air)[0].starts_with("channel of bottleneck, return"), "{:?}", said_of(20.0, air));
    // The link below must carry the tunnel's load too.
    let tunnel = |scenario: &mut Scenario| {
        let inside = LinkSpec {
            name: "tunnel".into(),
            from: "left".into(),
            to: "right".into(),
            medium: Some(medium("tunnel", None, Some("vtun"))),
            ..LinkSpec::default()
        };
        scenario.links.push(inside);
        scenario.flows[0].route = vec!["tunnel".into()];
        scenario.flows.push(flow("vtun", "tunnel", Some(tcp("reno", "linux"))));
    };
    assert!(said_of(9.0, tunnel).is_empty());
    assert!(said_of(11.0, tunnel)[0].starts_with("link bottleneck"), "{:?}", said_of(11.0, tunnel));
}

#[test]
fn a_peer_that_is_not_there_is_given_up_and_forgotten() {
    let mut scenario = alone(GBIT, 40 * MS, 400, app("web", &[("rate", 5.0)]));
    scenario.links[0].wire.loss = 1.0;
    scenario.flows[0].stop_ps = Some(10 * SECOND);
    let tables = run(&scenario);
    assert!(total(&tables, "connections") > 20.0);
    assert_eq!(total(&tables, "connections_failed"), total(&tables, "connections"));
    assert_eq!(total(&tables, "connections_open"), 0.0);
    assert!(column(&tables, "requests", "fate").iter().all(|fate| *fate == 1.0));
    assert!(column(&tables, "requests", "response_time_s").iter().all(|time| time.is_nan()));
}

// -------------------------------------------------------------------- fetches, transfers, requests

#[test]
fn a_probe_waits_the_rounds_of_slow_start() {
    let tables = run(&alone(GBIT, 140 * MS, 20, app("web-probe", &[])));
    let (sizes, times) =
        (column(&tables, "requests", "bytes"), column(&tables, "requests", "response_time_s"));
    let expected: Vec<f64> = (0..8).map(|power| 1024.0 * f64::from(1 << power)).collect();
    assert_eq!(sizes[..8], expected[..]);
    assert_eq!(sizes[8], 1024.0);
    for (size, time) in sizes.iter().zip(&times).filter(|(_, time)| !time.is_nan()) {
        // Connect, request, then windows of 10, 20, 40 … segments of 1448 B; 1 ms for all serialisation.
        let (mut window, mut rest, mut rounds) = (10.0, (size / 1448.0).ceil(), 1.0);
        while rest > window {
            rest -= window;
            window *= 2.0;
            rounds += 1.0;
        }
        assert_near(*time, 0.14 * (1.0 + rounds), 0.0015);
    }
}

#[test]
fn objects_of_no_bytes_are_answered_by_their_end() {
    let empty = [("smallest", 0.0), ("largest", 0.0)];
    let tables = run(&alone(GBIT, 100 * MS, 3, app("web-probe", &empty)));
    let times = column(&tables, "requests", "response_time_s");
    assert!(times.len() >= 13);
    assert!(times[..13].iter().all(|time| (time - 0.2).abs() < 0.001), "{times:?}");
    let tables = run(&alone(GBIT, 100 * MS, 30, app("transfers", &[("bytes", 0.0), ("count", 3.0)])));
    assert_eq!(column(&tables, "requests", "fate"), [0.0; 3]);
    assert!(column(&tables, "requests", "response_time_s").iter().all(|time| (time - 0.15).abs() < 0.001));
}

#[test]
fn transfers_follow_each_other_with_their_algorithms_in_turn() {
    let mut flow = app("transfers", &[("bytes", 1_000_000.0), ("count", 5.0)]);
    flow.tcp.as_mut().unwrap().cc_turns = vec![CcSpec { cc: "cubic".into(), cc_params: Default::default() }];
    let mut scenario = alone(10_000_000, 20 * MS, 60, flow);
    scenario.instruments.polls = vec!["transfers".into()];
    scenario.instruments.poll_interval_ps = 10 * MS;
    let tables = run(&scenario);
    assert_eq!(column(&tables, "requests", "turn"), [0.0, 1.0, 0.0, 1.0, 0.0]);
    assert_eq!(column(&tables, "requests", "connection"), [0.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(total(&tables, "bytes_received"), 5e6);
    assert_eq!((total(&tables, "connections"), total(&tables, "connections_open")), (5.0, 0.0));
    let (starts, times) =
        (column(&tables, "requests", "t_s"), column(&tables, "requests", "response_time_s"));
    for n in 0..5 {
        // 8.3 Mbit on the wire at 10 Mbit/s, and slow start's empty rounds.
        assert!((0.83..1.1).contains(&times[n]), "{times:?}");
        if n > 0 {
            let gap = starts[n] - starts[n - 1] - times[n - 1];
            assert!((5.0..=7.0).contains(&gap), "{gap}");
        }
    }
    // Polls show the transfer in progress, and its bytes continue from the previous ones.
    let received = column(&tables, "polls", "bytes_received");
    assert!(received.windows(2).all(|pair| pair[0] <= pair[1]) && *received.last().unwrap() > 4e6);
    let t = column(&tables, "polls", "t_s");
    assert!(t.iter().all(|t| (0..5).any(|n| starts[n] - 0.011 < *t && *t < starts[n] + times[n] + 0.1)));
}

#[test]
fn a_request_waits_one_round_trip_and_the_servers_delay() {
    let params = [("count", 20.0), ("server_delay", 30.0), ("think", 250.0), ("response_bytes", 1250.0)];
    let tables = run(&alone(10_000_000, 50 * MS, 30, app("request-response", &params)));
    let (starts, times) =
        (column(&tables, "requests", "t_s"), column(&tables, "requests", "response_time_s"));
    assert_eq!(times.len(), 20);
    // 152 B there and 1302 B back at 10 Mbit/s: 1.1632 ms. The first waits for the handshake's ACK, 52 B, as well.
    assert_near(times[0], 0.081_163_2 + 0.000_041_6, 1e-9);
    times[1..].iter().for_each(|time| assert_near(*time, 0.081_163_2, 1e-9));
    (2..20).for_each(|n| assert_near(starts[n] - starts[n - 1], 0.331_163_2, 1e-9));
    assert_eq!(total(&tables, "connections"), 1.0);
    assert_eq!((total(&tables, "bytes_received"), total(&tables, "bytes_returned")), (2000.0, 25_000.0));
    assert_eq!(total(&tables, "connections_open"), 0.0);
}

#[test]
fn ftp_is_held_by_its_window_and_hftp_by_the_path() {
    let goodput = |kind| {
        let mut flow = app(kind, &[]);
        let tcp = flow.tcp.as_mut().unwrap();
        (tcp.send_buffer, tcp.receive_buffer) = (None, None);
        total(&run(&alone(20_000_000, 140 * MS, 60, flow)), "bytes_received") * 8.0 / 60.0
    };
    // 64 packets of 1000 B a round trip of 140 ms, and the last packet's and its ACK's way through the link.
    assert_near(goodput("ftp") / (64_000.0 * 8.0 / 0.1405), 1.0, 0.02);
    // 1000 of every 1052 bytes.
    assert!(goodput("hftp") > 0.93 * 20e6 * 1000.0 / 1052.0);
}

// -------------------------------------------------------------------- datagrams

#[test]
fn calls_with_pauses_have_their_bursts_and_their_load() {
    let (calls, seconds) = (200, 100);
    let tables = run(&alone(GBIT, 20 * MS, seconds, app("voip-onoff", &[("calls", f64::from(calls))])));
    let (sent, stream) = (column(&tables, "packets", "sent_s"), column(&tables, "packets", "stream"));
    assert!(column(&tables, "packets", "bytes").iter().all(|bytes| *bytes == 218.0));
    // Bursts of 20.02 packets, 20 ms each, and pauses of 0.6 s: 20.01 a second. Some 20,000 cycles, 1 % each.
    assert_near(sent.len() as f64 / f64::from(calls) / seconds as f64 / 20.01, 1.0, 0.035);
    let mut within = 0;
    let mut pauses = Vec::new();
    for call in 0..calls {
        let times: Vec<f64> =
            (0..sent.len()).filter(|row| stream[*row] == f64::from(call)).map(|row| sent[row]).collect();
        for pair in times.windows(2) {
            let gap = pair[1] - pair[0];
            match (gap - 0.02).abs() < 1e-9 {
                true => within += 1,
                false => pauses.push(gap - 0.02),
            }
        }
    }
    assert!(pauses.iter().all(|pause| *pause > 0.0));
    assert_near(pauses.iter().sum::<f64>() / pauses.len() as f64 / 0.6, 1.0, 0.04);
    assert_near(within as f64 / pauses.len() as f64 / 19.02, 1.0, 0.05);
}

#[test]
fn calls_side_by_side_disturb_none() {
    for kind in ["voip", "voip-onoff"] {
        let of_first = |calls: f64| -> Vec<u64> {
            let tables = run(&alone(GBIT, 20 * MS, 10, app(kind, &[("calls", calls)])));
            let (sent, stream) = (column(&tables, "packets", "sent_s"), column(&tables, "packets", "stream"));
            (0..sent.len()).filter(|row| stream[*row] == 0.0).map(|row| sent[row].to_bits()).collect()
        };
        let one = of_first(1.0);
        assert!(one.len() > 50);
        assert_eq!(of_first(7.0), one, "{kind}");
    }
}

#[test]
fn a_constant_rate_does_not_drift() {
    // 1000 B at 3 bit/µs: no whole number of picoseconds.
    let tables = run(&alone(GBIT, 0, 100, app("udp-cbr", &[("rate", 3e6), ("packet_bytes", 1000.0)])));
    let sent = column(&tables, "packets", "sent_s");
    assert_eq!(sent.len(), 37_500);
    for (number, at) in sent.iter().enumerate() {
        assert_near(*at, number as f64 * 8000.0 / 3e6, 2e-12 + at * 1e-15);
    }
}

#[test]
fn echoes_take_the_round_trip_and_lost_ones_none() {
    let mut scenario = alone(1_000_000, 50 * MS, 60, app("ping", &[("interval", 200.0)]));
    let tables = run(&scenario);
    let rtt = column(&tables, "echoes", "rtt_s");
    // 84 B each way at 1 Mbit/s: twice 0.672 ms. The last one's reply comes after the end.
    assert_eq!(rtt.len(), 300);
    rtt.iter().for_each(|rtt| assert_near(*rtt, 0.051_344, 1e-9));
    for at in 0..2 {
        (scenario.links[at].wire.loss, scenario.links[at].wire.duplicate) = (0.1, 0.1);
    }
    let lossy = column(&run(&scenario), "echoes", "rtt_s");
    let lost = lossy.iter().filter(|rtt| rtt.is_nan()).count() as f64 / 300.0;
    // 1 − 0.9² = 0.19, less what a duplicate saves.
    assert!((0.08..0.27).contains(&lost), "{lost}");
    assert!(lossy.iter().all(|rtt| rtt.is_nan() || (*rtt - 0.051_344).abs() < 0.001));
}

// -------------------------------------------------------------------- when, and beside whom

#[test]
fn a_flow_may_come_and_go() {
    let periods = [(0, 5), (10, 12), (20, 30)];
    for kind in ["bulk", "voip", "web", "request-response", "ping", "voip-onoff", "transfers"] {
        let mut flow = app(kind, &[]);
        if kind == "transfers" {
            flow.app.params.insert("bytes".into(), Value::Number(1e5));
            flow.app.params.insert("idle_low".into(), Value::Number(0.1));
            flow.app.params.insert("idle_high".into(), Value::Number(0.2));
        }
        flow.stop_ps = Some(periods[0].1 * SECOND);
        flow.again = periods[1..]
            .iter()
            .map(|(start, stop)| Period { start_ps: start * SECOND, stop_ps: Some(stop * SECOND) })
            .collect();
        let mut scenario = alone(10_000_000, 20 * MS, 40, flow);
        scenario.links[0].queue.params.insert("limit_packets".into(), Value::Number(20.0));
        let tables = run(&scenario);
        let sent = column(&tables, "packets", "sent_s");
        for (start, stop) in periods {
            let count = |from: f64, to: f64| sent.iter().filter(|at| from <= **at && **at < to).count();
            assert!(count(start as f64, stop as f64) > 3, "{kind} is on at {start}");
            // Data in flight at the stop still needs time to complete.
            assert_eq!(count(stop as f64 + 2.0, stop as f64 + 5.0), 0, "{kind} is off after {stop}");
        }
        assert_eq!(total(&tables, "connections_open"), 0.0, "{kind}");
    }
}

#[test]
fn impossible_times_are_refused_where_they_stand() {
    let refused = |start: u64, stop: Option<u64>, again: &[(u64, Option<u64>)]| {
        let mut flow = bulk("reno", "linux");
        (flow.start_ps, flow.stop_ps) = (start * SECOND, stop.map(|stop| stop * SECOND));
        flow.again = again
            .iter()
            .map(|(start, stop)| Period { start_ps: start * SECOND, stop_ps: stop.map(|stop| stop * SECOND) })
            .collect();
        let scenario = dumbbell(10_000_000, 20 * MS, None, 60, vec![flow]);
        tailback_core::engine::Simulation::build(&scenario).map(|_| ()).map_err(|error| error.field)
    };
    assert_eq!(refused(0, Some(5), &[(5, Some(6)), (7, None)]), Ok(()));
    assert_eq!(refused(5, Some(5), &[]), Err("flows[0].stop_ps".into()));
    assert_eq!(refused(60, None, &[]), Err("flows[0].start_ps".into()));
    assert_eq!(refused(0, None, &[(5, None)]), Err("flows[0].again[0].start_ps".into()));
    assert_eq!(refused(0, Some(5), &[(4, None)]), Err("flows[0].again[0].start_ps".into()));
    assert_eq!(refused(0, Some(5), &[(6, Some(6))]), Err("flows[0].again[0].stop_ps".into()));
    assert_eq!(refused(0, Some(5), &[(6, Some(7)), (90, None)]), Err("flows[0].again[1].start_ps".into()));
}

#[test]
fn a_start_may_be_spread_beyond_its_stop() {
    let mut flow = bulk("reno", "linux");
    flow.stop_ps = Some(MS);
    flow.again = vec![Period { start_ps: 2 * MS, stop_ps: Some(3 * MS) }];
    let mut scenario = dumbbell(10_000_000, 20 * MS, None, 20, vec![flow]);
    scenario.randomness.start_spread_ps = SECOND;
    assert_eq!(total(&run(&scenario), "connections"), 2.0);
}

fn crowd() -> Scenario {
    let mut flows = vec![
        app("web", &[("rate", 50.0), ("hosts", 5.0)]),
        app("web-probe", &[]),
        vectors(&[("rate", 20.0), ("prefill", 2.0), ("persistent", 0.5)]),
        app("transfers", &[("bytes", 200_000.0), ("idle_low", 0.5), ("idle_high", 1.0)]),
        app("request-response", &[]),
        app("voip-onoff", &[("calls", 3.0)]),
        app("ping", &[]),
        app("ftp", &[]),
    ];
    flows[1].tcp.as_mut().unwrap().cc = "cubic".into();
    let mut scenario = dumbbell(10_000_000, 40 * MS, Some(30_000), 10, flows);
    scenario.links[0].wire.loss = 0.005;
    scenario.instruments.requests =
        ["web", "web-probe", "connection-vectors", "transfers", "request-response"]
            .map(String::from)
            .to_vec();
    scenario.instruments.echoes = vec!["ping".into()];
    scenario.instruments.packets = vec!["voip-onoff".into(), "web".into()];
    scenario
}

#[test]
fn the_same_seed_gives_the_same_crowd_and_another_gives_another() {
    let mut scenario = crowd();
    let once = bits(&run(&scenario));
    assert!(once.len() > 5000 && once == bits(&run(&scenario)));
    scenario.seed = 2;
    assert!(once != bits(&run(&scenario)));
}

#[test]
fn a_crowd_elsewhere_disturbs_no_random_stream() {
    let mut scenario = crowd();
    let alone = run(&scenario);
    scenario.nodes.extend(["up".into(), "down".into()]);
    scenario.links.push(link("elsewhere", "up", "down", 1_000_000, 10 * MS, Some(10_000)));
    scenario.links.push(link("elsewhere back", "down", "up", 1_000_000, 10 * MS, Some(10_000)));
    let mut stranger = app("web", &[("rate", 100.0), ("hosts", 3.0)]);
    stranger = by(stranger, &["elsewhere"], &["elsewhere back"]);
    (stranger.name, stranger.from, stranger.to) = ("stranger".into(), "up".into(), "down".into());
    scenario.flows.insert(0, stranger);
    let together = run(&scenario);
    for (table, name) in [("requests", "response_time_s"), ("echoes", "rtt_s"), ("packets", "received_s")] {
        let [one, two] = [&alone, &together]
            .map(|run| column(run, table, name).into_iter().map(f64::to_bits).collect::<Vec<_>>());
        assert!(one.len() > 15 && one == two, "{table}");
    }
}

#[test]
fn absurd_parameters_are_refused_or_run() {
    let build = |kind: &str, params: &[(&str, f64)]| {
        let scenario = alone(10_000_000, 20 * MS, 2, app(kind, params));
        tailback_core::engine::Simulation::build(&scenario).map(|_| scenario).map_err(|error| error.field)
    };
    for (kind, name, value) in [
        ("web", "rate", 0.0),
        ("web", "rate", f64::NAN),
        ("web", "rate", f64::INFINITY),
        ("web", "access_low", 20.0),
        ("web", "most", 0.0),
        ("connection-vectors", "rate", 0.0),
        ("connection-vectors", "persistent", 1.5),
        ("connection-vectors", "copies", 0.0),
        ("web-probe", "smallest", 1e6),
        ("transfers", "idle_low", 8.0),
        ("transfers", "bytes", -1.0),
        ("request-response", "request_bytes", 0.0),
        ("voip-onoff", "calls", 0.0),
        ("voip", "calls", 1.5),
        ("udp-cbr", "rate", 0.0),
        ("ping", "interval", 0.0),
        ("ftp", "window_packets", 0.0),
    ] {
        assert_eq!(build(kind, &[(name, value)]).unwrap_err(), format!("flows[0].app.params.{name}"));
    }
    for (kind, params) in [
        ("web", &[("rate", 0.1)][..]),
        ("web", &[("rate", 20_000.0), ("most", 1.0)]),
        ("web", &[("rate", 100.0), ("access_low", 0.0), ("access_high", 0.0), ("hosts", 1.0)]),
        ("web-probe", &[("request_bytes", 1e6)]),
        ("transfers", &[("idle_low", 0.0), ("idle_high", 0.0), ("bytes", 0.0)]),
        ("voip-onoff", &[("on", 0.0), ("off", 0.0)]),
        ("ftp", &[("window_packets", 1.0), ("packet_bytes", 1.0)]),
        ("hftp", &[("window_packets", 10_000_000.0), ("packet_bytes", 65_000.0)]),
        ("ping", &[("interval", 0.01)]),
    ] {
        run(&build(kind, params).unwrap());
    }
}

#[test]
fn each_flow_has_an_access_delay_of_its_own_drawn_once() {
    let mut scenario = dumbbell(10_000_000, 20 * MS, None, 5, vec![app("ping", &[])]);
    scenario.instruments.echoes = vec!["ping".into()];
    let rtts = |scenario: &Scenario| column(&run(scenario), "echoes", "rtt_s").to_vec();
    let plain = rtts(&scenario);
    scenario.randomness.access_spread_ps = 5 * MS;
    let mut drawn = Vec::new();
    for seed in 1..=5 {
        scenario.seed = seed;
        let longer: Vec<f64> =
            rtts(&scenario).iter().zip(&plain).map(|(with, without)| with - without).collect();
        assert!(
            longer.iter().all(|it| (0.0..=0.005).contains(it) && (it - longer[0]).abs() < 1e-9),
            "{longer:?}"
        );
        drawn.push(longer[0]);
    }
    drawn.sort_by(f64::total_cmp);
    assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]), "each seed draws another: {drawn:?}");
}
