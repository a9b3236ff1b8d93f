"""Ends code of a user's Python class that does not return, as the engine does for Rust and BPF."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tailback import _core

__all__ = ["MOST_LOAD_S", "MOST_S", "Unreturned", "check", "constructed", "watch", "watched"]

#: Limit of processor time in seconds; a hook normally takes a microsecond.
MOST_S = 2.0
#: The same for importing a module, which may import large ones.
MOST_LOAD_S = 10.0
LOOK_S = 0.25


class Unreturned(SystemExit):
    """Raised inside a hook that does not return.

    A `SystemExit`, so that `except Exception` in the hook does not catch it. It counts as the hook's error, like the
    hook's own `sys.exit`, and does not end the program.
    """

    def __init__(self, what: str = "the hook", most_s: float = MOST_S) -> None:
        # With a text, so that a program that ends by it does not exit with status 0.
        super().__init__(f"{what} has used {most_s:g} s of processor time and does not return")


class _Watched:
    """Code that a thread runs, with the processor time from which it counts as not returning."""

    def __init__(self, most_s: float) -> None:
        self.ident = threading.get_ident()
        # macOS has no clock for each thread; there the wall clock is used.
        find: Callable[[int], int] | None = getattr(time, "pthread_getcpuclockid", None)
        self.clock = time.CLOCK_MONOTONIC if find is None else find(self.ident)
        self.most_s = most_s
        self.until_s = time.clock_gettime(self.clock) + most_s


#: Weak, so that code whose end an exception interrupts is watched no longer than its frame lives.
_watched: weakref.WeakSet[_Watched] = weakref.WeakSet()
#: Interrupts that came while the engine constructed a class, which it reports as an error of that class.
_interrupts: list[KeyboardInterrupt] = []


def watch() -> None:
    """Start a thread that watches the hooks of this process."""
    _started(os.getpid())


@contextlib.contextmanager
def watched(what: str, most_s: float) -> Iterator[None]:
    """Raise `Unreturned` in code that uses `most_s` seconds of processor time and does not return."""
    watch()
    entry = _Watched(most_s)
    _watched.add(entry)
    try:
        yield
    except Unreturned:
        raise Unreturned(what, most_s) from None
    finally:
        _watched.discard(entry)


@contextlib.contextmanager
def constructed() -> Iterator[None]:
    """As `watched`, for a class that the engine constructs."""
    try:
        with watched("its constructor", MOST_S):
            yield
    except KeyboardInterrupt as interrupt:
        _interrupts.append(interrupt)
        raise


def check(resolved: str, factories: Mapping[str, Any], live: bool = False) -> None:
    """`_core.check`, from which Ctrl-C during the construction of a class is a `KeyboardInterrupt`."""
    _interrupts.clear()
    try:
        _core.check(resolved, dict(factories), live)
    except _core.ScenarioError:
        if _interrupts:
            raise _interrupts.pop() from None
        raise


@functools.cache
def _started(_: int) -> None:
    threading.Thread(target=_look, name="tailback-hooks", daemon=True).start()


def _look() -> None:
    while True:
        time.sleep(LOOK_S)
        for ident in _core.hooks_that_stay(MOST_S):
            _end(ident)
        for entry in list(_watched):
            # Fails if the thread has ended.
            with contextlib.suppress(OSError):
                now_s = time.clock_gettime(entry.clock)
                if now_s >= entry.until_s:
                    entry.until_s = now_s + entry.most_s
                    _end(entry.ident)


def _end(ident: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(Unreturned))
