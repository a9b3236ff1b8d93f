//! A foreign stack that breaks the interface's rules ends its flow of a live run, and the error names it. Without root
//! this says so and passes.

use std::sync::Arc;

use serde_json::json;
use tailback_core::foreign::{Endpoint, Flight, Progress, Setup, Stack, Stacks, State};
use tailback_core::packet::Ecn;
use tailback_core::scenario::Scenario;
use tailback_core::time::{Bytes, Time};
use tailback_live::demands::Manner;
use tailback_live::run::Outcome;
use tailback_live::{LiveError, doctor, run};

/// The client sends one datagram of this many bytes; the end that receives one panics.
#[derive(Debug)]
struct Faulty(usize);

#[derive(Debug)]
struct End {
    to_send: Option<usize>,
}

impl Stack for Faulty {
    fn version(&self) -> &str {
        "0.1"
    }
    fn algorithms(&self) -> &[&'static str] {
        &["none"]
    }
    fn least_mtu(&self) -> u32 {
        100
    }
    fn connect(&self, _setup: &Setup<'_>) -> [Box<dyn Endpoint>; 2] {
        [Box::new(End { to_send: Some(self.0) }), Box::new(End { to_send: None })]
    }
}

impl Endpoint for End {
    fn on_datagram(&mut self, _now: Time, datagram: &[u8], ecn: Ecn) {
        panic!("{} bytes, {ecn:?}", datagram.len());
    }
    fn poll_transmit(&mut self, _now: Time, datagram: &mut Vec<u8>) -> Option<Ecn> {
        datagram.resize(self.to_send.take()?, 7);
        Some(Ecn::Ect0)
    }
    fn next_timeout(&mut self) -> Time {
        Time::NEVER
    }
    fn on_timeout(&mut self, _now: Time) {}
    fn write(&mut self, _most: Bytes) -> Bytes {
        0
    }
    fn finish(&mut self) {}
    fn read(&mut self, _now: Time) -> Bytes {
        0
    }
    fn close(&mut self, _now: Time) {}
    fn progress(&mut self) -> Progress {
        Progress::default()
    }
    fn flight(&mut self) -> Flight {
        Flight { cwnd: 10_000, in_flight: 0 }
    }
    fn state(&mut self) -> State {
        State::default()
    }
}

fn scenario() -> Scenario {
    let link = |name, from, to| {
        json!({
            "name": name, "from": from, "to": to, "rate_bps": 10_000_000u64, "delay_ps": 10_000_000_000u64,
            "queue": { "discipline": "fifo", "params": { "limit_bytes": 25000 } },
        })
    };
    let described = json!({
        "format": 1, "seed": 3, "name": "faulty", "duration_ps": 2_000_000_000_000u64,
        "nodes": ["left", "right"],
        "links": [link("there", "left", "right"), link("back", "right", "left")],
        "flows": [{
            "name": "theirs", "from": "left", "to": "right", "route": ["there"], "back_route": ["back"],
            "app": { "kind": "bulk" },
            "tcp": { "transport": "faulty", "stack": "faulty", "cc": "none", "mtu": 1500 },
        }],
    });
    serde_json::from_value(described).expect("a scenario")
}

fn ended_by(bytes: usize) -> Option<Outcome> {
    let lacks: Vec<_> = doctor::basics().into_iter().filter(|check| !check.ok).collect();
    if !lacks.is_empty() {
        eprintln!(
            "skipped: {}",
            lacks.iter().map(|check| check.found.as_str()).collect::<Vec<_>>().join("; ")
        );
        return None;
    }
    let stacks: Stacks = [("faulty".to_string(), Arc::new(Faulty(bytes)) as Arc<dyn Stack>)].into();
    let manner = Manner { stacks: Some(&stacks), ..Manner::default() };
    Some(run::run_as::<LiveError>(&scenario(), &manner, |_| Ok(())).expect("the run goes on"))
}

#[test]
fn a_stack_that_panics_or_sends_giants_ends_its_flow_with_its_name() {
    for (bytes, said) in [
        (400, "it panicked: 400 bytes, Ect0"),
        (1_473, "it sends a datagram of 1473 bytes, 1501 with headers, over an MTU of 1500"),
    ] {
        let Some(outcome) = ended_by(bytes) else { return };
        let begins = "faulty 0.1, flow theirs of faulty (seed 3), at 0.";
        let note = outcome.notes.iter().find(|note| note.starts_with(begins)).expect("a note");
        assert!(note.contains(said), "{note}");
        let faults = outcome.tables.iter().find(|table| table.name == "stack_faults").expect("a table");
        assert_eq!(faults.columns.len(), 4);
    }
}
