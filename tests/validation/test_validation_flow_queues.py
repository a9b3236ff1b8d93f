"""The models of flow queues against the kernel's: the cells, and that the page is today's."""

import pytest

from tailback_validation import flow_queues as flow
from tailback_validation.cake import nulls

KERNEL = "debian-6.1"


def test_every_cell_is_a_scenario_and_its_runs_differ_by_queue_and_stack_alone() -> None:
    cells = flow.cells()
    assert len({cell.name for cell in cells}) == len(cells) == 12 * len(flow.DISCIPLINES)
    for name in flow.DISCIPLINES:
        assert sum(cell.discipline == name for cell in cells) == 12
    for cell in cells:
        model, kernel = (cell.scenario(of).resolve(live=not of) for of in (KERNEL, ""))
        assert kernel["links"][0]["queue"]["discipline"] == f"kernel:{cell.discipline}"
        alike = kernel["links"][0]["queue"]["params"] | flow.OF_MODEL.get(cell.discipline, {})
        assert alike == model["links"][0]["queue"]["params"]
        senders = [
            [flow | {"tcp": flow["tcp"] and flow["tcp"]["cc"]} for flow in resolved["flows"]]
            for resolved in (kernel, model)
        ]
        assert senders[0] == senders[1]


@pytest.fixture(scope="module")
def found() -> list[flow.Judged]:
    """The kernel's rows beside what the simulator measures today."""
    return flow.judged(KERNEL)


def test_the_page_is_what_the_kept_rows_and_todays_simulator_give(found: list[flow.Judged]) -> None:
    assert len(found) == len(flow.cells())
    page = flow.page(KERNEL, found, nulls(KERNEL, found))
    assert page == flow.PAGE.read_text(), "python -m tailback_validation.flow_queues debian-6.1 writes it"
