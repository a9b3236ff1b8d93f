//! The tables that every run produces, with or without instruments.

use std::collections::BTreeMap;

use super::connections::Tally;
use super::foreign::Foreign;
use super::network::Network;
use super::network::foreign::NOT_FOREIGN;
use crate::foreign::StackFault;
use crate::link::Link;
use crate::packet::{FlowId, Packet};
use crate::probe::rows::{
    Congestion, CongestionRow, Engine, EngineRow, FlowRow, Flows, ReceiverDropReason, ReceiverDropRow,
    ReceiverDrops, StackFaultRow, StackFaults, links,
};
use crate::probe::schema::Threshold;
use crate::probe::{Probe, Table, Tables};
use crate::tcp::sender::CongestionEvent;
use crate::time::{Bytes, Duration, Time};

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
            links(&network.links[..network.named_links]).into_table(),
            congestion(&network),
            engine(&network),
        ],
        internals_names: Vec::new(),
        warnings: std::mem::take(&mut network.warnings),
    };
    if network.links.iter().any(Link::may_damage) {
        tables.tables.push(network.receiver_drops.table());
    }
    if !network.faults.is_empty() {
        tables.tables.push(stack_faults(&network.faults));
        tables.warnings.extend(network.faults.iter().map(|(_, _, fault)| fault.sentence()));
    }
    tables.warnings.extend(network.foreign.iter().filter_map(Foreign::failures));
    network.probe.finish(&mut tables);
    tables
}

fn flows<P: Probe>(network: &Network<P>) -> Table {
    let row = |flow: usize| {
        let it = &network.flows[flow];
        let count = &network.per_packet[flow].count;
        let has_connections = it.plan.is_some() || it.foreign != NOT_FOREIGN;
        let tally = if has_connections { network.tally(flow) } else { Tally::default() };
        FlowRow {
            flow: FlowId(flow as u32),
            packets_sent: count.packets_sent,
            packets_received: count.packets_received,
            packets_dropped: count.packets_dropped,
            bytes_sent: count.bytes_sent,
            bytes_acked: tally.bytes_acked,
            bytes_received: if has_connections {
                tally.bytes_received
            } else {
                count.datagram_bytes_received
            },
            segments_sent: tally.sent.segments_sent,
            segments_retransmitted: tally.sent.segments_retransmitted,
            recoveries: tally.sent.recoveries,
            timeouts: tally.sent.timeouts,
            undos: tally.sent.undos,
            started_s: seconds(it.start),
            established_s: seconds(tally.established_at),
            finished_s: seconds(it.finished),
            rtt_min_s: span(tally.rtt_min),
            srtt_s: span(tally.srtt),
            connections: count.connections,
            connections_failed: count.connections_failed,
            connections_open: u64::from(it.alive),
            bytes_returned: tally.bytes_returned,
            back_segments_sent: tally.back_sent.segments_sent,
            back_segments_retransmitted: tally.back_sent.segments_retransmitted,
        }
    };
    (0..network.flows.len()).map(row).collect::<Flows>().into_table()
}

fn congestion<P: Probe>(network: &Network<P>) -> Table {
    let row = |(flow, event): &(u32, CongestionEvent)| CongestionRow {
        t_s: event.now.as_secs_f64(),
        flow: FlowId(*flow),
        kind: event.kind,
        cwnd_before: event.cwnd_before,
        cwnd_after: event.cwnd_after,
        ssthresh: Threshold(event.ssthresh),
        in_flight: event.in_flight,
    };
    network.congestion.iter().map(row).collect::<Congestion>().into_table()
}

/// Packets and bytes that ends dropped on arrival, by flow and direction.
#[derive(Clone, Debug, Default)]
pub struct ReceiverDropCounts(BTreeMap<(u32, bool), (u64, Bytes)>);

impl ReceiverDropCounts {
    /// Counts one more packet that a wire had damaged.
    pub fn add(&mut self, packet: &Packet) {
        let (packets, bytes) = self.0.entry((packet.flow.0, packet.is_reverse)).or_default();
        *packets += 1;
        *bytes += Bytes::from(packet.bytes);
    }

    /// A row for each flow and direction with drops.
    pub fn table(&self) -> Table {
        let row = |(&(flow, reverse), &(packets, bytes)): (&(u32, bool), &(u64, Bytes))| ReceiverDropRow {
            flow: FlowId(flow),
            reverse,
            reason: ReceiverDropReason::Corrupt,
            packets,
            bytes,
        };
        self.0.iter().map(row).collect::<ReceiverDrops>().into_table()
    }
}

/// Faults of foreign stacks, each with its flow's number and the number of connections that it ended.
pub fn stack_faults(faults: &[(u32, u64, StackFault)]) -> Table {
    let row = |(flow, connections, fault): &(u32, u64, StackFault)| StackFaultRow {
        t_s: fault.at.as_secs_f64(),
        flow: FlowId(*flow),
        kind: fault.kind,
        connections: *connections,
    };
    faults.iter().map(row).collect::<StackFaults>().into_table()
}

fn engine<P: Probe>(network: &Network<P>) -> Table {
    let row = EngineRow { events: network.events, packets: network.arena.ever() };
    [row].into_iter().collect::<Engine>().into_table()
}
