//! The TCP state log: the kernel's tracepoints for the run's connections, recorded by BPF.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::bpf::{Loaded, RingReader};
use crate::error::LiveError;
use crate::recipe::Recipe;

const SOURCE: &str = include_str!("../../../bpf/log/tcp.bpf.c");
/// Interval between reads of the ring, which holds 16 MB, some 0.1 s of rows at the highest rate.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The event that produced a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A segment arrived; the state is that before it was processed.
    Received,
    /// A segment was sent; the state is that after sending.
    Sent,
    /// The congestion state is about to change to this.
    State(u8),
}

/// A row in the layout of bpf/log/tcp.bpf.c. Counts are in segments unless stated otherwise.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the kernel's own names")]
pub struct Row {
    pub ns: u64,
    pub kind: Kind,
    pub bytes_acked: u64,
    pub local: std::net::Ipv4Addr,
    pub cwnd: u32,
    pub ssthresh: u32,
    pub mss: u32,
    pub snd_una: u32,
    pub snd_nxt: u32,
    pub rcv_nxt: u32,
    pub srtt_us_8: u32,
    pub rtt_us: u32,
    pub rto: u32,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    pub packets_out: u32,
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retrans_out: u32,
    pub total_retrans: u32,
    pub prior_cwnd: u32,
    pub length: u32,
    pub snd_buf: u32,
    pub snd_buf_used: u32,
    pub rcv_buf: u32,
    pub jiffies: u32,
    pub seq: u32,
    pub ack: u32,
    pub flags: u32,
    /// Payload of each segment that a large segment will be cut into; 0 if it is not cut.
    pub cut: u32,
    pub state: u8,
    pub phase: u8,
    pub snd_scale: u8,
    pub rcv_scale: u8,
    /// The client's port, at both ends: it identifies the connection.
    pub port: u16,
}

impl Row {
    /// Bytes in flight by the kernel's own count.
    pub fn in_flight(&self) -> u64 {
        let segments = (self.packets_out + self.retrans_out).saturating_sub(self.sacked_out + self.lost_out);
        u64::from(segments) * u64::from(self.mss)
    }

    /// One row per segment on the wire, where the kernel leaves segmentation to the device.
    fn segments(self) -> impl Iterator<Item = Row> {
        const FIN_AND_PSH: u32 = 0x09;
        const CWR: u32 = 0x80;
        let cut = if self.cut == 0 { self.length.max(1) } else { self.cut };
        let count = self.length.div_ceil(cut).max(1);
        (0..count).map(move |number| {
            let kept = if number == 0 { !0 } else { !CWR };
            let kept = if number + 1 == count { kept } else { kept & !FIN_AND_PSH };
            Row {
                seq: self.seq.wrapping_add(number * cut),
                length: cut.min(self.length - number * cut),
                flags: self.flags & kept,
                ..self
            }
        })
    }

    fn read(bytes: &[u8]) -> Option<Row> {
        const WORDS: usize = 28;
        const LENGTH: usize = 16 + 4 * WORDS + 8;
        if bytes.len() < LENGTH {
            return None;
        }
        let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let word = |number: usize| {
            let at = 16 + 4 * number;
            u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
        };
        let last = &bytes[16 + 4 * WORDS..];
        Some(Row {
            ns: long(0),
            kind: match last[0] {
                0 => Kind::Received,
                1 => Kind::State(last[3]),
                _ => Kind::Sent,
            },
            bytes_acked: long(8),
            local: std::net::Ipv4Addr::from(word(0).to_ne_bytes()),
            cwnd: word(2),
            ssthresh: word(3),
            mss: word(4),
            snd_una: word(5),
            snd_nxt: word(6),
            rcv_nxt: word(7),
            srtt_us_8: word(8),
            rtt_us: word(9),
            rto: word(10),
            snd_wnd: word(11),
            rcv_wnd: word(12),
            packets_out: word(13),
            sacked_out: word(14),
            lost_out: word(15),
            retrans_out: word(16),
            total_retrans: word(17),
            prior_cwnd: word(18),
            length: word(19),
            snd_buf: word(20),
            snd_buf_used: word(21),
            rcv_buf: word(22),
            jiffies: word(23),
            seq: word(24),
            ack: word(25),
            flags: word(26),
            cut: word(27),
            state: last[1],
            phase: last[2],
            snd_scale: last[4],
            rcv_scale: last[5],
            port: u16::from_ne_bytes([last[6], last[7]]),
        })
    }
}

/// Timer frequency of the running kernel (CONFIG_HZ), from rows some time apart; `None` if they are too close.
pub fn ticks_a_second(rows: &[Row]) -> Option<f64> {
    let (first, last) = (rows.first()?, rows.last()?);
    let seconds = last.ns.checked_sub(first.ns)? as f64 * 1e-9;
    let ticks = f64::from(last.jiffies.wrapping_sub(first.jiffies));
    // The timer frequencies that a kernel can be built with.
    let near = |hz: &&f64| (ticks - **hz * seconds).abs() < 0.05 * **hz * seconds + 2.0;
    if seconds < 0.2 { None } else { [100.0, 250.0, 300.0, 1000.0].iter().find(near).copied() }
}

/// The attached log.
pub struct TcpLog {
    loaded: Loaded,
    ring: RingReader,
}

/// The log program for this many hosts: for kernels 6.2 and later, and for older ones.
pub fn recipes(hosts: usize) -> [Recipe; 2] {
    let hosts = ("HOSTS", hosts.to_string());
    [vec![hosts.clone()], vec![hosts, ("BEFORE_CASTS", "1".into())]]
        .map(|defines| Recipe::new("tcp log", SOURCE, defines))
}

impl TcpLog {
    /// Logs the connections of the hosts with these namespace numbers, and also what they send if `with_sent` is set.
    pub fn attach(hosts: &[u64], with_sent: bool) -> Result<Self, LiveError> {
        let [now, before] = recipes(hosts.len());
        let left_out = (!with_sent).then_some(c"on_sent");
        let load = |recipe: Recipe| Loaded::load_for("tcp log", &recipe.object()?, hosts, left_out);
        let mut loaded = load(now).or_else(|error| load(before).map_err(|_| error))?;
        let ring = loaded.ring("rows")?;
        loaded.attach("on_received")?;
        loaded.attach("on_state")?;
        if with_sent {
            loaded.attach("on_sent")?;
        }
        Ok(TcpLog { loaded, ring })
    }

    /// Reads rows until `stop`; returns them with the number of lost rows.
    pub fn follow(mut self, stop: &AtomicBool) -> (Vec<Row>, u64) {
        crate::sys::go_first();
        let mut rows = Vec::new();
        loop {
            let is_last = stop.load(Ordering::Relaxed);
            rows.extend(self.ring.take().iter().filter_map(|bytes| Row::read(bytes)).flat_map(Row::segments));
            if is_last {
                break;
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        let lost = self.loaded.number("lost");
        (rows, lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_segment_is_a_row_for_each_it_is_cut_into() {
        const WORDS: usize = 28;
        let mut bytes = vec![0; 16 + 4 * WORDS + 8];
        let mut set = |word: usize, value: u32| {
            bytes[16 + 4 * word..][..4].copy_from_slice(&value.to_ne_bytes());
        };
        set(19, 250);
        set(24, u32::MAX - 99);
        set(26, 0x98);
        set(27, 100);
        let row = Row::read(&bytes).expect("a row");
        let rows: Vec<_> = row.segments().map(|row| (row.seq, row.length, row.flags)).collect();
        assert_eq!(rows, [(u32::MAX - 99, 100, 0x90), (0, 100, 0x10), (100, 50, 0x18)]);
        assert_eq!(Row { cut: 0, ..row }.segments().count(), 1);
        assert_eq!(Row { cut: 0, length: 0, ..row }.segments().count(), 1, "an acknowledgement");
    }
}
