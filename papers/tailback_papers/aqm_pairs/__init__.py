"""NewReno and CUBIC with PFIFO and CoDel: throughput against delay, and fairness of ten flows."""

from __future__ import annotations

from tailback.experiment import Choice, Data, Study

from .claims import CLAIMS
from .extract import summarise
from .grid import BUFFER, DROPTAIL_PACKETS, JITTER, SEGMENT_MTU, START_SPREAD, all_cells
from .report import FIGURES, all_tables


def notes(_: Data) -> list[str]:
    """What the reader must know about how this was run."""
    return [
        "The paper states neither queue limits, nor segment size, buffers, start times or the interval over which "
        f"fairness is taken. Assumed here: PFIFO of {DROPTAIL_PACKETS} packets (ns-3.27's device queue), packets of "
        f"{SEGMENT_MTU} bytes (536 of payload, ns-3.27's default), buffers of {BUFFER}, starts within {START_SPREAD}, "
        "one second.",
        "With ns-3.27's default buffers of 131,072 bytes the window limits both algorithms to the same throughput at "
        "40 and 80 ms, and no queue forms: the paper's differences need larger ones. The ablation shows it.",
        "The paper's eq. (6) prints Jain's index with (nΣx)² below the line, which gives 1/n² for any allocation. "
        "Jain's own n·Σx² is used.",
        "CUBIC is the module the paper names, after its source: β = 0.8, fast convergence without effect.",
        f"CoDel lies above the device's queue of {DROPTAIL_PACKETS} packets, which stops it while full, as in ns-3.27.",
        "So the set-up mixes defaults: rates and delays are those of ns-3's codel-vs-pfifo-basic-test, segments and "
        "queue are ns-3's general ones. That example's own are an ablation.",
        f"Seeds vary the flows' starts (up to {START_SPREAD}) and each packet's processing in its host (up to "
        f"{JITTER}).",
    ]


CHOSEN = (
    Choice(
        "The sender has SACK, and CoDel lies above a device queue, as in ns-3.27; both were read there after claims "
        "had come out otherwise.",
        ("004-L2", "004-L3a", "004-L3b", "004-L4"),
    ),
    Choice(
        "The set-up mixes defaults. Rates and delays are those of ns-3's codel-vs-pfifo-basic-test. Segments and queue "
        "(536 bytes, 100 packets) are ns-3's general ones, not the example's (1,458 bytes, 1,000 packets above a "
        "device queue of 10). The example's reading is an ablation; neither satisfies all claims, and none was its "
        "reason."
    ),
)

STUDY = Study(
    name="aqm-pairs",
    title="NewReno and CUBIC with PFIFO and CoDel",
    paper="Performance of TCP New Reno and TCP Cubic with PFIFO and CoDel, ns-3.27 study",
    doc=__doc__,
    revision="1",
    grid=all_cells,
    extract=summarise,
    claims=CLAIMS,
    plots=FIGURES,
    tables=all_tables,
    notes=notes,
    chosen=CHOSEN,
)
