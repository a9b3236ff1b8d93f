//! The tables every run leaves, whatever was recorded.

use super::network::Network;
use super::seats::Tally;
use crate::probe::rows::{self, Congestion};
use crate::probe::{Column, Probe, Table, Tables};
use crate::time::{Duration, Time};

fn seconds(time: Time) -> f64 {
    if time == Time::NEVER { f64::NAN } else { time.as_secs_f64() }
}

fn span(span: Duration) -> f64 {
    if span == Duration::MAX || span.is_zero() { f64::NAN } else { span.as_secs_f64() }
}

pub fn collect<P: Probe>(mut network: Network<P>) -> Tables {
    for link in 0..network.links.len() as u32 {
        network.settle_link(link);
    }
    let mut tables = Tables {
        tables: vec![
            flows(&network),
            rows::links(&network.links[..network.named_links]),
            congestion(&network),
            engine(&network),
        ],
        internals_names: Vec::new(),
        warnings: std::mem::take(&mut network.warnings),
    };
    network.probe.finish(&mut tables);
    tables
}

fn flows<P: Probe>(network: &Network<P>) -> Table {
    let (all, lanes) = (&network.flows, &network.lanes);
    let tallies: Vec<Option<Tally>> =
        (0..all.len()).map(|flow| all[flow].plan.is_some().then(|| network.tally(flow))).collect();
    let tcp = |flow: usize| tallies[flow].as_ref();
    let count = |get: &dyn Fn(usize) -> u64| Column::U64((0..all.len()).map(get).collect());
    let time = |get: &dyn Fn(usize) -> f64| Column::F64((0..all.len()).map(get).collect());
    Table {
        name: "flows",
        columns: vec![
            ("flow", Column::U32((0..all.len() as u32).collect())),
            ("packets_sent", count(&|flow| lanes[flow].count.packets_sent)),
            ("packets_received", count(&|flow| lanes[flow].count.packets_received)),
            ("packets_dropped", count(&|flow| lanes[flow].count.packets_dropped)),
            ("bytes_sent", count(&|flow| lanes[flow].count.bytes_sent)),
            ("bytes_acked", count(&|flow| tcp(flow).map_or(0, |tcp| tcp.bytes_acked))),
            (
                "bytes_received",
                count(&|flow| {
                    tcp(flow).map_or(lanes[flow].count.datagram_bytes_received, |tcp| tcp.bytes_received)
                }),
            ),
            ("segments_sent", count(&|flow| tcp(flow).map_or(0, |tcp| tcp.sent.segments_sent))),
            (
                "segments_retransmitted",
                count(&|flow| tcp(flow).map_or(0, |tcp| tcp.sent.segments_retransmitted)),
            ),
            ("recoveries", count(&|flow| tcp(flow).map_or(0, |tcp| tcp.sent.recoveries))),
            ("timeouts", count(&|flow| tcp(flow).map_or(0, |tcp| tcp.sent.timeouts))),
            ("undos", count(&|flow| tcp(flow).map_or(0, |tcp| tcp.sent.undos))),
            ("started_s", time(&|flow| seconds(all[flow].start))),
            ("established_s", time(&|flow| tcp(flow).map_or(f64::NAN, |tcp| seconds(tcp.established_at)))),
            ("finished_s", time(&|flow| seconds(all[flow].finished))),
            ("rtt_min_s", time(&|flow| tcp(flow).map_or(f64::NAN, |tcp| span(tcp.rtt_min)))),
            ("srtt_s", time(&|flow| tcp(flow).map_or(f64::NAN, |tcp| span(tcp.srtt)))),
            ("connections", count(&|flow| lanes[flow].count.connections)),
            ("connections_failed", count(&|flow| lanes[flow].count.connections_failed)),
            ("connections_open", count(&|flow| u64::from(all[flow].alive))),
            ("bytes_returned", count(&|flow| tcp(flow).map_or(0, |tcp| tcp.bytes_returned))),
            ("back_segments_sent", count(&|flow| tcp(flow).map_or(0, |tcp| tcp.back_sent.segments_sent))),
            (
                "back_segments_retransmitted",
                count(&|flow| tcp(flow).map_or(0, |tcp| tcp.back_sent.segments_retransmitted)),
            ),
        ],
    }
}

fn congestion<P: Probe>(network: &Network<P>) -> Table {
    let mut rows = Congestion::default();
    for (flow, note) in &network.congestion {
        let (at, kind) = (note.now.as_secs_f64(), note.kind as u8);
        rows.push(at, *flow, kind, note.cwnd_before, note.cwnd_after, note.ssthresh, note.in_flight);
    }
    rows.into_table()
}

fn engine<P: Probe>(network: &Network<P>) -> Table {
    Table {
        name: "engine",
        columns: vec![
            ("events", Column::U64(vec![network.events])),
            ("packets", Column::U64(vec![network.arena.ever()])),
        ],
    }
}
