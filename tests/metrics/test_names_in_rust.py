"""The names that `[expect]` and sweeps use have the values that crates/tailback gives: both are held to names.json.

`python tests/metrics/test_names_in_rust.py` writes it from what Python measures.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from tailback import registry
from tailback.experiment.run_metrics import measurable, measured
from tailback.metrics.registry import RUN_MEASURES

HERE = Path(__file__).parent
KEPT = HERE / "names.json"
RUNS = ("one_run", "users_run", "people_run", "pages_run")
#: A window of time, in seconds.
WINDOW = (2.0, 6.0)
#: Of an algorithm's own quantities, which no list has.
OWN = (
    "file.own_bandwidth_bps_mean",
    "file.own_mode_last",
    "file.own_mode_is_2",
    "file.own_mode_enters_2",
    "file.own_none_max",
)


def figures(name: str) -> dict[str, dict[str, Any]]:
    """By "whole" and "window": what there is by name, and what the others lack; a missing number is None."""
    result = tb.run(tb.Scenario.from_toml(HERE / f"{name}.toml"))
    out: dict[str, dict[str, Any]] = {}
    for which, window in (("whole", {}), ("window", {"start_s": WINDOW[0], "end_s": WINDOW[1]})):
        known = dict(measurable(result.resolved, window=bool(window)))
        if name == "users_run":
            known |= dict.fromkeys(OWN, "")
        value = measured(result, **window)
        values = {name: value(name) for name, lacks in known.items() if not lacks}
        out[which] = {
            "values": {name: None if math.isnan(value) else value for name, value in sorted(values.items())},
            "lacks": {name: lacks for name, lacks in sorted(known.items()) if lacks},
        }
    return out


def test_every_name_has_a_row_with_its_unit() -> None:
    names = {
        name
        for run in json.loads(KEPT.read_text()).values()
        for which in run.values()
        for part in which.values()
        for name in part
    }
    assert {name for name in names if _row(name) is None} == set(OWN)
    ends = {"ms": "ms", "s": "s", "mbps": "Mbit/s", "bytes": "B"}
    for name in names - set(OWN):
        unit, expected = _row(name).unit, ends.get(name.rpartition("_")[2])
        assert unit == expected if expected else unit not in ends.values(), name


#: What users notice of an application, beside the waits and losses that all have.
NOTICED = {
    "voice": {"experience_mos"},
    "updates": {"late_50", "late_100"},
    "film": {"startup_s", "stalled_s", "stalls", "switches", "bitrate_mbps"},
    "pages": {"loads", "load_time_s", "load_time_p95_s", "speed_index_s"},
}


def test_every_application_has_measures_of_what_its_users_notice() -> None:
    cards = [card for card in registry.load().apps if not (card.runs_programs or card.carries_packets)]
    flows = [tb.flow(card.name, name=card.name) for card in cards]
    recorded = {"requests": "all", "echoes": "all", "packets": "all"}
    result = tb.run(tb.dumbbell(rate="200mbit", rtt="20ms", flows=flows, duration="12s", instruments=recorded))
    value = measured(result)
    known = {name for name, lacks in measurable(result.resolved).items() if not lacks}
    for card in cards:
        wanted = {"goodput_mbps"}
        if card.rows or card.transport == "udp":
            wanted |= {"experience_median_ms", "experience_p95_ms", "experience_lost"}
        if card.transport == "udp":
            wanted |= {"loss", "delay_p95_ms"}
        wanted |= NOTICED.get(card.datagrams or "", set())
        wanted |= NOTICED["film"] if card.plays_film else set()
        wanted |= NOTICED["pages"] if card.loads_pages else set()
        for key in wanted:
            name = f"{card.name}.{key}"
            assert name in known, name
            assert math.isfinite(value(name)), name
            assert RUN_MEASURES[key].better, f"{key}: which way is better?"


def _row(name: str) -> Any:
    last = re.sub(r"^turn_\d+_", "", name.rpartition(".")[2])
    return RUN_MEASURES.get(last)


@pytest.mark.parametrize("name", RUNS)
def test_every_name_has_the_value_that_the_crate_gives(name) -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))[name]
    for which, found in figures(name).items():
        assert found["lacks"] == kept[which]["lacks"], which
        wanted, values = kept[which]["values"], found["values"]
        assert values.keys() == wanted.keys(), which
        for metric, value in values.items():
            assert value == (None if wanted[metric] is None else pytest.approx(wanted[metric], rel=1e-12)), metric


if __name__ == "__main__":
    KEPT.write_text(json.dumps({name: figures(name) for name in RUNS}, indent=1) + "\n", encoding="utf-8")
