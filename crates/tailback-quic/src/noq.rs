//! noq (<https://github.com/n0-computer/noq>): `noq-proto`, a fork of quinn's protocol crate and driven in the same
//! way.
//!
//! Only one path of its multipath is used. For other differences from an application's use see `quinn.rs`.

use std::any::Any;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use noq_proto as proto;
use proto::congestion::{self, Controller, ControllerFactory, ControllerMetrics};
use proto::crypto::{
    self, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, KeyPair, Keys, PacketKey,
    Session, UnsupportedVersion,
};
use proto::transport_parameters::TransportParameters;
use proto::{
    ConnectError, Connection, ConnectionId, DatagramEvent, EcnCodepoint, EndpointConfig, FourTuple, PathId,
    RttEstimator, ServerConfig, Side, StreamId, Transmit, TransportError,
};
use tailback_core::foreign::{Endpoint, Setup, Stack, State};
use tailback_core::rng::Stream;
use tailback_core::time::Rate;

use self::family::{Cids, Counters, NullKey, NullSession, Watched, eliciting, keys, pair, session};
use crate::clock::span;
use crate::null::{self, TAG};

#[allow(clippy::duplicate_mod, reason = "each stack has types of its own")]
#[path = "family.rs"]
mod family;

/// The stack.
#[derive(Debug)]
pub struct Noq;

/// The version in `Cargo.toml`; a test compares it with `Cargo.lock`.
pub const VERSION: &str = "1.2.0";

const NAME: &str = "noq";

impl Stack for Noq {
    fn version(&self) -> &str {
        VERSION
    }
    fn algorithms(&self) -> &[&'static str] {
        &["cubic", "new_reno", "bbr3"]
    }
    fn connect(&self, setup: &Setup<'_>) -> [Box<dyn Endpoint>; 2] {
        family::connect(setup)
    }
}

fn controllers(cc: &str) -> Arc<dyn ControllerFactory + Send + Sync> {
    match cc {
        "cubic" => Arc::new(congestion::CubicConfig::default()),
        "new_reno" => Arc::new(congestion::NewRenoConfig::default()),
        "bbr3" => Arc::new(congestion::Bbr3Config::default()),
        other => panic!("{other} was to be refused before time zero"),
    }
}

fn endpoint(mut config: EndpointConfig, cids: u64, server: Option<Arc<ServerConfig>>) -> proto::Endpoint {
    config.cid_generator(Arc::new(move || Box::new(Cids(Stream::named(cids, "cid")))));
    proto::Endpoint::new(Arc::new(config), server, true)
}

fn arrived(
    endpoint: &mut proto::Endpoint,
    at: Instant,
    peer: SocketAddr,
    ecn: Option<EcnCodepoint>,
    data: BytesMut,
    response: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(at, FourTuple::new(peer, None), ecn, data, response)
}

fn sent(connection: &mut Connection, at: Instant, datagram: &mut Vec<u8>) -> Option<Transmit> {
    connection.poll_transmit(at, NonZeroUsize::MIN, datagram)
}

fn elicited(connection: &mut Connection) -> Option<u64> {
    connection.path_stats(PathId::ZERO).map(|path| eliciting(&path.frame_tx))
}

fn written(connection: &mut Connection, stream: StreamId, chunk: Bytes) -> u64 {
    connection.send_stream(stream).write_chunks(&mut &mut [chunk][..]).map_or(0, |bytes| bytes as u64)
}

fn window(connection: &Connection) -> u64 {
    connection.congestion_state(PathId::ZERO).map_or(0, |it| it.window())
}

fn state(connection: &mut Connection, counters: &Counters) -> Option<State> {
    let path = connection.path_stats(PathId::ZERO)?;
    let metrics = connection.congestion_state(PathId::ZERO)?.metrics();
    let has_sample = counters.acked.load(Relaxed) > 0;
    Some(State {
        cwnd: path.cwnd,
        ssthresh: metrics.ssthresh.unwrap_or(u64::MAX),
        in_flight: counters.in_flight.load(Relaxed),
        srtt: span(if has_sample { path.rtt } else { Default::default() }),
        rtt: span(std::time::Duration::from_nanos(counters.rtt_ns.load(Relaxed))),
        rtt_min: span(std::time::Duration::from_nanos(counters.rtt_min_ns.load(Relaxed))),
        pacing_rate: metrics.pacing_rate.map(|rate| Rate::from_bps(rate * 8)),
        packets_sent: path.udp_tx.datagrams,
        packets_lost: path.lost_packets,
        congestion_events: path.congestion_events,
        ..State::default()
    })
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl Controller for Watched {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.inner.on_packet_sent(now, bytes, pn);
    }
    fn on_cwnd_limited(&mut self) {
        self.inner.on_cwnd_limited();
    }
    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        let sample = now.saturating_duration_since(sent).as_nanos() as u64;
        self.counters.acked.fetch_add(bytes, Relaxed);
        self.counters.rtt_ns.store(sample, Relaxed);
        let least = self.counters.rtt_min_ns.load(Relaxed);
        self.counters.rtt_min_ns.store(if least == 0 { sample } else { least.min(sample) }, Relaxed);
        self.inner.on_ack(now, sent, bytes, pn, app_limited, rtt);
    }
    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.counters.in_flight.store(in_flight, Relaxed);
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
    }
    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent: bool,
        is_ecn: bool,
        lost: u64,
        largest_lost: u64,
    ) {
        let in_flight = self.counters.in_flight.load(Relaxed);
        self.counters.in_flight.store(in_flight.saturating_sub(lost), Relaxed);
        self.inner.on_congestion_event(now, sent, is_persistent, is_ecn, lost, largest_lost);
    }
    fn on_packet_lost(&mut self, lost: u16, pn: u64, now: Instant) {
        self.inner.on_packet_lost(lost, pn, now);
    }
    fn on_spurious_congestion_event(&mut self) {
        self.inner.on_spurious_congestion_event();
    }
    fn on_ack_frequency_update(&mut self, threshold: u64, max_ack_delay: std::time::Duration) {
        self.inner.on_ack_frequency_update(threshold, max_ack_delay);
    }
    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }
    fn window(&self) -> u64 {
        self.inner.window()
    }
    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Watched { inner: self.inner.clone_box(), counters: self.counters.clone() })
    }
    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}

/// Client and server configuration without cryptography.
struct Null;
struct NullToken;

impl crypto::ClientConfig for Null {
    fn start_session(
        &self,
        _version: u32,
        _server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(session(Side::Client, params))
    }
}

impl crypto::ServerConfig for Null {
    fn initial_keys(&self, _version: u32, _dst_cid: ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }
    fn retry_tag(&self, _version: u32, _orig_dst_cid: ConnectionId, _packet: &[u8]) -> [u8; 16] {
        TAG
    }
    fn start_session(&self, _version: u32, params: &TransportParameters) -> Box<dyn Session> {
        session(Side::Server, params)
    }
}

impl Session for NullSession {
    fn initial_keys(&self, _dst_cid: ConnectionId, _side: Side) -> Keys {
        keys()
    }
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }
    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }
    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }
    fn early_data_accepted(&self) -> Option<bool> {
        None
    }
    fn is_handshaking(&self) -> bool {
        self.handshake.is_under_way()
    }
    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        Ok(self.handshake.read(buf))
    }
    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(params) = &self.handshake.peer_params else { return Ok(None) };
        Ok(Some(TransportParameters::read(self.side, &mut params.as_slice())?))
    }
    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        (self.handshake.write(buf, &mut self.keys_given) == null::Keys::Next).then(keys)
    }
    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(pair::<dyn PacketKey>(|| Box::new(NullKey)))
    }
    fn is_valid_retry(&self, _orig_dst_cid: ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        true
    }
    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

impl PacketKey for NullKey {
    fn encrypt(&self, _path: PathId, _packet: u64, buf: &mut [u8], _header_len: usize) {
        let tag = buf.len() - TAG.len();
        buf[tag..].copy_from_slice(&TAG);
    }
    fn decrypt(
        &self,
        _path: PathId,
        _packet: u64,
        _header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        let Some(length) = payload.len().checked_sub(TAG.len()) else { return Err(CryptoError) };
        payload.truncate(length);
        Ok(())
    }
    fn tag_len(&self) -> usize {
        TAG.len()
    }
    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }
    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

impl HandshakeTokenKey for NullToken {
    fn seal(&self, _token_nonce: u128, data: &mut Vec<u8>) -> Result<(), CryptoError> {
        data.extend_from_slice(&TAG);
        Ok(())
    }
    fn open<'a>(&self, _token_nonce: u128, data: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
        let Some(length) = data.len().checked_sub(TAG.len()) else { return Err(CryptoError) };
        Ok(&data[..length])
    }
}
