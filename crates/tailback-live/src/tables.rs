//! The simulator's tables from what was seen live, so that everything after the rows is written once.

use tailback_core::columns;
use tailback_core::probe::rows::{
    Congestion, DROPPED, IN_TRANSIT, Packets, Polls, Queue, QueuePolls, RECEIVED, Segments,
};
use tailback_core::probe::{QueueEvent, QueueRow};
use tailback_core::queue::Backlog;
use tailback_core::scenario::Scenario;
use tailback_core::time::{Duration, Time};

use crate::clock::Clock;
use crate::emulator::Emulated;
use crate::path::{NO_ROW, Outcome, Witness};
use crate::tcp_log::{Kind, Row};
use crate::watch::Look;

/// An unlimited ssthresh in tables.
const UNLIMITED: u64 = 1 << 62;
/// The kernel's own word for it.
const KERNEL_UNLIMITED: u32 = 0x7fff_ffff;

columns! {
    /// Every packet at both ends of the path, as a capture card at each would have seen it.
    Captures as "captures" {
        packet: U64(u64), flow: U32(u32), reverse: Bool(bool), bytes: U32(u32), ecn: U8(u8), arrived_s: F64(f64),
        due_s: F64(f64), written_s: F64(f64), fate: U8(u8), link: U32(u32), marked: Bool(bool), copy: Bool(bool),
        pair: U32(u32), conversation: U8(u8),
    }
}

/// No such thing, in a column of codes or numbers.
const NONE: u8 = 255;
const NO_LINK: u32 = u32::MAX;

/// Records queues and packets while the emulator runs.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Flows whose packets are recorded.
    packets_of: Vec<bool>,
    /// Links of which everything is recorded, and of which only losses are.
    every: Vec<bool>,
    losses: Vec<bool>,
    from: Time,
    until: Time,
    /// The tables.
    pub queue: Queue,
    /// Backlog samples.
    pub queue_polls: QueuePolls,
    /// Packets.
    pub packets: Packets,
}

impl Record {
    /// What the scenario's instruments ask for.
    pub fn of(scenario: &Scenario) -> Self {
        let wanted = &scenario.instruments;
        let chosen = |names: &[String], all: &mut dyn Iterator<Item = &String>| -> Vec<bool> {
            all.map(|name| names.contains(name)).collect()
        };
        Record {
            packets_of: chosen(&wanted.packets, &mut scenario.flows.iter().map(|flow| &flow.name)),
            every: chosen(&wanted.queues, &mut scenario.links.iter().map(|link| &link.name)),
            losses: chosen(&wanted.drops, &mut scenario.links.iter().map(|link| &link.name)),
            from: Time::from_ps(wanted.from_ps),
            until: wanted.until_ps.map_or(Time::NEVER, Time::from_ps),
            ..Record::default()
        }
    }

    fn is_on(&self, now: Time) -> bool {
        self.from <= now && now < self.until
    }
}

impl Witness for Record {
    fn watches(&self, link: u32) -> bool {
        self.every[link as usize] || self.losses[link as usize]
    }

    fn queue(&mut self, link: u32, row: &QueueRow<'_>) {
        let is_loss = matches!(row.event, QueueEvent::Drop | QueueEvent::Mark);
        if !(self.every[link as usize] || is_loss) || !self.is_on(row.now) {
            return;
        }
        self.queue.push(
            row.now.as_secs_f64(),
            link,
            row.event as u8,
            row.packet.flow.0,
            row.number,
            row.packet.bytes,
            row.backlog.bytes,
            row.backlog.packets,
            row.reason.map_or(NONE, |reason| reason as u8),
        );
    }

    fn poll_link(&mut self, now: Time, link: u32, backlog: Backlog) {
        if self.is_on(now) {
            self.queue_polls.push(now.as_secs_f64(), link, backlog.bytes, backlog.packets);
        }
    }

    fn sent(&mut self, now: Time, flow: u32, index: u64, bytes: u32) -> u32 {
        if !self.packets_of[flow as usize] || !self.is_on(now) {
            return NO_ROW;
        }
        let row = self.packets.flow.len() as u32;
        self.packets.push(flow, index, bytes, now.as_secs_f64(), f64::NAN, IN_TRANSIT, 0);
        row
    }

    fn received(&mut self, now: Time, row: u32) {
        if row != NO_ROW {
            self.packets.received_s[row as usize] = now.as_secs_f64();
            self.packets.fate[row as usize] = RECEIVED;
        }
    }

    fn lost(&mut self, row: u32) {
        if row != NO_ROW {
            self.packets.fate[row as usize] = DROPPED;
        }
    }
}

/// Seconds, or NaN for never.
pub fn seconds(time: Time) -> f64 {
    if time == Time::NEVER { f64::NAN } else { time.as_secs_f64() }
}

/// Seconds, or NaN for none.
pub fn micro(us: u32) -> f64 {
    if us == 0 { f64::NAN } else { f64::from(us) * 1e-6 }
}

/// The kernel's smallest RTT before the first sample is all ones.
pub fn least_rtt(us: u32) -> f64 {
    if us == u32::MAX { f64::NAN } else { micro(us) }
}

/// ssthresh in bytes.
pub fn ssthresh(segments: u32, mss: u32) -> u64 {
    if segments >= KERNEL_UNLIMITED { UNLIMITED } else { u64::from(segments) * u64::from(mss) }
}

/// The polls.
pub fn polls(looks: &[Look]) -> Polls {
    let mut polls = Polls::default();
    for look in looks {
        let info = &look.info;
        let mss = info.snd_mss;
        polls.push(
            look.at.as_secs_f64(),
            look.flow,
            u64::from(info.snd_cwnd) * u64::from(mss),
            ssthresh(info.snd_ssthresh, mss),
            micro(info.rtt_us),
            f64::NAN,
            least_rtt(info.min_rtt_us),
            micro(info.rto_us),
            look.in_flight(),
            info.ca_state,
            info.bytes_acked,
            look.received,
            u64::from(info.total_retrans),
            look.duplicate_acks,
            u64::from(info.snd_wnd),
        );
    }
    polls
}

/// Put each poll's latest RTT sample in, from the log: TCP_INFO has only the smoothed one.
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

/// Polls of a flow whose sockets are others', at the grid's instants: what the log had said last, of the end that sends
/// more and the connection that spoke last, while it speaks.
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
            polls.push(
                at.as_secs_f64(),
                flow,
                u64::from(row.cwnd) * u64::from(row.mss),
                ssthresh(row.ssthresh, row.mss),
                micro(row.srtt_us_8 / 8),
                micro(row.rtt_us),
                f64::NAN,
                f64::NAN,
                row.in_flight(),
                row.phase,
                row.bytes_acked,
                // What was acknowledged had arrived; how much more, the log does not tell.
                row.bytes_acked,
                u64::from(row.total_retrans),
                0,
                u64::from(row.snd_wnd),
            );
        }
        at += interval;
    }
}

/// The segments table from the log, for the flows chosen.
pub fn segments(rows: &[(u32, bool, Row)], chosen: &[bool], clock: Clock, hz: Option<f64>) -> Segments {
    let mut segments = Segments::default();
    for (flow, at_receiver, row) in rows {
        if matches!(row.kind, Kind::State(_)) || !chosen[*flow as usize] {
            continue;
        }
        segments.push(
            clock.at(row.ns).as_secs_f64(),
            *flow,
            row.kind == Kind::Sent,
            *at_receiver,
            u64::from(row.seq),
            row.length,
            u64::from(row.ack),
            u64::from(row.cwnd) * u64::from(row.mss),
            ssthresh(row.ssthresh, row.mss),
            u64::from(row.snd_wnd),
            u64::from(row.rcv_wnd),
            row.snd_scale,
            row.rcv_scale,
            fsm(row.state),
            row.mss,
            micro(row.srtt_us_8 / 8),
            true,
            row.flags,
            hz.map_or(f64::NAN, |hz| f64::from(row.rto) / hz),
            u64::from(row.snd_buf),
            u64::from(row.snd_buf_used),
            u64::from(row.rcv_buf),
            0,
            row.in_flight(),
            0,
            row.phase,
        );
    }
    segments
}

/// The segments table from polls: the fallback where BPF cannot be had.
pub fn segments_from_polls(looks: &[Look], chosen: &[bool]) -> Segments {
    let mut segments = Segments::default();
    for look in looks.iter().filter(|look| chosen[look.flow as usize]) {
        let info = &look.info;
        let mss = info.snd_mss;
        segments.push(
            look.at.as_secs_f64(),
            look.flow,
            false,
            false,
            info.bytes_sent,
            0,
            info.bytes_acked,
            u64::from(info.snd_cwnd) * u64::from(mss),
            ssthresh(info.snd_ssthresh, mss),
            u64::from(info.snd_wnd),
            u64::from(info.rcv_wnd),
            info.scales & 15,
            info.scales >> 4,
            fsm(info.state),
            mss,
            micro(info.rtt_us),
            true,
            0,
            micro(info.rto_us),
            0,
            0,
            0,
            0,
            look.in_flight(),
            0,
            info.ca_state,
        );
    }
    segments
}

/// Linux numbers the connection states its own way; tables use SIFTR's numbers, in which ESTABLISHED is 4.
fn fsm(state: u8) -> u8 {
    // ESTABLISHED, SYN_SENT, SYN_RECV, FIN_WAIT1, FIN_WAIT2, TIME_WAIT, CLOSE, CLOSE_WAIT, LAST_ACK, LISTEN, CLOSING
    const SIFTR: [u8; 12] = [0, 4, 2, 3, 6, 9, 10, 0, 5, 8, 1, 7];
    SIFTR.get(usize::from(state)).copied().unwrap_or(0)
}

const OPEN: u8 = 0;
const DISORDER: u8 = 1;
const CWR: u8 = 2;
const RECOVERY: u8 = 3;
const LOSS: u8 = 4;
const RECOVERY_ENTERED: u8 = 0;
const RECOVERY_LEFT: u8 = 1;
const TIMEOUT: u8 = 2;
const CWR_ENTERED: u8 = 3;
const UNDO: u8 = 4;
const CWR_LEFT: u8 = 5;

/// What the state log says of the congestion state at one end of a connection.
#[derive(Clone, Copy, Debug)]
struct State {
    at: Time,
    flow: u32,
    at_receiver: bool,
    /// The client's port.
    port: u16,
    phase: u8,
    cwnd: u64,
    cwnd_before: u64,
    ssthresh: u64,
    in_flight: u64,
}

/// How often the senders at a flow's `from` had each kind of event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Recoveries entered.
    pub recoveries: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Undos.
    pub undos: u64,
}

/// Congestion events from changes of state. `states` are in order of time; those of `crowds` are counted, not listed.
fn events(states: impl Iterator<Item = State>, crowds: &[bool]) -> (Congestion, Vec<Events>) {
    let mut table = Congestion::default();
    let mut counts = vec![Events::default(); crowds.len()];
    // Phase of each end of a connection, and ssthresh on entering it.
    let mut now_in = std::collections::BTreeMap::new();
    for state in states {
        let end = (state.flow, state.at_receiver, state.port);
        let (before, cut_to) = now_in.get(&end).copied().unwrap_or((OPEN, UNLIMITED));
        if state.phase == before {
            continue;
        }
        let mut tell = |kind: u8| {
            let count = &mut counts[state.flow as usize];
            match kind {
                _ if state.at_receiver => {}
                RECOVERY_ENTERED => count.recoveries += 1,
                TIMEOUT => count.timeouts += 1,
                UNDO => count.undos += 1,
                _ => {}
            }
            if crowds[state.flow as usize] {
                return;
            }
            table.push(
                state.at.as_secs_f64(),
                state.flow,
                kind,
                state.cwnd_before,
                state.cwnd,
                state.ssthresh,
                state.in_flight,
            );
        };
        let leaves = matches!(before, CWR | RECOVERY | LOSS) && matches!(state.phase, OPEN | DISORDER);
        if leaves && state.ssthresh > cut_to {
            tell(UNDO);
        }
        match before {
            RECOVERY => tell(RECOVERY_LEFT),
            CWR => tell(CWR_LEFT),
            _ => {}
        }
        match state.phase {
            RECOVERY => tell(RECOVERY_ENTERED),
            CWR => tell(CWR_ENTERED),
            LOSS => tell(TIMEOUT),
            _ => {}
        }
        now_in.insert(end, (state.phase, state.ssthresh));
    }
    (table, counts)
}

/// Congestion events from the state log: every change, when it happened.
///
/// Of the flows in `unseen` also the reductions the kernel does not know: the window falls to ssthresh with no change of
/// state.
pub fn congestion(
    rows: &[(u32, bool, Row)],
    crowds: &[bool],
    unseen: &[bool],
    clock: Clock,
) -> (Congestion, Vec<Events>) {
    let mut rests = std::collections::BTreeMap::new();
    let states = rows.iter().filter_map(|(flow, at_receiver, row)| {
        let phase = match row.kind {
            Kind::State(phase) => phase,
            _ if unseen[*flow as usize] && !at_receiver => rests
                .entry((*flow, row.port))
                .or_insert_with(Rest::default)
                .follow(row.cwnd, row.ssthresh, row.phase)?,
            _ => return None,
        };
        let mss = u64::from(row.mss);
        // The kernel tells of an entry before it moves the window, and keeps what it was.
        let is_entry = phase >= CWR && row.kind == Kind::State(phase);
        let before = if is_entry { row.cwnd.max(row.prior_cwnd) } else { row.cwnd };
        Some(State {
            at: clock.at(row.ns),
            flow: *flow,
            at_receiver: *at_receiver,
            port: row.port,
            phase,
            cwnd: u64::from(row.cwnd) * mss,
            cwnd_before: u64::from(before) * mss,
            ssthresh: ssthresh(row.ssthresh, row.mss),
            in_flight: row.in_flight(),
        })
    });
    events(states, crowds)
}

/// A reduction the kernel does not know of.
#[derive(Debug, Default)]
struct Rest {
    cwnd: u32,
    is_under_way: bool,
}

impl Rest {
    /// The state these windows would be a change to, if the kernel knew.
    fn follow(&mut self, cwnd: u32, ssthresh: u32, phase: u8) -> Option<u8> {
        // While the kernel knows of nothing, such a window falls for no other reason.
        let has_fallen = cwnd < self.cwnd;
        self.cwnd = cwnd;
        if !matches!(phase, OPEN | DISORDER) {
            self.is_under_way = false;
        } else if self.is_under_way && cwnd <= ssthresh {
            self.is_under_way = false;
            return Some(OPEN);
        } else if !self.is_under_way && has_fallen {
            self.is_under_way = true;
            return Some(CWR);
        }
        None
    }
}

/// Congestion events from polls: changes shorter than the interval are missed, and so is all but the latest
/// connection's client.
pub fn congestion_from_polls(looks: &[Look], crowds: &[bool]) -> (Congestion, Vec<Events>) {
    let mut cwnd = vec![0; crowds.len()];
    let states = looks.iter().map(|look| {
        let now = u64::from(look.info.snd_cwnd) * u64::from(look.info.snd_mss);
        State {
            at: look.at,
            flow: look.flow,
            at_receiver: false,
            port: 0,
            phase: look.info.ca_state,
            cwnd: now,
            cwnd_before: std::mem::replace(&mut cwnd[look.flow as usize], now),
            ssthresh: ssthresh(look.info.snd_ssthresh, look.info.snd_mss),
            in_flight: look.in_flight(),
        }
    });
    events(states, crowds)
}

/// Both captures of every packet.
pub fn captures(emulated: &Emulated) -> Captures {
    let mut table = Captures::default();
    for (number, captured) in emulated.path.captured.iter().enumerate() {
        let (due, fate, link, is_marked) = match emulated.path.outcomes[number] {
            Outcome::InTransit => (Time::NEVER, IN_TRANSIT, NO_LINK, false),
            Outcome::Delivered { due, is_marked } => (due, RECEIVED, NO_LINK, is_marked),
            Outcome::Dropped { link } => (Time::NEVER, DROPPED, link, false),
        };
        table.push(
            number as u64,
            captured.flow,
            captured.is_reverse,
            captured.bytes,
            captured.ecn as u8,
            captured.at.as_secs_f64(),
            seconds(due),
            seconds(emulated.written[number]),
            fate,
            link,
            is_marked,
            captured.is_copy,
            captured.pair,
            captured.conversation,
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(ms: u64, phase: u8, cwnd: u64, ssthresh: u64) -> State {
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
            state(1, DISORDER, 20, UNLIMITED),
            state(2, RECOVERY, 20, 10),
            state(3, OPEN, 10, 10),
            state(4, RECOVERY, 12, 6),
            state(5, OPEN, 12, 10),
            state(6, LOSS, 12, 6),
            state(7, OPEN, 6, 6),
        ];
        let (table, counts) = events(states.into_iter(), &[false]);
        assert_eq!(
            table.kind,
            [RECOVERY_ENTERED, RECOVERY_LEFT, RECOVERY_ENTERED, UNDO, RECOVERY_LEFT, TIMEOUT]
        );
        assert_eq!(counts, [Events { recoveries: 2, timeouts: 1, undos: 1 }]);
    }

    #[test]
    fn connections_of_a_flow_have_states_of_their_own() {
        let one = state(1, RECOVERY, 20, 10);
        let other = State { port: 40_001, ..state(2, RECOVERY, 20, 10) };
        let server = State { at_receiver: true, ..state(3, LOSS, 20, 10) };
        let (table, counts) = events([one, other, server].into_iter(), &[false]);
        assert_eq!(table.kind, [RECOVERY_ENTERED, RECOVERY_ENTERED, TIMEOUT]);
        assert_eq!(counts, [Events { recoveries: 2, timeouts: 0, undos: 0 }]);
        let (table, counts) = events([one, other].into_iter(), &[true]);
        assert!(table.kind.is_empty());
        assert_eq!(counts[0].recoveries, 2);
    }

    #[test]
    fn a_reduction_the_kernel_does_not_know_is_seen_in_the_window() {
        let mut rest = Rest::default();
        let mut see = |cwnd, ssthresh, phase| rest.follow(cwnd, ssthresh, phase);
        assert_eq!(see(20, KERNEL_UNLIMITED, OPEN), None);
        assert_eq!(see(20, 20, OPEN), None, "slow start ended, no reduction");
        assert_eq!(see(19, 14, OPEN), Some(CWR));
        assert_eq!(see(17, 14, OPEN), None);
        assert_eq!(see(14, 14, OPEN), Some(OPEN));
        assert_eq!(see(20, 14, OPEN), None, "growth");
        assert_eq!(see(19, 14, OPEN), Some(CWR), "to the same ssthresh again");
        assert_eq!(see(14, 14, OPEN), Some(OPEN));
        assert_eq!(see(12, 7, RECOVERY), None, "the kernel tells of that itself");
    }

    #[test]
    fn established_is_four_in_tables() {
        assert_eq!((fsm(1), fsm(10), fsm(200)), (4, 1, 0));
    }
}
