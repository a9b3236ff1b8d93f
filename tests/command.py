"""The command, called as a user does: in this process, whose imports are there, or in one of its own."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from tailback import cli

#: Before its words: the command as a process of its own, for signals, for an environment, for what a start imports.
PROCESS = [sys.executable, "-c", "from tailback.cli import main; main()"]


class Ran(NamedTuple):
    """What a command did: exit code, output, messages."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The one JSON object that it printed."""
        return json.loads(self.out)


def tailback(*words: object, cwd: Path | None = None, shows_traceback: bool = False) -> Ran:
    """Call it in this process, perhaps in another folder. A traceback is shown of the user's code alone."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        if cwd is not None:
            stack.enter_context(contextlib.chdir(cwd))
        stack.enter_context(mock.patch.object(sys, "argv", ["tailback", *map(str, words)]))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            cli.main()
        except SystemExit as ended:
            # A text is an error's, and nothing is success.
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        else:
            raise AssertionError("a command ends with its exit code")
    ran = Ran(code, out.getvalue(), err.getvalue())
    assert ("Traceback" in ran.out + ran.err) == shows_traceback
    return ran


def process(*words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """Call it as a process; `more` is subprocess.run's."""
    return subprocess.run([*PROCESS, *map(str, words)], capture_output=True, text=True, check=False, **more)
