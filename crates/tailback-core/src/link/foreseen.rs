//! A tail-drop FIFO at a fixed rate: when a packet joins it, all of its future is known.
//!
//! Law: it begins to be sent when the one before it ends, at f, and arrives at f + 8L/C + D. So it goes straight into
//! the pipe with its due time, behind those that still wait, and nothing is moved from queue to serialiser to pipe.
//! The last `queued.packets` entries of the pipe wait; the one before them, if `step` is set, is being sent.
//!
//! Everybody else asks the queue at each departure (`serve`); a test holds the two side by side.

use super::{Link, Watch};
use crate::packet::Packet;
use crate::queue::registry::Queue;
use crate::queue::{DropReason, Fate};
use crate::time::{Bytes, Time};

impl Link {
    /// Decide whether each packet's departure can be told on arrival; of a link that holds none yet.
    pub(super) fn foresee(&mut self) {
        let is_regular = matches!(self.clock, super::Clock::Exact) && self.serialiser.is_some();
        let is_asked = self.reports || self.wire.is_some() || !self.is_plain;
        self.foreseen = match &self.queue {
            Queue::Fifo(fifo) if is_regular && !is_asked => fifo.tail_drop(),
            _ => None,
        };
    }

    /// [`Link::push`] behind what is due before it.
    #[inline(always)]
    pub(super) fn join(&mut self, packet: Packet, now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        let limit = self.foreseen.as_ref().expect("its departure is foreseen");
        if !limit.accepts(self.queued, self.sending(), packet.bytes) {
            return self.refuse(packet, now, fate, watch);
        }
        let serialiser = self.serialiser.as_ref().expect("only a link with a rate queues");
        let transmission = serialiser.time_for(packet.bytes);
        let bytes = Bytes::from(packet.bytes);
        self.pipe_bytes += bytes;
        self.queued.packets += 1;
        self.queued.bytes += bytes;
        watch.on_enqueue(now, &packet, self.queued);
        if self.step == Time::NEVER {
            self.free_at = now + transmission;
            self.pipe.push_back((self.free_at + self.delay, packet));
            self.begin_next(now, watch);
        } else {
            self.free_at += transmission;
            self.pipe.push_back((self.free_at + self.delay, packet));
            self.note_backlog(now);
        }
    }

    /// As `serve` for other links, at each `step` until `now`.
    #[inline(always)]
    pub(super) fn turn_out(&mut self, now: Time, watch: &mut impl Watch) {
        while self.step <= now {
            let at = self.step;
            if self.queued.packets == 0 {
                self.step = Time::NEVER;
            } else {
                self.begin_next(at, watch);
                self.note_backlog(at);
            }
        }
    }

    /// The transmission of the first that waits begins.
    #[inline]
    fn begin_next(&mut self, at: Time, watch: &mut impl Watch) {
        let (due, packet) = self.pipe[self.pipe.len() - self.queued.packets as usize];
        self.queued.packets -= 1;
        self.queued.bytes -= Bytes::from(packet.bytes);
        watch.on_dequeue(at, &packet, self.queued);
        let transmission = due.since(at + self.delay);
        self.busy += transmission;
        self.step = at + transmission;
    }

    /// Bytes of the packet being sent; 0 if none is.
    #[inline]
    pub(super) fn sending(&self) -> u32 {
        if self.step == Time::NEVER {
            return 0;
        }
        self.pipe[self.pipe.len() - self.queued.packets as usize - 1].1.bytes
    }

    #[cold]
    fn refuse(&mut self, packet: Packet, now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        self.count.dropped += 1;
        self.count.dropped_bytes += Bytes::from(packet.bytes);
        fate.drop(packet, DropReason::QueueFull);
        watch.on_drop(now, &packet, self.queued, DropReason::QueueFull);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Host;
    use crate::packet::{Ecn, FlowId};
    use crate::queue::Backlog;
    use crate::scenario::{LinkSpec, Value};
    use crate::time::Duration;
    use proptest::prelude::*;

    /// Everything a host can see.
    #[derive(Default, PartialEq, Debug)]
    struct Book(Vec<(Time, &'static str, u32, Backlog)>);

    impl Watch for Book {
        fn on_enqueue(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
            self.0.push((at, "enqueue", packet.slot, backlog));
        }
        fn on_dequeue(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
            self.0.push((at, "dequeue", packet.slot, backlog));
        }
        fn on_drop(&mut self, at: Time, packet: &Packet, backlog: Backlog, reason: DropReason) {
            assert_eq!(reason, DropReason::QueueFull);
            self.0.push((at, "drop", packet.slot, backlog));
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
        fn duplicate(&mut self, _packet: &Packet) -> Packet {
            unreachable!("this wire doubles nothing")
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
        (rate, delay, limit, rule).prop_map(|(rate, delay_us, limit, (accept, in_service))| {
            let mut spec = LinkSpec { name: "link".into(), rate_bps: Some(rate), ..LinkSpec::default() };
            spec.delay_ps = Duration::from_us(delay_us).as_ps();
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
            deeds in prop::collection::vec((0u32..3, 0u64..2_000, 40u32..1500), 1..200),
        ) {
            let (one, mut other) = (link.clone(), link);
            prop_assert!(one.foreseen.is_some());
            other.foreseen = None;
            let mut sides = [(one, Book::default(), Fate::default()), (other, Book::default(), Fate::default())];
            let mut now = Time::ZERO;
            for (slot, (deed, gap, bytes)) in (0..).zip(deeds) {
                // Bursts, pauses, and calls in the middle of a transmission.
                now += if deed == 0 { Duration::from_us(gap) } else { Duration::ZERO };
                for (link, book, fate) in &mut sides {
                    let packet = Packet {
                        slot, flow: FlowId(0), bytes, ecn: Ecn::NotEct, hop: 0, is_reverse: false, conversation: 0, enqueued: Time::ZERO,
                    };
                    match deed {
                        0 => link.advance(now, fate, book),
                        1 => link.push(packet, now, fate, book),
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
}
