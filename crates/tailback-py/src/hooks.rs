//! Which threads are in a hook of a Python class, so that one that does not return can be found.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;

#[derive(Debug, Default)]
struct Slot {
    /// As `threading.get_ident` has it.
    ident: u64,
    is_in: AtomicBool,
    calls: AtomicU64,
    /// The call at the last look, and the thread's processor time when it was first seen.
    seen: Mutex<(u64, f64)>,
}

static SLOTS: Mutex<Vec<Weak<Slot>>> = Mutex::new(Vec::new());

thread_local! {
    static SLOT: OnceCell<Arc<Slot>> = const { OnceCell::new() };
}

fn entered(py: Python<'_>) -> Arc<Slot> {
    let ident = py.import("threading").and_then(|module| module.call_method0("get_ident")?.extract::<u64>());
    let slot = Arc::new(Slot { ident: ident.unwrap_or(0), ..Slot::default() });
    let mut all = SLOTS.lock().unwrap_or_else(|it| it.into_inner());
    all.retain(|other| other.strong_count() > 0);
    all.push(Arc::downgrade(&slot));
    slot
}

/// Call a hook, seen by [`hooks_that_stay`].
pub fn within<T>(py: Python<'_>, call: impl FnOnce() -> T) -> T {
    SLOT.with(|slot| {
        let slot = slot.get_or_init(|| entered(py));
        slot.calls.store(slot.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        slot.is_in.store(true, Ordering::Release);
        let out = call();
        slot.is_in.store(false, Ordering::Release);
        out
    })
}

/// The threads whose hook has used `most_s` seconds of processor time since it was first seen, or since the last answer
/// that named it. The lock of the interpreter is held throughout, so none of them ends meanwhile.
#[pyfunction]
pub fn hooks_that_stay(py: Python<'_>, most_s: f64) -> PyResult<Vec<u64>> {
    let time = py.import("time")?;
    let mut out = Vec::new();
    for slot in SLOTS.lock().unwrap_or_else(|it| it.into_inner()).iter().filter_map(Weak::upgrade) {
        if slot.ident == 0 || !slot.is_in.load(Ordering::Acquire) {
            continue;
        }
        // macOS has no clock of a thread; there the machine's counts.
        let used: f64 = match time.call_method1("pthread_getcpuclockid", (slot.ident,)) {
            Ok(clock) => time.call_method1("clock_gettime", (clock,))?.extract()?,
            Err(_) => time.call_method0("monotonic")?.extract()?,
        };
        let calls = slot.calls.load(Ordering::Relaxed);
        let mut seen = slot.seen.lock().unwrap_or_else(|it| it.into_inner());
        if seen.0 != calls {
            *seen = (calls, used);
        } else if used - seen.1 >= most_s {
            *seen = (calls, used);
            out.push(slot.ident);
        }
    }
    Ok(out)
}
