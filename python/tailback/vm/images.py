"""Container images as a guest's root file system: OCI layouts, and archives of `docker save` or `podman save`.

This module merges the layers itself (OCI image specification, "layer") and runs nothing from the image.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import lzma
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from tailback.vm.archive import Entry

__all__ = ["Image", "ImageError", "read"]

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_MOST_LINKS = 40
_ZSTD = b"\x28\xb5\x2f\xfd"


class ImageError(ValueError):
    """A file that is not an image, or one that guests cannot run; the text states the reason."""


@dataclass
class Image:
    """A root file system by absolute path, and the environment variables that the image sets."""

    entries: dict[str, Entry] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    def place(self, path: str) -> str:
        """The path after following the image's symbolic links."""
        done, left = PurePosixPath("/"), list(PurePosixPath(path).parts[1:])
        for _ in range(_MOST_LINKS * (len(left) + 1)):
            if not left:
                return str(done)
            part = left.pop(0)
            if part in ("..", "."):
                done = done.parent if part == ".." else done
                continue
            entry = self.entries.get(str(done / part))
            if entry is None or not entry.is_link:
                done /= part
                continue
            target = PurePosixPath(entry.contents.decode())
            done, target = (PurePosixPath("/"), target.relative_to("/")) if target.is_absolute() else (done, target)
            left[:0] = target.parts
        raise ImageError(f"{path} is a loop of symbolic links in the image")

    def has(self, path: str) -> bool:
        """Whether the image has a file at this path."""
        return self.place(path) in self.entries

    def program(self, word: str, path: str) -> str | None:
        """Path of a program, given by path or searched in `path` as a shell does; `None` if it is missing."""
        places = [word] if "/" in word else [f"{folder}/{word}" for folder in path.split(":") if folder]
        for place in places:
            entry = self.entries.get(self.place(place)) if place.startswith("/") else None
            if entry is not None and not entry.is_folder and entry.mode & 0o111:
                return place
        return None


def read(path: Path, most_bytes: int) -> Image:
    """The root file system of the image at `path`; `ImageError` if it is not an image or exceeds `most_bytes`."""
    try:
        with _opened(path) as parts:
            config, layers = _oci(parts) if "index.json" in parts else _saved(parts)
            if (config.get("os"), config.get("architecture")) != ("linux", "amd64"):
                kind = f"{config.get('os')}/{config.get('architecture')}"
                raise ImageError(f"{path} is for {kind}, and guests are linux/amd64")
            image = Image()
            size = 0
            for layer in layers:
                size = _put_over(image, layer, size, most_bytes, path)
    except FileNotFoundError:
        raise ImageError(f"{path} is not there") from None
    except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError, json.JSONDecodeError) as error:
        # For an unknown format, tarfile's error has a line for each format it tried.
        why = "it is neither a folder nor a whole archive" if isinstance(error, tarfile.ReadError) else str(error)
        raise ImageError(f"{path} cannot be read as an image: {why}") from None
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ImageError(f"{path} is no image: its description lacks {error}") from None
    given = (config.get("config") or {}).get("Env") or []
    image.environment = dict(word.split("=", 1) for word in given if "=" in word)
    return image


class _Parts(Mapping[str, bytes]):
    """The files of an image layout, from a folder or an archive."""

    def __init__(self, folder: Path | None, archive: tarfile.TarFile | None) -> None:
        self._folder, self._archive = folder, archive
        members = archive.getmembers() if archive is not None else []
        self._members = {member.name.removeprefix("./"): member for member in members if member.isfile()}
        # `docker save` stores equal layers once and links the others to that one.
        self._links = {member.name.removeprefix("./"): member for member in members if member.issym()}

    def __getitem__(self, name: str) -> bytes:
        if self._folder is not None:
            inside = self._folder / name
            if not inside.resolve().is_relative_to(self._folder.resolve()) or not inside.is_file():
                raise KeyError(name)
            return inside.read_bytes()
        assert self._archive is not None
        member = self._members.get(name) or self._links.get(name)
        file = self._archive.extractfile(member) if member is not None else None
        if file is None:
            raise KeyError(name)
        return file.read()

    def __contains__(self, name: object) -> bool:
        return (self._folder / str(name)).is_file() if self._folder is not None else name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[_Parts]:
    if path.is_dir():
        if not (path / "index.json").is_file():
            raise ImageError(f"{path} is no image: a folder with an OCI layout has a file index.json")
        yield _Parts(path, None)
        return
    with tarfile.open(path) as archive:
        parts = _Parts(None, archive)
        if "index.json" not in parts and "manifest.json" not in parts:
            raise ImageError(f"{path} is no image: it has neither index.json nor manifest.json. Write one: docker save")
        yield parts


def _oci(parts: _Parts) -> tuple[dict[str, Any], Iterator[bytes]]:
    found = json.loads(parts["index.json"])
    while "manifests" in found:
        rows = found["manifests"]
        fit = [row for row in rows if _is_ours(row.get("platform"))]
        if len(fit) != 1:
            known = ", ".join(sorted({_platform(row.get("platform")) for row in rows}))
            raise ImageError(f"the image has {len(fit)} manifests for linux/amd64 (of {known}), and a guest takes one")
        found = json.loads(_blob(parts, fit[0]["digest"]))
    config = json.loads(_blob(parts, found["config"]["digest"]))
    return config, (_blob(parts, row["digest"]) for row in found["layers"])


def _is_ours(platform: Mapping[str, str] | None) -> bool:
    # A single-platform image need not name its platform; its configuration does.
    return platform is None or (platform.get("os"), platform.get("architecture")) == ("linux", "amd64")


def _platform(platform: Mapping[str, str] | None) -> str:
    return f"{platform.get('os')}/{platform.get('architecture')}" if platform else "any"


def _blob(parts: _Parts, digest: str) -> bytes:
    kind, _, value = digest.partition(":")
    if kind != "sha256" or not value.isalnum():
        raise ImageError(f"the image names a part by {digest}, which is no sha256")
    contents = parts[f"blobs/sha256/{value}"]
    if hashlib.sha256(contents).hexdigest() != value:
        raise ImageError(f"the image's part {digest} is damaged: its contents have another digest")
    return contents


def _saved(parts: _Parts) -> tuple[dict[str, Any], Iterator[bytes]]:
    images = json.loads(parts["manifest.json"])
    if len(images) != 1:
        names = ", ".join(tag for image in images for tag in image.get("RepoTags") or ())
        raise ImageError(f"the file holds {len(images)} images ({names}), and a guest takes one. Save one alone")
    return json.loads(parts[images[0]["Config"]]), (parts[name] for name in images[0]["Layers"])


def _put_over(image: Image, layer: bytes, size: int, most_bytes: int, path: Path) -> int:
    """Apply a layer on top of the files so far; returns their total size."""
    with tarfile.open(fileobj=io.BytesIO(_unpacked(layer))) as archive:
        for member in archive:
            name = PurePosixPath("/", *(part for part in PurePosixPath(member.name).parts if part not in ("/", ".")))
            if ".." in name.parts:
                raise ImageError(f"{path}: a layer names {member.name}, which leaves the image")
            folder = image.place(str(name.parent))
            at = str(PurePosixPath(folder, name.name))
            if name.name == _OPAQUE:
                _clear(image, folder)
            elif name.name.startswith(_WHITEOUT):
                hidden = str(PurePosixPath(folder, name.name.removeprefix(_WHITEOUT)))
                image.entries.pop(hidden, None)
                _clear(image, hidden)
            elif member.isdir():
                if at != "/" and not _leads_to_folder(image, at):
                    image.entries[at] = Entry.folder()
            elif member.issym():
                image.entries[at] = Entry.link(member.linkname)
            elif member.islnk():
                image.entries[at] = image.entries[image.place(str(PurePosixPath("/", member.linkname)))]
            elif member.isfile():
                size += member.size
                if size > most_bytes:
                    raise ImageError(f"{path} holds more than {most_bytes >> 20} MB, and a guest has 2 GB")
                file = archive.extractfile(member)
                contents = file.read() if file is not None else b""
                image.entries[at] = Entry(0o100000 | (member.mode & 0o777), contents, int(member.mtime) & 0xFFFFFFFF)
            # Device files are skipped: the guest has its own.
    return size


def _leads_to_folder(image: Image, at: str) -> bool:
    """Whether a link leads to a folder; a layer's folder at that path is merged into it."""
    entry = image.entries.get(at)
    target = image.entries.get(image.place(at)) if entry is not None and entry.is_link else None
    return target is not None and target.is_folder


def _clear(image: Image, folder: str) -> None:
    below = f"{folder.rstrip('/')}/"
    for name in [name for name in image.entries if name.startswith(below)]:
        del image.entries[name]


def _unpacked(layer: bytes) -> bytes:
    if not layer.startswith(_ZSTD):
        return layer
    if shutil.which("zstd") is None:
        raise ImageError(
            "the image's layers are packed by zstd, which is not installed. Install it: apt-get install zstd"
        )
    return subprocess.run(["zstd", "-dc"], input=layer, capture_output=True, check=True).stdout
