//! Access links of today: a cable line, and a path over satellites in low orbit.

use super::{Given, Preset, link, no_flows, number, text};
use crate::node::Node;
use crate::problem::Fault;
use crate::table;

pub(super) const CABLE: Preset = Preset {
    name: "cable",
    title: "A cable line: DOCSIS upstream behind the modem's PIE",
    paper: "White and Pan, AQM Based on PIE for DOCSIS Cable Modems, RFC 8034 (2017)",
    section: "4 and appendix A",
    reported: "the modem's PIE holds 10 ms; rates, delays and the way down's queue are chosen",
    choices: &[&[
        text("down", "100mbit", "What the line downloads, as a plain link."),
        text("up", "10mbit", "What it uploads, in Ethernet frames."),
        text("line", "100mbit", "Rate of the upstream channel, at which a grant is sent."),
        text("map", "2ms", "MAP interval."),
        text("grant", "2ms", "From a request to the earliest interval that grants it."),
        text("delay", "8ms", "One way between the internet and the home; chosen."),
        text("down_queue", "100ms", "The provider's queue towards the home; chosen."),
        text("up_queue", DOCSIS_PIE, "The modem's queue; docsis-pie is PIE with RFC 8034's constants."),
    ]],
    links: cable,
    flows: no_flows,
};

pub(super) const LOW_ORBIT: Preset = Preset {
    name: "low-orbit",
    title: "A path over satellites in low orbit, such as Starlink's",
    paper: "Mohan et al., A Multifaceted Look at Starlink Performance, WWW 2024",
    section: "abstract",
    reported: "all links are allocated again every 15 s, with other delays and rates",
    choices: &[&[
        text("down", "100mbit", "Mean rate to the home; near the median of Ookla, 2021."),
        text("up", "10mbit", "Mean rate from it; chosen."),
        number("spread", 0.4, "Furthest that a rate strays, as a share of its mean; chosen."),
        text("interval", "15s", "Between two reallocations."),
        text("outage", "140ms", "Silence after a reallocation."),
        number("loss", 0.1, "Probability that a packet under way at a reallocation is lost; chosen."),
        text("delay", "5ms", "One way between ground station and server; chosen."),
        text("down_queue", "500kB", "Queue towards the home; chosen."),
        text("up_queue", "100kB", "Queue from it; chosen."),
    ]],
    links: low_orbit,
    flows: no_flows,
};

const DOCSIS_PIE: &str = "docsis-pie";

fn cable(given: &Given) -> Result<Vec<Node>, Fault> {
    let queue = match given.text("up_queue").as_str() {
        DOCSIS_PIE => docsis_pie(),
        _ => given.node("up_queue"),
    };
    let medium = table! {
        "name" => "docsis", "rate" => given.node("up"), "line" => given.node("line"), "map" => given.node("map"),
        "grant" => given.node("grant"),
    };
    let down = table! {
        "rate" => given.node("down"), "delay" => given.node("delay"), "queue" => given.node("down_queue"),
    };
    let up = table! { "delay" => given.node("delay"), "queue" => queue, "medium" => medium };
    Ok(vec![link("down", "left", "right", down), link("up", "right", "left", up)])
}

/// RFC 8034, appendix A: target, update interval, A and B, and the longest burst.
fn docsis_pie() -> Node {
    table! {
        "discipline" => "pie", "target" => "10ms", "t_update" => "16ms", "alpha" => 0.25, "beta" => 2.5,
        "max_burst" => "142ms",
    }
}

fn low_orbit(given: &Given) -> Result<Vec<Node>, Fault> {
    let way = |name: &str, ends: [&str; 2], rate: &str, queue: &str| {
        let medium = table! {
            "name" => "leo", "rate" => given.node(rate), "spread" => given.node("spread"),
            "interval" => given.node("interval"), "outage" => given.node("outage"), "loss" => given.node("loss"),
        };
        let more =
            table! { "delay" => given.node("delay"), "queue" => given.node(queue), "medium" => medium };
        link(name, ends[0], ends[1], more)
    };
    Ok(vec![
        way("down", ["left", "right"], "down", "down_queue"),
        way("up", ["right", "left"], "up", "up_queue"),
    ])
}
