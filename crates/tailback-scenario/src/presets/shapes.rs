//! Network topologies with several bottlenecks or several entry points.

use super::{Given, Preset, link, number, of, text, whole};
use crate::node::Node;
use crate::problem::{Fault, fault};
use crate::quantity::Quantity;
use crate::table;

pub(super) const PARKING_LOT: Preset = Preset {
    name: "parking-lot",
    title: "Bottlenecks in a row: one way over all of them, and cross traffic over each",
    paper: "Hayes et al., Common TCP Evaluation Suite, draft-irtf-iccrg-tcpeval-01 (2014); Floyd, Connections with \
            Multiple Congested Gateways in Packet-Switched Networks, CCR 21(5), 1991",
    section: "6.3",
    reported: "three links of 100 Mbit/s; every round trip is 60 ms",
    choices: &[&[
        whole("hops", 3, "Bottlenecks in a row, 1 to 32."),
        text("rate", "100mbit", "Rate of each, in both directions."),
        text("delay", "10ms", "One way over each."),
        text("queue", "1bdp", "Queue of each; 1 BDP is of the longest round trip."),
        number(
            "loss",
            0.0,
            "Share of packets that each loses at random behind its queue, in both directions.",
        ),
        whole("cross", 1, "Flows over each bottleneck alone, up to 100; 0: none."),
        text("cross_cc", "reno", "Their congestion control."),
        text("cross_stack", "linux", "Their stack."),
        text(
            "cross_delay",
            "equal",
            "Their extra delay at the sender, each way; equal: their round trip is that over all hops.",
        ),
    ]],
    links: lot,
    flows: crossing,
};

pub(super) const TREE: Preset = Preset {
    name: "tree",
    title: "Access links of unequal rate that join one bottleneck",
    paper: "Floyd and Paxson, Difficulties in Simulating the Internet, IEEE/ACM ToN 9(4), 2001",
    section: "on topology and link properties",
    reported: "why one dumbbell is not enough: links differ by orders of magnitude; rates and delays are chosen",
    choices: &[&[
        text("rate", "20mbit", "Rate of the bottleneck, in both directions."),
        text("delay", "10ms", "One way over it."),
        text("queue", "1bdp", "Its queue; 1 BDP is of the longest round trip."),
        text("access", "2mbit 10mbit 100mbit", "Rates of the access links, with spaces between; up to 100."),
        text(
            "access_delay",
            "5ms",
            "One way over an access link: one for all, or as many as there are rates.",
        ),
        text("access_queue", "100ms", "Queue of each access link."),
        whole("each", 1, "Flows that the preset adds from each access link to right, up to 100; 0: none."),
        text("cc", "reno", "Their congestion control."),
        text("stack", "linux", "Their stack."),
    ]],
    links: tree,
    flows: from_leaves,
};

const MOST_HOPS: u64 = 32;
const MOST_FLOWS: u64 = 100;
const MOST_LEAVES: usize = 100;

fn hops(given: &Given) -> Result<u64, Fault> {
    let problem = || fault(format!("must be a whole number from 1 to {MOST_HOPS}"), "Write for example 3");
    given.count("hops", MOST_HOPS).ok().filter(|hops| *hops > 0).ok_or_else(|| of("hops", problem()))
}

/// The node before the first hop is number 0.
fn node(number: u64, hops: u64) -> String {
    match number {
        0 => "left".into(),
        _ if number == hops => "right".into(),
        _ => format!("middle-{number}"),
    }
}

fn lot(given: &Given) -> Result<Vec<Node>, Fault> {
    let hops = hops(given)?;
    let hop = |number: u64| {
        let more = table! {
            "rate" => given.node("rate"), "delay" => given.node("delay"), "queue" => given.node("queue"),
            "wire" => table! { "loss" => given.node("loss") }, "duplex" => true,
        };
        link(&format!("hop-{number}"), &node(number - 1, hops), &node(number, hops), more)
    };
    Ok((1..=hops).map(hop).collect())
}

fn crossing(given: &Given) -> Result<Vec<Node>, Fault> {
    let (hops, count) = (hops(given)?, given.count("cross", MOST_FLOWS)?);
    let extra = if given.text("cross_delay") == "equal" {
        let delay = Quantity::Time.field(&given.node("delay")).map_err(|fault| of("delay", fault))?;
        let extra = delay.checked_mul(hops - 1);
        let extra =
            extra.ok_or_else(|| of("delay", fault("is longer than any run", "Write for example 10ms")))?;
        Quantity::Time.text(extra).into()
    } else {
        given.node("cross_delay")
    };
    let flow = |number: u64| {
        let more = table! {
            "cc" => given.node("cross_cc"), "stack" => given.node("cross_stack"),
            "access_delay" => extra.clone(),
        };
        several(&format!("cross-{number}"), &node(number - 1, hops), &node(number, hops), count, more)
    };
    Ok(if count == 0 { vec![] } else { (1..=hops).map(flow).collect() })
}

/// `count` bulk transfers; a single one has no number in its name.
fn several(name: &str, from: &str, to: &str, count: u64, more: Node) -> Node {
    let flow = table! { "app" => "bulk", "name" => name, "from" => from, "to" => to };
    if count == 1 { flow.with(more) } else { flow.with(table! { "count" => count }).with(more) }
}

/// Each access link's rate and delay.
fn leaves(given: &Given) -> Result<Vec<[Node; 2]>, Fault> {
    let each = |name: &'static str, quantity: Quantity| -> Result<Vec<Node>, Fault> {
        let text = given.text(name);
        let nodes = text.split_whitespace().map(|word| Node { value: word.into(), ..given.node(name) });
        let nodes: Vec<Node> = nodes.collect();
        for node in &nodes {
            quantity.field(node).map_err(|fault| of(name, fault))?;
        }
        Ok(nodes)
    };
    let (rates, delays) = (each("access", Quantity::Rate)?, each("access_delay", Quantity::Time)?);
    if rates.is_empty() || rates.len() > MOST_LEAVES {
        let fix = "Write for example 2mbit 10mbit";
        return Err(of("access", fault(format!("must be 1 to {MOST_LEAVES} rates"), fix)));
    }
    if delays.len() != 1 && delays.len() != rates.len() {
        let problem = format!("gives {} delays for {} access links", delays.len(), rates.len());
        return Err(of("access_delay", fault(problem, "Give one for all, or one for each")));
    }
    let delays = delays.iter().cycle();
    Ok(rates.into_iter().zip(delays).map(|(rate, delay)| [rate, delay.clone()]).collect())
}

fn tree(given: &Given) -> Result<Vec<Node>, Fault> {
    let trunk = table! {
        "rate" => given.node("rate"), "delay" => given.node("delay"), "queue" => given.node("queue"), "duplex" => true,
    };
    let mut links = vec![link("bottleneck", "left", "right", trunk)];
    for (at, [rate, delay]) in (1..).zip(leaves(given)?) {
        let more = table! {
            "rate" => rate, "delay" => delay, "queue" => given.node("access_queue"), "duplex" => true,
        };
        links.push(link(&format!("access-{at}"), &format!("leaf-{at}"), "left", more));
    }
    Ok(links)
}

fn from_leaves(given: &Given) -> Result<Vec<Node>, Fault> {
    let count = given.count("each", MOST_FLOWS)?;
    if count == 0 {
        return Ok(vec![]);
    }
    let more = || table! { "cc" => given.node("cc"), "stack" => given.node("stack") };
    let leaves = 1..=leaves(given)?.len();
    Ok(leaves
        .map(|number| several(&format!("flow-{number}"), &format!("leaf-{number}"), "right", count, more()))
        .collect())
}
