//! What a run is about to have, written down for whoever comes after it: a file that is removed with the run.
//!
//! The kernel itself takes back namespaces, devices and congestion controls. The file lets `doctor --clean` find
//! programs a killed run has left, and tells one run's objects from another's.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::error::{Doing, LiveError};
use crate::sys;
use crate::twins;

const FOLDER: &str = "/run/tailback";
/// What every mark begins with.
const PREFIX: &str = "tb";

/// A run's mark and its file.
#[derive(Debug)]
pub struct Lease {
    mark: String,
    path: PathBuf,
    children: Vec<u32>,
}

impl Lease {
    /// A mark nobody uses, and its file.
    pub fn take() -> Result<Self, LiveError> {
        fs::create_dir_all(FOLDER).doing("making /run/tailback")?;
        // What a killed run has left is cleared away at the next start.
        clean().doing("clearing away what dead runs have left")?;
        let known = twins::in_kernel();
        for _ in 0..100 {
            let mut random = [0; 2];
            io::Read::read_exact(&mut fs::File::open("/dev/urandom").doing("choosing a mark")?, &mut random)
                .doing("choosing a mark")?;
            let mark = format!("{PREFIX}{:02x}{:02x}", random[0], random[1]);
            if known.iter().any(|name| name.starts_with(&mark)) {
                continue;
            }
            let path = PathBuf::from(format!("{FOLDER}/{mark}.json"));
            let draft = draft();
            fs::write(&draft, text(&[])).doing("writing down the run's mark")?;
            // Appears complete, and only if it is not there: two runs cannot take the same mark.
            let linked = fs::hard_link(&draft, &path);
            let _ = fs::remove_file(&draft);
            match linked {
                Ok(()) => return Ok(Lease { mark, path, children: Vec::new() }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).doing("writing down the run's mark"),
            }
        }
        Err(LiveError::refuse(
            "engine",
            "live",
            "no free mark for this run's objects was found in a hundred tries",
            "Remove what dead runs have left: tailback doctor --clean",
        ))
    }

    /// What this run's objects are called by.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Note a program that was started.
    pub fn add_child(&mut self, process: u32) -> Result<(), LiveError> {
        self.children.push(process);
        self.write()
    }

    fn write(&self) -> Result<(), LiveError> {
        let draft = draft();
        fs::write(&draft, text(&self.children)).doing("writing down what the run has")?;
        fs::rename(&draft, &self.path).doing("writing down what the run has")
    }
}

/// A name for a file under way; no mark, so that nobody takes it for a lease.
fn draft() -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    PathBuf::from(format!("{FOLDER}/.draft-{}-{number}", process::id()))
}

fn text(children: &[u32]) -> String {
    let own = process::id();
    let children: Vec<Value> =
        children.iter().map(|&child| json!({ "pid": child, "began": began(child) })).collect();
    json!({ "pid": own, "began": began(own), "children": children }).to_string()
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// When a process began, in clock ticks since the machine started: with its number it names the process for good.
fn began(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is a name in brackets that may hold anything; count from behind it.
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn is_alive(entry: &Value) -> bool {
    let process = entry["pid"].as_u64().and_then(|number| u32::try_from(number).ok());
    process.and_then(began).is_some_and(|time| Some(time) == entry["began"].as_u64())
}

/// Remove what dead runs have left; returns what was done, in words.
pub fn clean() -> io::Result<Vec<String>> {
    let mut done = Vec::new();
    let entries = match fs::read_dir(FOLDER) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(done),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        let mark = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        if !mark.starts_with(PREFIX) {
            continue;
        }
        // A file cut short belongs to a run that died while writing it.
        let lease: Value = fs::read_to_string(&path)
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        if is_alive(&lease) {
            continue;
        }
        for child in lease["children"].as_array().into_iter().flatten().filter(|child| is_alive(child)) {
            let process = child["pid"].as_u64().expect("alive, hence a number") as u32;
            sys::signal_group(process, libc::SIGKILL);
            done.push(format!("ended program {process} of run {mark}"));
        }
        match fs::remove_file(&path) {
            // Another run was quicker.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        }
        done.push(format!("forgot run {mark}, which had died"));
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_number_and_beginning() {
        let own = process::id();
        assert!(is_alive(&json!({ "pid": own, "began": began(own) })));
        assert!(!is_alive(&json!({ "pid": own, "began": 1 })));
        assert!(!is_alive(&json!({})));
    }
}
