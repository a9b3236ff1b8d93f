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

use std::collections::BTreeMap;

pub use self::bounds::{Expected, MOST_FOREIGN, MOST_MEMORY, MOST_ROWS};
pub use self::build::switches;
use self::network::{Held, Network, Polling};
use self::parts::{Parts, refuse};
pub use self::tables::{ReceiverDropCounts, stack_faults};
use crate::cc::external::Makers;
use crate::foreign::{StackFault, Stacks};
use crate::link::Link;
use crate::params::unknown_name;
use crate::probe::captures::{Captures, Points};
use crate::probe::path::{PathRecorder, QueueEvents, Window};
pub use crate::probe::recorder::ROWS_A_GROUP;
use crate::probe::recorder::{Recorder, Sparse, Wanted};
use crate::probe::rows::StackFaultKind;
use crate::probe::{NoProbe, Probe, Table, Tables};
use crate::queue::external::{self, NO_MAKERS};
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
    most_memory: u64,
}

impl Simulation {
    /// Check the description and build the network.
    pub fn build(scenario: &Scenario) -> Result<Simulation, ScenarioError> {
        Simulation::build_with(scenario, &Makers::new())
    }

    /// As [`Simulation::build`], with the caller's own algorithms, which the scenario may name.
    pub fn build_with(scenario: &Scenario, makers: &Makers) -> Result<Simulation, ScenarioError> {
        Simulation::build_hosting(scenario, makers, &Stacks::new())
    }

    /// As [`Simulation::build_with`], with foreign stacks that flows may use instead of TCP.
    pub fn build_hosting(
        scenario: &Scenario,
        makers: &Makers,
        stacks: &Stacks,
    ) -> Result<Simulation, ScenarioError> {
        Simulation::build_queueing(scenario, makers, stacks, &NO_MAKERS)
    }

    /// As [`Simulation::build_hosting`], with the caller's own queue disciplines.
    pub fn build_queueing(
        scenario: &Scenario,
        makers: &Makers,
        stacks: &Stacks,
        queues: &external::Makers,
    ) -> Result<Simulation, ScenarioError> {
        let parts = build::build(scenario, makers, stacks, queues)?;
        let most_rows = bounds::most_rows(scenario, &parts)?;
        let inner = match instruments(scenario, &parts)? {
            None => Inner::Quiet(Box::new(Network::new(parts, NoProbe, Polling::default()))),
            Some((recorder, polling)) if !recorder.is_of_each() => {
                Inner::Sparse(Box::new(Network::new(parts, Sparse(recorder), polling)))
            }
            Some((recorder, polling)) => Inner::Recording(Box::new(Network::new(parts, recorder, polling))),
        };
        let most_memory = scenario.instruments.most_memory.unwrap_or(MOST_MEMORY);
        Ok(Simulation { inner, most_rows, most_memory })
    }

    /// Estimated size of a run of the scenario.
    pub fn expected(scenario: &Scenario) -> Result<Expected, ScenarioError> {
        Ok(bounds::expected(scenario, &build::build(scenario, &Makers::new(), &Stacks::new(), &NO_MAKERS)?))
    }

    /// Runs for about `most` more units of work (events, packets and rows), so that the caller regularly regains
    /// control, however little simulated time passes. Returns true when the run is over.
    ///
    /// An error if the run does so much work in so little simulated time that it would never end, or if it exceeds its
    /// limits on memory or connections.
    pub fn run_events(&mut self, most: u64) -> Result<bool, Box<ScenarioError>> {
        let (is_over, is_endless) =
            each!(&mut self.inner, network => (network.run(most), network.is_endless()));
        let (held, crowded) = each!(&self.inner, network => (network.held(), network.crowded));
        if let Some(flow) = crowded {
            return Err(Box::new(self.too_many_foreign(flow as usize)));
        }
        if held.bytes() > self.most_memory {
            return Err(Box::new(self.over_memory(held)));
        }
        if is_endless { Err(Box::new(self.endless())) } else { Ok(is_over) }
    }

    #[cold]
    fn over_memory(&self, held: Held) -> ScenarioError {
        refuse(
            "instruments.most_memory",
            format!("\"{} B\"", self.most_memory),
            format!(
                "after {} s the run had held {} packets and {} connections at once, about {} B",
                self.now().as_secs_f64(),
                held.packets,
                held.connections + held.foreign,
                held.bytes()
            ),
            "Give queues a limit, open fewer connections at once, or raise instruments.most_memory.",
        )
    }

    #[cold]
    fn too_many_foreign(&self, flow: usize) -> ScenarioError {
        let stack = each!(&self.inner, network => network.foreign_of(flow));
        refuse(
            format!("flows[{flow}].tcp.transport"),
            format!("{:?}", stack.name),
            format!(
                "after {} s flow {} wanted connection {} of those that QUIC stacks have open at once, and a run has at \
                 most {MOST_FOREIGN}",
                self.now().as_secs_f64(),
                stack.flow_name,
                MOST_FOREIGN + 1
            ),
            "Open fewer at once (count; of connection-vectors rate, prefill, copies or most), or leave out transport: \
             TCP has a million.",
        )
    }

    #[cold]
    fn endless(&self) -> ScenarioError {
        let named = each!(&self.inner, network => &network.links[..network.named_links]);
        let field = match named.iter().position(Link::has_no_rate) {
            Some(link) => format!("links[{link}].rate_bps"),
            None => "duration_ps".into(),
        };
        refuse(
            &field,
            "nothing",
            format!(
                "after {} s of simulated time the run had taken {} steps, so that it would never end",
                self.now().as_secs_f64(),
                self.events()
            ),
            "Give a rate to the link, or a delay of some microseconds; or run fewer flows.",
        )
    }

    /// Faults of foreign stacks. Each ended its flow.
    pub fn faults(&self) -> impl Iterator<Item = &StackFault> {
        each!(&self.inner, network => network.faults.iter()).map(|(_, _, fault)| fault)
    }

    /// Adds the source location of a panic to the latest fault; only the panic handler knows the location.
    pub fn name_panic(&mut self, place: &str) {
        let faults = each!(&mut self.inner, network => &mut network.faults);
        if let Some((_, _, fault)) = faults.last_mut() {
            if fault.kind == StackFaultKind::Panicked && !fault.what.contains(" at ") {
                fault.what += &format!(" at {place}");
            }
        }
    }

    /// An error once the run has recorded more rows than the scenario allows; the estimate before the run may be too
    /// low.
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

    /// Takes the oldest rows that will not change any more, in whole groups of [`ROWS_A_GROUP`]. The final tables then
    /// lack them. A caller that writes them to disk keeps the memory of a run bounded.
    pub fn take_groups(&mut self) -> Vec<Table> {
        match &mut self.inner {
            Inner::Quiet(_) => Vec::new(),
            Inner::Sparse(network) => network.probe.0.take_groups(),
            Inner::Recording(network) => network.probe.take_groups(),
        }
    }

    /// A copy of the rows that polls have recorded so far, for plotting during the run.
    pub fn polled(&self) -> Vec<Table> {
        self.recorder().map_or_else(Vec::new, Recorder::polled)
    }

    /// The names behind the codes in table `internals` so far, including those of groups already taken.
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

    /// Current simulated time.
    pub fn now(&self) -> Time {
        each!(&self.inner, network => network.now)
    }

    /// Number of events so far.
    pub fn events(&self) -> u64 {
        each!(&self.inner, network => network.events)
    }

    /// The tables of the run so far.
    pub fn finish(self) -> Tables {
        each!(self.inner, network => tables::collect(*network))
    }
}

/// The recorder that a scenario's instruments need, and what it polls; `None` if they record nothing.
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

/// Names that instruments may refer to.
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
    let by_name: BTreeMap<&str, usize> =
        known.iter().rev().zip((0..known.len()).rev()).map(|(name, number)| (*name, number)).collect();
    let each = named.iter().enumerate().map(|(number, name)| {
        let found = by_name.get(name.as_str()).copied();
        found.ok_or_else(|| unknown_name(kind, name, &format!("instruments.{instrument}[{number}]"), known))
    });
    each.collect()
}

/// What to record of each flow, and whether that includes its packets.
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

/// Which events of each link's queue to record. A link with every event also has drops and marks.
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

/// Which flows and links to poll, and when to begin.
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
