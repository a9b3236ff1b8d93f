"""What the claims measure: one number for a seed, with what it was made of.

Throughput of an algorithm is the paper's: the mean over its runs, the slowest tenth left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from statistics import fmean
from typing import Any

import numpy as np

from tailback.experiment import Data, Measured, NotRun, Summary

from .grid import (
    ALGORITHMS,
    CUT,
    LARGE,
    NETWORKS,
    RIVALS,
    SMALL,
    TITLES,
)

Measure = Callable[[Data, int], Measured]
MODIFIED = ("veno", "westwood")
"""Those that the paper calls delay-based."""
LEADERS = ("cubic", "hybla")
NAN = float("nan")
JITTER_LIMIT_MS, LOSS_LIMIT = 30.0, 1.0
"""Acceptable for calls: Cisco's guide, the paper's reference 20."""


def kept_runs(mbps: Iterable[float]) -> Any:
    """Runs without the slowest tenth."""
    ordered = np.sort(np.asarray(list(mbps), dtype=np.float64))
    return ordered[int(CUT * len(ordered)) :]


def throughput(data: Data, seed: int, network: str, megabytes: int) -> dict[str, float]:
    """Mean throughput of each algorithm in Mbit/s; `NotRun` if one has no run."""
    each = data.need(seed, kind="single", network=network)["mbps"].get(str(megabytes), {})
    if not each or not all(each.values()):
        raise NotRun(f"{network}, {megabytes} MB")
    return {name: float(np.mean(kept_runs(each[name]))) for name in ALGORITHMS}


def rtts(data: Data, seed: int, network: str, megabytes: int, what: str = "rtt_ms") -> dict[str, float]:
    """Mean (or `sd_ms`, deviation) of each algorithm's RTTs in ms."""
    each = data.need(seed, kind="capture", network=network)["rtts"].get(str(megabytes), {})
    if not each or any(one[what] is None for one in each.values()):
        raise NotRun(f"{network}, {megabytes} MB, {what}")
    return {name: float(one[what]) for name, one in each.items()}


def pair_rates(data: Data, seed: int, network: str, rival: str) -> tuple[float, float]:
    """Mean throughput of CUBIC and of its rival, side by side, in Mbit/s."""
    found = data.need(seed, kind="pair", network=network, rival=rival)
    if not found["cubic_mbps"]:
        raise NotRun(f"{network}, {rival}")
    return fmean(found["cubic_mbps"]), fmean(found["rival_mbps"])


def over_seeds(look: Callable[..., dict[str, float]], data: Data, *of: Any) -> list[dict[str, float]]:
    """What a look finds, for every seed that has what it needs."""
    found = []
    for seed in data.seeds:
        with suppress(NotRun):
            found.append(look(data, seed, *of))
    return found


def idle_ms(data: Data, seed: int, network: str) -> float:
    """Mean RTT of pings on the unloaded path."""
    return float(data.need(seed, kind="idle", network=network)["rtt_ms"])


def calls(data: Data, seed: int, network: str) -> Summary:
    """Jitter and losses of the five calls."""
    return data.need(seed, kind="calls", network=network)


def _rest(values: dict[str, float], *names: str) -> list[float]:
    return [value for name, value in values.items() if name not in names]


def _parts(values: dict[str, float], unit: str) -> dict[str, float]:
    return {f"{TITLES[name]} ({unit})": value for name, value in values.items()}


def _over_sizes(
    network: str, judge: Callable[[dict[str, float]], float], worst: Callable[[list[float]], float], sizes: Any = None
) -> Measure:
    """A ratio of throughputs at each size, and the worst of them."""

    def measure(data: Data, seed: int) -> Measured:
        values: list[float] = []
        parts: dict[str, float] = {}
        for megabytes in sizes or NETWORKS[network].sizes:
            rates = throughput(data, seed, network, megabytes)
            values.append(judge(rates))
            parts |= _parts(rates, f"{megabytes} MB, Mbit/s")
        return Measured(worst(values), parts)

    return measure


def leads(network: str, algorithm: str, *sizes: int) -> Measure:
    """Its throughput over the highest of the others', the least of the sizes."""
    return _over_sizes(network, lambda rates: rates[algorithm] / max(_rest(rates, algorithm)), min, sizes)


def trails(network: str, algorithm: str) -> Measure:
    """Its throughput over the lowest of the others', the largest of the sizes."""
    return _over_sizes(network, lambda rates: rates[algorithm] / min(_rest(rates, algorithm)), max)


def over(network: str, above: str, *below: str) -> Measure:
    """Throughput of one over the highest of some others', the least of the sizes."""
    return _over_sizes(network, lambda rates: rates[above] / max(rates[name] for name in below), min)


def alike(network: str) -> Measure:
    """Lower over higher throughput of CUBIC and Hybla, the least of the sizes."""
    return _over_sizes(network, lambda rates: min(rates[n] for n in LEADERS) / max(rates[n] for n in LEADERS), min)


def slower(network: str) -> Measure:
    """The faster of Veno and Westwood over the slower of CUBIC and Hybla, the largest of the sizes."""
    return _over_sizes(network, lambda rates: max(rates[n] for n in MODIFIED) / min(rates[n] for n in LEADERS), max)


def cubic_share(network: str, rival: str) -> Measure:
    """CUBIC's throughput over the sum of both, in per cent."""

    def measure(data: Data, seed: int) -> Measured:
        rates = pair_rates(data, seed, network, rival)
        parts = {"CUBIC (Mbit/s)": rates[0], f"{TITLES[rival]} (Mbit/s)": rates[1]}
        return Measured(100.0 * rates[0] / sum(rates), parts)

    return measure


def wired_rtts_small(data: Data, seed: int) -> Measured:
    """Largest mean plus deviation of RTT on the wired university, over the idle RTT."""
    idle = idle_ms(data, seed, "university")
    worst = 0.0
    parts: dict[str, float] = {}
    for megabytes in NETWORKS["university"].sizes:
        mean, deviation = (rtts(data, seed, "university", megabytes, what) for what in ("rtt_ms", "sd_ms"))
        worst = max(worst, *(mean[name] + deviation[name] for name in ALGORITHMS))
        parts |= _parts(deviation, f"{megabytes} MB, deviation, ms")
    return Measured(worst / idle, parts)


def larger_deviations(network: str, than: str) -> Measure:
    """Deviation of RTT over that on another network, the least of algorithms and sizes."""

    def measure(data: Data, seed: int) -> Measured:
        ratios: dict[str, float] = {}
        for megabytes in NETWORKS[network].sizes:
            here, there = (rtts(data, seed, name, megabytes, "sd_ms") for name in (network, than))
            ratios |= {f"{TITLES[n]}, {megabytes} MB (×)": here[n] / max(there[n], 1e-3) for n in ALGORITHMS}
        return Measured(min(ratios.values()), ratios)

    return measure


def relative_deviation(network: str) -> Measure:
    """Median deviation of RTT over its mean, of algorithms and sizes, in per cent."""

    def measure(data: Data, seed: int) -> Measured:
        ratios: dict[str, float] = {}
        for megabytes in NETWORKS[network].sizes:
            mean, deviation = (rtts(data, seed, network, megabytes, what) for what in ("rtt_ms", "sd_ms"))
            ratios |= {f"{TITLES[n]}, {megabytes} MB (%)": 100.0 * deviation[n] / mean[n] for n in ALGORITHMS}
        return Measured(float(np.median(list(ratios.values()))), ratios)

    return measure


def below_wired(data: Data, seed: int) -> Measured:
    """Throughput on Eduroam over that on the wire, mean of the algorithms, the larger of the sizes."""
    ratios = {}
    for megabytes in NETWORKS["eduroam"].sizes:
        here, there = (throughput(data, seed, name, megabytes) for name in ("eduroam", "university"))
        ratios[f"{megabytes} MB"] = fmean(here.values()) / fmean(there.values())
    return Measured(max(ratios.values()), ratios)


def rtt_over(network: str, algorithm: str, megabytes: int = LARGE) -> Measure:
    """Mean RTT of one over the largest of the others'."""

    def measure(data: Data, seed: int) -> Measured:
        mean = rtts(data, seed, network, megabytes)
        return Measured(mean[algorithm] / max(_rest(mean, algorithm)), _parts(mean, "ms"))

    return measure


def westwood_queues(data: Data, seed: int) -> Measured:
    """What Westwood adds to the RTT over the most that another adds, the lesser of the two ADSL networks."""
    ratios = {}
    for network in ("adsl", "adsl-wifi"):
        mean, idle = rtts(data, seed, network, LARGE), idle_ms(data, seed, network)
        added = {name: max(value - idle, 1e-3) for name, value in mean.items()}
        ratios[TITLES[network]] = added["westwood"] / max(_rest(added, "westwood"))
    return Measured(min(ratios.values()), ratios)


def leaders_rtt(data: Data, seed: int) -> Measured:
    """The larger of CUBIC's and Hybla's mean RTT on wired ADSL over Westwood's."""
    mean = rtts(data, seed, "adsl", LARGE)
    return Measured(max(mean[name] for name in LEADERS) / mean["westwood"], _parts(mean, "ms"))


def retained(data: Data, seed: int, network: str) -> dict[str, float]:
    """Throughput beside CUBIC over that alone, for each rival."""
    alone = throughput(data, seed, network, NETWORKS[network].pair_mb)
    return {name: pair_rates(data, seed, network, name)[1] / alone[name] for name in RIVALS}


def westwood_retains(network: str) -> Measure:
    """What Westwood keeps of its throughput beside CUBIC over the least that Veno or Hybla keep."""

    def measure(data: Data, seed: int) -> Measured:
        kept = retained(data, seed, network)
        return Measured(kept["westwood"] / min(_rest(kept, "westwood")), _parts(kept, "kept"))

    return measure


def westwood_retains_least(data: Data, seed: int) -> Measured:
    """Networks on which Westwood keeps the least of its throughput beside CUBIC, within 5 %."""
    count, parts = 0, {}
    for network in NETWORKS:
        kept = retained(data, seed, network)
        parts[TITLES[network]] = kept["westwood"] / min(_rest(kept, "westwood"))
        count += parts[TITLES[network]] <= 1.05
    return Measured(float(count), parts)


def ratio(network: str, megabytes: int, above: str, below: str, what: str = "mbps") -> Measure:
    """One's throughput, or mean RTT, over another's."""

    def measure(data: Data, seed: int) -> Measured:
        found = throughput(data, seed, network, megabytes) if what == "mbps" else rtts(data, seed, network, megabytes)
        unit = "Mbit/s" if what == "mbps" else "ms"
        return Measured(found[above] / found[below], _parts(found, unit))

    return measure


def no_benefit(data: Data, seed: int) -> Measured:
    """The lower of Veno's and Westwood's mean RTT on 3G over the lower of CUBIC's and Hybla's."""
    mean = rtts(data, seed, "3g", SMALL)
    return Measured(min(mean[n] for n in MODIFIED) / min(mean[n] for n in LEADERS), _parts(mean, "ms"))


def idle_rtt(network: str, less: str | None = None) -> Measure:
    """Mean RTT of pings, or what it is above another network's."""

    def measure(data: Data, seed: int) -> Measured:
        return Measured(idle_ms(data, seed, network) - (idle_ms(data, seed, less) if less else 0.0))

    return measure


def loaded_rtt(algorithm: str) -> Measure:
    """Mean RTT of an algorithm on 3G."""

    def measure(data: Data, seed: int) -> Measured:
        mean, deviation = (rtts(data, seed, "3g", SMALL, what) for what in ("rtt_ms", "sd_ms"))
        return Measured(mean[algorithm], {"deviation (ms)": deviation[algorithm]})

    return measure


def queueing_3g(choose: Callable[[Iterable[float]], float]) -> Measure:
    """Least or most of what the algorithms add to the idle RTT on 3G."""

    def measure(data: Data, seed: int) -> Measured:
        mean, idle = rtts(data, seed, "3g", SMALL), idle_ms(data, seed, "3g")
        added = {name: value - idle for name, value in mean.items()}
        return Measured(choose(added.values()), _parts(added, "added ms"))

    return measure


def all_delayed_on_3g(data: Data, seed: int) -> Measured:
    """Least mean RTT on 3G over the idle one."""
    mean, idle = rtts(data, seed, "3g", SMALL), idle_ms(data, seed, "3g")
    return Measured(min(mean.values()) / idle, _parts(mean, "ms"))


def call_jitter(network: str, algorithm: str) -> Measure:
    """Jitter of the calls as iperf reports it, mean of calls and runs, in ms."""

    def measure(data: Data, seed: int) -> Measured:
        value = calls(data, seed, network)["jitter_ms"][algorithm]
        return Measured(NAN if value is None else float(value))

    return measure


def more_jitter(network: str, algorithm: str, base: str) -> Measure:
    """Jitter of the calls beside one algorithm over that beside another, less one, in per cent."""

    def measure(data: Data, seed: int) -> Measured:
        jitter = calls(data, seed, network)["jitter_ms"]
        if not jitter[base] or jitter[algorithm] is None:
            return Measured(NAN)
        here, there = float(jitter[algorithm]), float(jitter[base])
        return Measured(100.0 * (here / there - 1.0), {"jitter (ms)": here})

    return measure


def losses(data: Data, seed: int, network: str) -> dict[str, float]:
    """Packets of the calls that were lost beside each algorithm, in per cent."""
    found = calls(data, seed, network)
    if not all(found["sent"].values()):
        raise NotRun(f"calls, {network}")
    return {name: 100.0 * found["lost"][name] / found["sent"][name] for name in ALGORITHMS}


def call_loss(network: str, algorithm: str) -> Measure:
    """Loss of the calls in per cent."""

    def measure(data: Data, seed: int) -> Measured:
        found, share = calls(data, seed, network), losses(data, seed, network)
        counts = {"lost": float(found["lost"][algorithm]), "of": float(found["sent"][algorithm])}
        return Measured(share[algorithm], counts)

    return measure


def wifi_jitter_higher(data: Data, seed: int) -> Measured:
    """Jitter of the calls on WiFi over that on the wire, the least of the algorithms."""
    wire, air = (calls(data, seed, name) for name in ("university", "eduroam"))
    ratios = {name: air["jitter_ms"][name] / wire["jitter_ms"][name] for name in ALGORITHMS}
    return Measured(min(ratios.values()), _parts(ratios, "×"))


def wifi_loss_higher(data: Data, seed: int) -> Measured:
    """Algorithms beside which calls lose more on WiFi than on the wire."""
    wire, air = (losses(data, seed, name) for name in ("university", "eduroam"))
    return Measured(float(sum(air[name] > wire[name] for name in ALGORITHMS)), _parts(air, "% on WiFi"))


def calls_acceptable(data: Data, seed: int) -> Measured:
    """Largest share of what is acceptable that jitter (30 ms) or loss (1 %) reach, in per cent."""
    worst: dict[str, float] = {}
    for network in ("university", "eduroam"):
        found, share = calls(data, seed, network), losses(data, seed, network)
        worst[f"jitter, {TITLES[network]} (%)"] = 100.0 * max(found["jitter_ms"].values()) / JITTER_LIMIT_MS
        worst[f"loss, {TITLES[network]} (%)"] = 100.0 * max(share.values()) / LOSS_LIMIT
    return Measured(max(worst.values()), worst)


def _everywhere(data: Data, seed: int, networks: Iterable[str]) -> dict[str, dict[str, float]]:
    found = {}
    for network in networks:
        for megabytes in NETWORKS[network].sizes:
            rates = throughput(data, seed, network, megabytes)
            found[f"{TITLES[network]}, {megabytes} MB"] = rates
    return found


def leaders_ahead(networks: Iterable[str]) -> Measure:
    """Share of (network, size) in which CUBIC's and Hybla's mean is above Veno's and Westwood's, in per cent."""

    def measure(data: Data, seed: int) -> Measured:
        found = _everywhere(data, seed, networks)
        parts = {
            f"{name} (×)": fmean(rates[n] for n in LEADERS) / fmean(rates[n] for n in MODIFIED)
            for name, rates in found.items()
        }
        return Measured(100.0 * fmean(value > 1.0 for value in parts.values()), parts)

    return measure


def leaders_similar(data: Data, seed: int) -> Measured:
    """Least over (network, size) of the lower over the higher of CUBIC's and Hybla's throughput."""
    found = _everywhere(data, seed, NETWORKS)
    parts = {f"{name}: CUBIC over Hybla": rates["cubic"] / rates["hybla"] for name, rates in found.items()}
    return Measured(min(min(value, 1.0 / value) for value in parts.values()), parts)


def veno_poorest(data: Data, seed: int) -> Measured:
    """Share of (network, size) in which Veno is slower than all others by more than 5 %, in per cent."""
    found = _everywhere(data, seed, NETWORKS)
    parts = {f"{name}: Veno over the slowest other": r["veno"] / min(_rest(r, "veno")) for name, r in found.items()}
    return Measured(100.0 * fmean(value < 0.95 for value in parts.values()), parts)
