//! Conditions and verdicts must match `tests/expect/conditions.json`, in Rust and in Python.

use serde_json::Value;
use tailback::{Scenario, Verdict, run, test};
use tailback_measures::run::keys;
use tailback_measures::verdict::judge;
use tailback_scenario::condition::{Condition, Metrics};

fn kept() -> Value {
    serde_json::from_str(include_str!("../../../tests/expect/conditions.json")).expect("JSON")
}

fn text(of: &Value) -> &str {
    of.as_str().expect("a text")
}

fn numbers(of: &Value) -> Vec<f64> {
    let number = |each: &Value| {
        each.as_f64().unwrap_or_else(|| text(each).parse().expect("a number that JSON has not"))
    };
    of.as_array().expect("a list").iter().map(number).collect()
}

fn are_close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * b.abs().max(1e-9))
}

struct Known(Vec<(String, String)>);

impl Metrics for Known {
    fn lacks(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, lacks)| lacks.clone())
    }
    fn unit(&self, name: &str) -> &'static str {
        keys::unit(name)
    }
    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }
}

#[test]
fn each_condition_reads_as_in_python() {
    let kept = kept();
    let metrics = kept["metrics"].as_array().expect("pairs").iter();
    let known = Known(metrics.map(|pair| (text(&pair[0]).into(), text(&pair[1]).into())).collect());
    for row in kept["conditions"].as_array().expect("conditions") {
        let written = text(&row["text"]);
        match Condition::parse(written, &known, true, false) {
            Ok(condition) => {
                let sides = condition.sides(&|name| name.len() as f64 / 4.0, &|name| name.len() as f64 / 8.0);
                assert!(row["sides"].is_array(), "{written}: it reads, and in Python {}", row["problem"]);
                assert!(are_close(&sides, &numbers(&row["sides"])), "{written}: {sides:?}, {}", row["sides"]);
                let names: Vec<&str> = row["names"].as_array().expect("names").iter().map(text).collect();
                assert_eq!(condition.names(), names, "{written}");
                assert_eq!(condition.needs_baseline(), row["needs_baseline"] == true, "{written}");
            }
            Err(error) => {
                let problem = format!("at character {}: {}", error.at + 1, error.problem);
                assert_eq!((&*problem, &*error.fix), (text(&row["problem"]), text(&row["fix"])), "{written}");
            }
        }
    }
}

#[test]
fn each_verdict_is_pythons() {
    for row in kept()["verdicts"].as_array().expect("verdicts") {
        let sides: Vec<Vec<f64>> = row["sides"].as_array().expect("seeds").iter().map(numbers).collect();
        let found = judge(text(&row["relation"]), &sides, row["confidence"].as_f64().expect("a number"));
        assert_eq!(found.word(), text(&row["verdict"]), "{row}");
    }
}

#[test]
fn a_scenarios_expectations_are_judged_as_by_python() {
    let kept = kept();
    let scenario = Scenario::from_toml(text(&kept["scenario"]["toml"])).expect("valid");
    let tested = test(&scenario).expect("it runs");
    assert_eq!(tested.seeds().len() as u64, kept["scenario"]["seeds"].as_u64().expect("a count"));
    assert_eq!(tested.verdict(), Verdict::Passed, "{tested}");
    let rows = kept["scenario"]["conditions"].as_array().expect("conditions");
    assert_eq!(tested.conditions().len(), rows.len());
    for (mine, row) in tested.conditions().iter().zip(rows) {
        assert_eq!((&*mine.condition, mine.verdict.word()), (text(&row["text"]), text(&row["verdict"])));
        let interval = [mine.measured.estimate, mine.measured.low, mine.measured.high];
        let wanted = ["mean", "low", "high"].map(|key| row[key].as_f64().expect("a number"));
        assert!(are_close(&interval, &wanted), "{}: {interval:?}, {wanted:?}", mine.condition);
        let bounds: Vec<f64> = mine.bounds.iter().map(|bound| bound.estimate).collect();
        assert!(are_close(&bounds, &numbers(&row["bounds"])), "{}: {bounds:?}", mine.condition);
        assert_eq!(Some(mine.worst_seed), row["worst"].as_u64(), "{}", mine.condition);
    }
}

#[test]
fn what_is_wrong_with_an_expectation_is_said_before_any_run() {
    let plain = "duration = '1s'\n[dumbbell]\nrate = '5mbit'\nrtt = '20ms'\n[[flow]]\nname = 'a'\n";
    let refused = |more: &str| {
        let scenario = Scenario::from_toml(&format!("{plain}{more}")).expect("valid");
        test(&scenario).expect_err("it was to be refused").to_string()
    };
    assert!(refused("").contains("expect: the scenario expects nothing"));
    let found = refused("[expect]\nconditions = ['a.los < 1', 'a.delay_p95_ms < 50']");
    assert!(found.contains("expect.conditions[0]: at character 1: there is no metric \"a.los\""), "{found}");
    assert!(found.contains("Add to [instruments] packets = [\"a\"]"), "{found}");
    let late = refused("[expect]\nconditions = ['a.goodput_mbps > 1']\nfrom = '2s'");
    assert!(late.contains("the window of time lies beyond the run"), "{late}");
    let other =
        refused("[expect]\nconditions = ['a.loss < baseline']\nbaseline = 'reno'\nbaseline_flows = ['b']");
    assert!(other.contains("expect.baseline_flows[0]") && other.contains("There are: a."), "{other}");
    let unknown = refused("[expect]\nconditions = ['a.loss < baseline']\nbaseline = 'qubic'");
    assert!(unknown.contains("expect.baseline"), "{unknown}");
}

#[test]
fn a_failed_condition_names_its_worst_seed() {
    let text = "duration = '1s'\nseed = 5\n[dumbbell]\nrate = '5mbit'\nrtt = '20ms'\nwire = { loss = 0.01 }\n[[flow]]\n\
                name = 'a'\n[expect]\nconditions = ['a.goodput_mbps > 5']\nleast = 2";
    let tested = test(&Scenario::from_toml(text).expect("valid")).expect("it runs");
    assert_eq!(tested.verdict(), Verdict::Failed, "{tested}");
    let worst = tested.conditions()[0].worst_seed;
    let at = |seed| run(&Scenario::from_toml(text).expect("valid").with_seed(seed)).expect("it runs");
    let goodput = |seed| at(seed).measure("a.goodput_mbps").expect("a number");
    assert!(tested.seeds().iter().all(|seed| goodput(worst) <= goodput(*seed)));
    assert!(tested.to_string().contains(&format!("worst with seed {worst}")));
}
