"""Replaces itself by a machine: `python -I starter.py PROCESSOR PROGRAM ARGUMENT…`, `-` for any processor.

`subprocess` could do this between fork and exec, but fork fails (ENOMEM) in a process that has reserved more address
space than the memory, as after a run with thousands of connections.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(processor: str, *words: str) -> None:
    """Bind this process to the processor, tie its life to its parent's, and exec the command."""
    if processor != "-":
        os.sched_setaffinity(0, {int(processor)})
    # Even if the process that started this one is killed, no machine stays behind: the setting outlives exec, prctl(2).
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        os.execvp(words[0], words)
    except OSError as error:
        sys.exit(f"{words[0]} could not be started: {error.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])
