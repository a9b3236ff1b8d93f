//! The services with departures known ahead, compared with asking the queue at each departure.

use super::{Host, Link, Watch};
use crate::framing::{Framing, LinkLayer};
use crate::packet::{Ecn, FlowId, Packet};
use crate::queue::{Backlog, DropReason, Fate};
use crate::scenario::{LinkSpec, Value, WireSpec};
use crate::time::{Duration, Time};
use proptest::prelude::*;

/// Records everything that a host can observe.
#[derive(Default, PartialEq, Debug)]
struct Book(Vec<(Time, &'static str, u32, Backlog)>);

/// Slots of copies are above all others.
const COPIES: u32 = 1 << 20;

impl Watch for Book {
    fn on_enqueue(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        self.0.push((at, "enqueue", packet.slot, backlog));
    }
    fn on_dequeue(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        self.0.push((at, "dequeue", packet.slot, backlog));
    }
    fn on_mark(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        self.0.push((at, "mark", packet.slot, backlog));
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

/// Framings, of which half are plain.
fn framings() -> impl Strategy<Value = Framing> {
    let layer = prop::sample::select(&[LinkLayer::Ethernet, LinkLayer::Atm, LinkLayer::Ptm][..]);
    let framed = (-64..=256i32, 0..=256u32, layer).prop_map(|(overhead, mpu, linklayer)| Framing {
        overhead,
        mpu,
        linklayer,
    });
    prop_oneof![Just(Framing::default()), framed]
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
    (rate, delay, limit, rule, wire, framings()).prop_map(
        |(rate, delay_us, limit, (accept, in_service), wire, framing)| {
            let mut spec = LinkSpec { name: "link".into(), rate_bps: Some(rate), ..LinkSpec::default() };
            spec.delay_ps = Duration::from_us(delay_us).as_ps();
            (spec.wire, spec.framing) = (wire, framing);
            spec.queue.params.insert("accept".into(), Value::Name(accept.into()));
            spec.queue.params.insert("in_service".into(), Value::Name(in_service.into()));
            if let Some((name, value)) = limit {
                spec.queue.params.insert(name.into(), Value::Number(value));
            }
            Link::build(&spec, 0, 1).expect("a sound link")
        },
    )
}

/// A link at a fixed rate with any queue but a FIFO that only drops at the tail.
fn steady_links() -> impl Strategy<Value = Link> {
    let number = |name: &'static str, value: f64| (name.to_string(), Value::Number(value));
    let name = |name: &'static str, value: &str| (name.to_string(), Value::Name(value.into()));
    let flag = |name: &'static str, value: bool| (name.to_string(), Value::Flag(value));
    let codel = (
        prop::sample::select(&["rfc8289", "linux", "ns-3.27"][..]),
        (0.001..4.0f64, 0.01..20.0f64, any::<bool>()),
        (prop::option::of(0.5..4.0f64), prop::option::of(1u32..6), prop::option::of(500u32..6_000), 0u32..3),
    )
        .prop_map(move |(variant, (target, interval, ecn), (late, packets, bytes, device))| {
            let mut params = vec![
                name("variant", variant),
                number("target_ms", target),
                number("interval_ms", interval),
                number("mtu", 200.0),
                flag("ecn", ecn),
                number("device_packets", f64::from(device.saturating_sub(1))),
            ];
            params.extend(late.map(|ms| number("ce_threshold_ms", ms)));
            params.extend(packets.map(|n| number("limit_packets", f64::from(n))));
            params.extend(bytes.map(|n| number("limit_bytes", f64::from(n))));
            ("codel", params)
        });
    let others = prop_oneof![
        Just(("fq_codel", vec![number("target_ms", 1.0), number("interval_ms", 5.0)])),
        Just(("pie", vec![])),
        Just(("red", vec![])),
        Just(("sfq", vec![])),
        Just(("dualpi2", vec![])),
        Just(("token_bucket", vec![number("rate_bps", 3_000_000.0), number("burst", 1_500.0)])),
        Just((
            "fifo",
            vec![number("limit_bytes", 3_000.0), name("drop", "head"), name("in_service", "counted")]
        )),
        Just(("fifo", vec![number("limit_packets", 3.0), number("offload", 4.0)])),
    ];
    let queue = prop_oneof![2 => codel, 1 => others];
    let rate = prop_oneof![Just(8_000_000u64), Just(7_777_777)];
    let delay = prop_oneof![Just(0u64), Just(700), Just(20_000)];
    (rate, delay, queue, framings()).prop_map(|(rate, delay_us, (discipline, params), framing)| {
        let mut spec = LinkSpec { name: "link".into(), rate_bps: Some(rate), ..LinkSpec::default() };
        spec.delay_ps = Duration::from_us(delay_us).as_ps();
        spec.framing = framing;
        spec.queue.discipline = discipline.into();
        spec.queue.params = params.into_iter().collect();
        Link::build(&spec, 0, 1).expect("a sound link")
    })
}

/// A call of a link: its kind, the time since the last call, and a packet's bytes and flow.
type Step = (u32, u64, u32, u32);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0u32..3, 0u64..2_000, 40u32..1500, 0u32..3), 1..200)
}

/// Runs `steps` through `link` and through a copy that asks its queue at each departure, and compares.
fn is_the_same_as_asking(link: Link, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut other = link.clone();
    other.ask_at_each_departure();
    let mut sides = [(link, Book::default(), Fate::default()), (other, Book::default(), Fate::default())];
    let mut now = Time::ZERO;
    for (slot, (step, gap, bytes, flow)) in (0..).zip(steps) {
        // Bursts, pauses, and calls in the middle of a transmission.
        now += if step == 0 { Duration::from_us(gap) } else { Duration::ZERO };
        for (link, book, fate) in &mut sides {
            let ecn = if flow == 1 { Ecn::Ect0 } else { Ecn::NotEct };
            let packet = Packet {
                slot,
                flow: FlowId(flow),
                bytes,
                ecn,
                hop: 0,
                is_reverse: false,
                conversation: 0,
                enqueued: Time::ZERO,
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
    Ok(())
}

proptest! {
    #[test]
    fn foreseen_or_asked_at_each_departure_is_the_same(link in links(), steps in steps()) {
        prop_assert!(link.is_foreseen());
        is_the_same_as_asking(link, steps)?;
    }

    #[test]
    fn taken_is_as_good_as_arrived(link in steady_links(), steps in steps()) {
        prop_assert!(link.is_steady());
        is_the_same_as_asking(link, steps)?;
    }
}
