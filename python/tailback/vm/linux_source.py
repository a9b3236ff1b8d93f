"""Linux's source as Debian packages it: `linux-source-7.3`, fetched by the user's command and kept in the cache."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tailback.files import replaced, whole_folder
from tailback.vm.debian import KernelError
from tailback.vm.kernels import archive, cache

__all__ = ["extract", "fetch", "unpack", "version", "version_of"]

_NAME = re.compile(r"(?:linux-source-|debian-)?(\d+\.\d+)")


def fetch(name: str) -> Path:
    """The archive of `name`'s source ("linux-source-7.3" or "7.3"); downloaded at first use, some 150 MB.

    Raises `KernelError` if there is none of that name, or if the download fails.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise KernelError(f'"{name}" names no source of Linux. Write linux-source-6.1 or linux-source-7.3')
    package = f"linux-source-{found[1]}"
    folder = cache() / f".{package}"
    tarball = folder / f"{package}.tar.xz"
    if tarball.is_file():
        return tarball
    with whole_folder(folder) as partial:
        archive().download(package, partial)
        (deb,) = partial.glob("*.deb")
        files = _piped(["dpkg-deb", "--fsys-tarfile", str(deb)], ["tar", "-tf", "-"]).decode().split()
        inside = next((file for file in files if file.endswith(".tar.xz")), None)
        if inside is None:
            raise KernelError(f"{package}: its package holds no source. It has changed: report this")
        with (partial / tarball.name).open("wb") as out:
            _piped(["dpkg-deb", "--fsys-tarfile", str(deb)], ["tar", "-xOf", "-", inside], out)
        deb.unlink()
    return tarball


def extract(tarball: Path, wanted: Sequence[str], into: Path) -> list[Path]:
    """Write single files of a source, such as "net/sched/sch_dualpi2.c", into a folder by their base names."""
    out = []
    for name in wanted:
        contents = _read(tarball, name)
        if contents is None:
            raise KernelError(f"{tarball.name} has no file {name}. Name it from the source's top: net/ipv4/tcp_cubic.c")
        target = into / Path(name).name
        try:
            into.mkdir(parents=True, exist_ok=True)
            with replaced(target) as partial:
                partial.write_bytes(contents)
        except OSError as error:
            raise KernelError(f"{target}: {error.strerror}") from None
        out.append(target)
    return out


def version(tarball: Path) -> str:
    """The version of Linux of this source, such as 7.3.4."""
    return ".".join(version_of((_read(tarball, "Makefile") or b"").decode(errors="replace")))


def version_of(makefile: str) -> list[str]:
    """The version numbers in the top Makefile of a tree."""
    keys = ("VERSION", "PATCHLEVEL", "SUBLEVEL")
    parts = [re.search(rf"^{key} = *(\S+)", makefile, re.MULTILINE) for key in keys]
    return [part[1] for part in parts if part]


def _read(tarball: Path, name: str) -> bytes | None:
    """A file of a source by its path from the top; `None` if it is missing."""
    inside = f"{tarball.name.removesuffix('.tar.xz')}/{name.strip('/')}"
    said = subprocess.run(["tar", "-xOf", str(tarball), "--occurrence=1", inside], capture_output=True, check=False)
    return None if said.returncode else said.stdout


def unpack(tarball: Path, into: Path) -> None:
    """Unpack a whole source, without its top folder, into an empty folder: some 1.5 GB."""
    room = shutil.disk_usage(into).free
    if room < _UNPACKED_BYTES:
        raise KernelError(
            f"{into}: {room // 2**20:,} MB are free, and the source unpacked and built takes "
            f"{_UNPACKED_BYTES // 2**20:,} MB. Free some, or name another place: --work FOLDER"
        )
    done = subprocess.run(
        ["tar", "-xf", str(tarball), "--strip-components=1", "-C", str(into)], capture_output=True, check=False
    )
    if done.returncode:
        raise KernelError(f"{into}: {done.stderr.decode(errors='replace').strip()}")


#: Size of a Linux source with a build in a small configuration.
_UNPACKED_BYTES = 4 << 30


def _piped(first: list[str], second: list[str], out: object = subprocess.PIPE) -> bytes:
    with subprocess.Popen(first, stdout=subprocess.PIPE) as one:
        done = subprocess.run(second, stdin=one.stdout, stdout=out, stderr=subprocess.PIPE, check=False)  # type: ignore[call-overload]
    if done.returncode:
        raise KernelError(f"{first[-1]}: {done.stderr.decode(errors='replace').strip()}")
    said: bytes = done.stdout or b""
    return said
