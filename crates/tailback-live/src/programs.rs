//! Operating-system programs in place of applications: one thread per flow starts its server and its client and waits
//! for both to end.

pub mod collect;
pub mod order;
pub mod rows;
pub mod words;

use std::fs::{self, File};
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration as Wait, Instant};

use tailback_core::scenario::IpVersion;
use tailback_core::time::{Duration, Time};
use tailback_core::traffic::exec::{After, Readiness};

use self::order::{Place, Progress};
use self::rows::{Ended, ProgramFate, Report, Role, in_shell, in_words, instead_of, last_lines};
use self::words::Values;
use crate::applications::TcpPlan;
use crate::applications::flow_record::{FlowRecord, Recording, Tally};
use crate::clock::Clock;
use crate::diagnosis::Diagnosis;
use crate::error::LiveError;
use crate::headers::{addresses, ends};
use crate::spawn::{self, Ending, Program, Setting};
use crate::sys;

/// Wait for the kernel's socket reports, which come from a work queue after the socket has closed.
const REPORTED: Wait = Wait::from_millis(20);
/// The end and a request to stop are noticed within this.
const NAP: Wait = Wait::from_millis(20);
/// Interval between checks whether a server listens.
const LOOK: Wait = Wait::from_millis(5);
/// Most bytes of a program's output that are kept.
const MOST_OUTPUT: u64 = 16 << 20;
/// A program is named if the guest's processor was idle for less than this share of the program's time,
const HARDLY: f64 = 0.1;
/// and the program used more than this share.
const MUCH: f64 = 0.25;

/// Remedy for a program that goes into the background.
const STAY: &str = ": let it stay in the foreground (nginx: daemon off)";

/// The planned programs of a flow.
#[derive(Clone, Debug)]
pub struct ProgramPlan {
    /// Number of the flow in the scenario.
    pub number: u32,
    /// The flow's name.
    pub name: String,
    /// The client's command line, split into words, with placeholders not yet filled.
    pub client: Vec<String>,
    /// The server's command line; empty for none.
    pub server: Vec<String>,
    /// When the client starts.
    pub start: Time,
    /// When both are asked to end.
    pub stop: Time,
    /// TCP settings, which the route to the peer applies to the programs' connections.
    pub tcp: TcpPlan,
    /// The value of `{port}`.
    pub port: u16,
    /// The value of `{seed}`.
    pub seed: u64,
    /// The value of `{here}`: the scenario's folder.
    pub here: PathBuf,
    /// How long the server may take to become ready; zero: do not wait for it.
    pub ready: Wait,
    /// How readiness is detected.
    pub ready_by: Readiness,
    /// What the server and the client wait for before they start.
    pub after: Vec<After>,
    /// Time between asking a program to end and killing it.
    pub grace: Wait,
    /// Exit statuses with which the client and the server succeed.
    pub accepted: [Vec<u8>; 2],
    /// Name patterns of the files in `{dir}` to keep; `*` and `?` are wildcards.
    pub collect: Vec<String>,
    /// Whether the guest has a single processor; a program that takes most of it is named.
    pub is_alone: bool,
    /// Whether the client is a command that the caller typed: it uses the caller's input, output and folder, its
    /// placeholders are not filled, and the run ends with it.
    pub is_in_front: bool,
}

/// A flow's programs, with a folder to run in.
#[derive(Debug)]
pub struct Ready {
    plan: ProgramPlan,
    /// The client's host and the server's.
    hosts: [OwnedFd; 2],
    folder: PathBuf,
    watch: Diagnosis,
    /// The state of the programs of all flows.
    progress: Arc<[Progress]>,
}

/// Creates the folder for `{dir}`, below the run's.
pub fn prepare(
    plan: ProgramPlan,
    hosts: [OwnedFd; 2],
    run: &Path,
    progress: &Arc<[Progress]>,
) -> Result<Ready, LiveError> {
    let folder = run.join(plan.number.to_string());
    let name = plan.name.clone();
    let made = fs::create_dir_all(folder.join("dir")).and_then(|()| {
        let watch = Diagnosis::begin([hosts[0].as_fd(), hosts[1].as_fd()], addresses(plan.number))?;
        Ok(Ready { plan, hosts, folder, watch, progress: progress.clone() })
    });
    made.map_err(|error| LiveError::Failed(format!("preparing the programs of flow {name}: {error}")))
}

/// A program that is running or has ended.
struct Running {
    role: Role,
    program: Program,
    started: Time,
    over: Option<(Time, Ending)>,
    fate: ProgramFate,
    /// The machine's idle time at the start; after the end, how much it grew.
    idle: Wait,
}

impl Running {
    fn ended(&mut self, at: Time, ending: Ending) {
        self.over = Some((at, ending));
        self.idle = sys::idle().saturating_sub(self.idle);
    }
}

impl Ready {
    /// Starts the server and signals `is_ready` once it listens; then runs until `end` or `stop`. Returns the totals of
    /// the programs' connections, and how the programs ended.
    pub fn run(
        mut self,
        is_ready: &Sender<Result<(), LiveError>>,
        go: &Receiver<Clock>,
        end: Time,
        stop: &AtomicBool,
    ) -> Result<(FlowRecord, Report), LiveError> {
        let both = match self.serve(stop).and_then(|server| Ok((server, self.waiting_client()?))) {
            Ok(both) => both,
            Err(error) => {
                // The waiting thread ends the run with this error.
                let _ = is_ready.send(Err(error));
                return Err(LiveError::Cancelled);
            }
        };
        let _ = is_ready.send(Ok(()));
        // No clock arrives if the run ends before it begins.
        let clock = go.recv().map_err(|_| LiveError::Cancelled)?;
        clock.await_start();
        let name = self.plan.name.clone();
        let ran = self.work(both, clock, end, stop);
        ran.map_err(|error| LiveError::Failed(format!("flow {name}: {error}")))
    }

    /// The client, started but held until its time. A command in front uses the caller's input and cannot be held.
    fn waiting_client(&self) -> Result<Option<Program>, LiveError> {
        if self.plan.is_in_front {
            return Ok(None);
        }
        self.start(Role::Client).map(Some).map_err(|error| {
            LiveError::Failed(format!("flow {}: its client could not be started: {error}", self.plan.name))
        })
    }

    /// The server, once it listens; none if the flow has none.
    fn serve(&self, stop: &AtomicBool) -> Result<Option<Program>, LiveError> {
        let plan = &self.plan;
        if plan.server.is_empty() {
            return Ok(None);
        }
        let failed = |what: String| LiveError::Failed(format!("flow {}: its server {what}", plan.name));
        while !order::may_serve(&plan.after, &self.progress) {
            if stop.load(Ordering::Relaxed) {
                return Err(LiveError::Cancelled);
            }
            std::thread::sleep(LOOK);
        }
        let mut server =
            self.start(Role::Server).map_err(|error| failed(format!("could not be started: {error}")))?;
        let began = Instant::now();
        let outputs = [0, 1].map(|which| self.path(Role::Server, which));
        let place = Place {
            process: server.process(),
            port: plan.port,
            folder: &self.folder.join("dir"),
            outputs: [&outputs[0], &outputs[1]],
        };
        while !plan.ready.is_zero() && !order::is_ready(&plan.ready_by, &place) {
            let ended = server.wait(LOOK).map_err(|error| failed(format!("is lost: {error}")))?;
            if stop.load(Ordering::Relaxed) {
                return Err(LiveError::Cancelled);
            }
            let [does, did] = order::in_words(&plan.ready_by, plan.port);
            let what = match ended {
                Some(ending) => {
                    let fix = if server.has_left() { STAY } else { "" };
                    format!("{} before it {did}{fix}", in_words(ending))
                }
                None if began.elapsed() < plan.ready => continue,
                None => format!("did not {does} within {} s", plan.ready.as_secs_f64()),
            };
            drop(server);
            let mut complaint =
                last_lines(&self.output(Role::Server, 1).map_or(Vec::new(), |(text, _)| text));
            if self.asks_for_v6(Role::Server) {
                complaint.push_str(words::ASKS_FOR_V6);
            }
            return Err(failed(format!("{what}{complaint}")));
        }
        self.progress[plan.number as usize].serve();
        Ok(Some(server))
    }

    fn path(&self, role: Role, which: usize) -> PathBuf {
        self.folder.join(format!("{}.{}", role.word(), ["out", "err"][which]))
    }

    /// A program's output, and whether it is complete.
    fn output(&self, role: Role, which: usize) -> io::Result<(Vec<u8>, bool)> {
        let mut text = Vec::new();
        let file = File::open(self.path(role, which))?;
        let is_all = file.metadata()?.len() <= MOST_OUTPUT;
        file.take(MOST_OUTPUT).read_to_end(&mut text)?;
        Ok((text, is_all))
    }

    fn start(&self, role: Role) -> io::Result<Program> {
        let plan = &self.plan;
        let folder = self.folder.join("dir");
        let dir = folder.to_string_lossy();
        let values = values(plan, &dir);
        let (words, host) = match role {
            Role::Server => (&plan.server, &self.hosts[1]),
            Role::Client => (&plan.client, &self.hosts[0]),
        };
        let [output, errors] = [0, 1].map(|which| File::create(self.path(role, which)));
        let (mut output, mut errors) = (output?, errors?);
        if role == Role::Client && plan.is_in_front {
            output = io::stdout().as_fd().try_clone_to_owned()?.into();
            errors = io::stderr().as_fd().try_clone_to_owned()?.into();
            let folder = std::env::current_dir()?;
            let in_front = Some(ends(plan.number, plan.tcp.ip).map(|address| address.to_string()));
            let network = host.as_fd();
            return spawn::start(
                words,
                Setting { folder: &folder, output, errors, network, waits: false, in_front },
            );
        }
        let words: Result<Vec<String>, _> = words.iter().map(|word| words::fill(word, &values)).collect();
        let words = words.expect("placeholders were checked");
        let (network, waits) = (host.as_fd(), role == Role::Client);
        spawn::start(&words, Setting { folder: &folder, output, errors, network, waits, in_front: None })
    }

    fn work(
        &mut self,
        (server, mut client): (Option<Program>, Option<Program>),
        clock: Clock,
        end: Time,
        stop: &AtomicBool,
    ) -> io::Result<(FlowRecord, Report)> {
        sys::exact_timers();
        let mut all: Vec<Running> =
            server.into_iter().map(|program| running(Role::Server, program, Time::ZERO)).collect();
        let last = self.plan.stop.min(end);
        let is_in_front = self.plan.is_in_front;
        let mut is_waiting = true;
        while clock.now() < last && !stop.load(Ordering::Relaxed) {
            let is_due = is_waiting && clock.now() >= self.plan.start;
            if is_due && order::may_begin(&self.plan.after, &self.progress) {
                is_waiting = false;
                let mut client = match client.take() {
                    Some(client) => client,
                    None => self.start(Role::Client)?,
                };
                client.begin()?;
                all.push(running(Role::Client, client, clock.now()));
            }
            if is_in_front && all.iter().any(|running| running.role == Role::Client && running.over.is_some())
            {
                break;
            }
            let next = if is_waiting { self.plan.start.min(last) } else { last };
            // A client that waits for another flow's client must notice its end soon.
            let nap = if is_due && is_waiting { LOOK } else { clock.until(next).min(NAP) };
            watch_over(&mut all, clock, nap)?;
            if all.iter().any(|running| running.role == Role::Client && running.over.is_some()) {
                self.progress[self.plan.number as usize].end();
            }
            self.watch.listen()?;
        }
        let never_began = is_waiting && !order::may_begin(&self.plan.after, &self.progress);
        // The client first: a server that is asked to end may wait for its last client.
        while let Some(place) = all.iter().rposition(|running| running.over.is_none()) {
            self.end(&mut all[place], clock)?;
        }
        // Packets in flight at a stop may still arrive at the other end.
        while !is_in_front && clock.now() < end && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(clock.until(end).min(NAP));
            self.watch.listen()?;
        }
        self.watch.ask()?;
        std::thread::sleep(REPORTED);
        self.watch.listen()?;
        let (record, mut report) = self.report(all)?;
        if never_began {
            report.notes.push(format!(
                "flow {}: its client never began: a client that it is to come after had not ended by its stop",
                self.plan.name
            ));
        }
        Ok((record, report))
    }

    /// Asks a program to end; kills it if it does not.
    fn end(&self, running: &mut Running, clock: Clock) -> io::Result<()> {
        if self.plan.is_alone {
            running.program.look_how_busy();
        }
        running.program.ask_to_end();
        running.fate = ProgramFate::Stopped;
        let ending = running.program.wait(self.plan.grace)?;
        if ending.is_none() {
            running.fate = ProgramFate::Killed;
        }
        running.ended(clock.now(), ending.unwrap_or(Ending::Signal(libc::SIGKILL)));
        Ok(())
    }

    fn report(&self, all: Vec<Running>) -> io::Result<(FlowRecord, Report)> {
        let plan = &self.plan;
        let mut record = FlowRecord::new(plan.number, Recording::default());
        record.tally = self.watch.tally();
        let mut notes = Vec::new();
        if self.watch.has_missed() {
            notes.push(format!(
                "flow {}: more connections were over at once than could be counted",
                plan.name
            ));
        }
        let mut programs = Vec::new();
        for running in all {
            let Running { role, program, started, over, fate, idle } = running;
            let (busy, has_left) = (program.busy(), program.has_left());
            // Kill what it has left behind before reading its output.
            drop(program);
            let (ended, ending) = over.expect("all have been ended");
            let ((output, all_output), (errors, all_errors)) = (self.output(role, 0)?, self.output(role, 1)?);
            notes.extend(self.record(role, fate, ending, &errors));
            notes.extend((fate == ProgramFate::Exited && has_left).then(|| {
                let name = role.word();
                format!("flow {}: its {name} ended, and processes that it had left in the background with it{STAY}", plan.name)
            }));
            notes.extend(self.spinning(role, busy, idle, ended.since(started)));
            if !(all_output && all_errors) {
                let most = MOST_OUTPUT >> 20;
                notes.push(format!(
                    "flow {}: of its {}'s output {most} MiB were kept",
                    plan.name,
                    role.word()
                ));
            }
            if role == Role::Client && fate == ProgramFate::Exited {
                record.tally = Tally { finished: ended, ..record.tally };
            }
            programs.push(Ended { role, started, ended, ending, fate, outputs: [output, errors] });
        }
        let folder = self.folder.join("dir");
        let (collected, left_out) = collect::files(&folder, &plan.collect, MOST_OUTPUT)?;
        notes.extend(left_out.into_iter().map(|what| format!("flow {}: {what}", plan.name)));
        Ok((record, Report { flow: plan.number, name: plan.name.clone(), programs, collected, notes }))
    }

    /// Reports a program that never lets a guest's clock jump, so that its speed is measured in instructions.
    fn spinning(&self, role: Role, busy: Option<Wait>, idle: Wait, span: Duration) -> Option<String> {
        let busy = busy.filter(|_| self.plan.is_alone)?;
        let share = |part: Wait| part.as_secs_f64() / span.as_secs_f64().max(1e-9);
        let has_much = share(busy) > MUCH && share(idle) < HARDLY;
        let share = share(busy);
        // A program started just before the end had time only to start.
        (has_much && busy > Wait::from_millis(100)).then(|| {
            format!(
                "flow {}: its {} had the guest's processor for {:.0} % of its time: it spins, or has more to do than \
                 the processor can",
                self.plan.name,
                role.word(),
                100.0 * share.min(1.0)
            )
        })
    }

    /// The note for an unintended end.
    fn record(&self, role: Role, fate: ProgramFate, ending: Ending, errors: &[u8]) -> Option<String> {
        let grace = self.plan.grace.as_secs_f64();
        let what = match (fate, role) {
            (ProgramFate::Exited, _) if self.accepted(role).contains(&in_shell(ending)) => return None,
            (ProgramFate::Exited, _) => {
                format!("{}{}", in_words(ending), instead_of(self.accepted(role)))
            }
            // A server runs until it is asked to end.
            (ProgramFate::Stopped, Role::Server) => return None,
            (ProgramFate::Stopped, Role::Client) => {
                "was still at work at its stop, and was asked to end".into()
            }
            (ProgramFate::Killed, _) => format!("did not end within {grace} s of its stop, and was killed"),
        };
        let what = format!("flow {}: its {} {what}", self.plan.name, role.word());
        let hint = if self.asks_for_v6(role) { words::ASKS_FOR_V6 } else { "" };
        Some(format!("{what}{}{hint}", last_lines(errors)))
    }

    fn accepted(&self, role: Role) -> &[u8] {
        &self.plan.accepted[usize::from(role == Role::Server)]
    }

    /// Whether a program of a flow over IPv4 asks for IPv6.
    fn asks_for_v6(&self, role: Role) -> bool {
        let line = if role == Role::Server { &self.plan.server } else { &self.plan.client };
        self.plan.tcp.ip == IpVersion::V4 && words::ask_for_v6(line)
    }
}

fn running(role: Role, program: Program, started: Time) -> Running {
    Running { role, program, started, over: None, fate: ProgramFate::Exited, idle: sys::idle() }
}

/// Records which programs have ended, watching for `span`.
fn watch_over(all: &mut [Running], clock: Clock, span: Wait) -> io::Result<()> {
    let until = Instant::now() + span;
    loop {
        let mut is_alone = true;
        for running in all.iter_mut().filter(|running| running.over.is_none()) {
            is_alone = false;
            let share = until.saturating_duration_since(Instant::now()).min(Wait::from_millis(2));
            if let Some(ending) = running.program.wait(share)? {
                running.ended(clock.now(), ending);
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        if is_alone {
            std::thread::sleep(left);
        }
    }
}

/// The values of the placeholders.
pub fn values<'a>(plan: &'a ProgramPlan, dir: &'a str) -> Values<'a> {
    let [near, far] = ends(plan.number, plan.tcp.ip);
    // RFC 3986 section 3.2.2.
    let in_url =
        |address: IpAddr| if address.is_ipv6() { format!("[{address}]") } else { address.to_string() };
    // Leave one second to the program itself, to start and to print its results.
    let span = plan.stop.since(plan.start).as_secs_f64();
    let whole = (span - 1.0).floor().max(1.0) as u64;
    vec![
        ("server_addr", far.to_string().into()),
        ("client_addr", near.to_string().into()),
        ("server_url", in_url(far).into()),
        ("port", plan.port.to_string().into()),
        ("duration", whole.to_string().into()),
        ("cc", plan.tcp.turns[0].clone().into()),
        ("seed", plan.seed.to_string().into()),
        ("dir", dir.into()),
        ("here", plan.here.to_string_lossy()),
    ]
}

/// Waits for servers and can be interrupted; calls `visit` meanwhile.
pub fn await_all<E: From<LiveError>>(
    ready: &Receiver<Result<(), LiveError>>,
    count: usize,
    visit: &mut impl FnMut(f64) -> Result<(), E>,
) -> Result<(), E> {
    for _ in 0..count {
        loop {
            match ready.recv_timeout(Wait::from_millis(50)) {
                Ok(is_ready) => break is_ready?,
                Err(RecvTimeoutError::Timeout) => visit(0.0)?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(LiveError::Failed("a server's thread is gone".into()).into());
                }
            }
        }
    }
    Ok(())
}
