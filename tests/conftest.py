"""What every test may rely on."""

import os
import signal
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

import command
from workers import kept_together

#: Seconds of processor time that a test may take, with what it starts and waits for. A busy machine does not change it
#: much; what takes longer is marked long, or made shorter.
MOST_CPU_S = 60.0

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


class Together(LoadScopeScheduling):
    """Tests that share what their file makes once go to one worker; every other goes to the next that is free.

    pytest-xdist's own groups go by an end of the test's name, which pytest 9.2 no longer lets it change.
    """

    def _split_scope(self, nodeid: str) -> str:
        return kept_together(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    """How several workers share the tests."""
    return Together(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """How many `-n auto` starts: one more than there are cores, for the worker with live runs mostly waits."""
    return (os.cpu_count() or 1) + 1


def over_budget(seconds: float, is_long: bool) -> str | None:
    """Why a test fails that takes too long."""
    if is_long or seconds <= MOST_CPU_S:
        return None
    return (
        f"it took {seconds:.0f} s of processor time, and a test may take {MOST_CPU_S:.0f}: shorten it, or mark it long"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that takes more processor time than it may."""
    before = sum(os.times()[:4])
    result = yield
    said = over_budget(sum(os.times()[:4]) - before, item.get_closest_marker("long") is not None)
    if said is not None:
        pytest.fail(said, pytrace=False)
    return result


@pytest.fixture
def tailback(monkeypatch: pytest.MonkeyPatch) -> Callable[..., command.Ran]:
    """The command, called in this process and on no runner of GitHub's."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    return command.tailback
