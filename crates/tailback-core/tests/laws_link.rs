//! Laws of links: results that theory or the sources' formulas require of any implementation.

use crate::common::links::{
    Event, Notebook, build, delivered, ms, number, packet, plain, queue, run, run_late, run_restless,
};
use proptest::prelude::*;
use tailback_core::framing::{Framing, LinkLayer};
use tailback_core::link::Link;
use tailback_core::packet::{Ecn, Packet};
use tailback_core::queue::{Backlog, DropReason, Fate};
use tailback_core::scenario::{LinkSpec, MediumSpec, Params, StepSpec, TraceSpec, WireSpec};
use tailback_core::time::{Duration, Time};

#[test]
fn fifo_delay_is_backlog_over_rate_exactly() {
    // 100 000 B at 10 Mbit/s are 80 ms; the link then adds its own delay.
    let spec = LinkSpec { delay_ps: Duration::from_ms(40).as_ps(), ..plain() };
    let burst: Vec<_> = (0..101).map(|i| (ms(5), packet(i, 0, 1000))).collect();
    let arrivals = delivered(&spec, &burst);
    assert_eq!(arrivals.len(), 101);
    for (i, &(at, slot)) in (0..).zip(&arrivals) {
        assert_eq!((at, slot), (Time::from_us(45_000 + 800 * (i as u64 + 1)), i));
    }
    // The last packet waited for 100 others and was then transmitted itself.
    assert_eq!(arrivals[100].0.since(ms(45)), Duration::from_us(80_800));
}

/// PPPoA over ATM, by VC-Mux.
const CELLS: Framing = Framing { overhead: 10, mpu: 0, linklayer: LinkLayer::Atm };

#[test]
fn a_framed_link_sends_the_line_bytes_and_queues_those_of_ip() {
    // 53·⌈1510/48⌉ = 1696 and 53·⌈50/48⌉ = 106 bytes at 10 Mbit/s: 1356.8 and 84.8 µs.
    let steps =
        vec![StepSpec { at_ps: ms(50).as_ps(), rate_bps: Some(5_000_000), delay_ps: None, loss: None }];
    let limited = queue("fifo", &[("limit_bytes", number(3_000.0))]);
    let marking = queue("codel", &[("limit_bytes", number(3_000.0))]);
    let lossy = WireSpec { jitter_ps: 1, ..WireSpec::default() };
    let plain = || LinkSpec { framing: CELLS, queue: limited.clone(), ..plain() };
    for (what, spec) in [
        ("foreseen", plain()),
        ("steady", LinkSpec { queue: marking, ..plain() }),
        ("serial", LinkSpec { wire: lossy, ..plain() }),
        ("stepped", LinkSpec { schedule: steps, ..plain() }),
    ] {
        // One is sent while two wait: 3000 bytes of IP fit, 3392 of the line would not. The fourth is dropped.
        let sizes = [(1, 1500), (1, 1500), (1, 1500), (1, 40), (40, 40)];
        let burst: Vec<_> =
            (0..).zip(sizes).map(|(slot, (at, bytes))| (ms(at), packet(slot, 0, bytes))).collect();
        let mut link = build(&spec);
        let (book, fate) = run(&mut link, &burst);
        let got: Vec<_> = book.arrivals.iter().map(|(at, slot)| (at.as_ns() / 100, *slot)).collect();
        let wanted = [(23_568, 0), (37_136, 1), (50_704, 2), (400_848, 4)];
        assert_eq!(got, wanted, "{what}");
        assert_eq!(fate.drops.len(), 1, "{what}");
        assert_eq!(link.busy(), Duration::from_ns(100 * (3 * 13_568 + 848)), "{what}");
        assert_eq!((link.count().delivered_bytes, link.backlog_max()), (4540, 3000), "{what}");
        assert_eq!(link.nominal().unwrap().as_bps(), 10_000_000 * 1500 / 1696, "{what}");
    }
    // A step in the middle of a packet: half of it at each rate.
    let step = StepSpec {
        at_ps: Time::from_ns(678_400).as_ps(),
        rate_bps: Some(5_000_000),
        delay_ps: None,
        loss: None,
    };
    let spec = LinkSpec { schedule: vec![step], ..plain() };
    assert_eq!(delivered(&spec, &[(ms(0), packet(0, 0, 1500))]), [(Time::from_ns(3 * 678_400), 0)]);
    // dummynet's credit counts them too: 13568 bits are 1.36 ticks.
    let spec = LinkSpec { tick_hz: Some(1000), ..plain() };
    let burst: Vec<_> = (0..3).map(|i| (ms(0), packet(i, 0, 1500))).collect();
    assert_eq!(delivered(&spec, &burst), [(ms(2), 0), (ms(3), 1), (ms(5), 2)]);
}

#[test]
fn links_without_rate_only_delay() {
    let spec = LinkSpec { rate_bps: None, delay_ps: Duration::from_ms(3).as_ps(), ..plain() };
    let arrivals = delivered(
        &spec,
        &[(ms(1), packet(0, 0, 1500)), (ms(1), packet(1, 0, 40)), (ms(2), packet(2, 0, 40))],
    );
    assert_eq!(arrivals, [(ms(4), 0), (ms(4), 1), (ms(5), 2)]);
}

#[test]
fn counters_hold_busy_time_and_mean_backlog() {
    // Three packets of 1.2 ms each: the second waits 1.2 ms, the third 2.4 ms: 3.6 ms · 1500 B in 3.6 ms.
    let mut link = build(&plain());
    let burst: Vec<_> = (0..3).map(|i| (ms(0), packet(i, 0, 1500))).collect();
    let (mut book, _) = run(&mut link, &burst);
    assert_eq!(link.busy(), Duration::from_us(3600));
    assert_eq!(link.backlog_max(), 3000);
    assert_eq!(link.backlog_mean(), 1500.0);
    let mut fate = Fate::default();
    link.push(packet(3, 0, 1500), ms(10), &mut fate, &mut ());
    link.settle(Time::from_us(10_500), &mut fate, &mut ());
    assert_eq!((link.busy(), link.in_service()), (Duration::from_us(4100), 1500));
    assert_eq!(link.count().delivered, 3);
    link.advance(ms(20), &mut fate, &mut book);
    assert_eq!((link.count().arrived, link.count().delivered, link.count().delivered_bytes), (4, 4, 6000));
    assert_eq!(link.resident(), Backlog::default());
}

#[test]
fn one_packet_alone_needs_one_wake() {
    let spec = LinkSpec { delay_ps: Duration::from_ms(5).as_ps(), ..plain() };
    let (mut link, mut fate) = (build(&spec), Fate::default());
    assert_eq!(link.next_wake(), Time::NEVER);
    link.push(packet(0, 0, 1250), ms(1), &mut fate, &mut ());
    assert_eq!(link.next_wake(), ms(7));
    let mut book = Notebook::default();
    link.advance(ms(7), &mut fate, &mut book);
    assert_eq!(book.arrivals, [(ms(7), 0)]);
    assert_eq!(link.next_wake(), Time::NEVER);
}

#[test]
fn dummynet_departs_at_the_sources_ticks() {
    // 10 Mbit/s, hz 1000, 1500 B: 1.2 ticks a packet, five packets every six ticks.
    let spec = LinkSpec { tick_hz: Some(1000), ..plain() };
    let burst: Vec<_> = (0..11).map(|i| (ms(0), packet(i, 0, 1500))).collect();
    let ticks: Vec<u64> = delivered(&spec, &burst).iter().map(|(at, _)| at.as_us() / 1000).collect();
    assert_eq!(ticks, [2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 14]);
}

#[test]
fn dummynet_releases_what_one_tick_covers_back_to_back() {
    // 100 Mbit/s, hz 1000: 12.5 kB a tick, 8.33 packets.
    let spec = LinkSpec { rate_bps: Some(100_000_000), tick_hz: Some(1000), ..plain() };
    let burst: Vec<_> = (0..25).map(|i| (ms(0), packet(i, 0, 1500))).collect();
    let arrivals = delivered(&spec, &burst);
    let at_tick = |t: u64| arrivals.iter().filter(|(at, _)| *at == ms(t)).count();
    assert_eq!([at_tick(1), at_tick(2), at_tick(3)], [8, 8, 9]);
}

#[test]
fn dummynet_saves_no_credit_while_idle() {
    let spec = LinkSpec { tick_hz: Some(1000), ..plain() };
    // Both wait the full two ticks from the tick they arrive in, though 100 ms of credit went by.
    let arrivals =
        delivered(&spec, &[(ms(0), packet(0, 0, 1500)), (Time::from_us(100_300), packet(1, 0, 1500))]);
    assert_eq!(arrivals, [(ms(2), 0), (ms(102), 1)]);
}

#[test]
fn dummynet_rounds_delay_down_to_ticks() {
    let delay_ps = Duration::from_us(16_700).as_ps();
    let spec = LinkSpec { tick_hz: Some(1000), delay_ps, ..plain() };
    assert_eq!(delivered(&spec, &[(ms(0), packet(0, 0, 1500))]), [(ms(18), 0)]);
    let spec = LinkSpec { tick_hz: Some(2000), delay_ps, ..plain() };
    // 1.2 ms are three ticks of 0.5 ms, 16.7 ms are 33.
    assert_eq!(delivered(&spec, &[(ms(0), packet(0, 0, 1500))]), [(ms(18), 0)]);
    let spec = LinkSpec { rate_bps: None, tick_hz: Some(100), delay_ps, ..plain() };
    assert_eq!(delivered(&spec, &[(ms(27), packet(0, 0, 1500))]), [(ms(30), 0)]);
}

#[test]
fn a_watcher_sees_every_event_at_its_time_with_the_backlog_it_left() {
    let spec = LinkSpec { queue: queue("fifo", &[("limit_packets", number(1.0))]), ..plain() };
    let burst: Vec<_> = (0..3).map(|i| (ms(0), packet(i, 0, 1500))).collect();
    let (book, _) = run(&mut build(&spec), &burst);
    let (none, one) = (Backlog::default(), Backlog { packets: 1, bytes: 1500 });
    assert_eq!(
        book.events,
        [
            (ms(0), Event::Enqueue, 0, one),
            (ms(0), Event::Dequeue, 0, none),
            (ms(0), Event::Enqueue, 1, one),
            (ms(0), Event::Drop(DropReason::QueueFull), 2, one),
            (Time::from_us(1200), Event::Dequeue, 1, none),
        ]
    );
}

#[test]
fn lost_packets_use_the_link_but_never_arrive() {
    let spec = LinkSpec { wire: WireSpec { loss: 1.0, ..WireSpec::default() }, ..plain() };
    let mut link = build(&spec);
    let (book, fate) = run(&mut link, &[(ms(0), packet(0, 0, 1500)), (ms(0), packet(1, 0, 1500))]);
    assert!(book.arrivals.is_empty());
    assert_eq!(link.busy(), Duration::from_us(2400));
    assert!(fate.drops.iter().all(|(_, reason)| *reason == DropReason::Wire) && fate.drops.len() == 2);
}

#[test]
fn duplicates_arrive_twice_with_slots_of_their_own() {
    let spec = LinkSpec { wire: WireSpec { duplicate: 1.0, ..WireSpec::default() }, ..plain() };
    let mut link = build(&spec);
    let (book, _) = run(&mut link, &[(ms(0), packet(0, 0, 1250))]);
    assert_eq!(book.arrivals, [(ms(1), 0), (ms(1), 1_000_001)]);
    assert_eq!((link.count().duplicated, link.count().delivered), (1, 2));
}

#[test]
fn held_back_packets_are_overtaken() {
    let wire =
        WireSpec { reorder: 0.2, reorder_delay_ps: Duration::from_ms(5).as_ps(), ..WireSpec::default() };
    let spec = LinkSpec { wire, ..plain() };
    let burst: Vec<_> = (0..200).map(|i| (ms(0), packet(i, 0, 1250))).collect();
    let arrivals = delivered(&spec, &burst);
    let mut held = 0;
    for &(at, slot) in &arrivals {
        let plain_due = ms(u64::from(slot) + 1);
        assert!(at == plain_due || at == plain_due + Duration::from_ms(5), "{slot} at {at:?}");
        held += usize::from(at != plain_due);
    }
    assert!(arrivals.is_sorted_by_key(|(at, _)| *at), "arrivals are handed over in order of time");
    assert!(!arrivals.is_sorted_by_key(|(_, slot)| *slot));
    // 200 · 0.2 = 40, standard deviation 5.7; four of them.
    assert!(held.abs_diff(40) < 23, "{held}");
}

#[test]
fn links_never_share_random_numbers() {
    let lossy = LinkSpec { wire: WireSpec { loss: 0.5, ..WireSpec::default() }, ..plain() };
    let burst: Vec<_> = (0..64).map(|i| (ms(0), packet(i, 0, 1250))).collect();
    let up = LinkSpec { name: "up".into(), ..lossy.clone() };
    assert_ne!(delivered(&lossy, &burst), delivered(&up, &burst));
    // Only the link's name matters, not its index.
    let mut moved = Link::build(&lossy, 17, 1).unwrap();
    assert_eq!(run(&mut moved, &burst).0.arrivals, delivered(&lossy, &burst));
}

#[test]
fn impossible_links_are_refused_by_field() {
    let refused = |spec: LinkSpec| Link::build(&spec, 2, 1).map(|_| ()).unwrap_err().field;
    assert_eq!(refused(LinkSpec { rate_bps: Some(0), ..plain() }), "links[2].rate_bps");
    assert_eq!(refused(LinkSpec { rate_bps: Some(u64::MAX), ..plain() }), "links[2].rate_bps");
    assert_eq!(refused(LinkSpec { delay_ps: u64::MAX, ..plain() }), "links[2].delay_ps");
    assert_eq!(refused(LinkSpec { tick_hz: Some(0), ..plain() }), "links[2].tick_hz");
    let framed = |overhead, mpu| Framing { overhead, mpu, ..CELLS };
    assert_eq!(refused(LinkSpec { framing: framed(257, 0), ..plain() }), "links[2].framing.overhead");
    assert_eq!(refused(LinkSpec { framing: framed(-65, 0), ..plain() }), "links[2].framing.overhead");
    assert_eq!(refused(LinkSpec { framing: framed(0, 257), ..plain() }), "links[2].framing.mpu");
    let framing = Framing { overhead: 0, ..CELLS };
    let framed = LinkSpec { framing, rate_bps: None, ..plain() };
    assert_eq!(refused(framed.clone()), "links[2].framing.linklayer");
    let trace = Some(TraceSpec { deliveries_ms: vec![1] });
    assert_eq!(refused(LinkSpec { trace, ..framed.clone() }), "links[2].framing.linklayer");
    let medium =
        |name: &str| MediumSpec { name: name.into(), params: Params::new(), channel: None, flow: None };
    for name in ["adsl", "wifi"] {
        let framing = Framing { mpu: 64, ..Framing::default() };
        let spec = LinkSpec { medium: Some(medium(name)), framing, ..framed.clone() };
        assert_eq!(refused(spec), "links[2].framing.mpu");
    }
    let zero = queue("fifo", &[("limit_bytes", number(0.0))]);
    assert_eq!(refused(LinkSpec { queue: zero, ..plain() }), "links[2].queue.params.limit_bytes");
    let fif = LinkSpec { queue: queue("fif", &[]), ..plain() };
    let error = Link::build(&fif, 2, 1).map(|_| ()).unwrap_err();
    assert_eq!(error.field, "links[2].queue.discipline");
    assert!(error.fix.contains("did you mean \"fifo\""), "{error}");
}

/// Arrivals as gaps in microseconds, flow, size, and ECN capability.
fn traffic() -> impl Strategy<Value = Vec<(Time, Packet)>> {
    prop::collection::vec((0u64..3000, 0u32..4, 40u32..1500, any::<bool>()), 1..300).prop_map(|gaps| {
        let mut at = 0;
        (0..)
            .zip(gaps)
            .map(|(slot, (gap, flow, bytes, capable))| {
                // Bursts: two of three gaps are none.
                at += if slot % 3 == 0 { gap } else { 0 };
                let ecn = if capable { Ecn::Ect0 } else { Ecn::NotEct };
                (Time::from_us(at), Packet { ecn, ..packet(slot, flow, bytes) })
            })
            .collect()
    })
}

/// Links of all shapes, with this queue.
fn shapes() -> impl Strategy<Value = LinkSpec> {
    (0..9u32, prop_oneof![Just(0u64), Just(700), Just(20_000)]).prop_map(|(shape, delay_us)| {
        let mut spec = LinkSpec { delay_ps: Duration::from_us(delay_us).as_ps(), ..plain() };
        match shape {
            1 => spec.rate_bps = None,
            2 => spec.tick_hz = Some(1000),
            3 => spec.wire.loss = 0.2,
            4 => {
                spec.wire = WireSpec {
                    reorder: 0.3,
                    reorder_delay_ps: 3_000_000_000,
                    jitter_ps: 900_000_000,
                    ..spec.wire
                }
            }
            5 => spec.wire = WireSpec { loss: 0.1, duplicate: 0.2, jitter_ps: 5_000_000_000, ..spec.wire },
            // A rate that divides no picosecond evenly.
            6 => spec.rate_bps = Some(7_777_777),
            7 => spec.framing = CELLS,
            8 => (spec.framing, spec.tick_hz) = (CELLS, Some(1000)),
            _ => (),
        }
        spec
    })
}

proptest! {
    #[test]
    fn late_wakes_change_nothing(
        spec in shapes(),
        limit in prop_oneof![Just(None), Just(Some(4000.0)), Just(Some(12_000.0))],
        arrivals in traffic(),
    ) {
        let params = limit.map(|bytes| ("limit_bytes", number(bytes)));
        let spec = LinkSpec { queue: queue("fifo", params.as_slice()), ..spec };
        let end = ms(10_000);
        let (due, due_fate) = run(&mut build(&spec), &arrivals);
        let (late, late_fate) = run_late(&mut build(&spec), &arrivals, end);
        let (restless, restless_fate) = run_restless(&mut build(&spec), &arrivals, end);
        prop_assert_eq!(&due.arrivals, &late.arrivals);
        prop_assert_eq!(&due.arrivals, &restless.arrivals);
        prop_assert_eq!(&due.events, &late.events);
        prop_assert_eq!(&due.events, &restless.events);
        let dropped = |fate: &Fate| fate.drops.iter().map(|(packet, why)| (packet.slot, *why)).collect::<Vec<_>>();
        prop_assert_eq!(dropped(&due_fate), dropped(&late_fate));
        prop_assert_eq!(dropped(&due_fate), dropped(&restless_fate));
        // The observed times are monotonic.
        prop_assert!(late.events.is_sorted_by_key(|event| event.0));
    }
}
