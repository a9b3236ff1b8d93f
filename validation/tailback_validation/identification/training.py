"""A forest of decision trees in NumPy: bagged by path, split by Gini's impurity, calibrated on out-of-bag votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tailback.capture.identify import Forest
from tailback_validation.identification.runs import PLAN, Row

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TREES = 60
#: Minimum rows of a leaf; four are two captures of two paths.
LEAST_ROWS = 4
#: Maximum steps of the calibration, and minimum rows of a step.
_STEPS, _ROWS_A_STEP = 20, 50


@dataclass
class _Growing:
    """The nodes of all trees so far."""

    column: list[int]
    threshold: list[float]
    child: list[int]
    votes: list[Array]


def _best_split(values: Array, labels: Ints, count: int, tried: Ints) -> tuple[float, int, float] | None:
    """The split with the least impurity over some columns; `None` if no split separates the rows."""
    best: tuple[float, int, float] | None = None
    rows = len(labels)
    for column in tried:
        order = np.argsort(values[:, column], kind="stable")
        sorted_ = values[order, column]
        cuts = np.flatnonzero(sorted_[1:] > sorted_[:-1]) + 1
        cuts = cuts[(cuts >= LEAST_ROWS) & (cuts <= rows - LEAST_ROWS)]
        if not len(cuts):
            continue
        one_hot = np.zeros((rows, count))
        one_hot[np.arange(rows), labels[order]] = 1.0
        left = np.cumsum(one_hot, axis=0)[cuts - 1]
        right = one_hot.sum(axis=0) - left
        impurity = rows - (left**2).sum(axis=1) / cuts - (right**2).sum(axis=1) / (rows - cuts)
        place = int(np.argmin(impurity))
        if best is None or impurity[place] < best[0]:
            cut = cuts[place]
            best = (float(impurity[place]), int(column), float((sorted_[cut - 1] + sorted_[cut]) / 2))
    return best


def _grow(values: Array, labels: Ints, count: int, stream: np.random.Generator, into: _Growing) -> int:
    """Grow one tree; returns its root."""
    tried = max(int(np.sqrt(values.shape[1])) + 2, 1)

    def reserve() -> int:
        into.column.append(-1)
        into.threshold.append(0.0)
        into.child.append(0)
        return len(into.column) - 1

    root = reserve()
    waiting = [(root, np.arange(len(labels)))]
    while waiting:
        node, rows = waiting.pop()
        own = labels[rows]
        split = None
        if len(rows) >= 2 * LEAST_ROWS and (own != own[0]).any():
            columns = stream.choice(values.shape[1], tried, replace=False)
            split = _best_split(values[rows], own, count, columns)
        if split is None:
            into.child[node] = len(into.votes)
            into.votes.append(np.bincount(own, minlength=count) / len(own))
            continue
        _, into.column[node], cut = split
        into.threshold[node] = float(np.float32(cut))
        below = values[rows, into.column[node]] <= into.threshold[node]
        left, right = reserve(), reserve()
        into.child[node] = left
        waiting += [(right, rows[~below]), (left, rows[below])]
    return root


def _calibrated(votes: Array, right: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
    """Accuracy by share of votes: monotonic (pool adjacent violators), in a few steps."""
    order = np.argsort(votes, kind="stable")
    parts = np.array_split(order, max(min(_STEPS, len(votes) // _ROWS_A_STEP), 1))
    pools: list[list[float]] = []
    for part in parts:
        pools.append([float(right[part].sum()), float(len(part)), float(votes[part].sum())])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] >= pools[-1][0] / pools[-1][1]:
            last = pools.pop()
            pools[-1] = [one + other for one, other in zip(pools[-1], last, strict=True)]
    share = np.array([pool[2] / pool[1] for pool in pools])
    return share, np.array([pool[0] / pool[1] for pool in pools])


def table(rows: Sequence[Row], names: Sequence[str]) -> Array:
    """Features as single-precision numbers, the form in which a forest uses them."""
    values = np.array([[row.values[name] for name in names] for row in rows], dtype=np.float32)
    return values.reshape(len(rows), len(names)).astype(np.float64)


def train(rows: Sequence[Row], trees: int = TREES) -> Forest:
    """Train a forest on these rows; the same rows give the same bytes."""
    names = tuple(rows[0].values)
    labels = tuple(sorted({row.label for row in rows}))
    values = table(rows, names)
    numbers = np.array([labels.index(row.label) for row in rows])
    paths = np.array([row.path for row in rows])
    known = np.unique(paths)
    places = {int(path): np.flatnonzero(paths == path) for path in known}
    into = _Growing([], [], [], [])
    roots, bags = [], []
    for tree in range(trees):
        stream = np.random.default_rng([PLAN["seed"], tree])
        drawn = stream.choice(known, len(known))
        chosen = np.concatenate([places[int(path)] for path in drawn])
        roots.append(_grow(values[chosen], numbers[chosen], len(labels), stream, into))
        bags.append(set(drawn.tolist()))
    families = {name: [one for one in members if one in labels] for name, members in PLAN["families"].items()}
    found = Forest(
        names, labels, {name: members for name, members in families.items() if members},
        PLAN["answer"]["least_confidence"], np.array(into.column, np.int16), np.array(into.threshold, np.float32),
        np.array(into.child, np.int32), np.array(roots, np.int32),
        np.round(255 * np.array(into.votes)).astype(np.uint8), _NOTHING, _NOTHING,
    )  # fmt: skip
    return _with_confidence(found, values, numbers, paths, bags)


_NOTHING = (np.array([0.0, 1.0]), np.array([0.0, 1.0]))


def _with_confidence(found: Forest, values: Array, numbers: Ints, paths: Ints, bags: list[set[int]]) -> Forest:
    """Calibrate the forest: only trees that have not seen a row's path vote on it."""
    total = np.zeros((len(values), len(found.labels)))
    for root, bag in zip(found.roots, bags, strict=True):
        out = np.flatnonzero(~np.isin(paths, list(bag)))
        if len(out):
            total[out] += replace(found, roots=np.array([root])).shares(values[out])
    voted = total.sum(axis=1) > 0
    shares = total[voted] / total[voted].sum(axis=1, keepdims=True)
    truth = numbers[voted]
    sure = _calibrated(shares.max(axis=1), np.argmax(shares, axis=1) == truth)
    member = np.array([[label in members for label in found.labels] for members in found.families.values()], float)
    # A family is answered only if no algorithm is sure enough, so only those rows show its accuracy.
    open_ = np.interp(shares.max(axis=1), *sure) < found.least
    sums = shares[open_] @ member.T
    family = np.argmax(sums, axis=1)
    sure_family = _calibrated(sums.max(axis=1), member[family, truth[open_]] > 0)
    return replace(found, sure=sure, sure_family=sure_family)
