"""Runs a scenario on this machine's kernel: real TCP, sockets and time, with the simulator's links in between.

Needs Linux and root; `doctor()` reports what is missing. A live result has the simulator's tables, so every metric and
plot works on it. It has two more: `emulator` (one row: how punctual the run was) and `captures` (every packet at both
ends of the path).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tailback import _core, bpf
from tailback._core import Cancel
from tailback.algorithms import demand_of_kernel, named
from tailback.consent import demand_allowed
from tailback.errors import Cancelled, EngineError, Problem, ScenarioError, TailbackError
from tailback.live import controls, programs, shells
from tailback.progress import Bar
from tailback.result import Result
from tailback.run import Runnable, as_scenario
from tailback.scenario import Scenario

__all__ = ["LiveError", "check", "clean", "doctor", "run", "shell"]

_HAS_LIVE = hasattr(_core, "live_run")

#: Maximum duration of a shell in seconds, as all its packets are kept in memory.
_MOST_SECONDS = 86_400.0


class LiveError(TailbackError):
    """A live run that failed; everything that it created has been removed."""


def _demand_linux() -> None:
    if not _HAS_LIVE:
        fix = 'Run it with engine "sim", or on a Linux machine.'
        raise ScenarioError([Problem("engine", "live", "live runs need Linux", fix)])


def _candidates(scenario: Scenario, resolved: Mapping[str, Any]) -> dict[str, str]:
    """Source texts in BPF by name; raises an error for code that the kernel cannot run."""
    demand_of_kernel(scenario, resolved)
    return {name: bpf.read(name, scenario.folder) for name in named(resolved) if bpf.is_source(name)}


def _refused(scenario: Scenario, error: Exception) -> ScenarioError:
    return scenario.complaint(*map(str, error.args))


def check(scenario: Runnable, *, twins: bool = False) -> None:
    """Raise `ScenarioError` unless this machine can run `scenario` live (`twins` as for `run`); nothing is created."""
    _demand_linux()
    what = as_scenario(scenario)
    resolved = what.resolve(live=True)
    try:
        _core.live_check(json.dumps(resolved), str(what.here), twins, _candidates(what, resolved))
    except _core.ScenarioError as error:
        raise _refused(what, error) from None


def run(
    scenario: Runnable,
    *,
    progress: bool | Callable[[float], object] = False,
    cancel: Cancel | None = None,
    twins: bool = False,
    allow_code: bool = False,
) -> Result:
    """Run `scenario` live, for its duration in real time, and return the result.

    Takes what `tailback.run` takes. `result.meta["engine"]` begins with "live"; `result.meta["fit"]` is False if the
    emulator was so late that it may have changed the result; `result.meta["notes"]` has the reason.
    `result.meta["controls"]` states where each flow's congestion control comes from: "kernel", "twin" or "own". For
    programs (`exec`) the result has their exit status (`programs`), their measurements (`program_metrics`), and their
    output (`result.files`). With `twins`, tailback's BPF twin of a congestion control, if there is one, is used even if
    the kernel has its own. Programs are run only with `allow_code`: read their command lines first. Raises
    `ScenarioError` before creating anything if the kernel or the machine cannot run it, `LiveError` if it fails later.
    """
    _demand_linux()
    what = as_scenario(scenario)
    resolved = what.resolve(live=True)
    demand_allowed(resolved, allow_code, what)
    name = str(resolved.get("name") or "scenario")
    if callable(progress):
        tables = _run(name, what, resolved, cancel, progress, twins)
    else:
        with Bar(f"{name} (live)", shown=progress) as bar:
            tables = _run(name, what, resolved, cancel, bar.update if progress else None, twins)
    notes = [str(note) for note in tables["_names"].get("warnings", [])]
    whose = tables.pop("_controls")
    files: dict[str, bytes] = tables.pop("_files")
    measured, complaints = programs.measured(resolved, files)
    tables = programs.carried(resolved, tables)
    result = Result(
        resolved=resolved, toml=what.to_toml(), written=what.written, tables=tables | measured.table, files=files
    )
    result.meta["engine"] = f"live {_core.version()}"
    result.meta["fit"] = bool(tables["emulator"]["fit"][0])
    result.meta["notes"] = notes + controls.unasked_twins(resolved, whose, twins) + complaints
    result.meta["controls"] = controls.of_flows(resolved, whose)
    if measured.names:
        result.meta["program_metrics"] = measured.names
    return result


def _run(
    name: str,
    scenario: Scenario,
    resolved: dict[str, Any],
    cancel: Cancel | None,
    progress: Callable[[float], object] | None,
    twins: bool,
    in_front: tuple[int, list[str]] | None = None,
) -> dict[str, Any]:
    try:
        return _core.live_run(
            json.dumps(resolved), cancel, progress, str(scenario.here), twins, _candidates(scenario, resolved), in_front
        )
    except _core.ScenarioError as error:
        raise _refused(scenario, error) from None
    except _core.Cancelled:
        raise Cancelled(f"{name} was cancelled") from None
    except _core.EngineError as error:
        raise EngineError(f"{name}: {error}") from None
    except _core.LiveError as error:
        raise LiveError(f"{name}: {error}") from None


def shell(
    scenario: Runnable,
    command: Sequence[str],
    *,
    on: str | None = None,
    server: str = "",
    cc: str = "cubic",
    limit: float = 3600.0,
    allow_code: bool = False,
    cancel: Cancel | None = None,
) -> tuple[int, list[str]]:
    """Run `command` on the host `on` of a scenario, live, with this process's input and output.

    The host is the node of that name, by default the sender of the first flow. The command has this process's folder
    and variables, and two more: `TAILBACK_ADDR`, its address, and `TAILBACK_PEER`, that of the other end of the first
    flow there. The scenario's path, with its flows, lies between the two; connections of the command use the congestion
    control `cc`. `server` is a command line that runs at the other end until the command has ended, with the
    placeholders of docs/live.md; if `{port}` is in it, the command starts once it listens there. The run ends with the
    command, or after `limit` seconds.

    Returns the exit status as in a shell (128 plus the signal that ended it; 124 for the limit), and notes on the run.
    `command` and `server` come from the caller; programs that the scenario itself names need `allow_code`. Raises as
    `run` does, and `ScenarioError` for a host that the scenario does not have.
    """
    _demand_linux()
    what = as_scenario(scenario)
    resolved = what.resolve(live=True)
    demand_allowed(resolved, allow_code, what)
    if not command or shutil.which(command[0]) is None:
        name = command[0] if command else ""
        raise ScenarioError(
            [Problem("command", name, "there is no such program here", "Install it, or give its path.")]
        )
    if not 0 < limit <= _MOST_SECONDS:
        fix = f"Give more than 0 s and at most {_MOST_SECONDS / 3600:g} h."
        raise ScenarioError([Problem("limit", limit, "a shell cannot last so long", fix)])
    flow = shells.flow(resolved, on, server, cc)
    nothing: dict[str, Any] = {name: [] for name, value in resolved["instruments"].items() if isinstance(value, list)}
    instruments = resolved["instruments"] | nothing | {"internals": False, "from_ps": 0, "until_ps": None}
    # Flows that would start after the limit are left out.
    flows = [each for each in resolved["flows"] if each["start_ps"] < limit * 1e12] + [flow]
    resolved |= {"duration_ps": round(limit * 1e12), "flows": flows, "instruments": instruments}
    number = len(flows) - 1
    tables = _run(str(resolved.get("name") or "scenario"), what, resolved, cancel, None, False, (number, [*command]))
    # The exit status already shows how the command ended.
    own = f"flow {flow['name']}: its client "
    notes = [str(note) for note in tables["_names"].get("warnings", [])]
    return shells.status(tables, number), [note for note in notes if not note.startswith(own)]


def doctor(seconds: float = 2.0) -> dict[str, Any]:
    """What this machine can run live: `can_run_live`, `bpf_twins`, `congestion_controls`, and every check by itself.

    Timer lateness is measured for `seconds`, at normal priority and, as root, also at real-time priority.
    """
    if not _HAS_LIVE:
        lack = {
            "name": "linux",
            "ok": False,
            "found": "this is not Linux",
            "remedy": "Run live on a Linux machine; the simulator runs everywhere.",
            "needed_for": "every live run",
        }
        return {"can_run_live": False, "bpf_twins": False, "congestion_controls": [], "checks": [lack]}
    found: dict[str, Any] = json.loads(_core.live_doctor(seconds))
    return found


def clean() -> list[str]:
    """Remove what killed live runs left, and nothing else; returns a description of what was done."""
    return _core.live_clean() if _HAS_LIVE else []
