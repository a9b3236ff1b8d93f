//! A receiver that lies to be sent more: acknowledgements in pieces, and of data that has not arrived.
//!
//! Source: Savage, Cardwell, Wetherall and Anderson, "TCP congestion control with a misbehaving receiver", ACM CCR 29(5),
//! 1999: ACK division and optimistic ACKs.
//!
//! Differs from the source: the true acknowledgement leaves before the optimistic one, so that a claim of what was
//! never sent costs the receiver nothing. What is missing is given up; the source asks for it again by other ways.

use super::Receiver;
use crate::tcp::stack::Stack;
use crate::time::Bytes;

/// What was claimed beside the true acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Claims {
    /// All of it is acknowledged in pieces.
    claimed: u64,
    /// The true acknowledgement has said something new, and the optimistic one has not left yet.
    is_ahead_due: bool,
    /// Payload given up.
    pub skipped: Bytes,
}

impl Receiver {
    /// The next acknowledgement that is not the true one: pieces while that is due (`is_pending`), after it the optimistic
    /// one.
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

    /// What lies before `start` is missing and counts as arrived.
    #[cold]
    pub(super) fn give_up(&mut self, start: u64) {
        self.claims.skipped += start - self.next;
        self.next = start;
    }
}
