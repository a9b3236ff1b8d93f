//! The page of `cargo tailback`: a single file without scripts or external resources.

use crate::bench::{Outcome, Verdict};

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8884;--soft:#8881;--good:#1a7f37;--bad:#cf222e;--known:#9a6700}\
@media(prefers-color-scheme:dark){:root{--good:#3fb950;--bad:#f85149;--known:#d29922}}\
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.35rem .6rem;border-bottom:1px solid var(--line);\
vertical-align:top}div.wide{overflow-x:auto}pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--soft);\
padding:.6rem;margin:.3rem 0;font-size:13px}.passed{color:var(--good)}.failed{color:var(--bad)}.known{color:var(--known)}\
details{margin:.3rem 0}summary{cursor:pointer}";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The page of a stack's tests: a matrix, the details of each test, and the scenarios.
pub fn page(name: &str, version: &str, outcomes: &[Outcome], scenarios: &[(&str, &str)]) -> String {
    let cut = |test: &str| {
        test.rsplit_once('/').map_or((test.to_string(), String::new()), |(a, b)| (a.into(), b.into()))
    };
    let mut rows: Vec<String> = Vec::new();
    let mut columns: Vec<String> = Vec::new();
    for outcome in outcomes {
        let (case, cc) = cut(&outcome.test);
        if !rows.contains(&case) {
            rows.push(case);
        }
        if !columns.contains(&cc) {
            columns.push(cc);
        }
    }
    let head: String = columns.iter().map(|cc| format!("<th>{}</th>", escaped(cc))).collect();
    let cell = |case: &str, cc: &str| {
        let test = format!("{case}/{cc}");
        let Some(outcome) = outcomes.iter().find(|it| it.test == test) else {
            return "<td></td>".to_string();
        };
        let text = outcome.verdict.word();
        format!("<td><a class=\"{text}\" href=\"#{0}\">{text}</a></td>", escaped(&test))
    };
    let matrix: String = rows
        .iter()
        .map(|case| {
            let cells: String = columns.iter().map(|cc| cell(case, cc)).collect();
            format!("<tr><th>{}</th>{cells}</tr>\n", escaped(case))
        })
        .collect();
    let details: String = outcomes
        .iter()
        .map(|outcome| {
            let text = outcome.verdict.word();
            let test = escaped(&outcome.test);
            let why = escaped(outcome.text.trim_end());
            format!("<h3 id=\"{test}\">{test}: <span class=\"{text}\">{text}</span></h3>\n<pre>{why}</pre>\n")
        })
        .collect();
    let files: String = scenarios
        .iter()
        .map(|(case, text)| {
            format!("<details><summary>{}</summary><pre>{}</pre></details>\n", escaped(case), escaped(text))
        })
        .collect();
    let failed = outcomes.iter().filter(|it| it.verdict == Verdict::Failed).count();
    let title = format!("{} {}", escaped(name), escaped(version));
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{title}: tailback</title><style>{STYLE}</style>\n\
         <h1>{title}</h1>\n<p>{} tests, {failed} failed. tailback-bench {}. The same code gives the same page.</p>\n\
         <div class=\"wide\"><table><tr><th>scenario</th>{head}</tr>\n{matrix}</table></div>\n\
         <h2>Each test</h2>\n{details}<h2>Scenarios</h2>\n{files}</html>\n",
        outcomes.len(),
        env!("CARGO_PKG_VERSION"),
    )
}
