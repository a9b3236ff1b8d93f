//! Where the ends of connections live: a slab of pairs with a free list.
//!
//! A connection takes two neighbouring seats, the client's at an even number. Segments are addressed to a seat and
//! its generation, so that one still under way when its connection is over finds nobody, not the seat's next
//! tenant. An empty seat is a null pointer: what a connection held goes back when it ends.

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

/// Bits of an address that hold the seat, as many as the schedule has for elements; the rest is the generation.
const SEAT_BITS: u32 = 22;
const SEAT_MASK: u32 = (1 << SEAT_BITS) - 1;
/// Connections alive at once in a run; beyond that they are turned away.
pub const MOST_PAIRS: usize = 1_000_000;

/// The seat of an address.
#[inline]
pub fn seat_of(address: u32) -> usize {
    (address & SEAT_MASK) as usize
}

/// One end of a connection, and what its application waits for there.
#[derive(Debug)]
pub struct Seat {
    pub end: Endpoint,
    /// Seat and generation.
    pub address: u32,
    pub flow: u32,
    pub connection: Connection,
    pub side: Side,
    /// The link its segments leave by.
    pub first: u32,
    /// The state its application was told of.
    pub state: State,
    /// `receive_mark` or `wants_drained` is set.
    pub listens: bool,
    /// Its stream carries a tunnel's packets; then it listens for good.
    pub carries: bool,
    pub wants_drained: bool,
    pub receive_mark: Bytes,
    pub call_at: Time,
    /// The row of the requests table that waits for an answer.
    pub row: u32,
}

impl Seat {
    #[inline]
    pub fn next_wake(&self) -> Time {
        self.end.next_wake().min(self.call_at)
    }
    pub fn is_server(&self) -> bool {
        self.side == Side::Server
    }
}

/// The slab.
#[derive(Debug, Default)]
pub struct Seats {
    seats: Vec<Option<Box<Seat>>>,
    /// Addresses of the client's seats of free pairs, one generation on.
    free: Vec<u32>,
}

impl Seats {
    /// The seat at this number, which is taken.
    #[inline]
    pub fn at(&mut self, seat: usize) -> &mut Seat {
        self.seats[seat].as_mut().expect("somebody sits here")
    }
    /// The seat at this number, if it is taken.
    #[inline]
    pub fn get(&self, seat: usize) -> Option<&Seat> {
        self.seats.get(seat)?.as_deref()
    }
    /// Whoever this address means, if they are still there.
    #[inline]
    pub fn find(&mut self, address: u32) -> Option<&mut Seat> {
        let seat = self.seats.get_mut(seat_of(address))?.as_deref_mut()?;
        (seat.address == address).then_some(seat)
    }
    /// More than the inner caches hold.
    #[inline]
    pub fn are_many(&self) -> bool {
        self.seats.len() > 256
    }
    /// Have the seat of an address in the cache soon.
    #[inline]
    pub fn fetch(&self, address: u32) {
        if let Some(Some(seat)) = self.seats.get(seat_of(address)) {
            prefetch_index(from_ref(&seat.address), 0);
            prefetch_index(from_ref(&seat.call_at), 0);
            seat.end.fetch();
        }
    }
    /// Have the ends of its flight in the cache soon.
    #[inline]
    pub fn fetch_flight(&self, address: u32) {
        if let Some(Some(seat)) = self.seats.get(seat_of(address)) {
            seat.end.sender.fetch_flight();
        }
    }
    /// Pairs taken.
    pub fn pairs(&self) -> usize {
        self.seats.len() / 2 - self.free.len()
    }
    /// The client's address of a pair that is free now.
    pub fn reserve(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let address = self.seats.len() as u32;
            self.seats.extend([None, None]);
            address
        })
    }
    /// Take a reserved pair.
    pub fn sit(&mut self, client: Box<Seat>, server: Box<Seat>) {
        let at = seat_of(client.address);
        self.seats[at] = Some(client);
        self.seats[at + 1] = Some(server);
    }
    /// Empty a pair; nothing of it is left.
    pub fn leave(&mut self, client: u32) -> [Box<Seat>; 2] {
        let at = seat_of(client);
        // The generation wraps after 1024 tenants; no segment is under way through so many lives.
        self.free.push(client.wrapping_add(1 << SEAT_BITS));
        [at, at + 1].map(|seat| self.seats[seat].take().expect("somebody sits here"))
    }
}

/// How one end of a flow's connections is made.
#[derive(Debug)]
pub struct Blueprint {
    pub stack: Arc<Stack>,
    pub mss: u32,
    pub send_buffer: Bytes,
    pub receive_buffer: Bytes,
    pub read_rate: Option<Rate>,
    /// The flow's congestion controls, in turn.
    pub algorithms: Vec<Recipe>,
    /// Seeds of the connections' algorithms, in order of opening.
    pub seeds: Stream,
}

impl Blueprint {
    /// The end of a new connection.
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

/// How an algorithm is made, checked when the network is built.
#[derive(Debug)]
pub struct Recipe {
    name: String,
    params: Params,
    variants: Vec<String>,
    how: How,
}

#[derive(Debug)]
enum How {
    /// From the registry, with the connection's seed.
    Seeded,
    /// It makes nothing of its seed: looking up its parameters again costs more than a handshake.
    Copied(Algorithm),
    /// By whoever runs us.
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
                    fix: "Mend it, or give it the parameters it takes.".into(),
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

/// What a flow's connections have done together.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    pub bytes_acked: Bytes,
    pub bytes_received: Bytes,
    pub bytes_arrived: Bytes,
    pub bytes_returned: Bytes,
    pub sent: SenderCount,
    pub back_sent: SenderCount,
    /// Of the first connection established.
    pub established_at: Time,
    pub rtt_min: Duration,
    /// Of the last connection.
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
