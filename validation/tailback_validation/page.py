"""Writes docs/validation.md; only the notes on mechanisms (notes.toml) are written by hand."""

from __future__ import annotations

import math
import os
from pathlib import Path

import tailback as tb
from tailback.files import whole_file
from tailback.judge import target
from tailback_validation import figures, live, truth
from tailback_validation.compare import TARGETS, Case, Judgement

__all__ = ["kernel_row", "write"]

_TITLES = {
    "goodput_mbps": "goodput, Mbit/s",
    "voice_median_ms": "median induced voice delay, ms",
    "epoch_s": "epoch, s",
    "dropped": "drops in 100 s",
}
_DIGITS = {"goodput_mbps": 3, "voice_median_ms": 1, "epoch_s": 2, "dropped": 0}

_MORE = (
    ("voice_p90_ms", "voice p90, ms", 1),
    ("voice_p99_ms", "voice p99, ms", 1),
    ("reductions", "reductions", 0),
    ("epoch_sd_s", "epoch sd, s", 2),
    ("cwnd_mean", "mean cwnd", 1),
    ("ssthresh_after", "ssthresh after", 1),
    ("slow_start_peak", "slow-start peak", 0),
    ("srtt_mean_ms", "mean srtt, ms", 1),
    ("retransmitted_total", "retransmitted, 120 s", 0),
    ("queue_mean", "mean queue / limit", 3),
)


def _number(value: float, digits: int) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def _error(judgement: Judgement) -> str:
    if math.isnan(judgement.error):
        return "–"
    # Adding zero turns -0.0 into 0.0.
    text = "∞" if math.isinf(judgement.error) else f"{round(100 * judgement.error, 1) + 0.0:+.1f} %"
    return text if judgement.is_met else f"**{text}**"


def _spread(judgement: Judgement) -> str:
    digits = _DIGITS[judgement.measure]
    low, high = (_number(value, digits) for value in (judgement.lowest, judgement.highest))
    return low if low == high else f"{low} … {high}"


def _verdict(case: Case) -> str:
    """Met or missed, and how many measures there were: rows without epochs and drops are easily alike."""
    known = sum(not math.isnan(each.error) and (each.truth, each.ours) != (0.0, 0.0) for each in case.judgements)
    few = f" ({known} of {len(case.judgements)} measured)" if known < len(case.judgements) else ""
    return target(_short(miss.measure) for miss in case.misses) + few


def _short(measure: str) -> str:
    return {"goodput_mbps": "goodput", "voice_median_ms": "voice", "epoch_s": "epoch", "dropped": "drops"}[measure]


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    return [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
    ]


def kernel_row(case: Case) -> str:
    """A row of the main table: the kernel's value, ours and the error for every judged measure; then the verdict."""
    cells = [f"`{case.algorithm}`"]
    for each in case.judgements:
        digits = _DIGITS[each.measure]
        cells += [_number(each.truth, digits), _number(each.ours, digits), _error(each)]
    return "| " + " | ".join([*cells, _verdict(case)]) + " |"


def _kernel_section(cases: list[Case], images: dict[str, str]) -> list[str]:
    short = {name: _short(name) for name in TARGETS}
    header = ["algorithm"]
    for name, title in _TITLES.items():
        header += [f"{title}: kernel", "ours", f"error (±{100 * TARGETS[name]:.0f} %)"]
    lines = ["| " + " | ".join([*header, "verdict"]) + " |", "|" + "---|" * (len(header) + 1)]
    lines += [kernel_row(case) for case in cases]
    lines += ["", "### Spread", ""]
    lines += [
        "Smallest and largest over fifteen runs: five starts of the transfer within 16 ms, times one packet of queue "
        "less, as measured, and one more.",
        "",
    ]
    lines += _table(
        ["algorithm", *short.values()],
        [[f"`{case.algorithm}`", *(_spread(each) for each in case.judgements)] for case in cases],
    )
    lines += ["### What else was compared", "", "Kernel / ours; without targets.", ""]
    lines += _table(
        ["algorithm", *(title for _, title, _ in _MORE)],
        [
            [
                f"`{case.algorithm}`",
                *(
                    f"{_number(truth.kernel()[case.algorithm][name], digits)} / "
                    f"{_number(getattr(case.ours, name), digits)}"
                    for name, _, digits in _MORE
                ),
            ]
            for case in cases
        ],
    )
    lines += ["### Misses and their mechanisms", ""]
    lines += _mechanisms(cases, truth.notes().get("linux", {}))
    if images:
        lines += ["### Traces", "", "Orange: the kernel, sampled every 100 ms. Blue: this simulator.", ""]
        lines += [f"![{name}: window and queue of kernel and simulator]({image})\n" for name, image in images.items()]
    return lines


def _mechanisms(cases: list[Case], notes: dict[str, dict[str, str]]) -> list[str]:
    lines = []
    for case in cases:
        for miss in case.misses:
            variant = f" ({case.variant})" if case.variant else ""
            text = notes.get(case.algorithm, {}).get(miss.measure) or notes.get("all", {}).get(miss.measure)
            found = " ".join(text.split()) if text else "*No mechanism found yet.*"
            lines.append(
                f"- **`{case.algorithm}`{variant}, {_short(miss.measure)} {_error(miss).strip('*')}.** {found}"
            )
    return [*(lines or ["None."]), ""]


def _ns2_section(cases: list[Case]) -> list[str]:
    header = ["algorithm", "acknowledges"]
    for title in _TITLES.values():
        header += [f"{title.replace('100 s', '150 s')}: ns-2", "ours", "error"]
    rows = []
    for case in cases:
        cells = [f"`{case.algorithm}`", case.variant]
        for each in case.judgements:
            digits = _DIGITS[each.measure]
            cells += [_number(each.truth, digits), _number(each.ours, digits), _error(each)]
        rows.append([*cells, _verdict(case)])
    given = [
        [
            f"`{name}`",
            "delayed" if delayed else "every segment",
            *(
                f"{_number(row[key], digits)} / {_number(truth.ns2_ours()[name, delayed][key], digits)}"
                for key, digits in _DIGITS.items()
            ),
        ]
        for (name, delayed), row in truth.ns2().items()
    ]
    lines = _table([*header, "verdict"], rows)
    lines += ["### Misses and their mechanisms", "", *_mechanisms(cases, truth.notes().get("ns2", {}))]
    lines += [
        "### The same path by another script",
        "",
        "These rows were measured with ns-2 independently of ours; theirs / ours.",
        "",
    ]
    lines += _table(["algorithm", "acknowledges", *(_short(name) for name in _DIGITS)], given)
    return [*lines, *_scripts_apart()]


def _scripts_apart() -> list[str]:
    """Where two measurements with ns-2 differ by more than the simulator may."""
    found = []
    for (name, delayed), row in truth.ns2().items():
        ours = truth.ns2_ours()[name, delayed]
        for key in _DIGITS:
            error = ours[key] / row[key] - 1.0 if row[key] else math.nan
            if not math.isnan(error) and not TARGETS.allows(key, error):
                found.append(
                    f"`{name}` ({'delayed' if delayed else 'every segment'}): {_short(key)} {100 * error:+.0f} %"
                )
    if not found:
        return []
    return [f"Ours is off theirs by more than the target: {'; '.join(found)}. Which of them is right is not known.", ""]


_METHOD = """# Validation: kernels and ns-2 against the simulator

*Generated by `make validate` (`tailback validate`); edit `validation/notes.toml` instead.
Version {version}.*

Every number here comes from one path: 10 Mbit/s, 80 ms round trip, 100 000 bytes of drop-tail queue, one bulk transfer
and one call of 200-byte packets every 20 ms. No parameter is fitted to these rows, but mechanisms were added with them
in view: in the first such table 8 of the kernel's 14 rows met their targets. The [sampled
paths](validation-sampled.md) were not chosen.

## Against Linux 6.1

The truth is an unmodified kernel in an emulator that counts instructions, so that time is exact; how it was measured
is written in `validation/truth/README.md`. The simulator repeats the path with the stack `linux`: the
bottleneck is a token bucket of one packet over a byte FIFO, the same for the acknowledgements. The transfer opens at
0.5 s and lasts 120 s, the call runs from the start. Measures are defined alike. Averages are over 100 s, state
is sampled every 20 ms. An epoch is the time between two entries into CWR, Recovery or Loss, the induced delay of the
call is its one-way delay less the smallest seen.

Nothing on the path is random, and each run settles into a cycle that repeats; seeds would change nothing. The
exception is `cdg`, which draws its back-off. Its row has one draw on each side, and over 24 seeds the simulator's
goodput has a standard deviation of 2.6 %, so chance decides that verdict. The spread below shows what other starts and
other queues do. Targets: goodput within 2 %, median induced voice delay and epoch within 10 %, drops within 25 %. A
bold error misses its target.

"""

_NS2 = """## Against ns-2

ns-2.35's `Agent/TCP/Linux` runs Linux 2.6 algorithms on ns-2's own recovery; we compare the stack `ns2-sack`, set as
`validation/tailback_validation/path.py` says, with our algorithms' variants of that era. Statistics are from 30 s to
180 s, goodput counts IP bytes, and an epoch is the time between clusters of drops. `tailback validate --ns2` runs `ns`
again where it is installed; otherwise the numbers of the last such run are used.

"""


def write(kernel: list[Case], ns2: list[Case], out: Path) -> list[Path]:
    """Write the page, and its figures in images/validation."""
    folder = out.parent / "images" / "validation"
    saved = figures.save_all(kernel, folder)
    images = {name: Path(os.path.relpath(file, out.parent)).as_posix() for name, file in saved.items()}
    lines = [*_METHOD.format(version=tb.__version__).splitlines(), *_kernel_section(kernel, images)]
    if ns2:
        lines += [*_NS2.splitlines(), *_ns2_section(ns2)]
        general = truth.notes().get("ns2", {}).get("quirks")
        if general:
            lines += ["### Quirks of ns-2's modules", "", general.strip(), ""]
    lines += live.section(truth.notes())
    text = "\n".join(lines).rstrip("\n") + "\n"
    with whole_file(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return [out, *saved.values()]
