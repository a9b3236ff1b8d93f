"""The notebooks run from top to bottom, in plain Python: for two files a Jupyter kernel is no small dependency."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

from notebooks import FOLDER, PICTURES, Rendered, rendered

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.fixture(scope="module")
def first_hour() -> Rendered:
    return rendered(FOLDER / "first-hour.ipynb")


@pytest.fixture(scope="module")
def buffer_sweep() -> Rendered:
    return rendered(FOLDER / "buffer-sweep.ipynb")


@pytest.mark.parametrize("name", ["first_hour", "buffer_sweep"])
def test_a_notebooks_page_has_what_its_cells_show_today(name: str, request: pytest.FixtureRequest) -> None:
    done: Rendered = request.getfixturevalue(name)
    page = FOLDER / f"{name.replace('_', '-')}.md"
    assert done.page == page.read_text(), "write them again: make outputs"
    linked = re.findall(r"\]\(\.\./images/notebooks/([\w.-]+)\)", done.page)
    assert linked == list(done.pictures)
    assert all((PICTURES / picture).read_bytes().startswith(b"\x89PNG") for picture in linked)


def test_every_picture_of_a_notebook_is_shown() -> None:
    pages = "".join(path.read_text() for path in FOLDER.glob("*.md"))
    assert [path.name for path in PICTURES.iterdir() if f"/{path.name})" not in pages] == []


def test_a_page_names_no_folder_of_this_machine(first_hour: Rendered) -> None:
    assert "PosixPath('/tmp/notebook/first.html')" in first_hour.page
    assert tempfile.gettempdir() + "/tmp" not in first_hour.page


def of_kind(values: list[Any], kind: type) -> int:
    return sum(isinstance(value, kind) for value in values)


def test_the_first_hour_runs_and_shows_what_it_promises(first_hour: Rendered) -> None:
    values, printed = first_hour.values, first_hour.printed
    assert of_kind(values, Figure) == 2
    assert 'dumbbell.queue = "1bpd"' in printed
    assert re.search(r"^- .*queue", printed, re.MULTILINE)
    assert re.search(r"^delay, 95 % call ms", printed, re.MULTILINE)
    assert {"scenario.toml", "resolved.json"} <= set(next(value for value in values if isinstance(value, list)))
    assert "<table>" in values[3]._repr_html_()
    delays = {row["during"]: row["median"] for row in values[4].iter_rows(named=True)}
    assert delays[False] == pytest.approx(40.2, abs=1)
    assert delays[True] > 80


def test_the_sweep_runs_and_shows_what_it_promises(buffer_sweep: Rendered) -> None:
    values = buffer_sweep.values
    assert of_kind(values, Figure) == 3
    assert values[-1].height == 2
    summary = values[2]
    assert summary.height == 12


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(notebook: Path) -> None:
    data = json.loads(notebook.read_text())
    assert (data["nbformat"], data["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in data["cells"]}) == len(data["cells"])
    for cell in data["cells"]:
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | (
            {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        )
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebooks_links_lead_somewhere(notebook: Path) -> None:
    for cell in json.loads(notebook.read_text())["cells"]:
        for target in re.findall(r"\]\(([^)#]+)", "".join(cell["source"])) if cell["cell_type"] == "markdown" else []:
            assert (FOLDER / target).exists(), target
