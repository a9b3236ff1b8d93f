//! Media flows. NADA converges to its equations' equilibrium, shares accordingly, and follows rate changes. GCC fills
//! the link with the queue that its detector allows, coexists with CUBIC, and follows a step down. SCReAM queues up to
//! its target.

use crate::common::{MS, SECOND, column, dumbbell, flow, run, tcp};
use tailback_core::probe::Tables;
use tailback_core::scenario::{FlowSpec, Params, Scenario, StepSpec, Value};

fn of_kind(kind: &str, name: &str, params: &[(&str, f64)]) -> FlowSpec {
    let mut flow = flow(name, kind, None);
    flow.app.params = params.iter().map(|(key, value)| (key.to_string(), Value::Number(*value))).collect();
    flow
}

fn media(name: &str, params: &[(&str, f64)]) -> FlowSpec {
    of_kind("media", name, params)
}

fn gcc(name: &str, params: &[(&str, f64)]) -> FlowSpec {
    of_kind("media-gcc", name, params)
}

fn scream(name: &str, params: &[(&str, f64)]) -> FlowSpec {
    of_kind("media-scream", name, params)
}

/// Media flows over an RTT of 100 ms and a queue of 300 ms.
fn path(bps: u64, seconds: u64, flows: Vec<FlowSpec>) -> Scenario {
    let mut scenario = dumbbell(bps, 100 * MS, Some(bps * 3 / 80), seconds, flows);
    scenario.instruments.packets = scenario.flows.iter().map(|flow| flow.name.clone()).collect();
    scenario
}

/// Size, send time and delay of a flow's packets that were sent in this window and arrived.
fn packets(tables: &Tables, flow: usize, window: (f64, f64)) -> Vec<(f64, f64, f64)> {
    let of = |name| column(tables, "packets", name);
    let (flows, bytes, sent, received) = (of("flow"), of("bytes"), of("sent_s"), of("received_s"));
    let rows = (0..flows.len()).filter(|row| flows[*row] == flow as f64 && !received[*row].is_nan());
    rows.map(|row| (bytes[row], sent[row], received[row] - sent[row]))
        .filter(|(_, sent, _)| window.0 <= *sent && *sent < window.1)
        .collect()
}

fn rate_mbps(tables: &Tables, flow: usize, window: (f64, f64)) -> f64 {
    let bytes: f64 = packets(tables, flow, window).iter().map(|(bytes, _, _)| bytes).sum();
    8e-6 * bytes / (window.1 - window.0)
}

/// Mean of the minimum queueing delay over 15 packets, as the receiver reports it.
fn queueing_ms(tables: &Tables, flow: usize, window: (f64, f64)) -> f64 {
    let all = packets(tables, flow, (0.0, f64::INFINITY));
    let base = all.iter().map(|(_, _, delay)| *delay).fold(f64::INFINITY, f64::min);
    let delays: Vec<f64> = packets(tables, flow, window).iter().map(|(_, _, delay)| delay - base).collect();
    let least: Vec<f64> =
        delays.windows(15).map(|some| some.iter().copied().fold(f64::INFINITY, f64::min)).collect();
    1e3 * least.iter().sum::<f64>() / least.len() as f64
}

#[track_caller]
fn assert_near(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{found}, expected {expected} ± {tolerance}");
}

#[test]
fn alone_it_rests_where_the_signal_is_its_weight_of_the_rate() {
    // x = PRIO·XREF·RMAX/r, and r is the link's rate: 15 ms at 1 Mbit/s, 10 ms at 1.5, twice that of priority 2.
    for (mbps, priority, expected) in [(1.0, 1.0, 15.0), (0.6, 1.0, 25.0), (1.0, 2.0, 30.0)] {
        let tables = run(&path((1e6 * mbps) as u64, 90, vec![media("media", &[("priority", priority)])]));
        let window = (40.0, 88.0);
        assert_near(rate_mbps(&tables, 0, window) / mbps, 1.0, 0.02);
        assert_near(queueing_ms(&tables, 0, window), expected, 0.1 * expected);
        assert_eq!(column(&tables, "flows", "packets_dropped")[0], 0.0);
    }
}

#[test]
fn it_stays_between_its_rates() {
    let tables = run(&path(10_000_000, 60, vec![media("media", &[])]));
    assert_near(rate_mbps(&tables, 0, (30.0, 58.0)), 1.5, 0.01);
    // The way up multiplies what arrives by 1 + 50/(100 + 220): a factor of ten takes 16 reports and some more for the
    // 500 ms over which arrivals are averaged.
    assert!(rate_mbps(&tables, 0, (10.0, 12.0)) > 1.49);
    let starved = run(&path(100_000, 60, vec![media("media", &[])]));
    let sent: f64 = column(&starved, "packets", "bytes").iter().sum();
    assert_near(8e-6 * sent / 60.0, 0.15, 0.002);
    let most = column(&tables, "packets", "bytes").into_iter().fold(0.0, f64::max);
    assert!(most <= 1200.0 && most > 1000.0, "{most}");
}

#[test]
fn two_share_equally_and_by_their_priorities() {
    for (second, expected) in [(1.0, 1.0), (2.0, 2.0)] {
        let flows = vec![media("one", &[]), media("two", &[("priority", second)])];
        let tables = run(&path(1_800_000, 120, flows));
        let [one, two] = [0, 1].map(|flow| rate_mbps(&tables, flow, (60.0, 118.0)));
        assert_near(one + two, 1.8, 0.04);
        assert_near(two / one / expected, 1.0, 0.1);
    }
}

/// With ε = r/C − 1 and the queue q, equations 5 to 7 are linearly ε″ + (κη/τ + κq₀/τ²)·ε′ + κ/τ²·ε = 0. That is within
/// 2 % of rest after 4/(ζω) = 8/(κη/τ + κq₀/τ²) = 3.9 s, of which reports every 100 ms and a round trip know nothing.
/// RFC 8698 states no time; twice this one is asked here.
#[test]
fn a_step_down_is_followed_within_twice_the_time_of_its_equations() {
    let mut scenario = path(1_200_000, 60, vec![media("media", &[])]);
    scenario.links[0].schedule =
        vec![StepSpec { at_ps: 30 * SECOND, rate_bps: Some(800_000), delay_ps: None, loss: None }];
    let tables = run(&scenario);
    assert_near(rate_mbps(&tables, 0, (20.0, 30.0)), 1.2, 0.03);
    assert_near(rate_mbps(&tables, 0, (37.8, 47.8)), 0.8, 0.03);
    let settled = packets(&tables, 0, (37.8, 47.8));
    let most = settled.iter().map(|(_, _, delay)| *delay).fold(0.0, f64::max);
    // At rest it waits 19 ms; twice that, 50 ms of path and 12 ms for a packet itself.
    assert!(most < 0.100, "{most}");
}

/// A third of all packets is lost until the flow has adapted. The fading loss penalty must not drive the rate up again.
#[test]
fn a_deep_step_down_ends_in_rest_and_not_in_swings() {
    let mut scenario = path(2_500_000, 90, vec![media("media", &[])]);
    scenario.links[0].schedule =
        vec![StepSpec { at_ps: 30 * SECOND, rate_bps: Some(600_000), delay_ps: None, loss: None }];
    let tables = run(&scenario);
    for begin in [60.0, 65.0, 70.0, 75.0, 80.0] {
        assert_near(rate_mbps(&tables, 0, (begin, begin + 5.0)), 0.6, 0.03);
    }
    assert_near(queueing_ms(&tables, 0, (60.0, 85.0)), 25.0, 2.5);
}

#[test]
fn regular_losses_hold_it_at_their_price() {
    // DLOSS·(p/PLRREF)² = XREF·RMAX/r: at 2 % a quarter of the largest rate, with enough packets in 500 ms that some are lost.
    let mut scenario = path(100_000_000, 60, vec![media("media", &[("max_rate", 15e6)])]);
    scenario.links[0].wire.loss_every = 50;
    let tables = run(&scenario);
    assert_near(rate_mbps(&tables, 0, (20.0, 58.0)) / 0.98, 3.75, 0.375);
}

#[test]
fn where_it_may_be_marked_it_is_not_dropped() {
    let dropped_and_marked = |flows: &[FlowSpec], ecn: bool| {
        let mut scenario = path(1_000_000, 60, flows.to_vec());
        for flow in &mut scenario.flows {
            flow.app.params.insert("ecn".into(), Value::Flag(ecn));
        }
        scenario.links[0].queue.discipline = "codel".into();
        scenario.links[0].queue.params = Params::from([("ecn".into(), Value::Flag(true))]);
        let tables = run(&scenario);
        ["dropped", "marked"].map(|name| column(&tables, "links", name)[0])
    };
    let nada = vec![media("media", &[]), media("other", &[("priority", 8.0)])];
    for flows in [nada, vec![scream("media", &[("max_rate", 1e7)])]] {
        let [dropped, marked] = dropped_and_marked(&flows, false);
        assert!(dropped > 10.0 && marked == 0.0, "{dropped} {marked}");
        let [dropped, marked] = dropped_and_marked(&flows, true);
        assert!(dropped == 0.0 && marked > 10.0, "{dropped} {marked}");
    }
}

#[test]
fn a_pause_silences_it_and_it_begins_again() {
    let mut flow = media("media", &[]);
    flow.stop_ps = Some(20 * SECOND);
    flow.again = vec![tailback_core::scenario::Period { start_ps: 40 * SECOND, stop_ps: None }];
    let tables = run(&path(1_000_000, 60, vec![flow]));
    assert_eq!(packets(&tables, 0, (20.0, 40.0)).len(), 0);
    assert_near(rate_mbps(&tables, 0, (40.0, 41.0)), 0.16, 0.05);
    assert_near(rate_mbps(&tables, 0, (50.0, 58.0)), 1.0, 0.03);
}

#[test]
fn on_bad_wires_the_same_seed_gives_the_same_rows_and_another_seed_others() {
    for kind in ["media", "media-gcc", "media-scream"] {
        let run_with = |seed: u64| {
            let flows = ["one", "two"].map(|name| of_kind(kind, name, &[])).to_vec();
            let mut scenario = path(2_000_000, 30, flows);
            scenario.seed = seed;
            for link in &mut scenario.links {
                (link.wire.loss, link.wire.duplicate, link.wire.reorder) = (0.02, 0.05, 0.05);
                link.wire.reorder_delay_ps = 20 * MS;
            }
            let sent: Vec<u64> =
                column(&run(&scenario), "packets", "sent_s").into_iter().map(f64::to_bits).collect();
            assert!(sent.len() > 600, "{kind}");
            sent
        };
        assert_eq!(run_with(1), run_with(1), "{kind}");
        assert_ne!(run_with(1), run_with(2), "{kind}");
    }
}

#[test]
fn rates_the_wrong_way_round_are_refused() {
    let mut scenario = path(1_000_000, 1, vec![media("media", &[("min_rate", 2e6)])]);
    let error = tailback_core::engine::Simulation::build(&scenario).err().expect("it is refused").to_string();
    assert!(error.contains("min_rate") && error.contains("above max_rate"), "{error}");
    scenario.flows[0].app.params = Params::from([("fps".into(), Value::Number(0.0))]);
    assert!(tailback_core::engine::Simulation::build(&scenario).is_err());
}

/// Mean queueing delay over all packets.
fn mean_queueing_ms(tables: &Tables, flow: usize, window: (f64, f64)) -> f64 {
    let all = packets(tables, flow, (0.0, f64::INFINITY));
    let base = all.iter().map(|(_, _, delay)| *delay).fold(f64::INFINITY, f64::min);
    let delays: Vec<f64> = packets(tables, flow, window).iter().map(|(_, _, delay)| delay - base).collect();
    1e3 * delays.iter().sum::<f64>() / delays.len() as f64
}

/// Near the link's rate C the rate grows by a = half a packet in 100 ms + RTT, a second. The trend reaches the first
/// threshold of 12.5 ms at a slope of s = 12.5/240, when the rate is s·C above the link's, and s²·C/2a of delay have come
/// together. The threshold adapts and the queue drains after each overuse: the mean stays below that peak.
#[test]
fn by_gcc_it_fills_the_link_and_queues_less_than_the_first_threshold_allows() {
    for mbps in [1.0, 2.0, 4.0] {
        let tables = run(&path((1e6 * mbps) as u64, 120, vec![gcc("media", &[("max_rate", 1e7)])]));
        let window = (60.0, 118.0);
        let share = rate_mbps(&tables, 0, window) / mbps;
        assert!((0.70..=1.0).contains(&share), "{share} of {mbps} Mbit/s");
        let frame = 1e6 * mbps / 30.0;
        let growth = 0.5 * frame / (frame / 9600.0).ceil() / 0.2;
        let slope = 12.5 / 240.0;
        let peak_ms = 1e3 * slope * slope * 1e6 * mbps / (2.0 * growth);
        let mean_ms = mean_queueing_ms(&tables, 0, window);
        assert!(mean_ms <= peak_ms, "{mean_ms} ms at {mbps} Mbit/s, expected at most {peak_ms}");
        assert_eq!(column(&tables, "flows", "packets_dropped")[0], 0.0);
    }
}

/// The draft: a small static threshold lets a TCP flow starve the media, an adaptive one does not. The first run had a
/// static one of 12.5 ms, which kept 0.24 Mbit/s; the bands are as they were, the threshold is the smallest there is.
#[test]
fn by_gcc_it_lives_beside_cubic_where_a_fixed_threshold_starves() {
    let rate = |params: &[(&str, f64)]| {
        let mut media = gcc("media", params);
        media.start_ps = 5 * SECOND;
        let cubic = flow("cubic", "bulk", Some(tcp("cubic", "linux")));
        rate_mbps(&run(&path(2_000_000, 120, vec![media, cubic])), 0, (60.0, 118.0))
    };
    let adaptive = rate(&[]);
    let fixed = rate(&[("k_up", 0.0), ("k_down", 0.0), ("threshold", 6.0)]);
    // Alive: a quarter of its fair share of 1 Mbit/s. Starved: its smallest rate, 0.15, and little more.
    assert!(adaptive >= 0.25, "{adaptive}");
    assert!(fixed <= 0.2, "{fixed}");
}

/// A full queue has no trend, and losses below a tenth lower no rate: with room to grow it holds the link, not its share.
/// Seen in a run after the bands above; the guide says so.
#[test]
fn by_gcc_without_a_largest_rate_it_may_take_the_whole_link() {
    let mut media = gcc("media", &[("max_rate", 2e7)]);
    media.start_ps = 5 * SECOND;
    let cubic = flow("cubic", "bulk", Some(tcp("cubic", "linux")));
    let tables = run(&path(2_000_000, 180, vec![media, cubic]));
    assert!(rate_mbps(&tables, 0, (120.0, 178.0)) > 1.9);
}

/// libwebrtc's threshold falls within milliseconds to the smallest one, and so does its share.
#[test]
fn by_gcc_with_the_gains_of_libwebrtc_it_starves_beside_cubic() {
    let mut media = gcc("media", &[]);
    media.start_ps = 5 * SECOND;
    media.app.params.insert("variant".into(), Value::Name("libwebrtc".into()));
    let cubic = flow("cubic", "bulk", Some(tcp("cubic", "linux")));
    let rate = rate_mbps(&run(&path(2_000_000, 120, vec![media, cubic])), 0, (60.0, 118.0));
    assert!(rate <= 0.2, "{rate}");
}

/// The suite `rmcat` asks for nine tenths of what there is, 8 s after a step.
#[test]
fn by_gcc_a_step_from_2500_to_1000_kbit_is_followed_within_8_s() {
    let mut scenario = path(2_500_000, 90, vec![gcc("media", &[("max_rate", 1e7)])]);
    scenario.links[0].schedule =
        vec![StepSpec { at_ps: 60 * SECOND, rate_bps: Some(1_000_000), delay_ps: None, loss: None }];
    let tables = run(&scenario);
    let after = rate_mbps(&tables, 0, (68.0, 88.0));
    assert!((0.9..=1.0).contains(&after), "{after}");
}

#[test]
fn by_gcc_it_stays_between_its_rates_and_begins_at_its_first() {
    let mut media = gcc("media", &[]);
    media.app.params.insert("probes".into(), Value::Flag(false));
    let tables = run(&path(10_000_000, 60, vec![media]));
    assert_near(rate_mbps(&tables, 0, (0.0, 0.5)), 0.3, 0.02);
    // 8 % a second from 0.3 to 1.5 Mbit/s takes 20.9 s.
    assert!(rate_mbps(&tables, 0, (19.0, 20.0)) < 1.45);
    assert_near(rate_mbps(&tables, 0, (30.0, 58.0)), 1.5, 0.01);
    let starved = run(&path(100_000, 60, vec![gcc("media", &[])]));
    let sent: f64 = column(&starved, "packets", "bytes").iter().sum();
    assert_near(8e-6 * sent / 60.0, 0.15, 0.01);
}

/// libwebrtc's first probes have 900 and 1800 kbit/s: a path of less is found within a second, to 0.95 of what arrives, and
/// faster ones by twice as much each time. The band of the overuse that the probes' own queue may cause is a decrease: 0.85.
#[test]
fn by_gcc_probes_find_the_path_within_seconds() {
    for (mbps, window) in [(1.0, (1.0, 3.0)), (2.0, (1.5, 3.5)), (5.0, (2.0, 4.0))] {
        let tables = run(&path((1e6 * mbps) as u64, 10, vec![gcc("media", &[("max_rate", 1e7)])]));
        let share = rate_mbps(&tables, 0, window) / mbps;
        assert!((0.8 * 0.85..=1.0).contains(&share), "{share} of {mbps} Mbit/s");
    }
    // Nothing is probed beyond the largest rate: 1.5 Mbit/s.
    let tables = run(&path(10_000_000, 10, vec![gcc("media", &[])]));
    assert_near(rate_mbps(&tables, 0, (1.0, 9.0)), 1.5, 0.03);
    let streams = column(&tables, "packets", "stream");
    // 900 and 1500 kbit/s for 15 ms, less what the frames give.
    let padding = streams.iter().filter(|stream| **stream == 1.0).count();
    assert!((8..=18).contains(&padding), "{padding}");
}

/// Without the compensation for competing flows, whose false alarms RFC 8298 section 4.1.2.3 describes.
fn plain_scream(name: &str, params: &[(&str, f64)]) -> FlowSpec {
    let mut flow = scream(name, params);
    flow.app.params.insert("compensation".into(), Value::Flag(false));
    flow
}

/// RFC 8298: the window rests where the queueing delay is its target. The encoder falls by a twentieth when 20 ms wait at the
/// sender, and the queue drains by as much of the link meanwhile. On average it is below the target, above two fifths of it.
#[test]
fn by_scream_alone_it_has_its_share_and_queues_for_its_target() {
    for (mbps, target) in [(1.0, 100.0), (2.0, 100.0), (4.0, 100.0), (2.0, 50.0)] {
        let flow = plain_scream("media", &[("max_rate", 1e7), ("target", target)]);
        let tables = run(&path((1e6 * mbps) as u64, 120, vec![flow]));
        let window = (60.0, 118.0);
        let share = rate_mbps(&tables, 0, window) / mbps;
        assert!((0.85..=1.0).contains(&share), "{share} of {mbps} Mbit/s");
        let mean = mean_queueing_ms(&tables, 0, window) / target;
        assert!((0.4..=1.1).contains(&mean), "{mean} of {target} ms at {mbps} Mbit/s");
        assert_eq!(column(&tables, "flows", "packets_dropped")[0], 0.0);
    }
}

/// RFC 8298 section 4.1.2.3: without the compensation it may have nearly nothing beside a flow that fills the queue.
#[test]
fn by_scream_compensation_keeps_it_alive_beside_cubic() {
    let rate = |mut media: FlowSpec| {
        media.start_ps = 5 * SECOND;
        let cubic = flow("cubic", "bulk", Some(tcp("cubic", "linux")));
        rate_mbps(&run(&path(2_000_000, 120, vec![media, cubic])), 0, (60.0, 118.0))
    };
    let (with, without) = (rate(scream("media", &[])), rate(plain_scream("media", &[])));
    // A quarter of its fair share of 1 Mbit/s, as GCC's.
    assert!(with >= 0.25, "{with}");
    assert!(without < with, "{without}, with compensation {with}");
}

#[test]
fn by_scream_a_step_down_is_followed_within_8_s() {
    let mut scenario = path(2_500_000, 90, vec![plain_scream("media", &[("max_rate", 1e7)])]);
    scenario.links[0].schedule =
        vec![StepSpec { at_ps: 60 * SECOND, rate_bps: Some(1_000_000), delay_ps: None, loss: None }];
    let tables = run(&scenario);
    let after = rate_mbps(&tables, 0, (68.0, 88.0));
    assert!((0.85..=1.0).contains(&after), "{after}");
}

#[test]
fn by_scream_it_stays_between_its_rates_and_ramps_up_by_half_of_itself_a_second() {
    let tables = run(&path(10_000_000, 60, vec![scream("media", &[])]));
    // From 0.15 Mbit/s a tenth of itself each 200 ms up to 0.4, then 0.2 Mbit/s a second: 1.5 after 7.5 s.
    assert_near(rate_mbps(&tables, 0, (0.0, 0.2)), 0.15, 0.02);
    assert_near(rate_mbps(&tables, 0, (2.0, 3.0)), 0.5, 0.1);
    assert_near(rate_mbps(&tables, 0, (10.0, 58.0)), 1.5, 0.02);
    let starved = run(&path(100_000, 60, vec![scream("media", &[])]));
    // What the path cannot carry is discarded at the sender instead of being sent.
    assert!(rate_mbps(&starved, 0, (20.0, 58.0)) <= 0.101);
}

#[test]
fn by_scream_an_outage_ends_in_its_old_rate_and_a_pause_in_its_first() {
    let mut scenario = path(1_000_000, 60, vec![plain_scream("media", &[])]);
    scenario.links[0].schedule = vec![
        StepSpec { at_ps: 20 * SECOND, rate_bps: Some(0), delay_ps: None, loss: None },
        StepSpec { at_ps: 25 * SECOND, rate_bps: Some(1_000_000), delay_ps: None, loss: None },
    ];
    assert!(rate_mbps(&run(&scenario), 0, (40.0, 58.0)) >= 0.85);
    let mut flow = plain_scream("media", &[]);
    flow.stop_ps = Some(20 * SECOND);
    flow.again = vec![tailback_core::scenario::Period { start_ps: 40 * SECOND, stop_ps: None }];
    let tables = run(&path(1_000_000, 60, vec![flow]));
    assert_eq!(packets(&tables, 0, (20.0, 40.0)).len(), 0);
    assert_near(rate_mbps(&tables, 0, (40.0, 40.2)), 0.15, 0.05);
    assert!(rate_mbps(&tables, 0, (50.0, 58.0)) >= 0.85);
}
