//! Receive-buffer tuning by the amount read: Linux's dynamic right-sizing.
//!
//! Law: once per round trip, the window may grow to twice what was read in that round trip. So a sender can at most
//! double its flight per round trip, whatever its own rule. A stack that grows ahead adds sixteen segments, plus twice
//! the relative increase over the previous maximum. While the amount read doubles, that makes six times the amount, so
//! the window does not limit slow start. Since Linux 6.18 there are no sixteen segments, out-of-order data is added,
//! and below an RTT of 1 ms growth is in proportion to the RTT.
//!
//! Source: Fisk and Feng, "Dynamic Right-Sizing in TCP", LACSI 2001; Linux 2.6.17 to 3.10 `tcp_rcv_space_adjust`,
//! `tcp_rcv_rtt_measure_ts`, `tcp_init_buffer_space`; for growing ahead Linux 6.1, and `tcp_rcvbuf_grow` of 7.3.
//!
//! Differs from the source:
//! - What is received in order counts as read, also beside a slow reader (`read_rate`); whether what fills a gap
//!   counts at once is the stack's `segments_join`.
//! - Without timestamps the RTT stays that of the handshake; Linux then times a window's worth of data.

use crate::time::{Bytes, Duration, Time};

/// Linux TCP_INIT_CWND, in segments.
const INITIAL_WINDOW: u64 = 10;
/// Segments by which a window that grows ahead exceeds the amount read.
const SLACK: u64 = 16;
/// Bookkeeping that the rule assumes per segment: MAX_TCP_HEADER (256 in a kernel without wireless drivers, like
/// Debian's cloud kernels; 320 with mac80211's mesh), `sk_buff` and `skb_shared_info`. The rule adds `GRAIN` to it
/// until the window share of a segment's memory holds its payload.
const BOOKKEEPING: Bytes = 256 + 256 + 320;
const GRAIN: Bytes = 128;

/// State of receive-buffer tuning.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Window of the largest buffer, the upper limit.
    most: Bytes,
    /// Twice the maximum read in a round trip; for a stack that grows ahead, that maximum itself.
    space: Bytes,
    /// Segment sizes, if the buffer grows ahead.
    ahead: Option<Segments>,
    /// RTT at the receiver, smoothed by 7/8; when growing ahead, a smaller sample replaces it at once.
    rtt: Duration,
    /// The echoed timestamp of the latest sample.
    sampled: Time,
    /// RTT below which the buffer grows more slowly, by the rule of Linux 7; `None`: the older rule.
    low_rtt: Option<Duration>,
    /// Bytes from the next expected byte to the end of the out-of-order data, if the rule needs it.
    pub extent: Bytes,
    /// Whether the window may take all of the buffer (Linux `window_clamp`); not of the first one, of which
    /// `tcp_init_buffer_space` reserves a segment.
    pub takes_all: bool,
    /// A wider window that counts once the latest ACK has left.
    pub pending: Bytes,
    /// Start time and offset of the current measurement.
    since: Time,
    from: u64,
}

/// Segment sizes for a buffer that grows ahead.
#[derive(Clone, Copy, Debug)]
struct Segments {
    mss: Bytes,
    /// Window share of the memory that the rule assumes for a segment.
    window: Bytes,
    /// Window that a received segment uses up while it waits to be read; it may still be waiting when the offered
    /// window grows.
    in_memory: Bytes,
}

impl Segments {
    /// `window_of`: the window that a buffer of the given size yields.
    fn new(mss: Bytes, in_memory: Bytes, window_of: impl Fn(Bytes) -> Bytes) -> Self {
        let mut taken = mss + BOOKKEEPING;
        while window_of(taken) < mss {
            taken += GRAIN;
        }
        Segments { mss, window: window_of(taken), in_memory }
    }
}

impl Tuning {
    /// `offered`: the initial window; `most`: the window of the largest buffer.
    pub fn new(offered: Bytes, most: Bytes) -> Self {
        Tuning {
            most,
            space: offered,
            ahead: None,
            rtt: Duration::ZERO,
            sampled: Time::NEVER,
            low_rtt: None,
            extent: 0,
            takes_all: false,
            pending: 0,
            since: Time::NEVER,
            from: 0,
        }
    }

    /// Makes the buffer grow ahead. `mss`: payload of a full segment (`advmss`); `in_memory`: the window that a segment
    /// in the buffer uses up; `window_of`: the window that a buffer of the given size yields.
    pub fn ahead(self, mss: Bytes, in_memory: Bytes, window_of: impl Fn(Bytes) -> Bytes) -> Self {
        let segments = Segments::new(mss, in_memory, window_of);
        Tuning { space: self.space.min(INITIAL_WINDOW * mss), ahead: Some(segments), ..self }
    }

    /// The handshake is over: a buffer that grows ahead starts measuring now (`tcp_init_buffer_space`).
    pub fn begin(&mut self, now: Time) {
        if self.ahead.is_some() {
            self.since = now;
        }
    }

    /// Selects the rule of Linux 7, with slower growth below an RTT of `low_rtt`, if given.
    pub fn slower_below(self, low_rtt: Option<Duration>) -> Self {
        Tuning { low_rtt, ..self }
    }

    /// Window that a segment in the buffer uses up, if that counts.
    pub fn in_memory(&self) -> Bytes {
        self.ahead.map_or(0, |segments| segments.in_memory)
    }

    /// Whether the buffer grows ahead of what was read.
    pub fn grows_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// RTT at the receiver; zero before the first sample.
    pub fn rtt(&self) -> Duration {
        self.rtt
    }

    /// Limits the window to `most`.
    pub fn limit(&mut self, most: Bytes) {
        self.most = self.most.min(most);
    }

    /// Takes an RTT sample from a full segment that echoes a timestamp of `sent`, on a clock with granularity `tick`.
    pub fn sample(&mut self, sent: Time, now: Time, tick: Duration) {
        if self.ahead.is_none() {
            let rtt = now.since(sent);
            self.rtt = if self.rtt.is_zero() { rtt } else { self.rtt - self.rtt / 8 + rtt / 8 };
            return;
        }
        // `tcp_rcv_rtt_measure_ts`: one sample per echo, in ticks, at least one tick.
        let ps = tick.as_ps().max(1);
        let ticks = now.as_ps() / ps - sent.as_ps() / ps;
        let echo = Time::from_ps(sent.as_ps() / ps * ps);
        if std::mem::replace(&mut self.sampled, echo) == echo || ticks == 0 && self.low_rtt.is_some() {
            return;
        }
        let rtt = Duration::from_ps(ticks.max(1) * ps);
        // `tcp_rcv_rtt_update`: a smaller sample replaces the estimate.
        let is_first = self.rtt.is_zero();
        self.rtt = if is_first || rtt < self.rtt { rtt } else { self.rtt - self.rtt / 8 + rtt / 8 };
    }

    /// Linux 7: the window that out-of-order data requires, given the amount read.
    pub fn over_gaps(&self) -> Option<Bytes> {
        self.low_rtt.map(|_| (2 * self.space + self.extent).saturating_sub(self.in_memory()).min(self.most))
    }

    /// Everything up to offset `next` has been read; without timestamps the `handshake`'s RTT is used. Returns a new
    /// window when one is due.
    pub fn read(&mut self, next: u64, now: Time, handshake: Duration) -> Option<Bytes> {
        let rtt = if self.rtt.is_zero() { handshake } else { self.rtt };
        if self.since != Time::NEVER && (rtt.is_zero() || now.since(self.since) < rtt) {
            return None;
        }
        let is_first = self.since == Time::NEVER;
        let read = next - self.from;
        let space = if self.ahead.is_some() { read } else { 2 * read };
        (self.since, self.from) = (now, next);
        if is_first || space <= self.space {
            return None;
        }
        self.takes_all = true;
        let before = std::mem::replace(&mut self.space, space);
        if let (Some(low), Some(segments)) = (self.low_rtt, self.ahead) {
            // tcp_rcvbuf_grow of Linux 7.
            let wanted = 2 * read;
            let grow = if rtt < low {
                (u128::from(wanted) * u128::from(rtt.as_ps()) / u128::from(low.as_ps())) as u64
            } else {
                2 * wanted * (read - before) / before.max(1)
            };
            let window = wanted + grow + std::mem::take(&mut self.extent);
            return Some(window.saturating_sub(segments.in_memory).min(self.most));
        }
        let window = self.ahead.map_or(space, |segments| {
            let wanted = 2 * read + SLACK * segments.mss;
            let growth = wanted * (read - before) / before.max(1);
            ((wanted + 2 * growth) / segments.mss * segments.window).saturating_sub(segments.in_memory)
        });
        Some(window.min(self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_twice_what_a_round_trip_brought() {
        let mut tuning = Tuning::new(14_600, 1_000_000);
        let ms = |at: u64| Time::ZERO + Duration::from_ms(at);
        tuning.sample(ms(0), ms(100), Duration::ZERO);
        assert_eq!(tuning.read(1_000, ms(100), Duration::ZERO), None, "measuring begins");
        assert_eq!(tuning.read(21_000, ms(150), Duration::ZERO), None, "half a round trip");
        assert_eq!(tuning.read(31_000, ms(200), Duration::ZERO), Some(60_000));
        assert_eq!(tuning.read(41_000, ms(300), Duration::ZERO), None, "less than before");
        assert_eq!(tuning.read(741_000, ms(400), Duration::ZERO), Some(1_000_000), "the buffer's limit");
    }

    #[test]
    fn a_window_that_grows_ahead_is_six_times_what_a_doubling_round_trip_brought() {
        let mss = 1_448;
        let mut tuning = Tuning::new(65_535, 3_000_000).ahead(mss, 0, |buffer| buffer / 2);
        let ms = |at: u64| Time::ZERO + Duration::from_ms(at);
        tuning.sample(ms(0), ms(100), Duration::ZERO);
        assert_eq!(tuning.read(0, ms(0), Duration::ZERO), None, "measuring begins");
        assert_eq!(tuning.read(10 * mss, ms(100), Duration::ZERO), None, "no more than at first");
        // 20 segments after 10: (2 * 20 + 16) * (1 + 2) segments, of 2,920 B each in the buffer.
        assert_eq!(tuning.read(30 * mss, ms(200), Duration::ZERO), Some(168 * 1_460));
        assert_eq!(tuning.read(50 * mss, ms(300), Duration::ZERO), None, "as many as before");
    }

    #[test]
    fn a_longer_round_trip_is_believed_by_eighths() {
        let mut tuning = Tuning::new(1_000, 1_000_000);
        let ms = |at: u64| Time::ZERO + Duration::from_ms(at);
        tuning.sample(ms(0), ms(80), Duration::ZERO);
        tuning.sample(ms(0), ms(160), Duration::ZERO);
        tuning.read(0, ms(200), Duration::ZERO);
        assert_eq!(tuning.read(10_000, ms(289), Duration::ZERO), None, "80 + (160 - 80)/8 = 90 ms");
        assert_eq!(tuning.read(10_000, ms(290), Duration::ZERO), Some(20_000));
    }

    #[test]
    fn one_that_grows_ahead_takes_a_smaller_round_trip_at_once_and_one_sample_an_echo() {
        let mut tuning = Tuning::new(65_535, 3_000_000).ahead(1_448, 0, |buffer| buffer / 2);
        let (ms, us, tick) = (Time::from_ms, Time::from_us, Duration::from_ms(1));
        tuning.sample(ms(0), ms(400), tick);
        tuning.sample(ms(0), ms(800), tick);
        assert_eq!(tuning.rtt(), Duration::from_ms(400), "the second echoes the same timestamp");
        tuning.sample(ms(420), ms(500), tick);
        assert_eq!(tuning.rtt(), Duration::from_ms(80));
        tuning.sample(ms(500), ms(660), tick);
        assert_eq!(tuning.rtt(), Duration::from_ms(90), "80 + (160 - 80)/8");
        tuning.sample(us(700_100), us(700_300), tick);
        assert_eq!(tuning.rtt(), Duration::from_ms(1), "at least a millisecond");
    }

    #[test]
    fn linux_7_adds_what_waits_out_of_order_and_grows_slowly_at_a_small_rtt() {
        let at = |ms: u64| Time::ZERO + Duration::from_ms(ms);
        let new = || {
            let low = Some(Duration::from_ms(1));
            Tuning::new(65_535, 30_000_000).ahead(1_000, 0, |buffer| buffer * 5 / 8).slower_below(low)
        };
        let mut tuning = new();
        tuning.sample(at(0), at(100), Duration::from_ms(1));
        tuning.read(0, at(0), Duration::ZERO);
        tuning.extent = 5_000;
        // 20 segments after 10: 2 * 20 and 4 * 20 * (20 - 10)/10, and what waits.
        assert_eq!(tuning.read(20_000, at(100), Duration::ZERO), Some(125_000));
        tuning.extent = 30_000;
        assert_eq!(tuning.over_gaps(), Some(70_000));
        let mut near = new();
        near.read(0, at(0), Duration::from_us(500));
        // Half a millisecond: half of twice what was read.
        assert_eq!(near.read(20_000, at(1), Duration::from_us(500)), Some(60_000));
    }
}
