"""The search finds what is known to be there, writes it as a scenario that shows it again, and finds nothing else."""

import json
import math
import shutil
import sys
from pathlib import Path

import pytest

import tailback as tb
from tailback import _core, cli, hunting
from tailback.examples import newreno
from tailback.hunting import Case, Hunt, weaknesses
from tailback.hunting import search as searching
from tailback.hunting.cases import simpler

GENTLE = Path(__file__).parents[1] / "bpf" / "examples" / "gentle.bpf.c"


@pytest.mark.long
def test_the_low_rate_attack_on_reno_is_found(tmp_path: Path) -> None:
    """Kuzmanovic and Knightly, SIGCOMM 2003: short bursts at a low average rate keep Reno in its timeouts."""
    (found,) = tb.hunt("reno", weaknesses=["lockout"], out=tmp_path)
    case = found.scenario
    (bursts,) = (flow for flow in case.resolve()["flows"] if flow["name"] == "bursts")
    period_s = (bursts["again"][0]["start_ps"] - bursts["start_ps"]) / 1e12
    # Few bytes do it: a third of the link at most.
    rate = case.resolve()["links"][0]["rate_bps"]
    burst_s = (bursts["stop_ps"] - bursts["start_ps"]) / 1e12
    assert bursts["app"]["params"]["rate"] * burst_s / period_s < 0.34 * rate
    assert found.shown[0] >= 9
    assert tb.test(tmp_path).verdict == "failed"


def test_bursts_that_come_back_as_the_timeout_does_lock_reno_in_it() -> None:
    """The same, at an RTO of some 220 ms: what a burst leaves to be sent again meets the next one."""
    lockout = next(each for each in hunting.WEAKNESSES if each.name == "lockout")

    def badness(period_ms: float) -> float:
        case = Case(20.0, 10.0, 0.06, burst_ms=58.0, period_ms=period_ms, burst_rate=1.3)
        runs = tb.run_many([case.scenario("reno", seed) for seed in (1, 2, 3)])
        return min(lockout.badness(case, weaknesses.seen_in(case, run)) for run in runs)

    assert badness(250.0) > 4.0
    assert badness(250.0) > 2 * badness(1500.0)


@pytest.mark.long
def test_the_loss_of_bbr_in_shallow_buffers_is_found_and_reno_and_bbr3_have_none() -> None:
    (found,) = tb.hunt("bbr", weaknesses=["loss"], runs=70)
    links = found.scenario.resolve()["links"][0]
    bdp = links["rate_bps"] / 8 * 2 * links["delay_ps"] / 1e12
    # Queues of both counts are tried.
    limit = links["queue"]["params"]
    # BBR keeps two BDPs in flight: what overflows is below one BDP, and a little above where it probes.
    assert limit.get("limit_bytes", 1500 * limit.get("limit_packets", 0)) < 1.25 * bdp
    row = tb.run(found.scenario).link_summary()[0]
    assert row["dropped"] > 0.1 * (row["dropped"] + row["delivered"])
    for cc in ("reno", "bbr3"):
        assert tb.hunt(cc, weaknesses=["loss"], runs=32) == [], cc


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


@pytest.mark.long
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
    low, high = (search._case([0.5] * searching.GENES + [u], None).params for u in (0.0, 1.0))
    assert (low, high) == ((("beta", 0.1),), (("beta", 0.95),))
    with pytest.raises(tb.TailbackError, match="only the parameters of built-in algorithms"):
        Hunt(tb.candidate(newreno.NewReno), vary=["beta"])


def test_a_simpler_case_has_one_thing_less() -> None:
    case = Case(
        rate_mbps=11.0, rtt_ms=41.0, queue_bdp=0.3, flows=4, burst_ms=30.0, period_ms=300.0, burst_rate=2.0, loss=0.01,
        dip=0.5, dip_ms=700.0, has_rival=True, counts_packets=True, start_ms=120.0, jitter_ms=3.0, reorder=0.01,
        reorder_packets=5, duration_s=12.0, params=(("beta", 0.3),),
    )  # fmt: skip
    seen = set()
    while tries := list(simpler(case)):
        assert all(each != case for each in tries)
        case = tries[0]
        assert case not in seen
        seen.add(case)
    assert case == Case(10.0, 50.0, 0.2, duration_s=8.0)


#: Reno whose window is kept in ten bits of segments.
OVERFLOW = """
from tailback.examples.newreno import NewReno

class Overflow(NewReno):
    def on_ack(self, ack, control):
        super().on_ack(ack, control)
        if control.cwnd > 1024 * ack.mss:
            control.cwnd = max(control.cwnd // ack.mss % 1024, 2) * ack.mss
"""


def test_a_window_that_collapses_uses_little_of_a_path_that_needs_more(tmp_path: Path) -> None:
    (tmp_path / "over.py").write_text(OVERFLOW)
    cc = tb.candidate(f"{tmp_path}/over.py:Overflow", allow_code=True).cc
    underuse = next(each for each in hunting.WEAKNESSES if each.name == "underuse")
    for rate, is_bad in ((20.0, False), (100.0, True)):
        case = Case(rate, 80.0, 0.4, duration_s=8.0)
        mine, reno = (
            weaknesses.seen_in(case, tb.run(case.scenario(each, 1), allow_code=True)) for each in (cc, "reno")
        )
        assert (underuse.badness(case, mine) >= 1.0 and underuse.is_well(case, mine, reno)) is is_bad


@pytest.mark.long
def test_a_window_that_collapses_above_1024_segments_is_found(tmp_path: Path) -> None:
    (tmp_path / "over.py").write_text(OVERFLOW)
    (found,) = tb.hunt(f"{tmp_path}/over.py:Overflow", weaknesses=["underuse"], runs=60, allow_code=True, out=tmp_path)
    link = found.scenario.resolve()["links"][0]
    # Path and queue hold more than 1,024 segments, or it would not show.
    assert link["rate_bps"] / 8 * 2 * link["delay_ps"] / 1e12 > 500 * 1500
    assert found.shown[0] >= 9
    assert found.scenario.resolve()["randomness"]["start_spread_ps"] > 0
    # Reno itself has none.
    assert tb.hunt("reno", weaknesses=["underuse"], runs=32) == []


def test_what_shows_by_chance_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate that stands still with one seed in four: a search by one seed finds it, and fresh seeds do not."""
    search = Hunt(tb.candidate("reno"), weaknesses=["stall"])
    search._line, search._cancel = _Silent(), None
    case = Case(10.0, 40.0, 1.0, duration_s=8.0)
    stall = next(each for each in hunting.WEAKNESSES if each.name == "stall")
    bad = {"share": 4}

    def seen(case: Case, result: tb.Result) -> hunting.Seen:
        is_victim = "reno" not in result.resolved["name"]
        is_bad = is_victim and result.seed % bad["share"] == 0
        return hunting.Seen(9.0, 9.0, math.nan, 0.0, 0, (1.0, 5.0 if is_bad else 1.2), "victim")

    def twin(self: Hunt, case: Case, weakness: object, seed: int) -> tb.Scenario:
        return case.scenario("reno", seed).with_(name="reno")

    monkeypatch.setattr(searching, "seen_in", seen)
    monkeypatch.setattr(Hunt, "_twin", twin)
    scored = searching._Scored(1.3, case, None)
    assert not search._holds(scored, stall)
    # Every seed, and the twin with none.
    bad["share"] = 1
    assert search._holds(scored, stall)
    assert scored.shown == (10, 10)


class _Silent:
    def update(self, *_: object, **__: object) -> None:
        pass


@pytest.mark.parametrize(
    ("weakness", "stack", "bad", "case"),
    [
        # docs/studies/stack-defects.md: it takes jitter for bandwidth, and leaves answers unpaced.
        ("jitter", "quinn", "bbr", Case(20.0, 20.0, 1.0, jitter_ms=2.0, duration_s=8.0)),
        ("answers", "noq", "bbr3", Case(20.0, 40.0, 0.35, answer_bdp=0.7, think_ms=1.0, duration_s=8.0)),
    ],
)
def test_a_weakness_of_a_stacks_bbr_is_not_one_of_its_cubic(weakness: str, stack: str, bad: str, case: Case) -> None:
    sought = next(each for each in hunting.WEAKNESSES if each.name == weakness)
    search = Hunt(tb.candidate(f"{stack},cc={bad}"))
    for cc in (bad, "cubic"):
        search.candidate = tb.candidate(f"{stack},cc={cc}")
        mine, twin = tb.run_many([case.scenario(search.candidate.cc, 1), search._twin(case, sought, 1)])
        seen = weaknesses.seen_in(case, mine)
        is_shown = sought.badness(case, seen) >= 1.0 and sought.is_well(case, seen, weaknesses.seen_in(case, twin))
        assert is_shown is (cc == bad), cc


@pytest.mark.long
def test_a_hunt_of_400_runs_for_all_weaknesses_finds_the_jitter_of_quinns_bbr() -> None:
    """docs/studies/stack-defects.md: a wire that delays packets in order, and nothing else, makes it lose most."""
    found = {each.weakness: each for each in tb.hunt("quinn,cc=bbr", runs=400)}
    assert found["jitter"].runs <= 400
    # Without it the path is good: the twin loses a third at most.
    assert found["jitter"].scenario.resolve()["links"][0]["wire"]["jitter_ps"] > 0


@pytest.mark.long
def test_answers_that_noqs_bbr3_sends_unpaced_are_found_and_its_cubic_has_no_such_weakness() -> None:
    """noq's issue 800: while the application limits it, its pacing rate stays that of a round trip of a millisecond."""
    (found,) = tb.hunt("noq,cc=bbr3", weaknesses=["answers"], runs=100)
    assert found.shown[0] >= 9
    assert found.scenario.flow_names == ["victim"]
    assert tb.hunt("noq,cc=cubic", weaknesses=["answers"], runs=32) == []


@pytest.mark.long
def test_the_overflow_of_noqs_bbr3_is_found_in_the_version_that_has_it() -> None:
    """noq's issue 768: a loss beyond the threshold subtracts more than there is; 1.2.0 does it in floating point."""
    found = {}
    for version in ("1.1.0", "1.2.0"):
        try:
            found[version] = tb.hunt(
                f"noq-proto@{version},cc=bbr3", weaknesses=["panic"], runs=100, allow_code=True, workers=2
            )
        except tb.TailbackError as error:
            # Cargo fetches the version.
            if "download" not in str(error) and "network" not in str(error):
                raise
            pytest.skip(str(error))
    (panic,) = found["1.1.0"]
    assert panic.weakness == "panic"
    assert found["1.2.0"] == []


@pytest.mark.long
@pytest.mark.parametrize("name", ["reno", "cubic", "bbr", "bbr3", "quinn,cc=cubic", "noq,cc=bbr3", "s2n-quic,cc=bbr2"])
def test_jitter_costs_no_other_control_its_packets(name: str) -> None:
    assert tb.hunt(name, weaknesses=["jitter"], runs=100) == []


def test_queues_are_varied_by_what_they_count() -> None:
    search = Hunt(tb.candidate("cubic"))
    call = next(each for each in hunting.WEAKNESSES if each.name == "call")
    genes = [0.5] * searching.GENES
    genes[12] = 0.9
    limit = search._case(genes, call).scenario("cubic", 1).resolve()["links"][0]["queue"]["params"]
    assert set(limit) == {"limit_packets"}
    genes[12] = 0.1
    assert set(search._case(genes, call).scenario("cubic", 1).resolve()["links"][0]["queue"]["params"]) == {
        "limit_bytes"
    }


def test_a_call_that_bbr_crowds_out_is_found() -> None:
    # Forty runs meet none: the number was chosen with that in view.
    (found,) = tb.hunt("bbr", weaknesses=["call"], runs=60)
    assert "call" in found.scenario.flow_names
    assert found.shown[0] / found.shown[1] >= 0.75


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


def test_the_command_prints_it_and_ends_with_one_if_it_found_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(tmp_path, monkeypatch, "hunt", "bbr", "--weakness", "loss", "--runs", "100", "--json") == 1
    (found,) = json.loads(capsys.readouterr().out)["found"]
    assert command(tmp_path, monkeypatch, *found["command"].split()[1:]) == 1
    assert command(tmp_path, monkeypatch, "hunt", "reno", "--weakness", "loss", "--runs", "16") == 0
