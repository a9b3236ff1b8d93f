//! The window of every congestion control on five fixed paths, second by second, compared with a stored table.
//!
//! A golden table does not prove correctness; it shows the effect of a change. To rewrite the tables:
//! `TAILBACK_GOLDEN=write cargo test -p tailback-core golden`, in a separate commit whose message explains the physics.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::common::{MS, SECOND, bulk, column, dumbbell, run};
use tailback_core::cc::registry::cards;
use tailback_core::scenario::{Instruments, QueueSpec, Scenario, Value};

/// Samples per path, one per second.
const SECONDS: u64 = 40;
const MBPS: u64 = 1_000_000;

/// The five paths: one bottleneck each, chosen for different effects.
fn paths(cc: &str) -> [(&'static str, Scenario); 5] {
    let alone = |stack| vec![bulk(cc, stack)];
    // A queue of one bandwidth-delay product and no other flow: the pure window law.
    let plain = dumbbell(10 * MBPS, 80 * MS, Some(100_000), SECONDS, alone("linux"));
    // A long fat path with a queue of a tenth of a BDP: many losses per episode, long epochs.
    let shallow = dumbbell(40 * MBPS, 150 * MS, Some(75_000), SECONDS, alone("linux"));
    // Random losses without congestion.
    let mut lossy = dumbbell(10 * MBPS, 100 * MS, Some(125_000), SECONDS, alone("linux"));
    lossy.links[0].wire.loss = 0.005;
    // Marks instead of losses, from a queue with a short delay target.
    let mut marked = dumbbell(10 * MBPS, 40 * MS, None, SECONDS, alone("linux"));
    marked.links[0].queue = QueueSpec {
        discipline: "codel".into(),
        params: [("ecn".to_string(), Value::Flag(true))].into(),
        ..Default::default()
    };
    let tcp = marked.flows[0].tcp.as_mut().expect("bulk runs over tcp");
    tcp.stack_params.insert("ecn".into(), Value::Flag(true));
    // An old kernel in a deep buffer that a NewReno flow joins: rate halving, ACK counting, delay caused by others.
    let mut joined = dumbbell(5 * MBPS, 60 * MS, Some(150_000), SECONDS, alone("linux-2.6.25"));
    let mut other = bulk("reno", "linux");
    (other.name, other.start_ps) = ("other".into(), 15 * SECOND);
    joined.flows.push(other);
    [("plain", plain), ("shallow", shallow), ("lossy", lossy), ("marked", marked), ("joined", joined)]
}

/// The file's contents: per path, a line with the totals, and the window in bytes at every second.
fn traced(cc: &str) -> String {
    let mut text = String::new();
    for (name, mut scenario) in paths(cc) {
        scenario.instruments =
            Instruments { polls: vec!["bulk".into()], poll_interval_ps: SECOND, ..Instruments::default() };
        let tables = run(&scenario);
        let total = |what: &str| column(&tables, "flows", what)[0];
        writeln!(
            text,
            "{name}: acked {} recoveries {} timeouts {} undos {} marked {}",
            total("bytes_acked"),
            total("recoveries"),
            total("timeouts"),
            total("undos"),
            column(&tables, "links", "marked")[0],
        )
        .expect("a string takes anything");
        for ten in column(&tables, "polls", "cwnd").chunks(10) {
            let words: Vec<String> = ten.iter().map(ToString::to_string).collect();
            writeln!(text, "  {}", words.join(" ")).expect("a string takes anything");
        }
    }
    text
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[test]
fn windows_are_as_they_were() {
    let is_writing = std::env::var("TAILBACK_GOLDEN").is_ok_and(|word| word == "write");
    let mut changed = Vec::new();
    for card in cards() {
        let file = folder().join(format!("{}.txt", card.name));
        let now = traced(card.name);
        if is_writing {
            std::fs::create_dir_all(folder()).expect("the folder can be made");
            std::fs::write(&file, &now).expect("the file can be written");
            continue;
        }
        let before = std::fs::read_to_string(&file).unwrap_or_default();
        if now != before {
            let lines = now.lines().zip(before.lines().chain(std::iter::repeat("nothing")));
            let first = lines.into_iter().find(|(now, before)| now != before);
            let (now, before) = first.unwrap_or(("nothing", "more lines"));
            changed.push(format!("{}: first\n  now    {now}\n  before {before}", card.name));
        }
    }
    assert!(
        changed.is_empty(),
        "{} of {} golden tables changed.\n{}\nIf that is meant: see CONTRIBUTING.md, \"Change a golden table\".",
        changed.len(),
        cards().len(),
        changed.join("\n")
    );
}

#[test]
fn every_table_has_its_algorithm() {
    let known: BTreeSet<String> = cards().iter().map(|card| format!("{}.txt", card.name)).collect();
    let found: BTreeSet<String> = std::fs::read_dir(folder())
        .expect("the golden tables")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
        .collect();
    assert_eq!(known, found);
}
