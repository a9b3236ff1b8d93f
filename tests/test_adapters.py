"""The projects that adapt a stack to tailback-bench give what they declare."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ADAPTERS = sorted(path.parent for path in ROOT.glob("crates/tailback-bench/adapters/*/Cargo.toml"))


@pytest.mark.long
@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda path: path.name)
def test_an_adapter_comes_out_as_it_declares(adapter: Path) -> None:
    environment = {**os.environ, "CARGO_TARGET_DIR": str(ROOT / "target/adapters")}
    command = ["cargo", "test", "--release", "--quiet", "--test", "transport"]
    subprocess.run(command, cwd=adapter, env=environment, check=True)


@pytest.mark.parametrize("adapter", ["smoltcp", "str0m"])
def test_an_adapter_is_short(adapter: str) -> None:
    lines = (ROOT / f"crates/tailback-bench/adapters/{adapter}/tests/transport.rs").read_text("utf-8").splitlines()
    assert sum(bool(line.strip()) and not line.strip().startswith("//") for line in lines) < 150
