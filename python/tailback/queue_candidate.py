"""A queue to examine: what its user wrote, what it declares, and the unit of its limit.

What `candidate` distinguishes:

- "fq_codel" or "pie,target=20ms": built in, with parameters;
- "drop-tail-bytes" and "drop-tail-packets": a FIFO that counts the cell's limit in one or the other;
- "kernel:fq_codel" or "kernel:pie,target=20ms": a kernel's own, which runs in guests (`Vm`) alone;
- "module:sch_mine.c": a kernel module, which guests alone load; it runs code and wants `allow_code`;
- "mine.py:MyQueue", "package.module:MyQueue" or "python:…": a Python class, likewise;
- "mine/Cargo.toml" or "rust:mine", "mine.bpf.c" or "bpf:mine.bpf.c": a crate in Rust or BPF source, likewise;
- a table as a scenario has it: `{"discipline": "codel", "target": "5ms"}`, or its TOML text;
- in Python, the class itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tailback import bpf, modules, native, queues, registry
from tailback.algorithms import algorithm, is_reference, load, registered, sources
from tailback.candidate import Candidate, needs_guest
from tailback.candidate import table as parsed
from tailback.checksums import digest
from tailback.errors import ScenarioError, TailbackError, nearest
from tailback.scenario import bulk, dumbbell
from tailback.units import Duration

__all__ = [
    "DEFAULT_BURST_MS",
    "DEFAULT_TARGET_MS",
    "DROP_TAILS",
    "QueueCandidate",
    "candidate",
    "means_a_queue",
    "names_a_queue",
]

#: Default target of a queue that declares none: PIE's (RFC 8033), the longest of the IETF's AQMs.
DEFAULT_TARGET_MS = 15.0
#: Default burst allowance of a queue that declares none: a worst-case round trip, CoDel's interval (RFC 8289).
DEFAULT_BURST_MS = 100.0
#: FIFOs by the unit of their limit.
DROP_TAILS = {"drop-tail-bytes": "bytes", "drop-tail-packets": "packets"}
_KERNEL = "kernel:"
_NUMBER = re.compile(r"[0-9.]+")
#: Unit of a kernel queue's limit, where its model uses another unit.
_KERNEL_LIMITS = {"bfifo": "bytes", "red": "bytes"}
#: Parameters that hold a target or a burst allowance, in milliseconds; CAKE's target is a twentieth of its `rtt`.
_TARGETS = ("target_ms",)
_BURSTS = ("max_burst_ms", "interval_ms", "rtt_ms")


@dataclass(frozen=True)
class QueueCandidate(Candidate):
    """A queue that can be assessed."""

    #: Declared target delay, and declared burst allowance, in milliseconds.
    target_ms: float = DEFAULT_TARGET_MS
    burst_ms: float = DEFAULT_BURST_MS
    #: What it isolates: "flows", "hosts", or "" for nothing.
    isolates: str = ""
    #: Whether it drops at the head: the packet that has waited longest.
    drops_at_head: bool = False
    #: Unit of its limit: "packets", "bytes", "memory", or "" if it takes none.
    limits: str = "packets"
    #: Whether it marks only if its parameter `ecn` is on.
    takes_ecn: bool = False

    @property
    def needs_guest(self) -> bool:
        """Whether only a guest has it: a kernel's own, or a module."""
        return needs_guest(self.name)

    @property
    def table(self) -> dict[str, Any]:
        """The `queue` of a scenario, without the cell's limit."""
        return {"discipline": self.cc} if isinstance(self.cc, str) else dict(self.cc)

    @property
    def name(self) -> str:
        """The discipline's name."""
        return str(self.table["discipline"])


def names_a_queue(what: Any, *, allow_code: bool = False) -> bool:
    """Whether this names a queue. A class in a file is loaded only with `allow_code`."""
    if isinstance(what, QueueCandidate):
        return True
    if callable(what):
        return queues.is_queue(what)
    if isinstance(what, Mapping):
        return "discipline" in what
    if not isinstance(what, str):
        return False
    name = str(_table(what).get("discipline", ""))
    if name in registry.names("queues") or name in DROP_TAILS or name.startswith(_KERNEL):
        return True
    if name in registered():
        return queues.is_queue(registered()[name])
    if modules.is_source(name):
        return allow_code and modules.is_queue(modules.read(name))
    if allow_code and (compiled := native.written(name)):
        return native.has_queue(compiled)
    if not allow_code or (".py:" not in name and not name.startswith("python:")):
        return False
    return queues.is_queue(load(name.removeprefix("python:")))


def means_a_queue(what: Any) -> bool:
    """Whether this is an unknown name, more similar to a queue's than to any congestion control's."""
    if not isinstance(what, str):
        return False
    word = what.partition(",")[0].strip()
    if ":" in word or "." in word or "/" in word or word in registry.names("algorithms"):
        return False
    return nearest(word, _names()) is not None and nearest(word, registry.names("algorithms")) is None


def _names() -> list[str]:
    return [*registry.names("queues"), *DROP_TAILS]


def candidate(
    what: str | Mapping[str, Any] | Callable[..., Any] | Candidate, *, allow_code: bool = False
) -> QueueCandidate:
    """The queue that `what` names, checked: it can be run with these parameters.

    >>> found = candidate("pie,target=20ms")
    >>> found.target_ms, found.burst_ms, found.limits
    (20.0, 150.0, 'packets')
    >>> candidate("fq_kodel")
    Traceback (most recent call last):
    tailback.errors.TailbackError: there is no queue "fq_kodel". Did you mean "fq_codel"? ...
    """
    if isinstance(what, QueueCandidate):
        return what
    if isinstance(what, Candidate):
        raise TailbackError(f"{what.label} is no queue")
    table = _registered(what) if callable(what) else _table(what) if isinstance(what, str) else dict(what)
    name = str(table.get("discipline", ""))
    label = _label(table)
    if name in DROP_TAILS:
        table["discipline"] = "fifo"
        return _built_in(label, table, DROP_TAILS[name])
    if name.startswith(_KERNEL):
        return _of_kernel(label, table)
    if name in registry.names("queues"):
        if name == "token_bucket":
            raise TailbackError("a token_bucket is a shaper with a rate of its own: judge the queue inside it")
        return _built_in(label, table, _limits(name))
    return _own(label, name, table, allow_code)


def _of_kernel(label: str, table: dict[str, Any]) -> QueueCandidate:
    """A kernel's queue, which declares the same as its model."""
    _demand_sound(label, table, allow_code=False)
    name = str(table["discipline"]).removeprefix(_KERNEL)
    model = registry.load().kernel_queues[name]
    limits = _KERNEL_LIMITS.get(name, _limits(model))
    declared = _declared(model, table, limits)
    return QueueCandidate(label=label, cc=dict(table), kind="kernel", allow_code=False, **declared)


def _limits(name: str) -> str:
    names = {param.name for param in registry.card("queues", name).params}
    return "packets" if "limit_packets" in names else "memory" if "memory_limit" in names else ""


def _built_in(label: str, table: dict[str, Any], limits: str) -> QueueCandidate:
    _demand_sound(label, table, allow_code=False)
    declared = _declared(str(table["discipline"]), table, limits)
    return QueueCandidate(label=label, cc=dict(table), kind="built-in", allow_code=False, **declared)


def _declared(name: str, table: dict[str, Any], limits: str) -> dict[str, Any]:
    """The properties that a discipline declares by its card, with these parameters."""
    card = registry.card("queues", name)
    limits = "" if any(key.startswith("limit") or key == "memory_limit" for key in table) else limits
    declared = {_in_ms_named(param): _default(param, table) for param in card.params}
    rtt_ms = _in_ms(table, "rtt_ms", declared)
    target = rtt_ms / 20.0 if rtt_ms is not None else _first(table, _TARGETS, declared)
    burst = _first(table, _BURSTS, declared)
    return {
        "digest": digest(json.dumps([table, limits], sort_keys=True, default=str).encode()),
        "target_ms": DEFAULT_TARGET_MS if target is None else target,
        "burst_ms": DEFAULT_BURST_MS if burst is None else burst,
        "isolates": card.isolates,
        "drops_at_head": card.drops_at_head or (name == "fifo" and table.get("drop") == "head"),
        "limits": limits,
        "takes_ecn": card.param("ecn") is not None and "ecn" not in table,
    }


def _in_ms_named(param: registry.Param) -> str:
    """A parameter's name in the spelling of users' queues: `name_ms` for a time."""
    return f"{param.name}_{param.unit}" if param.kind == "time" else param.name


def _default(param: registry.Param, table: Mapping[str, Any]) -> float | None:
    """Default of a numeric parameter; if it depends on the variant, from the card: "150; ns-3.27 100"."""
    if param.depends is not None:
        words = [part.split() for part in param.depends.replace(",", ";").split(";")]
        mine = [each for each in words if len(each) == 2 and each[0] == table.get("variant")]
        text = (mine or words)[0][-1] if words[0] else ""
        return float(text) if _NUMBER.fullmatch(text) else None
    return float(param.default) if isinstance(param.default, int | float) else None


def _compiled(label: str, table: dict[str, Any]) -> QueueCandidate:
    """A crate declares the properties in its `ABOUT`, a BPF source only its parameters."""
    name = str(table["discipline"])
    _demand_sound(label, table, allow_code=True)
    resolved = _resolved(table, True)
    link = next(link for link in resolved["links"] if link["queue"]["discipline"] == name)
    about = native.about_queue(name, link["queue"].get("params") or {}, link["rate_bps"])
    limits = "" if any(key.startswith("limit") for key in table) else about.limit
    numbers = {key: float(value) for key, value in about.parameters.items() if _NUMBER.fullmatch(value)}
    promised = {key: float(about.declares[key]) for key in ("target_ms", "burst_ms") if key in about.declares}
    target = _first(table, _TARGETS, numbers)
    burst = _first(table, ("burst_ms", *_BURSTS), numbers)
    source = sources(resolved, None)[name]
    given = json.dumps([table, limits, source.sha256], sort_keys=True, default=str)
    return QueueCandidate(
        label=label,
        cc=dict(table),
        kind=name.partition(":")[0],
        allow_code=True,
        digest=digest(given.encode()),
        source=source.text,
        target_ms=promised.get("target_ms", DEFAULT_TARGET_MS) if target is None else target,
        burst_ms=promised.get("burst_ms", DEFAULT_BURST_MS) if burst is None else burst,
        isolates=about.declares.get("isolates", ""),
        drops_at_head=about.declares.get("drops_at_head") == "true",
        limits=limits,
        takes_ecn="ecn" in about.parameters and "ecn" not in table,
    )


def _of_module(label: str, table: dict[str, Any]) -> QueueCandidate:
    """A module. One that registers the name of a kernel's queue declares what that queue's model does."""
    name = str(table["discipline"])
    _demand_sound(label, table, allow_code=True)
    source = sources(_resolved(table, True), None)[name]
    if not modules.is_queue(source.text or ""):
        raise TailbackError(
            f'"{name}" is no queue: its source has no Qdisc_ops. Give a module with a queue discipline, or judge a '
            "congestion control beside others"
        )
    model = registry.load().kernel_queues.get(modules.registers(source.text or ""))
    declared = _declared(model, table, _limits(model)) if model else {"limits": ""}
    given = json.dumps([table, declared["limits"], source.sha256], sort_keys=True, default=str)
    declared["digest"] = digest(given.encode())
    return QueueCandidate(label=label, cc=dict(table), kind="module", allow_code=True, source=source.text, **declared)


def _own(label: str, name: str, table: dict[str, Any], allow_code: bool) -> QueueCandidate:
    made_by: Any
    if name in registered():
        made_by, runs_code = registered()[name], False
    elif modules.is_source(name) and allow_code:
        return _of_module(label, table)
    elif ":" in name or native.written(name):
        if not allow_code:
            raise TailbackError(
                f'the candidate "{name}" is code, which would be run. Read it first; then allow it with --allow-code, '
                "or allow_code=True in Python."
            )
        if compiled := native.written(name):
            table = {**table, "discipline": compiled}
            return _compiled(_label(table), table)
        name = name if is_reference(name) else f"python:{name}"
        made_by, runs_code = load(name.removeprefix("python:")), True
        table = {**table, "discipline": name}
    else:
        known = _names()
        close = nearest(name, known)
        hint = f' Did you mean "{close}"?' if close else ""
        raise TailbackError(
            f'there is no queue "{name}".{hint} There are: {", ".join(known)}; classes of your own, as '
            "file.py:Class; Rust crates, as mine/Cargo.toml; BPF sources, as mine.bpf.c; and kernel modules, as "
            "module:sch_mine.c"
        )
    if not queues.is_queue(made_by):
        raise TailbackError(f'"{name}" is no queue: it has no enqueue and dequeue')
    if read := queues.clock_read(made_by):
        raise TailbackError(f'queue "{label}" reads what no run repeats: {read}. Take the argument now for time')
    accepted = queues.parameters(made_by)
    limits = queues.limit_of(made_by)
    limits = "" if any(key.startswith("limit") for key in table) else limits
    defaults = {key: value for key, value in accepted.items() if isinstance(value, int | float)}
    of_class = {key: getattr(made_by, key) for key in ("target_ms", "burst_ms") if hasattr(made_by, key)}
    target = _first(table, _TARGETS, defaults)
    burst = _first(table, ("burst_ms", *_BURSTS), defaults)
    _demand_sound(label, table, allow_code=allow_code)
    resolved = _resolved(table, allow_code)
    source = sources(resolved, None).get(name)
    given = json.dumps([table, limits, source.sha256 if source else None], sort_keys=True, default=str)
    return QueueCandidate(
        label=label,
        cc=dict(table),
        kind="python",
        allow_code=runs_code,
        digest=digest(given.encode()),
        source=source.text if source else None,
        target_ms=float(of_class.get("target_ms", DEFAULT_TARGET_MS) if target is None else target),
        burst_ms=float(of_class.get("burst_ms", DEFAULT_BURST_MS) if burst is None else burst),
        isolates=str(getattr(made_by, "isolates", "")),
        drops_at_head=bool(getattr(made_by, "drops_at_head", False)),
        limits=limits,
        takes_ecn="ecn" in accepted and "ecn" not in table,
    )


def _first(table: Mapping[str, Any], names: tuple[str, ...], defaults: Mapping[str, Any]) -> float | None:
    return next((value for name in names if (value := _in_ms(table, name, defaults)) is not None), None)


def _in_ms(table: Mapping[str, Any], name: str, defaults: Mapping[str, Any]) -> float | None:
    """A parameter in milliseconds, given as `name_ms` or with a unit as `name`; else its default."""
    for key in (name, name.removesuffix("_ms")):
        if key in table:
            value = table[key]
            return float(value) if isinstance(value, int | float) else Duration(str(value)).seconds * 1e3
    return float(defaults[name]) if defaults.get(name) is not None else None


def _registered(made_by: Callable[..., Any]) -> dict[str, Any]:
    name = getattr(made_by, "__name__", type(made_by).__name__).strip("<>").lower()
    if registered().get(name) is not made_by:
        algorithm(name, made_by)
    return {"discipline": name}


def _table(text: str) -> dict[str, Any]:
    return parsed(text, "discipline", "pie,target=20ms")


def _label(table: Mapping[str, Any]) -> str:
    """A short label without folders."""
    name = str(table["discipline"])
    # Distinguishes a kernel's queue from the model of the same name.
    name = name if name.startswith(_KERNEL) else name.rpartition(":")[2].rpartition("/")[2].removesuffix(bpf.ENDING)
    # In TOML's spelling, so that it can be pasted.
    given = (f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in table.items())
    return " ".join([name, *(each for each in given if not each.startswith("discipline="))])


def _demand_sound(label: str, table: Mapping[str, Any], *, allow_code: bool) -> None:
    """Raise the engine's errors for the discipline and its parameters, with their names."""
    try:
        _resolved(table, allow_code)
    except ScenarioError as error:
        problems = []
        for problem in error.problems:
            field = problem.field.rpartition("queue.")[2] if "queue." in problem.field else ""
            problems.append(f"{field + ': ' if field else ''}{problem.problem}. {problem.fix}".rstrip())
        raise TailbackError(f"the queue {label} cannot be run: {'; '.join(problems)}") from None


def _resolved(table: Mapping[str, Any], allow_code: bool) -> dict[str, Any]:
    scenario = dumbbell(rate="10mbit", rtt="40ms", queue=dict(table), flows=[bulk("reno")], duration="1s")
    return scenario.resolve(allow_code=allow_code, live=needs_guest(str(table["discipline"])))
