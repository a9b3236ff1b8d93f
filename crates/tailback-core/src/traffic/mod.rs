//! Applications: told what happened, they say what they want. No sockets, no clock; simulated and real sockets
//! run the same code.

pub mod bulk;
pub mod registry;
pub mod voip;

use crate::time::{Bytes, Time};

/// Which end of the flow is spoken to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The end at the flow's `from`: it opens the connection.
    Client,
    /// The end at the flow's `to`.
    Server,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cue {
    /// The flow's start time has come.
    Start,
    /// The time asked for with [`Wish::WakeAt`] has come.
    Wake,
    /// The flow's stop time has come.
    Stop,
    /// The connection is established.
    Established,
    /// In-order payload arrived; so many bytes altogether.
    Received(Bytes),
    /// Everything written so far is acknowledged.
    Drained,
    /// The peer finished sending.
    PeerFinished,
    /// Both directions are finished.
    Closed,
}

/// What the application wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Open the connection.
    Connect,
    /// Send so many bytes more.
    Write(Bytes),
    /// Always have data to send.
    WriteForever,
    /// Finish sending; `discard` drops what has not been sent yet.
    Close {
        /// Drop unsent data.
        discard: bool,
    },
    /// Send one datagram of this IP length.
    Datagram(u32),
    /// Be told [`Cue::Wake`] then.
    WakeAt(Time),
}

/// What an application says in answer to a cue, in order.
#[derive(Clone, Debug, Default)]
pub struct Say {
    /// The wishes.
    pub wishes: Vec<Wish>,
}

impl Say {
    /// Ask for something.
    pub fn want(&mut self, wish: Wish) {
        self.wishes.push(wish);
    }
}

/// How an application's bytes travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Over a TCP connection; the flow needs a `tcp` section.
    Tcp,
    /// Datagrams; the flow must not have a `tcp` section.
    Udp,
}

/// An application.
pub trait Application {
    /// Something happened at `side`.
    fn step(&mut self, side: Side, cue: Cue, now: Time, say: &mut Say);
    /// How its bytes travel.
    fn transport(&self) -> Transport;
}
