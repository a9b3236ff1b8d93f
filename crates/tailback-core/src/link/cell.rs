//! A cell's carrier, which a scheduler divides among users slot by slot.
//!
//! Law: in every slot, repetitions that are due get their share of the carrier first. The rest goes to the backlogged
//! users in descending order of r/R. Here r is what the carrier could give a user in this slot, and R is an average of
//! what it was given: R ← (1 − 1/T)R + b/T for b bits in a slot. Each user takes as much as it needs; the remainder
//! goes to the next.
//!
//! Source: Jalali, Padovani and Pankaj, "Data throughput of CDMA-HDR", VTC 2000 (proportional fair scheduling). Kelly,
//! "Charging and rate control for elastic traffic", ETT 8 (1997). Viswanath, Tse and Laroia, IEEE Transactions on Information
//! Theory 48(6) (2002).

use std::collections::BTreeMap;

use super::api::{Host, Watch};
use super::service::Link;
use crate::math;
use crate::medium::cell::{Carrier, Policy};
use crate::packet::Packet;
use crate::queue::Fate;
use crate::scenario::ScenarioError;
use crate::time::{Duration, Time};

/// The scheduler's state for a user.
#[derive(Clone, Debug)]
struct Account {
    link: u32,
    /// Average bits per slot.
    average: f64,
    /// One more than the number of the last slot in which it was served.
    served: u64,
}

/// A cell's carrier, with its scheduler.
#[derive(Clone, Debug)]
pub struct Cell {
    carrier: Carrier,
    accounts: Vec<Account>,
    /// Shares of later slots that are reserved for repetitions.
    reserved: BTreeMap<u64, f64>,
    /// Number of the next slot that may be granted.
    next: u64,
    step: Time,
}

/// Lower bound on the average, in bits per slot, so that the ratio exists.
const LEAST: f64 = 1e-3;

impl Cell {
    /// A carrier without users.
    pub fn new(carrier: Carrier) -> Self {
        Cell { carrier, accounts: Vec::new(), reserved: BTreeMap::new(), next: 0, step: Time::NEVER }
    }

    /// Adds link number `number`; `name` is the channel's.
    pub fn admit(&mut self, number: usize, name: &str, link: &mut Link) -> Result<(), ScenarioError> {
        let (_, radio) = link.at_cell().expect("in a cell");
        if radio.user.carrier() != self.carrier {
            return Err(ScenarioError {
                field: format!("links[{number}].medium.channel"),
                value: format!("{name:?}"),
                problem: "links that share a carrier must agree on its slots and its scheduler".into(),
                fix: "Give them the same slot, scheduler and memory, or two channels".into(),
            });
        }
        self.accounts.push(Account { link: number as u32, average: 0.0, served: 0 });
        Ok(())
    }

    /// The link whose element in the schedule represents the cell.
    pub fn element(&self) -> u32 {
        self.accounts[0].link
    }

    /// As [`Link::push`], for link number `link`.
    pub fn push(
        &mut self,
        links: &mut [Link],
        link: u32,
        packet: Packet,
        now: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) {
        self.catch_up(links, now, fate, watch);
        watch.turn_to(link);
        links[link as usize].push(packet, now, fate, watch);
        if self.step == Time::NEVER {
            self.plan(links, now);
        }
    }

    /// As [`Link::advance`], for all links.
    pub fn advance(&mut self, links: &mut [Link], now: Time, fate: &mut Fate, host: &mut impl Host) {
        self.catch_up(links, now, fate, host);
        for account in &self.accounts {
            let it = &mut links[account.link as usize];
            if it.next_wake() <= now {
                host.turn_to(account.link);
                it.advance(now, fate, host);
            }
        }
    }

    /// As [`Link::settle`], for all links.
    pub fn settle(&mut self, links: &mut [Link], now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        self.catch_up(links, now, fate, watch);
    }

    /// As [`Link::next_wake`], for all links.
    pub fn next_wake(&self, links: &[Link]) -> Time {
        self.accounts.iter().map(|it| links[it.link as usize].next_wake()).fold(self.step, Time::min)
    }

    fn catch_up(&mut self, links: &mut [Link], now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        while self.step <= now {
            let at = self.step;
            self.grant(links, at, fate, watch);
            self.plan(links, at);
        }
        for account in &self.accounts {
            links[account.link as usize].interface.turn_to(now);
        }
    }

    fn start_of(&self, number: u64) -> Time {
        Time::ZERO + self.carrier.slot * number
    }

    /// Schedules the next slot from `now` on, if a user is backlogged.
    fn plan(&mut self, links: &mut [Link], now: Time) {
        let is_wanted = self.accounts.iter().any(|it| links[it.link as usize].has_something());
        self.step = Time::NEVER;
        if is_wanted {
            let number = now.as_ps().div_ceil(self.carrier.slot.as_ps()).max(self.next);
            self.step = self.start_of(number);
        }
    }

    /// Divides the slot that begins at `at` among the users.
    fn grant(&mut self, links: &mut [Link], at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        let number = at.as_ps() / self.carrier.slot.as_ps();
        self.forget(number - self.next);
        self.next = number + 1;
        let mut left = 1.0 - self.reserved.remove(&number).unwrap_or(0.0);
        while self.reserved.first_key_value().is_some_and(|(old, _)| *old < number) {
            self.reserved.pop_first();
        }
        let mut wanting: Vec<(f64, u64, usize, u64)> = Vec::with_capacity(self.accounts.len());
        for (place, account) in self.accounts.iter().enumerate() {
            let it = &mut links[account.link as usize];
            let is_wanting = it.has_something();
            let (_, radio) = it.at_cell().expect("in a cell");
            if is_wanting && let Some(bits) = radio.user.bits(at).filter(|bits| *bits > 0) {
                let urgency = match self.carrier.policy {
                    Policy::ProportionalFair => bits as f64 / account.average.max(LEAST),
                    Policy::Turns => 0.0,
                };
                wanting.push((urgency, account.served, place, bits));
            }
        }
        wanting.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        let memory = self.carrier.memory;
        for account in &mut self.accounts {
            account.average *= 1.0 - 1.0 / memory;
        }
        for (_, _, place, bits) in wanting {
            let room = (bits as f64 * left) as u64;
            if room == 0 {
                break;
            }
            let account = &mut self.accounts[place];
            watch.turn_to(account.link);
            let it = &mut links[account.link as usize];
            let (interface, radio) = it.at_cell().expect("in a cell");
            let sendings = radio.user.sendings(number);
            let arrives =
                sendings.arrives.map(|slot| self.carrier.slot * (slot + 1)).map(|end| Time::ZERO + end);
            let used = radio.fill(interface, room, at, arrives, fate, watch);
            it.check();
            let share = used as f64 / bits as f64;
            left -= share;
            it.interface.busy += Duration::from_ps((self.carrier.slot.as_ps() as f64 * share) as u64);
            account.average += used as f64 / memory;
            account.served = number + 1;
            for slot in sendings.again {
                reserve(&mut self.reserved, slot, share);
            }
        }
    }

    /// Lowers the averages for slots without a grant.
    fn forget(&mut self, slots: u64) {
        if slots > 0 {
            let kept = math::powf(1.0 - 1.0 / self.carrier.memory, slots as f64);
            for account in &mut self.accounts {
                account.average *= kept;
            }
        }
    }
}

/// Reserves `share` of a slot for a repetition: in the first slots from `slot` on with capacity left.
fn reserve(reserved: &mut BTreeMap<u64, f64>, mut slot: u64, mut share: f64) {
    while share > 0.0 {
        let taken = reserved.entry(slot).or_insert(0.0);
        let here = share.min(1.0 - *taken);
        *taken += here;
        (share, slot) = (share - here, slot + 1);
    }
}
