"""Every number and claim of the paper, with what it measures, its rule, and how much of it was fitted.

A printed number counts as reproduced within ±25 % (the paths were the Internet's), as partly reproduced within ±50 %.
An order is one beyond a tie band of 5 %, and partly reproduced within it; “clearly” means 10 %, “significantly” 20 %
for RTTs and 10 % for throughputs. Where the paper speaks of a network without a size, the worse of 1 and 20 MB counts.
Throughput of an algorithm is the paper's: the mean over its runs, the slowest tenth left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from tailback.experiment import (
    ANY,
    AS_PREDICTED,
    POSITIVE,
    SHARE,
    AtLeast,
    AtMost,
    Claim,
    Data,
    Measure,
    Measured,
    Near,
    Within,
    by_name,
    certain,
    fitted,
    restated,
    untestable,
)
from tailback.experiment import of as measure_of

from . import reasons as why
from .grid import ALGORITHMS, CALL_NETWORKS, CUT, LARGE, NETWORKS, RIVALS, SMALL, TITLES, WIRED, WIRELESS

NEAR, LOOSE = 0.25, 0.50
TIE = 0.05
AHEAD, BEHIND = AtLeast(1.0 + TIE, 1.0 - TIE), AtMost(1.0 - TIE, 1.0 + TIE)
NOT_LOWER = AtLeast(1.0, 1.0 - TIE)
"""For what is said to be no less: a tie will do."""
MORE, LESS = AtLeast(51.2, 48.8), AtMost(48.8, 51.2)
"""Shares that are 5 % apart, or no more than that."""
QUANTITATIVE = "quantitative"

PRINTED = {
    "university": ("Table I", {"cubic": 0.3813, "veno": 0.4559, "westwood": 0.5020, "hybla": 0.412},
                   {"cubic": 0.000302, "veno": 0.000042, "westwood": 0.000120, "hybla": 0.000065}),
    "eduroam": ("Table II", {"cubic": 3.80, "veno": 2.93, "westwood": 5.15, "hybla": 4.28},
                {"cubic": 0.014, "veno": 0.018, "westwood": 0.014, "hybla": 0.011}),
}  # fmt: skip
"""Jitter in ms and loss in per cent of five calls beside a download of 20 MB, as the tables print them."""

MODIFIED = ("veno", "westwood")
"""Those that the paper calls delay-based."""
LEADERS = ("cubic", "hybla")
MOST_WIRED = 1.0 + 64 * 1500 * 8 / 100e6 / 54e-3
"""Largest RTT over the idle one on the wired university: a full port queue of 64 packets at 100 Mbit/s, over 54 ms."""
JITTER_LIMIT_MS, LOSS_LIMIT = 30.0, 1.0
"""Acceptable for calls: Cisco's guide, the paper's reference 20."""

# --- What is read of the runs ------------------------------------------------------------------------------------


def kept_runs(mbps: Iterable[float]) -> Any:
    """Runs without the slowest tenth."""
    ordered = np.sort(np.asarray(list(mbps), dtype=np.float64))
    return ordered[int(CUT * len(ordered)) :]


RATE = "mbps/{megabytes}/{algorithm}"
RTT, DEVIATION = ("rtts/{megabytes}/{algorithm}/" + what for what in ("rtt_ms", "sd_ms"))
SINGLE: dict[str, Any] = {
    "kind": "single",
    "algorithm": ALGORITHMS,
    "take": lambda mbps: np.mean(kept_runs(mbps)),
    "whole": True,
}
CAPTURE: dict[str, Any] = {"kind": "capture", "algorithm": ALGORITHMS, "whole": True}
CALLS: dict[str, Any] = {"kind": "calls", "algorithm": ALGORITHMS, "whole": True}


def retained(data: Data, seed: int, network: str) -> Any:
    """Throughput of each rival beside CUBIC over that alone."""
    beside = data.array("rival_mbps", seed, kind="pair", take=fmean, network=network, rival=RIVALS, whole=True)
    alone = data.array(RATE, seed, network=network, megabytes=NETWORKS[network].pair_mb, **SINGLE)
    return beside / alone[1:]


def losses(data: Data, seed: int, network: Sequence[str] | str) -> Any:
    """Packets of the calls that were lost beside each algorithm, in per cent."""
    lost = data.array("lost/{algorithm}", seed, network=network, **CALLS)
    return 100.0 * lost / data.array("sent/{algorithm}", seed, network=network, take=lambda n: n or np.nan, **CALLS)


# --- What the claims measure -------------------------------------------------------------------------------------

_of = partial(measure_of, titles=TITLES)


def _over(above: Any, below: Any = (), of_above: Any = np.max, of_below: Any = np.max) -> Callable[[Any], Any]:
    """Some algorithms over others (all others, if none are named): the largest over the largest."""
    above = (above,) if isinstance(above, str) else above
    below = (below,) if isinstance(below, str) else below or [name for name in ALGORITHMS if name not in above]
    top, bottom = ([ALGORITHMS.index(name) for name in names] for names in (above, below))
    return lambda found: of_above(found[..., top], axis=-1) / of_below(found[..., bottom], axis=-1)


def _rates(network: str, value: Any, over: Any, sizes: tuple[int, ...] = ()) -> Measure:
    """Of throughputs at each size, and the worst of them."""
    label = "{algorithm} ({megabytes} MB, Mbit/s)"
    return _of(RATE, value, over, beside=label, network=network, megabytes=sizes or NETWORKS[network].sizes, **SINGLE)


def _ratio(network: str, megabytes: int, value: Any, what: str = RTT) -> Measure:
    """Of throughputs, or of mean RTTs, at one size."""
    label, cells = ("{algorithm} (ms)", CAPTURE) if what == RTT else ("{algorithm} (Mbit/s)", SINGLE)
    return _of(what, value, beside=label, network=network, megabytes=megabytes, **cells)


def _cubic_share(network: str, rival: str) -> Measure:
    return measure_of(
        "{who}_mbps", lambda rates: 100.0 * rates[0] / sum(rates), beside="{who} (Mbit/s)", take=fmean, kind="pair",
        titles={"cubic": TITLES["cubic"], "rival": TITLES[rival]}, network=network, rival=rival, who=("cubic", "rival"),
    )  # fmt: skip


def _wired_rtts_small(data: Data, seed: int) -> Measured:
    wired: dict[str, Any] = {"network": "university", "megabytes": NETWORKS["university"].sizes}
    mean, deviation = (data.array(what, seed, **wired, **CAPTURE) for what in (RTT, DEVIATION))
    idle = data.array("rtt_ms", seed, kind="idle", network="university")
    label = "{algorithm} ({megabytes} MB, deviation, ms)"
    parts = by_name(label, deviation, TITLES, megabytes=wired["megabytes"], algorithm=ALGORITHMS)
    return Measured(float(np.max(mean + deviation) / idle), parts)


def _westwood_queues(data: Data, seed: int) -> Measured:
    networks = ("adsl", "adsl-wifi")
    mean = data.array(RTT, seed, network=networks, **CAPTURE, megabytes=LARGE)
    idle = data.array("rtt_ms", seed, kind="idle", network=networks)
    ratios = _over("westwood")(np.maximum(mean - idle[:, None], 1e-3))
    return Measured(float(min(ratios)), by_name("{network}", ratios, TITLES, network=networks))


def _westwood_retains(data: Data, seed: int) -> Measured:
    kept = retained(data, seed, "adsl-wifi")
    return Measured(kept[1] / min(kept[0], kept[2]), by_name("{rival} (kept)", kept, TITLES, rival=RIVALS))


def _westwood_retains_least(data: Data, seed: int) -> Measured:
    each = {name: retained(data, seed, name) for name in NETWORKS}
    ratios = {TITLES[name]: kept[1] / min(kept[0], kept[2]) for name, kept in each.items()}
    return Measured(float(sum(ratio <= 1.05 for ratio in ratios.values())), ratios)


def _mean_and_idle_on_3g(data: Data, seed: int) -> tuple[Any, Any]:
    mean = data.array(RTT, seed, network="3g", megabytes=SMALL, **CAPTURE)
    return mean, data.array("rtt_ms", seed, kind="idle", network="3g")


def _added_on_3g(choose: Callable[[Any], Any]) -> Measure:
    """Least or most of what the algorithms add to the idle RTT."""

    def measure(data: Data, seed: int) -> Measured:
        mean, idle = _mean_and_idle_on_3g(data, seed)
        added = by_name("{algorithm} (added ms)", mean - idle, TITLES, algorithm=ALGORITHMS)
        return Measured(choose(added.values()), added)

    return measure


def _all_delayed_on_3g(data: Data, seed: int) -> Measured:
    mean, idle = _mean_and_idle_on_3g(data, seed)
    return Measured(float(min(mean) / idle), by_name("{algorithm} (ms)", mean, TITLES, algorithm=ALGORITHMS))


def _loaded_rtt(algorithm: str) -> Measure:
    def measure(data: Data, seed: int) -> Measured:
        mean, deviation = (
            float(data.array(what, seed, kind="capture", network="3g", megabytes=SMALL, algorithm=algorithm))
            for what in (RTT, DEVIATION)
        )
        return Measured(mean, {"deviation (ms)": deviation})

    return measure


def _more_jitter(network: str, algorithm: str) -> Measure:
    def measure(data: Data, seed: int) -> Measured:
        here, there = data.array("jitter_ms/{algorithm}", seed, kind="calls", network=network,
                                 algorithm=(algorithm, ALGORITHMS[0]))  # fmt: skip
        return Measured(100.0 * float(here / there - 1.0), {"jitter (ms)": float(here)})

    return measure


def _call_loss(network: str, algorithm: str) -> Measure:
    def measure(data: Data, seed: int) -> Measured:
        found = data.need(seed, kind="calls", network=network)
        share = losses(data, seed, network)[ALGORITHMS.index(algorithm)]
        return Measured(float(share), {"lost": float(found["lost"][algorithm]), "of": float(found["sent"][algorithm])})

    return measure


def _wifi_loss_higher(data: Data, seed: int) -> Measured:
    wire, air = losses(data, seed, CALL_NETWORKS)
    return Measured(float(np.sum(air > wire)), by_name("{a} (% on WiFi)", air, TITLES, a=ALGORITHMS))


def _calls_acceptable(data: Data, seed: int) -> Measured:
    jitter = data.array("jitter_ms/{algorithm}", seed, network=CALL_NETWORKS, **CALLS)
    reached = {
        "jitter": 100.0 * jitter.max(axis=1) / JITTER_LIMIT_MS,
        "loss": 100.0 * losses(data, seed, CALL_NETWORKS).max(axis=1) / LOSS_LIMIT,
    }
    parts = {f"{what}, {TITLES[name]} (%)": float(each[place]) for place, name in enumerate(CALL_NETWORKS)
             for what, each in reached.items()}  # fmt: skip
    return Measured(max(parts.values()), parts)


def _everywhere(
    networks: Iterable[str], value: Callable[[Any], float], over: Callable[[list[float]], float], label: str
) -> Measure:
    """A value of the four throughputs for each network and size, and one of these."""

    def measure(data: Data, seed: int) -> Measured:
        parts = {
            label.format(f"{TITLES[name]}, {size} MB"):
            float(value(data.array(RATE, seed, network=name, megabytes=size, **SINGLE)))
            for name in networks
            for size in NETWORKS[name].sizes
        }  # fmt: skip
        return Measured(over(list(parts.values())), parts)

    return measure


def _leaders_ahead(networks: Iterable[str]) -> Measure:
    return _everywhere(
        networks, lambda rates: fmean(rates[[0, 3]]) / fmean(rates[[1, 2]]),
        lambda each: 100.0 * fmean(value > 1.0 for value in each), "{} (×)",
    )  # fmt: skip


# --- Standings ---------------------------------------------------------------------------------------------------

_PORT = "The port's rate and queue were fitted to the order of throughput on the wired university."
_LINE = "The line's noise and queue were fitted to who is fastest on ADSL"
_SEEN = fitted(f"{_LINE}; this order was seen while they were chosen, from some fifty pairs.")
_FROM_CALLS = "follows from the jitter beside CUBIC on both networks, to which parameters were fitted."
_BELOW_ONE = untestable(
    "The print lies below one packet of what such runs send: of 30 to 100 thousand packets one is 0.001 to 0.003 %."
)
_OTHER_DAYS = untestable(
    "The four values were taken on different days; what of their differences is the algorithms' is not known."
)
_LEVEL = "A parameter sets the level beside CUBIC, and any constant near it passed; the difference from CUBIC's counts."
_WITHIN_TIE = "Counted within the tie of 5 %; an order counts beyond it, and partly within."


# --- The claims ---------------------------------------------------------------------------------------------------


def _calls() -> list[Claim]:
    """The rows of both tables."""
    claims = []
    lost: dict[str, Any]
    for jitters, losses, network, first, missed, lost in (
        ("003-Q1", "003-Q2", "university", "The lateness of iperf's process was fitted to it.", why.WIRED_JITTER,
         {"why": why.TINY, "standing": _BELOW_ONE}),
        ("003-Q3", "003-Q4", "eduroam", "Eduroam's rate, stations and sessions were fitted to it.", why.WIFI_JITTER,
         {"why": why.WIFI_LOSS}),
    ):  # fmt: skip
        table, jitter, loss = PRINTED[network]
        definition = "RFC 3550's estimate at the end of a download, mean of calls and runs"
        where, base = TITLES[network], ALGORITHMS[0]
        claims.append(
            Claim(
                f"{jitters}a", f"{where}: jitter of calls beside {TITLES[base]}", table, f"{jitter[base]:g} ms", " ms",
                definition, _of("jitter_ms/{algorithm}", float, kind="calls", network=network, algorithm=base),
                Near(jitter[base], NEAR, LOOSE), "calls", why=missed if network == "eduroam" else "",
                standing=fitted(first), kind=QUANTITATIVE, possible=POSITIVE,
            )
        )  # fmt: skip
        # A parameter sets the jitter beside CUBIC, and with it that beside all; what is left is their differences.
        for letter, algorithm in zip("bcd", RIVALS, strict=True):
            more = 100.0 * (jitter[algorithm] / jitter[base] - 1.0)
            claims.append(
                Claim(
                    f"{jitters}{letter}", f"{where}: jitter of calls beside {TITLES[algorithm]}, more than beside "
                    f"{TITLES[base]}", table, f"{more:+.1f} % ({jitter[algorithm]:g} ms)", " %",
                    f"{definition}, over that beside {TITLES[base]}, less one", _more_jitter(network, algorithm),
                    Near(more, NEAR, LOOSE), "calls", why=missed, redefined=_LEVEL, kind=QUANTITATIVE,
                    standing=_OTHER_DAYS, possible=(-100.0, math.inf),
                )
            )  # fmt: skip
        claims += [
            Claim(
                f"{losses}{letter}", f"{where}: loss of calls beside {TITLES[algorithm]}", table,
                f"{loss[algorithm]:g} %", " %", "packets lost while downloads ran", _call_loss(network, algorithm),
                Near(loss[algorithm], NEAR, LOOSE), "calls", kind=QUANTITATIVE, possible=SHARE, **lost,
            )
            for letter, algorithm in zip("abcd", ALGORITHMS, strict=True)
        ]  # fmt: skip
    return claims


def _shares(prefix: str, network: str, where: str, rivals: dict[str, str], **missed: str) -> list[Claim]:
    """CUBIC's share beside each rival, with the claim's letter; `missed` says why by letter."""
    return [
        Claim(
            f"{prefix}{letter}", f"{TITLES[network]}: CUBIC gets the greater share beside {TITLES[rival]}", where,
            "> 50 %", " %", "CUBIC's mean throughput over the sum of both", _cubic_share(network, rival), MORE,
            network, why=missed.get(letter, ""), possible=SHARE,
        )
        for letter, rival in rivals.items()
    ]  # fmt: skip


def _loaded() -> list[Claim]:
    return [
        Claim(
            f"003-Q7{letter}", f"3G: {TITLES[algorithm]}'s RTT while it transfers 1 MB", "Abstract, III-E",
            "500–700 ms", " ms", "mean of the RTTs by Karn's rule", _loaded_rtt(algorithm),
            Within(500.0, 700.0, 375.0, 875.0), "3g", kind=QUANTITATIVE, possible=POSITIVE,
            standing=fitted("The user's share of 3G was fitted to it.") if letter == "a" else AS_PREDICTED,
        )
        for letter, algorithm in zip("abcd", ALGORITHMS, strict=True)
    ]  # fmt: skip


_BEST = "throughput over the highest of the others', the lesser of the sizes"
_BELOW = "the faster of the two over the slower of CUBIC and Hybla, the larger of the sizes"
_MEAN_RTT = "ratio of mean RTTs, 20 MB"

CLAIMS = (
    *_calls(),
    Claim("003-Q5", "An ICMP echo takes about 54 ms from Singapore to Perth, unloaded", "II-A", "54 ms", " ms",
        "mean of pings, wired university", _of("rtt_ms", float, kind="idle", network="university"),
        Near(54.0, 0.05, 0.10), "university", standing=fitted("The delay of the long stretch was fitted to it."),
        kind=QUANTITATIVE, possible=POSITIVE),
    Claim("003-Q6a", "3G: ICMP reports 130 ms", "III-E", "130 ms", " ms", "mean of pings",
        _of("rtt_ms", float, kind="idle", network="3g"), Near(130.0, 0.05, 0.10), "3g",
        standing=fitted("3G's idle delay was fitted to it."), kind=QUANTITATIVE, possible=POSITIVE),
    Claim("003-Q6b", "3G adds 76 ms to the idle RTT", "III-E", "76 ms", " ms", "mean of pings less that on the wire",
        _of("rtt_ms", lambda rtt: rtt[0] - rtt[1], kind="idle", network=("3g", "university")), Near(76.0, 0.10, 0.20),
        "3g", standing=restated("003-Q6a less 003-Q5."), kind=QUANTITATIVE, possible=ANY),
    *_loaded(),
    Claim("003-Q8a", "3G: queueing adds at least 370 ms", "Abstract, III-E, V", "370 ms", " ms",
        "the least that an algorithm's mean RTT is above the idle one",
        _added_on_3g(min), Near(370.0, NEAR, LOOSE), "queue-3g",
        standing=restated("The least of 003-Q7 less 003-Q6a."), kind=QUANTITATIVE, possible=ANY),
    Claim("003-Q8b", "3G: queueing adds up to 570 ms", "Abstract, III-E, V", "570 ms", " ms",
        "the most that an algorithm's mean RTT is above the idle one",
        _added_on_3g(max), Near(570.0, NEAR, LOOSE), "queue-3g",
        standing=restated("The largest of 003-Q7 less 003-Q6a."), kind=QUANTITATIVE, possible=ANY),
    Claim("003-L1a", "University, wired: CUBIC provides the highest throughputs", "III-A", "highest", "×", _BEST,
        _rates("university", _over("cubic"), np.min), AHEAD, "university", standing=fitted(_PORT),
        redefined=_WITHIN_TIE),
    Claim("003-L1b", "University, wired: Westwood offers the lowest performance", "III-A", "lowest", "×",
        "throughput over the lowest of the others', the larger of the sizes",
        _rates("university", _over("westwood", of_below=np.min), np.max), BEHIND, "university", standing=fitted(_PORT),
        redefined=_WITHIN_TIE),
    Claim("003-L1c", "University, wired: RTTs and their deviations are small in all cases", "III-A", "small", "×",
        "largest mean plus deviation of RTT over the idle RTT", _wired_rtts_small, AtMost(1.25, 1.5), "university",
        possible=(1.0, MOST_WIRED),
        standing=certain("The port's queue holds 64 packets, which is less of the RTT than the rule allows.")),
    *_shares("003-L1", "university", "III-A", dict(zip("def", RIVALS, strict=True))),
    Claim("003-L1g", "University, wired: Westwood performs very poorly", "III-C", "very poorly", "×",
        "Westwood's throughput over CUBIC's, 20 MB", _ratio("university", LARGE, _over("westwood", "cubic"), RATE),
        AtMost(0.8, 1.0 - TIE), "university",
        standing=fitted(f"{_PORT} How poor Westwood is follows from how it was made the lowest.")),
    Claim("003-L2a", "Eduroam: CUBIC and Hybla provide similar throughput", "III-B", "similar", "×",
        "lower over higher, the lesser of the sizes", _rates("eduroam", _over(LEADERS, LEADERS, np.min), np.min),
        AtLeast(1.0 - TIE, 0.85), "eduroam", possible=(0.0, 1.0),
        standing=certain("The radio is the limit and nothing else is: all four fill it, as 003-L2b shows by "
        "failing.")),
    Claim("003-L2b", "Eduroam: Veno and Westwood are clearly slower", "III-B", "clearly", "×", _BELOW,
        _rates("eduroam", _over(MODIFIED, LEADERS, np.max, np.min), np.max), AtMost(0.9, 1.0), "eduroam", why=why.TIE),
    Claim("003-L2c", "Eduroam: much larger deviations of RTT than on the wire", "III-B", "much larger", "×",
        "deviation over that on the wire, the least of algorithms and sizes",
        _of(DEVIATION, lambda sd: sd[0] / np.maximum(sd[1], 1e-3), np.min, each="{algorithm}, {megabytes} MB (×)",
        network=("eduroam", "university"), megabytes=(SMALL, LARGE), **CAPTURE), AtLeast(2.0, 1.2), "eduroam"),
    Claim("003-L2d", "Eduroam: average throughput is less than on the wire", "III-B", "less", "×",
        "mean of the algorithms over that on the wire, the larger of the sizes",
        _of(RATE, lambda rates: [fmean(here) / fmean(there) for here, there in zip(*rates, strict=True)], np.max,
        each="{megabytes} MB", network=("eduroam", "university"), megabytes=(SMALL, LARGE), **SINGLE),
        AtMost(1.0 - TIE, 1.0), "eduroam",
        standing=certain("Eduroam's radio sends at 12 Mbit/s, the wired port at 100.")),
    *_shares("003-L2", "eduroam", "III-B", dict(zip("efg", RIVALS, strict=True)), g=why.SPLIT),
    Claim("003-L3a", "ADSL, wired: Westwood offers the highest throughput, 1 MB", "III-C", "highest", "×",
        "throughput over the highest of the others'", _rates("adsl", _over("westwood"), np.min, (SMALL,)), AHEAD,
        "adsl", why=why.TIE, standing=fitted(f"{_LINE}."), redefined=_WITHIN_TIE),
    Claim("003-L3b", "ADSL, wired: Westwood offers the highest throughput, 20 MB", "III-C", "highest", "×",
        "throughput over the highest of the others'", _rates("adsl", _over("westwood"), np.min, (LARGE,)), AHEAD,
        "adsl", why=why.TIE, standing=fitted(f"{_LINE}."), redefined=_WITHIN_TIE),
    Claim("003-L3c", "ADSL, wired: Westwood has a significantly higher average RTT", "III-C", "significantly", "×",
        _MEAN_RTT + ", over the largest of the others", _ratio("adsl", LARGE, _over("westwood")), AtLeast(1.2, 1.0),
        "adsl", why=why.STANDING),
    Claim("003-L3d", "ADSL, wired: CUBIC is second in throughput", "III-C", "second", "×",
        "CUBIC's over the higher of Hybla's and Veno's, the lesser of the sizes",
        _rates("adsl", _over("cubic", ("hybla", "veno")), np.min), AHEAD, "adsl", why=why.HYSTART, standing=_SEEN,
        redefined=_WITHIN_TIE),
    Claim("003-L3e", "ADSL, wired: Hybla is third in throughput", "III-C", "third", "×",
        "Hybla's over Veno's, the lesser of the sizes", _rates("adsl", _over("hybla", "veno"), np.min), AHEAD, "adsl",
        why="Hybla begins with two segments, the others with ten, and overshoots further.", standing=_SEEN,
        redefined=_WITHIN_TIE),
    Claim("003-L3f", "ADSL, wired: CUBIC and Hybla have correspondingly lower RTTs", "III-C", "lower", "×",
        "the larger of their mean RTTs over Westwood's, 20 MB", _ratio("adsl", LARGE, _over(LEADERS, "westwood")),
        AtMost(1.0 - TIE, 1.0), "adsl", why=why.STANDING),
    *_shares("003-L3", "adsl", "III-C", {"g": "veno", "h": "westwood"}),
    Claim("003-L3i", "ADSL, wired: CUBIC does not get the greater share beside Hybla", "III-C", "≤ 50 %", " %",
        "CUBIC's mean throughput over the sum of both", _cubic_share("adsl", "hybla"), LESS, "adsl", possible=SHARE),
    Claim("003-L4a", "ADSL WiFi: Westwood offers the highest throughputs", "III-D", "highest", "×", _BEST,
        _rates("adsl-wifi", _over("westwood"), np.min), AHEAD, "adsl-wifi", why=why.TIE,
        standing=fitted(f"{_LINE}; this is the same line."), redefined=_WITHIN_TIE),
    Claim("003-L4b", "ADSL WiFi: alone, Westwood's throughput is significantly higher", "III-D", "significantly", "×",
        _BEST, _rates("adsl-wifi", _over("westwood"), np.min), AtLeast(1.1, 1.0), "adsl-wifi",
        why="Westwood leads by less ({003-L4b}). More noise widens that, and puts Hybla first in 1 MB."),
    Claim("003-L4c", "ADSL WiFi: large variations in the RTT", "III-D", "large", " %",
        "deviation over mean of RTT, median of algorithms and sizes",
        _of("rtts/{megabytes}/{algorithm}/{of}_ms", lambda rtt: 100.0 * rtt[0] / rtt[1], np.median,
        each="{algorithm}, {megabytes} MB (%)", of=("sd", "rtt"), network="adsl-wifi", megabytes=(SMALL, LARGE),
        **CAPTURE), AtLeast(20.0, 10.0), "adsl-wifi", why=why.ADSL_WIFI,
        redefined="The least of eight deviations had to be large; the paper speaks of all, so it is the median.",
        possible=POSITIVE),
    Claim("003-L4d", "ADSL WiFi: Westwood slows disproportionately beside CUBIC", "III-D", "disproportionately", "×",
        "share of its throughput it keeps over the least that Veno or Hybla keep", _westwood_retains, BEHIND,
        "retained", why=why.KEPT, redefined=_WITHIN_TIE),
    Claim("003-L4e", "That Westwood slows disproportionately beside CUBIC is present in all tests", "III-D",
        "5 networks", " networks", "networks on which it keeps the least of its throughput, within 5 %",
        _westwood_retains_least, AtLeast(5.0, 3.0), "retained", why=why.KEPT, possible=(0.0, len(NETWORKS))),
    Claim("003-L5a", "3G: Hybla offers the highest throughput", "III-E", "highest", "×", _BEST,
        _rates("3g", _over("hybla"), np.min), AHEAD, "3g", why=why.THREE_G, redefined=_WITHIN_TIE),
    Claim("003-L5b", "3G: CUBIC's throughput is slightly lower than Hybla's", "III-E", "slightly lower", "×",
        "ratio of throughputs", _ratio("3g", SMALL, _over("cubic", "hybla"), RATE), Within(0.85, 1.0, 0.75, 1.0 + TIE),
        "3g", why=why.THREE_G),
    Claim("003-L5c", "3G: CUBIC's delay is lower than Hybla's", "III-E", "lower", "×", "ratio of mean RTTs",
        _ratio("3g", SMALL, _over("cubic", "hybla")), AtMost(1.0 - TIE, 1.0), "3g", why=why.THREE_G),
    Claim("003-L5d", "3G: Veno and Westwood perform poorly in throughput", "III-E", "poorly", "×", _BELOW,
        _rates("3g", _over(MODIFIED, LEADERS, np.max, np.min), np.max), AtMost(0.9, 1.0), "3g", why=why.THREE_G),
    Claim("003-L5e", "3G: Veno and Westwood have no benefit in latency", "III-E", "none", "×",
        "the lower of their mean RTTs over the lower of CUBIC's and Hybla's",
        _ratio("3g", SMALL, _over(MODIFIED, LEADERS, np.min, np.min)), NOT_LOWER, "3g", why=why.THREE_G),
    Claim("003-L6a", "WiFi introduces higher jitter to calls", "IV", "6.4–10.4×", "×",
        "jitter over that on the wire, the least of the algorithms",
        _of("jitter_ms/{algorithm}", lambda jitter: jitter[1] / jitter[0], np.min, each="{algorithm} (×)",
        network=CALL_NETWORKS, **CALLS), AtLeast(2.0, 1.0), "calls", standing=fitted(f"It {_FROM_CALLS}")),
    Claim("003-L6b", "WiFi introduces higher losses to calls", "IV", "4 algorithms", " algorithms",
        "algorithms beside which calls lose more than on the wire", _wifi_loss_higher, AtLeast(4.0, 3.0), "calls",
        why=why.WIFI_LOSS, possible=(0.0, len(ALGORITHMS))),
    Claim("003-L6c", "In all cases loss and jitter of calls are well within what is acceptable", "IV, V",
        "well within", " %", "largest share of 30 ms of jitter or 1 % of loss that is reached", _calls_acceptable,
        AtMost(50.0, 100.0), "calls",
        standing=fitted(f"The share that is reached is that of the jitter, which {_FROM_CALLS}"), possible=POSITIVE),
    Claim("003-L7a", "Wired: CUBIC and Hybla are generally more successful than Veno and Westwood", "Abstract, V",
        "generally", " %", "share of networks and sizes in which the mean of the two is higher", _leaders_ahead(WIRED),
        AtLeast(70.0, 50.0), "ranks", why=why.TIE,
        standing=fitted(f"The orders of both wired networks were: {_PORT} {_LINE}."), possible=SHARE),
    Claim("003-L7b", "Wireless: CUBIC and Hybla are generally more successful than Veno and Westwood", "Abstract, V",
        "generally", " %", "share of networks and sizes in which the mean of the two is higher",
        _leaders_ahead(WIRELESS), AtLeast(70.0, 50.0), "ranks", why="On the noisy line they are ahead. On Eduroam and "
        "3G, where one link is the limit, all four are within a few per cent.", possible=SHARE),
    Claim("003-L7c", "CUBIC and Hybla perform similarly", "Abstract", "similarly", "×",
        "lower over higher throughput, the least of networks and sizes",
        _everywhere(NETWORKS, lambda rates: rates[0] / rates[3],
        lambda each: min(min(value, 1.0 / value) for value in each), "{}: CUBIC over Hybla"), AtLeast(0.9, 0.8),
        "ranks", redefined="The median of nine cells hid where the two differ most; it is the worst.",
        possible=(0.0, 1.0)),
    Claim("003-L7d", "Veno is consistently the most poorly performing algorithm", "V", "consistently", " %",
        "share of networks and sizes in which it is slower than all others by over 5 %",
        _everywhere(NETWORKS, _over("veno", of_below=np.min),
        lambda each: 100.0 * fmean(value < 0.95 for value in each), "{}: Veno over the slowest other"),
        AtLeast(70.0, 50.0), "ranks",
        why="The paper contradicts itself: on the wired university it has Westwood lowest (III-A), as here.",
        standing=untestable("The paper contradicts itself: on the wired university it has Westwood lowest (III-A). The "
                            "orders on the university and on ADSL were fitted besides."),
        redefined="Ties within 5 % counted as poorest; Veno must be slower than all others by more.", possible=SHARE),
    Claim("003-L7e", "In isolation Westwood builds large queues, leading to large RTTs", "V", "large", "×",
        "what it adds to the RTT over the most that another adds, the lesser of the ADSL networks", _westwood_queues,
        AtLeast(1.2, 1.0), "adsl", why=why.STANDING),
    Claim("003-L7f", "All algorithms introduce large delays on 3G", "III-E, V", "3.8–5.4×", "×",
        "least mean RTT over the idle one", _all_delayed_on_3g, AtLeast(3.0, 2.0), "queue-3g",
        standing=restated("Where 003-Q7 and 003-Q6a hold, RTTs are at least 3.8 times the idle one.")),
    Claim("003-L8a", "ADSL, wired: Westwood has very few variations in delay", "III-C", "very few", " %",
        "Westwood's deviation over its mean RTT, 20 MB",
        _of("rtts/{megabytes}/{algorithm}/{of}_ms", lambda rtt: 100.0 * rtt[0] / rtt[1], of=("sd", "rtt"),
        network="adsl", megabytes=LARGE, **{**CAPTURE, "algorithm": "westwood"}), AtMost(10.0, 20.0), "adsl",
        possible=POSITIVE),
    Claim("003-L8b", "The receiver's operating system makes no difference", "II-A", "none", " %",
        "no run has another receiver", lambda _data, _seed: None, AtMost(5.0, 10.0), "university", possible=POSITIVE,
        standing=untestable("The model's receivers have a window and ACKs and no operating system besides.")),
)  # fmt: skip
