"""Congestion controls in Python: a class with `on_ack` and `on_congestion`; see docs/own-algorithm.md.

A class with `enqueue` and `dequeue` is a queue discipline, and one with `connect` a transport; both are registered and
loaded in the same way (`tailback.queues`, `tailback.stacks`).

A scenario uses the registered name, or "python:module:Class", which is imported only if the caller allows code
(`tailback.consent`). "bpf:mine.bpf.c" and "rust:path/to/crate" are compiled: `tailback.native`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from tailback import bpf, crates, hooks, modules, native, queues, registry, stacks
from tailback._core import Ack, Congestion, Control
from tailback.checksums import digest
from tailback.errors import TailbackError, nearest

if TYPE_CHECKING:
    from tailback.scenario import Scenario

__all__ = [
    "Ack",
    "Algorithm",
    "Congestion",
    "Control",
    "Factory",
    "Source",
    "algorithm",
    "factories",
    "load",
    "registered",
    "sources",
]

#: The engine's constructor for each connection: `factory(params, seed)` returns an instance.
Factory = Callable[[dict[str, Any], int], Any]
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_PREFIX = "python:"
#: Methods of a class that the engine calls.
_HOOKS = ("on_ack", "on_congestion", "on_established", "on_phase", "on_undo", "on_resume", "on_idle_restart")


class Algorithm(Protocol):
    """Interface of a congestion control. One instance is made for each connection.

    Optional hooks: `on_established(now_s, srtt_s, control)`, `on_phase(change, control)`, `on_undo(now_s, control)`,
    `on_resume(now_s, idle_s, app_limited, control)`, `on_idle_restart(now_s, idle_s, control)`,
    `internals() -> dict[str, float]` for the instrument of that name, and an attribute `owns_window = True` if the
    stack must never reduce `cwnd` itself.
    """

    def on_ack(self, ack: Ack, control: Control) -> object:
        """An ACK arrived. Grow `control.cwnd` only if `ack.may_grow`."""

    def on_congestion(self, congestion: Congestion, control: Control) -> object:
        """A congestion episode begins: set `control.ssthresh`; the stack brings `cwnd` there."""


@dataclass(frozen=True)
class Source:
    """The source of a user's algorithm at the time it ran."""

    #: Name of the class; empty for compiled code.
    attribute: str
    #: Text of the file that defines it; None if there is no file, as for a class typed into a notebook.
    text: str | None

    @property
    def sha256(self) -> str | None:
        """The digest of the text."""
        return None if self.text is None else digest(self.text.encode())

    def load(self, name: str) -> Callable[..., Algorithm]:
        """Rebuild the class by executing the text."""
        if self.text is None:
            raise TailbackError(f'the source of algorithm "{name}" was not kept: it stood in no file')
        module = ModuleType(f"tailback_kept_{self.sha256}")
        # Dataclasses look up their module by name.
        sys.modules[module.__name__] = module
        try:
            with hooks.watched("its module", hooks.MOST_LOAD_S):
                exec(compile(self.text, f"{name} (kept with the result)", "exec"), module.__dict__)
        except (Exception, SystemExit) as error:
            raise TailbackError(f"the source of {name} cannot be run: {type(error).__name__}: {error}") from error
        found: Any = getattr(module, self.attribute, None)
        made_by: Callable[..., Algorithm] = _callable(name, found)
        return made_by


def kept_as(name: str, source: Source) -> Factory:
    """The factory of an algorithm, from the source kept with a result alone."""
    return native.declared(name, source.text or "") if native.is_source(name) else factory(source.load(name))


@functools.cache
def made_from(name: str, source: Source) -> Factory:
    """The factory of an algorithm in a process that may have only its source, such as a cluster's worker.

    Prefers this process's class if its source is the same, because a class may need its package.
    """
    if native.is_source(name):
        return native.declared(name, source.text or "")
    made_by = _registered.get(name)
    if made_by is None and is_reference(name):
        with contextlib.suppress(TailbackError):
            made_by = load(name.removeprefix(_PREFIX))
    if made_by is None or _source_of(made_by) != source:
        made_by = source.load(name)
    return factory(made_by)


_Class = TypeVar("_Class", bound=Callable[..., Algorithm])
#: Files of the classes that `load` imported from a file.
_files: dict[Any, Path] = {}
_registered: dict[str, Callable[..., Algorithm]] = {}


@overload
def algorithm(name: str) -> Callable[[_Class], _Class]: ...
@overload
def algorithm(name: str, made_by: _Class) -> _Class: ...
def algorithm(name: str, made_by: _Class | None = None) -> _Class | Callable[[_Class], _Class]:
    """Register a class under the name that scenarios use; a decorator, or called with the class.

    Registering a name again replaces the class, as when a notebook cell is run again.

    >>> import tailback as tb
    >>> @tb.algorithm("still")
    ... class Still:
    ...     def on_ack(self, ack, control): ...
    ...     def on_congestion(self, congestion, control):
    ...         control.ssthresh = control.cwnd
    >>> path = dict(rate="10mbit", rtt="80ms", duration="5s")
    >>> result = tb.run(tb.dumbbell(flows=[tb.bulk("still"), tb.bulk("cubic")], **path))
    >>> float(result.column("flows", "bytes_acked")[0]) > 0
    True
    """

    def enter(made_by: _Class) -> _Class:
        _registered[_checked_name(name)] = _callable(name, made_by)
        _text_of(made_by)
        return made_by

    return enter if made_by is None else enter(made_by)


def registered() -> dict[str, Callable[..., Algorithm]]:
    """The classes registered by `algorithm`, by name."""
    return dict(_registered)


def load(reference: str) -> Callable[..., Algorithm]:
    """The class at "module:Class" or "path/to/file.py:Class".

    Importing runs the module's code, as `import` does. Raises `TailbackError` if the import fails, with the original
    error as cause, or if the class lacks the hooks of an algorithm.
    """
    place, colon, attribute = reference.rpartition(":")
    if not colon or not place or not attribute:
        raise TailbackError(f'"{reference}" names no class. Write "package.module:Class" or "path/to/file.py:Class".')
    is_file = place.endswith(".py")
    try:
        with hooks.watched("its module", hooks.MOST_LOAD_S):
            module = _module_of_file(Path(place)) if is_file else _module(place)
    except (Exception, SystemExit) as error:
        is_absent = isinstance(error, ModuleNotFoundError) and error.name == place.partition(".")[0]
        hint = f". A module is an installed one; a file has its path: {place}.py:{attribute}" if is_absent else ""
        raise TailbackError(f"{place} cannot be imported: {type(error).__name__}: {error}{hint}") from error
    found: Any = getattr(module, attribute, None)
    if found is None:
        classes = [name for name, each in vars(module).items() if isinstance(each, type) and not name.startswith("_")]
        there = [name for name in classes if getattr(module, name).__module__ == module.__name__] or classes
        close = nearest(attribute, there)
        hint = f' Did you mean "{close}"?' if close else ""
        raise TailbackError(f"{place} has no {attribute}.{hint} Its classes: {', '.join(there) or 'none'}.")
    if not isinstance(found, type):
        # A function would be called with parameters from the scenario, whatever it does.
        raise TailbackError(
            f"{place}:{attribute} is no class. Name one with on_ack and on_congestion, enqueue and dequeue, or connect."
        )
    if is_file:
        _files[found] = Path(place)
    _text_of(found)
    return _callable(reference, found)


class _FromSource(SourceFileLoader):
    """Always compiles the source. Python's cache misses a change within a second that keeps the size."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _module(name: str) -> ModuleType:
    """`importlib.import_module`, but never from a stale bytecode cache."""
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is None or type(spec.loader) is not SourceFileLoader:
        return importlib.import_module(name)
    spec.loader = _FromSource(spec.loader.name, spec.loader.path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    return module


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError("there is no such file")
    loader = _FromSource(path.stem, str(path))
    spec = importlib.util.spec_from_file_location(path.stem, path, loader=loader)
    assert spec is not None, "a loader was given"
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickles look up their module by name; an existing module of that name is not replaced.
    sys.modules.setdefault(path.stem, module)
    loader.exec_module(module)
    return module


def factories(given: Mapping[str, Callable[..., Algorithm]] | None = None) -> dict[str, Factory]:
    """Factories for the engine: of the registered classes, and of `given`, which take precedence."""
    named = _registered | {_checked_name(name): _callable(name, made_by) for name, made_by in (given or {}).items()}
    return {name: factory(made_by) for name, made_by in named.items()}


def sources(
    resolved: Mapping[str, Any], given: Mapping[str, Callable[..., Algorithm]] | None, folder: Path | None = None
) -> dict[str, Source]:
    """The source of each user's algorithm that a resolved scenario names, relative to its `folder`."""
    made = _registered | dict(given or {})
    found = {}
    for name in sorted(named(resolved)):
        if native.is_source(name):
            found[name] = Source("", native.read(name, folder))
        elif name in made or is_reference(name):
            found[name] = _source_of(made[name] if name in made else load(name.removeprefix(_PREFIX)))
    return found


def _source_of(made_by: Any) -> Source:
    return Source(getattr(made_by, "__name__", type(made_by).__name__), _text_of(made_by))


def named(resolved: Mapping[str, Any]) -> set[str]:
    """Names of the congestion controls, queue disciplines and transports in a resolved scenario."""
    return {name for _, name in _choices(resolved)}


def _choices(resolved: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Fields and names of the congestion controls, queue disciplines and transports in a resolved scenario."""
    for number, link in enumerate(resolved.get("links", ())):
        yield from disciplines(link.get("queue", {}), f"links[{number}].queue")
    for number, flow in enumerate(resolved.get("flows", ())):
        if tcp := flow.get("tcp"):
            if transport := tcp.get("transport"):
                # A transport has its own congestion controls.
                yield f"flows[{number}].tcp.transport", str(transport)
                continue
            for row in (tcp, *tcp.get("cc_turns", ())):
                yield f"flows[{number}].tcp.cc", str(row["cc"])


def disciplines(queue: Mapping[str, Any], place: str = "queue") -> Iterator[tuple[str, str]]:
    """Field and name of the discipline of a queue at `place`, and of the queues inside it."""
    yield f"{place}.discipline", str(queue.get("discipline", "fifo"))
    if inner := queue.get("inner"):
        yield from disciplines(inner, f"{place}.inner")
    for number, band in enumerate(queue.get("bands", ())):
        if within := band.get("queue"):
            yield from disciplines(within, f"{place}.bands[{number}].queue")


def demand_of_kernel(scenario: Scenario, resolved: Mapping[str, Any], *, loads_modules: bool = False) -> None:
    """Raise `ScenarioError` if a scenario for a kernel names something that the kernel cannot run."""
    fix = "Run it with --engine sim."
    for field, name in _choices(resolved):
        if stacks.is_source(name):
            raise scenario.complaint(field, f'"{name}"', "a transport in C runs in the simulator only", fix)
        if crates.is_source(name):
            raise scenario.complaint(field, f'"{name}"', "the kernel runs no Rust crate", fix)
        if modules.is_source(name) and not loads_modules:
            problem = "a kernel module is loaded into a guest's kernel, never into this machine's"
            raise scenario.complaint(field, f'"{name}"', problem, "Run it with --engine vm.")
        if bpf.is_source(name) and field.startswith("links") and not loads_modules:
            problem = "a BPF queue is loaded into a guest's kernel: tailback's device for it is there alone"
            raise scenario.complaint(field, f'"{name}"', problem, "Run it with --engine vm.")
        if name in registered() or (is_reference(name) and not native.is_source(name)):
            raise scenario.complaint(field, f'"{name}"', "the kernel runs no Python class", fix)
        if name in registry.load().controllers:
            whole = 'The whole stack runs live: write transport = "s2n-quic" beside its own cc (docs/quic.md).'
            problem = "a QUIC stack's controller alone runs on tailback's sender, not in a kernel"
            raise scenario.complaint(field, f'"{name}"', problem, f"{fix} {whole}")


@functools.cache
def _text_of(made_by: Any) -> str | None:
    """Text of the file when the class was first seen; later edits are not what runs."""
    module = sys.modules.get(getattr(made_by, "__module__", ""))
    file = _files.get(made_by) or getattr(module, "__file__", None)
    try:
        return None if file is None else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def is_reference(name: str) -> bool:
    """Whether it is like "python:module:Class", "bpf:mine.bpf.c", "rust:path/to/crate" or "module:tcp_mine.c"."""
    return name.startswith(_PREFIX) or native.is_source(name)


def referenced(name: str, folder: Path | None = None) -> Factory:
    """The factory of a reference to a Python class or to compiled code, relative to `folder` or here."""
    if native.is_source(name):
        return native.declared(name, native.read(name, folder))
    return factory(load(name.removeprefix(_PREFIX)))


def _parameters(made_by: Any) -> set[str]:
    """Keyword arguments of a class, including those of its bases if it passes them on."""
    out: set[str] = set()
    for each in made_by.__mro__ if isinstance(made_by, type) else (made_by,):
        out |= set(queues.parameters(each)) - {"args", "kwargs", "seed", "rate_bps"}
        if not queues.takes_any(each):
            break
    return out


def factory(made_by: Callable[..., Algorithm]) -> Factory:
    """The engine's constructor for each connection, made from a class."""
    hooks.watch()
    if stacks.is_stack(made_by):
        return stacks.factory_of(made_by)
    try:
        taken = set(inspect.signature(made_by).parameters)
    except (TypeError, ValueError):
        taken = set()

    def make(offered: dict[str, Any], params: dict[str, Any]) -> Algorithm:
        # A `seed` parameter in the scenario takes precedence.
        given = {name: value for name, value in offered.items() if name in taken} | params
        try:
            with hooks.constructed():
                return made_by(**given)
        except TypeError as error:
            word = re.search(r"unexpected keyword argument '(\w+)'", str(error))
            if word is None or word[1] not in params:
                _explain(error, made_by, params)
                raise
            known = sorted(_parameters(made_by))
            close = nearest(word[1], known)
            hint = f"Did you mean {close}? " if close else ""
            there = f"There are: {', '.join(known)}." if known else "It takes none."
            title = getattr(made_by, "__name__", made_by)
            raise TypeError(f"{title} has no parameter {word[1]}. {hint}{there}") from None
        except Exception as error:
            _explain(error, made_by, params)
            raise

    if queues.is_queue(made_by):
        made: Factory = queues.factory_of(make)
        return made
    return lambda params, seed: make({"seed": seed}, params)


def _explain(error: Exception, made_by: Any, params: Mapping[str, Any]) -> None:
    """Add to a constructor's error its line, and parameters that are text although their default is a number."""
    defaults = queues.parameters(made_by)
    added = [
        f'{name} = "{value}" is text, and its default is {defaults[name]}: give a number'
        for name, value in params.items()
        if isinstance(value, str) and isinstance(defaults.get(name), int | float)
    ]
    last = traceback.extract_tb(error.__traceback__)[-1]
    if last.filename != __file__:
        added.insert(0, f"{last.filename}, line {last.lineno}")
    if added and len(error.args) == 1 and str(error) == error.args[0]:
        error.args = (f"{error} ({'; '.join(added)})",)


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise TailbackError(f'{name!r} is no name for an algorithm. Use letters, digits and any of "_.+-".')
    if name in registry.names("queues"):
        raise TailbackError(f'"{name}" is a built-in queue. Give yours a name of its own, such as "my-{name}".')
    if name in registry.names("algorithms") or name in registry.load().controllers:
        raise TailbackError(f'"{name}" is a built-in algorithm. Give yours a name of its own, such as "my-{name}".')
    return name


def _callable(name: str, made_by: _Class) -> _Class:
    if not callable(made_by):
        raise TailbackError(f'algorithm "{name}": give the class, not {made_by!r}.')
    if stacks.is_stack(made_by):
        stacks.demand_sound(name, made_by)
        return made_by
    if isinstance(made_by, type) and (queues.is_queue(made_by) or hasattr(made_by, "enqueue")):
        _demand_sound_queue(name, made_by)
        return made_by
    hooks = ("on_ack", "on_congestion", "dequeue")
    if isinstance(made_by, type) and not any(hasattr(made_by, hook) for hook in hooks):
        raise TailbackError(
            f"{name}: {made_by.__name__} is neither a queue, which has enqueue and dequeue, nor a congestion control, "
            "which has on_ack and on_congestion."
        )
    # For a class, report missing hooks now; for any other callable, when it is called.
    for hook in ("on_ack", "on_congestion"):
        if isinstance(made_by, type) and not callable(getattr(made_by, hook, None)):
            raise TailbackError(f'algorithm "{name}": {made_by.__name__} has no {hook}(self, …, control).')
    for hook in dir(made_by) if isinstance(made_by, type) else ():
        if hook.startswith("on_") and hook not in _HOOKS:
            raise TailbackError(
                f'algorithm "{name}": {made_by.__name__} has {hook}, which is never called. Called are '
                f"{', '.join(_HOOKS)}: write one of them, or _{hook} for a method of your own."
            )
    return made_by


def _demand_sound_queue(name: str, made_by: Any) -> None:
    if not queues.is_queue(made_by):
        raise TailbackError(f'queue "{name}": {made_by.__name__} has no dequeue(self, now).')
    read = queues.clock_read(made_by)
    if read:
        raise TailbackError(
            f'queue "{name}" reads what no run repeats: {read}. Take the argument now for time, and draw from '
            "random.Random(seed) with seed as an argument of __init__."
        )
