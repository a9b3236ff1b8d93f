//! SCReAM's receiver: records arrivals and schedules reports (RFC 8298 section 4.2).

use std::collections::VecDeque;

use super::super::media::{Arrival, keep_latest};
use crate::time::{Duration, Time};

/// IPv4 20, UDP 8, and the usual message of 44 bytes (section 4.2.1).
pub const REPORT_BYTES: u32 = 72;
/// Reports per second: rate_fb = min(50, max(2.5, rate/10000)) (section 4.2.2).
pub const LEAST_REPORTS: f64 = 2.5;
const MOST_REPORTS: f64 = 50.0;
const RATE_OF_A_REPORT: f64 = 10_000.0;
/// Number of packets, up to the newest, whose arrival a report covers.
const COVERED: usize = 256;
const RATE_INTERVAL: Duration = Duration::from_ms(200);

/// Content of a report.
#[derive(Clone, Debug)]
pub struct Report {
    /// Highest number that has arrived.
    pub highest: u64,
    /// When the highest number arrived.
    pub at: Time,
    /// Lower numbers that have not arrived, in order.
    pub missing: Vec<u64>,
    /// Number of packets that have arrived with a mark.
    pub marked: u64,
}

/// State of the receiver.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    /// Whether each of the last packets has arrived, and one more than the last number.
    arrived: VecDeque<bool>,
    next: u64,
    highest_at: Time,
    marked: u64,
    has_news: bool,
    reported: Option<Time>,
    // The rate, over 200 ms.
    rate_bps: f64,
    bytes: u64,
    counted_from: Time,
}

impl Receiver {
    pub fn on_packet(&mut self, packet: Arrival) -> Option<Report> {
        self.count(packet.at, packet.bytes);
        self.marked += u64::from(packet.is_marked);
        self.has_news = true;
        if packet.number >= self.next {
            while self.next < packet.number {
                self.push(false);
            }
            self.push(true);
            self.highest_at = packet.at;
        } else if let Some(place) = (self.arrived.len() as u64).checked_sub(self.next - packet.number) {
            self.arrived[place as usize] = true;
        }
        (self.due() <= packet.at).then(|| self.report(packet.at))
    }

    fn push(&mut self, has_arrived: bool) {
        keep_latest(&mut self.arrived, has_arrived, COVERED);
        self.next += 1;
    }

    fn count(&mut self, at: Time, bytes: u32) {
        self.bytes += u64::from(bytes);
        let passed = at.since(self.counted_from);
        if passed >= RATE_INTERVAL {
            self.rate_bps = 8.0 * self.bytes as f64 / passed.as_secs_f64();
            (self.bytes, self.counted_from) = (0, at);
        }
    }

    /// When the next report is due; [`Time::NEVER`] if nothing has arrived since the last one.
    pub fn due(&self) -> Time {
        match (self.has_news, self.reported) {
            (false, _) => Time::NEVER,
            (true, None) => Time::ZERO,
            (true, Some(last)) => {
                let reports = (self.rate_bps / RATE_OF_A_REPORT).clamp(LEAST_REPORTS, MOST_REPORTS);
                last + Duration::from_secs_f64(1.0 / reports)
            }
        }
    }

    pub fn report(&mut self, now: Time) -> Report {
        (self.has_news, self.reported) = (false, Some(now));
        let first = self.next - self.arrived.len() as u64;
        let missing = (first..).zip(&self.arrived).filter(|(_, has_arrived)| !**has_arrived);
        Report {
            highest: self.next - 1,
            at: self.highest_at,
            missing: missing.map(|(number, _)| number).collect(),
            marked: self.marked,
        }
    }
}
