//! A link in one direction: a queue, a service that empties it, then a pipe with the propagation delay (dummynet's two
//! pipes).
//!
//! Law: a packet of L bytes that finds b bytes queued and r bytes of another packet still to be sent arrives 8(b + r +
//! L)/C + D later. The link's framing determines how many bytes each packet counts (`framing.rs`).
//!
//! Due time, not wake time: every step happens at its own due time however late the host calls. So a sleeping real-time
//! loop and the simulator give identical fates to identical arrivals. A link therefore wakes only for arrivals at the
//! far end, not for its departures: the next call processes past departures, at their own times. That halves the wakes
//! per packet.
//!
//! One of seven services empties the queue (`service`):
//! - `instant`: no rate, so no queue forms;
//! - `foreseen`: a tail-drop FIFO at a fixed rate, whose departures are known on arrival;
//! - `steady`: any other queue at a fixed rate, with a wire that does nothing;
//! - `serial`: any queue, at a rate, on a timer (`pace`) or at a varying rate (`pacer`);
//! - `outlet`: a queue at a medium for which stations contend; `contention` decides when packets leave;
//! - `radio`: a user of a `cell`; the cell's scheduler decides when packets leave;
//! - `tunnel`: another flow's connection, whose stream carries the packets.
//!
//! A `gate` may precede the queue with any of the first four services: ECN bleaching and a `policer`.
//!
//! `interface` has what every link needs: queue, counts, conservation, the pipe and its `wire`. A file uses only those
//! before it in this order: `api`, `acks`, `netem`, `signals`, `wire`, `interface`, `serve`, the seven, `gate`,
//! `service`, `build`, `turns`, `contention`, `cell`, `channel`.

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
