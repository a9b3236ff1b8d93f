"""Suites: a candidate takes the subject's place, controls must fail, and grids are as their script writes them."""

from __future__ import annotations

import json
import math
import runpy
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from tailback import suites
from tailback.errors import ScenarioError
from tailback.expect import testing

ROOT = Path(__file__).parents[2]
MANIFEST = """
title = "Reno's rate"
judges = "that a flow gets more than nothing"
source = "definition"
[[control]]
scenario = "one"
candidate = "{control}"
why = "it is another"
"""
SCENARIO = """
duration = "3s"
[dumbbell]
rate = "10mbit"
rtt = "40ms"
[[flow]]
name = "subject"
cc = "reno"
[[flow]]
name = "other"
cc = "reno"
[expect]
conditions = ["subject.goodput_mbps {condition}"]
least = 2
"""


def suite(folder: Path, condition: str, control: str = "bbr") -> Path:
    folder.mkdir()
    (folder / "suite.toml").write_text(MANIFEST.replace("{control}", control))
    (folder / "one.toml").write_text(SCENARIO.replace("{condition}", condition))
    (folder / "known.toml").write_text(SCENARIO.replace("{condition}", "> 1").replace("subject", "known"))
    return folder


def test_suites_go_by_name_wherever_a_path_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubic = suites.find("cubic")
    assert suites.located("cubic") == cubic.folder
    assert suites.located("cubic/fast-convergence") == cubic.folder / "fast-convergence.toml"
    assert suites.located("cubix") == Path("cubix")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cubic").mkdir()
    # What is there comes first.
    assert suites.located("cubic") == Path("cubic")
    assert suites.shown(cubic.folder / "fast-convergence.toml") == "cubic/fast-convergence.toml"
    assert suites.shown("mine/one.toml") == "mine/one.toml"


def test_a_word_that_is_no_suite_gets_the_list_of_suites() -> None:
    printed = str(tb.test("l4z").unreadable[0].error)
    assert "neither a suite nor a file" in printed
    assert "l4s" in printed


@pytest.mark.parametrize("name", suites.names())
def test_every_scenario_of_a_suite_can_be_run_and_every_control_has_a_subject(name: str) -> None:
    found = suites.find(name)
    assert found.controls, "a suite without control proves nothing"
    for case in found.scenarios:
        scenario = case.scenario()
        assert scenario.expect is not None, case
        assert scenario.name == case.path.stem, case
    # A control's candidate: not every algorithm can take any subject's place (ECT(1) is not for Reno).
    candidate = found.controls[0].candidate if found.replaces == "cc" else None
    judged = testing.Testing([found.folder], candidate=candidate)
    assert judged.tested.unreadable == []
    assert len(judged.tested.scenarios) == len(found.scenarios)
    assert len(judged.tested.controls) == len(found.controls)
    for control in found.controls:
        scenario = found.scenario(control.scenario)
        assert suites.has_subject(scenario, found.replaces), control


CASES = """
[base]
duration = "3s"
dumbbell = { rate = "10mbit", rtt = "40ms" }
flow = [{ name = "subject", cc = "reno" }, { name = "other", cc = "reno" }]
expect = { conditions = ["subject.goodput_mbps > 9"], least = 2 }
[table]
columns = ["name", ["flow.subject.cc", "flow.other.cc"], "expect.conditions[0]"]
rows = [
    ["one", "cubic", "subject.goodput_mbps > 1"],
    ["two", "reno" , "subject.goodput_mbps > 9"],
]
"""


def test_a_row_of_a_file_of_cases_is_a_scenario_like_any_other(tmp_path: Path, tailback: Any) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "suite.toml").write_text(MANIFEST.replace("{control}", "vegas") + DECLARED)
    (folder / "some.cases.toml").write_text(CASES.replace("> 1", "> 4"))
    tested = tb.test(folder)
    assert {each.name: each.verdict for each in tested.scenarios} == {"one": "passed", "two": "failed"}
    assert (tested.surprising, tested.broken, len(tested.controls)) == ([], [], 1)
    assert [each.verdict for each in tb.test(folder / "two").scenarios] == ["failed"]
    # The command that shows a failure again names the row, and runs it.
    code, out, err = tailback("test", str(folder / "two"), "--json")
    words = shlex.split(json.loads(out)["scenarios"][0]["conditions"][0]["again"])
    assert (code, Path(words[2]).name) == (1, "two.toml")
    assert tailback(*words[1:])[0] == 0
    # Written as files, the rows are the same scenarios, and what is there stays.
    code, out, _ = tailback("test", str(folder), "--list")
    assert (code, [Path(line).name for line in out.splitlines()]) == (0, ["one.toml", "two.toml"])
    assert tailback("test", str(folder), "--write", str(tmp_path / "plain"))[0] == 0
    for name in ("one", "two"):
        assert tb.Scenario.from_toml(tmp_path / "plain" / f"{name}.toml") == suites.read(folder / name)
    code, _, err = tailback("test", str(folder), "--write", str(tmp_path / "plain"))
    assert (code, "is there already" in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('["one"', '["two"'), "is the name of two cases"),
        (('["one"', '["../one"'), "is no name of a case"),
        (('"name", ', ""), "has 3 values for 2 columns"),
        (("columns", "column"), "there is no such key"),
        (('["flow.subject.cc", "flow.other.cc"]', '"flow.third.cc"'), 'there is no flow "third"'),
    ],
)
def test_a_file_of_cases_that_is_none_says_what_is_wrong(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    (tmp_path / "some.cases.toml").write_text(CASES.replace(*change))
    printed = " ".join(str(each.error) for each in tb.test(tmp_path).unreadable)
    assert said in printed
    assert "some.cases.toml" in printed


def test_a_candidate_takes_over_subjects_and_nothing_else(tmp_path: Path) -> None:
    folder = suite(tmp_path / "mine", "> 1")
    scenario = suites.with_candidate(tb.Scenario.from_toml(folder / "one.toml"), {"name": "htcp", "rtt_scaling": True})
    assert [flow.cc.name for flow in scenario.flows] == ["htcp", "reno"]
    assert scenario.flows[0].cc.params == {"rtt_scaling": True}
    with pytest.raises(ScenarioError, match="There are: known, other"):
        suites.with_candidate(tb.Scenario.from_toml(folder / "known.toml"), "htcp")
    queue = suites.with_candidate(tb.Scenario.from_toml(folder / "one.toml"), "codel", "queue")
    assert (queue.dumbbell.queue.discipline, str(queue.dumbbell.queue.limit)) == ("codel", "1bdp")
    calls = tb.dumbbell(rate="1mbit", rtt="40ms", flows=[tb.voip(name="subject", params={"calls": 3})], duration="1s")
    steady = suites.with_candidate(calls, {"name": "udp-cbr", "rate": "80kbit"}, "app")
    assert (steady.flows[0].app, steady.flows[0].params) == ("udp-cbr", {"rate": "80kbit"})
    assert suites.with_candidate(calls, "voip-onoff", "app").flows[0].params == {}
    # As the README of `rmcat` writes it.
    written = suites.with_candidate(calls, "udp-cbr,rate=80kbit", "app")
    assert (written.flows[0].app, written.flows[0].params) == ("udp-cbr", {"rate": "80kbit"})
    queue = suites.with_candidate(tb.Scenario.from_toml(folder / "one.toml"), "pie,target=20ms", "queue")
    assert (queue.dumbbell.queue.discipline, str(queue.dumbbell.queue.limit)) == ("pie", "1bdp")


def test_a_control_that_passes_breaks_its_suite_and_one_that_fails_does_not(tmp_path: Path) -> None:
    broken = tb.test(suite(tmp_path / "broken", "> 0"))
    assert (broken.verdict, broken.passed, len(broken.broken)) == ("passed", False, 1)
    # Vegas gives way to Reno.
    sound = tb.test(suite(tmp_path / "sound", "> 4", control="vegas"))
    assert (sound.passed, [each.verdict for each in sound.controls]) == (True, ["failed"])


def test_the_command_says_broken_and_ends_with_four(tmp_path: Path, tailback: Any) -> None:
    code, out, err = tailback("test", str(suite(tmp_path / "broken", "> 0")), "--junit", str(tmp_path / "j.xml"))
    assert code == 4
    assert "the suite is broken: with bbr it must fail: it is another; it passed" in " ".join(err.split())
    assert 'type="broken"' in (tmp_path / "j.xml").read_text()
    code, out, err = tailback("test", str(tmp_path / "broken"), "--candidate", "htcp", "--json")
    printed: dict[str, Any] = json.loads(out)
    assert (code, printed["broken"], len(printed["scenarios"])) == (4, ["one"], 2)


def test_a_manifest_that_cannot_be_read_is_reported_and_the_scenarios_run(tmp_path: Path) -> None:
    folder = suite(tmp_path / "mine", "> 0")
    (folder / "suite.toml").write_text('title = "x"\njudged = "y"\nsource = "z"\n[[control]]\nscenario = "two"\n')
    tested = tb.test(folder)
    assert [each.verdict for each in tested.scenarios] == ["passed", "passed"]
    printed = str(tested.unreadable[0].error)
    for text in (
        "judged: there is no such field",
        "judges: is required",
        'control[0].scenario = "two"',
        "there is none",
    ):
        assert text in printed
    assert not tested.passed


def test_conditions_on_what_an_algorithm_reports_of_itself(tmp_path: Path) -> None:
    """Startup lasts a third of a second on this path; Reno reports nothing, which fails and is no error."""
    bbr, no_internals = suites.find("bbr").folder / "01-startup-plateau.toml", tmp_path / "no.toml"
    measure = testing.measured(tb.run(tb.Scenario.from_toml(bbr)))
    assert measure("subject.own_mode_enters_1") == 1
    assert 0.05 < measure("subject.own_mode_is_0") < 0.3
    assert measure("subject.own_bandwidth_bps_last") <= measure("subject.own_bandwidth_bps_max")
    tested = tb.test(bbr, candidate="reno")
    assert (tested.verdict, tested.scenarios[0].judged[0].why[:24]) == ("failed", "nothing to measure it by")
    no_internals.write_text(bbr.read_text().replace("internals = true", ""))
    assert "Add to [instruments] polls" in str(tb.test(no_internals).unreadable[0].error)


def test_metrics_of_how_a_flow_began() -> None:
    """Ten segments, doubled each RTT from the handshake on: 100 kB are 70 segments; 417 are the BDP."""
    path = {"rate": "50mbit", "rtt": "100ms", "queue": "4bdp", "duration": "3s"}
    polls = {"polls": ["subject"], "poll_interval": "1ms"}
    reno = tb.run(tb.dumbbell(flows=[tb.bulk("reno", name="subject")], **path).with_(instruments=polls))
    measure = testing.measured(reno)
    # Handshake, windows of 10, 20 and 40 segments half an RTT after they left.
    assert 350 <= measure("subject.received_100kB_ms") < 365
    # It is 640 segments after six doublings: the path is full half an RTT after that round began.
    assert 750 <= measure("subject.ramp_ms") <= 850
    # A loss ends it, above five BDP of path and queue.
    assert measure("subject.slow_start_cwnd_bytes") > 5 * 417 * 1448
    assert math.isnan(
        testing.measured(tb.run(tb.dumbbell(flows=[tb.bulk("bbr3", name="subject")], **path).with_(instruments=polls)))(
            "subject.slow_start_cwnd_bytes"
        )
    )


def test_a_candidate_may_be_code_of_ones_own_if_that_is_allowed(tmp_path: Path) -> None:
    folder = suite(tmp_path / "mine", "> 1")
    (tmp_path / "slow.py").write_text(
        "class Slow:\n    def __init__(self, **_): pass\n"
        "    def on_ack(self, ack, control): control.cwnd = 2 * control.mss\n"
        "    def on_congestion(self, congestion, control): pass\n"
    )
    refused = tb.test(folder / "one.toml", candidate=f"{tmp_path}/slow.py:Slow")
    assert "--allow-code" in str(refused.unreadable[0].error)
    # Two segments an RTT of 40 ms are 0.6 Mbit/s.
    tested = tb.test(folder / "one.toml", candidate=f"{tmp_path}/slow.py:Slow", allow_code=True)
    assert tested.verdict == "failed"
    assert tb.test(folder / "one.toml", candidate="reno,max_ssthresh=100").verdict == "passed"


def test_what_has_no_subject_is_no_pass_of_the_candidates(tmp_path: Path, tailback: Any) -> None:
    folder = suite(tmp_path / "mine", "> 9.9")
    tested = tb.test(folder, candidate="vegas")
    assert (tested.counted(), tested.known_answers()) == ({"failed": 1}, {"passed": 1})
    _, _, err = tailback("test", str(folder), "--candidate", "vegas")
    assert "scenarios: 1 failed, without the candidate 1 passed, 1 of 1 controls" in err
    # Without a candidate all are the suite's own.
    assert tb.test(folder).known_answers() == {}


def test_a_suite_that_does_not_apply_says_so_once(tailback: Any) -> None:
    code, out, err = tailback("test", "l4s", "--candidate", "reno")
    assert (code, out) == (2, "")
    assert err.count("with the stack's ecn") == 1
    assert "not applicable: of 29 scenarios with a subject none can have reno in its place" in err


def test_what_is_wrong_with_a_candidate_is_said_once(tmp_path: Path, tailback: Any) -> None:
    folder = suite(tmp_path / "mine", "> 0", control="vegas")
    (folder / "two.toml").write_text((folder / "one.toml").read_text())
    code, _, err = tailback("test", str(folder), "--candidate", "reno,x=3")
    assert code == 2
    assert err.count("reno has no parameter x") == 1
    assert "unreadable 2 times: " in err


def test_what_applies_to_some_scenarios_only_is_counted(tmp_path: Path, tailback: Any) -> None:
    folder = suite(tmp_path / "mine", "> 0", control="vegas")
    marked = SCENARIO.replace("{condition}", "> 0").replace(
        'cc = "reno"', 'cc = "dctcp"\nstack = { name = "linux", ecn = "l4s" }'
    )
    (folder / "two.toml").write_text(marked)
    tested = tb.test(folder, candidate="reno")
    assert [Path(each.file).stem for each in tested.inapplicable] == ["two"]
    assert (tested.counted(), tested.unreadable) == ({"passed": 1}, [])
    # A candidate that is wrong by itself is bad input.
    assert len(tb.test(folder, candidate="reno,beta=7").unreadable) == 2


def test_a_condition_that_fails_prints_the_command_and_the_seed(tmp_path: Path, tailback: Any) -> None:
    folder = suite(tmp_path / "mine", "> 4.6", control="vegas")
    spread = (folder / "one.toml").read_text().replace("[expect]", '[randomness]\nstart_spread = "1s"\n[expect]')
    (folder / "one.toml").write_text(spread)
    code, _, err = tailback(
        "test", str(folder / "one.toml"), "--candidate", "vegas,alpha=3", "--junit", str(tmp_path / "j")
    )
    assert code == 1
    line = next(line for line in err.splitlines() if line.startswith("again, one, subject.goodput_mbps > 4.6: "))
    words = shlex.split(line.split(": ", 1)[1])
    assert words[:2] == ["tailback", "run"]
    assert words[-2] == "--seed"
    assert "again: tailback run" in (tmp_path / "j").read_text()
    code, out, _ = tailback(*words[1:], "--json")
    assert code == 0
    # Of the seeds that were judged this one's run is furthest from the bound.
    rates = {}
    changed = suites.with_candidate(tb.Scenario.from_toml(folder / "one.toml"), {"name": "vegas", "alpha": 3})
    judged = tb.test(folder / "one.toml", candidate="vegas,alpha=3").scenarios[0]
    for seed in range(1, judged.seeds + 1):
        rates[seed] = tb.run(changed.with_(seed=seed)).flow_summary()[0]["goodput_mbps"]
    assert int(words[-1]) == min(rates, key=lambda seed: rates[seed])
    assert json.loads(out)["flows"][0]["goodput_mbps"] == pytest.approx(min(rates.values()))


def declaring(folder: Path, condition: str, rows: str, control: str = "vegas") -> Path:
    """A suite whose control is sound, with declared verdicts on a second scenario."""
    suite(folder, "> 4", control=control)
    (folder / "two.toml").write_text(SCENARIO.replace("{condition}", condition))
    manifest = folder / "suite.toml"
    manifest.write_text(manifest.read_text() + rows)
    return folder


DECLARED = '[[expected]]\nscenario = "two"\nverdict = "failed"\nwhy = "two flows share a link"\n'


def test_a_declared_failure_is_no_surprise_and_its_end_is_one(tmp_path: Path, tailback: Any) -> None:
    known = declaring(tmp_path / "known", "> 9", DECLARED)
    assert tailback("test", str(known))[0] == 1
    assert tailback("test", str(known), "--as-declared")[0] == 0
    # It passes by now: the declaration is old.
    repaired = declaring(tmp_path / "repaired", "> 1", DECLARED)
    assert tailback("test", str(repaired))[0] == 0
    code, _, err = tailback("test", str(repaired), "--as-declared")
    assert (code, "passed, and its suite declares failed" in " ".join(err.split())) == (1, True)
    # And what is not declared must pass.
    worse = declaring(tmp_path / "worse", "> 9", "")
    assert tailback("test", str(worse), "--as-declared")[0] == 1
    code, _, err = tailback("test", str(known), "--as-declared", "--candidate", "bbr")
    assert (code, "judges the unchanged scenarios" in " ".join(err.split())) == (2, True)


def test_of_several_conditions_the_declared_one_alone_may_fail(tmp_path: Path) -> None:
    both = '> 9", "other.goodput_mbps > 9'
    rows = DECLARED + 'condition = "subject.goodput_mbps > 9"\n'
    tested = tb.test(declaring(tmp_path / "both", both, rows))
    assert [each.name for each in tested.surprising] == ["two"]
    assert tested.surprising[0].surprises == [("other.goodput_mbps > 9", "passed", "failed")]
    unclear = tb.test(declaring(tmp_path / "unclear", both, DECLARED))
    assert "two has 2 such conditions. Give the number" in str(unclear.unreadable[0].error)
    numbered = tb.test(declaring(tmp_path / "numbered", both, DECLARED + "condition = 2\n"))
    assert numbered.surprising[0].surprises == [("subject.goodput_mbps > 9", "passed", "failed")]


def test_nothing_declared_hides_a_control_that_does_not_fail(tmp_path: Path, tailback: Any) -> None:
    # A control that passes is broken whatever is declared of others.
    broken = declaring(tmp_path / "broken", "> 9", DECLARED, control="cubic")
    assert tailback("test", str(broken), "--as-declared")[0] == 4
    # Of a scenario that fails anyway a control proves nothing, so this is refused.
    vacuous = declaring(tmp_path / "vacuous", "> 9", DECLARED.replace('"two"', '"one"'))
    tested = tb.test(vacuous)
    assert "then the control proves nothing" in str(tested.unreadable[0].error)
    assert tailback("test", str(vacuous), "--as-declared")[0] == 2


@pytest.mark.parametrize("name", suites.names())
def test_what_a_suite_declares_names_a_mechanism(name: str) -> None:
    found = suites.find(name)
    for row in found.expected:
        assert len(row.why) > 20, row


def test_what_make_suites_leaves_out_is_named_with_its_reason(tmp_path: Path) -> None:
    left_out = runpy.run_path(str(ROOT / "scripts/quick_suites"))["left_out"]
    folder = suite(tmp_path / "mine", "> 1")
    silent = suites.opened(folder)
    assert silent is not None
    assert left_out([silent]) == {"mine": "does not say how long it takes"}
    assert left_out([replace(silent, seconds=900)]) == {"mine": "takes 900 s on two cores"}
    assert left_out([replace(silent, seconds=9)]) == {}


def test_each_suite_says_how_long_it_takes_and_the_page_lists_them() -> None:
    assert not [name for name in suites.names() if suites.find(name).seconds is None]
    made = runpy.run_path(str(ROOT / "scripts/suites_page"))
    text = (ROOT / "docs/suites.md").read_text()
    assert made["filled"](text, made["LISTS"]) == text, "docs/suites.md is old: run scripts/suites_page --list"


def test_a_queue_is_judged_by_its_own_target() -> None:
    aqm = suites.find("aqm")
    for scenario, queue, bound in (
        ("aggressive", "codel", "call.delay_p95_ms <= 70"),
        ("aggressive", "pie", "call.delay_p95_ms <= 110"),
        ("aggressive", {"discipline": "codel", "target": "10ms"}, "call.delay_p95_ms <= 90"),
        # Without a target it has PIE's; one shorter than a packet and a half counts as that.
        ("varying-capacity", "fifo", "call.delay_p50_ms <= 80"),
        ("aggressive", "codel,target=1ms", "call.delay_p95_ms <= 57.2"),
    ):
        changes = suites.bounds_of_its_own(aqm, aqm.scenario(scenario), queue)
        assert changes == {"expect.conditions[0]": bound}, queue
