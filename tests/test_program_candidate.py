"""Programs and kernel modules as candidates: what a file says, where each runs, and what a kernel cannot answer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tailback as tb
from real_engines import needs_guests
from tailback import engines
from tailback.assess import verdicts
from tailback.assess.table import PROCEDURE, lacks
from tailback.errors import TailbackError
from tailback.experiment.workers import REFUSED
from tailback.live import programs as output
from tailback.result import schema
from tailback.vm import Overloaded, kernels

MODULE = f"module:{Path(__file__).parent / 'vm' / 'tcp_window.c'}"
IPERF3 = Path(__file__).parents[1] / "scenarios" / "programs" / "candidates" / "iperf3.toml"
PROGRAM = f"program:{IPERF3}"


def scenario(**flow: Any) -> tb.Scenario:
    given = {"name": "subject", "cc": "cubic", **flow}
    conditions = ["subject.goodput_mbps > 1", "subject.retransmitted < 9"]
    return tb.Scenario.from_dict(
        {
            "name": "one", "duration": "3s", "dumbbell": {"rate": "4mbit", "rtt": "20ms", "queue": "1bdp"},
            "flow": [given], "randomness": {"start_spread": "50ms"}, "instruments": {"polls": "all"},
            "expect": {"conditions": conditions, "least": 2, "most": 2},
        }
    )  # fmt: skip


def test_a_program_takes_the_place_of_a_bulk_flow() -> None:
    (endless,) = scenario(cc=f"{PROGRAM}", start="500ms", stop="2s").resolve(live=True)["flows"]
    assert endless["app"]["params"]["client"].endswith("--time 2")
    assert (endless["name"], endless["tcp"]["cc"], endless["from"]) == ("subject", "cubic", "left")
    sized = scenario(cc={"name": PROGRAM, "cc": "bbr"}, params={"bytes": "1MB"}, count=2).with_(expect=None)
    assert [row["app"]["params"]["client"].split()[-1] for row in sized.resolve(live=True)["flows"]] == ["1000000"] * 2
    assert {row["tcp"]["cc"] for row in sized.resolve(live=True)["flows"]} == {"bbr"}
    assert sized.here == IPERF3.parent


def test_where_the_server_sends_the_flows_ends_are_exchanged(tmp_path: Path) -> None:
    file = tmp_path / "web.toml"
    file.write_text('server = "{here}/web {port}"\nclient = "{here}/get {server_addr}"\nsends = "server"\n')
    (flow,) = scenario(cc=f"program:{file}").resolve(live=True)["flows"]
    assert (flow["from"], flow["to"]) == ("right", "left")
    with pytest.raises(tb.ScenarioError, match=r"web\.toml has no command line for that. Add for example transfer"):
        scenario(cc=f"program:{file}", params={"bytes": "1MB"}).resolve(live=True)


def test_the_guides_file_describes_a_program(tmp_path: Path) -> None:
    page = Path(__file__).parents[1] / "docs" / "candidates.md"
    (tmp_path / "mine.toml").write_text(page.read_text().partition("```toml\n")[2].partition("```")[0])
    made = tb.candidate(f"program:{tmp_path / 'mine.toml'}", allow_code=True)
    (flow,) = scenario(cc=made.cc, params={"bytes": "1kB"}).resolve(live=True)["flows"]
    assert flow["app"]["params"]["client"].endswith("--bytes 1000")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('server = "s"\n', "client: there is no command line of the client"),
        ('server = "s"\nclient = 1\n', "client = 1: it is no text"),
        ('server = "s"\nclient = "c"\nsend = "server"\n', 'send: there is no such field. Did you mean "sends"?'),
        ('server = "s"\nclient = "c"\nsends = "left"\n', 'sends = "left": it is no end'),
        ('server = "s"\nclient = "c"\ntransfer = "t"\n', "nothing says how much"),
        ("server =", "is not TOML"),
    ],
)
def test_what_is_wrong_with_its_file_is_named_with_its_field(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(TailbackError, match="(?s)mine.toml.*" + says.replace("?", r"\?")):
        tb.candidate(f"program:{tmp_path / 'mine.toml'}", allow_code=True)


def test_candidates_know_their_engines_and_others_are_refused_with_the_fix() -> None:
    module, program = (tb.candidate(name, allow_code=True) for name in (MODULE, f"{PROGRAM},cc=bbr"))
    assert (module.kind, module.engines, module.label) == ("module", ("vm",), "tcp_window.c")
    assert (program.kind, program.engines, program.label) == ("program", ("vm", "live"), "iperf3 bbr")
    with pytest.raises(TailbackError, match=r"does not run there; it runs in vm. Write --engine vm"):
        tb.test("cubic/friendly-10mbit-40ms", candidate=MODULE, allow_code=True, engine="sim")
    with pytest.raises(TailbackError, match=r"allow it with --allow-code"):
        tb.hunt(PROGRAM, runs=1)
    with pytest.raises(TailbackError, match=r'kernel = "k": only a guest has one, and this runs in sim'):
        tb.sweep(scenario(), kernel="k")


def stand_in(monkeypatch: pytest.MonkeyPatch, *ends: Any) -> list[str]:
    """What guests would return: `ends` in turn, then the simulator's result with CUBIC in the candidate's place."""
    asked: list[str] = []
    errors = iter(ends)

    def run(self: engines.Vm, given: tb.Scenario, **how: Any) -> tb.Result:
        asked.append(given.named[0])
        if (error := next(errors, None)) is not None:
            raise error
        return tb.run(given.with_({"flow[0].cc": "cubic", "instruments.internals": False}))

    monkeypatch.setattr(engines.Vm, "check", lambda self, given, **how: None)
    monkeypatch.setattr(engines.Vm, "mark", lambda self, given: f"vm {self.kernel}")
    monkeypatch.setattr(engines.Vm, "run", run)
    return asked


def test_runs_on_a_kernel_are_kept_by_it_and_what_it_refuses_is_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.toml").write_text(scenario().to_toml())
    asked = stand_in(monkeypatch)

    def judged(candidate: str, kernel: str = "k") -> Any:
        asked.clear()
        return tb.test(tmp_path / "one.toml", candidate=candidate, allow_code=True, kernel=kernel, store=tmp_path / "s")

    done = judged(PROGRAM)
    assert ([each.conditions for each in done.scenarios], len(asked)) == ([("subject.goodput_mbps > 1",)], 2)
    assert "kernel's TCP, and a program need not use it" in done.inapplicable[0].why
    assert "--engine vm --kernel k" in done.scenarios[0].again(0)
    assert (judged(PROGRAM).verdict, asked) == ("passed", [])
    assert len(judged(PROGRAM, "other").scenarios[0].judged) == len(asked) - 1 == 1
    asked = stand_in(monkeypatch, Overloaded("too much"), Overloaded("too much"))
    found = judged(MODULE)
    assert (found.scenarios, [each.why for each in found.inapplicable]) == ([], ["too much"])


@pytest.mark.parametrize(
    ("fate", "status", "signal", "accepted", "failed"),
    [
        ("exited", math.nan, 11, "", "flow subject: its client was ended by signal 11"),
        ("exited", 3.0, 0, "", "flow subject: its client ended with status 3: cannot parse --rate"),
        ("exited", 0.0, 0, "", ""),
        # By the runner, at the flow's stop.
        ("stopped", math.nan, 15, "", ""),
        ("exited", 3.0, 0, "0 3", ""),
        ("exited", math.nan, 11, "139", ""),
        ("exited", 0.0, 0, "3", "flow subject: its client ended with status 0, and not with 3"),
    ],
)
def test_a_run_whose_program_failed_fails_its_test_and_the_command(
    tailback: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    fate: str, status: float, signal: int, accepted: str, failed: str,
) -> None:  # fmt: skip
    def run(self: engines.Vm, given: tb.Scenario, **how: Any) -> tb.Result:
        one = tb.run(given.with_({"flow[0].cc": "cubic"}))
        one.resolved["flows"][0]["app"]["params"] = {"status": accepted}
        role, end = (schema.code("programs", *each) for each in (("role", "client"), ("fate", fate)))
        row = {"flow": [0], "role": [role], "fate": [end], "status": [status], "signal": [signal]}
        tables = {name: one.numpy(name) for name in one.tables}
        tables["programs"] = schema.table("programs").filled(1, **row)
        names = {"warnings": [failed], "internals_names": []}
        result = tb.Result(resolved=one.resolved, toml=one.toml, tables=tables | {"_names": names})
        # Late packets do not hide it.
        result.meta |= {"notes": [failed], "fit": not failed}
        return result

    stand_in(monkeypatch)
    monkeypatch.setattr(engines.Vm, "run", run)
    conditions = {"expect.conditions": ["subject.goodput_mbps > 1"]}
    (tmp_path / "one.toml").write_text(scenario().with_(conditions).to_toml())
    done = tb.test(tmp_path / "one.toml", engine="vm", store=tmp_path / "s")
    assert (done.verdict, failed in done.scenarios[0].error) == ("failed" if failed else "passed", True)
    ran = tailback("run", tmp_path / "one.toml", "--engine", "vm")
    assert (ran.code, f"failed: {failed}" in ran.err) == (int(bool(failed)), bool(failed))


def test_the_baseline_of_a_program_is_a_bulk_flow_of_the_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fair = "subject-1.goodput_mbps > 0.01 * baseline"
    two = scenario(count=2).with_({"expect.baseline": "reno", "expect.conditions": [fair]})
    (tmp_path / "one.toml").write_text(two.to_toml())
    asked = stand_in(monkeypatch)
    done = tb.test(tmp_path / "one.toml", candidate=PROGRAM, allow_code=True, workers=1, store=tmp_path / "s")
    assert (done.scenarios[0].seeds, asked) == (2, [PROGRAM, "reno"] * 2)


def test_a_hunt_counts_what_a_guest_refuses_and_keeps_to_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = stand_in(monkeypatch, Overloaded("too much"))
    search = tb.hunting.Hunt(tb.candidate(MODULE, allow_code=True), runs=3, weaknesses=("lockout",), store=tmp_path)
    search.go()
    assert (search.refused, asked) == ({f"{REFUSED}too much": 1}, [MODULE] * 3)


def test_a_sweep_and_pairs_run_each_in_guests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = stand_in(monkeypatch, Overloaded("too much"))
    for run, failed in ((1, 1), (1, 0), (0, 0)):
        done = tb.sweep(scenario(), {"flow.subject.cc": [MODULE, PROGRAM]}, store=tmp_path / "a", allow_code=True,
                        workers=1)  # fmt: skip
        assert (done.run, done.failed) == (run, failed)
    assert sorted(set(asked)) == [MODULE, PROGRAM]
    pairs = tb.run_pairs(scenario(cc=MODULE), scenario(cc=PROGRAM), pairs=2, store=tmp_path / "b", allow_code=True)
    names = {row.metric for row in pairs.metrics}
    assert pairs.pairs == 2
    assert "subject.goodput_mbps" in names
    assert "subject.retransmitted" not in names


def test_a_dossiers_baselines_run_where_the_candidate_does_and_the_rest_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = stand_in(monkeypatch)
    only = ["reordering", "population", "acks", "short-flows"]

    def examine() -> Any:
        asked.clear()
        return tb.assess(PROGRAM, quick=True, only=only, seeds=2, store=tmp_path, allow_code=True)

    monkeypatch.setattr(kernels, "find", lambda name: type("K", (), {"name": "k"}))
    done = examine()
    # The trial, and each of two cells with three algorithms and two seeds.
    assert len(asked) == 1 + 2 * 3 * 2
    by_name = {each.experiment.name: each for each in done.criteria}
    assert by_name["reordering"].verdict != verdicts.NOT_APPLICABLE
    assert "a program brings its own stack" in by_name["acks"].why
    assert "does not say when a transfer ended" in by_name["short-flows"].why
    assert "exceed a guest's capacity" in by_name["population"].why
    assert "--engine vm --kernel k" in done.to_json()["command"]
    assert (examine().run, asked) == (0, [PROGRAM])


def test_a_guest_refuses_at_once_what_is_twice_too_fast_for_it() -> None:
    fast = scenario(cc=MODULE).with_({"dumbbell.rate": "1gbit"})
    with pytest.raises(Overloaded, match="--dilation 16"):
        engines.for_candidates(fast.named).run(fast, allow_code=True)


def test_a_cell_that_a_guest_refuses_passes_and_fails_nothing() -> None:
    cell = PROCEDURE.cells["reordering-10"]
    runs = {(cell.name, "mine"): {1: f"{REFUSED}too much"}, (cell.name, "cubic"): {1: {"goodput": 1.0}}}
    (found,) = verdicts.judge_cell(cell, runs, "mine", ["cubic"])
    assert (found.verdict, found.why) == (verdicts.NOT_APPLICABLE, "too much")
    assert lacks([PROCEDURE.cells["acks-1"]], tb.candidate(MODULE, allow_code=True)) == ""


@pytest.mark.parametrize("is_udp", [True, False])
def test_what_a_program_carried_is_of_all_its_connections_and_of_the_direction_that_carries_more(is_udp: bool) -> None:
    """Ten packets of 1,028 or 1,052 bytes come back, one of them is lost, and a small one goes before each."""
    header = 28 if is_udp else 52
    resolved = scenario(cc=PROGRAM).with_({"instruments.poll_interval": "500ms"}).resolve(live=True)
    back = np.arange(20) % 2 == 1
    there = np.where(np.arange(20) == 3, np.nan, 0.1 * np.arange(20) + 0.05)
    seen = {
        "flow": np.zeros(20, dtype=np.uint32), "reverse": back, "bytes": np.where(back, 1000 + header, header + 1),
        "written_s": there, "copy": np.zeros(20, dtype=bool),
    }  # fmt: skip
    totals = ("bytes_received", "bytes_returned", "bytes_acked", "packets_sent", "packets_received", "packets_dropped",
              "bytes_sent")  # fmt: skip
    flows = {name: np.zeros(1, dtype=np.uint64) for name in totals}
    flows["bytes_returned"][0] = 0 if is_udp else 9000
    flows["finished_s"] = np.array([1.5])
    polls = output.schema.table("polls").filled(2, t_s=[1.0, 2.9], bytes_received=[7, 1])
    out = output.carried(resolved, {"flows": flows, "captures": seen, "polls": polls})
    assert [int(out["flows"][f"packets_{word}"][0]) for word in ("sent", "received", "dropped")] == [10, 9, 1]
    assert int(out["flows"]["bytes_received"][0]) == (9000 if is_udp else 0)
    # Goodput is over the time until the last payload, although the client ended at 1.5 s.
    assert out["flows"]["finished_s"][0] == pytest.approx(1.95)
    times, bytes_ = out["polls"]["t_s"], out["polls"]["bytes_received"]
    assert (list(times), list(bytes_)) == (
        ([0.5, 1.0, 1.5, 2.0, 2.5, 3.0], [1000, 4000, 6000, 9000, 9000, 9000]) if is_udp else ([1.0, 2.9], [4000, 9000])
    )


@needs_guests
@pytest.mark.parametrize(
    "candidate", [PROGRAM, pytest.param(MODULE, marks=pytest.mark.long)], ids=["program", "module"]
)
def test_a_guest_judges_it(tmp_path: Path, candidate: str) -> None:
    (tmp_path / "one.toml").write_text(scenario().with_({"expect.conditions": ["subject.goodput_mbps > 2"]}).to_toml())
    done = tb.test(tmp_path / "one.toml", candidate=candidate, allow_code=True, store=tmp_path / "s")
    assert done.verdict == "passed", done.to_json()
    kept = [tb.open_result(folder) for folder in sorted((tmp_path / "s").iterdir())]
    assert sorted(each.seed for each in kept) == [1, 2]
    again = engines.repeat(kept[0], allow_code=True) if candidate == MODULE else None
    assert again is None or not again.differing(kept[0])
