"""Compares access links under a kernel's TCP, in a guest and live, with the simulator, for every current medium.

The emulator uses the core's links, so only TCP and the timing of its packets can differ. Cells and
bounds were written before the first run. `python -m tailback_validation.links debian-6.1*2 live` runs what is missing
and writes the table of docs/links/index.md; without `live` no live run begins.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tailback as tb
from tailback.files import write_text
from tailback.judge import rule
from tailback_validation.kernel_rows import Rows, file_name, run
from tailback_validation.sampled import stack_of
from tailback_validation.truth import FOLDER

__all__ = ["BOUNDS", "CELLS", "KERNEL", "PAGE", "Judged", "LinkCell", "judged", "measure", "table", "with_table"]

KERNEL = "debian-6.1*2"
"""An aggregate of 64 packets reaches a host at one instant, which takes twice the processor speed."""
BOUNDS = {"goodput": 0.05, "delay": 0.10}
"""Largest relative differences of the guest's means from the simulator's."""
DRAWS = 3
"""Number of runs of a cell, each with another seed for the path."""
DURATION_S = 20
_AFTER_S = 3.0
PAGE = FOLDER.parent / "docs" / "links" / "index.md"
_LIVE = FOLDER / "truth" / "links-live.json"


@dataclass(frozen=True)
class LinkCell:
    """A medium with one CUBIC transfer and a ping, from `a` to `b`."""

    name: str
    label: str
    links: tuple[tb.Link, ...]
    #: Nodes to which further transfers go.
    others: tuple[str, ...] = ()

    def scenario(self, draw: int, of: Mapping[str, Any] | None = None) -> tb.Scenario:
        """The scenario; `of` is the stack, for the simulator."""
        transfers = [
            tb.bulk("cubic", name=f"to-{to}", from_="a", to=to, stack=of or "linux") for to in ("b", *self.others)
        ]
        ping = tb.flow("ping", name="ping", from_="a", to="b", params={"interval": "53ms"})
        return tb.network(
            name=self.name,
            links=self.links,
            flows=[*transfers, ping],
            duration=f"{DURATION_S}s",
            seed=1 + draw,
            instruments={"echoes": ["ping"]},
        )


def _pair(
    medium: dict[str, Any], delay: str, to: str = "b", *, queue: str = "100packets", contends: bool = False
) -> tuple[tb.Link, ...]:
    """A link from `a`, and a reverse link that contends for the same medium or has no rate."""
    back = tb.link(f"{to}-back", to, "a", delay=delay)
    if contends:
        back = tb.link(f"{to}-back", to, "a", delay=delay, medium=medium, queue="100packets")
    return tb.link(to, "a", to, delay=delay, medium=medium, queue=queue), back


def _wifi(name: str, to: str = "b", **params: Any) -> tuple[tb.Link, ...]:
    medium = {"name": name, "channel": "air", **params}
    return _pair(medium, "10ms", to, contends=True)


def _ac(to: str, signal_dbm: int) -> tuple[tb.Link, ...]:
    given = {"standard": "n", "streams": 1, "mcs": 3, "rate_control": "minstrel", "order": "airtime"}
    return _wifi("wifi-ac", to, **given, signal_dbm=signal_dbm)


def _lte(to: str) -> tuple[tb.Link, ...]:
    return _pair({"name": "cell", "channel": "downlink", "snr_db": 15}, "20ms", to, queue="200packets")


_CABLE = {"name": "docsis", "rate": "10mbit"}
_ORBIT = {"name": "leo", "rate": "20mbit", "interval": "5s"}
CELLS = (
    LinkCell("wifi", "802.11g at 54 Mbit/s (`wifi`)", _wifi("wifi")),
    LinkCell("wifi-ac", "802.11n with Minstrel (`wifi-ac`)", _ac("b", -70)),
    LinkCell("airtime", "with a slow station beside it", (*_ac("b", -70), *_ac("c", -80)), others=("c",)),
    LinkCell("cell", "LTE, two users (`cell`)", (*_lte("b"), *_lte("c")), others=("c",)),
    LinkCell("docsis", "cable, up (`docsis`)", _pair(_CABLE, "10ms")),
    LinkCell("leo", "low orbit, allocated every 5 s (`leo`)", _pair(_ORBIT, "5ms")),
)


def measure(result: tb.Result) -> dict[str, float]:
    """Goodput of the first transfer in Mbit/s, and the ping's median round trip in ms while the transfer runs."""
    echoes = result.numpy("echoes")
    return {
        "goodput": float(result.column("flows", "bytes_received")[0]) * 8e-6 / result.duration_s,
        "delay": 1e3 * float(np.nanmedian(echoes["rtt_s"][echoes["t_s"] >= _AFTER_S])),
    }


@dataclass(frozen=True)
class Judged:
    """A cell's runs by engine; `live` is empty without a live run."""

    cell: LinkCell
    sim: tuple[dict[str, float], ...]
    guest: tuple[dict[str, float], ...]
    live: tuple[dict[str, Any], ...] = ()

    def error(self, measure: str) -> float:
        """The guest's mean relative to the simulator's."""
        return _mean(self.guest, measure) / _mean(self.sim, measure) - 1.0

    @property
    def is_within(self) -> bool:
        """Whether both measures are within their bounds."""
        return all(abs(self.error(name)) <= bound for name, bound in BOUNDS.items())


def _mean(runs: Sequence[dict[str, Any]], name: str) -> float:
    return sum(row[name] for row in runs) / len(runs) if runs else math.nan


def judged(kernel: str) -> list[Judged]:
    """Every cell that `kernel` has run, with the current simulator's results for the same seeds."""
    rows = Rows(FOLDER / "truth" / file_name("links", kernel))
    live = json.loads(_LIVE.read_text(encoding="utf-8")) if _LIVE.is_file() else {}
    out = []
    for cell in CELLS:
        kept = [(draw, rows.find(cell.name, draw, cell.scenario(draw))) for draw in range(DRAWS)]
        there = [(draw, row.measures) for draw, row in kept if row is not None and not row.refused]
        if there:
            of = stack_of(kernel)
            sim = tb.run_many([cell.scenario(draw, of) for draw, _ in there], then=measure, progress=False)
            guest = tuple(measures for _, measures in there)
            out.append(Judged(cell, tuple(sim), guest, tuple(live.get(cell.name, ()))))
    return out


def run_live(report: Callable[[str], object] = lambda _: None) -> None:
    """Run each cell live once, and store its measures and whether the run was unfit."""
    from tailback import live

    rows: dict[str, list[dict[str, Any]]] = {}
    for cell in CELLS:
        result = live.run(cell.scenario(0))
        is_unfit = any(note.startswith("unfit") for note in result.meta["notes"])
        rows[cell.name] = [measure(result) | {"unfit": is_unfit}]
        report(f"{cell.name} live")
        write_text(_LIVE, json.dumps(rows, indent=1) + "\n")


_HEAD = """The emulator of live runs and guests has these links, too. Here CUBIC of Linux and a ping share each for
{duration} s: simulated and in a guest of {kernel}, in the means of the same seeds, and live. The bounds were set before
the first run: in the guest {goodput} % of goodput and {delay} % of the median round trip from {after:g} s on. The rule
is {verdict}: {within} of {cells} cells are within. Live is not judged, as it depends on what else the machine does; a
star marks that a run called itself unfit. A [tunnel](tunnel.md) is refused in both."""


def table(kernel: str, found: Sequence[Judged]) -> str:
    """The text between the marks."""
    within = sum(each.is_within for each in found)
    head = _HEAD.format(
        duration=DURATION_S,
        kernel=kernel.partition("*")[0],
        goodput=f"{100 * BOUNDS['goodput']:g}",
        delay=f"{100 * BOUNDS['delay']:g}",
        after=_AFTER_S,
        verdict=rule(within == len(CELLS)),
        within=within,
        cells=len(CELLS),
    )
    lines = [
        "| link | seeds | goodput (Mbit/s): simulator, guest | difference | live "
        "| median round trip (ms): simulator, guest | difference | live |",
        "| --- | ---: | --- | ---: | ---: | --- | ---: | ---: |",
    ]
    for each in found:
        parts = [each.cell.label, str(len(each.guest))]
        star = "*" if any(row["unfit"] for row in each.live) else ""
        for name, bound in BOUNDS.items():
            error = each.error(name)
            text = f"{100 * error:+.1f} %"
            ours = f"{_mean(each.live, name):.3g}{star}" if each.live else "–"
            both = f"{_mean(each.sim, name):.3g}, {_mean(each.guest, name):.3g}"
            parts += [both, text if abs(error) <= bound else f"**{text}**", ours]
        lines.append(f"| {' | '.join(parts)} |")
    return "\n".join([head, "", *lines])


def with_table(text: str, made: str) -> str:
    """The page with this text between its marks."""
    begin, end = "<!-- measured by tailback_validation.links -->\n", "\n<!-- end of what the kernel measured -->"
    head, _, rest = text.partition(begin)
    return head + begin + made + end + rest.partition(end)[2]


def main(kernel: str = KERNEL, live: str = "") -> None:
    """Run missing cells and write the table."""

    def report(text: str) -> None:
        print(text, flush=True)

    rows = Rows(FOLDER / "truth" / file_name("links", kernel))
    run(
        rows,
        ((cell.name, draw, cell.scenario(draw)) for draw in range(DRAWS) for cell in CELLS),
        kernel,
        measure,
        report=report,
    )
    if live:
        run_live(report)
    found = judged(kernel)
    write_text(PAGE, with_table(PAGE.read_text(encoding="utf-8"), table(kernel, found)))
    report(f"{sum(each.is_within for each in found)} of {len(found)} within")


if __name__ == "__main__":
    main(*sys.argv[1:])
