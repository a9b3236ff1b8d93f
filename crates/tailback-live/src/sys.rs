//! System calls, each wrapped once so that the rest of the crate is safe code.
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

/// Is our standard input a terminal, and we in front of it?
pub fn has_terminal() -> bool {
    // SAFETY: no pointers.
    unsafe { libc::tcgetpgrp(0) == libc::getpgrp() }
}

/// Come to the front of our terminal again, after a program that stood there.
pub fn take_terminal() {
    // SAFETY: the disposition that is put back is the one the first call returned; nothing else is pointed to.
    unsafe {
        let before = libc::signal(libc::SIGTTOU, libc::SIG_IGN);
        libc::tcsetpgrp(0, libc::getpgrp());
        libc::signal(libc::SIGTTOU, before);
    }
}

/// Kill a process.
pub fn kill(process: u32) {
    // SAFETY: no pointers. One that is gone is what we want.
    unsafe {
        libc::kill(process as i32, libc::SIGKILL);
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

/// A poll entry that waits until `fd` is readable.
pub fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Ask for the scheduler's real-time class for this thread, and for exact timers; false if it was refused. When it
/// is not in that class it goes before other threads as far as ordinary ones can.
pub fn become_punctual() -> bool {
    exact_timers();
    go_first();
    set_realtime(true)
}

/// Go before other threads as far as ordinary ones can.
pub fn go_first() {
    // SAFETY: no pointers. Zero is the calling thread. Without the right to it, it stays as it is.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, -20);
    }
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

/// Timer ticks a second the running kernel was built with: its coarse clock steps once a tick.
pub fn ticks_a_second() -> u64 {
    let mut step = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock is one of the kernel's own, and the place is ours.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut step) };
    1_000_000_000 / (step.tv_nsec as u64).max(1)
}
