"""A scenario's own kernel modules and BPF queues, built for a guest, with their names there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tailback import _core, bpf, modules, registry
from tailback.algorithms import Source, disciplines
from tailback.errors import ScenarioError
from tailback.scenario import Scenario, bulk, dumbbell
from tailback.vm import build
from tailback.vm.kernels import Kernel

__all__ = ["OwnModule", "OwnQueue", "built", "compiled", "in_guest", "queues"]

#: Prefix of a BPF queue's name in a guest (crates/tailback-core/src/queue/outside.rs).
_PROGRAM = "tailback_q"
#: Follows the prefix if the queue reorders (crates/tailback-live/src/kernel_queue.rs).
_REORDERS = "r"
_SAYS_SO = re.compile(r"\btailback_reorders\s*=\s*(true|1)\b")


@dataclass(frozen=True)
class OwnModule:
    """A user's kernel module: its name in the scenario, the field that names it first, parameters and contents."""

    name: str
    field: str
    params: str
    module: build.Module
    #: Name that its queue discipline registers; None for a congestion control.
    queue: str | None = None


@dataclass(frozen=True)
class OwnQueue:
    """A user's BPF queue at one link: its name in the scenario, its link and its object file."""

    name: str
    field: str
    link: int
    #: Name in the kernel. Each link loads its own instance, with its own variables and maps.
    registered: str
    contents: bytes


def compiled(scenario: Scenario, resolved: Mapping[str, Any], sources: Mapping[str, Source]) -> list[OwnQueue]:
    """The queues in BPF that a resolved scenario names, compiled for a kernel; `ScenarioError` if one cannot be."""
    out = []
    for number, link in enumerate(resolved.get("links", ())):
        queue = link.get("queue") or {}
        name = str(queue.get("discipline", ""))
        _refuse_inside(scenario, queue, f"links[{number}].queue")
        if not bpf.is_source(name):
            continue
        field, text = f"links[{number}].queue.discipline", sources[name].text or ""
        registered = f"{_PROGRAM}{_REORDERS if _SAYS_SO.search(text) else ''}{number}"
        try:
            macros = bpf.macros(name, text, queue.get("params") or {})
            file = name.removeprefix(bpf.PREFIX)
            made = _core.bpf_queue_object(file, text, macros, registered)
        except ValueError as error:
            raise scenario.complaint(field, f'"{name}"', str(error), "Correct the parameters or the queue.") from None
        out.append(OwnQueue(name, field, number, registered, made))
    return out


def _refuse_inside(scenario: Scenario, queue: Mapping[str, Any], place: str) -> None:
    """Raise `ScenarioError` if a queue for the kernel stands inside another."""
    for field, name in disciplines(queue, place):
        if field != f"{place}.discipline" and (bpf.is_source(name) or modules.is_source(name)):
            raise scenario.complaint(
                field,
                json.dumps(name),
                "in a guest a queue of your own stands at a link's device, not inside another queue",
                "Give it to the link itself, or simulate: --engine sim",
            )


def built(
    scenario: Scenario, resolved: Mapping[str, Any], sources: Mapping[str, Source], kernel: Kernel
) -> list[OwnModule]:
    """The modules that a resolved scenario names, built for `kernel`; `ScenarioError` if one cannot be."""
    out: dict[str, OwnModule] = {}
    for field, name, given, is_queue in _named(resolved):

        def refused(problem: str, fix: str, at: str = field, what: str = name) -> ScenarioError:
            return scenario.complaint(at, json.dumps(what), problem, fix)

        try:
            made = build.build(name, sources[name].text or "", kernel)
            queue = build.queue_of(name, made) if is_queue else None
            if is_queue:
                given = {key: value for key, value in given.items() if key in made.parameters or not _is_known(queue)}
            words = build.parameters(name, made, given)
        except build.BuildError as error:
            raise refused(error.problem, f"{error.fix}.") from None
        known = out.setdefault(name, OwnModule(name, field, words, made, queue))
        if known.params != words:
            problem = f"a module is loaded once, and {known.field} gives it other parameters"
            raise refused(problem, "Give the same, or copy the module to a file and give it another name.")
        other = next((row for row in out.values() if row.queue and row.queue == queue and row.name != name), None)
        if other is not None:
            raise refused(f"it registers {queue}, as {other.name} does", "Give one of them another .id.")
    return list(out.values())


def _named(resolved: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any], bool]]:
    """The field, name and parameters of each module in a scenario, and whether it is a queue."""
    for number, link in enumerate(resolved.get("links", ())):
        queue = link.get("queue") or {}
        if modules.is_source(str(queue.get("discipline", ""))):
            yield f"links[{number}].queue.discipline", queue["discipline"], queue.get("params") or {}, True
    for number, flow in enumerate(resolved["flows"]):
        tcp = flow.get("tcp") or {}
        rows = [(f"flows[{number}].tcp.cc", tcp)]
        rows += [
            (f"flows[{number}].tcp.cc_turns[{turn}].cc", row) for turn, row in enumerate(tcp.get("cc_turns") or ())
        ]
        for field, row in rows:
            if modules.is_source(str(row.get("cc", ""))):
                yield field, row["cc"], row.get("cc_params") or {}, False


def _is_known(queue: str | None) -> bool:
    """Whether the kernel has a discipline of this name with a model's card."""
    return queue in registry.load().kernel_queues


def in_guest(
    scenario: Scenario, resolved: Mapping[str, Any], own: list[OwnModule], programs: list[OwnQueue]
) -> dict[str, Any]:
    """The scenario in the form that the guest reads: queues by their registered names, with their card's parameters."""
    by_link = {row.link: row for row in programs}
    by_name = {row.name: row for row in own}
    links = []
    for number, link in enumerate(resolved.get("links", ())):
        queue = link.get("queue") or {}
        if number in by_link:
            # The queue's parameters are compiled in.
            link = link | {"queue": {"discipline": f"{modules.PREFIX}{by_link[number].registered}", "params": {}}}
        row = by_name.get(str(queue.get("discipline", "")))
        if row is not None and row.queue is not None:
            given = {key: value for key, value in queue["params"].items() if key not in row.module.parameters}
            params = _by_card(scenario, f"links[{number}].queue.params", row.queue, given)
            link = link | {"queue": {"discipline": f"{modules.PREFIX}{row.queue}", "params": params}}
        links.append(link)
    return dict(resolved) | ({"links": links} if links else {})


def _by_card(scenario: Scenario, field: str, queue: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters under the names and units of the model card for the kernel's discipline of that name."""
    if not given:
        return {}
    asked = {"discipline": f"kernel:{queue}", **given}
    one = dumbbell(rate="10mbit", rtt="40ms", queue=asked, flows=[bulk("reno")], duration="1s")
    try:
        rows = [link.get("queue") or {} for link in one.resolve(live=True)["links"]]
    except ScenarioError as error:
        first = error.problems[0]
        key = first.field.rpartition(".")[2]
        at = f"{field}.{key}" if key in given else field
        raise scenario.complaint(at, json.dumps(first.value, default=str), first.problem, first.fix) from None
    return next(dict(row["params"]) for row in rows if row.get("discipline") == asked["discipline"])


def queues(
    resolved: Mapping[str, Any], own: list[OwnModule], programs: list[OwnQueue], sources: Mapping[str, Source]
) -> dict[str, dict[str, str]]:
    """The value of `result.meta["queues"]`: by link, the queue's source, registered name and source digest."""
    by_name = {row.name: row for row in own if row.queue is not None}
    by_link = {row.link: row.registered for row in programs}
    return {
        str(link["name"]): {
            "discipline": name,
            "registered": by_link.get(number) or str(by_name[name].queue),
            "sha256": sources[name].sha256 or "",
        }
        for number, link in enumerate(resolved.get("links", ()))
        if (name := str((link.get("queue") or {}).get("discipline", ""))) in by_name or number in by_link
    }
