"""The kinds of dossier there are, and which of them a candidate belongs to."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from tailback.assess.book import Book
from tailback.assess.queues.table import BOOK as QUEUE
from tailback.assess.table import BOOK as CONGESTION_CONTROL
from tailback.errors import TailbackError
from tailback.queue_candidate import means_a_queue, names_a_queue

__all__ = ["CONGESTION_CONTROL", "book", "book_of", "books"]


@functools.cache
def books() -> Mapping[str, Book]:
    """Every book by its name."""
    return {each.name: each for each in (CONGESTION_CONTROL, QUEUE)}


def book(name: str) -> Book:
    """The book of this name; `KeyError` if there is none."""
    return books()[name]


def book_of(what: Any, *, allow_code: bool = False) -> Book:
    """The book that judges a candidate: a queue's if it names a discipline or a class with `enqueue` and `dequeue`.

    >>> book_of("fq_codel").rfc, book_of("cubic").rfc
    ('RFC 7928', 'RFC 9743')
    """
    try:
        is_queue = names_a_queue(what, allow_code=allow_code)
    except TailbackError:
        # The kind is unknown here; the candidate's own check reports why.
        is_queue = False
    return book("queue") if is_queue or means_a_queue(what) else CONGESTION_CONTROL
