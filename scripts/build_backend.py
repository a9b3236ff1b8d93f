"""maturin's build backend (PEP 517), which first says what the compiler lacks: pip shows that instead of its log."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import maturin

ROOT = Path(__file__).parents[1]

build_sdist = maturin.build_sdist
get_requires_for_build_sdist = maturin.get_requires_for_build_sdist


def least_rust() -> str:
    """The oldest Rust that compiles every crate, for example "1.95"."""
    crate = tomllib.loads((ROOT / "crates/tailback-quic/Cargo.toml").read_text(encoding="utf-8"))
    return str(crate["package"]["rust-version"])


def missing() -> list[str]:
    """What is not there, each with the command that installs it."""
    out = []
    rustup = "curl --proto =https --tlsv1.2 -sSf https://sh.rustup.rs | sh"
    if shutil.which("cargo") is None or shutil.which("rustc") is None:
        out.append(f"Rust {least_rust()} or newer (cargo and rustc). Install it: {rustup}")
    else:
        done = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=False)
        found = re.search(r"rustc (\d+)\.(\d+)", done.stdout)
        if found is None:
            out.append("a Rust toolchain behind rustc. Install one: rustup default stable")
        elif tuple(map(int, found.groups())) < tuple(map(int, least_rust().split(".")[:2])):
            out.append(f"Rust {least_rust()} or newer (there is {found[0]}). Update it: rustup update stable")
    if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
        install = "xcode-select --install" if sys.platform == "darwin" else "apt-get install build-essential"
        out.append(f"a C compiler (cc), which links. Install one, for example: {install}")
    return out


def _checked(build: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*words: Any, **options: Any) -> Any:
        lacks = missing()
        if lacks:
            sys.exit("\n".join(["tailback is compiled from its sources, and this machine lacks:", *lacks]))
        return build(*words, **options)

    return checked


# The first hook that is called: maturin's would fetch a Rust of its own without a word.
get_requires_for_build_wheel = _checked(maturin.get_requires_for_build_wheel)
get_requires_for_build_editable = _checked(maturin.get_requires_for_build_editable)
prepare_metadata_for_build_wheel = maturin.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = maturin.prepare_metadata_for_build_editable
build_wheel = _checked(maturin.build_wheel)
build_editable = _checked(maturin.build_editable)
