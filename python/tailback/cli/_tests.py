"""Tests that `tailback run --as` makes on a scenario's path, and their printed results."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.table import Table

from tailback.cli._common import BadInput, console, say, unknown
from tailback.lazy import lazy
from tailback.numbers import written

with lazy():
    from tailback import responsiveness

#: Values of `--as`.
TESTS = ("responsiveness",)


def made(scenario: Any, test: str | None, client: str | None) -> Any:
    """The test's scenario in place of the given one; the given one without a test."""
    if test is None:
        if client is not None:
            raise BadInput("--client says which end is tested, but no test is selected. Add --as responsiveness")
        return scenario
    if test not in TESTS:
        raise BadInput(unknown("test", test, TESTS))

    return responsiveness.scenario(scenario, client=client)


def numbers(result: Any, test: str | None) -> dict[str, Any]:
    """A test's numbers, for JSON; empty without a test."""
    if test is None:
        return {}

    return {test: responsiveness.numbers(result).as_dict()}


def show(result: Any, test: str | None) -> None:
    """Print a result's summary or, for a test, the numbers of several operators' tests."""
    if test is None:
        console().print(result)
        return

    found = responsiveness.numbers(result)

    def ms(value: float) -> str:
        return f"{written(value, 3)} ms"

    table = Table(box=None, pad_edge=False)
    for column in ("test", "says", "because"):
        table.add_column(column, overflow="fold")
    table.add_row(
        "RPM (IETF draft)",
        f"{written(found.rpm, 3)} RPM",
        f"new connections {written(found.rpm_separate, 3)}, loaded ones {written(found.rpm_loaded, 3)}; "
        f"idle {written(found.rpm_idle, 3)}; confidence {found.confidence}",
    )
    table.add_row(
        "Waveform's grade",
        found.bufferbloat_grade or "-",
        f"idle {ms(found.idle_mean_ms)}, down {ms(found.download_mean_ms)}, up {ms(found.upload_mean_ms)} (means)",
    )
    table.add_row(
        "Ookla's latencies",
        f"{ms(found.idle_ms)}, {ms(found.download_ms)}, {ms(found.upload_ms)}",
        "idle, download, upload: interquartile means",
    )
    table.add_row(
        "LibreQoS's grade",
        found.libreqos_grade or "-",
        f"as Waveform's row, both directions {ms(found.both_mean_ms)}; stricter bounds",
    )
    table.add_row(
        "speed",
        f"{written(found.download_mbps, 3)} / {written(found.upload_mbps, 3)} Mbit/s",
        "goodput down and up, one direction at a time",
    )
    console().print(table)
    say(f"tested from {escape(found.client)}; another end: --client. Why they differ: docs/responsiveness.md")
