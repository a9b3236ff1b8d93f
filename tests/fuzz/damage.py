"""Damaged results, stores and captures: reading one is an error that says so, or gives what it was."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import tailback as tb
from tailback import capture
from tailback.errors import TailbackError
from tailback.experiment.store import Store

KINDS = ("result", "store", "capture")


@cache
def _base() -> tb.Result:
    flows = [tb.bulk("reno", name="a"), tb.voip(name="call")]
    wanted = {"packets": "all", "polls": "all", "captures": ["left"]}
    return tb.run(
        tb.dumbbell(rate="1mbit", rtt="20ms", queue="10packets", flows=flows, duration="1s", instruments=wanted)
    )


def _made(kind: str, folder: Path) -> Path:
    """A sound one, kept in `folder`."""
    place = folder / kind
    if place.exists():
        return place
    if kind == "result":
        return _base().save(place)
    if kind == "capture":
        capture.export(_base(), "left", place)
        return place
    store = Store(place)
    plain = tb.dumbbell(rate="1mbit", rtt="20ms", queue="10packets", flows=[tb.bulk("reno", name="a")], duration="0.2s")
    tb.sweep(plain, {"flow.a.cc": ["reno", "cubic"]}, store=store, keep="tables")
    return place


def _read(kind: str, place: Path) -> Iterator[object]:
    """All that it says, part by part."""
    if kind == "result":
        result = tb.open_result(place)
        yield result.resolved, result.toml
        for name in result.tables:
            yield {key: column.tobytes() for key, column in result.numpy(name).items()}
    elif kind == "store":
        store = Store(place, create=False)
        yield store.frame().select("key", "status", "tables_sha256").to_dicts()
        for key in sorted(store.frame()["key"]):
            yield from _read("result", store.tables_folder(str(store.find(key)["run"])))
    else:
        for read in (capture.flows, capture.throughput, capture.rtt, capture.identify):
            read(place)  # type: ignore[operator]
        yield None


def _broken(kind: str, place: Path, draw: random.Random) -> None:
    """Do one thing to one of its files that no writer does."""
    files = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
    path = draw.choice([path for path in files if path.name != "lock"])
    data = bytearray(path.read_bytes())

    def flip() -> None:
        for _ in range(draw.choice((1, 1, 4))):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)

    def write(what: bytes) -> Callable[[], object]:
        return lambda: path.write_bytes(what)

    def instead(make: Callable[[], object]) -> Callable[[], object]:
        return lambda: (path.unlink(), make())

    at = draw.randrange(len(data) + 1)
    acts: list[Callable[[], object]] = [
        flip,
        flip,
        write(bytes(data[:at])),
        write(bytes(data[:at]) + draw.randbytes(9) + bytes(data[at:])),
        write(draw.randbytes(len(data))),
        write(b""),
        instead(lambda: None),
        instead(path.mkdir),
    ]
    if kind != "capture":
        # A capture may come through a pipe: the user names it.
        acts += [instead(lambda: os.mkfifo(path)), instead(lambda: path.symlink_to("/dev/zero"))]
    draw.choice(acts if data else acts[5:])()


def problem(seed: int, folder: Path) -> str | None:
    """What is wrong with how damage is read, in a line; None if nothing is."""
    draw = random.Random(f"damage {seed}")
    kind = KINDS[seed % len(KINDS)]
    sound = _made(kind, folder)
    place = folder / f"{kind}-{seed}"
    shutil.copytree(sound, place) if sound.is_dir() else shutil.copyfile(sound, place)
    try:
        _broken(kind, place, draw)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = list(_read(kind, sound)) if kind == "result" else []
            with contextlib.suppress(TailbackError):
                found = list(_read(kind, place))
                # What is read in spite of it is what was written.
                if kind == "result" and found != expected:
                    return "a damaged result was read as another one"
    except Exception as error:  # whatever else it is, it is a fault
        return f"a damaged {kind} raised {type(error).__name__}: {error}"
    finally:
        shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink(missing_ok=True)
    return None
