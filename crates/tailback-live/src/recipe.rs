//! A BPF program of ours from source to object: compiled by clang, here or where there is one.

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
/// Said by every program of ours: the kernel lends its functions to GPL-compatible programs only.
const LICENCE: &str = "LICENSE(\"Dual MIT/GPL\");\n";

/// The folder of objects that were compiled elsewhere.
static COMPILED: OnceLock<PathBuf> = OnceLock::new();

/// What this process has compiled: its runs have the same programs, and clang takes a second of processor time for them.
static MADE: LazyLock<Mutex<HashMap<Recipe, Vec<u8>>>> = LazyLock::new(Mutex::default);

/// From now on take every object from `folder`, by its [`Recipe::key`]: this machine has no compiler.
pub fn take_from(folder: PathBuf) {
    // The first call stands.
    let _ = COMPILED.set(folder);
}

/// Can programs be had without a compiler?
pub fn are_compiled() -> bool {
    COMPILED.get().is_some()
}

/// The object `key` of the program `name`, if programs are compiled elsewhere.
pub fn compiled(key: &str, name: &str) -> Option<Result<Vec<u8>, LiveError>> {
    let folder = COMPILED.get()?;
    Some(fs::read(folder.join(key)).doing(&format!("reading the compiled BPF program {name}")))
}

/// What a program is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// Its name, for people.
    pub name: String,
    source: &'static str,
    defines: Vec<(&'static str, String)>,
}

impl Recipe {
    /// A program of ours; `defines` become macros.
    pub fn new(name: impl Into<String>, source: &'static str, defines: Vec<(&'static str, String)>) -> Self {
        Recipe { name: name.into(), source, defines }
    }

    fn text(&self) -> String {
        [KERNEL, PARTS, HOSTS, INTERNALS, LICENCE, self.source].concat()
    }

    /// The name of its object: another one for every text and every macro.
    pub fn key(&self) -> String {
        let mut hasher = DefaultHasher::new();
        (self.text(), &self.defines).hash(&mut hasher);
        format!("{:016x}.o", hasher.finish())
    }

    /// Its object: compiled elsewhere, or compiled now.
    pub fn object(&self) -> Result<Vec<u8>, LiveError> {
        compiled(&self.key(), &self.name).unwrap_or_else(|| self.compile())
    }

    /// Its object, compiled here, once in a process.
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
        // Else the object says where it was compiled, and is another in each place.
        clang.args(["-c", "-", "-o", "-"]).current_dir("/");
        clang.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = clang.spawn().map_err(|error| fail(format!("clang does not start: {error}")))?;
        let mut input = running.stdin.take().expect("piped above");
        // Read by clang in full before it writes a byte: the two pipes cannot block each other.
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
