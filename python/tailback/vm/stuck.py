"""Where a guest hangs: its kernel is made to fault there, and writes its own stack to the console.

QEMU has a stub for debuggers (the GDB manual, "GDB Remote Serial Protocol"). Nothing connects to it before a guest
hangs, and the guest has no device for it: what a run gives is the same to the byte.

QEMU 7.2 ends itself instead if the guest has gone through 2^31 instructions without a pause, interrupt or timer: a loop
with interrupts off that does not even say `cpu_relax()`. The stack of that one is not seen.
"""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

__all__ = ["Stub"]

#: RIP stands behind sixteen registers of 64 bits, and 64-bit Linux's own addresses are the upper half.
_RIP = slice(16 * 16, 17 * 16)
_KERNELS_OWN = 1 << 63
#: UD2, of which a kernel says "invalid opcode", with its stack, wherever it stands.
_UNDEFINED = "0f0b"
#: The digits of a checksum.
_SUM = 2


class Stub:
    """The stub of one machine, whose socket lies in `folder`."""

    def __init__(self, folder: Path) -> None:
        with ExitStack() as held:
            at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, at)
            # A socket's path has 107 bytes at most, and that of a temporary folder may be longer.
            self._place = f"/proc/self/fd/{at}/stub"
            self._listens = held.enter_context(socket.socket(socket.AF_UNIX))
            self._listens.bind(self._place)
            held.callback(os.unlink, self._place)
            self._listens.listen(1)
            self._held = held.pop_all()

    def __enter__(self) -> Stub:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._held.close()

    @property
    def descriptor(self) -> int:
        """The descriptor that QEMU gets."""
        return self._listens.fileno()

    @property
    def words(self) -> list[str]:
        """What QEMU is given besides."""
        return ["-chardev", f"socket,id=stub,fd={self.descriptor},server=on,wait=off", "-gdb", "chardev:stub"]

    def fault(self, timeout_s: float) -> bool:
        """Have the kernel fault at its next instruction; False if the machine does not answer or runs a program."""
        try:
            with socket.socket(socket.AF_UNIX) as asks:
                asks.settimeout(timeout_s)
                asks.connect(self._place)
                registers = _asked(asks, "g")
                at = int.from_bytes(bytes.fromhex(registers[_RIP]), "little")
                if at & _KERNELS_OWN:
                    _asked(asks, f"M{at:x},{len(_UNDEFINED) // 2:x}:{_UNDEFINED}")
                _asked(asks, "D")
                return bool(at & _KERNELS_OWN)
        except (OSError, ValueError):
            return False


def _asked(asks: socket.socket, words: str) -> str:
    """The stub's answer. `OSError` if there is none in time."""
    asks.sendall(f"${words}#{sum(words.encode()) % 256:02x}".encode())
    came = b""
    while True:
        before, ended, rest = came.partition(b"#")
        if ended and len(rest) >= _SUM:
            asks.sendall(b"+")
            answer, came = before.rpartition(b"$")[2].decode(), rest[_SUM:]
            # Unasked, it says first that the machine has stopped.
            if not answer.startswith("T"):
                return answer
        elif more := asks.recv(4096):
            came += more
        else:
            raise ConnectionError("the machine ended")
