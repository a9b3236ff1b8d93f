"""Only what tailback can prove to be its own is removed or replaced, and no link is followed on the way."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import tailback as tb
from tailback import files
from tailback.experiment.store import Store, StoreError
from tailback.result import layout

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links need a privilege on Windows")

SMALL = tb.dumbbell(rate="1mbit", rtt="20ms", flows=[tb.bulk("reno")], duration="0.1s")


@pytest.fixture(scope="module")
def result() -> tb.Result:
    return tb.run(SMALL)


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Every path below a folder, with a file's bytes; links are not followed."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def victim(tmp_path: Path, result: tb.Result) -> Path:
    """Someone's own files beside a store, one of them a result that no link may lead to."""
    folder = tmp_path / "victim"
    (folder / "precious").mkdir(parents=True)
    (folder / "precious" / "a").write_text("mine")
    (folder / "b").write_text("mine")
    result.save(folder / "kept")
    return folder


def row(key: str, **more: object) -> dict[str, object]:
    return {"key": key, "run": key, "engine": "e", "status": "ok", "finished": 1.0, **more}


def test_gc_leaves_links_and_strange_files_wherever_they_are(tmp_path: Path, victim: Path, result: tb.Result) -> None:
    store = Store(tmp_path / "store")
    with store.writer() as writer:
        writer.add(row("kept0", tables=True))
        writer.add(row("gone"))
    result.save(store.tables_folder("kept0"))
    result.save(store.tables_folder("unneeded"))
    tables = store.folder / "tables"
    planted = [
        (tables / "zz", victim),
        (tables / "un" / "link", victim),
        (tables / "un" / ".x.01234567.partial", victim),
        (tables / "un" / "unlinked", victim / "kept"),
        (store.folder / "index" / "20250101T000000-0000.parquet", victim / "b"),
        (store.folder / "index" / ".20250101T000000-0000.partial", victim),
        (store.folder / "journal" / "20250101T000000-0000.damaged", victim),
        (store.folder / "journal" / "20250101T000000-0000.ndjson", victim / "b"),
    ]
    for place, target in planted:
        place.symlink_to(target)
    strange = [
        store.folder / "README",
        tables / "notes.txt",
        tables / "un" / "notes.txt",
        tables / "un" / "unpacked" / "mine.c",
        tables / "un" / ".git" / "config",
        tables / "un" / ".mine.01234567.partial" / "mine.c",
        store.folder / "index" / "mine.parquet",
        store.folder / "index" / ".mine.partial",
        store.folder / "journal" / "mine.ndjson",
        store.folder / "journal" / "mine.damaged",
    ]
    for path in strange:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    # A result to which someone has added a file is no longer only a result.
    added = result.save(tables / "un" / "unfinished") / "paper.tex"
    added.write_text("mine")
    os.mkfifo(tables / "un" / "fifo")
    half = tables / "un" / ".half.01234567.partial"
    half.mkdir()
    (half / files._MARK).write_bytes(files._MARKED)
    (half / "out").symlink_to(victim)
    before = snapshot(victim)
    done = store.gc()
    assert snapshot(victim) == before
    assert [path for path in [*strange, added] if not path.is_file()] == []
    assert [place for place, _ in planted if not place.is_symlink()] == []
    assert (done.tables, done.leftovers) == (1, 1)
    assert not store.tables_folder("unneeded").exists()
    assert not half.exists()
    assert {path.name for path in done.left} == {
        "zz", "link", "unlinked", "notes.txt", "unpacked", "unfinished", "fifo",
    }  # fmt: skip
    assert layout.verify(store.tables_folder("kept0")).ok


@pytest.mark.parametrize("name", ["tables", "index", "journal", "lock"])
def test_a_store_whose_own_folders_are_links_is_refused(name: str, tmp_path: Path, victim: Path) -> None:
    store = Store(tmp_path / "store")
    path = store.folder / name
    path.unlink() if name == "lock" else path.rmdir()
    path.symlink_to(victim / "b" if name == "lock" else victim)
    before = snapshot(victim)
    with pytest.raises(StoreError, match=f"{name} is a link"):
        tb.sweep(SMALL, seeds=1, store=store.folder, keep="tables")
    (store.folder / "store.json").unlink()
    with pytest.raises(StoreError, match=f"{name} is a link"):
        Store(store.folder)
    assert snapshot(victim) == before


def test_tables_are_not_written_through_a_link(tmp_path: Path, victim: Path) -> None:
    store = Store(tmp_path / "store")
    done = tb.sweep(SMALL, seeds=1, store=store, keep="tables")
    (shard,) = (store.folder / "tables").iterdir()
    shutil.rmtree(shard)
    shard.symlink_to(victim)
    before = snapshot(victim)
    with pytest.raises(StoreError, match="is a link"):
        tb.sweep(SMALL, seeds=1, store=Store(store.folder), keep="tables")
    assert snapshot(victim) == before
    assert done.run == 1


def test_out_replaces_a_result_and_an_empty_folder_only(tmp_path: Path, result: tb.Result) -> None:
    kept = result.save(tmp_path / "kept")
    tb.run(SMALL.with_(seed=2), out=kept)
    assert tb.open_result(kept).resolved["seed"] == 2
    (tmp_path / "empty").mkdir()
    assert tb.run(SMALL, out=tmp_path / "empty")
    meta = json.loads((kept / "meta.json").read_text())

    def project(folder: Path) -> None:
        (folder / "meta.json").write_text('{"name": "my project"}')

    def forged(folder: Path) -> None:
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        (folder / "meta.json").write_text(json.dumps(meta | {"files": {}, "tables": {}}))

    def first_version(folder: Path) -> None:
        (folder / "meta.json").write_text('{"format": 1, "tables": {}, "name": "mine"}')

    def added(folder: Path) -> None:
        shutil.copytree(kept, folder, dirs_exist_ok=True)

    def linked(folder: Path) -> None:
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        (folder / "work.c").unlink()
        (folder / "data").symlink_to(tmp_path)

    def meta_is_a_link(folder: Path) -> None:
        (folder / "meta.json").symlink_to(kept / "meta.json")

    for plant in (project, forged, first_version, added, linked, meta_is_a_link):
        folder = tmp_path / plant.__name__
        folder.mkdir()
        (folder / "work.c").write_text("mine")
        plant(folder)
        before = snapshot(folder)
        for replaces in (lambda: tb.run(SMALL, out=folder), lambda: result.save(folder)):  # noqa: B023
            with pytest.raises(tb.ResultError, match="is left alone"):
                replaces()
        assert snapshot(folder) == before
    (link := tmp_path / "link").symlink_to(kept)
    with pytest.raises(tb.ResultError, match="is a link"):
        tb.run(SMALL, out=link)
    assert link.is_symlink()
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".partial")] == []


def test_what_is_put_into_a_folder_during_the_run_is_not_lost(tmp_path: Path, result: tb.Result) -> None:
    kept = result.save(tmp_path / "kept")
    with pytest.raises(tb.ResultError, match=r"also holds notes\.txt"), files.whole_folder(kept, layout.objection):
        (kept / "notes.txt").write_text("mine")
    assert (kept / "notes.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_new_sweep_removes_what_a_killed_one_left_unfinished(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    (half := store.folder / "tables" / "ab" / ".abc.01234567.partial").mkdir(parents=True)
    (half / files._MARK).write_bytes(files._MARKED)
    (half / "whole").mkdir()
    with store.writer():
        assert not half.exists()


def test_removing_follows_no_link(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "way").symlink_to(victim)
    before = snapshot(victim)
    for below in (("way", "b"), ("way", "precious"), ("way",)):
        with pytest.raises(OSError, match=r"Not a directory|no ordinary file"):
            files.remove(tmp_path, *below)
    assert snapshot(victim) == before
