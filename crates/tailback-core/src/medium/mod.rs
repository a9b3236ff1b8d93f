//! Media: how real access links carry packets. One a file, one row each in the registry.
//!
//! A *private* medium serves one direction alone and is a [`crate::capacity::Pace`]: it says when a packet's last
//! bit has left. On a *shared* medium stations contend, so several links sit at one [`channel::Channel`], which
//! decides whose packets leave. The packets of a [`tunnel::Tunnel`] travel inside another flow's connection.

pub mod adsl;
pub mod channel;
pub mod dch;
pub mod homeplug;
pub mod hsdpa;
pub mod registry;
pub mod stalls;
pub mod tti;
pub mod tunnel;
pub mod wifi;
