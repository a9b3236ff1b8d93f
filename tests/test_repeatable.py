"""Code that gives two results with one seed is refused by every command that makes many runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tailback as tb
from tailback.repeatable import demand_repeatable

#: Draws from the machine: nothing in the description repeats it.
DRAWS = """
import random


class Draws:
    owns_window = True

    def on_ack(self, ack, control):
        control.cwnd = control.mss * random.randint(2, 40)

    def on_congestion(self, congestion, control):
        control.ssthresh = max(control.cwnd, 2 * control.mss)
"""


@pytest.fixture
def scenario(tmp_path: Path) -> tb.Scenario:
    (tmp_path / "draws.py").write_text(DRAWS)
    flows = [tb.bulk(f"python:{tmp_path}/draws.py:Draws", name="subject")]
    expect = {"conditions": ["goodput_mbps > 0"]}
    made = tb.dumbbell(rate="2mbit", rtt="20ms", queue="1bdp", flows=flows, duration="1s", name="drawn")
    return made.with_({"expect": expect})


def test_every_command_that_makes_many_runs_refuses_what_repeats_none(scenario: tb.Scenario, tmp_path: Path) -> None:
    file = tmp_path / "drawn.toml"
    file.write_text(scenario.to_toml())
    commands: dict[str, Callable[[], object]] = {
        "judged": lambda: tb.test(file, allow_code=True),
        "searched": lambda: tb.hunt(f"{tmp_path}/draws.py:Draws", runs=60, allow_code=True),
        "compared": lambda: tb.run_pairs(scenario, scenario, pairs=2, allow_code=True),
        "swept": lambda: tb.sweep(scenario, seeds=2, store=tmp_path / "store", allow_code=True),
    }
    for word, command in commands.items():
        with pytest.raises(tb.UnfitCandidate, match=rf"two results with one seed.*It was not {word}\."):
            command()


def test_code_that_repeats_its_runs_is_run_twice_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sound.py").write_text(DRAWS.replace("random.randint(2, 40)", "20"))
    made = tb.dumbbell(rate="2mbit", rtt="20ms", flows=[tb.bulk(f"python:{tmp_path}/sound.py:Draws")], duration="9s")
    lengths: list[float] = []
    ran = tb.run

    def counted(scenario: tb.Scenario, **words: object) -> object:
        lengths.append(scenario.resolve(allow_code=True)["duration_ps"] / 1e12)
        return ran(scenario, **words)

    monkeypatch.setattr("tailback.repeatable.run", counted)
    for _ in range(2):
        demand_repeatable(made, undone="run", allow_code=True)
    assert lengths == [4.0, 4.0]


def test_points_that_differ_in_quantities_are_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr("tailback.experiment.sweeps.demand_repeatable", lambda *_, **__: asked.append(1))
    base = tb.dumbbell(rate="1mbit", rtt="20ms", flows=[tb.bulk("reno", name="a")], duration="100ms")
    tb.sweep(base, {"dumbbell.rate": ["1mbit", "1.5mbit", "2mbit"]}, store=tmp_path / "rates")
    assert len(asked) == 1
    tb.sweep(base, {"flow.a.cc": ["reno", "cubic"]}, store=tmp_path / "names")
    assert len(asked) == 3
