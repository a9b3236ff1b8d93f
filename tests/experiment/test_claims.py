"""What claims read of the runs: arrays by factor, numbers by name, and measures made of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tailback.experiment import AtLeast, Cell, Claim, Column, Data, Measured, NotRun, by_name, judge, of, table

DELAYS = (5, 80)


def made(*, seeds: tuple[int, ...] = (1, 2), without: Any = None) -> Data:
    """Reno and CUBIC at two delays; the rate is 100 × seed + delay, twice that of CUBIC."""
    cells, found = {}, {}
    for place, algorithm in enumerate(("reno", "cubic")):
        for delay in DELAYS:
            key = f"{algorithm}-{delay}"
            # Nothing here runs a scenario.
            factors = {"algorithm": algorithm, "delay_ms": delay, "change": None}
            cells[key] = Cell(key, key, None, factors)  # type: ignore[arg-type]
            for seed in seeds:
                rate = (place + 1) * (100.0 * seed + delay)
                found[key, seed] = {
                    "rate": rate,
                    "pages": {"4": {"mean": 4.0}, "64": {"mean": None}},
                    "took": [rate, 1],
                }
    return Data(cells, {run: one for run, one in found.items() if run != without}, seeds)


def test_factors_given_as_lists_are_the_axes_in_their_order():
    data = made()
    each = data.array("rate", 1, algorithm=("reno", "cubic"), delay_ms=DELAYS)
    assert each.tolist() == [[105.0, 180.0], [210.0, 360.0]]
    assert data.array("rate", 1, delay_ms=DELAYS, algorithm=("reno", "cubic")).tolist() == each.T.tolist()
    assert data.array("rate", algorithm="reno", delay_ms=5).tolist() == [105.0, 205.0]
    assert data.array("rate", 2, algorithm="cubic", delay_ms=80) == 560.0


def test_factors_that_change_together_are_one_axis():
    each = made().array("rate", 1, **{"algorithm,delay_ms": [("reno", 80), ("cubic", 5)]})
    assert each.tolist() == [180.0, 210.0]


def test_names_in_a_path_are_filled_in_and_lists_are_taken_from():
    data = made()
    pages = data.array("pages/{size}/mean", 1, algorithm="reno", delay_ms=5, size=(4, 64))
    assert pages[0] == 4.0
    assert np.isnan(pages[1])
    assert data.array("took", 1, algorithm="reno", delay_ms=5, take=max) == 105.0


def test_a_cell_of_the_grid_that_was_not_run_is_no_gap():
    data = made(without=("reno-80", 1))
    with pytest.raises(NotRun, match="reno"):
        data.array("rate", 1, algorithm="reno", delay_ms=DELAYS)
    assert np.isnan(data.array("rate", 1, strict=False, algorithm="reno", delay_ms=80))
    # Not in the grid, so no run was due.
    assert np.isnan(data.array("rate", 1, algorithm="vegas", delay_ms=5))
    with pytest.raises(NotRun, match="vegas"):
        data.array("rate", 1, whole=True, algorithm="vegas", delay_ms=5)


def test_numbers_are_named_by_their_axes_and_averaged_over_the_others():
    values = [[1.0, 3.0], [np.nan, np.nan]]
    axes: dict[str, Any] = {"algorithm": ("reno", "cubic"), "delay_ms": DELAYS}
    assert by_name("{algorithm}", values, {"reno": "NewReno"}, **axes) == {"NewReno": 2.0}
    assert by_name("{delay_ms} ms, {algorithm}", values, **axes) == {"5 ms, reno": 1.0, "80 ms, reno": 3.0}


def test_a_measure_names_what_it_read_and_what_it_made_of_it():
    lost = of(
        "rate", lambda rate: rate[:, 1] / rate[:, 0], min, each="{algorithm}, far over near", beside="{delay_ms} ms",
        scale=10.0, algorithm=("reno", "cubic"), delay_ms=DELAYS,
    )  # fmt: skip
    measured = lost(made(), 1)
    assert measured == Measured(
        180 / 105,
        {"reno, far over near": 180 / 105, "cubic, far over near": 360 / 210, "5 ms": 1575.0, "80 ms": 2700.0},
    )
    others = of(
        "rate", lambda rate: rate[1:] - rate[:1], max, each="{algorithm}", algorithm=("reno", "cubic"), delay_ms=5
    )
    assert others(made(), 1).parts == {"cubic": 105.0}


def test_a_claim_whose_runs_are_not_there_is_not_measured():
    claim = Claim("T", "", "", "", "", "", of("rate", float, algorithm="reno", delay_ms=80), AtLeast(1, 0), "f")
    assert judge(claim, made(without=("reno-80", 1))).values == [280.0]
    assert judge(claim, Data({}, {}, (1,))).verdict == "not measured"


def test_a_table_shows_medians_and_leaves_out_what_was_not_run():
    columns = (
        Column("rate", "rate", 1, 0.1),
        Column("64", "pages/64/mean"),
        Column("half", lambda run: run["rate"] / 2),
    )
    data = made(seeds=(1, 2, 3))
    rows = (([algorithm], data.runs(algorithm=algorithm, delay_ms=5)) for algorithm in ("reno", "vegas"))
    shown = table("t", "T", "", ("algorithm",), columns, rows)
    assert (shown.columns, shown.rows) == (["algorithm", "rate", "64", "half"], [["reno", "20.5", "–", "102.50"]])
