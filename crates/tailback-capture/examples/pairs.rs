//! Pairs two captures: `cargo run --release -p tailback-capture --example pairs A B`.

use std::path::PathBuf;
use std::time::Instant;

use tailback_capture::pairing::{HORIZON_NS, pair};
use tailback_capture::source::Source;

fn main() {
    let paths: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    let began = Instant::now();
    let found = pair(|which| Source::open(&paths[which]), HORIZON_NS, || true)
        .expect("captures that belong together");
    let took = began.elapsed().as_secs_f64();
    for (flow, counts) in found.counts.iter().take(12).enumerate() {
        println!("{flow} {counts:?}");
    }
    let pairs = &found.pairs;
    let least = pairs.a_ns.iter().zip(&pairs.b_ns).map(|(a, b)| *b as i64 - *a as i64).min();
    let frames = found.flows.packets + found.b_packets;
    println!("{} pairs, least {least:?} ns, {:?} {:?}", pairs.a_ns.len(), found.flows.skipped, found.trouble);
    println!("outside {:?} strangers {} crowded {}", found.outside, found.strangers, found.crowded);
    println!("{:.2} million packets a second", frames as f64 / took / 1e6);
}
