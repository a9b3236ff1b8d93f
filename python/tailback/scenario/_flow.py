"""The parts that describe who uses the path, chance, and what is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    Field,
    model_validator,
)

from tailback.errors import UnitError
from tailback.scenario._base import Part
from tailback.scenario._fields import (
    BytesAboveZero,
    MostRows,
    Mtu,
    Names,
    NameText,
    Params,
    SpanAboveZero,
    Text,
)
from tailback.scenario._path import (
    Named,
    OptionalNamed,
)
from tailback.units import Duration


class Period(Part):
    """A further time during which a flow is on."""

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: From here,
    start: Duration
    #: until here; `None`: to the end of the run.
    stop: Duration | None = None


class Flow(Part):
    """One application talking from one node to another. See `bulk`, `voip` and `flow`."""

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Unique name; `None`: the application's, numbered if several flows share it.
    name: NameText | None = None
    #: What it does (`tailback list apps`).
    app: NameText = "bulk"
    #: Sending node; a dumbbell's default is "left" ("right" makes the flow run against the others),
    from_: NameText | None = Field(default=None, alias="from")
    #: receiving node; a dumbbell's default is the other side.
    to: NameText | None = None
    #: Links there, in order; `None`: fewest hops, the link listed first on ties.
    route: tuple[NameText, ...] | None = None
    #: Links back; `None`: likewise.
    back_route: tuple[NameText, ...] | None = None
    #: Extra delay of this flow alone, in each direction, between its sender and the network.
    access_delay: Duration = Duration(0)
    #: When it starts.
    start: Duration = Duration(0)
    #: When it stops; `None`: at the end of the run.
    stop: Duration | None = None
    #: Further times during which it is on, in order.
    again: tuple[Period, ...] = ()
    #: Congestion control; `None`: "cubic" for an application over TCP.
    cc: OptionalNamed = None
    #: Further algorithms: the flow's connections use `cc` and these in turn.
    cc_turns: tuple[Annotated[Named, BeforeValidator(Named.model_validate)], ...] = ()
    #: Operating system whose TCP sends (and receives); `None`: "linux".
    stack: OptionalNamed = None
    #: Operating system that receives; `None`: as `stack`.
    receiver_stack: NameText | None = None
    #: Send buffer; `None`: the stack's.
    send_buffer: BytesAboveZero | None = None
    #: Receive buffer; `None`: the stack's.
    receive_buffer: BytesAboveZero | None = None
    #: Largest IP packet; `None`: 1500 bytes.
    mtu: Mtu | None = None
    #: How much a bulk transfer carries; `None`: until it stops.
    bytes: BytesAboveZero | None = None
    #: Time between packets of an application that sends at intervals.
    interval: SpanAboveZero | None = None
    #: IP size of its packets.
    packet_size: BytesAboveZero | None = None
    #: Of `exec`: the command line run at `from`,
    client: Text | None = None
    #: the one run at `to` before it,
    server: Text | None = None
    #: and what the client's output is read as: "iperf3", "curl" or "regex".
    parse: Text | None = None
    #: Any other parameter of the application.
    params: Params = Field(default_factory=dict)

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.stop is not None and self.stop <= self.start:
            raise UnitError(f"it stops at {self.stop}, before it starts at {self.start}", "Let stop come after start")
        return self


class Randomness(Part):
    """Deliberate randomness: it breaks phase locking between flows and gives seeds their meaning."""

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Each flow starts later by a uniform time between zero and this.
    start_spread: Duration = Duration(0)
    #: Each packet a host sends is held for a uniform time between zero and this, order kept.
    processing_jitter: Duration = Duration(0)


class Instruments(Part):
    """What to record besides the totals. Off costs nothing. Names, or "all"."""

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: Flows whose TCP state is logged at every segment (as SIFTR does).
    segments: Names = ()
    #: Flows whose TCP state is read every `poll_interval` (as Web100 was).
    polls: Names = ()
    #: Also record the algorithm's own quantities at every poll.
    internals: bool = False
    #: Links whose backlog is read at the same instants.
    queue_polls: Names = ()
    #: Time between polls.
    poll_interval: SpanAboveZero = Duration("1ms")
    #: Links of which every enqueue, dequeue, drop and mark is logged.
    queues: Names = ()
    #: Links of which drops and marks only are logged.
    drops: Names = ()
    #: Flows of which every packet's one-way delay is logged.
    packets: Names = ()
    #: Flows of which every exchange (web session, fetch, transfer, request) is timed.
    requests: Names = ()
    #: Flows of which every echo request is timed (`ping`).
    echoes: Names = ()
    #: Rows the run may record at most, all tables together; `None`: 20 million.
    most_rows: MostRows | None = None
    #: Points at which packets are captured: nodes, links (both sides), or one side of a link, `NAME.in` or `NAME.out`.
    captures: Names = ()
    #: Record from here,
    from_: Duration = Field(default=Duration(0), alias="from")
    #: until here; `None`: to the end.
    until: Duration | None = None

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.until is not None and self.until <= self.from_:
            raise UnitError("until must come after from", "Leave it out to record to the end")
        return self
