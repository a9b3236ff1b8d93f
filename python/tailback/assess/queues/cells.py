"""The cells of a queue's dossier, as data: criterion, section of RFC 7928 or RFC 7567, scenario, numbers.

The queue under test is at the link "bottleneck", with the cell's limit in packets. A flow's name states its kind:
"bulk", "datagrams", "burst", "call" or "short". Where hosts are judged, the name begins with the host and a dash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tailback.assess.procedure import GENERAL, MUST, NO_WORD, SHOULD, Cell, Experiment
from tailback.assess.queues import cost
from tailback.candidate import Candidate
from tailback.queue_candidate import QueueCandidate
from tailback.scenario import Scenario
from tailback.units import Rate

__all__ = ["EXPERIMENTS", "LIMIT", "QueueCell"]

#: Queue limit of each cell, in packets: 4.5 BDP at 20 Mbit/s and 40 ms, more than the standing queue of any AQM here.
LIMIT = 300
#: Bytes of a full packet.
PACKET = 1500
#: Measurements start here, in seconds, after the first slow start.
FROM_S = 5.0


@dataclass(frozen=True)
class QueueCell(Cell):
    """A cell that tests a queue."""

    limit: int = LIMIT
    #: Whether senders ask for ECN. A queue that marks only if configured to is then configured to mark.
    ecn: bool = False
    #: Time in ms to transmit one burst of a burst cell. The cell applies to queues whose declared allowance covers it.
    burst_ms: float = 0.0

    def scenario(self, cc: Any, scope: str = GENERAL) -> Scenario:
        """The scenario with the queue under test at the bottleneck."""
        if not isinstance(cc, QueueCandidate):
            raise TypeError(f"a queue's cell takes a queue, not {cc!r}")
        table = cc.table
        limits = {"packets": f"{self.limit}packets", "bytes": f"{self.limit * PACKET}B"}
        if cc.limits in limits:
            table["limit"] = limits[cc.limits]
        elif cc.limits == "memory":
            table["memory_limit"] = self.limit * PACKET
        if self.ecn and cc.takes_ecn:
            table["ecn"] = True
        given = dict(self.given)
        if "dumbbell" in given:
            given["dumbbell"] = {**given["dumbbell"], "queue": table}
        else:
            given["link"] = [
                {**link, "queue": table} if link["name"] == "bottleneck" else link for link in given["link"]
            ]
        shown = {"queues": ["bottleneck"], "requests": _named(given["flow"], "transfers")}
        return Scenario.from_dict({**given, "name": self.name, "instruments": shown})

    @property
    def neck(self) -> Mapping[str, Any]:
        """The bottleneck's fields."""
        links = [self.given["dumbbell"]] if "dumbbell" in self.given else self.given["link"]
        found: Mapping[str, Any] = next(link for link in links if link.get("name", "bottleneck") == "bottleneck")
        return found

    @property
    def packet_ms(self) -> float:
        """Transmission time of a full packet at the link's lowest rate, in ms."""
        rates = [self.neck["rate"], *(step["rate"] for step in self.neck.get("schedule", ()) if "rate" in step)]
        return 8e3 * PACKET / min(int(Rate(rate)) for rate in rates)

    @property
    def window(self) -> tuple[float, float]:
        """Start and end, in seconds, of the time that the numbers cover."""
        return self.after or (FROM_S, self.seconds)


Flow = dict[str, Any]
_ECN = {"name": "linux", "ecn": True}
_L4S = {"name": "linux", "ecn": "l4s", "accecn": True}
CALL: Flow = {"name": "call", "app": "voip"}


def _named(flows: Iterable[Mapping[str, Any]], app: str) -> list[str]:
    return [
        flow["name"] if "count" not in flow else f"{flow['name']}-{number}"
        for flow in flows
        if flow.get("app", "bulk") == app
        for number in range(1, flow.get("count", 1) + 1)
    ]


def bulk(count: int = 1, **more: Any) -> Flow:
    """Long CUBIC flows, the usual traffic of most hosts."""
    flow = {"name": "bulk", "cc": "cubic", **more}
    return {**flow, "count": count} if count > 1 else flow


def datagrams(rate: str) -> Flow:
    """A UDP flow that does not respond to congestion."""
    return {"name": "datagrams", "app": "udp-cbr", "params": {"rate": rate}, "packet_size": f"{PACKET}B"}


def line(
    *flows: Flow, duration: str = "20s", rate: str = "20mbit", rtt: str = "40ms", spread: str = "500ms", **more: Any
) -> dict[str, Any]:
    """A scenario with one bottleneck, without its queue."""
    neck = {"rate": rate, "rtt": rtt, "back_queue": "1000packets", **more}
    drawn = {"start_spread": spread, "processing_jitter": "20us"}
    return {"duration": duration, "dumbbell": neck, "flow": list(flows), "randomness": drawn}


#: Why some rows do not apply to a kernel's queue.
_ONE_RATE = "a kernel's queue stands at a rate that does not change"


def _two_hosts() -> dict[str, Any]:
    # Each host has its own server: with a shared one, CAKE's triple isolation would count the server's nine flows for
    # each host.
    def link(name: str, start: str, end: str, rate: str = "1gbit", delay: str = "1ms") -> dict[str, Any]:
        return {"name": name, "from": start, "to": end, "rate": rate, "delay": delay, "queue": "1000packets"}

    links = [
        link("anna-up", "anna", "router"),
        link("otto-up", "otto", "router"),
        link("bottleneck", "router", "exit", "20mbit", "17ms"),
        link("back", "exit", "router", "1gbit", "17ms"),
        link("shop-in", "exit", "shop"),
        link("shop-out", "shop", "exit"),
        link("store-in", "exit", "store"),
        link("store-out", "store", "exit"),
        link("anna-down", "router", "anna"),
        link("otto-down", "router", "otto"),
    ]
    flows = [
        bulk(name="anna-bulk") | {"from": "anna", "to": "shop"},
        bulk(8, name="otto-bulk") | {"from": "otto", "to": "store"},
    ]
    drawn = {"start_spread": "500ms", "processing_jitter": "20us"}
    return {"duration": "30s", "link": links, "flow": flows, "randomness": drawn}


def _dropping() -> dict[str, Any]:
    step = {"at": "10s", "rate": "5mbit"}
    return line(bulk(4), rate="50mbit", duration="20s", schedule=[step])


_ALL: list[Experiment] = []
_Cells = Callable[[], Iterable[QueueCell]]


def _experiment(
    name: str, section: str, title: str, word: str, about: str, needs: str = "", not_in_guest: str = ""
) -> Callable[[_Cells], _Cells]:
    """Decorator: registers an experiment whose cells the decorated function yields."""

    def take(cells: _Cells) -> _Cells:
        _ALL.append(
            Experiment(name, section, title, word, about, tuple(cells()), needs=needs, not_in_guest=not_in_guest)
        )
        return cells

    return take


@_experiment(
    "delay",
    "7928 8.2.2",
    "Delay under one to 16 flows",
    MUST,
    "Long flows of CUBIC over 20 Mbit/s and 40 ms: what packets wait, beside the target that the queue declares.",
)
def _delay() -> Iterator[QueueCell]:
    for count in (1, 4, 16):
        label = f"{count} flow{'s' if count > 1 else ''}"
        yield QueueCell(f"delay-{count}", label, line(bulk(count)), ("wait_p50", "wait_p95"), quick=count != 16)


@_experiment(
    "crowd",
    "7928 8.2.4",
    "Delay under 64 flows",
    MUST,
    "A packet and less for each flow in the pipe, so that one in ten must go: the law has to come that far.",
)
def _crowd() -> Iterator[QueueCell]:
    yield QueueCell("crowd-64", "64 flows", line(bulk(64)), ("crowd_p50", "crowd_p95"), quick=True)


@_experiment(
    "use",
    "7928 5.1",
    "Uses the link",
    SHOULD,
    "The same runs, and RTTs of 10 and 160 ms: a queue that is too short leaves the link idle.",
)
def _use() -> Iterator[QueueCell]:
    for cell in _delay():
        yield QueueCell(cell.name, cell.label, cell.given, ("use",), quick=cell.quick)
    for rtt in ("10ms", "160ms"):
        given = line(bulk(4), rtt=rtt, duration="30s")
        yield QueueCell(f"use-{rtt}", f"4 flows, RTT {rtt}", given, ("use", "loss"), quick=rtt == "160ms")


@_experiment(
    "unresponsive",
    "7928 5.3",
    "Unresponsive load",
    MUST,
    "Datagrams at three fifths of the rate beside TCP, and at 1.2 times the rate: the delay must come back to the "
    "target, of all packets or, where flows are kept apart, of the others.",
)
def _unresponsive() -> Iterator[QueueCell]:
    for percent in (60, 120):
        given = line(bulk(2), datagrams(f"{20 * percent // 100}mbit"), CALL, duration="30s")
        yield QueueCell(
            f"unresponsive-{percent}",
            f"datagrams of {percent} % of the rate beside two flows",
            given,
            ("others_p50", "call_p95"),
            after=(15.0, 30.0),
            quick=percent == 120,
        )


@_experiment(
    "bursts",
    "7928 7.2",
    "Bursts",
    MUST,
    "Five bursts into an empty queue, each as long as the queue declares to let through (RFC 8033's burst allowance, "
    "CoDel's interval) or shorter.",
    needs="no burst here is as short as its allowance",
)
def _bursts() -> Iterator[QueueCell]:
    for length in (40, 80, 120):
        # Sent at ten times the link rate, of which the link transmits one tenth: the queue grows to `length`.
        lasts = length / 9.0
        flows = [
            {
                "name": f"burst-{at}",
                "app": "udp-cbr",
                "params": {"rate": "200mbit"},
                "packet_size": f"{PACKET}B",
                "start": f"{1000 * at}ms",
                "stop": f"{1000 * at + lasts:.3f}ms",
            }
            for at in (3, 4, 5, 6, 7)
        ]
        yield QueueCell(
            f"burst-{length}ms",
            f"bursts of {length} ms",
            line(*flows, CALL, duration="9s", spread="0s"),
            ("burst_loss",),
            after=(2.0, 9.0),
            quick=length == 80,
            burst_ms=float(length),
        )


@_experiment(
    "mixed-rtts",
    "7928 6",
    "Flows with different RTTs",
    SHOULD,
    "Flows of 20, 40, 80 and 160 ms: what they get of the link, and what packets wait.",
)
def _mixed() -> Iterator[QueueCell]:
    far = [
        bulk(name=f"bulk-{rtt}", access_delay=f"{(rtt - 20) / 2:g}ms") if rtt > 20 else bulk(name="bulk-20")
        for rtt in (20, 40, 80, 160)
    ]
    given = line(*far, rtt="20ms", duration="40s")
    yield QueueCell("mixed-rtts", "RTTs of 20 to 160 ms", given, ("jain", "wait_p50"), quick=True)
    given = line(bulk(4), duration="30s")
    yield QueueCell("alike", "four flows alike", given, ("jain",))


@_experiment(
    "flows-apart",
    "7567 4",
    "Flows kept apart",
    NO_WORD,
    "Of a queue that declares flows of its own: one of CUBIC, one of Reno, one of BBR and datagrams of twice a fair "
    "part, over a link of one RTT.",
    needs="it does not declare to keep flows apart",
)
def _apart() -> Iterator[QueueCell]:
    flows = [bulk(name=f"bulk-{cc}", cc=cc) for cc in ("cubic", "reno", "bbr")]
    given = line(*flows, datagrams("10mbit"), duration="30s")
    yield QueueCell(
        "flows-apart", "three algorithms and datagrams", given, ("jain_apart",), after=(10.0, 30.0), quick=True
    )


@_experiment(
    "hosts",
    "7567 4",
    "Fairness between hosts",
    NO_WORD,
    "One flow of one host beside eight of another: the first gets no less of the link than drop-tail gives it.",
)
def _hosts() -> Iterator[QueueCell]:
    yield QueueCell("hosts", "one flow beside eight of another host", _two_hosts(), ("host_share",), quick=True)


@_experiment(
    "hosts-apart",
    "7567 4",
    "Hosts kept apart",
    NO_WORD,
    "The same run, of a queue that declares a part for each host: each gets half.",
    needs="it does not declare to keep hosts apart",
)
def _hosts_apart() -> Iterator[QueueCell]:
    yield QueueCell("hosts", "one flow beside eight of another host", _two_hosts(), ("host_half",), quick=True)


@_experiment(
    "low-rates",
    "7928 8.2",
    "Low rates",
    SHOULD,
    "1 Mbit/s, where a packet takes 12 ms: a target shorter than 1.5 packets counts as 1.5 packets.",
)
def _low() -> Iterator[QueueCell]:
    for count in (1, 4):
        given = line(bulk(count), rate="1mbit", duration="40s")
        label = f"1 Mbit/s, {count} flow{'s' if count > 1 else ''}"
        yield QueueCell(f"low-rate-{count}", label, given, ("wait_p50", "use"), quick=count == 1)


@_experiment(
    "rate-drops",
    "7928 8.2.6",
    "The rate drops",
    MUST,
    "50 Mbit/s become 5 at 10 s: from the fourth second after it the queue is back at its target.",
    not_in_guest=_ONE_RATE,
)
def _drop() -> Iterator[QueueCell]:
    yield QueueCell("rate-drop", "50 → 5 Mbit/s", _dropping(), ("wait_after",), after=(14.0, 20.0), quick=True)


@_experiment(
    "signals",
    "7567 4.2",
    "Signals leave at once",
    NO_WORD,
    "Three seconds after that change: from a drop to when the flow's next packet leaves, which shows the gap.",
    needs="it does not declare to drop at the head; the gap of a dropped arrival waits as long as the queue is",
    not_in_guest=_ONE_RATE,
)
def _signals() -> Iterator[QueueCell]:
    label = "three seconds after 50 → 5 Mbit/s"
    yield QueueCell("rate-drop-signals", label, _dropping(), ("signal_ms",), after=(10.0, 13.0), quick=True)


@_experiment(
    "ecn",
    "7567 4.2.1",
    "ECN",
    SHOULD,
    "Four flows that ask for ECN: a signal is a mark and not a loss, and the delay is what it is without.",
)
def _ecn() -> Iterator[QueueCell]:
    given = line(bulk(4, stack=_ECN))
    yield QueueCell("ecn", "four flows with ECN", given, ("marked_share", "wait_p50"), quick=True, ecn=True)


@_experiment(
    "l4s",
    "RFC 9332",
    "Beside L4S",
    NO_WORD,
    "Prague, which answers a mark gently, beside CUBIC without ECN: the one with less gets at least a quarter of half.",
    not_in_guest="the kernels here have no Prague",
)
def _l4s() -> Iterator[QueueCell]:
    given = line(bulk(name="bulk-prague", cc="prague", stack=_L4S), bulk(name="bulk-cubic"), duration="30s")
    yield QueueCell("l4s", "Prague beside CUBIC", given, ("least_share",), quick=True, ecn=True)


@_experiment(
    "short-flows",
    "7928 7.1",
    "Short flows",
    SHOULD,
    "Transfers of 15 and 150 kB beside four long flows.",
)
def _short() -> Iterator[QueueCell]:
    for size in ("15kB", "150kB"):
        params = {"bytes": size, "idle_low": "100ms", "idle_high": "400ms"}
        short = {"name": "short", "count": 2, "app": "transfers", "cc": "cubic", "params": params}
        given = line(bulk(4), short, duration="30s")
        statistics = ("fct_p50", "fct_p95")
        yield QueueCell(f"short-{size}", f"{size} beside four flows", given, statistics, quick=size == "15kB")


@_experiment(
    "calls",
    "7928 7.2",
    "Calls",
    SHOULD,
    "A G.711 call beside one and four long flows: what its packets wait, and how many are lost.",
)
def _calls() -> Iterator[QueueCell]:
    for count in (1, 4):
        label = f"a call beside {count} flow{'s' if count > 1 else ''}"
        given = line(bulk(count), CALL, duration="30s")
        yield QueueCell(f"call-{count}", label, given, ("call_p95", "call_loss"), quick=count == 4)


@_experiment(
    "memory",
    "7567 4",
    "Memory: the limit holds",
    MUST,
    "Datagrams of twice the rate: never more waits than the limit says.",
    not_in_guest="the drop of a waiting packet is seen only when one behind it comes out",
)
def _memory() -> Iterator[QueueCell]:
    given = line(datagrams("40mbit"), duration="8s")
    yield QueueCell("memory", "datagrams of twice the rate", given, ("held",), after=(0.0, 8.0), quick=True)


@_experiment(
    "cost",
    "7567 4",
    "Cost of a packet",
    SHOULD,
    "Instructions a packet takes with 1,000 waiting, beside those with 10, and of a built-in queue those beyond "
    "drop-tail's: counted and never timed.",
    needs="its instructions are not counted",
    not_in_guest="its instructions are not counted",
)
def _cost() -> Iterator[QueueCell]:
    given = line(datagrams("40mbit"), duration="2s")
    yield QueueCell("cost", "10 and 1,000 waiting", given, ("cost_growth",), after=(0.0, 2.0), quick=True)


def applies(experiment: Experiment, cell: Cell, scope: str, of: Candidate | None) -> Cell | None:
    """The cell, or None if the queue does not declare the property that it tests."""
    if not isinstance(of, QueueCandidate) or not isinstance(cell, QueueCell):
        return cell
    if of.needs_guest and experiment.not_in_guest:
        return None
    declared = {
        "bursts": cell.burst_ms <= of.burst_ms,
        "flows-apart": of.isolates in ("flows", "hosts"),
        "hosts-apart": of.isolates == "hosts",
        "signals": of.drops_at_head,
        "cost": of.kind == "python" or _is_counted(of),
    }
    if experiment.name == "cost" and _is_counted(of):
        cell = replace(cell, statistics=(*cell.statistics, "cost_beyond"))
    return cell if declared.get(experiment.name, True) else None


def _is_counted(of: QueueCandidate) -> bool:
    return of.kind == "built-in" and cost.is_kept(of.name)


#: All experiments, in the order of the page.
EXPERIMENTS: tuple[Experiment, ...] = tuple(_ALL)
