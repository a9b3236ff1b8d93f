//! Zero-window probes and the timer for silly-window avoidance.
//!
//! The update that opens a closed window may be lost. So with nothing in flight the sender probes, doubling the wait
//! each time. The same timer ends sender-side silly-window avoidance.
//!
//! Sources: RFC 9293 sections 3.8.6.1 (probing zero windows) and 3.8.6.2.1 (the override timeout); Linux
//! `tcp_write_wakeup` and `tcp_probe0_base`, FreeBSD `tcp_setpersist`.
//!
//! Differs from the sources: every stack sends Linux's probe, an empty segment one below the acknowledged offset. BSD,
//! ns-3 and the RFC send one byte of new data. Both provoke the same ACK, and the empty probe needs no retransmission.
//! A connection never gives up on a window that stays closed.

use super::Sender;
use super::timers::Waits;
use crate::tcp::rtt::RtoRule;
use crate::tcp::segment::{Flags, Outgoing};
use crate::time::{Bytes, Duration, Time};

/// The persist timer uses the retransmission timer: they never run at the same time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Persist {
    expiries: u32,
    is_due: bool,
    /// An ACK arrived since the timer was armed.
    is_answered: bool,
}

/// What to do if the window has too little room.
pub(super) enum Patience {
    /// Wait for more room.
    Wait,
    /// Send a window probe.
    Probe,
    /// Send what fits.
    Over,
}

impl Sender {
    /// An ACK arrived while nothing is in flight.
    #[inline]
    pub(super) fn note_answer(&mut self) {
        self.persist.is_answered = self.timer.runs();
    }

    pub(super) fn on_persist_timer(&mut self) {
        self.timer.stop();
        self.persist.expiries += 1;
        self.persist.is_due = true;
    }

    /// The window has room for `bytes` of the `available` bytes, too few to send by the rule.
    #[cold]
    pub(super) fn wait_for_window(&mut self, bytes: Bytes, available: Bytes, now: Time) -> Patience {
        if available == 0 || !self.board.is_empty() {
            return Patience::Wait;
        }
        let is_due = std::mem::take(&mut self.persist.is_due);
        // In Linux each ACK that leaves the window too small begins the wait again (`tcp_ack_probe`).
        let is_answered = std::mem::take(&mut self.persist.is_answered);
        let begins_again = is_answered && self.stack.rto_rule == RtoRule::Linux;
        if is_due || !self.timer.runs() || begins_again {
            self.timer.arm(Waits::Timeout, now, self.persist_wait());
        }
        match (is_due, bytes) {
            (false, _) => Patience::Wait,
            (true, 0) => Patience::Probe,
            (true, _) => Patience::Over,
        }
    }

    fn persist_wait(&self) -> Duration {
        let factor = 1u64 << self.persist.expiries.min(16);
        let wait = Duration::from_ps(self.rtt.timeout_in_ticks(&self.stack).as_ps().saturating_mul(factor));
        wait.max(self.stack.persist_minimum).min(self.stack.persist_maximum)
    }

    /// Its sequence number is below what the receiver expects, so the receiver must answer (RFC 9293 section 3.10.7.4,
    /// first check).
    pub(super) fn window_probe(&self) -> Outgoing {
        Outgoing { seq: self.snd_una.wrapping_sub(1), len: 0, flags: Flags::default(), is_repeated: true }
    }
}
