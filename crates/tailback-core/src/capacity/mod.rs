//! Serialisers whose pace varies: rates on a schedule, recorded traces, and media with a frame structure of
//! their own.
//!
//! A pace answers one question: a packet whose turn comes now, when has its last bit left? What varies is known in
//! advance or drawn by the slot, so the answer needs no event of its own, and a late wake changes nothing.

pub mod stepped;
pub mod trace;

use crate::packet::Packet;
use crate::queue::Backlog;
use crate::time::{Duration, Rate, Time};

/// A serialiser of varying pace.
pub trait Pace {
    /// When the last bit of `packet` has left, whose turn comes at `at`; [`Time::NEVER`] if it never does.
    /// `continues`: it follows the packet before it without a pause.
    fn serve(&mut self, at: Time, packet: &Packet, continues: bool) -> Time;
    /// What waits behind the packet whose turn comes next.
    fn behind(&mut self, _backlog: Backlog) {}
    /// The rate it has on average, for defaults that scale with a link's rate.
    fn nominal(&self) -> Rate;
    /// How much longer than the propagation delay the packet just served is under way, having left at `at`;
    /// `None` if it is lost.
    fn detour(&mut self, _at: Time) -> Option<Duration> {
        Some(Duration::ZERO)
    }
}
