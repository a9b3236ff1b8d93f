//! A tunnel of IP over TCP: it loses packets only at its own queue, reorders none, and every retransmission of the
//! outer connection delays all later packets.

use crate::common::{MS, SECOND, bits, bulk, by, column, flow, link, run, tcp};
use proptest::prelude::*;
use tailback_core::engine::Simulation;
use tailback_core::probe::Tables;
use tailback_core::scenario::{
    FlowSpec, Instruments, LinkSpec, MediumSpec, Params, Period, QueueSpec, Randomness, Scenario, Value,
};

/// One direction of a tunnel, carried by the flow called `outer`.
fn tunnel(name: &str, from: &str, to: &str, outer: &str, packets: f64) -> LinkSpec {
    let params = Params::from([("limit_packets".into(), Value::Number(packets))]);
    LinkSpec {
        name: name.into(),
        from: from.into(),
        to: to.into(),
        queue: QueueSpec { discipline: "fifo".into(), params, ..Default::default() },
        medium: Some(MediumSpec {
            name: "tunnel".into(),
            params: Params::new(),
            channel: None,
            flow: Some(outer.into()),
        }),
        ..LinkSpec::default()
    }
}

/// A line with a tunnel between the same ends. Links: line, line-back, tunnel, tunnel-back; flows: the outer connection
/// and `inner`.
fn tunnelled(bps: u64, rtt_ps: u64, send_buffer: u64, packets: f64, inner: Vec<FlowSpec>) -> Scenario {
    let mut outer = by(flow("vtun", "tunnel", Some(tcp("reno", "linux"))), &["line"], &["line-back"]);
    outer.tcp.as_mut().unwrap().send_buffer = Some(send_buffer);
    let mut flows = vec![outer];
    for mut inner in inner {
        inner.route = vec!["tunnel".into()];
        inner.back_route = vec!["tunnel-back".into()];
        // By then the outer handshake is over.
        inner.start_ps = inner.start_ps.max(SECOND);
        flows.push(inner);
    }
    Scenario {
        format: 1,
        name: "tunnel".into(),
        seed: 1,
        duration_ps: 20 * SECOND,
        nodes: vec!["left".into(), "right".into()],
        links: vec![
            link("line", "left", "right", bps, rtt_ps / 2, None),
            link("line-back", "right", "left", bps, rtt_ps / 2, None),
            tunnel("tunnel", "left", "right", "vtun", packets),
            tunnel("tunnel-back", "right", "left", "vtun", packets),
        ],
        flows,
        randomness: Randomness::default(),
        instruments: Instruments::default(),
    }
}

fn app(kind: &str, params: &[(&str, f64)]) -> FlowSpec {
    let mut flow = flow(kind, kind, None);
    flow.app.params = params.iter().map(|(name, value)| (name.to_string(), Value::Number(*value))).collect();
    flow
}

fn of_link(tables: &Tables, what: &str, link: usize) -> f64 {
    column(tables, "links", what)[link]
}

fn of_flow(tables: &Tables, what: &str, flow: usize) -> f64 {
    column(tables, "flows", what)[flow]
}

#[track_caller]
fn is_conserved(tables: &Tables) {
    for link in 0..column(tables, "links", "link").len() {
        let count = |what| of_link(tables, what, link);
        let came = count("arrived") + count("duplicated");
        assert_eq!(came, count("delivered") + count("dropped") + count("resident"), "link {link}");
    }
}

#[test]
fn an_idle_tunnel_adds_its_headers() {
    let mut scenario =
        tunnelled(10_000_000, 40 * MS, 1 << 20, 50.0, vec![app("ping", &[("interval", 500.0)])]);
    scenario.instruments.echoes = vec!["ping".into()];
    let tables = run(&scenario);
    let rtts = column(&tables, "echoes", "rtt_s");
    assert!(rtts.len() > 30);
    // A ping's IP length, two bytes of frame, 52 of TCP and IP: both ways at 10 Mbit/s.
    let bytes = of_flow(&tables, "bytes_sent", 1) / of_flow(&tables, "packets_sent", 1);
    let expected = 0.040 + 2.0 * (bytes + 2.0 + 52.0) * 8.0 / 10e6;
    // At first the outer receiver acknowledges at once, and its 52 bytes leave before the reply; later it waits for it.
    let quick = expected + 52.0 * 8.0 / 10e6;
    let (first, last) = (rtts[0], rtts[rtts.len() - 2]);
    assert!((first - quick).abs() < 1e-9 && (last - expected).abs() < 1e-9, "{first} {last} {expected}");
    is_conserved(&tables);
}

#[test]
fn what_the_outer_connection_repeats_holds_up_the_rest() {
    // 1 Mbit/s of 500-byte packets every 4 ms over a line of 10 Mbit/s that loses one in fifty.
    let params = [("rate", 1e6), ("packet_bytes", 500.0)];
    let mut scenario = tunnelled(10_000_000, 40 * MS, 1 << 20, 500.0, vec![app("udp-cbr", &params)]);
    scenario.links[0].wire.loss = 0.02;
    scenario.instruments.packets = vec!["udp-cbr".into()];
    let tables = run(&scenario);
    is_conserved(&tables);
    assert!(of_flow(&tables, "segments_retransmitted", 0) > 50.0, "the line loses");
    assert_eq!(of_flow(&tables, "packets_dropped", 1), 0.0, "and the tunnel does not");
    let (sent, received) = (column(&tables, "packets", "sent_s"), column(&tables, "packets", "received_s"));
    let came: Vec<(f64, f64)> =
        sent.iter().zip(&received).filter(|(_, at)| !at.is_nan()).map(|(sent, at)| (*sent, *at)).collect();
    assert!(came.len() as f64 > 0.98 * sent.len() as f64, "all but the last arrive");
    assert!(came.windows(2).all(|pair| pair[0].1 <= pair[1].1), "nothing overtakes");
    // One-way 20 ms. A loss is learnt of one round trip after, at the soonest by the next three segments, and repeated:
    // then everything that waited comes out at once.
    let delays: Vec<f64> = came.iter().map(|(sent, at)| at - sent).collect();
    let held = delays.iter().filter(|delay| **delay > 0.055).count() as f64;
    let at_once = came.windows(2).filter(|pair| pair[0].1 == pair[1].1).count();
    assert!(held > of_flow(&tables, "segments_retransmitted", 0), "{held} packets waited for a repetition");
    assert!(at_once > 100, "{at_once} came out together with another");
    assert!(delays.iter().all(|delay| *delay >= 0.020));
}

#[test]
fn a_full_socket_fills_the_queue_and_the_queue_drops() {
    // Twice the line's capacity: 2 Mbit/s in 1,000-byte packets over 1 Mbit/s.
    let params = [("rate", 2e6), ("packet_bytes", 1000.0)];
    let buffer = 32_768;
    let mut scenario = tunnelled(1_000_000, 40 * MS, buffer, 50.0, vec![app("udp-cbr", &params)]);
    scenario.instruments.packets = vec!["udp-cbr".into()];
    let tables = run(&scenario);
    is_conserved(&tables);
    let count = |what| of_link(&tables, what, 2);
    // All drops occur at the tunnel's queue, none on the line below.
    assert_eq!([0, 1, 3].map(|link| of_link(&tables, "dropped", link)), [0.0; 3]);
    assert_eq!(count("dropped"), of_flow(&tables, "packets_dropped", 1));
    // Goodput: of 1,500 bytes on the line 1,448 are stream, of 1,002 in the stream 1,000 are packet. The segments are
    // not all full, as the socket is written to frame by frame.
    let span = 19.0 - 50.0 * 1002.0 * 8.0 / 1e6;
    let most = 1e6 * 1448.0 / 1500.0 * 1000.0 / 1002.0;
    let rate = count("delivered_bytes") * 8.0 / span;
    assert!(rate < 1.05 * most && rate > 0.90 * most, "{rate} {most}");
    assert!(count("busy_s") > 17.0, "the process waited for the socket {} s", count("busy_s"));
    // Queue, the packet in hand, and what the send buffer holds; then the line. Nothing waits longer.
    let waiting = 51.0 * 1002.0 + buffer as f64;
    let longest = waiting * 8.0 / (1e6 * 0.90 * 1448.0 / 1500.0) + 0.040;
    let delays: Vec<f64> = column(&tables, "packets", "received_s")
        .iter()
        .zip(column(&tables, "packets", "sent_s"))
        .map(|(at, sent)| at - sent)
        .filter(|delay| !delay.is_nan())
        .collect();
    let found = delays.iter().fold(0.0, |most: f64, delay| most.max(*delay));
    assert!(found < longest && found > 0.75 * longest, "{found} {longest}");
}

#[test]
fn a_connection_inside_fills_the_tunnel_and_backs_off_at_its_queue() {
    let mut inner = bulk("cubic", "linux");
    inner.tcp.as_mut().unwrap().mtu = 1450;
    let mut scenario = tunnelled(2_000_000, 50 * MS, 65_536, 50.0, vec![inner]);
    scenario.duration_ps = 60 * SECOND;
    let tables = run(&scenario);
    is_conserved(&tables);
    // Inner losses occur at the tunnel's queue, and the line loses nothing.
    assert!(of_link(&tables, "dropped", 2) > 0.0);
    assert_eq!(of_flow(&tables, "segments_retransmitted", 0), 0.0);
    assert!(of_flow(&tables, "recoveries", 1) > 0.0);
    let goodput = of_flow(&tables, "bytes_acked", 1) * 8.0 / 59.0;
    let most = 2e6 * 1448.0 / 1500.0 * (1450.0 - 52.0) / 1452.0;
    assert!(goodput > 0.85 * most && goodput < most, "{goodput} {most}");
}

#[test]
fn a_tunnel_that_stops_keeps_what_waits_and_goes_on_later() {
    let params = [("rate", 160e3), ("packet_bytes", 200.0)];
    let mut scenario = tunnelled(10_000_000, 40 * MS, 1 << 20, 50.0, vec![app("udp-cbr", &params)]);
    let outer = &mut scenario.flows[0];
    outer.stop_ps = Some(5 * SECOND);
    outer.again = vec![Period { start_ps: 10 * SECOND, stop_ps: None }];
    scenario.instruments.packets = vec!["udp-cbr".into()];
    let tables = run(&scenario);
    is_conserved(&tables);
    assert_eq!(of_flow(&tables, "connections", 0), 2.0);
    // 500 packets arrive without a connection; fifty of them wait in the queue.
    let dropped = of_link(&tables, "dropped", 2);
    assert!((440.0..=460.0).contains(&dropped), "{dropped}");
    let received = column(&tables, "packets", "received_s");
    assert!(!received.iter().any(|at| *at > 5.1 && *at < 10.0));
    let after = received.iter().filter(|at| **at >= 10.0).count();
    // Those fifty, and a thousand less those that came during the handshake or are under way at the end.
    assert!((1042..=1046).contains(&after), "{after}");
}

#[test]
fn a_tunnel_within_a_tunnel_adds_both_headers() {
    let mut scenario =
        tunnelled(10_000_000, 40 * MS, 1 << 20, 50.0, vec![app("ping", &[("interval", 500.0)])]);
    let mut second = flow("second", "tunnel", Some(tcp("reno", "linux")));
    second.route = vec!["tunnel".into()];
    second.back_route = vec!["tunnel-back".into()];
    second.start_ps = SECOND / 2;
    scenario.flows.push(second);
    scenario.links.push(tunnel("inmost", "left", "right", "second", 50.0));
    scenario.links.push(tunnel("inmost-back", "right", "left", "second", 50.0));
    scenario.flows[1].route = vec!["inmost".into()];
    scenario.flows[1].back_route = vec!["inmost-back".into()];
    scenario.flows[1].start_ps = 2 * SECOND;
    scenario.instruments.echoes = vec!["ping".into()];
    let tables = run(&scenario);
    is_conserved(&tables);
    let bytes = of_flow(&tables, "bytes_sent", 1) / of_flow(&tables, "packets_sent", 1);
    let expected = 0.040 + 2.0 * (bytes + 2.0 * (2.0 + 52.0)) * 8.0 / 10e6;
    let rtts = column(&tables, "echoes", "rtt_s");
    assert!(rtts.len() > 30);
    // An acknowledgement of the middle connection may be in the way.
    for rtt in rtts.iter().filter(|rtt| !rtt.is_nan()) {
        assert!((0.0..0.0003).contains(&(rtt - expected + 1e-9)), "{rtt} {expected}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let scenario = |seed| {
        let ping = app("ping", &[("interval", 20.0)]);
        let mut scenario = tunnelled(2_000_000, 50 * MS, 65_536, 50.0, vec![bulk("cubic", "linux"), ping]);
        (scenario.links[0].wire.loss, scenario.seed) = (0.01, seed);
        scenario.instruments.packets = vec!["bulk".into()];
        scenario.instruments.queues = vec!["tunnel".into()];
        scenario
    };
    let first = bits(&run(&scenario(1)));
    assert_eq!(first, bits(&run(&scenario(1))));
    assert_ne!(first, bits(&run(&scenario(2))));
}

#[test]
fn what_cannot_be_a_tunnel_is_refused_by_field() {
    type Change = fn(&mut Scenario);
    let cases: [(&str, Change); 9] = [
        ("links[2].medium.flow", |s| s.links[2].medium.as_mut().unwrap().flow = None),
        ("links[2].medium.flow", |s| s.links[2].medium.as_mut().unwrap().flow = Some("missing".into())),
        ("links[2].medium.flow", |s| s.links[2].medium.as_mut().unwrap().flow = Some("bulk".into())),
        ("links[3].medium.flow", |s| {
            (s.links[3].from, s.links[3].to) = ("left".into(), "right".into());
            s.flows[1].back_route = vec!["line-back".into()];
        }),
        ("links[2].medium.channel", |s| s.links[2].medium.as_mut().unwrap().channel = Some("air".into())),
        ("links[2].rate_bps", |s| s.links[2].rate_bps = Some(1_000_000)),
        ("links[0].medium.flow", |s| {
            s.links[0].rate_bps = None;
            s.links[0].medium = s.links[2].medium.clone().map(|it| MediumSpec { name: "adsl".into(), ..it });
        }),
        ("flows[0].app.kind", |s| {
            s.links.truncate(2);
            s.flows[1] = by(s.flows[1].clone(), &["line"], &["line-back"]);
        }),
        ("flows[0].route", |s| s.flows[0].route = vec!["tunnel".into()]),
    ];
    for (number, (field, change)) in cases.into_iter().enumerate() {
        let mut scenario = tunnelled(2_000_000, 50 * MS, 65_536, 50.0, vec![bulk("cubic", "linux")]);
        change(&mut scenario);
        let error = Simulation::build(&scenario).err().unwrap_or_else(|| panic!("case {number} was let in"));
        assert_eq!(error.field, field, "case {number}: {error}");
    }
    // A link that does not connect the tunnel's ends.
    let mut scenario = tunnelled(2_000_000, 50 * MS, 65_536, 50.0, vec![bulk("cubic", "linux")]);
    scenario.nodes.push("elsewhere".into());
    scenario.links[3].from = "elsewhere".into();
    scenario.flows[1].back_route = vec!["line-back".into()];
    assert_eq!(Simulation::build(&scenario).err().unwrap().field, "links[3].medium.flow");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn nothing_is_lost_or_overtaken_inside(
        seed in 0u64..1000,
        loss in 0.0f64..0.05,
        buffer in 2_000u64..100_000,
        packets in 1u32..60,
        bytes in 40u32..1400,
    ) {
        let params = [("rate", 2.2e6), ("packet_bytes", f64::from(bytes))];
        let mut scenario = tunnelled(2_000_000, 30 * MS, buffer, packets.into(), vec![app("udp-cbr", &params)]);
        scenario.seed = seed;
        // After the last packet there is time for every repetition.
        scenario.flows[1].stop_ps = Some(3 * SECOND / 2);
        for at in 0..2 {
            (scenario.links[at].wire.loss, scenario.links[at].wire.duplicate) = (loss, loss);
        }
        scenario.duration_ps = 60 * SECOND;
        scenario.instruments.packets = vec!["udp-cbr".into()];
        let tables = run(&scenario);
        is_conserved(&tables);
        prop_assert_eq!(of_link(&tables, "resident", 2), 0.0);
        let received = column(&tables, "packets", "received_s");
        let came: Vec<f64> = received.into_iter().filter(|at| !at.is_nan()).collect();
        prop_assert!(came.windows(2).all(|pair| pair[0] <= pair[1]));
        prop_assert_eq!(came.len() as f64, of_link(&tables, "arrived", 2) - of_link(&tables, "dropped", 2));
    }
}
