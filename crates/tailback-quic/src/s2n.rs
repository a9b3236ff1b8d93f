//! s2n-quic (<https://github.com/aws/s2n-quic>): `s2n-quic-transport`, its endpoints without sockets, tasks or a clock.
//!
//! An endpoint reads datagrams from one queue and writes them to another, takes the time with each call, and returns
//! when it must be called next, so no runtime is needed. Three things differ from an application's use: null keys,
//! connection IDs and all other randomness from the scenario's seed, and one datagram per call. Its times are whole
//! microseconds, and it may serve a timer a millisecond early: both are s2n-quic's own behaviour.

use std::fmt;
use std::sync::Arc;

use s2n_quic_core::inet::SocketAddressV4;
use s2n_quic_core::path::{RemoteAddress, migration, mtu};
use s2n_quic_core::{connection, datagram, dc, endpoint, packet};
use s2n_quic_transport::connection::Implementation;
use s2n_quic_transport::endpoint::{Config, Context as Parts, connect};
use s2n_quic_transport::stream::DefaultStreamManager;
use tailback_core::foreign::{Endpoint, Setup, Stack};
use tailback_core::rng::Stream;

use self::end::{Awaited, End};
use self::given::{Anybody, Ids, NoTokens, Random, Resets};
use self::null::Null;
use self::watched::{Controllers, Counters, Events};

mod end;
pub(crate) mod given;
mod null;
mod watched;

/// The stack.
#[derive(Debug)]
pub struct S2n;

/// The version in `Cargo.toml`; a test compares it with `Cargo.lock`.
pub const VERSION: &str = "0.91.0";

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
    fn connect(&self, setup: &Setup<'_>) -> [Box<dyn Endpoint>; 2] {
        let mut seeds = Stream::named(setup.seed, "s2n-quic");
        let (home, peer) = (address(1, 50_000), address(2, 443));
        let [here, there]: [Arc<Counters>; 2] = Default::default();
        let (client, opener) = Transport::<true>::new_client(Side::new(setup, seeds.bits(), here.clone()));
        let (server, acceptor) =
            Transport::<false>::new_server(Side::new(setup, seeds.bits(), there.clone()));
        let attempt = opener.connect(connect::Connect::new(peer).with_server_name("server"));
        let mut client = End::new(client, Awaited::Opened(attempt, opener), peer, here, setup);
        // The first poll hands over the connection attempt, and the endpoint starts it.
        client.settle(setup.now);
        [Box::new(client), Box::new(End::new(server, Awaited::Accepted(acceptor), home, there, setup))]
    }
}

type Transport<const IS_CLIENT: bool> = s2n_quic_transport::endpoint::Endpoint<Side<IS_CLIENT>>;

/// An endpoint's configuration: the stack's defaults, except for what the scenario sets.
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
    fn new(setup: &Setup<'_>, seed: u64, counters: Arc<Counters>) -> Self {
        let mut limits = connection::limits::Limits::default();
        // The stack stores both as 32-bit numbers.
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
            controllers: Controllers { is_bbr: is_bbr(setup.cc), counters: counters.clone() },
            ids: Ids(Stream::named(seed, "cid")),
            resets: Resets(Stream::named(seed, "reset")),
            random: Random(Stream::named(seed, "random")),
            tls: Null,
            anybody: Anybody,
            tokens: NoTokens,
            limits,
            mtu: mtu::Manager::new(mtu::Inherit::default()),
            closing: connection::close::Production,
            events: Events(counters),
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
