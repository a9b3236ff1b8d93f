//! Parses a script.

use tailback_core::packet::Ecn;
use tailback_core::tcp::segment::{Flags, Range};
use tailback_core::time::{Duration, Time};

use super::options::Options;

/// One line of a script.
pub struct Event {
    pub line: usize,
    pub at: When,
    pub what: What,
}

#[derive(Clone, Copy)]
pub enum When {
    After(Duration),
    At(Time),
}

pub enum What {
    Call(String, u64),
    Out(Spoken),
    In(Spoken),
    Assert(Vec<(String, String, String)>),
}

/// A segment as written in a script.
#[derive(Default)]
pub struct Spoken {
    pub flags: Flags,
    pub start: u64,
    pub length: u32,
    pub ack: Option<u64>,
    pub window: Option<u64>,
    pub sack: Vec<Range>,
    pub scale: Option<u8>,
    pub stamp: Option<(u64, u64)>,
    pub is_marked: bool,
    pub codepoint: Option<Ecn>,
}

pub fn parse(text: &str) -> Result<(Options, Vec<Event>), String> {
    let mut options = Options::default();
    let mut events = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split("//").next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let wrap = |error: String| format!("line {}: {error}", number + 1);
        if line.starts_with("--") {
            for word in line.split_whitespace() {
                options.set(word).map_err(wrap)?;
            }
        } else {
            let (when, what) = line.split_once(' ').ok_or_else(|| wrap("a time and an event".into()))?;
            let at = parse_when(when).map_err(wrap)?;
            let what = parse_what(what.trim()).map_err(wrap)?;
            events.push(Event { line: number + 1, at, what });
        }
    }
    Ok((options, events))
}

pub fn parse_when(text: &str) -> Result<When, String> {
    let (is_relative, digits) = text.strip_prefix('+').map_or((false, text), |rest| (true, rest));
    let seconds: f64 = digits.parse().map_err(|_| format!("{text}: not a time"))?;
    let span = Duration::from_secs_f64(seconds);
    Ok(if is_relative { When::After(span) } else { When::At(Time::from_ps(span.as_ps())) })
}

pub fn parse_what(text: &str) -> Result<What, String> {
    if let Some(rest) = text.strip_prefix('>') {
        return parse_segment(rest).map(What::Out);
    }
    if let Some(rest) = text.strip_prefix('<') {
        return parse_segment(rest).map(What::In);
    }
    if let Some(rest) = text.strip_prefix("%{") {
        let rest = rest.strip_suffix("}%").ok_or("an assertion ends with }%")?;
        let mut claims = Vec::new();
        for claim in rest.split(" and ") {
            let words: Vec<&str> = claim.split_whitespace().collect();
            let [name, operator, wanted] = words[..] else {
                return Err(format!("{claim}: a claim is name, operator, value"));
            };
            claims.push((name.into(), operator.into(), wanted.into()));
        }
        return Ok(What::Assert(claims));
    }
    let (name, rest) = text.split_once('(').ok_or_else(|| format!("{text}: unknown event"))?;
    let arguments = rest.split_once(')').ok_or("a call ends with )")?.0;
    let last = arguments.rsplit(',').next().unwrap_or_default().trim();
    Ok(What::Call(name.into(), last.parse().unwrap_or(0)))
}

pub fn parse_segment(text: &str) -> Result<Spoken, String> {
    let mut spoken = Spoken::default();
    let (head, options) = match text.split_once('<') {
        Some((head, rest)) => (head, rest.strip_suffix('>').ok_or("options end with >")?),
        None => (text, ""),
    };
    let mut words = head.split_whitespace().peekable();
    if words.next_if_eq(&"[ce]").is_some() {
        spoken.is_marked = true;
    }
    for (word, codepoint) in [("[noecn]", Ecn::NotEct), ("[ect0]", Ecn::Ect0), ("[ect1]", Ecn::Ect1)] {
        if words.next_if_eq(&word).is_some() {
            spoken.codepoint = Some(codepoint);
        }
    }
    for letter in words.next().ok_or("a segment has flags")?.chars() {
        if let Some(count) = letter.to_digit(8) {
            spoken.flags = spoken.flags.with_ace(count as u8);
            continue;
        }
        spoken.flags = spoken.flags.with(match letter {
            'S' => Flags::SYN,
            'F' => Flags::FIN,
            'P' => Flags::PSH,
            '.' => Flags::ACK,
            'E' => Flags::ECE,
            'W' => Flags::CWR,
            'R' => Flags::RST,
            _ => return Err(format!("{letter}: unknown flag")),
        });
    }
    let range = words.next().ok_or("a segment has sequence numbers")?;
    let (numbers, length) = range.split_once('(').ok_or_else(|| format!("{range}: start:end(length)"))?;
    let (start, end) = numbers.split_once(':').ok_or_else(|| format!("{range}: start:end(length)"))?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text}: not a number"));
    spoken.start = number(start)?;
    spoken.length = number(length.trim_end_matches(')'))? as u32;
    if number(end)? != spoken.start + u64::from(spoken.length) {
        return Err(format!("{range}: the end is not start + length"));
    }
    while let Some(word) = words.next() {
        let given = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        match word {
            "ack" => spoken.ack = Some(number(given)?),
            "win" => spoken.window = Some(number(given)?),
            _ => return Err(format!("{word}: unknown word")),
        }
    }
    for option in options.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        let words: Vec<&str> = option.split_whitespace().collect();
        match words[..] {
            ["nop"] => {}
            ["wscale", shift] => spoken.scale = Some(number(shift)? as u8),
            ["TS", "val", val, "ecr", ecr] => spoken.stamp = Some((number(val)?, number(ecr)?)),
            ["sack", ref blocks @ ..] => {
                for block in blocks {
                    let (start, end) = block.split_once(':').ok_or("a SACK block is start:end")?;
                    spoken.sack.push(Range { start: number(start)? - 1, end: number(end)? - 1 });
                }
            }
            _ => return Err(format!("{option}: unknown option")),
        }
    }
    Ok(spoken)
}
