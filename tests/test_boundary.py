"""Every cell of the trust boundary (`tailback.consent.BOUNDARY`): no effect without its consent, and each with it."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from tailback import cli, consent, examples, isolated
from tailback.checksums import digest, seal
from tailback.experiment.store import Store
from tailback.vm import kernels
from test_action import started

pytestmark = pytest.mark.skipif(os.name != "posix", reason="stores need locks of Linux or macOS")

EVIL = """
from pathlib import Path
Path(__file__ if "__file__" in globals() else "x").resolve().with_name("ran").touch()
class Evil:
    def on_ack(self, ack, control): pass
    def on_congestion(self, congestion, control): pass
"""
PLAIN = """
duration = "0.2s"
[dumbbell]
rate = "1mbit"
rtt = "40ms"
[[flow]]
app = "bulk"
"""
#: A crate whose build.rs runs as soon as it is compiled.
BUILD = 'fn main() { std::fs::write("RAN", "").unwrap(); }'
GRID = 'seeds = 2\nkeep = "tables"\n[base]\n' + PLAIN.replace("[dumb", "[base.dumb").replace("[[fl", "[[base.fl")


class World:
    """A working folder, what lies outside of it, and eyes on every effect."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.work, self.outside = folder / "work", folder / "outside"
        for each in (self.work, self.outside):
            each.mkdir()
        (self.outside / "precious").write_text("mine")
        (self.work / "mine").mkdir()
        (self.work / "mine" / "notes").write_text("mine")
        self.before = self._seen()
        self.booted: list[Path] = []
        self.requests: list[str] = []
        self._patch, self._capsys = patch, capsys
        patch.chdir(self.work)
        patch.syspath_prepend(self.work)
        patch.setattr(kernels, "_by_path", self._boot)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setattr(consent, "_allowed_buckets", set())
        for key, value in {"ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s", "EC2_METADATA_DISABLED": "true"}.items():
            patch.setenv(f"AWS_{key}", value)

    def _boot(self, image: Path) -> Any:
        self.booted.append(image)
        raise kernels.KernelError(f"{image} would be booted")

    def _seen(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.outside.rglob("*") if path.is_file()}

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def tailback(self, *words: str | Path) -> int:
        """The command's exit code; never a traceback."""
        self._patch.setattr(sys, "argv", ["tailback", *map(str, words)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        self.output = "".join(self._capsys.readouterr())
        assert "Traceback" not in self.output
        return int(caught.value.code or 0)

    def effects(self) -> set[str]:
        after = self._seen()
        found = {
            "run code": any((folder / "ran").exists() for folder in (self.work, self.outside)),
            "boot": bool(self.booted),
            "write outside": bool(after.keys() - self.before.keys()),
            "network": bool(self.requests),
            "delete": any(after.get(path) != data for path, data in self.before.items())
            or not (self.work / "mine" / "notes").exists(),
        }
        return {effect for effect, seen in found.items() if seen}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[World]:
    made = World(tmp_path, monkeypatch, capsys)

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.requests.append(self.path)
            self.send_error(404)

        do_HEAD = do_PUT = do_POST = do_GET  # noqa: N815 - as the base class names them

        def log_message(self, *_: Any) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    made.s3 = f"s3://lab/tables?endpoint_override=127.0.0.1:{server.server_port}&scheme=http&region=us-east-1"  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    sys.modules.pop("evil", None)


def with_code(text: str, base: str = "") -> str:
    return text.replace(f"[[{base}flow]]", f'[[{base}flow]]\ncc = "python:evil:Evil"\nname = "x"')


def with_queue(queue: str) -> str:
    return PLAIN.replace("[[flow]]", f'queue = {{ discipline = "{queue}" }}\n[[flow]]')


def evil_crate(world: World) -> None:
    shutil.copytree(examples.queue_crate(), world.work / "crate")
    world.write("crate/build.rs", BUILD.replace("RAN", str(world.work / "ran")))


# --- What a stranger gives, and what is done with it


def scenario(world: World) -> None:
    world.write("evil.py", EVIL)
    evil_crate(world)
    world.write("s.toml", 'name = "../outside/x"\n' + with_code(PLAIN))
    world.write("q.toml", with_queue("rust:crate"))
    world.write("p.toml", with_queue("python:evil.py:Evil"))
    world.write("l.toml", PLAIN.replace('app = "bulk"', 'app = "exec"\nclient = "touch ran"\nserver = "touch ran"'))
    for name in ("s.toml", "l.toml", "q.toml", "p.toml"):
        for words in (["check"], ["run"], ["run", "--engine", "vm"], ["run", "--engine", "live"]):
            world.tailback(words[0], name, *words[1:])
        for target in ("netem", "ns3"):
            world.tailback("export", name, "--as", target)
    world.tailback("compare", "s.toml", "s.toml", "--pairs", "2")
    world.tailback("test", "s.toml")
    named = PLAIN.replace("[[flow]]", '[[flow]]\nname = "../../outside/x"')
    world.write("n.toml", named + '[instruments]\nsegments = "all"\n')
    if world.tailback("run", "n.toml", "--out", "r") == 0:
        for form in ("csv", "siftr", "flent", "qlog"):
            world.tailback("export", "r", "--format", form)


def sweep(world: World) -> None:
    world.write("evil.py", EVIL)
    world.write("g.toml", 'name = "../outside/x"\n' + with_code(GRID, "base."))
    world.write("h.toml", GRID + '[grid]\n"flow.bulk.cc" = ["python:evil:Evil", "../outside/x"]\n')
    for name in ("g.toml", "h.toml"):
        assert world.tailback("sweep", name, "--store", "st") != 0


def tampered(world: World, **more: Any) -> Path:
    """A result whose checksums are right and whose words are a stranger's."""
    folder = tb.run(tb.Scenario.parse_toml(PLAIN), out=world.work / "r") and world.work / "r"
    (folder / "algorithms").mkdir(exist_ok=True)
    (folder / "algorithms" / "evil.py").write_text(EVIL.replace("__file__", "nothing").replace('"x"', '"algorithms"'))
    meta = json.loads((folder / "meta.json").read_text())
    text = (folder / "algorithms" / "evil.py").read_text()
    meta["algorithms"] = [
        {"name": "evil", "class": "Evil", "file": "algorithms/evil.py", "sha256": digest(text.encode())}
    ]
    meta["files"]["algorithms/evil.py"] = digest(text.encode())
    meta |= more
    (folder / "meta.json").write_text(json.dumps(meta | {"sha256": seal(meta)}))
    return folder


VM = {"engine": "vm 0.2.0", "kernel": {"name": "/x/bzImage", "release": "6", "build": "#1", "hz": 250}}


def result(world: World) -> None:
    for more in ({}, VM, {**VM, "algorithms": []}, {"name": "../outside/x"}, {"files": {"../../outside/x": "0"}}):
        tampered(world, **more)
        for words in (["show"], ["explain"], ["report"], ["plot", "--list"], ["export", "--format", "csv"], ["repeat"]):
            world.tailback(words[0], "r", *words[1:])
        shutil.rmtree("r")
    # Another folder with a meta.json is none of its results.
    world.write("mine/meta.json", "{}")
    world.write("s.toml", PLAIN)
    assert world.tailback("run", "s.toml", "--out", "mine") != 0


def strange_store(world: World, url: str) -> Path:
    """A store that was made elsewhere and names a bucket; a run of it has tables there."""
    Store(world.work / "st")
    (world.work / "st" / "store.json").write_text(json.dumps({"format": 1, "tables": url}))
    with Store(world.work / "st").writer() as writer:
        writer.add({"key": "k", "run": "kk", "engine": "e", "status": "ok", "finished": 1.0, "tables": True,
                    "tables_sha256": "0" * 64})  # fmt: skip
    return world.work / "st"


def store(world: World) -> None:
    world.write("g.toml", GRID)
    for url in (f"file://{world.outside}", world.s3):  # type: ignore[attr-defined]
        folder = strange_store(world, url)
        (folder / "tables" / "zz").symlink_to(world.outside)
        assert world.tailback("sweep", "g.toml", "--store", folder) != 0
        assert "--tables-at" in world.output
        for words in (["ls"], ["query"], ["show", "k"], ["gc"]):
            assert world.tailback("results", *words, "--store", folder) == 0
        assert world.tailback("results", "verify", folder) != 0
        assert world.tailback("results", "merge", "new", folder) != 0
        world.tailback("report", folder)
        shutil.rmtree(folder)
        shutil.rmtree("new", ignore_errors=True)


def capture(world: World) -> None:
    header = bytes.fromhex("d4c3b2a1 0200 0400 00000000 00000000 ffff0000 01000000")
    world.write("c.pcap", header + b"import evil; ../outside/x" * 9)
    world.write("evil.py", EVIL)
    for words in (["flows"], ["rtt"], ["owd"], ["voip"], ["identify"], ["throughput"]):
        world.tailback("pcap", *words, "c.pcap")


def suite(world: World) -> None:
    world.write("evil.py", EVIL)
    world.write("cubic/a.toml", with_code(PLAIN) + '[expect]\nconditions = ["x.goodput_mbps > 0"]\n')
    world.write("cubic/suite.toml", 'title = "t"\nfiles = ["../../outside/precious"]\n')
    assert world.tailback("test", "cubic") != 0


def kernel_path(world: World) -> None:
    world.write("debian-6.1", "bzImage")
    tampered(world, **VM | {"algorithms": [], "kernel": VM["kernel"] | {"name": "debian-6.1"}})  # type: ignore[operator]
    world.tailback("repeat", "r")
    world.write("s.toml", 'kernel = "/x/bzImage"\n' + PLAIN)
    world.tailback("run", "s.toml")


def hostile_bucket(world: World) -> Path:
    """A bucket of the user's own address in which a stranger has put a result that names files outside."""
    place = world.work / "bucket"
    meta: dict[str, Any] = {"format": 3, "tables": {}, "files": {"../../../../outside/x": "0" * 64, "a": "0" * 64}}
    meta["sha256"] = seal(meta)
    below = place / "kk" / "kk" / ("0" * 16)
    below.mkdir(parents=True)
    (below / "meta.json").write_text(json.dumps(meta))
    (below / "a").write_text("x")
    return place


def in_bucket(world: World) -> None:
    url = f"file://{hostile_bucket(world)}"
    folder = strange_store(world, url)
    opened = Store(folder, tables_at=url)
    with pytest.raises(tb.ResultError):
        opened.result("k")
    assert not opened.verify().ok


def trace(world: World) -> None:
    os.mkfifo(world.work / "fifo")
    world.write("code.csv", "import evil\n__import__('evil')\n")
    world.write("evil.py", EVIL)
    (world.work / "link.csv").symlink_to(world.outside / "precious")
    for name in ("../outside/precious", f"{world.outside}/precious", "fifo", "code.csv", "link.csv", "/dev/zero"):
        text = f'duration = "1s"\n[[link]]\nname = "l"\nfrom = "a"\nto = "b"\ndelay = "1ms"\ntrace = "{name}"\n'
        world.write("t.toml", text + '[[flow]]\nfrom = "a"\nto = "b"\n')
        assert world.tailback("check", "t.toml") != 0, name
        assert "mine" not in world.output.replace("t.toml", "")


def action_input(world: World) -> None:
    hostile = "--allow-code\n--algorithm=m=evil.py:M\n--junit=../outside/x"
    for name in ("PATHS", "CANDIDATE", "SET"):
        code, calls = started(world.work, "Test", **{"PATHS": "a.toml", name: hostile})
        assert code == 0
        (call,) = calls
        options = call[: call.index("--")]
        assert not {"--allow-code", "--algorithm=m=evil.py:M", "--junit=../outside/x"} & set(options)
        code, calls = started(world.work, "Compare", **{"PATHS": "a.toml", "BASE": "main", name: hostile})
        assert code == 0
        (call,) = calls
        assert not {"--allow-code", "--algorithm=m=evil.py:M"} & set(call[: call.index("--")])


#: Of modules that tailback and what it imports are sure to import.
SHADOWED = (
    "json",
    "contextlib",
    "typing",
    "numpy",
    "polars",
    "signal",
    "pathlib",
    "tempfile",
    "tailback",
    "sitecustomize",
)


def working_folder(world: World) -> None:
    for name in SHADOWED:
        world.write(f"{name}.py", EVIL)
    world.write("matplotlibrc", "text.usetex: True\nbackend: module://evil\n")
    world.write("evil.py", EVIL)
    world.write("s.toml", PLAIN)
    # As installed: a script, whose own folder is on the path. `tailback` here is found where this process found it.
    script = world.outside / "bin"
    script.mkdir()
    (script / "tailback").write_text(f"import sys; sys.path[1:1] = {PATH!r}\nfrom tailback.cli import main\nmain()\n")
    world.before = world._seen()
    run = functools.partial(subprocess.run, cwd=world.work, capture_output=True, text=True, check=False)
    for words in (["run", "s.toml", "--out", "r"], ["plot", "r", "--out", "p.png"], ["test", "s.toml"]):
        done = run([sys.executable, "-B", str(script / "tailback"), *words])
        assert words[0] == "test" or done.returncode == 0, done.stderr
    sys.path.remove(str(world.work))
    worker = isolated._Worker()
    with pytest.raises(isolated._Failed):
        worker.work({"sound": [("/nowhere.so", "{}")]}, "x", None, None, None)
    worker.end()


PATH = [place for place in sys.path if place]
WITHOUT: dict[str, Callable[[World], None]] = {
    "scenario": scenario, "sweep": sweep, "result": result, "store": store, "capture": capture, "suite": suite,
    "kernel path": kernel_path, "bucket": in_bucket, "trace": trace, "action input": action_input,
    "working folder": working_folder,
}  # fmt: skip


# --- The same with consent


def allowed(name: str, command: str, *words: str) -> Callable[[World], None]:
    def act(world: World) -> None:
        WITHOUT[name](world)
        world.tailback(command, *words, "--allow-code")

    return act


def repeated(world: World) -> None:
    tampered(world, algorithms=[])
    folder = tampered(world)
    resolved = json.loads((folder / "resolved.json").read_text())
    resolved["flows"][0]["tcp"]["cc"] = "evil"
    resolved["flows"][0]["tcp"].pop("cc_params", None)
    (folder / "resolved.json").write_text(json.dumps(resolved))
    meta = json.loads((folder / "meta.json").read_text())
    meta["files"]["resolved.json"] = digest((folder / "resolved.json").read_bytes())
    (folder / "meta.json").write_text(json.dumps(meta | {"sha256": seal(meta)}))
    world.tailback("repeat", "r", "--allow-code")


def booted(world: World) -> None:
    tampered(world, **VM | {"algorithms": []})
    world.tailback("repeat", "r", "--kernel", "/x/bzImage")


def booted_by_path(world: World) -> None:
    world.write("s.toml", PLAIN)
    world.tailback("run", "s.toml", "--engine", "vm", "--kernel", "/x/bzImage")


def replaced(world: World) -> None:
    world.write("s.toml", PLAIN)
    assert world.tailback("run", "s.toml", "--out", "../outside/kept") == 0
    world.before = world._seen()
    assert world.tailback("run", "s.toml", "--seed", "2", "--out", "../outside/kept") == 0


def swept_into(world: World, url: str) -> None:
    world.write("g.toml", GRID)
    folder = strange_store(world, url)
    world.tailback("sweep", "g.toml", "--store", folder, "--tables-at", url)


def collected(world: World) -> None:
    made = Store(world.outside / "st")
    with made.writer() as writer:
        writer.add({"key": "k", "run": "k", "engine": "e", "status": "ok", "finished": 1.0})
    tb.run(tb.Scenario.parse_toml(PLAIN), out=made.tables_folder("gone"))
    world.before = {path: data for path, data in world._seen().items() if "gone" in path.parts}
    assert world.tailback("results", "gc", "--store", made.folder) == 0


def by_the_workflow(*wanted: str, **given: str) -> Callable[[World], None]:
    def act(world: World) -> None:
        code, calls = started(world.work, "Test", PATHS="a.toml", **given)
        assert code == 0
        assert set(wanted) <= set(calls[0][: calls[0].index("--")])
        world.write("ran", "") if "--allow-code" in wanted else (world.outside / "x").touch()

    return act


WITH: dict[tuple[str, str], Callable[[World], None]] = {
    ("scenario", "run code"): allowed("scenario", "run", "s.toml"),
    ("sweep", "run code"): allowed("sweep", "sweep", "g.toml", "--store", "st"),
    ("suite", "run code"): allowed("suite", "test", "cubic"),
    ("result", "run code"): repeated,
    ("result", "boot"): booted,
    ("result", "delete"): replaced,
    ("store", "write outside"): lambda world: swept_into(world, f"file://{world.outside}"),
    ("store", "network"): lambda world: swept_into(world, world.s3),  # type: ignore[attr-defined]
    ("store", "delete"): collected,
    ("kernel path", "boot"): booted_by_path,
    ("action input", "run code"): by_the_workflow("--allow-code", ALLOW_CODE="true"),
    ("action input", "write outside"): by_the_workflow("--junit=../outside/x", JUNIT="../outside/x"),
}


@pytest.mark.skipif(shutil.which("cargo") is None, reason="not installed: cargo")
def test_a_crate_with_a_queue_is_compiled_with_consent_alone(world: World) -> None:
    evil_crate(world)
    world.write("q.toml", with_queue("rust:crate"))
    for words in (
        ["run", "q.toml"],
        ["assess", "crate/Cargo.toml"],
        ["test", "aqm", "--candidate", "crate/Cargo.toml"],
    ):
        assert world.tailback(*words) != 0
        assert "--allow-code" in world.output
    assert world.effects() == set()
    assert world.tailback("run", "q.toml", "--allow-code") == 0, world.output
    assert world.effects() == {"run code"}


@pytest.mark.parametrize("name", consent.BOUNDARY)
def test_without_consent_nothing_happens(name: str, world: World) -> None:
    WITHOUT[name](world)
    assert world.effects() == set()


def test_every_cell_is_tried() -> None:
    cells = {(name, effect) for name, row in consent.BOUNDARY.items() for effect in row}
    assert WITH.keys() == cells
    assert {effect for _, effect in cells} == set(consent.EFFECTS)
    assert WITHOUT.keys() == consent.BOUNDARY.keys()


@pytest.mark.parametrize(("name", "effect"), WITH)
def test_with_consent_it_happens_and_nothing_else(name: str, effect: str, world: World) -> None:
    WITH[name, effect](world)
    ours = {"write outside"} if (name, effect) in (("result", "delete"), ("store", "delete")) else set()
    assert world.effects() - ours == {effect}


def test_the_page_shows_the_table() -> None:
    page = (Path(__file__).parents[1] / "docs" / "security.md").read_text()
    assert consent.markdown() in page
