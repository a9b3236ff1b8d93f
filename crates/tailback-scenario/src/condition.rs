//! The language of conditions: `a.goodput_mbps / b.goodput_mbps in 0.5..2`.
//!
//! ```text
//! condition = sum ("<" | "<=" | ">" | ">=") sum  |  sum "in" sum ".." sum
//! sum       = product (("+" | "-") product)*
//! product   = factor (("*" | "/") factor)*
//! factor    = number [unit] | metric | "baseline" | "baseline." metric | "-" factor | "(" sum ")"
//! ```
//!
//! `baseline` alone is the left side evaluated in the baseline's run. Names may contain "-" and "+", so operators need
//! spaces around them. A unit is checked and converted; a plain number takes the unit of the value that it is compared
//! with or added to.

use tailback_core::params::nearest;

use crate::quantity::Quantity;

const UNITS: &str = "ns, us, ms, s, min, h, bit, kbit, Mbit, Gbit, B, kB, MB, GB, KiB, MiB, GiB";

/// An error in a condition, with its position in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionError {
    /// Index of the character, from 0.
    pub at: usize,
    /// The problem at that position.
    pub problem: String,
    /// The fix.
    pub fix: String,
}

fn error<T>(at: usize, problem: impl Into<String>, fix: impl Into<String>) -> Result<T, ConditionError> {
    Err(ConditionError { at, problem: problem.into(), fix: fix.into() })
}

/// Information about metrics.
pub trait Metrics {
    /// What `[instruments]` lacks for this metric (empty: nothing); `None` if there is no such metric.
    fn lacks(&self, name: &str) -> Option<String>;
    /// Unit in a metric's row: ms, s, Mbit/s or B; anything else is a count or a ratio.
    fn unit(&self, name: &str) -> &'static str;
    /// Known names, for a hint.
    fn names(&self) -> Vec<String>;
}

/// Comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `in LOW..HIGH`, inclusive.
    In,
}

impl Relation {
    /// The operator in the text.
    pub fn text(self) -> &'static str {
        match self {
            Relation::Below => "<",
            Relation::AtMost => "<=",
            Relation::Above => ">",
            Relation::AtLeast => ">=",
            Relation::In => "in",
        }
    }

    fn read(text: &str) -> Option<Relation> {
        use Relation::{Above, AtLeast, AtMost, Below, In};
        [Below, AtMost, Above, AtLeast, In].into_iter().find(|relation| relation.text() == text)
    }
}

/// A unit: exponents of bits and of seconds, and a scale.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Unit {
    bits: i32,
    seconds: i32,
    size: f64,
}

const PURE: Unit = Unit { bits: 0, seconds: 0, size: 1.0 };

impl Unit {
    fn is_like(self, other: Unit) -> bool {
        (self.bits, self.seconds) == (other.bits, other.seconds)
    }

    fn text(self) -> String {
        match (self.bits, self.seconds) {
            (0, 0) => "a pure number".into(),
            (0, 1) => "a time".into(),
            (1, -1) => "a rate".into(),
            (1, 0) => "a number of bytes".into(),
            (bits, seconds) => format!("in bit^{bits} s^{seconds}"),
        }
    }

    fn example(self) -> Option<&'static str> {
        Some(match (self.bits, self.seconds) {
            (0, 1) => "50ms",
            (1, -1) => "8mbit",
            (1, 0) => "64kB",
            (0, 0) => "0.5",
            _ => return None,
        })
    }

    /// The unit in a metric's row; any other text is a count or a ratio.
    fn of_text(text: &str) -> Unit {
        match text {
            "ms" => Unit { bits: 0, seconds: 1, size: 1e-3 },
            "s" => Unit { bits: 0, seconds: 1, size: 1.0 },
            "Mbit/s" => Unit { bits: 1, seconds: -1, size: 1e6 },
            "B" => Unit { bits: 1, seconds: 0, size: 8.0 },
            _ => PURE,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Expression {
    Number(f64),
    Metric(String),
    /// The expression in the baseline's run.
    Baseline(Box<Expression>),
    Scaled(f64, Box<Expression>),
    Sum(Box<[Expression; 2]>),
    Product(f64, Box<[Expression; 2]>),
    Quotient(f64, Box<[Expression; 2]>),
}

impl Expression {
    fn value(&self, run: &dyn Fn(&str) -> f64, baseline: &dyn Fn(&str) -> f64) -> f64 {
        let of = |part: &Expression| part.value(run, baseline);
        match self {
            Expression::Number(value) => *value,
            Expression::Metric(name) => run(name),
            Expression::Baseline(inner) => inner.value(baseline, baseline),
            Expression::Scaled(factor, inner) => factor * of(inner),
            Expression::Sum(parts) => of(&parts[0]) + of(&parts[1]),
            Expression::Product(size, parts) => scaled(*size, of(&parts[0]) * of(&parts[1])),
            Expression::Quotient(size, parts) => scaled(*size, quotient(of(&parts[0]), of(&parts[1]))),
        }
    }
}

fn scaled(size: f64, value: f64) -> f64 {
    if size == 1.0 { value } else { size * value }
}

fn quotient(a: f64, b: f64) -> f64 {
    if b == 0.0 && a != 0.0 && !a.is_nan() { f64::INFINITY.copysign(a) } else { a / b }
}

/// A parsed part of a condition: its position, its unit (`None` for a plain number), its value, and its metrics.
#[derive(Clone, Debug, PartialEq)]
struct Term {
    at: usize,
    unit: Option<Unit>,
    expression: Expression,
    names: Vec<String>,
    needs_baseline: bool,
}

impl Term {
    fn times(self, factor: f64) -> Term {
        if factor == 1.0 {
            return self;
        }
        Term { expression: Expression::Scaled(factor, Box::new(self.expression)), ..self }
    }

    fn joined(
        self,
        other: Term,
        unit: Option<Unit>,
        how: impl FnOnce(Box<[Expression; 2]>) -> Expression,
    ) -> Term {
        Term {
            at: self.at,
            unit,
            names: [self.names, other.names].concat(),
            needs_baseline: self.needs_baseline || other.needs_baseline,
            expression: how(Box::new([self.expression, other.expression])),
        }
    }
}

/// A parsed condition: its left side and its bounds, all in the unit of the left side.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The original text.
    pub text: String,
    /// The comparison.
    pub relation: Relation,
    left: Term,
    bounds: Vec<Term>,
}

impl Condition {
    /// Parses a condition.
    pub fn parse(
        text: &str,
        metrics: &dyn Metrics,
        has_baseline: bool,
        is_window: bool,
    ) -> Result<Condition, ConditionError> {
        let tokens = tokens(text)?;
        Parser { text, metrics, has_baseline, is_window, tokens, next: 0, left: None }.condition()
    }

    /// The metrics in the condition, each once.
    pub fn names(&self) -> Vec<&str> {
        let mut out: Vec<&str> = Vec::new();
        for name in self.terms().flat_map(|term| &term.names) {
            if !out.contains(&name.as_str()) {
                out.push(name);
            }
        }
        out
    }

    /// Whether the condition uses the baseline's run.
    pub fn needs_baseline(&self) -> bool {
        self.terms().any(|term| term.needs_baseline)
    }

    /// Whether the left side uses the baseline's run.
    pub fn left_needs_baseline(&self) -> bool {
        self.left.needs_baseline
    }

    /// Values of the left side and of the bounds, for a run and the baseline's run of the same seed.
    pub fn sides(&self, run: &dyn Fn(&str) -> f64, baseline: &dyn Fn(&str) -> f64) -> Vec<f64> {
        self.terms().map(|term| term.expression.value(run, baseline)).collect()
    }

    fn terms(&self) -> impl Iterator<Item = &Term> {
        std::iter::once(&self.left).chain(&self.bounds)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    Name,
    Sign,
    End,
}

#[derive(Clone, Debug)]
struct Token {
    kind: Kind,
    text: String,
    at: usize,
    unit: String,
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn tokens(text: &str) -> Result<Vec<Token>, ConditionError> {
    let all: Vec<char> = text.chars().collect();
    let at_or = |place: usize| all.get(place).copied().unwrap_or('\0');
    let run = |from: usize, is: &dyn Fn(char) -> bool| {
        from + all[from.min(all.len())..].iter().take_while(|letter| is(**letter)).count()
    };
    let blank = |from: usize| run(from, &char::is_whitespace);
    let digits = |from: usize| run(from, &|letter| letter.is_ascii_digit());
    let of = |from: usize, to: usize| all[from..to].iter().collect::<String>();
    let mut out = Vec::new();
    let mut at = blank(0);
    while at < all.len() {
        let (kind, mut end, mut unit) = (at_or(at), at, String::new());
        let kind = if kind.is_ascii_digit() {
            end = digits(at);
            if at_or(end) == '.' && at_or(end + 1).is_ascii_digit() {
                end = digits(end + 1);
            }
            if matches!(at_or(end), 'e' | 'E') {
                let signed = end + 1 + usize::from(matches!(at_or(end + 1), '+' | '-'));
                if at_or(signed).is_ascii_digit() {
                    end = digits(signed);
                }
            }
            Kind::Number
        } else if kind.is_ascii_alphabetic() || kind == '_' {
            while is_word(at_or(end))
                || matches!(at_or(end), ':' | '+' | '-')
                || (at_or(end) == '.' && at_or(end + 1) != '.')
            {
                end += 1;
            }
            Kind::Name
        } else {
            let two = of(at, (at + 2).min(all.len()));
            end = match two.as_str() {
                "<=" | ">=" | ".." => at + 2,
                _ if "<>-+*/()".contains(kind) => at + 1,
                _ => {
                    let fix = "Write for example \"call.loss < 1%\"";
                    return error(at, format!("\"{kind}\" has no place here"), fix);
                }
            };
            Kind::Sign
        };
        let mut next = end;
        if kind == Kind::Number {
            let from = blank(end);
            let to = run(from, &|letter| letter.is_ascii_alphabetic() || matches!(letter, 'µ' | 'μ'));
            if at_or(from) == '%' {
                (unit, next) = ("%".into(), from + 1);
            } else if to > from
                && !is_word(at_or(to))
                && !(at_or(to) == '.' && is_word(at_or(to + 1)))
                // In "1 in 0..2", `in` is not a unit.
                && of(from, to) != "in"
            {
                (unit, next) = (of(from, to), to);
            }
        }
        out.push(Token { kind, text: of(at, end), at, unit });
        at = blank(next);
    }
    out.push(Token { kind: Kind::End, text: String::new(), at: all.len(), unit: String::new() });
    Ok(out)
}

/// A parser that reads from left to right; it executes nothing.
struct Parser<'a> {
    text: &'a str,
    metrics: &'a dyn Metrics,
    has_baseline: bool,
    is_window: bool,
    tokens: Vec<Token>,
    next: usize,
    left: Option<Term>,
}

/// Limit on nested parentheses and signs.
const DEEPEST: usize = 100;

impl Parser<'_> {
    fn condition(mut self) -> Result<Condition, ConditionError> {
        let left = self.sum(0)?;
        let found = self.take();
        let Some(relation) = Relation::read(&found.text) else {
            let fix =
                "Compare it: \"call.delay_p95_ms < 50\" or \"a.goodput_mbps / b.goodput_mbps in 0.5..2\"";
            return error(found.at, "a comparison is missing", fix);
        };
        self.left = Some(left.clone());
        let mut bounds = vec![self.sum(0)?];
        if relation == Relation::In {
            let dots = self.take();
            if dots.text != ".." {
                return error(dots.at, "the range has one end", "Write for example in 0.5..2");
            }
            bounds.push(self.sum(0)?);
        }
        let rest = self.take();
        if rest.kind != Kind::End {
            let problem = format!("nothing can follow here, and there is \"{}\"", rest.text);
            return error(rest.at, problem, "A condition has one comparison; put spaces around + and -");
        }
        if left.names.is_empty() {
            return error(left.at, "the left side measures nothing", "Begin with a metric");
        }
        let begins = bounds[0].at;
        let bounds =
            bounds.into_iter().map(|bound| fitting(left.unit, bound)).collect::<Result<Vec<_>, _>>()?;
        if let [low, high] = &bounds[..] {
            let nothing = |_: &str| f64::NAN;
            let ends = [low, high].map(|end| end.expression.value(&nothing, &nothing));
            let are_plain = low.names.is_empty() && high.names.is_empty();
            if are_plain && ends[0].partial_cmp(&ends[1]).is_none_or(std::cmp::Ordering::is_gt) {
                return error(begins, "the range ends before it begins", "Write the smaller number first");
            }
        }
        Ok(Condition { text: self.text.into(), relation, left, bounds })
    }

    fn take(&mut self) -> Token {
        let token = self.tokens[self.next].clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn takes(&mut self, signs: &str) -> Option<char> {
        let token = &self.tokens[self.next];
        let sign =
            (token.kind == Kind::Sign && signs.contains(&token.text)).then(|| token.text.chars().next());
        sign.flatten().inspect(|_| self.next += 1)
    }

    fn sum(&mut self, depth: usize) -> Result<Term, ConditionError> {
        let mut out = self.product(depth)?;
        while let Some(sign) = self.takes("+-") {
            let right = self.product(depth)?;
            let right = fitting(out.unit, right)?.times(if sign == '+' { 1.0 } else { -1.0 });
            let unit = out.unit.or(right.unit);
            out = out.joined(right, unit, Expression::Sum);
        }
        Ok(out)
    }

    fn product(&mut self, depth: usize) -> Result<Term, ConditionError> {
        let mut out = self.factor(depth)?;
        while let Some(sign) = self.takes("*/") {
            let right = self.factor(depth)?;
            let divides = sign == '/';
            let (unit, size) = unit_of_product(out.unit, right.unit, divides);
            out = out.joined(right, unit, |parts| {
                if divides { Expression::Quotient(size, parts) } else { Expression::Product(size, parts) }
            });
        }
        Ok(out)
    }

    fn factor(&mut self, depth: usize) -> Result<Term, ConditionError> {
        let token = self.take();
        if depth > DEEPEST {
            return error(token.at, "it is nested too deeply", "Simplify it");
        }
        match (token.kind, token.text.as_str()) {
            (Kind::Number, _) => number(&token),
            (Kind::Name, _) => self.metric(&token),
            (_, "-") => Ok(self.factor(depth + 1)?.times(-1.0)),
            (_, "(") => {
                let inner = self.sum(depth + 1)?;
                let closing = self.take();
                if closing.text != ")" {
                    return error(closing.at, "the parenthesis is not closed", "Add \")\"");
                }
                Ok(inner)
            }
            (_, text) => {
                let what = if text.is_empty() {
                    "the condition ends here".into()
                } else {
                    format!("here stands \"{text}\"")
                };
                error(token.at, format!("a metric or a number is missing, {what}"), "Add it")
            }
        }
    }

    fn metric(&self, token: &Token) -> Result<Term, ConditionError> {
        if token.text == "in" {
            return error(token.at, "a metric or a number is missing before in", "Add it");
        }
        let of_baseline = match token.text.strip_prefix("baseline") {
            Some("") => Some(""),
            Some(rest) => rest.strip_prefix('.'),
            None => None,
        };
        if of_baseline.is_some() && !self.has_baseline {
            let fix = "Add to [expect] baseline = \"cubic\", or another algorithm";
            return error(token.at, "no baseline is named", fix);
        }
        if of_baseline == Some("") {
            let Some(left) = &self.left else {
                let fix = "Write baseline. and a metric, as in baseline.bottleneck.loss";
                return error(token.at, "baseline alone stands for the left side, and this is it", fix);
            };
            if left.needs_baseline {
                return error(token.at, "the left side is of the baseline already", "Name the metric here");
            }
            let expression = Expression::Baseline(Box::new(left.expression.clone()));
            return Ok(Term { at: token.at, expression, needs_baseline: true, ..left.clone() });
        }
        let name = of_baseline.unwrap_or(&token.text);
        let Some(lacks) = self.metrics.lacks(name) else { return self.unknown(token, name) };
        if !lacks.is_empty() {
            let problem = format!("what {name} is measured from is not recorded");
            return error(token.at, problem, format!("Add to [instruments] {lacks}"));
        }
        let metric = Expression::Metric(name.into());
        let needs_baseline = of_baseline.is_some();
        Ok(Term {
            at: token.at,
            unit: Some(Unit::of_text(self.metrics.unit(name))),
            expression: if needs_baseline { Expression::Baseline(Box::new(metric)) } else { metric },
            names: vec![name.into()],
            needs_baseline,
        })
    }

    fn unknown<T>(&self, token: &Token, name: &str) -> Result<T, ConditionError> {
        fn owner(name: &str) -> &str {
            name.rsplit_once('.').map_or("", |(of, _)| of)
        }
        let known = self.metrics.names();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let (of, key) = name.rsplit_once('.').unwrap_or(("", name));
        let window = if self.is_window { " in a window of time" } else { "" };
        let mine: Vec<&str> = known.iter().copied().filter(|each| owner(each) == of).collect();
        if !of.is_empty() && mine.is_empty() {
            let mut owners: Vec<&str> = Vec::new();
            for each in known.iter().filter(|each| each.contains('.')).map(|each| owner(each)) {
                if !owners.contains(&each) {
                    owners.push(each);
                }
            }
            let hint =
                nearest(of, &owners).map_or(String::new(), |near| format!("Did you mean \"{near}.{key}\"? "));
            let problem = format!("there is no flow or link \"{of}\" to measure{window}");
            return error(token.at, problem, format!("{hint}There are: {}", owners.join(", ")));
        }
        let hint = nearest(name, &known).map_or(String::new(), |close| format!("Did you mean \"{close}\"? "));
        let listed = if mine.is_empty() { "none".into() } else { mine.join(", ") };
        error(
            token.at,
            format!("there is no metric \"{name}\"{window}"),
            format!("{hint}There are: {listed}"),
        )
    }
}

fn number(token: &Token) -> Result<Term, ConditionError> {
    let value: f64 = token.text.parse().expect("digits are a number");
    let term = |unit, value| Term {
        at: token.at,
        unit,
        expression: Expression::Number(value),
        names: Vec::new(),
        needs_baseline: false,
    };
    if !value.is_finite() {
        return error(token.at, "this number is too large", "Write a smaller one");
    }
    match token.unit.as_str() {
        "" => return Ok(term(None, value)),
        "%" => return Ok(term(Some(PURE), value / 100.0)),
        _ => {}
    }
    for (quantity, unit) in [
        (Quantity::Time, Unit { bits: 0, seconds: 1, size: 1e-12 }),
        (Quantity::Rate, Unit { bits: 1, seconds: -1, size: 1.0 }),
        (Quantity::Bytes, Unit { bits: 1, seconds: 0, size: 8.0 }),
    ] {
        if let Ok(base) = quantity.unit(&token.unit) {
            return Ok(term(Some(Unit { size: unit.size * base as f64, ..unit }), value));
        }
    }
    let units: Vec<&str> = UNITS.split(", ").collect();
    let hint =
        nearest(&token.unit, &units).map_or(String::new(), |close| format!("Did you mean \"{close}\"? "));
    error(token.at, format!("there is no unit \"{}\"", token.unit), format!("{hint}There are: %, {UNITS}"))
}

/// Converts the right term to the unit of the left one.
fn fitting(left: Option<Unit>, right: Term) -> Result<Term, ConditionError> {
    let (Some(left), Some(unit)) = (left, right.unit) else { return Ok(right) };
    if !left.is_like(unit) {
        let example = left.example().map_or(String::new(), |example| format!(", for example {example}"));
        let problem = format!("this is {}, and what it stands beside is {}", unit.text(), left.text());
        return error(right.at, problem, format!("Write {}{example}", left.text()));
    }
    Ok(right.times(unit.size / left.size))
}

/// Unit of a product or quotient, and an additional factor for its value.
fn unit_of_product(left: Option<Unit>, right: Option<Unit>, divides: bool) -> (Option<Unit>, f64) {
    let Some(by) = right else { return (left, 1.0) };
    if left.is_none() && !divides {
        return (right, 1.0);
    }
    let left = left.unwrap_or(PURE);
    let sign = if divides { -1 } else { 1 };
    let size = if divides { left.size / by.size } else { left.size * by.size };
    let unit = Unit { bits: left.bits + sign * by.bits, seconds: left.seconds + sign * by.seconds, size };
    if unit.is_like(PURE) {
        // A ratio of equal kinds is a plain number: 1 s / 1 ms is 1000.
        return (Some(PURE), size);
    }
    (Some(unit), 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Known;

    impl Metrics for Known {
        fn lacks(&self, name: &str) -> Option<String> {
            let lacks = if name == "call.delay_p95_ms" { "packets = [\"call\"]" } else { "" };
            self.names().contains(&name.into()).then(|| lacks.into())
        }
        fn unit(&self, name: &str) -> &'static str {
            match name {
                "a.goodput_mbps" => "Mbit/s",
                "a.rtt_min_ms" | "call.delay_p95_ms" => "ms",
                _ => "",
            }
        }
        fn names(&self) -> Vec<String> {
            ["jain", "a.goodput_mbps", "a.loss", "a.rtt_min_ms", "call.delay_p95_ms"].map(Into::into).into()
        }
    }

    fn sides(text: &str) -> Vec<f64> {
        let condition = Condition::parse(text, &Known, true, false).expect(text);
        condition.sides(&|_| 8.0, &|_| 4.0)
    }

    #[test]
    fn units_are_converted_and_numbers_take_those_of_what_they_stand_beside() {
        assert_eq!(sides("a.goodput_mbps > 6000kbit"), [8.0, 6.0]);
        assert_eq!(sides("a.rtt_min_ms in 1..0.5s"), [8.0, 1.0, 500.0]);
        assert_eq!(sides("a.loss + 1% < 2 * baseline"), [8.01, 2.0 * (4.0 + 0.01)]);
        assert_eq!(sides("a.rtt_min_ms / 1s < baseline.a.loss - -1"), [0.008, 5.0]);
        assert_eq!(sides("(a.loss - 8) / (a.loss - 8) < 1")[1], 1.0);
        assert!(sides("(a.loss - 8) / (a.loss - 8) < 1")[0].is_nan());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, at, problem) in [
            ("a.goodput_mbps", 14, "a comparison is missing"),
            ("a.goodput_mbps < 5ms", 17, "this is a time, and what it stands beside is a rate"),
            ("a.gootput_mbps < 5", 0, "there is no metric \"a.gootput_mbps\""),
            ("b.loss < 5", 0, "there is no flow or link \"b\" to measure"),
            ("a.loss < 5furlong", 9, "there is no unit \"furlong\""),
            ("5 < a.loss", 0, "the left side measures nothing"),
            ("a.loss in 2..1", 10, "the range ends before it begins"),
            ("a.loss < (1", 11, "the parenthesis is not closed"),
            ("a.loss ? 1", 7, "\"?\" has no place here"),
            ("call.delay_p95_ms < 5", 0, "what call.delay_p95_ms is measured from is not recorded"),
            ("baseline < 1", 0, "baseline alone stands for the left side, and this is it"),
        ] {
            let found = Condition::parse(text, &Known, true, false).expect_err(text);
            assert_eq!((found.at, found.problem.as_str()), (at, problem), "{text}");
        }
        let deep = format!("a.loss < {}1", "(".repeat(100_000));
        assert_eq!(Condition::parse(&deep, &Known, true, false).expect_err("deep").fix, "Simplify it");
    }
}
