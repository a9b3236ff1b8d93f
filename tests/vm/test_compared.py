"""One grid on two kernels: what is run, what is kept, and what counts as a change."""

import json
import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tailback as tb
from tailback import cli, vm
from tailback.experiment import Sweep
from tailback.experiment.design import grid
from tailback.experiment.sweepfile import read_sweep
from tailback.vm import compared, kernels
from tailback.vm.kernels import Kernel

KERNELS = ("one", "other")


@pytest.fixture(autouse=True)
def images(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two kernels by name: a folder of their images, which may change."""
    folder = tmp_path_factory.mktemp("kernels")
    for name in KERNELS:
        write_image(folder, name, "#1")
    monkeypatch.setattr(compared, "find", lambda name: Kernel(name, folder / name, folder, folder / "config"))
    (folder / "config").write_text("CONFIG_HZ=250\n")
    return folder


def write_image(folder: Path, name: str, build: str, contents: bytes = b"") -> None:
    head = bytearray(0x400)
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", head, 0x20E, 0x100)
    text = f"{name} (builder) {build}".encode()
    head[0x300 : 0x300 + len(text)] = text
    (folder / name).write_bytes(head + contents)


def sweep() -> Sweep:
    base = tb.dumbbell(rate="4mbit", rtt="20ms", flows=[tb.bulk("cubic")], duration="1s")
    return Sweep(base=base, design=grid({"flow.bulk.cc": ["cubic", "reno"]}), seeds=(1, 2))


def _keep(folder: Path, run: compared.Run, kernel: str, **measures: float) -> None:
    file = run.file(folder, kernel)
    file.parent.mkdir(exist_ok=True)
    about = {"release": kernel, "build": "#1", "hz": 250}
    file.write_text(json.dumps({"kernel": about, "measures": measures}))


def test_a_change_is_a_difference_whose_interval_leaves_zero_out(tmp_path: Path) -> None:
    runs = compared.runs_of(sweep())
    assert [(run.point, run.seed) for run in runs] == [(0, 1), (0, 2), (1, 1), (1, 2)]
    for run in runs:
        _keep(tmp_path, run, "one", goodput_mbps=3.0 + 0.1 * run.seed, drops=5.0, noise=1.0)
        higher = 0.5 + 0.001 * run.seed if run.point == 0 else 0.0
        noise = 1.0 + 0.1 * (-1) ** run.seed
        _keep(tmp_path, run, "other", goodput_mbps=3.0 + 0.1 * run.seed + higher, drops=5.0, noise=noise)
    found, refused, about = compared.changes(runs, KERNELS, tmp_path)
    assert refused == []
    assert about["other"]["hz"] == 250
    verdicts = {(row.point, row.metric): row.verdict for row in found}
    assert verdicts[("cc cubic", "goodput_mbps")] == "higher"
    assert verdicts[("cc reno", "goodput_mbps")] == "same"
    assert verdicts[("cc cubic", "drops")] == "same"
    assert verdicts[("cc cubic", "noise")] == "not seen"
    page = compared.page(found, refused, about, KERNELS, "command")
    assert "| cc cubic | goodput_mbps | 3.15 | 3.651 | +15.9 % |" in page


def test_what_is_kept_is_not_run_again_and_a_refusal_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = compared.runs_of(sweep())
    for run in runs[:3]:
        for kernel in KERNELS:
            _keep(tmp_path, run, kernel, goodput_mbps=1.0)
    asked = []

    def refuse(resolved: dict[str, object], *, kernel: str, dilation: int = 1) -> None:
        asked.append((resolved["seed"], kernel))
        raise vm.GuestError("the guest was overloaded")

    monkeypatch.setattr(vm, "run", refuse)
    compared.run_grid(runs, KERNELS, tmp_path)
    compared.run_grid(runs, KERNELS, tmp_path)
    assert asked == [(2, "one"), (2, "other")]
    _, refused, _ = compared.changes(runs, KERNELS, tmp_path)
    assert refused == ["cc reno, seed 2: the guest was overloaded"]


def _result(kernel: str, folder: Path) -> tb.Result:
    result = tb.run(tb.dumbbell(rate="4mbit", rtt="20ms", flows=[tb.bulk("cubic")], duration="100ms"))
    result.meta["kernel"] = compared.find(kernel).about
    return result


def test_a_run_of_another_kernel_of_that_name_is_run_again(
    tmp_path: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = compared.runs_of(sweep())[:2]
    asked: list[str] = []

    def carry(resolved: dict[str, object], *, kernel: str, dilation: int = 1) -> tb.Result:
        asked.append(kernel)
        return _result(kernel, images)

    monkeypatch.setattr(vm, "run", carry)

    def again() -> list[str]:
        asked.clear()
        compared.run_grid(runs, KERNELS, tmp_path)
        return asked

    # What was kept before there were digests is of the kernel whose release and build it names.
    for run in runs:
        _keep(tmp_path, run, "one", goodput_mbps=1.0)
    assert again() == ["other", "other"]
    assert again() == []
    # The same build, but another image: of what has no digest nothing is known.
    for name in KERNELS:
        write_image(images, name, "#1", b"another")
    assert again() == ["other", "other"]
    write_image(images, "one", "#2")
    found, _, _ = compared.changes(runs, KERNELS, tmp_path)
    assert found == []
    assert again() == ["one", "one"]
    found, _, about = compared.changes(runs, KERNELS, tmp_path)
    assert found
    assert about["one"]["build"] == "#2"


def test_a_machine_that_was_lost_says_nothing_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = compared.runs_of(sweep())[:1]
    reported: list[str] = []

    def hang(resolved: dict[str, object], *, kernel: str, dilation: int = 1) -> None:
        raise vm.LostRun("the guest hangs")

    monkeypatch.setattr(vm, "run", hang)
    compared.run_grid(runs, KERNELS, tmp_path, announce=reported.append)
    assert len(reported) == 2
    assert "the next call tries again: the guest hangs" in reported[0]
    assert not list(tmp_path.rglob("*.json"))
    # Before, a hang was kept as if the guest had refused; such rows name no kernel.
    file = runs[0].file(tmp_path, "one")
    file.parent.mkdir()
    file.write_text(json.dumps({"refused": "the guest hangs"}))
    assert compared.changes(runs, KERNELS, tmp_path)[1] == []
    compared.run_grid(runs, KERNELS, tmp_path, announce=reported.append)
    assert len(reported) == 4


def test_the_command_says_that_nothing_is_compared_yet_and_counts_as_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "find", compared.find)
    monkeypatch.setattr("os.nice", lambda by: by)
    text = 'seeds = 2\n[base]\nduration = "1s"\n[base.dumbbell]\nrate = "4mbit"\nrtt = "20ms"\n'
    (tmp_path / "grid.toml").write_text(text + '[[base.flow]]\nname = "bulk"\ncc = "reno"\n')
    page = tmp_path / "page.md"
    words = ["vm", "compare", *KERNELS, str(tmp_path / "grid.toml"), "--minutes", "0"]
    words += ["--work", str(tmp_path / "work"), "--out", str(page)]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0, done.output
    assert "nothing is compared" in " ".join(done.output.split())
    assert "page.md was not written" in " ".join(done.output.split())
    for run in compared.runs_of(read_sweep(tmp_path / "grid.toml")):
        (tmp_path / "work").mkdir(exist_ok=True)
        for kernel in KERNELS:
            # The flow's goodput is that of all.
            _keep(tmp_path / "work", run, kernel, **{"goodput_mbps": 2.0, "bulk.goodput_mbps": 2.0, "drops": 3.0})
    done = CliRunner().invoke(cli.app, words)
    assert "2 comparisons, 0 changed" in done.output
    assert "2 comparisons:" in page.read_text()
    assert f"--work {tmp_path / 'work'} --out" in page.read_text()
