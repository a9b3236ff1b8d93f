"""The origin of each flow's congestion control on a kernel: the kernel, tailback's BPF twin, or the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["of_flows", "unasked_twins"]

#: Each flow's congestion controls in turn, with their origin: "kernel", "twin" or "own".
Controls = Sequence[Sequence[tuple[str, str]]]


def of_flows(resolved: Mapping[str, Any], controls: Controls) -> dict[str, list[dict[str, str]]]:
    """The value of `result.meta["controls"]`: by flow, each of its congestion controls in turn."""
    pairs = zip(resolved["flows"], controls, strict=True)
    return {str(flow["name"]): [{"cc": cc, "by": by} for cc, by in turns] for flow, turns in pairs if turns}


def unasked_twins(resolved: Mapping[str, Any], controls: Controls, twins: bool) -> list[str]:
    """Notes on twins that ran because the kernel lacks the original, not because of their parameters."""
    lacked: dict[str, list[str]] = {}
    for flow, turns in zip(resolved["flows"], controls, strict=True):
        rows = [flow["tcp"], *flow["tcp"].get("cc_turns", ())] if turns else []
        for (cc, by), row in zip(turns, rows, strict=True):
            if by == "twin" and not twins and not set(row.get("cc_params", ())) - {"variant"}:
                lacked.setdefault(cc, []).append(str(flow["name"]))
    return [
        f"the kernel has no {cc} of its own; tailback's BPF twin of it ran ({', '.join(dict.fromkeys(flows))})"
        for cc, flows in lacked.items()
    ]
