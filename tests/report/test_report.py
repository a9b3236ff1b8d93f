"""Reports: complete in themselves, whole, and safe with any text in them."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_study import tiny

import tailback as tb
from synthetic import sawtooth
from tailback import report
from tailback.experiment import studies
from tailback.metrics import Rows
from tailback.numbers import written
from tailback.plots import sweeps
from tailback.report import interactive


def specs_of(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="specs">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found.group(1))


def without_library(page: str) -> str:
    """The page without the plotting library, which is packed."""
    return re.sub(r'<script type="application/octet-stream" id="plotly">[^<]*</script>', "", page)


@pytest.fixture(scope="module")
def study_page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    return tiny().run(folder, seeds=2, progress=False), (folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def written_page(tmp_path_factory):
    """A report as it is written, in a folder that was not there."""
    target = tmp_path_factory.mktemp("single") / "deep/report.html"
    assert report.write(sawtooth(), target) == target
    return target


def test_a_single_result_gives_one_page_that_loads_nothing(written_page):
    page = without_library(written_page.read_text(encoding="utf-8"))
    assert "http://" not in page
    assert "https://" not in page
    assert 'src="' not in re.sub(r'src="data:image/png;base64,[^"]*"', "", page)
    assert "<link" not in page


def test_a_single_result_shows_figures_flows_links_and_scenario(written_page):
    page = written_page.read_text(encoding="utf-8")
    for part in ("Everything recorded, over time", "smallest RTT", "bottleneck", "Scenario, resolved", "Run it again"):
        assert part in page
    assert specs_of(page)["figures"]["overview"]["data"]


def test_interactive_series_keep_their_extremes():
    rows = sawtooth(duration_s=600.0)
    queue = next(
        t for t in specs_of(report.single(rows))["figures"]["overview"]["data"] if t["name"] == "queue at bottleneck"
    )
    backlog = rows.tables["queue_polls"]["backlog_bytes"] / 1e3
    assert len(queue["x"]) <= 4000 < len(backlog)
    assert max(queue["y"]) == pytest.approx(backlog.max(), abs=1e-3)
    assert min(queue["y"]) == pytest.approx(backlog.min(), abs=1e-3)


def test_names_cannot_break_out_of_the_page():
    base = sawtooth()
    evil = "</script><script>alert(1)</script>"
    rows = Rows(base.tables, {**base.scenario, "name": evil})
    page = report.single(rows)
    assert evil not in page
    assert "<script>alert" not in page


def test_a_result_with_totals_only_still_has_a_report():
    base = sawtooth()
    rows = Rows({k: base.tables[k] for k in ("flows", "links", "congestion")}, {**base.scenario, "instruments": {}})
    assert "goodput" in report.single(rows)


def test_writing_is_whole_or_not_at_all(written_page):
    assert [each.name for each in written_page.parent.iterdir()] == ["report.html"]
    assert written_page.read_text(encoding="utf-8").rstrip().endswith("</html>")


def test_a_studys_report_has_claims_first_then_figures(study_page):
    _, page = study_page
    assert 0 < page.index('id="claims"') < page.index('id="figures"') < page.index('id="again"')
    assert 'class="badge reproduced"' in page
    assert 'class="badge not measured"' in page


def test_a_studys_report_escapes_and_loads_nothing(study_page):
    _, page = study_page
    assert "it moves &lt;fast&gt;" in page
    bare = without_library(page)
    assert "http://" not in bare
    assert "https://" not in bare


def test_only_predicted_claims_count_in_a_studys_report(study_page):
    result, _ = study_page
    first, second = result.claims
    others = replace(result, claims=[replace(first, standing="fitted"), second])
    assert (result.verdicts(), result.aside()) == ({"reproduced": 1, "not measured": 1}, {})
    assert (others.verdicts(), others.aside()) == ({"not measured": 1}, {"fitted": 1})
    assert others.counts() == "1 claims were predicted, and only these count: 1 not measured. Not counted: 1 fitted"
    assert {"value": "1", "name": "not counted: fitted", "kind": ""} in report._study_tiles(others)


def test_a_studys_report_says_how_to_run_it_again(study_page):
    result, page = study_page
    assert "tailback study tiny --seeds 2" in page
    assert result.meta["engine"] in page
    assert "duration = " in page


def test_a_study_states_one_time_everywhere(study_page, capsys):
    from rich.console import Console

    result, page = study_page
    result.print(Console(width=140))
    assert f"runs in {result.took()}" in capsys.readouterr().out
    assert f"<b>{result.took()}</b>" in page
    assert studies.load(result.folder).wall_s == result.wall_s


def test_the_chooser_of_runs_keeps_extremes_in_few_points():
    t = np.arange(500.0)
    v = np.where(t == 250, 99.0, 1.0)
    series = {"cwnd": [list(t), list(v)], "queue": [list(t), list(-v)], "delay": [[0.0, 1.0], [2.0, 3.0]]}
    entry = interactive.explorer([("a run", "grid", "#000000", {"limit_bytes": 1e5, "series": series})])["entries"][0]
    assert len(entry["cwnd"][0]) == len(entry["cwnd"][1]) <= interactive.EXPLORED_POINTS
    assert max(entry["cwnd"][1]) == 99.0
    assert min(entry["queue"][1]) == -99.0
    assert entry["delay"] == [[0.0, 1.0], [2.0, 3.0]]


def test_reports_stay_small(study_page):
    assert len(study_page[1].encode()) < 15e6


def test_a_loaded_study_can_be_written_elsewhere(study_page, tmp_path):
    result, page = study_page
    again = studies.load(result.folder)
    target = report.write(again, tmp_path / "copy.html")
    assert target.read_text(encoding="utf-8") == page


def test_claims_show_in_notebooks(study_page):
    assert "T-1" in study_page[0]._repr_html_()


def test_a_ping_whose_packets_were_not_recorded_does_not_hinder_the_report():
    """A flow over UDP has no packets' delays if only its echoes were recorded."""
    result = tb.run(
        tb.dumbbell(
            rate="10mbit", rtt="20ms", duration="4s",
            flows=[tb.flow("ping"), tb.bulk(), tb.voip(), tb.flow("web-probe", from_="right", to="left")],
            instruments={"packets": ["voip"], "echoes": ["ping"], "requests": ["web-probe"], "polls": ["bulk"]},
        )
    )  # fmt: skip
    page = report.single(result)
    assert "What people on the link experience" in page
    assert "voip: quality of the call" in page
    assert "ping: round trip" in page
    for title in ("What readers of pages wait for", "What a caller hears", "Distribution of round-trip times"):
        assert title in page


def test_a_page_is_small_and_needs_nothing_from_elsewhere(written_page):
    page = written_page.read_text(encoding="utf-8")
    assert len(page) < 1_200_000
    # The library is in the page, packed; nothing is loaded.
    assert 'id="plotly"' in page
    assert "<script src" not in page
    assert "prefers-color-scheme: dark" in page


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (45831, "45,831"),
        (50583.2, "50,583"),
        (0.00082913, "0.0008291"),
        (float("nan"), "–"),
        (float("inf"), "∞"),
        (0.0, "0"),
        (-1234.5678, "-1,235"),
        (1e-7, "0.0000001"),
        ("cubic", "cubic"),
    ],
)
def test_numbers_are_written_in_one_way(value, text):
    assert written(value) == text


def test_a_report_begins_with_the_answer_and_a_tile_for_each_person_and_transfer():
    flows = [
        tb.bulk("cubic", name="upload", start="4s"), tb.voip(name="call"), tb.flow("game", name="game"),
        tb.flow("video", name="film", from_="right", to="left"),
        tb.bulk("cubic", name="file", bytes="50kB"), tb.flow("ping", name="ping"),
    ]  # fmt: skip
    recorded = {"packets": ["call", "game"], "requests": ["film"], "echoes": ["ping"], "queue_polls": "all"}
    result = tb.run(
        tb.dumbbell(rate="2mbit", back_rate="20mbit", rtt="40ms", queue="500ms", flows=flows, duration="20s",
                    instruments=recorded)
    )  # fmt: skip
    page = report.single(result)
    head = page[: page.index("<nav>")]
    for text in result.answer():
        assert str(report.Markup.escape(text)) in head
    assert head.count("<li") <= 10
    for tile in ("call: quality of the call", "game: updates later than 100 ms", "film: time the picture stands still",
                 "ping: round trip", "upload: goodput", "file: goodput, complete in"):  # fmt: skip
        assert tile in head
    drawn = [trace["name"] for trace in specs_of(page)["figures"]["overview"]["data"]]
    assert {"queue at bottleneck", "queue at return"} <= set(drawn)
    assert page.index('class="answer"') < page.index("Everything recorded, over time")


def test_no_number_in_a_tile_is_a_residue_of_rounding():
    page = report.single(
        tb.run(tb.dumbbell(rate="10mbit", rtt="20ms", flows=[tb.flow("udp-cbr", name="stream")], duration="2s",
                           instruments={"packets": ["stream"]}))
    )  # fmt: skip
    assert re.search(r"<b>0 ms</b><span>stream: wait in queues, 95 %", page)


def test_the_report_of_a_store_with_failed_runs_counts_once_and_shows_what_was_measured(tmp_path: Path) -> None:
    def broken(result: tb.Result) -> float:
        if result.resolved["links"][0]["rate_bps"] == 3_000_000:
            raise RuntimeError("no such thing")
        return 1.0

    base = tb.dumbbell(
        rate="1mbit", rtt="20ms", flows=[tb.bulk("reno", name="bulk"), tb.flow("media-gcc", name="call")],
        duration="2s", randomness={"start_spread": "100ms"}, instruments={"packets": ["call"]},
    )  # fmt: skip
    kept = {"store": tmp_path / "s", "metrics": {"broken": broken}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tb.sweep(base, {"dumbbell.rate": ["1mbit", "2mbit", "3mbit"]}, seeds=2, **kept)
    # Points of another sweep have the same numbers.
    tb.sweep(base, {"dumbbell.rate": ["4mbit", "5mbit"]}, seeds=2, **kept)
    store = tb.open_store(tmp_path / "s")
    said = report.answered(store)[-1].text
    assert said.startswith("8 runs in 4 settings")
    assert said.endswith("2 failed runs are left out.")
    page = report.write(store, tmp_path / "page.html").read_text(encoding="utf-8")
    counted = re.findall(r"<b>(\d+)</b><span>(runs|settings|failed)<", page)
    assert counted == [("8", "runs"), ("4", "settings"), ("2", "failed")]
    tables = re.findall(r'id="table-([^"]+)"', page)
    assert "call.delay_p95_ms" in tables
    # Not measured, and the same numbers again.
    assert {"call.experience_mos", "call.experience_p95_ms"} & set(tables) == set()


def test_the_report_says_what_pools_different_scenarios(tmp_path: Path) -> None:
    base = tb.dumbbell(rate="1mbit", rtt="20ms", flows=[tb.bulk("reno", name="bulk")], duration="1s")
    for duration in ("1s", "2s"):
        tb.sweep(base.with_(duration=duration), {"dumbbell.rate": ["1mbit", "2mbit"]}, store=tmp_path / "s")
    said = report.answered(tb.open_store(tmp_path / "s"))[-1].text
    assert "Settings that pool runs of different scenarios: 2." in said
    assert "scenario of the store" in sweeps._below(tb.open_store(tmp_path / "s").frame())
