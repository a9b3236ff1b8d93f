//! Titles and units of a run's measures, one row each: the last part of the name, the axis label, and whether higher is
//! better.

use serde_json::{Value, json};

use crate::rows::Better::{self, Higher, Lower};

/// The unit of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Mbit/s.
    Megabits,
    /// Bytes.
    Bytes,
    /// A count or a share; the text says of what.
    Number(&'static str),
}

impl Unit {
    /// The unit as shown at an axis and in a condition.
    pub const fn text(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::Seconds => "s",
            Unit::Megabits => "Mbit/s",
            Unit::Bytes => "B",
            Unit::Number(of) => of,
        }
    }
}

/// Title and unit of a measure of a run.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The last part of the measure's name.
    pub name: &'static str,
    /// The axis label.
    pub title: &'static str,
    /// The unit of its values.
    pub unit: Unit,
    /// Whether higher or lower is better; `None` for counts that grow with the traffic.
    pub better: Option<Better>,
}

const fn key(name: &'static str, title: &'static str, unit: Unit, better: Option<Better>) -> Key {
    Key { name, title, unit, better }
}

const MS: Unit = Unit::Milliseconds;
const S: Unit = Unit::Seconds;
const MBPS: Unit = Unit::Megabits;
const B: Unit = Unit::Bytes;
const SHARE: Unit = Unit::Number("share");
const COUNT: Unit = Unit::Number("");
const PACKETS: Unit = Unit::Number("packets");

/// Every measure of a run.
pub const KEYS: &[Key] = &[
    key("goodput_mbps", "goodput", MBPS, Some(Higher)),
    key("loss", "loss", Unit::Number("share of packets"), Some(Lower)),
    key("jain", "Jain's index", Unit::Number("1/n to 1"), Some(Higher)),
    key("utilisation", "utilisation", Unit::Number("share of time"), None),
    key("packets", "delivered", PACKETS, None),
    key("events", "events", COUNT, None),
    key("retransmitted", "retransmitted", Unit::Number("segments"), None),
    key("timeouts", "timeouts", Unit::Number("number"), Some(Lower)),
    key("rtt_min_ms", "smallest round trip", MS, None),
    key("srtt_ms", "last smoothed round trip", MS, Some(Lower)),
    key("delivered", "delivered", PACKETS, None),
    key("dropped", "dropped", PACKETS, None),
    key("marked", "marked", PACKETS, None),
    key("backlog_mean_bytes", "queue, mean", B, Some(Lower)),
    key("backlog_max_bytes", "queue, largest", B, Some(Lower)),
    key("delay_p50_ms", "one-way delay, median", MS, Some(Lower)),
    key("delay_p95_ms", "one-way delay, 95 %", MS, Some(Lower)),
    key("delay_p99_ms", "one-way delay, 99 %", MS, Some(Lower)),
    key("delay_mean_ms", "one-way delay, mean", MS, Some(Lower)),
    key("delay_max_ms", "one-way delay, largest", MS, Some(Lower)),
    key("experience_median_ms", "wait, median", MS, Some(Lower)),
    key("experience_p95_ms", "wait, 95 %", MS, Some(Lower)),
    key("experience_lost", "lost or unanswered", SHARE, Some(Lower)),
    key("experience_jitter_ms", "jitter", MS, Some(Lower)),
    key("experience_mos", "opinion score", Unit::Number("MOS, 1 to 4.5"), Some(Higher)),
    key("late_50", "updates later than 50 ms", SHARE, Some(Lower)),
    key("late_100", "updates later than 100 ms", SHARE, Some(Lower)),
    key("startup_s", "time until the film plays", S, Some(Lower)),
    key("stalled_s", "time the film stands still", S, Some(Lower)),
    key("stalls", "standstills of the film", COUNT, Some(Lower)),
    key("switches", "changes of the film's bitrate", COUNT, Some(Lower)),
    key("bitrate_mbps", "bitrate of the film", MBPS, Some(Higher)),
    key("loads", "pages loaded", COUNT, Some(Higher)),
    key("load_time_s", "page load time, median", S, Some(Lower)),
    key("load_time_p95_s", "page load time, 95 %", S, Some(Lower)),
    key("speed_index_s", "Speed Index, median", S, Some(Lower)),
    key("cwnd_mean_bytes", "cwnd mean", B, None),
    key("cwnd_max_bytes", "cwnd max", B, None),
    key("cwnd_min_bytes", "cwnd min", B, None),
    key("in_flight_max_bytes", "in flight max", B, None),
    key("slow_start_cwnd_bytes", "slow start cwnd", B, None),
    key("ramp_ms", "ramp", MS, None),
    key("longest_pause_ms", "longest pause", MS, None),
    key("received_15kB_ms", "received 15kB", MS, None),
    key("received_100kB_ms", "received 100kB", MS, None),
    key("received_150kB_ms", "received 150kB", MS, None),
    key("received_1MB_ms", "received 1MB", MS, None),
    key("received_1500kB_ms", "received 1500kB", MS, None),
    key("received_10MB_ms", "received 10MB", MS, None),
    key("received_15MB_ms", "received 15MB", MS, None),
    key("window_60_ms", "window 60", MS, None),
    key("window_80_ms", "window 80", MS, None),
    key("window_90_ms", "window 90", MS, None),
    key("window_step_bytes", "window step", B, None),
    key("settle_ms", "settle", MS, None),
    key("answered_mbps", "answered", MBPS, None),
    key("answer_p95_ms", "answer p95", MS, None),
    key("answer_p99_ms", "answer p99", MS, None),
];

/// The row of a measure by its full name, regardless of the flow, link and turn in it.
pub fn of_name(name: &str) -> Option<&'static Key> {
    let last = name.rsplit('.').next().unwrap_or(name);
    let of_turn = last.strip_prefix("turn_").and_then(|rest| rest.split_once('_'));
    let wanted = of_turn.map_or(last, |(_, rest)| rest);
    KEYS.iter().find(|key| key.name == wanted)
}

/// The unit of a measure as text; empty if it has no row, such as an algorithm's internal quantity.
pub fn unit(name: &str) -> &'static str {
    of_name(name).map_or("", |key| key.unit.text())
}

/// All rows, for Python.
pub fn as_json() -> Value {
    let row = |key: &Key| {
        json!({
            "name": key.name,
            "title": key.title,
            "unit": key.unit.text(),
            "better": key.better.map(Better::word),
        })
    };
    KEYS.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_by_its_last_part_and_each_has_one_row() {
        assert_eq!(unit("call.delay_p95_ms"), "ms");
        assert_eq!(unit("web.turn_2_answered_mbps"), "Mbit/s");
        assert_eq!(unit("bulk.own_srtt_ms_mean"), "", "an algorithm's own number has no row");
        for (place, key) in KEYS.iter().enumerate() {
            assert!(KEYS[..place].iter().all(|other| other.name != key.name), "{}", key.name);
        }
    }
}
