"""The store: a finished run is kept whatever happens to its writer, and is found again."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import tailback as tb
from tailback import files
from tailback.experiment.store import Store, StoreError, engine_fingerprint, index, open_store, run_key

#: Sweeps SEEDS short runs into the store argv[1] and says after each that it is kept.
SWEEPER = """
import sys
import tailback as tb

base = tb.dumbbell(
    rate="2mbit", rtt="20ms", queue="20packets", flows=[tb.bulk("reno", name="a")], duration="1s",
    randomness={"start_spread": "10ms"},
)
count = lambda done, total: print(done, flush=True)
out = tb.sweep(base, {"flow.a.cc": ["reno", "cubic"]}, seeds=int(sys.argv[2]), store=sys.argv[1], progress=count)
print("end", out.run, out.reused, out.failed, flush=True)
"""


def row(key: str, status: str = "ok", finished: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"key": key, "run": key, "engine": engine_fingerprint(), "status": status, "finished": finished} | more


def sweeper(store: Path, seeds: int, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SWEEPER, str(store), str(seeds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with store.writer() as writer:
        writer.add(row("a", metric=1.5, **{"flow.bulk.cc": "reno"}))
        # Seen by others at once, before anything is folded.
        assert store.frame()["key"].to_list() == ["a"]
        writer.add(row("b", metric=float("nan"), other=7))
    frame = store.frame()
    assert frame["key"].to_list() == ["a", "b"]
    assert frame["metric"].to_list() == [1.5, None]
    assert frame["flow.bulk.cc"].to_list() == ["reno", None]
    assert list((store.folder / "journal").iterdir()) == []
    assert len(store.parts()) == 1


def test_columns_of_different_sweeps_lie_side_by_side(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    for number, value in enumerate(["1bdp", 3, 2.5]):
        with store.writer() as writer:
            writer.add(row(f"k{number}", axis=value))
    assert store.frame()["axis"].to_list() == ["1bdp", "3.0", "2.5"]


def test_a_success_hides_failures_and_the_newest_counts(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with store.writer() as writer:
        writer.add(row("a", "ok", 2.0, value=1))
        writer.add(row("a", "failed", 3.0, error="later, and yet"))
        writer.add(row("b", "failed", 1.0, error="first"))
        writer.add(row("b", "failed", 2.0, error="second"))
    frame = {entry["key"]: entry for entry in store.frame().to_dicts()}
    assert frame["a"]["status"] == "ok"
    assert frame["b"]["error"] == "second"


def test_a_torn_line_costs_only_itself(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    journal = store.folder / "journal" / "20250101T000000-0123.ndjson"
    whole = [json.dumps(row(f"k{number}")) for number in range(3)]
    journal.write_text(whole[0] + "\n" + whole[1][:20] + "\n" + whole[2] + "\n" + whole[0][:30])
    with pytest.warns(tb.KeptWarning, match="1 of its lines cannot be read"):
        assert store.frame()["key"].to_list() == ["k0", "k2"]
    with pytest.warns(tb.KeptWarning), store.writer():
        assert not journal.exists()
    assert not store.verify().ok
    store.gc()
    assert store.verify().ok
    assert store.frame()["key"].to_list() == ["k0", "k2"]


def test_columns_of_0_1_have_the_names_of_today(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    pl.DataFrame(row("part", **{"voip.felt_mos": 4.0})).write_parquet(
        store.folder / "index" / "20250101T000000-0123.parquet"
    )
    (store.folder / "journal" / "20250101T000000-4567.ndjson").write_text(
        json.dumps(row("line", **{"voip.felt_mos": 3.5})) + "\n"
    )
    with pytest.warns(tb.KeptWarning, match="without checksums"):
        frame = store.frame().select("key", "^voip.*$").sort("key")
    assert frame.to_dicts() == [
        {"key": "line", "voip.experience_mos": 3.5},
        {"key": "part", "voip.experience_mos": 4.0},
    ]


def test_a_long_journal_is_folded_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "FOLD_AFTER", 10)
    store = Store(tmp_path / "store")
    follower = store.follow(["key", "status"])
    seen = set()
    with store.writer() as writer:
        for number in range(35):
            writer.add(row(f"k{number:02}"))
            seen |= {entry["key"] for entry in follower.look()}
            assert len(seen) == number + 1
        assert len(store.parts()) == 3
    assert len(store.frame()) == 35


def test_a_journal_in_use_is_left_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with store.writer() as first:
        first.add(row("a"))
        assert not store.shared_with(first)
        with store.writer() as second:
            assert first.journal.exists()
            assert store.shared_with(first)
            assert store.shared_with(second)
            second.add(row("b"))
        first.add(row("c"))
    assert sorted(store.frame()["key"]) == ["a", "b", "c"]


def test_killed_at_any_moment_nothing_reported_is_lost(tmp_path: Path) -> None:
    """Each generation is killed while it works; whatever any of them reported is there, and is not run again."""
    folder, seeds = tmp_path / "store", 100
    moment = random.Random(7)
    kept: set[str] = set()
    for _ in range(5):
        with sweeper(folder, seeds) as child:
            assert child.stdout is not None
            least = 0
            goal = len(kept) + moment.randrange(5, 25)
            for line in child.stdout:
                least = int(line) if line.strip().isdigit() else least
                if least >= goal:
                    break
            time.sleep(moment.random() * 0.01)
            child.send_signal(signal.SIGKILL)
            rest = child.stdout.read().splitlines()
            least = max([least, *(int(line) for line in rest if line.isdigit())])
        assert child.returncode == -signal.SIGKILL
        frame = open_store(folder).frame()
        assert set(frame["status"]) == {"ok"}
        now = set(frame["key"])
        assert kept <= now
        assert len(now) >= least
        kept = now
    done = sweeper(folder, seeds)
    out, err = done.communicate()
    assert done.returncode == 0, err
    run, reused, failed = map(int, out.splitlines()[-1].split()[1:])
    assert (run + reused, failed) == (2 * seeds, 0)
    assert reused == len(kept)
    assert len(open_store(folder).frame()) == 2 * seeds
    assert list((folder / "journal").iterdir()) == []


@pytest.mark.parametrize(("reach", "kept"), [(5, ["a"]), (None, ["a", "b"])])
def test_an_interrupt_after_the_last_byte_of_a_row_takes_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reach: int | None, kept: list[str]
) -> None:
    store, write = Store(tmp_path / "store"), os.write

    def interrupted(handle: int, data: bytes) -> int:
        write(handle, data[:reach])
        raise KeyboardInterrupt

    with store.writer() as writer:
        writer.add(row("a"))
        with monkeypatch.context() as change:
            change.setattr(os, "write", interrupted)
            with pytest.raises(KeyboardInterrupt):
                writer.add(row("b"))
    assert store.frame()["key"].sort().to_list() == kept


def test_two_sweeps_at_once_share_the_work(tmp_path: Path) -> None:
    folder, seeds = tmp_path / "store", 150
    both = [sweeper(folder, seeds) for _ in range(2)]
    ends = []
    for child in both:
        out, err = child.communicate()
        assert child.returncode == 0, err
        ends.append(tuple(map(int, out.splitlines()[-1].split()[1:])))
    assert [run + reused for run, reused, _ in ends] == [2 * seeds] * 2
    assert [failed for *_, failed in ends] == [0, 0]
    frame = open_store(folder).frame()
    assert len(frame) == 2 * seeds
    assert frame["key"].is_unique().all()


def test_a_full_disk_ends_the_sweep_and_keeps_what_was_done(tmp_path: Path) -> None:
    """A limit on the size of files makes the same short writes and refusals as a full disk, without one."""
    folder = tmp_path / "store"
    limited = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    limited += "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
    command = [sys.executable, "-c", limited + SWEEPER, str(folder), "100"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert "make room" in done.stderr
    reported = int(done.stdout.split()[-1])
    frame = open_store(folder).frame()
    assert 3 < reported <= len(frame) < 200
    journals = list((folder / "journal").iterdir())
    assert all(text.endswith("}\n") for text in (path.read_text() for path in journals))
    again = sweeper(folder, 100)
    out, err = again.communicate()
    assert again.returncode == 0, err
    assert out.splitlines()[-1] == f"end {200 - len(frame)} {len(frame)} 0"


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB, where the system lets us make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all the space there is."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return ballast


def test_a_disk_that_is_full_when_the_journal_is_folded_costs_nothing(tiny_disk: Path) -> None:
    store = Store(tiny_disk / "store")
    writer = index.Writer(store.folder)
    for number in range(10):
        writer.add(row(f"k{number}"))
    ballast = fill(tiny_disk)
    with pytest.warns(tb.KeptWarning, match=r"No space left on device\. Nothing is lost"):
        writer.close()
    assert store.parts() == []
    assert [path.name for path in (store.folder / "index").iterdir()] == []
    assert len(store.frame()) == 10
    assert store.verify().ok
    with pytest.raises(StoreError, match=r"No space left on device\. Make room"), store.writer():
        pass
    ballast.unlink()
    with store.writer() as writer:
        writer.add(row("k10"))
    assert len(store.frame()) == 11
    assert list((store.folder / "journal").iterdir()) == []


def test_a_long_journal_survives_a_disk_that_is_full_when_it_is_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above without the right to mount, and with a disk that has space again while the sweep goes on."""
    monkeypatch.setattr(index, "FOLD_AFTER", 5)
    store = Store(tmp_path / "store")
    genuine = index.write_part
    full = [True]

    def write_part(*given: Any) -> Path:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return genuine(*given)

    monkeypatch.setattr(index, "write_part", write_part)
    with store.writer() as writer:
        for number in range(12):
            writer.add(row(f"k{number}"))
        full[0] = False
    assert len(store.parts()) == 1
    assert len(store.frame()) == 12


def test_a_half_written_row_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "store")
    real, calls = os.write, []

    def short(handle: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return real(handle, data[:10])

    with store.writer() as writer:
        writer.add(row("a"))
        monkeypatch.setattr(os, "write", short)
        with pytest.raises(StoreError, match="No space left on device"):
            writer.add(row("b"))
        monkeypatch.undo()
        writer.add(row("c"))
    assert store.frame()["key"].to_list() == ["a", "c"]


def test_a_store_of_another_version_is_left_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    Store(folder)
    mark = folder / "store.json"
    mark.write_text(mark.read_text().replace('"format": 1', '"format": 99'))
    before = sorted(path.name for path in folder.rglob("*"))
    with pytest.raises(StoreError, match=r"has layout 99; this tailback reads and writes layout 1"):
        Store(folder)
    assert sorted(path.name for path in folder.rglob("*")) == before


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        open_store(tmp_path / "missing")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("…")
    with pytest.raises(StoreError, match="is no store"):
        Store(tmp_path / "letters")
    damaged = Store(tmp_path / "damaged").folder / "store.json"
    damaged.write_text("{")
    with pytest.raises(StoreError, match="is damaged"):
        open_store(tmp_path / "damaged")


def test_a_damaged_part_is_named_and_not_used(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with store.writer() as writer:
        writer.add(row("a"))
    damaged = store.parts()[0]
    with store.writer() as writer:
        writer.add(row("b"))
    damaged.write_bytes(b"PAR1 and no more")
    for read in (store.frame, lambda: store.query("SELECT key FROM runs")):
        with pytest.warns(tb.KeptWarning, match=f"{damaged.name} is damaged"):
            assert read()["key"].to_list() == ["b"]
    assert len(store.verify().damaged) == 1
    assert damaged.exists()


def test_the_key_follows_scenario_engine_and_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_key("{}")
    assert run_key("{}") == first
    assert len({first, run_key("{} "), run_key("{}", "more")}) == 3
    monkeypatch.setattr("tailback.experiment.store.engine_fingerprint", lambda: "another engine")
    assert run_key("{}") != first


def test_other_engines_runs_are_kept_but_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = tb.dumbbell(rate="1mbit", rtt="20ms", flows=[tb.bulk("reno", name="a")], duration="1s")
    assert tb.sweep(base, seeds=2, store=tmp_path / "store").run == 2
    for module in ("tailback.experiment.store", "tailback.experiment.runner", "tailback.experiment.workers"):
        monkeypatch.setattr(sys.modules[module], "engine_fingerprint", lambda: "another engine")
    done = tb.sweep(base, seeds=2, store=tmp_path / "store")
    assert (done.run, done.reused, len(done.frame)) == (2, 0, 2)
    assert len(done.store.frame()) == 4
    assert done.store.gc(other_engines=True).rows == 2
    assert set(done.store.frame()["engine"]) == {"another engine"}


def test_gc_removes_what_nothing_needs(tmp_path: Path) -> None:
    small = tb.run(tb.dumbbell(rate="1mbit", rtt="20ms", flows=[tb.bulk("reno")], duration="0.1s"))
    store = Store(tmp_path / "store")
    for number in range(3):
        with store.writer() as writer:
            writer.add(row("same", finished=float(number), tables=True))
            writer.add(row(f"bad{number}", "failed"))
    for name in ("same", "gone"):
        small.save(store.tables_folder(name))
    half = store.folder / "tables" / "sa" / ".same.01234567.partial"
    half.mkdir()
    (half / files._MARK).write_bytes(files._MARKED)
    (half / "t.parquet").write_bytes(b"0123456789")
    before = store.frame()
    assert store.gc(dry_run=True) == store.gc()
    assert len(store.parts()) == 1
    assert store.frame().equals(before)
    assert [path.name for path in (store.folder / "tables").glob("*/*")] == ["same"]
    done = store.gc(failed=True)
    assert (done.rows, done.bytes) == (3, 0)
    assert store.frame()["key"].to_list() == ["same"]


def test_gc_waits_for_no_sweep(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with store.writer() as writer:
        writer.add(row("a"))
        with pytest.raises(StoreError, match="in use"):
            store.gc()
    store.gc()
    assert store.frame()["key"].to_list() == ["a"]


def test_the_files_can_be_asked_in_place(tmp_path: Path) -> None:
    """As the documentation shows: any reader of Parquet, without tailback."""
    store = Store(tmp_path / "store")
    for number in range(2):
        with store.writer() as writer:
            writer.add(row(f"k{number}", value=number))
    found = pl.scan_parquet(store.folder / "index" / "*.parquet").select(pl.col("value").sum()).collect()
    assert found.item() == 1.0
    assert store.query("SELECT sum(value) FROM runs WHERE status = 'ok'").item() == 1.0
    with pytest.raises(tb.TailbackError, match="cannot be answered"):
        store.query("SELECT nothing FROM runs")


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT valu FROM runs", 'did you mean "value"'),
        ("SELECT flow.a.cc FROM runs", 'needs double quotes, such as "flow.a.cc"'),
        ("SELECT value FROM results", "the only table is runs"),
        ("SELECT zzzzzz FROM runs", 'columns with numbers are .*"value".*SELECT \\* FROM runs'),
        ("DELETE FROM runs", "begins with SELECT"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused_with_a_reason(tmp_path: Path, sql: str, says: str) -> None:
    store = Store(tmp_path / "store")
    with store.writer() as writer:
        writer.add(row("k1", value=1) | {"flow.a.cc": "reno"})
    with pytest.raises(tb.TailbackError, match=says) as raised:
        store.query(sql)
    assert "\n" not in str(raised.value)
    assert store.columns().filter(pl.col("column") == "flow.a.cc").row(0) == ("flow.a.cc", "String", "reno")


def test_duckdb_asks_the_files_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The very questions of docs/sweeps.md, to files that a sweep has written and to some that it is writing."""
    page = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text(encoding="utf-8")
    summary, newest = page.split("```sql\n")[1].split("```")[0].split(";")[:2]
    monkeypatch.chdir(tmp_path)
    base = tb.dumbbell(
        rate="2mbit", rtt="20ms", flows=[tb.bulk(), tb.voip()], duration="1s", instruments={"packets": ["voip"]}
    )
    done = tb.sweep(base, {"flow.bulk.cc": ["reno", "cubic"]}, seeds=2, store="results/store")
    asked = dict(duckdb.sql(summary).fetchall())
    rows = done.summary("voip.delay_p95_ms").to_dicts()
    assert asked == {row["flow.bulk.cc"]: pytest.approx(row["median"]) for row in rows}
    with Store("results/store").writer() as writer:
        writer.add(row("k1"))
        writer.add(row("k2"))
        assert duckdb.sql(newest).fetchall() == [(2,)]


def test_a_run_is_found_by_the_beginning_of_its_key(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with store.writer() as writer:
        writer.add(row("abc1", value=1))
        writer.add(row("abd2"))
    assert store.find("abc")["value"] == 1
    with pytest.raises(StoreError, match="2 runs"):
        store.find("ab")
    with pytest.raises(StoreError, match="no run"):
        store.find("x")
