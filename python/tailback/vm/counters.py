"""The kernel's counters on a guest's hosts (`nstat`), as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailback.result import schema

__all__ = ["Counted", "counted"]

#: Rows among the IP and TCP counters that are settings.
_SETTINGS = {"IpForwarding", "IpDefaultTTL", "TcpRtoAlgorithm", "TcpRtoMin", "TcpRtoMax", "TcpMaxConn"}


@dataclass(frozen=True)
class Counted:
    """The table `counters`, and the words that its columns `host` and `name` index."""

    table: dict[str, dict[str, Any]]
    hosts: list[str]
    names: list[str]


def counted(counters: Mapping[str, Mapping[str, int]]) -> Counted:
    """Each host's counters that changed, without settings."""
    moved = [(host, name, n) for host, rows in counters.items() for name, n in rows.items() if name not in _SETTINGS]
    hosts = list(dict.fromkeys(host for host, _, _ in moved))
    names = list(dict.fromkeys(name for _, name, _ in moved))
    table = schema.table("counters").filled(
        len(moved),
        host=[hosts.index(host) for host, _, _ in moved],
        name=[names.index(name) for _, name, _ in moved],
        count=[n for _, _, n in moved],
    )
    return Counted({"counters": table}, hosts, names)
