//! Laws of queues: results that theory or the sources' formulas require of any discipline.

use crate::common::links::{
    self, Notebook, build, delivered, ms, name, number, packet, plain, queue, run, run_late, run_restless,
};
use proptest::prelude::*;
use tailback_core::link::Link;
use tailback_core::packet::{Ecn, FlowId, Packet};
use tailback_core::queue::registry::{self, Context, Surroundings, cards};
use tailback_core::queue::{Backlog, DropReason, Fate, QueueDiscipline};
use tailback_core::rng::Stream;
use tailback_core::scenario::{FlowSpec, LinkSpec, QueueSpec, Value};
use tailback_core::time::{Duration, Time};

/// Sends 60 packets at once into an idle link; returns how many arrive.
fn of_sixty(params: &[(&str, Value)]) -> usize {
    let spec = LinkSpec { queue: queue("fifo", params), ..plain() };
    let burst: Vec<_> = (0..60).map(|i| (ms(0), packet(i, 0, 1500))).collect();
    let (book, fate) = run(&mut build(&spec), &burst);
    assert_eq!(book.arrivals.len() + fate.drops.len(), 60);
    book.arrivals.len()
}

#[test]
fn fifty_packets_mean_what_each_implementation_means() {
    let fifty = ("limit_packets", number(50.0));
    assert_eq!(of_sixty(std::slice::from_ref(&fifty)), 51, "Linux: the device holds one more");
    assert_eq!(of_sixty(&[fifty.clone(), ("accept", name("ns2"))]), 50, "ns-2: 49 and the one on the link");
    let counted = ("in_service", name("counted"));
    assert_eq!(
        of_sixty(&[fifty.clone(), ("accept", name("below")), counted]),
        50,
        "dummynet: one of 50 in service"
    );
}

#[test]
fn bytes_are_limited_as_each_implementation_does() {
    let limit = |bytes: f64| ("limit_bytes", number(bytes));
    // 1 in service; 6 · 1500 = 9000 fit into 10 000, a seventh would not.
    assert_eq!(of_sixty(&[limit(10_000.0)]), 7);
    assert_eq!(of_sixty(&[limit(9000.0)]), 7);
    assert_eq!(of_sixty(&[limit(9000.0), ("accept", name("ns2"))]), 6);
    // dummynet: accepts while b ≤ 10 000, so up to 10 500 B with the one in service.
    let dummynet = [("accept", name("below")), ("in_service", name("counted"))];
    let with = |bytes: f64| [vec![limit(bytes)], dummynet.to_vec()].concat();
    assert_eq!(of_sixty(&with(10_000.0)), 7);
    assert_eq!(of_sixty(&with(9000.0)), 7);
    assert_eq!(of_sixty(&with(8999.0)), 6);
    // A quarter of the BDP of 1 Mbit/s and 16 ms is less than a packet, and still passes one at a time.
    assert_eq!(of_sixty(&with(500.0)), 1);
}

#[test]
fn head_drop_keeps_the_newest() {
    let spec = LinkSpec {
        queue: queue("fifo", &[("limit_packets", number(3.0)), ("drop", name("head"))]),
        ..plain()
    };
    let burst: Vec<_> = (0..10).map(|i| (ms(0), packet(i, 0, 1500))).collect();
    let (book, fate) = run(&mut build(&spec), &burst);
    let slots: Vec<u32> = book.arrivals.iter().map(|(_, slot)| *slot).collect();
    assert_eq!(slots, [0, 7, 8, 9]);
    assert!(fate.drops.iter().all(|(_, reason)| *reason == DropReason::Overlimit));
    let dropped: Vec<u32> = fate.drops.iter().map(|(packet, _)| packet.slot).collect();
    assert_eq!(dropped, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_packet_larger_than_the_limit_drops_alone() {
    let params = [("limit_bytes", number(1000.0)), ("drop", name("head"))];
    let spec = LinkSpec { queue: queue("fifo", &params), ..plain() };
    let (_, fate) = run(
        &mut build(&spec),
        &[(ms(0), packet(0, 0, 900)), (ms(0), packet(1, 0, 900)), (ms(0), packet(2, 0, 1001))],
    );
    assert_eq!(fate.drops.len(), 1);
    assert_eq!((fate.drops[0].0.slot, fate.drops[0].1), (2, DropReason::QueueFull));
}

/// A token bucket of one packet around another queue.
fn shaped(bps: f64, inner: QueueSpec) -> QueueSpec {
    let bucket = queue("token_bucket", &[("rate_bps", number(bps)), ("burst", number(1500.0))]);
    QueueSpec { inner: Some(Box::new(inner)), ..bucket }
}

/// RED with DCTCP's marking: every ECN-capable arrival that finds `packets` or more is marked.
fn step(packets: f64) -> QueueSpec {
    let at = number(packets);
    let params = [("min", at.clone()), ("max", at), ("weight", number(1.0)), ("ecn", Value::Flag(true))];
    queue("red", &params)
}

/// A queue of every registered discipline, in every variant.
fn every_queue() -> Vec<QueueSpec> {
    let mut queues = Vec::new();
    for card in cards() {
        match card.param("variant") {
            None => queues.push(queue(card.name, &[])),
            Some(variant) => {
                queues.extend(variant.choices.iter().map(|it| queue(card.name, &[("variant", name(it))])))
            }
        }
        if card.param("ecn").is_some() {
            queues.push(queue(card.name, &[("ecn", Value::Flag(true))]));
        }
        for limit in ["limit_packets", "limit_bytes"] {
            if card.param(limit).is_some() {
                let least = if limit == "limit_packets" { 5.0 } else { 6000.0 };
                queues.push(queue(card.name, &[(limit, number(least))]));
            }
        }
    }
    queues.push(queue("fifo", &[("limit_packets", number(4.0)), ("drop", name("head"))]));
    queues.push(queue(
        "sfq",
        &[("limit_packets", number(6.0)), ("depth", number(3.0)), ("drop", name("head"))],
    ));
    queues.push(queue("fq_codel", &[("limit_packets", number(8.0)), ("drop_batch", number(3.0))]));
    queues.push(queue("fq_codel", &[("flows", number(2.0)), ("memory_limit", number(9000.0))]));
    queues.push(queue("token_bucket", &[("rate_bps", number(3e6)), ("burst", number(1500.0))]));
    queues.push(queue("fq_pie", &[("flows", number(2.0)), ("memory_limit", number(9000.0))]));
    queues.push(queue("fq", &[("flow_limit", number(3.0)), ("quantum", number(300.0))]));
    queues.push(queue("fq", &[("maxrate_bps", number(1e6)), ("initial_quantum", number(3000.0))]));
    for inner in [
        queue("fifo", &[("limit_bytes", number(6000.0))]),
        queue("codel", &[("target_ms", number(1.0)), ("interval_ms", number(10.0))]),
        queue("fq_codel", &[("limit_packets", number(8.0))]),
        queue("pie", &[("max_burst_ms", number(0.0)), ("ecn", Value::Flag(true))]),
        step(3.0),
    ] {
        queues.push(shaped(3e6, inner));
    }
    queues.push(step(3.0));
    queues
        .push(queue("red", &[("unit", name("bytes")), ("weight", number(0.2)), ("ecn", Value::Flag(true))]));
    queues
        .push(queue("red", &[("min", number(1.0)), ("weight", number(0.5)), ("gentle", Value::Flag(false))]));
    queues.push(queue(
        "pie",
        &[("max_burst_ms", number(0.0)), ("target_ms", number(1.0)), ("ecn", Value::Flag(true))],
    ));
    queues
}

/// Traffic that overloads 10 Mbit/s by half for up to a third of a second.
fn overload() -> impl Strategy<Value = Vec<(Time, Packet)>> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    prop::collection::vec((0u64..800, 0u32..5, 40u32..1500, ecn), 50..800).prop_map(|gaps| {
        let mut at = 0;
        (0..)
            .zip(gaps)
            .map(|(slot, (gap, flow, bytes, ecn))| {
                at += gap;
                (Time::from_us(at), Packet { ecn, ..packet(slot, flow, bytes) })
            })
            .collect()
    })
}

/// Asserts that no packet overtakes another of its flow. Exception: DualPI2 serves a flow's L4S packets (ECT(1) or CE)
/// separately from its classic ones.
fn is_in_order_per_flow(slots: &[u32], sent: &[(Time, Packet)], discipline: &str) -> bool {
    let class = |slot: u32| {
        let packet = sent[slot as usize].1;
        let is_fast = discipline == "dualpi2" && matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce);
        (packet.flow, is_fast)
    };
    let mut last = std::collections::BTreeMap::new();
    slots.iter().all(|&slot| last.insert(class(slot), slot).is_none_or(|before| before < slot))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_discipline_keeps_the_laws(arrivals in overload(), ticked in any::<bool>()) {
        for spec in every_queue() {
            let discipline = spec.discipline.clone();
            let shape = format!("{spec:?}");
            let limit_packets = spec.params.get("limit_packets").cloned();
            let limit_bytes = spec.params.get("limit_bytes").cloned();
            let spec = LinkSpec { queue: spec, tick_hz: ticked.then_some(1000), delay_ps: 3_000_000_000, ..plain() };

            // Conservation of packets and bytes: the link asserts it at every call, and this repeats it by hand.
            let mut link = build(&spec);
            let (due, fate) = run(&mut link, &arrivals);
            let mut seen: Vec<u32> = due.arrivals.iter().map(|(_, slot)| *slot).collect();
            prop_assert!(is_in_order_per_flow(&seen, &arrivals, &discipline), "{}", shape);
            seen.extend(fate.drops.iter().map(|(packet, _)| packet.slot));
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..arrivals.len() as u32).collect::<Vec<_>>(), "{}", shape);
            prop_assert_eq!(link.resident(), Backlog::default());
            prop_assert_eq!(link.count().marked as usize, fate.marks.len());
            prop_assert_eq!(link.count().dropped as usize, fate.drops.len());

            // Only ECN-capable packets are marked, and each at most once.
            for marked in &fate.marks {
                prop_assert!(marked.ecn == Ecn::Ce && arrivals[marked.slot as usize].1.ecn.is_capable(), "{}", shape);
            }

            // The limits hold after every event.
            for (_, _, _, backlog) in &due.events {
                if let Some(Value::Number(limit)) = limit_packets {
                    prop_assert!(f64::from(backlog.packets) <= limit, "{}: {:?}", shape, backlog);
                }
                if let Some(Value::Number(limit)) = limit_bytes {
                    prop_assert!(backlog.bytes as f64 <= limit, "{}: {:?}", shape, backlog);
                }
            }

            // Late or frequent wakes change nothing.
            let end = ms(20_000);
            let (late, _) = run_late(&mut build(&spec), &arrivals, end);
            let (restless, _) = run_restless(&mut build(&spec), &arrivals, end);
            prop_assert_eq!(&due.arrivals, &late.arrivals, "{}", shape);
            prop_assert_eq!(&due.arrivals, &restless.arrivals, "{}", shape);
            prop_assert_eq!(&due.events, &late.events, "{}", shape);
            prop_assert_eq!(&due.events, &restless.events, "{}", shape);
        }
    }
}

#[test]
fn every_discipline_says_what_it_is() {
    let names: std::collections::BTreeSet<&str> = cards().iter().map(|card| card.name).collect();
    assert_eq!(names.len(), cards().len(), "two of one name: {names:?}");
    for card in cards() {
        assert!(!card.law.is_empty() && !card.source.is_empty() && !card.title.is_empty(), "{}", card.name);
        for param in card.params {
            assert!(param.doc.ends_with('.'), "{}.{}: {}", card.name, param.name, param.doc);
        }
    }
}

#[test]
fn every_discipline_acts_on_a_lasting_overload() {
    // 16 Mbit/s of ECN-capable packets into 10 for 10 s; the unlimited FIFO alone lets everything wait.
    let arrivals: Vec<_> = (0..13_333)
        .map(|i| (Time::from_us(750 * u64::from(i)), Packet { ecn: Ecn::Ect0, ..packet(i, i % 3, 1500) }))
        .collect();
    for spec in every_queue() {
        let is_unlimited = spec == queue("fifo", &[]);
        let shape = format!("{spec:?}");
        let (_, fate) = run(&mut build(&LinkSpec { queue: spec, ..plain() }), &arrivals);
        assert_eq!(fate.is_empty(), is_unlimited, "{shape}");
        // Three of eight packets exceed the capacity: a discipline that drops must drop about as many in the end.
        let with_limit = shape.contains("limit") && !shape.contains("inner: Some");
        if with_limit && fate.marks.is_empty() {
            assert!((4000..=5100).contains(&fate.drops.len()), "{shape}: {} drops", fate.drops.len());
        }
    }
}

#[test]
fn a_queue_that_would_never_form_is_refused() {
    let spec = LinkSpec { rate_bps: None, queue: queue("codel", &[]), ..plain() };
    assert_eq!(Link::build(&spec, 1, 1).map(|_| ()).unwrap_err().field, "links[1].queue.discipline");
}

/// Flow 0 sends `bytes` every `gap` while flow 1 overloads the link; returns flow 0's longest delay.
fn worst_of_a_sparse_flow(discipline: &str, params: &[(&str, Value)]) -> Duration {
    let mut arrivals = Vec::new();
    // Bulk: 1500 B each millisecond, 12 Mbit/s into 10. Call: 200 B each 20 ms, 80 kbit/s, out of step with it.
    for i in 0..5000u32 {
        arrivals.push((ms(u64::from(i)), packet(i, 1, 1500)));
        if i % 20 == 0 {
            arrivals.push((Time::from_us(u64::from(i) * 1000 + 450), packet(10_000 + i, 0, 200)));
        }
    }
    let sent = |slot: u32| arrivals.iter().find(|(_, packet)| packet.slot == slot).unwrap().0;
    let spec = LinkSpec { queue: queue(discipline, params), ..plain() };
    let (book, fate) = run(&mut build(&spec), &arrivals);
    assert!(fate.drops.iter().all(|(packet, _)| packet.flow == FlowId(1)), "{discipline} drops the call");
    let call = book.arrivals.iter().filter(|(_, slot)| *slot >= 10_000);
    call.map(|&(at, slot)| at.since(sent(slot))).max().expect("the call has packets")
}

#[test]
fn fair_queues_isolate_a_sparse_call_from_a_bulk_flow() {
    // At worst the call waits for one bulk packet in service and one whose turn has begun: 2 · 1.2 ms + 0.16 ms.
    for discipline in ["fq_codel", "sfq", "fq_pie"] {
        let worst = worst_of_a_sparse_flow(discipline, &[]);
        assert!(worst <= Duration::from_us(2560), "{discipline}: {worst:?}");
    }
    // A turn in fq is two full packets, and a third where the second leaves a rest: 1.2 + 3 · 1.2 + 0.16 ms. A flow's
    // first turn is `initial_quantum`, ten packets.
    for (initial, packets) in [(3028.0, 3), (15_140.0, 10)] {
        let worst = worst_of_a_sparse_flow("fq", &[("initial_quantum", number(initial))]);
        let bound = Duration::from_us(1200 + packets * 1200 + 160);
        assert!(worst <= bound, "fq, {initial}: {worst:?}");
    }
    // Without isolation the call shares the bulk flow's queue: an excess of 2 Mbit/s accumulates for 5 s.
    assert!(worst_of_a_sparse_flow("fifo", &[]) > Duration::from_ms(500));
}

/// `slots` numbered packets of three flows in turn, all at once, at a link that serves one per 1.2 ms.
fn three_flows_at_once(slots: u32) -> Vec<(Time, Packet)> {
    (0..slots).map(|slot| (ms(0), packet(slot, slot % 3, 1500))).collect()
}

#[test]
fn equal_flows_that_never_run_dry_get_a_third_each() {
    // Shreedhar and Varghese: flows that never run dry differ by a quantum and the packet that overdraws it, at most.
    // A quantum of 1514 bytes is one packet, fq's first of 15 140 is ten.
    for (discipline, turn) in [("fq_codel", 2), ("sfq", 2), ("fq_pie", 2), ("fq", 11)] {
        let generous = match discipline {
            "fq" => vec![("flow_limit", number(1000.0))],
            "sfq" => vec![("limit_packets", number(1000.0)), ("depth", number(1000.0))],
            "fq_codel" => vec![("target_ms", number(5000.0)), ("interval_ms", number(10_000.0))],
            _ => vec![("target_ms", number(5000.0))],
        };
        let spec = LinkSpec { queue: queue(discipline, &generous), ..plain() };
        let (book, fate) = run(&mut build(&spec), &three_flows_at_once(600));
        assert!(fate.drops.is_empty(), "{discipline}: {} drops", fate.drops.len());
        let mut sent = [0i64; 3];
        for (_, slot) in &book.arrivals {
            sent[*slot as usize % 3] += 1;
            // While all three still have packets.
            if sent.iter().all(|count| *count < 200) {
                let spread = sent.iter().max().unwrap() - sent.iter().min().unwrap();
                assert!(spread <= turn, "{discipline}: {sent:?}");
            }
        }
        assert_eq!(sent, [200; 3], "{discipline}");
    }
}

#[test]
fn fq_never_sends_a_flow_faster_than_its_bound() {
    // In t seconds a flow of 1514-byte frames at 2 Mbit/s gets 2 Mbit/s · t and what it may send at once.
    let (rate, at_once) = (2e6, 3028.0 + 1514.0);
    let params = [("maxrate_bps", number(rate)), ("initial_quantum", number(3028.0))];
    let spec = LinkSpec { rate_bps: Some(100_000_000), queue: queue("fq", &params), ..plain() };
    let (book, fate) = run(&mut build(&spec), &three_flows_at_once(240));
    assert!(fate.drops.is_empty());
    for flow in 0..3 {
        let mine: Vec<Time> =
            book.arrivals.iter().filter(|(_, slot)| slot % 3 == flow).map(|(at, _)| *at).collect();
        for (first, &from) in mine.iter().enumerate() {
            for (last, &to) in mine.iter().enumerate().skip(first) {
                let bytes = 1514.0 * (last - first + 1) as f64;
                let allowed = rate / 8.0 * to.since(from).as_secs_f64() + at_once;
                assert!(bytes <= allowed + 1.0, "flow {flow}: {bytes} of {allowed}");
            }
        }
        // It also gets its full share: 80 frames take 0.48 s at 2 Mbit/s.
        let took = mine[79].since(mine[0]).as_secs_f64();
        assert!((0.46..0.49).contains(&took), "flow {flow}: {took} s");
    }
}

#[test]
fn pfifo_fast_never_lets_a_higher_band_wait_for_more_than_one_packet() {
    // Flow 2 is interactive, flow 1 bulk, flow 0 best effort; by tc-prio(8) 4 and 2 are those DSCPs.
    let flows: Vec<FlowSpec> = ["best", "bulk", "game"].into_iter().map(links::flow).collect();
    let spec = LinkSpec { queue: queue("pfifo_fast", &[("dscp", name("game=4 bulk=2"))]), ..plain() };
    let around = Surroundings {
        rate: None,
        seed: 1,
        link: "bottleneck",
        context: Context { flows: &flows, ..Context::default() },
    };
    let built = registry::build(&spec.queue, "links[0].queue", &around).expect("it is sound");
    let mut waiting = built;
    let (mut fate, mut now, mut next) = (Fate::default(), ms(0), 0);
    let mut higher = std::collections::BTreeMap::new();
    for step in 0..3000u32 {
        // 1.2 ms a packet, and 1.5 of them arrive in it, one in three of the highest band.
        for _ in 0..1 + step % 2 {
            let flow = next % 3;
            waiting.enqueue(Packet { enqueued: now, ..packet(next, flow, 1500) }, now, &mut fate);
            if flow == 2 {
                higher.insert(next, now);
            }
            next += 1;
        }
        let sent = waiting.dequeue(now, &mut fate).expect("it holds packets");
        if let Some(came) = higher.remove(&sent.slot) {
            assert!(now.since(came) <= Duration::from_us(1200), "{:?}", now.since(came));
        } else {
            assert!(higher.is_empty(), "a packet of a lower band went first");
        }
        now += Duration::from_us(1200);
    }
}

#[test]
fn fifo_waits_as_m_d_1_does() {
    // Pollaczek and Khinchine: mean wait ρ/(2(1 − ρ)) service times for Poisson arrivals of equal packets.
    for rho in [0.3, 0.6, 0.8] {
        let mut gaps = Stream::named(1, "poisson");
        let service = 1_200_000_000.0;
        let mut at = 0.0;
        let n = 400_000;
        let arrivals: Vec<_> = (0..n)
            .map(|slot| {
                at += gaps.exponential(service / rho);
                (Time::from_ps(at as u64), packet(slot, 0, 1500))
            })
            .collect();
        let mut total = 0.0;
        for (at, slot) in delivered(&plain(), &arrivals) {
            total += at.since(arrivals[slot as usize].0).as_secs_f64() * 1e12 - service;
        }
        let wait = total / f64::from(n) / service;
        let expected = rho / (2.0 * (1.0 - rho));
        assert!((wait / expected - 1.0).abs() < 0.03, "load {rho}: {wait} against {expected}");
    }
}

#[test]
fn tokens_let_a_burst_through_and_then_the_rate() {
    // Bucket 6000 B at 1 Mbit/s on a 100 Mbit/s link: four packets at link rate, then one each 12 ms.
    let params = [("rate_bps", number(1e6)), ("burst", number(6000.0)), ("limit_bytes", number(1e6))];
    let spec = LinkSpec { rate_bps: Some(100_000_000), queue: queue("token_bucket", &params), ..plain() };
    let burst: Vec<_> = (0..8).map(|i| (ms(100), packet(i, 0, 1500))).collect();
    let at: Vec<u64> = delivered(&spec, &burst).iter().map(|(at, _)| at.as_us() - 100_000).collect();
    assert_eq!(at, [120, 240, 360, 480, 12_120, 24_120, 36_120, 48_120]);
}

#[test]
fn a_step_marks_every_capable_arrival_at_the_threshold_and_drops_the_others() {
    for hard in [false, true] {
        let mut spec = step(3.0);
        spec.params.insert("harddrop".into(), Value::Flag(hard));
        let arrivals: Vec<_> = (0..12)
            .map(|i| {
                (ms(0), Packet { ecn: if i < 8 { Ecn::Ect0 } else { Ecn::NotEct }, ..packet(i, 0, 1500) })
            })
            .collect();
        let (_, fate) = run(&mut build(&LinkSpec { queue: spec, ..plain() }), &arrivals);
        let marked: Vec<u32> = fate.marks.iter().map(|packet| packet.slot).collect();
        let dropped: Vec<u32> = fate.drops.iter().map(|(packet, _)| packet.slot).collect();
        // Packet 0 is being sent, 1 to 3 wait: the fourth to wait finds three.
        assert_eq!(marked, if hard { vec![] } else { vec![4, 5, 6, 7] });
        assert_eq!(dropped, if hard { (4..12).collect::<Vec<_>>() } else { vec![8, 9, 10, 11] });
    }
}

#[test]
fn a_bucket_around_a_fifo_is_a_bucket() {
    let limit = [("limit_bytes", number(6000.0))];
    let own = [("rate_bps", number(3e6)), ("burst", number(1500.0)), limit[0].clone()];
    let arrivals: Vec<_> =
        (0..200).map(|i| (Time::from_us(u64::from(i) * 1700), packet(i, 0, 300 + i * 77 % 1200))).collect();
    let on = |queue| LinkSpec { rate_bps: Some(100_000_000), queue, ..plain() };
    let (plain_book, plain_fate) = run(&mut build(&on(queue("token_bucket", &own))), &arrivals);
    let (book, fate) = run(&mut build(&on(shaped(3e6, queue("fifo", &limit)))), &arrivals);
    assert!(!fate.drops.is_empty());
    assert_eq!(plain_book.arrivals, book.arrivals);
    assert_eq!(plain_book.events, book.events);
    assert_eq!(plain_fate.drops.len(), fate.drops.len());
}

#[test]
fn codel_has_decided_before_a_packet_waits_for_its_tokens() {
    // 1 Mbit/s: a packet each 12 ms. The second is taken out of CoDel at once and waits 12 ms for its tokens. The third
    // is looked at only then, has waited 12 ms, and starts CoDel's interval of 10 ms: the fourth is dropped.
    let codel = queue("codel", &[("target_ms", number(1.0)), ("interval_ms", number(10.0))]);
    let spec = LinkSpec { rate_bps: Some(100_000_000), queue: shaped(1e6, codel), ..plain() };
    let burst: Vec<_> = (0..7).map(|i| (ms(100), packet(i, 0, 1500))).collect();
    let (book, fate) = run(&mut build(&spec), &burst);
    let at: Vec<_> = book.arrivals.iter().map(|(at, slot)| (at.as_us() - 100_000, *slot)).collect();
    assert_eq!(at, [(120, 0), (12_120, 1), (24_120, 2), (36_120, 4), (48_120, 5), (60_120, 6)]);
    assert_eq!(fate.drops.iter().map(|(packet, _)| packet.slot).collect::<Vec<_>>(), [3]);
}

#[test]
fn the_slower_of_two_shapers_inside_each_other_decides() {
    // 40 packets of 1500 bytes at once: the last leaves after 39 packets' time at the lower rate. Where that is the
    // bucket's, its burst of four comes off. 20 µs are those of the link below.
    let burst: Vec<_> = (0..40).map(|i| (ms(100), packet(i, 0, 1500))).collect();
    for (outer, inner, last_us) in [(4e6, 2e6, 39 * 6000), (2e6, 4e6, 36 * 6000)] {
        let cake = queue("cake", &[("rate_bps", number(inner))]);
        let mut bucket = shaped(outer, cake);
        bucket.params.insert("burst".into(), number(6000.0));
        let spec = LinkSpec { rate_bps: Some(600_000_000), queue: bucket, ..plain() };
        let (book, fate) = run(&mut build(&spec), &burst);
        // COBALT drops packets that wait long; the rest still leaves at the rate.
        let (count, end) = (book.arrivals.len() as u64, book.arrivals.last().expect("some leave").0);
        let expected = last_us - (40 - count) * 6000 + 20;
        assert_eq!(count + fate.drops.len() as u64, 40);
        assert!(end.as_us().abs_diff(100_000 + expected) <= 1, "{outer} around {inner}: {end:?} {count}");
    }
}

#[test]
fn an_inner_queue_is_refused_where_there_is_none() {
    let field =
        |queue: QueueSpec| Link::build(&LinkSpec { queue, ..plain() }, 2, 1).map(|_| ()).unwrap_err().field;
    let inside = |outer: QueueSpec, inner| QueueSpec { inner: Some(Box::new(inner)), ..outer };
    assert_eq!(field(inside(queue("codel", &[]), queue("fifo", &[]))), "links[2].queue.inner");
    assert_eq!(field(shaped(1e6, queue("token_bucket", &[]))), "links[2].queue.inner");
    assert_eq!(field(shaped(1e6, queue("nosuch", &[]))), "links[2].queue.inner.discipline");
    let target = queue("codel", &[("target_ms", number(-1.0))]);
    assert_eq!(field(shaped(1e6, target)), "links[2].queue.inner.params.target");
    let both = inside(queue("token_bucket", &[("limit_bytes", number(9000.0))]), queue("fifo", &[]));
    assert_eq!(field(both), "links[2].queue.params.limit_bytes");
    let narrow = shaped(1e6, queue("fifo", &[("limit_bytes", number(1000.0))]));
    let spec = LinkSpec { queue: narrow, ..plain() };
    let error = build(&spec).must_take(&spec, 2, 1500).unwrap_err();
    assert_eq!(error.field, "links[2].queue.inner.params.limit_bytes");
}

/// Reno-like flows through the queue, one window each: the mean queueing delay over the second half of 120 s, in
/// ms.
fn settled_delay_ms(discipline: &str, params: &[(&str, Value)], flows: usize) -> f64 {
    let spec = LinkSpec { queue: queue(discipline, params), ..plain() };
    let (mut link, mut fate, mut book) = (build(&spec), Fate::default(), Notebook::default());
    let mut window = vec![2.0f64; flows];
    // When each flow sends its next packet: windows are spread over the round trip.
    let mut next: Vec<f64> = (0..flows).map(|flow| 0.001 * flow as f64).collect();
    let (mut sum, mut n) = (0.0, 0.0);
    let mut slot = 0;
    loop {
        let flow = (0..flows).min_by(|&a, &b| next[a].total_cmp(&next[b])).unwrap();
        let at = next[flow];
        if at > 120.0 {
            return sum / n * 1000.0;
        }
        let now = Time::ZERO + Duration::from_secs_f64(at);
        link.advance(now, &mut fate, &mut book);
        link.push(Packet { ecn: Ecn::Ect0, ..packet(slot, flow as u32, 1500) }, now, &mut fate, &mut ());
        slot += 1;
        let queueing = link.backlog().bytes as f64 * 8.0 / 1e7;
        if at > 60.0 {
            (sum, n) = (sum + queueing, n + 1.0);
        }
        window[flow] += 1.0 / window[flow];
        for packet in fate.drops.iter().map(|(packet, _)| packet).chain(&fate.marks) {
            let cut = &mut window[packet.flow.0 as usize];
            *cut = (*cut / 2.0).max(1.0);
        }
        fate.clear();
        book.arrivals.clear();
        next[flow] = at + (0.04 + queueing) / window[flow];
    }
}

#[test]
fn a_flow_that_is_alone_in_fq_pie_is_in_linux_pie() {
    for target in [15.0, 30.0] {
        let common = [("ecn", Value::Flag(true)), ("target_ms", number(target))];
        let linux = [common[0].clone(), common[1].clone(), ("variant", name("linux"))];
        let pie = settled_delay_ms("pie", &linux, 1);
        let fq_pie = settled_delay_ms("fq_pie", &common, 1);
        // Their draws are not the same, so their sawteeth are not either.
        assert!((fq_pie / pie - 1.0).abs() < 0.1, "target {target}: FQ-PIE {fq_pie} ms, PIE {pie} ms");
        assert!((fq_pie / target - 1.0).abs() < 0.15, "{fq_pie} ms, not {target}");
    }
}

#[test]
fn managed_queues_settle_at_their_targets() {
    // Controllers with an integral term hold their target under any load; a FIFO does not.
    for flows in [2, 5, 10] {
        let pie = settled_delay_ms("pie", &[("ecn", Value::Flag(true))], flows);
        assert!((13.0..17.0).contains(&pie), "PIE, {flows} flows: {pie} ms, not 15");
        let dualpi2 = settled_delay_ms("dualpi2", &[], flows);
        assert!((13.0..17.0).contains(&dualpi2), "DualPI2, {flows} flows: {dualpi2} ms, not 15");
        let fifo = settled_delay_ms("fifo", &[("limit_bytes", number(150_000.0))], flows);
        assert!((60.0..120.0).contains(&fifo), "FIFO, {flows} flows: {fifo} ms of 120");
    }
    // CoDel lets a lone flow's sawtooth below target pass and holds the rest near it.
    let codel = settled_delay_ms("codel", &[], 2);
    assert!((1.0..10.0).contains(&codel), "CoDel: {codel} ms");
}

#[test]
fn a_queue_that_never_takes_a_full_packet_is_found_out() {
    let problem = |discipline: &str, params: &[(&str, Value)], bytes: u32| {
        let spec = LinkSpec { queue: queue(discipline, params), ..plain() };
        build(&spec).must_take(&spec, 3, bytes).err().map(|error| error.field)
    };
    let small = [("limit_bytes", number(1499.0))];
    assert_eq!(problem("fifo", &small, 1500).as_deref(), Some("links[3].queue.params.limit_bytes"));
    assert_eq!(problem("fifo", &small, 1499), None);
    assert_eq!(problem("fifo", &[small[0].clone(), ("accept", name("below"))], 1500), None);
    // ns-2 holds one packet less than its limit: a limit of one accepts none.
    let ns2 = [("limit_packets", number(1.0)), ("accept", name("ns2"))];
    assert_eq!(problem("fifo", &ns2, 40).as_deref(), Some("links[3].queue.params.limit_packets"));
    let bucket = [("burst", number(1000.0))];
    assert_eq!(problem("token_bucket", &bucket, 1500).as_deref(), Some("links[3].queue.params.burst"));
    assert_eq!(problem("codel", &[], 65_535), None);
}
