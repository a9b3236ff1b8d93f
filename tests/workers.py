"""How several workers share the tests."""

import functools
from pathlib import Path

ROOT = Path(__file__).parents[1]


def kept_together(nodeid: str) -> str:
    """What one worker runs as a whole: a test, or its file if that makes something once for several tests."""
    file = nodeid.partition("::")[0]
    return file if _makes_something_once(file) else nodeid


@functools.cache
def _makes_something_once(file: str) -> bool:
    return 'scope="module"' in (ROOT / file).read_text(encoding="utf-8")
