//! Builds a link from its description.

use super::api::{FASTEST, LONGEST_DELAY};
use super::foreseen::Foreseen;
use super::gate::Gate;
use super::instant::Instant;
use super::interface::Interface;
use super::outlet::Outlet;
use super::pace::{Serialiser, Ticks};
use super::pacer::{self, Pacer, refusal};
use super::radio::Radio;
use super::serial::{Clock, Serial};
use super::service::{Gated, Link, Service};
use super::steady::Steady;
use super::tunnel::Tunnel;
use super::wire::Wire;
use crate::framing::Framing;
use crate::medium::access::Access;
use crate::medium::cell::User;
use crate::medium::registry::{Medium, Shared};
use crate::medium::tunnel::TunnelStream;
use crate::queue::refuse_too_small;
use crate::queue::registry::{self, Context, Queue, Surroundings};
use crate::rng::Stream;
use crate::scenario::{LinkSpec, MediumSpec, QueueSpec, ScenarioError};
use crate::time::{Duration, Rate};

/// Limit on the frequency of a timer.
const FASTEST_TICK: u32 = 1_000_000;

/// The future service of the queue.
enum Served {
    Instantly,
    At(Rate),
    Paced(Box<Pacer>),
    Shared(Box<Shared>),
    Scheduled(Box<User>),
    Carried(TunnelStream),
}

impl Link {
    /// Builds link number `index` of the scenario from `spec`.
    pub fn build(spec: &LinkSpec, index: usize, seed: u64) -> Result<Self, ScenarioError> {
        Link::build_within(spec, index, seed, Context::default())
    }

    /// As [`Link::build`], with information for its queue beyond the link.
    pub fn build_within(
        spec: &LinkSpec,
        index: usize,
        seed: u64,
        context: Context<'_>,
    ) -> Result<Self, ScenarioError> {
        check_numbers(spec, index)?;
        let served = Served::of(spec, index, seed)?;
        if matches!(served, Served::Instantly) && spec.queue.discipline != QueueSpec::unlimited().discipline {
            return Err(refuse_queue(
                spec,
                index,
                "an infinitely fast link never has a queue to manage",
                "Give the link a rate, or leave its queue out",
            ));
        }
        let rate = served.nominal().map(|rate| spec.framing.ip_rate(rate));
        let seed_of_queue = Stream::named(seed, &format!("link/{}/queue", spec.name)).bits();
        let around = Surroundings { rate, seed: seed_of_queue, link: &spec.name, context };
        let queue = registry::build(&spec.queue, &format!("links[{index}].queue"), &around)?;
        served.demand_no_shaper(spec, index, &queue)?;
        let wire = Wire::build(&spec.wire, &format!("links[{index}].wire"), &spec.name, seed)?.map(Box::new);
        let gate = Gate::build(spec, index)?;
        if gate.is_some() {
            served.demand_own_queue(spec, index)?;
        }
        let service = served.into_service(spec, &queue, wire.as_deref());
        let service = match gate {
            Some(gate) => Service::Gated(Box::new(Gated { gate, service })),
            None => service,
        };
        let interface = Interface::new(&spec.name, queue, Duration::from_ps(spec.delay_ps), wire);
        Ok(Link::new(interface, service, rate))
    }

    /// An error if no packet of `bytes` could ever cross link number `index`, built from `spec`.
    pub fn must_take(&self, spec: &LinkSpec, index: usize, bytes: u32) -> Result<(), ScenarioError> {
        if !self.gate().is_none_or(|gate| gate.may_admit(bytes)) {
            let burst = spec.policer.as_ref().map_or(0, |policer| policer.burst_bytes);
            let problem = format!("the bucket holds less than one packet of {bytes} bytes, so none passes");
            let fix = format!("Give at least {bytes} bytes");
            return Err(refusal(index, "policer.burst_bytes", burst, &problem, &fix));
        }
        refuse_too_small(self.queue(), &spec.queue, &format!("links[{index}].queue"), bytes)
    }
}

fn check_numbers(spec: &LinkSpec, index: usize) -> Result<(), ScenarioError> {
    if spec.rate_bps == Some(0) {
        let problem = "a link of rate zero delivers nothing";
        return Err(refusal(index, "rate_bps", 0, problem, "Give a rate above zero"));
    }
    if let Some(bps) = spec.rate_bps.filter(|bps| *bps > FASTEST) {
        let fix = "Give at most 10^15, or leave the rate out";
        return Err(refusal(index, "rate_bps", bps, "above 1 Pbit/s", fix));
    }
    if spec.delay_ps > LONGEST_DELAY.as_ps() {
        return Err(refusal(index, "delay_ps", spec.delay_ps, "longer than a day", "Give at most one day"));
    }
    if let Some(hz) = spec.tick_hz.filter(|hz| *hz == 0 || *hz > FASTEST_TICK) {
        let fix = "Give 1 to 1000000 Hz, or leave it out";
        return Err(refusal(index, "tick_hz", hz, "not a timer", fix));
    }
    check_framing(spec, index)
}

/// An error if the link's framing is out of range, or if the link has no rate of its own to which framing applies.
fn check_framing(spec: &LinkSpec, index: usize) -> Result<(), ScenarioError> {
    let Framing { overhead, mpu, .. } = spec.framing;
    let (least, most) = Framing::OVERHEAD;
    if !(least..=most).contains(&overhead) {
        let fix = format!("Give {least} to {most} bytes");
        return Err(refusal(index, "framing.overhead", overhead, "out of range", &fix));
    }
    if mpu > Framing::LARGEST_MPU {
        let fix = format!("Give 0 to {} bytes", Framing::LARGEST_MPU);
        return Err(refusal(index, "framing.mpu", mpu, "out of range", &fix));
    }
    let Some((field, value)) = spec.framing.given() else { return Ok(()) };
    let (problem, fix) = match (&spec.medium, &spec.trace) {
        (Some(medium), _) => {
            let fix = "Leave it out, or give the link a rate in place of the medium";
            (format!("the medium {} has framing of its own", medium.name), fix)
        }
        (None, Some(_)) => {
            let fix = "Leave it out, or give the link a schedule of rates in place of the trace";
            ("a trace has framing of its own: an opportunity carries one full packet".into(), fix)
        }
        (None, None) if spec.rate_bps.is_some() => return Ok(()),
        (None, None) => {
            ("a link without rate takes no time for bytes".into(), "Give the link a rate, or leave this out")
        }
    };
    Err(refusal(index, &format!("framing.{field}"), value, &problem, fix))
}

fn refuse_queue(spec: &LinkSpec, index: usize, problem: &str, fix: &str) -> ScenarioError {
    refusal(index, "queue.discipline", format!("{:?}", spec.queue.discipline), problem, fix)
}

impl Served {
    fn of(spec: &LinkSpec, index: usize, seed: u64) -> Result<Self, ScenarioError> {
        pacer::check(spec, index)?;
        let Some(medium) = &spec.medium else {
            return Ok(match (Pacer::build(spec, index, seed)?, spec.rate_bps) {
                (Some(pacer), _) => Served::Paced(Box::new(pacer)),
                (None, Some(bps)) => Served::At(Rate::from_bps(bps)),
                (None, None) => Served::Instantly,
            });
        };
        let served = match Medium::build(medium, &spec.name, index, seed)? {
            Medium::Private(medium) => Served::Paced(Box::new(Pacer::of_medium(medium, spec, seed))),
            Medium::Shared(access) => Served::Shared(Box::new(access)),
            Medium::Cell(user) => Served::Scheduled(user),
            Medium::Tunnel(stream) => Served::Carried(stream),
        };
        served.check_medium(spec, medium, index)?;
        Ok(served)
    }

    /// An error if a setting of the link conflicts with its medium.
    fn check_medium(&self, spec: &LinkSpec, medium: &MediumSpec, index: usize) -> Result<(), ScenarioError> {
        if matches!(self, Served::Shared(_) | Served::Scheduled(_) | Served::Carried(_))
            && !spec.schedule.is_empty()
        {
            let problem = "a shared medium has no delay that changes";
            let fix = "Put the changing delay on a link of its own beside it";
            return Err(refusal(index, "schedule", "a schedule", problem, fix));
        }
        match (self, &medium.flow) {
            (Served::Carried(_), None) => {
                let problem = "a tunnel needs a connection that carries its packets";
                let fix = "Name the flow whose application is tunnel";
                Err(refusal(index, "medium.flow", "nothing", problem, fix))
            }
            (Served::Carried(_), Some(_)) | (_, None) => Ok(()),
            (_, Some(flow)) => {
                let problem = format!("no flow carries the packets of {}", medium.name);
                let value = format!("{flow:?}");
                Err(refusal(index, "medium.flow", value, &problem, "Leave the flow out"))
            }
        }
    }

    /// An error if a gate is set on a link whose medium takes packets past it.
    fn demand_own_queue(&self, spec: &LinkSpec, index: usize) -> Result<(), ScenarioError> {
        let what = match self {
            Served::Carried(_) => "a tunnel",
            Served::Shared(_) | Served::Scheduled(_) => "a medium that stations share",
            Served::Instantly | Served::At(_) | Served::Paced(_) => return Ok(()),
        };
        let (field, gate) = match &spec.policer {
            Some(_) => ("policer", "a policer"),
            None => ("wire.bleach_before_queue", "bleaching before the queue"),
        };
        let problem = format!("{gate} cannot stand at {what}");
        let fix = "Put it on a link of its own before this one; that needs neither rate nor delay";
        Err(refusal(index, field, gate, &problem, fix))
    }

    /// An error if the queue is a shaper, which could hold packets back when the medium has room.
    fn demand_no_shaper(&self, spec: &LinkSpec, index: usize, queue: &Queue) -> Result<(), ScenarioError> {
        let why = match self {
            Served::Carried(_) => "a shaper cannot hold back packets for which the socket has room",
            Served::Shared(_) | Served::Scheduled(_) => {
                "a shaper cannot hold back packets for which the medium is won"
            }
            Served::Instantly | Served::At(_) | Served::Paced(_) => return Ok(()),
        };
        if queue.holds_back() {
            let fix = "Put the shaper on a link of its own before this one";
            return Err(refuse_queue(spec, index, why, fix));
        }
        Ok(())
    }

    /// Average rate without competition; `None`: the link has no rate of its own.
    fn nominal(&self) -> Option<Rate> {
        match self {
            Served::Instantly | Served::Carried(_) => None,
            Served::At(rate) => Some(*rate),
            Served::Paced(pacer) => Some(pacer.nominal()),
            Served::Shared(access) => Some(access.nominal()),
            Served::Scheduled(user) => Some(user.nominal()),
        }
    }

    fn into_service(self, spec: &LinkSpec, queue: &Queue, wire: Option<&Wire>) -> Service {
        let ticks = spec.tick_hz.map(|hz| Ticks::new(hz, Duration::from_ps(spec.delay_ps)));
        match self {
            Served::Instantly => Service::Instant(Instant { ticks }),
            Served::At(rate) => {
                let serialiser = Serialiser::new(rate, spec.framing);
                let only_loses = wire.is_none_or(Wire::only_loses);
                let tail_drop = match queue {
                    Queue::Fifo(fifo) if ticks.is_none() && only_loses => fifo.tail_drop(),
                    _ => None,
                };
                match (tail_drop, ticks) {
                    (Some(limit), _) => Service::Foreseen(Foreseen::new(limit, serialiser)),
                    (None, Some(ticks)) => Service::Serial(Serial::new(serialiser, Clock::Ticks(ticks))),
                    (None, None) if wire.is_none() => Service::Steady(Steady::new(serialiser, queue)),
                    (None, None) => Service::Serial(Serial::new(serialiser, Clock::Exact)),
                }
            }
            Served::Paced(pacer) => {
                let serialiser = Serialiser::new(pacer.nominal(), spec.framing);
                Service::Serial(Serial::new(serialiser, Clock::Paced(pacer)))
            }
            Served::Shared(access) => Service::Outlet(Box::new(Outlet::new(*access))),
            Served::Scheduled(user) => Service::Radio(Box::new(Radio::new(*user))),
            Served::Carried(stream) => Service::Tunnel(Box::new(Tunnel::new(stream))),
        }
    }
}
