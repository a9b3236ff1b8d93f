//! A queue that is decided outside: packets wait here while a kernel's own discipline decides about them.
//!
//! A live run carries them there and back, and reports the fate of each. The simulator has no such queue: it has models
//! of most, and a scenario that asks for the kernel's is refused with their names.

use std::collections::VecDeque;

use super::{Backlog, DropReason, Fate, QueueDiscipline, registry};
use crate::packet::{Ecn, Packet};
use crate::params::{Card, unknown_name};
use crate::scenario::{QueueSpec, Scenario, ScenarioError};
use crate::time::{Bytes, Time};

/// What stands before a kernel's name for a discipline.
pub const PREFIX: &str = "kernel:";
/// What stands before a kernel module of the user's own: its file, and in a guest the name it registers.
pub const MODULE: &str = "module:";
/// How the name begins that a queue in BPF registers in a guest. What stands before it there is [`MODULE`].
pub const PROGRAM: &str = "tailback_q";

/// The kernel's disciplines by their names there, each with the card whose parameters it takes.
pub fn disciplines() -> impl Iterator<Item = (&'static str, &'static Card)> {
    registry::rows().flat_map(|(card, traits)| traits.kernels.iter().map(move |name| (*name, card)))
}

/// The card of a module's discipline that has no model here: it takes no parameter.
static UNKNOWN: Card = Card {
    name: "module",
    title: "A kernel module of your own",
    law: "",
    source: "",
    differs: &[],
    live_twin: None,
    params: &[],
};

/// The kernel's name of a discipline that a kernel is to have; `None` if it is one of ours.
pub fn of_kernel(discipline: &str) -> Option<&str> {
    discipline.strip_prefix(PREFIX).or_else(|| discipline.strip_prefix(MODULE))
}

/// Does a module of the user's own bring the discipline?
pub fn is_module(discipline: &str) -> bool {
    discipline.starts_with(MODULE)
}

/// Is it a queue in BPF, as a guest has it?
pub fn is_program(discipline: &str) -> bool {
    discipline.strip_prefix(MODULE).is_some_and(|name| name.starts_with(PROGRAM))
}

/// The names of all, as a scenario has them.
pub fn names() -> Vec<String> {
    disciplines().map(|(name, _)| format!("{PREFIX}{name}")).collect()
}

/// The card whose parameters a kernel's discipline takes; an error at `field` if there is no such discipline.
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

/// Why the simulator does not run this.
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

/// The scenario with the models in the place of kernels' queues, for checks.
pub fn stand_in(scenario: &mut Scenario) -> Result<(), ScenarioError> {
    for (number, link) in scenario.links.iter_mut().enumerate() {
        if is_module(&link.queue.discipline) {
            // Its parameters are its own.
            link.queue = QueueSpec::unlimited();
        } else if of_kernel(&link.queue.discipline).is_some() {
            let card = card(&link.queue.discipline, &format!("links[{number}].queue.discipline"))?;
            link.queue = QueueSpec { discipline: card.name.into(), ..link.queue.clone() };
        }
    }
    Ok(())
}

/// The queue as a link has it.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    /// Nothing is known of these yet.
    waiting: VecDeque<Packet>,
    /// These came out, and the link has not taken them yet.
    out: VecDeque<(Packet, bool)>,
    /// These were dropped, and that is not reported yet.
    lost: Vec<(Packet, DropReason)>,
    /// The next packet is dropped as it comes, for this reason.
    refuses: Option<DropReason>,
    bytes: Bytes,
}

impl Outside {
    fn take(&mut self, slot: u32) -> Packet {
        let place = self.waiting.iter().position(|packet| packet.slot == slot);
        place.and_then(|place| self.waiting.remove(place)).expect("what was decided outside waits here")
    }

    /// The next packet does not get in: it never waits here.
    pub fn refuse(&mut self, reason: DropReason) {
        self.refuses = Some(reason);
    }

    /// The packet in `slot` comes out next, perhaps marked.
    pub fn let_out(&mut self, slot: u32, is_marked: bool) {
        let packet = self.take(slot);
        self.out.push_back((packet, is_marked));
    }

    /// The packet in `slot` was dropped, which is still to be reported.
    pub fn lose(&mut self, slot: u32, reason: DropReason) {
        let packet = self.take(slot);
        self.lost.push((packet, reason));
    }

    /// Report what was dropped.
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

    // The deciding side reports when a packet is ready.
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
