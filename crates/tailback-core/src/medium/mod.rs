//! Media: how real access links carry packets. One a file, one row each in the registry.
//!
//! A *private* medium serves a single direction and is a [`crate::capacity::Pace`]: it computes when a packet's last
//! bit has left. On a *shared* medium stations contend: each link has an [`access::Access`], and a channel
//! (`link/contention.rs`) decides whose packets leave. In a [`cell`] a scheduler decides. The packets of a [`tunnel`]
//! travel inside another flow's connection.

pub mod access;
pub mod adsl;
pub mod cell;
mod dcf;
pub mod dch;
pub mod docsis;
pub mod homeplug;
pub mod hsdpa;
pub mod leo;
pub mod minstrel;
pub mod registry;
pub mod stalls;
pub mod tti;
pub mod tunnel;
pub mod wifi;
pub mod wifi_ac;

use crate::params::Card;

/// Requirement for a row of the registry: a card.
pub trait Registered {
    /// The card; its name is the registry name.
    const CARD: Card;
}
