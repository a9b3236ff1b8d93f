//! Tins: traffic classes by DSCP, each with a rate up to which it has priority, and the rotation of the flows in a tin.

use std::collections::VecDeque;

use super::MTU;
use super::cobalt::{Cobalt, Law};
use super::hash::{Isolation, QUEUES};
use crate::packet::Packet;
use crate::queue::Backlog;
use crate::queue::dscp::{EF, LE, VA};
use crate::queue::parts::Line;
use crate::rng::Stream;
use crate::time::{Bytes, Duration, Rate, Time};

/// State of a queue in its tin's rotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Set {
    /// Not in the rotation: it has no packets and its COBALT state has decayed.
    #[default]
    None,
    /// In the list of new queues, until its first deficit is spent.
    Sparse,
    /// In the rotation but empty; counts as sparse.
    SparseWait,
    /// In the rotation with packets.
    Bulk,
    /// Empty, while its COBALT state decays.
    Decaying,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    pub line: Line,
    pub cobalt: Cobalt,
    pub deficit: i64,
    pub set: Set,
    /// Tag of the flow that uses it or used it last.
    pub tag: u64,
    pub hosts: [u32; 2],
}

#[derive(Clone, Debug)]
pub(super) struct Tin {
    pub flows: Vec<Flow>,
    pub new: VecDeque<u32>,
    pub old: VecDeque<u32>,
    pub decaying: VecDeque<u32>,
    pub law: Law,
    /// Rate up to which the tin has priority; `None` without a shaper.
    pub rate: Option<Rate>,
    pub flow_quantum: i64,
    pub tin_quantum: i64,
    pub deficit: i64,
    pub next: Time,
    pub held: Backlog,
    pub bulk_flows: u32,
    /// Number of backlogged flows of each host, as source and as destination.
    pub bulk_of: [Vec<u32>; 2],
}

/// The tins of a diffserv mode.
pub(super) struct Layout {
    /// Each tin's share of the rate in 1/1024, and its quantum, from lowest to highest priority. Bulk has priority over
    /// best effort up to its sixteenth, and gets no more while other tins have traffic.
    pub shares: &'static [(u64, i64)],
    /// Maps a DSCP to its tin.
    pub class: fn(u8) -> u8,
}

/// Class selector of a DSCP: its three highest bits.
const fn selector(dscp: u8) -> u8 {
    dscp >> 3
}

fn besteffort(_: u8) -> u8 {
    0
}

/// Tins: 0 best effort, 1 bulk, 2 voice.
fn diffserv3(dscp: u8) -> u8 {
    match dscp {
        LE | 8 => 1,
        4 | VA | EF | 48 | 56 => 2,
        _ => 0,
    }
}

/// Tins: 0 best effort, 1 bulk, 2 video, 3 voice.
fn diffserv4(dscp: u8) -> u8 {
    match dscp {
        LE | 8 => 1,
        4 | 16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 34 | 36 | 38 => 2,
        32 | 40 | VA | EF | 48 | 56 => 3,
        _ => 0,
    }
}

/// Tins from 0, lowest priority, to 7.
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

/// Each share is 7/8 of the previous one.
const EIGHTHS: [(u64, i64); 8] =
    [(1024, 256), (896, 224), (784, 196), (686, 171), (600, 149), (525, 130), (459, 113), (402, 98)];

pub(super) fn layout(name: &str) -> Layout {
    match name {
        "besteffort" => Layout { shares: &[(1024, 1024)], class: besteffort },
        "diffserv4" => Layout { shares: &[(1024, 1024), (64, 64), (512, 512), (256, 256)], class: diffserv4 },
        "diffserv8" => Layout { shares: &EIGHTHS, class: diffserv8 },
        _ => Layout { shares: &[(1024, 1024), (64, 64), (256, 256)], class: diffserv3 },
    }
}

impl Tin {
    pub fn new(rate: Option<Rate>, tin_quantum: i64, rtt: Duration, hosts: usize) -> Self {
        let target = Duration::from_ps(rtt.as_ps() / 20);
        let mtu_time = rate.map_or(Duration::ZERO, |rate| rate.time_for(MTU));
        // For a slow tin the target is the time of one and a half packets, and its interval grows with it.
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

    pub fn count_bulk(&mut self, flow: u32, is_more: bool) {
        let hosts = self.flows[flow as usize].hosts;
        let change = |count: &mut u32| if is_more { *count += 1 } else { *count -= 1 };
        change(&mut self.bulk_flows);
        for (side, host) in hosts.into_iter().enumerate() {
            change(&mut self.bulk_of[side][host as usize]);
        }
    }

    pub fn quantum(&self, flow: u32, isolation: Isolation, random: &mut Stream) -> i64 {
        let hosts = self.flows[flow as usize].hosts;
        let busy =
            |side: usize| if isolation.shares[side] { self.bulk_of[side][hosts[side] as usize] } else { 1 };
        let load = i64::from(busy(0).max(busy(1)).max(1));
        // The remainder is rounded up at random, so that the flows of one host together get exactly its share.
        self.flow_quantum / load + i64::from(random.below(load as u64) < (self.flow_quantum % load) as u64)
    }

    /// Whether no flow is in the rotation. A flow whose last packet has just left still is.
    pub fn is_idle(&self) -> bool {
        self.new.is_empty() && self.old.is_empty()
    }

    /// Queue `place` received a packet: adds it to the rotation if it is not there.
    pub fn join(&mut self, place: u32, isolation: Isolation, random: &mut Stream) {
        let flow = &mut self.flows[place as usize];
        match flow.set {
            Set::None | Set::Decaying => {
                if flow.set == Set::Decaying {
                    self.decaying.retain(|other| *other != place);
                }
                self.flows[place as usize].set = Set::Sparse;
                self.new.push_back(place);
                self.flows[place as usize].deficit = self.quantum(place, isolation, random);
            }
            Set::SparseWait => {
                flow.set = Set::Bulk;
                self.count_bulk(place, true);
            }
            Set::Sparse | Set::Bulk => {}
        }
    }

    /// The list to serve next. The first call of a dequeue serves a decaying queue, if any.
    fn list(&mut self, is_first: bool) -> &mut VecDeque<u32> {
        if is_first && !self.decaying.is_empty() {
            &mut self.decaying
        } else if !self.new.is_empty() {
            &mut self.new
        } else if !self.old.is_empty() {
            &mut self.old
        } else {
            &mut self.decaying
        }
    }

    /// The queue to serve, at the head of its list, with deficit left. Queues without deficit move to the tail with one
    /// more quantum. `None`: no queue is listed.
    pub fn turn(&mut self, is_first: &mut bool, isolation: Isolation, random: &mut Stream) -> Option<u32> {
        loop {
            let looks_at_decaying = std::mem::take(is_first);
            let place = *self.list(looks_at_decaying).front()?;
            if self.flows[place as usize].deficit > 0 {
                return Some(place);
            }
            self.list(looks_at_decaying).pop_front();
            let flow = &mut self.flows[place as usize];
            if flow.set == Set::Sparse {
                if flow.line.is_empty() {
                    flow.set = Set::SparseWait;
                } else {
                    flow.set = Set::Bulk;
                    self.count_bulk(place, true);
                }
            }
            self.old.push_back(place);
            let quantum = self.quantum(place, isolation, random);
            self.flows[place as usize].deficit += quantum;
        }
    }

    /// Removes the empty queue `place` from the head of its list; it decays until its COBALT state is zero.
    pub fn retire(&mut self, place: u32, now: Time) {
        let law = self.law;
        let flow = &mut self.flows[place as usize];
        let was = flow.set;
        flow.cobalt.on_empty(&law, now);
        flow.set = if flow.cobalt.rests(now) { Set::None } else { Set::Decaying };
        let decays = flow.set == Set::Decaying;
        let list = match was {
            Set::Decaying => &mut self.decaying,
            Set::Sparse => &mut self.new,
            _ => &mut self.old,
        };
        let front = list.pop_front();
        debug_assert_eq!(front, Some(place), "a queue is served at the head of its list");
        if was == Set::Bulk {
            self.count_bulk(place, false);
        }
        if decays {
            self.decaying.push_back(place);
        }
    }

    /// Updates the backlog after `packet` has left.
    pub fn let_go(&mut self, packet: &Packet) {
        self.held.packets -= 1;
        self.held.bytes -= Bytes::from(packet.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::dscp;

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
}
