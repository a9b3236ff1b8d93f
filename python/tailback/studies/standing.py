"""What a claim's verdict is worth: was the number predicted, or chosen, said already, or beyond testing?

The rule decides whether a claim holds; its standing decides whether that is evidence. Both are data of the claim, and
the overview is made of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .framework import Claim

PREDICTED, FITTED, RESTATED, UNTESTABLE = "predicted", "fitted", "restated", "not testable"
KINDS = (PREDICTED, FITTED, RESTATED, UNTESTABLE)


@dataclass(frozen=True)
class Standing:
    """One of `KINDS`, and why."""

    kind: str
    reason: str

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a claim's standing is one of {', '.join(KINDS)}, not {self.kind!r}")


AS_PREDICTED = Standing(PREDICTED, "")


def fitted(reason: str) -> Standing:
    """A parameter was chosen for this, or with this in view: its verdict is no evidence."""
    return Standing(FITTED, reason)


def restated(reason: str) -> Standing:
    """It follows from other claims, which count already."""
    return Standing(RESTATED, reason)


def untestable(reason: str) -> Standing:
    """The paper contradicts it itself, or no run like the paper's could show it."""
    return Standing(UNTESTABLE, reason)


def with_standings(
    claims: Sequence[Claim], standings: Mapping[str, Standing], redefined: Mapping[str, str]
) -> tuple[Claim, ...]:
    """Claims with their standing (predicted unless named) and with what was changed after results were seen.

    Raises `ValueError` for a name that no claim has.
    """
    unknown = (set(standings) | set(redefined)) - {claim.id for claim in claims}
    if unknown:
        raise ValueError(f"no claim is called {', '.join(sorted(unknown))}")
    return tuple(
        replace(claim, standing=standings.get(claim.id, AS_PREDICTED), redefined=redefined.get(claim.id, ""))
        for claim in claims
    )
