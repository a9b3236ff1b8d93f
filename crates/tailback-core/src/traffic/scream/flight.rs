//! Sent packets: bytes in flight and losses (RFC 8298 sections 4.1.2 and 4.1.2.4).

use std::collections::VecDeque;

use super::receiver::Report;
use crate::time::{Duration, Time};

/// Number of later acknowledged packets after which a packet is forgotten, because reports no longer cover it.
const REMEMBERED: u64 = 256;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Unknown,
    Arrived,
    /// Missing since this report, and whether it counts as lost.
    Missing(Time, bool),
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    sent: Time,
    bytes: u32,
    fate: Fate,
}

/// Result of a report.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Acked {
    /// Bytes up to the highest number, including lost ones.
    pub bytes: u64,
    /// RTT in seconds: from the departure of the packet with the highest number to the report.
    pub rtt: f64,
    /// One-way delay of that packet in seconds.
    pub delay: f64,
    /// Whether a packet was newly declared lost.
    pub is_lost: bool,
}

/// Sent packets by number.
#[derive(Clone, Debug, Default)]
pub struct Flight {
    /// Bytes beyond the highest acknowledged number.
    pub bytes: u64,
    packets: VecDeque<Packet>,
    /// Number of the first packet kept, and one more than the highest acknowledged number.
    first: u64,
    next: u64,
    /// Reordering allowance: how long a packet may be reported missing before it counts as lost.
    reordering: Duration,
}

impl Flight {
    pub fn on_sent(&mut self, number: u64, bytes: u32, now: Time) {
        if self.packets.is_empty() {
            (self.first, self.next) = (number, number);
        }
        self.packets.push_back(Packet { sent: now, bytes, fate: Fate::Unknown });
        self.bytes += u64::from(bytes);
    }

    /// Processes a report; `None` if it is about packets from before the start.
    pub fn on_report(&mut self, report: &Report, now: Time) -> Option<Acked> {
        let place = report.highest.checked_sub(self.first)? as usize;
        let highest = *self.packets.get(place)?;
        let mut acked = 0;
        while self.next <= report.highest {
            acked += u64::from(self.packets[(self.next - self.first) as usize].bytes);
            self.next += 1;
        }
        self.bytes -= acked;
        let is_lost = self.settle(report, place, now);
        while self.first + REMEMBERED < self.next {
            self.packets.pop_front();
            self.first += 1;
        }
        Some(Acked {
            bytes: acked,
            rtt: now.since(highest.sent).as_secs_f64(),
            delay: report.at.since(highest.sent).as_secs_f64(),
            is_lost,
        })
    }

    /// Updates the packets up to `place`; returns whether one is newly lost.
    fn settle(&mut self, report: &Report, place: usize, now: Time) -> bool {
        let mut is_lost = false;
        for (number, packet) in (self.first..).zip(self.packets.iter_mut()).take(place + 1) {
            let is_missing = report.missing.binary_search(&number).is_ok();
            match (packet.fate, is_missing) {
                (Fate::Arrived, _) => {}
                (Fate::Unknown, false) => packet.fate = Fate::Arrived,
                (Fate::Missing(since, _), false) => {
                    self.reordering = self.reordering.max(now.since(since));
                    packet.fate = Fate::Arrived;
                }
                (Fate::Unknown, true) => packet.fate = Fate::Missing(now, false),
                (Fate::Missing(..), true) => {}
            }
            if let Fate::Missing(since, false) = packet.fate
                && now.since(since) >= self.reordering
            {
                packet.fate = Fate::Missing(since, true);
                is_lost = true;
            }
        }
        is_lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_ms(ms)
    }

    fn report(highest: u64, missing: &[u64], at_ms: u64) -> Report {
        Report { highest, at: at(at_ms), missing: missing.to_vec(), marked: 0 }
    }

    #[test]
    fn what_is_in_flight_lies_beyond_the_highest_number_whether_lost_or_not() {
        let mut flight = Flight::default();
        for number in 7..17 {
            flight.on_sent(number, 1000, at(10 * number));
        }
        assert_eq!(flight.bytes, 10_000);
        // 7 and 8 arrive, 9 is missing, 10 arrives at 150: the RFC counts 9 as acknowledged.
        let acked = flight.on_report(&report(10, &[9], 150), at(200)).expect("it is of this flight");
        assert_eq!((acked.bytes, flight.bytes), (4000, 6000));
        assert!((acked.rtt - 0.1).abs() < 1e-9 && (acked.delay - 0.05).abs() < 1e-9 && acked.is_lost);
        // The same loss is no new one.
        let again = flight.on_report(&report(11, &[9], 160), at(210)).expect("it is of this flight");
        assert_eq!((again.bytes, again.is_lost), (1000, false));
        assert_eq!(flight.on_report(&report(6, &[], 100), at(220)), None);
    }

    #[test]
    fn after_a_late_arrival_a_packet_may_be_as_late_before_it_counts_as_lost() {
        let mut flight = Flight::default();
        for number in 0..20 {
            flight.on_sent(number, 1000, at(0));
        }
        let lost = |flight: &mut Flight, highest: u64, missing: &[u64], ms: u64| {
            flight.on_report(&report(highest, missing, ms), at(ms)).expect("it is of this flight").is_lost
        };
        assert!(lost(&mut flight, 5, &[3], 100));
        assert!(!lost(&mut flight, 6, &[], 130));
        assert!(!lost(&mut flight, 8, &[7], 140));
        assert!(!lost(&mut flight, 9, &[7], 169));
        assert!(lost(&mut flight, 10, &[7], 170));
    }
}
