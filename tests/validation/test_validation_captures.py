"""`tailback pcap` beside tshark and tcptrace; what differs is known by name."""

from __future__ import annotations

import shutil

import pytest

from tailback_validation import captures

pytestmark = pytest.mark.skipif(
    any(shutil.which(name) is None for name in ("tshark", "tcptrace", "editcap")),
    reason="not installed: tshark, editcap or tcptrace",
)

#: tcptrace takes no sample from some acknowledgements of what had been overtaken.
KNOWN = {("run with reordering, sender", "RTT samples")}


def test_counts_and_round_trips_are_those_of_tshark_and_tcptrace() -> None:
    rows, absent = captures.compare()
    assert absent == []
    assert len(rows) >= 100
    differ = {(row.file, row.what) for row in rows if not row.is_met}
    assert differ <= KNOWN


def test_a_difference_of_one_is_seen() -> None:
    row = captures.Agreement("a", "packets", "tshark", 100, 101, 0)
    assert not row.is_met
    assert "**no**" in captures.page([row], [])
    assert "0 of 1 numbers agree" in captures.page([row], [])


def test_a_cell_of_voip_latency_is_measured_from_captures_as_from_its_rows() -> None:
    from tailback_papers.voip_latency import STUDY
    from tailback_validation import from_captures

    cell = next(cell for cell in STUDY.grid(True) if cell.key == "1M-16ms-1bdp-freebsd-htcp")
    rows, seen = from_captures.both(cell, STUDY.extract)
    assert seen["delay_ms"] == pytest.approx(rows["delay_ms"], abs=1e-3)
    # Who is lost while the last packets are under way is not known to a capture.
    for key in ("drops_tcp", "drops_call", "retransmitted"):
        assert seen[key] == pytest.approx(rows[key], abs=2)
    assert seen["window"] == pytest.approx(rows["window"], abs=0.2)
    assert seen["utilisation"] == pytest.approx(rows["utilisation"], abs=0.01)
