"""Ends a hook of a user's Python class that does not return, as the engine does for Rust and BPF."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import time

from tailback import _core

__all__ = ["Unreturned", "watch"]

#: Limit of processor time in seconds; a hook normally takes a microsecond.
MOST_S = 2.0
LOOK_S = 0.25


class Unreturned(SystemExit):
    """Raised inside a hook that does not return.

    A `SystemExit`, so that `except Exception` in the hook does not catch it. It counts as the hook's error, like the
    hook's own `sys.exit`, and does not end the program.
    """

    def __init__(self) -> None:
        # With a text, so that a program that ends by it does not exit with status 0.
        super().__init__(f"the hook has used {MOST_S:g} s of processor time and does not return")


def watch() -> None:
    """Start a thread that watches the hooks of this process."""
    _started(os.getpid())


@functools.cache
def _started(_: int) -> None:
    threading.Thread(target=_look, name="tailback-hooks", daemon=True).start()


def _look() -> None:
    while True:
        time.sleep(LOOK_S)
        for ident in _core.hooks_that_stay(MOST_S):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(Unreturned))
