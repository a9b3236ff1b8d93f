//! The two ends of a connection: what their application has asked for, and moving the bytes.
//!
//! Payload is zeros, and is thrown away uncopied at the other end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use tailback_core::time::{Bytes, Time};
use tailback_core::traffic::{Connection, Side};

use crate::sys::{self, TcpInfo};

/// Written at once.
const CHUNK: usize = 64 * 1024;
/// Read at once.
const MOUTHFUL: usize = 1 << 20;
/// Linux' numbers of connection states.
const ESTABLISHED: u8 = 1;
const CLOSED: u8 = 7;

/// One end of a connection.
#[derive(Debug)]
pub struct End {
    /// Its socket, from the time there is one.
    pub socket: Option<Arc<OwnedFd>>,
    /// Bytes still to be written; `None`: without limit.
    pub unsent: Option<Bytes>,
    /// Finish once everything is written.
    pub closes: bool,
    /// Its application was notified that it is established.
    pub is_established: bool,
    /// Payload received.
    pub received: Bytes,
    /// Its application wants to hear of this many.
    pub mark: Bytes,
    /// Its application wants to hear that all was acknowledged.
    pub wants_drained: bool,
    /// Its application asked to be called then.
    pub call_at: Time,
    /// Its application was notified that the peer finished.
    pub has_reported: bool,
    /// Its application was notified that it is over.
    pub is_over: bool,
    written: Bytes,
    has_shut: bool,
    peer_finished: bool,
}

impl End {
    fn new(socket: Option<Arc<OwnedFd>>) -> Self {
        End {
            socket,
            unsent: Some(0),
            closes: false,
            is_established: false,
            received: 0,
            mark: Bytes::MAX,
            wants_drained: false,
            call_at: Time::NEVER,
            has_reported: false,
            is_over: false,
            written: 0,
            has_shut: false,
            peer_finished: false,
        }
    }

    /// Give the kernel what it takes, and take what it has.
    pub fn move_bytes(&mut self) -> io::Result<()> {
        static NOTHING: [u8; CHUNK] = [0; CHUNK];
        let Some(socket) = &self.socket else { return Ok(()) };
        let socket = socket.as_fd();
        while self.unsent != Some(0) && !self.has_shut {
            let most = self.unsent.map_or(CHUNK, |left| CHUNK.min(usize::try_from(left).unwrap_or(CHUNK)));
            let Some(sent) = sys::send(socket, &NOTHING[..most])? else { break };
            self.written += sent as Bytes;
            if let Some(left) = &mut self.unsent {
                *left -= sent as Bytes;
            }
        }
        if self.closes && self.unsent == Some(0) && !self.has_shut {
            sys::shutdown_write(socket)?;
            self.has_shut = true;
        }
        while !self.peer_finished {
            match sys::discard(socket, MOUTHFUL)? {
                None => break,
                Some(0) => self.peer_finished = true,
                Some(length) => self.received += length as Bytes,
            }
        }
        Ok(())
    }

    /// Has the peer finished, unknown to the application?
    pub fn has_news_of_peer(&self) -> bool {
        self.peer_finished && !self.has_reported
    }

    /// Are both directions finished, as far as the sockets' callers are concerned?
    pub fn is_closing(&self) -> bool {
        self.has_shut && self.peer_finished
    }

    /// Has the peer acknowledged all that was written?
    pub fn is_drained(&self) -> io::Result<bool> {
        let Some(socket) = &self.socket else { return Ok(false) };
        Ok(self.unsent == Some(0) && sys::unacknowledged(socket.as_fd())? == 0)
    }

    /// What the kernel says of it; nothing if it has no socket.
    pub fn info(&self) -> Option<TcpInfo> {
        sys::tcp_info(self.socket.as_ref()?.as_fd()).ok()
    }

    /// Is the kernel done with it, the last acknowledgement included?
    pub fn is_closed(&self) -> bool {
        self.is_closing() && self.info().is_none_or(|info| info.state == CLOSED)
    }

    /// Of its payload, what was acknowledged. The kernel's count includes the SYN and the FIN.
    pub fn acked(&self, info: &TcpInfo) -> Bytes {
        info.bytes_acked.min(self.written)
    }

    /// Has a connection that was asked for come about? An error if it never will.
    pub fn has_connected(&self) -> io::Result<bool> {
        let Some(socket) = &self.socket else { return Ok(false) };
        if sys::tcp_info(socket.as_fd())?.state == ESTABLISHED {
            return Ok(true);
        }
        match sys::pending_error(socket.as_fd())? {
            // One that is past ESTABLISHED already was there.
            0 => Ok(sys::peer_port(socket.as_fd()).is_ok()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    /// Whatever is under way is cut off, so that nothing of it keeps the host alive.
    pub fn cut_off(&self) {
        if let Some(socket) = &self.socket {
            let _ = sys::reset_on_close(socket.as_fd());
        }
    }
}

/// A connection: its client's end and its server's.
#[derive(Debug)]
pub struct Pair {
    /// In order of opening; distinguishes it from others of its number.
    pub serial: u64,
    /// Which of the flow's congestion controls it uses.
    pub turn: u32,
    /// The client's port.
    pub port: u16,
    /// The ends.
    pub ends: [End; 2],
    /// The row of the requests table that waits for an answer.
    pub row: Option<usize>,
}

impl Pair {
    /// A connection that the client has just asked for.
    pub fn new(serial: u64, turn: u32, port: u16, client: Arc<OwnedFd>) -> Self {
        Pair { serial, turn, port, ends: [End::new(Some(client)), End::new(None)], row: None }
    }
}

/// A connection's end, in 64 bits: side, number and the low bits of the serial.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Token(pub u64);

const NUMBER_BITS: u32 = 24;

impl Token {
    /// The end at `side` of the connection of this number and serial.
    pub fn new(serial: u64, connection: Connection, side: Side) -> Self {
        Token(serial << (NUMBER_BITS + 1) | u64::from(connection) << 1 | u64::from(side == Side::Server))
    }
    /// Number and side.
    pub fn place(self) -> (Connection, Side) {
        let side = if self.0 & 1 == 1 { Side::Server } else { Side::Client };
        ((self.0 >> 1 & ((1 << NUMBER_BITS) - 1)) as Connection, side)
    }
}

/// The index of a side in arrays of two.
pub fn index(side: Side) -> usize {
    usize::from(side == Side::Server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_identifies_an_end_and_its_generation() {
        let token = Token::new(9, 1_000_000, Side::Server);
        assert_eq!(token.place(), (1_000_000, Side::Server));
        assert_ne!(token, Token::new(10, 1_000_000, Side::Server));
        assert_eq!(Token::new(0, 0, Side::Client).place(), (0, Side::Client));
    }
}
