//! A live run as the only work of a virtual machine: this program is its first process, and what it needs lies in its
//! initial file system (`python/tailback/vm/` makes it).

mod letter;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::json;
use tailback_core::foreign::Stacks;
use tailback_core::scenario::Scenario;

use crate::demands::{Manner, Place};
use crate::error::{Doing, LiveError};
use crate::recipe;
use crate::run;
use crate::sys;
use letter::{Letter, State};

const FOLDER: &str = "/tailback";

/// What the host asks for.
#[derive(Deserialize)]
struct Job {
    /// Kernel modules to load, in this order, as files below the folder.
    modules: Vec<String>,
    /// Take our twins of congestion controls that the kernel has itself, too.
    twins: bool,
    /// Texts of the user's own congestion controls, by name; their objects are with the other programs'.
    candidates: BTreeMap<String, String>,
    scenario: Scenario,
}

/// Run what the host asks for, hand over what came of it, and end the machine.
pub fn main() {
    if std::process::id() != 1 {
        eprintln!(
            "tailback-guest is the first process of a virtual machine: `tailback run FILE --engine vm`"
        );
        std::process::exit(2);
    }
    for (kind, place) in
        [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/run"), ("tmpfs", "/tmp")]
    {
        let mounted = fs::create_dir_all(place).and_then(|()| sys::mount(kind, place));
        // A kernel may have mounted some of them itself.
        if let Err(error) = mounted {
            eprintln!("mounting {place}: {error}");
        }
    }
    match Letter::open() {
        Ok(mut letter) => {
            if let Err(error) = work(&mut letter) {
                eprintln!("{error}");
                letter.put_error(&error);
            }
        }
        Err(error) => eprintln!("{error}"),
    }
    let error = sys::end_machine();
    eprintln!("ending the machine: {error}");
}

fn work(letter: &mut Letter) -> Result<(), LiveError> {
    letter.tell(State::Started, 0);
    let folder = PathBuf::from(FOLDER);
    let text = fs::read(folder.join("job.json")).doing("reading the job")?;
    let job: Job = serde_json::from_slice(&text)
        .map_err(|error| LiveError::Failed(format!("the job cannot be read: {error}")))?;
    for module in &job.modules {
        let file = fs::File::open(folder.join(module)).doing(&format!("opening the module {module}"))?;
        sys::load_module(&file).doing(&format!("loading the module {module}"))?;
    }
    settle()?;
    sys::seed_kernel(job.scenario.seed).doing("seeding the kernel's random numbers")?;
    recipe::take_from(folder.join("bpf"));
    let stacks = stacks();
    let (twins, place, candidates) = (job.twins, Place::Alone, Some(&job.candidates));
    let manner = Manner { here: &folder, twins, place, candidates, stacks: Some(&stacks) };
    let before = Busy::now();
    let outcome = run::run_as::<LiveError>(&job.scenario, &manner, |fraction| {
        letter.tell(State::Running, (fraction * 1e6) as u64);
        Ok(())
    })?;
    let about = json!({
        "release": first_line("/proc/sys/kernel/osrelease"),
        "build": first_line("/proc/sys/kernel/version"),
        "hz": sys::ticks_a_second(),
        "busy": Busy::now().share_since(before),
    });
    letter.put_outcome(&outcome, about)
}

/// The stacks that guests have beside the kernel's TCP.
fn stacks() -> Stacks {
    #[cfg(feature = "quic")]
    return tailback_quic::stacks();
    #[cfg(not(feature = "quic"))]
    Stacks::new()
}

/// Set up a machine that has a single run on it.
fn settle() -> Result<(), LiveError> {
    // Nobody else is here whom a real-time thread could starve.
    fs::write("/proc/sys/kernel/sched_rt_runtime_us", "-1")
        .doing("allowing real-time threads all the time")?;
    Ok(())
}

fn first_line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// Processor time since the start, in ticks.
#[derive(Clone, Copy)]
struct Busy {
    idle: u64,
    all: u64,
}

impl Busy {
    fn now() -> Self {
        let line = first_line("/proc/stat");
        let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|text| text.parse().ok()).collect();
        Busy { idle: ticks.get(3).copied().unwrap_or(0), all: ticks.iter().take(8).sum() }
    }

    fn share_since(self, before: Busy) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        1.0 - self.idle.saturating_sub(before.idle) as f64 / all as f64
    }
}
