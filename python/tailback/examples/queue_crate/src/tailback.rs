//! The interface between tailback and a queue discipline in a Rust crate: version 1.
//!
//! Copy this file beside your `lib.rs`, write `mod tailback;`, implement [`Queue`], and end with
//! `tailback::export!(Mine);`. It needs no other crate. Times are in nanoseconds of simulated time. The rest is in
//! docs/candidates.md.
#![allow(dead_code)]

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void, CStr, CString};
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::str::FromStr;
use std::sync::{Mutex, Once};

/// tailback runs a crate whose version is its own.
pub const VERSION: u32 = 1;

/// A queue discipline: one for each link that names it. tailback keeps what packets carry, and checks what becomes of each.
pub trait Queue: Sized {
    /// What it declares about itself.
    const ABOUT: About = About::PLAIN;

    /// An empty queue.
    fn new(params: &mut Params, link: &Link) -> Result<Self, String>;
    /// A packet comes: keep it, or give it to [`Fate::drop`].
    fn enqueue(&mut self, packet: Packet, now_ns: u64, fate: &mut Fate);
    /// The link is free: the next packet. `None` while packets are held only if [`About::holds_back`].
    fn dequeue(&mut self, now_ns: u64, fate: &mut Fate) -> Option<Packet>;
    /// Of a queue that holds back: when `dequeue`, which just gave `None`, is called again; a time after `now_ns`.
    fn ready_at_ns(&self, _now_ns: u64) -> Option<u64> {
        None
    }
}

/// What a queue declares: `const ABOUT: About = About { reorders: true, ..About::PLAIN };`.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Packets of one connection may leave in another order than they came.
    pub reorders: bool,
    /// It may hold packets back although the link is free: it shapes.
    pub holds_back: bool,
    /// Of its dossier: the delay that it promises to hold. A parameter `target_ms` overrides it.
    pub target_ms: Option<f64>,
    /// Of its dossier: the burst that it promises to let through. A parameter `burst_ms` overrides it.
    pub burst_ms: Option<f64>,
    /// Of its dossier: what has a queue of its own, "flows" or "hosts"; else empty.
    pub isolates: &'static str,
    /// Of its dossier: its law drops the packet that has waited longest.
    pub drops_at_head: bool,
}

impl About {
    /// One that declares nothing.
    pub const PLAIN: About = About {
        reorders: false,
        holds_back: false,
        target_ms: None,
        burst_ms: None,
        isolates: "",
        drops_at_head: false,
    };
}

/// Where the queue stands.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The queue's own: draw random numbers from nothing else, or runs cannot be repeated.
    pub seed: u64,
    /// Bits a second; `None` of a link whose rate changes.
    pub rate_bps: Option<u64>,
}

/// A packet: kept, returned by `dequeue`, or dropped by [`Fate::drop`], each once. To forget one is to lose it.
#[must_use = "a packet that is forgotten is lost, which ends the run"]
#[repr(C)]
#[derive(Debug)]
pub struct Packet {
    number: u64,
    enqueued_ns: u64,
    flow: u32,
    bytes: u32,
    conversation: u32,
    ecn: Ecn,
    is_reverse: bool,
}

impl Packet {
    /// Its number at this queue, from 0 on in the order of arrival; errors name it.
    pub fn number(&self) -> u64 {
        self.number
    }
    /// When it came.
    pub fn enqueued_ns(&self) -> u64 {
        self.enqueued_ns
    }
    /// The number of its flow in the scenario.
    pub fn flow(&self) -> u32 {
        self.flow
    }
    /// Does it go from the flow's receiver to its sender?
    pub fn is_reverse(&self) -> bool {
        self.is_reverse
    }
    /// Low eight bits of the number of its connection within the flow. A hash uses them like ports.
    pub fn conversation(&self) -> u8 {
        self.conversation as u8
    }
    /// IP length.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }
    /// ECN codepoint.
    pub fn ecn(&self) -> Ecn {
        self.ecn
    }
}

/// ECN codepoint of the IP header.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// The sender does not speak ECN.
    NotEct = 0,
    /// ECN capable, and L4S.
    Ect1 = 1,
    /// ECN capable.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// May a queue mark the packet?
    pub fn is_capable(self) -> bool {
        self != Ecn::NotEct
    }
}

/// Why a packet is dropped, as tables record it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no room for the packet that comes.
    QueueFull = 1,
    /// To make room for another.
    Overlimit = 2,
    /// The queue's law.
    Aqm = 3,
}

/// What is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Packets.
    pub packets: u32,
    /// IP bytes.
    pub bytes: u64,
}

/// Takes what a queue does to packets during a call.
#[derive(Debug)]
pub struct Fate {
    held: Held,
    /// The packet that comes, which is not counted as held; in `dequeue` no packet's number.
    offered: u64,
    deeds: Vec<RawDeed>,
}

impl Fate {
    /// What waited as the call began, less what was dropped since. The packet that comes is not counted; one that
    /// `dequeue` has taken out is, until it returns.
    pub fn held(&self) -> Held {
        self.held
    }
    /// Drop a packet.
    pub fn drop(&mut self, packet: Packet, why: Reason) {
        if packet.number != self.offered {
            self.held.packets = self.held.packets.saturating_sub(1);
            self.held.bytes = self.held.bytes.saturating_sub(u64::from(packet.bytes));
        }
        self.deeds.push(RawDeed { number: packet.number, what: why as u32 });
    }
    /// Mark a packet CE. Its sender must speak ECN: [`Ecn::is_capable`].
    pub fn mark(&mut self, packet: &mut Packet) {
        if packet.ecn.is_capable() {
            packet.ecn = Ecn::Ce;
        }
        self.deeds.push(RawDeed { number: packet.number, what: 0 });
    }
}

/// The parameters that the scenario gives: `queue = { discipline = "rust:mine", most_ms = 20 }`. `limit = "100packets"` is
/// `limit_packets`, and a limit in bytes is `limit_bytes`.
#[derive(Clone, Debug, Default)]
pub struct Params {
    given: BTreeMap<String, String>,
    /// Each that was read, with its default.
    known: Vec<(&'static str, String)>,
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

    fn read<T: FromStr + ToString>(
        &mut self,
        name: &'static str,
        default: T,
        kind: &str,
    ) -> Result<T, String> {
        self.known.push((name, default.to_string()));
        let Some(text) = self.given.get(name) else { return Ok(default) };
        text.parse().map_err(|_| format!("{name} = {text}: must be {kind}"))
    }

    fn parsed(lines: &str) -> Self {
        let pairs = lines.lines().filter_map(|line| line.split_once('='));
        let given = pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Params { given, known: Vec::new() }
    }

    fn unknown(&self) -> Option<String> {
        let known: Vec<&str> = self.known.iter().map(|(name, _)| *name).collect();
        let name = self.given.keys().find(|name| !known.contains(&name.as_str()))?;
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        Some(format!("it has no parameter {name}. There are: {known}"))
    }
}

// --- What tailback calls, made by `export!`. ---

/// Make a type that implements [`Queue`] what the crate exports.
macro_rules! export {
    ($queue:ty) => {
        mod tailback_exported {
            use std::ffi::{c_char, c_void};

            use super::tailback as by;
            use super::*;
            type Of = $queue;

            #[unsafe(no_mangle)]
            extern "C" fn tailback_queue_abi() -> u32 {
                by::VERSION
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn tailback_queue_about(
                params: *const c_char,
                rate_bps: u64,
                fault: *mut *const c_char,
            ) -> *const c_char {
                by::about::<Of>(params, rate_bps, fault)
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn tailback_queue_new(
                params: *const c_char,
                seed: u64,
                rate_bps: u64,
                fault: *mut *const c_char,
            ) -> *mut c_void {
                by::new::<Of>(params, seed, rate_bps, fault)
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn tailback_queue_free(of: *mut c_void) {
                by::free::<Of>(of)
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn tailback_queue_enqueue(
                of: *mut c_void,
                packet: *const by::Packet,
                call: *mut by::Call,
            ) {
                by::enqueue::<Of>(of, packet, call)
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn tailback_queue_dequeue(of: *mut c_void, call: *mut by::Call) {
                by::dequeue::<Of>(of, call)
            }
        }
    };
}
pub(crate) use export;

/// What was done to a packet: 0 for a mark, else a [`Reason`].
#[repr(C)]
#[derive(Debug)]
struct RawDeed {
    number: u64,
    what: u32,
}

/// A call as it crosses the border.
#[repr(C)]
pub struct Call {
    now_ns: u64,
    held_bytes: u64,
    held_packets: u32,
    /// What `dequeue` gives: nothing, a packet or a time.
    gives: u32,
    value: u64,
    deeds: *const RawDeed,
    deed_count: u64,
    /// What went wrong, or nothing.
    fault: *const c_char,
}

const PACKET: u32 = 1;
const WAIT: u32 = 2;

/// A queue, and what it did to packets in the last call.
struct Hosted<Q> {
    queue: Q,
    fate: Fate,
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

/// What a queue is made of.
unsafe fn made<Q: Queue>(params: *const c_char, seed: u64, rate_bps: u64) -> Result<(Q, Params), String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        panic::set_hook(Box::new(|panicked| {
            let place = panicked.location().map(|place| format!("{}:{}", place.file(), place.line()));
            if let Ok(mut last) = PLACE.lock() {
                *last = place.unwrap_or_else(|| "an unknown place".into());
            }
        }));
    });
    let mut params = Params::parsed(&CStr::from_ptr(params).to_string_lossy());
    let link = Link { seed, rate_bps: (rate_bps > 0).then_some(rate_bps) };
    let queue = caught(|| Q::new(&mut params, &link)).and_then(|made| made)?;
    match params.unknown() {
        Some(why) => Err(why),
        None => Ok((queue, params)),
    }
}

pub unsafe fn about<Q: Queue>(
    params: *const c_char,
    rate_bps: u64,
    fault: *mut *const c_char,
) -> *const c_char {
    let (queue, params) = match made::<Q>(params, 0, rate_bps) {
        Ok(made) => made,
        Err(why) => {
            *fault = leaked(&why);
            return ptr::null();
        }
    };
    // A panic in `drop` cannot be reported.
    let _ = caught(|| drop(queue));
    let About { reorders, holds_back, target_ms, burst_ms, isolates, drops_at_head } = Q::ABOUT;
    let mut lines = vec![
        format!("reorders={reorders}"),
        format!("holds_back={holds_back}"),
        format!("isolates={isolates}"),
        format!("drops_at_head={drops_at_head}"),
    ];
    lines.extend(target_ms.map(|ms| format!("target_ms={ms}")));
    lines.extend(burst_ms.map(|ms| format!("burst_ms={ms}")));
    lines.extend(params.known.iter().map(|(name, default)| format!("parameter:{name}={default}")));
    leaked(&lines.join("\n"))
}

pub unsafe fn new<Q: Queue>(
    params: *const c_char,
    seed: u64,
    rate_bps: u64,
    fault: *mut *const c_char,
) -> *mut c_void {
    let fate = Fate { held: Held { packets: 0, bytes: 0 }, offered: u64::MAX, deeds: Vec::new() };
    match made::<Q>(params, seed, rate_bps) {
        Ok((queue, _)) => Box::into_raw(Box::new(Hosted { queue, fate })).cast(),
        Err(why) => {
            *fault = leaked(&why);
            ptr::null_mut()
        }
    }
}

pub unsafe fn free<Q: Queue>(of: *mut c_void) {
    let of = Box::from_raw(of.cast::<Hosted<Q>>());
    // A panic in `drop` cannot be reported any more.
    let _ = caught(|| drop(of));
}

pub unsafe fn enqueue<Q: Queue>(of: *mut c_void, packet: *const Packet, call: *mut Call) {
    let packet = ptr::read(packet);
    let offered = packet.number;
    hook::<Q>(of, call, offered, |queue, now_ns, fate| {
        queue.enqueue(packet, now_ns, fate);
        (0, 0)
    });
}

pub unsafe fn dequeue<Q: Queue>(of: *mut c_void, call: *mut Call) {
    hook::<Q>(of, call, u64::MAX, |queue, now_ns, fate| match queue.dequeue(now_ns, fate) {
        Some(packet) => (PACKET, packet.number),
        None => queue.ready_at_ns(now_ns).map_or((0, 0), |due| (WAIT, due)),
    });
}

unsafe fn hook<Q: Queue>(
    of: *mut c_void,
    call: *mut Call,
    offered: u64,
    work: impl FnOnce(&mut Q, u64, &mut Fate) -> (u32, u64),
) {
    let (of, call) = (&mut *of.cast::<Hosted<Q>>(), &mut *call);
    of.fate.held = Held { packets: call.held_packets, bytes: call.held_bytes };
    of.fate.offered = offered;
    of.fate.deeds.clear();
    match caught(|| work(&mut of.queue, call.now_ns, &mut of.fate)) {
        Ok((gives, value)) => (call.gives, call.value) = (gives, value),
        Err(why) => call.fault = leaked(&why),
    }
    (call.deeds, call.deed_count) = (of.fate.deeds.as_ptr(), of.fate.deeds.len() as u64);
}
