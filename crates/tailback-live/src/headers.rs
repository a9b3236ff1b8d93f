//! Reads and writes the headers of the packets that the emulator carries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tailback_core::packet::{Acknowledgement, Ecn};
use tailback_core::scenario::IpVersion;

const TCP: u8 = 6;
const UDP: u8 = 17;
/// Flags of a segment that only acknowledges.
const ACK_ONLY: u8 = 0x10;

/// The addresses of a flow with number x·256 + y: 10.x.y.1 at its sender, 10.x.y.2 at its receiver.
pub fn addresses(flow: u32) -> [Ipv4Addr; 2] {
    let [_, _, x, y] = flow.to_be_bytes();
    [Ipv4Addr::new(10, x, y, 1), Ipv4Addr::new(10, x, y, 2)]
}

/// Prefix that turns a flow's IPv4 address into its IPv6 address (RFC 6052 section 2.2). The prefix is for
/// documentation (RFC 3849); programs prefer it to IPv4, unlike private addresses (RFC 6724 section 2.1).
const PREFIX: [u8; 12] = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0];

/// The IPv6 address that corresponds to this IPv4 address.
pub fn beside(address: Ipv4Addr) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets[..12].copy_from_slice(&PREFIX);
    octets[12..].copy_from_slice(&address.octets());
    octets.into()
}

/// The addresses of a flow's sender and receiver.
pub fn ends(flow: u32, ip: IpVersion) -> [IpAddr; 2] {
    addresses(flow).map(|address| match ip {
        IpVersion::V4 => address.into(),
        IpVersion::V6 => beside(address).into(),
    })
}

/// The largest number of flows that the addresses allow.
pub const MOST_FLOWS: usize = 1 << 16;

/// Flow and direction of an IP packet, from its destination.
pub fn owner(frame: &[u8]) -> Option<(u32, bool)> {
    let destination = match frame.first()? >> 4 {
        4 => frame.get(16..20)?,
        6 if frame.get(24..36)? == PREFIX => frame.get(36..40)?,
        _ => return None,
    };
    let &[10, x, y, end] = destination else { return None };
    let flow = u32::from(x) << 8 | u32::from(y);
    match end {
        2 => Some((flow, false)),
        1 => Some((flow, true)),
        _ => None,
    }
}

/// Gives a packet the addresses of its hosts by number (192.168.x.y or the corresponding IPv6 address), and sets the
/// server's port to the flow's number. Flows of one host then share an address, and no two flows share both addresses
/// and both ports. Checksums are left as they are.
pub fn set_hosts(frame: &mut [u8], hosts: [u16; 2], flow: u16, is_reverse: bool) {
    let at = inner(frame).1;
    for (side, host) in hosts.into_iter().enumerate() {
        let [x, y] = host.to_be_bytes();
        let address = Ipv4Addr::new(192, 168, x, y);
        match is_v6(frame) {
            true => frame[8 + 16 * side..][..16].copy_from_slice(&beside(address).octets()),
            false => frame[12 + 4 * side..][..4].copy_from_slice(&address.octets()),
        }
    }
    let place = at + if is_reverse { 0 } else { 2 };
    if let Some(port) = frame.get_mut(place..place + 2) {
        port.copy_from_slice(&flow.to_be_bytes());
    }
}

/// Whether a packet is IPv6.
pub fn is_v6(frame: &[u8]) -> bool {
    frame[0] >> 4 == 6
}

/// The protocol of an IP packet, and where its header begins. IPv6 extension headers, such as the fragment header,
/// count as a protocol.
fn inner(frame: &[u8]) -> (u8, usize) {
    if is_v6(frame) { (frame[6], 40) } else { (frame[9], usize::from(frame[0] & 15) * 4) }
}

/// Set the ECN codepoint of an IP header.
pub fn set_codepoint(frame: &mut [u8], ecn: Ecn) {
    set_class(frame, class(frame) & !3 | bits_of(ecn));
}

/// Set the DSCP of an IP header.
pub fn set_dscp(frame: &mut [u8], dscp: u8) {
    set_class(frame, dscp << 2 | class(frame) & 3);
}

/// DSCP and ECN: the second octet in IPv4, the traffic class in IPv6.
fn class(frame: &[u8]) -> u8 {
    if is_v6(frame) { frame[0] << 4 | frame[1] >> 4 } else { frame[1] }
}

/// Sets DSCP and ECN. For IPv4 it updates the header checksum (RFC 1624); IPv6 has none.
fn set_class(frame: &mut [u8], octet: u8) {
    if is_v6(frame) {
        frame[0] = 0x60 | octet >> 4;
        frame[1] = octet << 4 | frame[1] & 15;
        return;
    }
    if frame[1] == octet {
        return;
    }
    let old = u16::from_be_bytes([frame[0], frame[1]]);
    frame[1] = octet;
    let new = u16::from_be_bytes([frame[0], frame[1]]);
    let sum = u16::from_be_bytes([frame[10], frame[11]]);
    let mut folded = u32::from(!sum) + u32::from(!old) + u32::from(new);
    folded = (folded & 0xffff) + (folded >> 16);
    folded = (folded & 0xffff) + (folded >> 16);
    frame[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

/// Offset of 16 bits that no queue reads and that can hold a packet's number: the identification in IPv4, the transport
/// checksum in IPv6.
pub fn place_of_number(frame: &[u8]) -> usize {
    const ICMP: u8 = 58;
    match inner(frame) {
        _ if !is_v6(frame) => 4,
        (TCP, at) => at + 16,
        (UDP, at) => at + 6,
        (ICMP, at) => at + 2,
        // After an extension header: the last bits of the flow label.
        _ => 2,
    }
}

/// Length of the headers plus `more` bytes of a datagram's payload.
pub fn headers_and(packet: &[u8], more: usize) -> usize {
    let (protocol, at) = inner(packet);
    let transport = match packet.get(at + 12) {
        Some(offset) if protocol == TCP => usize::from(offset >> 4) * 4,
        _ => more,
    };
    (at + transport).min(packet.len())
}

/// Whether a segment is an acknowledgement without payload that repeats the last acknowledgement number.
pub fn is_duplicate_ack(frame: &[u8], last: &mut u32) -> bool {
    let (protocol, at) = inner(frame);
    if protocol != TCP || frame.len() < at + 20 {
        return false;
    }
    let tcp = &frame[at..];
    let number = u32::from_be_bytes([tcp[8], tcp[9], tcp[10], tcp[11]]);
    let is_repeated = number == *last;
    *last = number;
    // A SYN, FIN or RST is no duplicate; the ECN bits do not matter.
    is_repeated && tcp.len() == usize::from(tcp[12] >> 4) * 4 && tcp[13] & 0x17 == ACK_ONLY
}

/// What an IP packet acknowledges; `None` for a SYN and for anything but a TCP segment with ACK.
pub fn acknowledgement(packet: &[u8]) -> Option<Acknowledgement> {
    const SYN: u16 = 0x02;
    const ACK: u16 = 0x10;
    let (protocol, at) = inner(packet);
    if protocol != TCP || packet.len() < at + 20 {
        return None;
    }
    let tcp = &packet[at..];
    let flags = u16::from_be_bytes([tcp[12] & 1, tcp[13]]);
    if flags & ACK == 0 || flags & SYN != 0 {
        return None;
    }
    let length = (usize::from(tcp[12] >> 4) * 4).clamp(20, tcp.len());
    let (sack, sack_count) = sack_blocks(&tcp[20..length]);
    Some(Acknowledgement {
        number: word(&tcp[8..]),
        flags,
        has_payload: tcp.len() > length,
        sack,
        sack_count,
    })
}

fn word(octets: &[u8]) -> u32 {
    u32::from_be_bytes([octets[0], octets[1], octets[2], octets[3]])
}

/// The SACK blocks in TCP options (RFC 2018 section 3), and their number.
fn sack_blocks(mut options: &[u8]) -> ([[u32; 2]; 4], u8) {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const SACK: u8 = 5;
    let (mut blocks, mut count) = ([[0; 2]; 4], 0);
    while let Some((&kind, rest)) = options.split_first() {
        let length = rest.first().map_or(2, |length| usize::from(*length).max(2));
        match kind {
            END => break,
            NOTHING => options = rest,
            SACK => {
                let said = options.get(2..length).unwrap_or_default();
                for (block, octets) in blocks.iter_mut().zip(said.chunks_exact(8)) {
                    *block = [word(octets), word(&octets[4..])];
                    count += 1;
                }
                break;
            }
            _ => options = options.get(length..).unwrap_or_default(),
        }
    }
    (blocks, count)
}

/// The client's port of a connection; zero if the packet has no ports.
pub fn client_port(packet: &[u8], is_reverse: bool) -> u16 {
    let place = inner(packet).1 + if is_reverse { 2 } else { 0 };
    packet.get(place..place + 2).map_or(0, |port| u16::from_be_bytes([port[0], port[1]]))
}

/// The ECN codepoint of an IP packet.
pub fn codepoint(packet: &[u8]) -> Ecn {
    codepoint_of(class(packet))
}

/// The two bits of a codepoint (RFC 3168 section 5).
fn bits_of(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0b00,
        Ecn::Ect1 => 0b01,
        Ecn::Ect0 => 0b10,
        Ecn::Ce => 0b11,
    }
}

/// The ECN codepoint in IPv4's second octet or IPv6's traffic class.
pub fn codepoint_of(tos: u8) -> Ecn {
    match tos & 3 {
        0b01 => Ecn::Ect1,
        0b10 => Ecn::Ect0,
        0b11 => Ecn::Ce,
        _ => Ecn::NotEct,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segments::checksum;

    fn header() -> Vec<u8> {
        let mut frame = vec![0u8; 20];
        frame[0] = 0x45;
        frame[1] = 0b10;
        frame[8] = 64;
        frame[9] = 17;
        frame[12..16].copy_from_slice(&[10, 0, 3, 1]);
        frame[16..20].copy_from_slice(&[10, 0, 3, 2]);
        let sum = checksum(&frame);
        frame[10..12].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    /// From flow 3's sender to its receiver.
    fn header_v6(next: u8) -> Vec<u8> {
        let mut frame = vec![0u8; 40];
        (frame[0], frame[6], frame[7]) = (0x60, next, 64);
        let [from, to] = addresses(3).map(|end| beside(end).octets());
        frame[8..24].copy_from_slice(&from);
        frame[24..40].copy_from_slice(&to);
        frame
    }

    #[test]
    fn a_changed_codepoint_keeps_the_checksum_true() {
        for ecn in [Ecn::Ce, Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::NotEct, Ecn::Ce] {
            let mut frame = header();
            set_codepoint(&mut frame, ecn);
            assert_eq!(codepoint(&frame), ecn);
            assert_eq!(checksum(&frame), 0);
            set_codepoint(&mut frame, Ecn::Ect0);
            assert_eq!(frame, header());
        }
    }

    #[test]
    fn a_bare_acknowledgement_is_known_with_and_without_sack_blocks() {
        let packet = |flags: u8, options: &[u8], payload: usize| {
            let mut frame = header();
            frame[9] = 6;
            let mut tcp = vec![0u8; 20];
            tcp[12] = (((20 + options.len()) / 4) << 4) as u8;
            tcp[13] = flags;
            frame.extend(tcp);
            frame.extend(options);
            frame.extend(vec![0u8; payload]);
            frame
        };
        let timestamps = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        let blocks = [timestamps.as_slice(), &[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2]].concat();
        let read = |flags, options: &[u8], payload| acknowledgement(&packet(flags, options, payload));
        let (plain, marked) = (read(0x10, &timestamps, 0).unwrap(), read(0x50, &[], 0).unwrap());
        assert!(plain.is_pure() && plain.is_nothing_else() && plain.sack_count == 0);
        assert!(marked.is_nothing_else() && marked.echoes() == 0x40);
        assert_eq!(read(0x10, &blocks, 0).unwrap().sack_blocks(), [[1, 2]]);
        // A segment with data, FIN or RST also acknowledges, but does more than that.
        for (flags, payload) in [(0x10, 1), (0x11, 0), (0x14, 0)] {
            assert!(!read(flags, &timestamps, payload).unwrap().is_pure());
        }
        assert!(!read(0x18, &[], 0).unwrap().is_nothing_else(), "PSH");
        assert_eq!(
            (read(0x12, &timestamps, 0), read(0x02, &[], 0), acknowledgement(&header())),
            (None, None, None)
        );
    }

    #[test]
    fn hosts_are_shared_and_flows_of_the_same_hosts_have_ports_of_their_own() {
        let frame = |flow: u16, is_reverse: bool| {
            let mut frame = [header(), vec![0; 20]].concat();
            // The client's port, which identifies connections.
            let place = if is_reverse { 22 } else { 20 };
            frame[place..place + 2].copy_from_slice(&40_000u16.to_be_bytes());
            let hosts = if is_reverse { [1, 0] } else { [0, 1] };
            set_hosts(&mut frame, hosts, flow, is_reverse);
            (frame[12..16].to_vec(), frame[16..20].to_vec(), frame[20..24].to_vec())
        };
        let (there, other, back) = (frame(3, false), frame(4, false), frame(3, true));
        assert_eq!((&there.0, &there.1), (&vec![192, 168, 0, 0], &vec![192, 168, 0, 1]));
        assert_eq!((&there.0, &there.1), (&other.0, &other.1));
        assert_eq!((&there.0, &there.1), (&back.1, &back.0));
        assert_ne!(there.2, other.2);
        assert_eq!(there.2[..2], back.2[2..]);
    }

    #[test]
    fn a_packet_belongs_to_the_flow_of_its_destination() {
        let mut frame = header();
        assert_eq!(owner(&frame), Some((3, false)));
        frame[19] = 1;
        assert_eq!(owner(&frame), Some((3, true)));
        frame[16] = 224;
        assert_eq!(owner(&frame), None);
        let [from, to] = addresses(0x1234);
        assert_eq!((from.octets(), to.octets()), ([10, 0x12, 0x34, 1], [10, 0x12, 0x34, 2]));
        let mut frame = header_v6(17);
        assert_eq!(owner(&frame), Some((3, false)));
        frame[39] = 1;
        assert_eq!(owner(&frame), Some((3, true)));
        // Neighbour discovery and the like: destination ff02::1.
        frame[24] = 0xff;
        assert_eq!(owner(&frame), None);
        assert_eq!(
            ends(0x1234, IpVersion::V6).map(|end| end.to_string()),
            ["2001:db8::a12:3401", "2001:db8::a12:3402"]
        );
    }

    #[test]
    fn an_ipv6_header_keeps_its_flow_label_when_its_class_is_set() {
        let mut frame = header_v6(6);
        frame[1..4].copy_from_slice(&[0x0a, 0xbc, 0xde]);
        for ecn in [Ecn::Ce, Ecn::NotEct, Ecn::Ect1, Ecn::Ect0] {
            set_codepoint(&mut frame, ecn);
            set_dscp(&mut frame, 46);
            assert_eq!((codepoint(&frame), class(&frame) >> 2), (ecn, 46));
            assert_eq!((frame[0] >> 4, frame[1] & 15, &frame[2..4]), (6, 0x0a, &[0xbc, 0xde][..]));
        }
    }

    #[test]
    fn segments_and_ports_are_found_behind_an_ipv6_header() {
        let mut frame = header_v6(6);
        let mut tcp = vec![0u8; 20];
        tcp[..4].copy_from_slice(&[0x12, 0x34, 0x13, 0x88]);
        tcp[8..12].copy_from_slice(&7_u32.to_be_bytes());
        (tcp[12], tcp[13]) = (5 << 4, 0x10);
        frame.extend(tcp);
        assert_eq!((client_port(&frame, false), client_port(&frame, true)), (0x1234, 5000));
        assert!(acknowledgement(&frame).unwrap().is_nothing_else());
        let mut last = 0;
        assert!(!is_duplicate_ack(&frame, &mut last) && is_duplicate_ack(&frame, &mut last));
        assert_eq!((headers_and(&frame, 20), place_of_number(&frame)), (60, 56));
        frame[6] = 17;
        frame.extend([0; 20]);
        assert_eq!((headers_and(&frame, 20), place_of_number(&frame)), (60, 46));
        assert_eq!((acknowledgement(&frame), place_of_number(&header())), (None, 4));
    }
}
