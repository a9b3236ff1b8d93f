//! The bound on what waits in the host's own queue.
//!
//! Law: sending stops while two bursts, or 1/1024 s of the pacing rate, wait there. Source: Linux 6.1
//! `tcp_small_queue_check`.
//!
//! Differs from the source: the queue of the first link on the route stands for qdisc and device together, and its
//! bytes for the memory they take. Links that hold packets for processing jitter stand before it and empty at once, so
//! there is nothing to bound in them.

use super::Sender;
use super::burst::PER_SECOND;
use crate::time::Bytes;

/// What waits in the queue of the host's link, if the stack looks at it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostQueue {
    bytes: Bytes,
    /// Sending waits for it.
    is_awaited: bool,
}

impl Sender {
    /// Does the host's queue hold as much of ours as it may? One burst may always wait there, so that sending
    /// does not hang on the report alone.
    #[cold]
    pub(super) fn has_queued_enough(&mut self) -> bool {
        let burst = u64::from(self.most_segments());
        let two_bursts = 2 * burst * u64::from(self.control.mss);
        let most = self.stack.small_queue.unwrap_or(Bytes::MAX);
        let limit = two_bursts.max(self.rate_bytes() / PER_SECOND).min(most);
        self.host_queue.is_awaited =
            self.host_queue.bytes > limit && u64::from(self.board.segments_out()) > burst;
        self.host_queue.is_awaited
    }

    /// The host's link took `bytes` of ours.
    pub fn on_queued(&mut self, bytes: Bytes) {
        self.host_queue.bytes += bytes;
    }

    /// The host's link has sent, or dropped, `bytes` of ours. True: sending has waited for it.
    pub fn on_unqueued(&mut self, bytes: Bytes) -> bool {
        self.host_queue.bytes = self.host_queue.bytes.saturating_sub(bytes);
        self.host_queue.is_awaited
    }

    /// Bytes of ours in the queue of the host's link, if the stack looks at it.
    pub fn queued(&self) -> Bytes {
        self.host_queue.bytes
    }
}
