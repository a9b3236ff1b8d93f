//! Converts links to the engine's form: rate, delay, queue, wire, medium, schedule, trace.

use tailback_core::medium::registry::Use;
use tailback_core::params::{Card, DefaultValue};
use tailback_core::{medium, queue};

use super::graph::{Graph, Hop, Routes};
use super::{Own, Resolver, application, engines, sends_datagrams};
use crate::node::{Node, Value};
use crate::part::{Form, Kind as _, Params, Trace};
use crate::problem::{Fault, choices, fault};
use crate::quantity::{Counts, Size};
use crate::schema::{Band, Flow, Medium, Queue, Wire};
use crate::table;

/// Default size of the largest IP packet in bytes.
pub const MTU: u64 = 1500;
/// Default packet size of an application over UDP: a telephone packet.
const DATAGRAM: u64 = 200;
/// Keys of a wire that the engine's form has only if they are not zero.
const LOSSES: [&str; 11] = [
    "corrupt",
    "loss_every",
    "bit_error",
    "burst_start",
    "burst_end",
    "burst_loss",
    "gap_loss",
    "reorder_packets",
    "bleach",
    "bleach_before_queue",
    "ack_every",
];

/// Context of a queue's description.
struct Site {
    /// Its path in the engine's form.
    at: String,
    /// Its path in the scenario.
    place: String,
    rate: Option<u64>,
    rtt: Option<u64>,
    largest: u64,
}

/// One row a link, in the order of the engine's tables.
pub fn describe(resolver: &mut Resolver<'_>, graph: &Graph<'_>, routes: &[Routes]) -> Node {
    let row = |(number, hop)| link(resolver, graph, routes, number, hop);
    graph.hops.iter().enumerate().map(row).collect::<Vec<Node>>().into()
}

fn link(
    resolver: &mut Resolver<'_>,
    graph: &Graph<'_>,
    routes: &[Routes],
    number: usize,
    hop: &Hop<'_>,
) -> Node {
    let at = format!("links[{number}]");
    places(resolver, number, hop, &at);
    let has_queue = hop.queue.filter(|_| hop.queues());
    let queue = match has_queue {
        Some(queue) => one_queue(resolver, queue, &site(resolver, graph, routes, number, hop)),
        None => table! { "discipline" => "fifo", "params" => table! {} },
    };
    let mut out = table! {
        "name" => hop.name.as_str(),
        "from" => hop.from.as_str(),
        "to" => hop.to.as_str(),
        "rate_bps" => hop.rate,
        "delay_ps" => hop.delay,
        "tick_hz" => hop.tick_hz,
        "queue" => queue,
        "wire" => hop.wire.map_or_else(|| wire(&Wire::perfect()), wire),
    };
    if let Some(given) = &hop.framing {
        let overhead = i128::from(given.overhead);
        out.put(
            "framing",
            table! { "overhead" => overhead, "mpu" => given.mpu, "linklayer" => given.linklayer },
        );
    }
    if let Some(given) = hop.policer {
        out.put("policer", table! { "rate_bps" => given.rate.0.0, "burst_bytes" => given.burst.0.0 });
        refuse_kernels_queue(resolver, hop, &format!("{}.policer", hop.place), "a policer");
    }
    if hop.wire.is_some_and(|wire| wire.bleach_before_queue) {
        let place = format!("{}.bleach_before_queue", hop.wire_place);
        refuse_kernels_queue(resolver, hop, &place, "bleaching");
    }
    if let Some(given) = hop.medium {
        out.put("medium", medium(resolver, graph, hop, given));
    }
    if !hop.schedule.is_empty() {
        let step = |step: &crate::schema::Step| {
            let row = table! {
                "at_ps" => step.at.0, "rate_bps" => step.rate.map(|rate| rate.0),
                "delay_ps" => step.delay.map(|delay| delay.0),
            };
            match step.loss {
                Some(loss) => row.with(table! { "loss" => loss.0 }),
                None => row,
            }
        };
        out.put("schedule", hop.schedule.iter().map(step).collect::<Vec<Node>>());
    }
    if let Some(given) = hop.trace {
        out.put("trace", table! { "deliveries_ms" => trace(resolver, hop, given) });
    }
    out
}

fn places(resolver: &mut Resolver<'_>, number: usize, hop: &Hop<'_>, at: &str) {
    let place = &hop.place;
    let or_place = |inner: &String| if inner.is_empty() { place.clone() } else { inner.clone() };
    let first = |first: String, second: String| {
        if number == 1 && resolver.written.look_up(&first).is_some() { first } else { second }
    };
    let rate = first(format!("{place}.back_rate"), format!("{place}.rate"));
    let is_access = place.starts_with("flow");
    let delay = if is_access {
        format!("{place}.access_delay")
    } else if resolver.written.look_up(&format!("{place}.rtt")).is_some() {
        format!("{place}.rtt")
    } else {
        first(format!("{place}.back_delay"), format!("{place}.delay"))
    };
    let queue = or_place(&hop.queue_place);
    for (path, written) in [
        ("", place.clone()),
        (".rate_bps", rate),
        (".delay_ps", delay),
        (".tick_hz", format!("{place}.tick_hz")),
        (".framing.overhead", format!("{place}.overhead")),
        (".framing.mpu", format!("{place}.mpu")),
        (".framing.linklayer", format!("{place}.linklayer")),
        (".queue", queue.clone()),
        (".queue.discipline", format!("{}.discipline", hop.queue_place)),
        (".queue.params", queue),
        (".policer", format!("{place}.policer")),
        (".policer.rate_bps", format!("{place}.policer.rate")),
        (".policer.burst_bytes", format!("{place}.policer.burst")),
        (".wire", or_place(&hop.wire_place)),
        (".medium", or_place(&hop.medium_place)),
        (".medium.params", or_place(&hop.medium_place)),
        (".schedule", format!("{place}.{}", if is_access { "access_schedule" } else { "schedule" })),
        (".trace", format!("{place}.trace")),
    ] {
        resolver.place(format!("{at}{path}"), written);
    }
}

/// Reports an error at `place` if the link's queue is a kernel's: packets enter that queue before the link sees them.
fn refuse_kernels_queue(resolver: &mut Resolver<'_>, hop: &Hop<'_>, place: &str, what: &str) {
    let name = hop.queue.map_or("", |queue| &*queue.discipline);
    if queue::outside::of_kernel(name).is_some() {
        let problem = format!("{what} cannot stand in front of {name}");
        let fix = "Put it on a link of its own before this one, or take a queue of tailback's (tailback list queues)";
        resolver.problem_with(place, &name.into(), fault(problem, fix));
    }
}

fn wire(wire: &Wire) -> Node {
    let mut out = table! {
        "loss" => wire.loss.0,
        "duplicate" => wire.duplicate.0,
        "reorder" => wire.reorder.0,
        "reorder_delay_ps" => wire.reorder_delay.0,
        "jitter_ps" => wire.jitter.0,
    };
    let all = wire.write(Form::Short);
    for key in LOSSES {
        if let Some(given) = all.get(key) {
            out.put(key, given.clone());
        }
    }
    if wire.ack_hold.0 > 0 {
        out.put("ack_hold_ps", wire.ack_hold.0);
    }
    if let Some(given) = &wire.netem_jitter {
        out.put(
            "netem_jitter",
            table! {
                "jitter_ps" => given.jitter.0.0,
                "distribution" => given.distribution.0.as_str(),
                "correlation" => given.correlation.0,
            },
        );
    }
    out
}

fn medium(resolver: &mut Resolver<'_>, graph: &Graph<'_>, hop: &Hop<'_>, given: &Medium) -> Node {
    let place = hop.medium_place.clone();
    let cards = medium::registry::cards().collect::<Vec<_>>();
    let card = resolver.card(&given.name, cards.into_iter(), &format!("{place}.name"), ["medium", "links"]);
    let mut params = Params::default();
    for (key, value) in &given.params.0 {
        if let Some(card) = card {
            resolver.param(card, key, value, &format!("{place}.{key}"), &mut params);
        }
    }
    let mut out = table! { "name" => &*given.name, "params" => params.0 };
    if given.channel.is_some()
        || medium::registry::uses().any(|(card, by)| by == Use::Shared && card.name == &*given.name)
    {
        out.put("channel", given.channel.as_deref().unwrap_or(hop.channel));
    }
    if let Some(flow) = &given.flow {
        let known: Vec<&str> = graph.names.iter().map(String::as_str).collect();
        if !known.contains(&&**flow) {
            let found = fault(format!("there is no flow {}", &**flow), choices(flow, &known));
            resolver.problem_with(&format!("{place}.flow"), &(**flow).into(), found);
        }
        out.put("flow", &**flow);
    }
    out
}

fn trace(resolver: &mut Resolver<'_>, hop: &Hop<'_>, given: &Trace) -> Node {
    match given {
        Trace::Instants(all) => all.iter().map(|ms| Node::from(*ms)).collect::<Vec<Node>>().into(),
        Trace::File(name) => {
            let read = resolver.host.trace(name).unwrap_or_else(|found| {
                resolver.problem_with(&format!("{}.trace", hop.place), &name.as_str().into(), found);
                Vec::new()
            });
            read.into_iter().map(Node::from).collect::<Vec<Node>>().into()
        }
    }
}

/// Size of an application's largest packet in bytes, given or default.
fn datagram(flow: &Flow) -> u64 {
    let Some(app) = application(&flow.app) else { return DATAGRAM };
    let given = flow.params.0.iter().find_map(|(key, value)| {
        let (spec, spelling) = app.card.spelled(key).filter(|(spec, _)| spec.name == "packet_bytes")?;
        let bytes = engines(spec, spelling, value).ok()?;
        match bytes.value {
            Value::Number(number) => Some(number as u64),
            _ => bytes.as_whole(),
        }
    });
    let default = app.card.param("packet_bytes").map(|spec| spec.default);
    match (given, default) {
        (Some(bytes), _) => bytes,
        (None, Some(DefaultValue::Number(bytes))) => bytes as u64,
        _ => DATAGRAM,
    }
}

fn site(resolver: &Resolver<'_>, graph: &Graph<'_>, routes: &[Routes], number: usize, hop: &Hop<'_>) -> Site {
    let crossing = || (0..routes.len()).filter(|flow| routes[*flow].iter().any(|way| way.contains(&number)));
    let delay = |flow: usize| routes[flow].iter().flatten().map(|step| graph.hops[*step].delay).sum::<u64>();
    let largest = |flow: usize| {
        let flow = &resolver.scenario.flow[flow];
        if sends_datagrams(&flow.app) {
            flow.packet_size.map_or_else(|| datagram(flow), |bytes| bytes.0.0)
        } else {
            flow.mtu.map_or(MTU, |mtu| mtu.0.into())
        }
    };
    Site {
        at: format!("links[{number}].queue"),
        place: hop.queue_place.clone(),
        rate: hop.rate.or(hop.nominal),
        rtt: hop.rtt.or_else(|| crossing().map(delay).max()),
        largest: crossing().map(largest).max().unwrap_or(0),
    }
}

fn one_queue(resolver: &mut Resolver<'_>, queue: &Queue, site: &Site) -> Node {
    let place = &site.place;
    let own = is_own(resolver, queue, &format!("{place}.discipline"));
    let card = if own { None } else { discipline(resolver, queue, &format!("{place}.discipline")) };
    let mut params = Params(limit(resolver, queue, site).into_iter().collect());
    if own {
        // A class of the user's own takes its parameters unchanged, except for a missing limit.
        params.0.extend(queue.params.0.iter().cloned());
        for (key, value) in &queue.params.0 {
            let is_limit = ["limit_packets", "limit_bytes"].contains(&key.to_ascii_lowercase().as_str());
            if is_limit && value.as_whole() == Some(0) {
                let fix = "Write at least 1, or leave it out".to_string();
                let found = fault("a queue of nothing drops every packet that has to wait", fix);
                resolver.problem_with(&format!("{place}.{key}"), value, found);
            }
        }
    }
    if let (Some(card), Some((key, _))) = (card, params.0.first()) {
        if card.param(key).is_none() {
            let limit = queue.limit.map_or(String::new(), |limit| limit.to_string());
            let counted = key.trim_start_matches("limit_");
            let fix = if card.param("limit_packets").is_some() {
                format!("Write \"{limit} packets\", as many of the largest as it holds, or \"100packets\"")
            } else if card.param("limit_bytes").is_some() {
                "Write for example \"1bdp\" or \"64kB\"".into()
            } else {
                "Leave it out".into()
            };
            let found = fault(format!("{} has no limit in {counted}", card.name), fix);
            resolver.problem_with(&limit_place(resolver, site), &limit.into(), found);
        }
    }
    if let Some(card) = card {
        for (key, value) in &queue.params.0 {
            queue_param(resolver, card, key, value, site, &mut params);
        }
    }
    let rate = match params.get("rate_bps").map(|node| &node.value) {
        // The inner queue drains at the bucket's rate.
        Some(Value::Number(rate)) => Some(*rate as u64),
        Some(Value::Whole(rate)) => u64::try_from(*rate).ok(),
        _ => site.rate,
    };
    let mut out = table! { "discipline" => &*queue.discipline, "params" => params.0 };
    if let Some(inner) = &queue.inner {
        let inside =
            Site { at: format!("{}.inner", site.at), place: format!("{place}.inner"), rate, ..*site };
        resolver.place(inside.at.clone(), inside.place.clone());
        out.put("inner", inside_queue(resolver, inner, &inside));
    }
    if !queue.bands.is_empty() {
        let bands =
            queue.bands.iter().enumerate().map(|(number, band)| one_band(resolver, band, number, site));
        out.put("bands", bands.collect::<Vec<Node>>());
    }
    out
}

fn one_band(resolver: &mut Resolver<'_>, band: &Band, number: usize, site: &Site) -> Node {
    let (at, place) = (format!("{}.bands[{number}]", site.at), format!("{}.bands[{number}]", site.place));
    resolver.place(at.clone(), place.clone());
    for field in ["flows", "dscp"] {
        resolver.place(format!("{at}.{field}"), format!("{place}.{field}"));
    }
    let mut out = table! {};
    if !band.flows.is_empty() {
        out.put("flows", band.flows.iter().map(|name| (**name).into()).collect::<Vec<Node>>());
    }
    if !band.dscp.is_empty() {
        out.put("dscp", band.dscp.iter().map(|class| class.0.as_str().into()).collect::<Vec<Node>>());
    }
    if let Some(quantum) = &band.quantum {
        out.put("quantum", quantum.0.0);
    }
    if let Some(queue) = &band.queue {
        let inside = Site { at: format!("{at}.queue"), place: format!("{place}.queue"), ..*site };
        resolver.place(inside.at.clone(), inside.place.clone());
        out.put("queue", inside_queue(resolver, queue, &inside));
    }
    out
}

/// An inner queue, which cannot be a kernel's.
fn inside_queue(resolver: &mut Resolver<'_>, queue: &Queue, site: &Site) -> Node {
    if queue::outside::of_kernel(&queue.discipline).is_some() {
        let found =
            fault("a kernel's queue stands at a link, not inside another", "Give it to the link itself");
        resolver.problem_with(&site.place, &(&*queue.discipline).into(), found);
    }
    resolver.place(format!("{}.discipline", site.at), format!("{}.discipline", site.place));
    resolver.place(format!("{}.params", site.at), site.place.clone());
    one_queue(resolver, queue, site)
}

/// Whether it is a discipline of the user's own.
fn is_own(resolver: &mut Resolver<'_>, queue: &Queue, place: &str) -> bool {
    let name: &str = &queue.discipline;
    if queue::outside::is_module(name) {
        return true;
    }
    if queue::outside::of_kernel(name).is_some()
        || queue::registry::cards().iter().any(|card| card.name == name)
    {
        return false;
    }
    match resolver.host.own(name) {
        Own::Unknown if ["python:", "bpf:", "rust:"].iter().any(|kind| name.starts_with(kind)) => {
            let fix = "Run the scenario on your machine with --allow-code, or choose a built-in queue";
            refuse_own(resolver, name, place, fault("no code of a scenario's is run here", fix))
        }
        Own::Unknown => false,
        Own::Known => true,
        Own::Refused(found) => refuse_own(resolver, name, place, found),
    }
}

fn refuse_own(resolver: &mut Resolver<'_>, name: &str, place: &str, found: Fault) -> bool {
    resolver.problem_with(place, &name.into(), found);
    true
}

/// The card for the discipline's parameters, whether it is ours or a kernel's.
fn discipline(resolver: &mut Resolver<'_>, queue: &Queue, place: &str) -> Option<&'static Card> {
    let name: &str = &queue.discipline;
    if queue::outside::of_kernel(name).is_none() {
        let words = ["queue discipline", "queues"];
        return resolver.card(name, queue::registry::cards().iter(), place, words);
    }
    let refuse = |resolver: &mut Resolver<'_>, problem: String, fix: String| {
        resolver.problem_with(place, &name.into(), fault(problem, fix));
        None
    };
    match queue::outside::card(name, place) {
        Err(unknown) => refuse(resolver, unknown.problem, unknown.fix),
        Ok(_) if queue.inner.is_some() => {
            refuse(resolver, format!("{name} has no queue inside it"), "Leave inner out".into())
        }
        Ok(_) if !queue.bands.is_empty() => {
            let fix = "Leave bands out, or write prio or drr, which run here".into();
            refuse(resolver, format!("{name} has no bands that a scenario can state"), fix)
        }
        Ok(card) => Some(card),
    }
}

fn queue_param(
    resolver: &mut Resolver<'_>,
    card: &Card,
    key: &str,
    value: &Node,
    site: &Site,
    out: &mut Params,
) {
    let place = format!("{}.{key}", site.place);
    let in_bdp = |text: &str| {
        let word = text.trim_end().to_lowercase();
        word.ends_with("bdp") || word.ends_with("bdps")
    };
    let Some(text) = value.as_text().filter(|text| in_bdp(text)) else {
        return resolver.param(card, key, value, &place, out);
    };
    match Size::read(text) {
        Ok(size) => {
            let exact = in_bytes(resolver, &size, site, &place).unwrap_or(0);
            resolver.param(card, key, &format!("{exact}B").into(), &place, out);
        }
        Err(found) => resolver.problem(&place, found),
    }
}

/// Path of a queue's limit in the scenario: `queue = "1bdp"`, or `limit` in the queue's table.
fn limit_place(resolver: &Resolver<'_>, site: &Site) -> String {
    let below = format!("{}.limit", site.place);
    if resolver.written.look_up(&below).is_some() { below } else { site.place.clone() }
}

/// The queue's limit as a parameter; reports a queue that is too short for the largest packet.
fn limit(resolver: &mut Resolver<'_>, queue: &Queue, site: &Site) -> Option<(String, Node)> {
    let limit = queue.limit?;
    if limit.counts == Counts::Packets {
        return Some(("limit_packets".into(), Node::from(limit.amount as i128)));
    }
    let place = limit_place(resolver, site);
    let size = in_bytes(resolver, &limit, site, &place)?;
    if limit.in_packets {
        let largest = if site.largest > 0 { site.largest } else { MTU };
        return Some(("limit_packets".into(), Node::from(i128::from((size / largest).max(1)))));
    }
    let takes_any = queue.params.get("accept").and_then(Node::as_text) == Some("below");
    // dummynet's rule considers only the backlog: an empty short queue still accepts a packet.
    if size < site.largest && !takes_any {
        let largest = site.largest;
        let problem = format!("the queue holds {size} bytes, less than one packet of {largest} bytes");
        let fix = format!(
            "Give at least \"{largest}B\" or \"1packets\", or accept = \"below\" (a packet when empty)"
        );
        resolver.problem_with(&place, &limit.to_string().into(), fault(problem, fix));
    }
    Some(("limit_bytes".into(), size.into()))
}

fn in_bytes(resolver: &mut Resolver<'_>, size: &Size, site: &Site, place: &str) -> Option<u64> {
    let fix = "Give its queue in bytes or packets";
    if matches!(size.counts, Counts::Bdp | Counts::Time) && site.rate.is_none() {
        let lacks = if size.counts == Counts::Bdp { "it has no BDP" } else { "a time is no number of bytes" };
        let found = fault(format!("the rate of this link varies, so {lacks}"), fix);
        resolver.problem_with(place, &size.to_string().into(), found);
        return None;
    }
    if size.counts == Counts::Bdp && site.rtt.is_none() {
        if !resolver.scenario.flow.is_empty() && resolver.problems.is_empty() {
            resolver.problem(place, fault("no flow crosses this link, so it has no BDP", fix));
        }
        return None;
    }
    size.in_bytes(site.rate.unwrap_or(0), site.rtt.unwrap_or(0))
}
