//! Tins: classes by DSCP, each with a rate up to which it has priority, and the rotation of flows in one.

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

/// Where a queue stands in its tin's rotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Set {
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

#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    pub line: Line,
    pub cobalt: Cobalt,
    pub deficit: i64,
    pub set: Set,
    /// Whose packets it holds or held last.
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
    /// The rate up to which it has priority; `None`: no shaper.
    pub rate: Option<Rate>,
    pub flow_quantum: i64,
    pub tin_quantum: i64,
    pub deficit: i64,
    pub next: Time,
    pub held: Backlog,
    pub bulk_flows: u32,
    /// Backlogged flows of each host as source and as destination.
    pub bulk_of: [Vec<u32>; 2],
}

/// The tins of one way to class packets.
pub(super) struct Layout {
    /// Of the rate in 1/1024, and of a round; from lowest to highest priority. Bulk stands above best effort: it has its
    /// sixteenth, and nothing beyond while others want it.
    pub shares: &'static [(u64, i64)],
    /// The tin of a DSCP.
    pub class: fn(u8) -> u8,
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
        // A fraction of a byte is drawn, so that many flows of one host get its part and no less.
        self.flow_quantum / load + i64::from(random.below(load as u64) < (self.flow_quantum % load) as u64)
    }

    /// Whether no flow is in its rotation. One whose last packet has just left still is.
    pub fn is_idle(&self) -> bool {
        self.new.is_empty() && self.old.is_empty()
    }

    /// `place` got a packet: it enters the rotation if it stood outside.
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

    /// The list that is served. Each dequeue first looks once at a queue that decays.
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

    /// The queue whose turn it is, at the head of its list, with credit left; those without go behind the others with a
    /// quantum more. `None`: no queue is listed.
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

    /// `place`, at the head of its list, is empty: it leaves the rotation, and decays until its COBALT rests.
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

    /// `packet` is no longer here.
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
