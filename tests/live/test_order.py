"""Programs that wait for one another: servers by what they show, clients by the end of another flow's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tailback as tb
from real_engines import engines, needs_live
from tailback import live


def given(*flows: tb.Flow, duration: str = "3s") -> tb.Scenario:
    return tb.dumbbell(rate="4mbit", rtt="20ms", flows=flows, duration=duration)


def exec_(name: str, client: str, server: str = "", **params: Any) -> tb.Flow:
    return tb.flow("exec", name=name, client=client, server=server, params=params)


@engines
def test_programs_start_in_their_order_and_keep_their_status(run: Callable[..., tb.Result]) -> None:
    # Neither server listens. The second begins only after the first has shown its file, and says so.
    first = exec_(
        "first", "sh -c 'sleep 0.5; exit 3'", "sh -c 'sleep 0.2; : > {dir}/up; exec sleep 100'", ready_by="file:up"
    )
    second = exec_(
        "second", "sh -c 'exit 0'", "sh -c 'test -e {dir}/../../0/dir/up && echo seen; exec sleep 100'",
        ready_by="line:seen", after="first first.client",
    )  # fmt: skip
    result = run(given(first, second), allow_code=True)
    ends = {(row["flow"], row["program"]): row for row in result.program_summary()}
    assert result.files["second/server.out"] == b"seen\n"
    assert (ends["first", "client"]["status"], ends["second", "client"]["status"]) == (3, 0)
    table = result.numpy("programs")
    rows = zip(table["flow"], table["started_s"], table["ended_s"], strict=True)
    # Servers stay to the end.
    clients = {int(flow): (start, end) for flow, start, end in rows if end - start < 2.5}
    assert clients[0][1] > 0.5
    # Both hear of it within 20 ms, on a machine that has time.
    late = clients[1][0] - clients[0][1]
    assert 0 <= late < 0.03 or not result.meta["fit"]
    assert any("its client ended with status 3" in note for note in result.meta["notes"])


@engines
def test_a_program_may_end_with_the_statuses_that_are_given(run: Callable[..., tb.Result]) -> None:
    result = run(
        given(
            exec_("three", "sh -c 'exit 3'", status=3),
            exec_("either", "sh -c 'exit 0'", status="3 0"),
            exec_("shot", "sh -c 'kill -9 $$'", status=137),
            exec_("served", "sleep 100", "sh -c 'sleep 0.2; exit 6'", server_status=6, ready=0),
            exec_("zero", "sh -c 'exit 0'", status="3 4"),
            exec_("other", "sh -c 'exit 6'", server_status=6),
            duration="1s",
        ),
        allow_code=True,
    )
    assert result.failed_programs == [
        "flow zero: its client ended with status 0, and not with 3 or 4",
        "flow other: its client ended with status 6",
    ]


@needs_live
@pytest.mark.parametrize(
    ("ready_by", "said"),
    [
        ("file:up", "did not write the file up within 0.3 s"),
        ("line:ready", 'did not print a line with "ready" within 0.3 s'),
    ],
)
def test_a_server_that_shows_no_sign_is_named_with_it(ready_by: str, said: str) -> None:
    flow = exec_("one", "true", "sleep 1000", ready_by=ready_by, ready=0.3)
    with pytest.raises(live.LiveError, match=said):
        live.run(given(flow), allow_code=True)


@needs_live
def test_a_client_whose_turn_never_comes_is_named() -> None:
    late = exec_("late", "true", after="busy.client")
    result = live.run(given(exec_("busy", "sleep 1000"), late, duration="1s"), allow_code=True)
    assert any(note.startswith("flow late: its client never began") for note in result.meta["notes"])
    assert [row["flow"] for row in result.program_summary()] == ["busy"]


@pytest.mark.skipif(not live._HAS_LIVE, reason="live runs need Linux")
@pytest.mark.parametrize(
    ("params", "field", "said"),
    [
        ({"ready_by": "sleep"}, "ready_by", "file:NAME"),
        ({"ready_by": "file:../x"}, "ready_by", "file:NAME"),
        ({"status": "0,3"}, "status", "0,3 is no exit status. Give whole numbers from 0 to 255"),
        ({"server_status": -1}, "server_status", "-1 is no exit status"),
        ({"after": "absent"}, "after", "there is no flow absent"),
        ({"after": "call"}, "after", "flow call runs no programs"),
        ({"after": "other"}, "after", "flow other has no server"),
        ({"after": "one.client"}, "after", "one wait for one another"),
    ],
)
def test_an_order_that_cannot_be_is_refused_with_its_field(params: dict[str, str], field: str, said: str) -> None:
    flows = [exec_("one", "true", **params), exec_("other", "true"), tb.voip(name="call")]
    with pytest.raises(tb.ScenarioError) as refused:
        live.check(given(*flows))
    assert field in str(refused.value)
    assert said in str(refused.value)
