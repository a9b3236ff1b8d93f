"""QUIC stacks over real UDP sockets: the simulator's stacks and rows, the kernel's datagrams and clock."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import tailback as tb
from command import PROCESS
from real_engines import needs_live
from tailback import live

LEASES = Path("/run/tailback")
MTUS = {"quinn": "1300B", "noq": "1500B"}


def scenario(*flows: tb.Flow, duration: str = "3s", **options: Any) -> tb.Scenario:
    named = [flow.name for flow in flows]
    recorded = {
        "polls": "all", "segments": "all", "packets": "all", "requests": "all",
        "poll_interval": "10ms", "queue_polls": ["bottleneck"],
    }  # fmt: skip
    assert named
    options = {"rate": "10mbit", "rtt": "20ms", "queue": "1bdp"} | options
    return tb.dumbbell(flows=flows, duration=duration, instruments=recorded, **options)


@pytest.fixture(scope="module")
def both() -> tuple[tb.Result, tb.Result]:
    """One run of two stacks and a TCP, simulated and live: bulk, several connections, several questions on one."""
    every = scenario(
        # It ends by itself: quinn announces no stop while its window is full (docs/studies/stack-defects.md).
        tb.bulk("cubic", transport="quinn", name="theirs", bytes="500kB"),
        tb.bulk("cubic", name="ours", stop="1500ms"),
        tb.flow(
            "transfers", name="files", transport="noq", cc="new_reno",
            params={"bytes": 20_000, "idle_low": 0.05, "idle_high": 0.1},
        ),
        tb.flow("request-response", name="questions", transport="quinn", cc="bbr", params={"think": 50}),
        duration="2500ms",
    )  # fmt: skip
    return tb.run(every), live.run(every)


def total(result: tb.Result, flow: str, column: str) -> float:
    return float(result.column("flows", column)[result.flow_index(flow)])


@needs_live
def test_a_live_run_has_the_simulators_rows(both: tuple[tb.Result, tb.Result]) -> None:
    _, real = both
    for name in ("theirs", "files", "questions"):
        assert total(real, name, "bytes_received") > 0, name
        for table in ("stack_states", "polls", "packets"):
            here, there = (result.where_flow(table, name) for result in both)
            assert set(here) == set(there), (table, name)
            assert len(there[next(iter(there))]) > 0, (table, name)
    # The handshake is the stack's own: it has no sample before its first.
    for result in both:
        rtt = result.where_flow("polls", "theirs")["rtt_min_s"]
        assert 0.020 <= np.nanmin(rtt) < (0.030 if result.meta.get("fit", True) else 1.0)
    states = real.where_flow("stack_states", "theirs")
    assert set(states["at_receiver"]) == {False, True}
    assert (states["cwnd"] > 0).all()
    assert (np.diff(states["packets_sent"][~states["at_receiver"]].astype(float)) >= 0).all()
    assert real.meta["fit"] in {True, False}


@needs_live
def test_bytes_and_connections_add_up(both: tuple[tb.Result, tb.Result]) -> None:
    _, real = both
    for name in ("theirs", "files", "questions"):
        assert total(real, name, "connections_failed") == 0, name
        assert total(real, name, "bytes_acked") <= total(real, name, "bytes_sent"), name
        assert 0.020 <= total(real, name, "rtt_min_s") < (0.040 if real.meta["fit"] else 1.0), name
    # How many exchanges fit into the time is chance: each loss moves all that follows. Their draws are the simulator's.
    expected, got = (result.where_flow("requests", "files") for result in both)
    both_have = min(len(expected["bytes"]), len(got["bytes"]))
    for column in ("bytes", "kind", "turn", "connection"):
        assert np.array_equal(expected[column][:both_have], got[column][:both_have]), column
    # A handshake, and the way there.
    times = got["response_time_s"][np.isfinite(got["response_time_s"])]
    assert total(real, "files", "connections") >= len(times) > 1
    assert times.min() >= 0.030
    # The path counts what the sockets sent: of a stack's packets several may share a datagram, never the reverse.
    assert total(real, "theirs", "packets_sent") <= total(real, "theirs", "segments_sent")
    assert total(real, "theirs", "packets_received") + total(real, "theirs", "packets_dropped") <= total(
        real, "theirs", "packets_sent"
    )


@needs_live
def test_ecn_bits_travel_both_ways_and_an_mtu_is_kept(tmp_path: Path) -> None:
    queue = {"discipline": "codel", "ecn": True, "limit": "1000p"}
    flows = [tb.bulk("cubic", transport=stack, name=stack, mtu=mtu) for stack, mtu in MTUS.items()]
    result = live.run(scenario(*flows, queue=queue, duration="1500ms"))
    captures = result.polars("captures", labels=True).filter(~pl.col("reverse"))
    assert set(captures["ecn"]) == {"ect0"}, "they ask for ECN from the first datagram on"
    assert captures["marked"].sum() > 0
    for stack, mtu in MTUS.items():
        # A mark is congestion though nothing was lost: the receiver has seen it and reported it to the sender.
        states = result.where_flow("stack_states", stack)
        sender = ~states["at_receiver"]
        assert states["congestion_events"][sender].max() > 0, stack
        assert total(result, stack, "packets_dropped") == states["packets_lost"][sender].max() == 0, stack
        largest = int(result.where_flow("packets", stack)["bytes"].max())
        assert largest == min(int(mtu[:-1]), 1480), "the search for the path's MTU ends there, or at 1452 bytes"
    kept = tb.open_result(result.save(tmp_path / "kept"))
    assert kept.rows("stack_states") == result.rows("stack_states") > 10


@needs_live
def test_nothing_is_left_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text(scenario(tb.bulk("cubic", transport="quinn", name="q"), duration="60s").to_toml())
    hosts = _hosts()
    running = subprocess.Popen([*PROCESS, "run", str(path), "--engine", "live"], stdout=subprocess.DEVNULL)
    try:
        # The stack's thread is in its client's host, once the lease is there and the run has begun.
        end, made = time.monotonic() + 20, set[str]()
        while not (made and _leases_of(running.pid)) and time.monotonic() < end:
            time.sleep(0.1)
            made = _hosts(running.pid) - hosts
        assert made
        time.sleep(0.2)
    finally:
        running.kill()
        running.wait()
    assert _leases_of(running.pid)
    live.clean()
    assert not _leases_of(running.pid)
    end = time.monotonic() + 10
    while made & _hosts() and time.monotonic() < end:
        time.sleep(0.05)
    assert not made & _hosts()


def _leases_of(process: int) -> list[Path]:
    found = []
    for path in LEASES.iterdir() if LEASES.exists() else []:
        try:
            if json.loads(path.read_text())["pid"] == process:
                found.append(path)
        except (OSError, ValueError):
            continue
    return found


def _hosts(process: int | str = "[0-9]*") -> set[str]:
    """Network namespaces that some thread of this process, or of any, is in."""
    found = set()
    for thread in Path("/proc").glob(f"{process}/task/[0-9]*/ns/net"):
        try:
            found.add(str(thread.readlink()))
        except OSError:
            continue
    return found


def test_what_cannot_be_is_refused_before_anything_is_made() -> None:
    for fields, problem in [
        ({"cc": "htcp"}, "no congestion control of quinn"),
        ({"cc": "cubic", "mtu": "1000B"}, "quinn needs an MTU of 1228 B"),
    ]:
        with pytest.raises(tb.ScenarioError, match=problem):
            live.check(scenario(tb.flow("bulk", transport="quinn", name="q", **fields)))
