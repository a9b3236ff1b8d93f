"""Ends a hook of a class of the user's own that does not return, as it does those in Rust and BPF."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import time

from tailback import _core

__all__ = ["Unreturned", "watch"]

#: Of processor time: two seconds for what takes a microsecond.
MOST_S = 2.0
LOOK_S = 0.25


class Unreturned(SystemExit):
    """Raised within a hook that does not return.

    A `SystemExit`, which no `except Exception` in the hook holds back, and which is the hook's fault and not the
    program's end, as its own `sys.exit` would be.
    """

    def __init__(self) -> None:
        # Its text, so that a program that it ends does not end as if all was well.
        super().__init__(f"the hook has used {MOST_S:g} s of processor time and does not return")


def watch() -> None:
    """Look at the hooks of this process from now on, from a thread of its own."""
    _started(os.getpid())


@functools.cache
def _started(_: int) -> None:
    threading.Thread(target=_look, name="tailback-hooks", daemon=True).start()


def _look() -> None:
    while True:
        time.sleep(LOOK_S)
        for ident in _core.hooks_that_stay(MOST_S):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(Unreturned))
