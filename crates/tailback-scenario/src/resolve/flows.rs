//! Converts flows to the engine's form: application, congestion control, stack, route.

use tailback_core::cc;
use tailback_core::params::is_spelled;
use tailback_core::scenario::IpVersion;
use tailback_core::tcp::stack::{self, Stack};

use super::graph::{Graph, Routes};
use super::links::MTU;
use super::{Own, Resolver, applications, optional, sends_datagrams, set};
use crate::har;
use crate::node::{Node, Value};
use crate::part::{Params, Span};
use crate::problem::{choices, fault};
use crate::quantity::{begins_with_number, to_unit};
use crate::schema::{Flow, Named};
use crate::table;

/// One row a flow, in the order of the engine's tables.
pub fn describe(resolver: &mut Resolver<'_>, graph: &Graph<'_>, routes: &[Routes]) -> Node {
    let row = |(number, routes)| flow(resolver, graph, number, routes);
    routes.iter().enumerate().map(row).collect::<Vec<Node>>().into()
}

fn flow(resolver: &mut Resolver<'_>, graph: &Graph<'_>, number: usize, routes: &Routes) -> Node {
    let flow = &resolver.scenario.flow[number];
    let (place, at) = (resolver.listed.place(number), format!("flows[{number}]"));
    for (path, written) in [
        ("", ""),
        (".start_ps", ".start"),
        (".stop_ps", ".stop"),
        (".again", ".again"),
        (".tcp.cc_turns", ".cc_turns"),
        (".app.kind", ".app"),
        (".app.params", ""),
        (".tcp", ""),
        (".tcp.cc_params", ".cc"),
        (".tcp.stack_params", ".stack"),
    ] {
        resolver.place(format!("{at}{path}"), format!("{place}{written}"));
    }
    let [from, to] = graph.ends(resolver.scenario, number);
    let duration = *resolver.scenario.duration;
    if flow.start >= duration {
        let problem = format!("it would start at {}, when the run of {duration} is over", flow.start);
        resolver.problem(&format!("{place}.start"), fault(problem, "Start it earlier, or raise duration"));
    }
    let params = application(resolver, flow, &place);
    let name = &graph.names[number];
    let stop = |stop: Option<Span>| stop.map(|stop| stop.0);
    let again =
        flow.again.iter().map(|part| table! { "start_ps" => part.start.0, "stop_ps" => stop(part.stop) });
    let [route, back_route] = routes
        .each_ref()
        .map(|way| way.iter().map(|hop| Node::from(graph.hops[*hop].name.as_str())).collect::<Vec<Node>>());
    let mut described = table! {
        "name" => name.as_str(),
        "from" => if flow.has_access() { format!("{name}.sender") } else { from },
        "to" => to,
        "route" => route,
        "back_route" => back_route,
        "start_ps" => flow.start.0,
        "stop_ps" => stop(flow.stop),
        "again" => again.collect::<Vec<Node>>(),
        "app" => table! { "kind" => &*flow.app, "params" => params.0 },
        "tcp" => tcp(resolver, flow, &place),
    };
    if flow.ip.0 != IpVersion::default() {
        described.put("ip", u64::from(u8::from(flow.ip.0)));
    }
    described
}

fn application(resolver: &mut Resolver<'_>, flow: &Flow, place: &str) -> Params {
    let mut params = Params::default();
    let cards: Vec<_> = applications().iter().map(|app| app.card).collect();
    let words = ["application", "apps"];
    let Some(card) = resolver.card(&flow.app, cards.into_iter(), &format!("{place}.app"), words) else {
        return params;
    };
    let given = [
        ("bytes", flow.bytes.map(|it| it.to_string())),
        ("interval", flow.interval.map(|it| it.to_string())),
        ("packet_size", flow.packet_size.map(|it| it.to_string())),
        ("client", flow.client.as_ref().map(|it| it.0.clone())),
        ("server", flow.server.as_ref().map(|it| it.0.clone())),
        ("parse", flow.parse.as_ref().map(|it| it.0.clone())),
    ];
    for (key, value) in given {
        if let Some(value) = value {
            resolver.param(card, key, &value.into(), &format!("{place}.{key}"), &mut params);
        }
    }
    for (key, value) in &flow.params.0 {
        resolver.param(card, key, value, &format!("{place}.params.{key}"), &mut params);
    }
    page(resolver, &mut params, place);
    if let Some(pattern) = params.get("pattern").cloned() {
        let checked =
            pattern.as_text().filter(|text| !text.is_empty()).map(|text| resolver.host.pattern(text));
        if let Some(Err(found)) = checked {
            resolver.problem_with(&format!("{place}.params.pattern"), &pattern, found);
        }
    }
    params
}

/// Replaces the name of a HAR file by its objects.
fn page(resolver: &mut Resolver<'_>, params: &mut Params, place: &str) {
    let Some(file) = params.get("har").cloned() else { return };
    let place = format!("{place}.params.har");
    if params.get("objects").is_some() {
        let problem = fault("objects are given too", "Leave one of them out");
        return resolver.problem_with(&place, &file, problem);
    }
    let read = match file.as_text() {
        Some(name) => resolver.host.page(name).and_then(|text| har::page(&text)),
        None => Err(fault("this is not a file's name", "Write for example har = \"page.har\"")),
    };
    match read {
        Ok(objects) => {
            params.0.retain(|(key, _)| key != "har");
            set(params, "objects", objects.into());
        }
        Err(found) => resolver.problem_with(&place, &file, found),
    }
}

fn tcp(resolver: &mut Resolver<'_>, flow: &Flow, place: &str) -> Node {
    if sends_datagrams(&flow.app) {
        let given = [
            ("transport", flow.transport.is_some()),
            ("cc", flow.cc.is_some()),
            ("cc_turns", !flow.cc_turns.is_empty()),
            ("stack", flow.stack.is_some()),
            ("receiver_stack", flow.receiver_stack.is_some()),
            ("send_buffer", flow.send_buffer.is_some()),
            ("receive_buffer", flow.receive_buffer.is_some()),
            ("mtu", flow.mtu.is_some()),
        ];
        for (key, _) in given.iter().filter(|(_, is_given)| *is_given) {
            let problem = format!("{} runs over UDP and has no {key}", &*flow.app);
            resolver.problem(&format!("{place}.{key}"), fault(problem, "Remove it"));
        }
        return Value::Null.into();
    }
    let named = |name: &str| Named { name: crate::part::CodeName(name.into()), params: Params::default() };
    let cc = flow.cc.clone().unwrap_or_else(|| named("cubic"));
    if let Some(transport) = flow.transport.as_ref().filter(|transport| transport.0 != "tcp") {
        return foreign(resolver, flow, &transport.0, &cc, place);
    }
    let stack = flow.stack.clone().unwrap_or_else(|| named("linux"));
    let cc_params = algorithm(resolver, &cc, &format!("{place}.cc"));
    let turn = |(number, turn): (usize, &Named)| {
        let params = algorithm(resolver, turn, &format!("{place}.cc_turns[{number}]"));
        table! { "cc" => &*turn.name, "cc_params" => params.0 }
    };
    let turns: Vec<Node> = flow.cc_turns.iter().enumerate().map(turn).collect();
    let stack_params = stack_fields(resolver, &stack, &format!("{place}.stack"));
    if let Some(receiver) = &flow.receiver_stack {
        profile(resolver, receiver, &format!("{place}.receiver_stack"));
    }
    table! {
        "stack" => &*stack.name,
        "receiver_stack" => optional(flow.receiver_stack.as_deref()),
        "cc" => &*cc.name,
        "cc_params" => cc_params.0,
        "cc_turns" => turns,
        "stack_params" => stack_params.0,
        "send_buffer" => flow.send_buffer.map(|bytes| bytes.0.0),
        "receive_buffer" => flow.receive_buffer.map(|bytes| bytes.0.0),
        "mtu" => flow.mtu.map_or(MTU, |mtu| mtu.0.into()),
    }
}

/// A connection of a foreign stack. Only the engine's caller knows which stacks exist, and their capabilities.
fn foreign(resolver: &mut Resolver<'_>, flow: &Flow, transport: &str, cc: &Named, place: &str) -> Node {
    for (key, is_given) in
        [("stack", flow.stack.is_some()), ("receiver_stack", flow.receiver_stack.is_some())]
    {
        if is_given {
            let problem = format!("a flow over {transport} has no TCP stack");
            resolver.problem(&format!("{place}.{key}"), fault(problem, "Remove it"));
        }
    }
    let turn = |turn: &Named| table! { "cc" => &*turn.name, "cc_params" => turn.params.0.clone() };
    table! {
        "transport" => transport,
        "stack" => transport,
        "receiver_stack" => Value::Null,
        "cc" => &*cc.name,
        "cc_params" => cc.params.0.clone(),
        "cc_turns" => flow.cc_turns.iter().map(turn).collect::<Vec<Node>>(),
        "stack_params" => table! {},
        "send_buffer" => flow.send_buffer.map(|bytes| bytes.0.0),
        "receive_buffer" => flow.receive_buffer.map(|bytes| bytes.0.0),
        "mtu" => flow.mtu.map_or(MTU, |mtu| mtu.0.into()),
    }
}

fn algorithm(resolver: &mut Resolver<'_>, cc: &Named, place: &str) -> Params {
    match resolver.host.own(&cc.name) {
        Own::Unknown => {}
        Own::Known => return cc.params.clone(),
        Own::Refused(found) => {
            resolver.problem_with(place, &(*cc.name).into(), found);
            return cc.params.clone();
        }
    }
    let mut params = Params::default();
    let cards = cc::registry::cards().iter();
    if let Some(card) = resolver.card(&cc.name, cards, place, ["congestion control", "algorithms"]) {
        for (key, value) in &cc.params.0 {
            resolver.param(card, key, value, &format!("{place}.{key}"), &mut params);
        }
    }
    params
}

fn profile(resolver: &mut Resolver<'_>, name: &str, place: &str) -> Option<&'static stack::Profile> {
    let found = stack::profiles().iter().find(|profile| profile.name == name);
    if found.is_none() {
        let known: Vec<&str> = stack::profiles().iter().map(|profile| profile.name).collect();
        resolver.unknown(name, &known, place, "stack", "stacks");
    }
    found
}

fn stack_fields(resolver: &mut Resolver<'_>, stack: &Named, place: &str) -> Params {
    let mut out = Params::default();
    let Some(profile) = profile(resolver, &stack.name, place) else { return out };
    if stack.params.0.is_empty() {
        return out;
    }
    let fields: Vec<&str> = profile.stack.fields().into_iter().map(|(name, _)| name).collect();
    for (key, value) in &stack.params.0 {
        let place = format!("{place}.{key}");
        let Some(name) = fields.iter().find(|name| is_spelled(key, name, Stack::unit(name))) else {
            let found = fault(format!("a stack has no field {key}"), choices(key, &fields));
            resolver.problem_with(&place, value, found);
            continue;
        };
        let number = match value.as_text().filter(|text| begins_with_number(text)) {
            Some(text) => to_unit(text, Stack::unit(name)).map(Node::from),
            None => Ok(value.clone()),
        };
        match number {
            Ok(number) => set(&mut out, name, number),
            Err(found) => resolver.problem_with(&place, value, found),
        }
    }
    out
}
