//! Storage of the segments in flight: a slab with a free list.
//!
//! Segments are written and read in their slots. A slot is two cache lines. The second holds SACK blocks; a segment
//! without SACK blocks never touches it.

use prefetch_index::prefetch_index;

use crate::tcp::segment::Segment;

/// Slab of segments. `is_numbered` gives each packet a number that is unique in the run.
#[derive(Debug, Default)]
pub struct Arena {
    slots: Vec<Segment>,
    numbers: Vec<u64>,
    is_numbered: bool,
    free: Vec<u32>,
    ever: u64,
    payloads: Payloads,
}

/// No payload.
const NONE: u32 = u32::MAX;

/// Payload bytes of foreign stacks' datagrams. A copy that a wire makes shares its original's payload.
#[derive(Debug, Default)]
struct Payloads {
    /// Index into `held` for each slot; shorter than the slab if the highest slots carry no payload.
    of: Vec<u32>,
    /// Payloads, each with the number of slots that share it.
    held: Vec<(Vec<u8>, u32)>,
    free: Vec<u32>,
    /// Buffers for reuse.
    spare: Vec<Vec<u8>>,
    /// Bytes in `held`, and their peak.
    bytes: u64,
    most_bytes: u64,
}

impl Arena {
    /// `is_numbered`: an instrument will ask for packet numbers.
    pub fn new(is_numbered: bool) -> Self {
        Arena { is_numbered, ..Arena::default() }
    }

    /// The slot that [`Self::take`] takes next. A caller may write there before it knows whether there is a segment to
    /// send.
    #[inline]
    pub fn next(&mut self) -> u32 {
        match self.free.last() {
            Some(slot) => *slot,
            None => self.grow(),
        }
    }

    /// Takes `slot`, which [`Self::next`] returned: its segment leaves now.
    #[inline]
    pub fn take(&mut self, slot: u32) {
        let next = self.free.pop();
        debug_assert_eq!(next, Some(slot), "a slot is taken that is not the next");
        self.take_at_once(slot);
    }

    /// Reuses a slot whose segment has been consumed: the segment written there since leaves now.
    #[inline]
    pub fn take_at_once(&mut self, slot: u32) {
        if self.is_numbered {
            self.numbers[slot as usize] = self.ever;
        }
        self.ever += 1;
    }

    /// Takes a slot for a copy of the segment in slot `before`, without SACK blocks; the caller then advances its
    /// sequence number. `before` may have been released, but must not have been overwritten.
    #[inline]
    pub fn take_alike(&mut self, before: u32) -> u32 {
        let slot = self.next();
        let one = &self.slots[before as usize];
        // Every field by name, so that a new one cannot be forgotten; together they are one copy of a cache line.
        let Segment { seq, ack, window, ts_val, ts_ecr, to, row, len, flags, is_repeated, .. } = *one;
        let Segment { ce, window_scale, sack_count, is_dsack, is_damaged: _, sack: _, .. } = *one;
        let next = &mut self.slots[slot as usize];
        (next.seq, next.ack, next.window, next.ts_val, next.ts_ecr) = (seq, ack, window, ts_val, ts_ecr);
        (next.to, next.row, next.len, next.flags, next.is_repeated) = (to, row, len, flags, is_repeated);
        (next.ce, next.window_scale, next.sack_count, next.is_dsack) =
            (ce, window_scale, sack_count, is_dsack);
        // A link without rate may have damaged the copied segment already; a free slot never holds damage.
        debug_assert!(!next.is_damaged, "repaired when it became free");
        next.seq += u64::from(len);
        self.take(slot);
        slot
    }

    /// Keep a segment; returns its slot.
    pub fn keep(&mut self, segment: &Segment) -> u32 {
        let slot = self.next();
        self.take(slot);
        self.at_mut(slot).replace_by(segment);
        slot
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let slot = self.slots.len() as u32;
        self.slots.push(Segment::blank());
        if self.is_numbered {
            self.numbers.push(0);
        }
        self.free.push(slot);
        slot
    }

    /// Clears the damage flag of a slot that is about to become free: the next segment is written field by field.
    pub fn repair(&mut self, slot: u32) {
        self.at_mut(slot).is_damaged = false;
    }

    /// The segment in a slot.
    #[inline]
    pub fn at(&self, slot: u32) -> &Segment {
        &self.slots[slot as usize]
    }
    /// The segment in a slot, to write.
    #[inline]
    pub fn at_mut(&mut self, slot: u32) -> &mut Segment {
        &mut self.slots[slot as usize]
    }
    /// Prefetches a slot's first cache line.
    #[inline]
    pub fn fetch(&self, slot: u32) {
        prefetch_index(&self.slots, slot as usize);
    }
    /// The number of the packet in a slot, if they are numbered.
    #[inline]
    pub fn number(&self, slot: u32) -> u64 {
        self.numbers[slot as usize]
    }
    /// Frees a slot.
    #[inline]
    pub fn release(&mut self, slot: u32) {
        self.free.push(slot);
    }
    /// An empty buffer.
    pub fn spare_payload(&mut self) -> Vec<u8> {
        self.payloads.spare.pop().unwrap_or_default()
    }
    /// Returns a buffer for reuse.
    pub fn recycle(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.payloads.spare.push(buffer);
    }
    /// Attaches payload bytes to the segment in a slot.
    pub fn carry(&mut self, slot: u32, bytes: Vec<u8>) {
        let Payloads { of, held, free, bytes: sum, most_bytes, .. } = &mut self.payloads;
        *sum += bytes.len() as u64;
        *most_bytes = (*most_bytes).max(*sum);
        if of.len() <= slot as usize {
            of.resize(slot as usize + 1, NONE);
        }
        of[slot as usize] = free.pop().unwrap_or_else(|| {
            held.push((Vec::new(), 0));
            (held.len() - 1) as u32
        });
        held[of[slot as usize] as usize] = (bytes, 1);
    }
    /// Shares the payload of slot `from`, if it has one, with slot `to`.
    pub fn share_payload(&mut self, from: u32, to: u32) {
        let Payloads { of, held, .. } = &mut self.payloads;
        let Some(&payload) = of.get(from as usize).filter(|payload| **payload != NONE) else { return };
        if of.len() <= to as usize {
            of.resize(to as usize + 1, NONE);
        }
        of[to as usize] = payload;
        held[payload as usize].1 += 1;
    }
    /// Takes the payload of a slot, which must have one.
    pub fn take_payload(&mut self, slot: u32) -> Vec<u8> {
        let Payloads { of, held, free, spare, bytes: sum, .. } = &mut self.payloads;
        let payload = std::mem::replace(&mut of[slot as usize], NONE);
        let (bytes, holders) = &mut held[payload as usize];
        *holders -= 1;
        if *holders > 0 {
            let mut copy = spare.pop().unwrap_or_default();
            copy.extend_from_slice(bytes);
            return copy;
        }
        *sum -= bytes.len() as u64;
        free.push(payload);
        std::mem::take(bytes)
    }
    /// Peak number of slots in use, and peak bytes of payloads.
    pub fn held(&self) -> (u64, u64) {
        (self.slots.len() as u64, self.payloads.most_bytes)
    }
    /// Number of packets ever stored.
    pub fn ever(&self) -> u64 {
        self.ever
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::segment::Range;

    #[test]
    fn gives_back_what_it_was_given_from_a_used_slot() {
        let mut arena = Arena::new(true);
        let blocks = [1, 3, 5, 7].map(|start| Range { start, end: start + 1 });
        let full = Segment { to: 9, seq: 1 << 40, ack: 7, sack: blocks, sack_count: 3, ..Segment::blank() };
        let first = arena.keep(&full);
        assert_eq!(arena.at(first).sack_blocks(), &blocks[..3]);
        assert_eq!((arena.at(first).seq, arena.at(first).ack, arena.at(first).to), (1 << 40, 7, 9));
        arena.release(first);
        let plain = Segment { len: 1448, ce: true, ..Segment::blank() };
        let second = arena.keep(&plain);
        assert_eq!((second, arena.number(second), arena.ever()), (first, 1, 2));
        assert!(arena.at(second).sack_blocks().is_empty());
        let unread = Segment { sack: plain.sack, ..*arena.at(second) };
        assert_eq!(format!("{unread:?}"), format!("{plain:?}"));
    }

    #[test]
    fn a_slot_looked_at_is_not_taken() {
        let mut arena = Arena::new(false);
        let first = arena.next();
        arena.at_mut(first).seq = 7;
        assert_eq!((arena.next(), arena.ever()), (first, 0));
        arena.take(first);
        assert_eq!((arena.at(first).seq, arena.ever()), (7, 1));
        assert_ne!(arena.next(), first);
    }
}
