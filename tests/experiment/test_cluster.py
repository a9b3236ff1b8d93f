"""The same sweep on Dask: real worker processes, one of them killed in the middle."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from tailback.experiment import cluster, workers

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("default")

BASE = tb.dumbbell(
    rate="20mbit",
    rtt="20ms",
    queue="1bdp",
    flows=[tb.bulk("reno", name="bulk"), tb.bulk("cubic", name="other")],
    duration="10s",
    randomness={"start_spread": "100ms"},
)


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as running,
        distributed.Client(running, set_as_default=False) as client,
    ):
        yield client


def test_a_killed_worker_costs_no_run_and_changes_no_result(dask: Any, tmp_path: Path) -> None:
    axes = {"flow.bulk.cc": ["reno", "cubic"], "dumbbell.rtt": ["10ms", "20ms"]}
    processes = dask.run(os.getpid)
    assert len(processes) == 2
    assert os.getpid() not in processes.values()
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        if done >= 5 and not killed:
            killed.append(next(iter(processes.values())))
            os.kill(killed[0], signal.SIGKILL)

    spread = tb.sweep(BASE, axes, seeds=5, store=tmp_path / "cluster", on=dask, progress=kill)
    assert (spread.run, spread.failed, len(killed)) == (20, 0, 1)
    assert killed[0] not in dask.run(os.getpid).values()
    here = tb.sweep(BASE, axes, seeds=5, store=tmp_path / "here")
    assert spread.frame.drop("wall_s", "finished").equals(here.frame.drop("wall_s", "finished"))
    # And it is the same store: nothing is left to do.
    again = tb.sweep(BASE, axes, seeds=5, store=tmp_path / "cluster", on=dask)
    assert (again.run, again.reused) == (0, 20)


def test_failures_and_own_metrics_travel(dask: Any, tmp_path: Path) -> None:
    def odd(result: tb.Result) -> float:
        if result.seed == 2:
            raise ValueError("two")
        return float(result.seed)

    done = tb.sweep(BASE, seeds=3, store=tmp_path / "s", on=dask, metrics={"odd": odd})
    assert (done.run, done.failed, done.errors) == (2, 1, {"ValueError: two": 1})
    assert done.frame["odd"].to_list() == [1.0, None, 3.0]


def test_by_address_and_with_tables(dask: Any, tmp_path: Path) -> None:
    address = dask.scheduler_info()["address"].replace("tcp://", "dask://")
    done = tb.sweep(BASE, seeds=1, store=tmp_path / "s", on=address, keep="tables")
    assert done.result(done.frame["key"].item()).rows("flows") == 2


def test_a_worker_with_another_engine_is_refused(dask: Any, tmp_path: Path) -> None:
    def become_another() -> None:
        workers.engine_fingerprint = lambda: "another"

    def become_itself() -> None:
        from tailback.experiment.store import engine_fingerprint

        workers.engine_fingerprint = engine_fingerprint

    dask.run(become_another)
    try:
        with pytest.raises(workers.EngineMismatch, match="Install the same tailback"):
            tb.sweep(BASE, seeds=4, store=tmp_path / "s", on=dask)
    finally:
        dask.run(become_itself)
    assert tb.sweep(BASE, seeds=1, store=tmp_path / "s", on=dask).run == 1


def test_what_is_no_cluster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(cluster.ClusterError, match="Write dask://HOST"):
        cluster.connect("slurm://here")
    with pytest.raises(cluster.ClusterError, match=r"is no distributed\.Client"):
        tb.sweep(BASE, store=tmp_path / "s", on=object())
    began = time.monotonic()
    with pytest.raises(cluster.ClusterError, match=r"no port\. Write dask://localhost:8786"):
        cluster.connect("dask://localhost")
    with pytest.raises(cluster.ClusterError, match="no scheduler file"):
        cluster.connect("dask:///no/such/file.json")
    assert time.monotonic() - began < 30


def test_workers_run_the_source_that_the_sweep_was_started_with(
    dask: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text(
        "class Mine:\n"
        "    def on_ack(self, ack, control):\n"
        "        control.cwnd += ack.newly_acked if ack.may_grow else 0\n"
        "    def on_congestion(self, congestion, control):\n"
        "        control.ssthresh = max(control.cwnd // 2, 2 * control.mss)\n"
    )
    # Workers cannot import it.
    monkeypatch.syspath_prepend(str(tmp_path))
    base = BASE.with_({"flow.bulk.cc": "python:only_here:Mine"}, duration="2s")
    # Without permission nothing is sent to a worker.
    with pytest.raises(tb.ScenarioError, match=r"flow\[0\]\.cc = .*asks to import and run only_here:Mine"):
        tb.sweep(base, seeds=2, store=tmp_path / "cluster", on=dask)
    spread = tb.sweep(base, seeds=2, store=tmp_path / "cluster", on=dask, allow_code=True)
    assert (spread.run, spread.failed) == (2, 0), spread.errors
    here = tb.sweep(base, seeds=2, store=tmp_path / "here", allow_code=True)
    assert spread.frame.drop("wall_s", "finished").equals(here.frame.drop("wall_s", "finished"))
