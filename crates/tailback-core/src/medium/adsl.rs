//! ADSL: IP over ATM cells over a synchronised line.

use super::Registered;
use crate::capacity::Pace;
use crate::framing::{Framing, LinkLayer};
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Rate, Time};

const CARD: Card = Card {
    name: "adsl",
    title: "ADSL line",
    law: "a packet of L bytes with o bytes of encapsulation and AAL5's trailer of 8 fills ⌈(L + o + 8)/48⌉ \
          cells of 53 bytes, sent at the sync rate; interleaving adds its delay",
    source: "ITU-T G.992.1 (ADSL); I.363.5 (AAL5); RFC 2684 (multiprotocol encapsulation), RFC 2364 (PPP \
          over AAL5), RFC 2516 (PPPoE)",
    differs: &[
        "Cells leave at the net rate of the line: superframes and Reed-Solomon overhead are in the sync rate \
              already",
        "No line errors (give the link a wire), no retraining, no bit swapping",
    ],
    live_twin: None,
    params: &[
        ParamSpec::whole(
            "sync_bps",
            "bit/s",
            1_536_000,
            (8_000, 100_000_000),
            "Rate at which the line has synchronised, in this direction.",
        ),
        ParamSpec::choice(
            "encapsulation",
            &["pppoe-llc", "pppoe-llc-fcs", "pppoe-vc", "pppoa-vc", "pppoa-llc", "ipoa-llc"],
            "What wraps an IP packet before AAL5.",
        ),
        ParamSpec::number(
            "interleaving_ms",
            "ms",
            0.0,
            (0.0, 64.0),
            "Delay of interleaving in this direction; about 2 on the fast path, 4 to 40 interleaved.",
        ),
    ],
};

const AAL5_TRAILER: i32 = 8;

/// Bytes before the AAL5 trailer: RFC 2684's header, bridged Ethernet with its pad and check, PPPoE, PPP.
const ENCAPSULATIONS: [(&str, i32); 6] = [
    ("pppoe-llc", 10 + 14 + 6 + 2),
    ("pppoe-llc-fcs", 10 + 14 + 6 + 2 + 4),
    ("pppoe-vc", 2 + 14 + 6 + 2),
    ("pppoa-vc", 2),
    ("pppoa-llc", 6),
    ("ipoa-llc", 8),
];

/// One direction of an ADSL line.
#[derive(Clone, Debug)]
pub struct Adsl {
    sync: Rate,
    framing: Framing,
    interleaving: Duration,
}

impl Registered for Adsl {
    const CARD: Card = CARD;
}

impl Adsl {
    /// Builds a direction of the line from its parameters.
    pub fn new(given: &Checked<'_>, _stream: &dyn Fn(&str) -> Stream) -> Result<Self, ScenarioError> {
        let encapsulation = given.choice("encapsulation");
        let known = ENCAPSULATIONS.iter().find(|(name, _)| *name == encapsulation);
        let overhead = known.expect("the card lists the same names").1 + AAL5_TRAILER;
        Ok(Adsl {
            sync: Rate::from_bps(given.whole("sync_bps")),
            framing: Framing { overhead, mpu: 0, linklayer: LinkLayer::Atm },
            interleaving: Duration::from_secs_f64(given.number("interleaving_ms") / 1e3),
        })
    }
}

impl Pace for Adsl {
    fn serve(&mut self, at: Time, packet: &Packet, _continues: bool) -> Time {
        at + self.sync.time_for(Bytes::from(self.framing.bytes(packet.bytes)))
    }

    fn nominal(&self) -> Rate {
        // The rate that full packets get.
        Rate::from_bps(self.sync.as_bps() * 1492 / u64::from(self.framing.bytes(1492)))
    }

    fn detour(&mut self, _at: Time) -> Option<Duration> {
        Some(self.interleaving)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Params, Value};

    #[test]
    fn cells_are_those_of_the_encapsulation() {
        // Cells of 40, 52, 200, 1454, 1458, 1478, 1492 and 1500 bytes, counted by hand from the RFCs' headers.
        let table: [(&str, [u32; 8]); 5] = [
            ("pppoa-vc", [2, 2, 5, 31, 31, 31, 32, 32]),
            ("pppoa-llc", [2, 2, 5, 31, 31, 32, 32, 32]),
            ("pppoe-vc", [2, 2, 5, 31, 32, 32, 32, 32]),
            ("pppoe-llc", [2, 2, 5, 32, 32, 32, 32, 33]),
            ("pppoe-llc-fcs", [2, 2, 6, 32, 32, 32, 32, 33]),
        ];
        for (encapsulation, cells) in table {
            let params = Params::from([("encapsulation".into(), Value::Name(encapsulation.into()))]);
            let card: &'static Card = Box::leak(Box::new(Adsl::CARD));
            let given = Checked::new(card, &params, "p").unwrap();
            let line = Adsl::new(&given, &|name| Stream::named(1, name)).unwrap();
            let got = [40, 52, 200, 1454, 1458, 1478, 1492, 1500].map(|ip| line.framing.bytes(ip) / 53);
            assert_eq!(got, cells, "{encapsulation}");
        }
    }
}
