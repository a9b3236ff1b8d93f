//! How registry rows describe themselves: cards, parameters, and the checked lookup of given values.
//!
//! Congestion controls, queue disciplines and applications all use this description, so one check, one list in Python
//! and one set of shared tests serve all of them. Nothing is guessed: an unknown name, a number out of range or a value
//! of the wrong kind is an error that states the field, the value and the fix.

use crate::scenario::{Params, ScenarioError, Value};
use crate::time::{Duration, Rate};

/// A choice whose options have names in scenarios.
pub trait Words: Copy + PartialEq + 'static {
    /// Every option with its name, in display order.
    const WORDS: &'static [(Self, &'static str)];

    /// The option's name.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(option, _)| *option == self).expect("every option has a name").1
    }
}

/// Defines an enum whose options have names in scenarios.
macro_rules! words {
    ($(#[$of_all:meta])* pub enum $Name:ident { $($(#[$of_one:meta])* $Option:ident = $word:literal,)+ }) => {
        $(#[$of_all])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $Name {
            $($(#[$of_one])* $Option,)+
        }
        impl $crate::params::Words for $Name {
            const WORDS: &'static [(Self, &'static str)] = &[$(($Name::$Option, $word)),+];
        }
    };
}
pub(crate) use words;

/// Kind of a parameter's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A time: whole picoseconds. Its key in a description ends in `_ps` (`target_ps`), like every time there.
    Time,
    /// A rate: whole bits per second (`rate_bps`).
    Rate,
    /// A size: whole bytes.
    Size,
    /// A fraction of a whole, from 0 to 1.
    Share,
    /// Any other number in the range.
    Number,
    /// A count: a whole number in the range.
    Whole,
    /// A switch.
    Flag,
    /// One of `choices`.
    Choice,
    /// Any text.
    Text,
}

impl Kind {
    /// The kind's name in lists.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Time => "time",
            Kind::Rate => "rate",
            Kind::Size => "size",
            Kind::Share => "share",
            Kind::Number => "number",
            Kind::Whole => "count",
            Kind::Flag => "flag",
            Kind::Choice => "choice",
            Kind::Text => "text",
        }
    }

    /// The unit at the end of a key in a description.
    const fn suffix(self) -> &'static str {
        match self {
            Kind::Time => "_ps",
            Kind::Rate => "_bps",
            _ => "",
        }
    }

    fn is_number(self) -> bool {
        !matches!(self, Kind::Flag | Kind::Choice | Kind::Text)
    }
}

/// How a key names a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spelling {
    /// As in descriptions: a plain number is in the kind's base unit.
    Exact,
    /// As users write it, and descriptions before 0.3: a plain number is in the row's unit.
    Plain,
}

/// The suffix of a parameter's name for a unit; empty for units without a suffix.
fn ending(unit: &str) -> &str {
    match unit {
        "bit/s" => "bps",
        "B" => "bytes",
        "Hz" => "hz",
        "ps" | "ns" | "us" | "ms" | "s" | "packets" | "segments" => unit,
        _ => "",
    }
}

/// Whether `key` names the quantity `name` in `unit`: with or without the unit's suffix, or with `_size` for a size.
pub fn is_spelled(key: &str, name: &str, unit: &str) -> bool {
    let ending = ending(unit);
    let ends = |longer: &str, shorter: &str| {
        let rest = longer.strip_prefix(shorter).and_then(|rest| rest.strip_prefix('_'));
        !ending.is_empty() && rest == Some(ending)
    };
    let stem = key.strip_suffix("_size").filter(|_| unit == "B").unwrap_or(key);
    key == name || ends(name, stem) || ends(key, name)
}

/// `n` microseconds, for parameter ranges.
pub const fn us(n: u64) -> Duration {
    Duration::from_us(n)
}
/// `n` milliseconds, for parameter ranges.
pub const fn ms(n: u64) -> Duration {
    Duration::from_ms(n)
}
/// `n` seconds, for parameter ranges.
pub const fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Value of a parameter that the scenario does not set.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DefaultValue {
    /// A default number.
    Number(f64),
    /// A default switch position.
    Flag(bool),
    /// A default name.
    Name(&'static str),
    /// Determined by another parameter, usually `variant`; the text describes how, for display.
    Depends(&'static str),
}

/// One parameter of a registry row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ParamSpec {
    /// Its key in a scenario.
    pub name: &'static str,
    /// Unit of a number without a unit; empty for ratios, counts, switches and names.
    pub unit: &'static str,
    /// Kind of its value.
    pub kind: Kind,
    /// Value if the scenario does not set it.
    pub default: DefaultValue,
    /// Smallest number allowed, in the kind's base unit.
    pub min: f64,
    /// Largest number allowed.
    pub max: f64,
    /// Names allowed; empty unless `kind` is [`Kind::Choice`].
    pub choices: &'static [&'static str],
    /// Description in one sentence, for display.
    pub doc: &'static str,
}

impl ParamSpec {
    /// A time within an inclusive range. A number without a unit is in milliseconds.
    pub const fn time(
        name: &'static str,
        default: Duration,
        range: (Duration, Duration),
        doc: &'static str,
    ) -> Self {
        // Integers up to this limit are exact as floats.
        assert!(range.1.as_ps() < 1 << 53, "a time this long is not exact");
        let range = (range.0.as_ps() as f64, range.1.as_ps() as f64);
        ParamSpec { kind: Kind::Time, ..Self::number(name, "ms", default.as_ps() as f64, range, doc) }
    }
    /// The same parameter, with plain numbers in seconds.
    pub const fn in_seconds(self) -> Self {
        ParamSpec { unit: "s", ..self }
    }
    /// A rate in bits per second.
    pub const fn rate(name: &'static str, default: u64, range: (u64, u64), doc: &'static str) -> Self {
        ParamSpec { kind: Kind::Rate, ..Self::whole(name, "bit/s", default, range, doc) }
    }
    /// A size in bytes.
    pub const fn size(name: &'static str, default: u64, range: (u64, u64), doc: &'static str) -> Self {
        ParamSpec { kind: Kind::Size, ..Self::whole(name, "B", default, range, doc) }
    }
    /// A fraction of a whole.
    pub const fn share(name: &'static str, default: f64, range: (f64, f64), doc: &'static str) -> Self {
        assert!(range.0 >= 0.0 && range.1 <= 1.0, "a share is from 0 to 1");
        ParamSpec { kind: Kind::Share, ..Self::number(name, "", default, range, doc) }
    }
    /// A number within an inclusive range.
    pub const fn number(
        name: &'static str,
        unit: &'static str,
        default: f64,
        range: (f64, f64),
        doc: &'static str,
    ) -> Self {
        let (min, max) = range;
        let default = DefaultValue::Number(default);
        ParamSpec { name, unit, kind: Kind::Number, default, min, max, choices: &[], doc }
    }
    /// An integer within an inclusive range.
    pub const fn whole(
        name: &'static str,
        unit: &'static str,
        default: u64,
        range: (u64, u64),
        doc: &'static str,
    ) -> Self {
        let default = DefaultValue::Number(default as f64);
        let (min, max) = (range.0 as f64, range.1 as f64);
        ParamSpec { name, unit, kind: Kind::Whole, default, min, max, choices: &[], doc }
    }
    /// A switch.
    pub const fn flag(name: &'static str, default: bool, doc: &'static str) -> Self {
        let default = DefaultValue::Flag(default);
        ParamSpec { name, unit: "", kind: Kind::Flag, default, min: 0.0, max: 1.0, choices: &[], doc }
    }
    /// One of `choices`; the first is the default.
    pub const fn choice(name: &'static str, choices: &'static [&'static str], doc: &'static str) -> Self {
        let default = DefaultValue::Name(choices[0]);
        ParamSpec { name, unit: "", kind: Kind::Choice, default, min: 0.0, max: 0.0, choices, doc }
    }
    /// Any text; empty by default.
    pub const fn text(name: &'static str, doc: &'static str) -> Self {
        let default = DefaultValue::Name("");
        ParamSpec { name, unit: "", kind: Kind::Text, default, min: 0.0, max: 0.0, choices: &[], doc }
    }
    /// The same parameter with a default that another one determines; `how` describes that for display.
    pub const fn depends(mut self, how: &'static str) -> Self {
        self.default = DefaultValue::Depends(how);
        self
    }

    /// The default as a description writes it under the row's key; `None` if another parameter determines it.
    pub fn default_value(&self) -> Option<Value> {
        match self.default {
            DefaultValue::Number(number) => Some(Value::Number(number)),
            DefaultValue::Flag(flag) => Some(Value::Flag(flag)),
            DefaultValue::Name(name) => Some(Value::Name(name.into())),
            DefaultValue::Depends(_) => None,
        }
    }

    /// Base units per unit of the row.
    pub fn scale(&self) -> f64 {
        match (self.kind, self.unit) {
            (Kind::Time, "s") => 1e12,
            (Kind::Time, _) => 1e9,
            _ => 1.0,
        }
    }

    /// Key of its value in a description.
    pub fn key(&self) -> String {
        format!("{}{}", self.name, self.kind.suffix())
    }

    /// How `key` names this parameter; `None` if it does not.
    pub fn spelling(&self, key: &str) -> Option<Spelling> {
        let suffix = self.kind.suffix();
        if !suffix.is_empty() && key.strip_prefix(self.name) == Some(suffix) {
            return Some(Spelling::Exact);
        }
        is_spelled(key, self.name, self.unit).then_some(Spelling::Plain)
    }

    /// Converts a number to the kind's base unit; a time to the nearest integer.
    fn in_base(&self, spelling: Spelling, number: f64) -> f64 {
        if spelling == Spelling::Plain && self.kind == Kind::Time {
            (number * self.scale()).round()
        } else {
            number
        }
    }

    /// Converts a number to the row's unit.
    pub fn in_unit(&self, spelling: Spelling, number: f64) -> f64 {
        if spelling == Spelling::Exact { number / self.scale() } else { number }
    }

    /// The allowed values for display: `0.1 to 0.9`, `true or false`, `one of linux, freebsd`.
    pub fn range_text(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        match self.kind {
            Kind::Time | Kind::Share | Kind::Number => {
                format!("{} to {}{unit}", self.min / self.scale(), self.max / self.scale())
            }
            Kind::Rate | Kind::Size | Kind::Whole => {
                format!("a whole number from {} to {}{unit}", self.min, self.max)
            }
            Kind::Flag => "true or false".into(),
            Kind::Choice => format!("one of {}", self.choices.join(", ")),
            Kind::Text => "a text".into(),
        }
    }
}

/// Description of a registry row: an algorithm, a queue discipline, an application.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Card {
    /// Registry name in lower case; the kernel's name if there is one.
    pub name: &'static str,
    /// Its name in prose.
    pub title: &'static str,
    /// The law, as a formula where there is one.
    pub law: &'static str,
    /// The paper, RFC or kernel that it implements, with section.
    pub source: &'static str,
    /// Differences from the source, one sentence each.
    pub differs: &'static [&'static str],
    /// Its counterpart on a live machine, if any.
    pub live_twin: Option<&'static str>,
    /// Parameters in display order.
    pub params: &'static [ParamSpec],
}

impl Card {
    /// The first source, for a message.
    pub fn main_source(&self) -> &'static str {
        self.source.split("; ").next().expect("a text has a first part")
    }

    /// The parameter that `key` names, and how it is spelled.
    pub fn spelled(&self, key: &str) -> Option<(&'static ParamSpec, Spelling)> {
        let found = self.params.iter().find_map(|spec| Some((spec, spec.spelling(key)?)));
        // An exact name has priority: `burst` is not `burst_bytes`.
        self.param(key).map(|spec| (spec, Spelling::Plain)).or(found)
    }

    /// The parameter of this name.
    pub fn param(&self, name: &str) -> Option<&'static ParamSpec> {
        self.params.iter().find(|spec| spec.name == name)
    }
}

/// Parameters that were checked against a card.
///
/// Looking up a name that the card does not list panics: that is a programming error, not the user's.
#[derive(Clone, Copy)]
pub struct Checked<'a> {
    card: &'static Card,
    params: &'a Params,
    field_path: &'a str,
    preferred: &'a [&'a str],
}

impl<'a> Checked<'a> {
    /// Checks `params`, at `field_path` (such as `links[0].queue.params`), against `card`.
    pub fn new(card: &'static Card, params: &'a Params, field_path: &'a str) -> Result<Self, ScenarioError> {
        Self::preferring(card, params, field_path, &[])
    }

    /// As [`Checked::new`]. A choice that is not set takes the first of `preferred` that it offers, before its own
    /// default. Stacks use this to select the variant of an algorithm that belongs to them.
    pub fn preferring(
        card: &'static Card,
        params: &'a Params,
        field_path: &'a str,
        preferred: &'a [&'a str],
    ) -> Result<Self, ScenarioError> {
        let checked = Checked { card, params, field_path, preferred };
        for (name, value) in params {
            let (spec, spelling) = card.spelled(name).ok_or_else(|| checked.unknown(name, value))?;
            checked.check(spec, spelling, value)?;
        }
        Ok(checked)
    }

    /// The card checked against.
    pub fn card(&self) -> &'static Card {
        self.card
    }

    /// A number in the row's unit, given or default.
    pub fn number(&self, name: &str) -> f64 {
        let spec = self.spec(name);
        self.given_number(name).unwrap_or_else(|| self.default_number(spec) / spec.scale())
    }
    /// A time, given or default.
    pub fn time(&self, name: &str) -> Duration {
        let default = || Duration::from_ps(self.default_number(self.spec(name)) as u64);
        self.given_time(name).unwrap_or_else(default)
    }
    /// A whole number, given or default.
    pub fn whole(&self, name: &str) -> u64 {
        self.number(name) as u64
    }
    /// A switch, given or default.
    pub fn flag(&self, name: &str) -> bool {
        self.given_flag(name).unwrap_or_else(|| match self.spec(name).default {
            DefaultValue::Flag(flag) => flag,
            other => panic!("{}.{name}: no switch as default but {other:?}", self.card.name),
        })
    }
    /// A choice, given, preferred or default.
    pub fn choice(&self, name: &str) -> &'a str {
        if let Some(given) = self.given_choice(name) {
            return given;
        }
        let spec = self.spec(name);
        if let Some(preferred) = self.preferred.iter().find(|choice| spec.choices.contains(choice)) {
            return preferred;
        }
        match spec.default {
            DefaultValue::Name(choice) => choice,
            other => panic!("{}.{name}: no name as default but {other:?}", self.card.name),
        }
    }

    /// A text, given or empty.
    pub fn text(&self, name: &str) -> &'a str {
        match self.given(name, &[Kind::Text]) {
            Some(Value::Name(text)) => text,
            _ => "",
        }
    }

    /// A number in the row's unit, only if the scenario sets it.
    pub fn given_number(&self, name: &str) -> Option<f64> {
        let spec = self.spec(name);
        assert!(
            spec.kind.is_number(),
            "{}.{name} is a {:?}, asked for as a number",
            self.card.name,
            spec.kind
        );
        match self.find(spec)? {
            (spelling, Value::Number(number)) => Some(spec.in_unit(spelling, *number)),
            _ => None,
        }
    }
    /// A time, only if the scenario sets it.
    pub fn given_time(&self, name: &str) -> Option<Duration> {
        let spec = self.spec(name);
        assert!(
            spec.kind == Kind::Time,
            "{}.{name} is a {:?}, asked for as a time",
            self.card.name,
            spec.kind
        );
        match self.find(spec)? {
            (spelling, Value::Number(number)) => {
                Some(Duration::from_ps(spec.in_base(spelling, *number) as u64))
            }
            _ => None,
        }
    }
    /// A rate, only if the scenario sets it.
    pub fn given_rate(&self, name: &str) -> Option<Rate> {
        self.given_whole(name).map(Rate::from_bps)
    }
    /// An integer, only if the scenario sets it.
    pub fn given_whole(&self, name: &str) -> Option<u64> {
        self.given_number(name).map(|number| number as u64)
    }
    /// A switch, only if the scenario sets it.
    pub fn given_flag(&self, name: &str) -> Option<bool> {
        match self.given(name, &[Kind::Flag]) {
            Some(Value::Flag(flag)) => Some(*flag),
            _ => None,
        }
    }
    /// A choice, only if the scenario sets it.
    pub fn given_choice(&self, name: &str) -> Option<&'a str> {
        match self.given(name, &[Kind::Choice]) {
            Some(Value::Name(choice)) => Some(choice),
            _ => None,
        }
    }

    /// An error at parameter `name` that the card cannot express, such as contradictory switches.
    pub fn refuse(&self, name: &str, problem: &str, fix: &str) -> ScenarioError {
        let given = self.card.param(name).and_then(|spec| self.find(spec));
        let value = given.map_or_else(|| "the default".into(), |(_, value)| value.to_string());
        self.refuse_value(name, value, problem, fix)
    }

    fn refuse_value(&self, name: &str, value: String, problem: &str, fix: &str) -> ScenarioError {
        ScenarioError {
            field: format!("{}.{name}", self.field_path),
            value,
            problem: format!("{} parameter {name}: {problem}", self.card.name),
            fix: format!("{fix} (source: {})", self.card.main_source()),
        }
    }

    fn given(&self, name: &str, kinds: &[Kind]) -> Option<&'a Value> {
        let spec = self.spec(name);
        let kind = spec.kind;
        assert!(kinds.contains(&kind), "{}.{name} is a {kind:?}, asked for as {kinds:?}", self.card.name);
        self.find(spec).map(|(_, value)| value)
    }

    /// The value given for a row, under any of its keys.
    fn find(&self, spec: &ParamSpec) -> Option<(Spelling, &'a Value)> {
        self.params.iter().find_map(|(key, value)| Some((spec.spelling(key)?, value)))
    }

    fn default_number(&self, spec: &ParamSpec) -> f64 {
        match spec.default {
            DefaultValue::Number(number) => number,
            other => panic!("{}.{}: no number as default but {other:?}", self.card.name, spec.name),
        }
    }

    fn spec(&self, name: &str) -> &'static ParamSpec {
        self.card.param(name).unwrap_or_else(|| panic!("{} has no parameter {name}", self.card.name))
    }

    fn check(&self, spec: &ParamSpec, spelling: Spelling, value: &Value) -> Result<(), ScenarioError> {
        let fits = match (spec.kind, value) {
            // NaN fails both comparisons, so it is out of range.
            (Kind::Time, Value::Number(number)) => {
                let ps = spec.in_base(spelling, *number);
                spec.min <= ps && ps <= spec.max && ps == ps.trunc()
            }
            (Kind::Share | Kind::Number, Value::Number(number)) => spec.min <= *number && *number <= spec.max,
            (Kind::Rate | Kind::Size | Kind::Whole, Value::Number(number)) => {
                spec.min <= *number && *number <= spec.max && *number == number.trunc()
            }
            (Kind::Flag, Value::Flag(_)) | (Kind::Text, Value::Name(_)) => true,
            (Kind::Choice, Value::Name(choice)) => spec.choices.contains(&choice.as_str()),
            _ => false,
        };
        if fits {
            return Ok(());
        }
        let hint = match (spec.kind, value) {
            (Kind::Choice, Value::Name(choice)) => did_you_mean(choice, spec.choices),
            _ => String::new(),
        };
        let range = spec.range_text();
        let shown = match (spelling, value) {
            (Spelling::Exact, Value::Number(ps)) => format!("{} {}", spec.in_unit(spelling, *ps), spec.unit),
            _ => value.to_string(),
        };
        Err(self.refuse_value(spec.name, shown, &format!("must be {range}"), &format!("Give {range}{hint}")))
    }

    fn unknown(&self, name: &str, value: &Value) -> ScenarioError {
        let known: Vec<&str> = self.card.params.iter().map(|spec| spec.name).collect();
        let fix = if known.is_empty() {
            "It has no parameters; remove this one".to_string()
        } else {
            format!("It has {}{}", known.join(", "), did_you_mean(name, &known))
        };
        ScenarioError {
            field: format!("{}.{name}", self.field_path),
            value: value.to_string(),
            problem: format!("{} has no parameter {name}", self.card.name),
            fix: format!("{fix} (source: {})", self.card.main_source()),
        }
    }
}

/// The error for a name that is not in the registry. `kind` is the kind of thing, such as `congestion control`.
pub fn unknown_name(kind: &str, found: &str, field_path: &str, known: &[&str]) -> ScenarioError {
    ScenarioError {
        field: field_path.into(),
        value: format!("{found:?}"),
        problem: format!("there is no {kind} named \"{found}\""),
        fix: format!("There are {}{}", known.join(", "), did_you_mean(found, known)),
    }
}

/// The known name most similar to `name` (Ratcliff and Obershelp 1988), if they share at least half of their letters.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('_', "-").chars().collect::<Vec<char>>();
    let wanted = plain(name);
    let score = |candidate: &str| {
        let candidate = plain(candidate);
        let letters = (candidate.len() + wanted.len()) as f64;
        if letters == 0.0 { 1.0 } else { 2.0 * common(&candidate, &wanted) as f64 / letters }
    };
    let mut best: Option<(f64, Vec<char>, &str)> = None;
    for candidate in known {
        let rank = (score(candidate), plain(candidate), *candidate);
        let is_better = best.as_ref().is_none_or(|best| (rank.0, &rank.1) >= (best.0, &best.1));
        if rank.0 >= 0.5 && is_better {
            best = Some(rank);
        }
    }
    best.map(|(_, _, name)| name)
}

/// Number of letters in the longest common block and, recursively, to its left and right.
fn common(a: &[char], b: &[char]) -> usize {
    let (mut start_a, mut start_b, mut longest) = (0, 0, 0);
    let mut ends = vec![0; b.len() + 1];
    for (i, letter) in a.iter().enumerate() {
        for j in (0..b.len()).rev() {
            ends[j + 1] = if *letter == b[j] { ends[j] + 1 } else { 0 };
        }
        for (j, length) in ends.iter().enumerate() {
            if *length > longest {
                (start_a, start_b, longest) = (i + 1 - length, j - length, *length);
            }
        }
    }
    if longest == 0 {
        return 0;
    }
    longest + common(&a[..start_a], &b[..start_b]) + common(&a[start_a + longest..], &b[start_b + longest..])
}

fn did_you_mean(found: &str, known: &[&str]) -> String {
    nearest(found, known).map_or_else(String::new, |name| format!("; did you mean \"{name}\"?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    static CARD: Card = Card {
        name: "pendulum",
        title: "Pendulum",
        law: "swings",
        source: "Galilei 1602",
        differs: &[],
        live_twin: None,
        params: &[
            ParamSpec::number("length", "m", 1.0, (0.1, 10.0), "Length of the string."),
            ParamSpec::whole("swings", "", 3, (1, 100), "How often."),
            ParamSpec::flag("damped", false, "Whether it stops."),
            ParamSpec::choice("variant", &["brass", "iron"], "Material."),
            ParamSpec::number("mass", "kg", 1.0, (0.1, 9.0), "Mass.").depends("brass 1, iron 2"),
        ],
    };

    fn params(pairs: &[(&str, Value)]) -> Params {
        pairs.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
    }

    fn error(name: &str, value: Value) -> ScenarioError {
        let given = params(&[(name, value)]);
        Checked::new(&CARD, &given, "at.params").map(|_| ()).unwrap_err()
    }

    #[test]
    fn defaults_and_given_values() {
        let given = params(&[("swings", Value::Number(7.0)), ("variant", Value::Name("iron".into()))]);
        let checked = Checked::new(&CARD, &given, "at.params").unwrap();
        assert_eq!(checked.number("length"), 1.0);
        assert_eq!(checked.whole("swings"), 7);
        assert!(!checked.flag("damped"));
        assert_eq!(checked.choice("variant"), "iron");
        assert_eq!(checked.given_number("mass"), None);
    }

    #[test]
    fn a_preference_ranks_between_the_given_value_and_the_default() {
        let none = Params::new();
        let prefers = ["wood", "iron"];
        assert_eq!(Checked::preferring(&CARD, &none, "at", &prefers).unwrap().choice("variant"), "iron");
        let given = params(&[("variant", Value::Name("brass".into()))]);
        assert_eq!(Checked::preferring(&CARD, &given, "at", &prefers).unwrap().choice("variant"), "brass");
    }

    #[test]
    fn the_nearest_name_shares_most_letters() {
        assert_eq!(nearest("CUBIC", &["reno", "cubic"]), Some("cubic"));
        assert_eq!(nearest("newreno", &["reno", "cubic"]), Some("reno"));
        assert_eq!(nearest("zzz", &["reno", "cubic"]), None);
    }

    #[test]
    fn errors_name_row_parameter_range_and_source() {
        let out = error("length", Value::Number(11.0));
        assert_eq!(out.field, "at.params.length");
        let text = out.to_string();
        for part in ["pendulum", "length", "0.1 to 10 m", "11", "Galilei"] {
            assert!(text.contains(part), "{part} missing in: {text}");
        }
        assert!(error("swings", Value::Number(2.5)).problem.contains("whole number"));
        assert!(error("length", Value::Number(f64::NAN)).problem.contains("0.1 to 10"));
        assert!(error("damped", Value::Number(1.0)).problem.contains("true or false"));
    }

    #[test]
    fn near_misses_are_suggested_and_far_ones_are_not() {
        assert!(error("lenght", Value::Number(1.0)).fix.contains("did you mean \"length\""));
        assert!(error("variant", Value::Name("irn".into())).fix.contains("did you mean \"iron\""));
        assert!(!error("temperature", Value::Number(1.0)).fix.contains("did you mean"));
    }
}
