//! Code shared by quinn and its fork noq. Both include this file and provide the types that differ through `super::`.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use tailback_core::foreign::{Endpoint, Flight, Progress, Setup, State, UDP_HEADERS};
use tailback_core::packet::Ecn;
use tailback_core::rng::Stream;
use tailback_core::time::Time;

use super::proto::congestion::{Controller, ControllerFactory};
use super::proto::crypto::{CryptoError, HeaderKey, HmacKey, KeyPair, Keys, PacketKey, Session};
use super::proto::transport_parameters::TransportParameters;
use super::proto::{
    self, ClientConfig, Connection, ConnectionError, ConnectionHandle, ConnectionId, ConnectionIdGenerator,
    DatagramEvent, Dir, EcnCodepoint, EndpointConfig, Event, FrameStats, MtuDiscoveryConfig, ServerConfig,
    Side, StreamEvent, StreamId, TimeSource, TransportConfig, VarInt,
};
use super::{NAME, Null, NullToken};
use crate::clock::{instant, time};
use crate::entropy::with_entropy;
use crate::null::Handshake;

const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 50_000);
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 443);

/// Application data; its contents do not matter.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Creates the two ends of a new connection.
pub fn connect(setup: &Setup<'_>) -> [Box<dyn Endpoint>; 2] {
    let mut seeds = Stream::named(setup.seed, NAME);
    let counters: [Arc<Counters>; 2] = Default::default();
    let mut transports = counters.clone().map(|counters| Arc::new(transport(setup, counters, seeds.bits())));
    let mut endpoint = |server: Option<Arc<ServerConfig>>| {
        let mut config = EndpointConfig::new(Arc::new(NullHmac));
        let cids = seeds.bits();
        let mut seed = [0; 32];
        seed.chunks_mut(8).for_each(|part| part.copy_from_slice(&seeds.bits().to_le_bytes()));
        config.rng_seed(Some(seed));
        super::endpoint(config, cids, server)
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
    let [counters_client, counters_server] = counters;
    [
        Box::new(End::new(client, Some(connection), SERVER, counters_client)),
        Box::new(End::new(server, None, CLIENT, counters_server)),
    ]
}

/// The stack's defaults, except for what the scenario sets.
fn transport(setup: &Setup<'_>, counters: Arc<Counters>, seed: u64) -> TransportConfig {
    let mut config = TransportConfig::default();
    let inner = super::controllers(setup.cc);
    config.congestion_controller_factory(Arc::new(Watch { inner, counters, seed }));
    let mut discovery = MtuDiscoveryConfig::default();
    // The default upper bound of its probes, 1452 bytes, is kept unless the path's packets are smaller.
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

/// What a connection reports to its controller.
#[derive(Debug, Default)]
pub struct Counters {
    pub acked: AtomicU64,
    /// Bytes in flight: the connection's value at an acknowledgement, minus later losses, plus later sends.
    pub in_flight: AtomicU64,
    pub rtt_ns: AtomicU64,
    /// Smallest RTT; zero before the first sample.
    #[allow(dead_code, reason = "noq's alone: quinn says it itself")]
    pub rtt_min_ns: AtomicU64,
}

/// Creates one of the stack's controllers and observes it.
struct Watch {
    inner: Arc<dyn ControllerFactory + Send + Sync>,
    counters: Arc<Counters>,
    seed: u64,
}

impl ControllerFactory for Watch {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        // BBR draws the start of its cycle from its thread's generator.
        let inner = with_entropy(self.seed, || self.inner.clone().build(now, current_mtu));
        Box::new(Watched { inner, counters: self.counters.clone() })
    }
}

/// One of the stack's controllers; forwards every call to it.
pub struct Watched {
    pub inner: Box<dyn Controller>,
    pub counters: Arc<Counters>,
}

/// One end of a connection.
struct End {
    endpoint: proto::Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    peer: SocketAddr,
    counters: Arc<Counters>,
    /// Datagrams that the endpoint itself sends: refusals and resets.
    responses: VecDeque<Vec<u8>>,
    stream: Option<StreamId>,
    is_readable: bool,
    progress: Progress,
    /// Why the connection failed.
    failure: Option<String>,
    eliciting: u64,
    written: u64,
    scratch: Vec<u8>,
    /// The last state read; a closed connection may no longer have a path to query.
    last: State,
}

/// Number of ack-eliciting frames, which count as in flight.
pub fn eliciting(frames: &FrameStats) -> u64 {
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
        endpoint: proto::Endpoint,
        connection: Option<(ConnectionHandle, Connection)>,
        peer: SocketAddr,
        counters: Arc<Counters>,
    ) -> Self {
        End {
            endpoint,
            connection,
            peer,
            counters,
            responses: VecDeque::new(),
            stream: None,
            is_readable: false,
            progress: Progress::default(),
            failure: None,
            eliciting: 0,
            written: 0,
            scratch: Vec::new(),
            last: State::default(),
        }
    }

    /// Exchanges events between connection and endpoint, and handles the connection's own.
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
                    self.failure = (!is_wanted).then(|| reason.to_string());
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
        let data = BytesMut::from(datagram);
        let event = super::arrived(&mut self.endpoint, at, self.peer, ecn, data, &mut self.scratch);
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
        let transmit = super::sent(connection, instant(now), datagram);
        let Some(transmit) = transmit else {
            self.settle();
            return None;
        };
        let elicited = super::elicited(connection).unwrap_or(self.eliciting);
        if elicited != self.eliciting {
            self.eliciting = elicited;
            self.counters.in_flight.fetch_add(transmit.size as u64, Relaxed);
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
        let taken = super::written(connection, stream, chunk);
        self.written += taken;
        taken
    }

    fn finish(&mut self) {
        if let (Some((_, connection)), Some(stream)) = (&mut self.connection, self.stream) {
            // A stream that has already ended needs no FIN.
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

    fn failure(&mut self) -> Option<String> {
        self.failure.clone()
    }

    fn flight(&mut self) -> Flight {
        let cwnd = self.connection.as_ref().map_or(0, |(_, it)| super::window(it));
        Flight { cwnd, in_flight: self.counters.in_flight.load(Relaxed) }
    }

    fn state(&mut self) -> State {
        if let Some((_, connection)) = &mut self.connection {
            self.last = super::state(connection, &self.counters).map_or(self.last, |state| State {
                // The stack does not report acknowledged stream bytes: use the bytes of acknowledged packets, at most
                // those written.
                bytes_acked: self.counters.acked.load(Relaxed).min(self.written),
                ..state
            });
        }
        self.last
    }
}

/// Connection IDs of eight bytes, the length that both stacks use, from a stream of random bits.
pub struct Cids(pub Stream);

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

/// A constant time, for the tokens.
struct Epoch;

impl TimeSource for Epoch {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

pub struct NullSession {
    pub side: Side,
    pub handshake: Handshake,
    pub keys_given: usize,
}

pub struct NullKey;
struct NullHmac;

pub fn pair<T: ?Sized>(make: impl Fn() -> Box<T>) -> KeyPair<Box<T>> {
    KeyPair { local: make(), remote: make() }
}

pub fn keys() -> Keys {
    Keys {
        header: pair::<dyn HeaderKey>(|| Box::new(NullKey)),
        packet: pair::<dyn PacketKey>(|| Box::new(NullKey)),
    }
}

pub fn session(side: Side, params: &TransportParameters) -> Box<dyn Session> {
    let mut written = Vec::new();
    params.write(&mut written);
    let handshake = Handshake::new(side == Side::Client, written);
    Box::new(NullSession { side, handshake, keys_given: 0 })
}

impl HeaderKey for NullKey {
    fn decrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}
    fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}
    fn sample_size(&self) -> usize {
        16
    }
}

impl HmacKey for NullHmac {
    /// Must differ from the tag at the end of every packet: no packet may look like a stateless reset.
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
