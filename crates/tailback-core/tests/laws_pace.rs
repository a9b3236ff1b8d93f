//! Laws of links whose pace varies, and of media of one station: steps, traces, cells and blocks must give what theory
//! or the source's arithmetic says.

use crate::common::media::{Notebook, arrivals, back_to_back, build, link, medium, number, packet};
use tailback_core::link::Link;
use tailback_core::queue::Fate;
use tailback_core::scenario::{LinkSpec, Params, QueueSpec, StepSpec, TraceSpec, Value, WireSpec};
use tailback_core::time::{Duration, Time};

// -------------------------------------------------------------------------------- rates, delays, traces

#[test]
fn a_step_slows_the_rest_of_a_packet() {
    let step = |ms, rate_bps, delay_ps| StepSpec {
        at_ps: Time::from_ms(ms).as_ps(),
        rate_bps,
        delay_ps,
        loss: None,
    };
    let mut spec = LinkSpec { rate_bps: Some(12_000_000), ..link(None) };
    spec.schedule =
        vec![step(2, Some(6_000_000), None), step(10, Some(0), None), step(20, Some(12_000_000), None)];
    // 1500 bytes take 1 ms, and 2 ms from 2 ms on; of the one begun at 1.5 ms half is sent slowly. The outage from
    // 10 to 20 ms falls into the one begun at 8.5 + 0.5 = 9 ms.
    let got = arrivals(&spec, &[(Time::from_us(1500), 1500), (Time::from_ms(9), 1500)]);
    assert_eq!(got, [Time::from_us(3000), Time::from_us(20_500)]);
    spec.schedule = vec![step(1, Some(0), None)];
    // A permanent outage keeps the packet that it interrupted.
    let mut stuck = build(&spec);
    let (mut book, mut fate) = (Notebook::default(), Fate::default());
    stuck.push(packet(0, 1500), Time::from_ms(2), &mut fate, &mut book);
    assert_eq!((stuck.next_wake(), stuck.resident().packets), (Time::NEVER, 1));
}

#[test]
fn a_path_that_shortens_does_not_reorder() {
    let mut spec = LinkSpec { rate_bps: Some(12_000_000), delay_ps: Time::from_ms(50).as_ps(), ..link(None) };
    spec.schedule = vec![StepSpec {
        at_ps: Time::from_us(2500).as_ps(),
        rate_bps: None,
        delay_ps: Some(Time::from_ms(10).as_ps()),
        loss: None,
    }];
    let got = arrivals(&spec, &back_to_back(3, 1500));
    assert_eq!(got, [Time::from_ms(51), Time::from_ms(52), Time::from_ms(52)]);
    assert_eq!(arrivals(&spec, &[(Time::from_ms(60), 1500)]), [Time::from_ms(71)]);
}

/// A tenth for 5 s, nothing for 3 s, everything for 1 s, and what is not lost arrives when it did without losses.
#[test]
fn a_schedule_loses_its_share_of_what_leaves_meanwhile() {
    let plain = LinkSpec { rate_bps: Some(24_000_000), ..link(None) };
    let step = |ms, loss| StepSpec {
        at_ps: Time::from_ms(ms).as_ps(),
        rate_bps: None,
        delay_ps: None,
        loss: Some(loss),
    };
    let lossy = LinkSpec {
        schedule: vec![step(0, 0.1), step(5000, 0.0), step(8000, 1.0), step(9000, 0.0)],
        ..plain.clone()
    };
    let packets: Vec<(Time, u32)> = (0..10_000).map(|ms| (Time::from_ms(ms), 1500)).collect();
    let (all, got) = (arrivals(&plain, &packets), arrivals(&lossy, &packets));
    let within = |from: u64, to: u64| {
        got.iter().filter(|at| (Time::from_ms(from)..Time::from_ms(to)).contains(*at)).count()
    };
    // √(5000·0.1·0.9) is 21; four of them.
    assert!(within(0, 5000).abs_diff(4500) < 85, "{}", within(0, 5000));
    assert_eq!([within(5000, 8000), within(8000, 9000), within(9000, 10_001)], [3000, 0, 1000]);
    assert!(got.iter().all(|at| all.binary_search(at).is_ok()));
    assert_eq!(got, arrivals(&lossy, &packets));
}

#[test]
fn a_trace_delivers_as_mahimahi_does() {
    let trace = |deliveries_ms: &[u64]| LinkSpec {
        trace: Some(TraceSpec { deliveries_ms: deliveries_ms.to_vec() }),
        ..link(None)
    };
    // One full packet per opportunity, two at 5 ms, repeated from 10 ms on.
    let got = arrivals(&trace(&[2, 5, 5, 10]), &back_to_back(6, 1500));
    assert_eq!(got, [2, 5, 5, 10, 12, 15].map(Time::from_ms));
    // 500 and 996 bytes share an opportunity: 504 + 1000 = 1504; one more byte needs the next as well.
    assert_eq!(arrivals(&trace(&[3, 7]), &[(Time::ZERO, 500), (Time::ZERO, 996)]), [3, 3].map(Time::from_ms));
    assert_eq!(arrivals(&trace(&[3, 7]), &[(Time::ZERO, 500), (Time::ZERO, 997)]), [3, 7].map(Time::from_ms));
    // An opportunity that meets an empty queue is lost, and a packet that arrives at that instant misses it.
    assert_eq!(arrivals(&trace(&[3, 7]), &[(Time::from_ms(3), 100)]), [Time::from_ms(7)]);
    assert_eq!(arrivals(&trace(&[3, 7]), &[(Time::from_ms(701), 100)]), [Time::from_ms(703)]);
}

#[test]
fn impossible_settings_are_refused_by_field() {
    let refused = |spec: LinkSpec| Link::build(&spec, 2, 1).unwrap_err().field;
    let trace = |ms: &[u64]| Some(TraceSpec { deliveries_ms: ms.to_vec() });
    let plain = || link(None);
    assert_eq!(refused(LinkSpec { trace: trace(&[]), ..plain() }), "links[2].trace.deliveries_ms");
    assert_eq!(refused(LinkSpec { trace: trace(&[1, 3, 2]), ..plain() }), "links[2].trace.deliveries_ms[2]");
    assert_eq!(refused(LinkSpec { trace: trace(&[0]), ..plain() }), "links[2].trace.deliveries_ms[0]");
    assert_eq!(refused(LinkSpec { trace: trace(&[1]), rate_bps: Some(1), ..plain() }), "links[2].rate_bps");
    assert_eq!(refused(LinkSpec { trace: trace(&[1]), tick_hz: Some(100), ..plain() }), "links[2].tick_hz");
    assert_eq!(refused(LinkSpec { trace: trace(&[1]), ..link(medium("adsl", &[])) }), "links[2].trace");
    let step = |at_ps, rate_bps, delay_ps| StepSpec { at_ps, rate_bps, delay_ps, loss: None };
    let stepped = |schedule| LinkSpec { rate_bps: Some(1000), schedule, ..plain() };
    assert_eq!(
        refused(stepped(vec![step(5, Some(1), None), step(5, Some(2), None)])),
        "links[2].schedule[1].at_ps"
    );
    assert_eq!(refused(stepped(vec![step(5, None, None)])), "links[2].schedule[0].rate_bps");
    assert_eq!(refused(stepped(vec![step(5, None, Some(u64::MAX))])), "links[2].schedule[0].delay_ps");
    assert_eq!(refused(stepped(vec![step(5, Some(u64::MAX), None)])), "links[2].schedule[0].rate_bps");
    type Case<'a> = (&'a str, &'a [(&'a str, Value)], &'a str);
    let media: [Case; 8] = [
        ("asdl", &[], "name"),
        ("adsl", &[("sync_bps", number(1.0))], "params.sync_bps"),
        ("hsdpa", &[("cqi", number(10.0)), ("cqi_spread", number(14.0))], "params.cqi_spread"),
        ("hsdpa", &[("cqi", number(3.0)), ("cqi_spread", number(0.0))], "params.cqi"),
        ("wifi", &[("rate_mbps", number(11.0))], "params.rate_mbps"),
        ("wifi", &[("aggregate", number(8.0))], "params.aggregate"),
        ("wifi", &[("cw_min", number(63.0)), ("cw_max", number(31.0))], "params.cw_min"),
        ("homeplug", &[("phy_mbps", number(1000.0))], "params.phy_mbps"),
    ];
    for (which, params, field) in media {
        assert_eq!(refused(link(medium(which, params))), format!("links[2].medium.{field}"));
    }
    let mut shared = medium("adsl", &[]);
    shared.as_mut().unwrap().channel = Some("air".into());
    assert_eq!(refused(link(shared)), "links[2].medium.channel");
    let shaped = QueueSpec { discipline: "token_bucket".into(), params: Params::new(), ..Default::default() };
    assert_eq!(refused(LinkSpec { queue: shaped, ..link(medium("wifi", &[])) }), "links[2].queue.discipline");
}

// -------------------------------------------------------------------------------- ADSL

#[test]
fn adsl_pays_for_whole_cells() {
    let spec = link(medium("adsl", &[("interleaving_ms", number(8.0))]));
    let got = arrivals(&spec, &back_to_back(2, 1492));
    // PPPoE over LLC: 32 cells of 53 bytes at 1536 kbit/s, 8.8333 ms; then interleaving.
    let cells = Duration::from_ps(32 * 53 * 8 * 1_000_000_000 / 1536);
    assert_eq!(got, [Time::ZERO + cells, Time::ZERO + cells + cells].map(|at| at + Duration::from_ms(8)));
    // 1351.2 kbit/s at the IP layer.
    assert!((1492.0 * 8.0 / cells.as_secs_f64() - 1_351_245.0).abs() < 1.0);
}

// -------------------------------------------------------------------------------- 3G

/// Seconds until `n` full packets queued together have arrived.
fn drain_seconds(spec: &LinkSpec, n: usize) -> f64 {
    arrivals(spec, &back_to_back(n, 1500)).last().expect("delivered").as_secs_f64()
}

#[test]
fn hsdpa_blocks_carry_what_their_indicator_says() {
    let flat = [("cqi_spread", number(0.0)), ("bler", number(0.0)), ("processing_ms", number(0.0))];
    for (cqi, pdus) in [(10.0, 3), (16.0, 10), (20.0, 17), (22.0, 21)] {
        let mut params = flat.to_vec();
        params.push(("cqi", number(cqi)));
        let n = 1000;
        let blocks = (n as f64 * 12_000.0 / (320.0 * f64::from(pdus))).ceil();
        assert!((drain_seconds(&link(medium("hsdpa", &params)), n) - blocks * 0.002).abs() < 1e-9, "{cqi}");
    }
}

#[test]
fn hsdpa_pays_for_its_errors_and_for_other_users() {
    let base = [("cqi_spread", number(0.0)), ("processing_ms", number(0.0)), ("bler_again", number(0.1))];
    let time = |more: &[(&str, Value)]| {
        let params = [base.as_slice(), more].concat();
        drain_seconds(&link(medium("hsdpa", &params)), 4000)
    };
    let clean = time(&[("bler", number(0.0))]);
    // A block is sent 1 + 0.1 + 0.01 + … = 1/0.9 times. Of 8824 blocks, √(0.11/8824) = 0.35 %; four of them.
    assert!((time(&[("bler", number(0.1))]) / clean - 1.0 / 0.9).abs() < 0.014);
    // A quarter of the intervals: geometric waits, √(0.75/8824) = 0.9 % of the mean.
    let shared = time(&[("bler", number(0.0)), ("share", number(0.25))]);
    assert!((shared / clean - 4.0).abs() < 4.0 * 0.037, "{}", shared / clean);
}

#[test]
fn hsdpa_quality_is_binomial_about_its_mean() {
    // A fast urn of span 12 about 16: mean payload over the binomial, by TS 25.214's block sizes.
    let payload: [f64; 13] = [3., 4., 5., 6., 7., 9., 10., 12., 13., 15., 17., 19., 21.];
    let binomial: [f64; 13] = [1., 12., 66., 220., 495., 792., 924., 792., 495., 220., 66., 12., 1.];
    let mean: f64 = payload.iter().zip(binomial).map(|(p, b)| p * 320.0 * b / 4096.0).sum();
    let spec = medium(
        "hsdpa",
        &[
            ("cqi", number(16.0)),
            ("cqi_spread", number(6.0)),
            ("coherence_ms", number(12.0)),
            ("bler", number(0.0)),
        ],
    );
    let n = 20_000.0;
    let bits = n * 12_000.0 / (drain_seconds(&link(spec), n as usize) - 0.02) * 0.002;
    // 75,000 blocks that forget in 6: 6,250 independent ones of deviation 27 %, so 0.35 %; four of them.
    assert!((bits / mean - 1.0).abs() < 0.014, "{bits} {mean}");
}

#[test]
fn a_stalled_downlink_loses_its_time_and_nothing_else() {
    let stalls = |every: f64| {
        let params = [("cqi_spread", number(0.0)), ("bler", number(0.0)), ("stall_every_ms", number(every))];
        link(medium("hsdpa", &params))
    };
    let n = 20_000;
    let (plain, stalled) = (drain_seconds(&stalls(0.0), n), drain_seconds(&stalls(5000.0), n));
    // A stall of 0.65 s on average after each 5 s; of k of them, in time t, deviation √(k·(0.65² + 0.7²/12)).
    let k = plain / 5.0;
    let deviation = (k * (0.65f64.powi(2) + 0.49 / 12.0)).sqrt();
    assert!((stalled - plain - 0.65 * k).abs() < 4.0 * deviation, "{plain} {stalled}");
    let times = arrivals(&stalls(5000.0), &back_to_back(n, 1500));
    let longest = times.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap();
    // Of 17 uniform from 0.3 to 1 s none is above 0.7 in one case of 10,000.
    assert!(longest > Duration::from_ms(700) && longest < Duration::from_ms(1050), "{longest:?}");
}

#[test]
fn wrong_blocks_delay_but_neither_lose_nor_reorder() {
    let spec = medium("hsdpa", &[("bler", number(0.5)), ("bler_again", number(0.5))]);
    assert_eq!(arrivals(&link(spec), &back_to_back(500, 1500)).len(), 500);
    let lossy = medium("dch", &[("bler", number(0.9)), ("rlc_tries", number(1.0))]);
    // With one try, a 12,000-bit packet needs five error-free blocks of 2560 bits: it hardly ever arrives.
    assert!(arrivals(&link(lossy), &back_to_back(200, 1500)).len() < 5);
}

#[test]
fn a_dedicated_channel_waits_for_its_interval() {
    let quiet = [
        ("rate_bps", number(384_000.0)),
        ("tti_ms", number(10.0)),
        ("bler", number(0.0)),
        ("processing_ms", number(20.0)),
    ];
    let spec = link(medium("dch", &quiet));
    // 384 kbit/s: 480 bytes in 10 ms. Arriving at 3 ms, 84 bytes fill part of the block from 10 to 20 ms.
    assert_eq!(arrivals(&spec, &[(Time::from_ms(3), 84)]), [Time::from_ms(40)]);
    assert_eq!(arrivals(&spec, &[(Time::from_ms(3), 481)]), [Time::from_ms(50)]);
}

#[test]
fn a_held_packet_is_overtaken_by_as_many_as_said_however_close_they_come() {
    let held = WireSpec {
        reorder: 0.01,
        reorder_delay_ps: Duration::from_ms(50).as_ps(),
        reorder_packets: 2,
        ..WireSpec::default()
    };
    // With a timer tick many packets leave at the same time.
    let spec = LinkSpec { rate_bps: Some(100_000_000), tick_hz: Some(1000), wire: held, ..link(None) };
    let mut link = build(&spec);
    let (mut book, mut fate) = (Notebook::default(), Fate::default());
    let n = 20_000u32;
    for slot in 0..n {
        link.push(packet(slot, 1500), Time::ZERO, &mut fate, &mut book);
    }
    while link.next_wake() < Time::NEVER {
        link.advance(link.next_wake(), &mut fate, &mut book);
    }
    assert_eq!(book.arrivals.len(), n as usize);
    let order: Vec<u32> = book.arrivals.iter().map(|(_, slot, _)| *slot).collect();
    let overtaken =
        |place: usize| order[..place].iter().rev().take(20).filter(|slot| **slot > order[place]).count();
    let extents: Vec<usize> = (0..n as usize).map(overtaken).filter(|extent| *extent > 0).collect();
    // One in a hundred, deviation 14; next to it another is held in 2 % of the cases, and the last have none behind.
    assert!(extents.len().abs_diff(200) < 60, "{}", extents.len());
    let twice = extents.iter().filter(|extent| **extent == 2).count();
    assert!(twice as f64 > 0.9 * extents.len() as f64, "{extents:?}");
    assert!(extents.iter().all(|extent| *extent <= 4), "{extents:?}");
}
