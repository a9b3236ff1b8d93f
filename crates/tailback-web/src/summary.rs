//! What the users of a path and its links had of a run, as the page lists it.

use serde_json::{Value, json};
use tailback_core::probe::Tables;
use tailback_core::scenario::{FlowSpec, LinkSpec, Scenario};
use tailback_core::traffic::Datagrams;
use tailback_core::traffic::registry::traits;

use crate::rows::{code, numbers, table};
use crate::voice::{Spoken, opinion};

/// One row a flow. A number that the run does not tell is null.
pub fn flows(scenario: &Scenario, tables: &Tables) -> Value {
    let totals = Totals::of(tables, "flows");
    let each =
        scenario.flows.iter().enumerate().map(|(number, spec)| flow(scenario, tables, &totals, number, spec));
    each.collect()
}

/// One row a link at which a queue can form.
pub fn links(scenario: &Scenario, tables: &Tables) -> Value {
    let holds_queue =
        |link: &LinkSpec| link.rate_bps.is_some() || link.medium.is_some() || link.trace.is_some();
    let each = scenario.links.iter().enumerate().filter(|(_, link)| holds_queue(link));
    each.map(|(number, spec)| link(scenario, tables, number, spec)).collect()
}

/// A table of totals: a row a flow or link.
struct Totals<'a> {
    tables: &'a Tables,
    name: &'static str,
}

impl<'a> Totals<'a> {
    fn of(tables: &'a Tables, name: &'static str) -> Self {
        Totals { tables, name }
    }

    fn get(&self, column: &str, row: usize) -> f64 {
        table(self.tables, self.name).map_or(f64::NAN, |table| numbers(table, column)[row])
    }
}

fn flow(scenario: &Scenario, tables: &Tables, totals: &Totals<'_>, number: usize, spec: &FlowSpec) -> Value {
    let total = |column: &str| totals.get(column, number);
    let goodput = goodput_bps(scenario, tables, number);
    let (received, dropped) = (total("packets_received"), total("packets_dropped"));
    let (delays, measure) = delays(tables, number);
    let [median, high] = quantiles(delays, [0.5, 0.95]);
    let exchanges = exchanges(tables, number);
    let finished = total("finished_s") - total("started_s");
    let completion = if exchanges.completion_s.is_finite() { exchanges.completion_s } else { finished };
    json!({
        "name": spec.name,
        "kind": spec.app.kind,
        "cc": spec.tcp.as_ref().map(|tcp| &tcp.cc),
        "goodput_mbps": told(goodput * 1e-6),
        "delay_p50_ms": told(median * 1e3),
        "delay_p95_ms": told(high * 1e3),
        "delay_of": measure,
        "loss": told(dropped / (received + dropped)),
        "mos": (traits(&spec.app.kind).datagrams == Datagrams::Voice).then(|| call(tables, number)).flatten(),
        "page_load_ms": told(exchanges.page_s * 1e3),
        "completion_ms": told(completion * 1e3),
        "retransmissions": total("segments_retransmitted") + total("back_segments_retransmitted"),
        "timeouts": total("timeouts"),
    })
}

/// A number, or null for one that nothing tells.
fn told(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { Value::Null }
}

/// Payload delivered at either end over the time a flow was active, in all its periods; over UDP its IP bytes.
fn goodput_bps(scenario: &Scenario, tables: &Tables, flow: usize) -> f64 {
    let totals = Totals::of(tables, "flows");
    let total = |column: &str| totals.get(column, flow);
    let (started, finished) = (total("started_s"), total("finished_s"));
    let end = if finished.is_nan() { scenario.duration_ps as f64 / 1e12 } else { finished };
    let spec = &scenario.flows[flow];
    let mut periods = vec![(spec.start_ps, spec.stop_ps)];
    periods.extend(spec.again.iter().map(|period| (period.start_ps, period.stop_ps)));
    if let Some(last) = periods.last_mut().filter(|_| !finished.is_nan()) {
        // What was on its way when it should stop belongs to it.
        last.1 = None;
    }
    let active = |(start, stop): (u64, Option<u64>)| {
        let stop = stop.map_or(end, |stop| end.min(stop as f64 / 1e12));
        (stop - started.max(start as f64 / 1e12)).max(0.0)
    };
    let active: f64 = if started.is_nan() { f64::NAN } else { periods.into_iter().map(active).sum() };
    8.0 * (total("bytes_received") + total("bytes_returned")) / active
}

/// What is known of a flow's delays in seconds, and which: of packets, of echoes, else the senders' samples at the polls.
fn delays(tables: &Tables, flow: usize) -> (Vec<f64>, &'static str) {
    let of = |value: &dyn Fn(usize) -> f64, flows: &[f64]| -> Vec<f64> {
        let mine = flows.iter().enumerate().filter(|(_, of)| **of == flow as f64);
        mine.map(|(row, _)| value(row)).filter(|value| value.is_finite()).collect()
    };
    if let Some(packets) = table(tables, "packets") {
        let (sent, received) = (numbers(packets, "sent_s"), numbers(packets, "received_s"));
        let found = of(&|row| received[row] - sent[row], &numbers(packets, "flow"));
        if !found.is_empty() {
            return (found, "one-way");
        }
    }
    for (name, column) in [("echoes", "rtt_s"), ("polls", "rtt_s")] {
        if let Some(rows) = table(tables, name) {
            let times = numbers(rows, column);
            let found = of(&|row| times[row], &numbers(rows, "flow"));
            if !found.is_empty() {
                return (found, "round-trip");
            }
        }
    }
    (Vec::new(), "unknown")
}

/// Quantiles by linear interpolation between order statistics; NaN of nothing.
pub fn quantiles<const N: usize>(mut values: Vec<f64>, shares: [f64; N]) -> [f64; N] {
    values.sort_by(f64::total_cmp);
    shares.map(|share| {
        let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
        let at = last as f64 * share;
        let below = at.floor() as usize;
        let above = (below + 1).min(last);
        values[below] + (values[above] - values[below]) * (at - at.floor())
    })
}

/// Jain's index; none if there is nothing to share.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// Mean opinion score of a flow's calls, if its packets were recorded.
fn call(tables: &Tables, flow: usize) -> Option<f64> {
    let packets = table(tables, "packets")?;
    let lost = code("packets", "fate", "dropped");
    let under_way = code("packets", "fate", "in-transit");
    let [flows, sent, received, fates, streams] =
        ["flow", "sent_s", "received_s", "fate", "stream"].map(|column| numbers(packets, column));
    let known = (0..flows.len()).filter(|row| flows[*row] == flow as f64 && fates[*row] != under_way);
    let spoken: Vec<Spoken> = known
        .map(|row| Spoken {
            sent_s: sent[row],
            delay_s: (fates[row] != lost).then(|| received[row] - sent[row]),
            stream: streams[row] as u64,
        })
        .collect();
    opinion(&spoken)
}

/// Median times of what a flow's users waited for, NaN where they did not.
struct Waits {
    page_s: f64,
    completion_s: f64,
}

fn exchanges(tables: &Tables, flow: usize) -> Waits {
    let Some(requests) = table(tables, "requests") else {
        return Waits { page_s: f64::NAN, completion_s: f64::NAN };
    };
    let answered = code("requests", "fate", "answered");
    let [flows, kinds, fates, times] =
        ["flow", "kind", "fate", "response_time_s"].map(|column| numbers(requests, column));
    let median = |words: [&str; 2]| {
        let wanted = words.map(|word| code("requests", "kind", word));
        let rows = (0..flows.len()).filter(|row| {
            flows[*row] == flow as f64 && fates[*row] == answered && wanted.contains(&kinds[*row])
        });
        quantiles(rows.map(|row| times[row]).collect(), [0.5])[0]
    };
    Waits { page_s: median(["web", "probe"]), completion_s: median(["transfer", "request"]) }
}

fn link(scenario: &Scenario, tables: &Tables, number: usize, spec: &LinkSpec) -> Value {
    let totals = Totals::of(tables, "links");
    let total = |column: &str| totals.get(column, number);
    let duration_s = scenario.duration_ps as f64 / 1e12;
    let busy = total("busy_s");
    let utilisation = if spec.rate_bps.is_some() { busy / duration_s } else { f64::NAN };
    let rate = carried_bps(scenario, tables, number);
    let (backlogs, held) = backlogs(scenario, tables, number);
    let delays = weighted_quantiles(&backlogs, &held, [0.5, 0.95]).map(|bytes| told(8e3 * bytes / rate));
    let over_tcp = scenario.flows.iter().enumerate().filter(|(_, flow)| flow.tcp.is_some());
    let sharing = over_tcp.filter(|(_, flow)| flow.route.contains(&spec.name));
    let shares: Vec<f64> = sharing.map(|(flow, _)| goodput_bps(scenario, tables, flow)).collect();
    let [median, high] = delays;
    json!({
        "name": spec.name,
        "utilisation": told(utilisation),
        "queue_p50_ms": median,
        "queue_p95_ms": high,
        "drops": total("dropped"),
        "marks": total("marked"),
        "jain": if shares.len() > 1 { jain(&shares) } else { None },
    })
}

/// Rate of a link; of a medium or trace what it carried while it was sending.
pub fn carried_bps(scenario: &Scenario, tables: &Tables, link: usize) -> f64 {
    if let Some(rate) = scenario.links[link].rate_bps {
        return rate as f64;
    }
    let totals = Totals::of(tables, "links");
    8.0 * totals.get("delivered_bytes", link) / totals.get("busy_s", link)
}

/// Backlogs of a link in bytes and for how long each was held: after each event if those were recorded, else as polled.
fn backlogs(scenario: &Scenario, tables: &Tables, link: usize) -> (Vec<f64>, Vec<f64>) {
    let logged = scenario.instruments.queues.contains(&scenario.links[link].name);
    let Some(rows) = table(tables, if logged { "queue" } else { "queue_polls" }) else {
        return (Vec::new(), Vec::new());
    };
    let [links, times, bytes] = ["link", "t_s", "backlog_bytes"].map(|column| numbers(rows, column));
    let mine: Vec<usize> = (0..links.len()).filter(|row| links[*row] == link as f64).collect();
    let held = mine.windows(2).map(|pair| times[pair[1]] - times[pair[0]]).collect();
    let last = mine.len().saturating_sub(1);
    (mine[..last].iter().map(|row| bytes[*row]).collect(), held)
}

/// The values below which shares of the time were spent; NaN of nothing.
fn weighted_quantiles<const N: usize>(values: &[f64], held: &[f64], shares: [f64; N]) -> [f64; N] {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let whole: f64 = held.iter().sum();
    shares.map(|share| {
        let mut spent = 0.0;
        let reached = order.iter().find(|row| {
            spent += held[**row];
            spent >= share * whole
        });
        reached.or(order.last()).map_or(f64::NAN, |row| values[*row])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_between_order_statistics() {
        assert_eq!(quantiles(vec![4.0, 1.0, 3.0, 2.0], [0.0, 0.5, 1.0]), [1.0, 2.5, 4.0]);
        assert!(quantiles(vec![], [0.5])[0].is_nan());
    }

    #[test]
    fn time_at_a_backlog_weighs_it() {
        assert_eq!(
            weighted_quantiles(&[10.0, 0.0, 20.0], &[1.0, 8.0, 1.0], [0.5, 0.9, 0.95]),
            [0.0, 10.0, 20.0]
        );
    }

    #[test]
    fn equal_shares_are_fair_and_one_taker_is_not() {
        assert_eq!(jain(&[2.0, 2.0, 2.0]), Some(1.0));
        assert_eq!(jain(&[3.0, 0.0, 0.0]), Some(1.0 / 3.0));
        assert_eq!(jain(&[0.0]), None);
    }
}
