//! Runs on this machine's kernel. Without root (or TUN, or BPF) the tests say so and pass.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use serde_json::{Value, json};
use tailback_core::probe::{Column, Table};
use tailback_core::scenario::Scenario;
use tailback_core::time::{Duration, Time};
use tailback_live::demands::Manner;
use tailback_live::path::{Captured, Outcome, replay};
use tailback_live::{LiveError, doctor, run, twins};

/// Runs are punctual only one at a time.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn can_run() -> bool {
    let lacks: Vec<String> =
        doctor::basics().into_iter().filter(|check| !check.ok).map(|check| check.found).collect();
    if !lacks.is_empty() {
        eprintln!("skipped: {}", lacks.join("; "));
    }
    lacks.is_empty()
}

fn has_bpf() -> bool {
    let lacks: Vec<String> =
        doctor::bpf_basics().into_iter().filter(|check| !check.ok).map(|check| check.found).collect();
    if !lacks.is_empty() {
        eprintln!("skipped: {}", lacks.join("; "));
    }
    lacks.is_empty()
}

fn link(name: &str, from: &str, to: &str, extra: Value) -> Value {
    let mut link = json!({
        "name": name, "from": from, "to": to, "rate_bps": 10_000_000u64, "delay_ps": 10_000_000_000u64,
        "queue": { "discipline": "fifo", "params": { "limit_bytes": 25000 } },
    });
    for (key, value) in extra.as_object().expect("an object") {
        link[key] = value.clone();
    }
    link
}

fn bulk(cc: &str) -> Value {
    json!({
        "name": "bulk", "from": "left", "to": "right", "route": ["there"], "back_route": ["back"],
        "app": { "kind": "bulk" }, "tcp": { "stack": "linux", "cc": cc, "mtu": 1500 },
    })
}

fn call() -> Value {
    json!({
        "name": "call", "from": "left", "to": "right", "route": ["there"], "back_route": ["back"],
        "app": { "kind": "voip" },
    })
}

fn scenario(milliseconds: u64, forward: Value, flows: Vec<Value>) -> Scenario {
    let names: Vec<Value> = flows.iter().map(|flow| flow["name"].clone()).collect();
    let tcp: Vec<Value> =
        flows.iter().filter(|flow| flow["tcp"].is_object()).map(|flow| flow["name"].clone()).collect();
    let described = json!({
        "format": 1, "seed": 1, "duration_ps": milliseconds * 1_000_000_000,
        "nodes": ["left", "right"],
        "links": [link("there", "left", "right", forward), link("back", "right", "left", json!({}))],
        "flows": flows,
        "instruments": {
            "polls": tcp, "segments": tcp, "packets": names, "queue_polls": ["there"], "queues": ["there"],
            "poll_interval_ps": 5_000_000_000u64,
        },
    });
    serde_json::from_value(described).expect("a scenario")
}

fn live(scenario: &Scenario) -> run::Outcome {
    live_with(scenario, false)
}

/// `twins`: use ours even of algorithms that the kernel has itself.
fn live_with(scenario: &Scenario, twins: bool) -> run::Outcome {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let manner = Manner { twins, ..Manner::default() };
    run::run_as::<LiveError>(scenario, &manner, |_| Ok(())).expect("the run succeeds")
}

fn table<'a>(outcome: &'a run::Outcome, name: &str) -> BTreeMap<&'a str, &'a Column> {
    let table: &Table = outcome.tables.iter().find(|table| table.name == name).expect(name);
    table.columns.iter().map(|(name, column)| (*name, column)).collect()
}

fn numbers(column: &Column) -> Vec<f64> {
    match column {
        Column::F64(values) => values.clone(),
        Column::U64(values) => values.iter().map(|value| *value as f64).collect(),
        Column::U32(values) => values.iter().map(|value| f64::from(*value)).collect(),
        Column::U16(values) => values.iter().map(|value| f64::from(*value)).collect(),
        Column::U8(values) => values.iter().map(|value| f64::from(*value)).collect(),
        Column::Bool(values) => values.iter().map(|value| f64::from(u8::from(*value))).collect(),
    }
}

#[test]
fn a_call_and_a_transfer_fill_the_tables() {
    if !can_run() {
        return;
    }
    let outcome = live(&scenario(3_000, json!({}), vec![bulk("cubic"), call()]));
    let flows = table(&outcome, "flows");
    let goodput = numbers(flows["bytes_received"])[0] * 8.0 / 3.0;
    // 10 Mbit/s minus headers, the handshake and slow start; the path may lose some packets.
    assert!((6e6..9.7e6).contains(&goodput), "{goodput}");
    assert_eq!(numbers(flows["packets_sent"])[1], 150.0);
    let rtt = numbers(flows["rtt_min_s"])[0];
    assert!((0.020..0.030).contains(&rtt), "{rtt}");
    let links = table(&outcome, "links");
    for link in 0..2 {
        let of = |name: &str| numbers(links[name])[link];
        assert_eq!(of("arrived"), of("delivered") + of("dropped") + of("resident"));
    }
    assert!(numbers(table(&outcome, "queue_polls")["t_s"]).len() >= 599);
    assert!(numbers(table(&outcome, "polls")["cwnd"]).iter().all(|cwnd| *cwnd > 0.0));
    let packets = table(&outcome, "packets");
    let delays: Vec<f64> = numbers(packets["received_s"])
        .iter()
        .zip(numbers(packets["sent_s"]))
        .map(|(received, sent)| received - sent)
        .filter(|delay| delay.is_finite())
        .collect();
    assert!(delays.iter().all(|delay| *delay >= 0.010), "nothing is faster than the path");
    assert!(delays.len() > 1000);
}

/// A SYN sent before time zero would enter the path only then, and the kernel's first RTT would be too long by that
/// time. An algorithm that learns its base RTT from the handshake, such as Hybla, would then differ for the entire run.
#[test]
fn the_first_round_trip_is_the_paths() {
    if !can_run() || !has_bpf() {
        return;
    }
    let outcome = live(&scenario(500, json!({}), vec![bulk("reno")]));
    let arrived = numbers(table(&outcome, "captures")["arrived_s"]);
    assert!(arrived[0] > 0.0, "the SYN enters the path when it is sent, not at time zero");
    let segments = table(&outcome, "segments");
    let (srtt, at_receiver) = (numbers(segments["srtt_s"]), numbers(segments["at_receiver"]));
    let first = (0..srtt.len()).find(|&row| at_receiver[row] == 0.0 && srtt[row] > 0.0).expect("a sample");
    // 10 ms each way, an empty queue, and the delays of a busy machine.
    assert!((0.020..0.032).contains(&srtt[first]), "{}", srtt[first]);
}

fn captured(outcome: &run::Outcome, scenario: &Scenario) -> (Vec<Captured>, Vec<(f64, f64, f64)>) {
    let captures = table(outcome, "captures");
    let column = |name: &str| numbers(captures[name]);
    let (at, flow, reverse, copy) = (column("arrived_s"), column("flow"), column("reverse"), column("copy"));
    let (bytes, ecn, pair) = (column("bytes"), column("ecn"), column("pair"));
    let conversation = column("conversation");
    let log = (0..at.len())
        .map(|row| Captured {
            // Stamps are whole nanoseconds, which survive the conversion to seconds in double precision and back.
            at: Time::from_ns((at[row] * 1e9).round() as u64),
            flow: flow[row] as u32,
            is_reverse: reverse[row] != 0.0,
            is_copy: copy[row] != 0.0,
            bytes: bytes[row] as u32,
            ecn: [
                tailback_core::packet::Ecn::NotEct,
                tailback_core::packet::Ecn::Ect1,
                tailback_core::packet::Ecn::Ect0,
                tailback_core::packet::Ecn::Ce,
            ][ecn[row] as usize],
            pair: pair[row] as u32,
            conversation: conversation[row] as u8,
        })
        .collect();
    let (due, fate, marked) = (column("due_s"), column("fate"), column("marked"));
    assert!(scenario.flows.len() > flow.iter().copied().fold(0.0, f64::max) as usize);
    (log, (0..at.len()).map(|row| (due[row], fate[row], marked[row])).collect())
}

#[test]
fn replayed_arrivals_meet_identical_fates() {
    if !can_run() {
        return;
    }
    let paths = [
        json!({}),
        json!({ "wire": { "loss": 0.01, "duplicate": 0.01, "reorder": 0.02, "reorder_delay_ps": 3_000_000_000u64, "jitter_ps": 500_000_000u64 } }),
        json!({ "queue": { "discipline": "codel", "params": {} } }),
        json!({ "tick_hz": 1000 }),
    ];
    for path in paths {
        let scenario = scenario(2_000, path.clone(), vec![bulk("cubic"), call()]);
        let (_, log, fates) = replays(&scenario);
        let delivered = fates.iter().filter(|fate| matches!(fate, Outcome::Delivered { .. })).count();
        assert!(delivered > 500, "{delivered} of {} on {path}", log.len());
    }
}

#[test]
fn stations_contend_for_a_medium_as_in_the_simulator() {
    if !can_run() {
        return;
    }
    let air = json!({ "rate_bps": null, "delay_ps": 0, "medium": { "name": "wifi", "channel": "air" } });
    let mut scenario = scenario(2_000, air, vec![bulk("cubic"), call()]);
    let medium = scenario.links[0].medium.clone();
    let back = &mut scenario.links[1];
    (back.rate_bps, back.medium) = (None, medium);
    let (outcome, _, fates) = replays(&scenario);
    let delivered = fates.iter().filter(|fate| matches!(fate, Outcome::Delivered { .. })).count();
    let links = table(&outcome, "links");
    assert!(delivered > 500, "{delivered}");
    for link in 0..2 {
        let of = |name: &str| numbers(links[name])[link];
        assert_eq!(of("arrived"), of("delivered") + of("dropped") + of("resident"));
        assert!(of("delivered") > 100.0, "both ways");
    }
}

/// Runs the scenario and replays its arrivals: every packet must have the same outcome.
fn replays(scenario: &Scenario) -> (run::Outcome, Vec<Captured>, Vec<Outcome>) {
    let outcome = live(scenario);
    let (log, fates) = captured(&outcome, scenario);
    let replayed = replay(scenario, &log, Time::from_ps(scenario.duration_ps)).expect("it was run");
    assert_eq!(replayed.len(), fates.len(), "as many copies");
    for (number, (again, (due, fate, marked))) in replayed.iter().zip(&fates).enumerate() {
        let same = match again {
            Outcome::Delivered { due: then, is_marked } => {
                // Packets due in the last moments may not have been handed over.
                *fate == 2.0 || then.as_secs_f64() == *due && f64::from(u8::from(*is_marked)) == *marked
            }
            Outcome::Dropped { .. } | Outcome::Damaged => *fate == 1.0,
            Outcome::InTransit => *fate == 2.0,
        };
        assert!(same, "packet {number}: {again:?} against {due} {fate} {marked}");
    }
    (outcome, log, replayed)
}

#[test]
fn connections_of_a_webs_own_hosts_take_their_own_paths() {
    if !can_run() {
        return;
    }
    let mut flow = bulk("cubic");
    let params = json!({ "rate": 50, "hosts": 8, "access_low": 5, "access_high": 40, "largest": 20_000 });
    flow["app"] = json!({ "kind": "web", "params": params });
    let fast = json!({ "rate_bps": 100_000_000u64, "queue": { "discipline": "fifo", "params": { "limit_bytes": 1_000_000 } } });
    let scenario = scenario(2_000, fast, vec![flow]);
    let (outcome, log, fates) = replays(&scenario);
    let delays = tailback_live::access::delays(&scenario, 0).expect("a web");
    assert_eq!(delays.len(), 8);
    let mut least = [Duration::MAX; 8];
    for (packet, fate) in log.iter().zip(fates) {
        if let (Outcome::Delivered { due, .. }, false) = (fate, packet.is_reverse) {
            let least = &mut least[packet.pair as usize];
            *least = (*least).min(due.since(packet.at));
        }
    }
    // 10 ms of the link, plus at most a packet's time or two.
    for (pair, (least, delay)) in least.iter().zip(&delays).enumerate() {
        let expected = *delay + Duration::from_ms(10);
        let is_right = *least >= expected && *least < expected + Duration::from_us(300);
        assert!(is_right, "pair {pair}: {} for {}", least.as_secs_f64(), expected.as_secs_f64());
    }
    let flows = table(&outcome, "flows");
    let connections = numbers(flows["connections"])[0];
    assert!(connections > 50.0 && numbers(flows["connections_failed"])[0] == 0.0, "{connections}");
}

#[test]
fn every_twin_loads_and_leaves_the_kernel() {
    if !can_run() || !has_bpf() {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (number, cc) in twins::names().enumerate() {
        let name = twins::kernel_name("tbtest", number, cc);
        let registered =
            twins::register(cc, &[], &name, true, false).unwrap_or_else(|error| panic!("{cc}: {error}"));
        assert!(twins::in_kernel().contains(&name), "{cc}");
        drop(registered);
        assert!(!twins::in_kernel().contains(&name), "{cc} is gone");
    }
}

/// All twins at once, each in a flow of its own.
#[test]
fn every_twin_carries_data_and_moves_its_window() {
    if !can_run() || !has_bpf() {
        return;
    }
    let before = twins::in_kernel();
    let ours: Vec<&str> = twins::names().collect();
    let flows = ours.iter().map(|cc| {
        let mut flow = bulk(cc);
        flow["name"] = json!(cc);
        flow
    });
    let fast = json!({ "rate_bps": 100_000_000u64, "queue": { "discipline": "fifo", "params": { "limit_bytes": 250_000 } } });
    let outcome = live_with(&scenario(3_000, fast, flows.collect()), true);
    let received = numbers(table(&outcome, "flows")["bytes_received"]);
    let polls = table(&outcome, "polls");
    let (of, cwnd) = (numbers(polls["flow"]), numbers(polls["cwnd"]));
    let logged = numbers(table(&outcome, "segments")["flow"]);
    for (number, cc) in ours.iter().enumerate() {
        let flow = number as f64;
        // This checks that it works, not how fast: a busy machine throttles a real-time run, and little is left for the
        // others.
        assert!(received[number] > 50_000.0, "{cc}: {}", received[number]);
        let windows: Vec<f64> =
            cwnd.iter().zip(&of).filter(|(_, of)| **of == flow).map(|(window, _)| *window).collect();
        assert!(windows.iter().any(|window| *window != windows[0]), "{cc} moves its window");
        assert!(logged.contains(&flow), "{cc} is in the state log");
    }
    assert_eq!(twins::in_kernel(), before, "all are gone");
}

/// The quantities that a flow's algorithm exported, by name: values in order of time.
fn shown(outcome: &run::Outcome, flow: u32) -> BTreeMap<&'static str, Vec<f64>> {
    let internals = table(outcome, "internals");
    let (of, name, value) =
        (numbers(internals["flow"]), numbers(internals["name"]), numbers(internals["value"]));
    let mut shown: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for row in (0..of.len()).filter(|&row| of[row] == f64::from(flow)) {
        shown.entry(outcome.internals_names[name[row] as usize]).or_default().push(value[row]);
    }
    shown
}

#[test]
fn internals_are_read_from_twins_and_from_the_kernels_own() {
    if !can_run() || !has_bpf() {
        return;
    }
    let algorithms = ["vegas", "westwood", "cubic", "htcp"];
    let flows = algorithms.iter().map(|cc| {
        let mut flow = bulk(cc);
        flow["name"] = json!(cc);
        flow
    });
    let mut scenario = scenario(4_000, json!({}), flows.collect());
    scenario.instruments.internals = true;
    let outcome = live(&scenario);
    assert!(!outcome.notes.iter().any(|note| note.contains("internals")), "{:?}", outcome.notes);
    let last = |flow: u32, name: &str| shown(&outcome, flow)[name].last().copied().expect("a row");
    let within = |value: f64, low: f64, high: f64| assert!((low..high).contains(&value), "{value}");
    // The path takes 20 ms and its queue at most another 20 ms; a flow that started late never saw the queue empty.
    within(last(0, "base_rtt_s"), 0.0195, 0.045);
    within(last(1, "rtt_min_s"), 0.0195, 0.045);
    // A quarter of 10 Mbit/s, within a wide margin.
    within(last(1, "bwe_bps"), 1e5, 1e7);
    // After a loss, the kernel's own CUBIC remembers its window: at most 35 segments fit in all.
    let w_max = &shown(&outcome, 2)["w_max"];
    assert!(w_max.iter().any(|window| (2.0..60.0).contains(window)), "{w_max:?}");
    within(last(3, "beta"), 0.5, 0.81);
    within(last(3, "last_congestion_s"), -0.1, 4.0);
    let columns: Vec<&str> = shown(&outcome, 3).keys().copied().collect();
    assert_eq!(columns, ["alpha", "beta", "last_congestion_s", "rtt_max_s", "rtt_min_s"]);
}

/// Where the kernel has the algorithm itself, it is the reference: on the same path, our twin's windows must be
/// similar.
#[test]
fn a_twin_of_what_the_kernel_has_can_be_preferred() {
    if !can_run() || !has_bpf() || !twins::in_kernel().iter().any(|name| name == "cubic") {
        return;
    }
    let mut scenario = scenario(4_000, json!({}), vec![bulk("cubic")]);
    scenario.instruments.internals = true;
    let mut means = Vec::new();
    for twins in [false, true] {
        let outcome = live_with(&scenario, twins);
        assert!(shown(&outcome, 0).contains_key("w_max"), "the algorithm that ran shows what CUBIC has");
        let polls = table(&outcome, "polls");
        let (times, cwnd) = (numbers(polls["t_s"]), numbers(polls["cwnd"]));
        // The end of slow start differs between runs; after two seconds both oscillate below the same loss point.
        let late: Vec<f64> =
            times.iter().zip(&cwnd).filter(|(t, _)| **t > 2.0).map(|(_, w)| w / 1448.0).collect();
        means.push(late.iter().sum::<f64>() / late.len() as f64);
    }
    // 10 Mbit/s, 20 ms and a 25 kB queue hold some 33 segments: the mean is below that, and above half of it.
    assert!(means.iter().all(|mean| (17.0..34.0).contains(mean)), "{means:?}");
    assert!((means[0] - means[1]).abs() <= 0.15 * means[0], "{means:?}");
}

#[test]
fn the_state_log_sees_recoveries_that_halve_renos_window() {
    if !can_run() || !has_bpf() {
        return;
    }
    let outcome = live(&scenario(4_000, json!({}), vec![bulk("reno")]));
    assert!(!outcome.notes.iter().any(|note| note.contains("log")), "{:?}", outcome.notes);
    let events = table(&outcome, "congestion");
    let (kind, before, ssthresh) =
        (numbers(events["kind"]), numbers(events["cwnd_before"]), numbers(events["ssthresh"]));
    let recoveries: Vec<usize> = (0..kind.len()).filter(|&row| kind[row] == 0.0).collect();
    assert!(!recoveries.is_empty());
    for row in recoveries {
        let ratio = ssthresh[row] / before[row];
        assert!((0.4..=0.5).contains(&ratio), "{} of {}", ssthresh[row], before[row]);
    }
}

#[test]
fn programs_run_in_their_hosts_and_their_ends_are_reported() {
    if !can_run() {
        return;
    }
    let mut flow = bulk("reno");
    let line = "sh -c 'echo {client_addr} {cc} {port}; exit 3'";
    flow["app"] = json!({ "kind": "exec", "params": { "client": line } });
    let outcome = live(&scenario(500, json!({}), vec![flow]));
    let programs = table(&outcome, "programs");
    assert_eq!(numbers(programs["status"]), [3.0]);
    assert_eq!(numbers(programs["role"]), [1.0]);
    let written: Vec<&str> = outcome.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(written, ["bulk/client.out", "bulk/client.err"]);
    assert_eq!(outcome.files[0].1, b"10.0.0.1 reno 5001\n");
    assert!(outcome.notes.iter().any(|note| note.contains("status 3")), "{:?}", outcome.notes);
}

#[test]
fn the_log_has_every_segment_sent_and_received_at_both_ends() {
    if !can_run() || !has_bpf() {
        return;
    }
    let outcome = live(&scenario(2_000, json!({}), vec![bulk("cubic")]));
    assert!(!outcome.notes.iter().any(|note| note.contains("log")), "{:?}", outcome.notes);
    let segments = table(&outcome, "segments");
    let column = |name: &str| numbers(segments[name]);
    let (outgoing, at_receiver, length) = (column("outgoing"), column("at_receiver"), column("length"));
    let (seq, ack, flags) = (column("seq"), column("ack"), column("flags"));
    let rows = |sent: f64, receiver: f64| -> Vec<usize> {
        (0..outgoing.len()).filter(|&row| outgoing[row] == sent && at_receiver[row] == receiver).collect()
    };
    let payload = |rows: &[usize]| rows.iter().map(|&row| length[row]).sum::<f64>();
    let (sent, received) = (rows(1.0, 0.0), rows(0.0, 1.0));
    // What the sender's device captured must equal what the path counted.
    let packets = numbers(table(&outcome, "flows")["packets_sent"])[0];
    assert!((packets - sent.len() as f64).abs() < 10.0, "{packets} packets, {} rows", sent.len());
    assert!(
        sent.iter().all(|&row| length[row] <= 1448.0),
        "segments as on the wire, not as the kernel bundles them"
    );
    assert!(payload(&received) <= payload(&sent) && payload(&received) > 0.5 * payload(&sent));
    // Each direction's acknowledgements: only the ACK flag, no payload, and the sender's own sequence numbers.
    let (acks_out, acks_in) = (rows(1.0, 1.0), rows(0.0, 0.0));
    assert!(acks_in.len() <= acks_out.len() && !acks_in.is_empty());
    assert!(acks_out.iter().all(|&row| flags[row] as u32 & 0x10 != 0 && length[row] == 0.0));
    let first = seq[sent[0]];
    assert!(acks_in.iter().all(|&row| (ack[row] - first).rem_euclid(4_294_967_296.0) < 10e6));
}

#[test]
fn what_cannot_be_done_is_refused_before_anything_is_made() {
    let refused = |scenario: Scenario| match run::run::<LiveError>(&scenario, |_| Ok(())) {
        Err(LiveError::Refused(error)) => error,
        other => panic!("{other:?}"),
    };
    let mut flow = bulk("cubic");
    flow["tcp"]["stack"] = "freebsd-7".into();
    let error = refused(scenario(1_000, json!({}), vec![flow]));
    assert_eq!(error.field, "flows[0].tcp.stack");
    assert!(error.fix.contains("--engine sim"), "{}", error.fix);
    let error = refused(scenario(1_000, json!({}), vec![bulk("bbr3")]));
    assert_eq!(error.field, "flows[0].tcp.cc");
    let mut flow = bulk("cubic");
    flow["tcp"]["stack_params"] = json!({ "ack_every": 1 });
    let error = refused(scenario(1_000, json!({}), vec![flow]));
    assert_eq!(error.field, "flows[0].tcp.stack_params.ack_every");
    assert!(error.fix.contains("delayed_ack = false"), "the nearest thing: {}", error.fix);
    let mut flow = bulk("cubic");
    flow["tcp"]["stack_params"] = json!({ "ack_division": 8 });
    let error = refused(scenario(1_000, json!({}), vec![flow]));
    assert_eq!(error.problem, "the kernel's receiver is honest");
    // The kernel's F-RTO is off, or SACK-based from the first ACK on; it has no other forms.
    let mut flow = bulk("cubic");
    flow["tcp"]["stack_params"] = json!({ "frto": "basic" });
    let error = refused(scenario(1_000, json!({}), vec![flow]));
    assert_eq!(error.field, "flows[0].tcp.stack_params.frto");
}

#[test]
fn a_host_has_its_settings_once() {
    let mut flows = vec![bulk("cubic"), bulk("cubic")];
    flows[0]["name"] = "other".into();
    flows[1]["tcp"]["stack_params"] = json!({ "sack": false });
    match run::run::<LiveError>(&scenario(1_000, json!({}), flows), |_| Ok(())) {
        Err(LiveError::Refused(error)) => assert_eq!(error.field, "flows[1].tcp.stack_params.sack"),
        other => panic!("{other:?}"),
    }
}

/// A transfer over 1 Gbit/s and 20 ms whose stack differs from the profile in these fields.
fn with_stack(milliseconds: u64, fields: Value) -> (run::Outcome, Vec<Captured>) {
    let mut flow = bulk("reno");
    flow["tcp"]["stack_params"] = fields;
    let fast = json!({ "rate_bps": 1_000_000_000u64, "queue": { "discipline": "fifo", "params": { "limit_bytes": 20_000_000 } } });
    let scenario = scenario(milliseconds, fast, vec![flow]);
    let outcome = live(&scenario);
    let log = captured(&outcome, &scenario).0;
    (outcome, log)
}

/// When data packets entered the path, in seconds since the first.
fn sent(log: &[Captured]) -> Vec<f64> {
    let data = log.iter().filter(|packet| !packet.is_reverse && packet.bytes > 100);
    let at: Vec<f64> = data.map(|packet| packet.at.as_secs_f64()).collect();
    at.iter().map(|time| time - at[0]).collect()
}

#[test]
fn hosts_leave_large_segments_to_be_cut_unless_their_stack_says_no() {
    if !can_run() {
        return;
    }
    for (fields, is_cut) in [(json!({}), true), (json!({ "burst_segments": 1 }), false)] {
        let (outcome, log) = with_stack(400, fields);
        let emulator = table(&outcome, "emulator");
        let of = |name: &str| numbers(emulator[name])[0];
        assert_eq!(of("largest_frame_bytes") > 1500.0, is_cut, "what the host's device was given");
        assert_eq!((of("frames") as usize) < log.len(), is_cut, "and how many");
        assert!(log.iter().all(|packet| packet.bytes <= 1500), "the path sees packets");
        assert!(log.iter().any(|packet| packet.bytes == 1500), "and full ones");
        // The packets are reassembled as they were: the kernel accepts no others and sees no loss.
        let flows = table(&outcome, "flows");
        let of = |name: &str| numbers(flows[name])[0];
        assert!(of("bytes_received") > 1e6, "{}", of("bytes_received"));
        assert_eq!(of("recoveries"), 0.0);
    }
}

#[test]
fn bursts_have_as_many_segments_as_the_stack_says() {
    if !can_run() {
        return;
    }
    let (outcome, _) = with_stack(400, json!({ "burst_segments": 4, "burst_autosize": false }));
    // 52 bytes of headers and four payloads of 1448 bytes.
    assert_eq!(numbers(table(&outcome, "emulator")["largest_frame_bytes"])[0], 52.0 + 4.0 * 1448.0);
}

#[test]
fn the_kernel_follows_the_stack() {
    if !can_run() {
        return;
    }
    // Data sent before the first acknowledgement can arrive.
    let first_flight = |log: &[Captured]| sent(log).iter().filter(|at| **at < 0.015).count();
    let (_, log) = with_stack(300, json!({}));
    assert_eq!(first_flight(&log), 10);
    assert!(log.iter().all(|packet| packet.ecn == tailback_core::packet::Ecn::NotEct));

    let (_, log) = with_stack(300, json!({ "initial_window": 3, "restart_window": 3, "ecn": true }));
    assert_eq!(first_flight(&log), 3);
    let is_marked = |packet: &&Captured| !packet.is_reverse && packet.bytes > 100;
    assert!(log.iter().filter(is_marked).all(|packet| packet.ecn == tailback_core::packet::Ecn::Ect0));

    let (_, log) = with_stack(300, json!({ "delayed_ack": false }));
    let data = sent(&log).len() as f64;
    let back = log.iter().filter(|packet| packet.is_reverse).count() as f64;
    assert!(back > 0.7 * data, "{back} acknowledgements of {data}: those of the last 20 ms are not yet sent");

    // Twice the window per round trip (200 %): the second flight, 20 segments, takes half a round trip.
    let (_, log) = with_stack(300, json!({ "pacing": true }));
    let at = sent(&log);
    assert!(at[29] - at[10] > 0.006, "{:?}", &at[10..30]);
}

#[test]
fn settings_are_a_hosts_and_a_routes() {
    if !can_run() {
        return;
    }
    let mut flow = bulk("reno");
    flow["tcp"]["stack_params"] = json!({
        "sack": false, "tail_loss_probe": false, "frto": false, "idle_restart": false, "window_validation": false,
        "sack_compression": false, "metrics_cache": "linux", "duplicate_threshold": 5, "rto_minimum": 300,
        "receive_buffer": 1_000_000,
    });
    let names = [
        ("tcp_sack", "0"),
        ("tcp_dsack", "1"),
        ("tcp_early_retrans", "0"),
        ("tcp_frto", "0"),
        ("tcp_slow_start_after_idle", "0"),
        ("tcp_comp_sack_nr", "0"),
        ("tcp_no_metrics_save", "0"),
        ("tcp_reordering", "5"),
        ("tcp_rmem", "4096\t131072\t1000000"),
    ];
    let files: Vec<String> = names.iter().map(|(name, _)| format!("/proc/sys/net/ipv4/{name}")).collect();
    flow["app"] = json!({ "kind": "exec", "params": { "client": format!("cat {}", files.join(" ")) } });
    let outcome = live(&scenario(500, json!({}), vec![flow]));
    let expected: String = names.iter().map(|(_, value)| format!("{value}\n")).collect();
    assert_eq!(String::from_utf8_lossy(&outcome.files[0].1), expected);
}

#[test]
fn a_run_can_be_ended_at_any_time() {
    if !can_run() {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let scenario = scenario(60_000, json!({}), vec![bulk("cubic"), call()]);
    let began = std::time::Instant::now();
    let ended =
        run::run::<LiveError>(
            &scenario,
            |fraction| {
                if fraction > 0.005 { Err(LiveError::Cancelled) } else { Ok(()) }
            },
        );
    assert!(matches!(ended, Err(LiveError::Cancelled)));
    assert!(began.elapsed().as_secs() < 5);
}

#[test]
fn hosts_are_apart_from_this_machine_and_from_each_other() {
    if !can_run() {
        return;
    }
    let links = || std::fs::read_dir("/sys/class/net").expect("devices").count();
    let before = links();
    let settings = tailback_live::host::Settings { mtu: 1500, ..Default::default() };
    let one = tailback_live::host::Host::make("one", "tbtest", &settings).expect("a host");
    let other = tailback_live::host::Host::make("other", "tbtest", &settings).expect("a host");
    let number = |host: &tailback_live::host::Host| {
        tailback_live::bpf::namespace_number(host.namespace().as_fd()).expect("a number")
    };
    assert_ne!(number(&one), number(&other));
    assert_eq!(links(), before, "no device of ours is in this machine's own namespace");
    assert_eq!(one.device_drops().expect("a device"), 0);
}
