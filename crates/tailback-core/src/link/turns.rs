//! The order in which the links of a station send.
//!
//! Law: `Turns` gives each link one transmission in turn. `Airtime` is deficit round robin in units of time: a link
//! sends while its deficit is positive; otherwise it gains a quantum and moves to the end. A transmission's airtime is
//! subtracted from the deficit, and so is that of what its receiver sends back over the reverse link. A link that was
//! empty goes first once.
//! `Fifo` takes packets in the order in which they entered a driver of limited size, where links take turns.
//!
//! Source: Høiland-Jørgensen, Kazior, Täht, Hurtig and Brunstrom, "Ending the Anomaly", USENIX ATC 2017, algorithm 3;
//! the lists of new and old links are those of RFC 8290.

use std::collections::VecDeque;

use crate::medium::access::Order;
use crate::time::Duration;

/// The order in which a station's links send; links are identified by their position in the station's list.
#[derive(Clone, Debug)]
pub struct Turns {
    order: Order,
    /// Position of the link in turn.
    turn: usize,
    places: usize,
    /// Picoseconds of airtime left, by position.
    deficits: Vec<i64>,
    is_listed: Vec<bool>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
}

impl Turns {
    /// For a station without links.
    pub fn new(order: Order) -> Self {
        Turns {
            order,
            turn: 0,
            places: 0,
            deficits: Vec::new(),
            is_listed: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
        }
    }

    /// The kind of order.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Adds a link; returns its position.
    pub fn join(&mut self) -> usize {
        if let Order::Airtime(quantum) = self.order {
            self.deficits.push(quantum.as_ps() as i64);
            self.is_listed.push(false);
        }
        self.places += 1;
        self.places - 1
    }

    /// The link at `place` is backlogged.
    pub fn list(&mut self, place: usize) {
        if matches!(self.order, Order::Airtime(_)) && !self.is_listed[place] {
            self.is_listed[place] = true;
            self.new.push_back(place);
        }
    }

    /// Position of the next link to send; `None` if no link is backlogged.
    pub fn next(&mut self) -> Option<usize> {
        let Order::Airtime(quantum) = self.order else { return Some(self.turn) };
        loop {
            let list = if self.new.is_empty() { &mut self.old } else { &mut self.new };
            let place = *list.front()?;
            if self.deficits[place] > 0 {
                return Some(place);
            }
            self.deficits[place] += quantum.as_ps() as i64;
            list.pop_front();
            self.old.push_back(place);
        }
    }

    /// Number of consecutive links without a transmission after which no link has anything to send.
    pub fn bound(&self) -> usize {
        match self.order {
            // A link that became empty may appear in the new list and again in the old one.
            Order::Airtime(_) => 2 * self.places,
            Order::Turns | Order::Fifo { .. } => self.places,
        }
    }

    /// The link in turn does not send; `is_empty`: it has no packets.
    pub fn pass(&mut self, is_empty: bool) {
        if !matches!(self.order, Order::Airtime(_)) {
            self.turn = (self.turn + 1) % self.places;
            return;
        }
        let was_new = !self.new.is_empty();
        let list = if was_new { &mut self.new } else { &mut self.old };
        let Some(place) = list.pop_front() else { return };
        // An emptied new link moves once to the old list, because otherwise it could starve the old ones: RFC 8290
        // section 4.2.
        if !is_empty || was_new && !self.old.is_empty() {
            self.old.push_back(place);
        } else {
            self.is_listed[place] = false;
        }
    }

    /// A transmission of the link at `place` took `airtime`.
    pub fn on_sent(&mut self, place: usize, airtime: Duration) {
        match self.order {
            Order::Airtime(_) => self.charge(place, airtime),
            Order::Turns | Order::Fifo { .. } => self.turn = (self.turn + 1) % self.places,
        }
    }

    /// Charges the link at `place` for `airtime`.
    pub fn charge(&mut self, place: usize, airtime: Duration) {
        if matches!(self.order, Order::Airtime(_)) {
            self.deficits[place] -= airtime.as_ps() as i64;
        }
    }
}
