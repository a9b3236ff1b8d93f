//! Records a path from outside: packets at its ends, and queues on the way. The simulator and live runs share it.

use super::rows::{PacketFate, PacketRow, Packets, Queue, QueueEventRow, QueuePollRow, QueuePolls};
use super::schema::{Cell, LinkId};
use super::{QueueEvent, QueueRow};
use crate::packet::FlowId;
use crate::queue::Backlog;
use crate::scenario::Instruments;
use crate::tcp::segment::NO_ROW;
use crate::time::Time;

/// The period that is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Start of the window.
    pub from: Time,
    /// End of the window.
    pub until: Time,
}

impl Default for Window {
    fn default() -> Self {
        Window { from: Time::ZERO, until: Time::NEVER }
    }
}

impl Window {
    /// The period that the instruments set.
    pub fn of(instruments: &Instruments) -> Self {
        Window {
            from: Time::from_ps(instruments.from_ps),
            until: instruments.until_ps.map_or(Time::NEVER, Time::from_ps),
        }
    }

    /// Whether `now` is in the period.
    #[inline]
    pub fn is_on(self, now: Time) -> bool {
        self.from <= now && now < self.until
    }
}

/// Which events of a link's queue to record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QueueEvents {
    /// No queue events.
    #[default]
    None,
    /// Drops and marks.
    Losses,
    /// All queue events.
    All,
}

/// Records packets and queues.
#[derive(Clone, Debug, Default)]
pub struct PathRecorder {
    /// Period that is recorded.
    pub window: Window,
    /// The flows whose packets are recorded.
    packets_of: Vec<bool>,
    /// What to record of each link's queue.
    queues: Vec<QueueEvents>,
    /// Queue events.
    pub queue: Queue,
    /// Backlogs at the polls.
    pub queue_polls: QueuePolls,
    /// Packets.
    pub packets: Packets,
    // Rows of `packets` already taken, and the following rows whose packets have arrived or are lost.
    packets_taken: usize,
    packets_settled: usize,
}

impl PathRecorder {
    /// Records the packets of these flows and the queues of these links.
    pub fn new(window: Window, packets_of: Vec<bool>, queues: Vec<QueueEvents>) -> Self {
        PathRecorder { window, packets_of, queues, ..PathRecorder::default() }
    }

    /// Whether packets, or all events of a queue, are recorded.
    pub(super) fn is_of_each(&self) -> bool {
        self.packets_of.contains(&true) || self.queues.contains(&QueueEvents::All)
    }

    /// Whether a link's queue is recorded.
    #[inline]
    pub fn watches(&self, link: u32) -> bool {
        self.queues[link as usize] != QueueEvents::None
    }

    /// Whether such an event of a link's queue is recorded.
    #[inline]
    pub fn wants_event(&self, link: u32, event: QueueEvent) -> bool {
        match self.queues.get(link as usize).copied().unwrap_or_default() {
            QueueEvents::None => false,
            QueueEvents::Losses => matches!(event, QueueEvent::Drop | QueueEvent::Mark),
            QueueEvents::All => true,
        }
    }

    /// Records an event in a link's queue.
    #[inline]
    pub fn queue(&mut self, link: u32, row: &QueueRow<'_>) {
        if !self.wants_event(link, row.event) || !self.window.is_on(row.now) {
            return;
        }
        self.queue.push(QueueEventRow {
            t_s: row.now.as_secs_f64(),
            link: LinkId(link),
            event: row.event,
            flow: row.packet.flow,
            packet: row.number,
            bytes: row.packet.bytes,
            backlog_bytes: row.backlog.bytes,
            backlog_packets: row.backlog.packets,
            reason: row.reason,
        });
    }

    /// Polls a link.
    pub fn poll_link(&mut self, now: Time, link: u32, backlog: Backlog) {
        if self.window.is_on(now) {
            self.queue_polls.push(QueuePollRow {
                t_s: now.as_secs_f64(),
                link: LinkId(link),
                backlog_bytes: backlog.bytes,
                backlog_packets: backlog.packets,
            });
        }
    }

    /// A packet of a flow enters the path; returns its row in the packets table, if it has one.
    #[inline]
    pub fn sent(&mut self, now: Time, flow: FlowId, index: u64, bytes: u32, stream: u16) -> u32 {
        if !self.packets_of[flow.0 as usize] || !self.window.is_on(now) {
            return NO_ROW;
        }
        let row = (self.packets_taken + self.packets.len()) as u32;
        self.packets.push(PacketRow {
            flow,
            index,
            bytes,
            sent_s: now.as_secs_f64(),
            received_s: f64::NAN,
            fate: PacketFate::InTransit,
            stream,
        });
        row
    }

    /// The packet of this row reached its receiver.
    #[inline]
    pub fn received(&mut self, now: Time, row: u32) {
        if row != NO_ROW {
            let row = self.packet(row);
            self.packets.received_s[row] = now.as_secs_f64();
            self.packets.fate[row] = PacketFate::Received.stored();
        }
    }

    /// The packet of this row was dropped.
    pub fn lost(&mut self, row: u32) {
        if row != NO_ROW {
            let row = self.packet(row);
            self.packets.fate[row] = PacketFate::Dropped.stored();
        }
    }

    /// Number of packet rows that will not change any more.
    pub(super) fn settle(&mut self) -> usize {
        let rest = &self.packets.fate[self.packets_settled..];
        self.packets_settled +=
            rest.iter().take_while(|fate| **fate != PacketFate::InTransit.stored()).count();
        self.packets_settled
    }

    /// Takes the first `rows` of them.
    pub(super) fn take_packets(&mut self, rows: usize) -> Packets {
        self.packets_taken += rows;
        self.packets_settled -= rows;
        self.packets.take(rows)
    }

    #[inline]
    fn packet(&self, row: u32) -> usize {
        (row as usize).checked_sub(self.packets_taken).expect("a packet has one fate")
    }
}
