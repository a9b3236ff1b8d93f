//! Refuses runs that would never end or would exhaust the machine's memory, before time zero.

use std::collections::BTreeMap;

use super::network::flow::Flow;
use super::network::foreign::NOT_FOREIGN;
use super::parts::{Parts, refuse};
use crate::link::Link;
use crate::scenario::{FlowSpec, LinkSpec, Scenario, ScenarioError};
use crate::traffic::Application;

/// Default limit on the rows that a run may record: 3 GB of the widest table.
pub const MOST_ROWS: u64 = 20_000_000;
/// Default limit on the bytes of packets and connections together. A million TCP connections fit.
pub const MOST_MEMORY: u64 = 8_000_000_000;
/// Limit on the foreign stacks' connections open at once. A connection of s2n-quic reserves 6.3 MB of address space for
/// its queues; the allocator aborts a process that runs out of it.
pub const MOST_FOREIGN: usize = 10_000;
/// Row numbers have 32 bits; the highest value means "none".
const MOST_ROWS_EVER: u64 = u32::MAX as u64 - 1;
/// Bytes of the packets that the estimate counts in.
const PACKET: f64 = 1500.0;
/// Rows of table `segments` per data packet: its departure, its arrival, and half of two rows for an ACK.
const SEGMENT_ROWS: f64 = 3.0;
/// Rows of table `queue` per packet: enqueue and dequeue.
const QUEUE_ROWS: f64 = 2.0;
/// Approximate number of quantities that an algorithm shows at a poll.
const INTERNALS: f64 = 5.0;

/// An error if a round trip of a connection of `flow` would take no time: simulated time would never advance.
pub fn refuse_timeless(
    number: usize,
    spec: &FlowSpec,
    flow: &Flow,
    links: &[Link],
    named: usize,
) -> Result<(), ScenarioError> {
    if flow.plan.is_none() && flow.foreign == NOT_FOREIGN {
        return Ok(());
    }
    let takes_time = |link: &u32| links[*link as usize].takes_time();
    // A connection's own path replaces the first link in each direction.
    let skip = usize::from(!flow.paths.is_empty());
    if flow.route[skip..].iter().chain(&flow.back[skip..]).any(takes_time) {
        return Ok(());
    }
    if skip == 1 && flow.paths.iter().all(|pair| pair.iter().any(takes_time)) {
        return Ok(());
    }
    let first = flow.route.iter().find(|link| (**link as usize) < named);
    let field = match first {
        Some(link) => format!("links[{link}].rate_bps"),
        None => format!("flows[{number}].route"),
    };
    Err(refuse(
        field,
        "nothing",
        format!(
            "no link between {} and {} has a rate or a delay, there or back, so flow {} would send without end and no \
             time would pass",
            spec.from, spec.to, spec.name
        ),
        "Give one of these links a rate or a delay.",
    ))
}

/// The limit on recorded rows, or an error if the run will probably exceed it.
pub fn most_rows(scenario: &Scenario, parts: &Parts) -> Result<u64, ScenarioError> {
    let wanted = &scenario.instruments;
    let most = wanted.most_rows.unwrap_or(MOST_ROWS);
    if most == 0 || most > MOST_ROWS_EVER {
        return Err(refuse(
            "instruments.most_rows",
            most,
            format!("a run records at least one row and at most {MOST_ROWS_EVER}"),
            "Give a number between, or leave it out.",
        ));
    }
    let estimates = estimates(scenario, parts);
    let sum: f64 = estimates.iter().map(|(_, rows)| rows).sum();
    let (field, largest) =
        estimates.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are tables");
    if sum <= most as f64 {
        return Ok(most);
    }
    let found = match field {
        "poll_interval_ps" => format!("\"{} ps\"", wanted.poll_interval_ps),
        "captures" => format!("{:?}", wanted.captures),
        "segments" => format!("{:?}", wanted.segments),
        "queues" => format!("{:?}", wanted.queues),
        _ => format!("{:?}", wanted.packets),
    };
    let about = |rows: f64| if rows < 1e6 { format!("{rows:.0}") } else { format!("{rows:.2e}") };
    let (sum, largest) = (about(sum), about(largest));
    Err(refuse(
        format!("instruments.{field}"),
        found,
        format!("the run would record about {sum} rows, {largest} of them by this, and most_rows is {most}"),
        "Poll less often, record fewer flows or links or a shorter time (from, until), or raise \
         instruments.most_rows; written to a folder (--out), rows take little memory.",
    ))
}

/// Estimated size of a run, before it starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Upper bound on full data packets.
    pub packets: f64,
    /// Rows of all tables together.
    pub rows: f64,
}

/// See [`Expected`].
pub fn expected(scenario: &Scenario, parts: &Parts) -> Expected {
    let rows = estimates(scenario, parts).iter().map(|(_, rows)| rows).sum();
    Expected { packets: crossing(scenario, parts, scenario.duration_ps as f64, |_| true), rows }
}

/// Expected rows by scenario field. Rows that cannot be known before the run (drops, requests, echoes) count as zero.
fn estimates(scenario: &Scenario, parts: &Parts) -> [(&'static str, f64); 5] {
    let wanted = &scenario.instruments;
    let until = wanted.until_ps.map_or(scenario.duration_ps, |until| until.min(scenario.duration_ps));
    let span_ps = until.saturating_sub(wanted.from_ps) as f64;
    let flow_rows = if wanted.internals { 1.0 + INTERNALS } else { 1.0 };
    let a_poll = wanted.polls.len() as f64 * flow_rows + wanted.queue_polls.len() as f64;
    let polls = if a_poll > 0.0 { a_poll * span_ps / wanted.poll_interval_ps as f64 } else { 0.0 };
    let packets = |link: usize| packets(parts, link, span_ps);
    let crossing =
        |names: &[String]| crossing(scenario, parts, span_ps, |name| names.iter().any(|it| it == name));
    let queues = scenario.links.iter().enumerate().filter(|(_, link)| wanted.queues.contains(&link.name));
    // A side of a link sees its packets, a node those of all its links, and each packet's headers are a row too.
    let seen = |point: &String| -> f64 {
        let sees = |link: &LinkSpec| {
            let side = point.strip_prefix(link.name.as_str());
            side.is_some_and(|end| end == ".in" || end == ".out") || link.from == *point || link.to == *point
        };
        scenario.links.iter().enumerate().filter(|(_, link)| sees(link)).map(|(link, _)| packets(link)).sum()
    };
    let captures = 2.0 * wanted.captures.iter().map(seen).sum::<f64>();
    [
        ("captures", captures),
        ("poll_interval_ps", polls),
        ("segments", SEGMENT_ROWS * crossing(&wanted.segments)),
        ("queues", QUEUE_ROWS * queues.map(|(link, _)| packets(link)).sum::<f64>()),
        ("packets", crossing(&wanted.packets)),
    ]
}

/// Full packets that a link can carry in `span_ps`; zero if it has no rate of its own.
fn packets(parts: &Parts, link: usize, span_ps: f64) -> f64 {
    match parts.links[link].nominal() {
        Some(rate) => rate.as_bps() as f64 / (8.0 * PACKET) * span_ps / 1e12,
        None => 0.0,
    }
}

/// Full packets that the counted flows can send in `span_ps`. Flows with the same slowest link share its packets; a
/// flow with a rate of its own sends no more than that.
fn crossing(scenario: &Scenario, parts: &Parts, span_ps: f64, is_counted: impl Fn(&str) -> bool) -> f64 {
    let mut sums: BTreeMap<usize, f64> = BTreeMap::new();
    for (spec, flow) in scenario.flows.iter().zip(&parts.flows) {
        if !is_counted(&spec.name) {
            continue;
        }
        let rated = flow.route.iter().map(|link| (*link as usize, packets(parts, *link as usize, span_ps)));
        let slowest = rated.filter(|(_, packets)| *packets > 0.0).min_by(|a, b| a.1.total_cmp(&b.1));
        let own = flow.app.needs().load_bps[0] / (8.0 * PACKET) * span_ps / 1e12;
        let Some((link, carried)) = slowest else { continue };
        let wanted = if own > 0.0 { own.min(carried) } else { carried };
        let sum = sums.entry(link).or_default();
        *sum = (*sum + wanted).min(carried);
    }
    sums.values().sum()
}
