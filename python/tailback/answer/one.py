"""Summarizes one result in at most ten sentences: who gains, who suffers, by how much, and how certain it is.

Every number is a measure of `tailback.metrics`, named beside its sentence, and nothing else is computed. If the
transfers that share a queue with a person pause, the measure is taken both while they are on and while they are off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tailback import metrics, registry
from tailback.answer.parts import LINES, Answer, Measured, Period, Person, Statement
from tailback.experience import recorded
from tailback.metrics import MissingRows, Rows
from tailback.numbers import written
from tailback.plots import flows as who
from tailback.plots.users import CLASSES, SATISFACTION
from tailback.result.provenance import Provenance

__all__ = ["answer"]

#: Maximum sentences about people who suffer; further ones are listed together.
_MOST = 4
#: A noticeable wait in ms: below it a line has grade A (DSLReports FAQ 17930; `bufferbloat_grade`).
_NOTICED_MS = 30.0
#: Width of a class of user satisfaction in points of R (ITU-T G.107 Annex B).
_CLASS = 10.0
#: Tolerable one-way delay of a conversation in ms (ITU-T G.114: up to 150 ms does not affect most of them).
_CONVERSATION_MS = 150.0
#: A game suffers from this share of late updates on.
_LATE = 0.01
#: Requests suffer if they take longer by this factor.
_LONGER = 1.5
#: A transfer suffers below this fraction of an equal share.
_SHARE = 0.5
#: Two periods count as equal if one is at least this fraction of the other.
_SAME = 0.95
#: A period shorter than this, in seconds, is too short to measure in.
_SHORTEST_S = 2.0


def answer(result: Any) -> Answer:
    """Who gains, who suffers, by how much, and how certain that is, in at most ten sentences.

    A call suffers if one packet in twenty takes over 150 ms (ITU-T G.114), or if users of its quality are not satisfied
    (R below 80, ITU-T G.107). A game suffers if one update in a hundred comes later than 100 ms, a film if it stalls or
    never starts. Requests suffer if they take 1.5 times as long; pings and other packets if they wait 30 ms in queues;
    a transfer if it gets less than half of an equal share.

    >>> import tailback as tb
    >>> from tailback.answer import answer
    >>> flows = [tb.bulk("cubic", name="upload", start="5s"), tb.voip(name="call")]
    >>> home = tb.dumbbell(rate="2mbit", rtt="40ms", queue="500ms", flows=flows, duration="20s",
    ...                    instruments={"packets": ["call"]})
    >>> [each.kind for each in answer(tb.run(home)).statements]
    ['gains', 'suffers', 'certainty']
    """
    rows = Rows.of(result)
    sending = _transfers(rows)
    people = sorted(_people(rows, sending), key=lambda each: -each.harm)
    shares, transfers = _shares(rows, sending)
    statements = [*shares, *_of_people(people), *_queues(rows)]
    certain = _certainty(rows, people)
    return Answer((*statements[: LINES - 1], certain), tuple(people), tuple(transfers))


def _or_none(measure: Callable[[], Any]) -> Any:
    """The value of a measure; None if it was not recorded or has too little data."""
    try:
        found = measure()
    except (MissingRows, ValueError):
        return None
    return None if isinstance(found, float) and math.isnan(found) else found


# --- Transfers ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Transfer:
    """A TCP flow that no person waits for."""

    flow: int
    name: str
    #: Links with a queue that its data cross.
    way: tuple[int, ...]
    #: Periods in which it was on, in seconds.
    periods: tuple[Period, ...]


def _transfers(rows: Rows) -> list[_Transfer]:
    """TCP flows that no person waits for, without those that never started."""
    if not rows.has("flows"):
        return []
    people, names, totals = recorded(rows.scenario), rows.flow_names, rows.table("flows")
    received = totals["bytes_received"]
    came_back = totals["bytes_returned"] if "bytes_returned" in totals else [0.0] * len(received)
    out = []
    for flow in rows.tcp_flows:
        if names[flow] in people or registry.application(rows.flow_spec(flow)).carries_packets:
            continue
        periods = rows.periods_s(flow, float(totals["started_s"][flow]), float(totals["finished_s"][flow]))
        route = rows.back_route(flow) if came_back[flow] > received[flow] else rows.route(flow)
        if periods:
            way = tuple(link for link in route if rows.holds_queue(link))
            out.append(_Transfer(flow, names[flow], way, tuple(periods)))
    return out


def _narrow(rows: Rows, ways: Sequence[int]) -> int | None:
    """The bottleneck of a path: the link that dropped most or, without drops, the slowest."""
    dropped = rows.tables["links"]["dropped"] if rows.has("links") else None

    def order(link: int) -> tuple[int, float]:
        rate = rows.ip_rate_bps(link)
        return (-int(dropped[link]) if dropped is not None else 0), (0.0 if math.isnan(rate) else rate)

    return min(ways, key=order, default=None)


def _shares(rows: Rows, sending: Sequence[_Transfer]) -> tuple[list[Statement], list[Measured]]:
    """Goodput of the transfers: one sentence per shared link, and the values."""
    at: dict[int | None, list[_Transfer]] = {}
    narrow: dict[tuple[int, ...], int | None] = {}
    for each in sending:
        if each.way not in narrow:
            narrow[each.way] = _narrow(rows, each.way)
        at.setdefault(narrow[each.way], []).append(each)
    statements: list[Statement] = []
    every: list[Measured] = []
    for link, sharing in at.items():
        window, is_whole = _together(sharing)
        found = [each for each in (_goodput(rows, transfer, window) for transfer in sharing) if each]
        found.sort(key=lambda each: -each.value)
        every += found
        statements += _share(rows, link, found, is_whole) if found else []
    return statements, every


def _together(sharing: Sequence[_Transfer]) -> tuple[Period | None, bool]:
    """The longest period in which all transfers were on, and whether this is all the time that any was on.

    The period is None in that case, for a single transfer, and if they never were on together.
    """
    common = list(sharing[0].periods)
    for each in sharing[1:]:
        common = [(max(a, c), min(b, d)) for a, b in common for c, d in each.periods if min(b, d) > max(a, c)]
    longest = max(common, key=_length, default=(0.0, 0.0))
    is_whole = _length(longest) >= _SAME * max(sum(map(_length, each.periods)) for each in sharing)
    return (None if is_whole or _length(longest) < _SHORTEST_S else longest), is_whole


def _length(period: Period) -> float:
    return period[1] - period[0]


def _goodput(rows: Rows, transfer: _Transfer, window: Period | None) -> Measured | None:
    flow = transfer.flow
    for asked in [window, None] if window else [None]:
        value = _or_none(lambda asked=asked: float(metrics.goodput(rows, flow, *(asked or (None, None)))))  # type: ignore[misc]
        if value is not None:
            return Measured("goodput", transfer.name, value / 1e6, "Mbit/s", asked)
    return None


def _share(rows: Rows, link: int | None, found: list[Measured], is_whole: bool) -> Iterator[Statement]:
    rate = math.nan if link is None else rows.mean_rate_bps(link) / 1e6
    place = "" if link is None else f" at {rows.link_names[link]}"
    of = place if math.isnan(rate) else f" of the {written(rate, 3)} Mbit/s{place}"
    if len(found) == 1:
        yield Statement("gains", f"{found[0].of} gains: it gets {found[0]} of goodput{of}.", tuple(found))
        return
    index = Measured("jain", ", ".join(each.of for each in found), metrics.jain([e.value for e in found]), "1")
    comparable = len({each.window for each in found}) == 1 and (found[0].window is not None or is_whole)
    equal = sum(each.value for each in found) / len(found)
    poor = [each for each in found if comparable and each.value < _SHARE * equal]
    first, last = found[0], found[-1]
    window = first.window if comparable else None
    during = "" if window is None else f" from {_span(window)}, when all are on"
    text = f"{first.of} gets most{of}: {first}; {last.of} gets least: {last} (Jain's index {written(index.value, 2)})"
    kind = "gains" if poor else "takes"
    if not poor:
        place = "the path" if link is None else rows.link_names[link]
        text = (
            f"{len(found)} transfers share {place}: each gets from {last} ({last.of}) to {first} ({first.of}). "
            f"Jain's index is {written(index.value, 2)}"
        )
    yield Statement(kind, f"{text}{during}.", (*found, index))
    if poor:
        names = ", ".join(f"{each.of} ({each})" for each in reversed(poor[-3:]))
        text = f"{names} suffers: less than half of {written(equal, 3)} Mbit/s, an equal share."
        yield Statement("suffers", text.replace("suffers", "suffer") if len(poor) > 1 else text, tuple(poor))


# --- People ---------------------------------------------------------------------------------------------------


def _people(rows: Rows, sending: Sequence[_Transfer]) -> Iterator[Person]:
    judge = {"requests": _requests, "echoes": _echoes, "packets": _packets}
    for name, table in recorded(rows.scenario).items():
        if not rows.has(table) or not rows.shows(name):
            continue
        beside = _beside(rows, rows.flow(name), sending)
        on, off = _windows(rows, beside)
        person = judge[table](rows, name, on, off, _while(beside) if off else ("", ""))
        if person is not None:
            yield replace(person, beside=tuple(each.name for each in beside))


def _beside(rows: Rows, flow: int, sending: Sequence[_Transfer]) -> list[_Transfer]:
    """Transfers whose data share a queue with the flow's packets, in either direction."""
    mine = {*rows.route(flow), *(rows.back_route(flow) if _both_ways(rows, flow) else ())}
    return [each for each in sending if not mine.isdisjoint(each.way)]


def _both_ways(rows: Rows, flow: int) -> bool:
    """Whether the flow waits for packets in both directions: a TCP flow or a ping does."""
    spec = rows.flow_spec(flow)
    return spec.get("tcp") is not None or registry.application(spec).rows is not None


def _windows(rows: Rows, beside: Sequence[_Transfer]) -> tuple[Period | None, Period | None]:
    """The longest period with any of these on, and the longest with none on; None for the whole run."""
    on: list[Period] = []
    for start, stop in sorted(period for each in beside for period in each.periods):
        if on and start <= on[-1][1]:
            on[-1] = (on[-1][0], max(on[-1][1], stop))
        else:
            on.append((start, stop))
    edges = [0.0, *(edge for period in on for edge in period), rows.duration_s]
    off = list(zip(edges[::2], edges[1::2], strict=True))
    loaded, idle = (max(periods, key=_length, default=(0.0, 0.0)) for periods in (on, off))
    if min(_length(loaded), _length(idle)) < _SHORTEST_S:
        return None, None
    return loaded, idle


def _while(beside: Sequence[_Transfer]) -> tuple[str, str]:
    """The two windows in the words of a sentence."""
    names = [each.name for each in beside]
    one = names[0] if len(names) == 1 else " or ".join(names) if len(names) == 2 else "a transfer"
    none = names[0] if len(names) == 1 else "none" if len(names) > 2 else "neither"
    return f" while {one} is on", f" while {none} is on" if len(names) > 1 else f" while {none} is off"


def _pair(
    measure: str, flow: str, unit: str, on: Period | None, off: Period | None, asked: str, call: Callable[..., float]
) -> tuple[Measured | None, Measured | None]:
    """A measure while transfers are on, and the same while they are off."""

    def one(window: Period | None) -> Measured | None:
        value = _or_none(lambda: float(call(*(window or (None, None)))))
        return None if value is None else Measured(measure, flow, value, unit, window, asked)

    return one(on), None if off is None else one(off)


def _instead(before: Measured | None, words: tuple[str, str]) -> str:
    return "" if before is None else f"; it is {before}{words[1]}"


def _requests(rows: Rows, flow: str, on: Period | None, off: Period | None, words: tuple[str, str]) -> Person | None:
    if registry.application(rows.flow_spec(flow)).plays_film:
        return _film(rows, flow)

    def times(quantile: float, asked: str) -> tuple[Measured | None, Measured | None]:
        return _pair(
            "response_time_quantiles", flow, "ms", on, off, asked,
            lambda start, end: 1e3 * metrics.response_time_quantiles(rows, flow, (quantile,), start, end)[0],
        )  # fmt: skip

    (middle, usual), (high, before) = times(0.5, "median"), times(0.95, "95 %")
    if middle is None or high is None:
        return None
    known = [each for each in (middle, usual, high, before) if each is not None]
    text = f"half of its requests take over {middle}, one in twenty over {high}{words[0]}"
    if usual is None or before is None:
        return Person(flow, "response time, 95 %", high, None, None, 0.0, f"{flow}: {text}.", tuple(known))
    harm = max(middle.value / usual.value, high.value / before.value) / _LONGER
    longer = max(middle.value - usual.value, high.value - before.value)
    suffers = harm >= 1.0 and longer >= _NOTICED_MS
    text = f"{text}; {usual} and {before}{words[1]}"
    return Person(flow, "response time, 95 %", high, before, suffers, harm, _judged(flow, suffers, text), tuple(known))


def _film(rows: Rows, flow: str) -> Person | None:
    seen = _or_none(lambda: metrics.film(rows, flow))
    if seen is None:
        return None
    still = Measured("film", flow, float(seen.stalled_s), "s", None, "time stood still")
    if math.isnan(seen.startup_s):
        return Person(
            flow, "time the picture stands still", still, None, True, 1.0, f"{flow}: no picture comes.", (still,)
        )
    start = Measured("film", flow, float(seen.startup_s), "s", None, "time until it plays")
    number = Measured("film", flow, float(seen.stalls), "1", None, "standstills")
    rate = Measured("film", flow, seen.bitrate_bps / 1e6, "Mbit/s", None, "bitrate")
    times = {1: "once", 2: "twice"}.get(int(seen.stalls), f"{written(int(seen.stalls))} times")
    stands = f"stands still {times}, for {still} in all" if seen.stalls else "never stands still"
    text = f"the picture comes after {start} and {stands}, at {rate}"
    what, harm = "time the picture stands still", float(seen.stalls)
    known = (still, start, number, rate)
    return Person(flow, what, still, None, harm > 0, harm, _judged(flow, harm > 0, text), known)


def _echoes(rows: Rows, flow: str, on: Period | None, off: Period | None, words: tuple[str, str]) -> Person | None:
    now, before = _pair(
        "loaded_latency", flow, "ms", on, off, "",
        lambda start, end: 1e3 * metrics.loaded_latency(rows, flow, start, end),
    )  # fmt: skip
    if now is None:
        return None
    known = tuple(each for each in (now, before) if each is not None)
    if before is None:
        return Person(flow, "round trip", now, None, None, 0.0, f"{flow}: a round trip takes {now}.", known)
    harm = (now.value - before.value) / _NOTICED_MS
    text = f"a round trip takes {now}{words[0]}{_instead(before, words)}"
    return Person(flow, "round trip", now, before, harm >= 1.0, harm, _judged(flow, harm >= 1.0, text), known)


def _packets(rows: Rows, flow: str, on: Period | None, off: Period | None, words: tuple[str, str]) -> Person | None:
    kind = registry.application(rows.flow_spec(flow)).datagrams
    if kind == "voice":
        return _call(rows, flow, on, off, words)
    if kind == "updates":
        now, before = _pair(
            "late_share", flow, "%", on, off, "later than 100 ms",
            lambda start, end: 100 * metrics.late_share(rows, flow, 0.1, start, end),
        )  # fmt: skip
        what, bound = "updates later than 100 ms", 100 * _LATE
        text = f"{now} of its updates come later than 100 ms"
    else:
        now, before = _waits(rows, flow, 0.95, "95 %, induced", on, off)
        what, bound = "wait in queues, 95 %", _NOTICED_MS
        text = f"one packet in twenty waits over {now} in queues"
    if now is None:
        return None
    harm = now.value / bound
    known = tuple(each for each in (now, before) if each is not None)
    text = _judged(flow, harm >= 1.0, f"{text}{words[0]}{_instead(before, words)}")
    return Person(flow, what, now, before, harm >= 1.0, harm, text, known)


def _call(rows: Rows, flow: str, on: Period | None, off: Period | None, words: tuple[str, str]) -> Person | None:
    def rating(start: float | None, end: float | None) -> float:
        return metrics.voice_quality(rows, flow, start, end).rating

    rated = _pair("voice_quality", flow, "R", on, off, "rating", rating)
    now, before = (
        each and replace(each, value=metrics.mean_opinion_score(each.value), unit="MOS", asked="mos") for each in rated
    )
    if now is None or rated[0] is None:
        return None
    late, early = _pair(
        "delay_quantiles", flow, "ms", on, off, "95 %",
        lambda start, end: 1e3 * float(metrics.delay_quantiles(rows, flow, (0.95,), start, end, induced=False)[0]),
    )  # fmt: skip
    is_rated_badly = rated[0].value < SATISFACTION[0][0]
    is_late = late is not None and late.value > _CONVERSATION_MS
    harm = max(1.0 + (SATISFACTION[0][0] - rated[0].value) / _CLASS, late.value / _CONVERSATION_MS if late else 0.0)
    suffers = is_rated_badly or is_late
    # Users' satisfaction is stated only if it does not contradict the verdict.
    of_now = f"{now} (users are {_users(rated[0].value)})" if is_rated_badly or not suffers else f"{now}"
    text = f"its quality is {of_now}{words[0]}"
    if before is not None and rated[1] is not None:
        of_before = f"{before} ({_users(rated[1].value)})" if is_rated_badly or not suffers else f"{before}"
        text = f"{text}, and {of_before}{words[1]}"
    text = _judged(flow, suffers, text)
    known = [each for each in (now, before) if each is not None]
    if is_late and late is not None:
        usual = "" if early is None else f", {early}{words[1]}"
        text += f" One packet in twenty takes over {late}{words[0]}{usual}; a conversation bears 150 ms (ITU-T G.114)."
        known += [each for each in (late, early) if each is not None]
    elif suffers:
        lost = _pair("flow_loss_rate", flow, "%", on, None, "", lambda start, end: _lost(rows, flow, start, end))[0]
        if lost is not None:
            text += f" The network loses {lost} of its packets{words[0]}."
            known.append(lost)
    return Person(flow, "quality of the call", now, before, suffers, harm, text, tuple(known))


def _lost(rows: Rows, flow: str, start: float | None, end: float | None) -> float:
    return 100.0 * metrics.flow_loss_rate(rows, flow, start, end)


def _users(rating: float) -> str:
    """Users' satisfaction with a call of this R."""
    return next((word for least, word in CLASSES if rating >= least), "left without a usable call")


def _waits(
    rows: Rows, flow: str, quantile: float, asked: str, on: Period | None, off: Period | None
) -> tuple[Measured | None, Measured | None]:
    """Time that a flow's packets wait in queues."""

    def wait(start: float | None, end: float | None) -> float:
        # The path's own delay is a sum of rounded numbers, so the smallest wait may be slightly below zero.
        found = float(metrics.delay_quantiles(rows, flow, (quantile,), start, end)[0])
        return max(0.0, round(1e3 * found, 6))

    return _pair("delay_quantiles", flow, "ms", on, off, asked, wait)


def _judged(flow: str, suffers: bool, text: str) -> str:
    return f"{flow} {'suffers' if suffers else 'is spared'}: {text}."


def _of_people(people: Sequence[Person]) -> Iterator[Statement]:
    """One sentence for each of those who suffer most, and one for the others together."""
    suffering = [each for each in people if each.suffers]
    unknown = [each for each in people if each.suffers is None]
    spared = [each for each in people if each.suffers is False]
    for each in suffering[:_MOST]:
        yield Statement("suffers", each.text, each.measured)
    rest = suffering[_MOST:]
    if rest:
        yield Statement(
            "suffers", f"Also suffering: {_listed(rest)}.", tuple(m for each in rest for m in each.measured)
        )
    if len(spared) == 1:
        yield Statement("spared", spared[0].text, spared[0].measured)
    elif spared:
        yield Statement("spared", f"Spared are {_listed(spared)}.", tuple(m for each in spared for m in each.measured))
    for each in unknown[:2]:
        yield Statement("takes", each.text, each.measured)


def _listed(people: Sequence[Person]) -> str:
    """The first of these with their measures, and the number of the others."""
    names = [f"{each.flow} ({each.what}: {each.now})" for each in people[:_MOST]]
    more = len(people) - len(names)
    return ", ".join([*names, *([f"and {more} more"] if more else [])])


# --- Queues and certainty -------------------------------------------------------------------------------------


def _queues(rows: Rows) -> Iterator[Statement]:
    """The queues in which people and transfers wait, longest first."""
    found = []
    for link in who.watched_links(rows):
        waits = _or_none(lambda link=link: 1e3 * metrics.queue_delay_quantiles(rows, link, (0.5, 0.95)))  # type: ignore[misc]
        if waits is not None and not any(map(math.isnan, waits)):
            found.append((float(waits[1]), float(waits[0]), link))
    for high, middle, link in sorted(found, reverse=True)[:2]:
        if high < 1.0:
            continue
        name, queue = rows.link_names[link], rows.link_spec(link).get("queue", {}).get("discipline", "queue")
        both = [
            Measured("queue_delay_quantiles", name, value, "ms", None, asked)
            for value, asked in ((middle, "median"), (high, "95 %"))
        ]
        text = f"The queue at {name} ({queue}) takes {both[0]} to drain at the median, and {both[1]} at 95 %."
        yield Statement("queue", text, tuple(both))


def _span(window: Period) -> str:
    return f"{written(window[0], 3)} to {written(window[1], 3)} s"


def _certainty(rows: Rows, people: Sequence[Person]) -> Statement:
    """The number of runs, and the time that the figures cover."""
    way = Provenance.of(rows.meta).way
    kind = f"One run, {written(rows.duration_s, 3)} s {way}, seed {rows.seed}"
    if Provenance.of(rows.meta).is_captured:
        kind = f"One capture of {written(rows.duration_s, 3)} s"
    windows = list(
        dict.fromkeys((p.now.window, p.before.window) for p in people if p.before is not None and p.now.window)
    )
    of = "".join(f" “On” is {_span(on)}, “off” {_span(off)}." for on, off in windows[:2] if on and off)
    unfit = " The machine was too busy: the run is unfit." if rows.meta.get("fit") is False else ""
    return Statement("certainty", f"{kind}: it has no interval, and another run may differ.{of}{unfit}")
