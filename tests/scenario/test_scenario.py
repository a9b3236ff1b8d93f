"""A scenario says the same in TOML and Python, resolves to exact units, and is refused with a place and a remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tailback as tb
from tailback.experiment import read_sweep
from tailback.scenario import Scenario

HELLO = """
duration = "60s"
[dumbbell]
rate = "10mbit"
rtt = "80ms"
[[flow]]
app = "bulk"
cc = "cubic"
stack = "linux"
[[flow]]
app = "voip"
"""
READY = sorted((Path(__file__).parents[2] / "scenarios").glob("*.toml"))


def hello(**changes: Any) -> Scenario:
    base = tb.dumbbell(
        rate="10mbit", rtt="80ms", queue="1bdp", flows=[tb.bulk(cc="cubic", stack="linux"), tb.voip()], duration="60s"
    )
    return base.with_(changes) if changes else base


def problems(text: str) -> list[tb.Problem]:
    """Everything found wrong with TOML text, whether in reading or in resolving it."""
    with pytest.raises(tb.ScenarioError) as caught:
        Scenario.parse_toml(text, file="a.toml").resolve()
    for problem in caught.value.problems:
        assert problem.file == "a.toml"
        assert problem.fix
    return list(caught.value.problems)


def problem(text: str) -> tb.Problem:
    found = problems(text)
    assert len(found) == 1, "\n".join(map(str, found))
    return found[0]


# --- The same in TOML and Python ------------------------------------------------------------------------------


def test_toml_and_python_say_the_same() -> None:
    assert Scenario.parse_toml(HELLO) == hello()
    assert Scenario.parse_toml(HELLO).resolve() == hello().resolve()


@pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)
def test_ready_scenarios_read_back(path: Path) -> None:
    scenario = Scenario.from_toml(path)
    assert scenario.name == path.stem
    assert Scenario.parse_toml(scenario.to_toml()) == scenario


_spans = st.integers(1, 10**15).map(lambda ps: str(tb.Duration(ps)))
_rates = st.integers(1, 10**12).map(lambda bps: str(tb.Rate(bps)))
_sizes = st.one_of(
    st.integers(1, 10**4).map(lambda n: f"{n}packets"),
    st.integers(1500, 10**9).map(lambda n: str(tb.Bytes(n))),
    st.sampled_from(["1bdp", "0.25bdp", "2bdp"]),
)
_values = st.one_of(st.booleans(), st.integers(-(10**9), 10**9), st.floats(allow_nan=False, allow_infinity=False))
_named = st.one_of(
    st.sampled_from(["cubic", "reno"]),
    st.builds(lambda value: {"name": "htcp", "beta": value}, _values),
)
_words = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=20).filter(str.isprintable)


def _optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


_flows = st.one_of(
    _optional(
        cc=_named, stack=_named, receiver_stack=st.just("linux"), access_delay=_spans, start=_spans,
        send_buffer=st.just("1MiB"), bytes=st.just("20MB"), mtu=st.just("576B"), params=st.just({"x": 1}),
    ),
    _optional(app=st.just("voip"), interval=_spans, packet_size=st.just("100B"), route=st.just(["bottleneck"])),
)  # fmt: skip
_scenarios = st.fixed_dictionaries(
    {
        "duration": _spans,
        "seed": st.integers(0, 2**64 - 1),
        "name": _words,
        "dumbbell": st.one_of(
            st.fixed_dictionaries(
                {"rate": _rates, "rtt": _spans},
                optional={
                    "queue": _sizes,
                    "back_rate": _rates,
                    "back_queue": _sizes.map(lambda limit: {"discipline": "fifo", "limit": limit, "drop": "head"}),
                    "tick_hz": st.integers(1, 10**6),
                    "wire": _optional(loss=st.floats(0, 1), jitter=_spans),
                },
            ),
            st.fixed_dictionaries({"rate": _rates, "delay": _spans}, optional={"back_delay": _spans}),
        ),
        "flow": st.lists(_flows, min_size=1, max_size=4),
    },
    optional={
        "randomness": _optional(start_spread=_spans, processing_jitter=_spans, access_spread=_spans),
        "instruments": _optional(
            polls=st.sampled_from(["all", ["bulk"]]), internals=st.booleans(), poll_interval=_spans, until=_spans
        ),
    },
)


@settings(max_examples=150)
@given(_scenarios)
def test_any_scenario_written_as_toml_reads_back(data: dict[str, Any]) -> None:
    scenario = Scenario.from_dict(data)
    text = scenario.to_toml()
    again = Scenario.parse_toml(text)
    assert again == scenario
    assert again.to_toml() == text
    assert hash(again) == hash(scenario)


# --- Resolving ------------------------------------------------------------------------------------------------


def test_the_dumbbell_becomes_two_links_with_half_the_rtt_each() -> None:
    resolved = hello().resolve()
    there, back = resolved["links"]
    assert (there["name"], there["from"], there["to"]) == ("bottleneck", "left", "right")
    assert (back["name"], back["from"], back["to"]) == ("return", "right", "left")
    for link in (there, back):
        assert link["rate_bps"] == 10_000_000
        assert link["delay_ps"] == 40 * 10**9
        assert link["queue"] == {"discipline": "fifo", "params": {"limit_bytes": 100_000}}
    assert resolved["nodes"] == ["left", "right"]
    assert resolved["duration_ps"] == 60 * 10**12
    assert [flow["route"] for flow in resolved["flows"]] == [["bottleneck"], ["bottleneck"]]
    assert resolved["flows"][0]["tcp"]["stack"] == "linux"
    assert resolved["flows"][1]["tcp"] is None


def test_an_odd_picosecond_is_not_lost() -> None:
    links = hello(**{"dumbbell.rtt": "3ps", "dumbbell.queue": "100kB"}).resolve()["links"]
    assert [link["delay_ps"] for link in links] == [1, 2]


def test_each_direction_has_its_own_rate_delay_and_queue() -> None:
    scenario = tb.dumbbell(
        rate="8mbit", back_rate="1mbit", delay="15ms", back_delay="25ms", queue="1bdp", back_queue="30packets",
        flows=[tb.bulk()], duration="1s",
    )  # fmt: skip
    there, back = scenario.resolve()["links"]
    assert (there["rate_bps"], back["rate_bps"]) == (8_000_000, 1_000_000)
    assert (there["delay_ps"], back["delay_ps"]) == (15 * 10**9, 25 * 10**9)
    assert there["queue"]["params"] == {"limit_bytes": 40_000}
    assert back["queue"]["params"] == {"limit_packets": 30}


def test_a_bdp_on_the_way_back_counts_for_its_own_rate() -> None:
    scenario = tb.dumbbell(rate="8mbit", back_rate="1mbit", rtt="40ms", flows=[tb.bulk()], duration="1s")
    assert [link["queue"]["params"]["limit_bytes"] for link in scenario.resolve()["links"]] == [40_000, 5_000]


def test_the_longest_round_trip_makes_the_bdp_of_a_general_link() -> None:
    links = [
        tb.link("one", "a", "b", rate="10mbit", delay="20ms", queue="1bdp", duplex=True),
        tb.link("two", "b", "c", delay="10ms", duplex=True),
    ]
    flows = [tb.bulk(from_="a", to="b", name="short"), tb.bulk(from_="a", to="c", name="long", access_delay="5ms")]
    resolved = tb.network(links=links, flows=flows, duration="1s").resolve()
    assert [link["name"] for link in resolved["links"]] == [
        "one", "one.back", "two", "two.back", "long.access", "long.access.back",
    ]  # fmt: skip
    # 2 · (20 + 10 + 5) ms at 10 Mbit/s.
    assert resolved["links"][0]["queue"]["params"] == {"limit_bytes": 87_500}
    long = resolved["flows"][1]
    assert long["route"] == ["long.access", "one", "two"]
    assert long["back_route"] == ["two.back", "one.back", "long.access.back"]
    assert long["from"] == "long.sender"


def test_routes_take_fewest_hops_and_the_first_listed_link_on_ties() -> None:
    links = [
        tb.link("x", "a", "m", delay="1ms", duplex=True),
        tb.link("y", "m", "b", delay="1ms", duplex=True),
        tb.link("slow", "a", "b", delay="9ms", duplex=True),
        tb.link("fast", "a", "b", delay="1ms", duplex=True),
    ]
    flows = [tb.voip(from_="a", to="b"), tb.voip(from_="a", to="b", route=["x", "y"], back_route=["fast.back"])]
    resolved = tb.network(links=links, flows=flows, duration="1s").resolve()
    assert resolved["flows"][0]["route"] == ["slow"]
    assert resolved["flows"][0]["back_route"] == ["slow.back"]
    assert resolved["flows"][1]["route"] == ["x", "y"]
    assert resolved["flows"][1]["back_route"] == ["fast.back"]


def test_a_flow_may_run_against_the_others() -> None:
    flow = tb.dumbbell(rate="1mbit", rtt="20ms", flows=[tb.bulk(from_="right")], duration="1s").resolve()["flows"][0]
    assert (flow["from"], flow["to"], flow["route"], flow["back_route"]) == (
        "right",
        "left",
        ["return"],
        ["bottleneck"],
    )


def test_application_parameters_arrive_in_their_own_units() -> None:
    flows = [tb.bulk(bytes="20MB"), tb.voip(interval="10ms", packet_size="120B")]
    resolved = tb.dumbbell(rate="1mbit", rtt="80ms", flows=flows, duration="1s").resolve()
    assert resolved["flows"][0]["app"]["params"] == {"bytes": 20_000_000}
    assert resolved["flows"][1]["app"]["params"] == {"interval": 10, "packet_bytes": 120}


def test_parameters_of_algorithms_and_stacks_may_have_units() -> None:
    flow = tb.bulk(
        cc={"name": "reno", "variant": "freebsd"}, stack={"name": "linux", "delayed_ack": "40ms", "sack": False}
    )
    tcp = tb.dumbbell(rate="1mbit", rtt="80ms", flows=[flow], duration="1s").resolve()["flows"][0]["tcp"]
    assert tcp["cc_params"] == {"variant": "freebsd"}
    assert tcp["stack_params"] == {"delayed_ack": 40.0, "sack": False}


def test_a_parameter_may_leave_its_unit_to_the_value() -> None:
    queue = {"discipline": "codel", "target": "2500us", "interval_ms": 50, "limit": "200packets"}
    resolved = tb.dumbbell(rate="1mbit", rtt="80ms", queue=queue, flows=[tb.bulk()], duration="1s").resolve()
    assert resolved["links"][0]["queue"] == {
        "discipline": "codel",
        "params": {"limit_packets": 200, "target_ps": 2_500_000_000, "interval_ps": 50_000_000_000},
    }


def test_a_time_is_exact_from_the_text_to_the_engine_and_back() -> None:
    queue = {"discipline": "codel", "target": "1.7us", "interval": "33.333333333ms", "limit": "200packets"}
    scenario = tb.dumbbell(rate="1mbit", rtt="80ms", queue=queue, flows=[tb.bulk()], duration="1s")
    resolved = scenario.resolve()
    params = resolved["links"][0]["queue"]["params"]
    assert (params["target_ps"], params["interval_ps"]) == (1_700_000, 33_333_333_333)
    again = tb.Scenario.from_resolved(resolved)
    assert all(f'{key} = "{queue[key]}"' in again.to_toml() for key in ("target", "interval"))
    # Descriptions before 0.3 have milliseconds.
    params |= {"target_ms": params.pop("target_ps") / 1e9, "interval_ms": params.pop("interval_ps") / 1e9}
    assert again.resolve()["links"] == tb.Scenario.from_resolved(resolved).resolve()["links"]


def test_the_unit_of_a_parameter_is_in_its_row() -> None:
    codel = tb.registry.card("queues", "codel")
    kinds = {param.name: (param.kind, param.unit) for param in codel.params}
    assert kinds["target"] == ("time", "ms")
    assert kinds["mtu"] == ("size", "B")
    for queue in ({"target": "5mbit"}, {"mtu": "5ms"}, {"target": "0.1ps"}):
        with pytest.raises(tb.ScenarioError):
            tb.dumbbell(
                rate="1mbit", rtt="80ms", queue={"discipline": "codel", **queue}, flows=[tb.bulk()], duration="1s"
            ).resolve()


def test_a_limit_the_discipline_does_not_know_is_refused() -> None:
    with pytest.raises(tb.ScenarioError, match="pie has no limit in bytes"):
        tb.dumbbell(
            rate="1mbit", rtt="80ms", queue={"discipline": "pie", "limit": "1bdp"}, flows=[tb.bulk()], duration="1s"
        ).resolve()


def test_all_means_what_has_something_to_record() -> None:
    scenario = tb.dumbbell(
        rate="1mbit", rtt="80ms", flows=[tb.bulk(access_delay="1ms"), tb.voip()], duration="1s",
        instruments={"segments": "all", "polls": "all", "packets": "all", "queues": "all", "queue_polls": "all"},
    )  # fmt: skip
    given = scenario.resolve()["instruments"]
    assert given["segments"] == given["polls"] == ["bulk"]
    assert given["packets"] == ["bulk", "voip"]
    assert given["queues"] == given["queue_polls"] == ["bottleneck", "return"]
    assert given["poll_interval_ps"] == 10**9


def test_flows_without_names_are_numbered_only_if_they_must_be() -> None:
    def names(*flows: tb.Flow) -> list[str]:
        return tb.dumbbell(rate="1mbit", rtt="80ms", flows=flows, duration="1s").flow_names

    assert names(tb.bulk(), tb.voip()) == ["bulk", "voip"]
    assert names(tb.bulk(), tb.bulk()) == ["bulk-1", "bulk-2"]
    assert names(tb.bulk(name="bulk"), tb.bulk()) == ["bulk", "bulk-1"]
    assert names(tb.bulk(), tb.bulk(name="bulk-1"), tb.bulk()) == ["bulk-2", "bulk-1", "bulk-3"]


def test_the_resolved_form_stands_for_itself() -> None:
    for path in READY:
        resolved = Scenario.from_toml(path).resolve()
        again = Scenario.from_resolved(resolved)
        assert again.resolve() == resolved
        assert Scenario.parse_toml(again.to_toml()).resolve() == resolved


def test_equal_scenarios_have_equal_json() -> None:
    text = hello().to_json()
    assert text == Scenario.parse_toml(HELLO).to_json()
    assert json.loads(text) == hello().resolve()


# --- Variations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "change", "varied"),
    [
        ("codel", {"limit": "9packets"}, {"discipline": "codel", "limit": "9packets"}),
        ("codel", {"discipline": "pie"}, "pie"),
        ("1bdp", {"discipline": "red"}, {"discipline": "red", "limit": "1bdp"}),
        (".5bdp", {"accept": "below"}, {"discipline": "fifo", "limit": "0.5bdp", "accept": "below"}),
        (
            {"discipline": "token_bucket", "inner": "codel"},
            {"inner.target": "7ms"},
            {"discipline": "token_bucket", "inner": {"discipline": "codel", "target": "7ms"}},
        ),
    ],
)
def test_a_variation_of_a_queue_keeps_the_rest_of_it(queue: Any, change: dict[str, str], varied: Any) -> None:
    base = hello(**{"dumbbell.queue": queue})
    changed = base.with_({f"dumbbell.queue.{key}": value for key, value in change.items()})
    assert changed.to_dict()["dumbbell"]["queue"] == varied


def test_variations_reach_every_depth() -> None:
    base = hello()
    assert base.with_(seed=7, duration="1s").seed == 7
    assert base.with_(dumbbell__rate="1mbit").dumbbell == tb.Dumbbell(rate="1mbit", rtt="80ms")
    for path in ("flow[0].cc", "flow.0.cc", "flow.bulk.cc", "flow[bulk].cc", "flows[0].cc"):
        assert base.with_({path: "htcp"}).flows[0].cc == tb.Named(name="htcp")
    assert base.with_({"flow.bulk.cc.fast_convergence": False}).flows[0].cc == tb.Named(
        name="cubic", params={"fast_convergence": False}
    )
    assert base.with_({"dumbbell.queue.limit": "2bdp"}).dumbbell == tb.Dumbbell(rate="10mbit", rtt="80ms", queue="2bdp")
    assert base.with_({"flow.voip": None}).flow_names == ["bulk"]
    assert base.with_({"instruments.polls": ["bulk"]}).instruments.polls == ("bulk",)
    assert base.with_(flow=[tb.voip()]).flow_names == ["voip"]
    assert base == hello(), "the original is untouched"


def test_variations_by_a_name_with_dots() -> None:
    base = tb.dumbbell(rate="1mbit", rtt="80ms", flows=[tb.bulk(name="a.b"), tb.bulk(name="a")], duration="1s")
    assert base.with_({"flow.a.b.cc": "reno"}).flows[0].cc == tb.Named(name="reno")
    assert base.with_({"flow.a.cc": "reno"}).flows[1].cc == tb.Named(name="reno")


def test_the_count_of_flows_can_be_varied() -> None:
    base = tb.dumbbell(rate="1mbit", rtt="80ms", flows=[tb.bulk(count=2), tb.voip(two_way=True)], duration="1s")
    assert base.flow_names == ["bulk-1", "bulk-2", "voip", "voip.back"]
    more = base.with_({"flow.bulk.count": 3, "flow.voip.start": "10ms"})
    assert more.flow_names == ["bulk-1", "bulk-2", "bulk-3", "voip", "voip.back"]
    assert [flow["start_ps"] for flow in more.resolve()["flows"]][3:] == [10**10, 10**10]
    assert Scenario.parse_toml(more.to_toml()) == more


@pytest.mark.parametrize("path", ["flow[9].cc", "flow.call.cc", "seed.x", "", "dumbbell.rte"])
def test_a_path_to_nowhere_is_refused(path: str) -> None:
    with pytest.raises(tb.ScenarioError):
        hello().with_({path: "1"})


def test_scenarios_are_frozen() -> None:
    with pytest.raises(Exception, match="frozen"):
        hello().seed = 3


# --- Bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "field", "says"),
    [
        ('rate = "10mbit"', 'rate = "0mbit"', "dumbbell.rate", "above zero"),
        ('rate = "10mbit"', 'rate = "-10mbit"', "dumbbell.rate", "negative"),
        ('rate = "10mbit"', "rate = 10", "dumbbell.rate", "unit is missing"),
        ('rate = "10mbit"', "rate = nan", "dumbbell.rate", "unit is missing"),
        ('rate = "10mbit"', 'rate = "nan"', "dumbbell.rate", "finite"),
        ('rate = "10mbit"', 'rate = "1e30gbit"', "dumbbell.rate", "overflows"),
        ('rate = "10mbit"', "", "dumbbell.rate", "missing"),
        ('rtt = "80ms"', 'rtt = "0ms"', "dumbbell.rtt", "above zero"),
        ('rtt = "80ms"', 'rtt = "-80ms"', "dumbbell.rtt", "negative"),
        ('rtt = "80ms"', 'rtt = "80"', "dumbbell.rtt", "unit is missing"),
        ('rtt = "80ms"', "", "dumbbell", "rtt is missing"),
        ('rtt = "80ms"', 'rtt = "80ms"\ndelay = "1ms"', "dumbbell", "exclude"),
        ('rtt = "80ms"', 'delay = "0ms"', "dumbbell", "round trip"),
        ('rtt = "80ms"', 'rrt = "80ms"\nrtt = "80ms"', "dumbbell.rrt", "no such key"),
        ('rtt = "80ms"', 'rtt = "80ms"\nqueue = "1000B"', "dumbbell.queue", "less than one packet"),
        ('rtt = "80ms"', 'rtt = "80ms"\nqueue = "0bdp"', "dumbbell.queue", "drops every packet"),
        ('rtt = "80ms"', 'rtt = "80ms"\nqueue = 100', "dumbbell.queue", "unit is missing"),
        ('rtt = "80ms"', 'rtt = "80ms"\nqueue = { discipline = "fif" }', "dumbbell.queue.discipline", "no queue"),
        ('rtt = "80ms"', 'rtt = "80ms"\nqueue = { limit = "1bdp", lmit = 3 }', "dumbbell.queue.lmit", "no parameter"),
        ('rtt = "80ms"', 'rtt = "80ms"\nwire = { loss = 1.5 }', "dumbbell.wire.loss", "between 0 and 1"),
        ('rtt = "80ms"', 'rtt = "80ms"\nwire = { los = 0.5 }', "dumbbell.wire.los", "no such key"),
        ('rtt = "80ms"', 'rtt = "80ms"\ntick_hz = 0', "dumbbell.tick_hz", "out of range"),
        ('duration = "60s"', 'duration = "0s"', "duration", "above zero"),
        ('duration = "60s"', 'duration = "60s"\nseed = -1', "seed", "out of range"),
        ('duration = "60s"', 'duration = "60s"\nseed = 1.5', "seed", "whole number"),
        ('duration = "60s"', 'duration = "60s"\nsead = 1', "sead", "no such key"),
        ('duration = "60s"', "", "duration", "missing"),
        ('cc = "cubic"', 'cc = "qubic"', "flow[0].cc", "no congestion control"),
        ('cc = "cubic"', 'cc = { name = "reno", variant = "linx" }', "flow[0].cc.variant", "one of"),
        ('cc = "cubic"', 'cc = { name = "reno", variannt = "linux" }', "flow[0].cc.variannt", "no parameter"),
        ('cc = "cubic"', "cc = 3", "flow[0].cc", "neither a name"),
        ('stack = "linux"', 'stack = "linus"', "flow[0].stack", "no stack"),
        ('stack = "linux"', 'stack = { name = "linux", sak = true }', "flow[0].stack.sak", "no field"),
        ('stack = "linux"', 'receiver_stack = "bsd"', "flow[0].receiver_stack", "no stack"),
        ('stack = "linux"', 'start = "60s"', "flow[0].start", "over"),
        ('stack = "linux"', 'start = "2s"\nstop = "1s"', "flow[0]", "before it starts"),
        ('stack = "linux"', 'bytes = "0B"', "flow[0].bytes", "above zero"),
        ('stack = "linux"', 'mtu = "20B"', "flow[0].mtu", "IP packet"),
        ('stack = "linux"', 'interval = "1ms"', "flow[0].interval", "no parameter"),
        ('stack = "linux"', 'from = "elsewhere"', "flow[0].from", "no node"),
        ('stack = "linux"', 'to = "left"\nfrom = "left"', "flow[0].to", "leads back"),
        ('stack = "linux"', 'route = ["return"]', "flow[0].route[0]", "leaves right"),
        ('stack = "linux"', 'route = ["botleneck"]', "flow[0].route[0]", "no link"),
        ('stack = "linux"', 'name = "has space"', "flow[0].name", "not a name"),
        ('app = "voip"', 'app = "viop"', "flow[1].app", "no application"),
        ('app = "voip"', 'app = "voip"\ncc = "reno"', "flow[1].cc", "UDP"),
        ('app = "voip"', 'app = "voip"\nname = "bulk"', None, None),
        ('app = "voip"', 'app = "voip"\n[instruments]\npolls = ["voip"]', "instruments.polls[0]", "UDP"),
        ('app = "voip"', 'app = "voip"\n[instruments]\npolls = ["bukl"]', "instruments.polls[0]", "no flow"),
        ('app = "voip"', 'app = "voip"\n[instruments]\nqueues = ["x"]', "instruments.queues[0]", "no link"),
        ('app = "voip"', 'app = "voip"\n[instruments]\npoll_interval = "0s"', "instruments.poll_interval", "above"),
        ('app = "voip"', 'app = "voip"\n[instruments]\nuntil = "0s"', "instruments", "after from"),
        ('app = "voip"', 'app = "voip"\n[[link]]\nname = "x"\nfrom = "a"\nto = "b"', "link", "dumbbell"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_refused_at_its_place(old: str, new: str, field: str | None, says: str | None) -> None:
    text = HELLO.replace(old, new, 1)
    assert text != HELLO
    if field is None or says is None:
        Scenario.parse_toml(text).resolve()  # an unnamed flow gives way to a named one
        return
    found = problem(text)
    assert found.field == field
    assert says in found.problem
    if "no such key" not in says and found.value is not None and "[" not in field.split(".")[-1]:
        assert found.line is not None
        assert field.rpartition(".")[2] in text.splitlines()[found.line - 1] or "[" in field


@pytest.mark.parametrize(
    ("old", "new", "suggested"),
    [
        ('rtt = "80ms"', 'rrt = "80ms"\nrtt = "80ms"', '"rtt"'),
        ('cc = "cubic"', 'cc = "qubic"', '"cubic"'),
        ('stack = "linux"', 'stack = "freebsd7"', '"freebsd-7"'),
        ('app = "voip"', 'app = "voipp"', '"voip"'),
        ('stack = "linux"', 'receive_bufer = "1MB"', '"receive_buffer"'),
    ],
)
def test_the_nearest_name_is_proposed(old: str, new: str, suggested: str) -> None:
    assert suggested in problem(HELLO.replace(old, new, 1)).fix


def test_every_problem_is_reported_at_once() -> None:
    found = problems(HELLO.replace("10mbit", "0mbit").replace("60s", "soon").replace('"voip"', '"voip"\nstart = 1'))
    assert [item.field for item in found] == ["duration", "dumbbell.rate", "flow[1].start"]
    assert [item.line for item in found] == [2, 4, 12]
    found = problems(HELLO.replace("60s", "0s").replace("cubic", "qubic").replace('"voip"', '"voip"\nsped = 1'))
    assert [(item.field, item.line) for item in found] == [("duration", 2), ("flow[1].sped", 12), ("flow[0].cc", 8)]
    found = problems(HELLO.replace("cubic", "qubic").replace('"linux"', '"linus"').replace("voip", "viop"))
    assert [item.field for item in found] == ["flow[0].cc", "flow[0].stack", "flow[1].app"]


def test_a_queue_below_one_packet_is_for_dummynets_rule_only() -> None:
    small = hello(**{"dumbbell.queue": "1499B"})
    with pytest.raises(tb.ScenarioError, match="1499 bytes, less than one packet of 1500"):
        small.resolve()
    assert hello(**{"dumbbell.queue": "1500B"}).resolve()
    queue = small.with_({"dumbbell.queue.accept": "below"}).resolve()["links"][0]["queue"]
    assert queue["params"] == {"limit_bytes": 1499, "accept": "below"}


def test_a_route_to_nowhere_says_which_way_is_missing() -> None:
    graph = """
duration = "1s"
[[link]]
name = "one"
from = "a"
to = "b"
[[flow]]
from = "a"
to = "b"
"""
    found = problem(graph)
    assert "no way from b to a" in found.problem
    assert "duplex" in found.fix
    assert "no way from a to c" in problem(graph.replace('to = "b"\n[[flow]]', 'to = "b"\nduplex = true\n[[link]]\n'
        'name = "far"\nfrom = "c"\nto = "b"\n[[flow]]').replace('from = "a"\nto = "b"\n', 'from = "a"\nto = "c"\n', 2)
        .replace('from = "a"\nto = "c"\nduplex', 'from = "a"\nto = "b"\nduplex')).problem  # fmt: skip


def test_the_engines_complaints_come_back_in_the_users_words() -> None:
    found = problem(HELLO.replace('stack = "linux"', 'stack = "linux"\nreceive_buffer = "10B"'))
    assert (found.field, found.value, found.line) == ("flow[0].receive_buffer", "10B", 10)
    found = problem(HELLO.replace('stack = "linux"', 'access_delay = "2000h"'))
    assert (found.field, found.value, found.line) == ("flow[0].access_delay", "7200000s", 9)
    found = problem(HELLO.replace('rtt = "80ms"', 'delay = "1ms"\nback_delay = "2000h"\nqueue = "9kB"'))
    assert (found.field, found.value, found.line) == ("dumbbell.back_delay", "7200000s", 6)
    found = problem(HELLO.replace('duration = "60s"', 'duration = "2000h"'))
    assert (found.field, found.value, found.line) == ("duration", "7200000s", 2)


def test_empty_and_unreadable_files(tmp_path: Path) -> None:
    assert [item.field for item in problems("")] == ["duration", "", "flow"]
    assert {item.problem for item in problems('duration = "1s"')} == {"there is no path", "there are no flows"}
    broken = problem('duration = "1s\n')
    assert (broken.line, broken.field) == (1, "")
    with pytest.raises(tb.ScenarioError, match="No such file"):
        Scenario.from_toml(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(tb.ScenarioError, match="UTF-8"):
        Scenario.from_toml(tmp_path / "latin.toml")


def test_a_flows_key_that_its_application_has_is_sent_to_params() -> None:
    text = 'duration = "5s"\n[dumbbell]\nrate = "10mbit"\nrtt = "40ms"\n[[flow]]\napp = "udp-cbr"\nrate = "1mbit"\n'
    with pytest.raises(tb.ScenarioError, match=r"parameter of udp-cbr: write params = \{ rate = … \}"):
        tb.Scenario.parse_toml(text)
    assert tb.Scenario.parse_toml(text.replace('\nrate = "1mbit"', '\nparams = { rate = "1mbit" }'))


def test_errors_in_python_name_the_field_too() -> None:
    with pytest.raises(tb.ScenarioError, match=r"rate.*above zero"):
        tb.dumbbell(rate="0bit", rtt="1ms", flows=[tb.bulk()], duration="1s")
    with pytest.raises(tb.ScenarioError, match="start"):
        tb.bulk(start=5)
    with pytest.raises(tb.ScenarioError, match='Did you mean "stack"'):
        tb.bulk(stak="linux")


def test_a_changed_value_is_not_blamed_on_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(HELLO)
    scenario = Scenario.from_toml(path).with_({"flow[0].cc": "qubic"})
    with pytest.raises(tb.ScenarioError) as caught:
        scenario.resolve()
    found = caught.value.problems[0]
    assert found.value == "qubic"
    assert found.line != 8


def test_a_queues_name_alone_is_that_discipline_with_its_defaults():
    made = tb.dumbbell(rate="10mbit", rtt="80ms", queue="fq_codel", flows=[tb.bulk()], duration="1s")
    assert made.resolve()["links"][0]["queue"]["discipline"] == "fq_codel"
    assert 'queue = "fq_codel"' in made.to_toml()
    assert tb.Scenario.parse_toml(made.to_toml()) == made


def test_a_queue_that_is_neither_size_nor_name_gets_the_nearest_name():
    with pytest.raises(tb.ScenarioError, match=r'dumbbell.queue.*neither.*Did you mean "fq_codel"'):
        tb.dumbbell(rate="10mbit", rtt="80ms", queue="fqcodel", flows=[tb.bulk()], duration="1s")


def test_a_value_set_over_a_file_is_not_reported_with_the_files_line(tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    file.write_text('duration = "1s"\n[dumbbell]\nrate = "9mbit"\nrtt = "9ms"\n[[flow]]\napp = "bulk"\ncc = "cubic"\n')
    with pytest.raises(tb.ScenarioError) as refused:
        tb.Scenario.from_toml(file).with_({"flow[0].cc": "qubic"}).resolve()
    (problem,) = refused.value.problems
    assert (problem.value, problem.line) == ("qubic", None)


def test_a_file_that_may_never_end_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailback.scenario.whole._LONGEST", 1 << 20)
    (tmp_path / "zeros").write_bytes(bytes(2 << 20))
    for read in (tb.Scenario.from_toml, read_sweep):
        with pytest.raises(tb.ScenarioError, match="is larger than 1 MiB"):
            read(tmp_path / "zeros")


def test_a_byte_order_mark_is_no_part_of_a_scenario(tmp_path: Path) -> None:
    file = tmp_path / "marked.toml"
    text = 'duration = "1s"\n[dumbbell]\nrate = "1mbit"\nrtt = "9ms"\n[[flow]]\napp = "bulk"\n'
    file.write_text(text, encoding="utf-8-sig")
    assert tb.Scenario.from_toml(file).duration == tb.Duration("1s")


@pytest.mark.parametrize(
    "text",
    ["seed = 1\n" + ".".join("a" * 5000) + " = 1\n", "[" + ". ".join(['"a"'] * 5000) + "]\n", "a = " + "[" * 100_000],
)
def test_what_is_nested_beyond_sense_is_refused_before_it_is_read(text: str) -> None:
    # A reader that recurses has no more than its stack.
    assert "is not TOML: keys or brackets are nested too deeply" in str(problem(text))


def test_a_token_bucket_takes_any_queue_inside() -> None:
    inner = {"discipline": "codel", "limit": "100packets", "ecn": True}
    queue = {"discipline": "token_bucket", "rate": "10mbit", "burst": "1600B", "inner": inner}
    scenario = tb.dumbbell(
        rate="1gbit", rtt="80ms", queue=queue, wire={"loss": 0.001}, flows=[tb.bulk()], duration="1s"
    )
    link = scenario.resolve()["links"][0]
    assert link["queue"]["inner"] == {"discipline": "codel", "params": {"limit_packets": 100, "ecn": True}}
    assert link["wire"]["loss"] == 0.001
    assert Scenario.parse_toml(scenario.to_toml()).resolve() == scenario.resolve()
    result = tb.run(scenario)
    bottleneck = result.link_summary()[0]
    assert bottleneck["delivered"] > 0
    # One BDP is that of the bucket's rate, not of the fast link below it.
    step = hello(**{"dumbbell.queue": queue | {"inner": "1bdp"}}).resolve()["links"][0]["queue"]
    assert step["inner"]["params"]["limit_bytes"] == 100_000


@pytest.mark.parametrize(
    ("queue", "field"),
    [
        ({"discipline": "codel", "inner": "fifo"}, "dumbbell.queue.inner"),
        ({"discipline": "token_bucket", "inner": {"discipline": "codle"}}, "dumbbell.queue.inner.discipline"),
        ({"discipline": "token_bucket", "inner": {"discipline": "codel", "target": "-1ms"}}, "dumbbell.queue.inner"),
        ({"discipline": "token_bucket", "limit": "9kB", "inner": "codel"}, "dumbbell.queue"),
    ],
)
def test_a_queue_inside_that_cannot_be_is_refused_at_its_place(queue: dict[str, Any], field: str) -> None:
    with pytest.raises(tb.ScenarioError) as caught:
        tb.run(hello(**{"dumbbell.queue": queue}))
    assert str(caught.value.problems[0].field).startswith(field), caught.value
