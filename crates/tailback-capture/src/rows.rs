//! Reads a capture once: its flows and, as requested, one row per segment, datagram or throughput bin.

use rustc_hash::FxHashMap;

use crate::decode::{HEAD, Packet};
use crate::flows::{Flows, Owned};
use crate::source::Source;

/// What to return in addition to the flows.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// One row per TCP segment.
    pub segments: bool,
    /// One row per packet of other protocols.
    pub datagrams: bool,
    /// Length of the bins for bytes and packets, in nanoseconds; 0 for none.
    pub bin_ns: u64,
    /// Return rows of these flows only; empty for all flows.
    pub only: Vec<u32>,
    /// Most rows of segments and datagrams together.
    pub most_rows: u64,
}

/// TCP segments.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "columns, named as in the table")]
pub struct Segments {
    pub t_ns: Vec<u64>,
    pub flow: Vec<u32>,
    pub reverse: Vec<bool>,
    pub seq: Vec<i64>,
    pub length: Vec<u32>,
    /// -1 for a segment without ACK.
    pub ack: Vec<i64>,
    pub window: Vec<u64>,
    pub flags: Vec<u8>,
    pub class: Vec<u8>,
    pub in_flight: Vec<u64>,
    pub outstanding: Vec<u64>,
    /// 0 for no sample.
    pub rtt_ns: Vec<u64>,
    pub stamp_rtt_ns: Vec<u64>,
    pub bytes: Vec<u32>,
    pub ecn: Vec<u8>,
    /// Timestamp and its echo; 0 for none.
    pub stamp: Vec<u32>,
    pub echo: Vec<u32>,
    /// SACK blocks: index of the segment's row, first offset, and the offset after the last byte.
    pub block_row: Vec<u32>,
    pub block_start: Vec<i64>,
    pub block_end: Vec<i64>,
}

/// Packets of other protocols.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "columns, named as in the table")]
pub struct Datagrams {
    pub t_ns: Vec<u64>,
    pub flow: Vec<u32>,
    pub reverse: Vec<bool>,
    pub bytes: Vec<u32>,
    /// Whether it looks like RTP: version 2 and a complete header.
    pub is_rtp: Vec<bool>,
    pub rtp_number: Vec<u16>,
    pub rtp_clock: Vec<u32>,
    pub rtp_source: Vec<u32>,
    pub rtp_type: Vec<u8>,
}

/// Throughput.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "columns, named as in the table")]
pub struct Bins {
    pub flow: Vec<u32>,
    pub reverse: Vec<bool>,
    /// Index of the bin, counted from the first packet's time stamp.
    pub bin: Vec<u64>,
    pub bytes: Vec<u64>,
    pub packets: Vec<u64>,
}

/// Rows read from a capture.
#[derive(Debug, Default)]
pub struct Rows {
    /// The flows.
    pub flows: Flows,
    /// Segments, if requested.
    pub segments: Segments,
    /// Datagrams, if requested.
    pub datagrams: Datagrams,
    /// Bins, if requested.
    pub bins: Bins,
    /// Number of requested rows beyond the limit.
    pub too_many: u64,
}

impl Segments {
    fn push(&mut self, owned: &Owned<'_>) -> Option<()> {
        let (seen, tcp) = (owned.seen.as_ref()?, owned.packet.tcp()?);
        self.t_ns.push(owned.packet.t_ns);
        self.flow.push(owned.flow);
        self.reverse.push(owned.is_reverse);
        self.seq.push(seen.seq);
        self.length.push(owned.packet.payload);
        self.ack.push(seen.ack.unwrap_or(-1));
        self.window.push(seen.window);
        self.flags.push(tcp.flags);
        self.class.push(seen.class as u8);
        self.in_flight.push(seen.in_flight);
        self.outstanding.push(seen.outstanding);
        self.rtt_ns.push(seen.rtt_ns.unwrap_or(0));
        self.stamp_rtt_ns.push(seen.stamp_rtt_ns.unwrap_or(0));
        self.bytes.push(owned.packet.bytes);
        self.ecn.push(owned.packet.ecn);
        let (stamp, echo) = tcp.stamps.unwrap_or((0, 0));
        self.stamp.push(stamp);
        self.echo.push(echo);
        Some(())
    }
}

impl Datagrams {
    fn push(&mut self, owned: &Owned<'_>) {
        let Packet { head, head_bytes, .. } = *owned.packet;
        let is_rtp = usize::from(head_bytes) == HEAD && head[0] >> 6 == 2 && owned.packet.protocol == 17;
        self.t_ns.push(owned.packet.t_ns);
        self.flow.push(owned.flow);
        self.reverse.push(owned.is_reverse);
        self.bytes.push(owned.packet.bytes);
        self.is_rtp.push(is_rtp);
        self.rtp_type.push(head[1] & 0x7f);
        self.rtp_number.push(u16::from_be_bytes([head[2], head[3]]));
        self.rtp_clock.push(u32::from_be_bytes([head[4], head[5], head[6], head[7]]));
        self.rtp_source.push(u32::from_be_bytes([head[8], head[9], head[10], head[11]]));
    }
}

/// The current bin of each direction of a flow.
#[derive(Debug, Default)]
struct Binning {
    open: FxHashMap<(u32, bool), (u64, u64, u64)>,
}

impl Binning {
    fn add(&mut self, owned: &Owned<'_>, bin: u64, bins: &mut Bins) {
        let key = (owned.flow, owned.is_reverse);
        let it = self.open.entry(key).or_insert((bin, 0, 0));
        if it.0 != bin {
            bins.push(key, *it);
            *it = (bin, 0, 0);
        }
        it.1 += u64::from(owned.packet.bytes);
        it.2 += 1;
    }
}

impl Bins {
    fn push(&mut self, (flow, is_reverse): (u32, bool), (bin, bytes, packets): (u64, u64, u64)) {
        self.flow.push(flow);
        self.reverse.push(is_reverse);
        self.bin.push(bin);
        self.bytes.push(bytes);
        self.packets.push(packets);
    }
}

/// Reads a capture; calls `keep_on` periodically and stops if it returns false.
pub fn read(source: &mut Source, wanted: &Wanted, mut keep_on: impl FnMut() -> bool) -> Rows {
    let Rows { mut flows, mut segments, mut datagrams, mut bins, mut too_many } = Rows::default();
    let mut binning = Binning::default();
    let mut steps = 0u64;
    let mut rows = 0u64;
    let mut first_ns = None;
    source.each(|frame| {
        steps += 1;
        if steps % 100_000 == 0 && !keep_on() {
            return false;
        }
        let Some(owned) = flows.take(&frame) else { return true };
        let since = owned.packet.t_ns.saturating_sub(*first_ns.get_or_insert(owned.packet.t_ns));
        if let Some(bin) = since.checked_div(wanted.bin_ns) {
            binning.add(&owned, bin, &mut bins);
        }
        let is_tcp = owned.packet.tcp().is_some();
        let is_wanted = if is_tcp { wanted.segments } else { wanted.datagrams };
        if !is_wanted || !(wanted.only.is_empty() || wanted.only.contains(&owned.flow)) {
            return true;
        }
        if rows >= wanted.most_rows {
            too_many += 1;
            return true;
        }
        rows += 1;
        if !is_tcp {
            datagrams.push(&owned);
            return true;
        }
        let row = segments.t_ns.len() as u32;
        segments.push(&owned);
        let Some(tcp) = owned.packet.tcp().filter(|tcp| tcp.block_count > 0).copied() else { return true };
        let (flow, peer) = (owned.flow as usize, usize::from(!owned.is_reverse));
        let peer = flows.all[flow].talk.sides[peer].track();
        for (start, end) in &tcp.blocks[..usize::from(tcp.block_count)] {
            segments.block_row.push(row);
            segments.block_start.push(peer.number(*start));
            segments.block_end.push(peer.number(*end));
        }
        true
    });
    let mut open: Vec<_> = binning.open.into_iter().collect();
    open.sort_unstable();
    for (key, it) in open {
        bins.push(key, it);
    }
    Rows { flows, segments, datagrams, bins, too_many }
}
