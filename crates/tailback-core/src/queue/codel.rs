//! CoDel: drops at the head when the sojourn time has exceeded a target for an interval.
//!
//! On a host, CoDel sits above the network device, whose own queue it neither sees nor controls: up to `device_packets`
//! packets move there as soon as there is room, and leave in order.

use super::parts::Line;
use super::registry::{Registered, Surroundings, Traits};
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::packet::{Ecn, Packet};
use crate::params::{Card, Checked, ParamSpec, ms, s, us};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Time};

const CARD: Card = Card {
    name: "codel",
    title: "CoDel",
    law: "once the sojourn time has been at least `target` for a whole `interval`, drop; the n-th next drop \
          follows interval/√n after the one before, until the sojourn time falls below target",
    source: "RFC 8289 (pseudocode in section 5)",
    differs: &[
        "`variant` linux (Linux 5.10 sch_codel and codel_impl.h): time in units of 1024 ns; 1/√n by one \
              Newton step a drop on a 16-bit fraction, so the spacing lags while n jumps; dropping starts \
              strictly after the interval. Linux 7.3 also drops at most 256 packets a dequeue and at most one a unit \
              of time, which only floods notice",
        "`variant` ns-3.27: as linux, but the limit is in bytes, and CoDel rests while the backlog is below \
              (not up to) `mtu`",
    ],
    live_twin: Some("linux:codel"),
    params: &[
        ParamSpec::choice("variant", &["rfc8289", "linux", "ns-3.27"], "Whose CoDel."),
        ParamSpec::time("target", ms(5), (us(1), s(10)), "Acceptable standing delay."),
        ParamSpec::time("interval", ms(100), (us(10), s(100)), "A worst-case round-trip time."),
        ParamSpec::size(
            "mtu",
            1500,
            (1, 65_536),
            "No drops while no more than this is queued behind the head.",
        ),
        ParamSpec::flag("ecn", false, "Mark ECN-capable packets instead of dropping them."),
        ParamSpec::time("ce_threshold", ms(0), (ms(0), s(10)), "Mark every capable packet above this delay.")
            .depends("off"),
        ParamSpec::whole("limit_packets", "packets", 0, (1, 1 << 31), "Most packets held.")
            .depends("1000; ns-3.27 none"),
        ParamSpec::size("limit_bytes", 0, (1, 1 << 40), "Most bytes held.").depends("none; ns-3.27 1500000"),
        ParamSpec::whole(
            "device_packets",
            "packets",
            0,
            (0, 1 << 20),
            "Queue of the device below, out of CoDel's sight; 100 in ns-3.27.",
        ),
    ],
};

/// Implementation that is modelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// The RFC's pseudocode with a real square root.
    Rfc,
    /// Linux 5.10.
    Linux,
    /// ns-3.27.
    Ns3,
}

/// CoDel's parameters, in the variant's units of time.
#[derive(Clone, Copy, Debug)]
pub struct Law {
    variant: Variant,
    target: u64,
    interval: u64,
    mtu: Bytes,
    marks: bool,
    ce_threshold: u64,
}

/// CoDel's state for one queue.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// When the sojourn time will have exceeded the target for an interval; 0: it is below target.
    first_above: u64,
    drop_next: u64,
    is_dropping: bool,
    count: u32,
    last_count: u32,
    /// 1/√count as a 16-bit fraction, for the variant that computes it so.
    inverse_root: u16,
}

/// The waiting packets.
pub struct Waiting<'a> {
    /// The line to dequeue from.
    pub line: &'a mut Line,
    /// Bytes in other lines that count as backlog; 0 for a queue of its own.
    pub elsewhere: Bytes,
}

impl Waiting<'_> {
    #[inline(always)]
    fn bytes(&self) -> Bytes {
        self.elsewhere + self.line.bytes()
    }
}

impl Law {
    /// Built from parameters `target`, `interval`, `ecn` and `ce_threshold`; never drops at a backlog up to `mtu`.
    pub fn new(variant: Variant, mtu: Bytes, given: &Checked<'_>) -> Self {
        let time = |time: Duration| clock(variant, time.as_ps());
        Law {
            variant,
            target: time(given.time("target")),
            interval: time(given.time("interval")),
            mtu,
            marks: given.flag("ecn"),
            ce_threshold: given.given_time("ce_threshold").map_or(u64::MAX, time),
        }
    }

    /// The same parameters without ECN.
    pub fn without_marks(self) -> Self {
        Law { marks: false, ..self }
    }

    /// Dequeues the next packet, after CoDel's drops and marks.
    #[inline(always)]
    pub fn dequeue(
        &self,
        state: &mut State,
        waiting: Waiting<'_>,
        now: Time,
        fate: &mut Fate,
    ) -> Option<Packet> {
        let clock_now = clock(self.variant, now.as_ps());
        let head = waiting.line.pop();
        let is_high = self.is_high(state, head.as_ref(), waiting.bytes(), clock_now);
        // Fast path for packets without a signal; `act` would give the same result.
        let is_due = is_high && (!state.is_dropping || clock_now >= state.drop_next);
        if !is_due && self.ce_threshold == u64::MAX {
            state.is_dropping &= is_high;
            return head;
        }
        self.act(state, head, is_high, waiting, now, fate)
    }

    /// Drops or marks as due, beginning with `head`, which has left its line; `is_high`: its sojourn time is too long.
    #[inline(never)]
    fn act(
        &self,
        state: &mut State,
        mut head: Option<Packet>,
        is_high: bool,
        waiting: Waiting<'_>,
        now: Time,
        fate: &mut Fate,
    ) -> Option<Packet> {
        let clock_now = clock(self.variant, now.as_ps());
        if state.is_dropping {
            state.is_dropping = is_high;
            while state.is_dropping && clock_now >= state.drop_next {
                state.count = state.count.saturating_add(1);
                state.step_root();
                let packet = head.as_mut().expect("an empty queue is not high");
                if self.mark(packet, fate) {
                    state.drop_next = self.next_drop(state, state.drop_next);
                    break;
                }
                fate.drop(*packet, DropReason::Aqm);
                head = waiting.line.pop();
                state.is_dropping = self.is_high(state, head.as_ref(), waiting.bytes(), clock_now);
                if state.is_dropping {
                    state.drop_next = self.next_drop(state, state.drop_next);
                }
            }
        } else if is_high {
            let packet = head.as_mut().expect("an empty queue is not high");
            if !self.mark(packet, fate) {
                fate.drop(*packet, DropReason::Aqm);
                head = waiting.line.pop();
                self.is_high(state, head.as_ref(), waiting.bytes(), clock_now);
            }
            self.start_dropping(state, clock_now);
        }
        if let Some(packet) = &mut head {
            let is_late = clock_now - clock(self.variant, packet.enqueued.as_ps()) > self.ce_threshold;
            if is_late && packet.ecn != Ecn::Ce && packet.ecn.is_capable() {
                packet.ecn = Ecn::Ce;
                fate.mark(*packet);
            }
        }
        head
    }

    /// Whether the sojourn time has exceeded the target for an interval. `left` bytes remain behind `head`.
    #[inline]
    fn is_high(&self, state: &mut State, head: Option<&Packet>, left: Bytes, now: u64) -> bool {
        let Some(packet) = head else {
            state.first_above = 0;
            return false;
        };
        let sojourn = now - clock(self.variant, packet.enqueued.as_ps());
        // A single remaining packet keeps the link busy and is no standing queue.
        let is_short = if self.variant == Variant::Ns3 { left < self.mtu } else { left <= self.mtu };
        if sojourn < self.target || is_short {
            state.first_above = 0;
            return false;
        }
        if state.first_above == 0 {
            state.first_above = now + self.interval;
            return false;
        }
        match self.variant {
            Variant::Rfc => now >= state.first_above,
            Variant::Linux | Variant::Ns3 => now > state.first_above,
        }
    }

    fn start_dropping(&self, state: &mut State, now: u64) {
        state.is_dropping = true;
        // RFC 8289 section 5.5: soon after the previous episode, resume near the drop rate that worked.
        let drops = state.count.wrapping_sub(state.last_count);
        let is_recent = now.saturating_sub(state.drop_next) < 16 * self.interval;
        if drops > 1 && is_recent {
            state.count = drops;
            state.step_root();
        } else {
            state.count = 1;
            state.inverse_root = u16::MAX;
        }
        state.last_count = state.count;
        state.drop_next = self.next_drop(state, now);
    }

    /// The control law: interval/√count after `from`.
    fn next_drop(&self, state: &State, from: u64) -> u64 {
        match self.variant {
            Variant::Rfc => from + (self.interval as f64 / f64::from(state.count).sqrt()) as u64,
            Variant::Linux | Variant::Ns3 => from + ((self.interval * u64::from(state.inverse_root)) >> 16),
        }
    }

    fn mark(&self, packet: &mut Packet, fate: &mut Fate) -> bool {
        let may_mark = self.marks && packet.ecn.is_capable();
        if may_mark {
            packet.ecn = Ecn::Ce;
            fate.mark(*packet);
        }
        may_mark
    }
}

impl State {
    /// Adds `packets` dropped by overload to the count, so that CoDel resumes from there.
    pub fn count_overload(&mut self, packets: u32) {
        self.count = self.count.saturating_add(packets);
    }

    /// One Newton step towards 1/√count from the last value: x ← x(3 − count·x²)/2, in fractions of 2³².
    fn step_root(&mut self) {
        let x = u64::from(self.inverse_root) << 16;
        let square = (x * x) >> 32;
        // Two bits of headroom keep the product within 64 bits; the last shift restores them.
        let error = ((3u64 << 32).wrapping_sub(u64::from(self.count) * square)) >> 2;
        let next = error.wrapping_mul(x) >> (32 - 2 + 1);
        self.inverse_root = (next >> 16) as u16;
    }
}

/// A time in the variant's units: picoseconds, or 1024 ns as Linux keeps it.
#[inline]
fn clock(variant: Variant, ps: u64) -> u64 {
    match variant {
        Variant::Rfc => ps,
        Variant::Linux | Variant::Ns3 => (ps / 1000) >> 10,
    }
}

/// One queue under CoDel.
#[derive(Clone, Debug)]
pub struct Codel {
    line: Line,
    law: Law,
    state: State,
    limit_packets: u32,
    limit_bytes: Bytes,
    /// Packets passed to the device, and its capacity.
    device: Line,
    device_packets: u32,
}

impl Registered for Codel {
    const CARD: Card = CARD;
    const TRAITS: Traits = Traits { drops_at_head: true, kernels: &["codel"], ..Traits::NONE };

    fn new(given: &Checked<'_>, _around: &Surroundings<'_>) -> Result<Self, ScenarioError> {
        let variant = match given.choice("variant") {
            "linux" => Variant::Linux,
            "ns-3.27" => Variant::Ns3,
            _ => Variant::Rfc,
        };
        let (packets, bytes) = match variant {
            Variant::Ns3 => (u32::MAX, 1_500_000),
            _ => (1000, Bytes::MAX),
        };
        Ok(Codel {
            line: Line::default(),
            law: Law::new(variant, given.whole("mtu"), given),
            state: State::default(),
            limit_packets: given.given_whole("limit_packets").map_or(packets, |n| n as u32),
            limit_bytes: given.given_whole("limit_bytes").unwrap_or(bytes),
            device: Line::default(),
            device_packets: given.whole("device_packets") as u32,
        })
    }
}

impl Codel {
    /// Passes packets to the device while it has room. A full device stops this queue and wakes it when a packet has
    /// left.
    #[inline(never)]
    fn hand_down(&mut self, now: Time, fate: &mut Fate) {
        while self.device.len() < self.device_packets {
            let Some(packet) =
                self.law.dequeue(&mut self.state, Waiting { line: &mut self.line, elsewhere: 0 }, now, fate)
            else {
                return;
            };
            self.device.push(packet);
        }
    }
}

impl QueueDiscipline for Codel {
    #[inline]
    fn enqueue(&mut self, packet: Packet, now: Time, fate: &mut Fate) {
        let fits = self.line.bytes() + Bytes::from(packet.bytes) <= self.limit_bytes;
        if self.line.len() >= self.limit_packets || !fits {
            fate.drop(packet, DropReason::QueueFull);
            return;
        }
        self.line.push(packet);
        if self.device_packets > 0 {
            self.hand_down(now, fate);
        }
    }

    #[inline(always)]
    fn dequeue(&mut self, now: Time, fate: &mut Fate) -> Option<Packet> {
        if self.device_packets == 0 {
            return self.law.dequeue(
                &mut self.state,
                Waiting { line: &mut self.line, elsewhere: 0 },
                now,
                fate,
            );
        }
        let packet = self.device.pop();
        self.hand_down(now, fate);
        packet
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        let (above, below) = (self.line.backlog(), self.device.backlog());
        Backlog { packets: above.packets + below.packets, bytes: above.bytes + below.bytes }
    }

    /// A packet that has not waited, with none behind it, has no standing queue and causes no signal. The state needs
    /// no update: an empty queue is below target, and the next dequeue ends an unfinished episode.
    #[inline]
    fn lets_pass(&self, packet: &Packet) -> bool {
        let fits = self.limit_packets > 0 && Bytes::from(packet.bytes) <= self.limit_bytes;
        self.device_packets == 0 && fits
    }

    /// Dequeuing would only end a dropping episode; the next dequeue does that before it drops anything.
    fn rests_when_empty(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FlowId;
    use crate::scenario::{Params, Value};

    fn codel(variant: &str, ecn: bool) -> Codel {
        let params = Params::from([
            ("variant".to_string(), Value::Name(variant.into())),
            ("ecn".to_string(), Value::Flag(ecn)),
        ]);
        let given = Checked::new(&Codel::CARD, &params, "q").unwrap();
        Codel::new(&given, &Surroundings::of_seed(1)).unwrap()
    }

    /// Dequeue every 0.1 ms packets that have stayed 10 ms; the times of drops and marks, in ms.
    fn interventions(queue: &mut Codel, until_ms: u64) -> Vec<f64> {
        let (mut fate, mut times) = (Fate::default(), Vec::new());
        let start = Time::from_ms(10);
        for step in 0..until_ms * 10 {
            let now = Time::from_us(10_000 + step * 100);
            let enqueued = Time::from_ps(now.as_ps() - Duration::from_ms(10).as_ps());
            while queue.line.len() < 4 {
                let packet = Packet {
                    slot: 0,
                    flow: FlowId(0),
                    bytes: 1500,
                    ecn: Ecn::Ect0,
                    hop: 0,
                    is_reverse: false,
                    conversation: 0,
                    enqueued,
                };
                queue.enqueue(packet, enqueued, &mut fate);
            }
            queue.dequeue(now, &mut fate).expect("never empty");
            let n = fate.drops.len() + fate.marks.len();
            times.extend(std::iter::repeat_n(now.since(start).as_secs_f64() * 1000.0, n));
            fate.clear();
        }
        times
    }

    #[test]
    fn drops_come_at_interval_over_root_n() {
        // Cumulative sums of 100/√n ms after the first drop.
        let expected = [0.0, 100.0, 170.7, 228.4, 278.4, 323.2, 364.0, 401.8, 437.1, 470.5, 502.1];
        let times = interventions(&mut codel("rfc8289", false), 610);
        assert_eq!(times[0], 100.0);
        for (n, after) in expected.iter().enumerate() {
            let offset = times[n] - times[0] - after;
            // Looked at every 0.1 ms, and the expected values are rounded to 0.1 ms.
            assert!((-0.05..0.16).contains(&offset), "drop {n} at {} ms", times[n]);
        }
    }

    #[test]
    fn newton_steps_of_linux_lag_at_first_and_then_follow_the_root() {
        // x ← x(3 − n·x²)/2 from x = 1 by hand: 0.5, 0.5625, 0.4878, 0.4415, 0.4041; times 100 ms.
        let by_hand = [100.0, 50.0, 56.25, 48.78, 44.15, 40.41];
        for variant in ["linux", "ns-3.27"] {
            let times = interventions(&mut codel(variant, false), 3000);
            let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
            for (n, expected) in by_hand.iter().enumerate() {
                assert!((gaps[n] - expected).abs() < 0.11, "{variant} gap {n}: {} ms", gaps[n]);
            }
            // From the 20th to the 120th drop the roots' sum, looked at every 0.1 ms.
            let roots: f64 = (20..120).map(|n| 100.0 / f64::from(n).sqrt()).sum();
            let span = times[119] - times[19];
            assert!((span / roots - 1.0).abs() < 0.002, "{variant}: {span} ms against {roots}");
        }
    }

    #[test]
    fn the_device_below_holds_its_fill_in_order_and_codel_sees_only_the_rest() {
        let params = Params::from([("device_packets".to_string(), Value::Number(3.0))]);
        let given = Checked::new(&Codel::CARD, &params, "q").unwrap();
        let mut queue = Codel::new(&given, &Surroundings::of_seed(1)).unwrap();
        let mut fate = Fate::default();
        for slot in 0..5 {
            let packet = Packet {
                slot,
                flow: FlowId(0),
                bytes: 1500,
                ecn: Ecn::NotEct,
                hop: 0,
                is_reverse: false,
                conversation: 0,
                enqueued: Time::ZERO,
            };
            queue.enqueue(packet, Time::ZERO, &mut fate);
        }
        let held = |queue: &Codel| (queue.device.len(), queue.line.len(), queue.backlog().packets);
        assert_eq!(held(&queue), (3, 2, 5));
        let slots: Vec<u32> = std::iter::from_fn(|| queue.dequeue(Time::from_ms(1), &mut fate))
            .map(|packet| packet.slot)
            .collect();
        assert_eq!(slots, [0, 1, 2, 3, 4]);
        assert_eq!(held(&queue), (0, 0, 0));
        assert!(fate.drops.is_empty());
    }

    #[test]
    fn capable_packets_are_marked_at_the_same_times() {
        let dropped = interventions(&mut codel("rfc8289", false), 1000);
        let mut marking = codel("rfc8289", true);
        assert_eq!(interventions(&mut marking, 1000), dropped);
    }

    #[test]
    fn a_fixed_point_of_newton_is_the_root() {
        for count in [2u32, 10, 100, 10_000] {
            let mut state = State { inverse_root: u16::MAX, ..State::default() };
            // As in use: the count rises by one a step.
            for n in 1..=count {
                state.count = n;
                state.step_root();
            }
            for _ in 0..4 {
                state.step_root();
            }
            let root = f64::from(state.inverse_root) / 65_536.0;
            let error = (root * f64::from(count).sqrt() - 1.0).abs();
            // 16 bits hold 1/√n to √n·2⁻¹⁶.
            assert!(error < 2.0 * f64::from(count).sqrt() / 65_536.0, "{count}: {root}");
        }
    }

    #[test]
    fn rests_below_target_and_with_one_packet_left() {
        let mut queue = codel("rfc8289", false);
        let mut fate = Fate::default();
        for i in 0..10_000 {
            let now = Time::from_us(100_000 + i * 100);
            let packet = Packet {
                slot: 0,
                flow: FlowId(0),
                bytes: 1500,
                ecn: Ecn::NotEct,
                hop: 0,
                is_reverse: false,
                conversation: 0,
                enqueued: Time::from_us(i * 100),
            };
            // 100 ms old each, but alone but for one packet: at most 1500 B behind the head.
            queue.enqueue(packet, packet.enqueued, &mut fate);
            queue.enqueue(packet, packet.enqueued, &mut fate);
            queue.dequeue(now, &mut fate);
            queue.dequeue(now, &mut fate);
        }
        assert!(fate.is_empty());
    }
}
