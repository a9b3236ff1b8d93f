//! WiFi: the distributed coordination function of IEEE 802.11, with the OFDM rates of 802.11g or, with aggregation,
//! those of 802.11n in 20 MHz.

use super::Registered;
use super::access::{Access, Air, Frame, Rules, us};
use super::dcf::{self, DELIMITER, FULL, PHY_BITS};
use super::stalls::{self, Stalls};
use crate::math;
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Rate, Time};

const CARD: Card = Card {
    name: "wifi",
    title: "802.11g and 802.11n",
    law: "a station that finds the medium idle for DIFS = SIFS + 2 slots and has counted its backoff down \
          sends one frame, and is answered after SIFS. The frame takes T(n, r) = 20 + 4⌈(22 + 8n)/4r⌉ + 6 µs, \
          n = IP bytes + 36. No answer: the window doubles from 15 to 1023 and the frame is sent again, \
          `tries` times in all. A station of 802.11n sends up to `aggregate` frames behind one preamble, each \
          with its own check; a block acknowledgement says which arrived. In a stall (`stall_every_ms`) a link \
          begins no try: its receiver listens on another channel, and frames wait for it. `hidden`: \
          probability that a try fails whatever its length, as stations out of hearing talk over it. A frame \
          of n bytes fails with 1 − (1 − e)^(n/1536), where e is `frame_error`, or what `signal_dbm` leaves at \
          the rate in use. That is 10 % for 1000 bytes at the rate's sensitivity, a tenth of it for every \
          decibel more. Rates are fixed or adapt: two failures in a row lower the rate, ten successes raise it \
          for a trial",
    source: "IEEE 802.11-2012 sections 9.3 (DCF), 18.4 and 19 (OFDM, ERP timing), 18.3.10.2 (sensitivity), 20 \
             (HT), 8.6.1 (A-MPDU). Rate adaptation: Kamerman and Monteban, \"WaveLAN-II\", Bell Labs Technical \
             Journal 2(3) (1997). Contention: Bianchi, IEEE JSAC 18(3) (2000), and Bianchi and Tinnirello, \
             IEEE Communications Letters 14(7) (2010). Stalls: Ramani and Savage, SyncScan, INFOCOM 2005 (a \
             scan takes more than 250 ms)",
    differs: &[
        "The slope of errors over signal is ours; real receivers differ by chip",
        "No RTS/CTS, no power saving, no beacons; acknowledgements are never lost",
        "One spatial stream and the long guard interval in 802.11n; the aggregate counts frames, not their \
              spacing",
    ],
    live_twin: None,
    params: &[
        ParamSpec::choice("standard", &["g", "n"], "Which rates and headers."),
        ParamSpec::number(
            "rate_mbps",
            "Mbit/s",
            54.0,
            (6.0, 65.0),
            "Rate, or the one adaptation starts from.",
        )
        .depends("g 54, n 65"),
        ParamSpec::choice("rate_control", &["fixed", "arf"], "Whether the rate adapts to failures."),
        ParamSpec::number("signal_dbm", "dBm", 0.0, (-100.0, 0.0), "Received power; it decides the errors.")
            .depends("frame_error decides"),
        ParamSpec::number("frame_error", "", 0.0, (0.0, 1.0), "Probability that a full frame fails."),
        ParamSpec::number(
            "hidden",
            "",
            0.0,
            (0.0, 0.99),
            "Probability that a try fails whatever its length: stations out of hearing.",
        ),
        ParamSpec::choice("slot", &["short", "long"], "9 us, or 20 us where 802.11b stations are about."),
        ParamSpec::flag("protection", false, "A CTS at 11 Mbit/s precedes every frame (802.11b about)."),
        ParamSpec::whole("aggregate", "frames", 1, (1, 64), "Most frames sent at once.").depends("g 1, n 32"),
        ParamSpec::whole("tries", "", 7, (1, 255), "Transmissions before a frame is dropped."),
        ParamSpec::whole("cw_min", "slots", 15, (1, 1023), "First contention window."),
        ParamSpec::whole("cw_max", "slots", 1023, (1, 65_535), "Widest contention window."),
        stalls::PARAMS[0],
        stalls::PARAMS[1],
        stalls::PARAMS[2],
    ],
};

/// Rates in Mbit/s, and minimum sensitivities in dBm: tables 18-14 and 20-23.
const RATES_G: [f64; 8] = [6.0, 9.0, 12.0, 18.0, 24.0, 36.0, 48.0, 54.0];
const SENSITIVITY_G: [f64; 8] = [-82.0, -81.0, -79.0, -77.0, -74.0, -70.0, -66.0, -65.0];
const RATES_N: [f64; 8] = [6.5, 13.0, 19.5, 26.0, 39.0, 52.0, 58.5, 65.0];
const SENSITIVITY_N: [f64; 8] = [-82.0, -79.0, -77.0, -74.0, -70.0, -66.0, -65.0, -64.0];
/// Times in microseconds.
const SIFS: f64 = 10.0;
const PREAMBLE_G: f64 = 20.0;
const PREAMBLE_N: f64 = 36.0;
const SYMBOL: f64 = 4.0;
const SIGNAL_EXTENSION: f64 = 6.0;
/// CTS-to-self at 11 Mbit/s with the long preamble.
const CTS: f64 = 202.0;
/// LLC/SNAP, MAC header, check; QoS adds two.
const HEADERS_G: u32 = 8 + 24 + 4;
const HEADERS_N: u32 = 8 + 26 + 4;
const ACK_BYTES: u32 = 14;
const BLOCK_ACK_BYTES: u32 = 32;

/// Access of one link to the air.
#[derive(Clone, Debug)]
pub struct Wifi {
    is_n: bool,
    /// Index into the rates.
    rate: usize,
    adapts: bool,
    signal: Option<f64>,
    frame_error: f64,
    hidden: f64,
    slot_us: f64,
    is_protected: bool,
    aggregate: usize,
    tries: u32,
    windows: Vec<u32>,
    stalls: Option<Stalls>,
    errors: Stream,
    successes: u32,
    failures: u32,
    is_trial: bool,
}

impl Registered for Wifi {
    const CARD: Card = CARD;
}

impl Wifi {
    /// Builds the access from its parameters.
    pub fn new(given: &Checked<'_>, stream: &dyn Fn(&str) -> Stream) -> Result<Self, ScenarioError> {
        let is_n = given.choice("standard") == "n";
        let rates = if is_n { RATES_N } else { RATES_G };
        let wanted = given.given_number("rate_mbps").unwrap_or(rates[7]);
        let Some(rate) = rates.iter().position(|rate| *rate == wanted) else {
            let all: Vec<String> = rates.iter().map(f64::to_string).collect();
            let problem = format!("802.11{} has no such rate", if is_n { "n" } else { "g" });
            return Err(given.refuse("rate_mbps", &problem, &format!("Give one of {}", all.join(", "))));
        };
        let aggregate = given.given_whole("aggregate").unwrap_or(if is_n { 32 } else { 1 }) as usize;
        if aggregate > 1 && !is_n {
            let problem = "802.11g sends one frame at a time";
            return Err(given.refuse("aggregate", problem, "Give standard = \"n\", or leave it out"));
        }
        let (signal, windows) = (dcf::signal(given)?, dcf::windows(given)?);
        Ok(Wifi {
            is_n,
            rate,
            adapts: given.choice("rate_control") == "arf",
            signal,
            frame_error: given.number("frame_error"),
            hidden: given.number("hidden"),
            slot_us: if given.choice("slot") == "long" { 20.0 } else { 9.0 },
            is_protected: given.flag("protection"),
            aggregate,
            tries: given.whole("tries") as u32,
            windows,
            stalls: Stalls::new(given, stream("stalls"))?,
            errors: stream("errors"),
            successes: 0,
            failures: 0,
            is_trial: false,
        })
    }

    fn mbps(&self) -> f64 {
        if self.is_n { RATES_N[self.rate] } else { RATES_G[self.rate] }
    }

    /// Bytes of a packet's frame.
    fn frame_bytes(&self, ip: u32) -> u32 {
        ip + if self.is_n { HEADERS_N } else { HEADERS_G }
    }

    /// Airtime of an 802.11g frame of this many bytes, in microseconds.
    fn legacy_us(bytes: u32, mbps: f64) -> f64 {
        PREAMBLE_G + SYMBOL * symbols(bytes, mbps) + SIGNAL_EXTENSION
    }

    /// The highest basic rate that does not exceed the data rate.
    fn basic_mbps(&self) -> f64 {
        [24.0, 12.0].into_iter().find(|basic| *basic <= self.mbps()).unwrap_or(6.0)
    }

    fn data_us(&self, frames: &[Frame]) -> f64 {
        let sent = frames.iter().filter(|frame| frame.left > 0);
        if !self.is_n {
            let bytes = sent.map(|frame| self.frame_bytes(frame.packet.bytes)).sum();
            return Self::legacy_us(bytes, self.mbps());
        }
        let bytes =
            sent.map(|frame| (self.frame_bytes(frame.packet.bytes) + DELIMITER).div_ceil(4) * 4).sum();
        PREAMBLE_N + SYMBOL * symbols(bytes, self.mbps()) + SIGNAL_EXTENSION
    }

    fn prefix_us(&self) -> f64 {
        if self.is_protected { CTS + SIFS } else { 0.0 }
    }

    /// Error probability of a frame of this many bytes.
    fn error(&self, bytes: u32) -> f64 {
        let bytes = f64::from(bytes);
        let (reference, at_reference) = match self.signal {
            None => (FULL, self.frame_error),
            Some(signal) => {
                let least = if self.is_n { SENSITIVITY_N } else { SENSITIVITY_G }[self.rate];
                (1000.0, (0.1 * math::powf(10.0, least - signal)).min(1.0))
            }
        };
        1.0 - math::powf(1.0 - at_reference, bytes / reference)
    }
}

fn symbols(bytes: u32, mbps: f64) -> f64 {
    let per_symbol = SYMBOL * mbps;
    ((PHY_BITS + 8.0 * f64::from(bytes)) / per_symbol).ceil()
}

impl Access for Wifi {
    fn rules(&self) -> Rules {
        let difs = SIFS + 2.0 * self.slot_us;
        // EIFS: leaves room for an acknowledgement at the lowest rate.
        let eifs = SIFS + Self::legacy_us(ACK_BYTES, 6.0) + difs;
        Rules {
            slot: us(self.slot_us),
            gap: us(difs),
            gap_failed: us(eifs),
            windows: self.windows.clone(),
            wait: 0,
            has_classes: false,
            deferrals: Vec::new(),
            is_immediate: true,
            counts_busy: false,
            beacon: None,
        }
    }

    fn silent_until(&mut self, at: Time) -> Option<Time> {
        self.stalls.as_mut()?.end_at(at)
    }

    fn has_room(&mut self, frames: &[Frame]) -> bool {
        frames.len() < self.aggregate
    }

    fn units_of(&mut self, _packet: &Packet) -> u32 {
        1
    }

    fn air(&self, frames: &[Frame]) -> Air {
        let data = self.prefix_us() + self.data_us(frames);
        let answer = if self.aggregate > 1 { BLOCK_ACK_BYTES } else { ACK_BYTES };
        let exchange = data + SIFS + Self::legacy_us(answer, self.basic_mbps());
        // Two CTS that collide leave no reservation.
        let collision = if self.is_protected { CTS } else { data };
        Air { data: us(data), exchange: us(exchange), collision: us(collision) }
    }

    fn receive(&mut self, frames: &mut [Frame]) -> bool {
        if self.hidden > 0.0 && self.errors.chance(self.hidden) {
            return false;
        }
        let mut is_any = false;
        for frame in frames.iter_mut().filter(|frame| frame.left > 0) {
            let error = self.error(self.frame_bytes(frame.packet.bytes));
            if !self.errors.chance(error) {
                frame.left = 0;
                is_any = true;
            }
        }
        is_any
    }

    fn learn(&mut self, is_success: bool) {
        if !self.adapts {
            return;
        }
        if is_success {
            (self.successes, self.failures, self.is_trial) = (self.successes + 1, 0, false);
            if self.successes >= 10 && self.rate < 7 {
                (self.rate, self.successes, self.is_trial) = (self.rate + 1, 0, true);
            }
        } else {
            (self.successes, self.failures) = (0, self.failures + 1);
            if (self.failures >= 2 || self.is_trial) && self.rate > 0 {
                (self.rate, self.failures, self.is_trial) = (self.rate - 1, 0, false);
            }
        }
    }

    fn nominal(&self) -> Rate {
        // A full packet alone: DIFS, mean backoff, frame, SIFS, acknowledgement.
        let wait = SIFS + 2.0 * self.slot_us + self.slot_us * f64::from(self.windows[0]) / 2.0;
        let bytes = self.aggregate as u32 * (self.frame_bytes(1500) + if self.is_n { DELIMITER } else { 0 });
        let data = PREAMBLE_G + SYMBOL * symbols(bytes, self.mbps()) + SIGNAL_EXTENSION;
        let span = wait + self.prefix_us() + data + SIFS + Self::legacy_us(ACK_BYTES, self.basic_mbps());
        Rate::from_bytes_over(Bytes::from(1500 * self.aggregate as u32), us(span))
    }

    fn most_tries(&self) -> u32 {
        self.tries
    }
}
