//! A BPF twin compiled natively, behind a test socket.

use std::ffi::{CStr, CString};
use std::io::Write;
use std::process::{Command, Stdio};

use tailback_live::{sys, twins};

type Begin = unsafe extern "C" fn(u64, u32, u32, u32);
type GiveAck = unsafe extern "C" fn(*const Given);
type Ask = unsafe extern "C" fn(u64) -> u32;
type Notify = unsafe extern "C" fn(u64, u32);
type NotifyIdle = unsafe extern "C" fn(u64, u64);
type Set = unsafe extern "C" fn(u32);
type Get = unsafe extern "C" fn() -> u32;
type Show = unsafe extern "C" fn(*mut Quantity);

/// The most quantities that a twin exports (`bpf/internals.h`).
const QUANTITIES: usize = 5;

/// What happened at an ACK; `struct given` of the harness. Sequence numbers wrap as in the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Given {
    pub now_us: u64,
    /// Negative for none.
    pub rtt_us: i32,
    pub covered: u32,
    pub delivered: u32,
    pub marked: u32,
    pub snd_una: u32,
    pub snd_nxt: u32,
    pub limited: u32,
    /// Whether the kernel would call the growth hook.
    pub grows: u32,
    /// Delivery rate sample: segments delivered, interval, and the delivered count when the first was sent.
    pub sampled: u32,
    pub interval_us: u32,
    pub prior_delivered: u32,
    pub losses: u32,
    pub prior_in_flight: u32,
    /// Time until pacing allows the next segment.
    pub wait_us: u32,
    /// Whether the receiver may have delayed the ACK.
    pub is_delayed: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Quantity {
    value: i64,
    per: i64,
}

/// The kernel's congestion-window events, by its numbers.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    Resume = 0,
    Restart = 1,
    Complete = 2,
    Loss = 3,
}

/// The BPF twin, compiled natively.
pub struct Native {
    begin: Begin,
    ack: GiveAck,
    congestion: Ask,
    state: Notify,
    event: Notify,
    idle: NotifyIdle,
    lost: Set,
    set_cwnd: Set,
    cwnd: Get,
    ssthresh: Get,
    set_draw: Set,
    taken: Get,
    internals: Show,
}

impl Native {
    /// Builds the twin; `None` without clang.
    pub fn build(cc: &str) -> Option<Native> {
        use std::sync::atomic::{AtomicU32, Ordering};
        // Several tests load the same twin: each library has its own socket.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tailback-{cc}-{}-{number}.so", std::process::id()));
        let source = [
            include_str!("../../../../bpf/kernel.h"),
            include_str!("../../../../bpf/parts.h"),
            include_str!("../../../../bpf/internals.h"),
            twins::source(cc).expect("a twin"),
            include_str!("harness.c"),
        ]
        .concat();
        let mut clang = Command::new("clang");
        clang.args(["-x", "c", "-DTAILBACK_NATIVE", "-DNAME=\"native\"", "-O1", "-shared", "-fPIC"]);
        clang.arg(format!("-DKERNEL_HZ={}", sys::ticks_a_second()));
        clang.args(["-Werror", "-Wall", "-Wno-unused-function", "-Wno-pragma-once-outside-header"]);
        clang.args(["-", "-o"]).arg(&path);
        let Ok(mut running) = clang.stdin(Stdio::piped()).spawn() else {
            eprintln!("skipped: clang is not installed");
            return None;
        };
        running.stdin.take().expect("piped").write_all(source.as_bytes()).expect("clang reads");
        assert!(running.wait().expect("clang ends").success(), "{cc} compiles natively");
        let name = CString::new(path.to_str().expect("a plain path")).expect("no zero");
        // SAFETY: the library was just built from our own source; each symbol has the type that harness.c declares.
        let native = unsafe {
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!handle.is_null(), "{cc} is a library");
            let find = |name: &CStr| {
                let found = libc::dlsym(handle, name.as_ptr());
                assert!(!found.is_null());
                found
            };
            use std::mem::transmute;
            Native {
                begin: transmute::<*mut libc::c_void, Begin>(find(c"test_begin")),
                ack: transmute::<*mut libc::c_void, GiveAck>(find(c"test_ack")),
                congestion: transmute::<*mut libc::c_void, Ask>(find(c"test_congestion")),
                state: transmute::<*mut libc::c_void, Notify>(find(c"test_state")),
                event: transmute::<*mut libc::c_void, Notify>(find(c"test_event")),
                idle: transmute::<*mut libc::c_void, NotifyIdle>(find(c"test_idle")),
                lost: transmute::<*mut libc::c_void, Set>(find(c"test_lost")),
                set_cwnd: transmute::<*mut libc::c_void, Set>(find(c"test_set_cwnd")),
                cwnd: transmute::<*mut libc::c_void, Get>(find(c"test_cwnd")),
                ssthresh: transmute::<*mut libc::c_void, Get>(find(c"test_ssthresh")),
                set_draw: transmute::<*mut libc::c_void, Set>(find(c"test_draw")),
                taken: transmute::<*mut libc::c_void, Get>(find(c"test_taken")),
                internals: transmute::<*mut libc::c_void, Show>(find(c"test_internals")),
            }
        };
        std::fs::remove_file(&path).expect("it was made");
        Some(native)
    }

    pub fn begin(&self, now_us: u64, cwnd: u32, mss: u32, srtt_us: u32) {
        // SAFETY: the harness declares these arguments; the library stays loaded while `self` exists, and one thread
        // uses its state.
        unsafe { (self.begin)(now_us, cwnd, mss, srtt_us) }
    }

    pub fn ack(&self, given: &Given) {
        // SAFETY: `given` has the layout that the harness declares, outlives the call and is only read; one thread, as
        // in `begin`.
        unsafe { (self.ack)(given) }
    }

    pub fn congestion(&self, now_us: u64) {
        // SAFETY: as in `begin`: the arguments it declares, one thread.
        unsafe { (self.congestion)(now_us) };
    }

    pub fn state(&self, now_us: u64, state: u32) {
        // SAFETY: as in `begin`: the arguments it declares, one thread.
        unsafe { (self.state)(now_us, state) }
    }

    pub fn event(&self, now_us: u64, event: Event) {
        // SAFETY: as in `begin`: the arguments it declares, one thread.
        unsafe { (self.event)(now_us, event as u32) }
    }

    pub fn idle(&self, now_us: u64, idle_us: u64) {
        // SAFETY: as in `begin`: the arguments it declares, one thread.
        unsafe { (self.idle)(now_us, idle_us) }
    }

    /// A timer marks `segments` segments lost.
    pub fn lost(&self, segments: u32) {
        // SAFETY: as in `begin`: the arguments it declares, one thread.
        unsafe { (self.lost)(segments) }
    }

    pub fn set_cwnd(&self, segments: u32) {
        // SAFETY: as in `begin`: the arguments it declares, one thread.
        unsafe { (self.set_cwnd)(segments) }
    }

    pub fn cwnd(&self) -> u32 {
        // SAFETY: as in `begin`: the arguments it declares, one thread.
        unsafe { (self.cwnd)() }
    }

    pub fn ssthresh(&self) -> u32 {
        // SAFETY: as in `begin`: the arguments it declares, one thread.
        unsafe { (self.ssthresh)() }
    }

    /// Sets the result of the next random draws.
    pub fn set_draw(&self, next: u32) {
        // SAFETY: as in `begin`: the arguments it declares, one thread.
        unsafe { (self.set_draw)(next) }
    }

    /// Number of draws taken since.
    pub fn taken(&self) -> u32 {
        // SAFETY: as in `begin`: the arguments it declares, one thread.
        unsafe { (self.taken)() }
    }

    /// The twin's internal quantities; NaN for those that have no value (yet).
    pub fn internals(&self) -> [f64; QUANTITIES] {
        let mut quantities = [Quantity::default(); QUANTITIES];
        // SAFETY: the harness writes QUANTITIES records, as many as the array has; one thread, as in `begin`.
        unsafe { (self.internals)(quantities.as_mut_ptr()) }
        quantities.map(|quantity| match quantity.per {
            0 => f64::NAN,
            per => quantity.value as f64 / per.unsigned_abs() as f64,
        })
    }
}
