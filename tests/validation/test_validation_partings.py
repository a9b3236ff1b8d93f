"""Where a kernel first parts from the simulator: what counts as parting, and what stands for the kernel's chance."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tailback as tb
from tailback_validation import partings, sampled


def flow(sent: list[float], sizes: list[int] | None = None, fates: list[int] | None = None) -> dict[str, Any]:
    return {
        "sent_s": np.array(sent),
        "bytes": np.array(sizes or [1500] * len(sent)),
        "fate": np.array(fates or [0] * len(sent)),
    }


PLAIN = flow([1.0, 1.01, 1.02])


@pytest.mark.parametrize(
    ("other", "packet", "how"),
    [
        (flow([2.0, 2.0108, 2.02]), None, ""),
        (flow([2.0, 2.0101, 2.0215]), 2, "time"),
        (flow([2.0, 2.01, 2.02], sizes=[1500, 468, 1500]), 1, "size"),
        (flow([2.0, 2.01, 2.02], fates=[0, 1, 0]), 1, "fate"),
        # A short segment leaves at another time because it is another segment.
        (flow([2.0, 2.015, 2.02], sizes=[1500, 468, 1500]), 1, "size"),
        # What only one of them sends is not compared.
        (flow([2.0, 2.01]), None, ""),
    ],
)
def test_packets_part_by_time_size_or_fate(other: dict[str, Any], packet: int | None, how: str) -> None:
    assert partings.compare(PLAIN, other)[:2] == (packet, how)


def test_the_first_flow_to_part_counts_and_its_lateness_before() -> None:
    ours = {0: PLAIN, 1: flow([3.0, 3.1, 3.2])}
    late = flow([2.0, 2.0103, 2.022])
    found = partings.first_parting(ours, {0: late, 1: flow([4.0, 4.3, 4.4])})
    assert found is not None
    at_s, packet, how, lateness = found
    assert (at_s, packet, how) == (1.02, 2, "time")
    assert lateness == pytest.approx([0, 0.0003])
    assert partings.first_parting(ours, ours) is None


def test_a_run_of_the_model_itself_does_not_part_and_one_of_another_model_does() -> None:
    cell = replace(sampled.design(1)[0], traffic="two")
    stack = sampled.stack_of("debian-6.1")
    same = tb.run(partings.recorded(cell, stack))
    same.meta["kernel"] = {"release": "none"}
    assert partings.parting_of(cell, same, stack) is None
    other = tb.run(partings.recorded(replace(cell, algorithm="scalable"), stack))
    other.meta["kernel"] = {"release": "none"}
    found = partings.parting_of(cell, other, stack)
    # Another algorithm parts before phase does.
    assert found is not None
    assert not found.is_own


def test_the_stored_partings_are_those_of_the_page() -> None:
    found = partings.rows("debian-6.1")
    text = partings.PAGE.read_text()
    earlier = [parting for parting in found if not parting.is_own]
    assert earlier
    assert all(f"| {parting.cell}: " in text for parting in earlier)
    assert set(partings.EXPLAINED) <= {parting.cell for parting in earlier}, "what is explained parts earlier"
