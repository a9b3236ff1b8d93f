//! Configures the device, the addresses and the routes of a host by routing netlink, in the calling thread's namespace.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use netlink_packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_ECHO, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::sys;

/// A routing netlink socket.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket in the calling thread's namespace; the socket stays there.
    pub fn open() -> io::Result<Self> {
        Ok(Netlink { socket: sys::netlink_socket()?, sequence: 0 })
    }

    /// Brings device number `index` up with this MTU and a queue of `queue` packets.
    pub fn set_up(&mut self, index: u32, mtu: Option<u32>, queue: Option<u32>) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        link.attributes.extend(mtu.map(LinkAttribute::Mtu));
        link.attributes.extend(queue.map(LinkAttribute::TxQueueLen));
        self.ask(RouteNetlinkMessage::SetLink(link), 0).map(drop)
    }

    /// Limits the packets that TCP builds for device number `index` to this many segments.
    pub fn set_bursts(&mut self, index: u32, segments: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes.push(LinkAttribute::GsoMaxSegs(segments));
        self.ask(RouteNetlinkMessage::SetLink(link), 0).map(drop)
    }

    /// The number of the device called `name`.
    pub fn index_of(&mut self, name: &str) -> io::Result<u32> {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName(name.into()));
        match self.ask(RouteNetlinkMessage::GetLink(link), 0)? {
            Some(RouteNetlinkMessage::NewLink(found)) => Ok(found.header.index),
            other => Err(io::Error::other(format!("asked for device {name}, got {other:?}"))),
        }
    }

    /// Packets that the device dropped on transmission.
    pub fn dropped_by(&mut self, name: &str) -> io::Result<u64> {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName(name.into()));
        let Some(RouteNetlinkMessage::NewLink(found)) = self.ask(RouteNetlinkMessage::GetLink(link), 0)?
        else {
            return Err(io::Error::other(format!("device {name} does not answer")));
        };
        let dropped = found.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Stats64(stats) => Some(stats.tx_dropped + stats.tx_errors),
            _ => None,
        });
        Ok(dropped.unwrap_or(0))
    }

    /// Gives the device an address without a subnet.
    pub fn add_address(&mut self, index: u32, address: IpAddr) -> io::Result<()> {
        let (family, bits) = kind(address);
        let mut message = AddressMessage::default();
        message.header.family = family;
        message.header.prefix_len = bits;
        // Skip duplicate address detection, which would delay the address's use (RFC 4862 section 5.4).
        message.header.flags =
            if address.is_ipv6() { AddressHeaderFlags::Nodad } else { AddressHeaderFlags::empty() };
        message.header.index = index;
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        self.ask(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// Routes all addresses of this IP version through the device.
    pub fn add_default_route(&mut self, index: u32, like: IpAddr) -> io::Result<()> {
        self.add_route(index, kind(like).0, None, Vec::new())
    }

    /// Routes one address through the device, with this source address by default and with these metrics.
    pub fn add_route_to(
        &mut self,
        index: u32,
        destination: IpAddr,
        source: IpAddr,
        metrics: Vec<RouteMetric>,
    ) -> io::Result<()> {
        self.add_route(index, kind(destination).0, Some((destination, source)), metrics)
    }

    fn add_route(
        &mut self,
        index: u32,
        family: AddressFamily,
        between: Option<(IpAddr, IpAddr)>,
        metrics: Vec<RouteMetric>,
    ) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = family;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Link;
        message.header.kind = RouteType::Unicast;
        if let Some((destination, source)) = between {
            message.header.destination_prefix_length = kind(destination).1;
            message.attributes.push(RouteAttribute::Destination(destination.into()));
            message.attributes.push(RouteAttribute::PrefSource(source.into()));
        }
        message.attributes.push(RouteAttribute::Oif(index));
        if !metrics.is_empty() {
            message.attributes.push(RouteAttribute::Metrics(metrics));
        }
        self.ask(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// Gives device number `index` the queue discipline `kind` as `handle` at `parent`, with these attributes.
    pub fn add_queue(
        &mut self,
        index: u32,
        [parent, handle]: [TcHandle; 2],
        kind: &str,
        options: Vec<u8>,
    ) -> io::Result<()> {
        let message = queue(index, [parent, handle], kind, options);
        self.ask(RouteNetlinkMessage::NewQueueDiscipline(message), NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// Gives a discipline of device number `index` the class `handle` at `parent`.
    pub fn add_class(
        &mut self,
        index: u32,
        [parent, handle]: [TcHandle; 2],
        kind: &str,
        options: Vec<u8>,
    ) -> io::Result<()> {
        let message = queue(index, [parent, handle], kind, options);
        self.ask(RouteNetlinkMessage::NewTrafficClass(message), NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// Counters of the discipline `handle` of device number `index`.
    pub fn queue_count(&mut self, index: u32, handle: TcHandle) -> io::Result<QueueCount> {
        /// Attribute TCA_STATS2, within it TCA_STATS_QUEUE, within it five numbers (struct gnet_stats_queue).
        const STATISTICS: [u16; 2] = [7, 3];
        const HEADERS: usize = 16 + 20;
        let mut message = TcMessage::default();
        message.header.index = index as i32;
        message.header.handle = handle;
        // Without NLM_F_ECHO the kernel notifies all listeners except the sender.
        let answer = self.exchange(RouteNetlinkMessage::GetQueueDiscipline(message), NLM_F_ECHO)?;
        let mut found = answer.get(HEADERS..).unwrap_or_default();
        for kind in STATISTICS {
            found = attributes(found).find(|(at, _)| *at == kind).map_or(&[][..], |(_, value)| value);
        }
        let number = |place: usize| -> io::Result<u32> {
            let bytes = found.get(4 * place..4 * place + 4);
            let bytes =
                bytes.ok_or_else(|| io::Error::other("the queue does not say what it has counted"))?;
            Ok(u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
        };
        Ok(QueueCount { waiting: number(0)?, dropped: number(2)? })
    }

    /// Sends a request and reads the answer: a message, or `None` for a bare acknowledgement.
    fn ask(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<Option<RouteNetlinkMessage>> {
        let answer = self.exchange(request, flags)?;
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
            .map_err(|error| io::Error::other(error.to_string()))?;
        match message.payload {
            NetlinkPayload::Error(error) => match error.code {
                None => Ok(None),
                Some(_) => Err(error.to_io()),
            },
            NetlinkPayload::InnerMessage(inner) => Ok(Some(inner)),
            other => Err(io::Error::other(format!("unexpected answer {other:?}"))),
        }
    }

    /// Sends a request and reads the answer unparsed.
    fn exchange(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<u8>> {
        let is_question =
            matches!(request, RouteNetlinkMessage::GetLink(_) | RouteNetlinkMessage::GetQueueDiscipline(_));
        self.sequence += 1;
        let mut packet = NetlinkMessage::from(request);
        packet.header.sequence_number = self.sequence;
        packet.header.flags = NLM_F_REQUEST | flags | if is_question { 0 } else { NLM_F_ACK };
        packet.finalize();
        let mut buffer = vec![0; packet.buffer_len()];
        packet.serialize(&mut buffer);
        sys::send(self.socket.as_fd(), &buffer)?;
        let mut answer = vec![0; 64 * 1024];
        loop {
            let Some(length) = sys::read_packet(self.socket.as_fd(), &mut answer)? else { continue };
            // A message's header: its length, kind and flags, then its sequence number.
            let number =
                answer.get(8..12).map(|bytes| u32::from_ne_bytes(bytes.try_into().expect("four bytes")));
            if length >= 16 && number == Some(self.sequence) {
                answer.truncate(length);
                return Ok(answer);
            }
        }
    }
}

/// An address's family and number of bits.
fn kind(of: IpAddr) -> (AddressFamily, u8) {
    if of.is_ipv6() { (AddressFamily::Inet6, 128) } else { (AddressFamily::Inet, 32) }
}

/// Counters of a kernel queue discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueCount {
    /// Packets that wait in it.
    pub waiting: u32,
    /// Packets it has dropped.
    pub dropped: u32,
}

fn queue(index: u32, [parent, handle]: [TcHandle; 2], kind: &str, options: Vec<u8>) -> TcMessage {
    const OPTIONS: u16 = 2;
    const NESTED: u16 = 1 << 15;
    let mut message = TcMessage::default();
    message.header.index = index as i32;
    message.header.parent = parent;
    message.header.handle = handle;
    message.attributes = vec![TcAttribute::Kind(kind.into())];
    if !options.is_empty() {
        // Recent kernels require the flag (NLA_F_NESTED) for disciplines; a FIFO's options are a structure.
        let is_structure = ["pfifo", "bfifo"].contains(&kind);
        let attribute = if is_structure { OPTIONS } else { OPTIONS | NESTED };
        message.attributes.push(TcAttribute::Other(DefaultNla::new(attribute, options)));
    }
    message
}

/// An attribute's bytes: length, kind and value, padded to a multiple of four.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + value.len().next_multiple_of(4));
    out.extend(((4 + value.len()) as u16).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

/// The attributes in `bytes`, by kind.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        /// Mask without the flags that describe the content.
        const KIND: u16 = 0x3fff;
        let half =
            |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().expect("two bytes")));
        let (length, kind) = (usize::from(half(0)?), half(2)? & KIND);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}
