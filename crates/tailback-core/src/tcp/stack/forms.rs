//! How scenarios write the fields of a stack, and how they are displayed.

use super::choices::EcnMode;
use crate::cc::Counting;
use crate::params::Words;
use crate::scenario::Value;
use crate::time::Duration;

/// The problem with a value, and the fix.
type Wrong = (&'static str, String);

/// A notation for values of type `T`.
pub trait Form<T> {
    /// The value for display.
    fn text(&self, value: &T) -> String;
    /// Unit of a plain number; empty if the value is not a number.
    fn unit(&self) -> &'static str {
        ""
    }
    /// Parses a value from a scenario.
    fn read(&self, value: &Value) -> Result<T, Wrong>;
}

/// `true` or `false`.
pub struct Switch;
/// A whole number in this range, with this unit.
pub struct Whole(pub u64, pub u64, pub &'static str);
/// Milliseconds in this range.
pub struct Span(pub f64, pub f64);
/// The inner form, or `false`, which is displayed as this word.
pub struct Or<F>(pub &'static str, pub F);
/// A time, or `false` for off.
pub struct OrOff(pub Span);
/// One of the enum's names.
pub struct OneOf;
/// One of the enum's names; `false` means the first.
pub struct OneOfOrFalse;
/// How ACKs count for window growth.
pub struct Credit;
/// Kind of ECN: `false`, `true` or a name.
pub struct Ecn;

/// A duration of zero or more.
pub const SPAN: Span = Span(0.0, 1e6);
/// A timer that may fire at once never ends. One millisecond is the finest clock a stack's timers have had
/// (RFC 7323 section 5.4; kern.hz = 1000).
pub const TIMEOUT: Span = Span(1.0, 1e6);

fn number(value: &Value, low: f64, high: f64) -> Result<f64, Wrong> {
    match value {
        Value::Number(number) if *number >= low && *number <= high => Ok(*number),
        _ => Err(("out of range", format!("Write a number from {low} to {high}."))),
    }
}

fn named<T: Copy>(value: &Value, words: &[(T, &str)]) -> Result<T, Wrong> {
    let known = |text: &String| words.iter().find(|(_, word)| word == text).map(|(option, _)| *option);
    let found = if let Value::Name(text) = value { known(text) } else { None };
    found.ok_or_else(|| {
        let all: Vec<&str> = words.iter().map(|(_, word)| *word).collect();
        ("not one of the choices", format!("Choose one of: {}.", all.join(", ")))
    })
}

impl Form<bool> for Switch {
    fn text(&self, value: &bool) -> String {
        value.to_string()
    }
    fn read(&self, value: &Value) -> Result<bool, Wrong> {
        match value {
            Value::Flag(flag) => Ok(*flag),
            _ => Err(("this field is a switch", "Write true or false.".into())),
        }
    }
}

impl Form<u64> for Whole {
    fn text(&self, value: &u64) -> String {
        value.to_string()
    }
    fn unit(&self) -> &'static str {
        self.2
    }
    fn read(&self, value: &Value) -> Result<u64, Wrong> {
        number(value, self.0 as f64, self.1 as f64).map(|number| number as u64)
    }
}

impl Form<u32> for Whole {
    fn text(&self, value: &u32) -> String {
        value.to_string()
    }
    fn unit(&self) -> &'static str {
        self.2
    }
    fn read(&self, value: &Value) -> Result<u32, Wrong> {
        number(value, self.0 as f64, self.1 as f64).map(|number| number as u32)
    }
}

impl Form<Duration> for Span {
    fn text(&self, value: &Duration) -> String {
        format!("{} ms", value.as_secs_f64() * 1e3)
    }
    fn unit(&self) -> &'static str {
        "ms"
    }
    fn read(&self, value: &Value) -> Result<Duration, Wrong> {
        number(value, self.0, self.1).map(|ms| Duration::from_secs_f64(ms / 1e3))
    }
}

impl<T, F: Form<T>> Form<Option<T>> for Or<F> {
    fn text(&self, value: &Option<T>) -> String {
        value.as_ref().map_or(self.0.into(), |value| self.1.text(value))
    }
    fn unit(&self) -> &'static str {
        self.1.unit()
    }
    fn read(&self, value: &Value) -> Result<Option<T>, Wrong> {
        match value {
            Value::Flag(false) => Ok(None),
            _ => self.1.read(value).map(Some),
        }
    }
}

impl Form<Option<Duration>> for OrOff {
    fn text(&self, value: &Option<Duration>) -> String {
        value.as_ref().map_or("off".into(), |value| self.0.text(value))
    }
    fn unit(&self) -> &'static str {
        self.0.unit()
    }
    fn read(&self, value: &Value) -> Result<Option<Duration>, Wrong> {
        match value {
            Value::Flag(false) => Ok(None),
            Value::Number(_) => self.0.read(value).map(Some),
            _ => Err(("not a time", "Write milliseconds, or false for off.".into())),
        }
    }
}

impl<T: Words> Form<T> for OneOf {
    fn text(&self, value: &T) -> String {
        value.word().into()
    }
    fn read(&self, value: &Value) -> Result<T, Wrong> {
        named(value, T::WORDS)
    }
}

impl<T: Words> Form<T> for OneOfOrFalse {
    fn text(&self, value: &T) -> String {
        value.word().into()
    }
    fn read(&self, value: &Value) -> Result<T, Wrong> {
        match value {
            Value::Flag(false) => Ok(T::WORDS[0].0),
            _ => named(value, T::WORDS),
        }
    }
}

impl Form<Counting> for Credit {
    fn text(&self, value: &Counting) -> String {
        match value {
            Counting::Bytes { limit } => format!("{} (L = {limit})", value.word()),
            Counting::PerAck | Counting::PerSegment | Counting::PerAckBytes => value.word().into(),
        }
    }
    fn read(&self, value: &Value) -> Result<Counting, Wrong> {
        let bytes = Counting::Bytes { limit: 2 };
        let mut words: Vec<_> = [Counting::PerAck, Counting::PerSegment, Counting::PerAckBytes, bytes]
            .into_iter()
            .map(|counting| (counting, counting.word()))
            .collect();
        words.push((Counting::Bytes { limit: 1 }, "bytes-1"));
        named(value, &words)
    }
}

impl Form<EcnMode> for Ecn {
    fn text(&self, value: &EcnMode) -> String {
        value.word().into()
    }
    fn read(&self, value: &Value) -> Result<EcnMode, Wrong> {
        match value {
            Value::Flag(false) => Ok(EcnMode::Off),
            Value::Flag(true) => Ok(EcnMode::Classic),
            Value::Name(text) if text == EcnMode::L4s.word() => Ok(EcnMode::L4s),
            _ => {
                let fix = format!("Write true, false or {:?}.", EcnMode::L4s.word());
                Err(("not a kind of ECN", fix))
            }
        }
    }
}
