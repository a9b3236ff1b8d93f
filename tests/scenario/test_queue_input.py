"""What cannot be run as a queue is refused by its field, with the value and what to write, for every queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tailback as tb
from tailback import cli, registry
from tailback.errors import TailbackError
from tailback.vm import kernels

QUEUES = registry.names("queues")
#: Of each queue a parameter that it has not, and another has.
STRANGERS = {
    name: next(
        param.name
        for other in QUEUES
        for param in registry.card("queues", other).params
        if param.name not in {own.name for own in registry.card("queues", name).params} and not param.is_text
    )
    for name in QUEUES
}


def refused(queue: Any, *, live: bool = False) -> tb.Problem:
    with pytest.raises(tb.ScenarioError) as caught:
        tb.dumbbell(rate="10mbit", rtt="40ms", queue=queue, flows=[tb.bulk()], duration="1s").resolve(live=live)
    return caught.value.problems[0]


def _needed(name: str) -> dict[str, Any]:
    return {"rate": "5mbit", "burst": "20kB"} if name == "token_bucket" else {}


@pytest.mark.parametrize("name", QUEUES)
@pytest.mark.parametrize("limit", ["0packets", "0B", "0bdp", "0ms"])
def test_a_limit_of_zero_is_refused_by_every_queue(name: str, limit: str) -> None:
    problem = refused({"discipline": name, "limit": limit, **_needed(name)})
    assert problem.field == "dumbbell.queue.limit"
    assert problem.value == limit
    assert "a queue of nothing drops every packet" in problem.problem
    assert "packets" in problem.fix


@pytest.mark.parametrize("name", QUEUES)
@pytest.mark.parametrize("prefix", ["", "kernel:"])
def test_a_parameter_of_another_discipline_is_refused_with_those_it_has(name: str, prefix: str) -> None:
    if prefix and name not in registry.load().kernel_queues:
        pytest.skip("no kernel has it under this name")
    stranger = STRANGERS[name]
    problem = refused({"discipline": f"{prefix}{name}", stranger: 1, **_needed(name)}, live=bool(prefix))
    assert problem.field == f"dumbbell.queue.{stranger}"
    assert f"{name} has no parameter {stranger}" in problem.problem
    first = registry.card("queues", name).params[0].name
    assert first in problem.fix


def test_a_kernel_without_a_discipline_is_named_with_the_option_it_lacks() -> None:
    if "debian-6.1" not in [kernel.name for kernel in kernels.fetched()]:
        pytest.skip("a kernel is not here (tailback vm fetch debian-6.1)")
    scenario = tb.dumbbell(rate="4mbit", rtt="20ms", queue="kernel:dualpi2", flows=[tb.bulk()], duration="1s")
    with pytest.raises(tb.ScenarioError, match=r"debian-6\.1 .*has no dualpi2 \(CONFIG_NET_SCH_DUALPI2\)"):
        tb.vm.check(scenario, kernel="debian-6.1")


@pytest.mark.parametrize("queue", ["kernel:fq_codel", "kernel:pfifo_fast"])
def test_a_kernels_queue_in_the_simulator_names_the_engine_and_the_model(queue: str) -> None:
    problem = refused(queue)
    assert "--engine vm" in problem.fix
    assert problem.fix.endswith(f": {queue.removeprefix('kernel:')}.")


@pytest.mark.parametrize("dscp", ["call", "call=fast", "nosuch=ef"])
@pytest.mark.parametrize("discipline", ["cake", "pfifo_fast"])
def test_a_dscp_or_a_flow_that_is_none_is_refused(discipline: str, dscp: str) -> None:
    problem = refused({"discipline": discipline, "dscp": dscp})
    assert problem.field == "dumbbell.queue.dscp"
    assert dscp.partition("=")[0] in problem.problem


BROKEN = """
import tailback as tb

class Never(tb.OwnQueue):
    def dequeue(self, now):
        return None
"""


def test_a_broken_queue_of_ones_own_ends_a_command_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(BROKEN, encoding="utf-8")
    file = tmp_path / "mine.toml"
    flow = '[[flow]]\nname = "bulk"\ncc = "reno"\n'
    text = f'name = "mine"\nduration = "2s"\n[dumbbell]\nrate = "10mbit"\nrtt = "40ms"\nqueue = "QUEUE"\n{flow}'
    file.write_text(text.replace("QUEUE", f"python:{tmp_path}/mine.py:Never"), encoding="utf-8")
    done = CliRunner().invoke(cli.app, ["run", str(file), "--allow-code"])
    assert isinstance(done.exception, TailbackError)
    found = str(done.exception)
    # Queue, packet, time and rule.
    for part in (
        ":Never at link bottleneck failed in dequeue",
        "packet ",
        "s of simulated time",
        "returns None although",
    ):
        assert part in found, found
