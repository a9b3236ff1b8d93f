//! Records which threads are in a hook of a Python class, to find a hook that does not return.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;

#[derive(Debug, Default)]
struct Slot {
    /// The thread's ID as returned by `threading.get_ident`.
    ident: u64,
    /// Odd while in a hook; different for each call.
    call: AtomicU64,
    /// The call at the last check, and the thread's processor time when that call was first seen.
    seen: Mutex<(u64, f64)>,
}

static SLOTS: Mutex<Vec<Weak<Slot>>> = Mutex::new(Vec::new());

thread_local! {
    static SLOT: OnceCell<Arc<Slot>> = const { OnceCell::new() };
}

fn of_thread(py: Python<'_>) -> Arc<Slot> {
    SLOT.with(|slot| slot.get_or_init(|| entered(py)).clone())
}

fn entered(py: Python<'_>) -> Arc<Slot> {
    let ident = py.import("threading").and_then(|module| module.call_method0("get_ident")?.extract::<u64>());
    let slot = Arc::new(Slot { ident: ident.unwrap_or(0), ..Slot::default() });
    let mut all = SLOTS.lock().unwrap_or_else(|it| it.into_inner());
    all.retain(|other| other.strong_count() > 0);
    all.push(Arc::downgrade(&slot));
    slot
}

/// The slot of the thread that runs an instance, cached because a lookup costs a tenth of a microsecond.
#[derive(Debug, Default)]
pub struct Caller(OnceCell<Arc<Slot>>);

impl Caller {
    /// Calls a hook so that [`hooks_that_stay`] can see it.
    pub fn within<T>(&self, py: Python<'_>, call: impl FnOnce() -> T) -> T {
        let slot = self.0.get_or_init(|| of_thread(py));
        let number = (slot.call.load(Ordering::Relaxed) + 2) | 1;
        slot.call.store(number, Ordering::Release);
        let out = call();
        slot.call.store(number + 1, Ordering::Release);
        out
    }
}

/// IDs of the threads whose hook has used `most_s` seconds of processor time since it was first seen, or since it was
/// last returned. The interpreter lock is held throughout, so none of these threads ends meanwhile.
#[pyfunction]
pub fn hooks_that_stay(py: Python<'_>, most_s: f64) -> PyResult<Vec<u64>> {
    let time = py.import("time")?;
    // Copy the list first: a call of the interpreter may let another thread run, which would deadlock on this list's
    // lock.
    let slots: Vec<Arc<Slot>> =
        SLOTS.lock().unwrap_or_else(|it| it.into_inner()).iter().filter_map(Weak::upgrade).collect();
    let mut out = Vec::new();
    for slot in slots {
        let call = slot.call.load(Ordering::Acquire);
        if slot.ident == 0 || call % 2 == 0 {
            continue;
        }
        // macOS has no per-thread clock; there the wall clock is used.
        let used: f64 = match time.call_method1("pthread_getcpuclockid", (slot.ident,)) {
            Ok(clock) => time.call_method1("clock_gettime", (clock,))?.extract()?,
            Err(_) => time.call_method0("monotonic")?.extract()?,
        };
        let mut seen = slot.seen.lock().unwrap_or_else(|it| it.into_inner());
        if seen.0 != call {
            *seen = (call, used);
        } else if used - seen.1 >= most_s {
            *seen = (call, used);
            out.push(slot.ident);
        }
    }
    Ok(out)
}
