//! quinn (<https://github.com/quinn-rs/quinn>): `quinn-proto`, its protocol without sockets.
//!
//! Three things differ from an application's use. Keys are null. Connection IDs and tokens come from the scenario's
//! seed. Each call sends or receives one datagram (no segmentation offload), because the simulated network carries
//! single packets.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use proto::congestion::{self, Controller, ControllerFactory, ControllerMetrics};
use proto::crypto::{
    self, AeadKey, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, KeyPair, Keys,
    PacketKey, Session, UnsupportedVersion,
};
use proto::transport_parameters::TransportParameters;
use proto::{
    ConnectError, Connection, ConnectionId, DatagramEvent, EcnCodepoint, EndpointConfig, RttEstimator,
    ServerConfig, Side, StreamId, Transmit, TransportError,
};
use quinn_proto as proto;
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
pub struct Quinn;

/// The version in `Cargo.toml`; a test compares it with `Cargo.lock`.
pub const VERSION: &str = "0.11.19";

const NAME: &str = "quinn";

impl Stack for Quinn {
    fn version(&self) -> &str {
        VERSION
    }
    fn algorithms(&self) -> &[&'static str] {
        &["cubic", "new_reno", "bbr"]
    }
    fn connect(&self, setup: &Setup<'_>) -> [Box<dyn Endpoint>; 2] {
        family::connect(setup)
    }
}

fn controllers(cc: &str) -> Arc<dyn ControllerFactory + Send + Sync> {
    match cc {
        "cubic" => Arc::new(congestion::CubicConfig::default()),
        "new_reno" => Arc::new(congestion::NewRenoConfig::default()),
        "bbr" => Arc::new(congestion::BbrConfig::default()),
        other => panic!("{other} was to be refused before time zero"),
    }
}

fn endpoint(mut config: EndpointConfig, cids: u64, server: Option<Arc<ServerConfig>>) -> proto::Endpoint {
    config.cid_generator(move || Box::new(Cids(Stream::named(cids, "cid"))));
    proto::Endpoint::new(Arc::new(config), server, true, None)
}

fn arrived(
    endpoint: &mut proto::Endpoint,
    at: Instant,
    peer: SocketAddr,
    ecn: Option<EcnCodepoint>,
    data: BytesMut,
    response: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(at, peer, None, ecn, data, response)
}

fn sent(connection: &mut Connection, at: Instant, datagram: &mut Vec<u8>) -> Option<Transmit> {
    connection.poll_transmit(at, 1, datagram)
}

fn elicited(connection: &mut Connection) -> Option<u64> {
    Some(eliciting(&connection.stats().frame_tx))
}

fn written(connection: &mut Connection, stream: StreamId, chunk: Bytes) -> u64 {
    connection.send_stream(stream).write_chunks(&mut [chunk]).map_or(0, |it| it.bytes as u64)
}

fn window(connection: &Connection) -> u64 {
    connection.congestion_state().window()
}

fn state(connection: &mut Connection, counters: &Counters) -> Option<State> {
    let path = connection.stats().path;
    let metrics = connection.congestion_state().metrics();
    let has_sample = counters.acked.load(Relaxed) > 0;
    Some(State {
        cwnd: path.cwnd,
        ssthresh: metrics.ssthresh.unwrap_or(u64::MAX),
        in_flight: counters.in_flight.load(Relaxed),
        srtt: span(if has_sample { path.rtt } else { Default::default() }),
        rtt: span(std::time::Duration::from_nanos(counters.rtt_ns.load(Relaxed))),
        rtt_min: span(if has_sample { path.min_rtt } else { Default::default() }),
        pacing_rate: metrics.pacing_rate.map(Rate::from_bps),
        packets_sent: path.sent_packets,
        packets_lost: path.lost_packets,
        congestion_events: path.congestion_events,
        ..State::default()
    })
}

impl Controller for Watched {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.counters.acked.fetch_add(bytes, Relaxed);
        self.counters.rtt_ns.store(now.saturating_duration_since(sent).as_nanos() as u64, Relaxed);
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }
    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.counters.in_flight.store(in_flight, Relaxed);
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
    }
    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost: u64) {
        let in_flight = self.counters.in_flight.load(Relaxed);
        self.counters.in_flight.store(in_flight.saturating_sub(lost), Relaxed);
        self.inner.on_congestion_event(now, sent, is_persistent, lost);
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
struct NullAead;

impl crypto::ClientConfig for Null {
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        _server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(session(Side::Client, params))
    }
}

impl crypto::ServerConfig for Null {
    fn initial_keys(&self, _version: u32, _dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }
    fn retry_tag(&self, _version: u32, _orig_dst_cid: &ConnectionId, _packet: &[u8]) -> [u8; 16] {
        TAG
    }
    fn start_session(self: Arc<Self>, _version: u32, params: &TransportParameters) -> Box<dyn Session> {
        session(Side::Server, params)
    }
}

impl Session for NullSession {
    fn initial_keys(&self, _dst_cid: &ConnectionId, _side: Side) -> Keys {
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
    fn is_valid_retry(&self, _orig_dst_cid: &ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
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
    fn encrypt(&self, _packet: u64, buf: &mut [u8], _header_len: usize) {
        let tag = buf.len() - TAG.len();
        buf[tag..].copy_from_slice(&TAG);
    }
    fn decrypt(&self, _packet: u64, _header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
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
    fn aead_from_hkdf(&self, _random_bytes: &[u8]) -> Box<dyn AeadKey> {
        Box::new(NullAead)
    }
}

impl AeadKey for NullAead {
    fn seal(&self, data: &mut Vec<u8>, _additional_data: &[u8]) -> Result<(), CryptoError> {
        data.extend_from_slice(&TAG);
        Ok(())
    }
    fn open<'a>(&self, data: &'a mut [u8], _additional_data: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        let Some(length) = data.len().checked_sub(TAG.len()) else { return Err(CryptoError) };
        Ok(&mut data[..length])
    }
}
