//! Requests over quiche with real TLS: `quiche serve ADDRESS PORT`, `quiche get ADDRESS:PORT COUNT`.

use std::collections::HashMap;
use std::error::Error;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Instant;

use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use quiche::{Config, Connection, ConnectionId, Header, RecvInfo};

const ANSWER: usize = 500_000;
const DATAGRAM: usize = 1350;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn settings() -> Outcome<Config> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[b"example"])?;
    config.set_max_idle_timeout(30_000);
    config.set_max_recv_udp_payload_size(DATAGRAM);
    config.set_max_send_udp_payload_size(DATAGRAM);
    config.set_initial_max_data(10_000_000);
    config.set_initial_max_stream_data_bidi_local(1_000_000);
    config.set_initial_max_stream_data_bidi_remote(1_000_000);
    config.set_initial_max_streams_bidi(100);
    Ok(config)
}

/// A socket and what it has received.
struct Wire {
    socket: UdpSocket,
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
}

impl Wire {
    fn new(at: SocketAddr) -> Outcome<Self> {
        let (mut socket, poll) = (UdpSocket::bind(at)?, Poll::new()?);
        poll.registry().register(&mut socket, Token(0), Interest::READABLE)?;
        Ok(Self { socket, poll, events: Events::with_capacity(16), buffer: vec![0; 65_535] })
    }

    /// Waits for datagrams or the connection's timer, and hands over each that has come.
    fn receive(
        &mut self,
        connection: &mut Option<Connection>,
        mut open: impl FnMut(&[u8], RecvInfo) -> Option<Connection>,
    ) -> Outcome<()> {
        self.poll.poll(&mut self.events, connection.as_ref().and_then(Connection::timeout))?;
        if let (true, Some(connection)) = (self.events.is_empty(), connection.as_mut()) {
            connection.on_timeout();
        }
        loop {
            match self.socket.recv_from(&mut self.buffer) {
                Ok((length, from)) => {
                    let about = RecvInfo { from, to: self.socket.local_addr()? };
                    if connection.is_none() {
                        *connection = open(&self.buffer[..length], about);
                    }
                    if let Some(connection) = connection {
                        connection.recv(&mut self.buffer[..length], about).ok();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn send(&mut self, connection: &mut Connection) -> Outcome<()> {
        let mut datagram = [0; DATAGRAM];
        loop {
            match connection.send(&mut datagram) {
                Ok((length, about)) => {
                    self.socket.send_to(&datagram[..length], about.to).ok();
                }
                Err(quiche::Error::Done) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Serves one connection after the other.
fn serve(at: SocketAddr) -> Outcome<()> {
    let mut config = settings()?;
    let own = rcgen::generate_simple_self_signed(["example".into()])?;
    let folder = std::env::temp_dir();
    let (certificate, key) = (folder.join("quiche.crt"), folder.join("quiche.key"));
    std::fs::write(&certificate, own.cert.pem())?;
    std::fs::write(&key, own.signing_key.serialize_pem())?;
    config.load_cert_chain_from_pem_file(certificate.to_str().ok_or("no UTF-8")?)?;
    config.load_priv_key_from_pem_file(key.to_str().ok_or("no UTF-8")?)?;
    let mut wire = Wire::new(at)?;
    let body = vec![0; ANSWER];
    let (mut connection, mut left) = (None, HashMap::new());
    loop {
        wire.receive(&mut connection, |datagram, about| {
            let mut datagram = datagram.to_vec();
            let header = Header::from_slice(&mut datagram, quiche::MAX_CONN_ID_LEN).ok()?;
            (header.ty == quiche::Type::Initial).then_some(())?;
            quiche::accept(&header.dcid, None, about.to, about.from, &mut config).ok()
        })?;
        let Some(open) = connection.as_mut() else { continue };
        for stream in open.readable() {
            let mut request = [0; 1000];
            while let Ok((_, ends)) = open.stream_recv(stream, &mut request) {
                if ends {
                    left.insert(stream, ANSWER);
                }
            }
        }
        for (&stream, left) in &mut left {
            *left -= open.stream_send(stream, &body[ANSWER - *left..], true).unwrap_or(0);
        }
        left.retain(|_, left| *left > 0);
        wire.send(open)?;
        if open.is_closed() {
            connection = None;
        }
    }
}

/// Makes `count` requests, one after the other.
fn get(server: SocketAddr, count: u64) -> Outcome<()> {
    let mut config = settings()?;
    config.verify_peer(false);
    let mut wire = Wire::new("0.0.0.0:0".parse()?)?;
    // Twice the system's randomness: std has no other interface to it.
    let random = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0).to_le_bytes();
    let name = [random(), random()].concat();
    let began = Instant::now();
    let at = wire.socket.local_addr()?;
    let mut connection = Some(quiche::connect(None, &ConnectionId::from_ref(&name), at, server, &mut config)?);
    let (mut asked, mut done, mut got, mut answer) = (0, 0, 0, vec![0; 65_535]);
    while let Some(open) = connection.as_mut() {
        if open.is_closed() {
            return Err("the connection ended early".into());
        }
        if open.is_established() && asked == done {
            open.stream_send(4 * asked, b"more", true)?;
            asked += 1;
        }
        wire.send(open)?;
        wire.receive(&mut connection, |_, _| None)?;
        let Some(open) = connection.as_mut() else { break };
        for stream in open.readable() {
            while let Ok((length, ends)) = open.stream_recv(stream, &mut answer) {
                got += length;
                done += u64::from(ends);
            }
        }
        if done == count {
            open.close(true, 0, b"")?;
            wire.send(open)?;
            break;
        }
    }
    let took = began.elapsed().as_secs_f64();
    println!("bytes {got} seconds {took:.9} rate {:.6}", got as f64 * 8e-6 / took);
    Ok(())
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().collect();
    match words[1].as_str() {
        "serve" => serve(format!("{}:{}", words[2], words[3]).parse()?),
        _ => get(words[2].parse()?, words[3].parse()?),
    }
}
