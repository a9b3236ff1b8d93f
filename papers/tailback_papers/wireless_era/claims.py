"""Every number and claim of the paper; which rules were changed after first results is in `standings`.

A printed number counts as reproduced within ±25 % (the paths were the Internet's), as partly reproduced within ±50 %.
An order is one beyond a tie band of 5 %, and partly reproduced within it; “clearly” means 10 %, “significantly” 20 %
for RTTs and 10 % for throughputs. Where the paper speaks of a network without a size, the worse of 1 and 20 MB counts.
"""

from __future__ import annotations

from tailback.experiment import AtLeast, AtMost, Claim, Near, Rule, Within, with_standings

from . import measures as m
from .grid import ALGORITHMS, LARGE, RIVALS, SMALL, TITLES, WIRED, WIRELESS
from .reasons import REASONS
from .standings import REDEFINED, STANDINGS

NEAR, LOOSE = 0.25, 0.50
TIE = 0.05
AHEAD, BEHIND = AtLeast(1.0 + TIE, 1.0 - TIE), AtMost(1.0 - TIE, 1.0 + TIE)
NOT_LOWER = AtLeast(1.0, 1.0 - TIE)
"""For what is said to be no less: a tie will do."""
MORE, LESS = AtLeast(51.2, 48.8), AtMost(48.8, 51.2)
"""Shares that are 5 % apart, or no more than that."""

PRINTED = {
    "university": ("Table I", {"cubic": 0.3813, "veno": 0.4559, "westwood": 0.5020, "hybla": 0.412},
                   {"cubic": 0.000302, "veno": 0.000042, "westwood": 0.000120, "hybla": 0.000065}),
    "eduroam": ("Table II", {"cubic": 3.80, "veno": 2.93, "westwood": 5.15, "hybla": 4.28},
                {"cubic": 0.014, "veno": 0.018, "westwood": 0.014, "hybla": 0.011}),
}  # fmt: skip
"""Jitter in ms and loss in per cent of five calls beside a download of 20 MB, as the tables print them."""


def _claim(
    name: str,
    text: str,
    where: str,
    paper: str,
    unit: str,
    definition: str,
    measure: m.Measure,
    rule: Rule,
    figure: str,
) -> Claim:
    kind = "quantitative" if "-Q" in name else "qualitative"
    return Claim(name, text, kind, paper, unit, definition, measure, rule, figure, where, why=REASONS.get(name, ""))


def _tables() -> list[Claim]:
    claims = []
    rows = (("003-Q1", "003-Q2", "university"), ("003-Q3", "003-Q4", "eduroam"))
    for jitters, losses, network in rows:
        where, jitter, loss = PRINTED[network]
        for prefix, printed, what, unit, definition, measure in (
            (jitters, jitter, "jitter", " ms", "RFC 3550's estimate at the end of a download, mean of calls and runs",
             m.call_jitter),
            (losses, loss, "loss", " %", "packets lost while downloads ran", m.call_loss),
        ):  # fmt: skip
            claims += [
                _more_jitter(f"{prefix}{letter}", network, algorithm, printed, definition)
                if what == "jitter" and algorithm != ALGORITHMS[0] else
                _claim(
                    f"{prefix}{letter}", f"{TITLES[network]}: {what} of calls beside {TITLES[algorithm]}", where,
                    f"{printed[algorithm]:g}{unit}", unit, definition, measure(network, algorithm),
                    Near(printed[algorithm], NEAR, LOOSE), "calls",
                )
                for letter, algorithm in zip("abcd", ALGORITHMS, strict=True)
            ]  # fmt: skip
    return claims


def _more_jitter(name: str, network: str, algorithm: str, printed: dict[str, float], definition: str) -> Claim:
    """A parameter sets the jitter beside CUBIC, and with it that beside all; what is left is their differences."""
    base = ALGORITHMS[0]
    more = 100.0 * (printed[algorithm] / printed[base] - 1.0)
    return _claim(
        name, f"{TITLES[network]}: jitter of calls beside {TITLES[algorithm]}, more than beside {TITLES[base]}",
        PRINTED[network][0], f"{more:+.1f} % ({printed[algorithm]:g} ms)", " %",
        f"{definition}, over that beside {TITLES[base]}, less one", m.more_jitter(network, algorithm, base),
        Near(more, NEAR, LOOSE), "calls",
    )  # fmt: skip


def _shares(prefix: str, letters: str, network: str, where: str, rivals: tuple[str, ...] = RIVALS) -> list[Claim]:
    return [
        _claim(
            f"{prefix}{letter}", f"{TITLES[network]}: CUBIC gets the greater share beside {TITLES[rival]}", where,
            "> 50 %", " %", "CUBIC's mean throughput over the sum of both", m.cubic_share(network, rival), MORE,
            network,
        )
        for letter, rival in zip(letters, rivals, strict=True)
    ]  # fmt: skip


def _loaded() -> list[Claim]:
    return [
        _claim(
            f"003-Q7{letter}", f"3G: {TITLES[algorithm]}'s RTT while it transfers 1 MB", "Abstract, III-E",
            "500–700 ms", " ms", "mean of the RTTs by Karn's rule", m.loaded_rtt(algorithm),
            Within(500.0, 700.0, 375.0, 875.0), "3g",
        )
        for letter, algorithm in zip("abcd", ALGORITHMS, strict=True)
    ]  # fmt: skip


_BEST = "throughput over the highest of the others', the lesser of the sizes"
_BELOW = "the faster of the two over the slower of CUBIC and Hybla, the larger of the sizes"
_MEAN_RTT = "ratio of mean RTTs, 20 MB"

_CLAIMS = [
    *_tables(),
    _claim(
        "003-Q5", "An ICMP echo takes about 54 ms from Singapore to Perth, unloaded", "II-A", "54 ms", " ms",
        "mean of pings, wired university", m.idle_rtt("university"), Near(54.0, 0.05, 0.10), "university",
    ),
    _claim(
        "003-Q6a", "3G: ICMP reports 130 ms", "III-E", "130 ms", " ms", "mean of pings", m.idle_rtt("3g"),
        Near(130.0, 0.05, 0.10), "3g",
    ),
    _claim(
        "003-Q6b", "3G adds 76 ms to the idle RTT", "III-E", "76 ms", " ms", "mean of pings less that on the wire",
        m.idle_rtt("3g", less="university"), Near(76.0, 0.10, 0.20), "3g",
    ),
    *_loaded(),
    _claim(
        "003-Q8a", "3G: queueing adds at least 370 ms", "Abstract, III-E, V", "370 ms", " ms",
        "the least that an algorithm's mean RTT is above the idle one", m.queueing_3g(min), Near(370.0, NEAR, LOOSE),
        "queue-3g",
    ),
    _claim(
        "003-Q8b", "3G: queueing adds up to 570 ms", "Abstract, III-E, V", "570 ms", " ms",
        "the most that an algorithm's mean RTT is above the idle one", m.queueing_3g(max), Near(570.0, NEAR, LOOSE),
        "queue-3g",
    ),
    _claim(
        "003-L1a", "University, wired: CUBIC provides the highest throughputs", "III-A", "highest", "×", _BEST,
        m.leads("university", "cubic"), AHEAD, "university",
    ),
    _claim(
        "003-L1b", "University, wired: Westwood offers the lowest performance", "III-A", "lowest", "×",
        "throughput over the lowest of the others', the larger of the sizes", m.trails("university", "westwood"),
        BEHIND, "university",
    ),
    _claim(
        "003-L1c", "University, wired: RTTs and their deviations are small in all cases", "III-A", "small", "×",
        "largest mean plus deviation of RTT over the idle RTT", m.wired_rtts_small, AtMost(1.25, 1.5), "university",
    ),
    *_shares("003-L1", "def", "university", "III-A"),
    _claim(
        "003-L1g", "University, wired: Westwood performs very poorly", "III-C", "very poorly", "×",
        "Westwood's throughput over CUBIC's, 20 MB", m.ratio("university", LARGE, "westwood", "cubic"),
        AtMost(0.8, 1.0 - TIE), "university",
    ),
    _claim(
        "003-L2a", "Eduroam: CUBIC and Hybla provide similar throughput", "III-B", "similar", "×",
        "lower over higher, the lesser of the sizes", m.alike("eduroam"), AtLeast(1.0 - TIE, 0.85), "eduroam",
    ),
    _claim(
        "003-L2b", "Eduroam: Veno and Westwood are clearly slower", "III-B", "clearly", "×", _BELOW,
        m.slower("eduroam"), AtMost(0.9, 1.0), "eduroam",
    ),
    _claim(
        "003-L2c", "Eduroam: much larger deviations of RTT than on the wire", "III-B", "much larger", "×",
        "deviation over that on the wire, the least of algorithms and sizes",
        m.larger_deviations("eduroam", "university"), AtLeast(2.0, 1.2), "eduroam",
    ),
    _claim(
        "003-L2d", "Eduroam: average throughput is less than on the wire", "III-B", "less", "×",
        "mean of the algorithms over that on the wire, the larger of the sizes", m.below_wired, AtMost(1.0 - TIE, 1.0),
        "eduroam",
    ),
    *_shares("003-L2", "efg", "eduroam", "III-B"),
    _claim(
        "003-L3a", "ADSL, wired: Westwood offers the highest throughput, 1 MB", "III-C", "highest", "×",
        "throughput over the highest of the others'", m.leads("adsl", "westwood", SMALL), AHEAD, "adsl",
    ),
    _claim(
        "003-L3b", "ADSL, wired: Westwood offers the highest throughput, 20 MB", "III-C", "highest", "×",
        "throughput over the highest of the others'", m.leads("adsl", "westwood", LARGE), AHEAD, "adsl",
    ),
    _claim(
        "003-L3c", "ADSL, wired: Westwood has a significantly higher average RTT", "III-C", "significantly", "×",
        _MEAN_RTT + ", over the largest of the others", m.rtt_over("adsl", "westwood"), AtLeast(1.2, 1.0), "adsl",
    ),
    _claim(
        "003-L3d", "ADSL, wired: CUBIC is second in throughput", "III-C", "second", "×",
        "CUBIC's over the higher of Hybla's and Veno's, the lesser of the sizes",
        m.over("adsl", "cubic", "hybla", "veno"), AHEAD, "adsl",
    ),
    _claim(
        "003-L3e", "ADSL, wired: Hybla is third in throughput", "III-C", "third", "×",
        "Hybla's over Veno's, the lesser of the sizes", m.over("adsl", "hybla", "veno"), AHEAD, "adsl",
    ),
    _claim(
        "003-L3f", "ADSL, wired: CUBIC and Hybla have correspondingly lower RTTs", "III-C", "lower", "×",
        "the larger of their mean RTTs over Westwood's, 20 MB", m.leaders_rtt, AtMost(1.0 - TIE, 1.0), "adsl",
    ),
    *_shares("003-L3", "gh", "adsl", "III-C", ("veno", "westwood")),
    _claim(
        "003-L3i", "ADSL, wired: CUBIC does not get the greater share beside Hybla", "III-C", "≤ 50 %", " %",
        "CUBIC's mean throughput over the sum of both", m.cubic_share("adsl", "hybla"), LESS, "adsl",
    ),
    _claim(
        "003-L4a", "ADSL WiFi: Westwood offers the highest throughputs", "III-D", "highest", "×", _BEST,
        m.leads("adsl-wifi", "westwood"), AHEAD, "adsl-wifi",
    ),
    _claim(
        "003-L4b", "ADSL WiFi: alone, Westwood's throughput is significantly higher", "III-D", "significantly", "×",
        _BEST, m.leads("adsl-wifi", "westwood"), AtLeast(1.1, 1.0), "adsl-wifi",
    ),
    _claim(
        "003-L4c", "ADSL WiFi: large variations in the RTT", "III-D", "large", " %",
        "deviation over mean of RTT, median of algorithms and sizes", m.relative_deviation("adsl-wifi"),
        AtLeast(20.0, 10.0), "adsl-wifi",
    ),
    _claim(
        "003-L4d", "ADSL WiFi: Westwood slows disproportionately beside CUBIC", "III-D", "disproportionately", "×",
        "share of its throughput it keeps over the least that Veno or Hybla keep", m.westwood_retains("adsl-wifi"),
        BEHIND, "retained",
    ),
    _claim(
        "003-L4e", "That Westwood slows disproportionately beside CUBIC is present in all tests", "III-D", "5 networks",
        " networks", "networks on which it keeps the least of its throughput, within 5 %", m.westwood_retains_least,
        AtLeast(5.0, 3.0), "retained",
    ),
    _claim(
        "003-L5a", "3G: Hybla offers the highest throughput", "III-E", "highest", "×", _BEST, m.leads("3g", "hybla"),
        AHEAD, "3g",
    ),
    _claim(
        "003-L5b", "3G: CUBIC's throughput is slightly lower than Hybla's", "III-E", "slightly lower", "×",
        "ratio of throughputs", m.ratio("3g", SMALL, "cubic", "hybla"), Within(0.85, 1.0, 0.75, 1.0 + TIE), "3g",
    ),
    _claim(
        "003-L5c", "3G: CUBIC's delay is lower than Hybla's", "III-E", "lower", "×", "ratio of mean RTTs",
        m.ratio("3g", SMALL, "cubic", "hybla", "rtt"), AtMost(1.0 - TIE, 1.0), "3g",
    ),
    _claim(
        "003-L5d", "3G: Veno and Westwood perform poorly in throughput", "III-E", "poorly", "×", _BELOW,
        m.slower("3g"), AtMost(0.9, 1.0), "3g",
    ),
    _claim(
        "003-L5e", "3G: Veno and Westwood have no benefit in latency", "III-E", "none", "×",
        "the lower of their mean RTTs over the lower of CUBIC's and Hybla's", m.no_benefit, NOT_LOWER, "3g",
    ),
    _claim(
        "003-L6a", "WiFi introduces higher jitter to calls", "IV", "6.4–10.4×", "×",
        "jitter over that on the wire, the least of the algorithms", m.wifi_jitter_higher, AtLeast(2.0, 1.0), "calls",
    ),
    _claim(
        "003-L6b", "WiFi introduces higher losses to calls", "IV", "4 algorithms", " algorithms",
        "algorithms beside which calls lose more than on the wire", m.wifi_loss_higher, AtLeast(4.0, 3.0), "calls",
    ),
    _claim(
        "003-L6c", "In all cases loss and jitter of calls are well within what is acceptable", "IV, V", "well within",
        " %", "largest share of 30 ms of jitter or 1 % of loss that is reached", m.calls_acceptable,
        AtMost(50.0, 100.0), "calls",
    ),
    _claim(
        "003-L7a", "Wired: CUBIC and Hybla are generally more successful than Veno and Westwood", "Abstract, V",
        "generally", " %", "share of networks and sizes in which the mean of the two is higher",
        m.leaders_ahead(WIRED), AtLeast(70.0, 50.0), "ranks",
    ),
    _claim(
        "003-L7b", "Wireless: CUBIC and Hybla are generally more successful than Veno and Westwood", "Abstract, V",
        "generally", " %", "share of networks and sizes in which the mean of the two is higher",
        m.leaders_ahead(WIRELESS), AtLeast(70.0, 50.0), "ranks",
    ),
    _claim(
        "003-L7c", "CUBIC and Hybla perform similarly", "Abstract", "similarly", "×",
        "lower over higher throughput, the least of networks and sizes", m.leaders_similar, AtLeast(0.9, 0.8),
        "ranks",
    ),
    _claim(
        "003-L7d", "Veno is consistently the most poorly performing algorithm", "V", "consistently", " %",
        "share of networks and sizes in which it is slower than all others by over 5 %", m.veno_poorest,
        AtLeast(70.0, 50.0), "ranks",
    ),
    _claim(
        "003-L7e", "In isolation Westwood builds large queues, leading to large RTTs", "V", "large", "×",
        "what it adds to the RTT over the most that another adds, the lesser of the ADSL networks", m.westwood_queues,
        AtLeast(1.2, 1.0), "adsl",
    ),
    _claim(
        "003-L7f", "All algorithms introduce large delays on 3G", "III-E, V", "3.8–5.4×", "×",
        "least mean RTT over the idle one", m.all_delayed_on_3g, AtLeast(3.0, 2.0), "queue-3g",
    ),
]  # fmt: skip

CLAIMS = with_standings(_CLAIMS, STANDINGS, REDEFINED)
