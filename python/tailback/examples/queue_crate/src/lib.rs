//! First in, first out: drops at the tail what exceeds a limit, and at the head what has waited longer than `most_ms`.

mod tailback;

use std::collections::VecDeque;

use tailback::{Fate, Link, Packet, Params, Queue, Reason};

struct Mine {
    limit_packets: u32,
    limit_bytes: u64,
    most_ns: u64,
    packets: VecDeque<Packet>,
}

impl Queue for Mine {
    fn new(params: &mut Params, _link: &Link) -> Result<Self, String> {
        let most_ms = params.number("most_ms", f64::INFINITY)?;
        if most_ms <= 0.0 {
            return Err(format!("most_ms = {most_ms}: must be above 0"));
        }
        Ok(Mine {
            // A number that is too large for the type becomes its largest.
            limit_packets: params.number("limit_packets", f64::INFINITY)? as u32,
            limit_bytes: params.number("limit_bytes", f64::INFINITY)? as u64,
            most_ns: (most_ms * 1e6) as u64,
            packets: VecDeque::new(),
        })
    }

    fn enqueue(&mut self, packet: Packet, _now_ns: u64, fate: &mut Fate) {
        let held = fate.held();
        let after = held.bytes + u64::from(packet.bytes());
        if held.packets >= self.limit_packets || after > self.limit_bytes {
            fate.drop(packet, Reason::QueueFull);
        } else {
            self.packets.push_back(packet);
        }
    }

    fn dequeue(&mut self, now_ns: u64, fate: &mut Fate) -> Option<Packet> {
        let mut packet = self.packets.pop_front()?;
        while now_ns - packet.enqueued_ns() > self.most_ns {
            // The last one keeps the link busy.
            let Some(next) = self.packets.pop_front() else { break };
            fate.drop(packet, Reason::Aqm);
            packet = next;
        }
        Some(packet)
    }
}

tailback::export!(Mine);
