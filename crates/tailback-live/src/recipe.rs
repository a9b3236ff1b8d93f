//! Compiles our BPF programs with clang, on this machine or in advance on another.

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};

use crate::error::{Doing, LiveError};

const KERNEL: &str = include_str!("../../../bpf/kernel.h");
const PARTS: &str = include_str!("../../../bpf/parts.h");
const HOSTS: &str = include_str!("../../../bpf/hosts.h");
const INTERNALS: &str = include_str!("../../../bpf/internals.h");
/// Every program declares this: the kernel offers its functions only to GPL-compatible programs.
const LICENCE: &str = "LICENSE(\"Dual MIT/GPL\");\n";

/// The folder of objects that were compiled elsewhere.
static COMPILED: OnceLock<PathBuf> = OnceLock::new();

/// Objects that this process has compiled: its runs use the same programs, and clang takes a second of processor time
/// for them.
static MADE: LazyLock<Mutex<HashMap<Recipe, Vec<u8>>>> = LazyLock::new(Mutex::default);

/// From now on takes every object from `folder`, by its [`Recipe::key`], because this machine has no compiler.
pub fn take_from(folder: PathBuf) {
    // Only the first call has an effect.
    let _ = COMPILED.set(folder);
}

/// Whether programs are available without a compiler.
pub fn are_compiled() -> bool {
    COMPILED.get().is_some()
}

/// The object `key` of the program `name`, if programs were compiled elsewhere.
pub fn compiled(key: &str, name: &str) -> Option<Result<Vec<u8>, LiveError>> {
    let folder = COMPILED.get()?;
    Some(fs::read(folder.join(key)).doing(&format!("reading the compiled BPF program {name}")))
}

/// What a program is compiled from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// Its name for messages.
    pub name: String,
    source: &'static str,
    defines: Vec<(&'static str, String)>,
}

impl Recipe {
    /// A recipe for one of our programs; `defines` become macros.
    pub fn new(name: impl Into<String>, source: &'static str, defines: Vec<(&'static str, String)>) -> Self {
        Recipe { name: name.into(), source, defines }
    }

    fn text(&self) -> String {
        [KERNEL, PARTS, HOSTS, INTERNALS, LICENCE, self.source].concat()
    }

    /// The name of its object, which depends on the source and on every macro.
    pub fn key(&self) -> String {
        let mut hasher = DefaultHasher::new();
        (self.text(), &self.defines).hash(&mut hasher);
        format!("{:016x}.o", hasher.finish())
    }

    /// Its object: compiled elsewhere, or compiled now.
    pub fn object(&self) -> Result<Vec<u8>, LiveError> {
        compiled(&self.key(), &self.name).unwrap_or_else(|| self.compile())
    }

    /// Its object, compiled here, once per process.
    pub fn compile(&self) -> Result<Vec<u8>, LiveError> {
        let made = || MADE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = made().get(self) {
            return Ok(object.clone());
        }
        let object = self.by_clang()?;
        made().insert(self.clone(), object.clone());
        Ok(object)
    }

    fn by_clang(&self) -> Result<Vec<u8>, LiveError> {
        let fail = |why: String| LiveError::Failed(format!("compiling the BPF program {}: {why}", self.name));
        let mut clang = Command::new("clang");
        clang.args(["-x", "c", "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Werror", "-Wall"]);
        clang.args(["-Wno-unused-function", "-Wno-pragma-once-outside-header"]);
        for (name, value) in &self.defines {
            clang.arg(format!("-D{name}={value}"));
        }
        // Otherwise the object would contain the directory of compilation and differ between machines.
        clang.args(["-c", "-", "-o", "-"]).current_dir("/");
        clang.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = clang.spawn().map_err(|error| fail(format!("clang does not start: {error}")))?;
        let mut input = running.stdin.take().expect("piped above");
        // clang reads all its input before it writes, so the two pipes cannot deadlock.
        input.write_all(self.text().as_bytes()).map_err(|error| fail(error.to_string()))?;
        drop(input);
        let done = running.wait_with_output().map_err(|error| fail(error.to_string()))?;
        if !done.status.success() {
            return Err(fail(String::from_utf8_lossy(&done.stderr).trim().into()));
        }
        Ok(done.stdout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_another_for_another_macro() {
        let recipe = |value: &str| Recipe::new("a", "int a;", vec![("NAME", value.into())]);
        assert_eq!(recipe("1").key(), recipe("1").key());
        assert_ne!(recipe("1").key(), recipe("2").key());
    }

    #[test]
    fn an_object_does_not_say_where_it_was_compiled() {
        let object = Recipe::new("a", "int a;", vec![]).compile().unwrap();
        let here = std::env::current_dir().unwrap();
        let here = here.to_str().unwrap().as_bytes();
        assert!(!object.windows(here.len()).any(|bytes| bytes == here));
    }
}
