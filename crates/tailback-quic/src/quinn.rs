//! quinn (<https://github.com/quinn-rs/quinn>): `quinn-proto`, its protocol without sockets.
//!
//! What is not as an application would have it: null keys, connection IDs and tokens from the scenario's seed, and one
//! datagram a call, sent and received (no segmentation offload), as the network's packets are single.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use quinn_proto::congestion::{self, Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::crypto::{
    self, AeadKey, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey, KeyPair,
    Keys, PacketKey, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{
    ClientConfig, ConnectError, Connection, ConnectionError, ConnectionHandle, ConnectionId,
    ConnectionIdGenerator, DatagramEvent, Dir, EcnCodepoint, EndpointConfig, Event, FrameStats,
    MtuDiscoveryConfig, RttEstimator, ServerConfig, Side, StreamEvent, StreamId, TimeSource, TransportConfig,
    TransportError, VarInt,
};
use tailback_core::foreign::{Endpoint, Flight, Progress, Setup, Stack, State, UDP_HEADERS};
use tailback_core::packet::Ecn;
use tailback_core::rng::Stream;
use tailback_core::time::{Rate, Time};

use crate::clock::{instant, span, time};
use crate::entropy::with_entropy;
use crate::null::{self, Handshake, TAG};

/// The stack.
#[derive(Debug)]
pub struct Quinn;

/// As `Cargo.toml` has it; a test compares with `Cargo.lock`.
pub const VERSION: &str = "0.11.19";

const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 50_000);
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 443);

/// What an application writes; its bytes mean nothing.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

impl Stack for Quinn {
    fn version(&self) -> &str {
        VERSION
    }
    fn algorithms(&self) -> &[&'static str] {
        &["cubic", "new_reno", "bbr"]
    }
    fn least_mtu(&self) -> u32 {
        // RFC 9000 section 14.
        1_200 + UDP_HEADERS
    }
    fn connect(&self, setup: &Setup<'_>) -> [Box<dyn Endpoint>; 2] {
        let mut seeds = Stream::named(setup.seed, "quinn");
        let told: [Arc<Told>; 2] = Default::default();
        let mut transports = told.clone().map(|told| Arc::new(transport(setup, told, seeds.bits())));
        let mut endpoint = |server: Option<Arc<ServerConfig>>| {
            let mut config = EndpointConfig::new(Arc::new(NullHmac));
            let cids = seeds.bits();
            config.cid_generator(move || Box::new(Cids(Stream::named(cids, "cid"))));
            let mut seed = [0; 32];
            seed.chunks_mut(8).for_each(|part| part.copy_from_slice(&seeds.bits().to_le_bytes()));
            config.rng_seed(Some(seed));
            quinn_proto::Endpoint::new(Arc::new(config), server, true, None)
        };
        let mut accept = ServerConfig::new(Arc::new(Null), Arc::new(NullToken));
        accept.transport_config(std::mem::take(&mut transports[1]));
        accept.time_source(Arc::new(Epoch));
        let accept = Arc::new(accept);
        let server = endpoint(Some(accept.clone()));
        let mut client = endpoint(None);
        let mut config = ClientConfig::new(Arc::new(Null));
        config.transport_config(std::mem::take(&mut transports[0]));
        let cids = seeds.bits();
        config.initial_dst_cid_provider(Arc::new(move || Cids(Stream::named(cids, "first")).generate_cid()));
        let connection =
            client.connect(instant(setup.now), config, SERVER, "server").expect("a connection can be made");
        let [told_client, told_server] = told;
        [
            Box::new(End::new(client, Some(connection), SERVER, told_client)),
            Box::new(End::new(server, None, CLIENT, told_server)),
        ]
    }
}

/// As an application that asks for nothing has it, but for what the scenario sets.
fn transport(setup: &Setup<'_>, told: Arc<Told>, seed: u64) -> TransportConfig {
    let mut config = TransportConfig::default();
    let inner: Arc<dyn ControllerFactory + Send + Sync> = match setup.cc {
        "cubic" => Arc::new(congestion::CubicConfig::default()),
        "new_reno" => Arc::new(congestion::NewRenoConfig::default()),
        "bbr" => Arc::new(congestion::BbrConfig::default()),
        other => panic!("{other} was to be refused before time zero"),
    };
    config.congestion_controller_factory(Arc::new(Watch { inner, told, seed }));
    let mut discovery = MtuDiscoveryConfig::default();
    // Its probes end at 1452 bytes unless the path's packets are smaller.
    let most = u16::try_from(setup.mtu - UDP_HEADERS).unwrap_or(u16::MAX);
    if most < 1_452 {
        discovery.upper_bound(most);
    }
    config.mtu_discovery_config(Some(discovery));
    if let Some(bytes) = setup.send_buffer {
        config.send_window(bytes);
    }
    if let Some(bytes) = setup.receive_buffer {
        let window = VarInt::from_u64(bytes).unwrap_or(VarInt::MAX);
        config.stream_receive_window(window).receive_window(window);
    }
    config
}

/// What a controller was told by its connection.
#[derive(Debug, Default)]
struct Told {
    acked: AtomicU64,
    /// Bytes in flight: as the connection has it at acknowledgements, less what is lost and with what is sent since.
    in_flight: AtomicU64,
    rtt_ns: AtomicU64,
}

/// Makes one of quinn's controllers, and looks over its shoulder.
struct Watch {
    inner: Arc<dyn ControllerFactory + Send + Sync>,
    told: Arc<Told>,
    seed: u64,
}

impl ControllerFactory for Watch {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        // BBR draws the start of its cycle from its thread's generator.
        let inner = with_entropy(self.seed, || self.inner.clone().build(now, current_mtu));
        Box::new(Watched { inner, told: self.told.clone() })
    }
}

/// One of quinn's controllers: every call goes through to it.
struct Watched {
    inner: Box<dyn Controller>,
    told: Arc<Told>,
}

impl Controller for Watched {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.told.acked.fetch_add(bytes, Relaxed);
        self.told.rtt_ns.store(now.saturating_duration_since(sent).as_nanos() as u64, Relaxed);
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }
    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.told.in_flight.store(in_flight, Relaxed);
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
    }
    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost: u64) {
        let in_flight = self.told.in_flight.load(Relaxed);
        self.told.in_flight.store(in_flight.saturating_sub(lost), Relaxed);
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
        Box::new(Watched { inner: self.inner.clone_box(), told: self.told.clone() })
    }
    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}

/// One end.
struct End {
    endpoint: quinn_proto::Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    peer: SocketAddr,
    told: Arc<Told>,
    /// What the endpoint sends itself: refusals and resets.
    responses: VecDeque<Vec<u8>>,
    stream: Option<StreamId>,
    is_readable: bool,
    progress: Progress,
    eliciting: u64,
    written: u64,
    scratch: Vec<u8>,
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("quinn").field("progress", &self.progress).finish_non_exhaustive()
    }
}

/// Frames that elicit an acknowledgement, and so are in flight.
fn eliciting(frames: &FrameStats) -> u64 {
    frames.crypto
        + u64::from(frames.handshake_done)
        + frames.data_blocked
        + frames.immediate_ack
        + frames.max_data
        + frames.max_stream_data
        + frames.max_streams_bidi
        + frames.max_streams_uni
        + frames.new_connection_id
        + frames.new_token
        + frames.ping
        + frames.reset_stream
        + frames.retire_connection_id
        + frames.stop_sending
        + frames.stream
        + frames.stream_data_blocked
}

impl End {
    fn new(
        endpoint: quinn_proto::Endpoint,
        connection: Option<(ConnectionHandle, Connection)>,
        peer: SocketAddr,
        told: Arc<Told>,
    ) -> Self {
        End {
            endpoint,
            connection,
            peer,
            told,
            responses: VecDeque::new(),
            stream: None,
            is_readable: false,
            progress: Progress::default(),
            eliciting: 0,
            written: 0,
            scratch: Vec::new(),
        }
    }

    /// Carry what connection and endpoint have for each other, and hear what happened.
    fn settle(&mut self) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(answer);
            }
        }
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected => {
                    self.progress.is_established = true;
                    if connection.side() == Side::Client {
                        self.stream = connection.streams().open(Dir::Bi);
                    }
                }
                Event::ConnectionLost { reason } => {
                    let is_wanted = matches!(
                        reason,
                        ConnectionError::LocallyClosed | ConnectionError::ApplicationClosed(_)
                    );
                    self.progress.has_failed = !is_wanted;
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    self.stream = connection.streams().accept(Dir::Bi);
                    self.is_readable = true;
                }
                Event::Stream(StreamEvent::Readable { .. }) => self.is_readable = true,
                Event::Stream(StreamEvent::Finished { .. }) => self.progress.is_acknowledged = true,
                _ => {}
            }
        }
        self.progress.is_closed = connection.is_drained();
    }
}

impl Endpoint for End {
    fn on_datagram(&mut self, now: Time, datagram: &[u8], ecn: Ecn) {
        let ecn = match ecn {
            Ecn::NotEct => None,
            Ecn::Ect1 => Some(EcnCodepoint::Ect1),
            Ecn::Ect0 => Some(EcnCodepoint::Ect0),
            Ecn::Ce => Some(EcnCodepoint::Ce),
        };
        let at = instant(now);
        self.scratch.clear();
        let event =
            self.endpoint.handle(at, self.peer, None, ecn, BytesMut::from(datagram), &mut self.scratch);
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.scratch.clear();
                match self.endpoint.accept(incoming, at, &mut self.scratch, None) {
                    Ok(connection) => self.connection = Some(connection),
                    Err(error) => {
                        if let Some(transmit) = error.response {
                            self.responses.push_back(self.scratch[..transmit.size].to_vec());
                        }
                    }
                }
            }
            Some(DatagramEvent::Response(transmit)) => {
                self.responses.push_back(self.scratch[..transmit.size].to_vec());
            }
            None => {}
        }
        self.settle();
    }

    fn poll_transmit(&mut self, now: Time, datagram: &mut Vec<u8>) -> Option<Ecn> {
        if let Some(response) = self.responses.pop_front() {
            datagram.extend_from_slice(&response);
            return Some(Ecn::NotEct);
        }
        let (_, connection) = self.connection.as_mut()?;
        let transmit = connection.poll_transmit(instant(now), 1, datagram);
        let Some(transmit) = transmit else {
            self.settle();
            return None;
        };
        let elicited = eliciting(&connection.stats().frame_tx);
        if elicited != self.eliciting {
            self.eliciting = elicited;
            self.told.in_flight.fetch_add(transmit.size as u64, Relaxed);
        }
        Some(match transmit.ecn {
            None => Ecn::NotEct,
            Some(EcnCodepoint::Ect0) => Ecn::Ect0,
            Some(EcnCodepoint::Ect1) => Ecn::Ect1,
            Some(EcnCodepoint::Ce) => Ecn::Ce,
        })
    }

    fn next_timeout(&mut self) -> Time {
        time(self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout()))
    }

    fn on_timeout(&mut self, now: Time) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(instant(now));
        }
        self.settle();
    }

    fn write(&mut self, most: u64) -> u64 {
        let (Some((_, connection)), Some(stream)) = (&mut self.connection, self.stream) else { return 0 };
        let chunk =
            Bytes::from_static(&ZEROS[..usize::try_from(most).unwrap_or(usize::MAX).min(ZEROS.len())]);
        let taken = connection.send_stream(stream).write_chunks(&mut [chunk]).map_or(0, |it| it.bytes as u64);
        self.written += taken;
        taken
    }

    fn finish(&mut self) {
        if let (Some((_, connection)), Some(stream)) = (&mut self.connection, self.stream) {
            // What ended by itself needs no end.
            let _ = connection.send_stream(stream).finish();
        }
    }

    fn read(&mut self, _now: Time) -> u64 {
        let (Some((_, connection)), Some(stream)) = (&mut self.connection, self.stream) else { return 0 };
        if !std::mem::take(&mut self.is_readable) || self.progress.peer_finished {
            return 0;
        }
        let mut bytes = 0;
        let mut receiving = connection.recv_stream(stream);
        let Ok(mut chunks) = receiving.read(true) else { return 0 };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => bytes += chunk.bytes.len() as u64,
                Ok(None) => {
                    self.progress.peer_finished = true;
                    break;
                }
                Err(_) => break,
            }
        }
        let _ = chunks.finalize();
        bytes
    }

    fn close(&mut self, now: Time) {
        if let Some((_, connection)) = &mut self.connection {
            connection.close(instant(now), VarInt::from_u32(0), Bytes::new());
        }
        self.settle();
    }

    fn progress(&mut self) -> Progress {
        self.progress
    }

    fn flight(&mut self) -> Flight {
        let cwnd = self.connection.as_ref().map_or(0, |(_, it)| it.congestion_state().window());
        Flight { cwnd, in_flight: self.told.in_flight.load(Relaxed) }
    }

    fn state(&mut self) -> State {
        let Some((_, connection)) = &self.connection else { return State::default() };
        let path = connection.stats().path;
        let metrics = connection.congestion_state().metrics();
        let has_sample = self.told.acked.load(Relaxed) > 0;
        State {
            cwnd: path.cwnd,
            ssthresh: metrics.ssthresh.unwrap_or(u64::MAX),
            in_flight: self.told.in_flight.load(Relaxed),
            srtt: span(if has_sample { path.rtt } else { Default::default() }),
            rtt: span(std::time::Duration::from_nanos(self.told.rtt_ns.load(Relaxed))),
            rtt_min: span(if has_sample { path.min_rtt } else { Default::default() }),
            pacing_rate: metrics.pacing_rate.map(Rate::from_bps),
            packets_sent: path.sent_packets,
            packets_lost: path.lost_packets,
            congestion_events: path.congestion_events,
            // It does not say how much of its stream: so many bytes of packets, and no more than were written.
            bytes_acked: self.told.acked.load(Relaxed).min(self.written),
        }
    }
}

/// Connection IDs of eight bytes, as quinn's, from a stream of random bits.
struct Cids(Stream);

impl ConnectionIdGenerator for Cids {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.0.bits().to_le_bytes())
    }
    fn cid_len(&self) -> usize {
        8
    }
    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

/// Always the same time: what stands in a token.
struct Epoch;

impl TimeSource for Epoch {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

/// Client and server without cryptography.
struct Null;

struct NullSession {
    side: Side,
    handshake: Handshake,
    keys_given: usize,
}

struct NullKey;
struct NullHmac;
struct NullToken;
struct NullAead;

fn pair<T: ?Sized>(make: impl Fn() -> Box<T>) -> KeyPair<Box<T>> {
    KeyPair { local: make(), remote: make() }
}

fn keys() -> Keys {
    Keys {
        header: pair::<dyn HeaderKey>(|| Box::new(NullKey)),
        packet: pair::<dyn PacketKey>(|| Box::new(NullKey)),
    }
}

fn session(side: Side, params: &TransportParameters) -> Box<dyn Session> {
    let mut written = Vec::new();
    params.write(&mut written);
    let handshake = Handshake::new(side == Side::Client, written);
    Box::new(NullSession { side, handshake, keys_given: 0 })
}

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

impl HeaderKey for NullKey {
    fn decrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}
    fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}
    fn sample_size(&self) -> usize {
        16
    }
}

impl HmacKey for NullHmac {
    /// Other than the tag at the end of every packet: a token for a stateless reset must not look like it.
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        let sum = data.iter().fold(7_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte));
        signature_out.fill(0xc3);
        signature_out[0] = sum;
    }
    fn signature_len(&self) -> usize {
        32
    }
    fn verify(&self, _data: &[u8], _signature: &[u8]) -> Result<(), CryptoError> {
        Ok(())
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
