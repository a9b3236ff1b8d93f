//! Where the segments in flight live: a slab with a free list.

use crate::tcp::segment::Segment;

/// Segments by slot, each with a number unique in the run.
#[derive(Debug, Default)]
pub struct Arena {
    segments: Vec<Segment>,
    numbers: Vec<u64>,
    free: Vec<u32>,
    next_number: u64,
}

impl Arena {
    /// Keep a segment; returns its slot.
    #[inline]
    pub fn keep(&mut self, segment: Segment) -> u32 {
        let number = self.next_number;
        self.next_number += 1;
        match self.free.pop() {
            Some(slot) => {
                self.segments[slot as usize] = segment;
                self.numbers[slot as usize] = number;
                slot
            }
            None => {
                self.segments.push(segment);
                self.numbers.push(number);
                (self.segments.len() - 1) as u32
            }
        }
    }
    /// The segment in a slot.
    #[inline]
    pub fn at(&self, slot: u32) -> &Segment {
        &self.segments[slot as usize]
    }
    /// The segment in a slot, to change.
    #[inline]
    pub fn at_mut(&mut self, slot: u32) -> &mut Segment {
        &mut self.segments[slot as usize]
    }
    /// The packet number of a slot.
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
        self.next_number
    }
}
