"""A user's own kernel module: built against a guest kernel's headers, checked, and named by its digest."""

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

#: Lines of the tools' own words that are passed on where no line of the user's is named.
_MOST_LINES = 12
_FAULT = re.compile(r"^(?P<file>[^\s:]+\.[chS]):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<why>.*)$", re.MULTILINE)
_LINKING = re.compile(r"^ERROR: modpost: (?P<why>.*)$", re.MULTILINE)
#: An option of later compilers than GCC 12, and the kernel's setting that asks for it.
_LATER = {"-fmin-function-alignment=16": "CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT"}


class BuildError(TailbackError):
    """A module that cannot be built or loaded: what is wrong, and what to do."""

    def __init__(self, problem: str, fix: str) -> None:
        self.problem, self.fix = problem, fix
        super().__init__(f"{problem}. {fix}")


@dataclass(frozen=True)
class Module:
    """A built module."""

    contents: bytes

    @property
    def release(self) -> str:
        """The kernel it was built for."""
        found = re.search(rb"\0?vermagic=(\S+) ", self.contents)
        return found[1].decode(errors="replace") if found else ""

    @property
    def name(self) -> str:
        """What the kernel calls it: its file's name."""
        found = re.search(rb"(?<!\w)name=(\w+)\0", self.contents)
        return found[1].decode() if found else ""

    @property
    def parameters(self) -> dict[str, str]:
        """The types of its parameters (`module_param`) by name: "int", "charp", "array of int"."""
        found = re.findall(rb"\0?parmtype=(\w+):([\w ]+)", self.contents)
        return {name.decode(): of_type.decode() for name, of_type in sorted(found)}

    @property
    def depends(self) -> list[str]:
        """The kernel's modules that it needs."""
        found = re.search(rb"\0?depends=([\w,-]*)\0", self.contents)
        return [name.replace("-", "_") for name in found[1].decode().split(",") if name] if found else []


def build(name: str, text: str, kernel: Kernel) -> Module:
    """The module of "module:tcp_mine.c" with these files (`modules.read`), for `kernel`. `BuildError` if there is none.

    Running a Makefile runs code: the caller has allowed it.
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
        # These are links to the other kernel's files, which stay as they are.
        for other in [*place.rglob(f"{made.name}.ko*"), *partial.glob(_GIVEN)]:
            other.unlink()
        (place / f"{made.name}.ko").write_bytes(made.contents)
        (partial / _GIVEN).write_text(f"{name}\n")
    return kernels.find(called, fetched_only=True)


def _objection(folder: Path) -> str | None:
    """Why a folder of the cache may not be replaced, or None if `give` has made it."""
    return None if is_plain(folder / _GIVEN) else "no kernel with a module of yours is there"


#: The file that says that a kernel's folder was made by `give`.
_GIVEN = "module"


#: Where `struct Qdisc_ops` has its `id`, behind two pointers, and how long it is (IFNAMSIZ); then two numbers of four
#: bytes, and the pointers `enqueue` and `dequeue`, which the linker fills in.
_ID, _ID_BYTES, _POINTERS = 16, 16, (40, 48)
_IS_ID = re.compile(rb"([A-Za-z][\w.+-]*)\0+")


def queue_of(name: str, module: Module) -> str:
    """The name of the queue discipline that a module registers, its `.id`. `BuildError` unless it is one."""
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


#: Types of a parameter that the kernel reads as a whole number.
_WHOLE = frozenset({"byte", "hexint", "short", "ushort", "int", "uint", "long", "ulong", "ullong"})


def parameters(name: str, module: Module, given: Mapping[str, Any]) -> str:
    """The words the kernel loads it with: "window=20". `BuildError` for what the module does not take."""
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
        # Type information of modules needs the kernel's whole image, which headers do not have.
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
    """The first error, at the user's line."""
    named = name.removeprefix(modules.PREFIX)
    if found := _FAULT.search(said):
        # A folder's files are named below it; a single file is the user's own.
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
    """The compiler the kernel was built with, if it is here; else gcc."""
    file = tree / ".kernelvariables"
    found = re.search(r"\bgcc-\d+", file.read_text()) if file.is_file() else None
    return found[0] if found and shutil.which(found[0]) else "gcc"


@functools.cache
def _knows(compiler: str, option: str) -> bool:
    words = [compiler, option, "-E", "-x", "c", os.devnull]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0
