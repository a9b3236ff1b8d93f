"""Functions to build scenarios in Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tailback.scenario.parts import Flow, Instruments, Link, Named, Randomness
from tailback.scenario.whole import Scenario
from tailback.units import Duration

if TYPE_CHECKING:
    from typing import Unpack

    from tailback.scenario.parts import DumbbellFields, FlowFields, LinkFields

_Named = str | Named | Mapping[str, Any] | None


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are not None; the others keep their defaults."""
    return {key: value for key, value in fields.items() if value is not None}


def flow(app: str, *, cc: _Named = None, stack: _Named = None, **fields: Unpack[FlowFields]) -> Flow:
    """A flow of application `app`; the keywords are the fields of `Flow`. Raises `ScenarioError`.

    >>> flow("bulk", cc="htcp", stack="freebsd-7", start="2s").start
    Duration('2s')
    """
    return Flow(app=app, **given({"cc": cc, "stack": stack, **fields}))


def bulk(cc: _Named = "cubic", stack: _Named = "linux", **fields: Unpack[FlowFields]) -> Flow:
    """A bulk transfer over TCP, or over a `transport`; `fields` are those of `flow`, such as `bytes` or `start`.

    >>> bulk("htcp", bytes="20MB", name="upload").bytes
    Bytes('20MB')
    """
    own = None if fields.get("transport") and stack == "linux" else stack
    return flow("bulk", cc=cc, stack=own, **fields)


def voip(**fields: Unpack[FlowFields]) -> Flow:
    """One direction of a G.711 call: 200-byte IP packets every 20 ms, unless `packet_size`, `interval` differ.

    `two_way=True` makes both directions of the call.

    >>> voip(start="500ms").app
    'voip'
    """
    return flow("voip", **fields)


def link(name: str, from_: str, to: str, **fields: Unpack[LinkFields]) -> Link:
    """A link of a general network; the keywords are the fields of `Link`. Raises `ScenarioError`.

    >>> link("uplink", "home", "isp", rate="1mbit", delay="5ms", queue="100packets").rate
    Rate('1mbit')
    """
    return Link(name=name, from_=from_, to=to, **given(fields))


def dumbbell(
    *,
    flows: Iterable[Flow],
    duration: str | Duration,
    seed: int = 1,
    name: str = "",
    randomness: Randomness | Mapping[str, Any] | None = None,
    instruments: Instruments | Mapping[str, Any] | None = None,
    **shape: Unpack[DumbbellFields],
) -> Scenario:
    """A scenario with one bottleneck; the other keywords are the fields of `Dumbbell`. Raises `ScenarioError`.

    >>> scenario = dumbbell(rate="10mbit", rtt="80ms", queue="1bdp", flows=[bulk("cubic"), voip()], duration="60s")
    >>> scenario.flow_names
    ['bulk', 'voip']
    """
    rest = given({"randomness": randomness, "instruments": instruments})
    return Scenario(name=name, seed=seed, duration=duration, dumbbell=given(shape), flows=tuple(flows), **rest)


def network(
    *,
    links: Iterable[Link],
    flows: Iterable[Flow],
    duration: str | Duration,
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
    rest = given({"randomness": randomness, "instruments": instruments})
    return Scenario(
        name=name, seed=seed, duration=duration, nodes=tuple(nodes), links=tuple(links), flows=tuple(flows), **rest
    )
