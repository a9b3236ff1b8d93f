//! One run, in slices between which others have their turn.

use serde_json::Value;
use tailback_core::engine::{Expected, Simulation};
use tailback_core::probe::{Table, Tables};
use tailback_core::scenario::{Scenario, ScenarioError};

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
    /// Tables of the run.
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

impl Ended {
    fn of(error: ScenarioError) -> Self {
        Ended::Refused(vec![Said { path: error.field, message: error.problem, fix: error.fix, at: None }])
    }
}

impl Run {
    /// Begin to run TOML text; with `pictures`, recording what they need and nothing else.
    pub fn start(toml: &str, seed: Option<u64>, pictures: bool) -> Result<Run, Vec<Said>> {
        let ready = Text::read(toml)?.ready(seed, pictures)?;
        let simulation = Simulation::build(&ready.engine).map_err(|error| {
            // In the text given it has a place; what is recorded beyond it has none.
            let given = Text::read(toml).and_then(|text| text.complaints());
            given.err().unwrap_or_else(|| {
                vec![Said { path: error.field, message: error.problem, fix: error.fix, at: None }]
            })
        })?;
        Ok(Run { simulation, scenario: ready.engine, json: ready.json, toml: ready.toml })
    }

    /// What the run will come to.
    pub fn expected(&self) -> Expected {
        Simulation::expected(&self.scenario).expect("it was built before")
    }

    /// Run about `most` more events; true when the run is over.
    pub fn advance(&mut self, most: u64) -> Result<bool, Ended> {
        let is_over = self.simulation.run_events(most).map_err(|error| Ended::of(*error))?;
        self.simulation.check_rows().map_err(Ended::of)?;
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
