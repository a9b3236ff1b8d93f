"""Try many scenarios, and write down the smallest that fails: `scripts/fuzz [--cases N] [--first SEED]`."""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
from pathlib import Path

import tailback as tb
from fuzz.cases import Table, case
from fuzz.checks import problem
from fuzz.shrink import kind, shrink

#: Events, packets and rows of a run: a twentieth of a second or less.
MOST = 60_000
#: Every so many scenarios are run twice.
TWICE = 8
#: A scenario that takes longer hangs: Python's stack is printed, and the file under way stays.
HANGS_S = 120


def fault_of(tables: Table, *, twice: bool = False) -> str | None:
    """What is wrong with a scenario's run of `MOST` steps."""
    return problem(tables, most=MOST, twice=twice)


def as_toml(tables: Table) -> str:
    """The scenario's file; a comment if it cannot be read even as tables."""
    try:
        return tb.Scenario.from_dict(tables).to_toml()
    except Exception as error:  # then the tables themselves must do
        return f"# Not a scenario: {error}\n# {tables!r}\n"


def main(words: list[str] | None = None) -> int:
    """Print what was found; the exit code is 1 if anything was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--out", type=Path, default=Path("fuzz"), help="the folder for what fails")
    given = parser.parse_args(words)
    given.out.mkdir(parents=True, exist_ok=True)
    under_way = given.out / "under-way.toml"
    began, known, ran = time.monotonic(), set(), 0
    for seed in range(given.first, given.first + given.cases):
        tables = case(seed)
        under_way.write_text(f"# seed {seed}\n# {tables!r}\n", encoding="utf-8")
        faulthandler.dump_traceback_later(HANGS_S, exit=True, file=sys.__stderr__)
        fault = fault_of(tables, twice=seed % TWICE == 0)
        ran += 1
        if fault is not None and kind(fault) not in known:
            known.add(kind(fault))
            faulthandler.dump_traceback_later(60 * HANGS_S, exit=True, file=sys.__stderr__)
            small = shrink(tables, lambda plainer, twice=seed % TWICE == 0: fault_of(plainer, twice=twice))
            file = given.out / f"seed-{seed}.toml"
            text = as_toml(small)
            file.write_text(f"# {fault_of(small, twice=True) or fault}\n{text}", encoding="utf-8")
            print(f"seed {seed}: {fault}\n  smallest: {file}", flush=True)
    faulthandler.cancel_dump_traceback_later()
    under_way.unlink()
    print(f"{ran} scenarios in {time.monotonic() - began:.0f} s, {len(known)} kinds of faults")
    return 1 if known else 0
