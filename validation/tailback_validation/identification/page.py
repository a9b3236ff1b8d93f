"""Writes the part of docs/identify.md on the accuracy of `tailback pcap identify`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tailback.capture.identify import Forest
from tailback_validation.identification.judging import Judged, figures, strangers
from tailback_validation.identification.kernel import Asked
from tailback_validation.identification.runs import ALGORITHMS, PLAN, Row

BEGIN, END = "<!-- identify: written by make identify -->", "<!-- end of identify -->"
_WORDS = {
    "named_right": "named, and right",
    "named_precision": "right, of those named",
    "family_precision": "right, of those put into a family",
    "wrong": "wrong, by name or family (at most)",
    "recall_reno": "Reno found, by name or family",
    "recall_cubic": "CUBIC found, by name or family",
    "recall_bbr": "BBR v1 found, by name or family",
    "receiver_loses": "named right less often at the receiver (at most)",
    "late_loses": "named right less often where the capture begins late (at most)",
    "common_lossy": "Reno, CUBIC and BBR v1 under 0.2 to 0.5 % of random loss, by name or family",
    "common_contested": "Reno, CUBIC and BBR v1 beside other bulk flows, by name or family",
    "stranger_recognised": "an algorithm no tree has seen: “unknown” or its own family",
    "kernel_right": "real kernels (reno, cubic, bbr) alone, by name or family",
    "kernel_right_lossy": "real kernels under 0.2 to 0.5 % of random loss",
    "kernel_right_contested": "real kernels beside another bulk flow",
}
_AT_MOST = {"wrong", "receiver_loses", "late_loses"}


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _matrix(judged: Sequence[Judged]) -> str:
    columns = [*ALGORITHMS, "own family", "other family", "unknown"]
    rows = []
    for label in ALGORITHMS:
        mine = [it for it in judged if it.row.label == label]
        counts = dict.fromkeys(columns, 0)
        for it in mine:
            place = {"family": "own family", "misplaced": "other family"}.get(it.outcome, it.answer)
            counts[place] += 1
        cells = [
            f"**{counts[name]}**" if name == label and counts[name] else str(counts[name] or "") for name in columns
        ]
        rows.append([f"`{label}`", *cells])
    return _table(["ran ↓, answer →", *columns], rows)


def text(forest: Forest, seen: Sequence[Row], held: Sequence[Judged], asked: Sequence[Asked]) -> str:
    """The text between the marks."""
    recognised = strangers(seen, [it.row for it in held], ALGORITHMS)
    found = figures(held)
    # Each algorithm has the same weight.
    found["stranger_recognised"] = sum(unknown + home for unknown, home in recognised.values()) / len(recognised)
    own = [it for it in asked if it.source == "kernel"]
    twins = [it for it in asked if it.source == "twin"]
    kinds = {
        "kernel_right": [it for it in own if not it.loss and not it.other],
        "kernel_right_lossy": [it for it in own if it.loss],
        "kernel_right_contested": [it for it in own if it.other],
    }
    found |= {key: sum(it.is_right for it in rows) / len(rows) for key, rows in kinds.items() if rows}
    rows = []
    for key, expected in PLAN["expected"].items():
        if key not in found:
            rows.append([_WORDS[key], f"{expected:.2f}", "not measured", ""])
            continue
        good = found[key] <= expected if key in _AT_MOST else found[key] >= expected
        rows.append([_WORDS[key], f"{expected:.2f}", f"{found[key]:.3f}", "yes" if good else "**no**"])
    strange = ", ".join(f"`{name}` {unknown:.2f} + {home:.2f}" for name, (unknown, home) in recognised.items())
    ends = [[it.algorithm, "kernel" if it.source == "kernel" else "BPF twin",
             f"{it.rate_mbit:g} Mbit/s, {it.rtt_ms:g} ms, {it.queue_bdp:g} BDP"
             + (f", {100 * it.loss:g} % lost" if it.loss else "") + (f", beside {it.other}" if it.other else ""),
             it.end, it.answer, f"{it.confidence:.2f}",
             "yes" if it.is_right else "no" if it.answer != "unknown" else "–"] for it in asked]  # fmt: skip
    right = sum(it.is_right for it in twins)
    unsure = sum(it.answer == "unknown" for it in twins)
    return f"""{BEGIN}

**Held-out runs.** {PLAN["test_paths"]} paths with seeds of their own, which no tree has seen
({PLAN["train_paths"]} others trained {len(forest.roots)} trees): {len(held)} captures. A third each is taken at the
sender, at the receiver, and at either end from the middle of the connection. What was expected was written down before,
in `validation/identify.toml`; {sum(row[3] == "**no**" for row in rows)} of {len(rows)} are missed.

{_table(["Share", "expected", "found", "met"], rows)}

Where only Reno's law can be seen (HighSpeed under 38 segments, Hybla under 25 ms, DCTCP without marks, BIC under 14
segments) `reno` is the right answer.

{_matrix(held)}

**An algorithm left out of the training**, share of its captures answered “unknown” + its own family: {strange}. An
algorithm no tree has seen is often named as a relative of another family: an answer says what a flow looks like, not
what it is.

**Real kernels.** tcpdump at both ends between namespaces, {sum(it.is_right for it in own)} of {len(own)} right, by name
or family, for the kernel's own algorithms; of BPF twins {right} of {len(twins)} right, {unsure} “unknown”.

{_table(["ran", "by", "path", "captured at", "answer", "confidence", "right"], ends)}

{END}"""


def write(page: Path, between: str) -> None:
    """Replace the text between the marks."""
    old = page.read_text(encoding="utf-8")
    head, _, rest = old.partition(BEGIN)
    _, _, tail = rest.partition(END)
    page.write_text(head + between + tail, encoding="utf-8")
