//! The access links of Murray and Ong's experiments between Singapore and Perth (2013).

use super::{Given, link, of, two_way};
use crate::node::{Node, Value};
use crate::problem::Fault;
use crate::quantity::Quantity;
use crate::table;

pub(super) fn hsdpa(given: &Given) -> Result<Vec<Node>, Fault> {
    let [there, back] = two_way("internet", "left", "rnc", "26.9ms", 0.0.into());
    let down = table! {
        "name" => "hsdpa", "cqi" => given.node("cqi"), "cqi_spread" => given.node("cqi_spread"),
        "share" => given.node("share"),
    };
    let up = table! { "name" => "dch", "rate" => given.node("up") };
    Ok(vec![
        there,
        link(
            "down",
            "rnc",
            "right",
            table! { "queue" => given.node("buffer"), "medium" => down.with(stalls(given)?) },
        ),
        link("up", "right", "rnc", table! { "queue" => "64kB", "medium" => up }),
        back,
    ])
}

/// Parameters of a stalling downlink; an empty table if it never stalls.
fn stalls(given: &Given) -> Result<Node, Fault> {
    let every = given.node("stall_every");
    let never = Quantity::Time.field(&every).map_err(|fault| of("stall_every", fault))? == 0;
    Ok(if never {
        table! {}
    } else {
        table! { "stall_every" => every }
    })
}

pub(super) fn adsl2(given: &Given) -> Result<Vec<Node>, Fault> {
    adsl2_line(given, "right")
}

fn adsl2_line(given: &Given, home: &str) -> Result<Vec<Node>, Fault> {
    let [there, back] = two_way("internet", "left", "isp", "25.5ms", 0.0.into());
    let adsl = |sync: &str| {
        table! { "name" => "adsl", "encapsulation" => "pppoe-llc", "sync" => sync, "interleaving" => "1ms" }
    };
    let wire = table! { "loss" => given.node("line_loss") };
    Ok(vec![
        there,
        // 13 Mbit/s of IP are 14.77 Mbit/s of cells.
        link(
            "down",
            "isp",
            home,
            table! { "queue" => given.node("buffer"), "medium" => adsl("14.77mbit"), "wire" => wire },
        ),
        link("up", home, "isp", table! { "queue" => "64kB", "medium" => adsl("1mbit") }),
        back,
    ])
}

pub(super) fn adsl2_wifi(given: &Given) -> Result<Vec<Node>, Fault> {
    let mut links = adsl2_line(given, "home")?;
    links.splice(2..2, cell("air", "home", "right", given)?);
    Ok(links)
}

/// Links between an access point and a station; `ap_buffer` is the station's queue in the access point.
fn cell(name: &str, ap: &str, station: &str, given: &Given) -> Result<[Node; 2], Fault> {
    let wifi = || {
        table! {
            "name" => "wifi", "channel" => "air", "standard" => given.node("standard"),
            "rate_mbps" => given.node("rate"), "frame_error" => given.node("frame_error"),
        }
    };
    let stalls = if station == "right" {
        stalls(given)?
    } else {
        table! {}
    };
    // An access point hears every station, but stations may not hear each other.
    let back = wifi().with(table! { "hidden" => given.node("hidden") });
    let back_name = name.replacen("air", "air-back", 1);
    Ok([
        link(
            name,
            ap,
            station,
            table! { "queue" => given.node("ap_buffer"), "medium" => wifi().with(stalls) },
        ),
        link(&back_name, station, ap, table! { "queue" => given.node("station_buffer"), "medium" => back }),
    ])
}

pub(super) fn university(given: &Given) -> Result<Vec<Node>, Fault> {
    wired(given, "right")
}

/// Links from Singapore to `end`, which may have a port of its own.
fn wired(given: &Given, end: &str) -> Result<Vec<Node>, Fault> {
    let [there, back] = two_way("internet", "left", "border", "26.5ms", 0.0.into());
    let has_port = given.0.iter().any(|(name, _)| *name == "port") && given.is_set("port");
    let lan = if has_port { "lan" } else { end };
    let backbone = || table! { "rate" => "1gbit", "delay" => "500us", "queue" => given.node("queue") };
    let mut links = vec![there, link("backbone", "border", lan, backbone())];
    if has_port {
        let port =
            || table! { "rate" => given.node("port"), "delay" => "0s", "queue" => given.node("port_queue") };
        links.push(link("port", lan, end, port()));
        links.push(link("port-back", end, lan, port()));
    }
    links.push(link("backbone-back", lan, "border", backbone()));
    links.push(back);
    Ok(links)
}

pub(super) fn eduroam(given: &Given) -> Result<Vec<Node>, Fault> {
    let mut links = wired(given, "ap")?;
    links.splice(2..2, cell("air", "ap", "right", given)?);
    for number in 1..=given.count("stations", 100)? {
        let mut others = cell("air", "ap", &format!("station-{number}"), given)?;
        for (link, name) in others.iter_mut().zip(["air", "air-back"]) {
            let Value::Table(rows) = &mut link.value else { unreachable!("a link is a table") };
            rows[0].1 = format!("{name}-{number}").into();
        }
        links.extend(others);
    }
    Ok(links)
}

/// Other traffic on the backbone: web sessions with random arrivals.
pub(super) fn crowd(given: &Given) -> Result<Vec<Node>, Fault> {
    let has_port = given.is_set("port");
    Ok(crowd_from(given, if has_port { "lan" } else { "right" }))
}

fn crowd_from(given: &Given, from: &str) -> Vec<Node> {
    if !given.is_set("sessions") {
        return Vec::new();
    }
    let params = table! {
        "rate" => given.node("sessions"), "hosts" => 50u64, "access_low" => "1ms", "access_high" => "100ms",
    };
    vec![table! { "app" => "web", "name" => "crowd", "from" => from, "to" => "border", "params" => params }]
}

/// Other users of the access point, each of whom fetches pages.
pub(super) fn neighbours(given: &Given) -> Result<Vec<Node>, Fault> {
    let mut flows = crowd_from(given, "ap");
    for number in 1..=given.count("stations", 100)? {
        let station = format!("station-{number}");
        let params = table! { "rate" => given.node("station_sessions") };
        flows.push(table! {
            "app" => "web", "name" => station.as_str(), "from" => station, "to" => "border", "params" => params,
        });
    }
    Ok(flows)
}
