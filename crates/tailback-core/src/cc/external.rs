//! Congestion controls from outside the registry: the interface for algorithms that the engine's user writes.
//!
//! The caller passes [`Makers`] by name ([`crate::engine::Simulation::build_with`]); a scenario then names them like
//! any other algorithm. A call to one is an indirect call; a call to one in the registry is a `match`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use super::CongestionControl;
use crate::scenario::Params;

/// An algorithm's state whose type the core does not know.
pub trait External: CongestionControl + Debug {}

impl<T: CongestionControl + Debug> External for T {}

/// Builds the state of one algorithm, once per connection.
pub trait Maker: Debug + Send + Sync {
    /// Checks the parameters before time zero; the error is a description for display.
    fn check(&self, params: &Params) -> Result<(), String>;
    /// Builds a new state from checked parameters. `seed` is for this connection alone.
    fn make(&self, params: &Params, seed: u64) -> Box<dyn External>;
}

/// External algorithms by name. They cannot override names of the registry.
pub type Makers = BTreeMap<String, Arc<dyn Maker>>;
