//! Maps a stack's fields to kernel settings: of a host (sysctl, device), of a flow's route, or of its sockets.
//!
//! A field without a kernel setting is refused, unless the scenario asks for the profile's own value.

use std::fs;

use tailback_core::scenario::{IpVersion, TcpSpec};
use tailback_core::tcp::metrics::MetricsCache;
use tailback_core::tcp::stack::{EcnMode, Frto, IdleRestart, Stack};
use tailback_core::time::Duration;

use super::Plan;
use crate::error::LiveError;
use crate::headers;
use crate::host::PeerRoute;
use crate::twins;

/// The name of the stack that is this machine's kernel.
const STACK: &str = "linux";
/// Smallest packet that Linux still segments for (an MSS of 88).
const SMALLEST_MTU: u32 = 128;
/// A packet that the device will segment holds at most 64 KiB, however many segments that makes.
const MOST_BURSTS: u32 = 64;
/// `tcp_comp_sack_nr`: most acknowledgements held back.
const COMPRESSED_ACKS: u32 = 44;

/// A host setting that follows a field of the stack.
struct OfHost {
    field: &'static str,
    /// Path below /proc/sys/net/ipv4.
    sysctl: &'static str,
    value: fn(&Stack) -> String,
}

const fn of_host(field: &'static str, sysctl: &'static str, value: fn(&Stack) -> String) -> OfHost {
    OfHost { field, sysctl, value }
}

fn switch(on: bool) -> String {
    u8::from(on).to_string()
}

static OF_HOST: [OfHost; 15] = [
    of_host("sack", "tcp_sack", |stack| switch(stack.sack)),
    of_host("dsack", "tcp_dsack", |stack| switch(stack.dsack)),
    of_host("timestamps", "tcp_timestamps", |stack| switch(stack.timestamps)),
    of_host("window_scaling", "tcp_window_scaling", |stack| switch(stack.window_scaling)),
    of_host("duplicate_threshold", "tcp_reordering", |stack| stack.duplicate_threshold.to_string()),
    of_host("reordering_limit", "tcp_max_reordering", |stack| {
        stack.reordering_limit.unwrap_or(stack.duplicate_threshold).to_string()
    }),
    // Mode 3: tail loss probes, and early retransmission delayed by them.
    of_host("tail_loss_probe", "tcp_early_retrans", |stack| {
        if stack.tail_loss_probe { "3" } else { "0" }.into()
    }),
    of_host("frto", "tcp_frto", |stack| if stack.frto == Frto::Off { "0" } else { "2" }.into()),
    of_host("idle_restart", "tcp_slow_start_after_idle", |stack| {
        switch(stack.idle_restart != IdleRestart::Keep)
    }),
    of_host("sack_compression", "tcp_comp_sack_delay_ns", |stack| {
        (stack.sack_compression.unwrap_or(Duration::ZERO).as_ps() / 1_000).to_string()
    }),
    of_host("sack_compression", "tcp_comp_sack_nr", |stack| {
        if stack.sack_compression.is_some() { COMPRESSED_ACKS } else { 0 }.to_string()
    }),
    of_host("metrics_cache", "tcp_no_metrics_save", |stack| switch(stack.metrics_cache == MetricsCache::Off)),
    // The minimum of a burst; it is also the maximum if the burst size does not follow the rate.
    of_host("burst_autosize", "tcp_min_tso_segs", |stack| {
        if stack.burst_autosize { 2 } else { stack.burst_segments }.to_string()
    }),
    of_host("rto_maximum", "tcp_rto_max_ms", |stack| milliseconds(stack.rto_maximum).to_string()),
    of_host("metrics_cache", "tcp_no_ssthresh_metrics_save", |_| switch(true)),
];

/// Fields that map to settings of a flow's routes, its sockets, or its hosts' devices and buffers.
const OTHERS: [&str; 10] = [
    "initial_window",
    "rto_minimum",
    "delayed_ack",
    "ecn",
    "pacing",
    "burst_segments",
    "window_validation",
    "send_buffer",
    "receive_buffer",
    "initial_receive_buffer",
];

/// The reason for every field that makes a receiver misbehave.
const HONEST: &str = "the kernel's receiver is honest";

/// Why the kernel does not follow a field, and the nearest alternative, where more can be said than that no setting
/// exists.
const FIXED: [(&str, &str, &str); 13] = [
    (
        "small_queue",
        "a packet has left its host as soon as it is sent, so nothing waits there to be bounded",
        "Leave it out",
    ),
    (
        "detection",
        "the kernel finds losses by RACK, and without SACK by duplicate ACKs",
        "Leave it out, or set sack = false",
    ),
    (
        "undo",
        "the kernel always undoes what the evidence shows",
        "Take the evidence away: timestamps = false, dsack = false",
    ),
    ("accurate_echo", "the kernel echoes each mark for dctcp alone", "Leave it out"),
    (
        "accecn",
        "kernels before 6.18 have no accurate ECN, and later ones negotiate it for prague alone",
        "Leave it out",
    ),
    ("restart_window", "the kernel restarts with the initial window", "Give both the same"),
    ("window_share", "the kernel measures it (since 6.6)", "Leave it out, and set receive_buffer"),
    ("rto_initial", "the kernel's is one second", "Leave it out"),
    ("max_burst", "the kernel has none since 3.x", "Limit bursts by burst_segments or pacing"),
    ("ack_division", HONEST, "Leave it out"),
    ("acks_ahead", HONEST, "Leave it out"),
    ("conceals_marks", HONEST, "Leave it out"),
    ("ack_every", "the kernel acknowledges every second segment", "Leave it out, or set delayed_ack = false"),
];

fn milliseconds(span: Duration) -> u64 {
    span.as_ps() / 1_000_000_000
}

/// What determines a flow's buffer size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buffer {
    /// The socket has a size of its own.
    Socket,
    /// The kernel's autotuning, up to the stack's limit.
    Stack,
    /// A fixed size from the start, by the host's setting.
    Host(u64),
}

/// The flow's stack, if the kernel can follow it. With `is_here` false, another kernel must check which settings it
/// has.
pub fn wanted(spec: &TcpSpec, path: &str, is_here: bool) -> Result<Stack, LiveError> {
    if let Some(transport) = &spec.transport {
        return Err(LiveError::refuse(
            format!("{path}.tcp.transport"),
            format!("{transport:?}"),
            "this engine's connections are the kernel's own, whose transport is TCP",
            "Leave transport away, or run it with --engine sim.",
        ));
    }
    let stacks = [("stack", Some(&spec.stack)), ("receiver_stack", spec.receiver_stack.as_ref())];
    for (field, stack) in stacks {
        if let Some(stack) = stack.filter(|stack| *stack != STACK) {
            return Err(LiveError::refuse(
                format!("{path}.tcp.{field}"),
                format!("{stack:?}"),
                "this engine's connections are the kernel's own, and it is none of the other stacks",
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
    let profile = Stack::named(STACK, format!("{path}.tcp.stack"))?;
    let mut stack = profile.clone();
    for (name, value) in &spec.stack_params {
        stack.set(name, value, format!("{path}.tcp.stack_params.{name}"))?;
    }
    let all = |does: fn(&str) -> bool| does(&spec.cc) && spec.cc_turns.iter().all(|turn| does(&turn.cc));
    let echoes = stack.accurate_echo && all(twins::echoes_marks);
    let counts = stack.accecn && all(twins::negotiates_accecn);
    for (name, value) in &spec.stack_params {
        if echoes && name == "accurate_echo" || counts && name == "accecn" {
            continue;
        }
        let has = |sysctl: &str| !is_here || exists(sysctl);
        follows(name, &stack, &profile, &has).map_err(|(problem, fix)| {
            LiveError::refuse(
                format!("{path}.tcp.stack_params.{name}"),
                value,
                problem,
                format!("{fix}, or run it with --engine sim, where every field can be set."),
            )
        })?;
    }
    Ok(stack)
}

/// Whether the kernel does what this field of the stack says; if not, the problem and the nearest alternative.
fn follows(
    name: &str,
    stack: &Stack,
    profile: &Stack,
    has: &dyn Fn(&str) -> bool,
) -> Result<(), (String, String)> {
    let of =
        |stack: &Stack| stack.fields().into_iter().find(|(field, _)| *field == name).map(|(_, text)| text);
    let refuse = |problem: &str, fix: &str| Err((problem.to_string(), fix.to_string()));
    let is_same = of(stack) == of(profile);
    match name {
        // The kernel has one setting, and one window, for both.
        "idle_restart" | "window_validation"
            if (stack.idle_restart == IdleRestart::Keep) == stack.window_validation =>
        {
            refuse(
                "the kernel has one setting for both, tcp_slow_start_after_idle",
                "Set idle_restart = false and window_validation = false, or neither",
            )
        }
        "idle_restart" if stack.idle_restart == IdleRestart::Restart => refuse(
            "the kernel halves the window for every timeout of idleness",
            "Write idle_restart = \"halve\" or false",
        ),
        "initial_window"
            if stack.restart_window != stack.initial_window && stack.idle_restart != IdleRestart::Keep =>
        {
            refuse(
                "the kernel has one window for the start and for going on after idleness",
                &format!("Set restart_window = {} too", stack.initial_window),
            )
        }
        "restart_window" if stack.restart_window == stack.initial_window => Ok(()),
        "detection" if !stack.sack && of(stack).as_deref() == Some("duplicate-acks") => Ok(()),
        _ if is_same => Ok(()),
        "frto" if !matches!(stack.frto, Frto::Off | Frto::AtOnce) => refuse(
            "the kernel's F-RTO is off or, since 3.10, by SACK from the first ACK on",
            "Write frto = \"at-once\" or false",
        ),
        "delayed_ack" if stack.delayed_ack.is_some() => {
            refuse("the kernel's timer is fixed at 40 ms", "Write 40, or false for an ACK for every segment")
        }
        "ecn" if stack.ecn == EcnMode::L4s => refuse("the kernel sends data as ECT(0)", "Write ecn = true"),
        "metrics_cache" if stack.metrics_cache != MetricsCache::Linux => {
            refuse("the kernel's metrics cache is that of Linux since 5.6", "Write metrics_cache = \"linux\"")
        }
        "rto_minimum" if !is_whole(stack.rto_minimum) || stack.rto_minimum.is_zero() => {
            refuse("the kernel counts it in whole milliseconds", "Round it")
        }
        "rto_maximum"
            if !is_whole(stack.rto_maximum)
                || !(1_000..=120_000).contains(&milliseconds(stack.rto_maximum)) =>
        {
            refuse("the kernel's is from 1 to 120 s, in whole milliseconds", "Choose one of these")
        }
        _ => has_setting(name, &of(profile).unwrap_or_default(), has),
    }
}

/// Whether the kernel has a setting for a field; if not, the problem and what the profile has.
fn has_setting(name: &str, profiles: &str, has: &dyn Fn(&str) -> bool) -> Result<(), (String, String)> {
    let mut needed = OF_HOST.iter().filter(|setting| setting.field == name).map(|setting| setting.sysctl);
    if let Some(missing) = needed.find(|sysctl| !has(sysctl)) {
        let problem = format!("this kernel has no setting net.ipv4.{missing}");
        return Err((problem, "Leave it out, boot a newer kernel".into()));
    }
    if OF_HOST.iter().any(|setting| setting.field == name) || OTHERS.contains(&name) {
        return Ok(());
    }
    let fixed = FIXED.iter().find(|(field, ..)| *field == name);
    let (problem, fix) = fixed
        .map_or(("the kernel has no setting for this", "Leave it out"), |(_, problem, fix)| (problem, fix));
    Err((problem.into(), format!("{fix} (the profile has {profiles})")))
}

fn is_whole(span: Duration) -> bool {
    span == Duration::from_ms(milliseconds(span))
}

/// Whether the running kernel has this setting.
fn exists(sysctl: &str) -> bool {
    fs::exists(format!("/proc/sys/net/ipv4/{sysctl}")).unwrap_or(false)
}

/// Settings of a host with this stack: the field, the sysctl and the value.
fn settings(stack: &Stack, buffers: [Buffer; 2]) -> Vec<(&'static str, &'static str, String)> {
    let own = OF_HOST.iter().filter(|setting| exists(setting.sysctl));
    let mut out: Vec<_> =
        own.map(|setting| (setting.field, setting.sysctl, (setting.value)(stack))).collect();
    // In the kernel's order: minimum, default, maximum.
    let buffer_fields = [
        ("send_buffer", "tcp_wmem", 16_384, stack.send_buffer),
        (
            "receive_buffer",
            "tcp_rmem",
            stack.initial_receive_buffer.unwrap_or(stack.receive_buffer),
            stack.receive_buffer,
        ),
    ];
    for ((field, sysctl, first, most), buffer) in buffer_fields.into_iter().zip(buffers) {
        let (first, most) = match buffer {
            Buffer::Socket => continue,
            Buffer::Stack => (most.min(first), most),
            Buffer::Host(bytes) => (bytes, bytes),
        };
        out.push((field, sysctl, format!("4096\t{first}\t{most}")));
    }
    out
}

/// Configures the flow's two hosts for its stack; all flows of a host share its settings.
pub fn settle(
    plan: &mut Plan,
    (number, ip): (usize, IpVersion),
    ends: [usize; 2],
    stack: &Stack,
    buffers: [Buffer; 2],
    path: &str,
) -> Result<(), LiveError> {
    let settings = settings(stack, buffers);
    alone_with_its_metrics(plan, ends, stack, path)?;
    for end in ends {
        let (name, host) = &mut plan.hosts[end];
        let differ = |field: &str, value: &str| {
            LiveError::refuse(
                format!("{path}.tcp.stack_params.{field}"),
                format!("{:?}", value.replace('\t', " ")),
                format!("another flow of host {name} wants it otherwise, and a host has it once"),
                "Give the flows different hosts, or the same stack and buffers.",
            )
        };
        for (field, sysctl, value) in &settings {
            let before = host.sysctls.insert(format!("net/ipv4/{sysctl}"), value.clone());
            if before.is_some_and(|before| before != *value) {
                return Err(differ(field, value));
            }
        }
        let bursts = stack.burst_segments.min(MOST_BURSTS);
        if host.bursts.replace(bursts).is_some_and(|before| before != bursts) {
            return Err(differ("burst_segments", &bursts.to_string()));
        }
    }
    let versions: &[IpVersion] =
        if ip == IpVersion::V6 { &[IpVersion::V4, IpVersion::V6] } else { &[IpVersion::V4] };
    for version in versions {
        let [near, far] = headers::ends(number as u32, *version);
        for (end, source, destination) in [(ends[0], near, far), (ends[1], far, near)] {
            plan.hosts[end].1.routes.push(PeerRoute {
                flow: number as u32,
                destination,
                source,
                mtu: None,
                congestion: None,
                initial_window: stack.initial_window,
                ecn: stack.ecn != EcnMode::Off,
                rto_min_ms: milliseconds(stack.rto_minimum) as u32,
                acknowledges_at_once: stack.delayed_ack.is_none(),
            });
        }
    }
    Ok(())
}

/// The kernel caches metrics by address, and every flow has its own addresses. So two flows between the same hosts
/// would not share them, as they do in the simulator.
fn alone_with_its_metrics(plan: &Plan, ends: [usize; 2], stack: &Stack, path: &str) -> Result<(), LiveError> {
    // This flow's own entry is the last.
    let others = &plan.ends[..plan.ends.len() - 1];
    let is_over_tcp = |number: usize| {
        plan.hosts.iter().any(|(_, host)| host.routes.iter().any(|route| route.flow == number as u32))
    };
    let shares = |(number, other): (usize, &[usize; 2])| *other == ends && is_over_tcp(number);
    if stack.metrics_cache == MetricsCache::Off || !others.iter().enumerate().any(shares) {
        return Ok(());
    }
    Err(LiveError::refuse(
        format!("{path}.tcp.stack_params.metrics_cache"),
        "\"linux\"",
        "another flow joins the same hosts, and the kernel remembers by address, which every flow has its own",
        "Let one flow open all the connections, give the flows different hosts, or run it with --engine sim.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tailback_core::scenario::Value;

    fn linux() -> Stack {
        Stack::named(STACK, "stack").expect("the profile")
    }

    fn judge(changes: &[(&str, Value)]) -> Result<(), (String, String)> {
        let mut stack = linux();
        for (name, value) in changes {
            stack.set(name, value, name).expect("a value");
        }
        changes.iter().try_for_each(|(name, _)| follows(name, &stack, &linux(), &exists))
    }

    #[test]
    fn what_the_profile_has_anyway_may_be_said() {
        let all = linux();
        for (name, _) in all.fields() {
            // Only a field that was changed can be impossible for the kernel.
            assert_eq!(follows(name, &all, &all, &exists), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_setting_is_looked_for_on_the_kernel_of_the_run() {
        let (mut stack, profile) = (linux(), linux());
        stack.set("sack", &Value::Flag(false), "sack").expect("a value");
        let judged = |has: &dyn Fn(&str) -> bool| follows("sack", &stack, &profile, has);
        assert_eq!(judged(&|_| true), Ok(()));
        let (problem, _) = judged(&|sysctl| sysctl != "tcp_sack").expect_err("it is not there");
        assert!(problem.contains("net.ipv4.tcp_sack"), "{problem}");
    }

    #[test]
    fn every_field_named_here_is_a_stacks() {
        let fields: Vec<&str> = linux().fields().into_iter().map(|(name, _)| name).collect();
        let named = OF_HOST.iter().map(|setting| setting.field);
        for name in named.chain(OTHERS).chain(FIXED.map(|(name, ..)| name)) {
            assert!(fields.contains(&name), "{name}");
        }
    }

    #[test]
    fn what_goes_together_in_the_kernel_is_set_together() {
        let off = || Value::Flag(false);
        assert!(judge(&[("idle_restart", off())]).is_err());
        assert!(judge(&[("window_validation", off())]).is_err());
        assert_eq!(judge(&[("idle_restart", off()), ("window_validation", off())]), Ok(()));
        assert!(judge(&[("initial_window", Value::Number(3.0))]).is_err());
        let both = [("initial_window", Value::Number(3.0)), ("restart_window", Value::Number(3.0))];
        assert_eq!(judge(&both), Ok(()));
        let newreno = Value::Name("duplicate-acks".into());
        assert!(judge(&[("detection", newreno.clone())]).is_err());
        assert_eq!(judge(&[("detection", newreno), ("sack", off())]), Ok(()));
    }

    #[test]
    fn a_refusal_says_what_comes_nearest() {
        let name = |text: &str| Value::Name(text.into());
        for (field, value, nearest) in [
            ("frto", name("basic"), "at-once"),
            ("frto", name("sack"), "at-once"),
            ("ecn", name("l4s"), "ecn = true"),
            ("delayed_ack", Value::Number(100.0), "false"),
            ("metrics_cache", name("linux-2.6"), "\"linux\""),
            ("small_queue", Value::Number(1e6), "Leave it out (the profile has none)"),
            ("ack_every", Value::Number(1.0), "delayed_ack = false"),
            ("reduction", name("immediate"), "the profile has prr"),
            ("rto_minimum", Value::Number(0.5), "Round"),
        ] {
            let (problem, fix) = judge(&[(field, value)]).expect_err(field);
            assert!(fix.contains(nearest), "{field}: {problem} {fix}");
        }
    }
}
