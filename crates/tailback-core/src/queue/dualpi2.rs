//! DualPI2: a low-latency queue and a classic queue under one controller. Its coupling makes both kinds of flow share
//! the link evenly.

use super::parts::{Line, Period};
use super::registry::{Registered, Surroundings, Traits};
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::packet::{Ecn, Packet};
use crate::params::{Card, Checked, ParamSpec, ms, s, us};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Time};

const CARD: Card = Card {
    name: "dualpi2",
    title: "DualPI2",
    law: "every `t_update`: p' += α(q − target) + β(q − q_old), q the longer of the two queues' delays. \
          Classic packets are marked or dropped with p'², low-latency ones marked with max(k·p', 1 if their \
          sojourn exceeds `step`)",
    source: "RFC 9332 appendix A; scheduler, step and guards of Linux 7.3 sch_dualpi2",
    differs: &[
        "Scheduling is weighted by bytes, without the Ethernet header that Linux counts: the classic queue gets its \
              `c_share` while both wait. What the balance was when a queue ran empty stays until both are empty",
    ],
    live_twin: Some("linux:dualpi2"),
    params: &[
        ParamSpec::time("target", ms(15), (us(1), s(10)), "Delay of the classic queue to hold."),
        ParamSpec::time("t_update", ms(16), (us(100), s(10)), "Time between updates of p'."),
        ParamSpec::number("alpha", "1/s", 0.16, (0.0, 100.0), "Weight of the distance to the target (Hz)."),
        ParamSpec::number("beta", "1/s", 3.2, (0.0, 100.0), "Weight of the change of delay (Hz)."),
        ParamSpec::number("coupling", "", 2.0, (0.0, 100.0), "k: L4S marks with k p'."),
        ParamSpec::time("step", ms(1), (ms(0), s(10)), "L4S packets that waited longer are marked."),
        ParamSpec::whole("c_share", "%", 10, (1, 99), "Share of the classic queue while both wait."),
        ParamSpec::whole("limit_packets", "packets", 10_000, (1, 1 << 31), "Most packets held in both."),
        ParamSpec::size("mtu", 1500, (1, 65_536), "No drops while less than two of these are queued."),
    ],
};

/// DualPI2.
#[derive(Clone, Debug)]
pub struct DualPi2 {
    /// The low-latency (L4S) queue.
    fast: Line,
    classic: Line,
    law: Law,
    /// p', the base probability.
    probability: f64,
    delay_old: Duration,
    /// Weighted bytes owed to the classic queue; above zero it goes first.
    owed: i64,
    updates: Period,
    random: Stream,
}

#[derive(Clone, Debug)]
struct Law {
    target: Duration,
    step: Duration,
    alpha: f64,
    beta: f64,
    coupling: f64,
    /// Share of the classic queue in percent.
    c_share: i64,
    limit: u32,
    mtu: Bytes,
}

/// Result of the decision for the packet at the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Pass,
    Mark,
    Drop,
}

impl Registered for DualPi2 {
    const CARD: Card = CARD;
    const TRAITS: Traits = Traits { kernels: &["dualpi2"], ..Traits::NONE };

    fn new(given: &Checked<'_>, around: &Surroundings<'_>) -> Result<Self, ScenarioError> {
        let law = Law {
            target: given.time("target"),
            step: given.time("step"),
            alpha: given.number("alpha"),
            beta: given.number("beta"),
            coupling: given.number("coupling"),
            c_share: given.whole("c_share") as i64,
            limit: given.whole("limit_packets") as u32,
            mtu: given.whole("mtu"),
        };
        Ok(DualPi2 {
            fast: Line::default(),
            classic: Line::default(),
            probability: 0.0,
            delay_old: Duration::ZERO,
            owed: law.owed_at_start(),
            updates: Period::new(given.time("t_update")),
            random: Stream::named(around.seed, "dualpi2"),
            law,
        })
    }
}

impl QueueDiscipline for DualPi2 {
    fn enqueue(&mut self, packet: Packet, now: Time, fate: &mut Fate) {
        self.catch_up(now);
        if self.fast.len() + self.classic.len() >= self.law.limit {
            fate.drop(packet, DropReason::QueueFull);
            return;
        }
        match packet.ecn {
            Ecn::Ect1 | Ecn::Ce => self.fast.push(packet),
            Ecn::Ect0 | Ecn::NotEct => self.classic.push(packet),
        }
    }

    fn dequeue(&mut self, now: Time, fate: &mut Fate) -> Option<Packet> {
        self.catch_up(now);
        loop {
            let is_contested = !self.fast.is_empty() && !self.classic.is_empty();
            let is_fast = !self.fast.is_empty() && (self.classic.is_empty() || self.owed <= 0);
            let line = if is_fast { &mut self.fast } else { &mut self.classic };
            let Some(mut packet) = line.pop() else {
                self.owed = self.law.owed_at_start();
                return None;
            };
            // The check counts the bytes behind the packet (`dequeue_packet` precedes `must_drop`).
            let is_short = self.fast.bytes() + self.classic.bytes() < 2 * self.law.mtu;
            let verdict = if is_fast {
                self.judge_fast(&packet, now, is_short)
            } else {
                self.judge_classic(&packet, is_short)
            };
            match verdict {
                Verdict::Drop => {
                    fate.drop(packet, DropReason::Aqm);
                    continue;
                }
                // An upstream queue has already marked it.
                Verdict::Mark if packet.ecn != Ecn::Ce => {
                    packet.ecn = Ecn::Ce;
                    fate.mark(packet);
                }
                Verdict::Mark | Verdict::Pass => (),
            }
            // A queue that sends alone takes no share from the other.
            if is_contested {
                let weight = if is_fast { self.law.c_share } else { self.law.c_share - 100 };
                self.owed += weight * i64::from(packet.bytes);
            }
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        let (fast, classic) = (self.fast.backlog(), self.classic.backlog());
        Backlog { packets: fast.packets + classic.packets, bytes: fast.bytes + classic.bytes }
    }
}

impl DualPi2 {
    fn judge_classic(&mut self, packet: &Packet, is_short: bool) -> Verdict {
        // Two hits with probability p' have probability p'².
        if is_short || !self.is_squared_hit() {
            Verdict::Pass
        } else if packet.ecn.is_capable() && !self.is_overloaded() {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }

    fn judge_fast(&mut self, packet: &Packet, now: Time, is_short: bool) -> Verdict {
        if self.is_overloaded() && !is_short {
            // Marking every packet no longer limits the flows, so the fast queue drops like the classic one. RFC 9332
            // section 2.5.
            if self.is_squared_hit() {
                return Verdict::Drop;
            }
            return Verdict::Mark;
        }
        let is_coupled = !is_short && self.random.chance(self.law.coupling * self.probability);
        // The step applies even to a lone packet: min_qlen_step is 0 in Linux.
        let is_late = now.since(packet.enqueued) > self.law.step;
        if is_coupled || is_late { Verdict::Mark } else { Verdict::Pass }
    }

    fn is_squared_hit(&mut self) -> bool {
        self.random.chance(self.probability) && self.random.chance(self.probability)
    }

    fn is_overloaded(&self) -> bool {
        self.law.coupling * self.probability > 1.0
    }

    #[inline]
    fn catch_up(&mut self, now: Time) {
        while let Some(at) = self.updates.due(now) {
            let delay = self.fast.head_sojourn(at).max(self.classic.head_sojourn(at));
            self.probability = self.law.next_probability(self.probability, delay, self.delay_old);
            self.delay_old = delay;
            if self.probability == 0.0 && self.fast.is_empty() && self.classic.is_empty() {
                self.delay_old = Duration::ZERO;
                self.updates.skip(now);
            }
        }
    }
}

impl Law {
    fn next_probability(&self, p: f64, delay: Duration, delay_old: Duration) -> f64 {
        let (q, q_old) = (delay.as_secs_f64(), delay_old.as_secs_f64());
        let step = self.alpha * (q - self.target.as_secs_f64()) + self.beta * (q - q_old);
        (p + step).clamp(0.0, 1.0)
    }

    /// Initial balance: the fast queue goes first, by the weight of one full packet.
    fn owed_at_start(&self) -> i64 {
        (2 * self.c_share - 100) * self.mtu as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FlowId;
    use crate::scenario::Params;

    fn dualpi2() -> DualPi2 {
        let params = Params::new();
        let given = Checked::new(&DualPi2::CARD, &params, "q").unwrap();
        DualPi2::new(&given, &Surroundings::of_seed(1)).unwrap()
    }

    fn packet(ecn: Ecn, enqueued: Time) -> Packet {
        Packet {
            slot: 0,
            flow: FlowId(0),
            bytes: 1500,
            ecn,
            hop: 0,
            is_reverse: false,
            conversation: 0,
            enqueued,
        }
    }

    #[test]
    fn one_update_is_the_controllers_sum() {
        let law = dualpi2().law;
        let ms = Duration::from_ms;
        // 0.16 · 10 ms + 3.2 · 5 ms = 0.0176.
        assert!((law.next_probability(0.1, ms(25), ms(20)) - 0.1176).abs() < 1e-12);
        assert_eq!(law.next_probability(0.0, ms(0), ms(0)), 0.0);
        assert_eq!(law.next_probability(1.0, ms(500), ms(0)), 1.0);
    }

    #[test]
    fn classic_gets_the_square_and_l4s_the_coupled_probability() {
        let mut queue = dualpi2();
        queue.probability = 0.1;
        let n = 100_000;
        let (mut classic, mut fast) = (0, 0);
        queue.fast.push(packet(Ecn::Ect1, Time::ZERO));
        for _ in 0..n {
            classic +=
                u32::from(queue.judge_classic(&packet(Ecn::NotEct, Time::ZERO), false) == Verdict::Drop);
            fast += u32::from(
                queue.judge_fast(&packet(Ecn::Ect1, Time::ZERO), Time::ZERO, false) == Verdict::Mark,
            );
        }
        // 1 % and 20 %; standard deviations 31 and 126, four of each.
        assert!(classic.abs_diff(1000) < 126, "{classic}");
        assert!(fast.abs_diff(20_000) < 506, "{fast}");
    }

    #[test]
    fn late_l4s_packets_are_marked_at_the_step() {
        let mut queue = dualpi2();
        let judge = |queue: &mut DualPi2, us| {
            queue.judge_fast(&packet(Ecn::Ect1, Time::ZERO), Time::from_us(us), true)
        };
        assert_eq!(judge(&mut queue, 1000), Verdict::Pass);
        assert_eq!(judge(&mut queue, 1001), Verdict::Mark);
    }

    #[test]
    fn the_guard_counts_what_is_left_behind_the_packet() {
        for (held, marks) in [(2, 0), (3, 1)] {
            let (mut queue, mut fate) = (dualpi2(), Fate::default());
            // Every classic packet that is judged is marked.
            (queue.probability, queue.law.coupling) = (1.0, 0.0);
            for _ in 0..held {
                queue.enqueue(packet(Ecn::Ect0, Time::ZERO), Time::ZERO, &mut fate);
            }
            queue.dequeue(Time::ZERO, &mut fate);
            assert_eq!(fate.marks.len(), marks, "{held}");
        }
    }

    #[test]
    fn a_queue_that_is_alone_piles_up_no_credit() {
        let (mut queue, mut fate) = (dualpi2(), Fate::default());
        let start = queue.owed;
        for _ in 0..10 {
            queue.enqueue(packet(Ecn::NotEct, Time::ZERO), Time::ZERO, &mut fate);
        }
        (0..5).for_each(|_| assert!(queue.dequeue(Time::ZERO, &mut fate).is_some()));
        assert_eq!(queue.owed, start);
        // From then on both wait: one classic packet in ten.
        (0..40).for_each(|_| queue.enqueue(packet(Ecn::Ect1, Time::ZERO), Time::ZERO, &mut fate));
        let left = (0..40).map(|_| queue.dequeue(Time::ZERO, &mut fate).unwrap());
        assert_eq!(left.filter(|packet| packet.ecn == Ecn::NotEct).count(), 4);
    }

    #[test]
    fn overload_drops_in_both_queues() {
        let mut queue = dualpi2();
        queue.probability = 1.0;
        assert_eq!(queue.judge_fast(&packet(Ecn::Ect1, Time::ZERO), Time::ZERO, false), Verdict::Drop);
        assert_eq!(queue.judge_classic(&packet(Ecn::Ect0, Time::ZERO), false), Verdict::Drop);
    }

    #[test]
    fn classic_keeps_its_share_while_both_wait() {
        let (mut queue, mut fate) = (dualpi2(), Fate::default());
        let (mut fast, mut classic) = (0, 0);
        for _ in 0..10_000 {
            while queue.fast.len() < 3 {
                queue.enqueue(packet(Ecn::Ect1, Time::ZERO), Time::ZERO, &mut fate);
            }
            while queue.classic.len() < 3 {
                queue.enqueue(packet(Ecn::NotEct, Time::ZERO), Time::ZERO, &mut fate);
            }
            match queue.dequeue(Time::ZERO, &mut fate).unwrap().ecn {
                Ecn::NotEct => classic += 1,
                _ => fast += 1,
            }
        }
        assert_eq!((fast + classic, classic / 10), (10_000, 100), "{fast} fast, {classic} classic");
    }
}
