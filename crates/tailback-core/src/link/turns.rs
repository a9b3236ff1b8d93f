//! Which link of a station sends next.
//!
//! Law: `Turns` gives each link a try. `Airtime` is deficit round robin in time. A link sends while its deficit is above zero,
//! else gains a quantum and goes behind the others. A try's airtime is taken from the deficit, and so is that of what its
//! receiver sends back over a link of its own. A link that was empty goes ahead of the others once. `Fifo` takes packets in the
//! order in which they came into a driver of bounded room, where links take turns.
//!
//! Source: Høiland-Jørgensen, Kazior, Täht, Hurtig and Brunstrom, "Ending the Anomaly", USENIX ATC 2017, algorithm 3; the
//! lists of new and old ones are those of RFC 8290.

use std::collections::VecDeque;

use crate::medium::access::Order;
use crate::time::Duration;

/// Which link of a station sends next; links by their place in the station's list.
#[derive(Clone, Debug)]
pub struct Turns {
    order: Order,
    /// The place whose turn it is.
    turn: usize,
    places: usize,
    /// Picoseconds of airtime left, by place.
    deficits: Vec<i64>,
    is_listed: Vec<bool>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
}

impl Turns {
    /// Of a station without links.
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

    /// How the next link is found.
    pub fn order(&self) -> Order {
        self.order
    }

    /// One more link; its place.
    pub fn join(&mut self) -> usize {
        if let Order::Airtime(quantum) = self.order {
            self.deficits.push(quantum.as_ps() as i64);
            self.is_listed.push(false);
        }
        self.places += 1;
        self.places - 1
    }

    /// The link at `place` has something to send.
    pub fn list(&mut self, place: usize) {
        if matches!(self.order, Order::Airtime(_)) && !self.is_listed[place] {
            self.is_listed[place] = true;
            self.new.push_back(place);
        }
    }

    /// The place whose turn it is; `None` if no link has anything.
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

    /// After how many links that send nothing none has anything to send.
    pub fn bound(&self) -> usize {
        match self.order {
            // An emptied link may come as a new one and again as an old one.
            Order::Airtime(_) => 2 * self.places,
            Order::Turns | Order::Fifo { .. } => self.places,
        }
    }

    /// The link whose turn it was sends nothing; `is_empty`: it has nothing.
    pub fn pass(&mut self, is_empty: bool) {
        if !matches!(self.order, Order::Airtime(_)) {
            self.turn = (self.turn + 1) % self.places;
            return;
        }
        let was_new = !self.new.is_empty();
        let list = if was_new { &mut self.new } else { &mut self.old };
        let Some(place) = list.pop_front() else { return };
        // An emptied new one passes once behind the old ones, or it could starve them: RFC 8290 section 4.2.
        if !is_empty || was_new && !self.old.is_empty() {
            self.old.push_back(place);
        } else {
            self.is_listed[place] = false;
        }
    }

    /// A try of the link at `place` has taken `airtime`.
    pub fn on_sent(&mut self, place: usize, airtime: Duration) {
        match self.order {
            Order::Airtime(_) => self.charge(place, airtime),
            Order::Turns | Order::Fifo { .. } => self.turn = (self.turn + 1) % self.places,
        }
    }

    /// The link at `place` has used `airtime`.
    pub fn charge(&mut self, place: usize, airtime: Duration) {
        if matches!(self.order, Order::Airtime(_)) {
            self.deficits[place] -= airtime.as_ps() as i64;
        }
    }
}
