"""What holds of a real kernel on a machine that keeps time.

Tests share their machine with each other. A busy machine disturbs one run or two; a difference between the kernel
and the simulator disturbs every run. So a figure of a live run that depends on time must hold in one run of a few.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def one_of(tries: int, run: Callable[[int], T], holds: Callable[[T], None]) -> T:
    """The first run for which `holds` raises no AssertionError; of the last of them it is raised."""
    for number in range(tries - 1):
        found = run(number)
        try:
            holds(found)
        except AssertionError:
            continue
        return found
    found = run(tries - 1)
    holds(found)
    return found
