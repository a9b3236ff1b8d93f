//! Third-party QUIC stacks as flows of a scenario: as published, with their own handshake, acknowledgements, loss
//! recovery, pacing and congestion control. Each stack is one file with a row in [`stacks`].
//!
//! Two things are replaced. Keys are null (`null.rs`): packets keep their sizes, but nothing is encrypted. Time is the
//! scenario's: an instant is the run's clock plus a base that was read once.
#![forbid(unsafe_code)]

use std::sync::Arc;

use tailback_core::foreign::{Stack, Stacks};

mod clock;
mod controllers;
mod entropy;
mod noq;
mod null;
mod quinn;
mod s2n;

pub use controllers::{CONTROLLERS, ControllerFault, controllers};

/// The stacks, by their names in scenarios.
pub fn stacks() -> Stacks {
    let all: [(&str, Arc<dyn Stack>); 3] =
        [("noq", Arc::new(noq::Noq)), ("quinn", Arc::new(quinn::Quinn)), ("s2n-quic", Arc::new(s2n::S2n))];
    all.into_iter().map(|(name, stack)| (name.to_string(), stack)).collect()
}
