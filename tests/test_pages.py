"""Web pages from HAR files: over each transport, their load time and index, and the generated ones."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from tailback import pages
from tailback.experiment.run_metrics import measured
from tailback.result.summaries import tables


def loaded(objects: str, transport: str | None = None, **params: object) -> list[pages.PageLoad]:
    given = {"objects": objects, "loads": 1, **params}
    more = {"transport": transport} if transport else {}
    flow = tb.flow("page", name="page", from_="right", to="left", params=given, **more)
    path = tb.dumbbell(
        rate="20mbit", rtt="100ms", queue="10MB", flows=[flow], duration="20s", instruments={"requests": ["page"]}
    )
    return pages.loads(tb.run(path), "page")


def test_the_index_weighs_each_objects_arrival_by_its_bytes() -> None:
    # Three round trips to the first, one more to the second, which has three times its bytes.
    (load,) = loaded("0 1000 400 0 0 -; 0 3000 400 0 0 0")
    assert load.load_time_s == pytest.approx(0.4, abs=0.01)
    assert load.speed_index_s == pytest.approx(0.25 * 0.3 + 0.75 * 0.4, abs=0.01)


READER = """
duration = "4s"
[dumbbell]
rate = "20mbit"
rtt = "100ms"
[[flow]]
name = "page"
app = "page"
from = "right"
to = "left"
params = { objects = "0 1000 400 0 0 -", gap = 100 }
[instruments]
requests = ["page"]
[expect]
conditions = [
    "page.load_time_s < 350ms",
    { holds = "page.speed_index_s < 350ms", from = "2s" },
    "page.loads >= 9",
]
"""


def test_conditions_sweeps_and_the_terminal_know_what_a_page_took(tmp_path: Path) -> None:
    file = tmp_path / "page.toml"
    file.write_text(READER)
    assert tb.test(file).verdict == "passed"
    result = tb.run(tb.Scenario.parse_toml(READER))
    seen = [load.load_time_s for load in pages.loads(result, "page") if math.isfinite(load.load_time_s)]
    value = measured(result)
    assert (value("page.loads"), value("page.load_time_s")) == (len(seen), statistics.median(seen))
    assert "speed_index_s" in tables(result)[2][0]


def test_over_quic_a_round_trip_less_passes_before_the_first_request() -> None:
    # Seven kilobytes: QUIC's first window is ten packets of 1200 bytes, and its handshake is in it.
    objects = f"0 1000 400 0 0 -{'; 0 1000 400 0 0 0' * 6}"
    (tcp,), (quic,) = loaded(objects), loaded(objects, "quinn", tls=False)
    # QUIC's handshake is one round trip, TCP's and TLS's are two.
    assert tcp.load_time_s - quic.load_time_s == pytest.approx(0.1, abs=0.02)


def scenario(folder: Path, har: Any, name: str = "page.har") -> Path:
    (folder / "page.har").write_text(har if isinstance(har, str) else json.dumps(har))
    file = folder / "s.toml"
    file.write_text(
        'duration = "60s"\n[dumbbell]\nrate = "20mbit"\nrtt = "40ms"\nqueue = "100kB"\nback_rate = "20mbit"\n'
        f'[[flow]]\nname = "page"\napp = "page"\nfrom = "right"\nto = "left"\n'
        f'params = {{ har = "{name}", loads = 1 }}\n'
        '[instruments]\nrequests = ["page"]\n'
    )
    return file


def test_a_generated_page_is_read_from_its_file_and_loads(tmp_path: Path) -> None:
    har = pages.generate(8)
    result = tb.run(scenario(tmp_path, har))
    (load,) = pages.loads(result, "page")
    total = sum(entry["response"]["bodySize"] for entry in har["log"]["entries"])
    assert 8 * total / 20e6 < load.speed_index_s + 8 * total / 20e6 < 2 * load.load_time_s
    assert load.load_time_s > 8 * total / 20e6
    rows = result.where_flow("requests", "page")
    # Each object, and the page.
    assert len(rows["t_s"]) == len(har["log"]["entries"]) + 1
    # What is stored needs no file.
    assert "har" not in result.resolved["flows"][0]["app"]["params"]


@pytest.mark.parametrize(
    ("har", "name", "expected"),
    [
        ("<html>", "page.har", "this is a web page, not a HAR file"),
        ({"log": {"entries": []}}, "page.har", "no entry was fetched over the network"),
        ({"log": {}}, "page.har", "there is no list log.entries"),
        ({"log": {}}, "../page.har", "the file lies outside the scenario's folder"),
        ({"log": {}}, "other.har", "other.har cannot be read"),
    ],
)
def test_a_bad_file_is_refused_at_its_field(tmp_path: Path, har: Any, name: str, expected: str) -> None:
    with pytest.raises(tb.ScenarioError) as found:
        tb.run(scenario(tmp_path, har, name))
    text = str(found.value)
    assert expected in text
    assert "flow[0].params.har" in text


def test_the_twenty_pages_have_the_published_middle_and_spread() -> None:
    entries = [pages.generate(number)["log"]["entries"] for number in range(1, pages.MOST + 1)]
    requests = [len(each) for each in entries]
    assert statistics.median(requests) == pytest.approx(71, rel=0.02)
    # Pages 5 and 6 lie around the 25th percentile, 15 and 16 around the 75th.
    assert statistics.mean(requests[4:6]) == pytest.approx(42, rel=0.05)
    assert statistics.mean(requests[14:16]) == pytest.approx(115, rel=0.05)
    for ending, kilobytes in (("js", 620), ("png", 1054), ("css", 80), ("woff2", 131)):
        sizes = [
            sum(row["response"]["bodySize"] for row in each if row["request"]["url"].endswith(f".{ending}")) / 1000
            for each in entries
        ]
        assert statistics.median(sizes) == pytest.approx(kilobytes, rel=0.05), ending
    assert pages.generate(3) == pages.generate(3) != pages.generate(3, seed=2)
    with pytest.raises(tb.TailbackError, match="no page 21"):
        pages.generate(21)


def test_the_command_writes_a_page(tmp_path: Path) -> None:
    out = tmp_path / "a" / "page.har"
    line = [sys.executable, "-c", "from tailback.cli import main; main()", "page", "generate", "1", "--out", str(out)]
    ended = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(out.read_text()) == pages.generate(1)
    assert "har = " in ended.stderr
