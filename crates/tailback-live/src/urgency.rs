//! Real-time priority for a thread that hardly ever sleeps.
//!
//! The kernel takes the processor from real-time threads for a twentieth of every second
//! (`kernel.sched_rt_runtime_us`), in one piece, even if no other thread wants it: 50 ms in which no packet moves.
//! A thread that sleeps for that share itself, a moment at a time, is not stopped.

use std::fs;
use std::time::Duration;

use crate::clock;
use crate::sys;

/// Between two looks at how long the thread has run.
const LOOK_NS: u64 = 400_000;
/// What is worth a nap.
const MOMENT_NS: i64 = 40_000;
/// What to ask for to sleep so long; a core takes some 30 µs to wake up.
const NAP: Duration = Duration::from_micros(30);
/// Sleep in hand is worth no more than this: the kernel looks at a second, and forgets.
const MOST_IN_HAND_NS: i64 = 5_000_000;

/// What the calling thread owes the others.
#[derive(Debug)]
pub struct Urgency {
    is_realtime: bool,
    debt: Debt,
    began: Reading,
}

/// The time, and how much of it the thread has run.
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

/// Sleep owed, by what the kernel counts.
#[derive(Debug, Default)]
struct Debt {
    /// For a nanosecond running, in millionths; zero if nothing is ever owed.
    ppm: u64,
    owed_ns: i64,
    seen: Reading,
}

impl Debt {
    /// Is a nap owed?
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
    /// Real-time priority from now on; without the right to it, the best there is.
    pub fn begin() -> Self {
        let is_realtime = sys::become_punctual();
        let began = Reading::now();
        let ppm = if is_realtime { owed_ppm() } else { 0 };
        Urgency { is_realtime, debt: Debt { ppm, owed_ns: 0, seen: began }, began }
    }

    /// Was real-time priority granted?
    pub fn is_realtime(&self) -> bool {
        self.is_realtime
    }

    /// To be called often: sleeps for a moment when that is owed.
    pub fn keep(&mut self, now_ns: u64) {
        if self.debt.ppm > 0 && now_ns >= self.debt.seen.wall_ns + LOOK_NS && self.debt.update(Reading::now())
        {
            std::thread::sleep(NAP);
        }
    }

    /// Nanoseconds not run since the beginning.
    pub fn asleep_ns(&self) -> u64 {
        let now = Reading::now();
        (now.wall_ns - self.began.wall_ns).saturating_sub(now.run_ns - self.began.run_ns)
    }
}

/// What the kernel's limit on real-time threads leaves to others, twice: half of a nap goes into falling asleep and waking. Zero without a limit.
fn owed_ppm() -> u64 {
    let read = |name: &str| -> Option<u64> {
        fs::read_to_string(format!("/proc/sys/kernel/sched_rt_{name}_us")).ok()?.trim().parse().ok()
    };
    // No limit is written as −1, which is no unsigned number.
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
        // 5 ms in hand last for a twelfth of a second awake.
        assert!(!debt.update(Reading { wall_ns: 1_075_000_000, run_ns: 75_000_000 }));
        assert!(debt.update(Reading { wall_ns: 1_085_000_000, run_ns: 85_000_000 }));
    }
}
