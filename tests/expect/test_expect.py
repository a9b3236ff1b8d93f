"""[expect] and `tailback test`: the language of conditions, verdicts over seeds, and what is printed of them."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import tailback as tb
from tailback import engines, metrics
from tailback.expect import judge
from tailback.expect.conditions import ConditionError, parse
from tailback.expect.testing import demand_sound
from tailback.experiment.run_metrics import measurable, measured, totals
from tailback.judge import Sequential
from tailback.run import run_outcomes

#: The first interval loads scipy.
patient = settings(deadline=None)

KNOWN = dict.fromkeys(
    ("a.goodput_mbps", "b.goodput_mbps", "call.delay_p95_ms", "bottleneck.loss", "jain", "bulk-1.loss"), ""
) | {"a.cwnd_mean_bytes": 'polls = ["a"]'}
SCENARIO = """
duration = "4s"
[dumbbell]
rate = "10mbit"
rtt = "40ms"
[[flow]]
name = "a"
cc = "reno"
[[flow]]
name = "call"
app = "voip"
[randomness]
start_spread = "200ms"
[instruments]
packets = ["call"]
[expect]
conditions = [{conditions}]
"""


def scenario(*conditions: str, more: str = "") -> str:
    return SCENARIO.replace("{conditions}", ", ".join(f'"{text}"' for text in conditions)) + more


# --- The language


def sides(text: str, run: dict[str, float], baseline: dict[str, float] | None = None) -> tuple[float, ...]:
    base = baseline.__getitem__ if baseline is not None else None
    return parse(text, KNOWN, baseline=baseline is not None).sides(run.__getitem__, base)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("call.delay_p95_ms < 50", (40.0, 50.0)),
        ("call.delay_p95_ms < 50ms", (40.0, 50.0)),
        ("call.delay_p95_ms < 0.05 s", (40.0, 50.0)),
        ("a.goodput_mbps >= 4000kbit", (6.0, 4.0)),
        ("a.goodput_mbps / b.goodput_mbps in 0.5..2", (2.0, 0.5, 2.0)),
        ("a.goodput_mbps in 1mbit..(2 * b.goodput_mbps)", (6.0, 1.0, 6.0)),
        # The ends are compared in one unit: 20 ms come before half a second.
        ("call.delay_p95_ms in 20..0.5s", (40.0, 20.0, 500.0)),
        ("a.goodput_mbps - b.goodput_mbps - 1 > -2 * 3", (2.0, -6.0)),
        ("bottleneck.loss < 2%", (0.01, 0.02)),
        ("bulk-1.loss < 1", (0.5, 1.0)),
        # 6 Mbit/s for 40 ms are 30,000 bytes.
        ("a.goodput_mbps * call.delay_p95_ms / 8kB < 10", (30.0 / 8.0, 10.0)),
    ],
)
def test_a_condition_is_its_arithmetic_in_the_left_sides_unit(text: str, expected: tuple[float, ...]) -> None:
    run = {
        "a.goodput_mbps": 6.0, "b.goodput_mbps": 3.0, "call.delay_p95_ms": 40.0, "bottleneck.loss": 0.01,
        "bulk-1.loss": 0.5,
    }  # fmt: skip
    assert sides(text, run) == pytest.approx(expected)


def test_baseline_alone_is_the_left_side_of_the_other_run() -> None:
    run, other = {"a.goodput_mbps": 6.0, "jain": 0.9}, {"a.goodput_mbps": 4.0, "jain": 0.5}
    assert sides("a.goodput_mbps * 2 < baseline * 1.5", run, other) == pytest.approx((12.0, 12.0))
    assert sides("a.goodput_mbps / baseline.a.goodput_mbps > 1", run, other) == pytest.approx((1.5, 1.0))
    assert sides("jain > baseline - 0.1", run, other) == pytest.approx((0.9, 0.4))


@pytest.mark.parametrize(
    ("text", "at", "printed"),
    [
        ("call.delay_p59_ms < 50", 1, 'Did you mean "call.delay_p95_ms"?'),
        ("jain > 0.5 * cal.delay_p95_ms", 14, 'Did you mean "call.delay_p95_ms"?'),
        ("call.delay_p95_ms < 50mbit", 21, "a rate, and what it stands beside is a time"),
        ("a.goodput_mbps + call.delay_p95_ms < 5", 18, "a time, and what it stands beside is a rate"),
        ("bottleneck.loss < 50ms", 19, "a time, and what it stands beside is a pure number"),
        ("call.delay_p95_ms < 50mss", 21, 'Did you mean "ms"?'),
        ("call.delay_p95_ms", 18, "a comparison is missing"),
        ("call.delay_p95_ms <", 20, "a metric or a number is missing"),
        ("call.delay_p95_ms < 50 60", 24, "nothing can follow here"),
        ("0 < jain < 1", 10, "nothing can follow here"),
        ("1 < 2", 1, "measures nothing"),
        ("jain in 0.5", 12, "the range has one end"),
        ("jain in 2..1", 9, "ends before it begins"),
        ("call.delay_p95_ms in 20ms..0.01s", 22, "ends before it begins"),
        ("(jain < 1", 7, "not closed"),
        ("jain < baseline", 8, "no baseline is named"),
        ("jain ! 1", 6, '"!" has no place here'),
        ("a.cwnd_mean_bytes > 1", 1, 'Add to [instruments] polls = ["a"]'),
        ("__import__('os').system('true') < 1", 12, "has no place here"),
        ("open < 1", 1, 'there is no metric "open"'),
        ("", 1, "a metric or a number is missing"),
    ],
)
def test_what_cannot_be_read_says_where_and_what_would_be_right(text: str, at: int, printed: str) -> None:
    with pytest.raises(ConditionError) as caught:
        parse(text, KNOWN)
    assert f"at character {at}:" in str(caught.value), caught.value
    assert printed in str(caught.value)


def test_baseline_as_the_left_side_itself_is_refused() -> None:
    with pytest.raises(ConditionError, match="this is it"):
        parse("baseline < 1", KNOWN, baseline=True)


class Expression:
    """An expression as text and as its exact value."""

    def __init__(self, text: str, value: Fraction, rank: int) -> None:
        self.text, self.value, self.rank = text, value, rank

    def within(self, rank: int) -> str:
        return self.text if self.rank >= rank else f"({self.text})"


def _joined(pair: tuple[Expression, Expression], sign: str) -> Expression:
    a, b = pair
    if sign in "+-":
        value = a.value + b.value if sign == "+" else a.value - b.value
        return Expression(f"{a.within(1)} {sign} {b.within(2)}", value, 1)
    if sign == "/" and b.value == 0:
        sign = "*"
    value = a.value * b.value if sign == "*" else a.value / b.value
    return Expression(f"{a.within(2)} {sign} {b.within(3)}", value, 2)


_LEAVES = st.one_of(
    st.integers(0, 50).map(lambda n: Expression(str(n), Fraction(n), 3)),
    st.just(Expression("jain", Fraction(3, 4), 3)),
    st.just(Expression("-jain", Fraction(-3, 4), 3)),
)
_EXPRESSIONS = st.recursive(
    _LEAVES, lambda inner: st.builds(_joined, st.tuples(inner, inner), st.sampled_from("+-*/")), max_leaves=12
)


@given(_EXPRESSIONS)
def test_precedence_and_brackets_are_those_of_arithmetic(expression: Expression) -> None:
    found = sides(f"jain > {expression.text}", {"jain": 0.75})[1]
    assert found == pytest.approx(float(expression.value), rel=1e-9, abs=1e-9)


@given(st.text(alphabet="ja in.loss<>=*/+-()0123456789ms%baseline", max_size=40))
def test_any_text_is_a_condition_or_an_error_within_it(text: str) -> None:
    try:
        parse(text, KNOWN, baseline=True)
    except ConditionError as error:
        at = int(str(error).split("at character ")[1].split(":")[0])
        assert 1 <= at <= len(text) + 1


# --- Verdicts

Numbers = st.lists(st.integers(-50, 50), min_size=2, max_size=12)


def verdict(relation: str, values: Sequence[float], *bounds: float) -> str:
    return judge(relation, {seed: (value, *bounds) for seed, value in enumerate(values, 1)}).verdict


@patient
@given(Numbers, st.integers(-60, 60), st.integers(0, 20))
def test_a_wider_bound_never_undoes_a_pass_nor_a_narrower_one_a_failure(
    values: list[int], bound: int, slack: int
) -> None:
    order = ["failed", "undecided", "passed"]
    assert order.index(verdict("<", values, bound)) <= order.index(verdict("<", values, bound + slack))
    assert order.index(verdict(">", values, bound)) <= order.index(verdict(">", values, bound - slack))


@patient
@given(Numbers, st.integers(-60, 60))
def test_more_and_less_mirror_each_other(values: list[int], bound: int) -> None:
    assert verdict("<", values, bound) == verdict(">", [-value for value in values], -bound)
    opposite = {"passed": "failed", "failed": "passed", "undecided": "undecided"}
    assert verdict(">=", values, bound) == opposite[verdict("<", values, bound)]
    assert verdict("<=", values, bound) == opposite[verdict(">", values, bound)]


@patient
@given(Numbers, st.integers(-60, 60), st.integers(0, 40))
def test_a_range_is_both_its_ends(values: list[int], low: int, width: int) -> None:
    ends = {verdict(">=", values, low), verdict("<=", values, low + width)}
    expected = "failed" if "failed" in ends else "undecided" if "undecided" in ends else "passed"
    assert verdict("in", values, low, low + width) == expected


@patient
@given(Numbers, st.lists(st.integers(-(10**6), 10**6), min_size=12, max_size=12))
def test_what_both_sides_share_cancels_seed_by_seed(values: list[int], shared: list[int]) -> None:
    alone = judge("<", {seed: (float(value), 3.0) for seed, value in enumerate(values)})
    both = judge("<", {seed: (float(v + s), 3.0 + s) for seed, (v, s) in enumerate(zip(values, shared, strict=False))})
    assert both.verdict == alone.verdict


@pytest.mark.parametrize("missing", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("relation", ["<", ">", "<=", ">="])
def test_a_number_that_does_not_exist_fails(relation: str, missing: float) -> None:
    found = judge(relation, {1: (1.0, 1.0), 7: (missing, 1.0)})
    assert found.verdict == "failed"
    assert "seed 7" in found.why


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_bound_at_the_true_mean_is_rarely_decided(seed: int) -> None:
    """The interval errs in one of twenty cases: of 200 samples at most 22 are decided (its 99.9 % quantile)."""
    samples = np.random.default_rng(seed).normal(10.0, 2.0, (200, 8))
    assert sum(verdict("<", list(sample), 10.0) != "undecided" for sample in samples) <= 22


def outcomes(distance: float, samples: int = 300) -> dict[str, float]:
    """Shares of the verdicts on "> 0" by the stopping rule, of means this many standard deviations above zero."""
    found = {"passed": 0.0, "failed": 0.0, "undecided": 0.0}
    for sample in np.random.default_rng(1).normal(distance, 1.0, (samples, 50)):
        have = 5
        while (found_now := verdict(">", list(sample[:have]), 0.0)) == "undecided" and have < 50:
            have += Sequential(5, 50).more(have)
        found[found_now] += 1 / samples
    return found


@pytest.mark.long
def test_the_stopping_rule_errs_as_often_as_the_page_says() -> None:
    on_the_bound = outcomes(0.0)
    assert on_the_bound["passed"] == pytest.approx(0.1, abs=0.05)
    assert on_the_bound["failed"] == pytest.approx(0.1, abs=0.05)
    assert outcomes(0.5)["failed"] < 0.01


# --- What is measured


@pytest.fixture(scope="module")
def result() -> tb.Result:
    return tb.run(
        tb.dumbbell(
            rate="5mbit",
            rtt="40ms",
            queue="0.5bdp",
            flows=[tb.bulk("reno", name="a"), tb.voip(name="call")],
            duration="6s",
            instruments={"packets": "all", "polls": "all", "queues": "all"},
        )
    )


def test_names_are_those_of_sweeps_and_every_one_has_a_value(result: tb.Result) -> None:
    names = measurable(result.resolved)
    value = measured(result)
    assert {name: value(name) for name in totals(result)} == pytest.approx(totals(result), nan_ok=True)
    assert set(totals(result)) < set(names)
    assert not any(names.values())
    for window in (False, True):
        value = measured(result, start_s=2.0) if window else measured(result)
        for name in measurable(result.resolved, window=window):
            assert isinstance(value(name), float), name


def test_a_window_counts_what_happens_in_it(result: tb.Result) -> None:
    early, late = measured(result, end_s=3.0), measured(result, start_s=3.0)
    whole = measured(result)
    assert early("a.goodput_mbps") + late("a.goodput_mbps") == pytest.approx(2 * whole("a.goodput_mbps"), rel=0.01)
    assert early("bottleneck.dropped") + late("bottleneck.dropped") == whole("bottleneck.dropped")
    assert late("a.goodput_mbps") == pytest.approx(metrics.goodput(result, "a", 3.0, 6.0) / 1e6)
    delays = metrics.one_way_delay(result, "call", 3.0, None)[1]
    assert late("call.delay_max_ms") == pytest.approx(1e3 * float(delays.max()))
    assert measured(result, start_s=0.0)("bottleneck.loss") == pytest.approx(whole("bottleneck.loss"), rel=0.05)


def test_what_is_not_recorded_is_reported_with_its_instrument() -> None:
    plain = tb.dumbbell(rate="5mbit", rtt="40ms", flows=[tb.bulk("reno", name="a"), tb.voip()], duration="2s")
    names = measurable(plain.resolve())
    assert names["voip.delay_p95_ms"] == 'packets = ["voip"]'
    assert names["a.cwnd_mean_bytes"] == 'polls = ["a"]'
    assert names["a.goodput_mbps"] == names["bottleneck.loss"] == ""
    assert measurable(plain.resolve(), window=True)["bottleneck.loss"] == 'queues = ["bottleneck"]'


# --- The command


PASSES = scenario("call.delay_p95_ms < 500ms", "a.goodput_mbps in 5..10")
FAILS = scenario("call.delay_p95_ms < 1ms", "a.goodput_mbps > 1")


def undecided() -> str:
    """A bound that is the mean of the seeds allowed: no interval of theirs leaves it out."""
    base = tb.Scenario.parse_toml(scenario("a.goodput_mbps > 0"))
    seeds = [base.with_(seed=seed) for seed in (1, 2, 3)]
    rates = tb.run_many(seeds, then=lambda result: float(totals(result)["a.goodput_mbps"]))
    assert len(set(rates)) == 3
    return scenario(f"a.goodput_mbps > {sum(rates) / 3!r}", more="least = 2\nmost = 3\n")


@pytest.mark.parametrize(("files", "code"), [("p", 0), ("pf", 1), ("pu", 3), ("pfu", 1), ("pb", 2), ("pfub", 2)])
def test_the_exit_code_is_the_worst(tailback: Any, tmp_path: Path, files: str, code: int) -> None:
    texts = {"p": PASSES, "f": FAILS, "u": undecided() if "u" in files else "", "b": "duration = \n[expect]"}
    for file in files:
        (tmp_path / f"{file}.toml").write_text(texts[file])
    ran = tailback("test", tmp_path, "--json")
    assert ran.code == code, ran.err
    printed = json.loads(ran.out)
    words = {"p": "passed", "f": "failed", "u": "undecided"}
    found = {Path(each["file"]).stem: each["verdict"] for each in printed["scenarios"]}
    assert found == {file: words[file] for file in sorted(files) if file != "b"}
    assert [Path(each["file"]).stem for each in printed["unreadable"]] == (["b"] if "b" in files else [])
    assert printed["passed"] is (code == 0)


def test_more_seeds_are_run_while_undecided_and_no_more_than_allowed(tailback: Any, tmp_path: Path) -> None:
    (tmp_path / "u.toml").write_text(undecided())
    (tmp_path / "p.toml").write_text(PASSES)
    printed = json.loads(tailback("test", tmp_path, "--json").out)
    assert [each["seeds"] for each in printed["scenarios"]] == [5, 3]


def test_junit_xml_says_what_the_command_says(tailback: Any, tmp_path: Path) -> None:
    for name, text in (("p", PASSES), ("f", FAILS), ("u", undecided()), ("b", "[expect")):
        (tmp_path / f"{name}.toml").write_text(text)
    report = tmp_path / "report.xml"
    assert tailback("test", tmp_path, "--junit", report).code == 2
    root = ElementTree.parse(report).getroot()
    counts = {key: int(root.attrib[key]) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": 6, "failures": 1, "errors": 1, "skipped": 1}
    assert len(root.findall(".//testcase")) == 6
    failure = root.find(".//testcase[failure]")
    assert failure is not None
    assert failure.attrib["name"] == "call.delay_p95_ms < 1ms"
    skipped = root.find(".//skipped")
    assert skipped is not None
    assert skipped.attrib["message"].startswith("undecided: measured ")


def test_on_github_lines_are_annotated_and_the_summary_is_added_to(
    tailback: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, summary = tmp_path / "f.toml", tmp_path / "summary.md"
    file.write_text(FAILS)
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    line = 1 + FAILS[: FAILS.index("call.delay_p95_ms")].count("\n")
    ran = tailback("test", file)
    assert f"::error file={file},line={line},title=failed%3A call.delay_p95_ms < 1ms::measured " in ran.err
    assert ran.err.count("::error") == 1
    assert summary.read_text().startswith("before\n### tailback test")
    assert "| `call.delay_p95_ms < 1ms` |" in summary.read_text()


def test_a_folder_without_expectations_is_reported(tailback: Any, tmp_path: Path) -> None:
    (tmp_path / "plain.toml").write_text(SCENARIO.split("[expect]")[0])
    ran = tailback("test", tmp_path)
    assert ran.code == 2
    assert "no scenario there expects anything" in ran.err
    ran = tailback("test", tmp_path / "plain.toml")
    assert ran.code == 2
    assert "the scenario expects nothing" in ran.err


@pytest.mark.parametrize(
    ("conditions", "more", "printed"),
    [
        (["call.delay_p59_ms < 50"], "", 'at character 1: there is no metric "call.delay_p59_ms". Did you mean'),
        (["cal.loss < 1%"], "", 'Did you mean "call.loss"?'),
        (["a.goodput_mbps < baseline"], 'baseline = "qubic"\n', 'did you mean "cubic"?'),
        (["a.loss < baseline"], 'baseline = "cubic"\nbaseline_flows = ["b"]\n', "expect.baseline_flows[0]"),
        (["a.loss < 1"], 'from = "3s"\nuntil = "2s"\n', "until must come after from"),
        (["a.loss < 1"], 'from = "9s"\n', "lies beyond the run"),
        (["a.loss < 1"], "least = 9\nmost = 3\n", "least is more than most"),
        (["a.loss < 1"], "confidence = 1.0\n", "confidence lies from"),
        (["a.loss < 1"], 'from = "1s"\n', 'Add to [instruments] packets = ["a"]'),
        ([], "", "nothing is expected"),
    ],
)
def test_check_finds_what_is_wrong_before_any_run(
    tailback: Any, tmp_path: Path, conditions: list[str], more: str, printed: str
) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(scenario(*conditions, more=more))
    for command in ("check", "test"):
        ran = tailback(command, file)
        assert ran.code == 2
        assert printed in ran.err.replace("\n", " "), ran.err
        assert "?." not in ran.err
        assert f"{file}:" in ran.err.replace("\n", "")


def test_a_window_that_is_not_recorded_is_refused(tmp_path: Path) -> None:
    # Goodput was 0 where polls were missing.
    whole = tb.Scenario.parse_toml(scenario("a.goodput_mbps < 1mbit", more='until = "1s"\n'))
    whole = whole.with_({"instruments.polls": "all"})
    for cut in ({"instruments.from": "0.5s"}, {"instruments.until": "0.5s"}):
        with pytest.raises(tb.ScenarioError, match="not recorded throughout"):
            demand_sound(whole.with_(cut), whole.with_(cut).resolve())
    demand_sound(whole, whole.resolve())


def test_a_run_that_fails_fails_its_scenario_and_no_other(tmp_path: Path) -> None:
    class Broken:
        def on_ack(self, ack: Any, control: Any) -> None:
            raise RuntimeError("a defect")

        def on_congestion(self, congestion: Any, control: Any) -> None: ...

    (tmp_path / "a.toml").write_text(PASSES)
    (tmp_path / "b.toml").write_text(PASSES.replace('"reno"', '"broken"'))
    tested = tb.test(tmp_path, algorithms={"broken": Broken})
    assert [each.verdict for each in tested.scenarios] == ["passed", "failed"]
    assert "a defect" in tested.scenarios[1].error


def test_a_candidate_is_put_into_every_scenario(tailback: Any, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(scenario("a.loss <= baseline", "a.loss >= baseline", more='baseline = "cubic"\n'))
    assert tailback("test", tmp_path, "--set", "flow.a.cc=cubic").code == 0
    # The control: another algorithm is seen to differ.
    assert tailback("test", tmp_path).code in (1, 3)


def test_an_algorithm_like_its_baseline_equals_it_and_is_not_below_it(tmp_path: Path) -> None:
    """Paired seeds: the same scenario twice differs by nothing, so that five seeds decide."""
    more = 'baseline = "reno"\n'
    (tmp_path / "a.toml").write_text(scenario("bottleneck.dropped <= baseline", "a.loss < baseline", more=more))
    judged = tb.test(tmp_path).scenarios[0].judged
    assert [each.verdict for each in judged] == ["passed", "failed"]


def test_a_known_difference_comes_out_in_the_right_direction(tmp_path: Path) -> None:
    conditions = "call.delay_p50_ms < baseline", "call.delay_p50_ms > baseline"
    (tmp_path / "a.toml").write_text(scenario(*conditions, more='baseline = "vegas"\n'))
    judged = tb.test(tmp_path).scenarios[0].judged
    assert [each.verdict for each in judged] == ["failed", "passed"]


def test_seeds_go_on_from_zero_after_the_largest(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("seed = 18446744073709551614\n" + PASSES)
    tested = tb.test(tmp_path).scenarios[0]
    assert (tested.verdict, tested.seeds, tested.error) == ("passed", 5, "")


def test_the_same_folder_gives_the_same_verdicts_on_any_number_of_threads(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(FAILS)
    one, two = (tb.test(tmp_path, workers=workers).scenarios[0].judged for workers in (1, 2))
    assert one == two


def test_expectations_change_no_run(tmp_path: Path) -> None:
    with_, without = tb.Scenario.parse_toml(PASSES), tb.Scenario.parse_toml(PASSES.split("[expect]")[0])
    assert with_.to_json() == without.to_json()
    assert tb.Scenario.parse_toml(with_.to_toml()) == with_
    windowed = with_.with_(expect={"conditions": [tb.Condition(holds="a.loss < 1", from_="1s"), "a.loss < 2"]})
    assert tb.Scenario.parse_toml(windowed.to_toml()).expect == windowed.expect


@pytest.mark.parametrize(("after", "found"), [(1, ["not finished", "not finished"]), (8, ["passed", "undecided"])])
def test_ctrl_c_keeps_the_verdicts_there_are(
    tailback: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, found: list[str]
) -> None:
    (tmp_path / "a.toml").write_text(PASSES)
    (tmp_path / "b.toml").write_text(undecided())
    report = tmp_path / "report.xml"
    seen = []

    def interrupted(*given: Any, **more: Any) -> Any:
        for outcome in run_outcomes(*given, **more):
            yield outcome
            seen.append(outcome)
            # Five seeds of one and two of the other are the first round.
            if len(seen) == after:
                raise KeyboardInterrupt

    monkeypatch.setattr(engines, "run_outcomes", interrupted)
    ran = tailback("test", tmp_path, "--json", "--junit", report)
    assert ran.code == 130, ran.err
    assert [each["verdict"] for each in json.loads(ran.out)["scenarios"]] == found
    assert ElementTree.parse(report).getroot().find(".//skipped") is not None
    seen.clear()
    with pytest.raises(tb.Interrupted):
        tb.test(tmp_path)


# --- What is shipped


def test_the_example_passes_and_its_control_fails(tailback: Any) -> None:
    folder = Path(__file__).parents[2] / "scenarios" / "expect"
    assert tailback("test", folder).code == 0
    # A plain long queue, as the example's text says.
    control = tailback("test", folder, "--set", "dumbbell.queue=200ms", "--json")
    assert control.code == 1
    verdicts = {row["condition"]: row["verdict"] for row in json.loads(control.out)["scenarios"][0]["conditions"]}
    assert verdicts["call.delay_p95_ms < 30ms"] == "failed"
    assert verdicts["download.goodput_mbps > 0.8 * 10mbit"] == "passed"


@pytest.mark.parametrize(("text", "code"), [(PASSES, 0), (FAILS, 1)])
def test_the_action_runs_what_its_inputs_say(tmp_path: Path, text: str, code: int) -> None:
    """The script of `action.yml`, as the runner would start it: inputs as variables, a path with a space among them."""
    action = yaml.safe_load((Path(__file__).parents[2] / "action.yml").read_text())
    step = next(step for step in action["runs"]["steps"] if step.get("name") == "Test")
    folder = tmp_path / "with space"
    folder.mkdir()
    (folder / "a.toml").write_text(text.replace('"reno"', '"cubic"'))
    (tmp_path / "mine.py").write_text("from tailback.examples.newreno import NewReno as Mine\n")
    given = {
        "paths": f"{folder}\n", "algorithm": "mine=mine.py:Mine", "set": 'flow.a.cc=mine\nname="$(touch hacked)"',
        "candidate": "", "allow-code": "false", "as-declared": "false", "junit": "report.xml",
    }  # fmt: skip
    named = {
        each.get("name"): {name: value.split("inputs.")[1].split(" ")[0] for name, value in each["env"].items()}
        for each in action["runs"]["steps"]
        if "env" in each
    }
    assert {value for env in named.values() for value in env.values()} == set(action["inputs"])
    env = {name: given[value] for name, value in named["Test"].items()}
    env |= {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": "summary.md", "PYTHONPATH": os.pathsep.join(sys.path)}
    env["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(script, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert ("::error" in done.stderr) is (code == 1)
    assert ElementTree.parse(tmp_path / "report.xml").getroot().attrib["tests"] == "2"
    assert "tailback test" in (tmp_path / "summary.md").read_text()
    assert not (tmp_path / "hacked").exists()


@pytest.mark.long
def test_the_action_judges_a_candidate_by_a_suite_and_names_what_lies_in_no_repository(tmp_path: Path) -> None:
    action = yaml.safe_load((Path(__file__).parents[2] / "action.yml").read_text())
    step = next(step for step in action["runs"]["steps"] if step.get("name") == "Test")
    (tmp_path / "mine.py").write_text("from tailback.examples.newreno import NewReno as Mine\n")
    env = dict.fromkeys(step["env"], "") | {
        "PATHS": "hystart/exit-20ms", "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": "summary.md",
        "PYTHONPATH": os.pathsep.join(sys.path), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }  # fmt: skip
    script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    given = {"CANDIDATE": "mine.py:Mine", "ALLOW_CODE": "true"}
    for more, code in (({"AS_DECLARED": "true"}, 0), ({"CANDIDATE": "mine.py:Mine"}, 2), (given, 1)):
        done = subprocess.run(script, cwd=tmp_path, env=env | more, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
    # NewReno's slow start does not end by delay.
    assert "::error title=hystart/exit-20ms.toml%3A failed" in done.stderr
    assert "file=" not in done.stderr
