"""Errors say where, what, what is wrong and what would be right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailback import _core
from tailback.errors import Interrupted, Problem, ScenarioError, nearest
from tailback.units import Duration


def test_a_problem_reads_like_a_compiler_message() -> None:
    problem = Problem("flow[0].cc", "qubic", "there is no such algorithm", 'Did you mean "cubic"?', "a.toml", 7, 6)
    assert str(problem) == 'a.toml:7:6: flow[0].cc = "qubic": there is no such algorithm. Did you mean "cubic"?'


def test_quantities_are_shown_as_people_write_them() -> None:
    assert "start = 80ms:" in str(Problem("start", Duration("80ms"), "too late", "Earlier."))


def test_lines_are_taken_from_the_nearest_enclosing_path() -> None:
    error = ScenarioError(
        [Problem("flow[1].cc.beta", 2, "too large", "Smaller."), Problem("", None, "empty", "Fill it.")]
    )
    located = error.located("a.toml", {"flow[1]": (5, 1), "flow": (1, 1)})
    assert [(problem.line, problem.column) for problem in located.problems] == [(5, 1), (None, None)]
    assert all(problem.file == "a.toml" for problem in located.problems)


@pytest.mark.parametrize(
    ("wrong", "right"), [("qubic", "cubic"), ("CUBIC", "cubic"), ("newreno", "reno"), ("zzz", None)]
)
def test_the_nearest_name(wrong: str, right: str | None) -> None:
    assert nearest(wrong, ["reno", "cubic", "htcp"]) == right


def test_an_interruption_counts_what_is_kept() -> None:
    assert "1 of 3" in str(Interrupted(["done", None, None]))


def test_lines_of_toml_through_comments_strings_and_brackets() -> None:
    text = '''# [not.a.table]
name = "[[flow]]"   # cc = "no"
list = [
  "cc = 1",  # ]
  2,
]
text = """
[dumbbell]
rate = 1
"""
[dumbbell]
"rate" = "1mbit"
queue.limit = "1bdp"

[[flow]]
cc = { name = "cubic" }
[[flow]]
[flow.cc]
name = 'reno'
'''
    found = {path: line for path, (line, _) in _core.toml_read(text)[1].items()}
    assert found == {
        "name": 2, "list": 3, "list[0]": 4, "list[1]": 5, "text": 7, "dumbbell": 11, "dumbbell.rate": 12,
        "dumbbell.queue": 13, "dumbbell.queue.limit": 13, "flow": 15, "flow[0]": 15, "flow[0].cc": 16,
        "flow[0].cc.name": 16, "flow[1]": 17, "flow[1].cc": 18, "flow[1].cc.name": 19,
    }  # fmt: skip


def test_columns_count_letters_from_one() -> None:
    _, places = _core.toml_read('name = "é"  \n[[flow]]\ncc = { "nämé" = "x", beta = 2 }\n')
    assert (places["name"], places["flow[0].cc"], places["flow[0].cc.beta"]) == ((1, 8), (3, 6), (3, 29))


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        _core.toml_read(text)
    except ValueError as error:
        message, line, column = error.args
        assert message
        assert line is None or min(line, column) >= 1
