//! Any bytes, cut in two and paired: nothing may panic, and nothing is counted twice.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use tailback_capture::decode::Naming;
use tailback_capture::pairing::{HORIZON_NS, pair, pair_within};
use tailback_capture::source::Source;

fuzz_target!(|data: &[u8]| {
    let Some((cut, rest)) = data.split_first() else { return };
    let place = rest.len() * usize::from(*cut) / 255;
    let parts = [rest[..place].to_vec(), rest[place..].to_vec()];
    if let Ok(mut source) = Source::of(Cursor::new(rest.to_vec())) {
        let found = pair_within(&mut source, Naming::Whole, HORIZON_NS, || true);
        assert!(2 * found.pairs.flow.len() as u64 <= found.flows.packets);
    }
    if let Ok(found) = pair(|which| Source::of(Cursor::new(parts[which].clone())), HORIZON_NS, || true) {
        assert!(found.pairs.flow.len() as u64 <= found.flows.packets.min(found.b_packets));
        assert_eq!(found.pairs.delays().is_empty(), found.pairs.flow.is_empty());
    }
});
