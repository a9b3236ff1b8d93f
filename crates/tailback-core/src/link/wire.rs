//! Wire impairments beyond delay: loss, damage, duplication, holding packets back, jitter.
//!
//! Each impairment draws from its own named stream, once per packet, so enabling one does not change the others'
//! choices. Loss, jitter and holding back are decided when the last bit leaves the sender; duplication when the packet
//! arrives.
//!
//! Losses are independent (`loss`), periodic (`loss_every`: one in N packets), from bit errors (`bit_error`: a packet
//! of L bytes survives with probability (1 − e)^8L), or in bursts. For bursts, a two-state chain moves once per packet,
//! from good to bad with probability p and from bad to good with r. It loses the packet with the probability of its new
//! state. A fraction p/(p + r) of packets is in the bad state, in bursts of mean length 1/r.
//!
//! A damaged packet (`corrupt`) continues like any other and loads every later link. Its receiver drops it, because the
//! checksum fails.
//!
//! Source: the independent-probability models of Linux netem (tc-netem(8): loss random, corrupt, duplicate, reorder, delay
//! jitter, and loss gemodel, whose p, r, 1-h, 1-k are burst_start, burst_end, burst_loss, gap_loss). Gilbert, "Capacity
//! of a burst-noise channel", BSTJ 39 (1960); Elliott, BSTJ 42 (1963).
//!
//! Differs from the source:
//! - Jitter never reorders: a packet arrives no earlier than the one before it. netem's does reorder.
//! - `reorder` holds the chosen packet back for a fixed time and so lets others overtake; in netem the chosen packet
//!   skips the delay instead. With `reorder_packets` it continues once that many packets have overtaken it, which is
//!   its reordering extent (RFC 4737 section 4.2.1), however close together the others come.

use super::netem;
use super::signals::Signals;
use crate::math;
use crate::rng::{Odds, Stream};
use crate::scenario::{ScenarioError, WireSpec};
use crate::time::{Duration, Time};

/// Fate of a packet that has left the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passage {
    /// It never arrives.
    Lost,
    /// It arrives at this time, after all earlier packets that were not held back.
    InOrder(Time),
    /// It arrives at this time, and others may overtake it.
    HeldBack(Time),
}

/// The Gilbert-Elliott chain.
#[derive(Clone, Debug)]
struct Burst {
    start: f64,
    end: f64,
    loss: f64,
    gap_loss: f64,
    is_bad: bool,
    /// The first stream moves the chain, the second loses packets.
    state_stream: Stream,
    loss_stream: Stream,
}

impl Burst {
    fn loses_next(&mut self) -> bool {
        let change = if self.is_bad { self.end } else { self.start };
        self.is_bad ^= self.state_stream.chance(change);
        let loss = if self.is_bad { self.loss } else { self.gap_loss };
        self.loss_stream.chance(loss)
    }
}

/// The impairments of a wire, with their random streams.
#[derive(Clone, Debug)]
pub struct Wire {
    loss: f64,
    loss_odds: Odds,
    /// Whether it also loses packets in one of the following ways.
    loses_otherwise: bool,
    /// Period of periodic loss, and number of packets before the next one.
    loss_every: u32,
    before_loss: u32,
    corrupt: f64,
    duplicate: f64,
    reorder: f64,
    reorder_delay: Duration,
    reorder_packets: u32,
    /// Packets held back: slot, number of packets that may still overtake, and latest arrival.
    held: Vec<(u32, u32, Time)>,
    jitter: Duration,
    pub signals: Option<Box<Signals>>,
    bit_error: f64,
    burst: Option<Burst>,
    bit_stream: Stream,
    loss_stream: Stream,
    corrupt_stream: Stream,
    duplicate_stream: Stream,
    reorder_stream: Stream,
    jitter_stream: Stream,
    /// Latest arrival of a packet that was not held back.
    last: Time,
}

fn refuse(field: &str, what: &str, value: impl ToString, problem: &str, fix: &str) -> ScenarioError {
    ScenarioError {
        field: format!("{field}.{what}"),
        value: value.to_string(),
        problem: problem.into(),
        fix: fix.into(),
    }
}

/// An error if a value of `spec`, at `field`, is invalid.
fn check(spec: &WireSpec, field: &str) -> Result<(), ScenarioError> {
    for (what, p) in [
        ("loss", spec.loss),
        ("corrupt", spec.corrupt),
        ("duplicate", spec.duplicate),
        ("reorder", spec.reorder),
        ("bit_error", spec.bit_error),
        ("burst_start", spec.burst_start),
        ("burst_end", spec.burst_end),
        ("burst_loss", spec.burst_loss),
        ("gap_loss", spec.gap_loss),
    ] {
        // NaN is in no range.
        if !(0.0..=1.0).contains(&p) {
            return Err(refuse(field, what, p, "a probability lies in 0 to 1", "Give 0 to 1"));
        }
    }
    check_reordering(spec, field)?;
    check_bursts(spec, field)?;
    check_signals(spec, field)?;
    for (what, ps) in [
        ("reorder_delay_ps", spec.reorder_delay_ps),
        ("jitter_ps", spec.jitter_ps),
        ("ack_hold_ps", spec.ack_hold_ps),
    ] {
        if ps > super::api::LONGEST_DELAY.as_ps() {
            return Err(refuse(field, what, ps, "longer than a day", "Give at most one day"));
        }
    }
    Ok(())
}

fn check_signals(spec: &WireSpec, field: &str) -> Result<(), ScenarioError> {
    if spec.bleach_before_queue && spec.bleach.is_none() {
        return Err(refuse(
            field,
            "bleach_before_queue",
            true,
            "nothing is bleached",
            "Give bleach, one of \"ce\", \"ect1\" and \"all\", or leave this out",
        ));
    }
    if let Some(jitter) = &spec.netem_jitter {
        if !(0.0..=1.0).contains(&jitter.correlation) {
            let fix = "Give 0 to 1";
            return Err(refuse(
                field,
                "netem_jitter.correlation",
                jitter.correlation,
                "a share lies in 0 to 1",
                fix,
            ));
        }
        if !(1000..=netem::LARGEST.as_ps()).contains(&jitter.jitter_ps) {
            let fix = "Give 1 ns to 2.147 s";
            return Err(refuse(
                field,
                "netem_jitter.jitter_ps",
                jitter.jitter_ps,
                "netem has no such jitter",
                fix,
            ));
        }
        if spec.jitter_ps > 0 || spec.reorder > 0.0 {
            return Err(refuse(
                field,
                "netem_jitter",
                "a jitter",
                "it draws each packet's delay and so excludes jitter, which keeps order, and reorder",
                "Give one of jitter, reorder and netem_jitter",
            ));
        }
    }
    if let Some(every) = spec.ack_every {
        if every < 2 {
            let problem = "every acknowledgement would go on by itself";
            return Err(refuse(field, "ack_every", every, problem, "Give 2 or more, or leave it out"));
        }
        if spec.ack_hold_ps == 0 {
            return Err(refuse(
                field,
                "ack_every",
                every,
                "the last acknowledgements of a transfer would never go on",
                "Give ack_hold, how long one waits for the others, such as \"5ms\"",
            ));
        }
    }
    Ok(())
}

fn check_reordering(spec: &WireSpec, field: &str) -> Result<(), ScenarioError> {
    if spec.reorder > 0.0 && spec.reorder_delay_ps == 0 {
        return Err(refuse(
            field,
            "reorder_delay_ps",
            0,
            "packets are held back for no time, so nothing is reordered",
            "Give the time a reordered packet is held back, or set reorder to 0",
        ));
    }
    if spec.reorder == 0.0 && spec.reorder_packets > 0 {
        return Err(refuse(
            field,
            "reorder_packets",
            spec.reorder_packets,
            "no packet is held back, so none can be overtaken",
            "Give reorder, the probability that a packet is, or leave this out",
        ));
    }
    Ok(())
}

fn check_bursts(spec: &WireSpec, field: &str) -> Result<(), ScenarioError> {
    if spec.burst_start == 0.0 {
        for (what, p) in
            [("burst_end", spec.burst_end), ("burst_loss", spec.burst_loss), ("gap_loss", spec.gap_loss)]
        {
            if p > 0.0 {
                return Err(refuse(
                    field,
                    what,
                    p,
                    "bursts of loss never start",
                    "Give burst_start, the probability that a burst starts at a packet; for even loss give loss",
                ));
            }
        }
    } else if spec.burst_end == 0.0 {
        return Err(refuse(
            field,
            "burst_end",
            0,
            "a burst of loss would never end",
            "Give the probability that it ends at a packet: one over its mean length",
        ));
    }
    Ok(())
}

impl Wire {
    /// Builds the impairments of `spec` at `field` (such as `links[0].wire`); `None` if it has none. The streams' names
    /// derive from the link's `name`.
    pub fn build(spec: &WireSpec, field: &str, name: &str, seed: u64) -> Result<Option<Self>, ScenarioError> {
        check(spec, field)?;
        // Bleaching before the queue belongs to the gate.
        let bleach = spec.bleach.filter(|_| !spec.bleach_before_queue);
        let behind = WireSpec { bleach, bleach_before_queue: false, ..spec.clone() };
        if behind == (WireSpec { reorder_delay_ps: spec.reorder_delay_ps, ..WireSpec::default() }) {
            return Ok(None);
        }
        let stream = |what: &str| Stream::named(seed, &format!("link/{name}/wire/{what}"));
        Ok(Some(Wire {
            loss: spec.loss,
            loss_odds: Odds::of(spec.loss),
            loses_otherwise: spec.loss_every > 0 || spec.bit_error > 0.0 || spec.burst_start > 0.0,
            loss_every: spec.loss_every,
            // The first loss is random, or every seed would have the same losses.
            before_loss: match spec.loss_every {
                0 => 0,
                every => stream("loss-every").below(u64::from(every)) as u32,
            },
            corrupt: spec.corrupt,
            duplicate: spec.duplicate,
            reorder: spec.reorder,
            reorder_delay: Duration::from_ps(spec.reorder_delay_ps),
            reorder_packets: spec.reorder_packets,
            held: Vec::new(),
            jitter: Duration::from_ps(spec.jitter_ps),
            signals: Signals::build(spec, stream).map(Box::new),
            bit_error: spec.bit_error,
            burst: (spec.burst_start > 0.0).then(|| Burst {
                start: spec.burst_start,
                end: spec.burst_end,
                loss: spec.burst_loss,
                gap_loss: spec.gap_loss,
                is_bad: false,
                state_stream: stream("burst"),
                loss_stream: stream("burst-loss"),
            }),
            bit_stream: stream("bits"),
            loss_stream: stream("loss"),
            corrupt_stream: stream("corrupt"),
            duplicate_stream: stream("duplicate"),
            reorder_stream: stream("reorder"),
            jitter_stream: stream("jitter"),
            last: Time::ZERO,
        }))
    }

    /// Whether it delays packets randomly.
    pub fn has_jitter(&self) -> bool {
        !self.jitter.is_zero() || self.signals.as_ref().is_some_and(|signals| signals.reorder())
    }

    /// Whether a packet may arrive before the link's delay is over.
    pub fn may_be_early(&self) -> bool {
        self.signals.as_ref().is_some_and(|signals| signals.jitter.is_some())
    }

    /// Whether packets may overtake each other.
    pub fn is_reordering(&self) -> bool {
        self.reorder > 0.0 || self.signals.as_ref().is_some_and(|signals| signals.reorder())
    }

    /// Whether loss is its only effect: other packets arrive in order, each after the link's delay.
    pub fn only_loses(&self) -> bool {
        !self.is_reordering() && !self.has_jitter() && !self.may_damage() && self.signals.is_none()
    }

    /// Fate of the next packet, of `bytes`, which would arrive at `due` on a plain wire.
    pub fn pass(&mut self, due: Time, bytes: u32) -> Passage {
        // Every stream draws once per packet, lost or not, so that the fates of later packets stay independent.
        let is_lost = self.loses_next(bytes);
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

    /// Whether the next packet is lost: all that [`Self::pass`] decides on a wire without jitter and holding back.
    #[inline]
    pub fn loses_next(&mut self, bytes: u32) -> bool {
        let is_lost = self.loss > 0.0 && self.loss_stream.hits(self.loss_odds);
        if self.loses_otherwise { self.loses_next_otherwise(bytes) | is_lost } else { is_lost }
    }

    #[inline(never)]
    fn loses_next_otherwise(&mut self, bytes: u32) -> bool {
        let mut is_lost = false;
        if self.loss_every > 0 {
            is_lost |= self.before_loss == 0;
            self.before_loss = self.before_loss.checked_sub(1).unwrap_or(self.loss_every - 1);
        }
        if self.bit_error > 0.0 {
            is_lost |= self.bit_stream.chance(corrupted(self.bit_error, bytes));
        }
        if let Some(burst) = &mut self.burst {
            is_lost |= burst.loses_next();
        }
        is_lost
    }

    /// Records that the packet in `slot` is held back until `latest`.
    pub fn hold(&mut self, slot: u32, latest: Time) {
        if self.reorder_packets > 0 {
            self.held.push((slot, self.reorder_packets, latest));
        }
    }

    /// A packet that arrives at `due` was not held back: it overtakes held packets that arrive later.
    pub fn overtake(&mut self, due: Time) {
        self.held.retain(|&(.., latest)| latest > due);
        for (_, left, _) in &mut self.held {
            *left -= 1;
        }
    }

    /// Slot of a held packet that has been overtaken often enough, if any.
    pub fn released(&mut self) -> Option<u32> {
        let place = self.held.iter().position(|&(_, left, _)| left == 0)?;
        Some(self.held.remove(place).0)
    }

    /// Whether packets may arrive damaged.
    pub fn may_damage(&self) -> bool {
        self.corrupt > 0.0
    }

    /// Whether the packet that has just left is damaged. Also drawn for lost packets, so that losses do not change
    /// other fates.
    pub fn damages_next(&mut self) -> bool {
        self.corrupt > 0.0 && self.corrupt_stream.chance(self.corrupt)
    }

    /// Whether packets may be duplicated.
    pub fn may_duplicate(&self) -> bool {
        self.duplicate > 0.0
    }

    /// Whether the packet now arriving is duplicated.
    pub fn is_duplicated(&mut self) -> bool {
        self.duplicate > 0.0 && self.duplicate_stream.chance(self.duplicate)
    }
}

/// Probability of at least one bit error in `bytes`.
fn corrupted(bit_error: f64, bytes: u32) -> f64 {
    if bit_error >= 1.0 {
        return 1.0;
    }
    1.0 - math::exp(8.0 * f64::from(bytes) * math::ln(1.0 - bit_error))
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
        let lost = (0..n).filter(|_| wire.pass(Time::ZERO, 1500) == Passage::Lost).count();
        // Standard deviation √(n p q) = 95; four of them.
        assert!(lost.abs_diff(10_000) < 380, "{lost}");
    }

    #[test]
    fn one_packet_in_so_many_is_lost_and_the_seed_says_which_is_the_first() {
        let spec = WireSpec { loss_every: 100, ..WireSpec::default() };
        let firsts: Vec<usize> = (1..=3)
            .map(|seed| {
                let mut wire = Wire::build(&spec, "w", "down", seed).unwrap().expect("it impairs");
                let lost: Vec<usize> =
                    (0..1000).filter(|_| wire.pass(Time::ZERO, 1500) == Passage::Lost).collect();
                assert_eq!(lost.len(), 10);
                assert!(lost[0] < 100 && lost.windows(2).all(|pair| pair[1] - pair[0] == 100));
                lost[0]
            })
            .collect();
        assert!(firsts[0] != firsts[1] || firsts[1] != firsts[2], "{firsts:?}");
    }

    #[test]
    fn bits_go_wrong_in_proportion_to_length() {
        let n = 100_000;
        let lost = |bytes| {
            let mut wire = wire(WireSpec { bit_error: 1e-6, ..WireSpec::default() });
            (0..n).filter(|_| wire.pass(Time::ZERO, bytes) == Passage::Lost).count() as f64 / f64::from(n)
        };
        // 1 − (1 − 1e-6)^12000 = 0.011928; standard deviation √(p q / n) = 0.00034. 40 bytes: 0.00031995, 0.000057.
        assert!((lost(1500) - 0.011_928).abs() < 4.0 * 0.000_34);
        assert!((lost(40) - 0.000_319_9).abs() < 4.0 * 0.000_057);
    }

    #[test]
    fn bursts_have_their_share_and_length() {
        let spec = WireSpec { burst_start: 0.01, burst_end: 0.25, burst_loss: 1.0, ..WireSpec::default() };
        let mut wire = wire(spec);
        let n = 400_000;
        let fates: Vec<bool> = (0..n).map(|_| wire.pass(Time::ZERO, 1500) == Passage::Lost).collect();
        let lost = fates.iter().filter(|lost| **lost).count() as f64;
        let bursts = fates.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        // Share p/(p + r) = 0.03846; the chain forgets by 1 − p − r = 0.74 a packet, so n packets count as
        // n·0.26/1.74: standard deviation 0.00079. Mean burst 1/r = 4, of 3846 bursts: √(12/3846) = 0.056.
        assert!((lost / f64::from(n) - 0.038_46).abs() < 4.0 * 0.000_79);
        assert!((lost / bursts - 4.0).abs() < 4.0 * 0.056, "{}", lost / bursts);
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
            assert_eq!(lossy.pass(due, 1500) == Passage::Lost, both.pass(due, 1500) == Passage::Lost);
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
            let Passage::InOrder(due) = wire.pass(plain, 1500) else { panic!("neither lost nor held") };
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
        assert_eq!(refused(WireSpec { bit_error: 2.0, ..plain() }), "links[3].wire.bit_error");
        assert_eq!(refused(WireSpec { gap_loss: 0.1, ..plain() }), "links[3].wire.gap_loss");
        assert_eq!(refused(WireSpec { burst_start: 0.1, ..plain() }), "links[3].wire.burst_end");
        assert_eq!(refused(WireSpec { duplicate: -0.1, ..plain() }), "links[3].wire.duplicate");
        assert_eq!(refused(WireSpec { reorder: 0.1, ..plain() }), "links[3].wire.reorder_delay_ps");
        assert_eq!(refused(WireSpec { reorder_packets: 2, ..plain() }), "links[3].wire.reorder_packets");
        assert_eq!(refused(WireSpec { jitter_ps: u64::MAX, ..plain() }), "links[3].wire.jitter_ps");
    }
}
