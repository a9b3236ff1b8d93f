"""The wire against the kernel's netem: the cells, and that the page is today's."""

import pytest

import tailback as tb
from tailback_validation import netem

KERNEL = "debian-6.1"


def test_the_script_of_every_cell_leaves_nothing_out() -> None:
    assert len({cell.name for cell in netem.CELLS}) == len(netem.CELLS) == 12
    for cell in netem.CELLS:
        made = tb.export(cell.scenario(), "netem")
        assert made.left_out == ()
        # Where the cell has a wire or a step, the kernel's netem has more than the delay.
        words = [line for line in made.text.splitlines() if " netem " in line]
        plain = all(line.endswith(f"delay {cell.rtt_ms * 500}us") for line in words)
        assert plain != bool(cell.wire or cell.back_wire or cell.schedule), cell.name


def test_runs_needed_give_the_interval_asked_for() -> None:
    sim = [97.0, 103.0] * 50
    n = netem.runs_needed(sim)
    assert netem.Judged(netem.CELLS[0], tuple(sim), tuple(sim[:n])).half_width == pytest.approx(0.01, rel=0.05)


@pytest.mark.long
def test_the_page_is_what_the_kept_rows_and_todays_simulator_give() -> None:
    found = netem.judged(KERNEL)
    lossy = [each for each in found if each.cell.loses_at_random]
    assert [len(each.kernel) for each in found if each not in lossy] == [2] * 10
    assert [each.cell.runs for each in lossy] == [netem.runs_needed(each.sim) for each in lossy]
    assert netem.page(KERNEL, found) == netem.PAGE.read_text(), (
        "python -m tailback_validation.netem debian-6.1 writes it"
    )
