"""Tables in a bucket: workers without a disk in common put them there, and what was changed there is noticed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from tailback.experiment.store import Store, StoreError
from tailback.experiment.store.objects import Bucket

BASE = tb.dumbbell(
    rate="2mbit", rtt="20ms", queue="20packets", flows=[tb.bulk("reno", name="a")], duration="1s",
    randomness={"start_spread": "10ms"},
)  # fmt: skip

#: A server of S3 on a port of its own, with a bucket in it.
SERVER = """
import boto3
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
url = "http://%s:%d" % server.get_host_and_port()
boto3.client("s3", endpoint_url=url, region_name="us-east-1").create_bucket(Bucket="lab")
print(url, flush=True)
input()
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of a prefix in a bucket of an object store, a process of its own."""
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask") is None:
        pytest.skip("moto, which serves S3 here, is not installed: make env")
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in keys.items():
            patch.setenv(name, value)
        command = [sys.executable, "-W", "ignore", "-c", SERVER]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as server:
            try:
                assert server.stdout is not None
                url = server.stdout.readline().strip()
                assert url.startswith("http://127.0.0.1:"), "the server ended"
                yield f"s3://lab/tables?endpoint_override={url}&region=us-east-1"
            finally:
                server.kill()


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"file://{tmp_path}/bucket" if request.param == "file" else str(request.getfixturevalue("s3"))


both = pytest.mark.parametrize("place", ["file", "s3"], indirect=True)


@both
def test_tables_go_to_the_bucket_and_what_comes_back_is_compared(place: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "store", tables_at=place)
    done = tb.sweep(BASE, seeds=2, store=store, keep="tables")
    assert (done.run, done.failed) == (2, 0), done.errors
    assert list((store.folder / "tables").iterdir()) == []
    one, other = done.frame["key"]
    found = store.result(other)
    assert found.differing(tb.run(BASE.with_(seed=2))) == []
    # The store knows the place by itself, and what was fetched is fetched once.
    again = Store(store.folder)
    assert tb.sweep(BASE, seeds=2, store=again, keep="tables").reused == 2
    assert again.verify().ok
    assert again.bucket is not None
    files, _ = again.bucket._reached
    below = [again.bucket._below(row["run"], row["tables_sha256"]) for row in map(store.find, (one, other))]
    with files.open_input_stream(f"{below[0]}/flows.parquet") as source:
        data = bytearray(source.read())
    data[len(data) // 2] ^= 1
    with files.open_output_stream(f"{below[0]}/flows.parquet") as target:
        target.write(bytes(data))
    files.delete_file(f"{below[1]}/links.parquet")
    assert again.result(other).differing(found) == []
    # What was fetched goes, and the bucket alone has it.
    again.gc()
    with pytest.raises(StoreError, match="are damaged"):
        again.result(one)
    with pytest.raises(StoreError, match="cannot be had"):
        again.result(other)
    assert list((store.folder / "tables").glob("*/*")) == []
    assert len(again.verify().damaged) == 2
    # A sweep runs again what is missing.
    assert tb.sweep(BASE, seeds=2, store=again, keep="tables").run == 1
    assert again.result(other).differing(found) == []


def test_workers_on_a_cluster_need_no_disk_in_common(s3: str, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as running,
        distributed.Client(running, set_as_default=False) as client,
    ):
        store = Store(tmp_path / "store", tables_at=s3)
        done = tb.sweep(BASE, seeds=[21, 22], store=store, keep="tables", on=client)
        assert (done.run, done.failed, done.errors) == (2, 0, {})
    # No worker wrote into the store's folder.
    assert list((store.folder / "tables").iterdir()) == []
    assert store.verify().ok
    assert done.result(done.frame["key"][1]).differing(tb.run(BASE.with_(seed=22))) == []


def test_merging_takes_tables_to_where_the_store_keeps_them(tmp_path: Path) -> None:
    place = f"file://{tmp_path}/bucket"
    far = tb.sweep(BASE, seeds=[31, 32], store=Store(tmp_path / "far", tables_at=place), keep="tables").store
    near = Store(tmp_path / "near")
    assert near.merge(far).tables == 2
    assert near.verify().ok
    # In the same bucket nothing is copied; from a folder into it, all.
    same = Store(tmp_path / "same", tables_at=place)
    assert same.merge(far).bytes == 0
    here = tb.sweep(BASE, seeds=[33], store=tmp_path / "here", keep="tables").store
    assert same.merge(here).bytes > 0
    assert same.verify().ok
    assert len(list((tmp_path / "bucket").rglob("meta.json"))) == 3


def test_a_store_says_where_its_tables_are(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/bucket"
    Store(tmp_path / "store", tables_at=url)
    assert json.loads((tmp_path / "store" / "store.json").read_text())["tables"] == url
    with pytest.raises(StoreError, match="keeps its tables at file://"):
        Store(tmp_path / "store", tables_at=f"file://{tmp_path}/other")
    Store(tmp_path / "plain")
    with pytest.raises(StoreError, match="in its own folder"):
        Store(tmp_path / "plain", tables_at=url)
    for wrong, message in (
        ("bucket", "no place for tables"),
        ("nonsense://a/b", "no place for tables"),
        ("memory://a/b", "gone when it ends"),
        ("fsspec+memory://a/b", "gone when it ends"),
        ("s3://key:secret@bucket/prefix", "no password"),
        ("fsspec+nonsense://a/b", "no place for tables|not installed"),
    ):
        with pytest.raises(StoreError, match=message):
            Store(tmp_path / "wrong", tables_at=wrong)
        assert not (tmp_path / "wrong").exists()


def test_a_bucket_that_is_not_there_is_reported_before_the_first_run(s3: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"there is no none\. Make it first"):
        Store(tmp_path / "store", tables_at=s3.replace("s3://lab/", "s3://none/"))
    assert not (tmp_path / "store").exists()


def test_two_workers_that_do_the_same_run_do_not_spoil_each_other(tmp_path: Path) -> None:
    place = Bucket(f"file://{tmp_path}/bucket")
    result = tb.run(BASE)
    one = place.put(result.save(tmp_path / "one"), "run")
    result.meta["command"] = "elsewhere"
    other = place.put(result.save(tmp_path / "other"), "run")
    assert one != other
    for number, digest in enumerate((one, other)):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        assert place.fetch("run", digest, folder).ok


def test_from_the_command_line(tailback: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("base.toml").write_text(BASE.to_toml())
    Path("grid.toml").write_text('base = "base.toml"\nseeds = 2\n')
    code, out, _ = tailback("sweep", "grid.toml", "--tables-at", f"file://{tmp_path}/bucket", "--json")
    assert (code, out["runs"]) == (0, 2)
    assert len(list((tmp_path / "bucket").rglob("meta.json"))) == 2
    code, out, _ = tailback("results", "verify", "--json")
    assert (code, out["ok"]) == (0, True)
