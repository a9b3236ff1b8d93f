//! DOCSIS upstream: a cable modem requests bandwidth and waits for a grant.

use std::collections::{BTreeMap, VecDeque};

use super::Registered;
use crate::capacity::Pace;
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec};
use crate::queue::Backlog;
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Rate, Time};

const CARD: Card = Card {
    name: "docsis",
    title: "Cable upstream (DOCSIS)",
    law: "time is cut into MAP intervals, and in each the modem may ask once: with its grant if it has one there \
          (piggyback), else at a uniform instant (contention). A request covers all bytes that wait. They are \
          granted from the first interval that begins `grant_ms` or more after it. An interval's grant is at most \
          `rate` × `map_ms`, one block at the channel's rate `line`. It begins at a uniform instant from which the \
          largest one ends within the interval; a packet may be cut at its end. Without `concatenation` a request \
          covers one packet, and the next is asked for with its grant",
    source: "CableLabs CM-SP-MULPIv3.1 (requests, grants, MAPs, rates of Ethernet frames); \
             docsis-ns3, Model Overview (2023): MAP intervals of 1 to 2 ms, contention without collisions, \
             piggybacked requests, a grant's random place. RFC 8034 (PIE in cable modems)",
    differs: &[
        "Upstream alone: the way down is a plain link with a rate",
        "Requests neither collide nor get lost. Other modems are a grant's random place: their load does not vary, \
              and no burst exceeds `rate`",
        "A request of 3.1 is granted in whole minislots, of 1.x in one piece; here any byte ends a grant",
        "DOCSIS's own headers take no time; coding, processing and distance belong to the link's delay",
        "No channel bonding, no proactive grants, no low-latency queue",
    ],
    live_twin: None,
    params: &[
        ParamSpec::whole(
            "rate_bps",
            "bit/s",
            10_000_000,
            (64_000, 10_000_000_000),
            "Sustained rate, of Ethernet frames.",
        ),
        ParamSpec::whole(
            "line_bps",
            "bit/s",
            100_000_000,
            (64_000, 10_000_000_000),
            "Rate of the channel, at which a grant is sent.",
        ),
        ParamSpec::number("map_ms", "ms", 2.0, (0.5, 20.0), "MAP interval."),
        ParamSpec::number(
            "grant_ms",
            "ms",
            2.0,
            (0.1, 100.0),
            "From a request to the earliest beginning of an interval that grants it.",
        ),
        ParamSpec::flag(
            "concatenation",
            true,
            "A request covers all that waits; false, as in DOCSIS 1.0: one packet.",
        ),
    ],
};

/// Ethernet's header and check, which the sustained rate counts (MULPIv3.1 annex C).
const ETHERNET: u32 = 18;
/// One byte in bit/s × picoseconds.
const BYTE: u128 = 8 * 1_000_000_000_000;

/// The upstream of a cable modem.
#[derive(Clone, Debug)]
pub struct Docsis {
    rate: u64,
    line: Rate,
    interval: Duration,
    grant: Duration,
    concatenates: bool,
    /// Times at which the modem may send a request, by interval; entries older than any open request are removed.
    opportunities: BTreeMap<u64, Time>,
    /// The last granted interval: its number, begin and current end of its block, bytes sent, and bytes left.
    granted: u64,
    began: Time,
    ended: Time,
    sent: Bytes,
    room: Bytes,
    /// Fraction of a byte left over from the last interval's rate.
    fraction: u128,
    /// Since the queue was last empty: bytes sent, and byte counts of the backlog with the times when they were
    /// reached.
    taken: u64,
    come: VecDeque<(u64, Time)>,
    behind: Backlog,
    contention: Stream,
    places: Stream,
}

impl Registered for Docsis {
    const CARD: Card = CARD;
}

impl Docsis {
    /// Builds the upstream from its parameters.
    pub fn new(given: &Checked<'_>, stream: &dyn Fn(&str) -> Stream) -> Result<Self, ScenarioError> {
        let (rate, line) = (given.whole("rate_bps"), given.whole("line_bps"));
        if rate > line {
            let problem = "the modem's rate is above that of the channel, line_bps";
            return Err(given.refuse(
                "rate_bps",
                problem,
                &format!("Give at most {line}, or a faster line_bps"),
            ));
        }
        Ok(Docsis {
            rate,
            line: Rate::from_bps(line),
            interval: Duration::from_secs_f64(given.number("map_ms") / 1e3),
            grant: Duration::from_secs_f64(given.number("grant_ms") / 1e3),
            concatenates: given.flag("concatenation"),
            opportunities: BTreeMap::new(),
            granted: 0,
            began: Time::ZERO,
            ended: Time::ZERO,
            sent: 0,
            room: 0,
            fraction: 0,
            taken: 0,
            come: VecDeque::new(),
            behind: Backlog::default(),
            contention: stream("contention"),
            places: stream("places"),
        })
    }

    fn start_of(&self, number: u64) -> Time {
        Time::from_ps(number * self.interval.as_ps())
    }

    /// When the modem requests bytes that arrived by `came`.
    fn asks(&mut self, came: Time) -> Time {
        let number = came.as_ps() / self.interval.as_ps();
        let here = self.opportunity(number);
        if here >= came { here } else { self.opportunity(number + 1) }
    }

    /// When the modem may send its request in interval `number`.
    fn opportunity(&mut self, number: u64) -> Time {
        if let Some(at) = self.opportunities.get(&number) {
            return *at;
        }
        let at = self.start_of(number) + Duration::from_ps(self.contention.below(self.interval.as_ps()));
        self.opportunities.insert(number, at);
        at
    }

    /// The first interval that can carry bytes that arrived by `came`.
    fn earliest(&mut self, came: Time) -> u64 {
        // The request follows within two intervals; if that is long ago, its exact time does not matter.
        if came + self.interval * 2 + self.grant <= self.start_of(self.granted) {
            return self.granted;
        }
        (self.asks(came) + self.grant).as_ps().div_ceil(self.interval.as_ps())
    }

    /// Begins the block of interval `number`.
    fn open(&mut self, number: u64) {
        let bits = self.fraction + u128::from(self.rate) * u128::from(self.interval.as_ps());
        (self.room, self.fraction) = ((bits / BYTE) as Bytes, bits % BYTE);
        let spare = self.interval.saturating_sub(self.line.time_for(self.room));
        // If the rate equals the line's, the last block may end a fraction of a byte late.
        self.began = (self.start_of(number) + self.places.duration_up_to(spare)).max(self.ended);
        (self.granted, self.sent) = (number, 0);
        let remembered = (self.grant.as_ps() / self.interval.as_ps()) + 4;
        while self.opportunities.first_key_value().is_some_and(|(old, _)| old + remembered < number) {
            self.opportunities.pop_first();
        }
        self.opportunities.insert(number, self.began);
    }
}

fn framed(bytes: Bytes, packets: u32) -> u64 {
    bytes + u64::from(ETHERNET) * u64::from(packets)
}

impl Pace for Docsis {
    fn behind(&mut self, backlog: Backlog) {
        self.behind = backlog;
    }

    fn serve(&mut self, at: Time, packet: &Packet, continues: bool) -> Time {
        let mut need = framed(Bytes::from(packet.bytes), 1);
        if !continues {
            // A grant to an empty queue is lost.
            (self.taken, self.room) = (0, 0);
            self.come.clear();
        }
        self.taken += need;
        let all = self.taken + framed(self.behind.bytes, self.behind.packets);
        if self.come.back().is_none_or(|(bytes, _)| *bytes < all) {
            self.come.push_back((all, at));
        }
        while self.come.front().is_some_and(|(bytes, _)| *bytes < self.taken) {
            self.come.pop_front();
        }
        // Grants are for bytes, not packets: a packet that the queue prefers uses bytes requested for others.
        let seen = self.come.front().map_or(at, |(_, seen)| *seen);
        let mut came = if continues { seen.min(packet.enqueued) } else { at };
        if !self.concatenates {
            came = came.max(self.began);
        }
        let earliest = self.earliest(came);
        if earliest > self.granted {
            self.open(earliest);
        }
        while need > 0 {
            if self.room == 0 {
                self.open(self.granted + 1);
            }
            let used = need.min(self.room);
            (need, self.room, self.sent) = (need - used, self.room - used, self.sent + used);
        }
        self.ended = self.began + self.line.time_for(self.sent);
        self.ended
    }

    fn nominal(&self) -> Rate {
        Rate::from_bps(self.rate * 1500 / framed(1500, 1))
    }
}
