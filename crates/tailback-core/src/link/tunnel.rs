//! The service of a tunnel link: another flow's connection carries its packets as a stream (law in `medium/tunnel.rs`).

use super::api::Watch;
use super::interface::Interface;
use super::serve::Serve;
use crate::medium::tunnel::TunnelStream;
use crate::packet::Packet;
use crate::queue::{Backlog, Fate, QueueDiscipline};
use crate::time::{Bytes, Duration, Time};

/// One direction of a tunnel.
#[derive(Clone, Debug)]
pub struct Tunnel {
    pub stream: TunnelStream,
    /// The packet that the tunnel's process holds because the socket has no room for it.
    waiting: Option<Packet>,
    /// Since when the process has been blocked; [`Time::NEVER`] if it holds no packet.
    blocked_at: Time,
}

impl Tunnel {
    pub fn new(stream: TunnelStream) -> Self {
        Tunnel { stream, waiting: None, blocked_at: Time::NEVER }
    }

    /// Moves packets to the stream, whose socket has `room` bytes left. If `is_drained`, it accepts one packet of any
    /// size. Returns the bytes to write.
    pub fn write(
        &mut self,
        of: &mut Interface,
        mut room: Bytes,
        mut is_drained: bool,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) -> Bytes {
        let now = of.now;
        let mut written = 0;
        while let Some(packet) = self.waiting.take().or_else(|| of.take(now, fate, watch)) {
            let frame = self.stream.frame_bytes(&packet);
            if frame > room && !is_drained {
                self.blocked_at = self.blocked_at.min(now);
                self.waiting = Some(packet);
                break;
            }
            (room, is_drained) = (room.saturating_sub(frame), false);
            written += frame;
            self.stream.write(packet);
        }
        if self.waiting.is_none() && self.blocked_at != Time::NEVER {
            let since = std::mem::replace(&mut self.blocked_at, Time::NEVER);
            of.busy += now.since(since);
        }
        of.queue.on_service(self.waiting.map_or(0, |packet| packet.bytes));
        of.note_backlog(now);
        written
    }

    /// `delivered` bytes of the stream have arrived in order: releases the packets that are complete.
    pub fn read(&mut self, of: &mut Interface, delivered: Bytes, fate: &mut Fate, watch: &mut impl Watch) {
        while let Some(packet) = self.stream.read(delivered) {
            let now = of.now;
            of.on_departure(&packet, watch);
            of.send(packet, now, now + of.delay, fate, watch);
        }
    }
}

impl Serve for Tunnel {
    /// The packet that waits for room, and the packets in the stream.
    fn between(&self) -> Backlog {
        let inside = self.stream.inside();
        Backlog {
            packets: u32::from(self.waiting.is_some()) + inside.packets,
            bytes: self.waiting.map_or(0, |packet| Bytes::from(packet.bytes)) + inside.bytes,
        }
    }

    fn in_service(&self, _of: &Interface) -> u32 {
        self.waiting.map_or(0, |packet| packet.bytes)
    }

    /// Total time for which its process has been blocked.
    fn busy(&self, of: &Interface) -> Duration {
        match self.blocked_at {
            Time::NEVER => of.busy,
            since => of.busy + of.now.since(since),
        }
    }
}
