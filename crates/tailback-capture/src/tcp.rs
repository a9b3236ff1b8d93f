//! What two ends of a TCP connection do, seen from one point between them.
//!
//! A segment that repeats bytes seen before is a retransmission. One that fills a gap was either overtaken or lost before
//! the point and sent again: timestamps decide, else the IP identification (hosts count up), else time. RTTs follow
//! tcptrace (Karn's rule, no sample across a retransmission) and, apart from that, timestamps (RFC 7323 section 4).

use std::collections::VecDeque;

use crate::decode::{ACK, FIN, NO_SCALE, Packet, RST, SYN, Tcp};

/// Gaps, segments and timestamps remembered of one direction; beyond that the oldest are forgotten.
const MOST: usize = 65_536;
/// IP bytes of a frame of Ethernet, and its MSS without options.
const ETHERNET: u32 = 1500;
const ETHERNET_MSS: u16 = 1460;
/// Without a measured RTT, what fills a gap within this was overtaken: tshark's bound.
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

/// What a segment is to its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Class {
    /// It carries nothing in sequence space.
    Bare = 0,
    /// New.
    New = 1,
    /// Its bytes passed here before.
    Repeated = 2,
    /// It fills a gap, and was sent after what showed the gap: lost before this point and sent again.
    Repaired = 3,
    /// It fills a gap and had been overtaken.
    Overtaken = 4,
    /// It asks whether the other end is alive, or its window open.
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

/// One direction of a flow: what it sent, and of a connection what of it was acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// Packets,
    pub packets: u64,
    /// their IP bytes
    pub bytes: u64,
    /// and payload.
    pub payload: u64,
    /// Packets with payload.
    pub data_packets: u64,
    /// Packets marked CE.
    pub marked: u64,
    /// Options of the SYN: MSS,
    pub mss: u16,
    /// shift of the windows offered,
    pub scale: Option<u8>,
    /// selective acknowledgements.
    pub sack_permitted: bool,
    /// Timestamps were seen,
    pub has_stamps: bool,
    /// the SYN,
    pub has_syn: bool,
    /// the FIN,
    pub has_fin: bool,
    /// a reset.
    pub has_reset: bool,
    /// The rest, from a connection's second packet on.
    track: Option<Box<Track>>,
}

/// What of a connection's direction is known beyond counts. Apart from them, since nine in ten flows of a scan are one SYN.
#[derive(Clone, Debug)]
pub struct Track {
    /// Segments with payload: one that a card or kernel has yet to cut, or has joined, counts as what it is cut into.
    pub data_segments: u64,
    /// Of these, sent again.
    pub retransmitted_segments: u64,
    /// Repeated packets: bytes seen before,
    pub repeated: u64,
    /// or lost before this point.
    pub repaired: u64,
    /// Payload of both.
    pub retransmitted_bytes: u64,
    /// Overtaken segments.
    pub overtaken: u64,
    /// Duplicate ACKs sent.
    pub duplicate_acks: u64,
    /// Probes of the window or of life.
    pub probes: u64,
    /// Windows of zero offered.
    pub zero_windows: u64,
    /// SACK blocks sent.
    pub sack_blocks: u64,
    /// RTT to the other end and back to this point, Karn's way,
    pub rtt: Samples,
    /// and by timestamps.
    pub stamp_rtt: Samples,
    /// Largest number of bytes unacknowledged.
    pub flight_max: u64,
    is_open: bool,
    has_syn: bool,
    base: u32,
    /// One past the highest byte seen.
    top: u64,
    /// Acknowledged by the other end up to here.
    una: u64,
    last_window: Option<(u64, u16)>,
    top_ns: u64,
    /// What the other end holds above `una`, by its SACK blocks, in order and apart.
    sacked: Vec<(u64, u64)>,
    gaps: Vec<Gap>,
    sent: VecDeque<Sent>,
    /// When something was last sent again, or filled a gap.
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

/// What a segment turned out to be.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Class of the segment.
    pub class: Class,
    /// Offset of its first byte: 0 is the first byte of payload if the SYN was seen, else the first byte seen.
    pub seq: i64,
    /// The other side's offset that it acknowledges; `None` without ACK.
    pub ack: Option<i64>,
    /// Window offered in bytes, scaled as far as the scale is known.
    pub window: u64,
    /// Unacknowledged bytes of its sender after it.
    pub in_flight: u64,
    /// The same less what the other end has by its SACK blocks.
    pub outstanding: u64,
    /// RTT of the data it acknowledges, Karn's way,
    pub rtt_ns: Option<u64>,
    /// and by its timestamp's echo.
    pub stamp_rtt_ns: Option<u64>,
}

static NO_TRACK: Track = Track::NONE;

impl Side {
    /// What is known beyond counts; of a flow of one packet nothing is.
    pub fn track(&self) -> &Track {
        self.track.as_deref().unwrap_or(&NO_TRACK)
    }

    /// One more packet.
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

    /// Segments that a packet is cut into on the wire, if it is larger than a frame of Ethernet.
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
    /// Offset of a sequence number, near the highest known.
    fn offset(&self, seq: u32) -> i64 {
        let distance = seq.wrapping_sub(self.base.wrapping_add(self.top as u32)) as i32;
        self.top as i64 + i64::from(distance)
    }

    /// What people see of a sequence number: 0 is the first byte of payload, or the first seen.
    pub fn number(&self, seq: u32) -> i64 {
        self.shown(self.offset(seq))
    }

    /// Begin the numbering so that 0 is the first byte of payload.
    fn open(&mut self, base: u32) {
        if !self.is_open {
            (self.is_open, self.base) = (true, base);
        }
    }

    /// Offset that people see: without the SYN.
    fn shown(&self, offset: i64) -> i64 {
        offset - i64::from(self.has_syn)
    }

    /// An offset below the beginning counts as the beginning.
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
            // Part of it may have been seen: what is new decides.
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

    /// Bytes at or below the highest came: were they missing?
    fn fill(&mut self, start: u64, end: u64, packet: &Packet, tcp: &Tcp, rtt_ns: u64) -> Class {
        let Some(place) = self.gaps.iter().rposition(|gap| gap.start < end && start < gap.end) else {
            return Class::Repeated;
        };
        let gap = self.gaps.remove(place);
        // What is left of it, the lower part first.
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
                // What follows a repetition is clean itself.
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
            // Only what must be acknowledged brings an echo soon.
            if is_newer && class != Class::Bare && class != Class::Probe {
                if self.stamps.len() == MOST {
                    self.stamps.pop_front();
                }
                self.stamps.push_back((value, packet.t_ns));
            }
        }
    }

    /// What fills a gap is acknowledged together with what came before it and waited: neither times a round trip.
    fn note_filled(&mut self, end: u64, t_ns: u64) {
        let place = self.sent.partition_point(|sent| sent.end <= end);
        self.sent.insert(place, Sent { end, t_ns, is_clean: false });
        if self.sent.len() > MOST {
            self.sent.pop_front();
        }
    }

    /// The other end acknowledges up to `ack`.
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
        // tcptrace: nothing before it may have been sent again after it.
        (!is_ambiguous || self.repeated_ns < last.t_ns).then(|| {
            let rtt = now_ns.saturating_sub(last.t_ns);
            self.rtt.push(rtt);
            rtt
        })
    }

    /// The other end holds these bytes; a block below `una` reports a duplicate (RFC 2883).
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
            // The first echo of a value times the first segment that carried it.
            sample = (distance == 0).then(|| now_ns.saturating_sub(t_ns));
        }
        if let Some(ns) = sample {
            self.stamp_rtt.push(ns);
        }
        sample
    }

    /// Segments sent again.
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

/// A connection's first packet, if it was a bare SYN: all that is kept until there is a second.
#[derive(Clone, Copy, Debug)]
struct Opening {
    t_ns: u64,
    seq: u32,
    stamp: Option<u32>,
    side: u8,
}

/// A connection, followed in both directions.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// What the client sent, and what the server sent.
    pub sides: [Side; 2],
    opening: Option<Opening>,
}

impl Conversation {
    /// A connection's first packet was a bare SYN: nothing else is kept of it until there is a second.
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

    /// Both ends' tracks; the opening SYN is entered into its sender's.
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

    /// A segment from this side passes.
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

    /// The smallest round trip between the two ends that was seen: from here to each of them and back.
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
