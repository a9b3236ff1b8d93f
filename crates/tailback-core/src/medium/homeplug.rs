//! HomePlug AV: Ethernet over power lines.

use super::Registered;
use super::access::{Access, Air, Frame, Rules, us};
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Rate, Time};

const CARD: Card = Card {
    name: "homeplug",
    title: "HomePlug AV",
    law: "after CIFS and two priority slots stations count backoff slots. The winner sends a delimiter of \
          110.48 µs and physical blocks of 512 bytes, 520 on the wire at the PHY rate, up to `payload_us` of \
          them. After RIFS the answer says which blocks were good. Bad blocks go again, with new ones behind \
          them; packets are released in order. A station that hears others begin widens its window without \
          having failed (the deferral counter). Nothing is sent in the beacon's region at the start of each \
          two mains cycles",
    source: "IEEE 1901-2010 (FFT PHY and CSMA/CA). Vlachou, Banchs, Herzen and Thiran, \"On the MAC for \
             power-line communications: modeling assumptions and performance tradeoffs\", ICNP 2014 (windows, \
             deferral counters, slot, collision of 2920.64 µs). HomePlug AV white paper (2005): delimiter, \
             blocks, beacon of two mains cycles",
    differs: &[
        "One network, one priority; no TDMA allocations, no bursts of several delimiters",
        "The PHY rate is the tone map's, constant over the mains cycle; blocks fail independently",
        "The longest payload is a parameter: devices limit their aggregates, and say nothing of it",
    ],
    live_twin: None,
    params: &[
        ParamSpec::number("phy_mbps", "Mbit/s", 107.0, (1.0, 200.0), "PHY rate of this direction."),
        ParamSpec::number("payload_us", "us", 600.0, (150.0, 2501.12), "Longest payload of an exchange."),
        ParamSpec::number("block_error", "", 0.05, (0.0, 0.9), "Probability that a block is bad."),
        ParamSpec::choice("priority", &["ca1", "ca3"], "Which windows: best effort, or voice."),
        ParamSpec::number("rifs_us", "us", 140.0, (30.0, 160.0), "From data to acknowledgement."),
        ParamSpec::number("beacon_ms", "ms", 40.0, (10.0, 100.0), "Two mains cycles: 40 at 50 Hz."),
        ParamSpec::number("beacon_region_us", "us", 1000.0, (0.0, 5000.0), "Silence at each beacon."),
        ParamSpec::whole("tries", "", 30, (1, 255), "Transmissions before a packet is dropped."),
    ],
};

/// Times in microseconds.
const SLOT: f64 = 35.84;
const CIFS: f64 = 100.0;
const DELIMITER: f64 = 110.48;
/// EIFS follows a collision, because the length of the frame is unknown.
const EIFS: f64 = 2920.64;
const BLOCK: u32 = 512;
const BLOCK_ON_WIRE: u32 = 520;
/// Headers of Ethernet and of the MAC frame, and its check.
const HEADERS: u32 = 14 + 2 + 4;
/// Windows and deferral counters by stage: priorities CA0 and CA1, then CA2 and CA3.
const WINDOWS: [[u32; 4]; 2] = [[8, 16, 32, 64], [8, 16, 16, 32]];
const DEFERRALS: [u32; 4] = [0, 1, 3, 15];

/// Access of one link to the line.
#[derive(Clone, Debug)]
pub struct HomePlug {
    phy: Rate,
    most_blocks: u32,
    block_error: f64,
    row: usize,
    rifs_us: f64,
    beacon: (Duration, Duration),
    /// Bytes in the aggregate so far.
    filled: u32,
    tries: u32,
    errors: Stream,
}

impl Registered for HomePlug {
    const CARD: Card = CARD;
}

impl HomePlug {
    /// Builds the access from its parameters.
    pub fn new(given: &Checked<'_>, stream: &dyn Fn(&str) -> Stream) -> Result<Self, ScenarioError> {
        let phy = given.number("phy_mbps");
        let block_us = f64::from(8 * BLOCK_ON_WIRE) / phy;
        Ok(HomePlug {
            phy: Rate::from_bps((phy * 1e6) as u64),
            most_blocks: (given.number("payload_us") / block_us).max(1.0) as u32,
            block_error: given.number("block_error"),
            row: usize::from(given.choice("priority") == "ca3"),
            rifs_us: given.number("rifs_us"),
            beacon: (us(given.number("beacon_ms") * 1e3), us(given.number("beacon_region_us"))),
            filled: 0,
            tries: given.whole("tries") as u32,
            errors: stream("errors"),
        })
    }

    /// Number of blocks for `bytes` and for `frames` before it.
    fn blocks(frames: &[Frame]) -> u32 {
        frames.iter().map(|frame| frame.left).sum()
    }
}

impl Access for HomePlug {
    fn rules(&self) -> Rules {
        Rules {
            slot: us(SLOT),
            gap: us(CIFS + 2.0 * SLOT),
            gap_failed: us(EIFS),
            windows: WINDOWS[self.row].iter().map(|window| window - 1).collect(),
            wait: 0,
            has_classes: false,
            deferrals: DEFERRALS.to_vec(),
            is_immediate: false,
            counts_busy: true,
            beacon: Some(self.beacon),
        }
    }

    fn begin(&mut self, _at: Time) {
        self.filled = 0;
    }

    fn has_room(&mut self, frames: &[Frame]) -> bool {
        // Leaves room for a full packet, so that none is split; a window of 64 packets limits the receiver's memory.
        let full = (1500 + HEADERS).div_ceil(BLOCK);
        frames.is_empty() || frames.len() < 64 && Self::blocks(frames) + full <= self.most_blocks
    }

    fn units_of(&mut self, packet: &Packet) -> u32 {
        let before = self.filled.div_ceil(BLOCK);
        self.filled += packet.bytes + HEADERS;
        self.filled.div_ceil(BLOCK) - before
    }

    fn air(&self, frames: &[Frame]) -> Air {
        let payload = self.phy.time_for(Bytes::from(Self::blocks(frames).max(1) * BLOCK_ON_WIRE));
        let data = us(DELIMITER) + payload;
        Air { data, exchange: data + us(self.rifs_us + DELIMITER), collision: data }
    }

    fn receive(&mut self, frames: &mut [Frame]) -> bool {
        for frame in frames {
            frame.left = (0..frame.left).filter(|_| self.errors.chance(self.block_error)).count() as u32;
        }
        // The delimiter is robust, so the receiver always reports which blocks failed.
        true
    }

    fn nominal(&self) -> Rate {
        let blocks = self.most_blocks;
        let payload = self.phy.time_for(Bytes::from(blocks * BLOCK_ON_WIRE));
        let around =
            CIFS + (2.0 + f64::from(WINDOWS[self.row][0] - 1) / 2.0) * SLOT + 2.0 * DELIMITER + self.rifs_us;
        Rate::from_bytes_over(Bytes::from(blocks * BLOCK) * 1500 / 1520, payload + us(around))
    }

    fn most_tries(&self) -> u32 {
        self.tries
    }
}
