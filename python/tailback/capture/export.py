"""Exports a run's packets as pcapng files, for Wireshark and other tools."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tailback import _core, registry
from tailback.errors import ResultError, nearest
from tailback.files import whole_file
from tailback.result import Result

#: Payload format of an application's packets, by the kind of its datagrams.
_DATAGRAMS = {"voice": "rtp", "echo": "echo", None: "udp"}
#: RTP clock of G.711, in samples per second.
_RTP_CLOCK_HZ = 8000
_DEFAULT_INTERVAL_MS = 20.0


def points(result: Result) -> list[str]:
    """The points at which a run's packets were captured, in the scenario's order.

    >>> import tailback as tb
    >>> calls = tb.dumbbell(rate="1mbit", rtt="40ms", flows=[tb.voip()], duration="1s")
    >>> result = tb.run(calls.with_({"instruments.captures": ["left", "bottleneck.out"]}))
    >>> tb.capture.points(result)
    ['left', 'bottleneck.out']
    """
    return list((result.resolved.get("instruments") or {}).get("captures") or ())


def export(result: Result, point: str, path: str | os.PathLike[str], *, snap: int = 0) -> int:
    """Write the packets at a point as pcapng with nanosecond timestamps; returns their number.

    Simulated time zero is the epoch. A flow's hosts are 10.x.y.1 and 10.x.y.2, x·256 + y its number, over IPv6 these
    below 2001:db8::/96; connections differ by the client's port. `snap` is the number of bytes to keep of each frame, 0
    for all; payloads are zeros. For a live run, these are the kernel's packets, of which only the headers were
    recorded. Raises `ResultError` if the point was not captured.
    """
    known = points(result)
    if not known:
        raise ResultError(
            "no packets were captured. Name points in the scenario, [instruments] captures = "
            f"{[*result.resolved.get('nodes', [])[:1], result.link_names[0] + '.out']}, and run again."
        )
    if point not in known:
        close = nearest(point, known)
        hint = f' Did you mean "{close}"?' if close else ""
        raise ResultError(f'nothing was captured at "{point}".{hint} There are: {", ".join(known)}.')
    if snap < 0:
        raise ResultError(f"snap length {snap}: a frame keeps a number of bytes. Give 0 for all, or 54 and more.")
    wire = result.numpy("wire")
    chosen = np.flatnonzero(np.asarray(wire["point"]) == known.index(point))
    comment = f"tailback: scenario {result.name or '(no name)'}, seed {result.seed}, point {point}"
    about = (comment, point, _description(result, point), snap)
    seen = {name: np.ascontiguousarray(column[chosen]) for name, column in wire.items()}
    flows = [_flow(result, index) for index in range(len(result.flow_names))]
    with whole_file(Path(path)) as partial:
        if "frames" in result:
            ends = [nodes for _, nodes, *_ in flows]
            return _core.capture_write_real(
                partial, about, ends, seen, dict(result.numpy("frames")), dict(result.numpy("frame_bytes"))
            )
        return _core.capture_write(
            partial,
            about,
            flows,
            seen,
            dict(result.numpy("headers")),
            dict(result.numpy("header_sacks")),
            dict(result.numpy("connections")),
        )


def export_all(
    result: Result, folder: str | os.PathLike[str], *, only: Sequence[str] = (), snap: int = 0
) -> dict[Path, int]:
    """Write each point (or those in `only`) to `folder/<point>.pcapng`; returns packets by path."""
    names = list(only) or points(result) or [""]
    out = {}
    for name in names:
        path = Path(folder) / f"{name.replace('/', '_')}.pcapng"
        out[path] = export(result, name, path, snap=snap)
    return out


def _description(result: Result, point: str) -> str:
    if point in result.resolved.get("nodes", []):
        return f"node {point}: what it sends, receives and forwards"
    link, _, side = point.rpartition(".")
    return f"link {link}: " + ("before its queue" if side == "in" else "at its far end")


def _flow(result: Result, index: int) -> tuple[str, tuple[int, int], int, int]:
    spec = result.flow_spec(index)
    nodes = list(result.resolved.get("nodes", []))
    ends = tuple(nodes.index(spec[key]) + 1 if spec[key] in nodes else 0 for key in ("from", "to"))
    app: dict[str, Any] = spec["app"]
    is_tcp = spec.get("tcp") and not spec["tcp"].get("transport")
    kind = "tcp" if is_tcp else _DATAGRAMS[registry.application(spec).datagrams]
    interval_ms = float(app.get("params", {}).get("interval", _DEFAULT_INTERVAL_MS))
    return kind, (ends[0], ends[1]), round(interval_ms * _RTP_CLOCK_HZ / 1000), int(spec.get("ip", 4))
