//! Congestion controls and queue disciplines in a single BPF source file, as written for the kernel, for use in the
//! kernel and in the simulator. [`source`] compiles the file for the kernel or natively; [`native`] makes the result a
//! congestion control of the simulator, and [`queue`] a queue. Rust crates compiled by cargo use the same interface;
//! [`stack`] is a transport in C.
//!
//! Natively compiled code is a stranger's code without any bounds. Run it in a process of its own, in which [`guard`]
//! reports how it ended.

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
