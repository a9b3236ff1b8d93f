"""The parts of an answer: values of measures, people, sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tailback.numbers import jsonable, written

__all__ = ["LINES", "Answer", "Measured", "Period", "Person", "Statement"]

#: Maximum sentences of an answer.
LINES = 10

#: From when until when, in seconds.
Period = tuple[float, float]


@dataclass(frozen=True)
class Measured:
    """A value of a measure."""

    #: Name of the measure in `tailback list metrics`.
    measure: str
    #: The flow or link; for a measure over several flows, their names joined by commas.
    of: str
    value: float
    unit: str
    #: Start and end in seconds; None for the whole run.
    window: Period | None = None
    #: Further argument of the measure, such as a quantile.
    asked: str = ""

    def __str__(self) -> str:
        return f"{written(self.value, 3)} {self.unit}".rstrip()


@dataclass(frozen=True)
class Person:
    """What one caller, player, viewer, reader or ping experiences."""

    flow: str
    #: Words for the quantity of `now` and `before`: "quality of the call".
    what: str
    #: Value while transfers are on; over the whole run if they never pause.
    now: Measured
    #: Value while transfers are off; None if they never pause.
    before: Measured | None
    #: Whether the person suffers; None if there is nothing to compare with.
    suffers: bool | None
    #: How many times its bound is exceeded, for sorting.
    harm: float
    #: The whole sentence.
    text: str
    measured: tuple[Measured, ...]
    #: The transfers that share a queue with it.
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Statement:
    """One sentence, with the measures it names."""

    #: `gains`, `suffers`, `spared`, `takes`, `differs`, `queue` or `certainty`.
    kind: str
    text: str
    measured: tuple[Measured, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"kind": self.kind, "text": self.text, "measured": [jsonable(vars(each)) for each in self.measured]}


@dataclass(frozen=True)
class Answer:
    """The sentences of a result, and the people in them."""

    statements: tuple[Statement, ...]
    people: tuple[Person, ...] = ()
    #: Goodput of each transfer, by measure.
    transfers: tuple[Measured, ...] = ()
