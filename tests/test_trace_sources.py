"""Measurements of irtt, iperf3 and Flent become changes of a link."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tailback as tb
from tailback import trace_sources, traces


def irtt(seconds: int = 3, lost: int = 0) -> dict[str, Any]:
    """Ten probes a second with a round trip of 40 ms more each second, of which the first `lost` go astray."""
    rows = []
    for number in range(10 * seconds):
        row: dict[str, Any] = {
            "lost": "true_down" if number % 10 < lost else "false",
            "timestamps": {"client": {"send": {"wall": 1_700_000_000_000_000_000 + number * 100_000_000}}},
        }
        row["delay"] = {} if number % 10 < lost else {"rtt": 40_000_000 * (1 + number // 10)}
        rows.append(row)
    return {"round_trips": rows}


def iperf3(rates: list[float], **more: object) -> dict[str, Any]:
    rows = [
        {"sum": {"start": float(at), "end": at + 1.0, "bits_per_second": rate, **more}} for at, rate in enumerate(rates)
    ]
    return {"intervals": rows}


def test_a_table_of_changes_needs_no_reading() -> None:
    with pytest.raises(traces.TraceError, match=r'takes it as it is: schedule = "good.csv"'):
        trace_sources.steps("# mine\ntime (s),rate (Mbit/s)\n0,5\n", name="there/good.csv")


def test_irtt_gives_half_the_median_round_trip_and_the_share_without_an_answer() -> None:
    assert trace_sources.steps(json.dumps(irtt(lost=2))) == [
        {"at": "0s", "delay": "20ms", "loss": 0.2},
        {"at": "1s", "delay": "40ms", "loss": 0.2},
        {"at": "2s", "delay": "60ms", "loss": 0.2},
    ]
    assert trace_sources.steps(json.dumps(irtt(2, lost=10)))[0] == {"at": "0s", "loss": 1.0}


def test_iperf3_gives_the_rate_of_each_interval_and_leaves_omitted_ones_out() -> None:
    data = iperf3([5e6, 7.5e6, 0.0], lost_percent=1.5)
    data["intervals"][0]["sum"]["omitted"] = True
    expected = [{"at": "0s", "rate": "7.5mbit", "loss": 0.015}, {"at": "1s", "rate": "0mbit", "loss": 0.015}]
    assert trace_sources.steps(json.dumps(data)) == expected


def test_flent_gives_the_sum_of_its_flows_once_and_half_the_ping(tmp_path: Path) -> None:
    flows = {"TCP download BE": [4.0, 5.0, None], "TCP download BK": [1.0, 2.0, None], "TCP upload BE": [9.0, 9.0, 9.0]}
    data: dict[str, Any] = {
        "x_values": [0.0, 0.2, 0.4],
        "results": {**flows, "TCP download avg": [2.5, 3.5, None], "Ping (ms) ICMP": [20.0, None, 60.0]},
    }
    expected = [
        {"at": "0s", "rate": "5mbit", "delay": "10ms"},
        {"at": "0.2s", "rate": "7mbit"},
        {"at": "0.4s", "delay": "30ms"},
    ]
    file = tmp_path / "x.flent.gz"
    file.write_bytes(gzip.compress(json.dumps(data).encode()))
    assert trace_sources.read(file) == expected
    data["results"]["TCP download sum"] = [5.0, 7.0, None]
    assert trace_sources.steps(json.dumps(data)) == expected
    assert trace_sources.steps(json.dumps(data), upload=True)[0]["rate"] == "9mbit"


def test_a_link_loses_and_delays_as_was_measured(tmp_path: Path) -> None:
    file = traces.write_csv(tmp_path / "path.csv", trace_sources.steps(json.dumps(irtt(20, lost=2))))
    assert file.read_text().splitlines()[:2] == ["time (s),rate (Mbit/s),delay (ms),loss (%)", "0,,20,20"]
    link = {"name": "there", "from": "left", "to": "right", "rate": "100mbit", "queue": "100kB", "schedule": str(file)}
    scenario = tb.Scenario.from_dict(
        {
            "duration": "20s",
            "link": [link, {"name": "back", "from": "right", "to": "left", "delay": "1ms"}],
            "flow": [{"name": "cbr", "app": "udp-cbr", "from": "left", "to": "right", "params": {"rate": "1mbit"}}],
            "instruments": {"packets": "all"},
        }
    )
    rows = tb.run(scenario.with_({}, seed=2)).where_flow("packets", "cbr")
    sent, received = rows["sent_s"], rows["received_s"]
    lost = np.mean(np.isnan(received[sent < 19]))
    # The deviation of the mean over n packets is √(0.2·0.8/n).
    assert abs(lost - 0.2) < 4 * np.sqrt(0.16 / np.sum(sent < 19))
    delays = received - sent
    for second in (0, 7, 18):
        mine = delays[(sent >= second) & (sent < second + 1) & ~np.isnan(received)]
        assert np.median(mine) == pytest.approx(0.02 * (1 + second), abs=0.001)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("<!doctype html>", "is a web page, not a measurement"),
        ('{"intervals": [', "line 1, column 16 of the file"),
        ("[]", "is from none of irtt, iperf3 and Flent"),
        ({"error": "unable to connect"}, "holds iperf3's error 'unable to connect'"),
        ({"intervals": []}, "has no intervals"),
        ({"intervals": [{}]}, r"intervals\[0\] of the file has no sum"),
        (iperf3([-1.0]), r"intervals\[0\] of the file: bits_per_second is -1, below zero"),
        (iperf3([1.0], lost_percent=200), r"intervals\[0\] of the file: lost_percent is 200"),
        ({"intervals": iperf3([1.0, 2.0])["intervals"][::-1]}, r"intervals\[1\] of the file is from 0 to 1 s"),
        ({"round_trips": irtt()["round_trips"][::-1]}, r"round_trips\[1\] of the file was sent 0.1 s before"),
        ({"round_trips": [{"lost": "false"}]}, r"round_trips\[0\] of the file has no timestamps"),
        ({"x_values": [0, 1], "results": {"Page load": [1, 2]}}, "neither TCP download nor Ping"),
        ({"x_values": [0, 1], "results": {"Ping (ms)": [1]}}, "2 x_values and a series of 1"),
        ({"x_values": [0, 1], "results": {"Ping (ms)": [1, "x"]}}, "is 'x', not a number"),
        ({"x_values": [0, 1, 2, 9], "results": {"Ping (ms)": [1, 1, 1, 1]}}, "nothing was measured from 2 to 9 s"),
        ({"x_values": [0, 2, 1], "results": {"Ping (ms)": [1, 1, 1]}}, "1 s comes after 2 s"),
    ],
)
def test_bad_measurements_are_refused_with_their_place(data: Any, expected: str) -> None:
    with pytest.raises(traces.TraceError, match=expected):
        trace_sources.steps(data if isinstance(data, str) else json.dumps(data))
