"""Which of the paper's claims are evidence here: parameters were fitted to some, and with CUBIC in view."""

from __future__ import annotations

from tailback.experiment import Standing, fitted, untestable

_CUBIC = fitted("The preset was chosen with CUBIC's value in view as well as NewReno's.")
STANDINGS: dict[str, Standing] = {
    "001-Q1a": fitted("The tunnel's send buffer was chosen for it among FreeBSD's defaults."),
    "001-Q2d": fitted("The losses on the Internet were fitted to it."),
    "001-Q3": fitted("It follows from Vegas' rate, to which the losses on the Internet were fitted."),
    "001-Q4a": fitted("HomePlug's payload and the adapters' queue were fitted to it."),
    "001-Q4b": _CUBIC,
    "001-Q6a": fitted("The interface's queue was fitted to it."),
    "001-Q6b": _CUBIC,
    "001-Q7a": fitted("Rate and slots were fitted to it."),
    "001-Q7b": _CUBIC,
    "001-Q8": untestable(
        "The paper contradicts itself: 40 MB at its own 31 to 36 Mbit/s take 9 to 10 s, and 4 MB at 1.25 Mbit/s 26 s."
    ),
}
REDEFINED: dict[str, str] = {}

CHOSEN = (
    "ADSL1: the tunnel's send buffer, 32 KiB of three defaults, with NewReno's RTT in view.",
    "ADSL1: the share of packets lost on the Internet, by a rule written before, to Vegas' throughput; Vegas' RTT had "
    "been seen. The paper names such losses and gives no rate.",
    "HomePlug and 802.11g: payload, queues and rate, with the values of NewReno and CUBIC in view.",
)
