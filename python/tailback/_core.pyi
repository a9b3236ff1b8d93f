"""The compiled core. Call it through `tailback.run` and friends; see crates/tailback-py."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar, Literal, final

import numpy.typing as npt

class ScenarioError(ValueError):
    """A scenario that cannot be run."""

    args: tuple[str, str, str, str]
    """Field path, value found, problem, fix."""

class ReadCondition:
    """A condition of `[expect]` that was read."""

    @property
    def text(self) -> str: ...
    @property
    def relation(self) -> str: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def needs_baseline(self) -> bool: ...
    @property
    def left_needs_baseline(self) -> bool: ...
    def sides(self, run: Mapping[str, float], baseline: Mapping[str, float]) -> list[float]:
        """The left side, then the bounds; what is not there is NaN."""

def condition_read(text: str, metrics: Sequence[tuple[str, str]], baseline: bool, window: bool) -> ReadCondition:
    """Read a condition; a `ValueError` with the character, what is wrong and what would be right."""

def hooks_that_stay(most_s: float) -> list[int]:
    """The threads whose hook of a Python class has used so much processor time since it was first seen."""

def condition_judge(relation: str, sides: Sequence[Sequence[float]], confidence: float) -> tuple[str, int]:
    """The verdict on a condition's sides, a row a seed, and the row that is furthest from where it holds."""

def side_of_zero(margins: Sequence[float], ratios: Sequence[float], confidence: float, at_zero: int) -> int:
    """On which side of zero runs lie; `tailback.judge.side` documents it."""

class EngineError(RuntimeError):
    """A broken invariant in the engine; the text carries the seed."""

class AlgorithmError(Exception):
    """An algorithm written in Python raised; the cause is what it raised."""

    args: tuple[str, str, float, str]
    """Algorithm, hook, simulated seconds, what."""

class Cancelled(Exception):
    """The run was cancelled through its `Cancel`."""

@final
class Cancel:
    """Stops a run from another thread."""

    def __new__(cls) -> Cancel: ...
    def set(self) -> None:
        """Cancel every run this was given to."""
    def is_set(self) -> bool:
        """Has `set` been called?"""

@final
class Packet:
    """A packet as a queue of your own sees it. Times are in seconds, amounts in bytes."""

    @property
    def number(self) -> int:
        """Its number at this queue, from 0 in order of arrival."""
    @property
    def flow(self) -> int:
        """Number of its flow in the scenario."""
    @property
    def is_reverse(self) -> bool:
        """On the way from the flow's receiver to its sender."""
    @property
    def conversation(self) -> int:
        """Which of the flow's connections, in eight bits."""
    @property
    def bytes(self) -> int:
        """IP length."""
    @property
    def ecn(self) -> Literal["not-ect", "ect0", "ect1", "ce"]:
        """ECN codepoint when it came."""
    @property
    def is_ecn_capable(self) -> bool:
        """May it be marked? One that is marked already may, too."""
    @property
    def enqueued_s(self) -> float:
        """When it came."""
    @property
    def waiting_bytes(self) -> int:
        """What the queue holds beside the packet that `enqueue` is given, less what this call of it has dropped."""
    def drop(self) -> None:
        """Drop it: the queue holds it no longer. Only within `enqueue` or `dequeue`."""
    def mark(self) -> None:
        """Mark it CE. Only within `enqueue` or `dequeue`."""

@final
class Ack:
    """What an algorithm learns from an ACK. Times are in seconds, amounts in bytes."""

    @property
    def now_s(self) -> float:
        """When it arrived."""
    @property
    def mss(self) -> int:
        """Payload of a full segment."""
    @property
    def newly_acked(self) -> int:
        """Bytes by which the cumulative acknowledgement advanced."""
    @property
    def newly_acked_segments(self) -> int:
        """Segments that left the retransmission queue by it."""
    @property
    def delivered_segments(self) -> int:
        """Segments acknowledged, cumulatively or by SACK, now for the first time."""
    @property
    def lost_segments(self) -> int:
        """Segments newly declared lost."""
    @property
    def marked(self) -> int:
        """Bytes the receiver reports as marked by ECN."""
    @property
    def rtt_s(self) -> float | None:
        """RTT sample, if this ACK gave one."""
    @property
    def rtt_min_s(self) -> float:
        """Smallest RTT sample of the connection; infinite before the first."""
    @property
    def srtt_s(self) -> float:
        """Smoothed RTT; zero before the first sample."""
    @property
    def in_flight(self) -> int:
        """Bytes in flight after this ACK."""
    @property
    def prior_in_flight(self) -> int:
        """Bytes in flight before this ACK."""
    @property
    def delivery_rate_bps(self) -> int | None:
        """Delivery-rate sample, if valid."""
    @property
    def delivered(self) -> int:
        """Bytes delivered on the connection so far."""
    @property
    def prior_delivered(self) -> int:
        """`delivered` when the segment that gave the rate sample was sent."""
    @property
    def departs(self) -> float:
        """When pacing lets the next segment leave, in seconds; before `now` if nothing holds it back."""
    @property
    def app_limited(self) -> bool:
        """The rate sample was taken while the application had nothing to send."""
    @property
    def round_start(self) -> bool:
        """First ACK of a new round trip."""
    @property
    def cwnd_limited(self) -> bool:
        """The window was what limited the sender."""
    @property
    def may_grow(self) -> bool:
        """May the window grow on this ACK, by the stack's rule?"""
    @property
    def phase(self) -> Literal["open", "disorder", "cwr", "recovery", "loss"]:
        """Recovery state."""
    @property
    def counting(self) -> Literal["per-ack", "per-segment", "per-ack-bytes", "bytes"]:
        """How the stack turns ACKs into growth."""
    @property
    def in_slow_start(self) -> bool:
        """By the stack's own comparison of cwnd and ssthresh."""
    @property
    def snd_una(self) -> int:
        """First unacknowledged byte after this ACK."""
    @property
    def snd_nxt(self) -> int:
        """Next byte to be sent."""

@final
class Congestion:
    """The beginning of a congestion episode. Times are in seconds, amounts in bytes."""

    @property
    def now_s(self) -> float:
        """Time of the congestion signal, in seconds."""
    @property
    def signal(self) -> Literal["loss", "ecn", "timeout"]:
        """Kind of the signal."""
    @property
    def is_repeated_timeout(self) -> bool:
        """A further timeout of data that timed out before."""
    @property
    def mss(self) -> int:
        """Payload of a full segment."""
    @property
    def in_flight(self) -> int:
        """Bytes in flight."""
    @property
    def send_window(self) -> int:
        """The peer's receive window."""
    @property
    def srtt_s(self) -> float:
        """Smoothed RTT."""
    @property
    def rtt_min_s(self) -> float:
        """Smallest RTT sample of the connection."""
    @property
    def snd_una(self) -> int:
        """First unacknowledged byte."""
    @property
    def snd_nxt(self) -> int:
        """Next byte to be sent."""

@final
class PhaseChange:
    """A change of the recovery state."""

    @property
    def now_s(self) -> float:
        """Time of the call, in seconds."""
    @property
    def before(self) -> Literal["open", "disorder", "cwr", "recovery", "loss"]:
        """The state it leaves."""
    @property
    def after(self) -> Literal["open", "disorder", "cwr", "recovery", "loss"]:
        """The state it enters."""
    @property
    def snd_una(self) -> int:
        """First unacknowledged byte."""
    @property
    def snd_nxt(self) -> int:
        """Next byte to be sent."""
    @property
    def srtt_s(self) -> float:
        """Smoothed RTT."""

@final
class Control:
    """What an algorithm controls. Setting a value no sender could work with raises `ValueError`."""

    UNLIMITED: ClassVar[int]
    """`ssthresh` before any congestion."""
    @property
    def cwnd(self) -> int:
        """Congestion window in bytes: one segment or more."""
    @cwnd.setter
    def cwnd(self, value: float) -> None: ...
    @property
    def ssthresh(self) -> int:
        """Slow-start threshold in bytes: two segments or more, infinity for no limit."""
    @ssthresh.setter
    def ssthresh(self, value: float) -> None: ...
    @property
    def pacing_bps(self) -> int | None:
        """Pacing rate in bit/s, `None` for no pacing of its own."""
    @pacing_bps.setter
    def pacing_bps(self, value: float | None) -> None: ...
    @property
    def mss(self) -> int:
        """Payload of a full segment."""
    @property
    def wants_reduction(self) -> bool:
        """Set in `on_ack` to have the stack reduce as for an ECN echo, though nothing was lost."""
    @wants_reduction.setter
    def wants_reduction(self, value: bool) -> None: ...

def version() -> str:
    """Version of the compiled core."""

def registry() -> str:
    """Everything the engine knows by name, as JSON: algorithms, queues, stacks, apps."""

def tables() -> str:
    """Every table with its columns, units and codes, as JSON: see `tailback.result.schema`."""

def measures() -> str:
    """The rows of `tailback-measures`, as JSON: see `tailback.metrics.registry`."""

def run_measures() -> str:
    """What a run's measures are called, as JSON: see `tailback.metrics.registry`."""

def loss_of_totals(sent: float, received: float, dropped: float, bytes_received: float, bytes_returned: float) -> float:
    """`flow_loss_rate` from a flow's totals of packets and payload bytes."""

def loss_of_fates(dropped: float, received: float) -> float:
    """`flow_loss_rate` from packets counted by their fate."""

def drop_share_at_link(dropped: float, arrived: float) -> float:
    """`drop_share_at_link` from a link's totals of packets."""

def active_periods_s(
    periods: list[tuple[float, float | None]], started_s: float, finished_s: float, duration_s: float
) -> list[tuple[float, float]]:
    """From when until when a flow was on, given start and stop of each period in which it should be."""

def active_s(periods: list[tuple[float, float]], started_s: float) -> float:
    """Seconds in all periods; NaN if `started_s` is."""

def goodput_bps(bytes: float, seconds: float) -> float:
    """`goodput`; NaN of no time."""

def completion_s(given_bytes: float, bytes_received: float, started_s: float, finished_s: float) -> float:
    """`completion_time`."""

def measure(name: str, columns: Sequence[npt.NDArray[Any]]) -> float:
    """The measure of this name, whose row computes it from columns of float64 numbers."""

def quantiles(of: npt.NDArray[Any], shares: list[float]) -> npt.NDArray[Any]:
    """Quantiles of float64 values by linear interpolation; NaN of nothing."""

def weighted_quantiles(of: npt.NDArray[Any], held: npt.NDArray[Any], shares: list[float]) -> npt.NDArray[Any]:
    """The float64 values at or below which these shares of the time were spent; NaN of nothing."""

def delay_impairment(mouth_to_ear_s: float) -> float:
    """`delay_impairment`."""

def loss_impairment(loss: float, burst_ratio: float, concealment: bool) -> float:
    """`loss_impairment`."""

def mean_opinion_score(rating: float) -> float:
    """`mean_opinion_score`."""

def burst_ratio(lost: npt.NDArray[Any]) -> float:
    """`burst_ratio` of flags in order of sending."""

def trimmed_mean(of: npt.NDArray[Any]) -> float:
    """Mean of the smallest 95 % of the values."""

def is_saturated(of: npt.NDArray[Any]) -> bool:
    """Whether the last intervals' values agree, as draft-ietf-ippm-responsiveness asks."""

def bufferbloat_grade(idle_s: float, download_s: float, upload_s: float) -> str | None:
    """`bufferbloat_grade`; None of NaN."""

def libreqos_grade(idle_s: float, download_s: float, upload_s: float, both_s: float) -> str | None:
    """`libreqos_grade`; None of NaN."""

def late_share(delays_s: npt.NDArray[Any], bound_s: float) -> float:
    """`late_share`; a lost update's delay is NaN."""

def film(
    asked_s: npt.NDArray[Any],
    arrived_s: npt.NDArray[Any],
    bytes: npt.NDArray[Any],
    segment_s: float,
    start_after_s: float,
    end_s: float,
) -> tuple[float, float, int, int, float]:
    """`film`: start-up delay, standstills in seconds and number, switches, bitrate."""

def page_loads(
    began_s: npt.NDArray[Any],
    took_s: npt.NDArray[Any],
    asked_s: npt.NDArray[Any],
    arrived_s: npt.NDArray[Any],
    bytes: npt.NDArray[Any],
) -> list[tuple[float, float]]:
    """`page_loads`: load time and Speed Index of each."""

def call_rating(
    sent_s: npt.NDArray[Any], delay_s: npt.NDArray[Any], stream: npt.NDArray[Any], window_s: float, concealment: bool
) -> tuple[float, list[tuple[int, float, float]]]:
    """R of `voice_quality`, and window, R and late share of each call in each window; a lost packet's delay is NaN."""

def check(
    json: str, algorithms: dict[str, Callable[[dict[str, Any], int], Any]] | None = None, live: bool = False
) -> None:
    """Raise `ScenarioError` unless the scenario can be run; `live` allows what only a kernel can run."""

ROWS_A_GROUP: int
"""Rows of a table that `run` hands to its sink at once."""

def run(
    json: str,
    cancel: Cancel | None = None,
    progress: Callable[[float], object] | None = None,
    algorithms: dict[str, Callable[[dict[str, Any], int], Any]] | None = None,
    sink: Callable[[str, dict[str, npt.NDArray[Any]], list[str]], object] | None = None,
    most: int | None = None,
    most_wall_s: float | None = None,
) -> dict[str, dict[str, npt.NDArray[Any]]]:
    """Run the scenario, without the GIL, and return its tables: `{table: {column: array}}`.

    `progress` gets the fraction simulated, at most ten times a second, and 1.0 at the end; what it raises
    ends the run. `algorithms` are factories of Python's own: `factory(params, seed)` returns an instance for one
    connection. The table `_names` holds lists of text that coded columns index.

    `sink` is called with a table's name, its next columns and the names of `internals` so far while the run goes on;
    those rows are not returned.
    `most` ends the run, as if its time were over, after about that many events, packets and rows. Raises
    `ScenarioError` too, once more rows are recorded than `instruments.most_rows`.
    """

def flow_addresses(number: int, ip: int) -> list[str]:
    """The addresses of a flow's client and server by its number, over this version of IP."""

def capture_write(
    path: str | PathLike[str],
    about: tuple[str, str, str, int],
    flows: list[tuple[str, tuple[int, int], int, int]],
    wire: dict[str, npt.NDArray[Any]],
    headers: dict[str, npt.NDArray[Any]],
    sacks: dict[str, npt.NDArray[Any]],
    connections: dict[str, npt.NDArray[Any]],
) -> int:
    """Write a run's packets at one point as pcapng; returns how many.

    `about` is comment, name of the point, description and snap length (0: all). `flows` are kind, nodes of client and
    server, the step of the RTP clock, and the version of IP. The rest are columns of the result's tables.
    """

def capture_write_real(
    path: str | PathLike[str],
    about: tuple[str, str, str, int],
    nodes: list[tuple[int, int]],
    wire: dict[str, npt.NDArray[Any]],
    frames: dict[str, npt.NDArray[Any]],
    frame_bytes: dict[str, npt.NDArray[Any]],
) -> int:
    """Write a live run's packets at one point as pcapng; returns how many.

    `about` and `wire` as for `capture_write`; `nodes` are those of each flow's client and server.
    """

class CaptureError(ValueError):
    """A file that is no capture, or captures that do not belong together."""

def capture_read(
    path: str | PathLike[str],
    segments: bool = False,
    datagrams: bool = False,
    bin_ns: int = 0,
    only: list[int] = ...,
    most_rows: int = 20_000_000,
) -> dict[str, dict[str, Any]]:
    """Read a capture: `flows`, `info`, and as far as wanted `segments`, `blocks`, `datagrams` and `bins`."""

def capture_pair(
    first: str | PathLike[str],
    second: str | PathLike[str] | None = None,
    horizon_ns: int = ...,
    rows: bool = True,
) -> dict[str, dict[str, Any]]:
    """Pair two captures, or one that holds each packet twice: `flows`, `counts`, `delays`, `info`, and `pairs`."""

# The rest is there on Linux only; `tailback.live` asks first.

def bpf_library(name: str, text: str, defines: dict[str, str], is_queue: bool = False) -> bytes:
    """A BPF source compiled natively, as a shared library; `ValueError` says what is wrong with it."""

def bpf_queue_object(name: str, text: str, defines: dict[str, str], id: str) -> bytes:
    """A queue's BPF source compiled for a kernel, which shall know it by `id`; `ValueError` says what is wrong."""

def bpf_is_queue(text: str) -> bool:
    """Is this text of a BPF source a queue?"""

def native_queue_about(path: str, params: str, rate_bps: int | None) -> str:
    """What the queue in a compiled crate says of itself, a line each. It runs; `ValueError` says what is wrong."""

def bpf_guard() -> None:
    """From now on this process says on standard error how it ends if a native algorithm is at fault."""

@final
class NativeAlgorithm:
    """A compiled candidate as one of `run`'s algorithms: its libraries with the parameters (JSON) of each.

    `queues`: those of links that name it.
    """

    def __new__(cls, libraries: list[tuple[str, str]], queues: list[tuple[str, str]] = ...) -> NativeAlgorithm: ...
    def demand_sound(self) -> None:
        """Open each, which runs their code; `ValueError` says what is wrong with one."""

    def __call__(self, params: dict[str, Any], seed: int) -> Any: ...

@final
class NativeStack:
    """A compiled transport as one of `run`'s algorithms: its library."""

    def __new__(cls, name: str, library: str) -> NativeStack: ...
    def about(self) -> tuple[str, list[str]]:
        """Its version and congestion controls; runs its code. `ValueError` says what is wrong with it."""

    def __call__(self, params: dict[str, Any], seed: int) -> Any: ...

@final
class StackSetup:
    """What `connect` of a transport in Python receives. Times are in seconds, amounts in bytes."""

    now_s: float
    #: The same for both ends, another one for each connection.
    seed: int
    cc: str
    #: Largest datagram, without IP and UDP headers.
    most_payload: int
    #: What the stream to send may hold unacknowledged, and the peer may send beyond what was read; None: its own.
    send_buffer: int | None
    receive_buffer: int | None

class LiveError(RuntimeError):
    """A live run that failed while it was under way; everything it made is gone."""

def live_check(json: str, here: str = ".", twins: bool = False, candidates: dict[str, str] | None = None) -> None:
    """Raise `ScenarioError` unless this machine can run the scenario live; its programs find other files `here`.

    `twins`: take BPF twins of congestion controls that the kernel has itself, too. `candidates`: texts of BPF sources,
    by the name that the scenario uses.
    """

def live_run(
    json: str,
    cancel: Cancel | None = None,
    progress: Callable[[float], object] | None = None,
    here: str = ".",
    twins: bool = False,
    candidates: dict[str, str] | None = None,
    in_front: tuple[int, list[str]] | None = None,
) -> dict[str, dict[str, Any]]:
    """Run the scenario live and return its tables, as `run` does, with `emulator` and `captures`.

    What programs wrote is under `_files`, bytes by name. `in_front`: a program's flow, by number, and the command that
    runs in its client's place with this process's input and output; the run ends with it.
    """

def vm_programs(
    json: str, controls: list[str], hz: int, release: str, twins: bool, candidates: dict[str, str]
) -> list[tuple[str, bytes]]:
    """The BPF programs of a run on a kernel of this release with these congestion controls: name and contents.

    Raises `ScenarioError` for what no guest with this kernel can do, `LiveError` if one does not compile.
    """

def live_doctor(seconds: float) -> str:
    """What this machine can run live, as JSON; a timer's lateness is measured for `seconds`."""

def live_clean() -> list[str]:
    """Remove what dead live runs have left; returns what was done, in words."""

def scenario_part(part: str, given: Any, short: bool) -> Any:
    """A part of a scenario by its name, every field said, or as a file would say it (`short`)."""

def scenario_toml(scenario: Any) -> str:
    """A scenario as TOML text."""

def scenario_expand(scenario: Any) -> dict[str, Any]:
    """The scenario with its preset spelt out, every field said."""

def scenario_names(scenario: Any) -> tuple[list[str], list[str], list[str]]:
    """The names of flows and of links, in the order of the engine's tables."""

def scenario_resolve(scenario: Any, host: Any) -> dict[str, Any]:
    """The engine's form of a scenario; `host` answers for what lies outside it."""

def scenario_translate(scenario: Any, path: str, value: str, problem: str, fix: str) -> Any:
    """Maps an engine error back to the user's field."""

def engine_problem(path: str, value: str, problem: str, fix: str) -> Any:
    """An engine error as it is, about the engine's form of a scenario."""

def scenario_unresolve(resolved: Any) -> dict[str, Any]:
    """The general network of a resolved description, as a file would hold it."""

def toml_read(text: str) -> tuple[dict[str, Any], dict[str, tuple[int, int]]]:
    """What TOML text holds, and line and column of each place in it; `ValueError` with message, line and column."""

def quantity_read(kind: str, given: str | int) -> int:
    """Text or a whole number as base units: picoseconds of a "time", bits per second of a "rate", "bytes"."""

def quantity_text(kind: str, value: int) -> str:
    """Base units as people write them."""

def size_read(given: str) -> tuple[int, int, str, str]:
    """A queue size: how many (before the point is set), digits after the point, of what, and as people write it."""

def size_in_bytes(size: str, rate: int, rtt: int) -> int:
    """Bytes of a queue size at a rate (bit/s) and round-trip time (ps)."""

def to_unit(text: str, unit: str) -> float:
    """A quantity as the plain number of a unit."""

def nearest(name: str, known: list[str]) -> str | None:
    """The known name that another was probably meant to be."""

def fewest_hops(links: list[tuple[str, str]], start: str, end: str) -> list[int]:
    """Numbers of the links, each given by its ends, that a flow without a route takes; none if there is no way."""

def framed_bytes(ip: int, overhead: int, mpu: int, linklayer: str) -> int:
    """Bytes that an IP packet occupies on a line with this framing."""

def schema() -> dict[str, Any]:
    """Every part with its fields, every preset with its options, and the JSON Schema of scenario files."""
