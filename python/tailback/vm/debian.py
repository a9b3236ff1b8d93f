"""Finds and downloads Debian's kernel packages, with a package client configuration of tailback's own.

The host's package sources are not changed. Package lists are kept in this user's cache, beside the kernels; its
`sources.list`, which the user may edit, names the suites.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tailback.errors import TailbackError

__all__ = ["SUITES", "Archive", "KernelError", "Package", "packages_beside", "unpack"]

#: Debian's suites with cloud kernels, oldest first: 6.1; 6.12; later ones as backports, the newest in unstable.
SUITES = (
    "bookworm",
    "bookworm-security",
    "bookworm-backports",
    "trixie",
    "trixie-security",
    "trixie-backports",
    "unstable",
)

#: Age in seconds after which package lists are downloaded again.
_LISTS_LAST_S = 86_400.0

_IMAGE = re.compile(r"linux-image-(?P<release>(?P<point>\d+\.\d+[0-9.]*(?:-\d+)?)(?:\+deb[0-9.]+)?-cloud-amd64)")
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class KernelError(TailbackError):
    """A kernel that is missing or that guests cannot run."""


@dataclass(frozen=True)
class Package:
    """A package with a kernel's image: its name, its version, and the packages of the same release that it needs."""

    name: str
    version: str
    parts: tuple[str, ...] = ()

    @property
    def point(self) -> str:
        """The point release, such as "7.3.4"."""
        found = _IMAGE.fullmatch(self.name)
        assert found
        return found["point"]

    @property
    def kernel(self) -> str:
        """The name in tailback of the newest kernel of the series: "debian-7.3"."""
        return "debian-" + ".".join(self.point.split(".")[:2])

    @property
    def order(self) -> list[int]:
        """Sort key: release, then Debian's revision."""
        return [int(number) for number in re.findall(r"\d+", f"{self.name} {self.version}")]


class Archive:
    """Debian's archive, as its package client sees it through lists below `folder`.

    `KernelError` where the client, Debian's keys or the archive is out of reach.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def images(self) -> list[Package]:
        """The kernels that can be fetched, oldest first; updates package lists older than a day."""
        self._demand_client()
        self._update()
        return self._listed()

    def lack(self, name: str) -> str:
        """Why no kernel of this name can be fetched, as far as the package lists here show; empty if one can."""
        if not (self.folder / "updated").is_file():
            return ""
        try:
            images = self._listed()
        except (KernelError, OSError):
            return ""
        return "" if not images or _matching(name, images) else _no_such(name, images)

    def _listed(self) -> list[Package]:
        return sorted(_images_in(self._said("apt-cache", "dumpavail")), key=lambda package: package.order)

    def find(self, name: str) -> Package:
        """The newest package that matches `name`: a series ("debian-7.3") or a point release ("debian-7.3.4")."""
        images = self.images()
        if found := _matching(name, images):
            return found[-1]
        raise KernelError(_no_such(name, images))

    def unpack(self, package: Package, into: Path) -> None:
        """Download a package and its parts and unpack them; the client checks them against the archive's signature."""
        self._said("apt-get", "download", package.name, *package.parts, within=into)
        downloaded = sorted(into.glob("*.deb"))
        unpack(downloaded, into)
        for file in downloaded:
            file.unlink()

    def download(self, name: str, into: Path) -> None:
        """Download any package by name; the client checks it against the archive's signature."""
        self._demand_client()
        self._update()
        if not self._shown(name):
            raise KernelError(f"the archive has no {name}. Its kernels: tailback vm fetch --list")
        self._said("apt-get", "download", name, within=into)

    def unpack_headers(self, release: str, version: str, into: Path) -> None:
        """Unpack the headers and tools for building modules of a kernel's `release`.

        Where its tools need a later C library than this machine has, that is unpacked beside them.
        """
        self._demand_client()
        self._update()
        headers = f"linux-headers-{release}"
        found = self._shown(f"{headers}={version}" if version else headers)
        if not found:
            raise KernelError(
                f"{headers} {version}".rstrip() + ": the archive has no such headers any more, which modules for this "
                "kernel are built against. Fetch its kernel again: tailback vm fetch NAME"
            )
        depends = found.get("Depends", "")
        exact = f"={found['Version']}"
        common = re.findall(r"\blinux-headers-[^\s,]+-common\b", depends)
        (kbuild,) = re.findall(r"\blinux-kbuild-[^\s,]+", depends)
        # 6.1's tools are shared by later versions and may be newer.
        kbuild += exact if self._shown(kbuild + exact) else ""
        wanted = [headers + exact, *(name + exact for name in common), kbuild]
        tools = self._shown(kbuild).get("Depends", "")
        needed = re.search(r"\blibc6 \(>= ([\d.]+)\)", tools)
        if needed and _numbers(needed[1]) > _numbers(_libc()):
            wanted += ["libc6", "libzstd1", *re.findall(r"\b(?:libelf|libssl|zlib)\w+", tools)]
        self._said("apt-get", "download", *dict.fromkeys(wanted), within=into)
        downloaded = sorted(into.glob("*.deb"))
        unpack(downloaded, into)
        for file in downloaded:
            file.unlink()

    def _shown(self, package: str) -> dict[str, str]:
        """Fields of a package; empty if the archive does not have it."""
        try:
            text = self._said("apt-cache", "show", "--no-all-versions", package)
        except KernelError:
            return {}
        return dict(re.findall(r"^(Version|Depends): (.*)$", text, re.MULTILINE))

    def _demand_client(self) -> None:
        for tool in ("apt-cache", "apt-get", "dpkg-deb"):
            if shutil.which(tool) is None:
                raise KernelError(
                    f"{tool} is not installed, and kernels are fetched by Debian's package client. "
                    "Unpack a kernel's package yourself and give its folder: --kernel FOLDER"
                )

    def _update(self) -> None:
        sources, mark = self.folder / "sources.list", self.folder / "updated"
        try:
            for needed in ("lists/partial", "cache/archives/partial"):
                (self.folder / needed).mkdir(parents=True, exist_ok=True)
            if not sources.is_file():
                sources.write_text(_sources())
            as_of = mark.stat().st_mtime if mark.is_file() else -1.0
            if sources.stat().st_mtime <= as_of and time.time() - as_of < _LISTS_LAST_S:
                return
            # One unreachable suite only leaves its own lists missing; the others are still used.
            self._said("apt-get", "--error-on=any", "--quiet=2", "update")
            mark.touch()
        except OSError as error:
            raise KernelError(f"{self.folder}: {error.strerror}. Lists of kernels are kept there") from None

    def _said(self, tool: str, *words: str, within: Path | None = None) -> str:
        settings = {
            "Dir::Etc::sourcelist": self.folder / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": self.folder / "lists",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": self.folder / "cache",
            "Acquire::Languages": "none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        }
        if os.geteuid() == 0:
            # Apt's `_apt` user cannot read root's cache.
            settings["APT::Sandbox::User"] = "root"
        options = [word for name, value in settings.items() for word in ("--option", f"{name}={value}")]
        return _run(tool, *options, *words, within=within)


def _matching(name: str, images: Sequence[Package]) -> list[Package]:
    return [one for one in images if name in (one.kernel, f"debian-{one.point}")]


def _no_such(name: str, images: Sequence[Package]) -> str:
    series = list(dict.fromkeys(one.kernel for one in images))
    wanted = _numbers(name)
    close = min(series, key=lambda one: [abs(a - b) for a, b in zip(_numbers(one), wanted, strict=False)], default="")
    hint = f"The nearest is {close}. " if close else ""
    return (
        f'no kernel "{name}" can be fetched. {hint}There are: {", ".join(series)}, and their point releases: '
        "tailback vm fetch --list"
    )


def _libc() -> str:
    """The version of this machine's C library, such as "2.36"."""
    return (os.confstr("CS_GNU_LIBC_VERSION") or "").rpartition(" ")[2]


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _sources() -> str:
    """A `sources.list` of `SUITES` at the mirror this host uses for Debian."""
    if not _KEYRING.is_file():
        raise KernelError(
            f"{_KEYRING}: Debian's keys are not there, so packages cannot be checked. Install them: "
            "apt-get install debian-archive-keyring"
        )
    listed = _run("apt-get", "indextargets", "--format", "$(CREATED_BY)|$(LABEL)|$(SITE)").splitlines()
    used = [site for created, label, site in (line.split("|", 2) for line in listed) if (created, label) == _DEBIANS]
    if not used:
        raise KernelError(
            "this machine's package client knows no archive of Debian's. Write one into its sources, or unpack a "
            "kernel's package yourself and give its folder: --kernel FOLDER"
        )
    site = used[0]
    # Security updates are in a separate archive.
    sites = {suite: f"{site}-security" if suite.endswith("-security") else site for suite in SUITES}
    head = "# The suites that `tailback vm fetch` asks for kernels. Edit it; the host's own sources are not touched.\n"
    return head + "".join(f"deb [signed-by={_KEYRING}] {site} {suite} main\n" for suite, site in sites.items())


_DEBIANS = ("Packages", "Debian")


def _images_in(listing: str) -> Iterator[Package]:
    """The cloud kernels in `apt-cache dumpavail` with all parts; the archive drops parts of old kernels."""
    there = set(re.findall(r"^Package: (\S+)$", listing, re.MULTILINE))
    for paragraph in listing.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Depends): (.*)$", paragraph, re.MULTILINE))
        found = _IMAGE.fullmatch(fields.get("Package", ""))
        if found is None:
            continue
        # From 6.19 on, an image package is empty and depends on the packages with its files.
        parts = re.findall(
            rf"\b(linux-(?:base|binary|modules)-{re.escape(found['release'])})(?![\w.+-])", fields.get("Depends", "")
        )
        if there.issuperset(parts):
            yield Package(fields["Package"], fields.get("Version", ""), tuple(parts))


def packages_beside(path: Path) -> list[Path]:
    """A package's file, and the files in its folder that a kernel split into packages needs."""
    found = re.match(r"linux-(?:image|base|binary|modules)-([^_]+)_", path.name)
    parts = (
        {path}
        | {
            file
            for kind in ("image", "base", "binary", "modules")
            for file in path.parent.glob(f"linux-{kind}-{found[1]}_*.deb")
        }
        if found
        else {path}
    )
    return sorted(parts)


def unpack(packages: Sequence[Path], into: Path) -> None:
    """Unpack packages' files into a folder, without installing them."""
    for file in packages:
        _run("dpkg-deb", "--extract", str(file), str(into))


#: Output of Debian's tools on a full disk; the client prints the error number in any language.
_NO_ROOM = (f"({errno.ENOSPC}:", os.strerror(errno.ENOSPC))


def _run(*words: str, within: Path | None = None) -> str:
    """Output of a command; `KernelError` with the command's own message if it fails."""
    done = subprocess.run(words, cwd=within, capture_output=True, text=True, check=False)
    if done.returncode:
        shown = " ".join(word for word in words if "::" not in word and word != "--option")
        if any(words in done.stderr for words in _NO_ROOM):
            raise KernelError(
                f"{shown}: no space left on the disk. Free some in the cache (~/.cache/tailback), or name another "
                "place in XDG_CACHE_HOME: a kernel takes 100 MB, and the lists of kernels 100 MB once"
            )
        raise KernelError(f"{shown}: {done.stderr.strip() or f'it ended with {done.returncode}'}")
    return done.stdout
