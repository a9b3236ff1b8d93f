"""The command line: data on standard output, the rest on standard error, exit codes, no tracebacks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tailback as tb
from tailback import cli, examples

READY = sorted((Path(__file__).parents[2] / "scenarios").glob("*.toml"))
SMALL = """
duration = "2s"
[dumbbell]
rate = "10mbit"
rtt = "20ms"
[[flow]]
cc = "reno"
[[flow]]
app = "voip"
[instruments]
segments = "all"
packets = ["voip"]
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def saved(tailback: Any, small: Path, tmp_path: Path) -> Path:
    assert tailback("run", small, "--out", tmp_path / "kept").code == 0
    return tmp_path / "kept"


def test_version(tailback: Any) -> None:
    ran = tailback("--version")
    assert (ran.code, ran.out) == (0, f"tailback {tb.__version__}\n")


@pytest.mark.parametrize("command", ["run", "check", "show", "study", "algorithms", "list", "report", "plot", "export"])
def test_every_command_explains_itself(tailback: Any, command: str) -> None:
    ran = tailback(command, "--help")
    assert ran.code == 0
    assert "--json" in ran.out


def test_run_shows_flows_and_links(tailback: Any, small: Path) -> None:
    ran = tailback("run", small)
    assert ran.code == 0
    for word in ("bulk", "voip", "bottleneck", "goodput", "small"):
        assert word in ran.out


def test_run_json_is_one_object_and_saves(tailback: Any, small: Path, tmp_path: Path) -> None:
    ran = tailback("run", small, "--seed", "7", "--set", "flow.bulk.cc=cubic", "--out", tmp_path / "r", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.data["seed"] == 7
    assert ran.data["flows"][0]["cc"] == "cubic"
    assert ran.data["meta"]["command"] == "tailback run small.toml --set flow.bulk.cc=cubic --seed 7"
    result = tb.open_result(tmp_path / "r")
    assert result.seed == 7
    assert result.name == "small"
    assert str(tmp_path) not in json.dumps(result.meta)


def test_settings_may_be_toml_or_bare_words(tailback: Any, small: Path) -> None:
    settings = [
        "dumbbell.queue=0.5bdp",
        "dumbbell.wire.loss=0.01",
        'flow[1].interval="10ms"',
        "instruments.packets=all",
        "instruments.segments=[]",
    ]
    ran = tailback("check", small, "--json", *(part for text in settings for part in ("--set", text)))
    resolved = ran.data["resolved"]
    assert resolved["links"][0]["queue"]["params"] == {"limit_bytes": 12_500}
    assert resolved["links"][0]["wire"]["loss"] == 0.01
    assert resolved["flows"][1]["app"]["params"] == {"interval": 10}
    assert resolved["instruments"]["packets"] == ["bulk", "voip"]
    assert resolved["instruments"]["segments"] == []


@pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)
def test_ready_scenarios_pass_the_check(tailback: Any, path: Path) -> None:
    ran = tailback("check", path)
    assert ran.code == 0
    assert "nothing wrong" in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "none.toml"], "No such file or directory. Give a scenario file; `tailback examples` lists"),
        (["run", "{small}", "--set", "flow.bulk.cc=qubic"], 'Did you mean "cubic"'),
        (["run", "{small}", "--set", "dumbbell.rate=0mbit"], "above zero"),
        (["run", "{small}", "--set", "dumbbell.rat=1mbit"], 'Did you mean "rate"'),
        (["run", "{small}", "--set", "flow.call.cc=reno"], "There are: bulk, voip"),
        (["run", "{small}", "--set", "nonsense"], "no setting"),
        (["run", "{small}", "--seed", "-1"], "out of range"),
        (["run", "{small}", "--seed", "one"], "valid"),
        (["run"], "Missing argument"),
        (["results", "ls", "--limit", "none"], "Try: tailback results ls --help"),
        (["rnu"], "run"),
        (["list", "things"], "things"),
        (["check", "{small}", "--what"], "--what"),
    ],
)
def test_bad_input_is_exit_code_two(tailback: Any, small: Path, arguments: Sequence[str], says: str) -> None:
    ran = tailback(*(word.format(small=small) for word in arguments))
    assert ran.code == 2
    assert says in ran.err
    assert ran.out == ""


def test_bad_input_with_json_is_one_object_too(tailback: Any, small: Path) -> None:
    small.write_text(SMALL.replace("reno", "qubic").replace('"20ms"', '"20ms"\nqueue = "1B"'))
    ran = tailback("check", small, "--json")
    assert ran.code == 2
    first, second = ran.data["problems"]
    assert (first["field"], first["line"], first["value"]) == ("dumbbell.queue", 6, "1B")
    assert (second["field"], second["line"], second["value"]) == ("flow[0].cc", 8, "qubic")
    assert second["file"] == str(small)


def test_failures_are_exit_code_one(tailback: Any, small: Path, tmp_path: Path) -> None:
    ran = tailback("show", tmp_path / "none")
    assert (ran.code, ran.out) == (1, "")
    assert "no result folder" in ran.err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years")
    ran = tailback("run", small, "--out", tmp_path / "full")
    assert ran.code == 1
    assert "something else" in ran.err
    assert names(tmp_path / "full") == ["thesis.tex"]


def test_a_result_folder_that_cannot_be_written_is_reported_before_the_run(
    tailback: Any, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailback._core.run", lambda *_, **__: pytest.fail("it ran"))
    (tmp_path / "file").write_text("x")
    ran = tailback("run", small, "--out", tmp_path / "file" / "below")
    assert ran.code == 1
    assert "cannot be written" in ran.err


@pytest.mark.parametrize("what", ["algorithms", "stacks", "queues", "apps"])
def test_lists_name_everything_with_its_source(tailback: Any, what: str) -> None:
    rows = tailback("list", what, "--json").data[what]
    shown = tailback("list", what)
    assert shown.code == 0
    for row in rows:
        assert row["name"] in shown.out
        assert row.get("source") or all(field["source"] for field in row["fields"])


@pytest.mark.parametrize("what", ["algorithms", "links", "queues", "apps"])
def test_lists_for_people_have_parameters_defaults_and_units(tailback: Any, what: str) -> None:
    rows = tailback("list", what, "--json").data[what]
    for row in rows:
        shown = tailback("list", what, row["name"]).out
        assert row["title"] in shown
        for param in row["params"]:
            line = next(line for line in shown.splitlines() if line.split() and line.split()[0] == param["name"])
            assert param["unit"] in line
            if isinstance(param["default"], float):
                assert f"= {param['default']:.10g}" in line


def test_presets_and_metrics_are_listed_with_what_they_are(tailback: Any) -> None:
    assert "Sync rate to the home." in tailback("list", "presets", "adsl1").out
    shown = tailback("list", "metrics").out
    assert all(row["name"] in shown for row in tailback("list", "metrics", "--json").data["metrics"])
    wrong = tailback("list", "queues", "codle")
    assert wrong.code == 2
    assert 'Did you mean "codel"?' in wrong.err


def test_algorithms_is_short_for_list_algorithms(tailback: Any) -> None:
    assert tailback("algorithms", "--json").data == tailback("list", "algorithms", "--json").data
    assert "RFC" in tailback("algorithms").out


def test_show_and_export(tailback: Any, saved: Path, tmp_path: Path) -> None:
    assert "voip" in tailback("show", saved).out
    assert tailback("show", saved, "--json").data["tables"]["flows"] == 2
    ran = tailback("export", saved, "--format", "csv", "--table", "flows", "--out", tmp_path / "csv", "--json")
    assert ran.data["files"] == [str(tmp_path / "csv" / "flows.csv")]
    ran = tailback("export", saved, "--format", "siftr", "--json")
    assert Path(ran.data["files"][0]).read_text().startswith("enable_time_secs=0\t")
    assert tailback("export", saved, "--format", "siftr", "--flow", "blk").code == 1
    assert tailback("export", saved, "--format", "pcap").code == 2


def test_exports_lie_beside_the_result_also_from_within(
    tailback: Any, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved)
    assert tailback("export", ".", "--format", "csv", "--table", "flows").code == 0
    assert (saved.parent / "kept-csv" / "flows.csv").is_file()


def test_studies_and_figures_are_listed_and_unknown_ones_refused(tailback: Any, saved: Path) -> None:
    assert "voip-latency" in tailback("study", "--list").out
    names = [row["name"] for row in tailback("study", "--list", "--json").data["studies"]]
    assert "voip-latency" in names
    ran = tailback("study", "voip-latncy")
    assert ran.code == 2
    assert 'Did you mean "voip-latency"' in ran.err
    figures = [row["name"] for row in tailback("plot", saved, "--list", "--json").data["figures"]]
    assert figures
    ran = tailback("plot", saved, "--figure", "no-such-figure")
    assert ran.code == 2
    assert figures[0] in ran.err
    # It drew every row, as nothing comes before or after no number.
    assert tailback("plot", saved, "--from", "nan").code == 2


def test_plot_and_report_write_files(tailback: Any, saved: Path, tmp_path: Path) -> None:
    tailback("run", READY[-1], "--set", "duration=20s", "--out", tmp_path / "full")
    ran = tailback("plot", tmp_path / "full", "--out", tmp_path / "figure.png", "--json")
    assert ran.code == 0, ran.err
    assert [Path(file).name for file in ran.data["files"]] == ["figure.png"]
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    # Without --out a picture lies beside its result under its name, so that it takes no other's place.
    named = [tailback("plot", *given, "--json").data["files"][0] for given in ([saved], [saved, tmp_path / "full"])]
    assert named == [str(tmp_path / "kept-overview.png"), str(tmp_path / "kept-full-overview.png")]
    ran = tailback("report", tmp_path / "full", "--out", tmp_path / "page.html", "--json")
    assert ran.code == 0, ran.err
    assert "<html" in (tmp_path / "page.html").read_text()


def _command(*arguments: str | Path) -> subprocess.Popen[str]:
    # The line on standard error says that all imports are done: a signal then meets the command, not Python.
    code = (
        "import sys, tailback._core, tailback.run, tailback.result, tailback.progress; from tailback.cli import main; "
        "print('ready', file=sys.stderr, flush=True) if '--ready' in sys.argv else None; "
        "sys.argv = [a for a in sys.argv if a != '--ready']; main()"
    )
    program = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.skipif(os.name != "posix", reason="sends a Unix signal")
@pytest.mark.parametrize("ending", ["SIGINT", "SIGTERM"])
def test_ctrl_c_is_130_and_leaves_earlier_results(saved: Path, small: Path, tmp_path: Path, ending: str) -> None:
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    long = ("--set", "duration=500h", "--set", "instruments.segments=[]", "--set", "instruments.packets=[]")
    with _command("--ready", "run", small, *long, "--out", saved) as child:
        assert child.stderr is not None
        assert child.stderr.readline() == "ready\n"
        time.sleep(1.5)
        child.send_signal(getattr(signal, ending))
        try:
            out, err = child.communicate(timeout=30)
        finally:
            child.kill()
    assert child.returncode == 130, err
    assert out == ""
    assert "interrupted" in err
    assert "Traceback" not in err
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    assert names(tmp_path) == ["kept", "small.toml"]


def test_a_result_of_a_kernel_says_the_whole_command(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tailback import vm

    monkeypatch.setattr(vm, "check", lambda *_, **__: None)
    monkeypatch.setattr(vm, "run", lambda scenario, **_: tb.run(scenario))
    words = ["run", str(small), "--engine", "sim,vm", "--kernel", "debian-6.12", "--set", "duration=1s", "--seed", "3"]
    done = CliRunner().invoke(cli.app, [*words, "--most-rows", "9999", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    said = {name: tb.open_result(tmp_path / "out" / name).meta["command"] for name in ("sim", "vm")}
    same = f"tailback run {small.name} --set duration=1s --seed 3 --most-rows 9999 --engine"
    assert said == {"sim": f"{same} sim", "vm": f"{same} vm --kernel debian-6.12"}


def test_each_comparison_has_a_page_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from tailback.cli import studies

    pages = []

    def noted(*given: object) -> None:
        pages.append([str(it) for it in given if isinstance(it, Path)])

    for name in ("_validate_sampled", "_validate_beside", "_validate_queues", "_validate_standing"):
        monkeypatch.setattr(studies, name, noted)
    run = CliRunner().invoke
    assert run(cli.app, ["validate", "--engine", "vm"]).exit_code == 0
    two = ["validate", "--engine", "vm", "--algorithms", "bbr,bbr3", "--kernel"]
    assert run(cli.app, [*two, "debian-6.12,bbr3-6.12"]).exit_code == 0
    assert run(cli.app, ["validate", "--engine", "vm", "--queues"]).exit_code == 0
    assert run(cli.app, ["validate", "--engine", "vm", "--standing"]).exit_code == 0
    truth = str(Path(__file__).parents[2] / "validation/truth")
    assert pages == [
        [truth, "docs/validation-sampled.md"],
        [truth, "docs/validation-bbr3-beside-bbr.md"],
        ["results/queues", "docs/validation-queues.md"],
        [truth, "docs/validation-standing.md"],
    ]
    assert "Give two of each" in str(run(cli.app, [*two, "debian-6.12"]).exception)
    for words in (["--engine", "vm", "--ns2"], ["--work", "elsewhere"]):
        refused = run(cli.app, ["validate", *words])
        assert refused.exit_code != 0
        assert words[-1] in str(refused.exception) or words[-2] in str(refused.exception)


def test_a_reader_that_leaves_early_is_no_disaster(small: Path) -> None:
    with _command("list", "algorithms", "--json") as child:
        assert child.stdout is not None
        child.stdout.close()
        err = child.stderr.read() if child.stderr is not None else ""
    assert "Traceback" not in err


def test_nothing_but_data_on_a_pipe(small: Path) -> None:
    with _command("run", small, "--json") as child:
        out, err = child.communicate(timeout=60)
    assert json.loads(out)["name"] == "small"
    assert err == ""


def test_a_scenario_of_ones_own_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(cli.app, ["init", "mine.toml"]).exit_code == 0
    assert "tailback run mine.toml" in (tmp_path / "mine.toml").read_text()
    assert tb.Scenario.from_toml(tmp_path / "mine.toml").duration.seconds == 60
    again = CliRunner().invoke(cli.app, ["init", "mine.toml"])
    assert "is there already" in str(again.exception)


@pytest.mark.parametrize("name", examples.names())
def test_every_example_is_listed_with_what_it_is_and_can_be_copied(name: str, tmp_path: Path) -> None:
    assert len(examples.about(name)) > 20
    done = CliRunner().invoke(cli.app, ["examples", name, "--out", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    for path in json.loads(done.stdout)["written"]:
        assert Path(path).exists()


def test_the_package_can_be_run_as_the_command() -> None:
    ran = subprocess.run([sys.executable, "-m", "tailback", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout == f"tailback {tb.__version__}\n"
    ran = subprocess.run([sys.executable, "-m", "tailback", "run", "no.toml"], capture_output=True, text=True)
    assert (ran.returncode, "no.toml" in ran.stderr) == (2, True)


def test_a_kernel_module_goes_to_the_guest_without_being_loaded_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tailback.engines import Vm

    def reached(self: Vm, scenario: tb.Scenario, **how: object) -> tb.Result:
        raise tb.TailbackError("the guest has it")

    (tmp_path / "tcp_mine.c").write_text("static struct tcp_congestion_ops mine;\n")
    flows = [tb.bulk("module:tcp_mine.c")]
    scenario = tb.dumbbell(rate="10mbit", rtt="40ms", queue="fifo", flows=flows, duration="1s")
    file = tmp_path / "mine.toml"
    file.write_text(scenario.to_toml())
    monkeypatch.setattr(Vm, "check", lambda self, scenario, **how: None)
    monkeypatch.setattr(Vm, "run", reached)
    done = CliRunner().invoke(cli.app, ["run", str(file), "--engine", "vm", "--allow-code"])
    assert "the guest has it" in str(done.exception)
