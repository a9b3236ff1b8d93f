//! Segmentation offload: cuts one large TCP segment of a host into back-to-back packets, as its network card would.
//!
//! Source: the output of Linux's own `tcp_gso_segment`, `inet_gso_segment` and `ipv6_gso_segment` for devices without
//! offload.

use crate::sys::Offload;

const FIN_AND_PSH: u8 = 0x09;
const CWR: u8 = 0x80;
const TCP: u8 = 6;
/// An IPv6 header without extensions; hosts' segments have none.
const V6_HEADER: usize = 40;
const IP_CHECKSUM: std::ops::Range<usize> = 10..12;

/// The packets of one large segment.
#[derive(Debug)]
pub struct Segments<'a> {
    whole: &'a [u8],
    /// Length of the IP header; then of both headers.
    ip_header: usize,
    headers: usize,
    payload: usize,
}

impl<'a> Segments<'a> {
    /// For segments of `payload` bytes each; `None` if the packet is not TCP.
    pub fn of(whole: &'a [u8], payload: usize) -> Option<Self> {
        let ip_header = match whole.first()? >> 4 {
            4 => usize::from(whole[0] & 15) * 4,
            6 if whole.get(6) == Some(&TCP) => V6_HEADER,
            _ => return None,
        };
        let headers = ip_header + usize::from(whole.get(ip_header + 12)? >> 4) * 4;
        let is_sound = payload > 0 && headers < whole.len();
        is_sound.then_some(Segments { whole, ip_header, headers, payload })
    }

    /// The number of packets.
    pub fn count(&self) -> usize {
        (self.whole.len() - self.headers).div_ceil(self.payload)
    }

    /// Writes packet `number` into `packet`; returns the offload work that is left.
    pub fn write(&self, number: usize, packet: &mut Vec<u8>) -> Offload {
        let begin = self.headers + number * self.payload;
        let end = (begin + self.payload).min(self.whole.len());
        packet.clear();
        packet.extend_from_slice(&self.whole[..self.headers]);
        packet.extend_from_slice(&self.whole[begin..end]);
        let length = packet.len() as u16;
        let (ip, tcp) = packet.split_at_mut(self.ip_header);
        if ip[0] >> 4 == 6 {
            ip[4..6].copy_from_slice(&(length - V6_HEADER as u16).to_be_bytes());
        } else {
            ip[2..4].copy_from_slice(&length.to_be_bytes());
            let identification = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(number as u16);
            ip[4..6].copy_from_slice(&identification.to_be_bytes());
            ip[IP_CHECKSUM].fill(0);
            let sum = checksum(ip);
            ip[IP_CHECKSUM].copy_from_slice(&sum.to_be_bytes());
        }
        let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        let seq = seq.wrapping_add((number * self.payload) as u32);
        tcp[4..8].copy_from_slice(&seq.to_be_bytes());
        if end < self.whole.len() {
            tcp[13] &= !FIN_AND_PSH;
        }
        if number > 0 {
            tcp[13] &= !CWR;
        }
        Offload::checksum_of_tcp(self.ip_header)
    }
}

/// The Internet checksum (RFC 1071) of a header.
pub fn checksum(header: &[u8]) -> u16 {
    let words =
        header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers of 20 and 32 bytes, `payload` bytes that count up, and `flags`.
    fn large(payload: usize, flags: u8) -> Vec<u8> {
        let mut packet = vec![0u8; 52];
        packet[0] = 0x45;
        packet[4..6].copy_from_slice(&0xffff_u16.to_be_bytes());
        packet[8] = 64;
        packet[9] = 6;
        packet[24..28].copy_from_slice(&(u32::MAX - 99).to_be_bytes());
        packet[32] = 8 << 4;
        packet[33] = flags;
        packet.extend((0..payload).map(|byte| byte as u8));
        packet
    }

    fn cut(whole: &[u8], payload: usize) -> Vec<Vec<u8>> {
        let segments = Segments::of(whole, payload).expect("TCP");
        (0..segments.count())
            .map(|number| {
                let mut packet = Vec::new();
                assert_eq!(segments.write(number, &mut packet), Offload::checksum_of_tcp(20));
                packet
            })
            .collect()
    }

    #[test]
    fn the_segments_carry_all_bytes_under_consecutive_numbers() {
        let whole = large(250, 0x10);
        let packets = cut(&whole, 100);
        assert_eq!(packets.iter().map(Vec::len).collect::<Vec<_>>(), [152, 152, 102]);
        let carried: Vec<u8> = packets.iter().flat_map(|packet| packet[52..].to_vec()).collect();
        assert_eq!(carried, whole[52..]);
        let seq = |packet: &Vec<u8>| u32::from_be_bytes(packet[24..28].try_into().expect("four bytes"));
        assert_eq!(packets.iter().map(seq).collect::<Vec<_>>(), [u32::MAX - 99, 0, 100], "modulo 2^32");
        for (number, packet) in packets.iter().enumerate() {
            assert_eq!(checksum(&packet[..20]), 0, "a true checksum sums to nothing");
            assert_eq!(usize::from(u16::from_be_bytes([packet[2], packet[3]])), packet.len());
            let identification = u16::from_be_bytes([packet[4], packet[5]]);
            assert_eq!(identification, 0xffff_u16.wrapping_add(number as u16));
        }
    }

    #[test]
    fn push_and_fin_are_the_last_ones_and_cwr_the_first_ones() {
        let flags: Vec<u8> = cut(&large(250, 0x99), 100).iter().map(|packet| packet[33]).collect();
        assert_eq!(flags, [0x90, 0x10, 0x19]);
        assert_eq!(cut(&large(100, 0x99), 100)[0][33], 0x99, "one is first and last");
    }

    #[test]
    fn segments_over_ipv6_state_the_length_behind_the_header() {
        let mut whole = vec![0u8; 40];
        (whole[0], whole[6]) = (0x60, 6);
        whole.extend_from_slice(&large(250, 0x19)[20..]);
        let segments = Segments::of(&whole, 100).expect("TCP");
        let mut carried = Vec::new();
        for number in 0..segments.count() {
            let mut packet = Vec::new();
            assert_eq!(segments.write(number, &mut packet), Offload::checksum_of_tcp(40));
            assert_eq!(usize::from(u16::from_be_bytes([packet[4], packet[5]])), packet.len() - 40);
            carried.extend_from_slice(&packet[72..]);
        }
        assert_eq!(carried, whole[72..]);
    }

    #[test]
    fn what_is_no_tcp_is_not_cut() {
        assert!(Segments::of(&[], 100).is_none());
        assert!(Segments::of(&large(10, 0)[..30], 100).is_none());
        assert!(Segments::of(&large(10, 0), 0).is_none());
        let mut six = large(10, 0);
        six[0] = 0x65;
        assert!(Segments::of(&six, 100).is_none());
    }
}
