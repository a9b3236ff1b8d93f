"""Dossiers of queues: who is one, what it declares, what is judged, and what cannot be assessed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import command
import tailback as tb
from tailback import registry
from tailback.assess import output, pictures, verdicts
from tailback.assess import run as assessed
from tailback.assess.procedures import procedure, procedure_of
from tailback.assess.queues.cost import beyond_fifo, growth
from tailback.assess.queues.table import STATISTICS, reference
from tailback.errors import TailbackError
from tailback.queue_candidate import QueueCandidate, candidate

QUEUE = procedure("queue")
OWN = """
import tailback as tb

class Mine(tb.OwnQueue):
    target_ms = 8.0
    {more}
    def __init__(self, limit_packets=50, target_ms=8.0):
        super().__init__(limit_packets=limit_packets)
"""


@pytest.fixture
def tailback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The command, in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    return command.tailback


def test_every_cell_is_a_scenario_with_each_built_in_queue() -> None:
    for name in registry.names("queues"):
        if name == "token_bucket":
            continue
        for cell in QUEUE.cells.values():
            links = cell.scenario(candidate(name)).resolve()["links"]
            assert next(each for each in links if each["name"] == "bottleneck")["queue"]["discipline"] == name


def test_each_rule_says_why_and_an_equal_of_the_baseline_is_within_it() -> None:
    for rule in STATISTICS.values():
        assert rule.source
        if not rule.own:
            assert rule.margin(1.0, 1.0) > 0.0
            assert set(rule.beside) <= set(QUEUE.baselines)
    assert {name for cell in QUEUE.cells.values() for name in cell.statistics} <= set(STATISTICS)
    assert all(any(cell.quick for cell in each.cells) for each in QUEUE.experiments)


def test_a_queue_and_a_congestion_control_go_to_their_own_book(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN.format(more=""))
    names = ("fq_codel", "pie,target=20ms", "drop-tail-bytes", f"{tmp_path}/mine.py:Mine", {"discipline": "codel"})
    for name in names:
        assert procedure_of(name, allow_code=True) is QUEUE, name
    assert procedure_of(tb.OwnQueue) is QUEUE
    for name in ("cubic", "bbr3", "qubic", f"{tmp_path}/mine.py:Mine"):
        assert procedure_of(name) is not QUEUE, name


def test_what_a_queue_declares_is_read_from_its_parameters(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN.format(more="isolates = 'flows'"))
    declared = {
        "codel": (5.0, 100.0, ""),
        "codel,target=10ms,interval=200ms": (10.0, 200.0, ""),
        "pie": (15.0, 150.0, ""),
        "cake": (5.0, 100.0, "hosts"),
        "cake,rtt=200ms": (10.0, 200.0, "hosts"),
        "fifo": (15.0, 100.0, ""),
        f"{tmp_path}/mine.py:Mine": (8.0, 100.0, "flows"),
        f"{tmp_path}/mine.py:Mine,target_ms=12": (12.0, 100.0, "flows"),
    }
    for name, known in declared.items():
        found = candidate(name, allow_code=True)
        assert (found.target_ms, found.burst_ms, found.isolates) == known, name


def test_drop_tail_stands_beside_by_bytes_and_by_packets() -> None:
    limits = [QUEUE.cells["delay-1"].scenario(candidate(name)).resolve()["links"][0]["queue"]["params"]
              for name in ("drop-tail-bytes", "drop-tail-packets")]  # fmt: skip
    assert limits == [{"limit_bytes": 450_000}, {"limit_packets": 300}]


def test_a_target_counts_as_one_and_a_half_packets_at_least() -> None:
    codel, pie = candidate("codel"), candidate("pie")
    rule = STATISTICS["wait_p50"]
    assert [reference(QUEUE.cells["delay-1"], rule, each) for each in (codel, pie)] == [5.0, 15.0]
    assert [reference(QUEUE.cells["low-rate-1"], rule, each) for each in (codel, pie)] == [18.0, 18.0]


def test_what_is_not_declared_is_not_applicable() -> None:
    rows = {each.name: each for each in QUEUE.experiments}

    def left(name: str, queue: QueueCandidate) -> int:
        return sum(QUEUE.scoped(rows[name], cell, "general", queue) is not None for cell in rows[name].cells)

    assert [left("bursts", candidate(name)) for name in ("codel", "pie", "pie,max_burst=30ms")] == [2, 3, 0]
    assert [left("hosts-apart", candidate(name)) for name in ("codel", "fq_codel", "cake")] == [0, 0, 1]
    assert [left("signals", candidate(name)) for name in ("codel", "pie")] == [1, 0]


def test_each_queue_is_judged_by_its_own_target() -> None:
    cell = QUEUE.cells["delay-4"]
    runs: dict[tuple[str, str], dict[int, Any]] = {
        (cell.name, label): {seed: {"wait_p50": 20.0 + seed / 10, "wait_p95": 22.0} for seed in range(3)}
        for label in ("codel", "pie", "drop-tail-bytes")
    }
    for name, verdict in (("codel", "failed"), ("pie", "passed")):
        found = verdicts.judge_cell(cell, runs, name, ["drop-tail-bytes"], QUEUE, candidate(name))[0]
        assert (found.verdict, found.against) == (verdict, verdicts.OWN)
        # The baseline stands beside for its difference, and sets no bound.
        assert found.differences["drop-tail-bytes"].estimate == 0.0


def test_cost_is_counted_and_repeats() -> None:
    prefix = "python:tailback.assess.queues.faults:"
    assert growth("codel", {}) == 1.0
    assert growth("red", {}) is None, "it lets no thousand wait"
    assert (beyond_fifo("fifo"), beyond_fifo("token_bucket")) == (0.0, None)
    assert 0 < (beyond_fifo("codel") or 0.0) < (beyond_fifo("fq_codel") or 0.0)
    sound = growth(f"{prefix}Sound", {})
    assert sound == growth(f"{prefix}Sound", {})
    assert sound is not None
    assert sound < 1.5
    assert (growth(f"{prefix}LooksAtAll", {}) or 0.0) > 10.0


def test_cost_is_counted_of_a_class_that_wants_a_seed_and_a_rate_and_no_limit(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        """
class Mine:
    def __init__(self, seed, rate_bps, most_ms=5.0):
        self.held, self.most = [], most_ms * rate_bps * seed
    def enqueue(self, packet, now):
        self.held.append(packet)
    def dequeue(self, now):
        return self.held.pop(0) if self.held else None
"""
    )
    assert growth(f"python:{tmp_path}/mine.py:Mine", {"most_ms": 8.0, "limit_packets": 3}) == 1.0


def test_the_command_writes_a_dossier_and_json(tailback: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN.format(more=""))
    arguments = (
        "assess",
        "mine.py:Mine",
        "--allow-code",
        "--quick",
        "--seeds",
        "2",
        "--only",
        "memory",
        "--against",
        "codel",
        "--json",
    )
    code, out, err = tailback(*arguments)
    assert code in (0, 1), err
    found = json.loads(out)
    assert found["candidate"] == "Mine"
    assert {row["name"]: row["verdict"] for row in found["criteria"]}["memory"] == "passed"
    folder = tmp_path / "results" / "assess" / "mine.py-Mine-quick"
    page = (folder / "dossier.md").read_text()
    assert page.startswith("# Mine by RFC 7928")
    assert "a target of 8 ms" in page
    assert "of the limit 1, at most 1" in page
    assert (folder / "report.html").stat().st_size > 10_000
    again = tb.run(folder / "cells" / "memory.toml", allow_code=True)
    assert again.column("links", "dropped").max() > 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["fq_codl", "--against", "codel"], 2, "fq_codel"),
        (["codel", "--against", "pi"], 2, 'Did you mean "pie"'),
        (["codel", "--only", "burst"], 2, 'Did you mean "bursts"'),
        (["codel,max_p=0.1"], 2, "max_p"),
        (["pie,target=nonsense"], 2, "target"),
        (["fifo,limit=0packets"], 2, "limit"),
        (["token_bucket"], 2, "shaper"),
        (["kernel:codle"], 2, "kernel:codel"),
        (["kernel:codel", "--kernel", "nosuch-1.0"], 1, "nosuch-1.0"),
        (["codel", "--kernel", "debian-6.1"], 2, "kernel:fq_codel"),
        (["codel", "--for", "scavenger"], 2, "scope"),
    ],
)
def test_bad_input_is_reported(tailback: Any, arguments: list[str], code: int, says: str) -> None:
    ran, out, err = tailback("assess", *arguments)
    assert (ran, out) == (code, "")
    assert says in err
    assert "Traceback" not in err


def test_every_built_in_queue_has_its_page_and_the_table_has_every_row() -> None:
    docs = Path(__file__).parents[2] / "docs" / "assess"
    table = (docs / "queues.md").read_text(encoding="utf-8")
    for each in QUEUE.experiments:
        assert f"| {each.section} {each.title} |" in table
    for name in registry.names("queues"):
        if name != "token_bucket":
            assert f"[{name}](queue-{name}.md)" in table
            page = (docs / f"queue-{name}.md").read_text(encoding="utf-8")
            assert page.startswith(f"# {name} by RFC 7928")
            assert output.BROKEN not in page


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("def dequeue(self, now): return None", "dequeue returns no packet although"),
        ("def enqueue(self, packet, now): raise ZeroDivisionError('by zero')", "by zero"),
        ("def dequeue(self, now): return self.packets.pop() if self.packets else None", "reorders = True"),
    ],
)
def test_a_queue_that_breaks_a_rule_is_not_assessed(tmp_path: Path, body: str, says: str) -> None:
    (tmp_path / "mine.py").write_text(OWN.format(more="") + f"    {body}\n")
    with pytest.raises(TailbackError) as raised:
        tb.assess(f"{tmp_path}/mine.py:Mine", allow_code=True, store=tmp_path / "store")
    assert says in str(raised.value)
    assert "at link bottleneck failed in" in str(raised.value)
    assert any("it was not assessed" in note for note in raised.value.__notes__)


def test_a_seed_without_the_number_is_the_reason_that_is_shown() -> None:
    cell = QUEUE.cells["unresponsive-120"]
    runs: dict[tuple[str, str], dict[int, Any]] = {
        (cell.name, label): {seed: {} if (label, seed) == ("pie", 2) else {"others_p50": 20.0} for seed in range(3)}
        for label in ("pie", "codel")
    }
    found = verdicts.judge_cell(cell, runs, "pie", ["codel"], QUEUE, candidate("pie"))[0]
    assert found.verdict == "failed"
    assert output.worst(found, {cell.name: cell}).endswith("nothing came through to measure it by with seed 2")


@pytest.mark.parametrize(
    ("cell", "statistic", "value", "verdict"),
    [("ecn", "marked_share", 100.0, "passed"), ("ecn", "marked_share", 50.0, "failed"),
     ("delay-1", "wait_p50", 20.0, "passed"), ("delay-1", "wait_p50", 100.0, "failed")],
)  # fmt: skip
def test_a_gauge_and_its_words_agree_with_the_verdict(cell: str, statistic: str, value: float, verdict: str) -> None:
    given = QUEUE.cells[cell]
    runs: dict[tuple[str, str], dict[int, Any]] = {
        (cell, label): {seed: {statistic: value} for seed in range(5)} for label in ("pie", "codel")
    }
    judged = verdicts.judge_cell(given, runs, "pie", ["codel"], QUEUE, candidate("pie"))
    found = next(each for each in judged if each.statistic == statistic)
    assert found.verdict == verdict
    svg = str(pictures.gauge(found))
    (dot,) = re.findall(r'class="dot" cx="([\d.]+)"', svg)
    (edge,) = re.findall(r'class="edge" d="M([\d.]+)', svg)
    assert (float(dot) > float(edge)) == (verdict == "failed")


def test_what_is_measured_in_per_cent_is_not_made_so_again() -> None:
    cell = next(each for each in QUEUE.cells.values() if "loss" in each.statistics)
    shares = {"choke": 6.5, "codel": 1.25, "pie": 1.0}
    runs: dict[tuple[str, str], dict[int, Any]] = {
        (cell.name, label): {seed: {"loss": share} for seed in range(5)} for label, share in shares.items()
    }
    judged = verdicts.judge_cell(cell, runs, "choke", ["codel", "pie"], QUEUE, candidate("choke"))
    found = next(each for each in judged if each.statistic == "loss")
    assert output.worst(found, {cell.name: cell}).endswith("lost of long flows 6.5 %, codel 1.25 %")


def test_a_full_queue_leaves_the_scale_of_the_others() -> None:
    svg = pictures._lines("wait", [("mine", [10.0, 20.0]), ("drop-tail-bytes", [500.0, 500.0])], ("0", "20 s"), 30.0)
    assert "drop-tail reaches 500" in svg
    assert "at most 30" in svg
    # Twenty of a scale that ends a tenth above the bound.
    high = pictures.HEIGHT - pictures.BOTTOM - pictures.TOP
    assert f"{pictures.TOP + high * (1 - 20 / 33):.1f}" in svg


def test_names_below_a_picture_stand_clear_of_its_axis_and_of_its_edge() -> None:
    labels = ("a-queue-of-ones-own", "drop-tail-bytes", "drop-tail-packets", "codel", "pie", "another-one")
    svg = pictures._lines("wait", [(label, [1.0, 2.0]) for label in labels], ("0", "20 s"))
    places = {
        text: (float(x), float(y)) for x, y, text in re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]+)', svg)
    }
    assert all(places[label][1] >= places["20 s"][1] + 16 for label in labels)
    assert all(places[label][0] + 6.5 * len(label) <= pictures.WIDTH for label in labels)
    assert float(re.findall(r'viewBox="0 0 560 ([\d.]+)"', svg)[0]) > places["another-one"][1]


def test_a_table_of_effects_has_every_baseline() -> None:
    found = verdicts.Criterion(QUEUE.experiments[0], "passed", ())
    assert output.effect(found, "codel", has_own_bounds=True) == ""


@pytest.mark.long
def test_a_kernels_queue_runs_in_guests_and_those_beside_it_are_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def stand_in(self: Any, scenario: tb.Scenario, **how: Any) -> tb.Result:
        """What a guest would return, from the model."""
        asked.append(str(scenario.name))
        kernels = scenario.resolve(live=True)["links"][0]["queue"]
        assert kernels["discipline"] == "kernel:fq_codel"
        return tb.run(scenario.with_({"dumbbell.queue": {"discipline": "fq_codel", "limit": "300packets"}}))

    monkeypatch.setattr(assessed.Vm, "check", lambda self, scenario, **how: None)
    monkeypatch.setattr(assessed.Vm, "run", stand_in)
    monkeypatch.setattr(assessed.Vm, "mark", lambda self, scenario: f"vm {self.kernel}")
    monkeypatch.setattr(assessed.kernels, "find", lambda name: SimpleNamespace(name="k"))

    def examine(kernel: str) -> assessed.Assessment:
        asked.clear()
        only = ["bursts", "rate-drops", "memory"]
        return assessed.assess("kernel:fq_codel", quick=True, seeds=2, only=only, store=tmp_path, kernel=kernel)

    done = examine("k")
    assert asked == ["trial", "burst-80ms", "burst-80ms"]
    verdicts_by_name = {each.experiment.name: each for each in done.criteria}
    assert verdicts_by_name["bursts"].verdict == "passed"
    assert verdicts_by_name["memory"].verdict == "not applicable"
    assert verdicts_by_name["rate-drops"].why == "a kernel's queue stands at a rate that does not change"
    assert "--kernel k" in done.to_json()["command"]
    assert "kernel is k: it in a guest, all else simulated" in done.markdown()
    # Kept rows are this kernel's: another one runs its own.
    assert (examine("k").run, asked) == (0, ["trial"])
    assert (examine("other").run, asked) == (2, ["trial", "burst-80ms", "burst-80ms"])


def test_a_kernels_queue_declares_what_its_model_does() -> None:
    names = ("kernel:fq_codel", "kernel:pie,target=20ms", "kernel:cake", "kernel:bfifo")
    found = [candidate(name) for name in names]
    assert [each.target_ms for each in found] == [5.0, 20.0, 5.0, 15.0]
    assert [each.isolates for each in found] == ["flows", "", "hosts", ""]
    assert [each.limits for each in found] == ["packets", "packets", "memory", "bytes"]
    assert found[0].digest != candidate("fq_codel").digest
