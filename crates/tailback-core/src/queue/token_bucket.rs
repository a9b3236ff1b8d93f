//! Token bucket: limits the departure rate, with bursts of up to a bucketful. The inner queue is a FIFO limited in
//! bytes, or any other discipline.
//!
//! A queue that decides at its head, such as CoDel, has decided before a packet waits for tokens: the packet is
//! dequeued from it and held here, like Linux's `qdisc_peek_dequeued`. A FIFO, RED and CHOKe keep theirs.

use super::parts::Line;
use super::registry::{Queue, Registered, Surroundings, Traits};
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::packet::{Acknowledgement, Packet};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Rate, Time};

const CARD: Card = Card {
    name: "token_bucket",
    title: "Token bucket",
    law: "the bucket gains rate/8 bytes a second up to `burst`; a packet goes when the bucket holds its \
          bytes, and takes them out",
    source: "Linux 5.10 sch_tbf.c, without peak rate; RFC 2697 section 3 for the single bucket",
    differs: &[
        "Linux measures tokens in nanoseconds of the rate; here they are exact in bits·ps/s",
        "Bytes are IP bytes: `rate` is what IP gets. Linux on Ethernet counts 14 bytes of header with each packet, so \
              that its tbf gives IP 1500/1514 of the rate for full packets and 52/66 for ACKs, and `burst` and \
              `limit` hold less: `header` = 14 does so",
        "Packets that segmentation offload has joined are none here; Linux cuts those larger than the bucket and lets \
              smaller ones through whole",
    ],
    live_twin: Some("linux:tbf"),
    params: &[
        ParamSpec::rate("rate", 0, (1, 1_000_000_000_000_000), "Rate at which the bucket fills.")
            .depends("the link's rate"),
        ParamSpec::size("burst", 0, (1, 1 << 40), "Bucket size; larger packets are dropped.")
            .depends("4 ms of the rate (HZ 250), at least 3000"),
        ParamSpec::size(
            "header",
            0,
            (0, 256),
            "Link-layer header that rate, burst and limit count for each packet; Linux on Ethernet: 14.",
        ),
        ParamSpec::size("limit_bytes", 0, (1, 1 << 40), "Most bytes held.")
            .depends("burst and 50 ms of the rate; with a queue inside, that one's"),
    ],
};

/// Tokens are counted in units of 1/(8·10¹²) byte, so that rate [bit/s] × time [ps] is a whole number of them.
const TOKENS_PER_BYTE: u128 = 8_000_000_000_000;

/// A token bucket.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    inside: Inside,
    rate: u64,
    burst: Bytes,
    limit: Bytes,
    /// Bytes added to each packet's length.
    header: Bytes,
    tokens: u128,
    /// Time for which `tokens` is valid.
    counted: Time,
}

/// The inner queue.
#[derive(Clone, Debug)]
enum Inside {
    /// The bucket's own FIFO.
    Line(Line),
    /// Another discipline, and a packet taken from it that waits for tokens.
    Queue { queue: Box<Queue>, held: Option<Packet> },
}

impl Registered for TokenBucket {
    const CARD: Card = CARD;
    const TRAITS: Traits = Traits { is_shaper: true, ..Traits::NONE };

    fn new(given: &Checked<'_>, around: &Surroundings<'_>) -> Result<Self, ScenarioError> {
        let Some(rate) = given.given_rate("rate").or(around.rate) else {
            return Err(given.refuse("rate", "neither it nor the link's rate is known", "Give rate"));
        };
        let burst = given.given_whole("burst").unwrap_or(rate.bytes_in(Duration::from_ms(4)).max(3000));
        let limit = given.given_whole("limit_bytes").unwrap_or(burst + rate.bytes_in(Duration::from_ms(50)));
        Ok(TokenBucket {
            inside: Inside::Line(Line::default()),
            rate: rate.as_bps(),
            burst,
            limit,
            header: given.whole("header"),
            tokens: u128::from(burst) * TOKENS_PER_BYTE,
            counted: Time::ZERO,
        })
    }
}

impl QueueDiscipline for TokenBucket {
    fn enqueue(&mut self, packet: Packet, now: Time, fate: &mut Fate) {
        let bytes = Bytes::from(packet.bytes) + self.header;
        if bytes > self.burst {
            fate.drop(packet, DropReason::QueueFull);
            return;
        }
        match &mut self.inside {
            Inside::Line(line)
                if line.bytes() + self.header * Bytes::from(line.len()) + bytes > self.limit =>
            {
                fate.drop(packet, DropReason::QueueFull);
            }
            Inside::Line(line) => line.push(packet),
            Inside::Queue { queue, .. } => queue.enqueue(packet, now, fate),
        }
    }

    fn dequeue(&mut self, now: Time, fate: &mut Fate) -> Option<Packet> {
        if let Inside::Queue { queue, held } = &mut self.inside
            && held.is_none()
            && !queue.is_peeked()
            && queue.head().is_none()
        {
            *held = queue.dequeue(now, fate);
        }
        let need = self.tokens_for(self.next()?);
        self.fill(now);
        if self.tokens < need {
            return None;
        }
        self.tokens -= need;
        match &mut self.inside {
            Inside::Line(line) => line.pop(),
            Inside::Queue { queue, held } => held.take().or_else(|| queue.dequeue(now, fate)),
        }
    }

    fn backlog(&self) -> Backlog {
        match &self.inside {
            Inside::Line(line) => line.backlog(),
            Inside::Queue { queue, held } => {
                let mut backlog = queue.backlog();
                if let Some(packet) = held {
                    backlog.packets += 1;
                    backlog.bytes += Bytes::from(packet.bytes);
                }
                backlog
            }
        }
    }

    fn reads_acks(&self) -> bool {
        matches!(&self.inside, Inside::Queue { queue, .. } if queue.reads_acks())
    }

    fn show_ack(&mut self, packet: &Packet, ack: Acknowledgement) {
        if let Inside::Queue { queue, .. } = &mut self.inside {
            queue.show_ack(packet, ack);
        }
    }

    fn ready_at(&self, now: Time) -> Option<Time> {
        let Some(next) = self.next() else {
            // The inner queue may hold its packets back until a time of its own.
            let Inside::Queue { queue, .. } = &self.inside else { return None };
            return queue.ready_at(now);
        };
        let missing = self.tokens_for(next).saturating_sub(self.tokens_at(now));
        Some(now + Duration::from_ps(missing.div_ceil(u128::from(self.rate)) as u64))
    }
}

impl TokenBucket {
    /// The rate at which the bucket fills.
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bps(self.rate)
    }

    /// Installs `queue`, which must be empty, as the inner queue.
    pub(super) fn put_inside(&mut self, queue: Queue) {
        self.inside = Inside::Queue { queue: Box::new(queue), held: None };
    }

    /// The packet that waits for tokens.
    fn next(&self) -> Option<&Packet> {
        match &self.inside {
            Inside::Line(line) => line.head(),
            Inside::Queue { queue, held } => held.as_ref().or_else(|| queue.head()),
        }
    }

    fn tokens_for(&self, packet: &Packet) -> u128 {
        u128::from(Bytes::from(packet.bytes) + self.header) * TOKENS_PER_BYTE
    }

    fn tokens_at(&self, now: Time) -> u128 {
        let gained = u128::from(self.rate) * u128::from(now.since(self.counted).as_ps());
        (self.tokens + gained).min(u128::from(self.burst) * TOKENS_PER_BYTE)
    }

    fn fill(&mut self, now: Time) {
        self.tokens = self.tokens_at(now);
        self.counted = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Ecn, FlowId};
    use crate::scenario::{Params, Value};

    #[test]
    fn a_header_counts_in_rate_burst_and_limit() {
        let packet = |bytes| Packet {
            slot: 0,
            flow: FlowId(0),
            bytes,
            ecn: Ecn::NotEct,
            hop: 0,
            is_reverse: false,
            conversation: 0,
            enqueued: Time::ZERO,
        };
        // 8 Mbit/s are a byte a microsecond; a bucket and a queue of 1514 and 3028 bytes.
        for (header, waits_us, held) in [(0.0, 1500 - 14, 2), (14.0, 1514, 2)] {
            let params: Params =
                [("rate_bps", 8e6), ("burst", 1514.0), ("limit_bytes", 3028.0), ("header", header)]
                    .map(|(name, value)| (name.to_string(), Value::Number(value)))
                    .into();
            let given = Checked::new(&TokenBucket::CARD, &params, "q").unwrap();
            let mut bucket = TokenBucket::new(&given, &Surroundings::of_seed(1)).unwrap();
            let mut fate = Fate::default();
            (0..3).for_each(|_| bucket.enqueue(packet(1500), Time::ZERO, &mut fate));
            assert_eq!(bucket.backlog().packets, held, "{header}");
            assert!(bucket.dequeue(Time::ZERO, &mut fate).is_some());
            assert_eq!(bucket.ready_at(Time::ZERO), Some(Time::from_us(waits_us)), "{header}");
            fate.clear();
            bucket.enqueue(packet(1501), Time::ZERO, &mut fate);
            assert_eq!(fate.drops.len(), usize::from(header > 0.0), "larger than the bucket with its header");
        }
    }
}
