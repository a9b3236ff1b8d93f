//! Assigns packets to connections and other flows, in order of appearance.

use rustc_hash::FxHashMap;

use crate::decode::{ACK, HEAD, Naming, Packet, SYN, Skip, decode};
use crate::source::{Frame, Source};
use crate::tcp::{Conversation, Seen};

/// The two ends of a flow, the one with the lower address first, and the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    ends: [([u8; 16], u16); 2],
    protocol: u8,
}

/// A flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Address and port of the end that opened the flow or was seen first; then of the other end.
    pub ends: [([u8; 16], u16); 2],
    /// IP protocol.
    pub protocol: u8,
    /// Time of the first packet.
    pub first_ns: u64,
    /// Time of the last packet.
    pub last_ns: u64,
    /// What each end sent; only counts for protocols other than TCP.
    pub talk: Conversation,
    /// Whether one of its datagrams began with a QUIC header of a known version.
    pub is_quic: bool,
    /// Which of the key's ends is the client.
    client: usize,
    isn: u32,
}

/// Frames of a capture that belong to no flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Skipped {
    /// ARP and the like.
    pub not_ip: u64,
    /// Unreadable IP headers.
    pub broken: u64,
    /// Unknown link types.
    pub unknown_link: u64,
    /// Packets whose transport header was not kept.
    pub headless: u64,
    /// Later fragments whose first fragment was not seen.
    pub orphans: u64,
    /// Fragments of any kind.
    pub fragments: u64,
    /// IP packets larger than 1500 bytes, due to offload in network cards or kernels.
    pub oversize: u64,
    /// Frames with an earlier time stamp than the frame before.
    pub backwards: u64,
}

/// Addresses, identification and protocol, which identify a fragmented datagram.
type Datagram = ([u8; 16], [u8; 16], u32, u8);

/// IP protocol of UDP.
const UDP: u8 = 17;
/// Versions of QUIC: 1 (RFC 9000), 2 (RFC 9369), and drafts, whose first three bytes are ff 00 00.
const QUIC: [u32; 2] = [1, 0x6b33_43cf];
const QUIC_DRAFTS: u32 = 0xff00_0000;

/// Whether a datagram begins with QUIC's long header: header form and fixed bit, a known version, and a valid length of
/// the connection ID (RFC 9000 section 17.2).
fn begins_quic(packet: &Packet) -> bool {
    let head = &packet.head;
    let version = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    usize::from(packet.head_bytes) == HEAD
        && head[0] & 0xc0 == 0xc0
        && (QUIC.contains(&version) || version & 0xffff_ff00 == QUIC_DRAFTS)
        && head[5] <= 20
}

/// Number of first fragments whose ports are remembered.
const FRAGMENTS: usize = 4096;

/// The flows of a capture so far.
#[derive(Debug, Default)]
pub struct Flows {
    /// Flows in order of first packet.
    pub all: Vec<Flow>,
    /// Counts of the frames that belong to no flow.
    pub skipped: Skipped,
    /// Packets that belong to flows.
    pub packets: u64,
    /// IP bytes of these packets.
    pub bytes: u64,
    /// Time stamp of the first packet.
    pub first_ns: u64,
    /// Time stamp of the last packet.
    pub last_ns: u64,
    latest: FxHashMap<Key, u32>,
    last: Option<(Key, u32)>,
    /// How packets are hashed; if they are, segments are only counted.
    pub naming: Naming,
    packet: Packet,
    fragments: FxHashMap<Datagram, [u16; 2]>,
}

/// A packet with its flow.
#[derive(Clone, Copy, Debug)]
pub struct Owned<'a> {
    /// The packet; a later fragment has the ports of the first.
    pub packet: &'a Packet,
    /// Index of its flow.
    pub flow: u32,
    /// Whether it goes from the server to the client.
    pub is_reverse: bool,
    /// For TCP: the classified segment.
    pub seen: Option<Seen>,
}

/// The key of a packet's flow, and which of its ends sent it.
fn key_of(packet: &Packet) -> (Key, usize) {
    let from = (packet.from, packet.ports[0]);
    let to = (packet.to, packet.ports[1]);
    let sender = usize::from(from > to);
    let ends = if sender == 0 { [from, to] } else { [to, from] };
    (Key { ends, protocol: packet.protocol }, sender)
}

impl Flows {
    /// For hashed packets, whose segments are only counted.
    pub fn named(naming: Naming) -> Self {
        Flows { naming, ..Flows::default() }
    }

    /// The flow of a packet from another capture, and whether it comes from the server.
    pub fn find(&self, packet: &Packet) -> Option<(u32, bool)> {
        let (key, sender) = key_of(packet);
        let number = match self.last {
            Some((last, number)) if last == key => number,
            _ => *self.latest.get(&key)?,
        };
        Some((number, sender != self.all[number as usize].client))
    }

    /// Processes a frame; `None` if it belongs to no flow.
    #[inline]
    pub fn take(&mut self, frame: &Frame<'_>) -> Option<Owned<'_>> {
        if let Err(skip) = decode(frame, &mut self.packet, self.naming) {
            *match skip {
                Skip::NotIp => &mut self.skipped.not_ip,
                Skip::Broken => &mut self.skipped.broken,
                Skip::UnknownLink => &mut self.skipped.unknown_link,
            } += 1;
            return None;
        }
        if self.packet.is_fragment || self.packet.is_later_fragment {
            self.repair_fragment()?;
        } else if self.packet.is_short && self.packet.ports == [0, 0] {
            self.skipped.headless += 1;
            return None;
        }
        let t_ns = self.packet.t_ns;
        self.skipped.oversize += u64::from(self.packet.bytes > 1500);
        self.note_time(t_ns);
        self.packets += 1;
        self.bytes += u64::from(self.packet.bytes);
        let (number, is_reverse) = self.owner();
        let packet = &self.packet;
        let flow = &mut self.all[number as usize];
        flow.last_ns = flow.last_ns.max(t_ns);
        let side = usize::from(is_reverse);
        let seen = match packet.tcp() {
            Some(tcp) if self.naming == Naming::None => Some(flow.talk.on_segment(side, packet, tcp)),
            _ => {
                flow.is_quic |= packet.protocol == UDP && begins_quic(packet);
                flow.talk.sides[side].count(packet);
                None
            }
        };
        Some(Owned { packet, flow: number, is_reverse, seen })
    }

    fn note_time(&mut self, t_ns: u64) {
        if self.packets == 0 {
            self.first_ns = t_ns;
        }
        self.skipped.backwards += u64::from(t_ns < self.last_ns);
        self.first_ns = self.first_ns.min(t_ns);
        self.last_ns = self.last_ns.max(t_ns);
    }

    /// Gives a later fragment the ports of the first.
    fn repair_fragment(&mut self) -> Option<()> {
        let packet = &mut self.packet;
        self.skipped.fragments += 1;
        let key = (packet.from, packet.to, packet.ip_id, packet.protocol);
        if packet.is_later_fragment {
            let Some(ports) = self.fragments.get(&key) else {
                self.skipped.orphans += 1;
                return None;
            };
            packet.ports = *ports;
            packet.has_tcp = false;
        } else {
            if self.fragments.len() == FRAGMENTS {
                self.fragments.clear();
            }
            self.fragments.insert(key, packet.ports);
        }
        Some(())
    }

    fn owner(&mut self) -> (u32, bool) {
        let packet = &self.packet;
        let (key, sender) = key_of(packet);
        let ends = key.ends;
        let known = match self.last {
            Some((last, number)) if last == key => Some(number),
            _ => self.latest.get(&key).copied(),
        };
        let flags = packet.tcp().map_or(0, |tcp| tcp.flags);
        let is_opening = flags & (SYN | ACK) == SYN;
        if let Some(number) = known {
            let flow = &self.all[number as usize];
            // The same ports with a different initial sequence number are a new connection.
            let seq = packet.tcp().map_or(0, |tcp| tcp.seq);
            if !(is_opening && flow.isn != seq && flow.talk.sides.iter().any(|side| side.packets > 0)) {
                self.last = Some((key, number));
                return (number, sender != flow.client);
            }
        }
        let number = self.all.len() as u32;
        // The sender of a SYN-ACK is not the client.
        let client = if flags & (SYN | ACK) == SYN | ACK { 1 - sender } else { sender };
        self.all.push(Flow {
            ends: [ends[client], ends[1 - client]],
            protocol: packet.protocol,
            first_ns: packet.t_ns,
            last_ns: packet.t_ns,
            talk: Conversation::default(),
            is_quic: false,
            client,
            isn: packet.tcp().filter(|_| is_opening).map_or(0, |tcp| tcp.seq),
        });
        self.latest.insert(key, number);
        self.last = Some((key, number));
        (number, sender != client)
    }

    /// Reads an entire capture.
    pub fn read(source: &mut Source) -> Self {
        let mut flows = Flows::default();
        source.each(|frame| {
            flows.take(&frame);
            true
        });
        flows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 400,000 of them took 743 MB; so state about acknowledgements is allocated from the second packet on.
    #[test]
    fn a_flow_of_one_packet_is_small() {
        assert!(size_of::<Flow>() <= 256, "{} bytes", size_of::<Flow>());
    }
}
