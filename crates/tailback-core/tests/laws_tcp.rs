//! Theoretical results that entire runs must reproduce: window laws, the sawtooth, queueing delay, and a phone call.

use crate::common::{self, MS, SECOND, bulk, column, dumbbell, entries, flow, run};
use tailback_core::scenario::{Instruments, Scenario, Value};

const MSS: f64 = 1448.0;

/// Average window in segments of one Reno flow under random loss on an uncongested path.
fn window_under_loss(loss: f64, seconds: u64) -> f64 {
    let mut scenario = dumbbell(10_000_000_000, 100 * MS, None, seconds, vec![bulk("reno", "linux")]);
    scenario.links[0].wire.loss = loss;
    let tables = run(&scenario);
    column(&tables, "flows", "bytes_acked")[0] * 0.1 / MSS / seconds as f64
}

#[test]
fn reno_follows_the_inverse_root_of_the_loss_rate() {
    // Mathis et al. 1997: w = sqrt(3/2)/sqrt(p) for periodic loss with an ACK a segment. Under random loss the
    // constant lies a little above (1.31 in Ott, Kemperman and Mathis 1996): between the two, and the exponent
    // must be one half. Each point averages over a thousand losses and more.
    let points: Vec<(f64, f64)> =
        [(2e-4, 6_000), (8e-4, 3_000), (3.2e-3, 2_000)].map(|(p, s)| (p, window_under_loss(p, s))).to_vec();
    for (p, window) in &points {
        let constant = window * p.sqrt();
        assert!((1.15..1.40).contains(&constant), "p = {p}: w sqrt(p) = {constant:.3}");
    }
    let slope = (points[2].1 / points[0].1).ln() / (points[2].0 / points[0].0).ln();
    assert!((slope + 0.5).abs() < 0.025, "exponent {slope:.3}");
}

fn sawtooth(bdp_times: f64) -> (Scenario, f64, f64) {
    let limit = (100_000.0 * bdp_times) as u64;
    let mut scenario = dumbbell(10_000_000, 80 * MS, Some(limit), 120, vec![bulk("reno", "linux")]);
    scenario.instruments = Instruments {
        queue_polls: vec!["bottleneck".into()],
        poll_interval_ps: 10 * MS,
        from_ps: 20 * SECOND,
        ..Instruments::default()
    };
    // Peak window: the segments that path and queue hold. 1500-byte packets, 1.2 ms each.
    let pipe = 80.0 / 1.2;
    let peak = (pipe + limit as f64 / 1500.0).floor();
    // One segment a round trip from half the peak to the peak; a round trip lasts as long as the window takes to
    // be sent, but at least the base RTT (with one packet's transmission).
    let mut epoch = 0.0;
    let mut window = (peak / 2.0).floor();
    while window < peak + 1.0 {
        epoch += (window * 1.2).max(80.0 + 1.2) / 1e3;
        window += 1.0;
    }
    (scenario, epoch, peak)
}

#[test]
fn the_sawtooth_lasts_what_its_increase_takes() {
    for bdp_times in [0.5, 1.0, 2.0] {
        let (scenario, expected, _) = sawtooth(bdp_times);
        let tables = run(&scenario);
        // From leaving recovery to entering the next one; that entry comes a round trip after the overflow.
        let (t, kind) = (column(&tables, "congestion", "t_s"), column(&tables, "congestion", "kind"));
        let rises: Vec<f64> = (1..t.len())
            .filter(|row| kind[*row] == 0.0 && kind[row - 1] == 1.0 && t[row - 1] > 20.0)
            .map(|row| t[row] - t[row - 1])
            .collect();
        let mean = rises.iter().sum::<f64>() / rises.len() as f64;
        assert!((mean / expected - 1.0).abs() < 0.03, "{bdp_times} BDP: {mean:.3} s, theory {expected:.3} s");
    }
}

#[test]
fn with_a_queue_of_one_bdp_halving_just_empties_it_and_the_rise_is_linear() {
    let (scenario, _, _) = sawtooth(1.0);
    let tables = run(&scenario);
    let at = entries(&tables, 0.0, 20.0);
    let (t, backlog) =
        (column(&tables, "queue_polls", "t_s"), column(&tables, "queue_polls", "backlog_bytes"));
    let inside = |from: f64, until: f64| -> Vec<f64> {
        (0..t.len()).filter(|row| t[*row] >= from && t[*row] < until).map(|row| backlog[row]).collect()
    };
    // From a second after the loss (recovery over) to the next loss: mean of a linear rise in window is half way
    // between its ends, weighted by round trips that grow with the window.
    let rise = inside(at[0] + 1.0, at[1]);
    let lowest = inside(at[0], at[1]).into_iter().fold(f64::INFINITY, f64::min);
    assert!(lowest <= 3_000.0, "the queue kept {lowest} bytes");
    let middle = rise[rise.len() / 2];
    let (first, last) = (rise[0], rise[rise.len() - 1]);
    // With w growing by one a round trip of length w: w² is linear in time.
    let pipe = 100_000.0;
    let expected = (((first + pipe).powi(2) + (last + pipe).powi(2)) / 2.0).sqrt() - pipe;
    assert!((middle - expected).abs() < 4_500.0, "half way {middle}, theory {expected}");
}

#[test]
fn a_window_that_fits_the_pipe_fills_the_link_exactly() {
    // Receive window of 64 segments on a path that holds 66: no loss, throughput = window / RTT.
    let mut scenario = dumbbell(10_000_000, 80 * MS, None, 120, vec![bulk("reno", "freebsd-7")]);
    let window = 32 * 1448;
    scenario.flows[0].tcp.as_mut().unwrap().receive_buffer = Some(window);
    let tables = run(&scenario);
    assert_eq!(column(&tables, "flows", "packets_dropped")[0], 0.0);
    let goodput = column(&tables, "flows", "bytes_acked")[0] / 120.0;
    // Base RTT, the transmission of the two segments that a delayed ACK waits for, and that ACK's own.
    let expected = window as f64 / (0.080 + 2.0 * 0.0012 + 0.000_042);
    assert!((goodput / expected - 1.0).abs() < 0.01, "{goodput} B/s, window/RTT {expected}");
}

#[test]
fn the_call_waits_exactly_as_long_as_the_queue_before_it() {
    // FIFO: one-way delay = propagation + (bytes queued and in service + the packet itself) / rate.
    let call = flow("call", "voip", None);
    let mut scenario = dumbbell(10_000_000, 80 * MS, Some(100_000), 20, vec![bulk("reno", "linux"), call]);
    scenario.instruments = Instruments {
        packets: vec!["call".into(), "bulk".into()],
        queues: vec!["bottleneck".into()],
        ..Instruments::default()
    };
    let tables = run(&scenario);
    // Departures of every packet from the queue events: service begins at dequeue.
    let (event, t) = (column(&tables, "queue", "event"), column(&tables, "queue", "t_s"));
    let (of, bytes) = (column(&tables, "queue", "flow"), column(&tables, "queue", "bytes"));
    let dequeued: Vec<usize> = (0..t.len()).filter(|row| event[*row] == 1.0 && of[*row] == 1.0).collect();
    let received: Vec<f64> = {
        let (got, who) = (column(&tables, "packets", "received_s"), column(&tables, "packets", "flow"));
        (0..got.len()).filter(|row| who[*row] == 1.0 && !got[*row].is_nan()).map(|row| got[row]).collect()
    };
    assert!(received.len() > 900);
    for (row, arrived) in dequeued.iter().zip(&received) {
        let expected = t[*row] + bytes[*row] * 8.0 / 1e7 + 0.040;
        assert!((arrived - expected).abs() < 1e-11, "{arrived} {expected}");
    }
}

#[test]
fn two_reno_flows_share_evenly_and_a_longer_path_gets_less() {
    let mut scenario =
        dumbbell(10_000_000, 80 * MS, Some(100_000), 300, vec![bulk("reno", "linux"), bulk("reno", "linux")]);
    scenario.flows[1].name = "other".into();
    scenario.flows[1].start_ps = SECOND;
    scenario.randomness.processing_jitter_ps = MS;
    let share = |scenario: &Scenario| {
        let acked = column(&run(scenario), "flows", "bytes_acked");
        acked[0] / (acked[0] + acked[1])
    };
    let even = share(&scenario);
    assert!((0.40..0.60).contains(&even), "{even}");
    scenario.nodes.push("far".into());
    scenario.links.push(common::link("detour", "far", "left", 1_000_000_000, 40 * MS, None));
    scenario.links.push(common::link("detour back", "left", "far", 1_000_000_000, 40 * MS, None));
    let far = scenario.flows[0].clone();
    scenario.flows[0] = common::by(far, &["detour", "bottleneck"], &["return", "detour back"]);
    scenario.flows[0].from = "far".into();
    let uneven = share(&scenario);
    assert!(uneven < even - 0.08, "the longer path got {uneven}");
}

#[test]
fn delayed_acks_halve_renos_rise_only_where_acks_are_counted() {
    let epoch = |stack: &str, delayed: bool| {
        let mut scenario = dumbbell(10_000_000, 80 * MS, Some(100_000), 150, vec![bulk("reno", stack)]);
        if !delayed {
            let params = &mut scenario.flows[0].tcp.as_mut().unwrap().stack_params;
            params.insert("delayed_ack".into(), Value::Flag(false));
        }
        let tables = run(&scenario);
        let at = entries(&tables, 0.0, 20.0);
        assert!(at.len() > 2, "{stack} {delayed}: {:?} {:?}", entries(&tables, 0.0, 0.0), tables.tables[0]);
        (at[at.len() - 1] - at[0]) / (at.len() - 1) as f64
    };
    // tcp-machinery arithmetic: 8.1 s with one increment a round trip, 16.2 s with half.
    for (stack, ratio) in [("freebsd-7", 2.0), ("linux-2.6.25", 2.0), ("linux", 1.0)] {
        let got = epoch(stack, true) / epoch(stack, false);
        assert!((got / ratio - 1.0).abs() < 0.06, "{stack}: {got:.3}, expected {ratio}");
    }
}

#[test]
fn what_a_timeout_sent_twice_is_not_taken_for_a_loss() {
    // Without SACK, slow start overshoots a long path, the impatient timer ends the recovery, and everything is
    // sent again: the duplicate ACKs of what had arrived must not start another recovery (RFC 6582 section 3.2).
    let mut scenario = dumbbell(20_000_000, 160 * MS, Some(58_800), 60, vec![bulk("reno", "linux")]);
    scenario.flows[0].tcp.as_mut().unwrap().mtu = 588;
    let params = &mut scenario.flows[0].tcp.as_mut().unwrap().stack_params;
    for (name, value) in [
        ("sack", Value::Flag(false)),
        ("impatient", Value::Flag(true)),
        ("undo", Value::Flag(false)),
        ("tail_loss_probe", Value::Flag(false)),
        ("detection", Value::Name("duplicate-acks".into())),
        ("reduction", Value::Name("immediate".into())),
    ] {
        params.insert(name.into(), value);
    }
    let tables = run(&scenario);
    let (t, kind) = (column(&tables, "congestion", "t_s"), column(&tables, "congestion", "kind"));
    let timeout = (0..t.len()).find(|row| kind[*row] == 2.0).expect("the overshoot ends in a timeout");
    let false_ones = (timeout..t.len()).filter(|row| kind[*row] == 0.0 && t[*row] < 15.0).count();
    assert_eq!(false_ones, 0);
}

#[test]
fn a_delay_based_control_reduces_without_loss_and_a_pacing_one_never_wakes_in_the_past() {
    let cdg = run(&dumbbell(10_000_000, 80 * MS, Some(100_000), 60, vec![bulk("cdg", "linux")]));
    let kinds = column(&cdg, "congestion", "kind");
    assert_eq!(column(&cdg, "links", "dropped")[0], 0.0);
    assert!(kinds.iter().filter(|kind| **kind == 3.0).count() > 10, "reductions without loss: {kinds:?}");
    // A paced sender whose window is full has nothing due at its pacing time: the engine asserts wakes lie ahead.
    let bbr = run(&dumbbell(10_000_000, 80 * MS, Some(100_000), 60, vec![bulk("bbr", "linux")]));
    let goodput = column(&bbr, "flows", "bytes_received")[0] * 8.0 / 60.0;
    assert!(goodput > 0.9 * 1e7 * 1448.0 / 1500.0, "{goodput}");
}

#[test]
fn a_timeout_within_recovery_is_not_undone_by_an_earlier_retransmission() {
    // Linux 2.6.25 CUBIC overflows a full queue with its first retransmission; the second one's ACK comes just
    // after the timer. Its timestamp is older than the timeout's retransmission, but not than recovery's.
    let mut scenario =
        dumbbell(10_000_000, 160 * MS, Some(200_000), 120, vec![bulk("cubic", "linux-2.6.25")]);
    scenario.links[0].tick_hz = Some(1000);
    scenario.links[1].tick_hz = Some(1000);
    for start_ms in [0, 37, 91] {
        scenario.flows[0].start_ps = start_ms * MS;
        let tables = run(&scenario);
        let (t, kind) = (column(&tables, "congestion", "t_s"), column(&tables, "congestion", "kind"));
        let undone = (1..t.len()).filter(|row| kind[*row] == 4.0 && kind[row - 1] == 2.0).count();
        assert_eq!(undone, 0, "undone timeouts with a start at {start_ms} ms");
    }
}
