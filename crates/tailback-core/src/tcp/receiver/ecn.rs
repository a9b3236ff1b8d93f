//! The receiver's feedback of ECN marks.
//!
//! Sources: RFC 3168 section 6.1.3 (latched until CWR), RFC 8257 section 3.2 (the mark of the latest segment), RFC 9768
//! section 3.2.2 (a count of marked packets, three bits of it with each ACK).

use super::Receiver;
use crate::tcp::segment::{ACE_START, Flags, Segment};
use crate::tcp::stack::Stack;

/// An ACK for what arrived before the latest segment, with the ECN echo of that time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EarlyAck {
    /// The acknowledgement number.
    pub ack: u64,
    /// Whether it echoes congestion.
    pub echo: bool,
}

/// The ECN feedback that every ACK carries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Echo {
    pub is_echoed: bool,
    /// The latest segment requests quick ACKs; granted once its position in the stream is known.
    asks_quick: bool,
    /// Accurate echo: the ACK still owed for segments before the mark changed.
    pub early: Option<EarlyAck>,
    /// AccECN: number of packets that arrived marked.
    pub marked: u64,
    /// AccECN: marked packets that no ACK has reported yet.
    pub unreported: u8,
    /// AccECN: whether the latest packet was marked.
    was_marked: bool,
}

/// Number of quick ACKs after the first mark since CWR (Linux `__tcp_ecn_check_ce`).
const AFTER_A_MARK: u32 = 2;
/// AccECN: number of unreported marks that force an ACK. RFC 9768 section 3.2.2.5.1: two while data is unacknowledged.
const REPORTED_AT: u8 = 2;

impl Echo {
    /// The count in the ACE field.
    pub fn ace(&self) -> u8 {
        (ACE_START + self.marked) as u8
    }
}

impl Receiver {
    /// Records the ECN mark of a segment. Returns true if an ACK must report it at once.
    #[cold]
    pub(super) fn take_mark(&mut self, segment: &Segment, stack: &Stack) -> bool {
        if stack.conceals_marks {
            return false;
        }
        if stack.counts_marks() {
            return self.count_mark(segment.ce, stack);
        }
        if !stack.echoes_each_mark() {
            // RFC 3168 section 6.1.3: a mark on the packet that carries CWR is a new mark.
            let brings_cwr = segment.flags.has(Flags::CWR);
            if brings_cwr {
                self.ecn.is_echoed = false;
            }
            let is_first = segment.ce && !self.ecn.is_echoed;
            self.ecn.is_echoed |= segment.ce;
            if !stack.adapts_acks() {
                return false;
            }
            // `__tcp_ecn_check_ce`: the sender's window may be small after a mark, and a packet that is not ECN-capable
            // is a retransmission. `tcp_ecn_accept_cwr`: the segment with CWR is acknowledged at once.
            self.ecn.asks_quick = is_first || segment.is_repeated;
            return brings_cwr && segment.len > 0;
        }
        if segment.ce == self.ecn.is_echoed {
            // `tcp_ecn_accept_cwr` runs before the check of the mark, so this receiver too acknowledges a segment with
            // CWR at once.
            return segment.flags.has(Flags::CWR) && segment.len > 0 && stack.adapts_acks();
        }
        if self.delay.unacknowledged > 0 {
            self.ecn.early = Some(EarlyAck { ack: self.next, echo: self.ecn.is_echoed });
        }
        self.ecn.is_echoed = segment.ce;
        true
    }

    /// Linux examines the mark after `tcp_event_data_recv` has counted the quick ACKs of the first data, and ignores
    /// marks outside the window.
    #[inline]
    pub(super) fn answer_mark(&mut self, stack: &Stack) {
        if std::mem::take(&mut self.ecn.asks_quick) {
            self.enter_quick_mode(AFTER_A_MARK, stack);
        }
    }

    /// RFC 9768 section 3.2.2.5.1: reports at once a mark after an unmarked packet, and every second mark of a run.
    /// Linux (`tcp_ecn_received_counters`) reports each change at once, including the end of a run, and leaves the rest
    /// to the delayed ACK.
    fn count_mark(&mut self, is_marked: bool, stack: &Stack) -> bool {
        let is_change = is_marked != self.ecn.was_marked;
        self.ecn.was_marked = is_marked;
        self.ecn.marked += u64::from(is_marked);
        self.ecn.unreported = self.ecn.unreported.saturating_add(u8::from(is_marked));
        if stack.accecn_on_change {
            return is_change;
        }
        is_marked && (is_change || self.ecn.unreported >= REPORTED_AT)
    }

    /// Whether an ACK for earlier segments must precede the current one.
    #[inline]
    pub fn owes_early_ack(&self) -> bool {
        self.ecn.early.is_some() || self.delay.flushes
    }

    /// Takes the ACK that must precede the current one, because the ECN mark changed while an ACK was delayed.
    pub fn take_early_ack(&mut self) -> Option<EarlyAck> {
        self.ecn.early.take()
    }
}
