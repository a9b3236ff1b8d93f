//! A medium shared by several links: stations contend for it, or a cell's scheduler grants it.

use super::api::{Host, Watch};
use super::cell::Cell;
use super::contention::Contention;
use super::service::Link;
use crate::packet::Packet;
use crate::queue::Fate;
use crate::scenario::{LinkSpec, ScenarioError};
use crate::time::Time;

/// A shared medium. The engine arms one wake for all its links.
#[derive(Clone, Debug)]
pub enum Channel {
    /// A medium for which stations contend.
    Contention(Contention),
    /// A cell, whose scheduler grants slots.
    Cell(Cell),
}

/// Builds the channels of a network, and assigns their numbers to the links.
pub fn build(specs: &[LinkSpec], links: &mut [Link], seed: u64) -> Result<Vec<Channel>, ScenarioError> {
    let mut channels: Vec<Channel> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (number, spec) in specs.iter().enumerate() {
        let new = if let Some((_, outlet)) = links[number].at_channel() {
            Channel::Contention(Contention::new(outlet.rules()))
        } else if let Some((_, radio)) = links[number].at_cell() {
            Channel::Cell(Cell::new(radio.user.carrier()))
        } else {
            continue;
        };
        let name = spec.medium.as_ref().and_then(|medium| medium.channel.as_deref()).unwrap_or(&spec.name);
        let place = names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name);
            channels.push(new);
            channels.len() - 1
        });
        match (&mut channels[place], links[number].at_channel().is_some()) {
            (Channel::Contention(it), true) => {
                it.admit(spec, number, name, seed, &mut links[number])?;
                links[number].at_channel().expect("on a channel").1.channel = place as u32;
            }
            (Channel::Cell(it), false) => {
                it.admit(number, name, &mut links[number])?;
                links[number].at_cell().expect("in a cell").1.channel = place as u32;
            }
            _ => {
                return Err(ScenarioError {
                    field: format!("links[{number}].medium.channel"),
                    value: format!("{name:?}"),
                    problem: "links of another medium have this channel".into(),
                    fix: "Give the link a channel of another name".into(),
                });
            }
        }
    }
    for channel in &mut channels {
        if let Channel::Contention(it) = channel {
            it.pair(specs, links);
        }
    }
    Ok(channels)
}

macro_rules! each {
    ($channel:expr, $state:ident => $call:expr) => {
        match $channel {
            Channel::Contention($state) => $call,
            Channel::Cell($state) => $call,
        }
    };
}

impl Channel {
    /// The link whose element in the schedule represents the channel.
    pub fn element(&self) -> u32 {
        each!(self, it => it.element())
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
        each!(self, it => it.push(links, link, packet, now, fate, watch));
    }

    /// As [`Link::advance`], for all links.
    pub fn advance(&mut self, links: &mut [Link], now: Time, fate: &mut Fate, host: &mut impl Host) {
        each!(self, it => it.advance(links, now, fate, host));
    }

    /// As [`Link::settle`], for all links.
    pub fn settle(&mut self, links: &mut [Link], now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        each!(self, it => it.settle(links, now, fate, watch));
    }

    /// As [`Link::next_wake`], for all links.
    pub fn next_wake(&self, links: &[Link]) -> Time {
        each!(self, it => it.next_wake(links))
    }
}
