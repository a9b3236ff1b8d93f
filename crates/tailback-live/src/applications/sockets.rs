//! A flow's sockets: made inside its hosts, and set as its TCP settings say.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tailback_core::scenario::IpVersion;
use tailback_core::time::Bytes;
use tailback_core::traffic::Opening;

use crate::access;
use crate::headers::ends;
use crate::sys;

/// Every flow has addresses of its own, so one port serves all.
pub const PORT: u16 = 5000;
/// The kernel of a flow that stops is given this much more than it has sent, so that no buffer is left to drain.
const AHEAD: i32 = 256 * 1024;
/// A TCP header without options.
const TCP_HEADER: u32 = 20;
/// The timestamps option, padded.
const TIMESTAMPS: u32 = 12;
/// What TCP_MAXSEG takes.
const SEGMENTS: std::ops::RangeInclusive<u32> = 88..=32_767;
const SO_SNDBUFFORCE: i32 = 32;
const SO_RCVBUFFORCE: i32 = 33;
const TCP_WINDOW_CLAMP: i32 = 10;
const TCP_NOTSENT_LOWAT: i32 = 25;
const IP_BIND_ADDRESS_NO_PORT: i32 = 24;

/// TCP settings of a flow.
#[derive(Clone, Debug)]
pub struct TcpPlan {
    /// Congestion controls by the kernel's names, used in turn.
    pub turns: Vec<String>,
    /// Send buffer; `None`: the kernel's own sizing.
    pub send_buffer: Option<u64>,
    /// Receive buffer; `None`: the kernel's own sizing.
    pub receive_buffer: Option<u64>,
    /// Largest IP packet.
    pub mtu: u32,
    /// The connections' version of IP.
    pub ip: IpVersion,
    /// Payload of a full segment, if the application limits it.
    pub segment: Option<u32>,
    /// Bytes that may be unacknowledged, if the application limits them.
    pub window: Option<Bytes>,
    /// Pairs of hosts of the application's own; zero if it has none.
    pub pairs: u32,
    /// The kernel spreads what it sends over the round trip.
    pub paces: bool,
    /// The flow stops before the run ends.
    pub stops: bool,
}

impl TcpPlan {
    /// TCP_MAXSEG, which counts the options in.
    pub fn largest_segment(&self) -> u32 {
        let most = self.mtu - self.ip.header() - TCP_HEADER;
        self.segment.map_or(most, |bytes| most.min(bytes + TIMESTAMPS))
    }
}

/// What a flow is reached by.
#[derive(Debug)]
pub enum Sockets {
    /// The server's.
    Listener(OwnedFd),
    /// The client's and the server's.
    Datagrams([OwnedFd; 2]),
    /// Each connection of a foreign stack has two of its own.
    OfConnections,
}

/// Make a flow's sockets in its two hosts; the calling thread stays in one of them.
pub fn make(
    (flow, ip): (u32, IpVersion),
    tcp: Option<&TcpPlan>,
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
) -> io::Result<Sockets> {
    let [near, far] = ends(flow, ip).map(|address| SocketAddr::new(address, PORT));
    sys::enter_network(to)?;
    if let Some(tcp) = tcp {
        let listener = sys::socket(far, libc::SOCK_STREAM)?;
        configure(listener.as_fd(), tcp, 0)?;
        sys::bind(listener.as_fd(), far)?;
        sys::listen(listener.as_fd())?;
        return Ok(Sockets::Listener(listener));
    }
    let server = sys::socket(far, libc::SOCK_DGRAM)?;
    sys::bind(server.as_fd(), far)?;
    sys::connect(server.as_fd(), near)?;
    sys::enter_network(from)?;
    let client = sys::socket(near, libc::SOCK_DGRAM)?;
    sys::bind(client.as_fd(), near)?;
    sys::connect(client.as_fd(), far)?;
    for socket in [&server, &client] {
        // Room for a second of any call, in case this thread is late.
        sys::set_option(socket.as_fd(), libc::SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)?;
    }
    Ok(Sockets::Datagrams([client, server]))
}

fn configure(socket: BorrowedFd<'_>, tcp: &TcpPlan, turn: u32) -> io::Result<()> {
    // The kernel doubles what it is given, and counts its own bookkeeping in: this is the figure `ss` shows.
    let halved = |bytes: u64| i32::try_from(bytes / 2).unwrap_or(i32::MAX / 2);
    // A window an application wants open fits whole, bookkeeping and all.
    let send = tcp.send_buffer.or(tcp.window.map(|window| 2 * window));
    if let Some(bytes) = send {
        sys::set_option(socket, libc::SOL_SOCKET, SO_SNDBUFFORCE, halved(bytes))?;
    }
    if let Some(bytes) = tcp.receive_buffer.or(tcp.window.map(|window| 4 * window)) {
        sys::set_option(socket, libc::SOL_SOCKET, SO_RCVBUFFORCE, halved(bytes))?;
    }
    if let Some(window) = tcp.window {
        // The limit is the receiver's, which offers no more: the kernel's send buffer does not count payload alone.
        let clamp = i32::try_from(window).unwrap_or(i32::MAX);
        sys::set_option(socket, libc::IPPROTO_TCP, TCP_WINDOW_CLAMP, clamp)?;
    }
    if tcp.paces {
        // Any limit but the largest makes the kernel pace.
        sys::set_long_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, u64::MAX - 1)?;
    }
    if tcp.stops {
        sys::set_option(socket, libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT, AHEAD)?;
    }
    if SEGMENTS.contains(&tcp.largest_segment()) {
        sys::set_option(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, tcp.largest_segment() as i32)?;
    }
    choose(socket, tcp, turn)
}

/// A client's socket on its way to the server, and its port; in the calling thread's host. `serial` is its number in the
/// flow.
pub fn open(flow: u32, tcp: &TcpPlan, opening: Opening, serial: u64) -> io::Result<(OwnedFd, u16)> {
    if tcp.pairs == 0 {
        return connect(flow, tcp, opening.turn, 0);
    }
    let is_taken =
        |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EADDRINUSE | libc::EADDRNOTAVAIL));
    let mut tries =
        access::ports(opening.path, tcp.pairs, serial).map(|port| connect(flow, tcp, opening.turn, port));
    tries
        .find(|tried| !tried.as_ref().is_err_and(is_taken))
        .unwrap_or_else(|| Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL)))
}

/// From this port; zero: one that is free.
fn connect(flow: u32, tcp: &TcpPlan, turn: u32, port: u16) -> io::Result<(OwnedFd, u16)> {
    let [near, far] = ends(flow, tcp.ip);
    let (near, far) = (SocketAddr::new(near, port), SocketAddr::new(far, PORT));
    let socket = sys::socket(near, libc::SOCK_STREAM)?;
    configure(socket.as_fd(), tcp, turn)?;
    // A free port is chosen when it is known where to: then one is taken only for the same peer. One that is asked for
    // may be that of a connection that is over.
    let option = [(libc::IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT), (libc::SOL_SOCKET, libc::SO_REUSEADDR)];
    let (level, name) = option[usize::from(port != 0)];
    sys::set_option(socket.as_fd(), level, name, 1)?;
    sys::bind(socket.as_fd(), near)?;
    sys::connect(socket.as_fd(), far)?;
    let port = sys::own_port(socket.as_fd())?;
    Ok((socket, port))
}

/// The two sockets of a foreign stack's connection, the client's and the server's; the calling thread stays in the
/// client's host.
pub fn open_datagrams(
    (flow, ip): (u32, IpVersion),
    [from, to]: [BorrowedFd<'_>; 2],
) -> io::Result<[OwnedFd; 2]> {
    /// IP_PMTUDISC_PROBE, and IPV6_PMTUDISC_PROBE: never fragment, whatever the path is said to take. QUIC forbids it (RFC 9000 section 14).
    const NEVER_FRAGMENT: i32 = 3;
    let [near, far] = ends(flow, ip);
    let [level, notes_class, discovers] = match ip {
        IpVersion::V4 => [libc::IPPROTO_IP, libc::IP_RECVTOS, libc::IP_MTU_DISCOVER],
        IpVersion::V6 => [libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, libc::IPV6_MTU_DISCOVER],
    };
    let make = |address: IpAddr, port, is_shared: i32| -> io::Result<OwnedFd> {
        let address = SocketAddr::new(address, port);
        let socket = sys::socket(address, libc::SOCK_DGRAM)?;
        let fd = socket.as_fd();
        sys::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, is_shared)?;
        sys::set_option(fd, libc::SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)?;
        sys::set_option(fd, libc::SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20)?;
        sys::set_option(fd, level, notes_class, 1)?;
        sys::set_option(fd, level, discovers, NEVER_FRAGMENT)?;
        sys::bind(fd, address)?;
        Ok(socket)
    };
    sys::enter_network(to)?;
    // One port for all connections: a datagram goes to the socket that is connected to its sender.
    let server = make(far, PORT, 1);
    sys::enter_network(from)?;
    let (server, client) = (server?, make(near, 0, 0)?);
    sys::connect(client.as_fd(), SocketAddr::new(far, PORT))?;
    sys::connect(server.as_fd(), SocketAddr::new(near, sys::own_port(client.as_fd())?))?;
    Ok([client, server])
}

/// Give a socket the congestion control of its turn.
pub fn choose(socket: BorrowedFd<'_>, tcp: &TcpPlan, turn: u32) -> io::Result<()> {
    let cc = &tcp.turns[turn as usize % tcp.turns.len()];
    sys::set_congestion(socket, cc)
        .map_err(|error| io::Error::new(error.kind(), format!("choosing congestion control {cc}: {error}")))
}
