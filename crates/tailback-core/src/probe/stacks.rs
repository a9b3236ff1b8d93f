//! Rows for foreign stacks, shared by the simulator's recorder and live runs.

use std::collections::BTreeMap;

use super::Progress;
use super::rows::{PollRow, StackStateRow};
use super::schema::Threshold;
use crate::cc::Phase;
use crate::foreign::State;
use crate::packet::FlowId;
use crate::time::{Duration, Time};

/// Seconds; NaN for zero, which means "none".
fn seconds(span: Duration) -> f64 {
    if span.is_zero() { f64::NAN } else { span.as_secs_f64() }
}

/// Row of a poll: the state of a flow's latest connection, and totals over all its connections.
pub fn poll_row(now: Time, flow: FlowId, state: &State, progress: Progress) -> PollRow {
    PollRow {
        t_s: now.as_secs_f64(),
        flow,
        cwnd: state.cwnd,
        ssthresh: Threshold(state.ssthresh),
        srtt_s: seconds(state.srtt),
        rtt_s: seconds(state.rtt),
        rtt_min_s: seconds(state.rtt_min),
        rto_s: f64::NAN,
        in_flight: state.in_flight,
        phase: Phase::Open,
        bytes_acked: progress.acked,
        bytes_received: progress.received,
        bytes_arrived: progress.arrived,
        segments_retransmitted: state.packets_lost,
        dup_acks_in: 0,
        snd_wnd: 0,
    }
}

/// Last written state of each end, by flow, connection and whether it is the server's.
#[derive(Clone, Debug, Default)]
pub struct Shown(BTreeMap<(u32, u32, bool), State>);

impl Shown {
    /// The row for this state, if it differs from the end's last row.
    pub fn row(
        &mut self,
        now: Time,
        flow: FlowId,
        connection: u32,
        at_receiver: bool,
        state: &State,
    ) -> Option<StackStateRow> {
        let shown = self.0.entry((flow.0, connection, at_receiver)).or_default();
        let shown_fields =
            |it: &State| (it.cwnd, it.ssthresh, it.srtt, it.packets_lost, it.congestion_events);
        if shown_fields(shown) == shown_fields(state) {
            return None;
        }
        *shown = *state;
        Some(StackStateRow {
            t_s: now.as_secs_f64(),
            flow,
            connection,
            at_receiver,
            cwnd: state.cwnd,
            ssthresh: Threshold(state.ssthresh),
            in_flight: state.in_flight,
            srtt_s: seconds(state.srtt),
            rtt_s: seconds(state.rtt),
            rtt_min_s: seconds(state.rtt_min),
            pacing_bps: state.pacing_rate.map_or(f64::NAN, |rate| rate.as_bps() as f64),
            packets_sent: state.packets_sent,
            packets_lost: state.packets_lost,
            congestion_events: state.congestion_events,
        })
    }
}
