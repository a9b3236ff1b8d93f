//! The two ends of a connection: what their application has requested, and moving the bytes.
//!
//! The payload is zeros; the receiver discards it without copying it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use tailback_core::time::{Bytes, Time};
use tailback_core::traffic::{Connection, Side};

use crate::sys::{self, TcpInfo};

/// Most bytes per write.
const CHUNK: usize = 64 * 1024;
/// Most bytes per read.
const MOUTHFUL: usize = 1 << 20;
/// Linux's numbers of the TCP states.
const ESTABLISHED: u8 = 1;
const CLOSED: u8 = 7;

/// One end of a connection.
#[derive(Debug)]
pub struct End {
    /// Its socket, once there is one.
    pub socket: Option<Arc<OwnedFd>>,
    /// Bytes still to write; `None` for no limit.
    pub unsent: Option<Bytes>,
    /// Send a FIN once everything is written.
    pub closes: bool,
    /// Whether the application knows that the connection is established.
    pub is_established: bool,
    /// Payload received.
    pub received: Bytes,
    /// The application wants a cue when this much has been received.
    pub mark: Bytes,
    /// Whether the application wants a cue when all data is acknowledged.
    pub wants_drained: bool,
    /// Time at which the application asked to be called.
    pub call_at: Time,
    /// Whether the application knows that the peer has finished.
    pub has_reported: bool,
    /// Whether the application knows that the connection is over.
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

    /// Writes what the kernel accepts and reads what it holds.
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

    /// Whether the peer has finished and the application does not yet know.
    pub fn has_news_of_peer(&self) -> bool {
        self.peer_finished && !self.has_reported
    }

    /// Whether both directions are finished, as far as the socket calls show.
    pub fn is_closing(&self) -> bool {
        self.has_shut && self.peer_finished
    }

    /// Whether the peer has acknowledged everything written.
    pub fn is_drained(&self) -> io::Result<bool> {
        let Some(socket) = &self.socket else { return Ok(false) };
        Ok(self.unsent == Some(0) && sys::unacknowledged(socket.as_fd())? == 0)
    }

    /// The kernel's TCP_INFO; nothing if the end has no socket.
    pub fn info(&self) -> Option<TcpInfo> {
        sys::tcp_info(self.socket.as_ref()?.as_fd()).ok()
    }

    /// Whether the kernel has finished with the connection, including its last acknowledgement.
    pub fn is_closed(&self) -> bool {
        self.is_closing() && self.info().is_none_or(|info| info.state == CLOSED)
    }

    /// Payload of this end that was acknowledged. The kernel's count also includes SYN and FIN.
    pub fn acked(&self, info: &TcpInfo) -> Bytes {
        info.bytes_acked.min(self.written)
    }

    /// Whether a requested connection is established; an error if it never will be.
    pub fn has_connected(&self) -> io::Result<bool> {
        let Some(socket) = &self.socket else { return Ok(false) };
        if sys::tcp_info(socket.as_fd())?.state == ESTABLISHED {
            return Ok(true);
        }
        match sys::pending_error(socket.as_fd())? {
            // A connection past ESTABLISHED was established before.
            0 => Ok(sys::peer_port(socket.as_fd()).is_ok()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    /// Resets the connection, so that data in flight does not keep the host alive.
    pub fn cut_off(&self) {
        if let Some(socket) = &self.socket {
            let _ = sys::reset_on_close(socket.as_fd());
        }
    }
}

/// A connection: the client's end and the server's.
#[derive(Debug)]
pub struct Pair {
    /// Serial number in order of opening; distinguishes it from other connections with the same number.
    pub serial: u64,
    /// Index of the congestion control it uses, among the flow's.
    pub turn: u32,
    /// The client's port.
    pub port: u16,
    /// The ends.
    pub ends: [End; 2],
    /// The row in the requests table that waits for an answer.
    pub row: Option<usize>,
}

impl Pair {
    /// A connection that the client has just requested.
    pub fn new(serial: u64, turn: u32, port: u16, client: Arc<OwnedFd>) -> Self {
        Pair { serial, turn, port, ends: [End::new(Some(client)), End::new(None)], row: None }
    }
}

/// Identifies a connection's end in 64 bits: side, number and the low bits of the serial.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Token(pub u64);

const NUMBER_BITS: u32 = 24;

impl Token {
    /// For the end at `side` of the connection with this number and serial.
    pub fn new(serial: u64, connection: Connection, side: Side) -> Self {
        Token(serial << (NUMBER_BITS + 1) | u64::from(connection) << 1 | u64::from(side == Side::Server))
    }
    /// Number and side.
    pub fn place(self) -> (Connection, Side) {
        let side = if self.0 & 1 == 1 { Side::Server } else { Side::Client };
        ((self.0 >> 1 & ((1 << NUMBER_BITS) - 1)) as Connection, side)
    }
}

/// The index of a side in two-element arrays.
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
