//! What a flow's applications did: rows for exchanges and echoes, and totals over connections.

use std::collections::BTreeMap;

use tailback_core::engine::foreign::Live;
use tailback_core::foreign::StackFault;
use tailback_core::packet::FlowId;
use tailback_core::probe::Table;
use tailback_core::probe::rows::{
    CongestionRow, EchoRow, Echoes, ExchangeFate, PollRow, RequestRow, Requests, StackStateRow,
};
use tailback_core::time::{Bytes, Duration, Time};
use tailback_core::traffic::Exchange;

use crate::punctuality::Service;
use crate::sys::TcpInfo;

/// What to record of a flow, and when.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recording {
    /// Rows of all exchanges.
    pub requests: bool,
    /// Every echo request.
    pub echoes: bool,
    /// Every state change at an end of a foreign stack's connection.
    pub states: bool,
    /// Interval at which to poll the foreign connection opened last.
    pub polls: Option<Duration>,
    /// Start of the period.
    pub from: Time,
    /// End of the period.
    pub until: Time,
}

/// An exchange: what a user waits for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    at: Time,
    flow: u32,
    connection: u64,
    kind: Exchange,
    turn: u16,
    bytes: Bytes,
    answered: Time,
    fate: ExchangeFate,
}

/// An echo request.
#[derive(Clone, Copy, Debug)]
pub struct Echo {
    at: Time,
    flow: u32,
    number: u64,
    answered: Time,
}

/// What one end of a flow's connections has sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// Segments with payload, retransmissions among them.
    pub segments: u64,
    /// Retransmissions.
    pub retransmitted: u64,
}

/// A flow's totals.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    /// Connections opened.
    pub connections: u64,
    /// Of these, connections that were given up or never accepted.
    pub failed: u64,
    /// Of these, connections still open at the end.
    pub open: u64,
    /// The client's acknowledged payload.
    pub bytes_acked: Bytes,
    /// Payload delivered at the server.
    pub bytes_received: Bytes,
    /// Payload delivered at the client.
    pub bytes_returned: Bytes,
    /// The client's segments.
    pub sent: Sent,
    /// The server's segments.
    pub back: Sent,
    /// When the first connection was established.
    pub established: Time,
    /// When the last one was over.
    pub finished: Time,
    /// The kernel's smallest RTT at the clients, in µs; [`u32::MAX`] without a sample.
    pub rtt_us_min: u32,
    /// The last smoothed RTT, in µs; 0 without a sample.
    pub srtt_us: u32,
    /// Number of times a foreign stack responded to a loss or mark as congestion. For TCP see the state log.
    pub recoveries: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            connections: 0,
            failed: 0,
            open: 0,
            bytes_acked: 0,
            bytes_received: 0,
            bytes_returned: 0,
            sent: Sent::default(),
            back: Sent::default(),
            established: Time::NEVER,
            finished: Time::NEVER,
            rtt_us_min: u32::MAX,
            srtt_us: 0,
            recoveries: 0,
        }
    }
}

impl Tally {
    /// Adds the kernel's TCP_INFO of a client's end.
    pub fn add_client(&mut self, info: &TcpInfo) {
        add(&mut self.sent, info);
        self.rtt_us_min = self.rtt_us_min.min(if info.min_rtt_us == 0 { u32::MAX } else { info.min_rtt_us });
        if info.rtt_us > 0 {
            self.srtt_us = info.rtt_us;
        }
    }

    /// Adds the kernel's TCP_INFO of a server's end.
    pub fn add_server(&mut self, info: &TcpInfo) {
        add(&mut self.back, info);
    }

    /// Adds the totals of a foreign stack's connection, as the simulator does.
    pub fn add_foreign(&mut self, live: &Live) {
        let [client, server] = &live.halves;
        self.bytes_acked += client.state.bytes_acked;
        self.bytes_received += server.read;
        self.bytes_returned += client.read;
        for (sent, half) in [(&mut self.sent, client), (&mut self.back, server)] {
            sent.segments += half.state.packets_sent;
            sent.retransmitted += half.state.packets_lost;
        }
        self.recoveries += client.state.congestion_events;
        let micro = |span: Duration| u32::try_from(span.as_ps() / 1_000_000).unwrap_or(u32::MAX);
        if !client.state.srtt.is_zero() {
            self.srtt_us = micro(client.state.srtt);
        }
        if !client.state.rtt_min.is_zero() {
            self.rtt_us_min = self.rtt_us_min.min(micro(client.state.rtt_min));
        }
    }
}

fn add(sent: &mut Sent, info: &TcpInfo) {
    sent.segments += u64::from(info.data_segs_out);
    sent.retransmitted += u64::from(info.total_retrans);
}

/// What one flow's applications did.
#[derive(Debug)]
pub struct FlowRecord {
    flow: u32,
    record: Recording,
    /// Totals.
    pub tally: Tally,
    /// Exchanges.
    pub requests: Vec<Request>,
    /// Echoes.
    pub echoes: Vec<Echo>,
    unanswered: BTreeMap<u64, usize>,
    /// The stream of each datagram the client sent, in order.
    pub streams: Vec<u16>,
    /// How promptly the flow's thread ran.
    pub service: Service,
    /// A foreign stack's state at each change.
    pub states: Vec<StackStateRow>,
    /// A foreign stack's state at equal intervals.
    pub polls: Vec<PollRow>,
    /// A foreign stack's responses to congestion.
    pub congestion: Vec<CongestionRow>,
    /// Datagrams dropped because the flow's own socket buffer was full.
    pub socket_drops: u64,
    /// The rule that the foreign stack broke, and how many connections that ended.
    pub fault: Option<(u64, Box<StackFault>)>,
    /// The sentence on the foreign stack's connections that failed.
    pub failures: Option<String>,
}

impl FlowRecord {
    /// An empty record of a flow.
    pub fn new(flow: u32, record: Recording) -> Self {
        FlowRecord {
            flow,
            record,
            tally: Tally::default(),
            requests: Vec::new(),
            echoes: Vec::new(),
            unanswered: BTreeMap::new(),
            streams: Vec::new(),
            service: Service::default(),
            states: Vec::new(),
            polls: Vec::new(),
            congestion: Vec::new(),
            socket_drops: 0,
            fault: None,
            failures: None,
        }
    }

    /// What to record at this time.
    pub fn wanted(&self, now: Time) -> Recording {
        if self.is_on(now) { self.record } else { Recording::default() }
    }

    /// The flow's number.
    pub fn flow(&self) -> u32 {
        self.flow
    }

    fn is_on(&self, now: Time) -> bool {
        self.record.from <= now && now < self.record.until
    }

    /// Starts an exchange on the connection opened last; returns its row if exchanges are recorded.
    pub fn asked(&mut self, at: Time, kind: Exchange, bytes: Bytes, turn: u16) -> Option<usize> {
        if !(self.record.requests && self.is_on(at)) {
            return None;
        }
        let connection = self.tally.connections - 1;
        let (flow, answered, fate) = (self.flow, Time::NEVER, ExchangeFate::Waiting);
        self.requests.push(Request { at, flow, connection, kind, turn, bytes, answered, fate });
        Some(self.requests.len() - 1)
    }

    /// Marks an exchange as complete.
    pub fn answered(&mut self, now: Time, row: Option<usize>) {
        if let Some(request) = row.map(|row| &mut self.requests[row]) {
            (request.answered, request.fate) = (now, ExchangeFate::Answered);
        }
    }

    /// Marks an exchange as one that will never complete.
    pub fn abandoned(&mut self, row: Option<usize>) {
        if let Some(request) = row.map(|row| &mut self.requests[row]) {
            request.fate = ExchangeFate::Abandoned;
        }
    }

    /// Records that an echo request was sent.
    pub fn pinged(&mut self, at: Time, number: u64) {
        if self.record.echoes && self.is_on(at) {
            self.unanswered.insert(number, self.echoes.len());
            self.echoes.push(Echo { at, flow: self.flow, number, answered: Time::NEVER });
        }
    }

    /// Records an echo reply; the reply to a request already answered is ignored.
    pub fn ponged(&mut self, now: Time, number: u64) {
        if let Some(row) = self.unanswered.remove(&number) {
            self.echoes[row].answered = now;
        }
    }
}

fn span(from: Time, until: Time) -> f64 {
    if until == Time::NEVER { f64::NAN } else { until.as_secs_f64() - from.as_secs_f64() }
}

/// The requests table of all flows, in order of time.
pub fn requests<'a>(records: impl Iterator<Item = &'a FlowRecord>) -> Table {
    let mut rows: Vec<&Request> = records.flat_map(|record| &record.requests).collect();
    rows.sort_by_key(|row| row.at);
    let row = |row: &Request| RequestRow {
        t_s: row.at.as_secs_f64(),
        flow: FlowId(row.flow),
        connection: row.connection,
        kind: row.kind,
        turn: row.turn,
        bytes: row.bytes,
        response_time_s: span(row.at, row.answered),
        fate: row.fate,
    };
    rows.into_iter().map(row).collect::<Requests>().into_table()
}

/// The echoes table of all flows, in order of time.
pub fn echoes<'a>(records: impl Iterator<Item = &'a FlowRecord>) -> Table {
    let mut rows: Vec<&Echo> = records.flat_map(|record| &record.echoes).collect();
    rows.sort_by_key(|row| row.at);
    let row = |row: &Echo| EchoRow {
        t_s: row.at.as_secs_f64(),
        flow: FlowId(row.flow),
        number: row.number,
        rtt_s: span(row.at, row.answered),
    };
    rows.into_iter().map(row).collect::<Echoes>().into_table()
}
