"""The web build of the engine beside the native one: the same scenario gives the same bytes.

`python -m fuzz.web [--cases N]` compares random scenarios alone; the exit code is 1 if any differs or nothing could be
compared.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import tailback as tb
from fuzz.cases import Table, case
from tailback import _core

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "explorer/src/engine/wasm"
MODULE = "tailback_web_bg.wasm"
#: What the web build is compiled from.
SOURCES = ("tailback-core", "tailback-measures", "tailback-scenario", "tailback-web")
#: Events, packets and rows of a run. Both engines end after this many, in one slice.
MOST = 60_000


def missing(build: Path = BUILD) -> str | None:
    """Why the web build cannot be asked; None if it can."""
    if shutil.which("node") is None:
        return "node is not installed"
    if not (build / MODULE).is_file():
        return "it is not there. Build it: make explorer"
    newest = max(file.stat().st_mtime for crate in SOURCES for file in (ROOT / "crates" / crate / "src").rglob("*.rs"))
    if (build / MODULE).stat().st_mtime < newest:
        return "it is older than the engine's sources. Build it again: make explorer"
    return None


class Web:
    """The web build in a process of Node.js; `with` ends it."""

    #: Scenarios that both engines were given.
    compared = 0

    def __init__(self, build: Path = BUILD) -> None:
        words = ["node", str(Path(__file__).with_name("web.mjs")), str(build)]
        self._node = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Web:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._node.kill()
        self._node.communicate()

    def run(self, toml: str, most: int = MOST) -> dict[str, Any]:
        """The answer of tests/fuzz/web.mjs."""
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.write(json.dumps({"toml": toml, "most": most}) + "\n")
        self._node.stdin.flush()
        line = self._node.stdout.readline()
        out: dict[str, Any] = json.loads(line) if line else {"fault": "the process of the web build ended"}
        return out

    def problem(self, tables: Table) -> str | None:
        """How the web build differs from the native one on a scenario; None where it does not or has no such flows."""
        if any("transport" in flow for flow in tables.get("flow", ())):
            return None
        try:
            scenario = tb.Scenario.from_dict(tables)
            resolved = scenario.resolve()
        except tb.ScenarioError:
            # The same code reads both: what it refuses here is tried by `checks`.
            return None
        try:
            native = digest(_core.run(json.dumps(resolved), most=MOST))
        except _core.ScenarioError:
            native = None
        answer = self.run(scenario.to_toml())
        self.compared += 1
        if "fault" in answer:
            return f"the web build stopped: {answer['fault']}"
        if "refused" in answer:
            return None if native is None else f"the web build alone refuses: {answer['refused']}"
        if native is None:
            return "the web build alone runs"
        return None if answer["hash"] == native else f"the web build gives {answer['hash']}, the native one {native}"


def digest(tables: dict[str, Any]) -> str:
    """Bytes of all columns and their CRC-32, as the web build states them of its runs."""
    crc, count = 0, 0
    for name in sorted(set(tables) - {"_names"}):
        for column in tables[name].values():
            piece = column.tobytes()
            crc, count = zlib.crc32(piece, crc), count + len(piece)
    return f"{count}-{crc:08x}"


def main() -> int:
    """Compare random scenarios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=50)
    given = parser.parse_args()
    reason = missing()
    if reason is not None:
        print(f"native against the web build: not tried, {reason}")
        return 1
    with Web() as web:
        faults = [(seed, fault) for seed in range(given.cases) if (fault := web.problem(case(seed)))]
        print(f"{web.compared} of {given.cases} scenarios compared with the web build, {len(faults)} differ")
    for seed, fault in faults:
        print(f"seed {seed}: {fault}")
    return 1 if faults or not web.compared else 0


if __name__ == "__main__":
    sys.exit(main())
