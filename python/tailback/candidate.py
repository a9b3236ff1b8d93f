"""A congestion control or transport to examine: what its user wrote, as fields of a scenario's flow.

What `candidate` distinguishes:

- "cubic" or "cubic,beta=0.5": built in, with parameters;
- "mine.py:Mine", "package.module:Mine" or "python:…": a Python class, which runs code and needs `allow_code`;
- "mine.bpf.c" or "bpf:mine.bpf.c": a source as people write them for the kernel, likewise;
- "mine/Cargo.toml" or "rust:mine": a crate in Rust, likewise;
- "quinn" or "quinn,cc=bbr": another project's transport, whole, with one of its own congestion controls;
- "stack.c", "c:stack.c" or a class with `connect`: a transport of the user's own, likewise, which wants `allow_code`;
- "noq-proto@1.1.0": a version of a QUIC stack's crate, which is compiled, likewise;
- "module:tcp_mine.c": a kernel module, which guests alone load, likewise;
- "program:mine.toml" or "program:mine.toml,cc=bbr": a program, which runs on a kernel, likewise;
- a table as a scenario has it: `{"name": "cubic", "beta": 0.5}`, or its TOML text;
- in Python, the class itself.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tailback import bpf, crates, modules, native, programs, registry, stacks
from tailback.algorithms import Algorithm, algorithm, is_reference, load, registered, sources
from tailback.checksums import digest
from tailback.errors import ScenarioError, TailbackError, nearest
from tailback.scenario import bulk, dumbbell
from tailback.stacks import versions

__all__ = ["Candidate", "candidate", "engines_of", "flow_fields", "needs_guest", "table"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Candidate:
    """A congestion control, or a transport with its own, that can be run."""

    #: Label in tables and pictures.
    label: str
    #: Value for a scenario's `cc`; for a transport, a table with `transport` and `cc` for `flow_fields`.
    cc: str | dict[str, Any]
    #: "built-in", "python", "bpf", "rust", "transport", "module" or "program".
    kind: str
    #: Whether it runs code; the caller of `candidate` has then allowed it.
    allow_code: bool
    #: Digest of name, parameters and source: equal candidates behave alike under one engine.
    digest: str
    #: Source text; None for a built-in algorithm, and for a class without a file.
    source: str | None = None

    @property
    def name(self) -> str:
        """The name without parameters."""
        return self.cc if isinstance(self.cc, str) else str(self.cc.get("transport") or self.cc["name"])

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines that can run it, preferred one first."""
        return engines_of(self.name)

    @property
    def version(self) -> str:
        """Version of a built-in transport; empty for all others."""
        known = _transports().get(self.name) if self.kind == "transport" else None
        return known.version if known else ""

    @property
    def written(self) -> str:
        """As the value of `--set flow.NAME.cc=…` on the command line, or of `cc` in a scenario's file."""
        if isinstance(self.cc, str):
            return json.dumps(self.cc)
        rows = (
            f"{key if _BARE.fullmatch(key) else json.dumps(key)} = {_toml(value)}" for key, value in self.cc.items()
        )
        return f"{{ {', '.join(rows)} }}"


def needs_guest(name: str) -> bool:
    """Whether only a guest has what `name` names: a kernel module, or a kernel's own queue.

    >>> needs_guest("module:sch_mine.c"), needs_guest("kernel:pie"), needs_guest("pie")
    (True, True, False)
    """
    return modules.is_source(name) or name.startswith("kernel:")


def engines_of(name: str) -> tuple[str, ...]:
    """The engines that can run a scenario's `cc`, `transport` or `discipline`, preferred one first.

    >>> engines_of("module:tcp_mine.c"), engines_of("program:mine.toml")
    (('vm',), ('vm', 'live'))
    """
    if needs_guest(name):
        return ("vm",)
    if programs.is_source(name):
        return ("vm", "live")
    if name in registered() or crates.is_source(name) or stacks.is_source(name) or name.startswith("python:"):
        return ("sim",)
    return ("sim", "vm", "live")


def flow_fields(cc: str | Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a flow that a candidate's `cc` sets; a transport's flow has no `stack` of ours.

    >>> flow_fields({"transport": "quinn", "cc": "bbr"})
    {'transport': 'quinn', 'cc': 'bbr', 'stack': None}
    """
    if isinstance(cc, Mapping) and "transport" in cc:
        return {"transport": cc["transport"], "cc": cc["cc"], "stack": None}
    return {"cc": cc if isinstance(cc, str) else dict(cc)}


def candidate(
    what: str | Mapping[str, Any] | Callable[..., Algorithm] | Candidate, *, allow_code: bool = False
) -> Candidate:
    """The candidate that `what` names, checked: it can be run with these parameters.

    A class is registered under its lower-case name, as by `algorithm`. Other code is imported only with
    `allow_code`. Raises `TailbackError`, which names the nearest built-in algorithm.

    >>> import tailback as tb
    >>> tb.candidate("cubic,beta=0.5").cc
    {'name': 'cubic', 'beta': 0.5}
    >>> tb.candidate("qubic")
    Traceback (most recent call last):
    tailback.errors.TailbackError: there is no congestion control "qubic". Did you mean "cubic"? ...
    """
    if isinstance(what, Candidate):
        return what
    cc = _registered(what) if callable(what) else table(what) if isinstance(what, str) else dict(what)
    name = cc.get("name", cc.get("transport"))
    if not isinstance(name, str) or not name:
        raise TailbackError(f"the candidate {what!r} has no name. Write for example cubic, or cubic,beta=0.5")
    if name in _transports() and name not in _known():
        return _transport(name, cc)
    if programs.is_source(name):
        return _program(name, cc, allow_code)
    runs_code, is_version = is_reference(name), versions.is_version(name)
    if name not in _known() and not runs_code:
        if not is_version and ":" not in name and not name.endswith((bpf.ENDING, crates.MANIFEST, stacks.ENDING)):
            raise TailbackError(_unknown(name))
        runs_code = True
    if runs_code and not allow_code:
        raise TailbackError(_not_allowed(name))
    if is_version:
        name = f"{stacks.PREFIX}{versions.source(name)}"
    elif not is_reference(name) and runs_code:
        name = _referring(name)
    if stacks.is_source(name) or (name.startswith("python:") and stacks.is_stack(load(name.removeprefix("python:")))):
        return _own_transport(name, cc)
    cc = {"name": name} | {key: value for key, value in cc.items() if key != "name"}
    # The guest's kernel checks a module's parameters; the module is not loaded here.
    resolved = _checked(cc, allow_code and not modules.is_source(name))
    source = sources(resolved, None).get(name)
    if modules.is_source(name) and source and modules.is_queue(source.text or ""):
        raise TailbackError(
            f'the candidate "{_place(name)}" is a queue, and this asks for a congestion control. '
            f'Give it to a scenario: queue = "{name}"'
        )
    kind = "built-in" if source is None else name.partition(":")[0] if native.is_source(name) else "python"
    given = json.dumps([cc, source.sha256 if source else None], sort_keys=True, default=str)
    return Candidate(
        label=_label(cc),
        cc=cc if len(cc) > 1 else name,
        kind=kind,
        allow_code=runs_code,
        digest=digest(given.encode()),
        source=source.text if source else None,
    )


def _transports() -> dict[str, registry.Transport]:
    return {row.name: row for row in registry.load().transports}


def _transport(name: str, given: Mapping[str, Any]) -> Candidate:
    """A transport with one of its congestion controls, by default the first."""
    known = _transports()[name].algorithms
    for key in given:
        if key not in ("name", "transport", "cc"):
            raise TailbackError(
                f'the candidate {name} has no parameter "{key}". Write for example {name},cc={known[-1]}'
            )
    cc = given.get("cc", known[0])
    if cc not in known:
        close = nearest(str(cc), known)
        hint = f' Did you mean "{close}"?' if close else ""
        raise TailbackError(f'{name} has no congestion control "{cc}".{hint} There are: {", ".join(known)}')
    fields = {"transport": name, "cc": cc}
    identity = json.dumps([fields, _transports()[name].version], sort_keys=True)
    return Candidate(f"{name} {cc}", fields, "transport", allow_code=False, digest=digest(identity.encode()))


def _own_transport(name: str, given: Mapping[str, Any]) -> Candidate:
    """A user's transport with one of its congestion controls, by default the first."""
    for key in given:
        if key not in ("name", "transport", "cc"):
            raise TailbackError(
                f'the candidate {_place(name)} has no parameter "{key}". Write for example {name},cc=reno'
            )
    text: str | None = None
    if stacks.is_source(name):
        text = stacks.read(name)
        try:
            _, known = stacks.Declared(name, text).as_stack()
        except ValueError as error:
            raise TailbackError(f"the candidate {_place(name)} cannot be run: {error}") from None
    else:
        known = list(load(name.removeprefix("python:")).algorithms)  # type: ignore[attr-defined]
    fields = {"transport": name, "cc": given.get("cc", known[0])}
    label = _label({"name": name})
    resolved = _resolved(bulk(fields["cc"], transport=name), f"{label} {fields['cc']}", allow_code=True)
    source = sources(resolved, None)[name]
    identity = json.dumps([fields, source.sha256], sort_keys=True)
    return Candidate(
        f"{label} {fields['cc']}",
        fields,
        "transport",
        allow_code=True,
        digest=digest(identity.encode()),
        source=source.text,
    )


def _program(name: str, given: Mapping[str, Any], allow_code: bool) -> Candidate:
    """A program, given by the file that describes it."""
    found = programs.read(name)
    if not allow_code:
        raise TailbackError(_not_allowed(name))
    cc = {"name": name} | {key: value for key, value in given.items() if key != "name"}
    label = " ".join([found.file.stem, *(str(value) for key, value in cc.items() if key == "cc")])
    _resolved(bulk(cc), label, allow_code=True, live=True)
    identity = json.dumps([cc, found.text], sort_keys=True, default=str)
    return Candidate(label, cc if len(cc) > 1 else name, "program", True, digest(identity.encode()), found.text)


def _not_allowed(name: str) -> str:
    return (
        f'the candidate "{_place(name)}" is code, which would be run. Read it first; then allow it '
        "with --allow-code, or allow_code=True in Python."
    )


def _referring(name: str) -> str:
    """The name in the form of a scenario's `cc`."""
    if name.endswith(crates.MANIFEST):
        return crates.written(name)
    if name.endswith(bpf.ENDING):
        return f"{bpf.PREFIX}{name}"
    return f"{stacks.PREFIX}{name}" if name.endswith(stacks.ENDING) else f"python:{name}"


def _registered(made_by: Callable[..., Algorithm]) -> dict[str, Any]:
    name = getattr(made_by, "__name__", type(made_by).__name__).strip("<>").lower()
    if registered().get(name) is not made_by:
        algorithm(name, made_by)
    return {"name": name}


def table(text: str, key: str = "name", example: str = "cubic,beta=0.5") -> dict[str, Any]:
    """`name`, `name,parameter=value,…`, or a table in TOML; the name is under `key`.

    >>> table("pie,target=20ms", "discipline")
    {'discipline': 'pie', 'target': '20ms'}
    """
    if text.lstrip().startswith("{"):
        try:
            return dict(tomllib.loads(f"given = {text}")["given"])
        except tomllib.TOMLDecodeError as error:
            raise TailbackError(f"the candidate {text} is no table in TOML: {error}") from None
    name, *rest = text.split(",")
    found: dict[str, Any] = {key: name.strip()}
    for part in rest:
        parameter, equals, value = part.partition("=")
        if not equals or not parameter.strip():
            raise TailbackError(f'the candidate "{text}": "{part}" is no parameter. Write for example {example}')
        try:
            found[parameter.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            # A plain word is a name, or a quantity such as 5ms.
            found[parameter.strip()] = value.strip()
    return found


def _known() -> list[str]:
    return [*registry.names("algorithms"), *registry.load().controllers, *sorted(registered())]


def _unknown(name: str) -> str:
    known = _known()
    close = nearest(name, known) or nearest(name, _transports())
    hint = f' Did you mean "{close}"?' if close else ""
    return (
        f'there is no congestion control "{name}".{hint} There are: {", ".join(known)}; classes of your own, as '
        "file.py:Class or module:Class; BPF sources, as mine.bpf.c; Rust crates, as mine/Cargo.toml; "
        "transports in C, as stack.c; kernel modules, as module:tcp_mine.c; programs, as program:mine.toml; and "
        f"transports, as quinn,cc=bbr: {', '.join(_transports())}"
    )


def _checked(cc: dict[str, Any], allow_code: bool) -> dict[str, Any]:
    """The resolved scenario with the candidate; raises the engine's errors."""
    return _resolved(bulk(cc), _label(cc), allow_code)


def _resolved(flow: Any, label: str, allow_code: bool, *, live: bool = False) -> dict[str, Any]:
    try:
        scenario = dumbbell(rate="10mbit", rtt="40ms", flows=[flow], duration="1s")
        return scenario.resolve(allow_code=allow_code, live=live)
    except ScenarioError as error:
        problems = []
        for problem in error.problems:
            field = problem.field.rpartition("cc.")[2] if "cc." in problem.field else ""
            problems.append(f"{field + ': ' if field else ''}{problem.problem}. {problem.fix}".rstrip())
        raise TailbackError(f"the candidate {label} cannot be run: {'; '.join(problems)}") from None


def _label(cc: Mapping[str, Any]) -> str:
    """A short label without folders: tables are narrow, and a page may be published."""
    name = _place(str(cc["name"])).rpartition(":")[2].rstrip("/").rpartition("/")[2].removesuffix(bpf.ENDING)
    given = [f"{key}={value}" for key, value in cc.items() if key != "name"]
    return " ".join([name, *given])


def _place(name: str) -> str:
    for prefix in ("python:", bpf.PREFIX, crates.PREFIX, stacks.PREFIX, modules.PREFIX, programs.PREFIX):
        name = name.removeprefix(prefix)
    return name


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else json.dumps(str(value), ensure_ascii=False)
