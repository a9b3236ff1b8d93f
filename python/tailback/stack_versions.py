"""Which version of a QUIC stack's crate is the first with which a condition fails: what `tailback bisect` does.

Each version is compiled with the adapter that `tailback-bench` has for the stack, and judged by `[expect]` over seeds.
A version whose interface the adapter does not fit is skipped.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from tailback.errors import TailbackError, nearest
from tailback.files import write_text
from tailback.scenario import Scenario
from tailback.vm.bisected import Bisected, Seen, bisect
from tailback.vm.kernels import cache

__all__ = ["STACKS", "between", "search", "tried_with", "versions"]

#: Crates that have an adapter: the folder in `tailback-bench`'s examples, and the adapter's type.
STACKS = {"noq-proto": ("noq", "noq::Noq"), "quinn-proto": ("quinn", "quinn::Quinn")}
#: Seconds that a version's runs may take.
_PATIENCE_S = 900
_CRATES = Path(__file__).resolve().parents[2] / "crates"

_MAIN = """\
//! A scenario with this version of the stack: the verdict, the measured mean, and what it rests on.

extern crate tailback_bench as tailback_core;

use std::sync::Arc;

use tailback_bench::clock;
use tailback_bench::foreign::{{Stack, Stacks}};

mod entropy;
mod null;
mod {module};

fn main() {{
    let [_, file, cc] = std::env::args().collect::<Vec<_>>().try_into().expect("a scenario and a congestion control");
    let stacks = Stacks::from([("subject".into(), Arc::new({kind}) as Arc<dyn Stack>)]);
    let text = std::fs::read_to_string(file).expect("a readable scenario");
    let judged = tailback::Scenario::hosting(&text, &stacks)
        .and_then(|scenario| scenario.with_subject("subject", &cc, &stacks))
        .and_then(|scenario| tailback::test(&scenario));
    match judged {{
        Ok(tested) if tested.faults().is_empty() => {{
            println!("{{:?}}\\n{{}}\\n{{tested}}", tested.verdict(), tested.conditions()[0].measured.estimate);
        }}
        Ok(tested) => println!("Failed\\nNaN\\n{{}}", tested.faults().join("\\n")),
        Err(error) => println!("Refused\\nNaN\\n{{error}}"),
    }}
}}
"""

_MANIFEST = """\
[package]
name = "tailback-version"
version = "0.1.0"
edition = "2024"

[workspace]

[dependencies]
{crate} = {{ version = "={version}", default-features = false }}
bytes = "1"
tailback = {{ path = "{crates}/tailback" }}
tailback-bench = {{ path = "{crates}/tailback-bench" }}
"""


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.partition("+")[0].split("."))


def listed(index: bytes) -> list[str]:
    """The versions in an entry of cargo's index, oldest first; without yanked ones and pre-releases.

    >>> rows = [{"vers": "0.10.0"}, {"vers": "0.9.1"}, {"vers": "0.9.2", "yanked": True}, {"vers": "1.0.0-rc"}]
    >>> listed(b"3" + bytes([0]) + bytes([0]).join(json.dumps(row).encode() for row in rows))
    ['0.9.1', '0.10.0']
    """
    rows = [json.loads(part) for part in re.split(rb"[\0\n]", index) if part.startswith(b"{")]
    found = {row["vers"] for row in rows if not row.get("yanked") and "-" not in row["vers"]}
    return sorted(found, key=_order)


def versions(crate: str) -> list[str]:
    """The published versions of a crate, oldest first: cargo looks them up, its index says which there are."""
    project = _project(crate, "*")
    _cargo(["generate-lockfile"], project)
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    entries = sorted(home.glob(f"registry/index/*/.cache/*/*/{crate}"), key=lambda path: path.stat().st_mtime)
    if not entries:
        raise TailbackError(f"cargo's index has no crate {crate}. Name the versions: --versions 0.11.8,0.11.19")
    return listed(entries[-1].read_bytes())


def between(good: str, bad: str, known: Iterable[str]) -> list[str]:
    """The versions from `good` to `bad`, both included; backwards if `good` is the later one.

    >>> between("0.2.0", "0.1.0", ["0.1.0", "0.1.5", "0.2.0", "0.3.0"])
    ['0.2.0', '0.1.5', '0.1.0']
    """
    ordered = list(known)
    for field, version in (("GOOD", good), ("BAD", bad)):
        if version not in ordered:
            hint = f' Did you mean "{close}"?' if (close := nearest(version, ordered)) else ""
            raise TailbackError(f"{field} = {version}: there is no such version.{hint} There are: {', '.join(ordered)}")
    if good == bad:
        raise TailbackError(f"GOOD and BAD are both {good}. Give two versions")
    first, last = ordered.index(good), ordered.index(bad)
    step = 1 if first < last else -1
    return [ordered[at] for at in range(first, last + step, step)]


def tried_with(crate: str, scenario: Scenario, cc: str, expect: str) -> Callable[[str], Seen | str]:
    """What `vm.bisected.bisect` calls for a version: compile it, run `scenario`, and judge `expect` over its seeds."""
    if crate not in STACKS:
        raise TailbackError(f"there is no adapter for the crate {crate}. There are: {', '.join(STACKS)}")
    given = scenario.to_dict()
    given["expect"] = {**given.get("expect", {}), "conditions": [expect]}
    text = Scenario.from_dict(given).to_toml()

    def attempt(version: str) -> Seen | str:
        project = _project(crate, version)
        target = _folder() / "target"
        built = _cargo(["build", "--release", "--quiet"], project, CARGO_TARGET_DIR=str(target))
        if built is not None:
            return built
        file = project / "scenario.toml"
        write_text(file, text)
        program = target / "release" / "tailback-version"
        try:
            done = subprocess.run(
                [program, file, cc], capture_output=True, text=True, timeout=_PATIENCE_S, check=False, errors="replace"
            )
        except subprocess.TimeoutExpired:
            return f"no answer in {_PATIENCE_S} s"
        verdict, _, rest = done.stdout.partition("\n")
        measured, _, why = rest.partition("\n")
        if done.returncode or not verdict:
            return f"it ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"
        if verdict == "Refused":
            raise TailbackError(f"{crate} {version}: {why.strip()}")
        if verdict == "Undecided":
            return f"undecided: {why.strip()}"
        return Seen(version, why.strip(), verdict == "Passed", {expect: float(measured)})

    return attempt


def search(
    crate: str,
    good: str,
    bad: str,
    attempt: Callable[[str], Seen | str],
    say: Callable[[str], object] = lambda _: None,
    *,
    known: Iterable[str] | None = None,
) -> Bisected:
    """The last good and the first bad version between two, of those `known` or of all that are published."""
    names = between(good, bad, versions(crate) if known is None else known)
    say(f"{len(names)} versions from {names[0]} to {names[-1]}: at most {len(names).bit_length() + 2} builds")
    return bisect(names, attempt, say, cannot="cannot be judged")


def _folder() -> Path:
    return cache().with_name("stacks")


def _project(crate: str, version: str) -> Path:
    """A project of this version with the stack's adapter."""
    module, kind = STACKS[crate]
    adapter = _CRATES / "tailback-bench" / "examples" / module
    if not adapter.is_dir():
        raise TailbackError(f"{adapter} is not there: bisecting stacks needs a checkout of tailback")
    root = _folder() / f"{crate}-{'any' if version == '*' else version}"
    (root / "src").mkdir(parents=True, exist_ok=True)
    exact = _MANIFEST.format(crate=crate, version=version, crates=_CRATES)
    write_text(root / "Cargo.toml", exact.replace('"=*"', '"*"'))
    write_text(root / "src/main.rs", _MAIN.format(module=module, kind=kind))
    for file in adapter.glob("*.rs"):
        if file.name != "main.rs":
            shutil.copyfile(file, root / "src" / file.name)
    return root


@functools.cache
def _program() -> str:
    found = shutil.which("cargo")
    if found is None:
        raise TailbackError("cargo is not installed: versions are compiled. Install Rust: https://rustup.rs")
    return found


def _cargo(words: list[str], project: Path, **settings: str) -> str | None:
    """Run cargo; its first complaint, or None."""
    env = os.environ | settings | {"CARGO_TERM_COLOR": "never"}
    done = subprocess.run([_program(), *words], cwd=project, env=env, capture_output=True, text=True, check=False)
    if not done.returncode:
        return None
    lines = [line for line in done.stderr.splitlines() if line.startswith("error")]
    return f"it does not compile: {(lines or done.stderr.strip().splitlines() or ['cargo failed'])[0]}"
