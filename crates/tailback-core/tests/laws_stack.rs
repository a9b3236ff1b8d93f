//! Effects of a stack's options on an entire run: the host's own queue, metrics cached for later connections, and L4S.

use crate::common::{MS, SECOND, bulk, by, column, dumbbell, entries, flow, link, run, tcp};
use tailback_core::engine::Simulation;
use tailback_core::scenario::{FlowSpec, Instruments, Scenario, StepSpec, Value};

fn set(flow: &mut FlowSpec, name: &str, value: Value) {
    flow.tcp.as_mut().expect("tcp").stack_params.insert(name.into(), value);
}

/// A host behind a port of `port_bps`, then a path of 100 Mbit/s and 20 ms.
fn behind_a_port(port_bps: u64, small_queue: bool) -> Scenario {
    let mut sender = by(bulk("reno", "linux"), &["port", "bottleneck"], &["return", "port back"]);
    sender.from = "host".into();
    // Send single segments; otherwise the limit would be two bursts plus one that may exceed it.
    set(&mut sender, "burst_segments", Value::Number(1.0));
    if small_queue {
        set(&mut sender, "small_queue", Value::Number(1_048_576.0));
    }
    let mut scenario = dumbbell(100_000_000, 20 * MS, Some(250_000), 20, vec![sender]);
    scenario.nodes.push("host".into());
    scenario.links.push(link("port", "host", "left", port_bps, 0, Some(4_000_000)));
    scenario.links.push(link("port back", "left", "host", port_bps, 0, None));
    scenario.instruments = Instruments {
        queue_polls: vec!["port".into()],
        poll_interval_ps: MS,
        from_ps: 2 * SECOND,
        ..Instruments::default()
    };
    scenario
}

fn port_queue(scenario: &Scenario) -> (f64, f64) {
    let tables = run(scenario);
    let bytes = column(&tables, "queue_polls", "backlog_bytes");
    let most = bytes.iter().copied().fold(0.0, f64::max);
    (most, column(&tables, "flows", "bytes_received")[0])
}

#[test]
fn the_small_queue_limit_keeps_the_hosts_own_queue_to_milliseconds() {
    // The port of 50 Mbit/s is the bottleneck: without the limit the window grows until 4 MB wait in the host.
    let (without, free) = port_queue(&behind_a_port(50_000_000, false));
    let (with, limited) = port_queue(&behind_a_port(50_000_000, true));
    // 1/1024 s of the pacing rate, and the packet that exceeds it. Nothing is ever lost, so the sender stays in
    // slow start: it paces at 200 %, of a window that may be twice what is out (`GrowthGate::RecentlyFull`).
    let rate = 50e6 / 8.0;
    let bound = 2.0 * 2.0 * rate / 1024.0 + 1500.0;
    assert!(with <= bound, "{with} B in the host's queue, at most {bound:.0}");
    assert!(without > 50.0 * bound, "{without} B without the limit");
    assert!(limited > 0.99 * free, "{limited} B arrive with the limit, {free} without");
}

#[test]
fn the_small_queue_limit_does_nothing_where_the_port_is_fast() {
    // 10 Gbit/s before 100 Mbit/s: a burst of the initial window leaves the port within 12 µs.
    let (_, without) = port_queue(&behind_a_port(10_000_000_000, false));
    let (_, with) = port_queue(&behind_a_port(10_000_000_000, true));
    assert!((with - without).abs() < 0.002 * without, "{with} B with the limit, {without} without");
}

#[test]
fn a_window_that_waits_for_a_burst_grows_like_one_that_is_full() {
    // Linux `tcp_cwnd_validate`: deferring for want of window is being limited by it. Else Reno's rise stops
    // whenever a part of a burst is free.
    let received = |burst: f64| {
        let mut sender = bulk("reno", "linux");
        set(&mut sender, "burst_segments", Value::Number(burst));
        set(&mut sender, "burst_autosize", Value::Flag(true));
        let scenario = dumbbell(50_000_000, 40 * MS, Some(250_000), 60, vec![sender]);
        column(&run(&scenario), "flows", "bytes_received")[0]
    };
    let (single, bursts) = (received(1.0), received(44.0));
    assert!((bursts / single - 1.0).abs() < 0.005, "{bursts} B in bursts, {single} one by one");
}

/// Four transfers of 4 MB in a row over 10 Mbit/s and 80 ms, half a BDP of queue.
fn transfers(stack: &str, cache: Option<&str>) -> Scenario {
    let mut sender = flow("files", "transfers", Some(tcp("reno", stack)));
    for (name, value) in [("bytes", 4e6), ("count", 4.0), ("idle_low", 5.0), ("idle_high", 5.0)] {
        sender.app.params.insert(name.into(), Value::Number(value));
    }
    if let Some(cache) = cache {
        set(&mut sender, "metrics_cache", Value::Name(cache.into()));
    }
    let mut scenario = dumbbell(10_000_000, 80 * MS, Some(50_000), 60, vec![sender]);
    scenario.instruments = Instruments {
        polls: vec!["files".into()],
        poll_interval_ps: 10 * MS,
        drops: vec!["bottleneck".into()],
        requests: vec!["files".into()],
        ..Instruments::default()
    };
    scenario
}

/// Start times of the transfers, and the drops of each.
fn drops_of_each(scenario: &Scenario) -> (Vec<f64>, Vec<usize>) {
    let tables = run(scenario);
    let starts = column(&tables, "requests", "t_s");
    let drops = column(&tables, "queue", "t_s");
    let count = |index: usize| {
        let end = starts.get(index + 1).copied().unwrap_or(f64::INFINITY);
        drops.iter().filter(|at| **at >= starts[index] && **at < end).count()
    };
    let counts = (0..starts.len()).map(count).collect();
    (starts, counts)
}

#[test]
fn a_remembered_ssthresh_spares_the_next_transfers_the_overshoot_of_slow_start() {
    let (_, forgetful) = drops_of_each(&transfers("linux-2.6.25", None));
    let (_, mindful) = drops_of_each(&transfers("linux-2.6.25", Some("linux-2.6")));
    assert_eq!(forgetful.len(), 4);
    // Without the cache every transfer overshoots like the first; with it only the first one does.
    assert!(forgetful.iter().all(|drops| *drops >= forgetful[0] / 2 && *drops > 10), "{forgetful:?}");
    assert_eq!(mindful[0], forgetful[0]);
    assert!(mindful[1..].iter().all(|drops| *drops <= 3), "{mindful:?}");
}

#[test]
fn the_second_transfer_begins_with_what_the_first_has_left() {
    let scenario = transfers("linux-2.6.25", Some("linux-2.6"));
    let tables = run(&scenario);
    let (starts, t) = (column(&tables, "requests", "t_s"), column(&tables, "polls", "t_s"));
    let (cwnd, ssthresh) = (column(&tables, "polls", "cwnd"), column(&tables, "polls", "ssthresh"));
    let last = (0..t.len()).rfind(|row| t[*row] < starts[1]).expect("polls of the first");
    let next = (0..t.len()).find(|row| t[*row] > starts[1] + 0.1).expect("polls of the second");
    let segments = (cwnd[last] / 2.0 / 1448.0).floor() * 1448.0;
    assert_eq!(ssthresh[next], segments.max(ssthresh[last]), "cwnd {} at the end", cwnd[last]);
    assert!(cwnd[next] < 5.0 * 1448.0, "and slow start, from {}", cwnd[next]);
}

#[test]
fn linux_6_forgets_ssthresh() {
    let (_, without) = drops_of_each(&transfers("linux", None));
    let (_, with) = drops_of_each(&transfers("linux", Some("linux")));
    // Since 5.6 only the first timeout's RTT is remembered, and nothing times out here.
    assert_eq!(with, without);
}

/// Slow start overshoots ns-2's path of 10 Mbit/s and 80 ms with 100 kB of its DropTail: the drops of the first eight
/// seconds, the timeouts, and how long the first recovery lasts.
fn overshoot(pipe: &str) -> (usize, usize, f64) {
    let mut sender = bulk("reno", "ns2-sack");
    for (name, value) in [
        ("initial_window", Value::Number(10.0)),
        ("timestamps", Value::Flag(true)),
        ("counting", Value::Name("bytes".into())),
        ("pipe", Value::Name(pipe.into())),
    ] {
        set(&mut sender, name, value);
    }
    let mut scenario = dumbbell(10_000_000, 80 * MS, None, 8, vec![sender]);
    let queue = &mut scenario.links[0].queue.params;
    queue.insert("limit_bytes".into(), Value::Number(100_000.0));
    queue.insert("accept".into(), Value::Name("ns2".into()));
    let tables = run(&scenario);
    let (t, kind) = (column(&tables, "congestion", "t_s"), column(&tables, "congestion", "kind"));
    assert_eq!(kind[..2], [0.0, 1.0], "into recovery and out of it");
    let timeouts = kind.iter().filter(|kind| **kind == 2.0).count();
    (column(&tables, "links", "dropped")[0] as usize, timeouts, t[1] - t[0])
}

#[test]
fn ns2s_pipe_repairs_the_overshoot_of_slow_start_as_ns2_does() {
    // ns-2.35's Agent/TCP/Sack1 on this path drops 134 packets and one more when slow start goes on. Half of the window
    // is lost and stays in the pipe, so the repairs go out 1, 2, 4, ... 64, 6 a round trip. The first leaves at 1.0518
    // s, the last at 1.7863 s, and its ACK comes 81.2 ms later.
    let (drops, timeouts, lasted) = overshoot("counter");
    assert_eq!((drops, timeouts), (135, 0));
    assert!((lasted - (1.7863 + 0.0812 - 1.0518)).abs() < 0.002, "{lasted} s");
    // RFC 6675's pipe takes what is lost out at once: two round trips, that of the full queue and the next.
    let (_, _, lasted) = overshoot("scoreboard");
    assert!(lasted < 0.33, "{lasted} s");
}

/// What an outage of a second costs a window of 200 kB that all survives it: retransmissions and timeouts. The receiver
/// limits it, so that there is new data to send.
fn after_an_outage(frto: &str) -> (f64, f64, f64) {
    let mut sender = bulk("reno", "linux");
    for name in ["timestamps", "dsack", "tail_loss_probe"] {
        set(&mut sender, name, Value::Flag(false));
    }
    set(&mut sender, "frto", Value::Name(frto.into()));
    sender.tcp.as_mut().expect("tcp").receive_buffer = Some(400_000);
    let mut scenario = dumbbell(10_000_000, 80 * MS, None, 20, vec![sender]);
    scenario.links[0].schedule = vec![
        StepSpec { at_ps: 10 * SECOND, rate_bps: Some(0), delay_ps: None, loss: None },
        StepSpec { at_ps: 11 * SECOND, rate_bps: Some(10_000_000), delay_ps: None, loss: None },
    ];
    let tables = run(&scenario);
    let of = |name: &str| column(&tables, "flows", name)[0];
    (of("segments_retransmitted"), of("timeouts"), of("bytes_received"))
}

#[test]
fn after_an_outage_frto_repeats_only_what_timed_out() {
    // Nothing was lost. Without timestamps and D-SACK only F-RTO can detect that, by the ACK of data sent once.
    for frto in ["basic", "sack", "at-once"] {
        let (repeated, timeouts, received) = after_an_outage(frto);
        assert!(timeouts >= 1.0 && repeated == timeouts, "{frto}: {repeated} after {timeouts} timeouts");
        let (needless, _, without) = after_an_outage("off");
        assert!(needless > 100.0, "go-back-N repeats the window: {needless}");
        assert!(received >= without, "{frto}: {received} B, {without} without");
    }
}

/// Number of recoveries in a minute in which one packet in 200 is overtaken by seven others.
fn recoveries_under_reordering(limit: Value) -> f64 {
    let mut sender = bulk("reno", "linux-2.6.25");
    set(&mut sender, "reordering_limit", limit);
    sender.tcp.as_mut().expect("tcp").send_buffer = Some(100_000);
    let mut scenario = dumbbell(10_000_000, 80 * MS, None, 60, vec![sender]);
    scenario.links[0].wire.reorder = 0.005;
    scenario.links[0].wire.reorder_delay_ps = 8 * MS;
    column(&run(&scenario), "flows", "recoveries")[0]
}

#[test]
fn the_adaptive_degree_of_reordering_ends_needless_recoveries() {
    // Nothing is lost; about 250 packets arrive seven late, more than the threshold of three.
    let fixed = recoveries_under_reordering(Value::Flag(false));
    let adaptive = recoveries_under_reordering(Value::Number(127.0));
    assert!(fixed > 150.0, "{fixed} recoveries with a fixed threshold");
    assert!(adaptive < 10.0, "{adaptive} with an adaptive one");
}

/// A DCTCP flow with this kind of ECN beside a `cc` without, at a DualPI2 link of 40 Mbit/s and 20 ms.
fn beside_classic(cc: &str, ecn: Value, seed: u64) -> Scenario {
    let mut low = bulk("dctcp", "linux");
    let mut classic = bulk(cc, "linux");
    (low.name, classic.name) = ("low".into(), "classic".into());
    set(&mut low, "ecn", ecn);
    set(&mut low, "accurate_echo", Value::Flag(true));
    // No bursts: the packets of a burst would queue behind each other and be marked.
    for sender in [&mut low, &mut classic] {
        set(sender, "pacing", Value::Flag(true));
        set(sender, "burst_segments", Value::Number(1.0));
    }
    let mut scenario = dumbbell(40_000_000, 20 * MS, None, 60, vec![low, classic]);
    scenario.seed = seed;
    scenario.links[0].queue.discipline = "dualpi2".into();
    scenario.instruments = Instruments {
        packets: vec!["low".into(), "classic".into()],
        from_ps: 10 * SECOND,
        ..Instruments::default()
    };
    scenario
}

/// What a flow's packets experienced.
struct Share {
    /// Queueing delay in milliseconds.
    mean: f64,
    /// 99th percentile of the queueing delay in milliseconds.
    late: f64,
    /// Throughput in IP bit/s.
    rate: f64,
}

fn shares(scenario: &Scenario) -> [Share; 2] {
    let tables = run(scenario);
    let [flow, bytes, sent, received] =
        ["flow", "bytes", "sent_s", "received_s"].map(|name| column(&tables, "packets", name));
    [0.0, 1.0].map(|number| {
        let arrived: Vec<usize> =
            (0..flow.len()).filter(|row| flow[*row] == number && received[*row].is_finite()).collect();
        let mut waits: Vec<f64> = arrived
            .iter()
            .map(|&row| (received[row] - sent[row] - 0.010 - bytes[row] * 8.0 / 40e6) * 1e3)
            .collect();
        waits.sort_by(f64::total_cmp);
        Share {
            mean: waits.iter().sum::<f64>() / waits.len() as f64,
            late: waits[waits.len() * 99 / 100],
            rate: arrived.iter().map(|&row| bytes[row] * 8.0).sum::<f64>() / 50.0,
        }
    })
}

#[test]
fn l4s_waits_less_than_a_millisecond_and_shares_evenly_with_classic_traffic() {
    // RFC 9332 section 2.1: p_C = p'^2 and p_L = k p', k = 2. DCTCP's window is 2/p_L = 1/p', NewReno's 1.22/p',
    // CUBIC's in its Reno-friendly region up to 1.68/p'. So the rates are as 1/1.22 to 1/1.68, times the classic RTT
    // over the other, 35 ms over 20 ms at the target: 1.04 to 1.43, less for a shorter queue. Single flows swing
    // about their steady state, and of that we grant a factor of 2 from even shares.
    for (cc, seed) in [("reno", 1), ("reno", 2), ("cubic", 1), ("cubic", 2)] {
        let [low, classic] = shares(&beside_classic(cc, Value::Name("l4s".into()), seed));
        // RFC 9331's abstract: sub-millisecond on average. Above `step`, 1 ms, every packet is marked.
        assert!(low.mean < 1.0 && low.late < 1.0, "{cc}: mean {} ms, 99 % {} ms", low.mean, low.late);
        // The mean of q - target over N updates is at most p'/(alpha N), as p' is their integral: 1 ms in 50 s for
        // p' below 1/k. And a sawtooth from the target down to an empty queue has a mean of half the target.
        assert!(classic.mean > 7.5 && classic.mean < 16.0, "{cc}: {} ms in the classic queue", classic.mean);
        let ratio = low.rate / classic.rate;
        assert!(ratio > 0.5 && ratio < 2.0, "{cc}: {} and {} bit/s", low.rate, classic.rate);
        assert!(low.rate + classic.rate > 0.9 * 40e6, "{cc}: the link is used");
    }
}

#[test]
fn dctcp_with_classic_marks_waits_and_starves_newreno_in_the_same_queue() {
    // ECT(0) goes to the classic queue: both meet p. DCTCP's window is 2/p, NewReno's sqrt(1.5/p); together they
    // fill 40 Mbit/s times 35 ms, or 117 packets. So p = 0.019, and the ratio is 12; more with Linux's α, which is 20 of
    // 1024 there, and zero where it falls below 16.
    let [dctcp, reno] = shares(&beside_classic("reno", Value::Flag(true), 1));
    let ratio = dctcp.rate / reno.rate;
    assert!(ratio > 6.0 && ratio < 24.0, "{} and {} bit/s", dctcp.rate, reno.rate);
    // It sends most while its window is large, and then the queue is long: its packets wait no less than the others.
    assert!(dctcp.mean > reno.mean - 1.0, "{} and {} ms in one queue", dctcp.mean, reno.mean);
}

/// A Prague flow with AccECN feedback and without bursts.
fn prague(name: &str) -> FlowSpec {
    let mut sender = bulk("prague", "linux");
    sender.name = name.into();
    set(&mut sender, "ecn", Value::Name("l4s".into()));
    set(&mut sender, "accecn", Value::Flag(true));
    set(&mut sender, "burst_segments", Value::Number(1.0));
    sender
}

#[test]
fn at_a_step_alpha_lies_between_single_marks_and_whole_round_trips_of_them() {
    // Single marks: 1 − α segments more a round trip and w·α/2 less make α = 2/(w + 2) (the draft's steady state). A round
    // trip in which all is marked, which cuts w by w·α/2, and as many to regrow it: α is the root of 2/w (DCTCP, Alizadeh et
    // al. 2010, section 3.3). A threshold of 1 ms is two packets to eight here: the marks of a paced flow lie in between.
    for (mbps, rtt_ms) in [(20, 40), (40, 40), (100, 30)] {
        let mut scenario = dumbbell(mbps * 1_000_000, rtt_ms * MS, None, 40, vec![prague("low")]);
        scenario.links[0].queue.discipline = "dualpi2".into();
        scenario.instruments = Instruments {
            polls: vec!["low".into()],
            internals: true,
            poll_interval_ps: 10 * MS,
            from_ps: 15 * SECOND,
            ..Instruments::default()
        };
        let tables = run(&scenario);
        let (quantity, value) = (column(&tables, "internals", "name"), column(&tables, "internals", "value"));
        let mean = |number: f64| {
            let all: Vec<f64> = quantity
                .iter()
                .zip(&value)
                .filter(|(it, _)| **it == number)
                .map(|(_, value)| *value)
                .collect();
            all.iter().sum::<f64>() / all.len() as f64
        };
        let (alpha, window) = (mean(0.0), mean(1.0));
        let bounds = 2.0 / (window + 2.0)..(2.0 / window).sqrt();
        assert!(
            bounds.contains(&alpha),
            "{mbps} Mbit/s, {rtt_ms} ms: α {alpha:.4}, w {window:.1}, {bounds:?}"
        );
        let goodput = column(&tables, "flows", "bytes_acked")[0] * 8.0 / 40.0;
        assert!(goodput > 0.9 * 1448.0 / 1500.0 * mbps as f64 * 1e6, "{goodput} bit/s");
    }
}

/// Bit/s of two Pragues over 5 and 25 ms beside a NewReno flow at one DualPI2 link, from 20 s to 60 s. The NewReno flow
/// sets the coupled probability, with which each of their packets is marked.
fn near_and_far(reference_ms: f64) -> [f64; 2] {
    let (near, far) = (prague("near"), prague("far"));
    let far = by(far, &["access", "bottleneck"], &["return"]);
    let mut flows = vec![near, far, bulk("reno", "linux")];
    for sender in &mut flows[..2] {
        let tcp = sender.tcp.as_mut().expect("tcp");
        tcp.cc_params.insert("reference_rtt".into(), Value::Number(reference_ms));
    }
    let mut scenario = dumbbell(40_000_000, 5 * MS, None, 60, flows);
    scenario.nodes.push("farther".into());
    scenario.flows[1].from = "farther".into();
    scenario.links[0].queue.discipline = "dualpi2".into();
    scenario.links.push(link("access", "farther", "left", 1_000_000_000, 20 * MS, None));
    scenario.links.push(link("back", "left", "farther", 1_000_000_000, 0, None));
    scenario.flows[1].back_route = vec!["return".into(), "back".into()];
    scenario.instruments = Instruments {
        packets: vec!["near".into(), "far".into()],
        from_ps: 20 * SECOND,
        ..Instruments::default()
    };
    let tables = run(&scenario);
    let [flow, bytes, received] =
        ["flow", "bytes", "received_s"].map(|name| column(&tables, "packets", name));
    [0.0, 1.0].map(|number| {
        let arrived = (0..flow.len()).filter(|row| flow[*row] == number && received[*row].is_finite());
        arrived.map(|row| bytes[row] * 8.0).sum::<f64>() / 40.0
    })
}

#[test]
fn pragues_of_5_and_25_ms_share_evenly_for_they_reckon_with_one_rtt() {
    // The draft's steady state holds for equal shares of marks: both rates are 2·(1 − p)/p segments in 25 ms. (At a step
    // alone the shares differ, for the farther flow hears later of the same queue.)
    let [near, far] = near_and_far(25.0);
    assert!((0.67..1.5).contains(&(near / far)), "{near} and {far} bit/s");
    // Each uses its own RTT: equal windows, and rates in the ratio 26 to 6.
    let [near, far] = near_and_far(0.0);
    assert!(near / far > 2.5, "{near} and {far} bit/s");
}

#[test]
fn under_random_marks_pragues_window_is_the_drafts_and_the_wait_for_a_mark() {
    // Coupled marks come singly, each packet's with p. A reduction by w·p/2 waits a round trip, and then 1/p packets for a
    // mark; in both each unmarked packet adds 1/w: w·p/2 = (1 − p)·(1 + 1/(w·p)). So w·p is 1 + √3 where p is small, not
    // the 2 that reductions a round trip apart give. 30 ms are more than the reference RTT.
    for seed in [1, 2] {
        let mut scenario = beside_classic("cubic", Value::Flag(true), seed);
        scenario.flows[0] = prague("low");
        for link in &mut scenario.links {
            link.delay_ps = 15 * MS;
        }
        scenario.instruments = Instruments {
            internals: true,
            polls: vec!["low".into()],
            poll_interval_ps: 10 * MS,
            from_ps: 10 * SECOND,
            ..Instruments::default()
        };
        let tables = run(&scenario);
        // The classic flow does not use ECN, so all marks are Prague's.
        let share = column(&tables, "links", "marked")[0] / column(&tables, "flows", "segments_sent")[0];
        let (name, value) = (column(&tables, "internals", "name"), column(&tables, "internals", "value"));
        let windows: Vec<f64> =
            name.iter().zip(&value).filter(|(it, _)| **it == 1.0).map(|(_, value)| *value).collect();
        let window = windows.iter().sum::<f64>() / windows.len() as f64;
        let found = window * share;
        let law = (1.0 - share) * (1.0 + (1.0 + 2.0 / (1.0 - share)).sqrt());
        assert!(
            (found / law - 1.0).abs() < 0.2,
            "w {window:.1}, p {share:.4}: {found:.2}, by the law {law:.2}"
        );
    }
}

#[test]
fn prague_without_marks_is_no_worse_a_neighbour_than_newreno() {
    // A drop-tail queue signals nothing but losses, which halve: beside NewReno half of the link, within the factor of two
    // that RFC 5348 calls reasonably fair.
    let mut other = bulk("reno", "linux");
    other.name = "other".into();
    // As even as Prague's own packets: whose come in bursts loses more of them.
    set(&mut other, "pacing", Value::Flag(true));
    set(&mut other, "burst_segments", Value::Number(1.0));
    let scenario = dumbbell(20_000_000, 40 * MS, Some(100_000), 120, vec![prague("low"), other]);
    let acked = column(&run(&scenario), "flows", "bytes_acked");
    let ratio = acked[0] / acked[1];
    assert!((0.5..2.0).contains(&ratio), "{} and {} B", acked[0], acked[1]);
}

#[test]
fn l4s_is_refused_to_senders_that_do_not_scale_their_response() {
    let complaint = |flow: FlowSpec| {
        Simulation::build(&dumbbell(10_000_000, 20 * MS, None, 1, vec![flow]))
            .err()
            .expect("refused")
            .to_string()
    };
    for cc in ["reno", "cubic", "bbr"] {
        let mut sender = bulk(cc, "linux");
        set(&mut sender, "ecn", Value::Name("l4s".into()));
        let said = complaint(sender);
        let parts = ["flows[0].tcp.cc", cc, "ecn = \"l4s\"", "RFC 9331 section 4.3", "dctcp"];
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
    let mut deaf = bulk("dctcp", "linux");
    set(&mut deaf, "ecn", Value::Name("l4s".into()));
    set(&mut deaf, "accurate_echo", Value::Flag(false));
    let said = complaint(deaf);
    assert!(said.contains("stack_params.accurate_echo") && said.contains("RFC 9331 section 4.2"), "{said}");
    let mut misspelt = bulk("dctcp", "linux");
    set(&mut misspelt, "ecn", Value::Name("ect1".into()));
    let said = complaint(misspelt);
    assert!(said.contains("stack_params.ecn") && said.contains("\"l4s\""), "{said}");
}

/// 10 Mbit/s and 40 ms to a reader of `bps` with a buffer of 64 KiB.
fn slowly_read(bps: f64, stack: &str, seconds: u64) -> Scenario {
    let mut sender = bulk("reno", stack);
    sender.app.params.insert("read_rate".into(), Value::Number(bps));
    sender.tcp.as_mut().expect("tcp").receive_buffer = Some(65_536);
    set(&mut sender, "window_share", Value::Number(100.0));
    let mut scenario = dumbbell(10_000_000, 40 * MS, Some(100_000), seconds, vec![sender]);
    scenario.instruments = Instruments { packets: vec!["bulk".into()], ..Instruments::default() };
    scenario
}

#[test]
fn a_slow_reader_is_served_at_its_rate_and_nothing_is_lost() {
    for stack in ["linux", "freebsd-9"] {
        for mbps in [0.2, 1.0, 4.0] {
            let seconds = 20;
            let tables = run(&slowly_read(mbps * 1e6, stack, seconds));
            // The bytes read plus a full buffer; the last round trip may be in flight.
            let (got, read) =
                (column(&tables, "flows", "bytes_received")[0], mbps * 1e6 / 8.0 * seconds as f64);
            let most = read + 65_536.0;
            assert!(got <= most && got >= most - 0.05 * read - 4_000.0, "{stack} {mbps}: {got} of {most}");
            assert_eq!(column(&tables, "flows", "segments_retransmitted")[0], 0.0);
            assert_eq!(column(&tables, "links", "dropped")[0], 0.0);
        }
    }
}

#[test]
fn a_reader_faster_than_the_path_changes_nothing() {
    // At twice the bottleneck's rate, less than a segment is unread whenever one arrives.
    let got = |bps| column(&run(&slowly_read(bps, "linux", 20)), "flows", "bytes_received")[0];
    assert!((got(20e6) / got(0.0) - 1.0).abs() < 0.001);
}

#[test]
fn a_closed_window_is_probed_while_a_segment_is_being_read() {
    // 4 kbit/s: a sixteenth of the buffer, which opens Linux's window, every 8.19 s. Linux asks 0.24 s, 0.5, 1, 2 and 4 after
    // the last answer, and its timers are late by up to an eighth: the fifth may come too late.
    let tables = run(&slowly_read(4_000.0, "linux", 300));
    let [bytes, sent] = ["bytes", "sent_s"].map(|name| column(&tables, "packets", name));
    // The sender's own; 65 KB take 131 s to read. Four or five in each of 160 s/8.19 s: the
    // bound was derived after 80 had been seen.
    let probes = (0..bytes.len()).filter(|&row| bytes[row] < 100.0 && sent[row] > 140.0).count();
    assert!((76..=100).contains(&probes), "{probes} probes");
    let got = column(&tables, "flows", "bytes_received")[0];
    // The bytes read plus a full buffer, minus space that has not yet reopened the window.
    let most = 65_536.0 + 300.0 * 500.0;
    assert!(got <= most && got >= most - 4_096.0 - 1_448.0, "{got} B");
}

/// Segments that arrived in the first four rounds over a link without end: the handshake takes the first of 0.1 s, and
/// what the second sends arrives in its middle.
fn started(stack: &str, division: f64, ahead: f64) -> f64 {
    started_by("reno", stack, division, ahead)
}

fn started_by(cc: &str, stack: &str, division: f64, ahead: f64) -> f64 {
    let mut sender = bulk(cc, stack);
    set(&mut sender, "delayed_ack", Value::Flag(false));
    set(&mut sender, "ack_division", Value::Number(division));
    set(&mut sender, "acks_ahead", Value::Number(ahead));
    set(&mut sender, "initial_receive_window", Value::Flag(false));
    set(&mut sender, "initial_receive_buffer", Value::Flag(false));
    let mut scenario = dumbbell(100_000_000_000, 100 * MS, None, 1, vec![sender]);
    scenario.duration_ps = 500 * MS;
    let tables = run(&scenario);
    assert_eq!(column(&tables, "flows", "packets_dropped")[0], 0.0);
    // Timestamps take twelve of 1460 bytes.
    column(&tables, "flows", "bytes_received")[0] / if stack == "ns2-sack" { 1460.0 } else { 1448.0 }
}

#[test]
fn divided_acks_gain_only_where_acks_are_counted() {
    // By segments (Linux) and by bytes (FreeBSD 9) what an ACK adds is what it acknowledges (RFC 3465 section 4.1).
    for stack in ["linux", "freebsd-9"] {
        assert_eq!(started(stack, 8.0, 0.0), started(stack, 1.0, 0.0), "{stack}");
    }
    // Linux does not grow by an ACK that ends within a segment: nor do algorithms that count calls there, as Hybla.
    for cc in ["hybla", "compound"] {
        assert_eq!(started_by(cc, "linux", 8.0, 0.0), started_by(cc, "linux", 1.0, 0.0), "{cc}");
    }
    // ns-2 adds a segment an ACK, and its sink acknowledges each: a round multiplies the window by one and the ACKs a
    // segment has. Four rounds have arrived, of 2 segments at first.
    let rounds = |growth: f64| 2.0 * (0..4).map(|round| growth.powi(round)).sum::<f64>();
    for division in [1.0, 2.0, 4.0] {
        let (found, law) = (started("ns2-sack", division, 0.0), rounds(1.0 + division));
        assert_eq!(found, law, "ACKs divided into {division}");
    }
}

#[test]
fn an_ack_of_what_was_never_sent_changes_nothing() {
    // RFC 9293 section 3.10.7.4: it is dropped. The valid one was sent before it.
    for stack in ["linux", "freebsd-9", "ns2-sack"] {
        assert_eq!(started(stack, 1.0, 1e6), started(stack, 1.0, 0.0), "{stack}");
    }
}

#[test]
fn acks_ahead_of_the_data_hide_losses_from_the_sender() {
    let received = |ahead: f64| {
        let mut sender = bulk("reno", "linux");
        set(&mut sender, "acks_ahead", Value::Number(ahead));
        let mut scenario = dumbbell(20_000_000, 40 * MS, None, 30, vec![sender]);
        scenario.links[0].wire.loss = 0.01;
        let tables = run(&scenario);
        let of = |name: &str| column(&tables, "flows", name)[0];
        (of("bytes_received"), of("bytes_acked"), entries(&tables, 0.0, 0.0).len())
    };
    let (honest, _, reductions) = received(0.0);
    let (lying, acked, unseen) = received(3.0);
    // 1.31 mss/(RTT √p) is 3.8 Mbit/s; without losses the link is full, and a hundredth is missing for ever.
    assert!(
        reductions > 30 && unseen == 0,
        "{reductions} reductions, {unseen} of a sender that learns of no loss"
    );
    assert!(
        lying > 3.0 * honest && lying > 0.93 * 20e6 / 8.0 * 30.0,
        "{lying} B, {honest} from an honest receiver"
    );
    assert!((lying / acked - 0.99).abs() < 0.002, "{lying} B arrived of {acked} acknowledged");
}

#[test]
fn a_sender_whose_marks_are_concealed_never_slows_down() {
    let run = |conceals: bool| {
        let mut sender = bulk("reno", "linux");
        set(&mut sender, "ecn", Value::Flag(true));
        set(&mut sender, "conceals_marks", Value::Flag(conceals));
        // A window of 400 segments, so that the queue does not overflow.
        sender.tcp.as_mut().unwrap().receive_buffer = Some(2 * 400 * 1448);
        let mut scenario = dumbbell(10_000_000, 40 * MS, None, 10, vec![sender]);
        scenario.links[0].queue.discipline = "codel".into();
        scenario.links[0].queue.params.insert("ecn".into(), Value::Flag(true));
        let tables = run(&scenario);
        (column(&tables, "congestion", "t_s").len(), column(&tables, "links", "marked")[0])
    };
    let ((honest, _), (concealed, marked)) = (run(false), run(true));
    assert!(honest > 5, "{honest} reductions");
    assert!(marked > 100.0 && concealed == 0, "{concealed} reductions after {marked} marks");
}
