//! Quantities with units, read exactly: "80ms", "10mbit", "64KiB", "1bdp".
//!
//! Every quantity is converted to an integer (picoseconds, bits per second, bytes) without passing through a float, and
//! is written in a readable form that parses to the same integer. A number without a unit is refused: it is the most
//! common mistake in descriptions of experiments, and the most costly.

use crate::node::{Node, Value};
use crate::problem::{Fault, fault};

/// Picoseconds.
const TIME_UNITS: [(&str, u64); 7] = [
    ("ps", 1),
    ("ns", 1_000),
    ("us", 1_000_000),
    ("ms", 1_000_000_000),
    ("s", 1_000_000_000_000),
    ("min", 60_000_000_000_000),
    ("h", 3_600_000_000_000_000),
];
const TIME_WORDS: [(&str, &str); 12] = [
    ("µs", "us"),
    ("μs", "us"),
    ("usec", "us"),
    ("msec", "ms"),
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("minute", "min"),
    ("minutes", "min"),
    ("hour", "h"),
    ("hours", "h"),
];
/// Bits per second.
const RATE_UNITS: [(&str, u64); 8] = [
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
    ("tbit", 1_000_000_000_000),
    ("kibit", 1 << 10),
    ("mibit", 1 << 20),
    ("gibit", 1 << 30),
];
/// Bytes.
const BYTE_UNITS: [(&str, u64); 7] = [
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
];
/// Number of digits that, times the largest unit, still fits in 128 bits.
const MOST_DIGITS: usize = 22;

fn scale(units: &[(&str, u64)], word: &str) -> Option<u64> {
    units.iter().find(|(name, _)| *name == word).map(|(_, scale)| *scale)
}

/// A parsed number: `digits` × 10^`exponent`, without trailing zeros in the digits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Decimal {
    is_negative: bool,
    digits: u128,
    exponent: i32,
}

impl Decimal {
    /// The nearest float: rounded once.
    fn as_float(self) -> f64 {
        let sign = if self.is_negative { "-" } else { "" };
        format!("{sign}{}e{}", self.digits, self.exponent).parse().expect("a number")
    }

    /// As [`Decimal::whole`], rounded half up.
    fn rounded(self, scale: u64, what: &str) -> Result<u64, Fault> {
        let places = self.exponent.min(0).unsigned_abs();
        match 10u128.checked_pow(places) {
            Some(power) if !self.is_negative || self.digits == 0 => {
                let scaled = self.digits * u128::from(scale);
                let near =
                    Decimal { digits: (scaled + power / 2) / power, exponent: self.exponent.max(0), ..self };
                near.whole(1, what, "", "12.5")
            }
            None => Ok(0),
            _ => Err(fault(format!("{what} cannot be negative"), "Write for example 12.5")),
        }
    }

    /// The number in base units, which must be an integer.
    fn whole(self, scale: u64, what: &str, finest: &str, example: &str) -> Result<u64, Fault> {
        let overflows = || {
            fault(format!("{what} this large overflows 64 bits"), format!("Write for example \"{example}\""))
        };
        if self.is_negative && self.digits > 0 {
            return Err(fault(
                format!("{what} cannot be negative"),
                format!("Write for example \"{example}\""),
            ));
        }
        let scaled = self.digits * u128::from(scale);
        let power = 10u128.checked_pow(self.exponent.unsigned_abs());
        let value = if self.exponent >= 0 {
            power.and_then(|power| scaled.checked_mul(power)).ok_or_else(overflows)?
        } else {
            let whole = power.filter(|power| scaled % power == 0).map(|power| scaled / power);
            let unit = finest.trim_start_matches("one ");
            whole
                .ok_or_else(|| fault(format!("finer than {finest}"), format!("Round it to a whole {unit}")))?
        };
        u64::try_from(value).map_err(|_| overflows())
    }
}

/// Length of the digits at the start of `text`, including underscores if allowed.
fn digits(text: &str, underscores: bool) -> usize {
    let is_part = |c: char| c.is_ascii_digit() || (underscores && c == '_');
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

/// Length of the number at the start of `text`; 0 if there is none.
fn number_length(text: &str) -> usize {
    let sign = text.starts_with(['+', '-']) as usize;
    let mut at = sign;
    if text[at..].starts_with(|c: char| c.is_ascii_digit()) {
        at += digits(&text[at..], true);
        if text[at..].starts_with('.') {
            at += 1 + digits(&text[at + 1..], false);
        }
    } else {
        let fraction = text[at..].strip_prefix('.').map_or(0, |rest| digits(rest, false));
        if fraction == 0 {
            return 0;
        }
        at += 1 + fraction;
    }
    if text[at..].starts_with(['e', 'E']) {
        let signed = at + 1 + text[at + 1..].starts_with(['+', '-']) as usize;
        let exponent = digits(&text[signed..], false);
        at = if exponent > 0 { signed + exponent } else { at };
    }
    at
}

fn decimal(text: &str, what: &str, example: &str) -> Result<Decimal, Fault> {
    let unlike = || {
        fault(
            format!("{what} of this size cannot be represented"),
            format!("Write for example \"{example}\""),
        )
    };
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let is_negative = number.starts_with('-');
    let number = number.trim_start_matches(['+', '-']).replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let all = format!("{whole}{fraction}");
    let kept = all.trim_start_matches('0').trim_end_matches('0');
    if kept.is_empty() {
        return Ok(Decimal { is_negative, digits: 0, exponent: 0 });
    }
    let exponent: i64 = exponent.parse().map_err(|_| unlike())?;
    let zeros = all.len() - all.trim_end_matches('0').len();
    let exponent = exponent.saturating_add(zeros as i64 - fraction.len() as i64);
    // Position of the first digit: 1e999999999 would exhaust memory.
    let first = exponent.saturating_add(kept.len() as i64 - 1);
    if first.abs() >= 60 || kept.len() > MOST_DIGITS {
        return Err(unlike());
    }
    Ok(Decimal { is_negative, digits: kept.parse().map_err(|_| unlike())?, exponent: exponent as i32 })
}

/// Splits a quantity into number and unit; the unit is not checked.
fn split<'a>(text: &'a str, what: &str, example: &str) -> Result<(Decimal, &'a str), Fault> {
    let word = text.trim();
    let length = number_length(word);
    let unit = word[length..].trim();
    let is_unit = |c: char| c.is_ascii_alphabetic() || "µμ%/ ".contains(c);
    if length == 0 || !unit.chars().all(is_unit) {
        let bare = word.trim_start_matches(['+', '-']).to_lowercase();
        if bare.starts_with("nan") || bare.starts_with("inf") {
            return Err(fault(
                format!("{what} must be a finite number"),
                format!("Write for example \"{example}\""),
            ));
        }
        let fix = format!("Write a number and a unit, for example \"{example}\"");
        return Err(fault(format!("this is not {what}"), fix));
    }
    let number = decimal(&word[..length], what, example)?;
    if unit.is_empty() {
        let fix = format!("Say what {} counts, for example \"{example}\"", &word[..length]);
        return Err(fault("the unit is missing", fix));
    }
    Ok((number, unit))
}

/// `value` / `unit` as an exact decimal; units used for writing are powers of ten or divide the value.
fn quotient(value: u128, unit: u128) -> String {
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = unit.to_string().len() - 1;
    format!("{whole}.{rest:0digits$}").trim_end_matches('0').into()
}

/// A kind of quantity with one base unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantity {
    /// A time in picoseconds.
    Time,
    /// A rate in bits per second, at the IP layer unless a link's framing applies.
    Rate,
    /// A size in bytes, at the IP layer unless the field's documentation states otherwise.
    Bytes,
}

impl Quantity {
    /// The kind of this name: `time`, `rate` or `bytes`.
    pub fn named(name: &str) -> Option<Self> {
        [Quantity::Time, Quantity::Rate, Quantity::Bytes].into_iter().find(|kind| kind.name() == name)
    }

    /// Its name in the schema's documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Quantity::Time => "time",
            Quantity::Rate => "rate",
            Quantity::Bytes => "bytes",
        }
    }

    /// Its name in error messages.
    pub fn what(self) -> &'static str {
        match self {
            Quantity::Time => "a time",
            Quantity::Rate => "a rate",
            Quantity::Bytes => "a size",
        }
    }

    /// An example for error messages.
    pub fn example(self) -> &'static str {
        match self {
            Quantity::Time => "80ms",
            Quantity::Rate => "10mbit",
            Quantity::Bytes => "64kB",
        }
    }

    /// Parses a text to base units.
    pub fn read(self, text: &str) -> Result<u64, Fault> {
        let (number, unit) = split(text, self.what(), self.example())?;
        match self {
            Quantity::Time => read_time(number, unit),
            Quantity::Rate => read_rate(number, unit),
            Quantity::Bytes => read_bytes(number, unit, "Use B, kB, MB, KiB or MiB"),
        }
    }

    /// Base units per unit.
    pub fn unit(self, unit: &str) -> Result<u64, Fault> {
        self.read(&format!("1{unit}"))
    }

    /// Converts a measured number in a unit of `scale` base units, rounded to an integer.
    pub fn rounded(self, number: &str, scale: u64) -> Result<u64, Fault> {
        if number.is_empty() || number_length(number) != number.len() {
            return Err(fault(
                "this is not a number",
                "Write for example 12.5; the unit stands in the header",
            ));
        }
        decimal(number, self.what(), "12.5")?.rounded(scale, self.what())
    }

    /// An integer number of base units, if the value is one.
    pub fn whole(self, value: &Value) -> Result<u64, Fault> {
        let example = self.example();
        let Value::Whole(number) = value else {
            return Err(fault(
                format!("this is not {}", self.what()),
                format!("Write for example \"{example}\""),
            ));
        };
        u64::try_from(*number).map_err(|_| {
            let problem = if *number < 0 { "cannot be negative" } else { "this large overflows 64 bits" };
            fault(format!("{} {problem}", self.what()), format!("Write for example \"{example}\""))
        })
    }

    /// A field's value in base units. A description must state a unit, even for zero.
    pub fn field(self, node: &Node) -> Result<u64, Fault> {
        let example = self.example();
        match &node.value {
            Value::Text(text) => self.read(text),
            Value::Whole(_) | Value::Number(_) => Err(fault(
                "the unit is missing",
                format!("Write it as a string with a unit, for example \"{example}\""),
            )),
            _ => {
                Err(fault(format!("this is not {}", self.what()), format!("Write for example \"{example}\"")))
            }
        }
    }

    /// Base units as users write them.
    pub fn text(self, value: u64) -> String {
        fn largest(value: u64, units: &[(&'static str, u64)], names: &[&str]) -> Option<(&'static str, u64)> {
            let fits = |(name, scale): &&(&'static str, u64)| names.contains(name) && value >= *scale;
            units.iter().filter(fits).max_by_key(|(_, scale)| *scale).copied()
        }
        let in_units = |(name, scale): (&str, u64)| format!("{}{name}", quotient(value.into(), scale.into()));
        match self {
            Quantity::Time => {
                largest(value, &TIME_UNITS, &["s", "ms", "us", "ns", "ps"]).map_or("0s".into(), in_units)
            }
            Quantity::Rate => {
                largest(value, &RATE_UNITS, &["gbit", "mbit", "kbit"]).map_or(format!("{value}bit"), in_units)
            }
            Quantity::Bytes => bytes_text(value.into()),
        }
    }
}

/// Picoseconds per unit of time, for a name in lower case.
fn time_unit(unit: &str) -> Option<u64> {
    let word = TIME_WORDS.iter().find(|(word, _)| *word == unit).map_or(unit, |(_, short)| short);
    scale(&TIME_UNITS, word)
}

fn read_time(number: Decimal, unit: &str) -> Result<u64, Fault> {
    let unit = unit.to_lowercase();
    let Some(scale) = time_unit(&unit) else {
        let fix = if unit == "m" {
            "Write ms or min: m could mean either"
        } else {
            "Use ps, ns, us, ms, s, min or h"
        };
        return Err(fault(format!("\"{unit}\" is not a unit of time"), fix));
    };
    number.whole(scale, "a time", "one picosecond", "80ms")
}

fn read_rate(number: Decimal, unit: &str) -> Result<u64, Fault> {
    let bare = unit.strip_suffix("/s").or_else(|| unit.strip_suffix("ps"));
    let prefixed = |word: &str| {
        let word = word.strip_suffix('B')?;
        let word = word.strip_suffix('i').unwrap_or(word);
        matches!(word, "" | "k" | "K" | "M" | "G" | "T").then_some(())
    };
    let spelt = unit.strip_suffix("/s").unwrap_or(unit);
    if bare.and_then(prefixed).is_some() || spelt.ends_with("byte") || spelt.ends_with("bytes") {
        return Err(fault(
            format!("\"{unit}\" counts bytes, rates are in bits per second"),
            "Multiply by eight: 1 MB/s is 8mbit",
        ));
    }
    let lower = unit.to_lowercase();
    let word = ["/s", "ps", "/sec"].iter().find_map(|end| lower.strip_suffix(end)).unwrap_or(&lower);
    let stem = ["bits", "bit", "b"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
    let known = if stem.len() < word.len() { scale(&RATE_UNITS, &format!("{stem}bit")) } else { None };
    let Some(scale) = known.filter(|_| !unit.ends_with('B')) else {
        return Err(fault(
            format!("\"{unit}\" is not a unit of rate"),
            "Use bit, kbit, mbit or gbit (per second)",
        ));
    };
    number.whole(scale, "a rate", "one bit per second", "10mbit")
}

fn read_bytes(number: Decimal, unit: &str, fix: &str) -> Result<u64, Fault> {
    let lower = unit.to_lowercase();
    let stem = lower.strip_suffix("bytes").or_else(|| lower.strip_suffix("byte"));
    let word = stem.map_or(lower.clone(), |stem| format!("{stem}b"));
    // Mb means megabits; mb means whatever the keyboard produced.
    let is_bits = unit.strip_suffix('b').is_some_and(|stem| {
        let stem = stem.strip_suffix('i').unwrap_or(stem);
        matches!(stem, "k" | "K" | "M" | "G" | "T")
    });
    match scale(&BYTE_UNITS, &word) {
        Some(scale) if !is_bits => number.whole(scale, "a size", "one byte", "64kB"),
        _ => {
            let like_bits = ["bit", "bits", "b"].iter().any(|end| unit.ends_with(end)) && lower != "b";
            let problem =
                if like_bits { "looks like bits, a size is in bytes" } else { "is not a unit of size" };
            Err(fault(format!("\"{unit}\" {problem}"), fix))
        }
    }
}

fn bytes_text(value: u128) -> String {
    let mut texts = vec![format!("{value}B")];
    let decimal = [(1_000_000_000u128, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    texts.extend(
        decimal.iter().find(|(unit, _)| value >= *unit).map(|(unit, name)| quotient(value, *unit) + name),
    );
    let binary = [(1u128 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let divides = binary.iter().find(|(unit, _)| value > 0 && value % unit == 0);
    texts.extend(divides.map(|(unit, name)| format!("{}{name}", value / unit)));
    let shortest = texts.iter().map(String::len).min().expect("some text");
    texts.into_iter().find(|text| text.len() == shortest).expect("some text")
}

/// Unit of a queue size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counts {
    /// Bytes.
    Bytes,
    /// Packets.
    Packets,
    /// Picoseconds at the link's rate.
    Time,
    /// Multiples of the bandwidth-delay product.
    Bdp,
}

/// Size of a queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Size {
    /// The size is `amount` / 10^`digits`.
    pub amount: u128,
    /// Digits after the decimal point; 0 except for multiples of the BDP.
    pub digits: u32,
    /// Unit of the size.
    pub counts: Counts,
    /// The queue counts packets: the size is converted to a number of packets of the largest size.
    pub in_packets: bool,
}

impl Size {
    /// Parses a text as a size.
    pub fn read(text: &str) -> Result<Self, Fault> {
        let trimmed = text.trim_end();
        for word in [" packets", " packet"] {
            // "100 packets" has no other unit; "1bdp packets" has one.
            let rest = trimmed.strip_suffix(word).map(str::trim_end);
            if let Some(rest) = rest.filter(|rest| rest.ends_with(|c: char| c.is_ascii_alphabetic())) {
                let size = Size::read(rest)?;
                if size.counts == Counts::Packets || size.in_packets {
                    let fix = "Write for example \"1bdp packets\" or \"100packets\"";
                    return Err(fault("packets are counted twice", fix));
                }
                return Ok(Size { in_packets: true, ..size });
            }
        }
        let (number, unit) = split(text, "a queue size", "1bdp")?;
        let size = match unit.to_lowercase().as_str() {
            "packet" | "packets" | "pkt" | "pkts" | "p" => {
                let amount = number.whole(1, "a queue size", "one packet", "100packets")?;
                Size { amount: amount.into(), digits: 0, counts: Counts::Packets, in_packets: true }
            }
            "bdp" | "bdps" => {
                if number.is_negative && number.digits > 0 {
                    return Err(fault("a queue size cannot be negative", "Write for example \"1bdp\""));
                }
                let unlike =
                    || fault("a queue size of this size cannot be represented", "Write for example \"1bdp\"");
                let grown = 10u128.checked_pow(number.exponent.max(0) as u32);
                let amount = grown.and_then(|power| number.digits.checked_mul(power)).ok_or_else(unlike)?;
                let digits = number.exponent.min(0).unsigned_abs();
                if digits > 24 {
                    return Err(unlike());
                }
                Size { amount, digits, counts: Counts::Bdp, in_packets: false }
            }
            word if time_unit(word).is_some() => {
                let amount = read_time(number, word)?;
                Size { amount: amount.into(), digits: 0, counts: Counts::Time, in_packets: false }
            }
            _ => {
                let amount = read_bytes(number, unit, "Use packets, bdp, ms, B, kB, MB, KiB or MiB")?;
                Size { amount: amount.into(), digits: 0, counts: Counts::Bytes, in_packets: false }
            }
        };
        if size.amount == 0 {
            let fix = "Write for example \"1bdp\", or \"1packets\" for the smallest";
            return Err(fault("a queue of nothing drops every packet that has to wait", fix));
        }
        Ok(size)
    }

    /// Reads a field's value.
    pub fn field(node: &Node) -> Result<Self, Fault> {
        match &node.value {
            Value::Text(text) => Size::read(text),
            Value::Whole(_) | Value::Number(_) => {
                let value = node.value.text();
                let fix = format!("Say what it counts: \"{value}packets\", \"{value}B\" or \"1bdp\"");
                Err(fault("the unit is missing", fix))
            }
            _ => Err(fault(
                "this is not a queue size",
                "Write for example \"1bdp\", \"100packets\" or \"64kB\"",
            )),
        }
    }

    /// Bytes for a rate (bit/s) and round-trip time (ps). Multiples of the BDP are rounded down, times are rounded up;
    /// `None` for a number of packets. The result does not depend on whether the queue counts bytes or packets.
    pub fn in_bytes(&self, rate: u64, rtt: u64) -> Option<u64> {
        match self.counts {
            Counts::Packets => None,
            Counts::Bytes => u64::try_from(self.amount).ok(),
            Counts::Time => {
                let bytes = (u128::from(rate) * self.amount).div_ceil(8 * 10u128.pow(12));
                Some(u64::try_from(bytes).unwrap_or(u64::MAX))
            }
            Counts::Bdp => {
                let unit = 8 * 10u128.pow(12 + self.digits);
                Some(scaled_down(u128::from(rate) * u128::from(rtt), self.amount, unit))
            }
        }
    }
}

/// `a` × `b` / `unit`, rounded down and saturated; the product may have 256 bits.
fn scaled_down(a: u128, b: u128, unit: u128) -> u64 {
    let (whole, rest) = (a / unit, a % unit);
    let (mut quotient, mut remainder) = (0u128, 0u128);
    for bit in (0..u128::BITS - b.leading_zeros()).rev() {
        quotient = quotient.saturating_mul(2);
        for added in [remainder, if b >> bit & 1 == 1 { rest } else { 0 }] {
            remainder += added;
            if remainder >= unit {
                remainder -= unit;
                quotient = quotient.saturating_add(1);
            }
        }
    }
    u64::try_from(whole.saturating_mul(b).saturating_add(quotient)).unwrap_or(u64::MAX)
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = quotient(self.amount, 10u128.pow(self.digits));
        match self.counts {
            Counts::Bytes => f.write_str(&bytes_text(self.amount))?,
            Counts::Packets => return write!(f, "{number}packets"),
            Counts::Time => f.write_str(&Quantity::Time.text(self.amount as u64))?,
            Counts::Bdp => write!(f, "{number}bdp")?,
        }
        f.write_str(if self.in_packets { " packets" } else { "" })
    }
}

/// Whether a text begins with a number.
pub fn begins_with_number(text: &str) -> bool {
    let text = text.trim_start();
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    text.strip_prefix('.').unwrap_or(text).starts_with(|c: char| c.is_ascii_digit())
}

/// Converts a plain number in `unit`s of time to picoseconds, rounded; other values stay.
pub fn from_unit(node: &Node, unit: &str) -> Result<Node, Fault> {
    let scale = scale(&TIME_UNITS, unit).expect("a unit of time");
    match &node.value {
        Value::Whole(_) | Value::Number(_) => {
            decimal(&node.value.text(), "a time", "80ms")?.rounded(scale, "a time").map(Node::from)
        }
        _ => Ok(node.clone()),
    }
}

/// Converts a quantity to a plain number in `unit` for an algorithm's parameter: a unit of time, rate or size,
/// "packets", or empty for a plain number (percentages are then accepted). Rounded once, to the nearest float.
pub fn to_unit(text: &str, unit: &str) -> Result<f64, Fault> {
    let word = unit.trim().to_lowercase();
    if let Some(scale) = scale(&TIME_UNITS, &word) {
        let whole = Quantity::Time.read(text)?;
        let powers = scale.ilog10();
        return if 10u64.pow(powers) == scale {
            Ok(format!("{whole}e-{powers}").parse().expect("a number"))
        } else {
            Ok(whole as f64 / scale as f64)
        };
    }
    match word.as_str() {
        "b" | "bytes" | "byte" => return Ok(Quantity::Bytes.read(text)? as f64),
        "bps" | "bit/s" | "bits/s" => return Ok(Quantity::Rate.read(text)? as f64),
        _ => {}
    }
    let is_bare = !text.trim_end().ends_with(|c: char| c.is_ascii_alphabetic() || c == '%');
    let with_unit = if is_bare { format!("{text} /") } else { text.to_string() };
    let (number, found) = split(&with_unit, "a number", "0.5")?;
    if found == "%" && word.is_empty() {
        return Ok(Decimal { exponent: number.exponent - 2, ..number }.as_float());
    }
    if is_bare || found.to_lowercase().trim_end_matches('s') == word.trim_end_matches('s') {
        return Ok(number.as_float());
    }
    let fix = if unit.is_empty() { "Give a plain number".into() } else { format!("Give a number in {unit}") };
    Err(fault(format!("\"{found}\" does not fit"), fix))
}
