"""Candidates that are compiled and run in a process of their own: BPF sources, Rust crates, transports in C."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tailback import bpf, crates, modules, stacks
from tailback.compiled import Declared, MayBeQueue, QueueAbout
from tailback.errors import TailbackError

__all__ = [
    "Declared",
    "QueueAbout",
    "about_queue",
    "declared",
    "has_queue",
    "is_source",
    "libraries",
    "queues",
    "read",
    "written",
]


_KINDS: tuple[Any, ...] = (bpf, crates, modules, stacks)


def is_source(name: str) -> bool:
    """Is this "bpf:mine.bpf.c", "rust:path/to/crate", "module:tcp_mine.c" or "c:stack.c"?"""
    return any(kind.is_source(name) for kind in _KINDS)


def read(name: str, folder: Path | None = None) -> str:
    """The text that is run, from `folder` or here."""
    text: str = _kind(name).read(name, folder)
    return text


def declared(name: str, text: str) -> Declared:
    """What the engine's check takes for it."""
    made: Declared = _kind(name).Declared(name, text)
    return made


def _kind(name: str) -> Any:
    return next(kind for kind in _KINDS if kind.is_source(name))


def has_queue(name: str) -> bool:
    """Is "bpf:mine.bpf.c" or "rust:path/to/crate" a queue? A crate is compiled, which runs its build.rs."""
    try:
        return _may_be_queue(name).has_queue()
    except ValueError as error:
        raise TailbackError(str(error)) from None


def about_queue(name: str, params: Mapping[str, Any], rate_bps: int | None) -> QueueAbout:
    """What the queue of this name says of itself. Runs its code; `TailbackError` says what is wrong."""
    try:
        return _may_be_queue(name).about_queue(params, rate_bps)
    except ValueError as error:
        raise TailbackError(str(error)) from None


def _may_be_queue(name: str) -> MayBeQueue:
    made = declared(name, read(name))
    assert isinstance(made, MayBeQueue), "only these are asked"
    return made


def written(name: str) -> str | None:
    """As a scenario says it, of a file or reference that is compiled for the simulator; None of anything else."""
    if crates.is_source(name) or name.endswith(crates.MANIFEST):
        return name if crates.is_source(name) else crates.written(name)
    return bpf.written(name) if bpf.is_source(name) or name.endswith(bpf.ENDING) else None


def queues(resolved: Mapping[str, Any], declared: Mapping[str, Declared]) -> dict[str, list[tuple[str, str]]]:
    """By name: the libraries of the queues that a run needs, each with the parameters (JSON) that it is run with."""
    rows = (row for link in resolved.get("links", ()) for row in _within(link.get("queue") or {}))
    chosen = [(str(row.get("discipline", "")), dict(row.get("params") or {})) for row in rows]
    queues = {name: made for name, made in declared.items() if isinstance(made, MayBeQueue)}
    return _libraries((name, params, queues[name].queue_library) for name, params in chosen if name in queues)


def _within(queue: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A queue, and those inside it: of a token bucket, and of bands."""
    yield queue
    for inside in (queue.get("inner"), *(band.get("queue") for band in queue.get("bands") or ())):
        if inside:
            yield from _within(inside)


def libraries(resolved: Mapping[str, Any], declared: Mapping[str, Declared]) -> dict[str, list[tuple[str, str]]]:
    """By name: the libraries a run needs, each with the parameters (JSON) that it is run with."""
    tcps = [flow.get("tcp") or {} for flow in resolved.get("flows", ())]
    rows = [row for tcp in tcps for row in (tcp, *(tcp.get("cc_turns") or ()))]
    chosen = [(str(row.get("cc", "")), dict(row.get("cc_params") or {})) for row in rows]
    return _libraries((name, params, declared[name].library) for name, params in chosen if name in declared)


def _libraries(
    chosen: Iterable[tuple[str, dict[str, Any], Callable[[Mapping[str, Any]], Path]]],
) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, dict[str, str]] = {}
    for name, params, compiled in chosen:
        found.setdefault(name, {})[json.dumps(params, sort_keys=True)] = str(compiled(params))
    return {name: list(pairs.items()) for name, pairs in found.items()}
