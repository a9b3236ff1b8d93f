//! Runs a script against an endpoint.

use std::collections::VecDeque;

use tailback_core::tcp::endpoint::{Endpoint, State};
use tailback_core::tcp::segment::{Flags, Segment};
use tailback_core::tcp::sender::CongestionEvent;
use tailback_core::time::Time;

use super::claims::{describe, describe_spoken, seconds};
use super::options::Options;
use super::script::{Event, Spoken, What, When};

pub struct Talk {
    pub options: Options,
    pub end: Endpoint,
    pub now: Time,
    pub events: Vec<CongestionEvent>,
    pub sent: VecDeque<(Time, Segment)>,
}

impl Talk {
    pub fn new(options: Options) -> Result<Self, String> {
        let mut end = options.endpoint()?;
        end.sender.recall(options.recalled);
        let mut talk = Talk { options, end, now: Time::ZERO, events: Vec::new(), sent: VecDeque::new() };
        talk.open()?;
        Ok(talk)
    }

    /// Performs the handshake that `--opened` asks for.
    pub fn open(&mut self) -> Result<(), String> {
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

    pub fn hear(&mut self, segment: &Segment) {
        self.end.on_segment(segment, self.now, &mut self.events);
        self.drain();
    }

    pub fn drain(&mut self) {
        while let Some(segment) = self.end.next_segment(self.now) {
            if self.end.stack().small_queue.is_some() && segment.len > 0 {
                self.end.sender.on_queued(u64::from(segment.len) + 40);
            }
            self.sent.push_back((self.now, segment));
            assert!(self.sent.len() < 100_000, "the endpoint never stops sending");
        }
    }

    /// Advances time to `until`, or until a segment is sent if `stop_when_sent`.
    pub fn pass(&mut self, until: Time, stop_when_sent: bool) {
        while !stop_when_sent || self.sent.is_empty() {
            let wake = self.end.next_wake();
            if wake > until {
                self.now = self.now.max(until);
                return;
            }
            assert!(wake > self.now, "the endpoint wants to wake at {wake:?}, now is {:?}", self.now);
            self.now = wake;
            self.end.on_timer(self.now, &mut self.events);
            self.drain();
        }
    }

    pub fn advance(&mut self, until: Time) {
        self.pass(until, false);
    }

    pub fn run(&mut self, events: &[Event]) -> Result<(), String> {
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

    pub fn step(&mut self, at: Time, what: &What) -> Result<(), String> {
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

    pub fn call(&mut self, name: &str, argument: u64) -> Result<(), String> {
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

    pub fn compose(&self, spoken: &Spoken) -> Segment {
        let ack = spoken.ack.unwrap_or(1);
        let mut segment = Segment {
            flags: spoken.flags,
            // A SYN has an offset below 0.
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

    pub fn expect(&mut self, at: Time, spoken: &Spoken) -> Result<(), String> {
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

    pub fn expect_silence(&mut self) -> Result<(), String> {
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
}
