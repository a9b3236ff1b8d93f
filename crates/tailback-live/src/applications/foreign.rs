//! A flow whose connections use a foreign stack over UDP sockets. Both ends of each connection are driven here, by the
//! run's clock instead of the simulator's.
//!
//! When an event is noticed, the steps are the simulator's, in the same order: one datagram is handed to the stack,
//! bytes are moved, what is due is sent, and the application is notified.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tailback_core::engine::foreign::{Foreign, Half, News, Wanted, what_unwound};
use tailback_core::packet::{Ecn, FlowId};
use tailback_core::probe::rows::CongestionRow;
use tailback_core::probe::rows::StackFaultKind;
use tailback_core::probe::schema::Threshold;
use tailback_core::probe::stacks::{self, Shown};
use tailback_core::probe::{self};
use tailback_core::scenario::IpVersion;
use tailback_core::tcp::segment::NO_ROW;
use tailback_core::tcp::sender::CongestionEventKind;
use tailback_core::time::{Bytes, Duration, Time};
use tailback_core::traffic::{Action, Connection, Cue, Exchange, Opening, Side};

use super::connections::{Token, index};
use super::{Flow, sockets};
use crate::headers::codepoint_of;
use crate::sys;

/// How long the sockets of a closed connection stay open, so that packets still on their way are not answered by ICMP.
const LINGER: Duration = Duration::from_secs(2);

/// The largest possible datagram.
const LARGEST: usize = 65_535;

/// A connection's sockets, with the ECN bits that each currently sends.
#[derive(Debug)]
struct Wire {
    sockets: [Arc<OwnedFd>; 2],
    ecn: [Ecn; 2],
}

/// A flow's foreign connections.
#[derive(Debug)]
pub struct Hosted {
    flow: Foreign,
    /// The namespaces of client and server.
    hosts: [OwnedFd; 2],
    wires: BTreeMap<u32, Wire>,
    /// Sockets of closed connections, with the time to close them.
    past: VecDeque<(Time, Wire)>,
    shown: Shown,
    next_poll: Time,
    buffer: Vec<u8>,
    datagram: Vec<u8>,
}

/// Identifies an end: the connection's serial number and the side.
type Which = (u32, Side);

fn token((serial, side): Which) -> Token {
    Token(u64::from(serial) << 1 | u64::from(side == Side::Server))
}

fn which(token: Token) -> Which {
    ((token.0 >> 1) as u32, if token.0 & 1 == 1 { Side::Server } else { Side::Client })
}

impl Hosted {
    /// No connection opened yet; `polls` holds the interval and start of polling the latest connection.
    pub fn new(flow: Foreign, hosts: [OwnedFd; 2], polls: Option<(Duration, Time)>) -> Self {
        let next_poll = polls.map_or(Time::NEVER, |(interval, from)| from.ceil_to(interval));
        Hosted {
            flow,
            hosts,
            wires: BTreeMap::new(),
            past: VecDeque::new(),
            shown: Shown::default(),
            next_poll,
            buffer: vec![0; LARGEST],
            datagram: Vec::new(),
        }
    }

    /// When an end or a poll is due next.
    pub fn next_due(&self) -> Time {
        self.flow.next_wake().min(self.next_poll)
    }

    /// Number of congestion controls that connections take in turn.
    fn turns(&self) -> u32 {
        self.flow.algorithms.len() as u32
    }
}

impl Flow<'_> {
    fn hosted(&mut self) -> &mut Hosted {
        self.foreign.as_mut().expect("the flow is a foreign stack's")
    }

    fn accuse(&mut self, now: Time, what: String, kind: StackFaultKind) {
        let fault = self.hosted().flow.fault(now, what, kind);
        self.fault.get_or_insert(fault);
    }

    /// Calls the stack and catches its faults; does nothing after the first.
    fn guarded<R>(&mut self, now: Time, ask: impl FnOnce(&mut Hosted) -> R) -> Option<R> {
        if self.fault.is_some() {
            return None;
        }
        let hosted = self.hosted();
        match catch_unwind(AssertUnwindSafe(|| ask(hosted))) {
            Ok(answer) => Some(answer),
            Err(payload) => {
                self.accuse(now, what_unwound(payload.as_ref()), StackFaultKind::Panicked);
                None
            }
        }
    }

    /// Calls the stack at one end, if that end exists.
    fn ask<R>(
        &mut self,
        (serial, side): Which,
        now: Time,
        ask: impl FnOnce(&mut Half, Time) -> R,
    ) -> Option<R> {
        self.guarded(now, |hosted| hosted.flow.half(serial, side).map(|half| ask(half, now)))?
    }

    /// Opens a connection with two sockets of its own.
    pub(super) fn open_hosted(&mut self, opening: Opening, now: Time) -> io::Result<()> {
        let of = (self.plan.number, self.plan.ip);
        let hosted = self.hosted();
        let [from, to] = &hosted.hosts;
        let sockets = sockets::open_datagrams(of, [from.as_fd(), to.as_fd()])?.map(Arc::new);
        let opened = self.guarded(now, |hosted| hosted.flow.open(opening.connection, opening.turn, now));
        let Some(serial) = opened else { return Ok(()) };
        for (socket, side) in sockets.iter().zip([Side::Client, Side::Server]) {
            self.events.add(socket.as_fd(), token((serial, side)).0)?;
        }
        self.hosted().wires.insert(serial, Wire { sockets, ecn: [Ecn::NotEct; 2] });
        self.record.tally.finished = Time::NEVER;
        self.touched.push_back(token((serial, Side::Client)));
        Ok(())
    }

    /// Performs an action on a connection; returns false for other actions.
    pub(super) fn act_hosted(&mut self, side: Side, action: &Action, now: Time) -> bool {
        let serial = match self.hosted().flow.note(side, action) {
            Wanted::Elsewhere => return false,
            Wanted::Nothing => return true,
            Wanted::Service(serial) => serial,
            Wanted::Closing(serial) => {
                self.ask((serial, side), now, |half, now| half.endpoint.close(now));
                serial
            }
        };
        self.touched.push_back(token((serial, side)));
        true
    }

    /// Records the start of an exchange.
    pub(super) fn asked_hosted(&mut self, connection: Connection, now: Time, what: (Exchange, Bytes, u32)) {
        let (kind, bytes, turn) = what;
        let turn = (turn % self.hosted().turns()) as u16;
        let row = self.record.asked(now, kind, bytes, turn).map_or(NO_ROW, |row| row as u32);
        if let Some(live) = self.hosted().flow.of(connection) {
            live.row = row;
        }
    }

    /// Records the end of an exchange.
    pub(super) fn answered_hosted(&mut self, connection: Connection, now: Time) {
        let Some(live) = self.hosted().flow.of(connection) else { return };
        let row = std::mem::replace(&mut live.row, NO_ROW);
        self.record.answered(now, (row != NO_ROW).then_some(row as usize));
    }

    /// Handles everything that is due.
    pub(super) fn keep_hosted(&mut self, now: Time) -> io::Result<()> {
        if self.hosted().next_poll <= now {
            self.poll_hosted(now);
        }
        while self.hosted().past.front().is_some_and(|(until, _)| *until <= now) {
            self.hosted().past.pop_front();
        }
        if self.hosted().flow.next_wake() > now {
            return Ok(());
        }
        let serials: Vec<u32> = self.hosted().flow.live.iter().map(|live| live.serial).collect();
        for which in serials.into_iter().flat_map(|serial| [(serial, Side::Client), (serial, Side::Server)]) {
            let Some(half) = self.hosted().flow.half(which.0, which.1) else { continue };
            let (called, due) = (half.call_at, half.timeout);
            if called <= now {
                half.call_at = Time::NEVER;
                self.record.service.late.push(now.since(called));
                self.call_back_hosted(which, now)?;
            }
            if due <= now {
                self.record.service.late.push(now.since(due));
                self.ask(which, now, |half, now| half.endpoint.on_timeout(now));
            }
            if called <= now || due <= now {
                self.serve_hosted(token(which))?;
            }
        }
        Ok(())
    }

    /// Reads the datagrams that wait at a socket.
    pub(super) fn hear_hosted(&mut self, token: Token) -> io::Result<()> {
        let (serial, side) = which(token);
        let mut buffer = std::mem::take(&mut self.hosted().buffer);
        while self.fault.is_none() {
            let Some(wire) = self.hosted().wires.get(&serial) else { break };
            let socket = wire.sockets[index(side)].clone();
            let (length, tos) = match sys::receive_marked(socket.as_fd(), &mut buffer) {
                Ok(Some(got)) => got,
                Ok(None) => break,
                // The path reported a loss, which the stack detects by itself.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(error),
            };
            let now = self.clock.now();
            let ecn = codepoint_of(tos);
            let datagram = &buffer[..length];
            self.ask((serial, side), now, |half, now| half.receive(now, datagram, ecn));
            self.serve_hosted(token)?;
        }
        self.hosted().buffer = buffer;
        Ok(())
    }

    /// After an event at an end: moves bytes, sends datagrams and notifies the application until nothing changes.
    pub(super) fn serve_hosted(&mut self, token: Token) -> io::Result<()> {
        let which = which(token);
        let now = self.clock.now();
        loop {
            let peer_accepted = self.hosted().flow.peer_accepted(which.0, which.1);
            self.ask(which, now, |half, now| half.move_bytes(now, peer_accepted));
            self.flush_hosted(which, now)?;
            if !self.report_to_hosted(which, now)? {
                break;
            }
        }
        let states = self.ask(which, now, |half, _| {
            half.timeout = half.endpoint.next_timeout();
            let state = half.endpoint.state();
            (std::mem::replace(&mut half.state, state), state)
        });
        let Some((before, state)) = states else { return Ok(()) };
        let (flow, (serial, side)) = (FlowId(self.plan.number), which);
        if state.congestion_events > before.congestion_events && side == Side::Client {
            self.record.congestion.push(CongestionRow {
                t_s: now.as_secs_f64(),
                flow,
                kind: CongestionEventKind::RecoveryEntered,
                cwnd_before: before.cwnd,
                cwnd_after: state.cwnd,
                ssthresh: Threshold(state.ssthresh),
                in_flight: state.in_flight,
            });
        }
        if self.record.wanted(now).states {
            let row = self.hosted().shown.row(now, flow, serial, side == Side::Server, &state);
            self.record.states.extend(row);
        }
        Ok(())
    }

    /// Sends every datagram that the stack has ready.
    fn flush_hosted(&mut self, which: Which, now: Time) -> io::Result<()> {
        let (serial, side) = which;
        let ip = self.plan.ip;
        let mut datagram = std::mem::take(&mut self.hosted().datagram);
        loop {
            datagram.clear();
            let mtu = self.hosted().flow.mtu;
            let ecn = match self.ask(which, now, |half, now| half.transmit(now, mtu, &mut datagram)) {
                Some(Ok(Some(ecn))) => ecn,
                Some(Err((what, kind))) => {
                    self.accuse(now, what, kind);
                    break;
                }
                Some(Ok(None)) | None => break,
            };
            let hosted = self.hosted();
            if !hosted.flow.is_advancing(now) {
                let fault = hosted.flow.fault_of_haste(now);
                self.fault.get_or_insert(fault);
                break;
            }
            let Some(wire) = hosted.wires.get_mut(&serial) else { break };
            let socket = wire.sockets[index(side)].as_fd();
            if std::mem::replace(&mut wire.ecn[index(side)], ecn) != ecn {
                let (level, class) = match ip {
                    IpVersion::V4 => (libc::IPPROTO_IP, libc::IP_TOS),
                    IpVersion::V6 => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
                };
                sys::set_option(socket, level, class, ecn as i32)?;
            }
            match sys::send(socket, &datagram) {
                Ok(Some(_)) if side == Side::Client => self.record.streams.push(serial as u16),
                Ok(Some(_)) => {}
                // The socket's buffer is full, or refused an earlier datagram: it is lost, as at a full host.
                Ok(None) => self.record.socket_drops += 1,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.record.socket_drops += 1;
                }
                // The device counts its own drops.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error),
            }
        }
        self.hosted().datagram = datagram;
        Ok(())
    }

    /// Calls the application at the time it asked for.
    fn call_back_hosted(&mut self, (serial, side): Which, now: Time) -> io::Result<()> {
        let live = self.hosted().flow.live.iter().find(|live| live.serial == serial);
        let Some(connection) = live.map(|live| live.connection) else { return Ok(()) };
        self.cue(side, Cue::Due(connection), now)
    }

    /// Notifies the application of what is new; returns whether there was anything.
    fn report_to_hosted(&mut self, which: Which, now: Time) -> io::Result<bool> {
        let (serial, side) = which;
        let Some(step) = self.ask(which, now, Half::step) else { return Ok(false) };
        if step.has_failed() {
            self.close_hosted(which, now, true)?;
            return Ok(false);
        }
        let mut is_news = false;
        for news in News::IN_ORDER {
            let Some(cue) = self.hosted().flow.cue(serial, side, news, step) else { continue };
            is_news = true;
            match (news, side) {
                (News::Established, Side::Client) => {
                    self.record.tally.established = self.record.tally.established.min(now);
                }
                (News::Closed, Side::Client) => {
                    self.record.tally.finished = now;
                    // The side that opened the connection closes it after all data is exchanged.
                    self.ask(which, now, |half, now| half.endpoint.close(now));
                }
                _ => {}
            }
            self.cue(side, cue, now)?;
        }
        let live = self.hosted().flow.live.iter().find(|live| live.serial == serial);
        let Some(live) = live else { return Ok(false) };
        if live.is_over() {
            self.close_hosted(which, now, false)?;
            return Ok(false);
        }
        Ok(is_news)
    }

    /// Ends a connection that is over at both ends or failed at one.
    fn close_hosted(&mut self, (serial, side): Which, now: Time, has_failed: bool) -> io::Result<()> {
        if has_failed {
            let why = self.ask((serial, side), now, |half, _| half.endpoint.failure()).flatten();
            self.hosted().flow.note_failure(now, why);
        }
        let hosted = self.hosted();
        let Some(at) = hosted.flow.live.iter().position(|live| live.serial == serial) else { return Ok(()) };
        let mut live = hosted.flow.live.remove(at);
        if let Some(wire) = hosted.wires.remove(&serial) {
            self.count_drops(&wire);
            self.hosted().past.push_back((now + LINGER, wire));
        }
        live.end();
        self.record.tally.add_foreign(&live);
        self.record.tally.failed += u64::from(has_failed);
        self.record.abandoned((live.row != NO_ROW).then_some(live.row as usize));
        if has_failed {
            self.cue(Side::Client, Cue::Failed(live.connection), now)?;
        }
        self.cue(Side::Client, Cue::Released(live.connection), now)
    }

    fn count_drops(&mut self, wire: &Wire) {
        let dropped = wire.sockets.iter().map(|socket| sys::dropped(socket.as_fd()).unwrap_or(0));
        self.record.socket_drops += dropped.map(u64::from).sum::<u64>();
    }

    /// At the end of the run: counts connections that are still open.
    pub(super) fn close_hosted_books(&mut self) {
        for mut live in std::mem::take(&mut self.hosted().flow.live) {
            live.end();
            self.record.tally.open += 1;
            self.record.tally.add_foreign(&live);
        }
        for wire in std::mem::take(&mut self.hosted().wires).into_values() {
            self.count_drops(&wire);
        }
        self.record.failures = self.hosted().flow.failures();
    }

    /// Polls the connection opened last.
    fn poll_hosted(&mut self, now: Time) {
        let wanted = self.record.wanted(now);
        let flow = FlowId(self.plan.number);
        let tally = self.record.tally;
        let hosted = self.foreign.as_mut().expect("asked of a foreign stack's flow");
        // Skip polls that were missed: they would show the same state again.
        let interval = self.plan.record.polls.unwrap_or(Duration::from_ms(1));
        hosted.next_poll = (now + Duration::from_ps(1)).ceil_to(interval);
        let (Some(latest), Some(_)) = (hosted.flow.live.last(), wanted.polls) else { return };
        let live = || hosted.flow.live.iter();
        let received = tally.bytes_received + live().map(|live| live.halves[1].read).sum::<Bytes>();
        let progress = probe::Progress {
            acked: tally.bytes_acked + live().map(|live| live.halves[0].state.bytes_acked).sum::<Bytes>(),
            received,
            arrived: received,
        };
        self.record.polls.push(stacks::poll_row(now, flow, &latest.halves[0].state, progress));
    }
}
