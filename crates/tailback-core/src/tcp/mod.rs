//! TCP: one sender and one receiver, which behave as an operating system does.

mod cold;
pub mod endpoint;
pub mod metrics;
mod ranges;
pub mod receiver;
pub mod rtt;
pub mod scoreboard;
pub mod segment;
pub mod sender;
pub mod stack;
mod tuning;
