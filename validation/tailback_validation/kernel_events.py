"""Changes of TCP between Linux versions: settings that were added or changed, and paths whose numbers changed.

The expectations were written down before the first run. `python -m tailback_validation.kernel_events` runs in guests
what `truth/kernel-events.json` lacks, and writes the page. An argument limits the seconds in which guests may start.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import tailback as tb
from tailback import metrics, vm
from tailback.files import write_text
from tailback_validation.cake import read
from tailback_validation.truth import FOLDER

__all__ = ["EXPECTED", "KERNELS", "PATHS", "Expected", "Turn", "page", "settings_that_changed", "turns"]

#: Kernels in Debian's archive, oldest first; the newest of each series.
KERNELS = ("debian-6.1", "debian-6.12", "debian-6.16", "debian-6.17", "debian-7.2", "debian-7.3")
SEEDS = (1, 2)
BOUND = 0.01
"""A number counts as changed if its mean changes by more than this, and in the same direction with every seed."""
DISTURBED = 10
"""Starts of BBR alone, a microsecond apart, to distinguish a change in the kernel from one of phase."""
APART = 30
"""Written before the first of them: a kernel differs if its median is this far from each other kernel's. It is phase if
any kernel's own ten starts spread by as much."""
PAGE = FOLDER.parent / "docs" / "kernel-events.md"
_FILE = FOLDER / "truth" / "kernel-events.json"
_SETTINGS = "settings"
_LATE = "bbr-late"
#: Settings of a host depend on the scenario's stack; a new namespace has the kernel's defaults.
_READ = (
    "cd /proc/sys/net/ipv4 && for name in tcp_*; do echo $name $(cat $name); done > $1/settings.txt 2>/dev/null; true"
)


@dataclass(frozen=True)
class EventPath:
    """A path, its flows, and the number to observe."""

    name: str
    label: str
    number: str
    measure: Callable[[tb.Result], float]
    shape: Mapping[str, Any] = field(default_factory=dict)
    flows: tuple[Any, ...] = ()
    duration_s: int = 8

    def disturbed(self, start: int) -> tb.Scenario:
        """The first 1.5 seconds, which include all of Startup, with the flow `start` microseconds late."""
        plain = self.scenario(1)
        flows = [flow.with_(start=f"{100_000 + start}us") for flow in plain.flows]
        return plain.with_(flows=flows, duration="1500ms", randomness={"start_spread": "0s"})

    def scenario(self, seed: int) -> tb.Scenario:
        """The scenario that each kernel runs."""
        base = {"rate": "20mbit", "rtt": "40ms", "queue": "1bdp"}
        return tb.dumbbell(
            name=self.name,
            seed=seed,
            duration=f"{self.duration_s}s",
            flows=list(self.flows) or [tb.bulk("cubic", name="bulk")],
            randomness={"start_spread": "50ms"},
            **(base | dict(self.shape)),
        )


def _goodput(result: tb.Result) -> float:
    return sum(metrics.goodput(result, name) for name in result.flow_names) / 1e6


def _again(result: tb.Result) -> float:
    return float(result.column("flows", "segments_retransmitted").sum())


def _acks(result: tb.Result) -> float:
    """Packets returned for each segment sent."""
    sent = float(result.column("flows", "segments_sent").sum())
    return float(result.column("links", "delivered")[1]) / sent


PATHS = (
    EventPath("plain", "CUBIC, 20 Mbit/s, 40 ms, 1 BDP", "segments sent again", _again),
    EventPath(
        "near",
        "CUBIC, 10 Mbit/s, 20 ms, 1 BDP",
        "segments sent again",
        _again,
        {"rate": "10mbit", "rtt": "20ms"},
    ),
    EventPath(
        "bbr", "BBR, 20 Mbit/s, 40 ms, 1 BDP", "segments sent again", _again, flows=(tb.bulk("bbr", name="bulk"),)
    ),
    EventPath(
        "lossy",
        "CUBIC, 20 Mbit/s, 8 ms, 1 % lost",
        "ACKs per segment",
        _acks,
        {"rtt": "8ms", "queue": "100packets", "wire": {"loss": 0.01}},
    ),
    EventPath(
        "lossy-far",
        "CUBIC, 20 Mbit/s, 80 ms, 1 % lost",
        "ACKs per segment",
        _acks,
        {"rtt": "80ms", "queue": "100packets", "wire": {"loss": 0.01}},
    ),
    EventPath(
        "codel",
        "CUBIC, 20 Mbit/s, 40 ms, the kernel's own fq_codel",
        "segments sent again",
        _again,
        {"queue": "kernel:fq_codel"},
    ),
    EventPath(
        "marked",
        "CUBIC with ECN, 20 Mbit/s, 40 ms, codel that marks",
        "goodput (Mbit/s)",
        _goodput,
        {"queue": {"discipline": "codel", "ecn": True}},
        (tb.bulk("cubic", name="bulk", stack={"name": "linux", "ecn": True}),),
    ),
    EventPath(
        "control",
        "Reno, 2 Mbit/s, 40 ms, nothing lost",
        "goodput (Mbit/s)",
        _goodput,
        {"rate": "2mbit", "queue": "1000packets"},
        (tb.bulk("reno", name="bulk"),),
    ),
)


@dataclass(frozen=True)
class Expected:
    """A change in a release, and the first kernel in which it must be visible (`seen`), or "" for never."""

    title: str
    since: str
    source: str
    where: str
    seen: str
    #: Whether it was chosen after its numbers were known; it then does not count.
    is_fitted: bool = False


EXPECTED = (
    Expected("A window may shrink (off); long in 6.1 as a backport", "6.5", "b650d953cd39", "tcp_shrink_window", ""),
    Expected("Smallest timeout as a setting", "6.11", "f086edef71be", "tcp_rto_min_us", "debian-6.12"),
    Expected("Largest timeout as a setting", "6.15", "1280c26228bd", "tcp_rto_max_ms", "debian-6.16"),
    Expected(
        "Receive buffers up to 32 MB (here 1/128 of memory), 6 MB before",
        "6.16",
        "572be9bf9d0d",
        "tcp_rmem",
        "debian-6.16",
    ),
    Expected(
        "Send queue below a device up to 4 MB, 1 MB before",
        "6.16",
        "9ea3bfa61b09",
        "tcp_limit_output_bytes",
        "debian-6.16",
    ),
    Expected("AccECN and its option", "6.18", "tcp: accecn: AccECN option", "tcp_ecn_option", "debian-7.2"),
    Expected(
        "SACKs held back for a third of the RTT, 5 % before",
        "6.19",
        "416dd649f3aa",
        "tcp_comp_sack_rtt_percent",
        "debian-7.2",
    ),
    Expected(
        "… so that fewer ACKs come where 5 % of the RTT is less than 1 ms",
        "6.19",
        "416dd649f3aa",
        "lossy",
        "debian-7.2",
    ),
    Expected("… and as many where it is more", "6.19", "416dd649f3aa", "lossy-far", ""),
    Expected(
        "Receive buffers grow more slowly at a small RTT", "6.19", "ecfea98b7d0d", "tcp_rcvbuf_low_rtt", "debian-7.2"
    ),
    Expected(
        "CUBIC's slow start where the round trip is short",
        "6.12",
        "?",
        "near",
        "debian-6.12",
        is_fitted=True,
    ),
    Expected("Control: nothing of all this", "–", "–", "control", ""),
)


@dataclass(frozen=True)
class Trial:
    """One kernel with one change: settings of a host, or a receive buffer of constant size."""

    path: str
    kernel: str
    host: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    buffer: str = ""

    @property
    def change(self) -> str:
        """The change, in words."""
        settings = ", ".join(f"{name} {value}" for name, value in self.settings)
        return settings or (f"receive buffer {self.buffer}" if self.buffer else "nothing")

    @property
    def key(self) -> str:
        """Its key in the stored rows."""
        return f"{self.kernel} {self.path}: {self.change}"

    def run(self) -> dict[str, Any]:
        """Run it. A host's settings are written by a flow, which takes half a second."""
        path = next(path for path in PATHS if path.name == self.path)
        plain = path.disturbed(0) if self.path == "bbr" else path.scenario(1)
        if self.buffer:
            own = {"name": "linux", "receive_buffer": self.buffer}
            plain = plain.with_(flows=[flow.with_(stack=own) for flow in plain.flows])
        if not self.settings:
            return _run_path(self.kernel, path, plain)
        with tempfile.TemporaryDirectory() as folder:
            script = "".join(f"echo {value} > /proc/sys/net/ipv4/{name}\n" for name, value in self.settings)
            listens = """exec perl -e 'socket(S,2,1,6);bind(S,pack("SnNx8",2,5001,0));listen(S,1);sleep 600'\n"""
            for host in ("left", "right"):
                does = (script if host == self.host else "") + (listens if host == "right" else "sleep 600\n")
                Path(folder, f"{host}.sh").write_text(does)
            sets = tb.flow(
                "exec",
                name="sets",
                client="sh {here}/left.sh",
                server="sh {here}/right.sh",
                params={"needs": "sh sleep perl"},
            )
            flows = [flow.with_(start="500ms") for flow in plain.flows]
            longer = plain.with_(flows=[sets, *flows])
            if self.path == "bbr":
                longer = longer.with_(duration="2s")
            file = Path(folder) / "scenario.toml"
            file.write_text(longer.to_toml())
            return _run_path(self.kernel, path, tb.Scenario.from_toml(file))


#: tcp_tso_should_defer() does not wait if this share of the window, 1/3 by default, can be sent.
_DIVISOR = "tcp_tso_win_divisor"
_SACKS = ("tcp_comp_sack_rtt_percent", "tcp_comp_sack_slack_ns")
TRIALS = (
    *(Trial("bbr", kernel, "left", ((_DIVISOR, n),)) for kernel in ("debian-6.16", "debian-6.17") for n in ("3", "40")),
    *(Trial("lossy", "debian-6.16", "left", ((_DIVISOR, n),)) for n in ("3", "40")),
    *(Trial("lossy", f"debian-6.12.{point}") for point in (43, 57)),
    Trial("lossy", "debian-7.2", "right", ((_SACKS[0], "33"), (_SACKS[1], "10000"))),
    Trial("lossy", "debian-7.2", "right", ((_SACKS[0], "5"), (_SACKS[1], "100000"))),
    *(Trial("lossy-far", kernel, buffer="64kB") for kernel in KERNELS),
)
"""Trials chosen after seeing the rows of segments: each changes the presumed cause."""
_ROOM = "room"


def _run_room(kernel: str, path: EventPath) -> dict[str, Any]:
    """The smallest room in the receive window beyond the flight before BBR's first loss, and that window."""
    result = vm.run(path.disturbed(0).with_(instruments={"segments": "all"}), kernel=kernel)
    rows, first = result.numpy("segments"), result.column("congestion", "t_s").min()
    sent = (rows["at_receiver"] == 0) & (rows["outgoing"] == 1) & (rows["length"] > 0) & (rows["t_s"] < first)
    room = rows["snd_wnd"][sent].astype(float) - rows["in_flight"][sent]
    return {"kernel": result.meta["kernel"], "value": float(room.min())}


_ACKS = "acks"
_PSH = 8
_MSS = 1448


def _run_acks(kernel: str, path: EventPath) -> dict[str, Any]:
    """ACKs of single in-order segments, with and without PSH, and duplicate ACKs; and the largest window."""
    result = vm.run(path.scenario(1).with_(instruments={"segments": "all"}), kernel=kernel)
    rows = result.numpy("segments")
    there = rows["at_receiver"] == 1
    columns = (rows[name][there].astype(int).tolist() for name in ("outgoing", "seq", "length", "ack", "flags"))
    counts, newest, last, pushed = {"pushed": 0, "plain": 0, "nothing": 0}, 0, 0, False
    for outgoing, seq, length, ack, flags in zip(*columns, strict=True):
        if not outgoing and length:
            newest, pushed = max(newest, seq + length), bool(flags & _PSH)
        elif outgoing and last and newest:
            counts["nothing"] += ack == last
            counts["pushed" if pushed else "plain"] += ack >= newest and 0 < ack - last <= _MSS
        last = ack if outgoing else last
    return {"kernel": result.meta["kernel"], **counts, "window": int(rows["rcv_wnd"][there].max())}


def _run_settings(kernel: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "read.sh"
        script.write_text(_READ + "\n")
        path = Path(folder) / "scenario.toml"
        params = {"needs": "sh cat unshare", "collect": "settings.txt"}
        reads = tb.flow("exec", name="reads", client="unshare -n sh {here}/read.sh {dir}", params=params)
        path.write_text(tb.dumbbell(name="settings", rate="10mbit", rtt="20ms", duration="1s", flows=[reads]).to_toml())
        result = vm.run(tb.Scenario.from_toml(path), kernel=kernel, allow_code=True)
    (text,) = (text.decode() for name, text in result.files.items() if name.endswith("settings.txt"))
    pairs = (line.partition(" ") for line in text.splitlines())
    return {"kernel": result.meta["kernel"], "settings": {name: value for name, _, value in pairs}}


def _run_path(kernel: str, path: EventPath, scenario: tb.Scenario) -> dict[str, Any]:
    result = vm.run(scenario, kernel=kernel, allow_code=True)
    return {"kernel": result.meta["kernel"], "value": path.measure(result)}


def run_missing(seconds: float = math.inf, report: Callable[[str], object] = lambda _: None) -> dict[str, Any]:
    """Run missing paths in guests, starting none after `seconds`. Returns all stored rows."""
    rows, until = read(_FILE), time.monotonic() + seconds
    wanted: dict[str, Callable[[], dict[str, Any]]] = {}
    for kernel in KERNELS:
        wanted[f"{kernel} {_SETTINGS}"] = partial(_run_settings, kernel)
        for path in PATHS:
            for seed in SEEDS:
                wanted[f"{kernel} {path.name} {seed}"] = partial(_run_path, kernel, path, path.scenario(seed))
    bbr = next(path for path in PATHS if path.name == "bbr")
    wanted |= {f"{kernel} {_ROOM}": partial(_run_room, kernel, bbr) for kernel in KERNELS}
    wanted |= {trial.key: trial.run for trial in TRIALS}
    for path in (path for path in PATHS if path.name.startswith("lossy")):
        wanted |= {f"{kernel} {path.name} {_ACKS}": partial(_run_acks, kernel, path) for kernel in KERNELS}
    for start in range(DISTURBED):
        for kernel in KERNELS:
            wanted[f"{kernel} {_LATE} {start}"] = partial(_run_path, kernel, bbr, bbr.disturbed(start))
    for key, run in wanted.items():
        if key in rows or time.monotonic() > until:
            continue
        try:
            rows[key] = run()
        except vm.LostRun as error:
            report(f"{key}: lost, the next call tries again: {error}")
            continue
        write_text(_FILE, json.dumps(rows, indent=1) + "\n")
        report(f"{len(rows)} of {len(wanted)}: {key}")
    return rows


@dataclass(frozen=True)
class Turn:
    """A change of a setting or of a path's number, first visible in the kernel `seen`."""

    where: str
    seen: str
    before: str
    after: str


def settings_that_changed(rows: Mapping[str, Any]) -> list[Turn]:
    """TCP settings that were added, removed or changed from one kernel to the next, in order of kernels."""
    out = []
    kept = [
        (kernel, rows[f"{kernel} {_SETTINGS}"]["settings"]) for kernel in KERNELS if f"{kernel} {_SETTINGS}" in rows
    ]
    for (_, before), (kernel, after) in itertools.pairwise(kept):
        out += [
            Turn(name, kernel, before.get(name, "–"), after.get(name, "–"))
            for name in sorted({*before, *after})
            if before.get(name) != after.get(name)
        ]
    return out


def values(rows: Mapping[str, Any], path: EventPath) -> dict[str, list[float]]:
    """A path's number by kernel, one value per seed."""
    keys = {kernel: [f"{kernel} {path.name} {seed}" for seed in SEEDS] for kernel in KERNELS}
    return {kernel: [rows[key]["value"] for key in names] for kernel, names in keys.items() if rows.keys() >= {*names}}


def turns(rows: Mapping[str, Any]) -> list[Turn]:
    """The changes of paths' numbers."""
    out = []
    for path in PATHS:
        by_kernel = list(values(rows, path).items())
        for (_, before), (kernel, after) in itertools.pairwise(by_kernel):
            changes = [b - a for a, b in zip(before, after, strict=True)]
            is_one_sided = all(change > 0 for change in changes) or all(change < 0 for change in changes)
            if is_one_sided and abs(sum(changes)) > BOUND * abs(sum(before)):
                out.append(Turn(path.name, kernel, _mean(before), _mean(after)))
    return out


def _mean(numbers: Sequence[float]) -> str:
    return f"{sum(numbers) / len(numbers):.4g}"


def judged(rows: Mapping[str, Any]) -> list[tuple[Expected, str]]:
    """Each expected event, with the kernels in which it is visible, in order; none if runs are missing."""
    found = [*settings_that_changed(rows), *turns(rows)]
    waiting = {path.name for path in PATHS if len(values(rows, path)) < len(KERNELS)}
    there = [each for each in EXPECTED if each.where not in waiting]
    return [(each, ", ".join(turn.seen for turn in found if turn.where == each.where)) for each in there]


def _outcome(each: Expected, seen: str) -> str:
    if each.is_fitted:
        return "fitted: seen before on two kernels"
    return "" if seen == each.seen else "**missed**"


def _counted(events: Sequence[tuple[Expected, str]]) -> str:
    changes, none = (
        [seen == each.seen for each, seen in events if not each.is_fitted and bool(each.seen) == is_change]
        for is_change in (True, False)
    )
    return (
        f"{sum(changes)} of {len(changes)} changes are seen where they were expected. Of {len(none)} rows that expect "
        f"none {sum(none)} have none, the control on a full link among them; what is fitted does not count."
    )


def _rmem(rows: Mapping[str, Any]) -> str:
    """How little the largest receive buffer changes after the kernel where its change was expected."""
    turns = [turn for turn in settings_that_changed(rows) if turn.where == "tcp_rmem"]
    sizes = [[int(value.split()[-1]) for value in (turn.before, turn.after)] for turn in turns[1:]]
    most = max((abs(after / before - 1.0) for before, after in sizes), default=0.0)
    return (
        f"`tcp_rmem` is first seen where it was expected. It misses by the rule, as it changes by up to "
        f"{100 * most:.1f} % in later kernels, whose memory differs."
    )


def page(rows: Mapping[str, Any]) -> str:
    """The page of all stored rows."""
    events = judged(rows)
    whose = [row["kernel"] for kernel in KERNELS if (row := rows.get(f"{kernel} {_SETTINGS}"))]
    lines = [
        "# TCP from Linux 6.1 to 7.3, as events",
        "`python -m tailback_validation.kernel_events` writes this page. Read it to see what changes for TCP where a "
        "machine gets a newer kernel. Each kernel ran the same paths in guests, "
        f"{PATHS[0].duration_s} s and {len(SEEDS)} starts each.",
        "The kernels: "
        + ", ".join(each["release"].replace("-cloud-amd64", "") for each in whose)
        + ". Debian's archive "
        "keeps no others between them.",
        "## What was expected",
        "The events, with the release and the commit that brought them, were written down before the first run. *Seen* "
        f"has each kernel here in which the setting changed, or whose number differs by more than {100 * BOUND:g} % "
        "from the kernel's before, in both starts to the same side.",
        _counted(events),
        _table(
            ("event", "since", "commit", "looked at", "expected in", "seen in", ""),
            [
                (
                    each.title,
                    each.since,
                    each.source,
                    f"`{each.where}`",
                    each.seen or "none",
                    seen or "none",
                    _outcome(each, seen),
                )
                for each, seen in events
            ],
        ),
        _rmem(rows),
        "## Every setting that changed",
        _table(
            ("setting", "since", "before", "after"),
            [(f"`{it.where}`", it.seen, it.before, it.after) for it in settings_that_changed(rows)],
        ),
        "## Every path",
        "Bold: it turned here.",
        _table(("path", "number", *KERNELS), [_path_row(rows, path) for path in PATHS if values(rows, path)]),
        "The most that a receive buffer may take is a share of the memory that the kernel leaves "
        "free, so each has its own.",
        *_late(rows),
        *_why(rows),
        "Several changes lie between two neighbours, and a path shows that one of them matters, not which. Find the "
        "commit with `tailback vm bisect` ([kernel module](tutorials/kernel-module.md)).",
    ]
    return "\n\n".join(lines) + "\n"


def late(rows: Mapping[str, Any]) -> dict[str, list[float]]:
    """BBR's retransmissions in the stored `DISTURBED` starts, sorted, by kernel."""
    kept = {
        kernel: sorted(rows[key]["value"] for start in range(DISTURBED) if (key := f"{kernel} {_LATE} {start}") in rows)
        for kernel in KERNELS
    }
    return {kernel: own for kernel, own in kept.items() if own}


def _late(rows: Mapping[str, Any]) -> list[str]:
    found = late(rows)
    if not found:
        return []
    differ = [
        kernel
        for kernel, own in found.items()
        if all(abs(median(own) - median(other)) >= APART for name, other in found.items() if name != kernel)
    ]
    wide = [kernel for kernel, own in found.items() if own[-1] - own[0] >= APART]
    return [
        "## BBR's Startup, a microsecond apart",
        f"What BBR repeats in its first 1.5 s on the path above, in up to {DISTURBED} starts a microsecond apart. The "
        f"rule was written before the first: a kernel differs if its median is {APART} from each other's; the "
        f"difference is phase if any kernel's own starts spread by as much. Differing: {', '.join(differ) or 'none'}. "
        f"Spread: {', '.join(wide) or 'none'}.",
        _table(
            ("kernel", "segments sent again", "median"),
            [(kernel, ", ".join(f"{it:g}" for it in own), f"{median(own):g}") for kernel, own in found.items()],
        ),
    ]


def _why(rows: Mapping[str, Any]) -> list[str]:
    """What explains BBR's 6.17 and the ACKs, from the trials that have run."""
    room = {kernel: rows[key]["value"] for kernel in KERNELS if (key := f"{kernel} {_ROOM}") in rows}
    run = [trial for trial in TRIALS if trial.key in rows]
    labels = {path.name: (path.label, path.number) for path in PATHS}
    acks = [
        (labels[name][0], kernel, *(f"{row[kind]:,}" for kind in ("pushed", "plain", "nothing", "window")))
        for name in ("lossy", "lossy-far")
        for kernel in KERNELS
        if (row := rows.get(f"{kernel} {name} {_ACKS}"))
    ]
    return [
        "## Why",
        "The reasons were read in the rows of segments, and each was then changed alone. The changes were chosen with "
        "those rows in view.",
        "**BBR on 6.17.** On 6.16 and 6.17 the receive window stops Startup, and on no other. The least that it left "
        "beside what was in flight, before the first loss, in bytes:",
        _table(KERNELS, [[f"{room[kernel]:,.0f}" if kernel in room else "–" for kernel in KERNELS]]),
        "Where the window leaves less than the two segments that pacing lets go, 6.16 waits for the next ACK, and "
        "6.17 sends what fits: there the two first part. Commit 295ce1eb36ae (6.18; 6.1 and 6.12 have it as a "
        "backport, and 6.17 acts as with it) sends if the next ACK is more than 1 ms away. "
        f"Before, it had to be half a round trip away. A large `{_DIVISOR}` has 6.16 send as well.",
        "**ACKs where the round trip is 8 ms.** Without that commit two segments wait for each other after a loss, and "
        "one ACK answers both. With it they leave one by one, each with PSH set, and a receiver acknowledges such a "
        "segment when it has read it. Of these kernels 6.16 alone acts as without it. From 7.2 on SACKs are held back "
        "for longer, so fewer ACKs say nothing new in order.",
        "**ACKs where it is 80 ms.** A receiver whose window grows acknowledges at once, PSH or not, and each kernel's "
        "window grows by other rules. In a buffer that does not grow, the kernels are closer.",
        _table(
            ("path", "kernel", "ACKs of one segment with PSH", "of one without", "of nothing new", "largest window, B"),
            acks,
        ),
        "What was changed. A value is the number of the path, and the first of a pair is the kernel's default:",
        _table(
            ("path", "number", "kernel", "changed", "value"),
            [(*labels[trial.path], trial.kernel, trial.change, f"{rows[trial.key]['value']:.4g}") for trial in run],
        ),
        "**CUBIC where it is 20 ms.** It is HyStart: with `tcp_cubic.hystart=0` on the kernel's command line 6.1 and "
        "6.12 repeat equally many segments. With it an ACK train ends slow start, sooner on 6.12. Of these runs no "
        "rows are kept. `tailback vm bisect debian-6.1 debian-6.12` with this path and `--expect 'bulk.retransmitted "
        "> 20'` ends at 6.12.43, the first of 6.12 in Debian's archive. There slow start ends at 30 segments, and at "
        "51 on 6.1 (`TCPHystartTrainCwnd` of the sender). `tcp_cubic.c` of 6.1.192 and of 6.12.118 differ in what they "
        "declare for BPF alone, so the cause lies outside it. The commit is not known.",
    ]


def _path_row(rows: Mapping[str, Any], path: EventPath) -> tuple[str, ...]:
    turned = {turn.seen for turn in turns(rows) if turn.where == path.name}
    by_kernel = values(rows, path)
    shown = {kernel: _mean(numbers) for kernel, numbers in by_kernel.items()}
    cells = (f"**{shown[kernel]}**" if kernel in turned else shown.get(kernel, "–") for kernel in KERNELS)
    return (path.label, path.number, *cells)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(seconds: float = math.inf) -> None:
    """Run what is missing and write the page."""
    rows = run_missing(seconds, report=lambda text: print(text, flush=True))
    write_text(PAGE, page(rows))
    print(_counted(judged(rows)))


if __name__ == "__main__":
    main(*(float(word) for word in sys.argv[1:]))
