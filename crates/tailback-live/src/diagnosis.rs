//! Observes the connections of programs, whose sockets are not ours. The kernel reports each connection when it is
//! destroyed, and lists the existing ones on request (sock_diag(7)).

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tailback_core::time::Bytes;

use crate::applications::flow_record::Tally;
use crate::sys::{self, TcpInfo};

// linux/sock_diag.h, linux/inet_diag.h, linux/netlink.h
const BY_FAMILY: u16 = 20;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const DUMP_REQUEST: u16 = 0x1 | 0x300;
const WITH_INFO: u8 = 1 << 1;
const INFO: u16 = 2;
/// Listening and half-open sockets have nothing to report, and TIME-WAIT nothing new.
const STATES: u32 = !(1 << 10 | 1 << 12 | 1 << 6);
const HEADER: usize = 16;
const MESSAGE: usize = 72;
const FAMILIES: [u8; 2] = [libc::AF_INET as u8, libc::AF_INET6 as u8];

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
struct Seen {
    local: Ipv4Addr,
    local_port: u16,
    remote_port: u16,
    info: TcpInfo,
}

impl Seen {
    /// Payload sent, each byte once; the kernel's count of acknowledged bytes includes SYN and FIN.
    fn sent(&self) -> Bytes {
        self.info.bytes_sent.saturating_sub(self.info.bytes_retrans)
    }
    fn acked(&self) -> Bytes {
        self.info.bytes_acked.min(self.sent())
    }
}

/// Observes the connections of one flow in its two hosts.
#[derive(Debug)]
pub struct Diagnosis {
    sockets: [OwnedFd; 2],
    addresses: [Ipv4Addr; 2],
    /// By the kernel's number of the socket.
    seen: BTreeMap<u64, Seen>,
    missed: bool,
}

impl Diagnosis {
    /// Starts observing; `addresses` are the client's and the server's.
    pub fn begin(hosts: [BorrowedFd<'_>; 2], addresses: [Ipv4Addr; 2]) -> io::Result<Self> {
        let open = |host: BorrowedFd<'_>| {
            std::thread::scope(|scope| {
                let opening = scope.spawn(|| {
                    sys::enter_network(host)?;
                    let socket = sys::diagnosis_socket()?;
                    // Room for some ten thousand connections between two reads.
                    sys::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 8 << 20)?;
                    Ok::<_, io::Error>(socket)
                });
                opening.join().expect("opening a socket does not panic")
            })
        };
        let sockets = [open(hosts[0])?, open(hosts[1])?];
        Ok(Diagnosis { sockets, addresses, seen: BTreeMap::new(), missed: false })
    }

    /// Reads what the kernel has reported since the last call.
    pub fn listen(&mut self) -> io::Result<()> {
        for which in 0..2 {
            self.take(which, false)?;
        }
        Ok(())
    }

    /// Asks for the existing connections.
    pub fn ask(&mut self) -> io::Result<()> {
        for which in 0..2 {
            for family in FAMILIES {
                sys::send(self.sockets[which].as_fd(), &request(family))?;
                self.take(which, true)?;
            }
        }
        Ok(())
    }

    /// Reads messages until there are none, or until an answer is complete.
    fn take(&mut self, which: usize, is_answer: bool) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let length = match sys::receive(self.sockets[which].as_fd(), &mut buffer) {
                Ok(Some(length)) => length,
                // The kernel generates a dump as it is read, so a message is available until the dump ends.
                Ok(None) => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    self.missed = true;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let mut rest = &buffer[..length];
            while let Some((kind, body, next)) = message(rest) {
                match kind {
                    BY_FAMILY => self.keep(body),
                    DONE | ERROR if is_answer => return Ok(()),
                    _ => {}
                }
                rest = next;
            }
        }
    }

    fn keep(&mut self, body: &[u8]) {
        let Some((cookie, seen)) = connection(body) else { return };
        if self.addresses.contains(&seen.local) {
            self.seen.insert(cookie, seen);
        }
    }

    /// Whether reports were lost because too many connections closed at once.
    pub fn has_missed(&self) -> bool {
        self.missed
    }

    /// The flow's totals. A connection counts as failed if neither end was established.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        let [near, far] = self.addresses;
        // Count what a client sent, by its port: the kernel's count of what a server received includes the FIN.
        let of = |address: Ipv4Addr| self.seen.values().filter(move |seen| seen.local == address);
        let sent: BTreeMap<u16, Bytes> = of(near).map(|client| (client.local_port, client.sent())).collect();
        let returned: BTreeMap<u16, Bytes> =
            of(far).map(|server| (server.remote_port, server.sent())).collect();
        let payload =
            |received: Bytes, sent: Option<&Bytes>| received.min(sent.copied().unwrap_or(Bytes::MAX));
        for client in of(near) {
            tally.connections += 1;
            tally.failed += u64::from(client.info.segs_in == 0);
            tally.add_client(&client.info);
            tally.bytes_acked += client.acked();
            tally.bytes_returned += payload(client.info.bytes_received, returned.get(&client.local_port));
        }
        for server in of(far) {
            tally.add_server(&server.info);
            tally.bytes_received += payload(server.info.bytes_received, sent.get(&server.remote_port));
        }
        tally
    }
}

fn request(family: u8) -> Vec<u8> {
    const LENGTH: usize = HEADER + 8 + 48;
    let mut bytes = Vec::with_capacity(LENGTH);
    bytes.extend((LENGTH as u32).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(DUMP_REQUEST.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([family, libc::IPPROTO_TCP as u8, WITH_INFO, 0]);
    bytes.extend(STATES.to_ne_bytes());
    bytes.resize(LENGTH, 0);
    bytes
}

/// The first message's kind and body, and the bytes after it.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(HEADER..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// The kernel's number of a socket, and its report: `struct inet_diag_msg` and attributes.
fn connection(body: &[u8]) -> Option<(u64, Seen)> {
    let port = |at: usize| Some(u16::from_be_bytes(body.get(at..at + 2)?.try_into().ok()?));
    let family = *body.first()?;
    // An IPv4 address is at the start of the field; an IPv4-mapped one at the end of the IPv6 address.
    let at = if family == libc::AF_INET6 as u8 { 8 + 12 } else { 8 };
    let local: [u8; 4] = body.get(at..at + 4)?.try_into().ok()?;
    let cookie = u64::from_ne_bytes(body.get(44..52)?.try_into().ok()?);
    let mut attributes = body.get(MESSAGE..)?;
    while attributes.len() >= 4 {
        let length = u16::from_ne_bytes([attributes[0], attributes[1]]) as usize;
        let kind = u16::from_ne_bytes([attributes[2], attributes[3]]);
        let value = attributes.get(4..length)?;
        if kind == INFO {
            let info = TcpInfo::from_bytes(value);
            let (local_port, remote_port) = (port(4)?, port(6)?);
            return Some((cookie, Seen { local: local.into(), local_port, remote_port, info }));
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn counts_payload_of_connections_that_are_over_and_of_those_that_are_not() {
        if !sys::is_root() {
            eprintln!("skipped: not root");
            return;
        }
        let own = std::fs::File::open("/proc/self/ns/net").expect("a network");
        // Both ends are on the loopback device; their addresses distinguish them.
        let [near, far] = [Ipv4Addr::new(127, 6, 0, 1), Ipv4Addr::new(127, 6, 0, 2)];
        let Ok(mut watch) = Diagnosis::begin([own.as_fd(), own.as_fd()], [near, far]) else {
            eprintln!("skipped: no sock_diag here");
            return;
        };
        let listener = TcpListener::bind((far, 0)).expect("a listener");
        let to = listener.local_addr().expect("its address");
        let talk = |bytes: usize| -> [TcpStream; 2] {
            let socket = sys::socket((near, 0).into(), libc::SOCK_STREAM).expect("a socket");
            sys::bind(socket.as_fd(), (near, 0).into()).expect("bound");
            sys::connect(socket.as_fd(), to).expect("connected");
            let (mut server, _) = listener.accept().expect("accepted");
            let mut client = TcpStream::from(socket);
            client.set_nonblocking(false).expect("blocking");
            client.write_all(&vec![0; bytes]).expect("sent");
            server.read_exact(&mut vec![0; bytes]).expect("received");
            server.write_all(&[0; 7]).expect("answered");
            client.read_exact(&mut [0; 7]).expect("heard");
            [client, server]
        };
        drop(talk(1000));
        let alive = talk(200);
        let began = std::time::Instant::now();
        loop {
            watch.listen().expect("a notice");
            watch.ask().expect("answered");
            let tally = watch.tally();
            let all = (tally.connections, tally.bytes_acked, tally.bytes_received, tally.bytes_returned);
            if all == (2, 1200, 1200, 14) {
                assert_eq!(tally.failed, 0);
                break;
            }
            assert!(began.elapsed().as_secs() < 10, "{all:?}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        drop(alive);
    }
}
