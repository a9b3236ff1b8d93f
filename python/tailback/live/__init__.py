"""The same scenario on the machine's own kernel: real TCP, real sockets, real time, the simulator's links between.

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

#: A shell lasts for this long at most: every packet of it is kept in memory.
_MOST_SECONDS = 86_400.0


class LiveError(TailbackError):
    """A live run that failed while it was under way; everything it made is gone."""


def _demand_linux() -> None:
    if not _HAS_LIVE:
        fix = 'Run it with engine "sim", or on a Linux machine.'
        raise ScenarioError([Problem("engine", "live", "live runs need Linux", fix)])


def _candidates(scenario: Scenario, resolved: Mapping[str, Any]) -> dict[str, str]:
    """The texts of BPF sources, by name; refuses what no kernel runs."""
    demand_of_kernel(scenario, resolved)
    return {name: bpf.read(name, scenario.folder) for name in named(resolved) if bpf.is_source(name)}


def _refused(scenario: Scenario, error: Exception) -> ScenarioError:
    return scenario.complaint(*map(str, error.args))


def check(scenario: Runnable, *, twins: bool = False) -> None:
    """Raise `ScenarioError` unless this machine can run `scenario` live (`twins` as for `run`); nothing is made."""
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
    """Run `scenario` live, for as long as it says, and return what was measured.

    Takes what `tailback.run` takes. `result.meta["engine"]` begins with "live"; `result.meta["fit"]` is False if the
    emulator was so late that the result may be another one, and `result.meta["notes"]` says why.
    `result.meta["controls"]` says whose each flow's congestion control was: "kernel", "twin" or "own". Of programs
    (`exec`) the result has how they ended (`programs`), what they measured (`program_metrics`), and what they wrote
    (`result.files`). With `twins` even a congestion control that the kernel has itself is tailback's BPF twin of it,
    where there is one. Programs are run only with `allow_code`: read their command lines first. Raises
    `ScenarioError` before anything is made if the kernel or the machine cannot do it, `LiveError` if it fails
    later.
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
    flow there. Between the two lies the scenario's path, with the scenario's flows on it; connections of the command
    have the congestion control `cc`. `server` is a command line that runs at the other end until the command has ended,
    with the placeholders of docs/live.md; if `{port}` is in it, the command starts once it listens there. All ends with
    the command, or after `limit` seconds.

    Returns the status as shells count it (128 and the signal that ended it; 124: it was at work at its limit), and what
    people should know of the run. `command` and `server` are the caller's own; what the scenario itself names to run
    needs `allow_code`. Raises as `run` does, and `ScenarioError` for a host that the scenario does not have.
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
    # A flow that would begin after the limit never does.
    flows = [each for each in resolved["flows"] if each["start_ps"] < limit * 1e12] + [flow]
    resolved |= {"duration_ps": round(limit * 1e12), "flows": flows, "instruments": instruments}
    number = len(flows) - 1
    tables = _run(str(resolved.get("name") or "scenario"), what, resolved, cancel, None, False, (number, [*command]))
    # How the command ended, the status says.
    own = f"flow {flow['name']}: its client "
    notes = [str(note) for note in tables["_names"].get("warnings", [])]
    return shells.status(tables, number), [note for note in notes if not note.startswith(own)]


def doctor(seconds: float = 2.0) -> dict[str, Any]:
    """What this machine can run live: `can_run_live`, `bpf_twins`, `congestion_controls`, and every check by itself.

    A timer's lateness is measured for `seconds`, once as it is and, as root, once with real-time priority.
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
    """Remove what killed live runs have left; returns what was done, in words. Touches nothing else."""
    return _core.live_clean() if _HAS_LIVE else []
