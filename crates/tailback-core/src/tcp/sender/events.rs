//! Congestion events and counters of the sender.

use super::Sender;
use crate::time::{Bytes, Time};

crate::labels! {
    /// Kinds of events in the `congestion` table.
    pub enum CongestionEventKind {
        /// Fast recovery began.
        RecoveryEntered = 0 => "recovery-entered",
        /// Fast recovery ended.
        RecoveryLeft = 1 => "recovery-left",
        /// Retransmission timeout.
        Timeout = 2 => "timeout",
        /// Reduction after an ECN echo began.
        CwrEntered = 3 => "cwr-entered",
        /// A reduction was undone.
        Undo = 4 => "undo",
        /// The reduction after an ECN echo ended.
        CwrLeft = 5 => "cwr-left",
    }
}

/// A congestion event at the sender.
#[derive(Clone, Copy, Debug)]
pub struct CongestionEvent {
    /// Kind of the event.
    pub kind: CongestionEventKind,
    /// Time of the event.
    pub now: Time,
    /// cwnd in bytes before.
    pub cwnd_before: Bytes,
    /// cwnd in bytes after.
    pub cwnd_after: Bytes,
    /// ssthresh in bytes after.
    pub ssthresh: Bytes,
    /// Bytes in flight.
    pub in_flight: Bytes,
}

/// Counters of the sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderCount {
    /// Segments with payload or FIN sent, retransmissions included.
    pub segments_sent: u64,
    /// Of those, retransmissions.
    pub segments_retransmitted: u64,
    /// Fast recoveries entered.
    pub recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Reductions undone.
    pub undos: u64,
    /// Duplicate ACKs received.
    pub duplicate_acks: u64,
}

impl Sender {
    pub(super) fn record(
        &self,
        kind: CongestionEventKind,
        now: Time,
        cwnd_before: Bytes,
        events: &mut Vec<CongestionEvent>,
    ) {
        events.push(CongestionEvent {
            kind,
            now,
            cwnd_before,
            cwnd_after: self.control.cwnd,
            ssthresh: self.control.ssthresh,
            in_flight: self.in_flight(),
        });
    }
}
