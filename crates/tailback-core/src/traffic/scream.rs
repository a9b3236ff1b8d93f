//! SCReAM: a self-clocked media flow whose window follows the queueing delay (RFC 8298).

mod flight;
mod rate;
mod receiver;
mod window;

use self::flight::Flight;
use self::rate::MediaRate;
use self::receiver::{REPORT_BYTES, Receiver, Report};
use self::window::{Congestion, Window};
use super::media::{Arrival, FPS, MAX_RATE, MediaFlow, PACKET_BYTES, RateControl};
use crate::params::{Card, Checked, ParamSpec};
use crate::time::{Duration, Time};

const CARD: Card = Card {
    name: "media-scream",
    title: "Rate-adaptive media (SCReAM)",
    law: "frames and packets as `media` has them, in a queue until the window lets them leave. q is the queueing \
          delay of the newest packet, T its target. Each report of a acknowledged bytes gives cwnd ← cwnd + (1 − \
          q/T)·a·mss/cwnd, without growth while less than 4/5 of the window is in use. Before the first sign of \
          congestion, and after 5 s without one, cwnd ← cwnd + a. The sign is a trend of at least 0.2: the \
          autocorrelation of the last 20 samples of q/T, 50 ms apart, times their mean. A loss gives 0.8·cwnd, a mark \
          0.9·cwnd, once a round trip. cwnd stays below 1.1 times what was in flight in the last 5 s, and above 3000 B. \
          A packet leaves while cwnd (+ mss if q ≤ T) has room, at most at cwnd/srtt. With `compensation` T ← 100 \
          ms·(mean + deviation of q/100 ms), 1.5 times as much if losses are frequent, between `target` and 400 ms. \
          The encoder's rate grows every 200 ms by `ramp_up`·200 ms, more slowly near the rate of the last \
          congestion. It falls to 0.95 of itself while the sender's queue holds more than 20 ms, and to 0.9 at a loss \
          or mark. The receiver reports 2.5 to 50 times a second, once per 10 kbit/s",
    source: "RFC 8298 sections 4.1 and 4.2, with its recommended constants (version 1; SCReAM version 2, \
             draft-ietf-ccwg-rfc8298bis-screamv2, is another algorithm). The limit of what waits: the authors' test \
             program (EricssonResearch/scream), 0.2 s, at most every 0.25 s",
    differs: &[
        "mss is `packet_bytes`, and the frequency of losses a mean over 100 round trips: the RFC leaves it open",
        "the inflection point of the rate is the rate at the last loss or mark, and at the end of a fast increase",
        "a second after the last packet and report one packet leaves whatever the window: the RFC has no timer",
        "the encoder gives exactly the rate it is asked for; one stream",
        "a report covers the last 256 packets and is as long as the RFC's usual one, 72 bytes",
        "after a pause everything begins again at `min_rate`",
    ],
    live_twin: Some("tailback socket application"),
    params: &[
        ParamSpec::whole(
            "min_rate",
            "bit/s",
            150_000,
            (1_000, 1_000_000_000),
            "Smallest rate, and the first.",
        ),
        MAX_RATE,
        FPS,
        PACKET_BYTES,
        ParamSpec::number("target", "ms", 100.0, (1.0, 400.0), "Smallest target of the queueing delay."),
        ParamSpec::flag("compensation", true, "Raise the target beside flows that fill the queue."),
        ParamSpec::whole("ramp_up", "bit/s²", 200_000, (1_000, 1_000_000_000), "Fastest growth of the rate."),
        ParamSpec::number(
            "discard",
            "ms",
            200.0,
            (1.0, 1e6),
            "What waits longer at the sender is discarded.",
        ),
        ParamSpec::flag("ecn", false, "Its packets may be marked instead of dropped."),
    ],
};

/// Minimum time between two discards.
const DISCARD_INTERVAL: Duration = Duration::from_ms(250);
/// After this time without sending or receiving, the sender sends one packet.
const STALL: Duration = Duration::from_ms(1_000);

/// A media flow with SCReAM.
pub type MediaScream = MediaFlow<Scream>;

/// State of the sender and of the receiver.
#[derive(Clone, Debug)]
pub struct Scream {
    ecn: bool,
    discard: Duration,
    discarded: Time,
    flight: Flight,
    window: Window,
    media: MediaRate,
    marked: u64,
    /// When pacing allows the next packet, and when a packet may leave despite a full window.
    paced: Time,
    stalled: Time,
    receiver: Receiver,
}

impl RateControl for Scream {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Video call (SCReAM)";
    type Report = Report;
    const REPORTS_RELEASE: bool = true;

    fn new(given: &Checked<'_>, bounds_bps: [f64; 2]) -> Self {
        Scream {
            ecn: given.flag("ecn"),
            discard: Duration::from_secs_f64(1e-3 * given.number("discard")),
            discarded: Time::ZERO,
            flight: Flight::default(),
            window: Window::new(
                given.whole("packet_bytes") as f64,
                1e-3 * given.number("target"),
                given.flag("compensation"),
            ),
            media: MediaRate::new(bounds_bps, given.whole("ramp_up") as f64),
            marked: 0,
            paced: Time::ZERO,
            stalled: Time::ZERO,
            receiver: Receiver::default(),
        }
    }

    fn begin(&mut self, now: Time) {
        self.flight = Flight::default();
        self.window.restart(now);
        self.media.restart(now);
        (self.discarded, self.paced, self.stalled) = (now, now, now + STALL);
    }

    fn rate_bps(&self) -> f64 {
        self.media.target_bps
    }

    fn on_packet(&mut self, packet: Arrival) -> Option<(u32, Report)> {
        self.receiver.on_packet(packet).map(|report| (REPORT_BYTES, report))
    }

    fn report_due(&self) -> Time {
        self.receiver.due()
    }

    fn on_report_due(&mut self, now: Time) -> Option<(u32, Report)> {
        Some((REPORT_BYTES, self.receiver.report(now)))
    }

    fn on_report(&mut self, report: Report, now: Time) {
        let marks = report.marked.saturating_sub(self.marked);
        self.marked = self.marked.max(report.marked);
        self.stalled = now + STALL;
        let Some(acked) = self.flight.on_report(&report, now) else { return };
        self.media.on_acked(acked.bytes);
        let congestion = match (acked.is_lost, marks > 0 && self.ecn) {
            (true, _) => Some(Congestion::Loss),
            (false, true) => Some(Congestion::Mark),
            (false, false) => None,
        };
        let was_fast = self.window.is_fast;
        let reacted = self.window.on_acked(&acked, self.flight.bytes, congestion, now);
        match reacted {
            Some(_) => self.media.on_congestion(),
            None if was_fast && !self.window.is_fast => self.media.on_inflection(),
            None => {}
        }
    }

    fn on_produced(&mut self, bytes: u32, now: Time) {
        self.media.on_produced(bytes);
        self.media.adjust(&self.window, now);
    }

    fn leaves_at(&self, bytes: u32, now: Time) -> Time {
        let is_open = self.flight.bytes == 0 || f64::from(bytes) <= self.window.room(self.flight.bytes);
        let at = if is_open { self.paced } else { self.paced.max(self.stalled) };
        now.max(at)
    }

    fn on_sent(&mut self, number: u64, bytes: u32, now: Time) {
        self.flight.on_sent(number, bytes, now);
        self.window.on_sent(self.flight.bytes, now);
        self.media.on_sent(bytes);
        self.paced = now + Duration::from_secs_f64(self.window.pace(bytes));
        self.stalled = now + STALL;
    }

    fn discards(&mut self, oldest: Time, now: Time) -> bool {
        if now.since(oldest) <= self.discard || now.since(self.discarded) < DISCARD_INTERVAL {
            return false;
        }
        self.discarded = now;
        self.media.on_discarded();
        true
    }

    fn reports_bps(&self) -> f64 {
        8.0 * f64::from(REPORT_BYTES) * receiver::LEAST_REPORTS
    }

    fn ecn(&self) -> bool {
        self.ecn
    }
}
