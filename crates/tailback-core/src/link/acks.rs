//! What a way back does to acknowledgements: it holds them and lets them go together, or lets one in N go.
//!
//! Law: an acknowledgement without payload that departs while none of its connection is held begins a hold of `ack_hold`;
//! what departs until its end leaves at the end (compression). With `ack_every` N only the newest is held: it replaces the one
//! before, and the Nth goes on at once and ends the hold (thinning). So a connection has at most one acknowledgement on its
//! way per N that came or per `ack_hold`, and none waits longer than `ack_hold`.
//!
//! Segments with data, SYN, FIN or RST are not held, and what has SACK blocks is never replaced. A datagram is no acknowledgement
//! here: those of QUIC are encrypted.
//!
//! Source: RFC 3449 section 5 (ACK congestion on asymmetric paths: ACK filtering, compression); Linux sch_cake, `ack-filter`, for
//! which acknowledgements may be replaced.
//!
//! Differs from the source:
//! - RFC 3449's filter and cake's look at the queue; here time and count decide, as in modems that gather upstream packets.
//! - An acknowledgement that repeats the last number may be replaced, unless it has SACK blocks.

use std::collections::BTreeMap;

use crate::packet::{Acknowledgement, FlowId, Packet};
use crate::time::{Duration, Time};

/// Acknowledgements held, by connection and direction.
#[derive(Clone, Debug)]
pub struct Acks {
    hold: Duration,
    every: Option<u32>,
    held: BTreeMap<(FlowId, u8, bool), Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    until: Time,
    /// The acknowledgement that waits, if one in N goes.
    newest: Option<u32>,
    /// Acknowledgements that came, the waiting one included.
    count: u32,
}

/// What is to be done with an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// When the acknowledgement leaves.
    pub leaves: Time,
    /// Slot of the waiting packet that is dropped.
    pub replaces: Option<u32>,
}

impl Acks {
    /// Holds of this length, of all or of one in `every`.
    pub fn new(hold: Duration, every: Option<u32>) -> Self {
        Acks { hold, every, held: BTreeMap::new() }
    }

    /// `packet` departs at `at`.
    pub fn pass(&mut self, packet: &Packet, ack: Option<Acknowledgement>, at: Time) -> Kept {
        let at_once = Kept { leaves: at, replaces: None };
        let Some(ack) = ack.filter(Acknowledgement::is_pure) else { return at_once };
        let line = (packet.flow, packet.conversation, packet.is_reverse);
        let begun = Held { until: at + self.hold, newest: None, count: 0 };
        let held = self.held.entry(line).or_insert(begun);
        if held.until <= at {
            *held = begun;
        }
        let Some(every) = self.every else { return Kept { leaves: held.until, replaces: None } };
        if ack.sack_count > 0 {
            // The packet is neither counted nor held.
            return at_once;
        }
        held.count += 1;
        let replaces = held.newest.replace(packet.slot);
        let leaves = if held.count == every { at } else { held.until };
        if held.count == every {
            self.held.remove(&line);
        }
        Kept { leaves, replaces }
    }
}
