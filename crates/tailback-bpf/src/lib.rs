//! A congestion control or queue discipline in one BPF source file, as people write them for the kernel, for both worlds.
//! [`source`] compiles it for the kernel or natively; [`native`] makes the result an algorithm of the simulator, and
//! [`queue`] a queue. A crate in Rust, compiled by cargo, goes the same way; [`stack`] is a transport in C.
//!
//! Running what was compiled natively is running a stranger's code without bounds. It belongs into a process of its
//! own, which [`guard`] makes say how it ended.

pub mod elf;
pub mod guard;
pub mod native;
pub mod queue;
pub mod source;
pub mod stack;

pub use native::{Fault, Library, NativeMaker};
pub use queue::{NativeQueueMaker, QueueLibrary};
pub use source::{Kind, Source};
pub use stack::NativeStack;
