//! From a description to a network: names resolved, routes found, every value checked before time zero.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::network::{Ends, Flow};
use crate::cc::registry as cc;
use crate::link::Link;
use crate::params::unknown_name;
use crate::rng::Stream;
use crate::scenario::{FlowSpec, LinkSpec, QueueSpec, Scenario, ScenarioError, TcpSpec, WireSpec};
use crate::tcp::endpoint::{Endpoint, Setup};
use crate::tcp::segment::{HEADERS, TIMESTAMP_OPTION};
use crate::tcp::stack::Stack;
use crate::time::{Duration, Time};
use crate::traffic::registry as apps;
use crate::traffic::{Application, Transport};

/// The smallest IP packet every host must take (RFC 791), and the largest there is.
const MTU_RANGE: (u32, u32) = (68, 65_535);
/// Runs longer than this are a mistake of units.
const LONGEST_RUN_PS: u64 = 30 * 86_400 * 1_000_000_000_000;

/// A network before its first event.
pub struct Parts {
    pub links: Vec<Link>,
    /// How many of `links` the scenario names; the rest hold packets for processing jitter.
    pub named_links: usize,
    pub flows: Vec<Flow>,
    pub endpoints: Vec<Endpoint>,
    pub end: Time,
}

pub fn refuse(
    field: impl Into<String>,
    value: impl ToString,
    problem: impl Into<String>,
    fix: impl Into<String>,
) -> ScenarioError {
    ScenarioError { field: field.into(), value: value.to_string(), problem: problem.into(), fix: fix.into() }
}

/// Names to numbers, refusing a name given twice.
fn index<'a>(
    what: &str,
    names: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<&'a str, usize>, ScenarioError> {
    let mut known = BTreeMap::new();
    for (number, name) in names.enumerate() {
        if name.is_empty() {
            return Err(refuse(
                format!("{what}[{number}].name"),
                "\"\"",
                "a name is empty",
                "Give it a name.",
            ));
        }
        if known.insert(name, number).is_some() {
            return Err(refuse(
                format!("{what}[{number}].name"),
                format!("{name:?}"),
                "this name is used twice",
                "Give each one a name of its own.",
            ));
        }
    }
    Ok(known)
}

fn lookup(
    known: &BTreeMap<&str, usize>,
    kind: &str,
    name: &str,
    field: &str,
) -> Result<usize, ScenarioError> {
    known.get(name).copied().ok_or_else(|| {
        let names: Vec<&str> = known.keys().copied().collect();
        unknown_name(kind, name, field, &names)
    })
}

pub fn build(scenario: &Scenario) -> Result<Parts, ScenarioError> {
    if scenario.format != 1 {
        return Err(refuse("format", scenario.format, "this engine reads format 1", "Write format = 1."));
    }
    if scenario.duration_ps == 0 || scenario.duration_ps > LONGEST_RUN_PS {
        return Err(refuse(
            "duration_ps",
            scenario.duration_ps,
            "a run lasts more than nothing and at most 30 days",
            "Give a duration such as \"60s\".",
        ));
    }
    let end = Time::from_ps(scenario.duration_ps);
    let nodes = index("nodes", scenario.nodes.iter().map(String::as_str))?;
    let named = index("links", scenario.links.iter().map(|link| link.name.as_str()))?;
    index("flows", scenario.flows.iter().map(|flow| flow.name.as_str()))?;
    if scenario.flows.is_empty() {
        return Err(refuse("flows", "[]", "nothing to simulate", "Describe at least one flow."));
    }

    let mut links = Vec::new();
    let mut ends = Vec::new();
    for (number, spec) in scenario.links.iter().enumerate() {
        let from = lookup(&nodes, "node", &spec.from, &format!("links[{number}].from"))?;
        let to = lookup(&nodes, "node", &spec.to, &format!("links[{number}].to"))?;
        if from == to {
            return Err(refuse(
                format!("links[{number}].to"),
                format!("{:?}", spec.to),
                "a link must join two different nodes",
                "Name another node.",
            ));
        }
        ends.push((from, to));
        links.push(Link::build(spec, number, scenario.seed)?);
    }
    let named_links = links.len();

    let graph = Graph { nodes: nodes.len(), ends: &ends, named: &named };
    let mut flows = Vec::new();
    let mut endpoints = Vec::new();
    for (number, spec) in scenario.flows.iter().enumerate() {
        let path = format!("flows[{number}]");
        let from = lookup(&nodes, "node", &spec.from, &format!("{path}.from"))?;
        let to = lookup(&nodes, "node", &spec.to, &format!("{path}.to"))?;
        if from == to {
            return Err(refuse(
                format!("{path}.to"),
                format!("{:?}", spec.to),
                "a flow must join two different nodes",
                "Name another node.",
            ));
        }
        let mut route = graph.route(spec.route.as_deref(), from, to, &format!("{path}.route"), spec)?;
        let mut back =
            graph.route(spec.back_route.as_deref(), to, from, &format!("{path}.back_route"), spec)?;
        for (direction, route) in [("from", &mut route), ("to", &mut back)] {
            if scenario.randomness.processing_jitter_ps > 0 {
                let name = format!("flow/{}/{direction}", spec.name);
                links.push(jitter(name, scenario.randomness.processing_jitter_ps, scenario.seed)?);
                route.insert(0, (links.len() - 1) as u32);
            }
        }
        let app_seed = Stream::named(scenario.seed, &format!("flow/{}/app", spec.name)).bits();
        let app = apps::build(&spec.app.kind, &spec.app.params, &format!("{path}.app"), app_seed)?;
        let ends = match (app.transport(), &spec.tcp) {
            (Transport::Udp, None) => Ends::Udp,
            (Transport::Udp, Some(_)) => {
                return Err(refuse(
                    format!("{path}.tcp"),
                    "a tcp section",
                    format!("application {} sends datagrams", spec.app.kind),
                    "Leave out the TCP settings.",
                ));
            }
            (Transport::Tcp, None) => {
                return Err(refuse(
                    format!("{path}.tcp"),
                    "nothing",
                    format!("application {} needs TCP settings", spec.app.kind),
                    "Add at least stack and cc.",
                ));
            }
            (Transport::Tcp, Some(tcp)) => {
                let client = endpoints.len() as u32;
                let [one, other] = connection(tcp, spec, &path, client, scenario.seed)?;
                endpoints.push(one);
                endpoints.push(other);
                Ends::Tcp { client, server: client + 1 }
            }
        };
        let spread = Duration::from_ps(scenario.randomness.start_spread_ps);
        let shift = Stream::named(scenario.seed, &format!("flow/{}/start", spec.name)).duration_up_to(spread);
        let stop = spec.stop_ps.map_or(Time::NEVER, Time::from_ps);
        if stop != Time::NEVER && stop <= Time::from_ps(spec.start_ps) {
            return Err(refuse(
                format!("{path}.stop_ps"),
                stop.as_ps(),
                "a flow must stop after it starts",
                "Give a later stop.",
            ));
        }
        if spec.start_ps >= scenario.duration_ps {
            return Err(refuse(
                format!("{path}.start_ps"),
                spec.start_ps,
                "the flow would start after the run ends",
                "Start it earlier or run longer.",
            ));
        }
        flows.push(Flow::new(route, back, app, ends, Time::from_ps(spec.start_ps) + shift, stop));
    }
    Ok(Parts { links, named_links, flows, endpoints, end })
}

/// An infinitely fast link that holds each packet for a random time without reordering.
fn jitter(name: String, jitter_ps: u64, seed: u64) -> Result<Link, ScenarioError> {
    let spec = LinkSpec {
        name,
        from: String::new(),
        to: String::new(),
        rate_bps: None,
        delay_ps: 0,
        tick_hz: None,
        queue: QueueSpec::unlimited(),
        wire: WireSpec { jitter_ps, ..WireSpec::default() },
        ..LinkSpec::default()
    };
    Link::build(&spec, usize::MAX, seed)
        .map_err(|error| ScenarioError { field: "randomness.processing_jitter_ps".into(), ..error })
}

fn connection(
    tcp: &TcpSpec,
    flow: &FlowSpec,
    path: &str,
    client: u32,
    seed: u64,
) -> Result<[Endpoint; 2], ScenarioError> {
    let (low, high) = MTU_RANGE;
    if tcp.mtu < low || tcp.mtu > high {
        return Err(refuse(
            format!("{path}.tcp.mtu"),
            tcp.mtu,
            format!("an IP packet has {low} to {high} bytes"),
            "Give an MTU such as \"1500B\".",
        ));
    }
    for (name, buffer) in [("send_buffer", tcp.send_buffer), ("receive_buffer", tcp.receive_buffer)] {
        if buffer.is_some_and(|bytes| bytes < u64::from(tcp.mtu) || bytes > 1 << 40) {
            return Err(refuse(
                format!("{path}.tcp.{name}"),
                buffer.unwrap_or_default(),
                "a buffer holds at least one packet and at most 1 TiB",
                "Give a size such as \"4MiB\".",
            ));
        }
    }
    let mut stacks = Vec::new();
    for (name, field) in
        [(&tcp.stack, "stack"), (tcp.receiver_stack.as_ref().unwrap_or(&tcp.stack), "receiver_stack")]
    {
        let mut stack = Stack::named(name, &format!("{path}.tcp.{field}"))?;
        for (key, value) in &tcp.stack_params {
            stack.set(key, value, &format!("{path}.tcp.stack_params.{key}"))?;
        }
        stacks.push(stack);
    }
    // RFC 9293 section 3.7.1: an option is in force only if both ends offer it.
    let (sack, timestamps, scaling, ecn) = (
        stacks.iter().all(|stack| stack.sack),
        stacks.iter().all(|stack| stack.timestamps),
        stacks.iter().all(|stack| stack.window_scaling),
        stacks.iter().all(|stack| stack.ecn),
    );
    let mss = tcp.mtu - HEADERS - if timestamps { TIMESTAMP_OPTION } else { 0 };
    let make = |which: usize| -> Result<Endpoint, ScenarioError> {
        let mut stack = stacks[which].clone();
        (stack.sack, stack.timestamps, stack.window_scaling, stack.ecn) = (sack, timestamps, scaling, ecn);
        let name = if which == 0 { &tcp.stack } else { tcp.receiver_stack.as_ref().unwrap_or(&tcp.stack) };
        let stream = format!("flow/{}/{}", flow.name, if which == 0 { "client" } else { "server" });
        let algorithm = cc::build_preferring(
            &tcp.cc,
            &tcp.cc_params,
            &format!("{path}.tcp"),
            Stream::named(seed, &stream).bits(),
            &preferred_variants(name),
        )?;
        let send_buffer = tcp.send_buffer.unwrap_or(stack.send_buffer);
        let receive_buffer = tcp.receive_buffer.unwrap_or(stack.receive_buffer);
        Ok(Endpoint::new(Setup {
            stack: Arc::new(stack),
            algorithm,
            mss,
            send_buffer,
            receive_buffer,
            peer: client + 1 - which as u32,
        }))
    };
    let one = make(0)?;
    let mut other = make(1)?;
    other.listen();
    Ok([one, other])
}

/// The variants of an algorithm that belong to a stack: its own name, then its system's.
fn preferred_variants(stack: &str) -> Vec<&str> {
    let system = stack.split('-').next().unwrap_or(stack);
    if system == stack { vec![stack] } else { vec![stack, system] }
}

struct Graph<'a> {
    nodes: usize,
    ends: &'a [(usize, usize)],
    named: &'a BTreeMap<&'a str, usize>,
}

impl Graph<'_> {
    fn route(
        &self,
        given: Option<&[String]>,
        from: usize,
        to: usize,
        field: &str,
        flow: &FlowSpec,
    ) -> Result<Vec<u32>, ScenarioError> {
        let route = match given {
            Some(names) => self.given(names, from, to, field)?,
            None => self.shortest(from, to).ok_or_else(|| {
                let back = field.ends_with("back_route");
                let (start, goal) = if back { (&flow.to, &flow.from) } else { (&flow.from, &flow.to) };
                refuse(
                    field,
                    "nothing",
                    format!("there is no path of links from {start} to {goal}"),
                    "Add a link in this direction, or name the links of the route.",
                )
            })?,
        };
        if route.len() > 250 {
            return Err(refuse(field, route.len(), "a route has at most 250 links", "Shorten it."));
        }
        Ok(route)
    }

    fn given(
        &self,
        names: &[String],
        from: usize,
        to: usize,
        field: &str,
    ) -> Result<Vec<u32>, ScenarioError> {
        let mut at = from;
        let mut route = Vec::new();
        for (hop, name) in names.iter().enumerate() {
            let link = lookup(self.named, "link", name, &format!("{field}[{hop}]"))?;
            if self.ends[link].0 != at {
                return Err(refuse(
                    format!("{field}[{hop}]"),
                    format!("{name:?}"),
                    "this link does not begin where the one before it ends",
                    "List the links in order from the flow's sender.",
                ));
            }
            at = self.ends[link].1;
            route.push(link as u32);
        }
        if at != to || route.is_empty() {
            return Err(refuse(
                field,
                format!("{names:?}"),
                "the route ends elsewhere",
                "Add the missing links.",
            ));
        }
        Ok(route)
    }

    /// Fewest hops; among equals the links listed first.
    fn shortest(&self, from: usize, to: usize) -> Option<Vec<u32>> {
        let mut by: Vec<Option<usize>> = vec![None; self.nodes];
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for (link, &(start, goal)) in self.ends.iter().enumerate() {
                if start == node && goal != from && by[goal].is_none() {
                    by[goal] = Some(link);
                    queue.push_back(goal);
                }
            }
        }
        let mut route = Vec::new();
        let mut at = to;
        while at != from {
            let link = by[at]?;
            route.push(link as u32);
            at = self.ends[link].0;
        }
        route.reverse();
        Some(route)
    }
}
