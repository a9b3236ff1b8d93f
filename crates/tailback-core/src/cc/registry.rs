//! The list of congestion controls. Adding one is a file, its `mod` line in `cc/mod.rs`, and a row below.
//!
//! From the rows come the state enum with its dispatch, the lookup by name, the cards Python lists, and the
//! tests every row inherits (`tests/registry.rs`).

use super::external::External;
use super::{Ack, Congestion, CongestionControl, Control, Departure, Fates, PhaseChange, Resume};
use crate::params::{Card, Checked, unknown_name};
use crate::scenario::{Params, ScenarioError};
use crate::time::{Bytes, Duration, Time};

/// What a row needs beyond [`CongestionControl`]: its card, and how to make one from checked parameters.
pub trait Registered: CongestionControl + Sized {
    /// The card; its name is the registry name.
    const CARD: Card;
    /// Why an ACK costs more than three times NewReno's, if it does.
    const COST: &'static str = "";
    /// Does it reduce in proportion to the share of marks, as RFC 9331 section 4.3 demands of L4S senders?
    const SCALABLE_RESPONSE: bool = false;
    /// A fresh state. `seed` belongs to this flow alone.
    fn new(given: &Checked<'_>, seed: u64) -> Result<Self, ScenarioError>;
}

macro_rules! algorithms {
    ($($module:ident :: $Name:ident),+ $(,)?) => {
        /// The state of any registered algorithm, or of one from outside; calls dispatch by `match`.
        #[derive(Debug)]
        pub enum Algorithm {
            $(
                #[doc = concat!("See [`super::", stringify!($module), "`].")]
                $Name(super::$module::$Name),
            )+
            /// The caller's own: see [`super::external`].
            External(Box<dyn External>),
        }

        impl Algorithm {
            /// The same state once more; `None` for one from outside, whose state we do not know.
            pub fn duplicate(&self) -> Option<Algorithm> {
                match self {
                    $(Algorithm::$Name(state) => Some(Algorithm::$Name(state.clone())),)+
                    Algorithm::External(_) => None,
                }
            }
        }

        static CARDS: &[Card] = &[$(<super::$module::$Name as Registered>::CARD),+];
        static COSTS: &[&str] = &[$(<super::$module::$Name as Registered>::COST),+];

        static SCALABLE_RESPONSES: &[bool] = &[$(<super::$module::$Name as Registered>::SCALABLE_RESPONSE),+];

        fn construct(row: usize, given: &Checked<'_>, seed: u64) -> Result<Algorithm, ScenarioError> {
            type New = fn(&Checked<'_>, u64) -> Result<Algorithm, ScenarioError>;
            const NEW: &[New] = &[$(
                |given, seed| <super::$module::$Name as Registered>::new(given, seed).map(Algorithm::$Name)
            ),+];
            NEW[row](given, seed)
        }

        macro_rules! each {
            ($algorithm:expr, $state:ident => $call:expr) => {
                match $algorithm {
                    $(Algorithm::$Name($state) => $call,)+
                    Algorithm::External($state) => $call,
                }
            };
        }
    };
}

algorithms! {
    reno::Reno,
    htcp::Htcp,
    cubic::Cubic,
    bic::Bic,
    highspeed::HighSpeed,
    scalable::Scalable,
    vegas::Vegas,
    veno::Veno,
    westwood::Westwood,
    hybla::Hybla,
    illinois::Illinois,
    yeah::Yeah,
    dctcp::Dctcp,
    prague::Prague,
    ledbat::Ledbat,
    compound::Compound,
    cdg::Cdg,
    bbr::Bbr,
    bbr3::Bbr3,
}

impl CongestionControl for Algorithm {
    fn on_sample(&mut self, ack: &Ack, control: &mut Control) {
        each!(self, state => state.on_sample(ack, control))
    }
    #[inline]
    fn on_plain_ack(&mut self, ack: &mut Ack, at_equality: bool, control: &mut Control) {
        each!(self, state => state.on_plain_ack(ack, at_equality, control))
    }
    #[inline]
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        each!(self, state => state.on_ack(ack, control))
    }
    #[inline]
    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        each!(self, state => state.on_congestion(congestion, control))
    }
    fn on_established(&mut self, now: Time, srtt: Option<Duration>, control: &mut Control) {
        each!(self, state => state.on_established(now, srtt, control))
    }
    #[inline]
    fn on_phase(&mut self, change: &PhaseChange, control: &mut Control) {
        each!(self, state => state.on_phase(change, control))
    }
    fn on_undo(&mut self, now: Time, control: &mut Control) {
        each!(self, state => state.on_undo(now, control))
    }
    fn on_resume(&mut self, resume: &Resume, control: &mut Control) {
        each!(self, state => state.on_resume(resume, control))
    }
    fn on_idle_restart(&mut self, now: Time, idle: Duration, control: &mut Control) {
        each!(self, state => state.on_idle_restart(now, idle, control))
    }
    #[inline]
    fn recovery_floor(&self, control: &Control) -> Option<Bytes> {
        each!(self, state => state.recovery_floor(control))
    }
    #[inline]
    fn owns_window(&self) -> bool {
        each!(self, state => state.owns_window())
    }
    #[inline]
    fn wants_reduction(&self) -> bool {
        each!(self, state => state.wants_reduction())
    }
    fn follows_packets(&self) -> bool {
        each!(self, state => state.follows_packets())
    }
    fn on_sent(&mut self, departure: &Departure, control: &mut Control) {
        each!(self, state => state.on_sent(departure, control))
    }
    fn on_fates(&mut self, fates: &Fates<'_>, control: &mut Control) {
        each!(self, state => state.on_fates(fates, control))
    }
    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        each!(self, state => state.internals(out))
    }
}

/// Every algorithm's card, in registry order.
pub fn cards() -> &'static [Card] {
    CARDS
}

/// Why an ACK costs more than three times NewReno's, in the order of [`cards`]; empty where it does not.
pub fn costs() -> &'static [&'static str] {
    COSTS
}

/// The names of the algorithms whose reduction is in proportion to the share of marks (RFC 9331 section 4.3).
pub fn scalable_responses() -> impl Iterator<Item = &'static str> {
    CARDS.iter().zip(SCALABLE_RESPONSES).filter(|(_, scales)| **scales).map(|(card, _)| card.name)
}

/// The algorithm called `name`, for the TCP settings at `field_path` (such as `flows[0].tcp`); its parameters
/// are then at `field_path.cc_params`. Random algorithms draw from `seed`.
pub fn build(name: &str, params: &Params, field_path: &str, seed: u64) -> Result<Algorithm, ScenarioError> {
    build_preferring(name, params, field_path, seed, &[])
}

/// As [`build`], for a stack that prefers certain variants: a `variant` that the scenario leaves open becomes
/// the first of `preferred` that the algorithm offers.
pub fn build_preferring(
    name: &str,
    params: &Params,
    field_path: &str,
    seed: u64,
    preferred: &[&str],
) -> Result<Algorithm, ScenarioError> {
    let Some(row) = CARDS.iter().position(|card| card.name == name) else {
        let known: Vec<&str> = CARDS.iter().map(|card| card.name).collect();
        return Err(unknown_name("congestion control", name, &format!("{field_path}.cc"), &known));
    };
    let params_path = format!("{field_path}.cc_params");
    construct(row, &Checked::preferring(&CARDS[row], params, &params_path, preferred)?, seed)
}
