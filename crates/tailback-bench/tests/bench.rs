//! Results of a bench for a correct stack, for faulty stacks, and for mistakes of the user.
#![allow(missing_docs)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use tailback_bench::{Bench, Outcome, Verdict, bench};

mod common;

use common::{Fault, Window};

fn with(fault: Fault) -> Bench {
    bench!("window", Window(fault))
        .without_suite()
        .folder("tests/paths")
        .seeds(2)
        .patience(Duration::from_millis(500))
}

fn ran(bench: &Bench, test: &str) -> Outcome {
    bench.run(test).unwrap_or_else(|| panic!("no {test} among {:?}", bench.tests()))
}

/// Asserts that a test fails and that its text contains all of `words`.
fn fails(bench: &Bench, test: &str, words: &[&str]) {
    let outcome = ran(bench, test);
    assert_eq!(outcome.verdict, Verdict::Failed, "{outcome}");
    for word in words {
        assert!(outcome.text.contains(word), "{word} is not in {outcome}");
    }
}

#[test]
fn a_sound_stack_passes_where_its_window_fits_and_fails_where_it_does_not() {
    let bench = with(Fault::Nothing);
    let wide = ran(&bench, "tests/paths/wide/fixed");
    assert_eq!(wide.verdict, Verdict::Passed, "{wide}");
    fails(&bench, "tests/paths/narrow/fixed", &["failed: subject.loss <= 10%", "2 seeds", "worst with seed"]);
    let repeats = ran(&bench, "repeats/fixed");
    assert_eq!(repeats.verdict, Verdict::Passed, "{repeats}");
}

#[test]
fn a_panic_is_reported_with_its_place_and_the_other_tests_go_on() {
    let bench = with(Fault::Panics);
    let words =
        ["attempt to subtract with overflow", "tests/common/mod.rs:", "flow subject", "seed 1", "at 0.5"];
    fails(&bench, "tests/paths/wide/fixed", &words);
    fails(&bench, "tests/paths/narrow/fixed", &["attempt to subtract"]);
}

#[test]
fn a_call_that_never_comes_back_is_named() {
    let words = ["never answers", "on_datagram of the", "at 0.5", "for more than 0.5 s"];
    fails(&with(Fault::NeverAnswers), "tests/paths/wide/fixed", &words);
    fails(&with(Fault::NeverAnswers), "repeats/fixed", &["never answers"]);
}

#[test]
fn a_stack_that_hears_nothing_is_named_before_its_numbers() {
    let words = ["No connection was ever established", "poll_transmit() gave", "failed: subject."];
    fails(&with(Fault::SaysNothing), "tests/paths/wide/fixed", &words);
}

#[test]
fn a_stack_that_waits_for_nothing_is_named() {
    fails(&with(Fault::WaitsForever), "tests/paths/wide/fixed", &["did what none may", "wait"]);
}

#[test]
fn a_stack_that_sends_beyond_its_window_is_named() {
    fails(&with(Fault::IgnoresItsWindow), "tests/paths/wide/fixed", &["beyond its window"]);
}

#[test]
fn the_call_that_reads_the_clock_is_named() {
    fails(&with(Fault::ReadsTheClock), "repeats/fixed", &["next_timeout of the client", "reads a clock"]);
}

#[test]
fn the_call_that_draws_numbers_is_named() {
    let words =
        ["poll_transmit of the client at 0.5", "datagrams of 1009 bytes that differ", "draws random numbers"];
    fails(&with(Fault::DrawsNumbers), "repeats/fixed", &words);
}

#[test]
fn what_the_user_wrote_wrongly_fails_by_name_and_the_rest_goes_on() {
    let bench = with(Fault::Nothing)
        .folder("tests/broken")
        .folder("tests/nowhere")
        .known("transport/gone/fixed", "why");
    fails(&bench, "tests/broken/no-subject/fixed", &["no flow called subject"]);
    fails(&bench, "tests/broken/misspelt/fixed", &["dumbell", "dumbbell"]);
    fails(&bench, "tests/nowhere/fixed", &["cannot be read"]);
    fails(&bench, "transport/gone/fixed", &["there is no such test"]);
    assert_eq!(ran(&bench, "tests/paths/wide/fixed").verdict, Verdict::Passed);
}

#[test]
fn a_failure_that_is_known_passes_until_it_is_none() {
    let known = with(Fault::Nothing).known("tests/paths/narrow/fixed", "the queue is short");
    let outcome = ran(&known, "tests/paths/narrow/fixed");
    assert_eq!(outcome.verdict, Verdict::KnownToFail, "{outcome}");
    assert!(outcome.text.contains("the queue is short"));
    let wrong = with(Fault::Nothing).known("tests/paths/wide/fixed", "it was so once");
    fails(&wrong, "tests/paths/wide/fixed", &["remove the line"]);
}

#[test]
fn the_suite_has_every_file_of_its_folder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/transport");
    let names = fs::read_dir(folder).expect("a folder").map(|it| it.expect("an entry").file_name());
    let names = names.map(|it| it.to_string_lossy().into_owned());
    let mut files: Vec<String> = names.filter_map(|it| it.strip_suffix(".toml").map(String::from)).collect();
    files.retain(|name| name != "suite");
    files.sort();
    let tests = bench!("window", Window(Fault::Nothing)).tests();
    let cases: Vec<&str> =
        tests.iter().filter_map(|it| it.strip_prefix("transport/")?.strip_suffix("/fixed")).collect();
    assert_eq!(cases, files);
}
