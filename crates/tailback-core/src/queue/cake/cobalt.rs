//! COBALT: CoDel whose count decays as it grew, plus BLUE for unresponsive flows.

use crate::packet::{Ecn, Packet};
use crate::queue::Fate;
use crate::rng::Stream;
use crate::time::{Duration, Time};

/// Steps of BLUE's drop probability, as fractions of 2³².
const BLUE_UP: u32 = 1 << 24;
const BLUE_DOWN: u32 = 1 << 20;
/// Linux uses a table of 1/√n for counts below this.
const TABLE: u32 = 16;

/// COBALT's constants in one tin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    pub target: Duration,
    pub interval: Duration,
    /// Transmission time of a full packet at the tin's rate.
    pub mtu_time: Duration,
}

/// COBALT: CoDel whose count decays as it grew, plus BLUE for unresponsive flows.
#[derive(Clone, Debug, Default)]
pub(super) struct Cobalt {
    pub count: u32,
    /// 1/√count, computed when `count` last changed by one; 0 before the first signal.
    pub spacing: f64,
    pub is_dropping: bool,
    pub drop_next: Time,
    pub blue: u32,
    pub blue_changed: Time,
}

impl Cobalt {
    fn step(&self, from: Time, law: &Law) -> Time {
        from + Duration::from_ps((law.interval.as_ps() as f64 * self.spacing) as u64)
    }

    /// Sets the signal count, and computes the time of the next signal.
    fn count_to(&mut self, count: u32, law: &Law) {
        self.count = count;
        let n = f64::from(count.max(1));
        // From 16 on, Linux takes one Newton step from the previous value; below, its table holds the result of four
        // steps.
        self.spacing = match count < TABLE {
            true => 1.0 / n.sqrt(),
            false => self.spacing / 2.0 * (3.0 - n * self.spacing * self.spacing),
        };
        self.drop_next = self.step(self.drop_next, law);
    }

    /// The queue has overflowed: raises BLUE's probability and puts CoDel into its dropping state.
    pub fn on_overflow(&mut self, law: &Law, now: Time) {
        if now.since(self.blue_changed) > law.target {
            self.blue = self.blue.saturating_add(BLUE_UP);
            self.blue_changed = now;
        }
        self.is_dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// The queue is empty: lowers BLUE's probability, leaves the dropping state, and lowers the count if that is due.
    pub fn on_empty(&mut self, law: &Law, now: Time) {
        if self.blue > 0 && now.since(self.blue_changed) > law.target {
            self.blue = self.blue.saturating_sub(BLUE_DOWN);
            self.blue_changed = now;
        }
        self.is_dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.count_to(self.count - 1, law);
        }
    }

    /// Whether the state has decayed completely: count and BLUE's probability are zero, and the last interval has
    /// passed.
    pub fn rests(&self, now: Time) -> bool {
        self.blue == 0 && self.count == 0 && now >= self.drop_next
    }

    /// Whether to drop `packet`, at the head; it may be marked instead. `bulk_flows`: number of flows that may have two
    /// packets each without that counting as delay.
    pub fn decides(
        &mut self,
        packet: &mut Packet,
        bulk_flows: u32,
        law: &Law,
        now: Time,
        random: &mut Stream,
        fate: &mut Fate,
    ) -> bool {
        let sojourn = now.since(packet.enqueued);
        let floor = Duration::from_ps(law.mtu_time.as_ps() * u64::from((2 * bulk_flows).max(4)));
        let is_high = sojourn > law.target && sojourn > floor;
        let is_due = self.count > 0 && now >= self.drop_next;
        // The check uses the previous schedule, unless this packet causes a signal.
        let mut is_late = now > self.drop_next;
        let mut is_dropped = false;
        if is_high && !self.is_dropping {
            self.is_dropping = true;
            self.drop_next = self.step(now, law);
        }
        self.is_dropping = is_high;
        if is_high {
            self.count = self.count.max(1);
        }
        if is_due && is_high {
            is_dropped = !packet.ecn.is_capable();
            if !is_dropped && packet.ecn != Ecn::Ce {
                packet.ecn = Ecn::Ce;
                fate.mark(*packet);
            }
            self.count_to(self.count.saturating_add(1), law);
            is_late = now > self.drop_next;
        } else if is_due {
            while self.count > 0 && now >= self.drop_next {
                self.count_to(self.count - 1, law);
            }
            is_late = now > self.drop_next;
        }
        // BLUE never marks, because it is for flows that do not respond to marks.
        if self.blue > 0 && (random.bits() >> 32) < u64::from(self.blue) {
            is_dropped = true;
        }
        if self.count == 0 {
            self.drop_next = now + law.interval;
        } else if is_late && !is_dropped {
            self.drop_next = now;
        }
        is_dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FlowId;

    fn law() -> Law {
        Law { target: Duration::from_ms(5), interval: Duration::from_ms(100), mtu_time: Duration::ZERO }
    }

    fn packet(enqueued: Time, ecn: Ecn) -> Packet {
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
    fn cobalt_drops_at_interval_over_root_n_and_counts_down_as_slowly() {
        let (mut cobalt, mut random) = (Cobalt::default(), Stream::named(1, "test"));
        let mut fate = Fate::default();
        let mut times = Vec::new();
        for ms in 0..600u64 {
            let now = Time::from_ms(1000 + ms);
            let mut late = packet(Time::from_ms(990 + ms), Ecn::NotEct);
            if cobalt.decides(&mut late, 0, &law(), now, &mut random, &mut fate) {
                times.push(ms);
            }
        }
        // The first with the second late packet; then 100/√2, 100/√3 … ms, looked at every millisecond.
        assert_eq!(times[..5], [1, 71, 129, 179, 224]);
        let count = cobalt.count;
        assert!(count > 8, "{count}");
        let now = Time::from_ms(1650);
        let mut early = packet(now, Ecn::NotEct);
        assert!(!cobalt.decides(&mut early, 0, &law(), now, &mut random, &mut fate));
        assert!((1..count).contains(&cobalt.count), "{} of {count}", cobalt.count);
        assert!(!cobalt.is_dropping);
    }

    #[test]
    fn a_queue_at_rest_waits_an_interval_and_one_that_never_signalled_does_not() {
        let (mut cobalt, mut random) = (Cobalt::default(), Stream::named(1, "test"));
        let mut fate = Fate::default();
        let mut drops = |cobalt: &mut Cobalt, sojourn: u64, times: std::ops::Range<u64>| {
            let is_dropped = |ms: &u64| {
                let mut packet = packet(Time::from_ms(ms - sojourn), Ecn::NotEct);
                cobalt.decides(&mut packet, 0, &law(), Time::from_ms(*ms), &mut random, &mut fate)
            };
            times.filter(is_dropped).collect::<Vec<_>>()
        };
        assert_eq!(drops(&mut cobalt, 10, 1000..1060), [1001]);
        assert_eq!(drops(&mut cobalt, 1, 1060..1500), []);
        assert_eq!(cobalt.count, 0, "at rest");
        assert_eq!(drops(&mut cobalt, 10, 1500..1660), [1600]);
    }

    #[test]
    fn cobalt_marks_what_can_be_marked_and_blue_drops_it_all_the_same() {
        let (mut cobalt, mut random) = (Cobalt::default(), Stream::named(1, "test"));
        let mut fate = Fate::default();
        let mut see = |cobalt: &mut Cobalt, ms: u64, fate: &mut Fate| {
            let mut late = packet(Time::from_ms(ms - 10), Ecn::Ect0);
            cobalt.decides(&mut late, 0, &law(), Time::from_ms(ms), &mut random, fate)
        };
        assert_eq!((1000..1600).filter(|ms| see(&mut cobalt, *ms, &mut fate)).count(), 0);
        assert!(fate.marks.len() > 8);
        // 128 overflows, each a target after the one before: half of all packets.
        for step in 0..128 {
            cobalt.on_overflow(&law(), Time::from_ms(2000 + 6 * step));
            cobalt.on_overflow(&law(), Time::from_ms(2001 + 6 * step));
        }
        assert_eq!(cobalt.blue, 1 << 31);
        let dropped = (3000..5000).filter(|ms| see(&mut cobalt, *ms, &mut fate)).count();
        assert!((850..1150).contains(&dropped), "{dropped}");
        // Down by a sixteenth of a step each time it is found empty.
        cobalt.on_empty(&law(), Time::from_ms(6000));
        assert_eq!(cobalt.blue, (1 << 31) - BLUE_DOWN);
    }

    #[test]
    fn from_sixteen_signals_on_the_root_is_one_newton_step_from_the_last() {
        let mut cobalt = Cobalt { count: 15, spacing: 1.0 / 15f64.sqrt(), ..Cobalt::default() };
        cobalt.count_to(16, &law());
        let last = 1.0 / 15f64.sqrt();
        assert_eq!(cobalt.spacing, last / 2.0 * (3.0 - 16.0 * last * last));
        // A step leaves one and a half times the square of the error before, here of 1/31: 0.16 %.
        assert!((cobalt.spacing * 4.0 - 1.0).abs() < 0.0018 && cobalt.spacing < 0.25, "{}", cobalt.spacing);
    }
}
