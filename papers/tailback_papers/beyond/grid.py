"""Every algorithm with four queues on the papers' paths, beside a call and a reader of web pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import tailback as tb
from tailback import presets, registry
from tailback.experiment import Cell
from tailback.scenario import Link, Queue, Scenario

QUEUES = {"fifo": "FIFO", "codel": "CoDel", "fq-codel": "FQ-CoDel", "pie": "PIE"}
_DISCIPLINES = {"codel": "codel", "fq-codel": "fq_codel", "pie": "pie"}

BULK = ("bulk-1", "bulk-2")
CALL, PAGE = "call", "page"
WARM_UP_S = 10.0
"""Left out of every measure: slow starts, the second transfer's arrival, the reader's."""

QUICK_ALGORITHMS = ("reno", "cubic", "vegas", "cdg", "compound", "bbr")
QUICK_PATHS = ("dumbbell", "adsl1", "wifi", "3g")

STANDARD = ("cubic", "fifo")
"""What most hosts and most boxes do: the pair others are compared with."""


@dataclass(frozen=True, eq=False)
class Path:
    """A network of one of the papers."""

    name: str
    title: str
    paper: str
    link: str
    """The link whose queue is exchanged: the narrowest on the way of the bulk transfers."""
    duration_s: int
    cost: float
    preset: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    dumbbell: Mapping[str, Any] | None = None


PATHS = {
    path.name: path
    for path in (
        Path("dumbbell", "Dumbbell, 10 Mbit/s, 80 ms", "000", "bottleneck", 120, 1.0,
             dumbbell={"rate": "10mbit", "rtt": "80ms", "queue": "1bdp"}),
        Path("adsl1", "ADSL1", "001", "down", 300, 1.0, preset="adsl1"),
        Path("homeplug", "HomePlug AV", "001", "down", 60, 2.0, preset="homeplug"),
        Path("wifi", "802.11g", "001", "air", 60, 2.0, preset="wifi"),
        Path("ocean", "Ocean fibre, 1 Gbit/s, 100 ms", "002", "fibre", 60, 20.0, preset="ocean"),
        Path("campus", "Campus behind OC-1", "002", "leased", 120, 6.0, preset="campus"),
        Path("eduroam", "Eduroam", "003", "air", 60, 15.0, preset="eduroam"),
        Path("adsl2", "ADSL2+", "003", "down", 120, 1.5, preset="adsl2"),
        Path("adsl2-wifi", "ADSL2+ and WiFi", "003", "down", 120, 3.0, preset="adsl2-wifi"),
        Path("3g", "3G", "003", "down", 300, 1.0, preset="3g"),
        Path("ns3-dumbbell", "Dumbbell, 20 Mbit/s, 40 ms", "004", "bottleneck", 120, 2.0,
             dumbbell={"rate": "20mbit", "rtt": "40ms", "queue": "100packets"}),
    )
}  # fmt: skip
"""All of the papers' networks but the wired university's, whose gigabit link is by its paper rarely full."""


@cache
def algorithms() -> tuple[str, ...]:
    """Every congestion control there is, in the registry's order: a new one joins by itself."""
    return tuple(card.name for card in registry.load().algorithms)


@cache
def title(algorithm: str) -> str:
    """What an algorithm is called in figures."""
    return {card.name: card.title for card in registry.load().algorithms}[algorithm]


def _flows(algorithm: str | None) -> list[tb.Flow]:
    bulk = [tb.bulk(algorithm, name=name, from_="left", to="right") for name in BULK] if algorithm else []
    return [
        *bulk,
        tb.voip(name=CALL, from_="left", to="right"),
        # The reader's server stands where the bulk transfers come from.
        tb.flow("web-probe", name=PAGE, cc="cubic", from_="right", to="left"),
    ]


def scenario(path: Path, algorithm: str | None, queue: str, name: str) -> Scenario:
    """Two bulk transfers, a call in their direction and a reader who fetches from where they come."""
    common: dict[str, Any] = {
        "flows": _flows(algorithm),
        "duration": f"{path.duration_s}s",
        "name": name,
        "randomness": {"start_spread": "1s", "processing_jitter": "8us"},
        "instruments": {
            "polls": list(BULK) if algorithm else [], "poll_interval": "100ms", "packets": [CALL], "requests": [PAGE],
        },
    }  # fmt: skip
    if path.dumbbell is not None:
        given = dict(path.dumbbell)
        if queue != "fifo":
            given |= {"queue": {"discipline": _DISCIPLINES[queue]}, "back_queue": given["queue"]}
        return tb.dumbbell(**given, **common)
    made = presets.scenario(str(path.preset), **common, **path.options).expanded
    if queue == "fifo":
        return made
    return made.with_(links=[_with_queue(link, path.link, queue) for link in made.links])


def _with_queue(link: Link, chosen: str, queue: str) -> Link:
    if link.name != chosen:
        return link
    return link.with_(queue=Queue(discipline=_DISCIPLINES[queue]))


def all_cells(quick: bool) -> list[Cell]:
    """The grid; `quick` takes six algorithms on four paths."""
    cells = []
    for path in PATHS.values():
        if quick and path.name not in QUICK_PATHS:
            continue
        key = f"{path.name}-alone"
        factors = {"path": path.name, "algorithm": None, "queue": "fifo"}
        label = f"{path.title}, no other flow"
        cells.append(Cell(key, label, scenario(path, None, "fifo", key), factors, cost=0.2 * path.cost))
        for algorithm in algorithms():
            if quick and algorithm not in QUICK_ALGORITHMS:
                continue
            for queue, words in QUEUES.items():
                key = f"{path.name}-{algorithm}-{queue}"
                factors = {"path": path.name, "algorithm": algorithm, "queue": queue}
                label = f"{path.title}, {title(algorithm)} × {words}"
                cells.append(Cell(key, label, scenario(path, algorithm, queue, key), factors, cost=path.cost))
    return cells
