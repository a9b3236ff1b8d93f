"""Candidates that are compiled: BPF sources and Rust crates, run in a process of their own, and kernel modules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tailback import bpf, crates, modules
from tailback.compiled import Declared

__all__ = ["Declared", "declared", "is_source", "libraries", "queues", "read"]


def is_source(name: str) -> bool:
    """Is this "bpf:mine.bpf.c", "rust:path/to/crate" or "module:tcp_mine.c"?"""
    return any(kind.is_source(name) for kind in (bpf, crates, modules))


def read(name: str, folder: Path | None = None) -> str:
    """The text that is run, from `folder` or here."""
    text: str = _kind(name).read(name, folder)
    return text


def declared(name: str, text: str) -> Declared:
    """What the engine's check takes for it."""
    made: Declared = _kind(name).Declared(name, text)
    return made


def _kind(name: str) -> Any:
    return next(kind for kind in (bpf, crates, modules) if kind.is_source(name))


def queues(resolved: Mapping[str, Any], declared: Mapping[str, Declared]) -> dict[str, str]:
    """By name: the libraries of the crates whose queues a run needs."""
    named = {str(link.get("queue", {}).get("discipline", "")) for link in resolved.get("links", ())}
    made = {name: declared[name] for name in sorted(named) if name in declared}
    return {name: str(each.queue_library()) for name, each in made.items() if isinstance(each, crates.Declared)}


def libraries(resolved: Mapping[str, Any], declared: Mapping[str, Declared]) -> dict[str, list[tuple[str, str]]]:
    """By name: the libraries a run needs, each with the parameters (JSON) that it is run with."""
    found: dict[str, dict[str, str]] = {}
    for flow in resolved.get("flows", ()):
        tcp = flow.get("tcp") or {}
        for row in (tcp, *(tcp.get("cc_turns") or ())):
            name = str(row.get("cc", ""))
            if name in declared:
                params = dict(row.get("cc_params") or {})
                text = json.dumps(params, sort_keys=True)
                found.setdefault(name, {})[text] = str(declared[name].library(params))
    return {name: list(pairs.items()) for name, pairs in found.items()}
