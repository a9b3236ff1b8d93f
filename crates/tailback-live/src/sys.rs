//! Safe wrappers of the system calls that the crate uses.
#![allow(
    unsafe_code,
    reason = "libc's calls are raw; every wrapper below owns its pointers for the call's length"
)]

mod machine;
mod sockets;
mod tcp_info;
mod tun;

use std::ffi::c_int;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

pub use machine::*;
pub use sockets::*;
pub use tcp_info::{TcpInfo, tcp_info};
pub use tun::{Framed, Offload, Tun};

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

/// Processor time of the calling thread, in nanoseconds.
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

/// Whether we are root (effective user ID).
pub fn is_root() -> bool {
    // SAFETY: no arguments.
    unsafe { libc::geteuid() == 0 }
}

/// Moves the calling thread into a new, nameless network namespace.
pub fn unshare_network() -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Moves the calling thread into this network namespace.
pub fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Send `signal` to a process group.
pub fn signal_group(group: u32, signal: c_int) {
    // SAFETY: no pointers. A group that no longer exists is fine.
    unsafe {
        libc::kill(-(group as i32), signal);
    }
}

/// Whether standard input is a terminal with us in the foreground.
pub fn has_terminal() -> bool {
    // SAFETY: no pointers.
    unsafe { libc::tcgetpgrp(0) == libc::getpgrp() }
}

/// Returns to the foreground of our terminal after a program that was there.
pub fn take_terminal() {
    // SAFETY: the signal disposition restored is the one that the first call returned; there are no other pointers.
    unsafe {
        let before = libc::signal(libc::SIGTTOU, libc::SIG_IGN);
        libc::tcsetpgrp(0, libc::getpgrp());
        libc::signal(libc::SIGTTOU, before);
    }
}

/// Kill a process.
pub fn kill(process: u32) {
    // SAFETY: no pointers. A process that no longer exists is fine.
    unsafe {
        libc::kill(process as i32, libc::SIGKILL);
    }
}

/// Reads a packet; `None` if there is none.
pub fn read_packet(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: the buffer is ours and has the length given.
    let got = check_size(unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) });
    match got {
        Ok(length) => Ok(Some(length)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// The events that [`wait`] waits for at one descriptor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interest {
    /// Wake when it is readable.
    pub read: bool,
    /// Wake when it is writable.
    pub write: bool,
}

/// Waits until a descriptor is ready or the timeout is over; true if one is ready.
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

/// A poll entry that waits until `fd` is readable.
pub fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Requests the real-time scheduling class and exact timers for this thread; false if the class was refused. Outside
/// that class the thread gets the highest ordinary priority.
pub fn become_punctual() -> bool {
    exact_timers();
    go_first();
    set_realtime(true)
}

/// Gives the thread the highest ordinary priority.
pub fn go_first() {
    // SAFETY: no pointers. Zero is the calling thread. Without the permission its priority stays as it is.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, -20);
    }
}

/// Puts this thread into the real-time scheduling class, or back; false if that was refused.
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

/// Restricts the calling thread, and threads it spawns later, to these processors.
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

/// Raises this process's limit of open files to the maximum allowed; returns it.
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

/// Timer frequency of the running kernel (CONFIG_HZ): its coarse clock advances once per tick.
pub fn ticks_a_second() -> u64 {
    let mut step = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists in every kernel, and the memory is ours.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut step) };
    1_000_000_000 / (step.tv_nsec as u64).max(1)
}
