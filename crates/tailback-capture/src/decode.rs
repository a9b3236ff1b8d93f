//! Decodes the headers of a frame.
//!
//! Supported are Ethernet with VLAN tags, Linux cooked captures (both versions), BSD loopback and raw IP; IPv4 and IPv6
//! with extension headers; TCP with options, UDP and ICMP. A truncated frame is decoded as far as it was kept.

use std::hash::Hasher;

use etherparse::{
    EtherType, IpNumber, LaxNetSlice, LaxSlicedPacket, TcpOptionElement, TcpSlice, TransportSlice, ether_type,
};
use pcap_parser::Linktype;
use rustc_hash::FxHasher;

use crate::source::Frame;

/// TCP flag FIN.
pub const FIN: u8 = 1;
/// TCP flag SYN.
pub const SYN: u8 = 2;
/// TCP flag RST.
pub const RST: u8 = 4;
/// TCP flag ACK.
pub const ACK: u8 = 0x10;

/// Stands for a missing window scale option.
pub const NO_SCALE: u8 = 255;
/// Number of payload bytes kept: enough for an RTP header.
pub const HEAD: usize = 12;
const SLL: Linktype = Linktype(113);
const SLL2: Linktype = Linktype(276);

/// The fields of a TCP header.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp {
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Next sequence number expected.
    pub ack: u32,
    /// The window field, unscaled.
    pub window: u16,
    /// The flags from FIN to CWR.
    pub flags: u8,
    /// Option: MSS (0: none).
    pub mss: u16,
    /// Option: window scale ([`NO_SCALE`]: none).
    pub scale: u8,
    /// Option: SACK permitted.
    pub sack_permitted: bool,
    /// Option: timestamp and echo reply.
    pub stamps: Option<(u32, u32)>,
    /// Option: SACK blocks.
    pub blocks: [(u32, u32); 4],
    /// Number of valid SACK blocks.
    pub block_count: u8,
}

/// One packet, decoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet {
    /// Time in nanoseconds since 1970.
    pub t_ns: u64,
    /// Source address; an IPv4 address is mapped into IPv6.
    pub from: [u8; 16],
    /// Destination address, mapped like `from`.
    pub to: [u8; 16],
    /// Source and destination port, or zero.
    pub ports: [u16; 2],
    /// IP protocol.
    pub protocol: u8,
    /// ECN bits.
    pub ecn: u8,
    /// IP identification: 16 bits, or that of an IPv6 fragment; 0 if there is none.
    pub ip_id: u32,
    /// IP length.
    pub bytes: u32,
    /// Payload of TCP or UDP, computed from the lengths in the headers.
    pub payload: u32,
    /// Whether it is a fragment other than the first, which has no ports.
    pub is_later_fragment: bool,
    /// Whether it is any fragment.
    pub is_fragment: bool,
    /// Whether `tcp` is valid: the packet is TCP, and its header was kept.
    pub has_tcp: bool,
    /// See [`Packet::tcp`].
    tcp: Tcp,
    /// The first payload bytes of packets other than TCP.
    pub head: [u8; HEAD],
    /// How many of them were kept.
    pub head_bytes: u8,
    /// A hash of the fields that routers do not change; it identifies the packet at another point.
    pub name: u64,
    /// Whether too little was kept to make the hash unique.
    pub is_short: bool,
    /// For TCP: whether the header was cut off before its timestamps, if it has any.
    pub is_cut: bool,
}

/// The fields that a packet's hash includes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Naming {
    /// No hashes.
    #[default]
    None,
    /// All fields that routers do not change.
    Whole,
    /// The same without TCP timestamps, for captures that did not keep them.
    WithoutStamps,
}

impl Packet {
    /// The TCP header, if the packet has one.
    #[inline]
    pub fn tcp(&self) -> Option<&Tcp> {
        self.has_tcp.then_some(&self.tcp)
    }
}

/// Why a frame was not decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skip {
    /// ARP and other protocols than IP.
    NotIp,
    /// The IP header is truncated or malformed.
    Broken,
    /// An unknown link type.
    UnknownLink,
}

fn v4(address: [u8; 4]) -> [u8; 16] {
    let mut all = [0; 16];
    all[10..12].copy_from_slice(&[0xff, 0xff]);
    all[12..].copy_from_slice(&address);
    all
}

fn slice<'a>(frame: &Frame<'a>) -> Result<LaxSlicedPacket<'a>, Skip> {
    let data = frame.data;
    let at = |place: usize| -> Result<EtherType, Skip> {
        let bytes = data.get(place..place + 2).ok_or(Skip::Broken)?;
        Ok(EtherType(u16::from_be_bytes([bytes[0], bytes[1]])))
    };
    let rest = |place: usize| data.get(place..).ok_or(Skip::Broken);
    match frame.link {
        Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(data).map_err(|_| Skip::Broken),
        SLL => Ok(LaxSlicedPacket::from_ether_type(at(14)?, rest(16)?)),
        SLL2 => Ok(LaxSlicedPacket::from_ether_type(at(0)?, rest(20)?)),
        Linktype::NULL | Linktype(108) => {
            let family = data.get(..4).ok_or(Skip::Broken)?;
            // AF_INET is 2 on all systems; AF_INET6 is 10, 24, 28 or 30; both occur in either byte order.
            let kind = match family[0].max(family[3]) {
                2 => ether_type::IPV4,
                10 | 24 | 28 | 30 => ether_type::IPV6,
                _ => return Err(Skip::NotIp),
            };
            Ok(LaxSlicedPacket::from_ether_type(kind, rest(4)?))
        }
        Linktype::RAW | Linktype(12 | 14) | Linktype::IPV4 | Linktype::IPV6 => {
            LaxSlicedPacket::from_ip(data).map_err(|_| Skip::Broken)
        }
        _ => Err(Skip::UnknownLink),
    }
}

fn tcp_of(slice: &TcpSlice<'_>, tcp: &mut Tcp) {
    (tcp.seq, tcp.ack) = (slice.sequence_number(), slice.acknowledgment_number());
    (tcp.window, tcp.flags) = (slice.window_size(), slice.header_slice()[13]);
    (tcp.mss, tcp.scale, tcp.sack_permitted, tcp.stamps, tcp.block_count) = (0, NO_SCALE, false, None, 0);
    let options = slice.options();
    // Fast path: most segments have only aligned timestamps.
    if let [1, 1, 8, 10, a, b, c, d, e, f, g, h] = *options {
        tcp.stamps = Some((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])));
        return;
    }
    for option in slice.options_iterator().flatten() {
        match option {
            TcpOptionElement::MaximumSegmentSize(mss) => tcp.mss = mss,
            TcpOptionElement::WindowScale(scale) => tcp.scale = scale.min(14),
            TcpOptionElement::SelectiveAcknowledgementPermitted => tcp.sack_permitted = true,
            TcpOptionElement::Timestamp(value, echo) => tcp.stamps = Some((value, echo)),
            TcpOptionElement::SelectiveAcknowledgement(first, others) => {
                for block in std::iter::once(first).chain(others.into_iter().flatten()) {
                    tcp.blocks[usize::from(tcp.block_count)] = block;
                    tcp.block_count += 1;
                }
            }
            TcpOptionElement::Noop => {}
        }
    }
}

/// Decodes a frame into `it`, and hashes it as `naming` says.
#[inline]
pub fn decode(frame: &Frame<'_>, it: &mut Packet, naming: Naming) -> Result<(), Skip> {
    match decode_plain(frame, it, naming) {
        Some(()) => Ok(()),
        None => decode_any(frame, it, naming),
    }
}

/// Fast path for nearly all frames: an IPv4 packet, possibly truncated, with a complete TCP or UDP header, behind
/// Ethernet, a cooked header or nothing. Returns `None` for other frames.
///
/// It saves a third of a packet's instructions, most of which copy etherparse's general header types; the result equals
/// that of `decode_any`.
#[inline]
fn decode_plain(frame: &Frame<'_>, it: &mut Packet, naming: Naming) -> Option<()> {
    let place = match frame.link {
        Linktype::ETHERNET => 14,
        SLL => 16,
        SLL2 => 20,
        Linktype::RAW | Linktype(12 | 14) | Linktype::IPV4 => 0,
        _ => return None,
    };
    let type_place = match frame.link {
        Linktype::ETHERNET => Some(12),
        SLL => Some(14),
        SLL2 => Some(0),
        _ => None,
    };
    if let Some(at) = type_place {
        if frame.data.get(at..at + 2)? != [8, 0] {
            return None;
        }
    }
    let packet = frame.data.get(place..)?;
    let ip: &[u8; 20] = packet.first_chunk()?;
    let header = usize::from(ip[0] & 15) * 4;
    let total = u16::from_be_bytes([ip[2], ip[3]]);
    let is_fragment = (ip[6] & 0x3f) | ip[7] != 0;
    if ip[0] >> 4 != 4 || header < 20 || is_fragment || usize::from(total) < header + 8 {
        return None;
    }
    // The frame may have padding after the packet.
    let carried = packet.get(header..packet.len().min(usize::from(total)))?;
    let payload = u32::from(total) - header as u32;
    let (ports, payload, content) = match ip[9] {
        6 => {
            let slice = TcpSlice::from_slice(carried).ok()?;
            tcp_of(&slice, &mut it.tcp);
            let header = slice.header_slice().len() as u32;
            ([slice.source_port(), slice.destination_port()], payload.checked_sub(header)?, slice.payload())
        }
        17 => {
            let udp: &[u8; 8] = carried.first_chunk()?;
            let word = |at: usize| u16::from_be_bytes([udp[at], udp[at + 1]]);
            if u32::from(word(4)) != payload {
                return None;
            }
            ([word(0), word(2)], payload - 8, &carried[8..])
        }
        _ => return None,
    };
    (it.t_ns, it.ports, it.protocol, it.ecn) = (frame.t_ns, ports, ip[9], ip[1] & 3);
    (it.from, it.to) = (v4([ip[12], ip[13], ip[14], ip[15]]), v4([ip[16], ip[17], ip[18], ip[19]]));
    (it.ip_id, it.bytes) = (u32::from(u16::from_be_bytes([ip[4], ip[5]])), u32::from(total));
    (it.payload, it.has_tcp) = (payload, ip[9] == 6);
    (it.is_later_fragment, it.is_fragment, it.is_short, it.is_cut) = (false, false, false, false);
    finish(it, content, naming).ok()
}

fn decode_any(frame: &Frame<'_>, it: &mut Packet, naming: Naming) -> Result<(), Skip> {
    let sliced = slice(frame)?;
    let (from, to, protocol, ecn, ip_id, bytes, header, offset, is_fragment) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(ip)) => {
            let header = ip.header();
            let total = u32::from(header.total_len());
            // A sender that leaves segmentation to its network card writes no length.
            let beside = frame.wire_bytes.saturating_sub(frame.data.len() as u32);
            let bytes = if total == 0 {
                header.slice().len() as u32 + ip.payload().payload.len() as u32 + beside
            } else {
                total
            };
            (
                v4(header.source()),
                v4(header.destination()),
                ip.payload().ip_number,
                header.ecn().value(),
                u32::from(header.identification()),
                bytes,
                header.slice().len() as u32,
                header.fragments_offset().value(),
                header.is_fragmenting_payload(),
            )
        }
        Some(LaxNetSlice::Ipv6(ip)) => {
            let header = ip.header();
            let extensions = ip.extensions().slice().len() as u32;
            let bytes = 40 + u32::from(header.payload_length());
            let (id, offset) = fragment_of(header.next_header(), ip.extensions().slice()).unwrap_or((0, 0));
            (
                header.source(),
                header.destination(),
                ip.payload().ip_number,
                header.traffic_class() & 3,
                id,
                bytes,
                40 + extensions,
                offset,
                ip.payload().fragmented,
            )
        }
        Some(LaxNetSlice::Arp(_)) => return Err(Skip::NotIp),
        None if sliced.stop_err.is_some() => return Err(Skip::Broken),
        None => return Err(Skip::NotIp),
    };
    (it.t_ns, it.from, it.to, it.ports) = (frame.t_ns, from, to, [0; 2]);
    (it.protocol, it.ecn, it.ip_id, it.bytes, it.payload) = (protocol.0, ecn, ip_id, bytes, 0);
    (it.is_later_fragment, it.is_fragment, it.is_short, it.has_tcp) = (offset > 0, is_fragment, false, false);
    it.is_cut = false;
    let carried = bytes.saturating_sub(header);
    let content: &[u8];
    if it.is_later_fragment {
        content = sliced.ip_payload().map_or(&[], |payload| payload.payload);
        it.payload = carried;
    } else {
        match &sliced.transport {
            Some(TransportSlice::Tcp(slice)) => {
                it.ports = [slice.source_port(), slice.destination_port()];
                it.payload = carried.saturating_sub(slice.header_slice().len() as u32);
                it.has_tcp = true;
                tcp_of(slice, &mut it.tcp);
                content = slice.payload();
            }
            Some(TransportSlice::Udp(slice)) => {
                it.ports = [slice.source_port(), slice.destination_port()];
                it.payload = carried.saturating_sub(8);
                content = slice.payload();
            }
            Some(TransportSlice::Icmpv4(slice)) => {
                it.payload = carried.saturating_sub(8);
                content = slice.slice();
            }
            Some(TransportSlice::Icmpv6(slice)) => {
                it.payload = carried.saturating_sub(8);
                content = slice.slice();
            }
            None => {
                content = sliced.ip_payload().map_or(&[], |payload| payload.payload);
                if protocol == IpNumber::TCP && cut_tcp(it, content, carried) {
                    return finish(it, &[], naming);
                }
                // etherparse does not read the header of a fragmented datagram, which the first fragment contains.
                if let (IpNumber::UDP, Some(&[a, b, c, d, ..])) = (protocol, content.first_chunk::<8>()) {
                    it.ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
                    it.payload = carried.saturating_sub(8);
                    return finish(it, &content[8..], naming);
                }
                it.is_short = matches!(protocol, IpNumber::TCP | IpNumber::UDP);
            }
        }
    }
    finish(it, content, naming)
}

/// Identification and offset of a fragment, from the extension headers after an IPv6 header (RFC 8200 section 4).
///
/// Decoded by hand, because etherparse 0.19 iterates over truncated headers as if they were complete, and reads past
/// their end.
fn fragment_of(first: IpNumber, mut rest: &[u8]) -> Option<(u32, u16)> {
    let mut kind = first;
    loop {
        let length = match kind {
            IpNumber::IPV6_FRAGMENTATION_HEADER => {
                let [_, _, high, low, id @ ..] = *rest.first_chunk::<8>()?;
                return Some((u32::from_be_bytes(id), u16::from_be_bytes([high, low]) >> 3));
            }
            IpNumber::IPV6_HEADER_HOP_BY_HOP
            | IpNumber::IPV6_ROUTE_HEADER
            | IpNumber::IPV6_DESTINATION_OPTIONS => (usize::from(*rest.get(1)?) + 1) * 8,
            // RFC 4302 section 2.2: the length is in words of four bytes, minus two.
            IpNumber::AUTHENTICATION_HEADER => (usize::from(*rest.get(1)?) + 2) * 4,
            _ => return None,
        };
        kind = IpNumber(*rest.first()?);
        rest = rest.get(length..)?;
    }
}

/// Decodes a TCP header whose options are truncated.
#[cold]
fn cut_tcp(it: &mut Packet, kept: &[u8], carried: u32) -> bool {
    if kept.len() < 20 {
        return false;
    }
    let length = usize::from(kept[12] >> 4) * 4;
    // The header ends where it was truncated, and incomplete options are ignored: half a SACK block counts as none.
    let mut whole = [0; 60];
    let count = kept.len().min(60).min(length) & !3;
    whole[..count].copy_from_slice(&kept[..count]);
    whole[12] = (count as u8 / 4) << 4 | whole[12] & 0x0f;
    let Ok(slice) = TcpSlice::from_slice(&whole[..count]) else { return false };
    it.ports = [slice.source_port(), slice.destination_port()];
    it.payload = carried.saturating_sub(length as u32);
    it.has_tcp = true;
    tcp_of(&slice, &mut it.tcp);
    it.is_cut = count < length && it.tcp.stamps.is_none();
    true
}

fn finish(it: &mut Packet, content: &[u8], naming: Naming) -> Result<(), Skip> {
    let kept = content.len().min(HEAD);
    if !it.has_tcp {
        it.head = [0; HEAD];
        it.head[..kept].copy_from_slice(&content[..kept]);
        let wanted = (it.payload as usize).min(HEAD);
        it.is_short |= content.len() < wanted;
    }
    it.head_bytes = kept as u8;
    if naming != Naming::None {
        it.is_short |= it.is_cut && naming == Naming::Whole;
        name(it, naming);
    }
    Ok(())
}

/// Hashes what routers do not change: addresses, ports, identification, sequence numbers, flags, timestamps and the
/// first payload bytes. TTL, ECN, differentiated services and checksums are excluded.
fn name(it: &mut Packet, naming: Naming) {
    let mut hash = FxHasher::default();
    for address in [it.from, it.to] {
        let [high, low]: [u64; 2] =
            [0, 8].map(|at| u64::from_be_bytes(address[at..at + 8].try_into().expect("eight bytes")));
        hash.write_u64(high);
        hash.write_u64(low);
    }
    hash.write_u64(u64::from(it.ports[0]) << 48 | u64::from(it.ports[1]) << 32 | u64::from(it.ip_id));
    hash.write_u64(u64::from(it.protocol) << 32 | u64::from(it.bytes));
    if let Some(tcp) = it.tcp() {
        hash.write_u64(u64::from(tcp.seq) << 32 | u64::from(tcp.ack));
        // A router may set CE in the IP header, but changes nothing in the TCP header.
        let stamps = tcp.stamps.filter(|_| naming == Naming::Whole);
        let (value, echo) = stamps.unwrap_or((0, 0));
        hash.write_u64(u64::from(tcp.flags) << 16 | u64::from(tcp.window));
        hash.write_u64(u64::from(value) << 32 | u64::from(echo));
    } else {
        // Distinguishes datagrams, above all where the identification is zero.
        let mut head = [0; 16];
        head[..HEAD].copy_from_slice(&it.head);
        hash.write_u64(u64::from_be_bytes(head[..8].try_into().expect("eight bytes")));
        hash.write_u64(u64::from_be_bytes(head[8..].try_into().expect("eight bytes")));
    }
    it.name = hash.finish();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;
    use std::path::Path;

    /// Both decoders' results for a frame, with only the valid parts of `tcp` and `head`.
    fn both(frame: &Frame<'_>) -> Option<[String; 2]> {
        let said = |it: &Packet| {
            let mut it = *it;
            if it.has_tcp {
                it.head = [0; HEAD];
                let used = usize::from(it.tcp.block_count);
                it.tcp.blocks[used..].fill((0, 0));
            } else {
                it.tcp = Tcp::default();
            }
            format!("{it:?}")
        };
        let (mut plain, mut any) = (Packet::default(), Packet::default());
        decode_plain(frame, &mut plain, Naming::Whole)?;
        let outcome = decode_any(frame, &mut any, Naming::Whole);
        Some([said(&plain), if outcome.is_ok() { said(&any) } else { format!("{outcome:?}") }])
    }

    /// An acknowledgement with two SACK blocks; the snap length cuts off the end of the second.
    #[test]
    fn half_a_sack_block_is_none() {
        let mut data = vec![0x45, 0, 0, 72, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        data.extend([0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 2, 0xd0, 0x10, 1, 0, 0, 0, 0, 0]);
        data.extend([1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 6, 1, 1, 5, 18]);
        data.extend([100u32, 200, 300, 400].into_iter().flat_map(u32::to_be_bytes));
        assert_eq!(data.len(), 72);
        let mut packet = Packet::default();
        let mut read = |kept: usize| {
            let frame = Frame { t_ns: 1, link: Linktype::RAW, data: &data[..kept], wire_bytes: 72 };
            decode(&frame, &mut packet, Naming::Whole).expect("a packet");
            let tcp = packet.tcp().expect("TCP");
            (tcp.stamps, tcp.blocks[..usize::from(tcp.block_count)].to_vec(), packet.payload)
        };
        assert_eq!(read(72), (Some((7, 6)), vec![(100, 200), (300, 400)], 0));
        for kept in [56, 60, 68, 70, 71] {
            assert_eq!(read(kept), (Some((7, 6)), vec![], 0), "{kept}");
        }
        assert_eq!(read(47).0, None);
        assert_eq!(read(40), (None, vec![], 0));
    }

    #[test]
    fn the_short_way_says_what_the_long_one_says() {
        let (mut compared, mut frames) = (0, 0);
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
        for entry in std::fs::read_dir(seeds).expect("the seeds").flatten() {
            let Ok(mut source) = Source::open(&entry.path()) else { continue };
            source.each(|frame| {
                frames += 1;
                let mut check = |data: &[u8]| {
                    if let Some([plain, any]) = both(&Frame { data, ..frame }) {
                        assert_eq!(plain, any, "{data:02x?}");
                        compared += 1;
                    }
                };
                check(frame.data);
                // Truncate at every length, and change every byte of the headers.
                (0..frame.data.len().min(120)).for_each(|length| check(&frame.data[..length]));
                let mut data = frame.data.to_vec();
                for place in 0..data.len().min(90) {
                    let old = data[place];
                    for new in
                        [0, 1, 5, 0x0f, 0x20, 0x40, 0x46, 0x4f, 0x60, 0x80, 0xf0, 0xff, old ^ 1, old ^ 0x10]
                    {
                        data[place] = new;
                        check(&data);
                    }
                    data[place] = old;
                }
                frames < 3000
            });
        }
        assert!(compared > 100_000, "{compared} of {frames}");
    }
}
