//! The path between hosts: the scenario's links, which packets cross at their due times.
//!
//! The emulator drives it by the clock, the replay by a log of arrivals. Both make the same calls with the same times
//! in the same order, so that every packet has exactly the same outcome.

mod link_host;

use tailback_core::engine::ReceiverDropCounts;
use tailback_core::link::channel::{self, Channel};
use tailback_core::link::{Link, Server};
use tailback_core::packet::{Acknowledgement, Ecn, FlowId, Packet};
use tailback_core::probe::QueueRow;
use tailback_core::queue::outside::{self, Outside};
use tailback_core::queue::{Backlog, DropReason, Fate};
use tailback_core::scenario::{LinkSpec, QueueSpec, Scenario, ScenarioError};
pub use tailback_core::tcp::segment::NO_ROW;
use tailback_core::time::{Bytes, Duration, Time};

use self::link_host::{LinkHost, Slot, Slots};
use crate::access::{self, Accesses};
use crate::journal::Journal;

/// A packet captured as it enters the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Time of capture.
    pub at: Time,
    /// Number of the packet's flow.
    pub flow: u32,
    /// Whether it goes from the flow's receiver to its sender.
    pub is_reverse: bool,
    /// Whether a link made it as a copy, instead of a host sending it.
    pub is_copy: bool,
    /// IP length.
    pub bytes: u32,
    /// ECN codepoint on entry.
    pub ecn: Ecn,
    /// Its application's host pair; 0 if there are none.
    pub pair: u32,
    /// Its connection: the client's port folded to eight bits, for disciplines that hash addresses and ports.
    pub conversation: u8,
}

/// A packet's outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Still under way.
    InTransit,
    /// Arrived at the far end.
    Delivered {
        /// When its arrival was due.
        due: Time,
        /// Whether the path marked it CE.
        is_marked: bool,
    },
    /// Dropped at this link.
    Dropped {
        /// The link's number.
        link: u32,
    },
    /// Arrived damaged: the receiver's checksum fails.
    Damaged,
}

/// Stores the contents of packets.
pub trait Frames {
    /// The packet in `from` was duplicated: `to` has the same contents.
    fn copy(&mut self, _from: u32, _to: u32) {}
    /// What the packet in `slot` acknowledges.
    fn acknowledgement(&self, _slot: u32) -> Option<Acknowledgement> {
        None
    }
    /// Offers the packet, about to enter this link, to the kernel queue there; returns the reason if the queue dropped
    /// it at once.
    fn offer(&mut self, _link: u32, _packet: &Packet) -> Option<DropReason> {
        unreachable!("a replay has no kernel")
    }
}

/// Stores nothing: for a replay.
impl Frames for () {}

/// Observes the path. Every method does nothing by default.
pub trait Observer {
    /// Whether this link's queue is observed.
    fn watches(&self, _link: u32) -> bool {
        false
    }
    /// A queue event at a link.
    fn queue(&mut self, _link: u32, _row: &QueueRow<'_>) {}
    /// A poll of a link is due.
    fn poll_link(&mut self, _now: Time, _link: u32, _backlog: Backlog) {}
    /// A packet of a flow enters the path; returns its row in the packets table, if any.
    fn sent(&mut self, _now: Time, _flow: u32, _index: u64, _bytes: u32) -> u32 {
        NO_ROW
    }
    /// The packet of this row was handed over.
    fn received(&mut self, _now: Time, _row: u32) {}
    /// The packet of this row was dropped.
    fn lost(&mut self, _row: u32) {}
    /// A packet reaches a link, the first of its route or a later one.
    fn entered(&mut self, _now: Time, _link: u32, _is_first: bool, _packet: &Packet) {}
    /// A packet reaches a link's far end.
    fn left(&mut self, _now: Time, _link: u32, _packet: &Packet) {}
    /// A link duplicated the packet in `from`.
    fn doubled(&mut self, _from: u32, _to: u32) {}
}

/// Observes nothing: for a replay.
impl Observer for () {}

/// Packets and bytes of a flow that entered and left the path, forward direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowCount {
    /// Packets that its sender sent.
    pub packets_sent: u64,
    /// Packets that reached its receiver.
    pub packets_received: u64,
    /// Packets dropped.
    pub packets_dropped: u64,
    /// IP bytes sent.
    pub bytes_sent: Bytes,
    /// IP bytes received.
    pub bytes_received: Bytes,
}

/// The path.
#[derive(Debug)]
pub struct Path<W> {
    links: Vec<Link>,
    /// By link number: whether a kernel queue decides. False for links that stand for the hosts themselves.
    outside: Vec<bool>,
    channels: Vec<Channel>,
    named_links: usize,
    routes: Vec<[Vec<u32>; 2]>,
    fate: Fate,
    inbox: Vec<(Time, Packet)>,
    slots: Slots,
    accesses: Accesses,
    poll: Poll,
    reached: Time,
    /// Every packet that entered the path, by number.
    pub captured: Journal<Captured>,
    /// Each packet's outcome, by number.
    pub outcomes: Journal<Outcome>,
    /// Totals by flow.
    pub counts: Vec<FlowCount>,
    /// Packets dropped by receivers on arrival.
    pub receiver_drops: ReceiverDropCounts,
    /// Observes queues and packets.
    pub observer: W,
}

/// Which backlogs are sampled, and when.
#[derive(Debug)]
pub struct Poll {
    /// Interval between samples.
    pub interval: Duration,
    /// Time of the next sample; [`Time::NEVER`] for none.
    pub next: Time,
    /// The links to sample.
    pub links: Vec<u32>,
}

impl Poll {
    /// No sampling.
    pub fn never() -> Self {
        Poll { interval: Duration::ZERO, next: Time::NEVER, links: Vec::new() }
    }
}

impl<W: Observer> Path<W> {
    /// Builds the scenario's links and routes. Routes must be named: the scenario must be resolved.
    pub fn build(scenario: &Scenario, observer: W, poll: Poll) -> Result<Self, ScenarioError> {
        let (mut links, mut outside) = (Vec::new(), Vec::new());
        for (number, spec) in scenario.links.iter().enumerate() {
            let is_kernels = outside::of_kernel(&spec.queue.discipline).is_some();
            let plain = LinkSpec { queue: QueueSpec::unlimited(), ..spec.clone() };
            let mut link = Link::build(if is_kernels { &plain } else { spec }, number, scenario.seed)?;
            if is_kernels {
                link.decide_outside();
            }
            outside.push(is_kernels);
            links.push(link);
        }
        let channels = channel::build(&scenario.links, &mut links, scenario.seed)?;
        let named_links = links.len();
        let mut routes = Vec::new();
        let mut delays = Vec::new();
        for (number, flow) in scenario.flows.iter().enumerate() {
            let mut both = [Vec::new(), Vec::new()];
            let given = [(&flow.route, "from"), (&flow.back_route, "to")];
            for (route, (names, side)) in both.iter_mut().zip(given) {
                if scenario.holds_at_hosts() {
                    let name = format!("flow/{}/{side}", flow.name);
                    let delay =
                        if side == "from" { scenario.drawn_access_delay(&flow.name) } else { Duration::ZERO };
                    links.push(jitter(&name, delay, scenario)?);
                    route.push((links.len() - 1) as u32);
                }
                for name in names {
                    let link = scenario.links.iter().position(|link| link.name == *name);
                    route.push(link.expect("the scenario was checked") as u32);
                }
            }
            routes.push(both);
            delays.push(access::delays(scenario, number)?);
        }
        Ok(Path {
            links,
            outside,
            channels,
            named_links,
            fate: Fate::default(),
            inbox: Vec::new(),
            slots: Slots::default(),
            accesses: Accesses::new(delays),
            poll,
            reached: Time::ZERO,
            captured: Journal::default(),
            outcomes: Journal::default(),
            counts: vec![FlowCount::default(); routes.len()],
            receiver_drops: ReceiverDropCounts::default(),
            routes,
            observer,
        })
    }

    /// The scenario's links, without those that stand for the hosts' jitter.
    pub fn links(&self) -> &[Link] {
        &self.links[..self.named_links]
    }

    /// The packet's number in the run.
    pub fn number(&self, slot: u32) -> u64 {
        self.slots.held[slot as usize].number
    }

    /// The time reached so far: nothing earlier can happen any more.
    pub fn reached(&self) -> Time {
        self.reached
    }

    /// Time of the next event; [`Time::NEVER`] if no packet is in flight.
    pub fn next_due(&self) -> Time {
        let first = self.poll.next.min(self.accesses.next_due());
        self.wakes().map(|(wake, _)| wake).fold(first, Time::min)
    }

    /// When each link, or each medium that several links share, acts next; a medium is listed as its first link.
    fn wakes(&self) -> impl Iterator<Item = (Time, usize)> {
        let links = self.links.iter().enumerate().filter(|(_, link)| link.server() == Server::Link);
        let alone = links.map(|(number, link)| (link.next_wake(), number));
        let media = self.channels.iter();
        alone.chain(media.map(|medium| (medium.next_wake(&self.links), medium.element() as usize)))
    }

    /// Number of host pairs of a flow's application.
    pub fn pairs(&self, flow: u32) -> u32 {
        self.accesses.pairs(flow)
    }

    /// The slot of the next arrival: its contents can be stored there before [`Path::arrive`].
    pub fn next_slot(&self) -> u32 {
        self.slots.free.last().copied().unwrap_or(self.slots.held.len() as u32)
    }

    /// A host sends a packet into the path. [`Path::run_until`] must have been called for its time.
    pub fn arrive(&mut self, arrival: Captured, frames: &mut impl Frames) {
        let Captured { at: now, flow, is_reverse, bytes, ecn, pair, conversation, .. } = arrival;
        debug_assert!(now >= self.reached, "time does not run back");
        self.reached = now;
        let number = self.captured.len() as u64;
        self.captured.push(arrival);
        self.outcomes.push(Outcome::InTransit);
        let mut row = NO_ROW;
        if !is_reverse {
            let count = &mut self.counts[flow as usize];
            row = self.observer.sent(now, flow, count.packets_sent, bytes);
            count.packets_sent += 1;
            count.bytes_sent += Bytes::from(bytes);
        }
        let slot = self.slots.keep(Slot { number, row, is_damaged: false });
        let packet =
            Packet { slot, flow: FlowId(flow), bytes, ecn, hop: 0, is_reverse, conversation, enqueued: now };
        match self.accesses.pairs(flow) {
            0 => self.push(now, packet, frames),
            _ => self.accesses.push(now, packet, pair),
        }
    }

    /// Processes all events until `now`, in order; passes each packet that leaves the path to `out(due, packet)`, which
    /// may ask for its number and must call [`Path::release`] after writing it.
    pub fn run_until<F: Frames>(
        &mut self,
        now: Time,
        frames: &mut F,
        mut out: impl FnMut(&mut Self, &mut F, Time, Packet),
    ) {
        loop {
            let (mut due, mut which) = (self.poll.next, None);
            for (wake, number) in self.wakes() {
                // At the same instant, links act before the poll, and in their listed order.
                if wake < due || (wake == due && which.is_none() && wake < Time::NEVER) {
                    (due, which) = (wake, Some(number));
                }
            }
            let access = self.accesses.next_due();
            if access.min(due) > now || access.min(due) == Time::NEVER {
                return;
            }
            self.reached = access.min(due);
            // At the same instant, packets enter before links act or the poll is taken.
            if access <= due {
                let packet = self.accesses.pop().expect("it is due");
                self.push(access, packet, frames);
                continue;
            }
            let Some(link) = which else {
                self.sample();
                continue;
            };
            self.at(link, due, frames, Step::Advance);
            let mut inbox = std::mem::take(&mut self.inbox);
            for (due, mut packet) in inbox.drain(..) {
                let route = &self.routes[packet.flow.0 as usize][usize::from(packet.is_reverse)];
                self.observer.left(due, route[usize::from(packet.hop)], &packet);
                packet.hop += 1;
                if usize::from(packet.hop) < route.len() {
                    self.push(due, packet, frames);
                    continue;
                }
                let number = self.number(packet.slot);
                if self.slots.held[packet.slot as usize].is_damaged {
                    self.drop_damaged(&packet);
                    continue;
                }
                self.outcomes[number as usize] = Outcome::Delivered { due, is_marked: packet.ecn == Ecn::Ce };
                if !packet.is_reverse {
                    let count = &mut self.counts[packet.flow.0 as usize];
                    count.packets_received += 1;
                    count.bytes_received += Bytes::from(packet.bytes);
                }
                out(self, frames, due, packet);
            }
            self.inbox = inbox;
        }
    }

    /// Drops a damaged packet: the kernel never sees it, because its checksum would fail there.
    fn drop_damaged(&mut self, packet: &Packet) {
        let Slot { number, row, .. } = self.slots.held[packet.slot as usize];
        self.outcomes[number as usize] = Outcome::Damaged;
        self.observer.lost(row);
        self.receiver_drops.add(packet);
        if !packet.is_reverse {
            self.counts[packet.flow.0 as usize].packets_dropped += 1;
        }
        self.slots.free.push(packet.slot);
    }

    /// The packet in `slot` was handed to its host at `written`; the slot is free again.
    pub fn release(&mut self, slot: u32, written: Time) {
        self.observer.received(written, self.slots.held[slot as usize].row);
        self.slots.free.push(slot);
    }

    /// Advances every queue to `now`, for the totals at the end.
    pub fn settle(&mut self, now: Time, frames: &mut impl Frames) {
        for link in 0..self.links.len() {
            self.at(link, now, frames, Step::Settle);
        }
    }

    fn sample(&mut self) {
        let at = self.poll.next;
        for index in 0..self.poll.links.len() {
            let link = self.poll.links[index];
            self.at(link as usize, at, &mut (), Step::Settle);
            let it = &self.links[link as usize];
            let mut backlog = it.backlog();
            // Include the packet in transmission: a new arrival has to wait for it too.
            backlog.packets += u32::from(it.in_service() > 0);
            backlog.bytes += Bytes::from(it.in_service());
            self.observer.poll_link(at, link, backlog);
        }
        self.poll.next += self.poll.interval;
    }

    fn push(&mut self, now: Time, mut packet: Packet, frames: &mut impl Frames) {
        packet.enqueued = now;
        let route = &self.routes[packet.flow.0 as usize][usize::from(packet.is_reverse)];
        let link = route[usize::from(packet.hop)];
        self.observer.entered(now, link, packet.hop == 0, &packet);
        let is_outside = self.outside.get(link as usize) == Some(&true);
        if let Some(reason) = is_outside.then(|| frames.offer(link, &packet)).flatten() {
            self.at(link as usize, now, frames, Step::Refuse(reason));
        }
        self.at(link as usize, now, frames, Step::Push(packet));
    }

    /// The kernel queue at `link` has dropped the packets in the slots `lost`, and released one packet, perhaps marked.
    pub fn decided(
        &mut self,
        now: Time,
        link: u32,
        lost: (&[u32], DropReason),
        out: Option<(u32, bool)>,
        frames: &mut impl Frames,
    ) {
        debug_assert!(now >= self.reached, "time does not run back");
        self.reached = now;
        self.at(link as usize, now, frames, Step::Decide(lost, out));
    }

    fn at<F: Frames>(&mut self, link: usize, now: Time, frames: &mut F, step: Step<'_>) {
        let Self { links, channels, fate, .. } = self;
        let mut host = LinkHost {
            link: link as u32,
            watches: link < self.named_links && self.observer.watches(link as u32),
            named_links: self.named_links,
            now,
            slots: &mut self.slots,
            captured: &mut self.captured,
            outcomes: &mut self.outcomes,
            inbox: &mut self.inbox,
            observer: &mut self.observer,
            frames,
        };
        match links[link].server() {
            Server::Channel(channel) => {
                let medium = &mut channels[channel as usize];
                match step {
                    Step::Push(packet) => medium.push(links, link as u32, packet, now, fate, &mut host),
                    Step::Advance => medium.advance(links, now, fate, &mut host),
                    Step::Settle => medium.settle(links, now, fate, &mut host),
                    Step::Refuse(_) | Step::Decide(..) => unreachable!("a medium decides itself"),
                }
            }
            Server::Link => {
                let link = &mut links[link];
                // The next wake is asked for over all links, so ignore the return value here.
                match step {
                    Step::Push(packet) => {
                        link.push(packet, now, fate, &mut host);
                    }
                    Step::Advance => {
                        link.advance(now, fate, &mut host);
                    }
                    Step::Settle => link.settle(now, fate, &mut host),
                    Step::Refuse(reason) => {
                        link.decided(|queue| queue.refuse(reason), now, fate, &mut host);
                    }
                    Step::Decide((lost, reason), out) => {
                        let decide = |queue: &mut Outside| {
                            lost.iter().for_each(|slot| queue.lose(*slot, reason));
                            if let Some((slot, is_marked)) = out {
                                queue.let_out(slot, is_marked);
                            }
                        };
                        link.decided(decide, now, fate, &mut host);
                    }
                }
            }
            Server::Connection => unreachable!("a live run has no tunnels"),
        }
        self.take_fate();
    }

    fn take_fate(&mut self) {
        for (packet, _) in self.fate.drops.drain(..) {
            let Slot { number, row, .. } = self.slots.held[packet.slot as usize];
            let is_known = matches!(self.outcomes[number as usize], Outcome::Dropped { .. });
            debug_assert!(is_known, "every drop is shown to the observer");
            self.observer.lost(row);
            if !packet.is_reverse {
                self.counts[packet.flow.0 as usize].packets_dropped += 1;
            }
            self.slots.free.push(packet.slot);
        }
        self.fate.marks.clear();
    }
}

/// An operation on a link.
enum Step<'a> {
    Push(Packet),
    /// The kernel queue refuses the next packet.
    Refuse(DropReason),
    Decide((&'a [u32], DropReason), Option<(u32, bool)>),
    Advance,
    Settle,
}

/// An infinitely fast link that delays each packet by this plus a random time, as the simulator's hosts do.
fn jitter(name: &str, delay: Duration, scenario: &Scenario) -> Result<Link, ScenarioError> {
    let described = serde_json::json!({
        "name": name, "from": "", "to": "", "delay_ps": delay.as_ps(),
        "wire": { "jitter_ps": scenario.randomness.processing_jitter_ps },
    });
    let spec: LinkSpec = serde_json::from_value(described).expect("a link of a wire only");
    Link::build(&spec, usize::MAX, scenario.seed)
        .map_err(|error| ScenarioError { field: "randomness.processing_jitter_ps".into(), ..error })
}

/// Outcomes of these arrivals without a clock: the simulator's result for a live run's log.
pub fn replay(scenario: &Scenario, log: &[Captured], end: Time) -> Result<Vec<Outcome>, ScenarioError> {
    let mut path = Path::build(scenario, (), Poll::never())?;
    let hand_over =
        |path: &mut Path<_>, _: &mut (), due: Time, packet: Packet| path.release(packet.slot, due);
    for captured in log.iter().filter(|captured| !captured.is_copy) {
        path.run_until(captured.at, &mut (), hand_over);
        path.arrive(*captured, &mut ());
    }
    path.run_until(end, &mut (), hand_over);
    path.settle(end, &mut ());
    Ok(path.outcomes.into_iter().collect())
}
