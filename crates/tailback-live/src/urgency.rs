//! Real-time priority for a thread that hardly ever sleeps.
//!
//! The kernel stops real-time threads for a twentieth of every second (`kernel.sched_rt_runtime_us`), in one piece,
//! even if no other thread is runnable: for 50 ms no packet moves. A thread that sleeps for that share itself, in short
//! naps, is not stopped.

use std::fs;
use std::time::Duration;

use crate::clock;
use crate::sys;

/// Interval between checks of how long the thread has run.
const LOOK_NS: u64 = 400_000;
/// The shortest nap worth taking.
const MOMENT_NS: i64 = 40_000;
/// Requested length of such a nap; a core takes some 30 µs to wake up.
const NAP: Duration = Duration::from_micros(30);
/// Most sleep that can be credited: the kernel accounts by the second, and then forgets.
const MOST_IN_HAND_NS: i64 = 5_000_000;

/// Sleep that the calling thread owes to other threads.
#[derive(Debug)]
pub struct Urgency {
    is_realtime: bool,
    debt: Debt,
    began: Reading,
}

/// The time, and the thread's processor time.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    wall_ns: u64,
    run_ns: u64,
}

impl Reading {
    fn now() -> Self {
        Reading { wall_ns: clock::monotonic_ns(), run_ns: sys::thread_ns() }
    }
}

/// Sleep owed, as the kernel accounts for it.
#[derive(Debug, Default)]
struct Debt {
    /// Sleep owed per nanosecond of running, in millionths; zero without a limit.
    ppm: u64,
    owed_ns: i64,
    seen: Reading,
}

impl Debt {
    /// Updates the account; returns whether a nap is owed.
    fn update(&mut self, now: Reading) -> bool {
        let run = now.run_ns - self.seen.run_ns;
        let off = (now.wall_ns - self.seen.wall_ns).saturating_sub(run);
        self.seen = now;
        let owed = self.owed_ns + (run * self.ppm / 1_000_000) as i64 - off as i64;
        self.owed_ns = owed.max(-MOST_IN_HAND_NS);
        self.owed_ns >= MOMENT_NS
    }
}

impl Urgency {
    /// Requests real-time priority; without the permission, the highest ordinary priority.
    pub fn begin() -> Self {
        let is_realtime = sys::become_punctual();
        let began = Reading::now();
        let ppm = if is_realtime { owed_ppm() } else { 0 };
        Urgency { is_realtime, debt: Debt { ppm, owed_ns: 0, seen: began }, began }
    }

    /// Whether real-time priority was granted.
    pub fn is_realtime(&self) -> bool {
        self.is_realtime
    }

    /// Call often: naps briefly when that is owed.
    pub fn keep(&mut self, now_ns: u64) {
        if self.debt.ppm > 0 && now_ns >= self.debt.seen.wall_ns + LOOK_NS && self.debt.update(Reading::now())
        {
            std::thread::sleep(NAP);
        }
    }

    /// Nanoseconds since the beginning in which the thread did not run.
    pub fn asleep_ns(&self) -> u64 {
        let now = Reading::now();
        (now.wall_ns - self.began.wall_ns).saturating_sub(now.run_ns - self.began.run_ns)
    }
}

/// Twice the share that the kernel's real-time limit leaves to others, because half of a nap is spent falling asleep
/// and waking. Zero without a limit.
fn owed_ppm() -> u64 {
    let read = |name: &str| -> Option<u64> {
        fs::read_to_string(format!("/proc/sys/kernel/sched_rt_{name}_us")).ok()?.trim().parse().ok()
    };
    // No limit is written as −1, which does not parse as unsigned.
    match (read("runtime"), read("period")) {
        (Some(runtime), Some(period)) if runtime < period => {
            (period - runtime) * 2_000_000 / runtime.max(period / 2)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_never_sleeps_otherwise_sleeps_for_its_share() {
        let mut debt = Debt { ppm: 63_000, ..Debt::default() };
        let (mut now, mut slept) = (Reading::default(), 0);
        while now.wall_ns < 1_000_000_000 {
            now.wall_ns += LOOK_NS;
            now.run_ns += LOOK_NS;
            if debt.update(now) {
                now.wall_ns += 50_000;
                slept += 50_000;
            }
        }
        let share = slept as f64 / now.wall_ns as f64;
        assert!((0.055..0.065).contains(&share), "{share}");
    }

    #[test]
    fn who_sleeps_anyway_owes_nothing_for_a_while() {
        let mut debt = Debt { ppm: 63_000, ..Debt::default() };
        assert!(!debt.update(Reading { wall_ns: 1_000_000_000, run_ns: 0 }));
        // A credit of 5 ms lasts for a twelfth of a second awake.
        assert!(!debt.update(Reading { wall_ns: 1_075_000_000, run_ns: 75_000_000 }));
        assert!(debt.update(Reading { wall_ns: 1_085_000_000, run_ns: 85_000_000 }));
    }
}
