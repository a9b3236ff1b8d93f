"""Runs a scenario on any Linux kernel, in a virtual machine whose clock counts instructions.

It needs neither root nor an idle host: one instruction in the guest lasts one nanosecond, so the host's load does not
change the measurement. The guest runs the live engine (`tailback.live`), and its result has the same tables as a live
one.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import math
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailback import _core, bpf, modules, registry
from tailback._core import Cancel
from tailback.algorithms import Source, demand_of_kernel, sources
from tailback.consent import demand_allowed, demand_kept_allowed, demand_kernel_allowed, without_references
from tailback.errors import Cancelled, ProgramError, ScenarioError
from tailback.live import LiveError, controls
from tailback.live import programs as output
from tailback.progress import Bar
from tailback.result import Result
from tailback.run import Runnable, as_scenario
from tailback.scenario import Scenario
from tailback.vm import counters, kernel_log, kernels, machine, own_code, private_loader, shared_memory
from tailback.vm.archive import Entry, archive
from tailback.vm.kernels import Kernel, KernelError, fetch, fetched
from tailback.vm.machine import GuestError, LostRun, VmError
from tailback.vm.own_code import OwnModule, OwnQueue
from tailback.vm.programs import MODULE, Programs, gather
from tailback.vm.scratch import scratch
from tailback.vm.unpacked import ENTERED, unpacked

__all__ = [
    "GuestError",
    "Kernel",
    "KernelError",
    "LostRun",
    "Overloaded",
    "VmError",
    "check",
    "dilation_for",
    "doctor",
    "fetch",
    "fetched",
    "guest_digest",
    "identity",
    "repeat",
    "run",
]

_GUEST = Path(__file__).parent / "tailback-guest"
#: Packets per second that a guest forwards at half of its processor's capacity: docs/decisions/0008.
_EASY_PACKETS = 17_500
_BITS_OF_PACKET = 12_000


class Overloaded(GuestError):
    """A run that exceeded the guest's processor, so its rows are not valid."""


def _refused(scenario: Scenario, args: Any) -> ScenarioError:
    return scenario.complaint(*map(str, args))


def check(
    scenario: Runnable,
    *,
    kernel: str | None = None,
    twins: bool = False,
    allow_code: bool = False,
    dilation: int = 1,
) -> None:
    """Raise `ScenarioError`, `KernelError` or `VmError` unless this machine can run `scenario` on `kernel`."""
    job = _job(as_scenario(scenario), kernel, twins, allow_code, dilation)
    _bpf_programs(job)
    _programs(job)


def run(
    scenario: Runnable,
    *,
    kernel: str | None = None,
    progress: bool | Callable[[float], object] = False,
    cancel: Cancel | None = None,
    twins: bool = False,
    allow_code: bool = False,
    dilation: int = 1,
) -> Result:
    """Run `scenario` on `kernel` in a virtual machine and return what was measured there.

    `kernel` is a name that `tailback vm kernels` lists, the path of an image, or `None` for the first one fetched. The
    rest is as for `tailback.live.run`. `result.meta["kernel"]` names the kernel, its build and its ticks a second. The
    same scenario, seed and kernel give the same rows on any machine, however busy. Programs (`exec`) are this
    machine's, each with what it loads, and run only with `allow_code`; `result.meta["programs"]` has the number of
    their files, their size and their digest.

    `dilation` (1 to 100) makes the guest's processor that many times faster, by slowing every clock in the guest (Gupta
    et al., "To Infinity and Beyond: Time-Warped Network Emulation", NSDI 2006). All times of the result are the
    guest's, and so the scenario's; `result.meta["dilation"]` states it. The run takes that many times as long where
    the guest is busy.

    Raises `ScenarioError` for what this kernel cannot run, `KernelError` without a kernel, `VmError` if the machine or
    the guest fails. Of an overloaded guest it raises `Overloaded`, or `ProgramError` if one of its programs failed.
    """
    return _run(_job(as_scenario(scenario), kernel, twins, allow_code, dilation), progress, cancel)


def repeat(
    result: Result,
    *,
    progress: bool | Callable[[float], object] = False,
    cancel: Cancel | None = None,
    allow_code: bool = False,
    kernel: str | None = None,
) -> Result:
    """Run again what `result` was made from, as `tailback.repeat` does, on the kernel that it names.

    A kernel that was given by the path of its image is booted only if `kernel` is that path. With the same QEMU and the
    same version of tailback, the rows are the same. Raises `KernelError` if that kernel is not here.
    """
    kept = result.algorithms
    demand_kept_allowed(kept, allow_code)
    about = result.meta["kernel"]
    image = kernels.find(demand_kernel_allowed(str(about["name"]), kernel), fetched_only=kernel is None)
    if not image.is_that_of(about):
        raise KernelError(
            f"this result is of {about['name']} {about['release']}, {about['build']}, and the kernel of that name here "
            f"is another: {image.release}, {image.about['build']}. Run its scenario again"
        )
    scenario = Scenario.from_resolved(result.resolved)
    demand_allowed(result.resolved, allow_code, scenario)
    twins, dilation = bool(result.meta.get("twins")), _dilation(result.meta.get("dilation", 1))
    job = _Job(scenario, result.resolved, result.toml, result.written, image, twins, kept, dilation)
    found, about = _programs(job), result.meta.get("programs")
    if found is not None and found.about != about:
        raise VmError(
            f"the programs of this result are not those of this machine: {found.about['files']} files of "
            f"{found.about['bytes']:,} bytes here, and another digest than the result's. Run its scenario again"
        )
    return _run(job, progress, cancel)


def identity(scenario: Scenario, *, kernel: str | None = None, dilation: int = 1) -> str:
    """Identifies a guest: equal for the same kernel, clock, guest program, and programs with what they load.

    Raises `ScenarioError`, with the field, for a missing program.
    """
    job = _job(scenario, kernel, False, True, dilation)
    found = _programs(job)
    programs = found.about["sha256"] if found is not None else ""
    return " ".join(["vm", job.kernel.digest, guest_digest(), str(dilation), programs]).rstrip()


def guest_digest() -> str:
    """Of what decides a guest's results beside its scenario and kernel: its program, its machine, how it is entered."""
    program = kernels.digest_of(_GUEST) if _GUEST.is_file() else ""
    return hashlib.sha256(" ".join([program, machine.digest(), ENTERED]).encode()).hexdigest()[:12]


def doctor() -> list[dict[str, Any]]:
    """The requirements of virtual machines and whether each is met, in the format of `tailback.live.doctor`."""
    here = [kernel.name for kernel in fetched() if kernel.lack is None]
    program = hasattr(_core, "vm_programs") and _GUEST.is_file()
    rows = [
        (machine.QEMU, shutil.which(machine.QEMU), "apt-get install qemu-system-x86"),
        ("clang", shutil.which("clang"), "apt-get install clang"),
        ("guests' program", "it is here" if program else None, "make env, on Linux x86_64"),
        ("guests' kernels", ", ".join(here), "tailback vm fetch debian-6.1, or give an image by its path"),
    ]
    return [
        {
            "name": name,
            "ok": bool(found),
            "found": found or "there is none",
            "remedy": "" if found else remedy,
            "needed_for": "--engine vm",
        }
        for name, found, remedy in rows
    ]


@dataclass(frozen=True)
class _Job:
    """A checked run: a guest supports everything in its scenario."""

    scenario: Scenario
    resolved: dict[str, Any]
    toml: str
    written: str
    kernel: Kernel
    twins: bool
    #: The user's own congestion controls, by name.
    sources: Mapping[str, Source]
    #: How many times slower the guest's clock runs than its processor.
    dilation: int

    @property
    def name(self) -> str:
        return str(self.resolved.get("name") or "scenario")

    @property
    def candidates(self) -> dict[str, str]:
        """Source texts of congestion controls in BPF, by name."""
        queues = {row.name for row in self.queues}
        own = {name: source for name, source in self.sources.items() if bpf.is_source(name)}
        return {name: source.text or "" for name, source in own.items() if name not in queues}

    @functools.cached_property
    def own(self) -> list[OwnModule]:
        """The user's own kernel modules, built; `ScenarioError` if one cannot be."""
        return own_code.built(self.scenario, self.resolved, self.sources, self.kernel)

    @functools.cached_property
    def guests(self) -> dict[str, Any]:
        """The resolved scenario in the form that the guest reads."""
        return own_code.in_guest(self.scenario, self.resolved, self.own, self.queues)

    @functools.cached_property
    def queues(self) -> list[OwnQueue]:
        """The user's own queues in BPF, compiled; `ScenarioError` if one cannot be."""
        return own_code.compiled(self.scenario, self.resolved, self.sources)


def _dilation(value: object) -> int:
    if type(value) is not int or not 1 <= value <= machine.MOST_DILATION:
        raise VmError(f"dilation: {value!r} is no whole number from 1 to {machine.MOST_DILATION}. Give one, such as 10")
    return value


def _job(scenario: Scenario, kernel: str | None, twins: bool, allow_code: bool, dilation: int) -> _Job:
    dilation = _dilation(dilation)
    resolved = scenario.resolve(live=True)
    demand_of_kernel(scenario, resolved, loads_modules=True)
    demand_allowed(resolved, allow_code, scenario)
    own = sources(resolved, None, scenario.folder)
    return _Job(scenario, resolved, scenario.to_toml(), scenario.written, kernels.find(kernel), twins, own, dilation)


def _run(job: _Job, progress: bool | Callable[[float], object], cancel: Cancel | None) -> Result:
    if callable(progress):
        return _carried(job, cancel, progress)
    with Bar(f"{job.name} ({job.kernel.name})", shown=progress) as bar:
        return _carried(job, cancel, bar.update if progress else None)


def _carried(job: _Job, cancel: Cancel | None, progress: Callable[[float], object] | None) -> Result:
    kernel, title = job.kernel, f"{job.name} on {job.kernel.name}"
    bpf, found = _bpf_programs(job), _programs(job)
    with scratch() as folder:
        initial, memory, console = (folder / part for part in ("initial", "memory", "console"))
        files = archive(_files(job, bpf, found))
        try:
            initial.write_bytes(files)
            shared_memory.prepare(memory)
            image = unpacked(kernel.image, folder / "kernel")
        except OSError as error:
            raise VmError(f"{folder}: {error.strerror}. {machine.no_room(folder.parent)}") from None
        seed, for_programs = int(job.resolved["seed"]), found is not None
        words = machine.command(
            *(image, initial, memory, console, seed),
            for_programs=for_programs,
            stalls=bool(job.own),
            dilation=job.dilation,
            more=private_loader.ARGUMENT if found and found.has_image else "",
        )
        try:
            own = [module.name for module in job.own]
            machine.boot(words, memory, console, progress, cancel, own=own, dilation=job.dilation)
        except Cancelled:
            raise Cancelled(f"{job.name} was cancelled") from None
        except LostRun as error:
            if job.own:
                whose = ", ".join(module.name for module in job.own)
                raise GuestError(f"{title}, which runs {whose}: {error}") from None
            raise LostRun(f"{title}: {error}") from None
        head, tables, left = shared_memory.contents(memory)
    if "refused" in head:
        raise _refused(job.scenario, head["refused"])
    if "failed" in head:
        raise GuestError(f"{title}: {head['failed']}{found.advice(head['failed']) if found else ''}")
    log = kernel_log.kept(head["about"]["kernel_log"])
    if (trace := kernel_log.tcp_warning(log)) is not None:
        raise GuestError(f"{title}: the guest's TCP warned of itself, so its rows count for nothing:\n{trace}")
    measured, complaints = output.measured(job.resolved, left)
    said = [note + (found.advice(note) if found else "") for note in head["notes"]]
    notes = [*said, *controls.unasked_twins(job.resolved, head["controls"], job.twins), *complaints]
    moved = counters.counted(head["about"]["counters"])
    names = {"internals_names": head["internals_names"], "warnings": notes}
    result = Result(
        resolved=job.resolved,
        toml=job.toml,
        written=job.written,
        tables=output.carried(job.resolved, tables) | measured.table | moved.table | {"_names": names},
        files=left,
        algorithms=job.sources,
    )
    about = head["about"]
    result.meta["engine"] = f"vm {_core.version()}"
    result.meta["kernel"] = kernel.about | {"release": about["release"], "build": about["build"], "hz": about["hz"]}
    if not head["fit"]:
        overload = _overload(job, head, tables, result.duration_s)
        if result.failed_programs:
            raise ProgramError(f"{title}: {'; '.join([*result.failed_programs, overload])}")
        raise Overloaded(f"{title}: {overload}")
    result.meta["fit"] = True
    result.meta["busy"] = about["busy"]
    if job.dilation > 1:
        result.meta["dilation"] = job.dilation
    result.meta["notes"] = notes
    result.meta["controls"] = _controls(job, head)
    if queues := own_code.queues(job.resolved, job.own, job.queues, job.sources):
        result.meta["queues"] = queues
    if measured.names:
        result.meta["program_metrics"] = measured.names
    if found is not None:
        result.meta["programs"] = found.about
    result.meta |= {"hosts": moved.hosts, "counters": moved.names}
    result.meta["kernel_log"] = log
    if job.twins:
        result.meta["twins"] = True
    return result


def _controls(job: _Job, head: dict[str, Any]) -> dict[str, list[dict[str, str]]]:
    """Each flow's congestion controls; for a module also its name in the kernel and its source's digest."""
    found: dict[str, list[dict[str, str]]] = controls.of_flows(job.resolved, head["controls"])
    for row in (row for turns in found.values() for row in turns if row["cc"] in head["about"]["registered"]):
        row["registered"] = head["about"]["registered"][row["cc"]]
        row["sha256"] = job.sources[row["cc"]].sha256 or ""
    return found


def dilation_for(resolved: Mapping[str, Any]) -> int:
    """The dilation that a guest needs for the link rates of a resolved scenario."""
    rate = max((link.get("rate_bps") or 0 for link in resolved["links"]), default=0)
    # One ACK for every second data packet.
    return min(machine.MOST_DILATION, max(1, math.ceil(1.5 * rate / _BITS_OF_PACKET / _EASY_PACKETS)))


def _overload(job: _Job, head: dict[str, Any], tables: dict[str, dict[str, Any]], duration_s: float) -> str:
    """Message for a run that the guest's processor could not keep up with; a faster host would not help."""
    carried = int(tables["emulator"]["packets"][0]) / duration_s
    enough = min(machine.MOST_DILATION, max(dilation_for(job.resolved), 2 * job.dilation))
    return (
        f"the guest was overloaded: it carried {carried:,.0f} packets a second, {100 * head['about']['busy']:.0f} % of "
        f"its processor busy ({'; '.join(head['notes'])}). A faster processor may do: --dilation {enough}. Or "
        "lower the rate, or run it with --engine sim or live"
    )


def _programs(job: _Job) -> Programs | None:
    """The programs of `exec` flows with their files; `ScenarioError` if this machine lacks one."""
    if not any(registry.application(flow).runs_programs for flow in job.resolved["flows"]):
        return None
    return gather(job.scenario, job.resolved, job.scenario.here, _libraries())


def _bpf_programs(job: _Job) -> list[tuple[str, bytes]]:
    """The BPF programs that the guest needs; raises an error if the kernel cannot run the scenario."""
    kernel = job.kernel
    if not hasattr(_core, "vm_programs") or not _GUEST.is_file():
        raise VmError("the program that guests run is not part of this installation. Build it on Linux: make env")
    if shutil.which("clang") is None:
        raise VmError("clang is not installed; it compiles the guests' BPF programs. Install it: apt-get install clang")
    kernel.demand_queues(job.resolved)
    # A kernel module is not a BPF program and has its own parameters.
    described = json.dumps(without_references(job.resolved, modules.is_source) | {"links": job.guests["links"]})
    try:
        return _core.vm_programs(described, kernel.controls, kernel.hz, kernel.release, job.twins, job.candidates)
    except _core.ScenarioError as error:
        raise _refused(job.scenario, error.args) from None
    except _core.LiveError as error:
        raise LiveError(str(error)) from None


def _files(job: _Job, bpf: list[tuple[str, bytes]], found: Programs | None) -> dict[str, bytes | Entry]:
    """The guest's initial file system."""
    # Congestion controls of other stacks are not kernel modules.
    chosen = [flow["tcp"] for flow in job.resolved["flows"] if flow.get("tcp") and not flow["tcp"].get("transport")]
    names = [turn["cc"] for tcp in chosen for turn in (tcp, *tcp.get("cc_turns", []))]
    queues = [f"sch_{queue}" for queue in job.kernel.demand_queues(job.resolved)]
    # The kernel's counters of the programs' connections.
    counts = [] if found is None else ["tcp_diag"]
    needed = [name for row in job.own for name in row.module.depends]
    of_programs = {} if found is None else found.modules
    for name, place in of_programs.items():
        if not job.kernel.has_module(name):
            lack = f"the kernel {job.kernel.name} ({job.kernel.release}) has no module {name}"
            fix = "Correct the name, or take another kernel: tailback vm kernels"
            raise job.scenario.complaint(place, f"{MODULE}{name}", lack, fix)
    loaded = job.kernel.loads(["tun", *map(kernels.module_of, names), *queues, *counts, *needed, *of_programs])
    described: dict[str, Any] = {
        "modules": [f"modules/{name}.ko" for name, _ in loaded],
        "twins": job.twins,
        "candidates": job.candidates,
        "scenario": job.guests,
    }
    if found is not None:
        described["programs"] = found.surroundings
    out: dict[str, bytes | Entry] = {f"/tailback/modules/{name}.ko": contents for name, contents in loaded}
    out |= {f"/tailback/bpf/{name}": contents for name, contents in bpf}
    if job.own:
        rows = [(f"own/{number}.ko", row) for number, row in enumerate(job.own)]
        described["own"] = [
            {
                "name": row.name,
                "queue": row.queue,
                "field": row.field,
                "file": file,
                "module": row.module.name,
                "params": row.params,
            }
            for file, row in rows
        ]
        out |= {f"/tailback/{file}": row.module.contents for file, row in rows}
    if job.queues:
        described["queues"] = [
            {"name": row.name, "field": row.field, "file": f"own/{row.registered}.o"} for row in job.queues
        ]
        out |= {f"/tailback/own/{row.registered}.o": row.contents for row in job.queues}
    # Sorted, because the order of the files changes the guest's timing.
    out["/tailback/job.json"] = json.dumps(described, sort_keys=True).encode()
    out["/init"] = _GUEST.read_bytes()
    if found is not None and found.has_image:
        # The image may have other versions of the same libraries.
        out["/init"] = private_loader.program(_GUEST.read_bytes())
        return dict(found.entries) | out | private_loader.libraries(_libraries())
    if found is not None:
        return out | dict(found.entries)
    for library in _libraries():
        out[library] = Path(library).read_bytes()
    return out


def _libraries() -> list[str]:
    """Paths on this machine of the shared libraries and the loader of the guest's program."""
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
    # The program requests it by this name.
    return sorted((found - {bpf}) | {str(Path(bpf).with_name("libbpf.so.1"))})
