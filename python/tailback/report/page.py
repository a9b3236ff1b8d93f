"""The page that every report is: its template, its figures as pictures, plotly.js where one can be zoomed into."""

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
    # Without a time in its header the same page has the same bytes.
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
    """A PNG in base64, its colours from a palette: a figure has few, and a third of the bytes suffices."""
    out = io.BytesIO()
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(128, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
            out, format="png", optimize=True
        )
    return base64.b64encode(out.getvalue()).decode("ascii")


def page(**parts: Any) -> str:
    """A whole page as HTML from its parts; what is not given stays empty."""
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
    """A page with one figure to zoom into, as HTML; `spec` is plotly's data and layout, `figure` the still picture."""
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
    """A figure as the template takes it."""
    # What was drawn for the folder serves the page as well.
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
