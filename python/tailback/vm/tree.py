"""Builds a kernel from source: a tree, or Debian's source with patches, small enough for a guest.

The configuration is `make allnoconfig` with `guest.config`. The build is in the cache beside the fetched kernels. The
tree is not changed, and a second build compiles only what changed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tailback.files import is_plain, try_lock
from tailback.git import git
from tailback.vm import linux_source
from tailback.vm.debian import KernelError
from tailback.vm.kernels import BUILT_OF, Kernel, built, cache

__all__ = ["BuildFault", "Patch", "build", "compiled", "held", "patch", "patched", "series", "source"]

Say = Callable[[str], object]
#: A patch's name and its contents.
Patch = tuple[str, bytes]


class BuildFault(KernelError):
    """A tree that does not compile, or whose kernel guests cannot run; a search continues without it."""


_CONFIG = Path(__file__).parent / "guest.config"
#: File in a build's folder that names its source tree.
_OF = "tree"
_LOG = "build.log"
#: Tools that a build needs, with their Debian packages. pahole generates the BTF that guests need.
_TOOLS = {"make": "make", "gcc": "gcc", "flex": "flex", "bison": "bison", "bc": "bc", "pahole": "pahole"}
_ROOM = 3 << 30
#: Processor time in seconds of a first build and of one after a change of one file; used only for the announcement.
_COLD_S, _WARM_S = 840, 30
_FAULT = re.compile(r"^(?P<file>[^\s:]+\.[chS]):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<why>.*)$", re.MULTILINE)
_NO_ROOM = "No space left on device"


def build(tree: Path, *, name: str | None = None, say: Say = lambda _: None) -> Kernel:
    """Build a tree's kernel for guests; `name` is its name for `--kernel`, by default "tree-" and the folder's name.

    Raises `KernelError` with the missing tool, or with the place where the tree does not compile.
    """
    tree = tree.absolute()
    name = name or f"tree-{tree.name}"
    _version(tree)
    _demand_name(name)
    return compiled(tree, cache() / name, say=say)


def patch(given: Path, on: str, *, name: str | None = None, say: Say = lambda _: None) -> Kernel:
    """Build Debian's source `on` ("linux-source-7.3") with the patches `given`: a file, or a folder (`series`).

    The source is unpacked once; another series changes only the files that differ, so that little is compiled again.
    """
    patches = series(given)
    name = name or f"patched-{on.removeprefix('linux-source-')}"
    _demand_name(name)
    with patched(patches, on, say=say) as tree:
        return compiled(tree, cache() / name, patches, say=say)


@contextlib.contextmanager
def patched(patches: Sequence[Patch], on: str, *, say: Say = lambda _: None) -> Iterator[Path]:
    """Debian's source tree `on` with exactly these patches, locked against other processes.

    `KernelError` if one of them does not apply.
    """
    tarball = linux_source.fetch(on)
    _demand_tools()
    if shutil.which("patch") is None:
        raise KernelError("patch is not installed; it applies the series. Install it: apt-get install patch")
    tree = cache() / f".source-of-{tarball.name.removesuffix('.tar.xz').removeprefix('linux-source-')}"
    kept = tree.with_name(f"{tree.name}-patches")
    with held(tree, f"{on} is being built"), _room(tree):
        if not _is_unpacked(tree) or not _reversed(tree, kept):
            say(f"unpacking {tarball.name}")
            shutil.rmtree(tree, ignore_errors=True)
            shutil.rmtree(kept, ignore_errors=True)
            tree.mkdir(parents=True)
            try:
                linux_source.unpack(tarball, tree)
            except KernelError:
                shutil.rmtree(tree, ignore_errors=True)
                raise
            _unpacked_mark(tree).touch()
        kept.mkdir(exist_ok=True)
        for number, (title, contents) in enumerate(patches):
            said = _patched(tree, contents, "--dry-run")
            if said is not None:
                _reversed(tree, kept)
                raise KernelError(
                    f"{title} does not apply to {on}: {said}. Take a series for this version, or refresh it against "
                    "the source"
                )
            (kept / f"{number:04}").write_bytes(contents)
            if (said := _patched(tree, contents)) is not None:
                # It may be half unpacked.
                _unpacked_mark(tree).unlink()
                raise KernelError(f"{title} cannot be applied: {said}. Run it again")
            say(f"applied {title}")
        yield tree


def compiled(tree: Path, target: Path, patches: Sequence[Patch] = (), *, say: Say = lambda _: None) -> Kernel:
    """Compile a tree's kernel in the cache folder `target`, reusing what an earlier call compiled there."""
    version = _version(tree)
    _demand_tools()
    with _room(target), held(target, f"{target.name} is being built"):
        _take(target, tree)
        is_first = not (target / "vmlinux").is_file()
        if is_first and (room := shutil.disk_usage(target).free) < _ROOM:
            raise KernelError(
                f"{target}: {room >> 20:,} MB are free, and a build takes {_ROOM >> 20:,} MB. Free some, or name "
                "another place in XDG_CACHE_HOME"
            )
        cores = len(os.sched_getaffinity(0))
        cost = (_COLD_S if is_first else _WARM_S) / cores
        with_ccache = "with ccache" if shutil.which("ccache") else "without ccache, which makes later builds faster"
        say(
            f"Linux {version} on {cores} cores, {with_ccache}: about {_minutes(cost)} if they are idle"
            + ("" if is_first else ", if few files changed")
        )
        began = time.monotonic()
        compiler = _compiler()
        # Remove an earlier image, so that none is left if the build fails.
        (target / "arch/x86/boot/bzImage").unlink(missing_ok=True)
        (target / BUILT_OF).unlink(missing_ok=True)
        if not (target / ".config").is_file() or (target / "config-of").read_text() != _digest():
            _make(tree, target, [f"KCONFIG_ALLCONFIG={_CONFIG}", "allnoconfig"], compiler)
            (target / "config-of").write_text(_digest())
        else:
            _make(tree, target, ["olddefconfig"], compiler)
        _make(tree, target, [f"-j{cores}", "bzImage", "modules"], compiler)
        about = _about(tree, target, version, patches)
        (target / BUILT_OF).write_text(json.dumps(about, indent=2) + "\n")
    try:
        kernel = built(target)
    except KernelError as error:
        raise BuildFault(str(error)) from None
    say(f"{target.name}: {kernel.release}, built in {_minutes(time.monotonic() - began)}")
    return kernel


def _about(tree: Path, target: Path, version: str, patches: Sequence[Patch]) -> dict[str, Any]:
    """Description of the source for results: tree, commit, patches, and a digest of all files that were read."""
    about: dict[str, Any] = {"tree": tree.name.lstrip("."), "version": version, "sha256": _sources(tree, target)}
    if patches:
        about["patches"] = [{"name": name, "sha256": _sha256(contents)} for name, contents in patches]
    if (tree / ".git").exists() and (commit := git(tree, "rev-parse", "HEAD")) is not None:
        changed = git(tree, "status", "--porcelain=v1", "--untracked-files=no") or ""
        about |= {"commit": commit, "changed_files": len(changed.splitlines())}
    return about


def _sources(tree: Path, target: Path) -> str:
    """Digest of the tree's files that the compiler read, which kbuild lists beside each object."""
    inside = re.compile(rb"(?<=[\s(])" + re.escape(os.fsencode(tree)) + rb"/([^\s()]+)")
    names: set[bytes] = set()
    for noted in target.rglob(".*.cmd"):
        names.update(inside.findall(noted.read_bytes()))
    files = sorted(name for name in names if (tree / os.fsdecode(name)).is_file())
    hasher = hashlib.sha256()
    for name in files:
        hasher.update(name + b"\0" + hashlib.sha256((tree / os.fsdecode(name)).read_bytes()).digest())
    return hasher.hexdigest()


def _sha256(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()


def _demand_name(name: str) -> None:
    if not re.fullmatch(r"[\w][\w.+-]*", name) or name.startswith("debian-"):
        raise KernelError(
            f'"{name}" is no name for a kernel of your own. Use letters, digits, "." and "-": --name mine'
        )


@contextlib.contextmanager
def _room(place: Path) -> Iterator[None]:
    """Turn a file error below `place`, such as a full disk, into a `KernelError` that names it."""
    try:
        yield
    except OSError as error:
        fix = f"Free {_ROOM >> 20:,} MB and run it again" if error.errno == errno.ENOSPC else "Kernels are built there"
        raise KernelError(f"{place}: {error.strerror}. {fix}") from None


@contextlib.contextmanager
def held(place: Path, doing: str) -> Iterator[None]:
    """Lock a folder of the cache for this process."""
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_name(f".{place.name.lstrip('.')}-lock")
    with beside.open("wb") as file:
        if not try_lock(file.fileno()):
            raise KernelError(f"{doing} by another process. Wait for it, or stop it")
        yield


def source(name: str, files: Sequence[str], into: Path) -> tuple[str, list[Path]]:
    """Write files of Debian's source of Linux ("linux-source-7.3") into a folder, by their last names.

    Also returns the version of Linux that they are of.
    """
    tarball = linux_source.fetch(name)
    written = linux_source.extract(tarball, files, into)
    return linux_source.version(tarball), written


def series(given: Path) -> list[Patch]:
    """The patches of a file, or of a folder in the order of its file `series` or else by name; with their names."""
    if given.is_dir():
        listed = given / "series"
        if listed.is_file():
            names = [line.split("#")[0].split() for line in listed.read_text().splitlines()]
            files = [given / words[0] for words in names if words]
        else:
            files = sorted(path for path in given.iterdir() if path.suffix in (".patch", ".diff", ".eml"))
        if not files:
            raise KernelError(f"{given} holds no patch: no file series, and no .patch or .diff")
    else:
        files = [given]
    out = []
    for file in files:
        try:
            contents = file.read_bytes()
        except OSError as error:
            raise KernelError(f"{file} cannot be read: {error.strerror}") from None
        if not re.search(rb"^--- .*\n\+\+\+ ", contents, re.MULTILINE):
            raise KernelError(f"{file} is no patch: it has no lines --- and +++. Write one with git format-patch")
        out.append((file.name, contents))
    return out


def _version(tree: Path) -> str:
    """The version in a tree's Makefile; `KernelError` if it is not a Linux tree or was built in place."""
    makefile = tree / "Makefile"
    text = makefile.read_text(errors="replace") if is_plain(makefile) else ""
    parts = linux_source.version_of(text)
    if len(parts) < 2 or not (tree / "arch/x86/Makefile").is_file():
        raise KernelError(f"{tree} is no tree of Linux: it lacks Makefile or arch/x86. Give the folder of a clone")
    if (tree / ".config").exists() or (tree / "include/config").exists():
        raise KernelError(
            f"{tree} was configured or built in place, which may be half done. Run its kernel as it is "
            f"(--kernel {tree}), or clean it: make mrproper"
        )
    return ".".join(parts)


def _demand_tools() -> None:
    lacking = [package for tool, package in _TOOLS.items() if shutil.which(tool) is None]
    if shutil.which("gcc") is not None and not _has_header("gelf.h"):
        lacking.append("libelf-dev")
    if lacking:
        btf = " (without pahole there is no BTF, and no guest runs without)" if "pahole" in lacking else ""
        raise KernelError(
            f"a kernel's build needs {', '.join(lacking)}{btf}. Install: apt-get install {' '.join(lacking)}"
        )


def _has_header(name: str) -> bool:
    words = ["gcc", "-E", "-x", "c", "-"]
    done = subprocess.run(words, input=f"#include <{name}>\n".encode(), capture_output=True, check=False)
    return done.returncode == 0


def _take(target: Path, tree: Path) -> None:
    """Create a build's folder, or check that it belongs to this tree."""
    note = target / _OF
    if target.is_dir() and any(target.iterdir()):
        of = note.read_text() if is_plain(note) else "something else"
        if of != str(tree):
            raise KernelError(f"{target.name} is a build of {of}. Give this one another name: --name tree-mine")
    target.mkdir(parents=True, exist_ok=True)
    note.write_text(str(tree))


def _digest() -> str:
    return _sha256(_CONFIG.read_bytes())


def _compiler() -> str:
    return "ccache gcc" if shutil.which("ccache") else "gcc"


def _make(tree: Path, target: Path, words: Sequence[str], compiler: str) -> None:
    # Host name and time are fixed, so that the same tree gives the same image.
    fixed = {"KBUILD_BUILD_USER": "tailback", "KBUILD_BUILD_HOST": "guest", "KBUILD_BUILD_VERSION": "1"}
    fixed["KBUILD_BUILD_TIMESTAMP"] = "2020-01-01"
    log = target / _LOG
    with log.open("wb") as out:
        done = subprocess.run(
            ["make", "-s", "-C", str(tree), f"O={target}", f"CC={compiler}", *words],
            env=_environment() | fixed | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        raise _fault(log.read_text(errors="replace"), tree, target)


def _environment() -> dict[str, str]:
    # The caller's compiler flags would change the kernel.
    own = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "KBUILD_OUTPUT", "ARCH")}
    # Builds of one tree in two folders share ccache entries.
    return own | {"CCACHE_NOHASHDIR": "1"}


def _fault(said: str, tree: Path, target: Path) -> KernelError:
    """Why a build failed: a full disk, the first error with its line, or the end of the log."""
    log = target / _LOG
    if _NO_ROOM in said:
        return KernelError(
            f"{target}: the disk is full. What was compiled is kept: free {_ROOM >> 20:,} MB and run it again"
        )
    if found := _FAULT.search(said):
        # The compiler's paths are relative to the build folder or to the tree.
        file = found["file"].removeprefix(f"{tree}/").removeprefix("../")
        at = f"{file}:{found['line']}: {found['why']}"
        return BuildFault(f"{tree}: it does not compile: {at}. Correct that line (log: {log})")
    last = "\n".join(f"    {line}" for line in said.strip().splitlines()[-8:])
    return BuildFault(f"{tree}: it cannot be built:\n{last}\nThe whole log: {log}")


def _unpacked_mark(tree: Path) -> Path:
    return tree / ".unpacked"


def _is_unpacked(tree: Path) -> bool:
    return _unpacked_mark(tree).is_file()


def _reversed(tree: Path, kept: Path) -> bool:
    """Undo the previously applied patches; False if that fails and the source must be unpacked again."""
    for file in sorted(kept.iterdir(), reverse=True) if kept.is_dir() else ():
        if _patched(tree, file.read_bytes(), "--reverse") is not None:
            return False
        file.unlink()
    return True


def _patched(tree: Path, contents: bytes, *more: str) -> str | None:
    """Apply a patch; returns `None`, or the first complaint of `patch`."""
    words = ["patch", "-p1", "--batch", "--forward" if "--reverse" not in more else "--reverse", "--fuzz=2"]
    words += [word for word in more if word != "--reverse"]
    # Leave no reject or backup files in the source.
    words += ["--reject-file=-", "--no-backup-if-mismatch", "-d", str(tree)]
    done = subprocess.run(words, input=contents, capture_output=True, check=False, env=os.environ | {"LC_ALL": "C"})
    if done.returncode == 0:
        return None
    lines = done.stdout.decode(errors="replace").splitlines()
    file = next((line.partition("file ")[2] for line in lines if "FAILED" not in line and "file " in line), "")
    said = next(
        (line for line in lines if "FAILED" in line or "can't find file" in line or "already exists" in line), ""
    )
    if "Reversed (or previously applied)" in " ".join(lines):
        said = "it is applied there already"
    return ", ".join(part for part in (file, said.strip()) if part) or "patch refuses it"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
