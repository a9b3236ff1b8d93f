//! The peer's window: how far it lets this end send.

use super::Sender;
use crate::tcp::segment::Segment;
use crate::time::Bytes;

/// The window that the peer offers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerWindow {
    /// Offset up to which data may be sent.
    pub right_edge: u64,
    /// Sequence number of the segment that last updated the window (SND.WL1).
    updated_at: u64,
    /// Largest window ever offered.
    pub widest: Bytes,
}

impl PeerWindow {
    /// The window after the handshake.
    pub fn new(snd_una: u64, window: Bytes) -> Self {
        PeerWindow { right_edge: snd_una + window, updated_at: 0, widest: window }
    }
}

impl Sender {
    /// Takes the window of the latest segment, even if it is smaller or zero (RFC 9293 section 3.10.7.4). Among
    /// segments with equal numbers, a larger window or a zero window is taken (Linux `tcp_may_update_window`).
    #[inline(always)]
    pub fn take_window(&mut self, segment: &Segment) {
        let is_later = segment.ack > self.snd_una || segment.seq > self.peer.updated_at;
        let edge = segment.ack + segment.window;
        let is_news = edge > self.peer.right_edge || segment.window == 0;
        if segment.ack < self.snd_una || !(is_later || segment.seq == self.peer.updated_at && is_news) {
            return;
        }
        self.peer.updated_at = segment.seq;
        self.peer.right_edge = edge;
        self.peer.widest = self.peer.widest.max(segment.window);
    }
}
