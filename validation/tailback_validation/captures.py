"""Compares `tailback pcap` with tshark and tcptrace on the same files, and writes a page.

The files are runs with loss, reordering and a slow reverse path, captured at senders and receivers, and real ones by
tcpdump from `docs/captures`. Counts must be equal, round trips equal to the precision that the other program prints.
"""

from __future__ import annotations

import gzip
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tailback as tb
from tailback import capture
from tailback.files import whole_file

PAGE = Path(__file__).parents[2] / "docs" / "validation-captures.md"
REAL = Path(__file__).parents[2] / "docs" / "captures"
#: Half of the last digit that tcptrace prints, in milliseconds, and a nanosecond's rounding to microseconds.
RTT_MS = 0.051
#: Tolerance of the number of samples: a handshake's sample and one at the end may be counted differently.
SAMPLES = 2
#: Link type of Linux cooked frames, version 2, which tcptrace does not read; they are stripped to bare IP.
_COOKED = 20
_REPAIRS = ("retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order")


@dataclass(frozen=True)
class File:
    """A capture and its properties."""

    name: str
    path: Path
    #: Whether it was taken at the sender, where no packet can have been lost or reordered before.
    is_at_sender: bool
    is_cooked: bool = False


@dataclass(frozen=True)
class Agreement:
    """One number of one file by both programs."""

    file: str
    what: str
    other: str
    ours: float
    theirs: float
    allowed: float

    @property
    def is_met(self) -> bool:
        """Whether both numbers agree."""
        return abs(self.ours - self.theirs) <= self.allowed


def files(folder: Path) -> list[File]:
    """Captures of three runs at both ends, and real ones."""
    base: dict[str, Any] = {"rate": "10mbit", "rtt": "40ms", "queue": "0.5bdp", "duration": "10s"}
    runs = {
        "loss": base | {"wire": {"loss": 0.003}},
        "reordering": base | {"wire": {"reorder": 0.002, "reorder_delay": "8ms"}},
        "slow way back": base | {"back_rate": "200kbit", "back_queue": "20packets"},
    }
    out = []
    for name, shape in runs.items():
        flows = [tb.bulk(cc="cubic", stop="9s"), tb.voip(stop="9s")]
        result = tb.run(tb.dumbbell(flows=flows, **shape).with_({"instruments.captures": ["left", "right"]}))
        for point in ("left", "right"):
            path = folder / f"{name.replace(' ', '-')}-{point}.pcapng"
            capture.export(result, point, path)
            out.append(File(f"run with {name}, {'sender' if point == 'left' else 'receiver'}", path, point == "left"))
    for name, at_sender in (("phone", True), ("gateway", False), ("download", False)):
        path = folder / f"{name}.pcap"
        path.write_bytes(gzip.decompress((REAL / f"{name}.pcap.gz").read_bytes()))
        out.append(File(f"tcpdump, `{name}`", path, at_sender, is_cooked=True))
    return out


def output(*words: str | Path) -> str:
    """A program's standard output."""
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True).stdout


def _flow(file: File) -> tuple[dict[str, Any], str, str]:
    """The connection with the most payload: its row, and the column prefixes of its sender and receiver."""
    frame = capture.flows(file.path)
    row = frame.row(capture.reading.choose(frame, None), named=True)
    return row, *(("back_", "") if row["back_payload"] > row["payload"] else ("", "back_"))


def with_tcptrace(file: File, folder: Path) -> list[Agreement]:
    """Counts and round trips by Karn's rule."""
    plain = folder / f"{file.path.stem}-plain.pcap"
    cut = ("-C", str(_COOKED), "-T", "rawip") if file.is_cooked else ()
    output("editcap", "-F", "pcap", *cut, file.path, plain)
    # It has microsecond timestamps, so use ours from the same converted file.
    row, own, back = _flow(File(file.name, plain, file.is_at_sender))
    text = output("tcptrace", "-r", "-l", "-n", plain)
    sides = {"": 0, "back_": 1} if f"host a:        {row['client']}:" in text else {"": 1, "back_": 0}

    def theirs(name: str, side: str) -> float:
        found = re.findall(rf"^\s+{name}:\s+([\d.]+)(?: \w+)?\s+{name}:\s+([\d.]+)", text, re.MULTILINE)
        return float(found[-1][sides[side]])

    rows: list[tuple[str, float, float, float]] = []
    for side, who in ((own, "sender"), (back, "receiver")):
        rows.append((f"packets of the {who}", row[f"{side}packets"], theirs("total packets", side), 0))
        rows.append((f"bytes of payload, {who}", row[f"{side}payload"], theirs("actual data bytes", side), 0))
    rows.append(("segments with payload", row[f"{own}data_packets"], theirs("actual data pkts", own), 0))
    again, overtaken = row[f"{own}retransmitted"], row[f"{own}out_of_order"]
    if not file.is_at_sender:
        # tcptrace counts retransmissions of segments lost before this point as out of order, like reordered ones.
        both = theirs("rexmt data pkts", own) + theirs("outoforder pkts", own)
        rows.append(("sent again or overtaken", again + overtaken, both, 0))
    else:
        rows.append(("sent again", again, theirs("rexmt data pkts", own), 0))
        rows.append(("overtaken", overtaken, theirs("outoforder pkts", own), 0))
        rows.append(("RTT samples", row[f"{own}rtt_count"], theirs("RTT samples", own), SAMPLES))
        for word, name in (("least", "min"), ("mean", "mean"), ("largest", "max")):
            other = theirs(f"RTT {'avg' if name == 'mean' else name}", own)
            rows.append((f"{word} RTT, ms", 1e3 * row[f"{own}rtt_{name}_s"], other, RTT_MS))
    return [Agreement(file.name, what, "tcptrace", ours, other, allowed) for what, ours, other, allowed in rows]


def with_tshark(file: File, _: Path) -> list[Agreement]:
    """Counts, and the retransmissions found by its analysis."""
    row, own, back = _flow(file)
    port, peer = row["client_port"], row["server_port"]
    only = f"tcp.port == {port} and tcp.port == {peer} and ip.addr == {row['client']}"
    names = ("ip.src", "ip.len", "tcp.len", "tcp.analysis.ack_rtt")
    words = [word for name in names for word in ("-e", name)]
    lines = [line.split("\t") for line in
             output("tshark", "-r", file.path, "-Y", only, "-T", "fields", *words).splitlines()]  # fmt: skip
    hosts = {"": row["client"], "back_": row["server"]}
    rows: list[tuple[str, float, float, float]] = []
    for side, who in ((own, "sender"), (back, "receiver")):
        mine = [line for line in lines if line[0] == hosts[side]]
        rows.append((f"packets of the {who}", row[f"{side}packets"], len(mine), 0))
        rows.append((f"IP bytes of the {who}", row[f"{side}bytes"], sum(int(line[1]) for line in mine), 0))
        rows.append((f"bytes of payload, {who}", row[f"{side}payload"], sum(int(line[2]) for line in mine), 0))
    if file.is_at_sender:
        kinds = " or ".join(f"tcp.analysis.{kind}" for kind in _REPAIRS)
        wanted = f"{only} and ip.src == {hosts[own]} and tcp.len > 0 and ({kinds})"
        again = len(output("tshark", "-r", file.path, "-Y", wanted).splitlines())
        rows.append(("sent again", row[f"{own}retransmitted"], again, 0))
        rtts = [float(line[3]) for line in lines if line[0] == hosts[back] and line[3]]
        rows.append(("least RTT, ms", 1e3 * row[f"{own}rtt_min_s"], 1e3 * min(rtts), 0.001))
    return [Agreement(file.name, what, "tshark", ours, other, allowed) for what, ours, other, allowed in rows]


PROGRAMS: dict[str, tuple[tuple[str, ...], Callable[[File, Path], list[Agreement]]]] = {
    "tshark": (("tshark",), with_tshark),
    "tcptrace": (("tcptrace", "editcap"), with_tcptrace),
}


def compare() -> tuple[list[Agreement], list[str]]:
    """Every number of every file, and the names of programs that are not installed."""
    rows, absent = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        made = files(folder)
        for name, (needed, ask) in PROGRAMS.items():
            if any(shutil.which(word) is None for word in needed):
                absent.append(name)
                continue
            rows += [row for file in made for row in ask(file, folder)]
    return rows, absent


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() or math.isinf(value) else f"{value:,.3f}"


def page(rows: list[Agreement], absent: list[str]) -> str:
    """The page."""
    met = sum(row.is_met for row in rows)
    lines = [
        "| file | with | what | tailback | the other | agree |",
        "|---|---|---|---|---|---|",
        *(f"| {row.file} | {row.other} | {row.what} | {_number(row.ours)} | {_number(row.theirs)} | "
          f"{'yes' if row.is_met else '**no**'} |" for row in rows),
    ]  # fmt: skip
    missing = f"\n\nNot installed, and so not asked: {', '.join(absent)}." if absent else ""
    table = "\n".join(lines)
    return f"""# Captures, beside tshark and tcptrace

Written by `make validate`; do not edit. Read it to see how far figures of `tailback pcap` can be
trusted. The same files are given to `tailback pcap`, tshark and tcptrace: captures of
runs with loss, reordering and a slow way back, and real ones by tcpdump (`docs/captures`). Of each the connection of
most payload. Counts have to be equal; round trips may differ by {RTT_MS} ms from tcptrace, which prints tenths, and
their samples by {SAMPLES}. At the receiver a segment that fills a gap was either overtaken, or lost and sent again;
neither program says which, so there the sum is compared. RTTs, and what tshark counts as sent again, at the sender.

**{met} of {len(rows)} numbers agree.**{missing}

{table}
"""


def main() -> None:
    """Compare, write the page, and print how many numbers agree."""
    rows, absent = compare()
    with whole_file(PAGE) as partial:
        partial.write_text(page(rows, absent), encoding="utf-8")
    print(f"{sum(row.is_met for row in rows)} of {len(rows)} numbers agree with tshark and tcptrace: {PAGE.name}")
    for row in rows:
        if not row.is_met:
            print(f"  {row.file}, {row.what}: {_number(row.ours)}, {row.other} {_number(row.theirs)}")


if __name__ == "__main__":
    main()
