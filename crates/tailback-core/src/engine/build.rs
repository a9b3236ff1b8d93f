//! Builds a network from a scenario: resolves names, follows routes and checks every value before time zero.

mod stacks;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Display};
use std::rc::Rc;
use std::sync::Arc;

use super::connections::{Blueprint, Recipe};
use super::foreign::{Failed, Foreign};
use super::network::flow::Flow;
use super::network::foreign::NOT_FOREIGN;
use super::parts::{Parts, refuse};
use super::tunnels;
use super::{bounds, loads};
use crate::cc::external::Makers;
use crate::cc::registry::cards;
use crate::foreign::Stacks;
use crate::link::Link;
use crate::link::channel;
use crate::packet::Ecn;
use crate::params::unknown_name;
use crate::queue::{self, registry::Context};
use crate::rng::Stream;
use crate::scenario::{FlowSpec, LinkSpec, Params, Period, Scenario, ScenarioError, TcpSpec, WireSpec};
use crate::tcp::segment::{TCP_HEADER, TIMESTAMP_OPTION};
use crate::tcp::stack::{EcnMode, Stack};
use crate::time::{Duration, Time};
use crate::traffic::registry as apps;
use crate::traffic::{Application, Needs, Transport};
use stacks::{agreed_stacks, check_l4s, check_sizes, preferred_variants, receiver_stack};

/// A longer run is treated as a mistake of units.
const LONGEST_RUN_PS: u64 = 30 * 86_400 * 1_000_000_000_000;

/// Maps names to numbers. A name given twice is an error.
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
    field: impl Display,
) -> Result<usize, ScenarioError> {
    known.get(name).copied().ok_or_else(|| {
        let names: Vec<&str> = known.keys().copied().collect();
        unknown_name(kind, name, &field.to_string(), &names)
    })
}

/// Path of a flow in the scenario, by its number. It is formatted only for an error.
#[derive(Clone, Copy)]
struct At(usize);

impl Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flows[{}]", self.0)
    }
}

pub fn build(
    scenario: &Scenario,
    makers: &Makers,
    stacks: &Stacks,
    queues: &queue::external::Makers,
) -> Result<Parts, ScenarioError> {
    check_run(scenario, makers)?;
    let end = Time::from_ps(scenario.duration_ps);
    let nodes = index("nodes", scenario.nodes.iter().map(String::as_str))?;
    let named = index("links", scenario.links.iter().map(|link| link.name.as_str()))?;
    index("flows", scenario.flows.iter().map(|flow| flow.name.as_str()))?;
    if scenario.flows.is_empty() {
        return Err(refuse("flows", "[]", "nothing to simulate", "Describe at least one flow."));
    }

    let (mut links, ends) = named_links_of(scenario, &nodes, queues)?;
    let channels = channel::build(&scenario.links, &mut links, scenario.seed)?;
    let named_links = links.len();

    let building =
        Building { scenario, makers, stacks, nodes: &nodes, graph: Graph { ends: &ends, named: &named } };
    let mut made = Made {
        links,
        loads: vec![0.0; named_links],
        taken: vec![None; named_links],
        known: Known::default(),
        foreign: Vec::new(),
    };
    let mut flows = Vec::with_capacity(scenario.flows.len());
    for (number, spec) in scenario.flows.iter().enumerate() {
        let flow = building.flow(number, spec, &mut made)?;
        bounds::refuse_timeless(number, spec, &flow, &made.links, named_links)?;
        flows.push(flow);
    }
    tunnels::join(scenario, &mut flows)?;
    let Made { links, loads, foreign, .. } = made;
    let warnings = loads::warnings(scenario, &links, &flows, loads);
    Ok(Parts { links, channels, named_links, flows, foreign, end, warnings })
}

/// Shared input for building every flow.
struct Building<'a> {
    scenario: &'a Scenario,
    makers: &'a Makers,
    stacks: &'a Stacks,
    nodes: &'a BTreeMap<&'a str, usize>,
    graph: Graph<'a>,
}

/// Output that every flow adds to.
struct Made {
    /// The scenario's links, then the links of single flows.
    links: Vec<Link>,
    /// Offered load of each named link, in bit/s.
    loads: Vec<f64>,
    /// For each named link, the last MTU that it was checked against and accepted.
    taken: Vec<Option<u32>>,
    known: Known,
    foreign: Vec<Foreign>,
}

/// Stacks and recipes that several flows share, each stored once.
#[derive(Default)]
struct Known {
    /// Shared, a stack stays in the cache however many flows there are.
    stacks: Vec<Arc<Stack>>,
    /// Shared, because checking a recipe takes longer than the rest of a flow.
    recipes: Vec<Rc<Recipe>>,
}

/// Number of recent entries searched for an equal one, so that building many different flows stays linear.
const LATEST: usize = 16;

impl Known {
    fn stack(&mut self, stack: Stack) -> Arc<Stack> {
        let same = self.stacks.iter().rev().take(LATEST).find(|same| ***same == stack).cloned();
        same.unwrap_or_else(|| {
            self.stacks.push(Arc::new(stack));
            self.stacks[self.stacks.len() - 1].clone()
        })
    }

    /// See [`Recipe::new`].
    fn recipe(
        &mut self,
        name: &str,
        params: &Params,
        variants: &[&str],
        makers: &Makers,
        path: impl Display,
    ) -> Result<Rc<Recipe>, ScenarioError> {
        let same = self.recipes.iter().rev().take(LATEST).find(|same| same.is_of(name, params, variants));
        if let Some(same) = same {
            return Ok(same.clone());
        }
        self.recipes.push(Rc::new(Recipe::new(name, params, variants, makers, &path.to_string())?));
        Ok(self.recipes[self.recipes.len() - 1].clone())
    }
}

impl Building<'_> {
    /// Builds one flow: its route, its application, its connections' blueprints and its own links.
    fn flow(&self, number: usize, spec: &FlowSpec, made: &mut Made) -> Result<Flow, ScenarioError> {
        let (scenario, path) = (self.scenario, At(number));
        let [from, to] = self.hosts(spec, path)?;
        let mut route = self.graph.route(&spec.route, from, to, format_args!("{path}.route"))?;
        let mut back = self.graph.route(&spec.back_route, to, from, format_args!("{path}.back_route"))?;
        if let Some(tcp) = &spec.tcp {
            for number in route.iter().chain(&back).map(|link| *link as usize) {
                if made.taken[number].replace(tcp.mtu) != Some(tcp.mtu) {
                    made.links[number].must_take(&scenario.links[number], number, tcp.mtu)?;
                }
            }
        }
        let app_seed = Stream::named_by(scenario.seed, ["flow/", &spec.name, "/app"]).bits();
        let app = apps::build(&spec.app.kind, &spec.app.params, format_args!("{path}.app"), app_seed)?;
        let needs = app.needs();
        for (route, load) in [(&route, needs.load_bps[0]), (&back, needs.load_bps[1])] {
            route.iter().for_each(|link| made.loads[*link as usize] += load);
        }
        for (direction, route) in [("from", &mut route), ("to", &mut back)] {
            if let Some(jitter) = jitter(spec, direction, scenario)? {
                made.links.push(jitter);
                route.insert(0, (made.links.len() - 1) as u32);
            }
        }
        let tcp = settings(app.transport(), spec, path)?;
        let (foreign, tcp) = match tcp.and_then(|tcp| tcp.transport.as_deref().map(|name| (tcp, name))) {
            None => (NOT_FOREIGN, tcp),
            Some((tcp, name)) => {
                made.foreign.push(self.foreign(number, spec, tcp, name, &needs)?);
                (made.foreign.len() as u32 - 1, None)
            }
        };
        let plan = tcp.map(|tcp| self.connection(tcp, spec, &needs, path, &mut made.known));
        let plan = plan.transpose()?.map(Box::new);
        let paths = own_paths(spec, &needs, scenario.seed, &mut made.links)?;
        // A connection's own path comes first and replaces the first link.
        if let Some(&[there, home]) = paths.first() {
            route.insert(0, there);
            back.insert(0, home);
        }
        if let Some(plan) = &plan {
            let firsts = if paths.is_empty() { vec![[route[0], back[0]]] } else { paths.clone() };
            for (end, first) in firsts.iter().flat_map(|firsts| firsts.iter().enumerate()) {
                if plan[end].stack.small_queue.is_some() {
                    made.links[*first as usize].report_departures();
                }
            }
        }
        let mut flow = Flow::new(app, route, back, switches(spec, scenario, path)?);
        flow.foreign = foreign;
        (flow.plan, flow.paths, flow.hosts) = (plan, paths, [from as u32, to as u32]);
        (flow.wants_datagrams, flow.is_crowd) = (needs.datagrams, needs.crowd);
        flow.beyond_v4 = spec.ip.beyond_v4();
        flow.ecn = if needs.ecn { Ecn::Ect0 } else { Ecn::NotEct };
        Ok(flow)
    }

    /// The client's and the server's node of a flow.
    fn hosts(&self, spec: &FlowSpec, path: At) -> Result<[usize; 2], ScenarioError> {
        let from = lookup(self.nodes, "node", &spec.from, format_args!("{path}.from"))?;
        let to = lookup(self.nodes, "node", &spec.to, format_args!("{path}.to"))?;
        if from == to {
            return Err(refuse(
                format!("{path}.to"),
                format!("{:?}", spec.to),
                "a flow must join two different nodes",
                "Name another node.",
            ));
        }
        Ok([from, to])
    }

    /// Checks the connections of a flow and returns how to make them.
    fn connection(
        &self,
        tcp: &TcpSpec,
        flow: &FlowSpec,
        needs: &Needs,
        path: At,
        known: &mut Known,
    ) -> Result<[Blueprint; 2], ScenarioError> {
        check_sizes(flow, tcp, path)?;
        let stacks = agreed_stacks(tcp, path)?;
        if stacks[0].ecn == EcnMode::L4s {
            check_l4s(tcp, self.makers, path)?;
        }
        let mss =
            tcp.mtu - flow.ip.header() - TCP_HEADER - if stacks[0].timestamps { TIMESTAMP_OPTION } else { 0 };
        let mss = needs.segment.map_or(mss, |bytes| bytes.min(mss));
        let most = needs.window.unwrap_or(u64::MAX);
        let mut make = |mut stack: Stack, name: &str, side: &str| -> Result<Blueprint, ScenarioError> {
            let host: &str = if side == "client" { &flow.from } else { &flow.to };
            stack.ip_header = flow.ip.header();
            stack.start_ticks(Stream::named_by(self.scenario.seed, ["host/", host, "/ticks"]));
            let algorithms = self.algorithms(tcp, name, path, known)?;
            let (mut send_buffer, mut receive_buffer) = (stack.send_buffer, stack.receive_buffer);
            if let Some(window) = needs.window {
                // The receiver offers its stack's share of the buffer: twice the window suffices for every stack.
                (send_buffer, receive_buffer) = (window, receive_buffer.max(2 * window));
            }
            if tcp.receive_buffer.is_some() || needs.window.is_some() {
                // A receive buffer that the scenario sets (SO_RCVBUF) does not grow.
                stack.initial_receive_buffer = None;
            }
            if tcp.send_buffer.is_some() || needs.window.is_some() {
                // A send buffer that the scenario sets (SO_SNDBUF) does not grow.
                stack.send_buffer_grows = false;
            }
            if needs.window.is_some() {
                // An application's limit counts payload only.
                stack.send_bookkeeping = 0;
            }
            Ok(Blueprint {
                stack: known.stack(stack),
                mss,
                send_buffer: tcp.send_buffer.unwrap_or(send_buffer).min(most),
                receive_buffer: tcp.receive_buffer.unwrap_or(receive_buffer),
                read_rate: needs.read_rate,
                algorithms,
                seeds: Stream::named_by(self.scenario.seed, ["flow/", &flow.name, "/", side]),
            })
        };
        let [client, server] = stacks;
        Ok([make(client, &tcp.stack, "client")?, make(server, receiver_stack(tcp), "server")?])
    }

    /// Checks a flow of a foreign stack and builds it.
    fn foreign(
        &self,
        number: usize,
        spec: &FlowSpec,
        tcp: &TcpSpec,
        name: &str,
        needs: &Needs,
    ) -> Result<Foreign, ScenarioError> {
        let path = format!("flows[{number}].tcp");
        let Some(stack) = self.stacks.get(name) else {
            let known: Vec<&str> = self.stacks.keys().map(String::as_str).collect();
            return Err(match known.is_empty() {
                false => unknown_name("transport", name, &format!("{path}.transport"), &known),
                true => refuse(
                    format!("{path}.transport"),
                    format!("{name:?}"),
                    "this build of tailback has no stack but its own TCP",
                    "Leave transport away, or build with the feature quic.",
                ),
            });
        };
        check_sizes(spec, tcp, At(number))?;
        let least_mtu = stack.least_mtu() + spec.ip.beyond_v4();
        if tcp.mtu < least_mtu {
            let problem = format!("{name} needs an MTU of {least_mtu} B or more");
            return Err(refuse(format!("{path}.mtu"), tcp.mtu, problem, "Raise mtu."));
        }
        if let Some(field) = tcp.stack_params.keys().next() {
            return Err(refuse(
                format!("{path}.stack_params.{field}"),
                "a value",
                format!("{name} has no fields of a TCP stack"),
                "Remove it.",
            ));
        }
        if tcp.receiver_stack.is_some() {
            return Err(refuse(
                format!("{path}.receiver_stack"),
                "a name",
                format!("both ends of a connection are {name}'s"),
                "Remove receiver_stack.",
            ));
        }
        // A foreign stack does not support what an application needs of TCP's buffers, segments or access paths.
        let plain = Needs { load_bps: needs.load_bps, crowd: needs.crowd, ..Needs::default() };
        if *needs != plain || apps::traits(&spec.app.kind).carries_packets {
            return Err(refuse(
                format!("flows[{number}].app.kind"),
                format!("{:?}", spec.app.kind),
                format!("with these parameters it asks more of its transport than {name} can be asked"),
                "Use bulk or transfers, without read_rate, window or paths of their own; or leave transport away.",
            ));
        }
        let mut algorithms = Vec::new();
        let first = (&tcp.cc, &tcp.cc_params, path.clone());
        let turns = tcp.cc_turns.iter().enumerate();
        let turns = turns.map(|(turn, it)| (&it.cc, &it.cc_params, format!("{path}.cc_turns[{turn}]")));
        for (cc, params, place) in std::iter::once(first).chain(turns) {
            if !stack.algorithms().contains(&cc.as_str()) {
                let kind = format!("congestion control of {name}");
                return Err(unknown_name(&kind, cc, &format!("{place}.cc"), stack.algorithms()));
            }
            stack.check(cc, params).map_err(|problem| {
                refuse(
                    format!("{place}.cc_params"),
                    format!("{:?}", params.keys().collect::<Vec<_>>()),
                    problem,
                    "Remove it.",
                )
            })?;
            algorithms.push((cc.clone(), params.clone()));
        }
        Ok(Foreign {
            flow: number as u32,
            flow_name: spec.name.clone(),
            name: name.into(),
            stack: stack.clone(),
            algorithms,
            mtu: tcp.mtu - spec.ip.beyond_v4(),
            send_buffer: tcp.send_buffer,
            receive_buffer: tcp.receive_buffer,
            seeds: Stream::named(self.scenario.seed, &format!("flow/{}/client", spec.name)),
            scenario: (self.scenario.name.clone(), self.scenario.seed),
            live: Vec::new(),
            opened: 0,
            under_way: 0,
            busy_at: Time::ZERO,
            busy: 0,
            failed: Failed::default(),
            is_faulty: false,
        })
    }

    /// The algorithms that the connections at an end use in turn.
    fn algorithms(
        &self,
        tcp: &TcpSpec,
        stack: &str,
        path: At,
        known: &mut Known,
    ) -> Result<Vec<Rc<Recipe>>, ScenarioError> {
        let variants = preferred_variants(stack);
        let mut recipe = |cc: &str, params, place: fmt::Arguments<'_>| {
            known.recipe(cc, params, &variants, self.makers, place)
        };
        let mut all = vec![recipe(&tcp.cc, &tcp.cc_params, format_args!("{path}.tcp"))?];
        for (turn, next) in tcp.cc_turns.iter().enumerate() {
            all.push(recipe(&next.cc, &next.cc_params, format_args!("{path}.tcp.cc_turns[{turn}]"))?);
        }
        Ok(all)
    }
}

/// An error if a setting of the whole run is invalid.
fn check_run(scenario: &Scenario, makers: &Makers) -> Result<(), ScenarioError> {
    if let Some(name) = makers.keys().find(|name| cards().iter().any(|card| card.name == *name)) {
        return Err(refuse(
            "",
            format!("{name:?}"),
            "this algorithm has the name of a built-in one",
            "Give it a name of its own.",
        ));
    }
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
    Ok(())
}

/// Node indices of a link's two ends: where it begins and where it leads.
type Ends = (usize, usize);

/// The links that the scenario names, with the nodes that each joins.
fn named_links_of(
    scenario: &Scenario,
    nodes: &BTreeMap<&str, usize>,
    queues: &queue::external::Makers,
) -> Result<(Vec<Link>, Vec<Ends>), ScenarioError> {
    let mut links = Vec::new();
    let mut ends = Vec::new();
    for (number, spec) in scenario.links.iter().enumerate() {
        let from = lookup(nodes, "node", &spec.from, format_args!("links[{number}].from"))?;
        let to = lookup(nodes, "node", &spec.to, format_args!("links[{number}].to"))?;
        if from == to {
            return Err(refuse(
                format!("links[{number}].to"),
                format!("{:?}", spec.to),
                "a link must join two different nodes",
                "Name another node.",
            ));
        }
        ends.push((from, to));
        let context = Context { flows: &scenario.flows, makers: queues };
        links.push(Link::build_within(spec, number, scenario.seed, context)?);
    }
    Ok((links, ends))
}

/// The link that delays a flow's packets by the processing jitter of this end's host and by the flow's own access
/// delay; `None` if both are zero.
fn jitter(spec: &FlowSpec, direction: &str, scenario: &Scenario) -> Result<Option<Link>, ScenarioError> {
    let jitter_ps = scenario.randomness.processing_jitter_ps;
    if !scenario.holds_at_hosts() {
        return Ok(None);
    }
    let delay = if direction == "from" { scenario.drawn_access_delay(&spec.name) } else { Duration::ZERO };
    let name = format!("flow/{}/{direction}", spec.name);
    let wire = WireSpec { jitter_ps, ..WireSpec::default() };
    let built = hidden(name, delay, wire, scenario.seed);
    built
        .map(Some)
        .map_err(|error| ScenarioError { field: "randomness.processing_jitter_ps".into(), ..error })
}

/// A flow's TCP settings. An error if its application needs them and they are missing, or the other way round.
fn settings(transport: Transport, spec: &FlowSpec, path: At) -> Result<Option<&TcpSpec>, ScenarioError> {
    match (transport, &spec.tcp) {
        (Transport::Udp, None) => Ok(None),
        (Transport::Tcp, Some(tcp)) => Ok(Some(tcp)),
        (Transport::Udp, Some(_)) => Err(refuse(
            format!("{path}.tcp"),
            "a tcp section",
            format!("application {} sends datagrams", spec.app.kind),
            "Leave out the TCP settings.",
        )),
        (Transport::Tcp, None) => Err(refuse(
            format!("{path}.tcp"),
            "nothing",
            format!("application {} needs TCP settings", spec.app.kind),
            "Add at least stack and cc.",
        )),
    }
}

/// The forward and the reverse links that an application's connections have to themselves.
fn own_paths(
    spec: &FlowSpec,
    needs: &Needs,
    seed: u64,
    links: &mut Vec<Link>,
) -> Result<Vec<[u32; 2]>, ScenarioError> {
    let mut paths = Vec::new();
    for (number, delay) in needs.paths.iter().enumerate() {
        for direction in ["from", "to"] {
            let name = format!("flow/{}/path/{number}/{direction}", spec.name);
            links.push(hidden(name, *delay, WireSpec::default(), seed)?);
        }
        paths.push([links.len() as u32 - 2, links.len() as u32 - 1]);
    }
    Ok(paths)
}

/// The times at which a flow starts and stops, alternating. Errors name times below `path`, such as `flows[0]`.
pub fn switches(
    spec: &FlowSpec,
    scenario: &Scenario,
    path: impl Display,
) -> Result<VecDeque<Time>, ScenarioError> {
    let spread = Duration::from_ps(scenario.randomness.start_spread_ps);
    let shift = Stream::named_by(scenario.seed, ["flow/", &spec.name, "/start"]).duration_up_to(spread);
    let first = Period { start_ps: spec.start_ps, stop_ps: spec.stop_ps };
    let mut switches = VecDeque::new();
    let mut free_from = Some(0);
    for (number, period) in [first].iter().chain(&spec.again).enumerate() {
        let at = |what: &str| match number {
            0 => format!("{path}.{what}"),
            _ => format!("{path}.again[{}].{what}", number - 1),
        };
        let (start, stop) = (period.start_ps, period.stop_ps);
        if free_from.is_none_or(|free_from| start < free_from) {
            return Err(refuse(
                at("start_ps"),
                start,
                "the flow would start before the stop that precedes it",
                "Stop it first, and list the times in order.",
            ));
        }
        if stop.is_some_and(|stop| stop <= start) {
            return Err(refuse(
                at("stop_ps"),
                stop.unwrap_or_default(),
                "a flow must stop after it starts",
                "Give a later stop.",
            ));
        }
        if start >= scenario.duration_ps {
            return Err(refuse(
                at("start_ps"),
                start,
                "the flow would start after the run ends",
                "Start it earlier or run longer.",
            ));
        }
        // The spread may move a start beyond its stop; the stop then follows at once.
        let start = Time::from_ps(start) + shift;
        let start = switches.back().map_or(start, |stop: &Time| start.max(*stop));
        switches.push_back(start);
        switches.extend(stop.map(|stop| Time::from_ps(stop).max(start)));
        free_from = stop;
    }
    Ok(switches)
}

/// An infinitely fast link that the scenario does not name.
fn hidden(name: String, delay: Duration, wire: WireSpec, seed: u64) -> Result<Link, ScenarioError> {
    let spec = LinkSpec { name, delay_ps: delay.as_ps(), wire, ..LinkSpec::default() };
    Link::build(&spec, usize::MAX, seed)
}

struct Graph<'a> {
    ends: &'a [(usize, usize)],
    named: &'a BTreeMap<&'a str, usize>,
}

impl Graph<'_> {
    /// The numbers of the named links. An error if they do not lead from the one node to the other.
    fn route(
        &self,
        names: &[String],
        from: usize,
        to: usize,
        field: fmt::Arguments<'_>,
    ) -> Result<Vec<u32>, ScenarioError> {
        let mut at = from;
        let mut route = Vec::with_capacity(names.len());
        for (hop, name) in names.iter().enumerate() {
            let link = lookup(self.named, "link", name, format_args!("{field}[{hop}]"))?;
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
                field.to_string(),
                format!("{names:?}"),
                "the route ends elsewhere",
                "Add the missing links.",
            ));
        }
        if route.len() > 250 {
            return Err(refuse(
                field.to_string(),
                route.len(),
                "a route has at most 250 links",
                "Shorten it.",
            ));
        }
        Ok(route)
    }
}
