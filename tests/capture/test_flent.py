"""Flent's data files: written so that Flent itself opens and plots them, and read back, Flent's own included."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tailback as tb
from command import tailback
from tailback import capture, metrics
from tailback.capture import CaptureError

#: Flent on PATH, or where this says. `pip install flent==2.3.0 matplotlib` in an environment of its own.
FLENT = shutil.which("flent") or os.environ.get("TAILBACK_FLENT") or ""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flent")
    flows = [
        tb.bulk("cubic"), tb.bulk("bbr", name="second"), tb.bulk("reno", name="down", from_="right"), tb.flow("ping"),
        tb.voip(),
    ]  # fmt: skip
    bell = tb.dumbbell(name="home", rate="20mbit", rtt="40ms", queue="2bdp", flows=flows, duration="10s")
    watched = bell.with_({"instruments.polls": "all", "instruments.echoes": "all", "instruments.packets": ["voip"]})
    result = tb.run(watched)
    result.save(folder / "result")
    return result, capture.write_flent(result, folder / "home.flent.gz"), folder


def test_what_is_written_is_read_back_as_the_run_had_it(made):
    result, path, folder = made
    it = capture.flent(path)
    assert (it.test, it.title) == ("rrul_be_nflows", "home")
    assert it.metadata["TEST_PARAMETERS"] == {"upload_streams": "2", "download_streams": "1"}
    again = capture.open_flent(path)
    assert again.flow_names[:3] == ["TCP-upload-BE::1", "TCP-upload-BE::2", "TCP-download-BE::1"]
    for ours, theirs in (("bulk", 0), ("second", 1), ("down", 2)):
        # The file has a sample every 200 ms; at 2 s one holds the end of a recovery, a window's worth of data at once.
        assert metrics.goodput(again, theirs, 3.0, 9.0) == pytest.approx(
            metrics.goodput(result, ours, 3.0, 9.0), rel=0.001
        )
    pings = result.where_flow("echoes", "ping")
    assert np.sort(again.table("echoes")["rtt_s"]) == pytest.approx(
        np.sort(pings["rtt_s"][np.isfinite(pings["rtt_s"])])
    )
    call = it.values.filter(it.values["series"] == "VoIP voip::delay")["value"].to_numpy()
    assert np.median(call) * 1e-3 == pytest.approx(metrics.delay_quantiles(result, "voip", (0.5,), induced=False)[0])
    again.save(folder / "again")
    again.save(folder / "second")
    for words in (
        ("show", folder / "again"),
        ("plot", folder / "again", "--figure", "throughput", "--out", folder / "a.png"),
        ("report", folder / "again"),
        ("compare", folder / "again", folder / "second"),
    ):
        done = tailback(*words)
        assert done.code == 0, done.err


def test_the_same_result_gives_the_same_bytes(made):
    result, path, folder = made
    other = folder / "other"
    other.mkdir()
    assert capture.write_flent(result, other / "home.flent.gz").read_bytes() == path.read_bytes()
    done = tailback("export", folder / "result", "--format", "flent")
    assert done.code == 0, done.err
    same = [json.loads(gzip.decompress(it.read_bytes()))["results"] for it in (folder / "result.flent.gz", path)]
    assert same[0] == same[1]


def test_what_was_not_recorded_is_a_gap(tmp_path: Path):
    asked = {"polls": "all", "from": "2s"}
    late = tb.dumbbell(rate="9mbit", rtt="40ms", flows=[tb.bulk("reno")], duration="4s", instruments=asked)
    found = capture.flent(capture.write_flent(tb.run(late), tmp_path / "late.flent.gz", step_s=1.0))
    assert found.series["TCP upload sum"].is_null().to_list() == [True, True, False, False]


@pytest.mark.skipif(not FLENT, reason="Flent is not installed; set TAILBACK_FLENT to its program")
def test_flent_itself_summarises_and_plots_it(made):
    _, path, folder = made
    summary = subprocess.run([FLENT, "-i", path, "-f", "summary"], capture_output=True, text=True, check=True).stdout
    it = capture.flent(path)
    for name in it.series.columns[1:]:
        line = next(line for line in summary.splitlines() if line.strip().startswith(f"{name} "))
        mean = it.series[name].drop_nulls().mean()
        raw = it.values.filter(it.values["series"] == name)["value"]
        expected = raw.mean() if len(raw) else mean
        assert float(line.split(":")[-1].split()[0]) == pytest.approx(expected, abs=0.6), line
    for figure in ("all_scaled", "ping_cdf", "totals"):
        out = folder / f"{figure}.png"
        done = subprocess.run([FLENT, "-i", path, "-p", figure, "-o", out], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert out.read_bytes()[:4] == b"\x89PNG"


def test_a_file_as_flent_writes_it_is_read(tmp_path: Path):
    """Local time without a zone, missing values, computed series, the kernel's window as a series of its own."""
    raw = {
        "Ping (ms) ICMP": [{"seq": 1.0, "t": 1487703310.5, "val": 12.5}, {"seq": 2.0, "t": 1487703311.0, "val": 30.0}],
        "TCP upload::1": [{"dur": 0.2, "t": 1487703311.0, "val": 4e6, "tcp_rtt": 31.0, "tcp_cwnd": 20}],
    }
    results = {
        "Ping (ms) ICMP": [12.5, None, 30.0], "TCP upload::1": [None, 4.0, 8.0], "TCP upload::1::tcp_cwnd": [1, 2, 3],
        "TCP upload sum": [None, 4.0, 8.0],
    }  # fmt: skip
    meta = {"NAME": "tcp_nup", "TITLE": "a b", "TIME": "2017-02-21T19:55:10.300695", "SERIES_META": {}}
    whole = {"version": 3, "metadata": meta, "x_values": [0.0, 0.5, 1.0], "results": results, "raw_values": raw}
    (tmp_path / "a.flent").write_text(json.dumps(whole))
    opened = capture.open_flent(tmp_path / "a.flent")
    assert opened.flow_names == ["TCP-upload::1", "Ping-ICMP"]
    # The file's clock is whole hours off its own samples'.
    assert opened.table("echoes")["t_s"] == pytest.approx([0.199305, 0.699305], abs=1e-5)
    assert opened.table("flows")["bytes_received"][0] == (4e6 + 8e6) / 8 * 0.5
    assert opened.meta["flent"]["left_out"] == ["TCP upload::1::tcp_cwnd", "TCP upload sum"]


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (b"not json", "no JSON"),
        (b"[1]", "it has no version"),
        (b'{"version": 9, "metadata": {}, "x_values": [], "results": {}}', "format 9"),
        (b'{"version": 4, "metadata": {}, "x_values": [0], "results": {"TCP upload": [1, 2]}}', "2 values"),
        (b'{"version": 4, "metadata": {}, "x_values": "ab", "results": {}}', "damaged"),
        (b'{"version": 4, "metadata": {}, "x_values": [0], "results": {"Foo": [1]}}', "neither a TCP stream"),
        (b"\x1f\x8b\x08\x00", "cannot be read"),
    ],
)  # fmt: skip
def test_what_is_no_file_of_flent_is_refused(tmp_path: Path, text: bytes, reported: str):
    path = tmp_path / "x.flent.gz"
    path.write_bytes(text)
    with pytest.raises(CaptureError, match=reported):
        capture.open_flent(path)


def test_a_result_without_polls_says_what_to_switch_on():
    result = tb.run(tb.dumbbell(rate="5mbit", rtt="40ms", flows=[tb.bulk()], duration="1s"))
    with pytest.raises(tb.ResultError, match="polls"):
        capture.write_flent(result, "x.flent.gz")
