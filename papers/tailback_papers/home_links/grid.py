"""The paper's three home links as cells, and what it leaves open as ablations.

A cell is one evening of the paper. Transfers follow one another over one link, NewReno, CUBIC, CDG and Vegas in turn,
with a pause of 5 to 7 s after each, while the destination pings the source.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import tailback as tb
from tailback.experiment import ABLATION, Cell

ALGORITHMS = ("reno", "cubic", "cdg", "vegas")
"""In the order in which they take turns."""
TITLES = {
    "reno": "NewReno", "cubic": "CUBIC", "cdg": "CDG", "vegas": "Vegas",
    "adsl1": "ADSL1", "homeplug": "HomePlug AV", "wifi": "802.11g",
}  # fmt: skip
REPEATS, QUICK_REPEATS, ABLATION_REPEATS = 6, 2, 3
FLOW, PING = "rsync", "ping"
IDLE_LOW, IDLE_HIGH = "5s", "7s"
START_SPREAD, JITTER = "100ms", "20us"

CC: tuple[dict[str, Any], ...] = (
    {"name": "reno"},
    # cc_cubic of FreeBSD 9 follows the draft of 2008: β = 0.8, C = 0.4, fast convergence, no HyStart.
    {"name": "cubic", "variant": "linux-2.6.25"},
    {"name": "cdg", "variant": "freebsd"},
    {"name": "vegas", "variant": "freebsd"},
)

TICK_MS = 10.0
"""FreeBSD sets kern.hz to 100 when it finds itself in a virtual machine, and RTTs are read off that clock."""
TICKING = ("cdg", "vegas")
"""They count RTTs in its ticks: TCP's timestamps, and with them h_ertt, count milliseconds only since February 2012."""

STACK: dict[str, Any] = {
    "name": "freebsd-9",
    # RFC 3390, as in the snapshot of May 2011; 9.2 made it ten.
    "initial_window": 3,
    "restart_window": 3,
    "clock_tick": f"{TICK_MS:g}ms",
}


TUN_PACKETS, SEND_BUFFER = 50, 32_768
"""FreeBSD's defaults for an interface queue and for a socket that does not tune itself."""
LINE_QUEUE = "98000B"
"""Where there is no tunnel: fitted to NewReno's median RTT."""
LOSSES = (0.0, 0.0005, 0.001, 0.0015, 0.002)
"""Shares of packets lost between the source and the provider that were tried,"""
INTERNET_LOSS = 0.003
"""and the one at which Vegas' rate is nearest the printed one. The paper mentions such losses and gives no rate."""
ARTEFACT_LOSS = 0.005
"""In the pair of runs that shows what the tunnel makes of losses."""


PAUSED = (50, 306)
"""Packets in a paused host: FreeBSD's interface queue; the same with the 256 descriptors of its driver em."""


@dataclass(frozen=True)
class Path:
    """A link of the paper: what is moved over it and what of the preset was fitted here."""

    name: str
    preset: str
    megabytes: int
    ping: str
    pings_a_second: int
    idle_ms: float
    """RTT of the idle path, as the paper prints it."""
    seconds: float
    """Simulated time allowed to a transfer and its pause, on average over the four algorithms."""
    options: dict[str, Any] = field(default_factory=dict)
    mtu: str = "1500B"


PATHS = {
    path.name: path
    for path in (
        Path(
            "adsl1", "adsl1-vtun", 4, "200ms", 5, 50.0, 80.0,
            {"tun_queue": f"{TUN_PACKETS}packets", "send_buffer": f"{SEND_BUFFER}B", "loss": INTERNET_LOSS},
        ),
        Path("homeplug", "homeplug", 40, "200ms", 5, 4.0, 38.0, {"buffer": "30packets", "payload": "1200us"}),
        Path("wifi", "wifi", 80, "500ms", 2, 1.5, 58.0, {"buffer": "100packets"}),
    )
}  # fmt: skip
LINE = Path("adsl1", "adsl1", 4, "200ms", 5, 50.0, 80.0, {"buffer": LINE_QUEUE}, "1492B")
"""The same line without the tunnel, nothing lost before it; PPPoE leaves 1492 of 1500 bytes."""

FITTED = (
    (
        "ADSL1: send buffer of the tunnel's connection", "32 KiB, FreeBSD's default; 64 and 256 were tried",
        "NewReno's median RTT (Figure 1)", "Figures 1 and 2, the other three",
    ),
    (
        "ADSL1: losses before the provider", f"{100 * INTERNET_LOSS:g} %; 0 to 0.3 were tried",
        "Vegas' throughput (Figure 2)", "Figures 1 and 2, the other three",
    ),
    ("ADSL1: delay to the provider 9 ms, interleaving 16 and 8 ms", "together 42 ms", "the idle RTT of 50 ms", "–"),
    ("HomePlug: longest payload of an exchange", "1,200 µs", "NewReno's throughput (Figure 4)", "CDG, Vegas, RTTs"),
    ("HomePlug: queue of each adapter", "30 packets", "NewReno's throughput (Figure 4)", "CDG, Vegas, RTTs"),
    ("HomePlug: delay of adapter and host", "1.7 ms each way", "the idle RTT of 4 ms", "–"),
    ("802.11g: queue of the sending interface", "100 packets", "NewReno's median RTT (Figure 5)", "CDG, Vegas"),
    ("802.11g: 54 Mbit/s and slots of 20 µs", "–", "NewReno's throughput (Figure 6)", "CDG, Vegas"),
    ("802.11g: delay of driver and virtual machine", "0.68 ms each way", "the idle RTT of 1.5 ms", "–"),
)  # fmt: skip
"""Parameter, value, what it was fitted to, what it was tested on.

On HomePlug and WiFi the presets were chosen with an eye on CUBIC as well, which is therefore a weak test there.
"""


def scenario(
    key: str,
    path: Path,
    repeats: int,
    *,
    stack: dict[str, Any] | None = None,
    cdg: dict[str, Any] | None = None,
    tick_ms: float = TICK_MS,
    buffer: str | None = None,
    options: dict[str, Any] | None = None,
    captures: bool = True,
) -> tb.Scenario:
    """One evening; `captures` records both hosts' traffic as tcpdump did."""
    controls = [one | ({"tick": tick_ms} if one["name"] in TICKING else {}) for one in CC]
    controls = [one | cdg if cdg and one["name"] == "cdg" else one for one in controls]
    count = repeats * len(ALGORITHMS)
    moved: dict[str, bool | int | float | str] = {
        "bytes": f"{path.megabytes}MB", "count": count,
        "idle_low": IDLE_LOW, "idle_high": IDLE_HIGH,
    }  # fmt: skip
    flow = tb.flow(
        "transfers",
        name=FLOW,
        cc=controls[0],
        cc_turns=controls[1:],
        stack=STACK | (stack or {}),
        send_buffer=buffer,
        receive_buffer=buffer,
        mtu=path.mtu,
        params=moved,
    )
    # The destination asks, the source answers: the reply crosses the loaded direction.
    ping = tb.flow("ping", name=PING, from_="right", to="left", interval=path.ping)
    return tb.presets.scenario(
        path.preset,
        name=key,
        flows=[flow, ping],
        duration=f"{path.seconds * count:.0f}s",
        randomness={"start_spread": START_SPREAD, "processing_jitter": JITTER},
        instruments={
            "requests": [FLOW],
            "echoes": [PING],
            "packets": [FLOW],
            "segments": [FLOW] if captures else [],
            # Both hosts' captures of an evening: some 15 million segments at most on HomePlug.
            **({"most_rows": 40_000_000} if captures else {}),
        },
        **path.options | (options or {}),
    )


@dataclass(frozen=True)
class Reading:
    """Another reading of something the paper leaves open."""

    title: str
    paths: tuple[str, ...]
    change: dict[str, Any]
    path: Path | None = None
    """Instead of the one of that name."""


EVERYWHERE = tuple(PATHS)
ABLATIONS = {
    "hz-1000": Reading("guest clock of 1,000 Hz instead of 100", EVERYWHERE,
                       {"stack": {"clock_tick": "1ms"}, "tick_ms": 1.0}),
    "ms-timestamps": Reading("RTTs in milliseconds, as since 2012, off that clock", EVERYWHERE, {"tick_ms": 1.0}),
    "cdg-half": Reading(
        "CDG that keeps half on a delay backoff, as a port of the patch of 2011 has it",
        EVERYWHERE, {"cdg": {"backoff_beta": 0.5}},
    ),
    "outer-256k": Reading("256 KiB of outer send buffer", ("adsl1",), {"options": {"send_buffer": "256KiB"}}),
    "prompt-ack": Reading("ACKs delayed by 20 ms instead of 100", EVERYWHERE, {"stack": {"delayed_ack": "20ms"}}),
    "window-128k": Reading(
        "a window of 128 KiB and a queue it cannot fill, on WiFi",
        ("wifi",), {"buffer": "128KiB", "options": {"buffer": "200packets"}},
    ),
    "no-tunnel": Reading("the line without the tunnel, and a queue of 98 kB", ("adsl1",), {}, LINE),
    **{
        f"loss-{share:g}": Reading(
            f"{100 * share:g} % of the packets lost before the line", ("adsl1",), {"options": {"loss": share}}
        )
        for share in LOSSES
    },
    "outer-64k": Reading("64 KiB of outer send buffer", ("adsl1",), {"options": {"send_buffer": "64KiB"}}),
    "shallow-adapter": Reading("adapters with 20 packets", ("homeplug",), {"options": {"buffer": "20packets"}}),
    "deep-adapter": Reading("adapters with 75 packets", ("homeplug",), {"options": {"buffer": "75packets"}}),
    **{
        f"pause-{packets}": Reading(
            f"adapters that pause the host, whose interface holds {packets} packets",
            ("homeplug",), {"options": {"pause_queue": packets}},
        )
        for packets in PAUSED
    },
}  # fmt: skip


LOSSY_TUNNEL, LOSSY_LINE = "lossy-tunnel", "lossy-line"
LOSSY = {
    key: replace(path, options=path.options | {"loss": ARTEFACT_LOSS})
    for key, path in ((LOSSY_TUNNEL, PATHS["adsl1"]), (LOSSY_LINE, LINE))
}
"""What the tunnel does to losses on the Internet: the same line with and without it."""


def all_cells(quick: bool) -> list[Cell]:
    """The three links; `quick` repeats twice instead of six times and leaves the ablations out."""
    repeats = QUICK_REPEATS if quick else REPEATS
    cells = [
        Cell(name, f"{TITLES[name]}, {path.megabytes} MB × {repeats}", scenario(name, path, repeats), {"path": name},
             cost=float(path.megabytes * repeats))
        for name, path in PATHS.items()
    ]  # fmt: skip
    for key, path in LOSSY.items():
        made = scenario(key, path, QUICK_REPEATS, captures=False)
        label = f"{TITLES['adsl1']} {'with' if key == LOSSY_TUNNEL else 'without'} the tunnel, 0.5 % lost before it"
        cells.append(Cell(key, label, made, {"path": "adsl1", "losses": key}, cost=float(path.megabytes)))
    for name, where in [] if quick else [(name, where) for name, one in ABLATIONS.items() for where in one.paths]:
        reading, key = ABLATIONS[name], f"{name}-{where}"
        made = scenario(key, reading.path or PATHS[where], ABLATION_REPEATS, captures=False, **reading.change)
        factors, cost = {"path": where, "ablation": name}, 0.3 * PATHS[where].megabytes * ABLATION_REPEATS
        cells.append(Cell(key, f"{TITLES[where]}, {reading.title}", made, factors, role=ABLATION, cost=cost))
    return cells
