//! Connection vectors: connections that start independently of the network's state, each with a sequence of requests,
//! responses and pauses. This is the load of the Common TCP Evaluation Suite.

use std::collections::VecDeque;

use super::draws::{Normal, gamma};
use super::packmime::PackMime;
use super::registry::Registered;
use super::slots::Slots;
use super::{
    Action, Actions, Application, Connection, Cue, Exchange, Needs, Opening, Report, Rows, Side, Transport,
};
use crate::math;
use crate::params::{Card, Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Time};

/// Minimum number of vectors per second.
const SLOWEST: f64 = 0.05;

const CARD: Card = Card {
    name: "connection-vectors",
    title: "Connection vectors",
    law: "`rate` vectors a second begin as a Poisson process. A vector is a sequence of epochs: the client \
          sends a request, the server thinks and answers, the client pauses. With probability 1 − `persistent` \
          there is one, sized by PackMime-HTTP. Else there are as many as its HTTP/1.1 model gives: one page \
          with probability 0.82, else two or more (exponential, mean 0.417). If there are several, a page has \
          one object with probability 0.69, else 1 + ⌊exponential of mean 1.578⌋. Responses and pauses are \
          log-normal around a mean and with a variance that each connection draws. The hosts' delays are those \
          of `client_delays` and `server_delays`, each connection's pair drawn uniformly. `prefill` begins \
          with the connections of this many seconds: those that last, or begin, beyond the middle, started at \
          the rate that makes their bytes the mean load. The flow's `from` is the clients' side: responses \
          travel against the flow's direction",
    source: "Tmix' structure: Weigle, Adurthi, Hernández-Campos, Jeffay and Smith, CCR 36(3), 2006; \
             draft-irtf-iccrg-tcpeval-01 sections 2.2, 3.3, 4.1 and appendix A. Sizes and pauses: Cao, Cleveland, \
             Gao, Jeffay, Smith and Weigle, INFOCOM 2004, with the parameters of ns-2's `PackMimeHTTP`",
    differs: &[
        "the draft's vectors are those of traces (University of North Carolina); these are drawn",
        "no concurrent vectors: one thing at a time",
        "requests are independent draws, and one connection's are all as large as its first",
        "the hosts' delays are spent before the first link in each direction; their links have no queue",
        "prefill takes a connection to last its pauses, a round trip of the longest delays for each doubling from \
              ten segments, and its bytes at the mean load; the delay of the scenario's links is not known to it",
    ],
    live_twin: None,
    params: &[
        // Below this rate PackMime's distributions are so flat that computing the mean length of a run takes too long.
        ParamSpec::number("rate", "1/s", 100.0, (SLOWEST, 1_000_000.0), "Vectors begun a second."),
        ParamSpec::number("persistent", "", 0.09, (0.0, 1.0), "Share of vectors with several epochs."),
        ParamSpec::whole("largest", "B", 0, (0, 1 << 40), "Responses are cut to this; 0 means never."),
        ParamSpec::text(
            "client_delays",
            "One-way delays of the clients' hosts in ms, such as \"0, 12, 25\".",
        ),
        ParamSpec::text("server_delays", "One-way delays of the servers' hosts in ms; both or neither."),
        ParamSpec::number("prefill", "s", 0.0, (0.0, 3_600.0), "Seconds of vectors to begin with."),
        ParamSpec::whole(
            "copies",
            "",
            1,
            (1, 16),
            "Connections of each vector, begun together on the same hosts with the flow's algorithms in turn.",
        ),
        ParamSpec::whole("most", "", 100_000, (1, 1_000_000), "Connections alive at once, at most."),
    ],
};

/// A request, its response, and the pause before the next request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Epoch {
    /// Request payload.
    pub request: Bytes,
    /// Response payload.
    pub response: Bytes,
    /// Server's processing time.
    pub thinks: Duration,
    /// Client's pause after the response.
    pub pauses: Duration,
}

/// A connection's epochs. Most connections have one, which needs no allocation.
#[derive(Clone, PartialEq, Debug)]
pub struct Vector {
    /// First epoch of the connection.
    pub first: Epoch,
    /// Later epochs.
    pub rest: Vec<Epoch>,
}

impl Vector {
    /// All epochs in order.
    pub fn epochs(&self) -> impl Iterator<Item = &Epoch> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    fn epoch(&self, number: usize) -> Option<Epoch> {
        if number == 0 { Some(self.first) } else { self.rest.get(number - 1).copied() }
    }
}

/// A log-normal quantity to base two whose mean and variance are drawn per connection: 2^(m + √(s²)·√v·z), with m
/// normal and s² from a gamma distribution of mean one.
struct Drawn {
    mean: f64,
    variance_of_mean: f64,
    shape: f64,
    variance: f64,
}

/// Responses of a persistent connection, in bytes (ns-2's `PackMimeHTTPPersistRspSize`).
const RESPONSE: Drawn = Drawn { mean: 10.62, variance_of_mean: 0.94, shape: 3.22, variance: 2.43 };
/// Pauses between a page's objects, in seconds (`PackMimeHTTPTimeBtwnObjs`).
const BETWEEN_OBJECTS: Drawn = Drawn { mean: -4.15, variance_of_mean: 3.12, shape: 2.35, variance: 1.57 };
/// Pauses between pages, in seconds (`PackMimeHTTPTimeBtwnPages`).
const BETWEEN_PAGES: Drawn = Drawn { mean: 3.22, variance_of_mean: 0.73, shape: 1.85, variance: 1.21 };
/// Probability that a persistent connection has a single page, and mean of the exponential number of further pages.
const PAGES: (f64, f64) = (0.82, 0.417);
/// Probability that one of several pages has a single object, and mean of the exponential number of further objects.
const OBJECTS: (f64, f64) = (0.69, 1.578);

impl Drawn {
    fn of_connection(&self, normal: &mut Normal, stream: &mut Stream) -> [f64; 2] {
        let middle = self.mean + self.variance_of_mean.sqrt() * normal.draw(stream);
        [middle, (gamma(stream, normal, self.shape) / self.shape * self.variance).sqrt()]
    }

    fn next([middle, spread]: [f64; 2], normal: &mut Normal, stream: &mut Stream) -> f64 {
        math::exp((middle + spread * normal.draw(stream)) * std::f64::consts::LN_2)
    }

    /// The mean: e^(m·ln 2 + ln²2·v_m/2)·(1 − ln²2·v/2/k)^−k.
    fn expected(&self) -> f64 {
        const LN2: f64 = std::f64::consts::LN_2;
        let within = 1.0 - 0.5 * LN2 * LN2 * self.variance / self.shape;
        math::exp(self.mean * LN2 + 0.5 * LN2 * LN2 * self.variance_of_mean) * math::powf(within, -self.shape)
    }
}

/// Mean of ⌊exponential⌋.
fn mean_whole(mean: f64) -> f64 {
    1.0 / (math::exp(1.0 / mean) - 1.0)
}

/// Generates vectors.
#[derive(Clone, Debug)]
pub struct Source {
    rate: f64,
    persistent: f64,
    cap: Bytes,
    sessions: PackMime,
    // Each quantity has its own stream, so that a change of one does not affect the others' draws.
    starts: Stream,
    kinds: Stream,
    persistents: Stream,
    normal: Normal,
}

impl Source {
    /// Generates `rate` vectors per second, of which a fraction `persistent` has several epochs; responses are cut to
    /// `cap`.
    pub fn new(rate: f64, persistent: f64, cap: Option<Bytes>, seed: u64) -> Self {
        Source {
            rate,
            persistent,
            cap: cap.unwrap_or(Bytes::MAX),
            sessions: PackMime::new(rate, false, cap, seed),
            starts: Stream::named(seed, "starts"),
            kinds: Stream::named(seed, "kinds"),
            persistents: Stream::named(seed, "persistents"),
            normal: Normal::default(),
        }
    }

    /// Mean payload of a vector's requests and responses; ignores the cut of persistent ones.
    pub fn means(rate: f64, persistent: f64, cap: Option<Bytes>) -> (f64, f64) {
        let (request, response) = PackMime::means(rate, cap);
        let several = 1.0 + mean_whole(OBJECTS.1);
        // ⌊exponential⌋, at least one.
        let more = mean_whole(PAGES.1) + 1.0 - math::exp(-1.0 / PAGES.1);
        let pages = 1.0 + more;
        let epochs = PAGES.0 * several + (1.0 - PAGES.0) * pages * (OBJECTS.0 + (1.0 - OBJECTS.0) * several);
        let cap = cap.map_or(f64::INFINITY, |cap| cap as f64);
        (
            (1.0 - persistent + persistent * epochs) * request,
            (1.0 - persistent) * response + persistent * epochs * RESPONSE.expected().min(cap),
        )
    }

    /// Draws the time until the next vector begins.
    pub fn gap(&mut self) -> Duration {
        Duration::from_secs_f64(self.starts.exponential(1.0 / self.rate))
    }

    /// Draws the next vector.
    pub fn vector(&mut self) -> Vector {
        let session = self.sessions.session();
        let first = Epoch {
            request: session.request,
            response: session.response.max(1),
            thinks: session.thinks,
            pauses: Duration::ZERO,
        };
        if self.kinds.uniform() >= self.persistent {
            return Vector { first, rest: Vec::new() };
        }
        let (stream, normal) = (&mut self.persistents, &mut self.normal);
        let [sizes, objects, pages] =
            [RESPONSE, BETWEEN_OBJECTS, BETWEEN_PAGES].map(|quantity| quantity.of_connection(normal, stream));
        let whole = |stream: &mut Stream, mean| stream.exponential(mean) as u64;
        let is_one_page = stream.uniform() < PAGES.0;
        let page_count = if is_one_page { 1 } else { 1 + whole(stream, PAGES.1).max(1) };
        let mut epochs = Vec::new();
        for page in 0..page_count {
            let is_single = !is_one_page && stream.uniform() < OBJECTS.0;
            let object_count = if is_single { 1 } else { 1 + whole(stream, OBJECTS.1) };
            for object in 0..object_count {
                let size = Drawn::next(sizes, normal, stream) as Bytes;
                let (is_last_object, is_last_page) = (object + 1 == object_count, page + 1 == page_count);
                let pauses = match (is_last_object, is_last_page) {
                    (true, true) => Duration::ZERO,
                    (true, false) => Duration::from_secs_f64(Drawn::next(pages, normal, stream)),
                    (false, _) => Duration::from_secs_f64(Drawn::next(objects, normal, stream)),
                };
                epochs.push(Epoch { response: size.clamp(1, self.cap), pauses, ..first });
            }
        }
        Vector { first: epochs.remove(0), rest: epochs }
    }
}

/// State of a connection.
#[derive(Clone, Debug)]
struct Course {
    vector: Vector,
    epoch: usize,
    // Payload in each direction up to the end of this epoch.
    asked: Bytes,
    answered: Bytes,
    turn: u32,
}

/// Limit on the vectors that `prefill` examines before a run's first packet, at one to two million per second.
const MOST_LOOKED_AT: f64 = 1e7;

/// The application.
#[derive(Clone, Debug)]
pub struct ConnectionVectors {
    source: Source,
    load_bps: [f64; 2],
    prefill: Duration,
    copies: u32,
    most: usize,
    courses: Slots<Course>,
    // Vectors that prefill begins with, and when.
    first: VecDeque<(Time, Vector)>,
    next: Time,
    opened: u32,
    paths: Vec<Duration>,
    choice: Stream,
}

impl Registered for ConnectionVectors {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Recorded connections";

    fn new(given: &Checked<'_>, seed: u64) -> Result<Self, ScenarioError> {
        let cap = Some(given.whole("largest")).filter(|bytes| *bytes > 0);
        let (rate, persistent) = (given.number("rate"), given.number("persistent"));
        let (clients, servers) = (delays(given, "client_delays")?, delays(given, "server_delays")?);
        if clients.is_empty() != servers.is_empty() {
            let lacking = if clients.is_empty() { "client_delays" } else { "server_delays" };
            return Err(given.refuse(
                lacking,
                "one side's hosts have delays",
                "Give both sides' delays, or neither",
            ));
        }
        let (copies, prefill) = (given.whole("copies") as u32, given.number("prefill"));
        let looked_at = rate * prefill;
        if looked_at > MOST_LOOKED_AT {
            return Err(given.refuse(
                "prefill",
                &format!(
                    "with rate {rate} it looks at {looked_at:.3e} vectors, and may at {MOST_LOOKED_AT:.0e}"
                ),
                "Give fewer seconds, or a lower rate and more copies",
            ));
        }
        let (request, response) = Source::means(rate, persistent, cap);
        Ok(ConnectionVectors {
            source: Source::new(rate, persistent, cap, seed),
            load_bps: [request, response].map(|bytes| 8.0 * bytes * rate * f64::from(copies)),
            prefill: Duration::from_secs_f64(prefill),
            copies,
            most: given.whole("most") as usize,
            courses: Slots::default(),
            first: VecDeque::new(),
            next: Time::NEVER,
            opened: 0,
            paths: clients.iter().flat_map(|near| servers.iter().map(|far| *near + *far)).collect(),
            choice: Stream::named(seed, "choice"),
        })
    }
}

/// Parses delays in milliseconds, separated by commas.
fn delays(given: &Checked<'_>, name: &str) -> Result<Vec<Duration>, ScenarioError> {
    let fix = "Give milliseconds between commas, such as \"0, 12, 25\", each up to 10000";
    let texts = given.text(name).split(',').map(str::trim).filter(|text| !text.is_empty());
    texts
        .map(|text| match text.parse::<f64>() {
            Ok(ms) if (0.0..=10_000.0).contains(&ms) => Ok(Duration::from_secs_f64(ms / 1e3)),
            _ => Err(given.refuse(name, "must be delays in milliseconds", fix)),
        })
        .collect()
}

impl ConnectionVectors {
    /// Draft section 3.3: of the vectors in the first `prefill`, keeps those that continue past its middle, and spreads
    /// them so that they offer the mean load.
    fn fill(&mut self, now: Time) {
        let longest = self.paths.iter().max().copied().unwrap_or(Duration::ZERO).as_secs_f64();
        let (span, load_bps) = (self.prefill.as_secs_f64(), self.load_bps[1]);
        let mut bits = 0.0;
        let mut kept = Vec::new();
        let mut begins = self.source.gap().as_secs_f64();
        while begins < span {
            let vector = self.source.vector();
            let lasts = vector.epochs().map(|epoch| {
                let bytes = epoch.response as f64;
                let rounds = 1.0 + math::log2(1.0 + bytes / (10.0 * 1448.0));
                epoch.pauses.as_secs_f64() + 2.0 * longest * rounds + 8.0 * bytes / load_bps
            });
            if begins + lasts.sum::<f64>() > 0.5 * span {
                bits += vector.epochs().map(|epoch| 8.0 * epoch.response as f64).sum::<f64>();
                kept.push(vector);
            }
            begins += self.source.gap().as_secs_f64();
        }
        let interval = bits * f64::from(self.copies) / load_bps;
        let count = kept.len() as f64;
        let at = |number: usize| now + Duration::from_secs_f64(interval * number as f64 / count);
        self.first = kept.into_iter().enumerate().map(|(number, vector)| (at(number), vector)).collect();
        self.next = now + Duration::from_secs_f64(interval) + self.source.gap();
    }

    fn open(&mut self, vector: Vector, actions: &mut Actions) {
        let path = if self.paths.is_empty() { 0 } else { self.choice.below(self.paths.len() as u64) as u32 };
        for _ in 0..self.copies {
            let turn = self.opened;
            self.opened = self.opened.wrapping_add(1);
            if self.courses.len() >= self.most {
                actions.push(Action::TurnAway);
                continue;
            }
            let Epoch { request, response, .. } = vector.first;
            let course =
                Course { vector: vector.clone(), epoch: 0, asked: request, answered: response, turn };
            let connection = self.courses.keep(course);
            actions.push(Action::Connect(Opening { connection, turn, path }));
            ask(connection, request, response, response, turn, actions);
        }
    }

    /// The pause is over: sends the next request.
    fn ask_again(&mut self, connection: Connection, actions: &mut Actions) {
        let Some(course) = self.courses.get_mut(connection) else { return };
        course.epoch += 1;
        let Some(epoch) = course.vector.epoch(course.epoch) else { return };
        course.asked += epoch.request;
        course.answered += epoch.response;
        ask(connection, epoch.request, epoch.response, course.answered, course.turn, actions);
    }

    fn respond(&mut self, connection: Connection, actions: &mut Actions) {
        let Some(course) = self.courses.get_mut(connection) else { return };
        let Some(epoch) = course.vector.epoch(course.epoch) else { return };
        actions.push(Action::Write(connection, epoch.response));
        match course.vector.epoch(course.epoch + 1) {
            Some(following) => {
                actions.push(Action::TellReceived(connection, course.asked + following.request));
            }
            None => actions.push(Action::Close { connection, discard: false }),
        }
    }
}

fn ask(
    connection: Connection,
    request: Bytes,
    response: Bytes,
    answered: Bytes,
    turn: u32,
    actions: &mut Actions,
) {
    actions.report(Report::Asked { connection, kind: Exchange::Request, bytes: response, turn });
    actions.push(Action::Write(connection, request));
    actions.push(Action::TellReceived(connection, answered));
}

impl Application for ConnectionVectors {
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions) {
        match (side, cue) {
            (Side::Client, Cue::Start) => self.fill(now),
            (Side::Client, Cue::Stop) => {
                self.first.clear();
                self.next = Time::NEVER;
            }
            (Side::Client, Cue::Wake) => {}
            (Side::Server, Cue::Established(connection)) => {
                let Some(course) = self.courses.get_mut(connection) else { return };
                return actions.push(Action::TellReceived(connection, course.asked));
            }
            (Side::Server, Cue::Received(connection, _)) => {
                let Some(course) = self.courses.get_mut(connection) else { return };
                let thinks = course.vector.epoch(course.epoch).map_or(Duration::ZERO, |epoch| epoch.thinks);
                return actions.push(Action::CallAt(connection, now + thinks));
            }
            (Side::Server, Cue::Due(connection)) => return self.respond(connection, actions),
            (Side::Client, Cue::Received(connection, _)) => {
                let Some(course) = self.courses.get_mut(connection) else { return };
                actions.report(Report::Answered(connection));
                if course.epoch < course.vector.rest.len() {
                    let pauses =
                        course.vector.epoch(course.epoch).map_or(Duration::ZERO, |epoch| epoch.pauses);
                    actions.push(Action::CallAt(connection, now + pauses));
                }
                return;
            }
            (Side::Client, Cue::Due(connection)) => return self.ask_again(connection, actions),
            (Side::Client, Cue::PeerFinished(connection)) => {
                return actions.push(Action::Close { connection, discard: false });
            }
            (Side::Client, Cue::Released(connection)) => {
                self.courses.release(connection);
                return;
            }
            _ => return,
        }
        while let Some((begins, vector)) = self.first.pop_front() {
            if begins > now {
                self.first.push_front((begins, vector));
                return actions.push(Action::WakeAt(begins));
            }
            self.open(vector, actions);
        }
        while self.next <= now {
            let vector = self.source.vector();
            self.open(vector, actions);
            self.next += self.source.gap();
        }
        if self.next != Time::NEVER {
            actions.push(Action::WakeAt(self.next));
        }
    }

    fn transport(&self) -> Transport {
        Transport::Tcp
    }

    fn rows(&self) -> Rows {
        Rows::Requests
    }

    fn needs(&self) -> Needs {
        Needs { paths: self.paths.clone(), crowd: true, load_bps: self.load_bps, ..Needs::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_rate_has_means() {
        let (request, response) = Source::means(SLOWEST, 0.1, None);
        assert!(request > 100.0 && request.is_finite());
        assert!(response > 1_000.0 && response.is_finite());
    }

    #[test]
    fn vectors_have_the_mean_of_their_law() {
        let (rate, cap, n) = (1000.0, Some(1_000_000), 400_000);
        for persistent in [0.09, 1.0] {
            let (request, response) = Source::means(rate, persistent, cap);
            let mut source = Source::new(rate, persistent, cap, 1);
            let (mut asked, mut answered) = (0.0, 0.0);
            for _ in 0..n {
                let vector = source.vector();
                asked += vector.epochs().map(|epoch| epoch.request as f64).sum::<f64>();
                answered += vector.epochs().map(|epoch| epoch.response as f64).sum::<f64>();
            }
            // Requests are not cut, index 1.5. Responses cut at 1 MB have a standard deviation of some five means: four
            // standard errors are 3 %.
            assert!((asked / f64::from(n) / request - 1.0).abs() < 0.05, "{persistent}: {asked} {request}");
            assert!((answered / f64::from(n) / response - 1.0).abs() < 0.03, "{answered} {response}");
        }
    }

    #[test]
    fn starts_are_a_poisson_process() {
        let mut source = Source::new(50.0, 0.09, None, 1);
        let gaps: Vec<f64> = (0..100_000).map(|_| source.gap().as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / 1e5;
        let beyond = gaps.iter().filter(|gap| **gap > 2.0 * mean).count() as f64 / 1e5;
        assert!(
            (50.0 * mean - 1.0).abs() < 0.013 && (beyond - math::exp(-2.0)).abs() < 0.005,
            "{mean} {beyond}"
        );
    }

    #[test]
    fn only_persistent_vectors_have_several_epochs_and_the_last_has_no_pause() {
        let mut source = Source::new(50.0, 0.0, None, 1);
        assert!((0..10_000).all(|_| source.vector().rest.is_empty()));
        let mut source = Source::new(50.0, 1.0, None, 1);
        let vectors: Vec<Vector> = (0..10_000).map(|_| source.vector()).collect();
        assert!(vectors.iter().all(|vector| vector.epochs().last().unwrap().pauses.is_zero()));
        let inner: Vec<f64> = vectors
            .iter()
            .flat_map(|vector| vector.epochs().take(vector.rest.len()))
            .map(|epoch| epoch.pauses.as_secs_f64())
            .collect();
        // Between objects 2^-4.15 s in the median, between pages 2^3.22 s.
        let longer = inner.iter().filter(|pause| **pause > 3.0).count();
        assert!(
            inner.len() > 10_000 && longer > 1000 && longer < inner.len() / 3,
            "{longer} {}",
            inner.len()
        );
        let mut sorted = inner;
        sorted.sort_by(f64::total_cmp);
        assert!((0.04..0.13).contains(&sorted[sorted.len() / 2]), "{}", sorted[sorted.len() / 2]);
    }
}
