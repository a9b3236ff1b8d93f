//! What this machine can run live, found by trying, with a remedy for each failure.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bpf;
use crate::clock;
use crate::host::{Host, Settings};
use crate::lease::Lease;
use crate::recipe;
use crate::sys;
use crate::tcp_log::TcpLog;
use crate::twins;

const BTF: &str = "/sys/kernel/btf/vmlinux";
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// Length of the sleeps that measure a timer's lateness.
const NAP: Duration = Duration::from_millis(1);

/// One check and its result.
#[derive(Clone, Debug)]
pub struct Check {
    /// Name of the check.
    pub name: &'static str,
    /// Whether it passed.
    pub ok: bool,
    /// What was found.
    pub found: String,
    /// What to do if the check failed; empty if it passed.
    pub remedy: String,
    /// What does not work if the check fails.
    pub needed_for: &'static str,
}

fn check(
    name: &'static str,
    ok: bool,
    found: impl Into<String>,
    remedy: impl Into<String>,
    needed_for: &'static str,
) -> Check {
    let remedy = if ok { String::new() } else { remedy.into() };
    Check { name, ok, found: found.into(), remedy, needed_for }
}

/// What every live run needs; creates nothing.
pub fn basics() -> Vec<Check> {
    let has_namespaces = fs::exists("/proc/self/ns/net").unwrap_or(false);
    let has_tun = fs::exists("/dev/net/tun").unwrap_or(false);
    vec![
        check(
            "root",
            sys::is_root(),
            if sys::is_root() { "we are root" } else { "we are not root" },
            "Run it with sudo.",
            "every live run",
        ),
        check(
            "namespaces",
            has_namespaces,
            if has_namespaces {
                "the kernel has network namespaces"
            } else {
                "the kernel has no network namespaces"
            },
            "Use a kernel built with CONFIG_NET_NS.",
            "every live run",
        ),
        check(
            "tun",
            has_tun,
            if has_tun { "/dev/net/tun is there" } else { "/dev/net/tun is not there" },
            "Load the module with `modprobe tun`; in a container add the device /dev/net/tun.",
            "every live run",
        ),
    ]
}

/// What BPF programs need; loads none.
pub fn bpf_basics() -> Vec<Check> {
    let has_btf = fs::exists(BTF).unwrap_or(false);
    let mut clang = Command::new("clang");
    let clang =
        clang.arg("--version").stdin(Stdio::null()).output().ok().filter(|done| done.status.success());
    let version = clang.map(|done| {
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        text.lines().next().unwrap_or("clang").to_owned()
    });
    let version = version.or_else(|| recipe::are_compiled().then(|| "programs come compiled".into()));
    let library = bpf::is_available();
    vec![
        check(
            "btf",
            has_btf,
            if has_btf {
                format!("{BTF} is there")
            } else {
                "the kernel does not describe its types (BTF)".into()
            },
            "Use a kernel built with CONFIG_DEBUG_INFO_BTF.",
            "BPF congestion controls and the state log",
        ),
        check(
            "clang",
            version.is_some(),
            version.unwrap_or_else(|| "clang is not installed".into()),
            "Install it: apt-get install clang.",
            "BPF congestion controls and the state log",
        ),
        check(
            "libbpf",
            library.is_ok(),
            library.map_or_else(|error| error.to_string(), |()| "libbpf.so.1 is there".into()),
            "Install it: apt-get install libbpf1.",
            "BPF congestion controls and the state log",
        ),
    ]
}

/// All checks, with timer lateness measured for `measure`. Creates a host and loads a program to prove that both work.
pub fn examine(measure: Duration) -> Vec<Check> {
    let mut checks = basics();
    checks.extend(bpf_basics());
    let is_root = sys::is_root();
    if is_root {
        let (host, twin, log) = trials();
        checks.push(trial(
            "host",
            &host,
            "made a host and removed it",
            "Give the process CAP_NET_ADMIN and CAP_SYS_ADMIN; containers usually take both away.",
            "every live run",
        ));
        checks.push(trial(
            "struct_ops",
            &twin,
            "registered a congestion control in BPF and removed it",
            "Use a kernel built with CONFIG_BPF_SYSCALL, CONFIG_BPF_JIT and BTF, of 6.4 or later.",
            "BPF congestion controls",
        ));
        checks.push(trial(
            "state_log",
            &log,
            "attached the state log and removed it",
            "Runs fall back to polling TCP_INFO, which misses what is shorter than a poll.",
            "rows for every ACK",
        ));
    }
    let source = fs::read_to_string(CLOCK_SOURCE).unwrap_or_default().trim().to_owned();
    checks.push(check(
        "clock_source",
        ["tsc", "arch_sys_counter", "kvm-clock"].contains(&source.as_str()),
        if source.is_empty() { "the clock source is unknown".into() } else { format!("the clock source is {source}") },
        "Boot with clocksource=tsc if the machine has a steady one: other sources cost microseconds a reading.",
        "punctual runs",
    ));
    checks.extend(timers_only(measure));
    checks
}

/// The lateness of the machine's timers, measured for `measure`: with normal priority and, for root, with real-time
/// priority.
pub fn timers_only(measure: Duration) -> Vec<Check> {
    let mut checks = vec![timers(measure, false)];
    if sys::is_root() {
        checks.push(timers(measure, true));
    }
    checks
}

fn trial(
    name: &'static str,
    outcome: &Result<(), String>,
    done: &str,
    remedy: &str,
    needed_for: &'static str,
) -> Check {
    let found = outcome.as_ref().map_or_else(Clone::clone, |()| done.to_owned());
    check(name, outcome.is_ok(), found, remedy, needed_for)
}

type Outcome = Result<(), String>;

/// Tries to create a host, register a twin and attach the log.
fn trials() -> (Outcome, Outcome, Outcome) {
    let lease = match Lease::take() {
        Ok(lease) => lease,
        Err(error) => {
            let text = error.to_string();
            return (Err(text.clone()), Err(text.clone()), Err(text));
        }
    };
    let settings = Settings { mtu: 1500, ..Settings::default() };
    let host = Host::make("trial", lease.mark(), &settings).map(drop);
    let name = twins::kernel_name(lease.mark(), 0, "trial");
    let twin = twins::register("reno", &[], &name, false, false).map(drop);
    let log = TcpLog::attach(&[0], true).map(drop);
    let text_of = |outcome: Result<(), crate::LiveError>| outcome.map_err(|error| error.to_string());
    (text_of(host), text_of(twin), text_of(log))
}

/// The lateness of a 1 ms timer, measured over `span`.
fn timers(span: Duration, is_realtime: bool) -> Check {
    let late = std::thread::spawn(move || {
        let granted = !is_realtime || sys::become_punctual();
        sys::exact_timers();
        let mut late = Vec::new();
        let end = Instant::now() + span;
        while Instant::now() < end {
            let due = clock::monotonic_ns() + NAP.as_nanos() as u64;
            std::thread::sleep(NAP);
            late.push(clock::monotonic_ns().saturating_sub(due));
        }
        granted.then_some(late)
    });
    let name = if is_realtime { "timer_lateness_realtime" } else { "timer_lateness" };
    let Some(mut late) = late.join().unwrap_or(None).filter(|late| !late.is_empty()) else {
        return check(
            name,
            false,
            "real-time priority was refused",
            "Give the process CAP_SYS_NICE; runs are less punctual without.",
            "punctual runs",
        );
    };
    late.sort_unstable();
    let at = |share: f64| late[((late.len() - 1) as f64 * share) as usize] as f64 / 1000.0;
    let (median, high, worst) = (at(0.5), at(0.99), at(1.0));
    let found = format!(
        "a {} ms timer is late by {median:.0} µs (median), {high:.0} µs (99 %), {worst:.0} µs (worst of {})",
        NAP.as_millis(),
        late.len()
    );
    check(
        name,
        high < 1000.0,
        found,
        "Stop what else runs on this machine, or give it more cores; a run says itself whether it was punctual.",
        "punctual runs",
    )
}

/// The checks as JSON.
pub fn as_json(checks: &[Check]) -> Value {
    let ok = |name: &str| checks.iter().filter(|check| check.name == name).all(|check| check.ok);
    let can_run = ["root", "namespaces", "tun", "host"].into_iter().all(ok) && sys::is_root();
    let has_twins = can_run && ["btf", "clang", "libbpf", "struct_ops"].into_iter().all(ok);
    let mut controls: Vec<String> = twins::in_kernel();
    let in_kernel = controls.clone();
    if has_twins {
        controls.extend(
            twins::names().filter(|name| !in_kernel.iter().any(|known| known == name)).map(str::to_owned),
        );
    }
    json!({
        "can_run_live": can_run,
        "bpf_twins": has_twins,
        "congestion_controls": controls,
        "checks": checks.iter().map(|check| json!({
            "name": check.name,
            "ok": check.ok,
            "found": check.found,
            "remedy": check.remedy,
            "needed_for": check.needed_for,
        })).collect::<Value>(),
    })
}
