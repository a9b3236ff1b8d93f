"""Tables of a store in a bucket, so that workers need no shared disk.

`PREFIX/ab/RUN/CHECKSUM/` holds the files of a result, `meta.json` last. RUN is the run's key, CHECKSUM the first digits
of the result's digest, which is in the run's row. So objects are written once and never changed: if two workers do the
same run, the row determines whose tables count. Every file is compared with its digest when a result is opened.

Buckets are reached by pyarrow: `s3://`, `gs://`, `abfs://`, `file://`, and as `fsspec+PROTOCOL://` what fsspec knows.
"""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
import urllib.parse
from pathlib import Path
from typing import Any

from tailback.checksums import Verified, seal
from tailback.errors import ResultError, StoreError
from tailback.result import layout

__all__ = ["Bucket", "bucket"]

#: Buffer size for copying a file, in bytes.
_CHUNK = 1 << 22
#: Schemes in which a folder is only a prefix of names.
_WITHOUT_FOLDERS = ("s3", "gcs", "abfs")
_FORMS = "Write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or file:///FOLDER"


@functools.cache
def bucket(url: str) -> Bucket:
    """The bucket of this address (cached)."""
    return Bucket(url)


class Bucket:
    """A place for tables. Creating the object does not access the network."""

    def __init__(self, url: str) -> None:
        scheme, found, rest = url.partition("://")
        if not found or not scheme or not rest:
            raise StoreError(f"{url!r} is no place for tables. {_FORMS}")
        if scheme.removeprefix("fsspec+") == "memory":
            raise StoreError(f"{url!r}: tables in a process's memory are gone when it ends. {_FORMS}")
        if "@" in urllib.parse.urlsplit(url).netloc and scheme != "abfs":
            # A password would be readable in the store's file.
            raise StoreError("a store's tables have no password in their address. Set AWS_ACCESS_KEY_ID and the like.")
        self.url = url

    @functools.cached_property
    def _reached(self) -> tuple[Any, str]:
        from pyarrow import fs

        try:
            files, root = fs.FileSystem.from_uri(self.url)
        except (ImportError, NotImplementedError) as error:
            raise StoreError(f"{self.url}: what reaches it is not installed: {error}") from None
        except (ValueError, OSError) as error:
            raise StoreError(f"{self.url} is no place for tables: {error}. {_FORMS}") from None
        return files, root.rstrip("/")

    def demand(self) -> None:
        """Raise `StoreError` if nothing can be written there; called before the first run, not after it."""
        files, root = self._reached
        # Any prefix in a bucket can be used, but the bucket must exist.
        place = root.partition("/")[0] if files.type_name in _WITHOUT_FOLDERS else root
        try:
            if files.type_name not in _WITHOUT_FOLDERS:
                files.create_dir(place, recursive=True)
            missing = files.get_file_info(place).type.name == "NotFound"
        except OSError as error:
            raise StoreError(f"{self.url} cannot be reached: {error}") from None
        if missing:
            raise StoreError(f"{self.url}: there is no {place}. Make it first, or give another place.")

    def put(self, folder: Path, run: str) -> str:
        """Save the result in `folder` as that of a run; returns its digest. Raises `OSError`."""
        files, _ = self._reached
        digest = layout.seal_of(folder)
        below = self._below(run, digest)
        names = [*layout.digests_of(folder), layout.META]
        for name in names:
            place = f"{below}/{name}"
            if files.type_name not in _WITHOUT_FOLDERS:
                files.create_dir(place.rpartition("/")[0], recursive=True)
            with (folder / name).open("rb") as source, files.open_output_stream(place) as target:
                shutil.copyfileobj(source, target, _CHUNK)
        return digest

    def fetch(self, run: str, digest: str, folder: Path) -> Verified:
        """Download a run's result into an empty folder and verify it; `StoreError` if it is missing or damaged."""
        files, _ = self._reached
        below = self._below(run, digest)

        def take(name: str) -> None:
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            with files.open_input_stream(f"{below}/{name}") as source, place.open("wb") as target:
                shutil.copyfileobj(source, target, _CHUNK)

        try:
            take(layout.META)
            for name in layout.digests_of(folder):
                take(name)
        except OSError as error:
            raise StoreError(f"the tables of {run} cannot be had from {self.url}: {error}") from None
        found = layout.verify(folder, digest)
        if not found.ok:
            raise StoreError(f"the tables of {run} in {self.url} are damaged: {found.damaged[0]}")
        return found

    def has(self, run: str, digest: str) -> bool:
        """Whether all files of a run's result exist; their contents are verified when they are read."""
        files, _ = self._reached
        below = self._below(run, digest)
        try:
            with files.open_input_stream(f"{below}/{layout.META}") as source:
                meta = json.loads(source.read())
            places = [f"{below}/{name}" for name in meta["files"]]
            return seal(meta) == digest and all(info.is_file for info in files.get_file_info(places))
        except FileNotFoundError:
            return False
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
        except OSError as error:
            raise StoreError(f"{self.url} cannot be reached: {error}") from None

    def verify(self, run: str, digest: str) -> Verified:
        """Read a run's result and compare it with its digest."""
        with tempfile.TemporaryDirectory(prefix="tailback-") as folder:
            try:
                return self.fetch(run, digest, Path(folder))
            except ResultError as error:
                return Verified(damaged=[str(error)])

    def _below(self, run: str, digest: str) -> str:
        return f"{self._reached[1]}/{run[:2]}/{run}/{digest[:16]}"
