//! Lists the flows of a capture: `cargo run --release -p tailback-capture --example flows FILE`.

use std::path::Path;
use std::time::Instant;

use tailback_capture::flows::Flows;
use tailback_capture::source::Source;

fn main() {
    let path = std::env::args().nth(1).expect("a capture's path");
    let began = Instant::now();
    let mut source = Source::open(Path::new(&path)).unwrap_or_else(|error| panic!("{path} {error}"));
    let flows = Flows::read(&mut source);
    let took = began.elapsed().as_secs_f64();
    for flow in flows.all.iter().take(20) {
        let [one, two] = &flow.talk.sides;
        println!(
            "{:?} packets {} {} retransmitted {} {} overtaken {} {} rtt samples {} {}",
            flow.ends.map(|(address, port)| (std::net::Ipv6Addr::from(address), port)),
            one.packets,
            two.packets,
            one.track().retransmitted(),
            two.track().retransmitted(),
            one.track().overtaken,
            two.track().overtaken,
            one.track().rtt.count,
            two.track().rtt.count,
        );
    }
    println!(
        "{} flows, {} frames, {:?}, {:?}",
        flows.all.len(),
        source.frames,
        flows.skipped,
        source.trouble
    );
    println!("{:.2} million packets a second", source.frames as f64 / took / 1e6);
}
