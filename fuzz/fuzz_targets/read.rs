//! Any bytes, read as a capture: nothing may panic, and memory stays bounded.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use tailback_capture::rows::{Wanted, read};
use tailback_capture::source::Source;

fuzz_target!(|data: &[u8]| {
    let Ok(mut source) = Source::of(Cursor::new(data.to_vec())) else { return };
    let wanted = Wanted { segments: true, datagrams: true, bin_ns: 1_000_000, only: Vec::new(), most_rows: 10_000 };
    let rows = read(&mut source, &wanted, || true);
    let counted = rows.flows.all.iter().flat_map(|flow| &flow.talk.sides).map(|side| side.packets).sum::<u64>();
    assert_eq!(counted, rows.flows.packets, "every packet belongs to one side of a flow");
    assert!(rows.flows.packets <= source.frames);
});
