"""SACK, HS-TCP, H-TCP, CUBIC and Compound over an ocean link and on a campus, and what users feel (Wu, 2007)."""

from __future__ import annotations

from tailback.experiment import Choice, Data, Study

from .claims import CLAIMS, NETWORK_OF, SCALE_SENSITIVE
from .extract import JOIN_RTTS, summarise
from .grid import FULL, PACKET_BYTES, WEB_WINDOW, all_cells, full_cells, scales_of
from .report import FIGURES, all_tables


def scale(data: Data, claim: str) -> str:
    """At what scale the cells of a claim were run."""
    one = scales_of(data)[NETWORK_OF[claim]]
    small = one.rate * one.time > 1
    return f"rate {_part(one.rate)}, time {_part(one.time)}" + (
        " (scale matters)" if small and claim in SCALE_SENSITIVE else ""
    )


def _part(divisor: int) -> str:
    return "1" if divisor == 1 else f"1/{divisor}"


def notes(data: Data) -> list[str]:
    """What the reader must know about how this was run."""
    scales = scales_of(data)
    which = "; ".join(f"{name}: {scale.words()}" for name, scale in (
        ("ocean link", scales["wan"]), ("campus", scales["lan"])))  # fmt: skip
    changed = [] if scales is FULL else [
        "What a smaller scale changes: windows are smaller, so SACK needs fewer round trips to recover and random "
        "errors limit it less; γ = 30 segments and H-TCP's steps are larger against the queue, so Compound sees a "
        "queue later; the limited window of FTP is a larger share of the link; fewer sessions overlap, so that their "
        "load is more bursty; joins take the same time but a larger part of the run. Error rates are multiplied by "
        "what rates are divided by: a flow meets as many errors a minute. The round trips, the queues in BDPs and the "
        "algorithms are the paper's.",
    ]  # fmt: skip
    return [
        f"Scale of this run: {which}.",
        *changed,
        "Figure 3, the order of starts and ends, is a picture that the paper's text does not give. Assumed: the web "
        "from 0 s; users from 30 s; high-speed flows one after another in even steps from 30 s until 230 s (four: 30, "
        "80, 130, 180 s); all stay to the end, 830 s.",
        "The paper's figures are pictures too: no values of them are known, so claims are its sentences, and the "
        "thresholds are ours.",
        f"Where the paper says nothing, ns-2's defaults: packets carry {PACKET_BYTES} bytes, connections of the web "
        f"and of its probe have a window of {WEB_WINDOW} packets; queues count packets, as ns-2's DropTail does, "
        "1 BDP being rate × twice the link's delay; the queue varies in both directions of the main link.",
        "H-TCP, CUBIC, HS-TCP and Compound are the modules that ns-2.35 carries, of Linux 2.6.22: H-TCP with its clock "
        "as before 2.6.28 and α scaled by the RTT, HS-TCP with limited slow start of 100 segments as the paper says, "
        "Compound in whole segments and with a delay window that begins at 0 after a loss. The flows run on the stack "
        "of NS2-TCP-Linux with overhead_, which does not reduce before recovery ends; users and web on ns-2's SACK "
        "agent. SACK halves and has no limited slow start.",
        f"“Shortly after a join” is within {JOIN_RTTS} round trips of the empty path. Jitter is the mean change of "
        "delay between packets of a call. A congestion event is a burst of the flows' drops with gaps below two RTTs. "
        "Loss is of full queues: packet errors are not counted.",
        "Access delays of the high-speed flows are midpoints of equally likely parts of the paper's distribution, the "
        "same for all algorithms and seeds. Seeds vary the web, the errors, the call and processing in hosts.",
    ]


CHOSEN = (
    Choice(
        "The web's window: with an unlimited one 29 of 66 claims were reproduced; ns-2's default of 20 packets was "
        "taken with that in view. Which claims it decides was not recorded, so that none is taken out."
    ),
    Choice(
        "The flows' stack and the modules of H-TCP and Compound are those of NS2-TCP-Linux, overhead_ and ns-2.35; its "
        "sources were read because verdicts were looked into.",
        ("002-L11a", "002-L11b"),
    ),
    Choice(
        "The usual scale: the schedule became an eighth, and the campus went from half its rate to all of it, after "
        "first results. A model scaled down is no replication. "
        "At the paper's scale 22 of 66 verdicts are others (one seed, engine of 0.2.0)."
    ),
)

STUDY = Study(
    name="high-speed-harm",
    title="What high-speed congestion control does to the users beside it",
    paper="Wu, Effects of Applying High Speed Congestion Control Algorithms in the Internet, 2007",
    doc=__doc__,
    revision="2",
    grid=all_cells,
    full_grid=full_cells,
    extract=summarise,
    claims=CLAIMS,
    plots=FIGURES,
    tables=all_tables,
    notes=notes,
    seeds=3,
    chosen=CHOSEN,
    scale=scale,
)
