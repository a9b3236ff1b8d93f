"""Tables of the report."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailback.experiment import Data, Summary, TableOut

from .grid import ABLATIONS, ALGORITHMS, FEW, LAN, MANY, NETWORKS, TITLES, WAN, Network, factors_of, scales_of

_COLUMNS: tuple[tuple[str, str, float, int], ...] = (
    ("utilisation", "utilisation (%)", 100.0, 1),
    ("loss", "loss (ppm)", 1e6, 0),
    ("queue_ms", "queue (ms)", 1.0, 2),
    ("www/4/mean", "4 KB (ms)", 1e3, 0),
    ("www/64/mean", "64 KB (ms)", 1e3, 0),
    ("voip_ms", "VoIP delay (ms)", 1.0, 1),
    ("jitter_ms", "jitter (ms)", 1.0, 3),
    ("ftp_mbps", "FTP (Mbit/s)", 1.0, 2),
    ("hftp_mbps", "HFTP (Mbit/s)", 1.0, 2),
)
_CAUSES: tuple[tuple[str, str, float, int], ...] = (
    ("fast_mbps", "flows (Mbit/s)", 1.0, 1),
    ("step", "growth before a reduction (segments/RTT)", 1.0, 1),
    ("drops_per_event", "lost in an event", 1.0, 1),
    ("hit_share", "flows hit (%)", 100.0, 0),
    ("reductions_per_s", "reductions of a flow (1/s)", 1.0, 3),
    ("join_share", "lost at joins (%)", 100.0, 0),
    ("above_half", "queue over half full (%)", 100.0, 0),
    ("fast_timeouts", "timeouts", 1.0, 0),
    ("loss_unseen", "Compound: losses unseen (%)", 100.0, 0),
    ("dwnd_empty", "Compound: dwnd empty (%)", 100.0, 0),
)
_CHANGED = (*_COLUMNS, _CAUSES[-1])
"""Of the other readings: Compound's delay window too."""


def _value(one: Summary, what: str) -> float | None:
    if what == "join_share":
        return one["join_drops"] / one["drops"] if one["drops"] else None
    value: Any = one
    for part in what.split("/"):
        value = value.get(part) if isinstance(value, dict) else None
    return None if value is None else float(value)


def _shown(found: list[Summary], columns: tuple[tuple[str, str, float, int], ...]) -> list[str]:
    row = []
    for what, _, factor, digits in columns:
        values = [value for one in found if (value := _value(one, what)) is not None]
        row.append(f"{factor * float(np.median(values)):.{digits}f}" if values else "–")
    return row


def _rows(
    data: Data, network: Network, flows: int, columns: tuple[tuple[str, str, float, int], ...]
) -> list[list[str]]:
    return [
        [TITLES[algorithm], f"{queue:g}", *_shown(found, columns)]
        for queue in network.queues
        for algorithm in ALGORITHMS
        if (found := data.runs(**factors_of(network.name, algorithm, queue, flows)))
    ]


def _scales(data: Data) -> list[list[str]]:
    rows, scales = {}, scales_of(data)
    for cell in data.cells.values():
        name = cell.factors["network"]
        if name in rows or "ablation" in cell.factors:
            continue
        network = NETWORKS[name]
        spec = next(link for link in cell.scenario.resolve()["links"] if link["name"] == network.main)
        apps = [flow["app"] for flow in cell.scenario.resolve()["flows"]]
        sessions = [app["params"]["rate"] for app in apps if app["kind"] == "web"]
        rows[name] = [
            TITLES[name], scales[name].words(), f"{spec['rate_bps'] / 1e6:g}", " + ".join(f"{s:g}" for s in sessions),
            f"{cell.scenario.duration.seconds:g}", " to ".join(
                str(int(spec["rate_bps"] * 2e-3 * network.delay_ms * queue / 8000 + 0.5))
                for queue in (network.queues[0], network.queues[-1])
            ),
        ]  # fmt: skip
    return list(rows.values())


def _ablations(data: Data) -> list[list[str]]:
    rows = []
    for name, reading in ABLATIONS.items():
        for where, algorithm, queue in reading.cells:
            found = data.runs(**factors_of(where, algorithm, queue, ablation=name))
            base = data.runs(**factors_of(where, algorithm, queue))
            if found and base:
                # The same seeds on both sides.
                pairs = zip(_shown(base[: len(found)], _CHANGED), _shown(found, _CHANGED), strict=True)
                rows.append(
                    [reading.title, TITLES[where], TITLES[algorithm], f"{queue:g}", *(f"{a} → {b}" for a, b in pairs)]
                )
    return rows


def all_tables(data: Data) -> list[TableOut]:
    """The scale, the two networks, what lies behind, and the other readings."""
    heads = ["algorithm", "queue (BDP)"]
    tables = [
        TableOut(
            "scale", "The scale of this run", "Sessions a second forward and back; queues in packets.",
            ["network", "scale", "rate (Mbit/s)", "web sessions (1/s)", "duration (s)", "queue (packets)"],
            _scales(data),
        )
    ]  # fmt: skip
    for network, flows in ((WAN, FEW), (WAN, MANY), (LAN, FEW)):
        title = f"The {TITLES[network.name]}, {flows} flows"
        for name, caption, columns in (
            ("users", "Medians over seeds.", _COLUMNS),
            ("causes", "After all flows have joined, medians over seeds; losses at joins and timeouts: the whole run.",
             _CAUSES),
        ):  # fmt: skip
            rows = _rows(data, network, flows, columns)
            if rows and not (name == "causes" and flows == MANY):
                names = [*heads, *(column[1] for column in columns)]
                tables.append(TableOut(f"{network.name}-{flows}-{name}", f"{title}: {name}", caption, names, rows))
    if others := _ablations(data):
        names = ["change", "network", *heads, *(column[1] for column in _CHANGED)]
        tables.append(
            TableOut(
                "other-readings", "Other readings, and tests of causes",
                "As it is → with the change, the same seeds.", names, others,
            )
        )  # fmt: skip
    return tables
