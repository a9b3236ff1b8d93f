//! Builds the simulator's tables from live observations, so that all later steps are shared.

use tailback_core::cc::{Control, Phase};
use tailback_core::packet::{FlowId, Packet};
use tailback_core::probe::QueueRow;
use tailback_core::probe::captures::Points;
use tailback_core::probe::path::{PathRecorder, QueueEvents, Window};
use tailback_core::probe::rows::{
    CaptureRow, Captures, Congestion, CongestionRow, PacketFate, PollRow, Polls, SegmentRow, Segments,
};
use tailback_core::probe::schema::{LinkId, Threshold};
use tailback_core::queue::Backlog;
use tailback_core::scenario::{Scenario, ScenarioError};
use tailback_core::tcp::sender::CongestionEventKind;
use tailback_core::time::{Duration, Time};

use crate::clock::Clock;
use crate::emulator::Emulated;
use crate::path::{Captured, Observer, Outcome};
use crate::sightings::Sightings;
use crate::tcp_log::{Kind, Row};
use crate::watch::TcpPoll;

/// ssthresh before the first reduction.
const UNLIMITED: u64 = Control::UNLIMITED;
/// The kernel's own value for it.
const KERNEL_UNLIMITED: u32 = 0x7fff_ffff;

/// Observes the path: rows for the instruments, and captures if requested.
#[derive(Debug, Default)]
pub struct Watcher {
    /// Packets and queues.
    pub recorder: PathRecorder,
    /// Captures.
    pub sightings: Option<Sightings>,
}

/// The observations of the path that the scenario's instruments need.
pub fn watcher(scenario: &Scenario) -> Result<Watcher, ScenarioError> {
    let node = |name: &String| scenario.nodes.iter().position(|node| node == name).unwrap_or(0) as u32;
    let hosts = scenario.flows.iter().map(|flow| [node(&flow.from), node(&flow.to)]).collect();
    let window = Window::of(&scenario.instruments);
    let sightings = Points::of(scenario, hosts)?.map(|points| Sightings::new(points, window));
    Ok(Watcher { recorder: recorder(scenario), sightings })
}

fn recorder(scenario: &Scenario) -> PathRecorder {
    let wanted = &scenario.instruments;
    let queue = |name: &String| match (wanted.queues.contains(name), wanted.drops.contains(name)) {
        (true, _) => QueueEvents::All,
        (false, true) => QueueEvents::Losses,
        (false, false) => QueueEvents::None,
    };
    PathRecorder::new(
        Window::of(wanted),
        scenario.flows.iter().map(|flow| wanted.packets.contains(&flow.name)).collect(),
        scenario.links.iter().map(|link| queue(&link.name)).collect(),
    )
}

impl Observer for Watcher {
    fn watches(&self, link: u32) -> bool {
        self.recorder.watches(link)
    }

    fn queue(&mut self, link: u32, row: &QueueRow<'_>) {
        self.recorder.queue(link, row);
    }

    fn poll_link(&mut self, now: Time, link: u32, backlog: Backlog) {
        self.recorder.poll_link(now, link, backlog);
    }

    fn sent(&mut self, now: Time, flow: u32, index: u64, bytes: u32) -> u32 {
        // Streams are filled in later by the code that knows them.
        self.recorder.sent(now, FlowId(flow), index, bytes, 0)
    }

    fn received(&mut self, now: Time, row: u32) {
        self.recorder.received(now, row);
    }

    fn lost(&mut self, row: u32) {
        self.recorder.lost(row);
    }

    fn entered(&mut self, now: Time, link: u32, is_first: bool, packet: &Packet) {
        if let Some(sightings) = &mut self.sightings {
            sightings.entered(now, link, is_first, packet);
        }
    }

    fn left(&mut self, now: Time, link: u32, packet: &Packet) {
        if let Some(sightings) = &mut self.sightings {
            sightings.left(now, link, packet);
        }
    }

    fn doubled(&mut self, from: u32, to: u32) {
        if let Some(sightings) = &mut self.sightings {
            sightings.doubled(from, to);
        }
    }
}

/// Seconds; NaN for [`Time::NEVER`].
pub fn seconds(time: Time) -> f64 {
    if time == Time::NEVER { f64::NAN } else { time.as_secs_f64() }
}

/// Seconds; NaN for no value.
pub fn micro(us: u32) -> f64 {
    if us == 0 { f64::NAN } else { f64::from(us) * 1e-6 }
}

/// The kernel's smallest RTT in seconds; before the first sample all its bits are set.
pub fn least_rtt(us: u32) -> f64 {
    if us == u32::MAX { f64::NAN } else { micro(us) }
}

/// ssthresh in bytes.
pub fn ssthresh(segments: u32, mss: u32) -> u64 {
    if segments >= KERNEL_UNLIMITED { UNLIMITED } else { u64::from(segments) * u64::from(mss) }
}

/// The polls table.
pub fn polls(tcp_polls: &[TcpPoll]) -> Polls {
    let mut polls = Polls::default();
    for poll in tcp_polls {
        let info = &poll.info;
        let mss = info.snd_mss;
        polls.push(PollRow {
            t_s: poll.at.as_secs_f64(),
            flow: FlowId(poll.flow),
            cwnd: u64::from(info.snd_cwnd) * u64::from(mss),
            ssthresh: Threshold(ssthresh(info.snd_ssthresh, mss)),
            srtt_s: micro(info.rtt_us),
            rtt_min_s: least_rtt(info.min_rtt_us),
            rto_s: micro(info.rto_us),
            in_flight: poll.in_flight(),
            phase: phase(info.ca_state),
            bytes_acked: info.bytes_acked,
            bytes_received: poll.received,
            bytes_arrived: poll.received,
            segments_retransmitted: u64::from(info.total_retrans),
            dup_acks_in: poll.duplicate_acks,
            snd_wnd: u64::from(info.snd_wnd),
            // TCP_INFO has no latest sample: `add_rtt` adds it.
            ..PollRow::missing()
        });
    }
    polls
}

/// Adds each poll's latest RTT sample from the log: TCP_INFO has only the smoothed RTT.
pub fn add_rtt(polls: &mut Polls, rows: &[(u32, bool, Row)], clock: Clock) {
    let mut latest = std::collections::BTreeMap::new();
    let mut next = rows.iter().peekable();
    for index in 0..polls.t_s.len() {
        while let Some((flow, at_receiver, row)) = next.peek() {
            if clock.at(row.ns).as_secs_f64() > polls.t_s[index] {
                break;
            }
            if !at_receiver && row.rtt_us > 0 {
                latest.insert(*flow, row.rtt_us);
            }
            next.next();
        }
        if let Some(&us) = latest.get(&polls.flow[index]) {
            polls.rtt_s[index] = micro(us);
        }
    }
}

/// Polls, at the grid's instants, of a flow whose sockets are not ours. Each is the latest state in the log of the
/// connection that was active last, at the end that sends more, while it is active.
pub fn add_from_log(
    polls: &mut Polls,
    rows: &[(u32, bool, Row)],
    flow: u32,
    (from, until, interval): (Time, Time, Duration),
    clock: Clock,
) {
    let of =
        |side: bool| rows.iter().filter(move |(of, at, _)| *of == flow && *at == side).map(|(.., row)| row);
    let most = |side: bool| of(side).map(|row| row.bytes_acked).max().unwrap_or(0);
    let side = most(true) > most(false);
    let mut spoken = std::collections::BTreeMap::new();
    for row in of(side) {
        spoken.insert(row.port, row.ns);
    }
    let mut next = of(side).peekable();
    let mut latest: Option<&Row> = None;
    let mut at = from;
    while at < until && !interval.is_zero() {
        while let Some(row) = next.next_if(|row| clock.at(row.ns) <= at) {
            latest = Some(row);
        }
        if let Some(row) = latest.filter(|row| clock.at(spoken[&row.port]) >= at) {
            polls.push(PollRow {
                t_s: at.as_secs_f64(),
                flow: FlowId(flow),
                cwnd: u64::from(row.cwnd) * u64::from(row.mss),
                ssthresh: Threshold(ssthresh(row.ssthresh, row.mss)),
                srtt_s: micro(row.srtt_us_8 / 8),
                rtt_s: micro(row.rtt_us),
                in_flight: row.in_flight(),
                phase: phase(row.phase),
                bytes_acked: row.bytes_acked,
                // Acknowledged data has arrived; the log does not say how much more has.
                bytes_received: row.bytes_acked,
                bytes_arrived: row.bytes_acked,
                segments_retransmitted: u64::from(row.total_retrans),
                snd_wnd: u64::from(row.snd_wnd),
                ..PollRow::missing()
            });
        }
        at += interval;
    }
}

/// The segments table from the log, for the chosen flows.
pub fn segments(rows: &[(u32, bool, Row)], chosen: &[bool], clock: Clock, hz: Option<f64>) -> Segments {
    let mut segments = Segments::default();
    for (flow, at_receiver, row) in rows {
        if matches!(row.kind, Kind::State(_)) || !chosen[*flow as usize] {
            continue;
        }
        segments.push(SegmentRow {
            t_s: clock.at(row.ns).as_secs_f64(),
            flow: FlowId(*flow),
            outgoing: row.kind == Kind::Sent,
            at_receiver: *at_receiver,
            seq: u64::from(row.seq),
            length: row.length,
            ack: u64::from(row.ack),
            cwnd: u64::from(row.cwnd) * u64::from(row.mss),
            ssthresh: Threshold(ssthresh(row.ssthresh, row.mss)),
            snd_wnd: u64::from(row.snd_wnd),
            rcv_wnd: u64::from(row.rcv_wnd),
            snd_scale: row.snd_scale,
            rcv_scale: row.rcv_scale,
            state: fsm(row.state),
            mss: row.mss,
            srtt_s: micro(row.srtt_us_8 / 8),
            sack_enabled: true,
            flags: row.flags,
            rto_s: hz.map_or(f64::NAN, |hz| f64::from(row.rto) / hz),
            snd_buf: u64::from(row.snd_buf),
            snd_buf_used: u64::from(row.snd_buf_used),
            rcv_buf: u64::from(row.rcv_buf),
            in_flight: row.in_flight(),
            phase: phase(row.phase),
            ..SegmentRow::missing()
        });
    }
    segments
}

/// The segments table from polls: the fallback without BPF.
pub fn segments_from_polls(tcp_polls: &[TcpPoll], chosen: &[bool]) -> Segments {
    let mut segments = Segments::default();
    for poll in tcp_polls.iter().filter(|poll| chosen[poll.flow as usize]) {
        let info = &poll.info;
        let mss = info.snd_mss;
        segments.push(SegmentRow {
            t_s: poll.at.as_secs_f64(),
            flow: FlowId(poll.flow),
            seq: info.bytes_sent,
            ack: info.bytes_acked,
            cwnd: u64::from(info.snd_cwnd) * u64::from(mss),
            ssthresh: Threshold(ssthresh(info.snd_ssthresh, mss)),
            snd_wnd: u64::from(info.snd_wnd),
            rcv_wnd: u64::from(info.rcv_wnd),
            snd_scale: info.scales & 15,
            rcv_scale: info.scales >> 4,
            state: fsm(info.state),
            mss,
            srtt_s: micro(info.rtt_us),
            sack_enabled: true,
            rto_s: micro(info.rto_us),
            in_flight: poll.in_flight(),
            phase: phase(info.ca_state),
            ..SegmentRow::missing()
        });
    }
    segments
}

/// Converts Linux's numbers of connection states to SIFTR's, which tables use and in which ESTABLISHED is 4.
fn fsm(state: u8) -> u8 {
    // ESTABLISHED, SYN_SENT, SYN_RECV, FIN_WAIT1, FIN_WAIT2, TIME_WAIT, CLOSE, CLOSE_WAIT, LAST_ACK, LISTEN, CLOSING
    const SIFTR: [u8; 12] = [0, 4, 2, 3, 6, 9, 10, 0, 5, 8, 1, 7];
    SIFTR.get(usize::from(state)).copied().unwrap_or(0)
}

/// The kernel's congestion state; its numbers equal those in tables.
fn phase(state: u8) -> Phase {
    Phase::from_code(state).unwrap_or_default()
}

/// The congestion state at one end of a connection, from the state log.
#[derive(Clone, Copy, Debug)]
struct State {
    at: Time,
    flow: u32,
    at_receiver: bool,
    /// The client's port.
    port: u16,
    phase: Phase,
    cwnd: u64,
    cwnd_before: u64,
    ssthresh: u64,
    in_flight: u64,
}

/// Number of events of each kind at the senders of a flow's `from` node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Recoveries entered.
    pub recoveries: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Undos.
    pub undos: u64,
}

/// Congestion events derived from states as they are set. `states` are in order of time; events of `crowds` are
/// counted, not listed.
///
/// Linux sets Loss at every timeout, so Loss after Loss is another timeout (`tcp_enter_loss`).
fn events(states: impl Iterator<Item = State>, crowds: &[bool]) -> (Congestion, Vec<Events>) {
    let mut table = Congestion::default();
    let mut counts = vec![Events::default(); crowds.len()];
    // For each end of a connection: its phase, and ssthresh when it entered that phase.
    let mut now_in = std::collections::BTreeMap::new();
    for state in states {
        let end = (state.flow, state.at_receiver, state.port);
        let (before, cut_to) = now_in.get(&end).copied().unwrap_or((Phase::Open, UNLIMITED));
        if state.phase == before && before != Phase::Loss {
            continue;
        }
        let mut record = |kind: CongestionEventKind| {
            let count = &mut counts[state.flow as usize];
            match kind {
                _ if state.at_receiver => {}
                CongestionEventKind::RecoveryEntered => count.recoveries += 1,
                CongestionEventKind::Timeout => count.timeouts += 1,
                CongestionEventKind::Undo => count.undos += 1,
                _ => {}
            }
            if crowds[state.flow as usize] {
                return;
            }
            table.push(CongestionRow {
                t_s: state.at.as_secs_f64(),
                flow: FlowId(state.flow),
                kind,
                cwnd_before: state.cwnd_before,
                cwnd_after: state.cwnd,
                ssthresh: Threshold(state.ssthresh),
                in_flight: state.in_flight,
            });
        };
        let leaves = before >= Phase::Cwr && state.phase < Phase::Cwr;
        if leaves && state.ssthresh > cut_to {
            record(CongestionEventKind::Undo);
        }
        match before {
            Phase::Recovery => record(CongestionEventKind::RecoveryLeft),
            Phase::Cwr => record(CongestionEventKind::CwrLeft),
            _ => {}
        }
        match state.phase {
            Phase::Recovery => record(CongestionEventKind::RecoveryEntered),
            Phase::Cwr => record(CongestionEventKind::CwrEntered),
            Phase::Loss => record(CongestionEventKind::Timeout),
            _ => {}
        }
        now_in.insert(end, (state.phase, state.ssthresh));
    }
    (table, counts)
}

/// Congestion events from the state log: every change, at its time.
///
/// For flows in `unseen` also reductions that the kernel does not know of: the window falls to ssthresh without a
/// change of state.
pub fn congestion(
    rows: &[(u32, bool, Row)],
    crowds: &[bool],
    unseen: &[bool],
    clock: Clock,
) -> (Congestion, Vec<Events>) {
    let mut rests = std::collections::BTreeMap::new();
    let states = rows.iter().filter_map(|(flow, at_receiver, row)| {
        let now_in = match row.kind {
            Kind::State(state) => phase(state),
            _ if unseen[*flow as usize] && !at_receiver => rests
                .entry((*flow, row.port))
                .or_insert_with(Rest::default)
                .follow(row.cwnd, row.ssthresh, phase(row.phase))?,
            _ => return None,
        };
        let mss = u64::from(row.mss);
        // The kernel reports an entry before it reduces the window; `prior_cwnd` also holds the previous value.
        let is_entry = now_in >= Phase::Cwr && matches!(row.kind, Kind::State(_));
        let before = if is_entry { row.cwnd.max(row.prior_cwnd) } else { row.cwnd };
        Some(State {
            at: clock.at(row.ns),
            flow: *flow,
            at_receiver: *at_receiver,
            port: row.port,
            phase: now_in,
            cwnd: u64::from(row.cwnd) * mss,
            cwnd_before: u64::from(before) * mss,
            ssthresh: ssthresh(row.ssthresh, row.mss),
            in_flight: row.in_flight(),
        })
    });
    events(states, crowds)
}

/// A reduction that the kernel does not know of.
#[derive(Debug, Default)]
struct Rest {
    cwnd: u32,
    is_under_way: bool,
}

impl Rest {
    /// The state to which these windows would be a change, if the kernel knew.
    fn follow(&mut self, cwnd: u32, ssthresh: u32, phase: Phase) -> Option<Phase> {
        // In the kernel's Open state such a window falls for no other reason.
        let has_fallen = cwnd < self.cwnd;
        self.cwnd = cwnd;
        if phase >= Phase::Cwr {
            self.is_under_way = false;
        } else if self.is_under_way && cwnd <= ssthresh {
            self.is_under_way = false;
            return Some(Phase::Open);
        } else if !self.is_under_way && has_fallen {
            self.is_under_way = true;
            return Some(Phase::Cwr);
        }
        None
    }
}

/// Congestion events from polls. They miss changes shorter than the interval, all but the first of consecutive
/// timeouts, and connections other than the latest one's client.
pub fn congestion_from_polls(tcp_polls: &[TcpPoll], crowds: &[bool]) -> (Congestion, Vec<Events>) {
    let mut last = vec![(0, Phase::Open); crowds.len()];
    let states = tcp_polls.iter().filter_map(|poll| {
        let now = u64::from(poll.info.snd_cwnd) * u64::from(poll.info.snd_mss);
        let now_in = phase(poll.info.ca_state);
        let (cwnd_before, before) = std::mem::replace(&mut last[poll.flow as usize], (now, now_in));
        (now_in != before).then_some(State {
            at: poll.at,
            flow: poll.flow,
            at_receiver: false,
            port: 0,
            phase: now_in,
            cwnd: now,
            cwnd_before,
            ssthresh: ssthresh(poll.info.snd_ssthresh, poll.info.snd_mss),
            in_flight: poll.in_flight(),
        })
    });
    events(states, crowds)
}

/// Both captures of every packet.
pub fn captures(emulated: &Emulated) -> Captures {
    let row = |(number, captured): (usize, &Captured)| {
        let (due, fate, link, marked) = match emulated.path.outcomes[number] {
            Outcome::InTransit => (Time::NEVER, PacketFate::InTransit, None, false),
            Outcome::Delivered { due, is_marked } => (due, PacketFate::Received, None, is_marked),
            Outcome::Damaged => (Time::NEVER, PacketFate::Dropped, None, false),
            Outcome::Dropped { link } => (Time::NEVER, PacketFate::Dropped, Some(LinkId(link)), false),
        };
        CaptureRow {
            packet: number as u64,
            flow: FlowId(captured.flow),
            reverse: captured.is_reverse,
            bytes: captured.bytes,
            ecn: captured.ecn,
            arrived_s: captured.at.as_secs_f64(),
            due_s: seconds(due),
            written_s: seconds(emulated.written[number]),
            fate,
            link,
            marked,
            copy: captured.is_copy,
            pair: captured.pair,
            conversation: captured.conversation,
        }
    };
    emulated.path.captured.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use tailback_core::probe::schema::Cell;
    use tailback_core::tcp::sender::CongestionEventKind::*;

    use super::*;
    use crate::sys::TcpInfo;

    fn kinds<const N: usize>(kinds: [CongestionEventKind; N]) -> [u8; N] {
        kinds.map(Cell::stored)
    }

    fn state(ms: u64, phase: Phase, cwnd: u64, ssthresh: u64) -> State {
        State {
            at: Time::from_ms(ms),
            flow: 0,
            at_receiver: false,
            port: 40_000,
            phase,
            cwnd,
            cwnd_before: cwnd,
            ssthresh,
            in_flight: 0,
        }
    }

    #[test]
    fn a_recovery_is_entered_and_left_and_an_undo_shows_in_ssthresh() {
        let states = [
            state(1, Phase::Disorder, 20, UNLIMITED),
            state(2, Phase::Recovery, 20, 10),
            state(3, Phase::Open, 10, 10),
            state(4, Phase::Recovery, 12, 6),
            state(5, Phase::Open, 12, 10),
            state(6, Phase::Loss, 12, 6),
            state(7, Phase::Open, 6, 6),
        ];
        let (table, counts) = events(states.into_iter(), &[false]);
        assert_eq!(
            table.kind,
            kinds([RecoveryEntered, RecoveryLeft, RecoveryEntered, Undo, RecoveryLeft, Timeout])
        );
        assert_eq!(counts, [Events { recoveries: 2, timeouts: 1, undos: 1 }]);
    }

    fn poll(ms: u64, ca_state: u8) -> TcpPoll {
        let info = TcpInfo { ca_state, ..TcpInfo::default() };
        TcpPoll { at: Time::from_ms(ms), flow: 0, info, received: 0, duplicate_acks: 0 }
    }

    #[test]
    fn loss_set_again_is_one_more_timeout_and_a_poll_that_sees_it_again_is_none() {
        let states = [state(1, Phase::Loss, 12, 6), state(3, Phase::Loss, 1, 6), state(4, Phase::Open, 6, 6)];
        let (table, counts) = events(states.into_iter(), &[false]);
        assert_eq!(table.kind, kinds([Timeout, Timeout]));
        assert_eq!(counts[0].timeouts, 2);
        let polls = [poll(1, 4), poll(2, 4), poll(3, 0), poll(4, 4)];
        assert_eq!(congestion_from_polls(&polls, &[false]).1[0].timeouts, 2);
    }

    #[test]
    fn connections_of_a_flow_have_states_of_their_own() {
        let one = state(1, Phase::Recovery, 20, 10);
        let other = State { port: 40_001, ..state(2, Phase::Recovery, 20, 10) };
        let server = State { at_receiver: true, ..state(3, Phase::Loss, 20, 10) };
        let (table, counts) = events([one, other, server].into_iter(), &[false]);
        assert_eq!(table.kind, kinds([RecoveryEntered, RecoveryEntered, Timeout]));
        assert_eq!(counts, [Events { recoveries: 2, timeouts: 0, undos: 0 }]);
        let (table, counts) = events([one, other].into_iter(), &[true]);
        assert!(table.kind.is_empty());
        assert_eq!(counts[0].recoveries, 2);
    }

    #[test]
    fn a_reduction_the_kernel_does_not_know_is_seen_in_the_window() {
        let mut rest = Rest::default();
        let mut see = |cwnd, ssthresh, phase| rest.follow(cwnd, ssthresh, phase);
        assert_eq!(see(20, KERNEL_UNLIMITED, Phase::Open), None);
        assert_eq!(see(20, 20, Phase::Open), None, "slow start ended, no reduction");
        assert_eq!(see(19, 14, Phase::Open), Some(Phase::Cwr));
        assert_eq!(see(17, 14, Phase::Open), None);
        assert_eq!(see(14, 14, Phase::Open), Some(Phase::Open));
        assert_eq!(see(20, 14, Phase::Open), None, "growth");
        assert_eq!(see(19, 14, Phase::Open), Some(Phase::Cwr), "to the same ssthresh again");
        assert_eq!(see(14, 14, Phase::Open), Some(Phase::Open));
        assert_eq!(see(12, 7, Phase::Recovery), None, "the kernel reports that itself");
    }

    #[test]
    fn established_is_four_in_tables() {
        assert_eq!((fsm(1), fsm(10), fsm(200)), (4, 1, 0));
    }
}
