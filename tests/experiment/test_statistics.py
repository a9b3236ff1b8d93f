"""Intervals hold what they promise, pairing gains what it should, tables say which runs were compared."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

from tailback.experiment import statistics
from tailback.experiment.statistics import effects, fold, summary
from tailback.experiment.store.query import answer, settings
from tailback.judge import StatisticsError, interval, paired, side


@pytest.mark.parametrize(("statistic", "method"), [("mean", "t"), ("mean", "bca"), ("median", "percentile")])
def test_an_interval_holds_the_truth_as_often_as_it_says(statistic: str, method: str) -> None:
    """500 samples of 30 from a normal distribution: 90 % within what 500 trials may show (4 sigma)."""
    random = np.random.default_rng(5)
    samples = random.normal(3.0, 2.0, (500, 30))
    held = 0
    for sample in samples:
        found = interval(sample, statistic, confidence=0.9, method=method)
        held += found.low <= 3.0 <= found.high
    assert abs(held / 500 - 0.9) < 4 * math.sqrt(0.9 * 0.1 / 500)


def test_the_t_interval_is_students() -> None:
    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    found = interval(values, "mean", confidence=0.9)
    half = stats.t.ppf(0.95, 4) * np.std(values, ddof=1) / math.sqrt(5)
    assert found.estimate == pytest.approx(6.2)
    assert (found.low, found.high) == pytest.approx((6.2 - half, 6.2 + half))


def test_quantiles_interpolate_and_lie_within_their_interval() -> None:
    values = np.arange(101.0)
    for name, expected in (("p5", 5.0), ("median", 50.0), ("p95", 95.0), ("p99.5", 99.5)):
        found = interval(values, name)
        assert found.estimate == pytest.approx(expected)
        assert found.low <= found.estimate <= found.high
        assert found == interval(values, name)


def test_few_or_equal_values_claim_nothing_more_than_they_know() -> None:
    assert math.isnan(interval([], "mean").estimate)
    one = interval([2.0, float("nan")])
    assert (one.estimate, one.n) == (2.0, 1)
    assert math.isnan(one.width)
    same = interval([2.0] * 4)
    assert (same.low, same.high) == (2.0, 2.0)


def test_a_median_of_few_values_has_a_range_and_no_confidence_of_95() -> None:
    """The range of n values misses the median with 2 * 0.5**n: 2,000 samples, within 4 sigma."""
    random = np.random.default_rng(6)
    few = interval([4.0, 1.0, 2.0, 9.0, 3.0])
    assert (few.low, few.high, few.kind, few.coverage) == (1.0, 9.0, "range of 5 runs", 0.9375)
    held = sum(sample.min() <= 0.0 <= sample.max() for sample in random.normal(0.0, 1.0, (2000, 5)))
    assert abs(held / 2000 - few.coverage) < 4 * math.sqrt(few.coverage * (1 - few.coverage) / 2000)
    assert interval([4.0, 1.0, 2.0, 9.0, 3.0, 5.0]).kind == "95 % interval"
    assert interval([4.0, 1.0, 2.0, 9.0], confidence=0.8).kind == "80 % interval"
    assert interval([4.0, 1.0, 2.0], "mean").kind == "95 % interval"
    assert (interval([2.0] * 9).kind, interval([2.0]).kind) == ("9 equal runs", "none")


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(StatisticsError, match="There are: mean, median"):
        interval([1.0, 2.0], "mode")
    with pytest.raises(StatisticsError, match="no statistic"):
        interval([1.0, 2.0], "p101")
    with pytest.raises(StatisticsError, match="between 0 and 1"):
        interval([1.0, 2.0], confidence=95)
    with pytest.raises(StatisticsError, match="no method"):
        interval([1.0, 2.0], "median", method="t")


def test_pairing_removes_what_both_have_in_common() -> None:
    """Runs vary by 10, the setting adds 1 ± 0.1: invisible between groups, plain between pairs."""
    random = np.random.default_rng(2)
    common = random.normal(100.0, 10.0, 20)
    first = dict(enumerate(common))
    second = dict(enumerate(common + 1.0 + random.normal(0.0, 0.1, 20)))
    found = paired(first, second)
    assert found.difference.low < 1.0 < found.difference.high
    assert found.difference.width < 0.2
    assert found.above == 1.0
    assert found.gain > 1000
    assert found.ratio.estimate == pytest.approx(1.01, abs=0.002)


def test_only_common_seeds_count() -> None:
    found = paired({1: 1.0, 2: 2.0, 3: 99.0}, {1: 2.0, 2: 3.0, 4: 0.0})
    assert (found.difference.n, found.difference.estimate, found.above) == (2, 1.0, 1.0)
    assert math.isnan(paired({1: 0.0}, {1: 1.0}).ratio.estimate)
    with pytest.raises(StatisticsError, match="no seed in common"):
        paired({1: 1.0}, {2: 1.0})


FRAME = pl.DataFrame(
    [
        {"cc": cc, "rate": rate, "seed": seed, "goodput": rate * factor + seed}
        for cc, factor in (("reno", 0.8), ("cubic", 0.9))
        for rate in (10, 100)
        for seed in (1, 2, 3)
    ]
)


def test_effects_compare_like_with_like() -> None:
    table = effects(FRAME, "goodput", "cc", across=["rate", "seed"])
    assert table["cc"].to_list() == ["cubic"]
    row = table.to_dicts()[0]
    # + 1 at rate 10 and + 10 at rate 100, three seeds each.
    assert (row["against"], row["pairs"], row["above"]) == ("reno", 6, 1.0)
    assert row["difference"] == pytest.approx(5.5)
    back = effects(FRAME, "goodput", "cc", across=["rate", "seed"], baseline="cubic").to_dicts()[0]
    assert back["difference"] == pytest.approx(-5.5)


def test_effects_refuse_pairs_that_are_none() -> None:
    with pytest.raises(StatisticsError, match="cannot be paired"):
        effects(FRAME, "goodput", "cc", across=["seed"])
    with pytest.raises(StatisticsError, match="no column colour"):
        effects(FRAME, "goodput", "colour", across=["seed"])
    with pytest.raises(StatisticsError, match="is never vegas"):
        effects(FRAME, "goodput", "cc", across=["rate", "seed"], baseline="vegas")


def test_a_delay_that_was_not_recorded_names_the_instrument() -> None:
    with pytest.raises(StatisticsError, match=r'instruments = \{ packets = \["voip"\] \}'):
        summary(pl.DataFrame({"voip.goodput_mbps": [1.0]}), "voip.delay_p95_ms", [])


def test_a_summary_has_a_row_a_combination() -> None:
    table = summary(FRAME, "goodput", ["cc", "rate"])
    assert table.select("cc", "rate", "median", "n").rows()[0] == ("reno", 10, 10.0, 3)
    assert len(table) == 4
    assert statistics.summary(FRAME, "goodput", ["cc"], statistic="mean").columns == [
        "cc",
        "mean",
        "low",
        "high",
        "n",
        "interval",
    ]


# --- Sides of a bound -----------------------------------------------------------------------------------------


def test_three_seeds_far_beyond_the_bound_are_beyond_it() -> None:
    """1,449 packets in the mean where CUBIC sends 3: too wide a spread for Student's t."""
    packets = [600.0, 1300.0, 2447.0]
    bound = 1.5 * 3.0 + 2.0
    margins, ratios = [bound - each for each in packets], [bound / each for each in packets]
    assert side(margins) == 0
    assert side(margins, ratios) == -1
    assert side([-each for each in margins], [1 / each for each in ratios]) == 1
    # One seed on the other side, and the ratio does not count.
    assert side([*margins[:2], 1.0], [*ratios[:2], 1.2]) == 0


def test_six_of_six_are_no_chance_and_five_of_five_are() -> None:
    wide = [0.1, 0.2, 0.1, 30.0, 0.2, 90.0]
    assert side(wide[:5]) == 0
    assert side(wide) == 1
    assert side([*wide[:5], -0.1]) == 0
    assert side(wide, confidence=0.99) == 0


def test_nothing_is_on_the_side_the_caller_says_and_no_number_is_an_error() -> None:
    assert side([0.0, 0.0, 0.0]) == 1
    assert side([0.0, 0.0, 0.0], at_zero=-1) == -1
    with pytest.raises(StatisticsError, match="no number"):
        side([1.0, math.nan])


@pytest.mark.parametrize("seeds", [3, 6])
def test_at_its_bound_an_algorithm_is_decided_no_more_often_than_by_students_t(seeds: int) -> None:
    """400 samples at the bound, normal and log-normal: at most 5 % and 4 sigma."""
    random = np.random.default_rng(8)
    for values in (random.normal(100.0, 20.0, (400, seeds)), 100.0 * random.lognormal(0.0, 0.5, (400, seeds))):
        decided = sum(side(100.0 - row, 100.0 / row) != 0 for row in values)
        assert decided / 400 < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 400)


# --- Folding ----------------------------------------------------------------------------------------------------


def test_a_swept_number_separates_rows_and_a_failed_run_does_not_count() -> None:
    runs = pl.DataFrame(
        {
            "dumbbell.wire.loss": [0.0, 0.0, 0.0, 0.01, 0.01, 0.01],
            "bulk.goodput_mbps": [9.0, 9.2, 9.1, 4.0, 4.2, None],
            "bulk.delay_ms": [1.0, None, 1.0, 2.0, 2.0, None],
        }
    )
    sql = 'SELECT "dumbbell.wire.loss" AS lost, "bulk.goodput_mbps" FROM runs'
    assert settings(runs, sql) == ["dumbbell.wire.loss", "lost"]
    folded = fold(answer(runs, sql), settings=settings(runs, sql))
    assert folded["lost"].to_list() == [0.0, 0.01]
    assert folded["n"].to_list() == [3, 2]
    assert folded["bulk.goodput_mbps"].to_list() == pytest.approx([9.1, 4.1])
    both = fold(runs, settings=settings(runs, ""))
    assert both["bulk.delay_ms n"].to_list() == [2, 2]
    assert "bulk.goodput_mbps n" not in both.columns


def test_a_column_written_without_its_unit_is_answered_with_the_nearest() -> None:
    kept = pl.DataFrame({"video.goodput_mbps": [1.0], "video.delay_p95_ms": [2.0], "call.delay_p95_ms": [3.0]})
    with pytest.raises(StatisticsError) as caught:
        summary(kept, "video.delay_p95", [])
    assert str(caught.value) == 'there is no column video.delay_p95. Did you mean "video.delay_p95_ms"?'
