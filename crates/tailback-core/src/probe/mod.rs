//! The tables of a result, and the interface of probes that fill them.
//!
//! Metrics, plots and reports read only these tables. A probe's `WANTS` is a constant, so a run without instruments is
//! compiled without any recording.

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

/// All output of a run.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Tables {
    /// The tables.
    pub tables: Vec<Table>,
    /// Names behind the codes in table `internals`.
    pub internals_names: Vec<&'static str>,
    /// Warnings, for display: settings that are allowed but probably unintended.
    pub warnings: Vec<String>,
}

/// Observes a run. Every method does nothing by default.
pub trait Probe {
    /// False: nothing is ever recorded, and the calls are compiled away.
    const WANTS: bool;
    /// False: packets, segments and queue arrivals and departures are not recorded one by one.
    const EACH: bool;

    /// A TCP segment passes an endpoint; `outgoing`: it is being sent.
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
    /// Whether each segment of this flow, or of the end that sends it, is recorded.
    fn watches_segments(&self, _flow: FlowId) -> bool {
        false
    }
    /// Polls a flow.
    fn poll_flow(&mut self, _now: Time, _flow: FlowId, _end: &Endpoint, _progress: Progress) {}
    /// Polls a flow of a foreign stack.
    fn poll_stack(&mut self, _now: Time, _flow: FlowId, _state: &State, _progress: Progress) {}
    /// The state that a foreign stack reports at an end of a connection, after an event there.
    fn stack_state(&mut self, _now: Time, _flow: FlowId, _connection: u32, _at_server: bool, _state: &State) {
    }
    /// Polls a link.
    fn poll_link(&mut self, _now: Time, _link: u32, _backlog: Backlog) {}
    /// A packet of a flow enters the network; returns its row in the packets table, if it has one.
    fn sent(&mut self, _now: Time, _flow: FlowId, _index: u64, _bytes: u32, _stream: u16) -> u32 {
        NO_ROW
    }
    /// The packet of this row has arrived.
    fn received(&mut self, _now: Time, _row: u32) {}
    /// The packet of this row was dropped.
    fn lost(&mut self, _row: u32) {}
    /// An exchange begins on this connection of a flow; returns its row in the requests table, if it has one.
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
    /// The exchange of this row is complete.
    fn answered(&mut self, _now: Time, _row: u32) {}
    /// The exchange of this row will not complete.
    fn abandoned(&mut self, _row: u32) {}
    /// A flow sends an echo request.
    fn pinged(&mut self, _now: Time, _flow: FlowId, _number: u64) {}
    /// The reply to an echo request is back.
    fn ponged(&mut self, _now: Time, _flow: FlowId, _number: u64) {}
    /// A connection of a flow opens between these two ends; `address` is the client's.
    fn connected(&mut self, _now: Time, _flow: FlowId, _address: u32, _ends: [&Endpoint; 2]) {}
    /// A host sends packet `number` of the run, on one of the flow's streams.
    fn departed(&mut self, _now: Time, _packet: &Packet, _number: u64, _stream: u16, _segment: &Segment) {}
    /// A packet enters a link; `is_first`: it comes from its host.
    fn entered(&mut self, _now: Time, _link: u32, _is_first: bool, _packet: &Packet, _segment: &Segment) {}
    /// A packet reaches a link's far end.
    fn left(&mut self, _now: Time, _link: u32, _packet: &Packet, _segment: &Segment) {}
    /// A packet reaches its destination host.
    fn arrived(&mut self, _now: Time, _packet: &Packet, _segment: &Segment) {}
    /// A wire duplicated the packet in slot `from`; the copy has slot `to` and this number.
    fn doubled(&mut self, _from: u32, _to: u32, _number: u64) {}
    /// A queue event at a link.
    fn queue(&mut self, _link: u32, _row: &QueueRow<'_>) {}
    /// Whether this link's queue is recorded.
    fn watches(&self, _link: u32) -> bool {
        false
    }
    /// Whether such an event in the queue of a recorded link is recorded.
    fn wants_event(&self, _link: u32, _event: QueueEvent) -> bool {
        false
    }
    /// Number of rows recorded so far.
    #[inline]
    fn rows(&self) -> u64 {
        0
    }
    /// Adds the recorded tables.
    fn finish(self, _tables: &mut Tables)
    where
        Self: Sized,
    {
    }
}

/// Payload that all connections of a flow have transferred together, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Acknowledged bytes.
    pub acked: Bytes,
    /// Bytes delivered in order at the receiver.
    pub received: Bytes,
    /// Bytes that arrived at the receiver, in order or not.
    pub arrived: Bytes,
}

/// An event in a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueRow<'a> {
    /// Time of the event.
    pub now: Time,
    /// Kind of the event.
    pub event: QueueEvent,
    /// The packet.
    pub packet: &'a Packet,
    /// Number of the packet in the run.
    pub number: u64,
    /// The queue's backlog after the event.
    pub backlog: Backlog,
    /// Reason of a drop.
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
