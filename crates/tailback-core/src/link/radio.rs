//! A link of a user in a cell: packets are cut into blocks, which arrive after HARQ and RLC retransmissions.

use super::api::Watch;
use super::interface::Interface;
use super::serve::Serve;
use crate::medium::cell::User;
use crate::packet::Packet;
use crate::queue::{Backlog, Fate, QueueDiscipline};
use crate::time::Time;

/// A packet that is only partly sent.
#[derive(Clone, Copy, Debug)]
struct Cut {
    packet: Packet,
    bits: u64,
    /// When the last of its blocks sent so far arrives.
    arrives: Time,
    is_lost: bool,
}

/// The service of a link in a cell, whose scheduler decides when its packets leave.
#[derive(Clone, Debug)]
pub struct Radio {
    pub user: User,
    cut: Option<Cut>,
    /// Latest arrival so far: RLC delivers packets in order.
    latest: Time,
    /// Number of its channel.
    pub channel: u32,
}

impl Serve for Radio {
    /// The partly sent packet.
    fn between(&self) -> Backlog {
        self.cut.map_or(Backlog::default(), |cut| Backlog { packets: 1, bytes: u64::from(cut.packet.bytes) })
    }
}

impl Radio {
    pub fn new(user: User) -> Self {
        Radio { user, cut: None, latest: Time::ZERO, channel: 0 }
    }

    /// Whether it is backlogged.
    pub fn has_something(&self, of: &Interface) -> bool {
        self.cut.is_some() || of.queue.backlog().packets > 0
    }

    /// Fills a block of at most `room` bits, sent from `at`, that arrives at `arrives` or is lost. Returns the bits
    /// used.
    pub fn fill(
        &mut self,
        of: &mut Interface,
        room: u64,
        at: Time,
        arrives: Option<Time>,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) -> u64 {
        let mut left = room;
        while left > 0 {
            let mut cut = match self.cut.take() {
                Some(cut) => cut,
                None => {
                    let Some(packet) = of.take_to_send(at, fate, watch) else { break };
                    Cut { packet, bits: 8 * u64::from(packet.bytes), arrives: at, is_lost: false }
                }
            };
            let used = cut.bits.min(left);
            (cut.bits, left) = (cut.bits - used, left - used);
            match arrives {
                Some(arrives) => cut.arrives = cut.arrives.max(arrives),
                None => cut.is_lost = true,
            }
            if cut.bits > 0 {
                self.cut = Some(cut);
                break;
            }
            of.on_departure(&cut.packet, watch);
            if cut.is_lost {
                of.lose(cut.packet, at, fate, watch);
            } else {
                self.latest = self.latest.max(cut.arrives);
                of.send(cut.packet, self.latest, self.latest + of.delay, fate, watch);
            }
        }
        if self.cut.is_none() {
            of.queue.on_service(0);
        }
        of.note_backlog(at);
        room - left
    }
}
