//! Translates a scenario's parameters into attributes of the kernel's disciplines (linux/pkt_sched.h).

use std::time::Duration;

use tailback_core::params::{Card, Checked, Kind, ParamSpec};
use tailback_core::queue::DropReason;
use tailback_core::queue::red::IdleTable;
use tailback_core::scenario::{QueueSpec, Value};

use crate::error::LiveError;
use crate::netlink::attribute;

/// A kernel discipline with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Discipline {
    /// The kernel's name.
    pub name: String,
    /// Its attributes, inside TCA_OPTIONS.
    pub options: Vec<u8>,
    /// Whether all packets leave in their order of arrival; otherwise only packets of one connection do.
    pub is_one_line: bool,
    /// Whether L4S and other packets of one connection may overtake each other.
    pub splits_by_codepoint: bool,
    /// Whether a user's module provides it.
    pub is_own: bool,
    /// Whether it is a user's BPF program.
    pub is_program: bool,
    /// The reason to record for its drops.
    pub reason: DropReason,
    /// Time from its creation until its control law becomes active.
    pub rests: Duration,
    /// Packet limit of the device, where the discipline uses that as its own limit.
    pub device_queue: Option<u32>,
}

/// Numeric attributes: the parameter, the attribute, and the attribute's units per unit of the parameter.
type Numbers = &'static [(&'static str, u16, f64)];

const MS: f64 = 1000.0;
const CODEL: Numbers = &[
    ("target", 1, MS),
    ("limit_packets", 2, 1.0),
    ("interval", 3, MS),
    ("ecn", 4, 1.0),
    ("ce_threshold", 5, MS),
];
const FQ_CODEL: Numbers = &[
    ("target", 1, MS),
    ("limit_packets", 2, 1.0),
    ("interval", 3, MS),
    ("ecn", 4, 1.0),
    ("flows", 5, 1.0),
    ("quantum", 6, 1.0),
    ("ce_threshold", 7, MS),
    ("drop_batch", 8, 1.0),
    ("memory_limit", 9, 1.0),
];
/// Weights are in sixteenths, as PIE's.
const FQ_PIE: Numbers = &[
    ("limit_packets", 1, 1.0),
    ("flows", 2, 1.0),
    ("target", 3, MS),
    ("t_update", 4, MS),
    ("alpha", 5, 16.0),
    ("beta", 6, 16.0),
    ("quantum", 7, 1.0),
    ("memory_limit", 8, 1.0),
    ("ecn", 10, 1.0),
];
/// The rate is in bytes per second.
const FQ: Numbers = &[
    ("limit_packets", 1, 1.0),
    ("flow_limit", 2, 1.0),
    ("quantum", 3, 1.0),
    ("initial_quantum", 4, 1.0),
    ("maxrate", 7, 0.125),
];
/// Weights are in sixteenths.
const PIE: Numbers = &[
    ("target", 1, MS),
    ("limit_packets", 2, 1.0),
    ("t_update", 3, MS),
    ("alpha", 4, 16.0),
    ("beta", 5, 16.0),
    ("ecn", 6, 1.0),
];

/// Weights are in 256ths of a hertz.
const DUALPI2: Numbers = &[
    ("limit_packets", 1, 1.0),
    ("target", 3, MS),
    ("t_update", 4, MS),
    ("alpha", 5, 256.0),
    ("beta", 6, 256.0),
    ("step", 8, MS),
];
/// Attributes of one byte.
const DUALPI2_BYTES: Numbers = &[("coupling", 10, 1.0), ("c_share", 13, 1.0)];

/// The kernel discipline for `spec` at `field`, whose parameters `card` describes.
pub fn discipline(
    name: &str,
    spec: &QueueSpec,
    card: &'static Card,
    field: &str,
    rate_bps: u64,
) -> Result<Discipline, LiveError> {
    let params_path = format!("{field}.params");
    let given = Checked::new(card, &spec.params, &params_path)?;
    let given = Given { spec, checked: &given, name };
    let (options, is_one_line, reason) = match name {
        "pfifo" => (given.limit("limit_packets", "limit_bytes")?, true, DropReason::QueueFull),
        "bfifo" => (given.limit("limit_bytes", "limit_packets")?, true, DropReason::QueueFull),
        "codel" => (given.numbers(CODEL)?, true, DropReason::Aqm),
        "fq_codel" => (given.numbers(FQ_CODEL)?, false, DropReason::Aqm),
        "pie" => (given.numbers(PIE)?, true, DropReason::Aqm),
        "red" => (given.red(rate_bps)?, true, DropReason::Aqm),
        "choke" => (given.choke(rate_bps)?, true, DropReason::Aqm),
        "cake" => (given.cake()?, false, DropReason::Aqm),
        "dualpi2" => (given.dualpi2()?, false, DropReason::Aqm),
        "fq_pie" => (given.numbers(FQ_PIE)?, false, DropReason::Aqm),
        "fq" => (given.fq()?, false, DropReason::QueueFull),
        "sfq" => (given.sfq()?, false, DropReason::QueueFull),
        "pfifo_fast" => {
            given.only(&["limit_packets", "dscp"])?;
            (vec![], false, DropReason::QueueFull)
        }
        // A user's module: all its parameters are module parameters.
        _ => (given.numbers(&[])?, false, DropReason::Aqm),
    };
    let device_queue = (name == "pfifo_fast").then(|| given.checked.whole("limit_packets") as u32);
    Ok(Discipline { device_queue, ..Discipline::new(name, options, is_one_line, reason) })
}

impl Discipline {
    fn new(name: &str, options: Vec<u8>, is_one_line: bool, reason: DropReason) -> Self {
        const BY_FLOW: [&str; 6] = ["fq_codel", "cake", "fq_pie", "fq", "sfq", "pfifo_fast"];
        let splits_by_codepoint = !is_one_line && !BY_FLOW.contains(&name);
        let rests = rests(name);
        Discipline {
            name: name.into(),
            options,
            is_one_line,
            splits_by_codepoint,
            is_own: false,
            is_program: false,
            reason,
            rests,
            device_queue: None,
        }
    }
}

/// PIE first updates its probability half a second after its creation (HZ / 2 in `pie_init`, Linux 3.14 to 6.12), at
/// most one timer tick later; so does FQ-PIE.
fn rests(name: &str) -> Duration {
    Duration::from_millis(if ["pie", "fq_pie"].contains(&name) { 520 } else { 0 })
}

/// The parameters that a scenario sets.
struct Given<'a> {
    spec: &'a QueueSpec,
    checked: &'a Checked<'a>,
    name: &'a str,
}

impl Given<'_> {
    fn refuse(&self, key: &str, problem: String, fix: impl Into<String>) -> LiveError {
        LiveError::Refused(self.checked.refuse(key, &problem, &fix.into()))
    }

    /// The card's row for a key.
    fn row(&self, key: &str) -> &'static ParamSpec {
        self.checked.card().spelled(key).expect("keys were checked").0
    }

    /// An error for the first parameter that the kernel does not have.
    fn only(&self, known: &[&str]) -> Result<(), LiveError> {
        let stranger = self.spec.params.iter().find(|(key, value)| {
            // Asking for the kernel's own variant is allowed.
            let is_kernels = key.as_str() == "variant" && **value == Value::Name("linux".into());
            !is_kernels && !known.contains(&self.row(key).name)
        });
        match stranger {
            None => Ok(()),
            Some((key, _)) => {
                let key = self.row(key).name;
                let problem = format!("the kernel's {} has no such parameter", self.name);
                let names = if known.is_empty() { "none".into() } else { known.join(", ") };
                Err(self.refuse(key, problem, format!("Leave it out; it has {names}")))
            }
        }
    }

    /// The parameters of `table` that the scenario sets, each as a 32-bit attribute.
    fn numbers(&self, table: Numbers) -> Result<Vec<u8>, LiveError> {
        let known: Vec<&str> = table.iter().map(|(key, _, _)| *key).collect();
        self.only(&known)?;
        let all = self.values(table)?;
        Ok(all.into_iter().flat_map(|(kind, value)| attribute(kind, &value.to_ne_bytes())).collect())
    }

    /// fq's parameters. Its hash table has a power of two of buckets.
    fn fq(&self) -> Result<Vec<u8>, LiveError> {
        const BUCKETS_LOG: u16 = 8;
        let mut known: Vec<&str> = FQ.iter().map(|(key, _, _)| *key).collect();
        known.push("flows");
        self.only(&known)?;
        let mut all = self.values(FQ)?;
        if let Some(flows) = self.checked.given_whole("flows") {
            if !flows.is_power_of_two() {
                let fix = format!("Give {}", flows.next_power_of_two());
                return Err(self.refuse("flows", "the kernel's fq has a power of two of them".into(), fix));
            }
            all.push((BUCKETS_LOG, flows.trailing_zeros()));
        }
        Ok(all.into_iter().flat_map(|(kind, value)| attribute(kind, &value.to_ne_bytes())).collect())
    }

    /// SFQ's parameters (struct tc_sfq_qopt_v1); zero selects the kernel's default.
    fn sfq(&self) -> Result<Vec<u8>, LiveError> {
        self.only(&["limit_packets", "depth", "flows", "active_flows", "quantum", "drop"])?;
        let number = |key: &str| self.checked.given_whole(key).map_or(0, |value| value as u32);
        let divisor = number("flows");
        if divisor > 0 && !divisor.is_power_of_two() {
            let fix = format!("Give {}", divisor.next_power_of_two());
            return Err(self.refuse("flows", "the kernel's sfq has a power of two of them".into(), fix));
        }
        let takes_head = u32::from(self.checked.choice("drop") == "head");
        // quantum, perturb_period, limit, divisor, flows; depth, headdrop, then the RED parameters, which are off.
        let (limit, active) = (number("limit_packets"), number("active_flows"));
        let head = [number("quantum"), 0, limit, divisor, active, number("depth"), takes_head];
        let red = [0; 11];
        Ok(head.iter().chain(&red).flat_map(|word: &u32| word.to_ne_bytes()).collect())
    }

    /// DualPI2's parameters; some attributes are one byte wide.
    fn dualpi2(&self) -> Result<Vec<u8>, LiveError> {
        let known: Vec<&str> = DUALPI2.iter().chain(DUALPI2_BYTES).map(|(key, _, _)| *key).collect();
        self.only(&known)?;
        let mut out = Vec::new();
        for (kind, value) in self.values(DUALPI2)? {
            out.extend(attribute(kind, &value.to_ne_bytes()));
        }
        for (kind, value) in self.values(DUALPI2_BYTES)? {
            out.extend(attribute(kind, &[value.min(u32::from(u8::MAX)) as u8]));
        }
        Ok(out)
    }

    /// Attributes of `table` whose parameters the scenario sets, with their values.
    fn values(&self, table: Numbers) -> Result<Vec<(u16, u32)>, LiveError> {
        let mut out = Vec::new();
        for (key, kind, units) in table {
            let is_flag = self.row(key).kind == Kind::Flag;
            let value = match is_flag {
                true => self.checked.given_flag(key).map(|is_on| f64::from(u8::from(is_on))),
                false => self.checked.given_number(key).map(|value| value * units),
            };
            if let Some(value) = value {
                out.push((*kind, self.whole(key, value, *units)?));
            }
        }
        Ok(out)
    }

    fn whole(&self, key: &str, value: f64, units: f64) -> Result<u32, LiveError> {
        let whole = value.round();
        // Allow for rounding of decimal fractions.
        if (value - whole).abs() > 1e-6 * whole.max(1.0) || whole > f64::from(u32::MAX) {
            let problem = format!("the kernel counts it in whole steps of 1/{units}");
            let fix = format!("Give {}", whole.min(f64::from(u32::MAX)) / units);
            return Err(self.refuse(key, problem, fix));
        }
        Ok(whole as u32)
    }

    /// The only parameter of a FIFO: its limit (struct tc_fifo_qopt).
    fn limit(&self, key: &str, other: &str) -> Result<Vec<u8>, LiveError> {
        self.only(&[key])?;
        match self.spec.params.get(key) {
            Some(Value::Number(limit)) => Ok(self.whole(key, *limit, 1.0)?.to_ne_bytes().to_vec()),
            _ => {
                let counts = other.trim_start_matches("limit_");
                let fix = format!("Give {key}, or take the one that counts {counts}");
                Err(self.refuse(key, format!("the kernel's {} needs a limit", self.name), fix))
            }
        }
    }

    /// CAKE's parameters; a choice is encoded as its index in the kernel's list.
    fn cake(&self) -> Result<Vec<u8>, LiveError> {
        const CHOICES: [(&str, u16, &[&str]); 4] = [
            ("tins", 3, &["diffserv3", "diffserv4", "diffserv8", "besteffort"]),
            ("framing", 4, &["none", "atm", "ptm"]),
            (
                "isolation",
                5,
                &[
                    "flowblind",
                    "srchost",
                    "dsthost",
                    "hosts",
                    "flows",
                    "dual-srchost",
                    "dual-dsthost",
                    "triple-isolate",
                ],
            ),
            ("ack_filter", 16, &["none", "filter", "aggressive"]),
        ];
        const NUMBERS: Numbers = &[("rtt", 7, MS), ("memory_limit", 10, 1.0), ("mpu", 14, 1.0)];
        const OTHERS: [&str; 4] = ["rate", "overhead", "ingress", "dscp"];
        let known = CHOICES.iter().map(|(key, _, _)| *key).chain(NUMBERS.iter().map(|(key, _, _)| *key));
        self.only(&known.chain(OTHERS).collect::<Vec<_>>())?;
        let mut out = Vec::new();
        let mut put = |kind: u16, value: u32| out.extend(attribute(kind, &value.to_ne_bytes()));
        for (key, kind, words) in CHOICES {
            let given = self.checked.given_choice(key);
            if let Some(place) = words.iter().position(|word| Some(*word) == given) {
                put(kind, place as u32);
            }
        }
        for (key, kind, units) in NUMBERS {
            if let Some(value) = self.checked.given_number(key) {
                put(*kind, self.whole(key, value * units, *units)?);
            }
        }
        if self.checked.given_flag("ingress") == Some(true) {
            put(15, 1);
        }
        // The card counts from the IP header on; the kernel does so once it is given an overhead.
        put(6, self.checked.number("overhead") as i32 as u32);
        if let Some(rate) = self.checked.given_rate("rate") {
            out.extend(attribute(2, &(rate.as_bps() / 8).to_ne_bytes()));
        }
        Ok(out)
    }

    /// RED's parameters.
    fn red(&self, rate_bps: u64) -> Result<Vec<u8>, LiveError> {
        const KNOWN: [&str; 10] = [
            "unit",
            "min",
            "max",
            "weight",
            "max_p",
            "gentle",
            "mean_packet",
            "ecn",
            "harddrop",
            "limit_bytes",
        ];
        /// TC_RED_ECN, TC_RED_HARDDROP.
        const FLAGS: [(&str, u8); 2] = [("ecn", 1), ("harddrop", 2)];
        self.only(&KNOWN)?;
        if self.checked.given_flag("gentle") == Some(true) {
            return Err(self.refuse(
                "gentle",
                "the kernel's red drops all above max".into(),
                "Give gentle = false",
            ));
        }
        let mean = self.checked.whole("mean_packet") as f64;
        let counts_bytes =
            self.checked.choice("unit") == "bytes" || self.checked.given_choice("variant") == Some("linux");
        let in_bytes = if counts_bytes { 1.0 } else { mean };
        // Where the card says "depends", use what Floyd recommends.
        let number = |key: &str, default: f64| self.checked.given_number(key).unwrap_or(default);
        let low = number("min", 5.0 * mean / in_bytes);
        let high = number("max", 3.0 * low);
        let [low, high] = [("min", low * in_bytes), ("max", high * in_bytes)]
            .map(|(key, bytes)| self.whole(key, bytes, 1.0));
        let (low, high) = (low?, high?);
        let limit = self.checked.given_whole("limit_bytes").unwrap_or(1 << 30);
        let flags = FLAGS.iter().filter(|(key, _)| self.checked.given_flag(key) == Some(true));
        let flags: u8 = flags.map(|(_, bit)| bit).sum();
        let max_p = number("max_p", 0.1);
        self.averaged([limit as u32, low, high], flags, number("weight", 0.002), max_p, mean, rate_bps)
    }

    /// CHOKe's parameters: RED's, in packets. A limit is mandatory.
    fn choke(&self, rate_bps: u64) -> Result<Vec<u8>, LiveError> {
        self.only(&["min", "max", "weight", "max_p", "mean_packet", "ecn", "limit_packets"])?;
        let low = self.checked.whole("min");
        let high = self.checked.given_whole("max").unwrap_or(3 * low);
        let limit = self.checked.given_whole("limit_packets").unwrap_or(4 * high);
        let [weight, max_p] = ["weight", "max_p"].map(|key| self.checked.number(key));
        let mean = self.checked.whole("mean_packet") as f64;
        let sizes = [limit, low, high].map(|packets| packets as u32);
        self.averaged(sizes, u8::from(self.checked.flag("ecn")), weight, max_p, mean, rate_bps)
    }

    /// Parameters that RED and CHOKe share: limit, min and max in the kernel's unit (struct tc_red_qopt), and the table
    /// for decaying the average of an idle queue.
    fn averaged(
        &self,
        [limit, low, high]: [u32; 3],
        flags: u8,
        weight: f64,
        max_p: f64,
        mean: f64,
        rate_bps: u64,
    ) -> Result<Vec<u8>, LiveError> {
        let shift = (-weight.log2()).round().clamp(1.0, 31.0);
        let near = (-shift).exp2();
        // The usual 0.002 is 1/512 rounded.
        if (weight / near - 1.0).abs() > 0.05 {
            let problem = format!("the kernel's {} has powers of 1/2 only", self.name);
            return Err(self.refuse("weight", problem, format!("Give {near}")));
        }
        let table = IdleTable::new(near, mean, rate_bps as f64 / 8.0);
        // max_p is sent exactly, in addition to the value that older kernels read.
        let steps =
            ((f64::from(high) - f64::from(low)).max(1.0) / max_p.max(1e-9)).log2().round().clamp(0.0, 31.0);
        let mut head: Vec<u8> = [limit, low, high].iter().flat_map(|word| word.to_ne_bytes()).collect();
        head.extend([shift as u8, steps as u8, table.scale, flags]);
        let share = (max_p * 4_294_967_296.0).min(f64::from(u32::MAX)) as u32;
        Ok([attribute(1, &head), attribute(2, &table.halvings), attribute(3, &share.to_ne_bytes())].concat())
    }
}

#[cfg(test)]
mod tests {
    use tailback_core::queue::outside;
    use tailback_core::scenario::Params;

    use super::*;

    fn asked(name: &str, params: &[(&str, Value)]) -> Result<Discipline, LiveError> {
        let params: Params = params.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
        let spec = QueueSpec { discipline: format!("kernel:{name}"), params, ..Default::default() };
        let card = outside::card(&spec.discipline, "q.discipline").expect("it is known");
        discipline(name, &spec, card, "q", 10_000_000)
    }

    #[test]
    fn times_are_microseconds_and_what_is_not_given_is_the_kernels() {
        let found = asked("codel", &[("target_ms", Value::Number(2.5)), ("ecn", Value::Flag(true))]).unwrap();
        let number = |kind: u16, value: u32| attribute(kind, &value.to_ne_bytes());
        assert_eq!(found.options, [number(1, 2500), number(4, 1)].concat());
        assert!(found.is_one_line);
        assert_eq!(asked("fq_codel", &[]).unwrap().options, Vec::<u8>::new());
    }

    #[test]
    fn dualpi2s_shares_are_bytes_and_its_weights_256ths_of_a_hertz() {
        let number = |kind: u16, value: u32| attribute(kind, &value.to_ne_bytes());
        let params = [
            ("target_ms", Value::Number(15.0)),
            ("alpha", Value::Number(0.25)),
            ("coupling", Value::Number(2.0)),
            ("c_share", Value::Number(10.0)),
        ];
        let wanted = [number(3, 15_000), number(5, 64), attribute(10, &[2]), attribute(13, &[10])].concat();
        let found = asked("dualpi2", &params).unwrap();
        assert_eq!((found.options, found.splits_by_codepoint), (wanted, true));
        let problem = asked("dualpi2", &[("mtu", Value::Number(1500.0))]).unwrap_err().to_string();
        assert!(problem.contains("q.params.mtu"), "{problem}");
    }

    #[test]
    fn cake_is_asked_for_by_the_kernels_own_numbers() {
        let number = |kind: u16, value: u32| attribute(kind, &value.to_ne_bytes());
        assert_eq!(asked("cake", &[]).unwrap().options, number(6, 0));
        let params = [
            ("rate_bps", Value::Number(8e6)),
            ("overhead", Value::Number(-4.0)),
            ("tins", Value::Name("besteffort".into())),
            ("isolation", Value::Name("dual-srchost".into())),
            ("rtt_ms", Value::Number(50.0)),
        ];
        let rate = attribute(2, &1_000_000u64.to_ne_bytes());
        let wanted =
            [number(3, 3), number(5, 5), number(7, 50_000), number(6, (-4i32) as u32), rate].concat();
        assert_eq!(asked("cake", &params).unwrap().options, wanted);
    }

    #[test]
    fn flow_queues_are_asked_for_by_the_kernels_own_numbers() {
        let number = |kind: u16, value: u32| attribute(kind, &value.to_ne_bytes());
        let fq_pie = [("target_ms", Value::Number(20.0)), ("alpha", Value::Number(0.25))];
        assert_eq!(asked("fq_pie", &fq_pie).unwrap().options, [number(3, 20_000), number(5, 4)].concat());
        let fq = [("maxrate_bps", Value::Number(8e6)), ("flows", Value::Number(256.0))];
        assert_eq!(asked("fq", &fq).unwrap().options, [number(7, 1_000_000), number(8, 8)].concat());
        let problem = asked("fq", &[("flows", Value::Number(100.0))]).unwrap_err().to_string();
        assert!(problem.contains("q.params.flows") && problem.contains("128"), "{problem}");
        let sfq =
            asked("sfq", &[("active_flows", Value::Number(300.0)), ("drop", Value::Name("head".into()))]);
        let sfq = sfq.unwrap().options;
        let word = |at: usize| u32::from_ne_bytes(sfq[4 * at..4 * at + 4].try_into().unwrap());
        // struct tc_sfq_qopt_v1 has 72 bytes.
        assert_eq!((sfq.len(), word(4), word(6)), (72, 300, 1));
        let band = asked("pfifo_fast", &[("limit_packets", Value::Number(50.0))]).unwrap();
        assert_eq!((band.options.len(), band.device_queue), (0, Some(50)));
    }

    #[test]
    fn what_the_kernel_cannot_take_is_refused_by_name() {
        for (name, params, part) in [
            ("codel", ("mtu", Value::Number(1000.0)), "q.params.mtu"),
            ("pie", ("max_burst", Value::Number(10.0)), "q.params.max_burst"),
            ("pie", ("alpha", Value::Number(0.1)), "0.125"),
            ("red", ("gentle", Value::Flag(true)), "gentle = false"),
            ("red", ("weight", Value::Number(0.0027)), "0.001953125"),
            ("fq_codel", ("variant", Value::Name("ns-3.27".into())), "q.params.variant"),
        ] {
            let said = asked(name, &[params]).expect_err(name).to_string();
            assert!(said.contains(part), "{name}: {said}");
        }
        let said = asked("pfifo", &[]).expect_err("no limit").to_string();
        assert!(said.contains("limit_packets"), "{said}");
    }

    #[test]
    fn red_has_its_papers_parameters_where_none_are_given() {
        let found = asked("red", &[("mean_packet", Value::Number(1000.0))]).expect("all can be said").options;
        let number = |at: usize| u32::from_ne_bytes(found[at..at + 4].try_into().unwrap());
        // After the attribute's header: limit, min and max in bytes, then the weight's exponent.
        assert_eq!([number(8), number(12)], [5_000, 15_000]);
        assert_eq!(found[16], 9);
        // CHOKe's values are in packets.
        let found = asked("choke", &[("min", Value::Number(10.0))]).expect("all can be said").options;
        let number = |at: usize| u32::from_ne_bytes(found[at..at + 4].try_into().unwrap());
        assert_eq!(([number(4), number(8), number(12)], found[16]), ([120, 10, 30], 9));
    }
}
