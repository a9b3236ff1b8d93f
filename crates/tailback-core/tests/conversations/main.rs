//! Conversations: timed scripts, in a subset of packetdrill's grammar, that drive one real endpoint.
//!
//! Every file of `tests/conversations` is named after its claim. A script has lines of these kinds:
//!
//! ```text
//! // A comment.
//! --stack=linux --cc=reno --mss=1000 --opened=client --rtt_ms=100 --sack=false      options; any stack field
//! +0.1 write(3, ..., 5000) = 5000       a call: connect, listen, write, close, unqueued (times are relative with +)
//! +0 > . 1:1001(1000) ack 1             the endpoint must send this, at this time
//! +0 < . 1:1(0) ack 1001 win 9000 <sack 2001:3001,TS val 7 ecr 3>     the peer sends this
//! +0 %{ cwnd == 10 and phase == open }% the endpoint's state must be so
//! ```
//!
//! Sequence numbers are packetdrill's: the SYN is 0, the first byte 1. Differs from packetdrill: `win` is in bytes and
//! already scaled; timestamps are milliseconds since the start. The push flag is compared only with `--push=true`.
//! Every segment the endpoint sends must be expected, and at the end of a script nothing may be left over. `[noecn]`,
//! `[ect0]` or `[ect1]` before the flags of a segment it sends also compares its packet's codepoint; `[ce]` marks one
//! it receives. A digit among the flags is AccECN's count, in the bits AE (`A` in complaints), CWR and ECE.
//! `--recall_ssthresh=20`, `--recall_cwnd`, `--recall_srtt_ms`, `--recall_deviation_ms` and `--recall_reordering` say
//! what an earlier connection to the same host has left; `saved_ssthresh` and so on what this one would leave.
//! `--opened` plays the handshake first, with one round trip of `--rtt_ms`, and the script starts there.

mod claims;
mod growth;
mod options;
mod script;
mod talk;

use std::path::Path;

use script::{What, parse};
use talk::Talk;

fn talk_through(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let (options, events) = parse(&text)?;
    if !events.iter().any(|event| matches!(event.what, What::Out(_) | What::Assert(_))) {
        return Err("the script claims nothing".into());
    }
    Talk::new(options)?.run(&events)
}

#[test]
fn every_conversation_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conversations");
    let mut scripts: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of conversations")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pkt"))
        .collect();
    scripts.sort();
    assert!(scripts.len() >= 40, "{} conversations", scripts.len());
    let failures: Vec<String> = scripts
        .iter()
        .filter_map(|path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let outcome = std::panic::catch_unwind(|| talk_through(path));
            let error = outcome.unwrap_or_else(|_| Err("panicked (see above)".into())).err()?;
            Some(format!("{name}: {error}"))
        })
        .collect();
    assert!(failures.is_empty(), "{} of {} fail:\n{}", failures.len(), scripts.len(), failures.join("\n"));
}
