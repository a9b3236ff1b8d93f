//! The row vocabulary, and the probe that fills rows.
//!
//! Metrics, plots and reports read these tables and nothing else. A probe's `WANTS` is a constant, so a run
//! without instruments compiles to a run without instruments.

pub mod captures;
pub mod path;
pub mod recorder;
pub mod rows;
pub mod schema;
pub mod stacks;

use crate::foreign::State;
use crate::link::Watch;
use crate::packet::{FlowId, Packet};
use crate::queue::{Backlog, DropReason};
use crate::tcp::endpoint::Endpoint;
use crate::tcp::segment::{NO_ROW, Segment};
use crate::time::{Bytes, Time};
use crate::traffic::Exchange;

/// One column of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Double-precision numbers; NaN is missing.
    F64(Vec<f64>),
    /// Counts and offsets.
    U64(Vec<u64>),
    /// Indices and smaller counts.
    U32(Vec<u32>),
    /// Codes.
    U16(Vec<u16>),
    /// Codes.
    U8(Vec<u8>),
    /// Switches.
    Bool(Vec<bool>),
}

/// A table: columns of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Name of the table.
    pub name: &'static str,
    /// Its columns in order.
    pub columns: Vec<(&'static str, Column)>,
}

/// Everything a run leaves behind.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Tables {
    /// The tables.
    pub tables: Vec<Table>,
    /// Names that the `internals` table's codes stand for.
    pub internals_names: Vec<&'static str>,
    /// What is allowed but probably not meant, for people.
    pub warnings: Vec<String>,
}

/// Sees the run. Every method defaults to nothing.
pub trait Probe {
    /// False: nothing is ever recorded, and the calls vanish.
    const WANTS: bool;
    /// False: no packet or segment is recorded as it passes, and neither is one that joins or leaves a queue.
    const EACH: bool;

    /// A TCP segment passes an endpoint. `outgoing`: it leaves.
    fn segment(
        &mut self,
        _now: Time,
        _flow: FlowId,
        _at_server: bool,
        _outgoing: bool,
        _end: &Endpoint,
        _segment: &Segment,
    ) {
    }
    /// Does anybody look at each segment of this flow, or at the end that sends it?
    fn watches_segments(&self, _flow: FlowId) -> bool {
        false
    }
    /// Polling time for a flow.
    fn poll_flow(&mut self, _now: Time, _flow: FlowId, _end: &Endpoint, _progress: Progress) {}
    /// Polling time for a flow of a foreign stack.
    fn poll_stack(&mut self, _now: Time, _flow: FlowId, _state: &State, _progress: Progress) {}
    /// What a foreign stack says of itself at an end of a flow's connection, after something happened there.
    fn stack_state(&mut self, _now: Time, _flow: FlowId, _connection: u32, _at_server: bool, _state: &State) {
    }
    /// Polling time for a link.
    fn poll_link(&mut self, _now: Time, _link: u32, _backlog: Backlog) {}
    /// A packet of a flow enters the network; returns its row in the packets table, if it has one.
    fn sent(&mut self, _now: Time, _flow: FlowId, _index: u64, _bytes: u32, _stream: u16) -> u32 {
        NO_ROW
    }
    /// The packet of that row arrived.
    fn received(&mut self, _now: Time, _row: u32) {}
    /// The packet of that row was dropped.
    fn lost(&mut self, _row: u32) {}
    /// An exchange begins on a flow's connection of this number; returns its row in the requests table, if it has
    /// one.
    fn asked(
        &mut self,
        _now: Time,
        _flow: FlowId,
        _connection: u64,
        _kind: Exchange,
        _bytes: Bytes,
        _turn: u16,
    ) -> u32 {
        NO_ROW
    }
    /// The exchange of that row is complete.
    fn answered(&mut self, _now: Time, _row: u32) {}
    /// The exchange of that row will never be.
    fn abandoned(&mut self, _row: u32) {}
    /// An echo request of a flow leaves.
    fn pinged(&mut self, _now: Time, _flow: FlowId, _number: u64) {}
    /// Its reply is back.
    fn ponged(&mut self, _now: Time, _flow: FlowId, _number: u64) {}
    /// A connection of a flow opens between these two ends; `address` is the client's.
    fn connected(&mut self, _now: Time, _flow: FlowId, _address: u32, _ends: [&Endpoint; 2]) {}
    /// A host sends a packet, the so-many-th of the run, for one of the flow's streams.
    fn departed(&mut self, _now: Time, _packet: &Packet, _number: u64, _stream: u16, _segment: &Segment) {}
    /// A packet reaches a link: from its host, if `is_first`.
    fn entered(&mut self, _now: Time, _link: u32, _is_first: bool, _packet: &Packet, _segment: &Segment) {}
    /// A packet reaches a link's far end.
    fn left(&mut self, _now: Time, _link: u32, _packet: &Packet, _segment: &Segment) {}
    /// A packet reaches the host it is for.
    fn arrived(&mut self, _now: Time, _packet: &Packet, _segment: &Segment) {}
    /// A wire doubled the packet in the first slot; the copy has the other slot and this number.
    fn doubled(&mut self, _from: u32, _to: u32, _number: u64) {}
    /// A queue event at a link.
    fn queue(&mut self, _link: u32, _row: &QueueRow<'_>) {}
    /// Does anybody watch this link's queue?
    fn watches(&self, _link: u32) -> bool {
        false
    }
    /// Is such an event in the queue of a link that it watches wanted?
    fn wants_event(&self, _link: u32, _event: QueueEvent) -> bool {
        false
    }
    /// Rows recorded so far.
    #[inline]
    fn rows(&self) -> u64 {
        0
    }
    /// Add the recorded tables.
    fn finish(self, _tables: &mut Tables)
    where
        Self: Sized,
    {
    }
}

/// How far a flow's connections have come together, in payload.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Acknowledged.
    pub acked: Bytes,
    /// Delivered in order at the other end.
    pub received: Bytes,
    /// Arrived there, in order or not.
    pub arrived: Bytes,
}

/// One event in a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueRow<'a> {
    /// Time of the event.
    pub now: Time,
    /// Kind of the event.
    pub event: QueueEvent,
    /// To which packet,
    pub packet: &'a Packet,
    /// and its number in the run.
    pub number: u64,
    /// What the queue holds afterwards.
    pub backlog: Backlog,
    /// Why, if it was dropped.
    pub reason: Option<DropReason>,
}

crate::labels! {
    /// What happens in a queue.
    pub enum QueueEvent {
        /// Joined.
        Enqueue = 0 => "enqueue",
        /// Left for transmission.
        Dequeue = 1 => "dequeue",
        /// Dropped.
        Drop = 2 => "drop",
        /// Marked CE.
        Mark = 3 => "mark",
    }
}

/// A probe that records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProbe;

impl Probe for NoProbe {
    const WANTS: bool = false;
    const EACH: bool = false;
}

impl Watch for NoProbe {}
