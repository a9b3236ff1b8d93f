//! A queue discipline from a Rust crate or BPF source as a queue of the simulator: the counterpart of the template's
//! `tailback.rs`, and of `bpf/candidate/native_qdisc.c`, which gives a BPF source the same functions.
//!
//! The library knows packets by number. The packets themselves stay in the core, which checks the library's actions
//! (`tailback_core::queue::external`).
#![allow(
    unsafe_code,
    reason = "a library is opened and called; what it does is its own, see the crate's page"
)]

use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::slice;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tailback_core::packet::Packet;
use tailback_core::queue::external::{Declared, Deed, External, Failure, Maker, Next, Offer};
use tailback_core::queue::{Backlog, DropReason};
use tailback_core::scenario::Params;
use tailback_core::time::Time;

use crate::guard;
use crate::native::{Handle, demand_version, kernel_ops, lines, named, text};

/// Version of the interface between a crate and this file; `tailback.rs` of the template has the same constant.
pub const QUEUE_VERSION: u32 = 1;
/// A function that every version of a crate with a queue exports.
pub(crate) const VERSION_SYMBOL: &CStr = c"tailback_queue_abi";
/// The function of a BPF source's library that receives its struct.
const OPS_SYMBOL: &CStr = c"tailback_queue_ops";

/// `Packet` of the template.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Given {
    number: u64,
    enqueued_ns: u64,
    flow: u32,
    bytes: u32,
    conversation: u32,
    ecn: u8,
    is_reverse: u8,
}

/// `RawDeed` of the template.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct RawDeed {
    number: u64,
    /// 0: mark; otherwise drop, and the value is the reason.
    what: u32,
}

/// `Call` of the template: a hook's arguments and results.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Call {
    now_ns: u64,
    held_bytes: u64,
    held_packets: u32,
    /// Kind of `dequeue`'s result: [`NOTHING`], [`PACKET`] or [`WAIT`].
    gives: u32,
    /// A packet's number, or the end of the wait in nanoseconds.
    value: u64,
    deeds: *const RawDeed,
    deed_count: u64,
    /// The fault, or null.
    fault: *const c_char,
}

const NOTHING: u32 = 0;
const PACKET: u32 = 1;
const WAIT: u32 = 2;

impl Call {
    fn begin(held: Backlog, now: Time) -> Self {
        Call {
            now_ns: nanos(now),
            held_bytes: held.bytes,
            held_packets: held.packets,
            gives: NOTHING,
            value: 0,
            deeds: ptr::null(),
            deed_count: 0,
            fault: ptr::null(),
        }
    }
}

fn nanos(time: Time) -> u64 {
    time.as_ps() / 1000
}

type State = *mut c_void;
type About = unsafe extern "C" fn(*const c_char, u64, *mut *const c_char) -> *const c_char;
type New = unsafe extern "C" fn(*const c_char, u64, u64, *mut *const c_char) -> State;

/// The functions of the template's `tailback.rs`.
struct Functions {
    about: About,
    new: New,
    free: unsafe extern "C" fn(State),
    enqueue: unsafe extern "C" fn(State, *const Given, *mut Call),
    dequeue: unsafe extern "C" fn(State, *mut Call),
}

/// An open library with a queue.
pub struct QueueLibrary {
    functions: Functions,
    /// Whether its queue is in global variables, so that each queue needs a library of its own (true of BPF sources).
    holds_one: bool,
    /// Closes the library when dropped.
    _handle: Handle,
}

// SAFETY: a run has one thread, and nothing from a library outlives its run.
unsafe impl Send for QueueLibrary {}
// SAFETY: as above; the functions are only read.
unsafe impl Sync for QueueLibrary {}

impl fmt::Debug for QueueLibrary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("QueueLibrary").finish_non_exhaustive()
    }
}

impl QueueLibrary {
    /// Opens a crate with the template's `export!`, built by cargo, or a BPF source, built by clang; returns what is
    /// wrong with it otherwise.
    pub fn open(path: &Path) -> Result<Self, String> {
        let handle = Handle::afresh(path)?;
        if handle.find(VERSION_SYMBOL).is_null() {
            let is_algorithm =
                [c"tailback_abi", c"tailback_ops_size"].iter().any(|name| !handle.find(name).is_null());
            let what = match is_algorithm {
                true => "it exports a congestion control, and no queue: name it as a flow's cc",
                false => "it exports no queue: end src/lib.rs with tailback::export!(Mine)",
            };
            return Err(what.into());
        }
        // SAFETY: the library contains the template's tailback.rs, whose version is checked first; each symbol has the
        // type declared there.
        let functions = unsafe {
            demand_version(&handle, VERSION_SYMBOL, QUEUE_VERSION)?;
            Functions {
                about: handle.function(c"tailback_queue_about")?,
                new: handle.function(c"tailback_queue_new")?,
                free: handle.function(c"tailback_queue_free")?,
                enqueue: handle.function(c"tailback_queue_enqueue")?,
                dequeue: handle.function(c"tailback_queue_dequeue")?,
            }
        };
        let holds_one = !handle.find(OPS_SYMBOL).is_null();
        if holds_one {
            // SAFETY: native_qdisc.c has both functions, and the struct is within the library.
            unsafe {
                let ops = kernel_ops(&handle, path, c"tailback_queue_ops_size", "struct Qdisc_ops")?;
                handle.function::<unsafe extern "C" fn(*const c_void)>(OPS_SYMBOL)?(ops);
            }
        }
        Ok(QueueLibrary { functions, holds_one, _handle: handle })
    }

    /// Makes a queue with these parameters and discards it. Returns its description: a line `name=value` for each
    /// declaration, and a line `parameter:name=default` for each parameter that it reads.
    pub fn about(&self, params: &Params, rate_bps: Option<u64>) -> Result<String, String> {
        let lines = lines(params)?;
        let mut fault = ptr::null();
        guard::begin(c"", c"new", 0);
        // SAFETY: the parameters outlive the call, and the string is the library's and permanent.
        let said = unsafe {
            let said = (self.functions.about)(lines.as_ptr(), rate_bps.unwrap_or(0), &raw mut fault);
            guard::end();
            text(said).ok_or_else(|| text(fault))
        };
        said.map_err(why_not)
    }
}

/// Why a queue could not be made, if the library reports it.
fn why_not(fault: Option<String>) -> String {
    fault.unwrap_or_else(|| "it could not be made, and does not say why".into())
}

/// A crate or BPF source with a queue, by its name in scenarios, with one library for each set of parameters.
#[derive(Debug)]
pub struct NativeQueueMaker {
    libraries: Vec<(Params, PathBuf)>,
    /// The open libraries; their global variables live as long as the run.
    open: Vec<Mutex<Weak<QueueLibrary>>>,
}

impl NativeQueueMaker {
    /// Makes queues from libraries, each for the given parameters.
    pub fn new(libraries: Vec<(Params, PathBuf)>) -> Self {
        let open = libraries.iter().map(|_| Mutex::new(Weak::new())).collect();
        NativeQueueMaker { libraries, open }
    }

    fn library(&self, params: &Params) -> Result<Arc<QueueLibrary>, String> {
        let place = self.libraries.iter().position(|(known, _)| known == params);
        let place = place.ok_or("it was not compiled with these parameters")?;
        let mut open = self.open[place].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = open.upgrade().filter(|library| !library.holds_one) {
            return Ok(library);
        }
        let library = Arc::new(QueueLibrary::open(&self.libraries[place].1)?);
        *open = Arc::downgrade(&library);
        Ok(library)
    }
}

impl Maker for NativeQueueMaker {
    fn check(&self, params: &Params, rate_bps: Option<u64>) -> Result<Declared, String> {
        let about = self.library(params)?.about(params, rate_bps)?;
        let declares = |what: &str| about.lines().any(|line| line.strip_prefix(what) == Some("=true"));
        Ok(Declared { reorders: declares("reorders"), holds_back: declares("holds_back") })
    }

    fn make(
        &self,
        name: &str,
        params: &Params,
        seed: u64,
        rate_bps: Option<u64>,
    ) -> Result<Box<dyn External>, Failure> {
        let (name, library, lines) = (named(name), self.library(params)?, lines(params)?);
        let mut fault = ptr::null();
        guard::begin(&name, c"new", 0);
        // SAFETY: the parameters outlive the call; a fault is null or a string of the library.
        let (state, fault) = unsafe {
            let state = (library.functions.new)(lines.as_ptr(), seed, rate_bps.unwrap_or(0), &raw mut fault);
            guard::end();
            (state, text(fault))
        };
        if state.is_null() {
            return Err(why_not(fault).into());
        }
        Ok(Box::new(NativeQueue { name, library, state }))
    }
}

/// A queue implemented by a library.
#[derive(Debug)]
struct NativeQueue {
    name: Arc<CStr>,
    library: Arc<QueueLibrary>,
    state: State,
}

// SAFETY: a run has one thread at a time, and only it calls the library.
unsafe impl Send for NativeQueue {}

impl Drop for NativeQueue {
    fn drop(&mut self) {
        // SAFETY: made by `new` of the same library, and freed once.
        unsafe { (self.library.functions.free)(self.state) }
    }
}

impl NativeQueue {
    /// Applies a hook's actions on packets, or returns its fault.
    #[inline]
    fn settle(call: &Call, deeds: &mut Vec<Deed>) -> Result<(), Failure> {
        if call.deed_count == 0 && call.fault.is_null() {
            return Ok(());
        }
        // SAFETY: null or a string of the library.
        if let Some(what) = unsafe { text(call.fault) } {
            return Err(what.into());
        }
        // SAFETY: the queue's own list, which it leaves unchanged until its next call.
        let done = unsafe { slice::from_raw_parts(call.deeds, call.deed_count as usize) };
        for RawDeed { number, what } in done.iter().copied() {
            deeds.push(match what {
                0 => Deed::Mark(number),
                1 => Deed::Drop(number, DropReason::QueueFull),
                2 => Deed::Drop(number, DropReason::Overlimit),
                3 => Deed::Drop(number, DropReason::Aqm),
                _ => return Err(format!("it did something of number {what} to a packet").into()),
            });
        }
        Ok(())
    }
}

impl External for NativeQueue {
    fn enqueue(
        &mut self,
        number: u64,
        packet: &Packet,
        waiting: Backlog,
        now: Time,
        deeds: &mut Vec<Deed>,
    ) -> Result<Offer, Failure> {
        let mut call = Call::begin(waiting, now);
        let given = Given {
            number,
            enqueued_ns: nanos(packet.enqueued),
            flow: packet.flow.0,
            bytes: packet.bytes,
            conversation: packet.conversation.into(),
            ecn: packet.ecn as u8,
            is_reverse: packet.is_reverse.into(),
        };
        guard::begin(&self.name, c"enqueue", call.now_ns);
        // SAFETY: both records outlive the call; the state is the library's own.
        unsafe { (self.library.functions.enqueue)(self.state, &raw const given, &raw mut call) };
        guard::end();
        // A packet that is not kept is among the actions, with the reason.
        Self::settle(&call, deeds).map(|()| Offer::Keep)
    }

    fn dequeue(&mut self, held: Backlog, now: Time, deeds: &mut Vec<Deed>) -> Result<Next, Failure> {
        let mut call = Call::begin(held, now);
        guard::begin(&self.name, c"dequeue", call.now_ns);
        // SAFETY: the record outlives the call; the state is the library's own.
        unsafe { (self.library.functions.dequeue)(self.state, &raw mut call) };
        guard::end();
        Self::settle(&call, deeds)?;
        Ok(match call.gives {
            PACKET => Next::Packet(call.value),
            WAIT => Next::WaitUntil(call.value as f64 / 1e9),
            _ => Next::Nothing,
        })
    }

    fn declares(&self, field: &str) -> String {
        match self.library.holds_one {
            true => format!("a queue that means this says so: const bool tailback_{field} = true;"),
            false => format!("a queue that means this has {field}: true in its ABOUT"),
        }
    }
}
