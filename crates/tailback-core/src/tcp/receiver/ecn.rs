//! What the receiver tells of ECN marks.
//!
//! Sources: RFC 3168 section 6.1.3 (latched until CWR), RFC 8257 section 3.2 (the mark of the latest segment).

use super::Receiver;
use crate::tcp::segment::{Flags, Segment};
use crate::tcp::stack::Stack;

/// An ACK for what came before the latest segment, with the ECN echo of that time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EarlyAck {
    /// The acknowledgement number.
    pub ack: u64,
    /// Whether it echoes congestion.
    pub echo: bool,
}

/// ECE as it goes out with every ACK.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Echo {
    pub is_echoed: bool,
    /// Accurate echo: the ACK still owed for segments before the mark changed.
    pub early: Option<EarlyAck>,
}

impl Receiver {
    /// Record the ECN mark of a segment. Returns true if it must be reported at once.
    #[cold]
    pub(super) fn take_mark(&mut self, segment: &Segment, stack: &Stack) -> bool {
        if stack.conceals_marks {
            return false;
        }
        if !stack.echoes_each_mark() {
            // RFC 3168 section 6.1.3: a mark on the very packet that brings CWR is news.
            if segment.flags.has(Flags::CWR) {
                self.ecn.is_echoed = false;
            }
            self.ecn.is_echoed |= segment.ce;
            return false;
        }
        if segment.ce == self.ecn.is_echoed {
            return false;
        }
        if self.delay.unacknowledged > 0 {
            self.ecn.early = Some(EarlyAck { ack: self.next, echo: self.ecn.is_echoed });
        }
        self.ecn.is_echoed = segment.ce;
        true
    }

    /// Is an ACK owed before the current one?
    #[inline]
    pub fn owes_early_ack(&self) -> bool {
        self.ecn.early.is_some()
    }

    /// The ACK owed before the current one, if the ECN mark changed while an ACK was delayed.
    pub fn take_early_ack(&mut self) -> Option<EarlyAck> {
        self.ecn.early.take()
    }
}
