//! The core of tailback: a packet-level engine for TCP congestion control, queues and paths.
//!
//! No clock, no I/O, no threads, no unsafe code: the input is a [`scenario::Scenario`], the output is rows. The same
//! scenario and seed give the same rows on every machine.
//!
//! ```
//! use tailback_core::rng::Stream;
//! use tailback_core::time::{Duration, Time};
//!
//! // Time counts picoseconds. Random numbers depend only on the run's seed and the name of the stream.
//! assert_eq!(Time::from_ms(40).since(Time::from_us(15_000)), Duration::from_ms(25));
//! let [mut once, mut again] = [7, 7].map(|seed| Stream::named(seed, "loss"));
//! assert_eq!(once.bits(), again.bits());
//! ```
#![forbid(unsafe_code)]

pub mod capacity;
pub mod cc;
pub mod engine;
pub mod foreign;
pub mod framing;
pub mod link;
pub mod math;
pub mod medium;
pub mod packet;
pub mod params;
pub mod probe;
pub mod queue;
pub mod rng;
pub mod scenario;
pub mod tcp;
pub mod time;
pub mod traffic;
