//! A tunnel of IP over TCP: a connection of its own carries the packets of its links.
//!
//! A link of this medium is one direction of the tunnel. Its `flow` names the outer connection: a flow of the
//! application `tunnel` between the same two nodes, with a route, stack, buffers and congestion control of its own. The
//! engine passes bytes between the two. A link's `busy` is the time for which its process was blocked.

use std::collections::VecDeque;

use super::Registered;
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec};
use crate::queue::Backlog;
use crate::time::Bytes;

const CARD: Card = Card {
    name: "tunnel",
    title: "Tunnel of IP over TCP",
    law: "packets wait in the queue of the tunnel's interface. A process takes one when the socket of the \
          outer connection has room for it, and writes its length and its bytes to the stream. While the \
          socket is full the process holds that packet and takes none, so the queue fills and drops. At the \
          other end a packet comes out when the last of its bytes has arrived in order: what the outer \
          connection retransmits holds up everything behind it",
    source: "VTun 2.6 to 3.0 over TCP (two bytes of length, blocking writes, TCP_NODELAY); the tun device's \
          interface queue, 50 packets in FreeBSD (ifq_maxlen), 500 in Linux (txqueuelen)",
    differs: &[
        "A frame enters the socket whole; a blocking write fills what room there is",
        "The process works on both directions at once; VTun's one loop reads nothing while a write blocks",
        "No compression, no encryption, no keep-alive frames (four bytes every 30 s of silence)",
        "ECN marks of the outer packets are not copied to the inner ones: a stream has no such place",
    ],
    live_twin: None,
    params: &[ParamSpec::whole(
        "header_bytes",
        "B",
        2,
        (0, 100),
        "Bytes the tunnel adds to each packet in the stream.",
    )],
};

/// The stream of one direction: the packets in it, and where each ends.
#[derive(Clone, Debug)]
pub struct TunnelStream {
    header: u32,
    /// Packets in the stream, each with the offset after its last byte.
    inside: VecDeque<(Bytes, Packet)>,
    inside_bytes: Bytes,
    /// Bytes written to the stream.
    written: Bytes,
    /// Address of the end that sends the stream; `None` without a connection.
    pub(crate) end: Option<u32>,
}

impl Registered for TunnelStream {
    const CARD: Card = CARD;
}

impl TunnelStream {
    /// Builds the direction from its parameters.
    pub fn new(given: &Checked<'_>) -> Self {
        TunnelStream {
            header: given.whole("header_bytes") as u32,
            inside: VecDeque::new(),
            inside_bytes: 0,
            written: 0,
            end: None,
        }
    }

    /// A new connection carries the stream from now on.
    pub(crate) fn open(&mut self, end: u32) {
        assert!(self.inside.is_empty(), "the last connection was over, but its stream was not");
        (self.end, self.written) = (Some(end), 0);
    }

    /// Bytes of `packet` in the stream.
    pub(crate) fn frame_bytes(&self, packet: &Packet) -> Bytes {
        Bytes::from(packet.bytes + self.header)
    }

    /// Appends `packet` to the stream.
    pub(crate) fn write(&mut self, packet: Packet) {
        self.written += self.frame_bytes(&packet);
        self.inside.push_back((self.written, packet));
        self.inside_bytes += Bytes::from(packet.bytes);
    }

    /// Takes the next packet that is complete once `delivered` bytes of the stream have arrived in order.
    pub(crate) fn read(&mut self, delivered: Bytes) -> Option<Packet> {
        let &(end, packet) = self.inside.front()?;
        if end > delivered {
            return None;
        }
        self.inside.pop_front();
        self.inside_bytes -= Bytes::from(packet.bytes);
        Some(packet)
    }

    /// Packets in the stream.
    pub(crate) fn inside(&self) -> Backlog {
        Backlog { packets: self.inside.len() as u32, bytes: self.inside_bytes }
    }
}
