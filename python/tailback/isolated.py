"""Runs compiled candidates in a separate process: one that crashes or never returns does not affect other runs."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tailback import _core, native, stacks
from tailback._core import Cancel
from tailback.algorithms import Factory, Source, made_from
from tailback.errors import TailbackError

__all__ = ["run"]

_FAULT = "tailback-fault"
_idle: list[_Worker] = []
_lock = threading.Lock()


def run(
    text: str,
    cancel: Cancel | None,
    progress: Callable[[float], object] | None,
    factories: Mapping[str, Factory],
    sources: Mapping[str, Source],
    sink: Callable[..., object] | None = None,
    most_wall_s: float | None = None,
) -> dict[str, dict[str, Any]]:
    """`_core.run`, in a separate process if the scenario names natively compiled code."""
    declared = {name: made for name, made in factories.items() if name in sources and isinstance(made, native.Declared)}
    if not declared:
        return _core.run(text, cancel, progress, dict(factories), sink, None, most_wall_s)
    others = {name: source for name, source in sources.items() if name not in declared}
    for name, source in others.items():
        if source.text is None:
            raise TailbackError(f"{name} stands in no file, so that no other process can run it beside {min(declared)}")
    resolved = json.loads(text)
    job: dict[str, Any] = {
        "text": text,
        "natives": native.libraries(resolved, declared),
        "queues": native.queues(resolved, declared),
        "stacks": stacks.libraries(declared),
        "sources": others,
        "wants": (progress is not None, sink is not None),
    }
    job["most_wall_s"] = most_wall_s
    return _done(job, min(declared), cancel, progress, sink)


def demand_sound(name: str, libraries: list[tuple[str, str]]) -> None:
    """Load compiled libraries with their parameters; raises the error of one that fails."""
    _done({"sound": libraries}, name)


def about_queue(name: str, library: str, params: str, rate_bps: int | None) -> str:
    """Properties of the queue in a compiled library, constructed with these parameters; raises its errors."""
    about: str = _done({"about": (library, params, rate_bps)}, name)["about"]["text"]
    return about


def about_stack(name: str, library: str) -> tuple[str, list[str]]:
    """Version and congestion controls of a transport in a compiled library; raises its errors."""
    about: tuple[str, list[str]] = _done({"stack": (name, library)}, name)["about"]["stack"]
    return about


def _done(
    job: Mapping[str, Any],
    name: str,
    cancel: Cancel | None = None,
    progress: Callable[[float], object] | None = None,
    sink: Callable[..., object] | None = None,
) -> dict[str, dict[str, Any]]:
    worker = _taken()
    try:
        tables = worker.work(job, name, cancel, progress, sink)
    except _Failed as failed:
        # The engine reported it, so the process itself is intact.
        _give_back(worker)
        raise failed.error from None
    except BaseException:
        worker.end()
        raise
    _give_back(worker)
    return tables


def _taken() -> _Worker:
    with _lock:
        while _idle:
            worker = _idle.pop()
            if worker.process.poll() is None:
                return worker
            worker.end()
    return _Worker()


def _give_back(worker: _Worker) -> None:
    with _lock:
        _idle.append(worker)


@atexit.register
def _end_all() -> None:
    while _idle:
        _idle.pop().end()


class _Failed(Exception):
    """An error that the engine raised in the worker."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class _Worker:
    """A process that executes runs one after another."""

    def __init__(self) -> None:
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        # -I: otherwise the working folder comes first on the path, and a json.py in it would be imported. The worker
        # gets this process's path without relative entries.
        root = str(Path(__file__).parents[1])
        path = [place for place in sys.path if Path(place).is_absolute()]
        path += [] if root in path else [root]
        code = f"import sys; sys.path[:] = {path!r}; from tailback import isolated; "
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", f"{code}isolated.serve({theirs_in}, {theirs_out})"],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out = Connection(ours_in, writable=False), Connection(ours_out, readable=False)

    def work(
        self,
        job: Mapping[str, Any],
        name: str,
        cancel: Cancel | None,
        progress: Callable[[float], object] | None,
        sink: Callable[..., object] | None,
    ) -> dict[str, dict[str, Any]]:
        """Execute a run."""
        try:
            self._out.send(job)
            while True:
                while not self._in.poll(0.1):
                    if cancel is not None and cancel.is_set():
                        raise _core.Cancelled("the run was cancelled")
                kind, *what = self._in.recv()
                if cancel is not None and cancel.is_set():
                    raise _core.Cancelled("the run was cancelled")
                if kind == "progress" and progress is not None:
                    progress(*what)
                elif kind == "rows" and sink is not None:
                    sink(*what)
                elif kind == "done":
                    tables: dict[str, dict[str, Any]] = what[0]
                    return tables
                elif kind == "error":
                    error, arguments = what
                    if error == "AlgorithmError":
                        # C code has no exception type to name.
                        arguments = (*arguments[:3], str(arguments[3]).removeprefix("ValueError: "))
                    raise _Failed(getattr(_core, error, TailbackError)(*arguments))
        except (EOFError, ConnectionError):
            raise self._fault(name) from None

    def _fault(self, name: str) -> Exception:
        """The reason that the process ended."""
        status = self.process.wait()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").splitlines()
        if lines and lines[-1].startswith(_FAULT):
            _, who, hook, at_ns, what = lines[-1].split("\t")
            return _core.AlgorithmError(who or name, hook, int(at_ns) / 1e9, what)
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        return _core.AlgorithmError(name, "its process", 0.0, f"the process ended with {how}: {' '.join(lines[-3:])}")

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()
        for each in (self._in, self._out, self._said):
            each.close()


def serve(incoming: int, outgoing: int) -> None:
    """The worker's loop: execute runs until the pipe closes."""
    # Ctrl-C is for the parent; the worker ends when the pipe closes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _core.bpf_guard()
    jobs, answers = Connection(incoming, writable=False), Connection(outgoing, readable=False)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            answers.send(_answer(jobs.recv(), answers))


def _answer(job: Mapping[str, Any], answers: Connection) -> tuple[Any, ...]:
    if "sound" in job:
        try:
            _core.NativeAlgorithm(job["sound"]).demand_sound()
        except ValueError as error:
            return "error", type(error).__name__, error.args
        return "done", {}
    if "stack" in job:
        try:
            return "done", {"about": {"stack": _core.NativeStack(*job["stack"]).about()}}
        except ValueError as error:
            return "error", type(error).__name__, error.args
    if "about" in job:
        try:
            return "done", {"about": {"text": _core.native_queue_about(*job["about"])}}
        except ValueError as error:
            return "error", type(error).__name__, error.args
    algorithms: dict[str, Any] = {name: made_from(name, source) for name, source in job["sources"].items()}
    natives, queues = job["natives"], job["queues"]
    algorithms |= {
        name: _core.NativeAlgorithm(natives.get(name, []), queues.get(name, []))
        for name in natives.keys() | queues.keys()
    }
    algorithms |= {name: _core.NativeStack(name, library) for name, library in job["stacks"].items()}
    wants_progress, wants_rows = job["wants"]

    def progress(fraction: float) -> None:
        answers.send(("progress", fraction))

    def sink(*rows: Any) -> None:
        answers.send(("rows", *rows))

    try:
        given = (progress if wants_progress else None, algorithms, sink if wants_rows else None)
        return "done", _core.run(job["text"], None, *given, None, job["most_wall_s"])
    except (BrokenPipeError, EOFError):
        raise
    except Exception as error:
        return "error", type(error).__name__, error.args
