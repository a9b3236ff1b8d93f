//! Processor affinity: one processor for the emulator alone, the others for the rest of the run.
//!
//! At high rates the emulator hardly ever sleeps. A thread of the same run that needs its processor waits until the
//! kernel schedules it, and then the emulator waits in turn. We measured stalls of 50 ms, the share that the kernel
//! reserves for ordinary threads beside real-time ones. So the two run on different processors. Only this run's threads
//! are moved.

use crate::sys::{self, Processors};

/// Until this is dropped, the calling thread and its children stay off the emulator's processor.
#[derive(Debug)]
pub struct Affinity {
    before: Option<Processors>,
    emulator: Option<usize>,
}

impl Affinity {
    /// Divides the processors. With only one there is nothing to divide.
    pub fn share_out() -> Self {
        let Ok(allowed) = sys::processors() else { return Affinity { before: None, emulator: None } };
        let (rest, emulator) = split(&allowed);
        if emulator.is_none() || sys::stay_on(&rest).is_err() {
            return Affinity { before: None, emulator: None };
        }
        Affinity { before: Some(allowed), emulator }
    }

    /// The emulator's processor, if it has one to itself.
    pub fn emulator(&self) -> Option<usize> {
        self.emulator
    }
}

/// The emulator gets the last processor, because machines tend to handle interrupts on the first.
fn split(allowed: &Processors) -> (Processors, Option<usize>) {
    match allowed.split_last() {
        Some((last, rest)) if !rest.is_empty() => (rest.to_vec(), Some(*last)),
        _ => (allowed.clone(), None),
    }
}

impl Drop for Affinity {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // Restore the processors that were allowed before.
            let _ = sys::stay_on(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emulator_gets_the_last_of_several_and_none_of_one() {
        assert_eq!(split(&vec![0, 2, 5]), (vec![0, 2], Some(5)));
        assert_eq!(split(&vec![3]), (vec![3], None));
        assert_eq!(split(&vec![]), (vec![], None));
    }

    #[test]
    fn what_was_allowed_is_allowed_again() {
        let before = sys::processors().expect("a thread has processors");
        let affinity = Affinity::share_out();
        let during = sys::processors().expect("a thread has processors");
        assert_eq!(affinity.emulator().is_some(), before.len() > 1);
        assert!(!affinity.emulator().is_some_and(|one| during.contains(&one)));
        drop(affinity);
        assert_eq!(sys::processors().expect("a thread has processors"), before);
    }
}
