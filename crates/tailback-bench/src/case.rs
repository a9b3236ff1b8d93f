//! One test: a scenario, a congestion control of the stack, and a verdict.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

use tailback::{Scenario, Verdict as Judged};
use tailback_core::foreign::{Stack, Stacks};

use crate::watch::{Watch, Watched, parting};

/// A scenario of a suite or a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Its name, such as `transport/jitter`.
    pub name: String,
    /// The file's text, or why it cannot be read.
    pub text: Result<String, String>,
}

/// A stack with its name and the longest time that one call may take.
#[derive(Clone, Debug)]
pub struct Subject {
    pub name: String,
    pub stack: Arc<dyn Stack>,
    pub patience: Duration,
}

/// The result of a test: one line per condition, or what went wrong.
pub type Found = Result<String, String>;

impl Subject {
    fn stacks(&self, watch: &Arc<Watch>) -> Stacks {
        let watched = Watched { stack: self.stack.clone(), watch: watch.clone() };
        Stacks::from([(self.name.clone(), Arc::new(watched) as Arc<dyn Stack>)])
    }

    fn scenario(&self, case: &Case, cc: &str, watch: &Arc<Watch>) -> Result<Scenario, String> {
        let stacks = self.stacks(watch);
        let scenario = Scenario::hosting(case.text.as_ref()?, &stacks).map_err(|error| error.to_string())?;
        scenario.with_subject(&self.name, cc, &stacks).map_err(|error| error.to_string())
    }

    /// Judges the scenario's conditions with this many seeds, or with as many as the verdicts need.
    pub fn judge(&self, case: &Case, cc: &str, seeds: Option<u64>) -> Found {
        let watch = Arc::new(Watch::default());
        let scenario = self.scenario(case, cc, &watch)?;
        let scenario = seeds.map_or(scenario.clone(), |seeds| scenario.with_seeds(seeds));
        let (tested, place) = self.within(&watch, move || tailback::test(&scenario))?;
        let tested = tested.map_err(|error| error.to_string())?;
        sound(tested.faults(), place)?;
        match tested.verdict() {
            Judged::Passed => Ok(tested.to_string()),
            Judged::Failed | Judged::Undecided => {
                Err(watch.silence().map_or(String::new(), |why| why + "\n") + &tested.to_string())
            }
        }
    }

    /// Runs twice with the same seed and compares call by call, to detect a stack that draws random numbers or reads a
    /// clock itself.
    pub fn repeats(&self, case: &Case, cc: &str) -> Found {
        let watches = [Arc::new(Watch::with_journal()), Arc::new(Watch::with_journal())];
        for watch in &watches {
            let scenario = self.scenario(case, cc, watch)?;
            let (ran, place) = self.within(watch, move || tailback::run(&scenario))?;
            sound(ran.map_err(|error| error.to_string())?.faults(), place)?;
        }
        match parting(&watches[0], &watches[1]) {
            None => Ok(format!("two runs are alike in all {} calls", watches[0].calls())),
            Some(place) => Err(format!(
                "two runs of {} with one seed differ: {place}. Take time from the calls and randomness from \
                 Setup::seed; until then no result of {} {cc} can be repeated",
                case.name, self.name
            )),
        }
    }

    /// Measures of one run, one per line, for a snapshot.
    pub fn measures(&self, case: &Case, cc: &str) -> Found {
        let watch = Arc::new(Watch::default());
        let scenario = self.scenario(case, cc, &watch)?;
        let (ran, place) = self.within(&watch, move || tailback::run(&scenario))?;
        let result = ran.map_err(|error| error.to_string())?;
        sound(result.faults(), place)?;
        let kept = ["goodput_mbps", "loss", "answer_p95_ms", "delay_p95_ms", "srtt_ms"];
        let names = result.measures();
        let lines = names
            .iter()
            .filter(|name| name.rsplit_once('.').is_some_and(|(_, measure)| kept.contains(&measure)))
            .map(|name| (name, result.measure(name).unwrap_or(f64::NAN)))
            // Omit values that the stack does not report.
            .filter(|(_, value)| value.is_finite())
            .map(|(name, value)| format!("{}: {name} = {}\n", case.name, rounded(value)));
        Ok(lines.collect())
    }

    /// Runs `make`, which calls the stack, in a thread of its own: a call that never returns then ends the test, not
    /// the harness. Also returns the location of the stack's latest panic, if any.
    fn within<T: Send + 'static>(
        &self,
        watch: &Watch,
        make: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(T, Option<String>), String> {
        hear_panics();
        let (done, wait) = channel();
        let body = move || {
            let made = catch_unwind(AssertUnwindSafe(make));
            // Without a receiver the test was given up.
            let _ = done.send((made, PANICKED.take()));
        };
        thread::Builder::new().name("tailback".into()).spawn(body).map_err(|error| error.to_string())?;
        let mut calls = watch.calls();
        loop {
            match wait.recv_timeout(self.patience) {
                Ok((Ok(made), place)) => return Ok((made, place)),
                Ok((Err(_), place)) => {
                    let place = place.unwrap_or_else(|| "an unknown place".into());
                    return Err(format!("a panic outside the stack's calls, at {place}"));
                }
                Err(RecvTimeoutError::Disconnected) => return Err("its thread is gone".into()),
                Err(RecvTimeoutError::Timeout) => {
                    let now = watch.calls();
                    if let (Some(call), true) = (watch.hung(), now == calls) {
                        let seconds = self.patience.as_secs_f64();
                        return Err(format!(
                            "the stack never answers: it is in {call} for more than {seconds} s"
                        ));
                    }
                    calls = now;
                }
            }
        }
    }
}

/// Rounds to four digits: enough to show a change of behaviour, too few to show rounding of a sum.
fn rounded(value: f64) -> String {
    if value == 0.0 {
        return value.to_string();
    }
    let digits = (3 - value.abs().log10().floor() as i32).max(0) as usize;
    format!("{value:.digits$}")
}

/// An error if the stack broke a rule of the interface.
fn sound(faults: &[String], place: Option<String>) -> Result<(), String> {
    if faults.is_empty() {
        return Ok(());
    }
    let place = place.map_or(String::new(), |place| format!("\nThe last panic was at {place}."));
    Err(format!("the stack did what none may, and its flow ended then:\n{}{place}", faults.join("\n")))
}

thread_local! {
    static PANICKED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Records the location of panics in test threads. Panics of other threads are handled as before.
fn hear_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if thread::current().name() == Some("tailback") {
                PANICKED.set(info.location().map(ToString::to_string));
            } else {
                before(info);
            }
        }));
    });
}
