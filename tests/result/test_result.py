"""Results: labelled tables without copies, folders that are complete or not there, exports others can read."""

from __future__ import annotations

import errno
import functools
import io
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

import tailback as tb
from pairs import assert_same_rows
from tailback import cli
from tailback import files as whole
from tailback.checksums import digest_of_file, seal
from tailback.result import EVENTS, Result, demand_writable, schema, siftr


@functools.cache
def made(seed: int = 1) -> Result:
    scenario = tb.dumbbell(
        rate="2mbit",
        rtt="40ms",
        flows=[tb.bulk("reno", name="up"), tb.voip(name="call")],
        duration="5s",
        seed=seed,
        name="small",
        instruments={
            "segments": "all",
            "polls": "all",
            "internals": True,
            "queue_polls": "all",
            "queues": "all",
            "packets": "all",
        },
    )
    return tb.run(scenario)


@pytest.fixture
def result() -> Result:
    return made()


@pytest.fixture
def saved(result: Result, tmp_path: Path) -> Path:
    return result.save(tmp_path / "kept")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_equal(one: Result, other: Result) -> None:
    assert (one.resolved, one.toml, one.meta) == (other.resolved, other.toml, other.meta)
    assert_same_rows(one, other)


# --- Tables ---------------------------------------------------------------------------------------------------


def test_the_heads_of_shares_and_scores_say_what_they_are() -> None:
    call = tb.dumbbell(
        rate="10mbit", rtt="40ms", flows=[tb.voip(name="call")], duration="1s", instruments={"packets": ["call"]}
    )
    flows, people = (line for line in str(tb.run(call)).splitlines() if line.startswith("flow"))
    assert "loss share" in flows
    assert people.split("  ")[-3:] == ["lost share", "jitter ms", "mos (1-4.5)"]


def test_an_absent_value_is_a_dash_and_explained() -> None:
    page = tb.flow("page", name="page", params={"objects": "0 20000 400 20 0 -", "gap": 1000.0})
    wired = tb.dumbbell(rate="10mbit", rtt="40ms", flows=[page], duration="2s")
    text = str(tb.run(wired))
    assert text.count("no loss share (–)") == 1
    assert "a medium" not in text
    cable = str(tb.run(wired.with_({"dumbbell.back_medium": {"name": "docsis", "rate": "10mbit"}})))
    (back,) = (line for line in cable.splitlines() if line.startswith("return"))
    assert back.split()[:3] == ["return", "–", "–"]
    assert "no utilisation (–): a medium has no fixed rate" in cable


def test_every_face_shows_the_same_numbers(result: Result) -> None:
    for name in result.tables:
        columns = result.numpy(name)
        arrow, polars, pandas = result.arrow(name), result.polars(name), result.pandas(name)
        assert arrow.num_rows == len(polars) == len(pandas) == result.rows(name)
        for key, column in columns.items():
            for shown in (arrow[key].to_numpy(), polars[key].to_numpy(), pandas[key].to_numpy()):
                assert np.array_equal(shown, column, equal_nan=column.dtype.kind == "f"), (name, key)


def test_numbers_are_not_copied_on_the_way_to_arrow(result: Result) -> None:
    column = result.column("packets", "sent_s")
    address = result.arrow("packets")["sent_s"].chunk(0).buffers()[1].address
    assert address == column.__array_interface__["data"][0]
    labelled = result.arrow("packets", labels=True)["flow"].chunk(0).indices.buffers()[1].address
    assert labelled == result.column("packets", "flow").__array_interface__["data"][0]


def test_tables_are_read_only(result: Result) -> None:
    with pytest.raises(ValueError, match="read-only"):
        result.column("packets", "sent_s")[0] = 0


def test_labels_turn_codes_into_words(result: Result) -> None:
    queue = result.polars("queue", labels=True)
    assert set(queue["link"].cast(pl.String)) == {"bottleneck", "return"}
    assert set(queue["event"].cast(pl.String)) <= set(EVENTS)
    drops = queue.filter(pl.col("event").cast(pl.String) == "drop")
    assert set(drops["reason"].cast(pl.String)) == {"queue-full"}
    others = queue.filter(pl.col("event").cast(pl.String) != "drop")
    assert others["reason"].null_count() == len(others)
    assert set(result.pandas("packets", labels=True)["fate"].astype(str)) <= {"received", "dropped", "in-transit"}
    words = set(result.polars("internals", labels=True)["name"].cast(pl.String)) if "internals" in result else set()
    assert words <= set(result.internals_names)


def test_rows_of_one_flow_and_one_link(result: Result) -> None:
    call = result.where_flow("packets", "call")
    assert (call["flow"] == 1).all()
    assert len(call["index"]) == result.column("flows", "packets_sent")[1]
    assert len(result.where_link("queue", "bottleneck")["t_s"]) + len(
        result.where_link("queue", 1)["t_s"]
    ) == result.rows("queue")


def test_what_is_not_there_is_named_with_what_is(result: Result) -> None:
    bare = tb.run(result.scenario.with_({"instruments": {}}))
    assert bare.tables == ("flows", "links", "congestion", "engine")
    with pytest.raises(tb.ResultError, match=r"packets was not recorded.*\[instruments\] packets"):
        bare.numpy("packets")
    with pytest.raises(tb.ResultError, match='Did you mean "flows"'):
        bare.numpy("flow")
    with pytest.raises(tb.ResultError, match='Did you mean "rtt_min_s"'):
        bare.column("flows", "rtt_min")
    with pytest.raises(tb.ResultError, match='Did you mean "call"'):
        bare.where_flow("flows", "cal")
    with pytest.raises(tb.ResultError, match="There are 2"):
        bare.flow_index(2)


def test_an_instrument_that_was_on_leaves_its_table_even_if_empty() -> None:
    scenario = tb.dumbbell(rate="1gbit", rtt="20ms", flows=[tb.voip()], duration="1s", instruments={"drops": "all"})
    assert tb.run(scenario).rows("queue") == 0


def test_the_bottleneck_drops_most_or_is_slowest(result: Result) -> None:
    assert result.bottleneck == "bottleneck"
    links = [
        tb.link("fast", "a", "b", rate="10mbit", queue="1MB", duplex=True),
        tb.link("slow", "b", "c", rate="5mbit", delay="1ms", queue="1MB", duplex=True),
    ]
    idle = tb.network(links=links, flows=[tb.voip(from_="a", to="c")], duration="1s")
    assert tb.run(idle).bottleneck == "slow"


def test_base_delays_are_those_of_the_links(result: Result) -> None:
    assert result.base_owd_s("call") == 0.02
    assert result.base_rtt_s(0) == 0.04


def test_it_shows_itself(result: Result) -> None:
    html = result._repr_html_()
    assert "<table>" in html
    assert "call" in html
    console = Console(record=True, width=200, file=io.StringIO())
    console.print(result)
    shown = console.export_text()
    assert "goodput" in shown
    assert "small" in shown
    assert "5 s simulated, seed 1" in repr(result)


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_on_a_narrow_terminal_every_number_is_whole(result: Result, width: int) -> None:
    """What does not fit goes into a further table, which names the flows again."""
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(result)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    wide = str(result).partition("\ntables:")[0]
    for word in wide.split():
        assert word in shown.split(), word


def test_goodput_is_delivered_payload_over_active_time() -> None:
    flows = [tb.bulk("reno", start="1s", stop="3s"), tb.voip()]
    rows = tb.run(tb.dumbbell(rate="10mbit", rtt="10ms", queue="100kB", flows=flows, duration="10s")).flow_summary()
    assert 7 < rows[0]["goodput_mbps"] < 10
    assert rows[1]["goodput_mbps"] == pytest.approx(0.08, rel=0.01)


def test_a_flow_that_comes_and_goes_is_active_while_it_is_on() -> None:
    again = [{"start": "5s", "stop": "6s"}, {"start": "8s"}]
    flows = [tb.bulk("reno", stop="1s", again=again)]
    row = tb.run(tb.dumbbell(rate="10mbit", rtt="10ms", queue="100kB", flows=flows, duration="10s")).flow_summary()[0]
    assert 7 < row["goodput_mbps"] < 10


# --- Folders --------------------------------------------------------------------------------------------------


def test_a_saved_result_opens_the_same(result: Result, saved: Path) -> None:
    again = tb.open_result(saved)
    assert_equal(result, again)
    assert again.scenario == result.scenario
    assert_equal(Result.load(saved), again)
    assert set(files(saved)) == {"meta.json", "resolved.json", "scenario.toml"} | {
        f"{name}.parquet" for name in result.tables
    }


def test_a_saved_scenario_runs_again_to_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    tb.run(saved / "scenario.toml").save(tmp_path / "again")
    assert files(tmp_path / "again") == files(saved)


def test_the_file_is_kept_as_it_was_written_beside_what_was_run(tmp_path: Path) -> None:
    text = '# Mine.\nduration = "2s"   # short\n\n[dumbbell]\nrate = "1 Mbps"\nrtt = "16ms"\n\n[[flow]]\ncc = "reno"\n'
    (tmp_path / "mine.toml").write_text(text)
    as_written = tb.open_result(tb.run(tmp_path / "mine.toml").save(tmp_path / "one"))
    assert (tmp_path / "one/scenario.toml").read_text() == as_written.written == text
    done = CliRunner().invoke(cli.app, ["run", str(tmp_path / "mine.toml"), "--set", "flow[0].cc=cubic", "--seed", "3",
                                        "--out", str(tmp_path / "two")])  # fmt: skip
    assert done.exit_code == 0, done.output
    changed = tb.open_result(tmp_path / "two")
    assert (changed.written, changed.scenario.flows[0].cc.name, changed.scenario.seed) == (text, "cubic", 3)
    assert tb.Scenario.from_toml(tmp_path / "two/normal.toml").to_json() == changed.scenario.to_json()
    assert tb.verify(tmp_path / "two").damaged == []
    # A scenario that Python changed has no text of its own, so it is written out.
    assert tb.run(as_written.scenario.with_(seed=2)).written.startswith("seed = 2\n")


def test_a_result_repeats_without_the_files_it_was_made_from(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'duration = "2s"\n[dumbbell]\nrate = "1mbit"\nrtt = "16ms"\nschedule = "path.csv"\n[[flow]]\ncc = "reno"\n'
    )
    (tmp_path / "path.csv").write_text("time (s),rate (Mbit/s)\n0,1\n1,0.5\n")
    saved = tb.run(tmp_path / "mine.toml").save(tmp_path / "one")
    (tmp_path / "path.csv").unlink()
    first = tb.open_result(saved)
    assert first.differing(tb.repeat(first)) == []
    other = tb.run(first.scenario.with_({"dumbbell.schedule": None}))
    assert "flows" in first.differing(other)
    first.meta["engine"] = "live 0.1"
    with pytest.raises(tb.TailbackError, match="only runs of the simulator and of virtual machines repeat"):
        tb.repeat(first)


def test_nothing_about_the_machine_is_stored(saved: Path) -> None:
    meta = json.loads((saved / "meta.json").read_text())
    assert set(meta) == {
        "format", "version", "engine", "name", "seed", "command", "python", "platform", "tables", "internals_names",
        "warnings", "files", "sha256",
    }  # fmt: skip
    text = "".join(path.read_text() for path in saved.iterdir() if path.suffix != ".parquet")
    assert os.uname().nodename not in text
    assert str(saved.parent) not in text


def test_saving_replaces_an_earlier_result_only(saved: Path, tmp_path: Path) -> None:
    made(2).save(saved)
    assert tb.open_result(saved).seed == 2
    assert names(tmp_path) == ["kept"]
    with pytest.raises(tb.ResultError, match="already holds a result"):
        made(1).save(saved, overwrite=False)
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.tex").write_text("years of work")
    with pytest.raises(tb.ResultError, match="something else"):
        made(1).save(other)
    assert files(other) == {"chapter.tex": b"years of work"}
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(tb.ResultError, match="is a file"):
        made(1).save(file)
    with pytest.raises(tb.ResultError, match="part of the path is a file"):
        made(1).save(file / "below")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert tb.open_result(made(1).save(empty)).seed == 1


def test_saving_works_where_folders_cannot_be_exchanged(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole, "_exchange", lambda one, other: False)
    made(2).save(saved)
    assert tb.open_result(saved).seed == 2
    assert names(tmp_path) == ["kept"]


def _fails(after: int, error: BaseException) -> Callable[..., Any]:
    """`_sync` that fails at a call, with all bytes already written."""
    calls = iter(range(after))
    genuine = whole._sync

    def sync(path: Path) -> None:
        genuine(path)
        if next(calls, None) is None:
            raise error

    return sync


@pytest.mark.parametrize("after", [0, 3, 10])
@pytest.mark.parametrize(
    ("error", "raised", "says"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), tb.ResultError, "disk is full"),
        (OSError(errno.EDQUOT, "Quota exceeded"), tb.ResultError, "quota"),
        (OSError(errno.EIO, "Input/output error"), tb.ResultError, "Input/output"),
        (KeyboardInterrupt("now"), KeyboardInterrupt, "now"),
    ],
    ids=["full", "quota", "broken", "ctrl-c"],
)
def test_a_failure_half_way_leaves_the_earlier_result_and_nothing_else(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    after: int, error: BaseException, raised: type[BaseException], says: str,
) -> None:  # fmt: skip
    before = files(saved)
    monkeypatch.setattr(whole, "_sync", _fails(after, error))
    with pytest.raises(raised, match=says):
        made(2).save(saved)
    with pytest.raises(raised):
        made(2).save(tmp_path / "new")
    assert files(saved) == before
    assert names(tmp_path) == ["kept"]


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


def test_a_disk_that_is_really_full(tiny_disk: Path) -> None:
    small = tb.run(made().scenario.with_(duration="100ms").with_({"instruments": {}}))
    small.save(tiny_disk / "kept")
    large = tb.run(made().scenario.with_(duration="200s"))
    with pytest.raises(tb.ResultError, match="disk is full"):
        large.save(tiny_disk / "kept")
    assert_equal(tb.open_result(tiny_disk / "kept"), small)
    assert names(tiny_disk) == ["kept"]
    with pytest.raises(tb.ResultError, match="disk is full"):
        large.to_csv(tiny_disk)
    assert not (tiny_disk / "segments.csv").exists(), "a file is complete or not there"
    assert not list(tiny_disk.glob(".*"))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_not_writable(result: Result, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(tb.ResultError, match="not writable"):
            result.save(tmp_path / "new")
    finally:
        tmp_path.chmod(0o700)


def test_a_folder_that_is_not_writable_is_known_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demand_writable(tmp_path / "deep" / "down")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(tb.ResultError, match="not writable"):
        demand_writable(tmp_path / "deep" / "down")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EPERM])
def test_refused_folders_are_explained(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def mkdir(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(tb.ResultError, match=r"cannot be written: .*(not writable|read-only).*Nothing was changed"):
        result.save(tmp_path / "new")


def _break(name: str, content: bytes | None) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(content)

    return apply


def _truncate(folder: Path) -> None:
    path = folder / "packets.parquet"
    path.write_bytes(path.read_bytes()[:-100])


def _swap(folder: Path) -> None:
    (folder / "packets.parquet").write_bytes((folder / "flows.parquet").read_bytes())


def _age(folder: Path) -> None:
    path = folder / "meta.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99, "version": "9.9"}))


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (_break("meta.json", None), "is not a result"),
        (_break("meta.json", b"{"), "is damaged"),
        (_break("meta.json", b"{}"), "is damaged"),
        (_break("meta.json", b"[]"), "is damaged"),
        (_break("resolved.json", None), "cannot be read"),
        (_break("resolved.json", b"\xff"), "is damaged"),
        (_break("packets.parquet", None), "missing or damaged"),
        (_break("packets.parquet", b""), "missing or damaged"),
        (_truncate, "missing or damaged"),
        (_swap, "rows"),
        (_age, "layout 99, written by tailback 9.9"),
    ],
)
def test_a_damaged_folder_is_refused(saved: Path, harm: Callable[[Path], None], says: str) -> None:
    harm(saved)
    with pytest.raises(tb.ResultError, match=says):
        tb.open_result(saved)


def test_damage_inside_a_table_is_found_when_it_is_read(saved: Path) -> None:
    path = saved / "packets.parquet"
    data = bytearray(path.read_bytes())
    data[4:200] = bytes(196)
    path.write_bytes(data)
    opened = tb.open_result(saved)
    with pytest.raises(tb.ResultError, match="damaged"):
        opened.numpy("packets")


def test_a_missing_folder_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(tb.ResultError, match="tailback run SCENARIO --out"):
        tb.open_result(tmp_path / "none")


# --- Exports --------------------------------------------------------------------------------------------------


def test_csv_has_words_and_every_row(result: Result, tmp_path: Path) -> None:
    paths = result.to_csv(tmp_path / "csv")
    assert [path.stem for path in paths] == list(result.tables)
    queue = pa_csv.read_csv(tmp_path / "csv" / "queue.csv")
    assert queue.num_rows == result.rows("queue")
    assert set(queue["link"].unique().to_pylist()) == {"bottleneck", "return"}
    assert [path.name for path in result.to_csv(tmp_path / "one", ["flows"])] == ["flows.csv"]
    with pytest.raises(tb.ResultError, match="no table"):
        result.to_csv(tmp_path / "none", ["flow"])
    assert not (tmp_path / "none").exists()


FIELDS = 26


def test_siftr_has_its_field_order_and_units(result: Result, tmp_path: Path) -> None:
    path = result.to_siftr(tmp_path / "up.log", "up")
    on, *records, off = path.read_text().splitlines()
    head = dict(pair.split("=") for pair in on.split("\t"))
    assert list(head) == [
        "enable_time_secs", "enable_time_usecs", "siftrver", "hz", "tcp_rtt_scale", "sysname", "sysver", "ipmode",
    ]  # fmt: skip
    tail = dict(pair.split("=") for pair in off.split("\t"))
    assert int(tail["total_tcp_pkts"]) == len(records)
    rows = result.where_flow("segments", "up")
    rows = {key: column[~rows["at_receiver"]] for key, column in rows.items()}
    assert len(records) == len(rows["t_s"])
    for index in (0, len(records) // 2, len(records) - 1):
        fields = records[index].split(",")
        assert len(fields) == FIELDS
        assert fields[0] == ("o" if rows["outgoing"][index] else "i")
        assert fields[1] == "0x00000000"
        assert fields[2] == f"{rows['t_s'][index]:.6f}"
        assert fields[3:7] == ["10.0.0.1", "49152", "10.0.0.2", "5001"]
        assert int(fields[8]) == rows["cwnd"][index]
        assert int(fields[14]) == rows["state"][index]
        # Divided by (tcp_rtt_scale · hz) the smoothed RTT is in seconds.
        assert int(fields[16]) / (32 * 1000) == pytest.approx(np.nan_to_num(rows["srtt_s"][index]), abs=1e-4)
        assert int(fields[19]) / 1000 == pytest.approx(np.nan_to_num(rows["rto_s"][index]), abs=1e-3)
        assert int(fields[24]) == rows["in_flight"][index]
    assert records[0].split(",")[7] == str(65535 << 14), "ssthresh before any congestion"
    receiver = result.to_siftr(tmp_path / "rx.log", 0, side="receiver", hz=100).read_text().splitlines()
    assert receiver[1].split(",")[3:7] == ["10.0.0.2", "5001", "10.0.0.1", "49152"]
    assert "hz=100" in receiver[0]


def test_siftr_scales_a_known_rtt() -> None:
    one = made()
    columns = {key: column[:1].copy() for key, column in one.numpy("segments").items()}
    columns["srtt_s"][0], columns["rto_s"][0] = 0.16, 0.5
    crafted = Result(resolved=one.resolved, toml=one.toml, tables={"segments": columns})
    fields = siftr.lines(crafted, 0, False, 1000)[1].split(",")
    assert (fields[16], fields[19]) == ("5120", "500")


def test_siftr_of_what_was_not_logged_is_refused(result: Result, tmp_path: Path) -> None:
    with pytest.raises(tb.ResultError, match="no segments of call"):
        result.to_siftr(tmp_path / "x", "call")
    with pytest.raises(tb.ResultError, match="side"):
        result.to_siftr(tmp_path / "x", "up", side="middle")
    assert not list(tmp_path.iterdir())


def test_arrow_tables_leave_python_as_they_are(result: Result) -> None:
    assert result.arrow("flows").schema.field("flow").type == pa.uint32()


# --- The schema -----------------------------------------------------------------------------------------------


def test_what_is_recorded_is_what_is_stated(result: Result) -> None:
    for name in result.tables:
        stated = schema.table(name)
        recorded = {key: str(column.dtype) for key, column in result.numpy(name).items()}
        assert recorded == {key: column.type for key, column in stated.columns.items()}, name
        assert list(recorded) == list(stated.columns)
        for key, column in stated.columns.items():
            assert column.doc.endswith((".", "?")), (name, key)
            if column.words:
                codes = set(result.column(name, key).tolist()) - {column.none}
                assert codes <= set(range(len(column.words)))


def test_instruments_that_fill_tables_are_those_of_scenarios() -> None:
    everything = made().scenario.with_({"instruments.captures": "all"}).resolve()["instruments"]
    assert {name for table in schema.tables().values() for name in table.instruments} <= set(everything)


def test_the_page_of_columns_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "columns.md"
    assert page.read_text(encoding="utf-8") == schema.markdown(), "scripts/columns_page writes it again"


def test_a_table_that_is_filled_has_every_column_and_no_other() -> None:
    filled = schema.table("headers").filled(2, packet=[1, 2], reverse=True)
    assert {key: str(column.dtype) for key, column in filled.items()} == {
        key: column.type for key, column in schema.table("headers").columns.items()
    }
    assert filled["packet"].tolist() == [1, 2]
    assert filled["reverse"].tolist() == [True, True]
    assert filled["ts_ecr_ps"].tolist() == [2**64 - 1] * 2
    with pytest.raises(ValueError, match="no column size"):
        schema.table("headers").filled(1, size=1)


def test_stored_tables_say_names_to_those_who_read_them_alone(result: Result, saved: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    found = duckdb.sql(f"SELECT DISTINCT link, event, reason FROM '{saved / 'queue.parquet'}'").fetchall()
    assert ("bottleneck", "drop", "queue-full") in found
    assert ("bottleneck", "enqueue", None) in found
    polls = pl.read_parquet(saved / "polls.parquet")
    assert set(polls["flow"].cast(pl.String)) == {"up"}
    assert polls["ssthresh"].null_count() == np.isnan(result.column("polls", "ssthresh")).sum() > 0
    assert polls["ssthresh"].drop_nulls().max() < 2**40
    fields = pq.read_schema(saved / "queue.parquet")
    assert fields.field("t_s").metadata == {b"unit": b"s"}
    assert json.loads(fields.field("event").metadata[b"labels"]) == list(EVENTS)


def test_a_result_of_the_layout_with_codes_is_still_read(result: Result, saved: Path) -> None:
    for name in result.tables:
        columns = dict(result.numpy(name))
        if "ssthresh" in columns:
            unset = np.isnan(columns["ssthresh"])
            columns["ssthresh"] = np.where(unset, 2**62, np.nan_to_num(columns["ssthresh"])).astype(np.uint64)
        pq.write_table(pa.table(columns), saved / f"{name}.parquet")
    meta = json.loads((saved / "meta.json").read_text())
    meta |= {"format": 2, "files": {name: digest_of_file(saved / name) for name in meta["files"]}}
    del meta["sha256"]
    (saved / "meta.json").write_text(json.dumps(meta | {"sha256": seal(meta)}))
    old = tb.open_result(saved)
    old.meta["format"] = result.meta["format"]
    assert_equal(old, result)


def test_a_code_that_stands_for_nothing_is_not_stored(result: Result, tmp_path: Path) -> None:
    queue = {key: column.copy() for key, column in result.numpy("queue").items()}
    queue["event"][0] = 7
    crafted = Result(resolved=result.resolved, toml=result.toml, tables={"queue": queue})
    with pytest.raises(tb.ResultError, match="the code 7 stands for nothing"):
        crafted.save(tmp_path / "crafted")
