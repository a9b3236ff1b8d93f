//! A file that lists what a run is about to create, for later runs. It is removed with the run.
//!
//! The kernel itself removes namespaces, devices, congestion controls and programs. With the file, `doctor --clean` can
//! find files of a killed run's programs, and the objects of two runs can be distinguished.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::error::{Doing, LiveError};
use crate::twins;

const FOLDER: &str = "/run/tailback";
/// Prefix of every mark.
const PREFIX: &str = "tb";
/// The mark of a run that has a machine to itself.
pub const ALONE: &str = "tb0000";

/// A run's mark and its file.
#[derive(Debug)]
pub struct Lease {
    mark: String,
    path: PathBuf,
}

impl Lease {
    /// The mark and file of the only run on a machine; always the same.
    pub fn alone() -> Result<Self, LiveError> {
        fs::create_dir_all(FOLDER).doing("making /run/tailback")?;
        let path = PathBuf::from(format!("{FOLDER}/{ALONE}.json"));
        fs::write(&path, text()).doing("writing down the run's mark")?;
        Ok(Lease { mark: ALONE.into(), path })
    }

    /// An unused mark and its file.
    pub fn take() -> Result<Self, LiveError> {
        fs::create_dir_all(FOLDER).doing("making /run/tailback")?;
        // Remove what a killed run has left, at the next start.
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
            fs::write(&draft, text()).doing("writing down the run's mark")?;
            // The file appears complete, and only if it does not exist yet: two runs cannot take the same mark.
            let linked = fs::hard_link(&draft, &path);
            let _ = fs::remove_file(&draft);
            match linked {
                Ok(()) => return Ok(Lease { mark, path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).doing("writing down the run's mark"),
            }
        }
        Err(LiveError::refuse(
            "engine",
            "\"live\"",
            "no free mark for this run's objects was found in a hundred tries",
            "Remove what dead runs have left: tailback doctor --clean",
        ))
    }

    /// The mark in the names of this run's objects.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// A new, empty folder for the run's programs. It is removed with the lease.
    pub fn folder(&self) -> Result<PathBuf, LiveError> {
        let folder = folder_of(&self.path);
        fs::create_dir(&folder).doing("making a folder for programs")?;
        Ok(folder)
    }
}

fn folder_of(lease: &Path) -> PathBuf {
    lease.with_extension("d")
}

/// Removes a lease with its folder, the folder first, so that a partial removal can be found later.
fn remove(lease: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder_of(lease)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::remove_file(lease)
}

/// Name of an unfinished file. It is not a valid mark, so no process reads it as a lease.
fn draft() -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    PathBuf::from(format!("{FOLDER}/.draft-{}-{number}", process::id()))
}

fn text() -> String {
    let own = process::id();
    json!({ "pid": own, "began": began(own) }).to_string()
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = remove(&self.path);
    }
}

/// Start time of a process, in clock ticks since boot: together with its number it identifies the process uniquely.
fn began(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is a name in parentheses that may contain anything, so count from behind it.
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn is_alive(entry: &Value) -> bool {
    let process = entry["pid"].as_u64().and_then(|number| u32::try_from(number).ok());
    process.and_then(began).is_some_and(|time| Some(time) == entry["began"].as_u64())
}

/// Removes what dead runs have left; returns descriptions of what was removed.
pub fn clean() -> io::Result<Vec<String>> {
    let mut done = Vec::new();
    let entries = match fs::read_dir(FOLDER) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(done),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let mark = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        if !mark.starts_with(PREFIX) {
            continue;
        }
        // A truncated file belongs to a run that died while writing it.
        let lease: Value = fs::read_to_string(&path)
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        if is_alive(&lease) {
            continue;
        }
        match remove(&path) {
            // Another run removed it first.
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
