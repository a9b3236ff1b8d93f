"""The study of pairs: harm by its definition, the frontier by its own, and one cell of the grid run."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import tailback as tb
from synthetic import scenario
from tailback import registry
from tailback.experiment import Data, studies
from tailback.metrics import Rows
from tailback_papers.beyond import claims, grid, harm
from tailback_papers.beyond.extract import page_s, summarise

PATH = grid.PATHS["dumbbell"]


def harm_beside(rating: float, page_s: float, alone: tuple[float, float] = (90.0, 2.0)) -> dict:
    """What `harms` makes of a run of CUBIC with FIFO, beside that of call and reader alone."""
    cells = {cell.key: cell for cell in grid.all_cells(True)}
    keys = {"alone": "dumbbell-alone", "beside": "dumbbell-cubic-fifo"}
    made = {"alone": alone, "beside": (rating, page_s)}
    found = {
        (keys[name], 1): {"rating": rating, "page_s": page_s, "mbps": 1.0} for name, (rating, page_s) in made.items()
    }
    (row,) = harm.harms(Data(cells, found, (1,))).to_dicts()
    return row


def test_harm_is_what_was_taken_over_what_there_was():
    assert harm_beside(45.0, 2.0)["call"] == pytest.approx(0.5)
    assert harm_beside(90.0, 8.0)["page"] == pytest.approx(0.75)
    assert harm_beside(90.0, math.inf)["page"] == 1.0
    assert harm_beside(45.0, 8.0)["harm"] == pytest.approx(0.75)
    # Better off than alone is no harm, not a negative one.
    assert harm_beside(91.0, 1.0)["harm"] == 0.0


def outcome(algorithm: str, queue: str, mbps: float, harms: tuple[float, ...]) -> harm.Outcome:
    return harm.Outcome(algorithm, queue, PATH, pl.DataFrame({"harm": harms, "mbps": [mbps] * len(harms)}))


def test_no_pair_on_the_frontier_is_beaten_in_both():
    rng = np.random.default_rng(1)
    found = [outcome("reno", "fifo", float(m), (float(h), float(h))) for m, h in rng.random((60, 2))]
    front = harm.OnPath(PATH, found).frontier
    for one in front:
        assert not any(
            other.throughput.estimate > one.throughput.estimate and other.harm.estimate < one.harm.estimate
            for other in found
        )
    for other in found:
        assert other in front or any(
            one.throughput.estimate >= other.throughput.estimate and one.harm.estimate <= other.harm.estimate
            for one in front
        )


def test_only_pairs_with_nine_tenths_of_the_best_are_eligible_least_harm_first():
    found = [
        outcome("reno", "fifo", 10.0, (0.9,)),
        outcome("vegas", "fifo", 8.9, (0.0,)),
        outcome("cubic", "pie", 9.1, (0.4,)),
        outcome("cubic", "codel", 9.5, (0.2,)),
    ]
    assert [one.queue for one in harm.OnPath(PATH, found).eligible] == ["codel", "pie", "fifo"]


def test_variance_is_between_the_levels_of_the_factor_that_makes_it():
    values = [0.1, 0.7, 0.1, 0.7]
    # Four values 0.3 from their mean; nothing of it lies between the algorithms.
    assert harm.variance_between(values, ["pie", "fifo", "pie", "fifo"]) == pytest.approx(4 * 0.3**2)
    assert harm.variance_between(values, ["reno", "reno", "cubic", "cubic"]) == pytest.approx(0.0)


def test_the_queues_variance_is_set_over_the_algorithms():
    runs = pl.DataFrame(
        {
            "algorithm": ["reno", "reno", "cubic", "cubic"],
            "queue": ["fifo", "pie", "fifo", "pie"],
            "harm": [0.9, 0.3, 0.7, 0.1],
        }
    )
    # Means 0.8 and 0.2 by queue, 0.6 and 0.4 by algorithm: 0.3² over 0.1².
    assert claims.queue_over_algorithm(runs) == pytest.approx(9.0)


def test_an_object_still_awaited_counts_with_the_time_it_has_taken():
    sizes = [1000 * 2**n for n in range(8)]
    asked = np.arange(20.0, 28.0)
    took = np.ones(8)
    took[7] = np.nan  # asked for at 27 s of 60
    table = {
        "flow": np.zeros(8, np.uint32), "t_s": asked, "bytes": np.array(sizes), "response_time_s": took,
        "fate": np.array([0] * 7 + [2]),
    }  # fmt: skip
    named = scenario(duration_s=60.0)
    named["flows"][0]["name"] = "page"
    assert page_s(Rows({"requests": table}, named)) == pytest.approx(7.0 + 33.0)
    fewer = {key: column[:7] for key, column in table.items()}
    assert page_s(Rows({"requests": fewer}, named)) == math.inf


def test_every_algorithm_there_is_meets_every_queue_on_every_path():
    cells = grid.all_cells(False)
    names = registry.names("algorithms")
    assert len(cells) == len(grid.PATHS) * (1 + len(names) * len(grid.QUEUES))
    assert len({cell.key for cell in cells}) == len(cells)


@pytest.mark.parametrize("name", grid.PATHS)
@pytest.mark.parametrize("queue", ["fifo", "fq-codel"])
def test_the_queue_exchanged_is_that_of_the_link_named(name, queue):
    path = grid.PATHS[name]
    made = grid.scenario(path, "cubic", queue, "x").resolve()
    used = {link["name"]: link["queue"]["discipline"] for link in made["links"] if link.get("queue")}
    assert used[path.link] == ("fifo" if queue == "fifo" else "fq_codel")
    assert all(discipline == "fifo" for link, discipline in used.items() if link != path.link)


def test_a_full_fifo_harms_and_fair_queueing_harms_less():
    """The textbook's expectation, on the dumbbell at an eighth of its length."""
    short = {
        queue: grid.scenario(PATH, "cubic", queue, queue).with_({}, duration="25s") for queue in ("fifo", "fq-codel")
    }
    short["alone"] = grid.scenario(PATH, None, "fifo", "alone").with_({}, duration="25s")
    cells = {cell.key: cell for cell in grid.all_cells(True)}
    kept = {
        key: summarise(cells["dumbbell-alone" if key == "alone" else f"dumbbell-cubic-{key}"], tb.run(made))
        for key, made in short.items()
    }
    assert kept["alone"]["rating"] > 92
    alone = (kept["alone"]["rating"], kept["alone"]["page_s"])
    full, fair = (harm_beside(kept[queue]["rating"], kept[queue]["page_s"], alone) for queue in ("fifo", "fq-codel"))
    assert full["page"] > 2 * fair["page"]
    assert kept["fifo"]["mbps"] > 8


def test_answers_and_tables_come_without_runs_too(tmp_path):
    study = studies.get("beyond")
    nothing = Data({}, {}, (1,))
    assert all(table.rows == [] for table in study.tables(nothing))
    assert all(claim.measure(nothing, 1) is None for claim in study.claims)
