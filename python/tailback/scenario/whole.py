"""The whole scenario: reading, changing, resolving and writing it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tailback import _core, examples, hooks, programs, traces
from tailback.algorithms import Factory, factories, is_reference, referenced
from tailback.consent import without_references
from tailback.errors import Problem, ScenarioError, TailbackError, UnitError
from tailback.scenario.parts import Part, ScenarioFields
from tailback.views import view

#: Line and column of each field in a file, without fields that were changed since.
Positions = Mapping[str, tuple[int, int] | None]


class Scenario(ScenarioFields):
    """One experiment. Either a `dumbbell` or `links` describes the path; `flows` are the traffic on it.

    Frozen; `with_` makes variations. Text with units is accepted for every quantity. Raises `ScenarioError`, which
    lists all errors with field, value and fix.

    >>> import tailback as tb
    >>> scenario = tb.Scenario(
    ...     duration="60s", dumbbell={"rate": "10mbit", "rtt": "80ms"}, flows=[tb.bulk("cubic"), tb.voip()]
    ... )
    >>> scenario.resolve()["links"][0]["queue"]["params"]
    {'limit_bytes': 100000}
    """

    #: The file that it was read from.
    _file: str | None
    _places: Positions
    # Texts passed to `with_`: files that the caller names may be anywhere. None if changes come from a file too.
    _given: frozenset[str] | None
    #: The text that it was read from; None after a change.
    _text: str | None = None

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self._keep(None, {}, frozenset())

    @classmethod
    def _made(cls, full: dict[str, Any]) -> Scenario:
        scenario: Scenario = super()._made(full)
        return scenario._keep(None, {}, frozenset())

    def _keep(
        self, file: str | None, places: Positions, given: frozenset[str] | None, text: str | None = None
    ) -> Scenario:
        self.__dict__.update(_file=file, _places=places, _given=given, _text=text)
        return self

    # -- reading and writing

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Scenario:
        """Read a scenario file. Raises `ScenarioError` with all errors, with line and column if known."""
        text = read_file(
            path, "Give a scenario file; `tailback examples` lists and copies those that come with tailback"
        )
        return cls.parse_toml(text, file=os.fspath(path))

    @classmethod
    def parse_toml(cls, text: str, *, file: str | None = None) -> Scenario:
        """Read a scenario from TOML text; `file` is its name in errors."""
        data, places = toml_read(text, file, "docs/scenario.md")
        if "base" in data:
            fix = "Run it with `tailback sweep`, or give the scenario that it is based on"
            problem = Problem("base", data["base"], "this is a sweep of scenarios, not a scenario", fix, file)
            raise ScenarioError([problem]).located(file, places)
        try:
            return cls.from_dict(data)._keep(file, places, frozenset(), text)
        except ScenarioError as error:
            raise error.located(file, places) from None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Scenario:
        """A scenario from nested dictionaries and lists as TOML gives them."""
        return cls._made(_core.scenario_part("Scenario", data, False))

    @classmethod
    def from_resolved(cls, resolved: Mapping[str, Any]) -> Scenario:
        """The general network that a resolved scenario describes."""
        return cls.from_dict(_core.scenario_unresolve(resolved))

    def plain(self) -> dict[str, Any]:
        """The same as `to_dict`."""
        return self.to_dict()

    def to_dict(self) -> dict[str, Any]:
        """Nested dictionaries in TOML's form: defaults left out, quantities as text."""
        plain: dict[str, Any] = _core.scenario_part("Scenario", self, True)
        return plain

    def to_toml(self) -> str:
        """TOML text that reads back as an equal scenario."""
        return _core.scenario_toml(self)

    @property
    def written(self) -> str:
        """The text of its file, with comments; `to_toml()` if it was made or changed in Python."""
        return self.to_toml() if self._text is None else self._text

    # -- variations

    def with_(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> Scenario:
        """A copy with some values changed, each given by its path; in keywords `__` replaces the dot.

        A flow or link is selected by number or by name: `flow[0].cc`, `flow.bulk.cc`. `None` removes a value.

        >>> import tailback as tb
        >>> base = tb.dumbbell(rate="10mbit", rtt="80ms", flows=[tb.bulk()], duration="60s")
        >>> base.with_({"flow[0].cc": "htcp"}, dumbbell__rate="1mbit", seed=7).dumbbell.rate
        Rate('1mbit')
        """
        wanted = dict(changes or {}) | {key.replace("__", "."): value for key, value in more.items()}
        data = self.to_dict()
        for path, value in wanted.items():
            self._put(data, path, value)
        try:
            changed = Scenario.from_dict(data)
        except ScenarioError as error:
            raise error.located(self._file, {}) from None
        places = dict(self._places)
        tops = tuple(re.split(r"[.\[]", path.replace("flows", "flow").replace("links", "link"))[0] for path in wanted)
        touched = [path for path in places if path.startswith(tops)]
        if touched:
            # A changed field has no line: an error must not point at the old value.
            before, after = self.to_dict(), changed.to_dict()
            places |= {path: None for path in touched if _at(before, path) != _at(after, path)}
        given = None if self._given is None else self._given | frozenset(_texts(list(wanted.values())))
        return changed._keep(self._file, places, given)

    def distrusting(self, file: str) -> Scenario:
        """The scenario, with its changes treated as coming from a file, as a sweep's do.

        They may then not name files outside its folder.

        A scenario without a file counts as part of `file`.
        """
        copy = self._made(self._full)
        return copy._keep(self._file or file, self._places, None, self._text)

    def _put(self, data: dict[str, Any], path: str, value: Any) -> None:
        def refuse(problem: str, fix: str) -> ScenarioError:
            shown = None if isinstance(value, Part | Mapping | list | tuple) else value
            return ScenarioError([Problem(path, shown, problem, fix, self._file)])

        steps = [step for step in re.split(r"[.\[\]]+", path) if step]
        if not steps:
            raise refuse("this names no field", 'Write for example "dumbbell.rate"')
        if steps[0] in ("flows", "links"):
            steps[0] = steps[0][:-1]
        if steps[0] == "link" and len(steps) > 1 and "link" not in data and "dumbbell" in data:
            raise refuse("a dumbbell has no list of links", _in_dumbbell(steps[1:]))
        here: Any = data
        at = 0
        while at < len(steps) - 1:
            step = steps[at]
            below = here.get(step)
            if below is None and steps[: at + 1] == ["dumbbell", "queue"]:
                below = "1bdp"  # The default, which `to_dict` leaves out although it was written.
            if below is None:
                below = here[step] = {}
            elif isinstance(below, str):
                # "1bdp", "codel", "cubic" and "2ms" are short forms of tables.
                of_queue = "limit" if below.lstrip(" +-.")[:1].isdigit() else "discipline"
                is_queue = step == "inner" or step.endswith("queue")
                key = of_queue if is_queue else "jitter" if step == "netem_jitter" else "name"
                below = here[step] = {key: below}
            elif isinstance(below, list):
                names = self._entry_names(step, below)
                index, at, named = *_entry(names, steps, at + 1), steps[at + 1]
                if not 0 <= index < len(below):
                    raise refuse(*_no_entry(step, named, names, step == "flow" and named in self.flow_names))
                if at == len(steps) - 1:
                    if value is None:
                        del below[index]
                    else:
                        below[index] = value.plain() if isinstance(value, Part) else value
                    return
                below = below[index]
            if not isinstance(below, dict):
                raise refuse(f"{step} has nothing below it", "Shorten the path")
            here, at = below, at + 1
        if value is None:
            here.pop(steps[-1], None)
        else:
            here[steps[-1]] = value

    def stated(self, path: str) -> Any:
        """The value written at a path, in TOML's form; None if nothing is written there.

        >>> import tailback as tb
        >>> base = tb.dumbbell(rate="10mbit", rtt="80ms", flows=[tb.bulk("htcp", name="a")], duration="60s")
        >>> base.stated("flow.a.cc"), base.stated("flow[0].cc"), base.stated("dumbbell.queue")
        ('htcp', 'htcp', None)
        """
        steps = [step for step in re.split(r"[.\[\]]+", path) if step]
        here: Any = self.to_dict()
        at = 0
        while at < len(steps) and here is not None:
            if isinstance(here, list):
                index, at = _entry(self._entry_names(steps[at - 1], here), steps, at)
                here = here[index] if 0 <= index < len(here) else None
            else:
                here = here.get(steps[at]) if isinstance(here, Mapping) else None
            at += 1
        return here

    def _entry_names(self, key: str, entries: Sequence[Any]) -> Sequence[str]:
        """Names of the entries of a list, by which a path may select them."""
        generated = _core.scenario_names(self)[2] if key == "flow" else []
        return generated or [row.get("name", "") for row in entries if isinstance(row, Mapping)]

    # -- names

    @property
    def expanded(self) -> Scenario:
        """The scenario with its preset's links and flows written out; itself if it has no preset."""
        if self.path is None:
            return self
        return self._made(_core.scenario_expand(self))._keep(self._file, self._places, self._given, self._text)

    @property
    def flow_names(self) -> list[str]:
        """Names of all flows in order, given or generated, `count` and `two_way` expanded; a preset's come last."""
        return _core.scenario_names(self)[0]

    @property
    def link_names(self) -> list[str]:
        """The links' names in the order of the engine's tables."""
        return _core.scenario_names(self)[1]

    @property
    def folder(self) -> Path | None:
        """The folder of the scenario's file; None without a file."""
        return Path(self._file).parent if self._file else None

    @property
    def named(self) -> list[str]:
        """The congestion controls, transports and disciplines that it names, as written."""
        rows = [row for flow in self._full["flow"] for row in (flow["cc"], *flow["cc_turns"]) if row]
        queues = [(self._full["dumbbell"] or {}).get("queue"), *(link.get("queue") for link in self._full["link"])]
        found = [row["name"] for row in rows] + [flow["transport"] for flow in self._full["flow"] if flow["transport"]]
        found += [queue["discipline"] for queue in queues if isinstance(queue, Mapping) and queue.get("discipline")]
        return list(dict.fromkeys(map(str, found)))

    @property
    def here(self) -> Path:
        """The folder for `{here}` in command lines: that of the program under test, or of the scenario."""
        named = programs.written_in(self._full["flow"])
        return (programs.read(named[0], self.folder).file.parent if named else self.folder or Path()).absolute()

    # -- towards the engine

    def _with_programs(self) -> Scenario:
        """The scenario with command lines in place of programs; itself if it names none."""
        named = programs.written_in(self._full["flow"])
        if not named:
            return self
        try:
            fields = programs.in_place(self.to_dict(), _core.scenario_names(self)[2], self.folder)
            folders = {str(programs.read(name, self.folder).file.parent): name for name in named}
            if len(folders) > 1:
                problem = f"{{here}} is one folder, and {' and '.join(folders.values())} lie in two"
                raise ScenarioError([Problem("flow.cc", named[1], problem, "Put both files into one folder")])
            return Scenario.from_dict(fields)._keep(self._file, {}, self._given)
        except ScenarioError as error:
            raise error.located(self._file, self._places) from None

    def resolve(
        self,
        *,
        check: bool = True,
        algorithms: Mapping[str, Callable[[dict[str, Any], int], Any]] | None = None,
        live: bool = False,
        allow_code: bool = False,
    ) -> dict[str, Any]:
        """The resolved scenario: exact units, routes, and buffers in bytes; `ScenarioError` if it cannot be run.

        `check=False` leaves out the engine's own check (of parameter ranges, for instance). `algorithms` are factories
        of algorithms of your own (`tailback.algorithms.factories`); default: those registered. `live` allows real
        programs, which the simulator cannot run. A class given by reference ("python:module:Class") is imported and
        tried only with `allow_code`; else the reference is kept as written.
        """
        return self._resolved(
            _Outside(self, factories() if algorithms is None else algorithms, allow_code), check, live
        )

    def notes(self, resolved: Mapping[str, Any] | None = None) -> list[str]:
        """What it says that may not be meant, as sentences: a queue without a limit, what its trace files hold.

        `resolved` is what `resolve` returned, if that is at hand.
        """
        found = view("scenario.notes")(self, self.resolve(live=True) if resolved is None else resolved)
        return [note.text for note in found]

    def to_json(self) -> str:
        """The resolved scenario as JSON text, the same for equal scenarios.

        Raises an error for your own algorithms: their name does not show changes of their code.
        """
        return as_text(self._resolved(_Outside(self, None), True, False))

    def _resolved(self, outside: _Outside, check: bool, live: bool) -> dict[str, Any]:
        whole = self._with_programs()
        if whole is not self:
            return whole._resolved(_Outside(whole, outside.registered, outside.allow_code), check, live)
        try:
            out: dict[str, Any] = _core.scenario_resolve(self, outside)
            outside.transports(out)
            if check:
                checked = out if outside.allow_code else without_references(out)
                hooks.check(json.dumps(checked), outside.factories, live)
        except _core.ScenarioError as error:
            raise self.complaint(*outside.of_kind(*map(str, error.args))) from None
        except ScenarioError as error:
            raise error.located(self._file, self._places) from None
        return out

    def complaint(self, path: str, value: str, problem: str, fix: str) -> ScenarioError:
        """Maps an engine error back to the user's field. `value` is written as in a file, with quotes around text."""
        translated = _core.scenario_translate(self, path, value, problem, fix)
        return ScenarioError([translated]).located(self._file, self._places)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and self._full == other._full

    def __hash__(self) -> int:
        return hash(self.to_toml())

    def _repr_html_(self) -> str:
        """The scenario's file, for notebooks."""
        import html

        return f"<pre>{html.escape(self.to_toml())}</pre>"

    def __str__(self) -> str:
        return self.to_toml()


#: Fields of a dumbbell for its link `return`, and for its link `bottleneck`.
_BACK = ("rate", "delay", "queue", "wire", "medium")
_THERE = (*_BACK, "tick_hz", "policer", "schedule")


def _in_dumbbell(steps: list[str]) -> str:
    """A sentence with the dumbbell's field for a path such as `link.return.queue`."""
    name, field, *below = [*steps, ""] if len(steps) == 1 else steps
    if name == "bottleneck" and field in _THERE:
        return f"Write {'.'.join(['dumbbell', field, *below])}"
    if name == "return" and field in _BACK:
        return f"Write {'.'.join(['dumbbell', f'back_{field}', *below])}"
    return "Write dumbbell.queue for its link bottleneck, dumbbell.back_queue for its link return"


class _Outside:
    """Resources outside a scenario: trace files, the user's algorithms, patterns."""

    def __init__(self, scenario: Scenario, own: Mapping[str, Factory] | None, allow_code: bool = False) -> None:
        self.scenario = scenario
        # None: only built-in algorithms are allowed.
        self.registered = own
        self.allow_code = allow_code
        #: The algorithms that the scenario names, from `own` and from other modules.
        self.factories: dict[str, Factory] = {}

    def trace(self, name: str) -> list[int]:
        """The delivery times of a trace."""
        return traces.read(self._place(name, "trace"))

    def schedule(self, name: str) -> str:
        """The text of a CSV file of changes."""
        return traces.read_text(self._place(name, "schedule"))

    def page(self, name: str) -> str:
        """The text of a HAR file."""
        return traces.read_text(self._place(name, "har"), "a HAR file")

    def _place(self, name: str, field: str) -> Path:
        """The path of a file. A scenario's file may name only files in its folder or below."""
        if self.scenario._file is None:
            return Path(name)
        folder = Path(self.scenario._file).parent
        beside = folder / name
        if name in (self.scenario._given or ()):
            return beside if beside.exists() else Path(name)
        if not beside.resolve().is_relative_to(folder.resolve()):
            fix = f"Copy it there, or name it yourself: --set PATH.{field}=FILE"
            raise traces.TraceError("the file lies outside the scenario's folder", fix)
        return beside

    def own(self, name: str) -> bool:
        """Whether it is the user's own algorithm, for which the engine gets a factory if code is allowed."""
        registered = factories() if self.registered is None else self.registered
        if name not in registered and not is_reference(name):
            return False
        if self.registered is None:
            problem = "this is an algorithm of your own, and no text of a scenario shows when its code changes"
            raise UnitError(problem, "Run it, or sweep it: what is kept then has the digest of its source")
        if name not in registered and not self.allow_code:
            # Not imported, as the file may come from a stranger.
            return True
        try:
            self.factories[name] = registered[name] if name in registered else referenced(name, self.scenario.folder)
        except TailbackError as error:
            raise UnitError(str(error).rstrip("."), "Fix it, or name another") from None
        return True

    def of_kind(self, path: str, value: str, problem: str, fix: str) -> tuple[str, str, str, str]:
        """An engine error; for a class of another kind than its field takes, with its kind."""
        factory = self.factories.get(value.strip('"'))
        if factory is None or not problem.startswith("there is no "):
            return path, value, problem, fix
        kind = "congestion control, as it has on_ack and on_congestion"
        if hasattr(factory, "is_queue"):
            kind = "queue, as it has enqueue and dequeue"
        elif hasattr(factory, "is_stack"):
            kind = "transport, as it has connect"
        field = {"q": "queue", "t": "transport"}.get(kind[0], "cc")
        return path, value, f"this class is a {kind}", f"Name it as {field}, or name another class here"

    def transports(self, resolved: Mapping[str, Any]) -> None:
        """Load the user's own transports that a resolved scenario names."""
        for number, flow in enumerate(resolved["flows"]):
            name = (flow.get("tcp") or {}).get("transport")
            try:
                if name and self.own(str(name)) and name in self.factories:
                    self._demand_transport(self.factories[name])
            except (UnitError, ValueError) as error:
                known = error if isinstance(error, UnitError) else UnitError(str(error), "Fix it, or name another")
                found = Problem(f"flow[{number}].transport", name, known.problem, known.fix)
                raise ScenarioError([found]) from None

    @staticmethod
    def _demand_transport(factory: Any) -> None:
        if hasattr(factory, "as_stack"):
            factory.as_stack()
        elif not hasattr(factory, "is_stack"):
            raise UnitError("it is no transport", "Name a class with connect, or a source with TAILBACK_STACK")

    def pattern(self, pattern: str) -> bool:
        """Refuse a pattern that does not name a number in a program's output."""
        try:
            found = re.compile(pattern).groupindex
        except re.error as error:
            raise UnitError(f"this is no regular expression: {error}", "Correct it") from None
        except (RecursionError, OverflowError, MemoryError):
            raise UnitError("its groups are nested too deeply, or it repeats too often", "Simplify it") from None
        if not found:
            fix = r"Name a group after each figure, as in (?P<rate_mbps>[\d.]+) Mbits"
            raise UnitError("it names no figure", fix)
        return True


def as_text(resolved: Mapping[str, Any]) -> str:
    """JSON text of a resolved scenario, the same for equal ones."""
    return json.dumps(resolved, sort_keys=True, separators=(",", ":"))


#: Maximum characters of a scenario's or a sweep's file: a device would never end.
_LONGEST = 16 << 20


def read_file(path: str | os.PathLike[str], fix: str) -> str:
    """The text of a scenario's or a sweep's file; `ScenarioError` with `fix` if it cannot be read."""
    file = os.fspath(path)
    try:
        # Some editors begin a file with a byte-order mark.
        with Path(path).open(encoding="utf-8-sig") as opened:
            text = opened.read(_LONGEST + 1)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and (command := examples.copying(path)):
            fix = f"Copy it from those that come with tailback: `{command}`"
        raise ScenarioError([Problem("", None, f"cannot be read: {error.strerror}", fix, file)]) from None
    except UnicodeDecodeError:
        raise ScenarioError([Problem("", None, "is not UTF-8 text", "Save it as UTF-8", file)]) from None
    if len(text) > _LONGEST:
        raise ScenarioError([Problem("", None, f"is larger than {_LONGEST >> 20} MiB", fix, file)])
    return text


def toml_read(text: str, file: str | None, page: str) -> tuple[dict[str, Any], Positions]:
    """The contents of TOML text, with line and column of each field; `ScenarioError` if it is not TOML."""
    try:
        data, places = _core.toml_read(text)
    except ValueError as error:
        message, line, column = error.args
        fix = f"See {page} for the format"
        raise ScenarioError([Problem("", None, f"is not TOML: {message}", fix, file, line, column)]) from None
    return data, places


def _entry(names: Sequence[str], steps: Sequence[str], at: int) -> tuple[int, int]:
    """The entry that a path's steps select from `at` on, by name or number (-1: none), and the last of these steps."""
    # A name may hold dots: take the longest that fits.
    for end in range(len(steps), at, -1):
        if ".".join(steps[at:end]) in names:
            return names.index(".".join(steps[at:end])), end - 1
    return int(steps[at]) if steps[at].isdigit() else -1, at


def _at(fields: Mapping[str, Any], place: str) -> Any:
    """The value at `place` of a scenario in TOML's form."""
    here: Any = fields
    for step in re.findall(r"[^.\[\]]+", place):
        if isinstance(here, Mapping):
            here = here.get(step)
        elif isinstance(here, list) and step.isdigit() and int(step) < len(here):
            here = here[int(step)]
        else:
            return None
    return None if isinstance(here, Mapping | list) else here


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)


def _no_entry(step: str, given: str, names: Sequence[str], is_counted: bool) -> tuple[str, str]:
    """The problem and the fix of a path to an entry that a list lacks."""
    known = ", ".join(names)
    if given.isdigit():
        return f"there is no {step}[{given}]", f"There are {len(names)}, counted from 0: {known}"
    fix = f"There are: {known}"
    if is_counted:
        whole = given.rpartition("-")[0]
        fix = f"count makes it of {whole}: change {whole}, or write a flow of its own. {fix}"
    return f'there is no {step} "{given}"', fix
