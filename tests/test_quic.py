"""Flows of other people's stacks, from a scenario to its tables."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import tailback as tb
from tailback import _core, qlog

LOCK = Path(__file__).parents[1] / "Cargo.lock"


def beside_tcp(cc: str = "cubic", seed: int = 1, **fields: Any) -> tb.Scenario:
    """quinn's flow and Linux's CUBIC over 20 Mbit/s."""
    theirs = tb.bulk(cc, transport="quinn", name="theirs", **fields)
    instruments = tb.Instruments(polls="all", poll_interval="100ms", segments=["theirs"], packets="all")
    return tb.dumbbell(
        rate="20mbit", rtt="40ms", queue="1bdp", flows=[theirs, tb.bulk(name="ours")], duration="4s", seed=seed,
        name="beside", instruments=instruments, randomness={"start_spread": "10ms"},
    )  # fmt: skip


def test_both_share_the_link_and_report_their_states() -> None:
    result = tb.run(beside_tcp())
    received = result.numpy("flows")["bytes_received"]
    assert received.sum() * 8 / 4 / 20e6 > 0.8
    assert received.min() > 5e5
    states = result.numpy("stack_states")
    assert len(states["cwnd"]) > 100
    assert set(states["flow"]) == {0}
    assert "segments" not in result, "of theirs alone there is none"
    polls = result.numpy("polls")
    assert (polls["cwnd"][polls["flow"] == 0] > 0).any()


def test_a_run_of_tcp_alone_has_no_table_of_other_stacks(tmp_path: Path) -> None:
    scenario = beside_tcp().with_({"instruments.segments": ["ours"]})
    result = tb.run(scenario, out=tmp_path / "kept")
    assert "segments" in result
    assert "stack_states" not in {*result.tables, *tb.open_result(tmp_path / "kept").tables}
    assert not (tmp_path / "kept" / "stack_states.parquet").exists()
    with pytest.raises(tb.ResultError, match=r"^stack_states has flows over another stack .* recorded none\.$"):
        result.numpy("stack_states")


def test_it_is_kept_written_and_read_like_any_flow(tmp_path: Path) -> None:
    scenario = beside_tcp("new_reno", mtu="1400B", receive_buffer="4MB")
    written = tmp_path / "beside.toml"
    written.write_text(scenario.to_toml())
    again = tb.Scenario.from_toml(written)
    assert again.resolve() == scenario.resolve()
    back = tb.Scenario.from_resolved(scenario.resolve())
    assert back.resolve() == scenario.resolve()
    result = tb.run(scenario, out=tmp_path / "kept")
    kept = tb.open_result(tmp_path / "kept")
    assert kept.numpy("stack_states")["cwnd"].tolist() == result.numpy("stack_states")["cwnd"].tolist()
    assert result.numpy("packets")["bytes"].max() <= 1500


def test_qlog_has_what_the_rows_have(tmp_path: Path) -> None:
    result = tb.run(beside_tcp())
    written = qlog.write(result, tmp_path / "logs")
    assert sorted(path.name for path in written) == ["theirs-0-client.sqlog", "theirs-0-server.sqlog"]
    for path, count in written.items():
        texts = path.read_text().split("\x1e")
        assert texts[0] == ""
        head, *events = [json.loads(text) for text in texts[1:]]
        assert head["file_schema"] == "urn:ietf:params:qlog:file:sequential"
        assert len(events) == count
        assert all(a["time"] <= b["time"] for a, b in pairwise(events))
    client = [json.loads(text) for text in (tmp_path / "logs/theirs-0-client.sqlog").read_text().split("\x1e")[2:]]
    named = Counter(event["name"] for event in client)
    packets = result.numpy("packets")
    assert named["quic:udp_datagrams_sent"] == (packets["flow"] == 0).sum()
    states = result.polars("stack_states").filter(flow=0, at_receiver=False)
    assert named["quic:packet_lost"] == states["packets_lost"].max() > 0
    last = [event["data"]["congestion_window"] for event in client if "congestion_window" in event["data"]][-1]
    assert last == states["cwnd"][-1]
    plain = tb.run(tb.dumbbell(rate="20mbit", rtt="40ms", flows=[tb.bulk()], duration="100ms"))
    with pytest.raises(tb.TailbackError, match="no flow of this result is over another stack"):
        qlog.write(plain, tmp_path / "none")


#: Of draft-ietf-quic-qlog-quic-events-13: the fields of each event that we write, with their types.
EVENTS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "quic:udp_datagrams_sent": {"count": int, "raw": list},
    "quic:udp_datagrams_received": {"count": int, "raw": list},
    "quic:recovery_metrics_updated": {
        "min_rtt": (int, float), "smoothed_rtt": (int, float), "latest_rtt": (int, float),
        "congestion_window": int, "bytes_in_flight": int, "ssthresh": int, "pacing_rate": int,
    },
    "quic:packet_lost": {},
}  # fmt: skip
#: Of draft-ietf-quic-qlog-main-schema-13: QlogFileSeq, TraceSeq, VantagePoint and CommonFields.
HEAD = {
    "": {"file_schema", "serialization_format", "title", "description", "trace"},
    "trace": {"title", "description", "common_fields", "vantage_point", "event_schemas"},
    "vantage_point": {"name", "type", "flow"},
    "common_fields": {"tuple", "time_format", "reference_time", "group_id"},
}


def several() -> tb.Scenario:
    """A flow of several connections over quinn, one of one over noq, and Linux's, captured at both ends."""
    files = tb.flow(
        "transfers",
        name="files",
        transport="quinn",
        cc="bbr",
        bytes="60kB",
        stop="1s",
        params={"idle_low": 0.05, "idle_high": 0.1},
    )
    instruments = tb.Instruments(packets="all", segments=["files", "other"], captures=["left", "right"])
    return tb.dumbbell(
        rate="20mbit", rtt="20ms", queue="0.25bdp", duration="1500ms", instruments=instruments, wire={"loss": 0.004},
        flows=[tb.bulk(name="ours"), files, tb.bulk("cubic", transport="noq", name="other", stop="1s")],
    )  # fmt: skip


def test_every_connections_log_has_the_drafts_shape_and_its_own_datagrams(tmp_path: Path) -> None:
    result = tb.run(several())
    written = qlog.write(result, tmp_path)
    sent = Counter[str]()
    for path in written:
        head, *events = [json.loads(text) for text in path.read_text().split("\x1e")[1:]]
        trace = head["trace"]
        parts = {"": head, "trace": trace} | {name: trace[name] for name in ("vantage_point", "common_fields")}
        for name, part in parts.items():
            assert set(part) <= HEAD[name], path
        assert head["serialization_format"] == "application/qlog+json-seq"
        assert trace["vantage_point"]["type"] in {"client", "server"}
        assert trace["common_fields"]["reference_time"] == {"clock_type": "monotonic", "epoch": "unknown"}
        assert trace["event_schemas"] == ["urn:ietf:params:qlog:events:quic-13"]
        for event in events:
            assert set(event) == {"time", "name", "data"}
            fields = EVENTS[event["name"]]
            for field, value in event["data"].items():
                assert isinstance(value, fields[field]), event
                assert not isinstance(value, bool)
            if "raw" in event["data"]:
                assert len(event["data"]["raw"]) == event["data"]["count"] == 1
                sent[path.stem] += 1
            assert event["data"] or event["name"] == "quic:packet_lost"
    connections = int(result.column("flows", "connections")[1])
    clients = [name for name in sent if name.startswith("files-") and name.endswith("-client")]
    assert len(clients) == connections > 4
    assert sum(sent[name] for name in clients) == result.column("flows", "packets_sent")[1]
    assert max(sent[name] for name in clients) < 0.5 * sum(sent[name] for name in clients)


def test_what_qvis_reads_has_its_header_its_names_and_a_packet_a_datagram(tmp_path: Path) -> None:
    result = tb.run(beside_tcp())
    drafts, written = qlog.write(result, tmp_path / "qlog"), qlog.write(result, tmp_path / "qvis", "qvis")
    assert {path.name: count for path, count in written.items()} == {path.name: n for path, n in drafts.items()}
    names = {"client": "transport:packet_sent", "server": "transport:packet_received"}
    for path in written:
        head, *events = [json.loads(text) for text in path.read_text().split("\x1e")[1:]]
        # Its loader asks for these three, and its diagrams for a number as reference time.
        assert (head["qlog_version"], head["qlog_format"]) == ("0.3", "JSON-SEQ")
        assert head["trace"]["common_fields"] == {"time_format": "relative", "reference_time": 0}
        side = head["trace"]["vantage_point"]["type"]
        assert {event["name"] for event in events} <= {
            names[side], "recovery:metrics_updated", "recovery:packet_lost",
        }  # fmt: skip
        packets = [event["data"] for event in events if event["name"] == names[side]]
        assert len(packets) > 100
        # Without a header its congestion diagram stops; a length of zero it leaves out.
        assert all(set(packet) == {"header", "raw"} and packet["raw"]["length"] > 0 for packet in packets)


def test_captures_separate_connections_and_count_what_the_path_did(tmp_path: Path) -> None:
    result = tb.run(several())
    near, far = tb.capture.export_all(result, tmp_path)
    seen, delays = tb.capture.flows(near), tb.capture.owd(near, far).table.filter(from_to="A>B")
    bins = tb.capture.throughput(near, bin_s=0.5)
    for index, name in ((1, "files"), (2, "other")):
        of = pl.col("name").str.starts_with(f"10.0.{index}.1:") & pl.col("name").str.ends_with("/udp")
        total = {column: float(result.column("flows", column)[index]) for column in result.numpy("flows")}
        assert len(seen.filter(of)) == total["connections"] >= (5 if name == "files" else 1), name
        assert seen.filter(of)["packets"].sum() == total["packets_sent"], name
        assert seen.filter(of)["payload"].sum() == total["bytes_sent"] - 28 * total["packets_sent"], name
        assert delays.filter(of)["lost"].sum() == total["packets_dropped"] > 0, name
        assert delays.filter(of)["paired"].sum() == total["packets_received"], name
        mine = result.where_flow("packets", name)
        assert delays.filter(of)["min_ms"].min() == pytest.approx(
            1e3 * np.nanmin(mine["received_s"] - mine["sent_s"]), abs=1e-6
        )
        who = pl.col("who")
        there = bins.filter(who.str.starts_with(f"10.0.{index}.1:") & ~who.str.ends_with(" back"))
        assert there["bytes"].sum() == total["bytes_sent"], name


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"cc": "htcp"}, r"flow\[0\].cc.*no congestion control of quinn"),
        ({"mtu": "1000B"}, r"flow\[0\].mtu.*quinn needs an MTU of 1228 B"),
        ({"stack": "freebsd-9"}, r"flow\[0\].stack.*has no TCP stack"),
        ({"transport": "quin"}, r"flow\[0\].transport.*quinn"),
    ],
)
def test_what_it_cannot_be_is_refused_where_it_stands(fields: dict[str, Any], problem: str) -> None:
    flow = {"transport": "quinn", "cc": "cubic"} | fields
    with pytest.raises(tb.ScenarioError, match=problem):
        tb.run(tb.dumbbell(rate="20mbit", rtt="40ms", flows=[tb.flow("bulk", **flow)], duration="1s"))


def test_a_flow_stopped_before_its_handshake_is_no_fault() -> None:
    flows = [tb.bulk(transport="quinn", stop="1s", name="q"), tb.voip(name="other")]
    result = tb.run(tb.dumbbell(rate="1mbit", rtt="100ms", wire={"loss": 1.0}, flows=flows, duration="4s"))
    assert "stack_faults" not in result.tables
    assert result.column("flows", "packets_sent")[1] > 100


#: Runs 150 connections of s2n-quic at once, and prints by how many MB the process is larger after ten more runs.
GROWTH = """
from pathlib import Path
import tailback as tb

flow = tb.flow("bulk", count=150, bytes="20kB", transport="s2n-quic", name="q")
scenario = tb.dumbbell(rate="200mbit", rtt="20ms", flows=[flow], duration="300ms")

def resident():
    tb.run(scenario)
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

resident()
first = resident()
print(max(resident() for _ in range(10)) - first)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_run_of_many_connections_gives_its_memory_back() -> None:
    done = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 10


def test_more_connections_than_a_run_has_are_an_error_that_names_their_flow() -> None:
    flows = [tb.bulk(transport="quinn", count=10_000, name="many"), tb.bulk(transport="quinn", name="one")]
    with pytest.raises(tb.ScenarioError, match=r'flow\[1\].transport = "quinn": .* at most 10000.* Open fewer at once'):
        tb.run(tb.dumbbell(rate="100mbit", rtt="40ms", flows=flows, duration="1ms"))


def test_results_name_the_version_that_is_compiled_in() -> None:
    for row in json.loads(_core.registry())["transports"]:
        built = re.findall(rf'name = "{row["name"]}[\w-]*"\nversion = "(.*)"', LOCK.read_text())
        assert row["version"] in built, row
