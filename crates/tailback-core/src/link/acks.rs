//! Effects of a return path on ACKs: it holds them and releases them together, or passes only one in N.
//!
//! Law: a pure ACK that departs while none of its connection is held begins a hold of `ack_hold`; ACKs that depart
//! during the hold leave at its end (compression). With `ack_every` N only the newest is held: it replaces the previous
//! one, and the Nth leaves at once and ends the hold (thinning). So one ACK of a connection leaves per N that arrive or
//! per `ack_hold`, and none waits longer than `ack_hold`.
//!
//! Segments with data, SYN, FIN or RST are not held, and an ACK with SACK blocks is never replaced. Datagrams are not
//! ACKs here: those of QUIC are encrypted.
//!
//! Source: RFC 3449 section 5 (ACK congestion on asymmetric paths: ACK filtering, compression); Linux sch_cake,
//! `ack-filter`, for which ACKs may be replaced.
//!
//! Differs from the source:
//! - RFC 3449's filter and cake's examine the queue. Here time and count decide, as in modems that batch upstream
//!   packets.
//! - An ACK that repeats the last number may be replaced, unless it has SACK blocks.

use std::collections::BTreeMap;

use crate::packet::{Acknowledgement, FlowId, Packet};
use crate::time::{Duration, Time};

/// The holds, by connection and direction.
#[derive(Clone, Debug)]
pub struct Acks {
    hold: Duration,
    every: Option<u32>,
    held: BTreeMap<(FlowId, u8, bool), Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    until: Time,
    /// Slot of the ACK that is held, when thinning.
    newest: Option<u32>,
    /// Number of ACKs since the hold began, including the held one.
    count: u32,
}

/// Decision about an ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// When it leaves.
    pub leaves: Time,
    /// Slot of the held packet that it replaces, and that is dropped.
    pub replaces: Option<u32>,
}

impl Acks {
    /// Holds ACKs for `hold`: all of them, or with `every` one in N.
    pub fn new(hold: Duration, every: Option<u32>) -> Self {
        Acks { hold, every, held: BTreeMap::new() }
    }

    /// `packet` departs at `at`: decides when it leaves.
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
            // This ACK is neither counted nor held.
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
