//! Converts instruments to the engine's form.

use tailback_core::traffic::Rows;

use super::graph::Graph;
use super::{Resolver, application, sends_datagrams};
use crate::node::{Node, Value};
use crate::part::Names;
use crate::problem::{choices, fault};
use crate::table;

/// Which flows and links are recorded, when, and how often.
pub fn describe(resolver: &mut Resolver<'_>, graph: &Graph<'_>, nodes: &[String]) -> Node {
    let given = &resolver.scenario.instruments;
    let flows: Vec<(&str, &str)> = graph
        .names
        .iter()
        .zip(&resolver.scenario.flow)
        .map(|(name, flow)| (name.as_str(), &*flow.app))
        .collect();
    let having = |test: &dyn Fn(&str) -> bool| {
        flows.iter().filter(|(_, app)| test(app)).map(|(name, _)| *name).collect::<Vec<&str>>()
    };
    let leaving = |rows: Rows| having(&|app| application(app).is_some_and(|app| app.rows == rows));
    let every_flow = having(&|_| true);
    let over_tcp = having(&|app| !sends_datagrams(app));
    let (requests, echoes) = (leaving(Rows::Requests), leaving(Rows::Echoes));
    let every_link = graph.hop_names();
    let queues: Vec<&str> =
        graph.hops.iter().filter(|hop| hop.queues()).map(|hop| hop.name.as_str()).collect();
    let udp = "runs over UDP and has no TCP state";
    let no_queue = "has no rate and so no queue";
    let mut out = table! {};
    for (key, names, everything, reason) in [
        ("segments", &given.segments, &over_tcp, udp),
        ("polls", &given.polls, &over_tcp, udp),
        ("packets", &given.packets, &every_flow, ""),
        ("requests", &given.requests, &requests, "makes no requests"),
        ("echoes", &given.echoes, &echoes, "sends no echo requests"),
        ("queue_polls", &given.queue_polls, &queues, no_queue),
        ("queues", &given.queues, &queues, no_queue),
        ("drops", &given.drops, &queues, no_queue),
    ] {
        let (known, what) = if reason == no_queue { (&every_link, "link") } else { (&every_flow, "flow") };
        let place = format!("instruments.{key}");
        resolver.place(place.clone(), place.clone());
        if let Names::Of(names) = names {
            check_names(resolver, &place, names, what, [known, everything], reason);
            out.put(key, names.as_slice());
        } else {
            out.put(key, everything.as_slice());
        }
    }
    let points = capture_points(resolver, graph, nodes);
    if !points.is_empty() {
        out.put("captures", points.as_slice());
    }
    for key in ["poll_interval", "from", "until"] {
        resolver.place(format!("instruments.{key}_ps"), format!("instruments.{key}"));
    }
    if let Some(most) = given.most_rows {
        // Only if set: a value that does not limit a run must not change its identity.
        out.put("most_rows", most.0);
    }
    if let Some(most) = given.most_memory {
        out.put("most_memory", most.0.0);
    }
    out.with(table! {
        "internals" => given.internals,
        "poll_interval_ps" => given.poll_interval.0.0,
        "from_ps" => given.from.0,
        "until_ps" => given.until.map_or(Node::from(Value::Null), |until| until.0.into()),
    })
}

/// Reports names of an instrument that do not exist, or that cannot be recorded in this way.
fn check_names(
    resolver: &mut Resolver<'_>,
    place: &str,
    names: &[String],
    what: &str,
    [known, everything]: [&[&str]; 2],
    reason: &str,
) {
    for (number, name) in names.iter().enumerate() {
        let place = format!("{place}[{number}]");
        if !known.contains(&name.as_str()) {
            let found = fault(format!("there is no {what} {name}"), choices(name, known));
            resolver.problem_with(&place, &name.as_str().into(), found);
        } else if !everything.contains(&name.as_str()) {
            let found = fault(format!("{what} {name} {reason}"), "Remove it");
            resolver.problem_with(&place, &name.as_str().into(), found);
        }
    }
}

/// Capture points: nodes, and sides of links; the name of a link alone means both sides.
fn capture_points(resolver: &mut Resolver<'_>, graph: &Graph<'_>, nodes: &[String]) -> Vec<String> {
    let place = "instruments.captures";
    resolver.place(place, place);
    let sides = |name: &str| [format!("{name}.in"), format!("{name}.out")];
    let links = graph.hop_names();
    let known: Vec<String> = nodes.iter().cloned().chain(links.iter().flat_map(|name| sides(name))).collect();
    let Names::Of(names) = &resolver.scenario.instruments.captures else { return known };
    let mut out: Vec<String> = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let found = if known.contains(name) {
            vec![name.clone()]
        } else if links.contains(&name.as_str()) {
            sides(name).into()
        } else {
            let all: Vec<&str> = known.iter().map(String::as_str).chain(links.iter().copied()).collect();
            let missing = fault(format!("there is no node or link {name}"), choices(name, &all));
            resolver.problem_with(&format!("{place}[{number}]"), &name.as_str().into(), missing);
            Vec::new()
        };
        for point in found {
            if !out.contains(&point) {
                out.push(point);
            }
        }
    }
    out
}
