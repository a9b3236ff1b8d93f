//! Every measure must have the same value in Rust as in Python: both must match `tests/metrics/names.json`.

use std::collections::BTreeMap;

use serde_json::Value;
use tailback::{Column, Error, Result, Scenario, run};

const PATH: &str = "duration = '2s'\n[dumbbell]\nrate = '5mbit'\nrtt = '20ms'\n";

fn ran(text: &str) -> Result {
    run(&Scenario::from_toml(text).expect("valid")).expect("it runs")
}

/// Compares all names; returns their number.
fn compare(name: &str, text: &str) -> usize {
    let kept: Value = serde_json::from_str(include_str!("../../../tests/metrics/names.json")).expect("JSON");
    let result = ran(text);
    let measured = |which: &str, name: &str| match which {
        "whole" => result.measure(name),
        _ => result.measure_between(name, 2.0, 6.0),
    };
    let mut wrong = BTreeMap::new();
    let mut compared = 0;
    for which in ["whole", "window"] {
        for (metric, wanted) in kept[name][which]["values"].as_object().expect("values") {
            let found = measured(which, metric).unwrap_or_else(|error| panic!("{which} {metric}: {error}"));
            let is_same = match wanted.as_f64() {
                None => found.is_nan(),
                Some(wanted) => (found - wanted).abs() <= 1e-9 * wanted.abs(),
            };
            if !is_same {
                wrong.insert(format!("{which} {metric}"), (found, wanted.clone()));
            }
            compared += 1;
        }
        for (metric, lacks) in kept[name][which]["lacks"].as_object().expect("lacks") {
            let error = measured(which, metric).expect_err(metric).to_string();
            assert!(error.contains(lacks.as_str().expect("a text")), "{metric}: {error}");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let listed = kept[name]["whole"]["values"].as_object().expect("values").keys();
    let mut listed: Vec<&String> = listed.filter(|name| !name.contains(".own_")).collect();
    let mut mine = result.measures();
    mine.sort();
    mine.dedup();
    listed.sort();
    assert_eq!(mine.iter().collect::<Vec<_>>(), listed);
    compared
}

#[test]
fn each_name_has_pythons_value() {
    assert!(compare("one_run", include_str!("../../../tests/metrics/one_run.toml")) > 80);
    assert!(compare("users_run", include_str!("../../../tests/metrics/users_run.toml")) > 80);
    assert!(compare("people_run", include_str!("../../../tests/metrics/people_run.toml")) > 60);
    assert!(compare("pages_run", include_str!("../../../tests/metrics/pages_run.toml")) > 60);
}

fn refused<T: std::fmt::Debug>(found: std::result::Result<T, Error>) -> String {
    found.expect_err("it was to be refused").to_string()
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_what_would_be_right() {
    let error = Scenario::from_toml(&format!("{PATH}[[flow]]\nname = 'a'\ncc = 'qubic'\n")).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("line 7") && said.contains("flow[0].cc") && said.contains("cubic"), "{said}");
    assert_eq!((error.problems().len(), error.problems()[0].at.is_some()), (1, true));
    let said = refused(Scenario::from_toml("duration = "));
    assert!(said.contains("line 1"), "{said}");
    let said = refused(Scenario::dumbbell("10mbit", "40", "1s").flow("a", &[("cc", "cubic")]).build());
    assert!(said.contains("dumbbell.rtt"), "{said}");
    let result = ran(&format!("{PATH}[[flow]]\nname = 'a'\n"));
    let said = refused(result.measure("a.delay_p95_ms"));
    assert!(said.contains("Add to [instruments] packets = [\"a\"]"), "{said}");
    let said = refused(result.measure("a.goodput_mpbs"));
    assert!(said.contains("Did you mean \"a.goodput_mbps\"?"), "{said}");
    assert!(refused(result.measure("b.loss")).contains("there is no metric"));
    let said = refused(Scenario::from_toml(&format!("{PATH}[[flow]]\nname = 'a'\ntransport = 'quinn'\n")));
    assert!(said.contains("flow[0].transport"), "{said}");
}

#[test]
fn a_builder_writes_what_a_file_says() {
    let built = Scenario::dumbbell("5mbit", "20ms", "2s").flow("a", &[("cc", "reno")]).build().unwrap();
    let read = Scenario::from_toml(&format!("{PATH}[[flow]]\nname = 'a'\ncc = 'reno'\n")).unwrap();
    assert_eq!(built, read);
    assert_eq!(Scenario::from_toml(built.to_toml()).unwrap(), built);
    assert_eq!((built.with_seed(7).seed(), built.duration_s()), (7, 2.0));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let text = format!("{PATH}wire = {{ loss = 0.02 }}\n[[flow]]\nname = 'a'\n");
    let scenario = Scenario::from_toml(&text).unwrap();
    let print = |seed| run(&scenario.with_seed(seed)).unwrap().fingerprint();
    assert_eq!(print(1), print(1));
    assert_ne!(print(1), print(2));
}

#[test]
fn columns_have_types_units_and_labels() {
    let result =
        ran(&format!("{PATH}[[flow]]\nname = 'a'\n[[flow]]\nname = 'b'\n[instruments]\npolls = 'all'\n"));
    let polls = result.table("polls").expect("polls");
    assert!(matches!(polls.column("cwnd"), Some(Column::U64(values)) if values.len() == polls.len()));
    assert_eq!((polls.unit("cwnd"), polls.column("none").is_none()), (Some("B"), true));
    let rows = polls.rows_of("b");
    assert!(!rows.is_empty() && rows.len() < polls.len());
    let flows = polls.numbers("flow").expect("flows");
    assert!(rows.iter().all(|row| polls.label("flow", flows[*row] as usize) == Some("b")));
    assert!(result.table("packets").is_none() && !result.tables().contains(&"packets"));
}
