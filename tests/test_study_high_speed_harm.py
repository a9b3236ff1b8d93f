"""The second paper's study: its claims can come out either way, and its cells say what the paper says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tailback.studies.framework import Data, judge
from tailback.studies.high_speed_harm import grid
from tailback.studies.high_speed_harm.claims import CLAIMS

WAN, LAN = grid.WAN, grid.LAN
SMALL = 0.1


def _wan(algorithm: str, queue: float, flows: int) -> dict[str, Any]:
    """A cell of the ocean link in a world in which the paper is right."""
    small, loss_based = queue <= SMALL, algorithm in grid.LOSS_BASED
    used = {"reno": 0.7, "highspeed": 0.92, "htcp": 0.75, "cubic": 0.93, "compound": 0.96}[algorithm]
    used -= 0.4 * (queue <= 0.05) + 0.3 * (algorithm == "compound" and (small or (flows == 20 and queue <= 0.5)))
    used -= 0.06 * (algorithm == "htcp" and small)
    delay = {"reno": 2.0, "highspeed": 38.0, "htcp": 40.0, "cubic": 39.0, "compound": 12.0}[algorithm] * queue
    if algorithm == "compound" and queue == 1.0:
        delay = 25.0
    jitter = {"reno": 1.0, "highspeed": 1.3, "htcp": 3.0, "cubic": 1.35, "compound": 1.05}[algorithm] * (1.0 + delay)
    if algorithm == "compound" and small:
        delay, jitter = 6.0, 3.0
    late = delay + 2.0 * (algorithm == "htcp")
    if flows == 20 and algorithm == "compound" and queue <= 0.5:
        late = 45.0
    loss = {"reno": 0.8, "highspeed": 1.0, "htcp": 5.0, "cubic": 1.0, "compound": 1.1}[algorithm]
    if algorithm == "compound" and small:
        loss = 2.0
    if algorithm == "compound" and flows == 20:
        loss = 4.0
    joins = 0.1
    if algorithm in ("reno", "compound") and queue >= 0.5:
        loss, joins = 4.8, 0.8
    drops = 1e4 * loss * (1.0 + 2.0 * (queue == 1.0))
    rate = {"reno": 20.0, "highspeed": 14.0, "htcp": 9.0, "cubic": 13.0, "compound": 18.0}[algorithm]
    return {
        "utilisation": used, "loss": 1e-4 * loss, "drops": drops, "join_drops": joins * drops,
        "queue_ms": delay, "above_half": 0.7 if loss_based else 0.2,
        "step": {"htcp": 50.0, "compound": 45.0}.get(algorithm, 20.0),
        "drops_per_event": 100.0 if algorithm == "htcp" else 40.0, "hit_share": 0.5, "reductions_per_s": 0.1,
        "web_drops": 100.0 * loss, "voip_ms": 70.0 + delay, "jitter_ms": 0.1 * jitter,
        "ftp_mbps": 0.1 * rate, "hftp_mbps": rate,
        "dwnd_empty": 0.6, "loss_unseen": 0.9,
        "www": {
            str(size >> 10): {"mean": 0.3 + 0.01 * late * (size / 65536) ** 0.2, "p95": 0.4 + 0.06 * late}
            for size in grid.OBJECTS
        },
    }  # fmt: skip


def _lan(algorithm: str, queue: float) -> dict[str, Any]:
    """A cell of the campus in that world."""
    blind = algorithm == "compound" and queue < 0.5
    return {
        "utilisation": {"reno": 0.9, "highspeed": 0.9, "htcp": 0.94, "cubic": 0.97, "compound": 0.9}[algorithm]
        - 0.05 * blind,
        "loss": 1e-4 * (3.0 if algorithm in ("highspeed", "compound") else 1.0),
        "reductions_per_s": {"htcp": 0.3, "cubic": 0.3}.get(algorithm, 0.9),
        "hit_share": 0.4 if algorithm == "cubic" else 0.8, "above_half": 0.7 if algorithm == "cubic" else 0.4,
        "queue_ms": 2.0, "drops_per_event": {"htcp": 20.0, "compound": 40.0}.get(algorithm, 10.0),
        "voip_ms": 70.0, "jitter_ms": 2.0 if blind else 1.0, "ftp_mbps": 2.0 if blind else 3.0,
        "hftp_mbps": 5.0 if blind else 8.0, "loss_unseen": 0.9,
        "www": {size: {"mean": 0.97 if algorithm == "htcp" else 1.0} for size in ("4", "64")},
    }  # fmt: skip


def _level(_: str, queue: float) -> dict[str, Any]:
    """A cell of a world in which neither algorithm nor queue makes a difference."""
    one = _wan("cubic", 0.2, grid.FEW) | {"utilisation": 0.93, "above_half": 0.3, "join_drops": 1.0, "drops": 1e4}
    return one | {"dwnd_empty": 0.1, "loss_unseen": 0.2}


def _data(tmp_path: Path, *, good: bool) -> Data:
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for algorithm in grid.ALGORITHMS:
        for queue in WAN.queues:
            for flows in (grid.FEW, grid.MANY):
                made = _wan(algorithm, queue, flows) if good else _level(algorithm, queue)
                found[grid.key_of("wan", algorithm, queue, flows), 1] = made
        for queue in LAN.queues:
            made = _lan(algorithm, queue) if good else _level(algorithm, queue) | {"queue_ms": 30.0}
            found[grid.key_of("lan", algorithm, queue), 1] = made
    for name, change in (("smooth", {"utilisation": 0.1}), ("lss", {"loss": -0.8})):
        for where, algorithm, queue in grid.ABLATIONS[name].cells:
            base = found[grid.key_of(where, algorithm, queue), 1]
            ((what, shift),) = change.items()
            value = base[what] + shift if what == "utilisation" else base[what] * (1 + shift)
            found[grid.ablation_key(name, where, algorithm, queue), 1] = base | ({what: value} if good else {})
    return Data({}, found, (1,), tmp_path)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_world_as_the_paper_says_reproduces_every_claim(claim, tmp_path):
    judged = judge(claim, _data(tmp_path, good=True))
    assert judged.verdict == "reproduced", judged


# What a world without differences has too: sameness, smallness, and ties with the largest.
SAMENESS = {
    "002-L3a", "002-L7e", "002-L9f", "002-L10c", "002-L12a", "002-L12b", "002-L13b", "002-L14a", "002-L14c",
    "002-L16b", "002-L16c", "002-L17a", "002-L18d",
}  # fmt: skip


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_world_without_differences_reproduces_none_but_those_of_sameness(claim, tmp_path):
    judged = judge(claim, _data(tmp_path, good=False))
    assert (judged.verdict == "reproduced") == (claim.id in SAMENESS), judged


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_what_was_not_run_is_not_judged(claim, tmp_path):
    assert judge(claim, Data({}, {}, (1,), tmp_path)).verdict == "not measured"
