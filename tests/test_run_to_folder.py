"""A run that writes its rows while it goes on: the same bytes as one kept in memory, and nothing half-written."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import tailback as tb
from command import tailback
from tailback import _core
from tailback import files as files_
from tailback.files import whole_folder


def recorded(duration: str = "8s") -> tb.Scenario:
    """Three tables of more than one group of rows, and four of less; losses, so that fates are known late."""
    return tb.dumbbell(
        rate="100mbit",
        rtt="20ms",
        queue="100packets",
        duration=duration,
        flows=[tb.bulk("cubic", mtu="250B"), tb.voip(), tb.Flow(name="ping", app="ping")],
        instruments={
            "segments": "all", "packets": "all", "queues": "all", "polls": "all", "internals": True,
            "queue_polls": "all", "echoes": "all",
        },
    )  # fmt: skip


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_rows_written_on_the_way_are_the_bytes_of_the_whole(tmp_path: Path) -> None:
    whole = tb.run(recorded())
    whole.save(tmp_path / "whole")
    result = tb.run(recorded(), out=tmp_path / "parts")
    many = [name for name in whole.tables if whole.rows(name) > _core.ROWS_A_GROUP]
    assert {"segments", "queue", "packets"} <= set(many), "the test looks at something"
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    assert result.tables == whole.tables
    assert result.meta == whole.meta
    assert result.numpy("segments")["t_s"].tobytes() == whole.numpy("segments")["t_s"].tobytes()


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_run_that_is_stopped_leaves_no_file(
    tmp_path: Path, stop: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tailback.result.layout import Sink

    kept = tb.run(recorded("1s"), out=tmp_path / "kept")
    before = files(tmp_path / "kept")
    call = Sink.__call__

    def fail(self: Sink, name: str, columns: object, internals: object) -> None:
        call(self, name, columns)  # type: ignore[arg-type]
        raise stop

    monkeypatch.setattr(Sink, "__call__", fail)
    with pytest.raises(KeyboardInterrupt if stop is KeyboardInterrupt else tb.ResultError):
        tb.run(recorded(), out=tmp_path / "kept")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert files(tmp_path / "kept") == before
    assert kept.rows("flows") == 3


def test_what_a_killed_run_has_left_goes_with_the_next_but_not_what_another_process_writes(tmp_path: Path) -> None:
    (dead := tmp_path / ".another.0123abcd.partial").mkdir()
    (dead / "flows.parquet").write_text("half")
    (dead / files_._MARK).write_bytes(files_._MARKED)
    (unmarked := tmp_path / ".kept.0123abcd.partial").mkdir()
    (unmarked / "mine").touch()
    (empty := tmp_path / ".kept.4567abcd.partial").mkdir()
    os.utime(empty, (0, 0))
    with whole_folder(tmp_path / "kept") as held:
        (held / "mine").touch()
        assert sorted(tmp_path.iterdir()) == sorted([unmarked, held.parent])
        with whole_folder(tmp_path / "other") as second:
            assert sorted(tmp_path.iterdir()) == sorted([unmarked, held.parent, second.parent])
    assert sorted(path.name for path in tmp_path.iterdir()) == [unmarked.name, "kept", "other"]
    assert (tmp_path / "kept" / "mine").exists()


def test_rows_beyond_the_limit_are_refused_however_short_the_run() -> None:
    run = tb.dumbbell(
        rate="10mbit",
        rtt="40ms",
        flows=[tb.voip(name="call")],
        duration="1s",
        instruments={"packets": "all", "most_rows": 10},
    )
    with pytest.raises(tb.ScenarioError, match="more rows were recorded"):
        tb.run(run)


def test_a_folder_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("mine")
    with pytest.raises(tb.ResultError, match="left alone"):
        tb.run(recorded("60s"), out=tmp_path / "other")


def test_a_summary_reads_no_table_that_it_does_not_need(tmp_path: Path) -> None:
    result = tb.run(recorded("1s"), out=tmp_path / "out")
    assert [row["flow"] for row in result.experience_summary()] == ["voip", "ping"]
    assert not {"segments", "queue", "polls", "internals"} & set(result._tables)


def test_too_many_rows_are_refused_with_field_and_fix_unless_allowed(tmp_path: Path) -> None:
    file = tmp_path / "many.toml"
    text = (
        'duration = "1s"\n[dumbbell]\nrate = "1mbit"\nrtt = "40ms"\n[[flow]]\n'
        '[instruments]\npolls = "all"\npoll_interval = "1ns"\n'
    )
    file.write_text(text)
    code, _, said = tailback("check", file)
    assert code == 2
    assert f'{file}:8:17: instruments.poll_interval = "1ns"' in said
    assert re.search("1.00e9 rows.*raise instruments.most_rows", said)
    file.write_text(text.replace("1ns", "10us"))
    code, _, said = tailback("run", file, "--most-rows", 99999)
    assert code == 2
    assert "100000 rows, 100000 of them by this, and most_rows is 99999" in said
    assert tailback("run", file, "--most-rows", 100_000, "--out", tmp_path / "out").code == 0
    assert tb.open_result(tmp_path / "out").rows("polls") > 90_000
