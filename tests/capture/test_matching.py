"""A run beside a capture of it: flows are matched by addresses, by order, or as one says."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import tailback as tb
from command import tailback
from tailback import capture
from tailback.capture.matching import NoSuchName, matched
from tailback.compare import NothingToCompare, compare


@pytest.fixture(scope="module")
def run() -> tb.Result:
    """Two downloads and a call; the second download begins first."""
    flows = [tb.bulk(name="first", start="500ms"), tb.bulk(name="second", cc="reno"), tb.voip(name="call")]
    bell = tb.dumbbell(rate="10mbit", rtt="40ms", flows=flows, duration="4s")
    return tb.run(bell.with_({"instruments.captures": ["left", "right"], "instruments.packets": "all"}))


@pytest.fixture(scope="module")
def taken(run: tb.Result, tmp_path_factory: pytest.TempPathFactory) -> tb.Result:
    """The same from captures at both hosts."""
    folder = tmp_path_factory.mktemp("taken")
    for point in ("left", "right"):
        capture.export(run, point, folder / f"{point}.pcapng")
    return capture.open_capture(folder / "left.pcapng", folder / "right.pcapng")


def test_flows_are_matched_by_the_addresses_of_the_run(run: tb.Result, taken: tb.Result):
    # The capture has them in order of their first packet.
    assert taken.flow_names[0].startswith("10.0.1.1:")
    rows = {(row.metric, row.of): row.values for row in compare({"run": run, "capture": taken})}
    assert {of for _, of in rows} == {"first", "second", "call"}
    for metric, of, close in (
        ("goodput", "first", 0.02), ("goodput", "second", 0.02), ("loss rate", "second", 0.05),
        ("delay, 95 %", "call", 1e-4), ("quality (G.107)", "call", 1e-3),
    ):  # fmt: skip
        values = rows[metric, of]
        assert values["capture"] == pytest.approx(values["run"], rel=close), (metric, of)
        assert not math.isnan(values["run"])


def test_other_addresses_are_matched_by_order_or_by_name(run: tb.Result, taken: tb.Result):
    from tailback.capture.matching import _called

    far = _called(taken, {name: name.replace("10.0.", "192.0.") for name in taken.flow_names})
    by_order = matched({"run": run, "capture": far})[0]["capture"]
    assert by_order.flow_names == ["second", "call", "first"]
    swapped = dict(zip(["first", "second"], [far.flow_names[0], far.flow_names[2]], strict=True))
    once = matched({"run": run, "capture": far}, swapped)[0]
    assert once["capture"].flow_names == ["first", "call", "second"]
    # `compare` matches again what the command line has matched.
    assert matched(once)[0]["capture"].flow_names == once["capture"].flow_names
    with pytest.raises(NoSuchName, match=r"there is no flow frist in the run\. Did you mean first"):
        matched({"run": run, "capture": far}, {"frist": far.flow_names[0]})
    with pytest.raises(NoSuchName, match="there is no flow nothing in the other results"):
        matched({"run": run, "capture": far}, {"first": "nothing"})


def test_runs_with_other_names_have_nothing_in_common_until_they_are_mapped(run: tb.Result):
    one, other = (
        tb.run(tb.dumbbell(rate="5mbit", rtt="40ms", flows=[tb.bulk(name=name)], duration="1s")) for name in "ab"
    )
    rows = [row for row in compare({"one": one, "other": other}) if row.of in "ab"]
    assert not rows
    rows = [row for row in compare({"one": one, "other": other}, names={"a": "b"}) if row.of == "a"]
    assert rows
    assert all(row.change("other") == 0 for row in rows if row.values["one"])


def test_the_command_compares_a_run_with_a_capture_of_it(run: tb.Result, taken: tb.Result, tmp_path: Path):
    run.save(tmp_path / "run")
    taken.save(tmp_path / "capture")
    pair = (tmp_path / "run", tmp_path / "capture")
    done = tailback("compare", *pair, "--map", f"first={taken.flow_names[2]}", "--json")
    assert done.code == 0, done.err
    assert {row["of"] for row in done.data["metrics"]} >= {"first", "second", "call"}
    done = tailback("compare", *pair, "--map", "first")
    assert done.code == 2
    assert "give RUN=CAPTURE" in done.err
    with pytest.raises(NothingToCompare):
        compare({"run": run})
