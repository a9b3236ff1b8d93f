//! Builds frames from a run's packets: Ethernet, IPv4 or IPv6, and TCP, UDP with RTP, or ICMP, with correct checksums.
//!
//! Payloads are zeros. Stream offsets become 32-bit sequence numbers after an initial number of each connection; times
//! become timestamps in milliseconds (RFC 7323 section 5.4 requires a clock tick between 1 ms and 1 s).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{
    EtherType, Ethernet2Header, IcmpEchoHeader, Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type, IpDscp,
    IpEcn, IpNumber, Ipv4Header, Ipv6Header, TcpHeader, UdpHeader,
};

/// The kind of a flow's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// TCP segments.
    Tcp,
    /// Speech datagrams: RTP with payload type 0 (G.711 µ-law).
    Rtp,
    /// Echo requests and replies.
    Echo,
    /// UDP datagrams without RTP.
    Udp,
}

/// Properties shared by all packets of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// The kind of its packets.
    pub kind: Kind,
    /// The nodes of client and server, used for MAC addresses.
    pub nodes: [u16; 2],
    /// Clock units between consecutive packets of an RTP stream.
    pub rtp_step: u32,
    /// Whether they are IPv6 packets.
    pub is_v6: bool,
}

/// The options negotiated by a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Connection {
    /// MSS option of client and server, excluding TCP options.
    pub mss: [u16; 2],
    /// Whether timestamps are in use.
    pub timestamps: bool,
    /// Whether SACK is in use.
    pub sack: bool,
    /// Whether window scaling is in use.
    pub scaling: bool,
    /// Whether ECN is in use.
    pub ecn: bool,
    /// Window scale shift of client and server.
    pub scale: [u8; 2],
}

/// A packet's header fields as the engine knows them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'a> {
    /// Index of its flow.
    pub flow: u32,
    /// Whether it goes from the server to the client.
    pub is_reverse: bool,
    /// Index of its connection within the flow.
    pub connection: u32,
    /// Stream offset; for a datagram its number within the flow.
    pub seq: u64,
    /// Next expected offset.
    pub ack: u64,
    /// Window in bytes.
    pub window: u64,
    /// Time of sending.
    pub ts_val_ps: u64,
    /// The echoed time; `u64::MAX` for none.
    pub ts_ecr_ps: u64,
    /// TCP flags.
    pub flags: u8,
    /// IP length.
    pub bytes: u32,
    /// IP identification.
    pub ip_id: u16,
    /// Stream of a datagram.
    pub stream: u16,
    /// The datagram's number within its stream.
    pub number: u64,
    /// SACK blocks: first offset, and the offset after the last byte.
    pub blocks: &'a [(u64, u64)],
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// Bytes of the Ethernet header.
pub const LINK_BYTES: u32 = 14;
const FIRST_CLIENT_PORT: u32 = 32_768;
const CLIENT_PORTS: u32 = 28_232;
/// iperf's port.
const SERVER_PORT: u16 = 5001;
const FIRST_RTP_PORT: u32 = 16_384;
const RTP_HEADER: usize = 12;
/// Linux's initial TTL.
const HOPS: u8 = 64;

/// An IPv6 address consists of these 96 bits and the IPv4 address, as in RFC 6052 section 2.2. The prefix is for
/// documentation (RFC 3849). Hosts prefer it to IPv4, unlike private addresses (RFC 6724 section 2.1).
const PREFIX: [u16; 6] = [0x2001, 0xdb8, 0, 0, 0, 0];

/// The addresses of a flow with number x·256 + y, as in live runs: 10.x.y.1 at its sender, 10.x.y.2 at its receiver;
/// over IPv6 these below `PREFIX`.
pub fn addresses(flow: u32, is_v6: bool) -> [IpAddr; 2] {
    let [_, _, x, y] = flow.to_be_bytes();
    let [a, b, c, d, e, f] = PREFIX;
    [1, 2].map(|end| match is_v6 {
        false => Ipv4Addr::new(10, x, y, end).into(),
        true => {
            Ipv6Addr::new(a, b, c, d, e, f, 10 << 8 | u16::from(x), u16::from(y) << 8 | u16::from(end)).into()
        }
    })
}

/// An IP header.
#[derive(Debug)]
enum Ip {
    V4(Ipv4Header),
    V6(Ipv6Header),
}

impl Ip {
    /// For a packet of `flow`; also returns the length after the IP header.
    fn of(it: &Headers<'_>, flow: &Flow, ecn: u8) -> Option<(Ip, u16)> {
        let protocol = match flow.kind {
            Kind::Tcp => IpNumber::TCP,
            Kind::Rtp | Kind::Udp => IpNumber::UDP,
            Kind::Echo if flow.is_v6 => IpNumber::IPV6_ICMP,
            Kind::Echo => IpNumber::ICMP,
        };
        let mut ends = addresses(it.flow, flow.is_v6);
        if it.is_reverse {
            ends.reverse();
        }
        let bytes = u16::try_from(it.bytes).ok()?;
        match ends {
            [IpAddr::V4(from), IpAddr::V4(to)] => {
                let length = bytes.checked_sub(Ipv4Header::MIN_LEN as u16)?;
                let mut ip = Ipv4Header::new(length, HOPS, protocol, from.octets(), to.octets()).ok()?;
                ip.identification = it.ip_id;
                ip.dont_fragment = true;
                ip.dscp = IpDscp::ZERO;
                let ip = Ip::V4(ip).with(ecn)?;
                Some((ip, length))
            }
            [IpAddr::V6(from), IpAddr::V6(to)] => {
                let length = bytes.checked_sub(Ipv6Header::LEN as u16)?;
                let ip = Ipv6Header {
                    payload_length: length,
                    next_header: protocol,
                    hop_limit: HOPS,
                    source: from.octets(),
                    destination: to.octets(),
                    ..Ipv6Header::default()
                };
                Some((Ip::V6(ip).with(ecn)?, length))
            }
            _ => unreachable!("both ends have addresses of one version"),
        }
    }

    /// The same header with this ECN codepoint.
    fn with(self, ecn: u8) -> Option<Ip> {
        Some(match self {
            Ip::V4(mut ip) => {
                ip.ecn = IpEcn::try_new(ecn & 3).ok()?;
                ip.header_checksum = ip.calc_header_checksum();
                Ip::V4(ip)
            }
            Ip::V6(ip) => Ip::V6(Ipv6Header { traffic_class: ip.traffic_class & !3 | ecn & 3, ..ip }),
        })
    }

    fn header_bytes(&self) -> usize {
        match self {
            Ip::V4(ip) => ip.header_len(),
            Ip::V6(_) => Ipv6Header::LEN,
        }
    }

    fn write(&self, link: Ethernet2Header, frame: &mut Vec<u8>) -> Option<()> {
        match self {
            Ip::V4(ip) => {
                Ethernet2Header { ether_type: EtherType::IPV4, ..link }.write(frame).ok()?;
                ip.write(frame).ok()
            }
            Ip::V6(ip) => {
                Ethernet2Header { ether_type: EtherType::IPV6, ..link }.write(frame).ok()?;
                ip.write(frame).ok()
            }
        }
    }
}

/// The ports of a flow's connection or stream: the client's and the server's.
pub fn ports(kind: Kind, connection: u32, stream: u16) -> [u16; 2] {
    match kind {
        Kind::Tcp => [(FIRST_CLIENT_PORT + connection % CLIENT_PORTS) as u16, SERVER_PORT],
        // Even ports, as RFC 3550 section 11 requires.
        Kind::Rtp => {
            let port = (FIRST_RTP_PORT + 2 * (u32::from(stream) % 8192)) as u16;
            [port, port]
        }
        Kind::Udp | Kind::Echo => {
            [(FIRST_CLIENT_PORT + u32::from(stream) % CLIENT_PORTS) as u16, SERVER_PORT]
        }
    }
}

/// SplitMix64's mixing step, which gives similar flows dissimilar numbers.
fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The initial sequence number of one end of a connection.
pub fn initial(flow: u32, connection: u32, is_server: bool) -> u32 {
    mix(u64::from(flow) << 33 | u64::from(connection) << 1 | u64::from(is_server)) as u32
}

fn millis(ps: u64) -> u32 {
    // A timestamp of zero in a SYN looks like a missing one, so the clock starts at one.
    (ps / 1_000_000_000) as u32 + 1
}

/// Builds frames in its own buffer.
#[derive(Debug, Default)]
pub struct Builder {
    frame: Vec<u8>,
    payload: Vec<u8>,
}

/// Ethernet header between a flow's nodes, with locally administered addresses that end in the nodes' numbers.
fn link_header(nodes: [u16; 2], is_reverse: bool) -> Ethernet2Header {
    let mac = |node: u16| {
        let [high, low] = node.to_be_bytes();
        [2, 0, 0, 0, high, low]
    };
    let [near, far] = nodes.map(mac);
    let (source, destination) = if is_reverse { (far, near) } else { (near, far) };
    Ethernet2Header { source, destination, ether_type: EtherType::IPV4 }
}

impl Builder {
    /// The frame for the first bytes of a real IP packet, with the ECN codepoint that it had here; `None` if they are
    /// no IP header.
    pub fn real(&mut self, start: &[u8], nodes: [u16; 2], is_reverse: bool, ecn: u8) -> Option<&[u8]> {
        let (ip, rest) = match start.first()? >> 4 {
            6 => Ipv6Header::from_slice(start).ok().map(|(ip, rest)| (Ip::V6(ip), rest)),
            _ => Ipv4Header::from_slice(start).ok().map(|(ip, rest)| (Ip::V4(ip), rest)),
        }?;
        self.frame.clear();
        ip.with(ecn)?.write(link_header(nodes, is_reverse), &mut self.frame)?;
        self.frame.extend_from_slice(rest);
        Some(&self.frame)
    }

    /// The complete frame of a packet with this ECN codepoint; `None` if its length has no room for its headers.
    pub fn build(
        &mut self,
        it: &Headers<'_>,
        flow: &Flow,
        connection: &Connection,
        ecn: u8,
    ) -> Option<&[u8]> {
        let (ip, length) = Ip::of(it, flow, ecn)?;
        self.frame.clear();
        ip.write(link_header(flow.nodes, it.is_reverse), &mut self.frame)?;
        match flow.kind {
            Kind::Tcp => self.tcp(it, connection, &ip),
            Kind::Echo => self.echo(it, &ip, length),
            Kind::Rtp | Kind::Udp => self.udp(it, flow, &ip, length),
        }?;
        (self.frame.len() as u32 == it.bytes + LINK_BYTES).then_some(&self.frame)
    }

    fn zeros(&mut self, count: usize) {
        self.payload.clear();
        self.payload.resize(count, 0);
    }

    fn tcp(&mut self, it: &Headers<'_>, connection: &Connection, ip: &Ip) -> Option<()> {
        let own = usize::from(it.is_reverse);
        let [near, far] = [it.is_reverse, !it.is_reverse].map(|side| initial(it.flow, it.connection, side));
        let [client, server] = ports(Kind::Tcp, it.connection, 0);
        let (from, to) = if it.is_reverse { (server, client) } else { (client, server) };
        let is_syn = it.flags & SYN != 0;
        let first = if is_syn { near } else { near.wrapping_add(1) };
        let scale = if is_syn || !connection.scaling { 0 } else { connection.scale[own] };
        let window = (it.window >> scale).min(65_535) as u16;
        let mut header = TcpHeader::new(from, to, first.wrapping_add(it.seq as u32), window);
        let flags = it.flags;
        (header.fin, header.syn, header.rst) = (flags & 1 != 0, is_syn, flags & 4 != 0);
        (header.psh, header.ack) = (flags & 8 != 0, flags & ACK != 0);
        (header.ece, header.cwr) = (flags & 0x40 != 0, flags & 0x80 != 0);
        if is_syn && connection.ecn {
            // RFC 3168 section 6.1.1: a SYN sets both ECE and CWR, a SYN-ACK only ECE.
            (header.ece, header.cwr) = (true, !header.ack);
        }
        if header.ack {
            header.acknowledgment_number = far.wrapping_add(1).wrapping_add(it.ack as u32);
        }
        let mut options = Vec::with_capacity(40);
        if is_syn {
            syn_options(&mut options, it, connection);
        } else {
            segment_options(&mut options, it, connection, far);
        }
        header.set_options_raw(&options).ok()?;
        let room = (it.bytes as usize).checked_sub(ip.header_bytes() + header.header_len())?;
        self.zeros(room);
        header.checksum = match ip {
            Ip::V4(ip) => header.calc_checksum_ipv4(ip, &self.payload),
            Ip::V6(ip) => header.calc_checksum_ipv6(ip, &self.payload),
        }
        .ok()?;
        header.write(&mut self.frame).ok()?;
        self.frame.extend_from_slice(&self.payload);
        Some(())
    }

    fn echo(&mut self, it: &Headers<'_>, ip: &Ip, length: u16) -> Option<()> {
        self.zeros(usize::from(length).checked_sub(8)?);
        let echo = IcmpEchoHeader { id: it.flow as u16 + 1, seq: it.seq as u16 };
        match ip {
            Ip::V4(_) => {
                let kind =
                    if it.is_reverse { Icmpv4Type::EchoReply(echo) } else { Icmpv4Type::EchoRequest(echo) };
                Icmpv4Header::with_checksum(kind, &self.payload).write(&mut self.frame).ok()?;
            }
            Ip::V6(ip) => {
                let kind =
                    if it.is_reverse { Icmpv6Type::EchoReply(echo) } else { Icmpv6Type::EchoRequest(echo) };
                let header =
                    Icmpv6Header::with_checksum(kind, ip.source, ip.destination, &self.payload).ok()?;
                header.write(&mut self.frame).ok()?;
            }
        }
        self.frame.extend_from_slice(&self.payload);
        Some(())
    }

    fn udp(&mut self, it: &Headers<'_>, flow: &Flow, ip: &Ip, length: u16) -> Option<()> {
        let [client, server] = ports(flow.kind, 0, it.stream);
        let (from, to) = if it.is_reverse { (server, client) } else { (client, server) };
        self.zeros(usize::from(length).checked_sub(8)?);
        let bytes = self.payload.len();
        if flow.kind == Kind::Rtp && bytes >= RTP_HEADER {
            // RFC 3550 section 5.1: version 2, payload type 0, sequence number, timestamp, source.
            let source = mix(u64::from(it.flow) << 16 | u64::from(it.stream)) as u32;
            self.payload[0] = 0x80;
            self.payload[2..4].copy_from_slice(&(it.number as u16).to_be_bytes());
            let clock = (it.number as u32).wrapping_mul(flow.rtp_step);
            self.payload[4..8].copy_from_slice(&clock.to_be_bytes());
            self.payload[8..12].copy_from_slice(&source.to_be_bytes());
        } else if bytes >= 8 {
            // Makes payloads differ, so that packets can be identified at two points.
            self.payload[..8].copy_from_slice(&it.seq.to_be_bytes());
        }
        let header = match ip {
            Ip::V4(ip) => UdpHeader::with_ipv4_checksum(from, to, ip, &self.payload),
            Ip::V6(ip) => UdpHeader::with_ipv6_checksum(from, to, ip, &self.payload),
        }
        .ok()?;
        header.write(&mut self.frame).ok()?;
        self.frame.extend_from_slice(&self.payload);
        Some(())
    }
}

const NO_OPERATION: u8 = 1;

fn stamps(options: &mut Vec<u8>, it: &Headers<'_>) {
    options.extend_from_slice(&[8, 10]);
    options.extend_from_slice(&millis(it.ts_val_ps).to_be_bytes());
    let echo = if it.ts_ecr_ps == u64::MAX { 0 } else { millis(it.ts_ecr_ps) };
    options.extend_from_slice(&echo.to_be_bytes());
}

/// MSS 4 bytes, SACK permitted 2, timestamps 10, NOP 1, window scale 3; NOPs replace options that are not in use.
fn syn_options(options: &mut Vec<u8>, it: &Headers<'_>, connection: &Connection) {
    let own = usize::from(it.is_reverse);
    let [high, low] = connection.mss[own].to_be_bytes();
    options.extend_from_slice(&[2, 4, high, low]);
    let sack = if connection.sack { [4, 2] } else { [NO_OPERATION; 2] };
    options.extend_from_slice(&sack);
    if connection.timestamps {
        stamps(options, it);
    } else {
        options.extend_from_slice(&[NO_OPERATION; 10]);
    }
    options.push(NO_OPERATION);
    let scaling = if connection.scaling { [3, 3, connection.scale[own]] } else { [NO_OPERATION; 3] };
    options.extend_from_slice(&scaling);
}

/// Timestamps and SACK blocks, each aligned by two NOPs as in most systems.
fn segment_options(options: &mut Vec<u8>, it: &Headers<'_>, connection: &Connection, far: u32) {
    if connection.timestamps {
        options.extend_from_slice(&[NO_OPERATION; 2]);
        stamps(options, it);
    }
    if !it.blocks.is_empty() {
        options.extend_from_slice(&[NO_OPERATION, NO_OPERATION, 5, 2 + 8 * it.blocks.len() as u8]);
        for (start, end) in it.blocks {
            for offset in [start, end] {
                options.extend_from_slice(&far.wrapping_add(1).wrapping_add(*offset as u32).to_be_bytes());
            }
        }
    }
}
