//! State of a flow whose connections belong to a foreign stack, in the simulator and live, and the checks on what its
//! ends do.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use super::build;
use super::connections::Tally;
use crate::cc::external::Makers;
use crate::foreign::{Endpoint, Misuse, Progress, Setup, Stack, StackFault, Stacks, State, UDP_HEADERS};
use crate::packet::Ecn;
use crate::probe::rows::StackFaultKind;
use crate::queue::external::NO_MAKERS;
use crate::rng::Stream;
use crate::scenario::{Params, Scenario, ScenarioError};
use crate::tcp::segment::NO_ROW;
use crate::time::{Bytes, Duration, Time};
use crate::traffic::{Action, Connection, Cue, Side};

/// Limit on the datagrams and wakes of a flow at one instant; beyond it, time would probably never advance.
pub const MOST_AT_AN_INSTANT: u32 = 200_000;
/// Limit on consecutive writes that a stack accepts; a send buffer is full long before.
const MOST_WRITES: u32 = 100_000;
/// Limit on consecutive datagrams that a sender sends although its window is full. Probes after a timeout may exceed
/// the window (RFC 9002 section 7.5), two per timeout, and no connection survives sixteen timeouts without an answer.
pub const MOST_BEYOND_WINDOW: u32 = 32;

/// A flow's foreign connections.
#[derive(Debug)]
pub struct Foreign {
    /// The flow's number.
    pub flow: u32,
    /// The flow's name.
    pub flow_name: String,
    /// The stack's name in the scenario.
    pub name: String,
    /// The stack.
    pub stack: Arc<dyn Stack>,
    /// The flow's congestion controls; connections take them in turn.
    pub algorithms: Vec<(String, Params)>,
    /// Largest IP packet, less the bytes by which its IP header is longer than IPv4's: the stack counts an IPv4 header.
    pub mtu: u32,
    /// See [`Setup`].
    pub send_buffer: Option<Bytes>,
    /// See [`Setup`].
    pub receive_buffer: Option<Bytes>,
    /// Seeds of the connections, in order of opening.
    pub seeds: Stream,
    /// The scenario's name and seed, for error messages.
    pub scenario: (String, u64),
    /// Its connections, in order of opening.
    pub live: Vec<Live>,
    /// Number of connections opened so far.
    pub opened: u32,
    /// Number of datagrams in the network.
    pub under_way: u64,
    /// Instant of the latest call to the stack.
    pub busy_at: Time,
    /// Number of calls at `busy_at`.
    pub busy: u32,
    /// The stack had a fault: the flow is over.
    pub is_faulty: bool,
    /// Connections that failed.
    pub failed: Failed,
}

/// Connections of a flow that ended although neither side closed them.
#[derive(Debug, Default)]
pub struct Failed {
    /// Number of connections that failed.
    pub count: u64,
    /// When the first one failed, and why if the stack reports it.
    pub first: Option<(Time, Option<String>)>,
}

/// A connection.
#[derive(Debug)]
pub struct Live {
    /// Serial number, unique in the flow.
    pub serial: u32,
    /// The application's number for the connection; a later connection may reuse it.
    pub connection: Connection,
    /// The client's end and the server's.
    pub halves: [Half; 2],
    /// Row of the requests table that waits for a response.
    pub row: u32,
}

/// One end, and what its application waits for there.
#[derive(Debug)]
pub struct Half {
    /// The stack's end.
    pub endpoint: Box<dyn Endpoint>,
    /// Bytes that the application has written and the stack has not yet accepted; [`Bytes::MAX`]: an endless supply.
    pub to_write: Bytes,
    /// The application will write no more.
    pub is_finishing: bool,
    /// The stack has been asked to finish.
    pub has_finished: bool,
    /// Both directions are done, and the application has been notified.
    pub is_done: bool,
    /// The progress last reported to the application.
    pub reported: Progress,
    /// Payload of the datagrams that arrived, in bytes.
    pub arrived: Bytes,
    /// Number of bytes that the stack accepted to send.
    pub accepted: Bytes,
    /// Number of bytes read.
    pub read: Bytes,
    /// Bytes read at which the application wants a cue.
    pub receive_mark: Bytes,
    /// When the application wants a cue.
    pub call_at: Time,
    /// When the stack wants to be woken.
    pub timeout: Time,
    /// When the connection was established.
    pub established_at: Time,
    /// The sender state that the stack reported last.
    pub state: State,
    /// Number of consecutive datagrams beyond the window.
    pub beyond: u32,
    /// The application has given up the connection at this end.
    pub is_given_up: bool,
}

/// A fault of a stack, in words and by kind.
pub type Wrong = (String, StackFaultKind);

impl Half {
    fn new(endpoint: Box<dyn Endpoint>) -> Self {
        Half {
            endpoint,
            to_write: 0,
            is_finishing: false,
            has_finished: false,
            is_done: false,
            reported: Progress::default(),
            arrived: 0,
            accepted: 0,
            read: 0,
            receive_mark: Bytes::MAX,
            call_at: Time::NEVER,
            timeout: Time::NEVER,
            established_at: Time::NEVER,
            state: State::default(),
            beyond: 0,
            is_given_up: false,
        }
    }

    /// The next time to wake this end.
    pub fn next_wake(&self) -> Time {
        self.timeout.min(self.call_at)
    }

    /// Gives a datagram that arrived to the stack.
    pub fn receive(&mut self, now: Time, datagram: &[u8], ecn: Ecn) {
        self.arrived += datagram.len() as Bytes;
        self.endpoint.on_datagram(now, datagram, ecn);
    }

    /// Reads what has arrived, and gives the stack as many bytes as it accepts. `peer_accepted` is the number of bytes
    /// that the other end accepted to send.
    pub fn move_bytes(&mut self, now: Time, peer_accepted: Bytes) {
        self.read = self.read.saturating_add(self.endpoint.read(now));
        // Goodput is what is read: a stack could claim any.
        let (most, of) = if self.arrived < peer_accepted {
            (self.arrived, "arrived in datagrams")
        } else {
            (peer_accepted, "were written at the other end")
        };
        if self.read > most {
            resume_unwind(Box::new(Misuse(format!(
                "it has read {} bytes, of which {most} {of}. Let read return only the bytes that are new since the call \
                 before",
                self.read
            ))));
        }
        for round in 0.. {
            if self.to_write == 0 {
                break;
            }
            if round == MOST_WRITES {
                resume_unwind(Box::new(Misuse(format!(
                    "it takes bytes to send without end: {MOST_WRITES} writes at one instant. Take none while its send \
                     buffer is full"
                ))));
            }
            let taken = self.endpoint.write(self.to_write);
            self.accepted = self.accepted.saturating_add(taken);
            if self.to_write != Bytes::MAX {
                self.to_write -= taken;
            }
            if taken == 0 {
                break;
            }
        }
        if self.is_finishing && self.to_write == 0 && !self.has_finished {
            self.has_finished = true;
            self.endpoint.finish();
        }
    }

    /// The next datagram to send over this MTU, if any; an error if the stack breaks a rule.
    pub fn transmit(&mut self, now: Time, mtu: u32, datagram: &mut Vec<u8>) -> Result<Option<Ecn>, Wrong> {
        let before = self.endpoint.flight();
        let Some(ecn) = self.endpoint.poll_transmit(now, datagram) else { return Ok(None) };
        let after = self.endpoint.flight();
        let is_beyond = after.in_flight > before.in_flight && before.in_flight >= before.cwnd;
        self.beyond = if is_beyond { self.beyond + 1 } else { 0 };
        let bytes = datagram.len();
        let packet = bytes as u32 + UDP_HEADERS;
        if bytes == 0 || packet > mtu {
            let what =
                format!("it sends a datagram of {bytes} bytes, {packet} with headers, over an MTU of {mtu}");
            return Err((what, StackFaultKind::BadDatagram));
        }
        if self.beyond > MOST_BEYOND_WINDOW {
            let what = format!(
                "it sends beyond its window: {} datagrams in a row, {} bytes in flight, cwnd {}",
                self.beyond, after.in_flight, after.cwnd
            );
            return Err((what, StackFaultKind::BeyondWindow));
        }
        Ok(Some(ecn))
    }

    /// Whether the end waits for something that only the stack can do.
    pub fn waits(&self) -> bool {
        let unsent = self.to_write > 0 || self.is_finishing && !self.reported.is_acknowledged;
        !self.reported.is_closed && (!self.reported.is_established || unsent)
    }
}

/// Progress of the stack at one end since the last report to its application.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    reported: Progress,
    now: Progress,
}

impl Step {
    /// Whether the connection has failed. If so, nothing else is reported.
    pub fn has_failed(&self) -> bool {
        self.now.has_failed
    }
}

/// Kinds of progress, in the order in which an application is notified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// Data may flow.
    Established,
    /// The bytes that the application waits for have arrived.
    Received,
    /// The peer has finished sending.
    PeerFinished,
    /// Both directions are done.
    Closed,
}

impl News {
    /// Every kind of progress, in the order of notification.
    pub const IN_ORDER: [News; 4] = [News::Established, News::Received, News::PeerFinished, News::Closed];
}

impl Half {
    /// Reads the stack's progress.
    pub fn step(&mut self, at: Time) -> Step {
        let now = self.endpoint.progress();
        if now.is_established && !self.reported.is_established {
            self.established_at = at;
        }
        Step { reported: std::mem::replace(&mut self.reported, now), now }
    }

    /// The cue for the application, if the step brings this kind of progress. Evaluated just before the cue is given,
    /// because the application may have reacted to an earlier cue.
    fn cue(&mut self, connection: Connection, news: News, Step { reported, now }: Step) -> Option<Cue> {
        match news {
            News::Established => {
                (now.is_established && !reported.is_established).then_some(Cue::Established(connection))
            }
            News::Received => (self.read >= self.receive_mark).then(|| {
                self.receive_mark = Bytes::MAX;
                Cue::Received(connection, self.read)
            }),
            News::PeerFinished => {
                (now.peer_finished && !reported.peer_finished).then_some(Cue::PeerFinished(connection))
            }
            News::Closed => {
                let is_over = now.is_closed || now.peer_finished && now.is_acknowledged;
                let is_news = is_over && !self.is_done;
                self.is_done |= is_over;
                is_news.then_some(Cue::Closed(connection))
            }
        }
    }
}

impl Live {
    /// Whether the application has given up the connection at one end. The other end may never learn of it, for example
    /// before a handshake.
    pub fn is_given_up(&self) -> bool {
        self.halves.iter().any(|half| half.is_given_up)
    }

    /// Whether the connection is over at both ends.
    pub fn is_over(&self) -> bool {
        self.halves.iter().all(|half| half.reported.is_closed)
    }

    /// Reads the final state of both ends. If the stack panics, the state read before stays.
    pub fn end(&mut self) {
        for half in &mut self.halves {
            if let Ok(state) = catch_unwind(AssertUnwindSafe(|| half.endpoint.state())) {
                half.state = state;
            }
        }
    }
}

/// What an action of an application requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The flow itself must handle the action: it concerns no connection.
    Elsewhere,
    /// Nothing: the connection is over.
    Nothing,
    /// The end of the connection with this serial number must be served: the action is recorded there.
    Service(u32),
    /// The stack must first close that end: it cannot take back bytes that it holds.
    Closing(u32),
}

/// The flows of a scenario that use foreign stacks, without starting them; errors as before a simulation.
pub fn flows(scenario: &Scenario, stacks: &Stacks) -> Result<Vec<Foreign>, ScenarioError> {
    Ok(build::build(scenario, &Makers::new(), stacks, &NO_MAKERS)?.foreign)
}

/// Message of a stack's panic, for display.
pub fn what_unwound(payload: &(dyn Any + Send)) -> String {
    if let Some(Misuse(what)) = payload.downcast_ref() {
        return what.clone();
    }
    let text = payload.downcast_ref::<&'static str>().map(ToString::to_string);
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    format!("it panicked: {}", text.as_deref().unwrap_or("without a message"))
}

impl Foreign {
    /// A fault of this flow's stack.
    pub fn fault(&self, at: Time, what: String, kind: StackFaultKind) -> Box<StackFault> {
        let (scenario, seed) = self.scenario.clone();
        Box::new(StackFault {
            stack: self.name.clone(),
            version: self.stack.version().into(),
            scenario,
            seed,
            flow: self.flow_name.clone(),
            at,
            what,
            kind,
        })
    }

    /// The fault of doing too much work at one instant.
    pub fn fault_of_haste(&self, at: Time) -> Box<StackFault> {
        let what = format!(
            "it sent or woke {MOST_AT_AN_INSTANT} times without letting time pass. If no link of its path has a rate, \
             give one"
        );
        self.fault(at, what, StackFaultKind::Haste)
    }

    /// Opens the flow's `turn`-th connection; returns its serial number.
    pub fn open(&mut self, connection: Connection, turn: u32, now: Time) -> u32 {
        let seed = self.seeds.bits();
        let (cc, cc_params) = &self.algorithms[turn as usize % self.algorithms.len()];
        let setup = Setup {
            now,
            cc,
            cc_params,
            mtu: self.mtu,
            send_buffer: self.send_buffer,
            receive_buffer: self.receive_buffer,
            seed,
        };
        let halves = self.stack.connect(&setup).map(Half::new);
        let serial = self.opened;
        self.opened += 1;
        self.live.push(Live { serial, connection, halves, row: NO_ROW });
        serial
    }

    /// An end of an open connection.
    pub fn half(&mut self, serial: u32, side: Side) -> Option<&mut Half> {
        let live = self.live.iter_mut().find(|live| live.serial == serial)?;
        Some(&mut live.halves[usize::from(side == Side::Server)])
    }

    /// Number of bytes that the other end of a connection accepted to send.
    pub fn peer_accepted(&mut self, serial: u32, side: Side) -> Bytes {
        let peer = if side == Side::Client { Side::Server } else { Side::Client };
        self.half(serial, peer).map_or(0, |half| half.accepted)
    }

    /// The cue for the application at an end, if the step brings this kind of progress.
    pub fn cue(&mut self, serial: u32, side: Side, news: News, step: Step) -> Option<Cue> {
        let live = self.live.iter_mut().find(|live| live.serial == serial)?;
        live.halves[usize::from(side == Side::Server)].cue(live.connection, news, step)
    }

    /// The open connection of this number.
    pub fn of(&mut self, connection: Connection) -> Option<&mut Live> {
        self.live.iter_mut().find(|live| live.connection == connection)
    }

    /// Records at an end what its application requests.
    pub fn note(&mut self, side: Side, action: &Action) -> Wanted {
        let connection = match *action {
            Action::Write(connection, _)
            | Action::WriteForever(connection)
            | Action::Close { connection, .. }
            | Action::TellReceived(connection, _)
            | Action::CallAt(connection, _) => connection,
            Action::TellDrained(_) | Action::Carry(_) => {
                panic!("flow {}: {action:?} was to be refused before time zero", self.flow)
            }
            Action::Connect(_)
            | Action::TurnAway
            | Action::Datagram { .. }
            | Action::Reply { .. }
            | Action::ReplyFromServer { .. }
            | Action::WakeAt(_)
            | Action::Report(_) => return Wanted::Elsewhere,
        };
        let Some(live) = self.of(connection) else { return Wanted::Nothing };
        let half = &mut live.halves[usize::from(side == Side::Server)];
        match *action {
            Action::Write(_, bytes) => half.to_write = half.to_write.saturating_add(bytes),
            Action::WriteForever(_) => half.to_write = Bytes::MAX,
            Action::TellReceived(_, bytes) => half.receive_mark = bytes,
            Action::CallAt(_, time) => half.call_at = time,
            Action::Close { discard: true, .. } => {
                half.to_write = 0;
                half.is_given_up = true;
                return Wanted::Closing(live.serial);
            }
            _ => half.is_finishing = true,
        }
        Wanted::Service(live.serial)
    }

    /// Counts a connection that failed at `now` for a reason that the stack may report.
    pub fn note_failure(&mut self, now: Time, why: Option<String>) {
        self.failed.count += 1;
        self.failed.first.get_or_insert((now, why));
    }

    /// The sentence in a result's warnings if connections failed.
    pub fn failures(&self) -> Option<String> {
        let (at, why) = self.failed.first.as_ref()?;
        let (name, version, flow) = (&self.name, self.stack.version(), &self.flow_name);
        let why = why.as_deref().unwrap_or("its stack gives no reason");
        let whose = if self.failed.count == 1 { "its connection" } else { "the first of its connections" };
        let count = match self.failed.count {
            1 => String::new(),
            count => format!("; {count} of {} failed", self.opened),
        };
        Some(format!(
            "{name} {version}, flow {flow}: {whose} failed at {} s ({why}){count}",
            at.as_secs_f64()
        ))
    }

    /// The earliest wake of this flow's ends.
    pub fn next_wake(&self) -> Time {
        let halves = self.live.iter().flat_map(|live| &live.halves);
        halves.map(Half::next_wake).min().unwrap_or(Time::NEVER)
    }

    /// Whether an end waits although no event can follow.
    pub fn is_stuck(&self) -> bool {
        self.under_way == 0
            && self.next_wake() == Time::NEVER
            && self
                .live
                .iter()
                .filter(|live| !live.is_given_up())
                .flat_map(|live| &live.halves)
                .any(Half::waits)
    }

    /// Counts a call at `now`; false if there are too many at one instant.
    pub fn is_advancing(&mut self, now: Time) -> bool {
        if self.busy_at != now {
            (self.busy_at, self.busy) = (now, 0);
        }
        self.busy += 1;
        self.busy <= MOST_AT_AN_INSTANT
    }
}

impl Tally {
    /// Adds the counts of a foreign connection. A packet that its stack declared lost counts as a retransmission: its
    /// content is sent again in another packet.
    pub fn add_foreign(&mut self, live: &Live) {
        let [client, server] = &live.halves;
        self.bytes_acked += client.state.bytes_acked;
        self.bytes_received += server.read;
        self.bytes_arrived += server.read;
        self.bytes_returned += client.read;
        for (count, half) in [(&mut self.sent, client), (&mut self.back_sent, server)] {
            count.segments_sent += half.state.packets_sent;
            count.segments_retransmitted += half.state.packets_lost;
            count.recoveries += half.state.congestion_events;
        }
        self.established_at = self.established_at.min(client.established_at);
        if !client.state.srtt.is_zero() {
            self.srtt = client.state.srtt;
            self.rtt_min = self.rtt_min.min(match client.state.rtt_min {
                Duration::ZERO => Duration::MAX,
                least => least,
            });
        }
    }
}
