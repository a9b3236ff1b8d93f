//! A medium that stations contend for: carrier sense, backoff by slots, collisions, retries.
//!
//! Law: when the medium falls silent, stations with something to send wait a gap and then count slots. Whoever has
//! counted its backoff down sends; the others keep what is left of theirs. Stations that reach zero in the same slot
//! collide. A backoff is uniform in 0..=CW; CW grows with every failure and starts anew after a success. A station
//! that has lost the race may in addition widen its window unasked (the deferral counter of HomePlug AV).
//!
//! A station is a node: the links of one channel that leave the same node share its transmitter and take turns. The
//! links keep their queues, counts and delays; the channel moves packets from the queue to the air and from there
//! onto the link's own pipe. It acts at due times like a link, and the engine arms one wake for all its links.
//!
//! Source: IEEE 802.11-2012 section 9.3 (DCF); IEEE 1901-2010 section 14 as modelled by Vlachou, Banchs, Herzen and
//! Thiran, "On the MAC for power-line communications", ICNP 2014; Bianchi, IEEE JSAC 18(3) (2000), and Bianchi and
//! Tinnirello, IEEE Communications Letters 14(7) (2010), for what the counting of slots should give.
//!
//! Differs from the source:
//! - All stations hear each other: no hidden stations, no capture.
//! - A failed exchange keeps everybody away for the same gap, sender included.

use std::collections::VecDeque;

use super::registry::{self, Shared};
use crate::link::{Host, Link, Watch};
use crate::packet::Packet;
use crate::queue::{Backlog, Fate, QueueDiscipline};
use crate::rng::Stream;
use crate::scenario::{LinkSpec, ScenarioError};
use crate::time::{Bytes, Duration, Rate, Time};

/// What every station of a channel must agree on.
#[derive(Clone, PartialEq, Debug)]
pub struct Rules {
    /// Length of a slot.
    pub slot: Duration,
    /// From the end of an exchange to the first slot,
    pub gap: Duration,
    /// and from the end of data that nobody acknowledged.
    pub gap_failed: Duration,
    /// Contention windows by number of failures; the last one stays.
    pub windows: Vec<u32>,
    /// How often a station may lose the race at each stage before it moves to the next; empty: always.
    pub deferrals: Vec<u32>,
    /// A station that has counted down while it had nothing to send may send at once.
    pub is_immediate: bool,
    /// The slot in which somebody else begins counts as passed.
    pub counts_busy: bool,
    /// Period of the beacon, and how long nobody may send at the start of each.
    pub beacon: Option<(Duration, Duration)>,
}

/// A packet in the air: being sent for the first or a later time, or waiting for one before it.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The packet.
    pub packet: Packet,
    /// Units (whole frames, or blocks) that the receiver does not have yet.
    pub left: u32,
    /// Transmissions so far.
    pub tries: u32,
}

/// How long the medium is taken.
#[derive(Clone, Copy, Debug)]
pub struct Air {
    /// Until the last bit of data,
    pub data: Duration,
    /// until the end of its acknowledgement,
    pub exchange: Duration,
    /// and until a collision is over.
    pub collision: Duration,
}

/// How one link uses the medium.
pub trait Access {
    /// What the stations must agree on.
    fn rules(&self) -> Rules;
    /// If the link may begin nothing at `at`: when it may again. Asked in order of time.
    fn silent_until(&mut self, _at: Time) -> Option<Time> {
        None
    }
    /// An aggregate is about to be put together.
    fn begin(&mut self) {}
    /// May one more packet, as large as any so far, join `frames`?
    fn has_room(&self, frames: &[Frame]) -> bool;
    /// Units that `packet` adds to the aggregate.
    fn units_of(&mut self, packet: &Packet) -> u32;
    /// How long sending what is left of `frames` takes.
    fn air(&self, frames: &[Frame]) -> Air;
    /// Take from `left` what the receiver gets of one transmission without collision. True if it acknowledges.
    fn receive(&mut self, frames: &mut [Frame]) -> bool;
    /// One transmission is over.
    fn learn(&mut self, _is_success: bool) {}
    /// The rate it has alone, on average.
    fn nominal(&self) -> Rate;
    /// Transmissions after which a frame is given up.
    fn most_tries(&self) -> u32;
}

/// A link's place at a channel.
#[derive(Clone, Debug)]
pub struct Outlet {
    access: Shared,
    frames: VecDeque<Frame>,
    bytes: Bytes,
    /// Numbers of its channel, and of its station there.
    pub channel: u32,
    station: u32,
}

impl Outlet {
    /// The outlet of link number `index`, if its medium is shared.
    pub fn build(spec: &LinkSpec, index: usize, seed: u64) -> Result<Option<Self>, ScenarioError> {
        let Some(medium) = &spec.medium else { return Ok(None) };
        let access = registry::shared(medium, &spec.name, index, seed)?;
        if access.is_some() && spec.queue.discipline == "token_bucket" {
            return Err(ScenarioError {
                field: format!("links[{index}].queue.discipline"),
                value: format!("\"{}\"", spec.queue.discipline),
                problem: "a shaper cannot hold back packets for which the medium is won".into(),
                fix: "Put the shaper on a link of its own before this one".into(),
            });
        }
        let outlet = |access| Outlet { access, frames: VecDeque::new(), bytes: 0, channel: 0, station: 0 };
        Ok(access.map(outlet))
    }

    /// What is in the air.
    pub fn in_air(&self) -> Backlog {
        Backlog { packets: self.frames.len() as u32, bytes: self.bytes }
    }

    /// As [`Access::nominal`].
    pub fn nominal(&self) -> Rate {
        self.access.nominal()
    }
}

/// A transmitter.
#[derive(Clone, Debug)]
struct Station {
    name: String,
    /// Its links, and whose turn it is.
    links: Vec<u32>,
    turn: usize,
    /// Slots after the gap at which it may send.
    backoff: u64,
    stage: usize,
    deferral: u32,
    /// It has something to send.
    is_ready: bool,
    /// What it has may not begin before this.
    stalled_until: Time,
    stream: Stream,
}

/// A transmission under way.
#[derive(Clone, Copy, Debug)]
struct Sender {
    station: usize,
    link: u32,
    air: Air,
}

/// A shared medium.
#[derive(Clone, Debug)]
pub struct Channel {
    links: Vec<u32>,
    stations: Vec<Station>,
    rules: Rules,
    /// The first slot since the medium fell silent.
    counting_from: Time,
    on_air: Vec<Sender>,
    began: Time,
    /// When a transmission ends, or the next begins.
    step: Time,
}

/// The channels of a network; the links are given their numbers.
pub fn build(specs: &[LinkSpec], links: &mut [Link], seed: u64) -> Result<Vec<Channel>, ScenarioError> {
    let mut channels: Vec<Channel> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (number, spec) in specs.iter().enumerate() {
        let Some(outlet) = &mut links[number].outlet else { continue };
        let name = spec.medium.as_ref().and_then(|medium| medium.channel.as_deref()).unwrap_or(&spec.name);
        let rules = outlet.access.rules();
        let place = match names.iter().position(|known| *known == name) {
            Some(place) => place,
            None => {
                names.push(name);
                channels.push(Channel::new(rules.clone()));
                channels.len() - 1
            }
        };
        let channel = &mut channels[place];
        if channel.rules != rules {
            return Err(ScenarioError {
                field: format!("links[{number}].medium.channel"),
                value: format!("\"{name}\""),
                problem: "links that share a channel must agree on its timing".into(),
                fix:
                    "Give them the same medium with the same slots, gaps, windows and beacon, or two channels"
                        .into(),
            });
        }
        outlet.channel = place as u32;
        outlet.station = channel.join(&spec.from, number as u32, name, seed);
    }
    Ok(channels)
}

impl Channel {
    fn new(rules: Rules) -> Self {
        let counting_from =
            Time::ZERO + rules.beacon.map_or(Duration::ZERO, |(_, length)| length) + rules.gap;
        Channel {
            links: Vec::new(),
            stations: Vec::new(),
            rules,
            counting_from,
            on_air: Vec::new(),
            began: Time::ZERO,
            step: Time::NEVER,
        }
    }

    fn join(&mut self, node: &str, link: u32, channel: &str, seed: u64) -> u32 {
        self.links.push(link);
        if let Some(place) = self.stations.iter().position(|station| station.name == node) {
            self.stations[place].links.push(link);
            return place as u32;
        }
        self.stations.push(Station {
            name: node.into(),
            links: vec![link],
            turn: 0,
            backoff: 0,
            stage: 0,
            deferral: self.rules.deferrals.first().copied().unwrap_or(0),
            is_ready: false,
            stalled_until: Time::NEVER,
            stream: Stream::named(seed, &format!("channel/{channel}/station/{node}/backoff")),
        });
        (self.stations.len() - 1) as u32
    }

    /// The link whose element in the schedule stands for the channel.
    pub fn element(&self) -> u32 {
        self.links[0]
    }

    /// As [`Link::push`], for link number `link`.
    pub fn push(
        &mut self,
        links: &mut [Link],
        link: u32,
        mut packet: Packet,
        now: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) {
        self.catch_up(links, now, fate, watch);
        watch.turn_to(link);
        let it = &mut links[link as usize];
        it.count.arrived += 1;
        it.count.arrived_bytes += Bytes::from(packet.bytes);
        packet.enqueued = now;
        it.enqueue(packet, now, fate, watch);
        it.note_backlog(now);
        it.check();
        let station = it.outlet.as_ref().expect("pushed to its channel").station as usize;
        if !self.stations[station].is_ready && it.queue.backlog().packets > 0 {
            self.get_ready(station, now);
            self.plan();
        }
    }

    /// As [`Link::advance`], for all links.
    pub fn advance(&mut self, links: &mut [Link], now: Time, fate: &mut Fate, host: &mut impl Host) {
        self.catch_up(links, now, fate, host);
        for &link in &self.links {
            let it = &mut links[link as usize];
            if it.next_arrival() <= now {
                host.turn_to(link);
                it.hand_over(now, host);
                it.check();
            }
        }
    }

    /// As [`Link::settle`], for all links.
    pub fn settle(&mut self, links: &mut [Link], now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        self.catch_up(links, now, fate, watch);
    }

    /// As [`Link::next_wake`], for all links.
    pub fn next_wake(&self, links: &[Link]) -> Time {
        self.links.iter().map(|link| links[*link as usize].next_arrival()).fold(self.step, Time::min)
    }

    fn catch_up(&mut self, links: &mut [Link], now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        while self.step <= now {
            let at = self.step;
            if self.on_air.is_empty() {
                self.transmit(links, at, fate, watch);
            } else {
                self.finish(links, at, fate, watch);
            }
        }
        for &link in &self.links {
            let it = &mut links[link as usize];
            assert!(it.now <= now, "link {}: time ran back from {:?} to {now:?}", it.name(), it.now);
            it.now = now;
        }
    }

    /// A station that had nothing to send has something from `now` on.
    fn get_ready(&mut self, number: usize, now: Time) {
        let is_silent = self.on_air.is_empty() && now >= self.counting_from;
        let passed = if is_silent {
            now.since(self.counting_from).as_ps().div_ceil(self.rules.slot.as_ps())
        } else {
            0
        };
        let station = &mut self.stations[number];
        station.is_ready = true;
        if !self.rules.is_immediate {
            station.draw(&self.rules, passed);
        } else if is_silent {
            station.backoff = station.backoff.max(passed);
        } else if station.backoff == 0 {
            station.draw(&self.rules, 0);
        }
    }

    /// When the next transmission begins, the medium being silent.
    fn plan(&mut self) {
        if !self.on_air.is_empty() {
            return;
        }
        let ready = self.stations.iter().filter(|station| station.is_ready);
        let first = ready.map(|station| station.backoff).min();
        let first = first.map_or(Time::NEVER, |slots| self.counting_from + self.rules.slot * slots);
        self.step = self.stations.iter().map(|station| station.stalled_until).fold(first, Time::min);
    }

    /// Stations whose stall is over by `at` contend again.
    fn end_stalls(&mut self, at: Time) {
        for number in 0..self.stations.len() {
            let station = &mut self.stations[number];
            if station.stalled_until <= at {
                station.stalled_until = Time::NEVER;
                if !station.is_ready {
                    self.get_ready(number, at);
                }
            }
        }
    }

    /// The slot at `at` belongs to whoever has counted down to it.
    fn transmit(&mut self, links: &mut [Link], at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        self.end_stalls(at);
        if at < self.counting_from {
            return self.plan();
        }
        let slot = at.since(self.counting_from).as_ps() / self.rules.slot.as_ps();
        let mut senders = Vec::new();
        for number in 0..self.stations.len() {
            if self.stations[number].is_ready && self.stations[number].backoff == slot {
                match self.load(number, links, at, fate, watch) {
                    Some(sender) => senders.push(sender),
                    // Its queue has dropped everything, or what it has may not begin.
                    None => self.stations[number].is_ready = false,
                }
            }
        }
        let longest = senders.iter().map(|sender| sender.air.exchange).max().unwrap_or(Duration::ZERO);
        if let Some(silence) = self.beacon_within(at, longest) {
            for station in &mut self.stations {
                station.backoff = station.backoff.saturating_sub(slot);
            }
            self.counting_from = silence + self.rules.gap;
            return self.plan();
        }
        if senders.is_empty() {
            return self.plan();
        }
        for number in 0..self.stations.len() {
            if !senders.iter().any(|sender| sender.station == number) {
                self.stations[number].lose_race(slot, &self.rules);
            }
        }
        let lasts = match senders.as_slice() {
            [alone] => alone.air.data,
            _ => senders.iter().map(|sender| sender.air.collision).max().expect("several"),
        };
        (self.on_air, self.began, self.step) = (senders, at, at + lasts);
    }

    /// The end of the beacon's silence, if an exchange of this length begun at `at` would run into it.
    fn beacon_within(&self, at: Time, length: Duration) -> Option<Time> {
        let (period, silence) = self.rules.beacon?;
        let started = at.as_ps() / period.as_ps();
        let within = Time::from_ps(started * period.as_ps()) + silence;
        if at < within {
            return Some(within);
        }
        let next = Time::from_ps((started + 1) * period.as_ps());
        (at + length > next).then(|| next + silence)
    }

    /// Fill the air of the station whose turn it is; `None` if it has nothing after all.
    fn load(
        &mut self,
        number: usize,
        links: &mut [Link],
        at: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) -> Option<Sender> {
        let station = &mut self.stations[number];
        for _ in 0..station.links.len() {
            let link = station.links[station.turn];
            watch.turn_to(link);
            let it = &mut links[link as usize];
            if let Some(until) = it.stalled_until(at) {
                station.stalled_until = station.stalled_until.min(until);
                station.turn = (station.turn + 1) % station.links.len();
                continue;
            }
            it.fill_air(at, fate, watch);
            let outlet = it.outlet.as_mut().expect("on a channel");
            if !outlet.frames.is_empty() {
                let air = outlet.access.air(outlet.frames.make_contiguous());
                return Some(Sender { station: number, link, air });
            }
            station.turn = (station.turn + 1) % station.links.len();
        }
        None
    }

    /// The data of the transmission under way has ended at `at`.
    fn finish(&mut self, links: &mut [Link], at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        let senders = std::mem::take(&mut self.on_air);
        let is_alone = senders.len() == 1;
        let mut is_acknowledged = false;
        for sender in &senders {
            watch.turn_to(sender.link);
            let it = &mut links[sender.link as usize];
            it.busy += at.since(self.began);
            let outlet = it.outlet.as_mut().expect("on a channel");
            let frames = outlet.frames.make_contiguous();
            for frame in frames.iter_mut().filter(|frame| frame.left > 0) {
                frame.tries += 1;
            }
            let is_success = is_alone && outlet.access.receive(frames);
            is_acknowledged |= is_success;
            outlet.access.learn(is_success);
            let has_given_up = it.empty_air(at, fate, watch);
            it.check();
            let station = &mut self.stations[sender.station];
            station.stage = if is_success || has_given_up { 0 } else { station.stage + 1 };
            station.stage = station.stage.min(self.rules.windows.len() - 1);
            station.draw(&self.rules, 0);
            station.turn = (station.turn + 1) % station.links.len();
            station.is_ready = station.links.iter().any(|link| links[*link as usize].has_something());
        }
        self.counting_from = if is_acknowledged {
            let air = senders[0].air;
            at + air.exchange.saturating_sub(air.data) + self.rules.gap
        } else {
            at + self.rules.gap_failed
        };
        self.end_stalls(at);
        self.plan();
    }
}

impl Station {
    /// A new backoff of this stage's window, counted from slot `from`.
    fn draw(&mut self, rules: &Rules, from: u64) {
        self.backoff = from + self.stream.below(u64::from(rules.windows[self.stage]) + 1);
        self.deferral = rules.deferrals.get(self.stage).copied().unwrap_or(0);
    }

    /// Somebody else began in this slot.
    fn lose_race(&mut self, slot: u64, rules: &Rules) {
        self.backoff = self.backoff.saturating_sub(slot + u64::from(rules.counts_busy));
        if !self.is_ready || rules.deferrals.is_empty() {
            return;
        }
        if self.deferral == 0 {
            self.stage = (self.stage + 1).min(rules.windows.len() - 1);
            self.draw(rules, 0);
        } else {
            self.deferral -= 1;
        }
    }
}

impl Link {
    /// Is anything in its queue or in the air?
    fn has_something(&self) -> bool {
        self.queue.backlog().packets > 0
            || self.outlet.as_ref().is_some_and(|outlet| !outlet.frames.is_empty())
    }

    /// If what it has may not begin at `at`: when it may.
    fn stalled_until(&mut self, at: Time) -> Option<Time> {
        if !self.has_something() {
            return None;
        }
        self.outlet.as_mut()?.access.silent_until(at)
    }

    /// Move packets from the queue into the air as far as the aggregate takes them.
    fn fill_air(&mut self, at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        let Some(mut outlet) = self.outlet.take() else { return };
        outlet.access.begin();
        while outlet.access.has_room(outlet.frames.make_contiguous()) {
            let Some(packet) = self.take(at, fate, watch) else { break };
            outlet.bytes += Bytes::from(packet.bytes);
            let left = outlet.access.units_of(&packet);
            outlet.frames.push_back(Frame { packet, left, tries: 0 });
        }
        self.queue.on_service(outlet.bytes as u32);
        self.outlet = Some(outlet);
        self.note_backlog(at);
    }

    /// Let go of what has been received or given up, in order. True if anything was given up.
    fn empty_air(&mut self, at: Time, fate: &mut Fate, watch: &mut impl Watch) -> bool {
        let mut outlet = self.outlet.take().expect("on a channel");
        let most = outlet.access.most_tries();
        let mut gone = Vec::new();
        let mut kept = VecDeque::with_capacity(outlet.frames.len());
        for frame in outlet.frames.drain(..) {
            if frame.left > 0 && frame.tries >= most {
                gone.push(frame.packet);
            } else {
                kept.push_back(frame);
            }
        }
        let mut received = Vec::new();
        while kept.front().is_some_and(|frame| frame.left == 0) {
            received.extend(kept.pop_front().map(|frame| frame.packet));
        }
        for packet in received.iter().chain(&gone) {
            outlet.bytes -= Bytes::from(packet.bytes);
        }
        outlet.frames = kept;
        self.queue.on_service(outlet.bytes as u32);
        self.outlet = Some(outlet);
        let has_given_up = !gone.is_empty();
        for packet in received {
            self.depart(packet, at, fate, watch);
        }
        for packet in gone {
            self.lose(packet, at, fate, watch);
        }
        has_given_up
    }
}
