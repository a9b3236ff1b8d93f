//! What a wire does to packets beyond delaying them: loss, duplication, holding back, jitter.
//!
//! Each impairment draws from its own named stream, once a packet, so switching one on leaves the others'
//! choices alone. Loss, jitter and holding back are decided when the last bit leaves the sender; duplication when
//! the packet arrives.
//!
//! Source: the independent-probability models of Linux netem (tc-netem(8): loss random, duplicate, reorder,
//! delay jitter).
//!
//! Differs from the source:
//! - Jitter never reorders: a packet arrives no earlier than the one before it. netem's does reorder.
//! - `reorder` holds the chosen packet back by a fixed time and so lets others overtake; netem lets the chosen
//!   packet skip the delay instead.

use crate::rng::Stream;
use crate::scenario::{ScenarioError, WireSpec};
use crate::time::{Duration, Time};

/// What becomes of a packet that has left the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passage {
    /// It never arrives.
    Lost,
    /// It arrives then, after all that left before it and were not held back.
    InOrder(Time),
    /// It arrives then, and others may overtake it.
    HeldBack(Time),
}

/// A wire's impairments with their random streams.
#[derive(Clone, Debug)]
pub struct Wire {
    loss: f64,
    duplicate: f64,
    reorder: f64,
    reorder_delay: Duration,
    jitter: Duration,
    loss_stream: Stream,
    duplicate_stream: Stream,
    reorder_stream: Stream,
    jitter_stream: Stream,
    /// The latest arrival of a packet that was not held back.
    last: Time,
}

impl Wire {
    /// The impairments `spec` asks for, found at `field` (such as `links[0].wire`); `None` if it asks for none.
    /// `name` is the link's, from which the streams take theirs.
    pub fn build(spec: &WireSpec, field: &str, name: &str, seed: u64) -> Result<Option<Self>, ScenarioError> {
        let refuse = |what: &str, value: String, problem: &str, fix: &str| ScenarioError {
            field: format!("{field}.{what}"),
            value,
            problem: problem.into(),
            fix: fix.into(),
        };
        for (what, p) in [("loss", spec.loss), ("duplicate", spec.duplicate), ("reorder", spec.reorder)] {
            // NaN is in no range.
            if !(0.0..=1.0).contains(&p) {
                return Err(refuse(what, p.to_string(), "a probability lies in 0 to 1", "Give 0 to 1"));
            }
        }
        if spec.reorder > 0.0 && spec.reorder_delay_ps == 0 {
            return Err(refuse(
                "reorder_delay_ps",
                "0".into(),
                "packets are held back for no time, so nothing is reordered",
                "Give the time a reordered packet is held back, or set reorder to 0",
            ));
        }
        for (what, ps) in [("reorder_delay_ps", spec.reorder_delay_ps), ("jitter_ps", spec.jitter_ps)] {
            if ps > crate::link::LONGEST_DELAY.as_ps() {
                return Err(refuse(what, ps.to_string(), "longer than a day", "Give at most one day"));
            }
        }
        if *spec == (WireSpec { reorder_delay_ps: spec.reorder_delay_ps, ..WireSpec::default() }) {
            return Ok(None);
        }
        let stream = |what: &str| Stream::named(seed, &format!("link/{name}/wire/{what}"));
        Ok(Some(Wire {
            loss: spec.loss,
            duplicate: spec.duplicate,
            reorder: spec.reorder,
            reorder_delay: Duration::from_ps(spec.reorder_delay_ps),
            jitter: Duration::from_ps(spec.jitter_ps),
            loss_stream: stream("loss"),
            duplicate_stream: stream("duplicate"),
            reorder_stream: stream("reorder"),
            jitter_stream: stream("jitter"),
            last: Time::ZERO,
        }))
    }

    /// May a packet overtake another?
    pub fn is_reordering(&self) -> bool {
        self.reorder > 0.0
    }

    /// The passage of the next packet, which would arrive at `due` on a plain wire.
    pub fn pass(&mut self, due: Time) -> Passage {
        // Every stream moves on by one packet, lost or not: the fates of later packets stay independent.
        let is_lost = self.loss > 0.0 && self.loss_stream.chance(self.loss);
        let is_held = self.reorder > 0.0 && self.reorder_stream.chance(self.reorder);
        let due = due + self.jitter_stream.duration_up_to(self.jitter);
        if is_lost {
            return Passage::Lost;
        }
        if is_held {
            return Passage::HeldBack(due + self.reorder_delay);
        }
        self.last = due.max(self.last);
        Passage::InOrder(self.last)
    }

    /// Is the packet now arriving followed by a copy of itself?
    pub fn is_duplicated(&mut self) -> bool {
        self.duplicate > 0.0 && self.duplicate_stream.chance(self.duplicate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(spec: WireSpec) -> Wire {
        Wire::build(&spec, "links[0].wire", "down", 1).unwrap().expect("it impairs")
    }

    #[test]
    fn no_impairment_is_no_wire() {
        assert!(Wire::build(&WireSpec::default(), "w", "down", 1).unwrap().is_none());
    }

    #[test]
    fn loss_comes_at_its_rate() {
        let mut wire = wire(WireSpec { loss: 0.1, ..WireSpec::default() });
        let n = 100_000;
        let lost = (0..n).filter(|_| wire.pass(Time::ZERO) == Passage::Lost).count();
        // Standard deviation √(n p q) = 95; four of them.
        assert!(lost.abs_diff(10_000) < 380, "{lost}");
    }

    #[test]
    fn one_impairment_leaves_the_others_choices_alone() {
        let mut lossy = wire(WireSpec { loss: 0.3, ..WireSpec::default() });
        let mut both = wire(WireSpec {
            loss: 0.3,
            jitter_ps: 1000,
            duplicate: 0.5,
            reorder: 0.0,
            ..WireSpec::default()
        });
        for i in 0..1000 {
            let due = Time::from_us(i);
            assert_eq!(lossy.pass(due) == Passage::Lost, both.pass(due) == Passage::Lost);
            both.is_duplicated();
        }
    }

    #[test]
    fn jitter_never_reorders_and_stays_within_its_bound() {
        let jitter = Duration::from_us(100);
        let mut wire = wire(WireSpec { jitter_ps: jitter.as_ps(), ..WireSpec::default() });
        let (mut last, mut largest) = (Time::ZERO, Duration::ZERO);
        for i in 0..10_000 {
            let plain = Time::from_us(7 * i);
            let Passage::InOrder(due) = wire.pass(plain) else { panic!("neither lost nor held") };
            assert!(due >= last && due >= plain && due <= plain + jitter);
            largest = largest.max(due.since(plain));
            last = due;
        }
        assert!(largest > Duration::from_us(95));
    }

    #[test]
    fn impossible_impairments_are_refused_by_field() {
        let refused = |spec: WireSpec| Wire::build(&spec, "links[3].wire", "down", 1).unwrap_err().field;
        let plain = WireSpec::default;
        assert_eq!(refused(WireSpec { loss: 1.5, ..plain() }), "links[3].wire.loss");
        assert_eq!(refused(WireSpec { loss: f64::NAN, ..plain() }), "links[3].wire.loss");
        assert_eq!(refused(WireSpec { duplicate: -0.1, ..plain() }), "links[3].wire.duplicate");
        assert_eq!(refused(WireSpec { reorder: 0.1, ..plain() }), "links[3].wire.reorder_delay_ps");
        assert_eq!(refused(WireSpec { jitter_ps: u64::MAX, ..plain() }), "links[3].wire.jitter_ps");
    }
}
