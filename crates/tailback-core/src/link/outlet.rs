//! A link at a medium for which stations contend: frames in the air between the queue and the pipe.

use std::collections::VecDeque;

use super::api::Watch;
use super::interface::Interface;
use super::serve::Serve;
use crate::medium::access::{Access, Air, Frame, Order, Rules};
use crate::medium::registry::Shared;
use crate::packet::Packet;
use crate::queue::{Backlog, Fate, QueueDiscipline};
use crate::time::{Bytes, Time};

/// The service of a link at a channel, which decides when its packets leave.
#[derive(Clone, Debug)]
pub struct Outlet {
    access: Shared,
    frames: VecDeque<Frame>,
    /// Packets in the driver, if the station has one; they are not in frames yet.
    staged: VecDeque<Packet>,
    /// Bytes in the air and in the driver.
    bytes: Bytes,
    /// Number of its channel, its station there, and its position in that station.
    pub channel: u32,
    pub station: u32,
    pub place: u32,
    /// Station and position of the link in the reverse direction.
    pub way_back: Option<(u32, u32)>,
    /// Whether aggregates are built from a driver that the station fills from all its links.
    pub has_driver: bool,
}

impl Serve for Outlet {
    /// Packets in the air and in the driver.
    fn between(&self) -> Backlog {
        Backlog { packets: (self.frames.len() + self.staged.len()) as u32, bytes: self.bytes }
    }
}

impl Outlet {
    pub fn new(access: Shared) -> Self {
        Outlet {
            access,
            frames: VecDeque::new(),
            staged: VecDeque::new(),
            bytes: 0,
            channel: 0,
            station: 0,
            place: 0,
            way_back: None,
            has_driver: false,
        }
    }

    pub fn order(&self) -> Order {
        self.access.order()
    }

    pub fn rules(&self) -> Rules {
        self.access.rules()
    }

    /// Whether packets are queued, in the driver or in the air.
    pub fn has_something(&self, of: &Interface) -> bool {
        of.queue.backlog().packets > 0 || !self.frames.is_empty() || !self.staged.is_empty()
    }

    /// When the link may send, if it has packets but may not begin at `at`.
    pub fn stalled_until(&mut self, of: &Interface, at: Time) -> Option<Time> {
        if !self.has_something(of) {
            return None;
        }
        self.access.silent_until(at)
    }

    /// Moves packets from the queue into the air, as many as the aggregate takes. Returns the airtime, or `None` if
    /// there are no packets.
    pub fn fill_air(
        &mut self,
        of: &mut Interface,
        at: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) -> Option<Air> {
        self.access.begin(at);
        while self.access.has_room(self.frames.make_contiguous()) {
            let next = if self.has_driver { self.staged.pop_front() } else { self.take(of, at, fate, watch) };
            let Some(packet) = next else { break };
            let left = self.access.units_of(&packet);
            self.frames.push_back(Frame { packet, left, tries: 0 });
        }
        of.queue.on_service(self.bytes as u32);
        of.note_backlog(at);
        (!self.frames.is_empty()).then(|| self.access.air(self.frames.make_contiguous()))
    }

    /// Moves a packet from the queue into the driver.
    pub fn stage(&mut self, of: &mut Interface, at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        let packet = self.take(of, at, fate, watch);
        self.staged.extend(packet);
    }

    fn take(
        &mut self,
        of: &mut Interface,
        at: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) -> Option<Packet> {
        let packet = of.take(at, fate, watch)?;
        self.bytes += Bytes::from(packet.bytes);
        Some(packet)
    }

    /// A transmission has ended. Returns whether the receiver acknowledges it, which is impossible after a collision.
    pub fn finish_try(&mut self, is_alone: bool) -> bool {
        let carried = self.access.carried();
        let frames = self.frames.make_contiguous();
        for frame in frames.iter_mut().filter(|frame| frame.left > 0).take(carried) {
            frame.tries += 1;
        }
        let is_success = is_alone && self.access.receive(frames);
        self.access.learn(is_success);
        is_success
    }

    /// Releases frames that were received or given up, in order. Returns whether any was given up.
    pub fn empty_air(
        &mut self,
        of: &mut Interface,
        at: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) -> bool {
        let most = self.access.most_tries();
        if !self.frames.iter().any(|frame| frame.left > 0 && frame.tries >= most) {
            self.let_go(of, at, fate, watch);
            return false;
        }
        let mut gone: Vec<Packet> = Vec::new();
        let mut kept = VecDeque::with_capacity(self.frames.len());
        for frame in self.frames.drain(..) {
            if frame.left > 0 && frame.tries >= most {
                gone.push(frame.packet);
            } else {
                kept.push_back(frame);
            }
        }
        let mut received: Vec<Packet> = Vec::new();
        while kept.front().is_some_and(|frame| frame.left == 0) {
            received.extend(kept.pop_front().map(|frame| frame.packet));
        }
        for packet in received.iter().chain(&gone) {
            self.bytes -= Bytes::from(packet.bytes);
        }
        self.frames = kept;
        of.queue.on_service(self.bytes as u32);
        let has_given_up = !gone.is_empty();
        for packet in received {
            of.on_departure(&packet, watch);
            of.send(packet, at, at + of.delay, fate, watch);
        }
        for packet in gone {
            of.lose(packet, at, fate, watch);
        }
        has_given_up
    }

    /// Releases the frames that were received in order; none was given up.
    fn let_go(&mut self, of: &mut Interface, at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        let received = self.frames.iter().take_while(|frame| frame.left == 0);
        let (count, bytes) =
            received.fold((0, 0), |(count, sum), frame| (count + 1, sum + Bytes::from(frame.packet.bytes)));
        self.bytes -= bytes;
        of.queue.on_service(self.bytes as u32);
        for Frame { packet, .. } in self.frames.drain(..count) {
            of.on_departure(&packet, watch);
            of.send(packet, at, at + of.delay, fate, watch);
        }
    }
}
