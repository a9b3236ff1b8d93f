//! The scenario's schema: each field is declared once; text is the input, the engine's exact description the output.
//!
//! Text (TOML or JSON) is parsed into a tree of [`node::Node`]s with their positions. [`schema`] reads it part by part
//! and collects all errors; [`presets`] expand to the networks of papers. [`resolve`] finds routes and converts
//! quantities to exact integers; [`unresolve`] is its inverse. A [`resolve::Host`] supplies files and external
//! algorithms: this crate does no I/O.
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
