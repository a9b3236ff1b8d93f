//! Carries out the actions of an application.

use std::cmp::Reverse;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use tailback_core::time::Time;
use tailback_core::traffic::{Action, Application, Connection, Cue, Opening, Report, Side};

use super::connections::{End, Pair, Token, index};
use super::sockets::{self, Sockets};
use super::{DATAGRAM_HEADERS, Flow, NUMBER_BYTES};
use crate::sys;

impl Flow<'_> {
    /// Gives the application a cue and carries out its actions.
    pub(super) fn cue(&mut self, side: Side, cue: Cue, now: Time) -> io::Result<()> {
        let mut actions = std::mem::take(&mut self.actions);
        self.plan.app.step(side, cue, now, &mut actions);
        for action in actions.list.drain(..) {
            self.perform(side, action, now)?;
        }
        self.actions = actions;
        Ok(())
    }

    /// Actions for a connection that is over have no effect.
    fn perform(&mut self, side: Side, action: Action, now: Time) -> io::Result<()> {
        if self.foreign.is_some() && self.act_hosted(side, &action, now) {
            return Ok(());
        }
        match action {
            Action::WakeAt(time) => self.wake = time,
            Action::Datagram { bytes, stream } => {
                let number = self.datagrams;
                self.datagrams += 1;
                if self.send(side, number, bytes)? && side == Side::Client {
                    self.record.streams.push(stream);
                }
            }
            Action::Reply { number, bytes } => {
                self.send(side, number, bytes)?;
            }
            Action::ReplyFromServer { number, bytes } => {
                self.send(Side::Server, number, bytes)?;
            }
            Action::Report(report) => self.report(report),
            Action::TurnAway => {
                self.record.tally.connections += 1;
                self.record.tally.failed += 1;
            }
            Action::Connect(opening) => {
                self.record.tally.connections += 1;
                if let Err(error) = self.open(opening, now) {
                    if !is_limit(&error) {
                        return Err(error);
                    }
                    self.record.tally.failed += 1;
                    self.cue(Side::Client, Cue::Failed(opening.connection), now)?;
                    self.cue(Side::Client, Cue::Released(opening.connection), now)?;
                }
            }
            Action::Write(connection, bytes) => self.at(connection, side, |end| {
                end.unsent = end.unsent.map(|unsent| unsent + bytes);
            }),
            Action::WriteForever(connection) => self.at(connection, side, |end| end.unsent = None),
            Action::Close { connection, discard } => self.at(connection, side, |end| {
                end.closes = true;
                if discard {
                    end.unsent = Some(0);
                }
            }),
            Action::TellReceived(connection, bytes) => self.at(connection, side, |end| end.mark = bytes),
            Action::TellDrained(connection) => self.at(connection, side, |end| end.wants_drained = true),
            Action::Carry(_) => unreachable!("tunnels were refused"),
            Action::CallAt(connection, time) => {
                let mut token = None;
                if let Some(pair) = self.pair(connection) {
                    pair.ends[index(side)].call_at = time;
                    token = Some(Token::new(pair.serial, connection, side));
                }
                self.calls.extend(token.map(|token| Reverse((time, token))));
            }
        }
        Ok(())
    }

    fn at(&mut self, connection: Connection, side: Side, change: impl FnOnce(&mut End)) {
        let Some(pair) = self.pair(connection) else { return };
        change(&mut pair.ends[index(side)]);
        let token = Token::new(pair.serial, connection, side);
        self.touched.push_back(token);
    }

    fn open(&mut self, opening: Opening, now: Time) -> io::Result<()> {
        if self.foreign.is_some() {
            return self.open_hosted(opening, now);
        }
        let tcp = self.plan.tcp.as_ref().expect("an application over datagrams opens no connection");
        let (socket, port) = sockets::open(self.plan.number, tcp, opening, self.serial)?;
        self.serial += 1;
        let token = Token::new(self.serial, opening.connection, Side::Client);
        self.events.add(socket.as_fd(), token.0)?;
        let place = opening.connection as usize;
        if self.pairs.len() <= place {
            self.pairs.resize_with(place + 1, || None);
        }
        assert!(self.pairs[place].is_none(), "flow {}: connection {place} is in use", self.plan.name);
        self.pairs[place] = Some(Pair::new(self.serial, opening.turn, port, Arc::new(socket)));
        self.by_port.insert(port, opening.connection);
        self.record.tally.finished = Time::NEVER;
        Ok(())
    }

    /// Sends a datagram. Returns false if the kernel had no room: a full device drops it, as a full host would.
    fn send(&mut self, side: Side, number: u64, bytes: u32) -> io::Result<bool> {
        let Sockets::Datagrams(both) = &self.sockets else { return Ok(false) };
        let mut payload = [0; 65_536];
        payload[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
        let payload = &payload[..bytes.saturating_sub(DATAGRAM_HEADERS) as usize];
        match sys::send(both[index(side)].as_fd(), payload) {
            Ok(sent) => Ok(sent.is_some()),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(false),
            // The path reported an earlier loss (ICMP).
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn report(&mut self, report: Report) {
        // The time at which it happens, not the due time.
        let now = self.clock.now();
        match report {
            Report::Asked { connection, kind, bytes, turn } if self.foreign.is_some() => {
                self.asked_hosted(connection, now, (kind, bytes, turn));
            }
            Report::Answered(connection) if self.foreign.is_some() => self.answered_hosted(connection, now),
            Report::Asked { connection, kind, bytes, turn } => {
                let turns = self.plan.tcp.as_ref().map_or(1, |tcp| tcp.turns.len() as u32);
                let Some(pair) = self.pairs.get_mut(connection as usize).and_then(Option::as_mut) else {
                    return;
                };
                pair.row = self.record.asked(now, kind, bytes, (turn % turns) as u16);
            }
            Report::Answered(connection) => {
                let row = self.pair(connection).and_then(|pair| pair.row.take());
                self.record.answered(now, row);
            }
            Report::Served { kind, bytes, asked, .. } => {
                let row = self.record.asked(asked, kind, bytes, 0);
                self.record.answered(now, row);
            }
            Report::Pinged(number) => self.record.pinged(now, number),
            Report::Ponged(number) => self.record.ponged(now, number),
        }
    }
}

/// Out of descriptors, ports or memory: the machine's limit is handled like the simulator's own.
fn is_limit(error: &io::Error) -> bool {
    const LIMITS: [i32; 6] =
        [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM, libc::EADDRNOTAVAIL, libc::EAGAIN];
    error.raw_os_error().is_some_and(|code| LIMITS.contains(&code))
}
