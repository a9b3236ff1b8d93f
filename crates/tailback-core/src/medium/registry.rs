//! The list of media. Adding one is a file, its `mod` line in `medium/mod.rs`, and a row below.

use super::Registered;
use super::access::{Access, Air, Frame, Order, Rules};
use super::adsl::Adsl;
use super::cell::User;
use super::dch::Dch;
use super::docsis::Docsis;
use super::homeplug::HomePlug;
use super::hsdpa::Hsdpa;
use super::leo::Leo;
use super::tunnel::TunnelStream;
use super::wifi::Wifi;
use super::wifi_ac::WifiAc;
use crate::capacity::Pace;
use crate::packet::Packet;
use crate::params::{Card, Checked, unknown_name};
use crate::queue::Backlog;
use crate::rng::Stream;
use crate::scenario::{MediumSpec, ScenarioError};
use crate::time::{Duration, Rate, Time};

/// A constructor from checked parameters and the link's own random streams.
type New<T> = fn(&Checked<'_>, &dyn Fn(&str) -> Stream) -> Result<T, ScenarioError>;

macro_rules! media {
    ($Enum:ident, $doc:literal, $CARDS:ident, $NEW:ident, $each:ident: $($Name:ident),+) => {
        #[doc = $doc]
        #[derive(Clone, Debug)]
        pub enum $Enum {
            $(
                #[doc = concat!("See [`", stringify!($Name), "`].")]
                $Name($Name),
            )+
        }
        static $CARDS: &[Card] = &[$(<$Name as Registered>::CARD),+];
        const $NEW: &[New<$Enum>] = &[$(|given, stream| $Name::new(given, stream).map($Enum::$Name)),+];
        macro_rules! $each {
            ($medium:expr, $state:ident => $call:expr) => {
                match $medium {
                    $($Enum::$Name($state) => $call,)+
                }
            };
        }
    };
}

media!(Private, "A medium that serves one direction alone.", PRIVATE, NEW_PRIVATE, each_private: Adsl, Docsis, Hsdpa, Dch, Leo);
media!(Shared, "A station's way onto a medium it shares.", SHARED, NEW_SHARED, each_shared: Wifi, WifiAc, HomePlug);

impl Pace for Private {
    fn serve(&mut self, at: Time, packet: &Packet, continues: bool) -> Time {
        each_private!(self, state => state.serve(at, packet, continues))
    }
    fn behind(&mut self, backlog: Backlog) {
        each_private!(self, state => state.behind(backlog))
    }
    fn nominal(&self) -> Rate {
        each_private!(self, state => state.nominal())
    }
    fn detour(&mut self, at: Time) -> Option<Duration> {
        each_private!(self, state => state.detour(at))
    }
}

impl Access for Shared {
    fn rules(&self) -> Rules {
        each_shared!(self, state => state.rules())
    }
    fn silent_until(&mut self, at: Time) -> Option<Time> {
        each_shared!(self, state => state.silent_until(at))
    }
    fn order(&self) -> Order {
        each_shared!(self, state => state.order())
    }
    fn begin(&mut self, at: Time) {
        each_shared!(self, state => state.begin(at))
    }
    fn has_room(&mut self, frames: &[Frame]) -> bool {
        each_shared!(self, state => state.has_room(frames))
    }
    fn units_of(&mut self, packet: &Packet) -> u32 {
        each_shared!(self, state => state.units_of(packet))
    }
    fn air(&self, frames: &[Frame]) -> Air {
        each_shared!(self, state => state.air(frames))
    }
    fn carried(&self) -> usize {
        each_shared!(self, state => state.carried())
    }
    fn receive(&mut self, frames: &mut [Frame]) -> bool {
        each_shared!(self, state => state.receive(frames))
    }
    fn learn(&mut self, is_success: bool) {
        each_shared!(self, state => state.learn(is_success))
    }
    fn nominal(&self) -> Rate {
        each_shared!(self, state => state.nominal())
    }
    fn most_tries(&self) -> u32 {
        each_shared!(self, state => state.most_tries())
    }
}

/// Media whose packets travel in a connection.
static TUNNEL: [Card; 1] = [TunnelStream::CARD];
const NEW_TUNNEL: &[New<TunnelStream>] = &[|given, _| Ok(TunnelStream::new(given))];

/// Media whose links a scheduler serves.
static CELL: [Card; 1] = [User::CARD];
const NEW_CELL: &[New<User>] = &[|given, stream| User::new(given, stream)];

/// The kinds of use of a medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// A single direction of a link.
    Private,
    /// Links of one channel, which contend for it or are scheduled.
    Shared,
    /// Packets of links, carried inside another flow's connection.
    Carried,
}

/// Every medium's card, with its kind of use.
pub fn uses() -> impl Iterator<Item = (&'static Card, Use)> {
    let row = |cards: &'static [Card], by: Use| cards.iter().map(move |card| (card, by));
    row(PRIVATE, Use::Private)
        .chain(row(SHARED, Use::Shared))
        .chain(row(&CELL, Use::Shared))
        .chain(row(&TUNNEL, Use::Carried))
}

/// Whether links of the medium `name` send their packets through another flow's connection.
pub fn is_carried(name: &str) -> bool {
    uses().any(|(card, by)| by == Use::Carried && card.name == name)
}

/// Every medium's card, in registry order.
pub fn cards() -> impl Iterator<Item = &'static Card> {
    uses().map(|(card, _)| card)
}

/// Any medium.
#[derive(Clone, Debug)]
pub enum Medium {
    /// A medium of a single direction.
    Private(Private),
    /// A medium of several stations.
    Shared(Shared),
    /// A medium of the users of a cell.
    Cell(Box<User>),
    /// Another flow's connection.
    Tunnel(TunnelStream),
}

fn construct<T>(
    spec: &MediumSpec,
    link: &str,
    index: usize,
    seed: u64,
    cards: &'static [Card],
    new: &[New<T>],
) -> Result<Option<T>, ScenarioError> {
    let Some(row) = cards.iter().position(|card| card.name == spec.name) else { return Ok(None) };
    let path = format!("links[{index}].medium.params");
    let given = Checked::new(&cards[row], &spec.params, &path)?;
    let stream = |what: &str| Stream::named(seed, &format!("link/{link}/medium/{what}"));
    new[row](&given, &stream).map(Some)
}

impl Medium {
    /// Builds the medium in `spec` for link number `index`, called `link`.
    pub fn build(spec: &MediumSpec, link: &str, index: usize, seed: u64) -> Result<Self, ScenarioError> {
        if let Some(shared) = construct(spec, link, index, seed, SHARED, NEW_SHARED)? {
            return Ok(Medium::Shared(shared));
        }
        if let Some(user) = construct(spec, link, index, seed, &CELL, NEW_CELL)? {
            return Ok(Medium::Cell(Box::new(user)));
        }
        let private = construct(spec, link, index, seed, PRIVATE, NEW_PRIVATE)?.map(Medium::Private);
        let medium = match private {
            Some(medium) => medium,
            None => construct(spec, link, index, seed, &TUNNEL, NEW_TUNNEL)?.map(Medium::Tunnel).ok_or_else(
                || {
                    let known: Vec<&str> = cards().map(|card| card.name).collect();
                    unknown_name("medium", &spec.name, &format!("links[{index}].medium.name"), &known)
                },
            )?,
        };
        match &spec.channel {
            None => Ok(medium),
            Some(channel) => Err(ScenarioError {
                field: format!("links[{index}].medium.channel"),
                value: format!("{channel:?}"),
                problem: format!(
                    "no other station contends for {}: each direction has it to itself",
                    spec.name
                ),
                fix: "Leave the channel out".into(),
            }),
        }
    }
}
