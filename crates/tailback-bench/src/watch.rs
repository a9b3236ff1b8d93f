//! Observes the calls of a stack: which call it is in, and a journal to compare two runs.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tailback_core::foreign::{Endpoint, Flight, Progress, Setup, Stack, State};
use tailback_core::packet::Ecn;
use tailback_core::scenario::Params;
use tailback_core::time::{Bytes, Time};

/// Names of the calls, by their number in [`Watch`] and [`Entry`].
const CALLS: [&str; 12] = [
    "no call",
    "connect",
    "on_datagram",
    "poll_transmit",
    "next_timeout",
    "on_timeout",
    "write",
    "finish",
    "read",
    "close",
    "progress",
    "state",
];
const SIDES: [&str; 2] = ["the client", "the server"];

/// A call and its answer.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Entry {
    call: u8,
    side: u8,
    at: Time,
    /// Hash of the arguments.
    given: u64,
    /// Hash of the answer.
    answer: u64,
    /// The answer as a number: bytes of a datagram, a count, or picoseconds.
    value: u64,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (call, side) = (CALLS[usize::from(self.call)], SIDES[usize::from(self.side)]);
        write!(f, "{call} of {side} at {} s", self.at.as_secs_f64())
    }
}

/// The call that a stack is in, and its earlier calls.
#[derive(Debug, Default)]
pub struct Watch {
    call: AtomicU8,
    side: AtomicU8,
    at_ps: AtomicU64,
    calls: AtomicU64,
    datagrams: AtomicU64,
    is_established: AtomicBool,
    journal: Option<Mutex<Vec<Entry>>>,
}

impl Watch {
    /// With a journal.
    pub fn with_journal() -> Self {
        Watch { journal: Some(Mutex::default()), ..Watch::default() }
    }

    /// Number of calls so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// Describes the call that has not returned; `None` between calls.
    pub fn hung(&self) -> Option<String> {
        let (call, side) = (self.call.load(Relaxed), self.side.load(Relaxed));
        let at = Time::from_ps(self.at_ps.load(Relaxed)).as_secs_f64();
        let of = format!("{} of {}", CALLS[usize::from(call)], SIDES[usize::from(side)]);
        (call != 0).then(|| format!("{of}, its call {}, at {at} s of the scenario", self.calls()))
    }

    /// Why a run has nothing to measure: no end reported that it was established; `None` if one did.
    pub fn silence(&self) -> Option<String> {
        (!self.is_established.load(Relaxed)).then(|| {
            let (datagrams, calls) = (self.datagrams.load(Relaxed), self.calls());
            format!(
                "No connection was ever established: progress() never said so, and poll_transmit() gave {datagrams} \
                 datagrams in {calls} calls of the stack."
            )
        })
    }

    fn begin(&self, call: u8, side: u8, at: Option<Time>) {
        if let Some(at) = at {
            self.at_ps.store(at.as_ps(), Relaxed);
        }
        self.side.store(side, Relaxed);
        self.call.store(call, Relaxed);
        self.calls.fetch_add(1, Relaxed);
    }

    fn end(&self, call: u8, side: u8, given: u64, answer: u64, value: u64) {
        self.call.store(0, Relaxed);
        if let Some(journal) = &self.journal {
            let at = Time::from_ps(self.at_ps.load(Relaxed));
            let entry = Entry { call, side, at, given, answer, value };
            journal.lock().unwrap_or_else(|it| it.into_inner()).push(entry);
        }
    }

    fn keeps(&self) -> bool {
        self.journal.is_some()
    }
}

/// Describes the first difference between two runs of one scenario and seed; `None` if they are equal.
pub fn parting(one: &Watch, other: &Watch) -> Option<String> {
    let journal = |watch: &Watch| {
        let journal = watch.journal.as_ref().map(|it| it.lock().unwrap_or_else(|it| it.into_inner()));
        journal.map(|it| it.clone()).unwrap_or_default()
    };
    let (one, other) = (journal(one), journal(other));
    let at = one.iter().zip(&other).position(|(a, b)| a != b);
    let at = at.or_else(|| (one.len() != other.len()).then(|| one.len().min(other.len())))?;
    let (Some(a), Some(b)) = (one.get(at), other.get(at)) else {
        return Some(format!("one run ends after {} calls, the other after {}", one.len(), other.len()));
    };
    let call = at + 1;
    if (a.call, a.side, a.at, a.given) != (b.call, b.side, b.at, b.given) {
        return Some(format!("call {call} is {a} in one run, {b} in the other, with what it is given"));
    }
    let what = match CALLS[usize::from(a.call)] {
        "poll_transmit" if a.value != b.value => {
            format!(
                "datagrams of {} and {} bytes. It draws random numbers or reads a clock",
                a.value, b.value
            )
        }
        "poll_transmit" => format!(
            "datagrams of {} bytes that differ. It draws random numbers (IDs, keys, the order of a hash map) or writes \
             down a clock's time",
            a.value
        ),
        "next_timeout" => {
            let seconds = |it: &Entry| Time::from_ps(it.value).as_secs_f64();
            format!("{} s and {} s. It reads a clock, or draws a timer", seconds(a), seconds(b))
        }
        _ => {
            format!("{} and {}. It draws random numbers or reads a clock, there or before", a.value, b.value)
        }
    };
    Some(format!("call {call}, {a}, answers {what}"))
}

fn hash(value: &impl Hash) -> u64 {
    // Its keys are fixed, unlike a hash map's.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// An observed stack.
#[derive(Debug)]
pub struct Watched {
    /// The stack.
    pub stack: Arc<dyn Stack>,
    /// The observations.
    pub watch: Arc<Watch>,
}

impl Stack for Watched {
    fn version(&self) -> &str {
        self.stack.version()
    }
    fn algorithms(&self) -> &[&'static str] {
        self.stack.algorithms()
    }
    fn least_mtu(&self) -> u32 {
        self.stack.least_mtu()
    }
    fn check(&self, cc: &str, params: &Params) -> Result<(), String> {
        self.stack.check(cc, params)
    }
    fn connect(&self, setup: &Setup<'_>) -> [Box<dyn Endpoint>; 2] {
        self.watch.begin(1, 0, Some(setup.now));
        let mut side = 0;
        let ends = self.stack.connect(setup).map(|inner| -> Box<dyn Endpoint> {
            side += 1;
            Box::new(End { inner, side: side - 1, watch: self.watch.clone() })
        });
        self.watch.end(1, 0, 0, 0, 0);
        ends
    }
}

/// One observed end.
#[derive(Debug)]
struct End {
    inner: Box<dyn Endpoint>,
    side: u8,
    watch: Arc<Watch>,
}

impl End {
    fn within<T>(
        &mut self,
        call: u8,
        at: Option<Time>,
        given: u64,
        make: impl FnOnce(&mut dyn Endpoint) -> T,
        seen: impl FnOnce(&T) -> (u64, u64),
    ) -> T {
        self.watch.begin(call, self.side, at);
        let answer = make(&mut *self.inner);
        let (hashed, value) = if self.watch.keeps() { seen(&answer) } else { (0, 0) };
        self.watch.end(call, self.side, given, hashed, value);
        answer
    }

    fn given(&self, what: &impl Hash) -> u64 {
        if self.watch.keeps() { hash(what) } else { 0 }
    }
}

fn nothing((): &()) -> (u64, u64) {
    (0, 0)
}

fn count(it: &u64) -> (u64, u64) {
    (*it, *it)
}

impl Endpoint for End {
    fn on_datagram(&mut self, now: Time, datagram: &[u8], ecn: Ecn) {
        let given = self.given(&datagram);
        self.within(2, Some(now), given, |it| it.on_datagram(now, datagram, ecn), nothing);
    }
    fn poll_transmit(&mut self, now: Time, datagram: &mut Vec<u8>) -> Option<Ecn> {
        self.watch.begin(3, self.side, Some(now));
        let ecn = self.inner.poll_transmit(now, datagram);
        let (answer, bytes) = match ecn {
            Some(ecn) => (self.given(&(&*datagram, ecn as u8)), datagram.len() as u64),
            None => (0, 0),
        };
        self.watch.datagrams.fetch_add(u64::from(ecn.is_some()), Relaxed);
        self.watch.end(3, self.side, 0, answer, bytes);
        ecn
    }
    fn next_timeout(&mut self) -> Time {
        self.within(4, None, 0, |it| it.next_timeout(), |at| count(&at.as_ps()))
    }
    fn on_timeout(&mut self, now: Time) {
        self.within(5, Some(now), 0, |it| it.on_timeout(now), nothing);
    }
    fn write(&mut self, most: Bytes) -> Bytes {
        self.within(6, None, most, |it| it.write(most), count)
    }
    fn finish(&mut self) {
        self.within(7, None, 0, |it| it.finish(), nothing);
    }
    fn read(&mut self, now: Time) -> Bytes {
        self.within(8, Some(now), 0, |it| it.read(now), count)
    }
    fn close(&mut self, now: Time) {
        self.within(9, Some(now), 0, |it| it.close(now), nothing);
    }
    fn progress(&mut self) -> Progress {
        let seen = |it: &Progress| {
            let flags =
                [it.is_established, it.peer_finished, it.is_acknowledged, it.is_closed, it.has_failed];
            count(&flags.iter().fold(0, |bits, flag| bits * 2 + u64::from(*flag)))
        };
        let progress = self.within(10, None, 0, |it| it.progress(), seen);
        self.watch.is_established.fetch_or(progress.is_established, Relaxed);
        progress
    }
    fn failure(&mut self) -> Option<String> {
        self.inner.failure()
    }
    fn flight(&mut self) -> Flight {
        // Not recorded here, because `state` includes the window.
        self.inner.flight()
    }
    fn state(&mut self) -> State {
        let seen = |it: &State| (hash(&format!("{it:?}")), it.cwnd);
        self.within(11, None, 0, |it| it.state(), seen)
    }
}
