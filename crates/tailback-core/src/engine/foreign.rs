//! What is kept of a flow whose connections are a foreign stack's, in the simulator and live, and how far its ends are
//! trusted.

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

/// Datagrams and wakes of a flow without any time passing; more, and none ever will.
pub const MOST_AT_AN_INSTANT: u32 = 200_000;
/// Writes in a row that a stack takes bytes of; a send buffer is full after some.
const MOST_WRITES: u32 = 100_000;
/// Datagrams in a row that a sender may add to a full window. Probes after a timeout may (RFC 9002 section 7.5), two each
/// time, and no path is silent for sixteen timeouts of a connection that lives.
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
    /// The flow's congestion controls, in turn.
    pub algorithms: Vec<(String, Params)>,
    /// Largest IP packet, less what its header is longer than IPv4's: the stack counts that one.
    pub mtu: u32,
    /// See [`Setup`].
    pub send_buffer: Option<Bytes>,
    /// See [`Setup`].
    pub receive_buffer: Option<Bytes>,
    /// Seeds of the connections, in order of opening.
    pub seeds: Stream,
    /// The scenario's name and seed, for complaints.
    pub scenario: (String, u64),
    /// Its connections, in order of opening.
    pub live: Vec<Live>,
    /// Connections so far.
    pub opened: u32,
    /// Datagrams in the network.
    pub under_way: u64,
    /// What was last done, and how often at that instant.
    pub busy_at: Time,
    /// Number of calls at `busy_at`.
    pub busy: u32,
    /// Its stack did what no stack may: the flow is over.
    pub is_faulty: bool,
}

/// A connection.
#[derive(Debug)]
pub struct Live {
    /// Unique in the flow.
    pub serial: u32,
    /// Number of the connection; a later one may have it again.
    pub connection: Connection,
    /// The client's end and the server's.
    pub halves: [Half; 2],
    /// The row of the requests table that waits for an answer.
    pub row: u32,
}

/// One end, and what its application waits for there.
#[derive(Debug)]
pub struct Half {
    /// The stack's end.
    pub endpoint: Box<dyn Endpoint>,
    /// Bytes that the application has written and the stack has not taken; [`Bytes::MAX`]: always some.
    pub to_write: Bytes,
    /// The application writes no more.
    pub is_finishing: bool,
    /// The stack knows that it finishes.
    pub has_finished: bool,
    /// Both directions are done, and the application knows.
    pub is_done: bool,
    /// The progress last reported to the application.
    pub reported: Progress,
    /// Bytes read.
    pub read: Bytes,
    /// The application wants to hear once this many have arrived.
    pub receive_mark: Bytes,
    /// The application wants to be called.
    pub call_at: Time,
    /// The stack wants to be woken.
    pub timeout: Time,
    /// When data could flow.
    pub established_at: Time,
    /// The last state of its sender that the stack reported.
    pub state: State,
    /// Datagrams in a row beyond the window.
    pub beyond: u32,
    /// The application has given the connection up here.
    pub is_given_up: bool,
}

/// What a stack did that no stack may do.
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

    /// When the end is to be woken.
    pub fn next_wake(&self) -> Time {
        self.timeout.min(self.call_at)
    }

    /// Read what has arrived, and give the stack what it takes.
    pub fn move_bytes(&mut self, now: Time) {
        self.read += self.endpoint.read(now);
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

    /// The next datagram to send over this MTU, if there is one; or what the stack does that none may.
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

    /// Is it waiting for something that only the stack can bring about?
    pub fn waits(&self) -> bool {
        let unsent = self.to_write > 0 || self.is_finishing && !self.reported.is_acknowledged;
        !self.reported.is_closed && (!self.reported.is_established || unsent)
    }
}

/// How far the stack has come at one end since the last report to its application.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    reported: Progress,
    now: Progress,
}

impl Step {
    /// The connection has failed: there is no other news.
    pub fn has_failed(&self) -> bool {
        self.now.has_failed
    }
}

/// What a step may be news of, in the order in which an application hears of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// Data may flow.
    Established,
    /// The bytes that the application waits for have arrived.
    Received,
    /// The peer has finished.
    PeerFinished,
    /// Both directions are done.
    Closed,
}

impl News {
    /// Every kind of news, in the order in which it is handed over.
    pub const IN_ORDER: [News; 4] = [News::Established, News::Received, News::PeerFinished, News::Closed];
}

impl Half {
    /// Ask the stack how far it has come.
    pub fn step(&mut self, at: Time) -> Step {
        let now = self.endpoint.progress();
        if now.is_established && !self.reported.is_established {
            self.established_at = at;
        }
        Step { reported: std::mem::replace(&mut self.reported, now), now }
    }

    /// The cue for the application, if a step is news of this. Asked just before the cue is given, as the application's
    /// answer to an earlier cue counts.
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
    /// Has the application of an end given it up? The other end may never hear of it, as before a handshake.
    pub fn is_given_up(&self) -> bool {
        self.halves.iter().any(|half| half.is_given_up)
    }

    /// Whether the connection is over at both ends.
    pub fn is_over(&self) -> bool {
        self.halves.iter().all(|half| half.reported.is_closed)
    }

    /// What its stack says last; one that panics even then has said its last before.
    pub fn end(&mut self) {
        for half in &mut self.halves {
            if let Ok(state) = catch_unwind(AssertUnwindSafe(|| half.endpoint.state())) {
                half.state = state;
            }
        }
    }
}

/// What is to be done for an action of an application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// It concerns no connection: the flow's own code does it.
    Elsewhere,
    /// Its connection is over.
    Nothing,
    /// The end of the connection of this serial number is to be served: it knows what is wanted of it.
    Service(u32),
    /// The stack is to close that end first: it has no way to take back what it holds.
    Closing(u32),
}

/// The scenario's flows of these stacks, nothing of them begun; an error as before a simulation.
pub fn flows(scenario: &Scenario, stacks: &Stacks) -> Result<Vec<Foreign>, ScenarioError> {
    Ok(build::build(scenario, &Makers::new(), stacks, &NO_MAKERS)?.foreign)
}

/// What a stack that unwound did wrong, for people.
pub fn what_unwound(payload: &(dyn Any + Send)) -> String {
    if let Some(Misuse(what)) = payload.downcast_ref() {
        return what.clone();
    }
    let text = payload.downcast_ref::<&'static str>().map(ToString::to_string);
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    format!("it panicked: {}", text.as_deref().unwrap_or("without a message"))
}

impl Foreign {
    /// The stack did what no stack may.
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

    /// Too much was done at once.
    pub fn fault_of_haste(&self, at: Time) -> Box<StackFault> {
        let what = format!(
            "it sent or woke {MOST_AT_AN_INSTANT} times without letting time pass. If no link of its path has a rate, \
             give one"
        );
        self.fault(at, what, StackFaultKind::Haste)
    }

    /// Open a connection, the flow's `turn`-th.
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

    /// An end of a connection that is there.
    pub fn half(&mut self, serial: u32, side: Side) -> Option<&mut Half> {
        let live = self.live.iter_mut().find(|live| live.serial == serial)?;
        Some(&mut live.halves[usize::from(side == Side::Server)])
    }

    /// The cue for the application at an end, if a step is news of this.
    pub fn cue(&mut self, serial: u32, side: Side, news: News, step: Step) -> Option<Cue> {
        let live = self.live.iter_mut().find(|live| live.serial == serial)?;
        live.halves[usize::from(side == Side::Server)].cue(live.connection, news, step)
    }

    /// The connection of this number.
    pub fn of(&mut self, connection: Connection) -> Option<&mut Live> {
        self.live.iter_mut().find(|live| live.connection == connection)
    }

    /// Note at an end what its application wants of it.
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

    /// When the first of its ends is to be woken.
    pub fn next_wake(&self) -> Time {
        let halves = self.live.iter().flat_map(|live| &live.halves);
        halves.map(Half::next_wake).min().unwrap_or(Time::NEVER)
    }

    /// Nothing will ever happen again, and an end waits for something.
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

    /// Count something done at `now`; false if too much is done without time passing.
    pub fn is_advancing(&mut self, now: Time) -> bool {
        if self.busy_at != now {
            (self.busy_at, self.busy) = (now, 0);
        }
        self.busy += 1;
        self.busy <= MOST_AT_AN_INSTANT
    }
}

impl Tally {
    /// What a foreign connection has done. A packet its stack took for lost stands where TCP has a retransmission:
    /// what was in it is sent again in another one.
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
