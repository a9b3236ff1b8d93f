//! A link from its description.

use std::collections::VecDeque;

use super::pace::{Serialiser, Ticks};
use super::{Clock, Link, LinkCount};
use crate::capacity::Pacer;
use crate::medium::channel::Outlet;
use crate::medium::tunnel::Tunnel;
use crate::queue::registry::{self, Place};
use crate::queue::{Backlog, refuse_too_small};
use crate::rng::Stream;
use crate::scenario::{LinkSpec, QueueSpec, ScenarioError};
use crate::time::{Duration, Rate, Time};
use crate::wire::Wire;

/// The longest delay a link may have; more is a mistake of units.
pub const LONGEST_DELAY: Duration = Duration::from_secs(86_400);
/// The fastest rate a link may have: a thousand times today's fastest port.
pub(crate) const FASTEST: u64 = 1_000_000_000_000_000;
/// The fastest timer.
const FASTEST_TICK: u32 = 1_000_000;

impl Link {
    /// The link that `spec`, number `index` of the scenario, describes.
    pub fn build(spec: &LinkSpec, index: usize, seed: u64) -> Result<Self, ScenarioError> {
        let refuse = |what: &str, value: u64, problem: &str, fix: &str| {
            let field = format!("links[{index}].{what}");
            Err(ScenarioError { field, value: value.to_string(), problem: problem.into(), fix: fix.into() })
        };
        if let Some(bps) = spec.rate_bps {
            if bps == 0 {
                return refuse(
                    "rate_bps",
                    0,
                    "a link of rate zero delivers nothing",
                    "Give a rate above zero",
                );
            }
            if bps > FASTEST {
                return refuse(
                    "rate_bps",
                    bps,
                    "above 1 Pbit/s",
                    "Give at most 10^15, or leave the rate out",
                );
            }
        }
        if spec.delay_ps > LONGEST_DELAY.as_ps() {
            return refuse("delay_ps", spec.delay_ps, "longer than a day", "Give at most one day");
        }
        if let Some(hz) = spec.tick_hz {
            if hz == 0 || hz > FASTEST_TICK {
                return refuse("tick_hz", hz.into(), "not a timer", "Give 1 to 1000000 Hz, or leave it out");
            }
        }
        let pacer = Pacer::build(spec, index, seed)?;
        let outlet = Outlet::build(spec, index, seed)?;
        let tunnel = Tunnel::build(spec, index)?;
        let is_plain = outlet.is_none() && tunnel.is_none();
        let is_fast = spec.rate_bps.is_none() && pacer.is_none() && is_plain;
        if is_fast && spec.queue.discipline != QueueSpec::unlimited().discipline {
            return Err(ScenarioError {
                field: format!("links[{index}].queue.discipline"),
                value: format!("\"{}\"", spec.queue.discipline),
                problem: "an infinitely fast link never has a queue to manage".into(),
                fix: "Give the link a rate, or leave its queue out".into(),
            });
        }
        let nominal = pacer.as_ref().map(Pacer::nominal).or(outlet.as_ref().map(|outlet| outlet.nominal()));
        let rate = spec.rate_bps.map(Rate::from_bps).or(nominal);
        let place = Place { rate, seed: Stream::named(seed, &format!("link/{}/queue", spec.name)).bits() };
        let queue_path = format!("links[{index}].queue");
        let clock = match (pacer, spec.tick_hz) {
            (Some(pacer), _) => Clock::Paced(Box::new(pacer)),
            (None, Some(hz)) => Clock::Ticks(Ticks::new(hz, Duration::from_ps(spec.delay_ps))),
            (None, None) => Clock::Exact,
        };
        let mut link = Link {
            name: spec.name.clone(),
            serialiser: rate.map(Serialiser::new),
            clock,
            queue: registry::build(&spec.queue, &queue_path, &place)?,
            foreseen: None,
            queued: Backlog::default(),
            serving: None,
            step: Time::NEVER,
            free_at: Time::ZERO,
            delay: Duration::from_ps(spec.delay_ps),
            pipe: VecDeque::new(),
            pipe_bytes: 0,
            wire: Wire::build(&spec.wire, &format!("links[{index}].wire"), &spec.name, seed)?.map(Box::new),
            reports: false,
            outlet: outlet.map(Box::new),
            tunnel: tunnel.map(Box::new),
            is_plain,
            count: LinkCount::default(),
            now: Time::ZERO,
            busy: Duration::ZERO,
            held: 0,
            held_since: Time::ZERO,
            held_integral: 0,
            held_max: 0,
        };
        link.foresee();
        Ok(link)
    }

    /// An error if a packet of `bytes` could never cross the link, number `index`, built from `spec`.
    pub fn must_take(&self, spec: &LinkSpec, index: usize, bytes: u32) -> Result<(), ScenarioError> {
        refuse_too_small(&self.queue, &spec.queue, &format!("links[{index}].queue"), bytes)
    }
}
