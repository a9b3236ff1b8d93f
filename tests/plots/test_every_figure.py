"""Every figure on results of every kind: drawn, or refused in words; and which link a result is about."""

from __future__ import annotations

import contextlib
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import tailback as tb
from tailback import metrics, plots, report
from tailback.report import comparison

SCENARIOS = Path(__file__).parents[2] / "scenarios"


@pytest.fixture(scope="module")
def results() -> dict[str, tb.Result]:
    """The example scenarios, and of a path whose bottleneck is a medium."""
    made = {}
    for file in sorted(SCENARIOS.glob("*.toml")):
        made[file.stem] = tb.run(tb.Scenario.from_toml(file))
    flows = [tb.bulk("reno", stack="freebsd-9", name="download"), tb.voip(name="call")]
    watched = dict.fromkeys(("polls", "queue_polls", "packets", "drops"), "all")
    made["adsl1"] = tb.run(tb.presets.scenario("adsl1", flows=flows, duration="20s", instruments=watched))
    made["call"] = tb.run(tb.dumbbell(rate="1mbit", rtt="20ms", flows=[tb.voip()], duration="2s"))
    htcp = tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.bulk("htcp")], duration="2s", instruments=watched)
    made["htcp"] = tb.run(htcp)
    air = tb.link("air", "a", "b", delay="5ms", duplex=True)
    upload = tb.bulk(from_="a", to="b", bytes="1MB")
    made["no-queue"] = tb.run(tb.network(links=[air], flows=[upload], duration="2s"))
    return made


@pytest.mark.parametrize("name", [recipe.name for recipe in plots.catalogue()])
def test_a_figure_is_drawn_or_refused_in_words(results: dict[str, tb.Result], name: str) -> None:
    drawn = 0
    for result in results.values():
        # Anything but a reason in words is a defect.
        with contextlib.suppress(plots.MissingRows):
            plt.close(plots.get(name)(result))
            drawn += 1
    assert drawn, "an example has what it needs"


def test_a_medium_that_drops_is_the_bottleneck(results: dict[str, tb.Result]) -> None:
    result = results["adsl1"]
    assert result.bottleneck == "down"
    assert metrics.drop_share_at_link(result) > 0.01
    assert "down" in [row["link"] for row in result.link_summary()]
    # The modem's 104 kB drain in 0.6 s at 1.3 Mbit/s; the idle line takes 50 ms there and back.
    assert 0.5 < metrics.loaded_rtt_s(result, "download") < 1.0
    assert 0.01 < metrics.base_delay(result, "call") < 0.05
    title = plots.get("overview")(result)
    assert title is not None
    plt.close(title)


def test_both_views_of_a_result_name_the_same_bottleneck(results: dict[str, tb.Result]) -> None:
    for result in results.values():
        try:
            assert result.link_names[metrics.Rows.of(result).bottleneck] == result.bottleneck
        except metrics.NothingToMeasure:
            assert result.link_names[0] == result.bottleneck


def test_utilisation_is_one_figure_everywhere(results: dict[str, tb.Result]) -> None:
    result = results["voip-and-bulk"]
    (row,) = [row for row in result.link_summary() if row["link"] == result.bottleneck]
    assert metrics.utilisation(result) == row["utilisation"]


def test_a_page_describes_the_medium(results: dict[str, tb.Result]) -> None:
    page = report.single(results["adsl1"])
    assert ">nan" not in page
    assert ">adsl<" in page.replace("</td>", "<")


def test_results_without_a_queue_have_pages_too(results: dict[str, tb.Result], tmp_path: Path) -> None:
    result = results["no-queue"]
    assert report.write(result, tmp_path / "one.html").stat().st_size > 10_000
    assert comparison.write_comparison({"a": result, "b": result}, tmp_path / "two.html").stat().st_size > 5_000
