//! Finds the same packet at two points, for one-way delay, loss, duplication and reordering.
//!
//! Packets are paired by a hash of the fields that routers do not change. Both captures are read in parallel, in order
//! of time; their clocks are first aligned roughly by the first packet found in both. Packets that have waited longer
//! than a horizon are given up, which bounds their number. Packets with equal hashes pair in order of arrival. A
//! capture that holds each packet twice (before and after the path) is paired with itself.
//!
//! Loss, reordering and duplication are derived from the pairs after everything is read, not from the order of reading:
//! the alignment is wrong by the delay of the first common packet. A packet is lost if a later one of its flow and
//! direction arrived; a packet with no later arrival was in flight when the captures ended.
//!
//! Source: CAIA Technical Report 080818A section IV-B (one capture, each packet twice); CAIA SPP 0.3 (two captures,
//! horizon of 60 s). Clocks: the smallest delays in both directions are assumed equal, as in NTP (RFC 5905 section 8).

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::decode::{Naming, Packet, decode};
use crate::flows::Flows;
use crate::source::{NoCapture, Source};

/// Number of frames at the start of each capture in which to look for the first common packet.
const PREFIX: usize = 2_000_000;
/// Number of frames at the start of each capture in which to look for a TCP header with truncated timestamps.
const CUT_PREFIX: u32 = 500_000;
/// Most packets that may wait; beyond that the older half is given up.
const MOST_WAITING: usize = 4_000_000;
/// Least number of packets between searches for packets that have waited too long.
const BETWEEN_SWEEPS: u64 = 500_000;
/// log2 of the number of paired hashes remembered, to recognise a third sighting as a duplicate.
const MEMORY_BITS: u32 = 18;
/// How long a packet waits for its other sighting, in nanoseconds.
pub const HORIZON_NS: u64 = 60_000_000_000;

/// Packets seen at both points.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// Flow in the first capture, with [`REVERSE`] set from the server to the client.
    pub flow: Vec<u32>,
    /// Time at the first point.
    pub a_ns: Vec<u64>,
    /// Time at the second point, by that capture's clock.
    pub b_ns: Vec<u64>,
    /// IP length.
    pub bytes: Vec<u32>,
}

/// The direction bit of [`Pairs::flow`].
pub const REVERSE: u32 = 1 << 31;

/// Delays in one direction of a flow: second time stamp minus first, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    /// Flow and direction.
    pub flow: u32,
    /// The smallest delay.
    pub min: i64,
    /// The largest delay.
    pub max: i64,
    /// The mean delay.
    pub mean: f64,
    /// The delays at [`QUANTILES`].
    pub quantiles: Vec<i64>,
}

/// The reported quantiles.
pub const QUANTILES: [f64; 7] = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99];

impl Pairs {
    /// The delays of each direction of each flow.
    pub fn delays(&self) -> Vec<Delays> {
        let mut by_flow: FxHashMap<u32, Vec<i64>> = FxHashMap::default();
        let each = self.flow.iter().zip(&self.a_ns).zip(&self.b_ns);
        for ((flow, a), b) in each {
            by_flow.entry(*flow).or_default().push(b.wrapping_sub(*a) as i64);
        }
        let mut flows: Vec<_> = by_flow.into_iter().collect();
        flows.sort_unstable_by_key(|(flow, _)| (flow & !REVERSE, flow & REVERSE));
        let summary = |(flow, mut all): (u32, Vec<i64>)| {
            all.sort_unstable();
            let last = all.len() - 1;
            let at = |share: f64| all[(share * last as f64).round() as usize];
            Delays {
                flow,
                min: all[0],
                max: all[last],
                mean: all.iter().map(|ns| *ns as f64).sum::<f64>() / all.len() as f64,
                quantiles: QUANTILES.iter().map(|share| at(*share)).collect(),
            }
        };
        flows.into_iter().map(summary).collect()
    }
}

/// Counts for one direction of a flow. The code does not know which point is nearer to the sender, so it counts for
/// both.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Pairs.
    pub paired: u64,
    /// Packets seen only at the first point, while the second capture ran and before a packet that was seen at both.
    pub only_a: u64,
    /// The same for the second point.
    pub only_b: u64,
    /// Additional sightings at the first point of a packet seen at both.
    pub again_a: u64,
    /// The same at the second point.
    pub again_b: u64,
    /// Of these, sightings before the other point's: if the first point is nearer to the sender, these were lost
    /// instead.
    pub early_again_a: u64,
    /// The same for the second point.
    pub early_again_b: u64,
    /// Packets overtaken on the way to the second point.
    pub overtaken_b: u64,
    /// Packets overtaken on the way to the first point.
    pub overtaken_a: u64,
}

/// Packets seen at only one point, although a later one of their flow and direction was seen at both.
#[derive(Clone, Debug, Default)]
pub struct Lost {
    /// As in [`Pairs::flow`].
    pub flow: Vec<u32>,
    /// Time at its point.
    pub t_ns: Vec<u64>,
    /// IP length.
    pub bytes: Vec<u32>,
    /// Whether its point is the second.
    pub is_second: Vec<bool>,
}

/// Result of pairing two captures.
#[derive(Debug, Default)]
pub struct Found {
    /// The pairs.
    pub pairs: Pairs,
    /// Packets lost on the way to the other point, if they come from this one.
    pub lost: Lost,
    /// Counts by flow and direction.
    pub counts: Vec<[Count; 2]>,
    /// The first capture's flows.
    pub flows: Flows,
    /// The fields that the hashes include.
    pub naming: Naming,
    /// Hashed packets of the second capture.
    pub b_packets: u64,
    /// First time stamp of the second capture.
    pub b_first_ns: u64,
    /// Last time stamp of the second capture.
    pub b_last_ns: u64,
    /// For each capture, packets of which too little was kept.
    pub short: [u64; 2],
    /// Packets of the second capture that belong to no flow of the first.
    pub strangers: u64,
    /// For each capture, packets that passed while the other was not running.
    pub outside: [u64; 2],
    /// For each capture, packets after which no packet of their flow and direction was seen at both points.
    pub under_way: [u64; 2],
    /// Packets given up before the horizon for lack of memory.
    pub crowded: u64,
    /// For each capture, what ended it early, if anything did.
    pub trouble: [Option<String>; 2],
}

/// Why pairing failed.
#[derive(Debug)]
pub enum Failure {
    /// A file is no capture.
    NoCapture(NoCapture),
    /// The captures do not belong together.
    Unpaired(Unpaired),
}

impl From<NoCapture> for Failure {
    fn from(error: NoCapture) -> Self {
        Failure::NoCapture(error)
    }
}

/// Why two captures cannot be paired.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unpaired {
    /// No packet could be hashed.
    NothingNamed {
        /// Packets read in each capture.
        packets: [u64; 2],
        /// How many of them were truncated too much.
        short: [u64; 2],
    },
    /// The captures have no packet in common.
    NothingCommon {
        /// Packets compared.
        packets: [u64; 2],
        /// Additional packets that were truncated too much.
        short: [u64; 2],
        /// First and last stamps.
        spans_ns: [(u64, u64); 2],
    },
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    t_ns: u64,
    flow: u32,
    bytes: u32,
    /// Its index among the frames of its capture.
    number: u32,
    is_second: bool,
    /// Whether a packet with the same hash and point was paired while this one waited.
    is_again: bool,
}

/// What the pairs of one direction of a flow imply for its other packets.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// The largest frame index of a pair at each point.
    newest: [u32; 2],
    /// Smallest difference of the time stamps, second minus first.
    least: i64,
    /// Largest difference of the time stamps.
    most: i64,
}

struct Pairing {
    found: Found,
    waiting: FxHashMap<u64, Waiting>,
    /// Further packets with the same hash from the same point.
    twins: FxHashMap<u64, VecDeque<Waiting>>,
    /// Given-up packets: it is not yet known whether a later packet of their flow arrives.
    left: Vec<Waiting>,
    ways: FxHashMap<u32, Way>,
    /// Packets since the last search for packets that have waited too long.
    since_sweep: u64,
    /// Hashes of pairs, indexed by their highest bits; a later hash overwrites an earlier one.
    paired: Vec<u64>,
    /// Approximate difference of the clocks, second minus first.
    shift_ns: i64,
}

/// The flow of a packet in the second capture whose flow has not appeared in the first.
const STRANGER: u32 = u32::MAX;

impl Pairing {
    fn new(shift_ns: i64, naming: Naming) -> Self {
        Pairing {
            found: Found { naming, ..Found::default() },
            waiting: FxHashMap::default(),
            twins: FxHashMap::default(),
            left: Vec::new(),
            ways: FxHashMap::default(),
            since_sweep: 0,
            paired: vec![0; 1 << MEMORY_BITS],
            shift_ns,
        }
    }

    fn place(name: u64) -> usize {
        (name >> (64 - MEMORY_BITS)) as usize
    }

    fn was_paired(&self, name: u64) -> bool {
        self.paired[Self::place(name)] == name
    }

    /// Processes a packet at a point; calls `flow` only if the packet has to wait.
    #[inline]
    fn see(&mut self, name: u64, mut it: Waiting, flow: impl FnOnce() -> u32) {
        match self.waiting.entry(name) {
            Entry::Occupied(mut entry) if entry.get().is_second != it.is_second => {
                let other = *entry.get();
                match self.twins.get_mut(&name).and_then(VecDeque::pop_front) {
                    Some(twin) => *entry.get_mut() = Waiting { is_again: true, ..twin },
                    None => {
                        entry.remove();
                    }
                }
                self.pair(name, other, it);
            }
            Entry::Occupied(_) => {
                it.flow = flow();
                self.twins.entry(name).or_default().push_back(it);
            }
            Entry::Vacant(_) if self.paired[Self::place(name)] == name => match flow() {
                STRANGER => self.found.strangers += 1,
                known => {
                    let count = self.found.count(known);
                    *(if it.is_second { &mut count.again_b } else { &mut count.again_a }) += 1;
                }
            },
            Entry::Vacant(entry) => {
                it.flow = flow();
                entry.insert(it);
            }
        }
    }

    fn pair(&mut self, name: u64, earlier: Waiting, later: Waiting) {
        let (a, b) = if later.is_second { (earlier, later) } else { (later, earlier) };
        self.found.pairs.flow.push(a.flow);
        self.found.pairs.a_ns.push(a.t_ns);
        self.found.pairs.b_ns.push(b.t_ns);
        self.found.pairs.bytes.push(a.bytes);
        self.found.count(a.flow).paired += 1;
        let difference = b.t_ns.wrapping_sub(a.t_ns) as i64;
        let way =
            self.ways.entry(a.flow).or_insert(Way { newest: [0; 2], least: difference, most: difference });
        way.newest = [way.newest[0].max(a.number), way.newest[1].max(b.number)];
        (way.least, way.most) = (way.least.min(difference), way.most.max(difference));
        self.paired[Self::place(name)] = name;
    }

    /// Gives up packets that have waited too long.
    #[inline]
    fn expire(&mut self, aligned_ns: u64, horizon_ns: u64) {
        self.since_sweep += 1;
        let is_due = self.since_sweep >= BETWEEN_SWEEPS && self.since_sweep >= 2 * self.waiting.len() as u64;
        if is_due || self.waiting.len() >= MOST_WAITING {
            self.sweep(aligned_ns, horizon_ns);
        }
    }

    #[cold]
    fn sweep(&mut self, aligned_ns: u64, horizon_ns: u64) {
        self.since_sweep = 0;
        let mut since = aligned_ns.saturating_sub(horizon_ns);
        if self.waiting.len() >= MOST_WAITING {
            let mut times: Vec<u64> = self.waiting.values().map(|it| self.aligned(it)).collect();
            let middle = times.len() / 2;
            let (_, median, _) = times.select_nth_unstable(middle);
            if *median > since {
                self.found.crowded += middle as u64;
                since = *median;
            }
        }
        let (shift_ns, left) = (self.shift_ns, &mut self.left);
        let mut strangers = 0;
        let mut is_young = |it: &Waiting| {
            let is_old = aligned(it, shift_ns) < since;
            match is_old {
                true if it.flow == STRANGER => strangers += 1,
                true => left.push(*it),
                false => {}
            }
            !is_old
        };
        self.waiting.retain(|_, it| is_young(it));
        self.twins.retain(|_, twins| {
            twins.retain(&mut is_young);
            !twins.is_empty()
        });
        self.found.strangers += strangers;
    }

    fn aligned(&self, it: &Waiting) -> u64 {
        aligned(it, self.shift_ns)
    }

    /// At the end of both captures: a waiting packet was lost, was in flight, or passed while only one capture ran.
    fn finish(mut self, is_single: bool) -> Found {
        let mut left = std::mem::take(&mut self.left);
        left.extend(self.waiting.drain().map(|(_, it)| it));
        left.extend(self.twins.drain().flat_map(|(_, twins)| twins));
        left.sort_unstable_by_key(|it| (it.t_ns, it.is_second, it.number));
        for it in left {
            self.settle(&it, is_single);
        }
        self.found.count_overtaken();
        self.found
    }

    fn settle(&mut self, it: &Waiting, is_single: bool) {
        let point = usize::from(it.is_second);
        let is_outside = !is_single && !self.was_other_running(it);
        let found = &mut self.found;
        if is_outside {
            found.outside[point] += 1;
            return;
        }
        if it.flow == STRANGER {
            found.strangers += 1;
            return;
        }
        // No later packet was seen at both points: the captures may have ended before it arrived.
        if self.ways.get(&it.flow).is_none_or(|way| it.number > way.newest[point]) {
            found.under_way[point] += 1;
            return;
        }
        found.lost.flow.push(it.flow);
        found.lost.t_ns.push(it.t_ns);
        found.lost.bytes.push(it.bytes);
        found.lost.is_second.push(it.is_second);
        let count = found.count(it.flow);
        *match (it.is_again, it.is_second) {
            (false, false) => &mut count.only_a,
            (false, true) => &mut count.only_b,
            (true, false) => &mut count.early_again_a,
            (true, true) => &mut count.early_again_b,
        } += 1;
    }

    /// Whether the other capture was running when this packet would have passed it, by the delay of its flow's pairs
    /// that gives the earliest time. A flow without pairs is judged by the rough alignment.
    fn was_other_running(&self, it: &Waiting) -> bool {
        let found = &self.found;
        let (a_span, b_span) =
            ((found.flows.first_ns, found.flows.last_ns), (found.b_first_ns, found.b_last_ns));
        match self.ways.get(&it.flow) {
            Some(way) if it.is_second => {
                (a_span.0..=a_span.1).contains(&it.t_ns.saturating_add_signed(way.most.saturating_neg()))
            }
            Some(way) => (b_span.0..=b_span.1).contains(&it.t_ns.saturating_add_signed(way.least)),
            None => {
                let [first, last] =
                    [b_span.0, b_span.1].map(|ns| ns.saturating_add_signed(self.shift_ns.saturating_neg()));
                let other = if it.is_second { a_span } else { (first, last) };
                (other.0..=other.1).contains(&self.aligned(it))
            }
        }
    }
}

impl Found {
    fn count(&mut self, flow: u32) -> &mut Count {
        let (number, side) = ((flow & !REVERSE) as usize, usize::from(flow & REVERSE != 0));
        let counts = &mut self.counts;
        if counts.len() <= number {
            counts.resize(number + 1, [Count::default(); 2]);
        }
        &mut counts[number][side]
    }

    /// Counts, per flow and direction, packets that arrived after one that was sent later, for either direction of the
    /// path.
    fn count_overtaken(&mut self) {
        let mut order: Vec<u32> = (0..self.pairs.flow.len() as u32).collect();
        for to_second in [true, false] {
            let Pairs { flow, a_ns, b_ns, .. } = &self.pairs;
            let (sent, arrived) = if to_second { (a_ns, b_ns) } else { (b_ns, a_ns) };
            order.sort_by_key(|place| (flow[*place as usize], arrived[*place as usize], *place));
            let (mut last, mut newest) = (STRANGER, 0);
            let mut overtaken: Vec<(u32, u64)> = Vec::new();
            for place in order.iter().map(|place| *place as usize) {
                if flow[place] != last {
                    (last, newest) = (flow[place], 0);
                    overtaken.push((last, 0));
                }
                if sent[place] < newest {
                    overtaken.last_mut().expect("an entry for this flow").1 += 1;
                }
                newest = newest.max(sent[place]);
            }
            for (flow, packets) in overtaken {
                let count = self.count(flow);
                *(if to_second { &mut count.overtaken_b } else { &mut count.overtaken_a }) = packets;
            }
        }
    }
}

/// Its approximate time by the first clock.
fn aligned(it: &Waiting, shift_ns: i64) -> u64 {
    if it.is_second { it.t_ns.saturating_add_signed(-shift_ns) } else { it.t_ns }
}

/// The fields to hash: TCP timestamps only if every capture kept them.
pub fn naming(sources: &mut [&mut Source]) -> Naming {
    let mut packet = Packet::default();
    let mut is_cut = false;
    for source in sources {
        let mut frames = 0;
        source.each(|frame| {
            frames += 1;
            is_cut |= decode(&frame, &mut packet, Naming::None).is_ok() && packet.is_cut;
            !is_cut && frames < CUT_PREFIX
        });
    }
    if is_cut { Naming::WithoutStamps } else { Naming::Whole }
}

/// Reads the next packet of the second capture that can be hashed.
fn next_named(source: &mut Source, packet: &mut Packet, short: &mut u64, naming: Naming) -> bool {
    loop {
        let mut outcome = None;
        let is_over = source.each(|frame| {
            outcome = Some(decode(&frame, packet, naming).is_ok());
            false
        });
        match outcome {
            Some(true) if packet.is_short => *short += 1,
            Some(true) => return true,
            Some(false) => {}
            None if is_over => return false,
            None => {}
        }
    }
}

/// The difference of the clocks, second minus first, from the first packets found in both captures.
fn first_shift(a: &mut Source, b: &mut Source, naming: Naming) -> Result<i64, Unpaired> {
    let mut seen: [FxHashMap<u64, u64>; 2] = Default::default();
    let mut packets = [0u64; 2];
    let mut short = [0u64; 2];
    let mut spans_ns = [(u64::MAX, 0u64); 2];
    let mut packet = Packet::default();
    let mut is_over = [false; 2];
    let sources = [a, b];
    while !(is_over[0] && is_over[1]) {
        for which in 0..2 {
            if is_over[which] || seen[which].len() >= PREFIX {
                is_over[which] = true;
                continue;
            }
            if !next_named(sources[which], &mut packet, &mut short[which], naming) {
                is_over[which] = true;
                continue;
            }
            packets[which] += 1;
            let span = &mut spans_ns[which];
            *span = (span.0.min(packet.t_ns), span.1.max(packet.t_ns));
            if let Some(other) = seen[1 - which].get(&packet.name) {
                let (own, other) = (packet.t_ns as i64, *other as i64);
                return Ok(if which == 1 { own - other } else { other - own });
            }
            seen[which].entry(packet.name).or_insert(packet.t_ns);
        }
    }
    if packets.contains(&0) {
        return Err(Unpaired::NothingNamed {
            packets: [packets[0] + short[0], packets[1] + short[1]],
            short,
        });
    }
    Err(Unpaired::NothingCommon { packets, short, spans_ns })
}

/// Pairs two captures; `open` opens each from the start and is called twice.
pub fn pair(
    mut open: impl FnMut(usize) -> Result<Source, NoCapture>,
    horizon_ns: u64,
    mut keep_on: impl FnMut() -> bool,
) -> Result<Found, Failure> {
    let naming = naming(&mut [&mut open(0)?, &mut open(1)?]);
    let shift_ns = first_shift(&mut open(0)?, &mut open(1)?, naming).map_err(Failure::Unpaired)?;
    let (mut a, mut b) = (open(0)?, open(1)?);
    let mut it = Pairing::new(shift_ns, naming);
    let mut second = Packet::default();
    let mut short = [0u64; 2];
    let mut has_second = next_named(&mut b, &mut second, &mut short[1], naming);
    it.found.b_first_ns = second.t_ns;
    let mut steps = 0u64;
    let mut flows = Flows::named(naming);
    let is_whole = a.each(|frame| {
        steps += 1;
        if steps % 100_000 == 0 && !keep_on() {
            return false;
        }
        // First process what the second capture has until then.
        while has_second {
            let aligned = second.t_ns.saturating_add_signed(-shift_ns);
            if aligned >= frame.t_ns {
                break;
            }
            take_second(&mut it, &second, &flows);
            has_second = next_named(&mut b, &mut second, &mut short[1], naming);
        }
        let Some(owned) = flows.take(&frame) else { return true };
        if owned.packet.is_short {
            short[0] += 1;
            return true;
        }
        let flow = owned.flow | if owned.is_reverse { REVERSE } else { 0 };
        let t_ns = owned.packet.t_ns;
        it.see(
            owned.packet.name,
            Waiting {
                t_ns,
                flow,
                bytes: owned.packet.bytes,
                number: number_of(steps),
                is_second: false,
                is_again: false,
            },
            || flow,
        );
        it.expire(t_ns, horizon_ns);
        true
    });
    while is_whole && has_second && keep_on() {
        let aligned = second.t_ns.saturating_add_signed(-shift_ns);
        take_second(&mut it, &second, &flows);
        it.expire(aligned, horizon_ns);
        has_second = next_named(&mut b, &mut second, &mut short[1], naming);
    }
    (it.found.flows, it.found.short) = (flows, short);
    it.found.trouble = [a.trouble.take(), b.trouble.take()];
    Ok(it.finish(false))
}

fn take_second(it: &mut Pairing, packet: &Packet, flows: &Flows) {
    it.found.b_packets += 1;
    it.found.b_last_ns = it.found.b_last_ns.max(packet.t_ns);
    let waiting = Waiting {
        t_ns: packet.t_ns,
        flow: STRANGER,
        bytes: packet.bytes,
        number: number_of(it.found.b_packets),
        is_second: true,
        is_again: false,
    };
    it.see(packet.name, waiting, || {
        flows.find(packet).map_or(STRANGER, |(flow, is_reverse)| flow | if is_reverse { REVERSE } else { 0 })
    });
}

fn number_of(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Pairs a capture that holds each packet twice with itself: the first sighting belongs to the first point, later ones
/// to the second. `naming` is the result of [`naming`].
pub fn pair_within(
    source: &mut Source,
    naming: Naming,
    horizon_ns: u64,
    mut keep_on: impl FnMut() -> bool,
) -> Found {
    let mut it = Pairing::new(0, naming);
    let mut flows = Flows::named(naming);
    let mut short = 0;
    let mut steps = 0u64;
    source.each(|frame| {
        steps += 1;
        if steps % 100_000 == 0 && !keep_on() {
            return false;
        }
        let Some(owned) = flows.take(&frame) else { return true };
        if owned.packet.is_short {
            short += 1;
            return true;
        }
        let flow = owned.flow | if owned.is_reverse { REVERSE } else { 0 };
        let (name, t_ns, bytes) = (owned.packet.name, owned.packet.t_ns, owned.packet.bytes);
        let is_second = it.waiting.contains_key(&name) || it.was_paired(name);
        let number = number_of(steps);
        it.see(name, Waiting { t_ns, flow, bytes, number, is_second, is_again: false }, || flow);
        it.expire(t_ns, horizon_ns);
        true
    });
    (it.found.flows, it.found.short) = (flows, [short, 0]);
    it.found.trouble = [source.trouble.take(), None];
    it.finish(true)
}
