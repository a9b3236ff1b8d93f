//! The receive window: how it opens, grows and follows a slow reader.
//!
//! Sources: RFC 9293 section 3.8.6.2.2; Linux `tcp_select_initial_window`, `tcp_init_buffer_space`, `tcp_grow_window`.

use super::Receiver;
use super::reader::{Buffer, Reader};
use crate::tcp::segment::Segment;
use crate::tcp::stack::Stack;
use crate::tcp::tuning::Tuning;
use crate::time::{Bytes, Duration, Rate, Time};

/// State of the receive window.
#[derive(Clone, Debug, Default)]
pub(super) struct Offer {
    pub right_edge: u64,
    /// The window offered while the buffer is empty.
    pub capacity: Bytes,
    /// Linux `rcv_ssthresh`: the current limit on the window, which grows towards `capacity`.
    pub offered: Bytes,
    pub scale: u8,
    /// Added before a window is scaled: `__tcp_select_window` rounds up, RFC 7323 section 2.3 rounds down.
    round_up: u16,
    /// The window closes when less than 1/N of the buffer is free; 0: the right edge moves by whole segments instead.
    pub parts: u16,
    /// Receive-buffer tuning, which raises `capacity` if the buffer begins small.
    pub tuning: Option<Box<Tuning>>,
    /// Number of segments that the latest arrival delivered by filling a gap, including itself, until its ACK leaves:
    /// the application reads them after that. 0: it filled none.
    pub brought: u16,
    /// The model of an application that reads slowly; `None`: it reads at once.
    pub reader: Option<Box<Reader>>,
}

impl Offer {
    /// `buffer`: the receive buffer; `mss`: payload of a full segment.
    pub fn new(stack: &Stack, buffer: Bytes, mss: u32) -> Self {
        let share = Share::of(stack, mss);
        let scale = scale_of(buffer);
        let most = share.of_buffer(buffer).min(65_535 << scale);
        let parts = u16::try_from(stack.window_parts).unwrap_or(u16::MAX);
        let round_up = if parts > 0 { (1 << scale) - 1 } else { 0 };
        let bounded = |space: Bytes| stack.initial_receive_window.map_or(space, |most| most.min(space));
        let Some(first) = stack.initial_receive_buffer.map(|first| first.min(buffer)) else {
            let offered = bounded(most);
            return Offer {
                right_edge: offered,
                capacity: most,
                offered,
                scale,
                parts,
                round_up,
                ..Offer::default()
            };
        };
        let space = share.at_first(first);
        let mss = Bytes::from(mss);
        // `tcp_init_buffer_space` reserves one segment of the first buffer.
        let offered = if space > 2 * mss { (space - mss).max(2 * mss) } else { space };
        // `tcp_grow_window`: the segment just received occupies buffer space while the window grows.
        let most = most.saturating_sub(share.of_segment).max(1);
        let capacity = offered.max(share.of_buffer(first).saturating_sub(share.of_segment).min(most));
        let capacity = if share.is_measured { capacity } else { offered };
        let offered = bounded(offered);
        let tuning = (first < buffer).then(|| {
            let tuning = Tuning::new(offered, most);
            let tuning = match stack.buffer_grows_ahead {
                true => tuning.ahead(mss, share.of_segment, |buffer| share.of_buffer(buffer)),
                false => tuning,
            };
            let mut tuning = tuning.slower_below(stack.buffer_low_rtt);
            tuning.takes_all = capacity > offered;
            Box::new(tuning)
        });
        // `tcp_connect_init` runs before timestamps are negotiated: advmss includes no options yet.
        let advertised = mss + Bytes::from(stack.counted_options());
        let right_edge = bounded(whole_segments(space, advertised)).max(offered);
        Offer { right_edge, capacity, offered, scale, round_up, parts, tuning, brought: 0, reader: None }
    }

    /// A window as the header field expresses it, rounded to the scale. No window exceeds 16 bits at this scale.
    #[inline]
    pub fn as_announced(&self, window: Bytes) -> Bytes {
        (window + Bytes::from(self.round_up)) >> self.scale << self.scale
    }
}

/// Linux `tcp_select_initial_window`: the handshake offers whole segments.
fn whole_segments(space: Bytes, segment: Bytes) -> Bytes {
    if space > segment { space / segment * segment } else { space }
}

/// The smallest window-scale shift with which 16 bits can express the whole buffer.
fn scale_of(buffer: Bytes) -> u8 {
    (0..14).find(|scale| buffer >> scale <= 65_535).unwrap_or(14)
}

/// The share of a receive buffer that is offered as window.
#[derive(Clone, Copy)]
struct Share {
    first: u32,
    /// Numerator of the share: of 256 in Linux 7, of 100 otherwise.
    parts: Bytes,
    of: Bytes,
    is_measured: bool,
    /// Window bytes that a full segment uses up while it is in the buffer.
    of_segment: Bytes,
}

impl Share {
    fn of(stack: &Stack, mss: u32) -> Self {
        // Memory of a full segment: its packet with 64 bytes before it and `skb_shared_info` after it, rounded up to a
        // power of two, plus `sk_buff`.
        let memory = (Bytes::from(mss) + 52 + 64 + 320).next_power_of_two() + 256;
        // Linux 7 measures the share from arriving segments (`tcp_measure_rcv_mss`).
        let is_measured = stack.buffer_low_rtt.is_some();
        let (parts, of) = match is_measured {
            true => ((Bytes::from(mss) << 8) / memory, 256),
            false => (Bytes::from(stack.window_share), 100),
        };
        Share { first: stack.window_share, parts, of, is_measured, of_segment: memory * parts / of }
    }

    fn of_buffer(&self, buffer: Bytes) -> Bytes {
        (buffer * self.parts / self.of).max(1)
    }

    fn at_first(&self, buffer: Bytes) -> Bytes {
        (buffer * Bytes::from(self.first) / 100).max(1)
    }
}

impl Receiver {
    /// The peer does not support window scaling: limits the window to 16 bits.
    pub fn without_scaling(&mut self) {
        self.offer.scale = 0;
        self.offer.round_up = 0;
        if let Some(tuning) = &mut self.offer.tuning {
            tuning.limit(65_535);
        }
        self.offer.capacity = self.offer.capacity.min(65_535);
        self.offer.offered = self.offer.offered.min(self.offer.capacity);
        self.offer.right_edge = self.next + self.offer.offered;
    }

    /// For an end that waits for a connection. Linux knows the peer's options before it offers a window
    /// (`tcp_openreq_init_rwin`), so its whole segments are shorter by the options than those of the end that connects.
    pub fn listen(&mut self, stack: &Stack) {
        if stack.initial_receive_buffer.is_some() {
            let (mss, offered) = (u64::from(self.mss), self.offer.offered);
            let reserved = if offered > 2 * mss { mss } else { 0 };
            let whole = whole_segments(offered + reserved, mss);
            let bounded = stack.initial_receive_window.map_or(whole, |most| most.min(whole));
            self.offer.right_edge = bounded.max(offered);
        }
    }

    /// The handshake is over: data read from now on counts for the buffer's growth.
    pub fn on_established(&mut self, now: Time) {
        if let Some(tuning) = &mut self.offer.tuning {
            tuning.begin(now);
        }
    }

    /// Makes the application read at this rate instead of at once.
    pub fn read_at(&mut self, rate: Rate) {
        self.offer.reader = Some(Box::new(Reader::new(rate)));
    }

    /// The last offered window, in bytes.
    #[inline]
    pub fn window(&self) -> Bytes {
        self.offer.right_edge.saturating_sub(self.next)
    }

    /// The window-scale shift.
    pub fn scale(&self) -> u8 {
        self.offer.scale
    }

    /// Capacity of the receive buffer as a window.
    pub fn capacity(&self) -> Bytes {
        self.offer.capacity
    }

    /// Linux `tcp_grow_window`: as long as the offered window grows, it grows by two segments per arriving segment and
    /// the sender is notified at once. This keeps slow start supplied with one ACK per segment.
    #[inline]
    pub(super) fn grow_window(&mut self) -> bool {
        let mut capacity = self.offer.capacity;
        if self.offer.offered < capacity && (!self.reassembly.is_at_rest() || self.offer.brought > 0) {
            capacity = self.room_over_gaps();
        }
        self.grow_window_within(capacity)
    }

    #[inline]
    fn grow_window_within(&mut self, capacity: Bytes) -> bool {
        let grows = self.offer.offered < capacity;
        if grows {
            self.offer.offered = (self.offer.offered + 2 * u64::from(self.mss)).min(capacity);
        }
        grows
    }

    /// The same for data out of order, which Linux charges to the buffer only afterwards (`tcp_data_queue_ofo`): the
    /// offered window may exceed by a segment what is announced.
    #[cold]
    pub(super) fn grow_window_over_gaps(&mut self) -> bool {
        let takes_all = self.offer.tuning.as_ref().is_some_and(|tuning| tuning.takes_all);
        let own = if takes_all { self.memory_of_segment() } else { 0 };
        self.grow_window_within(self.room_over_gaps() + own)
    }

    fn memory_of_segment(&self) -> Bytes {
        self.offer.tuning.as_ref().map_or(0, |tuning| tuning.in_memory())
    }

    /// Announces the rest of the previously offered window, rounded up to the scale; the right edge never moves back.
    #[cold]
    pub(super) fn keep_edge(&mut self) -> Bytes {
        let left = self.window();
        let announced = self.offer.as_announced(left).max(left);
        self.offer.right_edge = self.next + announced;
        announced
    }

    /// The largest window beside out-of-order data and what the latest segment delivered. Linux counts their memory
    /// where the buffer grows ahead (`tcp_space`); `capacity` already excludes one segment.
    #[cold]
    pub(super) fn room_over_gaps(&self) -> Bytes {
        let others =
            Bytes::from((self.reassembly.segments + u32::from(self.offer.brought)).saturating_sub(1));
        self.offer.capacity.saturating_sub(others * self.memory_of_segment())
    }

    /// The application reads what the latest segment delivered, after an ACK with this window. Whether the window can
    /// now at least double: Linux then sends an update at once (`tcp_cleanup_rbuf`).
    #[cold]
    pub(super) fn read_delivered(&mut self, window: Bytes) -> bool {
        self.offer.brought = 0;
        if let Some(tuning) = &mut self.offer.tuning {
            self.offer.capacity = self.offer.capacity.max(std::mem::take(&mut tuning.pending));
        }
        let wider = self.offer.as_announced(self.offer.offered.min(self.room_over_gaps()));
        2 * window <= wider.min(self.offer.capacity)
    }

    /// Receive-buffer tuning: grows the buffer with the amount read.
    #[cold]
    pub(super) fn tune(&mut self, segment: &Segment, now: Time, srtt: Duration, stack: &Stack) {
        let Some(tuning) = &mut self.offer.tuning else { return };
        if segment.ts_ecr != Time::NEVER && segment.len >= self.mss {
            tuning.sample(segment.ts_ecr, now, stack.timestamp_tick);
        }
        // Apart, each segment is read for itself (`tcp_recvmsg`), and the first one ends the measurement.
        let end = match stack.segments_join {
            true => self.next,
            false => self.next.min(segment.seq + u64::from(segment.len)),
        };
        if let Some(window) = tuning.read(end, now, srtt) {
            // The ACK of a filled gap leaves before the application reads.
            match self.offer.brought > 0 {
                true => tuning.pending = window,
                false => self.offer.capacity = self.offer.capacity.max(window),
            }
        }
    }

    /// Linux `tcp_rcv_rtt_measure_ts`: a full segment that is out of order gives an RTT sample, too.
    #[cold]
    pub(super) fn sample_rtt(&mut self, segment: &Segment, now: Time, stack: &Stack) {
        if let Some(tuning) = &mut self.offer.tuning
            && tuning.grows_ahead()
            && segment.ts_ecr != Time::NEVER
            && segment.len >= self.mss
        {
            tuning.sample(segment.ts_ecr, now, stack.timestamp_tick);
        }
    }

    /// Linux 7 also grows the buffer with out-of-order data (`tcp_data_queue_ofo`).
    pub(super) fn tune_over_gaps(&mut self) {
        let extent = self.reassembly.ranges.back().map_or(0, |(held, _)| held.end - self.next);
        if let Some(tuning) = &mut self.offer.tuning {
            tuning.extent = extent;
            if let Some(window) = tuning.over_gaps() {
                self.offer.capacity = self.offer.capacity.max(window);
            }
        }
    }

    pub(super) fn buffer(&self) -> Buffer {
        // RFC 9293 section 3.8.6.2.2: the least step of the right edge, no finer than the window scale.
        let (mss, grain) = (u64::from(self.mss), 1 << self.offer.scale);
        let (step, least) = match self.offer.parts {
            0 => (mss.min(self.offer.capacity / 2).max(grain), 0),
            parts => (grain, (self.offer.capacity / u64::from(parts)).max(mss.min(self.offer.capacity))),
        };
        let (next, edge, offered, capacity) =
            (self.next, self.offer.right_edge, self.offer.offered, self.offer.capacity);
        Buffer { next, edge, offered, capacity, step, least }
    }

    /// New data waits for the reader.
    #[cold]
    pub(super) fn on_unread(&mut self, prior_next: u64, now: Time) {
        let buffer = self.buffer();
        if let Some(reader) = &mut self.offer.reader {
            reader.on_arrival(prior_next, now);
            reader.plan(buffer, now);
        }
    }

    /// Moves the right edge as far as the reader has made room.
    #[cold]
    pub(super) fn offer_what_was_read(&mut self, now: Time) {
        let buffer = self.buffer();
        let Some(reader) = &self.offer.reader else { return };
        let window = reader.edge(buffer, now).saturating_sub(self.next);
        // `__tcp_select_window` rounds down while less than half the buffer is free.
        let window = match window < buffer.capacity / 2 {
            true => window >> self.offer.scale << self.offer.scale,
            false => self.offer.as_announced(window),
        };
        let Some(reader) = &mut self.offer.reader else { return };
        self.offer.right_edge = self.offer.right_edge.max(self.next + window);
        reader.plan(Buffer { edge: self.offer.right_edge, ..buffer }, now);
    }
}
