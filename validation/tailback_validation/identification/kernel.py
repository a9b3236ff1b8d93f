"""Evaluates the classifier on real kernels: tcpdump at both ends between namespaces, over the emulated path."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import tailback as tb
from tailback import capture, live
from tailback.capture.identify import Answer
from tailback_validation import truth
from tailback_validation.identification.runs import ALGORITHMS, PLAN

FILE = truth.FOLDER / "truth" / "identify-kernel.csv"
DUMP = "tcpdump -i any -s 128 --time-stamp-precision=nano -Z root -U -w -"


class Over(NamedTuple):
    """A path with its other conditions."""

    rate_mbit: float
    rtt_ms: float
    queue_bdp: float
    #: Share of the packets that are lost at random.
    loss: float = 0.0
    #: Algorithm of another bulk flow; empty if there is none.
    other: str = ""


#: Conditions: alone, under random loss, beside another bulk flow.
PATHS = (
    Over(8, 40, 1.0), Over(12, 80, 0.7), Over(5, 25, 2.0),
    Over(8, 40, 1.0, loss=0.002), Over(12, 80, 0.7, loss=0.003), Over(5, 25, 2.0, loss=0.005),
    Over(16, 40, 1.0, other="cubic"), Over(24, 80, 0.7, other="reno"), Over(10, 25, 2.0, other="bbr"),
)  # fmt: skip
SECONDS = 30
#: Algorithms of the kernel itself; the others are BPF twins of the models.
KERNELS_OWN = ("reno", "cubic", "bbr")
#: Number of parallel flows, each between its own hosts.
_AT_ONCE = 3


@dataclass(frozen=True)
class Asked:
    """One capture by tcpdump, with the classifier's answer."""

    algorithm: str
    source: str
    rate_mbit: float
    rtt_ms: float
    queue_bdp: float
    loss: float
    other: str
    end: str
    answer: str
    confidence: float

    @property
    def is_right(self) -> bool:
        """Whether the name or the family is right."""
        return self.algorithm == self.answer or self.algorithm in PLAN["families"].get(self.answer, ())


def _scenario(algorithms: Sequence[str], path: Over) -> tb.Scenario:
    """Each algorithm on its own link and hosts, with tcpdump at both ends."""
    links: list[dict[str, Any]] = []
    flows: list[Any] = []
    for number, algorithm in enumerate(algorithms):
        near, far = f"near{number}", f"far{number}"
        links.append({
            "name": f"link{number}", "from": near, "to": far, "rate": f"{path.rate_mbit}mbit",
            "delay": f"{path.rtt_ms / 2}ms", "queue": f"{path.queue_bdp}bdp", "duplex": True,
            "wire": {"loss": path.loss} if path.loss else {},
        })  # fmt: skip
        ends: dict[str, Any] = {"from_": near, "to": far}
        flows.append(tb.bulk(cc=algorithm, name=f"own{number}", start="1s", stop=f"{SECONDS}s", **ends))
        if path.other:
            flows.append(tb.bulk(cc=path.other, name=f"other{number}", start="1s", stop=f"{SECONDS}s", **ends))
        flows.append(tb.flow("exec", name=f"dump{number}", client=DUMP, server=DUMP, params={"ready": 0}, **ends))
    return tb.Scenario(links=[tb.Link(**link) for link in links], flows=flows, duration=f"{SECONDS + 2}s")


def dumps(algorithms: Sequence[str], path: Over, *, twins: bool) -> Iterator[tuple[str, str, str, bytes]]:
    """The captures of a run: algorithm, end, address of the flow's client, and file."""
    result = live.run(_scenario(algorithms, path), twins=twins, allow_code=True)
    for number, algorithm in enumerate(algorithms):
        own = result.flow_names.index(f"own{number}")
        for side, end in (("client", "sender"), ("server", "receiver")):
            yield algorithm, end, f"10.{own // 256}.{own % 256}.1", result.files[f"dump{number}/{side}.out"]


def answer(dump: bytes, client: str) -> Answer:
    """The classifier's answer for the flow of this client."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "dump.pcap"
        file.write_bytes(dump)
        return next(it for it in capture.identify(file) if it.name.startswith(f"{client}:"))


def ask(algorithms: Sequence[str], path: Over, *, twins: bool) -> list[Asked]:
    """Do one run, and classify each of its captures."""
    out = []
    for algorithm, end, client, dump in dumps(algorithms, path, twins=twins):
        found = answer(dump, client)
        own = "kernel" if algorithm in KERNELS_OWN and not twins else "twin"
        out.append(Asked(algorithm, own, *path, end, found.looks_like, round(found.confidence, 3)))
    return out


def measure() -> list[Asked]:
    """Measure the kernel's algorithms on every path, and all twins on the first.

    Takes eight minutes; needs root, tcpdump and BPF.
    """
    rows = [row for path in PATHS for row in ask(KERNELS_OWN, path, twins=False)]
    others = [name for name in ALGORITHMS if name not in (*KERNELS_OWN, "dctcp", "bbr3")]
    for start in range(0, len(others), _AT_ONCE):
        rows += ask(others[start : start + _AT_ONCE], PATHS[0], twins=True)
    with FILE.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow([field.name for field in fields(Asked)])
        writer.writerows(astuple(row) for row in rows)
    return rows


def known() -> list[Asked]:
    """The most recent measurements."""
    if not FILE.exists():
        return []
    with FILE.open(encoding="utf-8", newline="") as lines:
        return [
            Asked(row["algorithm"], row["source"], float(row["rate_mbit"]), float(row["rtt_ms"]),
                  float(row["queue_bdp"]), float(row["loss"]), row["other"], row["end"], row["answer"],
                  float(row["confidence"]))
            for row in csv.DictReader(lines)
        ]  # fmt: skip
