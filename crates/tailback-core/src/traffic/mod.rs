//! Applications: they receive events (cues) and return actions. They use no sockets and no clock, so the same code runs
//! on simulated and on real sockets.
//!
//! An application numbers its connections itself, from zero and densely, and may use a number again after
//! [`Cue::Released`].

pub mod bulk;
pub mod connection_vectors;
pub mod draws;
pub mod exec;
pub mod ftp;
pub mod game;
pub mod gcc;
pub mod media;
pub mod nada;
pub mod packmime;
pub mod page;
pub mod ping;
pub mod registry;
pub mod request_response;
pub mod rpm_probe;
pub mod scream;
pub mod slots;
pub mod transfers;
pub mod tunnel;
pub mod udp_cbr;
pub mod video;
pub mod voip;
pub mod voip_onoff;
pub mod web;
pub mod web_probe;

use crate::params::ParamSpec;
use crate::time::{Bytes, Duration, Rate, Time};

/// One end of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The end at the flow's `from`: it opens connections.
    Client,
    /// The end at the flow's `to`.
    Server,
}

/// A connection of a flow, by the number its application gave it.
pub type Connection = u32;

/// An event at an application's sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cue {
    /// A start time of the flow has come.
    Start,
    /// The time requested with [`Action::WakeAt`] has come.
    Wake,
    /// A stop time of the flow has come.
    Stop,
    /// The connection is established.
    Established(Connection),
    /// The time requested with [`Action::CallAt`] has come.
    Due(Connection),
    /// At least as many bytes as [`Action::TellReceived`] requested have arrived in order. The value is their total.
    Received(Connection, Bytes),
    /// All written data is acknowledged, as requested with [`Action::TellDrained`].
    Drained(Connection),
    /// The peer finished sending.
    PeerFinished(Connection),
    /// Both directions have finished at this end.
    Closed(Connection),
    /// An end gave up, or the connection was refused. Reported to the client.
    Failed(Connection),
    /// Both ends are closed and the number may be reused. Reported to the client, once per [`Action::Connect`].
    Released(Connection),
    /// A datagram arrived; only for applications with [`Needs::datagrams`].
    Datagram {
        /// Number of the datagram.
        number: u64,
        /// Its IP length.
        bytes: u32,
        /// Whether a queue on the way marked it (ECN).
        is_marked: bool,
    },
}

/// Parameters of a new connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Opening {
    /// Its number, which must be free.
    pub connection: Connection,
    /// Which of the flow's congestion controls it uses; counts on and wraps around.
    pub turn: u32,
    /// Index into [`Needs::paths`]; 0 if there are none.
    pub path: u32,
}

/// A request of the application to its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Open a connection.
    Connect(Opening),
    /// Counts a connection as failed that was never opened.
    TurnAway,
    /// Sends this many more bytes.
    Write(Connection, Bytes),
    /// Provides an endless supply of data.
    WriteForever(Connection),
    /// Finishes sending.
    Close {
        /// Connection to close.
        connection: Connection,
        /// Whether to drop unsent data.
        discard: bool,
    },
    /// Requests [`Cue::Received`] once at least this many bytes in total have arrived on this side.
    TellReceived(Connection, Bytes),
    /// Requests [`Cue::Drained`] once everything written on this side is acknowledged.
    TellDrained(Connection),
    /// From now on this side's stream carries the packets of the flow's tunnel.
    Carry(Connection),
    /// Requests [`Cue::Due`] at this time, on this side.
    CallAt(Connection, Time),
    /// Sends one datagram of this IP length, numbered by the flow.
    Datagram {
        /// IP length.
        bytes: u32,
        /// Stream of the flow that it belongs to, for the packets table.
        stream: u16,
    },
    /// Sends one datagram with a given number: a reply.
    Reply {
        /// The number.
        number: u64,
        /// IP length.
        bytes: u32,
    },
    /// The same from the flow's `to` node, whichever side receives the cue.
    ReplyFromServer {
        /// The number.
        number: u64,
        /// IP length.
        bytes: u32,
    },
    /// Requests [`Cue::Wake`] at this time; replaces an earlier request.
    WakeAt(Time),
    /// Adds a row to a table.
    Report(Report),
}

/// A measurement by an application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// An exchange begins on a connection.
    Asked {
        /// Connection of the exchange.
        connection: Connection,
        /// Kind of exchange.
        kind: Exchange,
        /// Size of the object.
        bytes: Bytes,
        /// Index of its congestion control.
        turn: u32,
    },
    /// The current exchange on a connection is complete.
    Answered(Connection),
    /// One of several concurrent exchanges on a connection is complete.
    Served {
        /// Connection of the exchange.
        connection: Connection,
        /// Kind of exchange.
        kind: Exchange,
        /// Size of the object.
        bytes: Bytes,
        /// When it began.
        asked: Time,
    },
    /// The echo request of this number is sent.
    Pinged(u64),
    /// The reply to the echo request of this number is back.
    Ponged(u64),
}

crate::labels! {
    /// Kinds of exchange in the requests table.
    pub enum Exchange {
        /// A session of the web background.
        Web = 0 => "web",
        /// An object fetched by the web probe.
        Probe = 1 => "probe",
        /// A file transfer.
        Transfer = 2 => "transfer",
        /// A request and its response on an open connection.
        Request = 3 => "request",
        /// A connection's handshake.
        Handshake = 4 => "handshake",
        /// TLS's handshake on an open connection.
        Tls = 5 => "tls",
        /// A segment of a film.
        Segment = 6 => "segment",
        /// An object of a web page.
        Object = 7 => "object",
        /// A web page.
        Page = 8 => "page",
    }
}

/// The actions of an application in response to a cue.
#[derive(Clone, Debug, Default)]
pub struct Actions {
    /// Actions in the order in which the host carries them out.
    pub list: Vec<Action>,
}

impl Actions {
    /// Adds an action.
    pub fn push(&mut self, action: Action) {
        self.list.push(action);
    }
    /// Adds a measurement.
    pub fn report(&mut self, report: Report) {
        self.list.push(Action::Report(report));
    }
}

/// How an application's data is transported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Over TCP connections; the flow needs a `tcp` section.
    Tcp,
    /// Datagrams; the flow must not have a `tcp` section.
    Udp,
}

/// Kind of an application's datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Datagrams {
    /// None, or datagrams without meaning for metrics.
    Plain,
    /// Voice: calls whose quality can be judged; RTP on the wire.
    Voice,
    /// Echo requests and replies.
    Echo,
    /// A game's state updates, which can arrive too late to be useful.
    Updates,
}

/// Properties of an application that are known before it is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traits {
    /// Kind of its datagrams.
    pub datagrams: Datagrams,
    /// Whether links send their packets through its connection.
    pub carries_packets: bool,
    /// Whether it consists of real programs, which need a kernel.
    pub runs_programs: bool,
    /// Whether its requests fetch the segments of a film that is playing.
    pub plays_film: bool,
    /// Whether its requests fetch the objects of web pages.
    pub loads_pages: bool,
    /// Whether its client only sends requests, so that the results come from the other end.
    pub only_asks: bool,
}

impl Traits {
    /// No special properties.
    pub const NONE: Traits = Traits {
        datagrams: Datagrams::Plain,
        carries_packets: false,
        runs_programs: false,
        plays_film: false,
        loads_pages: false,
        only_asks: false,
    };
    /// Traits of phone calls.
    pub const VOICE: Traits = Traits { datagrams: Datagrams::Voice, ..Traits::NONE };
    /// Traits of echo requests.
    pub const ECHO: Traits = Traits { datagrams: Datagrams::Echo, ..Traits::NONE };
    /// Traits of a game.
    pub const UPDATES: Traits = Traits { datagrams: Datagrams::Updates, ..Traits::NONE };
    /// Traits of requests whose responses are measured.
    pub const ASKS: Traits = Traits { only_asks: true, ..Traits::NONE };
    /// Traits of a film.
    pub const FILM: Traits = Traits { plays_film: true, ..Traits::ASKS };
    /// Traits of web pages.
    pub const PAGES: Traits = Traits { loads_pages: true, ..Traits::ASKS };
    /// Traits of a tunnel's connection.
    pub const CARRIER: Traits = Traits { carries_packets: true, ..Traits::NONE };
    /// Traits of programs.
    pub const PROGRAMS: Traits = Traits { runs_programs: true, ..Traits::NONE };
}

/// The table to which an application adds rows, beyond those for every flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    /// No rows.
    None,
    /// `requests`: its users wait for responses.
    Requests,
    /// `echoes`: its echo requests.
    Echoes,
}

/// Parameter for applications that can have a slow reader.
const READ_RATE: ParamSpec = ParamSpec::whole(
    "read_rate",
    "bit/s",
    0,
    (0, 1_000_000_000_000),
    "The receiver reads at this rate, so that its window closes; 0 reads at once.",
);

/// Read rate for the host from the value of [`READ_RATE`]; `None` if it is zero.
fn reading(bps: u64) -> Option<Rate> {
    (bps > 0).then(|| Rate::from_bps(bps))
}

/// Requirements of an application on its host.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Needs {
    /// One-way delays between the flow's ends and the network; each connection uses one of them in both directions.
    pub paths: Vec<Duration>,
    /// Limit on the payload of a segment.
    pub segment: Option<u32>,
    /// Limit on unacknowledged bytes; buffers are made large enough for it.
    pub window: Option<Bytes>,
    /// Rate at which it reads what has arrived; `None`: at once.
    pub read_rate: Option<Rate>,
    /// Whether it receives its datagrams, to answer or to time them.
    pub datagrams: bool,
    /// Whether datagrams from its client are ECN-capable (ECT(0)).
    pub ecn: bool,
    /// Whether it opens many short connections, so that their congestion events are counted but not listed.
    pub crowd: bool,
    /// Average load in bit/s that it offers whatever the network's state: in the flow's direction, and in reverse.
    pub load_bps: [f64; 2],
}

/// An application.
pub trait Application {
    /// Handles an event at `side`.
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions);
    /// Transport of its data.
    fn transport(&self) -> Transport;
    /// The table to which it adds rows.
    fn rows(&self) -> Rows {
        Rows::None
    }
    /// What the application requires of the engine.
    fn needs(&self) -> Needs {
        Needs::default()
    }
}
