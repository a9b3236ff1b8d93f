//! What a live run needs, asked before anything is made: of the scenario, and of the machine.

use std::collections::BTreeMap;

use tailback_core::rng::Stream;
use tailback_core::scenario::{FlowSpec, Scenario, TcpSpec, Value};
use tailback_core::time::{Duration, Time};

use crate::applications::{Application, FlowPlan, TcpPlan};
use crate::bpf;
use crate::doctor;
use crate::emulator::{MOST_FLOWS, addresses};
use crate::error::LiveError;
use crate::host::Settings;
use crate::sys;
use crate::twins::{self, Source};

/// The stack that is this machine's kernel.
const STACK: &str = "linux";
/// Stack fields that are settings of a Linux host.
const SYSCTLS: [(&str, &str); 7] = [
    ("sack", "net/ipv4/tcp_sack"),
    ("dsack", "net/ipv4/tcp_dsack"),
    ("timestamps", "net/ipv4/tcp_timestamps"),
    ("window_scaling", "net/ipv4/tcp_window_scaling"),
    ("idle_restart", "net/ipv4/tcp_slow_start_after_idle"),
    ("ecn", "net/ipv4/tcp_ecn"),
    ("undo", "net/ipv4/tcp_frto"),
];
/// Smallest packet whose segments Linux still sends (an MSS of 88).
const SMALLEST_MTU: u32 = 128;

/// A congestion control a run needs, once for all the flows that use it.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// Its name in the scenario.
    pub cc: String,
    /// Where it comes from.
    pub source: Source,
}

/// A run, planned; nothing of it exists yet.
#[derive(Debug)]
pub struct Plan {
    /// Hosts by name of node, with their settings.
    pub hosts: Vec<(String, Settings)>,
    /// Flows, in the scenario's order; `tcp.cc` is a number in `controls` until those have names.
    pub flows: Vec<FlowPlan>,
    /// Host numbers of each flow's sender and receiver.
    pub ends: Vec<[usize; 2]>,
    /// Congestion controls.
    pub controls: Vec<Control>,
    /// Number in `controls` of each flow's.
    pub control_of: Vec<Option<usize>>,
    /// The end of the run.
    pub end: Time,
    /// How late packets may be handed over, at the 99th percentile, before the result is another.
    pub lateness_limit: Duration,
    /// Smallest round trip of any flow, by propagation alone.
    pub rtt_least: Duration,
}

/// Plan the run, or say why it cannot be.
pub fn plan(scenario: &Scenario) -> Result<Plan, LiveError> {
    tailback_core::engine::Simulation::build(scenario)?;
    // Parts of a scenario that only the simulator's hosts can do so far.
    let described = serde_json::to_value(scenario).expect("a scenario is plain data");
    if scenario.flows.len() > MOST_FLOWS {
        return Err(LiveError::refuse(
            "flows",
            scenario.flows.len(),
            format!("a live run has addresses for {MOST_FLOWS} flows"),
            "Describe fewer.",
        ));
    }
    let mut plan = Plan {
        hosts: Vec::new(),
        flows: Vec::new(),
        ends: Vec::new(),
        controls: Vec::new(),
        control_of: Vec::new(),
        end: Time::from_ps(scenario.duration_ps),
        lateness_limit: lateness_limit(scenario),
        rtt_least: rtt_least(scenario),
    };
    let mut largest = 1500;
    for (number, flow) in scenario.flows.iter().enumerate() {
        let path = format!("flows[{number}]");
        for key in ["again", "cc_turns"] {
            let place =
                if key == "again" { &described["flows"][number] } else { &described["flows"][number]["tcp"] };
            if place[key].as_array().is_some_and(|list| !list.is_empty()) {
                return Err(LiveError::refuse(
                    format!("{path}.{key}"),
                    &place[key],
                    "a live flow runs once, with one congestion control",
                    "Describe several flows, or run it with --engine sim.",
                ));
            }
        }
        let Some(app) = Application::of(&flow.app) else {
            return Err(LiveError::refuse(
                format!("{path}.app.kind"),
                format!("{:?}", flow.app.kind),
                "this application does not run live yet",
                format!("Live there are: {}. With --engine sim it runs.", Application::NAMES.join(", ")),
            ));
        };
        let ends = [host(&mut plan, &flow.from), host(&mut plan, &flow.to)];
        let [near, far] = addresses(number as u32);
        plan.hosts[ends[0]].1.addresses.push(near);
        plan.hosts[ends[1]].1.addresses.push(far);
        plan.ends.push(ends);
        let mut control = None;
        let mut tcp = None;
        if let Some(spec) = &flow.tcp {
            settings(&mut plan, ends, spec, &path)?;
            largest = largest.max(spec.mtu);
            let wanted = Control {
                cc: spec.cc.clone(),
                source: twins::choose(&spec.cc, &spec.cc_params, &format!("{path}.tcp"))?,
            };
            let place = plan.controls.iter().position(|known| *known == wanted).unwrap_or_else(|| {
                plan.controls.push(wanted);
                plan.controls.len() - 1
            });
            control = Some(place);
            tcp = Some(TcpPlan {
                cc: spec.cc.clone(),
                send_buffer: spec.send_buffer,
                receive_buffer: spec.receive_buffer,
                mtu: spec.mtu,
            });
        }
        largest = largest.max(app.packet_bytes().unwrap_or(0));
        plan.control_of.push(control);
        plan.flows.push(FlowPlan {
            number: number as u32,
            name: flow.name.clone(),
            app,
            start: start(scenario, flow),
            stop: flow.stop_ps.map_or(Time::NEVER, Time::from_ps),
            tcp,
        });
    }
    for (_, settings) in &mut plan.hosts {
        settings.mtu = largest;
    }
    machine(&plan)?;
    Ok(plan)
}

/// The flow's start, with the same random shift as in the simulator.
fn start(scenario: &Scenario, flow: &FlowSpec) -> Time {
    let spread = Duration::from_ps(scenario.randomness.start_spread_ps);
    let shift = Stream::named(scenario.seed, &format!("flow/{}/start", flow.name)).duration_up_to(spread);
    Time::from_ps(flow.start_ps) + shift
}

fn host(plan: &mut Plan, node: &str) -> usize {
    if let Some(known) = plan.hosts.iter().position(|(name, _)| name == node) {
        return known;
    }
    let defaults = [
        // One run's connections teach the next one's nothing.
        ("net/ipv4/tcp_no_metrics_save", "1"),
        ("net/ipv4/tcp_ecn", "0"),
        ("net/ipv4/conf/all/rp_filter", "0"),
        ("net/ipv4/conf/default/rp_filter", "0"),
        // Answers to our own dropped packets would be noise on the path.
        ("net/ipv4/icmp_ratelimit", "0"),
    ];
    let settings = Settings {
        sysctls: defaults.iter().map(|(path, value)| ((*path).into(), (*value).into())).collect(),
        ..Settings::default()
    };
    plan.hosts.push((node.into(), settings));
    plan.hosts.len() - 1
}

/// The stack's fields as settings of the two hosts.
fn settings(plan: &mut Plan, ends: [usize; 2], spec: &TcpSpec, path: &str) -> Result<(), LiveError> {
    let stacks = [("stack", Some(&spec.stack)), ("receiver_stack", spec.receiver_stack.as_ref())];
    for (field, stack) in stacks {
        if let Some(stack) = stack.filter(|stack| *stack != STACK) {
            return Err(LiveError::refuse(
                format!("{path}.tcp.{field}"),
                format!("{stack:?}"),
                "live runs on this machine's own kernel, which is none of the other stacks",
                format!("Write {field} = \"{STACK}\", or run it with --engine sim."),
            ));
        }
    }
    if spec.mtu < SMALLEST_MTU {
        return Err(LiveError::refuse(
            format!("{path}.tcp.mtu"),
            spec.mtu,
            "Linux sends no segments this small",
            format!("Give an MTU of at least {SMALLEST_MTU} bytes, or run it with --engine sim."),
        ));
    }
    let mut wanted: BTreeMap<&str, String> = BTreeMap::new();
    let mut initial_window = None;
    for (name, value) in &spec.stack_params {
        let known = SYSCTLS.iter().find(|(field, _)| field == name);
        match (known, name.as_str(), value) {
            (Some((_, sysctl)), _, Value::Flag(on)) => {
                let on_value = if *sysctl == "net/ipv4/tcp_frto" { "2" } else { "1" };
                wanted.insert(sysctl, if *on { on_value.into() } else { "0".into() });
            }
            (_, "initial_window", Value::Number(segments)) => initial_window = Some(*segments as u32),
            _ => {
                let fields: Vec<&str> = SYSCTLS.iter().map(|(field, _)| *field).collect();
                return Err(LiveError::refuse(
                    format!("{path}.tcp.stack_params.{name}"),
                    format!("{value:?}"),
                    "the kernel has no setting for this",
                    format!(
                        "Live it has: {}, initial_window. With --engine sim every field can be set.",
                        fields.join(", ")
                    ),
                ));
            }
        }
    }
    for end in ends {
        let (name, host) = &mut plan.hosts[end];
        for (sysctl, value) in &wanted {
            // Settings are a host's: all its flows have them.
            let before = host.sysctls.insert((*sysctl).into(), value.clone());
            let is_default = *sysctl == "net/ipv4/tcp_ecn" && before.as_deref() == Some("0");
            if before.as_ref().is_some_and(|before| before != value) && !is_default {
                return Err(LiveError::refuse(
                    format!("{path}.tcp.stack_params"),
                    value,
                    format!("another flow of host {name} wants {sysctl} otherwise, and a host has it once"),
                    "Give the flows different hosts, or the same stack.",
                ));
            }
        }
        if let Some(window) = initial_window {
            if host.initial_window.is_some_and(|before| before != window) {
                return Err(LiveError::refuse(
                    format!("{path}.tcp.stack_params.initial_window"),
                    window,
                    format!("another flow of host {name} wants a different one, and a host has it once"),
                    "Give the flows different hosts.",
                ));
            }
            host.initial_window = Some(window);
        }
    }
    Ok(())
}

/// What the machine lacks for this plan, as a refusal.
fn machine(plan: &Plan) -> Result<(), LiveError> {
    let lack = |problem: &str, fix: &str| Err(LiveError::refuse("engine", "live", problem, fix));
    if !sys::is_root() {
        return lack(
            "making namespaces and TUN devices needs root",
            "Run it with sudo, or with --engine sim. `tailback doctor` tells what this machine can do.",
        );
    }
    let needed = ["namespaces", "tun"];
    for check in doctor::basics().into_iter().filter(|check| needed.contains(&check.name)) {
        if !check.ok {
            return lack(&check.found, &check.remedy);
        }
    }
    if plan.controls.iter().any(|control| control.source != Source::Kernel) {
        for check in doctor::bpf_basics() {
            if !check.ok {
                let twins: Vec<&str> = plan
                    .controls
                    .iter()
                    .filter(|control| control.source != Source::Kernel)
                    .map(|control| control.cc.as_str())
                    .collect();
                let known = twins::in_kernel().join(", ");
                return lack(
                    &format!("{} is needed in BPF, and {}", twins.join(", "), check.found),
                    &format!(
                        "{} The kernel has of its own: {known}. With --engine sim it runs.",
                        check.remedy
                    ),
                );
            }
        }
        bpf::is_available()?;
    }
    Ok(())
}

fn one_way(scenario: &Scenario, route: Option<&Vec<String>>) -> u64 {
    let delay =
        |name: &String| scenario.links.iter().find(|link| link.name == *name).map_or(0, |link| link.delay_ps);
    route.map_or(0, |route| route.iter().map(delay).sum())
}

fn rtt_least(scenario: &Scenario) -> Duration {
    let rtt = |flow: &FlowSpec| {
        one_way(scenario, flow.route.as_ref()) + one_way(scenario, flow.back_route.as_ref())
    };
    Duration::from_ps(scenario.flows.iter().map(rtt).min().unwrap_or(0))
}

/// A hundredth of the smallest round trip, or the time of one full packet on the slowest link if that is more:
/// what is shorter moves no packet to another place in the queue. At least 100 µs, which no timer here beats.
fn lateness_limit(scenario: &Scenario) -> Duration {
    const FULL_PACKET_BITS: u64 = 12_000;
    let slowest = scenario.links.iter().filter_map(|link| link.rate_bps).min();
    let packet = slowest.map_or(0, |bps| FULL_PACKET_BITS * 1_000_000_000_000 / bps.max(1));
    (rtt_least(scenario) / 100).max(Duration::from_ps(packet)).max(Duration::from_us(100))
}
