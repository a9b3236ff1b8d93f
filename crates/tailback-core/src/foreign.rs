//! Connections of other people's stacks as flows: the seam.
//!
//! A run is given [`Stacks`] by name ([`crate::engine::Simulation::build_hosting`]); a flow whose transport has such a
//! name sends what the stack's ends send. An end is driven without a clock and without sockets: it gets datagrams and the
//! time, and gives datagrams and the instant at which time itself matters. The same end can be driven over a real socket.
//!
//! A connection carries one stream each way, of bytes that mean nothing.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;

use crate::packet::Ecn;
use crate::probe::rows::StackFaultKind;
use crate::scenario::Params;
use crate::time::{Bytes, Duration, Rate, Time};

/// Stacks by the name that scenarios use.
pub type Stacks = BTreeMap<String, Arc<dyn Stack>>;

/// The IPv4 and UDP headers in front of each datagram.
pub const UDP_HEADERS: u32 = 28;

/// A stack as published: makes connections.
pub trait Stack: Debug + Send + Sync {
    /// The version of its code.
    fn version(&self) -> &str;
    /// Its congestion controls, by the words that scenarios use.
    fn algorithms(&self) -> &[&'static str];
    /// The smallest MTU it works with; unless it says so, QUIC's (RFC 9000 section 14).
    fn least_mtu(&self) -> u32 {
        1_200 + UDP_HEADERS
    }
    /// Can this congestion control have these parameters? If not, why, for people. Asked before time zero.
    fn check(&self, _cc: &str, params: &Params) -> Result<(), String> {
        match params.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!("{name} is not a parameter of it: it runs as its authors set it")),
        }
    }
    /// The two ends of a new connection, the client's and the server's.
    fn connect(&self, setup: &Setup<'_>) -> [Box<dyn Endpoint>; 2];
}

/// What a connection is made of.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Simulated time.
    pub now: Time,
    /// Congestion control, one of the stack's.
    pub cc: &'a str,
    /// Its parameters, which were checked.
    pub cc_params: &'a Params,
    /// Largest IP packet, with an IPv4 header; over IPv6 20 bytes less than the path's.
    pub mtu: u32,
    /// What the stream to send may hold unacknowledged; `None`: the stack's.
    pub send_buffer: Option<Bytes>,
    /// What the peer may send beyond what was read; `None`: the stack's.
    pub receive_buffer: Option<Bytes>,
    /// All randomness of the connection comes from here.
    pub seed: u64,
}

impl Debug for dyn Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an end of a connection")
    }
}

/// One end of a connection.
///
/// After a datagram, a timer or an action of its application it is asked to `read`, and to `write` until that takes none.
/// `finish` follows once all is written, then `poll_transmit` until there is none, `progress`, and at last `next_timeout`.
pub trait Endpoint: Send {
    /// A datagram arrived.
    fn on_datagram(&mut self, now: Time, datagram: &[u8], ecn: Ecn);
    /// Put the next datagram to send into the empty buffer; `None`: there is none now.
    fn poll_transmit(&mut self, now: Time, datagram: &mut Vec<u8>) -> Option<Ecn>;
    /// When it wants to be woken; [`Time::NEVER`]: only by a datagram or its application.
    fn next_timeout(&mut self) -> Time;
    /// The time of `next_timeout` has come.
    fn on_timeout(&mut self, now: Time);

    /// Take at most this many bytes to send; returns how many, 0 while its buffer is full or nothing may flow yet.
    fn write(&mut self, most: Bytes) -> Bytes;
    /// Nothing will be written any more.
    fn finish(&mut self);
    /// Read what has arrived in order; returns how many bytes.
    fn read(&mut self, now: Time) -> Bytes;
    /// End the connection at once, whatever is under way. The client's end is asked to once both have finished and all is
    /// acknowledged, any end whenever its application stops.
    fn close(&mut self, now: Time);
    /// How far the connection has come.
    fn progress(&mut self) -> Progress;
    /// How much it has in flight, and may have. Asked around every datagram. A stack that does not say is not held to its
    /// window.
    fn flight(&mut self) -> Flight {
        Flight::default()
    }
    /// What the stack says of its sender. Asked once something happened. A stack that does not say has no window, round
    /// trips or losses of its own in a result.
    fn state(&mut self) -> State {
        State::default()
    }
}

/// How far a connection has come, seen from one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Data may flow.
    pub is_established: bool,
    /// The peer has finished its stream, and all of it was read.
    pub peer_finished: bool,
    /// All this end wrote, with its end, is acknowledged.
    pub is_acknowledged: bool,
    /// The connection is over: it says nothing any more, or no more than that it is over.
    pub is_closed: bool,
    /// The connection ended although neither side closed it.
    pub has_failed: bool,
}

/// How full a sender's window is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flight {
    /// Congestion window.
    pub cwnd: Bytes,
    /// Bytes in flight.
    pub in_flight: Bytes,
}

/// What a stack says of its sender.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct State {
    /// Congestion window.
    pub cwnd: Bytes,
    /// Slow-start threshold; [`Bytes::MAX`] before there is one, or if the stack does not say.
    pub ssthresh: Bytes,
    /// Bytes in flight, as the stack counts them.
    pub in_flight: Bytes,
    /// Smoothed RTT; zero: no sample yet.
    pub srtt: Duration,
    /// Latest RTT sample; zero if the stack does not report it.
    pub rtt: Duration,
    /// Smallest RTT sample; zero: no sample yet.
    pub rtt_min: Duration,
    /// Pacing rate, if the stack reports it.
    pub pacing_rate: Option<Rate>,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets that the stack declared lost.
    pub packets_lost: u64,
    /// Times it took a loss or a mark for congestion.
    pub congestion_events: u64,
    /// Payload acknowledged, as far as the stack reports it.
    pub bytes_acked: Bytes,
}

impl Default for State {
    fn default() -> Self {
        State {
            cwnd: 0,
            ssthresh: Bytes::MAX,
            in_flight: 0,
            srtt: Duration::ZERO,
            rtt: Duration::ZERO,
            rtt_min: Duration::ZERO,
            pacing_rate: None,
            packets_sent: 0,
            packets_lost: 0,
            congestion_events: 0,
            bytes_acked: 0,
        }
    }
}

/// What an adapter to a stack of another language unwinds with (`resume_unwind`) when the stack did what none may: the
/// sentence that its flow ends with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misuse(pub String);

/// A stack did what no stack may, and its flow is over.
#[derive(Clone, Debug, PartialEq)]
pub struct StackFault {
    /// The stack, by the name in the scenario.
    pub stack: String,
    /// Version of the stack.
    pub version: String,
    /// The scenario.
    pub scenario: String,
    /// Seed of the scenario.
    pub seed: u64,
    /// The flow.
    pub flow: String,
    /// Time of the fault.
    pub at: Time,
    /// What the stack did.
    pub what: String,
    /// Of which kind that is. Who caught a panic may know where it was.
    pub kind: StackFaultKind,
}

impl StackFault {
    /// What a result's warnings say of it.
    pub fn sentence(&self) -> String {
        format!("{self}. The flow ended then, and its numbers are of the time before")
    }
}

impl fmt::Display for StackFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StackFault { stack, version, scenario, seed, flow, at, what, .. } = self;
        let at = at.as_secs_f64();
        write!(f, "{stack} {version}, flow {flow} of {scenario} (seed {seed}), at {at} s: {what}")
    }
}

impl std::error::Error for StackFault {}
