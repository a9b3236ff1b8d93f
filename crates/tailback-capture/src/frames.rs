//! A run's packets as frames: Ethernet, IPv4 or IPv6, and TCP, UDP with RTP, or ICMP, with right checksums.
//!
//! Payloads are zeros. Stream offsets become sequence numbers of 32 bits behind an initial number of each connection's
//! own; times become timestamps in milliseconds (RFC 7323 section 5.4 wants a clock between 1 ms and 1 s).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{
    EtherType, Ethernet2Header, IcmpEchoHeader, Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type, IpDscp,
    IpEcn, IpNumber, Ipv4Header, Ipv6Header, TcpHeader, UdpHeader,
};

/// What a flow's packets are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Segments of connections.
    Tcp,
    /// Datagrams that carry speech: RTP, a packet's payload type 0 (G.711 µ-law).
    Rtp,
    /// Echo requests and replies.
    Echo,
    /// Datagrams.
    Udp,
}

/// What all packets of a flow share.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// What they are.
    pub kind: Kind,
    /// The nodes of client and server, for hardware addresses.
    pub nodes: [u16; 2],
    /// Payload bytes between two numbers of an RTP stream's clock.
    pub rtp_step: u32,
    /// They are IPv6 packets.
    pub is_v6: bool,
}

/// What the ends of a connection agreed on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Connection {
    /// MSS option of client and server, without options.
    pub mss: [u16; 2],
    /// Timestamps,
    pub timestamps: bool,
    /// selective acknowledgements,
    pub sack: bool,
    /// window scaling
    pub scaling: bool,
    /// and ECN are in force.
    pub ecn: bool,
    /// Shift of the window that client and server offer.
    pub scale: [u8; 2],
}

/// One packet's headers, as the engine knows them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'a> {
    /// Number of its flow,
    pub flow: u32,
    /// from the server to the client,
    pub is_reverse: bool,
    /// and of its connection in the flow.
    pub connection: u32,
    /// Stream offset; of a datagram its number in the flow.
    pub seq: u64,
    /// Next offset expected.
    pub ack: u64,
    /// Window in bytes.
    pub window: u64,
    /// When it was sent,
    pub ts_val_ps: u64,
    /// and the time it echoes; `u64::MAX` without one.
    pub ts_ecr_ps: u64,
    /// Header bits.
    pub flags: u8,
    /// IP length.
    pub bytes: u32,
    /// IP identification.
    pub ip_id: u16,
    /// Stream of a datagram,
    pub stream: u16,
    /// and its number there.
    pub number: u64,
    /// SACK blocks: first offset, and one past the last.
    pub blocks: &'a [(u64, u64)],
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// Bytes of the Ethernet header.
pub const LINK_BYTES: u32 = 14;
const FIRST_CLIENT_PORT: u32 = 32_768;
const CLIENT_PORTS: u32 = 28_232;
/// iperf's.
const SERVER_PORT: u16 = 5001;
const FIRST_RTP_PORT: u32 = 16_384;
const RTP_HEADER: usize = 12;
/// Linux's first time to live.
const HOPS: u8 = 64;

/// An IPv6 address is these 96 bits and the IPv4 address, as RFC 6052 section 2.2 embeds one. The prefix is for
/// documentation (RFC 3849). Hosts prefer it to IPv4, unlike private addresses (RFC 6724 section 2.1).
const PREFIX: [u16; 6] = [0x2001, 0xdb8, 0, 0, 0, 0];

/// The addresses of a flow, as in live runs: 10.x.y.1 at its sender, 10.x.y.2 at its receiver, x·256 + y its number; over
/// IPv6 these below `PREFIX`.
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
    /// Of a packet of `flow`, and the length of what follows it.
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

    /// The same with this ECN codepoint.
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

/// The ports of a flow's connection or stream: client's and server's.
pub fn ports(kind: Kind, connection: u32, stream: u16) -> [u16; 2] {
    match kind {
        Kind::Tcp => [(FIRST_CLIENT_PORT + connection % CLIENT_PORTS) as u16, SERVER_PORT],
        // Even ports, as RFC 3550 section 11 wants.
        Kind::Rtp => {
            let port = (FIRST_RTP_PORT + 2 * (u32::from(stream) % 8192)) as u16;
            [port, port]
        }
        Kind::Udp | Kind::Echo => {
            [(FIRST_CLIENT_PORT + u32::from(stream) % CLIENT_PORTS) as u16, SERVER_PORT]
        }
    }
}

/// SplitMix64's mixing step: numbers that look unlike for flows alike.
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
    // A timestamp of zero in a SYN reads as none sent: the clock starts at one.
    (ps / 1_000_000_000) as u32 + 1
}

/// Builds frames, in a buffer of its own.
#[derive(Debug, Default)]
pub struct Builder {
    frame: Vec<u8>,
    payload: Vec<u8>,
}

/// Ethernet between a flow's nodes: locally administered addresses that end in their numbers.
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
    /// The frame of a real IP packet's first bytes, which carried this ECN codepoint here; `None` if they are none.
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

    /// The frame of a packet with this ECN codepoint, whole; `None` if its length leaves no room for its headers.
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
            // RFC 3168 section 6.1.1: a SYN asks with both, a SYN-ACK agrees with one.
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
            // RFC 3550 section 5.1: version 2, payload type 0, number, clock, source.
            let source = mix(u64::from(it.flow) << 16 | u64::from(it.stream)) as u32;
            self.payload[0] = 0x80;
            self.payload[2..4].copy_from_slice(&(it.number as u16).to_be_bytes());
            let clock = (it.number as u32).wrapping_mul(flow.rtp_step);
            self.payload[4..8].copy_from_slice(&clock.to_be_bytes());
            self.payload[8..12].copy_from_slice(&source.to_be_bytes());
        } else if bytes >= 8 {
            // Unlike one another, so that they can be distinguished at two points.
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

/// MSS 4, SACK permitted 2, timestamps 10, no-op 1, window scale 3; no-ops for what is not in force.
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

/// Timestamps and SACK blocks, each aligned by two no-ops as most systems do.
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
