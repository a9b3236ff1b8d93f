"""Measurements of kernels in virtual machines: rows in a CSV file, which is committed.

A row is valid as long as its scenario is unchanged. It names the kernel by release, build and digest, and the guest
program that ran it by digest: the emulated path is tailback's, so a guest of another engine may give another row. `run`
with `again` finds out.
"""

from __future__ import annotations

import csv
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import tailback as tb
from tailback.errors import TailbackError
from tailback.files import whole_file
from tailback.result import Result
from tailback.vm import guest_digest, kernels, stored_runs
from tailback.vm.machine import LostRun

__all__ = ["Row", "Rows", "file_name", "run", "speed"]

Measure = Callable[[Result], dict[str, float]]


@dataclass(frozen=True)
class Row:
    """A run: which (`cell`, `draw`), of what scenario, kernel and guest (digests), and what it measured.

    `refused` is the reason if the guest could not run it; it then has no measures.
    """

    cell: str
    draw: int
    scenario: str
    release: str
    build: str
    digest: str
    guest: str
    refused: str
    measures: dict[str, float]


_FACTS = ("cell", "draw", "scenario", "release", "build", "digest", "guest", "refused")


class Rows:
    """The rows of one study on one kernel, in a CSV file; empty if the file does not exist."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._rows: dict[tuple[str, int], Row] = {}
        if file.is_file():
            with file.open(newline="") as text:
                for line in csv.DictReader(text):
                    draw = int(line.pop("draw"))
                    facts = {name: line.pop(name) for name in _FACTS if name != "draw"}
                    measures = {name: float(value) for name, value in line.items() if value}
                    row = Row(draw=draw, measures=measures, **facts)
                    self._rows[row.cell, row.draw] = row

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, cell: object, draw: int, scenario: tb.Scenario, kernel: kernels.Kernel | None = None) -> Row | None:
        """The row of a cell, if it has this scenario and, if given, this kernel."""
        row = self._rows.get((str(cell), draw))
        if row is None or row.scenario != _digest(scenario):
            return None
        if kernel is not None and not kernel.is_that_of(
            {"release": row.release, "build": row.build, "digest": row.digest}
        ):
            return None
        return row

    def put(self, row: Row) -> None:
        """Store a row, replacing an earlier one of the same cell and draw; the file is written atomically."""
        self._rows[row.cell, row.draw] = row
        names = list(dict.fromkeys(name for each in self._rows.values() for name in each.measures))
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(self.file) as partial, partial.open("w", newline="") as text:
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow([*_FACTS, *names])
            for _, each in sorted(self._rows.items(), key=lambda item: _order(*item[0])):
                facts = [getattr(each, name) for name in _FACTS]
                writer.writerow(
                    [*facts, *(repr(each.measures[name]) if name in each.measures else "" for name in names)]
                )

    def guests(self) -> list[str]:
        """Digests of the guest programs of all rows."""
        return sorted({row.guest for row in self._rows.values()})

    def about(self) -> list[str]:
        """The kernels of all rows, in words."""
        return sorted({f"{row.release} {row.build} ({row.digest})" for row in self._rows.values()})


def _order(cell: str, draw: int) -> tuple[int, str, int]:
    return (int(cell) if cell.isdigit() else -1, cell, draw)


def _digest(scenario: tb.Scenario) -> str:
    return hashlib.sha256(scenario.to_toml().encode()).hexdigest()[:12]


def speed(kernel: str) -> tuple[str, int]:
    """A kernel's name and its guest's dilation: `debian-6.1*4` has a dilation of 4."""
    name, star, dilation = kernel.partition("*")
    if star and not dilation.isdecimal():
        raise TailbackError(f"{kernel}: behind the * stands the dilation, a whole number, as in {name}*4")
    return name, int(dilation or 1)


def file_name(study: str, kernel: str) -> str:
    """File name for a study's rows on a kernel, given by name or path and perhaps with a dilation."""
    return f"{study}-{kernel.strip('/').replace('/', '_').replace('*', '_x')}.csv"


def run(
    rows: Rows,
    wanted: Iterable[tuple[object, int, tb.Scenario]],
    kernel: str,
    measure: Measure,
    *,
    report: Callable[[str], object] = lambda _: None,
    until: float = float("inf"),
    again: bool = False,
) -> list[str]:
    """Run what `wanted` (cell, draw, scenario) has and `rows` lack, starting none after `until` (monotonic seconds).

    A guest that refuses a scenario is a row; a machine that was lost is reported and tried again by the next call. With
    `again`, existing rows are run again and replaced; returns the cells whose measures differ.
    """
    name, dilation = speed(kernel)
    try:
        here = kernels.find(name)
    except TailbackError:
        # Without time for any run, only the page of stored rows is written.
        if not len(rows) or time.monotonic() < until:
            raise
        return []
    changed = []
    for cell, draw, scenario in wanted:
        before = rows.find(cell, draw, scenario, here)
        if before is not None and not again:
            continue
        if time.monotonic() >= until:
            break
        began = time.monotonic()
        try:
            found = stored_runs.attempt(scenario, here, measure, dilation=dilation)
        except LostRun as lost:
            report(f"{cell}.{draw} on {kernel}: lost, the next call tries again: {lost}")
            continue
        row = _row(cell, draw, scenario, found)
        if before is not None and (before.measures, before.refused) != (row.measures, row.refused):
            changed.append(f"{cell}.{draw}")
        rows.put(row)
        report(f"{cell}.{draw} on {kernel}: {time.monotonic() - began:.1f} s")
    return changed


def _row(cell: object, draw: int, scenario: tb.Scenario, found: Mapping[str, object]) -> Row:
    about = found["kernel"]
    assert isinstance(about, Mapping)
    measures = found.get("measures", {})
    assert isinstance(measures, dict)
    return Row(
        str(cell),
        draw,
        _digest(scenario),
        release=str(about["release"]),
        build=str(about["build"]),
        digest=str(about["digest"]),
        guest=guest_digest(),
        refused=str(found.get("refused", "")),
        measures={name: float(value) for name, value in measures.items()},
    )
