//! GCC, Google Congestion Control of WebRTC: a media flow whose sender follows the trend of its packets' delay.

mod probes;
mod trend;

use std::collections::VecDeque;

use self::probes::Probes;
use self::trend::{Detector, Groups, Usage};
use super::media::{Arrival, FPS, MAX_RATE, MediaFlow, PACKET_BYTES, RateControl};
use crate::math;
use crate::params::{Card, Checked, ParamSpec};
use crate::time::{Duration, Time};

const CARD: Card = Card {
    name: "media-gcc",
    title: "Rate-adaptive media (GCC)",
    law: "frames and packets as `media` has them. Every 50 ms the receiver reports when each packet arrived. A \
          group is what left within 5 ms, and what arrives in a burst: at most 5 ms after the last packet and \
          with less delay. A line through the smoothed delays (0.9) of 20 groups has a slope, and T = \
          4·slope·min(groups, 60) ms. Overuse: T > γ for more than 10 ms, and T does not fall. Underuse: T < \
          −γ. γ ← γ + k·Δt·(|T| − γ), between 6 and 600 ms, with k = k_up (0.01; libwebrtc 0.0087) if |T| > γ, \
          else k_down (0.00018; libwebrtc 0.039); γ stays while |T| > γ + 15 ms. At overuse A ← 0.85·r, r what \
          arrived in 500 ms. At underuse A stays. Else A grows by 8 % a second; while r is within three \
          standard deviations of its mean at overuse, by half a packet each rtt + 100 ms; never beyond 1.5·r. \
          With more than 10 % lost B ← B·(1 − loss/2), with less than 2 % B ← 1.05·B, at most A. The rate is \
          min(A, B). With `probes` the first packets, with padding, leave at R = 3·`start_rate` for 15 ms and 5 packets \
          at least, then at 6·`start_rate`, never above `max_rate`. When four fifths of a probe are reported, its \
          result is the lesser of the sent and the received rate, or 0.95 of the received one if that is below 0.9 of \
          the sent. A and B become the result, but no less than 0.85·r; not during overuse. While within a second the \
          rate passes 0.7·R, the next probe has twice the rate",
    source: "draft-ietf-rmcat-gcc-02 (Holmer et al.); γ also in Carlucci et al., Analysis and Design of the \
             Google Congestion Control, MMSys 2016. From libwebrtc (modules/congestion_controller/goog_cc): the \
             line instead of the Kalman filter, its gain of 4, bursts of at most 100 ms, the interval of reports, \
             and `start_rate`. Likewise a variance of 0.4 to 2.5 kbit/s times the mean, decreases an RTT apart, \
             losses counted over 20 packets, and growth of at least 4 kbit/s a second; probes: probe_controller, \
             probe_bitrate_estimator, pacing/bitrate_prober",
    differs: &[
        "the encoder gives exactly the rate it is asked for, and packets are spread over the frame, where WebRTC sends \
         bursts every 5 ms",
        "no probes after the first ones: the encoder never asks for less than the estimate (ALR), and after a step up the \
         rate grows by 8 % a second",
        "padding of a probe joins the frame's packets at their own times, which count for it",
        "a report leaves with the first packet that arrives 50 ms after the last one; while nothing arrives the rate stays",
        "no loss-based estimator of version 2, no limits by an idle application or by the RTT alone",
        "after a pause everything begins again at `start_rate`",
        "marks (ECN) are ignored",
    ],
    live_twin: Some("tailback socket application"),
    params: &[
        ParamSpec::whole("min_rate", "bit/s", 150_000, (1_000, 1_000_000_000), "Smallest rate."),
        MAX_RATE,
        ParamSpec::whole(
            "start_rate",
            "bit/s",
            300_000,
            (1_000, 1_000_000_000),
            "First rate, between the other two.",
        ),
        FPS,
        PACKET_BYTES,
        ParamSpec::flag("probes", true, "Probe for the path's rate at the start."),
        ParamSpec::choice("variant", &["draft", "libwebrtc"], "Whose `k_up` and `k_down`."),
        ParamSpec::number("threshold", "ms", 12.5, (6.0, 600.0), "First threshold of the trend (γ)."),
        ParamSpec::number("k_up", "1/ms", 0.0, (0.0, 1.0), "How fast γ rises to the trend; 0 keeps it.")
            .depends("0.01; libwebrtc 0.0087"),
        ParamSpec::number("k_down", "1/ms", 0.0, (0.0, 1.0), "How fast γ falls to the trend; 0 keeps it.")
            .depends("0.00018; libwebrtc 0.039"),
    ],
};

const FEEDBACK: Duration = Duration::from_ms(50);
/// IPv4 20, UDP 8, RTCP's header and SSRCs 12, base, count, reference time and number 8.
const REPORT_HEADER: u32 = 48;
/// The longest gap between arrivals that takes one byte in a report.
const SMALL_GAP: Duration = Duration::from_us(63_750);
/// After a longer silence the sender discards groups and trend.
const SILENCE: Duration = Duration::from_ms(2_000);

// The rate, in bit/s and seconds.
const RECEIVED_WINDOW: Duration = Duration::from_ms(500);
const BETA: f64 = 0.85;
const ETA: f64 = 1.08;
const AHEAD: f64 = 1.5;
const REACTION: f64 = 0.1;
const PACKET_BITS: f64 = 1200.0 * 8.0;
const FRAMES_PER_SECOND: f64 = 30.0;
const LEAST_GROWTH: f64 = 4_000.0;
const DEVIATIONS: f64 = 3.0;
const MEAN_GAIN: f64 = 0.05;
/// Bounds on the ratio of variance to mean.
const SPREADS: (f64, f64) = (400.0, 2_500.0);
const DECREASE_INTERVALS: (f64, f64) = (0.010, 0.200);

// Losses.
const ENOUGH_PACKETS: u64 = 20;
const LOW_LOSS: f64 = 0.02;
const HIGH_LOSS: f64 = 0.10;
const LOSS_INTERVAL: f64 = 0.3;

/// A media flow with GCC.
pub type MediaGcc = MediaFlow<Gcc>;

/// Packets that arrived since the last report, in order of arrival.
#[derive(Clone, Debug)]
pub struct Report {
    packets: Vec<Arrival>,
    /// Number of packets that should have arrived since, by sequence number.
    expected: u64,
}

/// State of the sender's estimators and of the receiver.
#[derive(Clone, Debug)]
pub struct Gcc {
    bounds_bps: [f64; 2],
    start_bps: f64,
    detector: Detector,
    groups: Groups,
    received: Received,
    delay_based: DelayBased,
    loss_based: LossBased,
    probes: Probes,
    /// Arrival of the last report.
    heard: Time,
    receiver: Receiver,
}

impl RateControl for Gcc {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Video call (WebRTC)";
    type Report = Report;
    const REPORTS_RELEASE: bool = true;

    fn new(given: &Checked<'_>, bounds_bps: [f64; 2]) -> Self {
        let [k_up, k_down] =
            if given.choice("variant") == "libwebrtc" { [0.0087, 0.039] } else { [0.01, 0.00018] };
        let start_bps = (given.whole("start_rate") as f64).clamp(bounds_bps[0], bounds_bps[1]);
        Gcc {
            bounds_bps,
            start_bps,
            detector: Detector::new(
                given.number("threshold"),
                given.given_number("k_up").unwrap_or(k_up),
                given.given_number("k_down").unwrap_or(k_down),
            ),
            groups: Groups::default(),
            received: Received::default(),
            delay_based: DelayBased::new(bounds_bps, start_bps),
            loss_based: LossBased::new(start_bps),
            probes: Probes::new(given.flag("probes"), bounds_bps[1], given.whole("packet_bytes") as u32),
            heard: Time::NEVER,
            receiver: Receiver::default(),
        }
    }

    fn begin(&mut self, now: Time) {
        self.detector = self.detector.restarted();
        self.groups = Groups::default();
        self.received = Received::default();
        self.delay_based = DelayBased::new(self.bounds_bps, self.start_bps);
        self.loss_based = LossBased::new(self.start_bps);
        self.probes.restart(self.start_bps, now);
        (self.delay_based.updated, self.heard) = (now, now);
    }

    fn rate_bps(&self) -> f64 {
        self.delay_based.bps.min(self.loss_based.bps).max(self.bounds_bps[0])
    }

    fn on_packet(&mut self, packet: Arrival) -> Option<(u32, Report)> {
        self.receiver.on_packet(packet)
    }

    fn on_report(&mut self, report: Report, now: Time) {
        let Some(last) = report.packets.last() else { return };
        let rtt = now.since(last.sent).as_secs_f64();
        if now.since(self.heard) > SILENCE {
            self.detector = self.detector.restarted();
            self.groups = Groups::default();
        }
        self.heard = now;
        for packet in &report.packets {
            self.received.add(packet);
            self.probes.on_arrival(packet);
            if let Some((sent_ms, arrived_ms, at)) = self.groups.add(packet) {
                self.detector.on_group(sent_ms, arrived_ms, at);
            }
        }
        let probed = self.probes.take_result().filter(|_| self.detector.usage != Usage::Over);
        match probed {
            Some(bps) => {
                self.delay_based.set(bps, self.received.bps(), now);
                self.loss_based.bps = self.delay_based.bps;
            }
            None => self.delay_based.update(self.detector.usage, self.received.bps(), rtt, now),
        }
        let lost = report.expected as i64 - report.packets.len() as i64;
        self.loss_based.update(report.expected, lost, rtt, now);
        self.loss_based.bps = self.loss_based.bps.max(self.bounds_bps[0]).min(self.delay_based.bps);
        self.probes.on_estimate(self.rate_bps(), now);
    }

    fn on_sent(&mut self, number: u64, bytes: u32, now: Time) {
        self.probes.on_sent(number, bytes, now);
    }

    fn padding(&self) -> Option<(Time, u32)> {
        self.probes.padding()
    }

    fn reports_bps(&self) -> f64 {
        8.0 * f64::from(REPORT_HEADER) / FEEDBACK.as_secs_f64()
    }
}

/// State of the receiver: packets that are not reported yet.
#[derive(Clone, Debug, Default)]
struct Receiver {
    packets: Vec<Arrival>,
    /// One more than the highest number that has arrived, now and at the last report.
    next: u64,
    reported: u64,
    /// When the next report is due; `None` before the first packet.
    due: Option<Time>,
}

impl Receiver {
    fn on_packet(&mut self, packet: Arrival) -> Option<(u32, Report)> {
        let due = *self.due.get_or_insert_with(|| {
            self.reported = packet.number;
            packet.at + FEEDBACK
        });
        self.next = self.next.max(packet.number + 1);
        self.packets.push(packet);
        if packet.at < due {
            return None;
        }
        self.due = Some(if due + FEEDBACK > packet.at { due + FEEDBACK } else { packet.at + FEEDBACK });
        let expected = self.next - self.reported;
        self.reported = self.next;
        let packets = std::mem::take(&mut self.packets);
        Some((report_bytes(expected, &packets), Report { packets, expected }))
    }
}

/// IP length of a transport-wide feedback message. Two bytes encode a run of equal states, 14 one-bit states, or 7
/// two-bit states. An arrival takes one byte, or two after a long gap.
fn report_bytes(expected: u64, packets: &[Arrival]) -> u32 {
    let wide = packets.windows(2).filter(|pair| pair[1].at.since(pair[0].at) > SMALL_GAP).count() as u64;
    let received = packets.len() as u64;
    let chunks = match (expected <= received && (wide == 0 || wide == received), wide) {
        (true, _) => 1,
        (false, 0) => expected.max(received).div_ceil(14),
        (false, _) => expected.max(received).div_ceil(7),
    };
    REPORT_HEADER + ((2 * chunks + received + wide).div_ceil(4) * 4) as u32
}

/// Bytes that arrived in the last 500 ms, according to the reports.
#[derive(Clone, Debug, Default)]
struct Received {
    packets: VecDeque<(Time, u32)>,
    bytes: u64,
    is_full: bool,
}

impl Received {
    fn add(&mut self, packet: &Arrival) {
        self.packets.push_back((packet.at, packet.bytes));
        self.bytes += u64::from(packet.bytes);
        while let Some((at, bytes)) = self.packets.front().copied()
            && at + RECEIVED_WINDOW <= packet.at
        {
            self.packets.pop_front();
            self.bytes -= u64::from(bytes);
            self.is_full = true;
        }
    }

    /// Received rate; `None` before the first 500 ms have passed.
    fn bps(&self) -> Option<f64> {
        self.is_full.then(|| 8.0 * self.bytes as f64 / RECEIVED_WINDOW.as_secs_f64())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Hold,
    Increase,
    Decrease,
}

/// The delay-based estimator (A).
#[derive(Clone, Debug)]
struct DelayBased {
    bounds_bps: [f64; 2],
    bps: f64,
    phase: Phase,
    updated: Time,
    decreased: Option<Time>,
    /// Mean received rate at overuse, and the ratio of its variance to the mean.
    mean: Option<f64>,
    spread: f64,
}

impl DelayBased {
    fn new(bounds_bps: [f64; 2], bps: f64) -> Self {
        DelayBased {
            bounds_bps,
            bps,
            phase: Phase::Increase,
            updated: Time::ZERO,
            decreased: None,
            mean: None,
            spread: SPREADS.0,
        }
    }

    fn update(&mut self, usage: Usage, received_bps: Option<f64>, rtt: f64, now: Time) {
        let received = received_bps.unwrap_or(self.bps);
        if usage == Usage::Over && !self.may_decrease(received, rtt, now) {
            return;
        }
        self.phase = match (usage, self.phase) {
            (Usage::Over, _) => Phase::Decrease,
            (Usage::Normal, Phase::Hold | Phase::Increase) => Phase::Increase,
            (Usage::Normal, Phase::Decrease) | (Usage::Under, _) => Phase::Hold,
        };
        let passed = now.since(self.updated).as_secs_f64();
        self.updated = now;
        match self.phase {
            Phase::Hold => {}
            Phase::Increase => self.increase(received, rtt, passed),
            Phase::Decrease => self.decrease(received, now),
        }
        self.bps = self.bps.clamp(self.bounds_bps[0], self.bounds_bps[1]);
    }

    /// Takes the result of a probe. The rate does not fall far below the received rate, which is certain.
    fn set(&mut self, probed: f64, received_bps: Option<f64>, now: Time) {
        let least = received_bps.map_or(0.0, |received| self.bps.min(BETA * received));
        let bps = probed.max(least).clamp(self.bounds_bps[0], self.bounds_bps[1]);
        if bps < self.bps {
            self.decreased = Some(now);
        }
        (self.bps, self.updated) = (bps, now);
    }

    /// Whether the rate may decrease: the last decrease is at least a round trip ago, or far less arrives than is sent.
    fn may_decrease(&self, received: f64, rtt: f64, now: Time) -> bool {
        let interval = rtt.clamp(DECREASE_INTERVALS.0, DECREASE_INTERVALS.1);
        let is_over = |last: Time| now.since(last).as_secs_f64() >= interval;
        self.decreased.is_none_or(is_over) || received < self.bps / 2.0
    }

    fn increase(&mut self, received: f64, rtt: f64, passed: f64) {
        if self.mean.is_some_and(|mean| received > mean + self.width(mean)) {
            self.mean = None;
        }
        let is_near = self.mean.is_some_and(|mean| (received - mean).abs() <= self.width(mean));
        let increased = if is_near {
            let frame = self.bps / FRAMES_PER_SECOND;
            let packet = frame / (frame / PACKET_BITS).ceil();
            let response = REACTION + rtt;
            self.bps + (0.5 * (passed / response).min(1.0) * packet).max(LEAST_GROWTH * passed)
        } else {
            self.bps * math::powf(ETA, passed.min(1.0))
        };
        self.bps = increased.min(AHEAD * received).max(self.bps);
    }

    fn decrease(&mut self, received: f64, now: Time) {
        self.bps = self.bps.min(BETA * received);
        self.decreased = Some(now);
        if self.mean.is_some_and(|mean| received < mean - self.width(mean)) {
            self.mean = None;
        }
        let mean = self.mean.map_or(received, |mean| mean + MEAN_GAIN * (received - mean));
        let error = mean - received;
        let spread = self.spread + MEAN_GAIN * (error * error / mean.max(1.0) - self.spread);
        (self.mean, self.spread) = (Some(mean), spread.clamp(SPREADS.0, SPREADS.1));
    }

    /// Distance from the mean within which a rate counts as near it.
    fn width(&self, mean: f64) -> f64 {
        DEVIATIONS * (self.spread * mean).sqrt()
    }
}

/// The loss-based estimator (B).
#[derive(Clone, Debug)]
struct LossBased {
    bps: f64,
    expected: u64,
    lost: i64,
    decreased: Option<Time>,
}

impl LossBased {
    fn new(bps: f64) -> Self {
        LossBased { bps, expected: 0, lost: 0, decreased: None }
    }

    fn update(&mut self, expected: u64, lost: i64, rtt: f64, now: Time) {
        self.expected += expected;
        self.lost += lost;
        if self.expected < ENOUGH_PACKETS {
            return;
        }
        let share = self.lost.max(0) as f64 / self.expected as f64;
        (self.expected, self.lost) = (0, 0);
        let may_decrease =
            self.decreased.is_none_or(|last| now.since(last).as_secs_f64() >= LOSS_INTERVAL + rtt);
        if share < LOW_LOSS {
            self.bps *= 1.05;
        } else if share > HIGH_LOSS && may_decrease {
            self.bps *= 1.0 - 0.5 * share;
            self.decreased = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn at_ms(ms: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(1e-3 * ms)
    }

    pub(super) fn packet(number: u64, sent_ms: f64, at: f64) -> Arrival {
        Arrival { at: at_ms(at), sent: at_ms(sent_ms), number, bytes: 1000, is_marked: false }
    }

    #[track_caller]
    pub(super) fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{found}, expected {expected}");
    }

    #[test]
    fn the_rate_follows_the_states_of_the_draft() {
        let mut rate = DelayBased::new([1e5, 1e7], 1e6);
        let mut now = 0.0;
        let mut update = |usage: Usage, received: f64| {
            now += 50.0;
            rate.update(usage, Some(received), 0.1, at_ms(now));
            rate.bps
        };
        use Usage::{Normal, Over, Under};
        // 8 % a second, never beyond 1.5 times what arrives.
        assert_near(update(Normal, 1e6), 1_003_855.465_314);
        assert_near(update(Normal, 6.7e5), 1_005_000.0);
        // 0.85 of what arrives. The next decrease is an RTT of 100 ms later, or at once if less than half arrives.
        assert_near(update(Over, 1e6), 850_000.0);
        assert_near(update(Over, 9e5), 850_000.0);
        assert_near(update(Over, 9e5), 765_000.0);
        assert_near(update(Over, 3e5), 255_000.0);
        // One normal report holds it, underuse too.
        assert_near(update(Normal, 3e5), 255_000.0);
        assert_near(update(Under, 3e5), 255_000.0);
        // What arrives is near its mean at overuse, which has restarted: an eighth of a frame of 8,500 bit.
        assert_near(update(Normal, 3e5), 256_062.5);
    }

    #[test]
    fn near_the_mean_at_overuse_it_grows_by_half_a_packet_a_response_time() {
        let mut rate = DelayBased::new([1e5, 1e7], 1e6);
        rate.update(Usage::Over, Some(1e6), 0.1, at_ms(50.0));
        // Three times √(400·10⁶) bit/s: within 60 kbit/s of a megabit.
        assert_near(rate.width(1e6), 60_000.0);
        rate.update(Usage::Normal, Some(1e6), 0.1, at_ms(100.0));
        rate.bps = 950_000.0;
        // A frame of 31,667 bit is four packets of 7,917; a quarter of a response time of 200 ms: an eighth of one.
        rate.update(Usage::Normal, Some(9.5e5), 0.1, at_ms(150.0));
        assert_near(rate.bps, 950_989.583_333);
        // An RTT of 1.4 s: 4 kbit/s a second are more.
        rate.update(Usage::Normal, Some(9.5e5), 1.4, at_ms(200.0));
        assert_near(rate.bps, 951_189.583_333);
        // Farther away by multiplication; above it the mean is forgotten.
        rate.bps = 900_000.0;
        rate.update(Usage::Normal, Some(9.3e5), 0.1, at_ms(250.0));
        assert_near(rate.bps, 900_000.0 * math::powf(1.08, 0.05));
        assert!(rate.mean.is_some());
        rate.update(Usage::Normal, Some(1.07e6), 0.1, at_ms(300.0));
        assert!(rate.mean.is_none());
    }

    #[test]
    fn losses_of_twenty_packets_decide() {
        let mut losses = LossBased::new(1e6);
        losses.update(10, 0, 0.1, at_ms(50.0));
        assert_near(losses.bps, 1e6);
        losses.update(10, 0, 0.1, at_ms(100.0));
        assert_near(losses.bps, 1_050_000.0);
        // 5 %: as it is. 20 %: a tenth less, but once in 300 ms and a round trip.
        losses.update(20, 1, 0.1, at_ms(150.0));
        assert_near(losses.bps, 1_050_000.0);
        losses.update(20, 4, 0.1, at_ms(200.0));
        assert_near(losses.bps, 945_000.0);
        losses.update(20, 4, 0.1, at_ms(599.0));
        assert_near(losses.bps, 945_000.0);
        losses.update(20, 4, 0.1, at_ms(600.0));
        assert_near(losses.bps, 850_500.0);
    }

    #[test]
    fn a_report_has_what_arrived_since_the_last_one_and_what_should_have() {
        let mut receiver = Receiver::default();
        assert!(receiver.on_packet(packet(3, 0.0, 50.0)).is_none());
        assert!(receiver.on_packet(packet(4, 20.0, 70.0)).is_none());
        // 5 is lost. 48 bytes, one chunk of 14 states and three gaps: 53, in words of four bytes.
        let (bytes, report) = receiver.on_packet(packet(6, 60.0, 110.0)).expect("50 ms are over");
        assert_eq!((bytes, report.packets.len(), report.expected), (56, 3, 4));
        // 50 ms after the last one was due, not after it left.
        assert!(receiver.on_packet(packet(7, 90.0, 140.0)).is_none());
        let (bytes, report) = receiver.on_packet(packet(8, 101.0, 151.0)).expect("it was due at 150 ms");
        assert_eq!((bytes, report.packets.len(), report.expected), (52, 2, 2));
    }

    #[test]
    fn what_arrives_is_counted_over_500_ms() {
        let mut received = Received::default();
        for n in 0..50 {
            received.add(&packet(n, 0.0, 10.0 * n as f64));
            assert_eq!(received.bps(), None);
        }
        received.add(&packet(50, 0.0, 500.0));
        assert_near(received.bps().expect("500 ms are over"), 800_000.0);
    }
}
