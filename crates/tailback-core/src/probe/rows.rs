//! The tables' rows, said once for the simulator and for live runs.

use super::{Column, Table};
use crate::link::Link;

/// A table as one vector a column, with `push` for a row.
#[macro_export]
macro_rules! columns {
    ($(#[$meta:meta])* $Name:ident as $table:literal { $($field:ident: $variant:ident($type:ty)),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        pub struct $Name { $(#[doc = "A column."] pub $field: Vec<$type>),+ }

        impl $Name {
            #[doc = "Add a row."]
            #[allow(clippy::too_many_arguments, reason = "one argument a column, in the table's order")]
            pub fn push(&mut self, $($field: $type),+) {
                $(self.$field.push($field);)+
            }
            #[doc = "How many rows there are."]
            pub fn len(&self) -> usize {
                [$(self.$field.len()),+][0]
            }
            #[doc = "Are there none?"]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
            #[doc = "Take the first rows away."]
            pub fn take(&mut self, rows: usize) -> Self {
                $(let $field = {
                    let rest = self.$field.split_off(rows);
                    std::mem::replace(&mut self.$field, rest)
                };)+
                $Name { $($field),+ }
            }
            #[doc = "As a table."]
            pub fn into_table(self) -> $crate::probe::Table {
                $crate::probe::Table {
                    name: $table,
                    columns: vec![$((stringify!($field), $crate::probe::Column::$variant(self.$field))),+],
                }
            }
        }
    };
}

columns! {
    /// SIFTR's fields, one row a segment sent or received.
    Segments as "segments" {
        t_s: F64(f64), flow: U32(u32), outgoing: Bool(bool), at_receiver: Bool(bool), seq: U64(u64),
        length: U32(u32), ack: U64(u64), cwnd: U64(u64), ssthresh: U64(u64), snd_wnd: U64(u64),
        rcv_wnd: U64(u64), snd_scale: U8(u8), rcv_scale: U8(u8), state: U8(u8), mss: U32(u32),
        srtt_s: F64(f64), sack_enabled: Bool(bool), flags: U32(u32), rto_s: F64(f64), snd_buf: U64(u64),
        snd_buf_used: U64(u64), rcv_buf: U64(u64), rcv_buf_used: U64(u64), in_flight: U64(u64),
        reassembly: U32(u32), phase: U8(u8),
    }
}

columns! {
    /// Web100's way: state at equal intervals.
    Polls as "polls" {
        t_s: F64(f64), flow: U32(u32), cwnd: U64(u64), ssthresh: U64(u64), srtt_s: F64(f64), rtt_s: F64(f64),
        rtt_min_s: F64(f64), rto_s: F64(f64), in_flight: U64(u64), phase: U8(u8), bytes_acked: U64(u64),
        bytes_received: U64(u64), segments_retransmitted: U64(u64), dup_acks_in: U64(u64), snd_wnd: U64(u64),
    }
}

columns! {
    /// The algorithm's own quantities at the polls.
    Internals as "internals" { t_s: F64(f64), flow: U32(u32), name: U16(u16), value: F64(f64) }
}

columns! {
    /// Every event of the chosen queues.
    Queue as "queue" {
        t_s: F64(f64), link: U32(u32), event: U8(u8), flow: U32(u32), packet: U64(u64), bytes: U32(u32),
        backlog_bytes: U64(u64), backlog_packets: U32(u32), reason: U8(u8),
    }
}

columns! {
    /// Backlogs at equal intervals.
    QueuePolls as "queue_polls" { t_s: F64(f64), link: U32(u32), backlog_bytes: U64(u64), backlog_packets: U32(u32) }
}

columns! {
    /// One-way delays.
    Packets as "packets" {
        flow: U32(u32), index: U64(u64), bytes: U32(u32), sent_s: F64(f64), received_s: F64(f64), fate: U8(u8),
        stream: U16(u16),
    }
}

columns! {
    /// Exchanges: what an application's user waits for.
    Requests as "requests" {
        t_s: F64(f64), flow: U32(u32), connection: U64(u64), kind: U8(u8), turn: U16(u16), bytes: U64(u64),
        response_time_s: F64(f64), fate: U8(u8),
    }
}

columns! {
    /// Echo requests and the round trip of each.
    Echoes as "echoes" { t_s: F64(f64), flow: U32(u32), number: U64(u64), rtt_s: F64(f64) }
}

columns! {
    /// Congestion events.
    Congestion as "congestion" {
        t_s: F64(f64), flow: U32(u32), kind: U8(u8), cwnd_before: U64(u64), cwnd_after: U64(u64),
        ssthresh: U64(u64), in_flight: U64(u64),
    }
}

columns! {
    /// What passed the points of `instruments.captures`, in order of time: `point` counts in that list, `header` is a
    /// row of `headers`.
    Wire as "wire" { t_ps: U64(u64), point: U16(u16), header: U32(u32), ecn: U8(u8) }
}

columns! {
    /// The headers of captured packets, each once. Times and offsets are the engine's: a capture's writer folds them.
    /// `ts_ecr_ps` without an echo is the largest number. Of a datagram `seq` is its number in the flow and `number` in
    /// its stream. `blocks` are rows of `header_sacks`.
    Headers as "headers" {
        packet: U64(u64), flow: U32(u32), reverse: Bool(bool), connection: U32(u32), seq: U64(u64), ack: U64(u64),
        window: U64(u64), ts_val_ps: U64(u64), ts_ecr_ps: U64(u64), length: U32(u32), flags: U8(u8),
        repeated: Bool(bool), bytes: U32(u32), ip_id: U16(u16), stream: U16(u16), number: U64(u64), blocks: U8(u8),
        scale: U8(u8),
    }
}

columns! {
    /// SACK blocks of captured packets.
    HeaderSacks as "header_sacks" { header: U32(u32), start: U64(u64), end: U64(u64) }
}

columns! {
    /// What the two ends of each connection agreed on; recorded with captures.
    Connections as "connections" {
        flow: U32(u32), connection: U32(u32), t_ps: U64(u64), mss: U32(u32), back_mss: U32(u32), timestamps: Bool(bool),
        sack: Bool(bool), scaling: Bool(bool), ecn: Bool(bool), scale: U8(u8), back_scale: U8(u8),
    }
}

/// Fates of a packet: it reached its receiver,
pub const RECEIVED: u8 = 0;
/// was lost,
pub const DROPPED: u8 = 1;
/// or was under way when the run ended.
pub const IN_TRANSIT: u8 = 2;

/// Fates of a request: its answer came,
pub const ANSWERED: u8 = 0;
/// its connection ended before,
pub const ABANDONED: u8 = 1;
/// or it waited when the run ended.
pub const WAITING: u8 = 2;

/// Totals of links.
pub fn links(all: &[Link]) -> Table {
    Table {
        name: "links",
        columns: vec![
            ("link", Column::U32((0..all.len() as u32).collect())),
            ("arrived", Column::U64(all.iter().map(|link| link.count().arrived).collect())),
            ("delivered", Column::U64(all.iter().map(|link| link.count().delivered).collect())),
            ("dropped", Column::U64(all.iter().map(|link| link.count().dropped).collect())),
            ("marked", Column::U64(all.iter().map(|link| link.count().marked).collect())),
            ("duplicated", Column::U64(all.iter().map(|link| link.count().duplicated).collect())),
            ("resident", Column::U64(all.iter().map(|link| u64::from(link.resident().packets)).collect())),
            ("arrived_bytes", Column::U64(all.iter().map(|link| link.count().arrived_bytes).collect())),
            ("delivered_bytes", Column::U64(all.iter().map(|link| link.count().delivered_bytes).collect())),
            ("dropped_bytes", Column::U64(all.iter().map(|link| link.count().dropped_bytes).collect())),
            ("busy_s", Column::F64(all.iter().map(|link| link.busy().as_secs_f64()).collect())),
            ("backlog_bytes_mean", Column::F64(all.iter().map(|link| link.backlog_mean()).collect())),
            ("backlog_bytes_max", Column::U64(all.iter().map(|link| link.backlog_max()).collect())),
        ],
    }
}
