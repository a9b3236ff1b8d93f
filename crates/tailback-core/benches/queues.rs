//! What a packet costs each queue discipline alone, for callgrind: `queues NAME WAITING PASSED`; `queues --names` lists them.
//!
//! WAITING packets of eight flows wait; then PASSED packets come and go, one each. Arrivals are so close that no law finds a
//! packet late. A run with more passed less one with fewer is the cost of the packets between.

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
        // A shaper holds packets back, so that none can go for each that comes.
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
    // Room for all that wait, where the default has less.
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
