"""Builds a user's kernel module against a guest kernel's headers, checks it, and identifies it by its digest."""

from __future__ import annotations

import functools
import io
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from tailback import modules
from tailback.errors import TailbackError, nearest
from tailback.files import is_plain, whole_folder
from tailback.vm import headers, kernels
from tailback.vm.kernels import Kernel, KernelError

__all__ = ["BuildError", "Module", "build", "give", "parameters", "queue_of"]

#: Number of the tools' output lines to show if no line of the user's source is named.
_MOST_LINES = 12
_FAULT = re.compile(r"^(?P<file>[^\s:]+\.[chS]):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<why>.*)$", re.MULTILINE)
_LINKING = re.compile(r"^ERROR: modpost: (?P<why>.*)$", re.MULTILINE)
#: A compiler option that GCC 12 lacks, and the kernel setting that requires it.
_LATER = {"-fmin-function-alignment=16": "CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT"}


class BuildError(TailbackError):
    """A module that cannot be built or loaded, with the problem and the fix."""

    def __init__(self, problem: str, fix: str) -> None:
        self.problem, self.fix = problem, fix
        super().__init__(f"{problem}. {fix}")


@dataclass(frozen=True)
class Module:
    """A built module."""

    contents: bytes

    @property
    def release(self) -> str:
        """Release of the kernel that it was built for."""
        found = re.search(rb"\0?vermagic=(\S+) ", self.contents)
        return found[1].decode(errors="replace") if found else ""

    @property
    def name(self) -> str:
        """The kernel's name for it: the name of its file."""
        found = re.search(rb"(?<!\w)name=(\w+)\0", self.contents)
        return found[1].decode() if found else ""

    @property
    def parameters(self) -> dict[str, str]:
        """Types of its parameters (`module_param`) by name: "int", "charp", "array of int"."""
        found = re.findall(rb"\0?parmtype=(\w+):([\w ]+)", self.contents)
        return {name.decode(): of_type.decode() for name, of_type in sorted(found)}

    @property
    def depends(self) -> list[str]:
        """Names of the kernel modules that it needs."""
        found = re.search(rb"\0?depends=([\w,-]*)\0", self.contents)
        return [name.replace("-", "_") for name in found[1].decode().split(",") if name] if found else []


def build(name: str, text: str, kernel: Kernel) -> Module:
    """Build "module:tcp_mine.c" from these files (`modules.read`) for `kernel`; `BuildError` if that fails.

    A Makefile can run any code, so the caller must have allowed it.
    """
    given = modules.files(text)
    built = [content for file, content in given.items() if file.endswith(".ko")]
    made = Module(built[0] if built else _compiled(name, text, kernel.release, headers.of_kernel(kernel)))
    if made.release != kernel.release:
        found = f"it was built for Linux {made.release}" if made.release else "it is no kernel module"
        fix = f"Build it for {kernel.release}, or give its source: module:tcp_mine.c"
        raise BuildError(f"{found}, and {kernel.name} is {kernel.release}", fix)
    return made


def give(name: str, folder: Path | None, to: Kernel, *, called: str | None = None) -> Kernel:
    """A copy of a fetched kernel, in the cache too, with "module:tcp_mine.c" in the place of its own of that name.

    It is called `called`, or after both. `BuildError` if the module cannot be built, `KernelError` if the kernel was
    not fetched or the name will not do.
    """
    source = kernels.cache() / to.name
    if not to.modules.is_relative_to(source):
        raise KernelError(f"{to.name} was not fetched: tailback vm fetch debian-7.3")
    made = build(name, modules.read(name, folder), to)
    called = called or f"{to.name}-with-{made.name}"
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", called):
        raise KernelError(f'"{called}" is no name for a kernel. Write letters, digits, and . + - _')
    with whole_folder(kernels.cache() / called, _objection) as partial:
        shutil.copytree(source, partial, copy_function=os.link, dirs_exist_ok=True)
        place = partial / to.modules.relative_to(source)
        # The copies are links to the other kernel's files, which must not change.
        for other in [*place.rglob(f"{made.name}.ko*"), *partial.glob(_GIVEN)]:
            other.unlink()
        (place / f"{made.name}.ko").write_bytes(made.contents)
        (partial / _GIVEN).write_text(f"{name}\n")
    return kernels.find(called, fetched_only=True)


def _objection(folder: Path) -> str | None:
    """Why a folder of the cache may not be replaced; None if `give` made it."""
    return None if is_plain(folder / _GIVEN) else "no kernel with a module of yours is there"


#: File that marks a kernel's folder as made by `give`.
_GIVEN = "module"


#: Layout of `struct Qdisc_ops`: offset of `id` after two pointers, and its size (IFNAMSIZ); then, after two 32-bit
#: numbers, the offsets of the pointers `enqueue` and `dequeue`, which the linker fills in.
_ID, _ID_BYTES, _POINTERS = 16, 16, (40, 48)
_IS_ID = re.compile(rb"([A-Za-z][\w.+-]*)\0+")


def queue_of(name: str, module: Module) -> str:
    """The `.id` of the queue discipline that a module registers; `BuildError` unless it registers exactly one."""
    found, imports = set(), set()
    try:
        file = ELFFile(io.BytesIO(module.contents))
        table = file.get_section_by_name(".symtab")
        for symbol in table.iter_symbols() if isinstance(table, SymbolTableSection) else ():
            place = symbol["st_shndx"]
            if place == "SHN_UNDEF":
                imports.add(symbol.name)
            elif symbol["st_info"]["type"] == "STT_OBJECT" and isinstance(place, int):
                section = file.get_section(place)
                if section["sh_type"] == "SHT_PROGBITS":
                    start = symbol["st_value"]
                    data = section.data()[start : start + symbol["st_size"]]
                    links = file.get_section_by_name(f".rela{section.name}")
                    if not isinstance(links, RelocationSection):
                        continue
                    filled = {link["r_offset"] - start for link in links.iter_relocations()}
                    is_id = _IS_ID.fullmatch(data[_ID : _ID + _ID_BYTES])
                    if is_id and filled.issuperset(_POINTERS):
                        found.add(is_id[1].decode())
    except ELFError as error:
        raise BuildError(f"{name} is no kernel module: {error}", "Build it again from its source") from None
    if "register_qdisc" not in imports:
        raise BuildError(
            f"{name} registers no queue discipline", "Call register_qdisc in its init function, or name it as cc"
        )
    if len(found) != 1:
        names = ", ".join(sorted(found)) or "none with an .id"
        raise BuildError(
            f"{name} has {len(found)} queue disciplines ({names})", "Put one static struct Qdisc_ops in each module"
        )
    return found.pop()


#: Parameter types that the kernel reads as integers.
_WHOLE = frozenset({"byte", "hexint", "short", "ushort", "int", "uint", "long", "ulong", "ullong"})


def parameters(name: str, module: Module, given: Mapping[str, Any]) -> str:
    """Arguments for loading the module, such as "window=20"; `BuildError` for what the module does not take."""
    words = []
    for key, value in given.items():
        if key not in module.parameters:
            close = nearest(key, module.parameters)
            hint = f'Did you mean "{close}"? ' if close else ""
            known = ", ".join(module.parameters) or "none: make one with module_param(window, int, 0644)"
            raise BuildError(f"{name} has no parameter {key}", f"{hint}Its parameters are: {known}")
        number = int(value) if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()) else value
        if re.search(r"\s", str(number)):
            raise BuildError(f"{key} = {value!r} has a space in it", "Write a number or one word")
        if module.parameters[key] in _WHOLE and isinstance(number, float):
            problem = f"{key} = {value!r} is no whole number, and the module declares {module.parameters[key]}"
            raise BuildError(problem, "Write a whole number")
        words.append(f"{key}={number}")
    return " ".join(words)


@functools.lru_cache(maxsize=64)
def _compiled(name: str, text: str, release: str, tree: Path) -> bytes:
    for tool in ("make", "gcc"):
        if shutil.which(tool) is None:
            raise BuildError(
                f"{tool} is not installed; it builds kernel modules", "Install it: apt-get install gcc make"
            )
    given = modules.files(text)
    with tempfile.TemporaryDirectory(prefix="tailback-module-") as made:
        folder = Path(made)
        for file, content in given.items():
            place = folder / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        if not ((folder / "Makefile").exists() or (folder / "Kbuild").exists()):
            (only,) = given
            (folder / "Makefile").write_text(f"obj-m := {Path(only).stem}.o\n")
        own = _own_compiler(tree)
        # BTF for modules needs the kernel's whole image, which the headers do not contain.
        settings = ["CONFIG_DEBUG_INFO_BTF_MODULES=", f"CC={own}", "CROSS_COMPILE="]
        settings += [f"{name}=" for option, name in _LATER.items() if not _knows(own, option)]
        done = subprocess.run(
            ["make", "--no-print-directory", "-C", str(tree), f"M={folder}", *settings, "modules"],
            env=os.environ | {"LC_ALL": "C", "PWD": str(tree)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            raise _fault(name, release, done.stderr.replace(f"{folder}/", ""))
        found = sorted(folder.rglob("*.ko"))
        if len(found) != 1:
            names = ", ".join(file.name for file in found) or "none"
            raise BuildError(
                f"{name}: make builds {len(found)} modules ({names})", "Build one module: obj-m := tcp_mine.o"
            )
        if shutil.which("strip") is not None:
            subprocess.run(["strip", "--strip-debug", str(found[0])], check=False)
        return found[0].read_bytes()


def _fault(name: str, release: str, said: str) -> BuildError:
    """The first compiler error, with its line in the user's source."""
    named = name.removeprefix(modules.PREFIX)
    if found := _FAULT.search(said):
        # Files of a folder are named relative to it; a single file has the user's name.
        beside = Path(named).parent if named.endswith(".c") else Path(named)
        place = found["file"] if found["file"].startswith("/") else str(beside / found["file"])
        why = f"it does not compile for Linux {release}: {place}:{found['line']}: {found['why']}"
        return BuildError(why, "Correct that line")
    if found := _LINKING.search(said):
        why = f"it does not link for Linux {release}: {found['why']}"
        return BuildError(why, "Use functions that this kernel exports to modules")
    last = "\n".join(f"    {line}" for line in said.strip().splitlines()[-_MOST_LINES:])
    return BuildError(f"it cannot be built for Linux {release}:\n{last}\n", "Build it with make in its folder first")


@functools.cache
def _own_compiler(tree: Path) -> str:
    """The compiler that built the kernel if it is installed; else gcc."""
    file = tree / ".kernelvariables"
    found = re.search(r"\bgcc-\d+", file.read_text()) if file.is_file() else None
    return found[0] if found and shutil.which(found[0]) else "gcc"


@functools.cache
def _knows(compiler: str, option: str) -> bool:
    words = [compiler, option, "-E", "-x", "c", os.devnull]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0
