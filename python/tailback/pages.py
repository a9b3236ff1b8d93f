"""Web pages: load times of a run, and synthetic pages from published distributions, as HAR files.

>>> from tailback import pages
>>> len(pages.generate(1)["log"]["entries"])
18
"""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tailback.errors import TailbackError
from tailback.files import write_text
from tailback.metrics import PageLoad
from tailback.metrics import page_loads as loads

__all__ = ["ABOUT", "MOST", "PageLoad", "generate", "loads", "write"]

#: Number of pages that `generate` can make, from the lightest to the heaviest.
MOST = 20


# -- generator

#: Sources and assumptions of the generated pages.
ABOUT = f"""\
{MOST} made-up pages, from the lightest to the heaviest. Requests and kilobytes follow desktop pages of October 2024
(HTTP Archive, Web Almanac 2024, chapter Page Weight). Percentiles 10, 25, 50, 75 and 90: 24, 42, 71, 115 and 176
requests, of which images 5, 9, 18, 33, 60, scripts 5, 12, 24, 43, 69, style sheets 2, 4, 8, 16, 26; kilobytes of
images 84, 322, 1054, 2822, 6526, of scripts 101, 270, 620, 1172, 1834, of style sheets 10, 36, 80, 152, 269. Medians:
4 fonts of 131 kB in all, 18 kB of document. The 90th percentile of scripts is that of mobile pages. Medians do not add
up: the middle page has 1.9 MB, the median of whole pages is 2.65. Guesses: a page that is heavy in one type is in all;
sizes within a type are log-normal (sigma 1); half the requests go to third parties, of which there are 27 for 71
requests (chapter Third Parties: sites of the top million); who asks for whom; and times of servers and scripts."""

_AT = (0.10, 0.25, 0.50, 0.75, 0.90)
_REQUESTS = (24, 42, 71, 115, 176)
#: Requests and kilobytes of each type at these percentiles; fonts and documents are scaled by their median.
_TYPES: dict[str, tuple[Sequence[float], Sequence[float]]] = {
    "css": ((2, 4, 8, 16, 26), (10, 36, 80, 152, 269)),
    "js": ((5, 12, 24, 43, 69), (101, 270, 620, 1172, 1834)),
    "png": ((5, 9, 18, 33, 60), (84, 322, 1054, 2822, 6526)),
    "woff2": ((2, 3, 4, 5, 8), (65, 98, 131, 164, 262)),
}
_THIRD_PARTIES = 27 / 71
_ROUND_TRIP_MS, _ROOT_MS, _SERVER_MS = 30.0, 80.0, 20.0


def generate(number: int, seed: int = 1) -> dict[str, Any]:
    """Page `number`, from 1 to 20, as a HAR: the same for the same seed on every machine."""
    if not 1 <= number <= MOST:
        raise TailbackError(f"there is no page {number}. Give 1 to {MOST}")
    draw = random.Random(1_000 * seed + number).random
    share = (number - 0.5) / MOST
    objects: list[dict[str, Any]] = [_object("html", 18_000, 0, None)]
    total = round(_quantile(_REQUESTS, share))
    for type_, (counts, kilobytes) in _TYPES.items():
        count = max(1, round(_quantile(counts, share)))
        weights = [math.exp(sum(draw() for _ in range(12)) - 6) for _ in range(count)]
        for weight in weights:
            size = max(200, round(1000 * _quantile(kilobytes, share) * weight / sum(weights)))
            objects.append(_object(type_, size, 0, None))
    # The rest are responses to scripts.
    objects += [_object("json", 2_000, 0, None) for _ in range(max(0, total - len(objects)))]
    parties = max(1, round(_THIRD_PARTIES * total))
    by_type: dict[str, list[int]] = {}
    for place, each in enumerate(objects[1:], 1):
        each["host"] = 1 + int(draw() * parties) if draw() < 0.5 else 0
        each["parent"] = _parent(each["type"], by_type, draw)
        by_type.setdefault(each["type"], []).append(place)
    return _har(number, objects, draw)


def write(path: str | os.PathLike[str], number: int, seed: int = 1) -> Path:
    """Write page `number` as a HAR file."""
    target = Path(path)
    write_text(target, json.dumps(generate(number, seed), indent=1) + "\n")
    return target


def _object(type_: str, size: int, host: int, parent: int | None) -> dict[str, Any]:
    return {"type": type_, "bytes": size, "host": host, "parent": parent}


def _parent(type_: str, by_type: dict[str, list[int]], draw: Any) -> int:
    """The initiator: style sheets load fonts, scripts load data and 20 % of scripts and images, the page all others."""
    asks = {"woff2": "css", "json": "js"}.get(type_) or ("js" if type_ in ("js", "png") and draw() < 0.2 else "")
    found = by_type.get(asks, [])
    return found[int(draw() * len(found))] if found else 0


def _har(number: int, objects: Sequence[dict[str, Any]], draw: Any) -> dict[str, Any]:
    """Entries with initiators, and with the times of a fast network."""

    def url(place: int) -> str:
        each = objects[place]
        host = "www" if each["host"] == 0 else f"third{each['host']}"
        return f"https://{host}.page{number}.example/{place}.{each['type']}"

    entries, ends = [], [0.0] * len(objects)
    for place, each in enumerate(objects):
        parent = each["parent"]
        begins = 0.0
        if parent is not None:
            think = {"js": 30.0, "css": 10.0}.get(objects[parent]["type"], 5.0)
            begins = round(ends[parent] + think * (0.5 + draw()), 3)
        wait = round(_ROUND_TRIP_MS + (_ROOT_MS if place == 0 else _SERVER_MS) * (0.5 + draw()), 3)
        ends[place] = round(begins + wait, 3)
        entry: dict[str, Any] = {
            "startedDateTime": f"2024-10-01T12:{int(begins // 60_000):02}:{begins / 1000 % 60:06.3f}Z",
            "time": wait,
            "request": {"method": "GET", "url": url(place), "headersSize": -1, "bodySize": 0},
            "response": {"status": 200, "headersSize": -1, "bodySize": each["bytes"]},
            "timings": {"connect": _ROUND_TRIP_MS, "ssl": -1, "wait": wait},
        }
        if parent is not None:
            entry["_initiator"] = {"type": "parser" if parent == 0 else "script", "url": url(parent)}
        entries.append(entry)
    creator = {"name": "tailback", "version": "1"}
    return {"log": {"version": "1.2", "creator": creator, "comment": ABOUT, "entries": entries}}


def _quantile(values: Sequence[float], share: float) -> float:
    """Logarithmic interpolation between the published percentiles, extended beyond the last two."""
    logs = [math.log(value) for value in values]
    low = min(max(sum(at <= share for at in _AT) - 1, 0), len(_AT) - 2)
    slope = (logs[low + 1] - logs[low]) / (_AT[low + 1] - _AT[low])
    return math.exp(logs[low] + slope * (share - _AT[low]))
