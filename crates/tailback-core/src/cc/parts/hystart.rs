//! Leaving slow start before it overflows the queue: HyStart, as in Linux, and HyStart++, RFC 9406.
//!
//! HyStart (Ha and Rhee 2008) ends slow start when a train of closely spaced ACKs has lasted half the smallest
//! RTT, or when the round's smallest RTT rises above the connection's by η. HyStart++ answers the rise with
//! five rounds of slower growth, and takes it back if the RTT falls again.

use super::clock::{span_us, us32};
use super::growth::{Growth, credit};
use crate::cc::{Ack, Control};

/// Which rule ends slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavour {
    /// None: only loss ends it.
    Off,
    /// Linux since about 3.19: η = clamp(delay_min/8, 4 ms, 16 ms), minimum over the whole round.
    Classic,
    /// Linux 2.6.39 to 3.18: η = clamp(delay_min/16, 2 ms, 16 ms), minimum over the first eight samples.
    Old,
    /// RFC 9406.
    PlusPlus,
}

impl Flavour {
    /// The names as a parameter's choices; `search` is another rule's (`search.rs`), beside which this one is off.
    pub const CHOICES: &'static [&'static str] = &["off", "hystart", "hystart-old", "hystart++", "search"];

    /// The flavour of this name.
    pub fn named(name: &str) -> Self {
        match name {
            "hystart" => Flavour::Classic,
            "hystart-old" => Flavour::Old,
            "hystart++" => Flavour::PlusPlus,
            _ => Flavour::Off,
        }
    }
}

/// ACKs no further apart than this belong to one train.
const TRAIN_GAP_US: u32 = 2_000;
/// Below this window (segments) nothing is judged.
const LOW_WINDOW: u64 = 16;
/// RTT samples a round needs (both variants; RFC 9406 calls it N_RTT_SAMPLE).
const SAMPLES: u8 = 8;
/// RFC 9406: growth is divided by this in conservative slow start.
const CSS_DIVISOR: u64 = 4;
/// RFC 9406: rounds of conservative slow start.
const CSS_ROUNDS: u8 = 5;
/// No sample yet.
const NONE: u32 = u32::MAX;

/// One connection's slow-start watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HyStart {
    flavour: Flavour,
    /// Slow start was ended; stays so until a timeout.
    found: bool,
    samples: u8,
    css_rounds: u8,
    /// The round ends when this byte is acknowledged.
    /// Low 32 bits of the byte, which order a window as well as all 64 do.
    end: u32,
    round_start: u32,
    last_ack: u32,
    /// Smallest RTT of this round so far.
    current_rtt: u32,
    /// HyStart++: smallest RTT of the round before.
    last_rtt: u32,
    /// HyStart++: the RTT that began conservative slow start; [`NONE`] outside it.
    baseline_rtt: u32,
}

impl HyStart {
    /// Nothing seen yet.
    pub fn new(flavour: Flavour) -> Self {
        HyStart {
            flavour,
            found: false,
            samples: 0,
            css_rounds: 0,
            end: 0,
            round_start: 0,
            last_ack: 0,
            current_rtt: NONE,
            last_rtt: NONE,
            baseline_rtt: NONE,
        }
    }

    /// Judge this ACK. `delay_min_us` is the connection's smallest RTT. Returns true if slow start ended now;
    /// ssthresh is then cwnd.
    pub fn ends_slow_start(&mut self, ack: &Ack, delay_min_us: u32, control: &mut Control) -> bool {
        if self.flavour == Flavour::Off || self.found || !ack.in_slow_start {
            return false;
        }
        let Some(rtt) = ack.rtt else { return false };
        let rtt_us = span_us(rtt);
        self.found = match self.flavour {
            Flavour::PlusPlus => self.conservative_rounds_are_over(ack, rtt_us),
            _ => {
                // The round begins however small the window is, or the first one judged would begin in its midst.
                if self.is_over(ack) {
                    self.begin_round(ack);
                }
                control.cwnd_segments() >= LOW_WINDOW
                    && self.train_or_rise(ack, rtt_us, delay_min_us, control)
            }
        };
        if self.found {
            control.ssthresh = control.cwnd;
        }
        self.found
    }

    /// Slow start under HyStart++ may be slower than usual. Returns the segments left over, as
    /// [`Growth::slow_start`] does.
    pub fn grow(&self, growth: &mut Growth, ack: &Ack, control: &mut Control) -> u64 {
        if self.baseline_rtt == NONE {
            return growth.slow_start(ack, control);
        }
        growth.additive(ack, control, CSS_DIVISOR, credit(ack));
        0
    }

    /// A timeout: watch the next slow start too (HyStart++ is for the first one only).
    pub fn restart(&mut self, ack_point: u64) {
        let over = self.flavour == Flavour::PlusPlus;
        *self = HyStart { found: over, end: ack_point as u32, ..HyStart::new(self.flavour) };
    }

    fn is_over(&self, ack: &Ack) -> bool {
        (ack.snd_una as u32).wrapping_sub(self.end) as i32 > 0
    }

    fn begin_round(&mut self, ack: &Ack) {
        self.end = ack.snd_nxt as u32;
        self.round_start = us32(ack.now);
        self.last_ack = self.round_start;
        self.last_rtt = self.current_rtt;
        self.current_rtt = NONE;
        self.samples = 0;
    }

    fn train_or_rise(&mut self, ack: &Ack, rtt_us: u32, delay_min_us: u32, control: &Control) -> bool {
        let now = us32(ack.now);
        let mut found = false;
        if now.wrapping_sub(self.last_ack) <= TRAIN_GAP_US {
            self.last_ack = now;
            found = now.wrapping_sub(self.round_start) > self.train_limit(ack, delay_min_us, control);
        }
        if self.samples < SAMPLES {
            self.samples += 1;
            self.current_rtt = self.current_rtt.min(rtt_us);
            return found;
        }
        if self.flavour == Flavour::Classic {
            self.current_rtt = self.current_rtt.min(rtt_us);
        }
        found || self.current_rtt > delay_min_us + eta_us(self.flavour, delay_min_us)
    }

    /// How long an ACK train may last: half the smallest RTT. Linux adds what four TSO bursts take at the pacing rate,
    /// at most 1 ms. It doubles the sum where the algorithm or the stack paces, because pacing spreads a slow-start
    /// flight over half a round trip.
    fn train_limit(&self, ack: &Ack, delay_min_us: u32, control: &Control) -> u32 {
        if self.flavour == Flavour::Old {
            return delay_min_us / 2;
        }
        // Four bursts of 64 KiB less the room for headers (`sk_gso_max_size`).
        const BURST_BYTES: u64 = 4 * 65_215;
        // Linux `tcp_update_pacing_rate`.
        let percent = if control.cwnd < control.ssthresh / 2 { 200 } else { 120 };
        let window = control.cwnd.max(ack.snd_nxt - ack.snd_una);
        let burst_us = (BURST_BYTES * ack.srtt.as_us() * 100 / (percent * window)).min(1_000) as u32;
        let limit = delay_min_us + burst_us;
        if ack.stack_paces || control.pacing.is_some() { limit } else { limit / 2 }
    }

    fn conservative_rounds_are_over(&mut self, ack: &Ack, rtt_us: u32) -> bool {
        if self.is_over(ack) {
            if self.baseline_rtt != NONE {
                self.css_rounds += 1;
                if self.css_rounds >= CSS_ROUNDS {
                    return true;
                }
            }
            self.begin_round(ack);
        }
        self.current_rtt = self.current_rtt.min(rtt_us);
        self.samples = self.samples.saturating_add(1);
        if self.samples < SAMPLES {
            return false;
        }
        if self.baseline_rtt == NONE {
            if self.last_rtt != NONE && self.current_rtt >= self.last_rtt + threshold_us(self.last_rtt) {
                self.baseline_rtt = self.current_rtt;
                self.css_rounds = 0;
            }
        } else if self.current_rtt < self.baseline_rtt {
            // The rise was a blip: back to full slow start.
            self.baseline_rtt = NONE;
        }
        false
    }
}

/// HyStart's η.
fn eta_us(flavour: Flavour, delay_min_us: u32) -> u32 {
    match flavour {
        Flavour::Old => (delay_min_us / 16).clamp(2_000, 16_000),
        _ => (delay_min_us / 8).clamp(4_000, 16_000),
    }
}

/// HyStart++'s RttThresh.
fn threshold_us(last_rtt_us: u32) -> u32 {
    (last_rtt_us / 8).clamp(4_000, 16_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Counting;
    use crate::cc::fixture::Lab;
    use crate::time::Duration;

    #[test]
    fn eta_and_threshold_have_the_published_values() {
        let cases = [(54_000, 3_375, 6_750), (130_000, 8_125, 16_000), (10_000, 2_000, 4_000)];
        for (delay, old, new) in cases {
            assert_eq!(eta_us(Flavour::Old, delay), old);
            assert_eq!(eta_us(Flavour::Classic, delay), new);
        }
        for (last, threshold) in [(40_000, 5_000), (20_000, 4_000), (200_000, 16_000)] {
            assert_eq!(threshold_us(last), threshold);
        }
    }

    fn acks(lab: &mut Lab, hystart: &mut HyStart, count: u64, gap: Duration, delay_min_us: u32) -> bool {
        (0..count).any(|_| {
            lab.now += gap;
            let ack = lab.ack(1);
            let ended = hystart.ends_slow_start(&ack, delay_min_us, &mut lab.control);
            if !ended {
                hystart.grow(&mut Growth::default(), &ack, &mut lab.control);
            }
            ended
        })
    }

    /// One ACK begins each round, so that the judged ACKs lie inside one.
    fn open_round(lab: &mut Lab, hystart: &mut HyStart) {
        let ack = lab.ack(1);
        hystart.begin_round(&ack);
    }

    #[test]
    fn an_ack_train_of_half_the_rtt_ends_slow_start() {
        let mut lab = Lab::new(40, Counting::PerSegment);
        let mut hystart = HyStart::new(Flavour::Classic);
        lab.rtt = Duration::from_ms(80);
        open_round(&mut lab, &mut hystart);
        // 10 Mbit/s: an ACK every 1.2 ms. (80 + 1)/2 = 40.5 ms is passed by the 34th: 40.8 ms.
        let gap = Duration::from_us(1_200);
        assert!(!acks(&mut lab, &mut hystart, 33, gap, 80_000));
        assert!(acks(&mut lab, &mut hystart, 1, gap, 80_000));
        assert_eq!(lab.control.ssthresh, lab.control.cwnd);
        assert_eq!(lab.window(), 73);
    }

    #[test]
    fn where_the_stack_paces_the_train_may_last_the_whole_rtt() {
        // Linux `hystart_update`: 80 + 1 ms, passed by the 68th ACK: 81.6 ms.
        let mut lab = Lab::new(80, Counting::PerSegment);
        let mut hystart = HyStart::new(Flavour::Classic);
        lab.stack_paces = true;
        lab.rtt = Duration::from_ms(80);
        open_round(&mut lab, &mut hystart);
        let gap = Duration::from_us(1_200);
        assert!(!acks(&mut lab, &mut hystart, 67, gap, 80_000));
        assert!(acks(&mut lab, &mut hystart, 1, gap, 80_000));
    }

    #[test]
    fn a_round_begins_however_small_the_window() {
        // Ten segments leave, each ACK releases two, and the first of the second flight comes an RTT later: from it
        // the train is timed, and not from the ACK that found 16 segments.
        let mut lab = Lab::new(10, Counting::PerSegment);
        let mut hystart = HyStart::new(Flavour::Classic);
        lab.rtt = Duration::from_ms(16);
        let gap = Duration::from_us(1_200);
        assert!(!acks(&mut lab, &mut hystart, 10, gap, 16_000));
        let flight = hystart.end;
        lab.now += Duration::from_ms(4);
        assert!(!acks(&mut lab, &mut hystart, 1, gap, 16_000));
        assert!(hystart.end > flight, "the second round begins with the first ACK beyond the first flight");
        // (16 + 1)/2 = 8.5 ms: the eighth ACK after, 9.6 ms on; 28 segments, as in the kernel.
        assert!(!acks(&mut lab, &mut hystart, 7, gap, 16_000));
        assert!(acks(&mut lab, &mut hystart, 1, gap, 16_000));
        assert_eq!(lab.window(), 28);
    }

    #[test]
    fn gaps_break_the_train() {
        let mut lab = Lab::new(40, Counting::PerSegment);
        let mut hystart = HyStart::new(Flavour::Classic);
        lab.rtt = Duration::from_ms(80);
        open_round(&mut lab, &mut hystart);
        assert!(!acks(&mut lab, &mut hystart, 38, Duration::from_us(2_400), 80_000));
    }

    #[test]
    fn a_risen_round_ends_it_at_the_ninth_sample() {
        for (flavour, quiet, loud) in [(Flavour::Classic, 90, 91), (Flavour::Old, 85, 86)] {
            let mut lab = Lab::new(40, Counting::PerSegment);
            let mut hystart = HyStart::new(flavour);
            let gap = Duration::from_us(2_400);
            lab.rtt = Duration::from_ms(quiet);
            open_round(&mut lab, &mut hystart);
            assert!(!acks(&mut lab, &mut hystart, 30, gap, 80_000));
            lab.rtt = Duration::from_ms(loud);
            open_round(&mut lab, &mut hystart);
            assert!(!acks(&mut lab, &mut hystart, 8, gap, 80_000));
            assert!(acks(&mut lab, &mut hystart, 1, gap, 80_000), "{flavour:?}");
        }
    }

    #[test]
    fn small_windows_are_not_judged() {
        let mut lab = Lab::new(4, Counting::PerSegment);
        let mut hystart = HyStart::new(Flavour::Classic);
        lab.rtt = Duration::from_ms(200);
        assert!(!acks(&mut lab, &mut hystart, 12, Duration::from_ms(3), 80_000));
    }

    /// One round of HyStart++ at this RTT; true if slow start ended.
    fn round(lab: &mut Lab, hystart: &mut HyStart, rtt_ms: u64) -> bool {
        lab.rtt = Duration::from_ms(rtt_ms);
        let window = lab.window();
        // The first ACK beyond `end` begins the round.
        acks(lab, hystart, window, Duration::from_us(100), 0)
    }

    #[test]
    fn hystart_plus_plus_grows_a_quarter_for_five_rounds_then_stops() {
        let mut lab = Lab::new(20, Counting::PerSegment);
        let mut hystart = HyStart::new(Flavour::PlusPlus);
        assert!(!round(&mut lab, &mut hystart, 40));
        assert!(!round(&mut lab, &mut hystart, 44));
        assert_eq!(hystart.baseline_rtt, NONE, "44 is below 40 + 5");
        assert!(!round(&mut lab, &mut hystart, 60));
        assert_eq!(hystart.baseline_rtt, 60_000);
        let before = lab.window();
        let rounds = (1..10).find(|_| round(&mut lab, &mut hystart, 60)).expect("it ends");
        assert_eq!(rounds, 5);
        assert!(lab.window() < before * 3, "1.25⁴ = 2.4, not 2⁴");
    }

    #[test]
    fn hystart_plus_plus_resumes_after_a_blip() {
        let mut lab = Lab::new(20, Counting::PerSegment);
        let mut hystart = HyStart::new(Flavour::PlusPlus);
        for rtt in [40, 40, 60] {
            assert!(!round(&mut lab, &mut hystart, rtt));
        }
        assert_ne!(hystart.baseline_rtt, NONE);
        assert!(!round(&mut lab, &mut hystart, 41));
        assert_eq!(hystart.baseline_rtt, NONE);
    }
}
