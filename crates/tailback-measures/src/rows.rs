//! One row per measure, used by `tailback list metrics`, the documentation and every caller.

use serde_json::{Value, json};

use crate::{operators, sharing};

/// Whether higher or lower values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Higher is better.
    Higher,
    /// Lower is better.
    Lower,
}

impl Better {
    /// The word used in output.
    pub const fn word(self) -> &'static str {
        match self {
            Better::Higher => "higher",
            Better::Lower => "lower",
        }
    }
}

/// A measure.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Its name, which is also that of its function in Python's `tailback.metrics`.
    pub name: &'static str,
    /// A heading.
    pub title: &'static str,
    /// The unit, and the range where there is one.
    pub unit: &'static str,
    /// The definition as a formula.
    pub formula: &'static str,
    /// Meaning of the formula's symbols, and special cases.
    pub definition: &'static str,
    /// Source of the definition.
    pub source: &'static str,
    /// The tables it is computed from; `a | b` means either. Empty: it is computed from given numbers.
    pub tables: &'static [&'static str],
    /// Which rows belong to a time window.
    pub window: &'static str,
    /// How values of several seeds are combined.
    pub over_seeds: &'static str,
    /// Whether higher or lower is better.
    pub better: Better,
    /// Its computation, if it maps columns of numbers to one number; callers then need no function of their own.
    pub of: Option<Of>,
}

/// A function from columns of numbers to one number.
#[derive(Clone, Copy, Debug)]
pub struct Of {
    /// Number of columns.
    pub columns: usize,
    /// The function.
    pub value: fn(&[&[f64]]) -> f64,
}

const SENT: &str = "packets sent in it";
const GIVEN: &str = "none: computed from given numbers";
const MEAN: &str = "mean";
const MEDIAN: &str = "median";

/// All measures computed here, in alphabetical order.
pub const MEASURES: &[Measure] = &[
    Measure {
        name: "bufferbloat_grade",
        title: "Bufferbloat grade",
        unit: "grade (A+ … F)",
        formula: "(max(0, down − idle) + max(0, up − idle))/2: A+ < 5 ms ≤ A < 30 ms ≤ B < 60 ms ≤ C < 200 ms ≤ D < 400 ms ≤ F",
        definition: "Mean round trip while the path is loaded down, and while it is loaded up, less the mean one while it is idle. Waveform gives the same letters at the same bounds, and does not publish how it joins the two directions: DSLReports averages them, and so does this.",
        source: "DSLReports FAQ 17930, whose bounds Waveform's test shows",
        tables: &[],
        window: GIVEN,
        over_seeds: MEDIAN,
        better: Better::Lower,
        of: None,
    },
    Measure {
        name: "burst_ratio",
        title: "Burst ratio of losses",
        unit: "1 (≥ 1)",
        formula: "max(1, lost/bursts · (1 − lost/packets))",
        definition: "Mean length of the bursts seen over the mean length random loss would give, 1/(1 − P); at least 1.",
        source: "ITU-T G.107 section 7.5",
        tables: &[],
        window: GIVEN,
        over_seeds: MEAN,
        better: Better::Lower,
        of: None,
    },
    Measure {
        name: "completion_time",
        title: "Completion time of a transfer",
        unit: "s",
        formula: "finished − started",
        definition: "From a flow's start until its last connection was over. NaN for a flow that was given no number of bytes, and for one that stopped before all of them had arrived.",
        source: "RFC 5166 section 2.2",
        tables: &["flows"],
        window: "whole run only",
        over_seeds: MEDIAN,
        better: Better::Lower,
        of: None,
    },
    Measure {
        name: "delay_impairment",
        title: "E-model delay impairment",
        unit: "R",
        formula: "Idd = 25·((1 + X⁶)^⅙ − 3·(1 + (X/3)⁶)^⅙ + 2), X = log₂(T / 100 ms); 0 up to 100 ms",
        definition: "What a pure delay T from mouth to ear costs. Echo is assumed to be cancelled, so Idte and Idle are 0.",
        source: "ITU-T G.107 section 7.4, Idd",
        tables: &[],
        window: GIVEN,
        over_seeds: MEAN,
        better: Better::Lower,
        of: None,
    },
    Measure {
        name: "delay_quantiles",
        title: "Delay quantiles",
        unit: "s",
        formula: "x₍ₖ₎ + (q·(n − 1) − k)·(x₍ₖ₊₁₎ − x₍ₖ₎), k = ⌊q·(n − 1)⌋, x in ascending order from 0",
        definition: "Quantiles of a flow's one-way delays, received − sent, of the packets that arrived: whole, or less the smallest possible delay (induced).",
        source: "Hyndman and Fan, The American Statistician 50 (1996), type 7; RFC 7679",
        tables: &["packets"],
        window: SENT,
        over_seeds: MEDIAN,
        better: Better::Lower,
        of: None,
    },
    Measure {
        name: "drop_share_at_link",
        title: "Drop share at a link",
        unit: "1 (0 … 1)",
        formula: "dropped / arrived",
        definition: "Of the packets of all flows that arrived at a link's queue, the share that it or its wire dropped. This is no flow's loss: it counts one link, and every flow that crosses it. Sweeps, `[expect]` and reports name it `loss` behind a link's name, and `loss` alone is that of the bottleneck.",
        source: "“Effects of high-speed congestion control” (2007); RFC 5166 section 2.1.3",
        tables: &["links"],
        window: "of the packets that left the queue or were dropped in it, by the log; each counts once",
        over_seeds: MEAN,
        better: Better::Lower,
        of: None,
    },
    Measure {
        name: "film",
        title: "What a viewer sees",
        unit: "s, s, 1, 1, bit/s",
        formula: "startup = first play − first request; stalled = Σ standstills; switches = #{sₖ ≠ sₖ₋₁}; bitrate = 8·Σs/(n·segment), s the segments' sizes",
        definition: "Start-up delay, time and number of standstills after it, changes of the bitrate, and mean bitrate of the segments of a `video` flow that arrived. The picture starts, and goes on after a standstill, when `start_after` seconds are buffered. What quality a bitrate has is not judged: ITU-T P.1203 would need the encoding.",
        source: "definitions; ISO/IEC 23009-1 (DASH); Huang et al., SIGCOMM 2014",
        tables: &["requests"],
        window: "whole run only",
        over_seeds: MEAN,
        better: Better::Higher,
        of: None,
    },
    Measure {
        name: "flow_loss_rate",
        title: "Loss rate of a flow",
        unit: "1 (0 … 1)",
        formula: "dropped / (dropped + delivered)",
        definition: "Of a flow's packets whose fate was decided within the run, dropped or delivered, the share that was dropped by any queue or wire on its way. Packets still under way at the end are neither lost nor counted: counting them as delivered would make a short run look better, and nothing is known of them. Copies that a wire makes are not packets sent. Packets are those of the flow's own direction, so the value is NaN for a flow most of whose payload came back, such as a reader of web pages. Of programs (`exec`), which send both ways, the direction that carries more counts.",
        source: "RFC 7680: lost over sent, those still under way left out",
        tables: &["flows | packets"],
        window: SENT,
        over_seeds: MEAN,
        better: Better::Lower,
        of: None,
    },
    Measure {
        name: "goodput",
        title: "Goodput",
        unit: "bit/s",
        formula: "8 · bytes / seconds the flow was on",
        definition: "Payload delivered in order to the receiving application. Over a whole life connection set-up counts as time, and what came back to the end that opened the connection counts as payload: the pages a reader fetched. For a flow over UDP the IP bytes received count, and for programs (`exec`) over UDP the payload of the direction that carries more.",
        source: "RFC 2647 section 3.17; RFC 5166 section 2.1",
        tables: &["flows | polls | packets"],
        window: "bytes received in it, interpolated at both ends between start, polls and end, over its length",
        over_seeds: MEAN,
        better: Better::Higher,
        of: None,
    },
    Measure {
        name: "jain",
        title: "Jain's fairness index",
        unit: "1 (1/n … 1)",
        formula: "(Σx)² / (n·Σx²)",
        definition: "1 when all shares x are equal, 1/n when one flow has everything. Undefined (NaN) when there is nothing to share.",
        source: "Jain, Chiu and Hawe, DEC-TR-301 (1984)",
        tables: &[],
        window: "that of the shares",
        over_seeds: MEAN,
        better: Better::Higher,
        of: Some(Of { columns: 1, value: |of| sharing::jain(of[0]) }),
    },
    Measure {
        name: "late_share",
        title: "Share of late updates",
        unit: "1 (0 … 1)",
        formula: "#{delay > D or lost} / #{sent}",
        definition: "Share of a flow's packets that took longer than D one way, or were lost: state updates of a game are of no use then. Those still under way at the end are left out.",
        source: "Claypool and Claypool, CACM 49(11), 2006: 100 ms in first-person play",
        tables: &["packets"],
        window: SENT,
        over_seeds: MEAN,
        better: Better::Lower,
        of: None,
    },
    Measure {
        name: "libreqos_grade",
        title: "Bufferbloat grade of LibreQoS",
        unit: "grade (A+ … F)",
        formula: "min(points of idle, mean of the points of down − idle, up − idle, both − idle), A+ 6 … F 1; increases 5, 25, 50, 75, 100 ms, idle 75, 100, 125, 150, 175 ms",
        definition: "Idle is the 25 % quantile of the round trips, the others are means under load: down, up, and both at once. Each is graded by its bounds, and the worse of the idle grade and the mean of the three is the whole.",
        source: "LibreQoE/bufferbloat_test, gradeCalculations.js and latencyGradeThresholds.json 1.0 (2025)",
        tables: &[],
        window: GIVEN,
        over_seeds: MEDIAN,
        better: Better::Lower,
        of: None,
    },
    Measure {
        name: "loaded_latency",
        title: "Loaded latency",
        unit: "s",
        formula: "IQM = (2/n)·Σ over the middle half, the values that the quartiles cut counted in part",
        definition: "Interquartile mean of the round trips in a window, on a connection that carries nothing else: of echoes, or of requests and responses.",
        source: "Ookla Speedtest CLI 1.2, `download.latency.iqm` and `upload.latency.iqm`",
        tables: &["echoes | requests"],
        window: "round trips begun in it",
        over_seeds: MEDIAN,
        better: Better::Lower,
        of: Some(Of { columns: 1, value: |of| operators::interquartile_mean(of[0]) }),
    },
    Measure {
        name: "loss_impairment",
        title: "E-model loss impairment",
        unit: "R",
        formula: "Ie,eff = 95·P / (P/BurstR + Bpl), P the loss in per cent",
        definition: "What lost frames of G.711 cost. Bpl is 25.1 with packet loss concealment, 4.3 without.",
        source: "ITU-T G.107 section 7.5, Ie,eff; G.113 Appendix I",
        tables: &[],
        window: GIVEN,
        over_seeds: MEAN,
        better: Better::Lower,
        of: None,
    },
    Measure {
        name: "mean_opinion_score",
        title: "Mean opinion score",
        unit: "MOS (1 … 4.5)",
        formula: "1 + 0.035·R + 7·10⁻⁶·R·(R − 60)·(100 − R)",
        definition: "At least 1. 1 for R ≤ 0, 4.5 for R ≥ 100.",
        source: "ITU-T G.107 Annex B",
        tables: &[],
        window: GIVEN,
        over_seeds: MEAN,
        better: Better::Higher,
        of: None,
    },
    Measure {
        name: "page_loads",
        title: "Loads of a page",
        unit: "s, s",
        formula: "load time = last object − begin; Speed Index = Σ bytesᵢ·(arrivalᵢ − begin) / Σ bytesᵢ",
        definition: "Load time and Speed Index by bytes, ∫(1 − share of the bytes of arrived objects) dt, of each load of a `page` flow; NaN of a load that never was whole.",
        source: "Bocchi, De Cicco and Rossi, CCR 46(4), 2016 (ByteIndex)",
        tables: &["requests"],
        window: "loads begun in it",
        over_seeds: MEDIAN,
        better: Better::Lower,
        of: None,
    },
    Measure {
        name: "queue_delay_quantiles",
        title: "Queueing delay quantiles of a link",
        unit: "s",
        formula: "8·B/C, B the smallest backlog with Σ{time at ≤ B} ≥ q · time",
        definition: "Time that a queue's backlog would take to send, at a share q of the time or less. C is the link's rate, as its schedule changes it; of a medium or trace, what it carried while it was sending.",
        source: "definition; time-weighted",
        tables: &["queue | queue_polls", "links"],
        window: "backlogs in it, from the one that it begins with",
        over_seeds: MEDIAN,
        better: Better::Lower,
        of: None,
    },
    Measure {
        name: "response_time_quantiles",
        title: "Response time quantiles",
        unit: "s",
        formula: "as delay_quantiles",
        definition: "Quantiles of the response times of a flow's objects; NaN where nothing was answered.",
        source: "Hyndman and Fan, The American Statistician 50 (1996), type 7",
        tables: &["requests"],
        window: "objects asked for in it",
        over_seeds: MEDIAN,
        better: Better::Lower,
        of: None,
    },
    Measure {
        name: "responsiveness",
        title: "Responsiveness",
        unit: "1/min (RPM)",
        formula: "(60/((TM(tcp_f) + TM(tls_f) + TM(http_f))/3) + 60/TM(http_l))/2, TM the mean of the smallest 95 %; without TLS (TM(tcp_f) + TM(http_f))/2",
        definition: "Round trips a minute under load. tcp_f, tls_f, http_f: handshakes and fetches of an `rpm-probe`, each on a connection of its own. http_l: round trips on the connections that carry the load. As in the draft's case without multiplexing they are TCP's own RTT samples.",
        source: "draft-ietf-ippm-responsiveness-09, Aggregating the Measurements",
        tables: &["requests", "polls"],
        window: "probes begun in it, and polls",
        over_seeds: MEDIAN,
        better: Better::Higher,
        of: Some(Of { columns: 4, value: |of| operators::responsiveness(of[0], of[1], of[2], of[3]) }),
    },
    Measure {
        name: "voice_quality",
        title: "Quality of a call",
        unit: "R, MOS, s, s, share, share",
        formula: "R = mean over windows and calls of max over playout delays D of 93.2 − Idd(20 ms + D) − Ie,eff(lost or later than D)",
        definition: "R and MOS of a G.711 call by the E-model, from the packets of a `voip` or `voip-onoff` flow. Mouth to ear is 20 ms of framing, the network's one-way delay and the playout buffer. In each window of time the buffer waits for a constant playout delay D. D is the one of the 50, 75, 90, 95, 98, 99 and 100 % quantiles of the delays seen that gives the highest R: what an ideal buffer could do. A window in which nothing arrived has R 0. The loss beside it is `flow_loss_rate`.\n\nWhat R leaves out: how far the delay swings. A call between 15 and 215 ms is rated as one with a constant 215 ms, which G.107 calls satisfying; a real buffer that follows the delay plays speech faster, slower or not at all. Read R beside `delay_quantiles` and `jitter`. Talking against one another (conversational interactivity), echo and noise are G.107's defaults.",
        source: "ITU-T G.107, G.113; RFC 3550",
        tables: &["packets", "flows"],
        window: SENT,
        over_seeds: MEAN,
        better: Better::Higher,
        of: None,
    },
];

/// The row of a measure.
pub fn measure(name: &str) -> Option<&'static Measure> {
    MEASURES.iter().find(|measure| measure.name == name)
}

/// All rows as JSON.
pub fn as_json() -> Value {
    let row = |measure: &Measure| {
        json!({
            "name": measure.name,
            "title": measure.title,
            "unit": measure.unit,
            "formula": measure.formula,
            "definition": measure.definition,
            "source": measure.source,
            "tables": measure.tables,
            "window": measure.window,
            "over_seeds": measure.over_seeds,
            "better": measure.better.word(),
        })
    };
    MEASURES.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tailback_core::probe::rows::SCHEMAS;

    #[test]
    fn rows_are_in_order_whole_and_name_tables_that_exist() {
        assert!(MEASURES.windows(2).all(|pair| pair[0].name < pair[1].name));
        for row in MEASURES {
            assert_eq!(measure(row.name).map(|found| found.title), Some(row.title));
            assert!(row.definition.ends_with('.'), "{}", row.name);
            for text in [row.title, row.unit, row.formula, row.source, row.window, row.over_seeds] {
                assert!(!text.is_empty(), "{}", row.name);
            }
            for table in row.tables.iter().flat_map(|tables| tables.split(" | ")) {
                assert!(SCHEMAS.iter().any(|schema| schema.name == table), "{}: {table}", row.name);
            }
        }
    }
}
