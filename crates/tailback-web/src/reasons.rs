//! Explains why a packet was dropped or marked, and why a window changed: facts, the formula with its numbers, and its
//! source.

use serde_json::{Value, json};
use tailback_core::params::Card;
use tailback_core::scenario::{self, LinkSpec, QueueSpec, Scenario};
use tailback_core::{cc, queue};
use tailback_measures::queue::{Drain, Held};

/// A row of `queue` or `congestion` with codes as words, and the sender's state at the previous poll.
pub struct Asked<'a> {
    /// The name of the row's table.
    pub table: &'a str,
    /// The row's columns.
    pub row: &'a Value,
    /// The flow's previous poll, if polls were recorded.
    pub poll: Option<&'a Value>,
}

/// The answer for the page: `{facts, formula, source}`, with facts as pairs; `None` for a row of another table.
pub fn why(scenario: &Scenario, asked: &Asked<'_>) -> Option<Value> {
    match asked.table {
        "queue" => queue_event(scenario, asked.row),
        "congestion" => congestion(scenario, asked),
        _ => None,
    }
}

fn number(row: &Value, column: &str) -> f64 {
    row[column].as_f64().unwrap_or(f64::NAN)
}

fn text<'a>(row: &'a Value, column: &str) -> &'a str {
    row[column].as_str().unwrap_or("")
}

/// The known facts as pairs, in the given order.
fn facts(all: Vec<(&str, Value)>) -> Value {
    let is_reported = |value: &Value| !value.is_null() && value.as_str() != Some("");
    all.into_iter().filter(|(_, value)| is_reported(value)).map(|(key, value)| json!([key, value])).collect()
}

fn finite(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { Value::Null }
}

fn queue_event(scenario: &Scenario, row: &Value) -> Option<Value> {
    let link = scenario.links.iter().find(|link| link.name == text(row, "link"))?;
    let (event, reason) = (text(row, "event"), text(row, "reason"));
    let card = queue::registry::cards().iter().find(|card| card.name == link.queue.discipline)?;
    let (backlog, bytes) = (number(row, "backlog_bytes"), number(row, "bytes"));
    let waits_ms = link.ip_rate_bps().map_or(f64::NAN, |rate| {
        let drain = Drain::of(link, rate as f64, scenario.duration_ps as f64 / 1e12);
        1e3 * drain.seconds(&Held { at_s: number(row, "t_s"), bytes: backlog, lasted_s: 0.0 })
    });
    let formula = match (event, reason) {
        ("drop", "wire") => wire(link),
        ("drop", "policer") => policer(link),
        ("drop", "queue-full") => full(&link.queue, backlog, number(row, "backlog_packets"), bytes),
        ("enqueue" | "dequeue", _) => None,
        _ => Some(with_parameters(card, &link.queue.params)),
    };
    let facts = facts(vec![
        ("event", json!(event)),
        ("reason", json!(reason)),
        ("at_s", finite(number(row, "t_s"))),
        ("flow", row["flow"].clone()),
        ("link", json!(link.name)),
        ("packet", row["packet"].clone()),
        ("packet_bytes", finite(bytes)),
        ("queue_holds_bytes", finite(backlog)),
        ("queue_holds_packets", row["backlog_packets"].clone()),
        ("queue_delay_ms", finite(waits_ms)),
        ("rate_mbps", finite(link.rate_bps.map_or(f64::NAN, |rate| rate as f64 / 1e6))),
        ("discipline", json!(card.title)),
        ("limit_bytes", parameter(&link.queue, "limit_bytes")),
        ("limit_packets", parameter(&link.queue, "limit_packets")),
    ]);
    let source = match reason {
        "wire" => "the scenario's `wire`",
        "policer" => "RFC 2697 section 3, one bucket",
        _ => card.source,
    };
    Some(json!({ "facts": facts, "formula": formula, "source": source }))
}

fn parameter(queue: &QueueSpec, name: &str) -> Value {
    match queue.params.get(name) {
        Some(scenario::Value::Number(value)) => json!(value),
        _ => queue.inner.as_ref().map_or(Value::Null, |inner| parameter(inner, name)),
    }
}

/// The limit that the packet exceeded.
fn full(queue: &QueueSpec, backlog: f64, packets: f64, bytes: f64) -> Option<String> {
    let limit = |name| parameter(queue, name).as_f64();
    let by_bytes = limit("limit_bytes").filter(|most| backlog + bytes > *most);
    if let Some(most) = by_bytes {
        return Some(format!(
            "held + packet = {backlog} B + {bytes} B = {} B > limit {most} B",
            backlog + bytes
        ));
    }
    let most = limit("limit_packets")?;
    Some(format!("held + 1 = {packets} + 1 packets > limit {most} packets"))
}

fn policer(link: &LinkSpec) -> Option<String> {
    let policer = link.policer.as_ref()?;
    let (rate, burst) = (policer.rate_bps as f64 / 1e6, policer.burst_bytes);
    Some(format!("the bucket of {burst} B, filled at {rate} Mbit/s, held less than the packet"))
}

fn wire(link: &LinkSpec) -> Option<String> {
    let wire = &link.wire;
    let chances = [
        ("loss", wire.loss),
        ("bit_error", wire.bit_error),
        ("burst_loss", wire.burst_loss),
        ("gap_loss", wire.gap_loss),
    ];
    let set: Vec<String> = chances
        .iter()
        .filter(|(_, chance)| *chance > 0.0)
        .map(|(name, chance)| format!("{name} = {chance}"))
        .collect();
    (!set.is_empty()).then(|| format!("lost on the wire by chance: {}", set.join(", ")))
}

/// A formula with the parameters that the scenario sets.
fn with_parameters(card: &Card, params: &scenario::Params) -> String {
    let given: Vec<String> = params
        .iter()
        .map(|(name, value)| {
            let value = match value {
                scenario::Value::Flag(flag) => flag.to_string(),
                scenario::Value::Number(number) => number.to_string(),
                scenario::Value::Name(name) => name.clone(),
            };
            format!("{name} = {value}")
        })
        .collect();
    if given.is_empty() { card.law.into() } else { format!("{} [{}]", card.law, given.join(", ")) }
}

fn congestion(scenario: &Scenario, asked: &Asked<'_>) -> Option<Value> {
    let row = asked.row;
    let flow = scenario.flows.iter().find(|flow| flow.name == text(row, "flow"))?;
    let tcp = flow.tcp.as_ref()?;
    let card = cc::registry::cards().iter().find(|card| card.name == tcp.cc)?;
    let (before, after) = (number(row, "cwnd_before"), number(row, "cwnd_after"));
    let ssthresh = number(row, "ssthresh");
    let kind = text(row, "kind");
    let polled = |column: &str| asked.poll.map_or(f64::NAN, |poll| number(poll, column));
    let full = f64::from(tcp.mtu - flow.ip.header() - 20 - 12);
    let change = format!("cwnd {before} B → {after} B (× {:.3})", after / before);
    let target = format!("ssthresh = {ssthresh} B = {:.3} × cwnd of {before} B", ssthresh / before);
    let law = with_parameters(card, &tcp.cc_params);
    let what = match kind {
        "timeout" => format!("the retransmission timer ran out: {change}; {target}"),
        "undo" => format!("the reduction was undone, nothing had been lost: {change}"),
        "recovery-left" | "cwr-left" => format!("the reduction is over: {change}"),
        // The stack reaches the target segment by segment.
        _ => format!("{law}. Here: {target}"),
    };
    let facts = facts(vec![
        ("event", json!(kind)),
        ("at_s", finite(number(row, "t_s"))),
        ("flow", json!(flow.name)),
        ("algorithm", json!(card.title)),
        ("stack", json!(tcp.stack)),
        ("cwnd_before_bytes", finite(before)),
        ("cwnd_after_bytes", finite(after)),
        ("cwnd_before_segments", finite((before / full * 10.0).round() / 10.0)),
        ("cwnd_after_segments", finite((after / full * 10.0).round() / 10.0)),
        ("ssthresh_bytes", finite(ssthresh)),
        ("in_flight_bytes", finite(number(row, "in_flight"))),
        ("srtt_ms", finite(polled("srtt_s") * 1e3)),
        ("rtt_min_ms", finite(polled("rtt_min_s") * 1e3)),
        ("rto_ms", finite(polled("rto_s") * 1e3)),
        ("duplicate_acks_so_far", finite(polled("dup_acks_in"))),
        ("retransmitted_so_far", finite(polled("segments_retransmitted"))),
    ]);
    Some(json!({ "facts": facts, "formula": what, "source": card.source }))
}
