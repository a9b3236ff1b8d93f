//! Reports how a process ended because of a faulty candidate: a crash, or a hook that does not return.
#![allow(unsafe_code, reason = "signals are the C library's; a handler only writes and ends the process")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Exit status of a process whose candidate failed. The last line of its standard error says how: `tailback-fault`, the
/// candidate's name, the hook, the simulated time in nanoseconds, and the fault, separated by tabs.
pub const STATUS: c_int = 86;
/// Interval between checks whether a hook has returned, in processor time.
const LOOK_US: libc::suseconds_t = 250_000;
/// A hook that is still running after this many checks (two seconds) is considered stuck; hooks normally take a
/// microsecond.
const MOST_LOOKS: u64 = 8;
const STACK: usize = 1 << 16;

static WHO: AtomicPtr<libc::c_char> = AtomicPtr::new(ptr::null_mut());
static HOOK: AtomicPtr<libc::c_char> = AtomicPtr::new(ptr::null_mut());
static AT_NS: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);
/// The number of the call at the last check, and the number of checks since it began.
static SEEN: AtomicU64 = AtomicU64::new(0);
static LOOKS: AtomicU64 = AtomicU64::new(0);

/// Marks the start of a candidate's hook. `who` is the candidate's name, empty if unknown, and must live until [`end`].
#[inline]
pub fn begin(who: &CStr, hook: &'static CStr, at_ns: u64) {
    WHO.store(who.as_ptr().cast_mut(), Ordering::Relaxed);
    AT_NS.store(at_ns, Ordering::Relaxed);
    CALLS.store(CALLS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    HOOK.store(hook.as_ptr().cast_mut(), Ordering::Release);
}

/// The simulated time at which the latest hook began.
pub fn at_ns() -> u64 {
    AT_NS.load(Ordering::Relaxed)
}

/// Marks the hook's return.
#[inline]
pub fn end() {
    HOOK.store(ptr::null_mut(), Ordering::Release);
}

/// From now on this process reports how it ends if a candidate's hook is at fault. Only for processes that do nothing
/// else.
pub fn install() {
    // SAFETY: the stack is leaked, so it outlives the thread; the handlers have the type that the flags require, and
    // call only async-signal-safe functions.
    unsafe {
        let stack = Box::leak(vec![0u8; STACK].into_boxed_slice());
        let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK };
        libc::sigaltstack(&raw const stack, ptr::null_mut());
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
        action.sa_sigaction = on_crash as extern "C" fn(c_int) as usize;
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGTRAP]
        {
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
        action.sa_sigaction = on_look as extern "C" fn(c_int) as usize;
        libc::sigaction(libc::SIGPROF, &raw const action, ptr::null_mut());
        let every = libc::timeval { tv_sec: 0, tv_usec: LOOK_US };
        let timer = libc::itimerval { it_interval: every, it_value: every };
        libc::setitimer(libc::ITIMER_PROF, &raw const timer, ptr::null_mut());
    }
}

extern "C" fn on_crash(signal: c_int) {
    let what: &[u8] = match signal {
        libc::SIGSEGV | libc::SIGBUS => b"crashed: it used memory that is not its own",
        libc::SIGFPE => b"crashed: it divided by zero, which in the kernel gives zero",
        libc::SIGABRT => b"crashed: it aborted",
        _ => b"crashed: it ran into an impossible instruction",
    };
    if !HOOK.load(Ordering::Acquire).is_null() {
        end_process(what);
    }
    // Not the candidate's fault: default behaviour.
    // SAFETY: both calls are async-signal-safe.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

extern "C" fn on_look(_: c_int) {
    let calls = CALLS.load(Ordering::Relaxed);
    if HOOK.load(Ordering::Acquire).is_null() || SEEN.swap(calls, Ordering::Relaxed) != calls {
        LOOKS.store(0, Ordering::Relaxed);
    } else if LOOKS.fetch_add(1, Ordering::Relaxed) + 1 >= MOST_LOOKS {
        end_process(b"does not return: it has used two seconds of processor time");
    }
}

fn end_process(what: &[u8]) -> ! {
    let mut digits = [0u8; 20];
    let mut first = digits.len();
    let mut left = AT_NS.load(Ordering::Relaxed);
    loop {
        first -= 1;
        digits[first] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    // SAFETY: both names are zero-terminated; the hook's is static and the candidate's lives while the hook runs.
    // `write` and `_exit` are async-signal-safe.
    unsafe {
        let hook = CStr::from_ptr(HOOK.load(Ordering::Acquire)).to_bytes();
        let who = CStr::from_ptr(WHO.load(Ordering::Relaxed)).to_bytes();
        for part in [b"tailback-fault\t", who, b"\t", hook, b"\t", &digits[first..], b"\t", what, b"\n"] {
            libc::write(2, part.as_ptr().cast::<c_void>(), part.len());
        }
        libc::_exit(STATUS)
    }
}
