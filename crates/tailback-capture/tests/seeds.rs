//! The fuzzer's seeds: each is read, and paired with itself and with every other one, without a panic.

use std::path::PathBuf;

use tailback_capture::decode::Naming;
use tailback_capture::pairing::{HORIZON_NS, pair, pair_within};
use tailback_capture::rows::{Wanted, read};
use tailback_capture::source::Source;

fn seeds() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let mut all: Vec<PathBuf> =
        folder.read_dir().expect("the seeds").map(|entry| entry.expect("a seed").path()).collect();
    all.sort();
    assert!(all.len() >= 19, "{} seeds", all.len());
    all
}

#[test]
fn every_seed_is_read_and_its_packets_are_counted_once() {
    let mut packets = 0;
    for path in seeds() {
        let Ok(mut source) = Source::open(&path) else { continue };
        let wanted = Wanted {
            segments: true,
            datagrams: true,
            bin_ns: 1_000_000,
            only: Vec::new(),
            most_rows: 10_000,
        };
        let rows = read(&mut source, &wanted, || true);
        let sides = rows.flows.all.iter().flat_map(|flow| &flow.talk.sides);
        assert_eq!(sides.map(|side| side.packets).sum::<u64>(), rows.flows.packets, "{}", path.display());
        assert!(rows.flows.packets <= source.frames);
        packets += rows.flows.packets;
    }
    assert!(packets > 100, "{packets}");
}

#[test]
fn every_seed_is_paired_with_every_other() {
    let all = seeds();
    let mut pairs = 0;
    for one in &all {
        if let Ok(mut source) = Source::open(one) {
            let found = pair_within(&mut source, Naming::Whole, HORIZON_NS, || true);
            assert!(2 * found.pairs.flow.len() as u64 <= found.flows.packets);
        }
        for other in &all {
            let both = [one, other];
            if let Ok(found) = pair(|which| Source::open(both[which]), HORIZON_NS, || true) {
                assert!(found.pairs.flow.len() as u64 <= found.flows.packets.min(found.b_packets));
                pairs += found.pairs.flow.len();
            }
        }
    }
    assert!(pairs > 100, "{pairs}");
}
