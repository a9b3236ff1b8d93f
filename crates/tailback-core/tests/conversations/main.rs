//! Conversations: timed scripts, in a subset of packetdrill's grammar, that drive one real endpoint.
//!
//! Every file of `tests/conversations` is named after its claim. A script has lines of these kinds:
//!
//! ```text
//! // A comment.
//! --stack=linux --cc=reno --mss=1000 --opened=client --rtt_ms=100 --sack=false      options; any stack field
//! +0.1 write(3, ..., 5000) = 5000       a call: connect, listen, write, close, unqueued (times are relative with +)
//! +0 > . 1:1001(1000) ack 1             the endpoint must send this, at this time
//! +0 < . 1:1(0) ack 1001 win 9000 <sack 2001:3001,TS val 7 ecr 3>     the peer sends this
//! +0 %{ cwnd == 10 and phase == open }% the endpoint's state must be so
//! ```
//!
//! Sequence numbers are packetdrill's: the SYN is 0, the first byte 1. Differs from packetdrill: `win` is in
//! bytes and already scaled; timestamps are milliseconds since the start; the push flag is compared only with
//! `--push=true`; every segment the endpoint sends must be expected, and at the end of a script nothing may be left
//! over. `[noecn]`, `[ect0]` or `[ect1]` before the flags of a segment it sends also compares its packet's codepoint;
//! `[ce]` marks one it receives.
//! `--recall_ssthresh=20`, `--recall_cwnd`, `--recall_srtt_ms`, `--recall_deviation_ms` and `--recall_reordering` say
//! what an earlier connection to the same host has left; `saved_ssthresh` and so on what this one would leave.
//! `--opened` plays the handshake first, with one round trip of `--rtt_ms`, and the script starts there.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use tailback_core::cc::Control;
use tailback_core::cc::registry::build_preferring;
use tailback_core::packet::Ecn;
use tailback_core::scenario::{Params, Value};
use tailback_core::tcp::endpoint::{Endpoint, Setup, State};
use tailback_core::tcp::metrics::Metrics;
use tailback_core::tcp::segment::{Flags, Range, Segment};
use tailback_core::tcp::sender::Note;
use tailback_core::tcp::stack::Stack;
use tailback_core::time::{Duration, Rate, Time};

/// One line of a script.
struct Event {
    line: usize,
    at: When,
    what: What,
}

#[derive(Clone, Copy)]
enum When {
    After(Duration),
    At(Time),
}

enum What {
    Call(String, u64),
    Out(Spoken),
    In(Spoken),
    Assert(Vec<(String, String, String)>),
}

/// A segment as written in a script.
#[derive(Default)]
struct Spoken {
    flags: Flags,
    start: u64,
    length: u32,
    ack: Option<u64>,
    window: Option<u64>,
    sack: Vec<Range>,
    scale: Option<u8>,
    stamp: Option<(u64, u64)>,
    is_marked: bool,
    codepoint: Option<Ecn>,
}

/// The options at the top of a script.
struct Options {
    stack: String,
    cc: String,
    mss: u32,
    opened: Option<String>,
    rtt: Duration,
    window: u64,
    peer_scale: u8,
    send_buffer: u64,
    receive_buffer: u64,
    tolerance: Duration,
    names_push: bool,
    pacing: Option<Rate>,
    read_rate: Option<Rate>,
    fields: Vec<(String, Value)>,
    cc_params: Params,
    recalled: Metrics,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            stack: "linux".into(),
            cc: "reno".into(),
            mss: 1000,
            opened: None,
            rtt: Duration::from_ms(100),
            window: 1 << 30,
            peer_scale: 7,
            send_buffer: 1 << 30,
            receive_buffer: 1 << 20,
            tolerance: Duration::from_us(10),
            names_push: false,
            pacing: None,
            read_rate: None,
            fields: Vec::new(),
            cc_params: Params::new(),
            recalled: Metrics::default(),
        }
    }
}

fn value(text: &str) -> Value {
    match text {
        "true" => Value::Flag(true),
        "false" => Value::Flag(false),
        _ => text.parse().map_or_else(|_| Value::Name(text.into()), Value::Number),
    }
}

impl Options {
    fn set(&mut self, word: &str) -> Result<(), String> {
        let (key, text) = word
            .strip_prefix("--")
            .and_then(|rest| rest.split_once('='))
            .ok_or_else(|| format!("{word}: an option is --name=value"))?;
        let number = || text.parse::<u64>().map_err(|_| format!("{word}: not a whole number"));
        match key {
            "stack" => self.stack = text.into(),
            "cc" => self.cc = text.into(),
            "mss" => self.mss = number()? as u32,
            "opened" => self.opened = Some(text.into()),
            "rtt_ms" => self.rtt = Duration::from_ms(number()?),
            "window" => self.window = number()?,
            "peer_scale" => self.peer_scale = number()? as u8,
            "send_buffer" => self.send_buffer = number()?,
            "receive_buffer" => self.receive_buffer = number()?,
            "push" => self.names_push = text == "true",
            "tolerance_usecs" => self.tolerance = Duration::from_us(number()?),
            "recall_ssthresh" => self.recalled.ssthresh = number()? * u64::from(self.mss),
            "recall_cwnd" => self.recalled.cwnd = number()? * u64::from(self.mss),
            "recall_srtt_ms" => self.recalled.srtt = Duration::from_ms(number()?),
            "recall_deviation_ms" => self.recalled.deviation = Duration::from_ms(number()?),
            "recall_reordering" => self.recalled.reordering = number()? as u32,
            "read_bps" => self.read_rate = Some(Rate::from_bps(number()?)),
            "pacing_bps" => self.pacing = Some(Rate::from_bps(number()?)),
            _ => match key.strip_prefix("cc.") {
                Some(name) => drop(self.cc_params.insert(name.into(), value(text))),
                None => self.fields.push((key.into(), value(text))),
            },
        }
        Ok(())
    }

    fn endpoint(&self) -> Result<Endpoint, String> {
        let mut stack = Stack::named(&self.stack, "--stack").map_err(|error| error.to_string())?;
        for (name, value) in &self.fields {
            stack.set(name, value, &format!("--{name}")).map_err(|error| error.to_string())?;
        }
        let system = self.stack.split('-').next().unwrap_or_default();
        let algorithm = build_preferring(&self.cc, &self.cc_params, "--cc", 1, &[&self.stack, system])
            .map_err(|error| error.to_string())?;
        Ok(Endpoint::new(Setup {
            stack: Arc::new(stack),
            algorithm,
            mss: self.mss,
            send_buffer: self.send_buffer,
            receive_buffer: self.receive_buffer,
            read_rate: self.read_rate,
            peer: 1,
        }))
    }
}

// -------------------------------------------------------------------- reading

fn parse(text: &str) -> Result<(Options, Vec<Event>), String> {
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

fn parse_when(text: &str) -> Result<When, String> {
    let (is_relative, digits) = text.strip_prefix('+').map_or((false, text), |rest| (true, rest));
    let seconds: f64 = digits.parse().map_err(|_| format!("{text}: not a time"))?;
    let span = Duration::from_secs_f64(seconds);
    Ok(if is_relative { When::After(span) } else { When::At(Time::from_ps(span.as_ps())) })
}

fn parse_what(text: &str) -> Result<What, String> {
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

fn parse_segment(text: &str) -> Result<Spoken, String> {
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

// -------------------------------------------------------------------- talking

struct Talk {
    options: Options,
    end: Endpoint,
    now: Time,
    notes: Vec<Note>,
    sent: VecDeque<(Time, Segment)>,
}

impl Talk {
    fn new(options: Options) -> Result<Self, String> {
        let mut end = options.endpoint()?;
        end.sender.recall(options.recalled);
        let mut talk = Talk { options, end, now: Time::ZERO, notes: Vec::new(), sent: VecDeque::new() };
        talk.open()?;
        Ok(talk)
    }

    /// Play the handshake `--opened` asks for.
    fn open(&mut self) -> Result<(), String> {
        let peer = Segment {
            window: self.options.window,
            window_scale: self.options.peer_scale,
            ..Segment::blank()
        };
        let after = Time::ZERO + self.options.rtt;
        match self.options.opened.clone().as_deref() {
            None => return Ok(()),
            Some("client") => {
                self.end.connect();
                self.drain();
                self.advance(after);
                self.hear(&Segment { flags: Flags::SYN.with(Flags::ACK), ts_val: after, ..peer });
            }
            Some("server") => {
                self.end.listen();
                self.hear(&Segment { flags: Flags::SYN, ..peer });
                self.advance(after);
                self.hear(&Segment { flags: Flags::ACK, ts_val: after, ..peer });
            }
            Some(other) => return Err(format!("--opened={other}: client or server")),
        }
        self.sent.clear();
        self.end.sender.control.pacing = self.options.pacing;
        match self.end.state() {
            State::Established => Ok(()),
            state => Err(format!("the handshake ended in {state:?}")),
        }
    }

    fn hear(&mut self, segment: &Segment) {
        self.end.on_segment(segment, self.now, &mut self.notes);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(segment) = self.end.next_segment(self.now) {
            if self.end.stack().small_queue.is_some() && segment.len > 0 {
                self.end.sender.on_queued(u64::from(segment.len) + 40);
            }
            self.sent.push_back((self.now, segment));
            assert!(self.sent.len() < 100_000, "the endpoint never stops sending");
        }
    }

    /// Let time pass until `until`, or until something is sent if `stop_when_sent`.
    fn pass(&mut self, until: Time, stop_when_sent: bool) {
        while !stop_when_sent || self.sent.is_empty() {
            let wake = self.end.next_wake();
            if wake > until {
                self.now = self.now.max(until);
                return;
            }
            assert!(wake > self.now, "the endpoint wants to wake at {wake:?}, now is {:?}", self.now);
            self.now = wake;
            self.end.on_timer(self.now, &mut self.notes);
            self.drain();
        }
    }

    fn advance(&mut self, until: Time) {
        self.pass(until, false);
    }

    fn run(&mut self, events: &[Event]) -> Result<(), String> {
        let mut at = self.now;
        for event in events {
            at = match event.at {
                When::After(span) => at + span,
                When::At(time) => time,
            };
            self.step(at, &event.what).map_err(|error| format!("line {}: {error}", event.line))?;
        }
        self.expect_silence()
    }

    fn step(&mut self, at: Time, what: &What) -> Result<(), String> {
        if let What::Out(spoken) = what {
            return self.expect(at, spoken);
        }
        self.advance(at);
        self.expect_silence()?;
        match what {
            What::Call(name, argument) => self.call(name, *argument),
            What::In(spoken) => {
                let segment = self.compose(spoken);
                self.hear(&segment);
                Ok(())
            }
            What::Assert(claims) => claims.iter().try_for_each(|claim| self.judge(claim)),
            What::Out(_) => unreachable!("taken above"),
        }
    }

    fn call(&mut self, name: &str, argument: u64) -> Result<(), String> {
        match name {
            "connect" => self.end.connect(),
            "listen" => self.end.listen(),
            "write" => self.end.sender.write(argument),
            "unqueued" => drop(self.end.sender.on_unqueued(argument)),
            "close" => self.end.sender.close(false),
            _ => return Err(format!("{name}: unknown call")),
        }
        self.drain();
        Ok(())
    }

    fn compose(&self, spoken: &Spoken) -> Segment {
        let ack = spoken.ack.unwrap_or(1);
        let mut segment = Segment {
            flags: spoken.flags,
            // A SYN lies before offset 0.
            seq: spoken.start.saturating_sub(1),
            len: spoken.length,
            ack: ack.saturating_sub(1),
            window: spoken.window.unwrap_or(self.options.window),
            window_scale: spoken.scale.unwrap_or(self.options.peer_scale),
            ce: spoken.is_marked,
            ts_val: spoken.stamp.map_or(self.now, |(val, _)| Time::from_ms(val)),
            ts_ecr: spoken.stamp.map_or(Time::NEVER, |(_, ecr)| Time::from_ms(ecr)),
            sack_count: spoken.sack.len() as u8,
            ..Segment::blank()
        };
        segment.sack[..spoken.sack.len()].copy_from_slice(&spoken.sack);
        // RFC 2883: a first block below the acknowledgement, or inside the second, reports a duplicate.
        segment.is_dsack = match spoken.sack[..] {
            [first, ..] if first.end <= segment.ack => true,
            [first, second, ..] => second.start <= first.start && first.end <= second.end,
            _ => false,
        };
        segment
    }

    fn expect(&mut self, at: Time, spoken: &Spoken) -> Result<(), String> {
        let tolerance = self.options.tolerance;
        self.pass(at + tolerance, true);
        let wanted = describe_spoken(spoken);
        let Some((sent_at, segment)) = self.sent.pop_front() else {
            return Err(format!("nothing was sent by {}, expected {wanted}", seconds(at)));
        };
        let found = format!("{} at {}", describe(&segment), seconds(sent_at));
        if sent_at.since(at) > tolerance || at.since(sent_at) > tolerance {
            return Err(format!("sent {found}, expected it at {}", seconds(at)));
        }
        let is_syn = segment.flags.has(Flags::SYN);
        let unnamed = if self.options.names_push { Flags::default() } else { Flags::PSH };
        let same = segment.flags.with(unnamed) == spoken.flags.with(unnamed)
            && segment.seq.wrapping_add(u64::from(!is_syn)) == spoken.start
            && segment.len == spoken.length
            && spoken.ack.is_none_or(|ack| segment.ack + 1 == ack)
            && spoken.window.is_none_or(|window| segment.window == window)
            && spoken.scale.is_none_or(|scale| segment.window_scale == scale)
            && segment.sack_blocks() == &spoken.sack[..]
            && spoken.stamp.is_none_or(|(val, ecr)| {
                segment.ts_val == Time::from_ms(val) && segment.ts_ecr == Time::from_ms(ecr)
            });
        let codepoint = self.end.stack().codepoint(&segment);
        if let Some(named) = spoken.codepoint.filter(|named| *named != codepoint) {
            return Err(format!("sent {found} as {codepoint:?}, expected {named:?}"));
        }
        if same { Ok(()) } else { Err(format!("sent {found}, expected {wanted}")) }
    }

    fn expect_silence(&mut self) -> Result<(), String> {
        match self.sent.front() {
            None => Ok(()),
            Some((at, segment)) => Err(format!(
                "{} segments the script does not expect, first {} at {}",
                self.sent.len(),
                describe(segment),
                seconds(*at)
            )),
        }
    }

    fn judge(&self, (name, operator, wanted): &(String, String, String)) -> Result<(), String> {
        let sender = &self.end.sender;
        let mss = f64::from(self.options.mss);
        let segments = |bytes: u64| bytes as f64 / mss;
        let ms = |span: Duration| span.as_secs_f64() * 1e3;
        let found = match name.as_str() {
            "phase" | "state" => {
                let text = match name.as_str() {
                    "phase" => sender.phase().word().to_string(),
                    _ => format!("{:?}", self.end.state()),
                };
                let holds = match operator.as_str() {
                    "==" => text == *wanted,
                    "!=" => text != *wanted,
                    _ => return Err(format!("{operator}: not for names")),
                };
                return if holds {
                    Ok(())
                } else {
                    Err(format!("{name} is {text}, not {operator} {wanted}"))
                };
            }
            "cwnd" => segments(sender.control.cwnd),
            "ssthresh" if sender.control.ssthresh == Control::UNLIMITED => f64::INFINITY,
            "ssthresh" => segments(sender.control.ssthresh),
            "in_flight" => segments(sender.in_flight()),
            "rto_ms" => ms(sender.rtt.timeout()),
            "srtt_ms" => ms(sender.rtt.srtt()),
            "queued" => sender.queued() as f64,
            "reordering" => f64::from(sender.reordering()),
            "timeouts" => sender.count.timeouts as f64,
            "recoveries" => sender.count.recoveries as f64,
            "undos" => sender.count.undos as f64,
            "retransmitted" => sender.count.segments_retransmitted as f64,
            "delivered" => self.end.receiver.delivered() as f64,
            "acked" => sender.bytes_acked() as f64,
            "reassembly" => f64::from(self.end.receiver.reassembly_segments()),
            "failed" => f64::from(u8::from(self.end.has_failed())),
            _ if name.starts_with("saved_") => {
                let mut left = self.options.recalled;
                sender.leave_metrics(&mut left);
                match name.as_str() {
                    "saved_ssthresh" => segments(left.ssthresh),
                    "saved_cwnd" => segments(left.cwnd),
                    "saved_srtt_ms" => ms(left.srtt),
                    "saved_deviation_ms" => ms(left.deviation),
                    "saved_reordering" => f64::from(left.reordering),
                    _ => return Err(format!("{name}: unknown quantity")),
                }
            }
            _ => return Err(format!("{name}: unknown quantity")),
        };
        let number: f64 = match wanted.as_str() {
            "unlimited" => f64::INFINITY,
            text => text.parse().map_err(|_| format!("{wanted}: not a number"))?,
        };
        let is_near = found == number || (found - number).abs() < 1e-3;
        let holds = match operator.as_str() {
            "==" => is_near,
            "!=" => !is_near,
            "<=" => found <= number,
            ">=" => found >= number,
            "<" => found < number,
            ">" => found > number,
            _ => return Err(format!("{operator}: unknown operator")),
        };
        if holds { Ok(()) } else { Err(format!("{name} is {found}, not {operator} {wanted}")) }
    }
}

fn seconds(at: Time) -> String {
    format!("{:.6} s", at.as_secs_f64())
}

fn describe_flags(flags: Flags) -> String {
    [
        (Flags::SYN, 'S'),
        (Flags::FIN, 'F'),
        (Flags::PSH, 'P'),
        (Flags::RST, 'R'),
        (Flags::ECE, 'E'),
        (Flags::CWR, 'W'),
        (Flags::ACK, '.'),
    ]
    .into_iter()
    .filter(|(flag, _)| flags.has(*flag))
    .map(|(_, letter)| letter)
    .collect()
}

fn describe_blocks(blocks: &[Range]) -> String {
    let blocks: Vec<String> =
        blocks.iter().map(|block| format!("{}:{}", block.start + 1, block.end + 1)).collect();
    if blocks.is_empty() { String::new() } else { format!(" <sack {}>", blocks.join(" ")) }
}

fn describe(segment: &Segment) -> String {
    let start = segment.seq.wrapping_add(u64::from(!segment.flags.has(Flags::SYN)));
    format!(
        "{} {start}:{}({}) ack {} win {}{} TS val {:.3} ecr {:.3} wscale {}",
        describe_flags(segment.flags),
        start + u64::from(segment.len),
        segment.len,
        segment.ack + 1,
        segment.window,
        describe_blocks(segment.sack_blocks()),
        segment.ts_val.as_secs_f64() * 1e3,
        if segment.ts_ecr == Time::NEVER { -1.0 } else { segment.ts_ecr.as_secs_f64() * 1e3 },
        segment.window_scale,
    )
}

fn describe_spoken(spoken: &Spoken) -> String {
    format!(
        "{} {}:{}({}) ack {:?} win {:?}{} TS {:?} wscale {:?}",
        describe_flags(spoken.flags),
        spoken.start,
        spoken.start + u64::from(spoken.length),
        spoken.length,
        spoken.ack,
        spoken.window,
        describe_blocks(&spoken.sack),
        spoken.stamp,
        spoken.scale,
    )
}

fn talk_through(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let (options, events) = parse(&text)?;
    if !events.iter().any(|event| matches!(event.what, What::Out(_) | What::Assert(_))) {
        return Err("the script claims nothing".into());
    }
    Talk::new(options)?.run(&events)
}

#[test]
fn every_conversation_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conversations");
    let mut scripts: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of conversations")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pkt"))
        .collect();
    scripts.sort();
    assert!(scripts.len() >= 40, "{} conversations", scripts.len());
    let failures: Vec<String> = scripts
        .iter()
        .filter_map(|path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let outcome = std::panic::catch_unwind(|| talk_through(path));
            let error = outcome.unwrap_or_else(|_| Err("panicked (see above)".into())).err()?;
            Some(format!("{name}: {error}"))
        })
        .collect();
    assert!(failures.is_empty(), "{} of {} fail:\n{}", failures.len(), scripts.len(), failures.join("\n"));
}

// -------------------------------------------------------------------- growth, by hand

/// A peer that acknowledges every `per_ack` segments of each round trip, and the window at each round's start
/// in segments.
fn windows(options: Options, per_ack: usize, ssthresh: u64, rounds: usize) -> Vec<f64> {
    let mss = u64::from(options.mss);
    let rtt = options.rtt;
    let mut talk = Talk::new(options).expect("a connection");
    talk.end.sender.control.ssthresh = ssthresh * mss;
    talk.end.sender.write_forever();
    talk.drain();
    let mut windows = vec![talk.end.sender.control.cwnd as f64 / mss as f64];
    let mut acked = 0;
    for _ in 1..rounds {
        let round: Vec<u64> = talk.sent.drain(..).map(|(_, sent)| sent.seq + u64::from(sent.len)).collect();
        talk.advance(talk.now + rtt);
        // Whole groups only: the odd segment waits for the next round's first.
        for end in round.into_iter().filter(|end| (end / mss) as usize % per_ack == 0) {
            assert!(end > acked, "segments are sent once");
            acked = end;
            let ack = Segment {
                flags: Flags::ACK,
                ack: end,
                window: 1 << 30,
                ts_val: talk.now,
                ..Segment::blank()
            };
            talk.hear(&ack);
        }
        windows.push(talk.end.sender.control.cwnd as f64 / mss as f64);
    }
    windows
}

fn options(stack: &str, initial_window: f64) -> Options {
    Options {
        stack: stack.into(),
        opened: Some("client".into()),
        fields: vec![
            ("initial_window".into(), Value::Number(initial_window)),
            ("timestamps".into(), Value::Flag(false)),
            ("tail_loss_probe".into(), Value::Flag(false)),
        ],
        ..Options::default()
    }
}

#[test]
fn linux_2_6_25_grows_by_the_ack_as_worked_by_hand() {
    let got = windows(options("linux-2.6.25", 2.0), 1, 16, 11);
    assert_eq!(got, [2., 4., 8., 16., 17., 18., 19., 20., 21., 22., 23.]);
    let got = windows(options("linux-2.6.25", 20.0), 1, 2, 11);
    assert_eq!(got, [20., 20., 21., 22., 23., 24., 25., 26., 27., 28., 29.]);
}

#[test]
fn one_ack_for_two_segments_halves_the_growth_of_linux_2_6_25() {
    let got = windows(options("linux-2.6.25", 20.0), 2, 2, 26);
    // Asymptotically half a segment a round trip: a step costs cwnd + 1 ACKs of two segments each.
    assert!((got[25] - got[5] - 10.0).abs() <= 1.0, "{got:?}");
    assert_eq!(got[..5], [20., 20., 20., 21., 21.]);
}

#[test]
fn linux_6_counts_segments_not_acks() {
    let by_hand = [10., 20., 40., 64., 65., 66., 67., 68., 69.];
    assert_eq!(windows(options("linux", 10.0), 1, 64, 9), by_hand);
    // Delayed ACKs change nothing, but for the ACK of an odd last segment, which comes a round later.
    for (got, by_hand) in windows(options("linux", 10.0), 2, 64, 9).iter().zip(by_hand) {
        assert!((got - by_hand).abs() <= 1.0, "{got} {by_hand}");
    }
}

#[test]
fn ns3_counts_acks_in_3_27_and_segments_in_3_44() {
    // One ACK for two segments: half a segment a round trip in 3.27, a whole one in 3.44 (LinuxReno).
    let grown = |stack: &str| {
        let got = windows(options(stack, 20.0), 2, 2, 21);
        got[20] - got[0]
    };
    assert!((grown("ns3") - 10.0).abs() <= 1.0, "{}", grown("ns3"));
    assert!((grown("ns3-3.44") - 20.0).abs() <= 1.0, "{}", grown("ns3-3.44"));
}

#[test]
fn freebsd_7_adds_whole_bytes_for_every_ack() {
    let mut options = options("freebsd-7", 10.0);
    options.mss = 1448;
    let got = windows(options, 1, 2, 9);
    let by_hand = [10.000, 10.955, 11.834, 12.729, 13.637, 14.557, 15.486, 16.423, 17.365];
    for (got, by_hand) in got.iter().zip(by_hand) {
        assert!((got - by_hand).abs() < 0.0006, "{got} {by_hand}");
    }
}

#[test]
fn freebsd_9_counts_two_segments_for_a_delayed_ack() {
    // RFC 3465, L = 2: one ACK for two segments doubles the window all the same.
    assert_eq!(windows(options("freebsd-9", 4.0), 2, 64, 5), [4., 8., 16., 32., 64.]);
    // RFC 3465 section 2.1: one segment each time cwnd bytes are acknowledged.
    let got = windows(options("freebsd-9", 20.0), 2, 2, 21);
    assert!((got[20] - got[0] - 20.0).abs() <= 1.0, "{got:?}");
}
