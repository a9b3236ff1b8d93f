//! A home behind a modem, with a router whose shapers may move the queue into the router.

use super::{Choice, Given, Preset, link, no_flows, number, of, text};
use crate::node::{Node, Value};
use crate::problem::{Fault, fault};
use crate::quantity::Quantity;
use crate::table;

pub(super) const HOME: Preset = Preset {
    name: "home",
    title: "A home line: provider, modem, and a router that may shape",
    paper: "Høiland-Jørgensen, Täht and Morton, Piece of CAKE, LANMAN 2018",
    section: "III",
    reported: "why a shaper moves the queue into the router; rates and queues are chosen, as of a 50/10 cable line",
    choices: &[&[
        text("down", "50mbit", "What the line downloads."),
        text("up", "10mbit", "What it uploads."),
        text("delay", "10ms", "One way between the internet and the home."),
        text("down_queue", "150ms", "The provider's queue towards the home; chosen."),
        text("up_queue", "250ms", "The modem's queue from the home; chosen."),
        SHAPE,
        text("queue", "fq_codel", "The router's queues, in both directions."),
        text("lan", "1gbit", "Cable between router and modem, which the router sends at without a shaper."),
    ]],
    links,
    flows: no_flows,
};
const SHAPE: Choice =
    number("shape", 0.0, "Share of both rates that the router's shapers let through; 0: none.");

fn links(given: &Given) -> Result<Vec<Node>, Fault> {
    let router = || table! { "queue" => given.node("queue") };
    let line = |rate: &str, queue: &str| {
        table! { "rate" => given.node(rate), "delay" => given.node("delay"), "queue" => given.node(queue) }
    };
    Ok(vec![
        link("provider", "left", "router", line("down", "down_queue")),
        link("router-down", "router", "right", router().with(table! { "rate" => shaped(given, "down")? })),
        link("router-up", "right", "modem", router().with(table! { "rate" => shaped(given, "up")? })),
        link("modem", "modem", "left", line("up", "up_queue")),
    ])
}

/// The router's shaping rate for a line with the rate of this option.
fn shaped(given: &Given, line: &'static str) -> Result<Node, Fault> {
    let share = match given.node("shape").value {
        Value::Number(share) => Some(share),
        Value::Whole(share) => Some(share as f64),
        _ => None,
    };
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    let Some(share) = share else {
        return Err(of(
            "shape",
            fault("must be a share from 0 to 1", "Write for example 0.95, or 0 for no shaper"),
        ));
    };
    if share == 0.0 {
        return Ok(given.node("lan"));
    }
    let rate = Quantity::Rate.field(&given.node(line)).map_err(|fault| of(line, fault))?;
    Ok(Node { value: format!("{:.0}bit", share * rate as f64).as_str().into(), ..given.node(line) })
}
