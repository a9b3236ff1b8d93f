"""The search finds what is known to be there, tells it as a scenario that shows it again, and nothing else."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import tailback as tb
from tailback import _core, cli
from tailback.examples import newreno
from tailback.hunting import Case, Hunt, _simpler

GENTLE = Path(__file__).parents[1] / "bpf" / "examples" / "gentle.bpf.c"


@pytest.mark.slow
def test_the_low_rate_attack_on_reno_is_found_locked_to_its_timeout(tmp_path: Path) -> None:
    """Kuzmanovic and Knightly, SIGCOMM 2003: bursts that come back as the timeout does keep Reno in it."""
    (found,) = tb.hunt("reno", weaknesses=["lockout"], runs=120, out=tmp_path)
    case = found.scenario
    bursts = case.resolve()["flows"][1]
    period_s = (bursts["again"][0]["start_ps"] - bursts["start_ps"]) / 1e12
    result = tb.run(case.with_({"instruments": {"polls": "all"}}))
    timeout_s = float(np.nanmedian(result.where_flow("polls", result.flow_names[0])["rto_s"]))
    # The outage is as long as the timeout, and the next burst meets what is sent after it.
    assert 0.75 * timeout_s <= period_s <= 1.5 * timeout_s
    # Few bytes do it: a third of the link at most.
    rate = case.resolve()["links"][0]["rate_bps"]
    burst_s = (bursts["stop_ps"] - bursts["start_ps"]) / 1e12
    assert bursts["app"]["params"]["rate"] * burst_s / period_s < 0.34 * rate
    assert tb.test(tmp_path).verdict == "failed"


def test_the_loss_of_bbr_in_shallow_buffers_is_found_and_reno_and_bbr3_have_none() -> None:
    (found,) = tb.hunt("bbr", weaknesses=["loss"], runs=70)
    links = found.scenario.resolve()["links"][0]
    bdp = links["rate_bps"] / 8 * 2 * links["delay_ps"] / 1e12
    assert links["queue"]["params"]["limit_bytes"] < 0.6 * bdp
    row = tb.run(found.scenario).link_summary()[0]
    assert row["dropped"] > 0.1 * (row["dropped"] + row["delivered"])
    assert tb.hunt("reno", weaknesses=["loss"], runs=32) == []


@pytest.mark.skipif(not hasattr(_core, "bpf_library") or shutil.which("clang") is None, reason="not installed: clang")
def test_a_window_kept_in_a_byte_is_found_and_made_simple(tmp_path: Path) -> None:
    text, slow_start = GENTLE.read_text(), "\t\tacked = tcp_slow_start(tp, acked);\n"
    assert slow_start in text
    file = tmp_path / "byte.bpf.c"
    file.write_text(text.replace(slow_start, slow_start + "\t\ttp->snd_cwnd = (__u8)tp->snd_cwnd;\n"))
    (panic,) = tb.hunt(str(file), weaknesses=["panic"], runs=90, allow_code=True, out=tmp_path / "hunt")
    assert "it set snd_cwnd to 0: nothing would ever be sent again" in panic.said
    # One flow and a path: bursts, loss and whatever else was there were not needed.
    assert panic.scenario.flow_names == ["victim"]
    assert "loss" not in panic.scenario.to_toml()
    assert panic.command.endswith("byte-panic.toml --allow-code")
    assert tb.test(tmp_path / "hunt", allow_code=True).verdict == "failed"


def test_a_broken_expectation_is_found(tmp_path: Path) -> None:
    base = tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.bulk("cubic", name="victim")], duration="6s")
    expecting = base.with_(expect={"conditions": ["victim.loss < 0.2", "victim.goodput_mbps > 1"]})
    (found,) = tb.hunt("reno", scenario=expecting, runs=60, out=tmp_path)
    assert found.weakness == "expect"
    assert 'cc = "reno"' in found.scenario.to_toml()
    assert tb.test(tmp_path).verdict == "failed"


@pytest.mark.slow
def test_the_same_seed_finds_the_same_with_any_number_of_threads() -> None:
    one, other = (tb.hunt("bbr", weaknesses=["loss"], runs=60, seed=5, workers=workers) for workers in (1, 3))
    assert [each.to_json() for each in one] == [each.to_json() for each in other]
    assert len(one) == 1


def test_an_interrupt_keeps_what_was_found(tmp_path: Path) -> None:
    search = Hunt(tb.candidate("bbr"), weaknesses=["loss", "lockout"], out=tmp_path)

    def interrupt(done: int, total: int) -> None:
        if search.found:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search.go(progress=interrupt)
    assert [each.weakness for each in search.found] == ["loss"]
    assert search.found[0].file is not None
    assert tb.Scenario.from_toml(search.found[0].file).expect is not None


def test_parameters_are_varied_over_their_range() -> None:
    search = Hunt(tb.candidate("cubic"), vary=["beta"])
    low, high = (search._case([0.5] * 12 + [u], None).params for u in (0.0, 1.0))
    assert (low, high) == ((("beta", 0.1),), (("beta", 0.95),))
    with pytest.raises(tb.TailbackError, match="only the parameters of built-in algorithms"):
        Hunt(tb.candidate(newreno.NewReno), vary=["beta"])


def test_a_simpler_case_has_one_thing_less() -> None:
    case = Case(11.0, 41.0, 0.3, 4, 30.0, 300.0, 2.0, 0.01, 0.5, 700.0, True, 12.0, (("beta", 0.3),))
    seen = set()
    while tries := list(_simpler(case)):
        assert all(each != case for each in tries)
        case = tries[0]
        assert case not in seen
        seen.add(case)
    assert case == Case(10.0, 50.0, 0.2, duration_s=8.0)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["qubic"], 'Did you mean "cubic"?'),
        (["reno", "--weakness", "stal"], 'Did you mean "stall"?'),
        (["cubic", "--vary", "betta"], 'Did you mean "beta"?'),
        (["mine.py:Mine"], "is code, which would be run"),
    ],
)
def test_bad_input_ends_with_two(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(tmp_path, monkeypatch, "hunt", *words) == 2
    assert says in capsys.readouterr().err


def command(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["tailback", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def test_the_command_tells_and_ends_with_one_if_it_found_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(tmp_path, monkeypatch, "hunt", "bbr", "--weakness", "loss", "--runs", "40", "--json") == 1
    (found,) = json.loads(capsys.readouterr().out)["found"]
    assert command(tmp_path, monkeypatch, *found["command"].split()[1:]) == 1
    assert command(tmp_path, monkeypatch, "hunt", "reno", "--weakness", "loss", "--runs", "16") == 0
