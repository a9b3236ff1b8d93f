"""One virtual machine from start to end: QEMU counting instructions, watched through the memory it shares."""

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
from tailback.vm import kernel_log, letter, starter
from tailback.vm.stuck import Stub

__all__ = ["MOST_DILATION", "QEMU", "GuestError", "LostRun", "VmError", "boot", "command", "digest"]

QEMU = "qemu-system-x86_64"
#: A guest hangs if it reports nothing new while its machine works, or sleeps, for this long. Time in which a busy or
#: stopped host lets the machine wait does not count. A guest that runs reports ten times a guest second.
PATIENCE_S = 180.0
#: And one that is no further after so long by the clock, whatever its machine does: a stopped one does no work.
SILENCE_S = 1800.0
#: A guest that hangs is given so long to say where.
_ANSWER_S = 60.0
#: The kernel counts its counter's rate in kHz of 32 bits and its delay loop in 64; beyond, a timer takes a thousand
#: interrupts.
MOST_DILATION = 100
_MEMORY_MB = 2048
_LOOK_S = 0.02
#: The console is shown from its end, and, because a panic's registers fill those lines, with the first that says why.
_LAST_LINES = 12
_REASONS = ("Kernel panic", "not syncing", "BUG", "Oops")

#: The time-stamp counter is the instruction count at 1 GHz, exactly. Defences, self-tests, and the local timer, which
#: the kernel would calibrate by waiting, cost seconds at the start; HPET keeps time as exactly.
_ARGUMENTS = (
    "console=ttyS0 quiet panic=-1 oops=panic nokaslr mitigations=off nowatchdog init_on_alloc=0 cryptomgr.notests=1 "
    "nolapic_timer tsc=reliable clocksource=tsc no_timer_check"
)
_INSTRUCTIONS_PER_MS = 1_000_000
#: HZ of the kernels that are run is 250 or more, and the kernel's delay loop may only be too long.
_LONGEST_JIFFY_MS = 4


def _clock(dilation: int) -> str:
    """The kernel's time is the counter divided by the rate it is given, so a higher rate slows that time.

    HPET, whose rate cannot be given, then fires before a timer is due. The kernel looks at its clock, finds the timer
    not due, and sets HPET again for what is left: each interrupt takes 1/`dilation` off the rest.
    """
    rate_khz = dilation * _INSTRUCTIONS_PER_MS
    return f"tsc_early_khz={rate_khz} lpj={_LONGEST_JIFFY_MS * rate_khz}"


#: In guest seconds; the kernel's own default is 21, which is minutes here.
_STALLS = "rcupdate.rcu_cpu_stall_timeout=3 sysctl.kernel.panic_on_rcu_stall=1"


#: QEMU sizes its cache of page translations by how full it was in the last 100 ms of the host's clock
#: (`tlb_mmu_resize_locked`), and a guest's page faults depend on what is cached: so that clock stands.
_STILL = "int gettimeofday(long *at, void *zone) { (void)zone; at[0] = 1577836800; at[1] = 0; return 0; }"


class VmError(TailbackError):
    """A run in a virtual machine that failed; the machine is gone."""


class GuestError(VmError):
    """What the guest itself says against a run: the same run ends the same way again."""


class LostRun(VmError):
    """A machine that hung or ended early: it says nothing of the run, which may go well the next time."""


#: What programs of today may ask of a processor (x86-64-v2) and what makes TLS quick, but no source of chance (RDRAND).
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
    """The words that start the machine.

    The guest's clock runs `dilation` times slower than its processor: its processor is that many times faster.
    `for_programs` gives its processor what compilers of today take as given. With `stalls` the kernel ends itself, with
    its stack, when it hangs. `more` is added to what the kernel is given.
    """
    return [
        *(QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-machine", "pc", "-cpu", "qemu64" + _FOR_PROGRAMS * for_programs, "-smp", "1", "-m", str(_MEMORY_MB)),
        # One instruction is one nanosecond; an idle guest's clock jumps to its next timer. Recording makes QEMU's two
        # threads take turns, which is its purpose here: else the jump may be reckoned while the instructions
        # just done are not yet counted, and the guest wakes some microseconds late, by how busy the host is.
        *("-accel", "tcg,thread=single", "-icount", f"shift=0,sleep=off,align=off,rr=record,rrfile={os.devnull}"),
        # Nothing of the host's time or chance comes in.
        *("-rtc", "base=2020-01-01,clock=vm", "-seed", str(seed % 2**31)),
        *("-serial", f"file:{console}", "-kernel", str(image), "-initrd", str(initial)),
        *("-append", " ".join([_ARGUMENTS, _clock(dilation), *[_STALLS] * stalls, *[more] * bool(more)])),
        *("-object", f"memory-backend-file,id=letter,share=on,mem-path={memory},size={letter.SIZE}"),
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
) -> None:
    """Run the machine to its end. Raises `LostRun` if it ends without a letter, hangs, or does not start."""
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
            # Ctrl-C is ours to hear. A session of its own would be scheduled as a group of its own, and make
            # niceness void.
            process_group=0,
        )
        try:
            _watch(machine, memory, console, stub, progress, cancel)
        finally:
            if machine.poll() is None:
                machine.kill()
            machine.wait()
            if machine.stderr:
                machine.stderr.close()


@functools.cache
def _still() -> int:
    """A descriptor of a library in which the host's clock stands."""
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
    """The environment of a program that gets this descriptor, whose number has no sign that would cut its path."""
    return os.environ | {"LD_PRELOAD": f"/proc/self/fd/{still}"}


@contextmanager
def _processor() -> Iterator[int | None]:
    """One of our processors that no other machine of this user is on; `None` if each has one, or none can be chosen.

    QEMU's two threads take turns. On one processor that is a switch; on two, each is woken from afar each time, and the
    run takes twice as long.
    """
    ours = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    with ExitStack() as held:
        yield next((processor for processor in ours if _is_ours(processor, held)), None)


def _is_ours(processor: int, held: ExitStack) -> bool:
    """Take the processor until `held` ends, if it is free. The lock ends with its holder, however that ends."""
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
) -> None:
    last = letter.Progress(0, 0.0)
    patience = _Patience(machine.pid)
    while machine.poll() is None:
        time.sleep(_LOOK_S)
        if cancel is not None and cancel.is_set():
            raise Cancelled("cancelled")
        now = letter.progress(memory)
        if now != last:
            last, patience = now, _Patience(machine.pid)
            if progress is not None and now.state == letter.RUNNING:
                progress(now.fraction)
        elif patience.spent_s() > PATIENCE_S:
            hangs = f"nothing new for {PATIENCE_S:.0f} s of its machine's work"
            raise LostRun(_hangs(machine, console, stub, hangs))
        elif patience.waited_s > SILENCE_S:
            raise LostRun(_hangs(machine, console, stub, f"nothing new for {SILENCE_S:.0f} s"))
    if letter.progress(memory).state == letter.DONE:
        return
    said = machine.stderr.read().decode(errors="replace").strip() if machine.stderr else ""
    if machine.returncode == -signal.SIGBUS:
        raise LostRun(f"{QEMU} found no room for what the guest hands over. {no_room(memory.parent.parent)}")
    if machine.returncode:
        raise LostRun(f"{QEMU} ended with {machine.returncode}: {said or 'it said nothing'}")
    raise LostRun(f"the guest ended without a result{_tail(console)}")


def _hangs(machine: subprocess.Popen[bytes], console: Path, stub: Stub, why: str) -> str:
    """That a guest hangs, and where: its kernel's stack, if it can still write it."""
    before = kernel_log.trace(_lines(console))
    if stub.fault(min(PATIENCE_S, SILENCE_S, _ANSWER_S)):
        with suppress(subprocess.TimeoutExpired):
            machine.wait(_ANSWER_S)
    lines = _lines(console)
    if before is None and (trace := kernel_log.trace(lines)) is not None:
        # Its reason is the instruction that was put there.
        return f"the guest hangs{kernel_log.where(trace)}: {why}; its kernel's stack:\n{_shown(trace[1:])}"
    return f"the guest hangs: {why}{_tail(console)}"


def no_room(folder: Path | None) -> str:
    """What to do about a full disk, on which this folder is."""
    freed = f"Free some space in {folder}, or name" if folder else "Name"
    return f"{freed} a folder with room in TMPDIR: a machine takes 100 MB to 1 GB"


class _Patience:
    """How long a machine has worked or slept, looked at once a second."""

    def __init__(self, process: int) -> None:
        self._tasks = Path(f"/proc/{process}/task")
        self._spent_s = 0.0
        #: Seconds by the clock, without those in which this process was stopped itself.
        self.waited_s = 0.0
        self._looked = time.monotonic()
        self._worked_s = self._look()[0]

    def _look(self) -> tuple[float, bool]:
        """Its processor time, and whether all its threads sleep of their own accord."""
        worked, sleeps = 0, True
        for stat in self._tasks.glob("*/stat"):
            # A thread that ends while we look is no matter.
            with suppress(OSError):
                # Behind the name, which may hold anything: the state, and 11 and 12 fields on the times (proc(5)).
                fields = stat.read_text().rpartition(")")[2].split()
                worked += int(fields[11]) + int(fields[12])
                sleeps = sleeps and fields[0] == "S"
        return worked / os.sysconf("SC_CLK_TCK"), sleeps

    def spent_s(self) -> float:
        passed = time.monotonic() - self._looked
        if passed >= min(1.0, PATIENCE_S, SILENCE_S):
            worked_s, sleeps = self._look()
            # We may have been stopped ourselves since the last look.
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
    """What the guest's console says of its end."""
    lines = _lines(console)
    if not lines:
        return "; its console is empty"
    if (trace := kernel_log.trace(lines)) is not None:
        return f"; its console says:\n{_shown(trace)}"
    last = lines[-_LAST_LINES:]
    reason = next((line for line in lines if any(word in line for word in _REASONS)), None)
    before = [] if reason is None or reason in last else [reason, "..."]
    return f"; its console's last lines:\n{_shown([*before, *last])}"
