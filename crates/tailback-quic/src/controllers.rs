//! Congestion controllers of QUIC stacks on tailback's own TCP sender.
//!
//! s2n-quic (<https://github.com/aws/s2n-quic>) has its controllers in a crate of their own, open to any caller. A flow
//! over TCP names one: `cc = "s2n-cubic"`. The controller determines the window and the pacing rate; the flow's TCP
//! stack does segmentation, acknowledgements, loss detection and recovery.
//!
//! Differences from s2n-quic: bytes are payload bytes. Pacing applies to each segment, where s2n-quic sends bursts of
//! ten packets. Times are whole microseconds, as in s2n-quic. There is no acknowledgement delay to subtract. The
//! handshake counts as one packet, sent and acknowledged. A TCP timeout reports only which packets are lost, so
//! persistent congestion is determined by RFC 9002 section 7.6.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use s2n_quic_core::event::builder::{BbrState, SlowStartExitCause};
use s2n_quic_core::packet::number::PacketNumberSpace;
use s2n_quic_core::recovery::bandwidth::{Bandwidth, RateSample};
use s2n_quic_core::recovery::bbr::BbrCongestionController;
use s2n_quic_core::recovery::congestion_controller::Publisher;
use s2n_quic_core::recovery::{CongestionController, CubicCongestionController, RttEstimator};
use tailback_core::cc::external::{External, Maker, Makers};
use tailback_core::cc::{Ack, Congestion, CongestionControl, Control, Departure, Fates};
use tailback_core::rng::Stream;
use tailback_core::scenario::Params;
use tailback_core::time::{self, Bytes, Rate, Time};

use crate::s2n::given::{Random, stamp};

/// The controllers' crate, with its version as in `Cargo.toml`.
pub const CONTROLLERS: &str = "s2n-quic-core 0.91.0";

/// The controllers available without their stack, by their names in scenarios.
pub fn controllers() -> Makers {
    let cubic =
        Alone { name: "s2n-cubic", new: |mss| CubicCongestionController::new(mss, Default::default()) };
    let bbr = Alone { name: "s2n-bbr2", new: |mss| BbrCongestionController::new(mss, Default::default()) };
    let all: [(&str, Arc<dyn Maker>); 2] = [(cubic.name, Arc::new(cubic)), (bbr.name, Arc::new(bbr))];
    all.into_iter().map(|(name, maker)| (name.to_string(), maker)).collect()
}

/// A controller's panic, as it unwinds through the engine.
#[derive(Debug)]
pub struct ControllerFault {
    /// The algorithm's name in the scenario, and its crate's version.
    pub algorithm: String,
    /// The hook in which it panicked.
    pub hook: &'static str,
    /// The panic's message.
    pub what: String,
}

/// A controller without its stack.
#[derive(Debug)]
struct Alone<C> {
    name: &'static str,
    /// Makes a controller for packets of this many bytes.
    new: fn(u16) -> C,
}

impl<C: CongestionController> Maker for Alone<C> {
    fn check(&self, params: &Params) -> Result<(), String> {
        match params.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!("{name} is not a parameter of it: it runs as its authors set it")),
        }
    }
    fn make(&self, _params: &Params, seed: u64) -> Box<dyn External> {
        Box::new(Driven::<C> {
            name: self.name,
            new: self.new,
            controller: None,
            rtt: RttEstimator::default(),
            random: Random(Stream::named(seed, self.name)),
            sent: VecDeque::new(),
            first: 0,
            newest: (Time::ZERO, 0),
            newest_info: None,
            last_lost: None,
            lost_since: None,
            pacing: None,
        })
    }
}

/// A sent packet whose fate is not yet final.
#[derive(Debug)]
struct Packet<I> {
    sent: Time,
    end: u64,
    info: I,
}

/// A connection's controller, with the packet records that it needs.
#[derive(Debug)]
struct Driven<C: CongestionController> {
    name: &'static str,
    new: fn(u16) -> C,
    /// Set once the connection is established.
    controller: Option<C>,
    rtt: RttEstimator,
    random: Random,
    /// Packets in order of sending, without gaps.
    sent: VecDeque<Packet<C::PacketInfo>>,
    /// Number of `sent[0]`.
    first: u64,
    /// The most recently sent packet among those delivered so far.
    newest: (Time, u64),
    newest_info: Option<C::PacketInfo>,
    /// The number of the packet last declared lost.
    last_lost: Option<u64>,
    /// Send time of the first packet of a run of losses, since which no later packet was delivered (for persistent
    /// congestion).
    lost_since: Option<Time>,
    pacing: Option<Rate>,
}

impl<C: CongestionController> Driven<C> {
    /// Calls the controller and applies its decisions.
    fn drive(
        &mut self,
        hook: &'static str,
        control: &mut Control,
        work: impl FnOnce(&mut Self, &mut C, &mut PacingReport),
    ) {
        let Some(mut controller) = self.controller.take() else { return };
        let mut report = PacingReport { pacing: None };
        self.caught(hook, |own| work(own, &mut controller, &mut report));
        self.pacing = report.pacing.or(self.pacing);
        control.cwnd = Bytes::from(controller.congestion_window());
        control.pacing = self.pacing;
        self.controller = Some(controller);
    }

    /// Adds the controller's name to a panic and lets it continue. The controller is dropped with the run.
    fn caught<T>(&mut self, hook: &'static str, work: impl FnOnce(&mut Self) -> T) -> T {
        catch_unwind(AssertUnwindSafe(|| work(self))).unwrap_or_else(|payload| {
            let algorithm = format!("{} ({CONTROLLERS})", self.name);
            resume_unwind(Box::new(ControllerFault { algorithm, hook, what: text(payload.as_ref()) }))
        })
    }

    /// The number of the packet sent at that time and ending at that byte.
    fn number(&self, (sent, end): (Time, u64)) -> Option<u64> {
        let from = self.sent.partition_point(|packet| packet.sent < sent);
        let at = self.sent.iter().skip(from).take_while(|packet| packet.sent == sent);
        let index = at.enumerate().find(|(_, packet)| packet.end == end)?.0;
        Some(self.first + (from + index) as u64)
    }

    fn on_delivered(&mut self, controller: &mut C, fates: &Fates<'_>, report: &mut PacingReport) {
        let Some(ack) = fates.ack else { return };
        let now = stamp(fates.now);
        let lost: Bytes = fates.lost.iter().map(|loss| loss.bytes).sum();
        // As in QUIC, a packet that arrives after it was declared lost does not count for the controller.
        let held = Bytes::from(controller.bytes_in_flight());
        let acked = held.saturating_sub(fates.in_flight + lost);
        let is_news = fates.newest != self.newest;
        if is_news {
            self.newest = fates.newest;
            self.newest_info =
                self.number(self.newest).map(|number| self.packet(number).info).or(self.newest_info);
            if self.lost_since.is_some_and(|since| self.newest.0 > since) {
                self.lost_since = None;
            }
            if let Some(sample) = ack.rtt {
                self.rtt.update_rtt(
                    Duration::ZERO,
                    span(sample),
                    now,
                    true,
                    PacketNumberSpace::ApplicationData,
                );
                controller.on_rtt_update(stamp(self.newest.0), now, &self.rtt, report);
            }
        }
        if let Some(info) = self.newest_info.filter(|_| acked > 0) {
            let sent = stamp(self.newest.0);
            controller.on_ack(sent, acked as usize, info, &self.rtt, &mut self.random, now, report);
        }
        if ack.marked > 0 {
            controller.on_explicit_congestion(ack.marked.div_ceil(ack.mss.into()), now, report);
        }
    }

    fn on_lost(&mut self, controller: &mut C, fates: &Fates<'_>, report: &mut PacingReport) {
        let now = stamp(fates.now);
        for loss in fates.lost {
            let Some(number) = self.number((loss.sent, loss.end)) else { continue };
            let since = *self.lost_since.get_or_insert(loss.sent);
            let is_persistent = self.rtt.first_rtt_sample().is_some()
                && span(loss.sent.since(since)) > self.rtt.persistent_congestion_threshold();
            let is_new_burst = self.last_lost.is_none_or(|last| number != last + 1);
            self.last_lost = Some(number);
            let info = self.packet(number).info;
            let bytes = (loss.bytes as u32).min(controller.bytes_in_flight());
            if bytes > 0 {
                let random = &mut self.random;
                controller.on_packet_lost(bytes, info, is_persistent, is_new_burst, random, now, report);
            }
        }
    }

    fn packet(&self, number: u64) -> &Packet<C::PacketInfo> {
        &self.sent[(number - self.first) as usize]
    }
}

impl<C: CongestionController> CongestionControl for Driven<C> {
    fn on_established(&mut self, now: Time, srtt: Option<time::Duration>, control: &mut Control) {
        let mss = u16::try_from(control.mss).unwrap_or(u16::MAX);
        self.controller = Some(self.caught("new", |own| (own.new)(mss)));
        self.drive("on_established", control, |own, controller, report| {
            let Some(sample) = srtt else { return };
            let now_stamp = stamp(now);
            let sent = now_stamp - span(sample);
            let bytes = usize::from(mss);
            let info = controller.on_packet_sent(sent, bytes, None, &own.rtt, report);
            own.rtt.update_rtt(Duration::ZERO, span(sample), now_stamp, false, PacketNumberSpace::Initial);
            controller.on_rtt_update(sent, now_stamp, &own.rtt, report);
            controller.on_ack(sent, bytes, info, &own.rtt, &mut own.random, now_stamp, report);
        });
    }

    fn on_sent(&mut self, departure: &Departure, control: &mut Control) {
        self.drive("on_packet_sent", control, |own, controller, report| {
            let now = stamp(departure.now);
            // A tail loss probe counts as in flight once.
            let held = Bytes::from(controller.bytes_in_flight());
            let bytes = departure.bytes.min(departure.in_flight.saturating_sub(held)) as usize;
            let info = controller.on_packet_sent(now, bytes, Some(departure.app_limited), &own.rtt, report);
            own.sent.push_back(Packet { sent: departure.now, end: departure.end, info });
        });
    }

    fn on_fates(&mut self, fates: &Fates<'_>, control: &mut Control) {
        self.drive("on_ack", control, |own, controller, report| {
            own.on_delivered(controller, fates, report);
            own.on_lost(controller, fates, report);
            while own.sent.pop_front_if(|packet| packet.end <= fates.snd_una).is_some() {
                own.first += 1;
            }
        });
    }

    fn on_ack(&mut self, _ack: &Ack, _control: &mut Control) {}

    fn on_congestion(&mut self, _congestion: &Congestion, control: &mut Control) {
        // For readers of the value only: the window is the controller's own in every phase.
        control.ssthresh = control.cwnd;
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn follows_packets(&self) -> bool {
        true
    }
}

fn span(span: time::Duration) -> Duration {
    Duration::from_nanos(span.as_ps() / 1_000)
}

fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&'static str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".into())
}

/// Receives the pacing rate that a controller reports.
struct PacingReport {
    pacing: Option<Rate>,
}

impl Publisher for PacingReport {
    fn on_slow_start_exited(&mut self, _cause: SlowStartExitCause, _congestion_window: u32) {}
    fn on_delivery_rate_sampled(&mut self, _rate_sample: RateSample) {}
    fn on_pacing_rate_updated(
        &mut self,
        pacing_rate: Bandwidth,
        _burst_size: u32,
        _pacing_gain: num_rational::Ratio<u64>,
    ) {
        self.pacing = Some(Rate::from_bps(pacing_rate.as_bytes_per_second().saturating_mul(8)));
    }
    fn on_bbr_state_changed(&mut self, _state: BbrState) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_goes_on_with_name_version_and_call() {
        let fragile =
            Alone::<CubicCongestionController> { name: "s2n-cubic", new: |_| panic!("a broken belief") };
        let mut made = fragile.make(&Params::new(), 1);
        let mut control = Control {
            cwnd: 14_480,
            ssthresh: Control::UNLIMITED,
            pacing: None,
            mss: 1_448,
            self_limited: false,
        };
        let outcome =
            catch_unwind(AssertUnwindSafe(|| made.on_established(Time::from_ms(40), None, &mut control)));
        let fault = outcome.expect_err("it panicked").downcast::<ControllerFault>().expect("named");
        assert_eq!(fault.algorithm, "s2n-cubic (s2n-quic-core 0.91.0)");
        assert_eq!((fault.hook, fault.what.as_str()), ("new", "a broken belief"));
    }

    #[test]
    fn the_reported_version_is_the_one_that_is_built() {
        let lock = include_str!("../../../Cargo.lock");
        let (name, version) = CONTROLLERS.split_once(' ').expect("two words");
        assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"")), "{CONTROLLERS}");
    }
}
