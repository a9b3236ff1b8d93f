//! CUBIC: the window is a cubic function of the time since the last congestion event, with its plateau at that window.

mod freebsd;
mod linux;
mod rfc9438;
#[cfg(test)]
mod tests;

use self::freebsd::FreeBsd;
use self::linux::Linux;
use self::rfc9438::Rfc9438;
use super::parts::clock::span_us;
use super::parts::growth::{Growth, credit};
use super::parts::hystart::{Flavour, HyStart};
use super::parts::search::Search;
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, Phase, PhaseChange, Resume};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Duration, Time};

const CARD: Card = Card {
    name: "cubic",
    title: "CUBIC",
    law: "W(t) = C·(t − K)³ + W_max, K = ∛((W_max − w₀)/C); congestion w ← β·w, W_max ← w, or less than w if \
          w fell short of the W_max before (fast convergence); never below what Reno would reach",
    source: "Ha, Rhee and Xu, SIGOPS OSR 42(5), 2008; RFC 9438; Linux `tcp_cubic` of 6.x and of 2.6.25 \
          (v2.1); FreeBSD 9.3 `cc_cubic`",
    differs: &[
        "`linux`, `linux-2.6.25`: whole segments, 1/1024 s, jiffies; the target is truncated to whole \
              segments, so the plateau is longer than the curve's",
        "`linux`: before the first loss at least one segment per 20 (5 % a round trip)",
        "`linux-2.6.25`: β 819/1024, C 410/1024, increments clamped to 16 segments per 100 ms above W_max, 2 \
              % a round trip before the first loss, everything divided by the delayed-ACK ratio",
        "The cube root is exact where Linux interpolates a table (error 0.2 %)",
        "`rfc9438`: a spurious reduction restores W_max; the curve through it and the restored window is \
              then the old one. Slow start has no limit of 8 segments an ACK",
        "`freebsd`: β 204/256, C 102/256, one step a window of acknowledged bytes, time from the end of \
              recovery; the first loss halves; after fast convergence the window lands below ssthresh; the \
              friendly window overflows",
        "`hystart = \"search\"` is draft-chung-ccwg-search-09, which leaves the window where it is at the exit",
    ],
    live_twin: Some("linux:cubic"),
    params: &[
        ParamSpec::choice(
            "variant",
            &["linux", "linux-2.6.25", "rfc9438", "freebsd"],
            "Linux 6.x, Linux 2.6.22 to 2.6.25 (v2.1), the RFC in real arithmetic, or FreeBSD 9.",
        ),
        ParamSpec::share("beta", 0.7, (0.1, 0.95), "Share of the window kept on congestion.")
            .depends("linux 717/1024, linux-2.6.25 819/1024, rfc9438 0.7, freebsd 204/256"),
        ParamSpec::number("c", "segments/s3", 0.4, (0.001, 10.0), "Steepness of the curve.")
            .depends("linux and linux-2.6.25 410/1024, rfc9438 0.4, freebsd 102/256"),
        ParamSpec::flag("fast_convergence", true, "Yield bandwidth when the window fell short of Wmax."),
        ParamSpec::flag("tcp_friendliness", true, "Never grow slower than Reno would."),
        ParamSpec::choice("hystart", Flavour::CHOICES, "What ends slow start besides loss.")
            .depends("linux hystart, rfc9438 hystart++, others off"),
        ParamSpec::whole("hz", "Hz", 250, (100, 10_000), "Timer ticks a second (but rfc9438).")
            .depends("linux and linux-2.6.25 250, freebsd 1000"),
    ],
};

/// CUBIC's state.
#[derive(Clone, Debug)]
pub struct Cubic {
    law: Law,
    hystart: HyStart,
    /// SEARCH, which replaces HyStart.
    search: Option<Box<Search>>,
    growth: Growth,
}

#[derive(Clone, Debug)]
enum Law {
    Linux(Linux),
    Rfc9438(Box<Rfc9438>),
    FreeBsd(Box<FreeBsd>),
}

impl Registered for Cubic {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        let variant = given.choice("variant");
        let default_hystart = match variant {
            "linux" => "hystart",
            "rfc9438" => "hystart++",
            _ => "off",
        };
        let start = given.given_choice("hystart").unwrap_or(default_hystart);
        let law = match variant {
            "rfc9438" => Law::Rfc9438(Box::new(Rfc9438::new(given))),
            "freebsd" => Law::FreeBsd(Box::new(FreeBsd::new(given))),
            _ => Law::Linux(Linux::new(given, variant == "linux")),
        };
        Ok(Cubic {
            law,
            hystart: HyStart::new(Flavour::named(start)),
            search: (start == "search").then(Box::default),
            growth: Growth::default(),
        })
    }
}

impl CongestionControl for Cubic {
    fn on_sample(&mut self, ack: &Ack, control: &mut Control) {
        if let Law::Linux(law) = &mut self.law {
            law.count_ack_ratio(ack);
            if law.takes_delay(ack) {
                self.hystart.ends_slow_start(ack, law.delay_min, control);
            }
        }
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let mut in_slow_start = ack.in_slow_start;
        match &mut self.law {
            Law::Linux(_) => {}
            Law::Rfc9438(_) | Law::FreeBsd(_) => {
                if let Law::FreeBsd(law) = &mut self.law {
                    law.sample(ack);
                }
                let delay_min = span_us(ack.rtt_min);
                if self.hystart.ends_slow_start(ack, delay_min, control) {
                    in_slow_start = false;
                }
            }
        }
        if self.search.as_mut().is_some_and(|search| search.ends_slow_start(ack, control)) {
            in_slow_start = false;
        }
        if !ack.may_grow {
            return;
        }
        let mut segments = credit(ack);
        if in_slow_start {
            segments = self.hystart.grow(&mut self.growth, ack, control);
            if segments == 0 {
                return;
            }
        }
        match &mut self.law {
            Law::Linux(law) => {
                let needed = law.update(ack.now, control.cwnd_segments(), segments);
                self.growth.additive(ack, control, needed, segments);
            }
            Law::Rfc9438(law) => law.grow(ack, control),
            Law::FreeBsd(law) => law.grow(ack, control, &mut self.growth),
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.growth.clear();
        if let Law::FreeBsd(law) = &mut self.law {
            control.ssthresh = law.reduce(congestion, control);
            return;
        }
        if congestion.is_repeated_timeout() {
            return;
        }
        match &mut self.law {
            Law::Linux(law) => control.ssthresh = law.reduce(control),
            Law::Rfc9438(law) => control.ssthresh = law.reduce(congestion, control),
            Law::FreeBsd(_) => {}
        }
    }

    fn on_established(&mut self, now: Time, _srtt: Option<Duration>, control: &mut Control) {
        if let Law::FreeBsd(law) = &mut self.law {
            law.on_established(now, control);
        }
    }

    fn on_phase(&mut self, change: &PhaseChange, control: &mut Control) {
        let was_reducing = matches!(change.from, Phase::Cwr | Phase::Recovery);
        if let (Law::FreeBsd(law), true, Phase::Open) = (&mut self.law, was_reducing, change.to) {
            law.recovered(change, control);
        }
        if change.to != Phase::Loss {
            return;
        }
        self.hystart.restart(change.snd_nxt);
        if let Some(search) = &mut self.search {
            **search = Search::default();
        }
        match &mut self.law {
            Law::Linux(law) => law.forget(),
            Law::Rfc9438(law) => law.forget(),
            Law::FreeBsd(_) => {}
        }
    }

    fn on_undo(&mut self, _now: Time, _control: &mut Control) {
        if let Law::Rfc9438(law) = &mut self.law {
            law.w_max = law.w_max_before;
            law.epoch_start = Time::NEVER;
        }
    }

    fn on_resume(&mut self, resume: &Resume, _control: &mut Control) {
        let (now, idle) = (resume.now, resume.idle);
        // The epoch must not continue while nothing is sent, because a burst would follow (RFC 9438 section 4.2).
        match &mut self.law {
            Law::Linux(law) if law.is_current => {
                // Of two times read in ticks the difference is on average the idle time, however short it is.
                let last_sent = Time::ZERO + now.since(Time::ZERO).saturating_sub(idle);
                let (last_sent, now) = (law.ticks.at(last_sent), law.ticks.at(now));
                let idle = now.wrapping_sub(last_sent);
                law.epoch_start = law.epoch_start.map(|start| start.saturating_add(idle).min(now));
            }
            // v2.1 lets the epoch continue.
            Law::Linux(_) => {}
            Law::Rfc9438(law) if law.epoch_start != Time::NEVER => {
                law.epoch_start = (law.epoch_start + idle).min(now);
            }
            Law::Rfc9438(_) | Law::FreeBsd(_) => {}
        }
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        let (w_max, k, reno) = match &self.law {
            Law::Linux(law) => {
                (f64::from(law.last_max), f64::from(law.k) / 1024.0, f64::from(law.reno_window))
            }
            Law::Rfc9438(law) => (law.w_max, law.k, law.w_est),
            Law::FreeBsd(law) => law.internals(),
        };
        out.push(("w_max", w_max));
        out.push(("k_s", k));
        out.push(("w_reno", reno));
    }
}
