//! A safe wrapper around epoll(7), edge-triggered, to wait for many sockets at once.
#![allow(
    unsafe_code,
    reason = "libc's calls are raw; every wrapper below owns its pointers for the call's length"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::sys::{self, Interest};

/// Most events per call.
const MOST: usize = 256;

/// A set of sockets.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
}

impl Epoll {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the descriptor gets an owner at once.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: epoll_create1 has just created it.
        Ok(Epoll { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Reports every change at this socket as `token`. A socket leaves the set when it is closed.
    pub fn add(&self, socket: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: `event` outlives the call.
        let done = unsafe {
            libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_ADD, socket.as_raw_fd(), &mut event)
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Waits at most `timeout` for changes and puts their tokens into `tokens`.
    pub fn wait(&self, timeout: Duration, tokens: &mut Vec<u64>) -> io::Result<()> {
        tokens.clear();
        // ppoll's timeout is exact; epoll_wait's is in milliseconds.
        if !timeout.is_zero() {
            sys::wait(&[(self.fd.as_raw_fd(), Interest { read: true, write: false })], Some(timeout))?;
        }
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
        // SAFETY: the list is ours and has the length given.
        let count =
            unsafe { libc::epoll_wait(self.fd.as_raw_fd(), events.as_mut_ptr(), MOST as libc::c_int, 0) };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        tokens.extend(events[..count as usize].iter().map(|event| event.u64));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn a_change_is_reported_once_by_its_token() {
        let (mut near, far) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let epoll = Epoll::new().expect("a set");
        let mut tokens = Vec::new();
        epoll.add(far.as_fd(), 7).expect("added");
        epoll.wait(Duration::ZERO, &mut tokens).expect("asked");
        assert_eq!(tokens, [7], "it can be written to");
        epoll.wait(Duration::from_millis(1), &mut tokens).expect("asked");
        assert!(tokens.is_empty());
        near.write_all(b"x").expect("written");
        epoll.wait(Duration::from_secs(5), &mut tokens).expect("asked");
        assert_eq!(tokens, [7]);
    }
}
