//! Creating, connecting, reading, writing and querying sockets.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{check, check_size};

const SO_MEMINFO: c_int = 55;

/// A non-blocking socket of the address family of `like`, in the calling thread's namespace.
pub fn socket(like: SocketAddr, kind: c_int) -> io::Result<OwnedFd> {
    let family = if like.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: no pointers; the descriptor gets an owner at once.
    unsafe {
        let fd = check(libc::socket(family, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// A netlink socket for routing messages.
pub fn netlink_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the descriptor gets an owner at once.
    unsafe {
        let fd =
            check(libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// A netlink socket that is notified when TCP connections in the calling thread's namespace are destroyed; it also
/// accepts sock_diag(7) requests.
pub fn diagnosis_socket() -> io::Result<OwnedFd> {
    /// SKNLGRP_INET_TCP_DESTROY and SKNLGRP_INET6_TCP_DESTROY, as bits.
    const GONE: u32 = 1 | 1 << 2;
    // SAFETY: `address` outlives the calls and has the size given; the descriptor gets an owner at once.
    unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let fd = check(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG))?;
        let fd = OwnedFd::from_raw_fd(fd);
        let mut address: libc::sockaddr_nl = mem::zeroed();
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = GONE;
        let length = mem::size_of_val(&address) as libc::socklen_t;
        check(libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length))?;
        Ok(fd)
    }
}

/// A socket that puts IP packets into a device's queue (packet(7)), in the calling thread's namespace; it receives
/// nothing. Packets in the queue count against the socket's buffer, which is therefore as large as possible.
pub fn packet_socket() -> io::Result<OwnedFd> {
    let all: c_int = 1 << 30;
    // SAFETY: `all` outlives the call and has the size given; the descriptor gets an owner at once.
    unsafe {
        let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let fd = check(libc::socket(libc::AF_PACKET, kind, 0))?;
        let fd = OwnedFd::from_raw_fd(fd);
        let length = mem::size_of_val(&all) as libc::socklen_t;
        check(libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUFFORCE,
            (&raw const all).cast(),
            length,
        ))?;
        Ok(fd)
    }
}

/// Sets the priority of later packets in the queues of devices (SO_PRIORITY).
pub fn set_priority(fd: BorrowedFd<'_>, priority: u8) -> io::Result<()> {
    let priority = c_int::from(priority);
    // SAFETY: `priority` outlives the call and has the size given.
    unsafe {
        check(libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PRIORITY,
            (&raw const priority).cast(),
            mem::size_of_val(&priority) as libc::socklen_t,
        ))
        .map(drop)
    }
}

/// Puts an IP packet into the queue of device number `index`; false if the queue dropped it at once.
pub fn enqueue(fd: BorrowedFd<'_>, index: u32, packet: &[u8]) -> io::Result<bool> {
    let protocol = if packet[0] >> 4 == 6 { libc::ETH_P_IPV6 } else { libc::ETH_P_IP };
    // SAFETY: all zeros is a valid sockaddr_ll; both outlive the call and have the sizes given.
    let sent = check_size(unsafe {
        let mut raw: libc::sockaddr_ll = mem::zeroed();
        raw.sll_family = libc::AF_PACKET as u16;
        raw.sll_protocol = (protocol as u16).to_be();
        raw.sll_ifindex = index as c_int;
        libc::sendto(
            fd.as_raw_fd(),
            packet.as_ptr().cast::<c_void>(),
            packet.len(),
            0,
            (&raw const raw).cast(),
            mem::size_of_val(&raw) as libc::socklen_t,
        )
    });
    match sent {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The address in the kernel's form, and its length.
fn address(of: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all zeros is a valid address of either kind, and the storage has room and alignment for both.
    unsafe {
        let mut raw: libc::sockaddr_storage = mem::zeroed();
        let length = match of {
            SocketAddr::V4(of) => {
                let raw = &mut *(&raw mut raw).cast::<libc::sockaddr_in>();
                raw.sin_family = libc::AF_INET as libc::sa_family_t;
                raw.sin_port = of.port().to_be();
                raw.sin_addr.s_addr = u32::from(*of.ip()).to_be();
                mem::size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(of) => {
                let raw = &mut *(&raw mut raw).cast::<libc::sockaddr_in6>();
                raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                raw.sin6_port = of.port().to_be();
                raw.sin6_addr.s6_addr = of.ip().octets();
                mem::size_of::<libc::sockaddr_in6>()
            }
        };
        (raw, length as libc::socklen_t)
    }
}

/// bind(2).
pub fn bind(fd: BorrowedFd<'_>, to: SocketAddr) -> io::Result<()> {
    let (raw, length) = address(to);
    // SAFETY: `raw` outlives the call and has at least the size given.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const raw).cast(), length) }).map(drop)
}

/// connect(2) on a non-blocking socket: "in progress" counts as success.
pub fn connect(fd: BorrowedFd<'_>, to: SocketAddr) -> io::Result<()> {
    let (raw, length) = address(to);
    // SAFETY: `raw` outlives the call and has at least the size given.
    let done = check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const raw).cast(), length) });
    match done {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        other => other.map(drop),
    }
}

/// listen(2) for as many connections as the host's somaxconn allows.
pub fn listen(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::listen(fd.as_raw_fd(), libc::c_int::MAX) }).map(drop)
}

/// The port of a connection's peer; an error if there is none.
pub fn peer_port(fd: BorrowedFd<'_>) -> io::Result<u16> {
    // The port is at the same offset in both kinds of addresses.
    // SAFETY: all zeros is a valid sockaddr_in6; both outlive the call, which writes at most `length` bytes.
    unsafe {
        let mut raw: libc::sockaddr_in6 = mem::zeroed();
        let mut length = mem::size_of_val(&raw) as libc::socklen_t;
        check(libc::getpeername(fd.as_raw_fd(), (&raw mut raw).cast(), &mut length))?;
        Ok(u16::from_be(raw.sin6_port))
    }
}

/// The port of this end of a connection.
pub fn own_port(fd: BorrowedFd<'_>) -> io::Result<u16> {
    // SAFETY: as in `peer_port`.
    unsafe {
        let mut raw: libc::sockaddr_in6 = mem::zeroed();
        let mut length = mem::size_of_val(&raw) as libc::socklen_t;
        check(libc::getsockname(fd.as_raw_fd(), (&raw mut raw).cast(), &mut length))?;
        Ok(u16::from_be(raw.sin6_port))
    }
}

/// Bytes written to a socket but not yet acknowledged (SIOCOUTQ).
pub fn unacknowledged(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut value: c_int = 0;
    // SAFETY: `value` outlives the call, which writes an int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut value) })?;
    Ok(value.unsigned_abs())
}

/// accept(2); `None` if no client has connected yet.
pub fn accept(fd: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    // SAFETY: no address is requested; the descriptor gets an owner at once.
    let got = check(unsafe {
        libc::accept4(
            fd.as_raw_fd(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
        )
    });
    match got {
        // SAFETY: accept4 has just created it.
        Ok(fd) => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// send(2); `None` if the buffer is full.
pub fn send(fd: BorrowedFd<'_>, data: &[u8]) -> io::Result<Option<usize>> {
    // SAFETY: the buffer is ours and has the length given.
    let sent = check_size(unsafe {
        libc::send(fd.as_raw_fd(), data.as_ptr().cast(), data.len(), libc::MSG_NOSIGNAL)
    });
    match sent {
        Ok(length) => Ok(Some(length)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Discards received data without copying it (MSG_TRUNC): the number of bytes, 0 at the end of the stream, `None` if
/// there was nothing.
pub fn discard(fd: BorrowedFd<'_>, most: usize) -> io::Result<Option<usize>> {
    // SAFETY: MSG_TRUNC on TCP writes nothing, so the null buffer is never touched; see tcp(7).
    let got = check_size(unsafe {
        libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), most, libc::MSG_TRUNC | libc::MSG_DONTWAIT)
    });
    match got {
        Ok(length) => Ok(Some(length)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Receives a datagram: its length, `None` if there was none.
pub fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: the buffer is ours and has the length given.
    let got = check_size(unsafe {
        libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT)
    });
    match got {
        Ok(length) => Ok(Some(length)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Receives a datagram from a socket with IP_RECVTOS or IPV6_RECVTCLASS: its length and the octet with its ECN bits;
/// `None` if there was none.
pub fn receive_marked(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<(usize, u8)>> {
    let mut tos = 0;
    // SAFETY: every pointer is to memory of ours that outlives the call and has the size given. Only control messages
    // that the kernel wrote are read, with the macros for that.
    let got = unsafe {
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let mut control = [0_u64; 8];
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&control) as _;
        let got = check_size(libc::recvmsg(fd.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT));
        if got.is_ok() {
            let mut next = libc::CMSG_FIRSTHDR(&raw const message);
            while let Some(header) = next.as_ref() {
                match (header.cmsg_level, header.cmsg_type) {
                    (libc::IPPROTO_IP, libc::IP_TOS) => tos = *libc::CMSG_DATA(next),
                    // A 32-bit number that may be unaligned.
                    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                        tos = libc::CMSG_DATA(next).cast::<c_int>().read_unaligned() as u8;
                    }
                    _ => {}
                }
                next = libc::CMSG_NXTHDR(&raw const message, next);
            }
        }
        got
    };
    match got {
        Ok(length) => Ok(Some((length, tos))),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Datagrams dropped because a socket's buffer was full (SO_MEMINFO).
pub fn dropped(fd: BorrowedFd<'_>) -> io::Result<u32> {
    /// Index of SK_MEMINFO_DROPS, and the largest number of values so far.
    const DROPS: usize = 8;
    let mut values = [0_u32; 16];
    let mut length = mem::size_of_val(&values) as libc::socklen_t;
    // SAFETY: both outlive the call, which writes at most `length` bytes.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &mut length,
        )
    })?;
    Ok(values[DROPS])
}

/// Ends sending (SHUT_WR).
pub fn shutdown_write(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_WR) }).map(drop)
}

/// setsockopt(2) with an int.
pub fn set_option(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    set(fd, level, name, &value)
}

/// setsockopt(2) with a 64-bit number.
pub fn set_long_option(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: u64) -> io::Result<()> {
    set(fd, level, name, &value)
}

fn set<T: Copy>(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` outlives the call and has the size given.
    check(unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const *value).cast::<c_void>(), length)
    })
    .map(drop)
}

/// The pending error of a socket (SO_ERROR); 0 if none.
pub fn pending_error(fd: BorrowedFd<'_>) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut length = mem::size_of::<c_int>() as libc::socklen_t;
    // SAFETY: both outlive the call, which writes at most `length` bytes.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut value).cast(),
            &mut length,
        )
    })?;
    Ok(value)
}

/// A number that identifies a socket on this machine during its lifetime (SO_COOKIE).
pub fn cookie(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut value: u64 = 0;
    let mut length = mem::size_of::<u64>() as libc::socklen_t;
    // SAFETY: both outlive the call, which writes at most `length` bytes.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_COOKIE,
            (&raw mut value).cast(),
            &mut length,
        )
    })?;
    Ok(value)
}

/// Sets a socket's congestion control by its kernel name.
pub fn set_congestion(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    // SAFETY: the name is ours and has the length given.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Makes close(2) reset the connection and leave no state behind.
pub fn reset_on_close(fd: BorrowedFd<'_>) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: `linger` outlives the call and has the size given.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            mem::size_of::<libc::linger>() as libc::socklen_t,
        )
    })
    .map(drop)
}
