//! The interface for foreign stacks: flows whose connections use other people's transports.
//!
//! The caller passes [`Stacks`] by name ([`crate::engine::Simulation::build_hosting`]); a flow whose transport has such
//! a name sends what the stack's ends send. An end runs without a clock and without sockets: it receives datagrams and
//! the time, and returns datagrams and the time of its next timer. The same end also runs over a real socket.
//!
//! A connection carries one stream in each direction; its bytes have no meaning.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;

use crate::packet::Ecn;
use crate::probe::rows::StackFaultKind;
use crate::scenario::Params;
use crate::time::{Bytes, Duration, Rate, Time};

/// Foreign stacks by the name that scenarios use.
pub type Stacks = BTreeMap<String, Arc<dyn Stack>>;

/// The IPv4 and UDP headers in front of each datagram.
pub const UDP_HEADERS: u32 = 28;

/// A published stack: creates connections.
pub trait Stack: Debug + Send + Sync {
    /// Version of the stack's code.
    fn version(&self) -> &str;
    /// Names of its congestion controls in scenarios.
    fn algorithms(&self) -> &[&'static str];
    /// Smallest MTU that the stack supports; by default QUIC's (RFC 9000 section 14).
    fn least_mtu(&self) -> u32 {
        1_200 + UDP_HEADERS
    }
    /// Checks a congestion control and its parameters before time zero; the error is a description for display.
    fn check(&self, _cc: &str, params: &Params) -> Result<(), String> {
        match params.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!("{name} is not a parameter of it: it runs as its authors set it")),
        }
    }
    /// Creates the client's and the server's end of a new connection.
    fn connect(&self, setup: &Setup<'_>) -> [Box<dyn Endpoint>; 2];
}

/// Parameters of a new connection.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Simulated time.
    pub now: Time,
    /// Congestion control, one of the stack's own.
    pub cc: &'a str,
    /// Its checked parameters.
    pub cc_params: &'a Params,
    /// Largest IP packet with an IPv4 header; over IPv6, 20 bytes less than the path's MTU.
    pub mtu: u32,
    /// Limit on unacknowledged data of the sending stream; `None`: the stack's default.
    pub send_buffer: Option<Bytes>,
    /// Flow-control window for the peer; `None`: the stack's default.
    pub receive_buffer: Option<Bytes>,
    /// Seed of all randomness in the connection.
    pub seed: u64,
}

impl Debug for dyn Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an end of a connection")
    }
}

/// One end of a connection.
///
/// After a datagram, a timer or an action of its application, the host calls `read`, and then `write` until that
/// accepts nothing. `finish` follows once everything is written, then `poll_transmit` until it returns `None`, then
/// `progress`, and finally `next_timeout`.
pub trait Endpoint: Send {
    /// A datagram arrived.
    fn on_datagram(&mut self, now: Time, datagram: &[u8], ecn: Ecn);
    /// Writes the next datagram to send into the empty buffer; `None` if there is none now.
    fn poll_transmit(&mut self, now: Time, datagram: &mut Vec<u8>) -> Option<Ecn>;
    /// When the end wants to be woken; [`Time::NEVER`]: only by a datagram or its application.
    fn next_timeout(&mut self) -> Time;
    /// The time of `next_timeout` has come.
    fn on_timeout(&mut self, now: Time);

    /// Accepts at most `most` bytes to send; returns how many. 0 while its buffer is full or the connection is not
    /// open.
    fn write(&mut self, most: Bytes) -> Bytes;
    /// No more data will be written.
    fn finish(&mut self);
    /// Reads data that has arrived in order; returns the number of bytes, which are no more than arrived and than the
    /// other end wrote.
    fn read(&mut self, now: Time) -> Bytes;
    /// Closes the connection at once, even with data outstanding. Called on the client's end once both ends have
    /// finished and everything is acknowledged, and on either end whenever its application stops.
    fn close(&mut self, now: Time);
    /// State of the connection.
    fn progress(&mut self) -> Progress;
    /// Why the connection failed, in the stack's words; asked for when `progress` reports a failure.
    fn failure(&mut self) -> Option<String> {
        None
    }
    /// Bytes in flight and the congestion window, read around every datagram; by default as in `state`. A stack that
    /// does not report them is not checked against its window.
    fn flight(&mut self) -> Flight {
        let State { cwnd, in_flight, .. } = self.state();
        // A window of zero is none that a stack reported.
        if cwnd == 0 { Flight::default() } else { Flight { cwnd, in_flight } }
    }
    /// Sender state as the stack reports it, read after every event. Without it, a result has no window, RTT or losses
    /// of the stack's own.
    fn state(&mut self) -> State {
        State::default()
    }
}

/// State of a connection, seen from one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Data may flow.
    pub is_established: bool,
    /// The peer has finished its stream, and everything was read.
    pub peer_finished: bool,
    /// Everything that this end wrote, including the end of the stream, is acknowledged.
    pub is_acknowledged: bool,
    /// The connection is over: it sends nothing more, except perhaps to announce that.
    pub is_closed: bool,
    /// The connection ended although neither side closed it.
    pub has_failed: bool,
}

/// Use of a sender's window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flight {
    /// Congestion window.
    pub cwnd: Bytes,
    /// Bytes in flight.
    pub in_flight: Bytes,
}

/// Sender state that a stack reports.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct State {
    /// Congestion window.
    pub cwnd: Bytes,
    /// Slow-start threshold; [`Bytes::MAX`] if it is not set or not reported.
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
    /// Number of losses and marks that the stack treated as congestion.
    pub congestion_events: u64,
    /// Acknowledged payload in bytes, as far as the stack reports it.
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

/// Panic payload (for `resume_unwind`) of an adapter to a stack in another language, if that stack breaks a rule: the
/// message with which its flow ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misuse(pub String);

/// A foreign stack broke a rule, which ended its flow.
#[derive(Clone, Debug, PartialEq)]
pub struct StackFault {
    /// Name of the stack in the scenario.
    pub stack: String,
    /// Version of the stack.
    pub version: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Seed of the scenario.
    pub seed: u64,
    /// Name of the flow.
    pub flow: String,
    /// Time of the fault.
    pub at: Time,
    /// What the stack did, in words.
    pub what: String,
    /// Kind of the fault. For a panic, the handler may add the source location to `what`.
    pub kind: StackFaultKind,
}

impl StackFault {
    /// The sentence in a result's warnings.
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
