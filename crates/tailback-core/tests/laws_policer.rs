//! Laws of the policer: a token bucket in front of a link's queue that drops and never delays.

use crate::common::links::{Event, build, ms, packet, plain, queue, run, run_late};
use proptest::prelude::*;
use tailback_core::link::Link;
use tailback_core::packet::Packet;
use tailback_core::queue::DropReason;
use tailback_core::scenario::{LinkSpec, MediumSpec, Params, PolicerSpec};
use tailback_core::time::{Duration, Time};

/// No rate, so no queue: packets that pass arrive at once.
fn policed(rate_bps: u64, burst_bytes: u64) -> LinkSpec {
    LinkSpec { rate_bps: None, policer: Some(PolicerSpec { rate_bps, burst_bytes }), ..plain() }
}

/// Times and sizes of the packets that pass.
fn passed(spec: &LinkSpec, offered: &[(Time, Packet)]) -> Vec<(Time, u64)> {
    let (book, _) = run(&mut build(spec), offered);
    book.arrivals.iter().map(|&(at, slot)| (at, u64::from(offered[slot as usize].1.bytes))).collect()
}

#[test]
fn a_sender_that_offers_more_gets_the_rate() {
    // 10 s of 12 Mbit/s at a policer of 8 Mbit/s with 30 kB: 1500 bytes each ms.
    let offered: Vec<_> = (0..10_000).map(|i| (ms(u64::from(i)), packet(i, 0, 1500))).collect();
    let bytes: u64 = passed(&policed(8_000_000, 30_000), &offered).iter().map(|(_, bytes)| bytes).sum();
    // The rate until the last packet, plus the initial bucket; at the end the bucket holds less than a packet.
    let most = 30_000 + 9_999 * 1_000;
    assert!(bytes <= most && most - bytes < 1_500, "{bytes} of {most}");
}

#[test]
fn a_sender_below_the_rate_loses_nothing() {
    let offered: Vec<_> = (0..1_000).map(|i| (ms(2 * u64::from(i)), packet(i, 0, 1500))).collect();
    assert_eq!(passed(&policed(6_000_000, 1_500), &offered).len(), 1_000);
}

#[test]
fn what_passes_is_not_delayed_and_the_rest_is_dropped_as_policed() {
    // A bucket of three packets and a gain of one each ms: of five at once two are dropped, one ms later one passes.
    let spec = LinkSpec { delay_ps: Duration::from_ms(3).as_ps(), ..policed(12_000_000, 4_500) };
    let mut offered: Vec<_> = (0..5).map(|i| (ms(0), packet(i, 0, 1500))).collect();
    offered.extend([(ms(1), packet(5, 0, 1500)), (ms(1), packet(6, 0, 1500))]);
    let mut link = build(&spec);
    let (book, fate) = run(&mut link, &offered);
    assert_eq!(book.arrivals, [(ms(3), 0), (ms(3), 1), (ms(3), 2), (ms(4), 5)]);
    assert_eq!(
        fate.drops.iter().map(|(packet, why)| (packet.slot, *why)).collect::<Vec<_>>(),
        [(3, DropReason::Policer), (4, DropReason::Policer), (6, DropReason::Policer)]
    );
    assert!(book.events.iter().all(|event| matches!(event.1, Event::Drop(DropReason::Policer))));
    assert_eq!((link.count().arrived, link.count().delivered, link.count().dropped), (7, 4, 3));
}

#[test]
fn a_packet_that_is_refused_takes_no_tokens() {
    // 1000 bytes in the bucket: the large packet does not fit, the small one does.
    let spec = policed(8_000, 1_000);
    let offered = [(ms(0), packet(0, 0, 1500)), (ms(0), packet(1, 0, 1000))];
    assert_eq!(passed(&spec, &offered), [(ms(0), 1000)]);
    assert!(Link::build(&spec, 0, 1).unwrap().must_take(&spec, 0, 1500).is_err());
}

#[test]
fn what_passes_meets_the_queue_as_anything_else() {
    let spec = LinkSpec { policer: Some(PolicerSpec { rate_bps: 1_000_000, burst_bytes: 3_000 }), ..plain() };
    let offered: Vec<_> = (0..4).map(|i| (ms(0), packet(i, 0, 1500))).collect();
    // 1.2 ms a packet at 10 Mbit/s.
    let arrivals = run(&mut build(&spec), &offered).0.arrivals;
    assert_eq!(arrivals, [(Time::from_us(1200), 0), (Time::from_us(2400), 1)]);
}

#[test]
fn a_medium_that_others_serve_refuses_a_policer() {
    let medium = MediumSpec { name: "wifi".into(), params: Params::new(), channel: None, flow: None };
    let spec = LinkSpec { medium: Some(medium), ..policed(8_000_000, 3_000) };
    let error = Link::build(&spec, 0, 1).unwrap_err();
    assert_eq!(error.field, "links[0].policer");
    assert!(error.fix.contains("a link of its own"), "{error}");
}

proptest! {
    /// In any interval of length t at most burst + rate·t passes, whatever is offered and whenever the host advances
    /// the link.
    #[test]
    fn no_interval_has_more_than_burst_and_rate(
        rate in 100_000u64..50_000_000,
        burst in 1_500u64..20_000,
        offered in prop::collection::vec((0u64..3_000, 40u32..1500), 1..120),
    ) {
        let mut now = Time::ZERO;
        let offered: Vec<_> = (0..).zip(&offered).map(|(slot, &(gap_us, bytes))| {
            now += Duration::from_us(gap_us);
            (now, packet(slot, 0, bytes))
        }).collect();
        let spec = policed(rate, burst);
        let through = passed(&spec, &offered);
        for first in 0..through.len() {
            let mut bytes = 0;
            for &(at, size) in &through[first..] {
                bytes += u128::from(size);
                let span = u128::from(at.since(through[first].0).as_ps());
                let most = u128::from(burst) * 8_000_000_000_000 + u128::from(rate) * span;
                prop_assert!(bytes * 8_000_000_000_000 <= most);
            }
        }
        // Any queue may follow the policer; a host that wakes late must see the same outcomes.
        for discipline in ["fifo", "codel", "fq_codel"] {
            let spec = LinkSpec { rate_bps: Some(rate), queue: queue(discipline, &[]), ..spec.clone() };
            let (prompt, fate) = run(&mut build(&spec), &offered);
            let (late, late_fate) = run_late(&mut build(&spec), &offered, ms(1_000_000));
            prop_assert_eq!(&prompt.arrivals, &late.arrivals);
            prop_assert_eq!(fate.drops.len(), late_fate.drops.len());
        }
    }
}
