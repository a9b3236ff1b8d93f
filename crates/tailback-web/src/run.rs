//! Runs a scenario in slices, so that the page stays responsive.

use serde_json::Value;
use tailback_core::engine::{Expected, Simulation};
use tailback_core::probe::{Table, Tables};
use tailback_core::scenario::{Scenario, ScenarioError};

use crate::text::{Said, Text};

/// A run in progress.
pub struct Run {
    simulation: Simulation,
    scenario: Scenario,
    json: Value,
    toml: String,
}

/// The results of a run.
pub struct Finished {
    /// Tables of the run.
    pub tables: Tables,
    /// Number of events processed.
    pub events: u64,
    /// The scenario in the engine's form.
    pub scenario: Scenario,
    /// The scenario as JSON in normal form.
    pub json: Value,
    /// The scenario as TOML.
    pub toml: String,
}

/// Why a slice failed.
pub enum Ended {
    /// The scenario exceeds a limit.
    Refused(Vec<Said>),
    /// A fault in the engine.
    Fault(String),
}

impl Ended {
    fn of(error: ScenarioError) -> Self {
        Ended::Refused(vec![Said { path: error.field, message: error.problem, fix: error.fix, at: None }])
    }
}

impl Run {
    /// Starts a run of TOML text; with `pictures`, records only what pictures need.
    pub fn start(toml: &str, seed: Option<u64>, pictures: bool) -> Result<Run, Vec<Said>> {
        let ready = Text::read(toml)?.ready(seed, pictures)?;
        let simulation = Simulation::build(&ready.engine).map_err(|error| {
            // Prefer the error for the given text, which has a position; what is recorded in addition has none.
            let given = Text::read(toml).and_then(|text| text.complaints());
            given.err().unwrap_or_else(|| {
                vec![Said { path: error.field, message: error.problem, fix: error.fix, at: None }]
            })
        })?;
        Ok(Run { simulation, scenario: ready.engine, json: ready.json, toml: ready.toml })
    }

    /// The expected size of the run.
    pub fn expected(&self) -> Expected {
        Simulation::expected(&self.scenario).expect("it was built before")
    }

    /// Processes about `most` more events; returns true when the run is over.
    pub fn advance(&mut self, most: u64) -> Result<bool, Ended> {
        let is_over = self.simulation.run_events(most).map_err(|error| Ended::of(*error))?;
        self.simulation.check_rows().map_err(Ended::of)?;
        Ok(is_over)
    }

    /// Simulated seconds so far.
    pub fn now_s(&self) -> f64 {
        self.simulation.now().as_secs_f64()
    }

    /// Total simulated seconds.
    pub fn until_s(&self) -> f64 {
        self.scenario.duration_ps as f64 / 1e12
    }

    /// The polls recorded so far.
    pub fn polled(&self) -> Vec<Table> {
        self.simulation.polled()
    }

    /// The scenario in the engine's form.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Names for the codes in table `internals`.
    pub fn internals_names(&self) -> &[&'static str] {
        self.simulation.internals_names()
    }

    /// Ends the run and returns its tables.
    pub fn finish(self) -> Finished {
        let events = self.simulation.events();
        let tables = self.simulation.finish();
        Finished { tables, events, scenario: self.scenario, json: self.json, toml: self.toml }
    }
}
