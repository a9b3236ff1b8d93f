//! A policer: a token bucket that drops packets above its rate. It queues nothing, so it adds no delay.
//!
//! Law: the bucket gains rate/8 bytes per second up to `burst`. A packet of L bytes that finds L tokens takes them and
//! passes; any other is dropped and takes none. So at most burst + rate·t/8 bytes pass in any interval of length t, and
//! a sender that always offers more than the rate gets the rate.
//!
//! Source: RFC 2697 section 3, color-blind mode with one bucket (EBS = 0: what is not green is dropped); Linux's `tc-police`
//! with `conform-exceed drop/pass` and no peak rate.
//!
//! Differs from the source:
//! - Bytes are IP bytes; `tc police` on Ethernet counts 14 bytes of header with each packet.
//! - Tokens are exact in bits·ps/s. Linux counts them as nanoseconds at the rate.
//! - Packets merged by segmentation offload are policed one by one; a kernel polices the merged packet.

use super::pacer::refusal;
use crate::packet::Packet;
use crate::scenario::{PolicerSpec, ScenarioError};
use crate::time::{Bytes, Time};

/// Tokens are counted in units of 1/(8·10¹²) byte, so that rate [bit/s] × time [ps] is a whole number of them.
const TOKENS_PER_BYTE: u128 = 8_000_000_000_000;
/// Limit on the bucket, 1 TiB: more is a mistake of units.
const LARGEST_BURST: Bytes = 1 << 40;

/// A token bucket that drops.
#[derive(Clone, Debug)]
pub struct Policer {
    rate_bps: u64,
    /// Tokens in a full bucket.
    full: u128,
    tokens: u128,
    /// Time for which `tokens` is valid.
    counted: Time,
}

impl Policer {
    /// Builds the policer of link number `index` from `spec`, with a full bucket.
    pub fn build(spec: &PolicerSpec, index: usize) -> Result<Self, ScenarioError> {
        if spec.rate_bps == 0 || spec.rate_bps > super::api::FASTEST {
            let fix = "Give a rate from 1 bit/s to 10^15 bit/s";
            return Err(refusal(index, "policer.rate_bps", spec.rate_bps, "not a policer's rate", fix));
        }
        if spec.burst_bytes == 0 || spec.burst_bytes > LARGEST_BURST {
            let fix = "Give at least the largest packet, such as 1500 bytes, and at most 1 TiB";
            return Err(refusal(index, "policer.burst_bytes", spec.burst_bytes, "not a bucket's size", fix));
        }
        let full = u128::from(spec.burst_bytes) * TOKENS_PER_BYTE;
        Ok(Policer { rate_bps: spec.rate_bps, full, tokens: full, counted: Time::ZERO })
    }

    /// Whether `packet`, arriving at `now`, conforms. If so, takes its tokens.
    pub fn conforms(&mut self, packet: &Packet, now: Time) -> bool {
        let gained = u128::from(self.rate_bps) * u128::from(now.since(self.counted).as_ps());
        self.tokens = (self.tokens + gained).min(self.full);
        self.counted = now;
        let need = u128::from(packet.bytes) * TOKENS_PER_BYTE;
        match self.tokens.checked_sub(need) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }

    /// Whether a packet of `bytes` passes a full bucket.
    pub fn may_pass(&self, bytes: u32) -> bool {
        u128::from(bytes) * TOKENS_PER_BYTE <= self.full
    }
}
