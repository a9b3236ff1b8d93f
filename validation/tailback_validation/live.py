"""Compares the simulator with this machine's own kernel on the reference path, by three measures.

The last run's figures are stored in `truth/live.csv`, so that the page can be written on machines without live runs.
"""

from __future__ import annotations

import csv
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

import tailback as tb
from tailback import metrics
from tailback.files import whole_file
from tailback.judge import Bounds, target
from tailback_validation import truth

__all__ = ["ALGORITHMS", "OPTIONAL", "TARGETS", "Agreement", "keep", "known", "measure", "scenario", "section"]

ALGORITHMS = ("reno", "cubic", "htcp", "vegas", "westwood", "hybla", "cdg", "veno", "highspeed", "compound")
OPTIONAL = ("bic", "scalable", "illinois", "yeah", "ledbat", "bbr", "reno:twin", "cubic:twin", "bbr:twin")
"""Further algorithms that can be compared on this path; `:twin` is tailback's BPF twin of a kernel algorithm."""
TARGETS = Bounds({"goodput_mbps": 0.03, "voice_ms": 0.15, "epoch_s": 0.15})
"""Largest allowed difference of each measure."""
_DIGITS = {"goodput_mbps": 3, "voice_ms": 1, "epoch_s": 2}
RUNS = 3
"""Number of live runs for the mean and the spread, since the load of a machine varies."""
SEEDS = 10
"""Number of simulated runs for the mean: the path is deterministic, but CDG is not."""


@dataclass(frozen=True)
class Agreement:
    """One algorithm on both engines, with the means over each engine's runs."""

    algorithm: str
    goodput_mbps_sim: float
    goodput_mbps_live: float
    voice_ms_sim: float
    voice_ms_live: float
    epoch_s_sim: float
    epoch_s_live: float
    goodput_mbps_spread: float
    """Range of the live runs relative to their mean; NaN for one run."""
    voice_ms_spread: float
    epoch_s_spread: float
    runs: int
    """Number of live runs."""
    fit: int
    """Number of punctual live runs."""
    late_p99_us: float
    """The worst run's 99th percentile of lateness."""
    kernel: str

    def pair(self, measure: str) -> tuple[float, float]:
        """The simulated and the live value."""
        return getattr(self, f"{measure}_sim"), getattr(self, f"{measure}_live")

    def change(self, measure: str) -> float:
        """Live relative to simulated; NaN if neither has the measure, infinite if only one has."""
        sim, live = self.pair(measure)
        missing = math.isnan(sim), math.isnan(live)
        if all(missing):
            return math.nan
        return math.inf if any(missing) else live / sim - 1.0

    def misses(self) -> list[str]:
        """Measures that differ by more than their targets."""
        changes = {name: self.change(name) for name in TARGETS}
        return [name for name in TARGETS.missed(changes) if not math.isnan(changes[name])]


def scenario(algorithm: str, duration: str = "60s") -> tb.Scenario:
    """10 Mbit/s, 80 ms, a queue of one bandwidth-delay product; a transfer beside a call."""
    buffer = "4MiB"
    return tb.dumbbell(
        name=f"agreement-{algorithm}",
        rate="10mbit",
        rtt="80ms",
        queue="1bdp",
        flows=[tb.bulk(algorithm, name="bulk", send_buffer=buffer, receive_buffer=buffer), tb.voip(name="call")],
        duration=duration,
        instruments={
            "polls": ["bulk"],
            "queue_polls": ["bottleneck"],
            "packets": ["call"],
            "drops": ["bottleneck"],
            "poll_interval": "10ms",
        },
    )


def _measured(result: tb.Result) -> tuple[float, float, float]:
    """Goodput in Mbit/s, the call's median delay in ms, the median epoch in s (NaN without epochs)."""
    _, delays = metrics.one_way_delay(result, "call")
    epochs = metrics.epochs(result, "bulk").duration_s
    epoch = float(np.median(epochs)) if len(epochs) else math.nan
    return metrics.goodput(result, "bulk") / 1e6, float(np.median(delays)) * 1e3, epoch


def _mean(runs: Sequence[tuple[float, float, float]]) -> list[float]:
    """Mean of each measure; runs without epochs do not count for the epoch's."""
    columns = [[value for value in column if not math.isnan(value)] for column in zip(*runs, strict=True)]
    return [float(np.mean(column)) if column else math.nan for column in columns]


def _spread(runs: Sequence[tuple[float, float, float]]) -> list[float]:
    """Range of each measure relative to its mean; NaN for fewer than two runs."""
    columns = [[value for value in column if not math.isnan(value)] for column in zip(*runs, strict=True)]
    return [float(np.ptp(column) / np.mean(column)) if len(column) > 1 else math.nan for column in columns]


def measure(algorithm: str, *, runs: int = RUNS, duration: str = "60s") -> Agreement:
    """Run one of `ALGORITHMS` or `OPTIONAL` on both engines: ten seeds simulated, `runs` of them live."""
    from tailback import live

    name, _, kind = algorithm.partition(":")
    path = scenario(name, duration)
    simulated = [_measured(tb.run(path.with_(seed=seed))) for seed in range(1, SEEDS + 1)]
    real = [live.run(path.with_(seed=seed), twins=kind == "twin") for seed in range(1, runs + 1)]
    seen = [_measured(result) for result in real]
    columns = {"sim": _mean(simulated), "live": _mean(seen), "spread": _spread(seen)}
    values = {
        f"{name}_{kind}": value for kind, row in columns.items() for name, value in zip(TARGETS, row, strict=True)
    }
    late = max(float(result.column("emulator", "late_p99_s")[0]) for result in real)
    fit = sum(bool(result.meta["fit"]) for result in real)
    kernel = f"{platform.system()} {platform.release().split('-')[0]}"
    return Agreement(algorithm=algorithm, **values, runs=runs, fit=fit, late_p99_us=1e6 * late, kernel=kernel)


def _file() -> Path:
    return truth.FOLDER / "truth" / "live.csv"


def known() -> list[Agreement]:
    """The most recent measurements, in the order of `ALGORITHMS` and `OPTIONAL`."""
    if not _file().exists():
        return []
    rows = list(csv.DictReader(_file().read_text(encoding="utf-8").splitlines()))
    kinds: dict[str, Callable[[str], Any]] = {"str": str, "int": int, "float": lambda text: float(text or "nan")}
    read = [
        Agreement(**{each.name: kinds[str(each.type)](row[each.name]) for each in fields(Agreement)}) for row in rows
    ]
    return sorted(read, key=lambda row: (*ALGORITHMS, *OPTIONAL).index(row.algorithm))


def keep(rows: Sequence[Agreement]) -> None:
    """Store these in the package, replacing earlier ones of the same algorithms."""
    merged = {row.algorithm: row for row in (*known(), *rows)}
    with whole_file(_file()) as temporary, temporary.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([each.name for each in fields(Agreement)])
        for name in (*ALGORITHMS, *OPTIONAL):
            if name in merged:
                writer.writerow([_cell(value) for value in asdict(merged[name]).values()])


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return str(value)


_METHOD = """## Against this machine's kernel, live

The same path for 60 s with buffers of 4 MiB, simulated and on a real kernel ([how](live.md)): real TCP, real sockets,
real time, the simulator's own links between. `tailback validate --live` measures again; it takes {runs} minutes an
algorithm. Simulated: the mean of {seeds} seeds. Live: the mean of as many runs as the table says, on {kernels}. Spread:
the largest of those runs less the smallest, over their mean; a single run has none. Goodput may differ by 3 %, the
call's median delay and the median epoch by 15 %. Late: 99 % of the packets were between their hosts for less than this
longer than the path says.

"""


_OF_ONE_RUN = """Rows of one run were measured when only the emulator's lateness counted as punctual, not yet the
[applications' waits](live.md#is-the-run-fit).
"""


def section(notes: dict[str, Any]) -> list[str]:
    """The page's lines on the live comparison; empty without one. `notes` are the mechanisms of misses."""
    rows = known()
    if not rows:
        return []
    kernels = " and ".join(sorted({row.kernel for row in rows}))
    lines = _METHOD.format(seeds=SEEDS, runs=RUNS, kernels=kernels).splitlines()
    lines += _table([row for row in rows if row.algorithm in ALGORITHMS])
    others = [row for row in rows if row.algorithm in OPTIONAL]
    if others:
        note = "The other twins, and (`:twin`) those of what the kernel has: `tailback validate --live --algorithms …`."
        lines += ["", note, "", *_table(others)]
    if any(row.runs < RUNS for row in rows):
        lines += ["", *_OF_ONE_RUN.splitlines()]
    lines += ["", "### Misses and their mechanisms", ""]
    found = [_mechanism(row, name, notes) for row in rows for name in row.misses()]
    remarks = " ".join(str(notes.get("live", {}).get("remarks", "")).split())
    return [*lines, *(found or ["None."]), *(["", remarks] if remarks else []), ""]


def _table(rows: Sequence[Agreement]) -> list[str]:
    titles = ["goodput, Mbit/s", "median delay of the call, ms", "epoch, s"]
    heads = ("live", "difference", "spread")
    header = ["algorithm", *(text for title in titles for text in (f"{title}: simulated", *heads))]
    header += ["live runs", "punctual", "late, µs", "verdict"]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for row in rows:
        cells = [f"`{row.algorithm}`"]
        for name in TARGETS:
            cells += [*(_number(value, _DIGITS[name]) for value in row.pair(name)), _change(row, name)]
            cells.append(_percent(getattr(row, f"{name}_spread")))
        verdict = target(_WORDS[name] for name in row.misses())
        cells += [str(row.runs), str(row.fit), f"{row.late_p99_us:.0f}", verdict]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


_WORDS = {"goodput_mbps": "goodput", "voice_ms": "call", "epoch_s": "epoch"}


def _number(value: float, digits: int) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f} %"


def _change(row: Agreement, name: str) -> str:
    change = row.change(name)
    if math.isnan(change):
        return "–"
    # Adding zero turns -0.0 into 0.0.
    text = "∞" if math.isinf(change) else f"{round(100 * change, 1) + 0.0:+.1f} %"
    return f"**{text}**" if name in row.misses() else text


def _mechanism(row: Agreement, name: str, notes: dict[str, Any]) -> str:
    text = notes.get("live", {}).get(row.algorithm, {}).get(name)
    found = " ".join(text.split()) if text else "*No mechanism found yet.*"
    return f"- **`{row.algorithm}`, {_WORDS[name]} {_change(row, name).strip('*')}.** {found}"
