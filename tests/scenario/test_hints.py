"""Mistakes that a newcomer makes are answered with what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import tailback as tb
from command import tailback
from tailback import cli
from tailback.errors import TailbackError

SCENARIO = """\
name = "mine"
seed = 3
duration = "1s"
[dumbbell]
rate = "10mbit"
rtt = "40ms"
queue = "1bdp"
[[flow]]
name = "bulk"
cc = "reno"
[[flow]]
name = "many"
count = 2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


def complaint(*words: object) -> str:
    done = CliRunner().invoke(cli.app, [str(word) for word in words])
    assert isinstance(done.exception, TailbackError), done.output
    return str(done.exception)


@pytest.mark.parametrize(
    ("change", "hints"),
    [
        ("dumbbell.queue=bfifo", ['"kernel:bfifo"', "fifo", "--engine live or vm"]),
        ("dumbbell.queue=fq_codle", ['"fq_codel"']),
        ("dumbbell.queue=droptail", ["Use fifo"]),
        ("dumbbell.queue=fq-pie", ["Use fq_pie"]),
        ("flow.bulk.app=zoom", ['app = "media"', "two_way = true"]),
        ("flow.bulk.app=webrtc", ['app = "media-gcc"', "two_way = true"]),
        ("flow.bulk.app=youtube", ['app = "video"']),
        ("flow.bulk.app=gaming", ['app = "game"', "two_way = true"]),
        ("flow.bulk.app=bluk", ['"bulk"']),
        ("link.return.queue=fq_codel", ["dumbbell.back_queue"]),
        ("link.bottleneck.queue.limit=2bdp", ["dumbbell.queue.limit"]),
        ("flow.many-2.cc=bbr", ["count makes it of many", "There are: bulk, many"]),
        ("flow[9].cc=bbr", ["There are 2, counted from 0: bulk, many"]),
        ("link.return.tick_hz=100", ["dumbbell.back_queue"]),
    ],
)
def test_a_well_known_name_without_a_model_is_answered_with_what_to_use(
    file: Path, change: str, hints: list[str]
) -> None:
    found = complaint("check", file, "--set", change)
    assert all(hint in found for hint in hints), found


def test_a_discipline_in_a_table_has_the_same_hint() -> None:
    base = tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.bulk()], queue={"discipline": "bfifo"}, duration="1s")
    with pytest.raises(tb.ScenarioError, match="kernel:bfifo"):
        base.resolve()


@pytest.mark.parametrize("command", ["plot", "report", "explain", "show"])
def test_a_scenario_where_a_result_belongs_is_not_to_be_written_over(file: Path, command: str) -> None:
    found = complaint(command, file)
    assert f"tailback run {file} --out results/mine" in found
    assert f"--out {file}" not in found
    assert file.read_text(encoding="utf-8") == SCENARIO


def test_a_scenario_where_a_sweep_belongs_is_recognised(file: Path) -> None:
    found = complaint("sweep", file, "--store", file.parent / "store")
    assert "this is a scenario, not a sweep" in found
    assert 'base = "mine.toml"' in found
    assert "[grid]" in found


def test_a_run_takes_the_place_of_its_own_scenarios_result_and_of_no_other(file: Path) -> None:
    out = file.parent / "kept"
    run = CliRunner().invoke
    assert run(cli.app, ["run", str(file), "--out", str(out)]).exit_code == 0
    assert run(cli.app, ["run", str(file), "--seed", "4", "--out", str(out)]).exit_code == 0
    before = (out / "resolved.json").read_bytes()
    found = complaint("run", file, "--set", "name=yours", "--out", out)
    assert f"--out {out}" in found
    assert "of the scenario mine" in found
    assert "yours" in found
    assert (out / "resolved.json").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        # From the resolver, from the core, and from Python; the last stands in the engine's form alone.
        ('dumbbell.queue={discipline="nosuch"}', 'dumbbell.queue.discipline = "nosuch":'),
        ('dumbbell.queue={discipline="kernel:fq_codel"}', 'dumbbell.queue = "kernel:fq_codel":'),
        ('dumbbell.queue={discipline="codel", target="-1ms"}', "dumbbell.queue.target ="),
        ('dumbbell.queue={discipline="prio", bands=[{flows=["who"]},{}]}', "dumbbell.queue.bands[0].flows"),
        ('flow.bulk.cc="bpf:nosuch.c"', 'flow[0].cc = "bpf:nosuch.c":'),
    ],
)
def test_the_value_found_has_one_pair_of_quotes(file: Path, change: str, shown: str) -> None:
    found = complaint("run", file, "--set", change)
    assert shown in found
    assert '""' not in found


def test_an_error_in_the_engines_own_form_has_one_pair_of_quotes() -> None:
    resolved = tb.Scenario.parse_toml(SCENARIO).resolve()
    resolved["flows"][0]["tcp"]["cc"] = "nosuch"
    with pytest.raises(tb.ScenarioError, match=r'cc = "nosuch": ') as caught:
        tb.run(resolved)
    assert '""' not in str(caught.value)
    resolved["flows"][0]["tcp"] |= {"cc": "reno", "mtu": 1}
    with pytest.raises(tb.ScenarioError, match=r"mtu = 1: "):
        tb.run(resolved)


def test_an_example_is_run_by_its_name_and_a_missing_file_is_answered_with_the_copy(tmp_path: Path) -> None:
    assert CliRunner().invoke(cli.app, ["check", "gallery/sawtooth"]).exit_code == 0
    missing = tmp_path / "gallery" / "sawtooth.toml"
    assert f"tailback examples gallery/sawtooth --out {missing}" in complaint("run", missing)
    assert "examples grids/pairs --out" in complaint("sweep", tmp_path / "grids/pairs.toml")
    assert "`tailback sweep`" in complaint("run", "grids/pairs")


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_dumbbells_rate_beside_its_mediums_own_is_a_warning_with_both(file: Path, command: str) -> None:
    cable = "dumbbell.medium={ name = 'docsis', rate = '10mbit' }"
    out = ["--out", file.parent / "out"] if command == "run" else []
    alike = tailback(command, file, "--set", cable, *out)
    assert alike.code == 0
    assert "warning" not in alike.err
    other = tailback(command, file, "--set", cable, "--set", "dumbbell.rate=3mbit", *out)
    assert other.code == 0
    warned = " ".join(other.err.split())
    assert "dumbbell.rate is 3 Mbit/s, but docsis transmits at its own 10 Mbit/s" in warned
    assert "set dumbbell.medium.rate" in warned
    assert "nothing wrong" not in warned
    both = tailback(command, file, "--set", cable, "--set", "dumbbell.rate=3mbit",
                    "--set", "dumbbell.medium.rate=3mbit", *out)  # fmt: skip
    assert "warning" not in both.err
