//! Applications: they receive what happened and return what they want. No sockets, no clock; simulated and real sockets
//! run the same code.
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

/// Which end of the flow is spoken to.
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
    /// The time asked for with [`Action::WakeAt`] has come.
    Wake,
    /// A stop time of the flow has come.
    Stop,
    /// The connection is established.
    Established(Connection),
    /// The time asked for with [`Action::CallAt`] has come.
    Due(Connection),
    /// As much as [`Action::TellReceived`] asked for has arrived in order; this many bytes altogether.
    Received(Connection, Bytes),
    /// Everything written is acknowledged, as [`Action::TellDrained`] asked.
    Drained(Connection),
    /// The peer finished sending.
    PeerFinished(Connection),
    /// This end has finished both directions.
    Closed(Connection),
    /// An end gave up, or the connection was never let in. Reported to the client.
    Failed(Connection),
    /// Both ends are gone and the number is free. Reported to the client, once for each [`Action::Connect`].
    Released(Connection),
    /// A datagram arrived, to applications whose [`Needs::datagrams`] says so.
    Datagram {
        /// Number of the datagram.
        number: u64,
        /// Its IP length.
        bytes: u32,
        /// A queue on its way marked it (ECN).
        is_marked: bool,
    },
}

/// How a connection is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Opening {
    /// Its number, free now.
    pub connection: Connection,
    /// Which of the flow's congestion controls it uses, counted through and round again.
    pub turn: u32,
    /// Which of [`Needs::paths`] it takes; 0 if there are none.
    pub path: u32,
}

/// What the application wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Open a connection.
    Connect(Opening),
    /// Count a connection as failed that was never opened.
    TurnAway,
    /// Send this many bytes more.
    Write(Connection, Bytes),
    /// Always have data to send.
    WriteForever(Connection),
    /// Finish sending; `discard` drops what has not been sent yet.
    Close {
        /// Connection to close.
        connection: Connection,
        /// Drop unsent data.
        discard: bool,
    },
    /// Receive [`Cue::Received`] once at least this many bytes altogether have arrived on this side.
    TellReceived(Connection, Bytes),
    /// Receive [`Cue::Drained`] once everything written on this side is acknowledged.
    TellDrained(Connection),
    /// From now on this side's stream carries the packets of the flow's tunnel.
    Carry(Connection),
    /// Receive [`Cue::Due`] then, on this side.
    CallAt(Connection, Time),
    /// Send one datagram of this IP length, numbered by the flow.
    Datagram {
        /// IP length.
        bytes: u32,
        /// Which of several streams in the flow it belongs to, for the packets table.
        stream: u16,
    },
    /// Send one datagram with a number already known: a reply.
    Reply {
        /// The number.
        number: u64,
        /// IP length.
        bytes: u32,
    },
    /// The same from the flow's `to`, whichever side receives the cue.
    ReplyFromServer {
        /// The number.
        number: u64,
        /// IP length.
        bytes: u32,
    },
    /// Receive [`Cue::Wake`] then, instead of whenever was asked for before.
    WakeAt(Time),
    /// A row for the tables.
    Report(Report),
}

/// What an application measures itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// An exchange begins on a connection.
    Asked {
        /// Connection of the exchange.
        connection: Connection,
        /// What kind of exchange.
        kind: Exchange,
        /// Size of the object.
        bytes: Bytes,
        /// Turn of the congestion control in use.
        turn: u32,
    },
    /// The exchange under way on a connection is complete.
    Answered(Connection),
    /// An exchange is complete that was one of several on its connection.
    Served {
        /// Connection of the exchange.
        connection: Connection,
        /// What kind of exchange.
        kind: Exchange,
        /// Size of the object.
        bytes: Bytes,
        /// When it began.
        asked: Time,
    },
    /// The echo request of this number leaves.
    Pinged(u64),
    /// Its reply is back.
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

/// What an application does in answer to a cue.
#[derive(Clone, Debug, Default)]
pub struct Actions {
    /// Actions in the order in which the host takes them.
    pub list: Vec<Action>,
}

impl Actions {
    /// Ask for something.
    pub fn push(&mut self, action: Action) {
        self.list.push(action);
    }
    /// Leave a row.
    pub fn report(&mut self, report: Report) {
        self.list.push(Action::Report(report));
    }
}

/// How an application's bytes travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Over TCP connections; the flow needs a `tcp` section.
    Tcp,
    /// Datagrams; the flow must not have a `tcp` section.
    Udp,
}

/// What an application's datagrams are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Datagrams {
    /// It sends none, or such as mean nothing to others.
    Plain,
    /// Voice: calls whose quality can be judged; RTP on the wire.
    Voice,
    /// Echo requests and replies.
    Echo,
    /// A game's state updates, which may come too late.
    Updates,
}

/// What others must know of an application before there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traits {
    /// What its datagrams are.
    pub datagrams: Datagrams,
    /// Links send their packets through its connection.
    pub carries_packets: bool,
    /// It is programs of the machine's, which only a kernel runs.
    pub runs_programs: bool,
    /// Its requests are for segments of a film, which is played meanwhile.
    pub plays_film: bool,
    /// Its requests are for the objects of pages.
    pub loads_pages: bool,
    /// Its client only asks: what it waits for comes from the other end.
    pub only_asks: bool,
}

impl Traits {
    /// An application without special properties.
    pub const NONE: Traits = Traits {
        datagrams: Datagrams::Plain,
        carries_packets: false,
        runs_programs: false,
        plays_film: false,
        loads_pages: false,
        only_asks: false,
    };
    /// Calls.
    pub const VOICE: Traits = Traits { datagrams: Datagrams::Voice, ..Traits::NONE };
    /// Echoes.
    pub const ECHO: Traits = Traits { datagrams: Datagrams::Echo, ..Traits::NONE };
    /// A game.
    pub const UPDATES: Traits = Traits { datagrams: Datagrams::Updates, ..Traits::NONE };
    /// Requests, whose answers are what counts.
    pub const ASKS: Traits = Traits { only_asks: true, ..Traits::NONE };
    /// A film.
    pub const FILM: Traits = Traits { plays_film: true, ..Traits::ASKS };
    /// Pages.
    pub const PAGES: Traits = Traits { loads_pages: true, ..Traits::ASKS };
    /// A tunnel's connection.
    pub const CARRIER: Traits = Traits { carries_packets: true, ..Traits::NONE };
    /// Programs.
    pub const PROGRAMS: Traits = Traits { runs_programs: true, ..Traits::NONE };
}

/// The table an application leaves rows in, beside those that every flow fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    /// No rows.
    None,
    /// `requests`: its users wait for answers.
    Requests,
    /// `echoes`.
    Echoes,
}

/// A reader that takes its time, for applications that can have one.
const READ_RATE: ParamSpec = ParamSpec::whole(
    "read_rate",
    "bit/s",
    0,
    (0, 1_000_000_000_000),
    "The receiver reads at this rate, so that its window closes; 0 reads at once.",
);

/// What [`READ_RATE`] asks of the host.
fn reading(bps: u64) -> Option<Rate> {
    (bps > 0).then(|| Rate::from_bps(bps))
}

/// What an application needs from its host before it starts.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Needs {
    /// Delays, one way, between the flow's ends and the network; each connection takes one of them both ways.
    pub paths: Vec<Duration>,
    /// Payload of a full segment, at most.
    pub segment: Option<u32>,
    /// Bytes that may be unacknowledged, at most, and buffers large enough for them.
    pub window: Option<Bytes>,
    /// It reads what has arrived at this rate, and not at once.
    pub read_rate: Option<Rate>,
    /// It wants to see its datagrams, to answer them or to time them.
    pub datagrams: bool,
    /// Datagrams from its client are ECN capable (ECT(0)).
    pub ecn: bool,
    /// It opens many short connections: the congestion table counts their events and does not list them.
    pub crowd: bool,
    /// What it offers on average whatever the network does, in bit/s: with the flow's direction, and against it.
    pub load_bps: [f64; 2],
}

/// An application.
pub trait Application {
    /// Something happened at `side`.
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions);
    /// How its bytes travel.
    fn transport(&self) -> Transport;
    /// The table it leaves rows in.
    fn rows(&self) -> Rows {
        Rows::None
    }
    /// What it needs.
    fn needs(&self) -> Needs {
        Needs::default()
    }
}
