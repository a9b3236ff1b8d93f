//! The cost of a packet in each queue discipline, for callgrind: `queues NAME WAITING PASSED`; `queues --names` lists
//! the names.
//!
//! First WAITING packets of eight flows wait; then PASSED packets arrive and one leaves for each. Arrivals are so close
//! together that no AQM acts. The difference between two runs divided by the difference of PASSED is the cost per
//! packet.

use tailback_core::packet::{Ecn, FlowId, Packet};
use tailback_core::queue::registry::{Queue, Surroundings, build, cards};
use tailback_core::queue::{Fate, QueueDiscipline};
use tailback_core::scenario::{QueueSpec, Value};
use tailback_core::time::{Duration, Time};

const FLOWS: u32 = 8;
const GAP: Duration = Duration::from_ns(100);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if words == ["--names"] {
        // A shaper holds packets back, so that it cannot release one for each arrival.
        let names: Vec<&str> =
            cards().iter().map(|card| card.name).filter(|name| *name != "token_bucket").collect();
        println!("{}", names.join(" "));
        return;
    }
    let [name, waiting, passed] = &words[..] else {
        eprintln!("queues NAME WAITING PASSED");
        return;
    };
    let (waiting, passed): (u32, u32) = (waiting.parse().expect("a count"), passed.parse().expect("a count"));
    let mut spec = QueueSpec { discipline: name.clone(), ..QueueSpec::default() };
    let card = cards().iter().find(|card| card.name == name);
    // Make room for all waiting packets where the default limit is lower.
    for param in ["limit_packets", "depth", "flow_limit"] {
        if card.is_some_and(|card| card.param(param).is_some()) {
            spec.params.insert(param.into(), Value::Number(10_000.0));
        }
    }
    let mut queue = build(&spec, "queue", &Surroundings::of_seed(1)).expect("a discipline with defaults");
    let (mut fate, mut now) = (Fate::default(), Time::ZERO);
    let mut number = 0;
    let mut offer = |queue: &mut Queue, now: Time, fate: &mut Fate| {
        let packet = Packet {
            slot: number,
            flow: FlowId(number % FLOWS),
            bytes: 1500,
            ecn: Ecn::NotEct,
            hop: 0,
            is_reverse: false,
            conversation: 0,
            enqueued: now,
        };
        queue.enqueue(packet, now, fate);
        number += 1;
    };
    for _ in 0..waiting {
        now += GAP;
        offer(&mut queue, now, &mut fate);
    }
    for _ in 0..passed {
        now += GAP;
        offer(&mut queue, now, &mut fate);
        queue.dequeue(now, &mut fate);
    }
    println!("{} packets wait, {} were dropped", queue.backlog().packets, fate.drops.len());
}
