//! A stack written for `tailback-bench` behind the C interface of `tailback_stack.h`: `export(MyStack, "1.0")`.
//!
//! Licensed under Apache-2.0 or MIT, as the rest of tailback.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::OnceLock;

use tailback_core::foreign::{Endpoint, Setup, Stack, UDP_HEADERS};
use tailback_core::packet::Ecn;
use tailback_core::time::{Bytes, Duration, Time};

/// `struct tailback_setup`.
#[repr(C)]
pub struct RawSetup {
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
pub struct RawState {
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

/// `struct tailback_stack`.
#[repr(C)]
pub struct Table {
    abi: u32,
    version: *const c_char,
    algorithms: *const c_char,
    connect: unsafe extern "C" fn(*const RawSetup) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    on_datagram: unsafe extern "C" fn(*mut c_void, u64, *const u8, usize, u32),
    poll_transmit: unsafe extern "C" fn(*mut c_void, u64, *mut u8, usize, *mut u32) -> usize,
    next_timeout: unsafe extern "C" fn(*mut c_void) -> u64,
    on_timeout: unsafe extern "C" fn(*mut c_void, u64),
    write: unsafe extern "C" fn(*mut c_void, u64) -> u64,
    finish: unsafe extern "C" fn(*mut c_void),
    read: unsafe extern "C" fn(*mut c_void, u64) -> u64,
    close: unsafe extern "C" fn(*mut c_void, u64),
    progress: unsafe extern "C" fn(*mut c_void) -> u32,
    state: unsafe extern "C" fn(*mut c_void, *mut RawState),
}

// SAFETY: its texts live for good and nothing changes them.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

static STACK: OnceLock<Box<dyn Stack>> = OnceLock::new();
static TABLE: OnceLock<Table> = OnceLock::new();

type End = Box<dyn Endpoint>;

thread_local! {
    /// The server's end of the connection whose client's was asked for: both are made at once.
    static OTHER: RefCell<Option<End>> = const { RefCell::new(None) };
}

/// The stack's table, for `tailback_stack()`; `version` is of its code.
pub fn export(stack: impl Stack + 'static, version: &str) -> *const Table {
    let stack = STACK.get_or_init(|| Box::new(stack));
    let text = |text: String| CString::new(text).expect("a text without zeros").into_raw().cast_const();
    TABLE.get_or_init(|| Table {
        abi: 1,
        version: text(version.into()),
        algorithms: text(stack.algorithms().join(" ")),
        connect,
        free,
        on_datagram,
        poll_transmit,
        next_timeout,
        on_timeout,
        write,
        finish,
        read,
        close,
        progress,
        state,
    })
}

fn time(ns: u64) -> Time {
    Time::from_ps(ns.saturating_mul(1000))
}

fn nanos(span: Duration) -> u64 {
    span.as_ps() / 1000
}

unsafe extern "C" fn connect(setup: *const RawSetup) -> *mut c_void {
    // SAFETY: the caller's setup and its text outlive the call.
    let (setup, cc) = unsafe { (&*setup, CStr::from_ptr((*setup).cc)) };
    let given = |bytes: u64| (bytes > 0).then_some(bytes as Bytes);
    let end = if setup.is_server == 0 {
        let [client, server] = STACK.get().expect("exported first").connect(&Setup {
            now: time(setup.now_ns),
            cc: &cc.to_string_lossy(),
            cc_params: &Default::default(),
            mtu: setup.most_payload + UDP_HEADERS,
            send_buffer: given(setup.send_buffer),
            receive_buffer: given(setup.receive_buffer),
            seed: setup.seed,
        });
        OTHER.set(Some(server));
        Some(client)
    } else {
        OTHER.take()
    };
    end.map_or(std::ptr::null_mut(), |end| Box::into_raw(Box::new(end)).cast())
}

unsafe extern "C" fn free(end: *mut c_void) {
    // SAFETY: made by `connect`, and freed once.
    drop(unsafe { Box::from_raw(end.cast::<End>()) });
}

/// The end behind a pointer of the caller's.
unsafe fn of<'a>(end: *mut c_void) -> &'a mut End {
    // SAFETY: made by `connect`, not freed yet, and used by one thread at a time.
    unsafe { &mut *end.cast::<End>() }
}

unsafe extern "C" fn on_datagram(end: *mut c_void, now: u64, datagram: *const u8, bytes: usize, ecn: u32) {
    let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][ecn as usize & 3];
    // SAFETY: the caller's datagram has that many bytes.
    unsafe { of(end).on_datagram(time(now), std::slice::from_raw_parts(datagram, bytes), ecn) }
}

unsafe extern "C" fn poll_transmit(
    end: *mut c_void,
    now: u64,
    buffer: *mut u8,
    room: usize,
    ecn: *mut u32,
) -> usize {
    let mut datagram = Vec::with_capacity(room);
    // SAFETY: the caller's buffer has that room, and its mark is a variable.
    unsafe {
        let Some(mark) = of(end).poll_transmit(time(now), &mut datagram) else { return 0 };
        let copied = datagram.len().min(room);
        std::ptr::copy_nonoverlapping(datagram.as_ptr(), buffer, copied);
        *ecn = mark as u32;
        // More than there is room for is reported by the caller.
        datagram.len()
    }
}

unsafe extern "C" fn next_timeout(end: *mut c_void) -> u64 {
    // SAFETY: an end of `connect`.
    let at = unsafe { of(end).next_timeout() };
    // Not before it: a timer that is served early is set again for the same time.
    if at == Time::NEVER { u64::MAX } else { at.as_ps().div_ceil(1000) }
}

unsafe extern "C" fn on_timeout(end: *mut c_void, now: u64) {
    // SAFETY: an end of `connect`.
    unsafe { of(end).on_timeout(time(now)) }
}

unsafe extern "C" fn write(end: *mut c_void, most: u64) -> u64 {
    // SAFETY: an end of `connect`.
    unsafe { of(end).write(most) }
}

unsafe extern "C" fn finish(end: *mut c_void) {
    // SAFETY: an end of `connect`.
    unsafe { of(end).finish() }
}

unsafe extern "C" fn read(end: *mut c_void, now: u64) -> u64 {
    // SAFETY: an end of `connect`.
    unsafe { of(end).read(time(now)) }
}

unsafe extern "C" fn close(end: *mut c_void, now: u64) {
    // SAFETY: an end of `connect`.
    unsafe { of(end).close(time(now)) }
}

unsafe extern "C" fn progress(end: *mut c_void) -> u32 {
    // SAFETY: an end of `connect`.
    let at = unsafe { of(end).progress() };
    let flags = [at.is_established, at.peer_finished, at.is_acknowledged, at.is_closed, at.has_failed];
    flags.iter().enumerate().map(|(bit, &is_set)| u32::from(is_set) << bit).sum()
}

unsafe extern "C" fn state(end: *mut c_void, out: *mut RawState) {
    // SAFETY: an end of `connect`, and a variable of the caller's.
    unsafe {
        let it = of(end).state();
        *out = RawState {
            cwnd: it.cwnd,
            ssthresh: if it.ssthresh == Bytes::MAX { 0 } else { it.ssthresh },
            in_flight: it.in_flight,
            srtt_ns: nanos(it.srtt),
            rtt_ns: nanos(it.rtt),
            rtt_min_ns: nanos(it.rtt_min),
            pacing_bps: it.pacing_rate.map_or(0, |rate| rate.as_bps()),
            packets_sent: it.packets_sent,
            packets_lost: it.packets_lost,
            congestion_events: it.congestion_events,
            bytes_acked: it.bytes_acked,
        };
    }
}
