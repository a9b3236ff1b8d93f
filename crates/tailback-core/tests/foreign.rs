//! Flows of foreign stacks: a small correct stack, and runs with a faulty one.

use std::sync::Arc;

use crate::common::{MS, bits, bulk, column, dumbbell, flow, tcp};
use tailback_core::engine::{MOST_FOREIGN, Simulation};
use tailback_core::foreign::{Endpoint, Flight, Progress, Setup, Stack, StackFault, Stacks, State};
use tailback_core::packet::Ecn;
use tailback_core::probe::Tables;
use tailback_core::scenario::{FlowSpec, Scenario, Value};
use tailback_core::time::{Bytes, Duration, Time};

const DATA: usize = 1_000;
const WINDOW: u64 = 20;
const RTO: Duration = Duration::from_ms(300);

/// The stack's fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Nothing,
    Panics,
    PanicsAtBirth,
    AsksForNoTimer,
    IgnoresItsWindow,
    SendsGiants,
    SendsNothing,
    ReadsMoreThanArrives,
    ReadsMoreThanWasWritten,
    WakesWithoutEnd,
    SendsWithoutEnd,
}

#[derive(Debug)]
struct Fake(Fault);

/// Go-back-N with a constant window: a data packet contains its number and the bytes of data it stands for, an ACK the
/// next expected number; 8 bytes each.
#[derive(Debug)]
struct FakeEnd {
    fault: Fault,
    is_client: bool,
    greets: bool,
    is_established: bool,
    written: u64,
    sent: u64,
    acked: u64,
    end: Option<u64>,
    expected: u64,
    unread: u64,
    owes_ack: bool,
    peer_end: Option<u64>,
    timer: Time,
    is_closed: bool,
    packets: u64,
    lost: u64,
}

impl Stack for Fake {
    fn version(&self) -> &str {
        "0.1-fake"
    }
    fn algorithms(&self) -> &[&'static str] {
        &["fixed"]
    }
    fn least_mtu(&self) -> u32 {
        1_100
    }
    fn connect(&self, _setup: &Setup<'_>) -> [Box<dyn Endpoint>; 2] {
        assert!(self.0 != Fault::PanicsAtBirth, "no such thing as a connection");
        [true, false].map(|is_client| -> Box<dyn Endpoint> {
            Box::new(FakeEnd {
                fault: self.0,
                is_client,
                greets: is_client,
                is_established: false,
                written: 0,
                sent: 0,
                acked: 0,
                end: None,
                expected: 0,
                unread: 0,
                owes_ack: false,
                peer_end: None,
                timer: Time::NEVER,
                is_closed: false,
                packets: 0,
                lost: 0,
            })
        })
    }
}

impl Endpoint for FakeEnd {
    fn on_datagram(&mut self, now: Time, datagram: &[u8], _ecn: Ecn) {
        assert!(self.fault != Fault::Panics || now < Time::from_ms(500), "attempt to subtract with overflow");
        self.is_established = true;
        let number = u64::from_le_bytes(datagram[1..9].try_into().expect("eight bytes"));
        match datagram[0] {
            b'd' | b'e' => {
                if number == self.expected {
                    self.expected += 1;
                    self.unread += u64::from_le_bytes(datagram[9..17].try_into().expect("eight bytes"));
                    if datagram[0] == b'e' {
                        self.peer_end = Some(self.expected);
                    }
                }
                self.owes_ack = true;
            }
            b'h' => self.owes_ack = true,
            _ => {
                if number > self.acked {
                    self.acked = number;
                    self.timer = now + RTO;
                }
                if self.acked == self.sent {
                    self.timer = Time::NEVER;
                }
            }
        }
    }
    fn poll_transmit(&mut self, now: Time, datagram: &mut Vec<u8>) -> Option<Ecn> {
        let is_late = now >= Time::from_ms(500);
        if self.fault == Fault::SendsWithoutEnd && is_late {
            self.owes_ack = true;
        }
        let (kind, number) = if self.greets {
            self.greets = false;
            self.timer = now + RTO;
            (b'h', 0)
        } else if self.owes_ack {
            self.owes_ack = false;
            (b'a', self.expected)
        } else {
            let limit = self.end.unwrap_or(self.written.div_ceil(DATA as u64));
            let window = if self.fault == Fault::IgnoresItsWindow && is_late { 10 * WINDOW } else { WINDOW };
            if !self.is_established || self.is_closed || self.sent >= limit.min(self.acked + window) {
                return None;
            }
            self.sent += 1;
            self.timer = now + RTO;
            (if Some(self.sent) == self.end { b'e' } else { b'd' }, self.sent - 1)
        };
        if self.fault == Fault::AsksForNoTimer {
            self.timer = Time::NEVER;
        }
        self.packets += 1;
        datagram.push(kind);
        datagram.extend_from_slice(&number.to_le_bytes());
        if kind == b'd' || kind == b'e' {
            let left = self.written.saturating_sub(number * DATA as u64);
            datagram.extend_from_slice(&left.min(DATA as u64).to_le_bytes());
        }
        match self.fault {
            Fault::SendsGiants if is_late => datagram.resize(5_000, 0),
            Fault::SendsNothing if is_late => datagram.clear(),
            _ if kind == b'd' || kind == b'e' => datagram.resize(DATA, 0),
            _ => {}
        }
        Some(Ecn::NotEct)
    }
    fn next_timeout(&mut self) -> Time {
        self.timer
    }
    fn on_timeout(&mut self, now: Time) {
        if self.fault == Fault::WakesWithoutEnd && now >= Time::from_ms(500) {
            self.timer = now;
            return;
        }
        if now >= self.timer {
            self.greets = self.is_client && !self.is_established;
            self.lost += self.sent - self.acked;
            self.sent = self.acked;
            self.timer = if self.is_closed { Time::NEVER } else { now + RTO };
        }
    }
    fn write(&mut self, most: Bytes) -> Bytes {
        let room = (self.acked + 10 * WINDOW) * DATA as u64;
        let taken = most.min(room.saturating_sub(self.written));
        self.written += taken;
        taken
    }
    fn finish(&mut self) {
        self.end = Some(self.written.div_ceil(DATA as u64).max(1));
    }
    fn read(&mut self, _now: Time) -> Bytes {
        let bytes = std::mem::take(&mut self.unread);
        match self.fault {
            Fault::ReadsMoreThanArrives => 2 * bytes,
            // The client's greeting arrived too, in nine bytes.
            Fault::ReadsMoreThanWasWritten if self.peer_end.is_some() => bytes + 5,
            _ => bytes,
        }
    }
    fn close(&mut self, _now: Time) {
        self.is_closed = true;
        self.timer = Time::NEVER;
    }
    fn progress(&mut self) -> Progress {
        let is_acknowledged = self.end.is_some_and(|end| self.acked >= end);
        let peer_finished = self.peer_end.is_some();
        Progress {
            is_established: self.is_established,
            peer_finished,
            is_acknowledged,
            is_closed: self.is_closed || !self.is_client && is_acknowledged && peer_finished,
            has_failed: false,
        }
    }
    fn flight(&mut self) -> Flight {
        Flight { cwnd: WINDOW * DATA as u64, in_flight: (self.sent - self.acked) * DATA as u64 }
    }
    fn state(&mut self) -> State {
        State {
            cwnd: WINDOW * DATA as u64,
            in_flight: (self.sent - self.acked) * DATA as u64,
            srtt: Duration::from_ms(40),
            packets_sent: self.packets,
            packets_lost: self.lost,
            congestion_events: self.lost,
            bytes_acked: self.acked * DATA as u64,
            ..State::default()
        }
    }
}

fn over_fake(app: &str) -> Scenario {
    let mut it = flow("theirs", app, Some(tcp("fixed", "fake")));
    let tcp = it.tcp.as_mut().expect("tcp");
    tcp.transport = Some("fake".into());
    (tcp.send_buffer, tcp.receive_buffer) = (None, None);
    dumbbell(10_000_000, 40 * MS, Some(60_000), 5, vec![it, bulk("cubic", "linux")])
}

fn ended(scenario: &Scenario, fault: Fault) -> Simulation {
    let stack: Arc<dyn Stack> = Arc::new(Fake(fault));
    let stacks = Stacks::from([("fake".to_string(), stack)]);
    let mut simulation = Simulation::build_hosting(scenario, &Default::default(), &stacks).expect("valid");
    while !simulation.run_events(10_000).expect("it ends") {}
    simulation
}

fn run(scenario: &Scenario, fault: Fault) -> Result<Tables, Box<StackFault>> {
    let simulation = ended(scenario, fault);
    let fault = simulation.faults().next().cloned();
    fault.map_or_else(|| Ok(simulation.finish()), |fault| Err(Box::new(fault)))
}

/// The tables of a run, even if the stack is faulty.
fn tables_of(scenario: &Scenario, fault: Fault) -> Tables {
    ended(scenario, fault).finish()
}

#[test]
fn a_foreign_flow_shares_the_link_and_fills_the_tables() {
    let mut scenario = over_fake("bulk");
    scenario.instruments.segments = vec!["theirs".into()];
    scenario.instruments.packets = vec!["theirs".into()];
    scenario.instruments.polls = vec!["theirs".into()];
    scenario.instruments.poll_interval_ps = 100 * MS;
    let tables = run(&scenario, Fault::Nothing).expect("sound");
    let received = column(&tables, "flows", "bytes_received");
    // A window of 20 kB at a base RTT of 40 ms, with a queue shared with CUBIC.
    assert!(received[0] > 500_000.0 && received[0] < 2_500_000.0, "{received:?}");
    assert!(received[1] > 1_000_000.0, "{received:?}");
    assert_eq!(column(&tables, "polls", "cwnd").first(), Some(&20_000.0));
    assert!(!column(&tables, "stack_states", "cwnd").is_empty());
    let lost = column(&tables, "packets", "received_s");
    assert!(lost.iter().any(|t| !t.is_nan()));
    assert_eq!(bits(&tables), bits(&run(&scenario, Fault::Nothing).expect("sound")));
}

#[test]
fn transfers_close_and_open_again() {
    let mut scenario = over_fake("transfers");
    for (key, value) in [("bytes", 50_000.0), ("idle_low", 0.1), ("idle_high", 0.2)] {
        scenario.flows[0].app.params.insert(key.into(), Value::Number(value));
    }
    scenario.instruments.requests = vec!["theirs".into()];
    let tables = run(&scenario, Fault::Nothing).expect("sound");
    let times = column(&tables, "requests", "response_time_s");
    assert!(times.len() > 4 && times[..times.len() - 1].iter().all(|t| *t > 0.08), "{times:?}");
    assert_eq!(column(&tables, "flows", "connections")[0], times.len() as f64);
    assert!(column(&tables, "flows", "connections_open")[0] <= 1.0);
}

#[test]
fn a_wires_copies_and_losses_are_carried_like_any_packets() {
    let mut scenario = over_fake("bulk");
    (scenario.links[0].wire.duplicate, scenario.links[0].wire.loss) = (0.1, 0.02);
    let tables = run(&scenario, Fault::Nothing).expect("sound");
    assert!(column(&tables, "flows", "bytes_received")[0] > 100_000.0);
}

#[test]
fn a_bad_stack_ends_its_flow_alone_with_a_row_and_its_name() {
    for (fault, words, kind) in [
        (Fault::Panics, "it panicked: attempt to subtract with overflow", 0.0),
        (Fault::PanicsAtBirth, "it panicked: no such thing", 0.0),
        (Fault::SendsGiants, "a datagram of 5000 bytes, 5028 with headers, over an MTU of 1500", 1.0),
        (Fault::SendsNothing, "a datagram of 0 bytes", 1.0),
        (Fault::IgnoresItsWindow, "beyond its window: 33 datagrams in a row", 2.0),
        (Fault::ReadsMoreThanArrives, "it has read 2000 bytes, of which 1009 arrived in datagrams", 0.0),
        (Fault::WakesWithoutEnd, "without letting time pass", 3.0),
        (Fault::SendsWithoutEnd, "without letting time pass", 3.0),
        (Fault::AsksForNoTimer, "asks for no timer", 4.0),
    ] {
        let found = run(&over_fake("bulk"), fault).expect_err("a fault");
        let sentence = found.sentence();
        for part in [words, "fake 0.1-fake", "flow theirs of test (seed 1)", " s: ", "The flow ended then"] {
            assert!(sentence.contains(part), "{fault:?}: {sentence}");
        }
        let (least, most) = if fault == Fault::PanicsAtBirth { (0, 0) } else { (0, 5_000) };
        assert!((Time::from_ms(least)..=Time::from_ms(most)).contains(&found.at), "{sentence}");

        let tables = tables_of(&over_fake("bulk"), fault);
        assert_eq!(tables.warnings.last(), Some(&sentence));
        let born = if fault == Fault::PanicsAtBirth { 0.0 } else { 1.0 };
        for (name, value) in
            [("t_s", found.at.as_secs_f64()), ("kind", kind), ("flow", 0.0), ("connections", born)]
        {
            assert_eq!(column(&tables, "stack_faults", name), [value], "{fault:?} {name}");
        }
        assert_eq!(column(&tables, "flows", "connections_failed")[0], born, "{fault:?}");
        assert_eq!(column(&tables, "flows", "connections_open")[0], 0.0, "{fault:?}");
        // CUBIC has the link to itself: 10 Mbit/s for five seconds are 6.25 MB.
        assert!(column(&tables, "flows", "bytes_received")[1] > 5_000_000.0, "{fault:?}");
    }
    let sound = tables_of(&over_fake("bulk"), Fault::Nothing);
    assert!(sound.tables.iter().all(|table| table.name != "stack_faults"));
}

#[test]
fn a_stack_reads_no_more_than_was_written_at_the_other_end() {
    let mut scenario = over_fake("bulk");
    scenario.flows[0].app.params.insert("bytes".into(), Value::Number(50_000.0));
    let fault = run(&scenario, Fault::ReadsMoreThanWasWritten).expect_err("a fault");
    assert!(fault.what.contains("it has read 50005 bytes, of which 50000 were written"), "{fault}");
    let tables = run(&scenario, Fault::Nothing).expect("sound");
    assert_eq!(column(&tables, "flows", "bytes_received")[0], 50_000.0);
}

#[test]
fn more_connections_than_a_run_has_of_foreign_stacks_end_it() {
    let mut scenario = over_fake("bulk");
    let one = scenario.flows.remove(0);
    let flows =
        |count: usize| (0..count).map(|number| FlowSpec { name: format!("their{number}"), ..one.clone() });
    let stacks = Stacks::from([("fake".to_string(), Arc::new(Fake(Fault::Nothing)) as Arc<dyn Stack>)]);
    scenario.duration_ps = MS;
    let mut outcome = |count: usize| {
        scenario.flows = flows(count).collect();
        let mut simulation =
            Simulation::build_hosting(&scenario, &Default::default(), &stacks).expect("valid");
        loop {
            match simulation.run_events(200_000) {
                Ok(false) => {}
                other => return other,
            }
        }
    };
    assert_eq!(outcome(MOST_FOREIGN), Ok(true));
    let error = outcome(MOST_FOREIGN + 1).expect_err("one too many");
    assert_eq!((error.field.as_str(), error.value.as_str()), ("flows[10000].tcp.transport", "\"fake\""));
    assert!(error.problem.contains("flow their10000 wanted connection 10001"), "{error}");
    assert!(error.fix.contains("Open fewer at once"), "{error}");
}

#[test]
fn a_connection_given_up_before_its_handshake_is_no_fault() {
    let mut scenario = over_fake("bulk");
    scenario.links[0].wire.loss = 1.0;
    scenario.flows[0].stop_ps = Some(2_000 * MS);
    let tables = run(&scenario, Fault::Nothing).expect("no fault");
    assert_eq!(column(&tables, "flows", "bytes_received")[0], 0.0);
}

#[test]
fn what_a_stack_cannot_do_is_refused_before_time_zero() {
    let stack: Arc<dyn Stack> = Arc::new(Fake(Fault::Nothing));
    let known = Stacks::from([("fake".to_string(), stack)]);
    let refused = |stacks: &Stacks, change: &dyn Fn(&mut Scenario)| {
        let mut scenario = over_fake("bulk");
        change(&mut scenario);
        Simulation::build_hosting(&scenario, &Default::default(), stacks).err().expect("refused")
    };
    let at = |change: &dyn Fn(&mut Scenario)| refused(&known, change).field;
    fn settings(scenario: &mut Scenario) -> &mut tailback_core::scenario::TcpSpec {
        scenario.flows[0].tcp.as_mut().expect("tcp")
    }
    assert_eq!(refused(&Stacks::new(), &|_| {}).field, "flows[0].tcp.transport");
    assert_eq!(at(&|it| settings(it).transport = Some("fak".into())), "flows[0].tcp.transport");
    assert_eq!(at(&|it| settings(it).cc = "cubic".into()), "flows[0].tcp.cc");
    assert_eq!(at(&|it| settings(it).mtu = 1_000), "flows[0].tcp.mtu");
    assert_eq!(at(&|it| settings(it).receiver_stack = Some("linux".into())), "flows[0].tcp.receiver_stack");
    let beta = |it: &mut Scenario| drop(settings(it).cc_params.insert("beta".into(), Value::Number(0.5)));
    assert_eq!(at(&beta), "flows[0].tcp.cc_params");
    let reads =
        |it: &mut Scenario| drop(it.flows[0].app.params.insert("read_rate".into(), Value::Number(1e6)));
    assert_eq!(at(&reads), "flows[0].app.kind");
}
