"""Which congestion control with which queue harms a call and a page least, for what throughput."""

from __future__ import annotations

from tailback.experiment import Choice, Data, Study

from .claims import CLAIMS
from .extract import summarise
from .grid import WARM_UP_S, all_cells
from .report import FIGURES, all_tables, answers


def notes(data: Data) -> list[str]:
    """The answers, then what the reader must know about how this was run."""
    return [
        *answers(data),
        "Two bulk transfers, one G.711 call in their direction and one reader who fetches objects of 1 to 128 kB over "
        f"CUBIC from where the transfers come. The first {WARM_UP_S:g} s do not count.",
        "Harm is a share of what call and reader have alone on the same path (Ware et al., HotNets 2019); the pair is "
        "judged by the worse-off of the two. R is the E-model's with an ideal playout buffer.",
        "Throughput is everybody's goodput, transfers' and reader's. (Changed after a first look: counting transfers "
        "alone punished a pair for leaving the reader a share.) A reader who gets an even third of a full link waits "
        "about three times as long as alone, which is a harm of 60 and more.",
        "Both transfers use the same algorithm. An algorithm that waits politely here may starve beside one that does "
        "not; `wireless-era` has mixed pairs.",
        "FIFO is as long as the path's paper (or preset) has it; CoDel, FQ-CoDel and PIE have the defaults of their "
        "RFCs, on the narrowest link. No end asks for ECN, so AQMs drop, and DCTCP does what NewReno does.",
        "FIFOs given in bytes or BDP count bytes: a call's packet fits into a remainder that a full one does not, and "
        "is hardly ever lost there. In FIFOs of as many packets every loss-based algorithm takes some of its packets, "
        "Hybla and BBR most; decision 0006 has figures.",
        "The wired university is left out: by its paper its gigabit link is rarely full.",
    ]


STUDY = Study(
    name="beyond",
    title="Beyond the papers: which pair harms others least",
    paper="What the five papers leave open",
    doc=__doc__,
    revision="2",
    grid=all_cells,
    extract=summarise,
    claims=CLAIMS,
    plots=FIGURES,
    tables=all_tables,
    notes=notes,
    chosen=(
        Choice(
            "What counts as throughput was changed after a first look, by which B1 was not so; and the pair that harms "
            "least is picked and measured by the same seed.",
            ("B1",),
        ),
    ),
)
