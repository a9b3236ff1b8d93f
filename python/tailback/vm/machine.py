"""Runs one virtual machine: QEMU counting instructions, watched through the memory it shares."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tailback._core import Cancel
from tailback.errors import Cancelled, TailbackError
from tailback.vm import kernel_log, shared_memory, starter
from tailback.vm.gdb_stub import Stub

__all__ = ["MOST_DILATION", "QEMU", "GuestError", "LostRun", "VmError", "boot", "command", "digest"]

QEMU = "qemu-system-x86_64"
#: A guest hangs if it reports no progress while its machine works or sleeps for this long. Time that the machine waits
#: for a busy or stopped host does not count. A running guest reports ten times per guest second.
PATIENCE_S = 180.0
#: The limit in its place while a guest loads a module of the user, or runs with one: a tenth of a guest second takes
#: about a second of work, and as many times more as the guest's clock is slower.
OWN_PATIENCE_S = 20.0
#: It also hangs after this wall-clock time without progress: a stopped machine does no work.
SILENCE_S = 1800.0
#: Time for a hung guest to print its stack.
_ANSWER_S = 60.0
#: The kernel stores the TSC rate as 32-bit kHz and the delay loop in 64 bits. With more dilation, a timer would take a
#: thousand interrupts.
MOST_DILATION = 100
_MEMORY_MB = 2048
_LOOK_S = 0.02
#: Errors show the console's last lines and, because a panic's registers may fill these, the first line with a reason.
_LAST_LINES = 12
_REASONS = ("Kernel panic", "not syncing", "BUG", "Oops")

#: The time-stamp counter is the instruction count at 1 GHz, exactly. Mitigations, self-tests and calibration of the
#: local APIC timer would cost seconds at boot; HPET is as exact.
_ARGUMENTS = (
    "console=ttyS0 quiet panic=-1 oops=panic nokaslr mitigations=off nowatchdog init_on_alloc=0 cryptomgr.notests=1 "
    "nolapic_timer tsc=reliable clocksource=tsc no_timer_check"
)
_INSTRUCTIONS_PER_MS = 1_000_000
#: Kernels here have HZ of 250 or more; a delay loop may be too long but never too short.
_LONGEST_JIFFY_MS = 4


def _clock(dilation: int) -> str:
    """Boot arguments for the guest's clock. Time is the TSC divided by the given rate, so a higher rate slows it.

    The rate of HPET cannot be set, so it fires before a timer is due. The kernel then sets HPET again for the remaining
    time; each interrupt takes 1/`dilation` off the remainder.
    """
    rate_khz = dilation * _INSTRUCTIONS_PER_MS
    return f"tsc_early_khz={rate_khz} lpj={_LONGEST_JIFFY_MS * rate_khz}"


#: In guest seconds; the kernel's default of 21 would take minutes of wall-clock time.
_STALLS = "rcupdate.rcu_cpu_stall_timeout=3 sysctl.kernel.panic_on_rcu_stall=1"


#: QEMU sizes its TLB by its use in the last 100 ms of the host's clock (`tlb_mmu_resize_locked`), and a guest's page
#: faults depend on the TLB. So the host's clock is frozen for QEMU.
_STILL = "int gettimeofday(long *at, void *zone) { (void)zone; at[0] = 1577836800; at[1] = 0; return 0; }"


class VmError(TailbackError):
    """A run in a virtual machine that failed; the machine has ended."""


class GuestError(VmError):
    """An error that the guest itself reports; the same run fails the same way again."""


class LostRun(VmError):
    """A machine that hung or ended early; the same run may succeed the next time."""


#: Processor features that current programs assume (x86-64-v2) and that speed up TLS, without a source of randomness
#: (RDRAND).
_FOR_PROGRAMS = ",+cx16,+popcnt,+ssse3,+sse4.1,+sse4.2,+aes,+pclmulqdq"


def command(
    image: Path,
    initial: Path,
    memory: Path,
    console: Path,
    seed: int,
    *,
    for_programs: bool = False,
    stalls: bool = False,
    dilation: int = 1,
    more: str = "",
) -> list[str]:
    """The QEMU command line.

    The guest's clock runs `dilation` times slower, so its processor is that many times faster. `for_programs` enables
    the processor features that current compilers assume. With `stalls` a hanging kernel panics and prints its stack.
    `more` is appended to the kernel's boot arguments.
    """
    return [
        *(QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-machine", "pc", "-cpu", "qemu64" + _FOR_PROGRAMS * for_programs, "-smp", "1", "-m", str(_MEMORY_MB)),
        # One instruction is one nanosecond; an idle guest's clock jumps to its next timer. Recording serves to make
        # QEMU's two threads take turns. Otherwise the jump may be computed before the latest instructions are counted,
        # and the guest wakes microseconds late, depending on the host's load.
        *("-accel", "tcg,thread=single", "-icount", f"shift=0,sleep=off,align=off,rr=record,rrfile={os.devnull}"),
        # The guest gets neither time nor randomness from the host.
        *("-rtc", "base=2020-01-01,clock=vm", "-seed", str(seed % 2**31)),
        *("-serial", f"file:{console}", "-kernel", str(image), "-initrd", str(initial)),
        *("-append", " ".join([_ARGUMENTS, _clock(dilation), *[_STALLS] * stalls, *[more] * bool(more)])),
        *("-object", f"memory-backend-file,id=letter,share=on,mem-path={memory},size={shared_memory.SIZE}"),
        *("-device", "ivshmem-plain,memdev=letter"),
    ]


def digest() -> str:
    """Another one for another machine: for other words of `command`."""
    words = command(Path("image"), Path("initial"), Path("memory"), Path("console"), seed=0)
    return hashlib.sha256("\n".join([*words, _STALLS, _FOR_PROGRAMS]).encode()).hexdigest()


def boot(
    words: list[str],
    memory: Path,
    console: Path,
    progress: Callable[[float], object] | None,
    cancel: Cancel | None,
    *,
    own: Sequence[str] = (),
    dilation: int = 1,
) -> None:
    """Run the machine to its end; `LostRun` if it hangs, does not start, or ends without a result.

    `own` are the names of the user's modules that it loads, in this order.
    """
    if shutil.which(QEMU) is None:
        raise VmError(f"{QEMU} is not installed. Install it: apt-get install qemu-system-x86")
    still = _still()
    with _processor() as processor, Stub(memory.parent) as stub:
        start = [sys.executable, "-I", starter.__file__, "-" if processor is None else str(processor)]
        machine = subprocess.Popen(
            [*start, *words, *stub.words],
            env=_stopped(still),
            pass_fds=[still, stub.descriptor],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            # Ctrl-C must reach only this process. A new session would be its own scheduling group, in which niceness
            # has no effect.
            process_group=0,
        )
        try:
            _watch(machine, memory, console, stub, progress, cancel, own, dilation)
        finally:
            if machine.poll() is None:
                machine.kill()
            machine.wait()
            if machine.stderr:
                machine.stderr.close()


@functools.cache
def _still() -> int:
    """File descriptor of a library that freezes the host's clock for QEMU."""
    with tempfile.TemporaryDirectory(prefix="tailback-") as folder:
        library = Path(folder, "still.so")
        words = ["clang", "-O1", "-shared", "-fPIC", "-nostdlib", "-x", "c", "-", "-o", str(library)]
        try:
            subprocess.run(words, input=_STILL, capture_output=True, text=True, check=True)
        except FileNotFoundError:
            raise VmError("clang is not installed. Install it: apt-get install clang") from None
        except subprocess.CalledProcessError as error:
            raise VmError(f"clang does not build what {QEMU} starts with: {error.stderr.strip()}") from None
        return os.open(library, os.O_RDONLY | os.O_CLOEXEC)


def _stopped(still: int) -> dict[str, str]:
    """Environment that preloads the library by its descriptor; a path could contain a separator."""
    return os.environ | {"LD_PRELOAD": f"/proc/self/fd/{still}"}


@contextmanager
def _processor() -> Iterator[int | None]:
    """A processor that no other machine of this user holds; `None` if there is none, or it cannot be chosen.

    QEMU's two threads take turns. On one processor each turn is a context switch; on two it is a wake-up across
    processors, and the run takes twice as long.
    """
    ours = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    with ExitStack() as held:
        yield next((processor for processor in ours if _is_ours(processor, held)), None)


def _is_ours(processor: int, held: ExitStack) -> bool:
    """Lock the processor until `held` closes; returns False if it is taken. The lock ends with its process."""
    import fcntl

    place = Path(tempfile.gettempdir()) / f"tailback-machine-{os.getuid()}-{processor}"
    try:
        lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        held.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _watch(
    machine: subprocess.Popen[bytes],
    memory: Path,
    console: Path,
    stub: Stub,
    progress: Callable[[float], object] | None,
    cancel: Cancel | None,
    own: Sequence[str],
    dilation: int,
) -> None:
    last = shared_memory.Progress(0, 0.0)
    patience = _Patience(machine.pid)
    while machine.poll() is None:
        time.sleep(_LOOK_S)
        if cancel is not None and cancel.is_set():
            raise Cancelled("cancelled")
        now = shared_memory.progress(memory)
        if now != last:
            last, patience = now, _Patience(machine.pid)
            if progress is not None and now.state == shared_memory.RUNNING:
                progress(now.fraction)
        elif patience.spent_s() > (most_s := _most_s(now, own, dilation)):
            where = f", in the init function of {own[now.module]}" if now.module is not None else ""
            hangs = f"nothing new for {most_s:.0f} s of its machine's work{where}"
            raise LostRun(_hangs(machine, console, stub, hangs))
        elif patience.waited_s > SILENCE_S:
            raise LostRun(_hangs(machine, console, stub, f"nothing new for {SILENCE_S:.0f} s"))
    if shared_memory.progress(memory).state == shared_memory.DONE:
        return
    said = machine.stderr.read().decode(errors="replace").strip() if machine.stderr else ""
    if machine.returncode == -signal.SIGBUS:
        raise LostRun(f"{QEMU} found no room for what the guest hands over. {no_room(memory.parent.parent)}")
    if machine.returncode:
        raise LostRun(f"{QEMU} ended with {machine.returncode}: {said or 'it said nothing'}")
    raise LostRun(f"the guest ended without a result{_tail(console)}")


def _most_s(now: shared_memory.Progress, own: Sequence[str], dilation: int) -> float:
    """How long a guest at this point may work without progress.

    Before time zero and after the run it prepares and collects for a long time without a report.
    """
    is_under_way = now.state == shared_memory.RUNNING and 0.0 < now.fraction < 1.0
    is_reporting = is_under_way or now.state == shared_memory.LOADING
    return min(PATIENCE_S, OWN_PATIENCE_S * dilation) if own and is_reporting else PATIENCE_S


def _hangs(machine: subprocess.Popen[bytes], console: Path, stub: Stub, why: str) -> str:
    """Message for a hung guest, with its kernel's stack if the kernel can still print it."""
    before = kernel_log.trace(_lines(console))
    if stub.fault(min(PATIENCE_S, SILENCE_S, _ANSWER_S)):
        with suppress(subprocess.TimeoutExpired):
            machine.wait(_ANSWER_S)
    lines = _lines(console)
    if before is None and (trace := kernel_log.trace(lines)) is not None:
        # The first line names the invalid instruction that `Stub.fault` wrote.
        return f"the guest hangs{kernel_log.where(trace)}: {why}; its kernel's stack:\n{_shown(trace[1:])}"
    return f"the guest hangs: {why}{_tail(console)}"


def no_room(folder: Path | None) -> str:
    """The fix for a full disk that holds this folder."""
    freed = f"Free some space in {folder}, or name" if folder else "Name"
    return f"{freed} a folder with room in TMPDIR: a machine takes 100 MB to 1 GB"


class _Patience:
    """Measures how long a machine has worked or slept, once a second."""

    def __init__(self, process: int) -> None:
        self._tasks = Path(f"/proc/{process}/task")
        self._spent_s = 0.0
        #: Wall-clock seconds, without those in which this process was stopped.
        self.waited_s = 0.0
        self._looked = time.monotonic()
        self._worked_s = self._look()[0]

    def _look(self) -> tuple[float, bool]:
        """Processor time of the machine, and whether all its threads are sleeping."""
        worked, sleeps = 0, True
        for stat in self._tasks.glob("*/stat"):
            # A thread may end meanwhile.
            with suppress(OSError):
                # After the name, which may contain any character: the state, and 11 and 12 fields later the times
                # (proc(5)).
                fields = stat.read_text().rpartition(")")[2].split()
                worked += int(fields[11]) + int(fields[12])
                sleeps = sleeps and fields[0] == "S"
        return worked / os.sysconf("SC_CLK_TCK"), sleeps

    def spent_s(self) -> float:
        passed = time.monotonic() - self._looked
        if passed >= min(1.0, PATIENCE_S, SILENCE_S):
            worked_s, sleeps = self._look()
            # This process may have been stopped since the last look.
            asleep_s = min(passed, 1.0) if sleeps else 0.0
            self.waited_s += min(passed, 10.0)
            self._spent_s += max(worked_s - self._worked_s, asleep_s)
            self._looked, self._worked_s = time.monotonic(), worked_s
        return self._spent_s


def _lines(console: Path) -> list[str]:
    lines = console.read_text(errors="replace").splitlines() if console.is_file() else []
    return [line.rstrip() for line in lines if line.strip()]


def _shown(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _tail(console: Path) -> str:
    """The end of the guest's console, for an error message."""
    lines = _lines(console)
    if not lines:
        return "; its console is empty"
    if (trace := kernel_log.trace(lines)) is not None:
        return f"; its console says:\n{_shown(trace)}"
    last = lines[-_LAST_LINES:]
    reason = next((line for line in lines if any(word in line for word in _REASONS)), None)
    before = [] if reason is None or reason in last else [reason, "..."]
    return f"; its console's last lines:\n{_shown([*before, *last])}"
