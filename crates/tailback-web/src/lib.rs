//! The simulator for a web page.
//!
//! [`text`] reads a scenario from an editor, [`run`] runs it in slices, [`summary`] computes results for users and
//! links, and [`reasons`] explains a row. [`captured`] reads a packet capture into the same form. All of this is plain
//! Rust; only [`face`](self) uses JavaScript, and is compiled only for WebAssembly.

pub mod captured;
#[cfg(target_arch = "wasm32")]
mod face;
pub mod reasons;
pub mod run;
pub mod summary;
pub mod text;
