"""The HTML page of every report: its template, its figures as pictures, and plotly.js for zoomable ones."""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure
from PIL import Image

from ..plots.style import house_style

__all__ = ["page", "page_of_figure", "plot_entry"]


@cache
def _template() -> Any:
    text = files(__package__).joinpath("template.html").read_text(encoding="utf-8")
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(text)


@cache
def _plotlyjs() -> str:
    """plotly.js's basic bundle as gzip in base64, which the reader's browser unpacks: a third of its size."""
    script = files(__package__).joinpath("plotly-basic.min.js").read_bytes()
    # Without a time in the gzip header, so that the same page has the same bytes.
    return base64.b64encode(gzip.compress(script, 9, mtime=0)).decode("ascii")


def _json(value: Any) -> Markup:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # Inside a script element only "</" and "<!--" could be treated as mark-up.
    return Markup(text.replace("<", "\\u003c"))


def _png(figure: Figure) -> str:
    drawn = io.BytesIO()
    with house_style():
        figure.savefig(drawn, format="png", dpi=160, bbox_inches="tight", pad_inches=0.05)
    return _thrifty(drawn)


def _thrifty(drawn: io.BytesIO | Path) -> str:
    """A PNG with palette colours in base64, a third of the size, since figures have few colours."""
    out = io.BytesIO()
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(128, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
            out, format="png", optimize=True
        )
    return base64.b64encode(out.getvalue()).decode("ascii")


def page(**parts: Any) -> str:
    """A whole HTML page from its parts; missing parts stay empty."""
    defaults: dict[str, Any] = {
        "subtitle": "",
        "answer": [],
        "tiles": [],
        "claims": None,
        "sections": [],
        "plots": [],
        "tables": [],
        "explorer": None,
        "notes": [],
        "provenance": [],
        "sources": [],
        "contents": [],
        "specs": {},
    }
    given = defaults | parts
    given["specs"] = _json(given["specs"])
    used = any(parts.get("specs", {}).values())
    return str(_template().render(plotlyjs=_plotlyjs() if used else "", specs_used=used, **given))


def page_of_figure(title: str, caption: str, figure: Figure, spec: dict[str, Any]) -> str:
    """An HTML page with one zoomable figure; `spec` is plotly's data and layout, `figure` the still picture."""
    entry = plot_entry("figure", title, caption, figure, live=True, live_first=True)
    return page(title=title, plots=[entry], specs={"figures": {"figure": spec}})


def plot_entry(
    name: str,
    title: str,
    caption: str,
    figure: Figure,
    *,
    live: bool,
    live_first: bool = False,
    saved: Sequence[Path] = (),
) -> dict[str, Any]:
    """A figure in the template's form."""
    # Reuse the picture that was drawn for the folder.
    drawn = [path for path in saved if path.suffix == ".png"]
    return {
        "name": name,
        "title": title,
        "caption": caption,
        "png": _thrifty(drawn[0]) if drawn else _png(figure),
        "width": round(figure.get_figwidth() * 146),
        "live": live,
        "live_first": live_first,
        "files": ", ".join(f"{path.parent.name}/{path.name}" for path in saved),
    }
