//! smoltcp's TCP under the suite `transport`.

use std::collections::VecDeque;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{CongestionControl as Cc, Socket, SocketBuffer, State::*};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use tailback_bench::{Ecn, Endpoint, Progress, Setup, Stack, Time, UDP_HEADERS, bench};

#[derive(Debug)]
struct Smoltcp;

impl Stack for Smoltcp {
    fn version(&self) -> &str {
        "0.14.0"
    }
    fn algorithms(&self) -> &[&'static str] {
        &["reno", "cubic"]
    }
    fn connect(&self, setup: &Setup<'_>) -> [Box<dyn Endpoint>; 2] {
        [1, 2].map(|host| -> Box<dyn Endpoint> { Box::new(End::new(host, setup)) })
    }
}

/// The network interface: IP packets that wait.
struct Wire {
    arrived: VecDeque<Vec<u8>>,
    to_send: VecDeque<Vec<u8>>,
    mtu: usize,
}

struct Arrived(Vec<u8>);
struct ToSend<'a>(&'a mut VecDeque<Vec<u8>>);

impl RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for ToSend<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        (f(&mut packet), self.0.push_back(packet)).0
    }
}

impl Device for Wire {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = ToSend<'a>;
    fn receive(&mut self, _at: Instant) -> Option<(Arrived, ToSend<'_>)> {
        self.arrived.pop_front().map(|packet| (Arrived(packet), ToSend(&mut self.to_send)))
    }
    fn transmit(&mut self, _at: Instant) -> Option<ToSend<'_>> {
        Some(ToSend(&mut self.to_send))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        let mut it = DeviceCapabilities::default();
        (it.medium, it.max_transmission_unit) = (Medium::Ip, self.mtu);
        it
    }
}

struct End {
    wire: Wire,
    iface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    now: Time,
    progress: Progress,
}

fn instant(at: Time) -> Instant {
    Instant::from_micros(at.as_us() as i64)
}

impl End {
    fn new(host: u8, setup: &Setup<'_>) -> Self {
        let (arrived, to_send) = Default::default();
        let mut wire = Wire { arrived, to_send, mtu: (setup.mtu - UDP_HEADERS) as usize };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = setup.seed + u64::from(host);
        let mut iface = Interface::new(config, &mut wire, instant(setup.now));
        iface.update_ip_addrs(|it| it.push(IpCidr::new(IpAddress::v4(10, 0, 0, host), 24)).expect("room"));
        let buffer = |bytes: Option<u64>| SocketBuffer::new(vec![0; bytes.unwrap_or(1 << 20) as usize]);
        let mut socket = Socket::new(buffer(setup.receive_buffer), buffer(setup.send_buffer));
        socket.set_congestion_control(if setup.cc == "reno" { Cc::Reno } else { Cc::Cubic });
        if host == 1 {
            socket.connect(iface.context(), (IpAddress::v4(10, 0, 0, 2), 443), 49_152).expect("a route");
        } else {
            socket.listen(443).expect("a port");
        }
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        End { wire, iface, sockets, handle, now: setup.now, progress: Progress::default() }
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    fn poll(&mut self, now: Time) {
        self.now = now;
        self.iface.poll(instant(now), &mut self.wire, &mut self.sockets);
        let (socket, it) = (self.sockets.get_mut::<Socket<'_>>(self.handle), &mut self.progress);
        let state = socket.state();
        it.is_established |= socket.may_send() || socket.may_recv();
        it.peer_finished |= it.is_established && !socket.may_recv() && !matches!(state, FinWait1 | FinWait2);
        it.is_acknowledged |= matches!(state, FinWait2 | TimeWait) || it.peer_finished && state == Closed;
        it.is_closed |= it.is_established && matches!(state, TimeWait | Closed);
    }
}

impl Endpoint for End {
    fn on_datagram(&mut self, now: Time, datagram: &[u8], _ecn: Ecn) {
        self.wire.arrived.push_back(datagram.to_vec());
        self.poll(now);
    }
    fn poll_transmit(&mut self, now: Time, datagram: &mut Vec<u8>) -> Option<Ecn> {
        if self.wire.to_send.is_empty() {
            self.poll(now);
        }
        datagram.extend(self.wire.to_send.pop_front()?);
        Some(Ecn::NotEct)
    }
    fn next_timeout(&mut self) -> Time {
        let at = self.iface.poll_at(instant(self.now), &self.sockets);
        at.map_or(Time::NEVER, |at| Time::from_us(at.total_micros().max(0) as u64))
    }
    fn on_timeout(&mut self, now: Time) {
        self.poll(now);
    }
    fn write(&mut self, most: u64) -> u64 {
        let bytes = most.min(1 << 16) as usize;
        self.socket().send_slice(&[0; 1 << 16][..bytes]).unwrap_or(0) as u64
    }
    fn finish(&mut self) {
        self.socket().close();
    }
    fn read(&mut self, now: Time) -> u64 {
        let mut bytes = 0;
        while let Ok(read @ 1..) = self.socket().recv(|it| (it.len(), it.len())) {
            bytes += read as u64;
        }
        if bytes > 0 {
            self.poll(now);
        }
        bytes
    }
    fn close(&mut self, now: Time) {
        self.socket().abort();
        self.poll(now);
    }
    fn progress(&mut self) -> Progress {
        self.progress
    }
}

fn main() -> std::process::ExitCode {
    bench!("smoltcp", Smoltcp)
        .known("transport/alone/cubic", "13 Mbit/s of 20 where its Reno has 19; the cause is not known")
        .known("transport/jitter/cubic", "37 Mbit/s of 100 without a loss; the cause is not known")
        .known("transport/jitter/reno", "37 Mbit/s of 100 without a loss; the cause is not known")
        .main()
}
