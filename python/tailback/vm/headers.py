"""Headers and kbuild tools for building modules for a kernel, unpacked into the user's cache."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from tailback.vm.debian import KernelError
from tailback.vm.kernels import Kernel, archive, cache

__all__ = ["of_kernel"]

_ELF = b"\x7fELF"
_LIBRARIES = Path("usr/lib/x86_64-linux-gnu")
_LOADER = "ld-linux-x86-64.so.2"


def of_kernel(kernel: Kernel) -> Path:
    """The folder for `make -C`: the tree that `kernel` was built in, or Debian's headers of its release.

    Debian's headers are downloaded at first use; `KernelError` if that fails.
    """
    if (kernel.modules / "Module.symvers").is_file() and (kernel.modules / "Makefile").is_file():
        return kernel.modules
    target = cache() / f".headers-{kernel.release}"
    if not target.is_dir():
        _fetch(kernel, target)
    return target / "usr/src" / f"linux-headers-{kernel.release}"


def _fetch(kernel: Kernel, target: Path) -> None:
    """Download and unpack the headers atomically, without fsync, since they can be fetched again."""
    partial = None
    try:
        cache().mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".headers-unpacking-", dir=cache()))
        # "linux-image-6.1.0-56-cloud-amd64 6.1.192-2"
        version = kernel.package.partition(" ")[2]
        archive().unpack_headers(kernel.release, version, partial)
        _at_home(partial, target)
        partial.chmod(0o755)
        partial.rename(target)
    except OSError as error:
        # Another process may have fetched them first.
        if not target.is_dir():
            raise KernelError(f"{target}: {error.strerror}. Headers of kernels are kept there: 100 MB each") from None
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)


def _at_home(root: Path, home: Path) -> None:
    """Adapt the headers unpacked in `root` for use at `home`, instead of the place where the packages install them."""
    for other in root.glob("usr/src/linux-headers-*/arch/*"):
        if other.name != "x86" and other.is_dir():
            shutil.rmtree(other)
    for makefile in root.glob("usr/src/linux-headers-*/Makefile"):
        text = makefile.read_text()
        makefile.write_text(re.sub(r"(?<![\w./])/usr/src/", f"{home}/usr/src/", text))
    libraries = home / _LIBRARIES
    if not (root / _LIBRARIES / _LOADER).exists():
        return
    # The tools need a later C library than this machine's, so the loader of that library starts them.
    for tool in [path for path in (root / "usr/lib").glob("linux-kbuild-*/**/*") if path.is_file()]:
        with tool.open("rb") as file:
            is_program = file.read(4) == _ELF
        if is_program and os.access(tool, os.X_OK):
            program = tool.with_name(f"{tool.name}.elf")
            tool.rename(program)
            loader = f'{libraries}/{_LOADER} --library-path {libraries} --argv0 "$0"'
            tool.write_text(f'#!/bin/sh\nexec {loader} "$0.elf" "$@"\n')
            tool.chmod(0o755)
