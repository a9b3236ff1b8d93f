//! Observes s2n-quic's controllers and events.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use s2n_quic_core::connection;
use s2n_quic_core::event::{self, api};
use s2n_quic_core::random::Generator;
use s2n_quic_core::recovery::bandwidth::PacketInfo;
use s2n_quic_core::recovery::bbr::BbrCongestionController;
use s2n_quic_core::recovery::congestion_controller::{self, Publisher};
use s2n_quic_core::recovery::{CongestionController, CubicCongestionController, RttEstimator};
use s2n_quic_core::time::Timestamp;

/// What a connection has reported through its events and its controller.
#[derive(Debug, Default)]
pub struct Counters {
    pub cwnd: AtomicU64,
    pub in_flight: AtomicU64,
    pub acked: AtomicU64,
    pub srtt_ns: AtomicU64,
    pub rtt_ns: AtomicU64,
    pub rtt_min_ns: AtomicU64,
    /// Pacing rate; zero if not reported.
    pub pacing_bps: AtomicU64,
    pub sent: AtomicU64,
    pub lost: AtomicU64,
    pub congestion_events: AtomicU64,
    pub is_closed: AtomicBool,
    pub has_failed: AtomicBool,
    pub failure: OnceLock<String>,
}

/// Receives the connection's events.
#[derive(Debug)]
pub struct Events(pub Arc<Counters>);

impl event::Subscriber for Events {
    type ConnectionContext = ();
    fn create_connection_context(&mut self, _meta: &api::ConnectionMeta, _info: &api::ConnectionInfo) {}
    fn on_datagram_sent(&mut self, _: &mut (), _: &api::ConnectionMeta, _: &api::DatagramSent) {
        self.0.sent.fetch_add(1, Relaxed);
    }
    fn on_packet_lost(&mut self, _: &mut (), _: &api::ConnectionMeta, event: &api::PacketLost) {
        self.0.lost.fetch_add(u64::from(!event.is_mtu_probe), Relaxed);
    }
    fn on_congestion(&mut self, _: &mut (), _: &api::ConnectionMeta, _: &api::Congestion) {
        self.0.congestion_events.fetch_add(1, Relaxed);
    }
    fn on_pacing_rate_updated(
        &mut self,
        _: &mut (),
        _: &api::ConnectionMeta,
        event: &api::PacingRateUpdated,
    ) {
        self.0.pacing_bps.store(event.bytes_per_second.saturating_mul(8), Relaxed);
    }
    fn on_connection_closed(&mut self, _: &mut (), _: &api::ConnectionMeta, event: &api::ConnectionClosed) {
        let is_wanted =
            matches!(event.error, connection::Error::Closed { .. } | connection::Error::Application { .. });
        self.0.is_closed.store(true, Relaxed);
        self.0.has_failed.store(!is_wanted, Relaxed);
        if !is_wanted {
            let _ = self.0.failure.set(event.error.to_string());
        }
    }
}

/// Creates one of s2n-quic's controllers and observes it.
#[derive(Debug)]
pub struct Controllers {
    pub is_bbr: bool,
    pub counters: Arc<Counters>,
}

impl congestion_controller::Endpoint for Controllers {
    type CongestionController = Watched;
    fn new_congestion_controller(&mut self, path: congestion_controller::PathInfo) -> Watched {
        let size = path.max_datagram_size;
        let inner = match self.is_bbr {
            true => Inner::Bbr(Box::new(BbrCongestionController::new(size, Default::default()))),
            false => Inner::Cubic(CubicCongestionController::new(size, Default::default())),
        };
        let made = Watched { inner, counters: self.counters.clone() };
        made.report();
        made
    }
}

/// One of s2n-quic's controllers; forwards every call to it.
#[derive(Clone, Debug)]
pub struct Watched {
    inner: Inner,
    counters: Arc<Counters>,
}

#[derive(Clone, Debug)]
enum Inner {
    Cubic(CubicCongestionController),
    Bbr(Box<BbrCongestionController>),
}

macro_rules! either {
    ($inner:expr, $it:ident => $call:expr) => {
        match $inner {
            Inner::Cubic($it) => $call,
            Inner::Bbr($it) => $call,
        }
    };
}

impl Watched {
    fn report(&self) {
        self.counters.cwnd.store(self.congestion_window().into(), Relaxed);
        self.counters.in_flight.store(self.bytes_in_flight().into(), Relaxed);
    }
}

impl CongestionController for Watched {
    /// CUBIC has no packet information.
    type PacketInfo = Option<PacketInfo>;

    fn congestion_window(&self) -> u32 {
        either!(&self.inner, it => it.congestion_window())
    }
    fn bytes_in_flight(&self) -> u32 {
        either!(&self.inner, it => it.bytes_in_flight())
    }
    fn is_congestion_limited(&self) -> bool {
        either!(&self.inner, it => it.is_congestion_limited())
    }
    fn requires_fast_retransmission(&self) -> bool {
        either!(&self.inner, it => it.requires_fast_retransmission())
    }
    fn on_packet_sent<P: Publisher>(
        &mut self,
        sent: Timestamp,
        bytes: usize,
        app_limited: Option<bool>,
        rtt: &RttEstimator,
        publisher: &mut P,
    ) -> Self::PacketInfo {
        let info = match &mut self.inner {
            Inner::Cubic(it) => {
                it.on_packet_sent(sent, bytes, app_limited, rtt, publisher);
                None
            }
            Inner::Bbr(it) => Some(it.on_packet_sent(sent, bytes, app_limited, rtt, publisher)),
        };
        self.report();
        info
    }
    fn on_rtt_update<P: Publisher>(
        &mut self,
        sent: Timestamp,
        now: Timestamp,
        rtt: &RttEstimator,
        publisher: &mut P,
    ) {
        let ns = |span: std::time::Duration| span.as_nanos() as u64;
        self.counters.srtt_ns.store(ns(rtt.smoothed_rtt()), Relaxed);
        self.counters.rtt_ns.store(ns(rtt.latest_rtt()), Relaxed);
        self.counters.rtt_min_ns.store(ns(rtt.min_rtt()), Relaxed);
        either!(&mut self.inner, it => it.on_rtt_update(sent, now, rtt, publisher));
        self.report();
    }
    fn on_ack<P: Publisher>(
        &mut self,
        newest_sent: Timestamp,
        bytes: usize,
        newest: Self::PacketInfo,
        rtt: &RttEstimator,
        random: &mut dyn Generator,
        now: Timestamp,
        publisher: &mut P,
    ) {
        self.counters.acked.fetch_add(bytes as u64, Relaxed);
        match &mut self.inner {
            Inner::Cubic(it) => it.on_ack(newest_sent, bytes, (), rtt, random, now, publisher),
            Inner::Bbr(it) => it.on_ack(newest_sent, bytes, known(newest), rtt, random, now, publisher),
        }
        self.report();
    }
    fn on_packet_lost<P: Publisher>(
        &mut self,
        bytes: u32,
        info: Self::PacketInfo,
        is_persistent: bool,
        is_new_burst: bool,
        random: &mut dyn Generator,
        now: Timestamp,
        publisher: &mut P,
    ) {
        match &mut self.inner {
            Inner::Cubic(it) => {
                it.on_packet_lost(bytes, (), is_persistent, is_new_burst, random, now, publisher);
            }
            Inner::Bbr(it) => {
                it.on_packet_lost(bytes, known(info), is_persistent, is_new_burst, random, now, publisher);
            }
        }
        self.report();
    }
    fn on_explicit_congestion<P: Publisher>(&mut self, count: u64, now: Timestamp, publisher: &mut P) {
        either!(&mut self.inner, it => it.on_explicit_congestion(count, now, publisher));
        self.report();
    }
    fn on_mtu_update<P: Publisher>(&mut self, size: u16, publisher: &mut P) {
        either!(&mut self.inner, it => it.on_mtu_update(size, publisher));
        self.report();
    }
    fn on_packet_discarded<P: Publisher>(&mut self, bytes: usize, publisher: &mut P) {
        either!(&mut self.inner, it => it.on_packet_discarded(bytes, publisher));
        self.report();
    }
    fn earliest_departure_time(&self) -> Option<Timestamp> {
        either!(&self.inner, it => it.earliest_departure_time())
    }
    fn send_quantum(&self) -> Option<usize> {
        either!(&self.inner, it => it.send_quantum())
    }
}

fn known(info: Option<PacketInfo>) -> PacketInfo {
    info.expect("BBR gave one when the packet was sent")
}
