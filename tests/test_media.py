"""Every medium and every network of the papers can be said, in TOML and in Python, and answers as it should."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tailback as tb

ECHOES = {"echoes": "all"}


def _ping(**more: str) -> tb.Flow:
    # An odd interval, so that no timer of a link can lock to it.
    return tb.flow("ping", name="ping", params={"interval": "203ms"}, **more)


def _median_ms(result: tb.Result, after: float = 0.0) -> float:
    echoes = result.numpy("echoes")
    return float(np.nanmedian(echoes["rtt_s"][echoes["t_s"] >= after])) * 1e3


# The papers' figures; 3 % is the precision they are printed with ("roughly 50ms").
IDLE_MS = {
    "adsl1": 50, "adsl1-vtun": 50, "homeplug": 4, "wifi": 1.5, "3g": 130, "university": 54, "adsl2": 54, "ocean": 100,
}  # fmt: skip


@pytest.mark.parametrize("name", IDLE_MS)
def test_presets_idle_as_their_papers_say(name: str) -> None:
    result = tb.run(tb.presets.scenario(name, flows=[_ping()], duration="60s", instruments=ECHOES))
    assert _median_ms(result) == pytest.approx(IDLE_MS[name], rel=0.03)


@pytest.mark.parametrize(("name", "least", "most"), [("wifi", 17.5, 19.0), ("homeplug", 31.0, 36.0)])
@pytest.mark.parametrize(("cc", "stack"), [("cubic", "linux"), ("reno", "freebsd-9")])
def test_presets_carry_what_their_papers_measured(name: str, least: float, most: float, cc: str, stack: str) -> None:
    flows = [tb.bulk(cc, stack, name="bulk"), _ping()]
    result = tb.run(tb.presets.scenario(name, flows=flows, duration="30s", instruments=ECHOES))
    mbps = result.column("flows", "bytes_received")[0] * 8 / 30e6
    assert least <= mbps <= most


def test_3g_is_slow_under_load_by_its_buffer_alone() -> None:
    def rtt_ms(buffer: str) -> float:
        values = []
        for seed in range(1, 7):
            flows = [tb.bulk("hybla", bytes="1MB", name="bulk"), _ping()]
            made = tb.presets.scenario("3g", flows=flows, duration="30s", seed=seed, instruments=ECHOES, buffer=buffer)
            result = tb.run(made)
            echoes, end = result.numpy("echoes"), result.column("flows", "finished_s")[0]
            values.append(np.nanmean(echoes["rtt_s"][echoes["t_s"] < end]) * 1e3)
        return float(np.mean(values))

    assert 500 <= rtt_ms("128kB") <= 700
    assert rtt_ms("16kB") < 250


@pytest.mark.parametrize("name", tb.presets.names())
def test_presets_can_be_written_down_and_read_again(name: str) -> None:
    made = tb.presets.scenario(name, flows=[tb.bulk("reno")], duration="1s")
    again = tb.Scenario.parse_toml(made.to_toml())
    assert again == made
    assert again.resolve() == made.resolve()
    spelt_out = tb.Scenario.from_resolved(made.resolve())
    assert spelt_out.resolve()["links"] == made.resolve()["links"]


@pytest.mark.parametrize(("shape", "holds"), [(0, "modem"), (0.95, "router-up")])
def test_a_home_lines_packets_wait_in_the_modem_or_in_the_shaping_router(shape: float, holds: str) -> None:
    upload = tb.bulk("cubic", **{"from": "right"})
    result = tb.run(tb.presets.scenario("home", flows=[upload], duration="10s", shape=shape))
    rows = {row["link"]: row for row in result.link_summary()}
    waits = {name: row["backlog_mean_bytes"] for name, row in rows.items()}
    assert waits[holds] > 20 * max(waits[name] for name in waits if name != holds)
    assert [rows[name]["rate_mbps"] for name in ("provider", "modem")] == [50.0, 10.0]
    assert rows["router-up"]["rate_mbps"] == (9.5 if shape else 1000.0)
    # With the default queues the modem's FIFO holds up to 250 ms, FQ-CoDel about its target.
    assert (waits[holds] > 100_000) == (holds == "modem")


def test_a_cable_modem_holds_ten_milliseconds_by_rfc_8034s_constants() -> None:
    upload = tb.bulk("cubic", name="upload", **{"from": "right"})
    ping = tb.flow("ping", name="ping", params={"interval": "50.3ms"}, start="5s", **{"from": "right"})

    def rtt_ms(**options: str) -> float:
        made = tb.presets.scenario("cable", flows=[upload, ping], duration="30s", instruments=ECHOES, **options)
        return _median_ms(tb.run(made), after=5)

    # 16 ms on the way, about 5 of requests and grants, and up to the target of 10 in the modem's queue.
    assert 21 < rtt_ms() < 31
    # 312 kB at 10 Mbit/s are 250 ms.
    assert rtt_ms(up_queue="312kB") > 150


def test_a_cable_modem_keeps_its_rate_when_packets_pass_each_other() -> None:
    medium = {"name": "docsis", "rate": "10mbit"}
    links = [tb.link("up", "home", "isp", medium=medium, queue="sfq"), tb.link("down", "isp", "home")]
    flows = [
        tb.flow("udp-cbr", name="cbr", from_="home", to="isp", params={"rate": "20mbit", "packet_bytes": 1500}),
        tb.flow("ping", name="ping", from_="home", to="isp", params={"interval": "13.3ms"}),
    ]
    result = tb.run(tb.network(links=links, flows=flows, duration="10s"))
    (row,) = (row for row in result.link_summary() if row["link"] == "up")
    carried = result.column("links", "delivered_bytes")[0] + 18 * row["delivered"]
    # Of 10 s the first request and its grant take up to 8 ms.
    assert 0.999 < carried * 8 / 100e6 <= 1


def test_an_lte_user_among_four_has_about_the_published_median() -> None:
    # Huang et al. 2012: a median of 13 Mbit/s down. A band of 25 %, set before the first run; the signal is chosen.
    rates = []
    for seed in range(1, 5):
        result = tb.run(tb.presets.scenario("lte", flows=[tb.bulk("cubic", name="bulk")], duration="20s", seed=seed))
        rates.append(result.column("flows", "bytes_received")[result.flow_index("bulk")] * 8 / 20e6)
    assert float(np.mean(rates)) == pytest.approx(13, rel=0.25)


def test_airtime_fairness_changes_tcp_as_published_and_keeps_the_delay_low() -> None:
    def run(order: str) -> tuple[float, float, float]:
        flows = [tb.bulk("cubic", name="bulk"), _ping()]
        made = tb.presets.scenario("airtime", flows=flows, duration="15s", instruments=ECHOES, order=order)
        result = tb.run(made)
        fast, slow = (result.column("flows", "bytes_received")[result.flow_index(name)] for name in ("bulk", "to-slow"))
        return fast * 8 / 15e6, slow * 8 / 15e6, _median_ms(result, after=5)

    turns, airtime = run("turns"), run("airtime")
    # Linux's commit 63fefa050477, "ath9k: Introduce airtime fairness": a fast station from 19.17 to 25.09 Mbit/s, the
    # slow one from 2.58 to 1.77. Its rates are lower than these, so ratios are compared. The band of 25 % was set
    # before the first run.
    assert airtime[0] / turns[0] == pytest.approx(25.09 / 19.17, rel=0.25)
    assert airtime[1] / turns[1] == pytest.approx(1.77 / 2.58, rel=0.25)
    # The paper's abstract: an order of magnitude less latency than a FIFO.
    assert run("fifo")[2] > 10 * airtime[2]


@pytest.mark.parametrize("name", ["cable", "low-orbit", "airtime", "lte"])
def test_todays_links_give_the_same_bytes_on_any_number_of_threads(name: str) -> None:
    made = tb.presets.scenario(name, flows=[tb.bulk("cubic"), tb.bulk("bbr")], duration="20s")
    scenarios = [made.with_(seed=seed) for seed in range(1, 5)]
    one, two = (tb.run_many(scenarios, workers=workers) for workers in (1, 2))
    received = [result.column("flows", "bytes_received").tolist() for result in one]
    assert received == [result.column("flows", "bytes_received").tolist() for result in two]
    assert len({tuple(each) for each in received}) == 4, "each seed is another run"


@pytest.mark.parametrize(("option", "value"), [("shape", 1.5), ("shape", "all"), ("up", "fast"), ("queue", "fq_cdel")])
def test_a_home_lines_options_are_checked_by_name(option: str, value: Any) -> None:
    with pytest.raises(tb.ScenarioError) as caught:
        tb.presets.scenario("home", flows=[tb.bulk()], duration="1s", **{"shape": 0.5, option: value}).resolve()
    assert caught.value.problems[0].field.startswith(f"path.{option}")


def test_a_preset_says_what_it_does_not_know() -> None:
    def problem(text: str) -> tb.Problem:
        head = 'duration = "1s"\n'
        with pytest.raises(tb.ScenarioError) as caught:
            tb.Scenario.parse_toml(head + text + '\n[[flow]]\napp = "bulk"\n').resolve()
        return caught.value.problems[0]

    assert problem('path = "adls1"').fix.startswith('Did you mean "adsl1"?')
    wrong = problem('[path]\npreset = "adsl1"\nbufer = "1MB"')
    assert wrong.field == "path.bufer"
    assert 'Did you mean "buffer"?' in wrong.fix
    both = problem('[path]\npreset = "adsl1"\n[dumbbell]\nrate = "1mbit"\nrtt = "1ms"')
    assert both.field == "dumbbell"


MEDIA = """
duration = "2s"
[[link]]
name = "there"
from = "a"
to = "b"
queue = "100packets"
medium = { name = "wifi", rate_mbps = 36, frame_error = 0.1 }
duplex = true
[[link]]
name = "on"
from = "b"
to = "c"
queue = "64kB"
medium = { name = "hsdpa", cqi = 20 }
[[link]]
name = "back"
from = "c"
to = "b"
trace = [1, 2, 5]
[[link.schedule]]
at = "1s"
delay = "10ms"
[[flow]]
app = "bulk"
cc = "reno"
from = "a"
to = "c"
"""


def test_media_traces_and_schedules_are_reachable_from_toml() -> None:
    scenario = tb.Scenario.parse_toml(MEDIA)
    links = {row["name"]: row for row in scenario.resolve()["links"]}
    assert links["there"]["medium"] == links["there.back"]["medium"]
    assert links["there"]["medium"]["channel"] == "there"
    assert links["back"]["trace"] == {"deliveries_ms": [1, 2, 5]}
    assert links["back"]["schedule"] == [{"at_ps": 10**12, "rate_bps": None, "delay_ps": 10**10}]
    result = tb.run(scenario)
    assert result.column("flows", "bytes_received")[0] > 50_000
    assert tb.Scenario.parse_toml(scenario.to_toml()) == scenario
    everything = scenario.with_({"instruments.queue_polls": "all"}).resolve()
    assert everything["instruments"]["queue_polls"] == ["there", "there.back", "on", "back"]


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"link.there.medium": "wify"}, "link[0].medium.name", 'Did you mean "wifi"?'),
        ({"link.there.medium.rate_mbps": 11}, "link[0].medium.rate_mbps", "no such rate"),
        ({"link.there.medium.colour": "red"}, "link[0].medium.colour", "no parameter colour"),
        ({"link.on.medium.channel": "air"}, "link[1].medium.channel", "no other station contends"),
        ({"link.on.medium": {"name": "docsis", "rate": "2gbit"}}, "link[1].medium.rate", "Give at most 100000000"),
        (
            {"link.on.medium": {"name": "leo", "outage": "9s", "interval": "1s"}},
            "link[1].medium.outage",
            "Give less than",
        ),
        ({"link.there.medium": {"name": "wifi-ac", "mcs": 10}}, "link[0].medium.mcs", "0 to 9"),
        (
            {"link.there.medium": {"name": "wifi-ac", "standard": "n", "amsdu": 7935}},
            "link[0].medium.amsdu",
            "at most 4065",
        ),
        ({"link.on.medium": {"name": "cell", "snr_db": -30}}, "link[1].medium.snr_db", "higher SNR"),
        ({"link.on.queue": "1bdp"}, "link[1].queue", "no BDP"),
        ({"link.on.rate": "1mbit"}, "link[1].rate", "the medium decides already"),
        ({"link.back.trace": [3, 2]}, "link[2].trace", "back in time"),
        ({"link.back.trace": []}, "link[2].trace", "empty"),
        ({"link.back.trace": "no-such-file"}, "link[2].trace", "cannot be read"),
        ({"link.back.schedule[0].rate": "1mbit"}, "link[2].schedule[0].rate", "the trace decides already"),
        ({"link.back.wire.burst_start": 0.1}, "link[2].wire.burst_end", "never end"),
    ],
)
def test_impossible_media_are_refused_where_they_were_written(change: dict, field: str, says: str) -> None:
    with pytest.raises(tb.ScenarioError) as caught:
        tb.Scenario.parse_toml(MEDIA).with_(change).resolve()
    assert any(p.field.startswith(field) and says in f"{p.problem} {p.fix}" for p in caught.value.problems), str(
        caught.value
    )


TUNNEL = """
duration = "20s"
[[link]]
name = "tunnel"
from = "a"
to = "b"
queue = "50packets"
medium = { name = "tunnel", flow = "vtun" }
duplex = true
[[link]]
name = "line"
from = "a"
to = "b"
rate = "2mbit"
delay = "20ms"
duplex = true
[[flow]]
name = "vtun"
app = "tunnel"
from = "a"
to = "b"
cc = "reno"
send_buffer = "32KiB"
[[flow]]
name = "inner"
app = "bulk"
from = "a"
to = "b"
start = "1s"
[instruments]
queues = ["tunnel"]
segments = ["vtun"]
"""


def test_a_tunnel_is_reachable_from_toml() -> None:
    scenario = tb.Scenario.parse_toml(TUNNEL)
    resolved = scenario.resolve()
    assert [link["medium"]["flow"] for link in resolved["links"][:2]] == ["vtun", "vtun"]
    # The connection itself takes the line, although the tunnel is listed first and as short.
    assert [flow["route"] for flow in resolved["flows"]] == [["line"], ["tunnel"]]
    assert tb.Scenario.parse_toml(scenario.to_toml()) == scenario
    assert tb.Scenario.from_resolved(resolved).resolve() == resolved | {"name": ""}
    # At 20 s the inner transfer waits for a repair, and what has arrived behind the gap counts for nothing yet.
    result = tb.run(scenario.with_(duration="22s"))
    rates = result.column("flows", "bytes_received") * 8 / 21e6
    # The stream carries the inner packets, their headers and two bytes each, and nothing else.
    assert 1.7 < rates[1] < 1.9
    assert rates[0] == pytest.approx(rates[1] * 1502 / 1448, rel=0.001)
    events = result.numpy("queue")
    drops = events["event"] == 2
    assert drops.sum() == result.column("links", "dropped")[0] > 0
    assert set(events["reason"][drops]) == {0}, "the interface's queue was full"
    assert not result.column("links", "dropped")[1:].any()


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"link.tunnel.medium.flow": "vtum"}, "link[0].medium.flow", 'Did you mean "vtun"?'),
        ({"link.tunnel.medium": "tunnel"}, "link[0].medium", "needs a connection"),
        ({"link.tunnel.medium.flow": "inner"}, "link[0].medium.flow", "carries no packets"),
        ({"flow.vtun.route": ["tunnel"]}, "flow[0].route", "carry its own connection"),
        ({"link.tunnel.duplex": False, "link.tunnel.medium": "adsl", "link.line.name": "x"}, "flow[0].app", "no link"),
        ({"flow.vtun.access_delay": "1ms"}, "link[0].medium.flow", "does not join the ends"),
    ],
)
def test_impossible_tunnels_are_refused_where_they_were_written(change: dict, field: str, says: str) -> None:
    with pytest.raises(tb.ScenarioError) as caught:
        tb.Scenario.parse_toml(TUNNEL).with_(change).resolve()
    problem = caught.value.problems[0]
    assert problem.field.startswith(field), str(caught.value)
    assert says in f"{problem.problem} {problem.fix}"


def test_the_tunnelled_line_is_filled_as_its_paper_measured() -> None:
    def rtt_ms(cc: str) -> float:
        flows = [tb.bulk(cc, "freebsd-9", name="bulk", start="2s"), _ping(start="2s")]
        result = tb.run(tb.presets.scenario("adsl1-vtun", flows=flows, duration="62s", instruments=ECHOES))
        assert not result.column("links", "dropped")[:4].any(), "the line itself loses nothing"
        return _median_ms(result, 10.0)

    # 492 and 613 ms in the paper; a queue of 50 packets and a send buffer of 32 KiB are system defaults.
    assert rtt_ms("reno") == pytest.approx(492, rel=0.15)
    assert rtt_ms("cubic") == pytest.approx(613, rel=0.15)


def test_traces_are_read_and_written(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tb.traces.write(tmp_path / "lte.trace", [0, 2, 5, 5, 10])
    assert path.read_text() == "0\n2\n5\n5\n10\n"
    assert tb.traces.read(path) == [0, 2, 5, 5, 10]
    for text, says in [
        ("1\ntwo\n", "line 2"), ("1\n\n3\n", "line 2"), ("5\n3\n", "goes back from 5 to 3"), ("", "is empty"),
        ("-1\n", "not a whole number"), ("1.5\n", "not a whole number"), ("0\n0\n", "lasts no time"),
    ]:  # fmt: skip
        path.write_text(text)
        with pytest.raises(tb.traces.TraceError, match=says):
            tb.traces.read(path)
    path.write_bytes(b"\xff\xfe1\n")
    with pytest.raises(tb.traces.TraceError, match="not a text"):
        tb.traces.read(path)
    with pytest.raises(tb.traces.TraceError, match="go back"):
        tb.traces.write(path, [2, 1])


def test_a_scenario_file_reads_traces_of_its_own_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    (folder / "lte").mkdir(parents=True)
    for place in (tmp_path / "outside.trace", folder / "lte" / "down.trace"):
        tb.traces.write(place, [0, 2, 5])
    (folder / "link.trace").symlink_to(tmp_path / "outside.trace")
    os.mkfifo(folder / "pipe.trace")
    (folder / "large.trace").write_bytes(b"1\n" * (8 << 20) + b"1\n")

    def scenario(trace: str) -> tb.Scenario:
        file = folder / "s.toml"
        file.write_text(
            f'duration = "1s"\n[[link]]\nname = "a"\nfrom = "x"\nto = "y"\nduplex = true\ntrace = "{trace}"\n'
            '[[flow]]\nfrom = "x"\nto = "y"\n'
        )
        return tb.Scenario.from_toml(file)

    own = scenario("lte/down.trace")
    assert own.resolve()["links"][0]["trace"] == {"deliveries_ms": [0, 2, 5]}
    for trace, says in (
        ("/dev/zero", "outside the scenario's folder"),
        ("../outside.trace", "outside the scenario's folder"),
        ("link.trace", "outside the scenario's folder"),
        ("pipe.trace", "no ordinary file"),
        (".", "cannot be read"),
        ("large.trace", "larger than 16 MiB"),
    ):
        with pytest.raises(tb.ScenarioError, match=re.escape(f'link[0].trace = "{trace}": ') + f".*{says}"):
            scenario(trace).resolve()
    named = own.with_({"link.a.trace": str(tmp_path / "outside.trace")})
    assert named.resolve()["links"][0]["trace"] == {"deliveries_ms": [0, 2, 5]}
    with pytest.raises(tb.ScenarioError, match="no ordinary file"):
        own.with_({"link.a.trace": "/dev/zero"}).resolve()


def test_a_constant_trace_is_a_constant_rate() -> None:
    trace = tb.traces.constant(12_032_000, 1000)
    link = tb.link("x", "a", "b", trace=trace, queue="100packets")
    back = tb.link("y", "b", "a", rate="1gbit")
    flows = [tb.bulk("reno", from_="a", to="b")]
    result = tb.run(tb.network(links=[link, back], flows=flows, duration="20s"))
    # One 1500-byte packet a millisecond: 1448 bytes of payload each.
    assert result.column("flows", "bytes_received")[0] * 8 / 20e6 == pytest.approx(11.584, rel=0.02)


def test_a_queue_that_takes_no_packet_is_refused() -> None:
    queue = {"discipline": "fifo", "limit": "1packets", "accept": "ns2"}
    scenario = tb.dumbbell(rate="1mbit", rtt="10ms", queue=queue, flows=[tb.bulk()], duration="1s")
    with pytest.raises(tb.ScenarioError) as caught:
        scenario.resolve()
    assert "dropped even by the empty queue" in caught.value.problems[0].problem
    assert caught.value.problems[0].field.startswith("dumbbell.queue")


def test_a_paused_host_holds_what_the_adapter_would_drop():
    def most_held(**options):
        flow = tb.voip(packet_size="1500B", interval="100us")
        made = tb.presets.scenario(
            "homeplug", flows=[flow], duration="200ms", instruments={"queues": ["down"]}, **options
        )
        log = tb.run(made).numpy("queue")
        return int(log["backlog_packets"].max()), float(log["t_s"][log["event"] == 2].min())

    (few, soon), (many, late) = most_held(), most_held(pause_queue=50)
    assert (few, many) == (30, 80)
    assert late > 2 * soon
    with pytest.raises(tb.ScenarioError, match="counts packets"):
        tb.presets.scenario("homeplug", flows=[], duration="1s", pause_queue=5, buffer="30kB")
    with pytest.raises(tb.ScenarioError, match="pause_queue"):
        tb.presets.scenario("homeplug", flows=[], duration="1s", pause_queue=-1)
