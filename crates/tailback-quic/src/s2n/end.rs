//! One end of a connection: datagrams, timers and the bytes of its stream.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use s2n_quic_core::application;
use s2n_quic_core::endpoint::Endpoint as _;
use s2n_quic_core::inet::datagram::Header;
use s2n_quic_core::inet::{ExplicitCongestionNotification, SocketAddress, SocketAddressV4};
use s2n_quic_core::io::{rx, tx};
use s2n_quic_core::path::{RemoteAddress, mtu};
use s2n_quic_core::stream::StreamType;
use s2n_quic_core::time::{Clock, NoopClock, Timestamp};
use s2n_quic_transport::connection::Connection;
use s2n_quic_transport::endpoint::{connect, handle};
use s2n_quic_transport::stream::Stream as Bidirectional;
use tailback_core::foreign::{Endpoint, Flight, Progress, Setup, State, UDP_HEADERS};
use tailback_core::packet::Ecn;
use tailback_core::time::{Duration, Rate, Time};

use super::Transport;
use super::given::stamp;
use super::watched::Counters;

/// Application data; its contents do not matter.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// The futures that an end waits for until it has a connection.
pub enum Awaited {
    Opened(
        connect::Attempt,
        #[allow(dead_code, reason = "without a connector the endpoint closes")] handle::Connector,
    ),
    Accepted(handle::Acceptor),
}

/// One end of a connection.
pub struct End<const IS_CLIENT: bool> {
    endpoint: Transport<IS_CLIENT>,
    awaited: Awaited,
    connection: Option<Connection>,
    stream: Option<Bidirectional>,
    peer: RemoteAddress,
    counters: Arc<Counters>,
    progress: Progress,
    is_finishing: bool,
    written: u64,
    /// Largest datagram in bytes.
    most: usize,
    scratch: Vec<u8>,
}

impl<const IS_CLIENT: bool> fmt::Debug for End<IS_CLIENT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("s2n-quic").field("progress", &self.progress).finish_non_exhaustive()
    }
}

impl<const IS_CLIENT: bool> End<IS_CLIENT> {
    pub fn new(
        mut endpoint: Transport<IS_CLIENT>,
        awaited: Awaited,
        peer: SocketAddressV4,
        counters: Arc<Counters>,
        setup: &Setup<'_>,
    ) -> Self {
        // The default bound of its path MTU search, Ethernet's 1500 bytes, is kept unless the path's packets are
        // smaller.
        let most = setup.mtu.min(1_500) as u16;
        let config = mtu::Config::builder().with_max_mtu(most).and_then(mtu::Builder::build);
        endpoint.set_mtu_config(config.expect("no smaller than the least"));
        End {
            endpoint,
            awaited,
            connection: None,
            stream: None,
            peer: RemoteAddress::from(SocketAddress::from(peer)),
            counters,
            progress: Progress::default(),
            is_finishing: false,
            written: 0,
            most: usize::from(most) - UDP_HEADERS as usize,
            scratch: Vec::new(),
        }
    }

    /// Passes data between application and endpoint, and handles what happened.
    pub fn settle(&mut self, now: Time) {
        // No task is woken here, so poll everything that may have changed.
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
        self.progress.is_closed = self.counters.is_closed.load(Relaxed);
        self.progress.has_failed |= self.counters.has_failed.load(Relaxed);
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
        self.progress.is_closed = self.counters.is_closed.load(Relaxed);
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

    /// The endpoint handles its timers when it is asked for datagrams.
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
            // A stream that has already ended needs no FIN.
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

    fn failure(&mut self) -> Option<String> {
        self.counters.failure.get().cloned()
    }

    fn flight(&mut self) -> Flight {
        Flight { cwnd: self.counters.cwnd.load(Relaxed), in_flight: self.counters.in_flight.load(Relaxed) }
    }

    fn state(&mut self) -> State {
        let of = |number: &AtomicU64| number.load(Relaxed);
        let span = |ns: &AtomicU64| Duration::from_ps(of(ns) * 1_000);
        let counters = &self.counters;
        State {
            cwnd: of(&counters.cwnd),
            // The stack does not report it.
            ssthresh: u64::MAX,
            in_flight: of(&counters.in_flight),
            srtt: span(&counters.srtt_ns),
            rtt: span(&counters.rtt_ns),
            rtt_min: span(&counters.rtt_min_ns),
            pacing_rate: Some(of(&counters.pacing_bps)).filter(|bps| *bps > 0).map(Rate::from_bps),
            packets_sent: of(&counters.sent),
            packets_lost: of(&counters.lost),
            congestion_events: of(&counters.congestion_events),
            // The stack does not report acknowledged stream bytes: use the bytes of acknowledged packets, at most those
            // written.
            bytes_acked: of(&counters.acked).min(self.written),
        }
    }
}

/// A received datagram.
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

/// Buffer for one outgoing datagram.
struct Outbox<'a> {
    datagram: &'a mut Vec<u8>,
    most: usize,
    /// Set when a datagram is written.
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
