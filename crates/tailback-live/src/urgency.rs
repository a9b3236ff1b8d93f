//! Real-time priority for a thread that hardly ever sleeps.
//!
//! The kernel takes the processor from real-time threads for a twentieth of every second
//! (`kernel.sched_rt_runtime_us`), in one piece, even if nobody else wants it: 50 ms in which no packet moves.
//! A thread that gives the priority back for that share itself, a little at a time, is not stopped, and loses the
//! processor meanwhile only if somebody does want it.

use std::fs;

use crate::sys;

/// One turn of urgent and ordinary time: short against the kernel's second.
const TURN_NS: u64 = 100_000_000;

/// The calling thread's priority, in turns.
#[derive(Debug)]
pub struct Urgency {
    /// Real-time nanoseconds a turn allows; `None` if real-time priority was refused or is unlimited.
    share_ns: Option<u64>,
    is_urgent: bool,
    turn_began: u64,
    asleep_ns: u64,
}

impl Urgency {
    /// Real-time priority from now on; without the right to it, the best there is.
    pub fn begin(now_ns: u64) -> Self {
        let is_urgent = sys::become_punctual();
        let share_ns = is_urgent.then(allowed_share).flatten().map(|share| (share * TURN_NS as f64) as u64);
        Urgency { share_ns, is_urgent, turn_began: now_ns, asleep_ns: 0 }
    }

    /// Was real-time priority granted?
    pub fn is_realtime(&self) -> bool {
        self.is_urgent || self.share_ns.is_some()
    }

    /// The thread has slept for so long: that counts as given back.
    pub fn slept(&mut self, ns: u64) {
        self.asleep_ns += ns;
    }

    /// To be called often; changes the priority when it is time to.
    pub fn keep(&mut self, now_ns: u64) {
        let Some(share_ns) = self.share_ns else { return };
        let wants = self.due(now_ns, share_ns);
        if wants != self.is_urgent {
            self.is_urgent = wants;
            sys::set_realtime(wants);
        }
    }

    /// Should the priority be real-time now?
    fn due(&mut self, now_ns: u64, share_ns: u64) -> bool {
        let elapsed = now_ns.saturating_sub(self.turn_began);
        if elapsed >= TURN_NS {
            self.turn_began = now_ns;
            self.asleep_ns = 0;
            return true;
        }
        elapsed.saturating_sub(self.asleep_ns) < share_ns
    }
}

/// The share of time the kernel leaves to real-time threads, less a little; `None` if all of it.
fn allowed_share() -> Option<f64> {
    let read = |name: &str| -> Option<i64> {
        fs::read_to_string(format!("/proc/sys/kernel/sched_rt_{name}_us")).ok()?.trim().parse().ok()
    };
    let (runtime, period) = (read("runtime")?, read("period")?);
    (0..period).contains(&runtime).then(|| runtime as f64 / period as f64 - 0.01)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urgency() -> Urgency {
        Urgency { share_ns: Some(94_000_000), is_urgent: true, turn_began: 0, asleep_ns: 0 }
    }

    #[test]
    fn who_never_sleeps_gives_back_the_rest_of_every_turn() {
        let mut busy = urgency();
        let urgent = (0..100_000u64).filter(|tick| busy.due(tick * 10_000, 94_000_000)).count();
        // A second in steps of 10 µs.
        assert!((93_900..=94_100).contains(&urgent), "{urgent}");
    }

    #[test]
    fn who_sleeps_enough_stays_urgent() {
        let mut idle = urgency();
        for tick in 0..1_000u64 {
            idle.slept(100_000);
            assert!(idle.due(tick * 1_000_000, 94_000_000));
        }
    }
}
