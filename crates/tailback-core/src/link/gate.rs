//! The stage before the queue of a link: ECN bleaching, then a policer.

use super::policer::Policer;
use crate::packet::Packet;
use crate::scenario::{Bleach, LinkSpec, ScenarioError};
use crate::time::Time;

/// The stage before a link's queue.
#[derive(Clone, Debug)]
pub struct Gate {
    bleach: Option<Bleach>,
    policer: Option<Policer>,
}

impl Gate {
    /// Builds the gate of link number `index`; `None` if nothing precedes its queue.
    pub fn build(spec: &LinkSpec, index: usize) -> Result<Option<Self>, ScenarioError> {
        let policer = spec.policer.as_ref().map(|policer| Policer::build(policer, index)).transpose()?;
        let bleach = spec.wire.bleach.filter(|_| spec.wire.bleach_before_queue);
        let has_any = policer.is_some() || bleach.is_some();
        Ok(has_any.then_some(Gate { bleach, policer }))
    }

    /// Whether `packet`, arriving at `now`, may enter the queue. It may be bleached on the way.
    pub fn admits(&mut self, packet: &mut Packet, now: Time) -> bool {
        if let Some(bleach) = self.bleach {
            packet.ecn = bleach.apply(packet.ecn);
        }
        self.policer.as_mut().is_none_or(|policer| policer.conforms(packet, now))
    }

    /// Whether a packet of `bytes` could ever pass.
    pub fn may_admit(&self, bytes: u32) -> bool {
        self.policer.as_ref().is_none_or(|policer| policer.may_pass(bytes))
    }
}
