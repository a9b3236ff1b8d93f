"""Two results side by side: the differences, the pictures, the page."""

from __future__ import annotations

import html
import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tailback as tb
from tailback import cli, compare
from tailback.answer.compared import answer_of_comparison
from tailback.experiment.pairs import PairedMetric, that_matter
from tailback.judge import Interval
from tailback.metrics import Rows
from tailback.plots import timeseries
from tailback.report.comparison import comparison


@pytest.fixture(scope="module")
def pair() -> tuple[tb.Result, tb.Result]:
    def run(queue: str) -> tb.Result:
        return tb.run(
            tb.dumbbell(
                name="pair",
                rate="10mbit",
                rtt="40ms",
                queue=queue,
                flows=[tb.bulk("reno", name="bulk"), tb.voip(name="call")],
                duration="6s",
                instruments={"polls": ["bulk"], "packets": ["call"], "queue_polls": ["bottleneck"]},
            )
        )

    return run("1bdp"), run("0.25bdp")


def views(**results: tb.Result) -> dict[str, Rows]:
    return {label: Rows.of(result) for label, result in results.items()}


def test_a_longer_queue_shows_in_the_call(pair: tuple[tb.Result, tb.Result]) -> None:
    rows = {(row.metric, row.of): row for row in compare.compare({"long": pair[0], "short": pair[1]})}
    assert rows["delay, median", "call"].change("short") < -0.1
    assert rows["goodput", "bulk"].values["long"] > 7
    assert not math.isnan(rows["goodput", "bulk"].change("short"))


def test_the_panels_hold_both_results(pair: tuple[tb.Result, tb.Result]) -> None:
    panels = timeseries.panels(views(long=pair[0], short=pair[1]))
    assert [panel.title for panel in panels] == ["congestion window", "queue", "throughput", "one-way delay"]
    for panel in panels:
        assert [curve.label for curve in panel.curves] == ["long", "short"]
        assert len({curve.colour for curve in panel.curves}) == 2
    queue = panels[1].curves
    assert queue[0].y.max() > 2 * queue[1].y.max()
    # The middle of a bin stands for it; on the whole as much arrives as the application gets.
    rates = panels[2].curves[0].y
    assert rates.mean() == pytest.approx(tb.metrics.goodput(pair[0], "bulk") / 1e6, rel=0.05)


def test_internals_are_laid_over_one_another_by_their_names() -> None:
    def run(cc: str) -> tb.Result:
        instruments = {"polls": ["bulk"], "internals": True}
        flows = [tb.bulk(cc, name="bulk")]
        return tb.run(tb.dumbbell(rate="10mbit", rtt="40ms", flows=flows, duration="3s", instruments=instruments))

    panels = {panel.title: panel for panel in timeseries.panels(views(one=run("vegas"), other=run("veno")))}
    assert [curve.label for curve in panels["base_rtt_s"].curves] == ["one", "other"]
    assert panels["base_rtt_s"].unit == "s"
    assert panels["base_rtt_s"].curves[0].y.min() == pytest.approx(0.04, abs=0.002)
    assert [curve.label for curve in panels["diff"].curves] == ["one"]
    assert [curve.label for curve in panels["n"].curves] == ["other"]


def test_without_series_there_is_a_table_and_no_picture() -> None:
    bare = tb.run(tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.bulk("reno")], duration="2s"))
    assert timeseries.panels(views(one=bare, two=bare)) == []
    with pytest.raises(tb.metrics.MissingRows):
        timeseries.over_one_another(views(one=bare, two=bare))
    assert "Differences" in comparison({"one": bare, "two": bare})


@pytest.mark.long
def test_the_page_has_both_scenarios_if_they_differ(pair: tuple[tb.Result, tb.Result]) -> None:
    page = html.unescape(comparison({"long": pair[0], "short": pair[1]}))
    assert "Scenario of long (TOML)" in page
    assert "Scenario of short (TOML)" in page
    assert "Over one another" in page
    # A simulated run has no lateness to report.
    assert "How punctual" not in page
    assert "Scenario of" not in comparison({"one": pair[0], "two": pair[0]})


def test_the_command_writes_what_the_ending_says(pair: tuple[tb.Result, tb.Result], tmp_path: Path) -> None:
    folders = [str(result.save(tmp_path / name)) for result, name in zip(pair, ("long", "short"), strict=True)]
    for name in ("both.html", "both.png", "both.pdf"):
        done = CliRunner().invoke(cli.app, ["compare", *folders, "--out", str(tmp_path / name), "--json"])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["out"].endswith(name)
        assert (tmp_path / name).stat().st_size > 10_000
    done = CliRunner().invoke(cli.app, ["compare", *folders, "--out", str(tmp_path / "both.doc")])
    assert done.exit_code != 0
    assert "ending" in str(done.exception)
    assert not (tmp_path / "both.doc").exists()


def _row(metric: str, base: float, other: float) -> compare.Comparison:
    return compare.Comparison(metric, "call", "", {"a": base, "b": other}, "a")


def test_the_differences_that_matter_begin_with_what_people_notice() -> None:
    rows = [_row("timeouts", 1.0, 9.0), _row("goodput", 8.0, 9.0), _row("delay, 95 %", 100.0, 140.0)]
    rows += [_row("loss rate", 1.0, 1.0), _row("quality (G.107)", 4.0, 2.0)]
    shown = [row.metric for row in compare.that_matter(rows)]
    assert shown == ["quality (G.107)", "delay, 95 %", "goodput", "timeouts"]
    assert len(compare.that_matter([_row("goodput", 1.0, float(number)) for number in range(2, 30)])) == 10


def test_the_command_shows_ten_differences_and_all_of_them(pair: tuple[tb.Result, tb.Result], tmp_path: Path) -> None:
    folders = [str(result.save(tmp_path / name)) for result, name in zip(pair, ("long", "short"), strict=True)]
    few, everything = (CliRunner().invoke(cli.app, ["compare", *folders, *more]).stdout for more in ([], ["--all"]))
    assert len(few.splitlines()) <= 11 < len(everything.splitlines())


def test_pairs_show_what_differs_and_nothing_twice() -> None:
    def row(metric: str, a: float, b: float, least: float) -> PairedMetric:
        means = (Interval(value, value, value, 9, 0.95) for value in (a, b))
        return PairedMetric(metric, *means, Interval(b - a, b - a - least, b - a + least, 9, 0.95))

    rows = [row("jain", 1.0, 0.5, 0.1), row("up.retransmitted", 1.0, 9.0, 0.1), row("call.loss", 0.1, 0.2, 0.01)]
    rows += [row("call.delay_p95_ms", 200.0, 50.0, 1.0), row("call.experience_p95_ms", 200.0, 50.0, 1.0)]
    rows += [row("up.goodput_mbps", 9.0, 9.1, 0.5)]
    assert [each.metric for each in that_matter(rows)] == ["call.delay_p95_ms", "call.loss", "jain", "up.retransmitted"]
    slight = [row("call.back.goodput_mbps", 1.5, 1.50003, 1e-6), row("return.backlog_mean_bytes", 0.05, 0.06, 0.001)]
    total = row("goodput_mbps", 8.2, 7.8, 0.01)
    assert that_matter([*slight, *rows, total])[1] == total
    assert that_matter([*slight, *rows, total])[-2:] == slight


def test_what_no_person_notices_comes_last() -> None:
    little, much = _row("quality (G.107)", 4.41, 4.40), _row("delay, 95 %", 20.0, 60.0)
    loss = _row("loss rate", 1.0, 2.0)
    assert [each.is_unnoticed for each in (little, much, loss)] == [True, False, False]
    assert compare.that_matter([little, much, loss]) == [much, loss, little]
    slight = [_row("goodput", 1.5, 1.501), compare.Comparison("backlog, mean", "return", "kB", {"a": 0.1, "b": 1}, "a")]
    assert compare.that_matter([*slight, much, loss]) == [much, loss, *slight]
    assert answer_of_comparison([little]).statements[0].text.endswith("4.4 in b (-0.2 %): too little to notice.")
