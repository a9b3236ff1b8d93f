"""Which congestion control a flow looks like, on captures of runs; tcpdump's are in tests/live."""

from __future__ import annotations

import io
import struct
import sys
import zipfile
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from test_captures_in import udp, write_pcap

import tailback as tb
from command import tailback
from tailback import capture
from tailback.capture.identify import Forest, forest
from tailback.capture.rounds import rounds

sys.path.insert(0, str(Path(__file__).parents[2] / "validation"))
from tailback_validation.identification.runs import begun_late


def taken(folder: Path, cc: str, point: str = "left", **flow) -> Path:
    """One flow over a path that is none of the plan's."""
    bell = tb.dumbbell(
        rate="9mbit", rtt="55ms", queue="1.1bdp", flows=[tb.bulk(cc=cc, **flow)], duration="28s", seed=77
    )
    result = tb.run(bell.with_({"instruments.captures": [point]}))
    path = folder / f"{cc}-{point}.pcapng"
    capture.export(result, point, path, snap=96)
    return path


@pytest.mark.parametrize("point", ["left", "right"])
@pytest.mark.parametrize("cc", ["reno", "cubic", "bbr", "vegas", "htcp"])
def test_the_common_ones_are_named_at_either_end(tmp_path: Path, cc: str, point: str):
    (found,) = capture.identify(taken(tmp_path, cc, point))
    assert found.looks_like == cc
    assert found.confidence >= 0.7
    assert found.name.startswith("10.0.0.1:")


def test_both_ends_see_the_same_window(tmp_path: Path):
    near, far = (rounds(taken(tmp_path, "cubic", point)) for point in ("left", "right"))
    assert len(near.event_s) == len(far.event_s) > 2
    assert near.event_s + 0.055 / 2 == pytest.approx(far.event_s, abs=0.06)
    at = np.arange(6.0, 26.0, 0.5)

    def window(it):
        good = np.isfinite(it.window)
        return np.interp(at, it.t_s[good], it.window[good])

    # A timestamp counts in milliseconds, within which one acknowledgement arrives at this rate.
    assert np.abs(window(near) / window(far) - 1).max() < 0.2
    assert np.median(np.abs(window(near) - window(far))) <= 2


def test_the_window_is_the_senders_own(tmp_path: Path):
    bell = tb.dumbbell(rate="9mbit", rtt="55ms", queue="1.1bdp", flows=[tb.bulk(cc="reno")], duration="20s")
    result = tb.run(bell.with_({"instruments.captures": ["right"], "instruments.segments": "all"}))
    capture.export(result, "right", tmp_path / "far.pcapng")
    it = rounds(tmp_path / "far.pcapng")
    segments = result.table("segments")
    own = segments["outgoing"] & ~segments["at_receiver"] & (segments["length"] > 0) & (segments["phase"] == 0)
    cwnd = np.interp(it.t_s, segments["t_s"][own], segments["cwnd"][own]) / 1448
    settled = np.isfinite(it.window) & (it.t_s > 3)
    assert np.median(np.abs(it.window[settled] - cwnd[settled])) <= 1.5


@pytest.mark.parametrize("cc", ["reno", "cubic", "bbr"])
def test_a_capture_begun_in_the_middle_is_no_reason_to_say_nothing(tmp_path: Path, cc: str):
    """Without the handshake the window's scale is unknown: the receiver seemed to hold the sender back throughout."""
    late = tmp_path / "late.pcapng"
    late.write_bytes(begun_late(taken(tmp_path, cc).read_bytes(), 9.0))
    (found,) = capture.identify(late)
    assert found.looks_like == cc
    assert "the capture began after the connection" in found.why


def test_stamps_that_jump_back_are_a_reason_and_no_traceback(tmp_path: Path):
    path = taken(tmp_path, "cubic")
    data = bytearray(path.read_bytes())
    place = number = 0
    while number < 2000:
        kind, length = struct.unpack_from("<II", data, place)
        number += kind == 6
        place += length
    data[place + 12 : place + 20] = bytes(8)
    path.write_bytes(data)
    (found,) = capture.identify(path)
    assert found.looks_like == "unknown"
    assert "its stamps jump back by" in found.why
    with pytest.raises(capture.CaptureError, match="stamps jump back"):
        rounds(path)


def quic(number: int, size: int = 1252) -> bytes:
    """An initial packet of QUIC version 1 first, then packets with short headers."""
    head = b"\xc3\x00\x00\x00\x01\x08" if number == 0 else b"\x41"
    return udp(b"\x0a\0\0\1", b"\x0a\0\0\2", 4433, 50000, head + bytes(size - len(head)), number)


def test_quic_flows_are_named_and_not_passed_over(tmp_path: Path):
    path = write_pcap(tmp_path / "q.pcap", [(10**6 * n, quic(n)) for n in range(200)])
    (found,) = capture.identify(path)
    assert (found.name, found.looks_like) == ("10.0.0.1:4433>10.0.0.2:50000/udp", "unknown")
    assert found.why.startswith("QUIC: its acknowledgements are encrypted")
    assert capture.identify(path, 0)[0].why == found.why
    # Without its beginning it is a UDP flow like any other, unless its port says more.
    late = write_pcap(tmp_path / "late.pcap", [(10**6 * n, quic(n)) for n in range(1, 200)])
    with pytest.raises(capture.CaptureError, match="no TCP connection has"):
        capture.identify(late)


def test_too_short_a_flow_is_unknown_and_says_why(tmp_path: Path):
    (found,) = capture.identify(taken(tmp_path, "cubic", bytes="200kB"))
    assert found.looks_like == "unknown"
    assert "round trips" in found.why


def test_a_sender_held_back_by_its_receiver_is_unknown(tmp_path: Path):
    stack = {"name": "linux", "initial_receive_buffer": "30kB", "receive_buffer": "30kB"}
    (found,) = capture.identify(taken(tmp_path, "cubic", stack=stack))
    assert found.looks_like == "unknown"
    assert "receiver's window" in found.why


def test_what_has_no_bulk_flow_is_refused(tmp_path: Path):
    bell = tb.dumbbell(rate="9mbit", rtt="50ms", flows=[tb.voip()], duration="3s")
    result = tb.run(bell.with_({"instruments.captures": ["left"]}))
    capture.export(result, "left", tmp_path / "call.pcapng")
    with pytest.raises(capture.CaptureError, match="no TCP connection has 100,000 bytes"):
        capture.identify(tmp_path / "call.pcapng")
    with pytest.raises(capture.CaptureError, match="is no TCP connection"):
        capture.identify(tmp_path / "call.pcapng", 0)


def test_the_command_prints_it(tmp_path: Path):
    path = taken(tmp_path, "bbr", "right")
    assert "bbr" in tailback("pcap", "identify", path).out
    reported = tailback("pcap", "identify", path, "--json").data
    assert reported["rows"][0]["looks_like"] == "bbr"
    assert sum(reported["votes"][0][name] for name in reported["votes"][0] if name != "flow") == pytest.approx(
        1.0, abs=0.2
    )


def test_the_model_is_arrays_and_small():
    raw = (resources.files("tailback.capture") / "identify.npz").read_bytes()
    assert len(raw) < 300_000
    with zipfile.ZipFile(io.BytesIO(raw)) as parts:
        for name in parts.namelist():
            # No array of objects, which would need pickle.
            assert b"'|O'" not in parts.read(name)[:200]
    it = forest()
    assert set(it.labels) == {label for members in it.families.values() for label in members}
    assert (it.child[it.column >= 0] + 1 < len(it.column)).all()
    assert (it.child[it.column < 0] < len(it.votes)).all()
    assert (np.diff(it.sure[0]) > 0).all()
    assert (np.diff(it.sure[1]) >= 0).all()


def test_a_forest_votes_and_answers_as_its_arrays_say():
    """Two trees by hand: x at most 1 is `a`, above `b`; and always half and half."""
    it = Forest(
        ("x",), ("a", "b"), {"both": ("a", "b")}, 0.7, np.array([0, -1, -1, -1]), np.array([1.0, 0, 0, 0], np.float32),
        np.array([1, 0, 1, 2]), np.array([0, 3]), np.array([[255, 0], [0, 255], [128, 128]], np.uint8),
        (np.array([0.5, 1.0]), np.array([0.0, 1.0])), (np.array([0.0, 1.0]), np.array([0.0, 1.0])),
    )  # fmt: skip
    shares = it.shares(np.array([[1.0], [1.5]]))
    assert shares == pytest.approx(np.array([[0.749, 0.251], [0.251, 0.749]]), abs=1e-3)
    # 0.749 of the votes are right 0.498 of the time, which is too rare; together they always are.
    assert it.answer(shares[0]) == ("both", pytest.approx(1.0))
    assert it.answer(np.array([0.9, 0.1]))[0] == "a"
