//! Congestion controls from outside the registry: the interface for algorithms that the engine's user writes.
//!
//! A run is given [`Makers`] by name ([`crate::engine::Simulation::build_with`]); a scenario then names them like
//! any other algorithm. They pay for an indirect call where the registry's pay for a `match`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use super::CongestionControl;
use crate::scenario::Params;

/// An algorithm's state whose type the core does not know.
pub trait External: CongestionControl + Debug {}

impl<T: CongestionControl + Debug> External for T {}

/// Makes the state of one algorithm, once for each connection.
pub trait Maker: Debug + Send + Sync {
    /// Can it be made from these parameters? If not, why, for people. Asked before time zero.
    fn check(&self, params: &Params) -> Result<(), String>;
    /// A fresh state from checked parameters. `seed` belongs to this connection alone.
    fn make(&self, params: &Params, seed: u64) -> Box<dyn External>;
}

/// Algorithms by the name that scenarios use. Names of the registry stay the registry's.
pub type Makers = BTreeMap<String, Arc<dyn Maker>>;
