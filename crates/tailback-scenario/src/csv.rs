//! A link's changes over time as CSV text. Each row has a time and a rate, a delay or a loss; the header states the
//! units.
//!
//! ```csv
//! # Lines like this one are comments.
//! time (s),rate (Mbit/s),delay (ms),loss (%)
//! 0,12.5,20,0
//! 0.1,11.8,,0.5
//! ```

use crate::part::{Probability, Rate, Span};
use crate::problem::{Fault, fault, hint};
use crate::quantity::Quantity;
use crate::schema::Step;

/// The smallest valid file.
pub const SMALLEST: &str = "time (s),rate (Mbit/s)\n0,1\n";
const EXAMPLE: &str = "Begin with a line such as: time (s),rate (Mbit/s)";
const MARK: char = '\u{feff}';

/// Content of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Time,
    Rate,
    Delay,
    Loss,
}

/// Accepted names of each column.
const NAMES: [(&str, Column); 7] = [
    ("time", Column::Time),
    ("t", Column::Time),
    ("rate", Column::Rate),
    ("throughput", Column::Rate),
    ("bandwidth", Column::Rate),
    ("delay", Column::Delay),
    ("loss", Column::Loss),
];

/// One percent in billionths.
const PERCENT: u64 = 10_000_000;
const SHARE: u64 = 100 * PERCENT;

impl Column {
    fn quantity(self) -> Quantity {
        if self == Column::Rate { Quantity::Rate } else { Quantity::Time }
    }
}

/// A cell: its column, counted from 1, and its text.
type Cell<'a> = (usize, &'a str);

/// Parses the steps of a file, in order of time from 0; an error names line and column.
pub fn steps(text: &str) -> Result<Vec<Step>, Fault> {
    let lines = text.trim_start_matches(MARK).lines().enumerate();
    let mut lines = lines.filter(|(_, line)| !(line.trim().is_empty() || line.starts_with('#')));
    let Some((first, header)) = lines.next() else { return Err(fault("the file is empty", EXAMPLE)) };
    let page = header.trim_start();
    if page.starts_with('<') {
        let shown: String = page.chars().take(20).collect();
        let problem = format!("\"{shown}\" begins a web page, not a table");
        return Err(at(first, 1, fault(problem, "Download the file itself, not the page that shows it")));
    }
    if page.starts_with(['{', '[']) {
        let fix = "If irtt, iperf3 or Flent wrote it: tailback trace read FILE --out changes.csv";
        return Err(at(first, 1, fault("this is JSON, not a table", fix)));
    }
    let separator = [',', ';', '\t'].into_iter().find(|sign| header.contains(*sign)).unwrap_or(',');
    let head = cells(header, separator);
    let columns = head.iter().map(|cell| column(*cell, head.len()).map_err(|found| at(first, cell.0, found)));
    let columns = columns.collect::<Result<Vec<(Column, u64)>, Fault>>()?;
    let count = |which| columns.iter().filter(|(column, _)| *column == which).count();
    let is_double = [Column::Rate, Column::Delay, Column::Loss].into_iter().any(|which| count(which) > 1);
    if count(Column::Time) != 1 || is_double || columns.len() < 2 {
        let problem = "the header needs a time, and a rate, a delay or a loss, each once";
        return Err(at(first, 1, fault(problem, EXAMPLE)));
    }
    let mut steps: Vec<Step> = Vec::new();
    for (number, line) in lines {
        let step = step(&cells(line, separator), &columns, steps.last());
        steps.push(step.map_err(|(column, found)| at(number, column, found))?);
    }
    if steps.is_empty() {
        return Err(at(first, 1, fault("nothing follows the header", "Add a row such as: 0,12.5")));
    }
    Ok(steps)
}

fn at(line: usize, column: usize, found: Fault) -> Fault {
    Fault { problem: format!("line {}, column {column}: {}", line + 1, found.problem), ..found }
}

fn cells(line: &str, separator: char) -> Vec<Cell<'_>> {
    let mut from = 1;
    let cell = |cell| {
        let text: &str = cell;
        let begins = from + text.chars().take_while(|sign| sign.is_whitespace()).count();
        from += text.chars().count() + 1;
        (begins, text.trim().trim_matches('"').trim())
    };
    line.split(separator).map(cell).collect()
}

/// Content of a header's column, and the base units per unit: `rate (Mbit/s)`, `rate [Mbit/s]`, `rate_mbps`.
fn column((_, cell): Cell<'_>, of: usize) -> Result<(Column, u64), Fault> {
    if cell.starts_with(|sign: char| sign.is_ascii_digit() || sign == '-') {
        let fix = match of {
            1 => "If this is a mahimahi trace, write trace = \"…\" in place of schedule",
            _ => EXAMPLE,
        };
        return Err(fault(format!("\"{cell}\" stands where the header should be"), fix));
    }
    let (name, unit) = cell.split_once(['(', '[', '_', ' ']).unwrap_or((cell, ""));
    let unit = unit.trim_matches(|sign: char| "()[] ".contains(sign));
    let word = name.trim().to_lowercase();
    let Some((_, column)) = NAMES.iter().find(|(known, _)| *known == word) else {
        let known = ["time", "rate", "delay", "loss"];
        if word == "rtt" {
            let fix = "Write delay (ms), with half of each round-trip time";
            return Err(fault("there is no column \"rtt\"", fix));
        }
        let fix = format!("{}Known: {}; remove other columns", hint(&word, &known), known.join(", "));
        return Err(fault(format!("there is no column \"{word}\""), fix));
    };
    if unit.is_empty() {
        let example = match column {
            Column::Rate => "Mbit/s",
            Column::Time | Column::Delay => "ms",
            Column::Loss => "%",
        };
        return Err(fault(
            format!("the unit of {word} is missing"),
            format!("Write for example {word} ({example})"),
        ));
    }
    if *column == Column::Loss {
        let scale = match unit.to_lowercase().as_str() {
            "%" | "percent" => PERCENT,
            "share" | "1" => SHARE,
            _ => {
                return Err(fault(
                    format!("\"{unit}\" is no unit of loss"),
                    "Write loss (%) or loss (share)",
                ));
            }
        };
        return Ok((Column::Loss, scale));
    }
    Ok((*column, column.quantity().unit(unit)?))
}

/// Parses a ratio from 0 to 1; `scale` is the number of billionths per unit.
fn share(cell: &str, scale: u64) -> Result<Probability, Fault> {
    let most = SHARE / scale;
    let number = cell.parse::<f64>().ok().filter(|number| number.is_finite());
    let number = number.ok_or_else(|| fault("this is not a number", "Write for example 0.5"))?;
    if !(0.0..=most as f64).contains(&number) {
        return Err(fault(format!("a loss lies in 0 to {most}"), "Correct it, or the unit in the header"));
    }
    Ok(Probability((number * scale as f64).round() / SHARE as f64))
}

/// Parses a row; an error names the column.
fn step(row: &[Cell<'_>], columns: &[(Column, u64)], before: Option<&Step>) -> Result<Step, (usize, Fault)> {
    if row.len() != columns.len() {
        let problem = format!("{} values, but the header has {} columns", row.len(), columns.len());
        return Err((1, fault(problem, "Give as many; an empty one leaves what is as it is")));
    }
    let mut step = Step { at: Span(0), rate: None, delay: None, loss: None };
    for ((begins, cell), (column, scale)) in row.iter().zip(columns) {
        if cell.is_empty() && *column != Column::Time {
            continue;
        }
        let wrong = |mut found: Fault| {
            if *column == Column::Time && cell.starts_with('-') {
                found.fix = "Count the time from the start, at 0".into();
            }
            (*begins, Fault { problem: format!("\"{cell}\": {}", found.problem), ..found })
        };
        if *column == Column::Loss {
            step.loss = Some(share(cell, *scale).map_err(wrong)?);
            continue;
        }
        let value = column.quantity().rounded(cell, *scale).map_err(wrong)?;
        match column {
            Column::Time => step.at = Span(value),
            Column::Rate => step.rate = Some(Rate(value)),
            Column::Delay => step.delay = Some(Span(value)),
            Column::Loss => {}
        }
        if *column == Column::Time {
            match before {
                None if value > 0 => {
                    let fix = format!("Subtract {cell} from every time");
                    return Err((*begins, fault("the first row is not at time 0", fix)));
                }
                Some(before) if value <= before.at.0 => {
                    let problem = format!("{} does not come after {}, the row before", step.at, before.at);
                    return Err((*begins, fault(problem, "Sort the rows by time, one an instant")));
                }
                _ => {}
            }
        }
    }
    if step.rate.is_none() && step.delay.is_none() && step.loss.is_none() {
        return Err((
            1,
            fault(
                "the row changes nothing",
                "Give a rate (0 if nothing got through), a delay or a loss, or remove the row",
            ),
        ));
    }
    Ok(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        let found = steps(text).expect_err("it is refused");
        format!("{}. {}", found.problem, found.fix)
    }

    #[test]
    fn units_stand_in_the_header_in_each_usual_way() {
        let expected = vec![
            Step { at: Span(0), rate: Some(Rate(12_500_000)), delay: Some(Span(20_000_000_000)), loss: None },
            Step { at: Span(100_000_000_000), rate: Some(Rate(0)), delay: None, loss: None },
        ];
        for text in [
            "# made by hand\ntime (s),rate (Mbit/s),delay (ms)\n0,12.5,20\n0.1,0,\n",
            "\u{feff}t_ms;throughput_kbps;delay [s]\r\n0;12500;0.02\r\n\r\n100;0;\r\n",
            "\"time s\"\t\"rate mbit\"\t\"delay us\"\n0\t12.5\t20000\n0.1e0\t0\t\n",
        ] {
            assert_eq!(steps(text), Ok(expected.clone()), "{text}");
        }
    }

    #[test]
    fn losses_are_percent_or_shares_and_an_empty_cell_leaves_what_is() {
        let read = |text: &str| -> Vec<Option<f64>> {
            steps(text).expect("it reads").iter().map(|step| step.loss.map(|loss| loss.0)).collect()
        };
        let expected = vec![Some(0.0), None, Some(0.125), Some(1.0)];
        let percent = read("time (s),rate (bps),loss (%)\n0,8,0\n1,8,\n2,,12.5\n3,,100\n");
        assert_eq!(percent, expected);
        assert_eq!(read("t_s,rate_bps,loss_share\n0,8,0\n1,8,\n2,,0.125\n3,,1\n"), expected);
    }

    #[test]
    fn measured_numbers_are_rounded_to_whole_bits_and_picoseconds() {
        let read = steps("time (s),rate (Mbit/s)\n0,1.0000005\n0.1234567890126,3.33333333333\n");
        let rows: Vec<(u64, u64)> = read
            .expect("it reads")
            .iter()
            .map(|step| (step.at.0, step.rate.map_or(0, |rate| rate.0)))
            .collect();
        assert_eq!(rows, [(0, 1_000_001), (123_456_789_013, 3_333_333)]);
    }

    #[test]
    fn a_fault_names_line_and_column() {
        for (text, expected) in [
            ("", "the file is empty"),
            (
                "12\n15\n",
                "line 1, column 1: \"12\" stands where the header should be. If this is a mahimahi trace",
            ),
            (
                "0,12\n",
                "line 1, column 1: \"0\" stands where the header should be. Begin with a line such as",
            ),
            ("time (s),rate\n0,1\n", "line 1, column 10: the unit of rate is missing"),
            ("time (s),rate (MB/s)\n0,1\n", "line 1, column 10: \"MB/s\" counts bytes"),
            (
                "time (s),rat (kbit/s)\n0,1\n",
                "line 1, column 10: there is no column \"rat\". Did you mean \"rate\"?",
            ),
            (
                "time (s)\n0\n",
                "line 1, column 1: the header needs a time, and a rate, a delay or a loss, each once",
            ),
            ("<!DOCTYPE html>\n", "line 1, column 1: \"<!DOCTYPE html>\" begins a web page, not a table"),
            (
                "{\"intervals\": []}\n",
                "line 1, column 1: this is JSON, not a table. If irtt, iperf3 or Flent",
            ),
            ("time (s),loss (ppm)\n0,1\n", "line 1, column 10: \"ppm\" is no unit of loss. Write loss (%)"),
            ("time (s),loss (%)\n0,101\n", "line 2, column 3: \"101\": a loss lies in 0 to 100"),
            ("time (s),loss (share)\n0,5\n", "line 2, column 3: \"5\": a loss lies in 0 to 1. Correct it"),
            ("time (s),loss (%)\n0,-1\n", "line 2, column 3: \"-1\": a loss lies in 0 to 100"),
            ("time (s),loss (%)\n0,nan\n", "line 2, column 3: \"nan\": this is not a number"),
            (
                "time (s),rate (bps)\n0,1\n-1,1\n",
                "line 3, column 1: \"-1\": a time cannot be negative. Count the time",
            ),
            ("time (s),rate (bps)\n", "line 1, column 1: nothing follows the header"),
            ("time (s),rate (bps)\n0,8\n1,  fast\n", "line 3, column 5: \"fast\": this is not a number"),
            ("time (s),rate (bps)\n0,8\n1,-3\n", "line 3, column 3: \"-3\": a rate cannot be negative"),
            ("time (s),rate (bps)\n0,8\n1,2,3\n", "line 3, column 1: 3 values, but the header has 2 columns"),
            (
                "time (s),rate (bps)\n5,8\n",
                "line 2, column 1: the first row is not at time 0. Subtract 5 from every",
            ),
            (
                "rate (bps),time (s)\n8,0\n8,0\n",
                "line 3, column 3: 0s does not come after 0s, the row before",
            ),
            ("time (s),rate (bps)\n0,\n", "line 2, column 1: the row changes nothing. Give a rate (0 if"),
            ("time (s),rtt (ms)\n0,8\n", "line 1, column 10: there is no column \"rtt\". Write delay (ms)"),
            (
                "time (s),rate (bps)\n0,1e300\n",
                "line 2, column 3: \"1e300\": a rate of this size cannot be represented",
            ),
            ("time (s),rate (bps)\n0,1e30\n", "line 2, column 3: \"1e30\": a rate this large overflows"),
        ] {
            let found = problem(text);
            assert!(found.starts_with(expected), "{found}\n{expected}");
        }
    }
}
