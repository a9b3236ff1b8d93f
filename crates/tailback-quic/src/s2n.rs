//! s2n-quic (<https://github.com/aws/s2n-quic>): `s2n-quic-transport`, its endpoints without sockets, tasks or a clock.
//!
//! An endpoint takes datagrams from a queue and puts them into one, is told the time with each call, and says when it wants
//! the next; so no runtime is needed. What is not as an application would have it: null keys, connection IDs and all
//! other randomness from the scenario's seed, and one datagram a call. Its times are whole microseconds, and a timer may be served
//! a millisecond early: both are s2n-quic's own.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use s2n_codec::{Encoder, EncoderValue};
use s2n_quic_core::application::{self, ServerName};
use s2n_quic_core::crypto::tls::{self, CipherSuite, HandshakeType, HelloOffsets, NamedGroup};
use s2n_quic_core::crypto::{self, HeaderProtectionMask, packet_protection, retry::IntegrityTag};
use s2n_quic_core::endpoint::{self, Endpoint as _};
use s2n_quic_core::event::{self, api};
use s2n_quic_core::inet::datagram::Header;
use s2n_quic_core::inet::{ExplicitCongestionNotification, SocketAddress, SocketAddressV4};
use s2n_quic_core::io::{rx, tx};
use s2n_quic_core::path::{RemoteAddress, migration, mtu};
use s2n_quic_core::random::Generator;
use s2n_quic_core::recovery::bandwidth::PacketInfo;
use s2n_quic_core::recovery::bbr::BbrCongestionController;
use s2n_quic_core::recovery::congestion_controller::{self, Publisher};
use s2n_quic_core::recovery::{CongestionController, CubicCongestionController, RttEstimator};
use s2n_quic_core::stateless_reset::token::Token;
use s2n_quic_core::stream::StreamType;
use s2n_quic_core::time::{Clock, NoopClock, Timestamp};
use s2n_quic_core::{connection, datagram, dc, packet, stateless_reset, token, transport};
use s2n_quic_transport::connection::{Connection, Implementation};
use s2n_quic_transport::endpoint::{Config, Context as Parts, connect, handle};
use s2n_quic_transport::stream::{DefaultStreamManager, Stream as Bidirectional};
use tailback_core::foreign::{Endpoint, Flight, Progress, Setup, Stack, State, UDP_HEADERS};
use tailback_core::packet::Ecn;
use tailback_core::rng::Stream;
use tailback_core::time::{Duration, Rate, Time};

use crate::controllers::{Random, stamp};
use crate::null::{self, Handshake, TAG};

/// The stack.
#[derive(Debug)]
pub struct S2n;

/// As `Cargo.toml` has it; a test compares with `Cargo.lock`.
pub const VERSION: &str = "0.91.0";

/// What an application writes; its bytes mean nothing.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

fn address(last: u8, port: u16) -> SocketAddressV4 {
    SocketAddressV4::new([10, 0, 0, last], port)
}

impl Stack for S2n {
    fn version(&self) -> &str {
        VERSION
    }
    fn algorithms(&self) -> &[&'static str] {
        &["cubic", "bbr2"]
    }
    fn least_mtu(&self) -> u32 {
        // RFC 9000 section 14.
        1_200 + UDP_HEADERS
    }
    fn connect(&self, setup: &Setup<'_>) -> [Box<dyn Endpoint>; 2] {
        let mut seeds = Stream::named(setup.seed, "s2n-quic");
        let (home, peer) = (address(1, 50_000), address(2, 443));
        let [here, there]: [Arc<Told>; 2] = Default::default();
        let (client, opener) = Transport::<true>::new_client(Side::new(setup, seeds.bits(), here.clone()));
        let (server, acceptor) =
            Transport::<false>::new_server(Side::new(setup, seeds.bits(), there.clone()));
        let attempt = opener.connect(connect::Connect::new(peer).with_server_name("server"));
        let mut client = End::new(client, Awaited::Opened(attempt, opener), peer, here, setup);
        // The first hands the attempt over, and the endpoint takes it up.
        client.settle(setup.now);
        [Box::new(client), Box::new(End::new(server, Awaited::Accepted(acceptor), home, there, setup))]
    }
}

type Transport<const IS_CLIENT: bool> = s2n_quic_transport::endpoint::Endpoint<Side<IS_CLIENT>>;

/// What an endpoint is made of: as an application that asks for nothing has it, but for what the scenario sets.
struct Side<const IS_CLIENT: bool> {
    controllers: Controllers,
    ids: Ids,
    resets: Resets,
    random: Random,
    tls: Null,
    anybody: Anybody,
    tokens: NoTokens,
    limits: connection::limits::Limits,
    mtu: mtu::Manager<mtu::Inherit>,
    closing: connection::close::Production,
    events: Events,
    migration: migration::disabled::Validator,
    interceptor: packet::interceptor::Disabled,
    datagram: datagram::Disabled,
    dc: dc::Disabled,
}

impl<const IS_CLIENT: bool> fmt::Debug for Side<IS_CLIENT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if IS_CLIENT { "client" } else { "server" })
    }
}

impl<const IS_CLIENT: bool> Side<IS_CLIENT> {
    fn new(setup: &Setup<'_>, seed: u64, told: Arc<Told>) -> Self {
        let mut limits = connection::limits::Limits::default();
        // Both are numbers of 32 bits to it.
        let at_most = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        if let Some(bytes) = setup.send_buffer {
            limits = limits.with_max_send_buffer_size(at_most(bytes)).expect("any number of 32 bits");
        }
        if let Some(bytes) = setup.receive_buffer {
            let window = u64::from(at_most(bytes));
            limits = limits.with_data_window(window).expect("32 bits");
            limits = limits.with_bidirectional_local_data_window(window).expect("32 bits");
            limits = limits.with_bidirectional_remote_data_window(window).expect("32 bits");
        }
        Side {
            controllers: Controllers { is_bbr: is_bbr(setup.cc), told: told.clone() },
            ids: Ids(Stream::named(seed, "cid")),
            resets: Resets(Stream::named(seed, "reset")),
            random: Random(Stream::named(seed, "random")),
            tls: Null,
            anybody: Anybody,
            tokens: NoTokens,
            limits,
            mtu: mtu::Manager::new(mtu::Inherit::default()),
            closing: connection::close::Production,
            events: Events(told),
            migration: migration::disabled::Validator,
            interceptor: Default::default(),
            datagram: Default::default(),
            dc: Default::default(),
        }
    }
}

fn is_bbr(cc: &str) -> bool {
    match cc {
        "cubic" => false,
        "bbr2" => true,
        other => panic!("{other} was to be refused before time zero"),
    }
}

impl<const IS_CLIENT: bool> Config for Side<IS_CLIENT> {
    type TLSEndpoint = Null;
    type CongestionControllerEndpoint = Controllers;
    type Connection = Implementation<Self>;
    type ConnectionLock = std::sync::Mutex<Self::Connection>;
    type ConnectionIdFormat = Ids;
    type StatelessResetTokenGenerator = Resets;
    type RandomGenerator = Random;
    type TokenFormat = NoTokens;
    type EndpointLimits = Anybody;
    type ConnectionLimits = connection::limits::Limits;
    type Mtu = mtu::Inherit;
    type StreamManager = DefaultStreamManager;
    type ConnectionCloseFormatter = connection::close::Production;
    type EventSubscriber = Events;
    type PathHandle = RemoteAddress;
    type PathMigrationValidator = migration::disabled::Validator;
    type PacketInterceptor = packet::interceptor::Disabled;
    type DatagramEndpoint = datagram::Disabled;
    type DcEndpoint = dc::Disabled;

    const ENDPOINT_TYPE: endpoint::Type =
        if IS_CLIENT { endpoint::Type::Client } else { endpoint::Type::Server };

    fn context(&mut self) -> Parts<'_, Self> {
        Parts {
            congestion_controller: &mut self.controllers,
            connection_id_format: &mut self.ids,
            stateless_reset_token_generator: &mut self.resets,
            random_generator: &mut self.random,
            tls: &mut self.tls,
            endpoint_limits: &mut self.anybody,
            token: &mut self.tokens,
            connection_limits: &mut self.limits,
            mtu: &mut self.mtu,
            connection_close_formatter: &mut self.closing,
            event_subscriber: &mut self.events,
            path_migration: &mut self.migration,
            packet_interceptor: &mut self.interceptor,
            datagram: &mut self.datagram,
            dc: &mut self.dc,
        }
    }
}

/// What a connection told through its events and its controller.
#[derive(Debug, Default)]
struct Told {
    cwnd: AtomicU64,
    in_flight: AtomicU64,
    acked: AtomicU64,
    srtt_ns: AtomicU64,
    rtt_ns: AtomicU64,
    rtt_min_ns: AtomicU64,
    /// Zero: it has not said.
    pacing_bps: AtomicU64,
    sent: AtomicU64,
    lost: AtomicU64,
    congestion_events: AtomicU64,
    is_closed: AtomicBool,
    has_failed: AtomicBool,
}

/// Hears the connection's events.
#[derive(Debug)]
struct Events(Arc<Told>);

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
    }
}

/// Makes one of s2n-quic's controllers, and looks over its shoulder.
#[derive(Debug)]
struct Controllers {
    is_bbr: bool,
    told: Arc<Told>,
}

impl congestion_controller::Endpoint for Controllers {
    type CongestionController = Watched;
    fn new_congestion_controller(&mut self, path: congestion_controller::PathInfo) -> Watched {
        let size = path.max_datagram_size;
        let inner = match self.is_bbr {
            true => Inner::Bbr(Box::new(BbrCongestionController::new(size, Default::default()))),
            false => Inner::Cubic(CubicCongestionController::new(size, Default::default())),
        };
        let made = Watched { inner, told: self.told.clone() };
        made.tell();
        made
    }
}

/// One of s2n-quic's controllers: every call goes through to it.
#[derive(Clone, Debug)]
struct Watched {
    inner: Inner,
    told: Arc<Told>,
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
    fn tell(&self) {
        self.told.cwnd.store(self.congestion_window().into(), Relaxed);
        self.told.in_flight.store(self.bytes_in_flight().into(), Relaxed);
    }
}

impl CongestionController for Watched {
    /// CUBIC's is nothing.
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
        self.tell();
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
        self.told.srtt_ns.store(ns(rtt.smoothed_rtt()), Relaxed);
        self.told.rtt_ns.store(ns(rtt.latest_rtt()), Relaxed);
        self.told.rtt_min_ns.store(ns(rtt.min_rtt()), Relaxed);
        either!(&mut self.inner, it => it.on_rtt_update(sent, now, rtt, publisher));
        self.tell();
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
        self.told.acked.fetch_add(bytes as u64, Relaxed);
        match &mut self.inner {
            Inner::Cubic(it) => it.on_ack(newest_sent, bytes, (), rtt, random, now, publisher),
            Inner::Bbr(it) => it.on_ack(newest_sent, bytes, known(newest), rtt, random, now, publisher),
        }
        self.tell();
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
        self.tell();
    }
    fn on_explicit_congestion<P: Publisher>(&mut self, count: u64, now: Timestamp, publisher: &mut P) {
        either!(&mut self.inner, it => it.on_explicit_congestion(count, now, publisher));
        self.tell();
    }
    fn on_mtu_update<P: Publisher>(&mut self, size: u16, publisher: &mut P) {
        either!(&mut self.inner, it => it.on_mtu_update(size, publisher));
        self.tell();
    }
    fn on_packet_discarded<P: Publisher>(&mut self, bytes: usize, publisher: &mut P) {
        either!(&mut self.inner, it => it.on_packet_discarded(bytes, publisher));
        self.tell();
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

/// What an end waits for before it has a connection.
enum Awaited {
    /// The connector is kept, for without it the endpoint closes.
    Opened(connect::Attempt, #[allow(dead_code, reason = "kept")] handle::Connector),
    Accepted(handle::Acceptor),
}

/// One end.
struct End<const IS_CLIENT: bool> {
    endpoint: Transport<IS_CLIENT>,
    awaited: Awaited,
    connection: Option<Connection>,
    stream: Option<Bidirectional>,
    peer: RemoteAddress,
    told: Arc<Told>,
    progress: Progress,
    is_finishing: bool,
    written: u64,
    /// Of a datagram.
    most: usize,
    scratch: Vec<u8>,
}

impl<const IS_CLIENT: bool> fmt::Debug for End<IS_CLIENT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("s2n-quic").field("progress", &self.progress).finish_non_exhaustive()
    }
}

impl<const IS_CLIENT: bool> End<IS_CLIENT> {
    fn new(
        mut endpoint: Transport<IS_CLIENT>,
        awaited: Awaited,
        peer: SocketAddressV4,
        told: Arc<Told>,
        setup: &Setup<'_>,
    ) -> Self {
        // Its search for the path's MTU ends at Ethernet's 1500 bytes unless the path's packets are smaller.
        let most = setup.mtu.min(1_500) as u16;
        let config = mtu::Config::builder().with_max_mtu(most).and_then(mtu::Builder::build);
        endpoint.set_mtu_config(config.expect("no smaller than the least"));
        End {
            endpoint,
            awaited,
            connection: None,
            stream: None,
            peer: RemoteAddress::from(SocketAddress::from(peer)),
            told,
            progress: Progress::default(),
            is_finishing: false,
            written: 0,
            most: usize::from(most) - UDP_HEADERS as usize,
            scratch: Vec::new(),
        }
    }

    /// Carry what application and endpoint have for each other, and hear what happened.
    fn settle(&mut self, now: Time) {
        // Nobody sleeps here: whatever could have changed is asked.
        let cx = &mut Context::from_waker(Waker::noop());
        if self.connection.is_none() && !self.progress.has_failed {
            match &mut self.awaited {
                Awaited::Opened(attempt, _) => match Pin::new(attempt).poll(cx) {
                    Poll::Ready(Ok(connection)) => self.connection = Some(connection),
                    Poll::Ready(Err(_)) => self.progress.has_failed = true,
                    Poll::Pending => {}
                },
                Awaited::Accepted(acceptor) => {
                    if let Poll::Ready(connection) = acceptor.poll_accept(cx) {
                        self.connection = connection;
                    }
                }
            }
        }
        if let (Some(connection), None) = (&mut self.connection, &self.stream) {
            self.stream = match IS_CLIENT {
                true => match connection.poll_open_stream(StreamType::Bidirectional, cx) {
                    Poll::Ready(Ok(stream)) => Some(stream),
                    _ => None,
                },
                false => match connection.poll_accept(Some(StreamType::Bidirectional), cx) {
                    Poll::Ready(Ok(stream)) => stream,
                    _ => None,
                },
            };
            self.progress.is_established |= !IS_CLIENT || self.stream.is_some();
        }
        if self.is_finishing && !self.progress.is_acknowledged {
            let closed = self.stream.as_mut().map(|stream| stream.poll_close(cx));
            self.progress.is_acknowledged = matches!(closed, Some(Poll::Ready(Ok(()))));
        }
        let _ = self.endpoint.poll_wakeups(cx, &stamp(now));
        self.progress.is_closed = self.told.is_closed.load(Relaxed);
        self.progress.has_failed |= self.told.has_failed.load(Relaxed);
    }
}

impl<const IS_CLIENT: bool> Endpoint for End<IS_CLIENT> {
    fn on_datagram(&mut self, now: Time, datagram: &[u8], ecn: Ecn) {
        let ecn = match ecn {
            Ecn::NotEct => ExplicitCongestionNotification::NotEct,
            Ecn::Ect1 => ExplicitCongestionNotification::Ect1,
            Ecn::Ect0 => ExplicitCongestionNotification::Ect0,
            Ecn::Ce => ExplicitCongestionNotification::Ce,
        };
        self.scratch.clear();
        self.scratch.extend_from_slice(datagram);
        let mut inbox = Inbox { datagram: &mut self.scratch, header: Some(Header { path: self.peer, ecn }) };
        self.endpoint.receive(&mut inbox, &stamp(now));
        self.settle(now);
    }

    fn poll_transmit(&mut self, now: Time, datagram: &mut Vec<u8>) -> Option<Ecn> {
        self.settle(now);
        let mut outbox = Outbox { datagram, most: self.most, ecn: None };
        self.endpoint.transmit(&mut outbox, &stamp(now));
        let ecn = outbox.ecn;
        self.progress.is_closed = self.told.is_closed.load(Relaxed);
        ecn.map(|ecn| match ecn {
            ExplicitCongestionNotification::NotEct => Ecn::NotEct,
            ExplicitCongestionNotification::Ect1 => Ecn::Ect1,
            ExplicitCongestionNotification::Ect0 => Ecn::Ect0,
            ExplicitCongestionNotification::Ce => Ecn::Ce,
        })
    }

    fn next_timeout(&mut self) -> Time {
        let since = |at: Timestamp| at.saturating_duration_since(NoopClock.get_time()).as_micros() as u64;
        self.endpoint.timeout().map_or(Time::NEVER, |at| Time::from_us(since(at)))
    }

    /// Its endpoint serves its timers when it is asked for datagrams.
    fn on_timeout(&mut self, _now: Time) {}

    fn write(&mut self, most: u64) -> u64 {
        let Some(stream) = &mut self.stream else { return 0 };
        let cx = &mut Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(room)) = stream.poll_send_ready(cx) else { return 0 };
        let bytes = usize::try_from(most).unwrap_or(usize::MAX).min(room).min(ZEROS.len());
        match stream.send_data(Bytes::from_static(&ZEROS[..bytes])) {
            Ok(()) => {
                self.written += bytes as u64;
                bytes as u64
            }
            Err(_) => 0,
        }
    }

    fn finish(&mut self) {
        if let Some(stream) = &mut self.stream {
            // What ended by itself needs no end.
            let _ = stream.finish();
            self.is_finishing = true;
        }
    }

    fn read(&mut self, _now: Time) -> u64 {
        let Some(stream) = self.stream.as_mut().filter(|_| !self.progress.peer_finished) else { return 0 };
        let cx = &mut Context::from_waker(Waker::noop());
        let mut bytes = 0;
        loop {
            match stream.poll_receive(cx) {
                Poll::Ready(Ok(Some(chunk))) => bytes += chunk.len() as u64,
                Poll::Ready(Ok(None)) => {
                    self.progress.peer_finished = true;
                    return bytes;
                }
                Poll::Ready(Err(_)) | Poll::Pending => return bytes,
            }
        }
    }

    fn close(&mut self, now: Time) {
        if let Some(connection) = &self.connection {
            connection.close(application::Error::new(0).expect("a small number"));
        }
        self.settle(now);
    }

    fn progress(&mut self) -> Progress {
        self.progress
    }

    fn flight(&mut self) -> Flight {
        Flight { cwnd: self.told.cwnd.load(Relaxed), in_flight: self.told.in_flight.load(Relaxed) }
    }

    fn state(&mut self) -> State {
        let of = |number: &AtomicU64| number.load(Relaxed);
        let span = |ns: &AtomicU64| Duration::from_ps(of(ns) * 1_000);
        let told = &self.told;
        State {
            cwnd: of(&told.cwnd),
            // It does not say.
            ssthresh: u64::MAX,
            in_flight: of(&told.in_flight),
            srtt: span(&told.srtt_ns),
            rtt: span(&told.rtt_ns),
            rtt_min: span(&told.rtt_min_ns),
            pacing_rate: Some(of(&told.pacing_bps)).filter(|bps| *bps > 0).map(Rate::from_bps),
            packets_sent: of(&told.sent),
            packets_lost: of(&told.lost),
            congestion_events: of(&told.congestion_events),
            // It does not say how much of its stream: so many bytes of packets, and no more than were written.
            bytes_acked: of(&told.acked).min(self.written),
        }
    }
}

/// One datagram that arrived.
struct Inbox<'a> {
    datagram: &'a mut Vec<u8>,
    header: Option<Header<RemoteAddress>>,
}

impl rx::Queue for Inbox<'_> {
    type Handle = RemoteAddress;
    fn for_each<F: FnMut(Header<RemoteAddress>, &mut [u8])>(&mut self, mut on_packet: F) {
        if let Some(header) = self.header.take() {
            on_packet(header, self.datagram);
        }
    }
    fn is_empty(&self) -> bool {
        self.header.is_none()
    }
}

/// Room for one datagram that leaves.
struct Outbox<'a> {
    datagram: &'a mut Vec<u8>,
    most: usize,
    /// Once there is one.
    ecn: Option<ExplicitCongestionNotification>,
}

impl tx::Queue for Outbox<'_> {
    type Handle = RemoteAddress;
    const SUPPORTS_ECN: bool = true;
    fn push<M: tx::Message<Handle = RemoteAddress>>(
        &mut self,
        mut message: M,
    ) -> Result<tx::Outcome, tx::Error> {
        if self.ecn.is_some() {
            return Err(tx::Error::AtCapacity);
        }
        let ecn = message.ecn();
        self.datagram.resize(self.most, 0);
        let written = message.write_payload(tx::PayloadBuffer::new(self.datagram), 0);
        self.datagram.truncate(*written.as_ref().unwrap_or(&0));
        let len = written?;
        self.ecn = Some(ecn);
        Ok(tx::Outcome { len, index: 0 })
    }
    fn capacity(&self) -> usize {
        usize::from(self.ecn.is_none())
    }
}

/// Connection IDs of sixteen bytes, as s2n-quic's, from a stream of random bits.
struct Ids(Stream);

impl Ids {
    const LEN: usize = 16;
}

impl connection::id::Validator for Ids {
    fn validate(&self, _info: &connection::id::ConnectionInfo, buffer: &[u8]) -> Option<usize> {
        (buffer.len() >= Self::LEN).then_some(Self::LEN)
    }
}

impl connection::id::Generator for Ids {
    fn generate(&mut self, _info: &connection::id::ConnectionInfo) -> connection::LocalId {
        let bits = sixteen(&mut self.0);
        connection::LocalId::try_from(&bits[..]).expect("sixteen bytes")
    }
}

fn sixteen(stream: &mut Stream) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.chunks_mut(8).for_each(|part| part.copy_from_slice(&stream.bits().to_le_bytes()));
    bytes
}

/// Tokens for stateless resets, which are not sent, as by default.
struct Resets(Stream);

impl stateless_reset::token::Generator for Resets {
    const ENABLED: bool = false;
    fn generate(&mut self, _id: &[u8]) -> Token {
        sixteen(&mut self.0).into()
    }
}

/// Nobody is asked to prove an address.
struct NoTokens;

impl token::Format for NoTokens {
    const TOKEN_LEN: usize = 0;
    fn generate_new_token(
        &mut self,
        _context: &mut token::Context<'_>,
        _id: &connection::LocalId,
        _buffer: &mut [u8],
    ) -> Option<()> {
        None
    }
    fn generate_retry_token(
        &mut self,
        _context: &mut token::Context<'_>,
        _id: &connection::InitialId,
        _buffer: &mut [u8],
    ) -> Option<()> {
        None
    }
    fn validate_token(
        &mut self,
        _context: &mut token::Context<'_>,
        _token: &[u8],
    ) -> Option<connection::InitialId> {
        None
    }
}

/// Who connects is let in.
struct Anybody;

impl endpoint::limits::Limiter for Anybody {
    fn on_connection_attempt(
        &mut self,
        _attempt: &endpoint::limits::ConnectionAttempt,
    ) -> endpoint::limits::Outcome {
        endpoint::limits::Outcome::allow()
    }
}

/// Client and server without cryptography.
struct Null;

impl tls::Endpoint for Null {
    type Session = NullSession;
    fn new_server_session<P: EncoderValue>(&mut self, params: &P, _info: tls::ConnectionInfo) -> NullSession {
        NullSession::new(params, false)
    }
    fn new_client_session<P: EncoderValue>(&mut self, params: &P, _name: ServerName) -> NullSession {
        NullSession::new(params, true)
    }
    fn max_tag_length(&self) -> usize {
        TAG.len()
    }
}

#[derive(Debug)]
struct NullSession {
    is_client: bool,
    handshake: Handshake,
    /// Also the packet number space that messages are sent in.
    keys_given: usize,
    has_named: bool,
    is_complete: bool,
}

impl NullSession {
    fn new<P: EncoderValue>(params: &P, is_client: bool) -> Self {
        NullSession {
            is_client,
            handshake: Handshake::new(is_client, params.encode_to_vec()),
            keys_given: 0,
            has_named: false,
            is_complete: false,
        }
    }

    /// The keys that follow the handshake so far.
    fn give<C: tls::Context<Self>>(&self, context: &mut C) -> Result<(), transport::Error> {
        if self.keys_given == 1 {
            return context.on_handshake_keys(NullKey, NullKey);
        }
        context.on_application_protocol(Bytes::from_static(b"null"))?;
        context.on_key_exchange_group(NamedGroup { group_name: "null", contains_kem: false })?;
        let params = self.handshake.peer_params.as_deref().unwrap_or_default();
        context.on_one_rtt_keys(NullKey, NullKey, tls::ApplicationParameters { transport_parameters: params })
    }
}

impl tls::Session for NullSession {
    fn poll<C: tls::Context<Self>>(&mut self, context: &mut C) -> Poll<Result<(), transport::Error>> {
        if !std::mem::replace(&mut self.has_named, true) && self.is_client {
            context.on_server_name("server".into())?;
        }
        loop {
            let arrived = [context.receive_initial(None), context.receive_handshake(None)];
            let has_news = arrived.iter().flatten().next().is_some();
            for bytes in arrived.into_iter().flatten() {
                self.handshake.read(&bytes);
            }
            // What arrived with the message before it.
            self.handshake.read(&[]);
            let mut out = Vec::new();
            let space = self.keys_given;
            let keys = self.handshake.write(&mut out, &mut self.keys_given);
            let is_idle = out.is_empty() && keys == null::Keys::None && !has_news;
            match space {
                _ if out.is_empty() => {}
                0 => context.send_initial(out.into()),
                _ => context.send_handshake(out.into()),
            }
            if keys == null::Keys::Next {
                self.give(context)?;
            }
            if is_idle {
                break;
            }
        }
        if self.keys_given == 2 && !self.handshake.is_under_way() && !self.is_complete {
            self.is_complete = true;
            context.on_handshake_complete()?;
        }
        if self.is_complete { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn parse_hello(
        _kind: HandshakeType,
        _chunk: &[u8],
        _received: u64,
        _most: u64,
    ) -> Result<Option<HelloOffsets>, transport::Error> {
        Ok(Some(HelloOffsets { payload_offset: 0, payload_len: 0 }))
    }
}

impl crypto::CryptoSuite for NullSession {
    type HandshakeKey = NullKey;
    type HandshakeHeaderKey = NullKey;
    type InitialKey = NullKey;
    type InitialHeaderKey = NullKey;
    type OneRttKey = NullKey;
    type OneRttHeaderKey = NullKey;
    type ZeroRttKey = NullKey;
    type ZeroRttHeaderKey = NullKey;
    type RetryKey = NullKey;
}

#[derive(Debug)]
struct NullKey;

impl crypto::Key for NullKey {
    fn decrypt(
        &self,
        _packet: u64,
        _header: &[u8],
        payload: &mut [u8],
    ) -> Result<(), packet_protection::Error> {
        match payload.len() >= TAG.len() {
            true => Ok(()),
            false => Err(packet_protection::Error::DECRYPT_ERROR),
        }
    }
    fn encrypt(
        &mut self,
        _packet: u64,
        _header: &[u8],
        payload: &mut s2n_codec::encoder::scatter::Buffer,
    ) -> Result<(), packet_protection::Error> {
        payload.flatten().write_slice(&TAG);
        Ok(())
    }
    fn tag_len(&self) -> usize {
        TAG.len()
    }
    fn aead_confidentiality_limit(&self) -> u64 {
        u64::MAX
    }
    fn aead_integrity_limit(&self) -> u64 {
        u64::MAX
    }
    fn cipher_suite(&self) -> CipherSuite {
        CipherSuite::Unknown
    }
}

impl crypto::HeaderKey for NullKey {
    fn opening_header_protection_mask(&self, _sample: &[u8]) -> HeaderProtectionMask {
        Default::default()
    }
    fn opening_sample_len(&self) -> usize {
        16
    }
    fn sealing_header_protection_mask(&self, _sample: &[u8]) -> HeaderProtectionMask {
        Default::default()
    }
    fn sealing_sample_len(&self) -> usize {
        16
    }
}

impl crypto::InitialKey for NullKey {
    type HeaderKey = NullKey;
    fn new_server(_id: &[u8]) -> (Self, Self) {
        (NullKey, NullKey)
    }
    fn new_client(_id: &[u8]) -> (Self, Self) {
        (NullKey, NullKey)
    }
}

impl crypto::OneRttKey for NullKey {
    fn derive_next_key(&self) -> Self {
        NullKey
    }
}

impl crypto::InitialHeaderKey for NullKey {}
impl crypto::HandshakeKey for NullKey {}
impl crypto::HandshakeHeaderKey for NullKey {}
impl crypto::OneRttHeaderKey for NullKey {}
impl crypto::ZeroRttKey for NullKey {}
impl crypto::ZeroRttHeaderKey for NullKey {}

impl crypto::RetryKey for NullKey {
    fn generate_tag(_payload: &[u8]) -> IntegrityTag {
        TAG
    }
    fn validate(_payload: &[u8], _tag: IntegrityTag) -> Result<(), packet_protection::Error> {
        Ok(())
    }
}
