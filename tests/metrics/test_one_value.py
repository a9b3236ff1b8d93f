"""Whatever prints a measure of a run prints one number, and a window over the whole run has the run's number.

`python tests/metrics/test_one_value.py` writes window_run.json from what Python measures.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tailback as tb
from tailback import metrics
from tailback.assess import measure as assess
from tailback.compare import compare
from tailback.experiment.run_metrics import measurable, measured, totals
from tailback.explorer.opened import Opened

HERE = Path(__file__).parent
TRANSFERS = ("test", "late", "file")
FLOWS = (*TRANSFERS, "call")
FIGURES = json.loads((HERE / "one_run.json").read_text(encoding="utf-8"))
KEPT = HERE / "window_run.json"
#: In seconds: the run, its first packets, the outage, from the outage on, and all three transfers.
WINDOWS = ((0.0, 10.5), (0.0, 2.7), (5.9, 7.1), (6.25, 10.5), (2.2, 9.3))

#: What is recorded of window_run.toml: everything, and a part of it.
RECORDED = {"whole": "", "part": 'from = "3s"\nuntil = "9s"\n'}


def recorded(which: str) -> tb.Result:
    text = (HERE / "window_run.toml").read_text(encoding="utf-8")
    return tb.run(tb.Scenario.parse_toml(text.replace("[instruments]\n", f"[instruments]\n{RECORDED[which]}")))


def windowed(result: tb.Result) -> list[dict[str, Any]]:
    """Each window's values by name; None for NaN. The first entry is the whole run's."""
    out = []
    for start, end in ((None, None), *WINDOWS):
        within = {} if start is None else {"start_s": start, "end_s": end}
        value = measured(result, **within)
        names = sorted(name for name, lacks in measurable(result.resolved, window=bool(within)).items() if not lacks)
        out.append({**within, "values": {name: None if math.isnan(value(name)) else value(name) for name in names}})
    return out


def queued(result: tb.Result, *window: float) -> dict[str, dict[str, float]]:
    """Quantiles of the waits at a logged and a polled queue."""
    return {
        link: dict(zip(("queue_p50_ms", "queue_p95_ms"), waits.tolist(), strict=True))
        for link in ("bottleneck", "return")
        for waits in [1e3 * metrics.queue_delay_quantiles(result, link, (0.5, 0.95), *window)]
    }


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


@pytest.fixture(scope="module")
def short() -> tb.Result:
    return recorded("whole")


def same(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("which", RECORDED)
def test_a_windows_values_are_those_that_the_crates_are_held_to(which) -> None:
    kept, result = json.loads(KEPT.read_text(encoding="utf-8"))[which], recorded(which)
    assert kept["recorded"] == RECORDED[which]
    for found, wanted in zip(windowed(result), kept["windows"], strict=True):
        assert found.pop("values") == {name: same(value) for name, value in wanted.pop("values").items()}, found
        assert found == wanted
    assert queued(result) == {link: pytest.approx(values, rel=1e-12) for link, values in kept["links"].items()}


def test_a_window_over_the_whole_run_has_the_runs_values(short) -> None:
    whole, window = measured(short), measured(short, start_s=0.0, end_s=short.duration_s)
    names = [f"bottleneck.{key}" for key in ("backlog_mean_bytes", "backlog_max_bytes", "loss", "dropped")]
    names += ["call.loss", "late.loss", "call.experience_mos", "call.delay_p95_ms", "page.answered_mbps", "page.loads"]
    for name in names:
        assert window(name) == pytest.approx(whole(name), rel=1e-12), name
    assert math.isnan(whole("page.loss"))
    assert math.isnan(window("page.loss"))
    assert queued(short, 0.0, short.duration_s) == queued(short)


@pytest.mark.parametrize("flow", ["file", "late"])
def test_a_window_over_a_flows_life_has_its_goodput_however_rare_the_polls(short, flow) -> None:
    [(start, end)] = metrics.Rows.of(short).on_s(flow)
    assert metrics.goodput(short, flow, start, end) == pytest.approx(metrics.goodput(short, flow), rel=1e-12)
    # A longer one has the same bytes.
    received = metrics.goodput(short, flow) * (end - start)
    assert metrics.goodput(short, flow, 0.0, 10.5) * 10.5 == pytest.approx(received, rel=1e-12)
    [none, all_of_it] = assess.received(short, flow, np.array([0.0, 10.5]))
    assert (none, 8.0 * all_of_it) == pytest.approx((0.0, received), rel=1e-12)
    assert 1e6 * assess._rate(short, flow, start, end) == pytest.approx(metrics.goodput(short, flow), rel=1e-12)
    assert assess._rate(short, "page", start, end) == 0.0
    starts, rates = metrics.throughput_series(short, flow, 0.5)
    assert rates.sum() * 0.5 == pytest.approx(received, rel=1e-12)
    assert starts[rates > 0.0].max() < end


def test_a_flows_pauses_end_with_it(short) -> None:
    value = measured(short)
    # It has 100 kB by the second poll, at 3.5 s, and its last acknowledgement more than six seconds before the end.
    started = short.numpy("flows")["started_s"][short.flow_index("file")]
    assert started > 2.7
    assert value("file.received_100kB_ms") == pytest.approx(1e3 * (3.5 - started))
    assert value("file.longest_pause_ms") == pytest.approx(1e3 * (3.5 - started))


if __name__ == "__main__":
    kept = {
        which: {"recorded": lines, "windows": windowed(run), "links": queued(run)}
        for which, lines in RECORDED.items()
        for run in [recorded(which)]
    }
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
