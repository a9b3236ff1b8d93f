//! The simulator for a web page.
//!
//! [`text`] reads what an editor holds, [`run`] runs it in slices, [`summary`] says what users and links had of it,
//! [`reasons`] explains a row. [`captured`] reads a packet capture into the same form. All of it is plain Rust; [`face`](self) alone knows JavaScript, and is compiled for
//! WebAssembly only.

pub mod captured;
#[cfg(target_arch = "wasm32")]
mod face;
pub mod reasons;
pub mod run;
pub mod summary;
pub mod text;
