"""What cannot be run as a queue is refused by its field, with the value and what to write, for every queue."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
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
        if param.name not in {own.name for own in registry.card("queues", name).params} and param.kind != "text"
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
    # Times and rates without the unit of their names, which a value has.
    first = re.sub("_(ms|bps)$", "", registry.card("queues", name).params[0].name)
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
@pytest.mark.parametrize("discipline", ["cake", "pfifo_fast", "prio", "drr"])
def test_a_dscp_or_a_flow_that_is_none_is_refused(discipline: str, dscp: str) -> None:
    problem = refused({"discipline": discipline, "dscp": dscp})
    assert problem.field == "dumbbell.queue.dscp"
    assert dscp.partition("=")[0] in problem.problem


@pytest.mark.parametrize(
    ("queue", "field", "problem"),
    [
        ({"discipline": "codel", "bands": [{}]}, "bands", "codel has no bands"),
        ({"discipline": "kernel:codel", "bands": [{}]}, "discipline", "no bands that a scenario can state"),
        ({"discipline": "prio", "bands": [{"queue": "1bdp"}, {}]}, "bands[0]", "names neither flows nor DSCPs"),
        ({"discipline": "prio", "bands": [{"flows": ["web"]}, {}]}, "bands[0].flows", "no flow called web"),
        ({"discipline": "prio", "bands": [{"dscp": ["fast"]}, {}]}, "bands[0].dscp", "this is no DSCP"),
        ({"discipline": "drr", "bands": [{"quantum": "0B"}]}, "bands[0].quantum", "above zero"),
        ({"discipline": "drr", "bands": [{"queue": "codle"}]}, "bands[0].queue", "neither a queue size"),
        ({"discipline": "drr", "bands": [{"queue": "kernel:codel"}]}, "bands[0].queue", "stands at a link"),
        ({"discipline": "drr", "bands": [{"queue": "900B"}]}, "bands[0].queue", "less than one packet of 1500"),
        ({"discipline": "drr", "bands": [{"que": "1bdp"}]}, "bands[0].que", "no such key"),
        (
            {"discipline": "drr", "bands": [{"queue": {"discipline": "token_bucket", "rate": "1mbit"}}]},
            "bands[0].queue",
            "must send when its turn comes",
        ),
        (
            {"discipline": "prio", "bands": [{"queue": {"discipline": "drr", "bands": [{}, {}]}}]},
            "bands[0].queue.bands[0]",
            "names neither flows nor DSCPs",
        ),
    ],
)
def test_a_mistake_in_a_band_is_refused_at_its_field(queue: dict[str, Any], field: str, problem: str) -> None:
    found = refused(queue, live=queue["discipline"].startswith("kernel:"))
    assert found.field == f"dumbbell.queue.{field}"
    assert problem in found.problem
    assert found.fix


def test_bands_are_written_as_they_are_read() -> None:
    bands = [
        {"flows": ["bulk"], "quantum": "3000B", "queue": {"discipline": "codel", "target": "10ms"}},
        {"dscp": ["ef"], "queue": "50packets"},
        {},
    ]
    queue = {"discipline": "drr", "dscp": "bulk=ef", "bands": bands}
    scenario = tb.dumbbell(rate="10mbit", rtt="40ms", queue=queue, flows=[tb.bulk()], duration="1s")
    again = tb.Scenario.from_dict(scenario.to_dict())
    assert again.resolve() == scenario.resolve()
    link = scenario.resolve()["links"][0]["queue"]
    assert [sorted(band) for band in link["bands"]] == [["flows", "quantum", "queue"], ["dscp", "queue"], []]


def test_a_class_of_ones_own_in_a_band_needs_consent_and_runs(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import tailback as tb\n\nclass Mine(tb.OwnQueue):\n    pass\n", encoding="utf-8")
    own = f"python:{tmp_path}/mine.py:Mine"
    queue = {"discipline": "prio", "bands": [{"flows": ["call"], "queue": {"discipline": own}}, {}]}
    flows = [tb.bulk(), tb.voip(name="call")]
    wanted = {"packets": ["call"]}
    scenario = tb.dumbbell(rate="4mbit", rtt="40ms", queue=queue, flows=flows, duration="5s", instruments=wanted)
    with pytest.raises(tb.ScenarioError, match="asks to import and run"):
        tb.run(scenario)
    rows = tb.run(scenario, allow_code=True).where_flow("packets", "call")
    # 20 ms of path, a call's packet and the full one that is being sent as it comes: 3.4 ms at 4 Mbit/s.
    assert np.nanmax(rows["received_s"] - rows["sent_s"]) < 0.0235


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
        "returns no packet although",
    ):
        assert part in found, found
