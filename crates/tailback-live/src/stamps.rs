//! When packets passed between hosts and emulator, by the kernel's clock: what a capture card would record.
//!
//! A packet waits in its host's device until the emulator reads it. Its stamp shows for how long, so the path can
//! accept it as of its send time, unless something later has already happened there. The stamps are in memory shared
//! with a BPF program (`bpf/log/stamps.bpf.c`), so checking for waiting packets needs no system call.

use crate::bpf::{Loaded, Memory};
use crate::clock;
use crate::error::LiveError;
use crate::headers::is_v6;
use crate::recipe::Recipe;

const SOURCE: &str = include_str!("../../../bpf/log/stamps.bpf.c");
/// Stamps kept per device and direction: more than wait unread in any punctual run.
const ROOM: u64 = 1 << 14;
/// The largest number of hosts.
const MOST_HOSTS: usize = 64;
const WORDS_OF_A_STAMP: usize = 4;
const NUMBER: usize = 2;
const WORDS_OF_A_COUNT: usize = 8;
/// How long the write of a counted stamp may take.
const WRITING_NS: u64 = 20_000;
/// How far from its expected place a packet's stamp may be, because two processors may send at once.
const NEAR: u64 = 8;

/// The stamps of every host's device.
pub struct Stamps {
    counts: Memory,
    stamps: Memory,
    /// For each device, the first stamp whose packet has not been read.
    next: Vec<u64>,
    _loaded: Loaded,
}

impl std::fmt::Debug for Stamps {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Stamps").field("next", &self.next).finish_non_exhaustive()
    }
}

/// A key that identifies a packet's stamp, computed as in the BPF program.
fn key(frame: &[u8]) -> Option<u64> {
    frame.first()?;
    let word = |at: usize| -> Option<u32> {
        Some(u32::from_ne_bytes(frame.get(at..at + 4)?.try_into().expect("four bytes")))
    };
    let [destination, inner] = if is_v6(frame) { [36, 44] } else { [16, 24] };
    let key = word(4)? ^ word(destination)? ^ word(inner)?;
    Some(u64::from(key) | (frame.len() as u64) << 32)
}

/// The stamp program for this many hosts.
pub fn recipe(hosts: usize) -> Recipe {
    Recipe::new("stamps", SOURCE, vec![("HOSTS", hosts.to_string()), ("ROOM", ROOM.to_string())])
}

impl Stamps {
    /// Stamps the packets of the hosts with these namespace numbers; port `i` belongs to host `i`.
    pub fn attach(hosts: &[u64]) -> Result<Self, LiveError> {
        if hosts.len() > MOST_HOSTS {
            return Err(LiveError::Failed(format!(
                "{} hosts: packets can be stamped at {MOST_HOSTS}",
                hosts.len()
            )));
        }
        let object = recipe(hosts.len()).object()?;
        let mut loaded = Loaded::load_for("stamps", &object, hosts, None)?;
        let counts = loaded.memory("counts", 2 * hosts.len() * WORDS_OF_A_COUNT)?;
        let stamps = loaded.memory("stamps", 2 * hosts.len() * ROOM as usize * WORDS_OF_A_STAMP)?;
        loaded.attach("on_sent")?;
        loaded.attach("on_received")?;
        Ok(Stamps { counts, stamps, next: vec![0; hosts.len()], _loaded: loaded })
    }

    fn count(&self, ring: usize) -> u64 {
        self.counts.word(ring * WORDS_OF_A_COUNT)
    }

    fn place(ring: usize, number: u64) -> usize {
        (ring * ROOM as usize + (number & (ROOM - 1)) as usize) * WORDS_OF_A_STAMP
    }

    /// A stamp in nanoseconds; `None` while it is being written.
    fn ns(&self, ring: usize, number: u64) -> Option<u64> {
        let place = Self::place(ring, number);
        let is_written = self.stamps.word(place + NUMBER) == number + 1;
        is_written.then(|| self.stamps.word(place))
    }

    /// Among the ports selected by `meant`, the one whose oldest unread packet was sent first, and its send time;
    /// `None` if no packet is known to wait.
    pub fn waiting(&self, meant: impl Fn(usize) -> bool) -> Option<(usize, u64)> {
        let waits = |port: &usize| meant(*port) && self.count(2 * port) > self.next[*port];
        let sent = |port: usize| self.await_ns(2 * port, self.next[port]).map(|ns| (port, ns));
        (0..self.next.len()).filter(waits).filter_map(sent).min_by_key(|(_, ns)| *ns)
    }

    /// A stamp in nanoseconds, waiting briefly for its writer; `None` if the writer is delayed.
    fn await_ns(&self, ring: usize, number: u64) -> Option<u64> {
        let mut since = None;
        loop {
            if let Some(ns) = self.ns(ring, number) {
                return Some(ns);
            }
            let now = clock::monotonic_ns();
            if now - *since.get_or_insert(now) > WRITING_NS {
                return None;
            }
            std::hint::spin_loop();
        }
    }

    /// The send time of the packet that was read at this port.
    pub fn sent(&mut self, port: usize, frame: &[u8]) -> Option<u64> {
        let expected = self.next[port];
        let key = key(frame)?;
        let known = self.count(2 * port);
        let later = expected..known.min(expected + NEAR);
        let earlier = expected.saturating_sub(NEAR)..expected;
        let is_its = |number: &u64| {
            self.ns(2 * port, *number).is_some()
                && self.stamps.word(Self::place(2 * port, *number) + 1) == key
        };
        let found = later.chain(earlier).find(is_its);
        match found {
            Some(number) => {
                self.next[port] = expected.max(number + 1);
                Some(self.stamps.word(Self::place(2 * port, number)))
            }
            None => {
                // The program may miss packets that a device receives; never wait for such a stamp.
                self.next[port] = known.min(expected + 1);
                None
            }
        }
    }

    /// Gives up the packet expected at this port.
    pub fn give_up(&mut self, port: usize) {
        self.next[port] += 1;
    }

    /// When the latest packet written to this port reached its host; zero before the first.
    pub fn received(&self, port: usize) -> u64 {
        let ring = 2 * port + 1;
        match self.count(ring) {
            0 => 0,
            count => self.await_ns(ring, count - 1).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_of_the_packet_and_its_length() {
        let mut frame = vec![0u8; 40];
        let first = key(&frame);
        frame[4] = 1;
        let second = key(&frame);
        frame[24] = 1;
        assert_ne!(first, second);
        // The words are combined by XOR: flipping the same bit twice has no effect.
        assert_eq!(first, key(&frame));
        frame.push(0);
        assert_ne!(first, key(&frame));
        assert_eq!(key(&frame[..20]), None);
    }
}
