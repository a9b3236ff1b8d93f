//! The interface between tailback and a congestion control in a Rust crate: version 1.
//!
//! Copy this file beside your `lib.rs`, write `mod tailback;`, implement [`Algorithm`], and end with
//! `tailback::export!(Mine);`. It needs no other crate. Windows are in segments, times in microseconds unless a name
//! says otherwise. The rest is in docs/candidates.md.
#![allow(dead_code)]

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void, CStr, CString};
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::Mutex;

/// tailback runs a crate whose version is its own.
pub const VERSION: u32 = 1;
/// `ssthresh` before any congestion.
pub const UNLIMITED: u32 = 0x7fff_ffff;

/// A congestion control: one for each connection. It owns its state; the window is the sender's.
pub trait Algorithm: Sized {
    /// True if the stack shall never reduce the window itself; only then `pacing` counts.
    const OWNS_WINDOW: bool = false;

    /// A connection's state. `seed` is its own: draw from nothing else, or runs cannot be repeated.
    fn new(params: &mut Params, seed: u64) -> Result<Self, String>;
    /// An acknowledgement arrived. Let the window grow only if [`Ack::may_grow`].
    fn on_ack(&mut self, ack: &Ack, window: &mut Window);
    /// Congestion: set `window.ssthresh` to where the window should land; the stack brings it there.
    fn on_congestion(&mut self, congestion: &Congestion, window: &mut Window);
    /// The connection is established; `srtt_us` is the handshake's, 0 if it gave none.
    fn on_established(&mut self, _now_ns: u64, _srtt_us: u32, _window: &mut Window) {}
    /// The recovery state changed.
    fn on_phase(&mut self, _now_ns: u64, _from: Phase, _to: Phase, _window: &mut Window) {}
    /// A reduction proved wrong, and the stack has taken it back.
    fn on_undo(&mut self, _now_ns: u64, _window: &mut Window) {}
    /// Sending resumes with nothing in flight.
    fn on_resume(&mut self, _resume: &Resume, _window: &mut Window) {}
    /// Sending resumes after more than a timeout, and the stack has lowered the window for it.
    fn on_idle_restart(&mut self, _resume: &Resume, _window: &mut Window) {}
}

/// What an algorithm controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window.
    pub cwnd: u32,
    /// Slow-start threshold; [`UNLIMITED`] before any congestion.
    pub ssthresh: u32,
    /// Bytes a second.
    pub pacing: Option<u64>,
    /// Payload bytes of a full segment.
    pub mss: u32,
}

/// What an acknowledgement reports.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it arrived.
    pub now_ns: u64,
    /// When pacing lets the next segment leave; now if nothing holds it back.
    pub departs_ns: u64,
    /// Bytes acknowledged on the connection so far.
    pub bytes_acked: u64,
    /// RTT sample; negative if it gave none.
    pub rtt_us: i32,
    /// Smoothed RTT.
    pub srtt_us: u32,
    /// Smallest RTT sample of the connection.
    pub rtt_min_us: u32,
    /// Segments that it acknowledges cumulatively.
    pub covered: u32,
    /// Segments newly delivered: acknowledged cumulatively or by SACK for the first time.
    pub delivered: u32,
    /// Of these, marked.
    pub marked: u32,
    /// Segments newly declared lost.
    pub losses: u32,
    /// First byte that is not acknowledged; wraps.
    pub snd_una: u32,
    /// Next byte to be sent; wraps.
    pub snd_nxt: u32,
    /// In flight after it.
    pub in_flight: u32,
    /// In flight before it.
    pub prior_in_flight: u32,
    is_limited: u32,
    grows: u32,
    /// Of the delivery rate: this many segments came
    pub sampled: u32,
    /// in so long; 0 if there is no sample.
    pub interval_us: u32,
    /// Segments delivered since the one that gave the sample was sent.
    pub delivered_since: u32,
    is_app_limited: u32,
}

impl Ack {
    /// Data was acknowledged, no reduction is under way, and the window is what limits the sender.
    pub fn may_grow(&self) -> bool {
        self.grows != 0 && self.is_limited != 0
    }
    /// Is the window what limits the sender?
    pub fn is_cwnd_limited(&self) -> bool {
        self.is_limited != 0
    }
    /// Was the delivery-rate sample taken while the application had nothing to send?
    pub fn is_app_limited(&self) -> bool {
        self.is_app_limited != 0
    }
}

/// A congestion episode begins.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// Time of the congestion signal.
    pub now_ns: u64,
    /// By a timeout; else by loss or ECN.
    pub is_timeout: bool,
}

/// Linux' recovery states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// No loss, reordering or mark is being handled.
    Open,
    /// Duplicate acknowledgements, not yet treated as loss.
    Disorder,
    /// Reducing after an ECN echo.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a timeout.
    Loss,
}

/// Sending resumes.
#[derive(Clone, Copy, Debug)]
pub struct Resume {
    /// Time at which sending resumes.
    pub now_ns: u64,
    /// Since the last segment left.
    pub idle_ns: u64,
    /// The application had nothing to send meanwhile.
    pub is_app_limited: bool,
}

/// The parameters that the scenario gives: `cc = { name = "rust:mine", keeps = 0.7 }`.
#[derive(Clone, Debug, Default)]
pub struct Params {
    given: BTreeMap<String, String>,
    known: Vec<&'static str>,
}

impl Params {
    /// A number by name.
    pub fn number(&mut self, name: &'static str, default: f64) -> Result<f64, String> {
        self.read(name, default, "a number")
    }
    /// True or false by name.
    pub fn flag(&mut self, name: &'static str, default: bool) -> Result<bool, String> {
        self.read(name, default, "true or false")
    }
    /// A word by name.
    pub fn word(&mut self, name: &'static str, default: &str) -> Result<String, String> {
        self.read(name, default.to_string(), "a word")
    }

    fn read<T: std::str::FromStr>(
        &mut self,
        name: &'static str,
        default: T,
        kind: &str,
    ) -> Result<T, String> {
        self.known.push(name);
        let Some(text) = self.given.get(name) else { return Ok(default) };
        text.parse().map_err(|_| format!("{name} = {text}: must be {kind}"))
    }

    fn parsed(lines: &str) -> Self {
        let pairs = lines.lines().filter_map(|line| line.split_once('='));
        let given = pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Params { given, known: Vec::new() }
    }

    fn unknown(&self) -> Option<String> {
        let name = self.given.keys().find(|name| !self.known.contains(&name.as_str()))?;
        let known = if self.known.is_empty() { "none".into() } else { self.known.join(", ") };
        Some(format!("it has no parameter {name}. There are: {known}"))
    }
}

// --- What tailback calls: one symbol for each hook, made by `export!`. ---

/// Make a type that implements [`Algorithm`] what the crate exports.
macro_rules! export {
    ($algorithm:ty) => {
        mod tailback_exported {
            use std::ffi::{c_char, c_void};

            use super::tailback as by;
            use super::*;
            type Of = $algorithm;

            #[unsafe(no_mangle)]
            extern "C" fn tailback_abi() -> u32 {
                by::VERSION
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn tailback_ops(
                params: *const c_char,
                fault: *mut *const c_char,
            ) -> *const c_void {
                by::ops::<Of>(params, fault)
            }
            #[unsafe(no_mangle)]
            extern "C" fn tailback_hooks(_ops: *const c_void) -> u32 {
                1 | if <Of as by::Algorithm>::OWNS_WINDOW { 2 } else { 0 }
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn tailback_new(ops: *const c_void, seed: u64) -> *mut c_void {
                by::new::<Of>(ops, seed)
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn tailback_free(of: *mut c_void) {
                by::free::<Of>(of)
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn tailback_established(
                of: *mut c_void,
                now_ns: u64,
                raw: *mut by::Raw,
                mss: u32,
                srtt_us: u32,
            ) {
                by::established::<Of>(of, now_ns, raw, mss, srtt_us)
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn tailback_ack(of: *mut c_void, given: *const by::Ack, raw: *mut by::Raw) {
                by::hook::<Of>(of, raw, |mine, window| by::Algorithm::on_ack(mine, &*given, window))
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn tailback_congestion(
                of: *mut c_void,
                now_ns: u64,
                is_timeout: u32,
                raw: *mut by::Raw,
            ) {
                let congestion = by::Congestion { now_ns, is_timeout: is_timeout != 0 };
                by::hook::<Of>(of, raw, |mine, window| {
                    by::Algorithm::on_congestion(mine, &congestion, window)
                })
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn tailback_state(
                of: *mut c_void,
                now_ns: u64,
                from: u32,
                to: u32,
                raw: *mut by::Raw,
            ) {
                let (from, to) = (by::phase(from), by::phase(to));
                by::hook::<Of>(of, raw, |mine, window| {
                    by::Algorithm::on_phase(mine, now_ns, from, to, window)
                })
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn tailback_undo(of: *mut c_void, now_ns: u64, raw: *mut by::Raw) {
                by::hook::<Of>(of, raw, |mine, window| by::Algorithm::on_undo(mine, now_ns, window))
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn tailback_event(
                of: *mut c_void,
                now_ns: u64,
                idle_ns: u64,
                is_app_limited: u32,
                event: u32,
                raw: *mut by::Raw,
            ) {
                let resume = by::Resume { now_ns, idle_ns, is_app_limited: is_app_limited != 0 };
                by::hook::<Of>(of, raw, |mine, window| match event {
                    0 => by::Algorithm::on_resume(mine, &resume, window),
                    _ => by::Algorithm::on_idle_restart(mine, &resume, window),
                })
            }
        }
    };
}
pub(crate) use export;

/// The window as it crosses the border.
#[repr(C)]
pub struct Raw {
    cwnd: u32,
    ssthresh: u32,
    /// Bytes a second; all ones for none.
    pacing: u64,
    /// What went wrong, or nothing.
    fault: *const c_char,
}

/// A connection, and what went wrong when it was made.
struct Connection<A> {
    algorithm: Result<A, String>,
    pacing: Option<u64>,
    mss: u32,
}

/// Where the last panic was.
static PLACE: Mutex<String> = Mutex::new(String::new());

/// What `work` returns, or how it panicked.
fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|payload: Box<dyn Any + Send>| {
        let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let place = PLACE.lock().map_or_else(|_| String::new(), |place| place.clone());
        format!("it panicked: {} at {place}", text.unwrap_or_else(|| "without a message".into()))
    })
}

/// A text that outlives this: the run ends with it.
fn leaked(text: &str) -> *const c_char {
    CString::new(text.replace('\0', " ")).map_or(ptr::null(), |text| text.into_raw().cast_const())
}

pub unsafe fn ops<A: Algorithm>(params: *const c_char, fault: *mut *const c_char) -> *const c_void {
    panic::set_hook(Box::new(|panicked| {
        let place = panicked.location().map(|place| format!("{}:{}", place.file(), place.line()));
        if let Ok(mut last) = PLACE.lock() {
            *last = place.unwrap_or_else(|| "an unknown place".into());
        }
    }));
    let given = Params::parsed(&CStr::from_ptr(params).to_string_lossy());
    let mut tried = given.clone();
    let made = caught(|| A::new(&mut tried, 0).map(drop)).and_then(|made| made);
    match made.err().or_else(|| tried.unknown()) {
        Some(why) => {
            *fault = leaked(&why);
            ptr::null()
        }
        None => Box::into_raw(Box::new(given)).cast_const().cast(),
    }
}

pub unsafe fn new<A: Algorithm>(ops: *const c_void, seed: u64) -> *mut c_void {
    let mut params = (*ops.cast::<Params>()).clone();
    let algorithm = caught(|| A::new(&mut params, seed)).and_then(|made| made);
    Box::into_raw(Box::new(Connection { algorithm, pacing: None, mss: 1 })).cast()
}

pub unsafe fn free<A: Algorithm>(of: *mut c_void) {
    // A panic in `drop` cannot be reported any more.
    let _ = caught(|| drop(Box::from_raw(of.cast::<Connection<A>>())));
}

pub unsafe fn established<A: Algorithm>(of: *mut c_void, now_ns: u64, raw: *mut Raw, mss: u32, srtt_us: u32) {
    (*of.cast::<Connection<A>>()).mss = mss;
    hook::<A>(of, raw, |mine, window| mine.on_established(now_ns, srtt_us, window));
}

pub unsafe fn hook<A: Algorithm>(of: *mut c_void, raw: *mut Raw, call: impl FnOnce(&mut A, &mut Window)) {
    let (of, raw) = (&mut *of.cast::<Connection<A>>(), &mut *raw);
    let mut window = Window { cwnd: raw.cwnd, ssthresh: raw.ssthresh, pacing: of.pacing, mss: of.mss };
    let outcome = match &mut of.algorithm {
        Ok(algorithm) => caught(|| call(algorithm, &mut window)),
        Err(why) => Err(why.clone()),
    };
    (raw.cwnd, raw.ssthresh) = (window.cwnd, window.ssthresh);
    raw.pacing = window.pacing.unwrap_or(u64::MAX);
    of.pacing = window.pacing;
    if let Err(why) = outcome {
        raw.fault = leaked(&why);
    }
}

pub fn phase(number: u32) -> Phase {
    match number {
        0 => Phase::Open,
        1 => Phase::Disorder,
        2 => Phase::Cwr,
        3 => Phase::Recovery,
        _ => Phase::Loss,
    }
}
