"""Harm on a stated population of paths: its quantiles, a verdict, and the worst decile as scenarios.

The population, its bounds, its seed and the rules below were written down before the first run. The paths are points of
Sobol's sequence with Owen scrambling (`tailback.experiment.design.sobol`), so the first 16 alone are evenly spread as
well. Each path has flows under test and flows of others. It runs once without the flows under test ("alone"), once with
the candidate in them and once with each baseline, always with one seed, so that all differences are paired.

Harm is that of Ware, Mukerjee, Seshan and Sherry (HotNets 2019): x with the others alone, y beside the flows under
test; (x - y)/x where more is better, (y - x)/y where less is. It is a share: 0 is none, 1 is all.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailback.assess.measure import received, ware
from tailback.assess.procedure import BUFFERS, SHOULD
from tailback.assess.table import DATA_CENTRE, SLOW_START, Experiment
from tailback.candidate import Candidate, flow_fields
from tailback.experiment.design import Design, Point, Span, sobol
from tailback.judge import LEVEL, Verdict, combined, interval, of_mean, of_share
from tailback.metrics.rows import Floats, floats
from tailback.result import Result
from tailback.scenario import Scenario
from tailback.units import Duration, Rate

__all__ = [
    "ALONE",
    "EXPERIMENT",
    "HARMS",
    "LEVELS",
    "PATHS",
    "QUICK_PATHS",
    "Judged",
    "KeptPath",
    "Path",
    "Population",
    "Work",
    "judge",
    "paths",
    "quantiles",
]

#: Changes when `KeptPath` does, so that old rows are not read as new ones.
REVISION = "assess-population/2"
PATHS = 256
QUICK_PATHS = 16
#: Seed of the scrambling and of every run.
DESIGN_SEED, RUN_SEED = 33, 1
ALONE = "alone"

AXES: Mapping[str, Any] = {
    "rate": Span("1mbit", "1gbit", log=True),
    "rtt": Span("5ms", "300ms", log=True),
    "queue_bdp": Span(0.1, 8.0, log=True),
    "tested": Span(1.0, 32.0, log=True),
    "others": Span(1.0, 32.0, log=True),
    "others_cc": ["cubic", "cubic", "cubic", "reno"],
    # Which side has the longer round trip, and by which factor.
    "far": ["none", "none", "test", "other"],
    "factor": Span(1.0, 4.0, log=True),
    # Which side starts after a third of the run.
    "late": ["none", "none", "test", "other"],
    # Offered load of the web responses, as a share of the link rate.
    "web": ["no", "yes"],
    "web_load": Span(0.02, 0.2, log=True),
    # A long CUBIC flow in the reverse direction, through a queue of the same depth.
    "reverse": ["no", "no", "no", "yes"],
    # With two bottlenecks, the flows under test cross both; half of the others cross each.
    "bottlenecks": ["one", "one", "one", "two"],
}
"""The axes of the population, all independent: uniform, log-uniform, or a word with the frequency of its listing."""

#: Minimum queue limit: one packet in transmission and one waiting.
LEAST_QUEUE_BYTES = 3000
#: PackMime's response sizes are truncated here, so that no single one decides a path; the mean is then about `MEAN`.
LARGEST_RESPONSE, MEAN_RESPONSE_BYTES = 1_000_000, 12_000
#: A run lasts 300 round trips and at least 20 s. If the bottleneck would carry more than `MOST_PACKETS` in that time,
#: the run ends after that many packets, but not before 120 round trips. Chosen from the cost of nine paths with Reno.
ROUND_TRIPS, LEAST_S, MOST_PACKETS, LEAST_ROUND_TRIPS = 300.0, 20.0, 600_000.0, 120.0
#: Measurements start after this fraction of the run.
FROM = 1.0 / 3.0

HARMS: Mapping[str, tuple[str, str, bool]] = {
    "goodput": ("goodput of the others' long flows", "others_mbps", True),
    "web": ("time of web responses, mean", "web_ms", False),
    "round_trip": ("round trip, with the mean wait in the queues", "round_trip_ms", False),
}
"""For each kind of harm: its title, the number that it is computed from, and whether more of that is better."""
#: Harm allowed beyond the baseline's on the same path: for the mean over the paths (as for the dossier's other harms),
#: and for the worst decile.
MEAN_ALLOWANCE, DECILE_ALLOWANCE = 0.1, 0.25
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Levels of the reported quantiles."""

EXPERIMENT = Experiment(
    "population",
    "5, 6",
    "Harm on a stated population of paths",
    SHOULD,
    "256 paths of Sobol's sequence: 1 Mbit/s to 1 Gbit/s, 5 to 300 ms, 0.1 to 8 BDP, 1 to 32 flows beside 1 to 32. "
    "Some have unequal round trips, late-comers, web arrivals, reverse load or two bottlenecks.",
)
_NAMES = {"cubic": "CUBIC", "reno": "Reno"}
#: Scopes whose candidates are not meant for such paths.
OUT_OF_SCOPE = (DATA_CENTRE, SLOW_START)


@dataclass(frozen=True)
class Path:
    """One path of the population."""

    number: int
    point: Mapping[str, Any] = field(hash=False)

    @property
    def name(self) -> str:
        """Unique."""
        return f"path-{self.number:03d}"

    @property
    def tested(self) -> int:
        """Number of flows under test."""
        count: int = round(self.point["tested"])
        return count

    @property
    def others(self) -> int:
        """Number of other long flows; with two bottlenecks, at least one for each."""
        count: int = round(self.point["others"])
        return max(count, 2 if self.point["bottlenecks"] == "two" else 1)

    @property
    def rtt_s(self) -> float:
        """Propagation round trip, in seconds, of flows under test without an extra delay."""
        return float(Duration(self.point["rtt"]).seconds)

    @property
    def rate_bps(self) -> float:
        """Rate of each bottleneck in bits per second."""
        return float(Rate(self.point["rate"]))

    @property
    def seconds(self) -> float:
        """Simulated duration in seconds."""
        packets_a_second = self.rate_bps / (8.0 * 1500.0)
        wanted = max(ROUND_TRIPS * self.rtt_s, LEAST_S)
        return max(LEAST_ROUND_TRIPS * self.rtt_s, min(wanted, MOST_PACKETS / packets_a_second))

    @property
    def label(self) -> str:
        """Label for tables and figures."""
        point = self.point
        words = [
            f"{self.rate_bps / 1e6:.3g} Mbit/s",
            f"{1e3 * self.rtt_s:.3g} ms",
            f"{point['queue_bdp']:.2g} BDP",
            f"{self.tested} beside {self.others} of {_NAMES[point['others_cc']]}",
        ]
        if point["far"] != "none":
            words.append(f"{'its' if point['far'] == 'test' else 'their'} RTT × {point['factor']:.2g}")
        if point["late"] != "none":
            words.append(f"{'it comes' if point['late'] == 'test' else 'they come'} late")
        if point["web"] == "yes":
            words.append(f"web {100 * point['web_load']:.2g} %")
        if point["reverse"] == "yes":
            words.append("reverse load")
        if point["bottlenecks"] == "two":
            words.append("two bottlenecks")
        return ", ".join(words)

    def scenario(self, cc: str | Mapping[str, Any] | None) -> Scenario:
        """The scenario with the flows under test running `cc`; without these flows if `cc` is None."""
        point, seconds = self.point, self.seconds
        is_double = point["bottlenecks"] == "two"
        waits = max(LEAST_QUEUE_BYTES, round(point["queue_bdp"] * self.rate_bps * self.rtt_s / 8.0))
        back = f"{waits}B" if point["reverse"] == "yes" else "1000packets"
        nodes = ("near", "middle", "far") if is_double else ("near", "far")
        links: list[dict[str, Any]] = []
        for number, (here, there) in enumerate(itertools.pairwise(nodes), 1):
            way = {"rate": point["rate"], "delay": f"{round(self.rtt_s * 1e6 / 2 / (len(nodes) - 1))}us"}
            links.append({"name": f"neck-{number}", "from": here, "to": there, **way, "queue": f"{waits}B"})
            links.append({"name": f"return-{number}", "from": there, "to": here, **way, "queue": back})
        # The hosts' windows do not limit the algorithm.
        buffers = {"send_buffer": "100MB", "receive_buffer": "100MB"}
        longer = {"access_delay": f"{round(self.rtt_s * 1e6 * (point['factor'] - 1.0) / 2)}us"}

        def group(name: str, kind: str, count: int, start: str, end: str) -> dict[str, Any]:
            row: dict[str, Any] = {"name": name, "from": start, "to": end, "count": count, **buffers}
            if point["far"] == kind:
                row |= longer
            if point["late"] == kind:
                row["start"] = f"{round(seconds * 1e6 * FROM)}us"
            return row

        flows = []
        if cc is not None:
            flows.append({**group("test", "test", self.tested, "near", "far"), **flow_fields(cc)})
            if "transport" in flows[0]:
                # Not the others' windows: with 16 MB or more quinn's BBR closes connections. 14 paths hold more.
                flows[0] |= BUFFERS
        halves = [(self.others + 1) // 2, self.others // 2] if is_double else [self.others]
        for number, (count, here, there) in enumerate(zip(halves, nodes, nodes[1:], strict=False), 1):
            flows.append(group(f"other-{number}", "other", count, here, there) | {"cc": point["others_cc"]})
        if point["web"] == "yes":
            rate = max(0.1, point["web_load"] * self.rate_bps / (8.0 * MEAN_RESPONSE_BYTES))
            params = {"rate": float(f"{rate:.6g}"), "correlated": False, "largest": LARGEST_RESPONSE}
            flows.append({"name": "web", "app": "web", "from": "far", "to": "near", "cc": "cubic", "params": params})
        if point["reverse"] == "yes":
            flows.append({"name": "back", "from": "far", "to": "near", "cc": "cubic", **buffers})
        for flow in flows:
            if flow.get("count") == 1:
                del flow["count"]
        polled = [
            name if "count" not in flow else f"{name}-{number}"
            for flow in flows
            for name in [flow["name"]]
            if name.startswith(("test", "other"))
            for number in range(1, flow.get("count", 1) + 1)
        ]
        given = {
            "name": self.name,
            "seed": RUN_SEED,
            "duration": f"{round(seconds * 1e6)}us",
            "link": links,
            "flow": flows,
            "randomness": {"start_spread": f"{round(self.rtt_s * 5e6)}us", "processing_jitter": "5us"},
            "instruments": {
                "polls": polled,
                "poll_interval": f"{round(seconds * 1e6 / 300)}us",
                "requests": ["web"] if point["web"] == "yes" else [],
            },
        }
        return Scenario.from_dict(given)


@functools.cache
def paths() -> tuple[Path, ...]:
    """All paths of the population, in the order of the sequence."""
    return tuple(Path(number, point) for number, point in enumerate(sobol(AXES, PATHS, seed=DESIGN_SEED)))


# --- What is kept of a run ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeptPath:
    """Selects what the store keeps from a run on a path."""

    @property
    def digest(self) -> str:
        """Identifies what is kept: equal digests keep the same numbers."""
        return REVISION

    def names(self, resolved: Mapping[str, Any]) -> list[str]:
        """No fixed names: the numbers depend on the path."""
        return []

    def __call__(self, result: Result) -> dict[str, Any]:
        """Goodput of both sides in Mbit/s; time of web responses and round trip in ms."""
        names = [row["name"] for row in result.resolved["flows"]]
        tested = [name for name in names if name.startswith("test") and "." not in name]
        others = [name for name in names if name.startswith("other-") and "." not in name]
        out = {"others_mbps": _goodput(result, others)}
        if tested:
            out["own_mbps"] = _goodput(result, tested)
        if "web" in names:
            out["web_ms"] = _web(result)
        path = paths()[int(result.name.removeprefix("path-"))]
        necks = [result.link_index(name) for name in ("neck-1", "neck-2") if name in _links(result)]
        waiting = sum(float(result.numpy("links")["backlog_bytes_mean"][neck]) for neck in necks)
        out["round_trip_ms"] = 1e3 * path.rtt_s + 8e3 * waiting / path.rate_bps
        return {name: value for name, value in out.items() if math.isfinite(value)}


def _links(result: Result) -> list[str]:
    return [row["name"] for row in result.resolved["links"]]


def _goodput(result: Result, flows: Sequence[str]) -> float:
    """Total goodput of the flows from `FROM` on, in Mbit/s."""
    edges = np.array([FROM * result.duration_s, result.duration_s])
    got = sum(float(np.diff(received(result, name, edges))[0]) for name in flows)
    return 8e-6 * got / float(edges[1] - edges[0])


def _web(result: Result) -> float:
    """Mean time in ms of responses requested from `FROM` on; an unfinished one counts with its time so far."""
    rows = result.where_flow("requests", "web")
    began, took = floats(rows["t_s"]), floats(rows["response_time_s"])
    took = np.where(np.isfinite(took), took, result.duration_s - began)
    mine: Floats = took[began >= FROM * result.duration_s]
    return 1e3 * float(np.mean(mine)) if len(mine) else math.nan


# --- Runs -----------------------------------------------------------------------------------------------------


class Work:
    """The population's runs, in the interface that the runner calls."""

    until = None
    kept = KeptPath()

    def __init__(self, mine: Candidate, baselines: Sequence[Candidate], count: int, fresh: int = 0) -> None:
        """Adds `fresh` to the seed of the candidate's runs, so that they draw other values than the baselines' runs."""
        self.name = f"assess {mine.label}, population"
        self.allow_code = mine.allow_code or any(each.allow_code for each in baselines)
        self._mine, self._fresh = mine.label, fresh
        self._candidates = {each.label: each for each in (mine, *baselines)}
        self._order = [(path, way) for path in paths()[:count] for way in (ALONE, *self._candidates)]
        self.design = Design(
            ("path", "candidate"),
            len(self._order),
            lambda: ({"path": path.name, "candidate": way} for path, way in self._order),
        )

    def scenario(self, number: int, values: Point, seed: int) -> Scenario:
        """A path with one of the algorithms, or without flows under test."""
        path, way = self._order[number]
        return path.scenario(None if way == ALONE else self._candidates[way].cc).with_({}, seed=seed)

    def seeds_of(self, number: int) -> tuple[int, ...]:
        """The single seed of each run."""
        return (RUN_SEED + (self._fresh if self._order[number][1] == self._mine else 0),)

    @property
    def most_wall_s(self) -> float | None:
        """No limit on a run's wall-clock time."""
        return None

    def keeps_tables(self, number: int, seed: int) -> bool:
        """No tables are kept: a path's scenario can be run again."""
        return False

    def cost(self, number: int) -> float:
        """Cost estimate: the packets that the bottleneck carries."""
        path = self._order[number][0]
        return path.seconds * path.rate_bps

    def taken(self, index: Sequence[tuple[int, int, str]], rows: Mapping[str, Mapping[str, Any]]) -> Runs:
        """What the store has by path and algorithm; for a failed run, its error."""
        out: dict[tuple[int, str], Mapping[str, Any] | str] = {}
        for number, _, key in index:
            if (row := rows.get(key)) is not None:
                path, way = self._order[number]
                out[path.number, way] = str(row["error"]) if row["status"] != "ok" else row
        return out


#: By path and algorithm: what was measured, or the error that ended the run.
Runs = Mapping[tuple[int, str], Mapping[str, Any] | str]


# --- Judging --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """One kind of harm under one rule against one baseline: harm in excess of the baseline's, path by path."""

    kind: str
    #: "mean" or "decile".
    rule: str
    against: str
    paths: int
    #: The mean excess with its interval, or the share of paths beyond the allowance.
    estimate: float
    low: float
    high: float
    bound: float
    #: 1 if on the good side, -1 if on the bad side, 0 if undecided.
    side: int
    #: Two-sided p-value.
    p: float

    @property
    def direction(self) -> int:
        """The side of the estimate, significant or not."""
        return 1 if self.estimate <= self.bound else -1

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "kind": self.kind, "rule": self.rule, "against": self.against, "paths": self.paths,
            "estimate": self.estimate, "low": self.low, "high": self.high, "bound": self.bound, "side": self.side,
            "p": self.p,
        }  # fmt: skip


@dataclass(frozen=True)
class Population:
    """Harm on the paths that were run."""

    #: Harm of each path, by kind and label.
    harms: Mapping[tuple[str, str], Mapping[int, float]]
    judged: tuple[Judged, ...]
    #: Goodput of the flows under test in Mbit/s, by label and path.
    own: Mapping[str, Mapping[int, float]]
    against: tuple[str, ...]
    label: str
    count: int
    #: Errors of the candidate's runs, by path.
    errors: Mapping[int, str] = field(default_factory=dict)
    #: The baselines that set bounds; empty if all of them do.
    setting: tuple[str, ...] = ()

    def quantiles(self, kind: str, label: str) -> list[float]:
        """Quantiles of harm at `LEVELS`."""
        return quantiles(list(self.harms[kind, label].values()))

    @property
    def ps(self) -> list[tuple[float, int]]:
        """p-value over the baselines and the side of each rule, in the order of `rules`."""
        out = []
        for found in self._deciding():
            sides = {each.against: each.direction for each in found}
            out.append((combined(sides, {each.against: each.p for each in found}), max(sides.values())))
        return out

    @property
    def verdicts(self) -> list[str]:
        """Verdict of each rule against its most lenient baseline, in the order of `rules`."""
        return [Verdict.of_side(max(each.side for each in found)) for found in self._deciding()]

    def rules(self) -> dict[tuple[str, str], tuple[Judged, ...]]:
        """What was judged, by kind and rule; each has one entry per baseline."""
        out: dict[tuple[str, str], tuple[Judged, ...]] = {}
        for each in self.judged:
            key = (each.kind, each.rule)
            out[key] = (*out.get(key, ()), each)
        return out

    def _deciding(self) -> list[tuple[Judged, ...]]:
        """What was judged against the baselines that set bounds, by rule."""
        setting = self.setting or self.against
        return [tuple(each for each in found if each.against in setting) for found in self.rules().values()]

    def sentence(self) -> str:
        """The worst rule against its most lenient baseline, in a sentence."""
        rows = [max(found, key=lambda each: each.bound - each.estimate) for found in self._deciding()]
        if not rows:
            return ""
        one = max(rows, key=lambda each: each.estimate / each.bound)
        what = HARMS[one.kind][0]
        if one.rule == "mean":
            return (
                f"harm to the {what}: {100 * one.estimate:.1f} points beyond that of {one.against} on average "
                f"[{100 * one.low:.1f}, {100 * one.high:.1f}], allowed are {100 * one.bound:g}"
            )
        return (
            f"harm to the {what}: more than {100 * DECILE_ALLOWANCE:g} points beyond that of {one.against} on "
            f"{100 * one.estimate:.1f} % of the paths [{100 * one.low:.1f}, {100 * one.high:.1f}], allowed are "
            f"{100 * one.bound:g} %"
        )

    def excess(self, kind: str, against: str) -> dict[int, float]:
        """The candidate's harm in excess of a baseline's, by path."""
        return _excess(self.harms[kind, self.label], self.harms[kind, against])

    def worst(self) -> list[tuple[Path, str, float]]:
        """The worst decile: path, kind of harm, and the excess over each baseline that sets bounds, worst first."""
        rows = []
        for path in paths()[: self.count]:
            least = [
                (min(beyond), kind)
                for kind in HARMS
                if (beyond := [found[path.number] for label in self.setting or self.against
                               if path.number in (found := self.excess(kind, label))])
            ]  # fmt: skip
            if least:
                most, kind = max(least)
                rows.append((path, kind, most))
        rows.sort(key=lambda row: -row[2])
        return rows[: math.ceil(self.count / 10)]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "paths": self.count, "seed": DESIGN_SEED, "run_seed": RUN_SEED, "levels": list(LEVELS),
            "harm": {
                kind: {
                    label: self.quantiles(kind, label) for label in (self.label, *self.against)
                } | {"beyond": {label: quantiles(list(self.excess(kind, label).values())) for label in self.against}}
                for kind in HARMS
            },
            "own_mbps": {label: quantiles(list(found.values())) for label, found in self.own.items()},
            "judged": [each.to_json() for each in self.judged],
            "errors": {str(number): error for number, error in self.errors.items()},
            "worst": [
                {"path": path.name, "label": path.label, "kind": kind, "beyond": beyond,
                 "harm": {label: self.harms[kind, label].get(path.number) for label in (self.label, *self.against)}}
                for path, kind, beyond in self.worst()
            ],
        }  # fmt: skip


def quantiles(values: Sequence[float]) -> list[float]:
    """Quantiles of `values` at `LEVELS`."""
    return [float(value) for value in np.quantile(values, LEVELS)] if values else [math.nan] * len(LEVELS)


def _excess(mine: Mapping[int, float], theirs: Mapping[int, float]) -> dict[int, float]:
    return {number: mine[number] - theirs[number] for number in sorted(mine.keys() & theirs.keys())}


def harms_of(runs: Runs, label: str, count: int) -> dict[str, dict[int, float]]:
    """Harm by kind and path."""
    out: dict[str, dict[int, float]] = {}
    for kind, (_, name, more) in HARMS.items():
        found = out[kind] = {}
        for number in range(count):
            alone, beside = runs.get((number, ALONE)), runs.get((number, label))
            if not isinstance(alone, Mapping) or not isinstance(beside, Mapping):
                continue
            x, y = alone.get(name), beside.get(name)
            if x is None or y is None or not (x if more else y) > 0.0:
                continue
            found[number] = ware(x, y, more=more)
    return out


def judge(
    runs: Runs, label: str, against: Sequence[str], count: int, is_quick: bool = False, setting: Sequence[str] = ()
) -> Population:
    """Harm, its quantiles, and the verdicts on the mean and, if all paths were run, on the worst decile.

    `setting` are the baselines that set bounds; all of them do if it is empty.
    """
    labels = (label, *against)
    harms = {(kind, each): found for each in labels for kind, found in harms_of(runs, each, count).items()}
    judged = []
    for kind in HARMS:
        for other in against:
            excess = list(_excess(harms[kind, label], harms[kind, other]).values())
            if len(excess) >= 2:
                judged.append(_of_mean(kind, other, excess))
                if not is_quick:
                    judged.append(_of_decile(kind, other, excess))
    own = {
        each: {
            number: float(row["own_mbps"])
            for number in range(count)
            if isinstance(row := runs.get((number, each)), Mapping) and row.get("own_mbps") is not None
        }
        for each in labels
    }
    errors = {number: row for number in range(count) if isinstance(row := runs.get((number, label)), str)}
    return Population(harms, tuple(judged), own, tuple(against), label, count, errors, tuple(setting))


def _of_mean(kind: str, against: str, excess: Sequence[float]) -> Judged:
    """Student's t on the mean over the paths."""
    found, p = interval(excess, "mean"), of_mean(excess, MEAN_ALLOWANCE)
    side = (1 if found.estimate <= MEAN_ALLOWANCE else -1) if p <= LEVEL else 0
    return Judged(kind, "mean", against, len(excess), found.estimate, found.low, found.high, MEAN_ALLOWANCE, side, p)


def _of_decile(kind: str, against: str, excess: Sequence[float]) -> Judged:
    """Exact binomial test of one tenth: the count of paths beyond the allowance (Clopper and Pearson 1934)."""
    found = of_share(sum(each > DECILE_ALLOWANCE for each in excess), len(excess), 0.1)
    side = (1 if found.estimate <= 0.1 else -1) if found.p <= LEVEL else 0
    return Judged(kind, "decile", against, len(excess), found.estimate, found.low, found.high, 0.1, side, found.p)
