"""A command on a host of a scenario: its status and its terminal are the caller's, and nothing outlives it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from real_engines import needs_live
from tailback import live
from tailback.cli._common import INTERRUPTED
from tailback.live import shells

SCENARIO = """
name = "path"
duration = "2s"
[dumbbell]
rate = "10mbit"
rtt = "40ms"
queue = "1bdp"
[[flow]]
name = "call"
app = "voip"
"""
#: Asks the peer's kernel, which answers that no socket waits there: one round trip, in milliseconds.
ROUND_TRIP = """
import os, socket, time
began = time.monotonic()
try:
    socket.create_connection((os.environ["TAILBACK_PEER"], 9))
except ConnectionRefusedError:
    print(os.environ["TAILBACK_ADDR"], 1000 * (time.monotonic() - began))
"""
SERVER = 'import socket,sys; s=socket.create_server(("", int(sys.argv[1]))); s.accept()[0].sendall(b"hello")'
CLIENT = 'import os,socket; print(socket.create_connection((os.environ["TAILBACK_PEER"], 7000)).recv(9))'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "path.toml"
    file.write_text(SCENARIO)
    return file


def words(path: Path, *rest: str) -> list[str]:
    return [sys.executable, "-m", "tailback", "shell", str(path), *rest]


def shell(path: Path, *rest: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words(path, *rest), capture_output=True, text=True, timeout=60, **options)  # type: ignore[call-overload, no-any-return]


@needs_live
def test_a_command_has_the_path_between_itself_and_its_peer(path: Path) -> None:
    done = shell(path, "--", sys.executable, "-c", ROUND_TRIP)
    address, ms = done.stdout.split()
    assert done.returncode == 0
    assert address == "10.0.1.1"
    assert float(ms) >= 40
    # The other host's peer is the first.
    done = shell(path, "--on", "right", "--", sys.executable, "-c", ROUND_TRIP)
    assert float(done.stdout.split()[1]) >= 40


@needs_live
def test_words_input_folder_and_status_are_the_callers(path: Path, tmp_path: Path) -> None:
    line = 'cat; pwd; printf "%s\\n" "{port}" >&2; exit 7'
    done = shell(path, "--", "sh", "-c", line, input="typed\n", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (7, f"typed\n{tmp_path}\n")
    assert done.stderr.splitlines()[0] == "{port}"
    assert shell(path, "--", "sh", "-c", "kill -9 $$").returncode == 128 + signal.SIGKILL


@needs_live
def test_a_server_listens_before_the_command_starts(path: Path) -> None:
    # The file asks for no port: {port} is the flow's own.
    server = f"{sys.executable} -c '{SERVER}' {{port}}"
    client = CLIENT.replace("7000", "5002")
    done = shell(path, "--server", server, "--", sys.executable, "-c", client)
    assert (done.returncode, done.stdout) == (0, "b'hello'\n"), done.stderr


@needs_live
def test_a_command_at_work_at_its_limit_is_ended(path: Path) -> None:
    done = shell(path, "--limit", "200ms", "--", "sleep", "1000")
    assert done.returncode == shells.STOPPED
    assert "--limit" in done.stderr


@needs_live
def test_a_command_stands_in_front_of_the_terminal(path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        words(path, "--limit", "20s", "--", "sh", "-c", "echo up; read line; echo got $line; exit 3"),
        stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # opened, it becomes the session's terminal
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, b"typed\n")
    # In the background it would be stopped for reading, and ended at its limit.
    assert process.wait(60) == 3
    assert b"got typed" in os.read(ours, 4096)
    os.close(ours)


def alive(mark: str) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = place.read_text()
        except OSError:
            continue
        if f"sleep\0{mark}" in text:
            found.append(place.parent.name)
    return found


def waited_for(is_so: object) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if is_so():  # type: ignore[operator]
            return True
        time.sleep(0.01)
    return False


@needs_live
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, INTERRUPTED), (signal.SIGKILL, -9)])
def test_nothing_outlives_a_killed_shell(path: Path, number: signal.Signals, code: int) -> None:
    mark = f"4321.{os.getpid()}"
    line = f"trap '' TERM; setsid sleep {mark} & sleep {mark}"
    process = subprocess.Popen(words(path, "--", "sh", "-c", line), stderr=subprocess.DEVNULL)
    assert waited_for(lambda: len(alive(mark)) == 2)
    process.send_signal(number)
    assert process.wait(60) == code
    assert waited_for(lambda: not alive(mark))
    live.clean()


@needs_live
@pytest.mark.parametrize(
    ("rest", "text"),
    [
        (["--on", "mars", "--", "true"], "There are left, right."),
        (["--", "nonesuch"], "there is no such program here"),
        (["--limit", "0s", "--", "true"], "Give more than 0 s and at most 24 h."),
        (["--server", "nonesuch", "--", "true"], "nonesuch is not installed here"),
        (["--server", "sh -c '", "--", "true"], "a quotation mark is open"),
        (["--cc", "cubix", "--", "true"], "cubix"),
    ],
)
def test_bad_input_is_named(path: Path, rest: list[str], text: str) -> None:
    done = shell(path, *rest)
    assert done.returncode == 2
    assert text in " ".join(done.stderr.split())


def test_what_the_file_names_needs_permission(path: Path) -> None:
    path.write_text(SCENARIO + '[[flow]]\nname = "theirs"\napp = "exec"\nclient = "touch ran"\n')
    done = shell(path, "--", "true", cwd=path.parent)
    assert done.returncode == 2
    assert "--allow-code" in done.stderr
    assert not (path.parent / "ran").exists()
