"""The studies that are installed. A package provides a study by an entry point of the group `tailback.papers`.

>>> from tailback.experiment import studies
>>> "voip-latency" in studies.names()
True
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from tailback.errors import TailbackError, nearest
from tailback.experiment.outcome import is_study, load
from tailback.experiment.study import Study

__all__ = ["GROUP", "HOW_TO_GET", "UnknownStudy", "get", "is_study", "load", "names"]

GROUP = "tailback.papers"
"""Group of entry points: name of the study = `package.module:STUDY`, the place of its `Study`."""
HOW_TO_GET = (
    "The five papers are a package in the folder papers of tailback's repository: pip install ./papers in a checkout, "
    "where make env does it too"
)


class UnknownStudy(TailbackError, ValueError):
    """An unknown name of a study, or an entry point that is not a study."""


@cache
def _offered() -> dict[str, EntryPoint]:
    """The entry points by name. Of two with the same name the first on Python's path counts, as for modules."""
    return {each.name: each for each in reversed(tuple(entry_points(group=GROUP)))}


def names() -> list[str]:
    """The studies' names, in alphabetical order."""
    return sorted(_offered())


def get(name: str) -> Study:
    """The study of that name, imported now because it imports its figures too."""
    if not names():
        raise UnknownStudy(f"no study is called {name!r}, for none is installed. {HOW_TO_GET}")
    if name not in names():
        near = nearest(name, names())
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(names())}"
        raise UnknownStudy(f"no study is called {name!r}; {hint}")
    offered = _offered()[name]
    found = offered.load()
    if not isinstance(found, Study):
        raise UnknownStudy(f"study {name}: {offered.value} is not a Study but a {type(found).__name__}")
    return found
