//! A tunnel of IP over TCP: a connection of its own carries the packets of its links.
//!
//! Law: packets wait in the queue of the tunnel's interface. A process takes one when the socket of the outer
//! connection has room for it, and writes its length and its bytes to the stream; while the socket is full the process
//! holds that packet and takes none, so the queue fills and drops. At the other end a packet comes out when the last
//! of its bytes has arrived in order: what the outer connection retransmits holds up everything behind it.
//!
//! A link of this medium is one direction of the tunnel. Its `flow` names the outer connection, a flow of the
//! application `tunnel` between the same two nodes, with a route, stack, buffers and congestion control of its own; the
//! engine passes bytes between the two. A link's `busy` is the time its process was held up.
//!
//! Source: VTun 2.6 to 3.0 over TCP (two bytes of length, blocking writes, TCP_NODELAY); the tun device's interface
//! queue, 50 packets in FreeBSD (ifq_maxlen), 500 in Linux (txqueuelen).
//!
//! Differs from the source:
//! - A frame enters the socket whole; a blocking write fills what room there is.
//! - The process works on both directions at once; VTun's one loop reads nothing while a write blocks.
//! - No compression, no encryption, no keep-alive frames (four bytes every 30 s of silence).
//! - ECN marks of the outer packets are not copied to the inner ones: a stream has no such place.

use std::collections::VecDeque;

use super::registry::{Registered, tunnel};
use crate::link::{Link, Watch};
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec};
use crate::queue::{Backlog, Fate, QueueDiscipline};
use crate::scenario::{LinkSpec, ScenarioError};
use crate::time::{Bytes, Time};

/// The application of the outer connection.
pub const APPLICATION: &str = "tunnel";

/// One direction of a tunnel: packets in the stream, and how they get there.
#[derive(Clone, Debug)]
pub struct Tunnel {
    header: u32,
    /// Packets in the stream, each with the offset behind its last byte.
    inside: VecDeque<(Bytes, Packet)>,
    inside_bytes: Bytes,
    /// Bytes written to the stream.
    written: Bytes,
    /// When the process found the socket full; [`Time::NEVER`] if it is not held up.
    blocked_at: Time,
    /// The end that sends the stream, by its address; `None` while there is no connection.
    pub(crate) end: Option<u32>,
}

impl Registered for Tunnel {
    const CARD: Card = Card {
        name: "tunnel",
        title: "Tunnel of IP over TCP",
        law: "a packet enters the outer stream when its socket has room, and leaves it in order",
        source: "VTun over TCP: two bytes of length, blocking writes",
        differs: &[
            "A frame enters the socket whole",
            "The process works on both directions at once",
            "No compression, encryption or keep-alive",
            "ECN marks of the outer packets are not copied",
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
}

impl Tunnel {
    /// The direction that `given` describes.
    pub fn new(given: &Checked<'_>) -> Self {
        Tunnel {
            header: given.whole("header_bytes") as u32,
            inside: VecDeque::new(),
            inside_bytes: 0,
            written: 0,
            blocked_at: Time::NEVER,
            end: None,
        }
    }

    /// The tunnel of link number `index`, if its medium is one.
    pub fn build(spec: &LinkSpec, index: usize) -> Result<Option<Self>, ScenarioError> {
        let Some(medium) = &spec.medium else { return Ok(None) };
        let refuse = |field: &str, value: String, problem: &str, fix: &str| {
            let field = format!("links[{index}].{field}");
            Err(ScenarioError { field, value, problem: problem.into(), fix: fix.into() })
        };
        let tunnel = tunnel(medium, index)?;
        match (&tunnel, &medium.flow) {
            (Some(_), None) => refuse(
                "medium.flow",
                "nothing".into(),
                "a tunnel needs a connection that carries its packets",
                "Name the flow whose application is tunnel",
            ),
            (None, Some(flow)) => refuse(
                "medium.flow",
                format!("\"{flow}\""),
                &format!("no flow carries the packets of {}", medium.name),
                "Leave the flow out",
            ),
            (Some(_), Some(_)) if spec.queue.discipline == "token_bucket" => refuse(
                "queue.discipline",
                format!("\"{}\"", spec.queue.discipline),
                "a shaper cannot hold back packets for which the socket has room",
                "Put the shaper on a link of its own before this one",
            ),
            _ => Ok(tunnel),
        }
    }

    /// A new connection carries the stream from here.
    pub(crate) fn open(&mut self, end: u32) {
        assert!(self.inside.is_empty(), "the last connection was over, but its stream was not");
        (self.end, self.written) = (Some(end), 0);
    }

    /// What is in the stream.
    pub(crate) fn inside(&self) -> Backlog {
        Backlog { packets: self.inside.len() as u32, bytes: self.inside_bytes }
    }
}

impl Link {
    fn tunnel_mut(&mut self) -> &mut Tunnel {
        self.tunnel.as_mut().expect("a tunnel's link")
    }

    /// As [`Link::push`]; what the socket has room for still has to be moved there.
    pub(crate) fn push_tunnel(
        &mut self,
        mut packet: Packet,
        now: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) {
        self.turn_to(now);
        self.count.arrived += 1;
        self.count.arrived_bytes += Bytes::from(packet.bytes);
        packet.enqueued = now;
        self.enqueue(packet, now, fate, watch);
        self.note_backlog(now);
        self.check();
    }

    /// Move packets to a stream whose socket has `room` bytes left, or that `is_drained`: then it takes one however
    /// large. Returns the bytes to write.
    pub(crate) fn write_tunnel(
        &mut self,
        mut room: Bytes,
        mut is_drained: bool,
        now: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) -> Bytes {
        self.turn_to(now);
        let before = self.tunnel_mut().written;
        while let Some(packet) = self.serving.take().or_else(|| self.take(now, fate, watch)) {
            let tunnel = self.tunnel_mut();
            let frame = Bytes::from(packet.bytes + tunnel.header);
            if frame > room && !is_drained {
                tunnel.blocked_at = tunnel.blocked_at.min(now);
                self.serving = Some(packet);
                break;
            }
            (room, is_drained) = (room.saturating_sub(frame), false);
            tunnel.written += frame;
            tunnel.inside.push_back((tunnel.written, packet));
            tunnel.inside_bytes += Bytes::from(packet.bytes);
        }
        let waiting = self.serving.map_or(0, |packet| packet.bytes);
        let tunnel = self.tunnel_mut();
        let written = tunnel.written - before;
        if waiting == 0 && tunnel.blocked_at != Time::NEVER {
            let since = std::mem::replace(&mut tunnel.blocked_at, Time::NEVER);
            self.busy += now.since(since);
        }
        self.queue.on_service(waiting);
        self.note_backlog(now);
        self.check();
        written
    }

    /// So many bytes of the stream have arrived in order: let out the packets that are complete.
    pub(crate) fn read_tunnel(
        &mut self,
        delivered: Bytes,
        now: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) {
        self.turn_to(now);
        while let Some(&(end, packet)) = self.tunnel_mut().inside.front() {
            if end > delivered {
                break;
            }
            let tunnel = self.tunnel_mut();
            tunnel.inside.pop_front();
            tunnel.inside_bytes -= Bytes::from(packet.bytes);
            self.depart(packet, now, fate, watch);
        }
        self.check();
    }

    /// Nothing happens in a tunnel between calls.
    pub(crate) fn turn_to(&mut self, now: Time) {
        assert!(self.now <= now, "link {}: time ran back from {:?} to {now:?}", self.name(), self.now);
        self.now = now;
    }

    /// How long its process has been held up until the last call.
    pub(crate) fn blocked(&self, tunnel: &Tunnel) -> crate::time::Duration {
        match tunnel.blocked_at {
            Time::NEVER => self.busy,
            since => self.busy + self.now.since(since),
        }
    }
}
