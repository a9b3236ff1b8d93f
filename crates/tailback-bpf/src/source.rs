//! From source to machine code, by clang.

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

/// What a source may include.
const HEADERS: &[(&str, &str)] = headers! {
    "vmlinux.h", "bpf_tracing_net.h", "bpf/bpf_helpers.h", "bpf/bpf_tracing.h", "bpf/bpf_core_read.h",
};
/// The kernel's side, natively.
const HARNESS: &str = include_str!("../../../bpf/candidate/native.c");
/// Lines of a compiler's complaints that are passed on.
const MOST_LINES: usize = 20;

/// A congestion control's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What errors call it.
    pub name: String,
    /// The text of its one file.
    pub text: String,
    /// Macros.
    pub defines: Vec<(String, String)>,
}

/// A folder that goes when this does.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tailback-bpf-{}-{number}", std::process::id()));
        // Fails if another process made it before us.
        fs::create_dir(&path)?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left behind does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Source {
    /// Compile it for the kernel, which shall know it by `name`; or say for people what is wrong.
    pub fn object(&self, name: &str) -> Result<Vec<u8>, String> {
        let mut object = self.compiled(&["-target", "bpf", "-mcpu=v3", "-g", "-c"], false)?;
        match elf::rename(&mut object, name) {
            true => Ok(object),
            false => Err(self.lacks_ops()),
        }
    }

    /// Compile it natively; the bytes of a shared library.
    pub fn library(&self) -> Result<Vec<u8>, String> {
        let library = self.compiled(&["-shared", "-fPIC", "-fno-strict-aliasing", "-Wl,-z,defs"], true)?;
        match elf::ops(&library) {
            Some(_) => Ok(library),
            None => Err(self.lacks_ops()),
        }
    }

    fn lacks_ops(&self) -> String {
        format!(
            "{}: there is no congestion control in it, a struct tcp_congestion_ops in SEC(\".struct_ops\")",
            self.name
        )
    }

    fn compiled(&self, options: &[&str], with_harness: bool) -> Result<Vec<u8>, String> {
        let trouble = |error: io::Error| format!("{}: no place to compile it: {error}", self.name);
        let scratch = Scratch::new().map_err(trouble)?;
        let folder = &scratch.0;
        fs::create_dir(folder.join("bpf")).map_err(trouble)?;
        for (name, text) in HEADERS {
            fs::write(folder.join(name), text).map_err(trouble)?;
        }
        fs::write(folder.join("native.c"), HARNESS).map_err(trouble)?;
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
        // Else the object says where it was compiled, and is another each time.
        clang.arg(format!("-ffile-prefix-map={}=.", folder.display()));
        clang.args(options).args(self.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
        clang.args(["-o", "out", "candidate.c"]).current_dir(folder);
        if with_harness {
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
        if said.contains("no member named") {
            lines.push("A field that no simulation fills in is in no header here: docs/candidates.md lists those there are.");
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
        let said = source("int a;\nint b = c;\n").library().unwrap_err();
        assert!(said.contains("mine.bpf.c:2:"), "{said}");
        let said = source("u32 f(struct tcp_sock *tp) { return tp->reordering; }\n").library().unwrap_err();
        assert!(said.contains("docs/candidates.md"), "{said}");
        let said = source("int a;\n").library().unwrap_err();
        assert!(said.contains("no congestion control in it"), "{said}");
    }

    #[test]
    fn the_examples_compile_for_both_worlds_under_the_name_given() {
        for text in [
            include_str!("../../../bpf/examples/gentle.bpf.c"),
            include_str!("../../../bpf/examples/steady.bpf.c"),
        ] {
            assert!(elf::ops(&source(text).library().unwrap()).is_some());
            let object = source(text).object("tb1mine").unwrap();
            let place = elf::ops(&object).unwrap().place;
            assert_eq!(&object[place][..8], b"tb1mine\0");
            // Each compilation has a folder of its own.
            assert_eq!(source(text).object("tb1mine").unwrap(), object);
            assert!(!object.windows(16).any(|bytes| bytes == b".struct_ops.link"));
        }
    }
}
