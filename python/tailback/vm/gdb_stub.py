"""Finds where a guest hangs: makes its kernel fault there, which prints the stack to the console.

QEMU has a stub for debuggers (the GDB manual, "GDB Remote Serial Protocol"). Nothing connects to it before a guest
hangs, and it adds no device to the guest, so results are the same to the byte.

QEMU 7.2 aborts if the guest executes 2^31 instructions without a pause, interrupt or timer, as a loop does with
interrupts off and no `cpu_relax()`. Its stack cannot be printed.
"""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

__all__ = ["Stub"]

#: RIP follows sixteen 64-bit registers. 64-bit Linux has kernel addresses in the upper half.
_RIP = slice(16 * 16, 17 * 16)
_KERNELS_OWN = 1 << 63
#: UD2: the kernel reports "invalid opcode" with its stack at any address.
_UNDEFINED = "0f0b"
#: Number of hex digits of a checksum.
_SUM = 2


class Stub:
    """QEMU's GDB stub of one machine, with its socket in `folder`."""

    def __init__(self, folder: Path) -> None:
        with ExitStack() as held:
            at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, at)
            # A socket's path is limited to 107 bytes; a temporary folder's path may be longer.
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
        """The descriptor that QEMU inherits."""
        return self._listens.fileno()

    @property
    def words(self) -> list[str]:
        """Further arguments for QEMU."""
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
    """The stub's answer; `OSError` if it does not come in time."""
    asks.sendall(f"${words}#{sum(words.encode()) % 256:02x}".encode())
    came = b""
    while True:
        before, ended, rest = came.partition(b"#")
        if ended and len(rest) >= _SUM:
            asks.sendall(b"+")
            answer, came = before.rpartition(b"$")[2].decode(), rest[_SUM:]
            # The stub first reports, unasked, that the machine has stopped.
            if not answer.startswith("T"):
                return answer
        elif more := asks.recv(4096):
            came += more
        else:
            raise ConnectionError("the machine ended")
