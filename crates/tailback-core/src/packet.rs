//! The packet descriptor that travels through queues and links.
//!
//! A [`Packet`] is small and copyable; its contents are in an arena that the host owns (segments in the simulator,
//! frame buffers in an emulator). Queues and links see only the descriptor, so the same compiled queue serves both.

use crate::time::Time;

/// Number of a flow in the scenario, in the order the scenario lists them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct FlowId(pub u32);

crate::labels! {
    /// The ECN codepoint of the IP header (RFC 3168 section 5).
    #[derive(Default)]
    pub enum Ecn {
        /// The sender does not speak ECN.
        NotEct = 0 => "not-ect" default,
        /// ECN capable, and L4S (RFC 9331).
        Ect1 = 1 => "ect1",
        /// ECN capable.
        Ect0 = 2 => "ect0",
        /// Congestion experienced.
        Ce = 3 => "ce",
    }
}

impl Ecn {
    /// Whether a queue may mark this packet instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }
}

/// A packet as queues and links see it.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Slot of the packet's contents in the host's arena.
    pub slot: u32,
    /// The flow it belongs to.
    pub flow: FlowId,
    /// IP length in bytes.
    pub bytes: u32,
    /// ECN codepoint; a queue may change it to [`Ecn::Ce`].
    pub ecn: Ecn,
    /// Number of links of its route that it has crossed.
    pub hop: u8,
    /// True on the reverse path, from the flow's receiver to its sender.
    pub is_reverse: bool,
    /// Distinguishes connections or streams of the flow, in eight bits. A hash uses it like ports.
    pub conversation: u8,
    /// When it entered its current queue; the sojourn time counts from here.
    pub enqueued: Time,
}

/// The acknowledgement in a TCP segment, as far as a path can see it. A SYN has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Acknowledgement {
    /// The acknowledgement number, modulo 2³².
    pub number: u32,
    /// TCP header bits, by their wire values.
    pub flags: u16,
    /// Whether the segment also carries data.
    pub has_payload: bool,
    /// SACK blocks from the first byte to one past the last, modulo 2³²; see [`Self::sack_blocks`].
    pub sack: [[u32; 2]; 4],
    /// Number of SACK blocks.
    pub sack_count: u8,
}

impl Acknowledgement {
    const FIN_RST: u16 = 0x05;
    const ACK: u16 = 0x10;
    const ECE_CWR: u16 = 0xc0;

    /// Whether it has neither data nor SYN, FIN or RST.
    pub const fn is_pure(&self) -> bool {
        !self.has_payload && self.flags & Self::FIN_RST == 0
    }
    /// Whether it has neither data nor any flag beyond ACK, ECE and CWR.
    pub const fn is_nothing_else(&self) -> bool {
        !self.has_payload && self.flags & !Self::ECE_CWR == Self::ACK
    }
    /// Its ECE and CWR flags.
    pub const fn echoes(&self) -> u16 {
        self.flags & Self::ECE_CWR
    }
    /// The valid SACK blocks.
    pub fn sack_blocks(&self) -> &[[u32; 2]] {
        &self.sack[..usize::from(self.sack_count)]
    }
}
