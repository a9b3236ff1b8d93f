"""A flipped bit in what is kept is noticed, or changes nothing that is read."""

import json
import os
import random
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import tailback as tb
from tailback.experiment.store.index import Writer

FLIPS = 200


def scenario(**more: Any) -> tb.Scenario:
    flows = [tb.bulk("reno", name="bulk"), tb.voip()]
    instruments = {"packets": "voip", "polls": "all", "poll_interval": "100ms"}
    path = {"rate": "1mbit", "rtt": "20ms", "duration": "2s", "name": "kept"}
    return tb.dumbbell(flows=flows, instruments=instruments, **path | more)


@pytest.fixture(scope="module")
def result() -> tb.Result:
    made = tb.run(scenario())
    made._files = {"voip/client.out": b"what a program wrote"}
    return made


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a part of the index, kept tables, and the journal of a writer that was killed."""
    folder = tmp_path_factory.mktemp("store") / "store"
    tb.sweep(scenario(), {"flow.bulk.cc": ["reno", "cubic"]}, seeds=2, store=folder, keep="tables")
    writer = Writer(folder)
    for number in range(3):
        writer.add({"key": f"left-{number}", "status": "ok", "finished": 9e9 + number, "mark": number / 3})
    os.close(writer._handle)
    return folder


def refused_by_result(folder: Path) -> list[Any]:
    opened = tb.open_result(folder)
    tables = {name: {key: column.tobytes() for key, column in opened.numpy(name).items()} for name in opened.tables}
    return [opened.resolved, opened.toml, opened.meta, tables, opened.files, opened.flow_summary()]


def refused_by_store(folder: Path) -> list[Any]:
    opened = tb.open_store(folder)
    frame = opened.frame()
    kept = [row["key"] for row in frame.to_dicts() if row["tables"]]
    return [frame.to_dicts(), [refused_by_result(opened.tables_folder(opened.find(key)["run"])) for key in kept]]


def flips(folder: Path, count: int, seed: int) -> Iterator[Path]:
    """Flip one bit at a time, in every file in turn, and restore it."""
    draw = random.Random(seed)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]
    for number in range(count):
        path = files[number % len(files)]
        whole = path.read_bytes()
        harmed = bytearray(whole)
        harmed[draw.randrange(len(harmed))] ^= 1 << draw.randrange(8)
        path.write_bytes(harmed)
        yield path
        path.write_bytes(whole)


def noticed_or_harmless(read: Callable[[], Any], expected: Any) -> bool:
    """True if it was noticed; fails if something else was read in silence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", tb.KeptWarning)
            found = read()
    except (tb.TailbackError, tb.KeptWarning):
        return True
    assert repr(found) == repr(expected)
    return False


def test_bits_flipped_in_a_result_are_noticed_or_harmless(result: tb.Result, tmp_path: Path) -> None:
    folder = result.save(tmp_path / "result")
    expected = refused_by_result(folder)
    assert len(list(folder.rglob("*"))) > 8
    noticed = 0
    for path in flips(folder, FLIPS, 1):
        seen = noticed_or_harmless(lambda: refused_by_result(folder), expected)
        noticed += seen
        # White space of meta.json may differ and mean the same; nothing else may.
        assert seen != tb.verify(folder).ok, path
        assert seen or path.name == "meta.json"
    assert noticed > 0.9 * FLIPS
    assert tb.verify(folder).ok


def test_bits_flipped_in_a_store_are_noticed_or_harmless(store: Path) -> None:
    expected = refused_by_store(store)
    noticed = 0
    for path in flips(store, FLIPS // 2, 2):
        seen = noticed_or_harmless(lambda: refused_by_store(store), expected)
        noticed += seen
        assert seen or path.name in ("meta.json", "store.json"), path
    assert noticed > 0.8 * FLIPS // 2
    assert tb.verify(store).ok


@pytest.mark.parametrize("what", ["tables", "index"])
def test_a_sweep_takes_nothing_damaged_for_done(what: str, tmp_path: Path) -> None:
    def again() -> tb.SweepResult:
        return tb.sweep(scenario(), seeds=2, store=tmp_path / "store", keep="tables")

    first = again()
    assert (again().run, again().reused) == (0, 2)
    path = next((tmp_path / "store" / what).rglob("*.parquet"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    assert not tb.verify(tmp_path / "store").ok
    if what == "index":
        with pytest.warns(tb.KeptWarning, match=rf"{path.name} is damaged: it differs from its checksum.*\.damaged"):
            assert (again().run, again().reused) == (2, 2)
        assert not path.exists()
        assert len(tb.verify(tmp_path / "store").damaged) == 1
        assert tb.open_store(tmp_path / "store").gc().leftovers == 1
    else:
        assert (again().run, again().reused) == (1, 2)
    assert tb.verify(tmp_path / "store").ok
    assert np.array_equal(again().frame["goodput_mbps"], first.frame["goodput_mbps"])


def test_tables_of_another_run_are_noticed(tmp_path: Path) -> None:
    done = tb.sweep(scenario(), {"flow.bulk.cc": ["reno", "cubic"]}, store=tmp_path / "store", keep="tables")
    one, other = (done.store.tables_folder(run) for run in done.frame["run"])
    shutil.rmtree(one)
    shutil.copytree(other, one)
    assert tb.verify(one).ok
    assert any("is of another run" in text for text in tb.verify(done.store.folder).damaged)
    with pytest.raises(tb.ResultError, match="is not what"):
        done.result(done.frame["key"][0])


def without_checksums(folder: Path) -> Path:
    """As tailback 0.1 wrote it."""
    path = folder / "meta.json"
    meta = json.loads(path.read_text())
    del meta["files"], meta["sha256"]
    path.write_text(json.dumps(meta | {"format": 1}, indent=1) + "\n")
    return folder


def test_a_result_of_0_1_is_read_and_says_what_it_lacks(result: tb.Result, tmp_path: Path) -> None:
    folder = without_checksums(result.save(tmp_path / "old"))
    with pytest.warns(tb.KeptWarning, match="without checksums"):
        old = tb.open_result(folder)
    assert np.array_equal(old.column("packets", "sent_s"), result.column("packets", "sent_s"))
    assert old.files == result.files
    found = tb.verify(folder)
    assert (found.ok, found.files, len(found.unchecked) > 5) == (True, 0, True)
    assert not tb.verify(old.save(tmp_path / "new")).unchecked


def test_a_store_of_0_1_is_read_and_says_what_it_lacks(tmp_path: Path) -> None:
    store = tb.Store(tmp_path / "store")
    with store.writer() as writer:
        writer.add({"key": "a", "status": "ok", "finished": 1.0})
    # Parts had no checksum in their names, and lines of journals none at their ends.
    store.parts()[0].rename(store.folder / "index" / "20250101T000000-abcd.parquet")
    (store.folder / "journal" / "20250101T000000-ef01.ndjson").write_text('{"key":"b","status":"ok","finished":2}\n')
    with pytest.warns(tb.KeptWarning, match="without checksums"):
        assert store.frame()["key"].to_list() == ["a", "b"]
    assert (store.verify().ok, len(store.verify().unchecked)) == (True, 1)
    with pytest.warns(tb.KeptWarning):
        store.gc()
    assert store.frame()["key"].to_list() == ["a", "b"]
    assert not store.verify().unchecked


def test_pages_have_checksums_for_other_readers(result: tb.Result, tmp_path: Path) -> None:
    path = result.save(tmp_path / "result") / "packets.parquet"
    chunk = pq.read_metadata(path).row_group(0).column(0)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(OSError, match="CRC checksum"):
        pq.read_table(path, page_checksum_verification=True)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/b", "A", "flows\x00"])
def test_a_table_cannot_lie_outside_its_folder(name: str, result: tb.Result, tmp_path: Path) -> None:
    outside = tmp_path / "outside.parquet"
    shutil.copy(result.save(tmp_path / "one") / "flows.parquet", outside)
    folder = without_checksums(result.save(tmp_path / "result"))
    meta = json.loads((folder / "meta.json").read_text())
    meta["tables"][name] = 2
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(tb.ResultError, match="is no name of a table"):
        tb.open_result(folder)
    tables = {name: dict(result.numpy("flows"))}
    strange = tb.Result(resolved=result.resolved, toml=result.toml, tables=tables)
    with pytest.raises(tb.ResultError, match="is no name of a table"):
        strange.save(tmp_path / "two")
    assert not (tmp_path / "two").exists()
    strange = tb.Result(
        resolved=result.resolved, toml=result.toml, tables={}, files={name if "/" in name else "..": b""}
    )
    if name != "a/b":
        with pytest.raises(tb.ResultError, match="is no name of a file"):
            strange.save(tmp_path / "two")


def test_a_run_cannot_lie_outside_its_store(tmp_path: Path) -> None:
    store = tb.Store(tmp_path / "store")
    with store.writer() as writer:
        writer.add({"key": "a", "run": "../../outside", "status": "ok", "finished": 1.0, "tables": True})
    with pytest.raises(tb.ResultError, match="no name of a folder"):
        store.result("a")
    assert not store.verify().ok


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"flows": [{}]}, r"resolved.json has no flows\[0\].name that is a str"),
        ({"links": [{"name": "a"}]}, r"resolved.json has no links\[0\].from"),
        ({"flows": "many"}, "no flows that is a list"),
        ({"seed": None}, "no seed that is a int"),
        ({"instruments": []}, "no instruments that is a dict"),
    ],
)
def test_a_result_of_another_shape_is_refused_when_it_is_opened(
    change: dict[str, Any], says: str, result: tb.Result, tmp_path: Path
) -> None:
    folder = without_checksums(result.save(tmp_path / "result"))
    path = folder / "resolved.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(tb.ResultError, match=says):
        tb.open_result(folder)


def test_a_missing_column_is_named(result: tb.Result, tmp_path: Path) -> None:
    folder = without_checksums(result.save(tmp_path / "result"))
    path = folder / "flows.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["bytes_received"]), path)
    with pytest.warns(tb.KeptWarning):
        opened = tb.open_result(folder)
    with pytest.raises(tb.ResultError, match=r"^table flows has no column bytes_received\. Did you mean"):
        opened.flow_summary()
