//! The engine: a checked network, a schedule of wakes, the run loop, and the tables at the end.

mod arena;
mod bounds;
mod build;
mod connections;
pub mod foreign;
mod loads;
mod network;
mod parts;
pub mod schedule;
mod tables;
mod tunnels;

pub use self::bounds::{Expected, MOST_ROWS};
pub use self::build::switches;
use self::network::{Network, Polling};
use self::parts::{Parts, refuse};
use crate::cc::external::Makers;
use crate::foreign::{StackFault, Stacks};
use crate::params::unknown_name;
use crate::probe::captures::{Captures, Points};
use crate::probe::path::{PathRecorder, QueueEvents, Window};
pub use crate::probe::recorder::ROWS_A_GROUP;
use crate::probe::recorder::{Recorder, Sparse, Wanted};
use crate::probe::{NoProbe, Probe, Table, Tables};
use crate::scenario::{Instruments, Scenario, ScenarioError};
use crate::time::{Duration, Time};

enum Inner {
    Quiet(Box<Network<NoProbe>>),
    Sparse(Box<Network<Sparse>>),
    Recording(Box<Network<Recorder>>),
}

macro_rules! each {
    ($inner:expr, $network:ident => $call:expr) => {
        match $inner {
            Inner::Quiet($network) => $call,
            Inner::Sparse($network) => $call,
            Inner::Recording($network) => $call,
        }
    };
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
        Simulation::build_hosting(scenario, makers, &Stacks::new())
    }

    /// As [`Simulation::build_with`], with other people's stacks that flows may use instead of TCP.
    pub fn build_hosting(
        scenario: &Scenario,
        makers: &Makers,
        stacks: &Stacks,
    ) -> Result<Simulation, ScenarioError> {
        let parts = build::build(scenario, makers, stacks)?;
        let most_rows = bounds::most_rows(scenario, &parts)?;
        let inner = match instruments(scenario, &parts)? {
            None => Inner::Quiet(Box::new(Network::new(parts, NoProbe, Polling::default()))),
            Some((recorder, polling)) if !recorder.is_of_each() => {
                Inner::Sparse(Box::new(Network::new(parts, Sparse(recorder), polling)))
            }
            Some((recorder, polling)) => Inner::Recording(Box::new(Network::new(parts, recorder, polling))),
        };
        Ok(Simulation { inner, most_rows })
    }

    /// What a run of the description will come to.
    pub fn expected(scenario: &Scenario) -> Result<Expected, ScenarioError> {
        Ok(bounds::expected(scenario, &build::build(scenario, &Makers::new(), &Stacks::new())?))
    }

    /// Run until about `most` more events, packets and rows are done; between them a caller looks whether to go on,
    /// however little simulated time they take. True when the run is over.
    /// A foreign stack's fault ends it too.
    pub fn run_events(&mut self, most: u64) -> Result<bool, Box<StackFault>> {
        let (is_over, fault) = each!(&mut self.inner, network => (network.run(most), network.fault.take()));
        fault.map_or(Ok(is_over), Err)
    }

    /// An error once more rows are recorded than the scenario allows: estimates may be wrong.
    pub fn check_rows(&self) -> Result<(), ScenarioError> {
        let rows = self.recorder().map_or(0, Recorder::rows);
        if rows <= self.most_rows {
            return Ok(());
        }
        Err(refuse(
            "instruments.most_rows",
            self.most_rows,
            format!("after {} s more rows were recorded than that", self.now().as_secs_f64()),
            "Record fewer flows or links or a shorter time (from, until), or raise \
         instruments.most_rows; written to a folder (--out), rows take little memory.",
        ))
    }

    /// Take rows that will not change any more, in whole groups of [`ROWS_A_GROUP`], first rows first; the tables at
    /// the end then lack them. Who writes them down keeps the run in bounded memory.
    pub fn take_groups(&mut self) -> Vec<Table> {
        match &mut self.inner {
            Inner::Quiet(_) => Vec::new(),
            Inner::Sparse(network) => network.probe.0.take_groups(),
            Inner::Recording(network) => network.probe.take_groups(),
        }
    }

    /// What the polls have recorded so far, copied, for who draws while the run goes on.
    pub fn polled(&self) -> Vec<Table> {
        self.recorder().map_or_else(Vec::new, Recorder::polled)
    }

    /// Names that the codes of `internals` stand for, so far: groups that were taken count in them.
    pub fn internals_names(&self) -> &[&'static str] {
        self.recorder().map_or(&[], Recorder::internals_names)
    }

    fn recorder(&self) -> Option<&Recorder> {
        match &self.inner {
            Inner::Quiet(_) => None,
            Inner::Sparse(network) => Some(&network.probe.0),
            Inner::Recording(network) => Some(&network.probe),
        }
    }

    /// Simulated time.
    pub fn now(&self) -> Time {
        each!(&self.inner, network => network.now)
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        each!(&self.inner, network => network.events)
    }

    /// The tables of what happened until now.
    pub fn finish(self) -> Tables {
        each!(self.inner, network => tables::collect(*network))
    }
}

/// The recorder that a scenario's instruments ask for, and what it polls; none if nothing is to be recorded.
fn instruments(scenario: &Scenario, parts: &Parts) -> Result<Option<(Recorder, Polling)>, ScenarioError> {
    let wanted = &scenario.instruments;
    let names = Names {
        flows: scenario.flows.iter().map(|flow| flow.name.as_str()).collect(),
        links: scenario.links.iter().map(|link| link.name.as_str()).collect(),
    };
    let (flows, packets_of) = recorded_flows(wanted, &names)?;
    let queues = recorded_queues(wanted, &names)?;
    let hosts = parts.flows.iter().map(|flow| flow.hosts).collect();
    let captures = Points::of(scenario, hosts)?.map(Captures::new);
    let window = Window::of(wanted);
    let polling = polling(wanted, &names, &window)?;
    if window.until <= window.from {
        return Err(refuse(
            "instruments.until_ps",
            window.until.as_ps(),
            "recording must end after it begins",
            "Give a later until, or none.",
        ));
    }
    let is_off = polling.next == Time::NEVER
        && captures.is_none()
        && flows.iter().all(|wanted| *wanted == Wanted::default())
        && !packets_of.contains(&true)
        && queues.iter().all(|events| *events == QueueEvents::None);
    if is_off {
        return Ok(None);
    }
    let path = PathRecorder::new(window, packets_of, queues);
    let recorder = Recorder::new(flows, path, wanted.internals).with_captures(captures);
    Ok(Some((recorder, polling)))
}

/// What instruments may name.
struct Names<'a> {
    flows: Vec<&'a str>,
    links: Vec<&'a str>,
}

impl Names<'_> {
    /// The numbers of the flows that an instrument names.
    fn flows(&self, instrument: &str, named: &[String]) -> Result<Vec<usize>, ScenarioError> {
        numbers("flow", instrument, named, &self.flows)
    }

    /// The numbers of the links that an instrument names.
    fn links(&self, instrument: &str, named: &[String]) -> Result<Vec<usize>, ScenarioError> {
        numbers("link", instrument, named, &self.links)
    }
}

fn numbers(
    kind: &str,
    instrument: &str,
    named: &[String],
    known: &[&str],
) -> Result<Vec<usize>, ScenarioError> {
    let each = named.iter().enumerate().map(|(number, name)| {
        let found = known.iter().position(|known| known == name);
        found.ok_or_else(|| unknown_name(kind, name, &format!("instruments.{instrument}[{number}]"), known))
    });
    each.collect()
}

/// What is recorded of each flow, and whether its packets are.
fn recorded_flows(
    wanted: &Instruments,
    names: &Names<'_>,
) -> Result<(Vec<Wanted>, Vec<bool>), ScenarioError> {
    let mut flows = vec![Wanted::default(); names.flows.len()];
    let mut packets_of = vec![false; names.flows.len()];
    for flow in names.flows("segments", &wanted.segments)? {
        flows[flow].segments = true;
    }
    for flow in names.flows("packets", &wanted.packets)? {
        packets_of[flow] = true;
    }
    for flow in names.flows("requests", &wanted.requests)? {
        flows[flow].requests = true;
    }
    for flow in names.flows("echoes", &wanted.echoes)? {
        flows[flow].echoes = true;
    }
    Ok((flows, packets_of))
}

/// Which events of each link's queue are recorded. Who wants every event gets drops and marks too.
fn recorded_queues(wanted: &Instruments, names: &Names<'_>) -> Result<Vec<QueueEvents>, ScenarioError> {
    let mut queues = vec![QueueEvents::None; names.links.len()];
    let all_events = names.links("queues", &wanted.queues)?;
    for link in names.links("drops", &wanted.drops)? {
        queues[link] = QueueEvents::Losses;
    }
    for link in all_events {
        queues[link] = QueueEvents::All;
    }
    Ok(queues)
}

/// Which flows and links are polled, and when first.
fn polling(wanted: &Instruments, names: &Names<'_>, window: &Window) -> Result<Polling, ScenarioError> {
    let flows = names.flows("polls", &wanted.polls)?;
    let links = names.links("queue_polls", &wanted.queue_polls)?;
    let has_polls = !flows.is_empty() || !links.is_empty();
    if has_polls && wanted.poll_interval_ps == 0 {
        return Err(refuse(
            "instruments.poll_interval_ps",
            0,
            "polling needs an interval",
            "Give poll_interval, such as \"1ms\".",
        ));
    }
    let interval = if has_polls { Duration::from_ps(wanted.poll_interval_ps) } else { Duration::ZERO };
    Ok(Polling {
        interval,
        // The first poll at or after the beginning of the recording, on the grid from time zero.
        next: if has_polls { window.from.ceil_to(interval) } else { Time::NEVER },
        flows: flows.into_iter().map(|flow| flow as u32).collect(),
        links: links.into_iter().map(|link| link as u32).collect(),
    })
}
