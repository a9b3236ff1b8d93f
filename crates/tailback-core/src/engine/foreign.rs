//! What the engine keeps of a flow whose connections are a foreign stack's.

use std::sync::Arc;

use super::connections::Tally;
use crate::foreign::{Endpoint, Progress, Setup, Stack, State};
use crate::rng::Stream;
use crate::scenario::Params;
use crate::tcp::segment::NO_ROW;
use crate::time::{Bytes, Duration, Time};
use crate::traffic::{Connection, Side};

/// Datagrams and wakes of a flow without any time passing; more, and none ever will.
pub const MOST_AT_AN_INSTANT: u32 = 200_000;
/// Datagrams in a row that a sender may add to a full window. Probes after a timeout may (RFC 9002 section 7.5), two each
/// time, and no path is silent for sixteen timeouts of a connection that lives.
pub const MOST_BEYOND_WINDOW: u32 = 32;

/// A flow's foreign connections.
#[derive(Debug)]
pub struct Foreign {
    /// The flow's number.
    pub flow: u32,
    /// Its name.
    pub flow_name: String,
    /// The stack's name in the scenario.
    pub name: String,
    pub stack: Arc<dyn Stack>,
    /// The flow's congestion controls, in turn.
    pub algorithms: Vec<(String, Params)>,
    pub mtu: u32,
    pub send_buffer: Option<Bytes>,
    pub receive_buffer: Option<Bytes>,
    /// Seeds of the connections, in order of opening.
    pub seeds: Stream,
    /// The scenario's name and seed, for complaints.
    pub scenario: (String, u64),
    pub live: Vec<Live>,
    /// Connections so far.
    pub opened: u32,
    /// Datagrams in the network.
    pub under_way: u64,
    /// What was last done, and how often at that instant.
    pub busy_at: Time,
    pub busy: u32,
}

/// A connection.
#[derive(Debug)]
pub struct Live {
    /// Unique in the flow.
    pub serial: u32,
    pub connection: Connection,
    pub halves: [Half; 2],
    /// The row of the requests table that waits for an answer.
    pub row: u32,
}

/// One end, and what its application waits for there.
#[derive(Debug)]
pub struct Half {
    pub endpoint: Box<dyn Endpoint>,
    /// Bytes that the application has written and the stack has not taken; [`Bytes::MAX`]: always some.
    pub to_write: Bytes,
    pub is_finishing: bool,
    /// The stack knows that it finishes.
    pub has_finished: bool,
    /// Both directions are done, and the application knows.
    pub is_done: bool,
    /// What the application was last told.
    pub told: Progress,
    pub read: Bytes,
    pub receive_mark: Bytes,
    pub call_at: Time,
    pub timeout: Time,
    pub established_at: Time,
    pub state: State,
    /// Datagrams in a row beyond the window.
    pub beyond: u32,
}

impl Half {
    fn new(endpoint: Box<dyn Endpoint>) -> Self {
        Half {
            endpoint,
            to_write: 0,
            is_finishing: false,
            has_finished: false,
            is_done: false,
            told: Progress::default(),
            read: 0,
            receive_mark: Bytes::MAX,
            call_at: Time::NEVER,
            timeout: Time::NEVER,
            established_at: Time::NEVER,
            state: State::default(),
            beyond: 0,
        }
    }

    pub fn next_wake(&self) -> Time {
        self.timeout.min(self.call_at)
    }

    /// Is it waiting for something that only the stack can bring about?
    pub fn waits(&self) -> bool {
        let unsent = self.to_write > 0 || self.is_finishing && !self.told.is_acknowledged;
        !self.told.is_closed && (!self.told.is_established || unsent)
    }
}

impl Foreign {
    /// Open a connection, the flow's `turn`-th.
    pub fn open(&mut self, connection: Connection, turn: u32, now: Time) -> u32 {
        let seed = self.seeds.bits();
        let (cc, cc_params) = &self.algorithms[turn as usize % self.algorithms.len()];
        let setup = Setup {
            now,
            cc,
            cc_params,
            mtu: self.mtu,
            send_buffer: self.send_buffer,
            receive_buffer: self.receive_buffer,
            seed,
        };
        let halves = self.stack.connect(&setup).map(Half::new);
        let serial = self.opened;
        self.opened += 1;
        self.live.push(Live { serial, connection, halves, row: NO_ROW });
        serial
    }

    pub fn half(&mut self, serial: u32, side: Side) -> Option<&mut Half> {
        let live = self.live.iter_mut().find(|live| live.serial == serial)?;
        Some(&mut live.halves[usize::from(side == Side::Server)])
    }

    pub fn of(&mut self, connection: Connection) -> Option<&mut Live> {
        self.live.iter_mut().find(|live| live.connection == connection)
    }

    pub fn next_wake(&self) -> Time {
        let halves = self.live.iter().flat_map(|live| &live.halves);
        halves.map(Half::next_wake).min().unwrap_or(Time::NEVER)
    }

    /// Nothing will ever happen again, and somebody waits for something.
    pub fn is_stuck(&self) -> bool {
        self.under_way == 0
            && self.next_wake() == Time::NEVER
            && self.live.iter().flat_map(|live| &live.halves).any(Half::waits)
    }

    /// Count something done at `now`; false if too much is done without time passing.
    pub fn is_advancing(&mut self, now: Time) -> bool {
        if self.busy_at != now {
            (self.busy_at, self.busy) = (now, 0);
        }
        self.busy += 1;
        self.busy <= MOST_AT_AN_INSTANT
    }
}

impl Tally {
    /// What a foreign connection has done. A packet its stack took for lost stands where TCP has a retransmission:
    /// what was in it is sent again in another one.
    pub fn add_foreign(&mut self, live: &Live) {
        let [client, server] = &live.halves;
        self.bytes_acked += client.state.bytes_acked;
        self.bytes_received += server.read;
        self.bytes_arrived += server.read;
        self.bytes_returned += client.read;
        for (count, half) in [(&mut self.sent, client), (&mut self.back_sent, server)] {
            count.segments_sent += half.state.packets_sent;
            count.segments_retransmitted += half.state.packets_lost;
            count.recoveries += half.state.congestion_events;
        }
        self.established_at = self.established_at.min(client.established_at);
        if !client.state.srtt.is_zero() {
            self.srtt = client.state.srtt;
            self.rtt_min = self.rtt_min.min(match client.state.rtt_min {
                Duration::ZERO => Duration::MAX,
                least => least,
            });
        }
    }
}
