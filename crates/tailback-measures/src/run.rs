//! Measures of a run or of a time window, by the names that sweeps and `[expect]` use: `call.delay_p95_ms`.
//!
//! A name is a flow or link, a dot and a measure; without the first two it applies to the entire run. The suffix is the
//! unit: `_ms`, `_s`, `_mbps`, `_bytes`; without one the value is a count or a share. Titles and units are in
//! `run/keys.rs`. Python's `tailback/experiment/run_metrics.py` returns the same numbers under the same names.

pub mod keys;
mod names;
mod noticed;

use tailback_core::probe::{Table, Tables};
use tailback_core::scenario::{FlowSpec, LinkSpec, Scenario};
use tailback_core::traffic::registry::traits;
use tailback_core::traffic::{Application, Datagrams, Rows, registry};

use crate::columns::{code, numbers, table};
use crate::flow::{self, Packets, Period};
use crate::quantile::quantiles;
use crate::queue::{self, Held, interpolated};
use crate::sharing::jain;
use crate::voice::{self, Spoken};
use names::{DELAYS, EXCHANGES, REACHED, RECEIVED, own_parts};
use noticed::{FILM, LATE, PAGES, jitter_s};

pub use names::{Measurable, lacks, measurable};

/// Rows with times in [start, end) seconds; either bound may be absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Start of the window, included.
    pub start_s: Option<f64>,
    /// End of the window, excluded.
    pub end_s: Option<f64>,
}

impl Window {
    /// The entire run.
    pub const WHOLE: Window = Window { start_s: None, end_s: None };

    fn is_whole(self) -> bool {
        self == Window::WHOLE
    }

    fn start(self) -> f64 {
        self.start_s.unwrap_or(0.0)
    }

    fn has(self, instant_s: f64) -> bool {
        instant_s >= self.start() && instant_s < self.end_s.unwrap_or(f64::INFINITY)
    }
}

/// A run: its scenario and its tables.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// The description.
    pub scenario: &'a Scenario,
    /// The tables.
    pub tables: &'a Tables,
}

/// Whether a queue can form at this link.
pub fn holds_queue(link: &LinkSpec) -> bool {
    link.rate_bps.is_some() || link.medium.is_some() || link.trace.is_some()
}

fn seconds(ps: u64) -> f64 {
    ps as f64 / 1e12
}

/// The table in which an application records rows, besides those that every flow fills.
fn rows_of(spec: &FlowSpec) -> Rows {
    if traits(&spec.app.kind).runs_programs {
        return Rows::None;
    }
    registry::build(&spec.app.kind, &spec.app.params, "", 0).map_or(Rows::None, |app| app.rows())
}

/// The table of what the flow's users experience; `None` for a transfer that no user waits for.
fn experienced(spec: &FlowSpec) -> Option<&'static str> {
    match rows_of(spec) {
        Rows::Requests => Some("requests"),
        Rows::Echoes => Some("echoes"),
        Rows::None => spec.tcp.is_none().then_some("packets"),
    }
}

/// Rows of one flow or link.
struct Of<'a> {
    table: &'a Table,
    rows: Vec<usize>,
}

impl Of<'_> {
    fn get(&self, column: &str) -> Vec<f64> {
        let all = numbers(self.table, column);
        self.rows.iter().map(|row| all[*row]).collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

fn smallest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::min)
}

impl<'a> Run<'a> {
    /// The value of a measure in a window; NaN if the run has no such value. `None` if [`measurable`] does not list the
    /// name, or lists something that it lacks.
    pub fn measure(&self, name: &str, window: Window) -> Option<f64> {
        let (of, key) = name.rsplit_once('.').unwrap_or(("", name));
        if let Some(own) = key.strip_prefix("own_") {
            return self.own(self.flow(of)?, own, window);
        }
        let known = measurable(self.scenario, !window.is_whole());
        if !known.iter().any(|it| it.name == name && it.lacks.is_empty()) {
            return None;
        }
        if of.is_empty() {
            return self.of_all(key, window);
        }
        match self.flow(of) {
            Some(flow) => self.of_flow(flow, key, window),
            None => self.of_link(self.link(of)?, key, window),
        }
    }

    fn flow(&self, name: &str) -> Option<usize> {
        self.scenario.flows.iter().position(|flow| flow.name == name)
    }

    fn link(&self, name: &str) -> Option<usize> {
        self.scenario.links.iter().position(|link| link.name == name)
    }

    /// The link on the first flow's route that dropped most packets; without drops, the slowest. If no queue can form
    /// on that route, the first link. A link with a medium or a trace counts as slower than any link with a rate.
    pub fn bottleneck(&self) -> usize {
        let way = self.scenario.flows.first().map_or(&[][..], |flow| &flow.route);
        let links = way.iter().filter_map(|name| self.link(name));
        let held = links.filter(|link| holds_queue(&self.scenario.links[*link]));
        let rate = |link: usize| self.scenario.links[link].ip_rate_bps().unwrap_or(0);
        let least = |link: &usize| (std::cmp::Reverse(self.link_total("dropped", *link) as u64), rate(*link));
        held.min_by_key(least).unwrap_or(0)
    }

    /// A flow's value in a column of the table of totals.
    pub fn flow_total(&self, column: &str, flow: usize) -> f64 {
        table(self.tables, "flows").map_or(f64::NAN, |table| numbers(table, column)[flow])
    }

    /// A link's value in a column of the table of totals.
    pub fn link_total(&self, column: &str, link: usize) -> f64 {
        table(self.tables, "links").map_or(f64::NAN, |table| numbers(table, column)[link])
    }

    /// `goodput` over a flow's entire lifetime, bit/s.
    pub fn goodput_bps(&self, flow: usize) -> f64 {
        let total = |column: &str| self.flow_total(column, flow);
        let active = flow::active_s(&self.active_s(flow), total("started_s"));
        flow::goodput_bps(total("bytes_received") + total("bytes_returned"), active)
    }

    /// The periods in which a flow was active.
    fn active_s(&self, flow: usize) -> Vec<(f64, f64)> {
        let spec = &self.scenario.flows[flow];
        let again = spec.again.iter().map(|period| (period.start_ps, period.stop_ps));
        let periods: Vec<Period> = std::iter::once((spec.start_ps, spec.stop_ps))
            .chain(again)
            .map(|(start, stop)| Period { start_s: seconds(start), stop_s: stop.map(seconds) })
            .collect();
        let total = |column: &str| self.flow_total(column, flow);
        flow::active_periods_s(&periods, total("started_s"), total("finished_s"), self.duration_s())
    }

    /// `flow_loss_rate` of a flow over the whole run, 0 … 1.
    pub fn loss(&self, flow: usize) -> f64 {
        let total = |column: &str| self.flow_total(column, flow);
        flow::loss_of_totals(&Packets {
            sent: total("packets_sent"),
            received: total("packets_received"),
            dropped: total("packets_dropped"),
            bytes_received: total("bytes_received"),
            bytes_returned: total("bytes_returned"),
        })
    }

    /// Segments retransmitted by either end of a flow.
    pub fn retransmitted(&self, flow: usize) -> f64 {
        self.flow_total("segments_retransmitted", flow) + self.flow_total("back_segments_retransmitted", flow)
    }

    /// The mean opinion score of a flow's calls; `None` if no packet's fate is known.
    pub fn mean_opinion(&self, flow: usize, window: Window) -> Option<f64> {
        let packets = self.rows("packets", "flow", flow)?;
        let (lost, under_way) = (code("packets", "fate", "dropped"), code("packets", "fate", "in-transit"));
        let [sent, received, fates, streams] =
            ["sent_s", "received_s", "fate", "stream"].map(|column| packets.get(column));
        let known = (0..sent.len()).filter(|row| fates[*row] != under_way && window.has(sent[*row]));
        let spoken: Vec<Spoken> = known
            .map(|row| Spoken {
                sent_s: sent[row],
                delay_s: (fates[row] != lost).then(|| received[row] - sent[row]),
                stream: streams[row] as u64,
            })
            .collect();
        let heard = voice::heard(&spoken, voice::WINDOW_S, true);
        (!heard.is_empty()).then(|| voice::mean_opinion_score(voice::mean_rating(&heard)))
    }

    fn duration_s(&self) -> f64 {
        seconds(self.scenario.duration_ps)
    }

    /// Start and end of the time in which instruments recorded.
    fn recorded_s(&self) -> (f64, f64) {
        let on = &self.scenario.instruments;
        let until = on.until_ps.map_or(f64::INFINITY, seconds);
        (seconds(on.from_ps), until.min(self.duration_s()))
    }

    /// Whether instruments recorded when a flow started.
    fn has_start(&self, flow: usize) -> bool {
        self.scenario.instruments.from_ps <= self.scenario.flows[flow].start_ps
    }

    /// Whether most of a flow's payload came back to the end that opened the connection, as a reader's does.
    fn comes_back(&self, flow: usize) -> bool {
        self.flow_total("bytes_returned", flow) > self.flow_total("bytes_received", flow)
    }

    /// Instants, and the bytes that a TCP flow's receiver had at each: at its start, at the polls and at its end. The
    /// last poll is up to an interval before the end. What was not recorded is left out.
    fn known_counts(&self, flow: usize) -> Option<(Vec<f64>, Vec<f64>)> {
        let polls = self.rows("polls", "flow", flow)?;
        let (mut times, mut counts) = (polls.get("t_s"), polls.get("bytes_received"));
        let total = |column: &str| self.flow_total(column, flow);
        let (first, last) = self.recorded_s();
        let (started, finished) = (total("started_s"), total("finished_s"));
        let ended = if finished.is_nan() { self.duration_s() } else { finished };
        if first <= started && times.first().is_none_or(|time| started < *time) {
            times.insert(0, started);
            counts.insert(0, 0.0);
        }
        if times.first().is_some_and(|time| *time < ended) && ended <= last {
            let before = times.partition_point(|time| *time < ended);
            times.truncate(before);
            counts.truncate(before);
            times.push(ended);
            counts.push(total("bytes_received").max(counts[before - 1]));
        }
        (!times.is_empty()).then_some((times, counts))
    }

    /// The backlogs of a link in a window: after each event if these were recorded, otherwise at the polls; each lasts
    /// until the next. A log also says what was before its first event and after its last: nothing, if it is of the
    /// whole run, and the last backlog.
    pub fn held_backlogs(&self, link: usize, window: Window) -> Vec<Held> {
        let is_logged = self.scenario.instruments.queues.contains(&self.scenario.links[link].name);
        let wanted = if is_logged { "queue" } else { "queue_polls" };
        let Some(rows) = self.rows(wanted, "link", link) else { return Vec::new() };
        let (mut times, mut bytes) = (rows.get("t_s"), rows.get("backlog_bytes"));
        let (first, mut last) = self.recorded_s();
        if !is_logged {
            last = times.last().copied().unwrap_or(0.0);
        } else if first == 0.0 {
            times.insert(0, 0.0);
            bytes.insert(0, 0.0);
        }
        queue::held(&times, &bytes, window.start(), window.end_s.map_or(last, |end| end.min(last)))
    }

    fn rows(&self, name: &str, key: &str, index: usize) -> Option<Of<'a>> {
        let table = table(self.tables, name)?;
        let of = numbers(table, key);
        let rows = (0..of.len()).filter(|row| of[*row] == index as f64).collect();
        Some(Of { table, rows })
    }

    /// Goodput of all TCP flows, Mbit/s.
    fn rates(&self, window: Window) -> Vec<f64> {
        let tcp = (0..self.scenario.flows.len()).filter(|flow| self.scenario.flows[*flow].tcp.is_some());
        tcp.map(|flow| self.goodput_mbps(flow, window)).collect()
    }

    fn of_all(&self, key: &str, window: Window) -> Option<f64> {
        let neck = self.bottleneck();
        Some(match key {
            "goodput_mbps" => {
                let rates = self.rates(window);
                if rates.is_empty() { f64::NAN } else { rates.iter().sum() }
            }
            "jain" => jain(&self.rates(window)),
            "packets" => self.link_total("delivered", neck),
            "events" => table(self.tables, "engine").map_or(f64::NAN, |table| numbers(table, "events")[0]),
            of_link => return self.of_link(neck, of_link, window),
        })
    }

    fn of_link(&self, link: usize, key: &str, window: Window) -> Option<f64> {
        let total = |column: &str| self.link_total(column, link);
        if window.is_whole() {
            return Some(match key {
                "utilisation" if self.scenario.links[link].rate_bps.is_none() => f64::NAN,
                "utilisation" => total("busy_s") / self.duration_s(),
                "loss" => flow::drop_share_at_link(total("dropped"), total("arrived")),
                "backlog_mean_bytes" => total("backlog_bytes_mean"),
                "backlog_max_bytes" => total("backlog_bytes_max"),
                "delivered" | "dropped" | "marked" => total(key),
                _ => return None,
            });
        }
        Some(match key {
            "dropped" => self.packets_at(link, &["drop"], window),
            "loss" => {
                table(self.tables, "queue")?;
                // One that the wire drops has left the queue before.
                let left = self.packets_at(link, &["drop", "dequeue"], window);
                flow::drop_share_at_link(self.packets_at(link, &["drop"], window), left)
            }
            "backlog_mean_bytes" => {
                let held = self.held_backlogs(link, window);
                let lasted: f64 = held.iter().map(|held| held.lasted_s).sum();
                held.iter().map(|held| held.bytes * held.lasted_s).sum::<f64>() / lasted
            }
            "backlog_max_bytes" => {
                largest(&self.held_backlogs(link, window).iter().map(|held| held.bytes).collect::<Vec<_>>())
            }
            _ => return None,
        })
    }

    /// The number of packets to which one of these events happened in a link's queue.
    fn packets_at(&self, link: usize, events: &[&str], window: Window) -> f64 {
        let Some(rows) = self.rows("queue", "link", link) else { return 0.0 };
        let [times, kinds, packets] = ["t_s", "event", "packet"].map(|column| rows.get(column));
        let wanted: Vec<f64> = events.iter().map(|event| code("queue", "event", event)).collect();
        let inside = (0..times.len()).filter(|row| wanted.contains(&kinds[*row]) && window.has(times[*row]));
        let mut found: Vec<f64> = inside.map(|row| packets[row]).collect();
        found.sort_by(f64::total_cmp);
        found.dedup();
        found.len() as f64
    }

    fn of_flow(&self, flow: usize, key: &str, window: Window) -> Option<f64> {
        let total = |column: &str| self.flow_total(column, flow);
        if let Some(share) = DELAYS.iter().position(|name| *name == key) {
            return Some(self.delay_ms(flow, share, window));
        }
        if let Some((_, size)) = RECEIVED.iter().find(|(name, _)| *name == key) {
            return Some(if self.has_start(flow) { self.received_ms(flow, *size) } else { f64::NAN });
        }
        if let Some((_, share)) = REACHED.iter().find(|(name, _)| *name == key) {
            return Some(self.window_reaches_ms(flow, *share, window));
        }
        if key == "experience_mos" {
            // Datagrams other than speech have delays but no voice quality.
            let is_call = traits(&self.scenario.flows[flow].app.kind).datagrams == Datagrams::Voice;
            return Some(self.mean_opinion(flow, window).filter(|_| is_call).unwrap_or(f64::NAN));
        }
        if let Some(what) = key.strip_prefix("experience_") {
            return Some(self.experience(flow, what));
        }
        let (turn, exchange) = match key.strip_prefix("turn_").and_then(|rest| rest.split_once('_')) {
            Some((turn, rest)) => (Some(turn.parse::<f64>().ok()?), rest),
            None => (None, key),
        };
        if let Some((_, bound_s)) = LATE.iter().find(|(name, _)| *name == key) {
            return Some(self.late(flow, *bound_s, window));
        }
        if FILM.contains(&key) {
            return Some(self.film(flow, key));
        }
        if PAGES.contains(&key) {
            return Some(self.pages(flow, key, window));
        }
        if EXCHANGES.contains(&exchange) {
            return Some(self.exchange(flow, exchange, turn, window));
        }
        Some(match key {
            "goodput_mbps" => self.goodput_mbps(flow, window),
            "loss" if window.is_whole() => self.loss(flow),
            "loss" => self.loss_in(flow, window),
            "retransmitted" => self.retransmitted(flow),
            "timeouts" => total("timeouts"),
            "rtt_min_ms" => 1e3 * total("rtt_min_s"),
            "srtt_ms" => 1e3 * total("srtt_s"),
            "cwnd_mean_bytes" => self.polled(flow, "cwnd", mean, window),
            "cwnd_max_bytes" => self.polled(flow, "cwnd", largest, window),
            "cwnd_min_bytes" => self.polled(flow, "cwnd", smallest, window),
            "in_flight_max_bytes" => self.polled(flow, "in_flight", largest, window),
            "slow_start_cwnd_bytes" | "ramp_ms" | "longest_pause_ms" if !self.has_start(flow) => f64::NAN,
            "slow_start_cwnd_bytes" => self.slow_start_cwnd_bytes(flow),
            "ramp_ms" => self.ramp_ms(flow),
            "longest_pause_ms" => self.longest_pause_ms(flow),
            "window_step_bytes" => self.window_step_bytes(flow, window),
            "settle_ms" => self.settle_ms(flow, window),
            _ => return None,
        })
    }

    /// Without a window, over the flow's lifetime; in a window from its polls or, over UDP, from its packets.
    fn goodput_mbps(&self, flow: usize, window: Window) -> f64 {
        if window.is_whole() {
            return self.goodput_bps(flow) / 1e6;
        }
        let (start, end) = (window.start(), window.end_s.unwrap_or(self.duration_s()));
        let (first, last) = self.recorded_s();
        if start < first || end > last {
            return f64::NAN;
        }
        let bytes = if self.scenario.flows[flow].tcp.is_some() {
            // Polls do not show what came back.
            let Some((times, got)) = self.known_counts(flow).filter(|_| !self.comes_back(flow)) else {
                return f64::NAN;
            };
            interpolated(end, &times, &got) - interpolated(start, &times, &got)
        } else {
            let Some(packets) = self.rows("packets", "flow", flow) else { return f64::NAN };
            let (received, bytes) = (packets.get("received_s"), packets.get("bytes"));
            let inside = (0..bytes.len()).filter(|row| received[*row] >= start && received[*row] < end);
            inside.map(|row| bytes[row]).sum()
        };
        flow::goodput_bps(bytes, end - start) / 1e6
    }

    fn loss_in(&self, flow: usize, window: Window) -> f64 {
        let packets = self.rows("packets", "flow", flow).filter(|_| !self.comes_back(flow));
        let Some(packets) = packets else { return f64::NAN };
        let (sent, fates) = (packets.get("sent_s"), packets.get("fate"));
        let inside: Vec<f64> =
            (0..sent.len()).filter(|row| window.has(sent[*row])).map(|row| fates[row]).collect();
        let count = |word: &str| {
            let wanted = code("packets", "fate", word);
            inside.iter().filter(|fate| **fate == wanted).count() as f64
        };
        flow::loss_of_fates(count("dropped"), count("received"))
    }

    /// One-way delays of a flow's delivered packets with their send times, in seconds.
    fn delays_s(&self, flow: usize, window: Window) -> Vec<f64> {
        let Some(packets) = self.rows("packets", "flow", flow) else { return Vec::new() };
        let (sent, received) = (packets.get("sent_s"), packets.get("received_s"));
        let inside = (0..sent.len()).filter(|row| window.has(sent[*row]));
        inside.map(|row| received[row] - sent[row]).filter(|delay| delay.is_finite()).collect()
    }

    fn delay_ms(&self, flow: usize, statistic: usize, window: Window) -> f64 {
        let delays: Vec<f64> = self.delays_s(flow, window).iter().map(|delay| 1e3 * delay).collect();
        if delays.is_empty() {
            return f64::NAN;
        }
        match statistic {
            3 => mean(&delays),
            4 => largest(&delays),
            share => quantiles(delays, &[[0.5, 0.95, 0.99][share]])[0],
        }
    }

    fn experience(&self, flow: usize, what: &str) -> f64 {
        let Some(name) = experienced(&self.scenario.flows[flow]) else { return f64::NAN };
        let Some(rows) = self.rows(name, "flow", flow) else { return f64::NAN };
        let times: Vec<f64> = match name {
            "packets" => self.delays_s(flow, Window::WHOLE),
            "requests" => {
                let answered = code("requests", "fate", "answered");
                let (fates, times) = (rows.get("fate"), rows.get("response_time_s"));
                (0..fates.len()).filter(|row| fates[*row] == answered).map(|row| times[row]).collect()
            }
            _ => rows.get("rtt_s").into_iter().filter(|time| !time.is_nan()).collect(),
        };
        match what {
            "median_ms" => 1e3 * quantiles(times, &[0.5])[0],
            "p95_ms" => 1e3 * quantiles(times, &[0.95])[0],
            "jitter_ms" if name == "packets" => 1e3 * jitter_s(&rows.get("sent_s"), &rows.get("received_s")),
            "lost" if name == "packets" => self.loss(flow),
            "lost" if rows.rows.is_empty() => f64::NAN,
            "lost" => 1.0 - times.len() as f64 / rows.rows.len() as f64,
            _ => f64::NAN,
        }
    }

    fn exchange(&self, flow: usize, what: &str, turn: Option<f64>, window: Window) -> f64 {
        let Some(rows) = self.rows("requests", "flow", flow) else { return f64::NAN };
        let [asked, times, bytes, turns] =
            ["t_s", "response_time_s", "bytes", "turn"].map(|column| rows.get(column));
        let chosen: Vec<usize> = (0..asked.len())
            .filter(|row| times[*row].is_finite() && window.has(asked[*row] + times[*row]))
            .filter(|row| turn.is_none_or(|turn| turns[*row] == turn))
            .collect();
        if what == "answered_mbps" {
            let (first, last) = self.recorded_s();
            let span = window.end_s.map_or(last, |end| end.min(last)) - window.start().max(first);
            return 8e-6 * chosen.iter().map(|row| bytes[*row]).sum::<f64>() / span;
        }
        let share = if what == "answer_p95_ms" { 0.95 } else { 0.99 };
        1e3 * quantiles(chosen.iter().map(|row| times[*row]).collect(), &[share])[0]
    }

    fn polled(&self, flow: usize, column: &str, of: fn(&[f64]) -> f64, window: Window) -> f64 {
        let Some(polls) = self.rows("polls", "flow", flow) else { return f64::NAN };
        let (times, values) = (polls.get("t_s"), polls.get(column));
        let inside: Vec<f64> =
            (0..times.len()).filter(|row| window.has(times[*row])).map(|row| values[row]).collect();
        if inside.is_empty() { f64::NAN } else { of(&inside) }
    }

    /// cwnd at the last poll of slow start; NaN if ssthresh was never set.
    fn slow_start_cwnd_bytes(&self, flow: usize) -> f64 {
        let Some(polls) = self.rows("polls", "flow", flow) else { return f64::NAN };
        let ended = polls.get("ssthresh").iter().position(|threshold| threshold.is_finite());
        ended.filter(|at| *at > 0).map_or(f64::NAN, |at| polls.get("cwnd")[at - 1])
    }

    /// When a flow started: with a `start_spread`, later than its scenario says.
    fn started_s(&self, flow: usize) -> f64 {
        self.flow_total("started_s", flow)
    }

    /// The smallest polled RTT, and the bottleneck's rate at the IP layer in bit/s, if both are known.
    fn base(&self, polls: &Of<'_>) -> Option<(f64, f64)> {
        let rtts: Vec<f64> = polls.get("rtt_min_s").into_iter().filter(|rtt| rtt.is_finite()).collect();
        let rate = self.scenario.links[self.bottleneck()].ip_rate_bps()?;
        (!rtts.is_empty()).then(|| (smallest(&rtts), rate as f64))
    }

    /// Time from the flow's start until its receiver first gets 90 % of the bottleneck's rate over a base RTT.
    fn ramp_ms(&self, flow: usize) -> f64 {
        let Some(polls) = self.rows("polls", "flow", flow) else { return f64::NAN };
        let Some((base, rate)) = self.base(&polls) else { return f64::NAN };
        let (times, got) = (polls.get("t_s"), polls.get("bytes_received"));
        let spec = &self.scenario.flows[flow];
        let mtu = spec.tcp.as_ref().map_or(f64::NAN, |tcp| f64::from(tcp.mtu));
        // Headers of IP and TCP, with the timestamps option.
        let headers = f64::from(spec.ip.header() + 20 + 12);
        // Convert payload to IP bytes of full segments, which is what the link counts.
        let gained =
            |at: usize| (got[at] - interpolated(times[at] - base, &times, &got)) * mtu / (mtu - headers);
        let there = (0..times.len())
            .find(|at| times[*at] >= times[0] + base && gained(*at) >= 0.9 * rate / 8.0 * base);
        there.map_or(f64::NAN, |at| 1e3 * (times[at] - self.started_s(flow)))
    }

    /// The longest time without newly acknowledged data while the flow was active.
    fn longest_pause_ms(&self, flow: usize) -> f64 {
        let polls = self.rows("polls", "flow", flow).filter(|_| self.recorded_s().1 >= self.duration_s());
        let Some(polls) = polls else { return f64::NAN };
        let (times, acked) = (polls.get("t_s"), polls.get("bytes_acked"));
        let moved: Vec<f64> = (0..times.len())
            .filter(|at| acked[*at] > at.checked_sub(1).map_or(0.0, |before| acked[before]))
            .map(|at| times[at])
            .collect();
        let pauses = self.active_s(flow).into_iter().flat_map(|(start, stop)| {
            let within = moved.iter().copied().filter(move |at| *at > start && *at < stop);
            let instants: Vec<f64> = std::iter::once(start).chain(within).chain([stop]).collect();
            instants.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
        });
        1e3 * largest(&pauses.collect::<Vec<_>>())
    }

    /// Time from the flow's start until this many bytes have arrived in order.
    fn received_ms(&self, flow: usize, size: f64) -> f64 {
        let Some((times, got)) = self.known_counts(flow) else { return f64::NAN };
        let there = got.iter().position(|bytes| *bytes >= size);
        there.map_or(f64::NAN, |at| 1e3 * (times[at] - self.started_s(flow)))
    }

    /// Times and cwnd of the polls in a window, the bottleneck's BDP in bytes, and the smallest RTT in seconds.
    fn windows(&self, flow: usize, window: Window) -> Option<(Vec<f64>, Vec<f64>, f64, f64)> {
        let polls = self.rows("polls", "flow", flow)?;
        let (base, rate) = self.base(&polls)?;
        let (times, cwnd) = (polls.get("t_s"), polls.get("cwnd"));
        let inside: Vec<usize> = (0..times.len()).filter(|row| window.has(times[*row])).collect();
        let kept = |of: &[f64]| inside.iter().map(|row| of[*row]).collect();
        Some((kept(&times), kept(&cwnd), rate / 8.0 * base, base))
    }

    /// Time from the start of the window until cwnd reaches this share of the BDP.
    fn window_reaches_ms(&self, flow: usize, share: f64, window: Window) -> f64 {
        let Some((times, cwnd, bdp, _)) = self.windows(flow, window) else { return f64::NAN };
        let there = cwnd.iter().position(|cwnd| *cwnd >= share * bdp);
        there.map_or(f64::NAN, |at| 1e3 * (times[at] - window.start()))
    }

    /// The largest increase of cwnd within a base RTT, until it reaches 90 % of the BDP.
    fn window_step_bytes(&self, flow: usize, window: Window) -> f64 {
        let Some((times, cwnd, bdp, base)) = self.windows(flow, window) else { return f64::NAN };
        let last = cwnd.iter().position(|cwnd| *cwnd >= 0.9 * bdp).map_or(times.len(), |at| at + 1);
        if last < 2 {
            return f64::NAN;
        }
        let step = |at: usize| {
            let before = times[..last].partition_point(|time| *time < times[at] - base);
            cwnd[at] - cwnd[before]
        };
        largest(&(0..last).map(step).collect::<Vec<_>>())
    }

    /// Time from the window's start until the rate over a second stays within 10 % of the rate in the window's last
    /// third.
    fn settle_ms(&self, flow: usize, window: Window) -> f64 {
        let Some(packets) = self.rows("packets", "flow", flow) else { return f64::NAN };
        let (start, end) = (window.start(), window.end_s.unwrap_or(self.duration_s()));
        let bytes = packets.get("bytes");
        let received = packets.get("received_s").into_iter().zip(bytes);
        let mut got: Vec<(f64, f64)> = received.filter(|(time, _)| !time.is_nan()).collect();
        got.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sums = vec![0.0];
        got.iter().for_each(|(_, bytes)| sums.push(sums[sums.len() - 1] + bytes));
        let until = |at: f64| sums[got.partition_point(|(time, _)| *time < at)];
        let rate = |begin: f64, end: f64| (until(end) - until(begin)) / (end - begin);
        let last = rate(end - (end - start) / 3.0, end);
        // Number of steps of 0.1 s that fit, beginning a second after the start.
        let steps = ((end - (start + 1.0)) / 0.1).ceil().max(0.0) as usize;
        if last == 0.0 || steps == 0 {
            return f64::NAN;
        }
        let ends = (0..steps).map(|step| start + 1.0 + 0.1 * step as f64);
        let mut outside = ends.filter(|end| (rate(end - 1.0, *end) - last).abs() > 0.1 * last);
        outside.next_back().map_or(0.0, |end| 1e3 * (end - start))
    }

    /// A statistic at the polls of one of the algorithm's internal quantities; NaN if it has none of this name.
    fn own(&self, flow: usize, key: &str, window: Window) -> Option<f64> {
        let instruments = &self.scenario.instruments;
        let is_polled = instruments.polls.contains(&self.scenario.flows[flow].name);
        if !instruments.internals || !is_polled {
            return None;
        }
        let (name, how, at) = own_parts(key)?;
        let Some(quantity) = self.tables.internals_names.iter().position(|known| *known == name) else {
            return Some(f64::NAN);
        };
        let Some(rows) = self.rows("internals", "flow", flow) else { return Some(f64::NAN) };
        let [times, names, all] = ["t_s", "name", "value"].map(|column| rows.get(column));
        let mine = (0..all.len()).filter(|row| names[*row] == quantity as f64 && window.has(times[*row]));
        let values: Vec<f64> = mine.map(|row| all[row]).collect();
        if values.is_empty() {
            return Some(f64::NAN);
        }
        Some(match (how, at) {
            ("mean", _) => mean(&values),
            ("min", _) => smallest(&values),
            ("max", _) => largest(&values),
            ("last", _) => values[values.len() - 1],
            ("is", Some(at)) => {
                values.iter().filter(|value| **value == at).count() as f64 / values.len() as f64
            }
            (_, at) => {
                let at = at.unwrap_or(f64::NAN);
                values.windows(2).filter(|pair| pair[1] == at && pair[0] != at).count() as f64
            }
        })
    }
}
