"""Decides which verdicts count: claims that a choice was fitted to, and claims that share a measure, do not."""

from __future__ import annotations

import types
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tailback.experiment.claims import FITTED, Claim, Standing, fitted, restated
from tailback.experiment.outcome import PREDICTED


@dataclass(frozen=True)
class Choice:
    """A set-up choice that was fitted or changed after results were seen, and the claims that depend on it."""

    words: str
    claims: tuple[str, ...] = ()
    """Ids of the claims; none if the choice decides no claim, as `words` then states."""


def stand(claims: Sequence[Claim], chosen: Sequence[Choice]) -> dict[str, Standing]:
    """The standing of each claim, by id.

    A declared standing takes precedence. A predicted claim that a choice names is fitted. Of claims with the same
    measure the first counts; the others are restated, or fitted if the first is. Raises `ValueError` if a choice names
    an unknown claim.
    """
    found = {claim.id: claim.standing for claim in claims}
    for choice in chosen:
        for name in choice.claims:
            if name not in found:
                raise ValueError(f"a choice names the claim {name}, which does not exist: {choice.words}")
            if found[name].kind == PREDICTED:
                found[name] = fitted(f"Chosen with it in view: {choice.words}")
    first: dict[Hashable, str] = {}
    for claim in sorted(claims, key=lambda claim: found[claim.id].kind != FITTED):
        other = first.setdefault(fingerprint(claim.measure), claim.id)
        if other != claim.id and found[claim.id].kind == PREDICTED:
            mark = fitted if found[other].kind == FITTED else restated
            found[claim.id] = mark(f"It is measured as {other}, and counts with it.")
    return found


def fingerprint(thing: Any) -> Hashable:
    """Equal for measures with the same computation: functions are compared by code and closure."""
    if isinstance(thing, types.FunctionType):
        cells = [cell.cell_contents for cell in thing.__closure__ or ()]
        return (fingerprint(thing.__code__), *map(fingerprint, (cells, thing.__defaults__, thing.__kwdefaults__)))
    if isinstance(thing, types.CodeType):
        return thing.co_code, thing.co_names, tuple(map(fingerprint, thing.co_consts))
    if isinstance(thing, pl.Expr):
        return str(thing)
    if isinstance(thing, np.ndarray):
        return thing.shape, thing.tobytes()
    if isinstance(thing, Mapping):
        return tuple(sorted((str(key), fingerprint(value)) for key, value in thing.items()))
    if isinstance(thing, list | tuple):
        return tuple(map(fingerprint, thing))
    if hasattr(thing, "func") and hasattr(thing, "keywords"):
        return tuple(map(fingerprint, (thing.func, thing.args, thing.keywords)))
    try:
        hash(thing)
    except TypeError:
        return id(thing)
    return type(thing).__name__, thing
