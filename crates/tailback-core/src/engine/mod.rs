//! The engine: who wakes next, the network as arrays, the run loop.

pub mod schedule;
