//! Polls the kernel's state of each connection (TCP_INFO) at the scenario's interval.

use std::sync::atomic::{AtomicBool, Ordering};

use tailback_core::time::{Duration, Time};

use crate::applications::FlowState;
use crate::clock::Clock;
use crate::emulator::Shared;
use crate::sys::{self, TcpInfo};

/// One poll of one flow.
#[derive(Clone, Copy, Debug)]
pub struct TcpPoll {
    /// Time of the poll.
    pub at: Time,
    /// Number of the flow.
    pub flow: u32,
    /// TCP_INFO of the latest connection's client.
    pub info: TcpInfo,
    /// Payload delivered in order at the receiver.
    pub received: u64,
    /// Duplicate ACKs so far.
    pub duplicate_acks: u64,
}

impl TcpPoll {
    /// Bytes in flight by the kernel's own count.
    pub fn in_flight(&self) -> u64 {
        let TcpInfo { unacked, retrans, sacked, lost, snd_mss, .. } = self.info;
        u64::from((unacked + retrans).saturating_sub(sacked + lost)) * u64::from(snd_mss)
    }
}

/// Polls these flows every `interval`, on the grid from time zero, until `end` or `stop`.
pub fn follow(
    flows: &[u32],
    states: &[FlowState],
    shared: &Shared,
    clock: Clock,
    (from, end): (Time, Time),
    interval: Duration,
    stop: &AtomicBool,
) -> Vec<TcpPoll> {
    sys::exact_timers();
    sys::go_first();
    let mut tcp_polls = Vec::new();
    let mut next = from.ceil_to(interval);
    while next < end && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(clock.until(next).min(std::time::Duration::from_millis(20)));
        let now = clock.now();
        if now < next {
            continue;
        }
        tcp_polls.extend(flows.iter().filter_map(|&flow| poll(flow, &states[flow as usize], shared, clock)));
        // Skip polls that were missed: they would show the same state again.
        next = (clock.now() + Duration::from_ps(1)).ceil_to(interval);
    }
    tcp_polls
}

/// Takes one poll, if there is a connection.
pub fn poll(flow: u32, state: &FlowState, shared: &Shared, clock: Clock) -> Option<TcpPoll> {
    let (info, received) = state.tcp_info()?;
    Some(TcpPoll {
        at: clock.now(),
        flow,
        info,
        received,
        duplicate_acks: shared.duplicate_acks[flow as usize].load(Ordering::Relaxed),
    })
}
