//! A flow's sockets: created inside its hosts and configured from its TCP settings.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tailback_core::scenario::IpVersion;
use tailback_core::time::Bytes;
use tailback_core::traffic::Opening;

use crate::access;
use crate::headers::ends;
use crate::sys;

/// One port is enough, because every flow has its own addresses.
pub const PORT: u16 = 5000;
/// For a flow that stops, the kernel holds at most this much unsent data (TCP_NOTSENT_LOWAT), so that no large buffer
/// is left to drain.
const AHEAD: i32 = 256 * 1024;
/// A TCP header without options.
const TCP_HEADER: u32 = 20;
/// The timestamps option with padding.
const TIMESTAMPS: u32 = 12;
/// Values that TCP_MAXSEG accepts.
const SEGMENTS: std::ops::RangeInclusive<u32> = 88..=32_767;
const SO_SNDBUFFORCE: i32 = 32;
const SO_RCVBUFFORCE: i32 = 33;
const TCP_WINDOW_CLAMP: i32 = 10;
const TCP_NOTSENT_LOWAT: i32 = 25;
const IP_BIND_ADDRESS_NO_PORT: i32 = 24;

/// TCP settings of a flow.
#[derive(Clone, Debug)]
pub struct TcpPlan {
    /// Congestion controls by the kernel's names; connections take them in turn.
    pub turns: Vec<String>,
    /// Send buffer; `None` for the kernel's autotuning.
    pub send_buffer: Option<u64>,
    /// Receive buffer; `None` for the kernel's autotuning.
    pub receive_buffer: Option<u64>,
    /// Largest IP packet.
    pub mtu: u32,
    /// The connections' version of IP.
    pub ip: IpVersion,
    /// Payload of a full segment, if the application limits it.
    pub segment: Option<u32>,
    /// Most unacknowledged bytes, if the application limits them.
    pub window: Option<Bytes>,
    /// Number of the application's host pairs; zero if it has none.
    pub pairs: u32,
    /// Whether the kernel paces.
    pub paces: bool,
    /// Whether the flow stops before the run ends.
    pub stops: bool,
}

impl TcpPlan {
    /// Value for TCP_MAXSEG, which includes the options.
    pub fn largest_segment(&self) -> u32 {
        let most = self.mtu - self.ip.header() - TCP_HEADER;
        self.segment.map_or(most, |bytes| most.min(bytes + TIMESTAMPS))
    }
}

/// The sockets that a flow starts with.
#[derive(Debug)]
pub enum Sockets {
    /// The server's listening socket.
    Listener(OwnedFd),
    /// The client's socket and the server's.
    Datagrams([OwnedFd; 2]),
    /// None: each connection of a foreign stack creates its own two sockets.
    OfConnections,
}

/// Creates a flow's sockets in its two hosts; the calling thread stays in one of them.
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
    // The kernel doubles the value it is given, to include its own overhead; `ss` shows the doubled figure.
    let halved = |bytes: u64| i32::try_from(bytes / 2).unwrap_or(i32::MAX / 2);
    // The send buffer must hold the application's window with the kernel's overhead.
    let send = tcp.send_buffer.or(tcp.window.map(|window| 2 * window));
    if let Some(bytes) = send {
        sys::set_option(socket, libc::SOL_SOCKET, SO_SNDBUFFORCE, halved(bytes))?;
    }
    if let Some(bytes) = tcp.receive_buffer.or(tcp.window.map(|window| 4 * window)) {
        sys::set_option(socket, libc::SOL_SOCKET, SO_RCVBUFFORCE, halved(bytes))?;
    }
    if let Some(window) = tcp.window {
        // The receiver's window sets the limit: the kernel's send buffer counts more than payload.
        let clamp = i32::try_from(window).unwrap_or(i32::MAX);
        sys::set_option(socket, libc::IPPROTO_TCP, TCP_WINDOW_CLAMP, clamp)?;
    }
    if tcp.paces {
        // Any limit below the maximum makes the kernel pace.
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

/// Opens a client's socket to the server in the calling thread's host; returns the socket and its port. `serial` is the
/// connection's number in the flow.
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

/// Connects from this port; zero for any free port.
fn connect(flow: u32, tcp: &TcpPlan, turn: u32, port: u16) -> io::Result<(OwnedFd, u16)> {
    let [near, far] = ends(flow, tcp.ip);
    let (near, far) = (SocketAddr::new(near, port), SocketAddr::new(far, PORT));
    let socket = sys::socket(near, libc::SOCK_STREAM)?;
    configure(socket.as_fd(), tcp, turn)?;
    // Delay the choice of a free port until the peer is known: a port then conflicts only for the same peer. A given
    // port may belong to a connection that is over.
    let option = [(libc::IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT), (libc::SOL_SOCKET, libc::SO_REUSEADDR)];
    let (level, name) = option[usize::from(port != 0)];
    sys::set_option(socket.as_fd(), level, name, 1)?;
    sys::bind(socket.as_fd(), near)?;
    sys::connect(socket.as_fd(), far)?;
    let port = sys::own_port(socket.as_fd())?;
    Ok((socket, port))
}

/// Creates the two sockets of a foreign stack's connection, the client's and the server's; the calling thread stays in
/// the client's host.
pub fn open_datagrams(
    (flow, ip): (u32, IpVersion),
    [from, to]: [BorrowedFd<'_>; 2],
) -> io::Result<[OwnedFd; 2]> {
    /// IP_PMTUDISC_PROBE and IPV6_PMTUDISC_PROBE: never fragment, and ignore the path MTU. QUIC forbids fragmentation
    /// (RFC 9000 section 14).
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
    // All connections share one port: a datagram goes to the socket connected to its sender.
    let server = make(far, PORT, 1);
    sys::enter_network(from)?;
    let (server, client) = (server?, make(near, 0, 0)?);
    sys::connect(client.as_fd(), SocketAddr::new(far, PORT))?;
    sys::connect(server.as_fd(), SocketAddr::new(near, sys::own_port(client.as_fd())?))?;
    Ok([client, server])
}

/// Sets a socket's congestion control, chosen by `turn`.
pub fn choose(socket: BorrowedFd<'_>, tcp: &TcpPlan, turn: u32) -> io::Result<()> {
    let cc = &tcp.turns[turn as usize % tcp.turns.len()];
    sys::set_congestion(socket, cc)
        .map_err(|error| io::Error::new(error.kind(), format!("choosing congestion control {cc}: {error}")))
}
