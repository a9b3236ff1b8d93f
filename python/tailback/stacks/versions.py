"""Versions of a QUIC stack's crate: lists them, and compiles one as a program or as a candidate.

Each version is compiled with `tailback-bench`'s adapter for the stack, and with overflow checks as in a debug build. A
candidate such as "noq-proto@1.1.0" is treated as a user's transport, through the C interface.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tailback.checksums import digest
from tailback.errors import TailbackError, nearest
from tailback.files import cached, write_text

__all__ = ["STACKS", "between", "demand_adapter", "is_version", "program", "source", "versions"]

#: Crates with an adapter: its folder in `tailback-bench`'s examples, and its type.
STACKS = {"noq-proto": ("noq", "noq::Noq"), "quinn-proto": ("quinn", "quinn::Quinn")}
_CRATES = Path(__file__).resolve().parents[3] / "crates"
_EXPORTED = Path(__file__).with_name("exported.rs")
_VERSION = re.compile(r"(?P<crate>[a-z0-9-]+)@(?P<version>\d+(\.\d+){2})")
#: Parts of an adapter that a crate before that version does not support.
_FITS: dict[str, list[tuple[tuple[int, int, int], list[tuple[str, str]]]]] = {
    "noq-proto": [
        ((1, 2, 0), [("    fn on_cwnd_limited(&mut self) {\n        self.inner.on_cwnd_limited();\n    }\n", "")])
    ],
    "quinn-proto": [
        ((0, 11, 18), [("if has_sample { path.min_rtt } else { Default::default() }", "Default::default()")]),
        (
            (0, 11, 13),
            [
                (", ControllerMetrics", ""),
                ("    fn metrics(&self) -> ControllerMetrics {\n        self.inner.metrics()\n    }\n", ""),
                ("    let metrics = connection.congestion_state().metrics();\n", ""),
                ("metrics.ssthresh.unwrap_or(u64::MAX)", "u64::MAX"),
                ("metrics.pacing_rate.map(Rate::from_bps)", "None"),
            ],
        ),
        # Tokens, which no connection here uses, would contain the host's time.
        (
            (0, 11, 10),
            [
                ("StreamId, TimeSource, ", "StreamId, "),
                ("    accept.time_source(Arc::new(Epoch));\n", ""),
                ("impl TimeSource for Epoch {", "impl Epoch {"),
            ],
        ),
    ],
}

_MODULES = """\
mod entropy;
mod null;
mod {module};
"""

_MAIN = """\
//! A scenario with this version of the stack: the verdict, the measured mean, and what it rests on.

extern crate tailback_bench as tailback_core;

{modules}
use std::sync::Arc;

use tailback_bench::clock;
use tailback_bench::foreign::{{Stack, Stacks}};

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

_LIBRARY = """\
//! This version of the stack as a shared library.

mod clock;
{modules}
mod exported;

/// The stack, as `tailback_stack.h` has it.
#[unsafe(no_mangle)]
pub extern "C" fn tailback_stack() -> *const exported::Table {{
    exported::export({kind}, "{version}")
}}
"""

#: C source of the transport. It contains the library's digest, so that a changed library is loaded again.
_SOURCE = """\
/* {crate} {version}, compiled with its adapter: {digest}. */
#include <dlfcn.h>
#include "tailback_stack.h"

__attribute__((visibility("default"))) const struct tailback_stack *tailback_stack(void)
{{
    void *library = dlopen("{library}", RTLD_NOW | RTLD_LOCAL);
    const struct tailback_stack *(*stack)(void) = library ? dlsym(library, "tailback_stack") : 0;
    return stack ? stack() : 0;
}}
"""

_MANIFEST = """\
[package]
name = "tailback-version"
version = "0.1.0"
edition = "2024"

[workspace]

[lib]
name = "tailback_version_stack"
crate-type = ["cdylib"]

[[bin]]
name = "tailback-version"
path = "src/main.rs"
required-features = ["judge"]

[features]
judge = ["dep:tailback", "dep:tailback-bench"]

[dependencies]
{crate} = {{ version = "={version}", default-features = false }}
bytes = "1"
getrandom = {{ path = "{crates}/seeded-entropy", version = "0.4.3" }}
tailback = {{ path = "{crates}/tailback", optional = true }}
tailback-bench = {{ path = "{crates}/tailback-bench", optional = true }}
tailback-core = {{ path = "{crates}/tailback-core" }}

# What the stack draws from its thread's generator comes from the seed too.
[patch.crates-io]
getrandom = {{ path = "{crates}/seeded-entropy" }}

[profile.release]
overflow-checks = true
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
    """The published versions of a crate, oldest first, from cargo's index."""
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


def is_version(name: str) -> bool:
    """Whether this is a crate's version in a candidate's form.

    >>> is_version("noq-proto@1.1.0"), is_version("noq")
    (True, False)
    """
    return _VERSION.fullmatch(name) is not None


def program(crate: str, version: str) -> Path | str:
    """Compile a version with its judge; returns the program, which takes a scenario and a cc, or the error."""
    project = _project(crate, version)
    target = _folder() / "target"
    words = ["build", "--release", "--quiet", "--features", "judge", "--bin", "tailback-version"]
    built = _cargo(words, project, CARGO_TARGET_DIR=str(target))
    return target / "release" / "tailback-version" if built is None else built


def source(name: str) -> Path:
    """Compile the version that `name` names; returns a C source for this transport."""
    found = _VERSION.fullmatch(name)
    assert found is not None
    crate, version = found["crate"], found["version"]
    demand_adapter(crate)
    project = _project(crate, version)
    target = _folder() / "target"
    built = _cargo(["build", "--release", "--quiet", "--lib"], project, CARGO_TARGET_DIR=str(target))
    if built is not None:
        raise TailbackError(f"{crate} {version}: {built}")
    # Versions share a cargo target folder.
    compiled = (target / "release" / "libtailback_version_stack.so").read_bytes()
    library = project / "stack.so"
    if not library.is_file() or library.read_bytes() != compiled:
        temporary = library.with_suffix(".part")
        temporary.write_bytes(compiled)
        temporary.replace(library)
    file = project / f"{crate}-{version}.c"
    write_text(file, _SOURCE.format(crate=crate, version=version, digest=digest(compiled), library=library))
    return file


def demand_adapter(crate: str) -> None:
    """Raise `TailbackError` if the crate has no adapter."""
    if crate not in STACKS:
        raise TailbackError(f"there is no adapter for the crate {crate}. There are: {', '.join(STACKS)}")


def _folder() -> Path:
    return cached("stacks")


def _project(crate: str, version: str) -> Path:
    """A cargo project for this version with the stack's adapter."""
    module, kind = STACKS[crate]
    adapter = _CRATES / "tailback-bench" / "examples" / module
    if not adapter.is_dir():
        raise TailbackError(f"{adapter} is not there: bisecting stacks needs a checkout of tailback")
    root = _folder() / f"{crate}-{'any' if version == '*' else version}"
    (root / "src").mkdir(parents=True, exist_ok=True)
    exact = _MANIFEST.format(crate=crate, version=version, crates=_CRATES)
    modules = _MODULES.format(module=module)
    # Replaces the adapter's `entropy.rs`, which does not take entropy from a seed.
    ours = _CRATES / "tailback-quic" / "src"
    texts = {
        file.name: _fitted(file.read_text(encoding="utf-8"), crate, version)
        for file in [*adapter.glob("*.rs"), ours / "entropy.rs", ours / "clock.rs", _EXPORTED]
    }
    texts["main.rs"] = _MAIN.format(modules=modules, kind=kind)
    texts["lib.rs"] = _LIBRARY.format(modules=modules, kind=kind, version=version)
    files = {"Cargo.toml": exact.replace('"=*"', '"*"')} | {f"src/{name}": text for name, text in texts.items()}
    for name, text in files.items():
        place = root / name
        # Unchanged files keep their modification time, by which cargo decides what to compile.
        if not place.is_file() or place.read_text(encoding="utf-8") != text:
            write_text(place, text)
    return root


def _fitted(text: str, crate: str, version: str) -> str:
    """An adapter's file for this version of the crate, without parts that the version does not support."""
    text = re.sub(r'(?<=VERSION: &str = ")[^"]+', version, text)
    for since, changes in _FITS.get(crate, []):
        if version != "*" and _order(version) < since:
            for later, before in changes:
                text = text.replace(later, before)
    return text


@functools.cache
def _program() -> str:
    found = shutil.which("cargo")
    if found is None:
        raise TailbackError("cargo is not installed: versions are compiled. Install Rust: https://rustup.rs")
    return found


def _cargo(words: list[str], project: Path, **settings: str) -> str | None:
    """Run cargo; returns its first error, or None."""
    env = os.environ | settings | {"CARGO_TERM_COLOR": "never"}
    done = subprocess.run([_program(), *words], cwd=project, env=env, capture_output=True, text=True, check=False)
    if not done.returncode:
        return None
    lines = [line for line in done.stderr.splitlines() if line.startswith("error")]
    return f"it does not compile: {(lines or done.stderr.strip().splitlines() or ['cargo failed'])[0]}"
