//! GCC's bandwidth probes: short bursts at a multiple of the rate, which measure what the path can carry.

use std::collections::VecDeque;

use super::super::media::Arrival;
use super::trend::ms;
use crate::time::{Duration, Time};

// probe_controller: rates of the probes, and their limits.
const FIRST_SCALES: [f64; 2] = [3.0, 6.0];
const FURTHER_SCALE: f64 = 2.0;
const FURTHER_THRESHOLD: f64 = 0.7;
const PATIENCE: Duration = Duration::from_ms(1_000);
// bitrate_prober: length of a burst and size of its packets.
const LEAST_PACKETS: u32 = 5;
const LEAST_SECONDS: f64 = 0.015;
/// Padding covers two of the shortest intervals between probes, of 1 ms each.
const PADDING_SECONDS: f64 = 0.002;
/// Smallest packet that may begin a burst.
const LEAST_BEGIN: u32 = 200;
// probe_bitrate_estimator: which results count, and how they are evaluated.
const ENOUGH: f64 = 0.8;
const LONGEST_MS: f64 = 1_000.0;
const MOST_RATIO: f64 = 2.0;
const UNSATURATED: f64 = 0.9;
const UTILIZATION: f64 = 0.95;

/// A burst: counts of what was sent and of what has arrived.
#[derive(Clone, Debug)]
struct Burst {
    bps: f64,
    started: Time,
    first: u64,
    sent: u32,
    sent_bytes: u32,
    /// First and last departure, with the size of the last packet; first and last arrival, with the size of the first.
    left: Option<(Time, Time, u32)>,
    came: Option<(Time, Time, u32)>,
    arrived: u32,
    arrived_bytes: u32,
}

impl Burst {
    fn new(bps: f64) -> Self {
        Burst {
            bps,
            started: Time::NEVER,
            first: 0,
            sent: 0,
            sent_bytes: 0,
            left: None,
            came: None,
            arrived: 0,
            arrived_bytes: 0,
        }
    }

    fn least_bytes(&self) -> f64 {
        self.bps * LEAST_SECONDS / 8.0
    }

    fn is_complete(&self) -> bool {
        self.sent >= LEAST_PACKETS && f64::from(self.sent_bytes) >= self.least_bytes()
    }

    /// When the next packet leaves, so that the bytes since the start match the rate.
    fn next(&self) -> Time {
        self.started + Duration::from_secs_f64(8.0 * f64::from(self.sent_bytes) / self.bps)
    }

    /// A packet of this burst has arrived; returns the rate once enough have.
    fn on_arrival(&mut self, packet: &Arrival) -> Option<f64> {
        let (from, mut to, mut last) = self.left.unwrap_or((packet.sent, packet.sent, packet.bytes));
        if packet.sent > to {
            (to, last) = (packet.sent, packet.bytes);
        }
        self.left = Some((from.min(packet.sent), to, last));
        let (mut begin, end, mut first) = self.came.unwrap_or((packet.at, packet.at, packet.bytes));
        if packet.at < begin {
            (begin, first) = (packet.at, packet.bytes);
        }
        self.came = Some((begin, end.max(packet.at), first));
        self.arrived += 1;
        self.arrived_bytes += packet.bytes;
        let is_enough = self.arrived >= (ENOUGH * f64::from(LEAST_PACKETS)) as u32
            && f64::from(self.arrived_bytes) >= ENOUGH * self.least_bytes();
        if is_enough { self.rate() } else { None }
    }

    fn rate(&self) -> Option<f64> {
        let ((from, to, last), (begin, end, first)) = (self.left?, self.came?);
        let (sending, receiving) = (ms(to, from), ms(end, begin));
        let is_valid = |time: f64| time > 0.0 && time <= LONGEST_MS;
        if !is_valid(sending) || !is_valid(receiving) {
            return None;
        }
        // The interval of departures excludes the last packet's transmission, and that of arrivals the first packet's.
        let sent = 8e3 * f64::from(self.arrived_bytes - last) / sending;
        let received = 8e3 * f64::from(self.arrived_bytes - first) / receiving;
        if received > MOST_RATIO * sent {
            return None;
        }
        Some(if received < UNSATURATED * sent { UTILIZATION * received } else { sent.min(received) })
    }
}

/// State of a sender's probes.
#[derive(Clone, Debug)]
pub struct Probes {
    is_on: bool,
    max_bps: f64,
    packet_bytes: u32,
    /// Bursts not completely sent; the first one may be in progress.
    bursts: VecDeque<Burst>,
    is_sending: bool,
    /// Bursts that were sent.
    sent: VecDeque<Burst>,
    result: Option<f64>,
    /// The rate above which another burst follows, and when the last one was initiated.
    further: Option<f64>,
    initiated: Time,
}

impl Probes {
    pub fn new(is_on: bool, max_bps: f64, packet_bytes: u32) -> Self {
        Probes {
            is_on,
            max_bps,
            packet_bytes,
            bursts: VecDeque::new(),
            is_sending: false,
            sent: VecDeque::new(),
            result: None,
            further: None,
            initiated: Time::ZERO,
        }
    }

    pub fn restart(&mut self, start_bps: f64, now: Time) {
        *self = Probes::new(self.is_on, self.max_bps, self.packet_bytes);
        if self.is_on {
            self.initiate(&FIRST_SCALES.map(|scale| scale * start_bps), now);
        }
    }

    fn initiate(&mut self, rates_bps: &[f64], now: Time) {
        self.initiated = now;
        let last = rates_bps.last().copied().unwrap_or(0.0);
        let is_capped = rates_bps.iter().any(|bps| *bps > self.max_bps);
        self.further = (!is_capped).then_some(FURTHER_THRESHOLD * last);
        self.bursts.extend(rates_bps.iter().map(|bps| Burst::new(bps.min(self.max_bps))));
    }

    /// When padding is due, and its IP length.
    pub fn padding(&self) -> Option<(Time, u32)> {
        let burst = self.bursts.front().filter(|_| self.is_sending)?;
        let bytes = (burst.bps * PADDING_SECONDS / 8.0) as u32;
        Some((burst.next(), bytes.clamp(LEAST_BEGIN, self.packet_bytes.max(LEAST_BEGIN))))
    }

    /// A packet or padding leaves; during a burst, both count towards it.
    pub fn on_sent(&mut self, number: u64, bytes: u32, now: Time) {
        let Some(burst) = self.bursts.front_mut() else { return };
        if !self.is_sending {
            if bytes < LEAST_BEGIN {
                return;
            }
            (self.is_sending, burst.started) = (true, now);
        }
        if burst.sent == 0 {
            burst.first = number;
        }
        burst.sent += 1;
        burst.sent_bytes += bytes;
        if !burst.is_complete() {
            return;
        }
        let next = burst.next();
        self.sent.extend(self.bursts.pop_front());
        match self.bursts.front_mut() {
            Some(burst) => burst.started = next,
            None => self.is_sending = false,
        }
    }

    /// A report contains this packet.
    pub fn on_arrival(&mut self, packet: &Arrival) {
        let numbers = |burst: &Burst| burst.first..burst.first + u64::from(burst.sent);
        if let Some(burst) = self.sent.iter_mut().find(|burst| numbers(burst).contains(&packet.number)) {
            self.result = burst.on_arrival(packet).or(self.result);
        }
        // Packets that arrive more than a second after the rest of their burst do not count.
        self.sent.retain(|burst| burst.came.is_none_or(|(_, end, _)| ms(packet.at, end) <= LONGEST_MS));
    }

    /// The rate measured by the packets of the last report.
    pub fn take_result(&mut self) -> Option<f64> {
        self.result.take()
    }

    /// Takes the sender's rate after a report: if it is close to the last probe's rate, a faster probe follows.
    pub fn on_estimate(&mut self, bps: f64, now: Time) {
        if now.since(self.initiated) > PATIENCE {
            self.further = None;
        }
        if self.further.is_some_and(|threshold| bps > threshold) {
            self.initiate(&[FURTHER_SCALE * bps], now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_near, at_ms};
    use super::*;

    /// Sends a burst with nothing but padding after a first packet; departures with sizes.
    fn burst(probes: &mut Probes, first: u64, begin: Time, bytes: u32) -> Vec<(Time, u32)> {
        let mut out = vec![(begin, bytes)];
        let bursts = probes.bursts.len();
        probes.on_sent(first, bytes, begin);
        while probes.bursts.len() == bursts {
            let (at, bytes) = probes.padding().expect("the burst goes on");
            probes.on_sent(first + out.len() as u64, bytes, at);
            out.push((at, bytes));
        }
        out
    }

    #[test]
    fn the_first_bursts_are_three_and_six_times_the_rate_for_15_ms_and_5_packets() {
        let mut probes = Probes::new(true, 1e7, 1200);
        probes.restart(300_000.0, at_ms(0.0));
        assert_eq!(probes.padding(), None);
        // 900 kbit/s: 1687.5 B; 225 B of padding each 2 ms after the first 625 B.
        let first = burst(&mut probes, 0, at_ms(0.0), 625);
        assert_eq!(first.iter().map(|(_, bytes)| bytes).sum::<u32>(), 625 + 5 * 225);
        assert_near(ms(first[1].0, at_ms(0.0)), 8.0 * 625.0 / 900.0);
        assert_near(ms(first[2].0, first[1].0), 2.0);
        // 1.8 Mbit/s begins where the first ends: 3375 B in packets of 450 B.
        let (at, bytes) = probes.padding().expect("the second burst");
        assert_near(ms(at, at_ms(0.0)), 8.0 * 1750.0 / 900.0);
        let second = burst(&mut probes, 6, at, bytes);
        assert_eq!((second.len(), bytes), (8, 450));
        assert_eq!(probes.padding(), None);
    }

    #[test]
    fn a_small_packet_begins_no_burst_and_a_slow_one_has_five_packets() {
        let mut probes = Probes::new(true, 1e7, 1200);
        probes.restart(50_000.0, at_ms(0.0));
        probes.on_sent(0, 199, at_ms(0.0));
        assert_eq!(probes.padding(), None);
        // 150 kbit/s for 15 ms are 281 B, which two packets have.
        assert_eq!(burst(&mut probes, 1, at_ms(5.0), 200).len(), 5);
    }

    /// Results of a burst of nine packets of 450 B, 2 ms apart, that arrive this far apart.
    fn result(arrive_ms: f64, count: usize) -> Option<f64> {
        let mut probes = Probes::new(true, 1e7, 1200);
        probes.restart(600_000.0, at_ms(0.0));
        let sent = burst(&mut probes, 0, at_ms(0.0), 450);
        for (number, (at, bytes)) in sent.into_iter().enumerate().take(count) {
            let came = at_ms(50.0 + arrive_ms * number as f64);
            probes.on_arrival(&Arrival {
                at: came,
                sent: at,
                number: number as u64,
                bytes,
                is_marked: false,
            });
        }
        probes.take_result()
    }

    #[test]
    fn a_result_is_the_lesser_rate_or_less_than_what_a_full_path_lets_through() {
        // 450 B in 2 ms are 1.8 Mbit/s.
        assert_near(result(2.0, 8).expect("all have arrived"), 1_800_000.0);
        assert_near(result(1.5, 8).expect("they came closer together"), 1_800_000.0);
        assert_near(result(2.2, 8).expect("within a tenth"), 1_636_363.636_364);
        assert_near(result(3.6, 8).expect("the path is full"), 950_000.0);
        assert_eq!(result(0.9, 8), None);
        // Four fifths of 3375 B are 2700.
        assert_eq!(result(2.0, 5), None);
        assert_near(result(2.0, 6).expect("enough have arrived"), 1_800_000.0);
    }

    #[test]
    fn a_rate_near_the_probe_asks_for_twice_as_much_within_a_second_and_up_to_the_largest() {
        let further = |max_bps: f64, bps: f64, at: f64| {
            let mut probes = Probes::new(true, max_bps, 1200);
            probes.restart(300_000.0, at_ms(0.0));
            probes.bursts.clear();
            probes.on_estimate(bps, at_ms(at));
            probes.bursts.front().map(|burst| burst.bps)
        };
        // 0.7 times 1.8 Mbit/s.
        assert_eq!(further(1e7, 1_260_000.0, 200.0), None);
        assert_eq!(further(1e7, 1_270_000.0, 200.0), Some(2_540_000.0));
        assert_eq!(further(2e6, 1_270_000.0, 200.0), Some(2_000_000.0));
        assert_eq!(further(1e7, 1_270_000.0, 1_001.0), None);
        // 1.8 Mbit/s was capped: that is all there may be.
        assert_eq!(further(1.5e6, 1_400_000.0, 200.0), None);
    }
}
