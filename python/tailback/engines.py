"""Engines run scenarios: the simulator, this machine's kernel, or any kernel in a virtual machine.

Each has `check`, `run` and `repeat`, and lists its capabilities in `can`. Commands, sweeps and studies test
capabilities, never names. A result's `provenance` names the engine that produced it, and `made` returns that engine.

>>> from tailback import engines
>>> [engine.name for engine in engines.named("sim, vm")]
['sim', 'vm']
>>> engines.Sim().can.repeat, engines.Live().can.repeat
(True, False)
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypedDict, Unpack

from tailback import _core, live, vm
from tailback._core import Cancel
from tailback.algorithms import sources
from tailback.candidate import engines_of
from tailback.checksums import digest
from tailback.consent import demand_allowed
from tailback.errors import Cancelled, Problem, ProgramError, ScenarioError, TailbackError, nearest
from tailback.result import Result, demand_writable, open_result
from tailback.run import Algorithms, Runnable, as_scenario, cores, run, run_outcomes, simulate_again
from tailback.scenario import Scenario
from tailback.scenario.whole import as_text

__all__ = [
    "GUESTS",
    "NAMES",
    "Capabilities",
    "Engine",
    "Live",
    "Sim",
    "UnknownEngine",
    "Vm",
    "demand_fit",
    "every",
    "for_candidates",
    "made",
    "named",
    "one",
    "repeat",
]

Folder = str | os.PathLike[str] | None
#: Command recorded in a result that was repeated from Python.
REPEATED = "tailback.repeat"
#: Folder where commands keep results of kernel runs.
GUESTS = Path("results/guests")
#: Memory that a guest uses of its 2 GB, in MB.
_GUEST_MB = 1024


class How(TypedDict, total=False):
    """Options of a run, as for `tailback.run`."""

    progress: bool | Callable[[float], object]
    cancel: Cancel | None
    allow_code: bool


class UnknownEngine(TailbackError, ValueError):
    """A name that is not an engine's, or an engine named twice."""


@dataclass(frozen=True)
class Capabilities:
    """What an engine can do that others may not."""

    #: Run congestion controls and queues written in Python.
    python: bool = False
    #: Write rows to a folder while the run goes on.
    stream: bool = False
    #: Repeat a run with the same rows.
    repeat: bool = False
    #: Take a kernel by name.
    choose_kernel: bool = False
    #: Run several scenarios at once without changing the measurements.
    share: bool = False
    #: Run on a kernel, with a scenario's programs, kernel queues and modules.
    kernel: bool = False


def demand_fit(result: Result) -> None:
    """Raise the error of a run whose numbers do not count.

    `ProgramError` if a program failed, late packets or not. `Overloaded` if packets were late; another run may succeed.
    """
    if result.failed_programs:
        late = [] if result.meta.get("fit", True) else ["the emulator was late too"]
        raise ProgramError("; ".join([*result.failed_programs, *late]))
    if not result.meta.get("fit", True):
        raise vm.Overloaded(f"{result.name}: the emulator was late: {'; '.join(result.meta['notes'])}")


class Engine(ABC):
    """Runs scenarios."""

    name: ClassVar[str]
    can: ClassVar[Capabilities]

    @property
    def words(self) -> list[str]:
        """The command-line option that selects this engine."""
        return [f"--engine {self.name}"]

    @abstractmethod
    def check(self, scenario: Scenario, *, allow_code: bool = False) -> None:
        """Raise any error of the scenario or of this machine before a run."""

    @abstractmethod
    def run(self, scenario: Scenario, **how: Unpack[How]) -> Result:
        """Run it and return the result."""

    def mark(self, scenario: Scenario) -> str:
        """Properties of the engine that affect a run, for a store's key; empty for the simulator, which stores know."""
        return ""

    def at_once(self, workers: int | None = None) -> int:
        """Number of parallel runs: `workers`, or what the machine's cores and memory allow."""
        return (workers or cores()) if self.can.share else 1

    def outcomes(
        self,
        scenarios: Sequence[Runnable],
        *,
        workers: int | None = None,
        cancel: Cancel | None = None,
        algorithms: Algorithms | None = None,
        allow_code: bool = False,
        store: Folder = None,
    ) -> Generator[tuple[int, Result | TailbackError], None, None]:
        """Run scenarios, like `tailback.run.run_outcomes`; yields number and result, or error, as each ends.

        A kernel's results are kept in the folder `store`, where the next call finds them.
        """
        found = [self._found(each, store, allow_code) for each in scenarios]
        stop = Cancel()
        with ThreadPoolExecutor(min(self.at_once(workers), max(len(found), 1))) as pool:
            try:
                asked: dict[Future[Result | TailbackError], int] = {}
                for number, (scenario, place) in enumerate(found):
                    asked[pool.submit(self._outcome, scenario, place, stop, allow_code)] = number
                while asked:
                    if cancel is not None and cancel.is_set():
                        done = len(found) - len(asked)
                        raise Cancelled(f"cancelled after {done} of {len(found)} runs; they are kept")
                    ended, _ = wait(asked, timeout=0.2, return_when=FIRST_COMPLETED)
                    for each in ended:
                        yield asked.pop(each), each.result()
            finally:
                stop.set()
                pool.shutdown(wait=True, cancel_futures=True)

    def _found(self, what: Runnable, store: Folder, allow_code: bool) -> tuple[Scenario | TailbackError, Path | None]:
        """A scenario and the folder of its stored result; the error of a scenario that cannot run."""
        try:
            scenario = as_scenario(what)
            resolved = scenario.resolve(live=True)
            demand_allowed(resolved, allow_code, scenario)
            if store is None:
                return scenario, None
            own = [f"{name} {source.sha256}" for name, source in sources(resolved, None, scenario.folder).items()]
            text = "\n".join([_core.version(), self.mark(scenario), as_text(resolved), *own])
            return scenario, Path(store) / digest(text.encode())[:24]
        except TailbackError as error:
            return error, None

    def _outcome(
        self, scenario: Scenario | TailbackError, place: Path | None, stop: Cancel, allow_code: bool
    ) -> Result | TailbackError:
        if isinstance(scenario, TailbackError):
            return scenario
        if place is not None and place.is_dir():
            with contextlib.suppress(TailbackError):
                demand_fit(kept := open_result(place))
                return kept
        try:
            result = self.run(scenario, cancel=stop, allow_code=allow_code)
            demand_fit(result)
        except TailbackError as error:
            return error
        if place is not None:
            result.save(place)
        return result

    def repeat(self, result: Result, *, out: Folder = None, command: str = REPEATED, **how: Unpack[How]) -> Result:
        """Run again what `result` was made from; `TailbackError` if the engine cannot repeat the rows."""
        raise _unrepeatable(result)


class Sim(Engine):
    """The simulator."""

    name = "sim"
    can = Capabilities(python=True, stream=True, repeat=True, share=True)

    def check(self, scenario: Scenario, *, allow_code: bool = False) -> None:
        """As `Engine.check`."""
        demand_allowed(scenario.resolve(), allow_code, scenario)

    def run(self, scenario: Scenario, **how: Unpack[How]) -> Result:
        """As `tailback.run`."""
        return run(scenario, **how)

    def outcomes(
        self,
        scenarios: Sequence[Runnable],
        *,
        workers: int | None = None,
        cancel: Cancel | None = None,
        algorithms: Algorithms | None = None,
        allow_code: bool = False,
        store: Folder = None,
    ) -> Generator[tuple[int, Result | TailbackError], None, None]:
        """As `tailback.run.run_outcomes`; nothing is kept."""
        return run_outcomes(scenarios, workers=workers, cancel=cancel, algorithms=algorithms, allow_code=allow_code)

    def repeat(self, result: Result, *, out: Folder = None, command: str = REPEATED, **how: Unpack[How]) -> Result:
        """Simulate it again."""
        return simulate_again(result, out=out, command=command, **how)


class Live(Engine):
    """The kernel of this machine, in real time."""

    name = "live"
    can = Capabilities(kernel=True)

    def check(self, scenario: Scenario, *, allow_code: bool = False) -> None:
        """As `tailback.live.check`."""
        demand_allowed(scenario.resolve(live=True), allow_code, scenario)
        live.check(scenario)

    def run(self, scenario: Scenario, **how: Unpack[How]) -> Result:
        """As `tailback.live.run`."""
        return live.run(scenario, **how)

    def mark(self, scenario: Scenario) -> str:
        """The machine and its kernel version."""
        return f"live {platform.node()} {platform.release()} {platform.version()}"


class Vm(Engine):
    """A kernel in a virtual machine: the one of this name or path, or the first one fetched.

    Its processor is `dilation` times faster, as for `tailback.vm.run`. A run whose machine is lost is tried again. With
    `sure`, a run whose links are twice too fast is refused at once; otherwise it would fail minutes later.
    """

    name = "vm"
    can = Capabilities(repeat=True, choose_kernel=True, share=True, kernel=True)
    TRIES = 3

    def __init__(self, kernel: str | None = None, dilation: int = 1, *, sure: bool = False) -> None:
        self.kernel = kernel
        self.dilation = dilation
        self.sure = sure

    @property
    def words(self) -> list[str]:
        """The options for engine and kernel; for an image only its file name, since a result may be published."""
        kernel = [f"--kernel {Path(self.kernel).name}"] if self.kernel else []
        return [*super().words, *kernel, *([f"--dilation {self.dilation}"] if self.dilation > 1 else [])]

    def check(self, scenario: Scenario, *, allow_code: bool = False) -> None:
        """As `tailback.vm.check`."""
        vm.check(scenario, kernel=self.kernel, allow_code=allow_code, dilation=self.dilation)

    def run(self, scenario: Scenario, **how: Unpack[How]) -> Result:
        """As `tailback.vm.run`."""
        if self.sure and (enough := vm.dilation_for(scenario.resolve(live=True, check=False))) > 2 * self.dilation:
            alone = f"Alone it may run: --engine vm --dilation {2 * enough}"
            raise vm.Overloaded(f"its links carry more than a guest's processor does. {alone}")
        for left in reversed(range(self.TRIES)):
            try:
                return vm.run(scenario, kernel=self.kernel, dilation=self.dilation, **how)
            except vm.LostRun:
                if not left or ((cancel := how.get("cancel")) is not None and cancel.is_set()):
                    raise
        raise AssertionError("the last try returns or raises")

    def mark(self, scenario: Scenario) -> str:
        """As `tailback.vm.identity`."""
        return vm.identity(scenario, kernel=self.kernel, dilation=self.dilation)

    def at_once(self, workers: int | None = None) -> int:
        """Number of parallel guests: `workers`, or what the machine's cores and memory allow."""
        if workers is not None:
            return workers
        free = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        return max(1, min(cores(), int(free[1]) // 1024 // _GUEST_MB if free else 1))

    def repeat(self, result: Result, *, out: Folder = None, command: str = REPEATED, **how: Unpack[How]) -> Result:
        """Run it again on the kernel that the result names."""
        if out is not None:
            demand_writable(Path(out))
        again = vm.repeat(result, kernel=self.kernel, **how)
        again.meta["command"] = command
        if out is not None:
            again.save(out)
        return again


_ENGINES: dict[str, type[Engine]] = {each.name: each for each in (Sim, Live, Vm)}
NAMES = tuple(_ENGINES)


def every() -> list[Engine]:
    """One engine of each kind."""
    return named(",".join(NAMES))


def named(words: str, kernel: str | None = None, dilation: int = 1) -> list[Engine]:
    """The engines of a list such as "sim,vm"; `UnknownEngine` for an unknown name, or for a repeated one.

    `kernel` and `dilation` go to the engines that take them.
    """
    chosen = [word.strip() for word in words.split(",")]
    for word in chosen:
        if word not in _ENGINES:
            close = nearest(word, NAMES)
            hint = f' Did you mean "{close}"?' if close else ""
            raise UnknownEngine(f'there is no engine "{word}".{hint} There are: {", ".join(NAMES)}')
    if len(set(chosen)) != len(chosen):
        raise UnknownEngine(f"--engine {words}: an engine is named twice")
    return [Vm(kernel, dilation) if _ENGINES[word] is Vm else _ENGINES[word]() for word in chosen]


def one(words: str, kernel: str | None = None) -> Engine:
    """The engine of this name, for what runs on one; `UnknownEngine` for a list of several."""
    first, *more = named(words, kernel)
    if more:
        raise UnknownEngine(f"--engine {words}: this runs on one engine. Give {first.name}")
    return first


def for_candidates(names: Iterable[str], engine: str | None = None, kernel: str | None = None) -> Engine:
    """The engine that runs all of these candidates: `engine`, or the first one that can.

    >>> for_candidates(["cubic", "reno"]).name, for_candidates(["cubic", "module:tcp_mine.c"]).name
    ('sim', 'vm')
    """
    chosen = named(engine) if engine is not None else None
    if chosen is not None and len(chosen) > 1:
        raise _no_engine(engine, "a command that judges takes one engine", f"Give {chosen[0].name}")
    left = list(NAMES)
    for name in dict.fromkeys(names):
        can = engines_of(name)
        if chosen is not None and chosen[0].name not in can:
            fix = f"Write --engine {can[0]}" if can[0] != "sim" else "Leave it out"
            raise _no_engine(engine, f'"{name}" does not run there; it runs in {" and ".join(can)}', fix)
        left = [each for each in left if each in can]
        if not left:
            problem = f'"{name}" runs in {" and ".join(can)} only, and what is beside it does not'
            raise _no_engine(engine, problem, "Run each of them separately")
    found = next(iter(left)) if chosen is None else chosen[0].name
    # A live run must be requested explicitly.
    found = "vm" if chosen is None and found == "live" and "vm" in left else found
    if found == "vm":
        return Vm(kernel, sure=True)
    if kernel is not None:
        problem = f"only a guest has one, and this runs in {found}"
        raise ScenarioError([Problem("kernel", kernel, problem, "Add --engine vm, or leave it out")])
    return named(found)[0]


def _no_engine(engine: str | None, problem: str, fix: str) -> ScenarioError:
    return ScenarioError([Problem("engine", engine, problem, fix)])


def made(result: Result, kernel: str | None = None) -> Engine | None:
    """The engine that produced a result; `None` if none did, as for a capture."""
    name = result.provenance.engine
    return named(name, kernel)[0] if name in _ENGINES else None


def repeat(
    result: Result,
    *,
    progress: bool | Callable[[float], object] = False,
    cancel: Cancel | None = None,
    allow_code: bool = False,
    out: Folder = None,
    kernel: str | None = None,
    command: str = REPEATED,
) -> Result:
    """Simulate again what `result` was made from: the same version gives the same rows.

    A run of a virtual machine is repeated in one, which needs the result's kernel here. If the result names the kernel
    by the path of an image, `kernel` must be that path, because the result may come from a stranger.

    Only the result is needed, not the files that its scenario named. It keeps the sources of your own algorithms, which
    run only with `allow_code`: read them first. The other options are as for `run`.

    >>> import tailback as tb
    >>> scenario = tb.dumbbell(rate="10mbit", rtt="80ms", flows=[tb.bulk("reno")], duration="2s")
    >>> first = tb.run(scenario)
    >>> tb.repeat(first).numpy("flows")["bytes_acked"] == first.numpy("flows")["bytes_acked"]
    array([ True])
    """
    engine = made(result, kernel)
    if kernel is not None and (engine is None or not engine.can.choose_kernel):
        made_by = result.meta.get("engine", "")
        raise TailbackError(f"kernel={kernel}: this result is of engine {made_by}, which has no kernel. Leave it out")
    if engine is None:
        raise _unrepeatable(result)
    how = How(progress=progress, cancel=cancel, allow_code=allow_code)
    return engine.repeat(result, out=out, command=command, **how)


def _unrepeatable(result: Result) -> TailbackError:
    return TailbackError(
        "only runs of the simulator and of virtual machines repeat: this result is of engine "
        f"{result.meta.get('engine', '')}. Run its scenario again"
    )
