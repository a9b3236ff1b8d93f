//! Packet captures, in and out.
//!
//! Out: a run's captured packets as pcapng files that other programs open. In: anyone's pcap and pcapng.

pub mod decode;
pub mod flows;
pub mod frames;
pub mod pairing;
pub mod rows;
pub mod source;
pub mod tcp;
pub mod write;
