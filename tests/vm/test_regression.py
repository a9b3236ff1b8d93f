"""Suites on two kernels: what is run, what is listed, and a page that is empty where nothing changed."""

import json
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tailback as tb
from tailback import cli
from tailback.experiment.run_metrics import RunMetrics
from tailback.report import regression as pages
from tailback.vm import bisected, compared, kernels, regression
from tailback.vm.kernels import Kernel

KERNELS = ("debian-6.1", "debian-7.3")
NAMES = ["cubic/friendly-10mbit-20ms", "slow-start/bulk-20ms-1bdp"]


@pytest.fixture(autouse=True)
def images(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Two kernels by name, which are images of nothing."""
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "config").write_text("CONFIG_HZ=250\n")
    for name in KERNELS:
        head = bytearray(0x400)
        head[0x202:0x206] = b"HdrS"
        struct.pack_into("<H", head, 0x20E, 0x100)
        text = f"{name} (builder) #1".encode()
        head[0x300 : 0x300 + len(text)] = text
        (folder / name).write_bytes(head)
    monkeypatch.setattr(compared, "find", lambda name: Kernel(name, folder / name, folder, folder / "config"))
    monkeypatch.setattr(kernels, "find", compared.find)
    monkeypatch.setattr("os.nice", lambda by: by)


def _keep(folder: Path, run: compared.Run, kernel: str, **measures: float) -> None:
    file = run.file(folder, kernel)
    file.parent.mkdir(exist_ok=True, parents=True)
    about = {"release": kernel, "build": "#1", "hz": 250}
    file.write_text(json.dumps({"kernel": about, "measures": measures}))


def test_seeds_draw_starts_and_both_kernels_get_the_same() -> None:
    runs, unfit = regression.runs_of(NAMES, (1, 2))
    assert unfit == []
    # What takes less time comes first.
    assert [(run.point, run.seed) for run in runs] == [(1, 1), (1, 2), (0, 1), (0, 2)]
    assert all(run.resolved["randomness"]["start_spread_ps"] > 0 for run in runs)
    # A suite's own spread stays, and where there is none the page's command gives it.
    assert runs[-1].title == "scenario cubic/friendly-10mbit-20ms"
    assert runs[0].title == "scenario slow-start/bulk-20ms-1bdp, start_spread 100ms"


def test_what_has_run_is_found_again_by_another_process() -> None:
    def as_in_another() -> Callable[..., float]:
        def measure(result: object, name: str) -> float:
            return 0.0

        return measure

    # A suite's metrics of a window of time are such; a process has its functions at its own addresses.
    digests = [
        RunMetrics({"of a": partial(measure, name="a")}).digest for measure in (as_in_another(), as_in_another())
    ]
    assert digests[0] == digests[1] != RunMetrics({"of a": partial(as_in_another(), name="b")}).digest


def test_equal_kernels_give_an_empty_page(tmp_path: Path) -> None:
    runs, unfit = regression.runs_of(NAMES, (1, 2, 3))
    for run in runs:
        for kernel in KERNELS:
            _keep(tmp_path, run, kernel, goodput_mbps=3.0 + 0.1 * run.seed, loss=0.0)
    found = regression.found(runs, unfit, KERNELS, tmp_path)
    assert (found.changed, found.compared, found.seeds) == ([], 4, 3)
    page = pages.markdown(found, "command")
    assert "Nothing changed." in page
    assert "tailback run" not in page
    assert "Nothing changed." in pages.html_page(found, "command")


def test_only_what_lies_outside_the_spread_is_listed(tmp_path: Path) -> None:
    runs, unfit = regression.runs_of(NAMES[1:], (1, 2, 3, 4))
    for run in runs:
        own = 3.0 + run.seed
        _keep(tmp_path, run, KERNELS[0], goodput_mbps=3.0 + 0.01 * run.seed, within=own, small=100.0, noise=own)
        # "within": each pair differs by the same, and the starts alone make more.
        noise = own * (1.1 if run.seed % 2 else 0.9)
        _keep(tmp_path, run, KERNELS[1], goodput_mbps=3.6 + 0.01 * run.seed, within=own + 0.5, small=100.5, noise=noise)
    found = regression.found(runs, unfit, KERNELS, tmp_path)
    assert [row.metric for row in found.changed] == ["goodput_mbps"]
    assert found.small == 1
    page = pages.markdown(found, "command")
    assert "| slow-start/bulk-20ms-1bdp | goodput_mbps | 3.025 | 3.625 | +19.8 % |" in page
    command = (
        "tailback run slow-start/bulk-20ms-1bdp --engine vm --kernel debian-7.3 --set randomness.start_spread=100ms"
    )
    assert f"`{command}`" in page
    assert command in pages.html_page(found, "command")


def test_a_change_has_the_first_series_that_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, unfit = regression.runs_of(NAMES[1:], (1, 2, 3))
    for run in runs:
        for kernel, value in zip(KERNELS, (3.0, 4.0), strict=True):
            _keep(tmp_path, run, kernel, goodput_mbps=value)
    points = ["6.1.0-55", "6.1.0-56", "6.12.1", "6.12.9", "7.0.4", "7.3.4"]
    images = [bisected.Package(f"linux-image-{point}-cloud-amd64", "1") for point in points]
    asked = []

    def tried(*_: object) -> object:
        def attempt(name: str) -> bisected.Seen:
            asked.append(name)
            holds = name < "debian-7"
            return bisected.Seen(name, name, holds, {"goodput_mbps": 3.0 if holds else 4.0})

        return attempt

    monkeypatch.setattr(bisected, "tried_by", tried)
    found = regression.since(regression.found(runs, unfit, KERNELS, tmp_path), runs, images, lambda _: None)
    assert asked == ["debian-6.1.0-56", "debian-7.3.4", "debian-6.12.9", "debian-7.0.4"]
    assert "| debian-7.0.4 (not debian-6.12.9) |" in pages.markdown(found, "command")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Give a sweep file or --suite"),
        (["--suite", "cubik"], 'no suite "cubik"'),
        (["--suite", "cubic/none"], 'cubic has no scenario "none"'),
    ],
)
def test_a_suite_that_is_none_is_named_with_those_there_are(words: list[str], said: str) -> None:
    done = CliRunner().invoke(cli.app, ["vm", "compare", *KERNELS, *words])
    assert done.exit_code != 0
    text = " ".join(done.output.split()) + (str(done.exception) if isinstance(done.exception, tb.TailbackError) else "")
    assert said in text


def test_the_command_writes_both_pages_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    words = ["vm", "compare", *KERNELS, "--suite", NAMES[1], "--seeds", "3", "--minutes", "0"]
    words += ["--work", str(tmp_path / "work"), "--out", str(page)]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0, done.output
    assert "nothing is compared" in " ".join(done.output.split())
    assert not page.exists()
    for run in regression.runs_of(NAMES[1:], (1, 2, 3))[0]:
        for kernel in KERNELS:
            _keep(tmp_path / "work", run, kernel, goodput_mbps=2.0)
    done = CliRunner().invoke(cli.app, words)
    assert "1 comparisons, 0 changed" in done.output
    assert "Nothing changed." in page.read_text()
    assert "Nothing changed." in page.with_suffix(".html").read_text()
