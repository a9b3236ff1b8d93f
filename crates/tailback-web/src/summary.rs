//! Results of a run for the users of a path and for its links, as listed on the page.

use serde_json::{Value, json};
use tailback_core::probe::Tables;
use tailback_core::scenario::{FlowSpec, LinkSpec, Scenario};
use tailback_core::traffic::Datagrams;
use tailback_core::traffic::registry::traits;
use tailback_measures::columns::{code, numbers, table};
use tailback_measures::flow;
use tailback_measures::quantile::{quantiles, weighted_quantiles};
use tailback_measures::queue::Drain;
use tailback_measures::run::{Run, Window, holds_queue};
use tailback_measures::sharing::jain;

/// One row per flow. A value that the run does not have is null.
pub fn flows(scenario: &Scenario, tables: &Tables) -> Value {
    let totals = Totals::of(tables, "flows");
    let each =
        scenario.flows.iter().enumerate().map(|(number, spec)| flow(scenario, tables, &totals, number, spec));
    each.collect()
}

/// One row per link at which a queue can form.
pub fn links(scenario: &Scenario, tables: &Tables) -> Value {
    let each = scenario.links.iter().enumerate().filter(|(_, link)| holds_queue(link));
    each.map(|(number, spec)| link(scenario, tables, number, spec)).collect()
}

/// A table of totals, with one row per flow or link.
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
    let run = Run { scenario, tables };
    let total = |column: &str| totals.get(column, number);
    let goodput = run.goodput_bps(number);
    let is_echo = traits(&spec.app.kind).datagrams == Datagrams::Echo;
    let (delays, measure) = delays(tables, number, is_echo);
    let [median, high] = two(&quantiles(delays, &[0.5, 0.95]));
    let exchanges = exchanges(tables, number);
    let completion = if exchanges.completion_s.is_finite() {
        exchanges.completion_s
    } else {
        transfer_s(totals, number, spec)
    };
    json!({
        "name": spec.name,
        "kind": spec.app.kind,
        "cc": spec.tcp.as_ref().map(|tcp| &tcp.cc),
        "goodput_mbps": known(goodput * 1e-6),
        "delay_p50_ms": known(median * 1e3),
        "delay_p95_ms": known(high * 1e3),
        "delay_of": measure,
        "loss": known(run.loss(number)),
        "mos": (traits(&spec.app.kind).datagrams == Datagrams::Voice).then(|| run.mean_opinion(number, Window::WHOLE)).flatten(),
        "page_load_ms": known(exchanges.page_s * 1e3),
        "completion_ms": known(completion * 1e3),
        "retransmissions": run.retransmitted(number),
        "timeouts": total("timeouts"),
    })
}

fn two(values: &[f64]) -> [f64; 2] {
    values.try_into().expect("two were asked for")
}

/// A number; null for NaN.
fn known(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { Value::Null }
}

/// `completion_time` of `tailback_measures`.
fn transfer_s(totals: &Totals<'_>, number: usize, spec: &FlowSpec) -> f64 {
    let total = |column: &str| totals.get(column, number);
    let bytes = serde_json::to_value(&spec.app.params).ok().and_then(|params| params["bytes"].as_f64());
    let given = bytes.filter(|_| spec.app.kind != "transfers").unwrap_or(0.0);
    flow::completion_s(given, total("bytes_received"), total("started_s"), total("finished_s"))
}

/// A flow's delays in seconds and their kind: of packets, of echoes, or otherwise the RTT samples at the polls. For
/// pings echoes come first, because they measure the round trip.
fn delays(tables: &Tables, flow: usize, is_echo: bool) -> (Vec<f64>, &'static str) {
    let of = |value: &dyn Fn(usize) -> f64, flows: &[f64]| -> Vec<f64> {
        let mine = flows.iter().enumerate().filter(|(_, of)| **of == flow as f64);
        mine.map(|(row, _)| value(row)).filter(|value| value.is_finite()).collect()
    };
    if let Some(packets) = table(tables, "packets").filter(|_| !is_echo) {
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

/// Median times that a flow's users waited; NaN where they did not wait.
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
    let median = |words: &[&str]| {
        let wanted: Vec<f64> = words.iter().map(|word| code("requests", "kind", word)).collect();
        let rows = (0..flows.len()).filter(|row| {
            flows[*row] == flow as f64 && fates[*row] == answered && wanted.contains(&kinds[*row])
        });
        quantiles(rows.map(|row| times[row]).collect(), &[0.5])[0]
    };
    Waits { page_s: median(&["web", "page", "probe"]), completion_s: median(&["transfer", "request"]) }
}

fn link(scenario: &Scenario, tables: &Tables, number: usize, spec: &LinkSpec) -> Value {
    let totals = Totals::of(tables, "links");
    let total = |column: &str| totals.get(column, number);
    let duration_s = scenario.duration_ps as f64 / 1e12;
    let busy = total("busy_s");
    let utilisation = if spec.rate_bps.is_some() { busy / duration_s } else { f64::NAN };
    let run = Run { scenario, tables };
    let held = run.held_backlogs(number, Window::WHOLE);
    let drain = Drain::of(spec, carried_bps(scenario, tables, number), duration_s);
    let (waits, lasted): (Vec<f64>, Vec<f64>) =
        held.iter().map(|held| (drain.seconds(held), held.lasted_s)).unzip();
    let [median, high] = two(&weighted_quantiles(&waits, &lasted, &[0.5, 0.95]));
    let over_tcp = scenario.flows.iter().enumerate().filter(|(_, flow)| flow.tcp.is_some());
    let sharing = over_tcp.filter(|(_, flow)| flow.route.contains(&spec.name));
    let shares: Vec<f64> = sharing.map(|(flow, _)| run.goodput_bps(flow)).collect();
    json!({
        "name": spec.name,
        "utilisation": known(utilisation),
        "queue_p50_ms": known(1e3 * median),
        "queue_p95_ms": known(1e3 * high),
        "drops": total("dropped"),
        "marks": total("marked"),
        "jain": (shares.len() > 1).then(|| known(jain(&shares))),
    })
}

/// Rate of a link; for a link with a medium, a trace or framing, the throughput while it was transmitting.
pub fn carried_bps(scenario: &Scenario, tables: &Tables, link: usize) -> f64 {
    let spec = &scenario.links[link];
    if let Some(rate) = spec.rate_bps.filter(|_| spec.framing.is_plain()) {
        return rate as f64;
    }
    let totals = Totals::of(tables, "links");
    8.0 * totals.get("delivered_bytes", link) / totals.get("busy_s", link)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;

    /// A flow's summary by name, for a run as the page does it.
    fn summary(toml: &str, name: &str) -> Value {
        let mut run = Run::start(toml, None, true).unwrap_or_else(|said| panic!("{said:?}"));
        while !run.advance(1_000_000).unwrap_or_else(|_| panic!("it runs")) {}
        let finished = run.finish();
        let all = flows(&finished.scenario, &finished.tables);
        all.as_array().expect("a list").iter().find(|flow| flow["name"] == name).expect("the flow").clone()
    }

    const PATH: &str = "duration = \"4s\"\n[dumbbell]\nrate = \"10mbit\"\nrtt = \"40ms\"\n";

    #[test]
    fn a_ping_takes_the_way_there_and_back() {
        let ping = summary(&format!("{PATH}[[flow]]\nname = \"ping\"\napp = \"ping\"\n"), "ping");
        assert_eq!(ping["delay_of"], "round-trip");
        assert!(ping["delay_p50_ms"].as_f64().expect("a number") > 40.0);
    }

    #[test]
    fn a_transfer_is_complete_with_its_last_byte_and_not_when_it_is_stopped() {
        let flow = |rest: &str| format!("{PATH}[[flow]]\nname = \"file\"\n{rest}\n");
        assert_eq!(summary(&flow("stop = \"2s\""), "file")["completion_ms"], Value::Null);
        assert_eq!(summary(&flow("bytes = \"100MB\"\nstop = \"2s\""), "file")["completion_ms"], Value::Null);
        let whole = summary(&flow("bytes = \"1MB\""), "file")["completion_ms"].as_f64().expect("a number");
        assert!((800.0..2000.0).contains(&whole), "{whole}");
    }

    #[test]
    fn a_logged_queue_counts_the_time_without_events() {
        // The transfer takes one of four seconds.
        let toml =
            format!("{PATH}[[flow]]\nname = \"file\"\nbytes = \"1MB\"\n[instruments]\nqueues = \"all\"\n");
        let mut run = Run::start(&toml, None, false).unwrap_or_else(|said| panic!("{said:?}"));
        while !run.advance(1_000_000).unwrap_or_else(|_| panic!("it runs")) {}
        let finished = run.finish();
        let links = links(&finished.scenario, &finished.tables);
        assert_eq!(links[0]["queue_p50_ms"], 0.0);
        assert!(links[0]["queue_p95_ms"].as_f64().expect("a number") > 0.0);
    }

    /// The run and the values to which `tests/metrics/test_one_value.py` also holds the Python package.
    #[test]
    fn says_what_the_python_package_says() {
        let toml = include_str!("../../../tests/metrics/one_run.toml");
        let figures: Value =
            serde_json::from_str(include_str!("../../../tests/metrics/one_run.json")).unwrap();
        let mut run = Run::start(toml, None, false).unwrap_or_else(|said| panic!("{said:?}"));
        while !run.advance(1_000_000).unwrap_or_else(|_| panic!("it runs")) {}
        let finished = run.finish();
        let (flows, links) =
            (flows(&finished.scenario, &finished.tables), links(&finished.scenario, &finished.tables));
        let of = |rows: &Value, name: &str, measure: &str| {
            let rows = rows.as_array().expect("a list").iter();
            rows.clone().find(|row| row["name"] == name).and_then(|row| row[measure].as_f64())
        };
        let mut compared = 0;
        let mut compare = |found: Option<f64>, wanted: &Value, what: &str| {
            let (found, wanted) = (found.unwrap_or(f64::NAN), wanted.as_f64().expect("a number"));
            assert!((found - wanted).abs() <= 1e-12 * wanted.abs(), "{what}: {found} is not {wanted}");
            compared += 1;
        };
        for (measure, values) in figures["flows"].as_object().expect("measures") {
            for (flow, wanted) in values.as_object().expect("flows") {
                compare(of(&flows, flow, measure), wanted, &format!("{measure} of {flow}"));
            }
        }
        for (link, values) in figures["links"].as_object().expect("links") {
            for (measure, wanted) in values.as_object().expect("measures") {
                compare(of(&links, link, measure), wanted, &format!("{measure} of {link}"));
            }
        }
        assert!(compared > 15, "{compared}");
    }

    /// As above, of `window_run.json`: the measures of windows, and the waits at a logged and a polled queue, with all or
    /// a part of the run recorded.
    #[test]
    fn a_windows_values_are_those_of_the_python_package() {
        let toml = include_str!("../../../tests/metrics/window_run.toml");
        let kept: Value =
            serde_json::from_str(include_str!("../../../tests/metrics/window_run.json")).unwrap();
        let (mut compared, mut wrong) = (0, Vec::new());
        let mut compare = |what: String, found: Option<f64>, wanted: &Value| {
            compared += 1;
            let is_same = match (found, wanted.as_f64()) {
                (Some(found), None) => found.is_nan(),
                (Some(found), Some(wanted)) => (found - wanted).abs() <= 1e-9 * wanted.abs(),
                (None, _) => false,
            };
            if !is_same {
                wrong.push(format!("{what}: {found:?} is not {wanted}"));
            }
        };
        for (which, kept) in kept.as_object().expect("recordings") {
            let recorded = kept["recorded"].as_str().expect("lines");
            let toml = toml.replace("[instruments]\n", &format!("[instruments]\n{recorded}"));
            let mut run = Run::start(&toml, None, false).unwrap_or_else(|said| panic!("{said:?}"));
            while !run.advance(1_000_000).unwrap_or_else(|_| panic!("it runs")) {}
            let finished = run.finish();
            let (scenario, tables) = (&finished.scenario, &finished.tables);
            let of = tailback_measures::run::Run { scenario, tables };
            for kept in kept["windows"].as_array().expect("windows") {
                let window = Window { start_s: kept["start_s"].as_f64(), end_s: kept["end_s"].as_f64() };
                for (name, wanted) in kept["values"].as_object().expect("values") {
                    compare(format!("{which} {window:?} {name}"), of.measure(name, window), wanted);
                }
            }
            for link in links(scenario, tables).as_array().expect("links") {
                let kept = &kept["links"][link["name"].as_str().expect("a name")];
                for (name, wanted) in kept.as_object().expect("waits") {
                    compare(format!("{which} {} {name}", link["name"]), link[name].as_f64(), wanted);
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(compared > 600, "{compared}");
    }
}
