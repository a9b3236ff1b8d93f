//! A live run as the only work of a virtual machine: this program is its first process, and all it needs is in its
//! initial file system (made by `python/tailback/vm/`).

mod kernel_log;
mod letter;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::json;
use tailback_core::foreign::Stacks;
use tailback_core::scenario::Scenario;

use crate::bpf::{Held, Loaded};
use crate::demands::{Manner, Place};
use crate::error::{Doing, LiveError};
use crate::netlink::Netlink;
use crate::recipe;
use crate::run::{self, Outcome};
use crate::sys;
use crate::twins;
use kernel_log::KernelLog;
use letter::{Letter, State};

const FOLDER: &str = "/tailback";

/// The host's request.
#[derive(Deserialize)]
struct Job {
    /// Kernel modules to load, in this order, as paths below the folder.
    modules: Vec<String>,
    /// Use our twins even of congestion controls that the kernel has itself.
    twins: bool,
    /// Source texts of the user's own congestion controls, by name; their objects are beside the other programs'.
    candidates: BTreeMap<String, String>,
    scenario: Scenario,
    /// The environment of the flows' programs, if there are any.
    programs: Option<Surroundings>,
    /// The user's own modules, each with a congestion control or a queue discipline; loaded after the kernel's, in this
    /// order.
    #[serde(default)]
    own: Vec<OwnModule>,
    /// The user's own BPF queues.
    #[serde(default)]
    queues: Vec<OwnQueue>,
}

/// What programs find in a guest besides their files, which keep their usual paths.
#[derive(Deserialize)]
struct Surroundings {
    /// Environment variables of the programs.
    environment: BTreeMap<String, String>,
    /// The value of `{here}`.
    here: PathBuf,
    /// The largest file that programs may write, in bytes.
    largest_file: u64,
}

impl Surroundings {
    /// Creates them. Call only while the process has one thread.
    fn make(&self) -> Result<(), LiveError> {
        sys::set_environment(&self.environment);
        sys::limit_files(self.largest_file).doing("limiting the size of files")?;
        fs::create_dir_all("/dev/shm")
            .and_then(|()| sys::mount("tmpfs", "/dev/shm"))
            .doing("mounting /dev/shm")?;
        // On other systems udev creates these links.
        for (name, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
            symlink(format!("/proc/self/fd{target}"), format!("/dev/{name}")).doing("linking in /dev")?;
        }
        Ok(())
    }
}

/// A kernel module of the user.
#[derive(Deserialize)]
struct OwnModule {
    /// Its name in the scenario: "module:tcp_mine.c".
    name: String,
    /// The name of the queue discipline it registers; none if it registers a congestion control.
    queue: Option<String>,
    /// The scenario's first field that names it.
    field: String,
    /// Its path below the folder.
    file: String,
    /// The kernel's name of the module, which is that of its source.
    module: String,
    /// "name=value name=value".
    params: String,
}

/// A compiled BPF queue of the user.
#[derive(Deserialize)]
struct OwnQueue {
    /// Its name in the scenario: "bpf:mine.bpf.c".
    name: String,
    /// The scenario's field that names it.
    field: String,
    /// The path of its object below the folder.
    file: String,
}

/// Runs what the host asks for, hands over the result, and shuts the machine down.
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
        // Mounting here would hide the files that programs bring.
        if place == "/tmp" && fs::exists(place).unwrap_or(false) {
            continue;
        }
        let mounted = fs::create_dir_all(place).and_then(|()| sys::mount(kind, place));
        // A kernel may already have mounted some of them.
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
    letter.report(State::Started, 0);
    let folder = PathBuf::from(FOLDER);
    let text = fs::read(folder.join("job.json")).doing("reading the job")?;
    let job: Job = serde_json::from_slice(&text)
        .map_err(|error| LiveError::Failed(format!("the job cannot be read: {error}")))?;
    for module in &job.modules {
        let file = fs::File::open(folder.join(module)).doing(&format!("opening the module {module}"))?;
        sys::load_module(&file, c"").doing(&format!("loading the module {module}"))?;
    }
    let mut log = KernelLog::open()?;
    let mut modules = BTreeMap::new();
    for (number, own) in job.own.iter().enumerate() {
        letter.report(State::Loading, number as u64);
        let registered = load(own, &folder, &mut log)?;
        modules.insert(own.name.clone(), registered);
    }
    if !job.own.is_empty() {
        letter.report(State::Started, 0);
    }
    let queues: Result<Vec<_>, _> = job.queues.iter().map(|own| load_queue(own, &folder)).collect();
    let queues = queues?;
    settle()?;
    if let Some(programs) = &job.programs {
        programs.make()?;
    }
    sys::seed_kernel(job.scenario.seed).doing("seeding the kernel's random numbers")?;
    connect_once().doing("making the machine's first connection")?;
    recipe::take_from(folder.join("bpf"));
    let stacks = stacks();
    let (twins, place, candidates) = (job.twins, Place::Alone, Some(&job.candidates));
    let here = job.programs.as_ref().map_or(&folder, |programs| &programs.here);
    let (modules, stacks) = (Some(&modules), Some(&stacks));
    let manner = Manner { here, twins, place, candidates, modules, stacks, in_front: None };
    let before = Busy::now();
    let outcome = run::run_as::<LiveError>(&job.scenario, &manner, |fraction| {
        letter.report(State::Running, (fraction * 1e6) as u64);
        Ok(())
    })?;
    drop(queues);
    let about = json!({
        "release": first_line("/proc/sys/kernel/osrelease"),
        "build": first_line("/proc/sys/kernel/version"),
        "hz": sys::ticks_a_second(),
        "busy": Busy::now().share_since(before),
        "counters": counters(&outcome),
        "kernel_log": log.warnings(),
        "registered": modules,
    });
    letter.put_outcome(&outcome, about)
}

/// Loads a module of the user; returns the kernel's name of what it registers.
fn load(own: &OwnModule, folder: &Path, log: &mut KernelLog) -> Result<String, LiveError> {
    let before = twins::in_kernel();
    let file = fs::File::open(folder.join(&own.file)).doing("opening a module of your own")?;
    let params = CString::new(own.params.as_str()).unwrap_or_default();
    let refuse = |problem: String, fix: &str| {
        Err(LiveError::refuse(own.field.clone(), format!("{:?}", own.name), problem, fix))
    };
    if let Err(error) = sys::load_module(&file, &params) {
        // The kernel refuses a second module of the same name before running its code: with EEXIST if one is loaded,
        // with EINVAL if a built-in one has parameters.
        if Path::new("/sys/module").join(&own.module).exists() {
            let problem = format!("the guest's kernel has a module called {} already", own.module);
            return refuse(problem, "Rename the file: a module is called as its source is");
        }
        let fix = match error.raw_os_error() {
            // Newer kernels (7.3) return EBUSY where a module's own error is EEXIST.
            Some(libc::EEXIST | libc::EBUSY) if own.queue.is_some() => {
                "The kernel has a queue discipline of that name loaded or built in: give yours another .id"
            }
            Some(libc::EEXIST | libc::EBUSY) => {
                "The kernel has a congestion control of that name built in: give yours another .name"
            }
            Some(libc::ENOEXEC) => "It was built for another kernel: build it again from its source",
            Some(libc::ENOENT) => {
                "A symbol it needs is not in this kernel, or it registers kfuncs, which needs type information that \
                 a module built here has not: leave register_btf_kfunc_id_set out"
            }
            Some(libc::EINVAL) if own.queue.is_none() => {
                "A congestion control needs .ssthresh, .undo_cwnd, and .cong_avoid or .cong_control"
            }
            _ => "Its own init function returned this error",
        };
        let said = log.warnings();
        let said = if said.is_empty() { String::new() } else { format!("; it says: {}", said.join(" / ")) };
        return refuse(format!("the guest's kernel does not load the module: {error}{said}"), fix);
    }
    if let Some(queue) = &own.queue {
        return Ok(queue.clone());
    }
    let new: Vec<String> = twins::in_kernel().into_iter().filter(|name| !before.contains(name)).collect();
    match &new[..] {
        [name] => Ok(name.clone()),
        [] => refuse(
            "the module was loaded and registered no congestion control".into(),
            "Call tcp_register_congestion_control in its init function",
        ),
        _ => refuse(
            format!("the module registers {} congestion controls: {}", new.len(), new.join(", ")),
            "Register one in each module",
        ),
    }
}

/// Loads and registers a BPF queue; it exists for as long as the returned value.
fn load_queue(own: &OwnQueue, folder: &Path) -> Result<Loaded, LiveError> {
    let object = fs::read(folder.join(&own.file)).doing("reading a queue of your own")?;
    let loaded = Loaded::load_held(&own.name, &object, Held::ByKernel);
    loaded.and_then(|mut loaded| loaded.register_for_good().map(|()| loaded)).map_err(|error| {
        let problem = format!("the guest's kernel does not take it: {error}");
        LiveError::refuse(own.field.clone(), &own.name, problem, "Correct it as the verifier says")
    })
}

/// Nonzero counters by host.
fn counters(outcome: &Outcome) -> BTreeMap<&str, BTreeMap<&str, i64>> {
    outcome
        .counters
        .iter()
        .map(|(host, all)| {
            let moved = all.iter().filter(|(_, value)| *value != 0);
            (host.as_str(), moved.map(|(name, value)| (name.as_str(), *value)).collect())
        })
        .collect()
}

/// The stacks that guests offer besides the kernel's TCP.
fn stacks() -> Stacks {
    #[cfg(feature = "quic")]
    return tailback_quic::stacks();
    #[cfg(not(feature = "quic"))]
    Stacks::new()
}

/// Configures a machine that runs nothing else.
fn settle() -> Result<(), LiveError> {
    // No other process here could be starved by a real-time thread.
    fs::write("/proc/sys/kernel/sched_rt_runtime_us", "-1")
        .doing("allowing real-time threads all the time")?;
    Ok(())
}

/// Makes the kernel's first connection of all, to a port without a listener. With it Linux fills a table of 256 kB with
/// random numbers (`inet_hash_connect`, RFC 6056 section 3.3.4), for 6 ms of the guest's processor. A machine that has
/// been up for a while did so long ago, and a flow's start must not wait for it.
fn connect_once() -> io::Result<()> {
    // The loopback device always has index 1.
    Netlink::open()?.set_up(1, None, None)?;
    match TcpStream::connect((Ipv4Addr::LOCALHOST, 1)) {
        Err(error) if error.kind() != io::ErrorKind::ConnectionRefused => Err(error),
        _ => Ok(()),
    }
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
