//! Content of a packet: a TCP segment or a datagram.
//!
//! Sequence numbers are 64-bit stream offsets, so they never wrap inside the engine: offset 0 is the first
//! byte of payload (initial sequence number + 1). Captures fold them to 32 bits when they are written.

use crate::tcp::stack::Stack;
use crate::time::{Bytes, Time};

/// A half-open range of stream offsets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Range {
    /// Offset of the first byte.
    pub start: u64,
    /// One past the last offset.
    pub end: u64,
}

/// TCP header bits, by their wire values (RFC 9293 section 3.1, RFC 3168, RFC 9768).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Hand the data to the application now.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgement field is valid.
    pub const ACK: Flags = Flags(0x10);
    /// ECN echo.
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced.
    pub const CWR: Flags = Flags(0x80);
    /// Accurate ECN: the three bits AE, CWR and ECE are one counter (RFC 9768 section 3.2.2).
    pub const AE: Flags = Flags(0x100);

    /// Are all bits of `other` set?
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
    /// The union of two sets of flags.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
    /// These flags with a count in the three bits of AccECN's ACE field, which must be clear.
    pub const fn with_ace(self, count: u8) -> Flags {
        Flags(self.0 | (count as u16 % ACE_MODULUS) << ACE_SHIFT)
    }
    /// The count in the ACE field.
    pub const fn ace(self) -> u8 {
        (self.0 >> ACE_SHIFT & (ACE_MODULUS - 1)) as u8
    }
}

/// ECE is the lowest bit of the ACE field.
const ACE_SHIFT: u32 = 6;
/// The ACE field counts modulo this.
pub const ACE_MODULUS: u16 = 8;
/// Both ends' counts of CE-marked packets begin here (RFC 9768 section 3.2.1).
pub const ACE_START: u64 = 5;

/// Marks a segment without a row in the packets table.
pub const NO_ROW: u32 = u32::MAX;

/// A segment or datagram in flight. The arena stores it; the packet holds its slot.
///
/// Fields in order of memory: the first cache line has what every segment uses; the second has the SACK blocks, which
/// few segments use.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Segment {
    /// Stream offset of the first payload byte; for datagrams the number of the datagram.
    pub seq: u64,
    /// Next offset the sender of this segment expects.
    pub ack: u64,
    /// Advertised window in bytes (already scaled).
    pub window: Bytes,
    /// Timestamp value: when it was sent.
    pub ts_val: Time,
    /// Timestamp echo; [`Time::NEVER`] if there is none.
    pub ts_ecr: Time,
    /// Endpoint that will receive it.
    pub to: u32,
    /// Row of the packets table that waits for its arrival, or [`NO_ROW`].
    pub row: u32,
    /// Payload bytes.
    pub len: u32,
    /// Header bits. A datagram has none.
    pub flags: Flags,
    /// Whether it is a retransmission.
    pub is_repeated: bool,
    /// Whether the packet carries a CE mark (copied from the packet at delivery).
    pub ce: bool,
    /// The SYN's window-scale offer (valid with SYN).
    pub window_scale: u8,
    /// Number of valid SACK blocks.
    pub sack_count: u8,
    /// The first SACK block reports a duplicate (RFC 2883).
    pub is_dsack: bool,
    /// Whether a wire has damaged it, so that the receiver's checksum fails.
    pub is_damaged: bool,
    /// SACK blocks, most recent first (RFC 2018 section 4). Read them through [`Segment::sack_blocks`]: unused entries
    /// contain those of the slot's previous segment.
    pub sack: [Range; 4],
}

const _: () = assert!(std::mem::offset_of!(Segment, sack) == 64, "what all segments have is one cache line");

/// The part of an outgoing segment that the sender decides.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    /// Stream offset of the first payload byte.
    pub seq: u64,
    /// Payload bytes.
    pub len: u32,
    /// FIN and CWR, if due.
    pub flags: Flags,
    /// Whether it is a retransmission.
    pub is_repeated: bool,
}

impl Outgoing {
    /// A pure ACK.
    #[inline]
    pub const fn nothing(seq: u64) -> Self {
        Outgoing { seq, len: 0, flags: Flags(0), is_repeated: false }
    }
}

impl Segment {
    /// An empty segment to fill in.
    pub const fn blank() -> Self {
        Segment {
            seq: 0,
            ack: 0,
            window: 0,
            ts_val: Time::ZERO,
            ts_ecr: Time::NEVER,
            to: 0,
            row: NO_ROW,
            len: 0,
            flags: Flags(0),
            is_repeated: false,
            ce: false,
            window_scale: 0,
            sack_count: 0,
            is_dsack: false,
            is_damaged: false,
            sack: [Range { start: 0, end: 0 }; 4],
        }
    }

    /// Copies `other`, including its SACK blocks only if it has any.
    #[inline]
    pub fn replace_by(&mut self, other: &Segment) {
        // Every field by name, so that a new one cannot be forgotten.
        let Segment {
            seq,
            ack,
            window,
            ts_val,
            ts_ecr,
            to,
            row,
            len,
            flags,
            is_repeated,
            ce,
            window_scale,
            sack_count,
            is_dsack,
            is_damaged,
            sack,
        } = other;
        self.seq = *seq;
        self.ack = *ack;
        self.window = *window;
        self.ts_val = *ts_val;
        self.ts_ecr = *ts_ecr;
        self.to = *to;
        self.row = *row;
        self.len = *len;
        self.flags = *flags;
        self.is_repeated = *is_repeated;
        self.ce = *ce;
        self.window_scale = *window_scale;
        self.sack_count = *sack_count;
        self.is_dsack = *is_dsack;
        self.is_damaged = *is_damaged;
        if *sack_count > 0 {
            self.sack = *sack;
        }
    }

    /// The SACK blocks that are valid.
    pub fn sack_blocks(&self) -> &[Range] {
        &self.sack[..usize::from(self.sack_count)]
    }

    /// Length in sequence space: payload, and one for FIN.
    pub fn sequence_length(&self) -> u64 {
        u64::from(self.len) + u64::from(self.flags.has(Flags::FIN))
    }
}

/// Bytes of the TCP header without options.
pub const TCP_HEADER: u32 = 20;
/// Timestamps option, padded (RFC 7323 appendix A).
pub const TIMESTAMP_OPTION: u32 = 12;
/// Options of a SYN: MSS 4, SACK permitted 2, timestamps 10, no-op 1, window scale 3.
pub const SYN_OPTIONS: u32 = 20;

/// IP length of a segment that this stack sends.
pub fn ip_bytes(segment: &Segment, stack: &Stack) -> u32 {
    let options = if segment.flags.has(Flags::SYN) {
        SYN_OPTIONS
    } else {
        let sack = if segment.sack_count > 0 { 4 + 8 * u32::from(segment.sack_count) } else { 0 };
        sack + if stack.timestamps { TIMESTAMP_OPTION } else { 0 }
    };
    stack.ip_header + TCP_HEADER + options + segment.len
}
