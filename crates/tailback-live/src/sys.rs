//! System calls, each wrapped once so that the rest of the crate is safe code.
#![allow(
    unsafe_code,
    reason = "libc's calls are raw; every wrapper below owns its pointers for the call's length"
)]

use std::ffi::{CString, c_int, c_void};
use std::io;
use std::mem;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn check_size(result: isize) -> io::Result<usize> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as usize) }
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// How long the calling thread has run, in nanoseconds.
pub fn thread_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    // SAFETY: `now` outlives the call, which fills it.
    let now = unsafe {
        let mut now: libc::timespec = mem::zeroed();
        libc::clock_gettime(clock, &mut now);
        now
    };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Are we root (effective user id)?
pub fn is_root() -> bool {
    // SAFETY: no arguments.
    unsafe { libc::geteuid() == 0 }
}

/// Move the calling thread into a new, nameless network namespace.
pub fn unshare_network() -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Move the calling thread into this network namespace.
pub fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Send `signal` to a process group.
pub fn signal_group(group: u32, signal: c_int) {
    // SAFETY: no pointers. A group that is gone is what we want.
    unsafe {
        libc::kill(-(group as i32), signal);
    }
}

/// Kill a process.
pub fn kill(process: u32) {
    // SAFETY: no pointers. One that is gone is what we want.
    unsafe {
        libc::kill(process as i32, libc::SIGKILL);
    }
}

/// A TUN device called `name` in the calling thread's namespace: IP packets without a header. It is gone when
/// the descriptor is closed.
pub fn open_tun(name: &str) -> io::Result<OwnedFd> {
    let path = CString::new("/dev/net/tun")?;
    // SAFETY: `path` and `request` outlive the calls; the descriptor is owned at once.
    unsafe {
        let fd = check(libc::open(path.as_ptr(), libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC))?;
        let fd = OwnedFd::from_raw_fd(fd);
        let mut request: libc::ifreq = mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
        check(libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF as _, &mut request))?;
        Ok(fd)
    }
}

/// Read a packet; `None` if there is none.
pub fn read_packet(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: the buffer is ours and as long as we say.
    let got = check_size(unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) });
    match got {
        Ok(length) => Ok(Some(length)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Write a packet.
pub fn write_packet(fd: BorrowedFd<'_>, packet: &[u8]) -> io::Result<()> {
    // SAFETY: the buffer is ours and as long as we say.
    check_size(unsafe { libc::write(fd.as_raw_fd(), packet.as_ptr().cast(), packet.len()) }).map(drop)
}

/// What [`wait`] waits for at one descriptor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interest {
    /// Wake when it can be read.
    pub read: bool,
    /// Wake when it can be written.
    pub write: bool,
}

/// Wait until a descriptor is ready or the time is over; true if one is ready.
pub fn wait(fds: &[(RawFd, Interest)], timeout: Option<Duration>) -> io::Result<bool> {
    let mut polls: Vec<libc::pollfd> = fds
        .iter()
        .map(|(fd, interest)| libc::pollfd {
            fd: *fd,
            events: if interest.read { libc::POLLIN } else { 0 }
                | if interest.write { libc::POLLOUT } else { 0 },
            revents: 0,
        })
        .collect();
    wait_prepared(&mut polls, timeout)
}

/// [`wait`] on a prepared list, for loops that must not allocate.
pub fn wait_prepared(polls: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<bool> {
    let timeout = timeout.map(|span| libc::timespec {
        tv_sec: span.as_secs() as libc::time_t,
        tv_nsec: span.subsec_nanos() as libc::c_long,
    });
    let pointer = timeout.as_ref().map_or(std::ptr::null(), |timeout| timeout as *const _);
    // SAFETY: list and timeout outlive the call.
    let ready = check(unsafe {
        libc::ppoll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, pointer, std::ptr::null())
    });
    match ready {
        Ok(count) => Ok(count > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

/// Readable?
pub fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Ask for the scheduler's real-time class for this thread, and for exact timers; false if it was refused. When it
/// is not in that class it goes before other threads as far as ordinary ones can.
pub fn become_punctual() -> bool {
    exact_timers();
    // SAFETY: no pointers. Zero is the calling thread.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, -20);
    }
    set_realtime(true)
}

/// Put this thread into the scheduler's real-time class, or back; false if it was refused.
pub fn set_realtime(is_realtime: bool) -> bool {
    let (class, priority) = if is_realtime { (libc::SCHED_FIFO, 10) } else { (libc::SCHED_OTHER, 0) };
    // SAFETY: `parameters` outlives the call.
    unsafe {
        let mut parameters: libc::sched_param = mem::zeroed();
        parameters.sched_priority = priority;
        libc::sched_setscheduler(0, class | libc::SCHED_RESET_ON_FORK, &parameters) == 0
    }
}

/// Processors by number, ascending.
pub type Processors = Vec<usize>;

/// The processors the calling thread may run on.
pub fn processors() -> io::Result<Processors> {
    // SAFETY: all zeros is an empty set; it outlives the call, which fills it.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        check(libc::sched_getaffinity(0, mem::size_of_val(&set), &mut set))?;
        Ok((0..libc::CPU_SETSIZE as usize).filter(|&one| libc::CPU_ISSET(one, &set)).collect())
    }
}

/// Keep the calling thread, and what it spawns from now on, on these processors.
pub fn stay_on(processors: &[usize]) -> io::Result<()> {
    // SAFETY: all zeros is an empty set; it outlives the call.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        for &one in processors {
            libc::CPU_SET(one, &mut set);
        }
        check(libc::sched_setaffinity(0, mem::size_of_val(&set), &set)).map(drop)
    }
}

/// Exact timers for this thread (the default allows 50 µs of slack).
pub fn exact_timers() {
    // SAFETY: no pointers.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
    }
}

// ---------------------------------------------------------------- sockets

/// A non-blocking socket in the calling thread's namespace.
pub fn socket(kind: c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the descriptor is owned at once.
    unsafe {
        let fd = check(libc::socket(libc::AF_INET, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// A netlink socket for routing messages.
pub fn netlink_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the descriptor is owned at once.
    unsafe {
        let fd =
            check(libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// A netlink socket that hears of TCP connections in the calling thread's namespace when they are gone, for
/// sock_diag(7) questions too.
pub fn diagnosis_socket() -> io::Result<OwnedFd> {
    /// SKNLGRP_INET_TCP_DESTROY and SKNLGRP_INET6_TCP_DESTROY, as bits.
    const GONE: u32 = 1 | 1 << 2;
    // SAFETY: `address` outlives the calls and has the size given; the descriptor is owned at once.
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

fn address(of: SocketAddrV4) -> libc::sockaddr_in {
    // SAFETY: all zeros is a valid sockaddr_in.
    let mut raw: libc::sockaddr_in = unsafe { mem::zeroed() };
    raw.sin_family = libc::AF_INET as libc::sa_family_t;
    raw.sin_port = of.port().to_be();
    raw.sin_addr.s_addr = u32::from(*of.ip()).to_be();
    raw
}

/// bind(2).
pub fn bind(fd: BorrowedFd<'_>, to: SocketAddrV4) -> io::Result<()> {
    let raw = address(to);
    // SAFETY: `raw` outlives the call and has the size given.
    check(unsafe {
        libc::bind(fd.as_raw_fd(), (&raw const raw).cast(), mem::size_of_val(&raw) as libc::socklen_t)
    })
    .map(drop)
}

/// connect(2) on a non-blocking socket: under way is success.
pub fn connect(fd: BorrowedFd<'_>, to: SocketAddrV4) -> io::Result<()> {
    let raw = address(to);
    // SAFETY: `raw` outlives the call and has the size given.
    let done = check(unsafe {
        libc::connect(fd.as_raw_fd(), (&raw const raw).cast(), mem::size_of_val(&raw) as libc::socklen_t)
    });
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

/// The port at the other end of a connection; an error while there is none.
pub fn peer_port(fd: BorrowedFd<'_>) -> io::Result<u16> {
    // SAFETY: all zeros is a valid sockaddr_in; both outlive the call, which writes at most `length` bytes.
    unsafe {
        let mut raw: libc::sockaddr_in = mem::zeroed();
        let mut length = mem::size_of_val(&raw) as libc::socklen_t;
        check(libc::getpeername(fd.as_raw_fd(), (&raw mut raw).cast(), &mut length))?;
        Ok(u16::from_be(raw.sin_port))
    }
}

/// The port of this end.
pub fn own_port(fd: BorrowedFd<'_>) -> io::Result<u16> {
    // SAFETY: as in `peer_port`.
    unsafe {
        let mut raw: libc::sockaddr_in = mem::zeroed();
        let mut length = mem::size_of_val(&raw) as libc::socklen_t;
        check(libc::getsockname(fd.as_raw_fd(), (&raw mut raw).cast(), &mut length))?;
        Ok(u16::from_be(raw.sin_port))
    }
}

/// Bytes written to a socket and not acknowledged yet (SIOCOUTQ).
pub fn unacknowledged(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut value: c_int = 0;
    // SAFETY: `value` outlives the call, which writes an int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut value) })?;
    Ok(value.unsigned_abs())
}

/// Allow this process as many open files as it may have at all; returns how many.
pub fn raise_file_limit() -> u64 {
    // SAFETY: `limit` outlives the calls. If they fail, the limit stays what it was.
    unsafe {
        let mut limit: libc::rlimit = mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
        limit.rlim_cur
    }
}

/// accept(2); `None` if nobody has connected yet.
pub fn accept(fd: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    // SAFETY: no addresses asked for; the descriptor is owned at once.
    let got = check(unsafe {
        libc::accept4(
            fd.as_raw_fd(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
        )
    });
    match got {
        // SAFETY: accept4 has just made it.
        Ok(fd) => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// send(2); `None` if the buffer is full.
pub fn send(fd: BorrowedFd<'_>, data: &[u8]) -> io::Result<Option<usize>> {
    // SAFETY: the buffer is ours and as long as we say.
    let sent = check_size(unsafe {
        libc::send(fd.as_raw_fd(), data.as_ptr().cast(), data.len(), libc::MSG_NOSIGNAL)
    });
    match sent {
        Ok(length) => Ok(Some(length)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Throw away what has arrived, without copying it (MSG_TRUNC): the bytes, 0 at the end, `None` if nothing came.
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

/// Receive a datagram: its length, `None` if nothing came.
pub fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: the buffer is ours and as long as we say.
    let got = check_size(unsafe {
        libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT)
    });
    match got {
        Ok(length) => Ok(Some(length)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Finish sending.
pub fn shutdown_write(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_WR) }).map(drop)
}

/// setsockopt(2) with a number.
pub fn set_option(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: `value` outlives the call and has the size given.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast::<c_void>(),
            mem::size_of::<c_int>() as libc::socklen_t,
        )
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

/// A number that identifies a socket on this machine for as long as it lives (SO_COOKIE).
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

/// Timer ticks a second the running kernel was built with: its coarse clock steps once a tick.
pub fn ticks_a_second() -> u64 {
    let mut step = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock is one of the kernel's own, and the place is ours.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut step) };
    1_000_000_000 / (step.tv_nsec as u64).max(1)
}

/// Choose a socket's congestion control by the kernel's name.
pub fn set_congestion(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    // SAFETY: the name is ours and as long as we say.
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

/// What the kernel tells of a connection (linux/tcp.h, `struct tcp_info`), as far as we read it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the fields are the kernel's, in its order; tcp(7) and linux/tcp.h tell")]
pub struct TcpInfo {
    pub state: u8,
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub options: u8,
    /// Send scale in the low half, receive scale in the high one.
    pub scales: u8,
    pub flags: u8,
    pub rto_us: u32,
    pub ato_us: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub fackets: u32,
    pub last_data_sent: u32,
    pub last_ack_sent: u32,
    pub last_data_recv: u32,
    pub last_ack_recv: u32,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt_us: u32,
    pub rttvar_us: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: u32,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt_us: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub delivery_rate: u64,
    pub busy_time: u64,
    pub rwnd_limited: u64,
    pub sndbuf_limited: u64,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    pub rehash: u32,
    pub total_rto: u16,
    pub total_rto_recoveries: u16,
    pub total_rto_time: u32,
}

impl TcpInfo {
    /// From the kernel's bytes. Fields it does not have stay zero.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut info = TcpInfo::default();
        let length = bytes.len().min(mem::size_of::<TcpInfo>());
        // SAFETY: the structure is plain numbers, and no more than its size is copied.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut info).cast::<u8>(), length);
        }
        info
    }
}

/// TCP_INFO. Fields an older kernel does not have stay zero.
pub fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut info = TcpInfo::default();
    let mut length = mem::size_of::<TcpInfo>() as libc::socklen_t;
    // SAFETY: the structure is plain numbers; the call writes at most `length` bytes of it.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &mut length,
        )
    })?;
    Ok(info)
}

/// Closing this socket resets its connection and leaves nothing behind.
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
