//! The two ends of a connection: sizes that fit, the options in force between their stacks, and the algorithm's variants.

use super::At;
use crate::cc::external::Makers;
use crate::cc::registry::{cards, scalable_responses};
use crate::engine::parts::refuse;
use crate::scenario::{FlowSpec, IpVersion, ScenarioError, TcpSpec, Value};
use crate::tcp::stack::Stack;

/// The smallest IP packet every host must take (RFC 791), and the largest there is.
const MTU_RANGE: (u32, u32) = (68, 65_535);
/// Every link that carries IPv6 carries packets of this many bytes (RFC 8200 section 5).
const LEAST_V6_MTU: u32 = 1_280;

/// An error if the MTU or a buffer of a connection is out of range.
pub(super) fn check_sizes(flow: &FlowSpec, tcp: &TcpSpec, path: At) -> Result<(), ScenarioError> {
    let (least, high) = MTU_RANGE;
    let (low, packet) = match flow.ip {
        IpVersion::V4 => (least, "an IP packet"),
        IpVersion::V6 => (LEAST_V6_MTU, "the largest packet over IPv6"),
    };
    if tcp.mtu < low || tcp.mtu > high {
        return Err(refuse(
            format!("{path}.tcp.mtu"),
            tcp.mtu,
            format!("{packet} has {low} to {high} bytes"),
            "Give an MTU such as \"1500B\".",
        ));
    }
    for (name, buffer) in [("send_buffer", tcp.send_buffer), ("receive_buffer", tcp.receive_buffer)] {
        if buffer.is_some_and(|bytes| bytes < u64::from(tcp.mtu) || bytes > 1 << 40) {
            return Err(refuse(
                format!("{path}.tcp.{name}"),
                buffer.unwrap_or_default(),
                "a buffer holds at least one packet and at most 1 TiB",
                "Give a size such as \"4MiB\".",
            ));
        }
    }
    Ok(())
}

/// The stack at a flow's receiver.
pub(super) fn receiver_stack(tcp: &TcpSpec) -> &str {
    tcp.receiver_stack.as_ref().unwrap_or(&tcp.stack)
}

/// The stacks of the two ends, with the options that are in force between them.
pub(super) fn agreed_stacks(tcp: &TcpSpec, path: At) -> Result<[Stack; 2], ScenarioError> {
    let stack = |name: &str, field: &str| -> Result<Stack, ScenarioError> {
        let mut stack = Stack::named(name, format_args!("{path}.tcp.{field}"))?;
        for (key, value) in &tcp.stack_params {
            stack.set(key, value, format_args!("{path}.tcp.stack_params.{key}"))?;
        }
        Ok(stack)
    };
    let mut stacks = [stack(&tcp.stack, "stack")?, stack(receiver_stack(tcp), "receiver_stack")?];
    // RFC 9293 section 3.7.1: an option is in force only if both ends offer it.
    let (sack, timestamps, scaling, ecn, counts) = (
        stacks.iter().all(|stack| stack.sack),
        stacks.iter().all(|stack| stack.timestamps),
        stacks.iter().all(|stack| stack.window_scaling),
        stacks.iter().map(|stack| stack.ecn).min().expect("two ends"),
        stacks.iter().all(Stack::counts_marks),
    );
    for stack in &mut stacks {
        (stack.sack, stack.timestamps, stack.window_scaling, stack.ecn) = (sack, timestamps, scaling, ecn);
        stack.accecn = counts;
    }
    Ok(stacks)
}

/// An algorithm that sends ECT(1) must respond to the fraction of marks, so its receiver must report each mark. For an
/// algorithm from outside, its maker decides.
pub(super) fn check_l4s(tcp: &TcpSpec, makers: &Makers, path: At) -> Result<(), ScenarioError> {
    if tcp.stack_params.get("accurate_echo") == Some(&Value::Flag(false)) {
        return Err(refuse(
            format!("{path}.tcp.stack_params.accurate_echo"),
            false,
            "with ecn = \"l4s\" each mark is echoed (RFC 9331 section 4.2)",
            "Leave accurate_echo away, or set the stack's ecn = true.",
        ));
    }
    let scalable: Vec<&str> = scalable_responses().collect();
    let turns = tcp.cc_turns.iter().enumerate().map(|(turn, it)| (format!("cc_turns[{turn}].cc"), &it.cc));
    for (field, cc) in std::iter::once(("cc".to_string(), &tcp.cc)).chain(turns) {
        let is_ours =
            !makers.contains_key(cc.as_str()) && cards().iter().any(|card| card.name == cc.as_str());
        if is_ours && !scalable.contains(&cc.as_str()) {
            return Err(refuse(
                format!("{path}.tcp.{field}"),
                format!("{cc:?}"),
                "with the stack's ecn = \"l4s\" a sender must reduce in proportion to the share of marks (RFC 9331 \
                 section 4.3), and this algorithm does not",
                format!("Choose one of: {}; or set the stack's ecn = true.", scalable.join(", ")),
            ));
        }
    }
    Ok(())
}

/// The variants of an algorithm that a stack prefers: the variant named after the stack, then that of its operating
/// system.
pub(super) fn preferred_variants(stack: &str) -> Vec<&str> {
    let system = stack.split('-').next().unwrap_or(stack);
    if system == stack { vec![stack] } else { vec![stack, system] }
}
