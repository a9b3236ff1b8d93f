"""The explorer's server, without a browser: what it gives, and what it refuses."""

from __future__ import annotations

import http.client
import json
import math
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tailback as tb
from tailback.cli import app
from tailback.explorer import NotBuilt, Opened, Server, opened, table_hash
from tailback.metrics import voice_quality

ROOT = Path(__file__).parents[2]
CALL = ROOT / "python/tailback/examples/scenarios/voip-and-bulk.toml"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explorer") / "site"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<html><head><title>page</title></head></html>")
    (folder / "assets/app.js").write_text("1")
    (folder / "assets/engine.wasm").write_bytes(b"\0asm")
    (folder.parent / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    return folder


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "call"
    tb.run(tb.Scenario.from_toml(CALL).with_(duration="12s")).save(folder)
    return folder


@pytest.fixture(scope="module")
def server(site: Path, result: Path) -> Iterator[Server]:
    with Server(opened(result), site=site) as running:
        yield running


def ask(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    host = server.url.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(host, timeout=10)
    given = {"Host": host} | {key.replace("_", "-"): value for key, value in headers.items()}
    connection.putrequest(method, path, skip_host=True)
    for key, value in given.items():
        connection.putheader(key, value)
    connection.endheaders()
    answer = connection.getresponse()
    out = answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
    connection.close()
    return out


def test_the_page_and_its_files_have_their_types_and_no_other_site_may_frame_them(server: Server) -> None:
    status, headers, page = ask(server, "/")
    assert status == 200
    assert b'<meta name="tailback-opened" content="opened.json"></head>' in page
    assert "frame-ancestors 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert ask(server, "/assets/engine.wasm")[1]["content-type"] == "application/wasm"
    assert ask(server, "/assets/app.js?v=1")[1]["content-type"] == "text/javascript; charset=utf-8"
    assert ask(server, "/index.html", "HEAD")[2] == b""


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/assets/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "//etc/passwd",
        "/link.txt",
        "/assets",
        "/opened/../../secret.json",
        "/opened/flows",
        "/opened/secret.json",
        "/opened/.json",
        "/opened",
        "/\\..\\secret.txt",
        "/index.html%00.js",
    ],
)
def test_nothing_outside_the_page_and_the_opened_result_is_given(server: Server, path: str) -> None:
    status, _, text = ask(server, path)
    assert (status, text) == (404, b"there is no such file here\n")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://localhost"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
@pytest.mark.parametrize("path", ["/", "/opened.json", "/opened/flows.json"])
def test_other_sites_and_foreign_names_are_refused_in_words(server: Server, path: str, headers: dict[str, str]) -> None:
    status, _, text = ask(server, path, **headers)
    assert status == 403
    assert b"only" in text


def test_two_host_headers_are_refused(server: Server) -> None:
    host = server.url.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(host, timeout=10)
    connection.putrequest("GET", "/", skip_host=True)
    connection.putheader("Host", host)
    connection.putheader("Host", "evil.example")
    connection.endheaders()
    with connection.getresponse() as answer:
        assert answer.status == 403
    connection.close()


def test_the_page_itself_may_ask(server: Server) -> None:
    assert ask(server, "/opened.json", Origin=server.url.rstrip("/"), Sec_Fetch_Site="same-origin")[0] == 200
    name = server.url.removeprefix("http://").rstrip("/").replace("127.0.0.1", "localhost")
    assert ask(server, "/opened.json", Host=name, Origin=f"http://{name}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT"])
def test_it_only_gives(server: Server, method: str) -> None:
    assert ask(server, "/opened.json", method)[0] == 501


def test_it_listens_on_the_loopback_address_only(server: Server) -> None:
    assert server._server.server_address[0] == "127.0.0.1"


def test_an_opened_result_says_what_the_package_says(server: Server, result: Path) -> None:
    stored = tb.open_result(result)
    sent = json.loads(ask(server, "/opened.json")[2])
    assert (sent["kind"], sent["name"], sent["hash"]) == ("result", "call", table_hash(stored))
    bulk, call = sent["flows"]
    assert bulk["goodput_mbps"] == pytest.approx(stored.flow_summary()[0]["goodput_mbps"])
    assert call["mos"] == pytest.approx(voice_quality(stored, "voip").mos)
    assert call["delay_of"] == "one-way"
    assert sent["links"][0]["drops"] == stored.link_summary()[0]["dropped"]
    assert sent["tables"] == {name: stored.rows(name) for name in stored.tables}


def test_a_table_comes_in_columns_with_units_and_words(server: Server, result: Path) -> None:
    stored = tb.open_result(result).numpy("polls")
    sent = json.loads(ask(server, "/opened/polls.json")[2])
    assert sent["units"]["cwnd"] == "B"
    assert sent["labels"]["flow"] == ["bulk", "voip"]
    assert sent["labels"]["phase"][0] == "open"
    assert list(sent["columns"]) == list(stored)
    np.testing.assert_array_equal(sent["columns"]["cwnd"], stored["cwnd"])
    missing = np.isnan(stored["ssthresh"])
    assert missing.any()
    assert [value is None for value in sent["columns"]["ssthresh"]] == missing.tolist()


def test_a_scenario_is_opened_as_it_stands_even_a_wrong_one(site: Path, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text("duration = 3 # oh\n")
    with Server(opened(file), site=site) as server:
        sent = json.loads(ask(server, "/opened.json")[2])
        assert sent == {"kind": "scenario", "name": "wrong", "toml": "duration = 3 # oh\n"}
        assert ask(server, "/opened/flows.json")[0] == 404


def test_nothing_opened_is_nothing_given(site: Path) -> None:
    with Server(site=site) as server:
        assert ask(server, "/opened.json")[0] == 404
        assert b"tailback-opened" not in ask(server, "/")[2]


def test_share_gives_links_to_a_page_that_others_reach_if_there_is_one(site: Path) -> None:
    with Server(site=site, hosted='https://example.org/"><b>') as server:
        page = ask(server, "/")[2]
        assert b'<meta name="tailback-hosted" content="https://example.org/&quot;&gt;&lt;b&gt;"></head>' in page
    with Server(site=site) as server:
        assert b"tailback-hosted" not in ask(server, "/")[2]


def test_an_address_that_is_none_is_refused() -> None:
    done = CliRunner().invoke(app, ["explore", "--no-browser", "--hosted", "example.org"])
    wanted = "--hosted example.org: this is no address of a page. Give one that begins with https://"
    assert str(done.exception) == wanted


def test_infinities_and_missing_numbers_are_null(site: Path) -> None:
    class Odd(Opened):
        def described(self) -> dict[str, object]:
            return {"a": math.inf, "b": [math.nan, 1.5]}

    with Server(Odd("scenario", "x", ""), site=site) as server:
        assert json.loads(ask(server, "/opened.json")[2]) == {"a": None, "b": [None, 1.5]}


def test_without_the_page_the_command_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(NotBuilt, match="make explorer"):
        Server(site=tmp_path)


@pytest.mark.parametrize(
    ("script", "there", "says"),
    [
        ("explorer", [], ["npm is missing", "nodejs.org"]),
        ("explorer_wasm", [], ["no Rust toolchain", "rustup.rs"]),
        ("explorer_wasm", ["cargo", "rustc"], ["cannot compile for wasm32-unknown-unknown", "rustup"]),
    ],
)
def test_the_build_names_what_is_missing_and_how_to_get_it(
    tmp_path: Path, script: str, there: list[str], says: list[str]
) -> None:
    # A machine with a shell, and nothing else but what is `there`: a Rust without further targets.
    for name in ("bash", "dirname", "env"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    for name in there:
        (tmp_path / name).write_text(f"#!{tmp_path}/bash\necho {tmp_path}\n")
        (tmp_path / name).chmod(0o755)
    words = [str(ROOT / "scripts" / script)]
    done = subprocess.run(words, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    assert all(word in done.stderr for word in says), done.stderr


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("none.toml", None, "cannot be read"),
        ("binary.toml", b"\xff\xfe\xff", "UTF-8"),
        ("long.toml", b" " * 5_000_000, "MiB"),
    ],
)
def test_what_is_no_scenario_is_refused(tmp_path: Path, name: str, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = CliRunner().invoke(app, ["explore", str(tmp_path / name), "--no-browser"])
    assert says in str(done.exception)


def test_the_command_says_its_address_and_ends_with_ctrl_c(site: Path, tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, tailback.explorer.server as s, tailback.explorer as e\n"
        f"s.Server.__init__.__kwdefaults__['site'] = pathlib.Path({str(site)!r})\n"
        f"sys.argv = ['tailback', 'explore', {str(CALL)!r}, '--no-browser']\n"
        "from tailback.cli import main; main()"
    )
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        try:
            assert "http://127.0.0.1:" in process.stderr.readline()
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_a_ping_goes_there_and_back_and_a_stopped_transfer_is_not_complete() -> None:
    flows = [
        tb.flow("ping", name="ping"),
        tb.bulk("reno", name="stopped", stop="1s"),
        tb.bulk("reno", name="too-large", bytes="100MB", stop="1s"),
        tb.bulk("reno", name="whole", bytes="100kB"),
    ]
    recorded = {"packets": ["ping"], "echoes": ["ping"]}
    run = tb.run(tb.dumbbell(rate="10mbit", rtt="40ms", flows=flows, duration="3s", instruments=recorded))
    sent = {flow["name"]: flow for flow in Opened("result", "r", "", run).described()["flows"]}
    assert sent["ping"]["delay_of"] == "round-trip"
    assert sent["ping"]["delay_p50_ms"] > 40
    assert math.isnan(sent["stopped"]["completion_ms"])
    assert math.isnan(sent["too-large"]["completion_ms"])
    assert 50 < sent["whole"]["completion_ms"] < 3000
