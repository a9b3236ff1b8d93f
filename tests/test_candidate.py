"""What a user calls a candidate, and what a scenario makes of it."""

import re
from pathlib import Path

import pytest

import tailback as tb
from tailback.candidate import flow_fields
from tailback.examples import newreno
from tailback.hunting import Case

FILE = f"{newreno.__file__}:NewReno"


def test_a_name_with_parameters_is_what_a_scenario_takes() -> None:
    plain, changed = tb.candidate("cubic"), tb.candidate("cubic,beta=0.5,fast_convergence=false")
    assert (plain.cc, plain.label, plain.kind, plain.allow_code) == ("cubic", "cubic", "built-in", False)
    assert changed.cc == {"name": "cubic", "beta": 0.5, "fast_convergence": False}
    assert changed.label == "cubic beta=0.5 fast_convergence=False"
    assert tb.candidate(changed.written).cc == changed.cc == tb.candidate(changed).cc
    assert len({plain.digest, changed.digest, tb.candidate("cubic,beta=0.6").digest}) == 3


def test_a_transport_comes_with_a_congestion_control_of_its_own() -> None:
    plain, chosen = tb.candidate("quinn"), tb.candidate("quinn,cc=bbr")
    assert (plain.cc, plain.kind, plain.allow_code) == ({"transport": "quinn", "cc": "cubic"}, "transport", False)
    assert (chosen.cc, chosen.label, chosen.name) == ({"transport": "quinn", "cc": "bbr"}, "quinn bbr", "quinn")
    assert tb.candidate(chosen.written) == chosen
    assert flow_fields(chosen.cc) == {"transport": "quinn", "cc": "bbr", "stack": None}
    assert flow_fields("reno") == {"cc": "reno"}
    assert plain.digest != chosen.digest


def test_a_transport_takes_the_place_of_the_subject() -> None:
    done = tb.test("cubic/friendly-10mbit-40ms", candidate="quinn", workers=1)
    (scenario,) = done.scenarios
    assert scenario.has_candidate
    assert all(flag in scenario.run for flag in ('flow[0].transport="quinn"', 'flow[0].cc="cubic"'))


def test_hunting_finds_that_quinns_bbr_starves_reno_over_a_path_that_jitters(tmp_path: Path) -> None:
    case = Case(rate_mbps=8.55, rtt_ms=47, queue_bdp=0.322, has_rival=True, counts_packets=True, jitter_ms=9.9)
    shares = []
    for cc in (tb.candidate("quinn,cc=bbr").cc, "reno"):
        rows = {row["flow"]: row for row in tb.run(case.scenario(cc, seed=3)).flow_summary()}
        shares.append(rows["rival"]["goodput_mbps"] / (rows["rival"]["goodput_mbps"] + rows["victim"]["goodput_mbps"]))
    assert shares[0] < 0.1
    assert shares[1] > 0.3


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("quin", 'Did you mean "quinn"?'),
        ("quinn,cc=bbr9", 'quinn has no congestion control "bbr9". Did you mean "bbr"?'),
        ("quinn,beta=1", 'quinn has no parameter "beta"'),
        ("qubic", 'no congestion control "qubic". Did you mean "cubic"?'),
        ("cubic,betta=1", 'betta: cubic has no parameter betta. Did you mean "beta"?'),
        ("cubic,beta=7", "must be 0.1 to 0.95"),
        ("cubic,beta", '"beta" is no parameter'),
        ("{ name = ", "no table in TOML"),
        ("", "has no name"),
        ("none.py:Mine", "none.py cannot be imported"),
        (f"{newreno.__file__}:NewRena", 'has no NewRena. Did you mean "NewReno"?'),
    ],
)
def test_what_is_wrong_is_said(what: str, says: str) -> None:
    with pytest.raises(tb.TailbackError, match=re.escape(says)):
        tb.candidate(what, allow_code=True)


@pytest.mark.parametrize("what", [FILE, "spy:Spy", "python:spy:Spy", "spy.py:Spy", "spy.bpf.c", "bpf:spy.bpf.c"])
def test_code_is_not_touched_unless_allowed(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spy.py").write_text("raise SystemExit('it ran')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(tb.TailbackError, match=r"is code, which would be run.*--allow-code"):
        tb.candidate(what)


@pytest.mark.parametrize("what", [FILE, "tailback.examples.newreno:NewReno", newreno.NewReno])
def test_a_class_runs_like_the_built_in_it_copies(what: object) -> None:
    found = tb.candidate(what, allow_code=True)  # type: ignore[arg-type]
    assert found.kind == "python"
    assert found.source == Path(newreno.__file__).read_text()
    base = tb.dumbbell(rate="10mbit", rtt="40ms", queue="0.3bdp", flows=[tb.bulk("reno")], duration="3s")
    mine = tb.run(base.with_({"flow.bulk.cc": found.cc}), allow_code=found.allow_code)
    assert mine.column("flows", "bytes_acked").tolist() == tb.run(base).column("flows", "bytes_acked").tolist()


def test_the_digest_follows_the_source(tmp_path: Path) -> None:
    text = Path(newreno.__file__).read_text()
    digests = set()
    for name, more in (("one.py", ""), ("two.py", "\n# another\n")):
        (tmp_path / name).write_text(text + more)
        digests.add(tb.candidate(f"{tmp_path / name}:NewReno", allow_code=True).digest)
    assert len(digests) == 2
