//! Signals for algorithms that track every packet, as in QUIC stacks.

use super::Sender;
use crate::cc::{Ack, CongestionControl, Departure, Fates};
use crate::tcp::segment::Range;
use crate::time::Time;

impl Sender {
    /// Reports a sent segment.
    #[cold]
    pub(super) fn report_departure(&mut self, range: Range, now: Time) {
        let in_flight = self.in_flight();
        let sendable = self.buffered_end().min(self.peer.right_edge);
        let departure = Departure {
            now,
            end: range.end,
            bytes: range.end - range.start,
            in_flight,
            app_limited: in_flight + u64::from(self.control.mss) <= self.control.cwnd
                && self.snd_nxt >= sendable
                && !self.board.has_repairs(),
        };
        self.algorithm.on_sent(&departure, &mut self.control);
    }

    /// Reports what an ACK delivered, and what was declared lost since the last report.
    #[cold]
    pub(super) fn report_fates(&mut self, now: Time, ack: Option<&Ack>) {
        let mut lost = self.board.losses.take().unwrap_or_default();
        let fates = Fates {
            now,
            ack,
            newest: (self.board.rack.sent, self.board.rack.end),
            lost: &lost,
            snd_una: self.snd_una,
            in_flight: self.in_flight(),
        };
        self.algorithm.on_fates(&fates, &mut self.control);
        lost.clear();
        self.board.losses = Some(lost);
        self.keep_floor();
    }
}
