"""Whatever prints a measure of a run prints one number."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tailback as tb
from tailback import metrics
from tailback.assess import measure as assess
from tailback.compare import compare
from tailback.experiment.run_metrics import measured, totals
from tailback.explorer.opened import Opened

HERE = Path(__file__).parent
TRANSFERS = ("test", "late", "file")
FLOWS = (*TRANSFERS, "call")
FIGURES = json.loads((HERE / "one_run.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def result() -> tb.Result:
    return tb.run(tb.Scenario.from_toml(HERE / "one_run.toml"))


@pytest.fixture(scope="module")
def printed(result: tb.Result) -> dict[str, dict[str, dict[str, float]]]:
    """By measure, then by what prints it: the flows' values."""
    explored = {row["name"]: row for row in Opened("result", "one", result.toml, result).described()["flows"]}
    summary = {row["flow"]: row for row in result.flow_summary()}
    people = {row["flow"]: row for row in result.experience_summary()}
    kept, asked = totals(result), measured(result)
    beside = {(row.of, row.metric): row.values["a"] for row in compare({"a": result, "b": result})}
    cell: Any = SimpleNamespace(statistics=(), after=None)
    heard = metrics.voice_quality(result, "call")
    return {
        "loss": {
            "the metric": {flow: metrics.flow_loss_rate(result, flow) for flow in FLOWS},
            "the summary": {flow: summary[flow]["loss"] for flow in FLOWS},
            "sweeps": {flow: kept[f"{flow}.loss"] for flow in FLOWS},
            "[expect]": {flow: asked(f"{flow}.loss") for flow in FLOWS},
            "compare": {flow: beside[flow, "loss rate"] / 100 for flow in FLOWS},
            "the explorer": {flow: explored[flow]["loss"] for flow in FLOWS},
            "assess": {flow: assess._of_tested(cell, result, [flow])["loss"] for flow in FLOWS},
            "voice_quality": {"call": heard.loss},
            "experience": {"call": people["call"]["lost"]},
        },
        "goodput_mbps": {
            "the metric": {flow: metrics.goodput(result, flow) / 1e6 for flow in FLOWS},
            "the summary": {flow: summary[flow]["goodput_mbps"] for flow in FLOWS},
            "sweeps": {flow: kept[f"{flow}.goodput_mbps"] for flow in FLOWS},
            "[expect]": {flow: asked(f"{flow}.goodput_mbps") for flow in FLOWS},
            "compare": {flow: beside[flow, "goodput"] for flow in TRANSFERS},
            "the explorer": {flow: explored[flow]["goodput_mbps"] for flow in FLOWS},
            "assess": {flow: assess._rate(result, flow) for flow in FLOWS},
        },
        "mos": {
            "voice_quality": {"call": heard.mos},
            "its R": {"call": metrics.mean_opinion_score(heard.rating)},
            "sweeps": {"call": kept["call.experience_mos"]},
            "[expect]": {"call": asked("call.experience_mos")},
            "compare": {"call": beside["call", "quality (G.107)"]},
            "experience": {"call": people["call"]["mos"]},
            "the explorer": {"call": explored["call"]["mos"]},
            "assess": {"call": assess._call(result)["call_mos"]},
        },
        "delay_p95_ms": {
            "the metric": {
                flow: 1e3 * float(metrics.delay_quantiles(result, flow, (0.95,), induced=False)[0]) for flow in FLOWS
            },
            "sweeps": {flow: kept[f"{flow}.delay_p95_ms"] for flow in FLOWS},
            "[expect]": {flow: asked(f"{flow}.delay_p95_ms") for flow in FLOWS},
            "compare": {"call": beside["call", "delay, 95 %"]},
            "experience": {"call": people["call"]["p95_ms"]},
            "the explorer": {flow: explored[flow]["delay_p95_ms"] for flow in FLOWS},
        },
        "completion_ms": {
            "the metric": {"file": 1e3 * metrics.completion_time(result, "file")},
            "the explorer": {"file": explored["file"]["completion_ms"]},
        },
    }


@pytest.mark.parametrize("measure", FIGURES["flows"])
def test_whatever_prints_a_flows_measure_prints_one_number(printed, measure) -> None:
    wanted = FIGURES["flows"][measure]
    for by, values in printed[measure].items():
        for flow, value in values.items():
            assert value == pytest.approx(wanted[flow], rel=1e-12), f"{measure} of {flow} by {by}"


def test_fairness_is_one_number(result) -> None:
    shares = [row["goodput_mbps"] for row in result.flow_summary() if row["cc"] is not None]
    explored = {row["name"]: row for row in Opened("result", "one", result.toml, result).described()["links"]}
    by = {
        "the metric": metrics.jain(shares),
        "sweeps": totals(result)["jain"],
        "[expect]": measured(result)("jain"),
        "the explorer": explored["bottleneck"]["jain"],
    }
    assert by == pytest.approx(dict.fromkeys(by, FIGURES["links"]["bottleneck"]["jain"]), rel=1e-12)


def test_what_a_link_drops_is_another_number_than_a_flows_loss(result) -> None:
    share = metrics.drop_share_at_link(result, "bottleneck")
    assert share == totals(result)["loss"] == measured(result)("bottleneck.loss")
    assert all(abs(share - loss) > 1e-4 for loss in FIGURES["flows"]["loss"].values())


def test_time_at_a_backlog_is_one_number(result) -> None:
    explored = {row["name"]: row for row in Opened("result", "one", result.toml, result).described()["links"]}
    median, high = (1e3 * metrics.queue_delay_quantiles(result, "bottleneck", (0.5, 0.95))).tolist()
    found = {
        "queue_p50_ms": explored["bottleneck"]["queue_p50_ms"],
        "queue_p95_ms": explored["bottleneck"]["queue_p95_ms"],
    }
    assert found == pytest.approx({"queue_p50_ms": median, "queue_p95_ms": high}, rel=1e-12)
    assert found == pytest.approx({key: FIGURES["links"]["bottleneck"][key] for key in found}, rel=1e-12)
