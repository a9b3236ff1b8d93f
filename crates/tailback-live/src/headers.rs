//! What the emulator reads in and writes to the headers of the packets it carries.

use tailback_core::packet::{Acknowledgement, Ecn};

/// The addresses of a flow: 10.x.y.1 at its sender, 10.x.y.2 at its receiver, x·256 + y its number.
pub fn addresses(flow: u32) -> [std::net::Ipv4Addr; 2] {
    let [_, _, x, y] = flow.to_be_bytes();
    [std::net::Ipv4Addr::new(10, x, y, 1), std::net::Ipv4Addr::new(10, x, y, 2)]
}

/// The most flows the addresses have room for.
pub const MOST_FLOWS: usize = 1 << 16;

/// Flow and direction of an IP packet, by its destination.
pub fn owner(frame: &[u8]) -> Option<(u32, bool)> {
    if frame.len() < 20 || frame[0] >> 4 != 4 || frame[16] != 10 {
        return None;
    }
    let flow = u32::from(frame[17]) << 8 | u32::from(frame[18]);
    match frame[19] {
        2 => Some((flow, false)),
        1 => Some((flow, true)),
        _ => None,
    }
}

/// Give an IPv4 packet the addresses of its hosts by number, 192.168.x.y, and the server's port the number of its flow.
/// Then flows of one host share an address, and no two flows have both addresses and both ports in common. Checksums are
/// left as they are.
pub fn set_hosts(frame: &mut [u8], hosts: [u16; 2], flow: u16, is_reverse: bool) {
    for (place, host) in [12, 16].into_iter().zip(hosts) {
        let [x, y] = host.to_be_bytes();
        frame[place..place + 4].copy_from_slice(&[192, 168, x, y]);
    }
    let place = usize::from(frame[0] & 15) * 4 + if is_reverse { 0 } else { 2 };
    if let Some(port) = frame.get_mut(place..place + 2) {
        port.copy_from_slice(&flow.to_be_bytes());
    }
}

/// Set the ECN codepoint of an IPv4 header and correct its checksum.
pub fn set_codepoint(frame: &mut [u8], ecn: Ecn) {
    set_second_octet(frame, frame[1] & !3 | bits_of(ecn));
}

/// Set the DSCP of an IPv4 header and correct its checksum.
pub fn set_dscp(frame: &mut [u8], dscp: u8) {
    set_second_octet(frame, dscp << 2 | frame[1] & 3);
}

/// As RFC 1624 has it.
fn set_second_octet(frame: &mut [u8], octet: u8) {
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

/// An acknowledgement without payload that repeats the last one's number.
pub fn is_duplicate_ack(frame: &[u8], last: &mut u32) -> bool {
    const TCP: u8 = 6;
    const ACK_ONLY: u8 = 0x10;
    let header = usize::from(frame[0] & 15) * 4;
    if frame[9] != TCP || frame.len() < header + 20 {
        return false;
    }
    let tcp = &frame[header..];
    let number = u32::from_be_bytes([tcp[8], tcp[9], tcp[10], tcp[11]]);
    let is_repeated = number == *last;
    *last = number;
    // Synchronise, finish and reset are no duplicates; the ECN bits do not matter.
    is_repeated && tcp.len() == usize::from(tcp[12] >> 4) * 4 && tcp[13] & 0x17 == ACK_ONLY
}

/// What an IPv4 packet acknowledges; `None` if it is no TCP segment with an acknowledgement, or a SYN.
pub fn acknowledgement(packet: &[u8]) -> Option<Acknowledgement> {
    const TCP: u8 = 6;
    const SYN: u16 = 0x02;
    const ACK: u16 = 0x10;
    let header = usize::from(packet[0] & 15) * 4;
    if packet[9] != TCP || packet.len() < header + 20 {
        return None;
    }
    let tcp = &packet[header..];
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

/// The SACK blocks in TCP options (RFC 2018 section 3), and how many there are.
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

/// The port of a connection's client; zero if the packet has none.
pub fn client_port(packet: &[u8], is_reverse: bool) -> u16 {
    let place = usize::from(packet[0] & 15) * 4 + if is_reverse { 2 } else { 0 };
    packet.get(place..place + 2).map_or(0, |port| u16::from_be_bytes([port[0], port[1]]))
}

/// The ECN codepoint of an IPv4 packet.
pub fn codepoint(packet: &[u8]) -> Ecn {
    codepoint_of(packet[1])
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

/// The ECN codepoint in an IPv4 header's second octet.
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
        // With data or the end of the connection it acknowledges too, and is not only that.
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
            // The client's port, from which connections are known.
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
    }
}
