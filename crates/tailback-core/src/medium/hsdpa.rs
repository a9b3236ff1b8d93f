//! HSDPA: the downlink of 3G, with one deep queue per user.

use super::Registered;
use super::stalls::{self, Stalls};
use super::tti::{Bearer, Repeats};
use crate::capacity::Pace;
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Duration, Rate, Time};

const CARD: Card = Card {
    name: "hsdpa",
    title: "3G downlink (HSDPA)",
    law: "every 2 ms the scheduler gives the user a block with probability `share`. Its size is that of the \
          channel quality indicator c, ⌊(TBS(c) − 21)/336⌋ RLC PDUs of 320 payload bits. The indicator c \
          wanders as Ehrenfest's urn: from k of 2·spread above its least it rises with probability (2·spread − \
          k)/(2·spread) a step and falls otherwise. So it is binomial about its mean with variance spread/2 \
          and forgets in `coherence`. A block fails with probability `bler`, is repeated 12 ms later by HARQ \
          and after four failures by RLC; packets are released in order. In a stall (`stall_every_ms`) no \
          block begins; repetitions under way arrive",
    source: "3GPP TS 25.214 table 7D (CQI and block size, category 10) and 6A.2 (one CQI step is about 1 dB). \
             TS 25.321 section 9.1 (MAC-hs header 21 bits, MAC-d PDU 336); TS 25.322 (RLC acknowledged mode). \
             Holma and Toskala, \"HSDPA/HSUPA for UMTS\" (2006), chapters 4 and 10 (first-block errors 10 %, \
             round trip of HARQ 12 ms, delays). Ehrenfest and Ehrenfest, Physikalische Zeitschrift 8 (1907); \
             RFC 3481 section 2.4",
    differs: &[
        "The indicator is known without delay, so blocks fail independently of its course",
        "Other users are a coin: no proportional-fair gain, no state changes (the bearer is always up)",
    ],
    live_twin: None,
    params: &[
        ParamSpec::whole("cqi", "", 20, (1, 30), "Mean channel quality indicator."),
        ParamSpec::whole("cqi_spread", "", 6, (0, 14), "Furthest it strays; its deviation is √(spread/2)."),
        ParamSpec::number("coherence_ms", "ms", 200.0, (2.0, 1e6), "Time in which it forgets."),
        ParamSpec::whole("cqi_max", "", 30, (1, 30), "Best the terminal's category uses; 22 for 3.6 Mbit/s."),
        ParamSpec::number("share", "", 1.0, (0.001, 1.0), "Share of the intervals other users leave."),
        ParamSpec::number("bler", "", 0.1, (0.0, 0.9), "Probability that a block fails."),
        ParamSpec::number("bler_again", "", 0.1, (0.0, 0.9), "Probability that a repeated block fails."),
        ParamSpec::number(
            "rlc_status_ms",
            "ms",
            100.0,
            (2.0, 1000.0),
            "From HARQ's last failure to RLC's retransmission.",
        ),
        ParamSpec::whole("rlc_tries", "", 10, (1, 40), "Transmissions by RLC before it discards."),
        ParamSpec::number(
            "processing_ms",
            "ms",
            20.0,
            (0.0, 500.0),
            "Terminal, Node B, Iub and RNC, downlink.",
        ),
        stalls::PARAMS[0],
        stalls::PARAMS[1],
        stalls::PARAMS[2],
    ],
};

/// Transport block sizes in bits for CQI 1 to 30, from one QPSK code to fifteen codes of 16-QAM.
const BLOCK_BITS: [u64; 30] = [
    137, 173, 233, 317, 377, 461, 650, 792, 931, 1262, 1483, 1742, 2279, 2583, 3319, 3565, 4189, 4664, 5287,
    5887, 6554, 7168, 9719, 11418, 14411, 17237, 21754, 23370, 24222, 25558,
];
const MAC_HEADER_BITS: u64 = 21;
const PDU_BITS: u64 = 336;
const PDU_PAYLOAD_BITS: u64 = 320;
const INTERVAL: Duration = Duration::from_ms(2);
/// Repetition after six intervals of 2 ms, one for each HARQ process.
const HARQ_DISTANCE: u64 = 6;
const HARQ_TRIES: u64 = 4;

/// The downlink of one user.
#[derive(Clone, Debug)]
pub struct Hsdpa {
    bearer: Bearer,
    quality: Quality,
    /// Highest CQI that the terminal's category can use.
    most: u64,
    share: f64,
    scheduler: Stream,
    processing: Duration,
    stalls: Option<Stalls>,
    nominal: Rate,
}

/// State of the channel quality indicator.
#[derive(Clone, Debug)]
struct Quality {
    least: u64,
    /// Current value above its minimum, 0 to 2·spread.
    above: u64,
    span: u64,
    /// Intervals per step of the urn, and number of steps so far.
    pace: u64,
    steps: u64,
    stream: Stream,
}

impl Quality {
    fn at(&mut self, interval: u64) -> u64 {
        if self.span > 0 {
            while self.steps < interval / self.pace {
                self.steps += 1;
                match self.stream.below(self.span) < self.above {
                    true => self.above -= 1,
                    false => self.above += 1,
                }
            }
        }
        self.least + self.above
    }
}

impl Registered for Hsdpa {
    const CARD: Card = CARD;
}

impl Hsdpa {
    /// Builds the downlink from its parameters.
    pub fn new(given: &Checked<'_>, stream: &dyn Fn(&str) -> Stream) -> Result<Self, ScenarioError> {
        let (mean, spread) = (given.whole("cqi"), given.whole("cqi_spread"));
        if spread >= mean || mean + spread > 30 {
            let problem = "the indicator would leave 1 to 30";
            return Err(given.refuse(
                "cqi_spread",
                problem,
                "Give at most what the mean leaves to 1 and to 30",
            ));
        }
        let most = given.whole("cqi_max");
        let (bler, again) = (given.number("bler"), given.number("bler_again"));
        let share = given.number("share");
        // The urn's correlation time is span/2 steps.
        let in_steps = given.number("coherence_ms") / INTERVAL.as_ms() as f64 / spread.max(1) as f64;
        let block = payload(mean.min(most)) as f64 * share / (1.0 + bler / (1.0 - again));
        if payload((mean + spread).min(most)) == 0 {
            let problem = "so poor a channel carries nothing";
            return Err(given.refuse("cqi", problem, "Give at least 5, where a block holds one PDU"));
        }
        let repeats = Repeats {
            first: bler,
            again,
            distance: HARQ_DISTANCE,
            tries: HARQ_TRIES,
            status: (given.number("rlc_status_ms") / INTERVAL.as_ms() as f64) as u64,
            rlc_tries: given.whole("rlc_tries"),
        };
        Ok(Hsdpa {
            bearer: Bearer::new(INTERVAL, repeats, stream("harq")),
            quality: Quality {
                least: mean - spread,
                above: spread,
                span: 2 * spread,
                pace: (in_steps + 0.5).max(1.0) as u64,
                steps: 0,
                stream: stream("cqi"),
            },
            most,
            share,
            scheduler: stream("scheduler"),
            processing: Duration::from_secs_f64(given.number("processing_ms") / 1e3),
            stalls: Stalls::new(given, stream("stalls"))?,
            nominal: Rate::from_bps((block * 500.0) as u64 + 1),
        })
    }
}

/// RLC payload of a block in bits.
fn payload(cqi: u64) -> u64 {
    (BLOCK_BITS[cqi as usize - 1] - MAC_HEADER_BITS) / PDU_BITS * PDU_PAYLOAD_BITS
}

impl Pace for Hsdpa {
    fn serve(&mut self, at: Time, packet: &Packet, continues: bool) -> Time {
        let Hsdpa { bearer, quality, share, scheduler, most, stalls, .. } = self;
        bearer.serve(at, packet, continues, |interval| {
            let is_ours = *share >= 1.0 || scheduler.chance(*share);
            let began = Time::from_ps(interval * INTERVAL.as_ps());
            let is_stalled = stalls.as_mut().is_some_and(|stalls| stalls.end_at(began).is_some());
            if is_ours && !is_stalled { payload(quality.at(interval).min(*most)) } else { 0 }
        })
    }

    fn nominal(&self) -> Rate {
        self.nominal
    }

    fn detour(&mut self, at: Time) -> Option<Duration> {
        Some(self.bearer.detour(at)? + self.processing)
    }
}
