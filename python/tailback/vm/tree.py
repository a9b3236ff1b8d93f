"""A kernel from source: a tree, or Debian's source with a series of patches, built small enough for a guest.

The configuration is `make allnoconfig` with `guest.config`. The build lies in the cache beside the fetched kernels, the
tree stays as it is, and a second build compiles what changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tailback.files import is_plain
from tailback.vm import linux_source
from tailback.vm.debian import KernelError
from tailback.vm.kernels import Kernel, cache, find

__all__ = ["build", "patch", "series"]

Say = Callable[[str], object]

_CONFIG = Path(__file__).parent / "guest.config"
#: In a build's folder: the tree it is of.
_OF = "tree"
_LOG = "build.log"
#: What a build needs, with Debian's package of it. pahole makes the type information that guests need.
_TOOLS = {"make": "make", "gcc": "gcc", "flex": "flex", "bison": "bison", "bc": "bc", "pahole": "pahole"}
_ROOM = 3 << 30
#: Processor time of a first build, in seconds, and of one after a change of one file: for the announcement alone.
_COLD_S, _WARM_S = 1200, 60
_FAULT = re.compile(r"^(?P<file>[^\s:]+\.[chS]):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<why>.*)$", re.MULTILINE)
_NO_ROOM = "No space left on device"


def build(tree: Path, *, name: str | None = None, say: Say = lambda _: None) -> Kernel:
    """Build the kernel of a tree for guests; `name` is what `--kernel` takes, by default "tree-" and the folder's name.

    `KernelError` says what is missing, or where the tree does not compile.
    """
    tree = tree.absolute()
    version = _version(tree)
    _demand_tools()
    name = name or f"tree-{tree.name}"
    if not re.fullmatch(r"[\w][\w.+-]*", name) or name.startswith("debian-"):
        raise KernelError(
            f'"{name}" is no name for a kernel of your own. Use letters, digits, "." and "-": --name mine'
        )
    target = cache() / name
    is_first = not (target / "vmlinux").is_file()
    try:
        _take(target, tree, name)
        room = shutil.disk_usage(target).free
        if is_first and room < _ROOM:
            raise KernelError(
                f"{target}: {room >> 20:,} MB are free, and a build takes {_ROOM >> 20:,} MB. Free some, or name "
                "another place in XDG_CACHE_HOME"
            )
    except OSError as error:
        raise KernelError(f"{target}: {error.strerror}. Kernels are built there") from None
    cores = len(os.sched_getaffinity(0))
    cost = (_COLD_S if is_first else _WARM_S) / cores
    with_ccache = "with ccache" if shutil.which("ccache") else "without ccache, which makes later builds faster"
    say(
        f"Linux {version} on {cores} cores, {with_ccache}: about {_minutes(cost)} if they are idle"
        + ("" if is_first else ", if few files changed")
    )
    began = time.monotonic()
    compiler = _compiler()
    # An earlier image is not this tree's: if the build fails there is none.
    (target / "arch/x86/boot/bzImage").unlink(missing_ok=True)
    if not (target / ".config").is_file() or (target / "config-of").read_text() != _digest():
        _make(tree, target, [f"KCONFIG_ALLCONFIG={_CONFIG}", "allnoconfig"], compiler)
        (target / "config-of").write_text(_digest())
    else:
        _make(tree, target, ["olddefconfig"], compiler)
    _make(tree, target, [f"-j{cores}", "bzImage", "modules"], compiler)
    kernel = find(name)
    say(f"{name}: {kernel.release}, built in {_minutes(time.monotonic() - began)}")
    return kernel


def patch(given: Path, on: str, *, name: str | None = None, say: Say = lambda _: None) -> Kernel:
    """Build Debian's source `on` ("linux-source-7.3") with the patches `given`: a file, or a folder (`series`).

    The source is unpacked once; another series changes what differs, so that little is compiled again.
    """
    patches = series(given)
    tarball = linux_source.fetch(on)
    _demand_tools()
    if shutil.which("patch") is None:
        raise KernelError("patch is not installed; it applies the series. Install it: apt-get install patch")
    tree = cache() / f".source-of-{tarball.name.removesuffix('.tar.xz').removeprefix('linux-source-')}"
    kept = tree.with_name(f"{tree.name}-patches")
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
        (tree / ".unpacked").touch()
    kept.mkdir(exist_ok=True)
    for number, (title, contents) in enumerate(patches):
        said = _patched(tree, contents, "--dry-run")
        if said is not None:
            _reversed(tree, kept)
            raise KernelError(
                f"{title} does not apply to {on}: {said}. Take a series for this version, or refresh it against the "
                "source"
            )
        _patched(tree, contents)
        (kept / f"{number:04}").write_bytes(contents)
        say(f"applied {title}")
    return build(tree, name=name or f"patched-{on.removeprefix('linux-source-')}", say=say)


def series(given: Path) -> list[tuple[str, bytes]]:
    """The patches of a file, or of a folder in order: as its file `series` has them, or by name. With their names."""
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
    """The version in a tree's Makefile; `KernelError` for what is no tree, or cannot be built beside."""
    makefile = tree / "Makefile"
    text = makefile.read_text(errors="replace") if is_plain(makefile) else ""
    parts = [re.search(rf"^{key} = *(\S+)", text, re.MULTILINE) for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
    if not all(parts[:2]) or not (tree / "arch/x86/Makefile").is_file():
        raise KernelError(f"{tree} is no tree of Linux: it lacks Makefile or arch/x86. Give the folder of a clone")
    if (tree / ".config").exists() or (tree / "include/config").exists():
        raise KernelError(
            f"{tree} was configured or built in place, which may be half done. Run its kernel as it is "
            f"(--kernel {tree}), or clean it: make mrproper"
        )
    return ".".join(part[1] for part in parts if part)


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


def _take(target: Path, tree: Path, name: str) -> None:
    """Make the folder of a build, or see that it is this tree's."""
    note = target / _OF
    if target.is_dir() and any(target.iterdir()):
        of = note.read_text() if is_plain(note) else "something else"
        if of != str(tree):
            raise KernelError(f"{name} is a build of {of}. Give this one another name: --name tree-mine")
    target.mkdir(parents=True, exist_ok=True)
    note.write_text(str(tree))


def _digest() -> str:
    return hashlib.sha256(_CONFIG.read_bytes()).hexdigest()


def _compiler() -> str:
    return "ccache gcc" if shutil.which("ccache") else "gcc"


def _make(tree: Path, target: Path, words: Sequence[str], compiler: str) -> None:
    # Neither the machine's name nor the time is part of a kernel: the same tree gives the same image.
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
        raise KernelError(_fault(log.read_text(errors="replace"), tree, target))


def _environment() -> dict[str, str]:
    # A caller's own flags would build another kernel.
    return {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "KBUILD_OUTPUT", "ARCH")}


def _fault(said: str, tree: Path, target: Path) -> str:
    """Why a build failed: no room, the first error at its line, or the last lines of the log."""
    log = target / _LOG
    if _NO_ROOM in said:
        return f"{target}: the disk is full. What was compiled is kept: free {_ROOM >> 20:,} MB and run it again"
    if found := _FAULT.search(said):
        # The compiler names files from the build's folder or from the tree.
        file = found["file"].removeprefix(f"{tree}/").removeprefix("../")
        return f"{tree}: it does not compile: {file}:{found['line']}: {found['why']}. Correct that line (log: {log})"
    last = "\n".join(f"    {line}" for line in said.strip().splitlines()[-8:])
    return f"{tree}: it cannot be built:\n{last}\nThe whole log: {log}"


def _is_unpacked(tree: Path) -> bool:
    return (tree / ".unpacked").is_file()


def _reversed(tree: Path, kept: Path) -> bool:
    """Take the patches out of a source that were applied last; False if that fails and it is to be unpacked again."""
    for file in sorted(kept.iterdir(), reverse=True) if kept.is_dir() else ():
        if _patched(tree, file.read_bytes(), "--reverse") is not None:
            return False
        file.unlink()
    return True


def _patched(tree: Path, contents: bytes, *more: str) -> str | None:
    """Apply a patch; `None`, or the first of what `patch` says against it."""
    words = ["patch", "-p1", "--batch", "--forward" if "--reverse" not in more else "--reverse", "--fuzz=2"]
    words += [word for word in more if word != "--reverse"]
    # No rejects or copies stay in the source.
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
