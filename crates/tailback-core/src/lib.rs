//! The core of tailback: a packet-level engine for TCP congestion control, queues and paths.
//!
//! No clock, no I/O, no threads, no unsafe code: a [`scenario::Scenario`] goes in, rows come out, and the same
//! scenario and seed give the same rows on every machine.
#![forbid(unsafe_code)]

pub mod cc;
pub mod packet;
pub mod queue;
pub mod scenario;
pub mod time;
