"""Runs in a virtual machine: real kernels where QEMU and one of them are here, and an error for all that is missing."""

import errno
import json
import mmap
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tailback as tb
from kernel_images import OPTIONS, packaged
from tailback import cli, vm
from tailback.live import controls
from tailback.vm import kernels, machine, shared_memory
from tailback.vm.archive import archive
from tailback.vm.scratch import _MARKED, scratch

_LACKS = [
    what
    for what, is_here in {
        f"{machine.QEMU} (apt-get install qemu-system-x86)": shutil.which(machine.QEMU) is not None,
        "clang (apt-get install clang)": shutil.which("clang") is not None,
        "the guests' program (make env, on Linux x86_64)": vm._GUEST.is_file(),
        "a kernel (tailback vm fetch debian-6.1)": bool(kernels.fetched()),
    }.items()
    if not is_here
]
boots = pytest.mark.skipif(bool(_LACKS), reason=f"not here: {', '.join(_LACKS)}")


def scenario(cc: str = "cubic", **more: object) -> tb.Scenario:
    return tb.dumbbell(
        rate="4mbit",
        rtt="20ms",
        queue="1bdp",
        flows=[tb.bulk(cc), tb.voip()],
        duration="2s",
        instruments=tb.Instruments(segments=["bulk"], packets=["voip"]),
        **more,
    )


@pytest.fixture(scope="module")
def first() -> tb.Result:
    return vm.run(scenario())


@boots
def test_a_kernel_carries_a_scenario_and_is_named(first: tb.Result) -> None:
    kernel = first.meta["kernel"]
    assert kernel["release"].split(".")[0].isdigit()
    assert kernel["hz"] in (100, 250, 300, 1000)
    assert first.meta["fit"] is True
    assert first.meta["engine"].startswith("vm ")
    assert first.meta["notes"] == []
    assert first.meta["controls"] == {"bulk": [{"cc": "cubic", "by": "kernel"}]}
    assert "congestion control of bulk: cubic (the kernel's)" in str(first)
    emulator = first.numpy("emulator")
    assert emulator["late_p99_s"][0] < 100e-6
    assert emulator["device_drops"][0] == 0
    # Rows of the kernel's own tracepoints, of both ends and both ways.
    segments = first.numpy("segments")
    assert {(bool(out), bool(far)) for out, far in zip(segments["outgoing"], segments["at_receiver"], strict=True)} == {
        (True, False),
        (False, False),
        (True, True),
        (False, True),
    }


@pytest.fixture
def busy() -> Iterator[None]:
    """A machine with more to do than it has processors."""
    words = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(words) for _ in range(3)]
    yield
    for other in others:
        other.kill()
        other.wait()


@pytest.mark.long
@boots
@pytest.mark.usefixtures("busy")
def test_a_loaded_machine_gives_the_same_bytes(first: tb.Result, tmp_path: Path) -> None:
    again = tb.repeat(tb.open_result(first.save(tmp_path / "first")))
    assert first.differing(again) == []
    assert again.tables == first.tables
    for table in first.tables:
        for column, values in first.numpy(table).items():
            assert again.numpy(table)[column].tobytes() == values.tobytes(), f"{table}.{column}"


@boots
def test_kernel_and_simulator_carry_the_same(first: tb.Result) -> None:
    simulated = tb.run(scenario())
    sent = [float(result.numpy("flows")["bytes_received"][0]) for result in (simulated, first)]
    assert sent[1] == pytest.approx(sent[0], rel=0.03)
    # The call crosses an emulated path of known length: no packet is faster, and the first is as fast.
    packets = [result.numpy("packets") for result in (simulated, first)]
    delays = [float(np.nanmin(rows["received_s"] - rows["sent_s"])) for rows in packets]
    assert delays[1] == pytest.approx(delays[0], abs=50e-6)
    # The handshake takes a round trip of 20 ms, and not the 6 ms more in which a kernel fills a table at first.
    assert first.numpy("segments")["t_s"].min() < 22e-3


@pytest.mark.long
@boots
def test_a_dilated_clock_makes_the_hosts_faster_and_leaves_the_path_as_it_is(
    first: tb.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowed = vm.run(scenario(), dilation=4)
    assert slowed.meta["dilation"] == 4
    assert "dilation" not in first.meta
    # What a packet waits for the guest's work; measured 8.7 and 2.4 us.
    late = [float(of.numpy("emulator")["late_median_s"][0]) for of in (first, slowed)]
    assert late[1] < late[0] / 2
    sent = [float(of.numpy("flows")["bytes_received"][0]) for of in (first, slowed)]
    assert sent[1] == pytest.approx(sent[0], rel=0.02)
    jobs: list[Any] = []

    def instead(job: Any, *rest: object) -> tb.Result:
        jobs.append(job)
        return slowed

    monkeypatch.setattr(vm, "_run", instead)
    tb.repeat(tb.open_result(slowed.save(tmp_path / "slowed")))
    assert [job.dilation for job in jobs] == [4]


@pytest.mark.parametrize("wrong", [0, 101, 2.5, True, "4"])
def test_a_dilation_is_a_whole_number_within_bounds(wrong: object) -> None:
    with pytest.raises(vm.VmError, match="whole number from 1 to 100"):
        vm.check(scenario(), dilation=wrong)  # type: ignore[arg-type]


# Programs get their chance from the kernel: tests/vm/test_programs.py runs them by another seed.
@pytest.mark.long
@boots
def test_the_kernels_chance_follows_the_seed() -> None:
    # Of all that happens on this path only PIE's drops are drawn, and the kernel draws them.
    def carried(seed: int) -> tuple[float, ...]:
        result = vm.run(
            tb.dumbbell(
                rate="4mbit",
                rtt="20ms",
                queue={"discipline": "kernel:pie", "target": "2ms"},
                flows=[tb.bulk("cubic")],
                duration="1500ms",
                seed=seed,
                instruments=tb.Instruments(packets=["bulk"]),
            )
        )
        return tuple(result.numpy("packets")["sent_s"])

    assert carried(1) != carried(2)


@pytest.mark.long
@boots
def test_quic_stacks_carry_over_its_sockets_what_they_carry_simulated() -> None:
    stacks = ["quinn", "noq", "s2n-quic"]
    one = tb.dumbbell(
        rate="8mbit",
        rtt="20ms",
        queue="8bdp",
        flows=[tb.bulk("cubic", transport=stack, name=stack) for stack in stacks],
        duration="1200ms",
        instruments=tb.Instruments(segments=stacks, packets="all"),
    )
    simulated, result = tb.run(one), vm.run(one)
    assert result.meta["fit"] is True
    assert result.meta["notes"] == []
    flows, states = result.numpy("flows"), result.polars("stack_states")
    # Who gets how much of a second is chance, and how much of it waits for a gap to close; together they fill the link.
    busy = [float(of.numpy("links")["busy_s"][0]) for of in (simulated, result)]
    assert busy[1] == pytest.approx(busy[0], rel=0.03)
    assert min(flows["bytes_received"]) > 50_000
    assert set(states.select("flow", "at_receiver").iter_rows()) == {
        (n, end) for n in range(3) for end in (False, True)
    }
    packets = result.polars("packets").drop_nulls("received_s")
    assert (packets["received_s"] - packets["sent_s"]).drop_nans().min() >= 0.01


@pytest.mark.long
@boots
def test_what_the_kernel_lacks_runs_as_a_twin_and_a_source_of_the_users_own_unchanged() -> None:
    source = Path(__file__).parents[2] / "bpf/examples/gentle.bpf.c"
    one = tb.dumbbell(
        rate="8mbit",
        rtt="20ms",
        flows=[tb.bulk("compound"), tb.bulk(f"bpf:{source}", name="own")],
        duration="500ms",
        instruments=tb.Instruments(polls=["bulk"], internals=True),
    )
    with pytest.raises(tb.ScenarioError, match="allow-code"):
        vm.check(one)
    assert "compound" not in kernels.find().controls
    result = vm.run(one, allow_code=True)
    assert result.meta["notes"] == ["the kernel has no compound of its own; tailback's BPF twin of it ran (bulk)"]
    whose = {flow: [row["by"] for row in turns] for flow, turns in result.meta["controls"].items()}
    assert whose == {"bulk": ["twin"], "own": ["own"]}
    assert result.rows("internals") > 0
    assert min(result.numpy("flows")["bytes_received"]) > 50_000
    (kept,) = result.algorithms.values()
    assert kept.text == source.read_text()
    with pytest.raises(tb.ScenarioError, match="asks to run the code it keeps"):
        tb.repeat(result)


def test_only_the_kernel_that_a_result_names_repeats_it(tmp_path: Path) -> None:
    image = packaged(tmp_path, OPTIONS)
    result = tb.run(scenario())
    result.meta["engine"] = "vm 0.2.0"
    result.meta["kernel"] = kernels.find(str(image)).about | {"build": "#2"}
    with pytest.raises(vm.KernelError, match="the kernel of that name here is another"):
        tb.repeat(result, kernel=str(image))
    with pytest.raises(tb.ScenarioError, match="asks to boot this kernel image"):
        tb.repeat(result)


def test_twins_that_were_not_asked_for_are_reported() -> None:
    flows = [tb.bulk("htcp", name="plain"), tb.bulk({"name": "htcp", "hz": 100}, name="given"), tb.voip(name="call")]
    resolved = tb.dumbbell(rate="4mbit", rtt="20ms", flows=flows, duration="1s").resolve(live=True)
    reported: list[list[tuple[str, str]]] = [[("htcp", "twin")], [("htcp", "twin")], []]
    assert controls.unasked_twins(resolved, reported, False) == [
        "the kernel has no htcp of its own; tailback's BPF twin of it ran (plain)"
    ]
    assert controls.unasked_twins(resolved, reported, True) == []
    assert controls.of_flows(resolved, reported) == {
        name: [{"cc": "htcp", "by": "twin"}] for name in ("plain", "given")
    }


@boots
def test_a_kernels_own_queue_decides_and_counts_as_the_kernel_does_and_captures_come_out() -> None:
    one = tb.dumbbell(
        rate="4mbit",
        rtt="20ms",
        queue={"discipline": "kernel:pfifo", "limit": "20packets"},
        flows=[tb.bulk("cubic"), tb.voip()],
        duration="1500ms",
        instruments=tb.Instruments(queues=["bottleneck"], packets="all", captures=["bottleneck.out"]),
    )
    result = vm.run(one)
    # A note would say that the kernel counts other drops than were seen.
    assert result.meta["notes"] == []
    links, rows = result.numpy("links"), result.numpy("queue")
    assert links["dropped"][0] == (rows["event"] == 2).sum() > 0
    assert links["arrived"][0] == links["delivered"][0] + links["dropped"][0] + links["resident"][0]
    # One that a full queue refused has never waited. From Linux 7.3 on the device holds one more.
    assert rows["backlog_packets"].max() in (20, 21)
    assert rows["backlog_packets"][rows["event"] == 2].max() == 20
    assert result.rows("frames") > 0
    # As long as twenty packets and the one on the wire last, and never much longer.
    packets = result.numpy("packets")
    delay = packets["received_s"] - packets["sent_s"]
    assert 0.065 < np.nanmax(delay) < 0.075
    with pytest.raises(tb.ScenarioError, match=r"--engine vm.*fifo"):
        tb.run(one)


@boots
def test_a_run_that_is_cancelled_leaves_no_machine() -> None:
    cancel = tb.Cancel()
    threading.Timer(1.0, cancel.set).start()
    with pytest.raises(tb.errors.Cancelled):
        vm.run(scenario().with_(duration="600s"), cancel=cancel)
    assert not _machines()


def _machines() -> list[str]:
    """QEMUs that are this process's children."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, parent = folder.joinpath("stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        if "qemu" in name and int(parent.split()[1]) == __import__("os").getpid():
            found.append(name)
    return found


@boots
def test_a_guest_that_dies_leaves_its_last_words(tmp_path: Path) -> None:
    kernel = kernels.find()
    initial, memory, console = (tmp_path / name for name in ("initial", "memory", "console"))
    # A program that is none.
    initial.write_bytes(archive({"/init": b"\x7fELF nonsense"}))
    shared_memory.prepare(memory)
    words = machine.command(kernel.image, initial, memory, console, 1)
    with pytest.raises(vm.VmError, match=r"(?s)without a result.*Kernel panic"):
        machine.boot(words, memory, console, None, None)


@boots
def test_a_guest_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # It is caught while it boots, where it may not be able to print its stack and end.
    monkeypatch.setattr(machine, "PATIENCE_S", 0.2)
    monkeypatch.setattr(machine, "_ANSWER_S", 1.0)
    kernel = kernels.find()
    initial, memory, console = (tmp_path / name for name in ("initial", "memory", "console"))
    initial.write_bytes(archive({"/init": b""}))
    shared_memory.prepare(memory)
    with pytest.raises(vm.VmError, match="hangs"):
        machine.boot(machine.command(kernel.image, initial, memory, console, 1), memory, console, None, None)
    assert not _machines()


def test_the_hosts_clock_stands_for_a_machine(tmp_path: Path) -> None:
    shared_memory.prepare(tmp_path / "memory")
    looks = "import ctypes, sys; at = (ctypes.c_long * 2)(); ctypes.CDLL(None).gettimeofday(at, None); "
    looks += "sys.exit(str(at[:]))"
    with pytest.raises(vm.LostRun, match=r"\[1577836800, 0\]"):
        machine.boot([sys.executable, "-c", looks], tmp_path / "memory", tmp_path / "console", None, None)


_STOPS = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"


@pytest.mark.parametrize("does", ["import time; time.sleep(60)", "while True: pass"])
def test_a_machine_that_sleeps_or_works_for_nothing_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    monkeypatch.setattr(machine, "PATIENCE_S", 0.3)
    shared_memory.prepare(tmp_path / "memory")
    with pytest.raises(vm.LostRun, match="hangs"):
        machine.boot([sys.executable, "-c", does], tmp_path / "memory", tmp_path / "console", None, None)


@pytest.mark.parametrize(
    ("state", "ppm", "says"),
    [
        (shared_memory.LOADING, 1, r"nothing new for 0 s of its machine's work, in the init function of module:two\.c"),
        (shared_memory.RUNNING, 300_000, "nothing new for 0 s of its machine's work"),
        # Servers start, and results are collected.
        (shared_memory.RUNNING, 0, "nothing new for 2 s"),
        (shared_memory.RUNNING, 1_000_000, "nothing new for 2 s"),
        (shared_memory.STARTED, 0, "nothing new for 2 s"),
    ],
)
def test_a_users_module_has_less_time_while_reports_are_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: int, ppm: int, says: str
) -> None:
    monkeypatch.setattr(machine, "PATIENCE_S", 2.0)
    monkeypatch.setattr(machine, "OWN_PATIENCE_S", 0.2)
    memory = tmp_path / "memory"
    shared_memory.prepare(memory)
    with memory.open("r+b") as file:
        file.write(struct.pack("<QQ", state, ppm))
    words = [sys.executable, "-c", "while True: pass"]
    with pytest.raises(vm.LostRun, match=says):
        machine.boot(words, memory, tmp_path / "console", None, None, own=["module:one.c", "module:two.c"], dilation=2)


def test_a_machine_that_stays_stopped_is_given_up_by_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "SILENCE_S", 0.3)
    shared_memory.prepare(tmp_path / "memory")
    with pytest.raises(vm.LostRun, match="hangs: nothing new for 0 s"):
        machine.boot([sys.executable, "-c", _STOPS], tmp_path / "memory", tmp_path / "console", None, None)


def test_a_machine_that_the_host_lets_wait_does_not_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "PATIENCE_S", 0.2)
    shared_memory.prepare(tmp_path / "memory")

    def go_on() -> None:
        stopped = [folder for folder in Path("/proc").glob("[0-9]*") if _is_our_stopped(folder)]
        os.kill(int(stopped[0].name), signal.SIGCONT)

    threading.Timer(1.0, go_on).start()
    with pytest.raises(vm.LostRun, match="without a result"):
        machine.boot([sys.executable, "-c", _STOPS], tmp_path / "memory", tmp_path / "console", None, None)


def _is_our_stopped(folder: Path) -> bool:
    try:
        state, parent = folder.joinpath("stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return False
    return state == "T" and int(parent) == os.getpid()


def test_a_panic_is_reported_with_its_reason_and_the_last_lines(tmp_path: Path) -> None:
    shared_memory.prepare(tmp_path / "memory")
    reported = ["starting", "Kernel panic - not syncing: No init", *(f"R{number}: 0" for number in range(30))]
    (tmp_path / "console").write_text("\n".join(reported))
    words = [sys.executable, "-c", ""]
    with pytest.raises(vm.LostRun, match=r"(?s)Kernel panic.*\.\.\.\n *R18: 0.*R29: 0$"):
        machine.boot(words, tmp_path / "memory", tmp_path / "console", None, None)


def test_what_no_kernel_runs_is_refused_before_a_kernel_is_looked_for() -> None:
    with pytest.raises(tb.ScenarioError, match="the kernel runs no Python class"):
        vm.check(scenario("python:mine:Mine"), allow_code=True)


@boots
def test_a_twin_that_the_kernel_is_too_old_for_is_refused_by_its_parameter(tmp_path: Path) -> None:
    image = packaged(tmp_path, OPTIONS + "CONFIG_TCP_CONG_BBR=y\n", release="6.1.0-56-cloud")
    flow = tb.bulk({"name": "bbr", "window_gain": 2.5})
    with pytest.raises(tb.ScenarioError, match=r"window_gain.*needs Linux 6\.10, and this kernel is 6\.1"):
        vm.check(tb.dumbbell(rate="1mbit", rtt="20ms", flows=[flow], duration="1s"), kernel=str(image))


@boots
def test_an_algorithm_no_guest_has_is_refused_before_anything_starts() -> None:
    with pytest.raises(tb.ScenarioError, match="neither this kernel nor"):
        vm.check(scenario("bbr3"))


def test_without_qemu_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(vm.VmError, match="apt-get install qemu-system-x86"):
        machine.boot([], tmp_path, tmp_path, None, None)


def test_without_a_kernel_the_command_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(vm.KernelError, match="tailback vm fetch"):
        kernels.find()
    with pytest.raises(vm.KernelError, match=r"tailback vm fetch debian-6\.12"):
        kernels.find("debian-6.12")
    packaged(tmp_path / "tailback/kernels/debian-6.1", OPTIONS)
    with pytest.raises(vm.KernelError, match=r'Did you mean "debian-6\.1"'):
        kernels.find("debian-6.l")
    with pytest.raises(vm.KernelError, match="no such file"):
        kernels.find(str(tmp_path / "vmlinuz"))
    with pytest.raises(vm.KernelError, match=r"no name of a kernel.*--list"):
        kernels.fetch("fedora-7.0")


def test_an_image_by_path_has_its_modules_and_options_around_it(tmp_path: Path) -> None:
    kernel = kernels.find(str(packaged(tmp_path, OPTIONS + "CONFIG_TCP_CONG_HTCP=m\n", ("tun", "tcp_htcp"))))
    assert (kernel.release, kernel.hz) == ("9.9.9", 300)
    assert kernel.controls == ["cubic", "htcp", "reno"]


def test_a_kernel_built_here_is_not_the_first_one_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "tailback/kernels"
    packaged(folder / "debian-9.9", OPTIONS)
    packaged(folder / "a-patched-one", OPTIONS)
    note = kernels.find("a-patched-one").modules / kernels.BUILT_OF
    note.write_text('{"tree": "linux"}')
    assert kernels.find().name == "debian-9.9"


def test_bbr_that_states_version_3_is_bbr3(tmp_path: Path) -> None:
    image = packaged(tmp_path, OPTIONS + "CONFIG_TCP_CONG_BBR=y\n", ("tun",))
    kernel = kernels.find(str(image))
    stated = kernel.modules.parent / "modules.builtin.modinfo"
    stated.write_bytes(b"tcp_bbr.license=Dual BSD/GPL\0")
    assert "bbr" in kernels.find(str(image)).controls
    stated.write_bytes(b"tcp_bbr.license=Dual BSD/GPL\0tcp_bbr.version=3\0")
    assert kernels.find(str(image)).controls == ["bbr3", "cubic", "reno"]
    assert kernels.module_of("bbr3") == "tcp_bbr"


@pytest.mark.parametrize(
    ("options", "modules", "lack"),
    [
        (OPTIONS.replace("DEBUG_INFO_BTF=y", "DEBUG_INFO_BTF=n"), ("tun",), "BTF"),
        (OPTIONS.replace("NET_NS=y", "NET_NS=n"), ("tun",), "NET_NS"),
        (OPTIONS, (), "TUN"),
        (OPTIONS.replace("CONFIG_HZ=300", ""), ("tun",), r"config-9\.9\.9: it does not say CONFIG_HZ"),
    ],
)
def test_a_kernel_that_lacks_something_is_refused(
    tmp_path: Path, options: str, modules: tuple[str, ...], lack: str
) -> None:
    with pytest.raises(vm.KernelError, match=lack):
        kernels.find(str(packaged(tmp_path, options, modules)))


def test_a_broken_kernel_in_the_cache_is_reported_and_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "tailback/kernels"
    (packaged(folder / "bare", OPTIONS).parent / "config-9.9.9").unlink()
    packaged(folder / "junk", OPTIONS).write_bytes(b"junk")
    packaged(folder / "whole", OPTIONS)
    assert kernels.find().name == "whole"
    with pytest.raises(vm.KernelError, match=r"config-9\.9\.9: No such file.*tailback vm fetch"):
        kernels.find("bare")
    reported = json.loads(CliRunner().invoke(cli.app, ["vm", "kernels", "--json"]).output)
    assert [row["name"] for row in reported["kernels"]] == ["whole"]
    assert set(reported["broken"]) == {"bare", "junk"}
    shown = " ".join(CliRunner().invoke(cli.app, ["vm", "kernels"]).output.split())
    assert "junk cannot be run:" in shown
    assert "this is no bzImage" in shown


def test_a_kernels_controls_are_those_that_a_scenario_can_name() -> None:
    for name in kernels._CONTROLS.values():
        scenario(name).resolve(live=True)


def test_a_full_disk_is_reported_with_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("tempfile.mkdtemp", full)
    with pytest.raises(vm.VmError, match=rf"{tmp_path}: No space left on device\..*TMPDIR"), scratch():
        pass


def test_doctor_says_what_virtual_machines_lack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    rows = {row["name"]: row for row in vm.doctor()}
    assert not any(rows[name]["ok"] for name in (machine.QEMU, "clang", "guests' kernels"))
    assert "qemu-system-x86" in rows[machine.QEMU]["remedy"]
    done = CliRunner().invoke(cli.app, ["doctor", "--seconds", "0"])
    assert done.exit_code == 0
    assert "cannot run virtual machines" in " ".join(done.output.split())


def test_a_kernel_without_a_queue_refuses_it_by_name(tmp_path: Path) -> None:
    options = OPTIONS + "CONFIG_NET_SCH_HTB=y\nCONFIG_NET_SCH_PIE=m\n"
    kernel = kernels.find(str(packaged(tmp_path, options, ("tun", "sch_pie"))))

    def resolved(name: str) -> dict[str, object]:
        queue = {"discipline": name, "limit_packets": 20}
        return tb.dumbbell(rate="1mbit", rtt="20ms", queue=queue, flows=[tb.bulk()], duration="1s").resolve(live=True)

    assert kernel.demand_queues(resolved("kernel:pie")) == ["htb", "pie"]
    assert kernel.demand_queues(resolved("kernel:pfifo")) == ["htb", "pfifo"]
    assert kernel.demand_queues(resolved("pie")) == []
    with pytest.raises(tb.ScenarioError, match=r"has no codel .CONFIG_NET_SCH_CODEL.*another kernel"):
        kernel.demand_queues(resolved("kernel:codel"))


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    image = packaged(tmp_path, OPTIONS)
    image.write_bytes(bytes(0x400))
    with pytest.raises(vm.KernelError, match="no bzImage"):
        kernels.find(str(image))


def test_modules_come_after_those_they_need(tmp_path: Path) -> None:
    image = packaged(tmp_path, OPTIONS, ("tun", "one", "two"))
    drivers = tmp_path / "lib/modules/9.9.9/kernel"
    (drivers / "one.ko").write_bytes(b"\0depends=two\0")
    loaded = kernels.find(str(image)).loads(["one", "built_in"])
    assert [name for name, _ in loaded] == ["two", "one"]


def test_each_machine_has_a_processor_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ours = sorted(os.sched_getaffinity(0))
    with ExitStack() as machines:
        taken = [machines.enter_context(machine._processor()) for _ in range(len(ours) + 1)]
    assert taken == [*ours, None]
    # The memory is a file that says nothing yet: the machine ends without a result, after it has written where it ran.
    memory, reported = tmp_path / "memory", tmp_path / "reported"
    shared_memory.prepare(memory)
    words = [sys.executable, "-c", f"import os; open({str(reported)!r}, 'w').write(str(os.sched_getaffinity(0)))"]
    with pytest.raises(vm.VmError, match="without a result"):
        machine.boot(words, memory, tmp_path / "console", None, None)
    assert reported.read_text() == f"{{{ours[0]}}}"
    # What fails while it is held fails as it would without, and gives it back.
    with pytest.raises(vm.VmError, match="nothing could not be started: No such file or directory"):
        machine.boot([str(tmp_path / "nothing")], memory, tmp_path / "console", None, None)
    with machine._processor() as processor:
        assert processor == ours[0]


def test_a_process_that_reserves_more_than_the_memory_starts_a_machine(tmp_path: Path) -> None:
    memory, started = tmp_path / "memory", tmp_path / "started"
    shared_memory.prepare(memory)
    words = [sys.executable, "-c", f"open({str(started)!r}, 'w')"]
    part = int(0.3 * os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    # Neighbours become one mapping, larger than the memory: what fork refuses to copy (Linux, mm/util.c).
    with ExitStack() as reserved:
        for _ in range(5):
            reserved.enter_context(mmap.mmap(-1, part, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        with pytest.raises(vm.VmError, match="without a result"):
            machine.boot(words, memory, tmp_path / "console", None, None)
    assert started.exists()


def test_what_a_killed_run_left_goes_with_the_next_and_what_runs_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed = tmp_path / "tailback-vm-killed"
    killed.mkdir()
    (killed / "lock").write_bytes(_MARKED)
    with scratch() as first, scratch() as second:
        assert not killed.exists()
        assert first.is_dir()
        assert second.is_dir()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("cpio") is None, reason="cpio is not installed (apt-get install cpio)")
def test_others_can_read_the_archive(tmp_path: Path) -> None:
    made = archive({"/a/b/c": b"text", "/init": b"x" * 7})
    subprocess.run(["cpio", "-idm", "--quiet"], input=made, cwd=tmp_path, check=True)
    assert (tmp_path / "a/b/c").read_bytes() == b"text"
    assert (tmp_path / "init").read_bytes() == b"x" * 7


def test_a_letter_is_read_as_it_was_written(tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    shared_memory.prepare(memory)
    assert shared_memory.progress(memory) == shared_memory.Progress(0, 0.0)
    head = b'{"tables": [["t", [["x", "<f8", 2], ["ok", "|b1", 3]]]], "files": [["f", 3]]}'
    padded = head + bytes(-len(head) % 8)
    body = struct.pack("<dd", 1.5, -2.0) + b"\1\0\1".ljust(8, b"\0") + b"abc"
    with memory.open("r+b") as file:
        file.write(struct.pack("<QQQ", shared_memory.DONE, 500_000, len(head)))
        file.seek(4096)
        file.write(padded + body)
    assert shared_memory.progress(memory) == shared_memory.Progress(shared_memory.DONE, 0.5)
    reported, tables, files = shared_memory.contents(memory)
    assert tables["t"]["x"].tolist() == [1.5, -2.0]
    assert tables["t"]["ok"].tolist() == [True, False, True]
    assert files == {"f": b"abc"}
    assert "refused" not in reported


@pytest.mark.long
@boots
def test_a_policer_and_thinned_acknowledgements_act_on_a_kernels_packets() -> None:
    path = {"rate": "50mbit", "rtt": "20ms", "queue": "1bdp", "policer": {"rate": "10mbit", "burst": "50kB"}}
    back = {"ack_hold": "5ms", "ack_every": 4}
    result = vm.run(tb.dumbbell(flows=[tb.bulk()], duration="2s", instruments={"drops": "all"}, back_wire=back, **path))
    reasons = result.polars("queue", labels=True).select("link", "reason").unique()
    assert set(reasons.rows()) == {("bottleneck", "policer"), ("return", "thinned")}
    received = result.column("links", "delivered_bytes")[0]
    assert 0.5 * 10e6 / 8 * 2 < received <= 10e6 / 8 * 2 + 50_000
    # One acknowledgement goes on of four that came, or for each 5 ms.
    assert result.column("links", "delivered")[1] < 0.6 * result.column("links", "arrived")[1]


# That a guest's path is a simulator's links is seen by its policer; the links' cells have laws of their own.
@pytest.mark.long
@boots
def test_a_kernels_packets_take_the_time_of_their_cells() -> None:
    path = {"rate": "10mbit", "rtt": "20ms", "queue": "1bdp", "overhead": 10, "linklayer": "atm"}
    result = vm.run(tb.dumbbell(flows=[tb.bulk()], duration="3s", **path))
    # 1500 bytes of IP and 10 of PPPoA fill 32 cells of 53 bytes.
    rows = tb.metrics.Rows.of(result)
    assert rows.carried_bps("bottleneck") == pytest.approx(10e6 * 1500 / (32 * 53), rel=0.01)
    assert 0.85 < result.link_summary()[0]["utilisation"] <= 1.0


@boots
def test_cells_are_of_a_rate_of_ip_bytes() -> None:
    path = {"rate": "10mbit", "rtt": "20ms", "overhead": 10, "linklayer": "atm"}
    with pytest.raises(tb.ScenarioError, match=r"dumbbell\.overhead.*a rate of IP bytes"):
        vm.run(tb.dumbbell(flows=[tb.bulk()], duration="1s", queue="kernel:codel", **path))


@pytest.mark.long
@boots
def test_a_kernel_repeats_what_a_wire_damages() -> None:
    path = {"rate": "20mbit", "rtt": "20ms", "wire": {"corrupt": 0.01}}
    result = vm.run(tb.dumbbell(flows=[tb.bulk()], duration="2s", **path))
    dropped = int(result.column("flows", "packets_dropped")[0])
    assert result.column("receiver_drops", "packets").tolist() == [dropped]
    assert dropped > 5
    assert result.column("flows", "segments_retransmitted")[0] >= dropped
    assert result.column("links", "dropped").tolist() == [0, 0]


@pytest.mark.long
@boots
def test_a_kernel_never_hears_of_marks_that_its_path_bleaches() -> None:
    path = {"rate": "20mbit", "rtt": "20ms", "wire": {"bleach": "ce"}}
    codel = {"discipline": "codel", "variant": "linux", "ecn": True}
    flow = tb.bulk(stack={"name": "linux", "ecn": True})
    made = tb.dumbbell(flows=[flow], duration="2s", queue=codel, instruments={"captures": ["bottleneck"]}, **path)
    result = vm.run(made)
    marked = int(result.column("links", "marked")[0])
    assert marked > 20
    seen = {tuple(row[:2]): row[2] for row in result.polars("wire", labels=True).group_by("point", "ecn").len().rows()}
    # What was marked arrives as Not-ECT, besides the handshake; the last marks may be under way.
    assert ("bottleneck.out", "ce") not in seen
    assert seen["bottleneck.out", "not-ect"] > 0.9 * marked > 10 * seen["bottleneck.in", "not-ect"]
