//! The home networks of CAIA's technical report 110729A (2011).

use super::{Given, link, of, two_way};
use crate::node::Node;
use crate::problem::{Fault, fault};
use crate::quantity::{Counts, Size};
use crate::table;

pub(super) fn adsl1(given: &Given) -> Result<Vec<Node>, Fault> {
    let adsl = || table! { "name" => "adsl", "encapsulation" => given.node("encapsulation") };
    let [there, back] = two_way("internet", "left", "isp", given.node("internet_delay"), given.node("loss"));
    let down = adsl().with(table! { "sync" => given.node("down"), "interleaving" => "16ms" });
    let up = adsl().with(table! { "sync" => given.node("up"), "interleaving" => "8ms" });
    Ok(vec![
        there,
        link("down", "isp", "right", table! { "queue" => given.node("buffer"), "medium" => down }),
        link("up", "right", "isp", table! { "queue" => given.node("up_buffer"), "medium" => up }),
        back,
    ])
}

pub(super) fn adsl1_vtun(given: &Given) -> Result<Vec<Node>, Fault> {
    let inside = || {
        let medium = table! { "name" => "tunnel", "flow" => "vtun" };
        table! { "queue" => given.node("tun_queue"), "medium" => medium }
    };
    let mut links = adsl1(given)?;
    links.push(link("tunnel", "left", "right", inside()));
    links.push(link("tunnel-back", "right", "left", inside()));
    Ok(links)
}

/// The connection that carries all packets, established before them.
pub(super) fn vtun(given: &Given) -> Result<Vec<Node>, Fault> {
    Ok(vec![table! {
        "app" => "tunnel", "name" => "vtun", "from" => "left", "to" => "right", "mtu" => "1492B",
        "cc" => given.node("cc"), "stack" => given.node("stack"), "send_buffer" => given.node("send_buffer"),
        "receive_buffer" => "256KiB",
    }])
}

pub(super) fn homeplug(given: &Given) -> Result<Vec<Node>, Fault> {
    // The adapter's queue plus the queue of the host that it pauses: neither drops on its own, so together they act as
    // one queue.
    let held = given.count("pause_queue", 100_000)?;
    let size = Size::field(&given.node("buffer")).map_err(|fault| of("buffer", fault))?;
    if held > 0 && size.counts != Counts::Packets {
        let problem = "a paused host's queue counts packets, this one does not";
        return Err(of("buffer", fault(problem, "Give packets, such as 30packets")));
    }
    let queue =
        if held > 0 { format!("{}packets", size.amount + u128::from(held)) } else { size.to_string() };
    let way = |name: &str, from: &str, to: &str, rate: &str| {
        let medium = table! {
            "name" => "homeplug", "channel" => "mains", "payload" => given.node("payload"),
            "block_error" => given.node("block_error"), "phy_mbps" => given.node(rate),
        };
        let queue = Node { value: queue.as_str().into(), ..given.node("buffer") };
        link(
            name,
            from,
            to,
            table! { "queue" => queue, "delay" => given.node("bridge_delay"), "medium" => medium },
        )
    };
    Ok(vec![way("down", "left", "right", "phy"), way("up", "right", "left", "back_phy")])
}

pub(super) fn wifi(given: &Given) -> Result<Vec<Node>, Fault> {
    let way = |name: &str, from: &str, to: &str| {
        let medium = table! {
            "name" => "wifi", "channel" => "air", "rate_mbps" => given.node("rate"), "slot" => given.node("slot"),
            "frame_error" => given.node("frame_error"),
        };
        let more = table! { "queue" => given.node("buffer"), "delay" => given.node("host_delay"), "medium" => medium };
        link(name, from, to, more)
    };
    let [there, back] = two_way("wire", "ap", "right", "10us", 0.0.into());
    Ok(vec![way("air", "left", "ap"), way("air-back", "ap", "left"), there, back])
}
