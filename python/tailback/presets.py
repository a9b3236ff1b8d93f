"""The networks of the papers, ready made: links, queues and competing flows under one name.

A scenario uses one with `[path]` and `preset = "adsl1"`, or in Python:

>>> import tailback as tb
>>> scenario = tb.presets.scenario("adsl1", flows=[tb.bulk("cubic")], duration="10s")
>>> scenario.link_names
['internet', 'down', 'up', 'internet-back']

Flows run from `left` to `right` unless they say otherwise: from the server to the user. Numbers are those of the
papers where they print them; the rest is marked "chosen" and explained in docs/links/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tailback.errors import Problem, ScenarioError, nearest
from tailback.scenario import Flow, Instruments, Link, Randomness, Scenario, flow, link
from tailback.scenario._fields import ParamValue
from tailback.units import Duration, Rate, Size

__all__ = ["CARDS", "Option", "PresetCard", "card", "expand", "names", "scenario"]


@dataclass(frozen=True)
class Option:
    """Something a preset lets you choose."""

    name: str
    default: ParamValue
    doc: str


_Given = Mapping[str, Any]


@dataclass(frozen=True)
class PresetCard:
    """A network: where it comes from, what the paper measured there, what can be chosen."""

    name: str
    title: str
    #: Paper and section.
    source: str
    #: What the paper reports of it.
    reported: str
    options: tuple[Option, ...]
    links: Callable[[_Given], list[Link]]
    #: Flows that compete.
    flows: Callable[[_Given], list[Flow]] = lambda given: []


def _two_way(name: str, a: str, b: str, delay: str, loss: float = 0.0) -> list[Link]:
    """A fast stretch of wire; `loss` from `a` to `b`."""
    return [
        link(name, a, b, rate="1gbit", delay=delay, wire={"loss": loss}),
        link(f"{name}-back", b, a, rate="1gbit", delay=delay),
    ]


# --- CAIA 2011: home networks ---------------------------------------------------------------------------


def _adsl1(given: _Given) -> list[Link]:
    adsl = {"name": "adsl", "encapsulation": given["encapsulation"]}
    there, back = _two_way("internet", "left", "isp", given["internet_delay"], given["loss"])
    return [
        there,
        link("down", "isp", "right", queue=given["buffer"],
             medium=adsl | {"sync": given["down"], "interleaving": "16ms"}),
        link("up", "right", "isp", queue=given["up_buffer"],
             medium=adsl | {"sync": given["up"], "interleaving": "8ms"}),
        back,
    ]  # fmt: skip


def _adsl1_vtun(given: _Given) -> list[Link]:
    inside = {"name": "tunnel", "flow": "vtun"}
    return [
        *_adsl1(given),
        link("tunnel", "left", "right", queue=given["tun_queue"], medium=inside),
        link("tunnel-back", "right", "left", queue=given["tun_queue"], medium=inside),
    ]


def _vtun(given: _Given) -> list[Flow]:
    """The connection that carries everybody's packets, up before they come."""
    return [
        flow(
            "tunnel", name="vtun", from_="left", to="right", mtu="1492B", cc=str(given["cc"]),
            stack=str(given["stack"]), send_buffer=given["send_buffer"], receive_buffer="256KiB",
        )
    ]  # fmt: skip


def _homeplug(given: _Given) -> list[Link]:
    shared: dict[str, Any] = {
        "name": "homeplug", "channel": "mains", "payload": given["payload"], "block_error": given["block_error"],
    }  # fmt: skip
    queue = _paused(given)
    return [
        link("down", "left", "right", queue=queue, delay=given["bridge_delay"],
             medium=shared | {"phy_mbps": given["phy"]}),
        link("up", "right", "left", queue=queue, delay=given["bridge_delay"],
             medium=shared | {"phy_mbps": given["back_phy"]}),
    ]  # fmt: skip


def _paused(given: _Given) -> str:
    """The adapter's queue, and that of the host it pauses: one loses nothing, so both drop as one queue would."""
    held = _count(given, "pause_queue", 100_000)
    size = Size(str(given["buffer"]))
    if not held:
        return str(size)
    if size.unit != "packets":
        problem = "a paused host's queue counts packets, this one does not"
        raise ScenarioError([Problem("path.buffer", given["buffer"], problem, "Give packets, such as 30packets.")])
    return f"{int(size.amount) + held}packets"


def _wifi(given: _Given) -> list[Link]:
    wifi = {
        "name": "wifi", "channel": "air", "rate_mbps": given["rate"], "slot": given["slot"],
        "frame_error": given["frame_error"],
    }  # fmt: skip
    wire, wire_back = _two_way("wire", "ap", "right", "10us")
    return [
        link("air", "left", "ap", queue=given["buffer"], delay=given["host_delay"], medium=wifi),
        link("air-back", "ap", "left", queue=given["buffer"], delay=given["host_delay"], medium=wifi),
        wire,
        wire_back,
    ]


# --- Wu 2007: ocean fibre and campus -----------------------------------------------------------------


def _bdp(size: ParamValue, rate: str, rtt_ms: int) -> str:
    """A queue in multiples of the link's own BDP: rate × twice its delay, as the paper counts."""
    return f"{Size(str(size)).in_bytes(rate=Rate(rate), rtt=rtt_ms * 10**9)}B" if "bdp" in str(size) else str(size)


def _ocean(given: _Given) -> list[Link]:
    wire = {"loss": 1e-6}
    queue = _bdp(given["queue"], "1gbit", 100)
    return [
        link("fibre", "left", "right", rate="1gbit", delay="50ms", queue=queue, wire=wire),
        link("fibre-back", "right", "left", rate="1gbit", delay="50ms", queue=queue, wire=wire),
    ]


def _campus(given: _Given) -> list[Link]:
    leased, lan = _bdp(given["leased_queue"], "51mbit", 100), _bdp(given["queue"], "1gbit", 10)
    return [
        link("leased", "left", "campus", rate="51mbit", delay="50ms", queue=leased, wire={"loss": 1e-6}),
        link("lan", "campus", "right", rate="1gbit", delay="5ms", queue=lan, wire={"loss": 1e-7}),
        link("lan-back", "right", "campus", rate="1gbit", delay="5ms", queue=lan, wire={"loss": 1e-7}),
        link("leased-back", "campus", "left", rate="51mbit", delay="50ms", queue=leased, wire={"loss": 1e-6}),
    ]


# --- Murray and Ong 2013: Singapore to Perth ----------------------------------------------------------------


def _hsdpa(given: _Given) -> list[Link]:
    there, back = _two_way("internet", "left", "rnc", "26.9ms")
    down = {"name": "hsdpa", "cqi": given["cqi"], "cqi_spread": given["cqi_spread"], "share": given["share"]}
    down |= _stalls(given)
    return [
        there,
        link("down", "rnc", "right", queue=given["buffer"], medium=down),
        link("up", "right", "rnc", queue="64kB", medium={"name": "dch", "rate": given["up"]}),
        back,
    ]


def _stalls(given: _Given) -> dict[str, ParamValue]:
    """Parameters of the way to the user that stalls; none if it never does."""
    return {"stall_every": given["stall_every"]} if Duration(str(given["stall_every"])) else {}


def _adsl2(given: _Given) -> list[Link]:
    there, back = _two_way("internet", "left", "isp", "25.5ms")
    adsl = {"name": "adsl", "encapsulation": "pppoe-llc"}
    return [
        there,
        # 13 Mbit/s of IP are 14.77 Mbit/s of cells.
        link(
            "down",
            "isp",
            "right",
            queue=given["buffer"],
            medium=adsl | {"sync": "14.77mbit", "interleaving": "1ms"},
            wire={"loss": given["line_loss"]},
        ),
        link("up", "right", "isp", queue="64kB", medium=adsl | {"sync": "1mbit", "interleaving": "1ms"}),
        back,
    ]


def _adsl2_wifi(given: _Given) -> list[Link]:
    there, down, up, back = _adsl2(given)
    down, up = (line.model_copy(update={"from_": a, "to": b}) for line, a, b in
                ((down, "isp", "home"), (up, "home", "isp")))  # fmt: skip
    return [there, down, *_cell("home", "right", given), up, back]


def _cell(ap: str, station: str, given: _Given) -> list[Link]:
    """An access point and a station, whose queue in the access point is `ap_buffer`."""
    wifi = {
        "name": "wifi", "channel": "air", "standard": given["standard"], "rate_mbps": given["rate"],
        "frame_error": given["frame_error"],
    }  # fmt: skip
    return [
        link(
            "air", ap, station, queue=given["ap_buffer"], medium=wifi | (_stalls(given) if station == "right" else {})
        ),
        # An access point hears every station; stations need not hear each other.
        link(
            "air-back",
            station,
            ap,
            queue=given["station_buffer"],
            medium=wifi | {"hidden": given["hidden"]},
        ),
    ]


def _university(given: _Given) -> list[Link]:
    there, back = _two_way("internet", "left", "border", "26.5ms")
    port = given.get("port")
    lan = "lan" if port else "right"
    backbone = [
        link("backbone", "border", lan, rate="1gbit", delay="500us", queue=given["queue"]),
        link("backbone-back", lan, "border", rate="1gbit", delay="500us", queue=given["queue"]),
    ]
    if not port:
        return [there, *backbone, back]
    queue = given["port_queue"]
    return [
        there,
        backbone[0],
        link("port", lan, "right", rate=port, delay="0s", queue=queue),
        link("port-back", "right", lan, rate=port, delay="0s", queue=queue),
        backbone[1],
        back,
    ]


def _eduroam(given: _Given) -> list[Link]:
    there, lan, lan_back, back = (
        line.model_copy(update={key: "ap" for key in ("from_", "to") if getattr(line, key) == "right"})
        for line in _university(given)
    )
    others = []
    for number in range(1, _count(given, "stations") + 1):
        cell = _cell("ap", f"station-{number}", given)
        others += [line.model_copy(update={"name": f"{line.name}-{number}"}) for line in cell]
    return [there, lan, *_cell("ap", "right", given), lan_back, back, *others]


def _crowd(given: _Given) -> list[Flow]:
    """Everybody else on the backbone: sessions of the web, arriving at random."""
    sessions = given["sessions"]
    if not sessions:
        return []
    params = {"rate": sessions, "hosts": 50, "access_low": "1ms", "access_high": "100ms"}
    return [flow("web", name="crowd", from_="lan" if given.get("port") else "right", to="border", params=params)]


def _neighbours(given: _Given) -> list[Flow]:
    """Other users of the access point, each fetching pages."""
    crowd = [flow.model_copy(update={"from_": "ap"}) for flow in _crowd(given)]
    each = {"rate": given["station_sessions"]}
    return crowd + [
        flow("web", name=f"station-{number}", from_=f"station-{number}", to="border", params=each)
        for number in range(1, _count(given, "stations") + 1)
    ]


def _count(given: _Given, name: str, most: int = 100) -> int:
    value = given[name]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        problem = f"must be a whole number from 0 to {most}"
        raise ScenarioError([Problem(f"path.{name}", value, problem, "Write for example 3.")])
    return value


_HOME = "CAIA Technical Report 110729A (2011)"
_FAST = "Wu, Effects of Applying High Speed Congestion Control Algorithms in the Internet (2007)"
_PERTH = "Murray and Ong, Experimental Evaluation of Congestion Avoidance"

_LINE = (
    Option("down", "1536kbit", "Sync rate to the home."),
    Option("up", "256kbit", "Sync rate from it; the paper prints 256KBps."),
    Option("encapsulation", "pppoe-llc", "PPPoE, printed; LLC, chosen."),
    Option("up_buffer", "32kB", "Queue of the modem, from the home; chosen."),
    Option("loss", 0.0, "Share of packets lost between the source and the provider; chosen."),
)
_PROVIDER = "One way between source and provider; chosen, with the interleaving, from the idle RTT."
_STALLS = Option("stall_every", "0s", "Mean time between two stalls of 0.3 to 1 s on the way to the user; 0: never.")
_AIR = (
    Option("standard", "g", "802.11g, or n with aggregation; chosen."),
    Option("rate", 54.0, "PHY rate in Mbit/s; chosen."),
    Option("frame_error", 0.0, "Probability that a full frame fails; chosen."),
    Option("hidden", 0.0, "Probability that a station's try meets one out of its hearing; chosen."),
    Option("ap_buffer", "100packets", "Queue of the access point; chosen."),
    Option("station_buffer", "100packets", "Queue of each station's interface; chosen."),
    _STALLS,
)

_ADSL2 = (
    Option("buffer", "100kB", "Queue towards the home; chosen."),
    Option("line_loss", 0.0, "Share of packets that the line's noise destroys; chosen."),
)

CARDS: tuple[PresetCard, ...] = (
    PresetCard(
        "adsl1", "ADSL1 home line, university to home, without the paper's tunnel", f"{_HOME}, section III-D",
        "idle RTT 50 ms; loaded medians 492 (NewReno), 613 ms (CUBIC); 1.2 to 1.25 Mbit/s",
        (
            *_LINE,
            Option("internet_delay", "10ms", _PROVIDER),
            Option("buffer", "104kB", "Queue towards the home; chosen from the loaded RTT."),
        ), _adsl1,
    ),
    PresetCard(
        "adsl1-vtun", "ADSL1 home line, through a tunnel of IP over TCP", f"{_HOME}, section III-D",
        "idle RTT 50 ms; loaded medians 492 (NewReno), 613 ms (CUBIC); 1.2 to 1.25 Mbit/s",
        (
            *_LINE,
            Option("internet_delay", "9ms", _PROVIDER),
            Option("buffer", "104kB", "Queue towards the home; chosen. The send buffer does not fill it."),
            Option("tun_queue", "50packets", "Queue of the tunnel's interface: FreeBSD's ifq_maxlen."),
            Option("send_buffer", "32KiB", "Of the outer connection: FreeBSD's sendspace; chosen from the loaded RTT."),
            Option("cc", "reno", "Congestion control of the outer connection: NewReno, printed."),
            Option("stack", "freebsd-9", "Its stack; chosen."),
        ), _adsl1_vtun, _vtun,
    ),
    PresetCard(
        "homeplug", "HomePlug AV between two rooms", f"{_HOME}, section III-E",
        "idle RTT 4 ms; about 31 to 36 Mbit/s of TCP",
        (
            Option("phy", 107.0, "PHY rate from source to destination, Mbit/s."),
            Option("back_phy", 143.0, "PHY rate back."),
            Option("payload", "1200us", "Longest payload of an exchange; chosen from the throughput."),
            Option("block_error", 0.05, "Share of bad blocks; chosen."),
            Option("buffer", "30packets", "Queue of each adapter; chosen."),
            Option("pause_queue", 0, "Packets in a host that its full adapter pauses; 0: the adapter drops. Chosen."),
            Option("bridge_delay", "1.7ms", "Adapter and host, one way; chosen from the idle RTT."),
        ), _homeplug,
    ),
    PresetCard(
        "wifi", "802.11g, a laptop sending through its access point", f"{_HOME}, section III-F",
        "idle RTT 1.5 ms; loaded medians 53 (NewReno), 55 ms (CUBIC); about 18 Mbit/s of TCP",
        (
            Option("rate", 54.0, "PHY rate in Mbit/s; not recorded in the paper, chosen."),
            Option("slot", "long", "20 us slots, as where 802.11b must be able to join; chosen."),
            Option("frame_error", 0.0, "Probability that a full frame fails; chosen."),
            Option("buffer", "100packets", "Queue of the sending interface; chosen from the loaded RTT."),
            Option("host_delay", "680us", "Driver and virtual machine, one way; chosen from the idle RTT."),
        ), _wifi,
    ),
    PresetCard(
        "ocean", "Trans-ocean fibre", f"{_FAST}, section 3.1",
        "1 Gbit/s, 50 ms one way, packet error rate 1e-6",
        (Option("queue", "0.1bdp", "Queue at both ends; the paper uses 0.02 to 1 BDP of the link (12.5 MB)."),),
        _ocean,
    ),
    PresetCard(
        "campus", "Campus network behind a leased OC-1 line", f"{_FAST}, section 3.2",
        "1 Gbit/s, 5 ms and 51 Mbit/s, 50 ms in series; error rates 1e-7 and 1e-6",
        (
            Option("queue", "0.1bdp", "Queue of the campus link; the paper uses 0.1 to 1 BDP (1.25 MB)."),
            Option("leased_queue", "1bdp", "Queue of the leased line (637.5 kB)."),
        ), _campus,
    ),
    PresetCard(
        "university", "Singapore to a university in Perth, wired", f"{_PERTH}, section III-A",
        "RTT 54 ms; little deviation; many competing flows on 1 Gbit/s, rarely full",
        (
            Option("queue", "1000packets", "Queues of the backbone; chosen."),
            Option("sessions", 600.0, "Web sessions a second that cross the backbone too; chosen."),
            Option("port", "", "Rate of the receiver's own port, \"100mbit\" say; empty: as fast as the backbone."),
            Option("port_queue", "100packets", "Queue of that port; chosen."),
        ), _university, _crowd,
    ),
    PresetCard(
        "eduroam", "Singapore to a university in Perth, by WiFi", f"{_PERTH}, section III-B",
        "RTT 54 ms on the wire; lower throughput and much larger deviations than wired",
        (
            Option("queue", "1000packets", "Queues of the backbone; chosen."),
            Option("sessions", 600.0, "Web sessions a second that cross the backbone too; chosen."),
            Option("stations", 3, "Other stations at the access point; chosen."),
            Option("station_sessions", 5.0, "Web sessions a second of each of them; chosen."),
            *_AIR,
        ), _eduroam, _neighbours,
    ),
    PresetCard(
        "adsl2", "Singapore to a home in Perth, ADSL2+", f"{_PERTH}, section III-C",
        "13 Mbit/s, RTT 54 ms, no competing traffic",
        _ADSL2, _adsl2,
    ),
    PresetCard(
        "adsl2-wifi", "Singapore to a home in Perth, ADSL2+ and WiFi", f"{_PERTH}, section III-D",
        "13 Mbit/s, RTT 54 ms and the access point's",
        (*_ADSL2, *_AIR), _adsl2_wifi,
    ),
    PresetCard(
        "3g", "Singapore to Perth by 3G", f"{_PERTH}, section III-E",
        "RTT 130 ms idle, 500 to 700 ms loaded, in transfers of 1 MB",
        (
            Option("cqi", 18, "Mean channel quality indicator; chosen."),
            Option("cqi_spread", 6, "How far it strays; chosen."),
            Option("share", 0.8, "Share of the intervals that other users leave; chosen."),
            Option("buffer", "128kB", "The user's queue in the network; chosen."),
            Option("up", "128kbit", "Bearer of the uplink; chosen."),
            _STALLS,
        ), _hsdpa,
    ),
)  # fmt: skip


def names() -> list[str]:
    """The presets' names."""
    return [card.name for card in CARDS]


def card(name: str) -> PresetCard:
    """One preset; `ScenarioError` proposes the nearest name if there is none."""
    for row in CARDS:
        if row.name == name:
            return row
    close = nearest(name, names())
    hint = f'Did you mean "{close}"? ' if close else ""
    problem = f"there is no preset called {name}"
    raise ScenarioError([Problem("path.preset", name, problem, f"{hint}There are: {', '.join(names())}.")])


def scenario(
    preset: str,
    *,
    flows: Iterable[Flow],
    duration: str,
    seed: int = 1,
    name: str = "",
    randomness: Randomness | Mapping[str, Any] | None = None,
    instruments: Instruments | Mapping[str, Any] | None = None,
    **options: ParamValue,
) -> Scenario:
    """A scenario on the network called `preset`; `options` are the preset's. Raises `ScenarioError`."""
    rest = {"randomness": randomness, "instruments": instruments}
    given = {key: value for key, value in rest.items() if value is not None}
    made = Scenario(
        name=name, seed=seed, duration=duration, path={"preset": preset} | options, flows=tuple(flows), **given
    )
    made.expanded  # noqa: B018  what is wrong with the options is said here
    return made


def expand(scenario: Scenario) -> Scenario:
    """See `Scenario.expanded`."""
    if scenario.path is None:
        return scenario
    if scenario.dumbbell is not None or scenario.links:
        other = "dumbbell" if scenario.dumbbell is not None else "link"
        problem = "a preset already describes the path"
        raise ScenarioError([Problem(other, None, problem, f"Remove [path] or {other}.")])
    row = card(scenario.path.preset)
    given = {option.name: option.default for option in row.options}
    for key, value in scenario.path.params.items():
        if key not in given:
            close = nearest(key, list(given))
            hint = f'Did you mean "{close}"? ' if close else ""
            problem = f"{row.name} has no option {key}"
            raise ScenarioError([Problem(f"path.{key}", value, problem, f"{hint}It has {', '.join(given)}.")])
        given[key] = value
    ends = {"left": "right", "right": "left"}
    flows = []
    for one in scenario.flows:
        from_ = one.from_ or ends.get(one.to or "", "left")
        flows.append(one.model_copy(update={"from_": from_, "to": one.to or ends.get(from_, "right")}))
    data = {"path": None, "links": tuple(row.links(given)), "flows": (*flows, *row.flows(given))}
    expanded = scenario.model_copy(update=data)
    expanded._file, expanded._lines, expanded._given = scenario._file, scenario._lines, scenario._given
    return expanded
