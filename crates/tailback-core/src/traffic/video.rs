//! Video streaming over HTTP: segments at several bitrates, from which the player chooses one after another.

use super::registry::Registered;
use super::slots::Slots;
use super::{
    Action, Actions, Application, Connection, Cue, Exchange, Opening, Report, Rows, Side, Traits, Transport,
};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Time};

const CARD: Card = Card {
    name: "video",
    title: "A film by DASH",
    law: "on one connection the player asks for a segment of `segment` seconds at one bitrate of `ladder`, and \
          for the next once it is there and the buffer has room. It plays once `start_after` is buffered, \
          stands still when the buffer is empty, and goes on at `start_after`. `control = \"bba\"`: f(B) rises \
          from the lowest to the highest rung while the buffer B grows from `reservoir` to `reservoir + \
          cushion`. The rung rises to the highest below f(B) once f(B) reaches the next rung, and falls to the \
          lowest above f(B) once f(B) is down at the rung below. `control = \"rate\"`: the highest rung up to \
          `safety` times the harmonic mean of the last `samples` segments' rates. The flow's `from` is the \
          player: segments travel against the flow's direction",
    source: "BBA-0 of Huang, Johari, McKeown, Trunnell and Watson, SIGCOMM 2014, section 4: buffer 240 s, reservoir 90 s, \
             cushion to 90 %, segments of 4 s. Harmonic mean and safety of Jiang, Sekar and Zhang (FESTIVE), CoNEXT 2012, \
             here over 5 segments. Ladder `netflix`: Netflix, “Per-Title Encode Optimization”, 2015, the fixed ladder of \
             235 to 5800 kbit/s",
    differs: &[
        "a segment's size is its bitrate times its length: real encodings vary by scene",
        "one connection for all; manifests, audio and what HTTP itself adds to a segment are left out",
        "the viewer never seeks, and a film ends at the flow's stop",
        "after a standstill the buffer starts from where it is; BBA-0 knows nothing of it",
    ],
    live_twin: Some("tailback socket application"),
    params: &[
        ParamSpec::choice("control", &["bba", "rate"], "How the next segment's bitrate is chosen."),
        ParamSpec::choice(
            "ladder",
            &["netflix", "sd"],
            "Bitrates: Netflix's fixed ladder of 2015, or its rungs to 1750 kbit/s.",
        ),
        ParamSpec::number("segment", "s", 4.0, (0.1, 60.0), "Length of a segment."),
        ParamSpec::number("buffer", "s", 240.0, (1.0, 3600.0), "Seconds that the player holds, at most."),
        ParamSpec::number("start_after", "s", 4.0, (0.1, 3600.0), "Seconds buffered before it plays."),
        ParamSpec::number("reservoir", "s", 90.0, (0.0, 3600.0), "Of bba: up to here the lowest rung."),
        ParamSpec::number(
            "cushion",
            "s",
            126.0,
            (0.1, 3600.0),
            "Of bba: over this much more the rate rises.",
        ),
        ParamSpec::number(
            "safety",
            "",
            0.85,
            (0.01, 1.0),
            "Of rate: share of what was measured that is used.",
        ),
        ParamSpec::whole("samples", "", 5, (1, 1000), "Of rate: segments that are measured."),
        ParamSpec::whole("request_bytes", "B", 300, (1, 1 << 20), "Payload of a request."),
    ],
};

/// Netflix's fixed ladder, kbit/s.
const NETFLIX: &[u64] = &[235, 375, 560, 750, 1050, 1750, 2350, 3000, 4300, 5800];
/// Netflix's standard-definition bitrates.
const SD: &[u64] = &[235, 375, 560, 750, 1050, 1750];

/// Playback buffer in seconds, and startup and stall times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Playback {
    start_after_s: f64,
    buffered_s: f64,
    is_playing: bool,
    at_s: f64,
    /// Time from the first request until playback began; NaN before.
    pub startup_s: f64,
    /// Total stall time since then.
    pub stalled_s: f64,
    /// Number of stalls.
    pub stalls: u64,
    began_s: f64,
}

impl Playback {
    /// A player that requests its first segment now.
    pub fn new(start_after_s: f64, now_s: f64) -> Self {
        Playback {
            start_after_s,
            buffered_s: 0.0,
            is_playing: false,
            at_s: now_s,
            startup_s: f64::NAN,
            stalled_s: 0.0,
            stalls: 0,
            began_s: now_s,
        }
    }

    /// Plays until `now_s`; returns the seconds still buffered.
    pub fn until(&mut self, now_s: f64) -> f64 {
        let mut passed = now_s - self.at_s;
        self.at_s = now_s;
        if self.is_playing {
            let played = passed.min(self.buffered_s);
            self.buffered_s -= played;
            passed -= played;
            // A rounding error of a picosecond is not a stall.
            if passed > 1e-9 {
                self.is_playing = false;
                self.stalls += 1;
            }
        }
        if !self.is_playing && !self.startup_s.is_nan() {
            self.stalled_s += passed;
        }
        self.buffered_s
    }

    /// A segment of this length has arrived; returns the seconds buffered.
    pub fn arrived(&mut self, now_s: f64, segment_s: f64) -> f64 {
        self.until(now_s);
        self.buffered_s += segment_s;
        if !self.is_playing && self.buffered_s >= self.start_after_s {
            self.is_playing = true;
            if self.startup_s.is_nan() {
                self.startup_s = now_s - self.began_s;
            }
        }
        self.buffered_s
    }
}

/// Bitrate selection.
#[derive(Clone, Debug)]
enum Control {
    /// By the buffer level.
    Bba { reservoir_s: f64, cushion_s: f64 },
    /// By the throughput of the last segments, in bit/s.
    Rate { safety: f64, samples: usize, recent: Vec<f64> },
}

/// The player and its server.
#[derive(Clone, Debug)]
pub struct Video {
    ladder_bps: Vec<f64>,
    control: Control,
    segment: Duration,
    buffer_s: f64,
    start_after_s: f64,
    request: Bytes,
    connections: Slots<()>,
    current: Option<Connection>,
    playback: Playback,
    rung: usize,
    asked: Time,
    requests: u64,
    // Total bytes of the segments requested so far.
    bytes: Bytes,
}

impl Registered for Video {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Film";
    const TRAITS: Traits = Traits::FILM;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        let (segment, buffer) = (given.number("segment"), given.number("buffer"));
        let start_after = given.number("start_after");
        let (reservoir_s, cushion_s) = (given.number("reservoir"), given.number("cushion"));
        if buffer < start_after.max(segment) {
            let fix = "Give at least segment and start_after";
            return Err(given.refuse("buffer", "holds less than is needed to play", fix));
        }
        let is_bba = given.choice("control") == "bba";
        if is_bba && reservoir_s + cushion_s > buffer {
            let fix = "Give reservoir and cushion that the buffer holds, for example 3/8 and 21/40 of it";
            return Err(given.refuse("buffer", "less than reservoir and cushion", fix));
        }
        let control = if is_bba {
            Control::Bba { reservoir_s, cushion_s }
        } else {
            let samples = given.whole("samples") as usize;
            Control::Rate { safety: given.number("safety"), samples, recent: Vec::new() }
        };
        let ladder = if given.choice("ladder") == "sd" { SD } else { NETFLIX };
        Ok(Video {
            ladder_bps: ladder.iter().map(|kbps| 1e3 * *kbps as f64).collect(),
            control,
            segment: Duration::from_secs_f64(segment),
            buffer_s: buffer,
            start_after_s: start_after,
            request: given.whole("request_bytes"),
            connections: Slots::default(),
            current: None,
            playback: Playback::new(start_after, 0.0),
            rung: 0,
            asked: Time::ZERO,
            requests: 0,
            bytes: 0,
        })
    }
}

impl Control {
    /// Bitrate index of the next segment, given the previous index and the buffered seconds.
    fn next(&self, ladder: &[f64], rung: usize, buffered_s: f64) -> usize {
        let last = ladder.len() - 1;
        match self {
            Control::Bba { reservoir_s, cushion_s } => {
                if buffered_s <= *reservoir_s {
                    return 0;
                }
                if buffered_s >= reservoir_s + cushion_s {
                    return last;
                }
                let f = ladder[0] + (ladder[last] - ladder[0]) * (buffered_s - reservoir_s) / cushion_s;
                let (above, below) = (ladder[(rung + 1).min(last)], ladder[rung.saturating_sub(1)]);
                if f >= above {
                    ladder.iter().rposition(|rate| *rate < f).unwrap_or(0)
                } else if f <= below {
                    ladder.iter().position(|rate| *rate > f).unwrap_or(last)
                } else {
                    rung
                }
            }
            Control::Rate { recent, .. } if recent.is_empty() => 0,
            Control::Rate { safety, recent, .. } => {
                let harmonic = recent.len() as f64 / recent.iter().map(|rate| 1.0 / rate).sum::<f64>();
                ladder.iter().rposition(|rate| *rate <= safety * harmonic).unwrap_or(0)
            }
        }
    }

    fn measured(&mut self, rate_bps: f64) {
        if let Control::Rate { samples, recent, .. } = self {
            if recent.len() == *samples {
                recent.remove(0);
            }
            recent.push(rate_bps);
        }
    }
}

impl Video {
    fn segment_bytes(&self) -> Bytes {
        (self.ladder_bps[self.rung] * self.segment.as_secs_f64() / 8.0).round() as Bytes
    }

    fn ask(&mut self, connection: Connection, now: Time, actions: &mut Actions) {
        let buffered_s = self.playback.until(now.as_secs_f64());
        self.rung = self.control.next(&self.ladder_bps, self.rung, buffered_s);
        let bytes = self.segment_bytes();
        (self.asked, self.requests) = (now, self.requests + 1);
        self.bytes += bytes;
        actions.report(Report::Asked { connection, kind: Exchange::Segment, bytes, turn: 0 });
        actions.push(Action::Write(connection, self.request));
        actions.push(Action::TellReceived(connection, self.bytes));
    }

    fn arrived(&mut self, connection: Connection, now: Time, actions: &mut Actions) {
        actions.report(Report::Answered(connection));
        let took_s = now.since(self.asked).as_secs_f64();
        self.control.measured(8.0 * self.segment_bytes() as f64 / took_s.max(1e-9));
        let buffered_s = self.playback.arrived(now.as_secs_f64(), self.segment.as_secs_f64());
        // The buffer must have room for a whole segment; playback makes that room.
        let wait_s = buffered_s + self.segment.as_secs_f64() - self.buffer_s;
        if wait_s > 0.0 {
            actions.push(Action::CallAt(connection, now + Duration::from_secs_f64(wait_s)));
        } else {
            self.ask(connection, now, actions);
        }
    }
}

impl Application for Video {
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions) {
        match (side, cue) {
            (Side::Client, Cue::Start) => {
                (self.requests, self.bytes, self.rung) = (0, 0, 0);
                if let Control::Rate { recent, .. } = &mut self.control {
                    recent.clear();
                }
                let connection = self.connections.keep(());
                self.current = Some(connection);
                actions.push(Action::Connect(Opening { connection, ..Opening::default() }));
            }
            (Side::Client, Cue::Stop) => {
                if let Some(connection) = self.current.take() {
                    actions.push(Action::Close { connection, discard: true });
                }
            }
            (Side::Client, Cue::Established(connection)) if self.current == Some(connection) => {
                self.playback = Playback::new(self.start_after_s, now.as_secs_f64());
                self.ask(connection, now, actions);
            }
            (Side::Server, Cue::Established(connection)) => {
                actions.push(Action::TellReceived(connection, self.request));
            }
            (Side::Server, Cue::Received(connection, _)) if self.current == Some(connection) => {
                actions.push(Action::Write(connection, self.segment_bytes()));
                actions.push(Action::TellReceived(connection, (self.requests + 1) * self.request));
            }
            (Side::Client, Cue::Received(connection, _)) if self.current == Some(connection) => {
                self.arrived(connection, now, actions);
            }
            (Side::Client, Cue::Due(connection)) if self.current == Some(connection) => {
                self.ask(connection, now, actions);
            }
            (Side::Server, Cue::PeerFinished(connection)) => {
                actions.push(Action::Close { connection, discard: false });
            }
            (Side::Client, Cue::Released(connection)) => {
                self.connections.release(connection);
                if self.current == Some(connection) {
                    self.current = None;
                }
            }
            _ => {}
        }
    }

    fn transport(&self) -> Transport {
        Transport::Tcp
    }

    fn rows(&self) -> Rows {
        Rows::Requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LADDER: [f64; 4] = [1.0, 2.0, 3.0, 5.0];

    #[test]
    fn bba_keeps_its_rung_until_the_map_reaches_the_next() {
        let bba = Control::Bba { reservoir_s: 90.0, cushion_s: 126.0 };
        // f = 1 + 4·(B − 90)/126: 2 at 121.5 s, 3 at 153 s.
        for (rung, buffered_s, wanted) in [
            (0, 90.0, 0),
            (0, 121.0, 0),
            (0, 122.0, 1),
            (1, 152.0, 1),
            (1, 122.0, 1),
            (1, 90.0, 0),
            (2, 121.0, 1),
            (1, 216.0, 3),
        ] {
            assert_eq!(bba.next(&LADDER, rung, buffered_s), wanted, "{rung} at {buffered_s} s");
        }
    }

    #[test]
    fn the_harmonic_mean_of_the_last_segments_decides() {
        let mut rate = Control::Rate { safety: 0.8, samples: 2, recent: Vec::new() };
        assert_eq!(rate.next(&LADDER, 0, 0.0), 0);
        for (measured, wanted) in [(4.0, 2), (2.4, 1), (100.0, 2)] {
            rate.measured(measured);
            assert_eq!(rate.next(&LADDER, 3, 0.0), wanted, "after {measured}");
        }
    }

    #[test]
    fn a_standstill_lasts_until_enough_is_buffered() {
        let mut playback = Playback::new(4.0, 1.0);
        assert_eq!(playback.arrived(3.0, 2.0), 2.0);
        assert_eq!(playback.arrived(4.0, 2.0), 4.0);
        assert_eq!(playback.startup_s, 3.0);
        // Empty at 8 s; 2 s at 9 s are not enough, at 11 s they are.
        assert_eq!(playback.until(9.0), 0.0);
        playback.arrived(9.0, 2.0);
        playback.arrived(11.0, 2.0);
        assert_eq!((playback.stalls, playback.stalled_s), (1, 3.0));
        assert_eq!(playback.until(12.0), 3.0);
    }
}
