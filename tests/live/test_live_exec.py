"""Real programs live: they run in the flow's hosts, are distinguished by their ends, and leave nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from command import PROCESS
from real_engines import FOUND, needs_live
from tailback import compare, live, report
from tailback.live import programs

SCENARIOS = Path(__file__).parents[2] / "scenarios" / "live"
LEASES = Path("/run/tailback")
#: A command that no other worker's tests run at the same time.
LONG = f"sleep {100_000 + os.getpid()}"


def needs(*names: str) -> pytest.MarkDecorator:
    absent = [name for name in names if shutil.which(name) is None]
    return pytest.mark.skipif(bool(absent), reason=f"not installed: {', '.join(absent)}")


def exec_(client: str, **fields: Any) -> tb.Flow:
    return tb.flow("exec", client=client, **fields)


def scenario(*flows: tb.Flow, duration: str = "2s", **options: Any) -> tb.Scenario:
    return tb.dumbbell(rate="10mbit", rtt="20ms", queue="1bdp", flows=flows, duration=duration, **options)


def ends(result: tb.Result) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["flow"], row["program"]): row for row in result.program_summary()}


def figures(result: tb.Result, flow: str) -> dict[str, float]:
    return {row["measured"]: row["value"] for row in result.program_metrics() if row["flow"] == flow}


def total(result: tb.Result, flow: str, column: str) -> float:
    return float(result.column("flows", column)[result.flow_index(flow)])


# --- The examples -------------------------------------------------------------------------------------------------


@needs_live
@needs("iperf3")
def test_iperf3_runs_as_its_scenario_file_says() -> None:
    cc = "htcp" if FOUND["bpf_twins"] else "reno"
    given = tb.Scenario.from_toml(SCENARIOS / "iperf3.toml")
    result = live.run(given.with_({"duration": "4s", "flow.iperf3.cc": cc}), allow_code=True)
    assert [row["status"] for row in result.program_summary()] == [0, 0]
    found = json.loads(result.files["iperf3/client.out"])["end"]
    # Twins go by the run's mark and their name; the kernel's own by their name alone.
    assert found["sender_tcp_congestion"] == cc or found["sender_tcp_congestion"].startswith("tb")
    assert cc in found["sender_tcp_congestion"]
    assert figures(result, "iperf3")["received_mbps"] == found["sum_received"]["bits_per_second"] / 1e6
    assert 0 < figures(result, "iperf3")["received_mbps"] < 10
    # What the kernel counts of the flow is what iperf3 says, and the few words of its control connection.
    assert 0 <= total(result, "iperf3", "bytes_received") - found["sum_received"]["bytes"] < 10_000
    assert total(result, "iperf3", "connections") == 2
    assert total(result, "iperf3", "packets_sent") * 1448 > found["sum_received"]["bytes"]
    # The state log has the connections of other programs, if there is one.
    if FOUND["bpf_twins"]:
        assert result.where_flow("polls", "iperf3")["cwnd"].max() > 10 * 1448


@needs_live
@needs("nginx", "curl")
def test_nginx_and_curl_run_as_their_scenario_file_says(tmp_path: Path) -> None:
    changes = {"duration": "3s", "flow.curl.start": "200ms", "flow.upload": None, "flow.curl.params.grace": 3}
    result = live.run(tb.Scenario.from_toml(SCENARIOS / "nginx-curl.toml").with_(changes), allow_code=True)
    assert ends(result)["curl", "client"]["status"] == 0, result.meta["notes"]
    assert ends(result)["curl", "server"]["end"] == "stopped"
    assert ends(result)["curl", "client"]["started_s"] >= 0.2
    found = figures(result, "curl")
    assert (found["transfers"], found["failed"], found["downloaded_bytes"]) == (10, 0, 1_000_000)
    # A request there and the first byte back.
    assert found["time_starttransfer_s"] >= 0.040
    # Content, and headers.
    assert 1_000_000 < total(result, "curl", "bytes_returned") < 1_010_000
    assert total(result, "curl", "connections") == 1
    saved = tb.open_result(result.save(tmp_path / "kept"))
    assert saved.files == result.files
    assert saved.program_metrics() == result.program_metrics()
    assert (tmp_path / "kept" / "programs" / "curl" / "client.out").read_bytes() == result.files["curl/client.out"]
    rows = {(row.metric, row.of): row for row in compare.compare({"run": result, "saved": saved})}
    assert rows["speed_mbps by its program", "curl"].change("saved") == 0
    assert "speed_mbps" in report.single(saved)


# --- Ends of every kind ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def every_end() -> tb.Result:
    """A run whose programs end in every way there is."""
    stubborn = "trap '' TERM; while :; do sleep 1; done"
    return live.run(
        scenario(
            exec_(
                "sh -c 'echo rate 12.5; echo {cc} {seed} {duration} {port} {client_addr} {server_addr} >&2; pwd'",
                name="found", cc="reno", parse="regex", params={"pattern": r"rate (?P<rate_mbps>[\d.]+)"},
            ),
            exec_("sh -c 'echo one >&2; echo broken >&2; exit 3'", name="failed", parse="iperf3"),
            exec_(f"sh -c \"{stubborn}\"", name="stubborn", params={"grace": 0.2}),
            exec_(LONG, name="late", stop="1s"),
            exec_("sh -c 'kill -9 $$'", name="shot"),
            exec_(f"sh -c '{LONG} & echo $!'", name="parent"),
        ),
        allow_code=True,
    )  # fmt: skip


@needs_live
def test_placeholders_stand_for_the_flows_own(every_end: tb.Result) -> None:
    out, err = every_end.files["found/client.out"].decode(), every_end.files["found/client.err"].decode()
    assert err.split() == ["reno", "1", "1", "5001", "10.0.0.1", "10.0.0.2"]
    assert figures(every_end, "found") == {"rate_mbps": 12.5}
    # Its folder was the run's own, and is gone.
    folder = Path(out.split()[-1])
    assert folder.is_relative_to(LEASES)
    assert not folder.exists()


@needs_live
def test_how_each_program_ended_is_reported(every_end: tb.Result) -> None:
    found = {flow: (row["end"], row["status"]) for (flow, _), row in ends(every_end).items()}
    assert found == {
        "found": ("exited", 0),
        "failed": ("exited", 3),
        "stubborn": ("killed", None),
        "late": ("stopped", None),
        "shot": ("signal 9", None),
        "parent": ("exited", 0),
    }
    assert 1.0 <= ends(every_end)["late", "client"]["ended_s"] < 2.0
    assert ends(every_end)["stubborn", "client"]["ended_s"] >= 2.2
    notes = {note.split(":")[0].removeprefix("flow "): note for note in every_end.meta["notes"] if "flow " in note[:5]}
    assert "status 3: one | broken" in next(note for note in every_end.meta["notes"] if "status 3" in note)
    assert "killed" in notes["stubborn"]
    assert "still at work" in notes["late"]
    assert "signal 9" in notes["shot"]
    assert "found" not in notes
    assert "iperf3" in next(note for note in every_end.meta["notes"] if "not read" in note)


@needs_live
def test_what_a_program_leaves_in_the_background_is_gone(every_end: tb.Result) -> None:
    # A number inside the program's own world; what had its command line is gone from ours.
    assert every_end.files["parent/client.out"].strip().isdigit()
    assert not processes(LONG.replace(" ", "\0"))


# --- Servers --------------------------------------------------------------------------------------------------------


@needs_live
@pytest.mark.parametrize(
    ("server", "params", "said"),
    [
        ("sh -c 'echo bad port >&2; exit 7'", {}, "ended with status 7 before it listened on port 5001: bad port"),
        (f"sh -c '{LONG} & exit 0'", {}, "status 0 before it listened on port 5001: let it stay in the foreground"),
        (LONG, {"ready": 0.3}, "did not listen on port 5001 within 0.3 s"),
    ],
    ids=["fails", "goes to the background", "never listens"],
)
def test_a_server_that_does_not_listen_ends_the_run_before_it_begins(
    server: str, params: dict[str, float], said: str
) -> None:
    began = time.monotonic()
    with pytest.raises(live.LiveError, match=said):
        live.run(scenario(exec_("true", server=server, params=params), duration="60s"), allow_code=True)
    assert time.monotonic() - began < 30
    assert not processes(LONG.replace(" ", "\0"))


# --- Refused before anything is made ----------------------------------------------------------------------------------


@pytest.mark.skipif(not live._HAS_LIVE, reason="live runs need Linux")
@pytest.mark.parametrize(
    ("flow", "field", "said"),
    [
        (exec_("nonesuch-of-tailback -x"), "client", "Install nonesuch-of-tailback"),
        (exec_("true", server="/nonesuch/server"), "server", "not installed"),
        (exec_("true", params={"needs": "sh nonesuch-of-tailback"}), "needs", "nonesuch-of-tailback is not installed"),
        (exec_("true {sever_addr}"), "client", "{server_addr}"),
        (exec_("echo 'open"), "client", "quotation"),
        (exec_("true", parse="jperf"), "parse", "iperf3"),
        (exec_("true", parse="regex"), "pattern", "regex"),
        (exec_("true", parse="regex", params={"pattern": "("}), "pattern", "regular expression"),
        (exec_("true", parse="regex", params={"pattern": "x"}), "pattern", "names no figure"),
        (exec_("true", stop="1s", again=[{"start": "2s"}]), "again", "several flows"),
        (exec_("true", cc_turns=["reno"]), "cc_turns", "several flows"),
        (tb.flow("exec"), "client", "client ="),
        (tb.flow("bulk", server="iperf3 -s"), "server", "no parameter server"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_can(flow: tb.Flow, field: str, said: str) -> None:
    with pytest.raises(tb.ScenarioError) as caught:
        live.check(scenario(flow, duration="4s"))
    problem = caught.value.problems[0]
    assert problem.field.startswith("flow[0].")
    assert problem.field.endswith(field)
    assert said in f"{problem.problem} {problem.fix}"


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_examples_resolved_form_stands_for_itself(path: Path) -> None:
    resolved = tb.Scenario.from_toml(path).resolve(live=True)
    assert tb.Scenario.from_resolved(resolved).resolve(live=True) == resolved


def test_the_simulator_names_the_nearest_thing() -> None:
    with pytest.raises(tb.ScenarioError) as caught:
        tb.run(scenario(exec_("true")))
    problem = caught.value.problems[0]
    assert problem.field == "flow[0].app"
    assert "only on a kernel" in problem.problem
    assert "bulk" in problem.fix
    assert "--engine live" in problem.fix


# --- Parsers --------------------------------------------------------------------------------------------------------


def test_parsers_read_what_programs_write_and_say_what_they_cannot() -> None:
    udp = {"end": {"sum": {"bits_per_second": 1e6, "jitter_ms": 0.5, "lost_percent": 1.25}, "streams": []}}
    assert programs.iperf3(json.dumps(udp)) == {"received_mbps": 1.0, "jitter_ms": 0.5, "lost_percent": 1.25}
    lines = [
        {"time_total": 1, "time_connect": 0.1, "num_connects": 1, "http_code": 200, "speed_download": 125_000},
        {"time_total": 3, "time_connect": 0.0, "num_connects": 0, "http_code": 404, "speed_download": 250_000},
    ]
    found = programs.curl("x { y\n" + "".join(map(json.dumps, lines)))
    assert (found["transfers"], found["failed"], found["time_total_s"], found["time_total_max_s"]) == (2, 1, 2, 3)
    assert (found["time_connect_s"], found["speed_mbps"]) == (0.1, 1.5)
    for wrong in (
        lambda: programs.iperf3("iperf 3.12"),
        lambda: programs.iperf3('{"end": {}}'),
        lambda: programs.iperf3('{"error": "unable to connect"}'),
        lambda: programs.curl("no such host"),
        lambda: programs.regex("(?P<a>[a-z]+)", "word"),
        lambda: programs.regex("(?P<a>[0-9]+)", "word"),
    ):
        with pytest.raises(programs.OutputError):
            wrong()


# --- Nothing is left --------------------------------------------------------------------------------------------------


def processes(line: str) -> list[int]:
    """Processes whose command line has this in it, its words parted by zeros."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if line.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_for(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if got := condition():
            return got
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


@needs_live
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_program_outlives_the_run(how: signal.Signals, tmp_path: Path) -> None:
    # A number that no other test and no other run has in a command line.
    mark = f"86400.{how.value}{os.getpid()}"
    deaf = f"sh -c \"trap '' TERM; setsid sleep {mark} & sleep {mark}\""
    flow = exec_(f"sleep {mark}", server=deaf, params={"ready": 0, "grace": 0.2})
    path = tmp_path / "long.toml"
    path.write_text(scenario(flow, duration="120s").to_toml())
    run = [*PROCESS, "run", str(path), "--engine", "live", "--allow-code"]
    running = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # The client and the server's two, and the two shells whose lines have it too.
        wait_for(lambda: len(processes(f"sleep\x00{mark}")) == 3)
        running.send_signal(how)
        running.wait(timeout=20)
    finally:
        running.kill()
        running.wait()
    wait_for(lambda: not processes(mark))
    subprocess.run([*PROCESS, "doctor", "--clean"], check=True, capture_output=True, timeout=60)
    assert not [path for path in LEASES.glob("*.d") if not path.with_suffix(".json").exists()]
