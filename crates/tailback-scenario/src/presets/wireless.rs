//! Wireless access of today: an access point with three stations, and a cell with several users.

use super::{Given, Preset, link, number, text, whole};
use crate::node::Node;
use crate::problem::Fault;
use crate::table;

pub(super) const AIRTIME: Preset = Preset {
    name: "airtime",
    title: "An access point with two fast stations and a slow one",
    paper: "Høiland-Jørgensen et al., Ending the Anomaly, USENIX ATC 2017",
    section: "4.1 and table 1",
    reported: "UDP of 7.1, 6.3 and 5.3 Mbit/s with a FIFO, of 38.8, 35.6 and 2.0 with airtime fairness",
    choices: &[&[
        text("order", "airtime", "Which station is sent to next: airtime, turns, or fifo."),
        text(
            "queue",
            "fq_codel",
            "The access point's queue for each station; with order = \"fifo\" leave it out.",
        ),
        text("standard", "n", "802.11n or 802.11ac: n or ac."),
        whole("width", 20, "Channel in MHz."),
        whole("streams", 2, "Spatial streams of the fast stations; the slow one has one."),
        whole(
            "aggregate",
            19,
            "Most frames in an A-MPDU; the paper's fast stations had 28.5 kB, 19 packets.",
        ),
        text("rate_control", "fixed", "Of the fast stations: fixed or minstrel; the slow one keeps MCS 0."),
        number("frame_error", 0.0, "Probability that a full frame fails; chosen."),
        text("delay", "1ms", "One way between server and access point, by Ethernet; chosen."),
        text("cc", "cubic", "Congestion control of downloads to the other two stations; empty: none."),
    ]],
    links: airtime,
    flows: to_stations,
};

pub(super) const LTE: Preset = Preset {
    name: "lte",
    title: "An LTE cell, where users with deep queues share a carrier",
    paper: "Huang et al., A Close Examination of Performance and Power Characteristics of 4G LTE Networks, MobiSys 2012",
    section: "abstract",
    reported: "medians of 13 Mbit/s down and 6 up; users, signal, queues and delays are chosen",
    choices: &[&[
        whole("users", 4, "Users in the cell, the one at right included, 1 to 100."),
        number("snr", 15.0, "Mean SNR of the user at right, dB."),
        number("others_snr", 15.0, "Mean SNR of the others, dB."),
        text("scheduler", "fair", "Proportional fair, or turns."),
        number("bandwidth", 20.0, "Carrier of each direction, MHz."),
        text("coherence", "50ms", "Time in which a channel forgets; 50 ms is a walk."),
        text("handover_every", "0s", "Mean time between two handovers of the user at right; 0s: never."),
        text("queue", "1MB", "Each user's queue towards it."),
        text("up_queue", "300kB", "Each user's queue from it."),
        text("delay", "20ms", "One way between server and cell."),
        text("up_delay", "10ms", "Requests and grants before a user may send."),
        text("cc", "cubic", "Congestion control of a download to each other user; empty: none."),
    ]],
    links: lte,
    flows: to_users,
};

const STATIONS: [&str; 3] = ["right", "fast", "slow"];

fn airtime(given: &Given) -> Result<Vec<Node>, Fault> {
    let wire = table! { "rate" => "1gbit", "delay" => given.node("delay"), "duplex" => true };
    let mut links = vec![link("ethernet", "left", "ap", wire)];
    for station in STATIONS {
        let medium = || {
            let common = table! {
                "name" => "wifi-ac", "channel" => "air", "standard" => given.node("standard"),
                "width_mhz" => given.node("width"), "frame_error" => given.node("frame_error"),
                "aggregate" => given.node("aggregate"),
            };
            common.with(if station == "slow" {
                table! { "streams" => 1u64, "mcs" => 0u64 }
            } else {
                table! { "streams" => given.node("streams"), "rate_control" => given.node("rate_control") }
            })
        };
        let down = medium().with(table! { "order" => given.node("order") });
        let queue = if given.text("order") == "fifo" { "10000packets".into() } else { given.node("queue") };
        links.push(link(
            &format!("to-{station}"),
            "ap",
            station,
            table! { "queue" => queue, "medium" => down },
        ));
        let up = table! { "queue" => "fq_codel", "medium" => medium() };
        links.push(link(&format!("from-{station}"), station, "ap", up));
    }
    Ok(links)
}

fn to_stations(given: &Given) -> Result<Vec<Node>, Fault> {
    Ok(if given.is_set("cc") {
        STATIONS[1..].iter().map(|station| download(given, station)).collect()
    } else {
        vec![]
    })
}

fn download(given: &Given, to: &str) -> Node {
    table! { "app" => "bulk", "name" => format!("to-{to}"), "from" => "left", "to" => to, "cc" => given.node("cc") }
}

/// The user of a number; the first is at right.
fn user(number: u64) -> String {
    if number == 1 { "right".into() } else { format!("user-{number}") }
}

fn lte(given: &Given) -> Result<Vec<Node>, Fault> {
    let users = users(given)?;
    let core = table! { "rate" => "10gbit", "delay" => given.node("delay"), "duplex" => true };
    let mut links = vec![link("core", "left", "cell", core)];
    for number in 1..=users {
        let medium = |channel: &str| {
            let snr = given.node(if number == 1 { "snr" } else { "others_snr" });
            let common = table! {
                "name" => "cell", "channel" => channel, "snr_db" => snr, "bandwidth_mhz" => given.node("bandwidth"),
                "coherence" => given.node("coherence"), "scheduler" => given.node("scheduler"),
            };
            common.with(if number == 1 {
                table! { "handover_every" => given.node("handover_every") }
            } else {
                table! {}
            })
        };
        let name = user(number);
        let down = table! { "queue" => given.node("queue"), "medium" => medium("down") };
        let up = medium("up").with(table! { "attenuation" => 0.4, "efficiency_most" => 2.0 });
        let up =
            table! { "queue" => given.node("up_queue"), "delay" => given.node("up_delay"), "medium" => up };
        links.push(link(&format!("to-{name}"), "cell", &name, down));
        links.push(link(&format!("from-{name}"), &name, "cell", up));
    }
    Ok(links)
}

fn users(given: &Given) -> Result<u64, Fault> {
    given.count("users", 100).ok().filter(|users| *users > 0).ok_or_else(|| {
        super::of(
            "users",
            crate::problem::fault("must be a whole number from 1 to 100", "Write for example 4"),
        )
    })
}

fn to_users(given: &Given) -> Result<Vec<Node>, Fault> {
    let others = if given.is_set("cc") { users(given)? } else { 1 };
    Ok((2..=others).map(|number| download(given, &user(number))).collect())
}
