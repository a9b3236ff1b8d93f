"""Shards of a sweep, and stores put together: every run once, with its numbers and tables, or an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tailback as tb
from tailback.experiment import Shard, Sweep, Until
from tailback.experiment.store import MergeConflict, Store, StoreError, engine_fingerprint, index
from tailback.result import layout

BASE = tb.dumbbell(
    rate="2mbit", rtt="20ms", queue="20packets", flows=[tb.bulk("reno", name="a")], duration="1s",
    randomness={"start_spread": "10ms"},
)  # fmt: skip
AXES = {"flow.a.cc": ["reno", "cubic"], "dumbbell.rtt": ["10ms", "20ms", "40ms"]}
#: What differs between two times of doing the same.
CLOCKS = ("wall_s", "finished")
#: How many a result is kept in.
FILES = 7


def row(key: str, status: str = "ok", finished: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"key": key, "run": key, "engine": engine_fingerprint(), "status": status, "finished": finished} | more


def filled(folder: Path, *rows: dict[str, Any]) -> Store:
    store = Store(folder)
    with store.writer() as writer:
        for each in rows:
            writer.add(each)
    return store


def of(store: Store) -> dict[str, dict[str, Any]]:
    return {entry["key"]: entry for entry in store.frame().to_dicts()}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Ten runs with their tables."""
    return tb.sweep(BASE, seeds=10, store=tmp_path_factory.mktemp("kept") / "store", keep="tables").store


@pytest.mark.parametrize("parts", [1, 3, 4, 40])
def test_shards_are_the_runs_of_a_sweep_each_once(parts: int) -> None:
    whole = Sweep(BASE, tb.grid(AXES), seeds=(1, 2, 5, 9))
    runs = [(number, seed) for number in range(6) for seed in whole.seeds]
    shards = [Sweep(BASE, tb.grid(AXES), seeds=(1, 2, 5, 9), shard=Shard(n, parts)) for n in range(1, parts + 1)]
    for n, shard in enumerate(shards):
        assert [(number, seed) for number in range(6) for seed in shard.seeds_of(number)] == runs[n::parts]
        assert len(shard) == len(runs[n::parts])


def test_what_is_no_shard_is_refused() -> None:
    for text in ("0/8", "9/8", "3", "3/0", "a/b", "-1/8"):
        with pytest.raises(tb.ScenarioError, match="is no part of a sweep"):
            Shard.of_text(text)
    with pytest.raises(tb.ScenarioError, match="looks at all seeds of a point"):
        tb.sweep(BASE, AXES, until=Until("a.goodput_mbps", width="5%"), shard="1/2", store="never")


def test_merged_shards_are_the_sweep(tmp_path: Path) -> None:
    whole = tb.sweep(BASE, AXES, seeds=3, store=tmp_path / "whole", keep="tables")
    for n in range(1, 4):
        tb.sweep(BASE, AXES, seeds=3, store=tmp_path / f"{n}", keep="tables", shard=f"{n}/3")
    store = Store(tmp_path / "merged")
    done = store.merge(*(tmp_path / f"{n}" for n in range(1, 4)))
    assert (done.rows, done.known, done.tables) == (18, 0, 18)
    assert store.verify().ok
    one, other = (each.frame().drop(*CLOCKS).sort("key") for each in (whole.store, store))
    assert one.equals(other.select(one.columns))
    again = tb.sweep(BASE, AXES, seeds=3, store=store, keep="tables")
    assert (again.run, again.reused) == (0, 18)
    assert again.frame.drop(*CLOCKS).equals(whole.frame.drop(*CLOCKS))
    assert store.merge(tmp_path / "1").rows == 0


def test_a_run_of_two_points_is_merged_for_both(tmp_path: Path) -> None:
    axes = {"dumbbell.queue": ["1bdp", str(BASE.dumbbell.rtt)]}
    for n in (1, 2):
        assert tb.sweep(BASE, axes, store=tmp_path / f"{n}", shard=f"{n}/2").run == 1
    store = Store(tmp_path / "merged")
    assert store.merge(tmp_path / "1", tmp_path / "2").rows == 2
    assert store.frame().select("point", "dumbbell.queue").rows() == list(enumerate(axes["dumbbell.queue"]))


def test_a_second_merge_finds_every_run_whatever_other_sweeps_varied(tmp_path: Path) -> None:
    # The store's rows of the run have the axis of the second sweep too.
    tb.sweep(BASE, {"dumbbell.queue": ["20packets"]}, store=tmp_path / "into")
    into = tb.sweep(BASE, {"dumbbell.rtt": ["20ms", "0.02s"]}, store=tmp_path / "into").store
    other = tb.sweep(BASE, {"dumbbell.queue": ["20packets"]}, store=tmp_path / "other", keep="tables").store
    assert [into.merge(other).rows for _ in range(2)] == [1, 0]


def test_a_success_counts_before_a_failure_then_tables_then_the_newest(tmp_path: Path) -> None:
    here = filled(
        tmp_path / "here",
        row("ok-here", finished=1.0, x=1.0),
        row("failed-here", "failed", 5.0, error="here"),
        row("twice-failed", "failed", 1.0, error="old"),
        row("newer-here", "failed", 9.0, error="new"),
    )
    there = filled(
        tmp_path / "there",
        row("ok-here", "failed", 9.0, error="there"),
        row("failed-here", finished=1.0, x=2.0),
        row("twice-failed", "failed", 2.0, error="new"),
        row("newer-here", "failed", 1.0, error="old"),
        row("only-there", x=3.0),
    )
    done = here.merge(there)
    assert (done.rows, done.known) == (3, 2)
    found = of(here)
    assert {key: entry["status"] for key, entry in found.items() if entry["status"] == "ok"} == {
        "ok-here": "ok", "failed-here": "ok", "only-there": "ok",
    }  # fmt: skip
    assert [found[key]["error"] for key in ("twice-failed", "newer-here")] == ["new", "new"]
    assert len(there.frame()) == 5


def test_the_newest_row_does_not_hide_one_with_tables(tmp_path: Path) -> None:
    kept = tb.sweep(BASE, store=tmp_path / "kept", keep="tables")
    plain = tb.sweep(BASE, store=tmp_path / "plain")
    plain.store.merge(kept.store)
    assert plain.store.result(plain.frame["key"].item()).rows("flows") == 1


def test_other_numbers_of_the_same_run_are_reported_with_both_rows_and_nothing_is_written(tmp_path: Path) -> None:
    here = filled(tmp_path / "here", row("a", x=1.0, y=2.0, point=3, seed=4, wall_s=1.0), row("b", x=1.0))
    there = filled(
        tmp_path / "there", row("a", finished=2.0, x=1.5, y=2.0, point=7, seed=4, wall_s=9.0), row("c", x=1.0)
    )
    before = sorted(path.name for path in here.folder.rglob("*"))
    with pytest.raises(MergeConflict, match=r"here: x 1\.0 \(sweep None, point 3.*\n.*there: x 1\.5") as caught:
        here.merge(there)
    assert [(entry["x"], entry["wall_s"]) for entry in caught.value.rows] == [(1.0, 1.0), (1.5, 9.0)]
    assert sorted(path.name for path in here.folder.rglob("*")) == before
    # What is not measured may differ: when, by whom and as which point it was run.
    here.merge(filled(tmp_path / "third", row("b", finished=3.0, x=1.0, point=9, wall_s=3.0, sweep="other")))


def test_a_damaged_table_is_not_taken(tmp_path: Path) -> None:
    kept = tb.sweep(BASE, seeds=2, store=tmp_path / "kept", keep="tables")
    folder = kept.store.tables_folder(kept.store.frame()["run"][1])
    data = bytearray((folder / "flows.parquet").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "flows.parquet").write_bytes(data)
    into = Store(tmp_path / "into")
    with pytest.raises(StoreError, match="is damaged"):
        into.merge(kept.store)
    assert list((into.folder / "tables").glob("*/.*")) == []
    assert into.frame().is_empty()
    # As the message says.
    assert tb.sweep(BASE, seeds=2, store=kept.store, keep="tables").run == 1
    assert into.merge(kept.store).rows == 2
    assert into.verify().ok


def test_tables_of_a_run_are_there_once_whatever_is_measured_of_them(tmp_path: Path) -> None:
    one = tb.sweep(BASE, store=tmp_path / "one", keep="tables")
    other = tb.sweep(BASE, store=tmp_path / "other", keep="tables", metrics={"seed2": lambda result: 2.0 * result.seed})
    # As if another machine had written them.
    folder = other.store.tables_folder(other.store.frame()["run"].item())
    opened = tb.open_result(folder)
    opened.meta["command"] = "elsewhere"
    opened.save(tmp_path / "copy")
    into = filled(
        tmp_path / "into", other.store.frame().row(0, named=True) | {"tables_sha256": layout.seal_of(tmp_path / "copy")}
    )
    layout.copy(tmp_path / "copy", into.tables_folder(folder.name))
    done = into.merge(one.store)
    assert (done.rows, done.tables) == (1, 0)
    assert into.verify().ok
    assert [into.result(key).rows("flows") for key in into.frame()["key"]] == [1, 1]


def test_a_store_is_not_merged_into_itself(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with pytest.raises(StoreError, match="cannot be merged into itself"):
        store.merge(tmp_path / "." / "store")
    with pytest.raises(StoreError, match="there is no store"):
        store.merge(tmp_path / "none")


@pytest.mark.parametrize("copies", [0, 3, 30, 69])
def test_interrupted_anywhere_a_merge_goes_on_and_leaves_nothing_half_written(
    copies: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: Store
) -> None:
    left = copies

    def interrupted(*given: Any) -> Any:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        return copyfile(*given)

    copyfile = layout.shutil.copyfile
    into = Store(tmp_path / "into")
    with monkeypatch.context() as patch:
        patch.setattr(index, "FOLD_AFTER", 2)
        patch.setattr(layout.shutil, "copyfile", interrupted)
        with pytest.raises(KeyboardInterrupt):
            into.merge(kept)
    assert into.verify().ok
    # What was whole is there, two runs at a time.
    assert len(into.frame()) == copies // FILES // 2 * 2
    before = into.merge(kept)
    assert before.known == copies // FILES // 2 * 2
    names = list(index.COLUMNS)
    one, other = (each.frame().select(names).drop(*CLOCKS).sort("key") for each in (into, kept))
    assert one.equals(other)
    assert into.verify().ok
    assert [path for path in into.folder.rglob("*") if path.name.startswith(".")] == []


def test_from_the_command_line(tailback: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("base.toml").write_text(BASE.to_toml())
    Path("grid.toml").write_text('base = "base.toml"\nseeds = 4\n[grid]\n"flow.a.cc" = ["reno", "cubic"]\n')
    for part in ("1/2", "2/2"):
        code, out, _ = tailback("sweep", "grid.toml", "--shard", part, "--json")
        assert (code, out["runs"], out["shard"]) == (0, 4, part)
    code, out, _ = tailback("results", "merge", "all", "results/store-1-of-2", "results/store-2-of-2", "--json")
    assert (code, out["rows"], out["known"]) == (0, 8, 0)
    assert len(pl.read_parquet("all/index/*.parquet")) == 8
    code, _, err = tailback("sweep", "grid.toml", "--shard", "3/2")
    assert code == 2
    assert "shard" in err
