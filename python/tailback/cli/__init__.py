"""The command `tailback`: runs scenarios and studies, and shows their results.

Data goes to standard output, everything else to standard error; with `--json` standard output is exactly one
JSON object. Exit codes: 0 done, 1 failed, 2 bad input, 130 interrupted (Ctrl-C, SIGTERM).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from tailback.cli._app import app

__all__ = ["app", "main"]


def main() -> NoReturn:
    """Run the command line, then exit with its exit code."""
    if sys.argv[1:] == ["--version"]:
        # Scripts ask for the version, so print it before any slow import.
        from tailback._core import version

        print(f"tailback {version()}")
        sys.exit(0)
    from tailback.cli import _main

    sys.exit(_main.main())


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "app":
            from tailback.cli import _main

            return _main.app
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
