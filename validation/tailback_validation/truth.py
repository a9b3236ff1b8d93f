"""Measurements from elsewhere: plain tables in the folder `truth`, whose README describes them."""

from __future__ import annotations

import csv
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["FOLDER", "kernel", "kernel_algorithms", "kernel_trace", "notes", "ns2", "ns2_ours"]

#: Folder of the tables and notes: the top folder `validation` of a checkout.
FOLDER = Path(__file__).parents[1]
Floats = npt.NDArray[np.float64]
Row = dict[str, float]


def _text(name: str) -> str:
    return (FOLDER / "truth" / name).read_text(encoding="utf-8")


def _rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(_text(name).splitlines()))


def _number(text: str) -> float:
    return float(text) if text else math.nan


@cache
def kernel() -> dict[str, Row]:
    """Measures of Linux 6.1 by algorithm, in the order of the table."""
    return {
        row["algorithm"]: {name: _number(value) for name, value in row.items() if name != "algorithm"}
        for row in _rows("linux-6.1.csv")
    }


def kernel_algorithms() -> tuple[str, ...]:
    """Algorithms with which the kernel was measured."""
    return tuple(kernel())


@cache
def kernel_trace(algorithm: str) -> dict[str, Floats]:
    """Every 100 ms: t_s, cwnd (segments), srtt_ms, voice_ms, queue_bytes."""
    rows = _rows(f"linux-6.1/{algorithm}.csv")
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def _ns2_rows(name: str) -> dict[tuple[str, bool], Row]:
    return {
        (row["algorithm"], row["delayed_ack"] == "on"): {
            key: _number(value) for key, value in row.items() if key not in ("algorithm", "delayed_ack")
        }
        for row in _rows(name)
    }


@cache
def ns2() -> dict[tuple[str, bool], Row]:
    """Measures of ns-2 2.35 by (algorithm, delayed acknowledgements), as received."""
    return _ns2_rows("ns2-2.35.csv")


def ns2_ours() -> dict[tuple[str, bool], Row]:
    """Measures of ns-2 2.35 by our own script; written by the last `--ns2`."""
    return _ns2_rows("ns2-2.35-ours.csv")


@cache
def notes() -> dict[str, Any]:
    """Mechanisms of misses, written by hand: notes.toml."""
    import tomllib

    return tomllib.loads((FOLDER / "notes.toml").read_text(encoding="utf-8"))
