//! Storage of connections: a slab of pairs of ends with a free list.
//!
//! A connection takes two neighbouring entries, the client at an even index. Segments are addressed to an index and its
//! generation, so a segment that arrives after its connection has closed finds no end, rather than the entry's next
//! owner. A free entry is a null pointer. Some closed ends keep their memory for reuse.

use std::rc::Rc;
use std::slice::from_ref;
use std::sync::Arc;

use prefetch_index::prefetch_index;

use crate::cc::external::{Maker, Makers};
use crate::cc::registry::{self as cc, Algorithm};
use crate::rng::Stream;
use crate::scenario::{Params, ScenarioError};
use crate::tcp::endpoint::{Endpoint, Setup, State};
use crate::tcp::sender::SenderCount;
use crate::tcp::stack::Stack;
use crate::time::{Bytes, Duration, Rate, Time};
use crate::traffic::{Connection, Side};

/// Bits of an address that hold the index, as many as the schedule uses for elements; the rest is the generation.
const INDEX_BITS: u32 = 22;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
/// Limit on open connections in a run; further ones are refused.
pub const MOST_PAIRS: usize = 1_000_000;

/// The index of an address.
#[inline]
pub fn index_of(address: u32) -> usize {
    (address & INDEX_MASK) as usize
}

/// What stands for the ports of the connection at an address: successive connections of a pair differ in the high bits,
/// open ones in the low bits.
#[inline]
pub fn conversation_of(address: u32) -> u8 {
    (index_of(address) >> 1) as u8 ^ ((address >> INDEX_BITS) as u8).reverse_bits()
}

/// One end of a connection, and what its application waits for there. Aligned to a cache line, so that a segment
/// touches as few lines as possible.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct End {
    /// Index and generation of this end.
    pub address: u32,
    pub flow: u32,
    /// The first link that its segments enter.
    pub first: u32,
    pub side: Side,
    /// The state last reported to its application.
    pub state: State,
    /// `receive_mark` or `wants_drained` is set.
    pub listens: bool,
    /// Its stream carries a tunnel's packets; `listens` then stays set.
    pub carries: bool,
    pub wants_drained: bool,
    pub call_at: Time,
    /// The time at which the schedule wakes it. By then the end itself may no longer need it.
    pub armed: Time,
    pub end: Endpoint,
    pub receive_mark: Bytes,
    pub connection: Connection,
    /// Number of this connection in the flow's order of opening, modulo 2³², as tables store it.
    pub opening: u32,
    /// Row of the requests table that waits for a response.
    pub row: u32,
}

const _: () = assert!(size_of::<End>() <= 1216, "ten thousand connections are slow by the memory they touch");

impl End {
    #[inline]
    pub fn next_wake(&self) -> Time {
        self.end.next_wake().min(self.call_at)
    }
    /// Whether something that the application listens for has happened.
    #[inline(always)]
    pub fn is_awaited(&self) -> bool {
        self.listens
            && (self.carries
                || self.end.receiver.delivered() >= self.receive_mark
                || self.wants_drained && self.end.sender.is_drained())
    }
    /// The next wake, if it is earlier than the one armed in the schedule.
    #[inline(always)]
    pub fn earlier_wake(&self) -> Option<Time> {
        if self.end.next_wake_at_least().min(self.call_at) >= self.armed {
            return None;
        }
        self.earlier_wake_exactly()
    }
    #[cold]
    fn earlier_wake_exactly(&self) -> Option<Time> {
        Some(self.next_wake()).filter(|next| *next < self.armed)
    }
    pub fn is_server(&self) -> bool {
        self.side == Side::Server
    }
}

/// Number of closed ends whose memory is kept for reuse.
const MOST_SPARE: usize = 32;

/// Slab of connection ends.
#[derive(Debug, Default)]
pub struct Connections {
    ends: Vec<Option<Box<End>>>,
    /// Client addresses of free pairs, with the next generation.
    free: Vec<u32>,
    /// Closed ends: allocating their memory again costs more than a handshake.
    #[allow(clippy::vec_box, reason = "the boxes are what is kept: `ends` holds such")]
    spare: Vec<Box<End>>,
}

impl Connections {
    /// The open end at this index.
    #[inline]
    pub fn at(&mut self, index: usize) -> &mut End {
        self.ends[index].as_mut().expect("an open connection")
    }
    /// The end at this index, if it is open.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&End> {
        self.ends.get(index)?.as_deref()
    }
    /// The end with this address, if its connection is still open.
    #[inline]
    pub fn find(&mut self, address: u32) -> Option<&mut End> {
        let end = self.ends.get_mut(index_of(address))?.as_deref_mut()?;
        (end.address == address).then_some(end)
    }
    /// Whether there are more connections than the inner caches hold.
    #[inline]
    pub fn are_many(&self) -> bool {
        self.ends.len() > 256
    }
    /// Prefetches the end of an address.
    #[inline]
    pub fn fetch(&self, address: u32) {
        if let Some(Some(it)) = self.ends.get(index_of(address)) {
            prefetch_index(from_ref(&it.address), 0);
            it.end.fetch();
        }
    }
    /// As [`Self::fetch`], for an end that probably only receives.
    #[inline]
    pub fn fetch_receiving(&self, address: u32) {
        if let Some(Some(it)) = self.ends.get(index_of(address)) {
            prefetch_index(from_ref(&it.address), 0);
            it.end.fetch_receiving();
        }
    }
    /// Prefetches the head and the tail of the flight of the end at this address.
    #[inline]
    pub fn fetch_flight(&self, address: u32) {
        if let Some(Some(it)) = self.ends.get(index_of(address)) {
            it.end.sender.fetch_flight();
        }
    }
    /// Peak number of pairs in use.
    pub fn places(&self) -> usize {
        self.ends.len() / 2
    }
    /// Number of pairs in use.
    pub fn pairs(&self) -> usize {
        self.ends.len() / 2 - self.free.len()
    }
    /// Reserves a free pair and returns its client's address.
    pub fn reserve(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let address = self.ends.len() as u32;
            self.ends.extend([None, None]);
            address
        })
    }
    /// Allocates a new end, if possible in the memory of a closed one.
    #[inline(always)]
    pub fn place(&mut self, end: impl FnOnce() -> End) -> Box<End> {
        let Some(mut place) = self.spare.pop() else { return Box::new(end()) };
        let flight = place.end.sender.take_flight();
        *place = end();
        place.end.sender.give_flight(flight);
        place
    }
    /// Keeps a closed end's memory for the next one. An external algorithm is dropped: its owner may wait for that.
    pub fn recycle(&mut self, end: Box<End>) {
        let is_external = matches!(end.end.sender.algorithm(), Algorithm::External(_));
        if self.spare.len() < MOST_SPARE && !is_external {
            self.spare.push(end);
        }
    }
    /// Opens a connection in a reserved pair.
    pub fn open(&mut self, client: Box<End>, server: Box<End>) {
        let at = index_of(client.address);
        self.ends[at] = Some(client);
        self.ends[at + 1] = Some(server);
    }
    /// Closes a connection and returns its two ends.
    pub fn close(&mut self, client: u32) -> [Box<End>; 2] {
        let at = index_of(client);
        // The generation wraps after 1024 connections; no segment stays under way for that long.
        self.free.push(client.wrapping_add(1 << INDEX_BITS));
        [at, at + 1].map(|index| self.ends[index].take().expect("an open connection"))
    }
}

/// Recipe for one end of a flow's connections.
#[derive(Debug)]
pub struct Blueprint {
    pub stack: Arc<Stack>,
    pub mss: u32,
    pub send_buffer: Bytes,
    pub receive_buffer: Bytes,
    pub read_rate: Option<Rate>,
    /// The flow's congestion controls; connections take them in turn.
    pub algorithms: Vec<Rc<Recipe>>,
    /// Seeds of the connections' algorithms, in order of opening.
    pub seeds: Stream,
}

impl Blueprint {
    /// Builds the end of a new connection.
    pub fn endpoint(&mut self, turn: u32, peer: u32) -> Endpoint {
        let seed = self.seeds.bits();
        let recipe = &self.algorithms[turn as usize % self.algorithms.len()];
        Endpoint::new(Setup {
            stack: self.stack.clone(),
            algorithm: recipe.make(seed),
            mss: self.mss,
            send_buffer: self.send_buffer,
            receive_buffer: self.receive_buffer,
            read_rate: self.read_rate,
            peer,
        })
    }
}

/// A checked recipe for an algorithm, made when the network is built.
#[derive(Debug)]
pub struct Recipe {
    name: String,
    params: Params,
    variants: Vec<String>,
    how: How,
}

#[derive(Debug)]
enum How {
    /// Built from the registry with the connection's seed.
    Seeded,
    /// Copied: the algorithm ignores its seed, and looking up its parameters again costs more than a handshake.
    Copied(Algorithm),
    /// From a maker that the engine's user passes in.
    External(Arc<dyn Maker>),
}

impl Recipe {
    /// Check the parameters at `field_path`.
    pub fn new(
        name: &str,
        params: &Params,
        variants: &[&str],
        makers: &Makers,
        field_path: &str,
    ) -> Result<Self, ScenarioError> {
        let how = match makers.get(name) {
            Some(maker) => {
                maker.check(params).map_err(|problem| ScenarioError {
                    field: format!("{field_path}.cc"),
                    value: format!("{name:?}"),
                    problem: format!("this algorithm cannot be made: {problem}"),
                    fix: "Fix it, or give it the parameters it takes.".into(),
                })?;
                How::External(maker.clone())
            }
            None => {
                let [one, other] =
                    [1, 2].map(|seed| cc::build_preferring(name, params, field_path, seed, variants));
                let (one, other) = (one?, other?);
                let ignores_seed = format!("{one:?}") == format!("{other:?}");
                if ignores_seed { How::Copied(one) } else { How::Seeded }
            }
        };
        let variants = variants.iter().map(ToString::to_string).collect();
        Ok(Recipe { name: name.into(), params: params.clone(), variants, how })
    }

    /// Whether this recipe was made from the same name, parameters and variants.
    pub fn is_of(&self, name: &str, params: &Params, variants: &[&str]) -> bool {
        self.name == name && self.params == *params && self.variants == variants
    }

    fn make(&self, seed: u64) -> Algorithm {
        match &self.how {
            How::Copied(algorithm) => algorithm.duplicate().expect("one of the registry's"),
            How::External(maker) => Algorithm::External(maker.make(&self.params, seed)),
            How::Seeded => {
                let variants: Vec<&str> = self.variants.iter().map(String::as_str).collect();
                cc::build_preferring(&self.name, &self.params, "", seed, &variants).expect("checked before")
            }
        }
    }
}

/// Totals over a flow's connections.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    pub bytes_acked: Bytes,
    pub bytes_received: Bytes,
    pub bytes_arrived: Bytes,
    pub bytes_returned: Bytes,
    pub sent: SenderCount,
    pub back_sent: SenderCount,
    /// When the first connection was established.
    pub established_at: Time,
    pub rtt_min: Duration,
    /// Smoothed RTT of the last connection.
    pub srtt: Duration,
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            bytes_acked: 0,
            bytes_received: 0,
            bytes_arrived: 0,
            bytes_returned: 0,
            sent: SenderCount::default(),
            back_sent: SenderCount::default(),
            established_at: Time::NEVER,
            rtt_min: Duration::MAX,
            srtt: Duration::ZERO,
        }
    }
}

impl Tally {
    pub fn add(&mut self, client: &Endpoint, server: &Endpoint) {
        self.bytes_acked += client.sender.bytes_acked();
        self.bytes_received += server.receiver.delivered();
        self.bytes_arrived += server.receiver.arrived();
        self.bytes_returned += client.receiver.delivered();
        add_counts(&mut self.sent, &client.sender.count);
        add_counts(&mut self.back_sent, &server.sender.count);
        self.established_at = self.established_at.min(client.established_at());
        let rtt = &client.sender.rtt;
        if !rtt.srtt().is_zero() {
            self.rtt_min = self.rtt_min.min(rtt.min());
            self.srtt = rtt.srtt();
        }
    }
}

fn add_counts(sum: &mut SenderCount, more: &SenderCount) {
    sum.segments_sent += more.segments_sent;
    sum.segments_retransmitted += more.segments_retransmitted;
    sum.recoveries += more.recoveries;
    sum.timeouts += more.timeouts;
    sum.undos += more.undos;
    sum.duplicate_acks += more.duplicate_acks;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn connections_that_follow_or_accompany_each_other_have_different_hashes() {
        let [pair, generation] = [2, 1 << INDEX_BITS];
        for step in [pair, generation] {
            let hashes: BTreeSet<u8> = (0..256).map(|number| conversation_of(number * step)).collect();
            assert_eq!(hashes.len(), 256);
        }
        assert_eq!(conversation_of(6), conversation_of(7), "both ends are of one connection");
    }
}
