"""The measurements of a branch by revision: a file with one JSON line per revision, and its figure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from tailback.against.run import Against
from tailback.errors import TailbackError
from tailback.files import write_text
from tailback.judge import interval
from tailback.plots.style import BLUE, FULL_WIDTH, house_style, new_figure

__all__ = ["Entry", "appended", "figure", "read"]

#: Maximum panels of the figure.
MOST = 12
#: Measures to draw, by name suffix, for a scenario in which no measure varies clearly.
_HEADLINES = ("goodput_mbps", "delay_p95_ms", "loss")

#: Mean with the low and high end of its interval.
Point = tuple[float, float, float]


@dataclass(frozen=True)
class Entry:
    """Measurements of one revision."""

    #: The commit's hash, with "+" if files of the working tree differed from it.
    revision: str
    time_s: int
    subject: str
    #: Values by scenario and measure.
    means: Mapping[str, Mapping[str, Point]]

    @property
    def short(self) -> str:
        """The short hash for the figure."""
        return self.revision[:7] + ("+" if self.revision.endswith("+") else "")


def read(path: Path) -> list[Entry]:
    """The entries of a history file in order; empty if the file does not exist."""
    if not path.exists():
        return []
    out = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TailbackError(f"the history {path} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            means = {
                str(scenario): {str(name): _point(point) for name, point in found.items()}
                for scenario, found in row["means"].items()
            }
            out.append(Entry(str(row["revision"]), int(row["time_s"]), str(row["subject"]), means))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise TailbackError(
                f"the history {path}, line {number}: this is no revision that tailback wrote. Remove the line, or name "
                "another file."
            ) from None
    return out


def _point(given: Sequence[float | None]) -> Point:
    mean, low, high = (math.nan if value is None else float(value) for value in given)
    return mean, low, high


def appended(path: Path, against: Against) -> list[Entry]:
    """The history with the base added, if missing, and the working tree, replacing an entry of the same revision."""
    entries = read(path)
    tree = against.head.commit + ("+" if against.uncommitted else "")
    base = Entry(against.base.commit, against.base.time_s, against.base.subject, _means(against, 0))
    if base.revision not in {entry.revision for entry in entries} and base.revision != tree:
        entries.append(base)
    head = Entry(tree, against.head.time_s, against.head.subject, _means(against, 1))
    places = [place for place, entry in enumerate(entries) if entry.revision == tree]
    if places:
        entries[places[0]] = head
    else:
        entries.append(head)
    write_text(path, "".join(f"{json.dumps(_line(entry), ensure_ascii=False)}\n" for entry in entries))
    return entries


def _means(against: Against, side: int) -> dict[str, dict[str, Point]]:
    out: dict[str, dict[str, Point]] = {}
    for scenario, measures in against.compared.values.items():
        for name, values in measures.items():
            found = interval(values[side], "mean")
            if found.n:
                out.setdefault(scenario, {})[name] = (found.estimate, found.low, found.high)
    return out


def _line(entry: Entry) -> dict[str, Any]:
    means = {
        scenario: {name: [value if math.isfinite(value) else None for value in point] for name, point in found.items()}
        for scenario, found in entry.means.items()
    }
    return {"revision": entry.revision, "time_s": entry.time_s, "subject": entry.subject, "means": means}


def figure(entries: Sequence[Entry]) -> Figure:
    """One panel per measure over the revisions: at most a dozen that varied most relative to their intervals."""
    chosen = _chosen(entries)
    if not chosen:
        raise TailbackError("the history holds no measure to draw. Compare a scenario first.")
    columns = min(2, len(chosen))
    count = math.ceil(len(chosen) / columns)
    with house_style():
        drawn, panels = new_figure(count, columns, width=FULL_WIDTH, height=1.8 * count + 0.4)
        places = [axes for row in panels for axes in row]
        for axes, (scenario, name) in zip(places, chosen, strict=False):
            points = [entry.means.get(scenario, {}).get(name, (math.nan,) * 3) for entry in entries]
            means = [point[0] for point in points]
            spans = [[max(0.0, each) if math.isfinite(each) else 0.0 for each in side] for side in (
                [mean - low for mean, low, _ in points], [high - mean for mean, _, high in points],
            )]  # fmt: skip
            axes.errorbar(range(len(entries)), means, yerr=spans, color=BLUE, marker="o", markersize=3, capsize=2)
            axes.set_title(f"{scenario}\n{name}", fontsize=7.5)
            # Labels of many revisions would overlap.
            step = max(1, math.ceil(len(entries) / 8))
            ticks = range(0, len(entries), step)
            axes.set_xticks(list(ticks), [entries[at].short for at in ticks], rotation=30, ha="right", fontsize=6.5)
        for axes in places[len(chosen) :]:
            axes.set_visible(False)
    return drawn


def _chosen(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    keys = dict.fromkeys(
        (scenario, name) for entry in entries for scenario, found in entry.means.items() for name in found
    )
    ranked = sorted(keys, key=lambda key: (-_movement(entries, *key), not key[1].endswith(_HEADLINES)))
    moved = [key for key in ranked if _movement(entries, *key) > 1.0]
    quiet = [key for key in ranked if key not in moved and key[1].endswith(_HEADLINES)]
    return [*moved, *quiet][:MOST]


def _movement(entries: Sequence[Entry], scenario: str, name: str) -> float:
    """Spread of the means, in widths of the widest interval."""
    points = [entry.means[scenario][name] for entry in entries if name in entry.means.get(scenario, {})]
    means = [point[0] for point in points if math.isfinite(point[0])]
    widths = [high - low for _, low, high in points if math.isfinite(high - low)]
    spread = max(means, default=0.0) - min(means, default=0.0)
    if not spread:
        return 0.0
    widest = max(widths, default=0.0)
    return spread / widest if widest else math.inf
