"""What studies do with bad input and bad luck: said clearly, nothing lost."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from matplotlib import font_manager

import command
import tailback as tb
from command import tailback
from tailback.errors import ResultError
from tailback.experiment import ClaimResult, StudyResult, overview, studies
from tailback.plots import style

# --- Names and folders ------------------------------------------------------------------------------------------


def test_an_unknown_study_is_refused_with_the_nearest_name(tmp_path):
    done = tailback("study", "wireles-era", "--out", str(tmp_path / "out"))
    assert done.code == 2
    assert "wireless-era" in done.err
    assert not (tmp_path / "out").exists()


def stored(tmp_path: Path, **changes: Any) -> Path:
    """A finished study's file, of this version but for `changes`."""
    plain = result("aqm-pairs", ["not"]).to_json() | changes
    (tmp_path / "study.json").write_text(json.dumps(plain))
    return tmp_path


def test_a_folder_of_this_version_reads_back(tmp_path):
    assert [claim.verdict for claim in studies.load(stored(tmp_path)).claims] == ["not"]


@pytest.mark.parametrize(
    "changes",
    [{"format": 9}, {"claims": [{"id": "old"}]}, {"tables": [{"title": "no columns"}]}, {"meta": None, "claims": None}],
    ids=["layout", "claims", "tables", "nothing"],
)
def test_a_folder_of_another_version_is_left_alone_and_named_with_the_command_that_fixes_it(tmp_path, changes):
    folder = stored(tmp_path, **changes)
    before = (folder / "study.json").read_bytes()
    with pytest.raises(ResultError, match=r"tailback study aqm-pairs --out") as raised:
        studies.load(folder)
    assert str(folder / "study.json") in str(raised.value)
    assert (folder / "study.json").read_bytes() == before


@pytest.mark.parametrize("text", ["", '{"study": ', "[]"])
def test_a_damaged_folder_says_so(tmp_path, text):
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(ResultError, match=r"study\.json"):
        studies.load(tmp_path)


def test_the_report_command_names_a_folder_of_another_version_without_a_traceback(tmp_path):
    done = tailback("report", str(stored(tmp_path, format=9)))
    assert done.code != 0
    assert "layout 9" in done.err


# --- Interrupted ------------------------------------------------------------------------------------------------


def test_ctrl_c_keeps_finished_cells_and_the_same_command_goes_on(tmp_path):
    words = [*command.PROCESS, "study", "aqm-pairs", "--quick", "--workers", "1", "--out", str(tmp_path)]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not any(path.read_bytes().count(b"\n") for path in (tmp_path / "runs" / "journal").glob("*")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, printed = running.communicate(timeout=60)
    kept = len(tb.open_store(tmp_path / "runs").frame())
    assert running.returncode == 130
    said = re.search(r"(\d+) of 28 runs were finished and are kept", printed)
    # The signal may come between keeping a cell and counting it.
    assert said is not None
    assert kept - 1 <= int(said[1]) <= kept
    assert 0 < kept < 28
    assert not list(tmp_path.glob("**/.*"))
    assert not studies.is_study(tmp_path)
    study = studies.get("aqm-pairs")
    cancel = tb.Cancel()
    seen = []

    def stop(finished: int, total: int) -> None:
        seen.append((finished, total))
        cancel.set()

    with pytest.raises(tb.Cancelled):
        study.run(tmp_path, quick=True, progress=stop, workers=1, cancel=cancel)
    # Found before the first run ended.
    assert seen[0] in [(kept, 28), (kept + 1, 28)]


# --- Fonts and displays -----------------------------------------------------------------------------------------

DRAW = """
import sys
from pathlib import Path
from tailback.plots.style import house_style, new_figure, save
with house_style():
    figure, rows = new_figure()
    rows[0][0].plot([0, 1], [0, 1])
    rows[0][0].set_title("an RTT of 54 ms")
print([path.stat().st_size > 1000 for path in save(figure, Path(sys.argv[1]) / "figure")])
"""


def test_a_figure_needs_no_display_whatever_the_backend_asked_for(tmp_path):
    kept = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    drawn = subprocess.run(
        [sys.executable, "-c", DRAW, str(tmp_path)],
        capture_output=True, text=True, timeout=120, check=True, env=kept | {"MPLBACKEND": "tkagg"},
    )  # fmt: skip
    assert drawn.stdout.strip() == "[True, True]"
    assert drawn.stderr == ""


@pytest.fixture
def fresh_font():
    style.font.cache_clear()
    yield
    style.font.cache_clear()


@pytest.mark.usefixtures("fresh_font")
@pytest.mark.parametrize("listed", [[], ["Source Sans 3", "Arial"]], ids=["none installed", "listed but gone"])
def test_without_the_house_font_matplotlibs_own_is_used_and_nothing_is_warned(tmp_path, monkeypatch, caplog, listed):
    own = [entry for entry in font_manager.fontManager.ttflist if entry.name.startswith("DejaVu")]
    gone = [font_manager.FontEntry(fname=str(tmp_path / f"{name}.ttf"), name=name) for name in listed]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", gone + own)
    assert style.font() == "DejaVu Sans"
    with style.house_style():
        figure, rows = style.new_figure()
        for number in range(20):
            rows[0][0].text(0.5, 0.5, f"text {number}")
    assert len(style.save(figure, tmp_path / "figure")) == 2
    assert caplog.text == ""


# --- The overview -----------------------------------------------------------------------------------------------


def claim(name: str, verdict: str, kind: str = "qualitative", **rest: Any) -> ClaimResult:
    given: dict[str, Any] = {
        "id": name, "text": f"{name} holds", "kind": kind, "where": "I", "paper": "higher", "ours": "1.1×",
        "spread": "1 … 2", "values": [1.1], "unit": "×", "verdict": verdict, "threshold": "≥ 1", "definition": "ratio",
        "figure": "f", "note": "", "why": "", "standing": "predicted", "because": "", "redefined": "",
        "scale": "rate 1, time 1, 5 seeds",
    }  # fmt: skip
    return ClaimResult(**(given | rest))


def result(study: str, verdicts: list[str], claims: list[ClaimResult] | None = None) -> StudyResult:
    made = claims or [claim(f"{study}-{number}", verdict) for number, verdict in enumerate(verdicts)]
    meta = {"engine": "1+a", "command": f"tailback study {study} --seeds 5"}
    return StudyResult(
        study=study, title=study, paper="a paper", folder=Path("nowhere"), report_path=Path("nowhere/report.html"),
        claims=made, tables=[], figures=[], meta=meta, wall_s=1.0, simulated_s=7200.0, cells_run=3, cells_reused=1,
    )  # fmt: skip


def test_the_page_shows_every_claim_once_and_what_failed_first():
    one = result("one", ["reproduced", "not"])
    two = result("two", ["not measured", "partly", "reproduced", "undecided"])
    page = overview.markdown([one, two])
    places = [page.index(f"## {overview.TITLES[verdict]}") for verdict in overview.ORDER]
    assert places == sorted(places)
    for made in (one, two):
        for each in made.claims:
            assert page.count(f"| {each.id} |") == 1
    assert "| **all** | 6 | 2 | 1 | 1 | 1 | 1 |" in page
    assert "[one](one.md)" in page


def test_pages_without_claims_stay_listed(tmp_path):
    (tmp_path / "home.md").write_text("# At home\n\nText.\n")
    (tmp_path / "one.md").write_text("# One\n")
    (tmp_path / "index.md").write_text("# Claims\n")
    others = overview.beside(tmp_path / "index.md", ["one"])
    page = overview.markdown([result("one", ["reproduced"])], others=others)
    assert "Without claims, and in pages of their own: [At home](home.md)." in page
    assert "Without claims" not in overview.markdown([result("one", ["reproduced"])])


def test_only_what_was_predicted_counts():
    claims = [
        claim("a", "reproduced", "quantitative", standing="fitted", because="chosen for it"),
        claim("b", "reproduced", "quantitative"),
        claim("c", "not", "quantitative", why="the wire | was cut"),
        claim("d", "not measured", "quantitative"),
        claim("e", "reproduced", standing="restated", because="a and b"),
        claim("f", "reproduced", standing="not testable", because="the paper says no too"),
    ]
    assert overview.share(claims, numbers=True).words() == "1 of 2, 50 %"
    assert overview.share(claims, numbers=False).words() == "none measured"
    page = overview.markdown([result("one", [], claims)], missing=["two"])
    assert "the wire \\| was cut" in page
    assert "Not run for this page: `tailback study two`." in page
    assert "| **all** | 6 | 1 | 0 | 0 | 1 | 1 | 1 of 2, 50 % | none measured | 1 | 1 | 0 | 1 |" in page
    counted = page[: page.index("## Fitted (1)")]
    assert "| a |" not in counted
    for name, reason in (("a", "chosen for it"), ("e", "a and b"), ("f", "the paper says no too")):
        row = next(line for line in page.splitlines() if f"| {name} |" in line)
        assert reason in row
        assert "reproduced" in row


def test_what_was_redefined_chosen_scaled_or_deterministic_is_listed():
    claims = [
        claim("a", "reproduced", redefined="It measured something else."),
        claim("b", "reproduced", redefined="It measured something else.", scale="rate 1/4, time 1/8, 3 seeds"),
        claim("c", "reproduced", values=[10.0, 10.05, 10.02], spread="10 … 10.1"),
        claim("d", "reproduced", values=[10.0, 11.0], spread="10 … 11"),
    ]
    one = result("one", [], claims)
    one.meta["chosen"] = [{"words": "The queue, with a verdict in view.", "claims": ["a", "b"]}]
    page = overview.markdown([one])
    assert "| a † |" in page
    assert "- a, b: It measured something else." in page
    assert "Of these 4 claims 2 (†)" in page
    assert "words 4 of 4, 100 %. Without those marked †: printed numbers none measured; words 2 of 2, 100 %." in page
    assert "2 of them (†) by a rule or measure that was changed after earlier results" in one.counts()
    assert "Measured on less, on a model of the paper's network that is no replication of it: 1 of 4." in page
    assert "| rate 1/4, time 1/8, 3 seeds |" in page
    assert "| 10 … 10.1 ‡ |" in page
    assert "| 10 … 11 |" in page
    assert "- [one](one.md): The queue, with a verdict in view. Claims: a, b." in page


def test_what_no_paper_claims_is_not_counted():
    ours = result("ours", [], [claim("x", "not", "expectation")])
    page = overview.markdown([result("one", ["reproduced"]), ours])
    assert "| **all** | 1 | 1 | 0 |" in page
    assert "| x |" not in page
    assert "Of no paper, and not counted: [ours](ours.md)." in page


def test_different_engines_are_not_passed_over():
    one, two = result("one", ["not"]), result("two", ["not"])
    assert "different builds" not in overview.markdown([one, two])
    two.meta["engine"] = "1+b"
    assert "different builds" in overview.markdown([one, two])


def test_the_command_writes_the_page_from_the_folders_that_are_there(tmp_path):
    (tmp_path / "home-links").mkdir()
    stored(tmp_path / "home-links", study="home-links")
    page = tmp_path / "page.md"
    done = tailback("study", "--overview", str(page), "--out", str(tmp_path), "--json")
    assert done.code == 0, done.err
    printed = done.data
    assert printed["verdicts"] == {"not": 1}
    assert "wireless-era" in printed["missing"]
    assert "| aqm-pairs-0 |" in page.read_text()


def test_an_overview_of_nothing_names_the_command_that_makes_something(tmp_path):
    done = tailback("study", "--overview", str(tmp_path / "page.md"), "--out", str(tmp_path))
    assert done.code != 0
    assert "tailback study" in done.err
    assert not (tmp_path / "page.md").exists()
