"""Does a name mean the same in every stack? Renos, CUBICs and BBRs of TCP and QUIC stacks, each on the same paths.

Most new congestion control ships inside QUIC libraries, and the same name stands for different code. Here each stack's
sender, as published, has a path to itself, then shares it with Linux's CUBIC, then carries short transfers.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

import tailback as tb
from tailback import metrics
from tailback.experiment import (
    AS_PREDICTED,
    AtLeast,
    AtMost,
    Cell,
    Claim,
    Column,
    Data,
    Measured,
    Plot,
    Rule,
    Standing,
    Study,
    Summary,
    TableOut,
    fitted,
    judge,
    table,
)
from tailback.metrics import Rows
from tailback.plots.style import BLUE, GREEN, SOFT, VERMILION, house_style, new_figure
from tailback.result import Result

RATE, RTT = "20mbit", "40ms"
FULL_S, QUICK_S = 40, 12
WARM_UP_S = 4.0
"""Left out of rates and delays: slow start, and the second sender's arrival."""
SHORT_BYTES = "100kB"
PROGRAM = "27us"
"""What a guest's program takes longer than its kernel: by captures an ACK is answered after 35 us, and not after 8."""
JITTER = "20us"
"""No two flows meet a full queue in one phase for a whole run (Floyd and Jacobson, 1992)."""

PATHS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "shallow": ("FIFO, ¼ BDP", {"queue": "0.25bdp"}),
    "deep": ("FIFO, 4 BDP", {"queue": "4bdp"}),
    "codel": ("CoDel", {"queue": {"discipline": "codel"}}),
    "fq-codel": ("FQ-CoDel", {"queue": {"discipline": "fq_codel"}}),
    "lossy": ("FIFO, 1 BDP, 0.1 % loss", {"queue": "1bdp", "wire": {"loss": 0.001}}),
    "varying": ("FIFO, 1 BDP of 20 Mbit/s, rate from 8 to 20 Mbit/s", {"queue": "1bdp", "schedule": True}),
}
"""A title, and what the dumbbell has beside rate and RTT."""

SENDERS: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "linux reno": ("reno", "linux", {"stack": "linux", "cc": "reno"}),
    "linux cubic": ("cubic", "linux", {"stack": "linux", "cc": "cubic"}),
    "linux bbr": ("bbr", "linux", {"stack": "linux", "cc": "bbr"}),
    "linux bbr3": ("bbr", "linux", {"stack": "linux", "cc": "bbr3"}),
    "freebsd reno": ("reno", "freebsd", {"stack": "freebsd-9", "cc": "reno"}),
    "freebsd cubic": ("cubic", "freebsd", {"stack": "freebsd-9", "cc": "cubic"}),
    "quinn new_reno": ("reno", "quinn", {"transport": "quinn", "cc": "new_reno"}),
    "quinn cubic": ("cubic", "quinn", {"transport": "quinn", "cc": "cubic"}),
    "quinn bbr": ("bbr", "quinn", {"transport": "quinn", "cc": "bbr"}),
    "noq new_reno": ("reno", "noq", {"transport": "noq", "cc": "new_reno"}),
    "noq cubic": ("cubic", "noq", {"transport": "noq", "cc": "cubic"}),
    "noq bbr3": ("bbr", "noq", {"transport": "noq", "cc": "bbr3"}),
    "s2n-quic cubic": ("cubic", "s2n-quic", {"transport": "s2n-quic", "cc": "cubic"}),
    "s2n-quic bbr2": ("bbr", "s2n-quic", {"transport": "s2n-quic", "cc": "bbr2"}),
}
"""Family, stack, and the fields of the flow."""


def called(name: str) -> str:
    """A sender's or a stack's name for people: the model is of FreeBSD's release 9, and later ones are other code."""
    return name.replace("freebsd", "FreeBSD 9")


QUICK_SENDERS = ("linux cubic", "freebsd cubic", "quinn cubic", "quinn new_reno", "noq cubic")
QUICK_PATHS = ("shallow", "fq-codel")

ALONE, AGAINST, SHORT = "alone", "against", "short"
FIFOS = ("shallow", "deep", "lossy", "varying")


def _schedule(duration_s: int) -> list[dict[str, str]]:
    """Down to 8 Mbit/s and up again, every four seconds a step."""
    rates = ("20mbit", "14mbit", "8mbit", "14mbit")
    return [{"at": f"{at}s", "rate": rates[(at // 4) % len(rates)]} for at in range(4, duration_s, 4)]


def scenario(path: str, sender: str, mode: str, duration_s: int) -> tb.Scenario:
    """One sender on one path."""
    fields: dict[str, Any] = dict(SENDERS[sender][2])
    if "transport" in fields:
        fields["access_delay"] = PROGRAM
    if mode == SHORT:
        theirs = tb.flow(
            "transfers", name="theirs", bytes=SHORT_BYTES, params={"idle_low": 0.5, "idle_high": 1.0}, **fields
        )
        flows = [theirs]
    else:
        flows = [tb.flow("bulk", name="theirs", **fields)]
        flows += [tb.bulk("cubic", name="ours")] if mode == AGAINST else []
        flows += [tb.voip(name="call")]
    shape = dict(PATHS[path][1])
    if shape.pop("schedule", False):
        shape["schedule"] = _schedule(duration_s)
    return tb.dumbbell(
        rate=RATE, rtt=RTT, flows=flows, duration=f"{duration_s}s", name=f"{path}-{sender}-{mode}".replace(" ", "-"),
        randomness={"start_spread": "1s", "processing_jitter": JITTER}, **shape,
        instruments={"requests": ["theirs"]} if mode == SHORT else {
            "packets": ["theirs", "call"], "polls": "all", "poll_interval": "100ms",
        },
    )  # fmt: skip


def grid(quick: bool) -> list[Cell]:
    """Every sender on every path, alone, against Linux's CUBIC, and in short transfers."""
    senders = QUICK_SENDERS if quick else tuple(SENDERS)
    paths = QUICK_PATHS if quick else tuple(PATHS)
    seconds = QUICK_S if quick else FULL_S
    cells = []
    for path in paths:
        for sender in senders:
            family, stack, _ = SENDERS[sender]
            for mode in (ALONE, AGAINST, SHORT):
                made = scenario(path, sender, mode, seconds)
                factors = {"path": path, "sender": sender, "family": family, "stack": stack, "mode": mode}
                cells.append(
                    Cell(key=made.name, label=f"{PATHS[path][0]}: {sender}, {mode}", scenario=made, factors=factors)
                )
    return cells


def extract(cell: Cell, result: Result) -> Summary:
    """What is kept of a run."""
    rows = Rows.of(result)
    if cell.factors["mode"] == SHORT:
        _, took = metrics.response_times(rows, "theirs")
        return {"short_s": float(np.median(took)) if len(took) else None, "answered": len(took)}
    theirs = 1e-6 * metrics.goodput(rows, "theirs", WARM_UP_S)
    ours = 1e-6 * metrics.goodput(rows, "ours", WARM_UP_S) if cell.factors["mode"] == AGAINST else None
    return {
        "mbps": theirs,
        "ours_mbps": ours,
        "share": theirs / (theirs + ours) if ours is not None and theirs + ours > 0 else None,
        "utilisation": metrics.utilisation(rows, "bottleneck"),
        "loss": metrics.flow_loss_rate(rows, "theirs"),
        "queue_bytes": float(result.numpy("links")["backlog_bytes_mean"][0]),
        "call_p95_ms": 1e3 * float(metrics.delay_quantiles(rows, "call", (0.95,), WARM_UP_S)[0]),
    }


def _over(
    value: Callable[[pl.DataFrame], float | None],
    over: Callable[[list[float]], float],
    paths: Sequence[str] = tuple(PATHS),
) -> Callable[[Data, int], Measured | None]:
    """`over` of the `value` of each path's runs, of one seed."""

    def measure(data: Data, seed: int) -> Measured | None:
        parts = {}
        for path in paths:
            runs = data.frame.filter(seed=seed, path=path)
            found = value(runs) if len(runs) else None
            if found is not None and np.isfinite(found):
                parts[PATHS[path][0]] = float(found)
        return Measured(over(list(parts.values())), parts) if parts else None

    return measure


def _values(runs: pl.DataFrame, what: str, **only: Any) -> list[float]:
    if what not in runs.columns:
        return []
    return [float(each) for each in runs.filter(**only)[what].drop_nulls()]


def _spread(family: str) -> Callable[[pl.DataFrame], float | None]:
    def spread(runs: pl.DataFrame) -> float | None:
        found = _values(runs, "utilisation", family=family, mode=ALONE)
        return 100 * (max(found) - min(found)) if len(found) > 1 else None

    return spread


def _unevenness(runs: pl.DataFrame) -> float | None:
    found = _values(runs, "share", family="cubic", mode=AGAINST)
    return 100 * max(abs(share - 0.5) for share in found) if found else None


def _largest_share(runs: pl.DataFrame) -> float | None:
    found = _values(runs, "share", mode=AGAINST)
    return 100 * max(found) if found else None


def _harm(runs: pl.DataFrame, family: str) -> float | None:
    """What Linux's CUBIC loses to a family, of what it has beside itself (Ware et al., HotNets 2019)."""
    itself = _values(runs, "ours_mbps", sender="linux cubic", mode=AGAINST)
    found = _values(runs, "ours_mbps", family=family, mode=AGAINST)
    return 100 * (1 - float(np.mean(found)) / itself[0]) if itself and found and itself[0] > 0 else None


def _more_harm(runs: pl.DataFrame) -> float | None:
    bbrs, cubics = _harm(runs, "bbr"), _harm(runs, "cubic")
    return None if bbrs is None or cubics is None else bbrs - cubics


def _slowest(runs: pl.DataFrame) -> float | None:
    found = _values(runs, "short_s", family="cubic", mode=SHORT)
    return max(found) / min(found) if len(found) > 1 else None


def _gain(runs: pl.DataFrame) -> float | None:
    bbrs, cubics = (_values(runs, "utilisation", family=family, mode=ALONE) for family in ("bbr", "cubic"))
    return 100 * (float(np.mean(bbrs)) - float(np.mean(cubics))) if bbrs and cubics else None


Measure = Callable[[Data, int], Measured | None]

WIDER = "s2n-quic came into the grid after the verdict on the four other stacks was known."


def _claim(
    ident: str,
    text: str,
    unit: str,
    definition: str,
    measure: Measure,
    rule: Rule,
    changed: str = "",
    standing: Standing = AS_PREDICTED,
) -> Claim:
    return Claim(ident, text, "", "expected", unit, definition, measure, rule, "utilisation", kind="expectation",
                 redefined=changed, standing=standing)  # fmt: skip


_LATENCY = fitted("Programs were given their latency when its verdict was known.")


_ALL = (
    _claim("ST-1", "Alone the CUBICs of all stacks behave alike", " points",
           "Largest over paths of: highest less lowest utilisation among the stacks' CUBICs.",
           _over(_spread("cubic"), max), AtMost(3, 6), WIDER),
    _claim("ST-2", "Alone the Renos of all stacks behave alike", " points",
           "Largest over paths of: highest less lowest utilisation among the stacks' Renos.",
           _over(_spread("reno"), max), AtMost(3, 6)),
    _claim("ST-3", "Beside Linux's CUBIC every stack's CUBIC gets its half of a FIFO", " points",
           "Largest over the paths with a FIFO of: the share furthest from 50 %.",
           _over(_unevenness, max, FIFOS), AtMost(10, 20), WIDER, _LATENCY),
    _claim("ST-4", "With FQ-CoDel no sender of any stack takes more than its half", " %",
           "Largest share beside Linux's CUBIC.", _over(_largest_share, max, ("fq-codel",)), AtMost(55, 60), WIDER),
    _claim("ST-5", "In a shallow queue BBRs harm Linux's CUBIC more than CUBICs do", " points",
           "Mean harm by BBRs less mean harm by CUBICs.", _over(_more_harm, max, ("shallow",)), AtLeast(10, 0), WIDER),
    _claim("ST-6", "A short transfer takes as long over every stack's CUBIC", "",
           "Median over paths of: the slowest stack's median time over the fastest's, 100 kB.",
           _over(_slowest, lambda each: float(np.median(each))), AtMost(1.25, 1.5), WIDER),
    _claim("ST-7", "At 0.1 % loss BBRs use more of the link than CUBICs", " points",
           "Mean utilisation of BBRs less that of CUBICs.", _over(_gain, max, ("lossy",)), AtLeast(5, 0), WIDER),
)  # fmt: skip


def _unlike(sender: str) -> Measure:
    """How far its utilisation alone is from Linux's CUBIC's."""

    def off(runs: pl.DataFrame) -> float | None:
        both = [_values(runs, "utilisation", sender=name, mode=ALONE) for name in (sender, "linux cubic")]
        return 100 * abs(both[0][0] - both[1][0]) if all(both) else None

    return _over(off, max)


def _held(sender: str) -> Measure:
    """Its share where a queue is short for a while or always."""

    def share(runs: pl.DataFrame) -> float | None:
        found = _values(runs, "share", sender=sender, mode=AGAINST)
        return 100 * found[0] if found else None

    return _over(share, lambda each: float(np.mean(each)), ("shallow", "varying"))


def _spared(sender: str) -> Measure:
    """What it leaves Linux's CUBIC that Linux's BBR takes, of what CUBIC has beside itself."""

    def less(runs: pl.DataFrame) -> float | None:
        names = ("linux cubic", "linux bbr", sender)
        itself, bbr, theirs = (_values(runs, "ours_mbps", sender=name, mode=AGAINST) for name in names)
        return 100 * (theirs[0] - bbr[0]) / itself[0] if itself and bbr and theirs and itself[0] > 0 else None

    return _over(less, max, ("shallow",))


def _alone(sender: str, what: str, path: str) -> Measure:
    """One figure of a run alone, in per cent."""

    def value(runs: pl.DataFrame) -> float | None:
        found = _values(runs, what, sender=sender, mode=ALONE)
        return 100 * found[0] if found else None

    return _over(value, max, (path,))


#: Of s2n-quic, written down before its first run here: the claim, the measure of a sender, and a sender that fails it.
_OF_S2N: tuple[tuple[str, str, str, str, Callable[[str], Measure], str, Rule, str], ...] = (
    ("ST-8", "Alone s2n-quic's CUBIC uses as much of the link as Linux's", " points",
     "Largest over paths of: its utilisation and that of Linux's CUBIC, how far apart.",
     _unlike, "s2n-quic cubic", AtMost(5, 8), "freebsd cubic"),
    ("ST-9", "It has HyStart, as Linux's has and quinn's has not: it holds its half where a queue is short", " %",
     "Mean of its shares beside Linux's CUBIC in the shallow queue and at the varying rate.",
     _held, "s2n-quic cubic", AtLeast(42, 38), "quinn cubic"),
    ("ST-10", "In a shallow queue s2n-quic's BBRv2 leaves Linux's CUBIC more than Linux's BBRv1 does", " points",
     "What CUBIC has beside it less what it has beside Linux's BBR, of what it has beside itself.",
     _spared, "s2n-quic bbr2", AtLeast(20, 5), "quinn bbr"),
    ("ST-11", "Its BBRv2 keeps its own losses below the 2 % of its draft", " %",
     "Packets lost alone in the shallow queue.",
     lambda sender: _alone(sender, "loss", "shallow"), "s2n-quic bbr2", AtMost(2, 4), "quinn bbr"),
    ("ST-12", "At 0.1 % loss its BBRv2 still uses the link", " %", "Its utilisation alone.",
     lambda sender: _alone(sender, "utilisation", "lossy"), "s2n-quic bbr2", AtLeast(85, 70), "linux cubic"),
)  # fmt: skip

CLAIMS = _ALL + tuple(
    _claim(ident, text, unit, definition, measure(sender), rule, standing=_LATENCY if ident == "ST-9" else AS_PREDICTED)
    for ident, text, unit, definition, measure, sender, rule, _ in _OF_S2N
)
CONTROLS = tuple(
    _claim(ident, f"The same of {control}", unit, definition, measure(control), rule)
    for ident, _, unit, definition, measure, _, rule, control in _OF_S2N
)
"""Each of these must come out as "not": a rule that anybody keeps decides nothing."""

_ONE = (
    Column("utilisation (%)", "utilisation", 1, 100.0),
    Column("goodput (Mbit/s)", "mbps", 2),
    Column("queue mean (kB)", "queue_bytes", 1, 1e-3),
    Column("loss (%)", "loss", 3, 100.0),
    Column("call's p95 (ms)", "call_p95_ms", 1),
)
_TWO = (
    Column("share (%)", "share", 1, 100.0),
    Column("Linux's CUBIC (Mbit/s)", "ours_mbps", 2),
    Column("call's p95 (ms)", "call_p95_ms", 1),
)
_HEADS = ("path", "sender")


_RANGE = "Median over seeds, and in brackets the smallest and the largest."


def _shown(found: Sequence[float], factor: float, digits: int) -> str:
    if not found:
        return "–"
    middle, low, high = (f"{factor * value:.{digits}f}" for value in (float(np.median(found)), min(found), max(found)))
    return middle if low == high else f"{middle} ({low} … {high})"


def by_path(data: Data, name: str, title: str, mode: str, what: str, factor: float, digits: int) -> TableOut:
    """A row a sender, a column a path: the median over seeds, and the range if it is not one number."""

    def cell(path: str, sender: str) -> str:
        return _shown(_values(data.frame, what, path=path, sender=sender, mode=mode), factor, digits)

    rows = [[called(sender), *(cell(path, sender) for path in PATHS)] for sender in SENDERS]
    heads = ["sender", *(title for title, _ in PATHS.values())]
    return TableOut(name, title, _RANGE, heads, [row for row in rows if set(row[1:]) != {"–"}])


def by_stack(data: Data) -> TableOut:
    """A row a stack: its CUBIC, and the latest of its BBRs."""

    def of(sender: str | None, what: str, path: str, mode: str, factor: float, digits: int) -> str:
        return _shown(_values(data.frame, what, sender=sender, path=path, mode=mode), factor, digits) if sender else "–"

    rows = []
    for stack in dict.fromkeys(stack for _, stack, _ in SENDERS.values()):
        mine = {family: sender for sender, (family, where, _) in SENDERS.items() if where == stack}
        cubic, bbr = mine.get("cubic"), mine.get("bbr")
        rows.append([
            called(stack),
            *(of(cubic, "utilisation", path, ALONE, 100, 1) for path in ("shallow", "lossy")),
            *(of(cubic, "share", path, AGAINST, 100, 1) for path in ("shallow", "deep")),
            of(cubic, "short_s", "deep", SHORT, 1e3, 0),
            bbr.split()[1] if bbr else "none",
            of(bbr, "share", "shallow", AGAINST, 100, 1),
            of(bbr, "loss", "shallow", ALONE, 100, 2),
        ])  # fmt: skip
    rows.append(["quiche 0.29.3 (not run: its clock is the machine's)", *["–"] * 8])
    heads = ["stack", "its CUBIC: uses alone, shallow (%)", "with 0.1 % loss (%)", "share, shallow (%)",
             "share, deep (%)", "100 kB, deep (ms)", "its latest BBR", "BBR's share, shallow (%)",
             "BBR loses alone, shallow (%)"]  # fmt: skip
    return TableOut("by-stack", "The six stacks", f"{_RANGE} Shares are beside Linux's CUBIC.", heads, rows)


def controls(data: Data) -> TableOut:
    """The rules on s2n-quic, applied to senders that must fail them."""
    found = [judge(claim, data) for claim in CONTROLS]
    rows = [[each.id, each.text, each.ours, each.spread, each.threshold, each.verdict] for each in found]
    heads = ["rule of", "applied to", "value", "spread", "rule", "verdict"]
    return TableOut("controls", "Controls", 'Each must come out as "not".', heads, rows)


def all_tables(data: Data) -> list[TableOut]:
    """One quantity over senders and paths, and a table a mode: alone, against Linux's CUBIC, short transfers."""

    def rows(mode: str) -> Any:
        return (
            ([PATHS[cell.factors["path"]][0], called(cell.factors["sender"])], found)
            for cell, found in data.each(mode=mode)
        )

    return [
        by_stack(data),
        controls(data),
        by_path(data, "by-utilisation", "Utilisation alone (%)", ALONE, "utilisation", 100, 1),
        by_path(data, "by-loss", "Packets lost alone (%)", ALONE, "loss", 100, 2),
        by_path(data, "by-delay", "The call's delay beside it, 95 % (ms)", ALONE, "call_p95_ms", 1, 1),
        by_path(data, "by-share", "Share beside Linux's CUBIC (%)", AGAINST, "share", 100, 1),
        by_path(data, "by-time", f"Time of {SHORT_BYTES} (ms)", SHORT, "short_s", 1e3, 0),
        table("alone", "Alone", "Medians over seeds.", _HEADS, _ONE, rows(ALONE)),
        table("against", "Beside Linux's CUBIC", "Medians over seeds. Even is 50 %.", _HEADS, _TWO, rows(AGAINST)),
        table("short", f"Transfers of {SHORT_BYTES}", "Medians over seeds of the median time.", _HEADS,
              (Column("time (ms)", "short_s", 0, 1e3),), rows(SHORT)),
    ]  # fmt: skip


FAMILIES = {"reno": BLUE, "cubic": VERMILION, "bbr": GREEN}
MARKERS = {"linux": "o", "freebsd": "s", "quinn": "^", "noq": "D", "s2n-quic": "v"}
#: Of a sender's family, for print without colours.
FILLS = {"reno": "full", "cubic": "none", "bbr": "left"}
#: What is drawn: the measure, how it was run, the axis.
SHOWN = (
    ("utilisation", ALONE, "utilisation alone (%)"),
    ("share", AGAINST, "share beside Linux's CUBIC (%)"),
)
#: Median, smallest and largest, by measure, sender and path.
Ranges = Mapping[tuple[str, str, str], tuple[float, float, float]]


def figure(data: Data) -> Figure:
    """Utilisation alone and share beside Linux's CUBIC: a colour a family, a mark a stack."""
    found = {
        (what, sender, path): [100 * value for value in values]
        for what, mode, _ in SHOWN
        for sender in SENDERS
        for path in PATHS
        if (values := _values(data.frame, what, path=path, sender=sender, mode=mode))
    }
    return draw({key: (float(np.median(each)), min(each), max(each)) for key, each in found.items()})


def draw(ranges: Ranges) -> Figure:
    """The picture, of medians and ranges in per cent."""
    with house_style():
        figure, axes = new_figure(2, height=6.6, sharex=True)
        for (ax,), (what, _, title) in zip(axes, SHOWN, strict=True):
            for number, (sender, (family, stack, _)) in enumerate(SENDERS.items()):
                each = [ranges.get((what, sender, path), (np.nan,) * 3) for path in PATHS]
                middle, low, high = np.array(each).T
                if np.isnan(middle).all():
                    continue
                at = np.arange(len(PATHS)) + (number - (len(SENDERS) - 1) / 2) * 0.06
                fill: Any = "right" if family == "bbr" and not sender.endswith(" bbr") else FILLS[family]
                ax.vlines(at, low, high, color=FAMILIES[family], linewidth=0.9)
                ax.plot(at, middle, MARKERS.get(stack, "P"), color=FAMILIES[family], label=called(sender),
                        markersize=4.5, fillstyle=fill, markerfacecoloralt="white", markeredgewidth=0.9)  # fmt: skip
            for edge in range(1, len(PATHS)):
                ax.axvline(edge - 0.5, color=SOFT, linewidth=0.6)
            ax.grid(visible=False, axis="x")
            ax.set_xlim(-0.5, len(PATHS) - 0.5)
            ax.set_ylabel(title)
        axes[1][0].axhline(50, color=SOFT, linewidth=0.8)
        names = [textwrap.fill(title, 17) for title, _ in PATHS.values()]
        axes[1][0].set_xticks(range(len(PATHS)), names, fontsize=7.5)
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, fontsize=7.5, ncols=5, loc="outside lower center")
    return figure


def notes(data: Data) -> list[str]:
    """What the reader must know about how this was run."""
    return [
        f"{RATE} and {RTT}; a call runs beside the bulk transfers. The first {WARM_UP_S:g} s do not count in rates and "
        "delays.",
        "QUIC stacks run as published, with their default settings and null cryptography; see docs/quic.md. Linux and "
        "FreeBSD 9 are tailback's models of their TCP.",
        "ECN: the QUIC stacks send ECT(0) by default and react to marks; the TCPs here do not ask for it.",
    ]


STUDY = Study(
    name="stacks",
    title="Does a name mean the same in every stack?",
    paper="No paper",
    doc=__doc__,
    revision="1",
    grid=grid,
    extract=extract,
    claims=CLAIMS,
    plots=(
        Plot("utilisation", "Senders by path", "Medians over seeds; a line from the smallest to the largest.", figure),
    ),
    tables=all_tables,
    notes=notes,
    seeds=10,
)
