"""The flow of a command run on a host, and the command's exit status."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tailback.errors import Problem, ScenarioError
from tailback.result import schema

#: Exit status of timeout(1) for a command that was still running.
STOPPED = 124


def flow(resolved: Mapping[str, Any], on: str | None, server: str, cc: str) -> dict[str, Any]:
    """The resolved flow of a command on the host `on`, with the same other end as the first flow there.

    Raises `ScenarioError` if no flow begins or ends at `on`.
    """
    flows = resolved["flows"]
    on = flows[0]["from"] if on is None else on
    away = next((each for each in flows if each["from"] == on), None)
    toward = next((each for each in flows if each["to"] == on), None)
    if away is not None:
        ends = {name: away[name] for name in ("from", "to", "route", "back_route")}
    elif toward is not None:
        ends = {"from": on, "to": toward["from"], "route": toward["back_route"], "back_route": toward["route"]}
    else:
        hosts = ", ".join(sorted({each[end] for each in flows for end in ("from", "to")}))
        raise ScenarioError([Problem("on", on, "no flow of the scenario begins or ends there", f"There are {hosts}.")])
    names = {each["name"] for each in flows}
    name = "shell"
    while name in names:
        name += "_"
    params: dict[str, Any] = {"client": "true"}
    if server:
        params |= {"server": server} | ({} if "{port}" in server else {"ready": 0.0})
    tcp: dict[str, Any] = {
        "stack": "linux",
        "receiver_stack": None,
        "cc": cc,
        "cc_params": {},
        "cc_turns": [],
        "stack_params": {},
    }
    return {
        "name": name,
        **ends,
        "start_ps": 0,
        "stop_ps": None,
        "again": [],
        "app": {"kind": "exec", "params": params},
        "tcp": tcp | {"send_buffer": None, "receive_buffer": None, "mtu": 1500},
    }


def status(tables: Mapping[str, Any], number: int) -> int:
    """The exit status, as in a shell, of the command of flow `number`, from its run's tables."""
    rows = tables["programs"]
    client = schema.words("programs", "role").index("client")
    row = next(row for row, of in enumerate(rows["flow"]) if int(of) == number and int(rows["role"][row]) == client)
    if schema.words("programs", "fate")[int(rows["fate"][row])] != "exited":
        return STOPPED
    status, signal = float(rows["status"][row]), int(rows["signal"][row])
    return 128 + signal if math.isnan(status) else int(status)
