"""Collects the programs of `exec` flows for a guest, each with every file it loads.

No program is run here. What a program loads is read from its file: its interpreter and shared libraries from ELF
headers (elf(5), ld.so(8)), a script's interpreter from its first line (execve(2)).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from tailback import _core, registry
from tailback.vm import images
from tailback.vm.archive import Entry

if TYPE_CHECKING:
    from tailback.scenario import Scenario

__all__ = ["HERE", "IMAGE", "MODULE", "Programs", "gather"]

#: Prefix in `files` of a container image, which becomes the guest's root file system.
IMAGE = "image:"
#: Prefix in `files` of a kernel module to load before the programs start.
MODULE = "kernel:"

#: Path of the scenario's folder in every guest.
HERE = "/here"
#: Modification time of all files in that folder: 1 January 2020, the guest's date.
COPIED = 1_577_836_800
#: Limit on the files in MiB. A guest has 2 GiB; its root file system takes at most half of what the archive leaves,
#: which is 640 MiB with the kernel's own memory, and a kernel that finds no room panics.
MOST_MB = 600
#: Largest file in MB that a program may write.
LARGEST_FILE_MB = 256
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENVIRONMENT = {"HOME": "/root", "LANG": "C.UTF-8", "PATH": _PATH, "TMPDIR": "/tmp", "TZ": "UTC", "USER": "root"}
#: The loader's default folders: Debian's, and those of other distributions.
_LIBRARIES = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
_LOADER = "/lib64/ld-linux-x86-64.so.2"
#: Common tools of shell scripts; those installed here are added with every shell script.
_TOOLS = (  # noqa: SIM905 (a list of words is read as words)
    "basename cat chmod cp cut date dd dirname echo env expr false grep head id kill ln ls mkdir mktemp mv printf "
    "readlink rm rmdir sed seq sleep sort stat tail tee test touch tr true uname uniq wc xargs"
).split()
_USERS = "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/:/bin/false\nwww-data:x:33:33::/:/bin/false\n"
_USERS += "nobody:x:65534:65534::/:/bin/false\n"
_GROUPS = "root:x:0:\ndaemon:x:1:\ntty:x:5:\nwww-data:x:33:\nnogroup:x:65534:\n"
_X86_64, _ELF = "EM_X86_64", b"\x7fELF"
#: Limit on a chain of symbolic links (path_resolution(7)).
_MOST_LINKS = 40
_FIRST_LINE = 256
#: The unit in which a guest's memory holds files.
_PAGE = 4096


#: The file of an interpreter, whose library has its name.
_PYTHON = re.compile(r"python3\.\d+")


class _Absent(Exception):
    """A needed file that is missing or unusable; the text names it and what needs it, `fix` what helps."""

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(problem)
        self.fix = fix


@dataclass(frozen=True)
class Programs:
    """The files and settings of a guest's programs."""

    #: By absolute path in the guest.
    entries: Mapping[str, Entry]
    #: Settings for the guest: environment, the path of `{here}`, and the largest file that may be written.
    surroundings: Mapping[str, Any]
    #: Whether the root file system is an image's; the guest's program then has its own loader and libraries.
    has_image: bool = False
    #: Kernel modules that the programs use, each with the field that names it.
    modules: Mapping[str, str] = field(default_factory=dict)

    def advice(self, failure: str) -> str:
        """The fix for a failure that shows which files a guest lacks, after the failure's text; else empty."""
        if "No module named 'encodings'" not in failure:
            return ""
        of_python = (PurePosixPath(path) for path in self.entries)
        places = {str(path.parent.parent / "lib" / path.name) for path in of_python if _PYTHON.fullmatch(path.name)}
        return f'. Add the interpreter\'s library: params = {{ files = "{" ".join(sorted(places))}" }}'

    @property
    def about(self) -> dict[str, Any]:
        """Summary for a result: number of files, their size in bytes and their digest."""
        digest = hashlib.sha256()
        for path, entry in sorted(self.entries.items()):
            digest.update(f"{path}\0{entry.mode:o}\0{entry.changed}\0{len(entry.contents)}\0".encode() + entry.contents)
        size = sum(len(entry.contents) for entry in self.entries.values())
        return {"files": len(self.entries), "bytes": size, "sha256": digest.hexdigest()}


def gather(scenario: Scenario, resolved: Mapping[str, Any], here: Path, libraries: Sequence[str]) -> Programs | None:
    """The programs of all flows with what they load, and `libraries`; `None` if no flow has programs.

    `resolved` is `scenario` resolved, `here` its folder. Raises `ScenarioError`, with the field, for a file that this
    machine lacks.
    """
    closure = _Closure(here.resolve())
    flows = [
        (number, flow) for number, flow in enumerate(resolved["flows"]) if registry.application(flow).runs_programs
    ]
    if not flows:
        return None
    _take_image(closure, scenario, flows)
    for number, flow in flows:
        params = flow["app"].get("params") or {}
        for name, add in _ROLES.items():
            text = str(params.get(name) or "")
            try:
                add(closure, text)
            except _Absent as error:
                fix = "Install it, or name the folder that has it in params.files" if name != "files" else "Correct it"
                at = f"flows[{number}]" + (f".app.params.{name}" if name in ("client", "server") else f".params.{name}")
                problem, fix = (closure.of_user(each) for each in (str(error), error.fix or fix))
                raise scenario.complaint(at, json.dumps(text), problem, fix) from None
    try:
        if closure.image is not None:
            closure.add_shell(closure.image)
        else:
            closure.add_program("/bin/sh")
            for library in libraries:
                closure.add(library)
    except _Absent as error:
        fix = "Install it; every guest with programs needs it"
        raise scenario.complaint("engine", '"vm"', str(error), fix) from None
    # Replaces the image's files of these names, which do not know the scenario's hosts.
    for name in ("/etc/hosts", "/etc/resolv.conf", "/etc/hostname"):
        closure.entries.pop(name, None)
    closure.text("/etc/hosts", _hosts(resolved))
    closure.text("/etc/passwd", _USERS)
    closure.text("/etc/group", _GROUPS)
    closure.text("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n")
    # Only names in `hosts` resolve, and no lookup waits for a server.
    closure.text("/etc/resolv.conf", "options timeout:1 attempts:1\n")
    closure.text("/etc/hostname", "guest\n")
    for folder in ("/root", "/var/log", "/var/tmp"):
        closure.entries.setdefault(folder, Entry.folder())
    surroundings = {
        "environment": closure.environment() | closure.search(),
        "here": HERE,
        "largest_file": LARGEST_FILE_MB << 20,
    }
    return Programs(closure.entries, surroundings, closure.image is not None, _modules(flows))


def _modules(flows: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[str, str]:
    """Kernel modules by name, each with the field that names it first."""
    out: dict[str, str] = {}
    for number, flow in flows:
        for word in str((flow["app"].get("params") or {}).get("files") or "").split():
            if word.startswith(MODULE):
                out.setdefault(word.removeprefix(MODULE), f"flows[{number}].params.files")
    return out


def _take_image(closure: _Closure, scenario: Scenario, flows: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
    """Use the image that the flows name as the root file system; a guest has at most one."""
    taken: str | None = None
    for number, flow in flows:
        text = str((flow["app"].get("params") or {}).get("files") or "")
        for word in text.split():
            if not word.startswith(IMAGE) or word == taken:
                continue
            at = f"flows[{number}].params.files"
            if taken is not None:
                fix = "Put both programs into one image, or run one of them from this machine in a run of its own"
                raise scenario.complaint(
                    at, json.dumps(word), f"the guest has one root file system, and it is {taken}", fix
                )
            taken = word
            try:
                closure.image = images.read(closure.here / word.removeprefix(IMAGE), MOST_MB << 20)
            except images.ImageError as error:
                fix = "Give an OCI layout, or what docker save or podman save wrote"
                raise scenario.complaint(at, json.dumps(word), str(error), fix) from None
            closure.entries.update(closure.image.entries)


def _hosts(resolved: Mapping[str, Any]) -> str:
    """Addresses by host name: NODE for the first program flow that ends there, `FLOW.NODE` for any end of a flow.

    A flow over IPv6 has both addresses; resolvers try IPv6 first (RFC 6724 section 2.1).
    """
    lines, known = ["127.0.0.1 localhost"], {"localhost"}
    if any(flow.get("ip") == 6 for flow in resolved["flows"]):
        lines.append("::1 localhost")
    for number, flow in enumerate(resolved["flows"]):
        if not registry.application(flow).runs_programs:
            continue
        versions = (6, 4) if flow.get("ip") == 6 else (4,)
        for end, key in enumerate(("from", "to")):
            node = str(flow[key])
            names = [name for name in (f"{flow['name']}.{node}", node) if _is_host_name(name) and name not in known]
            known.update(names)
            if names:
                lines += [" ".join([_core.flow_addresses(number, ip)[end], *names]) for ip in versions]
    return "".join(f"{line}\n" for line in lines)


def _is_host_name(name: str) -> bool:
    return name.replace(".", "").replace("-", "").isalnum() and name.isascii() and len(name) < 64


@dataclass
class _Closure:
    """Collects a guest's files, each with everything it needs."""

    here: Path
    entries: dict[str, Entry] = field(default_factory=dict)
    #: The image that is the root file system, if any; programs and libraries then come from it, not from this machine.
    image: images.Image | None = None
    _size: int = 0
    #: Library folders in the order they were found.
    _folders: dict[str, None] = field(default_factory=dict)

    def line(self, line: str) -> None:
        """Add the program of a command line, and the scenario's files that its words name."""
        words = [self._filled(word) for word in _words(line)]
        if not words:
            return
        self.add_program(words[0])
        rest = words[1:]
        if PurePosixPath(words[0]).name == "env":
            called = next((word for word in rest if "=" not in word and not word.startswith("-")), None)
            if called is not None:
                self.add_program(called)
        for word in rest:
            if word.startswith(f"{HERE}/") and self._outside(word).is_file():
                self.add(word)

    def of_user(self, text: str) -> str:
        """A text with the user's paths in place of the guest's."""
        return re.sub(rf"(?<![\w./-]){HERE}/", lambda _: f"{self.here}/", text)

    @staticmethod
    def _filled(word: str) -> str:
        return word.replace("{here}", HERE)

    def needs(self, text: str) -> None:
        """Add the programs that scripts call."""
        for word in text.split():
            self.add_program(self._filled(word))

    def files(self, text: str) -> None:
        """Add files and folders by path, relative to the scenario's folder."""
        for word in _words(text):
            if word.startswith((IMAGE, MODULE)):
                continue
            path = PurePosixPath(self._filled(word))
            if ".." in path.parts:
                raise _Absent(f"{word} leaves its folder; give the absolute path")
            self.add(str(path) if path.is_absolute() else f"{HERE}/{path}")

    def text(self, path: str, text: str) -> None:
        """Add a file with this text unless the caller has supplied one."""
        self.entries.setdefault(path, Entry(0o100644, text.encode()))

    def add_shell(self, image: images.Image) -> None:
        """Add a shell to an image that has none: each program is started through a shell."""
        if image.program("/bin/sh", ""):
            return
        lacking = ["/bin/sh"]
        if not any(image.has(f"{folder}/libc.so.6") for folder in _LIBRARIES):
            lacking.append(f"{_LIBRARIES[0]}/libc.so.6")
        if not image.has(_LOADER):
            lacking.append(_LOADER)
        for path in lacking:
            try:
                self.entries[image.place(path)] = Entry(0o100755, Path(path).read_bytes())
            except OSError as error:
                raise _Absent(f"{path}: {error.strerror}") from None

    def environment(self) -> dict[str, str]:
        """The programs' environment: an image's variables take precedence over the defaults."""
        return _ENVIRONMENT | (self.image.environment if self.image is not None else {})

    def search(self) -> dict[str, str]:
        """LD_LIBRARY_PATH for libraries outside the default folders, as a guest has no ld.so.cache."""
        further = [folder for folder in self._folders if folder not in _LIBRARIES]
        return {"LD_LIBRARY_PATH": ":".join(further)} if further else {}

    def add_program(self, word: str) -> None:
        """Add a program by its path, or by its name as a shell finds it."""
        if self.image is not None and not word.startswith(f"{HERE}/"):
            path = self.environment()["PATH"]
            if self.image.program(word, path) is None:
                raise _Absent(f"the image has no program {word} ({path})")
            return
        if "/" not in word:
            places = [Path(folder, word) for folder in _PATH.split(":")]
            found = next((place for place in places if place.is_file() and os.access(place, os.X_OK)), None)
            if found is None:
                raise _Absent(f"the program {word} is not installed here ({_PATH})")
            word = str(found)
        elif not word.startswith("/"):
            raise _Absent(f"{word} is relative to no known folder: write {{here}}/{word.removeprefix('./')}")
        if not self._outside(word).is_file():
            raise _Absent(f"the program {word} is not here")
        if not os.access(self._outside(word), os.X_OK):
            raise _Absent(f"the program {word} may not be executed", f"chmod +x {word}")
        self.add(word)
        if PurePosixPath(word).name in ("sh", "dash", "bash") and word != "/bin/sh":
            self._tools()

    def add(self, path: str) -> None:
        """Add a file with everything it loads, or a folder with its contents, by its path in the guest."""
        real = self._place(path)
        if real in self.entries:
            return
        source = self._outside(real)
        if source.is_dir():
            self.entries[real] = Entry.folder()
            for name in sorted(_names(source)):
                self._add_of_folder(f"{real}/{name}")
            return
        contents, entry = self._read(source, path)
        self.entries[real] = entry
        if self.image is not None:
            return
        if contents.startswith(_ELF):
            self._elf(source, PurePosixPath(real))
        elif contents.startswith(b"#!"):
            self._script(real, contents)

    def _add_of_folder(self, path: str) -> None:
        """Add an entry of a listed folder; skips broken links, sockets, and files whose libraries are missing."""
        source = self._outside(path)
        kind = source.stat().st_mode if source.exists() else 0
        if path.startswith(f"{HERE}/") and source.is_symlink() and stat.S_ISDIR(kind):
            # Links are replaced by their targets; skip a link to a parent folder.
            return
        if stat.S_ISREG(kind) or stat.S_ISDIR(kind):
            try:
                self.add(path)
            except _Absent:
                # A folder may have plugins for software that is not installed; the program reports if it needs them.
                if self._place(path) not in self.entries:
                    raise

    def _read(self, source: Path, path: str) -> tuple[bytes, Entry]:
        try:
            about = source.stat()
            if not stat.S_ISREG(about.st_mode):
                raise _Absent(f"{path} is neither a file nor a folder")
            self._size += -(-about.st_size // _PAGE) * _PAGE
            if self._size > MOST_MB << 20:
                raise _Absent(
                    f"with {path} the programs' files take {self._size / (1 << 20):,.0f} MB, and a guest has room for "
                    f"{MOST_MB} MB",
                    "Name fewer files or smaller folders",
                )
            contents = source.read_bytes()
        except OSError as error:
            raise _Absent(f"{path}: {error.strerror}") from None
        mode = 0o100755 if about.st_mode & 0o111 else 0o100644
        # Caches such as Python's .pyc files identify sources by time, so packages keep theirs. The times of the
        # scenario's folder only state when it was copied, and reading one takes longer or shorter depending on its
        # digits.
        changed = COPIED if source.is_relative_to(self.here) else int(about.st_mtime) & 0xFFFFFFFF
        return contents, Entry(mode, contents, changed)

    def _outside(self, path: str) -> Path:
        """The file on this machine for a path in the guest."""
        if path == HERE or path.startswith(f"{HERE}/"):
            return self.here / path[len(HERE) + 1 :]
        return Path(path)

    def _place(self, path: str) -> str:
        """The path after following symbolic links, which are added as they are on this machine."""
        done, left = PurePosixPath("/"), list(PurePosixPath(path).parts[1:])
        for _ in range(_MOST_LINKS * len(left) + 1):
            if not left:
                return str(done)
            part = left.pop(0)
            if part == "..":
                done = done.parent
                continue
            at = done / part
            source = self._outside(str(at))
            # The scenario's folder has another path in the guest, so links in it become plain files.
            if str(at).startswith(f"{HERE}/") or not source.is_symlink():
                done = at
                continue
            target = PurePosixPath(source.readlink())
            self.entries.setdefault(str(at), Entry.link(str(target)))
            if target.is_absolute():
                done, target = PurePosixPath("/"), target.relative_to("/")
            left[:0] = target.parts
        raise _Absent(f"{path} is a loop of symbolic links")

    def _script(self, path: str, contents: bytes) -> None:
        line = contents[2:_FIRST_LINE].split(b"\n")[0].decode(errors="replace").split()
        if not line:
            raise _Absent(f"{path} is a script without an interpreter in its first line")
        self.add_program(line[0])
        if PurePosixPath(line[0]).name == "env":
            called = next((word for word in line[1:] if "=" not in word and not word.startswith("-")), None)
            if called is not None:
                self.add_program(called)
        if PurePosixPath(line[0]).name == "sh":
            self._tools()

    def _tools(self) -> None:
        for name in _TOOLS:
            for folder in _PATH.split(":"):
                if Path(folder, name).is_file():
                    self.add(f"{folder}/{name}")
                    break

    def _elf(self, source: Path, real: PurePosixPath) -> None:
        """Add the loader and the libraries that an ELF file names."""
        from elftools.common.exceptions import ELFError
        from elftools.elf.dynamic import DynamicSegment
        from elftools.elf.elffile import ELFFile
        from elftools.elf.segments import InterpSegment

        try:
            with source.open("rb") as file:
                elf = ELFFile(file)
                machine = elf.header["e_machine"]
                if machine != _X86_64 or elf.elfclass != 64:
                    raise _Absent(
                        f"{real} is for another processor ({elf.elfclass} bits, {machine}); guests are x86_64"
                    )
                segments = list(elf.iter_segments())
                loader = next((part.get_interp_name() for part in segments if isinstance(part, InterpSegment)), None)
                tags = [tag for part in segments if isinstance(part, DynamicSegment) for tag in part.iter_tags()]
                needed, runpaths, rpaths = (
                    [str(getattr(tag, name)) for tag in tags if tag.entry.d_tag == f"DT_{name.upper()}"]
                    for name in ("needed", "runpath", "rpath")
                )
        except (ELFError, ValueError, KeyError, UnicodeError, OSError) as error:
            raise _Absent(
                f"{real} cannot be read as a program: its ELF header or tables are damaged or cut short ({error})"
            ) from None
        if loader is not None:
            if not Path(loader).is_file():
                raise _Absent(f"{loader}, the loader that {real} asks for, is not here")
            self.add(loader)
        own = [word.replace("$ORIGIN", str(real.parent)).replace("${ORIGIN}", str(real.parent))
               for text in runpaths + rpaths for word in text.split(":") if word]  # fmt: skip
        for name in needed:
            self._library(name, real, own)

    def _library(self, name: str, of: PurePosixPath, own: Sequence[str]) -> None:
        folders = [*own, *_LIBRARIES, *_configured(), str(of.parent)]
        at = name if "/" in name else None
        for folder in folders:
            if at is None and _is_ours(self._outside(f"{folder}/{name}")):
                at = f"{folder}/{name}"
                if folder not in own:
                    self._folders[folder] = None
        if at is None:
            raise _Absent(f"{name}, a library that {of} needs, is not here")
        self.add(at)


#: The method that adds the files for each parameter of a flow.
_ROLES = {"client": _Closure.line, "server": _Closure.line, "needs": _Closure.needs, "files": _Closure.files}


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise _Absent(f"it cannot be cut into words: {error}") from None


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError as error:
        raise _Absent(f"{folder}: {error.strerror}") from None


def _is_ours(path: Path) -> bool:
    """Whether this is a library for 64-bit x86; a machine may also have others of that name."""
    try:
        with path.open("rb") as file:
            head = file.read(20)
    except OSError:
        return False
    return head[:5] == _ELF + b"\x02" and head[18:20] == b"\x3e\x00"


def _configured() -> Iterator[str]:
    """Further library folders of this machine's loader (ld.so.conf)."""
    places = sorted(Path("/etc/ld.so.conf.d").glob("*.conf")) if Path("/etc/ld.so.conf.d").is_dir() else []
    for place in places:
        for line in place.read_text(errors="replace").splitlines():
            if line.startswith("/"):
                yield line.strip()
