//! Converts the engine's form back to a scenario: a general network, as in a file.

use tailback_core::params::{Card, Kind, ParamSpec, Spelling};
use tailback_core::{cc, queue};

use crate::node::{Node, Value};
use crate::quantity::Quantity;
use crate::table;

/// Whether a row has no content.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::List(items) => items.is_empty(),
        Value::Table(rows) => rows.is_empty(),
        _ => false,
    }
}

/// The table without empty rows.
fn lean(table: Node) -> Node {
    table.rows().iter().filter(|(_, node)| !says_nothing(&node.value)).cloned().collect::<Vec<_>>().into()
}

/// A row of a table, or null.
fn row(table: &Node, key: &str) -> Node {
    table.get(key).cloned().unwrap_or(Value::Null.into())
}

/// The same, with null for zero, false or empty.
fn set_row(table: &Node, key: &str) -> Node {
    let node = row(table, key);
    let is_zero = match &node.value {
        Value::Whole(number) => *number == 0,
        Value::Number(number) => *number == 0.0,
        Value::Flag(flag) => !flag,
        Value::Text(text) => text.is_empty(),
        _ => false,
    };
    if is_zero { Value::Null.into() } else { node }
}

fn quantity(kind: Quantity, node: Node) -> Node {
    node.as_whole().map_or(Value::Null.into(), |number| kind.text(number).into())
}

fn span(table: &Node, key: &str) -> Node {
    quantity(Quantity::Time, row(table, key))
}

fn set_span(table: &Node, key: &str) -> Node {
    quantity(Quantity::Time, set_row(table, key))
}

fn named(key: &str, name: Node, params: Option<&Node>) -> Node {
    table! { key => name }.with(params.cloned().unwrap_or(table! {}))
}

/// The same; parameters that are times or rates are written with units, according to the card.
fn described(key: &str, name: Node, params: Option<&Node>, card: Option<&Card>) -> Node {
    let written = |(key, value): &(String, Node)| {
        let kind = |spec: &ParamSpec| match spec.kind {
            Kind::Time => Some(Quantity::Time),
            Kind::Rate => Some(Quantity::Rate),
            _ => None,
        };
        let exact =
            card.and_then(|card| card.spelled(key)).filter(|(_, spelling)| *spelling == Spelling::Exact);
        exact
            .and_then(|(spec, _)| Some((spec.name.into(), kind(spec)?.text(value.as_whole()?).into())))
            .unwrap_or_else(|| (key.clone(), value.clone()))
    };
    let params: Node = params.map_or(&[][..], Node::rows).iter().map(written).collect::<Vec<_>>().into();
    named(key, name, Some(&params))
}

/// The card of a discipline; a kernel's discipline takes the parameters of its model.
fn discipline(name: &Node) -> Option<&'static Card> {
    let ours = queue::registry::cards().iter().find(|card| name.as_text() == Some(card.name));
    ours.or_else(|| queue::outside::card(name.as_text()?, "").ok())
}

fn served(row: &Node) -> Node {
    let name = self::row(row, "discipline");
    let named = described("discipline", name.clone(), row.get("params"), discipline(&name));
    let named = match row.get("inner") {
        Some(inner) => named.with(table! { "inner" => served(inner) }),
        None => named,
    };
    match row.get("bands") {
        Some(bands) => named.with(table! { "bands" => each(Some(bands), band) }),
        None => named,
    }
}

fn band(row: &Node) -> Node {
    let own = table! {
        "flows" => self::row(row, "flows"),
        "dscp" => self::row(row, "dscp"),
        "quantum" => row.get("quantum").map(|bytes| quantity(Quantity::Bytes, bytes.clone())),
        "queue" => row.get("queue").map(served),
    };
    lean(own)
}

fn medium(medium: &Node) -> Node {
    let own = lean(table! { "channel" => row(medium, "channel"), "flow" => row(medium, "flow") });
    named("name", row(medium, "name"), medium.get("params")).with(own)
}

fn each(list: Option<&Node>, one: fn(&Node) -> Node) -> Node {
    list.map_or(&[][..], Node::items).iter().map(one).collect::<Vec<Node>>().into()
}

fn link(link: &Node) -> Node {
    let nothing = table! {};
    let framing = link.get("framing").unwrap_or(&nothing);
    let wire = link.get("wire").unwrap_or(&nothing);
    let is_finite = ["rate_bps", "medium", "trace"].iter().any(|key| link.get(key).is_some());
    let step = |step: &Node| {
        lean(table! {
            "at" => span(step, "at_ps"), "rate" => quantity(Quantity::Rate, row(step, "rate_bps")),
            "delay" => span(step, "delay_ps"),
            "loss" => row(step, "loss"),
        })
    };
    lean(table! {
        "from" => row(link, "from"),
        "name" => row(link, "name"),
        "to" => row(link, "to"),
        "rate" => quantity(Quantity::Rate, row(link, "rate_bps")),
        "delay" => set_span(link, "delay_ps"),
        "tick_hz" => row(link, "tick_hz"),
        "overhead" => set_row(framing, "overhead"),
        "mpu" => set_row(framing, "mpu"),
        "linklayer" => framing.get("linklayer").filter(|name| name.as_text() != Some("ethernet")).cloned(),
        "queue" => link.get("queue").filter(|_| is_finite).map(served),
        "policer" => link.get("policer").map(|given| lean(table! {
            "rate" => quantity(Quantity::Rate, row(given, "rate_bps")),
            "burst" => quantity(Quantity::Bytes, row(given, "burst_bytes")),
        })),
        "wire" => lean(table! {
            "loss" => set_row(wire, "loss"),
            "loss_every" => set_row(wire, "loss_every"),
            "corrupt" => set_row(wire, "corrupt"),
            "duplicate" => set_row(wire, "duplicate"),
            "reorder" => set_row(wire, "reorder"),
            "reorder_delay" => set_span(wire, "reorder_delay_ps"),
            "reorder_packets" => set_row(wire, "reorder_packets"),
            "jitter" => set_span(wire, "jitter_ps"),
            "bit_error" => set_row(wire, "bit_error"),
            "burst_start" => set_row(wire, "burst_start"),
            "burst_end" => set_row(wire, "burst_end"),
            "burst_loss" => set_row(wire, "burst_loss"),
            "gap_loss" => set_row(wire, "gap_loss"),
            "bleach" => row(wire, "bleach"),
            "bleach_before_queue" => set_row(wire, "bleach_before_queue"),
            "netem_jitter" => wire.get("netem_jitter").map(|given| lean(table! {
                "jitter" => span(given, "jitter_ps"),
                "distribution" => row(given, "distribution"),
                "correlation" => set_row(given, "correlation"),
            })),
            "ack_hold" => set_span(wire, "ack_hold_ps"),
            "ack_every" => row(wire, "ack_every"),
        }),
        "medium" => link.get("medium").map(medium),
        "schedule" => each(link.get("schedule"), step),
        "trace" => link.get("trace").map_or(Value::Null.into(), |trace| row(trace, "deliveries_ms")),
    })
}

fn flow(flow: &Node) -> Node {
    let nothing = table! {};
    let tcp = flow.get("tcp").unwrap_or(&nothing);
    let app = flow.get("app").unwrap_or(&nothing);
    let period =
        |part: &Node| lean(table! { "start" => span(part, "start_ps"), "stop" => span(part, "stop_ps") });
    let algorithm = |row: &Node| {
        described(
            "name",
            self::row(row, "cc"),
            row.get("cc_params"),
            cc::registry::cards()
                .iter()
                .find(|card| row.get("cc").and_then(Node::as_text) == Some(card.name)),
        )
    };
    let bytes = |key: &str| quantity(Quantity::Bytes, set_row(tcp, key));
    lean(table! {
        "from" => row(flow, "from"),
        "name" => row(flow, "name"),
        "app" => row(app, "kind"),
        "to" => row(flow, "to"),
        "route" => row(flow, "route"),
        "back_route" => row(flow, "back_route"),
        "start" => set_span(flow, "start_ps"),
        "stop" => span(flow, "stop_ps"),
        "again" => each(flow.get("again"), period),
        "cc_turns" => each(tcp.get("cc_turns"), algorithm),
        "cc" => tcp.get("cc").map(|_| algorithm(tcp)),
        "transport" => row(tcp, "transport"),
        "stack" => tcp.get("stack").filter(|_| tcp.get("transport").is_none()).map(|name| named("name", name.clone(), tcp.get("stack_params"))),
        "receiver_stack" => row(tcp, "receiver_stack"),
        "send_buffer" => bytes("send_buffer"),
        "receive_buffer" => bytes("receive_buffer"),
        "mtu" => bytes("mtu"),
        "ip" => row(flow, "ip"),
        "params" => row(app, "params"),
    })
}

/// Converts a resolved description to a general network, as in a file.
pub fn unresolve(resolved: &Node) -> Node {
    let nothing = table! {};
    let randomness = resolved.get("randomness").unwrap_or(&nothing);
    let given = resolved.get("instruments").unwrap_or(&nothing);
    let mut instruments = table! { "from" => set_span(given, "from_ps") };
    for key in
        ["segments", "polls", "queue_polls", "queues", "drops", "packets", "requests", "echoes", "captures"]
    {
        instruments.put(key, row(given, key));
    }
    instruments = instruments.with(table! {
        "internals" => set_row(given, "internals"),
        "most_rows" => row(given, "most_rows"),
        "most_memory" => quantity(Quantity::Bytes, set_row(given, "most_memory")),
        "poll_interval" => set_span(given, "poll_interval_ps"),
        "until" => span(given, "until_ps"),
    });
    lean(table! {
        "name" => set_row(resolved, "name"),
        "seed" => row(resolved, "seed"),
        "duration" => span(resolved, "duration_ps"),
        "nodes" => row(resolved, "nodes"),
        "link" => each(resolved.get("links"), link),
        "flow" => each(resolved.get("flows"), flow),
        "randomness" => lean(table! {
            "start_spread" => set_span(randomness, "start_spread_ps"),
            "processing_jitter" => set_span(randomness, "processing_jitter_ps"),
            "access_spread" => set_span(randomness, "access_spread_ps"),
        }),
        "instruments" => lean(instruments),
    })
}
