"""Kernels that boot nothing: heads of images with what packages put around them."""

import struct
from pathlib import Path

from tailback.vm import kernels

OPTIONS = (
    "".join(f"CONFIG_{option}=y\n" for option in (*kernels._NEEDED, "TCP_CONG_CUBIC")) + "CONFIG_TUN=m\nCONFIG_HZ=300\n"
)
"""The configuration of a kernel that guests can run."""


def bz_image(release: str) -> bytes:
    """The head of a bzImage of `release`."""
    head = bytearray(0x400)
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", head, 0x20E, 0x100)
    version = f"{release} (builder) #1".encode()
    head[0x300 : 0x300 + len(version)] = version
    return bytes(head)


def packaged(
    folder: Path, options: str, modules: tuple[str, ...] = ("tun",), release: str = "9.9.9", *, split: bool = False
) -> Path:
    """An image as packages lay it out below `folder`, or as those that `split` a kernel do; its path."""
    root = folder / ("usr/lib/modules" if split else "lib/modules") / release
    image = root / "vmlinuz" if split else folder / f"boot/vmlinuz-{release}"
    config = root / "config" if split else folder / f"boot/config-{release}"
    (root / "kernel").mkdir(parents=True)
    image.parent.mkdir(parents=True, exist_ok=True)
    image.write_bytes(bz_image(release))
    config.write_text(options)
    for module in modules:
        (root / f"kernel/{module}.ko").write_bytes(b"\0depends=\0")
    return image
