//! The simulator for a web page.
//!
//! [`text`] reads what an editor holds, [`run`] runs it in slices, [`summary`] says what users and links had of it,
//! [`reasons`] explains a row. All of it is plain Rust; [`face`](self) alone knows JavaScript, and is compiled for
//! WebAssembly only.

#[cfg(target_arch = "wasm32")]
mod face;
pub mod reasons;
pub mod rows;
pub mod run;
pub mod summary;
pub mod text;
pub mod voice;
