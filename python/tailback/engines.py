"""Engines: what runs a scenario, as objects. The simulator, this machine's kernel, any kernel in a virtual machine.

Each can `check`, `run` and `repeat`, and says in `can` what it is capable of. Commands, sweeps and studies ask these
and compare no names; a result's `provenance` says which engine filled it, and `made` returns that engine.

>>> from tailback import engines
>>> [engine.name for engine in engines.named("sim, vm")]
['sim', 'vm']
>>> engines.Sim().can.repeat, engines.Live().can.repeat
(True, False)
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypedDict, Unpack

from tailback import live, vm
from tailback._core import Cancel
from tailback.consent import demand_allowed
from tailback.errors import TailbackError, nearest
from tailback.result import Result, demand_writable
from tailback.run import run, simulate_again
from tailback.scenario import Scenario

__all__ = ["NAMES", "Capabilities", "Engine", "Live", "Sim", "UnknownEngine", "Vm", "every", "made", "named", "repeat"]

Folder = str | os.PathLike[str] | None
#: What made a result that was repeated from Python.
REPEATED = "tailback.repeat"


class How(TypedDict, total=False):
    """How a run goes on, as for `tailback.run`."""

    progress: bool | Callable[[float], object]
    cancel: Cancel | None
    allow_code: bool


class UnknownEngine(TailbackError, ValueError):
    """A word that names no engine, or one that is named twice."""


@dataclass(frozen=True)
class Capabilities:
    """What an engine can do that another cannot."""

    #: Run congestion controls and queues written in Python.
    python: bool = False
    #: Write rows to a folder while the run goes on.
    stream: bool = False
    #: Give the same rows again.
    repeat: bool = False
    #: Take a kernel by name.
    choose_kernel: bool = False
    #: Run several scenarios at once without a change in what they measure.
    share: bool = False


class Engine(ABC):
    """What runs a scenario."""

    name: ClassVar[str]
    can: ClassVar[Capabilities]

    @property
    def words(self) -> list[str]:
        """What a command line says to have this engine."""
        return [f"--engine {self.name}"]

    @abstractmethod
    def check(self, scenario: Scenario, *, allow_code: bool = False) -> None:
        """Raise what is wrong with the scenario, or with this machine, before anything runs."""

    @abstractmethod
    def run(self, scenario: Scenario, **how: Unpack[How]) -> Result:
        """Run it and return what was measured."""

    def repeat(self, result: Result, *, out: Folder = None, command: str = REPEATED, **how: Unpack[How]) -> Result:
        """Run what `result` was made from once more; `TailbackError` for an engine that cannot give the same rows."""
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

    def repeat(self, result: Result, *, out: Folder = None, command: str = REPEATED, **how: Unpack[How]) -> Result:
        """Simulate it again."""
        return simulate_again(result, out=out, command=command, **how)


class Live(Engine):
    """The kernel of the machine at hand, in real time."""

    name = "live"
    can = Capabilities()

    def check(self, scenario: Scenario, *, allow_code: bool = False) -> None:
        """As `tailback.live.check`."""
        demand_allowed(scenario.resolve(live=True), allow_code, scenario)
        live.check(scenario)

    def run(self, scenario: Scenario, **how: Unpack[How]) -> Result:
        """As `tailback.live.run`."""
        return live.run(scenario, **how)


class Vm(Engine):
    """A kernel in a virtual machine: the one of this name or path, or the first one fetched.

    Its processor is `dilation` times faster, as for `tailback.vm.run`.
    """

    name = "vm"
    can = Capabilities(repeat=True, choose_kernel=True)

    def __init__(self, kernel: str | None = None, dilation: int = 1) -> None:
        self.kernel = kernel
        self.dilation = dilation

    @property
    def words(self) -> list[str]:
        """Engine and kernel; of an image its name, not where it lies: a result may be given away."""
        kernel = [f"--kernel {Path(self.kernel).name}"] if self.kernel else []
        return [*super().words, *kernel, *([f"--dilation {self.dilation}"] if self.dilation > 1 else [])]

    def check(self, scenario: Scenario, *, allow_code: bool = False) -> None:
        """As `tailback.vm.check`."""
        vm.check(scenario, kernel=self.kernel, allow_code=allow_code, dilation=self.dilation)

    def run(self, scenario: Scenario, **how: Unpack[How]) -> Result:
        """As `tailback.vm.run`."""
        return vm.run(scenario, kernel=self.kernel, dilation=self.dilation, **how)

    def repeat(self, result: Result, *, out: Folder = None, command: str = REPEATED, **how: Unpack[How]) -> Result:
        """Run it again on the kernel that it names."""
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
    """One of each."""
    return named(",".join(NAMES))


def named(words: str, kernel: str | None = None, dilation: int = 1) -> list[Engine]:
    """The engines of a list such as "sim,vm"; `UnknownEngine` for a word that names none, and for one named twice.

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


def made(result: Result, kernel: str | None = None) -> Engine | None:
    """The engine that filled a result; `None` for what no engine did, such as a capture."""
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
    """Simulate what `result` says it was made from again: the same version gives the same rows.

    What a virtual machine ran is run in one again, for which the result's kernel must be here. If the result names it
    by the path of an image, `kernel` must be that path: the result may be a stranger's.

    Nothing but the result is needed, neither the files that its scenario named nor those of algorithms of your own:
    it keeps their sources, which are run only with `allow_code`. Read them first. The rest is as for `run`.

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
