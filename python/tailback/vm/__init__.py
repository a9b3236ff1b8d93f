"""The same scenario on any Linux kernel, in a virtual machine whose clock counts instructions.

No root and no idle machine are needed: in the guest one instruction lasts one nanosecond, so that nothing outside
changes what is measured. The guest runs the live engine (`tailback.live`), and a result has what a live one has.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tailback import _core, bpf, registry
from tailback._core import Cancel
from tailback.algorithms import demand_of_kernel, named
from tailback.errors import Cancelled, Problem, ScenarioError
from tailback.live import LiveError
from tailback.progress import Bar
from tailback.result import Result
from tailback.run import Runnable
from tailback.scenario import Scenario
from tailback.vm import kernels, letter, machine
from tailback.vm.archive import archive
from tailback.vm.kernels import Kernel, KernelError, fetch, fetched
from tailback.vm.machine import GuestError, LostRun, VmError
from tailback.vm.scratch import scratch

__all__ = ["GuestError", "Kernel", "KernelError", "LostRun", "VmError", "check", "fetch", "fetched", "run"]

_GUEST = Path(__file__).parent / "tailback-guest"


def _scenario(what: Runnable) -> Scenario:
    if isinstance(what, Mapping):
        return Scenario.from_resolved(what)
    return what if isinstance(what, Scenario) else Scenario.from_toml(what)


def _refused(scenario: Scenario, args: Any) -> ScenarioError:
    return scenario.complaint(*map(str, args))


def check(scenario: Runnable, *, kernel: str | None = None, twins: bool = False) -> None:
    """Raise `ScenarioError`, `KernelError` or `VmError` unless this machine can run `scenario` on `kernel`."""
    what = _scenario(scenario)
    _programs(what, what.resolve(live=True), kernels.find(kernel), twins)


def run(
    scenario: Runnable,
    *,
    kernel: str | None = None,
    progress: bool | Callable[[float], object] = False,
    cancel: Cancel | None = None,
    twins: bool = False,
) -> Result:
    """Run `scenario` on `kernel` in a virtual machine and return what was measured there.

    `kernel` is a name that `tailback vm kernels` lists, the path of an image, or `None` for the first one fetched. The
    rest is as for `tailback.live.run`. `result.meta["kernel"]` names the kernel, its build and its ticks a second. The
    same scenario, seed and kernel give the same rows on any machine, however busy. Raises `ScenarioError` for what this
    kernel cannot run, `KernelError` without a kernel, `VmError` if the machine or the guest fails.
    """
    what = _scenario(scenario)
    resolved = what.resolve(live=True)
    demand_of_kernel(what, resolved)
    for own in filter(bpf.is_source, sorted(named(resolved))):
        fix = "Run it with --engine sim or live."
        raise ScenarioError([Problem("cc", own, "a guest runs no BPF source of the user's own", fix)])
    name = str(resolved.get("name") or "scenario")
    chosen = kernels.find(kernel)
    if callable(progress):
        return _run(name, what, resolved, chosen, cancel, progress, twins)
    with Bar(f"{name} ({chosen.name})", shown=progress) as bar:
        return _run(name, what, resolved, chosen, cancel, bar.update if progress else None, twins)


def _run(
    name: str,
    scenario: Scenario,
    resolved: dict[str, Any],
    kernel: Kernel,
    cancel: Cancel | None,
    progress: Callable[[float], object] | None,
    twins: bool,
) -> Result:
    programs = _programs(scenario, resolved, kernel, twins)
    with scratch() as folder:
        initial, memory, console = (folder / part for part in ("initial", "memory", "console"))
        initial.write_bytes(archive(_files(resolved, kernel, programs, twins)))
        letter.prepare(memory)
        words = machine.command(kernel.image, initial, memory, console, int(resolved["seed"]))
        try:
            machine.boot(words, memory, console, progress, cancel)
        except Cancelled:
            raise Cancelled(f"{name} was cancelled") from None
        except LostRun as error:
            raise LostRun(f"{name} on {kernel.name}: {error}") from None
        head, tables, files = letter.contents(memory)
    if "refused" in head:
        raise _refused(scenario, head["refused"])
    if "failed" in head:
        raise GuestError(f"{name} on {kernel.name}: {head['failed']}")
    names = {"internals_names": head["internals_names"], "warnings": head["notes"]}
    result = Result(
        resolved=resolved,
        toml=scenario.to_toml(),
        written=scenario.written,
        tables=tables | {"_names": names},
        files=files,
    )
    about = head["about"]
    result.meta["engine"] = f"vm {_core.version()}"
    result.meta["kernel"] = kernel.about | {"release": about["release"], "build": about["build"], "hz": about["hz"]}
    if not head["fit"]:
        raise GuestError(f"{name} on {kernel.name}: {_overload(head, tables, result.duration_s)}")
    result.meta["fit"] = True
    result.meta["busy"] = about["busy"]
    result.meta["notes"] = list(head["notes"])
    return result


def _overload(head: dict[str, Any], tables: dict[str, dict[str, Any]], duration_s: float) -> str:
    """Why a guest's run counts for nothing: its processor, which no faster machine makes faster, had too much to do."""
    carried = int(tables["emulator"]["packets"][0]) / duration_s
    return (
        f"the guest was overloaded: it carried {carried:,.0f} packets a second, {100 * head['about']['busy']:.0f} % of "
        f"its processor busy ({'; '.join(head['notes'])}). Lower the rate, or run it with --engine sim or live"
    )


def _programs(scenario: Scenario, resolved: dict[str, Any], kernel: Kernel, twins: bool) -> list[tuple[str, bytes]]:
    """The BPF programs the guest needs; a refusal if the kernel cannot run the scenario."""
    if not hasattr(_core, "vm_programs") or not _GUEST.is_file():
        raise VmError("the program that guests run is not part of this installation. Build it on Linux: make env")
    if shutil.which("clang") is None:
        raise VmError("clang is not installed; it compiles the guests' BPF programs. Install it: apt-get install clang")
    for number, flow in enumerate(resolved["flows"]):
        if registry.application(flow).runs_programs:
            fix = "Run it with --engine live."
            problem = Problem(
                f"flows[{number}].app", flow["app"]["kind"], "a guest has none of this machine's programs", fix
            )
            raise ScenarioError([problem])
    kernel.demand_queues(resolved)
    try:
        return _core.vm_programs(json.dumps(resolved), kernel.controls, kernel.hz, twins)
    except _core.ScenarioError as error:
        raise _refused(scenario, error.args) from None
    except _core.LiveError as error:
        raise LiveError(str(error)) from None


def _files(
    resolved: dict[str, Any], kernel: Kernel, programs: list[tuple[str, bytes]], twins: bool
) -> dict[str, bytes]:
    """The guest's initial file system."""
    # What another stack calls its congestion control is nothing of the kernel's.
    chosen = [flow["tcp"] for flow in resolved["flows"] if flow.get("tcp") and not flow["tcp"].get("transport")]
    controls = [turn["cc"] for tcp in chosen for turn in (tcp, *tcp.get("cc_turns", []))]
    queues = [f"sch_{queue}" for queue in kernel.demand_queues(resolved)]
    modules = kernel.loads(["tun", *(f"tcp_{control}" for control in controls), *queues])
    job = {"modules": [f"modules/{name}.ko" for name, _ in modules], "twins": twins, "scenario": resolved}
    out = {f"/tailback/modules/{name}.ko": contents for name, contents in modules}
    out |= {f"/tailback/bpf/{name}": contents for name, contents in programs}
    out["/tailback/job.json"] = json.dumps(job).encode()
    out["/init"] = _GUEST.read_bytes()
    for library in _libraries():
        out[library] = Path(library).read_bytes()
    return out


def _libraries() -> list[str]:
    """The shared libraries that the guest's program loads, with the loader, by their places on this machine."""
    try:
        ctypes.CDLL("libbpf.so.1")
    except OSError:
        raise VmError("libbpf.so.1 is not installed. Install it: apt-get install libbpf1") from None
    mapped = Path("/proc/self/maps").read_text().split()
    bpf = next(word for word in mapped if Path(word).name.startswith("libbpf.so.1"))
    found = {bpf}
    for what in (str(_GUEST), bpf):
        said = subprocess.run(["ldd", what], capture_output=True, text=True, check=True).stdout
        found |= {word for word in said.split() if word.startswith("/")}
    # It is asked for by this name.
    return sorted((found - {bpf}) | {str(Path(bpf).with_name("libbpf.so.1"))})
