"""Presets with several bottlenecks or several ways in: the law of AIMD in a parking lot, and what their options do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tailback as tb

#: Chosen before the first run: how far loss rates and goodputs may be from the law.
LOSS_BAND, GOODPUT_BAND = 0.20, 0.15


def _lot(hops: int, **more: Any) -> tb.Scenario:
    flows = [tb.bulk("reno", name=f"long-{number}") for number in range(1, 3)]
    return tb.presets.scenario(
        "parking-lot",
        flows=flows,
        duration="150s",
        randomness={"start_spread": "1s", "processing_jitter": "100us"},
        **{"hops": hops, "rate": "20mbit", "queue": "red", "cross": 2} | more,
    )


def _ratios(made: tb.Scenario) -> dict[str, float]:
    """Of loss, over all hops to over one; of goodput and of round trip likewise, but goodput the other way about."""
    rows = [
        row for result in tb.run_many([made.with_(seed=seed) for seed in (1, 2, 3)]) for row in result.flow_summary()
    ]

    def mean(key: str, kind: str) -> float:
        return float(np.mean([row[key] for row in rows if row["flow"].startswith(kind)]))

    loss, rtt = (mean(key, "long") / mean(key, "cross") for key in ("loss", "srtt_ms"))
    return {"loss": loss, "rtt": rtt, "goodput": mean("goodput_mbps", "cross") / mean("goodput_mbps", "long")}


@pytest.mark.parametrize("hops", [2, 3, 4])
def test_renos_goodput_over_lossy_hops_follows_its_round_trip_and_the_sum_of_loss_rates(hops: int) -> None:
    # Goodput is as 1 / (RTT √p) (Mathis et al., CCR 27(3), 1997), and p is `hops` times as large over all of them.
    # No queue overflows at this rate, so that every loss is the wires'.
    ratios = _ratios(_lot(hops, rate="1gbit", queue="1bdp", loss=0.001))
    assert ratios["loss"] == pytest.approx(hops, rel=LOSS_BAND)
    assert ratios["goodput"] == pytest.approx(math.sqrt(hops) * ratios["rtt"], rel=GOODPUT_BAND)


@pytest.mark.parametrize("hops", [2, 3, 4])
def test_over_full_hops_reno_gets_less_than_the_cross_traffic_of_any_and_more_than_its_nth_part(hops: int) -> None:
    # What a queue loses depends on who fills it: the ratio is above that of losses independent of the flows.
    ratios = _ratios(_lot(hops))
    assert math.sqrt(hops) * ratios["rtt"] < ratios["goodput"] < hops * ratios["rtt"]


def test_a_parking_lots_round_trips_are_equal_unless_cross_traffic_is_given_its_own_delay() -> None:
    def shortest_ms(**more: Any) -> dict[str, float]:
        made = _lot(3, rate="100mbit", cross=1, **more).with_(duration="2s", randomness={})
        return {row["flow"]: row["rtt_min_ms"] for row in tb.run(made).flow_summary()}

    for name, rtt in shortest_ms().items():
        assert rtt == pytest.approx(60, abs=2), name
    near = shortest_ms(cross_delay="0s")
    assert [round(near[f"cross-{number}"]) for number in (1, 2, 3)] == [20, 20, 20]
    assert near["long-1"] == pytest.approx(60, abs=2)


def test_in_a_tree_the_slower_of_access_link_and_share_of_the_bottleneck_limits() -> None:
    made = tb.presets.scenario(
        "tree", flows=[tb.bulk(name="direct")], duration="30s", access_delay="5ms 15ms 40ms", queue="fq"
    )
    rows = {row["flow"]: row for row in tb.run(made).flow_summary()}
    # 20 Mbit/s: 2 by its own line, the other three share what that leaves.
    assert rows["flow-1"]["goodput_mbps"] == pytest.approx(1.92, rel=0.05)
    for name in ("flow-2", "flow-3", "direct"):
        assert rows[name]["goodput_mbps"] == pytest.approx(17.3 / 3, rel=0.1), name
    shortest = [round(rows[name]["rtt_min_ms"]) for name in ("direct", "flow-2", "flow-3")]
    assert shortest == pytest.approx([20, 50, 100], abs=3)


@pytest.mark.parametrize(
    ("preset", "options", "place", "problem"),
    [
        ("parking-lot", {"hops": 0}, "path.hops", "from 1 to 32"),
        ("parking-lot", {"cross": -1}, "path.cross", "from 0 to 100"),
        ("parking-lot", {"delay": "3mbit"}, "path.delay", "mbit"),
        ("tree", {"access": ""}, "path.access", "1 to 100 rates"),
        ("tree", {"access": "2mbit 3ms"}, "path.access", "ms"),
        ("tree", {"access_delay": "1ms 2ms"}, "path.access_delay", "2 delays for 3"),
    ],
)
def test_what_a_shape_cannot_be_is_refused_by_option(
    preset: str, options: dict[str, Any], place: str, problem: str
) -> None:
    with pytest.raises(tb.ScenarioError, match=place.replace(".", r"\.")) as refused:
        tb.presets.scenario(preset, flows=[tb.bulk()], duration="1s", **options).resolve()
    assert problem in str(refused.value)
