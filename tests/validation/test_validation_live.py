"""The agreement of simulator and live kernel: how it is judged, kept and reported."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

import tailback as tb
from tailback.live import doctor
from tailback_validation import live

needs_live = pytest.mark.skipif(not doctor(0.0)["can_run_live"], reason="no live runs here")


def row(algorithm: str, *, goodput: float = 9.5, epoch: float = 2.0, fit: int = 1) -> live.Agreement:
    return live.Agreement(
        algorithm, 9.5, goodput, 80.0, 81.0, 2.0, epoch, math.nan, math.nan, math.nan,
        runs=1, fit=fit, late_p99_us=40.0, kernel="L",
    )  # fmt: skip


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(live, "_file", lambda: tmp_path / "live.csv")
    return tmp_path / "live.csv"


def test_what_is_off_by_more_than_its_target_is_a_miss() -> None:
    assert row("reno").misses() == []
    assert row("reno", goodput=9.5 * 1.029).misses() == []
    assert row("reno", goodput=9.5 * 1.031).misses() == ["goodput_mbps"]
    assert row("reno", epoch=1.6).misses() == ["epoch_s"]


def test_an_epoch_that_only_one_has_is_a_miss_and_one_that_neither_has_is_none() -> None:
    assert row("reno", epoch=math.nan).misses() == ["epoch_s"]
    neither = replace(row("vegas"), epoch_s_sim=math.nan, epoch_s_live=math.nan)
    assert neither.misses() == []


def test_a_row_replaces_its_algorithms_earlier_one_and_no_other() -> None:
    live.keep([row("cubic"), row("reno")])
    live.keep([row("cubic", goodput=9.0)])
    assert [(each.algorithm, each.goodput_mbps_live) for each in live.known()] == [("reno", 9.5), ("cubic", 9.0)]


def test_what_is_missing_comes_back_missing() -> None:
    live.keep([row("vegas", epoch=math.nan)])
    assert math.isnan(live.known()[0].epoch_s_live)


def test_the_section_has_every_row_and_explains_misses(place: Path) -> None:
    assert live.section({}) == []
    live.keep([row("reno"), row("cdg", goodput=8.0)])
    text = "\n".join(live.section({"live": {"cdg": {"goodput_mbps": "Dice."}}}))
    assert "| `reno` | 9.500 | 9.500 | +0.0 % |" in text
    assert "**-15.8 %**" in text
    assert "- **`cdg`, goodput -15.8 %.** Dice." in text
    assert "No mechanism found yet" in "\n".join(live.section({}))


def test_optional_rows_have_a_table_of_their_own_after_the_ten() -> None:
    live.keep([row("cubic:twin"), row("yeah", epoch=1.0), row("reno")])
    assert [each.algorithm for each in live.known()] == ["reno", "yeah", "cubic:twin"]
    text = "\n".join(live.section({}))
    first, second = text.split("The other twins")
    assert "`reno`" in first
    assert "`cubic:twin`" in second
    assert "`yeah`, epoch -50.0 %" in second


def test_remarks_end_the_section() -> None:
    live.keep([row("reno")])
    assert (
        live.section({"live": {"remarks": "Hybla once\nlearnt too long a path."}})[-2]
        == "Hybla once learnt too long a path."
    )


def test_the_path_is_the_one_of_the_page() -> None:
    resolved = live.scenario("cubic").resolve()
    bottleneck = next(link for link in resolved["links"] if link["name"] == "bottleneck")
    assert bottleneck["rate_bps"] == 10_000_000
    assert resolved["duration_ps"] == 60 * 10**12


def test_a_row_is_of_three_runs_and_shows_their_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    # Three live runs and what each gave: goodput, the call's delay, and epochs in two of them.
    goodputs, epochs = iter([9.0, 9.5, 10.0]), iter([2.0, math.nan, 2.5])

    class Run:
        def __init__(self) -> None:
            self.meta = {"fit": True}

        def column(self, table: str, column: str) -> list[float]:
            return [1e-5]

    monkeypatch.setattr(tb, "run", lambda scenario: None)
    monkeypatch.setattr("tailback.live.run", lambda scenario, twins: Run())
    monkeypatch.setattr(
        live, "_measured", lambda run: (9.5, 80.0, 2.0) if run is None else (next(goodputs), 80.0, next(epochs))
    )
    seen = live.measure("reno")
    assert (seen.runs, seen.fit) == (3, 3)
    assert (seen.goodput_mbps_live, seen.goodput_mbps_spread) == pytest.approx((9.5, 1.0 / 9.5))
    assert seen.voice_ms_spread == 0.0
    assert seen.epoch_s_spread == pytest.approx(0.5 / 2.25)
    live.keep([seen])
    assert live.known()[0].goodput_mbps_spread == pytest.approx(1.0 / 9.5, rel=1e-5)
    assert "| 10.5 % | 80.0 | 80.0 | +0.0 % | 0.0 % | 2.00 | 2.25 | +12.5 % | 22.2 % | 3 | 3 |" in "\n".join(
        live.section({})
    )


@needs_live
def test_a_short_row_is_measured_on_this_kernel() -> None:
    seen = live.measure("reno", duration="2s")
    assert (seen.runs, seen.algorithm) == (3, "reno")
    assert seen.goodput_mbps_live > 1
    assert 0 <= seen.goodput_mbps_spread < 1
