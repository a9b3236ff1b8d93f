//! What a live run needs of the scenario and of the machine, checked before anything is created.

mod programs;
mod stack;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tailback_core::cc::external::Makers;
use tailback_core::engine::foreign::{self, Foreign};
use tailback_core::engine::{Simulation, switches};
use tailback_core::foreign::Stacks;
use tailback_core::params::DefaultValue;
use tailback_core::scenario::{FlowSpec, IpVersion, Scenario, TcpSpec, Value};
use tailback_core::time::{Duration, Time};
use tailback_core::traffic::{Application, Needs, Transport, exec, registry as apps};

use crate::access;
use crate::applications::flow_record::Recording;
use crate::applications::{FlowPlan, TcpPlan};
use crate::bpf;
use crate::doctor;

use crate::error::LiveError;
use crate::headers::{MOST_FLOWS, addresses, beside};
use crate::host::{self, Settings};
use crate::kernel_queue;
use crate::programs::ProgramPlan;
use crate::sys;
use crate::twins::{self, Source};

/// Smallest segment payload that the kernel sends beside the timestamps option.
const SMALLEST_SEGMENT: u32 = 76;
/// Smallest echo request: headers and its number.
const SMALLEST_ECHO: u32 = 36;

/// A congestion control that a run needs, shared by all flows that use it.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// Its name in the scenario.
    pub cc: String,
    /// Where it is implemented.
    pub source: Source,
}

/// What runs at a flow's ends.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one a flow")]
pub enum Work {
    /// One of the simulator's applications.
    Model(FlowPlan),
    /// Programs of the operating system.
    Programs(ProgramPlan),
}

impl Work {
    /// The TCP settings, if there are any.
    pub fn tcp(&mut self) -> Option<&mut TcpPlan> {
        match self {
            Work::Model(plan) => plan.tcp.as_mut(),
            Work::Programs(plan) => Some(&mut plan.tcp),
        }
    }
}

/// A planned run; nothing of it has been created.
#[derive(Debug)]
pub struct Plan {
    /// Hosts by node name, with their settings.
    pub hosts: Vec<(String, Settings)>,
    /// Flows in the scenario's order. `tcp.turns` holds the scenario's names until `controls` are registered.
    pub flows: Vec<Work>,
    /// Host numbers of each flow's sender and receiver.
    pub ends: Vec<[usize; 2]>,
    /// Congestion controls.
    pub controls: Vec<Control>,
    /// Indices into `controls` of each flow's congestion controls, in turn.
    pub controls_of: Vec<Vec<usize>>,
    /// Whether a flow's congestion events are counted, not listed, because it has too many connections.
    pub crowds: Vec<bool>,
    /// The end of the run.
    pub end: Time,
    /// Whether the machine has no other work and exact timers.
    pub is_alone: bool,
    /// The 99th percentile of handover lateness above which the result would change.
    pub lateness_limit: Duration,
    /// Queues on the path that use the kernel's disciplines.
    pub queues: Vec<kernel_queue::Wanted>,
    /// Smallest propagation round trip of any flow.
    pub rtt_least: Duration,
}

/// How to run a scenario, apart from what the scenario says.
#[derive(Clone, Copy, Debug)]
pub struct Manner<'a> {
    /// The folder with the scenario's other files, for programs.
    pub here: &'a Path,
    /// Use our twins even of congestion controls that the kernel has itself.
    pub twins: bool,
    /// Where the run takes place.
    pub place: Place<'a>,
    /// Source texts of the user's own BPF congestion controls, by their names in scenarios.
    pub candidates: Option<&'a BTreeMap<String, String>>,
    /// Kernel names of what the user's own modules have registered, by their names in scenarios.
    pub modules: Option<&'a BTreeMap<String, String>>,
    /// Third-party stacks that flows may use instead of TCP.
    pub stacks: Option<&'a Stacks>,
    /// The number of a program flow, and the caller's command that replaces its client.
    pub in_front: Option<(usize, &'a [String])>,
}

impl Manner<'_> {
    fn candidate(&self, cc: &str) -> Option<&String> {
        self.candidates?.get(cc)
    }

    fn module(&self, cc: &str) -> Option<&String> {
        self.modules?.get(cc)
    }

    /// Whether the run uses the kernel that plans it.
    pub fn is_here(&self) -> bool {
        !matches!(self.place, Place::Elsewhere(_))
    }
}

/// Where a run takes place.
#[derive(Clone, Copy, Debug, Default)]
pub enum Place<'a> {
    /// On this machine, among other runs.
    #[default]
    Here,
    /// On this machine, which has no other work and ends with the run.
    Alone,
    /// On another machine with this kernel; here the run is only planned.
    Elsewhere(&'a Kernel),
}

/// What a plan needs to know of a kernel that is not running here.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its own congestion controls.
    pub controls: Vec<String>,
    /// Its timer frequency, CONFIG_HZ.
    pub hz: u64,
    /// The first two numbers of its release.
    pub release: (u32, u32),
}

impl Kernel {
    /// The running kernel.
    pub fn here() -> Self {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Kernel { controls: twins::in_kernel(), hz: sys::ticks_a_second(), release: Self::release(&release) }
    }

    /// The first two numbers in the output of `uname -r`.
    pub fn release(text: &str) -> (u32, u32) {
        let mut numbers = text.split(|at: char| !at.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }
}

impl Default for Manner<'_> {
    fn default() -> Self {
        Manner {
            here: Path::new("."),
            twins: false,
            place: Place::Here,
            candidates: None,
            modules: None,
            stacks: None,
            in_front: None,
        }
    }
}

/// Plans the run, or says why it is impossible.
pub fn plan(scenario: &Scenario, manner: &Manner<'_>) -> Result<Plan, LiveError> {
    let plain = without_candidates(exec::stand_in(scenario)?, manner);
    let (none, makers) = (Stacks::new(), Makers::new());
    let stacks = manner.stacks.unwrap_or(&none);
    Simulation::build_hosting(&plain, &makers, stacks)?;
    let mut foreign: BTreeMap<u32, Foreign> =
        foreign::flows(&plain, stacks)?.into_iter().map(|flow| (flow.flow, flow)).collect();
    if scenario.flows.len() > MOST_FLOWS {
        return Err(LiveError::refuse(
            "flows",
            scenario.flows.len(),
            format!("a run on a kernel has addresses for {MOST_FLOWS} flows"),
            "Describe fewer.",
        ));
    }
    let mut plan = Plan {
        hosts: Vec::new(),
        flows: Vec::new(),
        ends: Vec::new(),
        controls: Vec::new(),
        controls_of: Vec::new(),
        crowds: Vec::new(),
        end: Time::from_ps(scenario.duration_ps),
        is_alone: matches!(manner.place, Place::Alone),
        queues: kernel_queue::wanted(scenario)?,
        lateness_limit: lateness_limit(scenario),
        rtt_least: rtt_least(scenario),
    };
    let mut largest = 1500;
    for (number, flow) in scenario.flows.iter().enumerate() {
        largest = largest.max(match apps::traits(&flow.app.kind).runs_programs {
            true => programs::plan(&mut plan, scenario, number, flow, manner)?,
            false => plan_flow(&mut plan, scenario, number, flow, foreign.remove(&(number as u32)), manner)?,
        });
    }
    for (_, settings) in &mut plan.hosts {
        settings.mtu = largest;
    }
    if manner.is_here() {
        machine(&plan)?;
        speaks_v6(scenario)?;
    }
    Ok(plan)
}

/// The same scenario with Reno for every candidate, to check everything else.
fn without_candidates(mut scenario: Scenario, manner: &Manner<'_>) -> Scenario {
    for tcp in scenario.flows.iter_mut().filter_map(|flow| flow.tcp.as_mut()) {
        let turns = tcp.cc_turns.iter_mut().map(|turn| (&mut turn.cc, &mut turn.cc_params));
        for (cc, params) in std::iter::once((&mut tcp.cc, &mut tcp.cc_params)).chain(turns) {
            if manner.candidate(cc).or(manner.module(cc)).is_some() {
                *cc = "reno".into();
                params.clear();
            }
        }
    }
    scenario
}

/// Plans one flow; returns its largest packet.
fn plan_flow(
    plan: &mut Plan,
    scenario: &Scenario,
    number: usize,
    flow: &FlowSpec,
    foreign: Option<Foreign>,
    manner: &Manner<'_>,
) -> Result<u32, LiveError> {
    let path = format!("flows[{number}]");
    if apps::traits(&flow.app.kind).carries_packets {
        return Err(LiveError::refuse(
            format!("{path}.app.kind"),
            format!("{:?}", flow.app.kind),
            "where flows are a kernel's, a link's packets cannot travel in one of their connections",
            "Describe the tunnel's links by their rate and delay, or run it with --engine sim.",
        ));
    }
    let app = apps::build(
        &flow.app.kind,
        &flow.app.params,
        format_args!("{path}.app"),
        access::seed(scenario, flow),
    )?;
    let needs = app.needs();
    // Datagram sizes are stated with an IPv4 header.
    let packet = packet_bytes(flow);
    let longest = packet.map_or(0, |bytes| bytes + flow.ip.beyond_v4());
    check_needs(&needs, packet, &path)?;
    let ends = ends(plan, number, flow);
    let switches = switches(flow, scenario, &path)?;
    let stops = switches.get(1).is_some_and(|stop| *stop < plan.end);
    // A foreign stack implements the entire connection; the kernel only carries UDP.
    let spec = flow.tcp.as_ref().filter(|_| foreign.is_none());
    let planned = spec.map(|spec| plan_tcp(plan, (flow, spec), &needs, (number, ends), stops, &path, manner));
    let (tcp, controls) = planned.transpose()?.unzip();
    let largest = flow.tcp.as_ref().map_or(0, |spec| spec.mtu).max(longest);
    plan.controls_of.push(controls.unwrap_or_default());
    plan.crowds.push(needs.crowd);
    let wanted = &scenario.instruments;
    plan.flows.push(Work::Model(FlowPlan {
        number: number as u32,
        name: flow.name.clone(),
        ip: flow.ip,
        wants_datagrams: needs.datagrams,
        app,
        switches,
        tcp,
        foreign,
        record: Recording {
            requests: wanted.requests.contains(&flow.name),
            echoes: wanted.echoes.contains(&flow.name),
            states: wanted.segments.contains(&flow.name),
            polls: wanted.polls.contains(&flow.name).then(|| Duration::from_ps(wanted.poll_interval_ps)),
            from: Time::from_ps(wanted.from_ps),
            until: wanted.until_ps.map_or(Time::NEVER, Time::from_ps),
        },
    }));
    Ok(largest)
}

/// Returns an error if an application needs something that sockets do not provide.
fn check_needs(needs: &Needs, packet: Option<u32>, path: &str) -> Result<(), LiveError> {
    if let Some(rate) = needs.read_rate {
        return Err(LiveError::refuse(
            format!("{path}.app.params.read_rate"),
            rate.as_bps(),
            "on a kernel applications read whatever has arrived, at once",
            "Leave read_rate out, or run it with --engine sim.",
        ));
    }
    if needs.ecn {
        return Err(LiveError::refuse(
            format!("{path}.app.params.ecn"),
            true,
            "on a kernel applications send datagrams without ECN",
            "Leave ecn out, or run it with --engine sim.",
        ));
    }
    if needs.datagrams && packet.is_some_and(|bytes| bytes < SMALLEST_ECHO) {
        return Err(LiveError::refuse(
            format!("{path}.app.params.packet_bytes"),
            packet.unwrap_or_default(),
            "a request carries its number in 8 bytes behind the headers",
            format!("Give at least {SMALLEST_ECHO} bytes, or run it with --engine sim."),
        ));
    }
    Ok(())
}

/// Plans a flow's connections between two ends; also returns the indices of its congestion controls.
fn plan_tcp(
    plan: &mut Plan,
    (flow, spec): (&FlowSpec, &TcpSpec),
    needs: &Needs,
    (number, ends): (usize, [usize; 2]),
    stops: bool,
    path: &str,
    manner: &Manner<'_>,
) -> Result<(TcpPlan, Vec<usize>), LiveError> {
    let stack = stack::wanted(spec, path, manner.is_here())?;
    let buffers = [spec.send_buffer, spec.receive_buffer].map(|own| match own.or(needs.window) {
        Some(_) => stack::Buffer::Socket,
        None => stack::Buffer::Stack,
    });
    stack::settle(plan, (number, flow.ip), ends, &stack, buffers, path)?;
    let controls = turns(plan, spec, path, manner)?;
    if let Some(segment) = needs.segment.filter(|bytes| *bytes < SMALLEST_SEGMENT) {
        return Err(LiveError::refuse(
            format!("{path}.app.params.packet_bytes"),
            segment,
            "Linux sends no segments this small",
            format!("Give at least {SMALLEST_SEGMENT} bytes, or run it with --engine sim."),
        ));
    }
    let tcp = TcpPlan {
        turns: controls.iter().map(|control| plan.controls[*control].cc.clone()).collect(),
        send_buffer: spec.send_buffer,
        receive_buffer: spec.receive_buffer,
        mtu: spec.mtu,
        ip: flow.ip,
        segment: needs.segment,
        window: needs.window,
        pairs: needs.paths.len() as u32,
        paces: stack.pacing,
        stops,
    };
    Ok((tcp, controls))
}

/// The flow's two hosts, with its addresses added.
fn ends(plan: &mut Plan, number: usize, flow: &FlowSpec) -> [usize; 2] {
    let ends = [host(plan, &flow.from), host(plan, &flow.to)];
    for (end, address) in ends.iter().zip(addresses(number as u32)) {
        let known = &mut plan.hosts[*end].1.addresses;
        known.push(address.into());
        // Addresses of both IP versions, as real hosts have: programs choose.
        if flow.ip == IpVersion::V6 {
            known.push(beside(address).into());
        }
    }
    plan.ends.push(ends);
    ends
}

/// IP length of the datagrams of an application that sends datagrams.
fn packet_bytes(flow: &FlowSpec) -> Option<u32> {
    let (card, app) = apps::samples().find(|(card, _)| card.name == flow.app.kind)?;
    let default = card.param("packet_bytes").filter(|_| app.transport() == Transport::Udp)?.default;
    match (flow.app.params.get("packet_bytes"), default) {
        (Some(Value::Number(bytes)), _) => Some(*bytes as u32),
        (None, DefaultValue::Number(bytes)) => Some(bytes as u32),
        _ => None,
    }
}

/// Indices in the plan of the flow's congestion controls, in turn.
fn turns(plan: &mut Plan, spec: &TcpSpec, path: &str, manner: &Manner<'_>) -> Result<Vec<usize>, LiveError> {
    let first = (&spec.cc, &spec.cc_params, format!("{path}.tcp"));
    let others = spec.cc_turns.iter().enumerate();
    let others = others.map(|(turn, cc)| (&cc.cc, &cc.cc_params, format!("{path}.tcp.cc_turns[{turn}]")));
    let mut numbers = Vec::new();
    let kernel = match manner.place {
        Place::Elsewhere(kernel) => kernel.clone(),
        Place::Here | Place::Alone => Kernel::here(),
    };
    for (cc, params, place) in std::iter::once(first).chain(others) {
        let source = match (manner.candidate(cc), manner.module(cc)) {
            (Some(text), _) => twins::candidate(cc, text, params, &place)?,
            (None, Some(registered)) => Source::Module(registered.clone()),
            (None, None) => twins::choose(cc, params, &place, manner.twins, &kernel)?,
        };
        let wanted = Control { cc: cc.clone(), source };
        let known = plan.controls.iter().position(|known| *known == wanted);
        numbers.push(known.unwrap_or_else(|| {
            plan.controls.push(wanted);
            plan.controls.len() - 1
        }));
    }
    Ok(numbers)
}

fn host(plan: &mut Plan, node: &str) -> usize {
    if let Some(known) = plan.hosts.iter().position(|(name, _)| name == node) {
        return known;
    }
    let defaults = [
        // Each flow's routes say whether it uses ECN.
        ("net/ipv4/tcp_ecn", "0"),
        ("net/ipv4/conf/all/rp_filter", "0"),
        ("net/ipv4/conf/default/rp_filter", "0"),
        // Replies to our own dropped packets would be noise on the path.
        ("net/ipv4/icmp_ratelimit", "0"),
        // Room for all the short connections that an application opens.
        ("net/core/somaxconn", "65535"),
        ("net/ipv4/tcp_max_syn_backlog", "65535"),
        ("net/ipv4/ip_local_port_range", "1024 65535"),
        ("net/ipv4/tcp_tw_reuse", "1"),
    ];
    let settings = Settings {
        sysctls: defaults.iter().map(|(path, value)| ((*path).into(), (*value).into())).collect(),
        ..Settings::default()
    };
    plan.hosts.push((node.into(), settings));
    plan.hosts.len() - 1
}

/// Refuses flows over IPv6 on a kernel without IPv6.
fn speaks_v6(scenario: &Scenario) -> Result<(), LiveError> {
    let wanted = scenario.flows.iter().position(|flow| flow.ip == IpVersion::V6);
    match wanted.filter(|_| !Path::new(host::IPV6).exists()) {
        None => Ok(()),
        Some(number) => Err(LiveError::refuse(
            format!("flows[{number}].ip"),
            6,
            format!("this kernel has no IPv6 ({} is not there)", host::IPV6),
            "Load its module (modprobe ipv6), boot it without ipv6.disable=1, take another kernel (--engine vm), or leave \
             ip out",
        )),
    }
}

/// Refuses the plan if the machine lacks something it needs.
fn machine(plan: &Plan) -> Result<(), LiveError> {
    let lack = |problem: &str, fix: &str| Err(LiveError::refuse("engine", "\"live\"", problem, fix));
    if !sys::is_root() {
        return lack(
            "making namespaces and TUN devices needs root",
            "Run it with sudo, or with --engine sim. `tailback doctor` shows what this machine can do.",
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

fn one_way(scenario: &Scenario, route: &[String]) -> u64 {
    let delay =
        |name: &String| scenario.links.iter().find(|link| link.name == *name).map_or(0, |link| link.delay_ps);
    route.iter().map(delay).sum()
}

fn rtt_least(scenario: &Scenario) -> Duration {
    let rtt = |flow: &FlowSpec| one_way(scenario, &flow.route) + one_way(scenario, &flow.back_route);
    Duration::from_ps(scenario.flows.iter().map(rtt).min().unwrap_or(0))
}

/// A hundredth of the smallest round trip, or the time of one full packet on the slowest link if that is longer: less
/// lateness changes no packet's place in the queue. At least 100 µs, which no timer here beats.
fn lateness_limit(scenario: &Scenario) -> Duration {
    const FULL_PACKET_BITS: u64 = 12_000;
    let slowest = scenario.links.iter().filter_map(|link| link.rate_bps).min();
    let packet = slowest.map_or(0, |bps| FULL_PACKET_BITS * 1_000_000_000_000 / bps.max(1));
    (rtt_least(scenario) / 100).max(Duration::from_ps(packet)).max(Duration::from_us(100))
}
