//! Analyses the two ends of a TCP connection from one point between them.
//!
//! A segment with bytes seen before is a retransmission. A segment that fills a gap was either overtaken, or lost
//! before the point and retransmitted: timestamps decide, otherwise the IP identification (which hosts increment),
//! otherwise time. RTTs follow tcptrace (Karn's rule, no sample across a retransmission) and, separately, timestamps
//! (RFC 7323 section 4).

use std::collections::VecDeque;

use crate::decode::{ACK, FIN, NO_SCALE, Packet, RST, SYN, Tcp};

/// Most gaps, segments and timestamps remembered per direction; beyond that the oldest are forgotten.
const MOST: usize = 65_536;
/// IP bytes of an Ethernet frame; the MSS without options follows from it.
const ETHERNET: u32 = 1500;
const ETHERNET_MSS: u16 = 1460;
/// Without a measured RTT, a segment that fills a gap within this time counts as overtaken: tshark's bound.
const SOON_NS: u64 = 3_000_000;

/// Count, sum and extremes of samples in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Samples {
    /// Number of samples.
    pub count: u64,
    /// Sum of the samples.
    pub sum: f64,
    /// Sum of the squares of the samples.
    pub squares: f64,
    /// Smallest sample.
    pub min: u64,
    /// Largest sample.
    pub max: u64,
}

impl Samples {
    const NONE: Samples = Samples { count: 0, sum: 0.0, squares: 0.0, min: u64::MAX, max: 0 };

    /// Adds a sample.
    pub fn push(&mut self, ns: u64) {
        let value = ns as f64;
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }
}

/// How a segment relates to its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Class {
    /// It occupies no sequence space.
    Bare = 0,
    /// It carries new bytes.
    New = 1,
    /// Its bytes were seen before.
    Repeated = 2,
    /// It fills a gap and was sent after the segment that revealed the gap: lost before this point and retransmitted.
    Repaired = 3,
    /// It fills a gap and was overtaken.
    Overtaken = 4,
    /// A keep-alive or a window probe.
    Probe = 5,
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    start: u64,
    end: u64,
    t_ns: u64,
    stamp: Option<u32>,
    ip_id: u16,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    end: u64,
    t_ns: u64,
    is_clean: bool,
}

/// One direction of a flow: what it sent and, for a connection, how much of that was acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// Packets sent.
    pub packets: u64,
    /// IP bytes sent.
    pub bytes: u64,
    /// Payload bytes sent.
    pub payload: u64,
    /// Packets with payload.
    pub data_packets: u64,
    /// Packets marked CE.
    pub marked: u64,
    /// Option of the SYN: MSS.
    pub mss: u16,
    /// Option of the SYN: window scale shift.
    pub scale: Option<u8>,
    /// Option of the SYN: SACK permitted.
    pub sack_permitted: bool,
    /// Whether timestamps were seen.
    pub has_stamps: bool,
    /// Whether the SYN was seen.
    pub has_syn: bool,
    /// Whether the FIN was seen.
    pub has_fin: bool,
    /// Whether a reset was seen.
    pub has_reset: bool,
    /// Further state, from a connection's second packet on.
    track: Option<Box<Track>>,
}

/// State of one direction of a connection beyond counts. It is separate because nine in ten flows of a scan are a
/// single SYN.
#[derive(Clone, Debug)]
pub struct Track {
    /// Segments with payload; a packet with several segments, due to offload, counts as these.
    pub data_segments: u64,
    /// Of these, retransmissions.
    pub retransmitted_segments: u64,
    /// Retransmitted packets with bytes seen before.
    pub repeated: u64,
    /// Retransmitted packets whose first copy was lost before this point.
    pub repaired: u64,
    /// Payload of both kinds.
    pub retransmitted_bytes: u64,
    /// Overtaken segments.
    pub overtaken: u64,
    /// Duplicate ACKs sent.
    pub duplicate_acks: u64,
    /// Window probes and keep-alive segments.
    pub probes: u64,
    /// Zero windows advertised.
    pub zero_windows: u64,
    /// SACK blocks sent.
    pub sack_blocks: u64,
    /// RTT samples from this point to the other end and back, by Karn's rule.
    pub rtt: Samples,
    /// RTT samples by timestamps.
    pub stamp_rtt: Samples,
    /// Largest number of unacknowledged bytes.
    pub flight_max: u64,
    is_open: bool,
    has_syn: bool,
    base: u32,
    /// Offset after the highest byte seen.
    top: u64,
    /// Offset up to which the other end has acknowledged.
    una: u64,
    last_window: Option<(u64, u16)>,
    top_ns: u64,
    /// What the other end holds above `una`, by its SACK blocks, in order and not overlapping.
    sacked: Vec<(u64, u64)>,
    gaps: Vec<Gap>,
    sent: VecDeque<Sent>,
    /// When a segment last was retransmitted or filled a gap.
    repeated_ns: u64,
    stamps: VecDeque<(u32, u64)>,
}

impl Track {
    const NONE: Track = Track {
        data_segments: 0,
        retransmitted_segments: 0,
        repeated: 0,
        repaired: 0,
        retransmitted_bytes: 0,
        overtaken: 0,
        duplicate_acks: 0,
        probes: 0,
        zero_windows: 0,
        sack_blocks: 0,
        rtt: Samples::NONE,
        stamp_rtt: Samples::NONE,
        flight_max: 0,
        is_open: false,
        has_syn: false,
        base: 0,
        top: 0,
        una: 0,
        last_window: None,
        top_ns: 0,
        sacked: Vec::new(),
        gaps: Vec::new(),
        sent: VecDeque::new(),
        repeated_ns: 0,
        stamps: VecDeque::new(),
    };
}

impl Default for Track {
    fn default() -> Self {
        Track::NONE
    }
}

/// The classification of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Class of the segment.
    pub class: Class,
    /// Offset of its first byte: 0 is the first payload byte if the SYN was seen, otherwise the first byte seen.
    pub seq: i64,
    /// The offset of the other side that it acknowledges; `None` without ACK.
    pub ack: Option<i64>,
    /// Advertised window in bytes, scaled if the scale is known.
    pub window: u64,
    /// Its sender's unacknowledged bytes after it.
    pub in_flight: u64,
    /// The same minus the bytes that the other end has reported by SACK.
    pub outstanding: u64,
    /// RTT of the data it acknowledges, by Karn's rule.
    pub rtt_ns: Option<u64>,
    /// RTT by its echoed timestamp.
    pub stamp_rtt_ns: Option<u64>,
}

static NO_TRACK: Track = Track::NONE;

impl Side {
    /// The state beyond counts; empty for a flow with one packet.
    pub fn track(&self) -> &Track {
        self.track.as_deref().unwrap_or(&NO_TRACK)
    }

    /// Counts one packet.
    pub fn count(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
        self.payload += u64::from(packet.payload);
        self.data_packets += u64::from(packet.payload > 0);
        self.marked += u64::from(packet.ecn == 3);
    }

    fn note_header(&mut self, tcp: &Tcp) {
        self.has_reset |= tcp.flags & RST != 0;
        self.has_fin |= tcp.flags & FIN != 0;
        self.has_stamps |= tcp.stamps.is_some();
        if tcp.flags & SYN != 0 {
            self.mss = tcp.mss;
            self.scale = (tcp.scale != NO_SCALE).then_some(tcp.scale);
            self.sack_permitted = tcp.sack_permitted;
        }
    }

    /// Number of segments that a packet becomes on the wire, if it is larger than an Ethernet frame.
    fn segments_of(&self, packet: &Packet, tcp: &Tcp, peer: &Side) -> u64 {
        if packet.payload == 0 || packet.bytes <= ETHERNET {
            return u64::from(packet.payload > 0);
        }
        let known = [self.mss, peer.mss].into_iter().filter(|mss| *mss > 0).min();
        // Timestamps take twelve bytes of each segment (RFC 7323 appendix A).
        let stamps = if tcp.stamps.is_some() { 12 } else { 0 };
        let each = u64::from(known.unwrap_or(ETHERNET_MSS)).saturating_sub(stamps).max(1);
        u64::from(packet.payload).div_ceil(each)
    }

    fn window(&self, tcp: &Tcp, peer: &Side) -> u64 {
        let is_scaled = tcp.flags & SYN == 0 && self.scale.is_some() && peer.scale.is_some();
        u64::from(tcp.window) << if is_scaled { self.scale.unwrap_or(0) } else { 0 }
    }
}

impl Track {
    /// Converts a sequence number to the offset nearest the highest known.
    fn offset(&self, seq: u32) -> i64 {
        let distance = seq.wrapping_sub(self.base.wrapping_add(self.top as u32)) as i32;
        self.top as i64 + i64::from(distance)
    }

    /// The displayed offset of a sequence number: 0 is the first payload byte, or the first byte seen.
    pub fn number(&self, seq: u32) -> i64 {
        self.shown(self.offset(seq))
    }

    /// Starts numbering such that 0 is the first payload byte.
    fn open(&mut self, base: u32) {
        if !self.is_open {
            (self.is_open, self.base) = (true, base);
        }
    }

    /// Converts an offset to the displayed one, which excludes the SYN.
    fn shown(&self, offset: i64) -> i64 {
        offset - i64::from(self.has_syn)
    }

    /// Classifies a segment. Offsets below the start count as the start.
    fn classify(&mut self, packet: &Packet, tcp: &Tcp, rtt_ns: u64) -> (Class, u64, u64) {
        let length =
            u64::from(packet.payload) + u64::from(tcp.flags & SYN != 0) + u64::from(tcp.flags & FIN != 0);
        let offset = self.offset(tcp.seq);
        let start = offset.max(0) as u64;
        let end = (offset + length as i64).max(0) as u64;
        let is_probe = packet.payload <= 1
            && tcp.flags & (SYN | FIN | RST) == 0
            && self.top > 0
            && offset == self.top as i64 - 1;
        let class = if is_probe {
            Class::Probe
        } else if length == 0 {
            Class::Bare
        } else if end > self.top {
            if start > self.top && self.top_ns > 0 {
                self.note_gap(self.top, start, packet, tcp);
            }
            // If some bytes were seen before, the segment counts as new if most bytes are new.
            if start < self.top && end - self.top <= (self.top - start) {
                Class::Repeated
            } else {
                Class::New
            }
        } else {
            self.fill(start, end, packet, tcp, rtt_ns)
        };
        (class, start, end)
    }

    fn note_gap(&mut self, start: u64, end: u64, packet: &Packet, tcp: &Tcp) {
        if self.gaps.len() == MOST {
            self.gaps.remove(0);
        }
        let stamp = tcp.stamps.map(|(value, _)| value);
        self.gaps.push(Gap { start, end, t_ns: packet.t_ns, stamp, ip_id: packet.ip_id as u16 });
    }

    /// Classifies bytes at or below the highest offset: whether they fill a gap.
    fn fill(&mut self, start: u64, end: u64, packet: &Packet, tcp: &Tcp, rtt_ns: u64) -> Class {
        let Some(place) = self.gaps.iter().rposition(|gap| gap.start < end && start < gap.end) else {
            return Class::Repeated;
        };
        let gap = self.gaps.remove(place);
        // Keep the rest of the gap, the lower part first.
        if end < gap.end {
            self.gaps.insert(place, Gap { start: end, ..gap });
        }
        if gap.start < start {
            self.gaps.insert(place, Gap { end: start, ..gap });
        }
        let by_stamp = match (tcp.stamps, gap.stamp) {
            (Some((value, _)), Some(other)) if value != other => Some((value.wrapping_sub(other) as i32) > 0),
            _ => None,
        };
        let by_count = || {
            let (own, other) = (packet.ip_id as u16, gap.ip_id);
            let is_counted = own != 0 && other != 0 && own != other;
            is_counted.then(|| (own.wrapping_sub(other) as i16) > 0)
        };
        let by_time = || packet.t_ns.saturating_sub(gap.t_ns) > rtt_ns;
        let is_later = by_stamp.or_else(by_count).unwrap_or_else(by_time);
        if is_later { Class::Repaired } else { Class::Overtaken }
    }

    fn on_sent(&mut self, packet: &Packet, tcp: &Tcp, class: Class, (start, end): (u64, u64), segments: u64) {
        self.data_segments += segments;
        match class {
            Class::New => {
                if self.sent.len() == MOST {
                    self.sent.pop_front();
                }
                // What follows a retransmission can again be used for RTT samples.
                self.sent.push_back(Sent { end, t_ns: packet.t_ns, is_clean: true });
            }
            Class::Repeated | Class::Repaired => {
                let is_repair = class == Class::Repaired;
                (if is_repair { &mut self.repaired } else { &mut self.repeated }).add_one();
                self.retransmitted_bytes += u64::from(packet.payload);
                self.retransmitted_segments += segments;
                self.repeated_ns = packet.t_ns;
                let first = self.sent.partition_point(|sent| sent.end <= start);
                for sent in self.sent.iter_mut().skip(first).take_while(|sent| sent.end <= end) {
                    sent.is_clean = false;
                }
                if is_repair {
                    self.note_filled(end, packet.t_ns);
                }
            }
            Class::Overtaken => {
                self.overtaken += 1;
                self.repeated_ns = packet.t_ns;
                self.note_filled(end, packet.t_ns);
            }
            Class::Probe => self.probes += 1,
            Class::Bare => {}
        }
        if end > self.top {
            self.top = end;
            self.top_ns = packet.t_ns;
        }
        if let Some((value, _)) = tcp.stamps {
            let is_newer = self.stamps.back().is_none_or(|(last, _)| (value.wrapping_sub(*last) as i32) > 0);
            // Only segments that must be acknowledged are echoed promptly.
            if is_newer && class != Class::Bare && class != Class::Probe {
                if self.stamps.len() == MOST {
                    self.stamps.pop_front();
                }
                self.stamps.push_back((value, packet.t_ns));
            }
        }
    }

    /// A segment that fills a gap is acknowledged together with later bytes that waited: neither gives an RTT sample.
    fn note_filled(&mut self, end: u64, t_ns: u64) {
        let place = self.sent.partition_point(|sent| sent.end <= end);
        self.sent.insert(place, Sent { end, t_ns, is_clean: false });
        if self.sent.len() > MOST {
            self.sent.pop_front();
        }
    }

    /// Handles an acknowledgement by the other end up to `ack`.
    fn on_acked(&mut self, ack: u64, now_ns: u64) -> Option<u64> {
        if ack <= self.una {
            return None;
        }
        self.una = ack;
        let mut last = None;
        let mut is_ambiguous = false;
        while let Some(sent) = self.sent.front().filter(|sent| sent.end <= ack) {
            is_ambiguous |= !sent.is_clean;
            last = Some(*sent);
            self.sent.pop_front();
        }
        self.gaps.retain(|gap| gap.end > ack);
        self.sacked.retain(|block| block.1 > ack);
        let last = last.filter(|last| last.end == ack && last.is_clean)?;
        // tcptrace: no earlier segment may have been retransmitted after this one was sent.
        (!is_ambiguous || self.repeated_ns < last.t_ns).then(|| {
            let rtt = now_ns.saturating_sub(last.t_ns);
            self.rtt.push(rtt);
            rtt
        })
    }

    /// Handles a SACK block of the other end; a block below `una` reports a duplicate (RFC 2883).
    fn on_sacked(&mut self, start: u32, end: u32) {
        let (start, end) = (self.offset(start), self.offset(end));
        if start < self.una as i64 || end <= start || end > self.top as i64 || self.sacked.len() > MOST {
            return;
        }
        let (mut start, mut end) = (start as u64, end as u64);
        let first = self.sacked.partition_point(|block| block.1 < start);
        let mut last = first;
        while let Some(block) = self.sacked.get(last).filter(|block| block.0 <= end) {
            (start, end) = (start.min(block.0), end.max(block.1));
            last += 1;
        }
        self.sacked.splice(first..last, [(start, end)]);
    }

    fn on_echo(&mut self, echo: u32, now_ns: u64) -> Option<u64> {
        let mut sample = None;
        while let Some(&(value, t_ns)) = self.stamps.front() {
            let distance = echo.wrapping_sub(value) as i32;
            if distance < 0 {
                break;
            }
            self.stamps.pop_front();
            // The first echo of a value belongs to the first segment that carried it.
            sample = (distance == 0).then(|| now_ns.saturating_sub(t_ns));
        }
        if let Some(ns) = sample {
            self.stamp_rtt.push(ns);
        }
        sample
    }

    /// Number of retransmitted segments.
    pub fn retransmitted(&self) -> u64 {
        self.repeated + self.repaired
    }
}

trait AddOne {
    fn add_one(&mut self);
}

impl AddOne for u64 {
    fn add_one(&mut self) {
        *self += 1;
    }
}

/// A connection's first packet if it was a bare SYN: all that is stored until the second packet.
#[derive(Clone, Copy, Debug)]
struct Opening {
    t_ns: u64,
    seq: u32,
    stamp: Option<u32>,
    side: u8,
}

/// A connection, analysed in both directions.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// The client's side and the server's side.
    pub sides: [Side; 2],
    opening: Option<Opening>,
}

impl Conversation {
    /// Stores a bare SYN as a connection's first packet; nothing else is stored until the second packet.
    fn open(&mut self, from: usize, packet: &Packet, tcp: &Tcp) -> Option<Seen> {
        let is_first = self.sides.iter().map(|side| side.packets).sum::<u64>() == 1;
        if !is_first || packet.payload > 0 || tcp.flags & (SYN | ACK | FIN | RST) != SYN {
            return None;
        }
        self.sides[from].has_syn = true;
        let stamp = tcp.stamps.map(|(value, _)| value);
        self.opening = Some(Opening { t_ns: packet.t_ns, seq: tcp.seq, stamp, side: from as u8 });
        Some(Seen {
            class: Class::New,
            seq: -1,
            ack: None,
            window: u64::from(tcp.window),
            in_flight: 1,
            outstanding: 1,
            rtt_ns: None,
            stamp_rtt_ns: None,
        })
    }

    /// Both sides' state; enters the stored SYN into its sender's.
    fn tracks(&mut self, from: usize) -> (&mut Side, &mut Side) {
        if self.sides[0].track.is_none() {
            let mut tracks: [Box<Track>; 2] = Default::default();
            if let Some(Opening { t_ns, seq, stamp, side }) = self.opening.take() {
                let track = &mut tracks[usize::from(side)];
                (track.is_open, track.has_syn, track.base) = (true, true, seq);
                (track.top, track.top_ns, track.flight_max) = (1, t_ns, 1);
                track.sent.push_back(Sent { end: 1, t_ns, is_clean: true });
                track.stamps.extend(stamp.map(|value| (value, t_ns)));
            }
            for (side, track) in self.sides.iter_mut().zip(tracks) {
                side.track = Some(track);
            }
        }
        let [one, two] = &mut self.sides;
        if from == 0 { (one, two) } else { (two, one) }
    }

    /// Processes a segment from side `from`.
    pub fn on_segment(&mut self, from: usize, packet: &Packet, tcp: &Tcp) -> Seen {
        self.sides[from].count(packet);
        self.sides[from].note_header(tcp);
        if let Some(seen) = self.open(from, packet, tcp) {
            return seen;
        }
        let rtt_ns = self.round_trip_ns();
        let (sender, receiver) = self.tracks(from);
        let segments = sender.segments_of(packet, tcp, receiver);
        let window = sender.window(tcp, receiver);
        let (Some(own), Some(peer)) = (&mut sender.track, &mut receiver.track) else {
            unreachable!("both tracks were made together")
        };
        own.sack_blocks += u64::from(tcp.block_count);
        if tcp.flags & SYN != 0 && !own.is_open {
            (own.has_syn, sender.has_syn) = (true, true);
        }
        own.open(tcp.seq);
        let (class, start, end) = own.classify(packet, tcp, rtt_ns);
        own.on_sent(packet, tcp, class, (start, end), segments);
        let mut seen = Seen {
            class,
            seq: own.shown(own.offset_of(tcp.seq, start)),
            ack: None,
            window,
            in_flight: 0,
            outstanding: 0,
            rtt_ns: None,
            stamp_rtt_ns: None,
        };
        if tcp.flags & ACK != 0 {
            peer.open(tcp.ack);
            let ack = peer.offset(tcp.ack);
            seen.ack = Some(peer.shown(ack));
            let ack = ack.max(0) as u64;
            let state = (ack, tcp.window);
            let is_bare = class == Class::Bare && tcp.flags & (SYN | FIN | RST) == 0;
            if is_bare && own.last_window == Some(state) && ack < peer.top {
                own.duplicate_acks += 1;
            }
            own.last_window = Some(state);
            own.zero_windows += u64::from(tcp.window == 0 && tcp.flags & RST == 0);
            seen.rtt_ns = peer.on_acked(ack, packet.t_ns);
            for (start, end) in &tcp.blocks[..usize::from(tcp.block_count)] {
                peer.on_sacked(*start, *end);
            }
            if let Some((_, echo)) = tcp.stamps.filter(|(_, echo)| *echo != 0) {
                seen.stamp_rtt_ns = peer.on_echo(echo, packet.t_ns);
            }
        }
        seen.in_flight = own.top.saturating_sub(own.una);
        let held: u64 = own.sacked.iter().map(|(start, end)| end - start).sum();
        seen.outstanding = seen.in_flight.saturating_sub(held);
        own.flight_max = own.flight_max.max(seen.in_flight);
        seen
    }

    /// The smallest round trip seen between the two ends: from here to each of them and back.
    fn round_trip_ns(&self) -> u64 {
        let [one, two] = [0, 1].map(|side| {
            let track = self.sides[side].track();
            track.rtt.min.min(track.stamp_rtt.min)
        });
        match (one, two) {
            (u64::MAX, u64::MAX) => SOON_NS,
            (one, u64::MAX) => one,
            (u64::MAX, two) => two,
            (one, two) => one.saturating_add(two),
        }
    }
}

impl Track {
    /// The offset of a sequence number whose clamped offset is known.
    fn offset_of(&self, seq: u32, start: u64) -> i64 {
        let low = seq.wrapping_sub(self.base.wrapping_add(start as u32)) as i32;
        start as i64 + i64::from(low)
    }
}
