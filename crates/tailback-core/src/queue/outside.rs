//! A queue whose packets wait here while a discipline in a kernel decides about them.
//!
//! A live run passes the packets to the kernel and back, and reports the fate of each. The simulator has no such queue:
//! a scenario that requests one is refused, with the name of the model to use instead.

use std::collections::VecDeque;

use super::{Backlog, DropReason, Fate, QueueDiscipline, registry};
use crate::packet::{Ecn, Packet};
use crate::params::{Card, unknown_name};
use crate::scenario::{QueueSpec, Scenario, ScenarioError};
use crate::time::{Bytes, Time};

/// Prefix of the name of a kernel's discipline.
pub const PREFIX: &str = "kernel:";
/// Prefix of a discipline from the user's own kernel module. The rest is the module's file or, in a guest, the name
/// that it registers.
pub const MODULE: &str = "module:";
/// Beginning of the name that a queue in BPF registers in a guest, where [`MODULE`] precedes it.
pub const PROGRAM: &str = "tailback_q";

/// Names of the kernel's disciplines, each with the card whose parameters it takes.
pub fn disciplines() -> impl Iterator<Item = (&'static str, &'static Card)> {
    registry::rows().flat_map(|(card, traits)| traits.kernels.iter().map(move |name| (*name, card)))
}

/// Card of a module's discipline without a model here: it has no parameters.
static UNKNOWN: Card = Card {
    name: "module",
    title: "A kernel module of your own",
    law: "",
    source: "",
    differs: &[],
    live_twin: None,
    params: &[],
};

/// Name of the discipline in the kernel, if a kernel is to run it; `None` for our own.
pub fn of_kernel(discipline: &str) -> Option<&str> {
    discipline.strip_prefix(PREFIX).or_else(|| discipline.strip_prefix(MODULE))
}

/// Whether the discipline comes from the user's own kernel module.
pub fn is_module(discipline: &str) -> bool {
    discipline.starts_with(MODULE)
}

/// Whether it is a queue in BPF, as loaded in a guest.
pub fn is_program(discipline: &str) -> bool {
    discipline.strip_prefix(MODULE).is_some_and(|name| name.starts_with(PROGRAM))
}

/// Names of the kernel's disciplines, as scenarios write them.
pub fn names() -> Vec<String> {
    disciplines().map(|(name, _)| format!("{PREFIX}{name}")).collect()
}

/// The card whose parameters a kernel's discipline takes. An error at `field` if there is no such discipline.
pub fn card(discipline: &str, field: &str) -> Result<&'static Card, ScenarioError> {
    let name = of_kernel(discipline).unwrap_or(discipline);
    if let Some((_, model)) = disciplines().find(|(known, _)| *known == name) {
        return Ok(model);
    }
    if is_module(discipline) {
        return Ok(&UNKNOWN);
    }
    let names = names();
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    Err(unknown_name("queue of a kernel's", discipline, field, &known))
}

/// The error for a simulation of a kernel's queue.
pub fn refusal(discipline: &str, field: &str) -> ScenarioError {
    if is_module(discipline) {
        return ScenarioError {
            field: field.into(),
            value: format!("{discipline:?}"),
            problem: "a kernel module runs in a guest's kernel only".into(),
            fix: "Run it with --engine vm".into(),
        };
    }
    let own = match card(discipline, field) {
        Err(unknown) => return unknown,
        Ok(card) => card.name,
    };
    ScenarioError {
        field: field.into(),
        value: format!("{discipline:?}"),
        problem: "this queue is the kernel's own, and the simulator has no kernel".into(),
        fix: format!("Run it with --engine vm, or take the model of it: {own}"),
    }
}

/// Replaces kernels' queues by their models, to check the scenario.
pub fn stand_in(scenario: &mut Scenario) -> Result<(), ScenarioError> {
    for (number, link) in scenario.links.iter_mut().enumerate() {
        if is_module(&link.queue.discipline) {
            // A module's parameters are unknown here.
            link.queue = QueueSpec::unlimited();
        } else if of_kernel(&link.queue.discipline).is_some() {
            let card = card(&link.queue.discipline, &format!("links[{number}].queue.discipline"))?;
            link.queue = QueueSpec { discipline: card.name.into(), ..link.queue.clone() };
        }
    }
    Ok(())
}

/// A link's queue whose packets are decided about outside.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    /// Packets without a decision.
    waiting: VecDeque<Packet>,
    /// Packets released and not yet taken by the link, each with its CE mark.
    out: VecDeque<(Packet, bool)>,
    /// Packets dropped, but not yet reported.
    lost: Vec<(Packet, DropReason)>,
    /// Reason to drop the next packet on arrival.
    refuses: Option<DropReason>,
    bytes: Bytes,
}

impl Outside {
    fn take(&mut self, slot: u32) -> Packet {
        let place = self.waiting.iter().position(|packet| packet.slot == slot);
        place.and_then(|place| self.waiting.remove(place)).expect("what was decided outside waits here")
    }

    /// Drops the next packet on arrival.
    pub fn refuse(&mut self, reason: DropReason) {
        self.refuses = Some(reason);
    }

    /// Releases the packet in `slot` next, perhaps marked.
    pub fn let_out(&mut self, slot: u32, is_marked: bool) {
        let packet = self.take(slot);
        self.out.push_back((packet, is_marked));
    }

    /// Drops the packet in `slot`; the drop is reported later.
    pub fn lose(&mut self, slot: u32, reason: DropReason) {
        let packet = self.take(slot);
        self.lost.push((packet, reason));
    }

    /// Reports the drops.
    pub fn report_lost(&mut self, fate: &mut Fate) {
        for (packet, reason) in self.lost.drain(..) {
            self.bytes -= Bytes::from(packet.bytes);
            fate.drop(packet, reason);
        }
    }
}

impl QueueDiscipline for Outside {
    fn enqueue(&mut self, packet: Packet, _now: Time, fate: &mut Fate) {
        if let Some(reason) = self.refuses.take() {
            return fate.drop(packet, reason);
        }
        self.bytes += Bytes::from(packet.bytes);
        self.waiting.push_back(packet);
    }

    fn dequeue(&mut self, _now: Time, fate: &mut Fate) -> Option<Packet> {
        let (mut packet, is_marked) = self.out.pop_front()?;
        self.bytes -= Bytes::from(packet.bytes);
        if is_marked {
            packet.ecn = Ecn::Ce;
            fate.mark(packet);
        }
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        let packets = self.waiting.len() + self.out.len() + self.lost.len();
        Backlog { packets: packets as u32, bytes: self.bytes }
    }

    // The discipline outside reports when a packet is ready.
    fn ready_at(&self, _now: Time) -> Option<Time> {
        Some(Time::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FlowId;

    fn packet(slot: u32) -> Packet {
        Packet {
            slot,
            flow: FlowId(0),
            bytes: 1500,
            ecn: Ecn::Ect0,
            hop: 0,
            is_reverse: false,
            conversation: 0,
            enqueued: Time::ZERO,
        }
    }

    #[test]
    fn gives_what_was_let_out_and_reports_what_was_lost_until_then_it_holds_both() {
        let (mut queue, mut fate, now) = (Outside::default(), Fate::default(), Time::from_ms(1));
        (0..4).for_each(|slot| queue.enqueue(packet(slot), now, &mut fate));
        assert!(queue.dequeue(now, &mut fate).is_none());
        queue.lose(0, DropReason::Aqm);
        queue.let_out(2, true);
        queue.let_out(1, false);
        assert_eq!(queue.backlog(), Backlog { packets: 4, bytes: 6000 });
        queue.report_lost(&mut fate);
        assert_eq!(queue.backlog(), Backlog { packets: 3, bytes: 4500 });
        let out = queue.dequeue(now, &mut fate).expect("it was let out");
        assert_eq!((out.slot, out.ecn), (2, Ecn::Ce));
        let drops: Vec<_> = fate.drops.iter().map(|(packet, why)| (packet.slot, *why)).collect();
        assert_eq!((drops, fate.marks.len()), (vec![(0, DropReason::Aqm)], 1));
        assert_eq!(
            queue.dequeue(now, &mut fate).map(|packet| (packet.slot, packet.ecn)),
            Some((1, Ecn::Ect0))
        );
        assert_eq!(queue.backlog(), Backlog { packets: 1, bytes: 1500 });
        queue.refuse(DropReason::QueueFull);
        queue.enqueue(packet(4), now, &mut fate);
        queue.enqueue(packet(5), now, &mut fate);
        assert_eq!(
            fate.drops.last().map(|(packet, why)| (packet.slot, *why)),
            Some((4, DropReason::QueueFull))
        );
        assert_eq!(queue.backlog(), Backlog { packets: 2, bytes: 3000 });
    }

    #[test]
    fn the_simulator_refuses_a_kernels_queue_and_names_its_model() {
        let said = |name: &str| refusal(name, "links[0].queue.discipline");
        assert!(said("kernel:pfifo").fix.ends_with("fifo"), "{:?}", said("kernel:pfifo"));
        assert!(said("kernel:cake").fix.ends_with("cake"));
        assert!(said("kernel:fqcodel").fix.contains("kernel:fq_codel"));
        assert!(said("module:sch_mine.c").fix.contains("--engine vm"));
    }
}
