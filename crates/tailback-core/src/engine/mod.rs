//! The engine: a checked network, a schedule of wakes, the run loop, and the tables at the end.

mod arena;
mod bounds;
mod build;
mod connections;
mod loads;
mod network;
mod parts;
pub mod schedule;
mod tables;
mod tunnels;

use std::fmt;

pub use self::bounds::MOST_ROWS;
pub use self::build::switches;
use self::network::{Network, Polling};
use self::parts::{Parts, refuse};
use crate::cc::external::Makers;
use crate::params::unknown_name;
use crate::probe::captures::{Captures, Points};
use crate::probe::path::{PathRecorder, QueueEvents, Window};
pub use crate::probe::recorder::ROWS_A_GROUP;
use crate::probe::recorder::{Recorder, Wanted};
use crate::probe::{NoProbe, Probe, Table, Tables};
use crate::scenario::{Scenario, ScenarioError};
use crate::time::{Duration, Time};

/// The engine found that it is wrong itself.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineError(pub String);

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EngineError {}

enum Inner {
    Quiet(Box<Network<NoProbe>>),
    Recording(Box<Network<Recorder>>),
}

/// A run under way.
pub struct Simulation {
    inner: Inner,
    most_rows: u64,
}

impl Simulation {
    /// Check the description and build the network.
    pub fn build(scenario: &Scenario) -> Result<Simulation, ScenarioError> {
        Simulation::build_with(scenario, &Makers::new())
    }

    /// As [`Simulation::build`], with algorithms of the caller's own that the scenario may name.
    pub fn build_with(scenario: &Scenario, makers: &Makers) -> Result<Simulation, ScenarioError> {
        let parts = build::build(scenario, makers)?;
        let most_rows = bounds::most_rows(scenario, &parts)?;
        let inner = match instruments(scenario, &parts)? {
            None => Inner::Quiet(Box::new(Network::new(parts, NoProbe, Polling::default()))),
            Some((recorder, polling)) => Inner::Recording(Box::new(Network::new(parts, recorder, polling))),
        };
        Ok(Simulation { inner, most_rows })
    }

    /// Run until about `most` more events, packets and rows are done; between them a caller looks whether to go on,
    /// however little simulated time they take. True when the run is over.
    pub fn run_events(&mut self, most: u64) -> Result<bool, EngineError> {
        Ok(match &mut self.inner {
            Inner::Quiet(network) => network.run(most),
            Inner::Recording(network) => network.run(most),
        })
    }

    /// An error once more rows are recorded than the scenario allows: estimates may be wrong.
    pub fn check_rows(&self) -> Result<(), ScenarioError> {
        let Inner::Recording(network) = &self.inner else { return Ok(()) };
        if network.probe.rows() <= self.most_rows {
            return Ok(());
        }
        Err(refuse(
            "instruments.most_rows",
            self.most_rows,
            format!("after {} s more rows were recorded than that", network.now.as_secs_f64()),
            "Record fewer flows or links or a shorter time (from, until), or raise \
         instruments.most_rows; written to a folder (--out), rows take little memory.",
        ))
    }

    /// Take rows that will not change any more, in whole groups of [`ROWS_A_GROUP`], first rows first; the tables at
    /// the end then lack them. Who writes them down keeps the run in bounded memory.
    pub fn take_groups(&mut self) -> Vec<Table> {
        match &mut self.inner {
            Inner::Quiet(_) => Vec::new(),
            Inner::Recording(network) => network.probe.take_groups(),
        }
    }

    /// Names that the codes of `internals` stand for, so far: groups that were taken count in them.
    pub fn internals_names(&self) -> &[&'static str] {
        match &self.inner {
            Inner::Quiet(_) => &[],
            Inner::Recording(network) => network.probe.internals_names(),
        }
    }

    /// Simulated time.
    pub fn now(&self) -> Time {
        match &self.inner {
            Inner::Quiet(network) => network.now,
            Inner::Recording(network) => network.now,
        }
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        match &self.inner {
            Inner::Quiet(network) => network.events,
            Inner::Recording(network) => network.events,
        }
    }

    /// The tables of what happened until now.
    pub fn finish(self) -> Tables {
        match self.inner {
            Inner::Quiet(network) => tables::collect(*network),
            Inner::Recording(network) => tables::collect(*network),
        }
    }
}

fn instruments(scenario: &Scenario, parts: &Parts) -> Result<Option<(Recorder, Polling)>, ScenarioError> {
    let wanted = &scenario.instruments;
    let mut flows = vec![Wanted::default(); scenario.flows.len()];
    let mut packets_of = vec![false; scenario.flows.len()];
    let mut queues = vec![QueueEvents::None; parts.named_links];
    let flow_names: Vec<&str> = scenario.flows.iter().map(|flow| flow.name.as_str()).collect();
    let link_names: Vec<&str> = scenario.links.iter().map(|link| link.name.as_str()).collect();
    let find =
        |kind: &str, what: &str, names: &[String], known: &[&str]| -> Result<Vec<usize>, ScenarioError> {
            let each = names.iter().enumerate().map(|(number, name)| {
                let place = known.iter().position(|known| known == name);
                place.ok_or_else(|| unknown_name(kind, name, &format!("instruments.{what}[{number}]"), known))
            });
            each.collect()
        };
    for flow in find("flow", "segments", &wanted.segments, &flow_names)? {
        flows[flow].segments = true;
    }
    for flow in find("flow", "packets", &wanted.packets, &flow_names)? {
        packets_of[flow] = true;
    }
    for flow in find("flow", "requests", &wanted.requests, &flow_names)? {
        flows[flow].requests = true;
    }
    for flow in find("flow", "echoes", &wanted.echoes, &flow_names)? {
        flows[flow].echoes = true;
    }
    // Who wants every event gets drops and marks too.
    let all_events = find("link", "queues", &wanted.queues, &link_names)?;
    for link in find("link", "drops", &wanted.drops, &link_names)? {
        queues[link] = QueueEvents::Losses;
    }
    for link in all_events {
        queues[link] = QueueEvents::All;
    }
    let captures = captures(scenario, parts)?;
    let polled_flows = find("flow", "polls", &wanted.polls, &flow_names)?;
    let polled_links = find("link", "queue_polls", &wanted.queue_polls, &link_names)?;
    let polls = !polled_flows.is_empty() || !polled_links.is_empty();
    if polls && wanted.poll_interval_ps == 0 {
        return Err(refuse(
            "instruments.poll_interval_ps",
            0,
            "polling needs an interval",
            "Give poll_interval, such as \"1ms\".",
        ));
    }
    let window = Window::of(wanted);
    if window.until <= window.from {
        return Err(refuse(
            "instruments.until_ps",
            window.until.as_ps(),
            "recording must end after it begins",
            "Give a later until, or none.",
        ));
    }
    let is_off = !polls
        && captures.is_none()
        && flows.iter().all(|wanted| *wanted == Wanted::default())
        && !packets_of.contains(&true)
        && queues.iter().all(|events| *events == QueueEvents::None);
    if is_off {
        return Ok(None);
    }
    let interval = if polls { Duration::from_ps(wanted.poll_interval_ps) } else { Duration::ZERO };
    let polling = Polling {
        interval,
        // The first poll at or after the beginning of the recording, on the grid from time zero.
        next: if polls { window.from.ceil_to(interval) } else { Time::NEVER },
        flows: polled_flows.into_iter().map(|flow| flow as u32).collect(),
        links: polled_links.into_iter().map(|link| link as u32).collect(),
    };
    let path = PathRecorder::new(window, packets_of, queues);
    let recorder = Recorder::new(flows, path, wanted.internals).with_captures(captures);
    Ok(Some((recorder, polling)))
}

/// The points at which packets are captured, by their names.
fn captures(scenario: &Scenario, parts: &Parts) -> Result<Option<Captures>, ScenarioError> {
    let named = &scenario.instruments.captures;
    if named.is_empty() {
        return Ok(None);
    }
    let node_names: Vec<&str> = scenario.nodes.iter().map(String::as_str).collect();
    let node = |name: &str| node_names.iter().position(|known| *known == name);
    let link = |name: &str| scenario.links.iter().position(|link| link.name == name);
    let mut points = Points {
        before: vec![None; scenario.links.len()],
        after: vec![None; scenario.links.len()],
        node: vec![None; node_names.len()],
        leaves: scenario.links.iter().map(|it| node(&it.from).unwrap_or(0) as u32).collect(),
        hosts: parts.flows.iter().map(|flow| flow.hosts).collect(),
    };
    for (number, name) in named.iter().enumerate() {
        let side = |end: &str| name.strip_suffix(end).and_then(link);
        let place = match (node(name), side(".in"), side(".out")) {
            (Some(node), ..) => &mut points.node[node],
            (_, Some(link), _) => &mut points.before[link],
            (.., Some(link)) => &mut points.after[link],
            _ => {
                let sides =
                    scenario.links.iter().flat_map(|link| [".in", ".out"].map(|end| link.name.clone() + end));
                let known: Vec<String> = scenario.nodes.iter().cloned().chain(sides).collect();
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                return Err(unknown_name("point", name, &format!("instruments.captures[{number}]"), &known));
            }
        };
        *place = Some(number as u16);
    }
    Ok(Some(Captures::new(points)))
}
