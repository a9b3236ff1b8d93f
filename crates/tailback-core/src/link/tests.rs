//! The two ways of serving a tail-drop queue, side by side.

use super::{Host, Link, Watch};
use crate::packet::{Ecn, FlowId, Packet};
use crate::queue::{Backlog, DropReason, Fate};
use crate::scenario::{LinkSpec, Value, WireSpec};
use crate::time::{Duration, Time};
use proptest::prelude::*;

/// Everything a host can see.
#[derive(Default, PartialEq, Debug)]
struct Book(Vec<(Time, &'static str, u32, Backlog)>);

/// Slots of copies lie beyond all others.
const COPIES: u32 = 1 << 20;

impl Watch for Book {
    fn on_enqueue(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        self.0.push((at, "enqueue", packet.slot, backlog));
    }
    fn on_dequeue(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        self.0.push((at, "dequeue", packet.slot, backlog));
    }
    fn on_drop(&mut self, at: Time, packet: &Packet, backlog: Backlog, reason: DropReason) {
        let event = match reason {
            DropReason::Wire => "lose",
            _ => "drop",
        };
        self.0.push((at, event, packet.slot, backlog));
    }
}

impl Host for Book {
    fn deliver(&mut self, due: Time, packet: Packet) {
        self.0.push((
            due,
            "deliver",
            packet.slot,
            Backlog { packets: packet.bytes, bytes: packet.enqueued.as_ps() },
        ));
    }
    fn duplicate(&mut self, packet: &Packet) -> Packet {
        Packet { slot: packet.slot + COPIES, ..*packet }
    }
}

fn links() -> impl Strategy<Value = Link> {
    let rate = prop_oneof![Just(8_000_000u64), Just(7_777_777)];
    let limit = prop_oneof![
        Just(None),
        (1_500.0..9_000.0f64).prop_map(|bytes| Some(("limit_bytes", bytes.floor()))),
        (1.0..9.0f64).prop_map(|packets| Some(("limit_packets", packets.floor()))),
    ];
    let choice = |of: &'static [&'static str]| prop::sample::select(of);
    let delay = prop_oneof![Just(0u64), Just(700), Just(20_000)];
    let rule = (choice(&["fits", "below", "ns2"]), choice(&["counted", "not-counted"]));
    let wire = prop_oneof![
        2 => Just(WireSpec::default()),
        1 => Just(WireSpec { loss: 0.3, ..WireSpec::default() }),
        1 => Just(WireSpec { loss: 1.0, ..WireSpec::default() }),
        1 => Just(WireSpec { bit_error: 1e-4, duplicate: 0.3, ..WireSpec::default() }),
        1 => Just(WireSpec { burst_start: 0.2, burst_end: 0.3, burst_loss: 0.9, ..WireSpec::default() }),
    ];
    (rate, delay, limit, rule, wire).prop_map(|(rate, delay_us, limit, (accept, in_service), wire)| {
        let mut spec = LinkSpec { name: "link".into(), rate_bps: Some(rate), ..LinkSpec::default() };
        spec.delay_ps = Duration::from_us(delay_us).as_ps();
        spec.wire = wire;
        spec.queue.params.insert("accept".into(), Value::Name(accept.into()));
        spec.queue.params.insert("in_service".into(), Value::Name(in_service.into()));
        if let Some((name, value)) = limit {
            spec.queue.params.insert(name.into(), Value::Number(value));
        }
        Link::build(&spec, 0, 1).expect("a sound link")
    })
}

proptest! {
    #[test]
    fn foreseen_or_asked_at_each_departure_is_the_same(
        link in links(),
        steps in prop::collection::vec((0u32..3, 0u64..2_000, 40u32..1500), 1..200),
    ) {
        let (one, mut other) = (link.clone(), link);
        prop_assert!(one.is_foreseen());
        other.ask_at_each_departure();
        let mut sides = [(one, Book::default(), Fate::default()), (other, Book::default(), Fate::default())];
        let mut now = Time::ZERO;
        for (slot, (step, gap, bytes)) in (0..).zip(steps) {
            // Bursts, pauses, and calls in the middle of a transmission.
            now += if step == 0 { Duration::from_us(gap) } else { Duration::ZERO };
            for (link, book, fate) in &mut sides {
                let packet = Packet {
                    slot, flow: FlowId(0), bytes, ecn: Ecn::NotEct, hop: 0, is_reverse: false, conversation: 0, enqueued: Time::ZERO,
                };
                let before = link.next_wake();
                match step {
                    0 => {
                        let next = link.advance(now, fate, book);
                        prop_assert_eq!(next, link.next_wake());
                    }
                    1 => {
                        let next = link.push(packet, now, fate, book);
                        prop_assert_eq!(next.unwrap_or(before), link.next_wake());
                    }
                    _ => link.settle(now, fate, book),
                }
            }
            let [(one, book, fate), (other, other_book, other_fate)] = &sides;
            prop_assert_eq!(book, other_book);
            prop_assert_eq!(format!("{:?}", fate), format!("{:?}", other_fate));
            prop_assert_eq!(one.count(), other.count());
            prop_assert_eq!(one.next_wake(), other.next_wake());
            prop_assert_eq!((one.backlog(), one.in_service()), (other.backlog(), other.in_service()));
            prop_assert_eq!((one.resident(), one.busy()), (other.resident(), other.busy()));
            prop_assert_eq!(one.backlog_mean().to_bits(), other.backlog_mean().to_bits());
            prop_assert_eq!(one.backlog_max(), other.backlog_max());
        }
    }
}
