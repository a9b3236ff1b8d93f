//! Web pages in a browser: interdependent objects, fetched from several hosts.

use std::collections::VecDeque;

use super::registry::Registered;
use super::slots::Slots;
use super::{
    Action, Actions, Application, Connection, Cue, Exchange, Opening, Report, Rows, Side, Traits, Transport,
};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Time};

const CARD: Card = Card {
    name: "page",
    title: "Web page",
    law: "a browser loads a page's objects. One is asked for when all that it depends on have arrived and its delay is \
          over. `http = \"1.1\"`: each host has up to six connections, with one request at a time on each; a request \
          takes the first idle one, and if there is none another is opened. `http = \"2\"`: one connection a host, on \
          which all requests leave at once and responses follow one another in the order in which the server has them. \
          A connection begins with TLS's handshake of one round trip (`tls`). The page is there when all objects are; \
          then its connections close, and after `gap` it is loaded again, `loads` times (0: until the flow stops). Each \
          object is a row of the requests table, and so is each load. Speed Index by bytes: ∫(1 − share of the bytes of \
          arrived objects) dt. The flow's `from` is the browser",
    source: "dependency graphs: Wang et al. (WProf), NSDI 2013. Six connections: RFC 9112 section 9.4 sets no number, \
             browsers have six (Chromium's kMaxSocketsPerGroup). Multiplexing: RFC 9113. The index: Bocchi, De Cicco and \
             Rossi, Measuring the Quality of Experience of Web Users, CCR 46(4), 2016 (ByteIndex). TLS 1.3: RFC 8446",
    differs: &[
        "what depends on an object begins when that is whole: a parser that reads half a page is not modelled",
        "no names, redirects, priorities, caches or connections of the load before",
        "over a QUIC transport http = \"2\" stands for HTTP/3 with one stream: a loss holds up all objects of its host. \
         QUIC has its own handshake: give tls = false",
        "all hosts lie at the flow's `to`",
    ],
    live_twin: Some("tailback socket application"),
    params: &[
        ParamSpec::text("har", "A HAR file beside the scenario: its entries become `objects`."),
        ParamSpec::text(
            "objects",
            "The page: \"HOST BYTES REQUEST_BYTES SERVER_MS DELAY_MS AFTER\" of each object, with semicolons between. AFTER \
             names earlier objects, \"0,2\", or is \"-\".",
        ),
        ParamSpec::choice("http", &["2", "1.1"], "One connection a host, or six."),
        ParamSpec::flag("tls", true, "Connections begin with TLS's handshake."),
        ParamSpec::whole(
            "loads",
            "",
            0,
            (0, 1_000_000),
            "Loads of the page; 0 loads it until the flow stops.",
        ),
        ParamSpec::number("gap", "ms", 5_000.0, (0.0, 3_600_000.0), "Time from one load's end to the next."),
    ],
};

/// A page with a single object, the default.
const ONE_DOCUMENT: &str = "0 30000 400 50 0 -";
const MOST_CONNECTIONS: usize = 6;
const HELLO: Bytes = 517;
const CERTIFICATE: Bytes = 3000;

/// An object of a page.
#[derive(Clone, Debug)]
struct Object {
    host: usize,
    bytes: Bytes,
    request: Bytes,
    /// Server's processing time.
    server: Duration,
    /// Delay of its request after the last object that it depends on has arrived.
    delay: Duration,
    waiting: Vec<usize>,
    /// Number of objects that it depends on.
    depends: u32,
}

/// Parses the objects in `text`; an error names the object and the problem.
fn parsed(text: &str) -> Result<Vec<Object>, (String, &'static str)> {
    const FIX: &str =
        "Write \"HOST BYTES REQUEST_BYTES SERVER_MS DELAY_MS AFTER\", for example \"0 30000 400 50 0 -\"";
    let mut objects: Vec<Object> = Vec::new();
    for (number, given) in text.split(';').map(str::trim).filter(|given| !given.is_empty()).enumerate() {
        let words: Vec<&str> = given.split_whitespace().collect();
        let [host, bytes, request, server, delay, after] = words[..] else {
            return Err((
                format!("object {number}, \"{given}\", has {} words instead of six", words.len()),
                FIX,
            ));
        };
        let whole = |what: &str, word: &str, least: u64| {
            let found = word.parse::<u64>().ok().filter(|value| (least..1 << 40).contains(value));
            found.ok_or_else(|| {
                (format!("object {number}: {what} \"{word}\" is no whole number from {least} on"), FIX)
            })
        };
        let span = |what: &str, word: &str| {
            let found = word.parse::<f64>().ok().filter(|value| (0.0..=3.6e6).contains(value));
            found.map(|value| Duration::from_secs_f64(1e-3 * value)).ok_or_else(|| {
                (format!("object {number}: {what} \"{word}\" is no time in milliseconds"), FIX)
            })
        };
        let mut object = Object {
            host: whole("host", host, 0)? as usize,
            bytes: whole("bytes", bytes, 1)?,
            request: whole("request bytes", request, 1)?,
            server: span("server time", server)?,
            delay: span("delay", delay)?,
            waiting: Vec::new(),
            depends: 0,
        };
        if object.host > number {
            return Err((format!("object {number}: host {host} comes before host {}", object.host - 1), FIX));
        }
        for word in after.split(',').filter(|word| *word != "-") {
            let Some(on) = word.parse().ok().and_then(|on: usize| objects.get_mut(on)) else {
                let problem = format!("object {number} depends on \"{word}\", which is no earlier object");
                return Err((problem, "Sort the objects so that each depends on earlier ones"));
            };
            on.waiting.push(number);
            object.depends += 1;
        }
        objects.push(object);
    }
    if objects.is_empty() { Err(("there is no object".into(), FIX)) } else { Ok(objects) }
}

/// State of a connection at both of its ends.
#[derive(Clone, Debug)]
struct Link {
    host: usize,
    is_open: bool,
    is_closed: bool,
    has_certificate: bool,
    /// Requests on their way, each with the stream offset at which it is complete; total request bytes so far.
    asked: VecDeque<(usize, Bytes)>,
    asked_bytes: Bytes,
    /// Objects that the server is processing, and until when.
    thinking: Vec<(Time, usize)>,
    /// Responses on their way, each with the stream offset at which it is complete; total response bytes so far.
    answered: VecDeque<(usize, Bytes)>,
    answered_bytes: Bytes,
    /// Bytes of the complete responses.
    arrived: Bytes,
    /// Objects requested and not yet received.
    under_way: Vec<usize>,
}

/// State of a page load.
#[derive(Clone, Debug, Default)]
struct Load {
    /// The connection whose row in the requests table is that of the load.
    first: Connection,
    left: usize,
    /// For each object: how many objects it still waits for, and when it was requested.
    waits: Vec<u32>,
    asked: Vec<Time>,
    /// Objects to request, and when.
    due: Vec<(Time, usize)>,
    /// For each host: its connections, and the objects without a connection.
    connections: Vec<Vec<Connection>>,
    queued: Vec<VecDeque<usize>>,
}

/// The browser and its servers.
#[derive(Clone, Debug)]
pub struct Page {
    objects: Vec<Object>,
    bytes: Bytes,
    hosts: usize,
    most: usize,
    is_multiplexed: bool,
    tls: bool,
    loads: u64,
    gap: Duration,
    links: Slots<Link>,
    load: Option<Load>,
    loaded: u64,
    opened: u32,
    next: Time,
}

impl Registered for Page {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Web page";
    const TRAITS: Traits = Traits::PAGES;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        if !given.text("har").is_empty() {
            let fix = "Give objects, or run the scenario's file";
            return Err(given.refuse("har", "the engine reads no files", fix));
        }
        let text = given.text("objects");
        let objects = parsed(if text.is_empty() { ONE_DOCUMENT } else { text })
            .map_err(|(problem, fix)| given.refuse("objects", &problem, fix))?;
        let is_multiplexed = given.choice("http") == "2";
        Ok(Page {
            bytes: objects.iter().map(|object| object.bytes).sum(),
            hosts: objects.iter().map(|object| object.host + 1).max().unwrap_or(0),
            most: if is_multiplexed { 1 } else { MOST_CONNECTIONS },
            is_multiplexed,
            tls: given.flag("tls"),
            loads: given.whole("loads"),
            gap: Duration::from_secs_f64(1e-3 * given.number("gap")),
            objects,
            links: Slots::default(),
            load: None,
            loaded: 0,
            opened: 0,
            next: Time::NEVER,
        })
    }
}

impl Page {
    fn begin(&mut self, now: Time, actions: &mut Actions) {
        self.next = Time::NEVER;
        let mut load = Load {
            left: self.objects.len(),
            waits: self.objects.iter().map(|object| object.depends).collect(),
            asked: vec![Time::NEVER; self.objects.len()],
            connections: vec![Vec::new(); self.hosts],
            queued: vec![VecDeque::new(); self.hosts],
            ..Load::default()
        };
        let roots = self.objects.iter().enumerate().filter(|(_, object)| object.depends == 0);
        load.due = roots.map(|(number, object)| (now + object.delay, number)).collect();
        let root = load.due.iter().min().map_or(0, |(_, number)| *number);
        self.load = Some(load);
        // The load's row belongs to its first connection.
        let first = self.open(self.objects[root].host, actions);
        self.load.as_mut().expect("it has begun").first = first;
        let bytes = self.bytes;
        actions.report(Report::Asked { connection: first, kind: Exchange::Page, bytes, turn: 0 });
        self.ask(now, actions);
    }

    fn open(&mut self, host: usize, actions: &mut Actions) -> Connection {
        let connection = self.links.keep(Link {
            host,
            is_open: false,
            is_closed: false,
            has_certificate: false,
            asked: VecDeque::new(),
            asked_bytes: if self.tls { HELLO } else { 0 },
            thinking: Vec::new(),
            answered: VecDeque::new(),
            answered_bytes: if self.tls { CERTIFICATE } else { 0 },
            arrived: if self.tls { CERTIFICATE } else { 0 },
            under_way: Vec::new(),
        });
        actions.push(Action::Connect(Opening { connection, turn: self.opened, path: 0 }));
        self.opened += 1;
        self.load.as_mut().expect("a page is loaded").connections[host].push(connection);
        connection
    }

    /// Requests the objects that are due: on a free connection or a new one; otherwise they wait.
    fn ask(&mut self, now: Time, actions: &mut Actions) {
        let Some(load) = &mut self.load else { return };
        load.due.sort_unstable();
        while let Some((at, number)) = load.due.first().copied()
            && at <= now
        {
            load.due.remove(0);
            load.queued[self.objects[number].host].push_back(number);
        }
        for host in 0..self.hosts {
            self.dispatch(host, now, actions);
        }
    }

    fn dispatch(&mut self, host: usize, now: Time, actions: &mut Actions) {
        let Some(load) = &mut self.load else { return };
        let connections = load.connections[host].clone();
        let mut connecting = 0;
        for connection in &connections {
            let Some(link) = self.links.get_mut(*connection) else { continue };
            connecting += usize::from(!link.is_open && !link.is_closed);
            while link.is_open
                && !link.is_closed
                && (self.is_multiplexed || link.under_way.is_empty())
                && let Some(number) = load.queued[host].pop_front()
            {
                let object = &self.objects[number];
                load.asked[number] = now;
                link.asked_bytes += object.request;
                link.asked.push_back((number, link.asked_bytes));
                link.under_way.push(number);
                actions.push(Action::Write(*connection, object.request));
                actions.push(listening(*connection, link, &self.objects));
            }
        }
        let wanted = load.queued[host].len().saturating_sub(connecting);
        for _ in 0..wanted.min(self.most.saturating_sub(connections.len())) {
            self.open(host, actions);
        }
    }

    /// A connection is established; with TLS its handshake follows.
    fn on_established(&mut self, connection: Connection, now: Time, actions: &mut Actions) {
        let Some(link) = self.links.get_mut(connection).filter(|link| !link.is_closed) else { return };
        if self.tls {
            actions.push(Action::Write(connection, HELLO));
            actions.push(Action::TellReceived(connection, CERTIFICATE));
            return;
        }
        link.is_open = true;
        let host = link.host;
        self.dispatch(host, now, actions);
    }

    /// Response bytes have arrived at the browser.
    fn on_response(&mut self, connection: Connection, bytes: Bytes, now: Time, actions: &mut Actions) {
        let Some(link) = self.links.get_mut(connection).filter(|link| !link.is_closed) else { return };
        link.is_open = true;
        let host = link.host;
        let mut arrived = Vec::new();
        while let Some((number, end)) = link.answered.front().copied()
            && end <= bytes
        {
            link.answered.pop_front();
            link.arrived += self.objects[number].bytes;
            link.under_way.retain(|other| *other != number);
            arrived.push(number);
        }
        if !link.under_way.is_empty() {
            actions.push(listening(connection, link, &self.objects));
        }
        for number in arrived {
            self.on_arrived(connection, number, now, actions);
        }
        self.dispatch(host, now, actions);
        self.ask(now, actions);
    }

    fn on_arrived(&mut self, connection: Connection, number: usize, now: Time, actions: &mut Actions) {
        let Some(load) = &mut self.load else { return };
        let (asked, bytes) = (load.asked[number], self.objects[number].bytes);
        actions.report(Report::Served { connection, kind: Exchange::Object, bytes, asked });
        for one in &self.objects[number].waiting {
            load.waits[*one] -= 1;
            if load.waits[*one] == 0 {
                load.due.push((now + self.objects[*one].delay, *one));
            }
        }
        load.left -= 1;
        if load.left > 0 {
            return;
        }
        actions.report(Report::Answered(load.first));
        self.close(false, actions);
        self.loaded += 1;
        if self.loads == 0 || self.loaded < self.loads {
            self.next = now + self.gap;
        }
    }

    /// Ends the load, whether or not it is complete.
    fn close(&mut self, discard: bool, actions: &mut Actions) {
        let Some(load) = self.load.take() else { return };
        for connection in load.connections.into_iter().flatten() {
            if let Some(link) = self.links.get_mut(connection).filter(|link| !link.is_closed) {
                link.is_closed = true;
                actions.push(Action::Close { connection, discard });
            }
        }
    }

    /// Request bytes have arrived at a server: begins to process complete requests.
    fn on_request(&mut self, connection: Connection, bytes: Bytes, now: Time, actions: &mut Actions) {
        let Some(link) = self.links.get_mut(connection) else { return };
        if self.tls && !link.has_certificate && bytes >= HELLO {
            link.has_certificate = true;
            actions.push(Action::Write(connection, CERTIFICATE));
        }
        while let Some((number, end)) = link.asked.front().copied()
            && end <= bytes
        {
            link.asked.pop_front();
            link.thinking.push((now + self.objects[number].server, number));
        }
        let next = link.asked.front().map_or(bytes + 1, |(_, end)| *end);
        actions.push(Action::TellReceived(connection, next));
        self.answer(connection, now, actions);
    }

    /// Sends the responses that are due, in order.
    fn answer(&mut self, connection: Connection, now: Time, actions: &mut Actions) {
        let Some(link) = self.links.get_mut(connection) else { return };
        link.thinking.sort_unstable();
        while let Some((at, number)) = link.thinking.first().copied()
            && at <= now
        {
            link.thinking.remove(0);
            let bytes = self.objects[number].bytes;
            link.answered_bytes += bytes;
            link.answered.push_back((number, link.answered_bytes));
            actions.push(Action::Write(connection, bytes));
        }
        if let Some((at, _)) = link.thinking.first() {
            actions.push(Action::CallAt(connection, *at));
        }
    }
}

/// Requests a cue for the end of the first response on its way, or for the smallest possible response.
fn listening(connection: Connection, link: &Link, objects: &[Object]) -> Action {
    let least = link.under_way.iter().map(|number| objects[*number].bytes).min().unwrap_or(1);
    let end = link.answered.front().map_or(link.arrived + least, |(_, end)| *end);
    Action::TellReceived(connection, end)
}

impl Application for Page {
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions) {
        match (side, cue) {
            (Side::Client, Cue::Start) => (self.next, self.loaded) = (now, 0),
            (Side::Client, Cue::Stop) => {
                self.next = Time::NEVER;
                self.close(true, actions);
            }
            (Side::Client, Cue::Wake) => self.ask(now, actions),
            (Side::Client, Cue::Established(connection)) => self.on_established(connection, now, actions),
            (Side::Client, Cue::Received(connection, bytes)) => {
                self.on_response(connection, bytes, now, actions);
            }
            (Side::Client, Cue::Failed(connection)) => {
                let is_of_load = self
                    .load
                    .as_ref()
                    .is_some_and(|load| load.connections.iter().flatten().any(|other| *other == connection));
                if is_of_load {
                    if let Some(link) = self.links.get_mut(connection) {
                        link.is_closed = true;
                    }
                    self.close(true, actions);
                    self.next = now + self.gap;
                }
            }
            (Side::Client, Cue::Released(connection)) => {
                self.links.release(connection);
                return;
            }
            (Side::Server, Cue::Established(connection)) => {
                let first = if self.tls { HELLO } else { 1 };
                return actions.push(Action::TellReceived(connection, first));
            }
            (Side::Server, Cue::Received(connection, bytes)) => {
                return self.on_request(connection, bytes, now, actions);
            }
            (Side::Server, Cue::Due(connection)) => return self.answer(connection, now, actions),
            (Side::Server, Cue::PeerFinished(connection)) => {
                return actions.push(Action::Close { connection, discard: false });
            }
            _ => return,
        }
        if self.next <= now {
            self.begin(now, actions);
        }
        let due = self.load.iter().flat_map(|load| &load.due).map(|(at, _)| *at).min();
        let wake = due.unwrap_or(Time::NEVER).min(self.next);
        if wake != Time::NEVER {
            actions.push(Action::WakeAt(wake));
        }
    }

    fn transport(&self) -> Transport {
        Transport::Tcp
    }

    fn rows(&self) -> Rows {
        Rows::Requests
    }
}
