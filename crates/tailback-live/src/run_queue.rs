//! How long a thread was ready to run and had no processor, as the kernel counts it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use tailback_core::time::{Duration, Time};

/// Between two looks, each of which costs a system call.
const BETWEEN_LOOKS: Duration = Duration::from_us(500);

/// The calling thread's waits.
#[derive(Debug)]
pub struct RunQueue {
    /// None where the kernel does not count.
    file: Option<File>,
    seen_ns: u64,
    next: Time,
}

impl RunQueue {
    /// Of the calling thread, from now on.
    pub fn of_this_thread() -> Self {
        let file = File::open("/proc/thread-self/schedstat").ok();
        let seen_ns = file.as_ref().and_then(waited_ns).unwrap_or(0);
        RunQueue { file, seen_ns, next: Time::ZERO }
    }

    /// How long it has waited since the look before; `None` if that was only just now.
    pub fn look(&mut self, now: Time) -> Option<Duration> {
        if now < self.next {
            return None;
        }
        self.next = now + BETWEEN_LOOKS;
        let waited_ns = waited_ns(self.file.as_ref()?)?;
        let more = waited_ns.saturating_sub(std::mem::replace(&mut self.seen_ns, waited_ns));
        Some(Duration::from_ns(more))
    }
}

/// The second of three numbers: nanoseconds run, nanoseconds waited, how often run.
fn waited_ns(file: &File) -> Option<u64> {
    let mut text = [0; 96];
    let length = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..length]).ok()?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_apart_and_count_what_came_between() {
        let mut queue = RunQueue::of_this_thread();
        let first = queue.look(Time::ZERO).expect("Linux counts");
        assert!(first < Duration::from_secs(1), "{first:?}");
        assert_eq!(queue.look(Time::from_us(499)), None);
        assert!(queue.look(Time::from_us(500)).is_some());
    }
}
