"""Images unpacked on the host: what a guest boots is the packed kernel if QEMU can enter it, or else the image."""

import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from kernel_images import bz_image
from tailback import vm
from tailback.vm import machine
from tailback.vm.unpacked import unpacked

PVH_ENTRY = 18
BLOCK = 8 << 20


def elf(note: int) -> bytes:
    """A 64-bit ELF file with one note of Xen's, and more than one of LZ4's blocks."""
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 62, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    notes = struct.pack("<III4sQ", 4, 8, note, b"Xen\0", 0x1000000)
    segment = struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(notes), len(notes), 4)
    return head + segment + notes + bytes(BLOCK) + b"the end"


def zstd(kernel: bytes) -> bytes:
    return bytes(pa.compress(kernel, codec="zstd", asbytes=True))


def lz4(kernel: bytes) -> bytes:
    blocks = [kernel[at : at + BLOCK] for at in range(0, len(kernel), BLOCK)]
    packed = [pa.compress(block, codec="lz4_raw", asbytes=True) for block in blocks]
    return b"\x02\x21\x4c\x18" + b"".join(struct.pack("<I", len(each)) + each for each in packed)


def image(payload: bytes, size: int) -> bytes:
    head = bytearray(bz_image("9.9.9"))
    setup = (head[0x1F1] or 4) + 1
    head += bytes(512 * setup - len(head))
    struct.pack_into("<II", head, 0x248, 0, len(payload) + 4)
    return bytes(head) + payload + struct.pack("<I", size)


@pytest.mark.parametrize("pack", [zstd, lz4])
def test_a_packed_kernel_is_unpacked_if_it_can_be_entered(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    file, into = tmp_path / "vmlinuz", tmp_path / "kernel"
    kernel = elf(PVH_ENTRY)
    file.write_bytes(image(pack(kernel), len(kernel)))
    assert unpacked(file, into) == into
    assert into.read_bytes() == kernel
    into.unlink()
    other = elf(PVH_ENTRY - 1)
    file.write_bytes(image(pack(other), len(other)))
    assert unpacked(file, into) == file
    assert not into.exists()


@pytest.mark.parametrize("pack", [zstd, lz4])
def test_what_cannot_be_unpacked_boots_as_it_is(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    file, kernel = tmp_path / "vmlinuz", elf(PVH_ENTRY)
    packed = pack(kernel)
    for payload, size in ((packed[:-9], len(kernel)), (packed, 1 << 31), (packed, len(kernel) + BLOCK), (kernel, 9)):
        file.write_bytes(image(payload, size))
        assert unpacked(file, tmp_path / "kernel") == file
    file.write_bytes(bz_image("9.9.9")[:300])
    assert unpacked(file, tmp_path / "kernel") == file


def test_another_way_to_start_a_guest_is_another_guest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = vm.guest_digest()
    assert vm.guest_digest() == before
    monkeypatch.setattr(vm, "ENTERED", "as it is")
    assert vm.guest_digest() != before
    monkeypatch.undo()
    monkeypatch.setattr(machine, "_ARGUMENTS", "quiet")
    assert vm.guest_digest() != before
