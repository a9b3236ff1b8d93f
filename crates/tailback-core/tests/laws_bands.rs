//! Laws of bands: which band sends next, the share of each, and which descriptions are refused.

use crate::common::links::{self, build, ms, name, number, packet, plain, queue, run};
use tailback_core::packet::Packet;
use tailback_core::queue::registry::{self, Context, Queue, Surroundings};
use tailback_core::queue::{Fate, QueueDiscipline, refuse_too_small};
use tailback_core::scenario::{BandSpec, FlowSpec, LinkSpec, QueueSpec, ScenarioError};
use tailback_core::time::{Duration, Time};

const FLOWS: [&str; 3] = ["best", "bulk", "game"];

fn made(spec: &QueueSpec) -> Result<Queue, ScenarioError> {
    let flows: Vec<FlowSpec> = FLOWS.into_iter().map(links::flow).collect();
    let context = Context { flows: &flows, ..Context::default() };
    registry::build(spec, "links[0].queue", &Surroundings { rate: None, seed: 1, link: "down", context })
}

/// A band for these flows; an empty text stands for all flows that no other band names.
fn band(flows: &str) -> BandSpec {
    BandSpec { flows: flows.split_whitespace().map(String::from).collect(), ..BandSpec::default() }
}

fn banded(discipline: &str, bands: Vec<BandSpec>) -> QueueSpec {
    QueueSpec { bands, ..queue(discipline, &[]) }
}

fn within(queue: QueueSpec, band: BandSpec) -> BandSpec {
    BandSpec { queue: Some(queue), ..band }
}

fn offer(queue: &mut Queue, now: Time, packet: Packet) {
    queue.enqueue(Packet { enqueued: now, ..packet }, now, &mut Fate::default());
}

#[test]
fn the_first_band_that_holds_packets_sends() {
    let by_name = banded("prio", vec![band("game"), band("best"), band("")]);
    let mut by_mark = banded("prio", vec![band(""), band("best"), band("")]);
    by_mark.params.insert("dscp".into(), name("game=ef"));
    by_mark.bands[0].dscp = vec!["46".into()];
    // Linux's own three: 4 is interactive and 2 is bulk by tc-prio(8).
    let by_default = queue("prio", &[("dscp", name("game=4 bulk=2"))]);
    for spec in [by_name, by_mark, by_default] {
        let mut queue = made(&spec).unwrap();
        (0..9).for_each(|slot| offer(&mut queue, ms(0), packet(slot, slot % 3, 1500)));
        assert_eq!(queue.backlog().packets, 9);
        let out: Vec<u32> =
            std::iter::from_fn(|| queue.dequeue(ms(0), &mut Fate::default())).map(|sent| sent.slot).collect();
        assert_eq!(out, [2, 5, 8, 0, 3, 6, 1, 4, 7]);
    }
}

#[test]
fn a_shaped_band_lets_the_others_send_until_it_has_tokens() {
    // 1 Mbit/s and a burst of one packet: one of 1500 bytes each 12 ms.
    let bucket = queue("token_bucket", &[("rate_bps", number(1e6)), ("burst", number(1500.0))]);
    let mut queue = made(&banded("prio", vec![within(bucket, band("game")), band("")])).unwrap();
    assert!(queue.holds_back());
    (0..3).for_each(|slot| offer(&mut queue, ms(0), packet(slot, 2, 1500)));
    (3..5).for_each(|slot| offer(&mut queue, ms(0), packet(slot, 0, 1500)));
    let mut fate = Fate::default();
    let mut next = |queue: &mut Queue, now| queue.dequeue(now, &mut fate).map(|sent| sent.slot);
    assert_eq!(queue.ready_at(ms(0)), None, "a band without a shaper may send at once");
    assert_eq!(
        [next(&mut queue, ms(0)), next(&mut queue, ms(1)), next(&mut queue, ms(2))],
        [Some(0), Some(3), Some(4)]
    );
    assert_eq!(next(&mut queue, ms(3)), None);
    assert_eq!(queue.ready_at(ms(3)), Some(ms(12)));
    assert_eq!(
        [next(&mut queue, ms(12)), next(&mut queue, ms(23)), next(&mut queue, ms(24))],
        [Some(1), None, Some(2)]
    );
}

#[test]
fn what_bands_get_by_turns_differs_by_less_than_a_quantum_and_a_packet() {
    // Shreedhar and Varghese 1995, lemma 2: a backlogged flow's bytes are within a largest packet of its quanta.
    let share = |flows, quantum| BandSpec { quantum: Some(quantum), ..band(flows) };
    let codel = within(queue("codel", &[]), share("bulk", 3000));
    let sizes = [1500, 1000, 200];
    let quanta = [1500u64, 3000, 700];
    let mut queue = made(&banded("drr", vec![share("best", 1500), codel, share("game", 700)])).unwrap();
    let (mut got, mut slot) = ([0u64; 3], 0);
    for step in 0..20_000u64 {
        // Every band always has packets waiting.
        let now = Time::ZERO + Duration::from_us(step);
        for flow in 0..3 {
            if step == 0 {
                (0..9).for_each(|_| offer(&mut queue, now, packet(slot, flow, sizes[flow as usize])));
            }
        }
        let sent = queue.dequeue(now, &mut Fate::default()).expect("it holds packets");
        let flow = sent.flow.0 as usize;
        got[flow] += u64::from(sent.bytes);
        offer(&mut queue, now, packet(slot, flow as u32, sizes[flow]));
        slot += 1;
    }
    for a in 0..3 {
        for b in 0..3 {
            let rounds = |flow: usize| got[flow] as f64 / quanta[flow] as f64;
            let most = 1.0 + 1500.0 / quanta[a] as f64 + 1500.0 / quanta[b] as f64;
            assert!((rounds(a) - rounds(b)).abs() <= most, "{got:?}");
        }
    }
}

#[test]
fn a_discipline_alone_in_a_band_is_that_discipline() {
    let burst: Vec<_> = (0..3000).map(|i| (ms(u64::from(i)), packet(i, i % 3, 1500))).collect();
    for inner in [queue("codel", &[]), queue("fifo", &[("limit_packets", number(20.0))]), queue("pie", &[])] {
        let alone = run(&mut build(&LinkSpec { queue: inner.clone(), ..plain() }), &burst);
        for outer in ["prio", "drr"] {
            let spec = banded(outer, vec![within(inner.clone(), band(""))]);
            let inside = run(&mut build(&LinkSpec { queue: spec, ..plain() }), &burst);
            assert!(!alone.1.drops.is_empty());
            if inner.discipline == "pie" {
                // Its lots are of the band's own seed.
                assert!(inside.1.drops.len().abs_diff(alone.1.drops.len()) < 200, "{outer}");
            } else {
                assert_eq!(inside.0.arrivals, alone.0.arrivals, "{outer} {}", inner.discipline);
            }
        }
    }
}

#[test]
fn each_mistake_is_refused_at_its_field() {
    let refused = |spec: QueueSpec| made(&spec).expect_err("it is wrong");
    let dscp = |word: &str| BandSpec { dscp: vec![word.into()], ..BandSpec::default() };
    let shaper = || queue("token_bucket", &[("rate_bps", number(1e6))]);
    let cases = [
        (banded("codel", vec![band("")]), "bands", "codel has no bands"),
        (banded("prio", vec![band(""), band("best")]), "bands[0]", "names neither flows nor DSCPs"),
        (banded("prio", vec![band("web"), band("")]), "bands[0].flows", "no flow called web"),
        (
            banded("prio", vec![band("best"), band("best")]),
            "bands[1].flows",
            "bands[0] names this flow already",
        ),
        (banded("prio", vec![dscp("fast"), band("")]), "bands[0].dscp", "this is no DSCP"),
        (
            banded("drr", vec![dscp("ef"), dscp("46"), band("")]),
            "bands[1].dscp",
            "bands[0] takes this DSCP already",
        ),
        (
            banded("drr", vec![within(shaper(), band("best")), band("")]),
            "bands[0].queue",
            "must send when its turn",
        ),
        (
            banded("drr", vec![band("best"), within(banded("prio", vec![dscp("x"), band("")]), band(""))]),
            "bands[1].queue.bands[0].dscp",
            "this is no DSCP",
        ),
        (
            banded("prio", (0..257).map(|_| band("best")).collect()),
            "bands",
            "257 bands are more than the 256",
        ),
    ];
    for (spec, field, problem) in cases {
        let error = refused(spec);
        assert_eq!(error.field, format!("links[0].queue.{field}"));
        assert!(error.problem.contains(problem), "{}", error.problem);
    }
    let short = within(queue("fifo", &[("limit_bytes", number(400.0))]), band("best"));
    let spec = banded("prio", vec![short, band("")]);
    let error = refuse_too_small(&made(&spec).unwrap(), &spec, "links[0].queue", 1500).unwrap_err();
    assert_eq!(error.field, "links[0].queue.bands[0].queue.params.limit_bytes");
}
