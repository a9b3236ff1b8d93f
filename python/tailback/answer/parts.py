"""The parts of an answer: values of measures, people, sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tailback.numbers import jsonable, written

__all__ = ["LINES", "Answer", "Measured", "Period", "Person", "Statement"]

#: Sentences of an answer at most.
LINES = 10

#: From when until when, in seconds.
Period = tuple[float, float]


@dataclass(frozen=True)
class Measured:
    """A value of a measure."""

    #: The measure's name, as `tailback list metrics` has it.
    measure: str
    #: The flow or link; several, joined by commas, of a measure over flows.
    of: str
    value: float
    unit: str
    #: From when until when, in seconds; None for the whole run.
    window: Period | None = None
    #: What else the measure was asked for, such as a quantile.
    asked: str = ""

    def __str__(self) -> str:
        return f"{written(self.value, 3)} {self.unit}".rstrip()


@dataclass(frozen=True)
class Person:
    """What one caller, player, viewer, reader or ping notices."""

    flow: str
    #: What `now` and `before` are, in words: "quality of the call".
    what: str
    #: While transfers are on; over the whole run where they never pause.
    now: Measured
    #: While transfers are off; None where they never pause.
    before: Measured | None
    #: None where there is nothing to compare with.
    suffers: bool | None
    #: By how many times its bound is exceeded, for the order.
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
    """The sentences of a result, and the people in it."""

    statements: tuple[Statement, ...]
    people: tuple[Person, ...] = ()
    #: Goodput of each transfer, by measure.
    transfers: tuple[Measured, ...] = ()
