//! Applications on real sockets: one thread per flow runs both of its ends.
//!
//! The thread creates its sockets inside the two hosts and uses them in place of the simulator's connections. The
//! flow's application is the simulator's own code: it gets the same cues, and its actions have the same effect.

mod actions;
pub mod connections;
pub mod flow_record;
mod foreign;
pub mod latest;
pub mod sockets;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tailback_core::engine::foreign::Foreign;
use tailback_core::foreign::StackFault;
use tailback_core::scenario::IpVersion;
use tailback_core::time::{Bytes, Duration, Time};
use tailback_core::traffic::registry::App;
use tailback_core::traffic::{Actions, Connection, Cue, Side};

use self::connections::{End, Pair, Token, index};
use self::flow_record::{FlowRecord, Recording};
use self::foreign::Hosted;
pub use self::latest::FlowState;
use self::sockets::Sockets;
pub use self::sockets::TcpPlan;
use crate::clock::Clock;
use crate::epoll::Epoll;
use crate::error::LiveError;
use crate::run_queue::RunQueue;
use crate::sys;

/// A request to stop takes effect within this.
const NAP: std::time::Duration = std::time::Duration::from_millis(20);
/// If events come at shorter intervals than this, the thread waits without sleeping. Waking a thread on another
/// processor costs the emulator, whose write does it, more than the packet itself.
const THICK: Duration = Duration::from_us(50);
const NO_NAP: std::time::Duration = std::time::Duration::ZERO;
/// Interval at which ends that wait for their last acknowledgement are checked.
const LOOK: Duration = Duration::from_ms(1);
/// IPv4 and UDP headers. Applications' packet sizes include them even over IPv6.
const DATAGRAM_HEADERS: u32 = 28;
/// Tokens that identify no connection.
const LISTENER: u64 = u64::MAX;
const DATAGRAMS: [u64; 2] = [u64::MAX - 1, u64::MAX - 2];
/// Length of the number in a datagram, in bytes.
const NUMBER_BYTES: usize = 8;

/// A flow to be run.
#[derive(Debug)]
pub struct FlowPlan {
    /// Number in the scenario.
    pub number: u32,
    /// Name in the scenario.
    pub name: String,
    /// Version of IP.
    pub ip: IpVersion,
    /// The application.
    pub app: App,
    /// Whether the application wants to see its datagrams.
    pub wants_datagrams: bool,
    /// Alternating start and stop times.
    pub switches: VecDeque<Time>,
    /// TCP settings; `None` for datagrams and foreign stacks.
    pub tcp: Option<TcpPlan>,
    /// The foreign stack that replaces TCP, if any.
    pub foreign: Option<Foreign>,
    /// What is recorded.
    pub record: Recording,
}

/// A flow with its sockets made, ready to start.
#[derive(Debug)]
pub struct Ready<'a> {
    plan: FlowPlan,
    state: &'a FlowState,
    /// The client's host.
    from: OwnedFd,
    sockets: Sockets,
    foreign: Option<Hosted>,
}

/// Creates the flow's sockets in the two hosts, given by their namespaces.
pub fn prepare<'a>(
    mut plan: FlowPlan,
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    state: &'a FlowState,
) -> Result<Ready<'a>, LiveError> {
    let name = plan.name.clone();
    let foreign = plan.foreign.take();
    let made = std::thread::scope(|scope| match foreign {
        Some(_) => Ok(Ok(Sockets::OfConnections)),
        None => scope.spawn(|| sockets::make((plan.number, plan.ip), plan.tcp.as_ref(), from, to)).join(),
    });
    let made = made.expect("making sockets does not panic");
    let ready = made.and_then(|sockets| {
        let share = || Ok::<_, io::Error>([from.try_clone_to_owned()?, to.try_clone_to_owned()?]);
        let polls = plan.record.polls.map(|interval| (interval, plan.record.from));
        let foreign =
            foreign.map(|flow| Ok::<_, io::Error>(Hosted::new(flow, share()?, polls))).transpose()?;
        let from = from.try_clone_to_owned()?;
        Ok(Ready { plan, state, from, sockets, foreign })
    });
    ready.map_err(|error| LiveError::Failed(format!("making the sockets of flow {name}: {error}")))
}

impl<'a> Ready<'a> {
    /// Runs the flow until `end` or `stop`; returns its record.
    pub fn run(self, clock: Clock, end: Time, stop: &AtomicBool) -> Result<FlowRecord, LiveError> {
        sys::exact_timers();
        // An application stands for a host of its own, which no other work on this machine would delay.
        sys::go_first();
        let name = self.plan.name.clone();
        clock.await_start();
        let ran = sys::enter_network(self.from.as_fd())
            .and_then(|()| Flow::new(self, clock))
            .and_then(|flow| flow.work(end, stop));
        ran.map_err(|error| LiveError::Failed(format!("flow {name}: {error}")))
    }
}

/// A running flow.
struct Flow<'a> {
    plan: FlowPlan,
    state: &'a FlowState,
    sockets: Sockets,
    clock: Clock,
    events: Epoll,
    pairs: Vec<Option<Pair>>,
    /// Connections by the client's port, to find the one that an accepted socket belongs to.
    by_port: BTreeMap<u16, Connection>,
    calls: BinaryHeap<Reverse<(Time, Token)>>,
    /// Ends that need attention.
    touched: VecDeque<Token>,
    /// Ends that wait only for acknowledgements, and when to check them next.
    closing: Vec<Token>,
    next_look: Time,
    is_on: bool,
    wake: Time,
    serial: u64,
    datagrams: u64,
    actions: Actions,
    record: FlowRecord,
    run_queue: RunQueue,
    foreign: Option<Hosted>,
    /// The fault of a foreign stack that broke the interface's rules; the flow is over.
    fault: Option<Box<StackFault>>,
}

impl<'a> Flow<'a> {
    fn new(ready: Ready<'a>, clock: Clock) -> io::Result<Self> {
        let Ready { plan, state, sockets, foreign, .. } = ready;
        let events = Epoll::new()?;
        match &sockets {
            Sockets::Listener(listener) => events.add(listener.as_fd(), LISTENER)?,
            Sockets::Datagrams(both) => {
                for (socket, token) in both.iter().zip(DATAGRAMS) {
                    events.add(socket.as_fd(), token)?;
                }
            }
            Sockets::OfConnections => {}
        }
        let record = FlowRecord::new(plan.number, plan.record);
        Ok(Flow {
            plan,
            state,
            sockets,
            clock,
            events,
            pairs: Vec::new(),
            by_port: BTreeMap::new(),
            calls: BinaryHeap::new(),
            touched: VecDeque::new(),
            closing: Vec::new(),
            next_look: Time::ZERO,
            is_on: false,
            wake: Time::NEVER,
            serial: 0,
            datagrams: 0,
            actions: Actions::default(),
            record,
            run_queue: RunQueue::of_this_thread(),
            foreign,
            fault: None,
        })
    }

    fn work(mut self, end: Time, stop: &AtomicBool) -> io::Result<FlowRecord> {
        let mut tokens = Vec::new();
        let (mut heard, mut awake_until) = (Time::ZERO, Time::ZERO);
        loop {
            let now = self.clock.now();
            if now >= end || stop.load(Ordering::Relaxed) || self.fault.is_some() {
                break;
            }
            if let Some(waited) = self.run_queue.look(now) {
                self.record.service.waited.push(waited);
            }
            self.keep_time(now)?;
            let due = self.next_due().min(end);
            let nap = if now < awake_until { NO_NAP } else { self.clock.until(due).min(NAP) };
            self.events.wait(nap, &mut tokens)?;
            if !tokens.is_empty() {
                let last = std::mem::replace(&mut heard, self.clock.now());
                if heard.since(last) < THICK {
                    awake_until = heard + THICK;
                }
            }
            for token in tokens.drain(..) {
                match token {
                    token if self.foreign.is_some() => self.hear_hosted(Token(token))?,
                    LISTENER => self.accept()?,
                    token if DATAGRAMS.contains(&token) => self.hear(token)?,
                    token => self.touched.push_back(Token(token)),
                }
            }
            // The kernel does not report every last acknowledgement, so look for it.
            if self.next_look <= now {
                self.next_look = now + LOOK;
                self.touched.extend(self.closing.drain(..));
            }
            self.settle()?;
        }
        self.close_books();
        if let Some(fault) = self.fault.take() {
            // The fault ended the connections that were open.
            let connections = std::mem::take(&mut self.record.tally.open);
            self.record.tally.failed += connections;
            self.record.fault = Some((connections, fault));
        }
        Ok(self.record)
    }

    fn next_due(&self) -> Time {
        let switch = self.plan.switches.front().copied().unwrap_or(Time::NEVER);
        let call = self.calls.peek().map_or(Time::NEVER, |Reverse((time, _))| *time);
        let look = if self.closing.is_empty() { Time::NEVER } else { self.next_look };
        let hosted = self.foreign.as_ref().map_or(Time::NEVER, Hosted::next_due);
        self.wake.min(switch).min(call).min(look).min(hosted)
    }

    /// Reports to the application each time that has been reached.
    fn keep_time(&mut self, now: Time) -> io::Result<()> {
        while let Some(due) = self.plan.switches.front().copied().filter(|due| *due <= now) {
            self.plan.switches.pop_front();
            self.record.service.late.push(now.since(due));
            self.is_on = !self.is_on;
            if !self.is_on {
                self.wake = Time::NEVER;
            }
            // The cue carries the due time, so that times derived from a start do not inherit this thread's lateness.
            self.cue(Side::Client, if self.is_on { Cue::Start } else { Cue::Stop }, due)?;
            self.settle()?;
        }
        if self.wake <= now {
            self.record.service.late.push(now.since(self.wake));
            self.wake = Time::NEVER;
            self.cue(Side::Client, Cue::Wake, now)?;
        }
        while let Some(Reverse((due, token))) =
            self.calls.peek().copied().filter(|Reverse((due, _))| *due <= now)
        {
            self.calls.pop();
            let (connection, side) = token.place();
            // A later request replaces this one, and a connection that is over needs none.
            let Some(end) = self.end(token).filter(|end| end.call_at == due) else { continue };
            end.call_at = Time::NEVER;
            self.record.service.late.push(now.since(due));
            self.cue(side, Cue::Due(connection), now)?;
        }
        if self.foreign.is_some() {
            self.keep_hosted(now)?;
        }
        self.settle()
    }

    fn settle(&mut self) -> io::Result<()> {
        while let Some(token) = self.touched.pop_front() {
            match self.foreign {
                Some(_) => self.serve_hosted(token)?,
                None => self.look_after(token)?,
            }
        }
        Ok(())
    }

    fn pair(&mut self, connection: Connection) -> Option<&mut Pair> {
        self.pairs.get_mut(connection as usize)?.as_mut()
    }

    /// The end that a token refers to, if it still exists.
    fn end(&mut self, token: Token) -> Option<&mut End> {
        let (connection, side) = token.place();
        let pair = self.pair(connection)?;
        (Token::new(pair.serial, connection, side) == token).then(|| &mut pair.ends[index(side)])
    }

    /// Moves an end's bytes and reports the result to its application, until nothing changes.
    fn look_after(&mut self, token: Token) -> io::Result<()> {
        let (connection, side) = token.place();
        while let Some(end) = self.end(token).filter(|end| !end.is_over) {
            if !end.is_established {
                match end.has_connected() {
                    Ok(false) => return Ok(()),
                    Ok(true) => {}
                    Err(_) => return self.fail(connection),
                }
                end.is_established = true;
                let now = self.clock.now();
                if side == Side::Client {
                    self.record.tally.established = self.record.tally.established.min(now);
                    self.show(connection);
                }
                self.cue(side, Cue::Established(connection), now)?;
                continue;
            }
            if end.move_bytes().is_err() {
                return self.fail(connection);
            }
            let cue = if end.received >= end.mark {
                end.mark = Bytes::MAX;
                Cue::Received(connection, end.received)
            } else if end.wants_drained && end.is_drained()? {
                end.wants_drained = false;
                Cue::Drained(connection)
            } else if end.has_news_of_peer() {
                end.has_reported = true;
                Cue::PeerFinished(connection)
            } else if end.is_closed() {
                end.is_over = true;
                Cue::Closed(connection)
            } else {
                if end.is_closing() || end.wants_drained {
                    self.closing.push(token);
                }
                return Ok(());
            };
            let now = self.clock.now();
            if side == Side::Client && matches!(cue, Cue::Closed(_)) {
                self.record.tally.finished = now;
            }
            self.cue(side, cue, now)?;
        }
        let is_over = self.pair(connection).is_some_and(|pair| pair.ends.iter().all(|end| end.is_over));
        if is_over { self.release(connection, false) } else { Ok(()) }
    }

    /// Publishes the connection as the latest one.
    fn show(&mut self, connection: Connection) {
        let state = self.state;
        let Some(pair) = self.pair(connection) else { return };
        state.show(pair);
    }

    fn fail(&mut self, connection: Connection) -> io::Result<()> {
        self.release(connection, true)
    }

    /// Ends a connection: counts it, forgets it and frees its number.
    fn release(&mut self, connection: Connection, has_failed: bool) -> io::Result<()> {
        let Some(pair) = self.pairs.get_mut(connection as usize).and_then(Option::take) else {
            return Ok(());
        };
        self.count(&pair);
        self.record.abandoned(pair.row);
        self.by_port.remove(&pair.port);
        let now = self.clock.now();
        if has_failed {
            self.record.tally.failed += 1;
            pair.ends.iter().for_each(End::cut_off);
            self.cue(Side::Client, Cue::Failed(connection), now)?;
        }
        self.cue(Side::Client, Cue::Released(connection), now)
    }

    /// Adds a connection's totals to the record.
    fn count(&mut self, pair: &Pair) {
        let [client, server] = &pair.ends;
        let tally = &mut self.record.tally;
        if let Some(info) = client.info() {
            tally.add_client(&info);
            tally.bytes_acked += client.acked(&info);
        }
        if let Some(info) = server.info() {
            tally.add_server(&info);
        }
        tally.bytes_received += server.received;
        tally.bytes_returned += client.received;
        self.state.forget(pair, tally);
    }

    /// At the end of the run: counts connections that are still open, and resets them so that they do not keep the
    /// hosts alive.
    fn close_books(&mut self) {
        if self.foreign.is_some() {
            self.close_hosted_books();
        }
        for pair in std::mem::take(&mut self.pairs).into_iter().flatten() {
            self.record.tally.open += 1;
            self.count(&pair);
            pair.ends.iter().for_each(End::cut_off);
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        let Sockets::Listener(listener) = &self.sockets else { return Ok(()) };
        let mut fresh = Vec::new();
        while let Some(socket) = sys::accept(listener.as_fd())? {
            fresh.push(socket);
        }
        for socket in fresh {
            // A peer that has given up meanwhile no longer has a port.
            let port = sys::peer_port(socket.as_fd()).unwrap_or(0);
            let Some(&connection) = self.by_port.get(&port) else { continue };
            let tcp = self.plan.tcp.as_ref().expect("only TCP accepts");
            let Some(pair) = self.pairs[connection as usize].as_mut() else { continue };
            if tcp.turns.len() > 1 {
                sockets::choose(socket.as_fd(), tcp, pair.turn)?;
            }
            let token = Token::new(pair.serial, connection, Side::Server);
            self.events.add(socket.as_fd(), token.0)?;
            pair.ends[1].socket = Some(Arc::new(socket));
            if pair.ends[0].is_established {
                self.show(connection);
            }
            self.touched.push_back(token);
        }
        Ok(())
    }

    fn hear(&mut self, token: u64) -> io::Result<()> {
        let which = usize::from(token == DATAGRAMS[1]);
        let side = [Side::Client, Side::Server][which];
        let mut buffer = [0; 65_536];
        loop {
            let Sockets::Datagrams(both) = &self.sockets else { return Ok(()) };
            let length = match sys::receive(both[which].as_fd(), &mut buffer) {
                Ok(Some(length)) => length,
                Ok(None) => return Ok(()),
                // The path reported a loss, which a datagram sender ignores.
                Err(_) => continue,
            };
            if self.plan.wants_datagrams && length >= NUMBER_BYTES {
                let number = u64::from_le_bytes(buffer[..NUMBER_BYTES].try_into().expect("as long"));
                let bytes = length as u32 + DATAGRAM_HEADERS;
                if side == Side::Client {
                    self.record.tally.bytes_returned += Bytes::from(bytes);
                }
                let now = self.clock.now();
                // Sockets are not asked for CE marks: flows that need them were refused.
                self.cue(side, Cue::Datagram { number, bytes, is_marked: false }, now)?;
            }
        }
    }
}
