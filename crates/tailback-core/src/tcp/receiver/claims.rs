//! A misbehaving receiver: acknowledges in pieces (ACK division), and acknowledges data that has not arrived
//! (optimistic ACKs).
//!
//! Source: Savage, Cardwell, Wetherall and Anderson, "TCP congestion control with a misbehaving receiver", ACM CCR 29(5),
//! 1999: ACK division and optimistic ACKs.
//!
//! Differs from the source: the true acknowledgement leaves before the optimistic one, so a claim of data that was
//! never sent costs the receiver nothing. Missing data is given up; the source fetches it again by other means.

use super::Receiver;
use crate::tcp::stack::Stack;
use crate::time::Bytes;

/// State of the false acknowledgements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Claims {
    /// Offset up to which ACK division has acknowledged everything.
    claimed: u64,
    /// The true acknowledgement has advanced, and the optimistic ACK for it is still to be sent.
    is_ahead_due: bool,
    /// Bytes of missing payload that count as received.
    pub skipped: Bytes,
}

impl Receiver {
    /// The next false acknowledgement: pieces while the true one is due (`is_pending`), and the optimistic one after
    /// it.
    #[cold]
    pub fn next_claim(&mut self, is_pending: bool, stack: &Stack) -> Option<u64> {
        let claims = &mut self.claims;
        if !is_pending {
            let ahead = u64::from(stack.acks_ahead) * u64::from(self.mss);
            return std::mem::take(&mut claims.is_ahead_due).then_some(self.next + ahead);
        }
        let piece = u64::from(self.mss / stack.ack_division).max(1);
        if stack.ack_division > 1 && claims.claimed + piece < self.next {
            claims.claimed += piece;
            return Some(claims.claimed);
        }
        claims.is_ahead_due |= stack.acks_ahead > 0 && claims.claimed < self.next;
        claims.claimed = self.next;
        None
    }

    /// Counts the missing data before `start` as received.
    #[cold]
    pub(super) fn give_up(&mut self, start: u64) {
        self.claims.skipped += start - self.next;
        self.next = start;
    }
}
