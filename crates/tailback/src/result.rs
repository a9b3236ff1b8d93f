use tailback_core::cc::external::Makers;
use tailback_core::engine::Simulation;
use tailback_core::foreign::{StackFault, Stacks};
use tailback_core::params::nearest;
use tailback_core::probe::rows::SCHEMAS;
use tailback_core::probe::schema::Labels;
use tailback_core::probe::{self, Tables};
use tailback_core::scenario as engine;
use tailback_measures::columns;
use tailback_measures::run::{Run, Window, measurable};

use crate::error::Error;
use crate::scenario::Scenario;

/// Events between checks of a run's memory.
const SLICE: u64 = 1_000_000;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Result {
    scenario: Scenario,
    tables: Tables,
    faults: Vec<String>,
}

pub(crate) fn of(scenario: &Scenario) -> std::result::Result<Result, Error> {
    let (tables, faults) = ran(&scenario.engine, &scenario.hosted.0)?;
    Ok(Result { scenario: scenario.clone(), tables, faults })
}

/// Runs the engine's scenario to its end; returns its tables, and the rules that foreign stacks broke.
pub(crate) fn ran(
    engine: &engine::Scenario,
    stacks: &Stacks,
) -> std::result::Result<(Tables, Vec<String>), Error> {
    let mut simulation = Simulation::build_hosting(engine, &Makers::new(), stacks).map_err(Error::engine)?;
    while !simulation.run_events(SLICE).map_err(|error| Error::engine(*error))? {
        simulation.check_rows().map_err(Error::engine)?;
    }
    let faults = simulation.faults().map(StackFault::to_string).collect();
    Ok((simulation.finish(), faults))
}

impl Result {
    /// The scenario that ran.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// A measure of the entire run by its name: `call.delay_p95_ms`, `bottleneck.loss`, `jain`. The suffix is the unit;
    /// NaN means that the run has no such value. Returns an error if there is no such name or if the data it needs was
    /// not recorded; the error says what to add to `[instruments]`.
    pub fn measure(&self, name: &str) -> std::result::Result<f64, Error> {
        self.measured(name, Window::WHOLE)
    }

    /// The same in the time window [`from_s`, `until_s`), in simulated seconds: over what was sent, requested or polled
    /// in it.
    pub fn measure_between(&self, name: &str, from_s: f64, until_s: f64) -> std::result::Result<f64, Error> {
        self.measured(name, Window { start_s: Some(from_s), end_s: Some(until_s) })
    }

    /// The names for which [`Result::measure`] has values.
    pub fn measures(&self) -> Vec<String> {
        let all = measurable(&self.scenario.engine, false).into_iter();
        all.filter(|it| it.lacks.is_empty()).map(|it| it.name).collect()
    }

    /// A table: `flows` and `links` always exist, others depend on `[instruments]`. `None` if it was not recorded.
    pub fn table(&self, name: &str) -> Option<Table<'_>> {
        if !self.records(name) {
            return None;
        }
        let table = self.tables.tables.iter().find(|table| table.name == name)?;
        Some(Table { table, result: self })
    }

    /// The names of the tables.
    pub fn tables(&self) -> Vec<&'static str> {
        self.tables.tables.iter().map(|table| table.name).filter(|name| self.records(name)).collect()
    }

    /// Whether this table was recorded: its instrument is on, or it needs none.
    fn records(&self, table: &str) -> bool {
        let by =
            SCHEMAS.iter().find(|stated| stated.name == table).map_or(&[][..], |stated| stated.instruments);
        let on = serde_json::to_value(&self.scenario.engine.instruments).unwrap_or_default();
        let is_on = |name: &&str| on[name].as_array().is_some_and(|of| !of.is_empty()) || on[name] == true;
        by.is_empty() || by.iter().any(is_on)
    }

    /// Warnings: settings that are allowed but probably not intended.
    pub fn warnings(&self) -> &[String] {
        &self.tables.warnings
    }

    /// Rules that foreign stacks broke, one sentence each with flow, seed and time; each such flow ended at that
    /// moment.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// The size of all tables in bytes and their CRC-32; equal for runs with identical tables.
    pub fn fingerprint(&self) -> String {
        columns::hash(&self.tables)
    }

    fn measured(&self, name: &str, window: Window) -> std::result::Result<f64, Error> {
        let run = Run { scenario: &self.scenario.engine, tables: &self.tables };
        if let Some(value) = run.measure(name, window) {
            return Ok(value);
        }
        let is_window = window != Window::WHOLE;
        let all = measurable(&self.scenario.engine, is_window);
        if let Some(known) = all.iter().find(|it| it.name == name) {
            let fix = format!("Add to [instruments] {}.", known.lacks);
            return Err(Error::one("", format!("what {name} is measured from is not recorded"), fix));
        }
        let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
        let hint = nearest(name, &names).map_or(String::new(), |close| format!("Did you mean \"{close}\"? "));
        let (of, _) = name.rsplit_once('.').unwrap_or(("", name));
        let beside: Vec<&str> =
            names.into_iter().filter(|known| known.rsplit_once('.').map_or("", |it| it.0) == of).collect();
        let fix = if beside.is_empty() {
            "Begin it with the name of a flow or link.".into()
        } else {
            format!("There are: {}.", beside.join(", "))
        };
        let where_ = if is_window { " in a window of time" } else { "" };
        Err(Error::one("", format!("there is no metric \"{name}\"{where_}"), format!("{hint}{fix}")))
    }
}

/// A column's values.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Column<'a> {
    /// Numbers; NaN for missing values.
    F64(&'a [f64]),
    /// Counts and offsets.
    U64(&'a [u64]),
    /// Indices of flows and links, and small counts.
    U32(&'a [u32]),
    /// Codes.
    U16(&'a [u16]),
    /// Codes.
    U8(&'a [u8]),
    /// Switches.
    Bool(&'a [bool]),
}

/// A table of a result: columns of equal length.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    table: &'a probe::Table,
    result: &'a Result,
}

impl<'a> Table<'a> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        columns::rows(self.table)
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names of its columns.
    pub fn columns(&self) -> Vec<&'static str> {
        self.table.columns.iter().map(|(name, _)| *name).collect()
    }

    /// A column by its name, in its stored type.
    pub fn column(&self, name: &str) -> Option<Column<'a>> {
        let (_, column) = self.table.columns.iter().find(|(known, _)| *known == name)?;
        Some(match column {
            probe::Column::F64(values) => Column::F64(values),
            probe::Column::U64(values) => Column::U64(values),
            probe::Column::U32(values) => Column::U32(values),
            probe::Column::U16(values) => Column::U16(values),
            probe::Column::U8(values) => Column::U8(values),
            probe::Column::Bool(values) => Column::Bool(values),
        })
    }

    /// A column's values as numbers, in the unit of [`Table::unit`].
    pub fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        self.column(name).map(|_| columns::numbers(self.table, name))
    }

    /// The unit of a column; empty for counts, codes and switches.
    pub fn unit(&self, column: &str) -> Option<&'static str> {
        self.column(column).map(|_| columns::column_schema(self.table.name, column).unit)
    }

    /// The name that a code stands for: a flow, a link or a word. `None` for plain numbers.
    pub fn label(&self, column: &str, code: usize) -> Option<&'a str> {
        self.column(column)?;
        let engine = &self.result.scenario.engine;
        match columns::column_schema(self.table.name, column).labels {
            Labels::None => None,
            Labels::Words(words) => words.get(code).map(|it| it.word),
            Labels::Names("flows") => engine.flows.get(code).map(|it| it.name.as_str()),
            Labels::Names("links") => engine.links.get(code).map(|it| it.name.as_str()),
            Labels::Names("internals") => self.result.tables.internals_names.get(code).copied(),
            Labels::Names(_) => None,
        }
    }

    /// Indices of the rows that belong to a flow, or to a link in a table of links.
    pub fn rows_of(&self, name: &str) -> Vec<usize> {
        let key = ["flow", "link"].into_iter().find(|key| {
            self.numbers(key)
                .is_some_and(|it| it.iter().any(|code| self.label(key, *code as usize) == Some(name)))
        });
        let Some(codes) = key.and_then(|key| self.numbers(key).map(|codes| (key, codes))) else {
            return Vec::new();
        };
        (0..codes.1.len()).filter(|row| self.label(codes.0, codes.1[*row] as usize) == Some(name)).collect()
    }
}
