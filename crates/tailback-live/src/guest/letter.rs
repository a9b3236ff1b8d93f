//! What leaves a guest: a page with its progress, and behind it the tables, in memory that the host reads.
//!
//! Memory and no device: a write to it is over at once, so nothing in the guest waits for the host or is interrupted by
//! it. `python/tailback/vm/shared_memory.py` reads it.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;

use serde_json::{Value, json};
use tailback_core::probe::{Column, Table};

use crate::error::{Doing, LiveError};
use crate::run::Outcome;
use crate::sys::SharedMemory;

/// Shared memory of QEMU's (its specification ivshmem-spec): maker and kind on the PCI bus.
const MEMORY: [&str; 2] = ["0x1af4", "0x1110"];
/// Where the page of state ends and the contents begin.
const CONTENTS: usize = 4096;
/// Columns begin at multiples of this.
const ALIGNMENT: usize = 8;

/// How far a guest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It prepares the run.
    Started = 1,
    /// The run is under way.
    Running = 2,
    /// The contents are there.
    Done = 3,
    /// It loads a module of the user. The second number is the module's.
    Loading = 4,
}

/// The memory the host reads.
#[derive(Debug)]
pub struct Letter(SharedMemory);

impl Letter {
    /// Find it on the PCI bus.
    pub fn open() -> Result<Self, LiveError> {
        let what = "looking for the memory shared with the host";
        let is_memory = |folder: &PathBuf| {
            let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
            ["vendor", "device"].map(read).iter().zip(MEMORY).all(|(found, wanted)| found.trim() == wanted)
        };
        let devices = fs::read_dir("/sys/bus/pci/devices").doing(what)?;
        let mut places = devices.filter_map(|entry| Some(entry.ok()?.path()));
        let device =
            places.find(is_memory).ok_or_else(|| LiveError::Failed(format!("{what}: it is not there")))?;
        // Its second region is the memory.
        let file = OpenOptions::new().read(true).write(true).open(device.join("resource2")).doing(what)?;
        let bytes = file.metadata().doing(what)?.len();
        SharedMemory::of(&file, bytes as usize).doing(what).map(Letter)
    }

    /// Reports how far the guest is, and the run in millionths or what [`State`] says.
    pub fn report(&mut self, state: State, ppm: u64) {
        self.0.put(0, &(state as u64).to_le_bytes());
        self.0.put(8, &ppm.to_le_bytes());
    }

    /// Put in what a run left behind, and `about` it.
    pub fn put_outcome(&mut self, outcome: &Outcome, about: Value) -> Result<(), LiveError> {
        let head = json!({
            "tables": outcome.tables.iter().map(shape).collect::<Value>(),
            "files": outcome.files.iter().map(|(name, bytes)| json!([name, bytes.len()])).collect::<Value>(),
            "internals_names": outcome.internals_names,
            "notes": outcome.notes,
            "controls": outcome.controls,
            "fit": outcome.is_fit,
            "about": about,
        });
        let columns = outcome.tables.iter().flat_map(|table| &table.columns);
        let mut body: Vec<Vec<u8>> = columns.map(|(_, column)| bytes(column)).collect();
        body.extend(outcome.files.iter().map(|(_, bytes)| bytes.clone()));
        self.put(&head, &body)
    }

    /// Put in why there is no result.
    pub fn put_error(&mut self, error: &LiveError) {
        let head = match error {
            LiveError::Refused(error) => json!({
                "refused": [error.field, error.value, error.problem, error.fix]
            }),
            other => json!({ "failed": other.to_string() }),
        };
        // A message is far smaller than the memory.
        let _ = self.put(&head, &[]);
    }

    fn put(&mut self, head: &Value, body: &[Vec<u8>]) -> Result<(), LiveError> {
        let head = head.to_string().into_bytes();
        let whole: usize = body.iter().map(|part| part.len().next_multiple_of(ALIGNMENT)).sum();
        let mut at = CONTENTS + head.len().next_multiple_of(ALIGNMENT);
        if at + whole > self.0.len() {
            return Err(LiveError::Failed(format!(
                "the rows take {} MB, and there is memory for {} MB to hand them over: record less (fewer polls, no \
                 segments or packets), or a shorter time",
                (at + whole) >> 20,
                self.0.len() >> 20
            )));
        }
        self.0.put(16, &(head.len() as u64).to_le_bytes());
        self.0.put(CONTENTS, &head);
        for part in body {
            self.0.put(at, part);
            at += part.len().next_multiple_of(ALIGNMENT);
        }
        self.report(State::Done, 1_000_000);
        Ok(())
    }
}

/// A table's name, and name, kind and length of its columns; kinds are NumPy's.
fn shape(table: &Table) -> Value {
    let columns = table.columns.iter().map(|(name, column)| {
        let (kind, rows) = match column {
            Column::F64(values) => ("<f8", values.len()),
            Column::U64(values) => ("<u8", values.len()),
            Column::U32(values) => ("<u4", values.len()),
            Column::U16(values) => ("<u2", values.len()),
            Column::U8(values) => ("|u1", values.len()),
            Column::Bool(values) => ("|b1", values.len()),
        };
        json!([name, kind, rows])
    });
    json!([table.name, columns.collect::<Value>()])
}

fn bytes(column: &Column) -> Vec<u8> {
    match column {
        Column::F64(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Column::U64(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Column::U32(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Column::U16(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Column::U8(values) => values.clone(),
        Column::Bool(values) => values.iter().map(|value| u8::from(*value)).collect(),
    }
}
