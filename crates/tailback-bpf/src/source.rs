//! Compiles sources with clang.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::elf;

macro_rules! headers {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../../bpf/candidate/include/", $name)))),+]
    };
}

/// Headers that a source may include.
const HEADERS: &[(&str, &str)] = headers! {
    "vmlinux.h", "bpf_tracing_net.h", "bpf_experimental.h", "bpf_qdisc_common.h", "bpf/bpf_helpers.h",
    "bpf/bpf_tracing.h", "bpf/bpf_core_read.h",
};
/// The kernel's side in native code: for a congestion control, and for a queue.
const HARNESS: &str = include_str!("../../../bpf/candidate/native.c");
const QUEUE_HARNESS: &str = include_str!("../../../bpf/candidate/native_qdisc.c");
/// How many lines of compiler output are reported.
const MOST_LINES: usize = 20;

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A congestion control.
    Control,
    /// A queue discipline.
    Queue,
}

/// The source of a congestion control or queue discipline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name in error messages.
    pub name: String,
    /// The text of its one file.
    pub text: String,
    /// Macro definitions.
    pub defines: Vec<(String, String)>,
}

/// A temporary folder, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tailback-bpf-{}-{number}", std::process::id()));
        // Fails if another process has made it.
        fs::create_dir(&path)?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Failing to remove it does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Source {
    /// Compiles a congestion control or a queue for the kernel, under the kernel name `name`; returns a readable error
    /// otherwise.
    pub fn object(&self, name: &str, kind: Kind) -> Result<Vec<u8>, String> {
        self.demand_kind(kind)?;
        let mut object = self.compiled(&["-target", "bpf", "-mcpu=v3", "-g", "-c"], None)?;
        match elf::rename(&mut object, name) {
            true => Ok(object),
            false => Err(self.lacks_ops(kind)),
        }
    }

    /// Compiles it natively; returns the bytes of a shared library.
    pub fn library(&self, kind: Kind) -> Result<Vec<u8>, String> {
        self.demand_kind(kind)?;
        let harness = match kind {
            Kind::Control => HARNESS,
            Kind::Queue => QUEUE_HARNESS,
        };
        let mut options = vec!["-shared", "-fPIC", "-fno-strict-aliasing", "-Wl,-z,defs"];
        if kind == Kind::Queue && self.text.contains("bpf_qdisc_watchdog_schedule") {
            options.push("-DTAILBACK_HOLDS_BACK");
        }
        let library = self.compiled(&options, Some(harness))?;
        match elf::ops(&library) {
            Some(_) => Ok(library),
            None => Err(self.lacks_ops(kind)),
        }
    }

    /// Its kind, from its text: a queue if it fills in a `struct Qdisc_ops`.
    pub fn kind(&self) -> Kind {
        let is_queue = self.text.split("struct Qdisc_ops").skip(1).any(|rest| {
            let after = rest.trim_start().trim_start_matches(|of: char| of.is_alphanumeric() || of == '_');
            after.len() < rest.trim_start().len() && after.trim_start().starts_with('=')
        });
        if is_queue { Kind::Queue } else { Kind::Control }
    }

    fn demand_kind(&self, kind: Kind) -> Result<(), String> {
        let name = &self.name;
        match (kind, self.kind()) {
            (Kind::Control, Kind::Queue) => {
                Err(format!("{name} is a queue, and no congestion control: name it as a link's queue"))
            }
            (Kind::Queue, Kind::Control) if self.text.contains("tcp_congestion_ops") => {
                Err(format!("{name} is a congestion control, and no queue: name it as a flow's cc"))
            }
            _ => Ok(()),
        }
    }

    fn lacks_ops(&self, kind: Kind) -> String {
        let (what, of) = match kind {
            Kind::Control => ("congestion control", "tcp_congestion_ops"),
            Kind::Queue => ("queue discipline", "Qdisc_ops"),
        };
        format!("{}: there is no {what} in it, a struct {of} in SEC(\".struct_ops\")", self.name)
    }

    fn compiled(&self, options: &[&str], harness: Option<&str>) -> Result<Vec<u8>, String> {
        let trouble = |error: io::Error| format!("{}: no place to compile it: {error}", self.name);
        let scratch = Scratch::new().map_err(trouble)?;
        let folder = &scratch.0;
        fs::create_dir(folder.join("bpf")).map_err(trouble)?;
        for (name, text) in HEADERS {
            fs::write(folder.join(name), text).map_err(trouble)?;
        }
        if let Some(harness) = harness {
            fs::write(folder.join("native.c"), harness).map_err(trouble)?;
        }
        fs::write(folder.join("candidate.c"), format!("#line 1 {:?}\n{}", self.name, self.text))
            .map_err(trouble)?;
        let out = folder.join("out");
        let mut clang = Command::new("clang");
        clang.args([
            "-O2",
            "-Wall",
            "-Wno-unused-function",
            "-Wno-unused-parameter",
            "-include",
            "vmlinux.h",
            "-I.",
        ]);
        // Otherwise the object would contain the folder's name and differ each time.
        clang.arg(format!("-ffile-prefix-map={}=.", folder.display()));
        clang.args(options).args(self.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
        clang.args(["-o", "out", "candidate.c"]).current_dir(folder);
        if harness.is_some() {
            clang.arg("native.c");
        }
        let done = clang.output().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!(
                "{}: it is compiled by clang, which is not installed. Install it: apt install clang, or dnf install clang",
                self.name
            ),
            _ => format!("{}: clang does not start: {error}", self.name),
        })?;
        if !done.status.success() {
            return Err(self.complaint(&String::from_utf8_lossy(&done.stderr)));
        }
        read(&out).map_err(trouble)
    }

    fn complaint(&self, said: &str) -> String {
        let mut lines: Vec<&str> = said.trim().lines().take(MOST_LINES).collect();
        if said.contains("no member named") || said.contains("incomplete type") {
            lines.push("A field or type that no simulation has is in no header here: docs/candidates.md lists those there are.");
        }
        if said.contains("undefined reference") || said.contains("undeclared function") {
            lines.push("The kernel's functions that there are stand in docs/candidates.md.");
        }
        format!("{} does not compile:\n{}", self.name, lines.join("\n"))
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source { name: "mine.bpf.c".into(), text: text.into(), defines: Vec::new() }
    }

    #[test]
    fn a_mistake_is_reported_with_its_line() {
        let said = source("int a;\nint b = c;\n").library(Kind::Control).unwrap_err();
        assert!(said.contains("mine.bpf.c:2:"), "{said}");
        let said = source("u32 f(struct tcp_sock *tp) { return tp->reordering; }\n")
            .library(Kind::Control)
            .unwrap_err();
        assert!(said.contains("docs/candidates.md"), "{said}");
        let said = source("struct mine { struct bpf_refcount count; };\n").library(Kind::Queue).unwrap_err();
        assert!(said.contains("bpf_refcount") && said.contains("docs/candidates.md"), "{said}");
        let said = source("int a;\n").library(Kind::Control).unwrap_err();
        assert!(said.contains("no congestion control in it"), "{said}");
        let said = source("int a;\n").library(Kind::Queue).unwrap_err();
        assert!(said.contains("no queue discipline in it, a struct Qdisc_ops in"), "{said}");
        let control = source("/* no struct Qdisc_ops */ struct tcp_congestion_ops mine = {};");
        assert!(control.library(Kind::Queue).unwrap_err().contains("name it as a flow's cc"));
        let queue = source("struct Qdisc_ops mine = {};");
        assert!(queue.library(Kind::Control).unwrap_err().contains("name it as a link's queue"));
    }

    #[test]
    fn the_examples_compile_for_both_worlds_under_the_name_given() {
        for (text, kind) in [
            (include_str!("../../../bpf/examples/gentle.bpf.c"), Kind::Control),
            (include_str!("../../../bpf/examples/steady.bpf.c"), Kind::Control),
            (include_str!("../../../bpf/examples/head_drop.bpf.c"), Kind::Queue),
            (include_str!("../../../bpf/examples/shortest_first.bpf.c"), Kind::Queue),
        ] {
            assert!(elf::ops(&source(text).library(kind).unwrap()).is_some());
            let object = source(text).object("tb1mine", kind).unwrap();
            let place = elf::ops(&object).unwrap().place;
            assert_eq!(&object[place][..8], b"tb1mine\0");
            // Each compilation uses a different folder.
            assert_eq!(source(text).object("tb1mine", kind).unwrap(), object);
            assert!(!object.windows(16).any(|bytes| bytes == b".struct_ops.link"));
        }
    }
}
