//! The list of applications. Adding one is a file, its `mod` line in `traffic/mod.rs`, and a row below.

use std::fmt::Display;

use super::{Actions, Application, Cue, Needs, Rows, Side, Traits, Transport, exec};
use crate::params::{Card, Checked, unknown_name};
use crate::scenario::{Params, ScenarioError};
use crate::time::Time;

/// Requirements of a row beyond [`Application`]: its card, and a constructor from checked parameters.
pub trait Registered: Application + Sized {
    /// The card; its name is the registry name.
    const CARD: Card;
    /// Name for display, in menus and figures.
    const PLAIN: &'static str;
    /// Properties that are known before the application is built.
    const TRAITS: Traits = Traits::NONE;
    /// Builds a new application. `seed` is for this flow alone.
    fn new(given: &Checked<'_>, seed: u64) -> Result<Self, ScenarioError>;
}

macro_rules! applications {
    ($($module:ident :: $Name:ident),+ $(,)?) => {
        /// Any registered application; calls dispatch by `match`. They differ in size, but a flow has only one.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant, reason = "one application a flow")]
        pub enum App {
            $(
                #[doc = concat!("See [`super::", stringify!($module), "`].")]
                $Name(super::$module::$Name),
            )+
        }

        static CARDS: &[Card] = &[$(<super::$module::$Name as Registered>::CARD),+];
        static PLAIN: &[&str] = &[$(<super::$module::$Name as Registered>::PLAIN),+];
        static TRAITS: &[Traits] = &[$(<super::$module::$Name as Registered>::TRAITS),+];

        fn construct(row: usize, given: &Checked<'_>, seed: u64) -> Result<App, ScenarioError> {
            type New = fn(&Checked<'_>, u64) -> Result<App, ScenarioError>;
            const NEW: &[New] = &[$(
                |given, seed| <super::$module::$Name as Registered>::new(given, seed).map(App::$Name)
            ),+];
            NEW[row](given, seed)
        }

        impl Application for App {
            fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions) {
                match self {
                    $(App::$Name(state) => state.step(side, cue, now, actions),)+
                }
            }
            fn transport(&self) -> Transport {
                match self {
                    $(App::$Name(state) => state.transport(),)+
                }
            }
            fn rows(&self) -> Rows {
                match self {
                    $(App::$Name(state) => state.rows(),)+
                }
            }
            fn needs(&self) -> Needs {
                match self {
                    $(App::$Name(state) => state.needs(),)+
                }
            }
        }
    };
}

applications! {
    bulk::Bulk,
    ftp::Ftp,
    ftp::Hftp,
    transfers::Transfers,
    request_response::RequestResponse,
    rpm_probe::RpmProbe,
    web::Web,
    connection_vectors::ConnectionVectors,
    web_probe::WebProbe,
    page::Page,
    video::Video,
    voip::Voip,
    voip_onoff::VoipOnOff,
    udp_cbr::UdpCbr,
    game::Game,
    nada::Media,
    gcc::MediaGcc,
    scream::MediaScream,
    ping::Ping,
    tunnel::Tunnel,
}

/// Every application's card, in registry order.
pub fn cards() -> &'static [Card] {
    CARDS
}

/// Traits of the application called `name`; [`Traits::NONE`] if there is none.
pub fn traits(name: &str) -> Traits {
    let rows = CARDS.iter().zip(TRAITS).chain([(&exec::CARD, &exec::TRAITS)]);
    rows.into_iter().find(|(card, _)| card.name == name).map_or(Traits::NONE, |(_, traits)| *traits)
}

/// Display name of an application; `name` itself if there is none.
pub fn plain(name: &str) -> &str {
    let rows = CARDS.iter().zip(PLAIN).chain([(&exec::CARD, &exec::PLAIN)]);
    rows.into_iter().find(|(card, _)| card.name == name).map_or(name, |(_, plain)| plain)
}

/// Builds the application called `name`, described at `field_path` (such as `flows[0].app`).
pub fn build(name: &str, params: &Params, field_path: impl Display, seed: u64) -> Result<App, ScenarioError> {
    if traits(name).runs_programs {
        return Err(exec::refusal(&field_path.to_string()));
    }
    let Some(row) = CARDS.iter().position(|card| card.name == name) else {
        let known: Vec<&str> = CARDS.iter().map(|card| card.name).collect();
        return Err(unknown_name("application", name, &format!("{field_path}.kind"), &known));
    };
    // The path is formatted only for an error: there may be a hundred thousand flows.
    Checked::new(&CARDS[row], params, "params")
        .and_then(|given| construct(row, &given, seed))
        .map_err(|error| error.within(field_path))
}

/// A numeric parameter of an application, given or default; NaN if it has none of that name.
pub fn number(name: &str, params: &Params, param: &str) -> f64 {
    let Some(card) = CARDS.iter().find(|card| card.name == name) else { return f64::NAN };
    if card.param(param).is_none() {
        return f64::NAN;
    }
    Checked::new(card, params, "params").map_or(f64::NAN, |given| given.number(param))
}

/// One application per row with its defaults, to read properties that are not on its card.
pub fn samples() -> impl Iterator<Item = (&'static Card, App)> {
    CARDS.iter().map(|card| {
        let app = build(card.name, &Params::new(), "", 0).expect("an application runs with its defaults");
        (card, app)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_application_runs_with_its_defaults_and_says_how_it_travels() {
        let samples: Vec<_> = samples().collect();
        assert_eq!(samples.len(), CARDS.len());
        assert!(samples.iter().any(|(_, app)| app.transport() == Transport::Udp));
        assert!(samples.iter().any(|(card, app)| card.name == "web" && app.rows() == Rows::Requests));
    }
}
