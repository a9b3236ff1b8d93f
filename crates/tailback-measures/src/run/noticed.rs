//! Quality-of-experience measures, from a run's tables.

use tailback_core::traffic::registry;

use super::{Run, Window, mean};
use crate::columns::code;
use crate::people::{self, Segment};
use crate::quantile::quantiles;

/// Thresholds in seconds above which an update is late, by name.
pub(super) const LATE: [(&str, f64); 2] = [("late_50", 0.050), ("late_100", 0.100)];
/// Measures of a video stream.
pub(super) const FILM: [&str; 5] = ["startup_s", "stalled_s", "stalls", "switches", "bitrate_mbps"];
/// Measures of page loads.
pub(super) const PAGES: [&str; 4] = ["loads", "load_time_s", "load_time_p95_s", "speed_index_s"];

impl Run<'_> {
    /// `late_share` of a game's updates.
    pub(super) fn late(&self, flow: usize, bound_s: f64, window: Window) -> f64 {
        let Some(packets) = self.rows("packets", "flow", flow) else { return f64::NAN };
        let (lost, under_way) = (code("packets", "fate", "dropped"), code("packets", "fate", "in-transit"));
        let [sent, received, fates] = ["sent_s", "received_s", "fate"].map(|column| packets.get(column));
        let known = (0..sent.len()).filter(|row| fates[*row] != under_way && window.has(sent[*row]));
        let delays = known.map(|row| if fates[row] == lost { f64::NAN } else { received[row] - sent[row] });
        people::late_share(&delays.collect::<Vec<_>>(), bound_s)
    }

    /// One of the values of `film`.
    pub(super) fn film(&self, flow: usize, what: &str) -> f64 {
        let rows = self.rows("requests", "flow", flow).filter(|_| self.has_start(flow));
        let Some(rows) = rows else { return f64::NAN };
        let answered = code("requests", "fate", "answered");
        let [asked, took, bytes, fates] =
            ["t_s", "response_time_s", "bytes", "fate"].map(|column| rows.get(column));
        let segments: Vec<Segment> = (0..asked.len())
            .filter(|row| fates[*row] == answered)
            .map(|row| Segment { asked_s: asked[row], arrived_s: asked[row] + took[row], bytes: bytes[row] })
            .collect();
        let spec = &self.scenario.flows[flow];
        let number = |name: &str| registry::number(&spec.app.kind, &spec.app.params, name);
        let end = spec.stop_ps.map_or(f64::INFINITY, super::seconds).min(self.duration_s());
        let seen = people::film(&segments, number("segment"), number("start_after"), end);
        match what {
            "startup_s" => seen.startup_s,
            "stalled_s" => seen.stalled_s,
            "stalls" => seen.stalls as f64,
            "switches" => seen.switches as f64,
            _ => seen.bitrate_bps / 1e6,
        }
    }

    /// A value of `page_loads`: the number of loads begun in the window that completed, or a quantile over these.
    pub(super) fn pages(&self, flow: usize, what: &str, window: Window) -> f64 {
        let Some(rows) = self.rows("requests", "flow", flow) else { return f64::NAN };
        let [asked, took, bytes, kinds] =
            ["t_s", "response_time_s", "bytes", "kind"].map(|column| rows.get(column));
        let of_kind = |word: &str| -> Vec<usize> {
            let wanted = code("requests", "kind", word);
            (0..asked.len()).filter(|row| kinds[*row] == wanted).collect()
        };
        let begun = of_kind("page").into_iter().filter(|row| window.has(asked[*row]));
        let loads: Vec<(f64, f64)> = begun.map(|row| (asked[row], took[row])).collect();
        let object = |row: usize| Segment {
            asked_s: asked[row],
            arrived_s: asked[row] + took[row],
            bytes: bytes[row],
        };
        let objects: Vec<Segment> = of_kind("object").into_iter().map(object).collect();
        let seen = people::page_loads(&loads, &objects);
        let whole = || seen.iter().filter(|load| load.load_time_s.is_finite());
        let times = || whole().map(|load| load.load_time_s).collect();
        match what {
            "loads" => whole().count() as f64,
            "load_time_s" => quantiles(times(), &[0.5])[0],
            "load_time_p95_s" => quantiles(times(), &[0.95])[0],
            _ => quantiles(whole().map(|load| load.speed_index_s).collect(), &[0.5])[0],
        }
    }
}

/// RFC 3550's jitter (section 6.4.1): the mean of its estimates over the packets in order of arrival; 0 for one packet,
/// NaN for none.
pub(super) fn jitter_s(sent_s: &[f64], received_s: &[f64]) -> f64 {
    let both = received_s.iter().zip(sent_s).filter(|(received, _)| !received.is_nan());
    let mut transits: Vec<(f64, f64)> = both.map(|(received, sent)| (*received, received - sent)).collect();
    transits.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut estimate = 0.0;
    let estimates: Vec<f64> = transits
        .windows(2)
        .map(|pair| {
            estimate += ((pair[1].1 - pair[0].1).abs() - estimate) / 16.0;
            estimate
        })
        .collect();
    if transits.len() == 1 { 0.0 } else { mean(&estimates) }
}

#[cfg(test)]
mod tests {
    use super::jitter_s;

    #[test]
    fn one_packet_has_no_jitter_and_none_has_no_number() {
        assert_eq!(jitter_s(&[1.0, 2.0, 3.0], &[1.5, f64::NAN, 3.5]), 0.0);
        assert_eq!(jitter_s(&[1.0, 2.0], &[1.5, f64::NAN]), 0.0);
        assert!(jitter_s(&[1.0], &[f64::NAN]).is_nan());
    }
}
