"""Candidates compiled and run in a separate process: BPF sources, Rust crates, transports in C."""

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
    """Whether it is like "bpf:mine.bpf.c", "rust:path/to/crate", "module:tcp_mine.c" or "c:stack.c"."""
    return any(kind.is_source(name) for kind in _KINDS)


def read(name: str, folder: Path | None = None) -> str:
    """The source text of such a name, from `folder` or here."""
    text: str = _kind(name).read(name, folder)
    return text


def declared(name: str, text: str) -> Declared:
    """The stand-in for it in the engine's check."""
    made: Declared = _kind(name).Declared(name, text)
    return made


def _kind(name: str) -> Any:
    return next(kind for kind in _KINDS if kind.is_source(name))


def has_queue(name: str) -> bool:
    """Whether "bpf:mine.bpf.c" or "rust:path/to/crate" is a queue. Compiles a crate, which runs its build.rs."""
    try:
        return _may_be_queue(name).has_queue()
    except ValueError as error:
        raise TailbackError(str(error)) from None


def about_queue(name: str, params: Mapping[str, Any], rate_bps: int | None) -> QueueAbout:
    """The properties that a queue declares. Runs its code; `TailbackError` if it fails."""
    try:
        return _may_be_queue(name).about_queue(params, rate_bps)
    except ValueError as error:
        raise TailbackError(str(error)) from None


def _may_be_queue(name: str) -> MayBeQueue:
    made = declared(name, read(name))
    assert isinstance(made, MayBeQueue), "only these are asked"
    return made


def written(name: str) -> str | None:
    """The name in a scenario of a file or reference compiled for the simulator; None for anything else."""
    if crates.is_source(name) or name.endswith(crates.MANIFEST):
        return name if crates.is_source(name) else crates.written(name)
    return bpf.written(name) if bpf.is_source(name) or name.endswith(bpf.ENDING) else None


def queues(resolved: Mapping[str, Any], declared: Mapping[str, Declared]) -> dict[str, list[tuple[str, str]]]:
    """By name: the libraries of a run's queues, each with its parameters as JSON."""
    rows = (row for link in resolved.get("links", ()) for row in _within(link.get("queue") or {}))
    chosen = [(str(row.get("discipline", "")), dict(row.get("params") or {})) for row in rows]
    queues = {name: made for name, made in declared.items() if isinstance(made, MayBeQueue)}
    return _libraries((name, params, queues[name].queue_library) for name, params in chosen if name in queues)


def _within(queue: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A queue, and the queues inside it: in a token bucket or in bands."""
    yield queue
    for inside in (queue.get("inner"), *(band.get("queue") for band in queue.get("bands") or ())):
        if inside:
            yield from _within(inside)


def libraries(resolved: Mapping[str, Any], declared: Mapping[str, Declared]) -> dict[str, list[tuple[str, str]]]:
    """By name: the libraries of a run's congestion controls, each with its parameters as JSON."""
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
