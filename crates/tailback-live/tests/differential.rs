//! The Rust twin and the BPF twin get the same acknowledgements, and their windows are compared after each.
//!
//! The kernel cannot run a congestion control on invented acknowledgements, so the BPF source is compiled natively
//! behind a socket made for the test (`harness.c`). That it also loads and runs in the kernel is another test.
#![allow(
    unsafe_code,
    reason = "the twin is a library opened by name; its functions have the harness's types"
)]

use std::ffi::CString;
use std::io::Write;
use std::process::{Command, Stdio};

use tailback_core::cc::registry::{self, Algorithm};
use tailback_core::cc::{Ack, Congestion, CongestionControl, Control, Counting, Phase, PhaseChange, Signal};
use tailback_core::rng::Stream;
use tailback_core::scenario::Params;
use tailback_core::time::{Duration, Time};
use tailback_live::twins;

const MSS: u32 = 1448;
/// The path: so many segments fill it, so many more its queue; a segment of queue is 1.2 ms.
const PIPE: u64 = 67;
const ROOM: u64 = 134;
const BASE: Duration = Duration::from_ms(80);
const SLOT: Duration = Duration::from_us(1200);

type Begin = unsafe extern "C" fn(u64, u32, u32, u32);
type GiveAck = unsafe extern "C" fn(u64, i32, u32, u32, u32, u32, u32, u32);
type Ask = unsafe extern "C" fn(u64) -> u32;
type SetState = unsafe extern "C" fn(u64, u32);
type Set = unsafe extern "C" fn(u32);
type Get = unsafe extern "C" fn() -> u32;

/// The BPF twin, compiled natively.
struct Native {
    begin: Begin,
    ack: GiveAck,
    congestion: Ask,
    state: SetState,
    set_cwnd: Set,
    cwnd: Get,
    ssthresh: Get,
    set_dice: Set,
    thrown: Get,
}

impl Native {
    fn build(cc: &str) -> Option<Native> {
        let path = std::env::temp_dir().join(format!("tailback-{cc}-{}.so", std::process::id()));
        let source = [
            include_str!("../../../bpf/kernel.h"),
            include_str!("../../../bpf/parts.h"),
            twins::source(cc).expect("a twin"),
            include_str!("harness.c"),
        ]
        .concat();
        let mut clang = Command::new("clang");
        clang.args([
            "-x",
            "c",
            "-DTAILBACK_NATIVE",
            "-DNAME=\"native\"",
            "-O1",
            "-shared",
            "-fPIC",
            "-Werror",
        ]);
        clang
            .args(["-Wall", "-Wno-unused-function", "-Wno-pragma-once-outside-header", "-", "-o"])
            .arg(&path);
        let Ok(mut running) = clang.stdin(Stdio::piped()).spawn() else {
            eprintln!("skipped: clang is not installed");
            return None;
        };
        running.stdin.take().expect("piped").write_all(source.as_bytes()).expect("clang reads");
        assert!(running.wait().expect("clang ends").success(), "{cc} compiles natively");
        let name = CString::new(path.to_str().expect("a plain path")).expect("no zero");
        // SAFETY: the library was made from our own source just now; each symbol has the type harness.c gives it.
        let native = unsafe {
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!handle.is_null(), "{cc} is a library");
            let find = |name: &std::ffi::CStr| {
                let found = libc::dlsym(handle, name.as_ptr());
                assert!(!found.is_null());
                found
            };
            use std::mem::transmute;
            Native {
                begin: transmute::<*mut libc::c_void, Begin>(find(c"test_begin")),
                ack: transmute::<*mut libc::c_void, GiveAck>(find(c"test_ack")),
                congestion: transmute::<*mut libc::c_void, Ask>(find(c"test_congestion")),
                state: transmute::<*mut libc::c_void, SetState>(find(c"test_state")),
                set_cwnd: transmute::<*mut libc::c_void, Set>(find(c"test_set_cwnd")),
                cwnd: transmute::<*mut libc::c_void, Get>(find(c"test_cwnd")),
                ssthresh: transmute::<*mut libc::c_void, Get>(find(c"test_ssthresh")),
                set_dice: transmute::<*mut libc::c_void, Set>(find(c"test_dice")),
                thrown: transmute::<*mut libc::c_void, Get>(find(c"test_thrown")),
            }
        };
        std::fs::remove_file(&path).expect("it was made");
        Some(native)
    }
}

/// Both twins, fed the same.
struct Pair {
    rust: Algorithm,
    control: Control,
    native: Native,
    now: Time,
    rtt_min: Duration,
    snd_una: u64,
    delivered: u64,
    phase: Phase,
    /// The Rust twin's dice, a copy.
    dice: Stream,
    /// The Rust twin is in a reduction it asked for, until this is acknowledged.
    reduces_until: Option<u64>,
    reductions: u32,
}

/// The seed of the Rust twin.
const SEED: u64 = 1;

impl Pair {
    fn new(cc: &str) -> Option<Pair> {
        let native = Native::build(cc)?;
        let control =
            Control { cwnd: 10 * u64::from(MSS), ssthresh: Control::UNLIMITED, pacing: None, mss: MSS };
        let rust = registry::build(cc, &Params::new(), "test", SEED).expect("built with defaults");
        let mut pair = Pair {
            rust,
            control,
            native,
            now: Time::from_ms(10_000),
            rtt_min: Duration::MAX,
            snd_una: 0,
            delivered: 0,
            phase: Phase::Open,
            dice: Stream::named(SEED, cc),
            reduces_until: None,
            reductions: 0,
        };
        // SAFETY: as the harness declares it.
        unsafe { (pair.native.begin)(pair.now.as_us(), 10, MSS, BASE.as_us() as u32) };
        pair.rust.on_established(pair.now, Some(BASE), &mut pair.control);
        Some(pair)
    }

    fn windows(&self) -> (u64, u64) {
        // SAFETY: a getter.
        (self.control.cwnd_segments(), u64::from(unsafe { (self.native.cwnd)() }))
    }

    fn ssthreshes(&self) -> (u64, u64) {
        // SAFETY: a getter.
        (self.control.ssthresh_segments(), u64::from(unsafe { (self.native.ssthresh)() }))
    }

    /// What the path answers with now: its empty round trip and the queue this window leaves.
    fn rtt(&self) -> Duration {
        BASE + SLOT * self.control.cwnd_segments().saturating_sub(PIPE)
    }

    /// One ACK that covers `covered` segments and newly delivers `delivered`.
    fn ack(&mut self, covered: u32, delivered: u32) {
        let rtt = (covered > 0).then(|| self.rtt());
        let window = self.control.cwnd_segments();
        self.snd_una += u64::from(covered) * u64::from(MSS);
        let prior = self.delivered;
        self.delivered += u64::from(delivered) * u64::from(MSS);
        if let Some(rtt) = rtt {
            self.rtt_min = self.rtt_min.min(rtt);
        }
        let grows = covered > 0 && self.phase == Phase::Open;
        let snd_nxt = self.snd_una + self.control.cwnd;
        let ack = Ack {
            now: self.now,
            mss: MSS,
            newly_acked: u64::from(covered) * u64::from(MSS),
            newly_acked_segments: covered,
            delivered_segments: delivered,
            lost_segments: 0,
            marked: 0,
            rtt,
            rtt_read: rtt,
            rtt_min: self.rtt_min,
            srtt: self.rtt(),
            in_flight: self.control.cwnd,
            prior_in_flight: self.control.cwnd,
            delivery_rate: None,
            delivered: self.delivered,
            prior_delivered: prior,
            app_limited: false,
            round_start: false,
            cwnd_limited: true,
            may_grow: grows,
            phase: self.phase,
            counting: Counting::PerSegment,
            in_slow_start: self.control.cwnd < self.control.ssthresh,
            snd_una: self.snd_una,
            snd_nxt,
        };
        assert!(window > 0);
        // Both twins throw the same dice: where Rust backs off below a probability, C does from one minus it up.
        let throw = ((1.0 - self.dice.clone().uniform()) * f64::from(u32::MAX)) as u32;
        // SAFETY: as the harness declares it.
        unsafe { (self.native.set_dice)(throw) };
        self.rust.on_ack(&ack, &mut self.control);
        let rtt_us = rtt.map_or(-1, |rtt| rtt.as_us() as i32);
        // SAFETY: as the harness declares it. Sequence numbers wrap at 32 bits there as in the kernel.
        unsafe {
            (self.native.ack)(
                self.now.as_us(),
                rtt_us,
                covered,
                delivered,
                self.snd_una as u32,
                snd_nxt as u32,
                1,
                // The kernel does not know of a reduction the twin makes by itself.
                u32::from(grows || self.reduces_until.is_some()),
            );
            for _ in 0..(self.native.thrown)() {
                self.dice.uniform();
            }
        }
        if self.rust.wants_reduction() && self.phase == Phase::Open {
            self.rust.on_congestion(&self.congestion(Signal::Ecn), &mut self.control);
            self.reduces_until = Some(snd_nxt);
            self.reductions += 1;
            self.change_rust(Phase::Cwr);
        }
    }

    /// The Rust twin's reduction is over when what was under way has been acknowledged; the other's is by itself.
    fn end_reduction(&mut self, covered: u32) {
        let acked = self.snd_una + u64::from(covered) * u64::from(MSS);
        if self.reduces_until.is_some_and(|until| acked > until) {
            self.reduces_until = None;
            self.control.cwnd = self.control.ssthresh;
            self.change_rust(Phase::Open);
        }
    }

    fn change(&mut self, to: Phase) {
        self.change_rust(to);
        // SAFETY: as the harness declares it.
        unsafe { (self.native.state)(self.now.as_us(), to as u32) };
    }

    fn change_rust(&mut self, to: Phase) {
        let change = PhaseChange {
            now: self.now,
            from: self.phase,
            to,
            snd_una: self.snd_una,
            snd_nxt: self.snd_una + self.control.cwnd,
            srtt: self.rtt(),
        };
        self.phase = to;
        self.rust.on_phase(&change, &mut self.control);
    }

    fn congestion(&self, signal: Signal) -> Congestion {
        Congestion {
            now: self.now,
            signal,
            mss: MSS,
            in_flight: self.control.cwnd,
            send_window: u64::MAX / 8,
            srtt: self.rtt(),
            rtt_min: self.rtt_min,
            snd_una: self.snd_una,
            snd_nxt: self.snd_una + self.control.cwnd,
        }
    }

    /// A loss, and a recovery of one round trip that ends with the window at ssthresh.
    fn lose(&mut self) {
        let window = self.control.cwnd_segments();
        let gap = self.rtt() / window;
        self.rust.on_congestion(&self.congestion(Signal::Loss), &mut self.control);
        // SAFETY: as the harness declares it.
        unsafe { (self.native.congestion)(self.now.as_us()) };
        self.change(Phase::Recovery);
        for _ in 1..window {
            self.now += gap;
            self.ack(0, 1);
        }
        self.now += gap;
        self.ack(window as u32, 1);
        self.control.cwnd = self.control.ssthresh;
        // SAFETY: as the harness declares it.
        unsafe { (self.native.set_cwnd)((self.native.ssthresh)()) };
        self.change(Phase::Open);
    }

    /// A window's worth of ACKs, or until the queue is full.
    fn round(&mut self, mut compare: impl FnMut(&Pair)) {
        let window = self.control.cwnd_segments();
        let gap = self.rtt() / window;
        for number in 0..window / 2 {
            self.now += gap * 2;
            // Delayed ACKs, with one of a single segment among them.
            let covered = if number % 7 == 0 { 1 } else { 2 };
            self.end_reduction(covered);
            self.ack(covered, covered);
            // During its own reduction a twin in BPF brings the window down as the stack does for the other.
            if self.reduces_until.is_none() {
                compare(self);
            }
        }
    }
}

/// Both through slow start, three losses and what grows between; windows may differ by `tolerance` segments.
fn agree(cc: &str, tolerance: u64) {
    let Some(mut pair) = Pair::new(cc) else { return };
    let mut losses = 0;
    let mut acks = 0;
    for _ in 0..1500 {
        pair.round(|pair| {
            acks += 1;
            let ((rust, native), (one, other)) = (pair.windows(), pair.ssthreshes());
            assert!(
                rust.abs_diff(native) <= tolerance,
                "{cc}: {rust} and {native} after {acks} ACKs and {losses} losses"
            );
            // Before the first loss both are unlimited, in their own ways.
            assert!(
                one.abs_diff(other) <= tolerance || one > 1 << 30 && other > 1 << 30,
                "{cc}: {one} {other}"
            );
        });
        if pair.control.cwnd_segments() > PIPE + ROOM {
            pair.lose();
            losses += 1;
        }
        if losses == 4 {
            break;
        }
    }
    // The fastest reaches its fourth loss after some four thousand.
    assert!(acks > 4_000, "{cc}: {acks} ACKs are no test");
}

#[test]
fn reno() {
    agree("reno", 0);
}

#[test]
fn htcp() {
    agree("htcp", 0);
}

#[test]
fn vegas() {
    agree("vegas", 0);
}

#[test]
fn westwood() {
    agree("westwood", 0);
}

#[test]
fn hybla() {
    agree("hybla", 0);
}

#[test]
fn veno() {
    agree("veno", 0);
}

#[test]
fn highspeed() {
    agree("highspeed", 0);
}

/// It hardly ever meets a loss: what is compared are the windows after a hundred delay backoffs.
#[test]
fn cdg() {
    let Some(mut pair) = Pair::new("cdg") else { return };
    for round in 0..3_000 {
        pair.round(|pair| {
            let ((rust, native), (one, other)) = (pair.windows(), pair.ssthreshes());
            let at = pair.reductions;
            assert_eq!(rust, native, "windows after {round} round trips and {at} backoffs");
            assert!(one == other || one > 1 << 30 && other > 1 << 30, "{one} {other} after {at} backoffs");
        });
        if round % 700 == 699 && pair.reduces_until.is_none() {
            pair.lose();
        }
    }
    assert!(pair.reductions > 100, "{} backoffs are no test", pair.reductions);
}

/// Its delay window is a real number in Rust and in 1/65536 of a segment in the kernel.
#[test]
fn compound() {
    agree("compound", 1);
}
