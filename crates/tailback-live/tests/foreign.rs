//! A foreign stack that does what none may ends a live run with its name. Without root this says so and passes.

use std::sync::Arc;

use serde_json::json;
use tailback_core::foreign::{Endpoint, Flight, Progress, Setup, Stack, Stacks, State};
use tailback_core::packet::Ecn;
use tailback_core::scenario::Scenario;
use tailback_core::time::{Bytes, Time};
use tailback_live::demands::Manner;
use tailback_live::{LiveError, doctor, run};

/// The client sends one datagram of so many bytes; whoever gets one panics.
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

fn ended_by(bytes: usize) -> Option<LiveError> {
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
    Some(run::run_as::<LiveError>(&scenario(), &manner, |_| Ok(())).expect_err("no stack may do that"))
}

#[test]
fn a_stack_that_panics_or_sends_giants_ends_the_run_with_its_name() {
    for (bytes, said) in [
        (400, "it panicked: 400 bytes, Ect0"),
        (1_473, "it sends a datagram of 1473 bytes over an MTU of 1500"),
    ] {
        let Some(error) = ended_by(bytes) else { return };
        let LiveError::Stack(fault) = error else { panic!("{error}") };
        assert_eq!((fault.what.as_str(), fault.is_panic), (said, bytes == 400));
        assert_eq!((fault.stack.as_str(), fault.version.as_str()), ("faulty", "0.1"));
        assert_eq!((fault.flow.as_str(), fault.scenario.as_str(), fault.seed), ("theirs", "faulty", 3));
        assert!(fault.at > Time::ZERO && fault.at < Time::from_ms(1_000), "{:?}", fault.at);
    }
}
