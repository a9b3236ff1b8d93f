//! A dedicated channel of UMTS Release 99, which carries the uplink of an HSDPA user.

use super::Registered;
use super::tti::{Bearer, Repeats};
use crate::capacity::Pace;
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Duration, Rate, Time};

const CARD: Card = Card {
    name: "dch",
    title: "3G dedicated channel",
    law: "every interval carries rate × interval bits; a block fails with probability `bler` and is sent \
          again by RLC after its status report; packets are released in order",
    source: "3GPP TS 25.322 (RLC acknowledged mode), TS 34.108 section 6.10 (reference bearers: 64, 128 and \
          384 kbit/s); Holma and Toskala, \"HSDPA/HSUPA for UMTS\" (2006), chapter 10 (delays)",
    differs: &[
        "The bearer is always up: no set-up from idle (1 to 2 s), no change of rate by traffic volume",
    ],
    live_twin: None,
    params: &[
        ParamSpec::whole("rate_bps", "bit/s", 128_000, (8_000, 2_000_000), "Rate of the bearer."),
        ParamSpec::number("tti_ms", "ms", 20.0, (2.0, 80.0), "Transmission time interval."),
        ParamSpec::number("bler", "", 0.01, (0.0, 0.9), "Probability that a block fails."),
        ParamSpec::number(
            "rlc_status_ms",
            "ms",
            100.0,
            (2.0, 1000.0),
            "From a failure to RLC's retransmission.",
        ),
        ParamSpec::whole("rlc_tries", "", 10, (1, 40), "Transmissions by RLC before it discards."),
        ParamSpec::number(
            "processing_ms",
            "ms",
            22.0,
            (0.0, 500.0),
            "Terminal, Node B, Iub and RNC, uplink.",
        ),
    ],
};

/// One direction of a dedicated channel.
#[derive(Clone, Debug)]
pub struct Dch {
    bearer: Bearer,
    bits: u64,
    rate: Rate,
    processing: Duration,
}

impl Registered for Dch {
    const CARD: Card = CARD;
}

impl Dch {
    /// Builds the channel from its parameters.
    pub fn new(given: &Checked<'_>, stream: &dyn Fn(&str) -> Stream) -> Result<Self, ScenarioError> {
        let interval = Duration::from_secs_f64(given.number("tti_ms") / 1e3);
        let rate = Rate::from_bps(given.whole("rate_bps"));
        let repeats = Repeats {
            first: given.number("bler"),
            again: given.number("bler"),
            distance: 0,
            // Without HARQ, every repetition is by RLC.
            tries: 1,
            status: (given.number("rlc_status_ms") / given.number("tti_ms")) as u64 + 1,
            rlc_tries: given.whole("rlc_tries"),
        };
        Ok(Dch {
            bearer: Bearer::new(interval, repeats, stream("errors")),
            bits: 8 * rate.bytes_in(interval),
            rate,
            processing: Duration::from_secs_f64(given.number("processing_ms") / 1e3),
        })
    }
}

impl Pace for Dch {
    fn serve(&mut self, at: Time, packet: &Packet, continues: bool) -> Time {
        let bits = self.bits;
        self.bearer.serve(at, packet, continues, |_| bits)
    }

    fn nominal(&self) -> Rate {
        self.rate
    }

    fn detour(&mut self, at: Time) -> Option<Duration> {
        Some(self.bearer.detour(at)? + self.processing)
    }
}
