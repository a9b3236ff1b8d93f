"""The description of an experiment: path, queues, flows, duration, seed. TOML and Python say the same.

A scenario keeps what was written ("1bdp", "80ms") in exact units; `Scenario.resolve` turns it into the form the
engine runs, in which nothing is left open. The format is described in `docs/scenario.md`.
"""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from tailback import _toml
from tailback.errors import Problem, ScenarioError, UnitError, nearest
from tailback.units import Bytes, Duration, Rate, Size

__all__ = [
    "Dumbbell",
    "Flow",
    "Instruments",
    "Link",
    "Medium",
    "Named",
    "Preset",
    "Queue",
    "Randomness",
    "Scenario",
    "Step",
    "Wire",
    "bulk",
    "dumbbell",
    "flow",
    "link",
    "network",
    "voip",
]

#: A parameter as the engine takes it: a switch, a number, or a name (or quantity with a unit).
ParamValue = bool | int | float | str

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]*")


# --- Checks that several fields share -------------------------------------------------------------------------


def _above_zero(value: Any) -> Any:
    if value <= 0:
        raise UnitError("must be above zero", "Leave it out for the default, or give a positive value")
    return value


def _name(value: Any) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value) or value == "all":
        raise UnitError(
            "this is not a name",
            'Use letters, digits and any of "_.:+-", such as "bulk-1"; "all" is reserved',
        )
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise UnitError("this is not one line of text", 'Write for example "two flows, one queue"')
    return value


def _mtu(value: Bytes) -> Bytes:
    # IPv4 and TCP headers with timestamps are 52 bytes; the length field of IP has 16 bits.
    if not 100 <= value <= 65_535:
        raise UnitError("an IP packet is 100 to 65535 bytes here", 'Write for example "1500B"')
    return value


def _whole(least: int, most: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise UnitError("this is not a whole number", f"Give a whole number from {least} to {most}")
        if not least <= value <= most:
            raise UnitError("out of range", f"Give a whole number from {least} to {most}")
        return int(value)

    return check


def _probability(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UnitError("a probability lies between 0 and 1", "Write for example 0.01 for one in a hundred")
    return float(value)


def _names(value: Any) -> tuple[str, ...] | Literal["all"]:
    if value == "all":
        return "all"
    if isinstance(value, str):
        return (_name(value),)
    if isinstance(value, Sequence):
        return tuple(_name(item) for item in value)
    raise UnitError("this is not a list of names", 'Write ["first", "second"] or "all"')


def _params(value: Any) -> dict[str, ParamValue]:
    if not isinstance(value, Mapping):
        raise UnitError("parameters are a table", "Write for example { beta = 0.8 }")
    for key, item in value.items():
        if not isinstance(key, str) or not isinstance(item, bool | int | float | str):
            raise UnitError(f"parameter {key} must be true or false, a number or a text", "Write one of these")
        if isinstance(item, float) and not math.isfinite(item):
            raise UnitError(f"parameter {key} must be a finite number", "Write a finite number")
        if isinstance(item, str):
            _text(item)
    return dict(value)


def _trace(value: Any) -> str | tuple[int, ...] | None:
    if value is None:
        return None
    if isinstance(value, str | os.PathLike):
        return _text(os.fspath(value))
    if isinstance(value, Sequence) and all(isinstance(ms, int) and not isinstance(ms, bool) for ms in value):
        return tuple(value)
    raise UnitError("this is not a trace", 'Write the name of a file, "lte.trace", or a list of whole milliseconds')


_Name = Annotated[str, PlainValidator(_name)]
_Text = Annotated[str, PlainValidator(_text)]
_Names = Annotated[tuple[str, ...] | Literal["all"], PlainValidator(_names)]
_Params = Annotated[dict[str, ParamValue], PlainValidator(_params)]
_Probability = Annotated[float, PlainValidator(_probability)]
_SpanAboveZero = Annotated[Duration, AfterValidator(_above_zero)]
_RateAboveZero = Annotated[Rate, AfterValidator(_above_zero)]
_BytesAboveZero = Annotated[Bytes, AfterValidator(_above_zero)]
_Tick = Annotated[int, PlainValidator(_whole(1, 2**32 - 1))]
_Seed = Annotated[int, PlainValidator(_whole(0, 2**64 - 1))]
_Mtu = Annotated[Bytes, AfterValidator(_mtu)]


# --- The parts of a scenario ----------------------------------------------------------------------------------


class _Part(BaseModel):
    """A frozen piece of a description that reports what is wrong as `ScenarioError`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise ScenarioError(_problems(error, data)) from None

    # Tells pydantic that validation need not go through this method (nested parts must not raise on their own).
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def plain(self) -> Any:
        """What TOML would hold: defaults left out, quantities as text."""
        out: dict[str, Any] = {}
        for name, info in type(self).model_fields.items():
            value = getattr(self, name)
            if info.is_required() or value != info.get_default(call_default_factory=True):
                out[info.alias or name] = _plain(value)
        return out


def _plain(value: Any) -> Any:
    if isinstance(value, _Part):
        return value.plain()
    if isinstance(value, Duration | Rate | Bytes | Size):
        return str(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value


class Queue(_Part):
    """The queue in front of a link's serialiser: a discipline, its limit and its parameters.

    Anywhere a queue is expected a size alone means a drop-tail FIFO of that size.

    >>> Queue(discipline="fifo", limit="100packets").plain()
    '100packets'
    """

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Registry name (`tailback list queues`).
    discipline: _Name = "fifo"
    #: Limit in bytes, packets or multiples of the BDP; `None`: the discipline's own default.
    limit: Size | None = None
    #: Any other parameter of the discipline.
    params: _Params = {}

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            return {"limit": value}
        return _gathered(value, ("discipline", "limit"))

    def plain(self) -> Any:
        """A size alone for a plain FIFO, else a table."""
        if self.discipline == "fifo" and not self.params and self.limit is not None:
            return str(self.limit)
        head = {"discipline": self.discipline}
        if self.limit is not None:
            head["limit"] = str(self.limit)
        return head | self.params


class Named(_Part):
    """An algorithm or stack by name, with parameters that differ from its defaults. A text is the name alone.

    >>> Named(name="htcp", params={"adaptive_backoff": False}).plain()
    {'name': 'htcp', 'adaptive_backoff': False}
    """

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Registry name.
    name: _Name
    #: Parameters given.
    params: _Params = {}

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return {"name": value}
        if not isinstance(value, Mapping):
            raise UnitError("this is neither a name nor a table", 'Write "cubic" or { name = "cubic", … }')
        return _gathered(value, ("name",))

    def plain(self) -> Any:
        """The name alone, or a table if there are parameters."""
        return {"name": self.name} | self.params if self.params else self.name


def _gathered(value: Mapping[str, Any], own: Sequence[str]) -> dict[str, Any]:
    """The part's own keys as they are, every other one as a parameter."""
    out = {key: item for key, item in value.items() if key in own}
    params = dict(value["params"]) if isinstance(value.get("params"), Mapping) else {}
    params |= {key: item for key, item in value.items() if key not in own and key != "params"}
    if params:
        out["params"] = params
    return out


class Wire(_Part):
    """What a link does to packets beyond delaying them. Everything is off by default."""

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Probability that a packet is lost.
    loss: _Probability = 0.0
    #: Probability that a packet is delivered twice.
    duplicate: _Probability = 0.0
    #: Probability that a packet is held back by `reorder_delay` and so overtaken.
    reorder: _Probability = 0.0
    #: How long a held-back packet waits in addition.
    reorder_delay: Duration = Duration(0)
    #: Uniform extra delay from zero to this, order kept.
    jitter: Duration = Duration(0)
    #: Probability that a bit is wrong; a packet with a wrong bit is lost.
    bit_error: _Probability = 0.0
    #: Losses in bursts (Gilbert, Elliott): probability a packet that a burst starts,
    burst_start: _Probability = 0.0
    #: that it ends,
    burst_end: _Probability = 0.0
    #: that a packet in it is lost,
    burst_loss: _Probability = 0.0
    #: and that one outside is.
    gap_loss: _Probability = 0.0


class Medium(_Part):
    """How a link transmits, by the name of a medium (`tailback list links`), with its parameters. A text is the name.

    >>> Medium(name="wifi", channel="air", params={"rate_mbps": 36}).plain()
    {'name': 'wifi', 'channel': 'air', 'rate_mbps': 36}
    """

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Registry name.
    name: _Name
    #: Of a medium that stations contend for: links of one channel share it; `None`: the link and its way back.
    channel: _Name | None = None
    #: Parameters given.
    params: _Params = {}

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return {"name": value}
        if not isinstance(value, Mapping):
            raise UnitError("this is neither a name nor a table", 'Write "wifi" or { name = "wifi", … }')
        return _gathered(value, ("name", "channel"))

    def plain(self) -> Any:
        """The name alone, or a table."""
        if self.channel is None and not self.params:
            return self.name
        return {"name": self.name} | ({"channel": self.channel} if self.channel else {}) | self.params


class Step(_Part):
    """A change of a link at an instant; what is not given stays."""

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: When.
    at: Duration
    #: Rate from then on; zero is an outage.
    rate: Rate | None = None
    #: Propagation delay of what leaves from then on.
    delay: Duration | None = None


class Preset(_Part):
    """A network of the papers by name, with options. See `tailback.presets`."""

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Its name.
    preset: _Name
    #: Options given.
    params: _Params = {}

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return {"preset": value}
        if not isinstance(value, Mapping):
            raise UnitError("this is neither a name nor a table", 'Write "adsl1" or { preset = "adsl1", … }')
        return _gathered(value, ("preset",))

    def plain(self) -> Any:
        """The name alone, or a table if there are options."""
        return {"preset": self.preset} | self.params


_OptionalQueue = Annotated[Queue | None, BeforeValidator(lambda v: v if v is None else Queue.model_validate(v))]
_OptionalMedium = Annotated[Medium | None, BeforeValidator(lambda v: v if v is None else Medium.model_validate(v))]
_OptionalPreset = Annotated[Preset | None, BeforeValidator(lambda v: v if v is None else Preset.model_validate(v))]
_OptionalTrace = Annotated[str | tuple[int, ...] | None, PlainValidator(_trace)]
_OptionalNamed = Annotated[Named | None, BeforeValidator(lambda v: v if v is None else Named.model_validate(v))]


class Dumbbell(_Part):
    """The usual shorthand: every flow crosses one bottleneck, from `left` to `right`.

    Becomes two links, `bottleneck` (left to right) and `return` (right to left, with the same rate and queue
    unless `back_rate`, `back_queue` say otherwise), each with half of `rtt`.
    """

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Rate of the bottleneck.
    rate: _RateAboveZero
    #: Round-trip propagation delay, half of it in each direction.
    rtt: _SpanAboveZero | None = None
    #: Instead of `rtt`: propagation delay left to right,
    delay: Duration | None = None
    #: and right to left; `None`: as `delay`.
    back_delay: Duration | None = None
    #: Queue in front of the bottleneck; 1 BDP is `rate` × RTT.
    queue: Queue = Queue(limit=Size("1bdp"))
    #: Rate right to left; `None`: as `rate`.
    back_rate: _RateAboveZero | None = None
    #: Queue right to left; `None`: as `queue` (multiples of the BDP count for `back_rate`).
    back_queue: _OptionalQueue = None
    #: Departures happen on a timer of this frequency (dummynet under `kern.hz`); `None`: exactly when due.
    tick_hz: _Tick | None = None
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


class Link(_Part):
    """A link in one direction: queue, serialiser, propagation delay. See `link` for the shorthand."""

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Unique name.
    name: _Name
    #: Node it leaves,
    from_: _Name = Field(alias="from")
    #: and node it reaches.
    to: _Name
    #: Rate; `None`: infinitely fast, and then it has no queue.
    rate: _RateAboveZero | None = None
    #: Propagation delay.
    delay: Duration = Duration(0)
    #: Queue; `None`: a FIFO without limit. 1 BDP is `rate` × the longest base RTT of the flows that cross it.
    queue: _OptionalQueue = None
    #: As in `Dumbbell.tick_hz`.
    tick_hz: _Tick | None = None
    #: Random impairments.
    wire: Wire = Wire()
    #: How it transmits, if not bit by bit at a rate.
    medium: _OptionalMedium = None
    #: Later changes of rate and delay, in order of time.
    schedule: tuple[Step, ...] = ()
    #: Instead of a rate: a mahimahi trace, its file or its instants in milliseconds.
    trace: _OptionalTrace = None
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


class Period(_Part):
    """A further time during which a flow is on."""

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: From here,
    start: Duration
    #: until here; `None`: to the end of the run.
    stop: Duration | None = None


class Flow(_Part):
    """One application talking from one node to another. See `bulk`, `voip` and `flow`."""

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Unique name; `None`: the application's, numbered if several flows share it.
    name: _Name | None = None
    #: What it does (`tailback list apps`).
    app: _Name = "bulk"
    #: Sending node; a dumbbell's default is "left" ("right" makes the flow run against the others),
    from_: _Name | None = Field(default=None, alias="from")
    #: receiving node; a dumbbell's default is the other side.
    to: _Name | None = None
    #: Links there, in order; `None`: fewest hops, the link listed first on ties.
    route: tuple[_Name, ...] | None = None
    #: Links back; `None`: likewise.
    back_route: tuple[_Name, ...] | None = None
    #: Extra delay of this flow alone, in each direction, between its sender and the network.
    access_delay: Duration = Duration(0)
    #: When it starts.
    start: Duration = Duration(0)
    #: When it stops; `None`: at the end of the run.
    stop: Duration | None = None
    #: Further times during which it is on, in order.
    again: tuple[Period, ...] = ()
    #: Congestion control; `None`: "cubic" for an application over TCP.
    cc: _OptionalNamed = None
    #: Further algorithms: the flow's connections use `cc` and these in turn.
    cc_turns: tuple[Annotated[Named, BeforeValidator(Named.model_validate)], ...] = ()
    #: Operating system whose TCP sends (and receives); `None`: "linux".
    stack: _OptionalNamed = None
    #: Operating system that receives; `None`: as `stack`.
    receiver_stack: _Name | None = None
    #: Send buffer; `None`: the stack's.
    send_buffer: _BytesAboveZero | None = None
    #: Receive buffer; `None`: the stack's.
    receive_buffer: _BytesAboveZero | None = None
    #: Largest IP packet; `None`: 1500 bytes.
    mtu: _Mtu | None = None
    #: How much a bulk transfer carries; `None`: until it stops.
    bytes: _BytesAboveZero | None = None
    #: Time between packets of an application that sends at intervals.
    interval: _SpanAboveZero | None = None
    #: IP size of its packets.
    packet_size: _BytesAboveZero | None = None
    #: Any other parameter of the application.
    params: _Params = {}

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.stop is not None and self.stop <= self.start:
            raise UnitError(f"it stops at {self.stop}, before it starts at {self.start}", "Let stop come after start")
        return self


class Randomness(_Part):
    """Deliberate randomness: it breaks phase locking between flows and gives seeds their meaning."""

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Each flow starts later by a uniform time between zero and this.
    start_spread: Duration = Duration(0)
    #: Each packet a host sends is held for a uniform time between zero and this, order kept.
    processing_jitter: Duration = Duration(0)


class Instruments(_Part):
    """What to record besides the totals. Off costs nothing. Names, or "all"."""

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Flows whose TCP state is logged at every segment (as SIFTR does).
    segments: _Names = ()
    #: Flows whose TCP state is read every `poll_interval` (as Web100 was).
    polls: _Names = ()
    #: Also record the algorithm's own quantities at every poll.
    internals: bool = False
    #: Links whose backlog is read at the same instants.
    queue_polls: _Names = ()
    #: Time between polls.
    poll_interval: _SpanAboveZero = Duration("1ms")
    #: Links of which every enqueue, dequeue, drop and mark is logged.
    queues: _Names = ()
    #: Links of which drops and marks only are logged.
    drops: _Names = ()
    #: Flows of which every packet's one-way delay is logged.
    packets: _Names = ()
    #: Flows of which every exchange (web session, fetch, transfer, request) is timed.
    requests: _Names = ()
    #: Flows of which every echo request is timed (`ping`).
    echoes: _Names = ()
    #: Record from here,
    from_: Duration = Field(default=Duration(0), alias="from")
    #: until here; `None`: to the end.
    until: Duration | None = None

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.until is not None and self.until <= self.from_:
            raise UnitError("until must come after from", "Leave it out to record to the end")
        return self


_TABLES = ("path", "dumbbell", "link", "flow", "randomness", "instruments")


class Scenario(_Part):
    """One experiment. Either a `dumbbell` or `links` describes the path; `flows` say who uses it.

    Frozen; `with_` makes variations. Text with units is accepted wherever a quantity is expected. Raises
    `ScenarioError`, which lists everything wrong with field, value and fix.

    >>> import tailback as tb
    >>> scenario = tb.Scenario(
    ...     duration="60s", dumbbell={"rate": "10mbit", "rtt": "80ms"}, flows=[tb.bulk("cubic"), tb.voip()]
    ... )
    >>> scenario.resolve()["links"][0]["queue"]["params"]
    {'limit_bytes': 100000}
    """

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: A name for people.
    name: _Text = ""
    #: Seed of every random stream.
    seed: _Seed = 1
    #: Simulated time.
    duration: _SpanAboveZero
    #: A network of the papers, ready made.
    path: _OptionalPreset = None
    #: The shorthand for one bottleneck.
    dumbbell: Dumbbell | None = None
    #: Nodes; may be left out, the links name them.
    nodes: tuple[_Name, ...] = ()
    #: The links of a general network (TOML: `[[link]]`).
    links: tuple[Link, ...] = Field(default=(), alias="link")
    #: The flows (TOML: `[[flow]]`).
    flows: tuple[Flow, ...] = Field(default=(), alias="flow")
    #: Deliberate randomness.
    randomness: Randomness = Randomness()
    #: What to record.
    instruments: Instruments = Instruments()

    _file: str | None = PrivateAttr(default=None)
    _lines: dict[str, int] = PrivateAttr(default_factory=dict)

    # -- reading and writing

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Scenario:
        """Read a scenario file. `ScenarioError` says what is wrong, with lines where they can be found."""
        file = os.fspath(path)
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            problem = Problem("", None, f"cannot be read: {error.strerror}", "Give the path of a scenario file", file)
            raise ScenarioError([problem]) from None
        except UnicodeDecodeError:
            raise ScenarioError([Problem("", None, "is not UTF-8 text", "Save it as UTF-8", file)]) from None
        return cls.parse_toml(text, file=file)

    @classmethod
    def parse_toml(cls, text: str, *, file: str | None = None) -> Scenario:
        """Read a scenario from TOML text; `file` is the name errors give it."""
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            match = re.search(r" \(at line (\d+), column (\d+)\)", str(error))
            line = int(match[1]) if match else None
            what = str(error).replace(match[0] if match else "", "")
            problem = Problem("", None, f"is not TOML: {what}", "See docs/scenario.md for the format", file, line)
            raise ScenarioError([problem]) from None
        lines = _toml.lines(text)
        try:
            scenario = cls.from_dict(data)
        except ScenarioError as error:
            raise error.located(file, lines) from None
        scenario._file, scenario._lines = file, lines
        return scenario

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Scenario:
        """A scenario from nested dictionaries and lists as TOML gives them."""
        try:
            return cls.model_validate(dict(data))
        except ValidationError as error:
            raise ScenarioError(_problems(error, data)) from None

    @classmethod
    def from_resolved(cls, resolved: Mapping[str, Any]) -> Scenario:
        """The general network that a resolved description (`resolve`) stands for."""
        from tailback import _resolve

        return cls.from_dict(_resolve.unresolve(resolved))

    def to_dict(self) -> dict[str, Any]:
        """Nested dictionaries as TOML holds them: defaults left out, quantities as text."""
        head = {"name": self.name} if self.name else {}
        return head | {"seed": self.seed, "duration": str(self.duration)} | cast(dict[str, Any], self.plain())

    def to_toml(self) -> str:
        """TOML text that reads back as an equal scenario."""
        return _toml.dump(self.to_dict(), _TABLES)

    # -- variations

    def with_(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> Scenario:
        """A copy with some values changed, each named by its path; in keywords `__` stands for the dot.

        A flow or link is named by number or by name: `flow[0].cc`, `flow.bulk.cc`. `None` removes a value.

        >>> import tailback as tb
        >>> base = tb.dumbbell(rate="10mbit", rtt="80ms", flows=[tb.bulk()], duration="60s")
        >>> base.with_({"flow[0].cc": "htcp"}, dumbbell__rate="1mbit", seed=7).dumbbell.rate
        Rate('1mbit')
        """
        wanted = dict(changes or {}) | {key.replace("__", "."): value for key, value in more.items()}
        data = self.to_dict()
        for path, value in wanted.items():
            self._put(data, path, value)
        try:
            changed = Scenario.from_dict(data)
        except ScenarioError as error:
            raise error.located(self._file, {}) from None
        changed._file = self._file
        changed._lines = {path: line for path, line in self._lines.items() if path not in wanted}
        return changed

    def _put(self, data: dict[str, Any], path: str, value: Any) -> None:
        def refuse(problem: str, fix: str) -> ScenarioError:
            return ScenarioError([Problem(path, _plain(value), problem, fix, self._file)])

        steps = [step for step in re.split(r"[.\[\]]+", path) if step]
        if not steps:
            raise refuse("this names no field", 'Write for example "dumbbell.rate"')
        if steps[0] in ("flows", "links"):
            steps[0] = steps[0][:-1]
        here: Any = data
        at = 0
        while at < len(steps) - 1:
            step = steps[at]
            below = here.get(step)
            if below is None:
                below = here[step] = {}
            elif isinstance(below, str):
                # "1bdp" and "cubic" are short for tables.
                below = here[step] = {"limit" if step.endswith("queue") else "name": below}
            elif isinstance(below, list):
                at += 1
                names = self.flow_names if step == "flow" else [row.get("name", "") for row in below]
                # A name may hold dots: take the longest that fits.
                for end in range(len(steps), at, -1):
                    if ".".join(steps[at:end]) in names:
                        index = names.index(".".join(steps[at:end]))
                        at = end - 1
                        break
                else:
                    index = int(steps[at]) if steps[at].isdigit() else -1
                if not 0 <= index < len(below):
                    raise refuse(f'there is no {step} "{steps[at]}"', f"There are: {', '.join(names)}")
                if at == len(steps) - 1:
                    if value is None:
                        del below[index]
                    else:
                        below[index] = value.plain() if isinstance(value, _Part) else value
                    return
                below = below[index]
            if not isinstance(below, dict):
                raise refuse(f"{step} has nothing below it", "Shorten the path")
            here, at = below, at + 1
        if value is None:
            here.pop(steps[-1], None)
        else:
            here[steps[-1]] = _plain(value)

    # -- names

    @property
    def expanded(self) -> Scenario:
        """The same with the links and flows of its preset spelt out; itself if it has none."""
        from tailback import presets

        return presets.expand(self)

    @property
    def flow_names(self) -> list[str]:
        """The flows' names, given or made, in order; those that a preset adds come last."""
        if self.path is not None:
            return self.expanded.flow_names
        taken = {flow.name for flow in self.flows}
        apps = [flow.app for flow in self.flows if flow.name is None]
        count: dict[str, int] = {}
        out = []
        for flow in self.flows:
            name = flow.name
            if name is None and apps.count(flow.app) == 1 and flow.app not in taken:
                name = flow.app
            while name is None:
                count[flow.app] = count.get(flow.app, 0) + 1
                numbered = f"{flow.app}-{count[flow.app]}"
                name = None if numbered in taken else numbered
            out.append(name)
        return out

    @property
    def link_names(self) -> list[str]:
        """The links' names in the order of the engine's tables."""
        from tailback import _resolve

        return _resolve.link_names(self)

    # -- towards the engine

    def resolve(
        self, *, check: bool = True, algorithms: Mapping[str, Callable[[dict[str, Any], int], Any]] | None = None
    ) -> dict[str, Any]:
        """The engine's form: exact units, routes and buffers in bytes; `ScenarioError` if it cannot be run.

        `check=False` leaves out the engine's own check (of parameter ranges, for instance). `algorithms` are
        factories of algorithms of your own (`tailback.algorithms.factories`); default: those registered.
        """
        from tailback import _resolve
        from tailback.algorithms import factories

        try:
            return _resolve.resolve(self, check=check, own=factories() if algorithms is None else algorithms)
        except ScenarioError as error:
            raise error.located(self._file, self._lines) from None

    def to_json(self) -> str:
        """The resolved form as JSON text, the same for equal scenarios.

        Algorithms of your own have no such text: nothing in a name tells when their code changes.
        """
        from tailback import _resolve

        try:
            resolved = _resolve.resolve(self, check=True, own=None)
        except ScenarioError as error:
            raise error.located(self._file, self._lines) from None
        return json.dumps(resolved, sort_keys=True, separators=(",", ":"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.to_toml())

    def __str__(self) -> str:
        return self.to_toml()


# --- Errors ---------------------------------------------------------------------------------------------------

_PARTS: dict[str, type[_Part]] = {
    "dumbbell": Dumbbell,
    "link": Link,
    "flow": Flow,
    "again": Period,
    "wire": Wire,
    "back_wire": Wire,
    "schedule": Step,
    "randomness": Randomness,
    "instruments": Instruments,
}


def _problems(error: ValidationError, data: Mapping[str, Any]) -> list[Problem]:
    out = []
    for item in error.errors(include_url=False):
        loc = [{"flows": "flow", "links": "link", "from_": "from"}.get(str(step), step) for step in item["loc"]]
        part = next((_PARTS[step] for step in reversed(loc[:-1]) if isinstance(step, str) and step in _PARTS), None)
        keys = [info.alias or key for key, info in (part or _root(error)).model_fields.items()]
        value: Any = item["input"]
        cause = item.get("ctx", {}).get("error")
        if item["type"] == "extra_forbidden":
            close = nearest(str(loc[-1]), keys)
            problem = "there is no such key"
            fix = f'Did you mean "{close}"? ' if close else ""
            fix += f"Known here: {', '.join(keys)}"
        elif item["type"] == "missing":
            value, problem, fix = None, "is missing", _missing(str(loc[-1]))
        elif isinstance(cause, UnitError):
            problem, fix = cause.problem, cause.fix
        else:
            problem = item["msg"][:1].lower() + item["msg"][1:]
            fix = "See docs/scenario.md"
        if isinstance(value, Mapping | list | tuple | _Part):
            value = None
        out.append(Problem(_path(_as_written(loc, data)), value, problem, fix.rstrip(".") + "."))
    return out


def _as_written(loc: list[str | int], data: Any) -> list[str | int]:
    """The place without what was not written: `queue = "0bdp"` has no `limit` below it."""
    for at, step in enumerate(loc):
        if isinstance(data, str | int | float):
            return loc[:at]
        if isinstance(data, Mapping):
            data = data.get(step)
        elif isinstance(data, list | tuple) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            break
    return loc


def _root(error: ValidationError) -> type[_Part]:
    roots: list[type[_Part]] = [
        Scenario, Dumbbell, Link, Flow, Period, Wire, Randomness, Instruments, Queue, Named, Medium, Step, Preset
    ]  # fmt: skip
    return next((part for part in roots if part.__name__ == error.title), Scenario)


def _missing(key: str) -> str:
    examples = {
        "duration": '"60s"', "rate": '"10mbit"', "name": '"first"', "from": '"a"', "to": '"b"', "discipline": '"fifo"',
        "at": '"10s"', "preset": '"adsl1"',
    }  # fmt: skip
    return f"Add for example {key} = {examples.get(key, '…')}"


def _path(loc: Sequence[str | int]) -> str:
    out = ""
    for at, step in enumerate(loc):
        if isinstance(step, int):
            out += f"[{step}]"
        elif step == "params" and at and str(loc[at - 1]).endswith(("queue", "cc", "stack", "medium", "path")):
            continue  # written directly into the table
        else:
            out += f".{step}" if out else str(step)
    return out


# --- Building in Python ---------------------------------------------------------------------------------------

_Span = str | Duration
_Rate = str | Rate
_Bytes = str | Bytes
_QueueLike = str | Size | Queue | Mapping[str, Any]
_NamedLike = str | Named | Mapping[str, Any]
_NamesLike = Literal["all"] | str | Sequence[str]


def _given(**values: Any) -> dict[str, Any]:
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
    shape = _given(
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
    rest = _given(randomness=randomness, instruments=instruments)
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
    rest = _given(randomness=randomness, instruments=instruments)
    return Scenario(
        name=name, seed=seed, duration=duration, nodes=tuple(nodes), links=tuple(links), flows=tuple(flows), **rest
    )
