//! Laws of links that change signals: bleached ECN bits, per-packet jitter, and ACKs that are held back or thinned.

use crate::common::links::{self, build, ms, name, number, packet, plain, queue, run_late, run_restless};
use proptest::prelude::*;
use tailback_core::link::{Host, Link, Watch};
use tailback_core::packet::{Acknowledgement, Ecn, Packet};
use tailback_core::queue::{Backlog, DropReason, Fate};
use tailback_core::scenario::{Bleach, Distribution, LinkSpec, NetemSpec, WireSpec};
use tailback_core::time::{Duration, Time};

/// Records each packet that arrives; a packet of 52 bytes is an acknowledgement, one of 64 bytes has SACK blocks.
#[derive(Default)]
struct Receiver {
    arrivals: Vec<(Time, Packet)>,
    drops: Vec<(u32, DropReason)>,
}

impl Watch for Receiver {
    fn on_drop(&mut self, _at: Time, packet: &Packet, _backlog: Backlog, reason: DropReason) {
        self.drops.push((packet.slot, reason));
    }
    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        const ACK: u16 = 0x10;
        let sack_count = u8::from(packet.bytes == 64);
        let ack = Acknowledgement { flags: ACK, sack_count, ..Acknowledgement::default() };
        [52, 64].contains(&packet.bytes).then_some(ack)
    }
}

impl Host for Receiver {
    fn deliver(&mut self, due: Time, packet: Packet) {
        self.arrivals.push((due, packet));
    }
    fn duplicate(&mut self, packet: &Packet) -> Packet {
        Packet { slot: packet.slot + (1 << 20), ..*packet }
    }
}

fn cross(link: &mut Link, offered: &[(Time, Packet)]) -> Receiver {
    let (mut receiver, mut fate) = (Receiver::default(), Fate::default());
    for &(at, packet) in offered {
        while link.next_wake() <= at {
            link.advance(link.next_wake(), &mut fate, &mut receiver);
        }
        link.push(packet, at, &mut fate, &mut receiver);
    }
    while link.next_wake() != Time::NEVER {
        link.advance(link.next_wake(), &mut fate, &mut receiver);
    }
    receiver
}

fn wired(wire: WireSpec) -> LinkSpec {
    LinkSpec { rate_bps: None, wire, ..plain() }
}

fn slots(receiver: &Receiver) -> Vec<(Time, u32)> {
    receiver.arrivals.iter().map(|(at, packet)| (*at, packet.slot)).collect()
}

// -- bleaching

const CODEPOINTS: [Ecn; 4] = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];

#[test]
fn bleaching_clears_the_codepoints_it_names_and_no_others() {
    for (bleach, expected) in [
        (Bleach::Ce, [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::NotEct]),
        (Bleach::Ect1, [Ecn::NotEct, Ecn::NotEct, Ecn::Ect0, Ecn::Ce]),
        (Bleach::All, [Ecn::NotEct; 4]),
    ] {
        for bleach_before_queue in [false, true] {
            for rate_bps in [None, Some(10_000_000)] {
                let wire = WireSpec { bleach: Some(bleach), bleach_before_queue, ..WireSpec::default() };
                let offered: Vec<_> = (0..)
                    .zip(CODEPOINTS)
                    .map(|(i, ecn)| (ms(0), Packet { ecn, ..packet(i, 0, 1500) }))
                    .collect();
                let receiver = cross(&mut build(&LinkSpec { rate_bps, ..wired(wire) }), &offered);
                let seen: Vec<Ecn> = receiver.arrivals.iter().map(|(_, packet)| packet.ecn).collect();
                assert_eq!(seen, expected, "{bleach:?}");
            }
        }
    }
}

/// Results of CoDel under an ECN-capable overload at 1 Mbit/s: marks, drops, and CE marks that arrived.
fn overload(bleach: Option<Bleach>, bleach_before_queue: bool) -> (u64, usize, usize) {
    let codel =
        queue("codel", &[("variant", name("linux")), ("ecn", tailback_core::scenario::Value::Flag(true))]);
    let wire = WireSpec { bleach, bleach_before_queue, ..WireSpec::default() };
    let mut link = build(&LinkSpec { rate_bps: Some(1_000_000), queue: codel, wire, ..plain() });
    let offered: Vec<_> =
        (0..600).map(|i| (ms(6 * u64::from(i)), Packet { ecn: Ecn::Ect0, ..packet(i, 0, 1500) })).collect();
    let receiver = cross(&mut link, &offered);
    let arrived = receiver.arrivals.iter().filter(|(_, packet)| packet.ecn == Ecn::Ce).count();
    (link.count().marked, receiver.drops.len(), arrived)
}

#[test]
fn before_the_queue_marks_become_drops_and_behind_it_they_vanish() {
    let (marks, drops, arrived) = overload(None, false);
    assert!(marks > 5 && drops == 0 && arrived == marks as usize, "{marks} {drops} {arrived}");
    assert_eq!(overload(Some(Bleach::Ce), false), (marks, 0, 0));
    // In front of the queue no packet is marked CE yet.
    assert_eq!(overload(Some(Bleach::Ce), true), (marks, 0, arrived));
    let (marks, drops, arrived) = overload(Some(Bleach::All), true);
    assert!(marks == 0 && drops > 5 && arrived == 0, "{marks} {drops} {arrived}");
}

// -- netem's jitter

fn netem(jitter_ms: u64, distribution: Distribution) -> WireSpec {
    let jitter =
        NetemSpec { jitter_ps: Duration::from_ms(jitter_ms).as_ps(), distribution, correlation: 0.0 };
    WireSpec { netem_jitter: Some(jitter), ..WireSpec::default() }
}

#[test]
fn packets_overtake_as_often_as_their_delays_say() {
    // Uniform over 2σ = 20 ms, packets g apart: the next one arrives first with probability (1 − g/2σ)²/2.
    for (gap_ms, share) in [(2u64, 0.405), (10, 0.125), (16, 0.02)] {
        let spec =
            LinkSpec { delay_ps: Duration::from_ms(50).as_ps(), ..wired(netem(10, Distribution::Uniform)) };
        let n = 40_000u32;
        let offered: Vec<_> = (0..n).map(|i| (ms(gap_ms * u64::from(i)), packet(i, 0, 1500))).collect();
        let mut receiver = cross(&mut build(&spec), &offered);
        receiver.arrivals.sort_by_key(|(_, packet)| packet.slot);
        let overtaken = receiver.arrivals.windows(2).filter(|pair| pair[1].0 < pair[0].0).count() as f64;
        // Neighbouring pairs share a packet: at most three times the variance of independent ones; five deviations.
        let deviation = (3.0 * share * (1.0 - share) / f64::from(n)).sqrt();
        assert!((overtaken / f64::from(n) - share).abs() < 5.0 * deviation, "{gap_ms} ms: {overtaken}");
    }
}

#[test]
fn jitter_in_order_has_the_same_range_and_overtakes_never() {
    let spec = |wire| LinkSpec { delay_ps: Duration::from_ms(50).as_ps(), ..wired(wire) };
    let offered: Vec<_> = (0..5_000).map(|i| (ms(u64::from(i)), packet(i, 0, 1500))).collect();
    let kept = spec(WireSpec { jitter_ps: Duration::from_ms(20).as_ps(), ..WireSpec::default() });
    let in_order = cross(&mut build(&kept), &offered);
    let drawn = cross(&mut build(&spec(netem(10, Distribution::Uniform))), &offered);
    assert!(in_order.arrivals.windows(2).all(|pair| pair[0].1.slot < pair[1].1.slot));
    assert!(!drawn.arrivals.windows(2).all(|pair| pair[0].1.slot < pair[1].1.slot));
    for (receiver, low, high) in [(in_order, 50, 70), (drawn, 40, 60)] {
        assert_eq!(receiver.arrivals.len(), 5_000);
        for (at, packet) in &receiver.arrivals {
            let delay = at.since(ms(u64::from(packet.slot)));
            assert!(Duration::from_ms(low) <= delay && delay <= Duration::from_ms(high));
        }
    }
}

// -- acknowledgements

fn held(hold_ms: u64, every: Option<u32>) -> LinkSpec {
    let ack_hold_ps = Duration::from_ms(hold_ms).as_ps();
    wired(WireSpec { ack_hold_ps, ack_every: every, ..WireSpec::default() })
}

#[test]
fn acknowledgements_held_leave_together_and_all_of_them() {
    let offered: Vec<_> = (0..10).map(|i| (ms(u64::from(i)), packet(i, 0, 52))).collect();
    let spec = LinkSpec { delay_ps: Duration::from_ms(3).as_ps(), ..held(5, None) };
    // The first of a hold waits 5 ms, and so do the four after it until then.
    let expected: Vec<_> = (0..10u32).map(|i| (ms(3 + if i < 5 { 5 } else { 10 }), i)).collect();
    assert_eq!(slots(&cross(&mut build(&spec), &offered)), expected);
}

#[test]
fn one_in_four_goes_on_at_once_and_the_last_waits_the_hold() {
    let offered: Vec<_> = (0..10).map(|i| (ms(u64::from(i)), packet(i, 0, 52))).collect();
    let mut link = build(&held(100, Some(4)));
    let receiver = cross(&mut link, &offered);
    // The hold of the last two began with the ninth.
    assert_eq!(slots(&receiver), [(ms(3), 3), (ms(7), 7), (ms(108), 9)]);
    let thinned: Vec<u32> = receiver.drops.iter().map(|(slot, _)| *slot).collect();
    assert_eq!(thinned, [0, 1, 2, 4, 5, 6, 8]);
    assert!(receiver.drops.iter().all(|(_, reason)| *reason == DropReason::Thinned));
    assert_eq!((link.count().arrived, link.count().delivered, link.count().dropped), (10, 3, 7));
}

#[test]
fn data_and_sack_blocks_are_never_replaced_and_connections_do_not_share_a_hold() {
    let other = |slot| Packet { conversation: 1, ..packet(slot, 0, 52) };
    let offered = [
        (ms(0), packet(0, 0, 52)),
        (ms(1), packet(1, 0, 1500)),
        (ms(2), packet(2, 0, 64)),
        (ms(3), other(3)),
        (ms(4), packet(4, 1, 52)),
        (ms(5), packet(5, 0, 52)),
    ];
    let receiver = cross(&mut build(&held(10, Some(2))), &offered);
    // Packet 5 is the second of its connection: it takes the place of packet 0 and leaves at once.
    assert_eq!(slots(&receiver), [(ms(1), 1), (ms(2), 2), (ms(5), 5), (ms(13), 3), (ms(14), 4)]);
    assert_eq!(receiver.drops, [(0, DropReason::Thinned)]);
}

#[test]
fn what_makes_no_sense_is_refused_with_its_field() {
    let wrong = |wire: WireSpec| Link::build(&wired(wire), 0, 1).unwrap_err();
    let error = wrong(WireSpec { ack_every: Some(4), ..WireSpec::default() });
    assert!(error.field.ends_with("ack_every") && error.fix.contains("ack_hold"), "{error}");
    let error = wrong(WireSpec { bleach_before_queue: true, ..WireSpec::default() });
    assert!(error.field.ends_with("bleach_before_queue"), "{error}");
    let error = wrong(WireSpec { jitter_ps: 1, ..netem(10, Distribution::Normal) });
    assert!(error.field.ends_with("netem_jitter") && error.fix.contains("one of"), "{error}");
    let error = wrong(netem(2_148, Distribution::Uniform));
    assert!(error.field.ends_with("netem_jitter.jitter_ps"), "{error}");
}

// -- all of them

fn wires() -> impl Strategy<Value = WireSpec> {
    let jitter = prop_oneof![
        2 => Just(None),
        1 => Just(Some(Distribution::Uniform)),
        1 => Just(Some(Distribution::Normal)),
        1 => Just(Some(Distribution::Pareto)),
    ];
    let acks = prop_oneof![Just((0, None)), Just((3, None)), Just((3, Some(2))), Just((20, Some(5)))];
    (jitter, acks, any::<bool>(), prop_oneof![Just(0.0), Just(0.2)], prop_oneof![Just(0.0), Just(0.2)])
        .prop_map(|(jitter, (hold, every), bleaches, loss, duplicate)| WireSpec {
            ack_hold_ps: Duration::from_ms(hold).as_ps(),
            ack_every: every,
            bleach: bleaches.then_some(Bleach::All),
            loss,
            duplicate,
            ..jitter.map_or_else(WireSpec::default, |distribution| netem(4, distribution))
        })
}

proptest! {
    /// A host that wakes late or very often sees the same arrivals as one that wakes when asked, and the same outcomes.
    #[test]
    fn waking_late_changes_no_fate(
        wire in wires(),
        rate in prop_oneof![Just(None), Just(Some(3_000_000u64))],
        delay_ms in 0u64..8,
        discipline in prop::sample::select(&["fifo", "codel"][..]),
        offered in prop::collection::vec((0u64..4_000, prop::sample::select(&[52u32, 64, 1500][..])), 1..100),
    ) {
        let mut now = Time::ZERO;
        let offered: Vec<_> = (0..).zip(&offered).map(|(slot, &(gap_us, bytes))| {
            now += Duration::from_us(gap_us);
            (now, packet(slot, slot % 2, bytes))
        }).collect();
        let discipline = if rate.is_some() { discipline } else { "fifo" };
        let spec = LinkSpec {
            rate_bps: rate,
            delay_ps: Duration::from_ms(delay_ms).as_ps(),
            queue: queue(discipline, &[("limit_packets", number(50.0))]),
            ..wired(wire)
        };
        let spec = if rate.is_some() { spec } else { LinkSpec { queue: plain().queue, ..spec } };
        let receiver = cross(&mut build(&spec), &offered);
        let mut link = build(&spec);
        let prompt = links::run(&mut link, &offered).0.arrivals;
        let late = run_late(&mut build(&spec), &offered, ms(100_000)).0.arrivals;
        let restless = run_restless(&mut build(&spec), &offered, now + Duration::from_secs(2)).0.arrivals;
        prop_assert_eq!(&prompt, &late);
        prop_assert_eq!(&prompt, &restless);
        prop_assert!(prompt.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        let count = link.count();
        prop_assert_eq!(count.arrived + count.duplicated, count.delivered + count.dropped);
        // With acknowledgements among them, too: the laziest host sees the same, and all that is not dropped arrives.
        let (mut lazy, mut fate) = (Receiver::default(), Fate::default());
        let mut link = build(&spec);
        for &(at, packet) in &offered {
            link.push(packet, at, &mut fate, &mut lazy);
        }
        link.advance(ms(100_000), &mut fate, &mut lazy);
        prop_assert_eq!(slots(&receiver), slots(&lazy));
        let copies = receiver.arrivals.iter().filter(|(_, packet)| packet.slot >= 1 << 20).count();
        prop_assert_eq!(receiver.arrivals.len() + receiver.drops.len(), offered.len() + copies);
    }
}
