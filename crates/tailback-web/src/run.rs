//! One run, in slices between which others have their turn.

use serde_json::Value;
use tailback_core::engine::Simulation;
use tailback_core::probe::{Table, Tables};
use tailback_core::scenario::Scenario;

use crate::text::{Said, Text};

/// A run under way.
pub struct Run {
    simulation: Simulation,
    scenario: Scenario,
    json: Value,
    toml: String,
}

/// What a run leaves.
pub struct Finished {
    /// Its tables.
    pub tables: Tables,
    /// Events of the engine.
    pub events: u64,
    /// What was run, in the engine's form,
    pub scenario: Scenario,
    /// as JSON in normal form
    pub json: Value,
    /// and as TOML.
    pub toml: String,
}

/// Why a slice could not be run.
pub enum Ended {
    /// The scenario asks too much.
    Refused(Vec<Said>),
    /// A fault of the engine.
    Fault(String),
}

impl Run {
    /// Begin to run TOML text; with `pictures`, recording what pictures show.
    pub fn start(toml: &str, seed: Option<u64>, pictures: bool) -> Result<Run, Vec<Said>> {
        let ready = Text::read(toml)?.ready(seed, pictures)?;
        // Of what is run, so that what the engine says of it has its place; in the text given it may have none.
        let simulation = match Simulation::build(&ready.engine) {
            Ok(simulation) => simulation,
            Err(error) => {
                let mut given = Text::read(toml)?.complaints();
                if given.is_empty() {
                    given =
                        vec![Said { path: error.field, message: error.problem, fix: error.fix, at: None }];
                }
                return Err(given);
            }
        };
        Ok(Run { simulation, scenario: ready.engine, json: ready.json, toml: ready.toml })
    }

    /// Run about `most` more events; true when the run is over.
    pub fn advance(&mut self, most: u64) -> Result<bool, Ended> {
        let is_over = self.simulation.run_events(most).map_err(|error| Ended::Fault(error.to_string()))?;
        self.simulation.check_rows().map_err(|error| {
            Ended::Refused(vec![Said { path: error.field, message: error.problem, fix: error.fix, at: None }])
        })?;
        Ok(is_over)
    }

    /// Simulated seconds so far.
    pub fn now_s(&self) -> f64 {
        self.simulation.now().as_secs_f64()
    }

    /// Simulated seconds in all.
    pub fn until_s(&self) -> f64 {
        self.scenario.duration_ps as f64 / 1e12
    }

    /// What the polls have recorded so far.
    pub fn polled(&self) -> Vec<Table> {
        self.simulation.polled()
    }

    /// What is run, in the engine's form.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Names that the codes of `internals` stand for.
    pub fn internals_names(&self) -> &[&'static str] {
        self.simulation.internals_names()
    }

    /// The tables of what happened.
    pub fn finish(self) -> Finished {
        let events = self.simulation.events();
        let tables = self.simulation.finish();
        Finished { tables, events, scenario: self.scenario, json: self.json, toml: self.toml }
    }
}
