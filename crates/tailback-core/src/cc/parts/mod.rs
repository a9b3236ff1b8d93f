//! Pieces that several congestion controls share.

pub mod clock;
pub mod decrease;
pub mod ertt;
pub mod growth;
pub mod hystart;
pub mod maximum;
pub mod round;
pub mod search;
