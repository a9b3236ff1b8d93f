"""The kernels that guests run: fetched ones, and any image by its path."""

from __future__ import annotations

import functools
import hashlib
import json
import lzma
import re
import shutil
import struct
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tailback.errors import Problem, ScenarioError, nearest
from tailback.files import cached, is_plain, whole_folder
from tailback.vm.debian import Archive, KernelError, packages_beside, unpack

__all__ = ["BUILT_OF", "Kernel", "KernelError", "archive", "built", "digest_of", "fetch", "fetched", "find"]

#: File in a fetched kernel's folder that names its package.
_NOTE = "package"
#: File in a built kernel's folder that names its sources (`tailback.vm.tree`).
BUILT_OF = "tailback-built-of.json"

#: Kernel options of the congestion controls; reno needs none. Linux' LP and NV are left out, as no scenario can name
#: them.
_CONTROLS = {
    "BIC": "bic",
    "CUBIC": "cubic",
    "WESTWOOD": "westwood",
    "HTCP": "htcp",
    "HSTCP": "highspeed",
    "HYBLA": "hybla",
    "VEGAS": "vegas",
    "SCALABLE": "scalable",
    "VENO": "veno",
    "YEAH": "yeah",
    "ILLINOIS": "illinois",
    "DCTCP": "dctcp",
    "CDG": "cdg",
    "BBR": "bbr",
    "PRAGUE": "prague",
}

#: Queues that need no option.
_ALWAYS = frozenset({"pfifo", "bfifo", "pfifo_fast"})

#: Options that a guest requires, each with its purpose.
_NEEDED = {
    "NET_NS": "hosts are network namespaces",
    "BPF_SYSCALL": "the state log is a BPF program",
    "DEBUG_INFO_BTF": "BPF programs find the kernel's fields by its type information (BTF)",
    "DEVTMPFS": "the guest's devices appear in /dev by it",
    "SERIAL_8250_CONSOLE": "the guest's last words come over its serial port",
}


@dataclass(frozen=True)
class Kernel:
    """A kernel's image with its modules.

    `name` is the name or path that the user gave, `image` a bzImage, `modules` the folder with its modules, and
    `config` its build configuration.
    """

    name: str
    image: Path
    modules: Path
    config: Path
    #: Name and version of its package; empty if it is from none.
    package: str = ""

    @cached_property
    def release(self) -> str:
        """The kernel release, as `uname -r` prints it."""
        return self.build.split(" ", 1)[0]

    @cached_property
    def build(self) -> str:
        """Release, builder and date, as the image states them (Linux/x86 boot protocol, `kernel_version`)."""
        image = _read(self.image)
        if image[0x202:0x206] != b"HdrS":
            raise KernelError(
                f"{self.image}: this is no bzImage. Give the kernel's image, such as /boot/vmlinuz-6.1.0."
            )
        start = 0x200 + struct.unpack_from("<H", image, 0x20E)[0]
        return image[start : start + 256].split(b"\0", 1)[0].decode(errors="replace")

    @cached_property
    def digest(self) -> str:
        """Digest of the image and of the modules that a guest may load."""
        given = {name: file for name, file in self._modules.items() if name.startswith(("tun", "tcp_", "sch_"))}
        hasher = hashlib.sha256(digest_of(self.image).encode())
        for name, file in sorted(given.items()):
            hasher.update(f" {name} {digest_of(file)}".encode())
        return hasher.hexdigest()[:16]

    @property
    def about(self) -> dict[str, Any]:
        """Description of the kernel for a result."""
        return {
            "name": self.name,
            "package": self.package,
            "release": self.release,
            # The part that `uname -v` prints on a running kernel begins there.
            "build": "#" + self.build.partition("#")[2],
            "hz": self.hz,
            "digest": self.digest,
        } | ({"source": self.source} if self.source else {})

    @cached_property
    def source(self) -> dict[str, Any]:
        """Tree, commit, patches and digest of a kernel made by `tailback vm build` or `patch`; else None."""
        note = self.modules / BUILT_OF
        return dict(json.loads(note.read_text())) if is_plain(note) else {}

    def is_that_of(self, kept: Mapping[str, Any] | None) -> bool:
        """Whether a result ran on this kernel. Earlier results have no digest and are compared by the build."""
        if not kept or (kept.get("release"), kept.get("build")) != (self.about["release"], self.about["build"]):
            return False
        return bool(kept.get("digest", self.digest) == self.digest)

    @cached_property
    def options(self) -> dict[str, str]:
        """The options it was built with, without the prefix CONFIG_."""
        text = _read(self.config).decode(errors="replace")
        return dict(re.findall(r"^CONFIG_(\w+)=(.*)$", text, re.MULTILINE))

    @property
    def hz(self) -> int:
        """Timer ticks a second."""
        ticks = self.options.get("HZ", "")
        if not ticks.isdigit():
            raise KernelError(
                f"{self.config}: it does not say CONFIG_HZ, so it is not a kernel's whole configuration. Put the one "
                f"there that {self.release} was built with"
            )
        return int(ticks)

    @cached_property
    def controls(self) -> list[str]:
        """The congestion controls that the kernel itself brings, built in or as modules."""
        have = [name for option, name in _CONTROLS.items() if self._has(f"TCP_CONG_{option}", f"tcp_{name}")]
        # Google's BBRv3 module has the same name as version 1, which states no version.
        have = ["bbr3" if name == "bbr" and self._states(module_of(name), b"version=3") else name for name in have]
        return sorted({"reno", *have})

    def has_module(self, name: str) -> bool:
        """Whether it has the module, built in or as a file."""
        return name in self._modules or any(stated.startswith(f"{name}.".encode()) for stated in self._built_in)

    def _states(self, module: str, line: bytes) -> bool:
        """Whether a module, built in or not, has this line in its `modinfo`."""
        if file := self._modules.get(module):
            return b"\0" + line + b"\0" in _unpacked(file)
        return module.encode() + b"." + line in self._built_in

    @cached_property
    def _built_in(self) -> list[bytes]:
        """The `modinfo` lines of the built-in modules, each prefixed with the module's name."""
        files = (self.modules / _BUILT_IN, self.modules.parent / _BUILT_IN)
        return next((file.read_bytes().split(b"\0") for file in files if file.is_file()), [])

    def demand_queues(self, resolved: Mapping[str, Any]) -> list[str]:
        """The kernel queues that a resolved scenario names; `ScenarioError` if this kernel lacks one."""
        wanted: list[str] = []
        for number, link in enumerate(resolved["links"]):
            prefix, _, name = str(link["queue"]["discipline"]).partition(":")
            if prefix == "bpf" and not self._has("NET_SCH_BPF", "sch_bpf"):
                lack = f"the kernel {self.name} ({self.release}) has no queues in BPF"
                fix = "Take Linux 6.16 or later with CONFIG_NET_SCH_BPF: debian-7.3"
                field = f"links[{number}].queue.discipline"
                raise ScenarioError([Problem(field, f"bpf:{name}", lack, fix)])
            if prefix not in ("kernel", "module"):
                continue
            for needed in ("htb", name) if prefix == "kernel" else ("htb",):
                # HTB limits each queue's rate.
                option = needed.upper()
                if needed not in _ALWAYS and not self._has(f"NET_SCH_{option}", f"sch_{needed}"):
                    lack = f"the kernel {self.name} ({self.release}) has no {needed} (CONFIG_NET_SCH_{option})"
                    fix = "Take another queue, or another kernel: tailback vm kernels"
                    if needed == "dualpi2":
                        fix = "Build it as a module: docs/tutorials/kernel-module.md"
                    raise ScenarioError([Problem(f"links[{number}].queue.discipline", f"kernel:{name}", lack, fix)])
                if needed not in wanted:
                    wanted.append(needed)
        return wanted

    def _has(self, option: str, module: str) -> bool:
        setting = self.options.get(option, "m")  # The user may have added the module.
        return setting == "y" or (setting == "m" and module in self._modules)

    @cached_property
    def _modules(self) -> dict[str, Path]:
        """Module files by name."""
        files = (file for file in self.modules.rglob("*.ko*") if file.name.endswith(_PACKED))
        return {file.name.split(".", 1)[0].replace("-", "_"): file for file in files}

    def demand_able(self) -> None:
        """Raise `KernelError` unless a guest can run it and all its properties can be read."""
        if not self.modules.is_dir():
            raise KernelError(f"{self.modules}: the modules of {self.name} are not there. Put its release's there")
        _ = (self.build, self.hz)
        for option, purpose in _NEEDED.items():
            if self.options.get(option) != "y":
                raise KernelError(
                    f"{self.name} ({self.release}): it was built without CONFIG_{option}, and {purpose}. "
                    "Take another kernel: tailback vm kernels"
                )
        if not self._has("TUN", "tun"):
            raise KernelError(
                f"{self.name} ({self.release}): it has no TUN devices (CONFIG_TUN, module tun below {self.modules}), "
                "over which packets come to the emulated path. Take another kernel: tailback vm kernels"
            )

    @cached_property
    def lack(self) -> KernelError | None:
        """The error that makes it unusable for guests; None if they can run it."""
        try:
            self.demand_able()
        except KernelError as error:
            return error
        return None

    def loads(self, wanted: Iterable[str]) -> list[tuple[str, bytes]]:
        """Names and contents of the modules `wanted` that are not built in, each after those it depends on."""
        out: dict[str, bytes] = {}
        for name in wanted:
            self._load(name, out)
        return list(out.items())

    def _load(self, name: str, out: dict[str, bytes]) -> None:
        if name in out or name not in self._modules:
            return
        contents = _unpacked(self._modules[name])
        depends = re.search(rb"\0depends=([^\0]*)\0", contents)
        for other in depends.group(1).decode().split(",") if depends else ():
            if other:
                self._load(other.replace("-", "_"), out)
        out[name] = contents


def module_of(control: str) -> str:
    """Name of the kernel module of a congestion control, given its name in scenarios."""
    return f"tcp_{'bbr' if control == 'bbr3' else control}"


#: Name of the file with the built-in modules' information.
_BUILT_IN = "modules.builtin.modinfo"
#: Suffixes of module files, uncompressed and compressed.
_PACKED = (".ko", ".ko.xz", ".ko.zst", ".ko.gz")


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        fix = "Fetch its kernel again (tailback vm fetch NAME), or remove its folder"
        raise KernelError(f"{file}: {error.strerror}. {fix if cache() in file.parents else 'Put it there'}") from None


def digest_of(file: Path) -> str:
    """SHA-256 of a file, cached until the file changes. Raises `OSError`."""
    found = file.stat()
    return _digest_at(file, found.st_size, found.st_mtime_ns)


@functools.lru_cache(maxsize=1024)
def _digest_at(file: Path, size: int, changed_ns: int) -> str:
    """The digest of a file; size and modification time are the cache key."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _unpacked(file: Path) -> bytes:
    if file.suffix == ".xz":
        return lzma.decompress(file.read_bytes())
    if file.suffix in (".zst", ".gz"):
        tool = {".zst": "zstd", ".gz": "gzip"}[file.suffix]
        if shutil.which(tool) is None:
            raise KernelError(
                f"{file}: the module is packed, and {tool} is not installed. Install it: apt-get install {tool}"
            )
        return subprocess.run([tool, "-dc", str(file)], check=True, capture_output=True).stdout
    return file.read_bytes()


def cache() -> Path:
    """The folder of fetched kernels."""
    return cached("kernels")


def fetched() -> list[Kernel]:
    """The kernels that `fetch` has downloaded, by name."""
    folder = cache()
    folders = sorted(path for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []
    found = [_in_folder(path) for path in folders]
    return [kernel for kernel in found if kernel is not None]


def _in_folder(folder: Path) -> Kernel | None:
    """The kernel in a folder: unpacked packages, of the older or the split kind, or a build tree."""
    package = folder / _NOTE
    names = {"name": folder.name, "package": package.read_text().strip() if package.is_file() else ""}
    made = folder / "arch/x86/boot/bzImage"
    if made.is_file():
        return Kernel(image=made, modules=folder, config=folder / ".config", **names)
    for root in (folder / "lib/modules", folder / "usr/lib/modules"):
        for image in sorted(root.glob("*/vmlinuz"), reverse=True):
            return Kernel(image=image, modules=image.parent / "kernel", config=image.with_name("config"), **names)
    for image in sorted(folder.glob("boot/vmlinuz-*"), reverse=True):
        release = image.name.removeprefix("vmlinuz-")
        roots = [root / release / "kernel" for root in (folder / "lib/modules", folder / "usr/lib/modules")]
        modules = next((root for root in roots if root.is_dir()), roots[0])
        return Kernel(image=image, modules=modules, config=image.with_name(f"config-{release}"), **names)
    return None


def find(name: str | None = None, *, fetched_only: bool = False) -> Kernel:
    """A usable kernel by name or path; without one, the first fetched kernel, else the first that was built here.

    A path is that of an image (bzImage), of a folder that packages were unpacked into, of a tree in which a kernel was
    built, or of a Debian package, beside which its parts lie. An image's configuration is looked for beside it and in
    its modules' folder, its modules where packages put them. `KernelError` says what is missing, and where.
    """
    have = fetched()
    if name is None:
        if not have:
            raise KernelError("there is no kernel for guests yet. Fetch one: tailback vm fetch debian-6.1")
        have.sort(key=lambda kernel: bool(kernel.source))
        kernel = next((kernel for kernel in have if kernel.lack is None), have[0])
    else:
        named = {kernel.name: kernel for kernel in have}
        # A kernel's name takes precedence over a file of that name in the working folder.
        if name in named:
            kernel = named[name]
        elif not fetched_only and ("/" in name or Path(name).exists()):
            kernel = _by_path(Path(name))
        else:
            raise KernelError(_unknown(name, list(named)))
    kernel.demand_able()
    return kernel


def built(folder: Path) -> Kernel:
    """The kernel that was built in a folder; `KernelError` if guests cannot run it."""
    kernel = _in_folder(folder)
    if kernel is None:
        raise KernelError(f"{folder}: no kernel was built here. Build it: tailback vm build")
    kernel.demand_able()
    return kernel


def _unknown(name: str, have: list[str]) -> str:
    if _DEBIAN.fullmatch(name):
        return archive().lack(name) or f"the kernel {name} is not here yet. Fetch it: tailback vm fetch {name}"
    if is_plain(tree := cache() / name / "tree"):
        again = f"tailback vm build {tree.read_text()} --name {name}"
        return f"the build of {name} did not end, so it has no image. Build it again: {again}"
    close = nearest(name, have)
    hint = f' Did you mean "{close}"?' if close else ""
    here = f"Here are: {', '.join(have)}" if have else "None is here yet"
    return (
        f'there is no kernel "{name}".{hint} {here}. More can be fetched (tailback vm fetch --list) or given by a path'
    )


def _by_path(path: Path) -> Kernel:
    if path.is_dir():
        kernel = _in_folder(path.absolute())
        if kernel is None:
            raise KernelError(
                f"{path}: there is no kernel in this folder. Give a folder with boot/vmlinuz-RELEASE or "
                "usr/lib/modules/RELEASE/vmlinuz in it, or a tree in which `make bzImage modules` has been run"
            )
        return replace(kernel, name=str(path.absolute()))
    if path.suffix == ".deb" and path.is_file():
        return _in_package(path.absolute())
    if not path.is_file():
        raise KernelError(f"{path}: there is no such file. Give a kernel's image, or a name: tailback vm kernels")
    image = path.absolute()
    release = Kernel(str(image), image, image, image).release
    above = image.parent.parent
    roots = [above / "lib/modules" / release, above / "usr/lib/modules" / release, image.parent / "modules"]
    modules = next((root for root in [*roots, Path("/lib/modules") / release] if (root / "kernel").is_dir()), None)
    if modules is None:
        raise KernelError(
            f"{image}: its modules are not there. Put the folder of {release} at one of: "
            + ", ".join(str(root) for root in roots)
        )
    places = [image.with_name(f"config-{release}"), image.with_name("config"), modules / "config"]
    config = next((place for place in places if place.is_file()), None)
    if config is None:
        raise KernelError(f"{image}: its configuration is not there. Put it at one of: {', '.join(map(str, places))}")
    return Kernel(name=str(image), image=image, modules=modules / "kernel", config=config)


def _in_package(path: Path) -> Kernel:
    """The kernel of a Debian package and its companion packages, unpacked into the cache once."""
    parts = packages_beside(path)
    digest = hashlib.sha256("".join(digest_of(part) for part in parts).encode()).hexdigest()[:16]
    target = cache() / f".package-{digest}"
    if not target.is_dir():
        with whole_folder(target) as partial:
            unpack(parts, partial / "root")
    kernel = _in_folder(target / "root")
    if kernel is None:
        raise KernelError(
            f"{path}: there is no kernel's image in it, nor in the packages of its release beside it. A kernel that is "
            "split into packages needs linux-binary-… and linux-modules-… in the same folder"
        )
    return replace(kernel, name=str(path), package=path.stem)


_DEBIAN = re.compile(r"debian-\d+\.\d+[0-9.]*(-\d+)?")


def archive() -> Archive:
    """Debian's archive, with tailback's own package lists in the cache."""
    return Archive(cache().with_name("packages"))


def fetch(name: str) -> Kernel:
    """Download and unpack a Debian kernel for this user: "debian-7.3" or a point release such as "debian-7.3.4".

    Raises `KernelError` if there is none of that name, if the download fails, or if guests cannot run it.
    """
    if _DEBIAN.fullmatch(name) is None:
        close = nearest(name, [kernel.name for kernel in fetched()])
        hint = f' Did you mean "{close}"?' if close else ""
        raise KernelError(
            f'"{name}" is no name of a kernel.{hint} Write debian-7.3 or debian-7.3.4: tailback vm fetch --list'
        )
    debian = archive()
    package = debian.find(name)
    target = cache() / name
    with whole_folder(target, _objection) as partial:
        debian.unpack(package, partial)
        (partial / _NOTE).write_text(f"{package.name} {package.version}\n")
    kernel = _in_folder(target)
    if kernel is None:
        raise KernelError(f"{package.name} has no kernel in it")
    kernel.demand_able()
    return kernel


def _objection(folder: Path) -> str | None:
    """Why a folder of the cache may not be replaced; None if it holds a fetched kernel."""
    note = folder / _NOTE
    fetched = is_plain(note) and note.read_text(encoding="utf-8", errors="replace").startswith("linux-image-")
    return None if fetched else f"no kernel that was fetched is there, as it has no file {_NOTE}"
