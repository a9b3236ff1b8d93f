//! CoDel (RFC 8289) as Linux has it, the built-in `codel` with `variant = "linux"` row by row. Copy it over src/lib.rs.

mod tailback;

use std::collections::VecDeque;

use tailback::{About, Fate, Link, Packet, Params, Queue, Reason};

/// Times are in units of 1024 ns.
struct CoDel {
    target: u64,
    interval: u64,
    marks: bool,
    limit_packets: u32,
    packets: VecDeque<Packet>,
    /// Bytes of `packets`.
    bytes: u64,
    /// When the delay will have been above target for an interval; 0: it is not above.
    first_above: u64,
    drop_next: u64,
    is_dropping: bool,
    count: u32,
    last_count: u32,
    /// 1/√count as a 16-bit fraction.
    inverse_root: u16,
}

/// No drops while this much is left behind the head.
const MTU: u64 = 1500;

impl Queue for CoDel {
    const ABOUT: About = About { drops_at_head: true, ..About::PLAIN };

    fn new(params: &mut Params, _link: &Link) -> Result<Self, String> {
        let mut time = |name, default: f64| params.number(name, default).map(|ms| (ms * 1e6) as u64 >> 10);
        Ok(CoDel {
            target: time("target_ms", 5.0)?,
            interval: time("interval_ms", 100.0)?,
            marks: params.flag("ecn", false)?,
            limit_packets: params.number("limit_packets", 1000.0)? as u32,
            packets: VecDeque::new(),
            bytes: 0,
            first_above: 0,
            drop_next: 0,
            is_dropping: false,
            count: 0,
            last_count: 0,
            inverse_root: 0,
        })
    }

    fn enqueue(&mut self, packet: Packet, _now_ns: u64, fate: &mut Fate) {
        if fate.held().packets >= self.limit_packets {
            return fate.drop(packet, Reason::QueueFull);
        }
        self.bytes += u64::from(packet.bytes());
        self.packets.push_back(packet);
    }

    fn dequeue(&mut self, now_ns: u64, fate: &mut Fate) -> Option<Packet> {
        let now = now_ns >> 10;
        let mut head = self.pop();
        let is_high = self.is_high(head.as_ref(), now);
        if self.is_dropping {
            self.is_dropping = is_high;
            while self.is_dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                self.step_root();
                let mut packet = head?;
                if self.mark(&mut packet, fate) {
                    self.drop_next = self.after(self.drop_next);
                    return Some(packet);
                }
                fate.drop(packet, Reason::Aqm);
                head = self.pop();
                self.is_dropping = self.is_high(head.as_ref(), now);
                if self.is_dropping {
                    self.drop_next = self.after(self.drop_next);
                }
            }
        } else if is_high {
            let mut packet = head?;
            if self.mark(&mut packet, fate) {
                head = Some(packet);
            } else {
                fate.drop(packet, Reason::Aqm);
                head = self.pop();
                self.is_high(head.as_ref(), now);
            }
            self.start_dropping(now);
        }
        head
    }
}

impl CoDel {
    fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.bytes());
        Some(packet)
    }

    fn mark(&self, packet: &mut Packet, fate: &mut Fate) -> bool {
        let may_mark = self.marks && packet.ecn().is_capable();
        if may_mark {
            fate.mark(packet);
        }
        may_mark
    }

    /// Has the delay been above target for an interval?
    fn is_high(&mut self, head: Option<&Packet>, now: u64) -> bool {
        let is_above = head.is_some_and(|packet| now - (packet.enqueued_ns() >> 10) >= self.target);
        if !is_above || self.bytes <= MTU {
            self.first_above = 0;
            return false;
        }
        if self.first_above == 0 {
            self.first_above = now + self.interval;
            return false;
        }
        now > self.first_above
    }

    fn start_dropping(&mut self, now: u64) {
        self.is_dropping = true;
        // Soon after the last episode it resumes near the rate that worked.
        let drops = self.count.wrapping_sub(self.last_count);
        if drops > 1 && now.saturating_sub(self.drop_next) < 16 * self.interval {
            self.count = drops;
            self.step_root();
        } else {
            self.count = 1;
            self.inverse_root = u16::MAX;
        }
        self.last_count = self.count;
        self.drop_next = self.after(now);
    }

    /// The control law: interval/√count later.
    fn after(&self, from: u64) -> u64 {
        from + ((self.interval * u64::from(self.inverse_root)) >> 16)
    }

    /// One Newton step towards 1/√count, in fractions of 2³².
    fn step_root(&mut self) {
        let x = u64::from(self.inverse_root) << 16;
        let square = (x * x) >> 32;
        let error = ((3u64 << 32).wrapping_sub(u64::from(self.count) * square)) >> 2;
        self.inverse_root = (error.wrapping_mul(x) >> (32 - 2 + 1 + 16)) as u16;
    }
}

tailback::export!(CoDel);
