"""The experiments of a dossier, as data: criterion and section of RFC 9743, cells, statistics, rules.

RFC 9743 gives no thresholds, so every rule is relative: the candidate may be worse than the algorithm it is judged
against by a factor and an allowance, and of several such algorithms the one that is worst in the cell counts, because
the Internet bears it already. The factors and allowances below were written down before the first run; what is changed
after results were seen says so in `changed`.

A cell is a scenario as a file would have it. Flows whose names begin with "test" run the algorithm in question; all
others are who shares the path with it, and are the same whatever is in question.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tailback.scenario import Scenario

__all__ = [
    "CONTROLS",
    "EXPERIMENTS",
    "EXPLAIN",
    "MUST",
    "NO_WORD",
    "SHOULD",
    "STATISTICS",
    "Cell",
    "Control",
    "Experiment",
    "Statistic",
    "by_name",
]

MUST, SHOULD, EXPLAIN, NO_WORD = "MUST", "SHOULD", "MUST explain", ""


@dataclass(frozen=True)
class Statistic:
    """A number of a run, and by how much a candidate may be worse in it."""

    title: str
    unit: str
    #: Is more of it better?
    more: bool
    #: The bound is `factor` × the baseline's, and `allowance` beyond.
    factor: float
    allowance: float
    #: Why so much.
    source: str
    #: "fitted" and when, if the rule was changed with results in view.
    changed: str = ""

    def margin(self, value: float, baseline: float) -> float:
        """How far `value` is on the good side of the bound that the baseline sets."""
        if self.more:
            return value - (self.factor * baseline - self.allowance)
        return self.factor * baseline + self.allowance - value

    @property
    def rule(self) -> str:
        """In words."""
        times = f"{self.factor:g} × " if self.factor != 1.0 else ""
        sign = "−" if self.more else "+"
        beyond = f" {sign} {self.allowance:g}{' ' + self.unit if self.unit else ''}" if self.allowance else ""
        return f"{'at least' if self.more else 'at most'} {times}baseline{beyond}"


_SHARE = "a tenth is what repeated measurements of one algorithm on one path commonly differ by"
_HARM = "Ware et al., HotNets 2019: no more harm than the baseline does in the same place; a tenth for the spread"
_WAIT = "a quarter more, and 5 ms, CoDel's target (RFC 8289), which nobody notices"
_FETCH = "a quarter more, and 10 ms, a third of what anybody notices"

#: By name; `measure.py` says how each is measured.
STATISTICS: Mapping[str, Statistic] = {
    "goodput": Statistic("goodput of the flows under test", "Mbit/s", True, 0.9, 0.0, _SHARE),
    "goodput_after": Statistic("their goodput after the change", "Mbit/s", True, 0.9, 0.0, _SHARE),
    "lowest": Statistic(
        "lowest goodput of one of them in 5 s", "Mbit/s", True, 0.5, 0.0, "half: one window of few is noisy"
    ),
    "jain": Statistic("Jain's index between them", "", True, 1.0, 0.1, "one in ten flows shut out costs so much"),
    "loss": Statistic(
        "their packets lost",
        "",
        False,
        2.0,
        0.02,
        "twice, and 2 %, the loss that BBR's draft tolerates a round trip (draft-ietf-ccwg-bbr, BBR.LossThresh)",
    ),
    "delivered": Statistic(
        "payload that arrived for each byte sent", "", True, 0.95, 0.0, "a twentieth of useless work more"
    ),
    "late_packets": Statistic(
        "packets a flow sends from 5 s into the silence on",
        "",
        False,
        1.5,
        2.0,
        "timers that double agree up to one more probe or two (RFC 6298 section 5.5, RFC 8985 section 7)",
    ),
    "queue_ms": Statistic("mean wait in the bottleneck's queue", "ms", False, 1.25, 5.0, _WAIT),
    "call_ms": Statistic("delay of a call's packets, 95th percentile", "ms", False, 1.25, 5.0, _WAIT),
    "fct_p50_ms": Statistic("completion time of short transfers, median", "ms", False, 1.25, 10.0, _FETCH),
    "fct_p95_ms": Statistic("completion time of short transfers, 95th percentile", "ms", False, 1.25, 10.0, _FETCH),
    "unfinished": Statistic("transfers that did not finish", "", False, 1.0, 0.02, "one in fifty"),
    "harm_goodput": Statistic("harm to the others' goodput", "", False, 1.0, 0.1, _HARM),
    "harm_lowest": Statistic("harm to their lowest goodput in 5 s", "", False, 1.0, 0.2, _HARM + ", twice as noisy"),
    "harm_delay": Statistic("harm to a call's delay, 95th percentile", "", False, 1.0, 0.1, _HARM),
    "harm_loss": Statistic("harm to a call's loss", "", False, 1.0, 0.02, "2 % of a call's packets are heard (G.113)"),
    "harm_mos": Statistic(
        "harm to a call's mean opinion score", "", False, 1.0, 0.05, "0.2 of 4.4: just heard (G.107)"
    ),
    "harm_fct": Statistic("harm to the completion time of others' short transfers", "", False, 1.0, 0.1, _HARM),
}


@dataclass(frozen=True)
class Cell:
    """One scenario of an experiment."""

    #: Unique; the scenario's name too.
    name: str
    #: What tells it from its neighbours, for people.
    label: str
    #: As a scenario's file has it; of the flows under test `cc` is left open.
    given: Mapping[str, Any]
    statistics: tuple[str, ...]
    #: What is measured "after" something is of this window, in seconds.
    after: tuple[float, float] | None = None
    #: Part of --quick?
    quick: bool = False

    def scenario(self, cc: str | Mapping[str, Any] | None) -> Scenario:
        """With the flows under test running `cc`; with None they stay away, and the others are alone."""
        flows = []
        for flow in self.given["flow"]:
            is_tested = flow["name"].startswith("test")
            if is_tested and cc is None:
                continue
            flows.append({**flow, "cc": cc if isinstance(cc, str) else dict(cc or {})} if is_tested else flow)
        instruments = _instruments(flows, packets="late_packets" in self.statistics)
        return Scenario.from_dict({**self.given, "flow": flows, "name": self.name, "instruments": instruments})

    @property
    def has_others(self) -> bool:
        """Does someone share the path, whom it may harm?"""
        return any(name.startswith("harm_") for name in self.statistics)

    @property
    def seconds(self) -> float:
        """Simulated."""
        return float(str(self.given["duration"]).removesuffix("s"))


@dataclass(frozen=True)
class Experiment:
    """A criterion of the RFC with the cells that examine it, or the reason why none do."""

    name: str
    #: Of RFC 9743.
    section: str
    title: str
    #: What the RFC demands: the candidate's author has to have looked at it.
    word: str
    about: str
    cells: tuple[Cell, ...] = ()
    #: Why there are no cells.
    not_run: str = ""
    #: Instead of cells: the experiments that examine it along with their own criterion.
    covered_by: tuple[str, ...] = ()


def _instruments(flows: Sequence[Mapping[str, Any]], packets: bool) -> dict[str, Any]:
    def named(*apps: str) -> list[str]:
        return [
            name if "count" not in flow else f"{name}-{number}"
            for flow in flows
            if flow.get("app", "bulk") in apps
            for name in [flow["name"]]
            for number in range(1, flow.get("count", 1) + 1)
        ]

    return {
        "polls": named("bulk"),
        "packets": named("voip", *(("bulk",) if packets else ())),
        "requests": named("transfers"),
        "poll_interval": "100ms",
    }


CALL = {"name": "call", "app": "voip"}
VIDEO = {"name": "video", "app": "udp-cbr", "params": {"rate": "1mbit"}}
LINUX_ECN = {"name": "linux", "ecn": True}


def under_test(count: int = 1, **more: Any) -> dict[str, Any]:
    """Flows under test."""
    return {"name": "test", "count": count, **more} if count > 1 else {"name": "test", **more}


def other(cc: str, count: int = 1, **more: Any) -> dict[str, Any]:
    """Long flows of others."""
    flow = {"name": "other", "cc": cc, **more}
    return {**flow, "count": count} if count > 1 else flow


def short(name: str, size: str, **more: Any) -> dict[str, Any]:
    """Transfers of one size, one after the other."""
    params = {"bytes": size, "idle_low": "200ms", "idle_high": "600ms"}
    return {"name": name, "app": "transfers", "params": params, **more}


def dumbbell(
    duration: str, rate: str, rtt: str, queue: Any, flows: list[dict[str, Any]], spread: str = "500ms", **more: Any
) -> dict[str, Any]:
    """One bottleneck; what is drawn are starts and, less than a packet's time, what hosts take to send."""
    neck = {"rate": rate, "rtt": rtt, "queue": queue, "back_queue": "1000packets", **more}
    return {
        "duration": duration,
        "dumbbell": neck,
        "flow": flows,
        "randomness": {"start_spread": spread, "processing_jitter": "20us"},
    }


def _collapse() -> Experiment:
    crowd = tuple(
        Cell(
            f"collapse-crowd-{count}",
            f"{count} flows over 1 Mbit/s",
            dumbbell("60s", "1mbit", "40ms", "20packets", [under_test(count)]),
            ("delivered", "goodput"),
            quick=count == 64,
        )
        for count in (16, 64)
    )
    return Experiment(
        "congestion-collapse",
        "5.1.1",
        "Congestion collapse",
        MUST,
        "Many flows on a link that has room for a fraction of a packet of each: what is sent must still arrive.",
        crowd,
    )


def _silence() -> Experiment:
    def back(at: str) -> dict[str, Any]:
        there = {"name": "bottleneck", "from": "left", "to": "right", "rate": "10mbit", "delay": "20ms"}
        again: dict[str, Any] = {"name": "return", "from": "right", "to": "left", "rate": "10mbit", "delay": "20ms"}
        again |= {"queue": "5packets", "schedule": [{"at": at, "rate": "0bit"}]}
        return {
            "duration": "90s",
            "link": [{**there, "queue": "1bdp"}, again],
            "flow": [under_test(4) | {"from": "left", "to": "right"}],
            "randomness": {"start_spread": "500ms", "processing_jitter": "20us"},
        }

    cells = (Cell("silence", "all ACKs stop at 20 s", back("20s"), ("late_packets",), after=(25.0, 90.0), quick=True),)
    return Experiment(
        "rto-backoff",
        "5.2",
        "Timers back off when all ACKs stop",
        MUST,
        "Full backoff: a sender that hears nothing sends ever less.",
        cells,
    )


def _bufferbloat() -> Experiment:
    cells = tuple(
        Cell(
            f"bufferbloat-{queue}",
            f"queue {queue}",
            dumbbell("40s", "20mbit", "40ms", queue, [under_test(), CALL]),
            ("call_ms", "harm_delay", "harm_mos", "goodput"),
            quick=queue == "4bdp",
        )
        for queue in ("0.5bdp", "1bdp", "4bdp", "16bdp")
    )
    return Experiment(
        "bufferbloat",
        "5.1.2",
        "Bufferbloat",
        NO_WORD,
        "One long flow, and what a call beside it waits in the queue, as queues grow.",
        cells,
    )


def _high_loss() -> Experiment:
    quick = {(4, "0.25bdp"), (16, "0.25bdp")}
    cells = tuple(
        Cell(
            f"loss-{count}-flows-{queue}",
            f"{count} flow{'s' if count > 1 else ''}, queue {queue}",
            dumbbell("20s", "50mbit", "40ms", queue, [under_test(count)]),
            ("loss", "goodput"),
            quick=(count, queue) in quick,
        )
        for count, queue in itertools.product((1, 2, 4, 16, 64), ("0.1bdp", "0.25bdp", "0.5bdp", "1bdp", "2bdp"))
    )
    return Experiment(
        "high-loss",
        "5.1.3",
        "Protection against high packet loss",
        NO_WORD,
        "Several flows in shallow buffers: who ignores losses keeps them high.",
        cells,
    )


def _fairness() -> Experiment:
    alike = [
        Cell(
            f"fair-{count}",
            f"{count} flows",
            dumbbell("60s", "50mbit", "40ms", "1bdp", [under_test(count)], spread="2s"),
            ("jain", "lowest"),
            quick=count == 8,
        )
        for count in (2, 8, 32)
    ]
    mixed = [
        Cell(
            f"fair-rtt-{longer}",
            f"RTT 20 ms beside {20 + 2 * longer} ms",
            dumbbell(
                "60s",
                "50mbit",
                "20ms",
                "100packets",
                [
                    {"name": "test-near"},
                    {"name": "test-far", "access_delay": f"{longer}ms"},
                ],
            ),
            ("jain", "lowest"),
        )
        for longer in (30, 90)
    ]
    late = Cell(
        "fair-late",
        "a second flow comes after 20 s",
        dumbbell("60s", "50mbit", "40ms", "1bdp", [{"name": "test-early"}, {"name": "test-late", "start": "20s"}]),
        ("jain",),
        after=(35.0, 60.0),
        quick=True,
    )
    return Experiment(
        "fairness-within",
        "5.1.4",
        "Fairness within the algorithm",
        NO_WORD,
        "Flows of the same algorithm share: alike, with different RTTs, and when one comes late (its index is of the "
        "last 25 s).",
        (*alike, *mixed, late),
    )


def _short_flows() -> Experiment:
    cells = tuple(
        Cell(
            f"short-{size}-beside-{count}",
            f"{size} beside {count or 'no'} long flow{'s' if count > 1 else ''}",
            dumbbell(
                "60s",
                "20mbit",
                "40ms",
                "1bdp",
                [
                    short("test-short", size),
                    *(
                        [{"name": "test-long", "count": count}]
                        if count > 1
                        else [{"name": "test-long"}]
                        if count
                        else []
                    ),
                ],
            ),
            ("fct_p50_ms", "fct_p95_ms", "unfinished", *(("goodput",) if count else ())),
            quick=(size, count) == ("100kB", 1),
        )
        for size, count in itertools.product(("10kB", "100kB", "1MB"), (0, 1, 4))
    )
    return Experiment(
        "short-flows",
        "5.1.5",
        "Short flows",
        MUST,
        "Short transfers of the algorithm, alone and beside its own long flows.",
        cells,
    )


def _beside(ccs: Sequence[str], prefix: str, quick: set[tuple[str, str]]) -> tuple[Cell, ...]:
    return tuple(
        Cell(
            f"{prefix}-{cc}-{rate}-{queue}",
            f"beside {cc}, {rate}, queue {queue}",
            dumbbell("60s", rate, "40ms", queue, [under_test(), other(cc)]),
            ("harm_goodput", "harm_lowest", "loss"),
            quick=(cc, queue) in quick and rate == "10mbit",
        )
        for cc, rate, queue in itertools.product(ccs, ("10mbit", "50mbit"), ("0.5bdp", "1bdp", "4bdp"))
    )


def _real_time() -> Experiment:
    cells = tuple(
        Cell(
            f"real-time-{count}-{queue}",
            f"{count} flow{'s' if count > 1 else ''}, queue {queue}",
            dumbbell("40s", "10mbit", "40ms", queue, [under_test(count), CALL, VIDEO]),
            ("harm_delay", "harm_loss", "harm_mos"),
            quick=(count, queue) == (4, "1bdp"),
        )
        for count, queue in itertools.product((1, 4), ("0.5bdp", "1bdp", "4bdp"))
    )
    return Experiment(
        "real-time",
        "5.2.2",
        "Real-time traffic of others",
        SHOULD,
        "A G.711 call and a video of constant 1 Mbit/s; media that adapt their rate (RFC 8867) are another suite.",
        cells,
    )


def _others_short() -> Experiment:
    cells = tuple(
        Cell(
            f"others-short-{size}-{count}-{queue}",
            f"{size} of CUBIC's beside {count}, queue {queue}",
            dumbbell("60s", "20mbit", "40ms", queue, [under_test(count), short("other-short", size, cc="cubic")]),
            ("harm_fct", "unfinished"),
            quick=(size, count, queue) == ("100kB", 1, "1bdp"),
        )
        for size, count, queue in itertools.product(("10kB", "100kB"), (1, 4), ("0.25bdp", "1bdp", "4bdp"))
    )
    return Experiment(
        "short-flows-of-others",
        "5.2.3",
        "Short flows of others",
        MUST,
        "Short transfers of others beside long flows of the candidate.",
        cells,
    )


def _wired_wireless() -> Experiment:
    lossy = [
        Cell(
            f"random-loss-{share:g}",
            f"{100 * share:g} % lost at random",
            dumbbell("40s", "20mbit", "40ms", "1bdp", [under_test()], wire={"loss": share}),
            ("goodput",),
            quick=share == 0.01,
        )
        for share in (0.0001, 0.001, 0.01, 0.03)
    ]
    bursty = Cell(
        "burst-loss",
        "1 % lost in bursts of 5",
        dumbbell(
            "40s",
            "20mbit",
            "40ms",
            "1bdp",
            [under_test()],
            wire={"burst_start": 0.002, "burst_end": 0.2, "burst_loss": 1.0},
        ),
        ("goodput",),
    )
    jitter = Cell(
        "jitter",
        "link retransmissions: up to 10 ms of jitter",
        dumbbell("40s", "20mbit", "40ms", "1bdp", [under_test(), CALL], wire={"jitter": "10ms"}),
        ("goodput", "call_ms"),
    )
    return Experiment(
        "wireless",
        "6.4",
        "Wireless paths",
        SHOULD,
        "Random and bursty loss, jitter, cellular links whose rate varies, stations that share 802.11g.",
        (*lossy, bursty, jitter, _cellular(), _wifi()),
    )


def _cellular() -> Cell:
    from tailback import traces

    return Cell(
        "cellular",
        "a made-up LTE link (tb.traces.lte, seed 1)",
        dumbbell("60s", "5mbit", "60ms", "200packets", [under_test(), CALL], schedule=traces.lte(60, seed=1)),
        ("goodput", "harm_delay"),
        quick=True,
    )


def _wifi() -> Cell:
    def station(name: str) -> dict[str, Any]:
        air = {"name": "wifi", "channel": "air", "rate_mbps": 54}
        return {"name": name, "from": name, "to": "point", "medium": air, "queue": "100packets", "duplex": True}

    return Cell(
        "wifi",
        "two stations of 802.11g send",
        {
            "duration": "20s",
            "link": [station("sofa"), station("desk")],
            "flow": [
                {"name": "test-sofa", "from": "sofa", "to": "point"},
                {"name": "test-desk", "from": "desk", "to": "point"},
            ],
            "randomness": {"start_spread": "500ms"},
        },
        ("goodput", "jain"),
    )


def _aqm() -> Experiment:
    def queue(name: str, ecn: bool) -> Any:
        return {"discipline": name, **({"ecn": ecn} if name != "dualpi2" else {})}

    cells = []
    for name, ecn in [*itertools.product(("codel", "fq_codel", "pie", "red"), (False, True)), ("dualpi2", True)]:
        stack: dict[str, Any] = {"stack": LINUX_ECN} if ecn else {}
        flows = [under_test(2, **stack), other("cubic", **stack), CALL]
        cells.append(
            Cell(
                f"aqm-{name}-{'ecn' if ecn else 'drops'}",
                f"{name}, {'ECN' if ecn else 'without ECN'}",
                dumbbell("40s", "20mbit", "40ms", queue(name, ecn), flows),
                ("harm_goodput", "harm_delay", "loss", "goodput"),
                quick=name in ("codel", "pie") and ecn,
            )
        )
    return Experiment(
        "aqm",
        "7.1",
        "Active queue management, with and without ECN",
        SHOULD,
        "Two flows beside one of CUBIC and a call, through each discipline.",
        tuple(cells),
    )


def _delay_steps() -> Experiment:
    cells = [
        Cell(
            f"delay-{before}-{then}",
            f"one-way delay {before} → {then} ms at 20 s",
            dumbbell(
                "50s",
                "20mbit",
                f"{2 * before}ms",
                "100packets",
                [under_test()],
                schedule=[{"at": "20s", "delay": f"{then}ms"}],
            ),
            ("goodput", "goodput_after"),
            after=(20.0, 50.0),
            quick=(before, then) == (20, 120),
        )
        for before, then in ((20, 40), (20, 120), (40, 20), (120, 20))
    ]
    from tailback import traces

    orbit = Cell(
        "low-orbit",
        "a made-up path by low satellites (tb.traces.low_orbit, seed 1)",
        dumbbell(
            "45s",
            "100mbit",
            "50ms",
            "1MB",
            [under_test()],
            back_delay="0s",
            delay="25ms",
            schedule=traces.low_orbit(45, seed=1),
        ),
        ("goodput", "queue_ms"),
    )
    del orbit.given["dumbbell"]["rtt"]
    return Experiment(
        "varying-delay",
        "7.3",
        "Paths whose delay varies",
        SHOULD,
        "Steps of the base delay by 20 and 100 ms both ways, and slots of 15 s.",
        (*cells, orbit),
    )


def _low_rates() -> Experiment:
    cells = (
        Cell(
            "low-rate",
            "64 kbit/s, RTT 200 ms",
            dumbbell("120s", "64kbit", "200ms", "10packets", [under_test()]),
            ("goodput", "loss", "queue_ms"),
        ),
        Cell(
            "low-rate-2",
            "64 kbit/s, RTT 200 ms, 2 flows",
            dumbbell("120s", "64kbit", "200ms", "10packets", [under_test(2)]),
            ("goodput", "loss", "jain"),
            quick=True,
        ),
        Cell(
            "below-a-packet",
            "1 Mbit/s, RTT 4 ms, where a third of a packet fits, 2 flows",
            dumbbell("60s", "1mbit", "4ms", "20packets", [under_test(2)]),
            ("goodput", "loss", "jain"),
            quick=True,
        ),
    )
    return Experiment(
        "low-rates",
        "7.4",
        "Low rates, and less than a packet in flight",
        NO_WORD,
        "Links of the Internet of things.",
        cells,
    )


def _satellite() -> Experiment:
    cells = (
        Cell(
            "geo",
            "20 Mbit/s, RTT 600 ms",
            dumbbell("120s", "20mbit", "600ms", "1bdp", [under_test()]),
            ("goodput", "loss"),
            quick=True,
        ),
        Cell(
            "geo-loss",
            "the same, 0.1 % lost",
            dumbbell("120s", "20mbit", "600ms", "1bdp", [under_test()], wire={"loss": 0.001}),
            ("goodput",),
        ),
        Cell(
            "geo-short",
            "1 MB over it",
            dumbbell("120s", "20mbit", "600ms", "1bdp", [short("test-short", "1MB")]),
            ("fct_p50_ms", "unfinished"),
        ),
        Cell("geo-two", "two flows", dumbbell("200s", "20mbit", "600ms", "1bdp", [under_test(2)]), ("jain", "loss")),
    )
    return Experiment("high-delay", "7.5", "Paths of high delay", NO_WORD, "A satellite's RTT of 600 ms.", cells)


def _thin_acks() -> Experiment:
    cells = tuple(
        Cell(
            f"acks-{every}",
            "an ACK for each segment" if every == 1 else f"an ACK for every {every} segments",
            dumbbell("40s", "20mbit", "40ms", "1bdp", [under_test(2, stack={"name": "linux", "ack_every": every})]),
            ("goodput", "loss"),
            quick=every == 1,
        )
        for every in (1, 8)
    )
    return Experiment(
        "acks",
        "7.6",
        "Receivers that acknowledge each segment, or every eighth",
        SHOULD,
        "The nearest there is to misbehaving: more and fewer ACKs than usual.",
        cells,
    )


def _reordering() -> Experiment:
    cells = tuple(
        Cell(
            f"reordering-{packets}",
            f"1 % of the packets overtaken by {packets}",
            dumbbell(
                "40s",
                "20mbit",
                "40ms",
                "1bdp",
                [under_test()],
                wire={"reorder": 0.01, "reorder_delay": "500ms", "reorder_packets": packets},
            ),
            ("goodput",),
            quick=packets == 10,
        )
        for packets in (1, 3, 10, 30, 100)
    )
    return Experiment(
        "reordering", "7.7", "Extreme reordering", NO_WORD, "Packets arrive so many places too late.", cells
    )


def _transients() -> Experiment:
    def step(
        name: str, label: str, first: str, steps: list[dict[str, str]], after: tuple[float, float], **more: Any
    ) -> Cell:
        given = dumbbell("60s", first, "40ms", "200packets", [under_test(), CALL], schedule=steps)
        return Cell(name, label, given, ("goodput_after", "harm_delay", "harm_loss"), after=after, **more)

    cells = [
        step("rate-up", "5 → 50 Mbit/s at 20 s", "5mbit", [{"at": "20s", "rate": "50mbit"}], (20.0, 40.0), quick=True),
        step(
            "rate-down", "50 → 5 Mbit/s at 20 s", "50mbit", [{"at": "20s", "rate": "5mbit"}], (20.0, 40.0), quick=True
        ),
    ]
    for outage in ("0.1", "1", "5", "10"):
        end = 20.0 + float(outage)
        steps = [{"at": "20s", "rate": "0bit"}, {"at": f"{end:g}s", "rate": "20mbit"}]
        label = f"nothing gets through for {outage} s"
        cells.append(step(f"outage-{outage}s", label, "20mbit", steps, (end, end + 15.0), quick=outage == "1"))
    burst = {"name": "burst", "app": "udp-cbr", "params": {"rate": "30mbit"}, "start": "20s", "stop": "35s"}
    cells.append(
        Cell(
            "cross-traffic",
            "30 of 50 Mbit/s are taken from 20 to 35 s",
            dumbbell("60s", "50mbit", "40ms", "1bdp", [under_test(), burst, CALL]),
            ("goodput", "goodput_after", "harm_loss"),
            after=(35.0, 50.0),
        )
    )
    return Experiment(
        "transients",
        "7.8",
        "Transient events",
        SHOULD,
        "The rate × 10 and ÷ 10, outages of 0.1 to 10 s, others who come and go.",
        tuple(cells),
    )


def _path_changes() -> Experiment:
    def change(name: str, label: str, first: str, delay: str, step: dict[str, str], **more: Any) -> Cell:
        given = dumbbell("60s", first, delay, "200packets", [under_test(2)], schedule=[{"at": "20s", **step}])
        return Cell(name, label, given, ("goodput_after", "loss"), after=(20.0, 45.0), **more)

    cells = (
        change(
            "route-worse",
            "50 Mbit/s, 20 ms → 10 Mbit/s, 110 ms",
            "50mbit",
            "20ms",
            {"rate": "10mbit", "delay": "100ms"},
            quick=True,
        ),
        change(
            "route-better",
            "10 Mbit/s, 200 ms → 50 Mbit/s, 110 ms",
            "10mbit",
            "200ms",
            {"rate": "50mbit", "delay": "10ms"},
        ),
    )
    return Experiment(
        "path-changes",
        "7.9",
        "Changes of the path",
        MUST,
        "Rate and delay change at once, as when a route does.",
        cells,
    )


def _data_centre() -> Experiment:
    jitter = {"spread": "20us"}
    incast = tuple(
        Cell(
            f"incast-{count}",
            f"{count} servers answer 64 kB at once, 1 Gbit/s, RTT 100 µs",
            dumbbell(
                "2s",
                "1gbit",
                "100us",
                "64kB",
                [under_test(count, app="transfers", params={"bytes": "64kB", "count": 1})],
                **jitter,
            ),
            ("fct_p50_ms", "fct_p95_ms", "unfinished"),
            quick=count == 40,
        )
        for count in (8, 40)
    )
    long = Cell(
        "data-centre-long",
        "4 long flows, 1 Gbit/s, RTT 100 µs, queue 64 kB",
        dumbbell("1s", "1gbit", "100us", "64kB", [under_test(4)], **jitter),
        ("goodput", "jain", "loss"),
    )
    return Experiment(
        "data-centres", "7.11", "Data centres", NO_WORD, "RTTs far below 2 ms; many answers at once.", (*incast, long)
    )


def _experiments() -> tuple[Experiment, ...]:
    starving = {("cubic", "1bdp"), ("reno", "1bdp")}
    return (
        _collapse(),
        _bufferbloat(),
        _high_loss(),
        _fairness(),
        _short_flows(),
        _silence(),
        Experiment(
            "standard-flows",
            "5.2.1",
            "Long flows of Reno and CUBIC",
            MUST,
            "One flow beside one of a standard: what that loses against having the path to itself.",
            _beside(("cubic", "reno"), "beside", starving),
        ),
        Experiment(
            "widely-deployed",
            "5.2.1",
            "Long flows of BBR, which is widely deployed",
            MUST,
            "The same beside BBR version 1 and BBR version 3.",
            _beside(("bbr", "bbr3"), "beside", {("bbr3", "1bdp")}),
        ),
        _real_time(),
        _others_short(),
        Experiment(
            "principles",
            "5.3",
            "Departures from RFC 2914's principles, and incremental deployment",
            EXPLAIN,
            "",
            not_run="No experiment answers this: the author of the candidate has to write it.",
        ),
        Experiment(
            "drop-tail",
            "6.1, 6.3",
            "Drop-tail queues, wired paths",
            MUST,
            "",
            covered_by=("bufferbloat", "high-loss", "fairness-within", "short-flows", "standard-flows"),
        ),
        Experiment(
            "tunnels",
            "6.2",
            "Tunnels, if the algorithm needs explicit signals",
            MUST,
            "",
            not_run="The simulator's tunnels carry packets over TCP and hand no ECN marks on.",
        ),
        _wired_wireless(),
        _aqm(),
        Experiment(
            "circuit-breakers",
            "7.2",
            "Circuit breakers (RFC 8083, RFC 8084)",
            NO_WORD,
            "",
            not_run="There is no application here that trips one.",
        ),
        _delay_steps(),
        _low_rates(),
        _satellite(),
        _thin_acks(),
        Experiment(
            "misbehaving",
            "7.6",
            "Receivers that divide ACKs or acknowledge ahead of the data",
            SHOULD,
            "",
            not_run="The simulated receiver acknowledges whole segments that have arrived, and no others; nor does any "
            "queue here clear ECN marks.",
        ),
        _reordering(),
        _transients(),
        _path_changes(),
        Experiment(
            "multipath",
            "7.10",
            "Multipath transports",
            NO_WORD,
            "",
            not_run="Connections here have one path. For a multipath algorithm this is a MUST.",
        ),
        _data_centre(),
    )


#: All of them, in the order of the RFC.
EXPERIMENTS: tuple[Experiment, ...] = _experiments()


@dataclass(frozen=True)
class Control:
    """An algorithm whose verdict on some cells is known; if it comes out otherwise, the suite is broken."""

    cc: str
    experiment: str
    cells: tuple[str, ...]
    statistic: str
    #: Must it fail in one of the cells, or in none?
    fails: bool
    source: str
    #: "fitted" and why, if it was changed with results in view.
    changed: str = ""


_SHALLOW = ("loss-4-flows-0.25bdp", "loss-16-flows-0.25bdp")
#: RFC 9743 section 5.1.3 names BBR version 1.
CONTROLS: tuple[Control, ...] = (
    Control("bbr", "high-loss", _SHALLOW, "loss", True, "RFC 9743 section 5.1.3; Hock et al., ICNP 2017"),
    Control(
        "bbr3",
        "high-loss",
        _SHALLOW[:1],
        "loss",
        False,
        "draft-ietf-ccwg-bbr: reacts to 2 % of loss",
        "fitted: at first also with 16 flows, where it fails. A flow then has 13 packets a round trip, of which one "
        "lost is 8 %: 2 % cannot be told there. Its loss goes with the packets a flow has (13: 7 to 8 %, 52: 1.5 to "
        "2.7 %, 208: 0.9 %), whatever the number of flows",
    ),
    Control("cubic", "high-loss", _SHALLOW, "loss", False, "RFC 9438"),
    Control("reno", "high-loss", _SHALLOW, "loss", False, "RFC 5681"),
)


@functools.cache
def by_name() -> Mapping[str, Cell]:
    """Every cell."""
    return {cell.name: cell for experiment in EXPERIMENTS for cell in experiment.cells}
