use std::env;
use std::fmt;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use tailback_core::foreign::Stack;

use crate::case::{Case, Subject};
use crate::page;

/// Files of the suite `transport`, which is part of this crate.
macro_rules! suite {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("transport/", $name, ".toml")))),+]
    };
}
const TRANSPORT: [(&str, &str); 9] = suite![
    "alone",
    "beside-cubic",
    "blackout",
    "codel",
    "jitter",
    "random-loss",
    "tenfold-fall",
    "transfers",
    "two-alike",
];

type Snapshot = fn(&Path, String, String);

/// A stack and its tests: the suite `transport` and the scenarios of added folders, each with every congestion control
/// of the stack. [`Bench::main`] is the main function of a test without harness, and accepts the options of `cargo
/// test`.
#[derive(Clone, Debug)]
pub struct Bench {
    subject: Subject,
    version: Option<String>,
    cases: Vec<Case>,
    seeds: Option<u64>,
    known: Vec<Known>,
    snapshots: Option<PathBuf>,
    root: PathBuf,
    snapshot: Option<Snapshot>,
}

/// A test that is known to fail.
#[derive(Clone, Debug)]
struct Known {
    test: String,
    why: String,
}

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every condition holds.
    Passed,
    /// A condition does not hold, or the test could not be judged.
    Failed,
    /// It failed, as listed by [`Bench::known`].
    KnownToFail,
}

impl Verdict {
    /// The printed word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Failed => "failed",
            Verdict::KnownToFail => "known to fail",
        }
    }
}

/// A test's verdict and its details.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// Its name, such as `transport/jitter/bbr`.
    pub test: String,
    /// The verdict.
    pub verdict: Verdict,
    /// One line per condition with its interval, or what went wrong.
    pub text: String,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}\n{}", self.test, self.verdict, self.text)
    }
}

impl Bench {
    /// A bench with the suite `transport`. Use [`crate::bench!`], which supplies the caller's crate folder.
    pub fn new(name: &str, stack: impl Stack + 'static) -> Self {
        let read = |(case, text): &(&str, &str)| Case {
            name: format!("transport/{case}"),
            text: Ok((*text).into()),
        };
        let patience = Duration::from_secs(20);
        Bench {
            subject: Subject { name: name.into(), stack: Arc::new(stack), patience },
            version: None,
            cases: TRANSPORT.iter().map(read).collect(),
            seeds: None,
            known: Vec::new(),
            snapshots: None,
            root: PathBuf::from("."),
            snapshot: None,
        }
    }

    #[doc(hidden)]
    pub fn at(mut self, root: &str, snapshot: Snapshot) -> Self {
        self.root = root.into();
        self.snapshot = Some(snapshot);
        self
    }

    /// Adds the scenario files of a folder, by its path in the crate: each has a flow called `subject` and `[expect]`.
    pub fn folder(mut self, folder: &str) -> Self {
        let path = self.root.join(folder);
        let mut files: Vec<PathBuf> = match fs::read_dir(&path) {
            Ok(entries) => entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect(),
            Err(error) => {
                let text = Err(format!("the folder {} cannot be read: {error}", path.display()));
                self.cases.push(Case { name: folder.into(), text });
                return self;
            }
        };
        files.sort();
        for file in files.iter().filter(|file| file.extension().is_some_and(|it| it == "toml")) {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()));
            self.cases.push(Case { name: format!("{folder}/{stem}"), text });
        }
        self
    }

    /// Omits the built-in suite: only folders added later are judged.
    pub fn without_suite(mut self) -> Self {
        self.cases.clear();
        self
    }

    /// Runs this many seeds, at least two, instead of as many as the verdicts need.
    pub fn seeds(mut self, seeds: u64) -> Self {
        self.seeds = Some(seeds);
        self
    }

    /// Declares that a test is known to fail, and why: `known("transport/jitter/bbr", "…")`. It counts as passed while
    /// it fails; once it passes, that is an error, so that the list stays correct.
    pub fn known(mut self, test: &str, why: &str) -> Self {
        self.known.push(Known { test: test.into(), why: why.into() });
        self
    }

    /// Keeps the measures of one run of each scenario in this folder of the crate. A change fails; `cargo insta review`
    /// accepts it.
    pub fn snapshots(mut self, folder: &str) -> Self {
        self.snapshots = Some(folder.into());
        self
    }

    /// The longest real time that one call of the stack may take; 20 s by default.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.subject.patience = patience;
        self
    }

    /// The stack's version as shown on the page, if [`Stack::version`] does not know it.
    pub fn version(mut self, version: &str) -> Self {
        self.version = Some(version.into());
        self
    }

    /// The names of the tests.
    pub fn tests(&self) -> Vec<String> {
        self.planned().into_iter().map(|test| test.name).collect()
    }

    /// Runs the test with this name; `None` if there is none.
    pub fn run(&self, test: &str) -> Option<Outcome> {
        self.planned().iter().find(|it| it.name == test).map(|it| self.outcome(it))
    }

    /// The test program: runs the tests that the command line selects, by default all.
    pub fn main(self) -> ExitCode {
        self.main_with(&Arguments::from_args())
    }

    fn main_with(self, arguments: &Arguments) -> ExitCode {
        let outcomes: Arc<Mutex<Vec<Outcome>>> = Arc::default();
        let bench = Arc::new(self);
        let trials = bench.planned().into_iter().map(|test| {
            let (bench, outcomes) = (bench.clone(), outcomes.clone());
            let kind = if bench.expected(&test).is_some() { Verdict::KnownToFail.word() } else { "" };
            Trial::test(test.name.clone(), move || {
                let outcome = bench.outcome(&test);
                let failed = outcome.verdict == Verdict::Failed;
                let text = outcome.text.clone();
                outcomes.lock().unwrap_or_else(|it| it.into_inner()).push(outcome);
                if failed { Err(Failed::from(text)) } else { Ok(()) }
            })
            .with_kind(kind)
        });
        let conclusion = libtest_mimic::run(arguments, trials.collect());
        let mut outcomes = std::mem::take(&mut *outcomes.lock().unwrap_or_else(|it| it.into_inner()));
        outcomes.sort_by(|a, b| a.test.cmp(&b.test));
        if let (Some(folder), false) = (env::var_os(crate::PAGES), arguments.list) {
            if let Err(error) = bench.write(Path::new(&folder), &outcomes) {
                eprintln!("the page cannot be written to {}: {error}", Path::new(&folder).display());
                return ExitCode::FAILURE;
            }
        }
        conclusion.exit_code()
    }

    fn write(&self, folder: &Path, outcomes: &[Outcome]) -> std::io::Result<()> {
        fs::create_dir_all(folder)?;
        let version = self.version.clone().unwrap_or_else(|| self.subject.stack.version().into());
        let texts: Vec<(&str, &str)> = self
            .cases
            .iter()
            .filter_map(|case| Some((case.name.as_str(), case.text.as_deref().ok()?)))
            .collect();
        let page = page::page(&self.subject.name, &version, outcomes, &texts);
        fs::write(folder.join(format!("{}.html", self.subject.name)), page)
    }

    fn planned(&self) -> Vec<Test> {
        let mut tests = Vec::new();
        for cc in self.subject.stack.algorithms() {
            for case in &self.cases {
                let name = format!("{}/{cc}", case.name);
                tests.push(Test { name, cc, what: What::Judge(case.clone()) });
            }
            if let Some(case) = self.cases.first() {
                tests.push(Test { name: format!("repeats/{cc}"), cc, what: What::Repeat(case.clone()) });
            }
            if self.snapshots.is_some() {
                tests.push(Test { name: format!("snapshot/{cc}"), cc, what: What::Snapshot });
            }
        }
        for Known { test, .. } in &self.known {
            if !tests.iter().any(|it| it.name == *test) {
                tests.push(Test { name: test.clone(), cc: "", what: What::Unknown });
            }
        }
        tests
    }

    fn expected(&self, test: &Test) -> Option<&Known> {
        self.known.iter().find(|known| known.test == test.name && test.what != What::Unknown)
    }

    fn outcome(&self, test: &Test) -> Outcome {
        let Test { name, cc, what } = test;
        let found = match what {
            What::Judge(case) => self.subject.judge(case, cc, self.seeds),
            What::Repeat(case) => self.subject.repeats(case, cc),
            What::Snapshot => self.kept(cc),
            What::Unknown => Err(format!("known() names {name}, and there is no such test")),
        };
        let (verdict, text) = match (found, self.expected(test)) {
            (Ok(text), None) => (Verdict::Passed, text),
            (Err(text), None) => (Verdict::Failed, text),
            (Err(text), Some(known)) => (Verdict::KnownToFail, format!("{text}\nKnown: {}", known.why)),
            (Ok(text), Some(_)) => (
                Verdict::Failed,
                format!("it passes, and known() says that it fails: remove the line\n{text}"),
            ),
        };
        Outcome { test: name.clone(), verdict, text }
    }

    /// Compares the measures with the stored ones.
    fn kept(&self, cc: &str) -> Result<String, String> {
        let (Some(folder), Some(snapshot)) = (&self.snapshots, self.snapshot) else {
            return Err("snapshots need the macro bench!, which knows the crate they are kept in".into());
        };
        let measured: Result<Vec<String>, String> =
            self.cases.iter().map(|case| self.subject.measures(case, cc)).collect();
        let (folder, text) = (self.root.join(folder), measured?.concat());
        let name = format!("{}-{cc}", self.subject.name);
        match catch_unwind(AssertUnwindSafe(|| snapshot(&folder, name, text.clone()))) {
            Ok(()) => Ok(text),
            Err(_) => Err(format!(
                "the measures differ from those kept in {}: `cargo insta review` shows and accepts them",
                folder.display()
            )),
        }
    }
}

/// A test for one congestion control.
#[derive(Debug)]
struct Test {
    name: String,
    cc: &'static str,
    what: What,
}

#[derive(Debug, PartialEq)]
enum What {
    Judge(Case),
    Repeat(Case),
    Snapshot,
    /// `known` names a test that does not exist.
    Unknown,
}
