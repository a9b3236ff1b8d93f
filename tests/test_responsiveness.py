"""The numbers that operators know: on paths whose loaded delay theory gives, and what must differ between them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tailback as tb
from synthetic import scenario as described
from tailback import metrics, responsiveness
from tailback.metrics import Rows

#: A receive window of 64,000 B: 44 segments of 1448 B, 66,000 B on the link.
WINDOW = {"stack": "freebsd-7", "receive_buffer": "64000B", "mtu": "1500B"}
WINDOW_S = 44 * 1500 * 8 / 10e6


def put_to_the_test(queue: str, most: int, back_rate: str = "10mbit", **load: str) -> responsiveness.Numbers:
    flows = [tb.flow("bulk", cc="reno", **load)]
    line = tb.dumbbell(rate="10mbit", back_rate=back_rate, rtt="20ms", queue=queue, flows=flows, duration="1s")
    return responsiveness.numbers(tb.run(responsiveness.scenario(line, most=most)))


@pytest.fixture(scope="module")
def windowed() -> responsiveness.Numbers:
    """One connection each way whose window is larger than the BDP down, and waits there; up the link is never full."""
    return put_to_the_test("1MB", 1, "1gbit", **WINDOW)


def test_a_window_beyond_the_bdp_is_the_round_trip_of_all(windowed) -> None:
    # RTT = window/rate. Probes may take 5 % of the rate, the upload's ACKs 2 %.
    assert 0.93 * 60 / WINDOW_S < windowed.rpm_loaded < 60 / WINDOW_S
    # TLS's 3000 B take two segments' time more, the other two exchanges a segment's less.
    assert windowed.rpm_separate == pytest.approx(windowed.rpm_loaded, rel=0.05)
    assert windowed.rpm == pytest.approx((windowed.rpm_loaded + windowed.rpm_separate) / 2, rel=1e-12)
    for mean in (windowed.download_mean_ms, windowed.download_ms, windowed.both_mean_ms):
        assert 0.95 * WINDOW_S < mean / 1e3 < WINDOW_S / 0.93
    assert windowed.confidence == "high"


def test_grades_follow_from_the_known_increase(windowed) -> None:
    # 33 to 36 ms down, nothing up: half of it on average, A. LibreQoS: B, A+ and B are 4.67 points on average, A.
    assert 31.0 < windowed.download_mean_ms - windowed.idle_mean_ms < 37.0
    assert windowed.upload_mean_ms == pytest.approx(windowed.idle_mean_ms, abs=0.5)
    assert (windowed.bufferbloat_grade, windowed.libreqos_grade) == ("A", "A")


def test_idle_numbers_are_the_paths_own(windowed) -> None:
    # 20 ms and the serialisation of some hundred bytes.
    assert 20.0 < windowed.idle_ms < 20.5
    # Of three exchanges the second carries 3000 B: 2.4 ms at 10 Mbit/s.
    assert windowed.rpm_idle == pytest.approx(60 / ((20.1 + 22.7 + 20.6) / 3e3), rel=0.02)
    most = 10 * 1448 / 1500
    assert 0.94 * most < windowed.download_mbps < most


def test_a_queue_for_each_flow_hides_the_load_from_all_but_loaded_connections() -> None:
    fifo, fair = put_to_the_test("250ms", 4), put_to_the_test("fq_codel", 4)
    # Behind one queue every probe waits for the load.
    assert fifo.rpm_separate == pytest.approx(fifo.rpm_loaded, rel=0.35)
    # Reno keeps half the queue or more: 125 to 250 ms.
    assert fifo.bufferbloat_grade in ("C", "D")
    assert fifo.libreqos_grade == "F"
    # With queues of their own, new connections and round trips do not; the loaded connections do.
    assert fair.rpm_separate > 1.15 * fair.rpm_loaded
    assert fair.bufferbloat_grade == "A+"
    assert fair.rpm > 3 * fifo.rpm


def test_the_load_is_the_first_flows_over_tcp_and_the_client_can_be_chosen() -> None:
    flows = [
        tb.voip(), tb.flow("bulk", cc="htcp", stack="freebsd-9", receiver_stack="linux", access_delay="3ms", name="x"),
    ]  # fmt: skip
    line = tb.dumbbell(rate="10mbit", rtt="20ms", flows=flows, duration="1s")
    by_name = {flow["name"]: flow for flow in responsiveness.scenario(line).resolve()["flows"]}
    assert len(by_name) == 2 * 16 + 3
    assert (by_name["down-16"]["from"], by_name["down-16"]["to"]) == ("down-16.sender", "right")
    assert (by_name["ping"]["from"], by_name["ping"]["to"]) == ("ping.sender", "left")
    assert by_name["down-3"]["tcp"]["cc"] == "htcp"
    assert (by_name["down-1"]["tcp"]["stack"], by_name["up-1"]["tcp"]["stack"]) == ("freebsd-9", "linux")
    turned = responsiveness.scenario(line, client="left").resolve()["flows"][0]
    assert turned["to"] == "left"
    reader = tb.dumbbell(rate="10mbit", rtt="20ms", flows=[tb.flow("web-probe", from_="right")], duration="1s")
    assert responsiveness.scenario(reader).resolve()["flows"][0]["to"] == "right"


def test_what_cannot_be_tested_says_so() -> None:
    line = tb.dumbbell(rate="10mbit", rtt="20ms", flows=[tb.bulk()], duration="1s")
    with pytest.raises(tb.ScenarioError, match=r"client = .up.: .* does not end there\. Give left or right"):
        responsiveness.scenario(line, client="up")
    with pytest.raises(tb.ScenarioError, match=r"most = .?0"):
        responsiveness.scenario(line, most=0)
    with pytest.raises(responsiveness.NotATest, match="--as responsiveness"):
        responsiveness.numbers(tb.run(line))


def test_rpm_by_hand() -> None:
    kinds = {"handshake": 4, "tls": 5, "probe": 1}
    took = {"handshake": 0.05, "tls": 0.1, "probe": 0.15}
    words = [word for word in kinds for _ in range(20)]
    requests = {
        "flow": np.ones(60, np.uint32), "t_s": np.linspace(0, 5.9, 60), "bytes": np.ones(60, np.uint64),
        "kind": np.array([kinds[word] for word in words], np.uint8), "fate": np.zeros(60, np.uint8),
        "response_time_s": np.array([took[word] for word in words]),
    }  # fmt: skip
    polls = {"flow": np.zeros(3, np.uint32), "t_s": np.array([1.0, 2.0, 9.0]), "rtt_s": np.array([0.2, np.nan, 9.9])}
    rows = Rows({"requests": requests, "polls": polls}, described(duration_s=60.0))
    # Foreign 60/0.1 = 600, loaded 60/0.2 = 300; the poll at 9 s lies outside.
    assert metrics.responsiveness(rows, 1, [0], 0.0, 6.0) == pytest.approx(450.0)
    # A lost probe has no time.
    requests["fate"][:20] = 1
    assert np.isnan(metrics.responsiveness(rows, 1, [0], 0.0, 6.0))


def test_the_command_prints_them_and_json_has_them(tmp_path: Path) -> None:
    file = tmp_path / "line.toml"
    file.write_text(
        'duration = "1s"\n[dumbbell]\nrate = "2mbit"\nrtt = "20ms"\nqueue = "50ms"\n[[flow]]\napp = "bulk"\n'
    )
    command = [sys.executable, "-m", "tailback", "run", str(file), "--as"]
    done = subprocess.run([*command, "responsiveness"], capture_output=True, text=True, check=True)
    for word in ("RPM", "Waveform", "Ookla", "LibreQoS"):
        assert word in done.stdout
    out = subprocess.run([*command, "responsiveness", "--json"], capture_output=True, text=True, check=True).stdout
    assert json.loads(out)["responsiveness"]["bufferbloat_grade"] in ("B", "C")
    wrong = subprocess.run([*command, "speedtest"], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "There are: responsiveness" in wrong.stderr
