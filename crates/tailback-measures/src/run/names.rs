//! The measures available for a run, and what `[instruments]` must add for each.

use tailback_core::scenario::Scenario;
use tailback_core::traffic::Datagrams;
use tailback_core::traffic::registry::traits;

use super::noticed::{FILM, LATE, PAGES};
use super::{experienced, holds_queue};

pub(super) const DELAYS: [&str; 5] =
    ["delay_p50_ms", "delay_p95_ms", "delay_p99_ms", "delay_mean_ms", "delay_max_ms"];
const OF_FLOW: [&str; 2] = ["goodput_mbps", "loss"];
const OF_TCP: [&str; 4] = ["retransmitted", "timeouts", "rtt_min_ms", "srtt_ms"];
const OF_LINK: [&str; 7] =
    ["utilisation", "delivered", "dropped", "marked", "backlog_mean_bytes", "backlog_max_bytes", "loss"];
const WHOLE: [&str; 7] =
    ["goodput_mbps", "jain", "utilisation", "loss", "backlog_mean_bytes", "packets", "events"];
const EXPERIENCE: [&str; 5] = ["median_ms", "p95_ms", "lost", "jitter_ms", "mos"];
const POLLED: [&str; 4] = ["cwnd_mean_bytes", "cwnd_max_bytes", "cwnd_min_bytes", "in_flight_max_bytes"];
const START: [&str; 3] = ["slow_start_cwnd_bytes", "ramp_ms", "longest_pause_ms"];
/// Numbers of bytes whose arrival time is measured, by name.
pub(super) const RECEIVED: [(&str, f64); 7] = [
    ("received_15kB_ms", 1.5e4),
    ("received_100kB_ms", 1e5),
    ("received_150kB_ms", 1.5e5),
    ("received_1MB_ms", 1e6),
    ("received_1500kB_ms", 1.5e6),
    ("received_10MB_ms", 1e7),
    ("received_15MB_ms", 1.5e7),
];
/// Shares of the BDP that cwnd must reach, by name.
pub(super) const REACHED: [(&str, f64); 3] =
    [("window_60_ms", 0.6), ("window_80_ms", 0.8), ("window_90_ms", 0.9)];
pub(super) const EXCHANGES: [&str; 3] = ["answered_mbps", "answer_p95_ms", "answer_p99_ms"];
const OWN: [&str; 4] = ["mean", "min", "max", "last"];

/// A measure's name, and what `[instruments]` lacks for it, such as `packets = ["call"]`; empty if nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurable {
    /// The name.
    pub name: String,
    /// What must also be recorded.
    pub lacks: String,
}

/// The measures available for a run of this scenario, over the entire run or in a time window.
///
/// Not listed are an algorithm's internal quantities, `FLOW.own_NAME_mean` (`min`, `max`, `last`, `is_1`, `enters_1`),
/// whose names are known only after a run.
pub fn measurable(scenario: &Scenario, is_window: bool) -> Vec<Measurable> {
    let mut out = Vec::new();
    let mut have = |name: String| out.push(Measurable { name, lacks: String::new() });
    if !is_window {
        WHOLE.iter().for_each(|name| have((*name).into()));
        for flow in &scenario.flows {
            let tcp = if flow.tcp.is_some() { &OF_TCP[..] } else { &[] };
            OF_FLOW.iter().chain(tcp).for_each(|key| have(format!("{}.{key}", flow.name)));
        }
        for link in scenario.links.iter().filter(|link| holds_queue(link)) {
            OF_LINK.iter().for_each(|key| have(format!("{}.{key}", link.name)));
        }
    }
    let recorded = &scenario.instruments;
    let mut need = |of: &str, key: &str, instruments: &[(&str, &[String])]| {
        let has = instruments.iter().any(|(_, names)| names.iter().any(|name| name == of));
        let lacks = if has { String::new() } else { format!("{} = [\"{of}\"]", instruments[0].0) };
        out.push(Measurable { name: format!("{of}.{key}"), lacks });
    };
    let packets = [("packets", &recorded.packets[..])];
    let polls = [("polls", &recorded.polls[..])];
    let requests = [("requests", &recorded.requests[..])];
    let echoes = [("echoes", &recorded.echoes[..])];
    for flow in &scenario.flows {
        let name = flow.name.as_str();
        let table = experienced(flow);
        if !is_window {
            let instrument = match table {
                Some("requests") => Some(&requests),
                Some("echoes") => Some(&echoes),
                Some(_) => Some(&packets),
                None => None,
            };
            if let Some(instrument) = instrument {
                EXPERIENCE.iter().for_each(|key| need(name, &format!("experience_{key}"), &instrument[..]));
            }
        }
        if table == Some("requests") {
            let turns = flow.tcp.as_ref().map_or(0, |tcp| tcp.cc_turns.len());
            let whose = std::iter::once(String::new()).chain((0..=turns).map(|turn| format!("turn_{turn}_")));
            for whose in whose {
                EXCHANGES.iter().for_each(|key| need(name, &format!("{whose}{key}"), &requests));
            }
        }
        let traits = traits(&flow.app.kind);
        if is_window && traits.datagrams == Datagrams::Voice {
            need(name, "experience_mos", &packets);
        }
        if traits.datagrams == Datagrams::Updates {
            LATE.iter().for_each(|(key, _)| need(name, key, &packets));
        }
        if traits.plays_film && !is_window {
            FILM.iter().for_each(|key| need(name, key, &requests));
        }
        if traits.loads_pages {
            PAGES.iter().for_each(|key| need(name, key, &requests));
        }
        DELAYS.iter().for_each(|key| need(name, key, &packets));
        if flow.tcp.is_some() {
            POLLED.iter().for_each(|key| need(name, key, &polls));
            if is_window {
                REACHED.iter().for_each(|(key, _)| need(name, key, &polls));
                need(name, "window_step_bytes", &polls);
            } else {
                START.iter().for_each(|key| need(name, key, &polls));
                RECEIVED.iter().for_each(|(key, _)| need(name, key, &polls));
            }
        }
        if is_window {
            need(name, "goodput_mbps", if flow.tcp.is_some() { &polls } else { &packets });
            need(name, "loss", &packets);
            if flow.tcp.is_none() {
                need(name, "settle_ms", &packets);
            }
        }
    }
    if is_window {
        let of_tcp: Vec<&str> =
            scenario.flows.iter().filter(|it| it.tcp.is_some()).map(|it| it.name.as_str()).collect();
        let missing = of_tcp.iter().filter(|name| !recorded.polls.iter().any(|known| known == *name));
        let missing: Vec<String> = missing.map(|name| format!("\"{name}\"")).collect();
        let lacks =
            if missing.is_empty() { String::new() } else { format!("polls = [{}]", missing.join(", ")) };
        if !of_tcp.is_empty() {
            for name in ["goodput_mbps", "jain"] {
                out.push(Measurable { name: name.into(), lacks: lacks.clone() });
            }
        }
        for link in scenario.links.iter().filter(|link| holds_queue(link)) {
            let name = link.name.as_str();
            let mut need = |key: &str, instruments: &[(&str, &[String])]| {
                let has = instruments.iter().any(|(_, names)| names.iter().any(|known| known == name));
                let lacks = if has { String::new() } else { format!("{} = [\"{name}\"]", instruments[0].0) };
                out.push(Measurable { name: format!("{name}.{key}"), lacks });
            };
            let queues = ("queues", &recorded.queues[..]);
            let polled = [("queue_polls", &recorded.queue_polls[..]), queues];
            need("backlog_mean_bytes", &polled);
            need("backlog_max_bytes", &polled);
            need("dropped", &[("drops", &recorded.drops[..]), queues]);
            need("loss", &[queues]);
        }
    }
    out
}

/// Splits the name of an internal quantity, as in `mode_is_3`: its name, the statistic, and the value to compare with.
pub(super) fn own_parts(key: &str) -> Option<(&str, &'static str, Option<f64>)> {
    let (rest, last) = key.rsplit_once('_')?;
    match last.parse::<f64>() {
        Ok(at) => {
            let (name, how) = rest.rsplit_once('_')?;
            Some((name, ["is", "enters"].into_iter().find(|known| *known == how)?, Some(at)))
        }
        Err(_) => Some((rest, OWN.into_iter().find(|known| *known == last)?, None)),
    }
}

/// What `[instruments]` lacks for a measure; empty if nothing. `None` if there is no such measure.
pub fn lacks(scenario: &Scenario, name: &str, is_window: bool) -> Option<String> {
    if let Some(known) = measurable(scenario, is_window).into_iter().find(|it| it.name == name) {
        return Some(known.lacks);
    }
    let (of, key) = name.rsplit_once('.')?;
    own_parts(key.strip_prefix("own_")?)?;
    scenario.flows.iter().find(|flow| flow.name == of && flow.tcp.is_some())?;
    let instruments = &scenario.instruments;
    let has = instruments.internals && instruments.polls.iter().any(|polled| polled == of);
    Some(if has { String::new() } else { format!("polls = [\"{of}\"] and internals = true") })
}
