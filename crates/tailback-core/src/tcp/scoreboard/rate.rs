//! Delivery-rate estimation (draft-cheng-iccrg-delivery-rate-estimation section 3).

use super::{Delivery, Scoreboard};
use crate::cc::DeliverySample;
use crate::time::{Bytes, Duration, Time};

/// The delivery-rate sample of an ACK.
#[derive(Clone, Copy, Debug)]
pub struct RateSample {
    /// Delivered bytes and the interval, from which the rate follows.
    pub delivery: DeliverySample,
    /// `delivered` when the sampled segment left.
    pub prior_delivered: Bytes,
    /// Whether the application limited the sender when the sampled segment left.
    pub app_limited: bool,
}

/// State of the segment that gives the sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateWork {
    /// Its send time and its end offset.
    pub left: (Time, u64),
    pub prior_delivered: Bytes,
    pub prior_time: Time,
    pub send_elapsed: Duration,
    pub app_limited: bool,
}

impl Scoreboard {
    /// The delivery-rate sample of the ACK just taken (draft-cheng section 3.3).
    pub fn rate_sample(&self, delivery: &Delivery, now: Time, rtt_min: Duration) -> Option<RateSample> {
        let work = delivery.work?;
        let interval = work.send_elapsed.max(now.since(work.prior_time));
        // An interval shorter than the minimum RTT would overestimate.
        if interval.is_zero() || (rtt_min != Duration::MAX && interval < rtt_min) {
            return None;
        }
        Some(RateSample {
            delivery: DeliverySample { bytes: self.delivered - work.prior_delivered, interval },
            prior_delivered: work.prior_delivered,
            app_limited: work.app_limited,
        })
    }

    /// Marks the flight as application-limited: the window had room, but there was no data to send or no space in the
    /// send buffer.
    pub fn on_app_limited(&mut self) {
        self.app_limited_until = (self.delivered + self.in_flight()).max(1);
    }

    /// Whether the application has limited the sender, and the data then in flight is not yet delivered, or only just.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }
}
