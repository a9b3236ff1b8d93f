//! A user of an LTE or 5G cell: a fading channel, blocks repeated by HARQ, and handovers.

use super::Registered;
use super::stalls::Stalls;
use crate::math;
use crate::params::{Card, Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Duration, Rate, Time};

const CARD: Card = Card {
    name: "cell",
    title: "LTE and 5G cell with a scheduler",
    law: "links of one `channel` share a carrier, each for one user. In every slot of `slot_ms` the scheduler serves users \
          in order of r/R or in turn, and each takes as much of the slot as it has to send. Here r is what the whole slot \
          would carry for the user. R is its average, R ← (1 − 1/T)R + b/T for b bits in a slot, T = `memory`. A user's SNR is \
          `snr_db` times the mean of `branches` powers |h|², where h ← ρh + √(1 − ρ²)w every `report_ms`, w a complex normal \
          number and ρ = exp(−`report_ms`/`coherence_ms`). A slot carries `bandwidth` × `layers` × e bits a second, e the \
          largest level of the `table` below `attenuation` × log₂(1 + SNR), where levels are scaled so that the highest is \
          `efficiency_most`. A block fails with probability `bler` and is repeated `harq_ms` later; after `harq_tries` RLC \
          sends it again, `rlc_status_ms` later. A repetition takes its share of its slot. Packets are released in order. In a \
          handover (`handover_every_ms` on average, `handover_ms` to `handover_most_ms` long) a user is not served, and its \
          queue waits",
    source: "3GPP TR 36.942 annex A (attenuated Shannon: 0.6, 4.4 bit/s/Hz down; 0.4, 2.0 up). TS 36.213 table 7.2.3-1 and \
             TS 38.214 table 5.2.2.1-3 (CQI). TS 36.321 section 5.3.2 and TS 36.322 (HARQ, in 8 ms; RLC). Jalali, Padovani \
             and Pankaj, VTC 2000 (proportional fair); Kelly, ETT 8 (1997). Viswanath, Tse and Laroia, IEEE Transactions on \
             Information Theory 48(6) (2002) (many users' diversity)",
    differs: &[
        "All of the carrier fades alike for a user; `branches` stands for antennas and bandwidth. No interference that varies",
        "The channel quality is known at once, so blocks fail independently of it; `bler_again` is ours",
        "A user that alone has little to send leaves the rest of a slot to others, in bits and not resource blocks",
        "Up there are neither scheduling requests nor grants, and no power control: give the link their delay",
        "A handover keeps the queue and the mean SNR; what is under way when it begins arrives",
        "No DRX, no carrier aggregation, no control channel that runs out; two directions on one `channel` are dynamic TDD",
    ],
    live_twin: None,
    params: &[
        ParamSpec::number("slot_ms", "ms", 1.0, (0.0625, 10.0), "Slot: LTE 1, 5G 0.5 at 30 kHz."),
        ParamSpec::number("bandwidth_mhz", "MHz", 20.0, (1.4, 400.0), "Carrier."),
        ParamSpec::whole("layers", "", 1, (1, 8), "Spatial layers."),
        ParamSpec::number("snr_db", "dB", 15.0, (-60.0, 60.0), "Mean SNR of this user."),
        ParamSpec::whole(
            "branches",
            "",
            2,
            (0, 16),
            "Fading branches whose powers are averaged; 1: Rayleigh, 0: none.",
        ),
        ParamSpec::number(
            "coherence_ms",
            "ms",
            50.0,
            (0.0, 1e6),
            "Time in which the channel forgets; 0: at each report.",
        ),
        ParamSpec::number(
            "report_ms",
            "ms",
            5.0,
            (0.0625, 1000.0),
            "Between two reports of the channel's quality.",
        ),
        ParamSpec::choice(
            "table",
            &["lte", "nr", "none"],
            "Whose levels: 15 up to 64-QAM, 15 up to 256-QAM, or any.",
        ),
        ParamSpec::number("attenuation", "", 0.6, (0.05, 1.0), "Share of Shannon's rate; up 0.4."),
        ParamSpec::number("efficiency_most", "bit/s/Hz", 4.4, (0.1, 10.0), "Highest efficiency; up 2.0.")
            .depends("4.4; nr 5.9"),
        ParamSpec::choice("scheduler", &["fair", "turns"], "Proportional fair, or in turn."),
        ParamSpec::number("memory", "slots", 1000.0, (1.0, 1e9), "Slots of the scheduler's average."),
        ParamSpec::number("bler", "", 0.1, (0.0, 0.9), "Probability that a block fails."),
        ParamSpec::number("bler_again", "", 0.1, (0.0, 0.9), "Probability that a repeated block fails."),
        ParamSpec::number("harq_ms", "ms", 8.0, (0.125, 100.0), "From a block to its repetition."),
        ParamSpec::whole("harq_tries", "", 4, (1, 16), "Transmissions by HARQ."),
        ParamSpec::number(
            "rlc_status_ms",
            "ms",
            50.0,
            (1.0, 1000.0),
            "From HARQ's last failure to RLC's repetition.",
        ),
        ParamSpec::whole("rlc_tries", "", 8, (1, 32), "Times that RLC sends a block before it discards it."),
        ParamSpec::number(
            "handover_every_ms",
            "ms",
            0.0,
            (0.0, 1e9),
            "Mean time between two handovers; 0: never.",
        ),
        ParamSpec::number("handover_ms", "ms", 20.0, (0.0, 60_000.0), "Shortest interruption."),
        ParamSpec::number("handover_most_ms", "ms", 50.0, (0.0, 60_000.0), "Longest."),
    ],
};

/// Spectral efficiencies by CQI, in bits per resource element.
const LTE: [f64; 15] = [
    0.1523, 0.2344, 0.3770, 0.6016, 0.8770, 1.1758, 1.4766, 1.9141, 2.4063, 2.7305, 3.3223, 3.9023, 4.5234,
    5.1152, 5.5547,
];
const NR: [f64; 15] = [
    0.1523, 0.3770, 0.8770, 1.4766, 1.9141, 2.4063, 2.7305, 3.3223, 3.9023, 4.5234, 5.1152, 5.5547, 6.2266,
    6.9141, 7.4063,
];
/// Highest efficiency of NR in bit/s/Hz, with the same ratio to bits per resource element as LTE: 7.4063 × 4.4 /
/// 5.5547.
const NR_MOST: f64 = 5.9;

/// Properties on which all users of a carrier must agree.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Carrier {
    /// Length of a slot.
    pub slot: Duration,
    /// Averaging time of the scheduler in slots.
    pub memory: f64,
    /// Scheduling policy.
    pub policy: Policy,
}

/// Scheduling policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Proportional fair: the user whose slot is best relative to its average.
    ProportionalFair,
    /// Round robin: the user that has waited longest.
    Turns,
}

/// The transmissions of a block.
#[derive(Clone, Debug)]
pub struct Sendings {
    /// Slots in which the block is repeated.
    pub again: Vec<u64>,
    /// The slot at whose end the block has arrived; `None`: it is lost.
    pub arrives: Option<u64>,
}

/// Parameters of block repetition; delays in slots.
#[derive(Clone, Debug)]
struct Repeats {
    first: f64,
    again: f64,
    harq: u64,
    tries: u64,
    status: u64,
    rlc_tries: u64,
}

/// State of the fading channel.
#[derive(Clone, Debug)]
struct Fading {
    branches: Vec<[f64; 2]>,
    kept: f64,
    fresh: f64,
    report: Duration,
    reports: u64,
    stream: Stream,
}

/// A user of a cell, in one direction.
#[derive(Clone, Debug)]
pub struct User {
    carrier: Carrier,
    snr: f64,
    fading: Fading,
    /// Bits per slot by level of the table, with the minimum SNR, lowest first; empty: no table.
    levels: Vec<(f64, u64)>,
    /// Without a table: bits per slot per unit of efficiency, the fraction of Shannon's capacity, and the maximum
    /// efficiency.
    unit: f64,
    attenuation: f64,
    most: f64,
    /// Bits per slot until the next channel report.
    bits: u64,
    repeats: Repeats,
    handovers: Option<Stalls>,
    errors: Stream,
}

impl Registered for User {
    const CARD: Card = CARD;
}

impl User {
    /// Builds a user from its parameters.
    pub fn new(given: &Checked<'_>, stream: &dyn Fn(&str) -> Stream) -> Result<Self, ScenarioError> {
        let ms = |name: &str| Duration::from_secs_f64(given.number(name) / 1e3);
        let slot = ms("slot_ms");
        let in_slots = |name: &str| ((given.number(name) / given.number("slot_ms") + 0.5) as u64).max(1);
        let table: &[f64] = match given.choice("table") {
            "lte" => &LTE,
            "nr" => &NR,
            _ => &[],
        };
        let is_nr = given.choice("table") == "nr";
        let most = given.given_number("efficiency_most").unwrap_or(if is_nr { NR_MOST } else { 4.4 });
        let attenuation = given.number("attenuation");
        let unit = given.number("bandwidth_mhz") * 1e6 * given.whole("layers") as f64 * slot.as_secs_f64();
        let levels = table.iter().map(|level| {
            let efficiency = level * most / table[table.len() - 1];
            (math::powf(2.0, efficiency / attenuation) - 1.0, (efficiency * unit) as u64)
        });
        let (report, coherence) = (given.number("report_ms"), given.number("coherence_ms"));
        let kept = if coherence > 0.0 { math::exp(-report / coherence) } else { 0.0 };
        let mut fading = Fading {
            branches: vec![[0.0; 2]; given.whole("branches") as usize],
            kept: 0.0,
            fresh: 1.0,
            report: ms("report_ms"),
            reports: 0,
            stream: stream("fading"),
        };
        fading.step();
        (fading.kept, fading.fresh) = (kept, (1.0 - kept * kept).sqrt());
        let names = ["handover_every_ms", "handover_ms", "handover_most_ms"];
        let mut user = User {
            carrier: Carrier {
                slot,
                memory: given.number("memory"),
                policy: match given.choice("scheduler") {
                    "turns" => Policy::Turns,
                    _ => Policy::ProportionalFair,
                },
            },
            snr: math::powf(10.0, given.number("snr_db") / 10.0),
            fading,
            levels: levels.collect(),
            unit,
            attenuation,
            most,
            bits: 0,
            repeats: Repeats {
                first: given.number("bler"),
                again: given.number("bler_again"),
                harq: in_slots("harq_ms"),
                tries: given.whole("harq_tries"),
                status: in_slots("rlc_status_ms"),
                rlc_tries: given.whole("rlc_tries"),
            },
            handovers: Stalls::named(given, names, stream("handovers"))?,
            errors: stream("harq"),
        };
        if user.bits_at(user.snr) == 0 {
            let problem = "so poor a channel carries nothing on average";
            return Err(given.refuse("snr_db", problem, "Give a higher SNR, or table = \"none\""));
        }
        user.bits = user.bits_at(user.snr * user.fading.gain());
        Ok(user)
    }

    /// The properties on which it must agree with the other users.
    pub fn carrier(&self) -> Carrier {
        self.carrier
    }

    /// Bits of a whole slot at this SNR.
    fn bits_at(&self, snr: f64) -> u64 {
        if self.levels.is_empty() {
            let efficiency = (self.attenuation * math::log2(1.0 + snr)).min(self.most);
            return (efficiency * self.unit) as u64;
        }
        let reached = self.levels.partition_point(|(least, _)| *least <= snr);
        if reached == 0 { 0 } else { self.levels[reached - 1].1 }
    }

    /// Bits of the whole slot that begins at `at`; `None` during a handover. Called in order of time.
    pub fn bits(&mut self, at: Time) -> Option<u64> {
        if self.handovers.as_mut().is_some_and(|handovers| handovers.end_at(at).is_some()) {
            return None;
        }
        if self.fading.turn_to(at) {
            self.bits = self.bits_at(self.snr * self.fading.gain());
        }
        Some(self.bits)
    }

    /// Draws the transmissions of a block that is first sent in slot `number`.
    pub fn sendings(&mut self, number: u64) -> Sendings {
        let Repeats { first, again, harq, tries, status, rlc_tries } = self.repeats;
        let (mut sent, mut error) = (number, first);
        let mut repeated = Vec::new();
        for round in 1..=tries * rlc_tries {
            if !self.errors.chance(error) {
                return Sendings { again: repeated, arrives: Some(sent) };
            }
            if round < tries * rlc_tries {
                sent += if round % tries == 0 { status } else { harq };
                repeated.push(sent);
            }
            error = again;
        }
        Sendings { again: repeated, arrives: None }
    }

    /// Rate without other users, at its mean SNR.
    pub fn nominal(&self) -> Rate {
        let Repeats { first, again, .. } = self.repeats;
        let slot = self.bits_at(self.snr) as f64 / (1.0 + first / (1.0 - again));
        Rate::from_bps((slot / self.carrier.slot.as_secs_f64()) as u64 + 1)
    }
}

impl Fading {
    /// Advances to the channel report at `at`; returns whether there is a new one. Draws also without traffic, so that
    /// traffic does not change the channel.
    fn turn_to(&mut self, at: Time) -> bool {
        let reports = at.as_ps() / self.report.as_ps();
        let is_new = self.reports < reports;
        while self.reports < reports {
            self.reports += 1;
            self.step();
        }
        is_new
    }

    fn step(&mut self) {
        for branch in &mut self.branches {
            let fresh = complex_normal(&mut self.stream);
            for (part, fresh) in branch.iter_mut().zip(fresh) {
                *part = self.kept * *part + self.fresh * fresh;
            }
        }
    }

    /// Power gain of the channel relative to its mean.
    fn gain(&self) -> f64 {
        if self.branches.is_empty() {
            return 1.0;
        }
        let sum: f64 = self.branches.iter().map(|[re, im]| re * re + im * im).sum();
        sum / self.branches.len() as f64
    }
}

/// A complex normal number of mean power 1, by Marsaglia's polar method (SIAM Review 6(3), 1964).
fn complex_normal(stream: &mut Stream) -> [f64; 2] {
    loop {
        let (x, y) = (2.0 * stream.uniform() - 1.0, 2.0 * stream.uniform() - 1.0);
        let s = x * x + y * y;
        if s > 0.0 && s < 1.0 {
            let scale = (-math::ln(s) / s).sqrt();
            return [x * scale, y * scale];
        }
    }
}
