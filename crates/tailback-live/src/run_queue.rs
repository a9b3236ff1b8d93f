//! How long a thread was runnable without a processor, by the kernel's count.

use std::fs::File;
use std::os::unix::fs::FileExt;

use tailback_core::time::{Duration, Time};

/// Interval between reads, each of which costs a system call.
const BETWEEN_LOOKS: Duration = Duration::from_us(500);

/// Run-queue waits of the calling thread.
#[derive(Debug)]
pub struct RunQueue {
    /// None if the kernel does not count waits.
    file: Option<File>,
    seen_ns: u64,
    next: Time,
}

impl RunQueue {
    /// For the calling thread, counting from now.
    pub fn of_this_thread() -> Self {
        let file = File::open("/proc/thread-self/schedstat").ok();
        let seen_ns = file.as_ref().and_then(waited_ns).unwrap_or(0);
        RunQueue { file, seen_ns, next: Time::ZERO }
    }

    /// How long the thread has waited since the last read; `None` if that was too recent.
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

/// The second of three numbers: nanoseconds run, nanoseconds waited, number of times run.
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
