"""Identifies the congestion control that a flow resembles.

A forest of decision trees, trained on the simulator's own runs (`make identify`), votes on the features of a capture.
The model is arrays of numbers and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tailback.capture.features import features
from tailback.capture.reading import CaptureError, FilePath, choose, derived, read
from tailback.capture.rounds import Rounds, of_segments

Array = npt.NDArray[Any]

#: Minimum round trips for an answer.
_LEAST_ROUNDS = 25
#: From this share of rounds that filled the offered window on, the receiver limited the sender.
_FILLED, _MOST_FILLED = 0.9, 0.5
#: From this share of empty rounds on, the sender is limited by its application and does not show its window.
_MOST_EMPTY = 0.6
#: Usual port of QUIC.
_QUIC_PORT = 443
#: Note for a capture without the handshake.
_BEGUN_LATE = "the capture began after the connection, so neither its slow start nor the window offered is known"


@dataclass(frozen=True)
class Forest:
    """Decision trees as arrays: a node sends values up to its threshold to the left child, others to the next one."""

    #: Features by name, in the order of the columns.
    names: tuple[str, ...]
    #: Labels that leaves vote for.
    labels: tuple[str, ...]
    families: Mapping[str, Sequence[str]]
    #: Minimum confidence of an answer.
    least: float
    #: For each node: its column, or -1 for a leaf,
    column: Array
    #: threshold
    threshold: Array
    #: and its left child, or in a leaf its row of `votes`.
    child: Array
    roots: Array
    #: One row per leaf: shares in units of 1/255.
    votes: Array
    #: Share of votes and the accuracy at that share, for algorithms and for families.
    sure: tuple[Array, Array]
    sure_family: tuple[Array, Array]

    def shares(self, values: Array) -> Array:
        """The share of votes for each label, for each row of features; NaN is an unknown feature."""
        values = np.asarray(values, dtype=np.float32)
        total = np.zeros((len(values), len(self.labels)))
        is_whole = ~np.isnan(values).any(axis=1)
        total[is_whole] = self._votes(values[is_whole])
        for row in np.flatnonzero(~is_whole):
            total[row] = self._votes_of_some(values[row])
        shares: Array = total / total.sum(axis=1, keepdims=True)
        return shares

    def _votes(self, values: Array) -> Array:
        total = np.zeros((len(values), len(self.labels)))
        rows = np.arange(len(values))
        for root in self.roots:
            node = np.full(len(values), root)
            while True:
                column = self.column[node]
                inner = column >= 0
                if not inner.any():
                    break
                below = values[rows, np.maximum(column, 0)] <= self.threshold[node]
                node = np.where(inner, self.child[node] + ~below, node)
            total += self.votes[self.child[node]]
        return total

    def _votes_of_some(self, values: Array) -> Array:
        """Votes if features are unknown: both children vote, weighted by their leaves (as in C4.5)."""
        total = np.zeros(len(self.labels))
        waiting = [(int(root), 1.0) for root in self.roots]
        while waiting:
            node, weight = waiting.pop()
            column, child = int(self.column[node]), int(self.child[node])
            if column < 0:
                total += weight * self.votes[child]
            elif values[column] == values[column]:
                waiting.append((child + int(not values[column] <= self.threshold[node]), weight))
            else:
                left, right = self._leaves[child], self._leaves[child + 1]
                waiting += [(child, weight * left / (left + right)), (child + 1, weight * right / (left + right))]
        return total

    @cached_property
    def _leaves(self) -> Array:
        """Number of leaves below each node; children have larger numbers than their parent."""
        out = np.ones(len(self.column))
        for node in range(len(self.column) - 1, -1, -1):
            if self.column[node] >= 0:
                out[node] = out[self.child[node]] + out[self.child[node] + 1]
        return out

    def answer(self, shares: Array) -> tuple[str, float]:
        """An algorithm, a family, or "unknown", with the accuracy of such answers."""
        best = int(np.argmax(shares))
        confidence = float(np.interp(shares[best], *self.sure))
        if confidence >= self.least:
            return self.labels[best], confidence
        sums = {name: sum(shares[self.labels.index(one)] for one in members) for name, members in self.families.items()}
        family = max(sums, key=lambda name: sums[name])
        together = float(np.interp(sums[family], *self.sure_family))
        return (family, together) if together >= self.least else ("unknown", max(confidence, together))

    def save(self, path: FilePath) -> None:
        """Write the arrays."""
        about = {"names": self.names, "labels": self.labels, "families": dict(self.families), "least": self.least}
        with Path(path).open("wb") as out:
            np.savez_compressed(
                out, about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8), column=self.column,
                threshold=self.threshold, child=self.child, roots=self.roots, votes=self.votes,
                sure=np.array(self.sure), sure_family=np.array(self.sure_family),
            )  # fmt: skip

    @staticmethod
    def load(path: Any) -> Forest:
        """Read the arrays; executes nothing from the file."""
        with np.load(path, allow_pickle=False) as it:
            about = json.loads(bytes(it["about"]))
            return Forest(
                tuple(about["names"]), tuple(about["labels"]), about["families"], about["least"], it["column"],
                it["threshold"], it["child"], it["roots"], it["votes"], tuple(it["sure"]), tuple(it["sure_family"]),
            )  # fmt: skip


@cache
def forest() -> Forest:
    """The forest that comes with tailback."""
    with (resources.files("tailback.capture") / "identify.npz").open("rb") as file:
        return Forest.load(file)


@dataclass(frozen=True)
class Answer:
    """The congestion control that a flow resembles."""

    name: str
    #: An algorithm, a family of them ("reno-like"), or "unknown".
    looks_like: str
    #: Accuracy of answers with this share of votes, on runs that were not used for training.
    confidence: float
    #: Share of the votes by algorithm, largest first.
    votes: dict[str, float]
    #: Why the answer is unknown, or its limitations.
    why: str
    round_trips: int
    base_rtt_s: float

    def row(self) -> dict[str, Any]:
        """The answer as a table row."""
        first = ", ".join(f"{label} {100 * share:.0f} %" for label, share in list(self.votes.items())[:3])
        return {
            "flow": self.name,
            "looks_like": self.looks_like,
            "confidence": round(self.confidence, 3),
            "votes": first,
            "round_trips": self.round_trips,
            "base_rtt_ms": round(self.base_rtt_s * 1e3, 3),
            "why": self.why,
        }


def _of_rounds(it: Rounds, trees: Forest) -> Answer:
    count = len(it.t_s)
    held = float((it.filled > _FILLED).mean())
    empty = float((it.sent < 1).mean())
    why = ""
    if count < _LEAST_ROUNDS:
        why = f"only {count} round trips; {_LEAST_ROUNDS} are the least that show a law"
    elif held > _MOST_FILLED:
        why = f"the receiver's window held the sender back in {100 * held:.0f} % of the round trips"
    elif empty > _MOST_EMPTY:
        why = f"the sender had nothing to send in {100 * empty:.0f} % of the round trips"
    if why:
        return Answer(it.name, "unknown", 0.0, {}, why, count, it.base_s)
    found = features(it)
    shares = trees.shares(np.array([[found[name] for name in trees.names]]))[0]
    looks, confidence = trees.answer(shares)
    order = np.argsort(-shares, kind="stable")
    votes = {trees.labels[index]: float(shares[index]) for index in order if shares[index] >= 0.01}
    if looks == "unknown":
        why = "no algorithm or family has enough of the votes"
    if not it.has_start:
        why = "; ".join(filter(None, (why, _BEGUN_LATE)))
    return Answer(it.name, looks, confidence, votes, why, count, it.base_s)


def _encrypted(row: Mapping[str, Any]) -> Answer | None:
    """The answer for a QUIC flow; `None` for others."""
    if row["protocol"] != 17:
        return None
    if row["quic"]:
        why = "QUIC: its acknowledgements are encrypted, so no window can be seen. Its ends can write a qlog"
    elif _QUIC_PORT in (row["client_port"], row["server_port"]):
        why = f"UDP on port {_QUIC_PORT}, perhaps QUIC that began before the capture: it shows no acknowledgements"
    else:
        return None
    return Answer(str(row["name"]), "unknown", 0.0, {}, why, 0, float("nan"))


def identify(path: FilePath, flow: int | str | None = None, *, least_bytes: int = 100_000) -> list[Answer]:
    """Which congestion control the main sender of each TCP connection in a capture resembles.

    Covers all connections with `least_bytes` of payload, or the one that `flow` names. With TCP timestamps the capture
    may be from any point of the path, without them only from the sender. It may begin later than the connection. The
    answer is an algorithm, a family such as "reno-like", or "unknown", as for QUIC flows, whose acknowledgements are
    encrypted: these come last. Raises `CaptureError`.

    >>> import tailback as tb
    >>> bell = tb.dumbbell(rate="10mbit", rtt="60ms", flows=[tb.bulk(cc="bbr")], duration="25s")
    >>> result = tb.run(bell.with_({"instruments.captures": ["right"]}))
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     count = tb.capture.export(result, "right", f"{folder}/client.pcapng", snap=96)
    ...     found = tb.capture.identify(f"{folder}/client.pcapng")
    >>> found[0].looks_like
    'bbr'
    """
    frame = derived(read(path).flows)
    if flow is not None:
        numbers = [choose(frame, flow)]
        encrypted = [it for it in map(_encrypted, [frame.row(numbers[0], named=True)]) if it]
        if encrypted:
            return encrypted
    else:
        large = frame.filter(pl.col("payload") + pl.col("back_payload") >= least_bytes)
        numbers = large.filter(pl.col("protocol") == 6)["flow"].to_list()
        encrypted = [it for it in map(_encrypted, large.iter_rows(named=True)) if it]
        if not numbers and not encrypted:
            raise CaptureError(f"no TCP connection has {least_bytes:,} bytes of payload among the {len(frame)} flows")
    found = read(path, segments=bool(numbers), only=numbers)
    segments = {key: np.asarray(column) for key, column in found.segments.items()}
    blocks = {key: np.asarray(column) for key, column in found.blocks.items()}
    out = []
    for number in numbers:
        row = frame.row(number, named=True)
        if row["protocol"] != 6:
            raise CaptureError(f"{row['name']} is no TCP connection")
        mine = np.flatnonzero(segments["flow"] == number)
        theirs = np.searchsorted(mine, blocks["row"])
        inside = (theirs < len(mine)) & (mine[np.minimum(theirs, len(mine) - 1)] == blocks["row"])
        own = {"row": theirs[inside], "start": blocks["start"][inside], "end": blocks["end"][inside]}
        try:
            it = of_segments(row, {key: column[mine] for key, column in segments.items()}, own)
        except CaptureError as error:
            if flow is not None:
                raise
            out.append(Answer(str(row["name"]), "unknown", 0.0, {}, str(error).split(": ", 1)[-1], 0, float("nan")))
            continue
        out.append(_of_rounds(it, forest()))
    return out + encrypted
