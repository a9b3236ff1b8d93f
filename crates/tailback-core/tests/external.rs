//! Algorithms from outside the registry, and how every algorithm is notified of pauses.

use std::sync::{Arc, Mutex};

use crate::common::{MS, column, dumbbell, flow, tcp};
use tailback_core::cc::external::{External, Maker, Makers};
use tailback_core::cc::{Ack, Congestion, CongestionControl, Control, Resume};
use tailback_core::engine::Simulation;
use tailback_core::probe::Tables;
use tailback_core::scenario::{Params, Scenario, Value};
use tailback_core::time::{Duration, Time};

/// Recorded: pauses in milliseconds, whether the application caused them, and restarts by the stack.
#[derive(Debug, Default)]
struct Seen {
    resumed: Vec<(u64, bool)>,
    restarts: usize,
}

/// Keeps the window constant and records its notifications.
#[derive(Debug)]
struct Watcher(Arc<Mutex<Seen>>, bool);

impl CongestionControl for Watcher {
    fn on_ack(&mut self, _ack: &Ack, _control: &mut Control) {}
    fn on_congestion(&mut self, _congestion: &Congestion, control: &mut Control) {
        control.ssthresh = control.cwnd;
    }
    fn on_resume(&mut self, resume: &Resume, _control: &mut Control) {
        self.0.lock().unwrap().resumed.push((resume.idle.as_ms(), resume.app_limited));
    }
    fn on_idle_restart(&mut self, _now: Time, _idle: Duration, _control: &mut Control) {
        self.0.lock().unwrap().restarts += 1;
    }
    fn owns_window(&self) -> bool {
        self.1
    }
}

#[derive(Debug)]
struct Watchers(Arc<Mutex<Seen>>, bool);

impl Maker for Watchers {
    fn check(&self, params: &Params) -> Result<(), String> {
        if params.is_empty() { Ok(()) } else { Err("it takes no parameters".into()) }
    }
    fn make(&self, _params: &Params, _seed: u64) -> Box<dyn External> {
        Box::new(Watcher(self.0.clone(), self.1))
    }
}

/// A client that requests 20 kB four times, with this think time in between.
fn asking(think_ms: f64) -> Scenario {
    let mut asking = flow("asking", "request-response", Some(tcp("watcher", "linux")));
    asking.app.params = Params::from([
        ("think".to_string(), Value::Number(think_ms)),
        ("response_bytes".to_string(), Value::Number(10_000.0)),
        ("count".to_string(), Value::Number(4.0)),
    ]);
    dumbbell(10_000_000, 50 * MS, None, 30, vec![asking])
}

fn watched(scenario: &Scenario, owns_window: bool) -> (Seen, Tables) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let maker: Arc<dyn Maker> = Arc::new(Watchers(seen.clone(), owns_window));
    let makers = Makers::from([("watcher".to_string(), maker)]);
    let mut simulation = Simulation::build_with(scenario, &makers).expect("a valid scenario");
    while !simulation.run_events(1_000_000).expect("a sound engine") {}
    let tables = simulation.finish();
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    (seen, tables)
}

#[test]
fn a_pause_shorter_than_a_timeout_is_reported_and_restarts_nothing() {
    let (seen, tables) = watched(&asking(20.0), false);
    // Three more requests and three more responses, separated by a round trip plus the client's think time.
    assert_eq!(seen.resumed.len(), 6, "{seen:?}");
    assert!(seen.resumed.iter().all(|(ms, app_limited)| *app_limited && (60..130).contains(ms)), "{seen:?}");
    assert_eq!(seen.restarts, 0);
    assert_eq!(column(&tables, "flows", "bytes_acked"), [400.0]);
}

#[test]
fn a_longer_pause_is_reported_too_and_restarts_what_does_not_own_its_window() {
    let (seen, _) = watched(&asking(3_000.0), false);
    assert_eq!((seen.resumed.len(), seen.restarts), (6, 6), "{seen:?}");
    assert!(
        seen.resumed.iter().all(|(ms, app_limited)| *app_limited && (3_000..3_200).contains(ms)),
        "{seen:?}"
    );
    let (seen, _) = watched(&asking(3_000.0), true);
    assert_eq!((seen.resumed.len(), seen.restarts), (6, 0), "{seen:?}");
}

#[test]
fn its_parameters_are_its_own_and_registered_names_are_taken() {
    let mut scenario = asking(20.0);
    let maker: Arc<dyn Maker> = Arc::new(Watchers(Arc::default(), false));
    let named = |name: &str| Makers::from([(name.to_string(), maker.clone())]);
    let error = Simulation::build_with(&scenario, &named("cubic")).err().expect("refused");
    assert!(error.to_string().contains("\"cubic\""), "{error}");
    let error = Simulation::build_with(&scenario, &Makers::new()).err().expect("refused");
    assert!(error.field == "flows[0].tcp.cc" && error.value.contains("watcher"), "{error}");
    let tcp = scenario.flows[0].tcp.as_mut().expect("it runs over tcp");
    tcp.cc_params.insert("beta".into(), Value::Number(0.5));
    let error = Simulation::build_with(&scenario, &named("watcher")).err().expect("refused");
    assert!(error.to_string().contains("it takes no parameters"), "{error}");
}
