//! A small correct stack, and faults that it can have.
#![allow(missing_docs, dead_code, reason = "each test program uses a part")]

use std::hash::{BuildHasher, Hasher, RandomState};
use std::thread;
use std::time::Instant;

use tailback_bench::{Duration, Ecn, Endpoint, Flight, Progress, Setup, Stack, State, Time};

const DATA: u64 = 1_000;
const WINDOW: u64 = 100;
const RTO: Duration = Duration::from_ms(300);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    Nothing,
    Panics,
    NeverAnswers,
    SaysNothing,
    WaitsForever,
    ReadsTheClock,
    DrawsNumbers,
    IgnoresItsWindow,
}

/// Go-back-N with a window of a hundred packets. A datagram is a letter (h for hello, d for data, e for the end, a for
/// an acknowledgement), a number, and data.
#[derive(Debug)]
pub struct Window(pub Fault);

#[derive(Debug)]
struct End {
    fault: Fault,
    began: Instant,
    hello: Option<Time>,
    written: u64,
    end: Option<u64>,
    sent: u64,
    acked: u64,
    expected: u64,
    unread: u64,
    acks: u64,
    timer: Time,
    progress: Progress,
    state: State,
}

impl Stack for Window {
    fn version(&self) -> &str {
        "0.1.0"
    }
    fn algorithms(&self) -> &[&'static str] {
        &["fixed"]
    }
    fn least_mtu(&self) -> u32 {
        1_100
    }
    fn connect(&self, setup: &Setup<'_>) -> [Box<dyn Endpoint>; 2] {
        [Some(setup.now), None].map(|hello| -> Box<dyn Endpoint> {
            let (timer, began) = (hello.unwrap_or(Time::NEVER), Instant::now());
            let (progress, state) = (Progress::default(), State::default());
            Box::new(End {
                fault: self.0,
                began,
                hello,
                written: 0,
                end: None,
                sent: 0,
                acked: 0,
                expected: 0,
                unread: 0,
                acks: 0,
                timer,
                progress,
                state,
            })
        })
    }
}

impl End {
    fn is_late(&self, now: Time, fault: Fault) -> bool {
        self.fault == fault && now >= Time::from_ms(500)
    }
    fn window(&self) -> u64 {
        self.acked + if self.fault == Fault::IgnoresItsWindow { 2 * WINDOW } else { WINDOW }
    }
}

impl Endpoint for End {
    fn on_datagram(&mut self, now: Time, datagram: &[u8], _ecn: Ecn) {
        assert!(!self.is_late(now, Fault::Panics), "attempt to subtract with overflow");
        while self.is_late(now, Fault::NeverAnswers) {
            thread::park();
        }
        if self.fault == Fault::SaysNothing {
            return;
        }
        self.progress.is_established = true;
        let number = u64::from_le_bytes(datagram[1..9].try_into().expect("eight bytes"));
        if datagram[0] != b'a' {
            self.acks += 1;
            if datagram[0] != b'h' && number == self.expected {
                self.expected += 1;
                self.unread += datagram.len() as u64 - 9;
                self.progress.peer_finished |= datagram[0] == b'e';
            }
        } else {
            self.hello = None;
            if number > self.acked {
                self.acked = number;
                self.sent = self.sent.max(number);
                self.timer = now + RTO;
            }
            if self.acked == self.sent {
                self.timer = Time::NEVER;
            }
            self.progress.is_acknowledged = self.end == Some(self.acked);
        }
        self.progress.is_closed = self.progress.peer_finished && self.progress.is_acknowledged;
    }
    fn poll_transmit(&mut self, now: Time, datagram: &mut Vec<u8>) -> Option<Ecn> {
        if self.is_late(now, Fault::WaitsForever) {
            self.timer = Time::NEVER;
            return None;
        }
        let limit = self.end.unwrap_or(self.written / DATA);
        let (kind, number) = if self.acks > 0 {
            self.acks -= 1;
            (b'a', self.expected)
        } else if self.hello.is_some_and(|at| at <= now) {
            self.hello = Some(now + RTO);
            self.timer = now + RTO;
            (b'h', 0)
        } else if self.progress.is_established && self.sent < limit.min(self.window()) {
            self.sent += 1;
            self.timer = now + RTO;
            self.state.packets_sent += 1;
            (if Some(self.sent) == self.end { b'e' } else { b'd' }, self.sent - 1)
        } else {
            return None;
        };
        datagram.push(kind);
        datagram.extend(number.to_le_bytes());
        let left = self.written.saturating_sub(number * DATA).min(DATA);
        datagram.resize(9 + if kind == b'd' { left as usize } else { 0 }, 0);
        if kind == b'd' && self.is_late(now, Fault::DrawsNumbers) {
            datagram[10] = RandomState::new().build_hasher().finish() as u8;
        }
        Some(Ecn::NotEct)
    }
    fn next_timeout(&mut self) -> Time {
        if self.fault == Fault::ReadsTheClock && self.timer != Time::NEVER {
            return self.timer + Duration::from_ns(self.began.elapsed().as_nanos() as u64);
        }
        self.timer
    }
    fn on_timeout(&mut self, _now: Time) {
        self.state.packets_lost += self.sent - self.acked;
        self.sent = self.acked;
        self.timer = Time::NEVER;
    }
    fn write(&mut self, most: u64) -> u64 {
        let room = ((self.acked + 2 * WINDOW) * DATA).saturating_sub(self.written).min(most);
        self.written += room;
        room
    }
    fn finish(&mut self) {
        self.end = Some(self.written.div_ceil(DATA) + 1);
    }
    fn read(&mut self, _now: Time) -> u64 {
        std::mem::take(&mut self.unread)
    }
    fn close(&mut self, _now: Time) {
        self.progress.is_closed = true;
    }
    fn progress(&mut self) -> Progress {
        self.progress
    }
    fn flight(&mut self) -> Flight {
        Flight { cwnd: WINDOW * DATA, in_flight: (self.sent - self.acked) * DATA }
    }
    fn state(&mut self) -> State {
        State { cwnd: WINDOW * DATA, in_flight: (self.sent - self.acked) * DATA, ..self.state }
    }
}
