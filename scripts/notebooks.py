#!/usr/bin/env python3
"""Run the notebooks and write them with what their cells show as pages of the guide.

python scripts/notebooks.py

A notebook is kept without outputs; `docs/notebooks/NAME.md` has its cells, what they print, tables and pictures. Cells
run in plain Python: for two files a Jupyter kernel would be no small dependency.
"""

from __future__ import annotations

import ast
import contextlib
import html
import io
import json
import os
import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from matplotlib.figure import Figure

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
PICTURES = FOLDER.parent / "images" / "notebooks"
#: What stands in a page for the folder in which the cells write.
HERE = "/tmp/notebook"


@dataclass
class Rendered:
    """A notebook that was run: its page, its pictures by name, and what its cells showed."""

    page: str
    pictures: dict[str, Figure] = field(default_factory=dict)
    values: list[Any] = field(default_factory=list)
    printed: str = ""


def notebooks() -> list[Path]:
    """Every notebook of the guide."""
    return sorted(FOLDER.glob("*.ipynb"))


def rendered(notebook: Path) -> Rendered:
    """Run a notebook from top to bottom in a folder of its own."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {"__name__": "__main__"}
    out = Rendered("")
    parts = []
    with tempfile.TemporaryDirectory() as folder, _temporary(folder):
        for number, cell in enumerate(cells):
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                parts.append(_prose(source))
                continue
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                value = _shown(source, names, f"{notebook.name}[{number}]")
            out.values.append(value)
            out.printed += said.getvalue()
            parts.append(f"```python\n{source}\n```")
            parts += _outputs(notebook.stem, said.getvalue(), value, out.pictures, folder)
        title, *rest = parts
        about = (
            f"This page is the notebook [{notebook.name}]({notebook.name}), run by this version of tailback: "
            "take the file to run it yourself."
        )
        out.page = "\n\n".join([title, about, *rest]).rstrip() + "\n"
    return out


@contextlib.contextmanager
def _temporary(folder: str) -> Any:
    """New folders of the standard library are made here."""
    with mock.patch.dict(os.environ, {"TMPDIR": folder}), mock.patch.object(tempfile, "tempdir", None):
        yield


def _shown(source: str, names: dict[str, Any], where: str) -> Any:
    """Run a cell; the value of its last expression, as a notebook shows it."""
    tree = ast.parse(source, where)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, where, "exec"), names)
    return eval(compile(ast.Expression(last.value), where, "eval"), names) if isinstance(last, ast.Expr) else None


def _prose(source: str) -> str:
    """A cell's text, without a next step: the guide's menu gives a written page its own."""
    return "\n\n".join(part for part in source.split("\n\n") if not part.startswith("Next: "))


def _outputs(stem: str, printed: str, value: Any, pictures: dict[str, Figure], folder: str) -> list[str]:
    """What stands beneath a cell."""

    def clean(text: str) -> str:
        return re.sub(re.escape(folder) + r"/\w+", HERE, text)

    out = [f"```text\n{clean(printed).rstrip()}\n```"] if printed.strip() else []
    if value is None:
        return out
    if isinstance(value, Figure):
        name = f"{stem}-{len(pictures) + 1}.png"
        pictures[name] = value
        title = next((ax.get_title(loc="left") for ax in value.axes if ax.get_title(loc="left")), "") or stem
        return [*out, f"![{title}](../images/notebooks/{name})"]
    if hasattr(value, "iter_rows") and hasattr(value, "columns"):
        return [*out, _table(value)]
    shown = clean(value._repr_html_()) if hasattr(value, "_repr_html_") else ""
    # A table of every run has the times they took, and is as wide as a store.
    if shown and "dataframe" not in shown:
        if re.fullmatch(r"\s*<pre>.*</pre>\s*", shown, re.DOTALL):
            plain = html.unescape(re.sub(r"</?pre>", "", shown)).strip()
            return [*out, f"```text\n{plain}\n```"]
        return [*out, re.sub(r"\n\s*\n", "\n", shown).strip()]
    return [*out, f"```text\n{clean(repr(value))}\n```"]


def _table(frame: Any) -> str:
    """A table of Polars in Markdown."""
    from tailback.numbers import written

    head = f"| {' | '.join(frame.columns)} |\n|{' --- |' * len(frame.columns)}"
    rows = [f"| {' | '.join(written(cell) for cell in row)} |" for row in frame.iter_rows()]
    return "\n".join([head, *rows])


def main() -> int:
    """Write the pages and their pictures."""
    from tailback.plots import save

    PICTURES.mkdir(parents=True, exist_ok=True)
    for notebook in notebooks():
        done = rendered(notebook)
        notebook.with_suffix(".md").write_text(done.page, encoding="utf-8")
        for name, figure in done.pictures.items():
            save(figure, PICTURES / name)
        print(f"written: docs/notebooks/{notebook.stem}.md, {len(done.pictures)} pictures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
