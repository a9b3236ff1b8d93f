//! CAKE: a shaper, priority tins, isolation of hosts and flows, and COBALT in each flow's queue.

use std::collections::{BTreeMap, VecDeque};

use super::dscp::{self, EF, LE, VA};
use super::parts::{Line, bucket_of};
use super::registry::{Registered, Surroundings};
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::framing::{Framing, LinkLayer};
use crate::packet::{Ecn, Packet};
use crate::params::{Card, Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::{FlowSpec, ScenarioError};
use crate::time::{Bytes, Duration, Rate, Time};

const CARD: Card = Card {
    name: "cake",
    title: "CAKE",
    law: "a shaper lets `rate_bps` through, each packet counted with `overhead` and framing. Of the tins whose \
          own schedule is due the one of highest priority sends. In a tin each flow gets quantum/h bytes a \
          round, where h is the number of backlogged flows of its busiest host. COBALT drops (or marks) the \
          n-th packet interval/√n after the one before while the sojourn time is above `target`, and counts \
          down as slowly below it. It also drops with BLUE's probability, which grows by 1/256 at overflow and \
          shrinks by 1/4096 when the queue is empty. A queue that has never signalled does so with the second \
          late packet, and its last packet is not dropped",
    source: "T. Høiland-Jørgensen, D. Täht, J. Morton, \"Piece of CAKE: A Comprehensive Queue Management Solution for Home \
          Gateways\", LANMAN 2018, sections III and IV; tc-cake(8); constants of Linux sch_cake.c",
    differs: &[
        "NAT is not looked through (`nat`): hosts are the scenario's",
        "No ACK filter (`ack-filter`), no `autorate-ingress`, no `wash`, no firewall marks",
        "Hosts are distinguished exactly; in Linux each of two host tables is 8-way set-associative with 1024 places",
        "A packet has no DSCP here: `dscp` says which flows' packets carry which, in both directions",
        "`overhead` is added to IP bytes; Linux without the keyword counts the Ethernet header: `overhead` = 14 does so",
        "`memory_limit` counts IP bytes, not socket-buffer memory",
        "No segmentation offload: `split-gso` has nothing to split",
        "1/√n is a real square root; Linux takes a Newton step a drop, from a table below 16",
    ],
    live_twin: Some("linux:cake"),
    params: &[
        ParamSpec::whole(
            "rate_bps",
            "bit/s",
            0,
            (1, 1_000_000_000_000_000),
            "Rate of the shaper (tc: bandwidth).",
        )
        .depends("no shaper"),
        ParamSpec::number(
            "overhead",
            "B",
            0.0,
            (Framing::OVERHEAD.0 as f64, Framing::OVERHEAD.1 as f64),
            "Bytes that the shaper adds to each IP packet.",
        ),
        ParamSpec::whole(
            "mpu",
            "B",
            0,
            (0, Framing::LARGEST_MPU as u64),
            "Least size of a packet with its overhead, for the shaper.",
        ),
        ParamSpec::choice(
            "framing",
            &["none", "atm", "ptm"],
            "What the shaper counts beyond: cells of 53 bytes for each 48, or 65 for each 64.",
        ),
        ParamSpec::number(
            "rtt_ms",
            "ms",
            100.0,
            (0.01, 1_000_000.0),
            "COBALT's interval; its target is a twentieth.",
        ),
        ParamSpec::choice(
            "tins",
            &["diffserv3", "besteffort", "diffserv4", "diffserv8"],
            "Classes by DSCP, each with its priority up to a share of the rate.",
        ),
        ParamSpec::choice(
            "isolation",
            &[
                "triple-isolate",
                "flows",
                "dual-srchost",
                "dual-dsthost",
                "hosts",
                "srchost",
                "dsthost",
                "flowblind",
            ],
            "What has a queue of its own, and whose flows share one host's part.",
        ),
        ParamSpec::flag("ingress", false, "What COBALT drops has crossed the link already, and counts."),
        dscp::PARAM,
        ParamSpec::whole("memory_limit", "B", 0, (3000, 1 << 40), "Most bytes held.")
            .depends("four intervals of the rate, at least 4 MiB; without a shaper 10,240 full packets"),
    ],
};

/// Queues of a tin.
const QUEUES: usize = 1024;
/// Places that a hash may fall into.
const WAYS: usize = 8;
/// A full packet with its Ethernet header, by which quanta and targets are reckoned.
const MTU: Bytes = 1514;
/// BLUE's steps, of 2³².
const BLUE_UP: u32 = 1 << 24;
const BLUE_DOWN: u32 = 1 << 20;

/// Where a queue stands in its tin's rotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Set {
    /// Nowhere: it has no packets and its COBALT rests.
    #[default]
    None,
    /// Among the new, until its first deficit is spent.
    Sparse,
    /// In the rotation and empty, counted as sparse.
    SparseWait,
    /// In the rotation with packets.
    Bulk,
    /// Empty, until COBALT has come to rest.
    Decaying,
}

/// COBALT's constants in one tin.
#[derive(Clone, Copy, Debug)]
struct Law {
    target: Duration,
    interval: Duration,
    /// Time that a full packet takes at the tin's rate.
    mtu_time: Duration,
}

/// COBALT: CoDel that counts down as it counts up, and BLUE for what does not answer.
#[derive(Clone, Debug, Default)]
struct Cobalt {
    count: u32,
    /// 1/√count as it was when `count` last moved by one; 0 in a queue that has never signalled.
    spacing: f64,
    is_dropping: bool,
    drop_next: Time,
    blue: u32,
    blue_changed: Time,
}

impl Cobalt {
    fn step(&self, from: Time, law: &Law) -> Time {
        from + Duration::from_ps((law.interval.as_ps() as f64 * self.spacing) as u64)
    }

    /// A signal more or less, and the time of the next one.
    fn count_to(&mut self, count: u32, law: &Law) {
        self.count = count;
        self.spacing = 1.0 / f64::from(count.max(1)).sqrt();
        self.drop_next = self.step(self.drop_next, law);
    }

    /// The queue overflowed: BLUE, and CoDel from now on.
    fn on_overflow(&mut self, law: &Law, now: Time) {
        if now.since(self.blue_changed) > law.target {
            self.blue = self.blue.saturating_add(BLUE_UP);
            self.blue_changed = now;
        }
        self.is_dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// The queue is empty. True while something is left to decay.
    fn on_empty(&mut self, law: &Law, now: Time) -> bool {
        let mut decays = false;
        if self.blue > 0 && now.since(self.blue_changed) > law.target {
            self.blue = self.blue.saturating_sub(BLUE_DOWN);
            self.blue_changed = now;
            decays = true;
        }
        self.is_dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.count_to(self.count - 1, law);
            decays = true;
        }
        decays
    }

    /// Whether `packet`, at the head, is to be dropped; it may be marked instead. `bulk_flows`: those whose two packets
    /// each are no delay.
    fn decides(
        &mut self,
        packet: &mut Packet,
        bulk_flows: u32,
        law: &Law,
        now: Time,
        random: &mut Stream,
        fate: &mut Fate,
    ) -> bool {
        let sojourn = now.since(packet.enqueued);
        let floor = Duration::from_ps(law.mtu_time.as_ps() * u64::from((2 * bulk_flows).max(4)));
        let is_high = sojourn > law.target && sojourn > floor;
        let is_due = self.count > 0 && now >= self.drop_next;
        // By the time that held before this packet, unless a signal moves it.
        let mut is_late = now > self.drop_next;
        let mut is_dropped = false;
        if is_high && !self.is_dropping {
            self.is_dropping = true;
            self.drop_next = self.step(now, law);
        }
        self.is_dropping = is_high;
        if is_high {
            self.count = self.count.max(1);
        }
        if is_due && is_high {
            is_dropped = !packet.ecn.is_capable();
            if !is_dropped && packet.ecn != Ecn::Ce {
                packet.ecn = Ecn::Ce;
                fate.mark(*packet);
            }
            self.count_to(self.count.saturating_add(1), law);
            is_late = now > self.drop_next;
        } else if is_due {
            while self.count > 0 && now >= self.drop_next {
                self.count_to(self.count - 1, law);
            }
            is_late = now > self.drop_next;
        }
        // BLUE does not mark: it is there for flows that do not answer.
        if self.blue > 0 && (random.bits() >> 32) < u64::from(self.blue) {
            is_dropped = true;
        }
        if self.count == 0 {
            self.drop_next = now + law.interval;
        } else if is_late && !is_dropped {
            self.drop_next = now;
        }
        is_dropped
    }
}

#[derive(Clone, Debug, Default)]
struct Flow {
    line: Line,
    cobalt: Cobalt,
    deficit: i64,
    set: Set,
    /// Whose packets it holds or held last.
    tag: u64,
    hosts: [u32; 2],
}

#[derive(Clone, Debug)]
struct Tin {
    flows: Vec<Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    decaying: VecDeque<u32>,
    law: Law,
    /// The rate up to which it has priority; `None`: no shaper.
    rate: Option<Rate>,
    flow_quantum: i64,
    tin_quantum: i64,
    deficit: i64,
    next: Time,
    held: Backlog,
    bulk_flows: u32,
    /// Backlogged flows of each host as source and as destination.
    bulk_of: [Vec<u32>; 2],
}

/// Whose flows share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Isolation {
    /// Queues by what: the flow, or hosts as source and destination.
    by_flow: bool,
    by_host: [bool; 2],
    /// The part of a host is shared among its flows, as source and as destination.
    shares: [bool; 2],
}

impl Isolation {
    fn named(name: &str) -> Self {
        let of = |by_flow, by_host, shares| Isolation { by_flow, by_host, shares };
        match name {
            "flowblind" => of(false, [false; 2], [false; 2]),
            "srchost" => of(false, [true, false], [false; 2]),
            "dsthost" => of(false, [false, true], [false; 2]),
            "hosts" => of(false, [true; 2], [false; 2]),
            "flows" => of(true, [false; 2], [false; 2]),
            "dual-srchost" => of(true, [false; 2], [true, false]),
            "dual-dsthost" => of(true, [false; 2], [false, true]),
            _ => of(true, [false; 2], [true; 2]),
        }
    }
}

/// The shaper's clock.
#[derive(Clone, Debug)]
struct Shaper {
    rate: Rate,
    next: Time,
    /// At two thirds of the rate and without what is dropped: `ingress` never stops the queue altogether.
    failsafe: Time,
}

/// What a packet's flow is to the discipline.
#[derive(Clone, Copy, Debug)]
struct Known {
    hosts: [u32; 2],
    tin: u8,
}

/// CAKE.
#[derive(Clone, Debug)]
pub struct Cake {
    tins: Vec<Tin>,
    current: usize,
    shaper: Option<Shaper>,
    framing: Framing,
    isolation: Isolation,
    is_ingress: bool,
    limit: Bytes,
    held: Backlog,
    known: Vec<Known>,
    /// The tin of what has no DSCP.
    plain: u8,
    perturbation: u64,
    random: Stream,
}

/// The tins of one way to class packets.
struct Layout {
    /// Of the rate in 1/1024, and of a round; from lowest to highest priority. Bulk stands above best effort: it has its
    /// sixteenth, and nothing beyond while others want it.
    shares: &'static [(u64, i64)],
    /// The tin of a DSCP.
    class: fn(u8) -> u8,
}

/// A DSCP's class selector: its three highest bits.
const fn selector(dscp: u8) -> u8 {
    dscp >> 3
}

fn besteffort(_: u8) -> u8 {
    0
}

/// Bulk is 1, voice 2.
fn diffserv3(dscp: u8) -> u8 {
    match dscp {
        LE | 8 => 1,
        4 | VA | EF | 48 | 56 => 2,
        _ => 0,
    }
}

/// Bulk is 1, video 2, voice 3.
fn diffserv4(dscp: u8) -> u8 {
    match dscp {
        LE | 8 => 1,
        4 | 16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 34 | 36 | 38 => 2,
        32 | 40 | VA | EF | 48 | 56 => 3,
        _ => 0,
    }
}

/// From 0, the least, to 7.
fn diffserv8(dscp: u8) -> u8 {
    match dscp {
        LE => 0,
        2 | 8 | 10 | 12 | 14 => 1,
        24 | 26 | 28 | 30 | 34 | 36 | 38 => 3,
        4 | 18 | 20 | 22 => 4,
        16 => 5,
        32 | 40 | VA | EF => 6,
        _ if selector(dscp) >= 6 && dscp % 8 == 0 => 7,
        _ => 2,
    }
}

/// 7/8 of the one before, each.
const EIGHTHS: [(u64, i64); 8] =
    [(1024, 256), (896, 224), (784, 196), (686, 171), (600, 149), (525, 130), (459, 113), (402, 98)];

fn layout(name: &str) -> Layout {
    match name {
        "besteffort" => Layout { shares: &[(1024, 1024)], class: besteffort },
        "diffserv4" => Layout { shares: &[(1024, 1024), (64, 64), (512, 512), (256, 256)], class: diffserv4 },
        "diffserv8" => Layout { shares: &EIGHTHS, class: diffserv8 },
        _ => Layout { shares: &[(1024, 1024), (64, 64), (256, 256)], class: diffserv3 },
    }
}

impl Tin {
    fn new(rate: Option<Rate>, tin_quantum: i64, rtt: Duration, hosts: usize) -> Self {
        let target = Duration::from_ps(rtt.as_ps() / 20);
        let mtu_time = rate.map_or(Duration::ZERO, |rate| rate.time_for(MTU));
        // A slow tin's target is one packet and a half, and its interval grows with it.
        let wide = target.max(Duration::from_ps(mtu_time.as_ps() * 3 / 2));
        let interval = (rtt + wide.saturating_sub(target)).max(wide + wide);
        let quantum = rate.map_or(MTU, |rate| (rate.as_bps() / 8 / 4096).clamp(300, MTU));
        Tin {
            flows: vec![Flow::default(); QUEUES],
            new: VecDeque::new(),
            old: VecDeque::new(),
            decaying: VecDeque::new(),
            law: Law { target: wide, interval, mtu_time },
            rate,
            flow_quantum: quantum as i64,
            tin_quantum,
            deficit: 0,
            next: Time::ZERO,
            held: Backlog::default(),
            bulk_flows: 0,
            bulk_of: [vec![0; hosts], vec![0; hosts]],
        }
    }

    /// The queue for `tag`: its own place, another of its eight if that is another's, and shared if all are.
    fn place(&self, tag: u64, bucket: u32) -> u32 {
        let is_free = |place: &usize| self.flows[*place].set == Set::None;
        let bucket = bucket as usize;
        if self.flows[bucket].tag == tag || is_free(&bucket) {
            return bucket as u32;
        }
        let first = bucket - bucket % WAYS;
        let ways = || (0..WAYS).map(|way| first + (bucket + way) % WAYS);
        let own = ways().find(|place| self.flows[*place].tag == tag && !is_free(place));
        own.or_else(|| ways().find(is_free)).unwrap_or(bucket) as u32
    }

    fn count_bulk(&mut self, flow: u32, is_more: bool) {
        let hosts = self.flows[flow as usize].hosts;
        let change = |count: &mut u32| if is_more { *count += 1 } else { *count -= 1 };
        change(&mut self.bulk_flows);
        for (side, host) in hosts.into_iter().enumerate() {
            change(&mut self.bulk_of[side][host as usize]);
        }
    }

    fn quantum(&self, flow: u32, isolation: Isolation, random: &mut Stream) -> i64 {
        let hosts = self.flows[flow as usize].hosts;
        let busy =
            |side: usize| if isolation.shares[side] { self.bulk_of[side][hosts[side] as usize] } else { 1 };
        let load = i64::from(busy(0).max(busy(1)).max(1));
        // A fraction of a byte is drawn, so that many flows of one host get its part and no less.
        self.flow_quantum / load + i64::from(random.below(load as u64) < (self.flow_quantum % load) as u64)
    }

    /// An empty queue leaves the rotation, or waits until its COBALT rests.
    fn retire(&mut self, flow: u32, now: Time) {
        let law = self.law;
        let was = self.flows[flow as usize].set;
        let decays = self.flows[flow as usize].cobalt.on_empty(&law, now);
        if was == Set::Bulk {
            self.count_bulk(flow, false);
        }
        if decays {
            self.flows[flow as usize].set = Set::Decaying;
            self.decaying.push_back(flow);
        } else {
            self.flows[flow as usize].set = Set::None;
        }
    }
}

impl Registered for Cake {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, around: &Surroundings<'_>) -> Result<Self, ScenarioError> {
        let rate = given.given_whole("rate_bps").map(Rate::from_bps);
        let rtt = Duration::from_secs_f64(given.number("rtt_ms") / 1000.0);
        let layout = layout(given.choice("tins"));
        let (known, hosts) = flows_known(given, around.context.flows, &layout)?;
        let tin = |(share, quantum): &(u64, i64)| {
            let rate = rate.map(|rate| Rate::from_bps((rate.as_bps() * share / 1024).max(1)));
            Tin::new(rate, *quantum, rtt, hosts)
        };
        let limit = match rate {
            Some(rate) => rate.bytes_in(Duration::from_ps(4 * rtt.as_ps())).max(4 << 20),
            None => Bytes::MAX,
        };
        let framing = Framing {
            overhead: given.number("overhead") as i32,
            mpu: given.whole("mpu") as u32,
            linklayer: match given.choice("framing") {
                "atm" => LinkLayer::Atm,
                "ptm" => LinkLayer::Ptm,
                _ => LinkLayer::Ethernet,
            },
        };
        Ok(Cake {
            tins: layout.shares.iter().map(tin).collect(),
            current: 0,
            shaper: rate.map(|rate| Shaper { rate, next: Time::ZERO, failsafe: Time::ZERO }),
            framing,
            isolation: Isolation::named(given.choice("isolation")),
            is_ingress: given.flag("ingress"),
            limit: given.given_whole("memory_limit").unwrap_or(limit.min(10_240 * MTU)),
            held: Backlog::default(),
            known,
            plain: (layout.class)(0),
            perturbation: around.seed,
            random: Stream::named(around.seed, "cake"),
        })
    }
}

/// Hosts and tin of each flow, and how many hosts there are.
fn flows_known(
    given: &Checked<'_>,
    flows: &[FlowSpec],
    layout: &Layout,
) -> Result<(Vec<Known>, usize), ScenarioError> {
    let marked = dscp::of_flows(given, flows)?;
    let mut hosts = BTreeMap::new();
    let mut number = |host| {
        let next = hosts.len() as u32;
        *hosts.entry(host).or_insert(next)
    };
    let known = flows
        .iter()
        .zip(marked)
        .map(|(flow, dscp)| Known {
            hosts: [number(flow.from.as_str()), number(flow.to.as_str())],
            tin: (layout.class)(dscp),
        })
        .collect();
    let count = hosts.len().max(1);
    Ok((known, count))
}

impl QueueDiscipline for Cake {
    fn enqueue(&mut self, packet: Packet, now: Time, fate: &mut Fate) {
        let known = self.known_of(&packet);
        let (tag, bucket) = self.hash(&packet, &known);
        if self.held.packets == 0 {
            if let Some(shaper) = &mut self.shaper {
                if shaper.next < now {
                    shaper.next = now;
                    shaper.failsafe = now;
                }
            }
        }
        let isolation = self.isolation;
        let tin = &mut self.tins[known.tin as usize];
        if tin.held.packets == 0 {
            tin.next = tin.next.max(now);
        }
        let place = tin.place(tag, bucket);
        let flow = &mut tin.flows[place as usize];
        if flow.set == Set::None {
            flow.tag = tag;
            flow.hosts = known.hosts;
        }
        flow.line.push(packet);
        match flow.set {
            Set::None | Set::Decaying => {
                if flow.set == Set::Decaying {
                    tin.decaying.retain(|other| *other != place);
                }
                tin.flows[place as usize].set = Set::Sparse;
                tin.new.push_back(place);
                tin.flows[place as usize].deficit = tin.quantum(place, isolation, &mut self.random);
            }
            Set::SparseWait => {
                flow.set = Set::Bulk;
                tin.count_bulk(place, true);
            }
            Set::Sparse | Set::Bulk => {}
        }
        tin.held.packets += 1;
        tin.held.bytes += Bytes::from(packet.bytes);
        self.held.packets += 1;
        self.held.bytes += Bytes::from(packet.bytes);
        while self.held.bytes > self.limit {
            self.shed(now, fate);
        }
    }

    fn dequeue(&mut self, now: Time, fate: &mut Fate) -> Option<Packet> {
        while self.held.packets > 0 {
            if self.ready().is_some_and(|ready| ready > now) {
                return None;
            }
            self.choose_tin(now);
            if let Some(packet) = self.serve_tin(now, fate) {
                return Some(packet);
            }
        }
        None
    }

    fn backlog(&self) -> Backlog {
        self.held
    }

    fn ready_at(&self, _now: Time) -> Option<Time> {
        self.ready()
    }
}

impl Cake {
    /// Does it hold packets back although the link is free?
    pub fn shapes(&self) -> bool {
        self.shaper.is_some()
    }

    fn ready(&self) -> Option<Time> {
        self.shaper.as_ref().map(|shaper| shaper.next.min(shaper.failsafe))
    }

    fn known_of(&self, packet: &Packet) -> Known {
        let mut known = self
            .known
            .get(packet.flow.0 as usize)
            .copied()
            .unwrap_or(Known { hosts: [0, 0], tin: self.plain });
        if packet.is_reverse {
            known.hosts.swap(0, 1);
        }
        known
    }

    /// The key of a packet's queue, and the queue that it hashes to.
    fn hash(&self, packet: &Packet, known: &Known) -> (u64, u32) {
        let by = self.isolation;
        let stand_in = if by.by_flow {
            *packet
        } else {
            // Hosts in the place of a flow's number: those not looked at are one.
            let host = |side: usize| if by.by_host[side] { known.hosts[side] + 1 } else { 0 };
            let mut other = *packet;
            other.flow.0 = host(0) << 16 | host(1);
            (other.is_reverse, other.conversation) = (false, 0);
            other
        };
        let tag = u64::from(stand_in.conversation) << 40
            | u64::from(stand_in.flow.0) << 1
            | u64::from(stand_in.is_reverse);
        // Zero is what a queue has that nothing has used.
        (tag + 1, bucket_of(&stand_in, self.perturbation, QUEUES as u32))
    }

    /// Bytes that the shaper counts for a packet.
    fn counted(&self, packet: &Packet) -> Bytes {
        Bytes::from(self.framing.bytes(packet.bytes))
    }

    /// The tin that sends: shaped, of those due the one of highest priority, else the one that is due first.
    fn choose_tin(&mut self, now: Time) {
        if self.shaper.is_none() {
            while self.tins[self.current].held.packets == 0 || self.tins[self.current].deficit < 0 {
                if self.tins[self.current].deficit <= 0 {
                    let quantum = self.tins[self.current].tin_quantum;
                    self.tins[self.current].deficit += quantum;
                }
                if self.tins[self.current].held.packets == 0 {
                    self.tins[self.current].deficit = 0;
                }
                self.current = (self.current + 1) % self.tins.len();
            }
            return;
        }
        let mut soonest = None;
        for (number, tin) in self.tins.iter().enumerate() {
            if tin.held.packets > 0 && (tin.next <= now || soonest.is_none_or(|soonest| tin.next <= soonest))
            {
                soonest = Some(tin.next);
                self.current = number;
            }
        }
    }

    /// One turn of the current tin: a packet, or `None` if the queue whose turn it was has none left.
    fn serve_tin(&mut self, now: Time, fate: &mut Fate) -> Option<Packet> {
        let isolation = self.isolation;
        let tin = &mut self.tins[self.current];
        let list = if !tin.new.is_empty() {
            &mut tin.new
        } else if !tin.old.is_empty() {
            &mut tin.old
        } else {
            &mut tin.decaying
        };
        let place = list.pop_front()?;
        let flow = &mut tin.flows[place as usize];
        if flow.deficit <= 0 {
            if flow.set == Set::Sparse {
                if flow.line.is_empty() {
                    flow.set = Set::SparseWait;
                } else {
                    flow.set = Set::Bulk;
                    tin.count_bulk(place, true);
                }
            }
            tin.old.push_back(place);
            let quantum = tin.quantum(place, isolation, &mut self.random);
            tin.flows[place as usize].deficit += quantum;
            return None;
        }
        let law = tin.law;
        let bulk_flows = if self.is_ingress { tin.bulk_flows } else { 0 };
        loop {
            let tin = &mut self.tins[self.current];
            let flow = &mut tin.flows[place as usize];
            let Some(mut packet) = flow.line.pop() else {
                tin.retire(place, now);
                return None;
            };
            let bytes = Bytes::from(packet.bytes);
            tin.held.packets -= 1;
            tin.held.bytes -= bytes;
            self.held.packets -= 1;
            self.held.bytes -= bytes;
            let decides = flow.cobalt.decides(&mut packet, bulk_flows, &law, now, &mut self.random, fate);
            // The last packet of a queue may be marked and is not dropped.
            let is_dropped = decides && !flow.line.is_empty();
            if is_dropped {
                fate.drop(packet, DropReason::Aqm);
                if !self.is_ingress {
                    continue;
                }
            }
            let counted = self.counted(&packet);
            self.advance(counted, is_dropped, now);
            let tin = &mut self.tins[self.current];
            tin.flows[place as usize].deficit -= counted as i64;
            tin.deficit -= counted as i64;
            // The queue keeps its turn while its deficit lasts.
            let flow = &tin.flows[place as usize];
            match flow.set {
                Set::Sparse => tin.new.push_front(place),
                Set::Decaying => tin.decaying.push_front(place),
                _ => tin.old.push_front(place),
            }
            return (!is_dropped).then_some(packet);
        }
    }

    /// The clocks of the shaper and of the current tin after this many bytes.
    fn advance(&mut self, bytes: Bytes, is_dropped: bool, now: Time) {
        let Some(shaper) = &mut self.shaper else { return };
        let time = shaper.rate.time_for(bytes);
        shaper.next += time;
        if !is_dropped {
            shaper.failsafe = shaper.failsafe + time + Duration::from_ps(time.as_ps() / 2);
        }
        let tin = &mut self.tins[self.current];
        let own = tin.rate.map_or(Duration::ZERO, |rate| rate.time_for(bytes));
        // A tin that was late catches up; one that was early is never owed more than this packet.
        tin.next = if tin.next < now { tin.next + own } else { tin.next.max(now + own) };
    }

    /// Overflow: the longest queue of all tins loses its oldest, and BLUE learns of it.
    #[cold]
    fn shed(&mut self, now: Time, fate: &mut Fate) {
        let longest = |tin: &Tin| {
            let listed = tin.new.iter().chain(&tin.old).chain(&tin.decaying);
            listed
                .copied()
                .max_by_key(|&place| (tin.flows[place as usize].line.bytes(), std::cmp::Reverse(place)))
        };
        let of_each = self.tins.iter().enumerate().filter_map(|(number, tin)| Some((number, longest(tin)?)));
        let bytes_of =
            |(number, place): &(usize, u32)| self.tins[*number].flows[*place as usize].line.bytes();
        let (number, place) = of_each.max_by_key(bytes_of).expect("a full queue has a flow");
        let tin = &mut self.tins[number];
        let flow = &mut tin.flows[place as usize];
        flow.cobalt.on_overflow(&tin.law, now);
        let packet = flow.line.pop().expect("the longest queue has a packet");
        let bytes = Bytes::from(packet.bytes);
        tin.held.packets -= 1;
        tin.held.bytes -= bytes;
        self.held.packets -= 1;
        self.held.bytes -= bytes;
        fate.drop(packet, DropReason::Overlimit);
        if self.is_ingress {
            let counted = self.counted(&packet);
            let current = std::mem::replace(&mut self.current, number);
            self.advance(counted, true, now);
            self.current = current;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FlowId;
    use crate::scenario::{Params, Value};

    fn cake(params: &[(&str, Value)]) -> Cake {
        let params: Params = params.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
        let given = Checked::new(&Cake::CARD, &params, "q").unwrap();
        Cake::new(&given, &Surroundings::of_seed(1)).unwrap()
    }

    fn named(text: &str) -> Value {
        Value::Name(text.into())
    }

    fn rate(mbps: f64) -> (&'static str, Value) {
        ("rate_bps", Value::Number(mbps * 1e6))
    }

    /// The same with flows between hosts, each in a tin.
    fn among(mut cake: Cake, flows: &[([u32; 2], u8)]) -> Cake {
        cake.known = flows.iter().map(|(hosts, tin)| Known { hosts: *hosts, tin: *tin }).collect();
        let hosts = 1 + flows.iter().flat_map(|(hosts, _)| *hosts).max().unwrap_or(0) as usize;
        for tin in &mut cake.tins {
            tin.bulk_of = [vec![0; hosts], vec![0; hosts]];
        }
        cake
    }

    fn packet(flow: u32, bytes: u32, enqueued: Time, ecn: Ecn) -> Packet {
        Packet {
            slot: 0,
            flow: FlowId(flow),
            bytes,
            ecn,
            hop: 0,
            is_reverse: false,
            conversation: 0,
            enqueued,
        }
    }

    /// Bytes of each flow that leave in `seconds` if each always holds two full packets; sent as soon as the queue is ready.
    fn greedy(cake: &mut Cake, flows: usize, bytes: u32, seconds: u64) -> Vec<f64> {
        let (mut fate, mut now) = (Fate::default(), Time::ZERO);
        let (mut sent, mut held) = (vec![0.0; flows], vec![0; flows]);
        while now < Time::from_ms(1000 * seconds) {
            for (flow, count) in held.iter_mut().enumerate() {
                while *count < 2 {
                    cake.enqueue(packet(flow as u32, bytes, now, Ecn::NotEct), now, &mut fate);
                    *count += 1;
                }
            }
            let next = cake.dequeue(now, &mut fate);
            for (dropped, _) in fate.drops.drain(..) {
                held[dropped.flow.0 as usize] -= 1;
            }
            if let Some(next) = next {
                held[next.flow.0 as usize] -= 1;
                sent[next.flow.0 as usize] += f64::from(next.bytes);
            } else if let Some(ready) = cake.ready_at(now).filter(|ready| *ready > now) {
                now = ready;
            }
        }
        sent
    }

    #[test]
    fn the_shaper_holds_its_rate_of_what_the_link_below_carries() {
        // 1500 + 10 bytes: 32 cells of 53; 1510 + 24 for PTM; mpu 84 for small ones.
        for (framing, bytes, overhead, mpu, counted) in [
            ("none", 1500, 0.0, 0.0, 1500.0),
            ("none", 1500, 18.0, 0.0, 1518.0),
            ("atm", 1500, 10.0, 0.0, 32.0 * 53.0),
            ("atm", 40, 8.0, 0.0, 53.0),
            ("ptm", 1500, 10.0, 0.0, 1534.0),
            ("none", 40, 14.0, 84.0, 84.0),
            ("none", 1500, -20.0, 0.0, 1480.0),
        ] {
            let mut cake = cake(&[
                rate(8.0),
                ("overhead", Value::Number(overhead)),
                ("mpu", Value::Number(mpu)),
                ("framing", named(framing)),
            ]);
            let sent = greedy(&mut cake, 1, bytes, 2)[0];
            let share = sent / f64::from(bytes) * counted / 2e6;
            assert!((share - 1.0).abs() < 0.002, "{framing} {bytes} {overhead}: {share}");
        }
    }

    #[test]
    fn hosts_share_first_and_then_their_flows() {
        // One source with four flows and another with one, to hosts of their own.
        let flows: Vec<([u32; 2], u8)> =
            [[0, 2], [0, 3], [0, 4], [0, 5], [1, 6]].iter().map(|hosts| (*hosts, 0)).collect();
        for (isolation, of_one) in [
            ("triple-isolate", 0.5),
            ("dual-srchost", 0.5),
            ("srchost", 0.5),
            ("flows", 0.2),
            ("dual-dsthost", 0.2),
        ] {
            let mut cake = among(cake(&[rate(20.0), ("isolation", named(isolation))]), &flows);
            let sent = greedy(&mut cake, 5, 1500, 3);
            let share = sent[4] / sent.iter().sum::<f64>();
            assert!((share - of_one).abs() < 0.02, "{isolation}: {share}");
            if isolation != "srchost" {
                assert!((sent[0] / sent[3] - 1.0).abs() < 0.05, "{isolation}: {sent:?}");
            }
        }
    }

    #[test]
    fn tins_have_priority_up_to_their_share_and_lend_the_rest() {
        // Best effort, bulk and voice, all greedy: bulk and voice keep to 1/16 and 1/4.
        let flows = [([0, 1], 0), ([0, 1], 1), ([0, 1], 2)];
        let isolation = ("isolation", named("flows"));
        let mut busy = among(cake(&[rate(20.0), isolation.clone()]), &flows);
        let sent = greedy(&mut busy, 3, 1500, 3);
        let all: f64 = sent.iter().sum();
        assert!((sent[2] / all - 0.25).abs() < 0.02, "{sent:?}");
        assert!((0.04..0.08).contains(&(sent[1] / all)), "{sent:?}");
        // Alone, bulk has the whole link.
        let mut alone = among(cake(&[rate(20.0), isolation]), &[([0, 1], 1)]);
        assert!((greedy(&mut alone, 1, 1500, 2)[0] * 8.0 / 40e6 - 1.0).abs() < 0.01);
    }

    #[test]
    fn each_layout_knows_its_codepoints() {
        let tins = |layout: &Layout, words: &[&str]| {
            words.iter().map(|word| (layout.class)(dscp::named(word).unwrap())).collect::<Vec<_>>()
        };
        let words =
            ["le", "cs1", "be", "af11", "af21", "af41", "cs3", "cs4", "cs5", "va", "ef", "cs6", "cs7"];
        assert_eq!(tins(&layout("besteffort"), &words), [0; 13]);
        assert_eq!(tins(&layout("diffserv3"), &words), [1, 1, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2]);
        assert_eq!(tins(&layout("diffserv4"), &words), [1, 1, 0, 0, 2, 2, 2, 3, 3, 3, 3, 3, 3]);
        assert_eq!(tins(&layout("diffserv8"), &words), [0, 1, 2, 1, 4, 3, 3, 6, 6, 6, 6, 7, 7]);
    }

    #[test]
    fn eight_flows_of_one_place_have_queues_of_their_own_and_the_ninth_shares() {
        let mut cake = cake(&[("tins", named("besteffort"))]);
        let tin = &mut cake.tins[0];
        let mut places = Vec::new();
        for tag in 1..=9 {
            let place = tin.place(tag, 21);
            tin.flows[place as usize].tag = tag;
            tin.flows[place as usize].set = Set::Sparse;
            places.push(place);
        }
        assert_eq!(places, [21, 22, 23, 16, 17, 18, 19, 20, 21]);
        // A flow that has a queue finds it again.
        assert_eq!(cake.tins[0].place(5, 21), 17);
    }

    fn law() -> Law {
        Law { target: Duration::from_ms(5), interval: Duration::from_ms(100), mtu_time: Duration::ZERO }
    }

    #[test]
    fn cobalt_drops_at_interval_over_root_n_and_counts_down_as_slowly() {
        let (mut cobalt, mut random) = (Cobalt::default(), Stream::named(1, "test"));
        let mut fate = Fate::default();
        let mut times = Vec::new();
        for ms in 0..600u64 {
            let now = Time::from_ms(1000 + ms);
            let mut late = packet(0, 1500, Time::from_ms(990 + ms), Ecn::NotEct);
            if cobalt.decides(&mut late, 0, &law(), now, &mut random, &mut fate) {
                times.push(ms);
            }
        }
        // The first with the second late packet; then 100/√2, 100/√3 … ms, looked at every millisecond.
        assert_eq!(times[..5], [1, 71, 129, 179, 224]);
        let count = cobalt.count;
        assert!(count > 8, "{count}");
        let now = Time::from_ms(1650);
        let mut early = packet(0, 1500, now, Ecn::NotEct);
        assert!(!cobalt.decides(&mut early, 0, &law(), now, &mut random, &mut fate));
        assert!((1..count).contains(&cobalt.count), "{} of {count}", cobalt.count);
        assert!(!cobalt.is_dropping);
    }

    #[test]
    fn a_queue_at_rest_waits_an_interval_and_one_that_never_signalled_does_not() {
        let (mut cobalt, mut random) = (Cobalt::default(), Stream::named(1, "test"));
        let mut fate = Fate::default();
        let mut drops = |cobalt: &mut Cobalt, sojourn: u64, times: std::ops::Range<u64>| {
            let is_dropped = |ms: &u64| {
                let mut packet = packet(0, 1500, Time::from_ms(ms - sojourn), Ecn::NotEct);
                cobalt.decides(&mut packet, 0, &law(), Time::from_ms(*ms), &mut random, &mut fate)
            };
            times.filter(is_dropped).collect::<Vec<_>>()
        };
        assert_eq!(drops(&mut cobalt, 10, 1000..1060), [1001]);
        assert_eq!(drops(&mut cobalt, 1, 1060..1500), []);
        assert_eq!(cobalt.count, 0, "at rest");
        assert_eq!(drops(&mut cobalt, 10, 1500..1660), [1600]);
    }

    #[test]
    fn bulk_flows_raise_the_floor_at_an_ingress_only() {
        // Eight flows of full packets at 12 Mbit/s: two packets each are 16 ms.
        let dropped = |is_ingress: bool| {
            let params = [rate(12.0), ("ingress", Value::Flag(is_ingress)), ("tins", named("besteffort"))];
            let mut cake = cake(&params);
            cake.tins[0].bulk_flows = 8;
            cake.tins[0].flows[0].line.push(packet(0, 1500, Time::ZERO, Ecn::NotEct));
            cake.tins[0].flows[0].line.push(packet(0, 1500, Time::ZERO, Ecn::NotEct));
            cake.tins[0].flows[0].cobalt = Cobalt { count: 1, is_dropping: true, ..Cobalt::default() };
            cake.tins[0].flows[0].set = Set::Sparse;
            cake.tins[0].flows[0].deficit = 1;
            cake.tins[0].new.push_back(0);
            cake.tins[0].held = Backlog { packets: 2, bytes: 3000 };
            cake.held = cake.tins[0].held;
            let mut fate = Fate::default();
            cake.dequeue(Time::from_ms(12), &mut fate);
            fate.drops.len()
        };
        assert_eq!((dropped(false), dropped(true)), (1, 0));
    }

    #[test]
    fn the_last_packet_of_a_queue_is_not_dropped() {
        let mut cake = cake(&[("tins", named("besteffort"))]);
        // BLUE drops all that it may.
        cake.tins[0].flows.iter_mut().for_each(|flow| flow.cobalt.blue = u32::MAX);
        let mut fate = Fate::default();
        for slot in 0..3 {
            let one = Packet { slot, ..packet(0, 1500, Time::ZERO, Ecn::NotEct) };
            cake.enqueue(one, Time::ZERO, &mut fate);
        }
        assert_eq!(cake.dequeue(Time::from_ms(1), &mut fate).map(|packet| packet.slot), Some(2));
        assert_eq!(fate.drops.len(), 2);
    }

    #[test]
    fn cobalt_marks_what_can_be_marked_and_blue_drops_it_all_the_same() {
        let (mut cobalt, mut random) = (Cobalt::default(), Stream::named(1, "test"));
        let mut fate = Fate::default();
        let mut see = |cobalt: &mut Cobalt, ms: u64, fate: &mut Fate| {
            let mut late = packet(0, 1500, Time::from_ms(ms - 10), Ecn::Ect0);
            cobalt.decides(&mut late, 0, &law(), Time::from_ms(ms), &mut random, fate)
        };
        assert_eq!((1000..1600).filter(|ms| see(&mut cobalt, *ms, &mut fate)).count(), 0);
        assert!(fate.marks.len() > 8);
        // 128 overflows, each a target after the one before: half of all packets.
        for step in 0..128 {
            cobalt.on_overflow(&law(), Time::from_ms(2000 + 6 * step));
            cobalt.on_overflow(&law(), Time::from_ms(2001 + 6 * step));
        }
        assert_eq!(cobalt.blue, 1 << 31);
        let dropped = (3000..5000).filter(|ms| see(&mut cobalt, *ms, &mut fate)).count();
        assert!((850..1150).contains(&dropped), "{dropped}");
        // Down by a sixteenth of a step each time it is found empty.
        cobalt.on_empty(&law(), Time::from_ms(6000));
        assert_eq!(cobalt.blue, (1 << 31) - BLUE_DOWN);
    }

    #[test]
    fn a_full_queue_sheds_the_longest_flows_oldest() {
        let mut cake =
            among(cake(&[rate(1.0), ("memory_limit", Value::Number(15_000.0))]), &[([0, 1], 0), ([0, 1], 0)]);
        let mut fate = Fate::default();
        cake.enqueue(packet(1, 1500, Time::ZERO, Ecn::NotEct), Time::ZERO, &mut fate);
        for slot in 0..12 {
            let long = Packet { slot, ..packet(0, 1500, Time::ZERO, Ecn::NotEct) };
            cake.enqueue(long, Time::ZERO, &mut fate);
        }
        let shed: Vec<_> =
            fate.drops.iter().map(|(packet, why)| (packet.flow.0, packet.slot, *why)).collect();
        assert_eq!(shed, [0, 1, 2].map(|slot| (0, slot, DropReason::Overlimit)));
        assert_eq!(cake.backlog(), Backlog { packets: 10, bytes: 15_000 });
    }

    #[test]
    fn ingress_counts_what_it_drops() {
        let sent = |is_ingress: bool| {
            let mut cake = cake(&[rate(8.0), ("ingress", Value::Flag(is_ingress))]);
            // BLUE drops one in four.
            cake.tins.iter_mut().flat_map(|tin| &mut tin.flows).for_each(|flow| flow.cobalt.blue = 1 << 30);
            greedy(&mut cake, 1, 1500, 2)[0] / 2e6
        };
        assert!((sent(false) - 1.0).abs() < 0.01, "{}", sent(false));
        assert!((sent(true) - 0.75).abs() < 0.05, "{}", sent(true));
    }
}
