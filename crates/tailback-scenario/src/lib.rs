//! The scenario's schema: every field once, text in, the engine's exact description out.
//!
//! Text (TOML or JSON) becomes a tree of [`node::Node`]s that know their places. [`schema`] reads it part by part and
//! notes all that is wrong; [`presets`] spell out the papers' networks. [`resolve`] finds routes and turns quantities
//! into exact integers; [`unresolve`] is its inverse. Files and algorithms from outside come from a [`resolve::Host`]:
//! there is no input or output here.
//!
//! ```
//! use tailback_scenario::node;
//! use tailback_scenario::resolve::{self, Nothing};
//! use tailback_scenario::text;
//!
//! let toml = "duration = '2s'\n[dumbbell]\nrate = '5mbit'\nrtt = '20ms'\n[[flow]]\nname = 'a'";
//! let scenario = resolve::read(&node::from_toml(toml).unwrap(), &Nothing).unwrap();
//! let exact = text::to_json(&resolve::resolve(&scenario, &Nothing).unwrap().description);
//! assert!(exact.contains("2000000000000"), "picoseconds");
//! ```

pub mod condition;
pub mod csv;
pub mod document;
pub mod har;
pub mod instead;
pub mod node;
pub mod part;
pub mod presets;
pub mod problem;
pub mod quantity;
pub mod registry;
pub mod resolve;
pub mod schema;
pub mod text;
pub mod unresolve;
