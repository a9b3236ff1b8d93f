"""What every test may rely on."""

import signal
from pathlib import Path

import pytest

# Folders whose tests run real kernels by the machine's clock.
TIMED = {Path(__file__).parent / "live", Path(__file__).parent / "vm"}


def pytest_configure() -> None:
    """Let Ctrl-C arrive: a shell starts background jobs, and so all that they start, with it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run a failed test of a real kernel up to twice more; the summary names each rerun.

    Tests share their machine with each other. A busy machine disturbs one run or two; a difference between the kernel
    and the simulator disturbs every run.
    """
    for item in items:
        if item.path.parent in TIMED:
            item.add_marker(pytest.mark.flaky(reruns=2))
