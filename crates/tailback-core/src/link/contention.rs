//! A medium for which stations contend: carrier sense, slotted backoff, collisions, retries.
//!
//! Law: when the medium becomes idle, backlogged stations wait for a gap and then count slots. A station whose backoff
//! reaches zero sends; the others keep their remaining backoff. Stations that reach zero in the same slot collide. A
//! backoff is uniform in 0..=CW; CW grows with every failure and is reset by a success. In addition, a station that
//! loses the race may widen its window (the deferral counter of HomePlug AV).
//!
//! A station is a node: links of one channel that leave the same node share its transmitter and take turns (`turns`),
//! unless their medium sets another order. A station of an EDCA medium waits additional slots for its access category.
//! Links keep their queues, counts and delays; the channel moves packets from the queue to the air and then into the
//! link's own pipe. It acts at due times like a link, and the engine arms one wake for all its links.
//!
//! Source: IEEE 802.11-2012 section 9.3 (DCF); IEEE 1901-2010 section 14 as modelled by Vlachou, Banchs, Herzen and
//! Thiran, "On the MAC for power-line communications", ICNP 2014. Expected results of slotted backoff: Bianchi, IEEE
//! JSAC 18(3) (2000); Bianchi and Tinnirello, IEEE Communications Letters 14(7) (2010).
//!
//! Differs from the source:
//! - All stations hear each other: there are no hidden stations and no capture.
//! - After a failed exchange all stations wait for the same gap, the sender included.

use super::api::{Host, Watch};
use super::serve::Serve;
use super::service::Link;
use super::turns::Turns;
use crate::medium::access::{Air, Order, Rules};
use crate::packet::Packet;
use crate::queue::registry::Queue;
use crate::queue::{DropReason, Fate, QueueDiscipline};
use crate::rng::Stream;
use crate::scenario::{LinkSpec, ScenarioError};
use crate::time::{Duration, Time};

/// A transmitter.
#[derive(Clone, Debug)]
struct Station {
    name: String,
    /// Its links, and the order in which they send.
    links: Vec<u32>,
    turns: Turns,
    /// Contention windows by number of failures, and the slots of its access category before each countdown.
    windows: Vec<u32>,
    wait: u64,
    /// Slot after the gap in which the station may send, including the slots of its access category.
    backoff: u64,
    stage: usize,
    deferral: u32,
    /// Whether the station contends: it has something to send.
    is_ready: bool,
    /// The station may not send before this time.
    stalled_until: Time,
    stream: Stream,
}

/// A current transmission.
#[derive(Clone, Copy, Debug)]
struct Sender {
    station: usize,
    link: u32,
    /// Position of the link in its station.
    place: usize,
    air: Air,
}

/// A medium for which stations contend.
#[derive(Clone, Debug)]
pub struct Contention {
    links: Vec<u32>,
    stations: Vec<Station>,
    rules: Rules,
    /// Time of the first slot since the medium became idle.
    counting_from: Time,
    on_air: Vec<Sender>,
    began: Time,
    /// When the current transmission ends, or the next one begins.
    step: Time,
}

impl Contention {
    /// A medium with these rules and no stations.
    pub fn new(rules: Rules) -> Self {
        let counting_from =
            Time::ZERO + rules.beacon.map_or(Duration::ZERO, |(_, length)| length) + rules.gap;
        Contention {
            links: Vec::new(),
            stations: Vec::new(),
            rules,
            counting_from,
            on_air: Vec::new(),
            began: Time::ZERO,
            step: Time::NEVER,
        }
    }

    /// Adds link number `number`, described by `spec`; `name` is the medium's.
    pub fn admit(
        &mut self,
        spec: &LinkSpec,
        number: usize,
        name: &str,
        seed: u64,
        link: &mut Link,
    ) -> Result<(), ScenarioError> {
        let refusal = |field: &str, value: String, problem: String, fix: &str| ScenarioError {
            field: format!("links[{number}].{field}"),
            value,
            problem,
            fix: fix.into(),
        };
        let queue_is_fifo = matches!(link.queue(), Queue::Fifo(_));
        let (_, outlet) = link.at_channel().expect("on a channel");
        let (rules, order) = (outlet.rules(), outlet.order());
        if !rules.agrees_with(&self.rules) {
            let problem = "links that share a channel must agree on its timing".into();
            let fix =
                "Give them the same medium with the same slots, gaps, windows and beacon, or two channels";
            return Err(refusal("medium.channel", format!("{name:?}"), problem, fix));
        }
        if matches!(order, Order::Fifo { .. }) && !queue_is_fifo {
            let problem = "order = \"fifo\" sends packets as they came, and only a fifo keeps them so".into();
            let fix = "Make the queue a fifo, or give the medium another order";
            return Err(refusal("queue.discipline", format!("{:?}", spec.queue.discipline), problem, fix));
        }
        let Some((station, place)) = self.join(&spec.from, number as u32, name, seed, order, &rules) else {
            let problem = format!(
                "links that leave {} share its transmitter, and this one is set otherwise",
                spec.from
            );
            let fix = "Give them the same order, quantum, rooms, aifsn and windows";
            return Err(refusal("medium.params", format!("{:?}", spec.name), problem, fix));
        };
        (outlet.station, outlet.place) = (station, place);
        outlet.has_driver = matches!(order, Order::Fifo { .. });
        Ok(())
    }

    /// The link's station and its position there; `None` if the station's other links have different settings.
    fn join(
        &mut self,
        node: &str,
        link: u32,
        channel: &str,
        seed: u64,
        order: Order,
        rules: &Rules,
    ) -> Option<(u32, u32)> {
        self.links.push(link);
        if let Some(number) = self.stations.iter().position(|station| station.name == node) {
            let station = &mut self.stations[number];
            if station.turns.order() != order
                || station.windows != rules.windows
                || station.wait != rules.wait
            {
                return None;
            }
            station.links.push(link);
            return Some((number as u32, station.turns.join() as u32));
        }
        let mut turns = Turns::new(order);
        let place = turns.join();
        self.stations.push(Station {
            name: node.into(),
            links: vec![link],
            turns,
            windows: rules.windows.clone(),
            wait: rules.wait,
            backoff: rules.wait,
            stage: 0,
            deferral: self.rules.deferrals.first().copied().unwrap_or(0),
            is_ready: false,
            stalled_until: Time::NEVER,
            stream: Stream::named(seed, &format!("channel/{channel}/station/{node}/backoff")),
        });
        Some(((self.stations.len() - 1) as u32, place as u32))
    }

    /// Finds for each link the link in the reverse direction.
    pub fn pair(&mut self, specs: &[LinkSpec], links: &mut [Link]) {
        for &link in &self.links {
            let here = &specs[link as usize];
            let is_way_back = |other: &&u32| {
                let other = &specs[**other as usize];
                other.from == here.to && other.to == here.from
            };
            let back = self.links.iter().find(is_way_back).map(|back| {
                let (_, outlet) = links[*back as usize].at_channel().expect("on a channel");
                (outlet.station, outlet.place)
            });
            links[link as usize].at_channel().expect("on a channel").1.way_back = back;
        }
    }

    /// The link whose element in the schedule represents the channel.
    pub fn element(&self) -> u32 {
        self.links[0]
    }

    /// As [`Link::push`], for link number `link`.
    pub fn push(
        &mut self,
        links: &mut [Link],
        link: u32,
        packet: Packet,
        now: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) {
        self.catch_up(links, now, fate, watch);
        watch.turn_to(link);
        let (_, outlet) = links[link as usize].at_channel().expect("pushed to its channel");
        let (station, place) = (outlet.station as usize, outlet.place as usize);
        if self.is_full(station, links) {
            return links[link as usize].refuse(packet, DropReason::Overlimit, now, fate, watch);
        }
        let it = &mut links[link as usize];
        it.push(packet, now, fate, watch);
        let (interface, _) = it.at_channel().expect("pushed to its channel");
        self.stations[station].turns.list(place);
        if !self.stations[station].is_ready && interface.queue.backlog().packets > 0 {
            self.get_ready(station, now);
            self.plan();
        }
    }

    /// As [`Link::advance`], for all links.
    pub fn advance(&mut self, links: &mut [Link], now: Time, fate: &mut Fate, host: &mut impl Host) {
        self.catch_up(links, now, fate, host);
        for &link in &self.links {
            let it = &mut links[link as usize];
            if it.next_wake() <= now {
                host.turn_to(link);
                it.advance(now, fate, host);
            }
        }
    }

    /// As [`Link::settle`], for all links.
    pub fn settle(&mut self, links: &mut [Link], now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        self.catch_up(links, now, fate, watch);
    }

    /// As [`Link::next_wake`], for all links.
    pub fn next_wake(&self, links: &[Link]) -> Time {
        self.links.iter().map(|link| links[*link as usize].next_wake()).fold(self.step, Time::min)
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
            links[link as usize].interface.turn_to(now);
        }
    }

    /// Whether the links of a station together hold as many packets as they may.
    fn is_full(&self, station: usize, links: &mut [Link]) -> bool {
        let station = &self.stations[station];
        let Order::Fifo { limit, .. } = station.turns.order() else { return false };
        let held: u32 = station.links.iter().map(|link| links[*link as usize].waiting()).sum();
        held >= limit
    }

    /// A station without packets has some from `now` on: starts its contention.
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
        } else if station.backoff <= station.wait {
            station.draw(&self.rules, 0);
        }
    }

    /// Schedules the next transmission, if the medium is idle.
    fn plan(&mut self) {
        if !self.on_air.is_empty() {
            return;
        }
        let ready = self.stations.iter().filter(|station| station.is_ready);
        let first = ready.map(|station| station.backoff).min();
        let first = first.map_or(Time::NEVER, |slots| self.counting_from + self.rules.slot * slots);
        self.step = self.stations.iter().map(|station| station.stalled_until).fold(first, Time::min);
    }

    /// Stations whose stall has ended by `at` contend again.
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

    /// Lets the stations send whose backoff ends in the slot at `at`.
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
                    // Its queue dropped everything, or its packets may not be sent yet.
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

    /// End of the beacon's silence, if an exchange of this length that begins at `at` would overlap it.
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

    /// Builds the transmission of a station; `None` if it has nothing to send after all.
    fn load(
        &mut self,
        number: usize,
        links: &mut [Link],
        at: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) -> Option<Sender> {
        self.fill_driver(number, links, at, fate, watch);
        let station = &mut self.stations[number];
        for _ in 0..station.turns.bound() {
            let place = station.turns.next()?;
            let link = station.links[place];
            watch.turn_to(link);
            let (interface, outlet) = links[link as usize].at_channel().expect("on a channel");
            if let Some(until) = outlet.stalled_until(interface, at) {
                station.stalled_until = station.stalled_until.min(until);
            } else if let Some(air) = outlet.fill_air(interface, at, fate, watch) {
                return Some(Sender { station: number, link, place, air });
            }
            let is_empty = !outlet.has_something(interface);
            station.turns.pass(is_empty);
        }
        None
    }

    /// Moves packets into the driver of a station that has one, in order of arrival.
    fn fill_driver(
        &self,
        number: usize,
        links: &mut [Link],
        at: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) {
        let station = &self.stations[number];
        let Order::Fifo { driver, .. } = station.turns.order() else { return };
        let mut held = 0;
        for link in &station.links {
            held += links[*link as usize].at_channel().expect("on a channel").1.between().packets;
        }
        while held < driver {
            let heads = station.links.iter().filter_map(|link| {
                let head = links[*link as usize].queue().head()?;
                Some((head.enqueued, *link))
            });
            let Some((_, link)) = heads.min() else { return };
            watch.turn_to(link);
            let (interface, outlet) = links[link as usize].at_channel().expect("on a channel");
            outlet.stage(interface, at, fate, watch);
            held += 1;
        }
    }

    /// The data of the current transmission ended at `at`: evaluates it, and begins the next contention.
    fn finish(&mut self, links: &mut [Link], at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        let senders = std::mem::take(&mut self.on_air);
        let is_alone = senders.len() == 1;
        let mut is_acknowledged = false;
        for sender in &senders {
            watch.turn_to(sender.link);
            let it = &mut links[sender.link as usize];
            let (interface, outlet) = it.at_channel().expect("on a channel");
            interface.busy += at.since(self.began);
            let is_success = outlet.finish_try(is_alone);
            is_acknowledged |= is_success;
            let airtime = if is_success { sender.air.exchange } else { at.since(self.began) };
            if let Some((station, place)) = outlet.way_back.filter(|_| is_success) {
                self.stations[station as usize].turns.charge(place as usize, airtime);
            }
            let has_given_up = outlet.empty_air(interface, at, fate, watch);
            it.check();
            let station = &mut self.stations[sender.station];
            station.stage = if is_success || has_given_up { 0 } else { station.stage + 1 };
            station.stage = station.stage.min(station.windows.len() - 1);
            station.draw(&self.rules, 0);
            station.turns.on_sent(sender.place, airtime);
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
    /// Draws a new backoff from the window of this stage, counted from slot `from`.
    fn draw(&mut self, rules: &Rules, from: u64) {
        self.backoff = from + self.wait + self.stream.below(u64::from(self.windows[self.stage]) + 1);
        self.deferral = rules.deferrals.get(self.stage).copied().unwrap_or(0);
    }

    /// Another station began to send in this slot: updates the backoff.
    fn lose_race(&mut self, slot: u64, rules: &Rules) {
        let counted = slot.saturating_sub(self.wait) + u64::from(rules.counts_busy);
        self.backoff = self.backoff.saturating_sub(counted).max(self.wait);
        if !self.is_ready || rules.deferrals.is_empty() {
            return;
        }
        if self.deferral == 0 {
            self.stage = (self.stage + 1).min(self.windows.len() - 1);
            self.draw(rules, 0);
        } else {
            self.deferral -= 1;
        }
    }
}
