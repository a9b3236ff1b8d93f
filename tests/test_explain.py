"""What is said of a run is what its rows say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tailback as tb
from tailback import cli, metrics
from tailback.explain import explain


def told(result: object) -> dict[str, str]:
    out: dict[str, str] = {}
    for finding in explain(result):
        out[finding.about] = out.get(finding.about, "") + " " + finding.text
    return out


def run(cc: str = "reno", queue: str = "2bdp") -> tb.Result:
    base = tb.dumbbell(
        rate="10mbit",
        rtt="40ms",
        queue=queue,
        flows=[tb.bulk(cc, name="bulk"), tb.voip(name="call")],
        duration="30s",
        instruments={
            "polls": ["bulk"], "packets": ["call"], "queue_polls": ["bottleneck"], "drops": ["bottleneck"],
            "poll_interval": "10ms",
        },
    )  # fmt: skip
    return tb.run(base)


@pytest.fixture(scope="module")
def result() -> tb.Result:
    return run()


def test_the_download_is_named_as_the_one_that_filled_the_queue(result: tb.Result) -> None:
    assert metrics.window_queue_correlation(result, "bulk") > 0.9
    assert "bulk (Linux 6.x NewReno) filled it" in told(result)["queue"]


def test_a_window_that_does_not_move_with_the_queue_fills_nothing() -> None:
    assert "filled it" not in told(run("bbr", "8bdp"))["queue"]


def test_a_queue_that_one_cut_empties_leaves_the_link_idle() -> None:
    short = run(queue="0.2bdp")
    assert metrics.utilisation(short) < 0.99
    assert "the link stood idle" in told(short)["queue"]
    assert "the link stood idle" not in told(run())["queue"]


def test_numbers_are_those_of_the_metrics(result: tb.Result) -> None:
    events = metrics.congestion_events(result, "bulk")
    assert f"backed off {len(events.t_s)} times" in told(result)["growth"]
    assert "to 50 % of that" in told(result)["growth"]


def test_a_run_without_loss_says_so() -> None:
    free = tb.run(tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.voip(name="call")], duration="2s"))
    assert told(free)["loss"].strip() == "No link dropped a packet."


def test_each_sentence_names_rows_that_are_there(result: tb.Result) -> None:
    for finding in explain(result):
        assert finding.rests_on
        for part in finding.rests_on.split("; "):
            table = part.split(":")[0].split(",")[0]
            assert table in result.tables, part


def test_the_command_tells_the_same(result: tb.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "kept")
    done = CliRunner().invoke(cli.app, ["explain", str(tmp_path / "kept"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["findings"] == [finding.as_dict() for finding in explain(result)]
