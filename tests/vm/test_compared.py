"""One grid on two kernels: what is run, what is kept, and what counts as a change."""

import json
from pathlib import Path

import pytest

import tailback as tb
from tailback import vm
from tailback.experiment import Sweep
from tailback.experiment.design import grid
from tailback.vm import compared

KERNELS = ("one", "other")


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


def test_what_is_kept_is_not_run_again_and_a_refusal_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = compared.runs_of(sweep())
    for run in runs[:3]:
        for kernel in KERNELS:
            _keep(tmp_path, run, kernel, goodput_mbps=1.0)
    asked = []

    def refuse(resolved: dict[str, object], *, kernel: str) -> None:
        asked.append((resolved["seed"], kernel))
        raise vm.VmError("the guest was overloaded")

    monkeypatch.setattr(vm, "run", refuse)
    compared.run_grid(runs, KERNELS, tmp_path)
    compared.run_grid(runs, KERNELS, tmp_path)
    assert asked == [(2, "one"), (2, "other")]
    _, refused, _ = compared.changes(runs, KERNELS, tmp_path)
    assert refused == ["cc reno, seed 2: the guest was overloaded"]
