//! Applications on real sockets: one thread a flow, both its ends.
//!
//! The thread makes its sockets inside the two hosts and puts them in the place of the simulator's connections: the
//! flow's application is the simulator's own code, told the same cues and granted the same wishes.

pub mod connections;
pub mod ledger;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tailback_core::time::{Bytes, Duration, Time};
use tailback_core::traffic::registry::App;
use tailback_core::traffic::{Application, Connection, Cue, Opening, Report, Say, Side, Wish};

use self::connections::{End, Pair, Token, index};
use self::ledger::{Ledger, Recording};
use crate::clock::Clock;
use crate::emulator::addresses;
use crate::epoll::Epoll;
use crate::error::LiveError;
use crate::sys::{self, TcpInfo};

/// Every flow has addresses of its own, so one port serves all.
pub const PORT: u16 = 5000;
/// The kernel is given this much more than it has sent, so that stopping does not leave a buffer to drain.
const AHEAD: i32 = 256 * 1024;
/// A stop is heard within this.
const NAP: std::time::Duration = std::time::Duration::from_millis(20);
/// Ends that wait for their last acknowledgement are looked at this often.
const LOOK: Duration = Duration::from_ms(1);
/// UDP and IPv4 headers.
const DATAGRAM_HEADERS: u32 = 28;
/// IPv4 and TCP headers without options.
const TCP_HEADERS: u32 = 40;
/// The timestamps option, padded.
const TIMESTAMPS: u32 = 12;
/// What TCP_MAXSEG takes.
const SEGMENTS: std::ops::RangeInclusive<u32> = 88..=32_767;
const SO_SNDBUFFORCE: i32 = 32;
const SO_RCVBUFFORCE: i32 = 33;
const TCP_WINDOW_CLAMP: i32 = 10;
const TCP_NOTSENT_LOWAT: i32 = 25;
const IP_BIND_ADDRESS_NO_PORT: i32 = 24;
/// Tokens that are no connection's.
const LISTENER: u64 = u64::MAX;
const DATAGRAMS: [u64; 2] = [u64::MAX - 1, u64::MAX - 2];
/// A number in a datagram, as long as it is.
const NUMBER_BYTES: usize = 8;

/// TCP settings of a flow.
#[derive(Clone, Debug)]
pub struct TcpPlan {
    /// Congestion controls by the kernel's names, used in turn.
    pub turns: Vec<String>,
    /// Send buffer; `None`: the kernel's own sizing.
    pub send_buffer: Option<u64>,
    /// Receive buffer; `None`: the kernel's own sizing.
    pub receive_buffer: Option<u64>,
    /// Largest IP packet.
    pub mtu: u32,
    /// Payload of a full segment, if the application limits it.
    pub segment: Option<u32>,
    /// Bytes that may be unacknowledged, if the application limits them.
    pub window: Option<Bytes>,
}

impl TcpPlan {
    /// TCP_MAXSEG, which counts the options in.
    pub fn largest_segment(&self) -> u32 {
        let most = self.mtu - TCP_HEADERS;
        self.segment.map_or(most, |bytes| most.min(bytes + TIMESTAMPS))
    }
}

/// A flow to be run.
#[derive(Debug)]
pub struct FlowPlan {
    /// Number in the scenario.
    pub number: u32,
    /// Name in the scenario.
    pub name: String,
    /// The application.
    pub app: App,
    /// It wants to see its datagrams.
    pub wants_datagrams: bool,
    /// Starts and stops, in turn.
    pub switches: VecDeque<Time>,
    /// TCP settings; `None`: datagrams.
    pub tcp: Option<TcpPlan>,
    /// What is recorded.
    pub record: Recording,
}

/// What a flow's thread shows others while it runs: its latest connection.
#[derive(Debug, Default)]
pub struct FlowState {
    latest: Mutex<Latest>,
}

#[derive(Debug, Default)]
struct Latest {
    sockets: Option<[Option<Arc<OwnedFd>>; 2]>,
    serial: u64,
    past_acked: Bytes,
    past_received: Bytes,
}

impl FlowState {
    fn lock(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the kernel says of the latest connection's client, `bytes_acked` over all the flow's connections, and
    /// the payload received at the servers; `None` while there is none.
    pub fn look(&self) -> Option<(TcpInfo, Bytes)> {
        let latest = self.lock();
        let [client, server] = latest.sockets.as_ref()?;
        let mut info = sys::tcp_info(client.as_ref()?.as_fd()).ok()?;
        info.bytes_acked += latest.past_acked;
        let server = server.as_ref().and_then(|socket| sys::tcp_info(socket.as_fd()).ok());
        Some((info, latest.past_received + server.map_or(0, |server| server.bytes_received)))
    }
}

/// A flow with its sockets made, ready to start.
#[derive(Debug)]
pub struct Ready<'a> {
    plan: FlowPlan,
    state: &'a FlowState,
    /// The client's host.
    from: OwnedFd,
    sockets: Sockets,
}

#[derive(Debug)]
enum Sockets {
    /// The server's.
    Listener(OwnedFd),
    /// The client's and the server's.
    Datagrams([OwnedFd; 2]),
}

/// Make the flow's sockets; the hosts are given by their namespaces.
pub fn prepare<'a>(
    plan: FlowPlan,
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    state: &'a FlowState,
) -> Result<Ready<'a>, LiveError> {
    let name = plan.name.clone();
    let made = std::thread::scope(|scope| scope.spawn(|| sockets(&plan, from, to)).join());
    let made = made.expect("making sockets does not panic");
    let ready = made.and_then(|sockets| {
        let from = from.try_clone_to_owned()?;
        Ok(Ready { plan, state, from, sockets })
    });
    ready.map_err(|error| LiveError::Failed(format!("making the sockets of flow {name}: {error}")))
}

fn sockets(plan: &FlowPlan, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<Sockets> {
    let [near, far] = addresses(plan.number).map(|address| SocketAddrV4::new(address, PORT));
    sys::enter_network(to)?;
    if let Some(tcp) = &plan.tcp {
        let listener = sys::socket(libc::SOCK_STREAM)?;
        configure(listener.as_fd(), tcp, 0)?;
        sys::bind(listener.as_fd(), far)?;
        sys::listen(listener.as_fd())?;
        return Ok(Sockets::Listener(listener));
    }
    let server = sys::socket(libc::SOCK_DGRAM)?;
    sys::bind(server.as_fd(), far)?;
    sys::connect(server.as_fd(), near)?;
    sys::enter_network(from)?;
    let client = sys::socket(libc::SOCK_DGRAM)?;
    sys::bind(client.as_fd(), near)?;
    sys::connect(client.as_fd(), far)?;
    for socket in [&server, &client] {
        // Room for a second of any call, in case this thread is late.
        sys::set_option(socket.as_fd(), libc::SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)?;
    }
    Ok(Sockets::Datagrams([client, server]))
}

fn configure(socket: BorrowedFd<'_>, tcp: &TcpPlan, turn: u32) -> io::Result<()> {
    // The kernel doubles what it is told, and counts its own bookkeeping in: this is the figure `ss` shows.
    let halved = |bytes: u64| i32::try_from(bytes / 2).unwrap_or(i32::MAX / 2);
    // A window an application wants open fits whole, bookkeeping and all.
    let send = tcp.send_buffer.or(tcp.window.map(|window| 2 * window));
    if let Some(bytes) = send {
        sys::set_option(socket, libc::SOL_SOCKET, SO_SNDBUFFORCE, halved(bytes))?;
    }
    if let Some(bytes) = tcp.receive_buffer.or(tcp.window.map(|window| 4 * window)) {
        sys::set_option(socket, libc::SOL_SOCKET, SO_RCVBUFFORCE, halved(bytes))?;
    }
    if let Some(window) = tcp.window {
        // The limit is the receiver's, which offers no more: the kernel's send buffer does not count payload alone.
        let clamp = i32::try_from(window).unwrap_or(i32::MAX);
        sys::set_option(socket, libc::IPPROTO_TCP, TCP_WINDOW_CLAMP, clamp)?;
    }
    sys::set_option(socket, libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT, AHEAD)?;
    if SEGMENTS.contains(&tcp.largest_segment()) {
        sys::set_option(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, tcp.largest_segment() as i32)?;
    }
    choose(socket, tcp, turn)
}

fn choose(socket: BorrowedFd<'_>, tcp: &TcpPlan, turn: u32) -> io::Result<()> {
    let cc = &tcp.turns[turn as usize % tcp.turns.len()];
    sys::set_congestion(socket, cc)
        .map_err(|error| io::Error::new(error.kind(), format!("choosing congestion control {cc}: {error}")))
}

impl<'a> Ready<'a> {
    /// Run the flow until `end` or until told to stop; returns its books.
    pub fn run(self, clock: Clock, end: Time, stop: &AtomicBool) -> Result<Ledger, LiveError> {
        sys::exact_timers();
        let name = self.plan.name.clone();
        let ran = sys::enter_network(self.from.as_fd())
            .and_then(|()| Flow::new(self, clock))
            .and_then(|flow| flow.work(end, stop));
        ran.map_err(|error| LiveError::Failed(format!("flow {name}: {error}")))
    }
}

/// A flow under way.
struct Flow<'a> {
    plan: FlowPlan,
    state: &'a FlowState,
    sockets: Sockets,
    clock: Clock,
    events: Epoll,
    pairs: Vec<Option<Pair>>,
    /// Connections by the client's port: how an accepted socket finds its own.
    by_port: BTreeMap<u16, Connection>,
    calls: BinaryHeap<Reverse<(Time, Token)>>,
    /// Ends to look at.
    touched: VecDeque<Token>,
    /// Ends that wait for acknowledgements only, and when to look at them next.
    closing: Vec<Token>,
    next_look: Time,
    is_on: bool,
    wake: Time,
    serial: u64,
    datagrams: u64,
    say: Say,
    ledger: Ledger,
}

impl<'a> Flow<'a> {
    fn new(ready: Ready<'a>, clock: Clock) -> io::Result<Self> {
        let Ready { plan, state, sockets, .. } = ready;
        let events = Epoll::new()?;
        match &sockets {
            Sockets::Listener(listener) => events.add(listener.as_fd(), LISTENER)?,
            Sockets::Datagrams(both) => {
                for (socket, token) in both.iter().zip(DATAGRAMS) {
                    events.add(socket.as_fd(), token)?;
                }
            }
        }
        let ledger = Ledger::new(plan.number, plan.record);
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
            say: Say::default(),
            ledger,
        })
    }

    fn work(mut self, end: Time, stop: &AtomicBool) -> io::Result<Ledger> {
        let mut tokens = Vec::new();
        loop {
            let now = self.clock.now();
            if now >= end || stop.load(Ordering::Relaxed) {
                break;
            }
            self.keep_time(now)?;
            let due = self.next_due().min(end);
            self.events.wait(self.clock.until(due).min(NAP), &mut tokens)?;
            for token in tokens.drain(..) {
                match token {
                    LISTENER => self.accept()?,
                    token if DATAGRAMS.contains(&token) => self.hear(token)?,
                    token => self.touched.push_back(Token(token)),
                }
            }
            // The kernel does not always tell of the last acknowledgement.
            if self.next_look <= now {
                self.next_look = now + LOOK;
                self.touched.extend(self.closing.drain(..));
            }
            self.settle()?;
        }
        self.close_books();
        Ok(self.ledger)
    }

    fn next_due(&self) -> Time {
        let switch = self.plan.switches.front().copied().unwrap_or(Time::NEVER);
        let call = self.calls.peek().map_or(Time::NEVER, |Reverse((time, _))| *time);
        let look = if self.closing.is_empty() { Time::NEVER } else { self.next_look };
        self.wake.min(switch).min(call).min(look)
    }

    /// Tell the application of every time that has come.
    fn keep_time(&mut self, now: Time) -> io::Result<()> {
        while let Some(due) = self.plan.switches.front().copied().filter(|due| *due <= now) {
            self.plan.switches.pop_front();
            self.is_on = !self.is_on;
            if !self.is_on {
                self.wake = Time::NEVER;
            }
            // By its due time: what follows from a start at equal intervals does not inherit this thread's lateness.
            self.cue(Side::Client, if self.is_on { Cue::Start } else { Cue::Stop }, due)?;
            self.settle()?;
        }
        if self.wake <= now {
            self.wake = Time::NEVER;
            self.cue(Side::Client, Cue::Wake, now)?;
        }
        while let Some(Reverse((due, token))) =
            self.calls.peek().copied().filter(|Reverse((due, _))| *due <= now)
        {
            self.calls.pop();
            let (connection, side) = token.place();
            // One that was asked for again since, or whose connection is over, is void.
            let Some(end) = self.end(token).filter(|end| end.call_at == due) else { continue };
            end.call_at = Time::NEVER;
            self.cue(side, Cue::Due(connection), now)?;
        }
        self.settle()
    }

    fn settle(&mut self) -> io::Result<()> {
        while let Some(token) = self.touched.pop_front() {
            self.look_after(token)?;
        }
        Ok(())
    }

    fn pair(&mut self, connection: Connection) -> Option<&mut Pair> {
        self.pairs.get_mut(connection as usize)?.as_mut()
    }

    /// The end a token means, if it is still there.
    fn end(&mut self, token: Token) -> Option<&mut End> {
        let (connection, side) = token.place();
        let pair = self.pair(connection)?;
        (Token::new(pair.serial, connection, side) == token).then(|| &mut pair.ends[index(side)])
    }

    /// Move an end's bytes and tell its application what has come of it, until there is nothing new.
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
                    self.ledger.tally.established = self.ledger.tally.established.min(now);
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
                end.has_told = true;
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
                self.ledger.tally.finished = now;
            }
            self.cue(side, cue, now)?;
        }
        let is_over = self.pair(connection).is_some_and(|pair| pair.ends.iter().all(|end| end.is_over));
        if is_over { self.release(connection, false) } else { Ok(()) }
    }

    /// Show others the connection as the latest one.
    fn show(&mut self, connection: Connection) {
        let state = self.state;
        let Some(pair) = self.pair(connection) else { return };
        let mut latest = state.lock();
        if pair.serial >= latest.serial {
            latest.serial = pair.serial;
            latest.sockets = Some([0, 1].map(|end: usize| pair.ends[end].socket.clone()));
        }
    }

    fn fail(&mut self, connection: Connection) -> io::Result<()> {
        self.release(connection, true)
    }

    /// A connection is over: count it, forget it, and give its number back.
    fn release(&mut self, connection: Connection, has_failed: bool) -> io::Result<()> {
        let Some(pair) = self.pairs.get_mut(connection as usize).and_then(Option::take) else {
            return Ok(());
        };
        self.count(&pair);
        self.ledger.abandoned(pair.row);
        self.by_port.remove(&pair.port);
        let now = self.clock.now();
        if has_failed {
            self.ledger.tally.failed += 1;
            pair.ends.iter().for_each(End::cut_off);
            self.cue(Side::Client, Cue::Failed(connection), now)?;
        }
        self.cue(Side::Client, Cue::Released(connection), now)
    }

    /// Put what a connection has done on the books.
    fn count(&mut self, pair: &Pair) {
        let [client, server] = &pair.ends;
        let tally = &mut self.ledger.tally;
        if let Some(info) = client.info() {
            tally.add_client(&info);
            tally.bytes_acked += client.acked(&info);
        }
        if let Some(info) = server.info() {
            tally.add_server(&info);
        }
        tally.bytes_received += server.received;
        tally.bytes_returned += client.received;
        let mut latest = self.state.lock();
        (latest.past_acked, latest.past_received) = (tally.bytes_acked, tally.bytes_received);
        if latest.serial == pair.serial {
            latest.sockets = None;
        }
    }

    /// At the end: connections still alive are counted, and cut off so that nothing of them keeps the hosts alive.
    fn close_books(&mut self) {
        for pair in std::mem::take(&mut self.pairs).into_iter().flatten() {
            self.ledger.tally.open += 1;
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
            // Whoever has given up meanwhile has no name any more.
            let port = sys::peer_port(socket.as_fd()).unwrap_or(0);
            let Some(&connection) = self.by_port.get(&port) else { continue };
            let tcp = self.plan.tcp.as_ref().expect("only TCP accepts");
            let Some(pair) = self.pairs[connection as usize].as_mut() else { continue };
            if tcp.turns.len() > 1 {
                choose(socket.as_fd(), tcp, pair.turn)?;
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
                // The path told of a loss; whoever sends datagrams does not mind.
                Err(_) => continue,
            };
            if self.plan.wants_datagrams && length >= NUMBER_BYTES {
                let number = u64::from_le_bytes(buffer[..NUMBER_BYTES].try_into().expect("as long"));
                let bytes = length as u32 + DATAGRAM_HEADERS;
                if side == Side::Client {
                    self.ledger.tally.bytes_returned += Bytes::from(bytes);
                }
                let now = self.clock.now();
                self.cue(side, Cue::Datagram { number, bytes }, now)?;
            }
        }
    }

    /// Tell the application, and grant its wishes.
    fn cue(&mut self, side: Side, cue: Cue, now: Time) -> io::Result<()> {
        let mut say = std::mem::take(&mut self.say);
        self.plan.app.step(side, cue, now, &mut say);
        for wish in say.wishes.drain(..) {
            self.grant(side, wish, now)?;
        }
        self.say = say;
        Ok(())
    }

    /// Wishes for a connection that is over come to nothing.
    fn grant(&mut self, side: Side, wish: Wish, now: Time) -> io::Result<()> {
        match wish {
            Wish::WakeAt(time) => self.wake = time,
            Wish::Datagram { bytes, stream } => {
                let number = self.datagrams;
                self.datagrams += 1;
                if self.send(side, number, bytes)? && side == Side::Client {
                    self.ledger.streams.push(stream);
                }
            }
            Wish::Reply { number, bytes } => {
                self.send(side, number, bytes)?;
            }
            Wish::Report(report) => self.report(report),
            Wish::TurnAway => {
                self.ledger.tally.connections += 1;
                self.ledger.tally.failed += 1;
            }
            Wish::Connect(opening) => {
                self.ledger.tally.connections += 1;
                if let Err(error) = self.open(opening) {
                    if !is_limit(&error) {
                        return Err(error);
                    }
                    self.ledger.tally.failed += 1;
                    self.cue(Side::Client, Cue::Failed(opening.connection), now)?;
                    self.cue(Side::Client, Cue::Released(opening.connection), now)?;
                }
            }
            Wish::Write(connection, bytes) => self.at(connection, side, |end| {
                end.unsent = end.unsent.map(|unsent| unsent + bytes);
            }),
            Wish::WriteForever(connection) => self.at(connection, side, |end| end.unsent = None),
            Wish::Close { connection, discard } => self.at(connection, side, |end| {
                end.closes = true;
                if discard {
                    end.unsent = Some(0);
                }
            }),
            Wish::TellReceived(connection, bytes) => self.at(connection, side, |end| end.mark = bytes),
            Wish::TellDrained(connection) => self.at(connection, side, |end| end.wants_drained = true),
            Wish::Carry(_) => unreachable!("tunnels were refused"),
            Wish::CallAt(connection, time) => {
                let mut token = None;
                if let Some(pair) = self.pair(connection) {
                    pair.ends[index(side)].call_at = time;
                    token = Some(Token::new(pair.serial, connection, side));
                }
                self.calls.extend(token.map(|token| Reverse((time, token))));
            }
        }
        Ok(())
    }

    fn at(&mut self, connection: Connection, side: Side, change: impl FnOnce(&mut End)) {
        let Some(pair) = self.pair(connection) else { return };
        change(&mut pair.ends[index(side)]);
        let token = Token::new(pair.serial, connection, side);
        self.touched.push_back(token);
    }

    fn open(&mut self, opening: Opening) -> io::Result<()> {
        let tcp = self.plan.tcp.as_ref().expect("an application over datagrams opens no connection");
        let [near, far] = addresses(self.plan.number);
        let socket = sys::socket(libc::SOCK_STREAM)?;
        configure(socket.as_fd(), tcp, opening.turn)?;
        // The port is chosen when it is known where to: then one is taken only for the same peer.
        sys::set_option(socket.as_fd(), libc::IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)?;
        sys::bind(socket.as_fd(), SocketAddrV4::new(near, 0))?;
        sys::connect(socket.as_fd(), SocketAddrV4::new(far, PORT))?;
        let port = sys::own_port(socket.as_fd())?;
        self.serial += 1;
        let token = Token::new(self.serial, opening.connection, Side::Client);
        self.events.add(socket.as_fd(), token.0)?;
        let place = opening.connection as usize;
        if self.pairs.len() <= place {
            self.pairs.resize_with(place + 1, || None);
        }
        assert!(self.pairs[place].is_none(), "flow {}: connection {place} is in use", self.plan.name);
        self.pairs[place] = Some(Pair::new(self.serial, opening.turn, port, Arc::new(socket)));
        self.by_port.insert(port, opening.connection);
        self.ledger.tally.finished = Time::NEVER;
        Ok(())
    }

    /// Send a datagram; false if the kernel had no room: a full device drops it, as a full host would.
    fn send(&mut self, side: Side, number: u64, bytes: u32) -> io::Result<bool> {
        let Sockets::Datagrams(both) = &self.sockets else { return Ok(false) };
        let mut payload = [0; 65_536];
        payload[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
        let payload = &payload[..bytes.saturating_sub(DATAGRAM_HEADERS) as usize];
        match sys::send(both[index(side)].as_fd(), payload) {
            Ok(sent) => Ok(sent.is_some()),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(false),
            // The path told of an earlier loss.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn report(&mut self, report: Report) {
        // Measured when it happens, not when it was due.
        let now = self.clock.now();
        match report {
            Report::Asked { connection, kind, bytes, turn } => {
                let turns = self.plan.tcp.as_ref().map_or(1, |tcp| tcp.turns.len() as u32);
                let Some(pair) = self.pairs.get_mut(connection as usize).and_then(Option::as_mut) else {
                    return;
                };
                pair.row = self.ledger.asked(now, kind, bytes, (turn % turns) as u16);
            }
            Report::Answered(connection) => {
                let row = self.pair(connection).and_then(|pair| pair.row.take());
                self.ledger.answered(now, row);
            }
            Report::Pinged(number) => self.ledger.pinged(now, number),
            Report::Ponged(number) => self.ledger.ponged(now, number),
        }
    }
}

/// Out of descriptors, ports or memory: the machine's limit, met as the simulator meets its own.
fn is_limit(error: &io::Error) -> bool {
    const LIMITS: [i32; 6] =
        [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM, libc::EADDRNOTAVAIL, libc::EAGAIN];
    error.raw_os_error().is_some_and(|code| LIMITS.contains(&code))
}
