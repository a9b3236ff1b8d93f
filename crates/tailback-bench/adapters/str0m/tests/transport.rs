//! str0m's data channels under the suite `transport`: SCTP over DTLS over ICE.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use str0m::channel::{ChannelConfig, ChannelId, SctpInitData};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Event, Input, Output, Rtc};
use tailback_bench::clock::{instant, time};
use tailback_bench::{Ecn, Endpoint, Progress, Setup, Stack, Time, bench};

/// What an application writes per call.
static MESSAGE: [u8; 16_384] = [0; 16_384];
const ENDS: [([u8; 4], u16); 2] = [([10, 0, 0, 1], 50_000), ([10, 0, 0, 2], 443)];

/// SCTP's tags and initial sequence numbers, drawn from the thread's generator: once per process, not once per
/// connection.
static INITS: LazyLock<[SctpInitData; 2]> = LazyLock::new(|| {
    let mut inits = [SctpInitData::new(), SctpInitData::new()];
    for me in [0, 1] {
        let chunk = inits[me].local_init_chunk().expect("a chunk");
        inits[1 - me].set_remote_init_chunk(chunk);
    }
    inits
});

#[derive(Debug)]
struct Str0m;

impl Stack for Str0m {
    fn version(&self) -> &str {
        "0.24.1"
    }
    fn algorithms(&self) -> &[&'static str] {
        &["sctp"]
    }
    fn connect(&self, setup: &Setup<'_>) -> [Box<dyn Endpoint>; 2] {
        // Seeds ICE's random numbers.
        fastrand::seed(setup.seed);
        let mut ends = [0, 1].map(|me| End::new(me, setup));
        for me in [0, 1] {
            let peer = ends[1 - me].rtc.direct_api().local_ice_credentials();
            let mut api = ends[me].rtc.direct_api();
            api.set_remote_ice_credentials(peer);
            api.set_ice_controlling(me == 0);
            api.start_dtls(me == 0).expect("a start");
            api.start_sctp_with_snap(me == 0, INITS[me].clone()).expect("two chunks");
            let config = ChannelConfig { negotiated: Some(1), ..ChannelConfig::default() };
            ends[me].channel = Some(api.create_data_channel(config));
            ends[me].input(Input::Timeout(instant(setup.now)));
        }
        ends.map(|end| Box::new(end) as _)
    }
}

struct End {
    rtc: Rtc,
    channel: Option<ChannelId>,
    addresses: [SocketAddr; 2],
    timeout: Option<Instant>,
    to_send: VecDeque<Vec<u8>>,
    unread: u64,
    /// Whether all data is written; then, whether the end mark is written too.
    ends: bool,
    ended: bool,
    progress: Progress,
}

impl End {
    fn new(me: usize, setup: &Setup<'_>) -> Self {
        let mut config = Rtc::builder().set_crypto_provider(Arc::new(str0m_bench::null()));
        if let Some(bytes) = setup.send_buffer {
            config = config.set_sctp_max_buffered_amount(bytes as usize);
        }
        let mut rtc = config.set_fingerprint_verification(false).build(instant(setup.now));
        let addresses = [ENDS[me], ENDS[1 - me]].map(SocketAddr::from);
        let candidate = |at: SocketAddr| Candidate::host(at, "udp").expect("an address");
        rtc.add_local_candidate(candidate(addresses[0]));
        rtc.add_remote_candidate(candidate(addresses[1]));
        let (channel, timeout, to_send, unread, progress) = Default::default();
        End { rtc, channel, addresses, timeout, to_send, unread, ends: false, ended: false, progress }
    }

    fn input(&mut self, input: Input<'_>) {
        self.rtc.handle_input(input).expect("no error");
        self.poll();
    }

    fn poll(&mut self) {
        let it = &mut self.progress;
        loop {
            match self.rtc.poll_output().expect("no error") {
                Output::Transmit(transmit) => self.to_send.push_back(transmit.contents.to_vec()),
                Output::Event(Event::ChannelOpen(..)) => it.is_established = true,
                Output::Event(Event::ChannelData(data)) if data.binary => {
                    self.unread += data.data.len() as u64
                }
                // A data channel cannot close one direction: a text message stands for the end.
                Output::Event(Event::ChannelData(_)) => it.peer_finished = true,
                Output::Event(_) => {}
                Output::Timeout(at) => break self.timeout = Some(at),
            }
        }
        it.is_closed = !self.rtc.is_alive();
        if let Some(mut channel) = self.channel.and_then(|id| self.rtc.channel(id)) {
            it.is_acknowledged = self.ended && channel.buffered_amount() == 0;
            if self.ends && !self.ended && channel.write(false, b"end").is_ok_and(|taken| taken) {
                self.ended = true;
                self.poll();
            }
        }
    }
}

impl Endpoint for End {
    fn on_datagram(&mut self, now: Time, datagram: &[u8], _ecn: Ecn) {
        let [me, peer] = self.addresses;
        if let Ok(received) = Receive::new(Protocol::Udp, peer, me, datagram) {
            self.input(Input::Receive(instant(now), received));
        }
    }
    fn poll_transmit(&mut self, _now: Time, datagram: &mut Vec<u8>) -> Option<Ecn> {
        datagram.extend(self.to_send.pop_front()?);
        Some(Ecn::NotEct)
    }
    fn next_timeout(&mut self) -> Time {
        time(self.timeout)
    }
    fn on_timeout(&mut self, now: Time) {
        self.input(Input::Timeout(instant(now)));
    }
    fn write(&mut self, most: u64) -> u64 {
        let message = &MESSAGE[..most.min(MESSAGE.len() as u64) as usize];
        let Some(mut channel) = self.channel.and_then(|id| self.rtc.channel(id)) else { return 0 };
        let taken = channel.write(true, message).is_ok_and(|taken| taken);
        self.poll();
        if taken { message.len() as u64 } else { 0 }
    }
    fn finish(&mut self) {
        self.ends = true;
        self.poll();
    }
    fn read(&mut self, _now: Time) -> u64 {
        std::mem::take(&mut self.unread)
    }
    fn close(&mut self, _now: Time) {
        self.rtc.close().expect("no error");
        self.poll();
    }
    fn progress(&mut self) -> Progress {
        self.progress
    }
}

fn main() -> std::process::ExitCode {
    bench!("str0m", Str0m).main()
}
