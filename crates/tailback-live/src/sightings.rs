//! Captures of a live run: the first bytes of each packet as its host sent it, and the times at which it passed capture
//! points.

use tailback_core::packet::{Ecn, FlowId, Packet};
use tailback_core::probe::Table;
use tailback_core::probe::captures::Points;
use tailback_core::probe::path::Window;
use tailback_core::probe::rows::{FrameByteRow, FrameBytes, FrameRow, Frames, Wire, WireRow};
use tailback_core::probe::schema::PointId;
use tailback_core::time::Time;

use crate::headers::headers_and;
use crate::journal::Journal;

/// Bytes kept of a packet: the longest IPv6 and TCP headers, and more than eight bytes of payload.
pub const KEPT: usize = 128;
const NONE: u32 = u32::MAX;
/// Bytes kept of a datagram: its header, and that of RTP or an echo.
const DATAGRAM: usize = 8 + 12;

#[derive(Clone, Copy, Debug)]
struct Frame {
    number: u64,
    flow: u32,
    is_reverse: bool,
    bytes: u32,
    kept: u8,
    start: [u8; KEPT],
}

#[derive(Clone, Copy, Debug)]
struct Sighting {
    at: Time,
    point: u16,
    frame: u32,
    ecn: Ecn,
}

/// Captures packets that pass the points.
#[derive(Debug)]
pub struct Sightings {
    points: Points,
    window: Window,
    /// The row of the packet in each slot.
    rows: Vec<u32>,
    frames: Journal<Frame>,
    wire: Journal<Sighting>,
}

impl Sightings {
    /// Captures at these points, within the window.
    pub fn new(points: Points, window: Window) -> Self {
        Sightings { points, window, rows: Vec::new(), frames: Journal::default(), wire: Journal::default() }
    }

    /// A host sends this packet, which will be stored in `slot`.
    pub fn departed(
        &mut self,
        now: Time,
        slot: u32,
        owner: (u32, bool),
        number: u64,
        ecn: Ecn,
        packet: &[u8],
    ) {
        let (flow, is_reverse) = owner;
        let kept = headers_and(packet, DATAGRAM).min(KEPT);
        let mut start = [0; KEPT];
        start[..kept].copy_from_slice(&packet[..kept]);
        let place = self.frames.len() as u32;
        let bytes = packet.len() as u32;
        self.frames.push(Frame { number, flow, is_reverse, bytes, kept: kept as u8, start });
        self.keep(slot, place);
        let node = self.points.hosts[flow as usize][usize::from(is_reverse)];
        self.sight(now, self.points.node[node as usize], slot, ecn);
    }

    fn keep(&mut self, slot: u32, row: u32) {
        let slot = slot as usize;
        if slot >= self.rows.len() {
            self.rows.resize(slot + 1, NONE);
        }
        self.rows[slot] = row;
    }

    /// A link duplicated a packet: the copy has the same bytes.
    pub fn doubled(&mut self, from: u32, to: u32) {
        self.keep(to, self.rows[from as usize]);
    }

    /// A packet reaches a link; at its first link, the host's capture has already been taken.
    pub fn entered(&mut self, now: Time, link: u32, is_first: bool, packet: &Packet) {
        // Links that stand for a host's jitter are not in the scenario.
        let Some(&node) = self.points.leaves.get(link as usize) else { return };
        let from = self.points.hosts[packet.flow.0 as usize][usize::from(packet.is_reverse)];
        if !is_first && node != from {
            self.sight(now, self.points.node[node as usize], packet.slot, packet.ecn);
        }
        self.sight(now, self.points.before[link as usize], packet.slot, packet.ecn);
    }

    /// A packet reaches a link's far end.
    pub fn left(&mut self, now: Time, link: u32, packet: &Packet) {
        self.sight(now, self.points.after.get(link as usize).copied().flatten(), packet.slot, packet.ecn);
    }

    /// A packet was handed to its receiving host.
    pub fn arrived(&mut self, now: Time, packet: &Packet) {
        let to = self.points.hosts[packet.flow.0 as usize][usize::from(!packet.is_reverse)];
        self.sight(now, self.points.node[to as usize], packet.slot, packet.ecn);
    }

    fn sight(&mut self, now: Time, point: Option<u16>, slot: u32, ecn: Ecn) {
        let Some(point) = point.filter(|_| self.window.is_on(now)) else { return };
        let Some(&frame) = self.rows.get(slot as usize).filter(|row| **row != NONE) else { return };
        self.wire.push(Sighting { at: now, point, frame, ecn });
    }

    /// The tables; the rows of `wire` are in order of time.
    pub fn tables(self) -> [Table; 3] {
        let mut sightings: Vec<Sighting> = self.wire.iter().copied().collect();
        sightings.sort_by_key(|it| it.at);
        let row = |it: Sighting| WireRow {
            t_ps: it.at.as_ps(),
            point: PointId(it.point),
            header: it.frame,
            ecn: it.ecn,
        };
        let wire: Wire = sightings.into_iter().map(row).collect();
        let row = |it: &Frame| FrameRow {
            packet: it.number,
            flow: FlowId(it.flow),
            reverse: it.is_reverse,
            bytes: it.bytes,
            kept: it.kept,
        };
        let frames: Frames = self.frames.iter().map(row).collect();
        let kept = self.frames.iter().flat_map(|it| &it.start[..usize::from(it.kept)]);
        let bytes: FrameBytes = kept.map(|byte| FrameByteRow { byte: *byte }).collect();
        [wire.into_table(), frames.into_table(), bytes.into_table()]
    }
}
