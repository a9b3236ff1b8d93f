//! A natively compiled congestion control as an algorithm of the simulator.
#![allow(
    unsafe_code,
    reason = "a library is opened and called; what it does is its own, see the crate's page"
)]

use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tailback_core::cc::external::{External, Maker};
use tailback_core::cc::{Ack, Congestion, CongestionControl, Control, PhaseChange, Resume, Signal};
use tailback_core::scenario::Params;
use tailback_core::time::{Bytes, Duration, Rate, Time};

use crate::{elf, guard};

/// The largest window: no path of any paper holds a tebibyte.
const MOST_WINDOW: Bytes = 1 << 40;
/// The kernel's `ssthresh` before any congestion.
const UNLIMITED: u32 = 0x7fff_ffff;
/// The kernel's numbers of events.
const TX_START: u32 = 0;
const CWND_RESTART: u32 = 1;

/// What a hook did that no sender can work with, on its way out of the engine.
#[derive(Debug)]
pub struct Fault {
    /// Name of the algorithm in the scenario.
    pub algorithm: String,
    /// The hook.
    pub hook: &'static str,
    /// What is wrong.
    pub what: String,
}

/// `struct window` of native.c.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Window {
    cwnd: u32,
    ssthresh: u32,
    /// Bytes a second; `u64::MAX` for none.
    pacing: u64,
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
    ack: unsafe extern "C" fn(Connection, *const Given, *mut Window),
    congestion: unsafe extern "C" fn(Connection, u64, u32, *mut Window),
    state: unsafe extern "C" fn(Connection, u64, u32, u32, *mut Window),
    undo: unsafe extern "C" fn(Connection, u64, *mut Window),
    event: unsafe extern "C" fn(Connection, u64, u64, u32, u32, *mut Window),
}

/// A library, open.
pub struct Library {
    handle: *mut c_void,
    ops: Ops,
    owns_window: bool,
    functions: Functions,
}

// SAFETY: a run has one thread, and nothing of a library outlives its run.
unsafe impl Send for Library {}
// SAFETY: as above; the handle and the functions are only read.
unsafe impl Sync for Library {}

impl Library {
    /// Open what [`crate::Source::library`] made, or say what is wrong with it.
    pub fn open(path: &Path) -> Result<Self, String> {
        let bytes =
            fs::read(path).map_err(|error| format!("the compiled library cannot be read: {error}"))?;
        let section = elf::ops(&bytes).ok_or("the compiled library has no congestion control")?;
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| "a path has a zero in it")?;
        // SAFETY: the library was made from native.c and the candidate; each symbol has the type native.c gives it, and
        // the section lies where the file says, from where it was loaded.
        unsafe {
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            if handle.is_null() {
                let why = libc::dlerror();
                let why = if why.is_null() { c"no reason given" } else { CStr::from_ptr(why) };
                return Err(format!("the compiled library cannot be opened: {}", why.to_string_lossy()));
            }
            let find = |name: &CStr| libc::dlsym(handle, name.as_ptr());
            use std::mem::transmute;
            let functions = Functions {
                new: transmute::<*mut c_void, unsafe extern "C" fn(Ops, u64) -> Connection>(find(
                    c"tailback_new",
                )),
                free: transmute::<*mut c_void, unsafe extern "C" fn(Connection)>(find(c"tailback_free")),
                established: transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(Connection, u64, *mut Window, u32, u32),
                >(find(c"tailback_established")),
                ack: transmute::<*mut c_void, unsafe extern "C" fn(Connection, *const Given, *mut Window)>(
                    find(c"tailback_ack"),
                ),
                congestion: transmute::<*mut c_void, unsafe extern "C" fn(Connection, u64, u32, *mut Window)>(
                    find(c"tailback_congestion"),
                ),
                state: transmute::<*mut c_void, unsafe extern "C" fn(Connection, u64, u32, u32, *mut Window)>(
                    find(c"tailback_state"),
                ),
                undo: transmute::<*mut c_void, unsafe extern "C" fn(Connection, u64, *mut Window)>(find(
                    c"tailback_undo",
                )),
                event: transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(Connection, u64, u64, u32, u32, *mut Window),
                >(find(c"tailback_event")),
            };
            let size = transmute::<*mut c_void, unsafe extern "C" fn() -> u64>(find(c"tailback_ops_size"))();
            let mut place: libc::Dl_info = std::mem::zeroed();
            libc::dladdr(find(c"tailback_ops_size"), &raw mut place);
            let ops: Ops = place.dli_fbase.cast::<u8>().add(section.address as usize).cast();
            let mut library = Library { handle, ops, owns_window: false, functions };
            let count = section.place.len() as u64 / size;
            if count != 1 {
                return Err(format!(
                    "it has {count} congestion controls: leave one struct tcp_congestion_ops in it"
                ));
            }
            let hooks = transmute::<*mut c_void, unsafe extern "C" fn(Ops) -> u32>(find(c"tailback_hooks"))(
                library.ops,
            );
            if hooks & 1 == 0 {
                return Err(
                    "it needs ssthresh, undo_cwnd, and cong_avoid or cong_control, as in the kernel".into()
                );
            }
            library.owns_window = hooks & 2 != 0;
            Ok(library)
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: opened once, and no connection of it is left: each holds the library.
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

/// A candidate by the name it has in scenarios, compiled for each set of parameters.
#[derive(Debug)]
pub struct NativeMaker {
    name: Arc<str>,
    libraries: Vec<(Params, PathBuf)>,
    /// What is open: a library's global variables live as long as the run.
    open: Vec<Mutex<Weak<Library>>>,
}

impl NativeMaker {
    /// The maker of `name` from libraries, each with the parameters that were compiled into it.
    pub fn new(name: &str, libraries: Vec<(Params, PathBuf)>) -> Self {
        let open = libraries.iter().map(|_| Mutex::new(Weak::new())).collect();
        NativeMaker { name: name.into(), libraries, open }
    }

    fn library(&self, params: &Params) -> Result<Arc<Library>, String> {
        let found = self.libraries.iter().position(|(compiled, _)| compiled == params);
        let number = found.ok_or("it was not compiled with these parameters")?;
        let mut open = self.open[number].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = open.upgrade() {
            return Ok(library);
        }
        let library = Arc::new(Library::open(&self.libraries[number].1)?);
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

fn fail(algorithm: &str, hook: &'static str, what: impl Into<String>) -> ! {
    resume_unwind(Box::new(Fault { algorithm: algorithm.into(), hook, what: what.into() }))
}

/// A connection's state.
#[derive(Debug)]
struct Native {
    name: Arc<str>,
    library: Arc<Library>,
    connection: Connection,
    /// Bytes acknowledged.
    acked: Bytes,
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: made by `new` of the same library, and freed once.
        unsafe { (self.library.functions.free)(self.connection) }
    }
}

impl Native {
    fn new(name: Arc<str>, library: Arc<Library>, seed: u64) -> Self {
        // SAFETY: the ops belong to the library.
        let connection = unsafe { (library.functions.new)(library.ops, seed) };
        assert!(!connection.is_null(), "memory for a connection");
        Native { name, library, connection, acked: 0 }
    }

    /// Lend the window to what `hook` calls, and take over what that set.
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
        };
        let mut window = before;
        let now_ns = now.as_ps() / 1000;
        guard::begin(hook, now_ns);
        call(&self.library.functions, self.connection, now_ns, &raw mut window);
        guard::end();
        let mss = u64::from(control.mss);
        let said = || hook.to_str().unwrap_or("a hook");
        if window.cwnd != before.cwnd {
            let bytes = u64::from(window.cwnd) * mss;
            if window.cwnd == 0 {
                fail(&self.name, said(), "it set snd_cwnd to 0: nothing would ever be sent again");
            }
            if bytes > MOST_WINDOW {
                fail(&self.name, said(), format!("it set snd_cwnd to {}: more than 1 TiB", window.cwnd));
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
                0 => fail(&self.name, said(), "it set sk_pacing_rate to 0: nothing would ever be sent again"),
                bytes => Some(Rate::from_bps(bytes.saturating_mul(8))),
            };
        }
    }
}

fn micros(duration: Duration) -> u32 {
    duration.as_us().min(u64::from(u32::MAX)) as u32
}

impl CongestionControl for Native {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        self.acked += ack.newly_acked;
        let mss = u64::from(ack.mss);
        let segments = |bytes: Bytes| bytes.div_ceil(mss).min(u64::from(u32::MAX)) as u32;
        let sample = ack.delivery;
        let given = Given {
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
            // Linux `tcp_may_raise_cwnd`: on a much reordered path news by SACK counts too.
            grows: (ack.advances() || ack.may_grow).into(),
            sampled: sample.map_or(0, |sample| segments(sample.bytes)),
            interval_us: sample.map_or(0, |sample| micros(sample.interval).max(1)),
            delivered_since: segments(ack.delivered.saturating_sub(ack.prior_delivered)),
            is_app_limited: ack.app_limited.into(),
        };
        // SAFETY: the record and the window outlive the call; the connection is the library's own.
        self.lend(c"an acknowledgement", ack.now, control, |functions, connection, _, window| unsafe {
            (functions.ack)(connection, &raw const given, window);
        });
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        // Linux `tcp_enter_loss` asks once for the data at hand.
        if congestion.is_repeated_timeout() {
            return;
        }
        let is_timeout = matches!(congestion.signal, Signal::Timeout { .. });
        // SAFETY: the window outlives the call; the connection is the library's own.
        self.lend(c"ssthresh", congestion.now, control, |functions, connection, now, window| unsafe {
            (functions.congestion)(connection, now, is_timeout.into(), window);
        });
        if control.ssthresh == 0 {
            fail(&self.name, "ssthresh", "it returned 0: nothing would ever be sent again");
        }
        // Left unlimited, the window would land there at the end of the recovery.
        if !self.library.owns_window && control.ssthresh > MOST_WINDOW {
            fail(&self.name, "ssthresh", "it returned no limit: return where the window should land");
        }
    }

    fn on_established(&mut self, now: Time, srtt: Option<Duration>, control: &mut Control) {
        let (mss, srtt) = (control.mss, srtt.map_or(0, micros));
        // SAFETY: the window outlives the call; the connection is the library's own.
        self.lend(c"init", now, control, |functions, connection, now, window| unsafe {
            (functions.established)(connection, now, window, mss, srtt);
        });
    }

    fn on_phase(&mut self, change: &PhaseChange, control: &mut Control) {
        let (from, to) = (change.from as u32, change.to as u32);
        // SAFETY: the window outlives the call; the connection is the library's own.
        self.lend(c"set_state", change.now, control, |functions, connection, now, window| unsafe {
            (functions.state)(connection, now, from, to, window);
        });
    }

    fn on_undo(&mut self, now: Time, control: &mut Control) {
        // SAFETY: the window outlives the call; the connection is the library's own.
        self.lend(c"undo_cwnd", now, control, |functions, connection, now, window| unsafe {
            (functions.undo)(connection, now, window);
        });
    }

    fn on_resume(&mut self, resume: &Resume, control: &mut Control) {
        let (idle, limited) = (resume.idle.as_ps() / 1000, resume.app_limited.into());
        // SAFETY: the window outlives the call; the connection is the library's own.
        self.lend(c"cwnd_event", resume.now, control, |functions, connection, now, window| unsafe {
            (functions.event)(connection, now, idle, limited, TX_START, window);
        });
    }

    fn on_idle_restart(&mut self, now: Time, idle: Duration, control: &mut Control) {
        let idle = idle.as_ps() / 1000;
        // SAFETY: the window outlives the call; the connection is the library's own.
        self.lend(c"cwnd_event", now, control, |functions, connection, now, window| unsafe {
            (functions.event)(connection, now, idle, 1, CWND_RESTART, window);
        });
    }

    fn owns_window(&self) -> bool {
        self.library.owns_window
    }
}
