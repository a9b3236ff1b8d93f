"""The parts that describe the path: links, queues, wires, media."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    Field,
    PlainValidator,
    model_validator,
)

from tailback import registry
from tailback.errors import UnitError, nearest
from tailback.scenario._base import Part
from tailback.scenario._fields import (
    Count,
    NameText,
    Params,
    Probability,
    RateAboveZero,
    SpanAboveZero,
    Tick,
    trace_value,
)
from tailback.units import Duration, Rate, Size


def _discipline(name: str) -> str:
    known = registry.names("queues")
    if name not in known:
        close = nearest(name, known)
        hint = f'Did you mean "{close}"? ' if close else ""
        raise UnitError(
            "this is neither a queue size nor a discipline",
            f'{hint}Write a size, for example "1bdp", or one of {", ".join(known)}',
        )
    return name


class Queue(Part):
    """The queue in front of a link's serialiser: a discipline, its limit and its parameters.

    Anywhere a queue is expected a size alone means a drop-tail FIFO of that size, a name alone a discipline with its
    defaults.

    >>> Queue(discipline="fifo", limit="100packets").plain()
    '100packets'
    >>> Queue(discipline="fq_codel").plain()
    'fq_codel'
    >>> Queue(discipline="token_bucket", rate="10mbit", inner="codel").plain()
    {'discipline': 'token_bucket', 'inner': 'codel', 'rate': '10mbit'}
    """

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Registry name (`tailback list queues`).
    discipline: NameText = "fifo"
    #: Limit in bytes, packets or multiples of the BDP; `None`: the discipline's own default.
    limit: Size | None = None
    #: The queue inside it, for a `token_bucket`; `None`: the bucket's own FIFO.
    inner: Queue | None = None
    #: Any other parameter of the discipline.
    params: Params = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        if isinstance(value, Mapping):
            return _gathered(value, ("discipline", "limit", "inner"))
        if isinstance(value, str) and value[:1].isalpha():
            return {"discipline": _discipline(value)}
        return {"limit": value}

    def plain(self) -> Any:
        """A size alone for a plain FIFO, a name alone for defaults, else a table."""
        if self.discipline == "fifo" and not self.params and self.limit is not None:
            return str(self.limit)
        if not self.params and self.limit is None and self.inner is None:
            return self.discipline
        head: dict[str, Any] = {"discipline": self.discipline}
        if self.limit is not None:
            head["limit"] = str(self.limit)
        if self.inner is not None:
            head["inner"] = self.inner.plain()
        return head | self.params


class Named(Part):
    """An algorithm or stack by name, with parameters that differ from its defaults. A text is the name alone.

    >>> Named(name="htcp", params={"adaptive_backoff": False}).plain()
    {'name': 'htcp', 'adaptive_backoff': False}
    """

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Registry name.
    name: NameText
    #: Parameters given.
    params: Params = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, value: Any) -> Any:
        return _by_name(cls, value, ("name",), "cubic")

    def plain(self) -> Any:
        """The name alone, or a table if there are parameters."""
        return {"name": self.name} | self.params if self.params else self.name


def _by_name(part: type[Part], value: Any, own: Sequence[str], example: str) -> Any:
    """A part that a text names alone, under the first of its `own` keys; a table gives parameters as well."""
    if isinstance(value, part):
        return value
    key = own[0]
    if isinstance(value, str):
        return {key: value}
    if not isinstance(value, Mapping):
        raise UnitError("this is neither a name nor a table", f'Write "{example}" or {{ {key} = "{example}", … }}')
    return _gathered(value, own)


def _gathered(value: Mapping[str, Any], own: Sequence[str]) -> dict[str, Any]:
    """The part's own keys as they are, every other one as a parameter."""
    out = {key: item for key, item in value.items() if key in own}
    params = dict(value["params"]) if isinstance(value.get("params"), Mapping) else {}
    params |= {key: item for key, item in value.items() if key not in own and key != "params"}
    if params:
        out["params"] = params
    return out


class Wire(Part):
    """What a link does to packets beyond delaying them. Everything is off by default."""

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Probability that a packet is lost.
    loss: Probability = 0.0
    #: Probability that a packet is delivered twice.
    duplicate: Probability = 0.0
    #: Probability that a packet is held back by `reorder_delay` and so overtaken.
    reorder: Probability = 0.0
    #: How long a held-back packet waits in addition.
    reorder_delay: Duration = Duration(0)
    #: It goes on sooner, once so many have overtaken it; 0: it waits that long.
    reorder_packets: Count = 0
    #: Uniform extra delay from zero to this, order kept.
    jitter: Duration = Duration(0)
    #: Probability that a bit is wrong; a packet with a wrong bit is lost.
    bit_error: Probability = 0.0
    #: Losses in bursts (Gilbert, Elliott): probability a packet that a burst starts,
    burst_start: Probability = 0.0
    #: that it ends,
    burst_end: Probability = 0.0
    #: that a packet in it is lost,
    burst_loss: Probability = 0.0
    #: and that one outside is.
    gap_loss: Probability = 0.0


class Medium(Part):
    """How a link transmits, by the name of a medium (`tailback list links`), with its parameters. A text is the name.

    >>> Medium(name="wifi", channel="air", params={"rate_mbps": 36}).plain()
    {'name': 'wifi', 'channel': 'air', 'rate_mbps': 36}
    """

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Registry name.
    name: NameText
    #: Of a medium that stations contend for: links of one channel share it; `None`: the link and its way back.
    channel: NameText | None = None
    #: Of a tunnel: the flow, of application "tunnel", whose connection carries its packets.
    flow: NameText | None = None
    #: Parameters given.
    params: Params = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, value: Any) -> Any:
        return _by_name(cls, value, ("name", "channel", "flow"), "wifi")

    def plain(self) -> Any:
        """The name alone, or a table."""
        own = {key: value for key, value in (("channel", self.channel), ("flow", self.flow)) if value is not None}
        return {"name": self.name} | own | self.params if own or self.params else self.name


class Step(Part):
    """A change of a link at an instant; what is not given stays."""

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: When.
    at: Duration
    #: Rate from then on; zero is an outage.
    rate: Rate | None = None
    #: Propagation delay of what leaves from then on.
    delay: Duration | None = None


class Preset(Part):
    """A network of the papers by name, with options. See `tailback.presets`."""

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Its name.
    preset: NameText
    #: Options given.
    params: Params = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, value: Any) -> Any:
        return _by_name(cls, value, ("preset",), "adsl1")

    def plain(self) -> Any:
        """The name alone, or a table if there are options."""
        return {"preset": self.preset} | self.params


OptionalQueue = Annotated[Queue | None, BeforeValidator(lambda v: v if v is None else Queue.model_validate(v))]
OptionalMedium = Annotated[Medium | None, BeforeValidator(lambda v: v if v is None else Medium.model_validate(v))]
OptionalPreset = Annotated[Preset | None, BeforeValidator(lambda v: v if v is None else Preset.model_validate(v))]
OptionalTrace = Annotated[str | tuple[int, ...] | None, PlainValidator(trace_value)]
OptionalNamed = Annotated[Named | None, BeforeValidator(lambda v: v if v is None else Named.model_validate(v))]


class Dumbbell(Part):
    """The usual shorthand: every flow crosses one bottleneck, from `left` to `right`.

    Becomes two links, `bottleneck` (left to right) and `return` (right to left, with the same rate and queue
    unless `back_rate`, `back_queue` say otherwise), each with half of `rtt`.
    """

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Rate of the bottleneck.
    rate: RateAboveZero
    #: Round-trip propagation delay, half of it in each direction.
    rtt: SpanAboveZero | None = None
    #: Instead of `rtt`: propagation delay left to right,
    delay: Duration | None = None
    #: and right to left; `None`: as `delay`.
    back_delay: Duration | None = None
    #: Queue in front of the bottleneck; 1 BDP is `rate` × RTT.
    queue: Queue = Queue(limit=Size("1bdp"))
    #: Rate right to left; `None`: as `rate`.
    back_rate: RateAboveZero | None = None
    #: Queue right to left; `None`: as `queue` (multiples of the BDP count for `back_rate`).
    back_queue: OptionalQueue = None
    #: Departures happen on a timer of this frequency (dummynet under `kern.hz`); `None`: exactly when due.
    tick_hz: Tick | None = None
    #: Random impairments left to right,
    wire: Wire = Wire()
    #: and right to left.
    back_wire: Wire = Wire()
    #: Later changes of rate and delay, left to right.
    schedule: tuple[Step, ...] = ()

    @model_validator(mode="after")
    def _one_delay(self) -> Self:
        if (self.rtt is None) == (self.delay is None):
            problem = "rtt is missing" if self.rtt is None else "rtt and delay exclude each other"
            raise UnitError(problem, 'Give either rtt = "80ms" or delay = "40ms" (one way)')
        if self.rtt is not None and self.back_delay is not None:
            raise UnitError("rtt and back_delay exclude each other", "Give delay and back_delay instead of rtt")
        if not self.round_trip:
            raise UnitError("the round trip must take some time", 'Give for example rtt = "80ms"')
        return self

    @property
    def delays(self) -> tuple[Duration, Duration]:
        """Propagation delay there and back."""
        if self.rtt is not None:
            # An odd picosecond goes back.
            return Duration(self.rtt // 2), Duration(self.rtt - self.rtt // 2)
        there = self.delay or Duration(0)
        return there, there if self.back_delay is None else self.back_delay

    @property
    def round_trip(self) -> Duration:
        """Propagation delay of the round trip."""
        return Duration(sum(self.delays))


class Link(Part):
    """A link in one direction: queue, serialiser, propagation delay. See `link` for the shorthand."""

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Unique name.
    name: NameText
    #: Node it leaves,
    from_: NameText = Field(alias="from")
    #: and node it reaches.
    to: NameText
    #: Rate; `None`: infinitely fast, and then it has no queue.
    rate: RateAboveZero | None = None
    #: Propagation delay.
    delay: Duration = Duration(0)
    #: Queue; `None`: a FIFO without limit. 1 BDP is `rate` × the longest base RTT of the flows that cross it.
    queue: OptionalQueue = None
    #: As in `Dumbbell.tick_hz`.
    tick_hz: Tick | None = None
    #: Random impairments.
    wire: Wire = Wire()
    #: How it transmits, if not bit by bit at a rate.
    medium: OptionalMedium = None
    #: Later changes of rate and delay, in order of time.
    schedule: tuple[Step, ...] = ()
    #: Instead of a rate: a mahimahi trace, its file or its instants in milliseconds.
    trace: OptionalTrace = None
    #: Also make the same link in the other direction, called `<name>.back`.
    duplex: bool = False

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.from_ == self.to:
            raise UnitError("the link leads back to where it starts", "Give two different nodes")
        is_fast = self.rate is None and self.medium is None and self.trace is None
        if is_fast and (self.queue is not None or self.tick_hz is not None):
            raise UnitError("a link without rate never queues", "Give it a rate, or remove queue and tick_hz")
        return self
