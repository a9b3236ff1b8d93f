//! CAKE: a shaper, priority tins, isolation of hosts and flows, and COBALT in each flow's queue.

mod acks;
mod cobalt;
mod hash;
mod shaper;
mod tins;

use self::acks::AckFilter;
use self::hash::{Isolation, Known, flows_known};
use self::shaper::Shaper;
use self::tins::{Tin, layout};
use super::dscp;
use super::registry::{Registered, Surroundings, Traits};
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::framing::{Framing, LinkLayer};
use crate::packet::{Acknowledgement, Packet};
use crate::params::{Card, Checked, ParamSpec, ms, us};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Rate, Time};

const CARD: Card = Card {
    name: "cake",
    title: "CAKE",
    law: "a shaper lets `rate_bps` through, each packet counted with `overhead` and framing. Of the tins whose \
          own schedule is due the one of highest priority sends. In a tin each flow gets quantum/h bytes a \
          round, where h is the number of backlogged flows of its busiest host. COBALT drops (or marks) the \
          n-th packet interval/√n after the one before while the sojourn time is above `target`, and counts \
          down as slowly below it. It also drops with BLUE's probability, which grows by 1/256 at overflow and \
          shrinks by 1/4096 when the queue is empty. A queue that has never signalled does so with the second \
          late packet, and its last packet is not dropped. `ack_filter` drops the older of two acknowledgements \
          that a third replaces, of one at its tail too if aggressive",
    source: "T. Høiland-Jørgensen, D. Täht, J. Morton, \"Piece of CAKE: A Comprehensive Queue Management Solution for Home \
          Gateways\", LANMAN 2018, sections III and IV; tc-cake(8); constants of Linux sch_cake.c",
    differs: &[
        "NAT is not looked through (`nat`): hosts are the scenario's",
        "No `autorate-ingress`, no `wash`, no firewall marks",
        "The ACK filter reads numbers, flags and SACK blocks; Linux also spares an acknowledgement whose timestamps are later \
         than its successor's, or with options it does not know",
        "Hosts are distinguished exactly; in Linux each of two host tables is 8-way set-associative with 1024 places",
        "A packet has no DSCP here: `dscp` says which flows' packets carry which, in both directions",
        "`overhead` is added to IP bytes; Linux without the keyword counts the Ethernet header: `overhead` = 14 does so",
        "`memory_limit` counts IP bytes, not socket-buffer memory",
        "No segmentation offload: `split-gso` has nothing to split",
    ],
    live_twin: Some("linux:cake"),
    params: &[
        ParamSpec::rate("rate", 0, (1, 1_000_000_000_000_000), "Rate of the shaper (tc: bandwidth).")
            .depends("no shaper"),
        ParamSpec::number(
            "overhead",
            "B",
            0.0,
            (Framing::OVERHEAD.0 as f64, Framing::OVERHEAD.1 as f64),
            "Bytes that the shaper adds to each IP packet.",
        ),
        ParamSpec::size(
            "mpu",
            0,
            (0, Framing::LARGEST_MPU as u64),
            "Least size of a packet with its overhead, for the shaper.",
        ),
        ParamSpec::choice(
            "framing",
            &["none", "atm", "ptm"],
            "What the shaper counts beyond: cells of 53 bytes for each 48, or 65 for each 64.",
        ),
        ParamSpec::time(
            "rtt",
            ms(100),
            (us(10), ms(1_000_000)),
            "COBALT's interval; its target is a twentieth.",
        ),
        ParamSpec::choice(
            "tins",
            &["diffserv3", "besteffort", "diffserv4", "diffserv8"],
            "Classes by DSCP, each with its priority up to a share of the rate.",
        ),
        ParamSpec::choice(
            "isolation",
            &[
                "triple-isolate",
                "flows",
                "dual-srchost",
                "dual-dsthost",
                "hosts",
                "srchost",
                "dsthost",
                "flowblind",
            ],
            "What has a queue of its own, and whose flows share one host's part.",
        ),
        ParamSpec::flag("ingress", false, "What COBALT drops has crossed the link already, and counts."),
        ParamSpec::choice(
            "ack_filter",
            &["none", "filter", "aggressive"],
            "Drop acknowledgements that later ones in the same queue replace.",
        ),
        dscp::PARAM,
        ParamSpec::size("memory_limit", 0, (3000, 1 << 40), "Most bytes held.")
            .depends("four intervals of the rate, at least 4 MiB; without a shaper 10,240 full packets"),
    ],
};

/// Size of a full packet with its Ethernet header, the basis of quanta and targets.
const MTU: Bytes = 1514;

/// CAKE.
#[derive(Clone, Debug)]
pub struct Cake {
    tins: Vec<Tin>,
    current: usize,
    shaper: Option<Shaper>,
    framing: Framing,
    isolation: Isolation,
    is_ingress: bool,
    limit: Bytes,
    held: Backlog,
    known: Vec<Known>,
    /// The tin for packets without a DSCP.
    plain: u8,
    perturbation: u64,
    filter: Option<AckFilter>,
    random: Stream,
}

impl Registered for Cake {
    const CARD: Card = CARD;
    const TRAITS: Traits =
        Traits { isolates: "hosts", drops_at_head: true, kernels: &["cake"], ..Traits::NONE };

    fn new(given: &Checked<'_>, around: &Surroundings<'_>) -> Result<Self, ScenarioError> {
        let rate = given.given_rate("rate");
        let rtt = given.time("rtt");
        let layout = layout(given.choice("tins"));
        let (known, hosts) = flows_known(given, around.context.flows, &layout)?;
        let tin = |(share, quantum): &(u64, i64)| {
            let rate = rate.map(|rate| Rate::from_bps((rate.as_bps() * share / 1024).max(1)));
            Tin::new(rate, *quantum, rtt, hosts)
        };
        let limit = match rate {
            Some(rate) => rate.bytes_in(Duration::from_ps(4 * rtt.as_ps())).max(4 << 20),
            None => Bytes::MAX,
        };
        let framing = Framing {
            overhead: given.number("overhead") as i32,
            mpu: given.whole("mpu") as u32,
            linklayer: match given.choice("framing") {
                "atm" => LinkLayer::Atm,
                "ptm" => LinkLayer::Ptm,
                _ => LinkLayer::Ethernet,
            },
        };
        Ok(Cake {
            tins: layout.shares.iter().map(tin).collect(),
            current: 0,
            shaper: rate.map(|rate| Shaper { rate, next: Time::ZERO, failsafe: Time::ZERO }),
            framing,
            isolation: Isolation::named(given.choice("isolation")),
            is_ingress: given.flag("ingress"),
            limit: given.given_whole("memory_limit").unwrap_or(limit.min(10_240 * MTU)),
            held: Backlog::default(),
            known,
            plain: (layout.class)(0),
            perturbation: around.seed,
            filter: match given.choice("ack_filter") {
                "none" => None,
                mode => Some(AckFilter::new(mode == "aggressive")),
            },
            random: Stream::named(around.seed, "cake"),
        })
    }
}

impl QueueDiscipline for Cake {
    fn enqueue(&mut self, packet: Packet, now: Time, fate: &mut Fate) {
        let known = self.known_of(&packet);
        let (tag, bucket) = self.isolation.hash(&packet, &known, self.perturbation);
        if let Some(shaper) = &mut self.shaper
            && self.held.packets == 0
        {
            shaper.begin(now);
        }
        let number = known.tin as usize;
        let tin = &mut self.tins[number];
        if tin.held.packets == 0 {
            tin.next = tin.next.max(now);
        }
        let place = tin.place(tag, bucket, known.hosts);
        tin.flows[place as usize].line.push(packet);
        tin.held.packets += 1;
        tin.held.bytes += Bytes::from(packet.bytes);
        self.held.packets += 1;
        self.held.bytes += Bytes::from(packet.bytes);
        if self.filter.is_some() {
            self.thin(number, place, now, fate);
        }
        self.tins[number].join(place, self.isolation, &mut self.random);
        while self.held.bytes > self.limit {
            self.shed(now, fate);
        }
    }

    fn dequeue(&mut self, now: Time, fate: &mut Fate) -> Option<Packet> {
        let mut is_first = true;
        while self.held.packets > 0 {
            if self.ready().is_some_and(|ready| ready > now) {
                return None;
            }
            self.choose_tin(now);
            if let Some(packet) = self.serve_tin(&mut is_first, now, fate) {
                return Some(packet);
            }
        }
        None
    }

    fn backlog(&self) -> Backlog {
        self.held
    }

    fn ready_at(&self, _now: Time) -> Option<Time> {
        self.ready()
    }

    fn reads_acks(&self) -> bool {
        self.filter.is_some()
    }

    fn show_ack(&mut self, packet: &Packet, ack: Acknowledgement) {
        if let Some(filter) = &mut self.filter {
            filter.show(packet, ack);
        }
    }
}

impl Cake {
    /// Whether CAKE has a shaper, and so may hold packets back while the link is free.
    pub fn shapes(&self) -> bool {
        self.shaper.is_some()
    }

    fn known_of(&self, packet: &Packet) -> Known {
        let mut known = self
            .known
            .get(packet.flow.0 as usize)
            .copied()
            .unwrap_or(Known { hosts: [0, 0], tin: self.plain });
        if packet.is_reverse {
            known.hosts.swap(0, 1);
        }
        known
    }

    /// Takes a packet from the current tin, or `None` if the queue in turn had none left.
    fn serve_tin(&mut self, is_first: &mut bool, now: Time, fate: &mut Fate) -> Option<Packet> {
        loop {
            let tin = &mut self.tins[self.current];
            let place = tin.turn(is_first, self.isolation, &mut self.random)?;
            let law = tin.law;
            let bulk_flows = if self.is_ingress { tin.bulk_flows } else { 0 };
            loop {
                let tin = &mut self.tins[self.current];
                let flow = &mut tin.flows[place as usize];
                let Some(mut packet) = flow.line.pop() else {
                    tin.retire(place, now);
                    return None;
                };
                let decides = flow.cobalt.decides(&mut packet, bulk_flows, &law, now, &mut self.random, fate);
                // The last packet of a queue is never dropped; it may be marked.
                let is_dropped = decides && !flow.line.is_empty();
                self.let_go(self.current, &packet);
                if is_dropped {
                    fate.drop(packet, DropReason::Aqm);
                    if !self.is_ingress {
                        continue;
                    }
                }
                let counted = self.counted(&packet);
                self.advance(self.current, counted, is_dropped, now);
                let tin = &mut self.tins[self.current];
                tin.flows[place as usize].deficit -= counted as i64;
                tin.deficit -= counted as i64;
                if !is_dropped {
                    return Some(packet);
                }
                // In ingress mode a dropped packet uses up the queue's turn.
                break;
            }
        }
    }

    /// Updates the counts after `packet` has left its queue in tin `number`.
    fn let_go(&mut self, number: usize, packet: &Packet) {
        self.tins[number].let_go(packet);
        self.held.packets -= 1;
        self.held.bytes -= Bytes::from(packet.bytes);
        if let Some(filter) = &mut self.filter {
            filter.forget(packet);
        }
    }

    /// ACK filter: drops the ACK, if any, that the newest packet of queue `place` in tin `number` makes redundant.
    #[cold]
    fn thin(&mut self, number: usize, place: u32, now: Time, fate: &mut Fate) {
        let line = &mut self.tins[number].flows[place as usize].line;
        let Some(replaced) = self.filter.as_mut().and_then(|filter| filter.replaced(line)) else { return };
        self.let_go(number, &replaced);
        fate.drop(replaced, DropReason::Thinned);
        if self.is_ingress {
            let counted = self.counted(&replaced);
            self.advance(number, counted, true, now);
        }
    }

    /// Overflow: drops the oldest packet of the longest queue in any tin, and reports the overflow to COBALT.
    #[cold]
    fn shed(&mut self, now: Time, fate: &mut Fate) {
        let longest = |tin: &Tin| {
            let listed = tin.new.iter().chain(&tin.old).chain(&tin.decaying);
            listed
                .copied()
                .max_by_key(|&place| (tin.flows[place as usize].line.bytes(), std::cmp::Reverse(place)))
        };
        let of_each = self.tins.iter().enumerate().filter_map(|(number, tin)| Some((number, longest(tin)?)));
        let bytes_of =
            |(number, place): &(usize, u32)| self.tins[*number].flows[*place as usize].line.bytes();
        let (number, place) = of_each.max_by_key(bytes_of).expect("a full queue has a flow");
        let tin = &mut self.tins[number];
        let flow = &mut tin.flows[place as usize];
        flow.cobalt.on_overflow(&tin.law, now);
        let packet = flow.line.pop().expect("the longest queue has a packet");
        self.let_go(number, &packet);
        fate.drop(packet, DropReason::Overlimit);
        if self.is_ingress {
            let counted = self.counted(&packet);
            self.advance(number, counted, true, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::cobalt::Cobalt;
    use super::tins::Set;
    use super::*;
    use crate::packet::{Ecn, FlowId};
    use crate::scenario::{Params, Value};

    fn cake(params: &[(&str, Value)]) -> Cake {
        let params: Params = params.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
        let given = Checked::new(&Cake::CARD, &params, "q").unwrap();
        Cake::new(&given, &Surroundings::of_seed(1)).unwrap()
    }

    fn named(text: &str) -> Value {
        Value::Name(text.into())
    }

    fn rate(mbps: f64) -> (&'static str, Value) {
        ("rate_bps", Value::Number(mbps * 1e6))
    }

    /// The same with flows between hosts, each in a tin.
    fn among(mut cake: Cake, flows: &[([u32; 2], u8)]) -> Cake {
        cake.known = flows.iter().map(|(hosts, tin)| Known { hosts: *hosts, tin: *tin }).collect();
        let hosts = 1 + flows.iter().flat_map(|(hosts, _)| *hosts).max().unwrap_or(0) as usize;
        for tin in &mut cake.tins {
            tin.bulk_of = [vec![0; hosts], vec![0; hosts]];
        }
        cake
    }

    fn packet(flow: u32, bytes: u32, enqueued: Time, ecn: Ecn) -> Packet {
        Packet {
            slot: 0,
            flow: FlowId(flow),
            bytes,
            ecn,
            hop: 0,
            is_reverse: false,
            conversation: 0,
            enqueued,
        }
    }

    /// Bytes of each flow that leave in `seconds` if each always holds two full packets; sent as soon as the queue is ready.
    fn greedy(cake: &mut Cake, flows: usize, bytes: u32, seconds: u64) -> Vec<f64> {
        let (mut fate, mut now) = (Fate::default(), Time::ZERO);
        let (mut sent, mut held) = (vec![0.0; flows], vec![0; flows]);
        while now < Time::from_ms(1000 * seconds) {
            for (flow, count) in held.iter_mut().enumerate() {
                while *count < 2 {
                    cake.enqueue(packet(flow as u32, bytes, now, Ecn::NotEct), now, &mut fate);
                    *count += 1;
                }
            }
            let next = cake.dequeue(now, &mut fate);
            for (dropped, _) in fate.drops.drain(..) {
                held[dropped.flow.0 as usize] -= 1;
            }
            if let Some(next) = next {
                held[next.flow.0 as usize] -= 1;
                sent[next.flow.0 as usize] += f64::from(next.bytes);
            } else if let Some(ready) = cake.ready_at(now).filter(|ready| *ready > now) {
                now = ready;
            }
        }
        sent
    }

    #[test]
    fn the_shaper_holds_its_rate_of_what_the_link_below_carries() {
        // 1500 + 10 bytes: 32 cells of 53; 1510 + 24 for PTM; mpu 84 for small ones.
        for (framing, bytes, overhead, mpu, counted) in [
            ("none", 1500, 0.0, 0.0, 1500.0),
            ("none", 1500, 18.0, 0.0, 1518.0),
            ("atm", 1500, 10.0, 0.0, 32.0 * 53.0),
            ("atm", 40, 8.0, 0.0, 53.0),
            ("ptm", 1500, 10.0, 0.0, 1534.0),
            ("none", 40, 14.0, 84.0, 84.0),
            ("none", 1500, -20.0, 0.0, 1480.0),
        ] {
            let mut cake = cake(&[
                rate(8.0),
                ("overhead", Value::Number(overhead)),
                ("mpu", Value::Number(mpu)),
                ("framing", named(framing)),
            ]);
            let sent = greedy(&mut cake, 1, bytes, 2)[0];
            let share = sent / f64::from(bytes) * counted / 2e6;
            assert!((share - 1.0).abs() < 0.002, "{framing} {bytes} {overhead}: {share}");
        }
    }

    #[test]
    fn hosts_share_first_and_then_their_flows() {
        // One source with four flows and another with one, to hosts of their own.
        let flows: Vec<([u32; 2], u8)> =
            [[0, 2], [0, 3], [0, 4], [0, 5], [1, 6]].iter().map(|hosts| (*hosts, 0)).collect();
        for (isolation, of_one) in [
            ("triple-isolate", 0.5),
            ("dual-srchost", 0.5),
            ("srchost", 0.5),
            ("flows", 0.2),
            ("dual-dsthost", 0.2),
        ] {
            let mut cake = among(cake(&[rate(20.0), ("isolation", named(isolation))]), &flows);
            let sent = greedy(&mut cake, 5, 1500, 3);
            let share = sent[4] / sent.iter().sum::<f64>();
            assert!((share - of_one).abs() < 0.02, "{isolation}: {share}");
            if isolation != "srchost" {
                assert!((sent[0] / sent[3] - 1.0).abs() < 0.05, "{isolation}: {sent:?}");
            }
        }
    }

    #[test]
    fn tins_have_priority_up_to_their_share_and_lend_the_rest() {
        // Best effort, bulk and voice, all greedy: bulk and voice keep to 1/16 and 1/4.
        let flows = [([0, 1], 0), ([0, 1], 1), ([0, 1], 2)];
        let isolation = ("isolation", named("flows"));
        let mut busy = among(cake(&[rate(20.0), isolation.clone()]), &flows);
        let sent = greedy(&mut busy, 3, 1500, 3);
        let all: f64 = sent.iter().sum();
        assert!((sent[2] / all - 0.25).abs() < 0.02, "{sent:?}");
        assert!((0.04..0.08).contains(&(sent[1] / all)), "{sent:?}");
        // Alone, bulk has the whole link.
        let mut alone = among(cake(&[rate(20.0), isolation]), &[([0, 1], 1)]);
        assert!((greedy(&mut alone, 1, 1500, 2)[0] * 8.0 / 40e6 - 1.0).abs() < 0.01);
    }

    #[test]
    fn bulk_flows_raise_the_floor_at_an_ingress_only() {
        // Eight flows of full packets at 12 Mbit/s: two packets each are 16 ms.
        let dropped = |is_ingress: bool| {
            let params = [rate(12.0), ("ingress", Value::Flag(is_ingress)), ("tins", named("besteffort"))];
            let mut cake = cake(&params);
            cake.tins[0].bulk_flows = 8;
            cake.tins[0].flows[0].line.push(packet(0, 1500, Time::ZERO, Ecn::NotEct));
            cake.tins[0].flows[0].line.push(packet(0, 1500, Time::ZERO, Ecn::NotEct));
            cake.tins[0].flows[0].cobalt = Cobalt { count: 1, is_dropping: true, ..Cobalt::default() };
            cake.tins[0].flows[0].set = Set::Sparse;
            cake.tins[0].flows[0].deficit = 1;
            cake.tins[0].new.push_back(0);
            cake.tins[0].held = Backlog { packets: 2, bytes: 3000 };
            cake.held = cake.tins[0].held;
            let mut fate = Fate::default();
            cake.dequeue(Time::from_ms(12), &mut fate);
            fate.drops.len()
        };
        assert_eq!((dropped(false), dropped(true)), (1, 0));
    }

    #[test]
    fn the_last_packet_of_a_queue_is_not_dropped() {
        let mut cake = cake(&[("tins", named("besteffort"))]);
        // BLUE drops all that it may.
        cake.tins[0].flows.iter_mut().for_each(|flow| flow.cobalt.blue = u32::MAX);
        let mut fate = Fate::default();
        for slot in 0..3 {
            let one = Packet { slot, ..packet(0, 1500, Time::ZERO, Ecn::NotEct) };
            cake.enqueue(one, Time::ZERO, &mut fate);
        }
        assert_eq!(cake.dequeue(Time::from_ms(1), &mut fate).map(|packet| packet.slot), Some(2));
        assert_eq!(fate.drops.len(), 2);
    }

    #[test]
    fn a_full_queue_sheds_the_longest_flows_oldest() {
        let mut cake =
            among(cake(&[rate(1.0), ("memory_limit", Value::Number(15_000.0))]), &[([0, 1], 0), ([0, 1], 0)]);
        let mut fate = Fate::default();
        cake.enqueue(packet(1, 1500, Time::ZERO, Ecn::NotEct), Time::ZERO, &mut fate);
        for slot in 0..12 {
            let long = Packet { slot, ..packet(0, 1500, Time::ZERO, Ecn::NotEct) };
            cake.enqueue(long, Time::ZERO, &mut fate);
        }
        let shed: Vec<_> =
            fate.drops.iter().map(|(packet, why)| (packet.flow.0, packet.slot, *why)).collect();
        assert_eq!(shed, [0, 1, 2].map(|slot| (0, slot, DropReason::Overlimit)));
        assert_eq!(cake.backlog(), Backlog { packets: 10, bytes: 15_000 });
    }

    #[test]
    fn ingress_counts_what_it_drops() {
        let sent = |is_ingress: bool| {
            let mut cake = cake(&[rate(8.0), ("ingress", Value::Flag(is_ingress))]);
            // BLUE drops one in four.
            cake.tins.iter_mut().flat_map(|tin| &mut tin.flows).for_each(|flow| flow.cobalt.blue = 1 << 30);
            greedy(&mut cake, 1, 1500, 2)[0] / 2e6
        };
        assert!((sent(false) - 1.0).abs() < 0.01, "{}", sent(false));
        // Of two packets that wait one may be dropped: four leave of five that are counted.
        assert!((sent(true) - 0.8).abs() < 0.03, "{}", sent(true));
    }
}
