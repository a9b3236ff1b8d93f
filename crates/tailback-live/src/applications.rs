//! Applications on real sockets: one thread a flow, both its ends.
//!
//! The thread makes its sockets inside the two hosts and does what the scenario's application does. Payload is
//! zeros, and is thrown away uncopied at the other end.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tailback_core::scenario::{AppSpec, Value};
use tailback_core::time::{Bytes, Duration, Time};

use crate::clock::Clock;
use crate::emulator::addresses;
use crate::error::LiveError;
use crate::sys::{self, Interest};

/// Every flow has addresses of its own, so one port serves all.
pub const PORT: u16 = 5000;
/// The kernel is given this much more than it has sent, so that stopping does not leave a buffer to drain.
const AHEAD: i32 = 256 * 1024;
/// Written at once.
const CHUNK: usize = 64 * 1024;
/// Read at once.
const MOUTHFUL: usize = 1 << 20;
/// A stop is heard within this.
const NAP: std::time::Duration = std::time::Duration::from_millis(20);
/// UDP and IPv4 headers.
const DATAGRAM_HEADERS: u32 = 28;
/// IPv4 and TCP headers without options.
const TCP_HEADERS: u32 = 40;
const SO_SNDBUFFORCE: i32 = 32;
const SO_RCVBUFFORCE: i32 = 33;
const TCP_NOTSENT_LOWAT: i32 = 25;

/// What a flow does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Application {
    /// Writes so many bytes, or without limit, then closes.
    Bulk {
        /// Payload; `None`: until it is stopped.
        bytes: Option<Bytes>,
    },
    /// Sends datagrams at equal intervals.
    Call {
        /// Between datagrams.
        interval: Duration,
        /// IP length of each.
        packet_bytes: u32,
    },
}

impl Application {
    /// The names of the applications that run live.
    pub const NAMES: [&'static str; 2] = ["bulk", "voip"];

    /// The application described; `None` if it does not run live. Its parameters were checked by the core.
    pub fn of(spec: &AppSpec) -> Option<Self> {
        let number = |name: &str, default: f64| match spec.params.get(name) {
            Some(Value::Number(number)) => *number,
            _ => default,
        };
        match spec.kind.as_str() {
            "bulk" => {
                let bytes = number("bytes", 0.0) as Bytes;
                Some(Application::Bulk { bytes: (bytes > 0).then_some(bytes) })
            }
            "voip" => Some(Application::Call {
                interval: Duration::from_secs_f64(number("interval", 20.0) / 1e3),
                packet_bytes: number("packet_bytes", 200.0) as u32,
            }),
            _ => None,
        }
    }

    /// The largest packet it sends, if it says so.
    pub fn packet_bytes(self) -> Option<u32> {
        match self {
            Application::Bulk { .. } => None,
            Application::Call { packet_bytes, .. } => Some(packet_bytes),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Client,
    Server,
}

/// TCP settings of a flow.
#[derive(Clone, Debug)]
pub struct TcpPlan {
    /// Congestion control by the kernel's name.
    pub cc: String,
    /// Send buffer; `None`: the kernel's own sizing.
    pub send_buffer: Option<u64>,
    /// Receive buffer; `None`: the kernel's own sizing.
    pub receive_buffer: Option<u64>,
    /// Largest IP packet.
    pub mtu: u32,
}

/// A flow to be run.
#[derive(Debug)]
pub struct FlowPlan {
    /// Number in the scenario.
    pub number: u32,
    /// Name in the scenario.
    pub name: String,
    /// The application.
    pub app: Application,
    /// When it starts.
    pub start: Time,
    /// When it stops; [`Time::NEVER`]: at the end.
    pub stop: Time,
    /// TCP settings; `None`: datagrams.
    pub tcp: Option<TcpPlan>,
}

/// What a flow's thread tells others.
#[derive(Debug)]
pub struct FlowState {
    /// The sender's socket, from the time it is made.
    pub client: OnceLock<OwnedFd>,
    /// The receiver's connected socket.
    pub server: OnceLock<OwnedFd>,
    established: AtomicU64,
    finished: AtomicU64,
    /// Payload read at the receiver.
    pub received: AtomicU64,
}

impl Default for FlowState {
    fn default() -> Self {
        FlowState {
            client: OnceLock::new(),
            server: OnceLock::new(),
            established: AtomicU64::new(u64::MAX),
            finished: AtomicU64::new(u64::MAX),
            received: AtomicU64::new(0),
        }
    }
}

impl FlowState {
    /// When the connection was established; [`Time::NEVER`] if it was not.
    pub fn established(&self) -> Time {
        Time::from_ps(self.established.load(Ordering::Relaxed))
    }
    /// When both directions were finished; [`Time::NEVER`] if they were not.
    pub fn finished(&self) -> Time {
        Time::from_ps(self.finished.load(Ordering::Relaxed))
    }
}

/// One end of a flow.
#[derive(Debug, Default)]
struct End {
    /// Bytes still to be written; `None`: without limit.
    unsent: Option<Bytes>,
    closes: bool,
    has_shut: bool,
    peer_finished: bool,
}

impl End {
    fn new() -> Self {
        End { unsent: Some(0), ..End::default() }
    }
    fn wants_to_write(&self) -> bool {
        self.unsent != Some(0)
    }
    fn is_done(&self) -> bool {
        self.has_shut && self.peer_finished
    }
}

/// A flow with its sockets made, ready to start.
#[derive(Debug)]
pub struct Ready<'a> {
    plan: FlowPlan,
    state: &'a FlowState,
    client: OwnedFd,
    listener: OwnedFd,
    ends: [End; 2],
    is_connected: bool,
    wake: Time,
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
    let (client, listener) = made
        .expect("making sockets does not panic")
        .map_err(|error| LiveError::Failed(format!("making the sockets of flow {name}: {error}")))?;
    Ok(Ready {
        plan,
        state,
        client,
        listener,
        ends: [End::new(), End::new()],
        is_connected: false,
        wake: Time::NEVER,
    })
}

fn sockets(plan: &FlowPlan, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<(OwnedFd, OwnedFd)> {
    let [near, far] = addresses(plan.number);
    let kind = if plan.tcp.is_some() { libc::SOCK_STREAM } else { libc::SOCK_DGRAM };
    sys::enter_network(to)?;
    let listener = sys::socket(kind)?;
    configure(listener.as_fd(), plan)?;
    sys::bind(listener.as_fd(), SocketAddrV4::new(far, PORT))?;
    if plan.tcp.is_some() {
        sys::listen(listener.as_fd())?;
    }
    sys::enter_network(from)?;
    let client = sys::socket(kind)?;
    configure(client.as_fd(), plan)?;
    sys::bind(client.as_fd(), SocketAddrV4::new(near, PORT))?;
    if plan.tcp.is_none() {
        sys::connect(client.as_fd(), SocketAddrV4::new(far, PORT))?;
    }
    Ok((client, listener))
}

fn configure(socket: BorrowedFd<'_>, plan: &FlowPlan) -> io::Result<()> {
    let Some(tcp) = &plan.tcp else {
        // Room for a second of any call, in case this thread is late.
        return sys::set_option(socket, libc::SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20);
    };
    // The kernel doubles what it is told, and counts its own bookkeeping in: this is the figure `ss` shows.
    let halved = |bytes: u64| i32::try_from(bytes / 2).unwrap_or(i32::MAX / 2);
    if let Some(bytes) = tcp.send_buffer {
        sys::set_option(socket, libc::SOL_SOCKET, SO_SNDBUFFORCE, halved(bytes))?;
    }
    if let Some(bytes) = tcp.receive_buffer {
        sys::set_option(socket, libc::SOL_SOCKET, SO_RCVBUFFORCE, halved(bytes))?;
    }
    sys::set_option(socket, libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT, AHEAD)?;
    sys::set_option(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, (tcp.mtu - TCP_HEADERS) as i32)?;
    sys::set_congestion(socket, &tcp.cc).map_err(|error| {
        io::Error::new(error.kind(), format!("choosing congestion control {}: {error}", tcp.cc))
    })
}

impl Ready<'_> {
    /// Run the flow until `end` or until told to stop.
    pub fn run(mut self, clock: Clock, end: Time, stop: &AtomicBool) -> Result<(), LiveError> {
        sys::exact_timers();
        let name = self.plan.name.clone();
        let _ = self.state.client.set(self.client.try_clone().map_err(|error| failed(&name, &error))?);
        self.work(clock, end, stop).map_err(|error| failed(&name, &error))
    }

    fn work(&mut self, clock: Clock, end: Time, stop: &AtomicBool) -> io::Result<()> {
        let (mut has_started, mut has_stopped) = (false, false);
        loop {
            let now = clock.now();
            if now >= end || stop.load(Ordering::Relaxed) {
                break;
            }
            if !has_started && now >= self.plan.start {
                has_started = true;
                self.start(now)?;
            }
            if has_started && !has_stopped && now >= self.plan.stop {
                has_stopped = true;
                self.finish();
            }
            if self.wake <= now {
                self.talk(now)?;
            }
            let is_busy = has_started && self.serve(clock)?;
            if is_busy {
                continue;
            }
            let mut next = end.min(self.wake);
            if !has_started {
                next = next.min(self.plan.start);
            } else if !has_stopped {
                next = next.min(self.plan.stop);
            }
            let nap = clock.until(next).min(NAP);
            sys::wait(&self.interests(has_started), Some(nap))?;
        }
        // Whatever is still under way is cut off, so that nothing of it keeps the host alive.
        for socket in [Some(&self.client), self.state.server.get()].into_iter().flatten() {
            let _ = sys::reset_on_close(socket.as_fd());
        }
        Ok(())
    }

    fn interests(&self, has_started: bool) -> Vec<(RawFd, Interest)> {
        if !has_started {
            return Vec::new();
        }
        if self.plan.tcp.is_none() {
            return vec![(self.listener.as_raw_fd(), Interest { read: true, write: false })];
        }
        let mut list = Vec::new();
        let mut add = |socket: &OwnedFd, end: &End, is_connected: bool| {
            let write = !is_connected || (!end.has_shut && end.wants_to_write());
            let read = is_connected && !end.peer_finished;
            if read || write {
                list.push((socket.as_raw_fd(), Interest { read, write }));
            }
        };
        add(&self.client, &self.ends[0], self.is_connected);
        match self.state.server.get() {
            Some(server) => add(server, &self.ends[1], true),
            None => list.push((self.listener.as_raw_fd(), Interest { read: true, write: false })),
        }
        list
    }

    /// Move what can be moved; true if something moved.
    fn serve(&mut self, clock: Clock) -> io::Result<bool> {
        if self.plan.tcp.is_none() {
            return self.hear_datagrams();
        }
        let mut moved = false;
        if self.state.server.get().is_none() {
            if let Some(socket) = sys::accept(self.listener.as_fd())? {
                let _ = self.state.server.set(socket);
                moved = true;
            }
        }
        if !self.is_connected && self.is_connecting()? {
            moved = true;
        }
        if self.is_connected && self.state.established() == Time::NEVER {
            self.state.established.store(clock.now().as_ps(), Ordering::Relaxed);
        }
        if self.is_connected {
            moved |= self.move_bytes(Side::Client)?;
        }
        if self.state.server.get().is_some() {
            moved |= self.move_bytes(Side::Server)?;
        }
        if self.ends[0].is_done() && self.state.finished() == Time::NEVER {
            self.state.finished.store(clock.now().as_ps(), Ordering::Relaxed);
        }
        Ok(moved)
    }

    /// Has the connection just come about?
    fn is_connecting(&mut self) -> io::Result<bool> {
        const ESTABLISHED: u8 = 1;
        if sys::tcp_info(self.client.as_fd())?.state == ESTABLISHED {
            self.is_connected = true;
            return Ok(true);
        }
        match sys::pending_error(self.client.as_fd())? {
            0 => Ok(false),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    fn move_bytes(&mut self, side: Side) -> io::Result<bool> {
        static NOTHING: [u8; CHUNK] = [0; CHUNK];
        let which = side as usize;
        let socket = match side {
            Side::Client => self.client.as_fd(),
            Side::Server => self.state.server.get().expect("asked for only when there").as_fd(),
        };
        let end = &mut self.ends[which];
        let mut moved = false;
        while end.wants_to_write() && !end.has_shut {
            let most = end.unsent.map_or(CHUNK, |left| CHUNK.min(usize::try_from(left).unwrap_or(CHUNK)));
            let Some(sent) = sys::send(socket, &NOTHING[..most])? else { break };
            moved = true;
            if let Some(left) = &mut end.unsent {
                *left -= sent as Bytes;
            }
        }
        if end.closes && !end.wants_to_write() && !end.has_shut {
            sys::shutdown_write(socket)?;
            end.has_shut = true;
            moved = true;
        }
        let (mut fresh, mut is_over) = (0, false);
        while !end.peer_finished {
            match sys::discard(socket, MOUTHFUL)? {
                None => break,
                Some(0) => {
                    end.peer_finished = true;
                    is_over = true;
                }
                Some(length) => fresh += length as Bytes,
            }
        }
        if side == Side::Server {
            self.state.received.fetch_add(fresh, Ordering::Relaxed);
            // Nothing to say: finish when the peer has.
            end.closes |= is_over;
        }
        Ok(moved || fresh > 0 || is_over)
    }

    fn hear_datagrams(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 65_536];
        let mut moved = false;
        while let Some(length) = sys::receive(self.listener.as_fd(), &mut buffer)? {
            self.state.received.fetch_add(length as u64, Ordering::Relaxed);
            moved = true;
        }
        Ok(moved)
    }

    fn start(&mut self, now: Time) -> io::Result<()> {
        match self.plan.app {
            Application::Bulk { bytes } => {
                self.ends[0].unsent = bytes;
                self.ends[0].closes = true;
                let [_, far] = addresses(self.plan.number);
                sys::connect(self.client.as_fd(), SocketAddrV4::new(far, PORT))
            }
            Application::Call { .. } => {
                self.wake = now;
                self.talk(now)
            }
        }
    }

    /// Say what is due. Due time, not wake time: a late thread still sends every packet of the schedule.
    fn talk(&mut self, now: Time) -> io::Result<()> {
        let Application::Call { interval, packet_bytes } = self.plan.app else { return Ok(()) };
        let payload = vec![0; packet_bytes.saturating_sub(DATAGRAM_HEADERS) as usize];
        while self.wake <= now {
            // A full device drops it, as a full host would.
            sys::send(self.client.as_fd(), &payload)?;
            self.wake += interval;
        }
        Ok(())
    }

    /// What has not been given to the kernel is dropped; what has, it still delivers.
    fn finish(&mut self) {
        self.wake = Time::NEVER;
        self.ends[0].unsent = Some(0);
    }
}

fn failed(name: &str, error: &io::Error) -> LiveError {
    LiveError::Failed(format!("flow {name}: {error}"))
}
