"""`tailback bisect`: finds the first version of a QUIC stack's crate on which a condition fails.

Each version is compiled and judged by `[expect]` over seeds; a version that the adapter does not fit is skipped.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from tailback import suites
from tailback.errors import TailbackError
from tailback.files import write_text
from tailback.scenario import Scenario
from tailback.stacks import versions
from tailback.vm.bisected import Bisected, Seen, bisect

__all__ = ["search", "tried_with"]

#: Time limit for a version's runs, in seconds.
_PATIENCE_S = 900


def tried_with(crate: str, scenario: Scenario, cc: str, expect: str) -> Callable[[str], Seen | str]:
    """The `attempt` argument of `vm.bisected.bisect`: compile a version, run `scenario`, judge `expect` over seeds."""
    versions.demand_adapter(crate)
    given = scenario.to_dict()
    # The version takes its place; the program knows no other transport.
    for at in suites.subjects(given):
        flow = given["flow"][at]
        given["flow"][at] = {key: flow[key] for key in flow if key not in ("transport", "stack", "receiver_stack")}
        given["flow"][at]["cc"] = "cubic"
    given["expect"] = {**given.get("expect", {}), "conditions": [expect]}
    text = Scenario.from_dict(given).to_toml()

    def attempt(version: str) -> Seen | str:
        program = versions.program(crate, version)
        if isinstance(program, str):
            return program
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "scenario.toml"
            write_text(file, text)
            words = [str(program), str(file), cc]
            try:
                done = subprocess.run(
                    words, capture_output=True, text=True, timeout=_PATIENCE_S, check=False, errors="replace"
                )
            except subprocess.TimeoutExpired:
                return f"no answer in {_PATIENCE_S} s"
        verdict, _, rest = done.stdout.partition("\n")
        measured, _, why = rest.partition("\n")
        if done.returncode or not verdict:
            return f"it ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"
        if verdict == "Refused":
            raise TailbackError(f"{crate} {version}: {why.strip()}")
        if verdict == "Undecided":
            return f"undecided: {why.strip()}"
        return Seen(version, why.strip(), verdict == "Passed", {expect: float(measured)})

    return attempt


def search(
    crate: str,
    good: str,
    bad: str,
    attempt: Callable[[str], Seen | str],
    say: Callable[[str], object] = lambda _: None,
    *,
    known: Iterable[str] | None = None,
) -> Bisected:
    """The last good and first bad version between two, among `known` or all published versions."""
    names = versions.between(good, bad, versions.versions(crate) if known is None else known)
    say(f"{len(names)} versions from {names[0]} to {names[-1]}: at most {len(names).bit_length() + 2} builds")
    return bisect(names, attempt, say)
