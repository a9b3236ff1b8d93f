"""Programs in guests: this machine's, with what they load, over a kernel whose clock counts instructions."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from tailback import vm
from tailback.vm import kernels, machine
from tailback.vm.archive import Entry
from tailback.vm.programs import Programs, gather

SCENARIOS = Path(__file__).parents[2] / "scenarios" / "live"
_LACKS = [
    what
    for what, is_here in {
        machine.QEMU: shutil.which(machine.QEMU) is not None,
        "clang": shutil.which("clang") is not None,
        "the guests' program": vm._GUEST.is_file(),
        "a kernel (tailback vm fetch debian-6.1)": bool(kernels.fetched()),
    }.items()
    if not is_here
]
boots = pytest.mark.skipif(bool(_LACKS), reason=f"not here: {', '.join(_LACKS)}")


def needs(*names: str) -> pytest.MarkDecorator:
    absent = [name for name in names if shutil.which(name) is None]
    return pytest.mark.skipif(bool(absent), reason=f"not installed: {', '.join(absent)}")


def scenario(*flows: tb.Flow, duration: str = "1s", **more: Any) -> tb.Scenario:
    return tb.dumbbell(rate="4mbit", rtt="20ms", queue="1bdp", flows=flows, duration=duration, **more)


def exec_(client: str, **fields: Any) -> tb.Flow:
    return tb.flow("exec", client=client, **fields)


def ends(result: tb.Result) -> dict[tuple[str, str], tuple[str, Any]]:
    return {(row["flow"], row["program"]): (row["end"], row["status"]) for row in result.program_summary()}


def found(*flows: tb.Flow, here: Path) -> dict[str, Entry]:
    """A guest's files for these flows."""
    one = scenario(*flows)
    out = gather(one, one.resolve(live=True), here, [])
    assert out is not None
    return dict(out.entries)


def refusal(flow: tb.Flow, here: Path) -> str:
    with pytest.raises(tb.ScenarioError) as refused:
        found(flow, here=here)
    return str(refused.value)


def compiled(folder: Path, name: str, text: str, *options: str) -> Path:
    source = folder / f"{name}.c"
    source.write_text(text)
    subprocess.run(["gcc", "-o", folder / name, source, *options], check=True)
    return folder / name


# --- In a guest ---------------------------------------------------------------------------------------------------


def _iperf3(seed: int = 1) -> tb.Scenario:
    client = "iperf3 --client {server_addr} --port {port} --time 1 --json"
    flow = exec_(client, server="iperf3 --server --one-off --port {port}", parse="iperf3", name="iperf3", cc="cubic")
    return scenario(flow, tb.voip(), duration="2s", seed=seed)


@pytest.fixture(scope="module")
def measured() -> tb.Result:
    return vm.run(_iperf3(), allow_code=True)


@boots
@needs("iperf3")
def test_a_dynamic_program_runs_and_is_measured_as_any_flow(measured: tb.Result) -> None:
    assert measured.meta["notes"] == []
    assert ends(measured) == {("iperf3", "server"): ("exited", 0), ("iperf3", "client"): ("exited", 0)}
    report = json.loads(measured.files["iperf3/client.out"])["end"]
    figures = {row["measured"]: row["value"] for row in measured.program_metrics()}
    assert figures["received_mbps"] == report["sum_received"]["bits_per_second"] / 1e6
    # What the kernel counts of the flow's connections is what iperf3 says, and its control connection's words.
    flows = measured.numpy("flows")
    assert 0 <= flows["bytes_received"][0] - report["sum_received"]["bytes"] < 10_000
    assert flows["segments_retransmitted"][0] >= report["sum_sent"]["retransmits"]
    assert flows["connections"][0] == 2
    assert 0.02 <= flows["rtt_min_s"][0] < 0.03
    assert measured.meta["programs"]["files"] > 5


@pytest.fixture
def busy(request: pytest.FixtureRequest) -> Iterator[None]:
    """A machine with more to do than it has processors, or no more than the other tests."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(request.param)]
    yield
    for other in others:
        other.kill()
        other.wait()


@boots
@needs("iperf3")
@pytest.mark.parametrize("busy", [0, pytest.param(3, marks=pytest.mark.long)], indirect=True)
@pytest.mark.usefixtures("busy")
def test_a_busy_machine_gives_the_same_bytes_of_programs_too(measured: tb.Result) -> None:
    again = vm.run(_iperf3(), allow_code=True)
    assert measured.differing(again) == []
    assert again.tables == measured.tables
    for table in measured.tables:
        for column, values in measured.numpy(table).items():
            assert again.numpy(table)[column].tobytes() == values.tobytes(), f"{table}.{column}"
    # iperf3's report has a random cookie, and dates.
    assert again.files == measured.files


@pytest.mark.long
@boots
@needs("iperf3")
def test_another_seed_gives_programs_other_randomness(measured: tb.Result) -> None:
    other = vm.run(_iperf3(seed=2), allow_code=True)
    cookies = [json.loads(one.files["iperf3/client.out"])["start"]["cookie"] for one in (measured, other)]
    assert cookies[0] != cookies[1]


@pytest.mark.long
@boots
@needs("nginx", "curl")
def test_a_script_and_what_it_calls_serve_another_program() -> None:
    given = tb.Scenario.from_toml(SCENARIOS / "nginx-curl.toml")
    result = vm.run(given.with_({"duration": "5s", "flow.curl.start": "1s"}), allow_code=True)
    assert ends(result) == {("curl", "server"): ("stopped", 0), ("curl", "client"): ("exited", 0)}
    figures = {row["measured"]: row["value"] for row in result.program_metrics()}
    assert (figures["transfers"], figures["failed"]) == (10, 0)
    assert figures["downloaded_bytes"] == 1_000_000
    # Most of the payload came back.
    assert result.numpy("flows")["bytes_returned"][result.flow_index("curl")] > 1_000_000


_STATIC = """
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
int main(int count, char **words) {
    if (count > 1 && !strcmp(words[1], "spin")) for (volatile long n = 0;; n++);
    if (count > 1 && !strcmp(words[1], "fill")) for (;;) puts("all work and no play");
    unsigned char chance[4];
    if (getrandom(chance, 4, 0) != 4) return 3;
    FILE *log = fopen("one.qlog", "w");
    fprintf(log, "%02x%02x%02x%02x\\n", chance[0], chance[1], chance[2], chance[3]);
    fclose(log);
    puts("rate 42.5 Mbit");
    return 7;
}
"""


@boots
@needs("gcc")
def test_static_programs_run_and_what_goes_wrong_with_one_is_named(tmp_path: Path) -> None:
    compiled(tmp_path, "static", _STATIC, "-static")
    text = 'duration = "2s"\n[dumbbell]\nrate = "4mbit"\nrtt = "20ms"\n'
    reads = "parse = 'regex'\nparams = { pattern = 'rate (?P<rate_mbps>[0-9.]+)', collect = '*.qlog' }"
    looks = "sh -c 'date +%Y; echo $HOME $PATH; cat /etc/hosts; echo x >/tmp/x; cat {here}/data/*; nonesuch'"
    for name, line, more in [
        ("own", "{here}/static", reads),
        ("spins", "{here}/static spin", ""),
        ("fills", "{here}/static fill", ""),
        ("looks", looks, 'params = { files = "data" }'),
    ]:
        text += f'[[flow]]\nname = "{name}"\napp = "exec"\nclient = "{line}"\n{more}\n'
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("brought along\n")
    (tmp_path / "own.toml").write_text(text)
    result = vm.run(tmp_path / "own.toml", allow_code=True)
    ended = ends(result)
    assert ended["own", "client"] == ("exited", 7)
    assert ended["spins", "client"][0] == "stopped"
    assert ended["looks", "client"] == ("exited", 127)
    assert [(row["measured"], row["value"]) for row in result.program_metrics()] == [("rate_mbps", 42.5)]
    assert re.fullmatch(rb"[0-9a-f]{8}\n", result.files["own/dir/one.qlog"])
    looked = result.files["looks/client.out"].decode()
    assert looked.startswith("2020\n/root /usr/local/sbin:")
    assert "10.0.3.2 looks.right\n" in looked
    assert looked.endswith("brought along\n")
    notes = "\n".join(result.meta["notes"])
    assert "its client ended with status 7" in notes
    assert "flow spins: its client had the guest's processor for" in notes
    assert "nonesuch: not found" in notes
    assert re.search("flow fills: (of its client's output 16 MiB were kept|its client .* grew too large)", notes)


@boots
def test_programs_need_consent() -> None:
    with pytest.raises(tb.ScenarioError, match="asks to run this program"):
        vm.check(scenario(exec_("true")))


# --- What a guest gets --------------------------------------------------------------------------------------------


def test_a_program_comes_with_its_loader_and_libraries(tmp_path: Path) -> None:
    entries = found(exec_(sys.executable), here=tmp_path)
    names = {Path(path).name for path in entries}
    assert "libc.so.6" in names
    assert "sh" in names
    assert Path(sys.executable).resolve().name in names
    # Links are links: a program may look for its own place.
    assert all(path == str(Path(path).parent.resolve() / Path(path).name) for path in entries if Path(path).exists())


def test_scripts_bring_their_interpreters_and_the_scenarios_folder_is_always_at_one_place(tmp_path: Path) -> None:
    (tmp_path / "serve").write_text("#!/usr/bin/env -S sh -e\n")
    (tmp_path / "serve").chmod(0o755)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "deep").write_text("x")
    (tmp_path / "around").symlink_to(tmp_path)
    entries = found(exec_("{here}/serve {here}/more/deep", params={"files": "around more"}), here=tmp_path)
    assert entries["/here/more/deep"].contents == b"x"
    assert entries["/here/serve"].mode == 0o100755
    assert any(path.endswith("/env") for path in entries)
    assert b"10.0.0.2 exec.right right\n" in entries["/etc/hosts"].contents


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonesuch-of-tailback", "the program nonesuch-of-tailback is not installed here"),
        ("./mine", "write {here}/mine"),
        ("{here}/absent", "the program FOLDER/absent is not here"),
        ("{here}/other", r"FOLDER/other is for another processor \(64 bits, EM_AARCH64\)"),
        ("{here}/cut", "FOLDER/cut cannot be read as a program"),
        ("{here}/script", "the program /nonesuch is not here"),
        ("{here}/bare", "FOLDER/bare is a script without an interpreter"),
        ("{here}/plain", "the program FOLDER/plain may not be executed. chmod [+]x FOLDER/plain"),
        ("{here}/circle", "is not here"),
    ],
)
def test_what_a_program_lacks_is_named(tmp_path: Path, line: str, said: str) -> None:
    true = Path("/bin/true").read_bytes()
    (tmp_path / "other").write_bytes(true[:18] + b"\xb7\x00" + true[20:])
    (tmp_path / "cut").write_bytes(true[:40])
    (tmp_path / "script").write_text("#!/nonesuch\n")
    (tmp_path / "bare").write_text("#!\n")
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    for name in ("other", "cut", "script", "bare"):
        (tmp_path / name).chmod(0o755)
    (tmp_path / "circle").symlink_to("circle")
    words = refusal(exec_(line), tmp_path)
    assert re.search(said.replace("FOLDER", re.escape(str(tmp_path))), words)
    assert "client" in words
    assert "/here/" not in words


@needs("gcc")
def test_a_missing_library_is_named_with_what_needs_it(tmp_path: Path) -> None:
    library = compiled(tmp_path, "libof.so", "int of(void) { return 0; }", "-shared", "-fPIC")
    own = compiled(
        tmp_path,
        "own",
        "int of(void); int main(void) { return of(); }",
        f"-L{tmp_path}",
        "-l:libof.so",
        "-Wl,-rpath,$ORIGIN",
    )
    assert own.is_file()
    assert "/here/libof.so" in found(exec_("{here}/own"), here=tmp_path)
    library.unlink()
    assert f"libof.so, a library that {tmp_path}/own needs, is not here" in refusal(exec_("{here}/own"), tmp_path)


def test_when_the_scenario_was_copied_makes_no_difference(tmp_path: Path) -> None:
    # Two runs of a Python script differed in the fifth digit because its file was written again between them.
    script = tmp_path / "own"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    entries = []
    for seconds in (1_000_000_000, 1_111_111_111):
        os.utime(script, (seconds, seconds))
        entries.append(found(exec_("{here}/own"), here=tmp_path))
    assert entries[0] == entries[1]


def test_files_that_are_too_much_or_nowhere_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "big").write_bytes(bytes(9 << 20))
    flow = exec_("true", params={"files": "big"})
    assert "/here/big" in found(flow, here=tmp_path)
    monkeypatch.setattr("tailback.vm.programs.MOST_MB", 8)
    words = refusal(flow, tmp_path)
    assert "params.files" in words
    assert re.search(rf"with {tmp_path}/big the programs' files take 1\d MB, and a guest has room for 8 MB", words)
    monkeypatch.undo()
    words = refusal(exec_("true", params={"files": "absent"}), tmp_path)
    assert f'flow[0].params.files = "absent": {tmp_path}/absent: No such file' in words
    assert "../x leaves its folder" in refusal(exec_("true", params={"files": "../x"}), tmp_path)


def test_an_interpreter_without_its_library_is_named_with_it() -> None:
    given = Programs({"/usr/bin/python3.11": Entry(0o100755), "/usr/bin/python3": Entry.link("python3.11")}, {})
    failure = "its client ended with status 1: ModuleNotFoundError: No module named 'encodings'"
    assert given.advice(failure).endswith('params = { files = "/usr/lib/python3.11" }')
    assert given.advice("its client ended with status 1") == ""


def test_a_program_names_modules_of_the_guests_kernel(tmp_path: Path) -> None:
    one = scenario(exec_("true", params={"files": "kernel:veth kernel:sch_netem"}))
    out = gather(one, one.resolve(live=True), tmp_path, [])
    assert out is not None
    assert out.modules == dict.fromkeys(("veth", "sch_netem"), "flows[0].params.files")


@pytest.mark.long
@boots
def test_a_module_that_the_kernel_lacks_is_refused_and_one_it_has_is_loaded() -> None:
    shown = exec_("cat /proc/modules", params={"files": "kernel:sch_netem"})
    result = vm.run(scenario(shown), allow_code=True)
    assert b"sch_netem " in result.files[f"{result.flow_names[0]}/client.out"]
    with pytest.raises(tb.ScenarioError, match="no module sch_nettem"):
        vm.run(scenario(exec_("true", params={"files": "kernel:sch_nettem"})), allow_code=True)
