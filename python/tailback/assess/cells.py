"""The cells of RFC 9743's criteria, as data.

A cell is a scenario as a file would have it. Flows whose names begin with "test" run the algorithm under test. All
other flows share the path with it and are the same for every candidate.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from tailback import traces
from tailback.assess.plain import plain_of
from tailback.assess.procedure import (
    ADVICE,
    EXPLAIN,
    MEDIA,
    MUST,
    NO_WORD,
    SHOULD,
    Cell,
    Experiment,
    Flow,
    drawn,
    dumbbell,
    other,
    several,
    short,
    under_test,
)

__all__ = ["EXPERIMENTS", "PLAIN", "SPECIAL"]

CALL = {"name": "call", "app": "voip"}
VIDEO = {"name": "video", "app": "udp-cbr", "params": {"rate": "1mbit"}}
LINUX_ECN = {"name": "linux", "ecn": True}

_ALL: list[Experiment] = []
_Cells = Callable[[], Iterable[Cell]]


def _experiment(name: str, section: str, title: str, word: str, about: str) -> Callable[[_Cells], _Cells]:
    """Decorator: registers an experiment whose cells the decorated function yields."""

    def take(cells: _Cells) -> _Cells:
        found = tuple(each for cell in cells() for each in _both_counts(cell))
        if name in SPECIAL:
            found = tuple(map(_with_plain, found))
        _ALL.append(Experiment(name, section, title, word, about, found))
        return cells

    return take


def _both_counts(cell: Cell) -> Iterator[Cell]:
    """The cell, and a twin with a packet-counting queue if a call crosses a queue of the depth given in BDP.

    A nearly full byte-counting queue still has room for a call's small packet, so a call loses none there. Linux's
    pfifo and the rings of network cards count packets. The criterion's verdict is the worse of the two.
    docs/decisions/0006-what-a-queues-limit-counts.md
    """
    yield cell
    neck = cell.given.get("dumbbell", {})
    queue = neck.get("queue")
    if CALL in cell.given["flow"] and isinstance(queue, str) and queue.endswith("bdp"):
        given = {**cell.given, "dumbbell": {**neck, "queue": f"{queue} packets"}}
        yield replace(cell, name=f"{cell.name}-packets", label=f"{cell.label}, counted in packets", given=given)


#: Experiments on special cases, each judged relative to the same candidate's plain case.
#: Those of section 7: only these may remain unsatisfactory.
SPECIAL = frozenset({"aqm", "varying-delay", "high-delay", "acks", "misbehaving", "reordering", "transients",
                     "path-changes"})  # fmt: skip
#: Plain cases, by name.
PLAIN: dict[str, Cell] = {}


def _with_plain(cell: Cell) -> Cell:
    """The cell with its plain case's name; cells that differ only in what is special share one plain case."""
    given = plain_of(cell.given)
    if given is None:
        return cell
    plain = next((each for each in PLAIN.values() if (each.given, each.after) == (given, cell.after)), None)
    if plain is None:
        plain = Cell(f"plain-{cell.name}", f"the plain case of {cell.label}", given, (), cell.after)
    statistics = dict.fromkeys((*plain.statistics, *cell.statistics))
    PLAIN[plain.name] = replace(plain, statistics=tuple(statistics), quick=plain.quick or cell.quick)
    return replace(cell, plain=plain.name)


def _without(name: str, section: str, title: str, word: str, why: str = "", covered_by: tuple[str, ...] = ()) -> None:
    _ALL.append(Experiment(name, section, title, word, "", not_run=why, covered_by=covered_by))


@_experiment(
    "congestion-collapse",
    "5.1.1",
    "Congestion collapse",
    ADVICE,
    "Many flows on a link that has room for a fraction of a packet of each: what is sent must still arrive.",
)
def _collapse() -> Iterator[Cell]:
    for count in (16, 64):
        given = dumbbell(under_test(count), duration="60s", rate="1mbit", queue="20packets")
        name, label = f"collapse-crowd-{count}", f"{count} flows over 1 Mbit/s"
        yield Cell(name, label, given, ("delivered",), quick=count == 64)


@_experiment(
    "persistent-loss",
    "5.1.1",
    "Full backoff under persistent loss",
    ADVICE,
    "A path that loses most of what is sent, whatever the rate: a sender must come down to one packet a round trip "
    "(the bound is absolute), and to less, as far as timers that double do.",
)
def _persistent() -> Iterator[Cell]:
    # If a share p of all packets is lost, the mean wait for a retransmission by a timer that doubles is the sum of
    # (2p)^k timeouts. From 50 % on it has no limit, so the congestion persists for every sender. At 30 % it is 2.5
    # timeouts; there a sender may still recover by its ACKs, and RFC 9743 leaves to it where full backoff begins.
    for share in (0.6, 0.9):
        given = dumbbell(under_test(), duration="60s", wire={"loss": share})
        label = f"{100 * share:g} % lost at random"
        statistics = ("packets_per_rtt", "packets_backoff")
        yield Cell(f"persistent-loss-{share:g}", label, given, statistics, quick=share == 0.6)


@_experiment(
    "bufferbloat",
    "5.1.2",
    "Bufferbloat",
    ADVICE,
    "One long flow, and what a call beside it waits in the queue, as queues grow.",
)
def _bufferbloat() -> Iterator[Cell]:
    # CUBIC fills each of these queues at times, so a call's 95th percentile cannot get worse. A fault that always fills
    # them passed by it; the mean wait catches that fault.
    statistics = ("queue_ms", "call_ms", "harm_delay", "harm_mos")
    for queue in ("0.5bdp", "1bdp", "4bdp", "16bdp"):
        given = dumbbell(under_test(), CALL, queue=queue)
        yield Cell(f"bufferbloat-{queue}", f"queue {queue}", given, statistics, quick=queue == "4bdp")
    for rtt, queue in product(("10ms", "160ms"), ("1bdp", "4bdp")):
        given = dumbbell(under_test(), CALL, rtt=rtt, queue=queue)
        yield Cell(f"bufferbloat-{rtt}-{queue}", f"RTT {rtt}, queue {queue}", given, statistics)


@_experiment(
    "standing-queue",
    "5.1.2",
    "Bufferbloat: the queue in milliseconds",
    ADVICE,
    "The same runs, where the queue is deep: the bound is absolute. RFC 9743 says that Reno and CUBIC do not address "
    "bufferbloat, and they fail here.",
)
def _standing() -> Iterator[Cell]:
    # The same runs: nothing is run twice.
    for cell in _bufferbloat():
        # Four BDP of 10 ms are 40 ms, which no sender can make 100.
        if cell.name.endswith(("-4bdp", "-16bdp")) and "-10ms-" not in cell.name:
            yield replace(cell, statistics=("queue_absolute",))


@_experiment(
    "high-loss",
    "5.1.3",
    "Protection against high packet loss",
    ADVICE,
    "Several flows in shallow buffers: who ignores losses keeps them high.",
)
def _high_loss() -> Iterator[Cell]:
    for count, queue in product((1, 2, 4, 16, 64), ("0.1bdp", "0.25bdp", "0.5bdp", "1bdp", "2bdp")):
        yield Cell(
            f"loss-{count}-flows-{queue}",
            f"{several(count)}, queue {queue}",
            dumbbell(under_test(count), duration="20s", rate="50mbit", queue=queue),
            ("loss",),
            quick=count in (4, 16) and queue == "0.25bdp",
        )
    for rtt, queue in product(("10ms", "160ms"), ("0.25bdp", "1bdp")):
        given = dumbbell(under_test(4), duration="20s", rate="50mbit", rtt=rtt, queue=queue)
        yield Cell(f"loss-4-flows-{rtt}-{queue}", f"4 flows, RTT {rtt}, queue {queue}", given, ("loss",))


@_experiment(
    "loss-in-per-cent",
    "5.1.3",
    "High packet loss: the loss in per cent",
    ADVICE,
    "The same runs with up to four flows: the bound is absolute.",
)
def _absolute_loss() -> Iterator[Cell]:
    # The same runs: nothing is run twice.
    for cell in _high_loss():
        if cell.name.startswith(("loss-1-", "loss-2-", "loss-4-")):
            yield replace(cell, statistics=("loss_absolute",))


#: A link of the Internet of things: a packet takes 188 ms to send.
_SLOW: dict[str, Any] = {"duration": "120s", "rate": "64kbit", "rtt": "200ms", "queue": "10packets"}
_SLOW_LABEL = "64 kbit/s, RTT 200 ms"


def _slow_pairs(*statistics: str) -> Iterator[Cell]:
    """Two flows at low rates: 5.1.4 judges how they share, 7.4 the rest of the same runs."""
    yield Cell("low-rate-2", f"{_SLOW_LABEL}, 2 flows", dumbbell(under_test(2), **_SLOW), statistics, quick=True)
    given = dumbbell(under_test(2), duration="60s", rate="1mbit", rtt="4ms", queue="20packets")
    label = "1 Mbit/s, RTT 4 ms, where a third of a packet fits, 2 flows"
    yield Cell("below-a-packet", label, given, statistics, quick=True)


@_experiment(
    "fairness-within",
    "5.1.4",
    "Fairness within the algorithm",
    ADVICE,
    "Flows of the same algorithm share: alike, with different RTTs, when one comes late (its index is of the last "
    "25 s), and at low rates.",
)
def _fairness() -> Iterator[Cell]:
    line = functools.partial(dumbbell, duration="60s", rate="50mbit")
    for count in (2, 8, 32, 64):
        given = line(under_test(count), spread="2s")
        yield Cell(f"fair-{count}", f"{count} flows", given, ("jain", "lowest"), quick=count == 8)
    for longer in (10, 30, 60, 90, 150):
        far = {"name": "test-far", "access_delay": f"{longer}ms"}
        given = line({"name": "test-near"}, far, rtt="20ms", queue="100packets")
        yield Cell(f"fair-rtt-{longer}", f"RTT 20 ms beside {20 + 2 * longer} ms", given, ("jain", "lowest"))
    given = line({"name": "test-early"}, {"name": "test-late", "start": "20s"})
    yield Cell("fair-late", "a second flow comes after 20 s", given, ("jain",), after=(35.0, 60.0), quick=True)
    yield from _slow_pairs("jain")


@_experiment(
    "short-flows",
    "5.1.5",
    "Short flows",
    MUST,
    "Short transfers of the algorithm, alone and beside its own long flows.",
)
def _short_flows() -> Iterator[Cell]:
    for size, count in product(("1kB", "10kB", "100kB", "1MB", "10MB"), (0, 1, 4)):
        long = [{**under_test(count), "name": "test-long"}] if count else []
        yield Cell(
            f"short-{size}-beside-{count}",
            f"{size} beside {several(count, 'long flow')}",
            dumbbell(short("test-short", size), *long, duration="60s"),
            ("fct_p50_ms", "fct_p95_ms", "unfinished"),
            quick=(size, count) == ("100kB", 1),
        )


@_experiment(
    "rto-backoff",
    "5.2",
    "Timers back off when all ACKs stop",
    MUST,
    "Full backoff: a sender that hears nothing sends ever less.",
)
def _silence() -> Iterator[Cell]:
    for name, label, stopped in (
        ("silence", "all ACKs stop at 20 s", "return"),
        ("silence-there", "all data stops at 20 s", "bottleneck"),
    ):
        links = [
            {"name": "bottleneck", "from": "left", "to": "right", "rate": "10mbit", "delay": "20ms", "queue": "1bdp"},
            {"name": "return", "from": "right", "to": "left", "rate": "10mbit", "delay": "20ms", "queue": "5packets"},
        ]
        step = {"at": "20s", "rate": "0bit"}
        given = {
            "duration": "90s",
            "link": [{**link, "schedule": [step]} if link["name"] == stopped else link for link in links],
            "flow": [under_test(4) | {"from": "left", "to": "right"}],
            "randomness": drawn(),
        }
        yield Cell(name, label, given, ("late_packets",), after=(25.0, 90.0), quick=name == "silence")


def _mixes(cc: str) -> Iterator[tuple[str, str, Flow, Flow, dict[str, Any]]]:
    """Cells with other RTTs, N flows beside M, a late-comer and distant others: name, label, both sides, the path."""
    for rtt in ("10ms", "160ms"):
        yield rtt, f"RTT {rtt}", under_test(), other(cc), {"rtt": rtt}
    yield "4-to-1", "4 beside 1", under_test(4), other(cc), {}
    yield "1-to-4", "1 beside 4", under_test(), other(cc, count=4), {}
    yield "late", "the other comes 20 s late", under_test(), other(cc, start="20s"), {}
    yield "far", "the other's RTT is 120 ms, not 40", under_test(), other(cc, access_delay="40ms"), {}


def _beside(*ccs: str, quick: tuple[str, ...]) -> Iterator[Cell]:
    for cc, rate, queue in product(ccs, ("10mbit", "50mbit"), ("0.5bdp", "1bdp", "4bdp")):
        yield Cell(
            f"beside-{cc}-{rate}-{queue}",
            f"beside {cc}, {rate}, queue {queue}",
            dumbbell(under_test(), other(cc), duration="60s", rate=rate, queue=queue),
            ("harm_goodput", "harm_lowest"),
            quick=cc in quick and (rate, queue) == ("10mbit", "1bdp"),
            rival=cc,
        )
    # The loss of the flows under test is no harm to others, and has its row.
    statistics = ("harm_goodput", "harm_lowest")
    for cc in ccs:
        for name, label, mine, theirs, more in _mixes(cc):
            given = dumbbell(mine, theirs, duration="60s", **more)
            # No `harm_lowest` for the late-comer: it counts from 10 s on, and this flow starts at 20 s. Fitted, as the
            # cell had no verdict.
            mine_only = statistics if name != "late" else ("harm_goodput",)
            yield Cell(f"beside-{cc}-{name}", f"beside {cc}, {label}", given, mine_only, rival=cc)


@_experiment(
    "standard-flows",
    "5.2.1",
    "Long flows of Reno and CUBIC",
    MUST,
    "One flow beside one of a standard: what that loses against having the path to itself.",
)
def _standard() -> Iterator[Cell]:
    return _beside("cubic", "reno", quick=("cubic", "reno"))


def _tunnel(*, ecn: bool) -> Cell:
    # WireGuard over IPv6 leaves 1420 bytes.
    inside: dict[str, Any] = {"mtu": "1420B", **({"stack": LINUX_ECN} if ecn else {})}
    queue = {"discipline": "fq_codel", "flows": 1, "ecn": ecn}
    return Cell(
        f"tunnel-{'ecn' if ecn else 'drops'}",
        f"one queue of FQ-CoDel for all, {'ECN handed on (RFC 6040)' if ecn else 'without ECN'}",
        dumbbell(under_test(2, **inside), other("cubic", **inside), CALL, queue=queue),
        ("harm_goodput", "harm_delay", "loss"),
        quick=ecn,
    )


def _managed() -> Iterator[Cell]:
    yield _tunnel(ecn=False)
    for name, ecn in [*product(("codel", "fq_codel", "pie", "red"), (False, True)), ("dualpi2", True)]:
        stack: dict[str, Any] = {"stack": LINUX_ECN} if ecn else {}
        queue = {"discipline": name, **({"ecn": ecn} if name != "dualpi2" else {})}
        yield Cell(
            f"aqm-{name}-{'ecn' if ecn else 'drops'}",
            f"{name}, {'ECN' if ecn else 'without ECN'}",
            dumbbell(under_test(2, **stack), other("cubic", **stack), CALL, queue=queue),
            ("harm_goodput", "harm_delay", "loss"),
            quick=name in ("codel", "pie") and ecn,
        )


@_experiment(
    "own-share",
    "5.2.1",
    "What it keeps beside them: harm to itself",
    NO_WORD,
    "The same flows from the other side, in a tunnel and through AQMs, too: an algorithm that gives way to CUBIC and "
    "Reno harms only its own flow.",
)
def _own_share() -> Iterator[Cell]:
    # The same runs: nothing is run twice.
    for cell in (*_standard(), _tunnel(ecn=True), *_managed()):
        yield replace(cell, statistics=("own_goodput",), rival="", quick=cell.quick and bool(cell.rival))


@_experiment(
    "widely-deployed",
    "5.2.1",
    "Long flows of BBR, which is widely deployed",
    ADVICE,
    "The same beside BBR version 1 and BBR version 3.",
)
def _deployed() -> Iterator[Cell]:
    return _beside("bbr", "bbr3", quick=("bbr3",))


@_experiment(
    "starvation",
    "5.2",
    "Starvation of others",
    MUST,
    "The same runs: how often a long flow of CUBIC, Reno or BBR gets next to nothing for 5 s.",
)
def _starvation() -> Iterator[Cell]:
    # The same runs: nothing is run twice. A late-comer would count as starved before it starts.
    for of in (_standard, _deployed):
        for cell in of():
            if not cell.name.endswith("-late"):
                yield replace(cell, statistics=("starved",), rival="")


@_experiment(
    "real-time",
    "5.2.2",
    "Real-time traffic of others, of constant rate",
    SHOULD,
    "A G.711 call and a video of constant 1 Mbit/s, in queues that count bytes and in queues that count packets.",
)
def _real_time() -> Iterator[Cell]:
    for count, queue in product((1, 4), ("0.5bdp", "1bdp", "4bdp")):
        yield Cell(
            f"real-time-{count}-{queue}",
            f"{several(count)}, queue {queue}",
            dumbbell(under_test(count), CALL, VIDEO, rate="10mbit", queue=queue),
            ("harm_delay", "harm_loss", "harm_mos"),
            # Shallow queues too: a deep queue delays a call's packets, a shallow one drops them.
            quick=count == 4 and queue in ("0.5bdp", "1bdp"),
        )


@_experiment(
    "real-time-adaptive",
    "5.2.2",
    "Real-time traffic of others that adapts its rate",
    SHOULD,
    "A video call of at most 1.5 Mbit/s by NADA, by GCC and by SCReAM, beside one long flow.",
)
def _adaptive() -> Iterator[Cell]:
    for app, queue in product(MEDIA, ("0.5bdp", "1bdp", "4bdp")):
        control = {"media": "nada"}.get(app, app.removeprefix("media-"))
        yield Cell(
            f"adaptive-{control}-{queue}",
            f"beside media by {control.upper()}, queue {queue}",
            dumbbell(under_test(), {"name": "media", "app": app}, duration="60s", rate="10mbit", queue=queue),
            ("harm_media", "harm_media_delay"),
            quick=queue == "1bdp",
        )


@_experiment(
    "real-time-quality",
    "5.2.2",
    "Real-time traffic: delay and quality of calls",
    SHOULD,
    "The same runs: the bounds are absolute. RFC 9743 says that real-time flows have more strict latency bounds.",
)
def _quality() -> Iterator[Cell]:
    # The same runs: nothing is run twice. One BDP and the way to the receiver are 60 ms, which no sender can make 150.
    for cell in _real_time():
        deep = ("call_absolute",) if cell.name.endswith("-4bdp") else ()
        is_quick = cell.quick or cell.name == "real-time-1-4bdp"
        yield replace(cell, statistics=("mos_absolute", *deep), quick=is_quick)
    for cell in _adaptive():
        if cell.name.endswith("-4bdp"):
            yield replace(cell, statistics=("media_absolute",))


@_experiment(
    "short-flows-of-others",
    "5.2.3",
    "Short flows beside long flows of another",
    MUST,
    "Short transfers of CUBIC beside long flows of the candidate, and of the candidate beside long flows of CUBIC.",
)
def _others_short() -> Iterator[Cell]:
    for size, count, queue in product(("10kB", "100kB", "1MB"), (1, 4), ("0.25bdp", "1bdp", "4bdp")):
        yield Cell(
            f"others-short-{size}-{count}-{queue}",
            f"{size} of CUBIC's beside {count}, queue {queue}",
            dumbbell(under_test(count), short("other-short", size, cc="cubic"), duration="60s", queue=queue),
            ("harm_fct", "others_unfinished"),
            quick=(size, count, queue) == ("100kB", 1, "1bdp"),
        )
    for size, count in product(("10kB", "100kB", "1MB"), (1, 4)):
        yield Cell(
            f"short-{size}-beside-cubic-{count}",
            f"{size} beside {several(count, 'long flow')} of CUBIC",
            dumbbell(short("test-short", size), other("cubic", count=count), duration="60s"),
            ("fct_p50_ms", "fct_p95_ms", "unfinished", "harm_goodput"),
        )


_without(
    "principles",
    "5.3",
    "Departures from RFC 2914's principles, and incremental deployment",
    EXPLAIN,
    "No experiment answers this: the author of the candidate has to write it.",
)
_without(
    "drop-tail",
    "6.1, 6.3",
    "Drop-tail queues, wired paths",
    MUST,
    covered_by=(
        "congestion-collapse",
        "bufferbloat",
        "high-loss",
        "fairness-within",
        "short-flows",
        "standard-flows",
        "starvation",
        "short-flows-of-others",
        "population",
    ),
)


@_experiment(
    "tunnels",
    "6.2",
    "Tunnels",
    f"{MUST}, with ECN",
    "All are in one tunnel that takes 80 bytes a packet and hands on ECN (RFC 6040): FQ-CoDel has one queue for them, "
    "and a call waits in it too. The RFC asks this of who relies on signals of the path.",
)
def _tunnels() -> Iterator[Cell]:
    yield _tunnel(ecn=True)


@_experiment(
    "wireless",
    "6.4",
    "Wireless paths",
    ADVICE,
    "Random and bursty loss, jitter, cellular links whose rate varies, stations that share 802.11g.",
)
def _wireless() -> Iterator[Cell]:
    for share in (0.0001, 0.001, 0.01, 0.03):
        given = dumbbell(under_test(), wire={"loss": share})
        label = f"{100 * share:g} % lost at random"
        yield Cell(f"random-loss-{share:g}", label, given, ("goodput",), quick=share == 0.01)
    bursts = {"burst_start": 0.002, "burst_end": 0.2, "burst_loss": 1.0}
    yield Cell("burst-loss", "1 % lost in bursts of 5", dumbbell(under_test(), wire=bursts), ("goodput",))
    given = dumbbell(under_test(), CALL, wire={"jitter": "10ms"})
    yield Cell("jitter", "link retransmissions: up to 10 ms of jitter", given, ("goodput", "call_ms"))
    line: dict[str, Any] = {"duration": "60s", "rate": "5mbit", "rtt": "60ms", "queue": "200packets"}
    given = dumbbell(under_test(), CALL, **line, schedule=traces.lte(60, seed=1))
    label = "a made-up LTE link (tb.traces.lte, seed 1)"
    yield Cell("cellular", label, given, ("goodput", "harm_delay"), quick=True)
    air = {"name": "wifi", "channel": "air", "rate_mbps": 54}
    stations = ("sofa", "desk")
    given = {
        "duration": "20s",
        "link": [
            {"name": name, "from": name, "to": "point", "medium": air, "queue": "100packets", "duplex": True}
            for name in stations
        ],
        "flow": [{"name": f"test-{name}", "from": name, "to": "point"} for name in stations],
        "randomness": {"start_spread": "500ms"},
    }
    yield Cell("wifi", "two stations of 802.11g send", given, ("goodput", "jain"))


@_experiment(
    "aqm",
    "7.1",
    "Active queue management, with and without ECN",
    SHOULD,
    "Two flows beside one of CUBIC and a call, through each discipline, and in a tunnel whose queue drops.",
)
def _aqm() -> Iterator[Cell]:
    return _managed()


@_experiment(
    "link-use",
    "5",
    "Uses the link",
    NO_WORD,
    "What the flows under test get of the link in the cells of other rows: queues of all depths, crowds, their own "
    "short flows. But for the last (5.1.5), the RFC has no such criterion; its author wants to know.",
)
def _link_use() -> Iterator[Cell]:
    # The same runs: nothing is run twice.
    for of in (_collapse, _bufferbloat, _high_loss):
        for cell in of():
            yield replace(cell, statistics=("goodput",))
    for cell in _short_flows():
        if cell.name.endswith(("beside-1", "beside-4")):
            yield replace(cell, statistics=("goodput",))


_without(
    "circuit-breakers",
    "7.2",
    "Circuit breakers (RFC 8083, RFC 8084)",
    NO_WORD,
    "There is no application here that trips one.",
)


@_experiment(
    "varying-delay",
    "7.3",
    "Paths whose delay varies",
    SHOULD,
    "Steps of the base delay by 20 and 100 ms both ways, and slots of 15 s.",
)
def _delay_steps() -> Iterator[Cell]:
    for before, then in ((20, 40), (20, 120), (40, 20), (120, 20)):
        step = {"at": "20s", "delay": f"{then}ms"}
        yield Cell(
            f"delay-{before}-{then}",
            f"one-way delay {before} → {then} ms at 20 s",
            dumbbell(under_test(), duration="50s", rtt=f"{2 * before}ms", queue="100packets", schedule=[step]),
            ("goodput", "goodput_after"),
            after=(20.0, 50.0),
            quick=(before, then) == (20, 120),
        )
    line: dict[str, Any] = {"duration": "45s", "rate": "100mbit", "queue": "1MB", "back_delay": "0s", "delay": "25ms"}
    given = dumbbell(under_test(), **line, schedule=traces.low_orbit(45, seed=1))
    label = "a made-up path by low satellites (tb.traces.low_orbit, seed 1)"
    yield Cell("low-orbit", label, given, ("goodput", "queue_ms"))


@_experiment(
    "low-rates",
    "7.4",
    "Low rates, and less than a packet in flight",
    NO_WORD,
    "Links of the Internet of things.",
)
def _low_rates() -> Iterator[Cell]:
    yield Cell("low-rate", _SLOW_LABEL, dumbbell(under_test(), **_SLOW), ("goodput", "loss", "queue_ms"))
    yield from _slow_pairs("goodput", "loss")


@_experiment("high-delay", "7.5", "Paths of high delay", NO_WORD, "A satellite's RTT of 600 ms.")
def _satellite() -> Iterator[Cell]:
    line = functools.partial(dumbbell, duration="120s", rtt="600ms")
    yield Cell("geo", "20 Mbit/s, RTT 600 ms", line(under_test()), ("goodput", "loss"), quick=True)
    yield Cell("geo-loss", "the same, 0.1 % lost", line(under_test(), wire={"loss": 0.001}), ("goodput",))
    yield Cell("geo-short", "1 MB over it", line(short("test-short", "1MB")), ("fct_p50_ms", "unfinished"))
    yield Cell("geo-two", "two flows", line(under_test(2), duration="200s"), ("jain", "loss"))


@_experiment(
    "acks",
    "7.6",
    "Receivers that acknowledge each segment, or every eighth",
    NO_WORD,
    "More and fewer ACKs than usual, which no standard forbids.",
)
def _thin_acks() -> Iterator[Cell]:
    for every, label in ((1, "an ACK for each segment"), (8, "an ACK for every 8 segments")):
        given = dumbbell(under_test(2, stack={"name": "linux", "ack_every": every}))
        yield Cell(f"acks-{every}", label, given, ("goodput", "loss"), quick=every == 1)


@_experiment(
    "misbehaving",
    "7.6",
    "Receivers that divide ACKs, acknowledge ahead of the data, or conceal marks",
    SHOULD,
    "What a receiver that lies (Savage et al. 1999; RFC 3540) takes from an honest flow of CUBIC and a call beside it. "
    "For the sender a path that clears ECN behind the queue is the same as marks concealed.",
)
def _misbehaving() -> Iterator[Cell]:
    def lied_to(marks: Any, **lie: Any) -> dict[str, Any]:
        honest = LINUX_ECN if marks else {"name": "linux"}
        # A sender that never learns of a loss would otherwise fill the default buffer of 4 MB.
        liar = under_test(stack={**honest, **lie}, send_buffer="500kB")
        return dumbbell(liar, other("cubic", stack=honest), CALL, rate="10mbit", queue=marks or "1bdp")

    statistics = ("harm_goodput", "harm_delay", "loss")
    for pieces in (8, 64):
        label = f"each segment's ACK divided into {pieces}"
        yield Cell(f"acks-divided-{pieces}", label, lied_to(None, ack_division=pieces), statistics, quick=pieces == 8)
    for ahead in (2, 20):
        label = f"{ahead} segments acknowledged ahead, losses never reported"
        yield Cell(f"acks-ahead-{ahead}", label, lied_to(None, acks_ahead=ahead), statistics, quick=ahead == 2)
    for name in ("codel", "pie"):
        given = lied_to({"discipline": name, "ecn": True}, conceals_marks=True)
        yield Cell(f"marks-concealed-{name}", f"marks of {name} concealed", given, statistics)


@_experiment("reordering", "7.7", "Extreme reordering", NO_WORD, "Packets arrive this many places too late.")
def _reordering() -> Iterator[Cell]:
    for packets in (1, 3, 10, 30, 100):
        wire = {"reorder": 0.01, "reorder_delay": "500ms", "reorder_packets": packets}
        label = f"1 % of the packets overtaken by {packets}"
        given = dumbbell(under_test(), wire=wire)
        yield Cell(f"reordering-{packets}", label, given, ("goodput",), quick=packets == 10)


@_experiment(
    "transients",
    "7.8",
    "Transient events",
    SHOULD,
    "The rate × 10 and ÷ 10, outages of 0.1 to 10 s, others who come and go.",
)
def _transients() -> Iterator[Cell]:
    def steps(name: str, label: str, first: str, *steps: dict[str, str], lasts: float, quick: bool = True) -> Cell:
        line: dict[str, Any] = {"duration": "60s", "rate": first, "queue": "200packets", "schedule": list(steps)}
        end = float(steps[-1]["at"].removesuffix("s"))
        statistics = ("goodput_after", "harm_delay", "harm_loss")
        return Cell(name, label, dumbbell(under_test(), CALL, **line), statistics, (end, end + lasts), quick)

    for name, first, then in (("rate-up", 5, 50), ("rate-down", 50, 5)):
        step = {"at": "20s", "rate": f"{then}mbit"}
        yield steps(name, f"{first} → {then} Mbit/s at 20 s", f"{first}mbit", step, lasts=20.0)
    for outage in ("0.1", "1", "5", "10"):
        stop, go = {"at": "20s", "rate": "0bit"}, {"at": f"{20.0 + float(outage):g}s", "rate": "20mbit"}
        label = f"nothing gets through for {outage} s"
        yield steps(f"outage-{outage}s", label, "20mbit", stop, go, lasts=15.0, quick=outage == "1")
    burst = {"name": "burst", "app": "udp-cbr", "params": {"rate": "30mbit"}, "start": "20s", "stop": "35s"}
    yield Cell(
        "cross-traffic",
        "30 of 50 Mbit/s are taken from 20 to 35 s",
        dumbbell(under_test(), burst, CALL, duration="60s", rate="50mbit"),
        ("goodput", "goodput_after", "harm_loss"),
        after=(35.0, 50.0),
    )


@_experiment(
    "path-changes",
    "7.9",
    "Changes of the path",
    MUST,
    "Rate and delay change at once, as when a route does.",
)
def _path_changes() -> Iterator[Cell]:
    for name, label, rate, rtt, then in (
        ("route-worse", "50 Mbit/s, 20 ms → 10 Mbit/s, 110 ms", "50mbit", "20ms", ("10mbit", "100ms")),
        ("route-better", "10 Mbit/s, 200 ms → 50 Mbit/s, 110 ms", "10mbit", "200ms", ("50mbit", "10ms")),
    ):
        step = dict(zip(("at", "rate", "delay"), ("20s", *then), strict=True))
        given = dumbbell(under_test(2), duration="60s", rate=rate, rtt=rtt, queue="200packets", schedule=[step])
        yield Cell(name, label, given, ("goodput_after", "loss"), after=(20.0, 45.0), quick=name == "route-worse")


_without(
    "multipath",
    "7.10",
    "Multipath transports",
    NO_WORD,
    "Connections here have one path. For a multipath algorithm this is a MUST.",
)


@_experiment("data-centres", "7.11", "Data centres", NO_WORD, "RTTs far below 2 ms; many answers at once.")
def _data_centre() -> Iterator[Cell]:
    line = functools.partial(dumbbell, rate="1gbit", rtt="100us", queue="64kB", spread="20us")
    for count in (8, 40):
        answers = under_test(count, app="transfers", params={"bytes": "64kB", "count": 1})
        label = f"{count} servers answer 64 kB at once, 1 Gbit/s, RTT 100 µs"
        statistics = ("fct_p50_ms", "fct_p95_ms", "unfinished")
        yield Cell(f"incast-{count}", label, line(answers, duration="2s"), statistics, quick=count == 40)
    label = "4 long flows, 1 Gbit/s, RTT 100 µs, queue 64 kB"
    yield Cell("data-centre-long", label, line(under_test(4), duration="1s"), ("goodput", "jain", "loss"))


@_experiment(
    "data-centre-marks",
    "7.11",
    "Data centres whose switches mark",
    NO_WORD,
    "All senders ask for ECN; a switch with 500 kB marks what finds 20 packets.",
)
def _marking_switch() -> Iterator[Cell]:
    step = {"discipline": "red", "ecn": True, "weight": 1.0, "min": 20, "max": 20, "limit_bytes": 500_000}
    line = functools.partial(dumbbell, rate="1gbit", rtt="100us", queue=step, spread="20us")
    label = "4 long flows, 1 Gbit/s, RTT 100 µs, marks from 20 packets on"
    given = line(under_test(4, stack=LINUX_ECN), duration="1s")
    yield Cell("marks-long", label, given, ("goodput", "jain", "loss", "queue_marked"), quick=True)
    for count in (8, 40):
        answers = under_test(count, app="transfers", params={"bytes": "64kB", "count": 1}, stack=LINUX_ECN)
        label = f"{count} servers answer 64 kB at once, marks from 20 packets on"
        statistics = ("fct_p50_ms", "fct_p95_ms", "unfinished")
        yield Cell(f"marks-incast-{count}", label, line(answers, duration="2s"), statistics, quick=count == 40)


#: All experiments, in the order of the RFC.
EXPERIMENTS: tuple[Experiment, ...] = tuple(_ALL)
