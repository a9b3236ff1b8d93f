"""Scenarios for other tools: what is taken over, what is said to be left out, and the programs run where possible."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import subprocess
import sysconfig
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tailback as tb
from command import Ran, tailback
from tailback import registry
from tailback.errors import ScenarioError, TailbackError
from tailback.export import netem, ns3

HOME = {"rate": "10mbit", "rtt": "80ms", "queue": "1bdp"}


def home(*flows: tb.Flow, **more: Any) -> tb.Scenario:
    options = {**HOME, **more}
    return tb.dumbbell(flows=flows or [tb.bulk("cubic")], duration="5s", name="home", **options)


def differences(made: tb.Export) -> dict[str, Any]:
    return {row.field: row.value for row in made.left_out}


# --- What is written ----------------------------------------------------------------------------------------------

NS3_NETWORK = """
    // Node 0: left
    // Node 1: right

    // left to right: bottleneck
    cable.SetChannelAttribute("Delay", StringValue("40000000000ps"));
    auto pair0 = cable.Install(NodeContainer(nodes.Get(0), nodes.Get(1)));
    pair0.Get(0)->SetAttribute("DataRate", StringValue("10000000bps"));
    {
        TrafficControlHelper control;
        control.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", StringValue("100000B"));
        control.Install(pair0.Get(0));
    }
    pair0.Get(1)->SetAttribute("DataRate", StringValue("10000000bps"));
    {
        TrafficControlHelper control;
        control.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", StringValue("100000B"));
        control.Install(pair0.Get(1));
    }
    addresses.Assign(pair0);
    addresses.NewNetwork();

    Watch("bottleneck", 10000000, pair0.Get(0));
    Watch("return", 10000000, pair0.Get(1));

    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    {
        Flow& flow = Add("bulk", "bulk", "htcp", "ns3-3.44", 5201, 0, 5);
        Transfer<TcpHtcp>(flow, nodes.Get(0), nodes.Get(1), 0, 1448, 0, 0, false);
    }
    {
        Flow& flow = Add("voip", "voip", "", "", 5202, 1, 5);
        Datagrams(flow, nodes.Get(0), nodes.Get(1), 200, 0.02);
    }
"""

NETEM_NETWORK = """
host left 10.255.0.1
host right 10.255.0.2

# left to right: link bottleneck, back return
router q0-near
router q0-far
join left l00a q0-near l00b 10.0.0
join q0-near l01a q0-far l01b 10.0.1
join q0-far l02a right l02b 10.0.2

# Routes, by the fewest hops.
in_ns left ip route add 10.255.0.2 via 10.0.0.2 dev l00a src 10.255.0.1
in_ns right ip route add 10.255.0.1 via 10.0.2.1 dev l02b src 10.255.0.2
in_ns q0-near ip route add 10.255.0.1 via 10.0.0.1 dev l00b
in_ns q0-near ip route add 10.255.0.2 via 10.0.1.2 dev l01a
in_ns q0-far ip route add 10.255.0.1 via 10.0.1.1 dev l01b
in_ns q0-far ip route add 10.255.0.2 via 10.0.2.2 dev l02a

# Queues and rates on the near routers, delays and losses on the far ones.
# bottleneck: bytes are IP bytes, hence the overhead.
tc_in q0-near qdisc add dev l01a root handle 1: stab overhead -14 linklayer ethernet \
tbf rate 10000000bit burst 3028 limit 100000
tc_in q0-near qdisc add dev l01a parent 1:1 handle 10: bfifo limit 100000
tc_in q0-far qdisc add dev l02a root netem limit 1000000 delay 40000us
"""


def test_a_program_for_ns3_has_the_network_and_the_flows() -> None:
    made = tb.export(home(tb.bulk("htcp"), tb.voip(start="1s")), "ns3")
    assert NS3_NETWORK in made.text
    assert made.file_name == "home-ns3.cc"
    assert not re.search(r"@\w+@", made.text)


def test_a_script_for_netem_has_the_network_and_the_flows(tmp_path: Path) -> None:
    made = tb.export(home(tb.bulk("htcp"), tb.voip(start="1s")), "netem")
    assert NETEM_NETWORK in made.text
    assert "\nflow 0 left bulk.json iperf3 --json -c 10.255.0.2 -p 5201 --congestion htcp --time 5\n" in made.text
    assert (
        "\nflow 1 left voip.json iperf3 --json -c 10.255.0.2 -p 5202 --udp --length 172 --bitrate 68800 " in made.text
    )
    assert not re.search(r"@\w+@", made.text)
    script = made.save(tmp_path / "run.sh")
    assert os.access(script, os.X_OK)
    assert subprocess.run(["sh", "-n", script], check=False).returncode == 0


def test_the_tables_of_ns3_have_a_results_columns() -> None:
    result = tb.run(home())
    assert tuple(result.flow_summary()[0]) == ns3.FLOW_COLUMNS
    assert tuple(result.link_summary()[0]) == ns3.LINK_COLUMNS


@pytest.mark.parametrize("queue", registry.names("queues"))
@pytest.mark.parametrize("target", ["netem", "ns3"])
def test_every_parameter_of_a_queue_is_taken_over_or_said_to_be_left_out(queue: str, target: str) -> None:
    """A value other than the default changes the text beyond its comments, or is in the list."""

    def made(**params: Any) -> tuple[tb.Export, str]:
        each = tb.export(home(queue={"discipline": queue} | params), target)
        return each, "\n".join(line for line in each.text.splitlines() if not line.startswith(("#", "//")))

    if target == "netem" and queue not in netem.DISCIPLINES:
        with pytest.raises(ScenarioError, match=r"dumbbell\.queue.*(need filters|no words of tc)"):
            made()
        return
    if target == "ns3" and queue not in ("fifo", "token_bucket", *ns3.DISCS):
        with pytest.raises(ScenarioError, match=r"dumbbell\.queue.*no such queue disc.*fq_codel"):
            made()
        return
    more = {"rate": "3mbit", "burst": "20kB"} if queue == "token_bucket" else {}
    _, plain = made(**more)
    for param in registry.card("queues", queue).params:
        values: list[Any] = ["bulk=ef", "a=ef", "voip=ef"] if param.kind == "text" else list(param.choices)
        if param.min is None and not values:
            values = [True, False]
        elif not values:
            assert param.max is not None
            values = [value for value in (0.5, 3, 50, 1600, 2048, 300_000) if param.min <= value <= param.max]
        changed = []
        for value in values:
            try:
                each, text = made(**{**more, param.name: value})
            except ScenarioError:
                # Too small for a packet, or a limit beyond another's.
                continue
            left = any(re.fullmatch(rf"dumbbell\.queue\.{param.name}", field) for field in differences(each))
            changed.append(left or text != plain)
        assert any(changed), (param.name, values)


def test_a_wires_key_that_the_script_does_not_know_is_said_to_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = home().with_({"dumbbell.wire": {"duplicate": 0.01}})
    assert not differences(tb.export(scenario, "netem"))
    monkeypatch.setattr(netem, "_OF_WIRE", netem._OF_WIRE - {"duplicate"})
    assert "dumbbell.wire.duplicate" in differences(tb.export(scenario, "netem"))


def test_red_that_counts_bytes_has_its_thresholds_and_its_limit_in_bytes() -> None:
    for params, netems, ns3s in (
        ({}, "limit 450000 min 7500 max 22500 avpkt 1500", ("5", "15", "true", "1000000p")),
        ({"limit_bytes": 30_000}, "limit 30000 min 7500 max 22500 avpkt 1500", ("5", "15", "true", "20p")),
        ({"unit": "bytes"}, "limit 150000 min 2500 max 7500 avpkt 500", ("2500", "7500", "true", "1500000000B")),
        (
            {"variant": "linux", "min": 30_000, "limit_packets": 100},
            "limit 150000 min 30000 max 90000 avpkt 500",
            ("30000", "90000", "false", "150000B"),
        ),
    ):
        queue = {"discipline": "red"} | params
        assert f"red {netems} " in tb.export(home(queue=queue), "netem").text
        made = tb.export(home(queue=queue), "ns3")
        text = made.text
        # A limit in the other unit is converted, and it is said.
        assert [field for field in differences(made) if ".limit_" in field] == [
            f"dumbbell.queue.{key}" for key in params if key.startswith("limit_")
        ]
        for name, value in zip(("MinTh", "MaxTh", "Gentle", "MaxSize"), ns3s, strict=True):
            assert f'"{name}", StringValue("{value}")' in text, (params, name)


def test_what_every_target_does_anyway_is_not_left_out() -> None:
    for target in ("netem", "ns3"):
        for kind, key, its_own, other in (("red", "idle_decay", True, False), ("token_bucket", "header", 0, 14)):
            for value in (its_own, other):
                made = tb.export(home(queue={"discipline": kind, key: value}), target)
                assert (f"dumbbell.queue.{key}" in differences(made)) == (value == other), (target, kind, value)


# --- What is left out, and what is refused ------------------------------------------------------------------------


def test_what_cannot_be_said_is_reported_in_comments_and_in_the_list() -> None:
    scenario = home(
        tb.bulk(
            {"name": "cubic", "beta": 0.8}, "freebsd-14" if "freebsd-14" in registry.names("stacks") else "freebsd-9"
        ),
        tb.flow("web-probe", from_="right", to="left"),
        wire={"reorder": 0.01, "reorder_delay": "5ms", "loss": 0.02},
        randomness={"start_spread": "1s"},
    )
    for target in ("netem", "ns3"):
        made = tb.export(scenario, target)
        for field in (
            "flow[0].cc.beta",
            "flow[0].stack",
            "flow[1].app",
            "dumbbell.wire.reorder",
            "randomness.start_spread",
        ):
            assert field in differences(made), (target, field)
            assert field in made.text
        assert "dumbbell.wire.loss" not in differences(made)
    assert "loss 2.0000000%" in tb.export(scenario, "netem").text
    assert "SetRate(0.02)" in tb.export(scenario, "ns3").text


def test_a_switch_of_the_kernel_is_set_where_all_flows_of_a_host_agree() -> None:
    def stack(**fields: Any) -> dict[str, Any]:
        return {"name": "linux", **fields}

    agreed = tb.export(home(tb.bulk("reno", stack(ecn=True)), tb.bulk("cubic", stack(ecn=True))), "netem")
    assert agreed.left_out == ()
    for host in ("left", "right"):
        assert f"\nin_ns {host} sysctl -q -w net.ipv4.tcp_ecn=1\n" in agreed.text
    differing = tb.export(home(tb.bulk("reno", stack(sack=False)), tb.bulk("cubic")), "netem")
    assert differences(differing) == {"flow[0].stack.sack": False}
    assert "sysctl -q -w net.ipv4.tcp_sack" not in differing.text
    for target in ("netem", "ns3"):
        assert "flow[0].stack.ecn" in differences(tb.export(home(tb.bulk("dctcp", stack(ecn="l4s"))), target))
        assert "flow[0].stack.ecn" in differences(tb.export(home(tb.bulk("dctcp")), target))


def test_a_change_of_rate_leaves_the_queue_its_limit() -> None:
    """The kernel's tbf gives its limit to a FIFO in it whenever it is changed."""
    for queue, limit in (("50packets", 50), ("60kB", 60_000), ("codel", 1_000_000_000)):
        scenario = home(queue=queue).with_({"dumbbell.schedule": [{"at": "2s", "rate": "5mbit"}]})
        text = tb.export(scenario, "netem").text
        # A change without the stab would drop it, and count Ethernet headers from then on.
        counted = "stab overhead -14 linklayer ethernet tbf rate 5000000bit"
        change = f"later 2 q0-near tc qdisc change dev l01a root handle 1: {counted} burst 3028 limit {limit}"
        assert f"\n{change}\n" in text


def test_the_shaper_counts_a_links_framing_and_the_queue_in_it_does_not() -> None:
    def framed(**shape: Any) -> tb.Export:
        return tb.export(home(**shape), "netem")

    made = framed(overhead=10, linklayer="atm")
    assert "stab overhead -14 linklayer ethernet tbf rate 10000000bit overhead 10 linklayer atm burst" in made.text
    assert not differences(made)
    made = framed(overhead=30, linklayer="ptm")
    assert f" tbf rate {10_000_000 * 64 // 65}bit overhead 30 burst" in made.text
    assert differences(made) == {"dumbbell.linklayer": "ptm"}
    assert differences(framed(overhead=-20, mpu=64)) == {"dumbbell.overhead": -20, "dumbbell.mpu": 64}
    given = {"overhead": 10, "linklayer": "atm"}
    left = differences(tb.export(home(tb.bulk("bbr", "ns3-3.44"), **given), "ns3"))
    assert left == {f"dumbbell.{key}": value for key, value in given.items()}


def test_nothing_is_left_out_of_what_is_the_targets_own() -> None:
    assert tb.export(home(tb.bulk("bbr")), "netem").left_out == ()
    assert tb.export(home(tb.bulk("bbr", "ns3-3.44")), "ns3").left_out == ()


@pytest.mark.parametrize(
    ("target", "scenario", "field", "fix"),
    [
        ("netem", home(tb.bulk("compound")), "flow[0].cc", "Choose one of reno, cubic"),
        ("ns3", home(tb.bulk("bbr3")), "flow[0].cc", "Choose one of reno, cubic"),
        ("ns3", home(queue="dualpi2"), "dumbbell.queue.discipline", "Choose one of fifo, codel"),
        ("netem", home(tb.flow("web")), "flow", "Add a bulk transfer, a call or a ping"),
    ],
)
def test_where_nothing_sensible_would_be_left_the_field_and_the_fix_are_reported(
    target: str, scenario: tb.Scenario, field: str, fix: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        tb.export(scenario, target)
    problem = caught.value.problems[0]
    assert (problem.field, problem.fix.startswith(fix)) == (field, True)


def test_a_medium_has_no_rate_to_export() -> None:
    air = tb.link("air", "a", "b", medium="wifi", queue="50packets", duplex=True)
    scenario = tb.network(links=[air], flows=[tb.bulk(from_="a", to="b")], duration="5s")
    for target in ("netem", "ns3"):
        with pytest.raises(ScenarioError, match=r'link\.air\.medium = "wifi".*Give the link a rate'):
            tb.export(scenario, target)


def test_a_dumbbells_medium_is_removed_to_export() -> None:
    bell = tb.dumbbell(rate="5mbit", rtt="20ms", flows=[tb.bulk()], duration="1s", medium={"name": "docsis"})
    with pytest.raises(ScenarioError, match=r"Remove it: dumbbell\.rate then holds"):
        tb.export(bell, "ns3")


def test_an_unknown_target_is_reported_with_the_nearest() -> None:
    with pytest.raises(TailbackError, match=r'no export as "ns2". Did you mean "ns3"'):
        tb.export(home(), "ns2")


def test_the_command_writes_the_file_and_says_what_is_left_out(tmp_path: Path) -> None:
    scenario = Path(__file__).parents[2] / "scenarios" / "asymmetric.toml"

    def run(*more: str) -> Ran:
        return tailback("export", scenario, *more, cwd=tmp_path)

    done = run("--as", "netem", "--json")
    assert done.code == 0, done.err
    data = done.data
    assert data["files"] == ["asymmetric-netem.sh"]
    assert "randomness.start_spread" in [row["field"] for row in data["left_out"]]
    done = run("--as", "ns3", "--out", "mine.cc")
    assert (tmp_path / "mine.cc").exists()
    assert 'not taken over: dumbbell.delay = "15ms"' in done.err
    done = run()
    assert done.code == 2
    assert "--as netem or ns3" in done.err


# --- Run for real --------------------------------------------------------------------------------------------------


def can_make_namespaces() -> bool:
    programs = all(shutil.which(program) for program in ("ip", "tc", "iperf3", "sysctl"))
    return os.geteuid() == 0 and programs and subprocess.run(["unshare", "--net", "true"], check=False).returncode == 0


def has_netem() -> bool:
    probe = "ip link add a0 type veth peer name b0 && tc qdisc add dev a0 root netem delay 1ms"
    subprocess.run(["modprobe", "-q", "sch_netem"], check=False) if shutil.which("modprobe") else None
    return subprocess.run(["unshare", "--net", "sh", "-c", probe], capture_output=True, check=False).returncode == 0


needs_namespaces = pytest.mark.skipif(not can_make_namespaces(), reason="needs root, ip, tc and iperf3")


def namespaces(script: int) -> list[str]:
    """Those of the script with this process number: others may run at the same time."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return re.findall(rf"^tb{script}-\S+", listed, re.MULTILINE)


def _compared_once(scenario: tb.Scenario, folder: Path, queue: str) -> None:
    """The script's goodput within 5 % of the simulator's, and the RTT within 15 % at most instants.

    The RTT is compared when iperf3 asks for it, once a second. There its mean lies up to 20 % from that over the run,
    since the queue fills and empties a few times in five seconds. A second in which this machine was busy, or another
    order of packets at the full queue cost a loss more, moves one or two of the five; the median is of all. The
    simulator's hosts are disturbed as real ones are: without that every seed has one order, which two in three
    disturbed runs and most of the kernel's do not have.
    """
    script = tb.export(scenario, "netem").save(folder / "run.sh")
    with subprocess.Popen([script, folder / "out"], stderr=subprocess.PIPE, text=True) as running:
        _, said_wrong = running.communicate(timeout=60)
    assert running.returncode == 0, said_wrong
    assert namespaces(running.pid) == []
    report = json.loads((folder / "out" / "bulk.json").read_text())
    said = report["end"]
    noisy = {"randomness.processing_jitter": "20us"}
    result = tb.run(scenario.with_({"instruments.polls": ["bulk"], "instruments.poll_interval": "10ms"} | noisy))
    goodput = result.flow_summary()[0]["goodput_mbps"]
    assert said["sum_received"]["bits_per_second"] / 1e6 == pytest.approx(goodput, rel=0.05)
    ours = np.interp(range(1, 6), result.column("polls", "t_s"), result.column("polls", "srtt_s"))
    theirs = [second["streams"][0]["rtt"] / 1e6 for second in report["intervals"]]
    assert float(np.median(theirs[:5] / ours)) == pytest.approx(1.0, rel=0.15), (theirs, ours)
    assert json.loads((folder / "out" / "call.json").read_text())["end"]["sum"]["packets"] in range(240, 256)
    assert f"{queue}\n" in (folder / "out" / "qdisc-q0-near.txt").read_text()


def compared(scenario: tb.Scenario, folder: Path, queue: str) -> None:
    """As `_compared_once`; a run in real time counts once a processor was free for it, in one of three tries."""
    for attempt in range(2):
        with contextlib.suppress(AssertionError):
            _compared_once(scenario, folder / str(attempt), queue)
            return
    _compared_once(scenario, folder / "last", queue)


@needs_namespaces
@pytest.mark.parametrize(
    ("change", "queue"),
    [
        ({"queue": "100kB"}, "bfifo 10: dev l01a parent 1:1 limit 100000b"),
        (
            {"queue": "60packets", "schedule": [{"at": "2s", "rate": "5mbit"}]},
            "pfifo 10: dev l01a parent 1:1 limit 60p",
        ),
    ],
    ids=["steady", "changing"],
)
def test_the_script_agrees_with_the_simulator_where_only_the_queue_delays(
    change: dict[str, Any], queue: str, tmp_path: Path
) -> None:
    ends = {"from_": "left", "to": "right"}
    there = tb.link("there", "left", "right", rate="10mbit", **change)
    links = [there, tb.link("back", "right", "left", rate="10mbit", queue="100kB")]
    flows = [tb.bulk("cubic", name="bulk", **ends), tb.voip(name="call", **ends)]
    compared(tb.network(links=links, flows=flows, duration="5s"), tmp_path, queue)


@needs_namespaces
@pytest.mark.skipif(not has_netem(), reason="this kernel has no sch_netem")
def test_the_script_agrees_with_the_simulator_over_a_path_with_delay(tmp_path: Path) -> None:
    compared(
        home(tb.bulk("cubic", name="bulk"), tb.voip(name="call"), rtt="20ms"),
        tmp_path,
        "bfifo 10: dev l01a parent 1:1 limit 25000b",
    )


@needs_namespaces
def test_a_script_that_is_ended_leaves_no_namespace(tmp_path: Path) -> None:
    links = [tb.link("there", "left", "right", rate="10mbit", queue="100kB", duplex=True)]
    scenario = tb.network(links=links, flows=[tb.bulk(from_="left", to="right")], duration="60s")
    script = tb.export(scenario, "netem").save(tmp_path / "run.sh")
    running = subprocess.Popen([script, tmp_path / "out"], stderr=subprocess.PIPE)
    assert running.stderr is not None
    while not (tmp_path / "out" / "bulk.json").exists():
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.02)
    assert len(namespaces(running.pid)) == 4
    running.terminate()
    assert running.wait(30) == 143
    running.stderr.close()
    assert namespaces(running.pid) == []


@pytest.mark.skipif(shutil.which("tc") is None, reason="tc is not installed")
@pytest.mark.skipif(not can_make_namespaces(), reason="needs root")
@pytest.mark.parametrize("queue", ["codel", "fq_codel", "pie", "sfq", "red", "choke"])
def test_tc_understands_every_line(queue: str) -> None:
    """A kernel without the discipline refuses it by name; a line that tc cannot read fails otherwise."""
    params = {"red": {"min": 10, "max": 30, "ecn": True}, "pie": {"alpha": 0.25, "ecn": True}}.get(queue, {})
    params |= {"target_ms": 7} if queue in ("codel", "fq_codel", "pie") else {}
    text = tb.export(home(queue={"discipline": queue, **params}, wire={"burst_start": 0.01, "burst_end": 0.2,
                                                                       "burst_loss": 1.0}), "netem").text  # fmt: skip
    lines = [line.split(maxsplit=2)[2] for line in text.splitlines() if line.startswith("tc_in ")]
    assert len(lines) == 6
    for line in lines:
        words = re.sub(r"dev \S+ (root|parent \S+)", "dev a0 root", line)
        probe = f"ip link add a0 type veth peer name b0; tc {words}"
        done = subprocess.run(["unshare", "--net", "sh", "-c", probe], capture_output=True, text=True, check=False)
        assert done.returncode == 0 or done.stderr.strip() == "Error: Specified qdisc kind is unknown.", (
            line,
            done.stderr,
        )


def ns3_folder() -> Path | None:
    """The wheel `ns3`, in this environment or where NS3_WHEEL says."""
    named = os.environ.get("NS3_WHEEL")
    found = Path(named) if named else Path(sysconfig.get_paths()["purelib"]) / "ns3" if find_spec("ns3") else None
    return found if found is not None and (found / "include").exists() else None


@pytest.mark.skipif(
    ns3_folder() is None or shutil.which("g++") is None, reason="needs the wheel ns3 and a C++ compiler"
)
def test_the_program_compiles_and_agrees_with_the_simulator(tmp_path: Path) -> None:
    folder = ns3_folder()
    assert folder is not None
    scenario = home(
        tb.bulk("reno", "ns3-3.44"),
        tb.voip(),
        tb.flow("ping"),
        tb.bulk("dctcp", "ns3-3.44", name="short", bytes="200kB"),
    ).with_(duration="30s")
    source = tb.export(scenario, "ns3").save(tmp_path / "program.cc")
    modules = ("core", "network", "internet", "point-to-point", "applications", "traffic-control", "flow-monitor",
               "internet-apps")  # fmt: skip
    subprocess.run(
        ["g++", "-std=c++23", "-O0", f"-I{folder / 'include'}", source, "-o", tmp_path / "program",
         f"-L{folder / 'lib64'}", *(f"-l:libns3.44-{name}.so" for name in modules),
         f"-Wl,-rpath,{folder / 'lib64'}", "-Wl,--allow-shlib-undefined"],
        check=True,
    )  # fmt: skip
    subprocess.run([tmp_path / "program"], cwd=tmp_path, check=True)
    rows = {row["flow"]: row for row in csv.DictReader((tmp_path / "flows.csv").read_text().splitlines())}
    for ours in tb.run(scenario).flow_summary():
        theirs = rows[ours["flow"]]
        if ours["app"] != "ping" and ours["flow"] != "short":
            assert float(theirs["goodput_mbps"]) == pytest.approx(ours["goodput_mbps"], rel=0.05), ours["flow"]
    assert float(rows["ping"]["rtt_min_ms"]) == pytest.approx(80, abs=1)
    link = next(csv.DictReader((tmp_path / "links.csv").read_text().splitlines()))
    assert float(link["utilisation"]) > 0.95


def test_the_targets_algorithms_are_ours() -> None:
    known = set(registry.names("algorithms"))
    assert set(netem.KERNEL) <= known
    assert set(ns3.ALGORITHMS) <= known
