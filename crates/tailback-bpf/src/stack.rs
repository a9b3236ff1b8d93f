//! A transport in a C source, compiled to a shared library, as a stack of the simulator: the counterpart of
//! `python/tailback/stacks/tailback_stack.h`.
#![allow(
    unsafe_code,
    reason = "a library is opened and called; what it does is its own, see docs/tutorials/own-stack.md"
)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;

use tailback_core::foreign::{Endpoint, Misuse, Progress, Setup, Stack, State, UDP_HEADERS};
use tailback_core::packet::Ecn;
use tailback_core::time::{Bytes, Duration, Rate, Time};

use crate::guard;
use crate::native::{Handle, named};

/// `TAILBACK_STACK_ABI` of the header.
pub const STACK_VERSION: u32 = 1;
const NEVER_NS: u64 = u64::MAX;

/// `struct tailback_setup`.
#[repr(C)]
#[derive(Debug)]
struct RawSetup {
    now_ns: u64,
    seed: u64,
    send_buffer: u64,
    receive_buffer: u64,
    cc: *const c_char,
    most_payload: u32,
    is_server: u32,
}

/// `struct tailback_state`.
#[repr(C)]
#[derive(Debug, Default)]
struct RawState {
    cwnd: u64,
    ssthresh: u64,
    in_flight: u64,
    srtt_ns: u64,
    rtt_ns: u64,
    rtt_min_ns: u64,
    pacing_bps: u64,
    packets_sent: u64,
    packets_lost: u64,
    congestion_events: u64,
    bytes_acked: u64,
}

type End = *mut c_void;

/// `struct tailback_stack`; a function that the source omits is null.
#[repr(C)]
#[derive(Clone, Copy)]
struct Table {
    abi: u32,
    version: *const c_char,
    algorithms: *const c_char,
    connect: Option<unsafe extern "C" fn(*const RawSetup) -> End>,
    free: Option<unsafe extern "C" fn(End)>,
    on_datagram: Option<unsafe extern "C" fn(End, u64, *const u8, usize, u32)>,
    poll_transmit: Option<unsafe extern "C" fn(End, u64, *mut u8, usize, *mut u32) -> usize>,
    next_timeout: Option<unsafe extern "C" fn(End) -> u64>,
    on_timeout: Option<unsafe extern "C" fn(End, u64)>,
    write: Option<unsafe extern "C" fn(End, u64) -> u64>,
    finish: Option<unsafe extern "C" fn(End)>,
    read: Option<unsafe extern "C" fn(End, u64) -> u64>,
    close: Option<unsafe extern "C" fn(End, u64)>,
    progress: Option<unsafe extern "C" fn(End) -> u32>,
    state: Option<unsafe extern "C" fn(End, *mut RawState)>,
}

impl Table {
    /// The first mandatory function that is missing.
    fn missing(&self) -> Option<&'static str> {
        let has = [
            ("connect", self.connect.is_some()),
            ("free", self.free.is_some()),
            ("on_datagram", self.on_datagram.is_some()),
            ("poll_transmit", self.poll_transmit.is_some()),
            ("next_timeout", self.next_timeout.is_some()),
            ("on_timeout", self.on_timeout.is_some()),
            ("write", self.write.is_some()),
            ("finish", self.finish.is_some()),
            ("read", self.read.is_some()),
            ("close", self.close.is_some()),
            ("progress", self.progress.is_some()),
        ];
        has.into_iter().find(|(_, is_there)| !is_there).map(|(name, _)| name)
    }
}

/// An open library with a stack.
struct Opened {
    name: Arc<CStr>,
    table: Table,
    /// A forbidden function that was called, according to `outside.c`; or null.
    outside: *const *const c_char,
    _handle: Handle,
}

impl Opened {
    /// Calls the library under the guard. `ask` gets the table, in which the function exists.
    fn call<R>(&self, hook: &'static CStr, at_ns: u64, ask: impl FnOnce(&Table) -> R) -> R {
        guard::begin(&self.name, hook, at_ns);
        let answer = ask(&self.table);
        guard::end();
        // SAFETY: a variable of the library, which is open; it points to a string of the library.
        let used =
            unsafe { self.outside.as_ref().filter(|used| !used.is_null()).map(|used| CStr::from_ptr(*used)) };
        if let Some(used) = used {
            misuse(format!(
                "{} calls {}(), which no run repeats: take the time from now_ns and randomness from the seed, and open \
                 no socket",
                hook.to_string_lossy(),
                used.to_string_lossy()
            ));
        }
        answer
    }
}

fn misuse(what: String) -> ! {
    resume_unwind(Box::new(Misuse(what)))
}

/// A stack in a compiled library.
pub struct NativeStack {
    opened: Arc<Opened>,
    version: String,
    algorithms: Vec<&'static str>,
}

// SAFETY: a run has one thread at a time, and opens its own library.
unsafe impl Send for Opened {}
// SAFETY: as above; the table is only read.
unsafe impl Sync for Opened {}

impl fmt::Debug for NativeStack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NativeStack").field("version", &self.version).finish_non_exhaustive()
    }
}

impl NativeStack {
    /// Opens a library compiled from a source that ends with `TAILBACK_STACK(…)`; returns what is wrong with it
    /// otherwise.
    pub fn open(name: &str, path: &Path) -> Result<Self, String> {
        let handle = Handle::afresh(path)?;
        if handle.find(c"tailback_stack").is_null() {
            return Err(
                "it exports no stack: end the source with TAILBACK_STACK(its_name), of tailback_stack.h"
                    .into(),
            );
        }
        let name = named(name);
        guard::begin(&name, c"tailback_stack", 0);
        // SAFETY: the header gives the function this type, and the table is permanent. Of a table with another version
        // only the first field is read.
        let table = unsafe {
            let found = handle.function::<unsafe extern "C" fn() -> *const Table>(c"tailback_stack")?();
            guard::end();
            if found.is_null() {
                return Err("tailback_stack() returns NULL".into());
            }
            let abi = *found.cast::<u32>();
            if abi != STACK_VERSION {
                return Err(format!(
                    "it is written for version {abi} of tailback_stack.h, and this tailback has version {STACK_VERSION}: \
                     set .abi = TAILBACK_STACK_ABI and compile with this header"
                ));
            }
            *found
        };
        if let Some(call) = table.missing() {
            return Err(format!("its struct tailback_stack has no {call}: set .{call}"));
        }
        let words = |text: *const c_char| {
            // SAFETY: null, or a string of the library.
            (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        let algorithms = words(table.algorithms).unwrap_or_default();
        // The trait requires static names: some bytes are leaked for each library opened.
        let algorithms: Vec<&'static str> =
            algorithms.split_whitespace().map(|word| &*Box::leak(word.to_owned().into_boxed_str())).collect();
        if algorithms.is_empty() {
            return Err("it names no congestion control: set .algorithms, such as \"reno\"".into());
        }
        let version = words(table.version).unwrap_or_else(|| "unknown".into());
        let outside = handle.find(c"tailback_outside").cast_const().cast();
        Ok(NativeStack {
            opened: Arc::new(Opened { name, table, outside, _handle: handle }),
            version,
            algorithms,
        })
    }
}

impl Stack for NativeStack {
    fn version(&self) -> &str {
        &self.version
    }

    fn algorithms(&self) -> &[&'static str] {
        &self.algorithms
    }

    fn connect(&self, setup: &Setup<'_>) -> [Box<dyn Endpoint>; 2] {
        let cc = CString::new(setup.cc).expect("a name has no zero");
        [0, 1].map(|is_server| {
            let raw = RawSetup {
                now_ns: nanos(setup.now),
                seed: setup.seed,
                send_buffer: setup.send_buffer.unwrap_or(0),
                receive_buffer: setup.receive_buffer.unwrap_or(0),
                cc: cc.as_ptr(),
                most_payload: setup.mtu.saturating_sub(UDP_HEADERS),
                is_server,
            };
            let at = nanos(setup.now);
            // SAFETY: the setup outlives the call.
            let end = self
                .opened
                .call(c"connect", at, |table| unsafe { table.connect.map(|call| call(&raw const raw)) });
            let end =
                end.filter(|end| !end.is_null()).unwrap_or_else(|| misuse("connect returns NULL".into()));
            let most = raw.most_payload as usize;
            Box::new(NativeEnd { opened: Arc::clone(&self.opened), end, most, at_ns: at })
                as Box<dyn Endpoint>
        })
    }
}

fn nanos(time: Time) -> u64 {
    time.as_ps() / 1000
}

/// One end of a connection.
struct NativeEnd {
    opened: Arc<Opened>,
    end: End,
    most: usize,
    /// The time of the latest call, for calls without a time.
    at_ns: u64,
}

// SAFETY: a run has one thread at a time, and only it calls the library.
unsafe impl Send for NativeEnd {}

impl Drop for NativeEnd {
    fn drop(&mut self) {
        guard::begin(&self.opened.name, c"free", self.at_ns);
        // SAFETY: made by `connect` of the same library, and freed once.
        unsafe { self.opened.table.free.map(|call| call(self.end)) };
        guard::end();
    }
}

/// Calls `$hook` of the end's library. Each function exists: `NativeStack::open` has checked.
macro_rules! ask {
    ($self:ident, $hook:ident $(, $argument:expr)*) => {
        $self.opened.call(
            // SAFETY: the literal ends with its only zero byte.
            unsafe { CStr::from_bytes_with_nul_unchecked(concat!(stringify!($hook), "\0").as_bytes()) },
            $self.at_ns,
            // SAFETY: the end belongs to the library and is alive; all pointers outlive the call.
            |table| unsafe { (table.$hook.expect("looked for when opened"))($self.end $(, $argument)*) },
        )
    };
}

impl NativeEnd {
    fn at(&mut self, now: Time) -> u64 {
        self.at_ns = nanos(now);
        self.at_ns
    }
}

impl Endpoint for NativeEnd {
    fn on_datagram(&mut self, now: Time, datagram: &[u8], ecn: Ecn) {
        let now = self.at(now);
        ask!(self, on_datagram, now, datagram.as_ptr(), datagram.len(), ecn as u32);
    }

    fn poll_transmit(&mut self, now: Time, datagram: &mut Vec<u8>) -> Option<Ecn> {
        let (now, mut ecn) = (self.at(now), 0);
        datagram.resize(self.most, 0);
        let bytes = ask!(self, poll_transmit, now, datagram.as_mut_ptr(), self.most, &raw mut ecn);
        if bytes > self.most {
            misuse(format!("poll_transmit returns {bytes} bytes, and the buffer has room for {}", self.most));
        }
        datagram.truncate(bytes);
        (bytes > 0).then_some(match ecn {
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            3 => Ecn::Ce,
            _ => Ecn::NotEct,
        })
    }

    fn next_timeout(&mut self) -> Time {
        match ask!(self, next_timeout) {
            NEVER_NS => Time::NEVER,
            ns => Time::from_ps(ns.saturating_mul(1000)),
        }
    }

    fn on_timeout(&mut self, now: Time) {
        let now = self.at(now);
        ask!(self, on_timeout, now);
    }

    fn write(&mut self, most: Bytes) -> Bytes {
        let taken = ask!(self, write, most);
        if taken > most {
            misuse(format!("write takes {taken} bytes of {most}"));
        }
        taken
    }

    fn finish(&mut self) {
        ask!(self, finish);
    }

    fn read(&mut self, now: Time) -> Bytes {
        let now = self.at(now);
        ask!(self, read, now)
    }

    fn close(&mut self, now: Time) {
        let now = self.at(now);
        ask!(self, close, now);
    }

    fn progress(&mut self) -> Progress {
        let flags = ask!(self, progress);
        Progress {
            is_established: flags & 1 != 0,
            peer_finished: flags & 2 != 0,
            is_acknowledged: flags & 4 != 0,
            is_closed: flags & 8 != 0,
            has_failed: flags & 16 != 0,
        }
    }

    fn state(&mut self) -> State {
        let Some(call) = self.opened.table.state else { return State::default() };
        let mut raw = RawState::default();
        // SAFETY: the end belongs to the library and is alive; the state outlives the call.
        self.opened.call(c"state", self.at_ns, |_| unsafe { call(self.end, &raw mut raw) });
        let span = |ns: u64| Duration::from_ps(ns.saturating_mul(1000));
        State {
            cwnd: raw.cwnd,
            ssthresh: if raw.ssthresh == 0 { Bytes::MAX } else { raw.ssthresh },
            in_flight: raw.in_flight,
            srtt: span(raw.srtt_ns),
            rtt: span(raw.rtt_ns),
            rtt_min: span(raw.rtt_min_ns),
            pacing_rate: (raw.pacing_bps > 0).then(|| Rate::from_bps(raw.pacing_bps)),
            packets_sent: raw.packets_sent,
            packets_lost: raw.packets_lost,
            congestion_events: raw.congestion_events,
            bytes_acked: raw.bytes_acked,
        }
    }
}
