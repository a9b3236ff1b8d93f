//! A natively compiled congestion control as a congestion control of the simulator.
#![allow(
    unsafe_code,
    reason = "a library is opened and called; what it does is its own, see the crate's page"
)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt;
use std::fmt::Write;
use std::fs;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tailback_core::cc::external::{External, Maker};
use tailback_core::cc::{Ack, Congestion, CongestionControl, Control, Phase, PhaseChange, Resume, Signal};
use tailback_core::scenario::{Params, Value};
use tailback_core::time::{Bytes, Duration, Rate, Time};

use crate::{elf, guard, queue};

/// The largest window allowed: no path in the literature holds a tebibyte.
const MOST_WINDOW: Bytes = 1 << 40;
/// The kernel's initial `ssthresh`.
const UNLIMITED: u32 = 0x7fff_ffff;
/// Numbers of congestion-window events in the kernel.
const TX_START: u32 = 0;
const CWND_RESTART: u32 = 1;
/// Version of the interface between a crate and this file; `tailback.rs` of the template has the same constant.
pub const CRATE_VERSION: u32 = 1;

/// Names of hooks and fields in error messages, in the terms of the candidate's author.
#[derive(Debug)]
struct Words {
    ack: &'static CStr,
    congestion: &'static CStr,
    established: &'static CStr,
    phase: &'static CStr,
    undo: &'static CStr,
    resume: &'static CStr,
    restart: &'static CStr,
    cwnd: &'static str,
    pacing: &'static str,
    no_ssthresh: &'static str,
    no_limit: &'static str,
}

/// For the kernel's struct.
const OF_BPF: Words = Words {
    ack: c"an acknowledgement",
    congestion: c"ssthresh",
    established: c"init",
    phase: c"set_state",
    undo: c"undo_cwnd",
    resume: c"cwnd_event",
    restart: c"cwnd_event",
    cwnd: "snd_cwnd",
    pacing: "sk_pacing_rate",
    no_ssthresh: "it returned 0",
    no_limit: "it returned no limit: return where the window should land",
};
/// For the template's trait.
const OF_CRATE: Words = Words {
    ack: c"on_ack",
    congestion: c"on_congestion",
    established: c"on_established",
    phase: c"on_phase",
    undo: c"on_undo",
    resume: c"on_resume",
    restart: c"on_idle_restart",
    cwnd: "cwnd",
    pacing: "pacing",
    no_ssthresh: "it set ssthresh to 0",
    no_limit: "it set no ssthresh: set where the window should land",
};

/// A hook's result that no sender can use, as it unwinds through the engine.
#[derive(Debug)]
pub struct Fault {
    /// Name of the algorithm in the scenario.
    pub algorithm: String,
    /// The hook.
    pub hook: &'static str,
    /// What is wrong with it.
    pub what: String,
}

/// `struct window` of native.c.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Window {
    cwnd: u32,
    ssthresh: u32,
    /// Pacing rate in bytes per second; `u64::MAX` for none.
    pacing: u64,
    /// For a crate: its fault, such as a panic; null if there is none.
    fault: *const c_char,
}

/// `struct given` of native.c.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Given {
    now_ns: u64,
    departs_ns: u64,
    bytes_acked: u64,
    rtt_us: i32,
    srtt_us: u32,
    rtt_min_us: u32,
    covered: u32,
    delivered: u32,
    marked: u32,
    losses: u32,
    snd_una: u32,
    snd_nxt: u32,
    in_flight: u32,
    prior_in_flight: u32,
    is_limited: u32,
    grows: u32,
    sampled: u32,
    interval_us: u32,
    delivered_since: u32,
    is_app_limited: u32,
}

type Ops = *const c_void;
type Connection = *mut c_void;

/// The functions of native.c.
struct Functions {
    new: unsafe extern "C" fn(Ops, u64) -> Connection,
    free: unsafe extern "C" fn(Connection),
    established: unsafe extern "C" fn(Connection, u64, *mut Window, u32, u32),
    /// None for crates.
    sample: Option<unsafe extern "C" fn(Connection, *const Given, *mut Window)>,
    ack: unsafe extern "C" fn(Connection, *const Given, *mut Window),
    congestion: unsafe extern "C" fn(Connection, u64, u32, *mut Window),
    state: unsafe extern "C" fn(Connection, u64, u32, u32, *mut Window),
    /// None for crates.
    complete: Option<unsafe extern "C" fn(Connection, u64, *mut Window)>,
    undo: unsafe extern "C" fn(Connection, u64, *mut Window),
    event: unsafe extern "C" fn(Connection, u64, u64, u32, u32, *mut Window),
}

/// An open library.
pub struct Library {
    handle: *mut c_void,
    ops: Ops,
    owns_window: bool,
    words: &'static Words,
    functions: Functions,
}

// SAFETY: a run has one thread, and nothing from a library outlives its run.
unsafe impl Send for Library {}
// SAFETY: as above; the handle and the functions are only read.
unsafe impl Sync for Library {}

/// A library handle, closed when dropped unless the caller keeps it.
pub(crate) struct Handle(*mut c_void);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: opened once; null only if it was kept.
        unsafe {
            if !self.0.is_null() {
                libc::dlclose(self.0);
            }
        }
    }
}

impl Handle {
    fn open(path: &Path) -> Result<Self, String> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| "a path has a zero in it")?;
        // SAFETY: the name is zero-terminated; running the library's initialisers is intended.
        unsafe {
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            if handle.is_null() {
                let why = libc::dlerror();
                let why = if why.is_null() { c"no reason given" } else { CStr::from_ptr(why) };
                return Err(format!("the compiled library cannot be opened: {}", why.to_string_lossy()));
            }
            Ok(Handle(handle))
        }
    }

    /// Opens the library with fresh global variables. A library whose threads keep part of it stays loaded after it was
    /// closed, with its global variables as the last run left them; then this opens a copy.
    pub(crate) fn afresh(path: &Path) -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| "a path has a zero in it")?;
        // SAFETY: the name is zero-terminated; RTLD_NOLOAD loads nothing.
        let loaded = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if loaded.is_null() {
            return Handle::open(path);
        }
        drop(Handle(loaded));
        // Other processes may copy the same library.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let copy = path.with_extension(format!("{}-{number}.so", std::process::id()));
        fs::copy(path, &copy).map_err(|error| format!("the compiled library cannot be copied: {error}"))?;
        let opened = Handle::open(&copy);
        // The copy stays mapped; failing to remove the file does no harm.
        let _ = fs::remove_file(&copy);
        opened
    }

    /// Address of a symbol; null if it does not exist.
    pub(crate) fn find(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the handle is open.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }

    /// A function by name.
    ///
    /// # Safety
    /// `F` is the type of a function, and the library gives this one that type.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        const { assert!(mem::size_of::<F>() == mem::size_of::<*mut c_void>()) };
        let found = self.find(name);
        if found.is_null() {
            return Err(format!("the compiled library has no function {}", name.to_string_lossy()));
        }
        // SAFETY: guaranteed by the caller.
        Ok(unsafe { mem::transmute_copy(&found) })
    }
}

impl Library {
    /// Opens the result of [`crate::Source::library`], which has its parameters compiled in, or a crate compiled with
    /// the template's `export!`, which reads them. Returns what is wrong with it otherwise.
    pub fn open(path: &Path, params: &Params) -> Result<Self, String> {
        let mut handle = Handle::afresh(path)?;
        // SAFETY: the library was built from native.c or from the template's tailback.rs, in a version that is checked;
        // each symbol has the type declared there.
        unsafe {
            let is_crate = !handle.find(c"tailback_abi").is_null();
            if !is_crate && handle.find(c"tailback_ops_size").is_null() {
                let is_queue = !handle.find(queue::VERSION_SYMBOL).is_null();
                let what = match is_queue {
                    true => "it exports a queue, and no congestion control: name it as a link's queue",
                    false => "it exports no congestion control: end src/lib.rs with tailback::export!(Mine)",
                };
                return Err(what.into());
            }
            let ops = match is_crate {
                true => crate_ops(&handle, params)?,
                false => kernel_ops(&handle, path, c"tailback_ops_size", "struct tcp_congestion_ops")?,
            };
            let hooks = handle.function::<unsafe extern "C" fn(Ops) -> u32>(c"tailback_hooks")?(ops);
            if hooks & 1 == 0 {
                return Err(
                    "it needs ssthresh, undo_cwnd, and cong_avoid or cong_control, as in the kernel".into()
                );
            }
            let functions = Functions {
                new: handle.function(c"tailback_new")?,
                free: handle.function(c"tailback_free")?,
                established: handle.function(c"tailback_established")?,
                sample: handle.function(c"tailback_sample").ok(),
                ack: handle.function(c"tailback_ack")?,
                congestion: handle.function(c"tailback_congestion")?,
                state: handle.function(c"tailback_state")?,
                complete: handle.function(c"tailback_complete").ok(),
                undo: handle.function(c"tailback_undo")?,
                event: handle.function(c"tailback_event")?,
            };
            Ok(Library {
                handle: mem::replace(&mut handle.0, ptr::null_mut()),
                ops,
                owns_window: hooks & 2 != 0,
                words: if is_crate { &OF_CRATE } else { &OF_BPF },
                functions,
            })
        }
    }
}

/// The struct of a BPF source: where the file says, from where it was loaded.
///
/// # Safety
/// The library was made from native.c or native_qdisc.c, whose function `size_of` says the size of its struct `kind`.
pub(crate) unsafe fn kernel_ops(
    handle: &Handle,
    path: &Path,
    size_of: &CStr,
    kind: &str,
) -> Result<Ops, String> {
    let bytes = fs::read(path).map_err(|error| format!("the compiled library cannot be read: {error}"))?;
    let section = elf::ops(&bytes).ok_or_else(|| format!("the compiled library has no {kind}"))?;
    // SAFETY: the file declares the function with this type, and the struct is within the library.
    unsafe {
        let size = handle.function::<unsafe extern "C" fn() -> u64>(size_of)?();
        let count = section.place.len() as u64 / size;
        if count != 1 {
            return Err(format!("it has {count} of them: leave one {kind} in it"));
        }
        let mut place: libc::Dl_info = mem::zeroed();
        libc::dladdr(handle.find(size_of), &raw mut place);
        Ok(place.dli_fbase.cast::<u8>().add(section.address as usize).cast())
    }
}

/// Parameters in the form that a crate reads: one per line.
pub(crate) fn lines(params: &Params) -> Result<CString, String> {
    let mut lines = String::new();
    for (name, value) in params {
        let value = match value {
            Value::Number(number) => number.to_string(),
            Value::Flag(flag) => flag.to_string(),
            Value::Name(text) => text.clone(),
        };
        if name.contains(['\n', '=']) || value.contains('\n') {
            return Err(format!("{name}: a parameter of a crate is one line, and its name has no ="));
        }
        // Writing to a String cannot fail.
        let _ = writeln!(lines, "{name}={value}");
    }
    CString::new(lines).map_err(|_| "a parameter has a zero in it".into())
}

/// An error unless the library's copy of the template's tailback.rs is of the version that this file works with.
///
/// # Safety
/// The library has a function `symbol` that takes nothing and returns a version.
pub(crate) unsafe fn demand_version(handle: &Handle, symbol: &CStr, known: u32) -> Result<(), String> {
    // SAFETY: guaranteed by the caller.
    let version = unsafe { handle.function::<unsafe extern "C" fn() -> u32>(symbol)?() };
    match version == known {
        true => Ok(()),
        false => Err(format!(
            "its src/tailback.rs is version {version}, and this tailback works with version {known}: copy the file \
             that comes with it"
        )),
    }
}

/// The object from which a crate makes its connections, with the given parameters.
///
/// # Safety
/// The library has the template's `export!`, of any version.
unsafe fn crate_ops(handle: &Handle, params: &Params) -> Result<Ops, String> {
    let lines = lines(params)?;
    // SAFETY: every version has `tailback_abi`, and this version has the others; the strings outlive the calls.
    unsafe {
        demand_version(handle, c"tailback_abi", CRATE_VERSION)?;
        type Make = unsafe extern "C" fn(*const c_char, *mut *const c_char) -> Ops;
        let make = handle.function::<Make>(c"tailback_ops")?;
        let mut fault = ptr::null();
        guard::begin(c"", c"new", 0);
        let ops = make(lines.as_ptr(), &raw mut fault);
        guard::end();
        if !ops.is_null() {
            return Ok(ops);
        }
        Err(text(fault).unwrap_or_else(|| "it could not be made, and does not say why".into()))
    }
}

/// Copies a string of the library; `None` for null.
///
/// # Safety
/// The pointer is null or points to a zero-terminated string.
pub(crate) unsafe fn text(what: *const c_char) -> Option<String> {
    // SAFETY: guaranteed by the caller.
    (!what.is_null()).then(|| unsafe { CStr::from_ptr(what) }.to_string_lossy().into_owned())
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: opened once, and no connection is left, because each holds the library.
        unsafe {
            libc::dlclose(self.handle);
        }
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Library").field("owns_window", &self.owns_window).finish_non_exhaustive()
    }
}

/// A candidate by its name in scenarios, with one library for each set of parameters.
#[derive(Debug)]
pub struct NativeMaker {
    name: Arc<CStr>,
    libraries: Vec<(Params, PathBuf)>,
    /// The open libraries; their global variables live as long as the run.
    open: Vec<Mutex<Weak<Library>>>,
}

impl NativeMaker {
    /// For the candidate `name`, from libraries with the parameters compiled into each.
    pub fn new(name: &str, libraries: Vec<(Params, PathBuf)>) -> Self {
        let open = libraries.iter().map(|_| Mutex::new(Weak::new())).collect();
        NativeMaker { name: named(name), libraries, open }
    }

    fn library(&self, params: &Params) -> Result<Arc<Library>, String> {
        let found = self.libraries.iter().position(|(compiled, _)| compiled == params);
        let number = found.ok_or("it was not compiled with these parameters")?;
        let mut open = self.open[number].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = open.upgrade() {
            return Ok(library);
        }
        let library = Arc::new(Library::open(&self.libraries[number].1, params)?);
        *open = Arc::downgrade(&library);
        Ok(library)
    }
}

impl Maker for NativeMaker {
    fn check(&self, params: &Params) -> Result<(), String> {
        self.library(params).map(drop)
    }
    fn make(&self, params: &Params, seed: u64) -> Box<dyn External> {
        match self.library(params) {
            Ok(library) => Box::new(Native::new(self.name.clone(), library, seed)),
            Err(what) => fail(&self.name, "its loading", what),
        }
    }
}

fn fail(algorithm: &CStr, hook: &'static str, what: impl Into<String>) -> ! {
    let algorithm = algorithm.to_string_lossy().into_owned();
    resume_unwind(Box::new(Fault { algorithm, hook, what: what.into() }))
}

/// A candidate's name in the form that [`guard::begin`] takes.
pub(crate) fn named(name: &str) -> Arc<CStr> {
    CString::new(name.replace('\0', " ")).unwrap_or_default().into()
}

/// A connection of a candidate.
#[derive(Debug)]
struct Native {
    name: Arc<CStr>,
    library: Arc<Library>,
    connection: Connection,
    /// Bytes acknowledged so far.
    acked: Bytes,
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: made by `new` of the same library, and freed once.
        unsafe { (self.library.functions.free)(self.connection) }
    }
}

impl Native {
    fn new(name: Arc<CStr>, library: Arc<Library>, seed: u64) -> Self {
        guard::begin(&name, c"new", guard::at_ns());
        // SAFETY: the ops belong to the library.
        let connection = unsafe { (library.functions.new)(library.ops, seed) };
        guard::end();
        assert!(!connection.is_null(), "memory for a connection");
        Native { name, library, connection, acked: 0 }
    }

    /// Reports to the candidate that a reduction is complete.
    fn complete(&self, now: Time, control: &mut Control) {
        let Some(complete) = self.library.functions.complete else { return };
        // SAFETY: the window outlives the call; the connection is the library's own.
        self.lend(self.library.words.phase, now, control, |_, connection, now, window| unsafe {
            complete(connection, now, window);
        });
    }

    /// `ack` in the layout of native.c.
    fn given(&self, ack: &Ack) -> Given {
        let mss = u64::from(ack.mss);
        let segments = |bytes: Bytes| bytes.div_ceil(mss).min(u64::from(u32::MAX)) as u32;
        let sample = ack.delivery;
        Given {
            now_ns: ack.now.as_ps() / 1000,
            departs_ns: ack.departs.max(ack.now).as_ps() / 1000,
            bytes_acked: self.acked,
            rtt_us: ack.rtt.map_or(-1, |rtt| micros(rtt).min(i32::MAX as u32) as i32),
            srtt_us: micros(ack.srtt),
            rtt_min_us: micros(ack.rtt_min),
            covered: ack.newly_acked_segments,
            delivered: ack.delivered_segments,
            marked: segments(ack.marked),
            losses: ack.lost_segments,
            snd_una: ack.snd_una as u32,
            snd_nxt: ack.snd_nxt as u32,
            in_flight: segments(ack.in_flight),
            prior_in_flight: segments(ack.prior_in_flight),
            is_limited: ack.cwnd_limited.into(),
            // As in Linux `tcp_may_raise_cwnd`: on a path with much reordering, SACKed data counts too.
            grows: (ack.advances() || ack.may_grow).into(),
            sampled: sample.map_or(0, |sample| segments(sample.bytes)),
            interval_us: sample.map_or(0, |sample| micros(sample.interval).max(1)),
            delivered_since: segments(ack.delivered.saturating_sub(ack.prior_delivered)),
            is_app_limited: ack.app_limited.into(),
        }
    }

    /// Lends the window to `hook` and applies what it sets.
    #[inline]
    fn lend(
        &self,
        hook: &'static CStr,
        now: Time,
        control: &mut Control,
        call: impl FnOnce(&Functions, Connection, u64, *mut Window),
    ) {
        let before = Window {
            cwnd: control.cwnd_segments().clamp(1, u64::from(UNLIMITED)) as u32,
            ssthresh: control.ssthresh_segments().min(u64::from(UNLIMITED)) as u32,
            pacing: 0,
            fault: ptr::null(),
        };
        let mut window = before;
        let now_ns = now.as_ps() / 1000;
        guard::begin(&self.name, hook, now_ns);
        call(&self.library.functions, self.connection, now_ns, &raw mut window);
        guard::end();
        let mss = u64::from(control.mss);
        let words = self.library.words;
        let said = || hook.to_str().unwrap_or("a hook");
        // SAFETY: a crate's harness sets null or a string there, and native.c sets nothing.
        if let Some(what) = unsafe { text(window.fault) } {
            fail(&self.name, said(), what);
        }
        if window.cwnd != before.cwnd {
            let bytes = u64::from(window.cwnd) * mss;
            if window.cwnd == 0 {
                let what = format!("it set {} to 0: nothing would ever be sent again", words.cwnd);
                fail(&self.name, said(), what);
            }
            if bytes > MOST_WINDOW {
                let what = format!("it set {} to {}: more than 1 TiB", words.cwnd, window.cwnd);
                fail(&self.name, said(), what);
            }
            control.cwnd = bytes;
        }
        if window.ssthresh != before.ssthresh {
            control.ssthresh = match window.ssthresh {
                UNLIMITED.. => Control::UNLIMITED,
                segments => u64::from(segments) * mss,
            };
        }
        if self.library.owns_window {
            control.pacing = match window.pacing {
                u64::MAX => None,
                0 => {
                    let what = format!("it set {} to 0: nothing would ever be sent again", words.pacing);
                    fail(&self.name, said(), what)
                }
                bytes => Some(Rate::from_bps(bytes.saturating_mul(8))),
            };
        }
    }
}

fn micros(duration: Duration) -> u32 {
    duration.as_us().min(u64::from(u32::MAX)) as u32
}

impl CongestionControl for Native {
    fn on_sample(&mut self, ack: &Ack, control: &mut Control) {
        self.acked += ack.newly_acked;
        let Some(sample) = self.library.functions.sample else { return };
        let given = self.given(ack);
        // SAFETY: the record and the window outlive the call; the connection is the library's own.
        self.lend(self.library.words.ack, ack.now, control, |_, connection, _, window| unsafe {
            sample(connection, &raw const given, window);
        });
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let given = self.given(ack);
        // SAFETY: the record and the window outlive the call; the connection is the library's own.
        self.lend(self.library.words.ack, ack.now, control, |functions, connection, _, window| unsafe {
            (functions.ack)(connection, &raw const given, window);
        });
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        // As in Linux `tcp_enter_loss`: ask only once for the data outstanding.
        if congestion.is_repeated_timeout() {
            return;
        }
        let is_timeout = matches!(congestion.signal, Signal::Timeout { .. });
        // SAFETY: the window outlives the call; the connection is the library's own.
        self.lend(
            self.library.words.congestion,
            congestion.now,
            control,
            |functions, connection, now, window| unsafe {
                (functions.congestion)(connection, now, is_timeout.into(), window);
            },
        );
        let words = self.library.words;
        let said = || words.congestion.to_str().unwrap_or("a hook");
        if control.ssthresh == 0 {
            fail(&self.name, said(), format!("{}: nothing would ever be sent again", words.no_ssthresh));
        }
        // With an unlimited ssthresh the window would become unlimited at the end of the recovery.
        if !self.library.owns_window && control.ssthresh > MOST_WINDOW {
            fail(&self.name, said(), words.no_limit);
        }
    }

    fn on_established(&mut self, now: Time, srtt: Option<Duration>, control: &mut Control) {
        let (mss, srtt) = (control.mss, srtt.map_or(0, micros));
        // SAFETY: the window outlives the call; the connection is the library's own.
        self.lend(
            self.library.words.established,
            now,
            control,
            |functions, connection, now, window| unsafe {
                (functions.established)(connection, now, window, mss, srtt);
            },
        );
    }

    fn on_phase(&mut self, change: &PhaseChange, control: &mut Control) {
        let (from, to) = (change.from as u32, change.to as u32);
        // In the order of `tcp_fastretrans_alert`: CWR is completed and then left, Recovery left and then completed.
        if change.completes && change.from == Phase::Cwr {
            self.complete(change.now, control);
        }
        // SAFETY: the window outlives the call; the connection is the library's own.
        self.lend(
            self.library.words.phase,
            change.now,
            control,
            |functions, connection, now, window| unsafe {
                (functions.state)(connection, now, from, to, window);
            },
        );
        if change.completes && change.from != Phase::Cwr {
            self.complete(change.now, control);
        }
    }

    fn on_undo(&mut self, now: Time, control: &mut Control) {
        // SAFETY: the window outlives the call; the connection is the library's own.
        self.lend(self.library.words.undo, now, control, |functions, connection, now, window| unsafe {
            (functions.undo)(connection, now, window);
        });
    }

    fn on_resume(&mut self, resume: &Resume, control: &mut Control) {
        let (idle, limited) = (resume.idle.as_ps() / 1000, resume.app_limited.into());
        // SAFETY: the window outlives the call; the connection is the library's own.
        self.lend(
            self.library.words.resume,
            resume.now,
            control,
            |functions, connection, now, window| unsafe {
                (functions.event)(connection, now, idle, limited, TX_START, window);
            },
        );
    }

    fn on_idle_restart(&mut self, now: Time, idle: Duration, control: &mut Control) {
        let idle = idle.as_ps() / 1000;
        // SAFETY: the window outlives the call; the connection is the library's own.
        self.lend(self.library.words.restart, now, control, |functions, connection, now, window| unsafe {
            (functions.event)(connection, now, idle, 1, CWND_RESTART, window);
        });
    }

    fn owns_window(&self) -> bool {
        self.library.owns_window
    }
}
