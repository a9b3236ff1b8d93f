"""CUBIC, Veno, Westwood and Hybla from Singapore to Perth over wires, WiFi and 3G (Murray and Ong)."""

from __future__ import annotations

from tailback.experiment import ABLATION, Choice, Data, Study

from .claims import CLAIMS
from .extract import summarise
from .grid import CALL_BYTES, JITTER, QUICK_RUNS, RUNS, START_SPREAD, all_cells
from .report import FIGURES, all_tables


def scale(data: Data, _: str) -> str:
    """The paper's sizes and runs, or fewer of them; days between runs are seconds, and the crowd is thinner."""
    usual = any(cell.role == ABLATION for cell in data.cells.values())
    return f"rate 1, sessions beside 1/30, {RUNS if usual else QUICK_RUNS} of {RUNS} runs"


def notes(_: Data) -> list[str]:
    """What the reader must know about how this was run."""
    return [
        "The paper measured over the Internet and describes neither rates nor buffers nor competing traffic, except 13 "
        "Mbit/s of ADSL. The networks are the presets, whose chosen values are in docs/links; what was fitted here is "
        "in the first table, and claims that a parameter was fitted to prove nothing, and say so.",
        "Throughputs are in figures that were not available: only orders are printed in the text.",
        "The four algorithms take turns, 1 to 2 s after one another, on the same network; in the paper days lay "
        "between. Each server remembers ssthresh and RTT of its last transfer, as Linux does by default.",
        f"The calls are five streams of {CALL_BYTES} bytes every 20 ms against the download, as iperf's client sends "
        "and the paper started it at the receiver. Their other reading is an ablation. They are measured while a "
        "download runs.",
        "Senders are Linux 3.2 with HyStart as it was then; MB is 10⁶ bytes.",
        f"Seeds vary competing sessions, the media's draws, pauses, starts (up to {START_SPREAD}) and each packet's "
        f"processing in its host (up to {JITTER}).",
    ]  # fmt: skip


CHOSEN = (
    Choice(
        "The wired university's port and its queue, for the order of throughput; the servers' memory of ssthresh, "
        "looked for because all four came out alike on the wire. CUBIC's share beside each of the three follows.",
        ("003-L1a", "003-L1b", "003-L1d", "003-L1e", "003-L1f", "003-L1g"),
    ),
    Choice(
        "ADSL's noise and queue, from some fifty pairs, with the order of all four in view, Westwood's share beside "
        "CUBIC and what it loses there.",
        ("003-L3a", "003-L3b", "003-L3d", "003-L3e", "003-L3h", "003-L4a", "003-L4d", "003-L7a"),
    ),
    Choice(
        "Eduroam's rate, stations and sessions, and the lateness of iperf's process, for CUBIC's jitter on both "
        "networks, which is ten times as large on WiFi.",
        ("003-Q1a", "003-Q3a", "003-L2c", "003-L6a", "003-L6c"),
    ),
    Choice(
        "3G's share, for CUBIC's RTT; the paper prints one range for all four, of which 1 MB fills the same queue.",
        ("003-Q7a", "003-Q7b", "003-Q7c", "003-Q7d"),
    ),
    Choice(
        "150 ms instead of 50 between the two of a pair, after first results. Which verdicts it decides was not "
        "recorded, so that none is taken out."
    ),
)

STUDY = Study(
    name="wireless-era",
    title="CUBIC, Veno, Westwood and Hybla over wires, WiFi and 3G",
    paper="D. Murray and K. Ong, Experimental Evaluation of Congestion Avoidance",
    doc=__doc__,
    revision="1",
    grid=all_cells,
    extract=summarise,
    claims=CLAIMS,
    plots=FIGURES,
    tables=all_tables,
    notes=notes,
    chosen=CHOSEN,
    scale=scale,
)
