//! Links, packets and a recording host, for tests of links and queues.

use tailback_core::link::{Host, Link, Watch};
use tailback_core::packet::{Ecn, FlowId, Packet};
use tailback_core::queue::{Backlog, DropReason, Fate};
use tailback_core::scenario::{AppSpec, FlowSpec, IpVersion, LinkSpec, Params, QueueSpec, Value, WireSpec};
use tailback_core::time::{Duration, Time};

/// A link of 10 Mbit/s without delay, limit or impairment.
pub fn plain() -> LinkSpec {
    LinkSpec {
        name: "down".into(),
        from: "a".into(),
        to: "b".into(),
        rate_bps: Some(10_000_000),
        delay_ps: 0,
        tick_hz: None,
        queue: QueueSpec::unlimited(),
        wire: WireSpec::default(),
        ..LinkSpec::default()
    }
}

pub fn build(spec: &LinkSpec) -> Link {
    Link::build(spec, 0, 1).expect("a valid link")
}

pub fn queue(discipline: &str, params: &[(&str, Value)]) -> QueueSpec {
    let params: Params = params.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
    QueueSpec { discipline: discipline.into(), params, ..Default::default() }
}

pub fn number(value: f64) -> Value {
    Value::Number(value)
}

pub fn name(value: &str) -> Value {
    Value::Name(value.into())
}

pub fn packet(slot: u32, flow: u32, bytes: u32) -> Packet {
    Packet {
        slot,
        flow: FlowId(flow),
        bytes,
        ecn: Ecn::NotEct,
        hop: 0,
        is_reverse: false,
        conversation: 0,
        enqueued: Time::ZERO,
    }
}

/// A flow with only a name, for queues that select flows by name.
pub fn flow(name: &str) -> FlowSpec {
    FlowSpec {
        name: name.into(),
        from: "a".into(),
        to: "b".into(),
        route: vec!["down".into()],
        back_route: vec![],
        start_ps: 0,
        stop_ps: None,
        again: vec![],
        app: AppSpec { kind: "udp-cbr".into(), params: Params::new() },
        tcp: None,
        ip: IpVersion::V4,
    }
}

pub fn ms(t: u64) -> Time {
    Time::from_ms(t)
}

/// An event of a queue, as a watcher saw it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    Enqueue,
    Dequeue,
    Drop(DropReason),
    Mark,
}

/// Records arrivals and queue events.
#[derive(Default)]
pub struct Notebook {
    pub arrivals: Vec<(Time, u32)>,
    pub events: Vec<(Time, Event, u32, Backlog)>,
    pub copies: u32,
}

impl Watch for Notebook {
    fn on_enqueue(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        self.events.push((at, Event::Enqueue, packet.slot, backlog));
    }
    fn on_dequeue(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        self.events.push((at, Event::Dequeue, packet.slot, backlog));
    }
    fn on_drop(&mut self, at: Time, packet: &Packet, backlog: Backlog, reason: DropReason) {
        self.events.push((at, Event::Drop(reason), packet.slot, backlog));
    }
    fn on_mark(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        self.events.push((at, Event::Mark, packet.slot, backlog));
    }
}

impl Host for Notebook {
    fn deliver(&mut self, due: Time, packet: Packet) {
        self.arrivals.push((due, packet.slot));
    }
    fn duplicate(&mut self, packet: &Packet) -> Packet {
        self.copies += 1;
        Packet { slot: 1_000_000 + self.copies, ..*packet }
    }
}

/// Pushes all packets at their times, advances whenever the link asks for it, and then empties the link.
pub fn run(link: &mut Link, arrivals: &[(Time, Packet)]) -> (Notebook, Fate) {
    let (mut book, mut fate) = (Notebook::default(), Fate::default());
    let wake = |link: &mut Link, until: Time, book: &mut Notebook, fate: &mut Fate| {
        while link.next_wake() <= until && link.next_wake() != Time::NEVER {
            link.advance(link.next_wake(), fate, book);
        }
    };
    for &(at, packet) in arrivals {
        wake(link, at, &mut book, &mut fate);
        link.push(packet, at, &mut fate, &mut book);
    }
    wake(link, Time::NEVER, &mut book, &mut fate);
    (book, fate)
}

pub fn delivered(spec: &LinkSpec, arrivals: &[(Time, Packet)]) -> Vec<(Time, u32)> {
    run(&mut build(spec), arrivals).0.arrivals
}

/// Advances only at the end: the latest possible host.
pub fn run_late(link: &mut Link, arrivals: &[(Time, Packet)], end: Time) -> (Notebook, Fate) {
    let (mut book, mut fate) = (Notebook::default(), Fate::default());
    for &(at, packet) in arrivals {
        link.push(packet, at, &mut fate, &mut book);
    }
    link.advance(end, &mut fate, &mut book);
    (book, fate)
}

/// Advances at every departure and in between: the most eager host.
pub fn run_restless(link: &mut Link, arrivals: &[(Time, Packet)], end: Time) -> (Notebook, Fate) {
    let (mut book, mut fate) = (Notebook::default(), Fate::default());
    let mut now = Time::ZERO;
    let step = Duration::from_us(173);
    for &(at, packet) in arrivals {
        while now + step < at {
            now += step;
            link.advance(now, &mut fate, &mut book);
        }
        now = at;
        link.advance(now, &mut fate, &mut book);
        link.push(packet, at, &mut fate, &mut book);
    }
    while now < end {
        now = (now + step).min(end);
        link.advance(now, &mut fate, &mut book);
    }
    (book, fate)
}
