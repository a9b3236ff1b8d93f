//! The window this end offers: how it opens, grows and follows a slow reader.
//!
//! Sources: RFC 9293 section 3.8.6.2.2; Linux `tcp_select_initial_window`, `tcp_init_buffer_space`, `tcp_grow_window`.

use super::Receiver;
use super::reader::{Buffer, Reader};
use crate::tcp::segment::Segment;
use crate::tcp::stack::Stack;
use crate::tcp::tuning::Tuning;
use crate::time::{Bytes, Duration, Rate, Time};

/// What may be offered.
#[derive(Clone, Debug, Default)]
pub(super) struct Offer {
    pub right_edge: u64,
    /// The window an empty buffer offers.
    pub capacity: Bytes,
    /// Linux `rcv_ssthresh`: the window offered so far, growing towards `capacity`.
    pub offered: Bytes,
    pub scale: u8,
    /// Bytes of options that Linux counts to a segment's payload.
    options: u8,
    /// The window is closed with less than one part in N of the buffer free; 0: it moves by a segment.
    pub parts: u32,
    /// `capacity` follows it, if the buffer begins small.
    pub tuning: Option<Box<Tuning>>,
    /// An application that does not read at once.
    pub reader: Option<Box<Reader>>,
}

impl Offer {
    /// The largest window, and the shift that announces it.
    pub fn new(stack: &Stack, most: Bytes, scale: u8, mss: u32) -> Self {
        let first = stack.initial_window_capacity().filter(|first| *first < most);
        let with_options = u64::from(mss) + u64::from(stack.counted_options());
        // tcp_init_buffer_space: a segment of a buffer that is to grow stays in reserve until it has grown.
        let capacity = first.map_or(most, |space| match space > 2 * with_options {
            true => (space - with_options).max(2 * with_options),
            false => space,
        });
        let bounded = |space: Bytes| stack.initial_receive_window.map_or(space, |most| most.min(space));
        let offered = bounded(capacity);
        // tcp_select_initial_window: the handshake offers the whole segments of all of it.
        let right_edge = first.map_or(offered, |space| {
            let whole = if space > with_options { space / with_options * with_options } else { space };
            bounded(whole).max(offered)
        });
        let tuning = (capacity < most).then(|| {
            let tuning = Tuning::new(offered, most);
            let tuning = if stack.buffer_grows_ahead {
                tuning.ahead(with_options, stack.window_share)
            } else {
                tuning
            };
            Box::new(tuning.slower_below(stack.buffer_low_rtt))
        });
        let (options, parts) = (stack.counted_options(), stack.window_parts);
        Offer { right_edge, capacity, offered, scale, options, parts, tuning, reader: None }
    }
}

impl Receiver {
    /// Window scaling was not agreed: the window shrinks to what 16 bits hold.
    pub fn without_scaling(&mut self) {
        self.offer.scale = 0;
        if let Some(tuning) = &mut self.offer.tuning {
            tuning.limit(65_535);
        }
        self.offer.capacity = self.offer.capacity.min(65_535);
        self.offer.offered = self.offer.offered.min(self.offer.capacity);
        self.offer.right_edge = self.next + self.offer.offered;
    }

    /// The application reads at this rate, and not at once.
    pub fn read_at(&mut self, rate: Rate) {
        self.offer.reader = Some(Box::new(Reader::new(rate)));
    }

    /// The window offered last, in bytes.
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

    /// Linux `tcp_grow_window`: while the offered window still grows, two segments of `advmss` for each that comes, the
    /// sender learns of it at once. This is what keeps slow start fed with an ACK a segment.
    #[inline]
    pub(super) fn grow_window(&mut self) -> bool {
        let grows = self.offer.offered < self.offer.capacity;
        if grows {
            let segment = u64::from(self.mss) + u64::from(self.offer.options);
            self.offer.offered = (self.offer.offered + 2 * segment).min(self.offer.capacity);
        }
        grows
    }

    /// The buffer grows with what was read.
    #[cold]
    pub(super) fn tune(&mut self, segment: &Segment, now: Time, srtt: Duration, stack: &Stack) {
        let Some(tuning) = &mut self.offer.tuning else { return };
        if segment.ts_ecr != Time::NEVER && segment.len >= self.mss {
            tuning.sample(segment.ts_ecr, now, stack.timestamp_tick);
        }
        if let Some(window) = tuning.read(self.next, now, srtt) {
            self.offer.capacity = self.offer.capacity.max(window);
        }
    }

    /// Linux 7 lets the buffer grow with what waits out of order, too (`tcp_data_queue_ofo`).
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
        // RFC 9293 section 3.8.6.2.2, and what the window's scale can express.
        let (mss, grain) = (u64::from(self.mss), 1 << self.offer.scale);
        let (step, least) = match self.offer.parts {
            0 => (mss.min(self.offer.capacity / 2).max(grain), 0),
            parts => (grain, (self.offer.capacity / u64::from(parts)).max(mss.min(self.offer.capacity))),
        };
        let (next, edge, offered, capacity) =
            (self.next, self.offer.right_edge, self.offer.offered, self.offer.capacity);
        Buffer { next, edge, offered, capacity, step, least }
    }

    /// More waits for the reader.
    #[cold]
    pub(super) fn on_unread(&mut self, prior_next: u64, now: Time) {
        let buffer = self.buffer();
        if let Some(reader) = &mut self.offer.reader {
            reader.on_arrival(prior_next, now);
            reader.plan(buffer, now);
        }
    }

    /// Move the right edge as far as the reader has made room.
    #[cold]
    pub(super) fn offer_what_was_read(&mut self, now: Time) {
        let buffer = self.buffer();
        let Some(reader) = &mut self.offer.reader else { return };
        let window = reader.edge(buffer, now).saturating_sub(self.next);
        let window = (window >> self.offer.scale).min(65_535) << self.offer.scale;
        self.offer.right_edge = self.offer.right_edge.max(self.next + window);
        reader.plan(Buffer { edge: self.offer.right_edge, ..buffer }, now);
    }
}
