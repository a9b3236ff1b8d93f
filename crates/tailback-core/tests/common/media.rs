//! Links with a medium and a host that records arrivals, for tests of media.

use tailback_core::link::channel::{self, Channel};
use tailback_core::link::{Host, Link, Watch};
use tailback_core::packet::{Ecn, FlowId, Packet};
use tailback_core::queue::{Backlog, DropReason, Fate};
use tailback_core::scenario::{LinkSpec, MediumSpec, Params, Value};
use tailback_core::time::Time;

pub fn number(value: f64) -> Value {
    Value::Number(value)
}

pub fn name(value: &str) -> Value {
    Value::Name(value.into())
}

pub fn medium(which: &str, params: &[(&str, Value)]) -> Option<MediumSpec> {
    let params: Params = params.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
    Some(MediumSpec { name: which.into(), params, channel: None, flow: None })
}

pub fn link(medium: Option<MediumSpec>) -> LinkSpec {
    LinkSpec { name: "down".into(), from: "a".into(), to: "b".into(), medium, ..LinkSpec::default() }
}

pub fn build(spec: &LinkSpec) -> Link {
    Link::build(spec, 0, 1).expect("a valid link")
}

pub fn packet(slot: u32, bytes: u32) -> Packet {
    Packet {
        slot,
        flow: FlowId(0),
        bytes,
        ecn: Ecn::NotEct,
        hop: 0,
        is_reverse: false,
        conversation: 0,
        enqueued: Time::ZERO,
    }
}

/// Records arrivals with their links.
#[derive(Default)]
pub struct Notebook {
    pub link: u32,
    pub arrivals: Vec<(Time, u32, u32)>,
    pub dropped: u32,
}

impl Watch for Notebook {
    fn turn_to(&mut self, link: u32) {
        self.link = link;
    }
    fn on_drop(&mut self, _at: Time, _packet: &Packet, _backlog: Backlog, reason: DropReason) {
        assert_eq!(reason, DropReason::Wire, "no queue here has a limit");
        self.dropped += 1;
    }
}

impl Host for Notebook {
    fn deliver(&mut self, due: Time, packet: Packet) {
        self.arrivals.push((due, packet.slot, self.link));
    }
    fn duplicate(&mut self, packet: &Packet) -> Packet {
        *packet
    }
}

/// Arrival times of packets pushed at the given times, with the link woken when it asks for it.
pub fn arrivals(spec: &LinkSpec, pushes: &[(Time, u32)]) -> Vec<Time> {
    let mut link = build(spec);
    let (mut book, mut fate) = (Notebook::default(), Fate::default());
    for (slot, &(at, bytes)) in pushes.iter().enumerate() {
        while link.next_wake() <= at {
            link.advance(link.next_wake(), &mut fate, &mut book);
        }
        link.push(packet(slot as u32, bytes), at, &mut fate, &mut book);
    }
    while link.next_wake() != Time::NEVER {
        link.advance(link.next_wake(), &mut fate, &mut book);
    }
    assert!(book.arrivals.windows(2).all(|pair| pair[0].1 < pair[1].1), "order is kept");
    book.arrivals.iter().map(|(due, ..)| *due).collect()
}

pub fn back_to_back(n: usize, bytes: u32) -> Vec<(Time, u32)> {
    vec![(Time::ZERO, bytes); n]
}

/// Throughput in Mbit/s of links of one channel that always have 100 packets waiting, and all arrivals.
pub fn saturate(specs: &[LinkSpec], bytes: u32, seconds: u64) -> (Vec<f64>, Notebook) {
    let n = specs.len();
    let mut links: Vec<Link> =
        specs.iter().enumerate().map(|(index, spec)| Link::build(spec, index, 1).unwrap()).collect();
    let mut channels = channel::build(specs, &mut links, 1).unwrap();
    assert_eq!(channels.len(), 1);
    let channel: &mut Channel = &mut channels[0];
    let (mut book, mut fate) = (Notebook::default(), Fate::default());
    let end = Time::from_ms(1000 * seconds);
    for station in 0..n as u32 {
        for slot in 0..100 {
            let packet = Packet { flow: FlowId(station), ..packet(slot, bytes) };
            channel.push(&mut links, station, packet, Time::ZERO, &mut fate, &mut book);
        }
    }
    let mut seen = 0;
    loop {
        let at = channel.next_wake(&links);
        if at > end {
            break;
        }
        channel.advance(&mut links, at, &mut fate, &mut book);
        let mut refill: Vec<u32> = book.arrivals[seen..].iter().map(|(.., link)| *link).collect();
        seen = book.arrivals.len();
        refill.extend(fate.drops.drain(..).map(|(packet, _)| packet.flow.0));
        for station in refill {
            let packet = Packet { flow: FlowId(station), ..packet(0, bytes) };
            channel.push(&mut links, station, packet, at, &mut fate, &mut book);
        }
    }
    let mbps = (0..n as u32).map(|station| {
        let got = book.arrivals.iter().filter(|(.., link)| *link == station).count();
        got as f64 * f64::from(8 * bytes) / seconds as f64 / 1e6
    });
    (mbps.collect(), book)
}
