//! Reads and writes packet captures.
//!
//! It writes a run's captured packets as pcapng files for other programs, and reads pcap and pcapng files of any
//! origin.
//!
//! ```no_run
//! use tailback_capture::flows::Flows;
//! use tailback_capture::source::Source;
//!
//! let mut source = Source::open("trace.pcapng".as_ref()).expect("a capture");
//! let flows = Flows::read(&mut source);
//! ```

pub mod decode;
pub mod flows;
pub mod frames;
pub mod pairing;
pub mod rows;
pub mod source;
pub mod tcp;
pub mod write;
