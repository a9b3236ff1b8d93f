//! A link in one direction: a queue, what serves it, then a pipe of propagation delay (dummynet's two pipes).
//!
//! Law: an arrival of L bytes that finds b bytes queued and r bytes of another packet still to be sent arrives
//! 8(b + r + L)/C + D later. Each packet's bytes count as its link's framing has them (`framing.rs`).
//!
//! Due time, not wake time: every step happens at its own due instant however late the host calls, so a
//! sleeping real-time loop and the simulator give identical fates to identical arrivals. A link therefore need
//! not wake for its own departures, only for arrivals at the far end: those that happened meanwhile are caught up
//! with at the next call, at their own times. One wake a packet instead of two.
//!
//! What serves the queue is one of seven (`service`):
//! - `instant`: no rate, so no queue forms;
//! - `foreseen`: a tail-drop FIFO at a fixed rate, whose departures are known on arrival;
//! - `steady`: any other queue at a fixed rate, where the wire does nothing;
//! - `serial`: any queue, at a rate, on a timer (`pace`) or at a pace that varies (`pacer`);
//! - `outlet`: a place at a medium that stations contend for; its `contention` decides when packets leave;
//! - `radio`: a user's place in a `cell`, whose scheduler does;
//! - `tunnel`: another flow's connection, whose stream carries the packets.
//!
//! What a packet meets before the queue is a `gate`, which stands before any of the first four: ECN bleaching and a `policer`.
//!
//! What every link has stands in `interface`: queue, counts, conservation, the pipe and its `wire`. A file uses only
//! those before it in this order: `api`, `acks`, `netem`, `signals`, `wire`, `interface`, `serve`, the seven, `gate`, `service`, `build`, `turns`, `contention`, `cell`, `channel`.

mod acks;
mod api;
mod build;
mod cell;
pub mod channel;
mod contention;
mod foreseen;
mod gate;
mod instant;
mod interface;
mod netem;
mod outlet;
mod pace;
mod pacer;
mod policer;
mod radio;
mod serial;
mod serve;
mod service;
mod signals;
mod steady;
#[cfg(test)]
mod tests;
mod tunnel;
mod turns;
mod wire;

pub use api::{Host, LONGEST_DELAY, LinkCount, Watch};
pub use service::{Link, Server};
