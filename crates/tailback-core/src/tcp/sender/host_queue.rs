//! TCP small queues: the limit on a sender's bytes in its host's own queue.
//!
//! Law: sending pauses while two bursts, or 1/1024 s of the pacing rate, are in that queue. Source: Linux 6.1
//! `tcp_small_queue_check`.
//!
//! Differs from the source: the queue of the first link on the route stands for qdisc and device together, and payload
//! bytes stand for memory. Links for processing jitter come before it and forward at once, so they need no limit.

use super::Sender;
use super::burst::PER_SECOND;
use crate::time::Bytes;

/// Bytes in the queue of the host's link, if the stack limits them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostQueue {
    bytes: Bytes,
    /// Sending waits for the queue to drain.
    is_awaited: bool,
}

impl Sender {
    /// Whether the host's queue holds as much of this sender's data as it may. One burst may always wait there, so that
    /// sending does not depend only on the link's report.
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

    /// The host's link has queued `bytes` of this sender.
    pub fn on_queued(&mut self, bytes: Bytes) {
        self.host_queue.bytes += bytes;
    }

    /// The host's link has sent or dropped `bytes` of this sender. Returns whether sending was waiting for it.
    pub fn on_unqueued(&mut self, bytes: Bytes) -> bool {
        self.host_queue.bytes = self.host_queue.bytes.saturating_sub(bytes);
        self.host_queue.is_awaited
    }

    /// This sender's bytes in the queue of the host's link, if the stack limits them.
    pub fn queued(&self) -> Bytes {
        self.host_queue.bytes
    }
}
