"""The notebooks run from top to bottom, in plain Python: for two files a Jupyter kernel is no small dependency."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def shown(source: str, names: dict[str, Any], where: str) -> Any:
    """Run a cell; the value of its last expression, as a notebook shows it."""
    tree = ast.parse(source, where)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, where, "exec"), names)
    return eval(compile(ast.Expression(last.value), where, "eval"), names) if isinstance(last, ast.Expr) else None


def run(notebook: Path) -> list[Any]:
    cells = json.loads(notebook.read_text())["cells"]
    names: dict[str, Any] = {"__name__": "__main__"}
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return [shown(source, names, f"{notebook.name}[{number}]") for number, source in enumerate(sources)]


def of_kind(values: list[Any], kind: type) -> int:
    return sum(isinstance(value, kind) for value in values)


def test_the_first_hour_runs_and_shows_what_it_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    values = run(FOLDER / "first-hour.ipynb")
    printed = capsys.readouterr().out
    assert of_kind(values, Figure) == 2
    assert 'dumbbell.queue = "1bpd"' in printed
    assert re.search(r"^- .*queue", printed, re.MULTILINE)
    assert re.search(r"^delay, 95 % call ms", printed, re.MULTILINE)
    assert {"scenario.toml", "resolved.json"} <= set(next(value for value in values if isinstance(value, list)))
    assert "<table>" in values[3]._repr_html_()
    delays = {row["during"]: row["median"] for row in values[4].iter_rows(named=True)}
    assert delays[False] == pytest.approx(40.2, abs=1)
    assert delays[True] > 80


def test_the_sweep_runs_and_shows_what_it_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    values = run(FOLDER / "buffer-sweep.ipynb")
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
