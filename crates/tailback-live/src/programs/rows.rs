//! What became of programs: a table's rows, files, and words for people.

use tailback_core::probe::{Column, Table};
use tailback_core::time::Time;

use crate::spawn::Ending;

/// Of what a program complained of, so many lines are told.
const LAST_LINES: usize = 5;

/// Which program of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Role {
    /// At the flow's `to`.
    Server = 0,
    /// At its `from`.
    Client = 1,
}

impl Role {
    /// Its name in tables and files.
    pub fn name(self) -> &'static str {
        ["server", "client"][self as usize]
    }
}

/// How it ended, by code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Fate {
    /// By itself.
    Exited = 0,
    /// When asked, at its stop.
    Stopped = 1,
    /// By force, because it did not when asked.
    Killed = 2,
}

/// What became of one program.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Which.
    pub role: Role,
    /// From here
    pub started: Time,
    /// to here.
    pub ended: Time,
    /// With what status.
    pub ending: Ending,
    /// How it came to that.
    pub fate: Fate,
    /// Its standard output and its standard error.
    pub outputs: [Vec<u8>; 2],
}

/// What a flow's programs did.
#[derive(Debug)]
pub struct Report {
    /// Number of the flow.
    pub flow: u32,
    /// Its name.
    pub name: String,
    /// Server, if there was one, and client.
    pub programs: Vec<Ended>,
    /// What people should know.
    pub notes: Vec<String>,
}

/// In words.
pub fn told(ending: Ending) -> String {
    match ending {
        Ending::Exit(status) => format!("ended with status {status}"),
        Ending::Signal(signal) => format!("was ended by signal {signal}"),
    }
}

/// The last of what a program complained of, behind a colon; nothing if there is none.
pub fn last_lines(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    if last.is_empty() { String::new() } else { format!(": {}", last.join(" | ")) }
}

/// The programs table of all flows.
pub fn table(reports: &[Report]) -> Table {
    let rows: Vec<(u32, &Ended)> =
        reports.iter().flat_map(|report| report.programs.iter().map(|ended| (report.flow, ended))).collect();
    let status = |ended: &Ended| match ended.ending {
        Ending::Exit(status) => f64::from(status),
        Ending::Signal(_) => f64::NAN,
    };
    let signal = |ended: &Ended| match ended.ending {
        Ending::Exit(_) => 0,
        Ending::Signal(signal) => signal as u8,
    };
    Table {
        name: "programs",
        columns: vec![
            ("flow", Column::U32(rows.iter().map(|(flow, _)| *flow).collect())),
            ("role", Column::U8(rows.iter().map(|(_, ended)| ended.role as u8).collect())),
            ("started_s", Column::F64(rows.iter().map(|(_, ended)| ended.started.as_secs_f64()).collect())),
            ("ended_s", Column::F64(rows.iter().map(|(_, ended)| ended.ended.as_secs_f64()).collect())),
            ("fate", Column::U8(rows.iter().map(|(_, ended)| ended.fate as u8).collect())),
            ("status", Column::F64(rows.iter().map(|(_, ended)| status(ended)).collect())),
            ("signal", Column::U8(rows.iter().map(|(_, ended)| signal(ended)).collect())),
        ],
    }
}

/// What the programs wrote, by names such as `download/client.out`.
pub fn outputs(reports: Vec<Report>) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for report in reports {
        for ended in report.programs {
            for (kind, text) in ["out", "err"].into_iter().zip(ended.outputs) {
                files.push((format!("{}/{}.{kind}", report.name, ended.role.name()), text));
            }
        }
    }
    files
}
