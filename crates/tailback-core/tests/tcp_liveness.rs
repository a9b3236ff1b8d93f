//! Liveness: whatever a path loses, reorders or duplicates, a connection delivers every byte and closes.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailback_core::cc::registry::build_preferring;
use tailback_core::rng::Stream;
use tailback_core::scenario::Params;
use tailback_core::tcp::endpoint::{Endpoint, Setup};
use tailback_core::tcp::segment::Segment;
use tailback_core::tcp::stack::{Stack, profiles};
use tailback_core::time::{Duration, Time};

const MSS: u32 = 1000;

/// Impairments, each affecting one packet in N.
#[derive(Clone, Copy, Debug)]
struct Pipe {
    loses: u64,
    reorders: u64,
    duplicates: u64,
}

struct Pair {
    ends: [Endpoint; 2],
    // In flight, by arrival and order of sending.
    wire: BTreeMap<(Time, u64), (usize, Segment)>,
    sent: u64,
    now: Time,
    /// Whether both ends are woken early after every event.
    are_restless: bool,
}

impl Pair {
    fn new(stack: &Stack, name: &str, cc: &str, pipe_seed: u64) -> Self {
        let system = name.split('-').next().unwrap_or(name);
        let end = |peer: u32| {
            let algorithm =
                build_preferring(cc, &Params::new(), "", pipe_seed, &[name, system]).expect("an algorithm");
            let stack = Arc::new(stack.clone());
            Endpoint::new(Setup {
                stack,
                algorithm,
                mss: MSS,
                send_buffer: 1 << 20,
                receive_buffer: 1 << 18,
                read_rate: None,
                peer,
            })
        };
        Pair { ends: [end(1), end(0)], wire: BTreeMap::new(), sent: 0, now: Time::ZERO, are_restless: false }
    }

    fn flush(&mut self, from: usize, pipe: Pipe, chance: &mut Stream) {
        let mut one_in = |n: u64| n > 0 && chance.bits() % n == 0;
        while let Some(segment) = self.ends[from].next_segment(self.now) {
            let sender = &self.ends[from].sender;
            assert!(sender.in_flight() <= sender.snd_nxt() * 2, "more in flight than was ever sent twice");
            if one_in(pipe.loses) {
                continue;
            }
            let copies = if one_in(pipe.duplicates) { 2 } else { 1 };
            for _ in 0..copies {
                let late = if one_in(pipe.reorders) { Duration::from_ms(13) } else { Duration::ZERO };
                self.sent += 1;
                self.wire.insert((self.now + Duration::from_ms(20) + late, self.sent), (1 - from, segment));
            }
        }
    }

    /// Runs until both ends are done; panics with the state if they are stuck.
    fn run(&mut self, pipe: Pipe, seed: u64, bytes: u64) {
        let mut chance = Stream::named(seed, "pipe");
        let mut events = Vec::new();
        self.ends[1].listen();
        self.ends[0].connect();
        self.ends[0].sender.write(bytes);
        self.ends[0].sender.close(false);
        self.flush(0, pipe, &mut chance);
        for _ in 0..2_000_000 {
            if self.ends.iter().all(|end| end.is_done() || end.sender.is_fin_acked()) {
                break;
            }
            let arrival = self.wire.first_key_value().map_or(Time::NEVER, |(key, _)| key.0);
            let wakes = [self.ends[0].next_wake(), self.ends[1].next_wake()];
            let next = arrival.min(wakes[0]).min(wakes[1]);
            assert_ne!(next, Time::NEVER, "{} of {bytes} B, and neither end waits for anything", self.got());
            assert!(next >= self.now, "time ran back");
            self.now = next;
            if arrival == next {
                let (_, (to, segment)) = self.wire.pop_first().expect("an arrival");
                self.ends[to].on_segment(&segment, self.now, &mut events);
                if to == 1 && self.ends[1].receiver.is_finished() {
                    self.ends[1].sender.close(false);
                }
                self.flush(to, pipe, &mut chance);
            } else {
                let who = usize::from(wakes[0] != next);
                self.ends[who].on_timer(self.now, &mut events);
                self.flush(who, pipe, &mut chance);
                assert!(self.ends[who].next_wake() > self.now, "end {who} wakes for nothing");
            }
            for event in events.drain(..) {
                assert!(event.cwnd_after >= u64::from(MSS), "{event:?}");
            }
            assert!(self.ends[0].sender.control.cwnd >= u64::from(MSS));
            if self.are_restless {
                (0..2).for_each(|who| self.wake_early(who));
            }
        }
    }

    /// Half-way to its next wake, an end must be unchanged: nothing to send, and no state to update.
    fn wake_early(&mut self, who: usize) {
        let end = &mut self.ends[who];
        let wake = end.next_wake().min(self.now + Duration::from_secs(100));
        if wake <= self.now {
            return; // It is due at the same instant as the other.
        }
        let early = self.now + wake.since(self.now) / 2;
        let (before, mut events) = (format!("{end:?}"), Vec::new());
        end.on_timer(early, &mut events);
        assert!(end.next_segment(early).is_none() && events.is_empty(), "end {who} acts early, at {early:?}");
        assert_eq!(before, format!("{end:?}"), "end {who} at {early:?}, before {wake:?}");
    }

    fn got(&self) -> u64 {
        self.ends[1].receiver.delivered()
    }
}

fn deliver(name: &str, stack: &Stack, cc: &str, pipe: Pipe, seed: u64) {
    let bytes = 300_500;
    let mut pair = Pair::new(stack, name, cc, seed);
    pair.run(pipe, seed, bytes);
    let story = format!("{name} {cc} {pipe:?} seed {seed}: {} of {bytes} B at {:?}", pair.got(), pair.now);
    if pair.ends[0].has_failed() {
        // Six SYNs in a row may be lost; nothing else justifies a failure.
        assert!(pipe.loses > 0 && pair.got() == 0, "{story}");
        return;
    }
    assert_eq!(pair.got(), bytes, "{story}");
    assert_eq!(pair.ends[0].sender.bytes_acked(), bytes, "{story}");
    assert!(pair.ends[1].receiver.is_finished(), "{story}");
    assert!(pair.ends[0].sender.is_fin_acked() && pair.ends[1].sender.is_fin_acked(), "{story}");
}

const PIPES: [Pipe; 6] = [
    Pipe { loses: 0, reorders: 0, duplicates: 0 },
    Pipe { loses: 50, reorders: 0, duplicates: 0 },
    Pipe { loses: 6, reorders: 0, duplicates: 0 },
    Pipe { loses: 0, reorders: 5, duplicates: 9 },
    Pipe { loses: 25, reorders: 7, duplicates: 11 },
    Pipe { loses: 3, reorders: 3, duplicates: 3 },
];

#[test]
fn every_stack_with_every_algorithm_delivers_and_closes() {
    for profile in profiles() {
        for card in tailback_core::cc::registry::cards() {
            for (number, pipe) in PIPES.into_iter().enumerate() {
                for round in 0..2 {
                    deliver(profile.name, &profile.stack, card.name, pipe, 100 * number as u64 + round);
                }
            }
        }
    }
}

#[test]
fn so_does_every_mixture_of_detection_and_reduction() {
    use tailback_core::scenario::Value;
    for detection in ["duplicate-acks", "rfc6675", "fack", "rack"] {
        for reduction in ["immediate", "freebsd", "rate-halving", "prr"] {
            for sack in [true, false] {
                for (field, value) in [
                    ("ecn", Value::Flag(true)),
                    ("timestamps", Value::Flag(false)),
                    ("limited_transmit", Value::Flag(false)),
                    ("rescue", Value::Flag(true)),
                    ("frto", Value::Name("basic".into())),
                    ("frto", Value::Name("sack".into())),
                    ("frto_response", Value::Name("halve".into())),
                    ("pipe", Value::Name("counter".into())),
                    ("reordering_limit", Value::Number(300.0)),
                    ("pacing", Value::Flag(true)),
                    ("burst_autosize", Value::Flag(true)),
                    ("burst_segments", Value::Number(8.0)),
                    ("impatient", Value::Flag(true)),
                    ("reassembly_limit", Value::Number(3.0)),
                    ("prr_bound", Value::Name("slow-start".into())),
                ] {
                    let mut stack = Stack::named("linux", "").expect("a profile");
                    let mut set = |name: &str, value: Value| stack.set(name, &value, "").expect("a field");
                    set("detection", Value::Name(detection.into()));
                    set("reduction", Value::Name(reduction.into()));
                    set("sack", Value::Flag(sack));
                    set(field, value);
                    for pipe in PIPES {
                        deliver("linux", &stack, "reno", pipe, 7);
                    }
                }
            }
        }
    }
}

/// The network relies on this: an end woken before its timers are due does nothing.
#[test]
fn time_alone_changes_nothing_before_an_end_is_due() {
    for profile in profiles() {
        for cc in ["cubic", "bbr"] {
            for (number, pipe) in PIPES.into_iter().enumerate() {
                let mut pair = Pair::new(&profile.stack, profile.name, cc, number as u64);
                pair.are_restless = true;
                pair.run(pipe, number as u64, 30_500);
            }
        }
    }
}
