//! The same packet at two points: one-way delay, loss, duplication and reordering.
//!
//! Packets are paired by their names, a hash of what routers leave alone. Both captures are read side by side, in order of
//! time once the clocks are roughly aligned by the first packet found in both; what has waited longer than a horizon is
//! given up, so memory is bounded. Equal names pair first come, first served. One capture that holds each packet twice
//! (before and after the path) is paired with itself.
//!
//! Source: CAIA Technical Report 080818A section IV-B (one capture, each packet twice); CAIA SPP 0.3 (two captures, horizon
//! of 60 s). Clocks: the smallest delay each way is taken as equal, as NTP does (RFC 5905 section 8).

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::decode::{Packet, decode};
use crate::flows::Flows;
use crate::source::{NoCapture, Source};

/// Frames of each capture among which the first common packet is looked for.
const PREFIX: usize = 2_000_000;
/// Packets that wait at most: beyond that the older half is given up.
const MOST_WAITING: usize = 4_000_000;
/// At least so many packets between two looks at who has waited too long.
const BETWEEN_SWEEPS: u64 = 500_000;
/// Bits of the number of names remembered of pairs, to know a third sighting for a duplicate.
const MEMORY_BITS: u32 = 18;
/// So long a packet waits for its other sighting, in nanoseconds.
pub const HORIZON_NS: u64 = 60_000_000_000;

/// Packets seen at both points.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// Flow of the first capture, with [`REVERSE`] if from the server to the client.
    pub flow: Vec<u32>,
    /// When it passed the first point,
    pub a_ns: Vec<u64>,
    /// and the second, by its own clock.
    pub b_ns: Vec<u64>,
    /// IP length.
    pub bytes: Vec<u32>,
}

/// The bit of [`Pairs::flow`] for the direction.
pub const REVERSE: u32 = 1 << 31;

/// Delays of one direction of a flow: second stamp less first, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    /// Flow and direction.
    pub flow: u32,
    /// Smallest,
    pub min: i64,
    /// largest
    pub max: i64,
    /// and mean.
    pub mean: f64,
    /// At [`QUANTILES`] of the packets.
    pub quantiles: Vec<i64>,
}

/// The quantiles of the delays that are reported.
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

/// What was not paired, of one direction of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Pairs.
    pub paired: u64,
    /// Seen at the first point only, while the second capture ran,
    pub only_a: u64,
    /// and at the second only.
    pub only_b: u64,
    /// Further sightings at the first point,
    pub again_a: u64,
    /// and at the second.
    pub again_b: u64,
    /// Overtaken on the way to the second point,
    pub overtaken_b: u64,
    /// and to the first.
    pub overtaken_a: u64,
    newest_a: u64,
    newest_b: u64,
}

/// Everything found.
#[derive(Debug, Default)]
pub struct Found {
    /// The pairs.
    pub pairs: Pairs,
    /// Counts by flow and direction.
    pub counts: Vec<[Count; 2]>,
    /// The first capture's flows.
    pub flows: Flows,
    /// Of the second capture: frames, packets that could be named,
    pub b_packets: u64,
    /// its first stamp
    pub b_first_ns: u64,
    /// and its last.
    pub b_last_ns: u64,
    /// Packets of either capture of which too little was kept.
    pub short: [u64; 2],
    /// Packets of the second capture that were in no flow of the first.
    pub strangers: u64,
    /// Packets that passed while only one capture ran.
    pub outside: [u64; 2],
    /// Given up although the horizon was not over, for want of room.
    pub crowded: u64,
    /// What ended either capture too early, if anything did.
    pub trouble: [Option<String>; 2],
}

/// Why there are no pairs.
#[derive(Debug)]
pub enum Failure {
    /// A file is no capture.
    NoCapture(NoCapture),
    /// They do not belong together.
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
    /// No packet could be named.
    NothingNamed {
        /// Packets read of each capture,
        packets: [u64; 2],
        /// of which so many were cut too short.
        short: [u64; 2],
    },
    /// Nothing of one is in the other.
    NothingCommon {
        /// Packets compared.
        packets: [u64; 2],
        /// First and last stamps.
        spans_ns: [(u64, u64); 2],
    },
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    t_ns: u64,
    flow: u32,
    bytes: u32,
    is_second: bool,
}

struct Pairing {
    found: Found,
    waiting: FxHashMap<u64, Waiting>,
    /// Further packets of the same name from the same point.
    twins: FxHashMap<u64, VecDeque<Waiting>>,
    /// Packets since the last look at who has waited too long.
    since_sweep: u64,
    /// Names of pairs, each at the place its highest bits say; a later one takes the place.
    paired: Vec<u64>,
    /// Second clock less first, roughly.
    shift_ns: i64,
}

/// A packet of the second capture whose flow the first has not had so far.
const STRANGER: u32 = u32::MAX;

impl Pairing {
    fn new(shift_ns: i64) -> Self {
        Pairing {
            found: Found::default(),
            waiting: FxHashMap::default(),
            twins: FxHashMap::default(),
            since_sweep: 0,
            paired: vec![0; 1 << MEMORY_BITS],
            shift_ns,
        }
    }

    fn count(&mut self, flow: u32) -> &mut Count {
        let (number, side) = ((flow & !REVERSE) as usize, usize::from(flow & REVERSE != 0));
        let counts = &mut self.found.counts;
        if counts.len() <= number {
            counts.resize(number + 1, [Count::default(); 2]);
        }
        &mut counts[number][side]
    }

    fn place(name: u64) -> usize {
        (name >> (64 - MEMORY_BITS)) as usize
    }

    /// A packet passes a point; `flow` is asked for if it has to wait.
    #[inline]
    fn see(&mut self, name: u64, mut it: Waiting, flow: impl FnOnce() -> u32) {
        match self.waiting.entry(name) {
            Entry::Occupied(mut entry) if entry.get().is_second != it.is_second => {
                let other = *entry.get();
                match self.twins.get_mut(&name).and_then(VecDeque::pop_front) {
                    Some(twin) => *entry.get_mut() = twin,
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
                    let count = self.count(known);
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
        let count = self.count(a.flow);
        count.paired += 1;
        if later.is_second {
            count.overtaken_b += u64::from(a.t_ns < count.newest_a);
            count.newest_a = count.newest_a.max(a.t_ns);
        } else {
            count.overtaken_a += u64::from(b.t_ns < count.newest_b);
            count.newest_b = count.newest_b.max(b.t_ns);
        }
        self.paired[Self::place(name)] = name;
    }

    /// Give up what has waited too long.
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
        let shift_ns = self.shift_ns;
        let mut old = Vec::new();
        let mut is_young = |it: &Waiting| {
            let is_old = aligned(it, shift_ns) < since;
            if is_old {
                old.push(*it);
            }
            !is_old
        };
        self.waiting.retain(|_, it| is_young(it));
        self.twins.retain(|_, twins| {
            twins.retain(&mut is_young);
            !twins.is_empty()
        });
        for it in old {
            self.give_up(it);
        }
    }

    fn aligned(&self, it: &Waiting) -> u64 {
        aligned(it, self.shift_ns)
    }

    fn give_up(&mut self, it: Waiting) {
        if it.flow == STRANGER {
            self.found.strangers += 1;
            return;
        }
        let count = self.count(it.flow);
        *(if it.is_second { &mut count.only_b } else { &mut count.only_a }) += 1;
    }

    /// Everything was read: what waits is lost, or passed while only one capture ran.
    fn finish(mut self, is_single: bool) -> Found {
        let mut left: Vec<Waiting> = self.waiting.drain().map(|(_, it)| it).collect();
        left.extend(self.twins.drain().flat_map(|(_, twins)| twins));
        left.sort_by_key(|it| it.t_ns);
        let found = &self.found;
        let a_span = (found.flows.first_ns, found.flows.last_ns);
        let b_span = [found.b_first_ns, found.b_last_ns].map(|ns| ns.saturating_add_signed(-self.shift_ns));
        for it in left {
            let aligned = self.aligned(&it);
            let other = if it.is_second { a_span } else { (b_span[0], b_span[1]) };
            if !is_single && !(other.0..=other.1).contains(&aligned) {
                self.found.outside[usize::from(it.is_second)] += 1;
            } else {
                self.give_up(it);
            }
        }
        self.found
    }
}

/// When it was by the first clock, roughly.
fn aligned(it: &Waiting, shift_ns: i64) -> u64 {
    if it.is_second { it.t_ns.saturating_add_signed(-shift_ns) } else { it.t_ns }
}

/// The next packet of the second capture that has a name.
fn next_named(source: &mut Source, packet: &mut Packet, short: &mut u64) -> bool {
    loop {
        let mut outcome = None;
        let is_over = source.each(|frame| {
            outcome = Some(decode(&frame, packet, true).is_ok());
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

/// Second clock less first by the first packets found in both, from their beginnings.
fn first_shift(a: &mut Source, b: &mut Source) -> Result<i64, Unpaired> {
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
            if !next_named(sources[which], &mut packet, &mut short[which]) {
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
    Err(Unpaired::NothingCommon { packets, spans_ns })
}

/// Pair two captures; `open` opens each from its beginning, twice.
pub fn pair(
    mut open: impl FnMut(usize) -> Result<Source, NoCapture>,
    horizon_ns: u64,
    mut keep_on: impl FnMut() -> bool,
) -> Result<Found, Failure> {
    let shift_ns = first_shift(&mut open(0)?, &mut open(1)?).map_err(Failure::Unpaired)?;
    let (mut a, mut b) = (open(0)?, open(1)?);
    let mut it = Pairing::new(shift_ns);
    let mut second = Packet::default();
    let mut short = [0u64; 2];
    let mut has_second = next_named(&mut b, &mut second, &mut short[1]);
    it.found.b_first_ns = second.t_ns;
    let mut steps = 0u64;
    let mut flows = Flows::named();
    let is_whole = a.each(|frame| {
        steps += 1;
        if steps % 100_000 == 0 && !keep_on() {
            return false;
        }
        // Whatever the second capture has until then comes first.
        while has_second {
            let aligned = second.t_ns.saturating_add_signed(-shift_ns);
            if aligned >= frame.t_ns {
                break;
            }
            take_second(&mut it, &second, &flows);
            has_second = next_named(&mut b, &mut second, &mut short[1]);
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
            Waiting { t_ns, flow, bytes: owned.packet.bytes, is_second: false },
            || flow,
        );
        it.expire(t_ns, horizon_ns);
        true
    });
    while is_whole && has_second && keep_on() {
        let aligned = second.t_ns.saturating_add_signed(-shift_ns);
        take_second(&mut it, &second, &flows);
        it.expire(aligned, horizon_ns);
        has_second = next_named(&mut b, &mut second, &mut short[1]);
    }
    (it.found.flows, it.found.short) = (flows, short);
    it.found.trouble = [a.trouble.take(), b.trouble.take()];
    Ok(it.finish(false))
}

fn take_second(it: &mut Pairing, packet: &Packet, flows: &Flows) {
    it.found.b_packets += 1;
    it.found.b_last_ns = it.found.b_last_ns.max(packet.t_ns);
    let waiting = Waiting { t_ns: packet.t_ns, flow: STRANGER, bytes: packet.bytes, is_second: true };
    it.see(packet.name, waiting, || {
        flows.find(packet).map_or(STRANGER, |(flow, is_reverse)| flow | if is_reverse { REVERSE } else { 0 })
    });
}

/// Pair a capture that holds each packet twice with itself: the first sighting is the first point's.
pub fn pair_within(source: &mut Source, horizon_ns: u64, mut keep_on: impl FnMut() -> bool) -> Found {
    let mut it = Pairing::new(0);
    let mut flows = Flows::named();
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
        let (name, t_ns) = (owned.packet.name, owned.packet.t_ns);
        let is_second = it.waiting.contains_key(&name);
        it.see(name, Waiting { t_ns, flow, bytes: owned.packet.bytes, is_second }, || flow);
        it.expire(t_ns, horizon_ns);
        true
    });
    (it.found.flows, it.found.short) = (flows, [short, 0]);
    it.found.trouble = [source.trouble.take(), None];
    it.finish(true)
}
