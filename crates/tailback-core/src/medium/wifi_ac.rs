//! WiFi with 802.11n and 802.11ac: many frames per preamble, and repetition of those that fail.

use super::Registered;
use super::access::{Access, Air, Frame, Order, Rules, us};
use super::dcf::{self, DELIMITER, FULL, PHY_BITS};
use super::minstrel::Minstrel;
use crate::math;
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Rate, Time};

const CARD: Card = Card {
    name: "wifi-ac",
    title: "802.11n and 802.11ac with aggregation",
    law: "a station that finds the medium idle for 16 µs and `aifsn` slots of 9 µs, and has counted its backoff down, \
          sends an A-MPDU and is answered 16 µs later. The answer is a block acknowledgement of 32 µs, which says which \
          frames arrived, or for one frame an acknowledgement of 28 µs. An A-MPDU of k frames of n IP bytes takes \
          P + s⌈(22 + 8k⌈(n + 42)/4⌉4)/b⌉. A symbol s of 4 µs (short guard interval: 3.6) carries b bits. P is 36 µs in \
          802.11n, 40 in 802.11ac, and more by the streams. An A-MPDU holds at most `aggregate` frames, \
          `airtime_ms`, and 65,535 bytes (802.11ac: 1,048,575). Frames that fail are sent again first, and those behind \
          wait; no frame is sent 64 beyond one that the receiver lacks. With `amsdu` a frame holds packets of 14 bytes more each, \
          padded to four, up to that many bytes; they fail together. An A-MPDU longer than `rts_threshold` follows an RTS and a CTS \
          of 28 µs, each with 16 µs behind it, and in a collision only the RTS is lost. A frame of n bytes fails with 1 − (1 − e)^(n/m), \
          where e is `frame_error` and m 1536. With `signal_dbm` m is 4096, and e is 10 % at the MCS's sensitivity, a tenth of it for \
          every decibel more. The rate is fixed or Minstrel's. The links that leave one node send in turn, or by `order`: with \
          equal airtime, or as their packets came",
    source: "IEEE 802.11-2016 sections 10.22.2 (EDCA), 10.13 and 9.7 (A-MPDU), 9.3.2.2 and 10.12 (A-MSDU), 10.3.2 \
             (RTS), 10.24 (block acknowledgement), 19 (HT) \
             and 21 (VHT; tables 19-23 and 21-25: sensitivity). Airtime and FIFO: Høiland-Jørgensen, Kazior, Täht, \
             Hurtig and Brunstrom, \"Ending the Anomaly\", USENIX ATC 2017, algorithm 3; Linux 4.11 ath9k (quantum 300 \
             µs, 123 frames in the driver, 4 ms an A-MPDU). Rates: Linux minstrel_ht. Anomaly: Heusse, Rousseau, \
             Berger-Sabbatel and Duda, \"Performance anomaly of 802.11b\", INFOCOM 2003",
    differs: &[
        "The slope of errors over signal is ours; the signal is constant and all streams of a link get it alike",
        "No TXOP bursts, encryption, beacons or power saving; acknowledgements are never lost. Linux's Minstrel bounds the \
              A-MSDU by the rate, here it is constant; a failed one may be put together otherwise, and the window counts full packets",
        "All stations hear each other; a failed exchange keeps every station away for EIFS",
        "A station has one access category, and Minstrel changes the MCS only, not streams, width or guard interval",
        "A packet larger than those before it may exceed an A-MPDU's bounds by itself",
        "`order` fifo: a FIFO in front of the driver, so each link's queue is a `fifo`; no queue management sees all \
              links together",
    ],
    live_twin: None,
    params: &[
        ParamSpec::choice("standard", &["ac", "n"], "Whose preamble, rates and bounds."),
        ParamSpec::whole("width_mhz", "MHz", 80, (20, 160), "Channel: 20, 40, or with 802.11ac 80 or 160.")
            .depends("ac 80, n 20"),
        ParamSpec::whole("streams", "", 2, (1, 4), "Spatial streams."),
        ParamSpec::flag("short_guard", true, "Symbols of 3.6 µs in place of 4."),
        ParamSpec::whole(
            "mcs",
            "",
            9,
            (0, 9),
            "Modulation and coding of a stream, or where Minstrel begins.",
        )
        .depends("the fastest"),
        ParamSpec::choice("rate_control", &["fixed", "minstrel"], "Whether the rate adapts."),
        ParamSpec::number("signal_dbm", "dBm", 0.0, (-100.0, 0.0), "Received power; it decides the errors.")
            .depends("frame_error decides"),
        ParamSpec::number(
            "frame_error",
            "",
            0.0,
            (0.0, 1.0),
            "Probability that a frame of 1536 bytes fails.",
        ),
        ParamSpec::whole("aggregate", "frames", 64, (1, 64), "Most frames in an A-MPDU."),
        ParamSpec::number(
            "airtime_ms",
            "ms",
            4.0,
            (0.1, 5.484),
            "Longest A-MPDU; the standard's bound is 5.484.",
        ),
        ParamSpec::whole(
            "amsdu",
            "bytes",
            0,
            (0, 11_424),
            "Longest A-MSDU: packets in one frame; 0 is one a frame. 3839 and 7935 are usual, in an A-MPDU of 802.11n 4065.",
        ),
        ParamSpec::whole(
            "rts_threshold",
            "bytes",
            0,
            (0, 1_048_575),
            "Longer A-MPDUs wait for the answer to an RTS; Linux sends none.",
        )
        .depends("none is sent"),
        ParamSpec::whole("tries", "", 10, (1, 255), "Transmissions before a frame is dropped."),
        ParamSpec::whole(
            "aifsn",
            "slots",
            3,
            (2, 15),
            "Slots a station waits each time; best effort 3, voice 2.",
        ),
        ParamSpec::whole("cw_min", "slots", 15, (1, 1023), "First contention window; voice 3."),
        ParamSpec::whole("cw_max", "slots", 1023, (1, 65_535), "Widest contention window; voice 7."),
        ParamSpec::choice(
            "order",
            &["turns", "airtime", "fifo"],
            "Which link of a node sends next: an A-MPDU each, equal airtime, or the first to come.",
        ),
        ParamSpec::whole("quantum_us", "us", 300, (1, 1_000_000), "Airtime that a link gains a round."),
        ParamSpec::whole("driver_packets", "packets", 123, (1, 65_536), "Room in a FIFO's driver."),
        ParamSpec::whole(
            "fifo_packets",
            "packets",
            1000,
            (1, 1 << 30),
            "Packets in a FIFO's queue, of all links together.",
        ),
    ],
};

/// Data subcarriers by width.
const CARRIERS: [(u64, u32); 4] = [(20, 52), (40, 108), (80, 234), (160, 468)];
/// Bits per subcarrier and code rate in twelfths, by MCS.
const MODULATION: [(u32, u32); 10] =
    [(1, 6), (2, 6), (2, 9), (4, 6), (4, 9), (6, 8), (6, 9), (6, 10), (8, 9), (8, 10)];
/// Minimum signal of each MCS at 20 MHz, in dBm; doubling the width requires 3 dB more.
const SENSITIVITY: [f64; 10] = [-82.0, -79.0, -77.0, -74.0, -70.0, -66.0, -65.0, -64.0, -59.0, -57.0];
/// Times in microseconds. SIFS is that of 5 GHz; 2.4 GHz has 10 plus a signal extension of 6, which is the same.
const SIFS: f64 = 16.0;
const SLOT: f64 = 9.0;
const ACK: f64 = 28.0;
const BLOCK_ACK: f64 = 32.0;
/// An acknowledgement at 6 Mbit/s, for which EIFS reserves time.
const SLOW_ACK: f64 = 44.0;
/// An RTS, and a CTS: 20 and 14 bytes at 24 Mbit/s.
const RTS: f64 = 28.0;
const CTS: f64 = 28.0;
/// LLC/SNAP, QoS MAC header, check.
const HEADERS: u32 = LLC + MAC;
const LLC: u32 = 8;
const MAC: u32 = 26 + 4;
/// Addresses and length of a packet in an A-MSDU.
const SUBFRAME: u32 = 14;
/// The longest A-MSDU in an A-MPDU of 802.11n, whose frames have at most 4095 bytes.
const LONGEST_N: u64 = 4065;
/// Limit on how far a sender may be ahead of the first frame that the receiver lacks.
const WINDOW: usize = 64;

/// Properties of an MCS on this link.
#[derive(Clone, Copy, Debug)]
struct Pace {
    symbol_bits: f64,
    /// Error probability of a frame of `reference` bytes.
    error: f64,
    /// Maximum bytes of an A-MPDU.
    most: u32,
}

/// Access of one link to the air.
#[derive(Clone, Debug)]
pub struct WifiAc {
    is_n: bool,
    preamble: f64,
    symbol: f64,
    paces: Vec<Pace>,
    /// Frame length in bytes to which the error probabilities refer.
    reference: f64,
    rate: usize,
    minstrel: Option<Box<Minstrel>>,
    aggregate: usize,
    /// Maximum A-MSDU in bytes; 0: none.
    amsdu: u32,
    /// Number of packets that may be ahead of the first that the receiver lacks.
    window: usize,
    rts_threshold: Option<u32>,
    tries: u32,
    wait: u64,
    windows: Vec<u32>,
    order: Order,
    errors: Stream,
    /// The transmission being built: packets examined and carried, frames, their bytes, the largest, and whether it is
    /// full.
    seen: usize,
    carried: usize,
    frames: usize,
    bytes: u32,
    largest: u32,
    is_full: bool,
    is_probe: bool,
    arrived: u32,
    /// Bytes of the open frame's A-MSDU; number of packets and bytes of each frame.
    open: u32,
    frames_of: Vec<(u32, u32)>,
    /// Cache of the last error probability, with its rate and bytes.
    last_error: (usize, u32, f64),
}

impl Registered for WifiAc {
    const CARD: Card = CARD;
}

impl WifiAc {
    /// Builds the access from its parameters.
    pub fn new(given: &Checked<'_>, stream: &dyn Fn(&str) -> Stream) -> Result<Self, ScenarioError> {
        let is_n = given.choice("standard") == "n";
        let width = given.given_whole("width_mhz").unwrap_or(if is_n { 20 } else { 80 });
        let widths = &CARRIERS[..if is_n { 2 } else { 4 }];
        let Some(doublings) = widths.iter().position(|(mhz, _)| *mhz == width) else {
            let all: Vec<String> = widths.iter().map(|(mhz, _)| mhz.to_string()).collect();
            let problem = format!("802.11{} has no such channel", if is_n { "n" } else { "ac" });
            return Err(given.refuse("width_mhz", &problem, &format!("Give one of {}", all.join(", "))));
        };
        let streams = given.whole("streams");
        let per_stream = widths[doublings].1 * streams as u32;
        // The bits of a symbol must be whole: 802.11ac excludes MCS 9 at 20 MHz with one, two or four streams.
        let is_whole = |mcs: &usize| per_stream * MODULATION[*mcs].0 * MODULATION[*mcs].1 % 12 == 0;
        let known: Vec<usize> = (0..if is_n { 8 } else { 10 }).filter(is_whole).collect();
        let wanted = given.given_whole("mcs").map_or(known[known.len() - 1], |mcs| mcs as usize);
        let Some(rate) = known.iter().position(|mcs| *mcs == wanted) else {
            let all: Vec<String> = known.iter().map(usize::to_string).collect();
            let problem = format!("there is no such MCS in {width} MHz with {streams} streams");
            return Err(given.refuse("mcs", &problem, &format!("Give one of {}", all.join(", "))));
        };
        let (signal, windows) = (dcf::signal(given)?, dcf::windows(given)?);
        let symbol = if given.flag("short_guard") { 3.6 } else { 4.0 };
        // One long training field per stream, but four for three streams.
        let training = if streams == 3 { 4 } else { streams };
        let preamble = if is_n { 32.0 } else { 36.0 } + 4.0 * training as f64;
        let allowed = 1e3 * given.number("airtime_ms") - preamble;
        let most = if is_n { 65_535.0 } else { 1_048_575.0 };
        let paces: Vec<Pace> = known
            .iter()
            .map(|mcs| {
                let (bits, twelfths) = MODULATION[*mcs];
                let symbol_bits = f64::from(per_stream * bits * twelfths / 12);
                let error = signal.map_or(given.number("frame_error"), |signal| {
                    let sensitivity = SENSITIVITY[*mcs] + 3.0 * doublings as f64;
                    (0.1 * math::powf(10.0, sensitivity - signal)).min(1.0)
                });
                let fit = ((allowed / symbol).floor() * symbol_bits - PHY_BITS) / 8.0;
                Pace { symbol_bits, error, most: fit.clamp(0.0, most) as u32 }
            })
            .collect();
        let overhead = SIFS
            + SLOT * (given.whole("aifsn") as f64 + f64::from(windows[0]) / 2.0)
            + preamble
            + SIFS
            + BLOCK_ACK;
        let adapts = given.choice("rate_control") == "minstrel";
        let amsdu = given.whole("amsdu");
        if is_n && amsdu > LONGEST_N {
            let problem = "a frame in an A-MPDU of 802.11n has at most 4095 bytes";
            return Err(given.refuse("amsdu", problem, &format!("Give at most {LONGEST_N}")));
        }
        let amsdu = amsdu as u32;
        let mbps = || paces.iter().map(|pace| pace.symbol_bits / symbol).collect();
        let order = match given.choice("order") {
            "airtime" => Order::Airtime(us(given.whole("quantum_us") as f64)),
            "fifo" => {
                let driver = given.whole("driver_packets") as u32;
                Order::Fifo { driver, limit: driver + given.whole("fifo_packets") as u32 }
            }
            _ => Order::Turns,
        };
        Ok(WifiAc {
            is_n,
            preamble,
            symbol,
            reference: if signal.is_some() { 4096.0 } else { FULL },
            rate,
            minstrel: adapts.then(|| Box::new(Minstrel::new(mbps(), overhead, rate, stream("probes")))),
            paces,
            aggregate: given.whole("aggregate") as usize,
            amsdu,
            window: WINDOW * (amsdu / subframe(1500)).max(1) as usize,
            rts_threshold: given.given_whole("rts_threshold").map(|bytes| bytes as u32),
            tries: given.whole("tries") as u32,
            wait: given.whole("aifsn") - 2,
            windows,
            order,
            errors: stream("errors"),
            seen: 0,
            carried: 0,
            frames: 0,
            bytes: 0,
            largest: 0,
            is_full: false,
            is_probe: false,
            arrived: 0,
            open: 0,
            frames_of: Vec::new(),
            last_error: (0, 0, 0.0),
        })
    }

    /// Airtime of an A-MPDU of this many bytes, in microseconds.
    fn data_us(&self, bytes: u32) -> f64 {
        let symbols = (PHY_BITS + 8.0 * f64::from(bytes)) / self.paces[self.rate].symbol_bits;
        self.preamble + self.symbol * symbols.ceil()
    }

    /// Whether a packet of this many bytes fits into the last frame.
    fn fits(&self, ip: u32) -> bool {
        self.open > 0 && padded(self.open) + subframe(ip) <= self.amsdu
    }

    /// Adds a packet to the last frame, or begins a new one. Returns whether it was added.
    fn join(&mut self, ip: u32) -> bool {
        if !self.fits(ip) {
            self.open = subframe(ip);
            self.frames_of.push((1, ip + HEADERS));
            return false;
        }
        self.open = padded(self.open) + subframe(ip);
        let (packets, bytes) = self.frames_of.last_mut().expect("a frame is open");
        self.bytes += padded(self.open + MAC + DELIMITER);
        self.bytes -= padded(*bytes + DELIMITER);
        (*packets, *bytes) = (*packets + 1, self.open + MAC);
        true
    }

    /// As `receive`, if the packets of a frame share a checksum.
    fn receive_amsdus(&mut self, frames: &mut [Frame]) -> bool {
        let frames_of = std::mem::take(&mut self.frames_of);
        let mut sent = frames.iter_mut().filter(|frame| frame.left > 0);
        for (packets, bytes) in &frames_of {
            let error = self.error(*bytes);
            let is_lost = error > 0.0 && self.errors.chance(error);
            for frame in sent.by_ref().take(*packets as usize) {
                frame.left = u32::from(is_lost);
            }
            self.arrived += u32::from(!is_lost);
        }
        self.frames_of = frames_of;
        self.arrived > 0
    }

    fn answer_us(frames: usize) -> f64 {
        SIFS + if frames > 1 { BLOCK_ACK } else { ACK }
    }

    /// Error probability of a frame of this many bytes.
    fn error(&mut self, bytes: u32) -> f64 {
        let (rate, last, error) = self.last_error;
        if rate == self.rate && last == bytes {
            return error;
        }
        let error = 1.0 - math::powf(1.0 - self.paces[self.rate].error, f64::from(bytes) / self.reference);
        self.last_error = (self.rate, bytes, error);
        error
    }
}

/// Bytes of a packet in an A-MPDU, with padding.
fn in_aggregate(ip: u32) -> u32 {
    padded(ip + HEADERS + DELIMITER)
}

/// Bytes of a packet in an A-MSDU; the last one is not padded.
fn subframe(ip: u32) -> u32 {
    SUBFRAME + LLC + ip
}

fn padded(bytes: u32) -> u32 {
    bytes.div_ceil(4) * 4
}

impl Access for WifiAc {
    fn rules(&self) -> Rules {
        let difs = SIFS + 2.0 * SLOT;
        Rules {
            slot: us(SLOT),
            gap: us(difs),
            gap_failed: us(SIFS + SLOW_ACK + difs),
            windows: self.windows.clone(),
            wait: self.wait,
            has_classes: true,
            deferrals: Vec::new(),
            is_immediate: true,
            counts_busy: false,
            beacon: None,
        }
    }

    fn order(&self) -> Order {
        self.order
    }

    fn begin(&mut self, at: Time) {
        if let Some(minstrel) = &mut self.minstrel {
            (self.rate, self.is_probe) = minstrel.choose(at);
        }
        (self.seen, self.carried, self.bytes, self.largest, self.is_full) = (0, 0, 0, 0, false);
        (self.frames, self.open) = (0, 0);
        self.frames_of.clear();
    }

    fn has_room(&mut self, frames: &[Frame]) -> bool {
        let most = self.paces[self.rate].most;
        // An earlier transmission may have left more than this one's rate can carry.
        let left = if self.seen == 0 { frames.len() } else { 0 };
        while self.seen < frames.len() && !self.is_full {
            let frame = &frames[self.seen];
            self.seen += 1;
            if frame.left == 0 {
                continue;
            }
            let bytes = in_aggregate(frame.packet.bytes);
            if self.seen <= left && self.carried > 0 && self.bytes + bytes > most {
                self.is_full = true;
                break;
            }
            self.carried += 1;
            self.largest = self.largest.max(bytes);
            let joins = self.amsdu > 0 && self.join(frame.packet.bytes);
            if !joins {
                self.bytes += bytes;
                self.frames += 1;
            }
            let is_last = self.is_probe || self.frames == self.aggregate;
            self.is_full = is_last && !(self.amsdu > 0 && self.fits(self.largest - HEADERS - DELIMITER));
        }
        !self.is_full
            && frames.len() < self.window
            && (self.carried == 0 || self.bytes + self.largest <= most)
    }

    fn units_of(&mut self, _packet: &Packet) -> u32 {
        1
    }

    fn air(&self, _frames: &[Frame]) -> Air {
        // 802.11n sends a single frame without delimiter and padding.
        let bytes = if self.is_n && self.frames == 1 { self.bytes - DELIMITER } else { self.bytes };
        let sent = self.data_us(bytes);
        let answer = Self::answer_us(self.frames);
        if self.rts_threshold.is_some_and(|most| bytes > most) {
            let data = RTS + SIFS + CTS + SIFS + sent;
            return Air { data: us(data), exchange: us(data + answer), collision: us(RTS) };
        }
        Air { data: us(sent), exchange: us(sent + answer), collision: us(sent) }
    }

    fn carried(&self) -> usize {
        self.carried
    }

    fn receive(&mut self, frames: &mut [Frame]) -> bool {
        self.arrived = 0;
        if self.amsdu > 0 {
            return self.receive_amsdus(frames);
        }
        let is_clean = self.paces[self.rate].error == 0.0;
        for frame in frames.iter_mut().filter(|frame| frame.left > 0).take(self.carried) {
            if is_clean || {
                let error = self.error(frame.packet.bytes + HEADERS);
                !self.errors.chance(error)
            } {
                frame.left = 0;
                self.arrived += 1;
            }
        }
        self.arrived > 0
    }

    fn learn(&mut self, is_success: bool) {
        if let Some(minstrel) = &mut self.minstrel {
            let arrived = if is_success { self.arrived } else { 0 };
            minstrel.learn(self.rate, self.frames as u32, arrived, self.is_probe);
        }
    }

    fn nominal(&self) -> Rate {
        // Full packets alone: AIFS, mean backoff, as large an A-MPDU as may be, its answer.
        let packets = (self.amsdu / subframe(1500)).max(1);
        let full = if packets > 1 {
            padded(MAC + DELIMITER + packets * padded(subframe(1500)))
        } else {
            in_aggregate(1500)
        };
        let fit = self.paces[self.rate].most / full;
        let frames = (fit as usize).clamp(1, self.aggregate);
        let wait = SIFS + SLOT * (self.wait as f64 + 2.0 + f64::from(self.windows[0]) / 2.0);
        let span = wait + self.data_us(full * frames as u32) + Self::answer_us(frames);
        Rate::from_bytes_over(1500 * Bytes::from(packets) * frames as Bytes, us(span))
    }

    fn most_tries(&self) -> u32 {
        self.tries
    }
}
