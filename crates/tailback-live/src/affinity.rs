//! Which processor does what: one for the emulator alone, the others for the rest of the run.
//!
//! The emulator hardly ever sleeps at high rates. A thread of the same run that wants its processor has to wait until
//! the kernel lets it run, and then the emulator waits. We measured 50 ms, which is the share the kernel keeps for
//! ordinary threads beside real-time ones. So they are kept apart. Only this run's threads are moved.

use crate::sys::{self, Processors};

/// The calling thread, and whatever it spawns, stays off the emulator's processor until this is dropped.
#[derive(Debug)]
pub struct Affinity {
    before: Option<Processors>,
    emulator: Option<usize>,
}

impl Affinity {
    /// Share the processors out. With only one there is nothing to share.
    pub fn share_out() -> Self {
        let Ok(allowed) = sys::processors() else { return Affinity { before: None, emulator: None } };
        let (rest, emulator) = split(&allowed);
        if emulator.is_none() || sys::stay_on(&rest).is_err() {
            return Affinity { before: None, emulator: None };
        }
        Affinity { before: Some(allowed), emulator }
    }

    /// The emulator's processor, if it has one for itself.
    pub fn emulator(&self) -> Option<usize> {
        self.emulator
    }
}

/// The last one for the emulator: the first is where machines like to handle their interrupts.
fn split(allowed: &Processors) -> (Processors, Option<usize>) {
    match allowed.split_last() {
        Some((last, rest)) if !rest.is_empty() => (rest.to_vec(), Some(*last)),
        _ => (allowed.clone(), None),
    }
}

impl Drop for Affinity {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // What was allowed before is allowed again.
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
