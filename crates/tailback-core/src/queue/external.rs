//! Queue disciplines from outside the registry: the interface for the caller's own queues.
//!
//! The discipline sees packets by number and decides. The packets themselves stay here, in a ledger, so that its
//! decisions can be checked. It cannot lose, invent or repeat a packet, and may reorder a flow or hold packets back
//! only if it declares so. The first violation ends the run: it unwinds as a [`QueueFault`].

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Debug, Display};
use std::panic::resume_unwind;
use std::sync::Arc;

use super::registry::{Queue, Surroundings};
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::packet::{Ecn, Packet};
use crate::scenario::{Params, QueueSpec, ScenarioError};
use crate::time::{Bytes, Duration, Time};

/// Decision of a discipline about an offered packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    /// Accept the packet.
    Keep,
    /// Drop the packet: there is no room.
    Drop,
    /// Accept the packet and mark it CE.
    Mark,
}

/// Answer of a discipline to a request for a packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Next {
    /// The packet of this number.
    Packet(u64),
    /// The queue is empty.
    Nothing,
    /// The queue has packets, but sends none before this time in seconds.
    WaitUntil(f64),
}

/// A further action of a discipline on a packet that it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// Drops the packet of this number, for this reason.
    Drop(u64, DropReason),
    /// Marks the packet of this number CE.
    Mark(u64),
}

/// A failed call: the problem, and the host's exception if there was one.
#[derive(Debug)]
pub struct Failure {
    /// Description for display.
    pub what: String,
    /// The host's exception, for the caller of the engine.
    pub cause: Option<Box<dyn Any + Send>>,
}

impl<T: Into<String>> From<T> for Failure {
    fn from(what: T) -> Self {
        Failure { what: what.into(), cause: None }
    }
}

/// Properties that a discipline declares about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Declared {
    /// It may reorder packets of one flow.
    pub reorders: bool,
    /// It is a shaper: it may hold packets back while the link is free.
    pub holds_back: bool,
}

/// A queue discipline whose type the core does not know.
pub trait External: Debug + Send {
    /// Offers packet `number` to a queue with a backlog of `waiting`. Drops and marks of held packets are added to
    /// `deeds`.
    fn enqueue(
        &mut self,
        number: u64,
        packet: &Packet,
        waiting: Backlog,
        now: Time,
        deeds: &mut Vec<Deed>,
    ) -> Result<Offer, Failure>;
    /// Requests a packet for the free link from a queue with a backlog of `held`.
    fn dequeue(&mut self, held: Backlog, now: Time, deeds: &mut Vec<Deed>) -> Result<Next, Failure>;
    /// For an error message: how the author enables the property behind a field of [`Declared`].
    fn declares(&self, field: &str) -> String {
        format!("a class that means this says {field} = True")
    }
}

/// Makes the queues of one discipline, one for each link.
pub trait Maker: Debug + Send + Sync {
    /// Checks parameters; returns the discipline's declarations, or a description of the problem.
    fn check(&self, params: &Params, rate_bps: Option<u64>) -> Result<Declared, String>;
    /// Builds an empty queue from checked parameters. `seed` is for this queue alone; `name` identifies it in errors.
    fn make(
        &self,
        name: &str,
        params: &Params,
        seed: u64,
        rate_bps: Option<u64>,
    ) -> Result<Box<dyn External>, Failure>;
}

/// External disciplines by name. They cannot override names of the registry.
pub type Makers = BTreeMap<String, Arc<dyn Maker>>;

/// An empty table of external disciplines.
pub static NO_MAKERS: Makers = Makers::new();

/// A violation of the rules by an external queue.
#[derive(Debug)]
pub struct QueueFault {
    /// Name of the discipline in the scenario, and of the link.
    pub queue: String,
    /// The call that failed: `enqueue` or `dequeue`.
    pub hook: &'static str,
    /// Simulated time of the violation.
    pub at: Time,
    /// The rule, and the packet if one is concerned.
    pub what: String,
    /// The host's exception, if there was one.
    pub cause: Option<Box<dyn Any + Send>>,
}

/// Parameters of a queue, to build another like it.
#[derive(Clone)]
struct Recipe {
    maker: Arc<dyn Maker>,
    params: Params,
    seed: u64,
    rate_bps: Option<u64>,
}

/// An external discipline, with the packets that it holds.
pub struct Hosted {
    name: String,
    recipe: Recipe,
    declared: Declared,
    inner: Box<dyn External>,
    /// Packets by number, beginning with the oldest that may still be held; `None`: it has left or was dropped.
    ledger: VecDeque<Option<Packet>>,
    /// Number of the first entry in `ledger`.
    first: u64,
    held: Backlog,
    /// For each flow and direction, by conversation: one more than the number of the latest packet that left.
    left: Vec<Vec<u64>>,
    deeds: Vec<Deed>,
    waits_until: Option<Time>,
}

impl Debug for Hosted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosted").field("name", &self.name).field("held", &self.held).finish()
    }
}

impl Clone for Hosted {
    /// An empty queue with the same parameters: the state of an external discipline cannot be copied.
    fn clone(&self) -> Self {
        let inner = self
            .recipe
            .make(&self.name)
            .unwrap_or_else(|failure| self.fail("its constructor", Time::ZERO, failure));
        Hosted::around(self.name.clone(), self.recipe.clone(), self.declared, inner)
    }
}

impl Recipe {
    fn make(&self, name: &str) -> Result<Box<dyn External>, Failure> {
        self.maker.make(name, &self.params, self.seed, self.rate_bps)
    }
}

/// Builds the queue that `spec` at `field` describes, if its discipline is external.
pub fn build(
    spec: &QueueSpec,
    field: &str,
    around: &Surroundings<'_>,
) -> Result<Option<Queue>, ScenarioError> {
    let Some(maker) = around.context.makers.get(&spec.discipline) else { return Ok(None) };
    let refuse = |problem: String, fix: &str| ScenarioError {
        field: format!("{field}.discipline"),
        value: format!("{:?}", spec.discipline),
        problem,
        fix: fix.into(),
    };
    if spec.inner.is_some() {
        return Err(refuse("a queue of your own has no queue inside it".into(), "Leave inner out"));
    }
    let rate_bps = around.rate.map(|rate| rate.as_bps());
    let declared = maker.check(&spec.params, rate_bps).map_err(|problem| {
        let problem = problem.trim_end_matches('.');
        refuse(format!("it cannot be made: {problem}"), "Correct the parameters or the queue")
    })?;
    let recipe = Recipe { maker: maker.clone(), params: spec.params.clone(), seed: around.seed, rate_bps };
    let name = format!("{} at link {}", spec.discipline, around.link);
    let inner = recipe.make(&name).map_err(|failure| {
        refuse(format!("it cannot be made: {}", failure.what), "Correct the parameters or the queue")
    })?;
    Ok(Some(Queue::Hosted(Box::new(Hosted::around(name, recipe, declared, inner)))))
}

impl Hosted {
    fn around(name: String, recipe: Recipe, declared: Declared, inner: Box<dyn External>) -> Self {
        Hosted {
            name,
            recipe,
            declared,
            inner,
            ledger: VecDeque::new(),
            first: 0,
            held: Backlog::default(),
            left: Vec::new(),
            deeds: Vec::new(),
            waits_until: None,
        }
    }

    /// Whether it may hold packets back while the link is free.
    pub fn holds_back(&self) -> bool {
        self.declared.holds_back
    }

    #[cold]
    fn fail(&self, hook: &'static str, at: Time, failure: Failure) -> ! {
        let Failure { what, cause } = failure;
        resume_unwind(Box::new(QueueFault { queue: self.name.clone(), hook, at, what, cause }))
    }

    fn slot(&mut self, number: u64) -> Option<&mut Option<Packet>> {
        self.ledger.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Removes packet `number` from the ledger.
    fn take(&mut self, number: u64, hook: &'static str, now: Time, verb: &str) -> Packet {
        let Some(packet) = self.slot(number).and_then(Option::take) else {
            let what = format!("packet {number}: {verb} although it left or was dropped before");
            self.fail(hook, now, what.into())
        };
        while let Some(None) = self.ledger.front() {
            self.ledger.pop_front();
            self.first += 1;
        }
        self.held.packets -= 1;
        self.held.bytes -= Bytes::from(packet.bytes);
        packet
    }

    /// Applies the drops and marks of a discipline after a call.
    fn carry_out(&mut self, hook: &'static str, now: Time, fate: &mut Fate) {
        let mut deeds = std::mem::take(&mut self.deeds);
        for deed in deeds.drain(..) {
            match deed {
                Deed::Drop(number, why) => {
                    let packet = self.take(number, hook, now, "it is dropped");
                    fate.drop(packet, why);
                }
                Deed::Mark(number) => self.mark(number, hook, now, fate),
            }
        }
        self.deeds = deeds;
    }

    fn mark(&mut self, number: u64, hook: &'static str, now: Time, fate: &mut Fate) {
        match self.slot(number) {
            Some(Some(packet)) if packet.ecn == Ecn::Ce => {}
            Some(Some(packet)) if packet.ecn.is_capable() => {
                packet.ecn = Ecn::Ce;
                let marked = *packet;
                fate.mark(marked);
            }
            Some(Some(packet)) => {
                let what =
                    format!("{}: it is marked although its sender does not speak ECN", shown(number, packet));
                self.fail(hook, now, what.into())
            }
            _ => {
                let what = format!("packet {number}: it is marked although it left or was dropped before");
                self.fail(hook, now, what.into())
            }
        }
    }

    /// Checks that packets of each connection and direction leave in their order of arrival, unless declared otherwise.
    fn demand_order(&mut self, number: u64, packet: &Packet, now: Time) {
        let flow = 2 * packet.flow.0 as usize + usize::from(packet.is_reverse);
        if flow >= self.left.len() {
            self.left.resize(flow + 1, Vec::new());
        }
        let conversation = usize::from(packet.conversation);
        if conversation >= self.left[flow].len() {
            self.left[flow].resize(conversation + 1, 0);
        }
        let least = self.left[flow][conversation];
        if number < least && !self.declared.reorders {
            let what = format!(
                "{}: it leaves after packet {} of the same flow, which came later; {}",
                shown(number, packet),
                least - 1,
                self.inner.declares("reorders")
            );
            self.fail("dequeue", now, what.into());
        }
        self.left[flow][conversation] = least.max(number + 1);
    }

    #[cold]
    fn demand_empty(&self, now: Time) {
        let oldest =
            (self.first..).zip(&self.ledger).find_map(|(number, kept)| Some((number, kept.as_ref()?)));
        if let Some((number, packet)) = oldest {
            let what = format!(
                "{}: it was kept, and dequeue returns no packet although {} held: return one of them, or the time to \
                 wait until",
                shown(number, packet),
                if self.held.packets == 1 {
                    "1 packet is".into()
                } else {
                    format!("{} packets are", self.held.packets)
                }
            );
            self.fail("dequeue", now, what.into());
        }
    }

    #[cold]
    fn wait(&mut self, seconds: f64, now: Time) {
        if !self.declared.holds_back {
            let what = format!("it returns a time to wait until; {}", self.inner.declares("holds_back"));
            self.fail("dequeue", now, what.into());
        }
        // A later time within the same picosecond becomes the next picosecond.
        if !(seconds > now.as_secs_f64() && seconds < Time::NEVER.as_secs_f64()) {
            let what = format!(
                "it waits until {seconds} s: return a time after now, below {:.0} s",
                Time::NEVER.as_secs_f64()
            );
            self.fail("dequeue", now, what.into());
        }
        let due = Time::ZERO + Duration::from_secs_f64(seconds);
        self.waits_until = Some(due.max(now + Duration::from_ps(1)));
    }
}

fn shown(number: u64, packet: &Packet) -> impl Display {
    let way = if packet.is_reverse { ", on the way back" } else { "" };
    format!("packet {number} (flow {}{way}, {} bytes)", packet.flow.0, packet.bytes)
}

impl QueueDiscipline for Hosted {
    fn enqueue(&mut self, packet: Packet, now: Time, fate: &mut Fate) {
        let number = self.first + self.ledger.len() as u64;
        let waiting = self.held;
        self.ledger.push_back(Some(packet));
        self.held.packets += 1;
        self.held.bytes += Bytes::from(packet.bytes);
        let offer = match self.inner.enqueue(number, &packet, waiting, now, &mut self.deeds) {
            Ok(offer) => offer,
            Err(Failure { what, cause }) => {
                let what = format!("{}: {what}", shown(number, &packet));
                self.fail("enqueue", now, Failure { what, cause })
            }
        };
        if !self.deeds.is_empty() {
            self.carry_out("enqueue", now, fate);
        }
        match offer {
            Offer::Keep => {}
            Offer::Drop => {
                let packet = self.take(number, "enqueue", now, "it is dropped");
                fate.drop(packet, DropReason::QueueFull);
            }
            Offer::Mark => self.mark(number, "enqueue", now, fate),
        }
    }

    fn dequeue(&mut self, now: Time, fate: &mut Fate) -> Option<Packet> {
        self.waits_until = None;
        let next = match self.inner.dequeue(self.held, now, &mut self.deeds) {
            Ok(next) => next,
            Err(failure) => self.fail("dequeue", now, failure),
        };
        if !self.deeds.is_empty() {
            self.carry_out("dequeue", now, fate);
        }
        match next {
            Next::Packet(number) => {
                let packet = self.take(number, "dequeue", now, "it is returned");
                self.demand_order(number, &packet, now);
                Some(packet)
            }
            Next::Nothing => {
                if self.held.packets > 0 {
                    self.demand_empty(now);
                }
                None
            }
            Next::WaitUntil(seconds) => {
                if self.held.packets > 0 {
                    self.wait(seconds, now);
                }
                None
            }
        }
    }

    fn backlog(&self) -> Backlog {
        self.held
    }

    fn ready_at(&self, _now: Time) -> Option<Time> {
        self.waits_until
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::packet::FlowId;

    /// A queue that answers by rote.
    #[derive(Debug)]
    struct Rote {
        offers: Vec<Offer>,
        gives: VecDeque<Next>,
        does: Vec<Deed>,
    }

    impl External for Rote {
        fn enqueue(
            &mut self,
            number: u64,
            _: &Packet,
            _: Backlog,
            _: Time,
            _: &mut Vec<Deed>,
        ) -> Result<Offer, Failure> {
            Ok(self.offers.get(number as usize).copied().unwrap_or(Offer::Keep))
        }
        fn dequeue(&mut self, _: Backlog, _: Time, deeds: &mut Vec<Deed>) -> Result<Next, Failure> {
            deeds.append(&mut self.does);
            Ok(self.gives.pop_front().unwrap_or(Next::Nothing))
        }
    }

    #[derive(Debug)]
    struct None_;

    impl Maker for None_ {
        fn check(&self, _: &Params, _: Option<u64>) -> Result<Declared, String> {
            Ok(Declared::default())
        }
        fn make(&self, _: &str, _: &Params, _: u64, _: Option<u64>) -> Result<Box<dyn External>, Failure> {
            Err("made by rote".into())
        }
    }

    fn hosted(declared: Declared, offers: &[Offer], gives: &[Next], does: &[Deed]) -> Hosted {
        let rote = Rote { offers: offers.into(), gives: gives.iter().copied().collect(), does: does.into() };
        let recipe = Recipe { maker: Arc::new(None_), params: Params::new(), seed: 1, rate_bps: None };
        Hosted::around("mine at link l".into(), recipe, declared, Box::new(rote))
    }

    fn packet(slot: u32, ecn: Ecn) -> Packet {
        Packet {
            slot,
            flow: FlowId(0),
            bytes: 1500,
            ecn,
            hop: 0,
            is_reverse: false,
            conversation: 0,
            enqueued: Time::ZERO,
        }
    }

    /// Two packets come, then the queue is asked three times: what it broke.
    fn fault(mut queue: Hosted) -> String {
        let mut fate = Fate::default();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for slot in 0..2 {
                queue.enqueue(packet(slot, Ecn::NotEct), Time::from_ms(1), &mut fate);
            }
            for _ in 0..3 {
                queue.dequeue(Time::from_ms(2), &mut fate);
            }
        }));
        let fault = outcome.expect_err("a rule was broken").downcast::<QueueFault>().expect("a fault");
        format!("{} {} {:?}: {}", fault.queue, fault.hook, fault.at.as_us(), fault.what)
    }

    #[test]
    fn each_broken_rule_ends_the_run_with_queue_packet_time_and_rule() {
        use Next::{Nothing, Packet as Give, WaitUntil};
        let plain = Declared::default();
        let said = |gives: &[Next], does: &[Deed]| fault(hosted(plain, &[], gives, does));
        let twice = said(&[Give(0), Give(0)], &[]);
        assert_eq!(
            twice,
            "mine at link l dequeue 2000: packet 0: it is returned although it left or was dropped before"
        );
        assert!(said(&[Give(7)], &[]).contains("packet 7: it is returned"));
        let kept = said(&[Give(0), Nothing], &[]);
        assert!(
            kept.contains("packet 1 (flow 0, 1500 bytes): it was kept") && kept.contains("1 packet"),
            "{kept}"
        );
        assert!(
            said(&[Give(1), Give(0)], &[])
                .contains("packet 0 (flow 0, 1500 bytes): it leaves after packet 1")
        );
        assert!(said(&[WaitUntil(1.0)], &[]).contains("holds_back = True"));
        assert!(said(&[Give(0)], &[Deed::Drop(0, DropReason::Aqm)]).contains("packet 0: it is returned"));
        assert!(said(&[Give(1)], &[Deed::Mark(0)]).contains("does not speak ECN"));
        let shaper = Declared { holds_back: true, ..plain };
        for until in [0.002, 0.0, f64::NAN, f64::INFINITY] {
            let said = fault(hosted(shaper, &[], &[WaitUntil(until)], &[]));
            assert!(said.contains("return a time after now"), "{said}");
        }
    }

    #[test]
    fn what_it_declares_and_does_is_carried_out() {
        let declared = Declared { reorders: true, holds_back: true };
        let gives = [Next::WaitUntil(0.25), Next::Packet(3), Next::Packet(0)];
        let offers = [Offer::Keep, Offer::Drop, Offer::Mark, Offer::Keep];
        let mut queue = hosted(declared, &offers, &gives, &[Deed::Drop(2, DropReason::Overlimit)]);
        let (mut fate, now) = (Fate::default(), Time::from_ms(1));
        (0..4).for_each(|slot| queue.enqueue(packet(slot, Ecn::Ect0), now, &mut fate));
        assert_eq!(fate.marks.iter().map(|packet| packet.slot).collect::<Vec<_>>(), [2]);
        assert!(queue.dequeue(now, &mut fate).is_none());
        assert_eq!(queue.ready_at(now), Some(Time::from_ms(250)));
        let drops: Vec<_> = fate.drops.iter().map(|(packet, why)| (packet.slot, *why)).collect();
        assert_eq!(drops, [(1, DropReason::QueueFull), (2, DropReason::Overlimit)]);
        assert_eq!(queue.dequeue(now, &mut fate).map(|packet| packet.slot), Some(3));
        assert_eq!(queue.backlog(), Backlog { packets: 1, bytes: 1500 });
        assert_eq!(queue.dequeue(now, &mut fate).map(|packet| packet.slot), Some(0));
        assert_eq!(queue.backlog(), Backlog::default());
        assert!(queue.dequeue(now, &mut fate).is_none(), "an empty queue may return nothing");
    }
}
