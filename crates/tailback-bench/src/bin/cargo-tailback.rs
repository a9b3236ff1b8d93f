//! `cargo tailback`: runs the crate's benches like `cargo test`, and writes a page for each to `target/tailback`.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::SystemTime;

use tailback_bench::PAGES;

const HELP: &str = "\
Run the tests of tailback-bench and write a page of them.

Usage: cargo tailback [--out FOLDER] [ARGUMENTS OF cargo test]

  cargo tailback                           every test target
  cargo tailback --test transport          the one called transport
  cargo tailback --test transport -- bbr   its tests with bbr in their names

Pages go to target/tailback, or to FOLDER. The exit code is that of cargo test.";

fn main() -> ExitCode {
    let mut given: Vec<String> = env::args().skip(1).collect();
    // For a subcommand, cargo passes its name first.
    if given.first().is_some_and(|it| it == "tailback") {
        given.remove(0);
    }
    let ours = given.iter().position(|it| it == "--").unwrap_or(given.len());
    if given[..ours].iter().any(|it| it == "--help" || it == "-h") {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let mut folder = None;
    if let Some(at) = given[..ours].iter().position(|it| it == "--out") {
        if at + 1 >= ours {
            eprintln!("--out has no folder. Write for example --out pages");
            return ExitCode::from(2);
        }
        folder = Some(PathBuf::from(given.remove(at + 1)));
        given.remove(at);
    }
    let folder = folder.unwrap_or_else(|| {
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
        target.join("tailback")
    });
    // Tests run in their packages' folders, so the path must be absolute.
    let folder = env::current_dir().map(|here| here.join(&folder)).unwrap_or(folder);
    let began = SystemTime::now();
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).arg("test").arg("--release").args(&given).env(PAGES, &folder).status();
    let pages = fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    // Older pages belong to other runs.
    let is_new = |path: &PathBuf| {
        let written = path.metadata().and_then(|it| it.modified());
        path.extension().is_some_and(|it| it == "html") && written.is_ok_and(|at| at >= began)
    };
    let mut pages: Vec<PathBuf> = pages.filter(is_new).collect();
    pages.sort();
    for page in &pages {
        println!("{}", page.display());
    }
    match status {
        Ok(status) if pages.is_empty() && status.success() => {
            eprintln!(
                "no test wrote a page: a test of tailback-bench has harness = false and calls Bench::main"
            );
            ExitCode::FAILURE
        }
        Ok(status) => ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)),
        Err(error) => {
            eprintln!("cargo cannot be run: {error}");
            ExitCode::FAILURE
        }
    }
}
