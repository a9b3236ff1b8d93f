//! Results of programs: table rows, files and messages.

use tailback_core::packet::FlowId;
use tailback_core::probe::Table;
pub use tailback_core::probe::rows::{ProgramFate, Role};
use tailback_core::probe::rows::{ProgramRow, Programs};
use tailback_core::time::Time;

use crate::spawn::Ending;

/// How many lines of a program's error output are reported.
const LAST_LINES: usize = 5;

/// How one program ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Side of the program.
    pub role: Role,
    /// Time of the start.
    pub started: Time,
    /// Time of the end.
    pub ended: Time,
    /// Its exit status or signal.
    pub ending: Ending,
    /// Why it ended.
    pub fate: ProgramFate,
    /// Its standard output and standard error.
    pub outputs: [Vec<u8>; 2],
}

/// What a flow's programs did.
#[derive(Debug)]
pub struct Report {
    /// Number of the flow.
    pub flow: u32,
    /// The flow's name.
    pub name: String,
    /// The server, if any, and the client.
    pub programs: Vec<Ended>,
    /// Files they left in their folder, by path below it.
    pub collected: Vec<(String, Vec<u8>)>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// How a program ended, in words.
pub fn in_words(ending: Ending) -> String {
    match ending {
        Ending::Exit(status) => format!("ended with status {status}"),
        Ending::Signal(libc::SIGXFSZ) => "was ended by signal 25: a file that it wrote grew too large".into(),
        Ending::Signal(signal) => format!("was ended by signal {signal}"),
    }
}

/// The exit status as a shell has it: for a signal, 128 and its number.
pub fn in_shell(ending: Ending) -> u8 {
    match ending {
        Ending::Exit(status) => status as u8,
        Ending::Signal(signal) => 128_u8.wrapping_add(signal as u8),
    }
}

/// The accepted statuses after " and not with"; empty if only 0 is accepted.
pub fn instead_of(accepted: &[u8]) -> String {
    if accepted == [0] {
        return String::new();
    }
    let all: Vec<String> = accepted.iter().map(u8::to_string).collect();
    format!(", and not with {}", all.join(" or "))
}

/// The last lines of a program's error output after a colon; empty if there are none.
pub fn last_lines(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    if last.is_empty() { String::new() } else { format!(": {}", last.join(" | ")) }
}

/// The programs table, over all flows.
pub fn table(reports: &[Report]) -> Table {
    let row = |flow: u32, ended: &Ended| {
        let (status, signal) = match ended.ending {
            Ending::Exit(status) => (f64::from(status), 0),
            Ending::Signal(signal) => (f64::NAN, signal as u8),
        };
        ProgramRow {
            flow: FlowId(flow),
            role: ended.role,
            started_s: ended.started.as_secs_f64(),
            ended_s: ended.ended.as_secs_f64(),
            fate: ended.fate,
            status,
            signal,
        }
    };
    let rows =
        reports.iter().flat_map(|report| report.programs.iter().map(move |ended| row(report.flow, ended)));
    rows.collect::<Programs>().into_table()
}

/// Output files of the programs, with names such as `download/client.out` and `download/dir/client.qlog`.
pub fn outputs(reports: Vec<Report>) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for report in reports {
        for ended in report.programs {
            for (kind, text) in ["out", "err"].into_iter().zip(ended.outputs) {
                files.push((format!("{}/{}.{kind}", report.name, ended.role.word()), text));
            }
        }
        let name = &report.name;
        files.extend(report.collected.into_iter().map(|(path, text)| (format!("{name}/dir/{path}"), text)));
    }
    files
}
