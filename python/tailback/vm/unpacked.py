"""A kernel's image unpacked on the host, so that the guest need not unpack it.

A bzImage unpacks itself first. Of the 9 processor seconds until a guest of Linux 7.3 starts its run, that takes 3 with
zstd; of the 6 of Linux 6.1 it takes 0.7 with LZ4. QEMU enters an unpacked image through the PVH entry that a note of
its ELF file names (Xen's `XEN_ELFNOTE_PHYS32_ENTRY`).
"""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

__all__ = ["ENTERED", "unpacked"]

#: How kernels are entered. Another text for another way, whose results differ.
ENTERED = "by PVH if packed by zstd or LZ4"
#: The Linux/x86 boot protocol: number of the setup's sectors, and where the packed kernel lies behind them.
_SETUP_SECTORS, _PAYLOAD = 0x1F1, 0x248
_ZSTD, _LZ4 = b"\x28\xb5\x2f\xfd", b"\x02\x21\x4c\x18"
#: What a block of LZ4's legacy frame unpacks to; the last one to less.
_LZ4_BLOCK = 8 << 20
_NOTE_OWNER, _NOTE_PVH_ENTRY = "Xen", 18
#: More than any kernel: a size that is wrong is not asked of the host.
_MOST_BYTES = 512 << 20


def unpacked(image: Path, into: Path) -> Path:
    """What a guest boots: `image`'s kernel, unpacked to `into` if it can be, or else `image` itself.

    It can be if zstd or LZ4 packed it and it has a PVH entry. The same image always gives the same answer, because the
    two ways to boot differ in a guest's time. Raises `OSError`.
    """
    kernel = _payload(image.read_bytes())
    if kernel is None or not _has_pvh_entry(kernel):
        return image
    into.write_bytes(kernel)
    return into


def _payload(image: bytes) -> bytes | None:
    """The kernel that is packed in a bzImage, if zstd or LZ4 packed it."""
    if len(image) < _PAYLOAD + 8:
        return None
    offset, length = struct.unpack_from("<II", image, _PAYLOAD)
    begin = ((image[_SETUP_SECTORS] or 4) + 1) * 512 + offset
    payload = image[begin : begin + length]
    unpack = {_ZSTD: _of_zstd, _LZ4: _of_lz4}.get(payload[:4])
    if unpack is None:
        return None
    # The last four bytes are the unpacked size (`size_append` of the kernel's scripts/Makefile.lib).
    (size,) = struct.unpack("<I", payload[-4:])
    try:
        return unpack(payload[:-4], size) if size <= _MOST_BYTES else None
    except (OSError, ValueError, struct.error):
        return None


def _of_zstd(packed: bytes, size: int) -> bytes:
    import pyarrow as pa

    return bytes(pa.decompress(packed, decompressed_size=size, codec="zstd", asbytes=True))


def _of_lz4(packed: bytes, size: int) -> bytes:
    """The legacy frame: behind the magic number blocks, each with its packed size in front (LZ4 Frame Format)."""
    import pyarrow as pa

    out, at = bytearray(), len(_LZ4)
    while len(out) < size:
        (length,) = struct.unpack_from("<I", packed, at)
        block, wanted = packed[at + 4 : at + 4 + length], min(_LZ4_BLOCK, size - len(out))
        out += pa.decompress(block, decompressed_size=wanted, codec="lz4_raw", asbytes=True)
        at += 4 + length
    return bytes(out)


def _has_pvh_entry(kernel: bytes) -> bool:
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.segments import NoteSegment

    try:
        parts = ELFFile(io.BytesIO(kernel)).iter_segments("PT_NOTE")
        notes: list[Any] = [note for part in parts if isinstance(part, NoteSegment) for note in part.iter_notes()]
    except (ELFError, UnicodeDecodeError, struct.error):
        return False
    return any(note["n_name"] == _NOTE_OWNER and note["n_type"] == _NOTE_PVH_ENTRY for note in notes)
