"""Runs scenarios, one or many, in threads on all cores: the engine does not hold the interpreter lock."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, overload

from tailback import _core, hooks, isolated
from tailback._core import Cancel
from tailback.algorithms import Algorithm, Factory, Source, factories, is_reference, kept_as, named, referenced, sources
from tailback.consent import demand_allowed, demand_kept_allowed
from tailback.errors import (
    AlgorithmError,
    Cancelled,
    EngineError,
    Interrupted,
    ScenarioError,
    TailbackError,
)
from tailback.progress import Bar
from tailback.result import Result, write_while
from tailback.result.layout import Sink
from tailback.scenario import Scenario

__all__ = ["Cancel", "as_scenario", "run", "run_each", "run_many"]

T = TypeVar("T")
#: What can be run: a scenario, its resolved form, or the path of a scenario file.
Runnable = Scenario | Mapping[str, Any] | str | os.PathLike[str]
#: Your own algorithms by name: classes, or other callables that return an instance.
Algorithms = Mapping[str, Callable[..., Algorithm]]


@dataclass(frozen=True)
class _Prepared:
    """A checked scenario: only the engine can still fail."""

    resolved: dict[str, Any]
    toml: str
    written: str
    factories: dict[str, Factory]
    #: Sources of the user's algorithms that it names.
    sources: dict[str, Source]

    @property
    def name(self) -> str:
        return str(self.resolved.get("name") or "scenario")


def as_scenario(what: Runnable) -> Scenario:
    """Convert to a scenario to run."""
    if isinstance(what, Mapping):
        return Scenario.from_resolved(what)
    return what if isinstance(what, Scenario) else Scenario.from_toml(what)


def _prepare(what: Runnable, algorithms: Algorithms | None, allow_code: bool) -> _Prepared:
    own = factories(algorithms)
    if isinstance(what, Mapping):
        resolved = dict(what)
        demand_allowed(resolved, allow_code)
        used = _with_references(own, resolved)
        try:
            hooks.check(json.dumps(resolved), used)
        except _core.ScenarioError as error:
            raise ScenarioError([_core.engine_problem(*map(str, error.args))]) from None
        toml = Scenario.from_resolved(resolved).to_toml()
        return _Prepared(resolved, toml, toml, used, sources(resolved, algorithms))
    scenario = what if isinstance(what, Scenario) else Scenario.from_toml(what)
    resolved = scenario.resolve(algorithms=own, allow_code=allow_code)
    demand_allowed(resolved, allow_code, scenario)
    used = _with_references(own, resolved, scenario.folder)
    kept = sources(resolved, algorithms, scenario.folder)
    return _Prepared(resolved, scenario.to_toml(), scenario.written, used, kept)


def _with_references(
    own: dict[str, Factory], resolved: Mapping[str, Any], folder: Path | None = None
) -> dict[str, Factory]:
    """Algorithms, including those that the scenario names by module and class, or by file."""
    return own | {name: referenced(name, folder) for name in named(resolved) if is_reference(name)}


def _simulate(prepared: _Prepared, cancel: Cancel | None, progress: Callable[[float], object] | None) -> Result:
    return _result(prepared, _tables(prepared, cancel, progress, None))


def _result(prepared: _Prepared, tables: dict[str, dict[str, Any]]) -> Result:
    return Result(
        resolved=prepared.resolved,
        toml=prepared.toml,
        written=prepared.written,
        tables=tables,
        algorithms=prepared.sources,
    )


def _tables(
    prepared: _Prepared, cancel: Cancel | None, progress: Callable[[float], object] | None, sink: Sink | None
) -> dict[str, dict[str, Any]]:
    try:
        text = json.dumps(prepared.resolved)
        return isolated.run(text, cancel, progress, prepared.factories, prepared.sources, sink)
    except _core.ScenarioError as error:
        # A limit that only a run can exceed: on rows, or on events in almost no simulated time.
        raise Scenario.parse_toml(prepared.toml).complaint(*map(str, error.args)) from None
    except _core.Cancelled:
        raise Cancelled(f"{prepared.name} was cancelled") from None
    except _core.AlgorithmError as error:
        raise AlgorithmError(prepared.name, *error.args) from error.__cause__
    except _core.EngineError as error:
        raise EngineError(f"{prepared.name}: {error}") from None


def run(
    scenario: Runnable,
    *,
    progress: bool | Callable[[float], object] = False,
    cancel: Cancel | None = None,
    algorithms: Algorithms | None = None,
    allow_code: bool = False,
    out: str | os.PathLike[str] | None = None,
    command: str = "tailback.run",
) -> Result:
    """Simulate `scenario` and return the result.

    With `out` the result is saved to that folder during the run, as by `Result.save`. Rows are written at once, which
    saves memory, and the result's tables are read on demand. `command` is recorded in its `meta.json`.

    `progress` is True for a bar on a terminal, or a function called with the fraction of simulated time done. `cancel`
    stops the run from another thread. `algorithms` are your own congestion controls by the scenario's name, in addition
    to those that `algorithm` registered. `allow_code` allows classes that the scenario names by module, whose code is
    then run: read it first. Raises `ScenarioError` before simulating, or if more rows are recorded than
    `instruments.most_rows`. Raises `Cancelled`, `AlgorithmError` if an algorithm of yours raised, `ResultError` if
    `out` cannot be written, or `EngineError`, which is a bug in tailback; Ctrl-C raises `KeyboardInterrupt`.

    >>> import tailback as tb
    >>> scenario = tb.dumbbell(rate="10mbit", rtt="80ms", flows=[tb.bulk("reno"), tb.voip()], duration="5s")
    >>> result = tb.run(scenario)
    >>> result.flow_names, result.rows("flows")
    (['bulk', 'voip'], 2)
    """
    return _run(_prepare(scenario, algorithms, allow_code), progress, cancel, out, command)


def simulate_again(
    result: Result,
    *,
    progress: bool | Callable[[float], object] = False,
    cancel: Cancel | None = None,
    allow_code: bool = False,
    out: str | os.PathLike[str] | None = None,
    command: str = "tailback.repeat",
) -> Result:
    """Simulate again what `result` was made from, as `tailback.repeat` does."""
    kept = result.algorithms
    demand_kept_allowed(kept, allow_code)
    made = {name: kept_as(name, source) for name, source in kept.items()}
    return _run(_Prepared(result.resolved, result.toml, result.written, made, kept), progress, cancel, out, command)


def _run(
    prepared: _Prepared,
    progress: bool | Callable[[float], object],
    cancel: Cancel | None,
    out: str | os.PathLike[str] | None,
    command: str,
) -> Result:
    def simulate(progress: Callable[[float], object] | None) -> Result:
        if out is None:
            return _simulate(prepared, cancel, progress)
        work = functools.partial(_tables, prepared, cancel, progress)
        return write_while(out, prepared.resolved, functools.partial(_result, prepared), work, command)

    if callable(progress):
        return simulate(progress)
    with Bar(prepared.name, shown=progress) as bar:
        return simulate(bar.update if progress else None)


class _Crew:
    """Threads that run scenarios in order and deliver results as they finish."""

    def __init__(self, work: list[_Prepared], then: Callable[[Result], Any] | None, workers: int) -> None:
        self.fractions = [0.0] * len(work)
        self._work = work
        self._then = then
        self._next = iter(range(len(work)))
        self._lock = threading.Lock()
        self._cancel = Cancel()
        self._stopped = threading.Event()
        # A slow consumer blocks the threads, so that results do not fill the memory.
        self.finished: queue.Queue[tuple[int, Any, BaseException | None]] = queue.Queue(maxsize=workers + 1)
        self._threads = [threading.Thread(target=self._main, daemon=True) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Cancel running scenarios and wait for the threads."""
        self._stopped.set()
        self._cancel.set()
        for thread in self._threads:
            while thread.is_alive():
                with contextlib.suppress(queue.Empty):
                    self.finished.get_nowait()
                thread.join(0.01)

    def _main(self) -> None:
        while not self._stopped.is_set():
            with self._lock:
                index = next(self._next, None)
            if index is None:
                return
            value: Any = None
            failure: BaseException | None = None
            try:
                value = _simulate(self._work[index], self._cancel, functools.partial(self._note, index))
                if self._then is not None:
                    value = self._then(value)
            except BaseException as error:  # the caller's thread raises it
                failure = error
            self._note(index, 1.0)
            self._hand_over((index, value, failure))

    def _note(self, index: int, fraction: float) -> None:
        self.fractions[index] = fraction

    def _hand_over(self, item: tuple[int, Any, BaseException | None]) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Full):
                self.finished.put(item, timeout=0.1)
                return


def cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@overload
def run_each(
    scenarios: Iterable[Runnable],
    *,
    workers: int | None = None,
    progress: bool | Callable[[int, int], object] = False,
    cancel: Cancel | None = None,
    then: None = None,
    algorithms: Algorithms | None = None,
    allow_code: bool = False,
) -> Generator[tuple[int, Result], None, None]: ...
@overload
def run_each(
    scenarios: Iterable[Runnable],
    *,
    workers: int | None = None,
    progress: bool | Callable[[int, int], object] = False,
    cancel: Cancel | None = None,
    then: Callable[[Result], T],
    algorithms: Algorithms | None = None,
    allow_code: bool = False,
) -> Generator[tuple[int, T], None, None]: ...
def run_each(
    scenarios: Iterable[Runnable],
    *,
    workers: int | None = None,
    progress: bool | Callable[[int, int], object] = False,
    cancel: Cancel | None = None,
    then: Callable[[Result], Any] | None = None,
    algorithms: Algorithms | None = None,
    allow_code: bool = False,
) -> Generator[tuple[int, Any], None, None]:
    """Simulate `scenarios` on `workers` threads (default: the cores) and yield (number, result) as they finish.

    With `then`, its value replaces the result; it is called in the thread that ran the scenario, so that large tables
    can be freed at once. Every scenario is checked before the first is run. Closing the generator cancels running
    scenarios. The first failure cancels the rest and is raised. `progress` is True for a bar on a terminal, or a
    function of (finished, total).

    >>> import tailback as tb
    >>> base = tb.dumbbell(rate="1mbit", rtt="16ms", flows=[tb.bulk("reno")], duration="2s")
    >>> sorted(number for number, _ in tb.run_each([base, base.with_(seed=2)]))
    [0, 1]
    """
    if workers is not None and workers < 1:
        raise TailbackError(f"workers must be at least 1, got {workers}. Give None to use all cores.")
    work = [_prepare(scenario, algorithms, allow_code) for scenario in scenarios]
    return _run_each(work, min(workers or cores(), max(len(work), 1)), progress, cancel, then)


def _run_each(
    work: list[_Prepared],
    workers: int,
    progress: bool | Callable[[int, int], object],
    cancel: Cancel | None,
    then: Callable[[Result], Any] | None,
) -> Generator[tuple[int, Any], None, None]:
    with contextlib.closing(_outcomes(work, workers, progress is True, cancel, then)) as outcomes:
        for done, (index, value, failure) in enumerate(outcomes, 1):
            if failure is not None:
                failure.add_note(f"while running scenario {index}, {work[index].name}")
                raise failure
            if callable(progress):
                progress(done, len(work))
            yield index, value


def _outcomes(
    work: list[_Prepared],
    workers: int,
    shown: bool,
    cancel: Cancel | None,
    then: Callable[[Result], Any] | None,
) -> Generator[tuple[int, Any, BaseException | None], None, None]:
    crew = _Crew(work, then, workers)
    try:
        with Bar("running", shown=shown) as bar:
            done = 0
            while done < len(work):
                if cancel is not None and cancel.is_set():
                    raise Cancelled(f"cancelled after {done} of {len(work)} runs")
                try:
                    outcome = crew.finished.get(timeout=0.1)
                except queue.Empty:
                    bar.update(sum(crew.fractions) / len(work), f"{done} of {len(work)} runs")
                    continue
                done += 1
                bar.update(sum(crew.fractions) / len(work), f"{done} of {len(work)} runs")
                yield outcome
    finally:
        crew.stop()


def run_outcomes(
    scenarios: Iterable[Runnable],
    *,
    workers: int | None = None,
    cancel: Cancel | None = None,
    algorithms: Algorithms | None = None,
    allow_code: bool = False,
) -> Generator[tuple[int, Result | TailbackError], None, None]:
    """`run_each`, but a failed run yields its error, and the others continue."""
    work = [_prepare(scenario, algorithms, allow_code) for scenario in scenarios]
    count = min(workers or cores(), max(len(work), 1))
    with contextlib.closing(_outcomes(work, count, False, cancel, None)) as outcomes:
        for index, value, failure in outcomes:
            if failure is not None and (isinstance(failure, Cancelled) or not isinstance(failure, TailbackError)):
                raise failure
            yield index, value if failure is None else failure


@overload
def run_many(
    scenarios: Iterable[Runnable],
    *,
    workers: int | None = None,
    progress: bool | Callable[[int, int], object] = False,
    cancel: Cancel | None = None,
    then: None = None,
    on_result: Callable[[int, Result], object] | None = None,
    algorithms: Algorithms | None = None,
    allow_code: bool = False,
) -> list[Result]: ...
@overload
def run_many(
    scenarios: Iterable[Runnable],
    *,
    workers: int | None = None,
    progress: bool | Callable[[int, int], object] = False,
    cancel: Cancel | None = None,
    then: Callable[[Result], T],
    on_result: Callable[[int, T], object] | None = None,
    algorithms: Algorithms | None = None,
    allow_code: bool = False,
) -> list[T]: ...
def run_many(
    scenarios: Iterable[Runnable],
    *,
    workers: int | None = None,
    progress: bool | Callable[[int, int], object] = False,
    cancel: Cancel | None = None,
    then: Callable[[Result], Any] | None = None,
    on_result: Callable[[int, Any], object] | None = None,
    algorithms: Algorithms | None = None,
    allow_code: bool = False,
) -> list[Any]:
    """Like `run_each`, but returns a list in the order given.

    `on_result(number, value)` is called in this thread as each finishes. Ctrl-C raises `Interrupted`, whose `results`
    have the finished runs. `workers` does not change results.

    >>> import tailback as tb
    >>> base = tb.dumbbell(rate="1mbit", rtt="16ms", flows=[tb.bulk("reno")], duration="2s")
    >>> tb.run_many([base.with_(seed=seed) for seed in (1, 2)], then=lambda result: result.seed)
    [1, 2]
    """
    work = list(scenarios)
    out: list[Any] = [None] * len(work)
    each = run_each(
        work,
        workers=workers,
        progress=progress,
        cancel=cancel,
        then=then or (lambda result: result),
        algorithms=algorithms,
        allow_code=allow_code,
    )
    try:
        with contextlib.closing(each):
            for index, value in each:
                out[index] = value
                if on_result is not None:
                    on_result(index, value)
    except KeyboardInterrupt:
        raise Interrupted(out) from None
    return out
