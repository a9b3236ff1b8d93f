//! Starts programs in a host such that nothing of them outlives this process.
//!
//! There are three processes. The keeper dies with the thread that made it, and kills the first process of a PID
//! namespace with it; the kernel then kills everything in that namespace. The first process starts the program, waits
//! for it, reaps what it leaves, and ends with it. So a program that goes into the background also ends there.
//!
//! A large process forks slowly, and the emulator would have to wait. So a program that is due during the run is forked
//! before it, as a shell that waits for a line and then becomes the program.
#![allow(
    unsafe_code,
    reason = "between fork and exec only plain system calls are allowed, and libc's are raw"
)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::sys::{self, Interest};

/// Waits for a line, then executes its arguments as a program.
const GATE: [&str; 3] = ["-c", "read -r sign && exec \"$@\" </dev/null", "sh"];
/// Length of a message on the pipe: a letter and four bytes.
const MESSAGE: usize = 5;
/// The PID of the namespace's first process, seen from outside.
const FIRST: u8 = b'F';
/// The program has ended with this wait status.
const ENDED: u8 = b'E';
/// Sent before that: processes that the program started still exist.
const LEFT: u8 = b'L';
/// Sent before that: processor time of the program and of the children it waited for, in milliseconds.
const BUSY: u8 = b'B';

/// How a program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// By itself, with this exit status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

/// A running program. Dropping it kills it and everything it started.
#[derive(Debug)]
pub struct Program {
    keeper: Child,
    /// The PID of the namespace's first process, and the process group of the program.
    first: u32,
    news: File,
    gate: Option<ChildStdin>,
    ending: Option<Ending>,
    has_left: bool,
    busy: Option<Duration>,
}

/// The environment in which a program runs.
#[derive(Debug)]
pub struct Setting<'a> {
    /// Working folder of the program.
    pub folder: &'a Path,
    /// Its standard output.
    pub output: File,
    /// Its standard error.
    pub errors: File,
    /// Network namespace of the program.
    pub network: BorrowedFd<'a>,
    /// Whether it waits for [`Program::begin`].
    pub waits: bool,
    /// Set if the caller types to the program: it gets the caller's input and, if that is our controlling terminal, the
    /// foreground.
    pub in_front: Option<[String; 2]>,
}

/// Starts `words`.
pub fn start(words: &[String], setting: Setting<'_>) -> io::Result<Program> {
    let Setting { folder, output, errors, network, waits, in_front } = setting;
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let (news, report) = pipe()?;
    let (network, parent, reports) = (network.as_raw_fd(), std::process::id(), report.as_raw_fd());
    let mut command = Command::new(if waits { "/bin/sh" } else { program });
    if waits {
        command.args(GATE).arg(program).stdin(Stdio::piped());
    } else {
        command.stdin(if in_front.is_some() { Stdio::inherit() } else { Stdio::null() });
    }
    let takes_terminal = in_front.is_some() && sys::has_terminal();
    if let Some([own, peer]) = in_front {
        command.env("TAILBACK_ADDR", own).env("TAILBACK_PEER", peer);
    }
    command.args(arguments).current_dir(folder).stdout(output).stderr(errors);
    // SAFETY: `enter` makes only async-signal-safe calls and allocates nothing.
    unsafe {
        command.pre_exec(move || enter(network, parent, reports, takes_terminal));
    }
    let mut keeper = command.spawn()?;
    drop(report);
    let gate = keeper.stdin.take();
    let mut program =
        Program { keeper, first: 0, news: File::from(news), gate, ending: None, has_left: false, busy: None };
    while program.first == 0 && !matches!(program.ending, Some(Ending::Signal(_))) {
        program.hear()?;
    }
    if program.first == 0 {
        return Err(io::Error::other("it was killed before it began"));
    }
    Ok(program)
}

impl Program {
    /// Lets a waiting program begin.
    pub fn begin(&mut self) -> io::Result<()> {
        match self.gate.take() {
            Some(mut gate) => gate.write_all(b"\n"),
            None => Ok(()),
        }
    }

    /// The PID of a process in the program's network namespace.
    pub fn process(&self) -> u32 {
        self.first
    }

    /// How it has ended; `None` if it has not within `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<Option<Ending>> {
        let until = Instant::now() + timeout;
        while self.ending.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            let fds = [(self.news.as_raw_fd(), Interest { read: true, write: false })];
            if sys::wait(&fds, Some(left))? {
                self.hear()?;
            } else if left.is_zero() {
                break;
            }
        }
        Ok(self.ending)
    }

    /// Reads the processor time of the group's processes; [`Program::busy`] returns it.
    pub fn look_how_busy(&mut self) {
        if self.ending.is_none() {
            self.busy = Some(sys::group_busy(self.first));
        }
    }

    /// Its processor time, if known: after it has ended by itself, or after a read.
    pub fn busy(&self) -> Option<Duration> {
        self.busy
    }

    /// Whether processes that it had started still existed when it ended by itself; they end with it.
    pub fn has_left(&self) -> bool {
        self.has_left
    }

    /// Asks it and the other processes in its group to end.
    pub fn ask_to_end(&self) {
        if self.ending.is_none() {
            sys::signal_group(self.first, libc::SIGTERM);
        }
    }

    fn hear(&mut self) -> io::Result<()> {
        let mut message = [0; MESSAGE];
        match self.news.read_exact(&mut message) {
            Ok(()) => {}
            // All three processes are gone, and none was left to report how the program ended.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.ending.get_or_insert(Ending::Signal(libc::SIGKILL));
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let number = i32::from_ne_bytes(message[1..].try_into().expect("four bytes"));
        match message[0] {
            FIRST => self.first = number as u32,
            LEFT => self.has_left = true,
            BUSY => self.busy = Some(Duration::from_millis(number.max(0) as u64)),
            _ if libc::WIFEXITED(number) => self.ending = Some(Ending::Exit(libc::WEXITSTATUS(number))),
            _ => self.ending = Some(Ending::Signal(libc::WTERMSIG(number))),
        }
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // When the first process dies, the kernel kills all others; the keeper waits until that is done.
        if !matches!(self.wait(Duration::ZERO), Ok(Some(_))) {
            sys::kill(self.first);
        }
        let _ = self.keeper.wait();
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the array is ours and has room for two; the descriptors get owners at once.
    unsafe {
        check(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// fork(2) without the C library's handlers.
fn fork() -> io::Result<libc::pid_t> {
    // SAFETY: without a new stack this is fork; the child makes only async-signal-safe calls.
    let process = unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(libc::SIGCHLD), 0, 0, 0, 0) };
    check(process as libc::c_int)
}

/// Runs between fork and exec. Only the program's process returns from it.
fn enter(network: RawFd, parent: u32, reports: RawFd, takes_terminal: bool) -> io::Result<()> {
    // SAFETY: no pointers; each is a plain system call.
    unsafe {
        check(libc::setns(network, libc::CLONE_NEWNET))?;
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        // The parent may have died before the line above.
        if libc::getppid() as u32 != parent {
            return Err(io::Error::from_raw_os_error(libc::ECHILD));
        }
        check(libc::unshare(libc::CLONE_NEWPID))?;
    }
    let first = fork()?;
    if first > 0 {
        keep(first, reports);
    }
    // SAFETY: as above.
    unsafe {
        check(libc::setpgid(0, 0))?;
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        if takes_terminal {
            // A background group that takes the terminal is stopped, unless it ignores this signal.
            libc::signal(libc::SIGTTOU, libc::SIG_IGN);
            let taken = check(libc::tcsetpgrp(0, libc::getpid()));
            libc::signal(libc::SIGTTOU, libc::SIG_DFL);
            taken?;
        }
    }
    // The reader of the reports has then died, and the keeper with it.
    if is_unheard(reports) {
        leave();
    }
    let program = fork()?;
    if program > 0 {
        reap(program, reports);
    }
    Ok(())
}

fn is_unheard(reports: RawFd) -> bool {
    let mut poll = libc::pollfd { fd: reports, events: 0, revents: 0 };
    // SAFETY: `poll` outlives the call.
    unsafe { libc::poll(&mut poll, 1, 0) > 0 && poll.revents & libc::POLLERR != 0 }
}

/// The keeper: reports the first process's PID and waits until it ends.
fn keep(first: libc::pid_t, reports: RawFd) -> ! {
    close_all_but(reports);
    report(reports, FIRST, first);
    let mut status = 0;
    // SAFETY: `status` outlives the calls.
    while unsafe { libc::waitpid(first, &mut status, 0) } < 0 && interrupted() {}
    leave()
}

/// The first process: waits for the program and reaps everything that ends before it.
fn reap(program: libc::pid_t, reports: RawFd) -> ! {
    close_all_but(reports);
    loop {
        let (mut status, mut left) = (0, 0);
        // SAFETY: `status` outlives the call.
        let ended = unsafe { libc::waitpid(-1, &mut status, 0) };
        if ended == program {
            // Its children have become ours.
            // SAFETY: `left` outlives the call.
            if unsafe { libc::waitpid(-1, &mut left, libc::WNOHANG) } == 0 {
                report(reports, LEFT, 0);
            }
            report(reports, BUSY, busy_ms());
            report(reports, ENDED, status);
            leave();
        }
        if ended < 0 && !interrupted() {
            leave();
        }
    }
}

/// Processor time of the children that have ended, in milliseconds.
fn busy_ms() -> i32 {
    // SAFETY: `usage` is plain numbers and outlives the call, which fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let ms = |time: libc::timeval| time.tv_sec * 1000 + time.tv_usec / 1000;
    (ms(usage.ru_utime) + ms(usage.ru_stime)) as i32
}

fn interrupted() -> bool {
    io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
}

/// Closes the caller's pipes here; otherwise the caller would wait for their end.
fn close_all_but(kept: RawFd) {
    let kept = libc::c_long::from(kept);
    // SAFETY: no pointers; nothing here uses a descriptor other than `kept`.
    unsafe {
        if kept > 0 {
            libc::syscall(libc::SYS_close_range, 0, kept - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, kept + 1, libc::c_long::from(u32::MAX), 0);
    }
}

fn report(reports: RawFd, what: u8, number: i32) {
    let bytes = number.to_ne_bytes();
    let message = [what, bytes[0], bytes[1], bytes[2], bytes[3]];
    // SAFETY: the message is ours and has the length given.
    unsafe {
        libc::write(reports, message.as_ptr().cast(), MESSAGE);
    }
}

fn leave() -> ! {
    // SAFETY: no pointers; no exit handler of the caller may run.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn run(line: &str) -> Option<(Program, std::path::PathBuf)> {
        start_with(line, false)
    }

    fn start_with(line: &str, waits: bool) -> Option<(Program, std::path::PathBuf)> {
        if !sys::is_root() {
            eprintln!("skipped: not root");
            return None;
        }
        let own = File::open("/proc/self/ns/net").expect("a network");
        let folder = std::env::temp_dir();
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = folder.join(format!("tailback-spawn-{}-{number}", std::process::id()));
        let output = File::create(&path).expect("a file");
        let errors = output.try_clone().expect("the same");
        let words = ["sh", "-c", line].map(String::from);
        let setting =
            Setting { folder: &folder, output, errors, network: own.as_fd(), waits, in_front: None };
        Some((start(&words, setting).expect("started"), path))
    }

    fn processes_with(mark: &str) -> usize {
        let all = std::fs::read_dir("/proc").expect("proc");
        let is_marked = |path: std::path::PathBuf| {
            std::fs::read_to_string(path.join("cmdline")).is_ok_and(|line| line.contains(mark))
        };
        all.flatten().filter(|entry| is_marked(entry.path())).count()
    }

    #[test]
    fn says_how_a_program_ended() {
        for (line, ending, leaves) in [
            ("exit 0", Ending::Exit(0), false),
            ("exit 7", Ending::Exit(7), false),
            ("kill -9 $$", Ending::Signal(9), false),
            ("sleep 100 & exit 0", Ending::Exit(0), true),
        ] {
            let Some((mut program, path)) = run(line) else { return };
            assert_eq!(program.wait(Duration::from_secs(10)).expect("heard"), Some(ending), "{line}");
            assert_eq!(program.has_left(), leaves, "{line}");
            std::fs::remove_file(path).expect("its output");
        }
    }

    #[test]
    fn asks_before_it_kills() {
        let Some((mut program, path)) = run("trap 'echo asked; exit 3' TERM; echo up; sleep 100 & wait")
        else {
            return;
        };
        let began = Instant::now();
        while std::fs::read_to_string(&path).is_ok_and(|text| !text.contains("up")) {
            assert!(began.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(program.wait(Duration::from_millis(10)).expect("heard"), None);
        program.ask_to_end();
        assert_eq!(program.wait(Duration::from_secs(10)).expect("heard"), Some(Ending::Exit(3)));
        assert!(std::fs::read_to_string(&path).expect("its output").contains("asked"));
        std::fs::remove_file(path).expect("its output");
    }

    #[test]
    fn one_that_waits_does_nothing_before_its_sign() {
        let Some((mut program, path)) = start_with("echo begun; exit 4", true) else { return };
        assert_eq!(program.wait(Duration::from_millis(100)).expect("heard"), None);
        assert_eq!(std::fs::read_to_string(&path).expect("its output"), "");
        program.begin().expect("begun");
        assert_eq!(program.wait(Duration::from_secs(10)).expect("heard"), Some(Ending::Exit(4)));
        assert_eq!(std::fs::read_to_string(&path).expect("its output"), "begun\n");
        std::fs::remove_file(path).expect("its output");
    }

    #[test]
    fn what_goes_into_the_background_goes_too() {
        let mark = format!("1234.{}", std::process::id());
        let line = format!("trap '' TERM; setsid sleep {mark} & setsid sh -c 'sleep {mark}; true' & wait");
        let Some((program, path)) = run(&line) else { return };
        let began = Instant::now();
        while processes_with(&mark) < 3 {
            assert!(began.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(5));
        }
        program.ask_to_end();
        drop(program);
        assert_eq!(processes_with(&mark), 0);
        std::fs::remove_file(path).expect("its output");
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        if !sys::is_root() {
            return;
        }
        let own = File::open("/proc/self/ns/net").expect("a network");
        let null = || File::options().write(true).open("/dev/null").expect("it");
        let words = ["/nonesuch".to_owned()];
        let setting = Setting {
            folder: Path::new("/"),
            output: null(),
            errors: null(),
            network: own.as_fd(),
            waits: false,
            in_front: None,
        };
        let error = start(&words, setting).expect_err("not started");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
