"""The agreement of simulator and live kernel: how it is judged, kept and told."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tailback_validation import live


def row(algorithm: str, *, goodput: float = 9.5, epoch: float = 2.0, fit: int = 1) -> live.Agreement:
    return live.Agreement(
        algorithm, 9.5, goodput, 80.0, 81.0, 2.0, epoch, runs=1, fit=fit, late_p99_us=40.0, kernel="L"
    )


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
    neither = live.Agreement("vegas", 9.5, 9.5, 45.0, 45.0, math.nan, math.nan, 1, 1, 40.0, "L")
    assert neither.misses() == []


def test_a_row_replaces_its_algorithms_earlier_one_and_no_other() -> None:
    live.keep([row("cubic"), row("reno")])
    live.keep([row("cubic", goodput=9.0)])
    assert [(each.algorithm, each.goodput_mbps_live) for each in live.known()] == [("reno", 9.5), ("cubic", 9.0)]


def test_what_is_missing_comes_back_missing() -> None:
    live.keep([row("vegas", epoch=math.nan)])
    assert math.isnan(live.known()[0].epoch_s_live)


def test_the_section_tells_every_row_and_explains_misses(place: Path) -> None:
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
