"""Live runs on this machine's kernel. Where it cannot, the tests say why and are skipped."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from command import PROCESS
from real_engines import FOUND, WHY, needs_live
from tailback import compare, live, metrics

needs_twins = pytest.mark.skipif(not FOUND["bpf_twins"], reason=f"no BPF congestion controls here: {WHY}")
LEASES = Path("/run/tailback")
CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def scenario(cc: str = "cubic", duration: str = "3s", **options: Any) -> tb.Scenario:
    return tb.dumbbell(
        rate="10mbit",
        rtt="20ms",
        queue="1bdp",
        flows=[tb.bulk(cc, name="bulk", **options), tb.voip(name="call")],
        duration=duration,
        instruments={"polls": ["bulk"], "packets": ["call"], "queue_polls": ["bottleneck"], "poll_interval": "10ms"},
    )


def command(*arguments: str | Path) -> list[str]:
    return [*PROCESS, *map(str, arguments)]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.toml"
    path.write_text(scenario("htcp" if FOUND["bpf_twins"] else "cubic").to_toml())
    return path


def ours() -> list[str]:
    """Congestion controls with a run's mark; other tests of this session may run beside this one."""
    return [name for name in CONTROLS.read_text().split() if name.startswith("tb")]


def leases_of(process: int) -> list[Path]:
    if not LEASES.exists():
        return []
    mine = []
    for path in LEASES.iterdir():
        try:
            if json.loads(path.read_text())["pid"] == process:
                mine.append(path)
        except (OSError, ValueError):
            continue
    return mine


def wait_for(condition: Any, seconds: float = 20.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = condition()
        if got:
            return got
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def test_doctor_gives_a_remedy_for_every_lack() -> None:
    done = run("doctor", "--seconds", "0.1", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert {"can_run_live", "bpf_twins", "congestion_controls", "checks", "vm"} == set(found)
    for row in [*found["checks"], *found["vm"]]:
        assert row["ok"] or row["remedy"], row
    assert run("doctor", "--seconds", "0.1").stdout


def test_another_stack_is_refused_with_what_works_instead() -> None:
    with pytest.raises(tb.ScenarioError) as caught:
        live.check(scenario(stack="freebsd-7"))
    problem = caught.value.problems[0]
    assert "stack" in problem.field
    assert "--engine sim" in problem.fix


def starve(processors: set[int], has_begun: Any, most: float) -> None:
    """Take these processors from ordinary threads for three quarters of the time, for `most` seconds if not killed."""
    os.sched_setaffinity(0, processors)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
    until = time.monotonic() + most
    has_begun.set()
    while time.monotonic() < until:
        rests = time.monotonic() + 0.03
        while time.monotonic() < rests:
            pass
        time.sleep(0.01)


@needs_live
def test_a_run_whose_applications_starve_is_unfit() -> None:
    # The last processor is the emulator's: the path stays punctual, and only the applications get too little.
    others = sorted(os.sched_getaffinity(0))[:-1]
    if not others:
        pytest.skip("one processor: a load that starves applications starves the path as well")
    spawn = multiprocessing.get_context("spawn")
    begun = [spawn.Event() for _ in others]
    # A busy machine takes seconds to start them and the run, so they go on until they are killed.
    hogs = [spawn.Process(target=starve, args=({one}, on, 60.0)) for one, on in zip(others, begun, strict=True)]
    for hog in hogs:
        hog.start()
    try:
        assert all(on.wait(60.0) for on in begun)
        result = live.run(scenario(duration="2s"))
    finally:
        for hog in hogs:
            hog.kill()
            hog.join()
    row = {name: float(column[0]) for name, column in result.numpy("emulator").items()}
    assert row["app_waited_p99_s"] > 5 * row["app_limit_s"], row
    assert row["app_waited_s"] > 0.5, "two threads, three quarters of two seconds"
    assert not result.meta["fit"]
    assert any("waited for a processor" in note for note in result.meta["notes"]), result.meta["notes"]


def test_unknown_engines_are_named(file: Path) -> None:
    done = run("run", file, "--engine", "ns3")
    assert done.returncode == 2
    assert "sim, live" in done.stderr


# The child leaves at once, whatever threads there were.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@needs_live
def test_without_root_it_is_refused_before_anything_is_made() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        text = "not refused"
        try:
            live.check(scenario())
        except tb.ScenarioError as error:
            text = str(error)
        finally:
            os.write(writer, text.encode())
            os._exit(0)
    os.waitpid(child, 0)
    text = os.read(reader, 4096).decode()
    os.close(reader)
    os.close(writer)
    assert "root" in text
    assert "--engine sim" in text


@needs_live
def test_both_engines_make_results_that_can_be_compared(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "both"
    done = run("run", file, "--engine", "sim,live", "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    goodput = next(row for row in answer["metrics"] if (row["metric"], row["of"]) == ("goodput", "bulk"))
    assert abs(goodput["change"]["live"]) < 0.2
    assert set(answer["engines"]) == {"sim", "live"}
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Over one another" in page
    assert "How punctual the live run was" in page
    assert "applications late: 99 % (ms)" in page
    rows = {(row["metric"], row["of"]): row for row in answer["metrics"]}
    assert rows["packets sent", "call"]["values"] == {"sim": 150, "live": 150}
    again = run("compare", out / "sim", out / "live", "--json", "--out", tmp_path / "again.html")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["metrics"] == answer["metrics"]
    assert "Over one another" in (tmp_path / "again.html").read_text(encoding="utf-8")


@needs_live
def test_a_live_result_is_a_result_like_any_other(tmp_path: Path) -> None:
    result = live.run(scenario("reno", "3s"))
    assert result.flow_summary()[0]["goodput_mbps"] > 5
    # What waits behind a gap has arrived: a gap that is filled is no burst above the link's rate.
    _, throughput = metrics.throughput_series(result, "bulk", 0.1)
    assert throughput.max() < 11e6
    assert result.meta["engine"].startswith("live")
    assert "3 s on a real kernel" in result.title
    page = result.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "3 s on a real kernel" in page
    assert "simulated" not in re.sub(r"<script.*?</script>|<pre.*?</pre>", "", page, flags=re.DOTALL)
    assert isinstance(result.meta["fit"], bool)
    assert result.rows("emulator") == 1
    opened = tb.open_result(result.save(tmp_path / "saved"))
    assert opened.meta["fit"] == result.meta["fit"]
    assert opened.rows("captures") == result.rows("captures") > 1000
    assert result.link_summary()[0]["dropped"] == int(result.column("links", "dropped")[0])
    rows = compare.compare({"run": result, "opened": opened})
    assert all(row.values["run"] == row.values["opened"] for row in rows)


@needs_twins
def test_a_live_log_can_be_written_as_siftrs(tmp_path: Path) -> None:
    logged = scenario("cubic", "3s").with_(instruments={"segments": ["bulk"]})
    result = live.run(logged)
    path = result.to_siftr(tmp_path / "bulk.siftr.log", "bulk")
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.split(",") for line in lines if line[:2] in ("i,", "o,")]
    table = result.where_flow("segments", "bulk")
    assert len(rows) == int((~table["at_receiver"]).sum()) > 1000
    # As many rows out as the sender sent, and windows that move.
    assert sum(row[0] == "o" for row in rows) == int((table["outgoing"] & ~table["at_receiver"]).sum())
    assert len({row[8] for row in rows}) > 5


@needs_live
def test_without_bpf_the_state_comes_from_polls(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    logged = scenario("cubic", "3s").with_(instruments={"polls": ["bulk"], "segments": ["bulk"], "packets": ["call"]})
    path.write_text(logged.to_toml())
    out = tmp_path / "out"
    # No compiler to be found: no BPF.
    nowhere = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(
        command("run", path, "--engine", "live", "--out", out),
        env=nowhere, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = tb.open_result(out)
    notes = " ".join(result.meta["notes"])
    assert "polling instead" in notes
    assert "sent when they are read" in notes
    rows = result.where_flow("segments", "bulk")
    assert len(rows["cwnd"]) > 500
    assert (rows["cwnd"] > 0).all()
    assert result.to_siftr(tmp_path / "polled.log", "bulk").stat().st_size > 10_000
    assert result.column("emulator", "unstamped_packets")[0] > 1000


@needs_twins
def test_nothing_is_left_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text(scenario("htcp", "120s").to_toml())
    running = subprocess.Popen(command("run", path, "--engine", "live"), stdout=subprocess.DEVNULL)
    try:
        lease = wait_for(lambda: leases_of(running.pid))[0]
        wait_for(lambda: [name for name in ours() if name.startswith(lease.stem)])
        # Well into the run: hosts, devices and log are all there.
        time.sleep(1.0)
    finally:
        running.kill()
        running.wait()
    wait_for(lambda: not [name for name in ours() if name.startswith(lease.stem)])
    assert lease.exists() or not leases_of(running.pid)
    assert run("doctor", "--clean", "--json").returncode == 0
    assert not lease.exists()


@needs_live
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_after_a_signal(how: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text(scenario("htcp" if FOUND["bpf_twins"] else "cubic", "120s").to_toml())
    out = tmp_path / "out"
    running = subprocess.Popen(
        command("run", path, "--engine", "live", "--out", out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        lease = wait_for(lambda: leases_of(running.pid))[0]
        time.sleep(1.5)
        running.send_signal(how)
        assert running.wait(timeout=20) == 130
    finally:
        running.kill()
        running.wait()
    wait_for(lambda: not [name for name in ours() if name.startswith(lease.stem)])
    if how is signal.SIGINT:
        assert not lease.exists()
    assert not out.exists()


@needs_live
def test_two_runs_at_once_do_not_meet(file: Path) -> None:
    both = [
        subprocess.Popen(command("run", file, "--engine", "live", "--json"), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for running in both:
        out, _ = running.communicate(timeout=60)
        assert running.returncode == 0
        assert json.loads(out)["flows"][0]["goodput_mbps"] > 0.5
    assert not any(leases_of(running.pid) for running in both)


@needs_live
def test_cancel_ends_a_run() -> None:
    cancel = tb.Cancel()
    began = time.monotonic()

    def stop(fraction: float) -> None:
        cancel.set()

    with pytest.raises(tb.Cancelled):
        live.run(scenario(duration="60s"), progress=stop, cancel=cancel)
    assert time.monotonic() - began < 10
