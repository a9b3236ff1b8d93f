//! The links and nodes of a scenario as a graph, and the routes of flows.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use tailback_core::medium::registry::is_carried;
use tailback_core::traffic::registry::traits;

use super::{Listed, MOST_HOPS, Resolver};
use crate::csv;
use crate::part::Name;
use crate::part::Trace;
use crate::presets::ends;
use crate::problem::{choices, fault};
use crate::schema::{
    Dumbbell, Link, LinkLayer, Medium, Mpu, Overhead, Policer, Queue, Scenario, Schedule, Step, Wire,
};

/// Rate of a flow's own access link, which keeps packets in order while its delay changes: 12 ps for 1500 bytes.
const IN_NO_TIME: u64 = 1_000_000_000_000_000;

/// Forward and reverse links, by number.
pub type Routes = [Vec<usize>; 2];

/// A link of the graph, with its path in the scenario.
#[derive(Default)]
pub struct Hop<'a> {
    pub name: String,
    pub from: String,
    pub to: String,
    pub place: String,
    pub rate: Option<u64>,
    pub delay: u64,
    pub tick_hz: Option<u64>,
    pub framing: Option<Framing<'a>>,
    pub queue: Option<&'a Queue>,
    pub queue_place: String,
    pub policer: Option<&'a Policer>,
    pub wire: Option<&'a Wire>,
    pub wire_place: String,
    /// Base RTT for a queue size in BDP; `None`: that of the flows.
    pub rtt: Option<u64>,
    /// Rate for a queue size, if a medium sets the link's rate.
    pub nominal: Option<u64>,
    pub medium: Option<&'a Medium>,
    pub medium_place: String,
    /// Channel of a shared medium if the medium names none.
    pub channel: &'a str,
    /// Changes over time; those of a file are set by [`Graph::new`].
    pub schedule: Cow<'a, [Step]>,
    pub schedule_file: Option<&'a str>,
    pub trace: Option<&'a Trace>,
}

/// Link-layer overhead of a link.
pub struct Framing<'a> {
    pub overhead: i32,
    pub mpu: u64,
    pub linklayer: &'a str,
}

impl<'a> Framing<'a> {
    /// `None` if packets count only their IP bytes.
    fn of(overhead: &Overhead, mpu: &Mpu, linklayer: &'a LinkLayer) -> Option<Self> {
        let is_plain = overhead.0 == 0 && mpu.0 == 0 && linklayer.0 == "ethernet";
        (!is_plain).then_some(Framing { overhead: overhead.0, mpu: mpu.0, linklayer: &linklayer.0 })
    }
}

impl Hop<'_> {
    /// Whether a queue can form.
    pub fn queues(&self) -> bool {
        self.rate.is_some() || self.medium.is_some() || self.trace.is_some() || self.schedule_file.is_some()
    }
}

/// All links, in the order of the engine's tables.
pub fn hops_of(listed: &Listed) -> Vec<Hop<'_>> {
    let scenario = &listed.scenario;
    let mut hops: Vec<Hop<'_>> = scenario.dumbbell.iter().flat_map(dumbbell_hops).collect();
    for (number, link) in scenario.link.iter().enumerate() {
        hops.push(hop(link, number, link.name.0.clone(), &link.from, &link.to));
        if link.duplex {
            hops.push(hop(link, number, format!("{}.back", &*link.name), &link.to, &link.from));
        }
    }
    for (number, (name, flow)) in listed.names().into_iter().zip(&scenario.flow).enumerate() {
        if flow.has_access() {
            let [attached, _] = ends(flow);
            let (host, place) = (format!("{name}.sender"), listed.place(number));
            let delay = flow.access_delay.0;
            for (name, from, to) in [
                (format!("{name}.access"), &host, &attached),
                (format!("{name}.access.back"), &attached, &host),
            ] {
                let (from, to, place) = (from.clone(), to.clone(), place.clone());
                let schedule: Cow<'_, [Step]> = flow.access_schedule[..].into();
                let rate = (!schedule.is_empty()).then_some(IN_NO_TIME);
                hops.push(Hop { name, from, to, place, rate, delay, schedule, ..Hop::default() });
            }
        }
    }
    hops
}

/// The forward and the reverse link of a dumbbell.
fn dumbbell_hops(bell: &Dumbbell) -> [Hop<'_>; 2] {
    let [there, back] = bell.delays();
    let [rate, back_rate] = [bell.rate, bell.back_rate.unwrap_or(bell.rate)].map(|rate| Some(rate.0.0));
    let common = || Hop {
        place: "dumbbell".into(),
        tick_hz: bell.tick_hz.map(|hz| hz.0),
        framing: Framing::of(&bell.overhead, &bell.mpu, &bell.linklayer),
        rtt: Some(there + back),
        channel: "bottleneck",
        ..Hop::default()
    };
    let bottleneck = Hop {
        name: "bottleneck".into(),
        from: "left".into(),
        to: "right".into(),
        rate: rate.filter(|_| bell.medium.is_none()),
        nominal: rate,
        delay: there,
        queue: Some(&bell.queue),
        queue_place: "dumbbell.queue".into(),
        policer: bell.policer.as_ref(),
        wire: Some(&bell.wire),
        wire_place: "dumbbell.wire".into(),
        medium: bell.medium.as_ref(),
        medium_place: "dumbbell.medium".into(),
        schedule: steps(&bell.schedule),
        schedule_file: file(&bell.schedule),
        ..common()
    };
    let queue_place = if bell.back_queue.is_some() { "dumbbell.back_queue" } else { "dumbbell.queue" };
    let reverse = Hop {
        name: "return".into(),
        from: "right".into(),
        to: "left".into(),
        rate: back_rate.filter(|_| bell.back_medium.is_none()),
        nominal: back_rate,
        delay: back,
        queue: Some(bell.back_queue.as_ref().unwrap_or(&bell.queue)),
        queue_place: queue_place.into(),
        wire: Some(&bell.back_wire),
        wire_place: "dumbbell.back_wire".into(),
        medium: bell.back_medium.as_ref(),
        medium_place: "dumbbell.back_medium".into(),
        ..common()
    };
    [bottleneck, reverse]
}

fn hop<'a>(link: &'a Link, number: usize, name: String, from: &str, to: &str) -> Hop<'a> {
    let place = format!("link[{number}]");
    Hop {
        name,
        from: from.into(),
        to: to.into(),
        rate: link.rate.map(|rate| rate.0.0),
        delay: link.delay.0,
        tick_hz: link.tick_hz.map(|hz| hz.0),
        framing: Framing::of(&link.overhead, &link.mpu, &link.linklayer),
        queue: link.queue.as_ref(),
        queue_place: format!("{place}.queue"),
        policer: link.policer.as_ref(),
        wire: Some(&link.wire),
        wire_place: format!("{place}.wire"),
        rtt: None,
        nominal: None,
        medium: link.medium.as_ref(),
        medium_place: format!("{place}.medium"),
        channel: &link.name,
        schedule: steps(&link.schedule),
        schedule_file: file(&link.schedule),
        trace: link.trace.as_ref(),
        place,
    }
}

fn steps(schedule: &Schedule) -> Cow<'_, [Step]> {
    match schedule {
        Schedule::File(_) => Cow::default(),
        Schedule::Steps(steps) => Cow::from(steps),
    }
}

fn file(schedule: &Schedule) -> Option<&str> {
    match schedule {
        Schedule::File(name) => Some(name),
        Schedule::Steps(_) => None,
    }
}

/// Reads the file of changes of `hop`. A link without a rate takes the first rate above zero.
fn read_schedule(resolver: &mut Resolver<'_>, hop: &mut Hop<'_>) {
    let Some(file) = hop.schedule_file else { return };
    match resolver.host.schedule(file).and_then(|text| csv::steps(&text)) {
        Ok(steps) => hop.schedule = steps.into(),
        Err(found) => resolver.problem_with(&format!("{}.schedule", hop.place), &file.into(), found),
    }
    if hop.rate.is_none() && hop.medium.is_none() && hop.trace.is_none() {
        let first = hop.schedule.iter().filter_map(|step| step.rate).find(|rate| rate.0 > 0);
        hop.rate = first.map(|rate| rate.0);
    }
}

/// The network of the scenario.
pub struct Graph<'a> {
    pub names: Vec<String>,
    pub hops: Vec<Hop<'a>>,
}

impl<'a> Graph<'a> {
    /// Builds the graph; reports duplicate names.
    pub fn new(resolver: &mut Resolver<'a>) -> Self {
        let listed = resolver.listed;
        let mut hops = hops_of(listed);
        hops.iter_mut().for_each(|hop| read_schedule(resolver, hop));
        let graph = Graph { names: listed.names(), hops };
        let place = |number| format!("{}.name", listed.place(number));
        let flows = graph.names.iter().enumerate().map(|(number, name)| (name, place(number)));
        unique(resolver, "flow", flows.collect());
        unique(
            resolver,
            "link",
            graph.hops.iter().map(|hop| (&hop.name, format!("{}.name", hop.place))).collect(),
        );
        graph
    }

    pub fn hop_names(&self) -> Vec<&str> {
        self.hops.iter().map(|hop| hop.name.as_str()).collect()
    }

    /// The listed nodes, then those that only links name.
    pub fn nodes(&self, resolver: &mut Resolver<'a>) -> Vec<String> {
        let mut nodes: Vec<String> = Vec::new();
        let mut known: HashSet<&str> = HashSet::new();
        let listed: Vec<&str> = resolver.scenario.nodes.iter().map(|name| &**name).collect();
        for node in &listed {
            if known.insert(node) {
                nodes.push((*node).into());
            }
        }
        for hop in &self.hops {
            for (key, node) in [("from", &hop.from), ("to", &hop.to)] {
                if !known.insert(node) {
                    continue;
                }
                if !listed.is_empty() && hop.place.starts_with("link") {
                    let found = fault(format!("there is no node {node}"), choices(node, &listed));
                    resolver.problem(&format!("{}.{key}", hop.place), found);
                }
                nodes.push(node.clone());
            }
        }
        nodes
    }

    /// The nodes between which a flow crosses the network, without its access link.
    pub fn ends(&self, scenario: &Scenario, flow: usize) -> [String; 2] {
        let flow = &scenario.flow[flow];
        if scenario.dumbbell.is_some() {
            return ends(flow);
        }
        [&flow.from, &flow.to].map(|node| node.as_ref().map_or(String::new(), |name| name.0.clone()))
    }

    /// Forward and reverse links of every flow, as long as their total is within what a run can hold.
    pub fn all_routes(&self, resolver: &mut Resolver<'a>, nodes: &[String]) -> Vec<Routes> {
        let mut finder = Finder::new(&self.hops, nodes);
        let mut hops = 0;
        let mut out = Vec::new();
        for number in 0..resolver.scenario.flow.len() {
            let routes = self.routes(resolver, number, &mut finder);
            hops += routes[0].len() + routes[1].len();
            if hops > MOST_HOPS {
                let problem = format!(
                    "the routes of the flows up to it name {hops} links, and {MOST_HOPS} is the most"
                );
                let place = format!("{}.count", resolver.listed.place(number));
                resolver.problem(&place, fault(problem, "Use fewer flows, or shorter routes"));
                out.resize_with(resolver.scenario.flow.len(), Routes::default);
                break;
            }
            out.push(routes);
        }
        out
    }

    /// Forward and reverse links of a flow; empty if there is no route, which is reported.
    fn routes(&self, resolver: &mut Resolver<'a>, number: usize, finder: &mut Finder<'_>) -> Routes {
        let flow = &resolver.scenario.flow[number];
        let place = resolver.listed.place(number);
        let is_back = resolver.listed.is_back(number);
        // An error in the reverse route of a two-way flow names the keys as written.
        let [start, end, key, back_key] = if is_back {
            ["to", "from", "back_route", "route"]
        } else {
            ["from", "to", "route", "back_route"]
        };
        let [from, to] = self.ends(resolver.scenario, number);
        let known = || finder.nodes.iter().map(String::as_str).collect::<Vec<&str>>();
        let mut sound = !self.hops.is_empty();
        for (key, node) in [(start, &from), (end, &to)] {
            let place = format!("{place}.{key}");
            if node.is_empty() {
                let fix = format!("Name the node, one of {}", known().join(", "));
                resolver.problem(&place, fault("is missing", fix));
                sound = false;
            } else if !self.hops.is_empty() && !finder.known.contains(node.as_str()) {
                let found = fault(format!("there is no node {node}"), choices(node, &known()));
                resolver.problem_with(&place, &node.as_str().into(), found);
                sound = false;
            }
        }
        if sound && from == to {
            let found = fault("the flow leads back to where it starts", "Give two different nodes");
            resolver.problem_with(&format!("{place}.{end}"), &to.as_str().into(), found);
            sound = false;
        }
        if !sound {
            return Routes::default();
        }
        // By default a tunnel's own connection does not use tunnels.
        let is_outer = traits(&flow.app).carries_packets;
        let there = Way { given: flow.route.as_deref(), key, end, carries: "data" };
        let back =
            Way { given: flow.back_route.as_deref(), key: back_key, end: start, carries: "acknowledgements" };
        let mut there = self.route(resolver, there, &place, [&from, &to], is_outer, finder);
        let mut back = self.route(resolver, back, &place, [&to, &from], is_outer, finder);
        let access = format!("{}.access", self.names[number]);
        if flow.has_access() {
            let access = finder.numbers[access.as_str()];
            there.insert(0, access);
            back.push(access + 1);
        }
        [there, back]
    }

    fn route(
        &self,
        resolver: &mut Resolver<'a>,
        way: Way<'_>,
        flow: &str,
        [from, to]: [&str; 2],
        is_outer: bool,
        finder: &mut Finder<'_>,
    ) -> Vec<usize> {
        let Some(given) = way.given else {
            let found = finder.fewest_hops(&self.hops, is_outer, from, to);
            if found.is_none() {
                let problem = format!("there is no way from {from} to {to} for its {}", way.carries);
                let fix = "Add the missing link, or duplex = true to a link that should work both ways";
                resolver.problem(&format!("{flow}.{}", way.end), fault(problem, fix));
            }
            return found.unwrap_or_default();
        };
        let place = format!("{flow}.{}", way.key);
        let (mut out, mut here) = (Vec::new(), from);
        for (step, name) in given.iter().enumerate() {
            let at = finder.numbers.get(&**name).copied();
            let found = match at.map(|at| &self.hops[at]) {
                None => fault(format!("there is no link {}", &**name), choices(name, &self.hop_names())),
                Some(hop) if hop.from != here => fault(
                    format!("link {} leaves {}, but the route has reached {here}", &**name, hop.from),
                    format!("Continue with a link that leaves {here}"),
                ),
                Some(_) if at.is_some_and(|at| out.contains(&at)) => {
                    fault(format!("the route passes link {} twice", &**name), "Name each link once")
                }
                Some(hop) => {
                    out.extend(at);
                    here = &hop.to;
                    continue;
                }
            };
            resolver.problem_with(&format!("{place}[{step}]"), &(**name).into(), found);
            return Vec::new();
        }
        if here != to {
            let problem = format!("the route ends at {here}, not at {to}");
            resolver.problem(&place, fault(problem, format!("Add the links from {here} to {to}")));
            return Vec::new();
        }
        out
    }
}

/// Indexes links by name and node, so that finding a flow's route does not scan every other flow's access link.
struct Finder<'a> {
    nodes: &'a [String],
    known: HashSet<&'a str>,
    /// First link of each name.
    numbers: HashMap<&'a str, usize>,
    /// Shortest routes found so far, by their ends and by whether tunnels count.
    found: HashMap<(bool, String, String), Option<Vec<usize>>>,
}

impl<'a> Finder<'a> {
    fn new(hops: &'a [Hop<'_>], nodes: &'a [String]) -> Self {
        let mut numbers = HashMap::new();
        for (number, hop) in hops.iter().enumerate() {
            numbers.entry(hop.name.as_str()).or_insert(number);
        }
        let known = nodes.iter().map(String::as_str).collect();
        Finder { nodes, known, numbers, found: HashMap::new() }
    }

    fn fewest_hops(&mut self, hops: &[Hop<'_>], is_outer: bool, from: &str, to: &str) -> Option<Vec<usize>> {
        let key = (is_outer, from.to_string(), to.to_string());
        if let Some(found) = self.found.get(&key) {
            return found.clone();
        }
        // A tunnel's own connection does not use tunnels.
        let is_open =
            |hop: &Hop<'_>| !(is_outer && hop.medium.is_some_and(|medium| is_carried(&medium.name)));
        let open = hops.iter().enumerate().filter(|(_, hop)| is_open(hop));
        let way = fewest_hops(open.map(|(number, hop)| (number, [&*hop.from, &*hop.to])), from, to);
        self.found.insert(key, way.clone());
        way
    }
}

/// One direction of a flow.
struct Way<'a> {
    given: Option<&'a [Name]>,
    key: &'a str,
    end: &'a str,
    carries: &'a str,
}

fn unique(resolver: &mut Resolver<'_>, what: &str, names: Vec<(&String, String)>) {
    let mut before = HashSet::new();
    for (name, place) in &names {
        if !before.insert(name.as_str()) {
            let found =
                fault(format!("two {what}s are called {name}"), format!("Give every {what} its own name"));
            resolver.problem_with(place, &name.as_str().into(), found);
        }
    }
}

/// The route between two nodes with the fewest of these numbered links; on ties, the link listed first.
pub fn fewest_hops<'a>(
    links: impl Iterator<Item = (usize, [&'a str; 2])> + Clone,
    from: &'a str,
    to: &str,
) -> Option<Vec<usize>> {
    let mut leaving: HashMap<&str, Vec<(usize, &str)>> = HashMap::new();
    for (number, [start, end]) in links {
        leaving.entry(start).or_default().push((number, end));
    }
    // Each node reached, with the link and the node before it.
    let mut reached: Vec<(&str, Option<(usize, usize)>)> = vec![(from, None)];
    let mut known = HashSet::from([from]);
    let mut next = 0;
    while next < reached.len() {
        let node = reached[next].0;
        if node == to {
            let mut way = Vec::new();
            let mut at = next;
            while let Some((link, before)) = reached[at].1 {
                way.push(link);
                at = before;
            }
            way.reverse();
            return Some(way);
        }
        for (number, end) in leaving.get(node).into_iter().flatten() {
            if known.insert(*end) {
                reached.push((*end, Some((*number, next))));
            }
        }
        next += 1;
    }
    None
}
