//! Link-layer overhead: how many bytes an IP packet occupies on the line.
//!
//! Law: a packet of L bytes counts n = max(L + overhead, mpu, 1) bytes. ATM sends n in cells of 53 bytes with 48 of payload:
//! 53·⌈n/48⌉. PTM sends 65 bytes for each 64: n + ⌈n/64⌉.
//!
//! Source: tc-stab(8) and Linux `qdisc_calculate_pkt_len` (overhead, mpu, ATM, at least one byte); tc-cake(8) and Linux
//! sch_cake.c `cake_calc_overhead` (the same, and PTM). ITU-T I.432.1 (cells), IEEE 802.3 clause 61.3.3 (64b/65b).
//!
//! Differs from the source: lengths are IP bytes, like tc-cake's `raw` and `overhead`. Linux's stab starts from the
//! frame length, which on Ethernet is 14 bytes more.

use serde::{Deserialize, Serialize};

use crate::time::Rate;

const CELL: u32 = 53;
const CELL_PAYLOAD: u32 = 48;
const PTM_BLOCK: u32 = 64;
/// IP bytes of a full packet, unless the flow sets another MTU.
const FULL_PACKET: u32 = 1500;

/// Encoding of frames on the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkLayer {
    /// Frames as they are.
    #[default]
    Ethernet,
    /// Cells of 53 bytes with 48 bytes of payload.
    Atm,
    /// 65 bytes for every 64.
    Ptm,
}

impl LinkLayer {
    /// Names in scenarios, in the order of the variants.
    pub const NAMES: [&str; 3] = ["ethernet", "atm", "ptm"];

    /// The link layer with this name.
    pub fn named(name: &str) -> Option<Self> {
        [LinkLayer::Ethernet, LinkLayer::Atm, LinkLayer::Ptm].into_iter().find(|layer| layer.name() == name)
    }

    fn name(self) -> &'static str {
        LinkLayer::NAMES[self as usize]
    }
}

/// Overhead of packets on a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Framing {
    /// Bytes added to each IP packet.
    pub overhead: i32,
    /// Minimum size of a packet with its overhead.
    pub mpu: u32,
    /// Encoding of the frames.
    pub linklayer: LinkLayer,
}

impl Framing {
    /// Range of `overhead`, as in tc-cake.
    pub const OVERHEAD: (i32, i32) = (-64, 256);
    /// Maximum of `mpu`, as in tc-cake.
    pub const LARGEST_MPU: u32 = 256;

    /// Whether packets count only their IP bytes.
    pub fn is_plain(&self) -> bool {
        *self == Framing::default()
    }

    /// Name and value, as in a scenario, of the first field that adds overhead.
    pub fn given(&self) -> Option<(&'static str, String)> {
        let Framing { overhead, mpu, linklayer } = *self;
        let fields = [
            ("overhead", overhead != 0, overhead.to_string()),
            ("mpu", mpu > 0, mpu.to_string()),
            ("linklayer", linklayer != LinkLayer::Ethernet, format!("\"{}\"", linklayer.name())),
        ];
        fields.into_iter().find(|(_, is_given, _)| *is_given).map(|(field, _, value)| (field, value))
    }

    /// Bytes on the line for a packet of `ip` bytes.
    #[inline]
    pub fn bytes(&self, ip: u32) -> u32 {
        let framed = ip.saturating_add_signed(self.overhead).max(self.mpu).max(1);
        match self.linklayer {
            LinkLayer::Ethernet => framed,
            LinkLayer::Atm => framed.div_ceil(CELL_PAYLOAD) * CELL,
            LinkLayer::Ptm => framed + framed.div_ceil(PTM_BLOCK),
        }
    }

    /// Rate that full IP packets get on a line of this rate.
    pub fn ip_rate(&self, line: Rate) -> Rate {
        if self.is_plain() {
            return line;
        }
        let bits = u128::from(line.as_bps()) * u128::from(FULL_PACKET) / u128::from(self.bytes(FULL_PACKET));
        Rate::from_bps((bits as u64).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(linklayer: LinkLayer, overhead: i32, mpu: u32) -> Framing {
        Framing { overhead, mpu, linklayer }
    }

    #[test]
    fn a_packet_counts_what_tc_counts() {
        use LinkLayer::{Atm, Ethernet, Ptm};
        // Overhead first, then mpu, then the cells: tc-stab(8), tc-cake(8).
        for (framing, ip, bytes) in [
            (Framing::default(), 40, 40),
            (of(Ethernet, 18, 0), 1500, 1518),
            (of(Ethernet, 18, 64), 40, 64),
            (of(Ethernet, 38, 84), 40, 84),
            (of(Ethernet, -20, 0), 1500, 1480),
            // Linux counts a packet as one byte at least.
            (of(Ethernet, -64, 0), 40, 1),
            // 48 bytes fill a cell, 49 two.
            (of(Atm, 8, 0), 40, 53),
            (of(Atm, 9, 0), 40, 106),
            (of(Atm, 0, 49), 40, 106),
            // PPPoA by VC-Mux with AAL5's trailer, tc-cake's `pppoa-vcmux`.
            (of(Atm, 10, 0), 40, 106),
            (of(Atm, 10, 0), 1500, 32 * 53),
            // tc-cake's `pppoe-ptm`: 64 bytes become 65, and what is left of a block one more.
            (of(Ptm, 0, 0), 64, 65),
            (of(Ptm, 0, 0), 65, 67),
            (of(Ptm, 30, 0), 1500, 1530 + 24),
        ] {
            assert_eq!(framing.bytes(ip), bytes, "{framing:?} {ip}");
        }
    }

    #[test]
    fn full_packets_get_their_share_of_the_line() {
        let line = Rate::from_bps(10_000_000);
        assert_eq!(Framing::default().ip_rate(line), line);
        assert_eq!(of(LinkLayer::Atm, 10, 0).ip_rate(line).as_bps(), 10_000_000 * 1500 / (32 * 53));
        assert_eq!(of(LinkLayer::Ethernet, -500, 0).ip_rate(line).as_bps(), 15_000_000);
    }
}
