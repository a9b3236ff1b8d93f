"""Try many cases, and write down the smallest that fails: `scripts/fuzz [--cases N] [--first SEED]`."""

from __future__ import annotations

import argparse
import atexit
import faulthandler
import shutil
import sys
import tempfile
import time
from pathlib import Path

import tailback as tb
from fuzz import damage, web
from fuzz.cases import Table, case
from fuzz.checks import problem
from fuzz.shrink import kind, shrink

#: Events, packets and rows of a run: a twentieth of a second or less.
MOST = 60_000
#: Every 8th scenario is run twice, every 2nd by the web build too, every 100th for long; every 10th case is something
#: kept and damaged.
TWICE = 8
WEB = 2
LONG = 100
DAMAGED = 10
#: Events, packets and rows of a long run: some seconds.
MOST_OF_LONG = 4_000_000
#: A scenario that takes longer hangs: Python's stack is printed, and the file under way stays.
HANGS_S = 120


def fault_of(tables: Table, *, twice: bool = False, most: int = MOST) -> str | None:
    """What is wrong with a scenario's run of `most` steps."""
    return problem(tables, most=most, twice=twice)


def as_toml(tables: Table) -> str:
    """The scenario's file; a comment if it cannot be read even as tables."""
    try:
        return tb.Scenario.from_dict(tables).to_toml()
    except Exception as error:  # then the tables themselves must do
        return f"# Not a scenario: {error}\n# {tables!r}\n"


def main(words: list[str] | None = None) -> int:
    """Print what was found; the exit code is 1 if anything was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--out", type=Path, default=Path("fuzz"), help="the folder for what fails")
    given = parser.parse_args(words)
    given.out.mkdir(parents=True, exist_ok=True)
    under_way = given.out / "under-way.toml"
    began, known, ran = time.monotonic(), set(), 0
    reason = web.missing()
    if reason is not None:
        print(f"native against the web build: not tried, {reason}", flush=True)
    other = web.Web() if reason is None else None
    kept = Path(tempfile.mkdtemp(prefix="tailback-fuzz-"))
    atexit.register(shutil.rmtree, kept, ignore_errors=True)
    for seed in range(given.first, given.first + given.cases):
        if seed % DAMAGED == DAMAGED - 1:
            faulthandler.dump_traceback_later(HANGS_S, exit=True, file=sys.__stderr__)
            fault = damage.problem(seed, kept)
            ran += 1
            if fault is not None and kind(fault) not in known:
                known.add(kind(fault))
                print(f"seed {seed}: {fault}", flush=True)
            continue
        tables = case(seed)
        most = MOST_OF_LONG if seed % LONG == 0 else MOST
        under_way.write_text(f"# seed {seed}\n# {tables!r}\n", encoding="utf-8")
        faulthandler.dump_traceback_later(HANGS_S, exit=True, file=sys.__stderr__)
        fault = fault_of(tables, twice=seed % TWICE == 0, most=most)
        ran += 1
        if fault is None and other is not None and seed % WEB == 0:
            differs = other.problem(tables)
            if differs is not None and kind(differs) not in known:
                known.add(kind(differs))
                small = shrink(tables, other.problem)
                file = given.out / f"seed-{seed}.toml"
                file.write_text(f"# {other.problem(small) or differs}\n{as_toml(small)}", encoding="utf-8")
                print(f"seed {seed}: {differs}\n  smallest: {file}", flush=True)
        if fault is not None and kind(fault) not in known:
            known.add(kind(fault))
            faulthandler.dump_traceback_later(60 * HANGS_S, exit=True, file=sys.__stderr__)

            def again(plainer: Table, twice: bool = seed % TWICE == 0, most: int = most) -> str | None:
                return fault_of(plainer, twice=twice, most=most)

            small = shrink(tables, again)
            file = given.out / f"seed-{seed}.toml"
            text = as_toml(small)
            file.write_text(f"# {fault_of(small, twice=True) or fault}\n{text}", encoding="utf-8")
            print(f"seed {seed}: {fault}\n  smallest: {file}", flush=True)
    faulthandler.cancel_dump_traceback_later()
    under_way.unlink(missing_ok=True)
    if other is not None:
        other.close()
        print(f"{other.compared} of them compared with the web build")
    print(f"{ran} cases in {time.monotonic() - began:.0f} s, {len(known)} kinds of faults")
    return 1 if known else 0
