//! Where the segments in flight live: a slab with a free list.
//!
//! A slot is one cache line and holds what every segment has. SACK blocks, as long again and seldom there, lie in a
//! slab of their own, which a segment without any never touches.

use prefetch_index::prefetch_index;

use crate::tcp::segment::{Flags, Range, Segment};
use crate::time::{Bytes, Time};

/// A [`Segment`] but for its SACK blocks.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line {
    to: u32,
    row: u32,
    seq: u64,
    ack: u64,
    window: Bytes,
    ts_val: Time,
    ts_ecr: Time,
    len: u32,
    flags: Flags,
    is_repeated: bool,
    ce: bool,
    window_scale: u8,
    sack_count: u8,
    is_dsack: bool,
}

const _: () = assert!(size_of::<Line>() == 64, "a slot is one cache line");

impl Line {
    #[inline]
    fn of(segment: &Segment) -> Self {
        // Every field by name, so that a new one cannot be forgotten.
        let Segment {
            to,
            row,
            seq,
            len,
            flags,
            is_repeated,
            ce,
            window_scale,
            sack_count,
            is_dsack,
            ack,
            window,
            ts_val,
            ts_ecr,
            sack: _,
        } = *segment;
        Line {
            to,
            row,
            seq,
            ack,
            window,
            ts_val,
            ts_ecr,
            len,
            flags,
            is_repeated,
            ce,
            window_scale,
            sack_count,
            is_dsack,
        }
    }

    #[inline]
    fn with(&self, sack: [Range; 4]) -> Segment {
        Segment {
            to: self.to,
            row: self.row,
            seq: self.seq,
            len: self.len,
            flags: self.flags,
            is_repeated: self.is_repeated,
            ce: self.ce,
            window_scale: self.window_scale,
            sack_count: self.sack_count,
            is_dsack: self.is_dsack,
            ack: self.ack,
            window: self.window,
            ts_val: self.ts_val,
            ts_ecr: self.ts_ecr,
            sack,
        }
    }
}

/// Segments by slot. If asked to, it gives each a number unique in the run.
#[derive(Debug, Default)]
pub struct Arena {
    lines: Vec<Line>,
    sacks: Vec<[Range; 4]>,
    numbers: Vec<u64>,
    is_numbered: bool,
    free: Vec<u32>,
    ever: u64,
}

impl Arena {
    /// `is_numbered`: somebody will ask for numbers.
    pub fn new(is_numbered: bool) -> Self {
        Arena { is_numbered, ..Arena::default() }
    }

    /// Keep a segment; returns its slot.
    #[inline]
    pub fn keep(&mut self, segment: &Segment) -> u32 {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.grow(),
        };
        self.lines[slot as usize] = Line::of(segment);
        if segment.sack_count > 0 {
            self.sacks[slot as usize] = segment.sack;
        }
        if self.is_numbered {
            self.numbers[slot as usize] = self.ever;
        }
        self.ever += 1;
        slot
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let slot = self.lines.len();
        self.lines.push(Line::of(&Segment::blank()));
        self.sacks.push([Range::default(); 4]);
        if self.is_numbered {
            self.numbers.push(0);
        }
        slot as u32
    }

    /// The segment in a slot.
    #[inline]
    pub fn at(&self, slot: u32) -> Segment {
        let line = &self.lines[slot as usize];
        let sack = if line.sack_count > 0 { self.sacks[slot as usize] } else { [Range::default(); 4] };
        line.with(sack)
    }
    /// Have a slot's line in the cache soon.
    #[inline]
    pub fn fetch(&self, slot: u32) {
        prefetch_index(&self.lines, slot as usize);
    }
    /// The endpoint that will receive the segment in a slot.
    #[inline]
    pub fn to(&self, slot: u32) -> u32 {
        self.lines[slot as usize].to
    }
    /// The number of the packet in a slot, if they are numbered.
    #[inline]
    pub fn number(&self, slot: u32) -> u64 {
        self.numbers[slot as usize]
    }
    /// The slot may be used again.
    #[inline]
    pub fn release(&mut self, slot: u32) {
        self.free.push(slot);
    }
    /// Packets ever kept.
    pub fn ever(&self) -> u64 {
        self.ever
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_what_it_was_given_whoever_had_the_slot_before() {
        let mut arena = Arena::new(true);
        let blocks = [1, 3, 5, 7].map(|start| Range { start, end: start + 1 });
        let full = Segment { to: 9, seq: 1 << 40, ack: 7, sack: blocks, sack_count: 3, ..Segment::blank() };
        let first = arena.keep(&full);
        assert_eq!(arena.at(first).sack_blocks(), &blocks[..3]);
        assert_eq!((arena.at(first).seq, arena.at(first).ack, arena.to(first)), (1 << 40, 7, 9));
        arena.release(first);
        let plain = Segment { len: 1448, ce: true, ..Segment::blank() };
        let second = arena.keep(&plain);
        assert_eq!((second, arena.number(second), arena.ever()), (first, 1, 2));
        assert_eq!(format!("{:?}", arena.at(second)), format!("{plain:?}"));
    }
}
