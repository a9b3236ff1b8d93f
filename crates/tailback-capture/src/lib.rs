//! Packet captures, in and out.
//!
//! Out: a run's captured packets as pcapng files that other programs open. In: anyone's pcap and pcapng.

pub mod frames;
pub mod write;
