//! Captures: which packet's headers passed which point, and when.
//!
//! A point is a node, where a capture sees traffic like tcpdump on a host, or one side of a link, like a tap before its
//! queue or at its far end. The headers of a packet are stored once (`headers`); each sighting is a small row (`wire`).

use std::collections::BTreeMap;

use super::Tables;
use super::rows::{
    ConnectionRow, Connections, HeaderRow, HeaderSackRow, HeaderSacks, Headers, Wire, WireRow,
};
use super::schema::PointId;
use crate::packet::{FlowId, Packet};
use crate::params::unknown_name;
use crate::scenario::{Scenario, ScenarioError};
use crate::tcp::endpoint::Endpoint;
use crate::tcp::segment::Segment;
use crate::tcp::stack::EcnMode;
use crate::time::Time;

/// No point or no row.
const NONE: u32 = u32::MAX;

/// The capture points: number of the point at each place, if there is one.
#[derive(Clone, Debug, Default)]
pub struct Points {
    /// Before each link's queue.
    pub before: Vec<Option<u16>>,
    /// At each link's far end.
    pub after: Vec<Option<u16>>,
    /// At each node.
    pub node: Vec<Option<u16>>,
    /// The node at which each link begins.
    pub leaves: Vec<u32>,
    /// The nodes of each flow's client and server.
    pub hosts: Vec<[u32; 2]>,
}

impl Points {
    /// The points that the scenario names; `None` if it names none. `hosts` is the field of that name.
    pub fn of(scenario: &Scenario, hosts: Vec<[u32; 2]>) -> Result<Option<Self>, ScenarioError> {
        let named = &scenario.instruments.captures;
        if named.is_empty() {
            return Ok(None);
        }
        let node_names: Vec<&str> = scenario.nodes.iter().map(String::as_str).collect();
        let node = |name: &str| node_names.iter().position(|known| *known == name);
        let link = |name: &str| scenario.links.iter().position(|link| link.name == name);
        let mut points = Points {
            before: vec![None; scenario.links.len()],
            after: vec![None; scenario.links.len()],
            node: vec![None; node_names.len()],
            leaves: scenario.links.iter().map(|it| node(&it.from).unwrap_or(0) as u32).collect(),
            hosts,
        };
        for (number, name) in named.iter().enumerate() {
            let side = |end: &str| name.strip_suffix(end).and_then(link);
            let place = match (node(name), side(".in"), side(".out")) {
                (Some(node), ..) => &mut points.node[node],
                (_, Some(link), _) => &mut points.before[link],
                (.., Some(link)) => &mut points.after[link],
                _ => {
                    let sides = scenario
                        .links
                        .iter()
                        .flat_map(|link| [".in", ".out"].map(|end| link.name.clone() + end));
                    let known: Vec<String> = scenario.nodes.iter().cloned().chain(sides).collect();
                    let known: Vec<&str> = known.iter().map(String::as_str).collect();
                    return Err(unknown_name(
                        "point",
                        name,
                        &format!("instruments.captures[{number}]"),
                        &known,
                    ));
                }
            };
            *place = Some(number as u16);
        }
        Ok(Some(points))
    }
}

/// State of the packet in a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Ticket {
    packet: u64,
    /// Its row in `headers`, once it has passed a point.
    header: u32,
    stream: u16,
    ip_id: u16,
    /// For a datagram, the number of earlier ones in its stream.
    number: u64,
}

/// Records captures.
#[derive(Debug)]
pub struct Captures {
    points: Points,
    tickets: Vec<Ticket>,
    /// Next IP identification by flow and direction: a host counts the packets that it sends.
    ip_ids: Vec<[u16; 2]>,
    /// Number of datagrams sent, by flow, direction and stream.
    datagrams: BTreeMap<(u32, bool, u16), u64>,
    /// Connection number of each client's address, and number of connections so far by flow.
    numbers: BTreeMap<u32, u32>,
    opened: Vec<u32>,
    wire: Wire,
    headers: Headers,
    sacks: HeaderSacks,
    connections: Connections,
}

impl Captures {
    /// A recorder for these points.
    pub fn new(points: Points) -> Self {
        let flows = points.hosts.len();
        Captures {
            points,
            tickets: Vec::new(),
            ip_ids: vec![[0; 2]; flows],
            datagrams: BTreeMap::new(),
            numbers: BTreeMap::new(),
            opened: vec![0; flows],
            wire: Wire::default(),
            headers: Headers::default(),
            sacks: HeaderSacks::default(),
            connections: Connections::default(),
        }
    }

    /// A connection opens.
    pub fn connected(&mut self, now: Time, flow: FlowId, address: u32, [client, server]: [&Endpoint; 2]) {
        let opened = &mut self.opened[flow.0 as usize];
        self.numbers.insert(address, *opened);
        // An option is in force if both ends support it.
        let (near, far) = (client.stack(), server.stack());
        let scaling = near.window_scaling && far.window_scaling;
        self.connections.push(ConnectionRow {
            flow,
            connection: *opened,
            t_ps: now.as_ps(),
            mss: client.sender.control.mss,
            back_mss: server.sender.control.mss,
            timestamps: near.timestamps && far.timestamps,
            sack: near.sack && far.sack,
            scaling,
            ecn: near.ecn.min(far.ecn) != EcnMode::Off,
            scale: if scaling { client.receiver.scale() } else { 0 },
            back_scale: if scaling { server.receiver.scale() } else { 0 },
        });
        *opened += 1;
    }

    /// A host sends the packet.
    pub fn departed(
        &mut self,
        now: Time,
        packet: &Packet,
        run_number: u64,
        stream: u16,
        segment: &Segment,
        is_on: bool,
    ) {
        let flow = packet.flow.0;
        let ip_id = &mut self.ip_ids[flow as usize][usize::from(packet.is_reverse)];
        *ip_id = ip_id.wrapping_add(1);
        // A packet without flags is a datagram: every segment of a connection has SYN or ACK set.
        let number = if segment.flags.0 == 0 {
            let sent = self.datagrams.entry((flow, packet.is_reverse, stream)).or_default();
            *sent += 1;
            *sent - 1
        } else {
            0
        };
        let ticket = Ticket { packet: run_number, header: NONE, stream, ip_id: *ip_id, number };
        self.keep(packet.slot, ticket);
        let from = self.points.hosts[flow as usize][usize::from(packet.is_reverse)];
        if is_on {
            self.sight(now, self.points.node[from as usize], packet, segment);
        }
    }

    fn keep(&mut self, slot: u32, ticket: Ticket) {
        let slot = slot as usize;
        if slot >= self.tickets.len() {
            self.tickets.resize(slot + 1, Ticket::default());
        }
        self.tickets[slot] = ticket;
    }

    /// A wire duplicated a packet: the copy has the same headers and a number of its own.
    pub fn doubled(&mut self, from: u32, to: u32, number: u64) {
        let ticket = Ticket { packet: number, header: NONE, ..self.tickets[from as usize] };
        self.keep(to, ticket);
    }

    /// A packet reaches a link.
    pub fn entered(&mut self, now: Time, link: u32, is_first: bool, packet: &Packet, segment: &Segment) {
        // A connection's own access delay is not a link of the scenario.
        let Some(&node) = self.points.leaves.get(link as usize) else { return };
        let from = self.points.hosts[packet.flow.0 as usize][usize::from(packet.is_reverse)];
        if !is_first && node != from {
            self.sight(now, self.points.node[node as usize], packet, segment);
        }
        self.sight(now, self.points.before[link as usize], packet, segment);
    }

    /// A packet reaches a link's far end.
    pub fn left(&mut self, now: Time, link: u32, packet: &Packet, segment: &Segment) {
        let point = self.points.after.get(link as usize).copied().flatten();
        self.sight(now, point, packet, segment);
    }

    /// A packet reaches its destination host.
    pub fn arrived(&mut self, now: Time, packet: &Packet, segment: &Segment) {
        let to = self.points.hosts[packet.flow.0 as usize][usize::from(!packet.is_reverse)];
        self.sight(now, self.points.node[to as usize], packet, segment);
    }

    fn sight(&mut self, now: Time, point: Option<u16>, packet: &Packet, segment: &Segment) {
        let Some(point) = point else { return };
        let slot = packet.slot as usize;
        if self.tickets[slot].header == NONE {
            self.tickets[slot].header = self.describe(packet, segment, self.tickets[slot]);
        }
        let header = self.tickets[slot].header;
        self.wire.push(WireRow { t_ps: now.as_ps(), point: PointId(point), header, ecn: packet.ecn });
    }

    /// Adds a row for the packet's headers; returns its number.
    fn describe(&mut self, packet: &Packet, segment: &Segment, ticket: Ticket) -> u32 {
        let row = self.headers.flow.len() as u32;
        // A datagram is addressed by its flow, not by TCP ends.
        let is_datagram = segment.flags.0 == 0;
        let known = self.numbers.get(&(segment.to & !1)).copied().filter(|_| !is_datagram);
        let connection = known.unwrap_or(0);
        self.headers.push(HeaderRow {
            packet: ticket.packet,
            flow: packet.flow,
            reverse: packet.is_reverse,
            connection,
            seq: segment.seq,
            ack: segment.ack,
            window: segment.window,
            ts_val_ps: segment.ts_val.as_ps(),
            ts_ecr_ps: (segment.ts_ecr != Time::NEVER).then_some(segment.ts_ecr.as_ps()),
            length: segment.len,
            // The highest of AccECN's three bits is outside this byte.
            flags: segment.flags.0 as u8,
            repeated: segment.is_repeated,
            bytes: packet.bytes,
            ip_id: ticket.ip_id,
            stream: ticket.stream,
            number: ticket.number,
            blocks: segment.sack_count,
            scale: segment.window_scale,
        });
        for block in segment.sack_blocks() {
            self.sacks.push(HeaderSackRow { header: row, start: block.start, end: block.end });
        }
        row
    }

    /// Number of rows so far.
    #[inline]
    pub fn rows(&self) -> u64 {
        (self.wire.len() + self.headers.len() + self.sacks.len()) as u64
    }

    /// Adds the tables.
    pub fn finish(self, tables: &mut Tables) {
        tables.tables.extend([
            self.wire.into_table(),
            self.headers.into_table(),
            self.sacks.into_table(),
            self.connections.into_table(),
        ]);
    }
}
