"""Scenarios written in Python."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from tailback.scenario._fields import (
    ParamValue,
)
from tailback.scenario._flow import Flow, Instruments, Period, Randomness
from tailback.scenario._path import (
    Link,
    Medium,
    Named,
    Queue,
    Step,
    Wire,
)
from tailback.scenario._scenario import Scenario
from tailback.units import Bytes, Duration, Rate, Size

_Span = str | Duration
_Rate = str | Rate
_Bytes = str | Bytes
_QueueLike = str | Size | Queue | Mapping[str, Any]
_NamedLike = str | Named | Mapping[str, Any]
_NamesLike = Literal["all"] | str | Sequence[str]


def given(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def flow(
    app: str,
    *,
    name: str | None = None,
    from_: str | None = None,
    to: str | None = None,
    route: Sequence[str] | None = None,
    back_route: Sequence[str] | None = None,
    access_delay: _Span | None = None,
    start: _Span | None = None,
    stop: _Span | None = None,
    again: Sequence[Period | Mapping[str, _Span]] | None = None,
    cc: _NamedLike | None = None,
    cc_turns: Sequence[_NamedLike] | None = None,
    stack: _NamedLike | None = None,
    receiver_stack: str | None = None,
    send_buffer: _Bytes | None = None,
    receive_buffer: _Bytes | None = None,
    mtu: _Bytes | None = None,
    bytes: _Bytes | None = None,
    interval: _Span | None = None,
    packet_size: _Bytes | None = None,
    client: str | None = None,
    server: str | None = None,
    parse: str | None = None,
    params: Mapping[str, ParamValue] | None = None,
) -> Flow:
    """A flow of application `app`; the keywords are the fields of `Flow`. Raises `ScenarioError`.

    >>> flow("bulk", cc="htcp", stack="freebsd-7", start="2s").start
    Duration('2s')
    """
    return Flow(**{key: value for key, value in locals().items() if value is not None})


def bulk(cc: _NamedLike = "cubic", stack: _NamedLike = "linux", **fields: Any) -> Flow:
    """A bulk transfer over TCP; `fields` are those of `flow`, such as `bytes`, `start` or `stop`.

    >>> bulk("htcp", bytes="20MB", name="upload").bytes
    Bytes('20MB')
    """
    return Flow(app="bulk", cc=cc, stack=stack, **fields)


def voip(**fields: Any) -> Flow:
    """One direction of a G.711 call: 200-byte IP packets every 20 ms, unless `packet_size`, `interval` differ.

    >>> voip(start="500ms").app
    'voip'
    """
    return Flow(app="voip", **fields)


def link(
    name: str,
    from_: str,
    to: str,
    *,
    rate: _Rate | None = None,
    delay: _Span | None = None,
    queue: _QueueLike | None = None,
    tick_hz: int | None = None,
    wire: Wire | Mapping[str, Any] | None = None,
    medium: str | Medium | Mapping[str, Any] | None = None,
    schedule: Iterable[Step | Mapping[str, Any]] | None = None,
    trace: str | os.PathLike[str] | Sequence[int] | None = None,
    duplex: bool = False,
) -> Link:
    """A link of a general network; the keywords are the fields of `Link`. Raises `ScenarioError`.

    >>> link("uplink", "home", "isp", rate="1mbit", delay="5ms", queue="100packets").rate
    Rate('1mbit')
    """
    return Link(**{key: value for key, value in locals().items() if value is not None})


def dumbbell(
    *,
    rate: _Rate,
    rtt: _Span | None = None,
    delay: _Span | None = None,
    back_delay: _Span | None = None,
    queue: _QueueLike = "1bdp",
    back_rate: _Rate | None = None,
    back_queue: _QueueLike | None = None,
    tick_hz: int | None = None,
    wire: Wire | Mapping[str, Any] | None = None,
    back_wire: Wire | Mapping[str, Any] | None = None,
    flows: Iterable[Flow],
    duration: _Span,
    seed: int = 1,
    name: str = "",
    randomness: Randomness | Mapping[str, Any] | None = None,
    instruments: Instruments | Mapping[str, Any] | None = None,
) -> Scenario:
    """A scenario with one bottleneck. Rates per second, `rtt` the round trip's propagation delay.

    Raises `ScenarioError`.

    >>> scenario = dumbbell(rate="10mbit", rtt="80ms", queue="1bdp", flows=[bulk("cubic"), voip()], duration="60s")
    >>> scenario.flow_names
    ['bulk', 'voip']
    """
    shape = given(
        rate=rate,
        rtt=rtt,
        delay=delay,
        back_delay=back_delay,
        queue=queue,
        back_rate=back_rate,
        back_queue=back_queue,
        tick_hz=tick_hz,
        wire=wire,
        back_wire=back_wire,
    )
    rest = given(randomness=randomness, instruments=instruments)
    return Scenario(name=name, seed=seed, duration=duration, dumbbell=shape, flows=tuple(flows), **rest)


def network(
    *,
    links: Iterable[Link],
    flows: Iterable[Flow],
    duration: _Span,
    nodes: Iterable[str] = (),
    seed: int = 1,
    name: str = "",
    randomness: Randomness | Mapping[str, Any] | None = None,
    instruments: Instruments | Mapping[str, Any] | None = None,
) -> Scenario:
    """A scenario on any directed graph of links. Raises `ScenarioError`.

    >>> path = [link("a-b", "a", "b", rate="10mbit", delay="10ms", queue="1bdp", duplex=True)]
    >>> network(links=path, flows=[bulk("reno", from_="a", to="b")], duration="10s").link_names
    ['a-b', 'a-b.back']
    """
    rest = given(randomness=randomness, instruments=instruments)
    return Scenario(
        name=name, seed=seed, duration=duration, nodes=tuple(nodes), links=tuple(links), flows=tuple(flows), **rest
    )
