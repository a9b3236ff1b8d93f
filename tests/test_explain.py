"""What `explain` says of runs whose answers are known."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tailback as tb
from tailback import cli, metrics
from tailback.explain import explain
from tailback.metrics import Rows


def said(result: object) -> dict[str, str]:
    out: dict[str, str] = {}
    for finding in explain(result):
        out[finding.about] = out.get(finding.about, "") + " " + finding.text
    return out


def run(cc: str = "reno", queue: str = "2bdp") -> tb.Result:
    base = tb.dumbbell(
        rate="10mbit",
        rtt="40ms",
        queue=queue,
        flows=[tb.bulk(cc, name="bulk"), tb.voip(name="call")],
        duration="30s",
        instruments={
            "polls": ["bulk"], "packets": ["call"], "queue_polls": ["bottleneck"], "drops": ["bottleneck"],
            "poll_interval": "10ms",
        },
    )  # fmt: skip
    return tb.run(base)


@pytest.fixture(scope="module")
def result() -> tb.Result:
    return run()


def test_the_download_is_named_as_the_one_that_filled_the_queue(result: tb.Result) -> None:
    assert metrics.window_queue_correlation(result, "bulk") > 0.9
    assert "bulk (Linux 6.x NewReno) filled it" in said(result)["queue"]
    assert "of the differences between their delays are the queue at bottleneck" in said(result)["delay"]


def test_a_window_that_does_not_move_with_the_queue_fills_nothing() -> None:
    assert "filled it" not in said(run("bbr", "8bdp"))["queue"]


def test_a_cut_below_what_the_path_holds_leaves_the_link_idle() -> None:
    short = run(queue="0.2bdp")
    assert metrics.utilisation(short) < 0.99
    # 10 Mbit/s times 40 ms are 34.5 segments; Reno halves a window of 1.2 times as many.
    assert "a cut leaves bulk 20" in said(short)["queue"]
    assert "and the path alone holds 34.5" in said(short)["queue"]
    assert "idle" not in said(run())["queue"]


def test_numbers_are_those_of_the_metrics(result: tb.Result) -> None:
    events = metrics.congestion_events(result, "bulk")
    assert f"backed off {len(events.t_s)} times" in said(result)["growth"]
    assert "to 50 % of that" in said(result)["growth"]


def test_the_wait_at_a_link_whose_rate_changes_is_that_of_its_packets() -> None:
    path = {"rate": "10mbit", "rtt": "40ms", "queue": "100packets", "schedule": [{"at": "1s", "rate": "2mbit"}]}
    slowed = tb.run(tb.dumbbell(**path, flows=[tb.bulk()], duration="20s", instruments={"packets": "all"}))
    found = re.search(r"a wait of (\d+) ms", said(slowed)["queue"])
    _, delay = metrics.one_way_delay(slowed, 0)
    # Little's law counts packets that still wait at the end; 20 ms are the path's own.
    assert found
    assert float(found[1]) == pytest.approx(1e3 * delay.mean() - 20.0, rel=0.05)


def test_who_fetches_has_no_share_of_the_link_that_carries_its_requests() -> None:
    assert not [text for text in beside_an_upload("page") if "of the goodput" in text]


def test_a_run_without_loss_says_so() -> None:
    free = tb.run(tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.voip(name="call")], duration="2s"))
    assert said(free)["loss"].strip() == "No link dropped a packet."


@pytest.mark.parametrize(("downloads", "corrupt"), [(4, 0.0), (12, 0.0), (4, 0.01)])
def test_the_flows_dropped_packets_add_up(downloads: int, corrupt: float) -> None:
    path = {"rate": "10mbit", "rtt": "40ms", "queue": "0.5bdp", "wire": {"corrupt": corrupt}}
    crowd = tb.run(tb.dumbbell(**path, flows=[tb.bulk("cubic", count=downloads)], duration="5s"))
    (text,) = [each.text for each in explain(crowd) if "packets were dropped" in each.text]
    whole, parts = re.sub(r"(?<=\d),(?=\d)", "", text).rstrip(".").split(": ")
    assert ("received them damaged" in whole) == bool(corrupt)
    assert sum(int(part.split()[-1]) for part in parts.split(", ")) == int(whole.split()[0])


def test_each_sentence_names_rows_that_are_there(result: tb.Result) -> None:
    logged = tb.run(result.scenario.with_({"instruments.queues": "all"}))
    assert "queue: " in next(each.rests_on for each in explain(logged) if each.text.startswith("It was empty"))
    for finding in explain(result):
        assert finding.rests_on
        for part in finding.rests_on.split("; "):
            table = part.split(":")[0].split(",")[0]
            assert table in result.tables, part


def test_the_command_prints_the_same(result: tb.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "kept")
    done = CliRunner().invoke(cli.app, ["explain", str(tmp_path / "kept"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["findings"] == [finding.as_dict() for finding in explain(result)]


WATCHED = {"polls": "all", "packets": "all", "queue_polls": "all", "drops": "all", "poll_interval": "10ms"}


@pytest.fixture(scope="module")
def both_ways() -> tb.Result:
    """A download all the time, an upload from 10 s to 20 s, a call in both directions."""
    flows = [
        tb.bulk("reno", name="download"),
        tb.bulk("reno", name="upload", from_="right", start="10s", stop="20s"),
        tb.voip(name="call", two_way=True),
    ]
    return tb.run(
        tb.dumbbell(
            rate="8mbit", back_rate="2mbit", rtt="40ms", queue="2bdp", back_queue="2bdp",
            flows=flows, duration="30s", instruments=WATCHED,
        )
    )  # fmt: skip


def test_each_direction_of_a_call_is_explained_by_the_queue_it_crosses(both_ways: tb.Result) -> None:
    sentences = [finding for finding in explain(both_ways) if "differences between their delays" in finding.text]
    assert [("of call.back" in each.rests_on, "at return" in each.text) for each in sentences] == [
        (False, False),
        (True, True),
    ]


def test_a_flow_fills_the_queue_of_its_own_direction() -> None:
    flows = [tb.voip(name="call"), tb.bulk("reno", name="upload", from_="right")]
    words = said(tb.run(tb.dumbbell(rate="4mbit", rtt="40ms", flows=flows, duration="20s", instruments=WATCHED)))
    assert "A queue is at return (4 Mbit/s)" in words["queue"]
    assert "at bottleneck" not in words["queue"]
    assert "upload (Linux 6.x NewReno) filled it: 100 % of the payload is its own" in words["queue"]


def test_an_idle_link_is_not_put_down_to_a_cut_while_no_flow_sends(both_ways: tb.Result) -> None:
    assert "a cut leaves" not in said(both_ways)["queue"]
    pauses = tb.dumbbell(
        rate="8mbit", rtt="40ms", queue="0.5bdp", flows=[tb.bulk("reno", name="bulk", start="5s", stop="15s")],
        duration="20s", instruments=WATCHED,
    )  # fmt: skip
    words = said(tb.run(pauses))["queue"]
    assert "no flow being on for 50 %" in words
    assert "a cut leaves" not in words


def test_the_flow_whose_start_made_the_difference_is_named_and_no_other(both_ways: tb.Result) -> None:
    began = [finding for finding in explain(both_ways) if " began at " in finding.text]
    assert len(began) == 1
    assert began[0].text.startswith("upload (Linux 6.x NewReno), which shares return with it, began at 10 s")
    assert "of call.back" in began[0].rests_on
    assert "backs off" not in said(both_ways)["delay"]


def test_waits_that_are_alike_throughout_have_no_worst_part(result: tb.Result) -> None:
    assert "worst" not in said(result)["delay"]


@pytest.fixture(scope="module")
def two_links() -> tb.Result:
    """Two links in a row: `long` crosses both, `short` only the second, which is the slower."""
    links = [
        tb.link("first", "a", "b", rate="20mbit", delay="5ms", queue="50packets", duplex=True),
        tb.link("second", "b", "c", rate="5mbit", delay="5ms", queue="50packets", duplex=True),
    ]
    flows = [
        tb.bulk("reno", name="long", from_="a", to="c"),
        tb.bulk("cubic", name="short", from_="b", to="c", start="2s"),
        tb.voip(name="near", from_="a", to="b"),
        tb.voip(name="far", from_="b", to="c"),
    ]
    return tb.run(tb.network(links=links, flows=flows, duration="20s", instruments=WATCHED))


def test_a_queue_is_named_where_it_stands(two_links: tb.Result) -> None:
    words = said(two_links)
    assert "A queue is at second (5 Mbit/s)" in words["queue"]
    assert "at first" not in words["queue"]
    assert "100 % of them at second" in words["loss"]


def test_a_call_that_misses_the_queue_is_not_explained_by_it(two_links: tb.Result) -> None:
    sentences = [finding for finding in explain(two_links) if "differences between their delays" in finding.text]
    assert [finding.rests_on.split(";")[0].split(" of ")[1] for finding in sentences] == ["far"]


def test_shares_come_with_all_that_differs_and_no_cause(two_links: tb.Result) -> None:
    rates = {name: metrics.goodput(two_links, name, 2.0, 20.0) for name in ("long", "short")}
    words = said(two_links)["share"]
    winner = max(rates, key=lambda name: rates[name])
    assert f"At second, {winner} (" in words
    assert (
        f"got {100 * rates[winner] / sum(rates.values()):.0f} % of the goodput of 2 flows while all were on (2 to 20 s)"
        in words
    )
    if "They" in words:
        assert "congestion control (cubic, reno), round trip (10 to 20 ms), start (0 to 2 s), route" in words


def test_flows_that_were_never_on_together_share_nothing() -> None:
    flows = [tb.bulk("reno", name="early", stop="4s"), tb.bulk("cubic", name="late", start="6s")]
    apart = tb.run(tb.dumbbell(rate="5mbit", rtt="40ms", flows=flows, duration="10s", instruments=WATCHED))
    assert "share" not in said(apart)


def test_equal_flows_are_said_to_be_alike() -> None:
    flows = [tb.bulk("reno", name="one"), tb.bulk("reno", name="two", start="1ms")]
    alike = tb.run(tb.dumbbell(rate="5mbit", rtt="40ms", queue="10packets", flows=flows, duration="3s"))
    words = said(alike)["share"]
    rates = [metrics.goodput(alike, name) for name in ("one", "two")]
    assert ("They are configured alike." in words) == (max(rates) > 0.6 * sum(rates))
    assert "differ" not in words


def test_a_flow_that_lost_nothing_met_no_congestion() -> None:
    small = tb.bulk("reno", name="small", bytes="50kB")
    easy = tb.run(tb.dumbbell(rate="10mbit", rtt="40ms", queue="2bdp", flows=[small], duration="5s"))
    assert "small (Linux 6.x NewReno) met no congestion" in said(easy)["growth"]
    assert "none of its packets was dropped" in said(easy)["growth"]
    assert "backed off" not in said(easy)["growth"]


def test_bursts_of_drops_are_counted_by_the_pauses_between_them(both_ways: tb.Result) -> None:
    name = max(both_ways.link_summary(), key=lambda row: row["dropped"])["link"]
    times = metrics.drop_times(both_ways, name)
    bursts = 1 + sum(after - before > 1.0 for before, after in pairwise(times))
    assert bursts > 1
    assert f"The link {name} dropped in {bursts} bursts" in said(both_ways)["loss"]


def test_steady_drops_are_no_burst() -> None:
    flood = tb.flow("udp-cbr", name="flood", params={"rate": "2mbit"})
    steady = tb.run(
        tb.dumbbell(rate="1mbit", rtt="40ms", queue="5packets", flows=[flood], instruments={"drops": ["bottleneck"]},
                    duration="5s")
    )  # fmt: skip
    first, *_, last = metrics.drop_times(steady, "bottleneck")
    assert f"dropped from {first:.3g} to {last:.3g} s, without a pause of 1 s" in said(steady)["loss"]


def test_a_queue_that_a_flow_does_not_cross_is_no_measure_of_its_delay(both_ways: tb.Result) -> None:
    with pytest.raises(metrics.NothingToMeasure, match=r"call\.back does not cross bottleneck\. It crosses: return"):
        metrics.delay_slope(both_ways, "call.back", "bottleneck")
    # Left open, it is the flow's own.
    assert metrics.delay_slope(both_ways, "call.back") == metrics.delay_slope(both_ways, "call.back", "return")


def test_of_a_capture_nothing_is_said_of_links_that_it_does_not_know() -> None:
    free = tb.run(
        tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.bulk("reno", name="bulk", bytes="50kB")], duration="2s")
    )
    rows = Rows.of(free)
    links = [{**link, "rate_bps": None} for link in rows.scenario["links"]]
    unknown = Rows(rows.tables, {**rows.scenario, "links": links}, {"engine": "capture"})
    assert {"queue", "loss"} <= said(free).keys()
    assert not {"queue", "loss"} & said(unknown).keys()


def beside_an_upload(app: str) -> list[str]:
    """Sentences about a flow that asks from the upload's side, behind queues of ten packets."""
    flows = [
        tb.bulk("cubic", name="upload", from_="right", to="left"),
        tb.flow(app, name="page", from_="right", to="left", params={"gap": 200.0}),
    ]
    line = {"rate": "8mbit", "back_rate": "2mbit", "rtt": "40ms", "queue": "10packets", "back_queue": "10packets"}
    return [each.text for each in explain(tb.run(tb.dumbbell(**line, flows=flows, duration="8s")))]


def test_drops_without_congestion_are_counted_in_a_sentence() -> None:
    (text,) = [each for each in beside_an_upload("page") if "met no congestion" in each]
    assert re.search(r", though (one of its packets was|\d+ of its packets were) dropped\.$", text)


def test_drops_of_what_comes_back_are_counted() -> None:
    (text,) = [each for each in beside_an_upload("web-probe") if "packets were dropped" in each]
    found = re.search(
        r"(\d+) packets were .*upload (\d+), page (\d+), and (\d+) that a flow's receiver sent back", text
    )
    assert found, text
    total, *parts = map(int, found.groups())
    assert total == sum(parts)
