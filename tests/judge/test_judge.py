"""The one judge: its words, rules and seeds, and that no other module has a judge of its own."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import numpy as np
import pytest

from tailback import _core
from tailback.judge import (
    CLAIM,
    CONTROL,
    DOSSIER,
    RECORD,
    TARGET,
    TEST,
    VALIDATION,
    Beside,
    Bounds,
    Near,
    Rounds,
    Sequential,
    Verdict,
    Words,
    gap,
    holm,
    interval,
    of_mean,
    of_share,
    together,
    weigh,
)

ROOT = Path(__file__).parents[2]
#: What distributions are asked for tests and intervals, and what a bootstrap is called.
STATISTICS = {
    "ppf",
    "isf",
    "binomtest",
    "bootstrap",
    "wilcoxon",
    "mannwhitneyu",
    "ttest_ind",
    "ttest_rel",
    "ttest_1samp",
}
SOURCES = (
    path
    for folder in ("python/tailback", "validation/tailback_validation", "papers/tailback_papers", "scripts")
    for path in (ROOT / folder).rglob("*.py")
    if "judge" not in path.parts
)


def test_no_other_module_computes_intervals_or_tests() -> None:
    own = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.attr}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in STATISTICS
    ]
    assert own == []


def test_every_word_stands_for_one_verdict() -> None:
    for page in (TEST, DOSSIER, CLAIM, VALIDATION, TARGET, CONTROL, RECORD):
        for word in page.all():
            assert page(Words.verdict(word)) in page.all()
    with pytest.raises(ValueError, match='"failed" already stands for failed'):
        Words("failed", "passed")


def test_one_failure_fails_all_and_what_was_not_run_leaves_all_open() -> None:
    assert together(["passed", "undecided", "failed", "not finished"]) == "failed"
    assert together(["passed", "undecided", "not finished"]) == "not finished"
    assert together(["reproduced", "partly", "not measured"]) == "partly"


def test_a_rule_and_its_wider_band_decide_at_their_ends() -> None:
    rule = Near(100.0, tolerance=0.25, loose=0.5)
    assert [rule.word(value) for value in (75.0, 74.9, 50.0, 49.9)] == ["reproduced", "partly", "partly", "not"]
    assert rule.judge(math.nan) is Verdict.NOT_RUN


class Half(Beside):
    """At least half of the baseline's, and a tenth less."""

    more, factor, allowance = True, 0.5, 0.1


def test_the_margin_beside_a_baseline_is_nothing_at_its_bound() -> None:
    rule = Half()
    bound = rule.bound(2.0)
    assert bound == pytest.approx(0.9)
    assert rule.margin(bound, 2.0) == pytest.approx(0.0)
    assert rule.ratio(1.8, 2.0) == pytest.approx(2.0)
    assert rule.excess(0.45, bound) == pytest.approx(0.5)


def test_bounds_name_what_is_beyond_them() -> None:
    bounds = Bounds({"goodput": 0.05, "delay": 0.1})
    assert bounds.missed({"goodput": 0.05, "delay": math.nan}) == ["delay"]
    assert bounds.excess({"goodput": -0.1, "delay": 0.15}) == pytest.approx(2.0)


@pytest.mark.parametrize("policy", [Rounds((5, 10, 20)), Sequential(5, 20)])
def test_seeds_end_at_the_most(policy: Rounds | Sequential) -> None:
    have, looks = 0, []
    while more := policy.more(have):
        have += more
        looks.append(have)
    assert (looks[0], looks[-1]) == (5, policy.most)


def test_ranges_that_overlap_have_no_gap() -> None:
    random = np.random.default_rng(1)
    for _ in range(100):
        one, other = random.normal(0.0, 1.0, (2, 3))
        apart = max(one) < min(other) or max(other) < min(one)
        assert (gap(one, other) > 0.0) == apart


def test_the_t_test_and_the_interval_agree() -> None:
    """p is 5 % exactly where an end of the 95 % interval is the bound."""
    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    found = interval(values, "mean")
    assert of_mean(values, found.low) == pytest.approx(0.05)
    assert of_mean(values, found.high) == pytest.approx(0.05)


def test_the_exact_test_and_its_interval_agree() -> None:
    """Clopper and Pearson's interval of 9 of 10 is 55.5 to 99.7 %."""
    found = of_share(9, 10, 0.5)
    assert (found.low, found.high) == pytest.approx((0.5550, 0.9975), abs=1e-4)
    assert found.p == pytest.approx(2 * 11 / 1024)
    assert of_share(9, 10, found.low).p == pytest.approx(0.05)


def test_holm_holds_the_chance_of_any_error() -> None:
    """All of 20 hypotheses are true: in at most 5 % of the trials one is refused, and Bonferroni's share of these."""
    random = np.random.default_rng(2)
    wrong = sum(any(holm(random.random(20).tolist(), 0.05)) for _ in range(2000))
    assert wrong / 2000 < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)
    assert holm([0.01, 0.04, 0.03], 0.05) == [True, False, False]


def test_rusts_interval_is_pythons() -> None:
    """A margin that moves the interval's end across nothing decides in Rust exactly where Python's interval says."""
    random = np.random.default_rng(4)
    for _ in range(200):
        values = random.normal(random.normal(0.0, 1.0), 1.0, int(random.integers(2, 6)))
        found = interval(values, "mean")
        where = _core.side_of_zero(values.tolist(), [], 0.95, 1)
        assert where == (1 if found.low > 0.0 else -1 if found.high < 0.0 else 0)


def test_margins_of_nothing_are_on_the_good_side() -> None:
    assert (weigh([0.0, 0.0, 0.0]).verdict, weigh([0.0, 0.0, 0.0]).p) == (Verdict.PASSED, 0.0)
