//! The core of tailback: a packet-level engine for TCP congestion control, queues and paths.
//!
//! No clock, no I/O, no threads, no unsafe code: a [`scenario::Scenario`] goes in, rows come out, and the same
//! scenario and seed give the same rows on every machine.
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
