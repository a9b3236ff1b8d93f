//! Runs a scenario on the real kernel: hosts are network namespaces, TCP and UDP are Linux's, and the path between them
//! is the simulator's own [`tailback_core::link::Link`] in real time.
//!
//! Everything a run creates is tied to its process: namespaces are nameless, TUN devices not persistent, congestion
//! controls held by a link. However the process ends, the kernel removes them.
#![cfg(target_os = "linux")]
// The only crate with unsafe code, and only in these modules: raw system calls, and libbpf.
#![deny(unsafe_code)]

pub mod access;
pub mod affinity;
pub mod applications;
mod arrivals;
pub mod bpf;
pub mod clock;
mod counters;
pub mod demands;
pub mod diagnosis;
pub mod doctor;
pub mod emulator;
pub mod epoll;
pub mod error;
pub mod guest;
pub mod headers;
pub mod host;
pub mod internals;
pub mod journal;
pub mod kernel_queue;
pub mod lease;
pub mod netlink;
pub mod path;
pub mod programs;
pub mod punctuality;
pub mod recipe;
pub mod run;
mod run_queue;
pub mod segments;
pub mod sightings;
pub mod spawn;
pub mod stamps;
pub mod sys;
pub mod tables;
pub mod tcp_log;
pub mod twins;
pub mod urgency;
pub mod watch;

pub use error::LiveError;
