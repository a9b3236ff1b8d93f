//! NADA: a media flow whose receiver reports a congestion signal computed from delay, losses and marks (RFC 8698).

use std::collections::VecDeque;

use super::media::{Arrival, FPS, MAX_RATE, MediaFlow, PACKET_BYTES, RateControl};
use crate::math;
use crate::params::{Card, Checked, ParamSpec};
use crate::time::{Duration, Time};

const CARD: Card = Card {
    name: "media",
    title: "Rate-adaptive media (NADA)",
    law: "`fps` frames a second, each cut into packets of at most `packet_bytes` that leave at equal intervals until \
          the next frame. The receiver reports every 100 ms: x = d + 10 ms·(p_loss/1 %)² + 2 ms·(p_mark/1 %)², d the \
          queueing delay, but at most 500 ms. While the last 500 ms had no loss and no delay of 10 ms: r ← max(r, (1+γ)·r_received), \
          γ = min(0.5, 50 ms/(rtt + 220 ms)). Else r ← r·(1 − 0.5·δ/τ·(x − priority·10 ms·max_rate/r)/τ − (x − x′)/τ), \
          τ = 500 ms, δ the time since the last report and x′ its x. At rest x = priority·10 ms·max_rate/r",
    source: "RFC 8698 section 4 (NADA), parameters of its table 2. What a delay beyond 50 ms counts after \
             losses, filters, loss intervals and the bound of x are the authors' ns3-rmcat (cisco/ns3-rmcat, \
             of draft-ietf-rmcat-nada-05). The parameters of marks are quoted from memory",
    differs: &[
        "the encoder gives exactly the rate it is asked for, so there is no rate-shaping buffer (section 5.2)",
        "a report leaves with the first packet that arrives 100 ms after the last one, not by a timer of its own; while \
         nothing arrives the rate stays",
        "the base delay is the smallest ever seen: it is not forgotten after ten minutes",
        "after a pause the rate begins at `min_rate` again",
    ],
    live_twin: Some("tailback socket application"),
    params: &[
        ParamSpec::whole(
            "min_rate",
            "bit/s",
            150_000,
            (1_000, 1_000_000_000),
            "Smallest rate, and the first (RMIN).",
        ),
        MAX_RATE,
        FPS,
        PACKET_BYTES,
        ParamSpec::number("priority", "", 1.0, (0.01, 100.0), "Weight of the flow among others (PRIO)."),
        ParamSpec::flag("ecn", false, "Its packets may be marked instead of dropped."),
    ],
};

// RFC 8698 table 2, in seconds where they are times.
const XREF: f64 = 0.010;
const KAPPA: f64 = 0.5;
const ETA: f64 = 2.0;
const TAU: f64 = 0.5;
const DELTA: Duration = Duration::from_ms(100);
const LOGWIN: Duration = Duration::from_ms(500);
const QEPS: f64 = 0.010;
const DFILT: f64 = 0.120;
const GAMMA_MAX: f64 = 0.5;
const QBOUND: f64 = 0.050;
const MULTILOSS: f64 = 7.0;
const QTH: f64 = 0.050;
const LAMBDA: f64 = 0.5;
const PLRREF: f64 = 0.01;
const PMRREF: f64 = 0.01;
const DLOSS: f64 = 0.010;
const DMARK: f64 = 0.002;
const ALPHA: f64 = 0.1;
/// Upper bound on the signal, from ns3-rmcat. Without it, losing a third of all packets has a penalty of 12 s, whose
/// decay alone multiplies the rate by thousands.
const XMAX: f64 = 0.5;
/// Number of packets over which the minimum delay is taken: 120 ms at 1 Mbit/s.
const TAPS: usize = 15;
/// IPv4 20, UDP 8, RTCP's header and sender 8, the report's name and values 28 (section 5.3).
const REPORT_BYTES: u32 = 64;
/// Weights of the last loss intervals, newest first (RFC 5348 section 5.4).
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
/// Content of a report.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Whether the path is underused, so that the rate may increase fast.
    is_free: bool,
    /// The congestion signal, in seconds.
    signal: f64,
    /// Received rate in bit/s.
    received_bps: f64,
    /// Send time of the packet that triggered it.
    sent: Time,
}

/// A media flow with NADA.
pub type Media = MediaFlow<Nada>;

/// State of the sender's rate and of the receiver's signal.
#[derive(Clone, Debug)]
pub struct Nada {
    min_bps: f64,
    max_bps: f64,
    priority: f64,
    ecn: bool,
    // The sender. Its rate, and the signal and the time of the last report.
    rate_bps: f64,
    signal: f64,
    updated: Time,
    receiver: Receiver,
}

impl RateControl for Nada {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Video call";
    type Report = Report;

    fn new(given: &Checked<'_>, [min_bps, max_bps]: [f64; 2]) -> Self {
        Nada {
            min_bps,
            max_bps,
            priority: given.number("priority"),
            ecn: given.flag("ecn"),
            rate_bps: min_bps,
            signal: 0.0,
            updated: Time::NEVER,
            receiver: Receiver::default(),
        }
    }

    fn begin(&mut self, now: Time) {
        (self.rate_bps, self.updated) = (self.min_bps, now);
    }

    fn rate_bps(&self) -> f64 {
        self.rate_bps
    }

    fn on_packet(&mut self, packet: Arrival) -> Option<(u32, Report)> {
        self.receiver.on_packet(packet).map(|report| (REPORT_BYTES, report))
    }

    fn on_report(&mut self, report: Report, now: Time) {
        let delta = now.since(self.updated).as_secs_f64();
        self.rate_bps = if report.is_free {
            self.jumped(&report, now.since(report.sent).as_secs_f64())
        } else {
            self.adjusted(report.signal, delta)
        };
        self.rate_bps = self.rate_bps.min(self.max_bps).max(self.min_bps);
        (self.signal, self.updated) = (report.signal, now);
    }

    fn reports_bps(&self) -> f64 {
        8.0 * f64::from(REPORT_BYTES) / DELTA.as_secs_f64()
    }

    fn ecn(&self) -> bool {
        self.ecn
    }
}

impl Nada {
    /// Accelerated ramp-up (equations 3 and 4).
    fn jumped(&self, report: &Report, rtt: f64) -> f64 {
        let gamma = GAMMA_MAX.min(QBOUND / (rtt + DELTA.as_secs_f64() + DFILT));
        self.rate_bps.max((1.0 + gamma) * report.received_bps)
    }

    /// Gradual update (equations 5 to 7).
    fn adjusted(&self, signal: f64, delta: f64) -> f64 {
        let offset = signal - self.priority * XREF * self.max_bps / self.rate_bps;
        let change = signal - self.signal;
        self.rate_bps * (1.0 - KAPPA * (delta / TAU) * (offset / TAU) - KAPPA * ETA * (change / TAU))
    }
}

/// State of the receiver.
#[derive(Clone, Debug, Default)]
struct Receiver {
    /// Packets of the last 500 ms, with the delay of each.
    recent: VecDeque<(Arrival, f64)>,
    /// One more than the highest number removed from `recent`, or the first number.
    oldest: u64,
    /// One more than the highest number that has arrived.
    expected: Option<u64>,
    base_delay: f64,
    loss: f64,
    marks: f64,
    /// Packets since the last loss, then between earlier losses, newest first; the oldest interval starts at the first
    /// packet.
    intervals: VecDeque<u64>,
    /// When the next report is due.
    due: Time,
}

impl Receiver {
    fn on_packet(&mut self, packet: Arrival) -> Option<Report> {
        let delay = packet.at.since(packet.sent).as_secs_f64();
        let Some(expected) = self.expected else {
            (self.oldest, self.expected, self.base_delay) = (packet.number, Some(packet.number + 1), delay);
            self.due = packet.at + DELTA;
            self.intervals.push_back(1);
            self.recent.push_back((packet, delay));
            return None;
        };
        self.base_delay = self.base_delay.min(delay);
        self.count_interval(expected, packet.number);
        self.expected = Some(expected.max(packet.number + 1));
        self.recent.push_back((packet, delay));
        while self.recent.front().is_some_and(|(old, _)| old.at + LOGWIN <= packet.at) {
            let (old, _) = self.recent.pop_front().expect("there is a front");
            self.oldest = self.oldest.max(old.number + 1);
        }
        if packet.at < self.due {
            return None;
        }
        self.due = if self.due + DELTA > packet.at { self.due + DELTA } else { packet.at + DELTA };
        Some(self.report(packet.at, packet.sent))
    }

    /// A gap begins a new interval, as in ns3-rmcat; RFC 5348 would combine the losses of one RTT.
    fn count_interval(&mut self, expected: u64, number: u64) {
        if number > expected {
            self.intervals.push_front(1);
            self.intervals.truncate(WEIGHTS.len() + 1);
        } else if number == expected {
            self.intervals[0] += 1;
        }
    }

    fn report(&mut self, now: Time, sent: Time) -> Report {
        let (first, delays) = (self.recent.front().expect("the packet is there").0, self.recent.iter());
        let received = self.recent.len() as f64;
        let sent_of_them = self.expected.map_or(0, |next| next.saturating_sub(self.oldest)) as f64;
        let lost = (sent_of_them - received).max(0.0);
        let marked = delays.clone().filter(|(packet, _)| packet.is_marked).count() as f64;
        self.loss += ALPHA * (lost / (lost + received) - self.loss);
        self.marks += ALPHA * (marked / received - self.marks);
        // The first packet's bytes came before the interval that is counted.
        let bytes: f64 = delays.clone().skip(1).map(|(packet, _)| f64::from(packet.bytes)).sum();
        let span = now.since(first.at).as_secs_f64();
        let is_free = lost == 0.0 && delays.clone().all(|(_, delay)| delay - self.base_delay < QEPS);
        let least = delays.rev().take(TAPS).fold(f64::INFINITY, |least, (_, delay)| least.min(*delay));
        let signal = self.warped(least - self.base_delay)
            + DLOSS * (self.loss / PLRREF) * (self.loss / PLRREF)
            + DMARK * (self.marks / PMRREF) * (self.marks / PMRREF);
        let received_bps = if span > 0.0 { 8.0 * bytes / span } else { 0.0 };
        Report { is_free, signal: signal.min(XMAX), received_bps, sent }
    }

    /// Equation 1: when competing with senders that fill the queue until it overflows, a long delay counts less, for
    /// seven mean loss intervals after a loss. During one more interval it returns to full weight.
    fn warped(&self, delay: f64) -> f64 {
        if delay < QTH || self.intervals.len() < 2 {
            return delay;
        }
        let (current, mean) = (self.intervals[0] as f64, self.mean_interval());
        let warped = QTH * math::exp(-LAMBDA * (delay - QTH) / QTH);
        let full = ((current - MULTILOSS * mean) / mean).clamp(0.0, 1.0);
        full * delay + (1.0 - full) * warped
    }

    /// RFC 5348 section 5.4: mean over the completed intervals, or including the current one if that is longer.
    fn mean_interval(&self) -> f64 {
        let ended = self.intervals.len() - 1;
        let weighed = |skip: usize| -> f64 {
            let pairs = self.intervals.iter().skip(skip).take(ended).zip(WEIGHTS);
            pairs.map(|(packets, weight)| *packets as f64 * weight).sum()
        };
        let total: f64 = WEIGHTS.iter().take(ended).sum();
        weighed(0).max(weighed(1)) / total
    }
}
