"""Which commands take which kinds of queues: the table in docs/candidates.md."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from tailback import examples
from tailback.algorithms import demand_of_kernel
from tailback.candidate import engines_of
from tailback.errors import TailbackError
from tailback.expect.testing import taken
from tailback.hunting.search import hunted
from tailback.queue_candidate import candidate, names_a_queue

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ["run", "test", "assess", "hunt", "guest"]


def _table() -> dict[str, dict[str, bool]]:
    section = (ROOT / "docs/candidates.md").read_text().partition("## Queues")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")][1:]
    words = {"yes": True, "no": False}
    return {
        row[0].partition(":")[0].strip(): dict(zip(COLUMNS, (words[cell.strip()] for cell in row[1:]), strict=True))
        for row in rows
    }


def _is_taken(call: Callable[..., object], *arguments: Any) -> bool:
    try:
        return call(*arguments) is not False
    except TailbackError:
        return False


def _resolved(queue: Any, live: bool = False) -> tuple[tb.Scenario, dict[str, Any]]:
    flows = [tb.bulk("reno")]
    scenario = tb.dumbbell(rate="10mbit", rtt="40ms", queue=queue, flows=flows, duration="1s")
    return scenario, scenario.resolve(allow_code=True, live=live)


def _runs(discipline: str) -> None:
    _resolved({"discipline": discipline}, live=engines_of(discipline)[0] != "sim")


def _is_tested(written: str) -> None:
    queue = taken(written, "queue", algorithms=None, allow_code=True)
    candidate(queue, allow_code=True)
    _resolved(queue, live=engines_of(str(queue["discipline"]))[0] != "sim")


def _is_assessed(written: str) -> bool:
    return names_a_queue(written, allow_code=True)


def _is_hunted(written: str) -> None:
    hunted(written, allow_code=True)


def _runs_in_a_guest(discipline: str) -> None:
    demand_of_kernel(*_resolved({"discipline": discipline}, live=True), loads_modules=True)


def test_the_table_says_what_the_commands_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.py").write_text("import tailback as tb\n\n\nclass MyQueue(tb.OwnQueue):\n    pass\n")
    (tmp_path / "sch_mine.c").write_text("static struct Qdisc_ops mine;\n")
    # A queue as candidates are written, and in a scenario.
    kinds = {
        "built in": ("pie,target=20ms", "pie"),
        "a Python class": ("my.py:MyQueue", "python:my.py:MyQueue"),
        "a BPF source": (f"{ROOT}/bpf/examples/head_drop.bpf.c", f"bpf:{ROOT}/bpf/examples/head_drop.bpf.c"),
        "a Rust crate": (f"{examples.queue_crate()}/Cargo.toml", f"rust:{examples.queue_crate()}"),
        "a kernel module": ("module:sch_mine.c", "module:sch_mine.c"),
        "a kernel's own": ("kernel:fq_codel", "kernel:fq_codel"),
    }
    table = _table()
    assert set(table) == set(kinds)
    for kind, (written, discipline) in kinds.items():
        found = {
            "run": _is_taken(_runs, discipline),
            "test": _is_taken(_is_tested, written),
            "assess": _is_taken(_is_assessed, written),
            "hunt": _is_taken(_is_hunted, written),
            "guest": _is_taken(_runs_in_a_guest, discipline),
        }
        assert found == table[kind], kind


def test_a_hunt_says_of_a_queue_what_to_do_instead() -> None:
    with pytest.raises(TailbackError, match=r'"codel" is a queue.*tailback assess codel'):
        hunted("codel")


def test_a_module_declares_what_the_kernels_queue_of_its_name_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sch_copy.c").write_text('static struct Qdisc_ops pie = { .id\t= "pie" };\n')
    (tmp_path / "sch_mine.c").write_text('static struct Qdisc_ops mine = { .id = "mine" };\n')
    (tmp_path / "tcp_mine.c").write_text("static struct tcp_congestion_ops mine;\n")
    copy, mine = (candidate(f"module:{name}", allow_code=True) for name in ("sch_copy.c,target=20ms", "sch_mine.c"))
    assert (copy.target_ms, copy.limits, copy.takes_ecn, copy.needs_guest) == (20.0, "packets", True, True)
    assert (mine.target_ms, mine.limits, mine.takes_ecn, mine.needs_guest) == (15.0, "", False, True)
    assert copy.source is not None
    with pytest.raises(TailbackError, match="--allow-code"):
        candidate("module:sch_mine.c")
    with pytest.raises(TailbackError, match="has no Qdisc_ops"):
        candidate("module:tcp_mine.c", allow_code=True)
