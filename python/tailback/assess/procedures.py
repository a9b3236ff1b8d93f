"""The kinds of dossier there are, and which of them a candidate belongs to."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from tailback.assess.procedure import Procedure
from tailback.assess.queues.table import PROCEDURE as QUEUE
from tailback.assess.table import PROCEDURE as CONGESTION_CONTROL
from tailback.errors import TailbackError
from tailback.queue_candidate import means_a_queue, names_a_queue

__all__ = ["CONGESTION_CONTROL", "procedure", "procedure_of", "procedures"]


@functools.cache
def procedures() -> Mapping[str, Procedure]:
    """Every procedure by its name."""
    return {each.name: each for each in (CONGESTION_CONTROL, QUEUE)}


def procedure(name: str) -> Procedure:
    """The procedure of this name; `KeyError` if there is none."""
    return procedures()[name]


def procedure_of(what: Any, *, allow_code: bool = False) -> Procedure:
    """The procedure that judges a candidate: the queue's for a discipline or a class with `enqueue` and `dequeue`.

    >>> procedure_of("fq_codel").rfc, procedure_of("cubic").rfc
    ('RFC 7928', 'RFC 9743')
    """
    try:
        is_queue = names_a_queue(what, allow_code=allow_code)
    except TailbackError:
        # The kind is unknown here; the candidate's own check reports why.
        is_queue = False
    return procedure("queue") if is_queue or means_a_queue(what) else CONGESTION_CONTROL
