"""How several workers share the tests."""

import functools
from pathlib import Path

ROOT = Path(__file__).parents[1]


# Runs by the machine's clock, which mostly wait: one after another, they disturb each other least.
ONE_BY_ONE = "tests/live/"


def kept_together(nodeid: str) -> str:
    """What one worker runs as a whole: a test, its file if that makes something for several tests, or live runs."""
    if nodeid.startswith(ONE_BY_ONE):
        return ONE_BY_ONE
    file = nodeid.partition("::")[0]
    return file if _makes_something_once(file) else nodeid


@functools.cache
def _makes_something_once(file: str) -> bool:
    return 'scope="module"' in (ROOT / file).read_text(encoding="utf-8")
