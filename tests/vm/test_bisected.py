"""The first kernel on which a condition fails."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from test_modules import path

from tailback import vm
from tailback.errors import TailbackError
from tailback.vm import bisected
from tailback.vm.bisected import Seen, between, bisect, tried_on
from tailback.vm.debian import KernelError, Package

IMAGES = [
    Package(f"linux-image-{point}-cloud-amd64", "1")
    for point in ("6.1.0-55", "6.1.0-56", "6.12.95+deb12", "6.12.100+deb12", "7.2.6+deb13", "7.3.4+deb13")
]
NAMES = between("debian-6.1.0-55", "debian-7.3", IMAGES)


def kernels(first_bad: int, broken: tuple[int, ...] = ()) -> tuple[Callable[[str], Seen | str], list[str]]:
    tried: list[str] = []

    def attempt(name: str) -> Seen | str:
        tried.append(name)
        number = NAMES.index(name)
        return "it does not boot" if number in broken else Seen(name, "", number < first_bad, {"x": float(number)})

    return attempt, tried


def test_the_kernels_between_are_in_order_and_in_both_directions() -> None:
    assert [f"debian-{p}" for p in ("6.1.0-55", "6.1.0-56", "6.12.95", "6.12.100", "7.2.6", "7.3.4")] == NAMES
    assert between("debian-7.3", "debian-6.1", IMAGES) == NAMES[:0:-1]
    with pytest.raises(KernelError, match="are the same kernel"):
        between("debian-7.3", "debian-7.3.4", IMAGES)
    with pytest.raises(KernelError, match=r"BAD = debian-5\.10: no such kernel.*--list"):
        between("debian-7.3", "debian-5.10", IMAGES)


@pytest.mark.parametrize("first_bad", range(1, 6))
def test_the_first_bad_kernel_is_found_and_none_is_run_twice(first_bad: int) -> None:
    attempt, tried = kernels(first_bad)
    found = bisect(NAMES, attempt)
    assert (found.good.kernel, found.bad.kernel) == (NAMES[first_bad - 1], NAMES[first_bad])
    assert found.unknown == ()
    assert len(tried) == len(set(tried)) <= 5


def test_what_does_not_boot_is_skipped_and_left_open() -> None:
    found = bisect(NAMES, kernels(3, broken=(2, 3))[0])
    assert (found.good.kernel, found.bad.kernel) == (NAMES[1], NAMES[4])
    assert found.unknown == (NAMES[2], NAMES[3])
    assert found.skipped[NAMES[3]] == "it does not boot"


def test_ends_that_are_alike_are_refused() -> None:
    for first_bad, problem in [(9, "BAD = .* holds there"), (0, "GOOD = .* does not hold there")]:
        with pytest.raises(TailbackError, match=problem):
            bisect(NAMES, kernels(first_bad)[0])


def test_a_kernel_on_which_a_program_fails_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = "flow one: its client ended with status 7"

    class Failed:
        failed_programs = (failed,)

    monkeypatch.setattr(bisected, "_fetched", lambda name: SimpleNamespace(name=name, release="6.1"))
    monkeypatch.setattr(vm, "run", lambda what, **how: Failed())
    assert tried_on(path("cubic"), "bulk.goodput_mbps > 3")("debian-6.1") == failed


def test_a_condition_is_read_before_any_kernel_is_fetched() -> None:
    with pytest.raises(TailbackError, match=r'--expect "bulk\.goodputt_mbps > 3"'):
        tried_on(path("cubic"), "bulk.goodputt_mbps > 3")
